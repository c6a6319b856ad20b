#include "answer/batch.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "context/ctx.h"

enum { PASSES = 2 };

static kt__fwd *pass_of(const kt_engine *engine, int number) {
    return number == 0 ? engine->fwd : engine->step_fwd;
}

bool kt__batch_is_divided(const kt_engine *engine, const kt__batch_run *run) {
    return engine->divided && (run->fwd == engine->fwd || run->fwd == engine->step_fwd);
}

/* Whether a page's number alone does not say where its parts lie. */
static bool is_placed(const kt_engine *engine) {
    const kt__kv_shape *shape = kt__kv_get_shape(engine->kv);
    return kt__kv_is_quantised(shape) || kt__kv_has_local_parts(shape);
}

/* ---- process 0 ---- */

void kt__where_put(kt__message *m, kt__kv_where where) {
    const int32_t words[] = {where.place, where.slot, where.local, where.quantised};
    kt__message_put_words(m, words, 4);
}

static void put_table(const kt_engine *engine, const kt__seg *seg) {
    kt__message *m = &engine->model->ctx->message;
    const kt__kv_table *t = seg->table;
    int32_t n = kt__pages_of(seg->pos0 + seg->n_tok);
    if (n > t->n_pages) n = t->n_pages;
    kt__message_put(m, n);
    kt__message_put_words(m, t->pages, (size_t)n);
    for (int32_t i = 0; is_placed(engine) && i < n; i++)
        kt__where_put(m, kt__kv_page_where(engine->kv, t->pages[i]));
    const int32_t words[] = {t->quantise_from, t->quantise_due, t->quantise_to, t->quantise_layers,
                             t->state};
    kt__message_put_words(m, words, sizeof words / sizeof *words);
}

/* A segment without tokens has lost its table. */
static void put_segment(const kt_engine *engine, const kt__seg *seg) {
    kt__message *m = &engine->model->ctx->message;
    kt__message_put_64(m, seg->pos0);
    const int32_t words[] = {seg->row0, seg->n_tok, seg->pair_from, seg->n_tok ? seg->n_states : 0};
    kt__message_put_words(m, words, sizeof words / sizeof *words);
    if (seg->n_tok == 0) return;
    for (int i = 0; i < seg->n_states; i++) {
        kt__message_put(m, seg->states[i].n_tok);
        kt__message_put(m, seg->states[i].piece);
    }
    put_table(engine, seg);
}

static void put_batch(const kt_engine *engine, const kt__batch *b) {
    kt__message *m = &engine->model->ctx->message;
    kt__message_put(m, b->n_tok);
    kt__message_put_words(m, b->ids, (size_t)b->n_tok);
    kt__message_put(m, b->n_out);
    kt__message_put_words(m, b->out_rows, (size_t)b->n_out);
    kt__message_put(m, b->no_head);
    kt__message_put(m, b->n_seg);
    for (int i = 0; i < b->n_seg; i++) put_segment(engine, &b->segs[i]);
    kt__message_put(m, b->n_lora);
    kt__adapter_put_rows(m, b->lora, b->n_lora);
}

kt_status kt__batch_tell(kt_engine *engine, const kt__batch_run *run, bool agreed, kt_error *err) {
    kt_ctx *ctx = engine->model->ctx;
    const kt__batch *b = run->batch ? run->batch : kt__fwd_batch(run->fwd);
    kt__message_begin(&ctx->message, KT__TOLD_RUN);
    const int32_t words[] = {engine->divided, run->fwd == engine->step_fwd, run->batch != NULL,
                             run->decode, agreed};
    kt__message_put_words(&ctx->message, words, sizeof words / sizeof *words);
    put_batch(engine, b);
    return kt__message_send(&ctx->message, ctx->split.peers, err);
}

/* A failure is reported with the next batch. */
void kt__batch_tell_copy(void *user, int32_t from, int32_t to) {
    const kt_engine *engine = user;
    kt_ctx *ctx = engine->model->ctx;
    kt__pool_lock(ctx->pool);
    kt__message_begin(&ctx->message, KT__TOLD_COPY);
    kt__message_put(&ctx->message, engine->divided);
    kt__message_put(&ctx->message, from);
    kt__where_put(&ctx->message, kt__kv_page_where(engine->kv, from));
    kt__message_put(&ctx->message, to);
    kt__where_put(&ctx->message, kt__kv_page_where(engine->kv, to));
    (void)kt__message_notify(&ctx->message, ctx->split.peers, "a page's copy");
    kt__pool_unlock(ctx->pool);
}

/* ---- the others ---- */

kt_status kt__led_pass_init(kt__led_pass *pass, int n_tok_max, int n_out_max, kt_error *err) {
    size_t n = (size_t)n_tok_max;
    *pass = (kt__led_pass){.n_tok_max = n_tok_max, .n_out_max = n_out_max};
    pass->ids = kt__calloc(n, sizeof *pass->ids);
    pass->out_rows = kt__calloc(n, sizeof *pass->out_rows);
    pass->segs = kt__calloc(n, sizeof *pass->segs);
    pass->tables = kt__calloc(n, sizeof *pass->tables);
    pass->lora = kt__calloc(n, sizeof *pass->lora);
    pass->uses = kt__calloc(n * KT_ADAPTERS_MAX, sizeof *pass->uses);
    if (pass->ids && pass->out_rows && pass->segs && pass->tables && pass->lora && pass->uses)
        return KT_OK;
    kt__led_pass_free(pass);
    return kt__fail_nomem(err, "a batch of another process", n * sizeof *pass->tables);
}

void kt__led_pass_free(kt__led_pass *pass) {
    kt__free(pass->ids);
    kt__free(pass->out_rows);
    kt__free(pass->segs);
    kt__free(pass->tables);
    kt__free(pass->lora);
    kt__free(pass->uses);
    kt__free(pass->states);
    kt__free(pass->pages);
    *pass = (kt__led_pass){0};
}

static void take_rows(kt__message *m, int32_t *out, int n, int32_t end) {
    for (int i = 0; i < n; i++) out[i] = kt__message_take(m, 0, end - 1);
}

kt__kv_where kt__where_take(kt__message *m) {
    kt__kv_where where;
    where.place = kt__message_take(m, -1, INT32_MAX);
    where.slot = kt__message_take(m, -1, INT32_MAX);
    where.local = kt__message_take(m, -1, INT32_MAX);
    where.quantised = kt__message_take(m, 0, INT32_MAX);
    return where;
}

/* The table's pages are found by their number in the pass' list until all are there. */
static bool take_pages(kt_engine *engine, kt__led_pass *pass, int32_t n) {
    kt__message *m = &engine->model->ctx->message;
    int32_t most = (int32_t)kt__kv_n_ids(engine->kv);
    if (!kt__vec_reserve(pass->pages, pass->cap_pages, pass->n_pages + (size_t)n)) return false;
    int32_t *pages = pass->pages + pass->n_pages;
    pass->n_pages += (size_t)n;
    take_rows(m, pages, n, most);
    for (int32_t i = 0; is_placed(engine) && i < n; i++)
        if (!kt__kv_page_put(engine->kv, pages[i], kt__where_take(m))) m->bad = true;
    return true;
}

static bool take_table(kt_engine *engine, kt__led_pass *pass, const kt__seg *seg, kt__kv_table *t) {
    kt__message *m = &engine->model->ctx->message;
    int32_t n = kt__message_take(m, kt__pages_of(seg->pos0 + seg->n_tok),
                                 (int32_t)kt__kv_n_ids(engine->kv));
    *t = (kt__kv_table){.n_pages = n, .cap = n};
    if (m->bad || !take_pages(engine, pass, n)) return false;
    t->quantise_from = kt__message_take(m, 0, n);
    t->quantise_due = kt__message_take(m, 0, n);
    t->quantise_to = kt__message_take(m, 0, n);
    t->quantise_layers = kt__message_take(m, 0, KT__KV_LAYERS_MAX);
    t->state = kt__message_take(m, 0, kt__kv_n_states(engine->kv));
    return true;
}

static bool take_states(kt_engine *engine, kt__led_pass *pass, const kt__seg *seg) {
    kt__message *m = &engine->model->ctx->message;
    size_t n = (size_t)seg->n_states;
    if (!kt__vec_reserve(pass->states, pass->cap_states, pass->n_states + n)) return false;
    for (size_t i = 0; i < n; i++)
        pass->states[pass->n_states++] = (kt__seg_state){
            .n_tok = kt__message_take(m, 1, seg->n_tok),
            .piece = kt__message_take(m, 1, kt__kv_n_states(engine->kv))};
    return true;
}

static bool take_segment(kt_engine *engine, kt__led_pass *pass, int i) {
    kt__message *m = &engine->model->ctx->message;
    kt__seg *seg = &pass->segs[i];
    int n_tok = pass->batch.n_tok;
    *seg = (kt__seg){.pos0 = kt__message_take_64(m, 0, engine->params.n_ctx)};
    seg->row0 = kt__message_take(m, 0, n_tok);
    seg->n_tok = kt__message_take(m, 0, n_tok - seg->row0);
    seg->pair_from = kt__message_take(m, 0, INT32_MAX);
    seg->n_states = kt__message_take(m, 0, seg->n_tok);
    seg->table = &pass->tables[i];
    if (m->bad || seg->n_tok == 0) return true;
    return take_states(engine, pass, seg) && take_table(engine, pass, seg, &pass->tables[i]);
}

/* All lists have their place now. */
static void place_lists(kt__led_pass *pass) {
    size_t page = 0, state = 0;
    for (int i = 0; i < pass->batch.n_seg; i++) {
        kt__seg *seg = &pass->segs[i];
        if (seg->n_tok == 0) continue;
        pass->tables[i].pages = pass->pages + page;
        page += (size_t)pass->tables[i].n_pages;
        seg->states = seg->n_states ? pass->states + state : NULL;
        state += (size_t)seg->n_states;
    }
}

static void take_adapted(const kt_engine *engine, const kt__led_adapters *adapters,
                         kt__led_pass *pass) {
    kt__message *m = &engine->model->ctx->message;
    kt__batch *b = &pass->batch;
    b->n_lora = kt__message_take(m, 0, b->n_tok);
    b->lora = pass->lora;
    kt__adapter_take_rows(adapters, engine->model->net, m, b->n_tok, pass->lora, pass->uses,
                          b->n_lora);
}

static bool take_batch(kt_engine *engine, kt__led_pass *pass) {
    kt__message *m = &engine->model->ctx->message;
    kt__batch *b = &pass->batch;
    *b = (kt__batch){.ids = pass->ids, .segs = pass->segs, .out_rows = pass->out_rows};
    pass->n_pages = pass->n_states = 0;
    b->n_tok = kt__message_take(m, 1, pass->n_tok_max);
    take_rows(m, pass->ids, b->n_tok, (int32_t)kt__engine_n_vocab(engine));
    b->n_out = kt__message_take(m, 0, pass->n_tok_max);
    take_rows(m, pass->out_rows, b->n_out, b->n_tok);
    b->no_head = kt__message_take(m, 0, 1);
    if (!b->no_head && b->n_out > pass->n_out_max) m->bad = true;
    b->n_seg = kt__message_take(m, 1, b->n_tok);
    for (int i = 0; !m->bad && i < b->n_seg; i++)
        if (!take_segment(engine, pass, i)) return false;
    place_lists(pass);
    return true;
}

static kt_status check_heard(const kt_engine *engine, kt_error *err) {
    if (!engine->model->ctx->message.bad) return KT_OK;
    return kt__fail(err, KT_E_FORMAT,
                    "process 0 sent a batch that this process' engine has no room for");
}

kt_status kt__batch_heard(kt_engine *engine, const kt__led_adapters *adapters, kt__led_pass *passes,
                          kt__batch_run *run, kt_error *err) {
    kt__message *m = &engine->model->ctx->message;
    int number = kt__message_take(m, 0, PASSES - 1);
    bool begins = kt__message_take(m, 0, 1);
    kt__led_pass *pass = &passes[number];
    *run = (kt__batch_run){.fwd = pass_of(engine, number), .until_us = INT64_MAX};
    run->decode = kt__message_take(m, 0, 1);
    run->agreed = kt__message_take(m, 0, 1);
    if (!take_batch(engine, pass)) return kt__fail_nomem(err, "a batch of another process", 0);
    take_adapted(engine, adapters, pass);
    run->n_tok = begins ? pass->batch.n_tok : 0;
    run->batch = begins ? &pass->batch : NULL;
    return check_heard(engine, err);
}

kt_status kt__batch_heard_copy(kt_engine *engine, kt_error *err) {
    kt__message *m = &engine->model->ctx->message;
    int32_t page[2], most = (int32_t)kt__kv_n_ids(engine->kv) - 1;
    for (int i = 0; i < 2; i++) {
        page[i] = kt__message_take(m, 0, most);
        if (!kt__kv_page_put(engine->kv, page[i], kt__where_take(m))) m->bad = true;
    }
    KT__STEP(check_heard(engine, err));
    kt__kv_page_copy(engine->kv, page[0], page[1]);
    return KT_OK;
}
