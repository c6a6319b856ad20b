/* Tensors by their names in a folder, and those made of several of them or of parts of one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "convert/plan.h"
#include "convert/planned.h"

/* ---- finding and checking ---- */

/* Before the names of the table; the longest first. */
static const char *const prefixes[] = {"model.language_model.",
                                       "language_model.model.",
                                       "language_model.",
                                       "model.",
                                       "backbone.",
                                       "bert.",
                                       "roberta.",
                                       ""};
enum { N_PREFIXES = sizeof prefixes / sizeof *prefixes };

int64_t kt__plan_dim_of(const planner *p, plan_dim dim) {
    plan_sizes sizes = p->sizes;
    const plan_sizes *hp = &sizes, *of = hp;
    sizes.n_vocab = p->plan->n_vocab;
    switch (dim) {
#define X(name, value, form) \
    case DIM_##name:         \
        return value;
#include "model/dims.def"
#undef X
    case DIM_CTX: return p->config->n_ctx;
    case DIM_TYPES: return p->config->n_types;
    case DIM_LABELS: return p->n_labels;
    case DIM_ONE_ROW: return 1;
    case DIM_LAYER_INPUTS: return p->config->n_layer * p->config->d_layer_input;
    }
    return 1;
}

/* After which a layer's number is. */
static const char *const numbered[] = {"layers.", "blk.", "encoder.layer.", "encoder.layers."};

void kt__plan_with_layer(const char *name, int64_t layer, char *out, size_t size) {
    for (size_t i = 0; i < sizeof numbered / sizeof *numbered; i++) {
        size_t n = strlen(numbered[i]);
        if (strncmp(name, numbered[i], n) != 0) continue;
        snprintf(out, size, "%s%" PRId64 ".%s", numbered[i], layer, name + n);
        return;
    }
    snprintf(out, size, "%s", name);
}

void kt__plan_source_name(const kt__hf_config *c, const char *from, int64_t layer, char *out,
                          size_t size) {
    static const char layers[] = "layers.";
    size_t n = sizeof layers - 1;
    bool own = c->arch & KT__HF_DELTAS && layer >= c->n_layer && strncmp(from, layers, n) == 0;
    if (own)
        snprintf(out, size, "mtp.layers.%" PRId64 ".%s", layer - c->n_layer, from + n);
    else
        kt__plan_with_layer(from, layer, out, size);
}

size_t kt__plan_prefix_len(const char *name) {
    int k = 0;
    while (strncmp(name, prefixes[k], strlen(prefixes[k])) != 0) k++; /* the last is empty */
    return strlen(prefixes[k]);
}

static kt_status find_named(const planner *p, const char *name, const kt__st_tensor **out,
                            const kt__shard **shard) {
    *out = NULL;
    for (int i = 0; i < N_PREFIXES; i++) {
        char full[MAX_NAME];
        const kt__shard *in;
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        const kt__st_tensor *t = kt__folder_find(p->folder, full, &in);
        if (!t) continue;
        if (*out)
            return kt__fail_at(p->err, KT_E_FORMAT, in->path, t->begin,
                               "tensor '%.100s' is the same as '%.100s'", t->name, (*out)->name);
        *out = t;
        *shard = in;
    }
    return KT_OK;
}

/* A tied model has one matrix for both, which some folders store as its head alone. */
kt_status kt__plan_find_source(const planner *p, const char *name, const kt__st_tensor **out,
                               const kt__shard **shard) {
    kt_status status = find_named(p, name, out, shard);
    bool as_head = p->config->tied && strcmp(name, "embed_tokens.weight") == 0;
    if (status != KT_OK || *out || !as_head) return status;
    return find_named(p, "lm_head.weight", out, shard);
}

bool kt__plan_has_source(const planner *p, const char *name) {
    char full[MAX_NAME];
    const kt__shard *in;
    for (int i = 0; i < N_PREFIXES; i++) {
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        if (kt__folder_find(p->folder, full, &in)) return true;
    }
    return false;
}

kt_status kt__plan_same_tensors(const planner *p, const kt__st_tensor *a, const kt__shard *in_a,
                                const kt__st_tensor *b, const kt__shard *in_b, bool *same) {
    if ((*same = a == b)) return KT_OK;
    const kt__weight_source x = kt__plan_source_of(a, in_a), y = kt__plan_source_of(b, in_b);
    *same = a->type == b->type && a->end - a->begin == b->end - b->begin;
    return *same ? kt__weight_same_bytes(&x, &y, a->end - a->begin, same, p->err) : KT_OK;
}

/* ---- shapes and types ---- */

void kt__plan_show_shape(const kt__st_tensor *t, char got[120]) {
    size_t at = 0;
    got[0] = '\0';
    for (uint32_t d = 0; d < t->n_dims && at < 120; d++)
        at += (size_t)snprintf(got + at, 120 - at, "%s%" PRIu64, d ? ", " : "", t->shape[d]);
}

kt_status kt__plan_check_shape(const planner *p, const kt__st_tensor *t, const kt__shard *shard,
                               int64_t rows, int64_t cols, bool vector) {
    bool good = vector ? t->n_dims == 1 && t->shape[0] == (uint64_t)cols
                       : t->n_dims == 2 && t->shape[0] == (uint64_t)rows &&
                             t->shape[1] == (uint64_t)cols;
    if (good) return KT_OK;
    char got[120];
    kt__plan_show_shape(t, got);
    if (vector)
        return kt__fail_at(p->err, KT_E_FORMAT, shard->path, t->begin,
                           "tensor '%.100s' is of shape [%s]; by config.json it is [%" PRId64 "]",
                           t->name, got, cols);
    return kt__fail_at(p->err, KT_E_FORMAT, shard->path, t->begin,
                       "tensor '%.100s' is of shape [%s]; by config.json it is [%" PRId64
                       ", %" PRId64 "]",
                       t->name, got, rows, cols);
}

kt_status kt__plan_check_dtype(const planner *p, const kt__st_tensor *t, const kt__shard *shard) {
    if (t->type != KT__TYPE_COUNT) return KT_OK;
    return kt__fail_at(p->err, KT_E_UNSUPPORTED, shard->path, t->begin,
                       "tensor '%.100s' is of type %s; BF16, F16 and F32 can be converted: take "
                       "the model's original weights",
                       t->name, t->dtype);
}

kt__weight_source kt__plan_source_of(const kt__st_tensor *t, const kt__shard *shard) {
    return (kt__weight_source){shard->path, t->name, shard->fd, t->begin, t->type};
}

kt__type kt__plan_type_of(const planner *p, const kt__planned *t) {
    const kt__hf_config *c = p->config;
    const kt__recipe_model model = {(int)c->n_layer, (int)c->n_head, (int)c->n_head_kv,
                                    !p->has_head};
    int layer;
    kt__tensor_role role = kt__tensor_role_of(t->name, &layer);
    return kt__recipe_type(p->recipe, &model, role, layer, t->n_cols);
}

/* ---- several ---- */

/* The tensor of one expert, whose number means the * of the name. */
static kt_status find_part(const planner *p, const char *name, int64_t expert, kt__planned *t) {
    char from[MAX_NAME];
    const kt__st_tensor *source;
    const kt__shard *shard;
    const char *star = strchr(name, '*');
    snprintf(from, sizeof from, "%.*s%" PRId64 "%s", (int)(star - name), name, expert, star + 1);
    KT__STEP(kt__plan_find_source(p, from, &source, &shard));
    if (!source)
        return kt__fail_at(p->err, KT_E_FORMAT, p->folder->shards[0].path, UINT64_MAX,
                           "tensor '%s' is missing", from);
    KT__STEP(kt__plan_check_dtype(p, source, shard));
    KT__STEP(kt__plan_check_shape(p, source, shard, t->part_rows, t->n_cols, false));
    if (expert > 0 && source->type != t->parts[0].type)
        return kt__fail_at(p->err, KT_E_UNSUPPORTED, shard->path, source->begin,
                           "tensor '%.100s' is of another type than that of expert 0",
                           source->name);
    t->parts[expert] = kt__plan_source_of(source, shard);
    return KT_OK;
}

/* One tensor of those of all experts, or of all streams but the first. */
kt_status kt__plan_add_each(planner *p, const map_row *row, int64_t layer) {
    char from[MAX_NAME];
    int64_t n = p->config->arch == KT__HF_GEMMA3N ? p->config->n_stream - 1 : p->config->n_expert;
    kt_status status = KT_OK;
    kt__planned t = {.n_dims = 3,
                     .n_rows = n * kt__plan_dim_of(p, row->rows),
                     .n_cols = kt__plan_dim_of(p, row->cols),
                     .part_rows = kt__plan_dim_of(p, row->rows),
                     .change = row->change};
    kt__plan_source_name(p->config, row->from, layer, from, sizeof from);
    kt__plan_with_layer(row->to, layer, t.name, sizeof t.name);
    for (int d = 0; d < KT__GGUF_MAX_DIMS; d++) t.ne[d] = 1;
    t.ne[0] = (uint64_t)t.n_cols;
    t.ne[1] = (uint64_t)t.part_rows;
    t.ne[2] = (uint64_t)n;
    t.parts = kt__calloc((size_t)n, sizeof *t.parts);
    if (!t.parts) return kt__fail_nomem(p->err, "a plan", (size_t)n * sizeof *t.parts);
    for (int64_t e = 0; e < n && status == KT_OK; e++) status = find_part(p, from, e, &t);
    t.source = t.parts[0];
    t.type = kt__plan_type_of(p, &t);
    if (status == KT_OK) status = kt__weight_plan_add(p->plan, &t, p->err);
    if (status != KT_OK) kt__free(t.parts);
    return status;
}

/* ---- all experts in one tensor ---- */

static bool is_half_of_stack(kt__change change) {
    return change == KT__CHANGE_LOW || change == KT__CHANGE_HIGH ||
           change == KT__CHANGE_TURNED_LOW || change == KT__CHANGE_TURNED_HIGH;
}

static bool is_turned_stack(kt__change change) {
    return change == KT__CHANGE_TURNED_WHOLE || change == KT__CHANGE_TURNED_LOW ||
           change == KT__CHANGE_TURNED_HIGH;
}

bool kt__plan_is_stacked(kt__change change) {
    return change == KT__CHANGE_WHOLE || is_half_of_stack(change) || is_turned_stack(change);
}

/* Each expert's rows, or half of them, as a part; of a transposed matrix its columns. */
static void cut_parts(const kt__st_tensor *source, const kt__shard *shard, kt__planned *t) {
    bool half = is_half_of_stack(t->change), turned = is_turned_stack(t->change);
    uint64_t rows = (uint64_t)t->part_rows, step = half ? 2 * rows : rows;
    size_t row = kt__type_row_bytes(source->type, t->n_cols);
    bool high = t->change == KT__CHANGE_HIGH || t->change == KT__CHANGE_TURNED_HIGH;
    uint64_t skip = high ? rows * (turned ? kt__type_row_bytes(source->type, 1) : row) : 0;
    for (uint64_t e = 0; e < t->ne[2]; e++) {
        t->parts[e] = kt__plan_source_of(source, shard);
        t->parts[e].begin += e * step * row + skip;
    }
    t->source = t->parts[0];
}

static kt_status check_stack(const planner *p, const kt__st_tensor *source, const kt__shard *shard,
                             const kt__planned *t) {
    uint64_t rows = t->ne[1] * (is_half_of_stack(t->change) ? 2 : 1), cols = t->ne[0];
    char got[120];
    if (is_turned_stack(t->change)) {
        cols = rows;
        rows = t->ne[0];
    }
    bool stacked = source->n_dims == 3 && source->shape[0] == t->ne[2] &&
                   source->shape[1] == rows && source->shape[2] == cols;
    bool listed = source->n_dims == 2 && source->shape[0] == t->ne[2] * rows &&
                  source->shape[1] == cols; /* one expert's rows after the other's */
    if (stacked || listed) return kt__plan_check_dtype(p, source, shard);
    kt__plan_show_shape(source, got);
    return kt__fail_at(p->err, KT_E_FORMAT, shard->path, source->begin,
                       "tensor '%.100s' is of shape [%s]; by config.json it is [%" PRIu64
                       ", %" PRIu64 ", %" PRIu64 "]",
                       source->name, got, t->ne[2], rows, cols);
}

kt_status kt__plan_add_stacked(planner *p, const map_row *row, int64_t layer) {
    char from[MAX_NAME];
    int64_t n = p->config->n_expert;
    const kt__st_tensor *source;
    const kt__shard *shard;
    kt_status status;
    kt__planned t = {.n_dims = 3,
                     .n_rows = n * kt__plan_dim_of(p, row->rows),
                     .n_cols = kt__plan_dim_of(p, row->cols),
                     .part_rows = kt__plan_dim_of(p, row->rows),
                     .ne = {(uint64_t)kt__plan_dim_of(p, row->cols),
                            (uint64_t)kt__plan_dim_of(p, row->rows), (uint64_t)n, 1},
                     .change = row->change};
    kt__plan_source_name(p->config, row->from, layer, from, sizeof from);
    kt__plan_with_layer(row->to, layer, t.name, sizeof t.name);
    KT__TRY(kt__plan_find_source(p, from, &source, &shard));
    if (!source)
        return kt__fail_at(p->err, KT_E_FORMAT, p->folder->shards[0].path, UINT64_MAX,
                           "tensor '%s' is missing", from);
    KT__TRY(check_stack(p, source, shard, &t));
    t.parts = kt__calloc((size_t)n, sizeof *t.parts);
    if (!t.parts) return kt__fail_nomem(p->err, "a plan", (size_t)n * sizeof *t.parts);
    cut_parts(source, shard, &t);
    t.type = kt__plan_type_of(p, &t);
    status = kt__weight_plan_add(p->plan, &t, p->err);
    if (status != KT_OK) kt__free(t.parts);
out:
    return status;
}

/* ---- heads of keys and values in one matrix ---- */

/* kv_b_proj [heads * (nope + value), rank]: what makes a head's keys is transposed, since queries
 * are multiplied by it; what makes its values stays. */
kt_status kt__plan_add_heads(planner *p, const map_row *row, int64_t layer) {
    char from[MAX_NAME];
    const kt__hf_config *c = p->config;
    const kt__st_tensor *source;
    const kt__shard *shard;
    uint64_t n = (uint64_t)c->n_head, nope = (uint64_t)c->nope_dim,
             head = nope + (uint64_t)c->value_dim;
    uint64_t skip = row->change == KT__CHANGE_VALUES ? nope : 0;
    kt_status status;
    kt__planned t = {.n_dims = 3,
                     .n_rows = c->n_head * kt__plan_dim_of(p, row->rows),
                     .n_cols = kt__plan_dim_of(p, row->cols),
                     .part_rows = kt__plan_dim_of(p, row->rows),
                     .ne = {(uint64_t)kt__plan_dim_of(p, row->cols),
                            (uint64_t)kt__plan_dim_of(p, row->rows), n, 1},
                     .change = row->change};
    kt__plan_source_name(p->config, row->from, layer, from, sizeof from);
    kt__plan_with_layer(row->to, layer, t.name, sizeof t.name);
    KT__TRY(kt__plan_find_source(p, from, &source, &shard));
    if (!source)
        return kt__fail_at(p->err, KT_E_FORMAT, p->folder->shards[0].path, UINT64_MAX,
                           "tensor '%s' is missing", from);
    KT__TRY(kt__plan_check_dtype(p, source, shard));
    KT__TRY(kt__plan_check_shape(p, source, shard, (int64_t)(n * head), c->kv_rank, false));
    t.parts = kt__calloc(n, sizeof *t.parts);
    if (!t.parts) return kt__fail_nomem(p->err, "a plan", n * sizeof *t.parts);
    for (uint64_t h = 0; h < n; h++) {
        t.parts[h] = kt__plan_source_of(source, shard);
        t.parts[h].begin += (h * head + skip) * kt__type_row_bytes(source->type, c->kv_rank);
    }
    t.source = t.parts[0];
    t.type = kt__plan_type_of(p, &t);
    status = kt__weight_plan_add(p->plan, &t, p->err);
    if (status != KT_OK) kt__free(t.parts);
out:
    return status;
}

/* ---- queries, keys, values and gates by key head ---- */

/* Where a head of the result begins among the rows: of each key head its query, its key, the values
 * of its value heads, and their gates. */
static int64_t grouped_row(const kt__hf_config *c, int64_t head, bool gate) {
    int64_t n_key = c->n_state_key, each = c->n_state_value / n_key, d = c->state_dim;
    int64_t group = (2 + 2 * each) * d;
    if (gate) return head / each * group + (2 + each + head % each) * d;
    if (head < n_key) return head * group;
    if (head < 2 * n_key) return (head - n_key) * group + d;
    head -= 2 * n_key;
    return head / each * group + (2 + head % each) * d;
}

kt_status kt__plan_add_grouped(planner *p, const map_row *row, int64_t layer) {
    char from[MAX_NAME];
    const kt__hf_config *c = p->config;
    const kt__st_tensor *source;
    const kt__shard *shard;
    bool gate = row->change == KT__CHANGE_GROUPED_GATE;
    int64_t n = kt__plan_dim_of(p, row->rows) / c->state_dim;
    kt_status status;
    kt__planned t = {.n_dims = 2,
                     .n_rows = kt__plan_dim_of(p, row->rows),
                     .n_cols = c->d_model,
                     .part_rows = c->state_dim,
                     .change = row->change};
    kt__plan_source_name(p->config, row->from, layer, from, sizeof from);
    kt__plan_with_layer(row->to, layer, t.name, sizeof t.name);
    KT__TRY(kt__plan_find_source(p, from, &source, &shard));
    if (!source)
        return kt__fail_at(p->err, KT_E_FORMAT, p->folder->shards[0].path, UINT64_MAX,
                           "tensor '%s' is missing", from);
    KT__TRY(kt__plan_check_dtype(p, source, shard));
    KT__TRY(kt__plan_check_shape(p, source, shard,
                                 (2 * c->n_state_key + 2 * c->n_state_value) * c->state_dim,
                                 c->d_model, false));
    t.parts = kt__calloc((size_t)n, sizeof *t.parts);
    if (!t.parts) return kt__fail_nomem(p->err, "a plan", (size_t)n * sizeof *t.parts);
    for (int64_t i = 0; i < n; i++) {
        t.parts[i] = kt__plan_source_of(source, shard);
        t.parts[i].begin += (uint64_t)grouped_row(c, i, gate) *
                            kt__type_row_bytes(source->type, c->d_model);
    }
    t.source = t.parts[0];
    t.type = kt__plan_type_of(p, &t);
    status = kt__weight_plan_add(p->plan, &t, p->err);
    if (status != KT_OK) kt__free(t.parts);
out:
    return status;
}

/* ---- MXFP4 blocks ---- */

bool kt__plan_is_mxfp4(kt__change change) {
    return change == KT__CHANGE_MXFP4 || change == KT__CHANGE_MXFP4_EVEN ||
           change == KT__CHANGE_MXFP4_ODD;
}

bool kt__plan_is_halved(kt__change change) {
    return change == KT__CHANGE_EVEN || change == KT__CHANGE_ODD ||
           change == KT__CHANGE_MXFP4_EVEN || change == KT__CHANGE_MXFP4_ODD;
}

/* U8 of the shape [experts, rows, columns / 32] with, of levels, 16 after it. */
static kt_status find_bytes(const planner *p, const char *name, const kt__planned *t, bool levels,
                            kt__weight_source *out) {
    const kt__st_tensor *source;
    const kt__shard *shard;
    uint64_t rows = (uint64_t)t->part_rows * (kt__plan_is_halved(t->change) ? 2 : 1);
    const uint64_t shape[4] = {t->ne[2], rows, (uint64_t)t->n_cols / 32, 16};
    uint32_t n_dims = levels ? 4 : 3;
    KT__STEP(kt__plan_find_source(p, name, &source, &shard));
    if (!source)
        return kt__fail_at(p->err, KT_E_UNSUPPORTED, p->folder->shards[0].path, UINT64_MAX,
                           "tensor '%s' is missing: gpt-oss is converted from its MXFP4 blocks, "
                           "in which it is published",
                           name);
    if (strcmp(source->dtype, "U8") != 0 || source->n_dims != n_dims ||
        memcmp(source->shape, shape, n_dims * sizeof *shape) != 0) {
        char got[120];
        kt__plan_show_shape(source, got);
        return kt__fail_at(p->err, KT_E_FORMAT, shard->path, source->begin,
                           "tensor '%.100s' is %s of shape [%s]; U8 of shape [%" PRIu64 ", %" PRIu64
                           ", %" PRIu64 "%s] is expected",
                           source->name, source->dtype, got, shape[0], shape[1], shape[2],
                           levels ? ", 16" : "");
    }
    *out = kt__plan_source_of(source, shard);
    out->type = KT__TYPE_MXFP4;
    return KT_OK;
}

/* A recipe of floats is taken at its word; a type that is not smaller than the blocks would only
 * lose. */
static kt__type type_of_blocks(const planner *p, const kt__planned *t) {
    kt__type type = kt__plan_type_of(p, t);
    bool is_float = kt__type_get(type)->block_elems == 1 &&
                    kt__type_get(p->recipe->base)->block_elems == 1;
    if (is_float && !p->as_source) return type;
    size_t kept = kt__type_row_bytes(KT__TYPE_MXFP4, t->n_cols);
    return is_float || kt__type_row_bytes(type, t->n_cols) >= kept ? KT__TYPE_MXFP4 : type;
}

kt_status kt__plan_add_blocks(planner *p, const map_row *row, int64_t layer) {
    static const char tail[] = "_blocks";
    char from[MAX_NAME], scales[MAX_NAME];
    int64_t n = p->config->n_expert;
    kt__planned t = {.n_dims = 3,
                     .n_rows = n * kt__plan_dim_of(p, row->rows),
                     .n_cols = kt__plan_dim_of(p, row->cols),
                     .part_rows = kt__plan_dim_of(p, row->rows),
                     .ne = {(uint64_t)kt__plan_dim_of(p, row->cols),
                            (uint64_t)kt__plan_dim_of(p, row->rows), (uint64_t)n, 1},
                     .change = row->change};
    if (t.n_cols % 32 != 0)
        return kt__hf_refuse(p->config, "hidden_size", "MXFP4 has blocks of 32", p->err);
    kt__plan_source_name(p->config, row->from, layer, from, sizeof from);
    kt__plan_with_layer(row->to, layer, t.name, sizeof t.name);
    snprintf(scales, sizeof scales, "%.*s_scales", (int)(strlen(from) + 1 - sizeof tail), from);
    KT__STEP(find_bytes(p, from, &t, true, &t.source));
    KT__STEP(find_bytes(p, scales, &t, false, &t.scales));
    t.type = type_of_blocks(p, &t);
    return kt__weight_plan_add(p->plan, &t, p->err);
}
