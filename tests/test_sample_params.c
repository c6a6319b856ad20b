/* sample: every wrong parameter is refused with its name; the chain string; failing allocations;
 * and that sampling allocates nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fault_alloc.h"
#include "sample/sample.h"
#include "sample/stops.h"
#include "sample_reference.h"

/* ---- parameters ---- */

static void expect_refusal(kt_sampling p, const char *name) {
    kt_error err = {0};
    kt_status status = kt__sampling_check(&p, 100, &err);
    if (status != KT_E_ARG) fail_msg("%s was not refused", name);
    assert_string_equal(err.where, name);
    assert_non_null(strstr(err.message, name));
}

static void test_defaults_are_valid(void **state) {
    (void)state;
    kt_sampling p = kt_sampling_default(), off = ref_off();
    assert_int_equal(kt__sampling_check(&p, 100, NULL), KT_OK);
    assert_int_equal(kt__sampling_check(&off, 100, NULL), KT_OK);
    assert_int_equal(kt__sampling_check(&p, 0, NULL), KT_E_ARG);
    assert_true(p.temperature == 0.8f && p.top_k == 40 && p.top_p == 0.95f && p.min_p == 0.05f);
    assert_true(p.repeat_last_n == 64 && p.repeat_penalty == 1.0f && p.dry_multiplier == 0.0f);
}

static void test_numbers_are_checked(void **state) {
    (void)state;
#define BAD(member, value)                     \
    do {                                       \
        kt_sampling p = kt_sampling_default(); \
        p.member = (value);                    \
        expect_refusal(p, #member);            \
    } while (0)
#define BAD_FLOAT(member, low, high) \
    BAD(member, NAN);                \
    BAD(member, INFINITY);           \
    BAD(member, -INFINITY);          \
    BAD(member, low);                \
    BAD(member, high)
    BAD_FLOAT(temperature, -1e30f, 1e30f);
    BAD_FLOAT(dynatemp_range, -0.1f, 1e30f);
    BAD_FLOAT(dynatemp_exponent, -0.1f, 1e30f);
    BAD_FLOAT(top_p, -0.01f, 1.01f);
    BAD_FLOAT(min_p, -0.01f, 1.01f);
    BAD_FLOAT(typical_p, -0.01f, 1.01f);
    BAD_FLOAT(top_n_sigma, -1e30f, 1e30f);
    BAD_FLOAT(xtc_probability, -0.01f, 1.01f);
    BAD_FLOAT(xtc_threshold, -0.01f, 1.01f);
    BAD_FLOAT(repeat_penalty, 0.0f, 1e30f);
    BAD_FLOAT(frequency_penalty, -1e30f, 1e30f);
    BAD_FLOAT(presence_penalty, -1e30f, 1e30f);
    BAD_FLOAT(dry_multiplier, -1.0f, 1e30f);
    BAD_FLOAT(dry_base, 0.9f, 1e30f);
    BAD_FLOAT(mirostat_tau, -1.0f, 1e30f);
    BAD_FLOAT(mirostat_eta, -1.0f, 1e30f);
    BAD(repeat_last_n, -2);
    BAD(dry_allowed_length, 0);
    BAD(dry_penalty_last_n, -2);
    BAD(mirostat, 3);
    BAD(mirostat, -1);
    BAD(min_keep, -1);
}

static void test_biases_and_breakers_are_checked(void **state) {
    (void)state;
    static const kt_logit_bias bad[] = {
        {100, 1.0f}, {-1, 1.0f}, {5, NAN}, {5, INFINITY}, {5, -1e38f}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kt_sampling p = kt_sampling_default();
        p.logit_bias = &bad[i];
        p.n_logit_bias = 1;
        expect_refusal(p, "logit_bias");
    }
    kt_sampling p = kt_sampling_default();
    p.n_logit_bias = 1;
    expect_refusal(p, "logit_bias");
    static const char *const empty[] = {"x", ""}, *const missing[] = {NULL};
    p = kt_sampling_default();
    p.dry_breakers = empty;
    p.n_dry_breakers = 2;
    expect_refusal(p, "dry_breakers");
    p.dry_breakers = missing;
    p.n_dry_breakers = 1;
    expect_refusal(p, "dry_breakers");
    p.n_dry_breakers = 100000;
    assert_int_equal(kt__sampling_check(&p, 100, NULL), KT_E_LIMIT);
}

static void expect_chain(const char *chain, kt_status status, const char *says) {
    kt_sampling p = kt_sampling_default();
    kt_error err = {0};
    p.chain = chain;
    assert_int_equal(kt__sampling_check(&p, 100, &err), status);
    if (says && !strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
}

static void test_chain_strings(void **state) {
    (void)state;
    char longest[1000] = "";
    expect_chain("", KT_OK, NULL);
    expect_chain(";;", KT_OK, NULL);
    expect_chain(" top_k ; temp;top-p;typ_p;typical;top-n-sigma;penalties;dry;xtc;min_p;", KT_OK,
                 NULL);
    expect_chain("topk", KT_E_ARG, "did you mean \"top_k\"");
    expect_chain("top_k;temprature", KT_E_ARG, "did you mean \"temperature\"");
    expect_chain("top_k;;bananas", KT_E_ARG, "known are penalties dry top_n_sigma top_k");
    expect_chain("top_k,top_p", KT_E_ARG, "\"top_k,top_p\"");
    for (int i = 0; i < 33; i++) strcat(longest, "top_k;");
    expect_chain(longest, KT_E_LIMIT, "32");
}

/* ---- memory ---- */

static const char *newline(void *ctx, int32_t id, size_t *len) {
    (void)ctx;
    *len = 1;
    return id % 7 ? "a" : "\n";
}

static kt_sampling everything(void) {
    static const kt_logit_bias bias[] = {{5, 1.0f}, {6, -1.0f}};
    kt_sampling p = kt_sampling_default();
    p.repeat_penalty = 1.1f;
    p.dry_multiplier = 0.8f;
    p.typical_p = 0.9f;
    p.top_n_sigma = 2.0f;
    p.xtc_probability = 0.5f;
    p.dynatemp_range = 0.3f;
    p.logit_bias = bias;
    p.n_logit_bias = 2;
    return p;
}

static void test_failing_allocations_leave_nothing(void **state) {
    (void)state;
    static const kt__sampler_vocab vocab = {newline, NULL};
    static const char *const stops[] = {"abc", "b"};
    kt_sampling p = everything();
    size_t before = live;
    for (long fail = 0;; fail++) {
        kt__sampler_setup setup = {.n_vocab = 100, .n_ctx = 50, .vocab = &vocab};
        kt__sampler *s = NULL;
        kt__stops *held = NULL;
        kt_error err = {0};
        n_calls = 0;
        fail_at = fail;
        kt_status status = kt__sampler_create(&p, &setup, &s, &err);
        if (status == KT_OK) status = kt__stops_create(stops, 2, &held, &err);
        bool reached = n_calls > fail;
        fail_at = -1;
        kt__sampler_free(s);
        kt__stops_free(held);
        assert_int_equal(live, before);
        if (!reached) {
            assert_int_equal(status, KT_OK);
            assert_true(fail > 15);
            return;
        }
        assert_int_equal(status, KT_E_NOMEM);
        assert_non_null(strstr(err.message, "out of memory"));
    }
}

static void test_sampling_allocates_nothing(void **state) {
    (void)state;
    enum { N = 20000 };
    static float logits[N];
    static const kt__sampler_vocab vocab = {newline, NULL};
    uint64_t seed = 8;
    for (int i = 0; i < N; i++) logits[i] = (float)(0.1 * ref_normal(&seed));
    for (int how = 0; how < 4; how++) {
        kt_sampling p = everything();
        p.mirostat = how == 3 ? 0 : how;
        p.temperature = how == 3 ? 0.0f : 0.8f;
        p.top_k = how == 0 ? 0 : 40;
        kt__sampler_setup setup = {.n_vocab = N, .n_ctx = 50, .vocab = &vocab};
        kt__sampler *s;
        assert_int_equal(kt__sampler_create(&p, &setup, &s, NULL), KT_OK);
        long calls = n_calls;
        for (uint64_t i = 0; i < 700; i++) {
            int32_t id;
            assert_int_equal(kt__sampler_sample(s, logits, i, &id, NULL), KT_OK);
            kt__sampler_accept(s, id);
        }
        assert_int_equal(n_calls, calls);
        kt__sampler_free(s);
    }
}

static void test_random_seed_is_reported_and_repeats(void **state) {
    (void)state;
    static float logits[1000];
    kt_sampling p = ref_off();
    kt__sampler_setup setup = {.n_vocab = 1000, .n_ctx = 50};
    kt__sampler *a, *b;
    p.seed = KT_SEED_RANDOM;
    assert_int_equal(kt__sampler_create(&p, &setup, &a, NULL), KT_OK);
    p.seed = kt__sampler_seed(a);
    assert_true(p.seed != KT_SEED_RANDOM);
    assert_int_equal(kt__sampler_create(&p, &setup, &b, NULL), KT_OK);
    for (uint64_t i = 0; i < 100; i++) {
        int32_t x, y;
        assert_int_equal(kt__sampler_sample(a, logits, i, &x, NULL), KT_OK);
        assert_int_equal(kt__sampler_sample(b, logits, i, &y, NULL), KT_OK);
        assert_int_equal(x, y);
    }
    kt__sampler_free(a);
    kt__sampler_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_valid),
        cmocka_unit_test(test_numbers_are_checked),
        cmocka_unit_test(test_biases_and_breakers_are_checked),
        cmocka_unit_test(test_chain_strings),
        cmocka_unit_test(test_failing_allocations_leave_nothing),
        cmocka_unit_test(test_sampling_allocates_nothing),
        cmocka_unit_test(test_random_seed_is_reported_and_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
