/* The attention mixer: queries, keys and values; attention; the way back to x. */
#include "model/fwd_steps.h"

/* Where a layer's keys and values are: nothing reads an encoder's after the layer. */
static int kv_layer(const kt__fwd *fwd, const kt__layer *layer) {
    if (fwd->params.host) return fwd->host_kv[layer->local];
    return kt__fwd_is_encoder(fwd) ? 0 : layer->kv_layer;
}

/* Each head's query and its gate come out of one product. */
static const float *gated_rows(kt__fwd *fwd, const kt__layer *layer, const kt__acts *acts,
                               const kt__lora_terms *lora) {
    const kt__hparams *hp = &fwd->net->hp;
    float *both = kt__fwd_f32(fwd, KT__BUF_MIX_IN), *rows = kt__fwd_f32(fwd, KT__BUF_Q_ROWS);
    if (!(hp->features & KT__F_DELTA)) return NULL;
    fwd->ops->matmul(fwd->dev, &layer->wq, acts, NULL, NULL, lora, KT__SITE_Q, both,
                     (size_t)layer->wq.n_row);
    fwd->ops->split(fwd->dev, both, acts->n_tok, hp->n_head, layer->sizes.head_dim_k, rows,
                    kt__fwd_f32(fwd, KT__BUF_GATE));
    return rows;
}

/* Queries or keys as rows of all heads, normed as one: the norm needs every head's product. */
static const float *normed_rows(kt__fwd *fwd, const kt__weight *w, const kt__acts *acts,
                                const float *bias, const kt__lora_terms *lora, kt__lora_site site,
                                const float *norm, kt__fwd_buf id) {
    float *rows = kt__fwd_f32(fwd, id);
    if (!norm) return NULL;
    fwd->ops->matmul(fwd->dev, w, acts, bias, NULL, lora, site, rows, (size_t)w->n_row);
    (void)fwd->ops->norm_f32(fwd->dev, rows, norm, fwd->net->hp.norm_eps, acts->n_tok, w->n_row,
                             rows); /* the post-norm looks whether it is finite */
    return rows;
}

/* Factors of queries at late positions; Llama 4 has them where there is no rotation. */
static const float *late_factors(const kt__fwd *fwd, const kt__layer *layer) {
    bool none = fwd->net->hp.features & KT__F_CHUNKS && layer->rotated;
    return none ? NULL : kt__fwd_f32(fwd, KT__BUF_Q_SCALE);
}

static void project_qkv(kt__fwd *fwd, const kt__layer *layer, const kt__acts *acts) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__batch *b = &fwd->batch;
    const kt__lora_terms *lora = kt__fwd_lora(fwd, KT__INPUT_ATTN, acts);
    if (lora && hp->features & (KT__F_QK_NORM_ROWS | KT__F_DELTA)) { /* for several products */
        fwd->ops->lora_down(fwd->dev, acts, lora, KT__INPUT_ATTN);
        fwd->lora.acts = NULL;
    }
    const float *gated = fwd->keys_alone ? NULL : gated_rows(fwd, layer, acts, lora);
    kt__qkv qkv = {
        .lora = lora,
        .wq = layer->wq,
        .wk = layer->wk,
        .wv = layer->wv,
        .bq = layer->bq,
        .bk = layer->bk,
        .bv = layer->bv,
        .q_rows = gated ? gated
                        : normed_rows(fwd, &layer->wq, acts, layer->bq, lora, KT__SITE_Q,
                                      layer->t[KT__SLOT_ATTN_Q_NORM_ROW].v, KT__BUF_Q_ROWS),
        .k_rows = normed_rows(fwd, &layer->wk, acts, layer->bk, lora, KT__SITE_K,
                              layer->t[KT__SLOT_ATTN_K_NORM_ROW].v, KT__BUF_K_ROWS),
        .q_norm = layer->heads_norm ? layer->heads_norm : layer->t[KT__SLOT_ATTN_Q_NORM].v,
        .k_norm = layer->heads_norm ? layer->heads_norm : layer->t[KT__SLOT_ATTN_K_NORM].v,
        .v_norm = layer->v_norm,
        .q_alone = layer->shares_kv,
        .kv_alone = fwd->keys_alone,
        .v_is_k = layer->v_is_k,
        .norm_rotated = hp->features & KT__F_NORM_ROTATED,
        .norm_eps = hp->norm_eps,
        .n_head = hp->n_head,
        .n_head_kv = layer->sizes.n_head_kv,
        .head_dim_k = layer->sizes.head_dim_k,
        .head_dim_v = layer->sizes.head_dim_v,
        .cs = kt__fwd_f32(fwd, layer->local ? KT__BUF_CS_LOCAL : KT__BUF_CS),
        .n_rot = !layer->rotated ? 0
                 : layer->local  ? hp->rope.local_n_rot
                                 : hp->rope.n_rot,
        .neox = !(hp->features & KT__F_ROPE_NORM),
        .q_scale = hp->q_scale * layer->qk_factor,
        .q_row_scale = late_factors(fwd, layer),
        .q_out = kt__fwd_f32(fwd, KT__BUF_Q),
        .q_codes = fwd->buf[KT__BUF_Q_CODES],
        .kv = fwd->kv,
        .layer = kv_layer(fwd, layer),
        .segs = b->segs,
        .n_seg = b->n_seg,
    };
    fwd->ops->qkv(fwd->dev, acts, &qkv);
    kt__fwd_lap(fwd, KT_PROFILE_QKV);
}

static void attention_part(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__batch *b = &fwd->batch;
    kt__attention attention = {
        .kv = fwd->kv,
        .layer = kv_layer(fwd, layer),
        .both_ways = kt__fwd_is_encoder(fwd),
        .not_own = fwd->params.host,
        .n_head = hp->n_head,
        .n_head_kv = layer->sizes.n_head_kv,
        .head_dim_k = layer->sizes.head_dim_k,
        .head_dim_v = layer->sizes.head_dim_v,
        .q = kt__fwd_f32(fwd, KT__BUF_Q),
        .q_codes = fwd->buf[KT__BUF_Q_CODES],
        .n_tok = b->n_tok,
        .segs = b->segs,
        .n_seg = b->n_seg,
        .window = layer->local ? hp->window : 0,
        .chunks = hp->features & KT__F_CHUNKS,
        .softcap = hp->attn_softcap,
        .sinks = layer->t[KT__SLOT_ATTN_SINKS].v,
        .out = kt__fwd_f32(fwd, KT__BUF_ATTN),
    };
    fwd->ops->attention(fwd->dev, &attention);
    if (hp->features & KT__F_DELTA)
        fwd->ops->sigmoid_mul(fwd->dev, kt__fwd_f32(fwd, KT__BUF_GATE), b->n_tok,
                              hp->n_head * layer->sizes.head_dim_v, kt__fwd_f32(fwd, KT__BUF_ATTN));
    kt__fwd_lap(fwd, KT_PROFILE_ATTENTION);
}

static kt_status qkv_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *users[] = {&layer->wq, &layer->wk, &layer->wv, &layer->gate, &layer->up};
    bool parallel = hp->features & KT__F_PARALLEL;
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok, hp->d_model, users, parallel ? 5 : 3);
    kt__fwd_lora_input(fwd, KT__INPUT_ATTN, KT__BUF_ACT0, &acts);
    if (parallel) kt__fwd_lora_input(fwd, KT__INPUT_FFN, KT__BUF_ACT0, &acts);
    if (!kt__fwd_block_input(fwd, layer->t[KT__SLOT_ATTN_NORM].v, &acts))
        return kt__fwd_fail(fwd, "the attention", err);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    kt__fwd_show_input(fwd, KT__INPUT_ATTN, &acts);
    project_qkv(fwd, layer, &acts);
    if (!parallel) return KT_OK;
    kt__fwd_show_input(fwd, KT__INPUT_FFN, &acts);
    kt__ff_gate_and_up(fwd, layer, &acts); /* while there is its input */
    return KT_OK;
}

/* The norm of all heads' results, where there is one before the last product; false: not finite. */
static bool sub_norm(kt__fwd *fwd, const kt__layer *layer, int n) {
    float *rows = kt__fwd_f32(fwd, KT__BUF_ATTN);
    int n_tok = fwd->batch.n_tok;
    if (!layer->attn_sub_norm) return true;
    if (layer->v_factor != 1.0f)
        fwd->ops->scale(fwd->dev, rows, (int64_t)n_tok * n, layer->v_factor);
    return fwd->ops->norm_f32(fwd->dev, rows, layer->attn_sub_norm, fwd->net->hp.norm_eps, n_tok, n,
                              rows);
}

static kt_status attn_out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__weight *out = &layer->t[KT__SLOT_ATTN_OUT].w;
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok, out->n_col, &out, 1);
    kt__fwd_lora_input(fwd, KT__INPUT_ATTN_OUT, KT__BUF_ACT0, &acts);
    if (!sub_norm(fwd, layer, out->n_col)) return kt__fwd_fail(fwd, "the attention's end", err);
    fwd->ops->quantize(fwd->dev, kt__fwd_f32(fwd, KT__BUF_ATTN), fwd->batch.n_tok, &acts);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    kt__fwd_show_input(fwd, KT__INPUT_ATTN_OUT, &acts);
    if (!kt__fwd_add_block(fwd, out, &acts, layer->t[KT__SLOT_ATTN_OUT_BIAS].v,
                           layer->t[KT__SLOT_ATTN_POST_NORM].v, KT__SITE_ATTN_OUT,
                           KT_PROFILE_ATTN_OUT)) {
        return kt__fwd_fail(fwd, "the attention's norm", err);
    }
    if (!kt__fwd_end_block(fwd, &layer->attn_end))
        return kt__fwd_fail(fwd, "the attention's norm", err);
    return KT_OK;
}

const kt__mixer kt__mix_attention = {qkv_part, attention_part, attn_out_part};

/* Layers with no mixer, and with two. */

/* ---- a layer that is a feed-forward part alone (Nemotron H) ---- */

static kt_status no_input(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    (void)fwd, (void)layer, (void)err;
    return KT_OK;
}

static void no_mix(kt__fwd *fwd, const kt__layer *layer) {
    (void)fwd, (void)layer;
}

const kt__mixer kt__mix_none = {no_input, no_mix, no_input};

/* ---- attention and Mamba-2 side by side (Falcon H1) ----
 *
 * Both read the same norm of x, and both are added to x. They share no buffer of theirs, and x is not changed before
 * both have read it. */

static kt_status both_inputs(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    kt_status status = kt__mix_attention.input(fwd, layer, err);
    return status == KT_OK ? kt__mix_mamba.input(fwd, layer, err) : status;
}

static void mix_both(kt__fwd *fwd, const kt__layer *layer) {
    kt__mix_attention.mix(fwd, layer);
    kt__mix_mamba.mix(fwd, layer);
}

static kt_status both_outs(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    kt_status status = kt__mix_attention.out(fwd, layer, err);
    return status == KT_OK ? kt__mix_mamba.out(fwd, layer, err) : status;
}

const kt__mixer kt__mix_both = {both_inputs, mix_both, both_outs};
