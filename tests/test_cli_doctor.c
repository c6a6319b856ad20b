/* cli: doctor's report as programs read it. */
#include <dirent.h>
#include <jansson.h>
#include <kentang.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* Runs "ENVIRONMENT kentang doctor ARGUMENTS"; its JSON, or NULL for text. */
static json_t *run_doctor(const char *environment, const char *arguments, int expected_exit) {
    char command[1024];
    snprintf(command, sizeof command, "%s '%s/kentang' doctor %s", environment, KT_BINARY_DIR,
             arguments);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    json_error_t error;
    json_t *report = json_loadf(out, 0, &error);
    while (fgetc(out) != EOF) continue;
    int status = pclose(out);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected_exit);
    return report;
}

static const json_t *at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!value) fail_msg("no %s", key);
    return value;
}

static void check_machine(const json_t *report) {
    assert_string_equal(json_string_value(at(report, "version")), KT_VERSION);
    assert_true(json_is_object(at(at(report, "processor"), "features")));
    assert_true(json_array_size(at(at(report, "kernels"), "tiers")) >= 1);
    assert_true(json_is_string(at(at(report, "kernels"), "why")));
    assert_true(json_integer_value(at(at(report, "cores"), "physical")) >= 1);
    assert_true(json_integer_value(at(at(report, "memory"), "page_bytes")) >= 4096);
    assert_true(json_integer_value(at(report, "threads")) >= 1);
}

static void test_quick_measures_nothing(void **state) {
    (void)state;
    json_t *report = run_doctor("", "--quick --json", 0);
    assert_non_null(report);
    check_machine(report);
    assert_true(json_is_null(at(report, "limits")));
    json_decref(report);
}

static int count_entries(const char *path) {
    DIR *dir = opendir(path);
    assert_non_null(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void test_limits_are_measured_and_nothing_is_left(void **state) {
    (void)state;
    char dir[] = "/tmp/kentang-doctor-test-XXXXXX", environment[64];
    assert_non_null(mkdtemp(dir));
    snprintf(environment, sizeof environment, "TMPDIR=%s", dir);
    json_t *report = run_doctor(environment, "--json -t 2", 0);
    assert_non_null(report);
    check_machine(report);
    const json_t *limits = at(report, "limits");
    assert_int_equal(json_integer_value(at(report, "threads")), 2);
    if (*json_string_value(at(limits, "read_note")) == '\0') {
        assert_true(json_real_value(at(limits, "read_bytes_per_s")) > 1e6);
        assert_true(json_real_value(at(limits, "read_bytes_per_s_1_thread")) > 1e6);
        assert_true(json_integer_value(at(limits, "file_bytes")) <= INT64_C(512) << 20);
    }
    const json_t *peak = at(limits, "i8_mac_per_s");
    assert_true(json_is_null(peak) || json_real_value(peak) > 1e6);
    assert_true(json_is_boolean(at(at(report, "noise"), "noisy")));
    json_decref(report);
    assert_int_equal(count_entries(dir), 0);
    rmdir(dir);
}

static void test_odd_surroundings(void **state) {
    (void)state;
    json_t *report = run_doctor("KENTANG_ISA=$(printf 'x\\377')", "--quick --json", 0);
    assert_non_null(report);
    assert_true(json_is_string(at(at(report, "kernels"), "error")));
    json_decref(report);
    report = run_doctor("KENTANG_ISA=ref", "--quick --json", 0);
    assert_string_equal(json_string_value(at(at(report, "kernels"), "name")), "ref");
    assert_true(json_is_null(at(at(report, "kernels"), "error")));
    json_decref(report);
    assert_null(run_doctor("", "--quick", 0));
    assert_null(run_doctor("", "--threads -1 2>/dev/null", 2));
    assert_null(run_doctor("", "--nonsense 2>/dev/null", 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quick_measures_nothing),
        cmocka_unit_test(test_limits_are_measured_and_nothing_is_left),
        cmocka_unit_test(test_odd_surroundings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
