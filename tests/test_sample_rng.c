/* sample: the counter-based generator against published vectors, and its uniformity. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sample/rng.h"
#include "sample_reference.h"

/* The known answers that accompany the paper's Random123 library. */
static void test_philox_gives_the_published_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t out[4];
        kt__philox4x32(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

/* The 10000th word of seed 5489 is the one that the C++ standard states; any order of asking gives the same words. The
 * uniform numbers are those that GCC's std::mt19937 and std::uniform_real_distribution give for seed 42. */
static void test_mt19937_gives_the_standard_answer(void **state) {
    (void)state;
    static const double known[] = {0.79654298428784598, 0.18343478789336848, 0.77969099761266125};
    kt__mt19937 mt;
    kt__mt19937_init(&mt, 5489);
    assert_true(kt__mt19937_word(&mt, 9999) == 4123659995u);
    assert_true(kt__mt19937_word(&mt, 0) == 3499211612u);
    assert_true(kt__mt19937_word(&mt, 9999) == 4123659995u);
    kt__mt19937_init(&mt, 42);
    for (uint64_t i = 3; i-- > 0;) assert_true(kt__mt19937_uniform(&mt, i) == known[i]);
}

/* Each part of the key, counted up alone, fills 64 bins evenly and in no order. */
static void test_every_part_of_the_key_matters(void **state) {
    (void)state;
    enum { BINS = 64, DRAWS = 64000 };
    for (int part = 0; part < 4; part++) {
        int bins[BINS] = {0}, pairs[4] = {0};
        double last = 0.25;
        for (uint32_t i = 0; i < DRAWS; i++) {
            double u = kt__rng_uniform(part == 0 ? i : 7, part == 1 ? i : 0, part == 2 ? i : 99,
                                       part == 3 ? i : 0);
            assert_true(u >= 0.0 && u < 1.0);
            bins[(int)(u * BINS)]++;
            pairs[(last >= 0.5) * 2 + (u >= 0.5)]++;
            last = u;
        }
        double chi = 0, chi_pairs = 0;
        for (int b = 0; b < BINS; b++) chi += pow(bins[b] - DRAWS / BINS, 2) / (DRAWS / BINS);
        for (int b = 0; b < 4; b++) chi_pairs += pow(pairs[b] - DRAWS / 4, 2) / (DRAWS / 4.0);
        assert_true(chi < ref_chi_limit(BINS - 1));
        assert_true(chi_pairs < ref_chi_limit(3));
    }
}

static void test_system_seeds_differ(void **state) {
    (void)state;
    uint64_t a, b, c;
    assert_int_equal(kt__rng_seed(&a, NULL), KT_OK);
    assert_int_equal(kt__rng_seed(&b, NULL), KT_OK);
    assert_int_equal(kt__rng_seed(&c, NULL), KT_OK);
    assert_true(a != b || b != c);
    assert_true(a <= UINT32_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_gives_the_published_answers),
        cmocka_unit_test(test_mt19937_gives_the_standard_answer),
        cmocka_unit_test(test_every_part_of_the_key_matters),
        cmocka_unit_test(test_system_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
