/* host: files as memory, and a file that shrinks while mapped. */
#include <errno.h>
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/filemap.h"

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/kentang-filemap-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    return rmdir(dir);
}

static void make_file(char path[96], const char *name, size_t size) {
    snprintf(path, 96, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    for (size_t i = 0; i < size; i++) fputc((int)(i % 251), f);
    assert_int_equal(fclose(f), 0);
}

static size_t pages_in_memory(const char *path, size_t size) {
    unsigned char present[1024];
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_true(size / 4096 <= sizeof present);
    assert_int_equal(mincore(p, size, present), 0);
    for (size_t i = 0; i < size / 4096; i++) n += present[i] & 1;
    munmap(p, size);
    close(fd);
    return n;
}

static void drop_pages(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
}

/* Or the model would be in memory twice. */
static void test_a_copy_leaves_no_pages(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    char path[96];
    kt__filemap map;
    kt_error err;
    make_file(path, "b", SIZE);
    drop_pages(path);
    if (pages_in_memory(path, SIZE) == 0) { /* not in tmpfs */
        assert_int_equal(kt__filemap_open(path, false, false, &map, &err), KT_OK);
        assert_int_equal(map.data[SIZE - 1], (SIZE - 1) % 251);
        assert_true(pages_in_memory(path, SIZE) < 16);
        kt__filemap_close(&map);
    }
    unlink(path);
}

static void test_map_and_copy_hold_the_file(void **state) {
    (void)state;
    char path[96];
    make_file(path, "a", 70001);
    for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
        kt__filemap map;
        kt_error err;
        assert_int_equal(kt__filemap_open(path, use_mmap, false, &map, &err), KT_OK);
        assert_int_equal(map.size, 70001);
        assert_int_equal(map.mapped, use_mmap);
        assert_int_equal((uintptr_t)map.data % 4096, 0);
        for (size_t i = 0; i < 70001; i++)
            if (map.data[i] != i % 251) fail_msg("byte %zu", i);
        assert_int_equal(kt__filemap_check(&map, &err), KT_OK);
        kt__filemap_close(&map);
        kt__filemap_close(&map);
    }
    unlink(path);
}

static void expect_refusal(const char *path, kt_status expected, const char *word) {
    for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
        kt__filemap map;
        kt_error err;
        assert_int_equal(kt__filemap_open(path, use_mmap, false, &map, &err), expected);
        assert_string_equal(err.where, path);
        if (!strstr(err.message, word)) fail_msg("no '%s' in '%s'", word, err.message);
        kt__filemap_close(&map);
    }
}

static void test_refusals_name_the_file(void **state) {
    (void)state;
    char path[96];
    expect_refusal("/nonexistent/model.gguf", KT_E_IO, "No such file");
    expect_refusal(dir, KT_E_IO, "directory");
    expect_refusal("/dev/null", KT_E_IO, "regular");
    make_file(path, "empty", 0);
    expect_refusal(path, KT_E_FORMAT, "empty");
    unlink(path);
    snprintf(path, sizeof path, "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(path, KT_E_IO, "regular"); /* and does not wait for a writer */
    unlink(path);
}

static void test_mlock_refusal_names_the_limit(void **state) {
    (void)state;
    char path[96];
    make_file(path, "lock", 100000);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
    kt__filemap map;
    kt_error err;
    pid_t pid = fork(); /* as nobody: root may lock what it likes */
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0, 0};
        if (setrlimit(RLIMIT_MEMLOCK, &none) != 0) _exit(2);
        chmod(dir, 0755);
        if (geteuid() == 0 && setuid(65534) != 0) _exit(0);
        static char page[4096];
        if (mlock(page, sizeof page) == 0) _exit(0); /* nothing is refused here (sanitizers) */
        kt_status status = kt__filemap_open(path, true, true, &map, &err);
        _exit(status == KT_E_LIMIT && strstr(err.message, "RLIMIT_MEMLOCK") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    if (kt__filemap_open(path, true, true, &map, &err) == KT_OK) {
        assert_true(map.locked);
        kt__filemap_close(&map);
    }
    unlink(path);
}

static void test_check_sees_truncation(void **state) {
    (void)state;
    char path[96];
    make_file(path, "cut", 50000);
    kt__filemap map, copy;
    kt_error err;
    assert_int_equal(kt__filemap_open(path, true, false, &map, &err), KT_OK);
    assert_int_equal(kt__filemap_open(path, false, false, &copy, &err), KT_OK);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(kt__filemap_check(&map, &err), KT_E_TRUNCATED);
    assert_string_equal(err.where, path);
    assert_int_equal(err.offset, 100);
    assert_int_equal(kt__filemap_check(&copy, &err), KT_OK);
    assert_int_equal(copy.data[49999], 49999 % 251);
    kt__filemap_close(&map);
    kt__filemap_close(&copy);
    unlink(path);
}

/* ---- the guard: last, because it stays installed ---- */

static volatile sig_atomic_t n_foreign;
static void *volatile foreign_page;

/* What a host program may have: repairs its own fault, and knows nothing of ours. */
static void foreign_handler(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)info, (void)context;
    n_foreign++;
    if (mmap(foreign_page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        _exit(3);
}

static void install_handlers(void) {
    struct sigaction action = {.sa_sigaction = foreign_handler, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGBUS, &action, NULL), 0);
    kt_error err;
    assert_int_equal(kt_install_fault_guard(&err), KT_OK);
    assert_int_equal(kt_install_fault_guard(&err), KT_OK);
}

static void check_zeros_and_tells(void) {
    enum { SIZE = 20 * 4096 };
    char path[96];
    make_file(path, "guarded", SIZE);
    kt__filemap map;
    kt_error err;
    assert_int_equal(kt__filemap_open(path, true, false, &map, &err), KT_OK);
    assert_true(map.guard_slot >= 0);
    install_handlers(); /* a file mapped before is guarded, too */
    assert_int_equal(truncate(path, 5 * 4096), 0);
    volatile const uint8_t *data = map.data;
    assert_int_equal(data[15 * 4096 + 7], 0);
    assert_int_equal(data[SIZE - 1], 0);
    assert_int_equal(data[6 * 4096], 0);
    assert_int_equal(data[4096], 4096 % 251);
    assert_int_equal(n_foreign, 0);
    /* even if the file has its length again, what was computed is not to be trusted */
    assert_int_equal(truncate(path, SIZE), 0);
    assert_int_equal(kt__filemap_check(&map, &err), KT_E_TRUNCATED);
    assert_string_equal(err.where, path);
    kt__filemap_close(&map);
    unlink(path);
}

static void check_other_faults_pass(void) {
    char path[96];
    make_file(path, "foreign", 4096);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    volatile uint8_t *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(page != MAP_FAILED);
    foreign_page = (void *)(uintptr_t)page;
    assert_int_equal(truncate(path, 0), 0);
    n_foreign = 0;
    assert_int_equal(page[9], 0);
    assert_int_equal(n_foreign, 1);
    raise(SIGBUS); /* sent, not a fault */
    assert_int_equal(n_foreign, 2);
    munmap(foreign_page, 4096);
    close(fd);
    unlink(path);
}

static void test_guard(void **state) {
    (void)state;
    check_zeros_and_tells();
    check_other_faults_pass();
}

static void test_guard_table_full_is_no_error(void **state) {
    (void)state;
    static int taken[2000];
    static const char range[16];
    int n = 0;
    while (n < 2000 && (taken[n] = kt__fault_guard_add(range, sizeof range)) >= 0) n++;
    assert_in_range(n, 100, 1999);
    char path[96];
    make_file(path, "unguarded", 5000);
    kt__filemap map;
    kt_error err;
    assert_int_equal(kt__filemap_open(path, true, false, &map, &err), KT_OK);
    assert_int_equal(map.guard_slot, -1);
    assert_int_equal(kt__filemap_check(&map, &err), KT_OK);
    kt__filemap_close(&map);
    for (int i = 0; i < n; i++) kt__fault_guard_remove(taken[i]);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_and_copy_hold_the_file),
        cmocka_unit_test(test_a_copy_leaves_no_pages),
        cmocka_unit_test(test_refusals_name_the_file),
        cmocka_unit_test(test_mlock_refusal_names_the_limit),
        cmocka_unit_test(test_check_sees_truncation),
        cmocka_unit_test(test_guard),
        cmocka_unit_test(test_guard_table_full_is_no_error),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
