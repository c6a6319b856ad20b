/* The Mamba mixer (Gu and Dao 2023): a convolution, a state of each channel, whose steps and what is
 * written to it and read follow from the channel's inputs, and a gate. */
#include "base/error.h"
#include "model/mixers.h"

static kt_status input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    KT__STEP(kt__fwd_mix_input(fwd, layer, &layer->t[KT__SLOT_SCAN_IN].w, "the Mamba part", err));
    kt__fwd_lap(fwd, KT_PROFILE_QKV);
    return KT_OK;
}

/* Steps before their softplus; what is written and read. */
static void project_steps(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *both = &layer->t[KT__SLOT_SCAN_X].w, *dt = &layer->t[KT__SLOT_SCAN_DT].w;
    const kt__weight left = kt__weight_rows(both, 0, hp->step_rank),
                     pairs = kt__weight_rows(both, hp->step_rank, 2 * hp->state_dim);
    float *rows = kt__fwd_f32(fwd, KT__BUF_DECAY), *low = kt__fwd_f32(fwd, KT__BUF_GATE);
    int n_tok = fwd->batch.n_tok, inner = kt__hparams_inner(hp);
    kt__acts acts = kt__fwd_acts(fwd, n_tok, inner, &both, 1);
    fwd->ops->quantize(fwd->dev, kt__fwd_f32(fwd, KT__BUF_MIX), n_tok, &acts);
    fwd->ops->matmul(fwd->dev, &left, &acts, NULL, NULL, NULL, 0, low, (size_t)left.n_row);
    fwd->ops->matmul(fwd->dev, &pairs, &acts, NULL, NULL, NULL, 0, rows, (size_t)pairs.n_row);
    acts = kt__fwd_acts(fwd, n_tok, hp->step_rank, &dt, 1);
    fwd->ops->quantize(fwd->dev, low, n_tok, &acts);
    fwd->ops->matmul(fwd->dev, dt, &acts, layer->t[KT__SLOT_SCAN_DT_BIAS].v, NULL, NULL, 0,
                     kt__fwd_f32(fwd, KT__BUF_BETA), (size_t)inner);
}

static void mix_part(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    size_t inner = (size_t)kt__hparams_inner(hp);
    float *in = kt__fwd_f32(fwd, KT__BUF_MIX_IN), *out = kt__fwd_f32(fwd, KT__BUF_GATE);
    kt__fwd_convolve(fwd, layer, in, 2 * inner, layer->t[KT__SLOT_SCAN_TAPS_BIAS].v);
    project_steps(fwd, layer);
    const kt__scan scan = {.x = kt__fwd_f32(fwd, KT__BUF_MIX),
                           .pairs = kt__fwd_f32(fwd, KT__BUF_DECAY),
                           .step = kt__fwd_f32(fwd, KT__BUF_BETA),
                           .a = layer->t[KT__SLOT_SCAN_A].v,
                           .d = layer->t[KT__SLOT_SCAN_D].v,
                           .n_ch = (int)inner,
                           .dim = hp->state_dim,
                           .kv = fwd->kv,
                           .state_at = layer->state_at + (size_t)(hp->conv_width - 1) * inner,
                           .segs = fwd->batch.segs,
                           .n_seg = fwd->batch.n_seg,
                           .n_tok = fwd->batch.n_tok,
                           .gate = in + inner,
                           .ld_gate = 2 * inner,
                           .out = out};
    fwd->ops->scan(fwd->dev, &scan);
    kt__fwd_lap(fwd, KT_PROFILE_ATTENTION);
}

static kt_status out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    return kt__fwd_add_mixed(fwd, &layer->t[KT__SLOT_SCAN_OUT].w, KT__BUF_GATE,
                             "the Mamba part's end", err);
}

const kt__mixer kt__mix_scan = {input_part, mix_part, out_part};
