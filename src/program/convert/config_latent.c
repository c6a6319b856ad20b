/* Attention over latent vectors (DeepSeek-AI 2024): heads share one vector for keys and values, which
 * GGUF has as one head of keys. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "convert/config.h"

kt_status kt__hf_latent_derive(kt__hf_config *c, kt_error *err) {
    if (c->rope_dim % 2 != 0)
        return kt__hf_refuse(c, "qk_rope_head_dim", "an even size is expected", err);
    if (c->kv_rank % 2 != 0 || c->kv_rank + c->rope_dim > 1024)
        return kt__hf_refuse(c, "kv_lora_rank",
                             "an even size is expected, with qk_rope_head_dim at most 1024", err);
    c->n_head_kv = c->n_head;
    c->has_head_keys = false; /* kt__hf_latent_put writes them */
    c->head_dim = c->kv_rank + c->rope_dim;
    c->n_rot = c->rope_dim;
    c->tied = kt__hf_flag(c, "tie_word_embeddings", false);
    if (!kt__hf_flag(c, "rope_interleave", true))
        return kt__hf_refuse(c, "rope_interleave", "the format rotates neighbours", err);
    return KT_OK;
}

static void put_length(const kt__hf_config *c, kt__gguf_writer *w, const char *suffix,
                       int64_t value) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", c->arch_name, suffix);
    kt__gguf_put_u32(w, key, (uint32_t)value);
}

void kt__hf_latent_put(const kt__hf_config *c, kt__gguf_writer *w) {
    put_length(c, w, "attention.head_count_kv", 1);
    put_length(c, w, "attention.key_length", c->kv_rank + c->rope_dim);
    put_length(c, w, "attention.value_length", c->kv_rank);
    put_length(c, w, "attention.key_length_mla", c->nope_dim + c->rope_dim);
    put_length(c, w, "rope.dimension_count", c->rope_dim);
}
