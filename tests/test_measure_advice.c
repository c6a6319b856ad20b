/* Which recipe is recommended: by memory, by speed, and none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "convert/convert.h"
#include "measure/limits.h"

static const char demo[] = KT_SOURCE_DIR "/src/lib/context/demo.gguf";

static const char *advised(uint64_t memory, double read) {
    static kt__advice advice;
    kt_error err;
    assert_int_equal(kt__advise(demo, memory, read, &advice, &err), KT_OK);
    assert_true(advice.why[0] != 0);
    return advice.best < KT__ADVICE_ROWS ? advice.rows[advice.best].recipe : "none";
}

static uint64_t bytes_of(const char *recipe) {
    uint64_t bytes;
    kt_error err;
    assert_int_equal(kt__quantize_bytes(demo, kt__recipe_find(recipe), &bytes, &err), KT_OK);
    return bytes;
}

static void test_memory(void **state) {
    (void)state;
    assert_string_equal(advised(UINT64_C(1) << 40, 0), "q8_0");
    assert_string_equal(advised(bytes_of("q5_k_m") * 4 / 3 + 4, 0), "q5_k_m");
    assert_string_equal(advised(bytes_of("q2_k") * 4 / 3 + 4, 0), "q2_k");
    assert_string_equal(advised(1000, 0), "none");
}

static void test_speed(void **state) {
    (void)state;
    double q8 = (double)bytes_of("q8_0");
    assert_string_equal(advised(UINT64_C(1) << 40, 7 * q8), "q8_0");
    assert_string_equal(advised(UINT64_C(1) << 40, 5.5 * q8), "q6_k");
    assert_string_equal(advised(UINT64_C(1) << 40, 0.1 * q8), "iq4_xs");
}

static void test_bytes_are_those_of_the_file(void **state) {
    (void)state;
    struct stat st;
    uint64_t bytes;
    kt_error err;
    char path[] = "/tmp/kentang-advice-XXXXXX";
    int fd = mkstemp(path);
    const kt__recipe *recipe = kt__recipe_find("q4_0");
    const kt__quantize_params params = {.source = demo, .recipe = recipe};
    const kt__convert_output output = {.target = path, .n_threads = 2, .effort = KT__EFFORT_FAST};
    kt__convert_report report;
    assert_true(fd >= 0);
    assert_int_equal(kt__quantize_file(&params, &output, &report, &err), KT_OK);
    assert_int_equal(kt__quantize_bytes(demo, recipe, &bytes, &err), KT_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_true(llabs((long long)st.st_size - (long long)bytes) < 256);
    assert_int_equal(remove(path), 0);
    assert_int_equal(kt__quantize_bytes("/nowhere.gguf", recipe, &bytes, &err), KT_E_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_speed),
        cmocka_unit_test(test_bytes_are_those_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
