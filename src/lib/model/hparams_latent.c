/* Keys of attention over latent vectors (DeepSeek-AI 2024). */
#include <math.h>

#include "base/math.h"
#include "model/hparams_parts.h"

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
