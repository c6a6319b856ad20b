#include "requests/draft_block.h"

#include "answer/batch.h"
#include "base/alloc.h"
#include "base/error.h"

struct kt__draft_block {
    kt_engine *engine;
    kt__seg *segs;        /* [n_lanes] */
    const float **before; /* [n_lanes] */
    int32_t *ids;         /* [n_lanes] */
    int32_t *out_rows;    /* [n_lanes] */
    kt__draft_ask **of;   /* [n_lanes] whose the rows are */
};

kt_status kt__draft_block_create(kt_engine *engine, kt__draft_block **out, kt_error *err) {
    size_t lanes = (size_t)engine->params.n_parallel;
    *out = NULL;
    kt__draft_block *b = kt__calloc(1, sizeof *b);
    if (!b) return kt__fail_nomem(err, "the proposals' batch", sizeof *b);
    b->engine = engine;
    b->segs = kt__calloc(lanes, sizeof *b->segs);
    b->before = kt__calloc(lanes, sizeof *b->before);
    b->ids = kt__calloc(lanes, sizeof *b->ids);
    b->out_rows = kt__calloc(lanes, sizeof *b->out_rows);
    b->of = kt__calloc(lanes, sizeof *b->of);
    if (b->segs && b->before && b->ids && b->out_rows && b->of) {
        *out = b;
        return KT_OK;
    }
    kt__draft_block_destroy(b);
    return kt__fail_nomem(err, "the proposals' batch", 0);
}

void kt__draft_block_destroy(kt__draft_block *b) {
    if (!b) return;
    kt__free(b->segs);
    kt__free(b->before);
    kt__free(b->ids);
    kt__free(b->out_rows);
    kt__free(b->of);
    kt__free(b);
}

static uint64_t bytes_of(const kt__weight *w) {
    return (uint64_t)w->row_bytes * (uint64_t)w->n_row;
}

double kt__draft_block_size(const kt_model *model) {
    const kt__net *net = model->net;
    uint64_t bytes = net->mtp_bytes - bytes_of(&net->mtp->t[KT__SLOT_MTP_EMBED].w);
    if (!net->mtp->t[KT__SLOT_MTP_HEAD].w.data) bytes += bytes_of(&net->head);
    return (double)bytes / (double)net->decode_bytes;
}

bool kt__draft_block_knows(const kt__draft_ask *ask) {
    return ask->seq->hidden && ask->seq->n_hidden == ask->n_tok - 1;
}

/* Those with room for k more positions; the step's own pages are among them. */
static int list_ready(kt__draft_block *b, kt__draft_ask *asks, int n, int k) {
    int n_row = 0;
    for (int i = 0; i < n; i++) {
        kt__draft_ask *ask = &asks[i];
        int64_t pos = ask->n_tok - 1;
        if (!ask->ready) continue;
        if (kt__kv_table_grow(b->engine->kv, ask->table, pos, pos + k, NULL) != KT_OK) continue;
        b->segs[n_row] = (kt__seg){.table = ask->table, .pos0 = pos, .row0 = n_row, .n_tok = 1};
        b->ids[n_row] = ask->tokens[pos];
        b->before[n_row] = ask->seq->hidden;
        b->out_rows[n_row] = n_row;
        b->of[n_row++] = ask;
    }
    return n_row;
}

static bool run_rows(kt__draft_block *b, int n_row) {
    const kt__batch batch = {.n_tok = n_row,
                             .ids = b->ids,
                             .segs = b->segs,
                             .n_seg = n_row,
                             .out_rows = b->out_rows,
                             .n_out = n_row,
                             .before = b->before,
                             .mtp = true};
    kt__batch_run run = {.fwd = b->engine->step_fwd,
                         .batch = &batch,
                         .decode = true,
                         .n_tok = n_row,
                         .until_us = INT64_MAX};
    bool done;
    kt_error err;
    return kt__engine_run_batch(b->engine, &run, &done, &err) == KT_OK;
}

/* The most likely tokens, which the next rows continue from; false: there is none. */
static bool take_rows(kt__draft_block *b, int n_row) {
    const kt_engine *engine = b->engine;
    bool finite = true;
    for (int i = 0; i < n_row && finite; i++) {
        kt__draft_ask *ask = b->of[i];
        int32_t id = engine->model->ctx->kernels->argmax(kt__fwd_logits(engine->step_fwd, i),
                                                         (int)kt__engine_n_vocab(engine), &finite);
        if (!finite) break;
        b->ids[i] = ask->ids[ask->n++] = id;
        b->before[i] = kt__fwd_hidden(engine->step_fwd, i);
        b->segs[i].pos0++;
    }
    return finite;
}

int kt__draft_block_propose(kt__draft_block *b, kt__draft_ask *asks, int n, int k) {
    int steps = 0, n_row = list_ready(b, asks, n, k);
    while (n_row > 0 && steps < k && run_rows(b, n_row) && take_rows(b, n_row)) steps++;
    for (int i = 0; i < n_row; i++) b->of[i]->n = steps;
    return steps;
}
