#include "context/kv_binding.h"

#include <string.h>

#include "base/f16.h"
#include "base/le.h"
#include "context/fingerprint.h"
#include "context/model.h"

enum { KV_BOTH_F16 = 1, KV_RULES = 2 /* which pages are read in which form; two bits */ };

static void binding_put(uint8_t **at, uint64_t x, int n) {
    kt__le_put(*at, x, n);
    *at += n;
}

static void put_f32(uint8_t **at, float x) {
    binding_put(at, kt__f32_bits(x), 4);
}

/* What keys and values are held as and how many pages before its own a query reads as f16, with the
 * version of these forms' rules. */
static uint64_t kv_type_id(const kt_engine_params *p) {
    if (p->kv_keys == KT_KV_F16 && p->kv_values == KT_KV_F16) return KV_BOTH_F16;
    unsigned tail = ((unsigned)p->kv_tail + KT__PAGE_POS - 1) / KT__PAGE_POS;
    return (unsigned)KV_RULES << 30 | tail << 12 | (unsigned)p->kv_keys << 8 |
           (unsigned)p->kv_values << 4 | KV_BOTH_F16;
}

/* How products and attention are computed, where that changes numbers. */
static uint64_t arithmetic_id(const kt_model_params *p) {
    return (p->exact ? 1u : p->blas ? 2u : 0u) | (p->plain_attention ? 4u : 0u);
}

kt_status kt__engine_kv_binding(const kt_engine *engine, const kt__adapters *adapters,
                                uint8_t out[KT__KV_BINDING_BYTES], kt_error *err) {
    const kt__hparams *hp = &engine->model->net->hp;
    const kt__rope_params *rope = &hp->rope;
    bool long_factors = rope->kind == KT__ROPE_LONGROPE && engine->params.n_ctx > rope->orig_ctx;
    memset(out, 0, KT__KV_BINDING_BYTES);
    kt_status status = kt__model_fingerprint(engine->model, out, err);
    uint8_t *at = out + KT_FINGERPRINT_BYTES;
    binding_put(&at, KENTANG_NUMERICS, 4);
    binding_put(&at, kv_type_id(&engine->params), 4);
    binding_put(&at, (uint64_t)hp->n_layer, 2);
    binding_put(&at, kt__engine_uses_mtp(engine->model, &engine->params), 2);
    binding_put(&at, (uint64_t)hp->n_head_kv, 4);
    binding_put(&at, (uint64_t)hp->head_dim_k, 4);
    binding_put(&at, (uint64_t)hp->head_dim_v, 4);
    binding_put(&at, arithmetic_id(&engine->model->params), 4);
    binding_put(&at, (uint64_t)rope->kind, 4);
    binding_put(&at, (uint64_t)rope->n_rot, 4);
    binding_put(&at, (uint64_t)rope->orig_ctx, 8);
    binding_put(&at, long_factors, 4);
    const float numbers[] = {rope->freq_base,   rope->local_freq_base, rope->freq_scale,
                             rope->attn_factor, rope->ext_factor,      rope->beta_fast,
                             rope->beta_slow};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) put_f32(&at, numbers[i]);
    if (adapters && adapters->binds_kv) memcpy(at, adapters->kv_id, sizeof adapters->kv_id);
    _Static_assert(KT_FINGERPRINT_BYTES + 48 + 4 * 7 + KT__ADAPTERS_ID_BYTES <=
                       KT__KV_BINDING_BYTES,
                   "binding");
    return status;
}

static void put_heads(const kt_engine *engine, int n_head_kv, uint8_t **at) {
    const kt__division *split = kt__ctx_split(engine->model->ctx);
    int n_head = engine->model->net->hp.n_head;
    kt__division_heads h = {0};
    if (n_head && n_head_kv) h = kt__division_heads_of(split, n_head, n_head_kv, split->rank);
    binding_put(at, (uint64_t)h.kv0, 4);
    binding_put(at, (uint64_t)h.n_kv, 4);
}

size_t kt__engine_heads_binding(const kt_engine *engine, uint8_t out[KT__KV_HEADS_BYTES]) {
    kt__kv_shape whole = kt__model_kv_shape(engine->model);
    uint8_t *at = out;
    if (!kt__ctx_split(engine->model->ctx)) return 0;
    put_heads(engine, whole.n_head_kv, &at);
    put_heads(engine, whole.other.n, &at);
    return KT__KV_HEADS_BYTES;
}
