/* Attention over latent vectors (DeepSeek-AI 2024): keys and values of all heads come out of one short vector
 * of each position, which alone is kept. Each head's matrices are taken to its queries and to what it makes of
 * the values ("absorbed"), at prompts as at answers, so that both have the same bits. */
#include "model/fwd_steps.h"

static void project_acts(kt__fwd *fwd, const kt__weight *w, const kt__acts *acts, kt__fwd_buf to) {
    fwd->ops->matmul(fwd->dev, w, acts, NULL, NULL, NULL, KT__SITE_Q, kt__fwd_f32(fwd, to),
                     (size_t)w->n_row);
}

/* Queries, through a short vector of their own or at once; false: not finite. The activations of the
 * layer's input are used up. */
static bool project_queries(kt__fwd *fwd, const kt__layer *layer, const kt__acts *acts) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__bound *t = layer->t;
    if (!(hp->features & KT__F_LATENT_Q)) {
        project_acts(fwd, &t[KT__SLOT_LATENT_Q].w, acts, KT__BUF_MIX_IN);
        return true;
    }
    const kt__weight *last = &t[KT__SLOT_LATENT_Q_B].w;
    project_acts(fwd, &t[KT__SLOT_LATENT_Q_A].w, acts, KT__BUF_MIX);
    kt__acts inner = kt__fwd_acts(fwd, acts->n_tok, hp->q_rank, &last, 1);
    if (!fwd->ops->norm(fwd->dev, kt__fwd_f32(fwd, KT__BUF_MIX), t[KT__SLOT_LATENT_Q_NORM].v,
                        hp->norm_eps, acts->n_tok, &inner))
        return false;
    project_acts(fwd, last, &inner, KT__BUF_MIX_IN);
    return true;
}

/* One matrix for each head. */
static void heads_product(kt__fwd *fwd, const kt__weight *w, const float *rows, float *out,
                          size_t step) {
    const kt__hparams *hp = &fwd->net->hp;
    size_t n_head = (size_t)hp->n_head;
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok * hp->n_head, w->n_col, &w, 1);
    const kt__heads heads = {.w = *w,
                             .stride = w->row_bytes * (size_t)w->n_row,
                             .n_head = hp->n_head,
                             .out = out,
                             .ld_out = n_head * step,
                             .step = step};
    fwd->ops->quantize(fwd->dev, rows, acts.n_tok, &acts);
    fwd->ops->heads(fwd->dev, &acts, &heads);
}

/* Rows of queries, keys and values as the attention has them. */
static void make_rows(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    int n_rot = hp->rope.n_rot;
    float *plain = kt__fwd_f32(fwd, KT__BUF_MIX), *q_rows = kt__fwd_f32(fwd, KT__BUF_Q_ROWS);
    const kt__latent latent = {.q = fwd->keys_alone ? NULL : kt__fwd_f32(fwd, KT__BUF_MIX_IN),
                               .c = kt__fwd_f32(fwd, KT__BUF_LATENT),
                               .norm = layer->t[KT__SLOT_LATENT_KV_NORM].v,
                               .eps = hp->norm_eps,
                               .n_tok = fwd->batch.n_tok,
                               .n_head = hp->n_head,
                               .n_plain = hp->head_dim_k_full - n_rot,
                               .n_rot = n_rot,
                               .n_latent = hp->kv_rank,
                               .plain = plain,
                               .q_rows = q_rows,
                               .k_rows = kt__fwd_f32(fwd, KT__BUF_K_ROWS),
                               .v_rows = kt__fwd_f32(fwd, KT__BUF_V_ROWS)};
    fwd->ops->latent(fwd->dev, &latent);
    if (fwd->keys_alone) return;
    heads_product(fwd, &layer->t[KT__SLOT_LATENT_K_B].w, plain, q_rows + n_rot,
                  (size_t)hp->head_dim_k);
}

static void store_rows(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__acts rows = {.n_tok = fwd->batch.n_tok};
    const kt__qkv qkv = {
        .kv_alone = fwd->keys_alone,
        .q_rows = kt__fwd_f32(fwd, KT__BUF_Q_ROWS),
        .k_rows = kt__fwd_f32(fwd, KT__BUF_K_ROWS),
        .v_rows = kt__fwd_f32(fwd, KT__BUF_V_ROWS),
        .n_head = hp->n_head,
        .n_head_kv = 1,
        .head_dim_k = hp->head_dim_k,
        .head_dim_v = hp->head_dim_v,
        .cs = kt__fwd_f32(fwd, KT__BUF_CS),
        .n_rot = hp->rope.n_rot,
        .q_scale = hp->q_scale,
        .q_out = kt__fwd_f32(fwd, KT__BUF_Q),
        .q_codes = fwd->buf[KT__BUF_Q_CODES],
        .kv = fwd->kv,
        .layer = layer->kv_layer,
        .segs = fwd->batch.segs,
        .n_seg = fwd->batch.n_seg,
    };
    fwd->ops->qkv(fwd->dev, &rows, &qkv);
}

static kt_status input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__bound *t = layer->t;
    bool short_q = fwd->net->hp.features & KT__F_LATENT_Q;
    const kt__weight *users[] = {&t[KT__SLOT_LATENT_KV_A].w,
                                 &t[short_q ? KT__SLOT_LATENT_Q_A : KT__SLOT_LATENT_Q].w};
    kt__acts acts = kt__fwd_acts(fwd, fwd->batch.n_tok, fwd->net->hp.d_model, users, 2);
    if (!kt__fwd_block_input(fwd, t[KT__SLOT_ATTN_NORM].v, &acts))
        return kt__fwd_fail(fwd, "the attention", err);
    kt__fwd_lap(fwd, KT_PROFILE_NORM);
    kt__fwd_show_input(fwd, KT__INPUT_ATTN, &acts);
    project_acts(fwd, users[0], &acts, KT__BUF_LATENT);
    if (!fwd->keys_alone && !project_queries(fwd, layer, &acts))
        return kt__fwd_fail(fwd, "the queries' norm", err);
    make_rows(fwd, layer);
    store_rows(fwd, layer);
    kt__fwd_lap(fwd, KT_PROFILE_QKV);
    return KT_OK;
}

static void mix_part(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__batch *b = &fwd->batch;
    const kt__attention attention = {.kv = fwd->kv,
                                     .layer = layer->kv_layer,
                                     .n_head = hp->n_head,
                                     .n_head_kv = 1,
                                     .head_dim_k = hp->head_dim_k,
                                     .head_dim_v = hp->head_dim_v,
                                     .q = kt__fwd_f32(fwd, KT__BUF_Q),
                                     .q_codes = fwd->buf[KT__BUF_Q_CODES],
                                     .n_tok = b->n_tok,
                                     .segs = b->segs,
                                     .n_seg = b->n_seg,
                                     .out = kt__fwd_f32(fwd, KT__BUF_ATTN)};
    fwd->ops->attention(fwd->dev, &attention);
    heads_product(fwd, &layer->t[KT__SLOT_LATENT_V_B].w, attention.out,
                  kt__fwd_f32(fwd, KT__BUF_MIX), (size_t)hp->head_dim_v_full);
    kt__fwd_lap(fwd, KT_PROFILE_ATTENTION);
}

static kt_status out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    return kt__fwd_add_mixed(fwd, &layer->t[KT__SLOT_LATENT_OUT].w, KT__BUF_MIX,
                             "the attention's norm", err);
}

const kt__mixer kt__mix_latent = {input_part, mix_part, out_part};
