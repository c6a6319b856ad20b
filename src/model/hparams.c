#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

typedef struct arch_row {
    const char *name;
    unsigned features;
    int window_period;
    float local_freq_base;
} arch_row;

static const arch_row archs[] = {
#define X(name, features, period, base) {#name, features, period, base},
#include "model/arch.def"
#undef X
};

const char *kt__arch_list(void) {
#define X(name, features, period, base) ", " #name
    static const char list[] =
#include "model/arch.def"
        ;
#undef X
    return list + 2; /* behind the first comma */
}

/* Reads PREFIX.suffix keys; the first failure sticks, so that a run of reads is checked once. */
typedef struct reader {
    const kt__gguf *gguf;
    const char *prefix;
    kt_error *err;
    kt_status status;
    char key[128];
} reader;

static const char *key_of(reader *r, const char *suffix) {
    snprintf(r->key, sizeof r->key, "%s.%s", r->prefix, suffix);
    return r->key;
}

static float read_f32(reader *r, const char *suffix, bool required, float fallback) {
    float value = fallback;
    if (r->status == KT_OK) {
        r->status = kt__gguf_get_f32(r->gguf, key_of(r, suffix), required, &value, r->err);
    }
    if (r->status == KT_OK && !isfinite(value)) {
        r->status = kt__fail_at(r->err, KT_E_FORMAT, key_of(r, suffix), UINT64_MAX,
                                "%s: key '%s' is not a finite number", kt__gguf_path(r->gguf),
                                key_of(r, suffix));
    }
    return value;
}

/* Factors that would make a model's numbers nothing but zeros or infinities are no factors. */
static void check_positive(reader *r, const char *suffix, float value) {
    if (r->status != KT_OK || (value >= 1e-6f && value <= 1e6f)) return;
    r->status = kt__fail_at(r->err, KT_E_FORMAT, key_of(r, suffix), UINT64_MAX,
                            "%s: key '%s' is %g, expected 1e-6 to 1e6", kt__gguf_path(r->gguf),
                            key_of(r, suffix), (double)value);
}

static bool read_bool(reader *r, const char *suffix, bool fallback) {
    bool value = fallback;
    if (r->status == KT_OK)
        r->status = kt__gguf_get_bool(r->gguf, key_of(r, suffix), false, &value, r->err);
    return value;
}

/* An integer in [low, high]; a per-layer array is taken when all its elements are equal. */
static int64_t read_int(reader *r, const char *suffix, bool required, int64_t fallback, int64_t low,
                        int64_t high) {
    if (r->status != KT_OK) return low;
    const char *key = key_of(r, suffix);
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, key);
    uint64_t value = 0;
    if (!kv && !required) return fallback;
    if (kv && kv->type == KT__GGUF_ARRAY && kv->count > 0 && kv->elem_type != KT__GGUF_STRING &&
        kv->elem_type != KT__GGUF_F32 && kv->elem_type != KT__GGUF_F64) {
        value = (uint64_t)kt__gguf_array_i64(kv, 0);
        for (uint64_t i = 1; i < kv->count; i++) {
            if ((uint64_t)kt__gguf_array_i64(kv, i) == value) continue;
            r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, key, kv->file_offset,
                                    "%s: key '%s' differs between layers, which is not supported",
                                    kt__gguf_path(r->gguf), key);
            return low;
        }
    } else {
        r->status = kt__gguf_get_u64(r->gguf, key, true, &value, r->err);
        if (r->status != KT_OK) return low;
    }
    if (value < (uint64_t)low || value > (uint64_t)high) {
        r->status = kt__fail_at(r->err, KT_E_FORMAT, key, kv ? kv->file_offset : UINT64_MAX,
                                "%s: key '%s' is %llu, expected %lld to %lld",
                                kt__gguf_path(r->gguf), key, (unsigned long long)value,
                                (long long)low, (long long)high);
        return low;
    }
    return (int64_t)value;
}

static const struct missing_arch {
    const char *name, *needs;
} missing_archs[] = {
#define X(name, needs) {#name, needs},
#include "model/arch_missing.def"
#undef X
};

static bool is_name(kt__str name, const char *of) {
    return strlen(of) == name.len && memcmp(of, name.s, name.len) == 0;
}

static kt_status refuse_arch(const kt__gguf *gguf, kt__str name, kt_error *err) {
    const char *needs = NULL;
    for (size_t i = 0; i < sizeof missing_archs / sizeof missing_archs[0]; i++)
        if (is_name(name, missing_archs[i].name)) needs = missing_archs[i].needs;
    return kt__fail_at(err, KT_E_UNSUPPORTED, "general.architecture", UINT64_MAX,
                       "%s: architecture '%.*s' is not supported%s%s; supported are: %s",
                       kt__gguf_path(gguf), (int)(name.len < 64 ? name.len : 64), name.s,
                       needs ? ", it needs " : "", needs ? needs : "", kt__arch_list());
}

static kt_status find_arch(const kt__gguf *gguf, const arch_row **out, kt_error *err) {
    kt__str name = {0};
    kt_status status = kt__gguf_get_str(gguf, "general.architecture", true, &name, err);
    if (status != KT_OK) return status;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (is_name(name, archs[i].name)) {
            *out = &archs[i];
            return KT_OK;
        }
    }
    return refuse_arch(gguf, name, err);
}

/* Whether the experts' own keys are there, and the dense feed-forward's may be missing. */
static bool knows_expert_widths(const kt__hparams *hp) {
    return hp->features & KT__F_EXPERTS && hp->features & KT__F_DELTA;
}

/* With short convolutions an array, 0 where a layer is one. */
static void read_kv_heads(reader *r, kt__hparams *hp) {
    const char *key = key_of(r, "attention.head_count_kv");
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, key);
    if (!(hp->features & KT__F_SHORT_CONV) || !kv || kv->type != KT__GGUF_ARRAY) {
        hp->n_head_kv = (int)read_int(r, "attention.head_count_kv", false, hp->n_head, 1,
                                      hp->n_head);
        return;
    }
    bool ok = r->status == KT_OK && kv->count == (uint64_t)hp->n_layer &&
              kv->elem_type != KT__GGUF_STRING && kv->elem_type != KT__GGUF_F32 &&
              kv->elem_type != KT__GGUF_F64;
    for (int i = 0; ok && i < hp->n_layer; i++) {
        int64_t n = kt__gguf_array_i64(kv, (uint64_t)i);
        hp->recurrent[i] = n == 0;
        if (n == 0) continue;
        ok = n > 0 && n <= hp->n_head && (hp->n_head_kv == 0 || n == hp->n_head_kv);
        hp->n_head_kv = (int)n;
    }
    if (r->status != KT_OK || (ok && hp->n_head_kv > 0)) return;
    r->status = kt__fail_at(r->err, KT_E_FORMAT, key, kv->file_offset,
                            "%s: key '%s' should have %d numbers, one for each layer, 0 or the "
                            "same one, and not all 0",
                            kt__gguf_path(r->gguf), key, hp->n_layer);
}

static void read_sizes(reader *r, kt__hparams *hp) {
    hp->n_layer = (int)read_int(r, "block_count", true, 0, 1, KT__MAX_LAYERS);
    if (hp->features & KT__F_DELTA && r->status == KT_OK)
        hp->n_extra = (int)read_int(r, "nextn_predict_layers", false, 0, 0, hp->n_layer - 1);
    hp->n_layer -= hp->n_extra;
    hp->d_model = (int)read_int(r, "embedding_length", true, 0, 1, KT__MAX_COL);
    hp->d_ff = (int)read_int(r, "feed_forward_length", !knows_expert_widths(hp), 1, 1, KT__MAX_COL);
    hp->n_head = (int)read_int(r, "attention.head_count", true, 0, 1, KT__MAX_HEADS);
    read_kv_heads(r, hp);
    hp->n_ctx_train = read_int(r, "context_length", true, 0, 1, KT__MAX_CTX);
    bool centred = hp->features & (KT__F_CENTRED | KT__F_LAYER_NORMS);
    hp->norm_eps = read_f32(
        r, centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", true,
        0.0f);
    int64_t width = hp->d_model / hp->n_head;
    hp->head_dim_k = (int)read_int(r, "attention.key_length", false, width, 1, KT__MAX_HEAD_DIM);
    hp->head_dim_v = (int)read_int(r, "attention.value_length", false, width, 1, KT__MAX_HEAD_DIM);
}

/* A key that would make the choice of experts another one than the architecture's. */
static void refuse_choice(reader *r, const char *suffix, int64_t value) {
    if (r->status != KT_OK) return;
    r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, key_of(r, suffix), UINT64_MAX,
                            "%s: key '%s' is %lld, which is not supported in the %s architecture",
                            kt__gguf_path(r->gguf), key_of(r, suffix), (long long)value, r->prefix);
}

/* Widths of the experts and of the shared one; where a file has no key, the feed-forward's stands for
 * them as the converters wrote it. */
static void read_expert_widths(reader *r, kt__hparams *hp) {
    bool split = hp->features & KT__F_SHARED_EXPERT;
    int whole = split && hp->d_ff >= hp->n_expert_used ? hp->d_ff / hp->n_expert_used : hp->d_ff;
    bool own = knows_expert_widths(hp);
    hp->d_ff_expert = (int)read_int(r, "expert_feed_forward_length", own, whole, 1, KT__MAX_COL);
    if (split)
        hp->d_ff_shared = (int)read_int(r, "expert_shared_feed_forward_length", own, hp->d_ff, 1,
                                        KT__MAX_COL);
}

static void read_experts(reader *r, kt__hparams *hp) {
    enum { SOFTMAX = 1, SOFTMAX_OF_CHOSEN = 3 };
    if (!(hp->features & KT__F_EXPERTS)) {
        int64_t n = read_int(r, "expert_count", false, 0, 0, 1 << 20);
        if (n > 0) refuse_choice(r, "expert_count", n);
        return;
    }
    hp->n_expert = (int)read_int(r, "expert_count", true, 0, 1, KT__MAX_EXPERTS);
    hp->n_expert_used = (int)read_int(r, "expert_used_count", true, 0, 1,
                                      r->status == KT_OK ? hp->n_expert : 1);
    if (r->status != KT_OK) return;
    read_expert_widths(r, hp);
    int64_t gating = read_int(r, "expert_gating_func", false, SOFTMAX, 0, 255);
    bool of_all = hp->features & KT__F_SHARES_OF_ALL;
    if (gating != SOFTMAX && (of_all || gating != SOFTMAX_OF_CHOSEN))
        refuse_choice(r, "expert_gating_func", gating);
    int64_t groups = read_int(r, "expert_group_count", false, 0, 0, INT32_MAX);
    if (groups > 1) refuse_choice(r, "expert_group_count", groups);
    if (read_bool(r, "expert_weights_norm", !of_all) == of_all)
        refuse_choice(r, "expert_weights_norm", of_all);
    hp->expert_scale = read_f32(r, "expert_weights_scale", false, 1.0f);
    if (hp->expert_scale == 0.0f) hp->expert_scale = 1.0f;
    check_positive(r, "expert_weights_scale", hp->expert_scale);
}

/* ---- recurrent layers ---- */

int kt__hparams_channels(const kt__hparams *hp) {
    if (!(hp->features & KT__F_DELTA)) return hp->d_model;
    return (2 * hp->n_state_key + hp->n_state_value) * hp->state_dim;
}

int kt__hparams_mixed(const kt__hparams *hp) {
    int heads = hp->n_head * hp->head_dim_v, inner = hp->n_state_value * hp->state_dim;
    return heads > inner ? heads : inner;
}

static void fail_recurrent(reader *r, const char *suffix, const char *what) {
    if (r->status != KT_OK) return;
    r->status = kt__fail_at(r->err, KT_E_FORMAT, key_of(r, suffix), UINT64_MAX, "%s: key '%s' %s",
                            kt__gguf_path(r->gguf), key_of(r, suffix), what);
}

/* Which layers are delta nets: all but every n-th, or as a list says. */
static void read_recurrent_layers(reader *r, kt__hparams *hp) {
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, key_of(r, "attention.recurrent_layers"));
    int period = (int)read_int(r, "full_attention_interval", false, 4, 1, KT__MAX_LAYERS);
    int n_attention = 0;
    bool flags = kv && kv->type == KT__GGUF_ARRAY && kv->elem_type != KT__GGUF_STRING &&
                 kv->elem_type != KT__GGUF_F32 && kv->elem_type != KT__GGUF_F64 &&
                 kv->count >= (uint64_t)hp->n_layer;
    if (kv && !flags)
        fail_recurrent(r, "attention.recurrent_layers", "should have a flag for each layer");
    for (int i = 0; r->status == KT_OK && i < hp->n_layer; i++) {
        hp->recurrent[i] = kv ? kt__gguf_array_i64(kv, (uint64_t)i) != 0 : (i + 1) % period != 0;
        n_attention += !hp->recurrent[i];
    }
    if (n_attention == 0)
        fail_recurrent(r, kv ? "attention.recurrent_layers" : "full_attention_interval",
                       "leaves no layer with attention, which is not supported");
}

/* Weights that were rotated before they were quantised would need rotated inputs. */
static void refuse_rotated(reader *r) {
    for (size_t i = 0; r->status == KT_OK && i < kt__gguf_n_kv(r->gguf); i++) {
        kt__str key = kt__gguf_kv_at(r->gguf, i)->key;
        if (key.len < 15 || memcmp(key.s, "prism.hadamard.", 15) != 0) continue;
        r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, "prism.hadamard", UINT64_MAX,
                                "%s: its weights are rotated (keys 'prism.hadamard.*'), and a "
                                "rotation of what they are multiplied with is not supported",
                                kt__gguf_path(r->gguf));
    }
}

static void read_delta(reader *r, kt__hparams *hp) {
    hp->conv_width = (int)read_int(r, "ssm.conv_kernel", true, 0, 2, KT__MAX_CONV);
    hp->state_dim = (int)read_int(r, "ssm.state_size", true, 0, 16, KT__MAX_STATE_DIM);
    hp->n_state_key = (int)read_int(r, "ssm.group_count", true, 0, 1, KT__MAX_HEADS);
    hp->n_state_value = (int)read_int(r, "ssm.time_step_rank", true, 0, 1, KT__MAX_HEADS);
    int64_t inner = read_int(r, "ssm.inner_size", true, 0, 1, KT__MAX_COL);
    if (r->status != KT_OK) return;
    if (hp->state_dim % 16)
        fail_recurrent(r, "ssm.state_size", "is not a multiple of 16, which is not supported");
    if (hp->n_state_value % hp->n_state_key)
        fail_recurrent(r, "ssm.time_step_rank", "is not a multiple of ssm.group_count");
    if (inner != (int64_t)hp->n_state_value * hp->state_dim)
        fail_recurrent(r, "ssm.inner_size", "is not ssm.time_step_rank times ssm.state_size");
    if (kt__hparams_channels(hp) > KT__MAX_COL)
        fail_recurrent(r, "ssm.group_count", "makes rows that are too long");
    read_recurrent_layers(r, hp);
    refuse_rotated(r);
}

static void read_recurrent(reader *r, kt__hparams *hp) {
    if (hp->features & KT__F_DELTA) read_delta(r, hp);
    if (!(hp->features & KT__F_SHORT_CONV)) return;
    hp->conv_width = (int)read_int(r, "shortconv.l_cache", true, 0, 2, KT__MAX_CONV);
    int64_t window = read_int(r, "attention.sliding_window", false, 0, 0, INT32_MAX);
    if (window > 0) refuse_choice(r, "attention.sliding_window", window);
    if (hp->d_model > KT__MAX_COL / 3)
        fail_recurrent(r, "embedding_length", "makes rows that are too long");
}

static void check_heads(reader *r, const kt__hparams *hp) {
    if (r->status != KT_OK) return;
    const char *path = kt__gguf_path(r->gguf);
    if (hp->n_head % hp->n_head_kv != 0) {
        r->status = kt__fail(r->err, KT_E_FORMAT,
                             "%s: %d query heads do not divide into %d key heads", path, hp->n_head,
                             hp->n_head_kv);
    } else if (hp->head_dim_k < 2 || hp->head_dim_k % 2 || hp->head_dim_v < 1) {
        r->status = kt__fail(r->err, KT_E_FORMAT,
                             "%s: head sizes %d and %d: expected an even number of at least 2",
                             path, hp->head_dim_k, hp->head_dim_v);
    } else if ((int64_t)hp->n_head * hp->head_dim_k > KT__MAX_COL ||
               (int64_t)hp->n_head * hp->head_dim_v > KT__MAX_COL) {
        r->status = kt__fail(r->err, KT_E_LIMIT,
                             "%s: %d heads of %d are over the limit of %d columns", path,
                             hp->n_head, hp->head_dim_k, KT__MAX_COL);
    } else if (!(hp->norm_eps >= 0.0f && hp->norm_eps < 1.0f)) {
        r->status = kt__fail(r->err, KT_E_FORMAT, "%s: norm epsilon %g is out of range", path,
                             (double)hp->norm_eps);
    }
}

static void read_rope_kind(reader *r, kt__rope_params *rope) {
    kt__str kind = {0};
    if (r->status != KT_OK) return;
    r->status = kt__gguf_get_str(r->gguf, key_of(r, "rope.scaling.type"), false, &kind, r->err);
    if (r->status != KT_OK || kind.len == 0) return;
    static const struct {
        const char *name;
        kt__rope_kind kind;
    } kinds[] = {{"none", KT__ROPE_PLAIN},
                 {"linear", KT__ROPE_LINEAR},
                 {"yarn", KT__ROPE_YARN},
                 {"longrope", KT__ROPE_LONGROPE}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strlen(kinds[i].name) == kind.len && memcmp(kinds[i].name, kind.s, kind.len) == 0) {
            rope->kind = kinds[i].kind;
            return;
        }
    }
    r->status = kt__fail_at(
        r->err, KT_E_UNSUPPORTED, key_of(r, "rope.scaling.type"), UINT64_MAX,
        "%s: RoPE scaling '%.*s' is not supported (none, linear, yarn, longrope)",
        kt__gguf_path(r->gguf), (int)(kind.len < 64 ? kind.len : 64), kind.s);
}

/* Sections give a vision model's text positions of several axes. */
static void refuse_sections(reader *r, const kt__hparams *hp) {
    if (hp->features & KT__F_DELTA) return; /* a text's positions are the same on each axis */
    if (r->status != KT_OK || !kt__gguf_find(r->gguf, key_of(r, "rope.dimension_sections"))) return;
    r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, r->key, UINT64_MAX,
                            "%s: key '%s' asks for a rotation by sections, which is not supported",
                            kt__gguf_path(r->gguf), r->key);
}

/* Hunyuan's stretch: base * alpha^(d / (d - 2)). */
static void stretch_base(reader *r, const kt__hparams *hp, kt__rope_params *rope) {
    if (!(hp->features & KT__F_NORM_ROTATED)) return;
    float alpha = read_f32(r, "rope.scaling.alpha", false, 0.0f);
    if (alpha == 0.0f || rope->n_rot < 4) return;
    check_positive(r, "rope.scaling.alpha", alpha);
    double power = (double)rope->n_rot / (rope->n_rot - 2);
    if (r->status == KT_OK) rope->freq_base *= (float)kt__pow((double)alpha, power);
}

static void read_rope(reader *r, const arch_row *arch, kt__hparams *hp) {
    kt__rope_params *rope = &hp->rope;
    rope->n_rot = (int)read_int(r, "rope.dimension_count", false, hp->head_dim_k, 0,
                                hp->head_dim_k);
    rope->freq_base = read_f32(r, "rope.freq_base", false, 10000.0f);
    stretch_base(r, hp, rope);
    float local = arch->local_freq_base > 0.0f ? arch->local_freq_base : rope->freq_base;
    rope->local_freq_base = read_f32(r, "rope.freq_base_swa", false, local);
    refuse_sections(r, hp);
    read_rope_kind(r, rope);
    float factor = read_f32(r, "rope.scale_linear", false, 0.0f);
    factor = read_f32(r, "rope.scaling.factor", false, factor);
    if (rope->kind == KT__ROPE_PLAIN && factor > 0.0f && factor != 1.0f &&
        !kt__gguf_find(r->gguf, key_of(r, "rope.scaling.type"))) {
        rope->kind = KT__ROPE_LINEAR; /* old files give the factor alone */
    }
    bool scaled = rope->kind == KT__ROPE_LINEAR || rope->kind == KT__ROPE_YARN;
    rope->freq_scale = scaled && factor > 0.0f ? 1.0f / factor : 1.0f;
    rope->attn_factor = read_f32(r, "rope.scaling.attn_factor", false, 1.0f);
    bool has_factors = kt__gguf_find_tensor(r->gguf, "rope_factors_long.weight") != NULL;
    if (rope->kind == KT__ROPE_PLAIN && has_factors)
        rope->kind = KT__ROPE_LONGROPE; /* converters write no type */
    rope->ext_factor = 1.0f;
    rope->beta_fast = read_f32(r, "rope.scaling.yarn_beta_fast", false, 32.0f);
    rope->beta_slow = read_f32(r, "rope.scaling.yarn_beta_slow", false, 1.0f);
    rope->orig_ctx = read_int(r, "rope.scaling.original_context_length", false, hp->n_ctx_train, 1,
                              KT__MAX_CTX);
}

/* Mistral 3: the temperature of queries, and what divides YaRN's magnitude. */
static void read_temperature(reader *r, kt__hparams *hp) {
    if (!(hp->features & KT__F_TEMPERATURE)) return;
    hp->temperature = read_f32(r, "attention.temperature_scale", false, 0.0f);
    hp->rope.log_multiplier = read_f32(r, "rope.scaling.yarn_log_multiplier", false, 0.0f);
    if (hp->temperature != 0.0f) check_positive(r, "attention.temperature_scale", hp->temperature);
    if (hp->rope.log_multiplier != 0.0f)
        check_positive(r, "rope.scaling.yarn_log_multiplier", hp->rope.log_multiplier);
}

static void override_rope(const kt_model_params *p, kt__rope_params *rope) {
    if (!p) return;
    if (p->rope_scaling != KT_ROPE_SCALING_MODEL) {
        rope->kind = p->rope_scaling == KT_ROPE_SCALING_NONE     ? KT__ROPE_PLAIN
                     : p->rope_scaling == KT_ROPE_SCALING_LINEAR ? KT__ROPE_LINEAR
                                                                 : KT__ROPE_YARN;
        if (rope->kind == KT__ROPE_PLAIN) rope->freq_scale = 1.0f;
    }
    if (p->rope_freq_base > 0.0f) rope->freq_base = p->rope_freq_base;
    if (p->rope_freq_scale > 0.0f) {
        rope->freq_scale = p->rope_freq_scale;
        if (rope->kind == KT__ROPE_PLAIN) rope->kind = KT__ROPE_LINEAR;
    }
    if (p->yarn_ext_factor >= 0.0f) rope->ext_factor = p->yarn_ext_factor;
    if (p->yarn_attn_factor >= 0.0f) rope->attn_factor = p->yarn_attn_factor;
    if (p->yarn_beta_fast >= 0.0f) rope->beta_fast = p->yarn_beta_fast;
    if (p->yarn_beta_slow >= 0.0f) rope->beta_slow = p->yarn_beta_slow;
    if (p->yarn_orig_ctx > 0) rope->orig_ctx = p->yarn_orig_ctx;
}

static void check_rope(reader *r, const kt__rope_params *rope) {
    if (r->status != KT_OK) return;
    bool ok = rope->n_rot % 2 == 0 && rope->freq_base > 0.0f && rope->local_freq_base > 0.0f &&
              rope->freq_scale > 0.0f && rope->attn_factor > 0.0f && rope->beta_fast > 0.0f &&
              rope->beta_slow > 0.0f;
    if (!ok) {
        r->status = kt__fail(r->err, KT_E_FORMAT,
                             "%s: RoPE parameters out of range (dimensions %d even, base %g > 0, "
                             "scale %g > 0, attention factor %g > 0)",
                             kt__gguf_path(r->gguf), rope->n_rot, (double)rope->freq_base,
                             (double)rope->freq_scale, (double)rope->attn_factor);
    }
}

/* Gemma's 27 B models scale queries by the model's width a head, the others by the head's size. */
static float query_scale(const kt__hparams *hp) {
    bool gemma27 = (hp->features & KT__F_EMBED_SCALE) &&
                   hp->d_model / hp->n_head != hp->head_dim_k &&
                   ((hp->n_layer == 46 && !(hp->features & KT__F_QK_NORM)) ||
                    (hp->n_layer == 62 && (hp->features & KT__F_QK_NORM)));
    float width = gemma27 ? (float)(hp->d_model / hp->n_head) : (float)hp->head_dim_k;
    return 1.0f / sqrtf(width);
}

/* One element a layer: whether it is local. */
static void read_pattern(reader *r, const kt__gguf_kv *kv, kt__hparams *hp) {
    const char *key = key_of(r, "attention.sliding_window_pattern");
    bool flags = kv->elem_type != KT__GGUF_STRING && kv->elem_type != KT__GGUF_F32 &&
                 kv->elem_type != KT__GGUF_F64;
    if (r->status != KT_OK) return;
    if (!flags || kv->count != (uint64_t)hp->n_layer) {
        r->status = kt__fail_at(
            r->err, KT_E_FORMAT, key, kv->file_offset,
            "%s: key '%s' has %llu elements, expected a flag for each of %d layers",
            kt__gguf_path(r->gguf), key, (unsigned long long)kv->count, hp->n_layer);
        return;
    }
    hp->has_pattern = true;
    for (int i = 0; i < hp->n_layer; i++) hp->pattern[i] = kt__gguf_array_i64(kv, (uint64_t)i) != 0;
}

static void read_attention(reader *r, const arch_row *arch, kt__hparams *hp) {
    hp->q_scale = read_f32(r, "attention.scale", false, 0.0f);
    if (hp->q_scale == 0.0f) hp->q_scale = query_scale(hp);
    check_positive(r, "attention.scale", hp->q_scale);
    bool capped = strcmp(hp->arch, "gemma2") == 0;
    hp->attn_softcap = read_f32(r, "attn_logit_softcapping", false, capped ? 50.0f : 0.0f);
    hp->final_softcap = read_f32(r, "final_logit_softcapping", false, capped ? 30.0f : 0.0f);
    hp->window_period = arch->window_period;
    if (arch->window_period > 0) {
        hp->window = read_int(r, "attention.sliding_window", false, 0, 0, INT32_MAX);
        const kt__gguf_kv *kv = kt__gguf_find(r->gguf,
                                              key_of(r, "attention.sliding_window_pattern"));
        if (kv && kv->type == KT__GGUF_ARRAY) {
            read_pattern(r, kv, hp);
        } else if (kv) {
            hp->window_period = (int)read_int(r, "attention.sliding_window_pattern", false,
                                              arch->window_period, 0, KT__MAX_LAYERS);
        }
    }
}

/* Granite's factors. A block's output times r before it is added to x is the same as x in units of r: the embedding
 * over r, the blocks' outputs as they are, and the norms' epsilon over r * r. */
static void read_scales(reader *r, kt__hparams *hp) {
    hp->embed_scale = hp->features & KT__F_EMBED_SCALE ? sqrtf((float)hp->d_model) : 1.0f;
    hp->logit_scale = 1.0f;
    if (hp->features & KT__F_LOGIT_SCALE) {
        hp->logit_scale = read_f32(r, "logit_scale", true, 1.0f);
        check_positive(r, "logit_scale", hp->logit_scale);
    }
    if (!(hp->features & KT__F_SCALES)) return;
    float embedding = read_f32(r, "embedding_scale", false, 1.0f);
    float residual = read_f32(r, "residual_scale", false, 1.0f);
    float divisor = read_f32(r, "logit_scale", true, 1.0f);
    check_positive(r, "embedding_scale", embedding);
    check_positive(r, "residual_scale", residual);
    check_positive(r, "logit_scale", divisor);
    hp->embed_scale = embedding / residual;
    hp->norm_eps /= residual * residual;
    hp->logit_scale = 1.0f / divisor;
    hp->no_rope = !read_bool(r, "rope.scaling.finetuned", true);
}

/* An encoder sees a text in both directions; any architecture may have been made into one. */
static void read_pooling(reader *r, kt__hparams *hp) {
    bool encoder = hp->features & KT__F_ENCODER;
    bool causal = read_bool(r, "attention.causal", !encoder);
    hp->pooling = (kt__pool_kind)read_int(r, "pooling_type", false, KT__POOL_UNSAID, KT__POOL_NONE,
                                          KT__POOL_RANK);
    if (hp->features & KT__F_POSITIONS) hp->no_rope = true;
    if (r->status != KT_OK || causal == !encoder) return;
    if (causal) {
        r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, key_of(r, "attention.causal"), UINT64_MAX,
                                "%s: key '%s' is true, but %s models attend in both directions",
                                kt__gguf_path(r->gguf), key_of(r, "attention.causal"), hp->arch);
    }
    hp->features |= KT__F_ENCODER;
}

/* The vocabulary's size: the token list's length, or the vocab_size key in a file without one. */
static void read_vocab_size(reader *r, kt__hparams *hp) {
    const kt__gguf_kv *tokens = kt__gguf_find(r->gguf, "tokenizer.ggml.tokens");
    int64_t count = tokens && tokens->type == KT__GGUF_ARRAY && tokens->count <= INT32_MAX
                        ? (int64_t)tokens->count
                        : 0;
    if (count > 0) {
        hp->n_vocab = (int)count;
    } else {
        hp->n_vocab = (int)read_int(r, "vocab_size", true, 0, 1, 1 << 22);
    }
}

kt_status kt__hparams_read(const kt__gguf *gguf, const kt_model_params *params, kt__hparams *out,
                           kt_error *err) {
    const arch_row *arch = NULL;
    kt_status status = find_arch(gguf, &arch, err);
    if (status != KT_OK) return status;
    *out = (kt__hparams){.arch = arch->name, .features = arch->features};
    reader r = {.gguf = gguf, .prefix = arch->name, .err = err};
    read_sizes(&r, out);
    check_heads(&r, out);
    read_experts(&r, out);
    read_recurrent(&r, out);
    if (r.status != KT_OK) return r.status;
    read_rope(&r, arch, out);
    read_temperature(&r, out);
    override_rope(params, &out->rope);
    check_rope(&r, &out->rope);
    read_attention(&r, arch, out);
    read_scales(&r, out);
    read_pooling(&r, out);
    read_vocab_size(&r, out);
    return r.status;
}

bool kt__hparams_is_local(const kt__hparams *hp, int layer) {
    if (hp->window <= 0 || hp->window_period <= 0) return false;
    if (hp->has_pattern) return hp->pattern[layer];
    return hp->window_period == 1 || (layer + 1) % hp->window_period != 0;
}

bool kt__hparams_is_rotated(const kt__hparams *hp, int layer) {
    if (hp->no_rope) return false;
    if (hp->features & KT__F_NOPE_GLOBAL && hp->window > 0) return kt__hparams_is_local(hp, layer);
    return !(hp->features & KT__F_NOPE_FOURTH) || (layer + 1) % 4 != 0;
}
