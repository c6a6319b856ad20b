#include "model/layer_inputs.h"

#include <math.h>

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
