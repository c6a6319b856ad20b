/* sample: penalties and DRY against naive definitions; undoing; mirostat's and the history's marks.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "sample/sample.h"
#include "sample_candidates.h"
#include "sample_reference.h"

enum { N_VOCAB = 16, N_TOKENS = 600 };

/* Token i stands for letter 'a' + i; token 14 is "x\ny", token 15 is "#", 13 is "=". */
static const char *bytes_of(void *ctx, int32_t id, size_t *len) {
    static const char *const special[] = {"=", "x\ny", "#"};
    static const char letters[] = "abcdefghijklmnop";
    (void)ctx;
    const char *s = id >= 13 ? special[id - 13] : letters + id;
    *len = id >= 13 ? strlen(s) : 1;
    return s;
}

static kt__sampler *make(const kt_sampling *p, int n_ctx, bool with_vocab) {
    kt__sampler_vocab vocab = {bytes_of, NULL};
    kt__sampler_setup setup = {
        .n_vocab = N_VOCAB, .n_ctx = n_ctx, .vocab = with_vocab ? &vocab : NULL};
    kt__sampler *s;
    kt_error err = {0};
    if (kt__sampler_create(p, &setup, &s, &err) != KT_OK) fail_msg("%s", err.message);
    return s;
}

/* The sampler's logits, up to a constant: at temperature 1 with everything else off, log p. */
static void check_logits(kt__sampler *s, const float *logits, const double *expected) {
    candidate got[N_VOCAB];
    size_t n;
    double total = 0;
    assert_int_equal(candidates_of(s, logits, 0, got, N_VOCAB, &n), KT_OK);
    assert_int_equal(n, N_VOCAB);
    for (int i = 0; i < N_VOCAB; i++) total += exp(expected[i]);
    for (int i = 0; i < N_VOCAB; i++) {
        double p = exp(expected[i]) / total;
        if (fabs((double)got[i].p - p) > 1e-6 + 1e-5 * p) {
            fail_msg("token %d: p %g, expected %g", i, (double)got[i].p, p);
        }
    }
}

static void naive_penalties(const kt_sampling *p, const int *tokens, int n, int n_ctx,
                            double *logit) {
    int window = p->repeat_last_n < 0 || p->repeat_last_n > n_ctx ? n_ctx : p->repeat_last_n;
    int count[N_VOCAB] = {0};
    for (int i = n > window ? n - window : 0; i < n; i++) count[tokens[i]]++;
    for (int id = 0; id < N_VOCAB; id++) {
        if (!count[id]) continue;
        double r = (double)p->repeat_penalty;
        logit[id] = logit[id] > 0 ? logit[id] / r : logit[id] * r;
        logit[id] -= count[id] * (double)p->frequency_penalty + (double)p->presence_penalty;
    }
}

/* The text of tokens[from..to) */
static int text_of(const int *tokens, int from, int to, char *out) {
    int len = 0;
    for (int i = from; i < to; i++) {
        size_t n;
        const char *s = bytes_of(NULL, tokens[i], &n);
        memcpy(out + len, s, n);
        len += (int)n;
    }
    out[len] = '\0';
    return len;
}

/* Tokens after the last one in which a breaker ends, by searching the text that ends in each token.
 */
static int naive_run(const int *tokens, int n, const char *const *breakers, int n_breakers) {
    static char text[4 * N_TOKENS], upto[4 * N_TOKENS];
    for (int end = n; end > 0; end--) {
        int before = text_of(tokens, 0, end - 1, upto), len = text_of(tokens, 0, end, text);
        for (int b = 0; b < n_breakers; b++) {
            int size = (int)strlen(breakers[b]);
            for (int at = 0; at + size <= len; at++) {
                if (at + size > before && !memcmp(text + at, breakers[b], (size_t)size))
                    return n - end;
            }
        }
    }
    return n;
}

static void naive_dry(const kt_sampling *p, const int *tokens, int n, int n_ctx,
                      const char *const *breakers, int n_breakers, double *logit) {
    int window = p->dry_penalty_last_n < 0 || p->dry_penalty_last_n > n_ctx ? n_ctx
                                                                            : p->dry_penalty_last_n;
    int limit = naive_run(tokens, n, breakers, n_breakers);
    const int *w = n > window ? tokens + n - window : tokens;
    int m = n > window ? window : n;
    if (m <= p->dry_allowed_length) return;
    for (int id = 0; id < N_VOCAB; id++) {
        int longest = 0;
        size_t len;
        const char *s = bytes_of(NULL, id, &len);
        bool breaks = false;
        for (int b = 0; b < n_breakers; b++)
            breaks |= len && strstr(s, breakers[b]) == s && strlen(breakers[b]) <= len;
        if (id == 14) {
            for (int b = 0; b < n_breakers; b++) breaks |= strstr("x\ny", breakers[b]) != NULL;
        }
        if (breaks) continue;
        for (int at = 1; at < m;
             at++) { /* an earlier occurrence of id: how much before it equals the end? */
            if (w[at] != id) continue;
            int same = 0;
            while (same < at && same < limit && w[at - 1 - same] == w[m - 1 - same]) same++;
            if (same > longest) longest = same;
        }
        if (longest < p->dry_allowed_length) continue;
        double penalty = (double)p->dry_multiplier *
                         pow((double)p->dry_base, longest - p->dry_allowed_length);
        logit[id] -= fmin(penalty, 1e37);
    }
}

static void random_logits(float *logits, double *expected, uint64_t *seed) {
    for (int i = 0; i < N_VOCAB; i++) {
        logits[i] = (float)(3 * ref_normal(seed));
        expected[i] = (double)logits[i];
    }
}

static void test_penalties_against_naive(void **state) {
    (void)state;
    uint64_t seed = 21;
    for (int trial = 0; trial < 60; trial++) {
        static const int32_t windows[] = {-1, 1, 5, 64, 100000};
        int tokens[N_TOKENS], n_ctx = trial % 2 ? 1000 : 40;
        kt_sampling p = ref_off();
        p.repeat_last_n = windows[trial % 5];
        p.repeat_penalty = (float)(0.5 + 1.5 * ref_uniform(&seed));
        p.frequency_penalty = (float)(ref_uniform(&seed) - 0.3);
        p.presence_penalty = (float)(ref_uniform(&seed) - 0.3);
        kt__sampler *s = make(&p, n_ctx, false);
        for (int n = 0; n < N_TOKENS; n++) {
            float logits[N_VOCAB];
            double expected[N_VOCAB];
            if (n % 7 == 0) {
                random_logits(logits, expected, &seed);
                naive_penalties(&p, tokens, n, n_ctx, expected);
                check_logits(s, logits, expected);
            }
            tokens[n] = (int)(ref_random(&seed) % (trial % 3 ? N_VOCAB : 4));
            kt__sampler_accept(s, tokens[n]);
        }
        kt__sampler_free(s);
    }
}

/* After a cut the candidates are a list: the penalised order decides what follows. */
static void test_penalties_after_a_cut(void **state) {
    (void)state;
    kt_sampling p = ref_off();
    float logits[N_VOCAB];
    int32_t id;
    for (int i = 0; i < N_VOCAB; i++) logits[i] = (float)(N_VOCAB - i);
    p.chain = "top_k;penalties;top_p";
    p.top_k = 3;
    p.top_p = 0.01f;
    p.presence_penalty = 10.0f;
    kt__sampler *s = make(&p, 40, false);
    kt__sampler_accept(s, 0);
    assert_int_equal(kt__sampler_sample(s, logits, 0, &id, NULL), KT_OK);
    assert_int_equal(id, 1);
    kt__sampler_accept(s, 1);
    kt__sampler_accept(s, 2); /* all three alike punished */
    assert_int_equal(kt__sampler_sample(s, logits, 0, &id, NULL), KT_OK);
    assert_int_equal(id, 0);
    kt__sampler_accept(s, -5); /* an unknown token is nobody's repetition */
    kt__sampler_accept(s, N_VOCAB);
    assert_int_equal(kt__sampler_sample(s, logits, 0, &id, NULL), KT_OK);
    assert_int_equal(id, 0);
    kt__sampler_free(s);
}

static void test_dry_against_naive(void **state) {
    (void)state;
    static const char *const default_breakers[] = {"\n", ":", "\"", "*"};
    static const char *const own_breakers[] = {"ab", "#=", "c", "y#"};
    uint64_t seed = 31;
    for (int trial = 0; trial < 40; trial++) {
        int tokens[N_TOKENS], n_ctx = trial % 2 ? 1000 : 50, style = trial % 3;
        const char *const *breakers = style == 0 ? default_breakers : own_breakers;
        int n_breakers = style == 2 ? 0 : 4;
        kt_sampling p = ref_off();
        p.dry_multiplier = 0.8f;
        p.dry_base = trial % 4 == 3 ? 1.0f : 1.3f;
        p.dry_allowed_length = 1 + trial % 4;
        p.dry_penalty_last_n = trial % 5 == 4 ? 30 : -1;
        if (style) p.dry_breakers = own_breakers;
        p.n_dry_breakers = (size_t)n_breakers;
        kt__sampler *s = make(&p, n_ctx, true);
        for (int n = 0; n < 200; n++) {
            float logits[N_VOCAB];
            double expected[N_VOCAB];
            random_logits(logits, expected, &seed);
            naive_dry(&p, tokens, n, n_ctx, breakers, n_breakers, expected);
            check_logits(s, logits, expected);
            int letters = 2 + trial % 3; /* few letters repeat often */
            tokens[n] = ref_uniform(&seed) < 0.05 ? (int)(13 + ref_random(&seed) % 3)
                                                  : (int)(ref_random(&seed) % (uint64_t)letters);
            kt__sampler_accept(s, tokens[n]);
        }
        kt__sampler_free(s);
    }
}

static void test_dry_without_a_vocabulary_has_no_breakers(void **state) {
    (void)state;
    kt_sampling p = ref_off();
    float logits[N_VOCAB] = {0};
    double expected[N_VOCAB] = {0};
    p.dry_multiplier = 1.0f;
    kt__sampler *s = make(&p, 100, false);
    static const int text[] = {1, 14, 2, 3, 1, 14, 2};
    for (int i = 0; i < 7; i++) kt__sampler_accept(s, text[i]);
    naive_dry(&p, text, 7, 100, NULL, 0, expected);
    assert_true(expected[3] < -1.0);
    check_logits(s, logits, expected);
    kt__sampler_free(s);
}

/* One letter repeated through the whole context: linear, and no overflow of the power. */
static void test_dry_on_a_long_repetition(void **state) {
    (void)state;
    enum { LONG = 60000 };
    kt_sampling p = ref_off();
    float logits[N_VOCAB] = {0};
    int32_t id;
    p.dry_multiplier = 1000.0f;
    p.dry_base = 1000.0f;
    logits[1] = 1.0f;
    kt__sampler *s = make(&p, LONG, true);
    for (int i = 0; i < LONG + 1000; i++) kt__sampler_accept(s, 1);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(kt__sampler_sample(s, logits, i, &id, NULL), KT_OK);
        assert_int_not_equal(id, 1);
    }
    kt__sampler_free(s);
}

/* Tokens that are sampled and thrown away, as speculation does, change nothing. */
static void test_sampling_alone_leaves_no_trace(void **state) {
    (void)state;
    uint64_t seed = 77;
    kt_sampling p = kt_sampling_default();
    p.seed = 3;
    p.repeat_penalty = 1.3f;
    p.repeat_last_n = 20;
    p.dry_multiplier = 0.5f;
    p.mirostat = 2;
    kt__sampler *s = make(&p, 100, true), *plain = make(&p, 100, true);
    float logits[N_VOCAB];
    double unused[N_VOCAB];
    for (uint64_t position = 0; position < 1500; position++) {
        int32_t id, other, want;
        random_logits(logits, unused, &seed);
        for (uint64_t i = 1; i <= ref_random(&seed) % 4; i++) {
            assert_int_equal(kt__sampler_sample(s, logits, position + i, &other, NULL), KT_OK);
        }
        assert_int_equal(kt__sampler_sample(s, logits, position, &id, NULL), KT_OK);
        assert_int_equal(kt__sampler_sample(plain, logits, position, &want, NULL), KT_OK);
        assert_int_equal(id, want);
        kt__sampler_accept(s, id);
        kt__sampler_accept(plain, id);
        assert_true(s->mu == plain->mu);
    }
    kt__sampler_free(s);
    kt__sampler_free(plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_penalties_against_naive),
        cmocka_unit_test(test_penalties_after_a_cut),
        cmocka_unit_test(test_dry_against_naive),
        cmocka_unit_test(test_dry_without_a_vocabulary_has_no_breakers),
        cmocka_unit_test(test_dry_on_a_long_repetition),
        cmocka_unit_test(test_sampling_alone_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
