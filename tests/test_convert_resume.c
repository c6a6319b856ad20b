/* convert: a conversion that is killed goes on, and gives the same bytes; failures of memory and of
 * the disk leave nothing behind. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "convert/convert.h"
#include "convert_folder.h"
#include "fault_alloc.h"

enum { N_VOCAB = 60000, CHECKPOINT = 64 << 10 };

static char dir[] = "/tmp/kt_convert_XXXXXX";
static char folder[64], target[64], part[64];
static kt_error err;

static int make_dir(void **state) {
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(folder, sizeof folder, "%s/model", dir);
    snprintf(target, sizeof target, "%s/out.gguf", dir);
    snprintf(part, sizeof part, "%s/out.gguf.part", dir);
    cf_folder(folder, N_VOCAB);
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static kt_status convert_to(const char *path, const char *type, int n_threads,
                            kt__convert_report *report) {
    const kt__convert_output output = {
        .target = path, .n_threads = n_threads, .checkpoint_bytes = CHECKPOINT};
    return kt__convert_folder(folder, kt__recipe_find(type), &output, report, &err);
}

static char *read_all(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*n + 1);
    assert_int_equal(fread(data, 1, *n, f), *n);
    fclose(f);
    return data;
}

static bool is_there(const char *path) {
    return access(path, F_OK) == 0;
}

static void assert_same(const char *path, const char *want, size_t n_want) {
    size_t n;
    char *data = read_all(path, &n);
    assert_int_equal(n, n_want);
    assert_memory_equal(data, want, n);
    free(data);
}

static void test_threads_give_the_same_bytes(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f16", "q8_0", "q4_0"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        kt__convert_report report;
        size_t n;
        assert_int_equal(convert_to(target, types[i], 1, &report), KT_OK);
        char *want = read_all(target, &n);
        for (int t = 2; t <= 5; t += 3) {
            assert_int_equal(convert_to(target, types[i], t, &report), KT_OK);
            assert_same(target, want, n);
        }
        free(want);
    }
}

/* A child that is killed after some time, from its beginning or from when its file is there; whether
 * it came to the end. */
static bool run_and_kill(const char *type, bool once_writing, long after_us) {
    pid_t child = fork();
    if (child == 0) {
        kt__convert_report report;
        _exit(convert_to(target, type, 2, &report) == KT_OK ? 0 : 1);
    }
    const struct timespec wait = {after_us / 1000000, after_us % 1000000 * 1000};
    int status;
    pid_t ended = 0;
    while (once_writing && !is_there(part) && !ended) ended = waitpid(child, &status, WNOHANG);
    if (!ended) {
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return !WIFSIGNALED(status);
}

static void test_killed_goes_on(void **state) {
    (void)state;
    kt__convert_report report;
    size_t n;
    int n_resumed = 0;
    int64_t begin = kt__now_us();
    assert_int_equal(convert_to(target, "q8_0", 2, &report), KT_OK);
    const long whole_us = (long)(kt__now_us() - begin) + 1000;
    char *want = read_all(target, &n);
    /* the whole may have taken long by chance: then other times, until one was in the midst of writing */
    for (long i = 0; i < 25 || (n_resumed == 0 && i < 400); i++) {
        unlink(target);
        bool complete = false;
        for (int tries = 0; tries < 3 && !complete; tries++)
            complete = run_and_kill("q8_0", i % 2 == 1, whole_us * (i % 25 + 1) / 25 / (1 + i % 4));
        if (is_there(target)) assert_same(target, want, n); /* killed after the rename */
        assert_int_equal(convert_to(target, "q8_0", 2, &report), KT_OK);
        n_resumed += report.resumed_bytes > 0;
        assert_same(target, want, n);
        assert_false(is_there(part));
    }
    assert_true(n_resumed > 0);
    free(want);
}

/* Work of another type, or on another file, is not gone on with. */
static void test_other_work_begins_anew(void **state) {
    (void)state;
    kt__convert_report report;
    size_t n;
    assert_int_equal(convert_to(target, "f16", 2, &report), KT_OK);
    char *want = read_all(target, &n);
    unlink(target);
    for (int i = 0; i < 200 && !is_there(part); i++) {
        (void)run_and_kill("q8_0", true, i * 100);
        unlink(target);
    }
    assert_true(is_there(part));
    assert_int_equal(convert_to(target, "f16", 2, &report), KT_OK);
    assert_int_equal(report.resumed_bytes, 0);
    assert_same(target, want, n);
    free(want);
}

static void test_one_at_a_time(void **state) {
    (void)state;
    kt__convert_report report;
    unlink(target);
    int fd = open(part, O_RDWR | O_CREAT, 0666);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(convert_to(target, "f16", 2, &report), KT_E_STATE);
    assert_non_null(strstr(err.message, "another conversion"));
    assert_true(is_there(part));
    close(fd);
    assert_int_equal(convert_to(target, "f16", 2, &report), KT_OK);
    assert_false(is_there(part));
}

/* In a child: limits of the process stay. */
static void test_full_disk(void **state) {
    (void)state;
    unlink(target);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {1 << 20, 1 << 20};
        kt__convert_report report;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        kt_status status = convert_to(target, "f32", 2, &report);
        _exit(status == KT_E_IO && strstr(err.message, "no room") ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_false(is_there(target) || is_there(part));
}

static void test_failed_allocations(void **state) {
    (void)state;
    kt__convert_report report;
    snprintf(folder, sizeof folder, "%s/small", dir);
    cf_folder(folder, CF_VOCAB);
    unlink(target);
    size_t before = live;
    long calls = 0;
    for (fail_at = 0;; fail_at++) {
        n_calls = 0;
        kt_status status = convert_to(target, "q4_0", 1, &report);
        calls = n_calls;
        assert_int_equal(live, before);
        if (status == KT_OK) break;
        if (status != KT_E_NOMEM && status != KT_E_LIMIT)
            fail_msg("call %ld: %s", fail_at, err.message);
        assert_false(is_there(target) || is_there(part));
        unlink(target);
    }
    fail_at = -1;
    assert_true(calls > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_give_the_same_bytes),
        cmocka_unit_test(test_killed_goes_on),
        cmocka_unit_test(test_other_work_begins_anew),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_failed_allocations),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
