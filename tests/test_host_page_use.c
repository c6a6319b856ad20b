/* host: in which pages memory lies, and a file that is brought from small ones into large ones. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/pages.h"

enum { FILE_BYTES = 48 << 20 };

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/kentang-page-use-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command) == 0 ? 0 : -1;
}

/* ---- counting ---- */

static void write_smaps(const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/proc", dir);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/proc/self", dir);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/proc/self/smaps", dir);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void test_counts_the_mappings_in_the_stretch(void **state) {
    (void)state;
    kt__page_use use;
    write_smaps("10000000-10400000 r--s 00000000 fe:00 1  /before\n"
                "Rss:                4096 kB\n"
                "FilePmdMapped:      4096 kB\n"
                "10400000-10800000 r--s 00000000 fe:00 2  /model 10500000-1 Rss: 7 kB\n"
                "Rss:                3000 kB\n"
                "AnonHugePages:         0 kB\n"
                "FilePmdMapped:      2048 kB\n"
                "VmFlags: rd mr sh\n"
                "10800000-10c00000 r--s 00400000 fe:00 2  /model\n"
                "Rss:                  64 kB\n"
                "AnonHugePages:        64 kB\n"
                "nonsense\n"
                "10c00000-10d00000 r--s 00000000 fe:00 3  /after\n"
                "Rss:                1024 kB\n");
    assert_true(kt__page_use_at(dir, (void *)0x10400000, 0x800000, &use));
    assert_int_equal(use.bytes, 0x800000);
    assert_int_equal(use.mapped_bytes, 3064 * 1024);
    assert_int_equal(use.large_bytes, 2112 * 1024);
    /* a part of a mapping has at most its own bytes */
    assert_true(kt__page_use_at(dir, (void *)0x10500000, 4096, &use));
    assert_int_equal(use.mapped_bytes, 4096);
    assert_int_equal(use.large_bytes, 4096);
    assert_false(kt__page_use_at("/nowhere", dir, 1, &use));
}

static void test_words(void **state) {
    (void)state;
    char text[40];
    const struct {
        kt__page_use use;
        const char *want;
    } cases[] = {
        {{1000, 1000, 960}, "in large pages"},
        {{1000, 1000, 617}, "61% in large pages"},
        {{1000, 1000, 20}, "in small pages"},
        {{1000, 30, 0}, "in small pages"},
        {{1000, 0, 0}, ""},
        {{0, 0, 0}, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__page_use_text(&cases[i].use, text, sizeof text);
        assert_string_equal(text, cases[i].want);
    }
}

static void test_anonymous_memory(void **state) {
    (void)state;
    const size_t bytes = 4 * (size_t)KT__HUGE_PAGE_BYTES;
    kt__page_use use;
    uint8_t *p = kt__pages_alloc(bytes);
    assert_non_null(p);
    assert_true(kt__page_use_at("", p, bytes, &use));
    assert_int_equal(use.mapped_bytes, 0);
    memset(p, 1, bytes);
    assert_true(kt__page_use_at("", p, bytes, &use));
    assert_int_equal(use.mapped_bytes, bytes);
    kt__pages_free(p, bytes);
}

/* ---- a file ---- */

static uint8_t byte_at(size_t i) {
    return (uint8_t)(i * 2654435761u >> 24);
}

static void open_file(kt__filemap *map) {
    char path[96];
    kt_error err;
    snprintf(path, sizeof path, "%s/file", dir);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    for (size_t i = 0; i < FILE_BYTES + 5; i++) putc_unlocked(byte_at(i), f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(kt__filemap_open(path, true, false, map, &err), KT_OK);
    assert_true(kt__filemap_shows_pages(map));
    unlink(path);
}

static void check_file(kt__filemap *map) {
    for (size_t i = 0; i < FILE_BYTES + 5; i++)
        if (map->data[i] != byte_at(i)) fail_msg("byte %zu differs", i);
    kt__filemap_close(map);
}

static bool count_down(void *arg) {
    return (*(int *)arg)-- > 0;
}

static void test_the_bytes_stay(void **state) {
    (void)state;
    kt__filemap map;
    kt__page_use before, after;
    int most = 1000;
    open_file(&map);
    assert_true(kt__page_use_of_file(&map, &before));
    kt__relay_end end = kt__relay_run(&map, count_down, &most);
    assert_true(kt__page_use_of_file(&map, &after));
    printf("relay: %d; large before %llu, after %llu of %llu KiB\n", (int)end,
           (unsigned long long)before.large_bytes / 1024,
           (unsigned long long)after.large_bytes / 1024, (unsigned long long)after.bytes / 1024);
    assert_int_not_equal(end, KT__RELAY_STOPPED);
    if (before.large_bytes > before.bytes / 2)
        assert_int_equal(end, KT__RELAY_LARGE);
    else
        assert_int_not_equal(end, KT__RELAY_LARGE);
    check_file(&map);
}

static void test_stops(void **state) {
    (void)state;
    kt__filemap map;
    kt__page_use use;
    int most = 1;
    open_file(&map);
    assert_true(kt__page_use_of_file(&map, &use));
    kt__relay_end end = kt__relay_run(&map, count_down, &most);
    if (use.large_bytes < use.bytes / 2 && end != KT__RELAY_SLOW && end != KT__RELAY_SHARED &&
        end != KT__RELAY_UNKNOWN)
        assert_int_equal(end, KT__RELAY_STOPPED);
    check_file(&map);
}

static pid_t start_reader(const kt__filemap *map) {
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        unsigned sum = 0;
        for (size_t i = 0; i < map->size; i += 4096)
            sum += *(const volatile uint8_t *)&map->data[i];
        if (write(ready[1], &sum, 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void test_leaves_a_file_that_others_use(void **state) {
    (void)state;
    kt__filemap map;
    int most = 1000;
    open_file(&map);
    pid_t pid = start_reader(&map);
    kt__relay_end end = kt__relay_run(&map, count_down, &most);
    assert_true(end == KT__RELAY_SHARED || end == KT__RELAY_LARGE || end == KT__RELAY_UNKNOWN);
    if (end == KT__RELAY_SHARED)
        assert_int_equal(most, 999); /* it was found with the first slice */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    check_file(&map);
}

static void test_a_copy_is_left_alone(void **state) {
    (void)state;
    char path[96];
    kt__filemap map;
    kt_error err;
    int most = 1000;
    snprintf(path, sizeof path, "%s/copy", dir);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs("some bytes", f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(kt__filemap_open(path, false, false, &map, &err), KT_OK);
    assert_int_equal(kt__relay_run(&map, count_down, &most), KT__RELAY_UNKNOWN);
    assert_int_equal(most, 1000);
    kt__filemap_close(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_the_mappings_in_the_stretch),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_anonymous_memory),
        cmocka_unit_test(test_the_bytes_stay),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_leaves_a_file_that_others_use),
        cmocka_unit_test(test_a_copy_is_left_alone),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
