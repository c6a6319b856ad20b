/* A small model file written by the test itself: any architecture's tensors in f32 with seeded
 * weights, with hooks to leave out or spoil one. */
#ifndef KT_TESTS_MODEL_FIXTURE_H
#define KT_TESTS_MODEL_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"
#include "support.h"

typedef enum fixture_vocab { FIXTURE_NO_VOCAB, FIXTURE_SPM, FIXTURE_BPE } fixture_vocab;

typedef struct fixture_spec {
    const char *arch;
    int n_layer, d_model, d_ff, n_head, n_head_kv, head_dim, n_vocab;
    int window;      /* 0: no key; -1: the key says that there is none */
    float scales[4]; /* of embedding, residual, attention, logits; 0: no key */
    int n_rot;       /* 0: head_dim, and no key */
    int n_expert, n_used, ff_expert, ff_shared; /* 0: none */
    bool oai;                                   /* gpt-oss: biases, sinks, the other norm's name */
    bool fused_experts;                         /* gate and up of an expert in one tensor */
    int conv_width, attention_every; /* recurrent layers, all but every so many-th; 0: none */
    int n_state_key, n_state_value, state_dim; /* of delta nets; 0: short convolutions */
    int state_rows;                            /* of Mamba-2; 0: there is none */
    bool both, delta_grouped, relu2;
    int ff_every; /* Nemotron H: every so many-th layer is a feed-forward part alone; 0: none */
    int q_rank, kv_rank, head_dim_v; /* latent attention; kv_rank 0: none. n_rot of head_dim */
    int gating, dense_lead, n_group, n_group_used; /* 0: no key */
    int expert_step;                               /* every so many-th layer has experts; 0: all */
    bool pick_bias, shared_whole, shares_normed;
    /* Gemma 4: with a pattern, heads of local layers; the last layers without keys and values, and their
     * feed-forward's width; each layer's own embeddings; layers without a window have no attn_v */
    int local_head_kv, local_head_dim, n_kv_shared, ff_shared_kv, layer_input;
    bool k_is_v, branches;
    int d_host;    /* of Gemma 4's assistant: d_model of its model; 0: it is none */
    int n_mtp;     /* blocks after the layers that propose tokens, */
    bool mtp_ends; /* with embeddings and a head of their own */
    int step_rank; /* Mamba: of its steps; 0: it is not */
    int n_stream,
        low; /* Gemma 3n: residual streams, and the rank of a part besides attention; 0: one */
    bool sub_norms;    /* BitNet: norms within blocks, and factors of matrices */
    int n_suppressed;  /* elements of the list of tokens that are never chosen: 5, 9, -1, 100000 */
    int n_pattern;     /* elements of the window's pattern: every other layer is local */
    float temperature; /* with an original context of 16; 0: no key */
    bool qkv_bias, qk_norm, post_norm, fused, fused_glu, tied, no_rope, no_pre_norm, qk_norm_rows,
        parallel, layer_norm;
    bool renamed;         /* GLM 4.5: the feed-forward's norm is post_attention_norm */
    bool all_bias;        /* every matrix that is no embedding has a bias */
    fixture_vocab vocab;  /* of n_vocab tokens, with a chat template */
    const char *key;      /* after the architecture's name: a key of 1 that no file should have */
    int key_value;        /* of that key; 0: 1 */
    const char *skip;     /* tensor to leave out */
    const char *misshape; /* tensor to give one column more */
    const char *mistype;  /* tensor to declare as I8 */
    const char *poison;   /* tensor whose first value is NaN */
    const char *extra;    /* a vector of d_model that no architecture has */
} fixture_spec;

static inline float fixture_weight(uint32_t *state) {
    lcg(state);
    return ((float)(*state >> 8) / 8388608.0f - 1.0f) * 0.3f;
}

typedef struct fixture_tensor {
    char name[48];
    uint64_t ne[3];
    bool norm;
} fixture_tensor;

static inline void fixture_add(fixture_tensor *list, int *n, const char *name, int cols, int rows,
                               bool norm) {
    snprintf(list[*n].name, sizeof list[*n].name, "%s", name);
    list[*n].ne[0] = (uint64_t)cols;
    list[*n].ne[1] = (uint64_t)rows;
    list[*n].ne[2] = 1;
    list[(*n)++].norm = norm;
}

static inline void fixture_add_experts(const fixture_spec *s, fixture_tensor *list, int *n, int i) {
    char name[48];
    int d = s->d_model, ff = s->ff_expert, ff_shared = s->ff_shared;
#define ADD(suffix, cols, rows, depth)                    \
    (snprintf(name, sizeof name, "blk.%d.%s", i, suffix), \
     fixture_add(list, n, name, cols, rows, false), list[*n - 1].ne[2] = (uint64_t)(depth))
    ADD("ffn_gate_inp.weight", d, s->n_expert, 1);
    if (s->pick_bias) ADD("exp_probs_b.bias", s->n_expert, 1, 1);
    if (s->relu2) {
        ADD("ffn_up_exps.weight", d, ff, s->n_expert);
    } else if (s->fused_experts) {
        ADD("ffn_gate_up_exps.weight", d, 2 * ff, s->n_expert);
    } else {
        ADD("ffn_gate_exps.weight", d, ff, s->n_expert);
        ADD("ffn_up_exps.weight", d, ff, s->n_expert);
    }
    ADD("ffn_down_exps.weight", ff, d, s->n_expert);
    if (s->oai) {
        ADD("ffn_gate_inp.bias", s->n_expert, 1, 1);
        ADD("ffn_gate_exps.bias", ff, s->n_expert, 1);
        ADD("ffn_up_exps.bias", ff, s->n_expert, 1);
        ADD("ffn_down_exps.bias", d, s->n_expert, 1);
    }
    if (!ff_shared) return;
    if (!s->shared_whole) ADD("ffn_gate_inp_shexp.weight", d, 1, 1);
    if (!s->relu2) ADD("ffn_gate_shexp.weight", d, ff_shared, 1);
    ADD("ffn_up_shexp.weight", d, ff_shared, 1);
    ADD("ffn_down_shexp.weight", ff_shared, d, 1);
#undef ADD
}

static inline bool fixture_is_ff(const fixture_spec *s, int layer) {
    return s->ff_every && (layer + 1) % s->ff_every == 0;
}

static inline bool fixture_has_experts(const fixture_spec *s, int layer) {
    bool skipped = s->expert_step && (layer + 1) % s->expert_step != 0;
    return s->n_expert && layer >= s->dense_lead && !skipped;
}

static inline bool fixture_is_recurrent(const fixture_spec *s, int layer) {
    if (fixture_is_ff(s, layer) || layer >= s->n_layer) return false;
    return s->attention_every && (layer + 1) % s->attention_every != 0;
}

static inline void fixture_add_scan(const fixture_spec *s, fixture_tensor *list, int *n, int i) {
    char name[48];
    int d = s->d_model, inner = s->n_state_value, dim = s->state_dim;
#define ADD(suffix, cols, rows, norm)                     \
    (snprintf(name, sizeof name, "blk.%d.%s", i, suffix), \
     fixture_add(list, n, name, cols, rows, norm))
    ADD("ssm_in.weight", d, 2 * inner, false);
    ADD("ssm_conv1d.weight", s->conv_width, inner, false);
    ADD("ssm_conv1d.bias", inner, 1, false);
    ADD("ssm_x.weight", inner, s->step_rank + 2 * dim, false);
    ADD("ssm_dt.weight", s->step_rank, inner, false);
    ADD("ssm_dt.bias", inner, 1, false);
    ADD("ssm_a", dim, inner, false);
    ADD("ssm_d", inner, 1, true);
    ADD("ssm_out.weight", inner, d, false);
#undef ADD
}

static inline void fixture_add_recurrent(const fixture_spec *s, fixture_tensor *list, int *n,
                                         int i) {
    char name[48];
    int d = s->d_model, dim = s->state_dim, heads = s->n_state_value;
    if (s->step_rank) {
        fixture_add_scan(s, list, n, i);
        return;
    }
    int groups = s->n_state_key, inner = heads * (s->state_rows ? s->state_rows : dim);
    int channels = 2 * groups * dim + inner;
#define ADD(suffix, cols, rows, norm)                     \
    (snprintf(name, sizeof name, "blk.%d.%s", i, suffix), \
     fixture_add(list, n, name, cols, rows, norm))
    if (dim == 0) {
        ADD("shortconv.in_proj.weight", d, 3 * d, false);
        ADD("shortconv.conv.weight", s->conv_width, d, false);
        ADD("shortconv.out_proj.weight", d, d, false);
        return;
    }
    if (s->state_rows) {
        ADD("ssm_in.weight", d, inner + channels + heads, false);
        ADD("ssm_conv1d.weight", s->conv_width, channels, false);
        ADD("ssm_conv1d.bias", channels, 1, false);
        ADD("ssm_dt.bias", heads, 1, false);
        ADD("ssm_a", 1, heads, false);
        ADD("ssm_d", 1, heads, false);
        if (!s->both) ADD("ssm_norm.weight", inner / groups, groups, true);
        ADD("ssm_out.weight", inner, d, false);
        return;
    }
    ADD("attn_qkv.weight", d, channels, false);
    ADD("attn_gate.weight", d, inner, false);
    if (s->delta_grouped) {
        ADD("ssm_ba.weight", d, 2 * heads, false);
    } else {
        ADD("ssm_alpha.weight", d, heads, false);
        ADD("ssm_beta.weight", d, heads, false);
    }
    ADD("ssm_conv1d.weight", s->conv_width, channels, false);
    ADD("ssm_a", heads, 1, false);
    ADD("ssm_dt.bias", heads, 1, false);
    ADD("ssm_norm.weight", dim, 1, true);
    ADD("ssm_out.weight", inner, d, false);
#undef ADD
}

static inline void fixture_add_latent(const fixture_spec *s, fixture_tensor *list, int *n, int i) {
    char name[48];
    int d = s->d_model, q = s->n_head * s->head_dim, plain = s->head_dim - s->n_rot;
#define ADD(suffix, cols, rows, norm)                     \
    (snprintf(name, sizeof name, "blk.%d.%s", i, suffix), \
     fixture_add(list, n, name, cols, rows, norm))
    if (s->q_rank) {
        ADD("attn_q_a.weight", d, s->q_rank, false);
        ADD("attn_q_a_norm.weight", s->q_rank, 1, true);
    }
    ADD(s->q_rank ? "attn_q_b.weight" : "attn_q.weight", s->q_rank ? s->q_rank : d, q, false);
    ADD("attn_kv_a_mqa.weight", d, s->kv_rank + s->n_rot, false);
    ADD("attn_kv_a_norm.weight", s->kv_rank, 1, true);
    ADD("attn_k_b.weight", plain, s->kv_rank, false);
    list[*n - 1].ne[2] = (uint64_t)s->n_head;
    ADD("attn_v_b.weight", s->kv_rank, s->head_dim_v, false);
    list[*n - 1].ne[2] = (uint64_t)s->n_head;
    ADD("attn_output.weight", s->n_head * s->head_dim_v, d, false);
#undef ADD
}

static inline bool fixture_is_gemma4(const fixture_spec *s) {
    return s->local_head_kv > 0;
}

/* Of the pattern. */
static inline bool fixture_is_local(const fixture_spec *s, int layer) {
    return s->n_pattern && layer % 2 == 0;
}

static inline bool fixture_shares_kv(const fixture_spec *s, int layer) {
    return layer >= s->n_layer - s->n_kv_shared && layer < s->n_layer;
}

static inline int fixture_head_dim(const fixture_spec *s, int layer) {
    bool own = fixture_is_gemma4(s) && fixture_is_local(s, layer);
    return own ? s->local_head_dim : s->head_dim;
}

static inline int fixture_kv_heads(const fixture_spec *s, int layer) {
    bool own = fixture_is_gemma4(s) && fixture_is_local(s, layer);
    return own ? s->local_head_kv : s->n_head_kv;
}

static inline int fixture_ff(const fixture_spec *s, int layer) {
    return s->ff_shared_kv && fixture_shares_kv(s, layer) ? s->ff_shared_kv : s->d_ff;
}

enum { FIXTURE_FACTORS = 7 };
static const char *const fixture_factors[FIXTURE_FACTORS] = {
    "attn_q.scale",   "attn_k.scale", "attn_v.scale",  "attn_output.scale",
    "ffn_gate.scale", "ffn_up.scale", "ffn_down.scale"};

/* What a layer of Gemma 4 has after its feed-forward. */
static inline void fixture_add_end(const fixture_spec *s, fixture_tensor *list, int *n, int i) {
    char name[48];
#define ADD(suffix, cols, rows, norm)                     \
    (snprintf(name, sizeof name, "blk.%d.%s", i, suffix), \
     fixture_add(list, n, name, cols, rows, norm))
    if (s->branches) {
        ADD("post_ffw_norm_1.weight", s->d_model, 1, true);
        ADD("pre_ffw_norm_2.weight", s->d_model, 1, true);
        ADD("post_ffw_norm_2.weight", s->d_model, 1, true);
        ADD("ffn_gate_inp.scale", s->d_model, 1, true);
        ADD("ffn_down_exps.scale", s->n_expert, 1, true);
        ADD("post_ffw_norm.weight", s->d_model, 1, true);
    }
    if (s->layer_input) {
        ADD("inp_gate.weight", s->d_model, s->layer_input, false);
        ADD("proj.weight", s->layer_input, s->d_model, false);
        ADD("post_norm.weight", s->d_model, 1, true);
    }
    if (!s->n_stream) ADD("layer_output_scale.weight", 1, 1, true);
#undef ADD
}

enum { FIXTURE_CUTS = 3 }; /* layers whose gates are cut */

static inline void fixture_add_streams(const fixture_spec *s, fixture_tensor *list, int *n, int i) {
    char name[48];
    int d = s->d_model, k = s->n_stream;
#define ADD(suffix, cols, rows, norm)                     \
    (snprintf(name, sizeof name, "blk.%d.%s", i, suffix), \
     fixture_add(list, n, name, cols, rows, norm))
    if (k == 0) return;
    ADD("altup_router_norm.weight", d, 1, true);
    ADD("altup_router.weight", d, k, false);
    ADD("altup_predict_coef.weight", k, k * k, false);
    ADD("altup_correct_coef.weight", k, k, false);
    ADD("altup_correct_scale.weight", d, 1, true);
    ADD("laurel_l.weight", d, s->low, false);
    ADD("laurel_r.weight", s->low, d, false);
    ADD("laurel_post_norm.weight", d, 1, true);
#undef ADD
}

/* Of an assistant; the first files had other names. */
static inline bool fixture_is_first(const fixture_spec *s) {
    return strcmp(s->arch, "gemma4_assistant") == 0;
}

static inline const char *fixture_host_in(const fixture_spec *s) {
    return fixture_is_first(s) ? "mtp.pre_projection.weight" : "nextn.pre_projection.weight";
}

static inline const char *fixture_host_out(const fixture_spec *s) {
    return fixture_is_first(s) ? "mtp.post_projection.weight" : "nextn.post_projection.weight";
}

/* What the block that proposes tokens has besides a layer. */
static inline void fixture_add_mtp(const fixture_spec *s, fixture_tensor *list, int *n, int i) {
    char name[48];
    int d = s->d_model;
#define ADD(suffix, cols, rows, norm)                     \
    (snprintf(name, sizeof name, "blk.%d.%s", i, suffix), \
     fixture_add(list, n, name, cols, rows, norm))
    ADD("nextn.enorm.weight", d, 1, true);
    ADD("nextn.hnorm.weight", d, 1, true);
    ADD("nextn.eh_proj.weight", 2 * d, d, false);
    ADD("nextn.shared_head_norm.weight", d, 1, true);
    if (!s->mtp_ends) return;
    ADD("nextn.embed_tokens.weight", d, s->n_vocab, false);
    ADD("nextn.shared_head_head.weight", d, s->n_vocab, false);
#undef ADD
}

static inline int fixture_tensors(const fixture_spec *s, fixture_tensor *list) {
    int n = 0, inputs = s->layer_input * s->n_layer;
    fixture_add(list, &n, "token_embd.weight", s->d_model, s->n_vocab, false);
    if (inputs) {
        fixture_add(list, &n, "per_layer_token_embd.weight", inputs, s->n_vocab, false);
        fixture_add(list, &n, "per_layer_model_proj.weight", s->d_model, inputs, false);
        fixture_add(list, &n, "per_layer_proj_norm.weight", s->layer_input, 1, true);
    }
    if (s->n_stream) {
        fixture_add(list, &n, "altup_proj.weight", s->d_model, s->d_model, false);
        list[n - 1].ne[2] = (uint64_t)(s->n_stream - 1);
        fixture_add(list, &n, "altup_unembd_proj.weight", s->d_model, s->d_model, false);
        list[n - 1].ne[2] = (uint64_t)(s->n_stream - 1);
    }
    if (s->d_host) {
        fixture_add(list, &n, fixture_host_in(s), 2 * s->d_host, s->d_model, false);
        fixture_add(list, &n, fixture_host_out(s), s->d_model, s->d_host, false);
    }
    if (!s->tied) fixture_add(list, &n, "output.weight", s->d_model, s->n_vocab, false);
    if (s->all_bias) fixture_add(list, &n, "output.bias", s->n_vocab, 1, false);
    bool conv = s->conv_width && !s->state_dim, gated = s->state_dim && !s->state_rows;
    fixture_add(list, &n, conv ? "token_embd_norm.weight" : "output_norm.weight", s->d_model, 1,
                true);
    for (int i = 0; i < s->n_layer + s->n_mtp; i++) {
        char name[48];
        int hd = fixture_head_dim(s, i), q = s->n_head * hd, kv = fixture_kv_heads(s, i) * hd;
        int ff = fixture_ff(s, i);
        bool shares = fixture_shares_kv(s, i) && !s->n_stream,
             no_v = s->k_is_v && !fixture_is_local(s, i);
#define ADD(suffix, cols, rows, norm)                     \
    (snprintf(name, sizeof name, "blk.%d.%s", i, suffix), \
     fixture_add(list, &n, name, cols, rows, norm))
        if (i >= s->n_layer) fixture_add_mtp(s, list, &n, i);
        if (!s->no_pre_norm) ADD("attn_norm.weight", s->d_model, 1, true);
        if (fixture_is_ff(s, i)) goto feed_forward;
        if (s->both || fixture_is_recurrent(s, i)) fixture_add_recurrent(s, list, &n, i);
        if (fixture_is_recurrent(s, i)) goto feed_forward;
        if (s->kv_rank) {
            fixture_add_latent(s, list, &n, i);
            goto feed_forward;
        }
        if (s->fused) {
            ADD("attn_qkv.weight", s->d_model, q + 2 * kv, false);
        } else {
            ADD("attn_q.weight", s->d_model, gated ? 2 * q : q, false);
            if (!shares) ADD("attn_k.weight", s->d_model, kv, false);
            if (!shares && !no_v) ADD("attn_v.weight", s->d_model, kv, false);
        }
        if (s->all_bias && s->fused) {
            ADD("attn_qkv.bias", q + 2 * kv, 1, false);
        } else if (s->qkv_bias || s->all_bias) {
            ADD("attn_q.bias", q, 1, false);
            ADD("attn_k.bias", kv, 1, false);
            ADD("attn_v.bias", kv, 1, false);
        }
        if (s->qk_norm) {
            ADD("attn_q_norm.weight", hd, 1, true);
            if (!shares) ADD("attn_k_norm.weight", hd, 1, true);
        }
        if (s->qk_norm_rows) {
            ADD("attn_q_norm.weight", q, 1, true);
            ADD("attn_k_norm.weight", kv, 1, true);
        }
        ADD("attn_output.weight", q, s->d_model, false);
        if (s->sub_norms) {
            ADD("attn_sub_norm.weight", q, 1, true);
            ADD("ffn_sub_norm.weight", ff, 1, true);
            for (int k = 0; k < FIXTURE_FACTORS; k++) ADD(fixture_factors[k], 1, 1, true);
        }
        if (s->all_bias || s->oai) ADD("attn_output.bias", s->d_model, 1, false);
        if (s->oai) ADD("attn_sinks.weight", s->n_head, 1, false);
    feed_forward:
        if (s->oai || gated || s->renamed) ADD("post_attention_norm.weight", s->d_model, 1, true);
        if (s->post_norm) ADD("post_attention_norm.weight", s->d_model, 1, true);
        if (s->ff_every && !fixture_is_ff(s, i)) continue;
        if (s->both) ADD("ffn_norm", s->d_model, 1, true);
        bool other = s->oai || gated || s->renamed || s->both || s->ff_every;
        if (!s->no_pre_norm && !s->parallel && !other) ADD("ffn_norm.weight", s->d_model, 1, true);
        if (fixture_has_experts(s, i)) {
            fixture_add_experts(s, list, &n, i);
            if (!s->branches) continue;
        }
        bool fused = s->fused || s->fused_glu;
        if (!fused && !s->relu2) ADD("ffn_gate.weight", s->d_model, ff, false);
        ADD("ffn_up.weight", s->d_model, fused ? 2 * ff : ff, false);
        ADD("ffn_down.weight", ff, s->d_model, false);
        if (s->all_bias) {
            if (!fused) ADD("ffn_gate.bias", s->d_ff, 1, false);
            ADD("ffn_up.bias", fused ? 2 * s->d_ff : s->d_ff, 1, false);
            ADD("ffn_down.bias", s->d_model, 1, false);
        }
        if (s->post_norm && !s->branches) ADD("post_ffw_norm.weight", s->d_model, 1, true);
        if (fixture_is_gemma4(s)) fixture_add_end(s, list, &n, i);
        fixture_add_streams(s, list, &n, i);
#undef ADD
    }
    if (s->extra) fixture_add(list, &n, s->extra, s->d_model, 1, true);
    return n;
}

static inline bool fixture_is(const char *wanted, const char *name) {
    return wanted && strcmp(wanted, name) == 0;
}

static inline void fixture_header(const fixture_spec *s, kt__gguf_writer *w) {
    char key[96];
#define PUT(suffix, value)                                \
    (snprintf(key, sizeof key, "%s.%s", s->arch, suffix), \
     kt__gguf_put_u32(w, key, (uint32_t)(value)))
#define PUT_UNLESS_GIVEN(suffix, value) \
    if (!fixture_is(s->key, suffix)) PUT(suffix, value)
    kt__gguf_put_str(w, "general.architecture", s->arch);
    PUT("block_count", s->n_layer + s->n_mtp);
    if (s->n_mtp) PUT("nextn_predict_layers", s->n_mtp);
    bool first = fixture_is_first(s);
    if (s->d_host && !first) PUT_UNLESS_GIVEN("nextn_predict_layers", s->n_layer);
    if (s->d_host && !first) PUT_UNLESS_GIVEN("embedding_length_out", s->d_host);
    if (first) PUT("n_embd_backbone", s->d_host);
    PUT("context_length", 1024);
    PUT("embedding_length", s->d_model);
    int32_t n_kv[8], n_ff[8];
    for (int i = 0; i < 8; i++) {
        n_kv[i] = fixture_is_recurrent(s, i) || fixture_is_ff(s, i) ? 0 : fixture_kv_heads(s, i);
        n_ff[i] = fixture_is_ff(s, i) || s->ff_shared_kv ? fixture_ff(s, i) : 0;
    }
    snprintf(key, sizeof key, "%s.feed_forward_length", s->arch);
    if (s->ff_every || s->ff_shared_kv) {
        kt__gguf_put_i32s(w, key, n_ff, (uint64_t)s->n_layer);
    } else {
        PUT("feed_forward_length", s->d_ff);
    }
    PUT("attention.head_count", s->n_head);
    if (fixture_is_gemma4(s)) {
        PUT_UNLESS_GIVEN("attention.key_length_swa", s->local_head_dim);
        PUT_UNLESS_GIVEN("attention.value_length_swa", s->local_head_dim);
        PUT_UNLESS_GIVEN("attention.shared_kv_layers", s->n_kv_shared);
        PUT_UNLESS_GIVEN("embedding_length_per_layer_input", s->layer_input);
        snprintf(key, sizeof key, "%s.attention.head_count_kv", s->arch);
        if (!fixture_is(s->key, "attention.head_count_kv"))
            kt__gguf_put_i32s(w, key, n_kv, (uint64_t)s->n_layer);
    }
    if (s->n_stream) {
        float cuts[8];
        for (int i = 0; i < s->n_layer; i++) cuts[i] = i < FIXTURE_CUTS ? 0.75f : -INFINITY;
        PUT_UNLESS_GIVEN("altup.num_inputs", s->n_stream);
        snprintf(key, sizeof key, "%s.activation_sparsity_scale", s->arch);
        if (!fixture_is(s->key, "activation_sparsity_scale"))
            kt__gguf_put_f32s(w, key, cuts, (uint64_t)s->n_layer);
    }
    bool stated = s->conv_width && (!s->state_dim || s->state_rows) && !s->both;
    if (stated && !fixture_is(s->key, "attention.head_count_kv")) {
        snprintf(key, sizeof key, "%s.attention.head_count_kv", s->arch);
        kt__gguf_put_i32s(w, key, n_kv, (uint64_t)s->n_layer);
        if (!s->state_dim) PUT_UNLESS_GIVEN("shortconv.l_cache", s->conv_width);
    } else if (!stated && !fixture_is_gemma4(s)) {
        PUT("attention.head_count_kv", s->n_head_kv);
    }
    if (s->state_dim) {
        PUT_UNLESS_GIVEN("ssm.conv_kernel", s->conv_width);
        PUT_UNLESS_GIVEN("ssm.state_size", s->state_dim);
        if (!s->step_rank) PUT_UNLESS_GIVEN("ssm.group_count", s->n_state_key);
        PUT_UNLESS_GIVEN("ssm.time_step_rank", s->step_rank ? s->step_rank : s->n_state_value);
        PUT_UNLESS_GIVEN("ssm.inner_size",
                         s->n_state_value * (s->state_rows ? s->state_rows : s->state_dim));
        if (!s->state_rows) PUT_UNLESS_GIVEN("full_attention_interval", s->attention_every);
    }
    if (s->kv_rank) {
        if (s->q_rank) PUT("attention.q_lora_rank", s->q_rank);
        PUT_UNLESS_GIVEN("attention.kv_lora_rank", s->kv_rank);
        PUT_UNLESS_GIVEN("attention.key_length_mla", s->head_dim);
        PUT_UNLESS_GIVEN("attention.value_length_mla", s->head_dim_v);
    }
    PUT("attention.key_length", s->kv_rank ? s->kv_rank + s->n_rot : s->head_dim);
    PUT("attention.value_length", s->kv_rank ? s->kv_rank : s->head_dim);
    PUT("vocab_size", s->n_vocab);
    if (s->n_rot) PUT("rope.dimension_count", s->n_rot);
    if (s->temperature != 0.0f) PUT("rope.scaling.original_context_length", 16);
    if (s->n_expert) PUT("expert_count", s->n_expert);
    if (s->n_expert) PUT("expert_used_count", s->n_used);
    if (s->n_expert) PUT("expert_feed_forward_length", s->ff_expert);
    if (s->ff_shared) PUT("expert_shared_feed_forward_length", s->ff_shared);
    if (s->gating) PUT_UNLESS_GIVEN("expert_gating_func", s->gating);
    if (s->dense_lead) PUT("leading_dense_block_count", s->dense_lead);
    if (s->expert_step) PUT("interleave_moe_layer_step", s->expert_step);
    if (s->n_group) PUT_UNLESS_GIVEN("expert_group_count", s->n_group);
    if (s->n_group) PUT_UNLESS_GIVEN("expert_group_used_count", s->n_group_used);
    if (s->key) PUT(s->key, s->key_value ? s->key_value : 1);
    if (s->window) PUT("attention.sliding_window", s->window > 0 ? s->window : 0);
    snprintf(key, sizeof key, "%s.attention.layer_norm_%sepsilon", s->arch,
             s->layer_norm ? "" : "rms_");
    kt__gguf_put_f32(w, key, 1e-5f);
#undef PUT_UNLESS_GIVEN
#undef PUT
    snprintf(key, sizeof key, "%s.expert_weights_norm", s->arch);
    if (s->shares_normed) kt__gguf_put_bool(w, key, true);
    snprintf(key, sizeof key, "%s.rope.scaling.finetuned", s->arch);
    if (s->no_rope) kt__gguf_put_bool(w, key, false);
    snprintf(key, sizeof key, "%s.attention.temperature_scale", s->arch);
    if (s->temperature != 0.0f) kt__gguf_put_f32(w, key, s->temperature);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", s->arch);
    static const int32_t pattern[] = {1, 0, 1, 0, 1, 0};
    if (s->n_pattern) kt__gguf_put_i32s(w, key, pattern, (uint64_t)s->n_pattern);
    static const int32_t suppressed[] = {5, 9, -1, 100000};
    if (s->n_suppressed)
        kt__gguf_put_i32s(w, "tokenizer.ggml.suppress_tokens", suppressed,
                          (uint64_t)s->n_suppressed);
    static const char *const scales[] = {"embedding_scale", "residual_scale", "attention.scale",
                                         "logit_scale"};
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "%s.%s", s->arch, scales[i]);
        if (s->scales[i] != 0.0f) kt__gguf_put_f32(w, key, s->scales[i]);
    }
}

/* Single letters, one merge, control tokens, and numbered words up to n_vocab. */
static inline void fixture_put_vocab(const fixture_spec *s, kt__gguf_writer *w) {
    static const char *const first[] = {"<unk>", "<s>", "</s>", "<0x41>", "a", "b", "ab", "c"};
    static const char template_[] =
        "{% for m in messages %}{{ '<s>' + m['role'] + ' ' + m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}ab{% endif %}";
    enum { MAX = 512, CONTROL = 3, BYTE = 6 };
    kt__str tokens[MAX], merge = {"a b", 3};
    float scores[MAX];
    int32_t types[MAX];
    char text[MAX][8];
    int n = s->n_vocab < MAX ? s->n_vocab : MAX;
    for (int i = 0; i < n; i++) {
        int len = i < 8 ? snprintf(text[i], sizeof text[i], "%s", first[i])
                        : snprintf(text[i], sizeof text[i], "w%d", i);
        tokens[i] = (kt__str){text[i], (size_t)len};
        scores[i] = (float)-i;
        types[i] = i < 3 ? CONTROL : i == 3 && s->vocab == FIXTURE_SPM ? BYTE : 1;
    }
    kt__gguf_put_str(w, "tokenizer.ggml.model", s->vocab == FIXTURE_SPM ? "llama" : "gpt2");
    kt__gguf_put_strs(w, "tokenizer.ggml.tokens", tokens, (uint64_t)n);
    kt__gguf_put_i32s(w, "tokenizer.ggml.token_type", types, (uint64_t)n);
    if (s->vocab == FIXTURE_SPM) {
        kt__gguf_put_f32s(w, "tokenizer.ggml.scores", scores, (uint64_t)n);
    } else {
        kt__gguf_put_str(w, "tokenizer.ggml.pre", "qwen2");
        kt__gguf_put_strs(w, "tokenizer.ggml.merges", &merge, 1);
    }
    kt__gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    kt__gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
    kt__gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
    kt__gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
    kt__gguf_put_str(w, "tokenizer.chat_template", template_);
}

/* Overwrites the type number of a tensor in a finished file (the writer refuses types it does not
 * know): it stands after the name, the number of dimensions and the dimensions. */
static inline void fixture_patch_type(const char *path, const char *name, uint32_t type) {
    FILE *f = fopen(path, "r+b");
    char bytes[65536];
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0, len = strlen(name);
    for (size_t i = 8; i + len + 32 < n; i++) {
        uint64_t prefix;
        uint32_t n_dims;
        memcpy(&prefix, bytes + i - 8, sizeof prefix);
        if (prefix != len || memcmp(bytes + i, name, len) != 0) continue;
        memcpy(&n_dims, bytes + i + len, sizeof n_dims);
        fseek(f, (long)(i + len + 4 + 8 * n_dims), SEEK_SET);
        fwrite(&type, sizeof type, 1, f);
        break;
    }
    if (f) fclose(f);
}

/* Writes the file; the weights of tensor t come from seed t + 1, so a test can make them again. */
static inline kt_status fixture_write(const fixture_spec *s, const char *path, kt_error *err) {
    fixture_tensor list[256];
    kt__gguf_writer *w = NULL;
    int n = fixture_tensors(s, list);
    kt_status status = kt__gguf_writer_open(path, &w, err);
    if (status != KT_OK) return status;
    fixture_header(s, w);
    if (s->vocab != FIXTURE_NO_VOCAB) fixture_put_vocab(s, w);
    for (int t = 0; t < n; t++) {
        uint64_t ne[3] = {list[t].ne[0] + (fixture_is(s->misshape, list[t].name) ? 1 : 0),
                          list[t].ne[1], list[t].ne[2]};
        if (fixture_is(s->skip, list[t].name)) continue;
        kt__gguf_declare_tensor(w, list[t].name, 0, ne[2] > 1 ? 3 : ne[1] > 1 ? 2 : 1, ne);
    }
    status = kt__gguf_finish_header(w, err);
    for (int t = 0; status == KT_OK && t < n; t++) {
        if (fixture_is(s->skip, list[t].name)) continue;
        size_t count = (size_t)((list[t].ne[0] + (fixture_is(s->misshape, list[t].name) ? 1 : 0)) *
                                list[t].ne[1] * list[t].ne[2]);
        float *values = malloc(count * sizeof *values);
        uint32_t state = (uint32_t)t + 1;
        for (size_t i = 0; i < count; i++) {
            values[i] = list[t].norm ? 1.0f + fixture_weight(&state) * 0.3f
                                     : fixture_weight(&state);
        }
        if (fixture_is(s->poison, list[t].name)) memset(values, 0xff, sizeof *values);
        status = kt__gguf_write_data(w, values, count * sizeof *values, err);
        free(values);
    }
    if (status != KT_OK) {
        kt__gguf_writer_abort(w);
        return status;
    }
    status = kt__gguf_writer_close(w, err);
    if (status == KT_OK && s->mistype) fixture_patch_type(path, s->mistype, 24);
    return status;
}

#endif
