#include "context/model.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"

enum {
    SEED = 1,           /* of the format of what is hashed */
    SAMPLE_BYTES = 4096 /* of each tensor */
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

void kt__gguf_fingerprint(const kt__gguf *gguf, uint8_t out[KT_FINGERPRINT_BYTES]) {
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
        kt__gguf_fingerprint(model->gguf, f->bytes);
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

bool kt__model_is_same(const kt_model *a, const kt_model *b) {
    uint8_t of_a[KT_FINGERPRINT_BYTES], of_b[KT_FINGERPRINT_BYTES];
    if (a == b) return true;
    return kt__model_fingerprint(a, of_a, NULL) == KT_OK &&
           kt__model_fingerprint(b, of_b, NULL) == KT_OK && !memcmp(of_a, of_b, sizeof of_a);
}
