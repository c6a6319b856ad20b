#include "model/assistant.h"

#include "base/error.h"
#include "model/head.h"
#include "model/mixers.h"

/* out[n][rows of w] = w . rows[n] */
static void project_rows(kt__fwd *fwd, const kt__weight *w, const float *rows, int n, float *out) {
    kt__acts acts = kt__fwd_acts(fwd, n, w->n_col, &w, 1);
    fwd->ops->quantize(fwd->dev, rows, n, &acts);
    fwd->ops->matmul(fwd->dev, w, &acts, NULL, NULL, NULL, KT__SITE_Q, out, (size_t)w->n_row);
}

/* The tokens' embeddings as the host has them, and its states before them. */
static void make_rows(kt__fwd *fwd) {
    const kt__net *host = fwd->params.host;
    const kt__batch *b = &fwd->batch;
    float *tokens = kt__fwd_f32(fwd, KT__BUF_TOKENS), *rows = kt__fwd_f32(fwd, KT__BUF_MIX_IN);
    const kt__pairs pairs = {.tokens = tokens,
                             .first = b->before,
                             .segs = b->segs,
                             .n_seg = b->n_seg,
                             .n_tok = b->n_tok,
                             .n = host->hp.d_model,
                             .out = rows};
    fwd->ops->embed(fwd->dev, &host->embed, b->ids, b->n_tok, host->hp.embed_scale, tokens);
    fwd->ops->pairs(fwd->dev, &pairs);
    project_rows(fwd, &fwd->net->host_in, rows, b->n_tok, kt__fwd_f32(fwd, KT__BUF_X));
    kt__fwd_lap(fwd, KT_PROFILE_EMBED);
}

static kt_status run_layers(kt__fwd *fwd, kt_error *err) {
    const kt__net *net = fwd->net;
    for (fwd->layer = 0; fwd->layer < net->hp.n_layer; fwd->layer++)
        for (int part = 0; part < KT__PARTS; part++)
            KT__STEP(kt__layer_step(fwd, &net->layers[fwd->layer], (kt__layer_part)part, err));
    return KT_OK;
}

kt_status kt__assistant_run(kt__fwd *fwd, kt_error *err) {
    const kt__net *net = fwd->net;
    const kt__head head = {net->out_norm, &net->head, net->head_bias};
    kt__fwd_rotate(fwd);
    make_rows(fwd);
    KT__STEP(run_layers(fwd, err));
    KT__STEP(kt__head_run(fwd, &head, err));
    project_rows(fwd, &net->host_out, kt__fwd_f32(fwd, KT__BUF_TMP), fwd->batch.n_out,
                 kt__fwd_f32(fwd, KT__BUF_PROPOSED));
    kt__fwd_lap(fwd, KT_PROFILE_HEAD);
    return KT_OK;
}
