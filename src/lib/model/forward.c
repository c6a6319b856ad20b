#include "model/forward.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "host/pages.h"
#include "model/encoder.h"
#include "model/fwd_steps.h"

static int max_int(int a, int b) {
    return a > b ? a : b;
}

/* n columns as whole blocks of every activation kind */
static int whole_blocks(int n) {
    return (n + 255) / 256 * 256;
}

/* Columns of the feed-forward that all tokens have: with experts, of the shared one and of layers
 * without. */
static int ff_cols(const kt__hparams *hp) {
    int dense = hp->n_expert && !(hp->features & KT__F_BRANCHES) ? 0 : hp->d_ff;
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->dense[i]) dense = hp->d_ff;
    return max_int(dense, hp->d_ff_shared);
}

/* Of what a layer's products read but down, and a block that proposes. */
static int longest_input(const kt__hparams *hp) {
    int other = max_int(hp->q_rank, hp->d_layer_input);
    int own = hp->n_mtp ? 2 * hp->d_model : max_int(hp->d_model, 2 * hp->d_host);
    return whole_blocks(max_int(own, max_int(other, kt__hparams_mixed(hp))));
}

static int longest_row(const kt__hparams *hp) {
    int ff = max_int(ff_cols(hp), hp->d_ff_expert);
    return max_int(longest_input(hp), whole_blocks(ff));
}

static void plan_recurrent(const kt__net *net, size_t n, size_t *bytes) {
    const kt__hparams *hp = &net->hp;
    bool delta = hp->features & KT__F_DELTA, conv = hp->features & KT__F_SHORT_CONV;
    bool mamba = hp->features & KT__F_MAMBA;
    size_t row = n * sizeof(float), channels = (size_t)kt__hparams_channels(hp);
    size_t queries = (size_t)(2 * hp->n_head * hp->head_dim_k);
    bytes[KT__BUF_MIX_IN] = conv ? 3 * channels * row : 0;
    if (delta) bytes[KT__BUF_MIX_IN] = (channels > queries ? channels : queries) * row;
    if (mamba)
        bytes[KT__BUF_MIX_IN] = ((size_t)kt__hparams_inner(hp) + channels +
                                 (size_t)hp->n_state_value) *
                                row;
    bytes[KT__BUF_MIX] = delta || conv || mamba ? channels * row : 0;
    bytes[KT__BUF_GATE] = delta || mamba ? (size_t)kt__hparams_mixed(hp) * row : 0;
    bytes[KT__BUF_DECAY] = bytes[KT__BUF_BETA] = (size_t)hp->n_state_value * row;
}

static void plan_latent(const kt__hparams *hp, size_t n, size_t *bytes) {
    size_t heads = (size_t)hp->n_head, row = n * sizeof(float);
    size_t v = heads * (size_t)hp->head_dim_v_full, q = heads * (size_t)hp->head_dim_k_full;
    size_t mix = q > v ? q : v;
    if (!(hp->features & KT__F_LATENT)) return;
    bytes[KT__BUF_MIX_IN] = q * row;
    bytes[KT__BUF_MIX] = (mix > (size_t)hp->q_rank ? mix : (size_t)hp->q_rank) * row;
    bytes[KT__BUF_Q_ROWS] = bytes[KT__BUF_Q];
    bytes[KT__BUF_K_ROWS] = bytes[KT__BUF_LATENT] = (size_t)hp->head_dim_k * row;
    bytes[KT__BUF_V_ROWS] = (size_t)hp->kv_rank * row;
}

/* A block that proposes puts its pairs and the states that they are made of where the mixer's rows
 * are at other times. */
static void plan_proposals(const kt__hparams *hp, const kt__fwd_params *p, size_t *bytes) {
    size_t n = (size_t)p->n_tok_max * sizeof(float), row = n * (size_t)hp->d_model;
    size_t host = n * (size_t)hp->d_host, pair = p->mtp ? 2 * row : 2 * host;
    if (bytes[KT__BUF_MIX_IN] < pair) bytes[KT__BUF_MIX_IN] = pair;
    if ((p->mtp || p->states) && bytes[KT__BUF_ATTN] < row) bytes[KT__BUF_ATTN] = row;
    bytes[KT__BUF_TOKENS] = bytes[KT__BUF_PROPOSED] = host;
}

/* Rows of activations that mean one token's: with KT__F_LATENT, one for each head. */
static size_t act_bytes(const kt__hparams *hp, kt__act_kind kind, int model) {
    size_t whole = kt__act_layout_of(kind, model).row_bytes;
    if (!(hp->features & KT__F_LATENT)) return whole;
    int longest = whole_blocks(max_int(hp->head_dim_k_full, hp->kv_rank));
    size_t heads = (size_t)hp->n_head * kt__act_layout_of(kind, longest).row_bytes;
    return heads > whole ? heads : whole;
}

/* Bytes of every buffer; returns the sum. */
static uint64_t plan_buffers(const kt__net *net, const kt__fwd_params *p, size_t *bytes) {
    const kt__hparams *hp = &net->hp;
    size_t n = (size_t)p->n_tok_max, f = sizeof(float);
    int model = longest_input(hp);
    int ff = whole_blocks(ff_cols(hp));
    bytes[KT__BUF_X] = n * (size_t)hp->d_model * f;
    bytes[KT__BUF_TMP] = bytes[KT__BUF_X];
    const kt__layer_sizes wide = kt__hparams_widest(hp);
    bytes[KT__BUF_Q] = n * (size_t)hp->n_head * (size_t)wide.head_dim_k * f;
    bytes[KT__BUF_Q_CODES] = p->keys_quantised
                                 ? n * (size_t)hp->n_head * kt__query_code_bytes(wide.head_dim_k)
                                 : 0;
    bytes[KT__BUF_ATTN] = n * (size_t)kt__hparams_mixed(hp) * f;
    bytes[KT__BUF_FF] = (n < KT__GLU_ROWWISE ? n : KT__GLU_ROWWISE) * (size_t)ff_cols(hp) * f;
    bool both = hp->features & (KT__F_SUB_NORMS | KT__F_STREAMS);
    bool whole = both || hp->features & KT__F_PLAIN_FF;
    if (whole) bytes[KT__BUF_FF] = n * (size_t)ff_cols(hp) * f;
    bytes[KT__BUF_CS] = n * (size_t)(hp->rope.n_rot + 1) * f;
    bytes[KT__BUF_CS_LOCAL] = n * (size_t)(hp->rope.local_n_rot + 1) * f;
    bytes[KT__BUF_UP] = both ? bytes[KT__BUF_FF] : 0;
    bytes[KT__BUF_STREAMS] = bytes[KT__BUF_X] * (size_t)hp->n_stream;
    bytes[KT__BUF_ROUTES] = n * (size_t)hp->n_stream * f;
    bytes[KT__BUF_LOW] = hp->n_stream ? bytes[KT__BUF_X] : 0;
    bool branches = hp->features & KT__F_BRANCHES && hp->n_expert;
    bytes[KT__BUF_BRANCH] = branches ? bytes[KT__BUF_X] : 0;
    bytes[KT__BUF_INPUTS] = n * (size_t)(hp->d_layer_input * hp->n_layer) * f;
    bytes[KT__BUF_INPUT_ROWS] = bytes[KT__BUF_INPUTS];
    bytes[KT__BUF_Q_SCALE] = hp->temperature > 0.0f ? n * f : 0;
    bool rows = hp->features & KT__F_QK_NORM_ROWS;
    bytes[KT__BUF_Q_ROWS] = rows || hp->features & KT__F_DELTA ? bytes[KT__BUF_Q] : 0;
    bytes[KT__BUF_K_ROWS] = rows ? n * (size_t)hp->n_head_kv * (size_t)hp->head_dim_k * f : 0;
    bytes[KT__BUF_V_ROWS] = bytes[KT__BUF_LATENT] = 0;
    plan_recurrent(net, n, bytes);
    plan_latent(hp, n, bytes);
    plan_proposals(hp, p, bytes);
    bytes[KT__BUF_LORA_U] = n * KT__LORA_U_MAX * f;
    bytes[KT__BUF_LOGITS] = (size_t)p->n_out_max * (size_t)hp->n_vocab * f;
    uint64_t sum = 0;
    for (int kind = 0; kind < KT__ACT_COUNT; kind++) {
        bytes[KT__BUF_ACT0 + kind] = n * act_bytes(hp, (kt__act_kind)kind, model);
        bytes[KT__BUF_FF_ACT0 + kind] = n * kt__act_layout_of((kt__act_kind)kind, ff).row_bytes;
    }
    for (int i = 0; i < KT__BUF_COUNT; i++) sum += bytes[i];
    return sum;
}

uint64_t kt__fwd_plan_bytes(const kt__net *net, const kt__fwd_params *params) {
    size_t bytes[KT__BUF_COUNT];
    return plan_buffers(net, params, bytes) + kt__experts_plan_bytes(net, params->n_tok_max);
}

static kt_status map_buffers(kt__fwd *fwd, kt_error *err) {
    (void)plan_buffers(fwd->net, &fwd->params, fwd->buf_bytes);
    for (int i = 0; i < KT__BUF_COUNT; i++) {
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
        .local = {hp->local.head_dim_k, hp->local.head_dim_v, hp->n_head, hp->local.n_head_kv},
        .n_ctx = params->n_ctx,
        .plain_attention = params->plain_attention,
        .expert_cols = hp->n_expert ? whole_blocks(hp->d_model) : 0,
        .slot_floats = hp->n_expert_used *
                       (hp->d_ff_expert > hp->d_model ? hp->d_ff_expert : hp->d_model),
        .state_dim = hp->state_dim,
        .split = params->split,
    };
    KT__TRY(kt__dev_create(pool, kernels, params->exact, params->blas, &limits, &fwd->dev, err));
    fwd->ops = kt__dev_ops(fwd->dev);
    KT__TRY(map_buffers(fwd, err));
    KT__TRY(
        kt__experts_create(net, fwd->dev, params->experts, params->n_tok_max, &fwd->experts, err));
    kt__fwd_gpu_open(fwd, &limits);
    fwd->head_lora = kt__arena_calloc(&fwd->arena, (size_t)params->n_tok_max,
                                      sizeof *fwd->head_lora);
    fwd->table_ids = kt__arena_calloc(&fwd->arena, (size_t)params->n_tok_max,
                                      sizeof *fwd->table_ids);
    fwd->plain_ids = kt__arena_calloc(&fwd->arena, (size_t)params->n_tok_max,
                                      sizeof *fwd->plain_ids);
    if (!fwd->head_lora || !fwd->table_ids || !fwd->plain_ids) {
        status = kt__fail_nomem(err, "the adapters' rows", 0);
        goto out;
    }
    for (int i = 0; i < hp->n_layer; i++) fwd->has_local |= net->layers[i].local;
    for (int i = 0; i < 2 && params->host; i++) fwd->host_kv[i] = kt__net_last_kv(params->host, i);
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
    kt__fwd_gpu_close(fwd);
    for (int i = 0; i < KT__BUF_COUNT; i++) kt__pages_free(fwd->buf[i], fwd->buf_bytes[i]);
    kt__experts_destroy(fwd->experts);
    kt__dev_destroy(fwd->dev);
    kt__arena_free(&fwd->arena);
    kt__free(fwd);
}

float *kt__fwd_logits(const kt__fwd *fwd, int i) {
    return kt__fwd_f32(fwd, KT__BUF_LOGITS) + (size_t)i * (size_t)fwd->net->hp.n_vocab;
}

const float *kt__fwd_state(const kt__fwd *fwd, int row) {
    return kt__mtp_states(fwd) + (size_t)row * (size_t)fwd->net->hp.d_model;
}

/* The head's rows stay where it took them from: nothing after it uses that buffer. */
const float *kt__fwd_hidden(const kt__fwd *fwd, int i) {
    if (fwd->params.host)
        return kt__fwd_f32(fwd, KT__BUF_PROPOSED) + (size_t)i * (size_t)fwd->net->hp.d_host;
    return kt__fwd_f32(fwd, KT__BUF_TMP) + (size_t)i * (size_t)fwd->net->hp.d_model;
}

const kt__batch *kt__fwd_batch(const kt__fwd *fwd) {
    return &fwd->batch;
}

void kt__fwd_set_profile(kt__fwd *fwd, kt__profile *profile) {
    fwd->profile = profile;
}

/* Any token's row is as good where the row is given. */
static void replace_given_ids(kt__fwd *fwd) {
    kt__batch *b = &fwd->batch;
    if (!b->n_given) return;
    memcpy(fwd->plain_ids, b->ids, (size_t)b->n_tok * sizeof *fwd->plain_ids);
    for (int i = 0; i < b->n_given; i++)
        for (int t = 0; t < b->given[i].n_tok; t++) fwd->plain_ids[b->given[i].row0 + t] = 0;
    b->ids = fwd->plain_ids;
}

void kt__fwd_begin(kt__fwd *fwd, const kt__batch *batch, const kt__kv *kv, int n_threads) {
    fwd->batch = *batch;
    replace_given_ids(fwd);
    fwd->kv = kv;
    fwd->lora = (kt__lora_terms){
        .rows = batch->lora, .n_rows = batch->n_lora, .u = kt__fwd_f32(fwd, KT__BUF_LORA_U)};
    fwd->layer = -1;
    fwd->part = KT__PART_INPUT;
    fwd->ops = kt__dev_ops(fwd->dev);
    fwd->gpu_off = fwd->gpu && kt__gpu_is_lost(fwd->params.device->gpu);
    memset(fwd->part_us, 0, sizeof fwd->part_us);
    memset(fwd->part_sum_us, 0, sizeof fwd->part_sum_us);
    memset(fwd->n_timed, 0, sizeof fwd->n_timed);
    kt__dev_set_threads(fwd->dev, n_threads);
}

static void put_given(kt__fwd *fwd) {
    size_t d = (size_t)fwd->net->hp.d_model;
    for (int i = 0; i < fwd->batch.n_given; i++) {
        const kt__given *g = &fwd->batch.given[i];
        for (int t = 0; t < g->n_tok; t++)
            memcpy(kt__fwd_f32(fwd, KT__BUF_X) + (size_t)(g->row0 + t) * d,
                   g->x + (size_t)t * d * (size_t)(1 + g->n_deep), d * sizeof *g->x);
    }
}

/* After a layer: what its rows are given besides (Meng et al. 2024, DeepStack). */
static void add_given(kt__fwd *fwd, int layer) {
    int d = fwd->net->hp.d_model;
    for (int i = 0; i < fwd->batch.n_given; i++) {
        const kt__given *g = &fwd->batch.given[i];
        if (layer >= g->n_deep) continue;
        fwd->ops->add(fwd->dev, g->x + (size_t)(1 + layer) * (size_t)d, d * (1 + g->n_deep),
                      g->n_tok, d, kt__fwd_f32(fwd, KT__BUF_X) + (size_t)g->row0 * (size_t)d);
    }
}

static kt_status embed_batch(kt__fwd *fwd, kt_error *err) {
    const kt__hparams *hp = &fwd->net->hp;
    fwd->ops->embed(fwd->dev, &fwd->net->embed, fwd->batch.ids, fwd->batch.n_tok, hp->embed_scale,
                    kt__fwd_f32(fwd, KT__BUF_X));
    if (hp->features &
        (KT__F_LAYER_NORMS | KT__F_EMBED_NORM)) /* the next norm looks whether it is finite */
        (void)kt__encoder_embed(fwd->dev, &fwd->net->tables, fwd->batch.segs, fwd->batch.n_seg,
                                hp->norm_eps, fwd->batch.n_tok, hp->d_model, fwd->table_ids,
                                kt__fwd_f32(fwd, KT__BUF_TMP), kt__fwd_f32(fwd, KT__BUF_X));
    put_given(fwd);
    kt__fwd_rotate(fwd);
    kt_status status = hp->d_layer_input ? kt__layer_inputs_make(fwd, err) : KT_OK;
    if (hp->n_stream) kt__streams_make(fwd);
    return status;
}

/* The head, and after it what proposals need. */
static kt_status run_end(kt__fwd *fwd, kt_error *err) {
    const kt__net *net = fwd->net;
    const kt__head head = {net->out_norm, &net->head, net->head_bias};
    kt_status status = KT_OK;
    if (fwd->layer == net->hp.n_layer) {
        status = kt__head_run(fwd, &head, err);
        kt__fwd_lap(fwd, KT_PROFILE_HEAD);
    } else {
        kt__mtp_states_make(fwd);
        if (fwd->params.mtp) kt__mtp_fill(fwd);
    }
    fwd->layer++;
    return status;
}

/* The next part of a layer, the embedding, or the head; moves the cursor. */
static kt_status run_next_part(kt__fwd *fwd, kt_error *err) {
    if (fwd->layer < 0) {
        kt_status embedded = embed_batch(fwd, err);
        kt__fwd_lap(fwd, KT_PROFILE_EMBED);
        fwd->layer++;
        return embedded;
    }
    if (fwd->layer >= fwd->net->hp.n_layer) return run_end(fwd, err);
    kt__profile_layer(fwd->profile, fwd->layer + 1);
    kt__fwd_gpu_choose(fwd, false);
    kt_status status = kt__layer_step(fwd, &fwd->net->layers[fwd->layer], fwd->part, err);
    kt__profile_layer(fwd->profile, 0);
    if (++fwd->part == KT__PARTS) {
        fwd->part = KT__PART_INPUT;
        if (status == KT_OK) add_given(fwd, fwd->layer);
        fwd->layer++;
    }
    return status;
}

kt_status kt__fwd_run_layer(kt__fwd *fwd, int layer, float *x, kt_error *err) {
    size_t bytes = (size_t)fwd->batch.n_tok * kt__net_row_floats(fwd->net) * sizeof *x;
    kt__fwd_buf rows = fwd->net->hp.n_stream ? KT__BUF_STREAMS : KT__BUF_X;
    fwd->gpu_off = true;
    kt_status status = embed_batch(fwd, err); /* and the rotation of these positions */
    if (layer >= 0 && status == KT_OK) {
        memcpy(fwd->buf[rows], x, bytes);
        fwd->layer = layer;
        do status = run_next_part(fwd, err);
        while (status == KT_OK && fwd->part != KT__PART_INPUT);
    }
    memcpy(x, fwd->buf[rows], bytes);
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

/* After a part: what a graphics processor has computed is needed now, or the processor may fail on it. */
static bool needs_rows(const kt__fwd *fwd, bool timed, kt_status status) {
    if (!fwd->gpu_recorded) return false;
    return timed || status != KT_OK || !is_within_layers(fwd) ||
           !fwd->params.device->has[fwd->layer];
}

/* The next part; *lost: what a graphics processor made of this batch is. */
static kt_status run_next_settled(kt__fwd *fwd, bool timed, bool *lost, kt_error *err) {
    kt_status status = run_next_part(fwd, err);
    *lost = needs_rows(fwd, timed, status) && !kt__fwd_gpu_settle(fwd);
    return status;
}

static kt_status run_next_part_timed(kt__fwd *fwd, int64_t *now_us, bool *lost, kt_error *err) {
    bool in_layer = is_within_layers(fwd);
    kt__layer_part part = fwd->part;
    kt_status status = run_next_settled(fwd, true, lost, err);
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
    for (int p = 0; p < KT__PARTS; p++) {
        int64_t us = fwd->n_timed[p] ? fwd->part_sum_us[p] / fwd->n_timed[p] : 0;
        if (us > longest) longest = us;
    }
    return longest;
}

int64_t kt__fwd_take_lora_ns(kt__fwd *fwd) {
    return kt__dev_take_lora_ns(fwd->dev);
}

/* What happens before a part. */
typedef enum next_step { STEP_GO, STEP_PAUSE, STEP_CANCEL } next_step;

/* any: of this run a part is done. now_us: 0 without a deadline */
static next_step step_here(const kt__fwd *fwd, const kt__stop_at *stop, bool any, int64_t now_us) {
    int64_t next_us = is_within_layers(fwd) ? fwd->part_us[fwd->part] : 0;
    if (is_cancelled(stop)) return STEP_CANCEL;
    if (!any) return STEP_GO;
    if (stop->pause && atomic_load_explicit(stop->pause, memory_order_relaxed)) return STEP_PAUSE;
    bool late = stop->deadline_us != INT64_MAX && now_us + next_us > stop->deadline_us;
    return late ? STEP_PAUSE : STEP_GO;
}

/* The same in every process: process 0 decides. */
static next_step step_of_all(const kt__fwd *fwd, const kt__stop_at *stop, next_step here) {
    int32_t step = here;
    if (!stop->agreed || fwd->part != KT__PART_INPUT) return STEP_GO;
    kt__peers_broadcast(fwd->params.split->peers, &step, sizeof step);
    return step == STEP_PAUSE || step == STEP_CANCEL ? (next_step)step : STEP_GO;
}

/* The batch from its begin on, by the processor. */
static void begin_again(kt__fwd *fwd) {
    fwd->layer = -1;
    fwd->part = KT__PART_INPUT;
}

static kt_status run_until(kt__fwd *fwd, const kt__stop_at *stop, bool *done, kt_error *err) {
    bool timed = stop->deadline_us != INT64_MAX, any = false;
    int64_t now_us = timed ? kt__now_us() : 0;
    int last = fwd->net->hp.n_layer + (fwd->params.mtp || fwd->params.states);
    for (; fwd->layer <= last; any = true) {
        next_step step = step_here(fwd, stop, any, now_us);
        if (fwd->params.split) step = step_of_all(fwd, stop, step);
        if (step == STEP_CANCEL) return kt__fail(err, KT_E_CANCELLED, "cancelled");
        if (step == STEP_PAUSE) return KT_OK;
        bool lost;
        kt_status status = timed ? run_next_part_timed(fwd, &now_us, &lost, err)
                                 : run_next_settled(fwd, false, &lost, err);
        if (lost)
            begin_again(fwd);
        else if (status != KT_OK)
            return status;
    }
    *done = true;
    return KT_OK;
}

kt_status kt__fwd_run(kt__fwd *fwd, const kt__stop_at *stop, bool *done, kt_error *err) {
    *done = fwd->batch.mtp || fwd->params.host;
    if (fwd->params.host) return kt__assistant_run(fwd, err);
    if (fwd->batch.mtp) return kt__mtp_run(fwd, err);
    kt_status status = run_until(fwd, stop, done, err);
    if (!kt__fwd_gpu_settle(fwd) && status == KT_OK) begin_again(fwd); /* of a pause */
    return status;
}
