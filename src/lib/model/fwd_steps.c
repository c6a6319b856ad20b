#include "model/fwd_steps.h"

#include "base/error.h"
#include "model/encoder.h"

kt__acts kt__fwd_acts_in(const kt__fwd *fwd, kt__fwd_buf first, int n_tok, int n_col,
                         const kt__weight *const *users, int n) {
    kt__acts acts = {.n_tok = n_tok, .n_col = n_col};
    bool experts = fwd->net->hp.n_expert > 0 && n_tok > KT__EXPERT_TOKENS;
    int few = experts ? KT__EXPERT_TOKENS : n_tok; /* for products of one expert */
    for (int i = 0; i < n; i++) {
        acts.kinds |= 1u << kt__dev_act_kind(fwd->dev, users[i], n_tok);
        acts.kinds |= 1u << kt__dev_act_kind(fwd->dev, users[i], few);
    }
    if (fwd->params.f32_inputs) acts.kinds |= 1u << KT__ACT_F32;
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        if (!(acts.kinds >> kind & 1)) continue;
        acts.layout[kind] = kt__act_layout_of((kt__act_kind)kind, n_col);
        acts.data[kind] = fwd->buf[(int)first + kind];
    }
    return acts;
}

/* ---- adapters ---- */

/* The terms of the block at hand; NULL: no adapter reads this input. */
static const kt__lora_terms *lora_of(kt__fwd *fwd, kt__net_input input) {
    if (fwd->lora.n_rows == 0) return NULL;
    fwd->lora.block = fwd->layer;
    return kt__lora_has_input(&fwd->lora, input) ? &fwd->lora : NULL;
}

void kt__fwd_want_f32(kt__acts *acts, const kt__fwd *fwd, kt__fwd_buf first) {
    acts->kinds |= 1u << KT__ACT_F32;
    acts->layout[KT__ACT_F32] = kt__act_layout_of(KT__ACT_F32, acts->n_col);
    acts->data[KT__ACT_F32] = fwd->buf[(int)first + KT__ACT_F32];
}

void kt__fwd_lora_input(kt__fwd *fwd, kt__net_input input, kt__fwd_buf first, kt__acts *acts) {
    if (lora_of(fwd, input)) kt__fwd_want_f32(acts, fwd, first);
}

const kt__lora_terms *kt__fwd_lora(kt__fwd *fwd, kt__net_input input, const kt__acts *acts) {
    fwd->lora.acts = acts;
    return lora_of(fwd, input);
}

kt_status kt__fwd_fail(const kt__fwd *fwd, const char *where, kt_error *err) {
    return kt__fail(
        err, KT_E_NUMERIC,
        "a number that is not finite came out before %s of layer %d of %d: the file is damaged, or "
        "its weights are not what the %s architecture expects",
        where, fwd->layer, fwd->net->hp.n_layer, fwd->net->hp.arch);
}

void kt__fwd_rotate(kt__fwd *fwd) {
    const kt__hparams *hp = &fwd->net->hp;
    size_t n_rot = (size_t)hp->rope.n_rot, local_n_rot = (size_t)hp->rope.local_n_rot;
    for (int s = 0; s < fwd->batch.n_seg; s++) {
        const kt__seg *seg = &fwd->batch.segs[s];
        for (int i = 0; i < seg->n_tok; i++) {
            size_t row = (size_t)(seg->row0 + i);
            int64_t at[3];
            kt__rope_place(seg, seg->pos0 + i, at);
            kt__rope_fill_at(&fwd->rope, at, kt__fwd_f32(fwd, KT__BUF_CS) + row * n_rot);
            if (hp->temperature > 0.0f)
                kt__fwd_f32(fwd, KT__BUF_Q_SCALE)[row] = kt__rope_query_scale(hp, seg->pos0 + i);
            if (!fwd->has_local) continue;
            kt__rope_fill_at(&fwd->rope_local, at,
                             kt__fwd_f32(fwd, KT__BUF_CS_LOCAL) + row * local_n_rot);
        }
    }
}

static bool add_product(kt__fwd *fwd, const kt__weight *w, const kt__acts *acts, const float *bias,
                        const float *post_norm, const kt__lora_terms *lora, kt__lora_site site,
                        kt_profile_part part) {
    const kt__hparams *hp = &fwd->net->hp;
    float *x = kt__fwd_f32(fwd, KT__BUF_X);
    size_t ld = (size_t)hp->d_model;
    if (!(hp->features & KT__F_POST_NORM)) {
        fwd->ops->matmul(fwd->dev, w, acts, bias, x, lora, site, x, ld);
        kt__fwd_lap(fwd, part);
        return true;
    }
    float *tmp = kt__fwd_f32(fwd, KT__BUF_TMP);
    fwd->ops->matmul(fwd->dev, w, acts, bias, NULL, lora, site, tmp, ld);
    kt__fwd_lap(fwd, part);
    bool finite = fwd->ops->norm_add(fwd->dev, tmp, post_norm, hp->norm_eps, acts->n_tok,
                                     hp->d_model, x);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    return finite;
}

bool kt__fwd_add_block(kt__fwd *fwd, const kt__weight *w, const kt__acts *acts, const float *bias,
                       const float *post_norm, kt__lora_site site, kt_profile_part part) {
    const kt__lora_terms *lora = kt__fwd_lora(fwd, kt__lora_input_of(site), acts);
    return add_product(fwd, w, acts, bias, post_norm, lora, site, part);
}

kt_status kt__fwd_mix_input(kt__fwd *fwd, const kt__layer *layer, const kt__weight *in,
                            const char *where, kt_error *err) {
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok, fwd->net->hp.d_model, &in, 1);
    if (!kt__fwd_block_input(fwd, layer->t[KT__SLOT_ATTN_NORM].v, &acts))
        return kt__fwd_fail(fwd, where, err);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    kt__fwd_show_input(fwd, KT__INPUT_ATTN, &acts);
    fwd->ops->matmul(fwd->dev, in, &acts, NULL, NULL, NULL, KT__SITE_Q,
                     kt__fwd_f32(fwd, KT__BUF_MIX_IN), (size_t)in->n_row);
    return KT_OK;
}

kt_status kt__fwd_add_mixed(kt__fwd *fwd, const kt__weight *w, kt__fwd_buf from, const char *where,
                            kt_error *err) {
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok, w->n_col, &w, 1);
    fwd->ops->quantize(fwd->dev, kt__fwd_f32(fwd, from), fwd->batch.n_tok, &acts);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    kt__fwd_show_input(fwd, KT__INPUT_ATTN_OUT, &acts);
    /* what adapts attention's last product does not adapt this one, which may be next to it */
    if (!add_product(fwd, w, &acts, NULL, NULL, NULL, KT__SITE_ATTN_OUT, KT_PROFILE_ATTN_OUT))
        return kt__fwd_fail(fwd, where, err);
    return KT_OK;
}

void kt__fwd_convolve(kt__fwd *fwd, const kt__layer *layer, const float *x, size_t ld_x,
                      const float *bias) {
    const kt__hparams *hp = &fwd->net->hp;
    int channels = kt__hparams_channels(hp);
    const kt__short_conv conv = {.x = x,
                                 .ld_x = ld_x,
                                 .w = layer->taps,
                                 .bias = bias,
                                 .width = hp->conv_width,
                                 .n_ch = channels,
                                 .silu = true,
                                 .kv = fwd->kv,
                                 .state_at = layer->state_at,
                                 .segs = fwd->batch.segs,
                                 .n_seg = fwd->batch.n_seg,
                                 .out = kt__fwd_f32(fwd, KT__BUF_MIX),
                                 .ld_out = (size_t)channels};
    fwd->ops->short_conv(fwd->dev, &conv);
}

bool kt__fwd_end_block(kt__fwd *fwd, const kt__layer_norm *norm) {
    const kt__hparams *hp = &fwd->net->hp;
    if (!norm->w) return true;
    bool finite = kt__encoder_norm(fwd->dev, norm, hp->norm_eps, fwd->batch.n_tok, hp->d_model,
                                   kt__fwd_f32(fwd, KT__BUF_X));
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    return finite;
}

bool kt__fwd_block_input(kt__fwd *fwd, const float *norm, kt__acts *acts) {
    const kt__hparams *hp = &fwd->net->hp;
    float *x = kt__fwd_f32(fwd, KT__BUF_X);
    int n_tok = fwd->batch.n_tok;
    /* every reader of x but one without a norm subtracts its mean, so x may lose it for good */
    if (norm && hp->features & KT__F_CENTRED) fwd->ops->centre(fwd->dev, x, n_tok, hp->d_model);
    if (norm) return fwd->ops->norm(fwd->dev, x, norm, hp->norm_eps, n_tok, acts);
    fwd->ops->quantize(fwd->dev, x, n_tok, acts);
    return true; /* the post-norm looks */
}

void kt__fwd_show_input(const kt__fwd *fwd, kt__net_input input, const kt__acts *acts) {
    if (fwd->params.on_input)
        fwd->params.on_input(fwd->params.on_input_user, fwd->layer, input, acts);
}
