/* cli: tune writes what it found, and run uses it unless options say otherwise. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli_process.h"

static char home[256], environment[300], file[512];

static process run_here(const char *arguments) {
    process p = cli_run_env(environment, arguments, NULL);
    if (p.code != 0) fail_msg("kentang %s: exit code %d:\n%s", arguments, p.code, p.err);
    return p;
}

static void expect_plan(const char *arguments, const char *says, bool present) {
    process p = run_here(arguments);
    if ((strstr(p.err, says) != NULL) != present)
        fail_msg("kentang %s: \"%s\" %s in:\n%s", arguments, says, present ? "is not" : "is",
                 p.err);
    cli_free(&p);
}

static void append(const char *lines) {
    FILE *f = fopen(file, "a");
    assert_non_null(f);
    fputs(lines, f);
    fclose(f);
}

static void test_tune_writes_a_file(void **state) {
    (void)state;
    char pattern[400];
    glob_t found;
    process p = run_here("tune -r 2");
    static const char *const words[] = {"threads, decode", "threads, prefill", "ubatch, prefill",
                                        "default",         "chosen",           "confidence",
                                        "Written to"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(p.out, words[i])) fail_msg("no \"%s\" in\n%s", words[i], p.out);
    cli_free(&p);
    snprintf(pattern, sizeof pattern, "%s/kentang/tuned/*.conf", home);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(file, sizeof file, "%s", found.gl_pathv[0]);
    globfree(&found);
}

/* What cannot be written is said before anything is measured. */
static void test_no_folder_is_said_at_once(void **state) {
    (void)state;
    static const char *const nowhere[] = {"env -u XDG_CONFIG_HOME -u HOME",
                                          "XDG_CONFIG_HOME=/dev/null/x"};
    static const char *const says[] = {"no folder for settings", "cannot write"};
    for (size_t i = 0; i < 2; i++) {
        process p = cli_run_env(nowhere[i], "tune -r 2", NULL);
        assert_int_equal(p.code, 4);
        assert_non_null(strstr(p.err, says[i]));
        assert_null(strstr(p.err, "decode"));
        assert_string_equal(p.out, "");
        cli_free(&p);
    }
}

static void test_run_uses_it(void **state) {
    (void)state;
    expect_plan("run -v -p Hi -n 1", "| tuned 2", true);
    append("threads=1\nthreads-batch=3\nubatch=64\n");
    expect_plan("run -v -p Hi -n 1", "batch 2048/64", true);
    expect_plan("run -v -p Hi -n 1 -ub 32", "batch 2048/32", true);
    expect_plan("run -v -p Hi -n 1 -t 2", "threads 2,", true);
    expect_plan("run -v -p Hi -n 1 --no-tuned", "tuned", false);
    expect_plan("run -v -p Hi -n 1 --preset potato", "batch 1024/256", true);
    expect_plan("run -v -p Hi -n 1", "/3, ", true); /* more than there may be cores */
}

static void test_nonsense_is_ignored(void **state) {
    (void)state;
    append("ubatch=-5\nbatch=99999999999\nthreads=many\n=\nnobody\nubatch=\n");
    expect_plan("run -v -p Hi -n 1", "batch 2048/64", true);
    append("machine=another one\n");
    expect_plan("run -v -p Hi -n 1", "tuned", false);
}

static void test_dry_run_writes_nothing(void **state) {
    (void)state;
    assert_int_equal(unlink(file), 0);
    process p = run_here("tune -r 1 --dry-run");
    assert_null(strstr(p.out, "Written"));
    cli_free(&p);
    assert_int_not_equal(access(file, F_OK), 0);
}

static int make_home(void **state) {
    (void)state;
    snprintf(home, sizeof home, "%s/tune-XXXXXX", KT_BINARY_DIR);
    if (!mkdtemp(home)) return -1;
    snprintf(environment, sizeof environment, "XDG_CONFIG_HOME='%s'", home);
    return 0;
}

static int remove_home(void **state) {
    (void)state;
    char command[400];
    snprintf(command, sizeof command, "rm -r '%s'", home);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tune_writes_a_file),
        cmocka_unit_test(test_no_folder_is_said_at_once),
        cmocka_unit_test(test_run_uses_it),
        cmocka_unit_test(test_nonsense_is_ignored),
        cmocka_unit_test(test_dry_run_writes_nothing),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
