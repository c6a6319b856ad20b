/* Time of one sampled token at a large vocabulary, chain by chain, and of the mask of an answer
 * held to JSON, place by place: bench_sample [N_VOCAB [json]]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sample/held.h"
#include "sample/sample.h"

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(const char *name, const kt_sampling *p, const float *logits, int n) {
    enum { RUNS = 201 };
    double us[RUNS];
    kt__sampler_setup setup = {.n_vocab = n, .n_ctx = 4096};
    kt__sampler *s;
    if (kt__sampler_create(p, &setup, &s, NULL) != KT_OK) return;
    for (int i = 0; i < RUNS; i++) {
        int32_t id;
        int64_t begin = kt__now_ns();
        if (kt__sampler_sample(s, logits, (uint64_t)i, &id, NULL) != KT_OK) break;
        kt__sampler_accept(s, id);
        us[i] = (double)(kt__now_ns() - begin) / 1e3;
    }
    qsort(us, RUNS, sizeof *us, compare);
    printf("%-34s %9.1f us (fastest %.1f)\n", name, us[RUNS / 2], us[0]);
    kt__sampler_free(s);
}

/* ---- answers held to JSON ---- */

typedef struct words {
    char *text; /* all tokens, one after the other */
    uint32_t *at;
    int n;
} words;

static const char *word_bytes(void *ctx, int32_t id, size_t *len) {
    const words *w = ctx;
    *len = w->at[id + 1] - w->at[id];
    return w->text + w->at[id];
}

/* As large vocabularies of code and text are: six in ten are a word with a blank before it, then
 * words, other scripts with parts of characters among them, and runs of signs and blanks. */
static void make_words(words *w, int n) {
    static const char signs[] = "\"\\{}[]:,.;()<>=+-*/_#'!?\n\n\t  ";
    uint64_t state = 7;
    w->n = n;
    w->text = malloc((size_t)n * 24);
    w->at = malloc(((size_t)n + 1) * sizeof *w->at);
    if (!w->text || !w->at) exit(1);
    uint32_t at = 0;
    for (int i = 0; i < n; i++) {
        double kind = uniform(&state);
        int len = 2 + (int)(uniform(&state) * 8);
        w->at[i] = at;
        if (i < 256) {
            w->text[at++] = (char)i;
            continue;
        }
        if (kind < 0.6) w->text[at++] = ' ';
        for (int k = 0; k < len; k++) {
            double u = uniform(&state);
            if (kind < 0.75) {
                w->text[at++] = (char)('a' + (int)(u * u * 26));
            } else if (kind < 0.93) {
                w->text[at++] = (char)(0xe4 + (int)(u * 5));
                w->text[at++] = (char)(0x80 + (int)(uniform(&state) * 64));
                if (k + 1 < len || u < 0.95) w->text[at++] = (char)(0x80 + (int)(u * 640) % 64);
                k += 2;
            } else {
                w->text[at++] = signs[(int)(u * (sizeof signs - 1))];
            }
        }
    }
    w->at[n] = at;
}

static const char *no_name(void *ctx, int32_t id, size_t *len) {
    (void)ctx;
    (void)id;
    *len = 0;
    return "";
}

static bool never_ends(void *ctx, int32_t id) {
    (void)ctx;
    (void)id;
    return false;
}

static void mask_plainly(kt__held *held, const float *logits, float *masked, int n) {
    for (int i = 0; i < n; i++) masked[i] = kt__held_takes(held, i) ? logits[i] : -INFINITY;
}

/* Each round on a constraint that has seen no mask: the first is told apart from the others. */
static void bench_place(const kt__held_vocab *vocab, const char *text, const float *logits,
                        float *plain, float *masked) {
    enum { RUNS = 51 };
    static const kt_form any = {.kind = KT_FORM_JSON_OBJECT};
    const kt_constraint what = {.forms = &any, .n_forms = 1};
    kt__constraint *c;
    kt__held *held;
    char name[64];
    int n = vocab->tokens->n_vocab;
    double us[RUNS], first = 0;
    if (kt__constraint_create(&what, vocab, &c, NULL) != KT_OK) exit(1);
    if (kt__held_create(c, &held, NULL) != KT_OK) exit(1);
    for (const char *b = text; *b; b++) kt__held_push(held, (uint8_t)*b);
    for (int i = 0; i < RUNS; i++) {
        int64_t begin = kt__now_ns();
        if (kt__held_mask(held, logits, masked, NULL) != KT_OK) exit(1);
        us[i] = (double)(kt__now_ns() - begin) / 1e3;
        if (i == 0) first = us[i];
    }
    int64_t begin = kt__now_ns();
    mask_plainly(held, logits, plain, n);
    double plain_us = (double)(kt__now_ns() - begin) / 1e3;
    if (memcmp(plain, masked, (size_t)n * sizeof *plain) != 0) exit(1);
    qsort(us, RUNS, sizeof *us, compare);
    snprintf(name, sizeof name, "JSON after %s", text);
    printf("%-34s %9.1f us (first %.1f, every token tried %.0f)\n", name, us[RUNS / 2], first,
           plain_us);
    kt__held_free(held);
    kt__constraint_free(c);
}

static void bench_json(const float *logits, int n) {
    static const char *const texts[] = {"",
                                        "{",
                                        "{\"k",
                                        "{\"k\"",
                                        "{\"k\":",
                                        "{\"k\":\"v",
                                        "{\"k\":\"v\\",
                                        "{\"k\":\"v\xe4",
                                        "{\"k\":1",
                                        "{\"k\":tr",
                                        "{\"k\":[1,{\"a\":\"",
                                        "{\"k\":\"v\"",
                                        "{\"k\":1,"};
    words w;
    kt__held_vocab *vocab;
    make_words(&w, n);
    const kt__held_vocab_source source = {word_bytes, no_name, never_ends, &w, n};
    float *plain = malloc((size_t)n * sizeof *plain), *masked = malloc((size_t)n * sizeof *masked);
    int64_t begin = kt__now_ns();
    if (!plain || !masked || kt__held_vocab_create(&source, &vocab, NULL) != KT_OK) exit(1);
    printf("%-34s %9.1f us\n", "JSON: the vocabulary's tries",
           (double)(kt__now_ns() - begin) / 1e3);
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        bench_place(vocab, texts[t], logits, plain, masked);
    kt__held_vocab_free(vocab);
    free(plain);
    free(masked);
    free(w.text);
    free(w.at);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 151936;
    float *logits = malloc((size_t)(n > 0 ? n : 1) * sizeof *logits);
    uint64_t state = 1;
    if (!logits || n < 1) return 1;
    for (int i = 0; i < n; i++) {
        double u = 1.0 - uniform(&state), v = uniform(&state);
        logits[i] = (float)(2.5 * sqrt(-2 * log(u)) * cos(6.283185307 * v));
    }
    bench_json(logits, n);
    if (argc > 2) return 0;
    kt_sampling base = kt_sampling_default(), p = base;
    base.seed = p.seed = 1;
    bench("default chain", &p, logits, n);
    p.temperature = 0;
    bench("greedy", &p, logits, n);
    p = base, p.repeat_penalty = 1.1f;
    bench("default and penalties", &p, logits, n);
    p.dry_multiplier = 0.8f;
    bench("default, penalties and DRY", &p, logits, n);
    p = base, p.top_k = 0;
    bench("top_p over the vocabulary, min_p", &p, logits, n);
    p.min_p = 0, p.chain = "top_p";
    bench("top_p over the vocabulary", &p, logits, n);
    p.chain = "min_p", p.min_p = 0.05f;
    bench("min_p alone", &p, logits, n);
    p.chain = "typ_p", p.typical_p = 0.9f;
    bench("typical alone", &p, logits, n);
    p.chain = "top_n_sigma", p.top_n_sigma = 1;
    bench("top_n_sigma alone", &p, logits, n);
    p.chain = "temperature";
    bench("temperature alone", &p, logits, n);
    p = base, p.mirostat = 2;
    bench("mirostat 2", &p, logits, n);
    p.mirostat = 1;
    bench("mirostat 1", &p, logits, n);
    free(logits);
    return 0;
}
