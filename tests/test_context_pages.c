/* context: a model's pages are counted, and brought into large ones only while nothing is computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "context/model.h"
#include "context/types.h"

static char path[64];

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
} world;

static void ok(kt_status status, const kt_error *err) {
    if (status != KT_OK) fail_msg("%s: %s", kt_status_name(status), err->message);
}

static int write_model(void **state) {
    (void)state;
    size_t size;
    const void *data = kt__demo_model(&size);
    if (!data) return 0;
    snprintf(path, sizeof path, "/tmp/kentang-pages-XXXXXX");
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    bool written = f && fwrite(data, 1, size, f) == size;
    return f && fclose(f) == 0 && written ? 0 : -1;
}

static int remove_model(void **state) {
    (void)state;
    return path[0] ? unlink(path) : 0;
}

static world open_world(bool use_mmap) {
    world w;
    kt_error err;
    kt_model_params params = kt_model_params_default();
    if (!path[0]) skip();
    params.use_mmap = use_mmap;
    ok(kt_ctx_open(NULL, &w.ctx, &err), &err);
    ok(kt_model_open(w.ctx, path, &params, &w.model, &err), &err);
    return w;
}

static void close_world(world *w) {
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
}

static kt_pages_info wait_for_end(const world *w) {
    kt_pages_info info;
    do {
        usleep(1000);
        kt_model_get_pages(w->model, &info);
    } while (info.running);
    return info;
}

static void check_counts(const kt_pages_info *info) {
    size_t size;
    (void)kt__demo_model(&size);
    assert_int_equal(info->bytes, size);
    assert_true(info->mapped_bytes <= info->bytes && info->large_bytes <= info->mapped_bytes);
}

/* Reads the model's bytes until pages of them are counted. The system may take any of them away again in between, and
 * how many it leaves says nothing of the program. */
static void check_that_pages_are_counted(const world *w) {
    kt_pages_info info;
    do {
        const uint8_t *data;
        uint64_t n, sum = 0;
        (void)kt__gguf_part_bytes(w->model->gguf, 0, &data, &n);
        for (uint64_t i = 0; i < n; i += 512) sum += ((const volatile uint8_t *)data)[i];
        assert_true(sum > 0);
        kt_model_get_pages(w->model, &info);
        check_counts(&info);
    } while (info.mapped_bytes == 0);
}

static void test_the_bytes_stay(void **state) {
    (void)state;
    kt_error err;
    kt_pages_info info;
    world w = open_world(true);
    kt_model_get_pages(w.model, &info);
    check_counts(&info);
    assert_false(info.running);
    assert_string_equal(info.ended, "");
    ok(kt_model_start_pages(w.model, &err), &err);
    ok(kt_model_start_pages(w.model, &err), &err); /* it runs already */
    info = wait_for_end(&w);
    check_counts(&info);
    check_that_pages_are_counted(&w);
    assert_string_not_equal(info.ended, "");
    print_message("%s\n", info.ended);
    const uint8_t *data;
    uint64_t n;
    size_t size;
    const void *want = kt__demo_model(&size);
    (void)kt__gguf_part_bytes(w.model->gguf, 0, &data, &n);
    assert_memory_equal(data, want, size);
    close_world(&w);
}

static void test_a_copy(void **state) {
    (void)state;
    kt_error err;
    world w = open_world(false);
    ok(kt_model_start_pages(w.model, &err), &err);
    kt_pages_info info = wait_for_end(&w);
    check_counts(&info);
    assert_int_equal(info.mapped_bytes, info.bytes);
    assert_string_equal(info.ended, "nothing to do");
    close_world(&w);
}

/* Where the file lies in large pages already nothing waits. */
static void test_waits_while_something_is_computed(void **state) {
    (void)state;
    kt_error err;
    kt_pages_info info;
    world w = open_world(true);
    kt_model_get_pages(w.model, &info);
    bool small = info.large_bytes < info.bytes / 2;
    kt__activity_begin(&w.ctx->activity);
    ok(kt_model_start_pages(w.model, &err), &err);
    usleep(600000);
    kt_model_get_pages(w.model, &info);
    if (small && !strstr(info.ended, "system")) assert_true(info.running);
    int64_t start = kt__now_us();
    close_world(&w); /* stops what waits */
    assert_true(kt__now_us() - start < 1000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_while_something_is_computed),
        cmocka_unit_test(test_the_bytes_stay),
        cmocka_unit_test(test_a_copy),
    };
    return cmocka_run_group_tests(tests, write_model, remove_model);
}
