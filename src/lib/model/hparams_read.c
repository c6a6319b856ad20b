#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "model/hparams_read.h"

typedef struct arch_row {
    const char *name;
    kt__features features;
    int window_period;
    float local_freq_base;
} arch_row;

static const arch_row archs[] = {
#define X(name, features, period, base) {#name, features, period, base},
#include "model/arch.def"
#undef X
};

/* What the first files of an architecture say in its place; their keys begin with it. */
typedef struct first_name {
    const char *name, *arch;
} first_name;
static const first_name first_names[] = {{"gemma4_assistant", "gemma4-assistant"}};

kt__features kt__arch_features(const char *arch) {
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (strcmp(archs[i].name, arch) == 0) return archs[i].features;
    return 0;
}

static bool is_name(kt__str name, const char *of) {
    return strlen(of) == name.len && memcmp(of, name.s, name.len) == 0;
}

static kt_status refuse_arch(const kt__gguf *gguf, kt__str name, kt_error *err) {
    if (is_name(name, "clip"))
        return kt__fail_at(err, KT_E_UNSUPPORTED, "general.architecture", UINT64_MAX,
                           "%s is the part of a model that sees pictures (an mmproj file), not a "
                           "language model: give the model's own file, which answers texts without "
                           "it; pictures are not supported",
                           kt__gguf_path(gguf));
    return kt__fail_at(err, KT_E_UNSUPPORTED, "general.architecture", UINT64_MAX,
                       "%s: the architecture '%.*s' is not supported; docs/MODELS.md lists the %zu "
                       "that are",
                       kt__gguf_path(gguf), (int)(name.len < 64 ? name.len : 64), name.s,
                       sizeof archs / sizeof archs[0]);
}

/* prefix: of its keys */
static kt_status find_arch(const kt__gguf *gguf, const arch_row **out, const char **prefix,
                           kt_error *err) {
    kt__str name = {0};
    const first_name *first = NULL;
    KT__STEP(kt__gguf_get_str(gguf, "general.architecture", true, &name, err));
    for (size_t i = 0; i < sizeof first_names / sizeof first_names[0]; i++)
        if (is_name(name, first_names[i].name)) first = &first_names[i];
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        bool found = first ? !strcmp(archs[i].name, first->arch) : is_name(name, archs[i].name);
        if (!found) continue;
        *out = &archs[i];
        *prefix = first ? first->name : archs[i].name;
        return KT_OK;
    }
    return refuse_arch(gguf, name, err);
}

static void read_sizes(kt__key_reader *r, const arch_row *arch, kt__hparams *hp) {
    hp->n_layer = (int)kt__key_int(r, "block_count", true, 0, 1, KT__MAX_LAYERS);
    if (hp->features & (KT__F_DELTA | KT__F_LATENT | KT__F_FREE_CHOICE) && r->status == KT_OK)
        hp->n_mtp = (int)kt__key_int(r, "nextn_predict_layers", false, 0, 0, hp->n_layer - 1);
    hp->n_layer -= hp->n_mtp;
    int most = hp->n_mtp ? KT__MAX_COL / 2 : KT__MAX_COL; /* a block's pairs are two rows long */
    hp->d_model = (int)kt__key_int(r, "embedding_length", true, 0, 1, most);
    kt__hparams_read_assistant(r, hp);
    bool heads = !(hp->features & KT__F_NO_ATTENTION);
    hp->n_head = heads ? (int)kt__key_int(r, "attention.head_count", true, 0, 1, KT__MAX_HEADS) : 1;
    kt__hparams_read_window(r, arch->window_period, hp);
    kt__hparams_read_layers(r, hp);
    hp->n_ctx_train = kt__key_int(r, "context_length", true, 0, 1, KT__MAX_CTX);
    bool centred = hp->features & (KT__F_CENTRED | KT__F_LAYER_NORMS);
    bool either = hp->features &
                  KT__F_ONE_PART; /* Nemotron H's files have both keys, or the first */
    if (centred || either)
        hp->norm_eps = kt__key_f32(r, "attention.layer_norm_epsilon", centred, -1.0f);
    if (!centred)
        hp->norm_eps = kt__key_f32(r, "attention.layer_norm_rms_epsilon", hp->norm_eps <= 0.0f,
                                   hp->norm_eps);
    hp->state_eps = hp->norm_eps;
    int64_t width = heads ? hp->d_model / hp->n_head : 2; /* the least that a page may hold */
    hp->head_dim_k = (int)kt__key_int(r, "attention.key_length", false, width, 1, KT__MAX_HEAD_DIM);
    hp->head_dim_v = (int)kt__key_int(r, "attention.value_length", false, width, 1,
                                      KT__MAX_HEAD_DIM);
    kt__hparams_read_local(r, hp);
}

/* GLM 4.5 norms its heads in its larger size alone, and no key says it. */
static void look_for_head_norms(const kt__gguf *gguf, kt__hparams *hp) {
    if (hp->features & KT__F_MAY_QK_NORM && !kt__gguf_find_tensor(gguf, "blk.0.attn_q_norm.weight"))
        hp->features &= ~KT__F_QK_NORM;
}

static void check_heads(kt__key_reader *r, const kt__hparams *hp, const kt__layer_sizes *of) {
    if (r->status != KT_OK) return;
    const char *path = kt__gguf_path(r->gguf);
    if (hp->n_head % of->n_head_kv != 0) {
        r->status = kt__fail(r->err, KT_E_FORMAT,
                             "%s: %d query heads do not divide into %d key heads", path, hp->n_head,
                             of->n_head_kv);
    } else if (of->head_dim_k < 2 || of->head_dim_k % 2 || of->head_dim_v < 1) {
        r->status = kt__fail(r->err, KT_E_FORMAT,
                             "%s: head sizes %d and %d: expected an even number of at least 2",
                             path, of->head_dim_k, of->head_dim_v);
    } else if ((int64_t)hp->n_head * of->head_dim_k > KT__MAX_COL ||
               (int64_t)hp->n_head * of->head_dim_v > KT__MAX_COL) {
        r->status = kt__fail(r->err, KT_E_LIMIT,
                             "%s: %d heads of %d are over the limit of %d columns", path,
                             hp->n_head, of->head_dim_k, KT__MAX_COL);
    }
}

static void check_sizes(kt__key_reader *r, const kt__hparams *hp) {
    const kt__layer_sizes global = {hp->n_head_kv, hp->head_dim_k, hp->head_dim_v, hp->d_ff};
    check_heads(r, hp, &global);
    if (hp->features & KT__F_LOCAL_HEADS) check_heads(r, hp, &hp->local);
    if (r->status == KT_OK && !(hp->norm_eps >= 0.0f && hp->norm_eps < 1.0f))
        r->status = kt__fail(r->err, KT_E_FORMAT, "%s: norm epsilon %g is out of range",
                             kt__gguf_path(r->gguf), (double)hp->norm_eps);
}

static void read_rope_kind(kt__key_reader *r, kt__rope_params *rope) {
    kt__str kind = {0};
    if (r->status != KT_OK) return;
    r->status = kt__gguf_get_str(r->gguf, kt__key_of(r, "rope.scaling.type"), false, &kind, r->err);
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
        r->err, KT_E_UNSUPPORTED, kt__key_of(r, "rope.scaling.type"), UINT64_MAX,
        "%s: RoPE scaling '%.*s' is not supported (none, linear, yarn, longrope)",
        kt__gguf_path(r->gguf), (int)(kind.len < 64 ? kind.len : 64), kind.s);
}

/* Sections say which pairs a picture's time, line and column rotate. They change nothing for a text, whose
 * positions are the same on each, where the pairs are those of a rotation without them. */
static void read_sections(kt__key_reader *r, kt__hparams *hp) {
    const kt__gguf_kv *kv = NULL;
    if (hp->features & KT__F_DELTA) return;
    if (hp->features & KT__F_AXES) {
        if (r->status == KT_OK)
            r->status = kt__gguf_get_array(r->gguf, kt__key_of(r, "rope.dimension_sections"), false,
                                           KT__GGUF_TYPE_COUNT, &kv, r->err);
        if (kv && !kt__gguf_is_integers(kv))
            kt__key_fail(r, "rope.dimension_sections", "is no list of whole numbers");
        for (uint64_t i = 0; r->status == KT_OK && kv && i < 3 && i < kv->count; i++) {
            int64_t n = kt__gguf_array_i64(kv, i);
            if (n < 0 || n > hp->rope.n_rot / 2)
                kt__key_fail(r, "rope.dimension_sections",
                             "has a section of more pairs than there are");
            hp->rope.sections[i] = (int)n;
        }
        return;
    }
    if (r->status != KT_OK || !kt__gguf_find(r->gguf, kt__key_of(r, "rope.dimension_sections")))
        return;
    r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, r->key, UINT64_MAX,
                            "%s: key '%s' asks for a rotation by sections, which is not supported",
                            kt__gguf_path(r->gguf), r->key);
}

/* Hunyuan's stretch: base * alpha^(d / (d - 2)). */
static void stretch_base(kt__key_reader *r, const kt__hparams *hp, kt__rope_params *rope) {
    if (!(hp->features & KT__F_NORM_ROTATED)) return;
    float alpha = kt__key_f32(r, "rope.scaling.alpha", false, 0.0f);
    if (alpha == 0.0f || rope->n_rot < 4) return;
    kt__key_positive(r, "rope.scaling.alpha", alpha);
    double power = (double)rope->n_rot / (rope->n_rot - 2);
    if (r->status == KT_OK) rope->freq_base *= (float)kt__pow((double)alpha, power);
}

static void read_rope(kt__key_reader *r, const arch_row *arch, kt__hparams *hp) {
    kt__rope_params *rope = &hp->rope;
    rope->n_rot = (int)kt__key_int(r, "rope.dimension_count", false, hp->head_dim_k, 0,
                                   hp->head_dim_k);
    rope->local_n_rot = rope->n_rot;
    if (hp->features & KT__F_LOCAL_HEADS) {
        int most = hp->local.head_dim_k, n = rope->n_rot < most ? rope->n_rot : most;
        rope->local_n_rot = (int)kt__key_int(r, "rope.dimension_count_swa", false, n, 0, most);
    }
    rope->freq_base = kt__key_f32(r, "rope.freq_base", false, 10000.0f);
    stretch_base(r, hp, rope);
    float local = arch->local_freq_base > 0.0f ? arch->local_freq_base : rope->freq_base;
    rope->local_freq_base = kt__key_f32(r, "rope.freq_base_swa", false, local);
    read_sections(r, hp);
    read_rope_kind(r, rope);
    float factor = kt__key_f32(r, "rope.scale_linear", false, 0.0f);
    factor = kt__key_f32(r, "rope.scaling.factor", false, factor);
    if (rope->kind == KT__ROPE_PLAIN && factor > 0.0f && factor != 1.0f &&
        !kt__gguf_find(r->gguf, kt__key_of(r, "rope.scaling.type"))) {
        rope->kind = KT__ROPE_LINEAR; /* old files give the factor alone */
    }
    bool scaled = rope->kind == KT__ROPE_LINEAR || rope->kind == KT__ROPE_YARN;
    rope->freq_scale = scaled && factor > 0.0f ? 1.0f / factor : 1.0f;
    rope->attn_factor = kt__key_f32(r, "rope.scaling.attn_factor", false, 1.0f);
    bool has_factors = kt__gguf_find_tensor(r->gguf, "rope_factors_long.weight") != NULL;
    if (rope->kind == KT__ROPE_PLAIN && has_factors)
        rope->kind = KT__ROPE_LONGROPE; /* converters write no type */
    rope->ext_factor = 1.0f;
    rope->beta_fast = kt__key_f32(r, "rope.scaling.yarn_beta_fast", false, 32.0f);
    rope->beta_slow = kt__key_f32(r, "rope.scaling.yarn_beta_slow", false, 1.0f);
    rope->orig_ctx = kt__key_int(r, "rope.scaling.original_context_length", false, hp->n_ctx_train,
                                 1, KT__MAX_CTX);
}

/* Mistral 3 and Llama 4: the temperature of queries; Mistral 3: what divides YaRN's magnitude. */
static void read_temperature(kt__key_reader *r, kt__hparams *hp) {
    bool chunks = hp->features & KT__F_CHUNKS && hp->window > 0;
    if (!(hp->features & KT__F_TEMPERATURE)) return;
    hp->temperature = kt__key_f32(r, "attention.temperature_scale", false, chunks ? 0.1f : 0.0f);
    if (hp->features & KT__F_CHUNKS)
        hp->temperature_span = kt__key_int(r, "attention.temperature_length", false,
                                           KT__LLAMA4_CHUNK, 1, KT__MAX_CTX);
    hp->rope.log_multiplier = kt__key_f32(r, "rope.scaling.yarn_log_multiplier", false, 0.0f);
    if (hp->temperature != 0.0f)
        kt__key_positive(r, "attention.temperature_scale", hp->temperature);
    if (hp->rope.log_multiplier != 0.0f)
        kt__key_positive(r, "rope.scaling.yarn_log_multiplier", hp->rope.log_multiplier);
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

static void check_rope(kt__key_reader *r, const kt__rope_params *rope) {
    if (r->status != KT_OK) return;
    bool ok = rope->n_rot % 2 == 0 && rope->local_n_rot % 2 == 0 && rope->freq_base > 0.0f &&
              rope->local_freq_base > 0.0f && rope->freq_scale > 0.0f && rope->attn_factor > 0.0f &&
              rope->beta_fast > 0.0f && rope->beta_slow > 0.0f;
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
    if (hp->features & KT__F_V_NORM) return 1.0f;
    bool gemma27 = (hp->features & KT__F_EMBED_SCALE) &&
                   hp->d_model / hp->n_head != hp->head_dim_k &&
                   ((hp->n_layer == 46 && !(hp->features & KT__F_QK_NORM)) ||
                    (hp->n_layer == 62 && (hp->features & KT__F_QK_NORM)));
    float width = gemma27 ? (float)(hp->d_model / hp->n_head) : (float)hp->head_dim_k;
    return 1.0f / sqrtf(width);
}

static void read_attention(kt__key_reader *r, kt__hparams *hp) {
    hp->q_scale = kt__key_f32(r, "attention.scale", false, 0.0f);
    if (hp->q_scale == 0.0f) hp->q_scale = query_scale(hp);
    kt__key_positive(r, "attention.scale", hp->q_scale);
    bool capped = strcmp(hp->arch, "gemma2") == 0;
    hp->attn_softcap = kt__key_f32(r, "attn_logit_softcapping", false, capped ? 50.0f : 0.0f);
    bool final = capped || hp->features & KT__F_STREAMS; /* whose files do not say it */
    hp->final_softcap = kt__key_f32(r, "final_logit_softcapping", false, final ? 30.0f : 0.0f);
}

/* BitNet: what becomes of the gate. */
static void read_gate(kt__key_reader *r, kt__hparams *hp) {
    kt__str kind = {0};
    if (!(hp->features & KT__F_SUB_NORMS) || r->status != KT_OK) return;
    r->status = kt__gguf_get_str(r->gguf, kt__key_of(r, "hidden_act"), false, &kind, r->err);
    if (r->status != KT_OK || kind.len == 0 || is_name(kind, "silu")) return;
    hp->relu2_gate = is_name(kind, "relu2");
    if (!hp->relu2_gate)
        r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, r->key, UINT64_MAX,
                                "%s: key '%s' is '%.*s'; silu and relu2 are supported",
                                kt__gguf_path(r->gguf), r->key,
                                (int)(kind.len < 64 ? kind.len : 64), kind.s);
}

/* Granite's factors. A block's output times r before it is added to x is the same as x in units of
 * r: the embedding over r, the blocks' outputs as they are, and the norms' epsilon over r * r. */
static void read_scales(kt__key_reader *r, kt__hparams *hp) {
    hp->embed_scale = hp->features & KT__F_EMBED_SCALE ? sqrtf((float)hp->d_model) : 1.0f;
    hp->logit_scale = 1.0f;
    if (hp->features & KT__F_LOGIT_SCALE) {
        hp->logit_scale = kt__key_f32(r, "logit_scale", true, 1.0f);
        kt__key_positive(r, "logit_scale", hp->logit_scale);
    }
    if (!(hp->features & KT__F_SCALES)) return;
    float embedding = kt__key_f32(r, "embedding_scale", false, 1.0f);
    float residual = kt__key_f32(r, "residual_scale", false, 1.0f);
    float divisor = kt__key_f32(r, "logit_scale", true, 1.0f);
    kt__key_positive(r, "embedding_scale", embedding);
    kt__key_positive(r, "residual_scale", residual);
    kt__key_positive(r, "logit_scale", divisor);
    hp->embed_scale = embedding / residual;
    hp->norm_eps /= residual * residual;
    hp->logit_scale = 1.0f / divisor;
    hp->no_rope = !kt__key_bool(r, "rope.scaling.finetuned", true);
}

/* An encoder sees a text in both directions; any architecture may have been made into one. */
static void read_pooling(kt__key_reader *r, kt__hparams *hp) {
    bool encoder = hp->features & KT__F_ENCODER;
    bool causal = kt__key_bool(r, "attention.causal", !encoder);
    hp->pooling = (kt__pool_kind)kt__key_int(r, "pooling_type", false, KT__POOL_UNSAID,
                                             KT__POOL_NONE, KT__POOL_RANK);
    if (r->status != KT_OK || causal == !encoder) return;
    if (!causal && hp->features & KT__F_LOCAL_HEADS) { /* its layers share one layer's room */
        kt__key_refuse(r, "attention.causal", 0);
        return;
    }
    if (causal) {
        r->status = kt__fail_at(
            r->err, KT_E_UNSUPPORTED, kt__key_of(r, "attention.causal"), UINT64_MAX,
            "%s: key '%s' is true, but %s models attend in both directions", kt__gguf_path(r->gguf),
            kt__key_of(r, "attention.causal"), hp->arch);
    }
    hp->features |= KT__F_ENCODER;
}

/* The vocabulary's size: the token list's length, or the vocab_size key in a file without one. */
static void read_vocab_size(kt__key_reader *r, kt__hparams *hp) {
    const kt__gguf_kv *tokens = kt__gguf_find(r->gguf, "tokenizer.ggml.tokens");
    int64_t count = tokens && tokens->type == KT__GGUF_ARRAY && tokens->count <= INT32_MAX
                        ? (int64_t)tokens->count
                        : 0;
    if (count > 0) {
        hp->n_vocab = (int)count;
    } else {
        hp->n_vocab = (int)kt__key_int(r, "vocab_size", true, 0, 1, 1 << 22);
    }
}

kt_status kt__hparams_read(const kt__gguf *gguf, const kt_model_params *params, kt__hparams *out,
                           kt_error *err) {
    const arch_row *arch = NULL;
    const char *prefix = NULL;
    KT__STEP(find_arch(gguf, &arch, &prefix, err));
    *out = (kt__hparams){.arch = arch->name, .features = arch->features};
    kt__key_reader r = {.gguf = gguf, .prefix = prefix, .err = err};
    read_sizes(&r, arch, out);
    look_for_head_norms(gguf, out);
    kt__hparams_read_latent(&r, out);
    kt__hparams_read_streams(&r, out);
    check_sizes(&r, out);
    kt__hparams_read_experts(&r, out);
    kt__hparams_read_recurrent(&r, out);
    if (r.status != KT_OK) return r.status;
    read_rope(&r, arch, out);
    read_temperature(&r, out);
    override_rope(params, &out->rope);
    check_rope(&r, &out->rope);
    read_attention(&r, out);
    kt__hparams_scale_latent(&r, out);
    read_scales(&r, out);
    read_gate(&r, out);
    read_pooling(&r, out);
    read_vocab_size(&r, out);
    return r.status;
}

kt__features kt__hparams_features_of(const kt__hparams *hp, int layer) {
    kt__features features = hp->features;
    if (hp->dense[layer]) features &= ~(KT__F_EXPERTS | KT__F_SHARED_EXPERT);
    if (layer > 0) features &= ~KT__F_EMBED_NORM; /* in place of the first layer's norm */
    if (layer >= hp->n_layer) return features | KT__F_MTP;
    bool kept = hp->features & KT__F_STREAMS; /* keys that no layer reads are in the file */
    if (layer >= hp->n_kv_own && !kept) features |= KT__F_SHARED_KV;
    return features;
}

kt__layer_sizes kt__hparams_sizes(const kt__hparams *hp, int layer) {
    kt__layer_sizes sizes = {hp->n_head_kv, hp->head_dim_k, hp->head_dim_v, 0};
    if (hp->features & KT__F_LOCAL_HEADS && kt__hparams_is_local(hp, layer)) sizes = hp->local;
    sizes.d_ff = hp->d_ff_of[layer] ? hp->d_ff_of[layer] : hp->d_ff;
    return sizes;
}

bool kt__hparams_is_rotated(const kt__hparams *hp, int layer) {
    if (hp->no_rope) return false;
    if (hp->features & KT__F_NOPE_GLOBAL && hp->window > 0) return kt__hparams_is_local(hp, layer);
    if (hp->features & KT__F_CHUNKS && hp->window == 0) return true;
    return !(hp->features & KT__F_NOPE_FOURTH) || (layer + 1) % 4 != 0;
}

/* Keys of models with several residual streams. */

/* Of a layer with a gate that is cut: 0.95 of the normal distribution is below. */
enum { CUT_LAYERS = 10 };
#define CUT 1.6448533535003662f

/* One number a layer; what is not finite means that the gate counts everywhere. */
static void read_cuts(kt__key_reader *r, kt__hparams *hp) {
    const char *key = "activation_sparsity_scale";
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, kt__key_of(r, key));
    bool listed = kv && kv->type == KT__GGUF_ARRAY;
    if (kv && (!listed || kv->elem_type != KT__GGUF_F32 || kv->count != (uint64_t)hp->n_layer)) {
        kt__key_fail(r, key, "should have a number for each layer");
        return;
    }
    for (int i = 0; i < hp->n_layer; i++) {
        float cut = listed ? kt__gguf_array_f32(kv, (uint64_t)i) : CUT;
        bool cuts = listed ? isfinite(cut) && fabsf(cut) <= 1e6f : i < CUT_LAYERS;
        hp->gate_cut[i] = cuts ? cut : -INFINITY;
    }
}

/* No key says it. */
static int low_rank(const kt__key_reader *r, const kt__hparams *hp) {
    const kt__gguf_tensor *t = kt__gguf_find_tensor(r->gguf, "blk.0.laurel_l.weight");
    bool sane = t && t->ne[1] >= 1 && t->ne[1] <= (uint64_t)hp->d_model;
    return sane ? (int)t->ne[1] : hp->d_model < 64 ? hp->d_model : 64;
}

void kt__hparams_read_streams(kt__key_reader *r, kt__hparams *hp) {
    if (r->status != KT_OK || !(hp->features & KT__F_STREAMS)) return;
    hp->n_stream = (int)kt__key_int(r, "altup.num_inputs", true, 0, 2, KT__MAX_STREAMS);
    int64_t first = kt__key_int(r, "altup.active_idx", false, 0, 0, hp->n_stream - 1);
    if (first != 0) kt__key_refuse(r, "altup.active_idx", first);
    hp->d_low = low_rank(r, hp);
    read_cuts(r, hp);
}
