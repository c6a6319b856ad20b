/* A device that computes exactly is taken, and one that fails at a single check is refused in words:
 * on Mesa's software driver, which fails at one by itself, its fma. Skipped where that is not
 * installed (Debian: mesa-vulkan-drivers). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/system.h"
#include "gpu/vk.h"
#include "support.h"

static const char device[] = "llvmpipe";

static kt__gpu *gpu; /* that passed its test; NULL: there is no such device */
static char why[sizeof((kt_error *)0)->message];

static int open_device(void **state) {
    kt_error err;
    (void)state;
    /* stays loaded, so that a sanitizer does not take the driver's own memory for a leak */
    (void)kt__library_open("libvulkan_lvp.so");
    if (kt__gpu_open(device, NULL, NULL, &gpu, &err) != KT_OK)
        snprintf(why, sizeof why, "%s", err.message);
    return 0;
}

static int close_device(void **state) {
    (void)state;
    kt__gpu_close(gpu);
    return 0;
}

static void need_device(void) {
    if (gpu) return;
    printf("skipped: %s\n", why);
    skip();
}

static void test_drivers_fma_is_refused(void **state) {
    (void)state;
    need_device();
    assert_int_not_equal(gpu->fma, KT__FMA_DRIVER);
    assert_string_equal(kt__gpu_fma_name(gpu), "in f64");
}

static void test_missing_properties(void **state) {
    static const struct {
        const char *name, *words;
    } needs[] = {
        {"vulkan", "older than Vulkan 1.2"},   {"compute", "no queue that computes"},
        {"rounding", "round to the nearest"},  {"zeros", "sign of zeros"},
        {"addresses", "addresses of buffers"}, {"sharing", "does not reach this program's memory"}};
    (void)state;
    need_device();
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const kt__gpu_faults faults = {.missing = needs[i].name};
        kt__gpu *other;
        kt_error err;
        assert_int_equal(kt__gpu_open(device, NULL, &faults, &other, &err), KT_E_UNSUPPORTED);
        assert_null(other);
        assert_non_null(strstr(err.message, needs[i].words));
    }
}

/* Without the library, a driver, or a device. */
static void test_nothing_there(void **state) {
    const kt__gpu_faults no_library = {.library = "libvulkan-is-not-here.so.1"};
    kt__gpu *other;
    kt_error err;
    (void)state;
    assert_int_equal(kt__gpu_open(NULL, NULL, &no_library, &other, &err), KT_E_UNSUPPORTED);
    assert_null(other);
    assert_non_null(strstr(err.message, "libvulkan.so.1 is not installed"));
    need_device();
    setenv("VK_ICD_FILENAMES", "/nowhere/driver.json", 1);
    assert_int_equal(kt__gpu_open(NULL, NULL, NULL, &other, &err), KT_E_UNSUPPORTED);
    unsetenv("VK_ICD_FILENAMES");
    assert_null(other);
    assert_non_null(strstr(err.message, "is a driver installed? On Debian: mesa-vulkan-drivers"));
    assert_int_equal(kt__gpu_open(NULL, NULL, NULL, &other, &err), KT_E_UNSUPPORTED);
    assert_null(other);
    assert_non_null(strstr(err.message, "which is this processor"));
}

static void test_names(void **state) {
    kt__gpu *other;
    kt_error err;
    (void)state;
    need_device();
    assert_int_equal(kt__gpu_open("no such card", NULL, NULL, &other, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "no device is called no such card"));
    assert_int_equal(kt__gpu_open("15", NULL, NULL, &other, &err), KT_E_ARG);
}

/* Each operation of the tests, found wrong. */
static void test_wrong_operations(void **state) {
    enum { Q4_K = KT__CHECK_TYPES + KT__TYPE_Q4_K, Q8_0 = KT__CHECK_TYPES + KT__TYPE_Q8_0 };
    static const struct {
        const char *name;
        int check;
    } all[] = {{"fused multiply-add", KT__CHECK_BASE},
               {"sum", KT__CHECK_BASE},
               {"product of two numbers", KT__CHECK_BASE},
               {"division", KT__CHECK_BASE},
               {"square root", KT__CHECK_BASE},
               {"exponential", KT__CHECK_BASE},
               {"hyperbolic tangent", KT__CHECK_BASE},
               {"rounding to f16", KT__CHECK_BASE},
               {"reading of f16", KT__CHECK_BASE},
               {"reading of integers", KT__CHECK_BASE},
               {"quantising of activations", KT__CHECK_BASE},
               {"RMS norm", KT__CHECK_BASE},
               {"SiLU gate", KT__CHECK_BASE},
               {"GELU gate", KT__CHECK_BASE},
               {"clamped gate", KT__CHECK_BASE},
               {"squared ReLU", KT__CHECK_BASE},
               {"GELU", KT__CHECK_BASE},
               {"arithmetic of elements", KT__CHECK_BASE},
               {"product with Q4_K", Q4_K},
               {"product with Q8_0", Q8_0},
               {"experts with Q4_K", Q4_K},
               {"rotation of heads", KT__CHECK_FORMS},
               {"pages of keys and values", KT__CHECK_FORMS + KT__KV_Q4},
               {"attention", KT__CHECK_FORMS},
               {"attention", KT__CHECK_FORMS + KT__KV_Q8},
               {"codes of queries", KT__CHECK_FORMS + KT__KV_Q8}};
    (void)state;
    need_device();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char words[128];
        kt_error err;
        gpu->faults.wrong = all[i].name;
        assert_int_equal(kt__gpu_self_test(gpu, all[i].check, &err), KT_E_UNSUPPORTED);
        snprintf(words, sizeof words, "its %s differs", all[i].name);
        if (!strstr(err.message, words)) fail_msg("%s: %s", all[i].name, err.message);
    }
    gpu->faults.wrong = NULL;
}

static bool is_long(void) {
    const char *how = getenv("KT_TEST_GPU");
    if (!how) printf("skipped: seconds of compiling; KT_TEST_GPU=all\n");
    return how;
}

static void test_every_check(void **state) {
    kt_error err;
    (void)state;
    need_device();
    if (!is_long()) skip();
    for (int check = 0; check < KT__CHECKS; check++) {
        bool is_type = check >= KT__CHECK_TYPES && check < KT__CHECK_FORMS;
        if (is_type && !kt__gpu_takes((kt__type)(check - KT__CHECK_TYPES))) continue;
        die_on(kt__gpu_self_test(gpu, check, &err), &err);
    }
}

/* In integers, as on a device without f64; last, since it stays so. In the short form of the base its fma alone,
 * which comes before the sum that ends it. */
static void test_fma_in_integers(void **state) {
    kt_error err;
    (void)state;
    need_device();
    gpu->faults.first_fma = KT__FMA_INTEGERS;
    gpu->faults.wrong = "sum";
    assert_int_equal(kt__gpu_self_test(gpu, KT__CHECK_BASE, &err), KT_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "its sum differs"));
    assert_string_equal(kt__gpu_fma_name(gpu), "in integers");
    gpu->faults.wrong = NULL;
    die_on(kt__gpu_self_test(gpu, KT__CHECK_TYPES + KT__TYPE_Q4_0, &err), &err);
    if (getenv("KT_TEST_GPU")) test_every_check(state);
    gpu->faults.first_fma = 0;
}

/* Products of four bytes at once, which this driver has, but does not call fast. */
static void test_byte_dots(void **state) {
    const kt__gpu_faults dots = {.slow_dots = true};
    kt__gpu *other;
    kt_error err;
    (void)state;
    need_device();
    if (!is_long()) skip();
    die_on(kt__gpu_open(device, NULL, &dots, &other, &err), &err);
    assert_true(other->dots);
    for (int type = 0; type < KT__TYPE_COUNT; type++)
        if (kt__gpu_takes((kt__type)type))
            die_on(kt__gpu_prove_type(other, (kt__type)type, &err), &err);
    assert_non_null(other->pipelines[other->fma][KT__SHADER_mm_tile_dots][0]);
    assert_non_null(other->pipelines[other->fma][KT__SHADER_mm_one_dots][0]);
    kt__gpu_close(other);
}

/* A library in place of NVIDIA's. */
static char asked_for[64];
static int n_started;

static int fake_init(void) {
    n_started++;
    return 0;
}

static int fake_shutdown(void) {
    n_started--;
    return 0;
}

static int fake_handle(const char *uuid, void **out) {
    snprintf(asked_for, sizeof asked_for, "%s", uuid);
    *out = asked_for;
    return 0;
}

static int fake_temperature(void *of, unsigned sensor, unsigned *out) {
    *out = of == asked_for && sensor == 0 ? 61 : 0;
    return 0;
}

static int fake_power(void *of, unsigned *out) {
    *out = of == asked_for ? 70500 : 0;
    return 0;
}

static const char *left_out;

static void *find_fake(const char *name) {
    static int (*const init)(void) = fake_init, (*const shutdown)(void) = fake_shutdown;
    static int (*const handle)(const char *, void **) = fake_handle;
    static int (*const temperature)(void *, unsigned, unsigned *) = fake_temperature;
    static int (*const power)(void *, unsigned *) = fake_power;
    const struct {
        const char *name;
        const void *at;
    } all[] = {{"nvmlInit_v2", &init},
               {"nvmlShutdown", &shutdown},
               {"nvmlDeviceGetHandleByUUID", &handle},
               {"nvmlDeviceGetTemperature", &temperature},
               {"nvmlDeviceGetPowerUsage", &power}};
    void *out = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0 && (!left_out || strcmp(left_out, name) != 0))
            memcpy(&out, all[i].at, sizeof out);
    return out;
}

static void test_health(void **state) {
    const kt__gpu_faults faults = {.nvml = find_fake, .untested = true};
    (void)state;
    need_device();
    assert_true(kt__gpu_get_health(gpu).power_w == 0); /* this driver has none */
    for (int missing = 0; missing < 2; missing++) {
        kt__gpu *other;
        kt_error err;
        left_out = missing ? "nvmlDeviceGetPowerUsage" : NULL;
        die_on(kt__gpu_open(device, NULL, &faults, &other, &err), &err);
        kt__gpu_health health = kt__gpu_get_health(other);
        assert_true(health.temperature_c == (missing ? 0 : 61));
        assert_true(health.power_w == (missing ? 0 : 70.5f));
        assert_int_equal(n_started, !missing);
        kt__gpu_close(other);
        assert_int_equal(n_started, 0);
    }
    assert_int_equal(strlen(asked_for), 40);
    assert_int_equal(strspn(asked_for, "GPU-0123456789abcdef"), 40);
}

/* More of other kinds than commands are kept of, each twice: what is submitted is what was put down. */
static void test_commands_are_kept(void **state) {
    enum { SCALE = 6, N = KT__GPU_RECORDS + 20 };
    kt__gpu_tape tape;
    kt__gpu_buffer buffer;
    kt_error err;
    (void)state;
    need_device();
    die_on(kt__gpu_tape_create(gpu, &tape, &err), &err);
    die_on(kt__gpu_buffer_make(gpu, 4096, true, &buffer, &err), &err);
    float *x = buffer.mapped;
    for (int i = 0; i < 2 * N; i++) {
        float by = (float)(i / 2 + 2);
        kt__gpu_args args = {.at = {buffer.address}, .n = {1}};
        memcpy(&args.n[4], &by, sizeof by);
        x[0] = 3.0f;
        kt__gpu_tape_put(&tape, KT__SHADER_element, SCALE, &args, 1, 1, 1);
        assert_true(kt__gpu_tape_run(&tape));
        assert_true(x[0] == 3.0f * by);
        assert_int_equal(tape.n_record, i / 2 < KT__GPU_RECORDS ? i / 2 + 1 : KT__GPU_RECORDS);
    }
    kt__gpu_tape_destroy(&tape);
    kt__gpu_buffer_free(gpu, &buffer);
}

static void test_lost_while_tested(void **state) {
    const kt__gpu_faults lost = {.lost_after = 2}, full = {.no_memory = true};
    kt__gpu *other;
    kt_error err;
    (void)state;
    need_device();
    assert_int_equal(kt__gpu_open(device, NULL, &lost, &other, &err), KT_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "failed at the test"));
    assert_int_equal(kt__gpu_open(device, NULL, &full, &other, &err), KT_E_NOMEM);
    assert_non_null(strstr(err.message, "MB of memory left"));
}

/* The second time the file says what passed. */
static void test_is_kept(void **state) {
    char path[] = "/tmp/kt_gpu_XXXXXX";
    const kt__gpu_faults sum = {.wrong = "sum"}, q4_0 = {.wrong = "product with Q4_0"};
    kt__gpu *other;
    kt_error err;
    char line[640];
    (void)state;
    need_device();
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    kt__gpu_name_of_test(gpu, line, sizeof line);
    fprintf(f, "kentang 0.0.0 of another device\n%s1: arithmetic\n", line);
    fclose(f);
    die_on(kt__gpu_open(device, path, &sum, &other, &err), &err);
    assert_int_equal(other->fma, KT__FMA_F64);
    other->faults = q4_0;
    assert_int_equal(kt__gpu_prove_type(other, KT__TYPE_Q4_0, &err), KT_E_UNSUPPORTED);
    other->faults.wrong = NULL;
    die_on(kt__gpu_prove_type(other, KT__TYPE_Q4_0, &err), &err);
    kt__gpu_close(other);
    die_on(kt__gpu_open(device, path, &q4_0, &other, &err), &err);
    die_on(kt__gpu_prove_type(other, KT__TYPE_Q4_0, &err), &err);
    kt__gpu_close(other);
    f = fopen(path, "w");
    fprintf(f, "%s7: arithmetic\n", line); /* no such way */
    fclose(f);
    assert_int_equal(kt__gpu_open(device, path, &sum, &other, &err), KT_E_UNSUPPORTED);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drivers_fma_is_refused),
        cmocka_unit_test(test_missing_properties),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_wrong_operations),
        cmocka_unit_test(test_every_check),
        cmocka_unit_test(test_byte_dots),
        cmocka_unit_test(test_health),
        cmocka_unit_test(test_commands_are_kept),
        cmocka_unit_test(test_lost_while_tested),
        cmocka_unit_test(test_is_kept),
        cmocka_unit_test(test_fma_in_integers),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
