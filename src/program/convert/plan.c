#include "convert/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "convert/config.h"
#include "convert/planned.h"

/* ---- the table ---- */

enum { MAY = 0, MUST = 1 };
/* In the table, NAME for KT__HF_NAME. */
__extension__ enum {
#define ARCH(name, arch_name) name = KT__HF_##name,
#define GROUP(name, set) name = KT__HF_##name,
#include "convert/archs.def"
};
static const map_row map[] = {
#define X(from, to, archs, rows, cols, change, need) \
    {from, to, archs, DIM_##rows, DIM_##cols, KT__CHANGE_##change, need},
#include "convert/tensors.def"
#undef X
};
enum { N_MAP = sizeof map / sizeof *map };

/* The parts of a model that sees or hears, and buffers that old writers stored. */
static const char *const other_parts[] = {
    "vision_tower.", "multi_modal_projector.", "vision_model.", "audio_tower.",    "visual.",
    "mtp.",          "embed_vision.",          "embed_audio.",  "vision_embedder."};
static const char *const buffers[] = {"inv_freq",       "original_inv_freq",
                                      "cos_cached",     "sin_cached",
                                      "attention.bias", "masked_bias",
                                      "position_ids",   "token_type_ids",
                                      "_extra_state",   "masked_embedding.centroids.weight"};
enum {
    N_PARTS = sizeof other_parts / sizeof *other_parts,
    N_BUFFERS = sizeof buffers / sizeof *buffers
};

static plan_sizes sizes_of(const kt__hf_config *c, int64_t layer) {
    kt__hf_layer of = kt__hf_layer_of(c, layer);
    return (plan_sizes){.d_layer_input = c->d_layer_input,
                        .d_host = c->d_host,
                        .n_stream = c->n_stream,
                        .d_low = c->d_low,
                        .step_rank = c->step_rank,
                        .q_rank = c->q_rank,
                        .kv_rank = c->kv_rank,
                        .head_dim_k_full = c->nope_dim + c->rope_dim,
                        .head_dim_v_full = c->value_dim,
                        .d_model = c->d_model,
                        .d_ff = of.d_ff,
                        .n_head = c->n_head,
                        .n_head_kv = of.n_head_kv,
                        .head_dim_k = of.head_dim,
                        .head_dim_v = of.head_dim,
                        .n_expert = c->n_expert,
                        .d_ff_expert = c->d_ff_expert == KT__HF_NONE ? c->d_ff : c->d_ff_expert,
                        .d_ff_shared = c->d_ff_shared,
                        .conv_width = c->conv_width,
                        .n_state_key = c->n_state_key,
                        .n_state_value = c->n_state_value,
                        .state_dim = c->state_dim,
                        .state_rows = kt__hf_state_rows(c)};
}

/* ---- finding ---- */

static bool begins_with(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

/* "layers.3.x" to "layers.x" and 3; a name without a layer stays. */
static void without_folder_layer(const char *name, char *out, size_t size, int *layer) {
    int n = 0;
    *layer = 0;
    if (sscanf(name, "layers.%9d.%n", layer, &n) == 1 && n > 0 && *layer >= 0)
        snprintf(out, size, "layers.%s", name + n);
    else
        snprintf(out, size, "%s", name);
}

bool kt__tensor_name_find(const char *name, kt__hf_archs arch, char *to, size_t size,
                          kt__change *change) {
    char bare[MAX_NAME];
    int layer;
    without_folder_layer(name + kt__plan_prefix_len(name), bare, sizeof bare, &layer);
    for (int i = 0; i < N_MAP; i++) {
        if (!(map[i].archs & arch) || strcmp(map[i].from, bare) != 0) continue;
        kt__plan_with_layer(map[i].to, layer, to, size);
        *change = map[i].change;
        return true;
    }
    return false;
}

static const char *embedding_name(const kt__hf_config *c) {
    if (c->arch == KT__HF_MODERN) return "embeddings.tok_embeddings.weight";
    if (c->arch & KT__HF_ENCODERS) return "embeddings.word_embeddings.weight";
    return c->arch & KT__HF_MIXERS ? "embeddings.weight" : "embed_tokens.weight";
}

/* ---- adding ---- */

/* More rows of the embedding than there are tokens are not written. */
static int64_t source_rows(const map_row *row, const kt__st_tensor *t, int64_t n_rows) {
    bool cut = row->rows == DIM_VOCAB && t->n_dims == 2 && t->shape[0] > (uint64_t)n_rows;
    return cut ? (int64_t)t->shape[0] : n_rows;
}

/* ---- one tensor ---- */

static bool is_expert_tensor(const map_row *row) {
    static const char *const parts[] = {"_exps.", "_shexp.", "ffn_gate_inp.", "exp_probs_b."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(row->to, parts[i])) return true;
    return false;
}

static bool is_plain_ff(const map_row *row) {
    return begins_with(row->to, "blk.ffn_gate.") || begins_with(row->to, "blk.ffn_up.") ||
           begins_with(row->to, "blk.ffn_down.");
}

/* Queries in one step or in two, and shared experts that there are not. */
static bool is_of_other_form(const planner *p, const map_row *row) {
    const kt__hf_config *c = p->config;
    if (strstr(row->to, "_shexp.") && c->arch & KT__HF_SHARED_WHOLE) return c->n_shared <= 0;
    if (c->arch == KT__HF_GRANITEHYB && (is_expert_tensor(row) || is_plain_ff(row)))
        return is_expert_tensor(row) != (c->n_expert > 0);
    if (c->arch != KT__HF_DEEPSEEK) return false;
    if (strcmp(row->to, "blk.attn_q.weight") == 0) return c->q_rank != KT__HF_NONE;
    return begins_with(row->to, "blk.attn_q_") && c->q_rank == KT__HF_NONE;
}

/* A head that the class has not, or a table of no rows. */
static bool is_absent(const planner *p, const map_row *row) {
    return (begins_with(row->to, "cls.") && !p->config->ranks) ||
           (row->rows == DIM_TYPES && p->config->n_types == 0) || is_of_other_form(p, row);
}

/* Of layers with one part each: by its letter. */
static bool is_of_other_part(const map_row *row, char part) {
    if (begins_with(row->to, "blk.ssm_")) return part != 'M';
    if (begins_with(row->to, "blk.attn_") && !strstr(row->to, "attn_norm")) return part != '*';
    if (is_expert_tensor(row)) return part != 'E';
    return is_plain_ff(row) && part != '-';
}

/* Of gemma4: experts and inputs of each layer that the model lacks, keys and values that a layer
 * takes from elsewhere. */
static bool is_of_other_kind(const kt__hf_config *c, const map_row *row, int64_t layer) {
    kt__hf_layer of = kt__hf_layer_of(c, layer);
    if (row->rows == DIM_LAYER_INPUT || row->cols == DIM_LAYER_INPUT ||
        row->rows == DIM_LAYER_INPUTS || row->cols == DIM_LAYER_INPUTS ||
        strcmp(row->to, "blk.post_norm.weight") == 0)
        return c->d_layer_input <= 0;
    if (is_expert_tensor(row) || strstr(row->to, "_norm_")) return c->n_expert <= 0;
    if (begins_with(row->to, "blk.attn_k")) return !of.has_keys;
    return begins_with(row->to, "blk.attn_v") && !of.has_values;
}

/* Layers with experts have no plain feed-forward part; those with a state have no attention, and
 * the other way round. */
static bool is_of_other_layers(const planner *p, const map_row *row, int64_t layer) {
    const kt__hf_config *c = p->config;
    if (c->arch & (KT__HF_SOME_EXPERTS | KT__HF_NOMICMOE) &&
        is_expert_tensor(row) == kt__hf_is_dense(c, layer) &&
        (is_expert_tensor(row) || is_plain_ff(row)))
        return true;
    if (c->arch & KT__HF_GEMMA4S) return is_of_other_kind(c, row, layer);
    if (c->arch == KT__HF_MODERN) return layer == 0 && !strcmp(row->to, "blk.attn_norm.weight");
    if (c->arch & KT__HF_NEMOTRONS) return is_of_other_part(row, c->parts[layer]);
    if (!(c->arch & KT__HF_RECURRENT)) return false;
    if (begins_with(row->from, "layers.self_attn.")) return c->recurrent[layer];
    return !c->recurrent[layer] &&
           (begins_with(row->from, "layers.linear_attn.") ||
            begins_with(row->from, "layers.mamba.") || begins_with(row->from, "layers.conv."));
}

/* Of QWEN35MOE: experts' matrices in tensors of their own, or all in one; a folder may have both, in
 * different layers. */
static bool is_of_other_stack(const planner *p, const map_row *row, int64_t layer) {
    char name[MAX_NAME];
    if (p->config->arch != KT__HF_QWEN35MOE || !strstr(row->from, "mlp.experts.")) return false;
    kt__plan_source_name(p->config, "layers.mlp.experts.0.gate_proj.weight", layer, name,
                         sizeof name);
    return kt__plan_has_source(p, name) != (row->change == KT__CHANGE_EACH);
}

/* Where the value heads begin among the rows, and how many rows one has. */
static void set_tiles(const planner *p, const map_row *row, kt__planned *t) {
    const kt__hf_config *c = p->config;
    bool heads = row->rows == DIM_STATE_HEADS || row->cols == DIM_STATE_HEADS;
    t->n_heads = c->n_state_key;
    t->n_tiles = c->n_state_value / c->n_state_key;
    t->head_rows = heads ? 1 : c->state_dim;
    t->tiled_from = row->rows == DIM_CHANNELS ? 2 * c->n_state_key * c->state_dim : 0;
}

static bool is_half_of_rows(kt__change change) {
    return change == KT__CHANGE_TOP || change == KT__CHANGE_BOTTOM;
}

/* What the folder's tensor has more than the one in GGUF: rows before it, or elements between. */
static kt_status check_source(const planner *p, const map_row *row, const kt__st_tensor *source,
                              const kt__shard *shard, kt__planned *t) {
    int64_t rows = source_rows(row, source, t->n_rows), cols = t->n_cols;
    if (row->change == KT__CHANGE_FROM_2) rows += KT__HF_XLMR_FIRST;
    if (kt__plan_is_halved(row->change)) cols *= 2;
    if (is_half_of_rows(row->change)) rows *= 2;
    bool flat_source = row->change == KT__CHANGE_FLAT || row->change == KT__CHANGE_FLAT_DECAY;
    if (flat_source) cols *= rows;
    kt__st_tensor flat = *source; /* a convolution's taps are after a dimension of one */
    if (row->cols == DIM_TAPS && flat.n_dims == 3 && flat.shape[1] == 1) {
        flat.shape[1] = flat.shape[2];
        flat.n_dims = 2;
    }
    KT__STEP(kt__plan_check_dtype(p, source, shard));
    KT__STEP(
        kt__plan_check_shape(p, &flat, shard, rows, cols, row->rows == DIM_ONE || flat_source));
    t->source = kt__plan_source_of(source, shard);
    if (row->change == KT__CHANGE_BOTTOM)
        t->source.begin += (uint64_t)t->n_rows * kt__type_row_bytes(source->type, t->n_cols);
    if (is_half_of_rows(row->change)) t->change = KT__CHANGE_COPY;
    if (row->change == KT__CHANGE_FROM_2) {
        t->source.begin += KT__HF_XLMR_FIRST * kt__type_row_bytes(source->type, t->n_cols);
        t->change = KT__CHANGE_COPY;
    }
    return KT_OK;
}

static kt_status add_mapped(planner *p, const map_row *row, int64_t layer) {
    char from[MAX_NAME];
    const kt__hf_config *c = p->config;
    const kt__st_tensor *source;
    const kt__shard *shard;
    bool vector = row->rows == DIM_ONE;
    if (is_absent(p, row) || is_of_other_layers(p, row, layer) ||
        kt__plan_is_left_of_mtp(p, row, layer) || is_of_other_stack(p, row, layer))
        return KT_OK;
    if (kt__plan_is_ternary(p, row)) return kt__plan_add_ternary(p, row, layer);
    if (row->change == KT__CHANGE_EACH) return kt__plan_add_each(p, row, layer);
    if (kt__plan_is_mxfp4(row->change)) return kt__plan_add_blocks(p, row, layer);
    if (kt__plan_is_stacked(row->change)) return kt__plan_add_stacked(p, row, layer);
    if (row->change == KT__CHANGE_GROUPED_QKV || row->change == KT__CHANGE_GROUPED_GATE)
        return kt__plan_add_grouped(p, row, layer);
    if (row->change == KT__CHANGE_KEYS || row->change == KT__CHANGE_VALUES)
        return kt__plan_add_heads(p, row, layer);
    kt__planned t = {.n_dims = vector || row->rows == DIM_ONE_ROW ? 1 : 2,
                     .n_rows = kt__plan_dim_of(p, row->rows),
                     .n_cols = kt__plan_dim_of(p, row->cols),
                     .change = row->change,
                     .n_heads = row->change == KT__CHANGE_PERM_Q ? c->n_head : c->n_head_kv,
                     .head_rows = c->head_dim};
    if (c->arch & KT__HF_QWEN35S) set_tiles(p, row, &t);
    kt__plan_source_name(c, row->from, layer, from, sizeof from);
    kt__plan_with_layer(row->to, layer, t.name, sizeof t.name);
    KT__STEP(kt__plan_find_source(p, from, &source, &shard));
    bool is_head = strcmp(row->to, "output.weight") == 0;
    if (is_head && !source && p->has_head) /* tied, and scaled otherwise */
        KT__STEP(kt__plan_find_source(p, "embed_tokens.weight", &source, &shard));
    if (!source) {
        if (!row->must) return KT_OK;
        return kt__fail_at(p->err, KT_E_FORMAT, p->folder->shards[0].path, UINT64_MAX,
                           "tensor '%s' is missing", from);
    }
    if (is_head && !p->has_head) return KT_OK;
    t.n_scales_by = kt__hf_scales_of(c, row->to, t.scales_by);
    KT__STEP(check_source(p, row, source, shard, &t));
    t.type = kt__plan_type_of(p, &t);
    return kt__weight_plan_add(p->plan, &t, p->err);
}

static kt_status add_made(planner *p, const char *name, const float *values) {
    kt__planned t = {.type = KT__TYPE_F32,
                     .n_dims = 1,
                     .n_rows = 1,
                     .n_cols = p->config->rope.n_factors,
                     .source = {.fd = -1},
                     .made = values};
    snprintf(t.name, sizeof t.name, "%s", name);
    return kt__weight_plan_add(p->plan, &t, p->err);
}

static kt_status add_rope_factors(planner *p) {
    const kt__hf_rope *rope = &p->config->rope;
    if (rope->kind == KT__HF_ROPE_LLAMA3 || rope->kind == KT__HF_ROPE_PROPORTIONAL)
        KT__STEP(add_made(p, "rope_freqs.weight", rope->factors));
    if (rope->kind == KT__HF_ROPE_LONGROPE) {
        KT__STEP(add_made(p, "rope_factors_long.weight", rope->factors));
        KT__STEP(add_made(p, "rope_factors_short.weight", rope->short_factors));
    }
    return KT_OK;
}

/* ---- what sentence-transformers puts after a model ---- */

static kt_status add_dense_bias(planner *p, size_t i, int64_t n) {
    const kt__st_tensor *b = p->sentence->dense_bias[i];
    const kt__shard *shard = &p->sentence->dense[i].shards[0];
    kt__planned t = {
        .n_dims = 1, .n_rows = 1, .n_cols = n, .type = KT__TYPE_F32, .change = KT__CHANGE_COPY};
    if (!b) return KT_OK;
    snprintf(t.name, sizeof t.name, "dense_%zu.bias", i + 2);
    KT__STEP(kt__plan_check_dtype(p, b, shard));
    KT__STEP(kt__plan_check_shape(p, b, shard, 1, n, true));
    t.source = kt__plan_source_of(b, shard);
    return kt__weight_plan_add(p->plan, &t, p->err);
}

/* One layer, or two with another width between them. */
static kt_status add_dense(planner *p, size_t i) {
    const kt__sentence *s = p->sentence;
    const kt__st_tensor *w = s->dense_weight[i];
    const kt__shard *shard = &s->dense[i].shards[0];
    kt__planned t = {.n_dims = 2, .change = KT__CHANGE_COPY};
    int64_t inner = (int64_t)s->dense_weight[0]->shape[0], d = p->config->d_model;
    if (!(p->config->arch & (KT__HF_ENCODERS | KT__HF_GEMMA_EMB)))
        return kt__fail_at(p->err, KT_E_UNSUPPORTED, shard->path, UINT64_MAX,
                           "a dense layer after the pooling is part of no %s model",
                           p->config->arch_name);
    if (inner < 1 || inner > 1 << 20)
        return kt__fail_at(p->err, KT_E_LIMIT, shard->path, w->begin,
                           "a dense layer of %" PRId64 " features", inner);
    if (s->n_dense == 1 && inner != d)
        return kt__fail_at(p->err, KT_E_UNSUPPORTED, shard->path, w->begin,
                           "one dense layer after the pooling leads to %" PRId64
                           " features, and embeddings have the model's %" PRId64,
                           inner, d);
    t.n_rows = i == 0 && s->n_dense > 1 ? inner : d;
    t.n_cols = i == 0 ? d : inner;
    snprintf(t.name, sizeof t.name, "dense_%zu.weight", i + 2);
    KT__STEP(kt__plan_check_dtype(p, w, shard));
    KT__STEP(kt__plan_check_shape(p, w, shard, t.n_rows, t.n_cols, false));
    t.source = kt__plan_source_of(w, shard);
    t.type = kt__plan_type_of(p, &t);
    KT__STEP(kt__weight_plan_add(p->plan, &t, p->err));
    return add_dense_bias(p, i, t.n_rows);
}

/* The head's rows of the two tokens that are compared, as a classifier: the first label's share of
 * both is the answer. */
static kt_status add_comparison(planner *p) {
    const kt__sentence *s = p->sentence;
    const int64_t ids[2] = {s->yes_id, s->no_id};
    int64_t n = s->no_id >= 0 ? 2 : 1;
    const kt__st_tensor *head;
    const kt__shard *shard;
    kt__planned t = {.name = "cls.output.weight",
                     .type = KT__TYPE_F32,
                     .n_dims = 2,
                     .n_rows = n,
                     .n_cols = p->config->d_model,
                     .part_rows = 1,
                     .change = KT__CHANGE_EACH};
    kt_status status;
    if (p->config->arch & (KT__HF_ENCODERS | KT__HF_GEMMA_EMB) || p->config->ranks)
        return kt__hf_refuse(p->config, "architectures",
                             "modules.json compares tokens, which takes a model "
                             "that answers",
                             p->err);
    KT__TRY(kt__plan_find_source(p, p->has_head ? "lm_head.weight" : embedding_name(p->config),
                                 &head, &shard));
    KT__TRY(kt__plan_check_dtype(p, head, shard));
    if (ids[0] >= p->plan->n_vocab || ids[1] >= p->plan->n_vocab)
        return kt__fail_at(p->err, KT_E_FORMAT, shard->path, head->begin,
                           "modules.json compares tokens that tensor '%.100s' does not have",
                           head->name);
    t.parts = kt__calloc((size_t)n, sizeof *t.parts);
    if (!t.parts) return kt__fail_nomem(p->err, "a plan", (size_t)n * sizeof *t.parts);
    for (int64_t i = 0; i < n; i++) {
        t.parts[i] = kt__plan_source_of(head, shard);
        t.parts[i].begin += (uint64_t)ids[i] * kt__type_row_bytes(head->type, t.n_cols);
    }
    t.source = t.parts[0];
    status = kt__weight_plan_add(p->plan, &t, p->err);
    if (status != KT_OK) kt__free(t.parts);
out:
    return status;
}

static kt_status add_behind(planner *p) {
    const kt__sentence *s = p->sentence;
    for (size_t i = 0; i < s->n_dense; i++) KT__STEP(add_dense(p, i));
    if (s->compares) KT__STEP(add_comparison(p));
    return KT_OK;
}

static bool is_of_layers(const map_row *row) {
    return begins_with(row->to, "blk.");
}

/* Rows of the table outside the layers: those before the first of a layer, or those after it. */
static kt_status add_outside(planner *p, bool before) {
    bool is_before = true;
    for (int i = 0; i < N_MAP; i++) {
        if (is_of_layers(&map[i])) is_before = false;
        if (is_of_layers(&map[i]) || is_before != before) continue;
        if (map[i].archs & p->config->arch) KT__STEP(add_mapped(p, &map[i], 0));
    }
    return KT_OK;
}

static kt_status add_all(planner *p) {
    KT__STEP(add_outside(p, true));
    KT__STEP(add_rope_factors(p));
    for (int64_t layer = 0; layer < p->config->n_layer + p->config->n_mtp; layer++) {
        p->sizes = sizes_of(p->config, layer);
        for (int i = 0; i < N_MAP; i++)
            if (is_of_layers(&map[i]) && map[i].archs & p->config->arch)
                KT__STEP(add_mapped(p, &map[i], layer));
    }
    KT__STEP(add_outside(p, false));
    return add_behind(p);
}

/* ---- the head ---- */

/* A tied model's head is its embedding. Some folders store it anyway, or a finetune has
 * untied it without saying so. */
static kt_status look_at_head(planner *p, const kt__convert_notes *notes) {
    const kt__st_tensor *head, *embed;
    const kt__shard *in_head, *in_embed;
    bool same = false;
    if (p->config->arch & KT__HF_ENCODERS) return KT_OK;
    KT__STEP(kt__plan_find_source(p, "lm_head.weight", &head, &in_head));
    KT__STEP(kt__plan_find_source(p, embedding_name(p->config), &embed, &in_embed));
    p->has_head = head != NULL;
    if (head && embed && p->config->tied) {
        KT__STEP(kt__plan_same_tensors(p, head, in_head, embed, in_embed, &same));
        p->has_head = !same;
        if (!same)
            kt__convert_note(notes, "tie_word_embeddings is true, but lm_head differs from the "
                                    "embedding: it is kept");
    }
    if (p->config->arch == KT__HF_FALCONH1) p->has_head = true; /* multipliers of its own */
    if (!head && !p->config->tied && p->config->pooling == KT__HF_NONE)
        kt__convert_note(notes, "there is no lm_head: the embedding is taken for it");
    return KT_OK;
}

/* ---- what is left ---- */

static bool is_other_part(const char *name) {
    if (begins_with(name, "model.")) name += 6;
    for (int i = 0; i < N_PARTS; i++)
        if (begins_with(name, other_parts[i])) return true;
    return false;
}

/* By the last parts of its name, or since no weight is of its type. */
static bool is_buffer(const kt__st_tensor *t) {
    size_t len = strlen(t->name);
    for (int i = 0; i < N_BUFFERS; i++) {
        size_t tail = strlen(buffers[i]);
        const char *at = t->name + len - tail;
        if (len >= tail && strcmp(at, buffers[i]) == 0 && (len == tail || at[-1] == '.'))
            return true;
    }
    return strcmp(t->dtype, "I64") == 0 || strcmp(t->dtype, "BOOL") == 0;
}

static bool is_tied_head(const planner *p, const char *name) {
    static const char head[] = "lm_head.weight";
    size_t len = strlen(name), n = sizeof head - 1;
    return !p->has_head && len >= n && strcmp(name + len - n, head) == 0;
}

/* BERT's pooled state, where it is not a classifier's. */
static bool is_unused_pooler(const planner *p, const char *name) {
    const char *at = strstr(name, "pooler.dense.");
    return at && p->config->arch & KT__HF_BERTS &&
           !(p->config->arch == KT__HF_BERT && p->config->ranks);
}

/* Keys and values of a layer that takes another's. */
static bool is_shared_key(const planner *p, const char *name) {
    static const char *const parts[] = {"self_attn.k_proj.weight", "self_attn.v_proj.weight",
                                        "self_attn.k_norm.weight"};
    const kt__hf_config *c = p->config;
    int64_t layer = -1;
    int n = 0;
    name += kt__plan_prefix_len(name);
    if (!(c->arch & KT__HF_GEMMA4S) || sscanf(name, "layers.%" SCNd64 ".%n", &layer, &n) != 1 ||
        !n || layer < c->n_layer - c->n_shared_kv || layer >= c->n_layer)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(name + n, parts[i]) == 0) return true;
    return false;
}

/* A vector that is added after the experts of a layer: neither this format nor its other readers
 * have it. */
static bool is_bias_after_experts(const planner *p, const char *name) {
    return p->config->arch == KT__HF_NOMICMOE &&
           kt__ends_with(name, strlen(name), ".mlp.experts.bias");
}

/* Tensors that are not converted, though they have a part in what a model computes. */
typedef struct left_out {
    size_t n_parts, n_biases;
} left_out;

/* Every tensor of a file has a place, or is known to be dropped. */
static kt_status check_shard(const planner *p, const kt__shard *shard, const kt__strmap *placed,
                             left_out *left) {
    for (size_t i = 0; i < shard->st.n; i++) {
        const kt__st_tensor *t = &shard->st.tensors[i];
        if (kt__strmap_get(placed, (kt__str){t->name, strlen(t->name)}) >= 0) continue;
        if (is_buffer(t) || is_tied_head(p, t->name) || is_unused_pooler(p, t->name) ||
            is_shared_key(p, t->name) || kt__plan_is_copy_in_mtp(p, t->name))
            continue;
        if (is_bias_after_experts(p, t->name)) {
            left->n_biases++;
            continue;
        }
        if (!is_other_part(t->name) && !kt__plan_is_next_layer(p, t->name))
            return kt__fail_at(p->err, KT_E_UNSUPPORTED, shard->path, t->begin,
                               "tensor '%.100s' has no place in a %s model of %" PRId64 " layers",
                               t->name, p->config->arch_name, p->config->n_layer);
        left->n_parts++;
    }
    return KT_OK;
}

static int64_t n_parts_of(const kt__planned *t) {
    return t->parts ? t->n_rows / t->part_rows : 1;
}

static kt_status check_left(const planner *p, const kt__convert_notes *notes) {
    kt__strmap placed;
    left_out left = {0};
    kt_status status = KT_OK;
    size_t n_names = 1;
    for (size_t i = 0; i < p->plan->n; i++) n_names += 1 + (size_t)n_parts_of(&p->plan->tensors[i]);
    if (!kt__strmap_init(&placed, n_names)) return kt__fail_nomem(p->err, "names", 0);
    for (size_t i = 0; i < p->plan->n; i++) {
        const char *name = p->plan->tensors[i].source.name;
        if (name) (void)kt__strmap_put(&placed, (kt__str){name, strlen(name)}, 1);
        name = p->plan->tensors[i].scales.name;
        if (name) (void)kt__strmap_put(&placed, (kt__str){name, strlen(name)}, 1);
        for (int64_t e = 1; e < n_parts_of(&p->plan->tensors[i]); e++) {
            name = p->plan->tensors[i].parts[e].name;
            (void)kt__strmap_put(&placed, (kt__str){name, strlen(name)}, 1);
        }
    }
    for (size_t s = 0; s < p->folder->n_shards && status == KT_OK; s++)
        status = check_shard(p, &p->folder->shards[s], &placed, &left);
    if (left.n_biases)
        kt__convert_note(
            notes,
            "the biases after the experts of %zu layers are left out: the %s format has "
            "none",
            left.n_biases, p->config->arch_name);
    if (left.n_parts)
        kt__convert_note(
            notes, "%zu tensors of parts that see, hear or predict further tokens are left out",
            left.n_parts);
    kt__strmap_free(&placed);
    return status;
}

/* ---- the plan ---- */

static const kt__recipe *recipe_of_source(kt__type type) {
    return kt__recipe_find(type == KT__TYPE_BF16 ? "bf16" : type == KT__TYPE_F16 ? "f16" : "f32");
}

static kt_status find_embedding(const planner *p, const kt__st_tensor **out,
                                const kt__shard **shard) {
    const char *name = embedding_name(p->config);
    kt_status status = kt__plan_find_source(p, name, out, shard);
    if (status != KT_OK || (*out && (*out)->n_dims == 2)) return status;
    return kt__fail_at(p->err, KT_E_FORMAT, p->folder->shards[0].path, UINT64_MAX,
                       "there is no matrix '%s'", name);
}

/* Rows that every table of tokens has. */
static kt_status count_rows(const planner *p, const kt__st_tensor *embed, size_t *out) {
    const kt__st_tensor *own = NULL;
    const kt__shard *shard;
    kt_status status = KT_OK;
    *out = (size_t)embed->shape[0];
    if (p->config->arch == KT__HF_GEMMA3N)
        status = kt__plan_find_source(p, "embed_tokens_per_layer.weight", &own, &shard);
    if (own && own->shape[0] < *out) *out = (size_t)own->shape[0];
    return status;
}

kt_status kt__weight_plan_rows(const kt__folder *folder, const kt__hf_config *config, size_t *out,
                               kt_error *err) {
    const planner p = {.folder = folder, .config = config, .err = err};
    const kt__st_tensor *embed;
    const kt__shard *shard;
    *out = 0;
    kt_status status = find_embedding(&p, &embed, &shard);
    if (status == KT_OK) status = count_rows(&p, embed, out);
    return status;
}

/* Rows of the embedding: at least one a token. Gemma 3 keeps rows for images after the tokens;
 * others pad for speed, and the vocabulary is padded up to them. */
static kt_status size_vocab(planner *p, int64_t n_tokens) {
    const kt__st_tensor *embed;
    const kt__shard *shard;
    kt_status status = find_embedding(p, &embed, &shard);
    if (status != KT_OK) return status;
    if (embed->shape[0] < (uint64_t)n_tokens || embed->shape[0] > 1 << 22)
        return kt__fail_at(p->err, KT_E_FORMAT, shard->path, embed->begin,
                           "tensor '%.100s' has %" PRIu64 " rows, the tokenizer %" PRId64
                           " tokens: they do not belong together",
                           embed->name, embed->shape[0], n_tokens);
    bool cut = p->config->arch & (KT__HF_GEMMA3S | KT__HF_GEMMA3N);
    p->plan->n_vocab = cut ? n_tokens : (int64_t)embed->shape[0];
    if (!p->recipe) p->recipe = recipe_of_source(embed->type);
    return KT_OK;
}

/* A classifier has as many labels as its last matrix has rows. */
static kt_status count_labels(planner *p) {
    static const char *const names[] = {"classifier.weight", "classifier.out_proj.weight",
                                        "score.weight"};
    const kt__st_tensor *t;
    const kt__shard *shard;
    for (size_t i = 0; p->config->ranks && i < sizeof names / sizeof *names; i++) {
        KT__STEP(kt__plan_find_source(p, names[i], &t, &shard));
        if (!t || t->n_dims != 2) continue;
        if (t->shape[0] < 1 || t->shape[0] > 256)
            return kt__fail_at(p->err, KT_E_LIMIT, shard->path, t->begin,
                               "tensor '%.100s' has %" PRIu64 " labels; 1 to 256 are supported",
                               t->name, t->shape[0]);
        p->n_labels = (int64_t)t->shape[0];
    }
    return KT_OK;
}

kt_status kt__weight_plan_make(const kt__folder *folder, const kt__hf_config *config,
                               const kt__sentence *sentence, int64_t n_tokens,
                               const kt__recipe *recipe, const kt__convert_notes *notes,
                               kt__weight_plan *out, kt_error *err) {
    planner p = {.folder = folder,
                 .config = config,
                 .recipe = recipe,
                 .plan = out,
                 .sizes = sizes_of(config, 0),
                 .err = err};
    p.as_source = !recipe;
    p.sentence = sentence;
    kt_status status;
    *out = (kt__weight_plan){0};
    if (!kt__prequantised_bitnet_packed(config->text))
        KT__TRY(kt__prequantised_tensors(folder, err));
    KT__TRY(size_vocab(&p, n_tokens));
    out->recipe = p.recipe;
    KT__TRY(look_at_head(&p, notes));
    KT__TRY(kt__plan_look_at_mtp(&p));
    KT__TRY(count_labels(&p));
    KT__TRY(add_all(&p));
    KT__TRY(check_left(&p, notes));
out:
    if (status != KT_OK) kt__weight_plan_free(out);
    return status;
}

/* ---- plan mtp ---- */

static const char embed_to[] = "blk.nextn.embed_tokens.weight";
static const char head_to[] = "blk.nextn.shared_head_head.weight";

/* ---- whether there is one ---- */

/* Its matrix before the layer, which every block has. */
static kt_status find_first(const planner *p, const kt__st_tensor **out) {
    char name[MAX_NAME];
    const kt__shard *shard;
    bool qwen = p->config->arch & KT__HF_DELTAS;
    kt__plan_with_layer(qwen ? "mtp.fc.weight" : "layers.eh_proj.weight", p->config->n_layer, name,
                        sizeof name);
    return kt__plan_find_source(p, name, out, &shard);
}

kt_status kt__plan_find_mtp(const kt__folder *folder, kt__hf_config *config, kt_error *err) {
    const planner p = {.folder = folder, .config = config, .err = err};
    const kt__st_tensor *first = NULL;
    if (!(config->arch & (KT__HF_DELTAS | KT__HF_DEEPSEEK)) || config->n_layer >= KT__HF_MAX_LAYERS)
        return KT_OK;
    KT__STEP(find_first(&p, &first));
    config->n_mtp = first ? 1 : 0;
    return KT_OK;
}

/* ---- its own embeddings and head ---- */

/* Folders store the model's own once more. */
static kt_status is_own(const planner *p, const char *name, const char *of_model, bool *own) {
    char full[MAX_NAME];
    const kt__st_tensor *a, *b;
    const kt__shard *in_a, *in_b;
    bool same = false;
    kt__plan_with_layer(name, p->config->n_layer, full, sizeof full);
    KT__STEP(kt__plan_find_source(p, full, &a, &in_a));
    KT__STEP(kt__plan_find_source(p, of_model, &b, &in_b));
    if (a && b) KT__STEP(kt__plan_same_tensors(p, a, in_a, b, in_b, &same));
    *own = a && !same;
    return KT_OK;
}

kt_status kt__plan_look_at_mtp(planner *p) {
    if (p->config->n_mtp == 0 || p->config->arch != KT__HF_DEEPSEEK) return KT_OK;
    KT__STEP(is_own(p, "layers.embed_tokens.weight", "embed_tokens.weight", &p->mtp_embeds));
    return is_own(p, "layers.shared_head.head.weight",
                  p->has_head ? "lm_head.weight" : "embed_tokens.weight", &p->mtp_ends);
}

bool kt__plan_is_left_of_mtp(const planner *p, const map_row *row, int64_t layer) {
    if (strncmp(row->to, "blk.nextn.", 10) != 0) return false;
    return layer < p->config->n_layer || (strcmp(row->to, embed_to) == 0 && !p->mtp_embeds) ||
           (strcmp(row->to, head_to) == 0 && !p->mtp_ends);
}

bool kt__plan_is_copy_in_mtp(const planner *p, const char *name) {
    int64_t layer = -1;
    int n = 0;
    name += kt__plan_prefix_len(name);
    if (p->config->n_mtp == 0 || sscanf(name, "layers.%" SCNd64 ".%n", &layer, &n) != 1 || !n ||
        layer != p->config->n_layer)
        return false;
    return (strcmp(name + n, "embed_tokens.weight") == 0 && !p->mtp_embeds) ||
           (strcmp(name + n, "shared_head.head.weight") == 0 && !p->mtp_ends);
}

/* ---- what is left out ---- */

bool kt__plan_is_next_layer(const planner *p, const char *name) {
    const json_t *n = kt__hf_config_get(p->config, "num_nextn_predict_layers");
    int64_t layer = 0, more = json_is_integer(n) ? json_integer_value(n) : 0;
    if (sscanf(name, "model.layers.%" SCNd64 ".", &layer) != 1) return false;
    return layer >= p->config->n_layer && layer < p->config->n_layer + more;
}

/* BitNet's matrices, and the factor of each in a tensor of its own: attn_q.scale of attn_q.weight. */

bool kt__plan_is_ternary(const planner *p, const map_row *row) {
    return p->config->arch & KT__HF_BITNETS && row->rows != DIM_ONE &&
           strncmp(row->to, "blk.", 4) == 0;
}

/* U8 with the weights of four rows in one, and the number that they are times or divided by. */
static kt_status find_packed(const planner *p, const kt__st_tensor *source, const kt__shard *shard,
                             kt__planned *t, kt__planned *scale) {
    char name[MAX_NAME];
    const kt__st_tensor *factor;
    const kt__shard *in;
    if (strcmp(source->dtype, "U8") != 0 || t->n_rows % 4 != 0)
        return kt__fail_at(p->err, KT_E_FORMAT, shard->path, source->begin,
                           "tensor '%.100s' is of type %s; U8 with four rows in one is expected",
                           source->name, source->dtype);
    KT__STEP(kt__plan_check_shape(p, source, shard, t->n_rows / 4, t->n_cols, false));
    snprintf(name, sizeof name, "%.*s_scale", MAX_NAME - 8, source->name);
    factor = kt__folder_find(p->folder, name, &in);
    if (!factor)
        return kt__fail_at(p->err, KT_E_FORMAT, shard->path, source->begin,
                           "tensor '%.100s' is missing", name);
    KT__STEP(kt__plan_check_dtype(p, factor, in));
    KT__STEP(kt__plan_check_shape(p, factor, in, 1, 1, true));
    const kt__weight_source at = kt__plan_source_of(factor, in);
    uint32_t raw;
    KT__STEP(kt__weight_read(&at, 0, &raw, kt__type_row_bytes(factor->type, 1), p->err));
    kt__dequantize_row(factor->type, &raw, 1, &scale->factor);
    if (!(scale->factor > 1e-20f && scale->factor < 1e20f))
        return kt__fail_at(p->err, KT_E_NUMERIC, in->path, factor->begin,
                           "tensor '%.100s' is %g, and no weights are times that", name,
                           (double)scale->factor);
    if (!kt__prequantised_bitnet_multiplies(p->config->text)) scale->factor = 1.0f / scale->factor;
    scale->source.name = factor->name;
    t->change = KT__CHANGE_PACKED;
    t->source = kt__plan_source_of(source, shard);
    t->source.type = KT__TYPE_F32; /* once it is unpacked */
    return KT_OK;
}

static kt_status find_floats(const planner *p, const kt__st_tensor *source, const kt__shard *shard,
                             kt__planned *t, kt__planned *scale) {
    KT__STEP(kt__plan_check_dtype(p, source, shard));
    KT__STEP(kt__plan_check_shape(p, source, shard, t->n_rows, t->n_cols, false));
    t->change = KT__CHANGE_TERNARY;
    t->source = kt__plan_source_of(source, shard);
    KT__STEP(kt__ternary_mean(&t->source, t->n_rows * t->n_cols, &t->factor, p->err));
    scale->factor = t->factor;
    return KT_OK;
}

kt_status kt__plan_add_ternary(planner *p, const map_row *row, int64_t layer) {
    char from[MAX_NAME];
    const kt__st_tensor *source;
    const kt__shard *shard;
    kt__planned t = {.n_dims = 2,
                     .n_rows = kt__plan_dim_of(p, row->rows),
                     .n_cols = kt__plan_dim_of(p, row->cols)};
    kt__planned scale = {
        .n_dims = 1, .n_rows = 1, .n_cols = 1, .type = KT__TYPE_F32, .source = {.fd = -1}};
    kt__plan_source_name(p->config, row->from, layer, from, sizeof from);
    kt__plan_with_layer(row->to, layer, t.name, sizeof t.name);
    snprintf(scale.name, sizeof scale.name, "%.*s.scale", (int)(strlen(t.name) - strlen(".weight")),
             t.name);
    KT__STEP(kt__plan_find_source(p, from, &source, &shard));
    if (!source)
        return kt__fail_at(p->err, KT_E_FORMAT, p->folder->shards[0].path, UINT64_MAX,
                           "tensor '%s' is missing", from);
    if (kt__prequantised_bitnet_packed(p->config->text))
        KT__STEP(find_packed(p, source, shard, &t, &scale));
    else
        KT__STEP(find_floats(p, source, shard, &t, &scale));
    t.type = kt__plan_type_of(p, &t);
    KT__STEP(kt__weight_plan_add(p->plan, &t, p->err));
    return kt__weight_plan_add(p->plan, &scale, p->err);
}
