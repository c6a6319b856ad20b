/* What the files of the sampler share.
 *
 * Owns: the candidate set that the steps of a chain cut down, its scratch, the choice of the greatest without
 * sorting, and the history. Internal to src/lib/sample; see sample.h for the thread rule. */
#ifndef KT_SAMPLE_CHAIN_H
#define KT_SAMPLE_CHAIN_H

#include "sample/rng.h"
#include "sample/sample.h"
#include "sample/stops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KT__MAX_STEPS = 32, KT__MAX_BIAS = 1 << 20, KT__MAX_BREAKERS = 256 };

typedef enum kt__step_kind {
#define STEP(KIND, ...) KT__STEP_##KIND,
#include "sample/steps.def"
    KT__STEP_COUNT
} kt__step_kind;

/* NULL: the order of steps.def. kinds[KT__MAX_STEPS]. */
kt_status KT_CHECKED kt__chain_parse(const char *chain, kt__step_kind *kinds, int *n,
                                     kt_error *err);

/* ---- candidates ---- */

enum { KT__BLOCK = 32, KT__TOP_MAX = 256 };

struct kt__sampler_scratch {
    size_t n_vocab;
    float *logit;      /* [n_vocab] the candidates' logits once they differ from the caller's */
    int32_t *id;       /* [n_vocab] their ids once they are not the whole vocabulary */
    float *weight;     /* [n_vocab] e^(logit - max) */
    float *key;        /* [n_vocab] for orders other than by logit */
    uint32_t *index;   /* [n_vocab] for searches */
    int32_t *count;    /* [n_vocab] zero between uses */
    float *block_max;  /* [n_vocab / KT__BLOCK rounded up] */
    double *block_sum; /* the same size */
};

/* The candidates: entry i is token id[i] (i itself while id is NULL, the whole vocabulary) with
 * logit[i]; a logit of -infinity is no candidate. Entries are in the order of ids, or, where
 * sorted, by falling logit and rising id among equals; sorted sets have at most KT__TOP_MAX
 * entries. */
typedef struct kt__cands {
    kt__sampler_scratch *scratch;
    const float *logit;
    const int32_t *id;
    size_t n;
    bool sorted;
    bool have_max; /* max and scratch->block_max belong to logit */
    bool have_weights;
    float max;
    double total; /* sum of weights */
    /* of the random number that the step at work may take */
    uint64_t position;
    uint32_t draw;
} kt__cands;

/* The whole vocabulary; KT_E_NUMERIC for NaN, +infinity, or nothing but -infinity. */
kt_status KT_CHECKED kt__cands_init(kt__cands *c, kt__sampler_scratch *scratch, const float *logits,
                                    kt_error *err);
/* The logits for writing: copied from the caller's on first use. Values derived from them are
 * invalidated. */
float *kt__cands_edit(kt__cands *c);
/* After edits that may have broken the order of a sorted set. */
void kt__cands_resort(kt__cands *c);
static inline int32_t kt__cands_id(const kt__cands *c, size_t i) {
    return c->id ? c->id[i] : (int32_t)i;
}

float kt__cands_max(kt__cands *c);
void kt__cands_weigh(kt__cands *c);        /* fills scratch->weight and total */
size_t kt__cands_live(const kt__cands *c); /* entries that are not -infinity */
size_t kt__cands_argmax(kt__cands *c);     /* entry of the greatest logit, the lowest id on ties */
double kt__cands_entropy(kt__cands *c);    /* in nats */
size_t kt__cands_draw(kt__cands *c,
                      double u); /* entry at the share u of the weights, u in [0, 1) */

/* Cuts. Each keeps at least one candidate, and at least min_keep as long as there are so many. */
void kt__cands_keep_top(kt__cands *c, size_t k);
void kt__cands_keep_above(kt__cands *c, double logit, size_t min_keep); /* logit[i] >= logit */
/* The greatest by logit whose weights reach share * total. */
void kt__cands_keep_mass(kt__cands *c, double share, size_t min_keep);
/* The greatest by scratch->key[n] whose weights exceed share * total. */
void kt__cands_keep_mass_by_key(kt__cands *c, double share, size_t min_keep);
/* Drops all that have at least this weight, except the one with the least. */
void kt__cands_drop_top(kt__cands *c, double weight, size_t min_keep);

/* ---- history ---- */

/* The last tokens, oldest first. Their number and what follows from it (run, state) is all the
 * state. */
typedef struct kt__history {
    int32_t *token;  /* [cap] */
    uint32_t *state; /* [cap] of the breakers' matcher after this token */
    uint32_t *run;   /* [cap] tokens since the last one that completed a breaker */
    size_t n, cap;
    size_t window; /* tokens that a step may look at */
} kt__history;

/* ---- the sampler ---- */

typedef struct kt__step {
    kt__step_kind kind;
    uint32_t draw; /* its random number; 0 is the token's */
} kt__step;

struct kt__sampler {
    kt_sampling params; /* without the pointers */
    kt_logit_bias *bias;
    size_t n_bias;
    int32_t n_vocab, n_ctx;
    uint32_t choice;
    kt__step steps[KT__MAX_STEPS]; /* those that do something */
    int n_steps;
    kt__sampler_scratch *scratch, *own_scratch;
    kt__sampler_vocab vocab;
    kt__match *breakers; /* NULL: none */
    kt__history history;
    int32_t *z; /* [history.window] for DRY */
    double mu;
    int32_t pending_id; /* mirostat: the token that kt__sampler_sample chose last, or -1, ... */
    double pending_surprise; /* ... in bits */
    kt__mt19937 *mt;         /* whose numbers choose tokens; NULL: those of the position */
    uint64_t first_position; /* with it: of the first token that was drawn */
    kt__cands last;          /* what the last token was drawn from; in the scratch */
};

/* sampler.c: everything but the choice; candidates and weights are those that the draw walks. */
kt_status KT_CHECKED kt__chain_run(kt__sampler *s, const float *logits, uint64_t position,
                                   kt__cands *c, kt_error *err);

/* history.c */
kt_status KT_CHECKED kt__history_create(kt__sampler *s, kt_error *err);
void kt__history_free(kt__sampler *s);
void kt__history_accept(kt__sampler *s, int32_t id);

/* steps.c, and history.c for those that look at the history: a function for each row of steps.def */
typedef void kt__step_fn(kt__sampler *s, kt__cands *c);
#define STEP(KIND, name, ...) kt__step_fn kt__step_##name;
#include "sample/steps.def"
bool kt__step_is_active(const kt__sampler *s, kt__step_kind kind);
void kt__step_run(kt__sampler *s, const kt__step *step, kt__cands *c);
/* Mirostat's cut of the candidates. */
void kt__apply_mirostat(kt__sampler *s, kt__cands *c);

/* The greatest of many floats without sorting them.
 *
 * Block maxima, a heap for the greatest few, a radix search for the threshold of many. -infinity means an absent
 * entry and is never chosen; NaN is not checked for. Among equal keys the lowest index is greater. Any thread. */

typedef struct kt__entry {
    float key;
    uint32_t index;
} kt__entry;

/* block_max[n/KT__BLOCK rounded up] and *max of key[n], n >= 1. False if some key is NaN or
 * +infinity (the maxima are then worthless). */
bool kt__select_maxima(const float *key, size_t n, float *block_max, float *max);

/* The k <= KT__TOP_MAX greatest of key[n], greatest first; returns how many there are. block_max
 * may be NULL. */
size_t kt__select_top(const float *key, size_t n, size_t k, const float *block_max, kt__entry *out);

/* A set "all keys above a threshold, and the first so many equal to it", for going through the keys
 * in the order of their index once. */
typedef struct kt__cut {
    float key;
    uint32_t n_equal; /* of the keys equal to key, how many belong (the first ones) */
} kt__cut;

/* The smallest set of the greatest keys whose weights (1 each if weight is NULL) sum to >= target
 * (inclusive) or > target; everything if that is not reached. index[n] is room to work in. Linear
 * in n. */
kt__cut kt__select_cut(const float *key, const float *weight, size_t n, double target,
                       bool inclusive, uint32_t *index);

static inline bool kt__cut_keeps(kt__cut *cut, float key) {
    if (key > cut->key) return true;
    if (key != cut->key || !cut->n_equal) return false;
    cut->n_equal--;
    return true;
}

#endif
