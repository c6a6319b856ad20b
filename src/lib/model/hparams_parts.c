/* Keys of layers that come in two kinds: with a sliding window, and without. */
#include "model/hparams_read.h"

#include "base/error.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "model/hparams.h"

#include <math.h>
#include <string.h>

/* ---- layers of two kinds ---- */

/* One element a layer: whether it is local. */
static void read_pattern(kt__key_reader *r, const kt__gguf_kv *kv, kt__hparams *hp) {
    const char *key = kt__key_of(r, "attention.sliding_window_pattern");
    if (r->status != KT_OK) return;
    if (!kt__gguf_is_integers(kv) || kv->count != (uint64_t)hp->n_layer) {
        r->status = kt__fail_at(
            r->err, KT_E_FORMAT, key, kv->file_offset,
            "%s: key '%s' has %llu elements, expected a flag for each of %d layers",
            kt__gguf_path(r->gguf), key, (unsigned long long)kv->count, hp->n_layer);
        return;
    }
    hp->has_pattern = true;
    for (int i = 0; i < hp->n_layer; i++) hp->pattern[i] = kt__gguf_array_i64(kv, (uint64_t)i) != 0;
}

void kt__hparams_read_window(kt__key_reader *r, int period, kt__hparams *hp) {
    const char *pattern = "attention.sliding_window_pattern";
    bool kinds = hp->features & KT__F_LOCAL_HEADS;
    hp->window_period = period;
    if (period == 0) return;
    int unsaid = hp->features & KT__F_CHUNKS ? KT__LLAMA4_CHUNK : 0;
    hp->window = kt__key_int(r, "attention.sliding_window", kinds, unsaid, kinds, INT32_MAX);
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, kt__key_of(r, pattern));
    if (kv && kv->type == KT__GGUF_ARRAY) {
        read_pattern(r, kv, hp);
    } else if (kv || kinds) {
        hp->window_period = (int)kt__key_int(r, pattern, kinds && !(hp->features & KT__F_STREAMS),
                                             period, 0, KT__MAX_LAYERS);
    }
}

/* Heads of keys: one number for each kind of layer. */
static void read_kv_heads(kt__key_reader *r, kt__hparams *hp) {
    const char *key = "attention.head_count_kv";
    for (int i = 0; i < hp->n_layer && r->status == KT_OK; i++) {
        int n = (int)kt__key_at(r, key, i, hp->n_layer, hp->n_head, 1, hp->n_head);
        int *of = kt__hparams_is_local(hp, i) ? &hp->local.n_head_kv : &hp->n_head_kv;
        if (*of && *of != n) kt__key_fail(r, key, "differs between layers of one kind");
        *of = n;
    }
    if (!hp->n_head_kv) hp->n_head_kv = hp->local.n_head_kv;
    if (!hp->local.n_head_kv) hp->local.n_head_kv = hp->n_head_kv;
}

void kt__hparams_read_kinds(kt__key_reader *r, kt__hparams *hp) {
    const char *key = "feed_forward_length";
    read_kv_heads(r, hp);
    for (int i = 0; i < hp->n_layer && r->status == KT_OK; i++) {
        hp->d_ff_of[i] = (int)kt__key_at(r, key, i, hp->n_layer, 0, 1, KT__MAX_COL);
        if (hp->d_ff < hp->d_ff_of[i]) hp->d_ff = hp->d_ff_of[i];
    }
}

/* A number that some files have as a float. */
static int shared_layers(kt__key_reader *r, const char *key, int n_layer) {
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, kt__key_of(r, key));
    if (!kv || kv->type != KT__GGUF_F32) return (int)kt__key_int(r, key, false, 0, 0, n_layer - 1);
    float n = kt__key_f32(r, key, true, 0.0f);
    if (n >= 0.0f && n < (float)n_layer && n == floorf(n)) return (int)n;
    kt__key_fail(r, key, "is not a number of layers, of which one at least is left");
    return 0;
}

/* The last layers have no keys and values: each reads those of the last layer of its kind that has. */
static void read_shared(kt__key_reader *r, kt__hparams *hp) {
    const char *key = "attention.shared_kv_layers";
    hp->n_kv_own = hp->n_layer - shared_layers(r, key, hp->n_layer);
    for (int i = hp->n_kv_own; i < hp->n_layer && r->status == KT_OK; i++) {
        int source = kt__hparams_kv_source(hp, i);
        if (kt__hparams_is_local(hp, source) != kt__hparams_is_local(hp, i))
            kt__key_fail(r, key, "leaves no layer of one kind with keys and values");
    }
}

void kt__hparams_read_assistant(kt__key_reader *r, kt__hparams *hp) {
    int n = hp->n_layer;
    if (!(hp->features & KT__F_ASSISTANT)) return;
    (void)kt__key_int(r, "nextn_predict_layers", false, n, n, n); /* nothing but them */
    const char *first = "n_embd_backbone", *later = "embedding_length_out";
    const char *key = kt__gguf_find(r->gguf, kt__key_of(r, first)) ? first : later;
    hp->d_host = (int)kt__key_int(r, key, true, 0, 1, KT__MAX_COL / 2);
}

void kt__hparams_read_local(kt__key_reader *r, kt__hparams *hp) {
    hp->n_kv_own = hp->n_layer;
    if (r->status != KT_OK || !(hp->features & KT__F_LOCAL_HEADS)) return;
    hp->local.head_dim_k = (int)kt__key_int(r, "attention.key_length_swa", false, hp->head_dim_k, 1,
                                            KT__MAX_HEAD_DIM);
    hp->local.head_dim_v = (int)kt__key_int(r, "attention.value_length_swa", false, hp->head_dim_v,
                                            1, KT__MAX_HEAD_DIM);
    if (hp->features & KT__F_ASSISTANT)
        hp->n_kv_own = 0;
    else
        read_shared(r, hp);
    if (!(hp->features & KT__F_LAYER_INPUTS)) return;
    bool always = hp->features & KT__F_STREAMS;
    hp->d_layer_input = (int)kt__key_int(r, "embedding_length_per_layer_input", always, 0, always,
                                         KT__MAX_COL / hp->n_layer);
    if (hp->d_layer_input == 0) hp->features &= ~KT__F_LAYER_INPUTS;
}

static int larger_of(int a, int b) {
    return a > b ? a : b;
}

kt__layer_sizes kt__hparams_widest(const kt__hparams *hp) {
    return (kt__layer_sizes){larger_of(hp->n_head_kv, hp->local.n_head_kv),
                             larger_of(hp->head_dim_k, hp->local.head_dim_k),
                             larger_of(hp->head_dim_v, hp->local.head_dim_v), hp->d_ff};
}

bool kt__hparams_is_local(const kt__hparams *hp, int layer) {
    if (hp->window <= 0 || hp->window_period <= 0) return false;
    if (hp->has_pattern) return hp->pattern[layer];
    if (hp->features & KT__F_GLOBAL_FIRST) return layer % hp->window_period != 0;
    return hp->window_period == 1 || (layer + 1) % hp->window_period != 0;
}

int kt__hparams_kv_source(const kt__hparams *hp, int layer) {
    int source = layer < hp->n_kv_own ? layer : hp->n_kv_own - 1;
    while (source > 0 && kt__hparams_is_local(hp, source) != kt__hparams_is_local(hp, layer))
        source--;
    return source;
}

/* Keys of attention over latent vectors (DeepSeek-AI 2024). */

/* Files of before April 2025 have keys and values of all heads in one matrix. */
static void refuse_old(kt__key_reader *r) {
    const char *suffix = "attention.key_length_mla";
    if (!kt__gguf_find(r->gguf, kt__key_of(r, suffix)))
        kt__key_fail(r, suffix,
                     "is missing: this file has the older form of latent attention, with "
                     "attn_kv_b; a new conversion of the model has the keys and tensors needed");
}

static void check_sizes(kt__key_reader *r, const kt__hparams *hp, int n_rot) {
    if (r->status != KT_OK) return;
    if (hp->n_head_kv != 1)
        kt__key_fail(r, "attention.head_count_kv", "should be 1: all heads read the same vector");
    if (hp->head_dim_k != hp->kv_rank + n_rot)
        kt__key_fail(r, "attention.key_length",
                     "is not attention.kv_lora_rank and rope.dimension_count together");
    if (hp->head_dim_v != hp->kv_rank)
        kt__key_fail(r, "attention.value_length", "is not attention.kv_lora_rank");
    if (hp->head_dim_k_full <= n_rot)
        kt__key_fail(r, "attention.key_length_mla", "is not above rope.dimension_count");
    if ((int64_t)hp->n_head * hp->head_dim_k_full > KT__MAX_COL ||
        (int64_t)hp->n_head * hp->head_dim_v_full > KT__MAX_COL)
        kt__key_fail(r, "attention.head_count", "makes rows that are too long");
    if (kt__gguf_find(r->gguf, kt__key_of(r, "attention.temperature_scale")))
        kt__key_refuse(r, "attention.temperature_scale", 1);
}

void kt__hparams_read_latent(kt__key_reader *r, kt__hparams *hp) {
    if (!(hp->features & KT__F_LATENT) || r->status != KT_OK) return;
    refuse_old(r);
    hp->q_rank = (int)kt__key_int(r, "attention.q_lora_rank", false, 0, 0, KT__MAX_COL);
    hp->kv_rank = (int)kt__key_int(r, "attention.kv_lora_rank", true, 0, 1, KT__MAX_HEAD_DIM);
    hp->head_dim_k_full = (int)kt__key_int(r, "attention.key_length_mla", true, 0, 1,
                                           KT__MAX_HEAD_DIM);
    hp->head_dim_v_full = (int)kt__key_int(r, "attention.value_length_mla", true, 0, 1,
                                           KT__MAX_HEAD_DIM);
    int n_rot = (int)kt__key_int(r, "rope.dimension_count", true, 0, 2, KT__MAX_HEAD_DIM);
    if (hp->q_rank > 0) hp->features |= KT__F_LATENT_Q;
    check_sizes(r, hp, n_rot);
}

/* YaRN's magnitude is in the factor of queries alone, squared, and not in the rotation. */
void kt__hparams_scale_latent(kt__key_reader *r, kt__hparams *hp) {
    kt__rope_params *rope = &hp->rope;
    if (!(hp->features & KT__F_LATENT) || r->status != KT_OK) return;
    double magnitude = (double)rope->attn_factor;
    float per_log = kt__key_f32(r, "rope.scaling.yarn_log_multiplier", false, 0.0f);
    bool stretched = rope->kind == KT__ROPE_YARN && rope->freq_scale != 1.0f;
    if (stretched && per_log == 0.0f)
        kt__key_fail(r, "rope.scaling.yarn_log_multiplier",
                     "is missing, without which it is open how YaRN scales latent attention");
    if (per_log != 0.0f) kt__key_positive(r, "rope.scaling.yarn_log_multiplier", per_log);
    if (r->status != KT_OK) return;
    if (stretched) magnitude *= 1.0 + (double)per_log * kt__log(1.0 / (double)rope->freq_scale);
    rope->attn_factor = 1.0f;
    rope->log_multiplier = 1.0f; /* takes YaRN's magnitude out of the rotation */
    hp->q_scale = (float)(magnitude * magnitude / sqrt((double)hp->head_dim_k_full));
}

/* ---- experts, and latent vectors ---- */

/* Values of expert_gating_func. */
enum { GATING_UNSAID, GATING_SOFTMAX, GATING_SIGMOID, GATING_SOFTMAX_OF_CHOSEN };

/* Widths of the experts and of the shared one; where a file has no key, the feed-forward's means
 * them as the converters wrote it. */
static void read_widths(kt__key_reader *r, kt__hparams *hp) {
    bool split = hp->features & KT__F_SHARED_EXPERT, parts = hp->features & KT__F_SHARED_WHOLE;
    int whole = split && !parts && hp->d_ff >= hp->n_expert_used ? hp->d_ff / hp->n_expert_used
                                                                 : hp->d_ff;
    bool own = hp->features & KT__F_DELTA;
    hp->d_ff_expert = (int)kt__key_int(r, "expert_feed_forward_length", own, whole, 1, KT__MAX_COL);
    if (!split) return;
    if (!parts) {
        hp->d_ff_shared = (int)kt__key_int(r, "expert_shared_feed_forward_length", own, hp->d_ff, 1,
                                           KT__MAX_COL);
        return;
    }
    bool one = hp->features & KT__F_WEIGHED_INPUT; /* of Llama 4, whose files do not say it */
    int64_t count = kt__key_int(r, "expert_shared_count", false, one, 0, KT__MAX_EXPERTS);
    int64_t together = count * hp->d_ff_expert;
    hp->d_ff_shared = (int)kt__key_int(r, "expert_shared_feed_forward_length", false,
                                       together < KT__MAX_COL ? together : KT__MAX_COL, 0,
                                       KT__MAX_COL);
    if (hp->d_ff_shared == 0) hp->features &= ~KT__F_SHARED_EXPERT;
}

/* The architecture says it, and a file may repeat it. */
static void read_fixed_choice(kt__key_reader *r, kt__hparams *hp) {
    bool of_all = hp->features & KT__F_SHARES_OF_ALL, sigmoid = hp->features & KT__F_WEIGHED_INPUT;
    int64_t known = sigmoid ? GATING_SIGMOID : GATING_SOFTMAX;
    int64_t gating = kt__key_int(r, "expert_gating_func", false, known, 0, 255);
    bool same = !of_all && !sigmoid && gating == GATING_SOFTMAX_OF_CHOSEN;
    if (gating != known && !same) kt__key_refuse(r, "expert_gating_func", gating);
    int64_t groups = kt__key_int(r, "expert_group_count", false, 0, 0, INT32_MAX);
    if (groups > 1) kt__key_refuse(r, "expert_group_count", groups);
    bool normed = !of_all && !sigmoid;
    if (kt__key_bool(r, "expert_weights_norm", normed) != normed)
        kt__key_refuse(r, "expert_weights_norm", !normed);
    hp->shares = sigmoid ? KT__SHARES_SIGMOID : of_all ? KT__SHARES_OF_ALL : KT__SHARES_OF_CHOSEN;
}

/* Llama 4's models of so many experts have heads that are not normed; no key says it. */
enum { MAVERICK_EXPERTS = 128 };

static void read_groups(kt__key_reader *r, kt__hparams *hp) {
    hp->n_expert_group = (int)kt__key_int(r, "expert_group_count", false, 1, 0, KT__MAX_EXPERTS);
    if (hp->n_expert_group < 1) hp->n_expert_group = 1;
    int most = hp->n_expert_group;
    hp->n_group_used = (int)kt__key_int(r, "expert_group_used_count", most > 1, 1, most > 1, most);
    if (r->status != KT_OK || most == 1) return;
    int in_group = hp->n_expert / most;
    if (hp->n_expert % most || in_group < 2)
        kt__key_fail(r, "expert_group_count",
                     "does not divide expert_count into groups of 2 or more");
    else if (hp->n_expert_used > hp->n_group_used * in_group)
        kt__key_fail(r, "expert_group_used_count", "leaves fewer experts than expert_used_count");
}

/* DeepSeek's files of 2024 say nothing of the gating, which was a softmax; GLM-4.7-Flash's say
 * nothing either, and it is a sigmoid: its layers and its vocabulary tell it apart. */
static int64_t unsaid_gating(const kt__key_reader *r, const kt__hparams *hp) {
    const kt__gguf_kv *tokens = kt__gguf_find(r->gguf, "tokenizer.ggml.tokens");
    bool glm = hp->features & KT__F_LATENT && (hp->n_layer == 47 || hp->n_layer == 48) && tokens &&
               tokens->count == 154880;
    bool always = hp->features & (KT__F_ONE_PART | KT__F_MAY_QK_NORM); /* Nemotron H, GLM 4.5 */
    return glm || always ? GATING_SIGMOID : GATING_SOFTMAX;
}

static void read_free_choice(kt__key_reader *r, kt__hparams *hp) {
    int64_t gating = kt__key_int(r, "expert_gating_func", false, GATING_UNSAID, 0, 255);
    if (gating == GATING_UNSAID) gating = unsaid_gating(r, hp);
    if (gating != GATING_SOFTMAX && gating != GATING_SIGMOID)
        kt__key_refuse(r, "expert_gating_func", gating);
    hp->shares = gating == GATING_SIGMOID ? KT__SHARES_SIGMOID : KT__SHARES_OF_ALL;
    bool norm = !(hp->features & (KT__F_LATENT | KT__F_ONE_PART));
    hp->shares_normed = kt__key_bool(r, "expert_weights_norm", norm);
    read_groups(r, hp);
}

static void read_dense_layers(kt__key_reader *r, kt__hparams *hp) {
    int lead = (int)kt__key_int(r, "leading_dense_block_count", false, 0, 0, KT__MAX_LAYERS);
    int step = (int)kt__key_int(r, "interleave_moe_layer_step", false, 1, 1, KT__MAX_LAYERS);
    for (int i = 0; i < hp->n_layer; i++) hp->dense[i] = i < lead || (i + 1) % step != 0;
}

/* Of Nomic's encoders with experts: of each period the second layer has them. */
static void read_expert_period(kt__key_reader *r, kt__hparams *hp) {
    int period = (int)kt__key_int(r, "moe_every_n_layers", false, 0, 0, KT__MAX_LAYERS);
    for (int i = 0; i < hp->n_layer; i++) hp->dense[i] = period == 0 || i % period != 1;
}

void kt__hparams_read_experts(kt__key_reader *r, kt__hparams *hp) {
    bool may = hp->features & KT__F_MAY_EXPERTS;
    hp->n_expert_group = hp->n_group_used = 1;
    if (!(hp->features & KT__F_EXPERTS)) {
        int64_t n = kt__key_int(r, "expert_count", false, 0, 0, 1 << 20);
        if (n > 0) kt__key_refuse(r, "expert_count", n);
        return;
    }
    hp->n_expert = (int)kt__key_int(r, "expert_count", !may, 0, !may, KT__MAX_EXPERTS);
    if (hp->n_expert == 0) {
        hp->features &= ~(KT__F_EXPERTS | KT__F_SHARED_EXPERT);
        return;
    }
    if (hp->n_expert == MAVERICK_EXPERTS) hp->features &= ~KT__F_HEADS_NORMED;
    hp->n_expert_used = (int)kt__key_int(r, "expert_used_count", true, 0, 1,
                                         r->status == KT_OK ? hp->n_expert : 1);
    if (r->status != KT_OK) return;
    read_widths(r, hp);
    if (hp->features & KT__F_FREE_CHOICE) {
        read_free_choice(r, hp);
    } else {
        read_fixed_choice(r, hp);
    }
    if (hp->features & KT__F_DENSE_LEAD) read_dense_layers(r, hp);
    if (hp->features & KT__F_PLAIN_FF) read_expert_period(r, hp);
    hp->expert_scale = kt__key_f32(r, "expert_weights_scale", false, 1.0f);
    if (hp->expert_scale == 0.0f) hp->expert_scale = 1.0f;
    kt__key_positive(r, "expert_weights_scale", hp->expert_scale);
}

/* ---- recurrent layers ---- */

/* Recurrent layers are those without heads of keys. */
static bool is_told_by_heads(const kt__hparams *hp) {
    bool mamba = hp->features & KT__F_MAMBA && !(hp->features & KT__F_BOTH);
    return hp->features & KT__F_SHORT_CONV || mamba;
}

static bool is_key_there(kt__key_reader *r, const char *suffix) {
    return kt__gguf_find(r->gguf, kt__key_of(r, suffix)) != NULL;
}

/* A layer that has a feed-forward's width is that; else its heads of keys tell the mixer. */
static void part_layers(kt__key_reader *r, kt__hparams *hp) {
    int n_attention = 0;
    for (int i = 0; i < hp->n_layer; i++) {
        hp->no_mixer[i] = !hp->no_ff[i];
        hp->recurrent[i] &= !hp->no_mixer[i];
        n_attention += !hp->no_mixer[i] && !hp->recurrent[i];
    }
    if (n_attention == 0)
        kt__key_fail(r, "attention.head_count_kv",
                     "leaves no layer with attention, which is not supported");
}

void kt__hparams_read_layers(kt__key_reader *r, kt__hparams *hp) {
    if (hp->features & KT__F_LOCAL_HEADS) {
        kt__hparams_read_kinds(r, hp);
        return;
    }
    if (hp->features & KT__F_NO_ATTENTION) {
        hp->n_head_kv = hp->d_ff = 1; /* of which there is nothing */
        hp->no_rope = true;
        for (int i = 0; i < hp->n_layer; i++) hp->recurrent[i] = hp->no_ff[i] = true;
        return;
    }
    bool widths = hp->features & KT__F_EXPERTS && hp->features & KT__F_DELTA;
    if (hp->features & KT__F_ONE_PART) {
        hp->d_ff = kt__key_layers(r, "feed_forward_length", hp->n_layer, KT__MAX_COL, hp->no_ff);
    } else {
        hp->d_ff = (int)kt__key_int(r, "feed_forward_length", !widths, 1, 1, KT__MAX_COL);
    }
    if (is_told_by_heads(hp) && is_key_there(r, "attention.head_count_kv")) {
        hp->n_head_kv = kt__key_layers(r, "attention.head_count_kv", hp->n_layer, hp->n_head,
                                       hp->recurrent);
    } else {
        hp->n_head_kv = (int)kt__key_int(r, "attention.head_count_kv", false, hp->n_head, 1,
                                         hp->n_head);
    }
    if (hp->features & KT__F_ONE_PART && r->status == KT_OK) part_layers(r, hp);
    if (hp->features & (KT__F_ONE_PART | KT__F_POSITIONS)) hp->no_rope = true;
}

int kt__hparams_inner(const kt__hparams *hp) {
    return hp->n_state_value * hp->state_rows;
}

int kt__hparams_channels(const kt__hparams *hp) {
    if (!(hp->features & (KT__F_DELTA | KT__F_MAMBA))) return hp->d_model;
    return 2 * hp->n_state_key * hp->state_dim + kt__hparams_inner(hp);
}

int kt__hparams_mixed(const kt__hparams *hp) {
    int wide = kt__hparams_widest(hp).head_dim_v;
    if (wide < hp->head_dim_v_full) wide = hp->head_dim_v_full;
    int heads = hp->n_head * wide, inner = kt__hparams_inner(hp);
    return heads > inner ? heads : inner;
}

/* Which layers are delta nets: all but every n-th, or as a list says. */
static void read_recurrent_layers(kt__key_reader *r, kt__hparams *hp) {
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, kt__key_of(r, "attention.recurrent_layers"));
    int period = (int)kt__key_int(r, "full_attention_interval", false, 4, 1, KT__MAX_LAYERS);
    int n_attention = 0;
    bool flags = kv && kt__gguf_is_integers(kv) && kv->count >= (uint64_t)hp->n_layer;
    if (kv && !flags)
        kt__key_fail(r, "attention.recurrent_layers", "should have a flag for each layer");
    for (int i = 0; r->status == KT_OK && i < hp->n_layer; i++) {
        hp->recurrent[i] = kv ? kt__gguf_array_i64(kv, (uint64_t)i) != 0 : (i + 1) % period != 0;
        n_attention += !hp->recurrent[i];
    }
    if (n_attention == 0)
        kt__key_fail(r, kv ? "attention.recurrent_layers" : "full_attention_interval",
                     "leaves no layer with attention, which is not supported");
}

/* Weights that were rotated before they were quantised would need rotated inputs. */
static void refuse_rotated(kt__key_reader *r) {
    for (size_t i = 0; r->status == KT_OK && i < kt__gguf_n_kv(r->gguf); i++) {
        kt__str key = kt__gguf_kv_at(r->gguf, i)->key;
        if (key.len < 15 || memcmp(key.s, "prism.hadamard.", 15) != 0) continue;
        r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, "prism.hadamard", UINT64_MAX,
                                "%s: its weights are rotated (keys 'prism.hadamard.*'), and a "
                                "rotation of what they are multiplied with is not supported",
                                kt__gguf_path(r->gguf));
    }
}

/* Mamba: each channel is a head of its own, of one row, and all share what is written and read. */
static void read_scan_sizes(kt__key_reader *r, kt__hparams *hp) {
    hp->conv_width = (int)kt__key_int(r, "ssm.conv_kernel", true, 0, 2, KT__MAX_CONV);
    hp->state_dim = (int)kt__key_int(r, "ssm.state_size", true, 0, 16, KT__MAX_STATE_DIM);
    hp->n_state_value = (int)kt__key_int(r, "ssm.inner_size", true, 0, 1, KT__MAX_COL / 2);
    hp->step_rank = (int)kt__key_int(r, "ssm.time_step_rank", true, 0, 1, hp->n_state_value);
    hp->state_rows = 1;
    if (r->status != KT_OK) return;
    if (hp->state_dim % 16)
        kt__key_fail(r, "ssm.state_size", "is not a multiple of 16, which is not supported");
    if (2 * hp->state_dim > hp->n_state_value)
        kt__key_fail(r, "ssm.inner_size", "is less than two states of a channel");
    if (kt__key_bool(r, "ssm.dt_b_c_rms", false)) /* Falcon Mamba's norms */
        kt__key_refuse(r, "ssm.dt_b_c_rms", 1);
}

static void read_state_sizes(kt__key_reader *r, kt__hparams *hp) {
    hp->conv_width = (int)kt__key_int(r, "ssm.conv_kernel", true, 0, 2, KT__MAX_CONV);
    hp->state_dim = (int)kt__key_int(r, "ssm.state_size", true, 0, 16, KT__MAX_STATE_DIM);
    hp->n_state_key = (int)kt__key_int(r, "ssm.group_count", true, 0, 1, KT__MAX_HEADS);
    hp->n_state_value = (int)kt__key_int(r, "ssm.time_step_rank", true, 0, 1, KT__MAX_HEADS);
    int inner = (int)kt__key_int(r, "ssm.inner_size", true, 0, 1, KT__MAX_COL);
    if (r->status != KT_OK) return;
    bool mamba = hp->features & KT__F_MAMBA;
    hp->state_rows = mamba ? inner / hp->n_state_value : hp->state_dim;
    if (hp->state_dim % 16)
        kt__key_fail(r, "ssm.state_size", "is not a multiple of 16, which is not supported");
    if (hp->n_state_value % hp->n_state_key)
        kt__key_fail(r, "ssm.time_step_rank", "is not a multiple of ssm.group_count");
    if (inner != kt__hparams_inner(hp))
        kt__key_fail(r, "ssm.inner_size",
                     mamba ? "is not a multiple of ssm.time_step_rank"
                           : "is not ssm.time_step_rank times ssm.state_size");
    int64_t channels = inner + 2 * (int64_t)hp->n_state_key * hp->state_dim;
    if (channels > KT__MAX_COL) kt__key_fail(r, "ssm.group_count", "makes rows that are too long");
}

void kt__hparams_read_recurrent(kt__key_reader *r, kt__hparams *hp) {
    if (hp->features & KT__F_SCAN)
        read_scan_sizes(r, hp);
    else if (hp->features & (KT__F_DELTA | KT__F_MAMBA))
        read_state_sizes(r, hp);
    if (hp->features & KT__F_DELTA) {
        read_recurrent_layers(r, hp);
        refuse_rotated(r);
    }
    if (!(hp->features & KT__F_SHORT_CONV)) return;
    hp->conv_width = (int)kt__key_int(r, "shortconv.l_cache", true, 0, 2, KT__MAX_CONV);
    int64_t window = kt__key_int(r, "attention.sliding_window", false, 0, 0, INT32_MAX);
    if (window > 0) kt__key_refuse(r, "attention.sliding_window", window);
    if (hp->d_model > KT__MAX_COL / 3)
        kt__key_fail(r, "embedding_length", "makes rows that are too long");
}
