#include "tutor/served.h"

#include "bank/bank.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"
#include "context/adapter.h"
#include "prompt/notes.h"

#include <stdlib.h>
#include <string.h>

/* ---- the adapter's scope ---- */

enum { ARENA_BLOCK = 1 << 14, ARENA_MOST = 1 << 30 };

static bool opens_text(kt_bank *bank, const char *text, size_t len) {
    kt__bank_hit hit;
    return bank && kt__bank_open_in(bank, text, len, &hit, 1) > 0;
}

/* Without memory it does not open: the model answers alone. */
static bool opens_request(kt_bank *bank, const kt_request_params *request) {
    kt__arena arena;
    kt__user_text *texts;
    kt_error ignored;
    size_t n;
    bool opens = false;
    kt__arena_init(&arena, ARENA_BLOCK, ARENA_MOST);
    if (bank && kt__user_texts_of(&arena, request, &texts, &n, &ignored) == KT_OK)
        opens = kt__user_texts_open(bank, texts, n);
    kt__arena_free(&arena);
    return opens;
}

/* Whether an adapter that is scoped, or not, is used for the request. */
static bool is_used(bool scoped, const kt_learned *learned, const kt_request_params *request) {
    if (!scoped) return true;
    if (request->corrections.bank && request->corrections.note_tokens >= 0)
        return false; /* the notes say it */
    return opens_request(learned->bank, request);
}

kt_adapter *kt_learned_adapter(const kt_learned *learned, const kt_request_params *request) {
    kt_adapter *a = learned->adapter;
    return a && is_used(a->scoped, learned, request) ? a : NULL;
}

size_t kt_learned_adapters(const kt_learned *learned, const kt_request_params *request,
                           kt_adapter_use out[KT_LEARNED_ADAPTERS]) {
    kt_adapter *const of[KT_LEARNED_ADAPTERS] = {learned->adapter, learned->instant};
    size_t n = 0;
    for (int i = 0; i < KT_LEARNED_ADAPTERS; i++)
        if (of[i] && is_used(of[i]->scoped, learned, request))
            out[n++] = (kt_adapter_use){of[i], 1.0f};
    return n;
}

bool kt__item_opens(kt_bank *bank, const kt__feedback_item *item) {
    return item->kind != KT__FEEDBACK_SCORE && item->question &&
           opens_text(bank, item->question, item->n_question);
}

kt_adapter *kt__adapter_for_item(kt_adapter *adapter, kt_bank *bank,
                                 const kt__feedback_item *item) {
    if (!adapter || !adapter->scoped) return adapter;
    return item->question && opens_text(bank, item->question, item->n_question) ? adapter : NULL;
}

/* ---- keys ---- */

/* magic, d_model, entries; of each entry its feedback, its number of keys, and these; at last a checksum. */
enum { MAGIC_BYTES = 8, HEAD_BYTES = MAGIC_BYTES + 8, ENTRY_BYTES = 12, SUM_BYTES = 32 };
enum { SEED = 0x7461756b /* of the checksum */, PAIRS_BY_DEFAULT = 8192 };
static const char magic[MAGIC_BYTES + 1] = "KTKEYS01";

void kt__taught_keys_free(kt__taught_keys *t) {
    for (size_t i = 0; i < t->n; i++) kt__free(t->of[i].keys);
    kt__free(t->of);
    *t = (kt__taught_keys){0};
}

static int compare_taught(const void *a, const void *b) {
    const kt__taught_key *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

const kt__taught_key *kt__taught_keys_find(const kt__taught_keys *t, uint64_t id) {
    const kt__taught_key key = {.id = id};
    return t->n ? bsearch(&key, t->of, t->n, sizeof key, compare_taught) : NULL;
}

/* The table takes keys over, or frees them. Its ids are sorted by who adds several. */
static kt_status append_taught(kt__taught_keys *t, uint64_t id, size_t n, int8_t *keys,
                               kt_error *err) {
    if (!kt__vec_reserve(t->of, t->cap, t->n + 1)) {
        kt__free(keys);
        return kt__fail_nomem(err, "keys", t->n * sizeof *t->of);
    }
    t->of[t->n++] = (kt__taught_key){id, n, keys};
    return KT_OK;
}

/* ---- computing ---- */

/* Waits where the engine's queue is full. */
static kt_status compute_patiently(kt_engine *engine, const int32_t *ids, size_t n, size_t first,
                                   kt_adapter *adapter, const kt__tutor_patience *patience,
                                   int8_t *keys, kt_error *err) {
    const kt_adapter_use use = {adapter, 1.0f};
    kt_status status;
    do {
        KT__STEP(kt__patience_check(patience, err));
        status = kt_recall_keys(engine, ids, n, first, &use, adapter ? 1 : 0, keys, err);
    } while (kt__patience_again(engine, status));
    return status;
}

/* Of what follows the prompt: the tokens that the feedback's own keys are of. */
static kt_status compute_item(kt__taught_keys *t, kt_learner *l, kt_adapter *adapter, kt_bank *bank,
                              const kt__feedback_item *item, const kt__tutor_patience *patience,
                              kt_error *err) {
    size_t n = item->keys.n, d = (size_t)kt__engine_hparams(l->engine)->d_model;
    int32_t *ids = kt__calloc(item->n_prompt + n, sizeof *ids);
    int8_t *keys = kt__calloc(n, d);
    kt_status status;
    if (!ids || !keys) {
        status = kt__fail_nomem(err, "hidden states", n * d);
        goto out;
    }
    memcpy(ids, item->prompt, item->n_prompt * sizeof *ids);
    memcpy(ids + item->n_prompt, item->keys.ids, n * sizeof *ids);
    KT__TRY(compute_patiently(l->engine, ids, item->n_prompt + n - 1, item->n_prompt - 1,
                              kt__adapter_for_item(adapter, bank, item), patience, keys, err));
    status = append_taught(t, item->id, n, keys, err);
    keys = NULL;
out:
    kt__free(ids);
    kt__free(keys);
    return status;
}

kt_status kt__taught_keys_add(kt__taught_keys *t, kt_learner *l, kt_adapter *adapter, kt_bank *bank,
                              const uint64_t *ids, size_t n, const kt__tutor_patience *patience,
                              kt_error *err) {
    kt_status status = KT_OK;
    kt__feedback_item item;
    kt__taught_keys more = {0};
    int32_t n_max = l->params.recall.n_max;
    size_t room = n_max > 0 ? (size_t)n_max : PAIRS_BY_DEFAULT;
    kt__buf buf;
    kt__buf_init(&buf, (size_t)64 << 20);
    for (size_t i = n; i > 0 && room > 0; i--) { /* the newest ones are those that are recalled */
        KT__TRY(kt__feedback_get(l->store, ids[i - 1], &item, &buf, err));
        room -= item.keys.n < room ? item.keys.n : room;
        if (item.keys.n == 0 || item.n_prompt == 0 || kt__taught_keys_find(t, item.id)) continue;
        KT__TRY(compute_item(&more, l, adapter, bank, &item, patience, err));
    }
    for (size_t i = 0; i < more.n; i++) {
        int8_t *keys = more.of[i].keys;
        more.of[i].keys = NULL;
        KT__TRY(append_taught(t, more.of[i].id, more.of[i].n, keys, err));
    }
out:
    if (t->n) qsort(t->of, t->n, sizeof *t->of, compare_taught);
    kt__taught_keys_free(&more);
    kt__buf_free(&buf);
    return status;
}

/* ---- the file ---- */

static void put_number(kt__buf *out, uint64_t v, int n_bytes) {
    uint8_t bytes[8];
    kt__le_put(bytes, v, n_bytes);
    (void)kt__buf_append(out, bytes, (size_t)n_bytes);
}

void kt__taught_keys_write(const kt__taught_keys *t, size_t d_model, kt__buf *out) {
    uint8_t sum[SUM_BYTES];
    size_t begin = out->len;
    (void)kt__buf_append(out, magic, MAGIC_BYTES);
    put_number(out, d_model, 4);
    put_number(out, t->n, 4);
    for (size_t i = 0; i < t->n; i++) {
        put_number(out, t->of[i].id, 8);
        put_number(out, t->of[i].n, 4);
        (void)kt__buf_append(out, t->of[i].keys, t->of[i].n * d_model);
    }
    if (out->failed) return;
    kt__digest_bytes(kt__hash_bytes(SEED, out->data + begin, out->len - begin), sum);
    (void)kt__buf_append(out, sum, SUM_BYTES);
}

/* One entry at *at, which is moved after it; ids ascend. */
static bool take_entry(kt__taught_keys *t, size_t d_model, const uint8_t **at, const uint8_t *end) {
    kt_error ignored;
    if (end - *at < ENTRY_BYTES) return false;
    uint64_t id = kt__le_get64(*at);
    size_t n = kt__le_get32(*at + 8);
    *at += ENTRY_BYTES;
    if (n == 0 || n > (size_t)(end - *at) / d_model) return false;
    if (t->n && id <= t->of[t->n - 1].id) return false;
    int8_t *keys = kt__calloc(n, d_model);
    if (!keys) return false;
    memcpy(keys, *at, n * d_model);
    *at += n * d_model;
    return append_taught(t, id, n, keys, &ignored) == KT_OK;
}

bool kt__taught_keys_read(kt__taught_keys *t, size_t d_model, const void *data, size_t n) {
    const uint8_t *bytes = data, *at, *end;
    uint8_t sum[SUM_BYTES];
    *t = (kt__taught_keys){0};
    if (n < HEAD_BYTES + SUM_BYTES || memcmp(bytes, magic, MAGIC_BYTES) != 0) return false;
    if (d_model == 0 || kt__le_get32(bytes + MAGIC_BYTES) != d_model) return false;
    at = bytes + HEAD_BYTES;
    end = bytes + n - SUM_BYTES;
    kt__digest_bytes(kt__hash_bytes(SEED, bytes, n - SUM_BYTES), sum);
    bool good = !memcmp(sum, end, SUM_BYTES);
    while (good && at < end) good = take_entry(t, d_model, &at, end);
    good = good && t->n == kt__le_get32(bytes + MAGIC_BYTES + 4);
    if (!good) kt__taught_keys_free(t);
    return good;
}

/* ---- corrections, asked ---- */

/* Whether what is answered are the tokens right[n], and then an end. */
static kt_status follow_answer(const kt_model *model, kt_request *r, const int32_t *right, size_t n,
                               bool *same, kt_error *err) {
    kt_status status = KT_OK;
    kt_event event;
    size_t at = 0;
    *same = true;
    while (kt_request_next_event(r, &event, -1)) {
        bool token = event.kind == KT_EVENT_TOKEN && event.id >= 0;
        if (token && !kt_token_is_eog(model, event.id) && *same) {
            *same = at < n && event.id == right[at];
            at++;
            if (!*same) kt_request_cancel(r); /* it cannot become right any more */
        }
        if (event.kind == KT_EVENT_FINISHED && event.error) {
            status = event.error->code;
            if (err) *err = *event.error;
        }
    }
    *same = *same && at == n;
    return status;
}

static kt_status ask_one(kt_learner *l, const kt_learned *with, const kt__feedback_item *item,
                         const kt__tutor_patience *patience, bool *same, kt_error *err) {
    const kt_model *model = l->engine->model;
    kt_adapter *const of[] = {kt__adapter_for_item(with->adapter, with->bank, item),
                              kt__adapter_for_item(with->instant, with->bank, item)};
    kt_adapter_use uses[KT_LEARNED_ADAPTERS];
    kt_request_params r = kt_request_params_default();
    kt_request *request;
    size_t n = item->n_right;
    while (n > 0 && kt_token_is_eog(model, item->right[n - 1])) n--;
    r.prompt.ids = item->prompt;
    r.prompt.n_ids = item->n_prompt;
    r.corrections.recall = with->recall;
    r.adapters = uses;
    for (int i = 0; i < KT_LEARNED_ADAPTERS; i++)
        if (of[i]) uses[r.n_adapters++] = (kt_adapter_use){of[i], 1.0f};
    r.gen.sampling.temperature = 0;
    r.gen.n_predict = (int32_t)n + 1;
    r.service.priority = -1;
    r.service.no_cache = true;
    KT__STEP(kt__patience_submit(l->engine, &r, patience, &request, err));
    kt_status status = follow_answer(model, request, item->right, n, same, err);
    kt_request_close(request);
    return status;
}

kt_status kt__served_ask(kt_learner *l, const kt_learned *with, const uint64_t *ids, size_t n,
                         const kt__tutor_patience *patience, kt__served_count *out, kt_error *err) {
    kt_status status = KT_OK;
    kt__feedback_item item;
    kt__buf buf;
    bool same;
    *out = (kt__served_count){0};
    kt__buf_init(&buf, (size_t)64 << 20);
    for (size_t i = 0; i < n; i++) {
        KT__TRY(kt__feedback_get(l->store, ids[i], &item, &buf, err));
        if (item.kind == KT__FEEDBACK_SCORE || item.n_prompt == 0 || item.n_right == 0) continue;
        KT__TRY(ask_one(l, with, &item, patience, &same, err));
        out->n_asked++;
        out->n_right += same;
    }
out:
    kt__buf_free(&buf);
    return status;
}
