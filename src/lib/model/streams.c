#include "model/fwd_steps.h"

#include <math.h>
#include <string.h>

static size_t floats_of(const kt__fwd *fwd) {
    return (size_t)fwd->batch.n_tok * (size_t)fwd->net->hp.d_model;
}

static float *stream_at(const kt__fwd *fwd, int i) {
    return kt__fwd_f32(fwd, KT__BUF_STREAMS) + (size_t)i * floats_of(fwd);
}

/* A square matrix's product with rows, as long as the first stream's. */
static void turn_rows(kt__fwd *fwd, const kt__weight *all, int i, const float *rows, float *out) {
    int d = fwd->net->hp.d_model, n_tok = fwd->batch.n_tok;
    kt__weight w = *all;
    w.data += (size_t)i * (size_t)w.n_row * w.row_bytes;
    const kt__weight *user = &w;
    kt__acts acts = kt__fwd_acts(fwd, n_tok, d, &user, 1);
    fwd->ops->quantize(fwd->dev, rows, n_tok, &acts);
    fwd->ops->matmul(fwd->dev, &w, &acts, NULL, NULL, NULL, 0, out, (size_t)d);
    fwd->ops->resize(fwd->dev, stream_at(fwd, 0), n_tok, d, out);
}

void kt__streams_make(kt__fwd *fwd) {
    const float *x = kt__fwd_f32(fwd, KT__BUF_X);
    memcpy(stream_at(fwd, 0), x, floats_of(fwd) * sizeof *x);
    for (int i = 1; i < fwd->net->hp.n_stream; i++)
        turn_rows(fwd, &fwd->net->stream_proj, i - 1, x, stream_at(fwd, i));
}

void kt__streams_merge(kt__fwd *fwd) {
    float *x = kt__fwd_f32(fwd, KT__BUF_X), *tmp = kt__fwd_f32(fwd, KT__BUF_TMP);
    int n = fwd->net->hp.n_stream, d = fwd->net->hp.d_model, n_tok = fwd->batch.n_tok;
    memcpy(x, stream_at(fwd, 0), floats_of(fwd) * sizeof *x);
    for (int i = 1; i < n; i++) {
        turn_rows(fwd, &fwd->net->stream_unproj, i - 1, stream_at(fwd, i), tmp);
        fwd->ops->add(fwd->dev, tmp, d, n_tok, d, x);
    }
    fwd->ops->scale(fwd->dev, x, (int64_t)floats_of(fwd), 1.0f / (float)n);
}

/* ---- factors of each token ---- */

/* By what rows look like: a number of each stream, from -1 to 1. */
static bool route_rows(kt__fwd *fwd, const kt__layer *layer, const float *rows) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *router = &layer->t[KT__SLOT_STREAM_ROUTER].w;
    float *routes = kt__fwd_f32(fwd, KT__BUF_ROUTES);
    int n_tok = fwd->batch.n_tok, n = hp->n_stream;
    kt__acts acts = kt__fwd_acts(fwd, n_tok, hp->d_model, &router, 1);
    bool finite = fwd->ops->norm(fwd->dev, rows, layer->router_norm, hp->norm_eps, n_tok, &acts);
    fwd->ops->matmul(fwd->dev, router, &acts, NULL, NULL, NULL, 0, routes, (size_t)n);
    fwd->ops->softcap(fwd->dev, routes, (int64_t)n_tok * n, 1.0f);
    return finite;
}

/* made: what is passed on of it; NULL: the streams themselves */
static void blend_streams(kt__fwd *fwd, const float *factors, const float *made) {
    const kt__blend blend = {.routes = kt__fwd_f32(fwd, KT__BUF_ROUTES),
                             .factors = factors,
                             .made = made,
                             .n_stream = fwd->net->hp.n_stream,
                             .n_tok = fwd->batch.n_tok,
                             .n = fwd->net->hp.d_model,
                             .streams = stream_at(fwd, 0)};
    fwd->ops->blend(fwd->dev, &blend);
}

/* ---- a layer ---- */

/* a + norm(right of left of a), for the norm a of x. */
static kt_status low_rank_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *left = &layer->t[KT__SLOT_LOW_IN].w, *right = &layer->t[KT__SLOT_LOW_OUT].w;
    float *low = kt__fwd_f32(fwd, KT__BUF_LOW), *tmp = kt__fwd_f32(fwd, KT__BUF_TMP);
    int n_tok = fwd->batch.n_tok, d = hp->d_model;
    bool finite = fwd->ops->norm_f32(fwd->dev, kt__fwd_f32(fwd, KT__BUF_X),
                                     layer->t[KT__SLOT_ATTN_NORM].v, hp->norm_eps, n_tok, d, low);
    kt__acts acts = kt__fwd_acts(fwd, n_tok, d, &left, 1);
    fwd->ops->quantize(fwd->dev, low, n_tok, &acts);
    fwd->ops->matmul(fwd->dev, left, &acts, NULL, NULL, NULL, 0, tmp, (size_t)hp->d_low);
    acts = kt__fwd_acts(fwd, n_tok, hp->d_low, &right, 1);
    fwd->ops->quantize(fwd->dev, tmp, n_tok, &acts);
    fwd->ops->matmul(fwd->dev, right, &acts, NULL, NULL, NULL, 0, tmp, (size_t)d);
    finite = finite && fwd->ops->norm_add(fwd->dev, tmp, layer->t[KT__SLOT_LOW_END].v, hp->norm_eps,
                                          n_tok, d, low);
    return finite ? KT_OK : kt__fwd_fail(fwd, "the low-rank part", err);
}

kt_status kt__streams_begin(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    float *x = kt__fwd_f32(fwd, KT__BUF_X);
    if (!route_rows(fwd, layer, stream_at(fwd, 0)))
        return kt__fwd_fail(fwd, "the streams' factors", err);
    blend_streams(fwd, layer->t[KT__SLOT_STREAM_PREDICT].v, NULL);
    memcpy(x, stream_at(fwd, 0), floats_of(fwd) * sizeof *x);
    return low_rank_part(fwd, layer, err);
}

void kt__streams_join(kt__fwd *fwd) {
    float *x = kt__fwd_f32(fwd, KT__BUF_X);
    int d = fwd->net->hp.d_model;
    fwd->ops->add(fwd->dev, kt__fwd_f32(fwd, KT__BUF_LOW), d, fwd->batch.n_tok, d, x);
    fwd->ops->scale(fwd->dev, x, (int64_t)floats_of(fwd), sqrtf(0.5f));
}

void kt__streams_gate(kt__fwd *fwd, float *gate, int n, float *up) {
    int n_tok = fwd->batch.n_tok;
    fwd->ops->cut(fwd->dev, gate, n_tok, n, fwd->net->hp.gate_cut[fwd->layer]);
    fwd->ops->gelu(fwd->dev, gate, (int64_t)n_tok * n);
    fwd->ops->mul(fwd->dev, gate, (size_t)n, n_tok, n, up, (size_t)n);
}

kt_status kt__streams_end(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    float *x = kt__fwd_f32(fwd, KT__BUF_X), *made = kt__fwd_f32(fwd, KT__BUF_TMP);
    int n_tok = fwd->batch.n_tok, d = hp->d_model;
    if (!route_rows(fwd, layer, x)) return kt__fwd_fail(fwd, "the streams' factors", err);
    blend_streams(fwd, layer->t[KT__SLOT_STREAM_CORRECT].v, x);
    memcpy(x, stream_at(fwd, 0), floats_of(fwd) * sizeof *x);
    fwd->ops->mul(fwd->dev, layer->t[KT__SLOT_STREAM_SCALE].v, 0, n_tok, d, x, (size_t)d);
    kt__layer_inputs_rows(fwd, layer, made);
    bool finite = fwd->ops->norm_f32(fwd->dev, made, layer->t[KT__SLOT_INPUT_END].v, hp->norm_eps,
                                     n_tok, d, made);
    for (int i = 1; i < hp->n_stream; i++)
        fwd->ops->add(fwd->dev, made, d, n_tok, d, stream_at(fwd, i));
    kt__fwd_lap(fwd, KT_PROFILE_DOWN);
    return finite ? KT_OK : kt__fwd_fail(fwd, "the end", err);
}

/* ---- layer inputs ---- */

kt_status kt__layer_inputs_make(kt__fwd *fwd, kt_error *err) {
    const kt__net *net = fwd->net;
    const kt__hparams *hp = &net->hp;
    const kt__weight *proj = &net->input_proj;
    int n_tok = fwd->batch.n_tok, per = hp->d_layer_input, n = per * hp->n_layer;
    float *own = kt__fwd_f32(fwd, KT__BUF_INPUTS), *made = kt__fwd_f32(fwd, KT__BUF_INPUT_ROWS);
    kt__acts acts = kt__fwd_acts(fwd, n_tok, hp->d_model, &proj, 1);
    fwd->ops->embed(fwd->dev, &net->input_table, fwd->batch.ids, n_tok, sqrtf((float)per), own);
    fwd->ops->quantize(fwd->dev, kt__fwd_f32(fwd, KT__BUF_X), n_tok, &acts);
    fwd->ops->matmul(fwd->dev, proj, &acts, NULL, NULL, NULL, 0, made, (size_t)n);
    fwd->ops->scale(fwd->dev, made, (int64_t)n_tok * n, 1.0f / sqrtf((float)hp->d_model));
    if (!fwd->ops->norm_f32(fwd->dev, made, net->input_norm, hp->norm_eps, n_tok * hp->n_layer, per,
                            made))
        return kt__fwd_fail(fwd, "the layers' own embeddings, before the first", err);
    fwd->ops->add(fwd->dev, made, n, n_tok, n, own);
    fwd->ops->scale(fwd->dev, own, (int64_t)n_tok * n, sqrtf(0.5f));
    return KT_OK;
}

void kt__layer_inputs_rows(kt__fwd *fwd, const kt__layer *layer, float *made) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *gate = &layer->t[KT__SLOT_INPUT_GATE].w;
    const kt__weight *proj = &layer->t[KT__SLOT_INPUT_PROJ].w;
    int n_tok = fwd->batch.n_tok, per = hp->d_layer_input;
    size_t ld = (size_t)per * (size_t)hp->n_layer;
    float *rows = kt__fwd_f32(fwd, KT__BUF_INPUT_ROWS);
    const float *own = kt__fwd_f32(fwd, KT__BUF_INPUTS) + (size_t)fwd->layer * (size_t)per;
    kt__acts acts = kt__fwd_acts(fwd, n_tok, hp->d_model, &gate, 1);
    fwd->ops->quantize(fwd->dev, kt__fwd_f32(fwd, KT__BUF_X), n_tok, &acts);
    fwd->ops->matmul(fwd->dev, gate, &acts, NULL, NULL, NULL, 0, rows, (size_t)per);
    fwd->ops->gelu(fwd->dev, rows, (int64_t)n_tok * per);
    fwd->ops->mul(fwd->dev, own, ld, n_tok, per, rows, (size_t)per);
    acts = kt__fwd_acts(fwd, n_tok, per, &proj, 1);
    fwd->ops->quantize(fwd->dev, rows, n_tok, &acts);
    fwd->ops->matmul(fwd->dev, proj, &acts, NULL, NULL, NULL, 0, made, (size_t)hp->d_model);
}

kt_status kt__layer_inputs_add(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    float *made = kt__fwd_f32(fwd, KT__BUF_TMP);
    kt__layer_inputs_rows(fwd, layer, made);
    bool finite = fwd->ops->norm_add(fwd->dev, made, layer->t[KT__SLOT_INPUT_END].v, hp->norm_eps,
                                     fwd->batch.n_tok, hp->d_model, kt__fwd_f32(fwd, KT__BUF_X));
    kt__fwd_lap(fwd, KT_PROFILE_DOWN);
    return finite ? KT_OK : kt__fwd_fail(fwd, "the end", err);
}
