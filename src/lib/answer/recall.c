#include "answer/recall.h"

#include <math.h>
#include <string.h>

#include "answer/answer.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "context/model.h"

enum {
    N_MAX = 8192,
    MOST = 1 << 20,
    WORD_BYTES = 256,
    MOST_DIMS = 1 << 16,
    SEED = 0x5245434c /* of ids */
};

static const float COS_FROM = 0.90f, COS_FULL = 0.97f;
static const double MOST_WEIGHT = 0.98, CERTAIN_WEIGHT = 0.9999;

/* The pairs of one source. */
typedef struct recall_block {
    atomic_int n_holders;
    kt_ctx *ctx;
    uint64_t source, bytes;
    kt__digest digest;
    atomic_ullong n_used; /* tokens that a pair of it changed */
    atomic_llong used_us; /* the last of them */
    bool scoped;
    size_t n;
    int32_t *ids;    /* [n] */
    double *lengths; /* [n] of the keys, and ... */
    double *rests;   /* ... of what is after their first part */
    int8_t *keys;    /* [n][d] */
} recall_block;

struct kt_recall {
    atomic_int n_holders;
    kt_model *model;
    kt_recall_params params; /* resolved */
    int32_t d, n_first;      /* a key's length, and that of its first part */
    size_t n, n_blocks;
    recall_block *blocks[]; /* the oldest first */
};

/* ---- keys ---- */

void kt__recall_key(const float *hidden, int32_t d, int8_t *key) {
    float most = 0;
    for (int32_t i = 0; i < d; i++) most = fmaxf(most, fabsf(hidden[i]));
    if (!(most > 0) || !isfinite(most)) {
        memset(key, 0, (size_t)d);
        return;
    }
    double scale = 127.0 / (double)most;
    for (int32_t i = 0; i < d; i++) key[i] = (int8_t)lrint((double)hidden[i] * scale);
}

static int32_t dot_of(const int8_t *a, const int8_t *b, int32_t n) {
    int32_t sum = 0; /* MOST_DIMS products below 2^14 fit */
    for (int32_t i = 0; i < n; i++) sum += (int16_t)a[i] * (int16_t)b[i];
    return sum;
}

/* ---- blocks ---- */

static void release_block(recall_block *b) {
    if (!b || atomic_fetch_sub(&b->n_holders, 1) != 1) return;
    atomic_fetch_sub(&b->ctx->mem_used_bytes, b->bytes);
    kt__free(b);
}

static kt_status charge_block(kt_ctx *ctx, uint64_t bytes, kt_error *err) {
    uint64_t before = atomic_fetch_add(&ctx->mem_used_bytes, bytes);
    if (before + bytes <= ctx->mem_bytes) return KT_OK;
    atomic_fetch_sub(&ctx->mem_used_bytes, bytes);
    return kt__fail(
        err, KT_E_NOMEM,
        "what was taught takes %.1f MiB more than there is in the memory budget of %.1f "
        "MiB",
        (double)bytes / (1 << 20), (double)ctx->mem_bytes / (1 << 20));
}

static void fill_block(recall_block *b, const kt_recall *r, const kt_recall_pairs *pairs) {
    size_t d = (size_t)r->d;
    kt__hash h;
    memcpy(b->ids, pairs->ids, b->n * sizeof *b->ids);
    memcpy(b->keys, pairs->keys, b->n * d);
    for (size_t i = 0; i < b->n; i++) {
        const int8_t *key = b->keys + i * d, *rest = key + r->n_first;
        b->lengths[i] = sqrt((double)dot_of(key, key, r->d));
        b->rests[i] = sqrt((double)dot_of(rest, rest, r->d - r->n_first));
    }
    kt__hash_init(&h, SEED);
    kt__hash_add(&h, b->ids, b->n * sizeof *b->ids);
    kt__hash_add(&h, b->keys, b->n * d);
    b->digest = kt__hash_end(&h);
}

static kt_status make_block(const kt_recall *r, const kt_recall_pairs *pairs, recall_block **out,
                            kt_error *err) {
    kt_ctx *ctx = r->model->ctx;
    size_t n = pairs->n, bytes = sizeof **out + n * (2 * sizeof(double) + 4 + (size_t)r->d);
    kt_status status = charge_block(ctx, bytes, err);
    if (status != KT_OK) return status;
    recall_block *b = kt__malloc(bytes);
    if (!b) {
        atomic_fetch_sub(&ctx->mem_used_bytes, bytes);
        return kt__fail_nomem(err, "what is taught", bytes);
    }
    *b = (recall_block){
        .ctx = ctx, .source = pairs->source, .scoped = pairs->scoped, .bytes = bytes, .n = n};
    atomic_init(&b->n_holders, 1);
    b->lengths = (double *)(void *)(b + 1);
    b->rests = b->lengths + n;
    b->ids = (int32_t *)(void *)(b->rests + n);
    b->keys = (int8_t *)(b->ids + n);
    fill_block(b, r, pairs);
    *out = b;
    return KT_OK;
}

/* ---- recalls ---- */

static kt_status new_recall(const kt_recall *like, size_t n_blocks, kt_recall **out,
                            kt_error *err) {
    size_t bytes = sizeof **out + n_blocks * sizeof *(*out)->blocks;
    *out = kt__calloc(1, bytes);
    if (!*out) return kt__fail_nomem(err, "what was taught", bytes);
    (*out)->model = like->model;
    (*out)->params = like->params;
    (*out)->d = like->d;
    (*out)->n_first = like->n_first;
    atomic_init(&(*out)->n_holders, 1);
    return KT_OK;
}

/* The block's owner it has, too. */
static void put_block(kt_recall *r, recall_block *b) {
    r->blocks[r->n_blocks++] = b;
    r->n += b->n;
}

static void share_block(kt_recall *r, recall_block *b) {
    atomic_fetch_add(&b->n_holders, 1);
    put_block(r, b);
}

static kt_status read_params(const kt_recall_params *given, kt_recall_params *out, kt_error *err) {
    kt_recall_params p = given ? *given : (kt_recall_params){0};
    if (!p.n_max) p.n_max = N_MAX;
    if (p.cos_from == 0) p.cos_from = COS_FROM;
    if (p.cos_full == 0) p.cos_full = COS_FULL;
    if (p.n_max < 1 || p.n_max > MOST)
        return kt__fail(err, KT_E_ARG, "n_max is %d, expected 0 (default) to %d", p.n_max, MOST);
    if (!(p.cos_from > 0 && p.cos_from < p.cos_full && p.cos_full <= 1))
        return kt__fail(err, KT_E_ARG, "the cosines are %g and %g, expected 0 < from < full <= 1",
                        (double)p.cos_from, (double)p.cos_full);
    *out = p;
    return KT_OK;
}

kt_status kt_recall_open(kt_model *model, const kt_recall_params *params, kt_recall **out,
                         kt_error *err) {
    kt_recall like = {.model = model};
    *out = NULL;
    kt__error_clear(err);
    if (!model->net)
        return kt__fail(err, KT_E_STATE, "a model opened with vocab_only recalls nothing");
    kt_status status = read_params(params, &like.params, err);
    if (status != KT_OK) return status;
    like.d = model->net->hp.d_model;
    if (like.d > MOST_DIMS)
        return kt__fail(err, KT_E_UNSUPPORTED, "hidden states of %d numbers are not recalled",
                        like.d);
    like.n_first = like.d / 4;
    return new_recall(&like, 0, out, err);
}

static kt_status check_pairs(const kt_recall *r, const kt_recall_pairs *pairs, kt_error *err) {
    int32_t n_vocab = r->model->net->hp.n_vocab;
    if (pairs->n == 0 || pairs->n > (size_t)r->params.n_max)
        return kt__fail(err, KT_E_LIMIT, "%zu pairs at once, expected 1 to %d", pairs->n,
                        r->params.n_max);
    for (size_t i = 0; i < pairs->n; i++) {
        if (pairs->ids[i] >= 0 && pairs->ids[i] < n_vocab) continue;
        return kt__fail(err, KT_E_ARG, "token %zu is %d, expected 0 to %d", i, pairs->ids[i],
                        n_vocab - 1);
    }
    return KT_OK;
}

/* The blocks that go: whole ones from the oldest, until there is room and, where any had to, a
 * quarter is free. */
static size_t n_going(const kt_recall *r, size_t n_new) {
    size_t most = (size_t)r->params.n_max, n = r->n + n_new, going = 0;
    if (n <= most) return 0;
    size_t aim = most - most / 4;
    while (going < r->n_blocks && n > aim) n -= r->blocks[going++]->n;
    return going;
}

kt_status kt_recall_add(const kt_recall *r, const kt_recall_pairs *pairs, kt_recall **out,
                        kt_error *err) {
    recall_block *block = NULL;
    *out = NULL;
    kt__error_clear(err);
    kt_status status = check_pairs(r, pairs, err);
    if (status == KT_OK) status = make_block(r, pairs, &block, err);
    if (status != KT_OK) return status;
    status = new_recall(r, r->n_blocks + 1, out, err);
    if (status != KT_OK) {
        release_block(block);
        return status;
    }
    for (size_t i = n_going(r, pairs->n); i < r->n_blocks; i++) share_block(*out, r->blocks[i]);
    put_block(*out, block);
    return KT_OK;
}

kt_recall *kt_recall_hold(kt_recall *r) {
    if (r) atomic_fetch_add(&r->n_holders, 1);
    return r;
}

void kt_recall_close(kt_recall *r) {
    if (!r || atomic_fetch_sub(&r->n_holders, 1) != 1) return;
    for (size_t i = 0; i < r->n_blocks; i++) release_block(r->blocks[i]);
    kt__free(r);
}

void kt_recall_get_info(const kt_recall *r, kt_recall_info *out) {
    uint8_t digest[32];
    kt__hash h;
    *out = (kt_recall_info){.n = (int32_t)r->n, .n_source = (int32_t)r->n_blocks};
    kt__hash_init(&h, SEED + 1);
    kt__hash_add(&h, &r->params.cos_from, sizeof r->params.cos_from);
    kt__hash_add(&h, &r->params.cos_full, sizeof r->params.cos_full);
    for (size_t i = 0; i < r->n_blocks; i++) {
        kt__hash_add(&h, &r->blocks[i]->digest, sizeof r->blocks[i]->digest);
        out->bytes += r->blocks[i]->bytes;
    }
    kt__digest_bytes(kt__hash_end(&h), digest);
    memcpy(out->id, digest, sizeof out->id);
}

bool kt__recall_is_of(const kt_recall *r, const kt_model *model) {
    return kt__model_is_same(r->model, model);
}

/* ---- the search ---- */

typedef struct recall_query {
    const int8_t *key;
    double length, rest; /* of the key, of what is after its first part */
    double best;         /* cosine, at least params.cos_from */
    int32_t id;          /* -1: none so far */
    recall_block *block; /* that has it */
} recall_query;

/* By the inequality of Cauchy and Schwarz the first part of a key says of most that they are too
 * far; products are exact, and the bound is taken generously, so that nothing near is missed. */
static void search_block(const kt_recall *r, recall_block *b, recall_query *q) {
    size_t d = (size_t)r->d;
    int32_t n_first = r->n_first, n_rest = r->d - n_first;
    for (size_t i = 0; i < b->n; i++) {
        const int8_t *key = b->keys + i * d;
        double length = q->length * b->lengths[i];
        int32_t first = dot_of(q->key, key, n_first);
        double most = (double)first + q->rest * b->rests[i];
        if (!(most >= (q->best - 1e-6) * length) || length == 0) continue;
        int32_t dot = first + dot_of(q->key + n_first, key + n_first, n_rest);
        double cosine = (double)dot / length;
        if (cosine < q->best) continue;
        q->best = cosine;
        q->id = b->ids[i];
        q->block = b;
    }
}

static double weight_of(const kt_recall *r, double cosine) {
    double from = (double)r->params.cos_from, full = (double)r->params.cos_full;
    return MOST_WEIGHT * (cosine >= full ? 1.0 : (cosine - from) / (full - from));
}

static bool is_in_scope(const recall_block *b, const kt__recall_scope *scope) {
    size_t i = 0;
    if (!b->scoped || !scope->known) return true;
    while (i < scope->n && scope->opened[i] != b->source) i++;
    return i < scope->n;
}

/* A pair of the block makes the token id likely. */
static kt__recall_change mix_token(const kt_recall *r, recall_block *b, int32_t id, double weight,
                                   float *logits) {
    const kt__recall_change change = {id, logits[id], b->source};
    atomic_fetch_add(&b->n_used, 1);
    atomic_store(&b->used_us, kt__now_us());
    logits[id] = kt__mixed_logit(logits, r->model->net->hp.n_vocab, id, weight);
    return change;
}

kt__recall_change kt__recall_mix(const kt_recall *r, const kt__recall_scope *scope,
                                 const int8_t *key, float *logits) {
    const kt__recall_change none = {.id = -1};
    recall_query q = {.key = key, .best = (double)r->params.cos_from, .id = -1};
    q.length = sqrt((double)dot_of(key, key, r->d));
    q.rest = sqrt((double)dot_of(key + r->n_first, key + r->n_first, r->d - r->n_first));
    if (q.length == 0) return none;
    for (size_t i = 0; i < r->n_blocks; i++)
        if (is_in_scope(r->blocks[i], scope)) search_block(r, r->blocks[i], &q);
    if (q.id < 0 || q.best <= (double)r->params.cos_from) return none;
    return mix_token(r, q.block, q.id, weight_of(r, q.best), logits);
}

/* The source's block, if said[n] are the first ids of its pairs, and there are more. */
static recall_block *begun_block(const kt_recall *r, uint64_t source, const int32_t *said,
                                 size_t n) {
    size_t i = r->n_blocks;
    while (i > 0 && r->blocks[i - 1]->source != source) i--;
    recall_block *b = i > 0 ? r->blocks[i - 1] : NULL;
    return b && n < b->n && (!n || !memcmp(said, b->ids, n * sizeof *said)) ? b : NULL;
}

kt__recall_change kt__recall_continue(const kt_recall *r, uint64_t source, const int32_t *said,
                                      size_t n, float *logits) {
    recall_block *b = begun_block(r, source, said, n);
    if (!b) return (kt__recall_change){.id = -1};
    return mix_token(r, b, b->ids[n], MOST_WEIGHT, logits);
}

/* Of scripts with blanks between words: others have no words that tokens end. */
static bool is_letter(char c) {
    unsigned char u = (unsigned char)c;
    return (u | 32) >= 'a' ? (u | 32) <= 'z' || (u >= 0xc3 && u <= 0xdf) : u >= '0' && u <= '9';
}

/* No blank and no mark is between two tokens. */
static bool ends_word(const kt_model *model, const int32_t ids[2]) {
    char text[WORD_BYTES];
    size_t n_first, n;
    kt_error ignored;
    if (kt_detokenize(model, ids, 1, 0, text, sizeof text, &n_first, &ignored) != KT_OK ||
        kt_detokenize(model, ids, 2, 0, text, sizeof text, &n, &ignored) != KT_OK)
        return false;
    return n_first > 0 && n_first < n && is_letter(text[n_first]) &&
           (is_letter(text[n_first - 1]) || text[n_first - 1] & 0x80);
}

kt__recall_change kt__recall_end_word(const kt_recall *r, uint64_t source, const int32_t *said,
                                      size_t n, float *logits) {
    recall_block *b = n ? begun_block(r, source, said, n) : NULL;
    if (!b || !ends_word(r->model, b->ids + n - 1)) return (kt__recall_change){.id = -1};
    return mix_token(r, b, b->ids[n], MOST_WEIGHT, logits);
}

kt__recall_change kt__recall_certain(int32_t id, int32_t n_vocab, float *logits) {
    const kt__recall_change change = {.id = id, .logit = logits[id]};
    logits[id] = kt__mixed_logit(logits, n_vocab, id, CERTAIN_WEIGHT);
    return change;
}

void kt_recall_uses(const kt_recall *r, uint64_t source, uint64_t *n, int64_t *last_us) {
    *n = 0;
    *last_us = 0;
    for (size_t i = 0; i < r->n_blocks; i++) {
        if (r->blocks[i]->source != source) continue;
        *n += atomic_load(&r->blocks[i]->n_used);
        int64_t us = atomic_load(&r->blocks[i]->used_us);
        if (us > *last_us) *last_us = us;
    }
}

/* Sources ascend in both, since the oldest comes first. */
void kt_recall_keep_uses(kt_recall *r, const kt_recall *before) {
    size_t k = 0;
    for (size_t i = 0; i < r->n_blocks; i++) {
        recall_block *b = r->blocks[i];
        while (k < before->n_blocks && before->blocks[k]->source < b->source) k++;
        if (k == before->n_blocks) return;
        recall_block *old = before->blocks[k];
        if (old == b || old->source != b->source) continue;
        atomic_store(&b->n_used, atomic_load(&old->n_used));
        atomic_store(&b->used_us, atomic_load(&old->used_us));
    }
}

void kt__recall_undo(kt__recall_change change, float *logits) {
    if (change.id >= 0) logits[change.id] = change.logit;
}
