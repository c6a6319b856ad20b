/* The short convolution's mixer (LFM2): gates before and after a convolution over the last
 * tokens. */
#include "base/error.h"
#include "model/fwd_steps.h"

/* b, c and x of one product; u = b * x goes into b's place. */
static kt_status conv_input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    int n_tok = fwd->batch.n_tok, d = fwd->net->hp.d_model;
    float *rows = kt__fwd_f32(fwd, KT__BUF_MIX_IN);
    KT__STEP(kt__fwd_mix_input(fwd, layer, &layer->t[KT__SLOT_CONV_IN].w, "the convolution", err));
    fwd->ops->mul(fwd->dev, rows + 2 * d, 3 * (size_t)d, n_tok, d, rows, 3 * (size_t)d);
    kt__fwd_lap(fwd, KT_PROFILE_QKV);
    return KT_OK;
}

static void conv_mix_part(kt__fwd *fwd, const kt__layer *layer) {
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

static kt_status conv_out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    return kt__fwd_add_mixed(fwd, &layer->t[KT__SLOT_CONV_OUT].w, KT__BUF_MIX,
                             "the convolution's norm", err);
}

const kt__mixer kt__mix_conv = {conv_input_part, conv_mix_part, conv_out_part};

/* The gated delta net's mixer (Qwen 3.5): a convolution over queries, keys and values, a state of each
 * head that every token decays, corrects and reads, and a gated norm. */

static void project_acts(kt__fwd *fwd, const kt__weight *w, const kt__acts *acts, kt__fwd_buf to) {
    fwd->ops->matmul(fwd->dev, w, acts, NULL, NULL, NULL, KT__SITE_Q, kt__fwd_f32(fwd, to),
                     (size_t)w->n_row);
}

/* Alpha and beta, of two products or of one. */
static void project_gates(kt__fwd *fwd, const kt__layer *layer, const kt__acts *acts) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__bound *t = layer->t;
    if (!(hp->features & KT__F_DELTA_GROUPED)) {
        project_acts(fwd, &t[KT__SLOT_DELTA_ALPHA].w, acts, KT__BUF_DECAY);
        project_acts(fwd, &t[KT__SLOT_DELTA_BETA].w, acts, KT__BUF_BETA);
        return;
    }
    project_acts(fwd, &t[KT__SLOT_DELTA_BETA_ALPHA].w, acts, KT__BUF_MIX);
    fwd->ops->unweave(fwd->dev, kt__fwd_f32(fwd, KT__BUF_MIX), acts->n_tok, hp->n_state_key,
                      hp->n_state_value, kt__fwd_f32(fwd, KT__BUF_BETA),
                      kt__fwd_f32(fwd, KT__BUF_DECAY));
}

static kt_status delta_input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__bound *t = layer->t;
    bool grouped = fwd->net->hp.features & KT__F_DELTA_GROUPED;
    const kt__weight *users[] = {&t[KT__SLOT_DELTA_QKV].w, &t[KT__SLOT_DELTA_GATE].w,
                                 grouped ? &t[KT__SLOT_DELTA_BETA_ALPHA].w
                                         : &t[KT__SLOT_DELTA_ALPHA].w,
                                 &t[KT__SLOT_DELTA_BETA].w};
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok, fwd->net->hp.d_model, users,
                                 grouped ? 3 : 4);
    if (!kt__fwd_block_input(fwd, t[KT__SLOT_ATTN_NORM].v, &acts))
        return kt__fwd_fail(fwd, "the delta net", err);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    kt__fwd_show_input(fwd, KT__INPUT_ATTN, &acts);
    project_acts(fwd, users[0], &acts, KT__BUF_MIX_IN);
    project_acts(fwd, users[1], &acts, KT__BUF_GATE);
    project_gates(fwd, layer, &acts);
    kt__fwd_lap(fwd, KT_PROFILE_QKV);
    return KT_OK;
}

static void delta_mix_part(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    size_t inputs = (size_t)(hp->conv_width - 1) * (size_t)kt__hparams_channels(hp);
    const kt__delta_net net = {.qkv = kt__fwd_f32(fwd, KT__BUF_MIX),
                               .decay = kt__fwd_f32(fwd, KT__BUF_DECAY),
                               .beta = kt__fwd_f32(fwd, KT__BUF_BETA),
                               .a = layer->t[KT__SLOT_DELTA_A].v,
                               .dt = layer->t[KT__SLOT_DELTA_DT].v,
                               .z = kt__fwd_f32(fwd, KT__BUF_GATE),
                               .norm = layer->state_norm,
                               .eps = hp->state_eps,
                               .n_key = hp->n_state_key,
                               .n_value = hp->n_state_value,
                               .dim_k = hp->state_dim,
                               .dim_v = hp->state_rows,
                               .grouped = hp->features & KT__F_DELTA_GROUPED,
                               .kv = fwd->kv,
                               .state_at = layer->state_at + inputs,
                               .segs = fwd->batch.segs,
                               .n_seg = fwd->batch.n_seg,
                               .n_tok = fwd->batch.n_tok,
                               .out = kt__fwd_f32(fwd, KT__BUF_ATTN)};
    kt__fwd_convolve(fwd, layer, kt__fwd_f32(fwd, KT__BUF_MIX_IN), (size_t)kt__hparams_channels(hp),
                     NULL);
    fwd->ops->delta_net(fwd->dev, &net);
    kt__fwd_lap(fwd, KT_PROFILE_ATTENTION);
}

static kt_status delta_out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    return kt__fwd_add_mixed(fwd, &layer->t[KT__SLOT_DELTA_OUT].w, KT__BUF_ATTN,
                             "the delta net's norm", err);
}

const kt__mixer kt__mix_delta = {delta_input_part, delta_mix_part, delta_out_part};

/* The Mamba-2 mixer (Dao and Gu 2024): a convolution over inputs, B and C, a state of each head that every
 * token decays, adds to and reads, a gate, and a norm of each group. */

/* Of a token's product: gates, then the convolution's channels, then steps. */
static size_t row_floats(const kt__hparams *hp) {
    return (size_t)(kt__hparams_inner(hp) + kt__hparams_channels(hp) + hp->n_state_value);
}

static kt_status mamba_input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    KT__STEP(
        kt__fwd_mix_input(fwd, layer, &layer->t[KT__SLOT_MAMBA_IN].w, "the Mamba-2 part", err));
    kt__fwd_lap(fwd, KT_PROFILE_QKV);
    return KT_OK;
}

static void mamba_mix_part(kt__fwd *fwd, const kt__layer *layer) {
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

static kt_status mamba_out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    return kt__fwd_add_mixed(fwd, &layer->t[KT__SLOT_MAMBA_OUT].w, KT__BUF_GATE,
                             "the Mamba-2 part's norm", err);
}

const kt__mixer kt__mix_mamba = {mamba_input_part, mamba_mix_part, mamba_out_part};

/* The Mamba mixer (Gu and Dao 2023): a convolution, a state of each channel, whose steps and what is
 * written to it and read follow from the channel's inputs, and a gate. */

static kt_status scan_input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
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

static void scan_mix_part(kt__fwd *fwd, const kt__layer *layer) {
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

static kt_status scan_out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    return kt__fwd_add_mixed(fwd, &layer->t[KT__SLOT_SCAN_OUT].w, KT__BUF_GATE,
                             "the Mamba part's end", err);
}

const kt__mixer kt__mix_scan = {scan_input_part, scan_mix_part, scan_out_part};
