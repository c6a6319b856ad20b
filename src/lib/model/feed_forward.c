#include "model/fwd_steps.h"

#include <math.h>

#include "base/error.h"
#include "model/encoder.h"

static kt__acts ff_acts(kt__fwd *fwd, const kt__layer *layer) {
    const kt__weight *down = &layer->down;
    kt__acts acts = kt__fwd_acts_in(fwd, KT__BUF_FF_ACT0, fwd->batch.n_tok, down->n_col, &down, 1);
    kt__fwd_lora_input(fwd, KT__INPUT_DOWN, KT__BUF_FF_ACT0, &acts);
    return acts;
}

void kt__ff_gate_and_up(kt__fwd *fwd, const kt__layer *layer, const kt__acts *acts) {
    if (!layer->gate.data) {
        kt__acts plain = ff_acts(fwd, layer);
        kt__encoder_up(fwd->dev, &layer->up, layer->up_bias, acts,
                       kt__fwd_lora(fwd, KT__INPUT_FFN, acts), kt__fwd_f32(fwd, KT__BUF_FF),
                       &plain);
        kt__fwd_lap(fwd, KT_PROFILE_GATE_UP);
        return;
    }
    kt__glu glu = {
        .gate = layer->gate,
        .up = layer->up,
        .gate_bias = layer->gate_bias,
        .up_bias = layer->up_bias,
        .kind = kt__glu_kind_of(fwd->net->hp.features & ~KT__F_CLAMPED),
        .rows = kt__fwd_f32(fwd, KT__BUF_FF),
        .lora = kt__fwd_lora(fwd, KT__INPUT_FFN, acts),
    };
    kt__acts out = ff_acts(fwd, layer);
    if (out.kinds >> KT__ACT_F32 & 1 && out.n_tok == 1 && out.n_col % 16 == 0)
        glu.rows = (float *)(void *)out.data[KT__ACT_F32]; /* they need no copy there */
    fwd->ops->glu(fwd->dev, acts, &glu, &out);
    kt__fwd_lap(fwd, KT_PROFILE_GATE_UP);
}

/* The experts' gate and up, besides those of the shared one. */
static kt_status experts_glu_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__weight *users[KT__EXPERT_READERS];
    int n = kt__experts_readers(layer, users);
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok, fwd->net->hp.d_model, users, n);
    if (!kt__fwd_block_input(fwd, layer->ffn_norm, &acts))
        return kt__fwd_fail(fwd, "the experts", err);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    kt__fwd_show_input(fwd, KT__INPUT_FFN, &acts);
    if (!kt__experts_choose(fwd->experts, fwd->ops, layer, &acts))
        return kt__fwd_fail(fwd, "the choice of experts", err);
    /* while those that are not in memory are read */
    if (layer->gate.data || layer->up.data) kt__ff_gate_and_up(fwd, layer, &acts);
    KT__STEP(kt__experts_up(fwd->experts, layer, &acts, err));
    kt__fwd_lap(fwd, KT_PROFILE_GATE_UP);
    return KT_OK;
}

static kt_status experts_down_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    float *sum = kt__fwd_f32(fwd, KT__BUF_TMP);
    if (layer->down.data) {
        kt__acts acts = ff_acts(fwd, layer);
        fwd->ops->matmul(fwd->dev, &layer->down, &acts, NULL, NULL, NULL, KT__SITE_DOWN, sum,
                         (size_t)fwd->net->hp.d_model);
    }
    KT__STEP(kt__experts_add(fwd->experts, layer, sum, kt__fwd_f32(fwd, KT__BUF_X), err));
    kt__fwd_lap(fwd, KT_PROFILE_DOWN);
    if (!kt__fwd_end_block(fwd, &layer->layer_end))
        return kt__fwd_fail(fwd, "the experts' norm", err);
    return KT_OK;
}

static kt_status glu_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *users[] = {layer->gate.data ? &layer->gate : &layer->up,
                                 layer->up.data ? &layer->up : &layer->gate};
    if (hp->features & KT__F_PARALLEL) return KT_OK; /* made with the projections */
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok, hp->d_model, users, 2);
    kt__fwd_lora_input(fwd, KT__INPUT_FFN, KT__BUF_ACT0, &acts);
    if (!kt__fwd_block_input(fwd, layer->ffn_norm, &acts))
        return kt__fwd_fail(fwd, "the feed-forward", err);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    kt__fwd_show_input(fwd, KT__INPUT_FFN, &acts);
    kt__ff_gate_and_up(fwd, layer, &acts);
    return KT_OK;
}

static kt_status down_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    kt__acts acts = ff_acts(fwd, layer);
    kt__fwd_show_input(fwd, KT__INPUT_DOWN, &acts);
    if (!kt__fwd_add_block(fwd, &layer->down, &acts, layer->down_bias,
                           layer->t[KT__SLOT_FFN_POST_NORM].v, KT__SITE_DOWN, KT_PROFILE_DOWN)) {
        return kt__fwd_fail(fwd, "the feed-forward's norm", err);
    }
    if (!kt__fwd_end_block(fwd, &layer->layer_end))
        return kt__fwd_fail(fwd, "the feed-forward's norm", err);
    return KT_OK;
}

/* ---- gate and up as whole rows of f32: a norm before down (BitNet), a cut gate (Gemma 3n) ---- */

static void scaled_product(kt__fwd *fwd, const kt__weight *w, const kt__acts *acts, float factor,
                           float *rows) {
    fwd->ops->matmul(fwd->dev, w, acts, NULL, NULL, NULL, 0, rows, (size_t)w->n_row);
    if (factor != 1.0f) fwd->ops->scale(fwd->dev, rows, (int64_t)acts->n_tok * w->n_row, factor);
}

static kt_status gate_and_up_rows(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__weight *users[] = {&layer->gate, &layer->up};
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok, fwd->net->hp.d_model, users, 2);
    if (!kt__fwd_block_input(fwd, layer->ffn_norm, &acts))
        return kt__fwd_fail(fwd, "the feed-forward", err);
    kt__fwd_show_input(fwd, KT__INPUT_FFN, &acts);
    scaled_product(fwd, &layer->gate, &acts, layer->gate_factor, kt__fwd_f32(fwd, KT__BUF_FF));
    scaled_product(fwd, &layer->up, &acts, layer->up_factor, kt__fwd_f32(fwd, KT__BUF_UP));
    return KT_OK;
}

/* For the down product. */
static void take_up_rows(kt__fwd *fwd, const kt__layer *layer) {
    kt__acts out = ff_acts(fwd, layer);
    fwd->ops->quantize(fwd->dev, kt__fwd_f32(fwd, KT__BUF_UP), out.n_tok, &out);
    kt__fwd_lap(fwd, KT_PROFILE_GATE_UP);
}

static kt_status sub_normed_up(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    float *gate = kt__fwd_f32(fwd, KT__BUF_FF), *up = kt__fwd_f32(fwd, KT__BUF_UP);
    int n_tok = fwd->batch.n_tok, n = layer->up.n_row;
    KT__STEP(gate_and_up_rows(fwd, layer, err));
    if (hp->relu2_gate) fwd->ops->relu2(fwd->dev, gate, (int64_t)n_tok * n);
    fwd->ops->mul(fwd->dev, gate, (size_t)n, n_tok, n, up, (size_t)n);
    if (!hp->relu2_gate) fwd->ops->sigmoid_mul(fwd->dev, gate, n_tok, n, up);
    if (!fwd->ops->norm_f32(fwd->dev, up, layer->ffn_sub_norm, hp->norm_eps, n_tok, n, up))
        return kt__fwd_fail(fwd, "the feed-forward's end", err);
    take_up_rows(fwd, layer);
    return KT_OK;
}

static kt_status cut_up(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    KT__STEP(gate_and_up_rows(fwd, layer, err));
    kt__streams_gate(fwd, kt__fwd_f32(fwd, KT__BUF_FF), layer->up.n_row,
                     kt__fwd_f32(fwd, KT__BUF_UP));
    take_up_rows(fwd, layer);
    return KT_OK;
}

/* ---- a dense part and experts side by side (Gemma 4), each between norms of its own ---- */

static bool has_branches(const kt__fwd *fwd, const kt__layer *layer) {
    return fwd->net->hp.features & KT__F_BRANCHES && layer->down_exps.w.data;
}

/* The norm of x as activations of one reader, or two. */
static bool norm_for(kt__fwd *fwd, const float *norm, const kt__weight *a, const kt__weight *b,
                     kt__acts *acts) {
    const kt__weight *users[] = {a, b};
    *acts = kt__fwd_acts(fwd, fwd->batch.n_tok, fwd->net->hp.d_model, users, 2);
    bool finite = kt__fwd_block_input(fwd, norm, acts);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    return finite;
}

static kt_status branches_up(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__weight *up = layer->up_exps.w.data ? &layer->up_exps.w : &layer->gate_exps.w;
    const kt__weight *router = &layer->t[KT__SLOT_ROUTER].w;
    kt__acts acts;
    if (!norm_for(fwd, layer->ffn_norm, &layer->gate, &layer->up, &acts))
        return kt__fwd_fail(fwd, "the feed-forward", err);
    kt__ff_gate_and_up(fwd, layer, &acts);
    if (!norm_for(fwd, layer->router_norm, router, router, &acts) ||
        !kt__experts_choose(fwd->experts, fwd->ops, layer, &acts))
        return kt__fwd_fail(fwd, "the choice of experts", err);
    if (!norm_for(fwd, layer->t[KT__SLOT_EXPERTS_NORM].v, &layer->gate_exps.w, up, &acts))
        return kt__fwd_fail(fwd, "the experts", err);
    kt__fwd_show_input(fwd, KT__INPUT_FFN, &acts);
    KT__STEP(kt__experts_up(fwd->experts, layer, &acts, err));
    kt__fwd_lap(fwd, KT_PROFILE_GATE_UP);
    return KT_OK;
}

static kt_status branches_down(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    int n = fwd->batch.n_tok, d = hp->d_model;
    float *dense = kt__fwd_f32(fwd, KT__BUF_BRANCH), *sum = kt__fwd_f32(fwd, KT__BUF_TMP);
    kt__acts acts = ff_acts(fwd, layer);
    fwd->ops->matmul(fwd->dev, &layer->down, &acts, NULL, NULL, NULL, KT__SITE_DOWN, dense,
                     (size_t)d);
    KT__STEP(kt__experts_add(fwd->experts, layer, sum, NULL, err));
    kt__fwd_lap(fwd, KT_PROFILE_DOWN);
    bool finite = fwd->ops->norm_f32(fwd->dev, dense, layer->t[KT__SLOT_BRANCH_END].v, hp->norm_eps,
                                     n, d, dense) &&
                  fwd->ops->norm_f32(fwd->dev, sum, layer->t[KT__SLOT_EXPERTS_END].v, hp->norm_eps,
                                     n, d, sum);
    fwd->ops->add(fwd->dev, sum, d, n, d, dense);
    finite = finite && fwd->ops->norm_add(fwd->dev, dense, layer->t[KT__SLOT_FFN_POST_NORM].v,
                                          hp->norm_eps, n, d, kt__fwd_f32(fwd, KT__BUF_X));
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    return finite ? KT_OK : kt__fwd_fail(fwd, "the experts' norm", err);
}

kt_status kt__ff_up(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    if (fwd->net->hp.no_ff[fwd->layer]) return KT_OK; /* a mixer alone */
    if (has_branches(fwd, layer)) return branches_up(fwd, layer, err);
    if (layer->ffn_sub_norm) return sub_normed_up(fwd, layer, err);
    bool streams = fwd->net->hp.features & KT__F_STREAMS;
    if (streams && isfinite(fwd->net->hp.gate_cut[fwd->layer])) return cut_up(fwd, layer, err);
    return layer->down_exps.w.data ? experts_glu_part(fwd, layer, err) : glu_part(fwd, layer, err);
}

static kt_status any_down_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    if (fwd->net->hp.no_ff[fwd->layer]) return KT_OK;
    if (has_branches(fwd, layer)) return branches_down(fwd, layer, err);
    return layer->down_exps.w.data ? experts_down_part(fwd, layer, err)
                                   : down_part(fwd, layer, err);
}

kt_status kt__ff_down(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    kt_status status = any_down_part(fwd, layer, err);
    if (fwd->net->hp.features & KT__F_STREAMS)
        return status == KT_OK ? kt__streams_end(fwd, layer, err) : status;
    if (status == KT_OK && layer->t[KT__SLOT_INPUT_PROJ].w.data)
        status = kt__layer_inputs_add(fwd, layer, err);
    const float *scale = layer->t[KT__SLOT_OUT_SCALE].v;
    int64_t n = (int64_t)fwd->batch.n_tok * fwd->net->hp.d_model;
    if (scale) fwd->ops->scale(fwd->dev, kt__fwd_f32(fwd, KT__BUF_X), n, *scale);
    return status;
}
