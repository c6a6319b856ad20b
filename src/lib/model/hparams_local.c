/* Keys of layers that come in two kinds: with a sliding window, and without. */
#include <math.h>

#include "base/error.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "model/hparams.h"
#include "model/hparams_parts.h"

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
