#include "vision/vision.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static const kt__vision_family families[] = {
#define FAMILY(name, merge, filter, has, least_rows, marker, in_place) \
    {#name, KT__MERGE_##merge, KT__RESAMPLE_##filter, has, least_rows, marker, in_place},
#include "vision/families.def"
#undef FAMILY
};

enum {
    MAX_LAYERS = 256,
    MAX_DEEP = 16,
    MAX_HEADS = 256,
    MAX_DIM = 1 << 16,
    MAX_SIDE = 4096,
    MAX_PATCHES = 1 << 14,
    MAX_LONGEST = 1 << 14,
    LONGEST_TILES = 4, /* of a side, where the file does not say it */
    MOST_ROWS =
        1280 /* of a picture of any size, where the file does not say it: as Qwen2-VL's processor has it */
};

typedef struct vision_reader {
    const kt__gguf *gguf;
    kt__vision *v;
    kt_error *err;
    kt_status status; /* the first failure stays */
} vision_reader;

/* ---- sizes ---- */

static int int_of(vision_reader *r, const char *key, bool required, int fallback, int low,
                  int high) {
    uint32_t value = (uint32_t)fallback;
    if (r->status == KT_OK) r->status = kt__gguf_get_u32(r->gguf, key, required, &value, r->err);
    if (r->status == KT_OK && (value < (uint32_t)low || value > (uint32_t)high))
        r->status = kt__fail_at(r->err, KT_E_FORMAT, key, UINT64_MAX,
                                "%s: key '%s' is %u, expected %d to %d", kt__gguf_path(r->gguf),
                                key, value, low, high);
    return r->status == KT_OK ? (int)value : low;
}

static void triple_of(vision_reader *r, const char *key, float out[3]) {
    const kt__gguf_kv *kv = NULL;
    if (r->status == KT_OK)
        r->status = kt__gguf_get_array(r->gguf, key, true, KT__GGUF_F32, &kv, r->err);
    if (r->status != KT_OK) return;
    for (uint64_t i = 0; i < 3 && i < kv->count; i++) out[i] = kt__gguf_array_f32(kv, i);
    bool good = kv->count >= 3;
    for (int i = 0; good && i < 3; i++) good = isfinite(out[i]);
    if (!good)
        r->status = kt__fail_at(r->err, KT_E_FORMAT, key, UINT64_MAX,
                                "%s: key '%s' has to be three numbers", kt__gguf_path(r->gguf),
                                key);
}

static kt_status find_family(const kt__gguf *gguf, const kt__vision_family **out, kt_error *err) {
    kt__str name = {0}, arch = {0};
    KT__STEP(kt__gguf_get_str(gguf, "general.architecture", false, &arch, err));
    if (arch.len != 4 || memcmp(arch.s, "clip", 4))
        return kt__fail(err, KT_E_FORMAT,
                        "%s is no mmproj file, the part of a model that sees: its architecture is "
                        "'%.*s', not 'clip'",
                        kt__gguf_path(gguf), (int)(arch.len < 64 ? arch.len : 64),
                        arch.s ? arch.s : "");
    KT__STEP(kt__gguf_get_str(gguf, "clip.projector_type", false, &name, err));
    if (!name.s) KT__STEP(kt__gguf_get_str(gguf, "clip.vision.projector_type", true, &name, err));
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        *out = &families[i];
        if (strlen(families[i].name) == name.len && !memcmp(families[i].name, name.s, name.len))
            return KT_OK;
    }
    return kt__fail_at(err, KT_E_UNSUPPORTED, "clip.projector_type", UINT64_MAX,
                       "%s: encoders of the type '%.*s' are not supported; docs/MODELS.md lists "
                       "those that are",
                       kt__gguf_path(gguf), (int)(name.len < 64 ? name.len : 64), name.s);
}

/* Sizes that have to divide each other. */
static kt_status check_sizes(const vision_reader *r) {
    const kt__vision *v = r->v;
    const char *wrong = NULL;
    bool any = v->family->has & KT__EYE_ANY_SIZE;
    if (v->side % v->patch) wrong = "image_size and patch_size";
    if (!any && v->n_side % v->merge) wrong = "the patches of a side and scale_factor";
    if (v->d_model % v->n_head || v->d_model / v->n_head % (any ? 4 : 2))
        wrong = "embedding_length and head_count";
    if (v->n_patch > MAX_PATCHES) wrong = "image_size and patch_size, whose patches are too many,";
    if (v->max_pixels < v->min_pixels) wrong = "image_min_pixels and image_max_pixels";
    if (v->full_every && !v->window) wrong = "window_size and patch_size";
    if (!wrong) return KT_OK;
    return kt__fail(r->err, KT_E_FORMAT, "%s: %s do not fit each other", kt__gguf_path(r->gguf),
                    wrong);
}

/* Where a picture keeps its form: bounds on its pixels, and on what layers see. */
static void read_any_size(vision_reader *r) {
    kt__vision *v = r->v;
    int square = v->patch * v->merge, area = square * square,
        most = MAX_PATCHES * v->patch * v->patch;
    int rows = most / area < MOST_ROWS ? most / area : MOST_ROWS, least = v->family->least_rows;
    v->min_pixels = int_of(r, "clip.vision.image_min_pixels", false,
                           (least < rows ? least : rows) * area, 1, most);
    v->max_pixels = int_of(r, "clip.vision.image_max_pixels", false, rows * area, area, INT32_MAX);
    if (v->max_pixels > most) v->max_pixels = most;
    v->n_patch = (int)(v->max_pixels / (v->patch * v->patch));
    v->n_rows = v->n_patch / (v->merge * v->merge);
    if (!(v->family->has & KT__EYE_WINDOWS)) return;
    v->full_every = int_of(r, "clip.vision.n_wa_pattern", true, 0, 1, MAX_LAYERS);
    v->window = int_of(r, "clip.vision.window_size", false, 112, 1, MAX_SIDE) / square;
}

/* Of files that early converters made the key is 0. */
static void read_d_ff(vision_reader *r) {
    kt__vision *v = r->v;
    const kt__gguf_tensor *t = kt__gguf_find_tensor(r->gguf, "v.blk.0.ffn_up.weight");
    v->d_ff = int_of(r, "clip.vision.feed_forward_length", true, 0, 0, MAX_DIM);
    if (r->status != KT_OK || v->d_ff) return;
    uint64_t n = t ? t->n_elem / (uint64_t)v->d_model : 0;
    if (n >= 1 && n <= MAX_DIM) v->d_ff = (int)n;
    if (!v->d_ff) (void)int_of(r, "clip.vision.feed_forward_length", true, 0, 1, MAX_DIM);
}

/* Layers whose output makes a part of the rows: those that have a merger. */
static void count_deep(vision_reader *r) {
    kt__vision *v = r->v;
    char name[64];
    for (int i = 0; v->family->has & KT__EYE_LEARNED && i < v->n_layer; i++) {
        snprintf(name, sizeof name, "v.deepstack.%d.fc1.weight", i);
        v->n_deep += kt__gguf_find_tensor(r->gguf, name) != NULL;
    }
    v->d_row = v->d_text * (1 + v->n_deep);
    if (r->status == KT_OK && v->n_deep > MAX_DEEP)
        r->status = kt__fail(r->err, KT_E_FORMAT, "%s: more than %d layers make parts of the rows",
                             kt__gguf_path(r->gguf), MAX_DEEP);
}

static kt_status read_act(vision_reader *r) {
    bool gelu = false, silu = false, any = r->v->family->has & KT__EYE_ANY_SIZE;
    KT__STEP(kt__gguf_get_bool(r->gguf, "clip.use_gelu", false, &gelu, r->err));
    KT__STEP(kt__gguf_get_bool(r->gguf, "clip.use_silu", false, &silu, r->err));
    r->v->act = gelu ? KT__SEER_GELU : silu ? KT__SEER_SILU : KT__SEER_QUICK_GELU;
    if (gelu || any) return KT_OK;
    return kt__fail_at(r->err, KT_E_UNSUPPORTED, "clip.use_gelu", UINT64_MAX,
                       "%s: encoders of the type '%s' without GELU are not supported",
                       kt__gguf_path(r->gguf), r->v->family->name);
}

static kt_status read_sizes(vision_reader *r) {
    kt__vision *v = r->v;
    bool any = v->family->has & KT__EYE_ANY_SIZE;
    bool shuffle = v->family->merge == KT__MERGE_SHUFFLE;
    v->side = int_of(r, "clip.vision.image_size", true, 0, 16, MAX_SIDE);
    v->patch = int_of(r, "clip.vision.patch_size", true, 0, 1, 256);
    v->d_model = int_of(r, "clip.vision.embedding_length", true, 0, 2, MAX_DIM);
    read_d_ff(r);
    v->n_layer = int_of(r, "clip.vision.block_count", true, 0, 1, MAX_LAYERS);
    v->n_head = int_of(r, "clip.vision.attention.head_count", true, 0, 1, MAX_HEADS);
    v->d_text = int_of(r, "clip.vision.projection_dim", true, 0, 1, MAX_DIM);
    v->merge = any ? int_of(r, "clip.vision.spatial_merge_size", false, 2, 1, 16)
                   : int_of(r, "clip.vision.projector.scale_factor", shuffle, 4, 1, 64);
    v->longest = int_of(r, "clip.vision.preproc_image_size", false, v->side * LONGEST_TILES, 16,
                        MAX_LONGEST);
    triple_of(r, "clip.vision.image_mean", v->mean);
    triple_of(r, "clip.vision.image_std", v->deviation);
    KT__STEP(r->status);
    KT__STEP(kt__gguf_get_f32(r->gguf, "clip.vision.attention.layer_norm_epsilon", true, &v->eps,
                              r->err));
    KT__STEP(read_act(r));
    for (int i = 0; i < 3; i++)
        if (v->deviation[i] == 0.0f || !(v->eps >= 0.0f && v->eps < 1.0f))
            return kt__fail(r->err, KT_E_FORMAT, "%s: image_std or layer_norm_epsilon is no factor",
                            kt__gguf_path(r->gguf));
    v->n_side = v->side / v->patch;
    v->n_patch = v->n_side * v->n_side;
    v->n_rows = v->n_patch / (v->merge * v->merge);
    if (any) read_any_size(r);
    count_deep(r);
    KT__STEP(r->status);
    return check_sizes(r);
}

/* ---- tensors ---- */

static const kt__gguf_tensor *find_tensor(vision_reader *r, const char *name, int64_t n_col,
                                          int64_t n_row, bool required, kt__type *type) {
    if (r->status != KT_OK) return NULL;
    const kt__gguf_tensor *t = kt__gguf_find_tensor(r->gguf, name);
    if (!t) {
        if (required)
            r->status = kt__fail_at(r->err, KT_E_FORMAT, name, UINT64_MAX,
                                    "%s: tensor '%s' is missing", kt__gguf_path(r->gguf), name);
        return NULL;
    }
    *type = kt__type_from_ggml(t->type);
    bool whole = (int64_t)t->ne[0] == n_col && t->n_elem == (uint64_t)(n_col * n_row);
    if (*type == KT__TYPE_COUNT || !t->data)
        r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, name, t->file_offset,
                                "%s: tensor '%s' has type %s, which is not supported",
                                kt__gguf_path(r->gguf), name, kt__gguf_tensor_type_name(t->type));
    else if (!whole)
        r->status = kt__fail_at(r->err, KT_E_FORMAT, name, t->file_offset,
                                "%s: tensor '%s' has %llu numbers in rows of %llu, expected %lld "
                                "rows of %lld",
                                kt__gguf_path(r->gguf), name, (unsigned long long)t->n_elem,
                                (unsigned long long)t->ne[0], (long long)n_row, (long long)n_col);
    return r->status == KT_OK ? t : NULL;
}

/* As f32: in place where the file has it so and aligned, else a copy. */
static const float *floats_of(vision_reader *r, const char *name, int64_t n_col, int64_t n_row,
                              bool required) {
    kt__type type = KT__TYPE_COUNT;
    const kt__gguf_tensor *t = find_tensor(r, name, n_col, n_row, required, &type);
    size_t n = (size_t)n_col * (size_t)n_row;
    if (!t) return NULL;
    if (type == KT__TYPE_F32 && (uintptr_t)t->data % sizeof(float) == 0)
        return (const float *)(const void *)t->data;
    float *copy = kt__arena_calloc(&r->v->arena, n, sizeof *copy);
    if (copy)
        kt__dequantize_row(type, t->data, (int64_t)n, copy);
    else
        r->status = kt__fail_nomem(r->err, name, n * sizeof *copy);
    return copy;
}

static kt__weight matrix_of(vision_reader *r, const char *name, int n_row, int n_col) {
    kt__type type = KT__TYPE_COUNT;
    const kt__gguf_tensor *t = find_tensor(r, name, n_col, n_row, true, &type);
    if (!t) return (kt__weight){0};
    r->v->weight_bytes += t->size;
    return (kt__weight){t->data, type, n_row, n_col, kt__type_row_bytes(type, n_col)};
}

/* A convolution whose windows lie side by side is a product with each patch as one row. */
static kt__weight filters_of(vision_reader *r, const char *name) {
    kt__vision *v = r->v;
    const kt__gguf_tensor *t = kt__gguf_find_tensor(r->gguf, name);
    int n_col = 3 * v->patch * v->patch;
    bool four = t && t->ne[0] == (uint64_t)v->patch && t->ne[1] == (uint64_t)v->patch &&
                t->ne[2] == 3 && t->ne[3] == (uint64_t)v->d_model;
    kt__type type = t ? kt__type_from_ggml(t->type) : KT__TYPE_COUNT;
    bool floats = type == KT__TYPE_F32 || type == KT__TYPE_F16 || type == KT__TYPE_BF16;
    if (r->status == KT_OK && (!four || !floats || !t->data))
        r->status = kt__fail_at(
            r->err, KT_E_FORMAT, name, UINT64_MAX,
            "%s: tensor '%s' is missing, or is not %d filters of 3 x %d x %d in "
            "F32, F16 or BF16",
            kt__gguf_path(r->gguf), name, v->d_model, v->patch, v->patch);
    if (r->status != KT_OK) return (kt__weight){0};
    v->weight_bytes += t->size;
    return (kt__weight){t->data, type, v->d_model, n_col, kt__type_row_bytes(type, n_col)};
}

/* Filters of two frames of a film see the same picture twice: their sum sees it once. */
static void bind_embed(vision_reader *r) {
    kt__vision *v = r->v;
    v->embed = filters_of(r, "v.patch_embd.weight");
    if (!(v->family->has & KT__EYE_ANY_SIZE)) return;
    kt__weight second = filters_of(r, "v.patch_embd.weight.1");
    if (r->status != KT_OK) return;
    int64_t n_col = v->embed.n_col;
    size_t n = (size_t)v->d_model * (size_t)n_col;
    float *sum = kt__arena_calloc(&v->arena, n, sizeof *sum);
    float *row = kt__arena_calloc(&v->arena, (size_t)n_col, sizeof *row);
    if (!sum || !row) {
        r->status = kt__fail_nomem(r->err, "an encoder's filters", n * sizeof *sum);
        return;
    }
    for (size_t i = 0; i < (size_t)v->d_model; i++) {
        float *to = sum + i * (size_t)n_col;
        kt__dequantize_row(v->embed.type, v->embed.data + i * v->embed.row_bytes, n_col, to);
        kt__dequantize_row(second.type, second.data + i * second.row_bytes, n_col, row);
        for (int64_t k = 0; k < n_col; k++) to[k] += row[k];
    }
    v->embed = (kt__weight){(const uint8_t *)sum, KT__TYPE_F32, v->d_model, (int)n_col,
                            (size_t)n_col * sizeof *sum};
}

static const char *name_in(char *out, size_t size, int layer, const char *part) {
    snprintf(out, size, "v.blk.%d.%s", layer, part);
    return out;
}

/* Files of early converters have the names of both feed-forward matrices the other way round. */
static void bind_feed_forward(vision_reader *r, int i) {
    kt__vision *v = r->v;
    kt__vision_layer *l = &v->layers[i];
    char name[64];
    const kt__gguf_tensor *t = kt__gguf_find_tensor(
        r->gguf, name_in(name, sizeof name, i, "ffn_down.weight"));
    bool swapped = t && t->ne[0] == (uint64_t)v->d_model && v->d_model != v->d_ff;
    const char *up = swapped ? "ffn_down.weight" : "ffn_up.weight";
    const char *down = swapped ? "ffn_up.weight" : "ffn_down.weight";
    const char *up_bias = swapped ? "ffn_down.bias" : "ffn_up.bias";
    const char *down_bias = swapped ? "ffn_up.bias" : "ffn_down.bias";
    l->up = matrix_of(r, name_in(name, sizeof name, i, up), v->d_ff, v->d_model);
    l->down = matrix_of(r, name_in(name, sizeof name, i, down), v->d_model, v->d_ff);
    name_in(name, sizeof name, i, "ffn_gate.weight");
    if (kt__gguf_find_tensor(r->gguf, name)) {
        l->gate = matrix_of(r, name, v->d_ff, v->d_model);
        l->gate_bias = floats_of(r, name_in(name, sizeof name, i, "ffn_gate.bias"), v->d_ff, 1,
                                 false);
    }
    l->up_bias = floats_of(r, name_in(name, sizeof name, i, up_bias), v->d_ff, 1, false);
    l->down_bias = floats_of(r, name_in(name, sizeof name, i, down_bias), v->d_model, 1, false);
}

/* Queries, keys and values: three matrices, or one after the other in one. */
static void bind_heads(vision_reader *r, int i) {
    kt__vision_layer *l = &r->v->layers[i];
    kt__weight *const to[] = {&l->q, &l->k, &l->v};
    const float **const bias[] = {&l->q_bias, &l->k_bias, &l->v_bias};
    static const char parts[] = "qkv";
    int d = r->v->d_model;
    char name[64], part[16];
    name_in(name, sizeof name, i, "attn_qkv.weight");
    if (kt__gguf_find_tensor(r->gguf, name)) {
        kt__weight all = matrix_of(r, name, 3 * d, d);
        const float *biases = floats_of(r, name_in(name, sizeof name, i, "attn_qkv.bias"), 3 * d, 1,
                                        false);
        for (int k = 0; k < 3 && r->status == KT_OK; k++) {
            *to[k] = all;
            to[k]->n_row = d;
            to[k]->data += (size_t)k * (size_t)d * all.row_bytes;
            *bias[k] = biases ? biases + (size_t)k * (size_t)d : NULL;
        }
        return;
    }
    for (int k = 0; k < 3; k++) {
        snprintf(part, sizeof part, "attn_%c.weight", parts[k]);
        *to[k] = matrix_of(r, name_in(name, sizeof name, i, part), d, d);
        snprintf(part, sizeof part, "attn_%c.bias", parts[k]);
        *bias[k] = floats_of(r, name_in(name, sizeof name, i, part), d, 1, false);
    }
}

static void bind_layer(vision_reader *r, int i) {
    kt__vision_layer *l = &r->v->layers[i];
    int d = r->v->d_model;
    char name[64];
    const struct {
        const char *part;
        const float **to;
        bool required;
    } vectors[] = {{"ln1.weight", &l->norm[0], true},
                   {"ln1.bias", &l->norm_bias[0], false},
                   {"ln2.weight", &l->norm[1], true},
                   {"ln2.bias", &l->norm_bias[1], false},
                   {"attn_out.bias", &l->out_bias, false}};
    for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
        *vectors[k].to = floats_of(r, name_in(name, sizeof name, i, vectors[k].part), d, 1,
                                   vectors[k].required);
    bind_heads(r, i);
    l->out = matrix_of(r, name_in(name, sizeof name, i, "attn_out.weight"), d, d);
    bind_feed_forward(r, i);
}

/* Gemma's projection is stored as it multiplies from the right: a copy has its columns as rows. */
static void bind_turned(vision_reader *r, const char *name) {
    kt__vision *v = r->v;
    size_t n_row = (size_t)v->d_text, n_col = (size_t)v->d_model;
    const float *from = floats_of(r, name, v->d_text, v->d_model, true);
    if (!from) return;
    float *to = kt__arena_calloc(&v->arena, n_row * n_col, sizeof *to);
    if (!to) {
        r->status = kt__fail_nomem(r->err, name, n_row * n_col * sizeof *to);
        return;
    }
    for (size_t i = 0; i < n_row; i++)
        for (size_t k = 0; k < n_col; k++) to[i * n_col + k] = from[k * n_row + i];
    v->projection = (kt__weight){(const uint8_t *)to, KT__TYPE_F32, v->d_text, v->d_model,
                                 n_col * sizeof *to};
    v->weight_bytes += n_row * n_col * sizeof *to;
}

/* Two matrices of which the first is square. */
static void bind_merger(vision_reader *r, const char *prefix, const char *first, const char *second,
                        kt__vision_merger *m) {
    int n = r->v->d_model * r->v->merge * r->v->merge, d_text = r->v->d_text;
    char name[64];
    snprintf(name, sizeof name, "%s.%s.weight", prefix, first);
    m->first = matrix_of(r, name, n, n);
    snprintf(name, sizeof name, "%s.%s.bias", prefix, first);
    m->first_bias = floats_of(r, name, n, 1, false);
    snprintf(name, sizeof name, "%s.%s.weight", prefix, second);
    m->second = matrix_of(r, name, d_text, n);
    snprintf(name, sizeof name, "%s.%s.bias", prefix, second);
    m->second_bias = floats_of(r, name, d_text, 1, false);
}

static void bind_mergers(vision_reader *r) {
    kt__vision *v = r->v;
    int deep = 0, n = v->d_model * v->merge * v->merge;
    char prefix[32], name[64];
    v->mergers = kt__arena_calloc(&v->arena, (size_t)(1 + v->n_deep), sizeof *v->mergers);
    if (!v->mergers) {
        r->status = kt__fail_nomem(r->err, "an encoder's mergers", 0);
        return;
    }
    bind_merger(r, "mm", "0", "2", &v->mergers[0]);
    for (int i = 0; i < v->n_layer && deep < v->n_deep; i++) {
        snprintf(prefix, sizeof prefix, "v.deepstack.%d", i);
        snprintf(name, sizeof name, "%s.fc1.weight", prefix);
        if (!kt__gguf_find_tensor(r->gguf, name)) continue;
        kt__vision_merger *m = &v->mergers[++deep];
        v->layers[i].deep = deep;
        bind_merger(r, prefix, "fc1", "fc2", m);
        snprintf(name, sizeof name, "%s.norm.weight", prefix);
        m->norm = floats_of(r, name, n, 1, true);
        snprintf(name, sizeof name, "%s.norm.bias", prefix);
        m->norm_bias = floats_of(r, name, n, 1, false);
    }
}

static kt_status bind_tensors(vision_reader *r) {
    kt__vision *v = r->v;
    v->layers = kt__arena_calloc(&v->arena, (size_t)v->n_layer, sizeof *v->layers);
    if (!v->layers) return kt__fail_nomem(r->err, "an encoder's layers", 0);
    bind_embed(r);
    v->embed_bias = floats_of(r, "v.patch_embd.bias", v->d_model, 1, false);
    if (v->family->has & KT__EYE_LEARNED || !(v->family->has & KT__EYE_ANY_SIZE))
        v->positions = floats_of(r, "v.position_embd.weight", v->d_model, v->n_side * v->n_side,
                                 true);
    for (int i = 0; i < v->n_layer; i++) bind_layer(r, i);
    v->end_norm = floats_of(r, "v.post_ln.weight", v->d_model, 1, true);
    v->end_norm_bias = floats_of(r, "v.post_ln.bias", v->d_model, 1, false);
    if (v->family->merge == KT__MERGE_AVERAGE) {
        v->merged_norm = floats_of(r, "mm.soft_emb_norm.weight", v->d_model, 1, true);
        bind_turned(r, "mm.input_projection.weight");
    } else if (v->family->merge == KT__MERGE_TWICE) {
        bind_mergers(r);
    } else {
        v->projection = matrix_of(r, "mm.model.fc.weight", v->d_text,
                                  v->d_model * v->merge * v->merge);
    }
    return r->status;
}

/* ---- life ---- */

enum { ARENA_MOST = 1 << 30 };

kt_status kt__vision_open(const char *path, const kt__gguf_open_params *params, kt__vision **out,
                          kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__vision *v = kt__calloc(1, sizeof *v);
    if (!v) return kt__fail_nomem(err, "an encoder of pictures", sizeof *v);
    kt__arena_init(&v->arena, 64 * 1024, ARENA_MOST);
    KT__TRY(kt__gguf_open(path, params, &v->gguf, err));
    vision_reader reader = {v->gguf, v, err, KT_OK};
    KT__TRY(find_family(v->gguf, &v->family, err));
    KT__TRY(read_sizes(&reader));
    KT__TRY(bind_tensors(&reader));
    KT__TRY(kt__gguf_check(v->gguf, err));
    *out = v;
    v = NULL;
out:
    kt__vision_close(v);
    return status;
}

void kt__vision_close(kt__vision *v) {
    if (!v) return;
    kt__gguf_close(v->gguf);
    kt__arena_free(&v->arena);
    kt__free(v);
}
