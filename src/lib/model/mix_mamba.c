/* The Mamba-2 mixer (Dao and Gu 2024): a convolution over inputs, B and C, a state of each head that every
 * token decays, adds to and reads, a gate, and a norm of each group. */
#include "base/error.h"
#include "model/mixers.h"

/* Of a token's product: gates, then the convolution's channels, then steps. */
static size_t row_floats(const kt__hparams *hp) {
    return (size_t)(kt__hparams_inner(hp) + kt__hparams_channels(hp) + hp->n_state_value);
}

static kt_status input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    KT__STEP(
        kt__fwd_mix_input(fwd, layer, &layer->t[KT__SLOT_MAMBA_IN].w, "the Mamba-2 part", err));
    kt__fwd_lap(fwd, KT_PROFILE_QKV);
    return KT_OK;
}

static void mix_part(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    size_t channels = (size_t)kt__hparams_channels(hp), inner = (size_t)kt__hparams_inner(hp);
    const float *in = kt__fwd_f32(fwd, KT__BUF_MIX_IN);
    const kt__mamba mamba = {.in = in,
                             .dt = in + inner + channels,
                             .ld_in = row_floats(hp),
                             .x = kt__fwd_f32(fwd, KT__BUF_MIX),
                             .decay = kt__fwd_f32(fwd, KT__BUF_DECAY),
                             .step = kt__fwd_f32(fwd, KT__BUF_BETA),
                             .a = layer->t[KT__SLOT_MAMBA_A].v,
                             .dt_bias = layer->t[KT__SLOT_MAMBA_DT].v,
                             .d = layer->t[KT__SLOT_MAMBA_D].v,
                             .norm = layer->state_norm,
                             .eps = hp->state_eps,
                             .n_group = hp->n_state_key,
                             .n_head = hp->n_state_value,
                             .n_row = hp->state_rows,
                             .dim = hp->state_dim,
                             .kv = fwd->kv,
                             .state_at = layer->state_at + (size_t)(hp->conv_width - 1) * channels,
                             .segs = fwd->batch.segs,
                             .n_seg = fwd->batch.n_seg,
                             .n_tok = fwd->batch.n_tok,
                             .out = kt__fwd_f32(fwd, KT__BUF_GATE)};
    kt__fwd_convolve(fwd, layer, in + inner, row_floats(hp), layer->t[KT__SLOT_MAMBA_TAPS_BIAS].v);
    fwd->ops->mamba(fwd->dev, &mamba);
    kt__fwd_lap(fwd, KT_PROFILE_ATTENTION);
}

static kt_status out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    return kt__fwd_add_mixed(fwd, &layer->t[KT__SLOT_MAMBA_OUT].w, KT__BUF_GATE,
                             "the Mamba-2 part's norm", err);
}

const kt__mixer kt__mix_mamba = {input_part, mix_part, out_part};
