#include "engine/divide.h"

#include <string.h>

#include "answer/batch.h"
#include "base/alloc.h"
#include "base/error.h"
#include "context/ctx.h"

typedef enum store_call { GET, PUT, GET_END, PUT_END, STORE_CALLS } store_call;

/* ---- process 0 ---- */

static void begin_call(const kt__shared_store *s, store_call call, const kt__kv_block *block) {
    kt__message *m = &s->engine->model->ctx->message;
    kt__message_begin(m, KT__TOLD_STORE);
    kt__message_put(m, s->engine->divided);
    kt__message_put(m, (int32_t)call);
    for (int i = 0; i < 2; i++) kt__message_put_64(m, (int64_t)block->key.w[i]);
    for (int i = 0; i < 2; i++) kt__message_put_64(m, (int64_t)block->parent.w[i]);
    kt__message_put(m, block->index);
    kt__message_put_words(m, block->ids, KT__PAGE_POS);
}

static void put_page(const kt__shared_store *s, const kt__kv *kv, int32_t page) {
    kt__message *m = &s->engine->model->ctx->message;
    kt__message_put(m, page);
    kt__where_put(m, kt__kv_page_where(kv, page));
}

static void put_end_pages(const kt__shared_store *s, const kt__kv *kv, const kt__kv_end *end) {
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    for (int32_t i = 0; i < kt__kv_n_end_pages(shape, end->n_pos); i++)
        put_page(s, kv, end->pages[kt__kv_end_page(shape, end->n_pos, i)]);
    kt__message_put(&s->engine->model->ctx->message, end->state);
}

static bool send_call(const kt__shared_store *s) {
    kt_ctx *ctx = s->engine->model->ctx;
    return kt__message_notify(&ctx->message, ctx->split.peers, "a call of the disk cache");
}

/* Whether all processes have it. */
static bool have_all(kt_ctx *ctx, bool here) {
    const kt__division *split = &ctx->split;
    int32_t has[KT__PEERS_MAX] = {0};
    size_t at[KT__PEERS_MAX + 1];
    bool all = true;
    for (int r = 0; r <= split->size; r++) at[r] = (size_t)r * sizeof *has;
    has[split->rank] = here;
    kt__peers_gather(split->peers, has, at);
    if (kt__peers_check(split->peers, NULL) != KT_OK) return false;
    for (int r = 0; r < split->size; r++) all &= has[r] != 0;
    return all;
}

static void note_missed(kt__shared_store *s, kt__kv_key key) {
    s->missed[s->n_missed++ % KT__MISSED_BLOCKS] = key;
}

static bool was_missed(const kt__shared_store *s, kt__kv_key key) {
    for (unsigned i = 0; i < s->n_missed && i < KT__MISSED_BLOCKS; i++)
        if (kt__kv_key_equal(s->missed[i], key)) return true;
    return false;
}

static bool shared_get(void *user, const kt__kv_block *block, kt__kv *kv, int32_t page) {
    kt__shared_store *s = user;
    kt_ctx *ctx = s->engine->model->ctx;
    kt__pool_lock(ctx->pool);
    begin_call(s, GET, block);
    put_page(s, kv, page);
    bool here = send_call(s) && s->own.get(s->own.user, block, kv, page);
    bool everywhere = have_all(ctx, here);
    kt__pool_unlock(ctx->pool);
    if (here && !everywhere) note_missed(s, block->key);
    return everywhere;
}

static void shared_put(void *user, const kt__kv_block *block, const kt__kv *kv, int32_t page) {
    kt__shared_store *s = user;
    kt_ctx *ctx = s->engine->model->ctx;
    kt__pool_lock(ctx->pool);
    begin_call(s, PUT, block);
    put_page(s, kv, page);
    (void)send_call(s);
    kt__pool_unlock(ctx->pool);
    s->own.put(s->own.user, block, kv, page);
}

static bool shared_get_end(void *user, const kt__kv_block *block, kt__kv *kv,
                           const kt__kv_end *end) {
    kt__shared_store *s = user;
    kt_ctx *ctx = s->engine->model->ctx;
    kt__pool_lock(ctx->pool);
    begin_call(s, GET_END, block);
    put_end_pages(s, kv, end);
    bool here = send_call(s) && s->own.get_end(s->own.user, block, kv, end);
    bool everywhere = have_all(ctx, here);
    kt__pool_unlock(ctx->pool);
    if (here && !everywhere) note_missed(s, block->key);
    return everywhere;
}

static void shared_put_end(void *user, const kt__kv_block *block, const kt__kv *kv,
                           const kt__kv_end *end) {
    kt__shared_store *s = user;
    kt_ctx *ctx = s->engine->model->ctx;
    kt__pool_lock(ctx->pool);
    begin_call(s, PUT_END, block);
    put_end_pages(s, kv, end);
    (void)send_call(s);
    kt__pool_unlock(ctx->pool);
    s->own.put_end(s->own.user, block, kv, end);
}

static bool shared_has(void *user, const kt__kv_block *block) {
    const kt__shared_store *s = user;
    return s->own.has(s->own.user, block);
}

static bool shared_has_end(void *user, const kt__kv_block *block) {
    const kt__shared_store *s = user;
    return s->own.has_end(s->own.user, block);
}

static bool shared_lacks(void *user, const kt__kv_block *block, bool end) {
    const kt__shared_store *s = user;
    return was_missed(s, block->key) || s->own.lacks(s->own.user, block, end);
}

kt__kv_store kt__shared_store_of(kt__shared_store *s) {
    kt__kv_store store = {.user = s, .get = shared_get, .put = shared_put, .has = shared_has};
    if (!s->own.get_end) return store;
    store.get_end = shared_get_end;
    store.put_end = shared_put_end;
    store.has_end = shared_has_end;
    store.lacks = shared_lacks;
    return store;
}

kt_status kt__cache_tell(kt_engine *engine, const kt_cache_params *params, kt_error *err) {
    kt_ctx *ctx = engine->model->ctx;
    if (!engine->divided || ctx->split.rank > 0) return KT_OK;
    kt__pool_lock(ctx->pool);
    kt__message_begin(&ctx->message, KT__TOLD_CACHE);
    kt__message_put(&ctx->message, engine->divided);
    kt__message_put_64(&ctx->message, (int64_t)params->max_bytes);
    kt__message_put_64(&ctx->message, (int64_t)params->queue_bytes);
    kt__message_put_bytes(&ctx->message, params->dir, strlen(params->dir));
    kt_status status = kt__message_send(&ctx->message, ctx->split.peers, err);
    kt__pool_unlock(ctx->pool);
    return status;
}

void kt__cache_tell_end(kt_engine *engine) {
    kt_ctx *ctx = engine->model->ctx;
    if (!engine->divided || ctx->split.rank > 0) return;
    kt__pool_lock(ctx->pool);
    kt__message_begin(&ctx->message, KT__TOLD_CACHE_END);
    kt__message_put(&ctx->message, engine->divided);
    (void)kt__message_notify(&ctx->message, ctx->split.peers, "a disk cache's end");
    kt__pool_unlock(ctx->pool);
}

/* ---- the others ---- */

kt_status kt__cache_heard(kt__message *m, kt_cache_params *params, kt_error *err) {
    *params = (kt_cache_params){0};
    params->max_bytes = (uint64_t)kt__message_take_64(m, 0, INT64_MAX);
    params->queue_bytes = (uint64_t)kt__message_take_64(m, 0, INT64_MAX);
    params->dir = kt__message_take_bytes(m, 0);
    if (!m->bad) return KT_OK;
    return kt__fail(err, KT_E_FORMAT, "process 0 describes a disk cache in another form");
}

static kt__kv_key take_key(kt__message *m) {
    kt__kv_key key;
    for (int i = 0; i < 2; i++) key.w[i] = (uint64_t)kt__message_take_64(m, INT64_MIN, INT64_MAX);
    return key;
}

static kt__kv_block take_block(kt_engine *engine) {
    kt__message *m = &engine->model->ctx->message;
    kt__kv_block block;
    block.key = take_key(m);
    block.parent = take_key(m);
    block.index = kt__message_take(m, 0, kt__pages_of(engine->params.n_ctx));
    block.ids = kt__message_take_words(m, KT__PAGE_POS);
    return block;
}

static int32_t take_page(kt_engine *engine) {
    kt__message *m = &engine->model->ctx->message;
    int32_t page = kt__message_take(m, 0, (int32_t)kt__kv_n_ids(engine->kv) - 1);
    if (!kt__kv_page_put(engine->kv, page, kt__where_take(m))) m->bad = true;
    return page;
}

/* pages[]: of all positions, of which the end's alone are filled in. */
static kt__kv_end take_end(kt_engine *engine, const kt__kv_block *block, int32_t *pages) {
    kt__message *m = &engine->model->ctx->message;
    const kt__kv_shape *shape = kt__kv_get_shape(engine->kv);
    kt__kv_end end = {.n_pos = ((int64_t)block->index + 1) * KT__PAGE_POS, .pages = pages};
    for (int32_t i = 0; !m->bad && i < kt__kv_n_end_pages(shape, end.n_pos); i++) {
        int32_t page = take_page(engine);
        if (!kt__kv_page_has_f16(engine->kv, page)) m->bad = true;
        pages[kt__kv_end_page(shape, end.n_pos, i)] = page;
    }
    end.state = kt__message_take(m, shape->state_bytes ? 1 : KT__NO_STATE,
                                 shape->state_bytes ? kt__kv_n_states(engine->kv) : KT__NO_STATE);
    return end;
}

static bool call_page(kt_engine *engine, const kt__kv_store *store, store_call call,
                      const kt__kv_block *block) {
    int32_t page = take_page(engine);
    if (engine->model->ctx->message.bad || !store) return false;
    if (call == GET) return store->get(store->user, block, engine->kv, page);
    store->put(store->user, block, engine->kv, page);
    return true;
}

static bool call_end(kt_engine *engine, const kt__kv_store *store, store_call call,
                     const kt__kv_block *block) {
    bool done = false;
    int32_t *pages = kt__calloc((size_t)block->index + 1, sizeof *pages);
    if (!pages) return false;
    kt__kv_end end = take_end(engine, block, pages);
    if (!engine->model->ctx->message.bad && store && store->get_end) {
        done = call == PUT_END || store->get_end(store->user, block, engine->kv, &end);
        if (call == PUT_END) store->put_end(store->user, block, engine->kv, &end);
    }
    kt__free(pages);
    return done;
}

/* Every process but 0: the call of process 0's store that the message at hand carries, made on this process' own store.
 * Where process 0 waits for the outcome (both GETs), it is agreed on by all. */
kt_status kt__store_heard(kt_engine *engine, const kt__kv_store *store, kt_error *err) {
    kt_ctx *ctx = engine->model->ctx;
    store_call call = (store_call)kt__message_take(&ctx->message, 0, STORE_CALLS - 1);
    kt__kv_block block = take_block(engine);
    bool of_end = call == GET_END || call == PUT_END, done = false;
    if (!ctx->message.bad) done = (of_end ? call_end : call_page)(engine, store, call, &block);
    if (ctx->message.bad)
        return kt__fail(err, KT_E_FORMAT,
                        "process 0 sent a call of a disk cache that this process' engine has no "
                        "room for");
    if (call == GET || call == GET_END) (void)have_all(ctx, done);
    return kt__peers_check(ctx->split.peers, err);
}
