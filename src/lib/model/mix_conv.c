/* The short convolution's mixer (LFM2): gates before and after a convolution over the last
 * tokens. */
#include "base/error.h"
#include "model/mixers.h"

/* b, c and x of one product; u = b * x goes into b's place. */
static kt_status input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    int n_tok = fwd->batch.n_tok, d = fwd->net->hp.d_model;
    float *rows = kt__fwd_f32(fwd, KT__BUF_MIX_IN);
    KT__STEP(kt__fwd_mix_input(fwd, layer, &layer->t[KT__SLOT_CONV_IN].w, "the convolution", err));
    fwd->ops->mul(fwd->dev, rows + 2 * d, 3 * (size_t)d, n_tok, d, rows, 3 * (size_t)d);
    kt__fwd_lap(fwd, KT_PROFILE_QKV);
    return KT_OK;
}

static void mix_part(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__batch *b = &fwd->batch;
    size_t d = (size_t)hp->d_model;
    const float *rows = kt__fwd_f32(fwd, KT__BUF_MIX_IN);
    float *out = kt__fwd_f32(fwd, KT__BUF_MIX);
    const kt__short_conv conv = {.x = rows,
                                 .ld_x = 3 * d,
                                 .w = layer->taps,
                                 .width = hp->conv_width,
                                 .n_ch = hp->d_model,
                                 .kv = fwd->kv,
                                 .state_at = layer->state_at,
                                 .segs = b->segs,
                                 .n_seg = b->n_seg,
                                 .out = out,
                                 .ld_out = d};
    fwd->ops->short_conv(fwd->dev, &conv);
    fwd->ops->mul(fwd->dev, rows + d, 3 * d, b->n_tok, hp->d_model, out, d);
    kt__fwd_lap(fwd, KT_PROFILE_ATTENTION);
}

static kt_status out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    return kt__fwd_add_mixed(fwd, &layer->t[KT__SLOT_CONV_OUT].w, KT__BUF_MIX,
                             "the convolution's norm", err);
}

const kt__mixer kt__mix_conv = {input_part, mix_part, out_part};
