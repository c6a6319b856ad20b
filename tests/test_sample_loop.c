/* sample: endless repetition is found, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sample/stops.h"

/* Tokens pushed until it is a loop; `most` where it is none. */
static int pushed_until_loop(int32_t limit, const int32_t *head, int n_head, const int32_t *period,
                             int n_period, int most) {
    kt__loop loop;
    kt__loop_init(&loop, limit);
    for (int i = 0; i < n_head; i++) assert_false(kt__loop_push(&loop, head[i]));
    for (int i = 0; i < most; i++) {
        if (kt__loop_push(&loop, period[i % n_period])) return i + 1;
    }
    return most;
}

static void test_periods(void **state) {
    (void)state;
    static const int32_t head[] = {1, 2, 3, 4, 5};
    int32_t period[300];
    for (int i = 0; i < 300; i++) period[i] = 1000 + i;
    assert_int_equal(pushed_until_loop(16, head, 5, period, 1, 500), 16);
    assert_int_equal(pushed_until_loop(16, head, 5, period, 7, 500), 28); /* four times */
    assert_int_equal(pushed_until_loop(100, head, 5, period, 7, 500),
                     100); /* not before the limit */
    assert_int_equal(pushed_until_loop(100, head, 5, period, 256, 5000), 1024);
    assert_int_equal(pushed_until_loop(100, head, 5, period, 257, 5000), 5000); /* too long */
    assert_int_equal(pushed_until_loop(0, head, 5, period, 1, 5000), 5000);     /* off */
}

/* A list whose lines differ in a number, and a period that was left, are none. */
static void test_no_loops(void **state) {
    (void)state;
    kt__loop loop;
    kt__loop_init(&loop, 64);
    for (int i = 0; i < 5000; i++) assert_false(kt__loop_push(&loop, i % 5 ? i % 5 : 100 + i));
    kt__loop_init(&loop, 64);
    for (int i = 0; i < 5000; i++) assert_false(kt__loop_push(&loop, i % 60 ? 7 : 8000 + i));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_periods),
        cmocka_unit_test(test_no_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
