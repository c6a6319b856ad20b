#include "learn/swap.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sample/rng.h"

enum { STREAM_SWAP = 92 };

static int first_masked(const kt__sample *s) {
    int t = 1;
    while (t < s->n && !s->mask[t]) t++;
    return t;
}

static bool same_answer(const kt__sample *a, const kt__sample *b) {
    int at = first_masked(a), bt = first_masked(b), n = a->n - at;
    return n == b->n - bt && !memcmp(a->ids + at, b->ids + bt, (size_t)n * sizeof *a->ids);
}

/* Another sample with another answer that fits behind the question; NULL: none. */
static const kt__sample *choose_other(const kt__sample *samples, const size_t *list, size_t n,
                                      size_t i, uint64_t seed, int len_max) {
    const kt__sample *own = &samples[list[i]];
    size_t first = (size_t)(kt__rng_uniform(seed, STREAM_SWAP, i, 0) * (double)n);
    for (size_t k = 0; k < n; k++) {
        const kt__sample *s = &samples[list[(first + k) % n]];
        if (s->kind == KT__SAMPLE_DOWN || same_answer(own, s)) continue;
        if (first_masked(own) + s->n - first_masked(s) <= len_max) return s;
    }
    return NULL;
}

/* The question of one and the answer of another, in ids and mask of len_max. */
static kt__sample swapped(const kt__sample *question, const kt__sample *answer, int32_t *ids,
                          uint8_t *mask) {
    int n_question = first_masked(question), at = first_masked(answer), n = answer->n - at;
    memcpy(ids, question->ids, (size_t)n_question * sizeof *ids);
    memcpy(ids + n_question, answer->ids + at, (size_t)n * sizeof *ids);
    memset(mask, 0, (size_t)n_question);
    memcpy(mask + n_question, answer->mask + at, (size_t)n);
    return (kt__sample){.kind = KT__SAMPLE_CORRECTION,
                        .ids = ids,
                        .mask = mask,
                        .n = n_question + n,
                        .weight = 1.0f};
}

kt_status kt__swap_measure(kt__learner *learner, const kt__factors *factors,
                           const kt__sample *samples, const size_t *list, size_t n, uint64_t seed,
                           const kt__sample_score *scores, double *gain, double *n_tok,
                           size_t *n_pair, kt_error *err) {
    int len_max = kt__learner_len_max(learner);
    int32_t *ids = kt__calloc((size_t)len_max, sizeof *ids);
    uint8_t *mask = kt__calloc((size_t)len_max, 1);
    kt_status status = KT_OK;
    *n_pair = 0;
    if (!ids || !mask) status = kt__fail_nomem(err, "a swapped answer", (size_t)len_max);
    for (size_t i = 0; status == KT_OK && i < n; i++) {
        const kt__sample *own = &samples[list[i]], *other;
        kt__sample_score score;
        if (own->kind == KT__SAMPLE_DOWN) continue;
        other = choose_other(samples, list, n, i, seed, len_max);
        if (!other) continue;
        kt__sample with = swapped(own, other, ids, mask);
        status = kt__learner_score_others(learner, factors, &with, 1, &score, err);
        gain[*n_pair] = score.loss / score.n_tok - scores[i].loss / scores[i].n_tok;
        n_tok[(*n_pair)++] = 1.0;
    }
    kt__free(ids);
    kt__free(mask);
    return status;
}
