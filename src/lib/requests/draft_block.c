#include "requests/draft_block.h"

#include "answer/batch.h"
#include "answer/common_tokens.h"
#include "base/alloc.h"
#include "base/error.h"

struct kt__draft_block {
    kt_engine *engine;
    kt__fwd *fwd;         /* that proposes: the engine's, or */
    kt__fwd *own;         /* an assistant's; NULL: there is none */
    kt__seg *segs;        /* [n_lanes] */
    const float **before; /* [n_lanes] */
    int32_t *ids;         /* [n_lanes] */
    int32_t *out_rows;    /* [n_lanes] */
    kt__draft_ask **of;   /* [n_lanes] whose the rows are */
    double rest, head; /* bytes of a proposal but for its head, and of this: shares of a step's */
    kt__common_tokens common; /* of the texts that it is asked for */
};

static uint64_t bytes_of(const kt__weight *w) {
    return (uint64_t)w->row_bytes * (uint64_t)w->n_row;
}

/* NULL: the model's own block proposes. */
static const kt__net *assistant_of(const kt_engine *engine) {
    return engine->params.draft ? engine->params.draft->net : NULL;
}

static double share_of_head(const kt_engine *engine) {
    const kt__net *net = engine->model->net, *assistant = assistant_of(engine);
    const kt__weight *head = assistant ? &assistant->head : &net->mtp->t[KT__SLOT_MTP_HEAD].w;
    return (double)bytes_of(head->data ? head : &net->head) / (double)net->decode_bytes;
}

double kt__draft_block_size(const kt_engine *engine) {
    const kt__net *net = engine->model->net, *assistant = assistant_of(engine);
    if (assistant) return (double)assistant->decode_bytes / (double)net->decode_bytes;
    uint64_t bytes = net->mtp_bytes - bytes_of(&net->mtp->t[KT__SLOT_MTP_EMBED].w);
    if (!net->mtp->t[KT__SLOT_MTP_HEAD].w.data) bytes += bytes_of(&net->head);
    return (double)bytes / (double)net->decode_bytes;
}

/* It reads the model's store as the model does. */
static kt__fwd_params assistant_fwd(const kt_model *model, const kt_engine_params *p) {
    return (kt__fwd_params){.n_tok_max = p->n_parallel,
                            .n_out_max = p->n_parallel,
                            .n_ctx = p->n_ctx,
                            .keys_quantised = p->kv_keys != KT_KV_F16,
                            .host = model->net,
                            .exact = model->params.exact,
                            .plain_attention = model->params.plain_attention};
}

uint64_t kt__draft_block_plan_bytes(const kt_model *model, const kt_engine_params *p) {
    const kt__fwd_params fwd = assistant_fwd(model, p);
    return kt__fwd_plan_bytes(p->draft->net, &fwd);
}

static kt_status choose_fwd(kt__draft_block *b, kt_error *err) {
    const kt_engine *engine = b->engine;
    const kt_ctx *ctx = engine->model->ctx;
    b->fwd = engine->step_fwd;
    if (!assistant_of(engine)) return KT_OK;
    const kt__fwd_params fwd = assistant_fwd(engine->model, &engine->params);
    KT__STEP(kt__fwd_create(assistant_of(engine), ctx->pool, ctx->kernels, &fwd, &b->own, err));
    b->fwd = b->own;
    return KT_OK;
}

kt_status kt__draft_block_create(kt_engine *engine, kt__draft_block **out, kt_error *err) {
    size_t lanes = (size_t)engine->params.n_parallel;
    *out = NULL;
    kt__draft_block *b = kt__calloc(1, sizeof *b);
    if (!b) return kt__fail_nomem(err, "the proposals' batch", sizeof *b);
    b->engine = engine;
    b->head = share_of_head(engine);
    b->rest = kt__draft_block_size(engine) - b->head;
    b->segs = kt__calloc(lanes, sizeof *b->segs);
    b->before = kt__calloc(lanes, sizeof *b->before);
    b->ids = kt__calloc(lanes, sizeof *b->ids);
    b->out_rows = kt__calloc(lanes, sizeof *b->out_rows);
    b->of = kt__calloc(lanes, sizeof *b->of);
    kt_status status = choose_fwd(b, err);
    if (!b->segs || !b->before || !b->ids || !b->out_rows || !b->of)
        status = kt__fail_nomem(err, "the proposals' batch", 0);
    if (status == KT_OK)
        *out = b;
    else
        kt__draft_block_destroy(b);
    return status;
}

void kt__draft_block_destroy(kt__draft_block *b) {
    if (!b) return;
    kt__fwd_destroy(b->own);
    kt__free(b->segs);
    kt__free(b->before);
    kt__free(b->ids);
    kt__free(b->out_rows);
    kt__free(b->of);
    kt__free(b);
}

/* Of a text's tokens what has come since. */
static void count_tokens(kt__draft_block *b, const kt__draft_ask *ask) {
    int32_t from = ask->seq->n_counted < ask->n_tok ? ask->seq->n_counted : ask->n_tok;
    kt__common_tokens_count(&b->common, (int)kt__engine_n_vocab(b->engine), ask->tokens + from,
                            ask->n_tok - from);
    ask->seq->n_counted = ask->n_tok;
}

bool kt__draft_block_knows(const kt__draft_ask *ask) {
    return ask->seq->hidden && ask->seq->n_hidden > 0 && ask->seq->n_hidden == ask->n_tok - 1;
}

/* A block writes k more positions; the step's own pages are among them. */
static bool has_room(const kt__draft_block *b, const kt__draft_ask *ask, int k) {
    int64_t pos = ask->n_tok - 1;
    return b->own || kt__kv_table_grow(b->engine->kv, ask->table, pos, pos + k, NULL) == KT_OK;
}

static int list_ready(kt__draft_block *b, kt__draft_ask *asks, int n, int k) {
    int n_row = 0;
    for (int i = 0; i < n; i++) {
        kt__draft_ask *ask = &asks[i];
        int64_t pos = ask->n_tok - 1;
        if (!ask->ready || !has_room(b, ask, k)) continue;
        b->segs[n_row] = (kt__seg){.table = ask->table, .pos0 = pos, .row0 = n_row, .n_tok = 1};
        b->ids[n_row] = ask->tokens[pos];
        b->before[n_row] = ask->seq->hidden;
        b->out_rows[n_row] = n_row;
        b->of[n_row++] = ask;
    }
    return n_row;
}

static bool run_rows(kt__draft_block *b, int n_row, int n_head_rows) {
    const kt__batch batch = {.n_tok = n_row,
                             .ids = b->ids,
                             .segs = b->segs,
                             .n_seg = n_row,
                             .out_rows = b->out_rows,
                             .n_out = n_row,
                             .before = b->before,
                             .mtp = !b->own,
                             .n_head_rows = n_head_rows};
    kt__batch_run run = {
        .fwd = b->fwd, .batch = &batch, .decode = true, .n_tok = n_row, .until_us = INT64_MAX};
    bool done;
    kt_error err;
    return kt__engine_run_batch(b->engine, &run, &done, &err) == KT_OK;
}

/* The most likely tokens, which the next rows continue from; false: there is none. */
static bool take_rows(kt__draft_block *b, int n_row, int n_head_rows) {
    const kt_engine *engine = b->engine;
    int n_id = n_head_rows > 0 ? n_head_rows : (int)kt__engine_n_vocab(engine);
    bool finite = true;
    for (int i = 0; i < n_row && finite; i++) {
        kt__draft_ask *ask = b->of[i];
        int32_t id = engine->model->ctx->kernels->argmax(kt__fwd_logits(b->fwd, i), n_id, &finite);
        if (!finite) break;
        b->ids[i] = ask->ids[ask->n++] = id;
        b->before[i] = kt__fwd_hidden(b->fwd, i);
        if (!b->own) b->segs[i].pos0++;
    }
    return finite;
}

int kt__draft_block_propose(kt__draft_block *b, kt__draft_ask *asks, int n, int k) {
    int steps = 0, n_row = list_ready(b, asks, n, k);
    for (int i = 0; i < n_row; i++) count_tokens(b, b->of[i]);
    int n_id = kt__common_tokens_rows(&b->common, (int)kt__engine_n_vocab(b->engine), b->rest,
                                      b->head);
    while (n_row > 0 && steps < k && run_rows(b, n_row, n_id) && take_rows(b, n_row, n_id)) steps++;
    for (int i = 0; i < n_row; i++) b->of[i]->n = steps;
    return steps;
}
