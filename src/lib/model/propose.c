/* Programs that propose tokens: a model's block after its layers, and an assistant. */
#include "model/fwd_steps.h"

#include "base/error.h"

/* ---- multi-token prediction ---- */

/* The batch's tokens, and hidden[n_tok][d_model] or NULL, become the block's x. */
static void make_input(kt__fwd *fwd, const float *hidden) {
    const kt__net *net = fwd->net;
    const kt__bound *t = net->mtp->t;
    const kt__batch *b = &fwd->batch;
    const kt__weight *in = &t[KT__SLOT_MTP_IN].w, *own = &t[KT__SLOT_MTP_EMBED].w;
    float *x = kt__fwd_f32(fwd, KT__BUF_X), *rows = kt__fwd_f32(fwd, KT__BUF_MIX_IN);
    const kt__pairs pairs = {.tokens = x,
                             .hidden = hidden,
                             .first = b->before,
                             .segs = b->segs,
                             .n_seg = b->n_seg,
                             .n_tok = b->n_tok,
                             .n = net->hp.d_model,
                             .token_norm = t[KT__SLOT_MTP_TOKEN_NORM].v,
                             .hidden_norm = t[KT__SLOT_MTP_HIDDEN_NORM].v,
                             .eps = net->hp.norm_eps,
                             .out = rows};
    fwd->ops->embed(fwd->dev, own->data ? own : &net->embed, b->ids, b->n_tok, net->hp.embed_scale,
                    x);
    fwd->ops->pairs(fwd->dev, &pairs);
    kt__acts acts = kt__fwd_acts(fwd, b->n_tok, in->n_col, &in, 1);
    fwd->ops->quantize(fwd->dev, rows, b->n_tok, &acts);
    fwd->ops->matmul(fwd->dev, in, &acts, NULL, NULL, NULL, KT__SITE_Q, x, (size_t)in->n_row);
    kt__fwd_lap(fwd, KT_PROFILE_EMBED);
}

float *kt__mtp_states(const kt__fwd *fwd) {
    return kt__fwd_f32(fwd, KT__BUF_ATTN);
}

void kt__mtp_states_make(kt__fwd *fwd) {
    const kt__net *net = fwd->net;
    (void)fwd->ops->norm_f32(fwd->dev, kt__fwd_f32(fwd, KT__BUF_X), net->out_norm, net->hp.norm_eps,
                             fwd->batch.n_tok, net->hp.d_model, kt__mtp_states(fwd));
}

void kt__mtp_fill(kt__fwd *fwd) {
    const kt__net *net = fwd->net;
    kt_error ignored;
    fwd->lora.n_rows = 0;
    fwd->keys_alone = true;
    make_input(fwd, kt__mtp_states(fwd));
    if (kt__layer_step(fwd, net->mtp, KT__PART_INPUT, &ignored) != KT_OK) kt__error_clear(&ignored);
    fwd->keys_alone = false;
}

kt_status kt__mtp_run(kt__fwd *fwd, kt_error *err) {
    const kt__net *net = fwd->net;
    const kt__bound *t = net->mtp->t;
    const float *norm = t[KT__SLOT_MTP_END].v;
    const kt__weight *own = &t[KT__SLOT_MTP_HEAD].w;
    const kt__head head = {norm ? norm : net->out_norm, own->data ? own : &net->head,
                           own->data ? NULL : net->head_bias};
    fwd->layer = net->hp.n_layer;
    kt__fwd_rotate(fwd);
    make_input(fwd, NULL);
    for (int part = 0; part < KT__PARTS; part++)
        KT__STEP(kt__layer_step(fwd, net->mtp, (kt__layer_part)part, err));
    kt_status status = kt__head_run(fwd, &head, err);
    kt__fwd_lap(fwd, KT_PROFILE_HEAD);
    return status;
}

/* ---- an assistant ---- */

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
