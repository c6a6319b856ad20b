/* The machine's limits: what of its own report is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "measure/limits.h"

static void test_cache_of_the_whole_processor(void **state) {
    (void)state;
    const uint64_t mib = 1 << 20;
    const struct {
        int n_physical;
        uint64_t l3_mib, believed_mib;
    } cases[] = {
        {2, 508, 64}, {2, 480, 64}, {4, 6, 6}, {8, 96, 96}, {16, 512, 512}, {2, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kt__topology t = {.n_physical = cases[i].n_physical,
                                .l3_bytes = cases[i].l3_mib * mib};
        assert_int_equal(kt__cache_believed(&t), cases[i].believed_mib * mib);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cache_of_the_whole_processor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
