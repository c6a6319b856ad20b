#include "model/forward.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "host/pages.h"
#include "model/encoder.h"
#include "model/experts.h"
#include "model/rope.h"

/* Address-space buffers of a batch, one mapping each; [n_tok_max] rows. */
typedef enum buf_id {
    BUF_X,
    BUF_Q,
    BUF_Q_CODES, /* where keys are sealed */
    BUF_ATTN,
    BUF_FF,
    BUF_TMP,
    BUF_CS,
    BUF_CS_LOCAL,
    BUF_Q_SCALE, /* with KT__F_TEMPERATURE */
    BUF_Q_ROWS,  /* with KT__F_QK_NORM_ROWS */
    BUF_K_ROWS,
    BUF_LOGITS,
    BUF_LORA_U,
    BUF_ACT0,                               /* activation rows of d_model or of the heads */
    BUF_FF_ACT0 = BUF_ACT0 + KT__ACT_COUNT, /* of d_ff */
    BUF_COUNT = BUF_FF_ACT0 + KT__ACT_COUNT
} buf_id;

/* A layer's parts: between two of them a run may stop. */
typedef enum layer_part {
    PART_QKV,
    PART_ATTENTION,
    PART_ATTN_OUT,
    PART_GLU,
    PART_DOWN,
    PARTS
} layer_part;

struct kt__fwd {
    const kt__net *net;
    kt__fwd_params params;
    kt__dev *dev;
    const kt__ops *ops;
    kt__experts *experts; /* NULL: no layer has any */
    kt__arena arena;
    kt__rope rope, rope_local;
    bool has_local;
    void *buf[BUF_COUNT];
    size_t buf_bytes[BUF_COUNT];
    /* the batch */
    kt__batch batch;
    const kt__kv *kv;
    kt__lora_terms lora;      /* of the block at hand; without rows: no adapter is in the batch */
    int32_t *table_ids;       /* [n_tok_max] with KT__F_LAYER_NORMS */
    kt__lora_rows *head_lora; /* [n_tok_max] the batch's, as rows of those that are wanted */
    int layer;                /* cursor: -1 before the embedding, n_layer before the head */
    layer_part part;
    int64_t part_us[PARTS];     /* of the layer before; 0: not measured */
    int64_t part_sum_us[PARTS]; /* of all layers, */
    int n_timed[PARTS];         /* so many */
    kt__profile *profile;
};

static void lap_profile(const kt__fwd *fwd, kt_profile_part part) {
    kt__profile_lap(fwd->profile, part);
}

static float *f32_buf(const kt__fwd *fwd, buf_id id) {
    return fwd->buf[id];
}

static int max_int(int a, int b) {
    return a > b ? a : b;
}

/* n columns as whole blocks of every activation kind */
static int whole_blocks(int n) {
    return (n + 255) / 256 * 256;
}

/* Columns of the feed-forward that all tokens have: with experts, of the shared one. */
static int ff_cols(const kt__hparams *hp) {
    return hp->n_expert ? hp->d_ff_shared : hp->d_ff;
}

static int longest_row(const kt__hparams *hp) {
    int ff = max_int(ff_cols(hp), hp->d_ff_expert);
    return whole_blocks(max_int(hp->d_model, max_int(ff, hp->n_head * hp->head_dim_v)));
}

/* Bytes of every buffer; returns the sum. */
static uint64_t plan_buffers(const kt__net *net, const kt__fwd_params *p, size_t *bytes) {
    const kt__hparams *hp = &net->hp;
    size_t n = (size_t)p->n_tok_max, f = sizeof(float);
    int model = whole_blocks(max_int(hp->d_model, hp->n_head * hp->head_dim_v));
    int ff = whole_blocks(ff_cols(hp));
    bytes[BUF_X] = n * (size_t)hp->d_model * f;
    bytes[BUF_TMP] = bytes[BUF_X];
    bytes[BUF_Q] = n * (size_t)hp->n_head * (size_t)hp->head_dim_k * f;
    bytes[BUF_Q_CODES] = p->keys_sealed
                             ? n * (size_t)hp->n_head * kt__query_code_bytes(hp->head_dim_k)
                             : 0;
    bytes[BUF_ATTN] = n * (size_t)hp->n_head * (size_t)hp->head_dim_v * f;
    bytes[BUF_FF] = (n < KT__GLU_ROWWISE ? n : KT__GLU_ROWWISE) * (size_t)ff_cols(hp) * f;
    if (hp->features & KT__F_PLAIN_FF) bytes[BUF_FF] = n * (size_t)ff_cols(hp) * f;
    bytes[BUF_CS] = n * (size_t)(hp->rope.n_rot + 1) * f;
    bytes[BUF_CS_LOCAL] = bytes[BUF_CS];
    bytes[BUF_Q_SCALE] = hp->temperature > 0.0f ? n * f : 0;
    bool rows = hp->features & KT__F_QK_NORM_ROWS;
    bytes[BUF_Q_ROWS] = rows ? bytes[BUF_Q] : 0;
    bytes[BUF_K_ROWS] = rows ? n * (size_t)hp->n_head_kv * (size_t)hp->head_dim_k * f : 0;
    bytes[BUF_LORA_U] = n * KT__LORA_U_MAX * f;
    bytes[BUF_LOGITS] = (size_t)p->n_out_max * (size_t)hp->n_vocab * f;
    uint64_t sum = 0;
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        bytes[BUF_ACT0 + kind] = n * kt__act_layout_of((kt__act_kind)kind, model).row_bytes;
        bytes[BUF_FF_ACT0 + kind] = n * kt__act_layout_of((kt__act_kind)kind, ff).row_bytes;
    }
    for (int i = 0; i < BUF_COUNT; i++) sum += bytes[i];
    return sum;
}

uint64_t kt__fwd_plan_bytes(const kt__net *net, const kt__fwd_params *params) {
    size_t bytes[BUF_COUNT];
    return plan_buffers(net, params, bytes) + kt__experts_plan_bytes(net, params->n_tok_max);
}

static kt_status map_buffers(kt__fwd *fwd, kt_error *err) {
    (void)plan_buffers(fwd->net, &fwd->params, fwd->buf_bytes);
    for (int i = 0; i < BUF_COUNT; i++) {
        if (fwd->buf_bytes[i] == 0) continue;
        fwd->buf[i] = kt__pages_alloc(fwd->buf_bytes[i]);
        if (!fwd->buf[i]) return kt__fail_nomem(err, "batch scratch", fwd->buf_bytes[i]);
    }
    return KT_OK;
}

kt_status kt__fwd_create(const kt__net *net, kt__pool *pool, const kt__kernels *kernels,
                         const kt__fwd_params *params, kt__fwd **out, kt_error *err) {
    kt_status status;
    const kt__hparams *hp = &net->hp;
    *out = NULL;
    kt__fwd *fwd = kt__calloc(1, sizeof *fwd);
    if (!fwd) return kt__fail_nomem(err, "the forward pass", sizeof *fwd);
    fwd->net = net;
    fwd->params = *params;
    kt__arena_init(&fwd->arena, 16 * 1024, (size_t)1 << 30);
    kt__dev_limits limits = {
        .n_tok = params->n_tok_max,
        .n_col = longest_row(hp),
        .head_dim_k = hp->head_dim_k,
        .head_dim_v = hp->head_dim_v,
        .n_head = hp->n_head,
        .n_head_kv = hp->n_head_kv,
        .n_ctx = params->n_ctx,
        .expert_cols = hp->n_expert ? whole_blocks(hp->d_model) : 0,
    };
    KT__TRY(kt__dev_create(pool, kernels, params->exact, params->blas, &limits, &fwd->dev, err));
    fwd->ops = kt__dev_ops(fwd->dev);
    KT__TRY(map_buffers(fwd, err));
    KT__TRY(kt__experts_create(net, fwd->dev, params->n_tok_max, &fwd->experts, err));
    fwd->head_lora = kt__arena_calloc(&fwd->arena, (size_t)params->n_tok_max,
                                      sizeof *fwd->head_lora);
    fwd->table_ids = kt__arena_calloc(&fwd->arena, (size_t)params->n_tok_max,
                                      sizeof *fwd->table_ids);
    if (!fwd->head_lora || !fwd->table_ids) {
        status = kt__fail_nomem(err, "the adapters' rows", 0);
        goto out;
    }
    for (int i = 0; i < hp->n_layer; i++) fwd->has_local |= net->layers[i].local;
    KT__TRY(kt__rope_init(net, false, params->n_ctx, &fwd->arena, &fwd->rope, err));
    KT__TRY(kt__rope_init(net, true, params->n_ctx, &fwd->arena, &fwd->rope_local, err));
    /* local layers without a base of their own rotate as the others do */
    if (hp->rope.local_freq_base == hp->rope.freq_base && !(hp->features & KT__F_LOCAL_PLAIN))
        fwd->rope_local = fwd->rope;
    *out = fwd;
    fwd = NULL;
out:
    kt__fwd_destroy(fwd);
    return status;
}

void kt__fwd_destroy(kt__fwd *fwd) {
    if (!fwd) return;
    for (int i = 0; i < BUF_COUNT; i++) kt__pages_free(fwd->buf[i], fwd->buf_bytes[i]);
    kt__experts_destroy(fwd->experts);
    kt__dev_destroy(fwd->dev);
    kt__arena_free(&fwd->arena);
    kt__free(fwd);
}

float *kt__fwd_logits(const kt__fwd *fwd, int i) {
    return f32_buf(fwd, BUF_LOGITS) + (size_t)i * (size_t)fwd->net->hp.n_vocab;
}

/* The head's rows stay where it took them from: nothing behind it uses that buffer. */
const float *kt__fwd_hidden(const kt__fwd *fwd, int i) {
    return f32_buf(fwd, BUF_TMP) + (size_t)i * (size_t)fwd->net->hp.d_model;
}

void kt__fwd_set_profile(kt__fwd *fwd, kt__profile *profile) {
    fwd->profile = profile;
}

void kt__fwd_begin(kt__fwd *fwd, const kt__batch *batch, const kt__kv *kv, int n_threads) {
    fwd->batch = *batch;
    fwd->kv = kv;
    fwd->lora = (kt__lora_terms){
        .rows = batch->lora, .n_rows = batch->n_lora, .u = f32_buf(fwd, BUF_LORA_U)};
    fwd->layer = -1;
    fwd->part = PART_QKV;
    memset(fwd->part_us, 0, sizeof fwd->part_us);
    memset(fwd->part_sum_us, 0, sizeof fwd->part_sum_us);
    memset(fwd->n_timed, 0, sizeof fwd->n_timed);
    kt__dev_set_threads(fwd->dev, n_threads);
}

/* Activation rows of n_col, from the buffers `first`.., for the products with the given weights
 * (absent ones are skipped). */
static kt__acts acts_in(const kt__fwd *fwd, buf_id first, int n_tok, int n_col,
                        const kt__weight *const *users, int n) {
    kt__acts acts = {.n_tok = n_tok, .n_col = n_col};
    for (int i = 0; i < n; i++) acts.kinds |= 1u << kt__dev_act_kind(fwd->dev, users[i]);
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        if (!(acts.kinds >> kind & 1)) continue;
        acts.layout[kind] = kt__act_layout_of((kt__act_kind)kind, n_col);
        acts.data[kind] = fwd->buf[(int)first + kind];
    }
    return acts;
}

static kt__acts acts_for(const kt__fwd *fwd, int n_tok, int n_col, const kt__weight *const *users,
                         int n) {
    return acts_in(fwd, BUF_ACT0, n_tok, n_col, users, n);
}

/* ---- adapters ---- */

/* The terms of the block at hand; NULL: no adapter reads this input. */
static const kt__lora_terms *lora_of(kt__fwd *fwd, kt__net_input input) {
    if (fwd->lora.n_rows == 0) return NULL;
    fwd->lora.block = fwd->layer;
    return kt__lora_has_input(&fwd->lora, input) ? &fwd->lora : NULL;
}

/* Adapters see an input as it is before it is quantised. */
static void want_f32(kt__acts *acts, const kt__fwd *fwd, buf_id first) {
    acts->kinds |= 1u << KT__ACT_F32;
    acts->layout[KT__ACT_F32] = kt__act_layout_of(KT__ACT_F32, acts->n_col);
    acts->data[KT__ACT_F32] = fwd->buf[(int)first + KT__ACT_F32];
}

static void add_lora_input(kt__fwd *fwd, kt__net_input input, kt__acts *acts) {
    if (lora_of(fwd, input)) want_f32(acts, fwd, BUF_ACT0);
}

/* The terms of an input whose rows are there: u is made with the next product. */
static const kt__lora_terms *lora_down(kt__fwd *fwd, kt__net_input input, const kt__acts *acts) {
    fwd->lora.acts = acts;
    return lora_of(fwd, input);
}

static kt__acts ff_acts(kt__fwd *fwd, const kt__layer *layer) {
    const kt__weight *down = &layer->down;
    kt__acts acts = acts_in(fwd, BUF_FF_ACT0, fwd->batch.n_tok, down->n_col, &down, 1);
    if (lora_of(fwd, KT__INPUT_DOWN)) want_f32(&acts, fwd, BUF_FF_ACT0);
    return acts;
}

static kt_status numeric_error(const kt__fwd *fwd, const char *where, kt_error *err) {
    return kt__fail(
        err, KT_E_NUMERIC,
        "a number that is not finite came out before %s of layer %d of %d: the file is damaged, or "
        "its weights are not what the %s architecture expects",
        where, fwd->layer, fwd->net->hp.n_layer, fwd->net->hp.arch);
}

static bool is_encoder(const kt__fwd *fwd) {
    return fwd->net->hp.features & KT__F_ENCODER;
}

/* Where a layer's keys and values go: nothing reads an encoder's behind the layer. */
static int kv_layer(const kt__fwd *fwd) {
    return is_encoder(fwd) ? 0 : fwd->layer;
}

static void embed_batch(kt__fwd *fwd) {
    const kt__hparams *hp = &fwd->net->hp;
    fwd->ops->embed(fwd->dev, &fwd->net->embed, fwd->batch.ids, fwd->batch.n_tok, hp->embed_scale,
                    f32_buf(fwd, BUF_X));
    if (hp->features & KT__F_LAYER_NORMS) /* the next norm looks whether it is finite */
        (void)kt__encoder_embed(fwd->dev, &fwd->net->tables, fwd->batch.segs, fwd->batch.n_seg,
                                hp->norm_eps, fwd->batch.n_tok, fwd->table_ids,
                                f32_buf(fwd, BUF_TMP), f32_buf(fwd, BUF_X));
    size_t n_rot = (size_t)hp->rope.n_rot;
    for (int s = 0; s < fwd->batch.n_seg; s++) {
        const kt__seg *seg = &fwd->batch.segs[s];
        for (int i = 0; i < seg->n_tok; i++) {
            size_t at = (size_t)(seg->row0 + i) * n_rot;
            kt__rope_fill(&fwd->rope, seg->pos0 + i, f32_buf(fwd, BUF_CS) + at);
            if (hp->temperature > 0.0f)
                f32_buf(fwd, BUF_Q_SCALE)[seg->row0 + i] = kt__rope_query_scale(hp, seg->pos0 + i);
            if (!fwd->has_local) continue;
            kt__rope_fill(&fwd->rope_local, seg->pos0 + i, f32_buf(fwd, BUF_CS_LOCAL) + at);
        }
    }
}

/* Queries or keys as rows of all heads, normed as one: the norm needs every head's product. */
static const float *normed_rows(kt__fwd *fwd, const kt__weight *w, const kt__acts *acts,
                                const float *bias, const kt__lora_terms *lora, kt__lora_site site,
                                const float *norm, buf_id id) {
    float *rows = f32_buf(fwd, id);
    if (!norm) return NULL;
    fwd->ops->matmul(fwd->dev, w, acts, bias, NULL, lora, site, rows, (size_t)w->n_row);
    (void)fwd->ops->norm_f32(fwd->dev, rows, norm, fwd->net->hp.norm_eps, acts->n_tok, w->n_row,
                             rows); /* the post-norm looks whether it is finite */
    return rows;
}

static void project_qkv(kt__fwd *fwd, const kt__layer *layer, const kt__acts *acts) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__batch *b = &fwd->batch;
    const kt__lora_terms *lora = lora_down(fwd, KT__INPUT_ATTN, acts);
    if (lora && hp->features & KT__F_QK_NORM_ROWS) { /* for several products */
        fwd->ops->lora_down(fwd->dev, acts, lora, KT__INPUT_ATTN);
        fwd->lora.acts = NULL;
    }
    kt__qkv qkv = {
        .lora = lora,
        .wq = layer->wq,
        .wk = layer->wk,
        .wv = layer->wv,
        .bq = layer->bq,
        .bk = layer->bk,
        .bv = layer->bv,
        .q_rows = normed_rows(fwd, &layer->wq, acts, layer->bq, lora, KT__SITE_Q,
                              layer->t[KT__SLOT_ATTN_Q_NORM_ROW].v, BUF_Q_ROWS),
        .k_rows = normed_rows(fwd, &layer->wk, acts, layer->bk, lora, KT__SITE_K,
                              layer->t[KT__SLOT_ATTN_K_NORM_ROW].v, BUF_K_ROWS),
        .q_norm = layer->t[KT__SLOT_ATTN_Q_NORM].v,
        .k_norm = layer->t[KT__SLOT_ATTN_K_NORM].v,
        .norm_rotated = hp->features & KT__F_NORM_ROTATED,
        .norm_eps = hp->norm_eps,
        .n_head = hp->n_head,
        .n_head_kv = hp->n_head_kv,
        .head_dim_k = hp->head_dim_k,
        .head_dim_v = hp->head_dim_v,
        .cs = f32_buf(fwd, layer->local ? BUF_CS_LOCAL : BUF_CS),
        .n_rot = layer->rotated ? hp->rope.n_rot : 0,
        .neox = !(hp->features & KT__F_ROPE_NORM),
        .q_scale = hp->q_scale,
        .q_row_scale = f32_buf(fwd, BUF_Q_SCALE),
        .q_out = f32_buf(fwd, BUF_Q),
        .q_codes = fwd->buf[BUF_Q_CODES],
        .kv = fwd->kv,
        .layer = kv_layer(fwd),
        .segs = b->segs,
        .n_seg = b->n_seg,
    };
    fwd->ops->qkv(fwd->dev, acts, &qkv);
    lap_profile(fwd, KT_PROFILE_QKV);
}

static void attention_part(kt__fwd *fwd, const kt__layer *layer) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__batch *b = &fwd->batch;
    kt__attention attention = {
        .kv = fwd->kv,
        .layer = kv_layer(fwd),
        .both_ways = is_encoder(fwd),
        .n_head = hp->n_head,
        .n_head_kv = hp->n_head_kv,
        .head_dim_k = hp->head_dim_k,
        .head_dim_v = hp->head_dim_v,
        .q = f32_buf(fwd, BUF_Q),
        .q_codes = fwd->buf[BUF_Q_CODES],
        .n_tok = b->n_tok,
        .segs = b->segs,
        .n_seg = b->n_seg,
        .window = layer->local ? hp->window : 0,
        .softcap = hp->attn_softcap,
        .sinks = layer->t[KT__SLOT_ATTN_SINKS].v,
        .out = f32_buf(fwd, BUF_ATTN),
    };
    fwd->ops->attention(fwd->dev, &attention);
    lap_profile(fwd, KT_PROFILE_ATTENTION);
}

/* x += projection of the block's output, through the post-norm where the architecture has one. */
static bool add_block(kt__fwd *fwd, const kt__weight *w, const kt__acts *acts, const float *bias,
                      const float *post_norm, kt__lora_site site, kt_profile_part part) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__lora_terms *lora = lora_down(fwd, kt__lora_input_of(site), acts);
    float *x = f32_buf(fwd, BUF_X);
    size_t ld = (size_t)hp->d_model;
    if (!(hp->features & KT__F_POST_NORM)) {
        fwd->ops->matmul(fwd->dev, w, acts, bias, x, lora, site, x, ld);
        lap_profile(fwd, part);
        return true;
    }
    float *tmp = f32_buf(fwd, BUF_TMP);
    fwd->ops->matmul(fwd->dev, w, acts, bias, NULL, lora, site, tmp, ld);
    lap_profile(fwd, part);
    bool finite = fwd->ops->norm_add(fwd->dev, tmp, post_norm, hp->norm_eps, acts->n_tok,
                                     hp->d_model, x);
    lap_profile(fwd, KT_PROFILE_NORM);
    return finite;
}

/* The layer norm behind a block, where the architecture has one. */
static bool end_block(kt__fwd *fwd, const kt__layer_norm *norm) {
    const kt__hparams *hp = &fwd->net->hp;
    if (!norm->w) return true;
    bool finite = kt__encoder_norm(fwd->dev, norm, hp->norm_eps, fwd->batch.n_tok, hp->d_model,
                                   f32_buf(fwd, BUF_X));
    lap_profile(fwd, KT_PROFILE_NORM);
    return finite;
}

/* x, through the pre-norm where the architecture has one, as activations. */
static bool block_input(kt__fwd *fwd, const float *norm, kt__acts *acts) {
    const kt__hparams *hp = &fwd->net->hp;
    float *x = f32_buf(fwd, BUF_X);
    int n_tok = fwd->batch.n_tok;
    /* every reader of x subtracts its mean, so x may lose it for good */
    if (hp->features & KT__F_CENTRED) fwd->ops->centre(fwd->dev, x, n_tok, hp->d_model);
    if (norm) return fwd->ops->norm(fwd->dev, x, norm, hp->norm_eps, n_tok, acts);
    fwd->ops->quantize(fwd->dev, x, n_tok, acts);
    return true; /* the post-norm looks */
}

static void gate_and_up(kt__fwd *fwd, const kt__layer *layer, const kt__acts *acts) {
    if (!layer->gate.data) {
        kt__acts plain = ff_acts(fwd, layer);
        kt__encoder_up(fwd->dev, &layer->up, layer->up_bias, acts,
                       lora_down(fwd, KT__INPUT_FFN, acts), f32_buf(fwd, BUF_FF), &plain);
        lap_profile(fwd, KT_PROFILE_GATE_UP);
        return;
    }
    kt__glu glu = {
        .gate = layer->gate,
        .up = layer->up,
        .gate_bias = layer->gate_bias,
        .up_bias = layer->up_bias,
        .kind = fwd->net->hp.features & KT__F_GELU ? KT__GLU_GELU : KT__GLU_SILU,
        .rows = f32_buf(fwd, BUF_FF),
        .lora = lora_down(fwd, KT__INPUT_FFN, acts),
    };
    kt__acts out = ff_acts(fwd, layer);
    fwd->ops->glu(fwd->dev, acts, &glu, &out);
    lap_profile(fwd, KT_PROFILE_GATE_UP);
}

static void show_input(const kt__fwd *fwd, kt__net_input input, const kt__acts *acts) {
    if (fwd->params.on_input)
        fwd->params.on_input(fwd->params.on_input_user, fwd->layer, input, acts);
}

static kt_status qkv_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *users[] = {&layer->wq, &layer->wk, &layer->wv, &layer->gate, &layer->up};
    bool parallel = hp->features & KT__F_PARALLEL;
    kt__acts acts = acts_for(fwd, fwd->batch.n_tok, hp->d_model, users, parallel ? 5 : 3);
    add_lora_input(fwd, KT__INPUT_ATTN, &acts);
    if (parallel) add_lora_input(fwd, KT__INPUT_FFN, &acts);
    if (!block_input(fwd, layer->t[KT__SLOT_ATTN_NORM].v, &acts))
        return numeric_error(fwd, "the attention", err);
    lap_profile(fwd, KT_PROFILE_NORM);
    show_input(fwd, KT__INPUT_ATTN, &acts);
    project_qkv(fwd, layer, &acts);
    if (!parallel) return KT_OK;
    show_input(fwd, KT__INPUT_FFN, &acts);
    gate_and_up(fwd, layer, &acts); /* while there is its input */
    return KT_OK;
}

static kt_status attn_out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *out = &layer->t[KT__SLOT_ATTN_OUT].w;
    kt__acts acts = acts_for(fwd, fwd->batch.n_tok, hp->n_head * hp->head_dim_v, &out, 1);
    add_lora_input(fwd, KT__INPUT_ATTN_OUT, &acts);
    fwd->ops->quantize(fwd->dev, f32_buf(fwd, BUF_ATTN), fwd->batch.n_tok, &acts);
    lap_profile(fwd, KT_PROFILE_NORM);
    show_input(fwd, KT__INPUT_ATTN_OUT, &acts);
    if (!add_block(fwd, out, &acts, layer->t[KT__SLOT_ATTN_OUT_BIAS].v,
                   layer->t[KT__SLOT_ATTN_POST_NORM].v, KT__SITE_ATTN_OUT, KT_PROFILE_ATTN_OUT)) {
        return numeric_error(fwd, "the attention's norm", err);
    }
    if (!end_block(fwd, &layer->attn_end)) return numeric_error(fwd, "the attention's norm", err);
    return KT_OK;
}

/* The experts' gate and up, beside those of the shared one. */
static kt_status experts_glu_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__weight *users[KT__EXPERT_READERS];
    int n = kt__experts_readers(layer, users);
    kt__acts acts = acts_for(fwd, fwd->batch.n_tok, fwd->net->hp.d_model, users, n);
    if (!block_input(fwd, layer->ffn_norm, &acts)) return numeric_error(fwd, "the experts", err);
    lap_profile(fwd, KT_PROFILE_NORM);
    show_input(fwd, KT__INPUT_FFN, &acts);
    if (layer->up.data) gate_and_up(fwd, layer, &acts);
    if (!kt__experts_choose(fwd->experts, layer, &acts))
        return numeric_error(fwd, "the choice of experts", err);
    lap_profile(fwd, KT_PROFILE_GATE_UP);
    return KT_OK;
}

static kt_status experts_down_part(kt__fwd *fwd, const kt__layer *layer) {
    float *sum = f32_buf(fwd, BUF_TMP);
    if (layer->down.data) {
        kt__acts acts = ff_acts(fwd, layer);
        fwd->ops->matmul(fwd->dev, &layer->down, &acts, NULL, NULL, NULL, KT__SITE_DOWN, sum,
                         (size_t)fwd->net->hp.d_model);
    }
    kt__experts_add(fwd->experts, layer, sum, f32_buf(fwd, BUF_X));
    lap_profile(fwd, KT_PROFILE_DOWN);
    return KT_OK;
}

static kt_status glu_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *users[] = {layer->gate.data ? &layer->gate : &layer->up, &layer->up};
    if (hp->features & KT__F_PARALLEL) return KT_OK; /* made with the projections */
    kt__acts acts = acts_for(fwd, fwd->batch.n_tok, hp->d_model, users, 2);
    add_lora_input(fwd, KT__INPUT_FFN, &acts);
    if (!block_input(fwd, layer->ffn_norm, &acts))
        return numeric_error(fwd, "the feed-forward", err);
    lap_profile(fwd, KT_PROFILE_NORM);
    show_input(fwd, KT__INPUT_FFN, &acts);
    gate_and_up(fwd, layer, &acts);
    return KT_OK;
}

static kt_status down_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    kt__acts acts = ff_acts(fwd, layer);
    show_input(fwd, KT__INPUT_DOWN, &acts);
    if (!add_block(fwd, &layer->down, &acts, layer->down_bias, layer->t[KT__SLOT_FFN_POST_NORM].v,
                   KT__SITE_DOWN, KT_PROFILE_DOWN)) {
        return numeric_error(fwd, "the feed-forward's norm", err);
    }
    if (!end_block(fwd, &layer->layer_end))
        return numeric_error(fwd, "the feed-forward's norm", err);
    return KT_OK;
}

/* The batch's rows with adapters, as rows of those that are wanted. */
static kt__lora_terms lora_of_head(kt__fwd *fwd) {
    const kt__batch *b = &fwd->batch;
    kt__lora_terms terms = {
        .rows = fwd->head_lora, .block = fwd->net->hp.n_layer, .u = f32_buf(fwd, BUF_LORA_U)};
    int at = 0;
    for (int g = 0; g < b->n_lora; g++) {
        kt__lora_rows rows = b->lora[g];
        int end = rows.row0 + rows.n_tok;
        while (at < b->n_out && b->out_rows[at] < rows.row0) at++;
        rows.row0 = at;
        while (at < b->n_out && b->out_rows[at] < end) at++;
        rows.n_tok = at - rows.row0;
        if (rows.n_tok > 0) fwd->head_lora[terms.n_rows++] = rows;
    }
    return terms;
}

/* What adapters add to the normed hidden state itself. */
static void adapt_hidden(kt__fwd *fwd, const kt__lora_terms *lora, float *rows) {
    int n_out = fwd->batch.n_out, d_model = fwd->net->hp.d_model;
    if (!kt__lora_has_input(lora, KT__INPUT_HIDDEN)) return;
    kt__acts acts = {.n_tok = n_out, .n_col = d_model};
    want_f32(&acts, fwd, BUF_ACT0);
    fwd->ops->quantize(fwd->dev, rows, n_out, &acts);
    fwd->ops->lora_down(fwd->dev, &acts, lora, KT__INPUT_HIDDEN);
    fwd->ops->lora_up(fwd->dev, lora, KT__SITE_HIDDEN, d_model, n_out, rows);
}

/* rows[n_out] against the head. */
static void head_product(kt__fwd *fwd, kt__lora_terms *lora, const float *rows) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__weight *head = &fwd->net->head;
    int n_out = fwd->batch.n_out;
    bool adapted = kt__lora_has_input(lora, KT__INPUT_HEAD);
    kt__acts acts = acts_for(fwd, n_out, hp->d_model, &head, 1);
    if (adapted) want_f32(&acts, fwd, BUF_ACT0);
    fwd->ops->quantize(fwd->dev, rows, n_out, &acts);
    lora->acts = &acts;
    fwd->ops->matmul(fwd->dev, head, &acts, fwd->net->head_bias, NULL, adapted ? lora : NULL,
                     KT__SITE_HEAD, f32_buf(fwd, BUF_LOGITS), (size_t)hp->n_vocab);
}

/* Logits of the wanted rows: their hidden states are gathered, normed, shown to the hook, and
 * multiplied. */
static kt_status head_block(kt__fwd *fwd, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__batch *b = &fwd->batch;
    size_t d = (size_t)hp->d_model;
    float *x = f32_buf(fwd, BUF_X), *rows = f32_buf(fwd, BUF_TMP),
          *logits = f32_buf(fwd, BUF_LOGITS);
    if (b->n_out == 0) return KT_OK;
    for (int i = 0; i < b->n_out; i++) {
        memmove(rows + (size_t)i * d, x + (size_t)b->out_rows[i] * d, d * sizeof *x);
    }
    if (hp->features & KT__F_CENTRED) fwd->ops->centre(fwd->dev, rows, b->n_out, hp->d_model);
    bool finite = fwd->net->out_norm ? fwd->ops->norm_f32(fwd->dev, rows, fwd->net->out_norm,
                                                          hp->norm_eps, b->n_out, hp->d_model, rows)
                                     : fwd->ops->finite(fwd->dev, rows, b->n_out, hp->d_model);
    if (!finite) {
        return numeric_error(fwd, "the head, after the last", err);
    }
    kt__lora_terms lora = lora_of_head(fwd);
    adapt_hidden(fwd, &lora, rows);
    for (int i = 0; fwd->params.on_hidden && i < b->n_out; i++) {
        fwd->params.on_hidden(fwd->params.on_hidden_user, b->out_rows[i], rows + (size_t)i * d);
    }
    if (b->no_head) return KT_OK;
    head_product(fwd, &lora, rows);
    int64_t n_logits = (int64_t)b->n_out * hp->n_vocab;
    if (hp->logit_scale != 1.0f) fwd->ops->scale(fwd->dev, logits, n_logits, hp->logit_scale);
    if (hp->final_softcap > 0.0f) fwd->ops->softcap(fwd->dev, logits, n_logits, hp->final_softcap);
    if (!fwd->ops->finite(fwd->dev, logits, b->n_out, hp->n_vocab))
        return numeric_error(fwd, "the logits, after the last", err);
    return KT_OK;
}

static kt_status layer_step(kt__fwd *fwd, kt_error *err) {
    const kt__layer *layer = &fwd->net->layers[fwd->layer];
    switch (fwd->part) {
    case PART_QKV: return qkv_part(fwd, layer, err);
    case PART_ATTENTION: attention_part(fwd, layer); return KT_OK;
    case PART_ATTN_OUT: return attn_out_part(fwd, layer, err);
    case PART_GLU:
        return layer->down_exps.w.data ? experts_glu_part(fwd, layer, err)
                                       : glu_part(fwd, layer, err);
    default:
        return layer->down_exps.w.data ? experts_down_part(fwd, layer) : down_part(fwd, layer, err);
    }
}

/* The next part of a layer, the embedding, or the head; moves the cursor. */
static kt_status run_next_part(kt__fwd *fwd, kt_error *err) {
    if (fwd->layer < 0) {
        embed_batch(fwd);
        lap_profile(fwd, KT_PROFILE_EMBED);
        fwd->layer++;
        return KT_OK;
    }
    if (fwd->layer == fwd->net->hp.n_layer) {
        kt_status done = head_block(fwd, err);
        lap_profile(fwd, KT_PROFILE_HEAD);
        fwd->layer++;
        return done;
    }
    kt_status status = layer_step(fwd, err);
    if (++fwd->part == PARTS) {
        fwd->part = PART_QKV;
        fwd->layer++;
    }
    return status;
}

kt_status kt__fwd_run_layer(kt__fwd *fwd, int layer, float *x, kt_error *err) {
    size_t bytes = (size_t)fwd->batch.n_tok * (size_t)fwd->net->hp.d_model * sizeof *x;
    kt_status status = KT_OK;
    embed_batch(fwd); /* and the rotation of these positions */
    if (layer >= 0) {
        memcpy(fwd->buf[BUF_X], x, bytes);
        fwd->layer = layer;
        do status = run_next_part(fwd, err);
        while (status == KT_OK && fwd->part != PART_QKV);
    }
    memcpy(x, fwd->buf[BUF_X], bytes);
    return status;
}

static bool is_cancelled(const kt__stop_at *stop) {
    for (int i = 0; i < 2; i++) {
        const atomic_bool *flag = stop->cancel[i];
        if (flag && atomic_load_explicit(flag, memory_order_relaxed)) return true;
    }
    return false;
}

static bool is_within_layers(const kt__fwd *fwd) {
    return fwd->layer >= 0 && fwd->layer < fwd->net->hp.n_layer;
}

static kt_status run_next_part_timed(kt__fwd *fwd, int64_t *now_us, kt_error *err) {
    bool in_layer = is_within_layers(fwd);
    layer_part part = fwd->part;
    kt_status status = run_next_part(fwd, err);
    int64_t begin_us = *now_us;
    *now_us = kt__now_us();
    if (!in_layer) return status;
    fwd->part_us[part] = *now_us - begin_us;
    fwd->part_sum_us[part] += *now_us - begin_us;
    fwd->n_timed[part]++;
    return status;
}

int64_t kt__fwd_longest_us(const kt__fwd *fwd) {
    int64_t longest = 0;
    for (int p = 0; p < PARTS; p++) {
        int64_t us = fwd->n_timed[p] ? fwd->part_sum_us[p] / fwd->n_timed[p] : 0;
        if (us > longest) longest = us;
    }
    return longest;
}

kt_status kt__fwd_run(kt__fwd *fwd, const kt__stop_at *stop, bool *done, kt_error *err) {
    bool timed = stop->deadline_us != INT64_MAX, any = false;
    int64_t now_us = timed ? kt__now_us() : 0;
    *done = false;
    for (; fwd->layer <= fwd->net->hp.n_layer; any = true) {
        if (is_cancelled(stop)) return kt__fail(err, KT_E_CANCELLED, "cancelled");
        int64_t next_us = is_within_layers(fwd) ? fwd->part_us[fwd->part] : 0;
        if (any && stop->pause && atomic_load_explicit(stop->pause, memory_order_relaxed))
            return KT_OK;
        if (timed && any && now_us + next_us > stop->deadline_us) return KT_OK;
        kt_status status = timed ? run_next_part_timed(fwd, &now_us, err) : run_next_part(fwd, err);
        if (status != KT_OK) return status;
    }
    *done = true;
    return KT_OK;
}
