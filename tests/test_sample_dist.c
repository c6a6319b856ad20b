/* sample: the frequencies of sampled tokens against the distribution computed plainly (chi-square).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sample/sample.h"
#include "sample_candidates.h"
#include "sample_reference.h"

enum { N_VOCAB = 500, DRAWS = 60000 };

static float logits[N_VOCAB];
static ref_set expected, without_xtc;

static kt__sampler *make(const kt_sampling *p) {
    kt__sampler_setup setup = {.n_vocab = N_VOCAB, .n_ctx = 64};
    kt__sampler *s;
    assert_int_equal(kt__sampler_create(p, &setup, &s, NULL), KT_OK);
    return s;
}

static void fill(double width, uint64_t seed) {
    for (int i = 0; i < N_VOCAB; i++) logits[i] = (float)(width * ref_normal(&seed));
}

/* Tokens expected fewer than 5 times share a bin; a token of probability 0 must not appear at all.
 */
static void check_frequencies(const int *count, const double *p, int draws) {
    double chi = 0, rest_expected = 0, rest = 0;
    int bins = 0;
    for (int id = 0; id < N_VOCAB; id++) {
        double e = p[id] * draws;
        if (p[id] == 0.0) assert_int_equal(count[id], 0);
        if (e < 5) {
            rest_expected += e;
            rest += count[id];
        } else {
            chi += pow(count[id] - e, 2) / e;
            bins++;
        }
    }
    if (rest_expected >= 5) {
        chi += pow(rest - rest_expected, 2) / rest_expected;
        bins++;
    }
    if (bins > 1 && chi > ref_chi_limit(bins - 1)) fail_msg("chi-square %g of %d bins", chi, bins);
}

static void count_draws(const kt_sampling *p, int *count) {
    kt__sampler *s = make(p);
    memset(count, 0, N_VOCAB * sizeof *count);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id;
        assert_int_equal(kt__sampler_sample(s, logits, (uint64_t)i, &id, NULL), KT_OK);
        count[id]++;
    }
    kt__sampler_free(s);
}

static void probabilities(const ref_set *set, double weight, double *p) {
    for (int i = 0; i < set->n; i++) p[set->item[i].id] += weight * set->item[i].p;
}

static void check_chain(const char *order, kt_sampling p) {
    char chain[256];
    int count[N_VOCAB];
    double prob[N_VOCAB] = {0};
    ref_chain_string(order, chain, sizeof chain);
    p.chain = chain;
    ref_init(&expected, logits, N_VOCAB);
    ref_chain(&expected, order, &p, true);
    ref_init(&without_xtc, logits, N_VOCAB);
    ref_chain(&without_xtc, order, &p, false);
    double xtc = strchr(order, 'x') ? (double)p.xtc_probability : 0.0;
    if (expected.unsure) fail_msg("choose other logits: %s hangs on rounding", order);
    probabilities(&expected, xtc, prob);
    probabilities(&without_xtc, 1 - xtc, prob);
    count_draws(&p, count);
    check_frequencies(count, prob, DRAWS);
}

static void test_every_step(void **state) {
    (void)state;
    static const char *const orders[] = {"", "t", "k", "p", "m", "y", "s", "x", "kt", "tpk"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        for (int wide = 0; wide < 2; wide++) {
            kt_sampling p = ref_off();
            fill(wide ? 2.5 : 0.7, 100 + i);
            p.seed = 1000 + i;
            p.temperature = 0.7f;
            p.top_k = 30;
            p.top_p = 0.8f;
            p.min_p = 0.07f;
            p.typical_p = 0.6f;
            p.top_n_sigma = 1.3f;
            p.xtc_probability = 0.4f;
            p.xtc_threshold = wide ? 0.05f : 0.004f;
            check_chain(orders[i], p);
        }
    }
}

static void test_default_chain(void **state) {
    (void)state;
    kt_sampling p = kt_sampling_default();
    fill(2.0, 77);
    p.seed = 99;
    check_chain("skypmxt", p);
    p.dynatemp_range = 0.5f;
    check_chain("skypmxt", p);
    p.xtc_probability = 0.5f;
    p.xtc_threshold = 0.06f;
    check_chain("skypmxt", p);
}

/* ---- mirostat: the same recurrence in plain code, fed with the tokens that were drawn ---- */

static void mirostat_set(ref_set *set, int version, double mu) {
    ref_softmax(set);
    if (version == 2) {
        int n = 1;
        while (n < set->n && -log2(set->item[n].p) <= mu) n++;
        set->n = n;
    } else {
        double tb = 0, tt = 0;
        for (int i = 0; i < 99; i++) {
            double t = log((i + 2.0) / (i + 1.0)), b = log(set->item[i].p / set->item[i + 1].p);
            tb += t * b;
            tt += t * t;
        }
        double s_hat = tb / tt, e = s_hat - 1;
        double k = pow(e * pow(2, mu) / (1 - pow(N_VOCAB, -e)), 1 / s_hat);
        set->n = k < 1 ? 1 : k > set->n ? set->n : (int)k;
    }
    ref_softmax(set);
}

static void test_mirostat(void **state) {
    (void)state;
    for (int version = 1; version <= 2; version++) {
        kt_sampling p = kt_sampling_default();
        double mu = 6.0, sum = 0, variance = 0, surprise_sum = 0;
        int tokens = 4000;
        uint64_t seed = 5;
        p.mirostat = version;
        p.mirostat_tau = 3.0f;
        p.temperature = 1.0f;
        p.seed = 4321;
        kt__sampler *s = make(&p);
        candidate got[N_VOCAB];
        for (int i = 0; i < tokens; i++) {
            int32_t id;
            size_t n;
            fill(1.5 + ref_uniform(&seed), 1000 + (uint64_t)i);
            ref_init(&expected, logits, N_VOCAB);
            mirostat_set(&expected, version, mu);
            assert_int_equal(candidates_of(s, logits, (uint64_t)i, got, N_VOCAB, &n), KT_OK);
            assert_in_range(n, expected.n - 1, expected.n + 1);
            assert_int_equal(kt__sampler_sample(s, logits, (uint64_t)i, &id, NULL), KT_OK);
            kt__sampler_accept(s, id);
            /* the draw of a token of probability q is compared with its mean by the martingale's
             * variance */
            double surprise = 0, mean = 0, square = 0;
            for (int j = 0; j < expected.n; j++) {
                double q = expected.item[j].p, bits = -log2(q);
                mean += q * bits;
                square += q * bits * bits;
                if (expected.item[j].id == id) surprise = bits;
            }
            assert_true(surprise > 0 || expected.n == 1);
            sum += surprise - mean;
            variance += square - mean * mean;
            surprise_sum += surprise;
            mu = s->mu;
        }
        assert_true(fabs(sum) < 5 * sqrt(variance));
        /* what mirostat is for: the mean surprise is tau */
        assert_true(fabs(surprise_sum / tokens - 3.0) < 0.05);
        kt__sampler_free(s);
    }
}

static void test_mirostat_state_follows_the_recurrence(void **state) {
    (void)state;
    kt_sampling p = kt_sampling_default();
    p.mirostat = 2;
    p.temperature = 1.0f;
    kt__sampler *s = make(&p);
    double mu = 10.0;
    for (uint64_t i = 0; i < 200; i++) {
        int32_t id;
        double q = 0;
        fill(2.0, i + 1);
        ref_init(&expected, logits, N_VOCAB);
        mirostat_set(&expected, 2, mu);
        assert_int_equal(kt__sampler_sample(s, logits, i, &id, NULL), KT_OK);
        for (int j = 0; j < expected.n; j++) {
            if (expected.item[j].id == id) q = expected.item[j].p;
        }
        assert_true(q > 0);

        assert_true(s->mu == mu); /* sampling alone changes nothing */
        kt__sampler_accept(s, id);
        double next = mu - 0.1 * (-log2(q) - 5.0);
        mu = s->mu;
        assert_true(fabs(mu - next) < 1e-5);
        if (i % 10 == 9) {
            kt__sampler_accept(s, id); /* a token that was not sampled leaves mu alone */
            assert_true(s->mu == mu);
        }
    }
    kt__sampler_free(s);
}

static void test_mirostat_degenerate_logits(void **state) {
    (void)state;
    for (int version = 1; version <= 2; version++) {
        for (int how = 0; how < 3; how++) {
            kt_sampling p = kt_sampling_default();
            p.mirostat = version;
            kt__sampler *s = make(&p);
            for (int i = 0; i < N_VOCAB; i++) {
                logits[i] = how == 0   ? 1.0f
                            : how == 1 ? (i == 9 ? 0.0f : -INFINITY)
                                       : (float)(-i * 300);
            }
            for (uint64_t i = 0; i < 300; i++) {
                int32_t id;
                assert_int_equal(kt__sampler_sample(s, logits, i, &id, NULL), KT_OK);
                kt__sampler_accept(s, id);
                assert_true(isfinite(s->mu));
                if (how == 1) assert_int_equal(id, 9);
                if (how == 2) assert_int_equal(id, 0);
            }
            kt__sampler_free(s);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_step),
        cmocka_unit_test(test_default_chain),
        cmocka_unit_test(test_mirostat),
        cmocka_unit_test(test_mirostat_state_follows_the_recurrence),
        cmocka_unit_test(test_mirostat_degenerate_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
