#include "context/fingerprint.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"

enum {
    SEED = 1,            /* of the format of what is hashed */
    SAMPLE_BYTES = 4096, /* of each tensor */
    KV_BOTH_F16 = 1
};

static void add_u64(kt__hash *h, uint64_t x) {
    uint8_t bytes[8];
    kt__le_put(bytes, x, sizeof bytes);
    kt__hash_add(h, bytes, sizeof bytes);
}

static void add_str(kt__hash *h, kt__str s) {
    add_u64(h, s.len);
    kt__hash_add(h, s.s, s.len);
}

static size_t scalar_bytes(kt__gguf_type type) {
    switch (type) {
    case KT__GGUF_U8:
    case KT__GGUF_I8:
    case KT__GGUF_BOOL: return 1;
    case KT__GGUF_U16:
    case KT__GGUF_I16: return 2;
    case KT__GGUF_U32:
    case KT__GGUF_I32:
    case KT__GGUF_F32: return 4;
    case KT__GGUF_U64:
    case KT__GGUF_I64:
    case KT__GGUF_F64: return 8;
    default: return 0; /* strings, with a length of their own; no arrays of arrays */
    }
}

static void add_key(kt__hash *h, const kt__gguf_kv *kv) {
    add_str(h, kv->key);
    add_u64(h, kv->type);
    if (kv->type == KT__GGUF_STRING) {
        add_str(h, kt__gguf_kv_str(kv));
    } else if (kv->type != KT__GGUF_ARRAY) {
        kt__hash_add(h, kv->data, scalar_bytes(kv->type));
    } else {
        add_u64(h, kv->elem_type);
        add_u64(h, kv->count);
        if (kv->elem_type == KT__GGUF_STRING) {
            for (uint64_t i = 0; i < kv->count; i++) add_str(h, kt__gguf_array_str(kv, i));
        } else {
            kt__hash_add(h, kv->data, (size_t)kv->count * scalar_bytes(kv->elem_type));
        }
    }
}

/* Its row in the table, and a piece of its bytes from a place that depends on its name: a change of
 * the weights, or of their quantisation, changes all of a tensor. */
static void add_tensor(kt__hash *h, const kt__gguf_tensor *t) {
    add_str(h, t->name);
    add_u64(h, t->type);
    for (int d = 0; d < 4; d++) add_u64(h, t->ne[d]);
    add_u64(h, t->size);
    if (!t->data) return;
    size_t n = t->size < SAMPLE_BYTES ? (size_t)t->size : SAMPLE_BYTES;
    uint64_t places = t->size - n + 1;
    uint64_t at = kt__hash_bytes(SEED, t->name.s, t->name.len).w[0] % places;
    kt__hash_add(h, t->data + at, n);
}

struct kt__fingerprint {
    pthread_mutex_t lock;
    bool known;
    uint8_t bytes[KT_FINGERPRINT_BYTES];
};

kt_status kt__fingerprint_create(kt__fingerprint **out, kt_error *err) {
    *out = NULL;
    kt__fingerprint *f = kt__calloc(1, sizeof *f);
    if (!f || pthread_mutex_init(&f->lock, NULL) != 0) {
        kt__free(f);
        return kt__fail_nomem(err, "a model's fingerprint", sizeof *f);
    }
    *out = f;
    return KT_OK;
}

void kt__fingerprint_free(kt__fingerprint *f) {
    if (!f) return;
    pthread_mutex_destroy(&f->lock);
    kt__free(f);
}

static void hash_model(const kt__gguf *gguf, uint8_t out[KT_FINGERPRINT_BYTES]) {
    kt__hash h;
    kt__hash_init(&h, SEED);
    add_u64(&h, kt__gguf_file_bytes(gguf));
    for (size_t i = 0; i < kt__gguf_n_kv(gguf); i++) add_key(&h, kt__gguf_kv_at(gguf, i));
    for (size_t i = 0; i < kt__gguf_n_tensors(gguf); i++)
        add_tensor(&h, kt__gguf_tensor_at(gguf, i));
    kt__digest digest = kt__hash_end(&h);
    kt__digest_bytes(digest, out);
}

kt_status kt__model_fingerprint(const kt_model *model, uint8_t out[KT_FINGERPRINT_BYTES],
                                kt_error *err) {
    kt__fingerprint *f = model->fingerprint;
    kt_status status = kt__gguf_check(model->gguf, err);
    if (status != KT_OK) return status;
    pthread_mutex_lock(&f->lock);
    if (!f->known) {
        hash_model(model->gguf, f->bytes);
        /* a page replaced meanwhile would be a wrong fingerprint */
        status = kt__gguf_check(model->gguf, err);
        f->known = status == KT_OK;
    }
    memcpy(out, f->bytes, sizeof f->bytes);
    pthread_mutex_unlock(&f->lock);
    return status;
}

kt_status kt_model_fingerprint(const kt_model *model, uint8_t out[KT_FINGERPRINT_BYTES],
                               kt_error *err) {
    kt__error_clear(err);
    return kt__model_fingerprint(model, out, err);
}

/* ---- the options ---- */

static void binding_put(uint8_t **at, uint64_t x, int n) {
    kt__le_put(*at, x, n);
    *at += n;
}

static void put_f32(uint8_t **at, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    binding_put(at, bits, 4);
}

/* What keys and values are held as and how many pages before its own a query reads as f16, with the
 * version of these forms' rules. */
static uint64_t kv_type_id(const kt_engine_params *p) {
    if (p->kv_keys == KT_KV_F16 && p->kv_values == KT_KV_F16) return KV_BOTH_F16;
    unsigned tail = ((unsigned)p->kv_tail + KT__PAGE_POS - 1) / KT__PAGE_POS;
    return 1u << 16 | tail << 17 | (unsigned)p->kv_keys << 8 | (unsigned)p->kv_values << 4 |
           KV_BOTH_F16;
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
    binding_put(&at, (uint64_t)hp->n_layer, 4);
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
