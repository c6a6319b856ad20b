/* The mask of an answer held to JSON is, bit for bit, the one that feeding every token of the
 * vocabulary to the automaton gives: wherever a text may stand, for every kind of token, and with
 * it what every chain draws. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "heap_watch.h"
#include "sample/json_mask.h"
#include "support.h"

enum { N = 4000, MAX_LEN = 600 };

typedef struct vocab {
    char *s[N];
    size_t len[N];
    float logits[N], expected[N], masked[N];
    uint32_t random;
} vocab;

static uint32_t roll(vocab *v, uint32_t n) {
    return lcg_below(&v->random, n);
}

static const char *bytes(void *ctx, int32_t id, size_t *len) {
    const vocab *v = ctx;
    *len = v->len[id];
    return v->s[id];
}

/* Pieces of JSON, words, control bytes, characters of one to four bytes and parts of them. */
static const char *const pieces[] = {
    "\"",       "\\",       "{",        "}",    "[",        "]",    ",",        ":",
    " ",        "\n",       "\t",       "\r",   "0",        "1",    "7",        "42",
    ".",        "-",        "+",        "e",    "E",        "t",    "true",     "r",
    "ue",       "f",        "alse",     "n",    "null",     "ull",  "u",        "00",
    "b",        "cafe",     "/",        "word", " the",     "ing",  "\x7f",     "\x01",
    "\xc3",     "\xa4",     "\xc3\xa4", "\xe2", "\x82\xac", "\xf0", "\x9f\xa5", "\x94",
    "\xe0\x80", "\xed\xa0", "\xf4\x90", "\xff", "\xc0",     "  ",   "\": \"",   "\",\"",
    "\"}",      "{\"",      "}}",       "]]",   "\\u",      "\\n",  "\\\"",
};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

static void make_vocab(vocab *v) {
    for (int i = 0; i < N; i++) {
        char text[MAX_LEN];
        size_t len = 0;
        uint32_t n = roll(v, 40) == 0 ? 40 + roll(v, 60) : roll(v, 5); /* none: not a text's */
        for (uint32_t k = 0; k < n; k++) {
            const char *p = pieces[n > 8 && roll(v, 8) ? 35 : roll(v, N_PIECES)];
            if (i < N_PIECES) p = pieces[i], n = 1;
            memcpy(text + len, p, strlen(p));
            len += strlen(p);
        }
        if (i > N_PIECES && roll(v, 3) == 0) { /* begins as another one */
            size_t keep = v->len[i - 1] ? roll(v, (uint32_t)v->len[i - 1] + 1) : 0;
            if (keep + len > MAX_LEN) keep = 0;
            memmove(text + keep, text, len);
            memcpy(text, v->s[i - 1], keep);
            len += keep;
        }
        v->s[i] = malloc(len + 1);
        memcpy(v->s[i], text, len);
        v->len[i] = len;
        v->logits[i] = (float)roll(v, 20000) / 1000.0f - 10.0f;
    }
}

static void free_vocab(vocab *v) {
    for (int i = 0; i < N; i++) free(v->s[i]);
    free(v);
}

static bool may_follow(const vocab *v, const kt__json_state *state, int32_t id) {
    kt__json_state s = *state;
    return v->len[id] > 0 && kt__json_state_feed(&s, v->s[id], v->len[id]);
}

/* Every token is tried. */
static int mask_plainly(vocab *v, const kt__json_state *state) {
    int n = 0;
    for (int i = 0; i < N; i++) {
        bool may = may_follow(v, state, i);
        v->expected[i] = may ? v->logits[i] : -INFINITY;
        n += may;
    }
    return n;
}

static void compare(vocab *v, const kt__json_mask *mask, const kt__json_state *state,
                    const char *text) {
    kt__json_mask_apply(mask, state, v->logits, v->masked);
    for (int i = 0; i < N; i++) {
        if (memcmp(&v->masked[i], &v->expected[i], sizeof(float)) != 0)
            fail_msg("after %s: token %d, \"%.*s\"", text, i, (int)v->len[i], v->s[i]);
    }
}

/* A token that may follow, at random. */
static int32_t choose(vocab *v, int n_may) {
    int k = (int)roll(v, (uint32_t)n_may);
    for (int32_t i = 0;; i++) {
        if (v->expected[i] == -INFINITY) continue;
        if (k-- == 0) return i;
    }
}

static void same_draw(const vocab *v, kt__sampler **samplers, int n, uint64_t position) {
    for (int i = 0; i < n; i++) {
        int32_t a = -1, b = -2;
        kt_status x = kt__sampler_sample(samplers[i], v->expected, position, &a, NULL);
        kt_status y = kt__sampler_sample(samplers[i], v->masked, position, &b, NULL);
        assert_int_equal(x, KT_OK);
        assert_int_equal(y, KT_OK);
        assert_int_equal(a, b);
        kt__sampler_accept(samplers[i], a);
    }
}

enum { N_CHAINS = 10 };

static void make_samplers(kt__sampler **out) {
    const kt__sampler_setup setup = {.n_vocab = N, .n_ctx = 512};
    for (int i = 0; i < N_CHAINS; i++) {
        kt_sampling p = kt_sampling_default();
        p.seed = (uint64_t)i + 1;
        switch (i) {
        case 0: p.temperature = 0; break;
        case 1: break;
        case 2: p.repeat_penalty = 1.3f; break;
        case 3: p.dry_multiplier = 0.8f; break;
        case 4: p.chain = "top_n_sigma;temperature", p.top_n_sigma = 1; break;
        case 5: p.chain = "typ_p;xtc", p.typical_p = 0.8f, p.xtc_probability = 0.5f; break;
        case 6: p.mirostat = 1; break;
        case 7: p.mirostat = 2; break;
        case 8: p.top_k = 0, p.top_p = 0.5f, p.min_p = 0; break;
        default: p.dynatemp_range = 0.5f, p.min_keep = 3;
        }
        assert_int_equal(kt__sampler_create(&p, &setup, &out[i], NULL), KT_OK);
    }
}

static void test_masks_as_every_token_alone(void **state) {
    (void)state;
    enum { TEXTS = 60, STEPS = 40 };
    kt__sampler *samplers[N_CHAINS];
    make_samplers(samplers);
    for (uint32_t seed = 1; seed <= 3; seed++) {
        vocab *v = calloc(1, sizeof *v);
        kt__json_mask *mask;
        v->random = seed * 2654435761u;
        make_vocab(v);
        const kt__sampler_vocab access = {bytes, v};
        assert_int_equal(kt__json_mask_create(&access, N, &mask, NULL), KT_OK);
        for (int text = 0; text < TEXTS; text++) {
            kt__json_state s;
            char so_far[MAX_LEN * STEPS + 1] = "";
            size_t len = 0;
            kt__json_state_init(&s);
            for (int i = 0; i < STEPS && !kt__json_state_done(&s); i++) {
                int n_may = mask_plainly(v, &s);
                compare(v, mask, &s, so_far);
                if (n_may == 0) break;
                if (text % 8 == 0) same_draw(v, samplers, N_CHAINS, (uint64_t)i);
                int32_t id = choose(v, n_may);
                assert_true(kt__json_state_feed(&s, v->s[id], v->len[id]));
                memcpy(so_far + len, v->s[id], v->len[id]);
                so_far[len += v->len[id]] = '\0';
            }
            (void)mask_plainly(v, &s); /* also behind the end */
            compare(v, mask, &s, so_far);
        }
        kt__json_mask_free(mask);
        free_vocab(v);
    }
    for (int i = 0; i < N_CHAINS; i++) kt__sampler_free(samplers[i]);
}

/* Each kind of place in a text, deep and flat. */
static void test_every_place(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "{\"",
        "{\"a",
        "{\"a\\",
        "{\"a\\u1",
        "{\"a\xe2",
        "{\"a\xf4",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":\"",
        "{\"a\":\"x\\",
        "{\"a\":\"x\\u00e",
        "{\"a\":\"\xf0\x9f",
        "{\"a\":\"\xed",
        "{\"a\":-",
        "{\"a\":0",
        "{\"a\":17",
        "{\"a\":1.",
        "{\"a\":1.5",
        "{\"a\":1e",
        "{\"a\":1e+",
        "{\"a\":1e+3",
        "{\"a\":t",
        "{\"a\":fal",
        "{\"a\":nul",
        "{\"a\":true",
        "{\"a\":1,",
        "{\"a\":[",
        "{\"a\":[1",
        "{\"a\":[1,",
        "{\"a\":[\"x",
        "{\"a\":{\"b\":[[{\"c\":[\"",
        "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        "{                       ",
        "{}",
    };
    vocab *v = calloc(1, sizeof *v);
    kt__json_mask *mask;
    v->random = 77;
    make_vocab(v);
    const kt__sampler_vocab access = {bytes, v};
    assert_int_equal(kt__json_mask_create(&access, N, &mask, NULL), KT_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        kt__json_state s;
        kt__json_state_init(&s);
        if (!kt__json_state_feed(&s, texts[i], strlen(texts[i]))) fail_msg("%s", texts[i]);
        (void)mask_plainly(v, &s);
        compare(v, mask, &s, texts[i]);
    }
    kt__json_mask_free(mask);
    free_vocab(v);
}

#if HEAP_WATCHED
static void test_failing_allocations(void **state) {
    (void)state;
    vocab *v = calloc(1, sizeof *v);
    v->random = 5;
    make_vocab(v);
    const kt__sampler_vocab access = {bytes, v};
    for (long n = 1;; n++) {
        kt_error err;
        kt__json_mask *mask = NULL;
        long live = heap.n_live;
        heap_begin(n, n);
        kt_status status = kt__json_mask_create(&access, N, &mask, &err);
        bool failed = heap.n_failed > 0;
        kt__json_mask_free(mask);
        heap_end();
        assert_int_equal(heap.n_live, live);
        heap_sweep();
        if (status == KT_OK && !failed) break;
        if (status != KT_OK) assert_int_equal(status, KT_E_NOMEM);
        assert_true(n < 50);
    }
    free_vocab(v);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_as_every_token_alone),
        cmocka_unit_test(test_every_place),
#if HEAP_WATCHED
        cmocka_unit_test(test_failing_allocations),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
