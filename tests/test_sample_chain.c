/* sample: what each step leaves, against full sorts in double; degenerate logits; determinism. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/math.h"
#include "sample/sample.h"
#include "sample_candidates.h"
#include "sample_reference.h"

static kt__sampler *make(const kt_sampling *p, int n_vocab) {
    kt__sampler_setup setup = {.n_vocab = n_vocab, .n_ctx = 64};
    kt__sampler *s;
    kt_error err = {0};
    if (kt__sampler_create(p, &setup, &s, &err) != KT_OK) fail_msg("%s", err.message);
    return s;
}

static int by_id(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}
static int ref_by_id(const void *a, const void *b) {
    const ref_item *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* The same ids with the same probabilities. */
static void compare(candidate *got, size_t n, ref_set *expected) {
    assert_int_equal(n, expected->n);
    qsort(got, n, sizeof *got, by_id);
    qsort(expected->item, n, sizeof *expected->item, ref_by_id);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(got[i].id, expected->item[i].id);
        double p = expected->item[i].p;
        if (fabs((double)got[i].p - p) > 1e-6 + 2e-5 * p) {
            fail_msg("token %d: p %g, expected %g", (int)got[i].id, (double)got[i].p, p);
        }
    }
}

typedef enum shape { NORMAL, FLAT, STEEP, EQUAL, COARSE, HOLES, RISING, SHAPES } shape;

static void fill(float *logits, int n, shape how, uint64_t *seed) {
    for (int i = 0; i < n; i++) {
        double x = ref_normal(seed);
        switch (how) {
        case FLAT: x *= 0.01; break;
        case STEEP: x *= 12; break;
        case EQUAL: x = 1.5; break;
        case COARSE: x = nearbyint(x * 2); break; /* many ties */
        case HOLES: x = ref_uniform(seed) < 0.5 ? -INFINITY : x * 3; break;
        case RISING: x = i * 20.0 / n - 10; break;
        default: x *= 3;
        }
        logits[i] = (float)x;
    }
    if (how == HOLES) logits[n / 2] = 1.0f;
}

static kt_sampling random_params(uint64_t *seed) {
    kt_sampling p = ref_off();
    p.seed = ref_random(seed);
    p.temperature = (float)(0.2 + 2 * ref_uniform(seed));
    p.dynatemp_range = ref_uniform(seed) < 0.3 ? (float)ref_uniform(seed) : 0.0f;
    p.dynatemp_exponent = (float)(0.3 + 2 * ref_uniform(seed));
    p.top_k = (int32_t)(ref_random(seed) % (ref_uniform(seed) < 0.5 ? 60u : 3000u));
    p.top_p = (float)(0.2 + 0.79 * ref_uniform(seed));
    p.min_p = (float)(0.3 * ref_uniform(seed));
    p.typical_p = (float)(0.2 + 0.79 * ref_uniform(seed));
    p.top_n_sigma = (float)(3 * ref_uniform(seed));
    p.xtc_probability = 1.0f;
    p.xtc_threshold = (float)(0.3 * ref_uniform(seed));
    p.min_keep = ref_uniform(seed) < 0.3 ? (int32_t)(1 + ref_random(seed) % 5) : 0;
    return p;
}

static ref_set expected;
static candidate got[REF_MAX];
static float logits[REF_MAX];

/* One trial; false if it hangs on rounding. */
static bool check(const char *order, kt_sampling p, int n) {
    char chain[256];
    size_t n_got;
    ref_chain_string(order, chain, sizeof chain);
    p.chain = chain;
    ref_init(&expected, logits, n);
    ref_chain(&expected, order, &p, true);
    kt__sampler *s = make(&p, n);
    assert_int_equal(candidates_of(s, logits, 5, got, REF_MAX, &n_got), KT_OK);
    if (!expected.unsure && n_got != (size_t)expected.n) {
        fail_msg("chain %s of %d tokens: %zu candidates, expected %d", chain, n, n_got, expected.n);
    }
    if (!expected.unsure) compare(got, n_got, &expected);
    kt__sampler_free(s);
    return !expected.unsure;
}

static void test_each_step_alone(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 31, 32, 33, 300, 4096, 8192};
    static const char *const steps[] = {"k", "p", "m", "y", "s", "x", "t", "tp", "tk", "pt", ""};
    uint64_t seed = 7;
    int sure = 0, trials = 0;
    for (size_t step = 0; step < sizeof steps / sizeof *steps; step++) {
        for (int how = 0; how < SHAPES; how++) {
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                fill(logits, sizes[i], (shape)how, &seed);
                kt_sampling p = random_params(&seed);
                if (how == EQUAL || how == COARSE) p.min_keep = 0;
                trials++;
                sure += check(steps[step], p, sizes[i]);
            }
        }
    }
    assert_true(sure * 4 > trials * 3);
}

static void test_random_chains(void **state) {
    (void)state;
    uint64_t seed = 11;
    int sure = 0;
    enum { TRIALS = 1500 };
    for (int trial = 0; trial < TRIALS; trial++) {
        char order[8] = "ktpmysx";
        for (int i = 6; i > 0; i--) {
            int j = (int)(ref_random(&seed) % (uint64_t)(i + 1));
            char c = order[i];
            order[i] = order[j], order[j] = c;
        }
        order[1 + ref_random(&seed) % 7] = '\0';
        int n = 1 + (int)(ref_random(&seed) % (trial % 10 ? 700u : 5000u));
        fill(logits, n, (shape)(trial % 3), &seed);
        kt_sampling p = random_params(&seed);
        p.min_keep =
            0; /* the reference's min_p and xtc count it by rank, which later steps may see */
        sure += check(order, p, n);
    }
    assert_true(sure * 3 > TRIALS * 2);
}

/* The threshold search for more than 256 candidates, with ties at the threshold. */
static void test_large_cuts_keep_the_lowest_ids_of_ties(void **state) {
    (void)state;
    kt_sampling p = ref_off();
    size_t n;
    for (int i = 0; i < 6000; i++) logits[i] = (float)(i % 3);
    p.top_k = 2500; /* all 2000 with logit 2, the first 500 with logit 1 */
    kt__sampler *s = make(&p, 6000);
    assert_int_equal(candidates_of(s, logits, 0, got, REF_MAX, &n), KT_OK);
    assert_int_equal(n, 2500);
    for (size_t i = 0; i < n; i++) {
        assert_true(got[i].id % 3 == 2 || (got[i].id % 3 == 1 && got[i].id < 1500));
    }
    kt__sampler_free(s);
    for (int i = 0; i < 6000; i++) logits[i] = i % 2 ? 0.0f : -0.0f;
    p.top_k = 300;
    s = make(&p, 6000);
    assert_int_equal(candidates_of(s, logits, 0, got, REF_MAX, &n), KT_OK);
    assert_int_equal(n, 300);
    assert_int_equal(got[299].id, 299);
    kt__sampler_free(s);
}

static void test_greedy_takes_the_lowest_id_of_ties(void **state) {
    (void)state;
    kt_sampling p = kt_sampling_default();
    int32_t id;
    p.temperature = 0.0f;
    kt__sampler *s = make(&p, 5000);
    assert_true(kt__sampler_is_argmax(s));
    for (int i = 0; i < 5000; i++) logits[i] = -3.0f;
    logits[4321] = logits[1234] = 2.0f;
    assert_int_equal(kt__sampler_sample(s, logits, 0, &id, NULL), KT_OK);
    assert_int_equal(id, 1234);
    logits[4999] = 3.0f;
    assert_int_equal(kt__sampler_sample(s, logits, 0, &id, NULL), KT_OK);
    assert_int_equal(id, 4999);
    kt__sampler_free(s);
}

static void test_unusable_logits_are_named(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY};
    kt_sampling p = kt_sampling_default();
    kt_error err;
    int32_t id;
    for (int greedy = 0; greedy < 2; greedy++) {
        p.temperature = greedy ? 0.0f : 0.8f;
        kt__sampler *s = make(&p, 100);
        for (int where = 0; where < 100; where += 33) {
            for (int i = 0; i < 2; i++) {
                for (int j = 0; j < 100; j++) logits[j] = (float)j;
                logits[where] = bad[i];
                assert_int_equal(kt__sampler_sample(s, logits, 0, &id, &err), KT_E_NUMERIC);
                assert_non_null(strstr(err.message, i ? "infinite" : "not a number"));
            }
        }
        for (int j = 0; j < 100; j++) logits[j] = -INFINITY;
        assert_int_equal(kt__sampler_sample(s, logits, 0, &id, &err), KT_E_NUMERIC);
        assert_non_null(strstr(err.message, "forbidden"));
        logits[42] = -FLT_MAX;
        assert_int_equal(kt__sampler_sample(s, logits, 0, &id, &err), KT_OK);
        assert_int_equal(id, 42);
        kt__sampler_free(s);
    }
}

static void test_huge_logits_stay_in_range(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int trial = 0; trial < 200; trial++) {
        kt_sampling p = random_params(&seed);
        size_t n;
        p.temperature = trial % 2 ? 1e-6f : 1e6f;
        p.repeat_penalty = 500.0f;
        p.mirostat = trial % 3;
        for (int i = 0; i < 50; i++)
            logits[i] = (float)((ref_uniform(&seed) - 0.5) * 2 * (double)FLT_MAX);
        kt__sampler *s = make(&p, 50);
        for (int i = 0; i < 20; i++) kt__sampler_accept(s, i);
        assert_int_equal(candidates_of(s, logits, 0, got, REF_MAX, &n), KT_OK);
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += (double)got[i].p;
        assert_true(fabs(sum - 1) < 1e-5);
        kt__sampler_free(s);
    }
}

static void test_bias_forbids_and_forces(void **state) {
    (void)state;
    kt_logit_bias bias[] = {{3, -INFINITY}, {7, 1e30f}};
    kt_sampling p = kt_sampling_default();
    int32_t id;
    for (int i = 0; i < 10; i++) logits[i] = i == 3 ? 50.0f : 0.0f;
    p.logit_bias = bias;
    p.n_logit_bias = 1;
    kt__sampler *s = make(&p, 10);
    for (uint64_t position = 0; position < 300; position++) {
        assert_int_equal(kt__sampler_sample(s, logits, position, &id, NULL), KT_OK);
        assert_int_not_equal(id, 3);
    }
    kt__sampler_free(s);
    p.n_logit_bias = 2;
    p.temperature = 0.0f;
    s = make(&p, 10);
    assert_false(kt__sampler_is_argmax(s));
    assert_int_equal(kt__sampler_sample(s, logits, 0, &id, NULL), KT_OK);
    assert_int_equal(id, 7);
    kt__sampler_free(s);
    kt_logit_bias all[2] = {{0, -INFINITY}, {1, -INFINITY}};
    p.logit_bias = all;
    s = make(&p, 2);
    assert_int_equal(kt__sampler_sample(s, logits, 0, &id, NULL), KT_E_NUMERIC);
    kt__sampler_free(s);
}

/* The token depends on seed, choice, position and logits alone, not on what was sampled before. */
static void test_draws_do_not_depend_on_order(void **state) {
    (void)state;
    enum { N = 200 };
    kt_sampling p = kt_sampling_default();
    uint64_t seed = 5;
    int32_t forward[N], backward[N], other_seed[N], other_choice[N];
    int seeds_differ = 0, choices_differ = 0;
    fill(logits, 2000, FLAT, &seed);
    p.seed = 1234;
    p.xtc_probability = 0.5f;
    p.xtc_threshold = 0.01f;
    kt__sampler *a = make(&p, 2000), *b = make(&p, 2000), *c, *d;
    p.seed = 1235;
    c = make(&p, 2000);
    kt__sampler_setup setup = {.n_vocab = 2000, .n_ctx = 64, .choice = 1};
    p.seed = 1234;
    assert_int_equal(kt__sampler_create(&p, &setup, &d, NULL), KT_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(kt__sampler_sample(a, logits, (uint64_t)i, &forward[i], NULL), KT_OK);
        kt__sampler_accept(a, forward[i]);
        assert_int_equal(kt__sampler_sample(c, logits, (uint64_t)i, &other_seed[i], NULL), KT_OK);
        assert_int_equal(kt__sampler_sample(d, logits, (uint64_t)i, &other_choice[i], NULL), KT_OK);
        seeds_differ += forward[i] != other_seed[i];
        choices_differ += forward[i] != other_choice[i];
    }
    for (int i = N - 1; i >= 0; i--) {
        assert_int_equal(kt__sampler_sample(b, logits, (uint64_t)i, &backward[i], NULL), KT_OK);
    }
    assert_memory_equal(forward, backward, sizeof forward);
    assert_true(seeds_differ > N / 2 && choices_differ > N / 2);
    kt__sampler_free(a);
    kt__sampler_free(b);
    kt__sampler_free(c);
    kt__sampler_free(d);
}

/* One scratch serves several samplers, and the caller's logits are left alone. */
static void test_scratch_is_shared_and_logits_are_kept(void **state) {
    (void)state;
    static float copy[REF_MAX];
    kt__sampler_scratch *scratch;
    kt__sampler *shared[2];
    uint64_t seed = 17;
    int32_t ids[2], own;
    assert_int_equal(kt__sampler_scratch_create(3000, &scratch, NULL), KT_OK);
    fill(logits, 3000, NORMAL, &seed);
    memcpy(copy, logits, sizeof copy);
    kt_sampling p = ref_off();
    p.repeat_penalty = 1.5f;
    for (int i = 0; i < 2; i++) {
        kt__sampler_setup setup = {
            .n_vocab = 3000, .n_ctx = 64, .choice = (uint32_t)i, .scratch = scratch};
        p.dynatemp_range = (float)i * 0.5f;
        assert_int_equal(kt__sampler_create(&p, &setup, &shared[i], NULL), KT_OK);
    }
    kt__sampler *alone;
    kt__sampler_setup like_second = {.n_vocab = 3000, .n_ctx = 64, .choice = 1};
    assert_int_equal(kt__sampler_create(&p, &like_second, &alone, NULL), KT_OK);
    for (uint64_t position = 0; position < 100; position++) {
        for (int i = 0; i < 2; i++) {
            assert_int_equal(kt__sampler_sample(shared[i], logits, position, &ids[i], NULL), KT_OK);
            kt__sampler_accept(shared[i], ids[i]);
        }
        assert_int_equal(kt__sampler_sample(alone, logits, position, &own, NULL), KT_OK);
        assert_int_equal(own, ids[1]);
        kt__sampler_accept(alone, own);
    }
    assert_memory_equal(copy, logits, sizeof copy);
    kt__sampler_free(alone);
    kt__sampler_setup wrong = {.n_vocab = 2999, .n_ctx = 64, .scratch = scratch};
    kt__sampler *none;
    assert_int_equal(kt__sampler_create(&p, &wrong, &none, NULL), KT_E_ARG);
    for (int i = 0; i < 2; i++) kt__sampler_free(shared[i]);
    kt__sampler_scratch_free(scratch);
}

static void test_exp_weights_are_exponentials(void **state) {
    (void)state;
    enum { N = 100001 };
    static float x[N], w[N];
    for (int i = 0; i < N; i++) x[i] = 3.0f - (float)i * 0.001f;
    x[N - 1] = -INFINITY;
    kt__exp_weights(x, 3.0f, N, w);
    assert_true(w[0] == 1.0f && w[N - 1] == 0.0f);
    for (int i = 0; i < N - 1; i++) {
        double d = (double)(x[i] - 3.0f), exact = d < -87.0 ? 0.0 : exp(d);
        assert_true(fabs((double)w[i] - exact) <= 4e-7 * exact);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_step_alone),
        cmocka_unit_test(test_random_chains),
        cmocka_unit_test(test_large_cuts_keep_the_lowest_ids_of_ties),
        cmocka_unit_test(test_greedy_takes_the_lowest_id_of_ties),
        cmocka_unit_test(test_unusable_logits_are_named),
        cmocka_unit_test(test_huge_logits_stay_in_range),
        cmocka_unit_test(test_bias_forbids_and_forces),
        cmocka_unit_test(test_draws_do_not_depend_on_order),
        cmocka_unit_test(test_scratch_is_shared_and_logits_are_kept),
        cmocka_unit_test(test_exp_weights_are_exponentials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
