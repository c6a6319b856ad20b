/* The gated delta net's mixer (Qwen 3.5): a convolution over queries, keys and values, a state of each
 * head that every token decays, corrects and reads, and a gated norm. */
#include "model/mixers.h"

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

static kt_status input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
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

static void mix_part(kt__fwd *fwd, const kt__layer *layer) {
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

static kt_status out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    return kt__fwd_add_mixed(fwd, &layer->t[KT__SLOT_DELTA_OUT].w, KT__BUF_ATTN,
                             "the delta net's norm", err);
}

const kt__mixer kt__mix_delta = {input_part, mix_part, out_part};
