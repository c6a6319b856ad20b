/* Parts of a mapped file are read as they are, whether the page cache has them or not, wherever they begin and end. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/direct_read.h"

enum { BYTES = 300001 };

static char path[256];
static uint8_t bytes[BYTES];

static void open_file(kt__filemap *map, kt__direct_read *file) {
    kt_error err;
    snprintf(path, sizeof path, "%s/direct-%d", KT_BINARY_DIR, (int)getpid());
    for (int i = 0; i < BYTES; i++) bytes[i] = (uint8_t)(i * 7 + i / 251);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, BYTES, f), BYTES);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(kt__filemap_open(path, true, false, map, &err), KT_OK);
    assert_int_equal(kt__direct_read_open(map, file, &err), KT_OK);
}

static void close_file(kt__filemap *map, kt__direct_read *file) {
    kt__direct_read_close(file);
    kt__direct_read_close(file);
    kt__filemap_close(map);
    unlink(path);
}

static void drop_cached(const kt__filemap *map) {
    assert_int_equal(fsync(map->fd), 0);
    (void)posix_fadvise(map->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void test_parts(void **state) {
    static const struct {
        uint64_t at;
        size_t n;
    } parts[] = {{0, 1},        {0, 4096},       {5, 4091},      {4095, 2},
                 {4096, 8192},  {12345, 200000}, {BYTES - 1, 1}, {BYTES - 5000, 5000},
                 {1, BYTES - 1}};
    (void)state;
    kt__filemap map;
    kt__direct_read file;
    kt_error err;
    open_file(&map, &file);
    size_t unit = kt__direct_read_unit(), room = (BYTES / unit + 3) * unit;
    uint8_t *memory = aligned_alloc(unit, room);
    assert_non_null(memory);
    for (int cached = 0; cached < 2; cached++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            uint8_t *to = memory + parts[i].at % unit;
            if (!cached) drop_cached(&map);
            memset(memory, 0, room);
            assert_int_equal(kt__direct_read_part(&file, parts[i].at, parts[i].n, to, &err), KT_OK);
            assert_memory_equal(to, bytes + parts[i].at, parts[i].n);
        }
    free(memory);
    close_file(&map, &file);
}

static void test_shorter(void **state) {
    (void)state;
    kt__filemap map;
    kt__direct_read file;
    kt_error err;
    open_file(&map, &file);
    size_t unit = kt__direct_read_unit(), room = (BYTES / unit + 3) * unit;
    uint8_t *memory = aligned_alloc(unit, room);
    assert_non_null(memory);
    assert_int_equal(truncate(path, 10000), 0);
    assert_int_equal(kt__direct_read_part(&file, 100, 9900, memory + 100, &err), KT_OK);
    assert_memory_equal(memory + 100, bytes + 100, 9900);
    static const size_t at[] = {9000, 12288, 200000};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kt__direct_read_part(&file, at[i], 2000, memory + at[i] % unit, &err),
                         KT_E_TRUNCATED);
        assert_non_null(strstr(err.message, path));
    }
    free(memory);
    close_file(&map, &file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_shorter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
