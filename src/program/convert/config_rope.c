/* RoPE scaling: config.json's rope_scaling or rope_parameters, in all their spellings. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "convert/config.h"

static const struct {
    const char *name;
    kt__hf_rope_kind kind;
} kinds[] = {{"default", KT__HF_ROPE_PLAIN},
             {"linear", KT__HF_ROPE_LINEAR},
             {"yarn", KT__HF_ROPE_YARN},
             {"llama3", KT__HF_ROPE_LLAMA3},
             {"longrope", KT__HF_ROPE_LONGROPE},
             {"su", KT__HF_ROPE_LONGROPE},
             {"proportional", KT__HF_ROPE_PROPORTIONAL}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static kt_status refuse_rope(const kt__hf_config *c, kt_error *err, const char *name,
                             const char *why) {
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX, "rope scaling, \"%s\": %s", name,
                       why);
}

/* A number of the scaling object; NaN: absent or null. */
static double rope_number(const json_t *rope, const char *name) {
    json_t *value = json_object_get(rope, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* transformers 5 nests the parameters by kind of layer, and moves rope_theta into them; the
 * numbers go to where config_keys.def reads them. */
static json_t *flatten_rope(kt__hf_config *c) {
    json_t *params = json_object_get(c->text, "rope_parameters");
    json_t *full = json_object_get(params, "full_attention");
    json_t *local = json_object_get(json_object_get(params, "sliding_attention"), "rope_theta");
    json_t *rope = json_is_object(full) ? full : json_is_object(params) ? params : NULL;
    if (json_is_number(local)) json_object_set(c->text, "rope_local_base_freq", local);
    if (json_is_number(json_object_get(rope, "rope_theta")))
        json_object_set(c->text, "rope_theta", json_object_get(rope, "rope_theta"));
    if (json_is_number(json_object_get(rope, "partial_rotary_factor")))
        json_object_set(c->text, "partial_rotary_factor",
                        json_object_get(rope, "partial_rotary_factor"));
    if (!rope) rope = json_object_get(c->text, "rope_scaling");
    return json_is_object(rope) ? rope : NULL;
}

static const char *kind_name(const json_t *rope) {
    const char *name = json_string_value(json_object_get(rope, "rope_type"));
    return name ? name : json_string_value(json_object_get(rope, "type"));
}

/* Hunyuan's "dynamic" scaling with an alpha changes nothing but the base; NaN: it is none. */
static double read_stretch(const kt__hf_config *c, const json_t *rope) {
    const char *name = kind_name(rope);
    double alpha = rope_number(rope, "alpha");
    bool used = c->arch == KT__HF_HUNYUAN && name && strcmp(name, "dynamic") == 0;
    return used && alpha >= 1e-6 && alpha <= 1e6 ? alpha : (double)NAN;
}

static kt_status read_kind(kt__hf_config *c, const json_t *rope, kt_error *err) {
    const char *name = kind_name(rope);
    if (!name || !isnan(c->rope.stretch)) return KT_OK;
    for (int i = 0; i < N_KINDS; i++) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        c->rope.kind = kinds[i].kind;
        return KT_OK;
    }
    return kt__fail_at(err, KT_E_UNSUPPORTED, c->path, UINT64_MAX,
                       "RoPE scaling '%.60s' is not supported (linear, yarn, llama3, longrope): "
                       "without it, in a copy of config.json, the model answers within its "
                       "original context",
                       name);
}

static double yarn_magnitude(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * kt__log(factor) + 1.0;
}

/* Readers of GGUF multiply by 1 + 0.1 ln(factor) themselves; what is left is written. */
static double yarn_attn_factor(const json_t *rope, double factor) {
    double given = rope_number(rope, "attention_factor"), mscale = rope_number(rope, "mscale"),
           all = rope_number(rope, "mscale_all_dim");
    if (isnan(given) && mscale > 0.0 && all > 0.0)
        given = yarn_magnitude(factor, mscale) / yarn_magnitude(factor, all);
    return isnan(given) ? (double)NAN : given / yarn_magnitude(factor, 1.0);
}

/* The frequencies of slow pairs are divided by the factor, those of fast pairs stay (Llama 3.1). */
static void fill_llama3(kt__hf_config *c, const json_t *rope) {
    double low = rope_number(rope, "low_freq_factor"), high = rope_number(rope, "high_freq_factor");
    double orig = rope_number(rope, "original_max_position_embeddings"),
           factor = c->rope.factor > 0.0 ? c->rope.factor : 8.0;
    if (!(low > 0.0)) low = 1.0;
    if (!(high >= low)) high = low + 3.0; /* Llama 4 has both alike: nothing is between */
    if (!(orig > 0.0)) orig = 8192.0;
    c->rope.n_factors = (int)(c->head_dim / 2);
    for (int i = 0; i < c->rope.n_factors; i++) {
        double wave = 2.0 * 3.14159265358979323846 *
                      kt__pow(c->rope_theta, 2.0 * i / (double)c->head_dim);
        double smooth = high > low ? (orig / wave - low) / (high - low) : 1.0;
        double divisor = wave < orig / high  ? 1.0
                         : wave > orig / low ? factor
                                             : 1.0 / ((1.0 - smooth) / factor + smooth);
        c->rope.factors[i] = (float)divisor;
    }
}

/* A share of each head's pairs is rotated, as if all were; the others are rotated so slowly that they
 * stay. */
static kt_status read_proportional(kt__hf_config *c, const json_t *rope, kt_error *err) {
    json_t *said = json_object_get(c->text, "partial_rotary_factor");
    double share = json_is_number(said) ? json_number_value(said) : rope ? 1.0 : 0.25;
    if (!(c->arch & KT__HF_GEMMA4S))
        return refuse_rope(c, err, "rope_type", "proportional is expected of gemma4 models alone");
    if (rope && c->rope.kind == KT__HF_ROPE_PLAIN && share == 1.0) return KT_OK;
    if (c->rope.kind != KT__HF_ROPE_PLAIN && c->rope.kind != KT__HF_ROPE_PROPORTIONAL)
        return refuse_rope(c, err, "rope_type", "proportional is expected of a gemma4 model");
    if (!(share > 0.0 && share <= 1.0))
        return refuse_rope(c, err, "partial_rotary_factor", "a number up to 1 is expected");
    c->rope.kind = KT__HF_ROPE_PROPORTIONAL;
    c->rope.n_factors = (int)(c->head_dim / 2);
    int64_t n = (int64_t)(share * (double)c->head_dim / 2.0);
    float factor = c->rope.factor > 0.0 ? (float)c->rope.factor : 1.0f;
    for (int i = 0; i < c->rope.n_factors; i++) c->rope.factors[i] = i < n ? factor : 1e30f;
    return KT_OK;
}

static kt_status read_list(const kt__hf_config *c, const json_t *rope, const char *name, float *out,
                           kt_error *err) {
    json_t *list = json_object_get(rope, name);
    if (json_array_size(list) != (size_t)c->n_rot / 2)
        return kt__fail_at(err, KT_E_FORMAT, c->path, UINT64_MAX,
                           "rope scaling, \"%s\" has %zu numbers; %lld are expected", name,
                           json_array_size(list), (long long)(c->n_rot / 2));
    for (size_t i = 0; i < json_array_size(list); i++) {
        out[i] = (float)json_number_value(json_array_get(list, i));
        if (!(out[i] > 0.0f && out[i] < 1e30f))
            return refuse_rope(c, err, name, "positive numbers are expected");
    }
    return KT_OK;
}

/* Longrope scales attention by sqrt(1 + ln s / ln L) (Ding et al. 2024). */
static kt_status read_longrope(kt__hf_config *c, const json_t *rope, kt_error *err) {
    if (c->orig_ctx == KT__HF_NONE)
        return refuse_rope(c, err, "original_max_position_embeddings", "is missing");
    KT__STEP(read_list(c, rope, "long_factor", c->rope.factors, err));
    KT__STEP(read_list(c, rope, "short_factor", c->rope.short_factors, err));
    c->rope.n_factors = (int)(c->n_rot / 2);
    double stretch = (double)c->n_ctx / (double)c->orig_ctx;
    double given = rope_number(rope, "attention_factor");
    c->rope.attn_factor = given > 0.0 ? given
                          : stretch <= 1.0
                              ? 1.0
                              : sqrt(1.0 + kt__log(stretch) / kt__log((double)c->orig_ctx));
    return KT_OK;
}

kt_status kt__hf_rope_read(kt__hf_config *c, kt_error *err) {
    c->rope = (kt__hf_rope){.orig_ctx = KT__HF_NONE,
                            .attn_factor = (double)NAN,
                            .stretch = (double)NAN,
                            .temperature = (double)NAN,
                            .log_multiplier = (double)NAN};
    json_t *rope = c->arch & KT__HF_BERTS ? NULL : flatten_rope(c);
    if (!rope) return KT_OK;
    c->rope.factor = rope_number(rope, "factor");
    c->rope.beta_fast = rope_number(rope, "beta_fast");
    c->rope.beta_slow = rope_number(rope, "beta_slow");
    c->rope.stretch = read_stretch(c, rope);
    double orig = rope_number(rope, "original_max_position_embeddings");
    if (orig >= 1.0 && orig <= 1 << 24) c->rope.orig_ctx = (int64_t)orig;
    return read_kind(c, rope, err);
}

/* Ministral 3: queries grow with their position, and what divides the magnitude has a key. */
static kt_status read_ministral(kt__hf_config *c, const json_t *rope, kt_error *err) {
    double beta = rope_number(rope, "llama_4_scaling_beta"), mscale = rope_number(rope, "mscale"),
           all = rope_number(rope, "mscale_all_dim");
    if (c->rope.kind != KT__HF_ROPE_YARN)
        return refuse_rope(c, err, "rope_type", "yarn is expected of a mistral3 model");
    if (beta != 0.0 && !(beta >= 1e-6 && beta <= 1e6))
        return refuse_rope(c, err, "llama_4_scaling_beta", "0, or 1e-6 to 1e6, is expected");
    if (beta != 0.0) c->rope.temperature = beta;
    if (isnan(rope_number(rope, "attention_factor")) && mscale == 1.0 && all >= 1e-6 &&
        all <= 1e6) {
        c->rope.log_multiplier = all;
        c->rope.attn_factor = (double)NAN;
    }
    return KT_OK;
}

/* Attention over latent vectors: what divides the magnitude of the rotation is in the scale of
 * queries. */
static kt_status read_latent(kt__hf_config *c, const json_t *rope, kt_error *err) {
    double mscale = rope_number(rope, "mscale"), all = rope_number(rope, "mscale_all_dim");
    if (c->rope.kind == KT__HF_ROPE_PLAIN) return KT_OK;
    if (c->rope.kind != KT__HF_ROPE_YARN)
        return refuse_rope(c, err, "rope_type", "yarn is expected of a deepseek2 model");
    if (!(all > 0.0) || mscale != all)
        return refuse_rope(c, err, "mscale_all_dim", "as much as mscale is expected");
    c->rope.log_multiplier = 0.1 * all;
    if (c->rope.orig_ctx == KT__HF_NONE) c->rope.orig_ctx = c->n_ctx;
    return KT_OK;
}

kt_status kt__hf_rope_finish(kt__hf_config *c, kt_error *err) {
    json_t *rope = c->arch & KT__HF_BERTS ? NULL : flatten_rope(c);
    bool scaled = c->rope.kind == KT__HF_ROPE_LINEAR || c->rope.kind == KT__HF_ROPE_YARN;
    if (scaled && !(c->rope.factor >= 1.0 && c->rope.factor <= 1e6))
        return refuse_rope(c, err, "factor", "a number from 1 to 1000000 is expected");
    if (c->arch == KT__HF_DEEPSEEK) return read_latent(c, rope, err);
    if (c->arch & KT__HF_GEMMA4S || c->rope.kind == KT__HF_ROPE_PROPORTIONAL)
        return read_proportional(c, rope, err);
    if (c->rope.kind == KT__HF_ROPE_LLAMA3) fill_llama3(c, rope);
    if (c->rope.kind == KT__HF_ROPE_YARN) {
        c->rope.attn_factor = yarn_attn_factor(rope, c->rope.factor);
        if (c->rope.orig_ctx == KT__HF_NONE) c->rope.orig_ctx = c->n_ctx;
    }
    if (!isnan(c->rope.stretch) && c->head_dim > 2)
        c->rope_theta *= kt__pow(c->rope.stretch, (double)c->head_dim / (double)(c->head_dim - 2));
    if (c->arch == KT__HF_MISTRAL3) return read_ministral(c, rope, err);
    if (c->arch == KT__HF_PHI3 && c->rope.orig_ctx != KT__HF_NONE) c->orig_ctx = c->rope.orig_ctx;
    if (c->rope.kind == KT__HF_ROPE_LONGROPE) return read_longrope(c, rope, err);
    return KT_OK;
}

/* ---- writing ---- */

static const char *rope_key(const kt__hf_config *c, const char *suffix, char out[128]) {
    snprintf(out, 128, "%s.rope.scaling.%s", c->arch_name, suffix);
    return out;
}

static void put_number(const kt__hf_config *c, kt__gguf_writer *w, const char *suffix,
                       double value) {
    char key[128];
    if (!isnan(value)) kt__gguf_put_f32(w, rope_key(c, suffix, key), (float)value);
}

void kt__hf_rope_put(const kt__hf_config *c, kt__gguf_writer *w) {
    static const char *const names[] = {[KT__HF_ROPE_LINEAR] = "linear",
                                        [KT__HF_ROPE_YARN] = "yarn",
                                        [KT__HF_ROPE_LONGROPE] = "longrope"};
    char key[128];
    const kt__hf_rope *r = &c->rope;
    bool scaled = r->kind == KT__HF_ROPE_LINEAR || r->kind == KT__HF_ROPE_YARN;
    if (scaled || r->kind == KT__HF_ROPE_LONGROPE)
        kt__gguf_put_str(w, rope_key(c, "type", key), names[r->kind]);
    if (scaled) put_number(c, w, "factor", r->factor);
    put_number(c, w, "attn_factor", r->attn_factor);
    put_number(c, w, "yarn_log_multiplier", r->log_multiplier);
    snprintf(key, sizeof key, "%s.attention.temperature_scale", c->arch_name);
    if (!isnan(r->temperature)) kt__gguf_put_f32(w, key, (float)r->temperature);
    if (r->kind == KT__HF_ROPE_YARN) {
        kt__gguf_put_u32(w, rope_key(c, "original_context_length", key), (uint32_t)r->orig_ctx);
        put_number(c, w, "yarn_beta_fast", r->beta_fast);
        put_number(c, w, "yarn_beta_slow", r->beta_slow);
    } else if (c->arch == KT__HF_PHI3 && c->orig_ctx != KT__HF_NONE) {
        kt__gguf_put_u32(w, rope_key(c, "original_context_length", key), (uint32_t)c->orig_ctx);
    }
}
