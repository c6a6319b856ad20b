#include "model/hparams_read.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"

const char *kt__key_of(kt__key_reader *r, const char *suffix) {
    snprintf(r->key, sizeof r->key, "%s.%s", r->prefix, suffix);
    return r->key;
}

float kt__key_f32(kt__key_reader *r, const char *suffix, bool required, float fallback) {
    float value = fallback;
    if (r->status == KT_OK) {
        r->status = kt__gguf_get_f32(r->gguf, kt__key_of(r, suffix), required, &value, r->err);
    }
    if (r->status == KT_OK && !isfinite(value)) {
        r->status = kt__fail_at(r->err, KT_E_FORMAT, kt__key_of(r, suffix), UINT64_MAX,
                                "%s: key '%s' is not a finite number", kt__gguf_path(r->gguf),
                                kt__key_of(r, suffix));
    }
    return value;
}

/* Factors that would make a model's numbers nothing but zeros or infinities are no factors. */
void kt__key_positive(kt__key_reader *r, const char *suffix, float value) {
    if (r->status != KT_OK || (value >= 1e-6f && value <= 1e6f)) return;
    r->status = kt__fail_at(r->err, KT_E_FORMAT, kt__key_of(r, suffix), UINT64_MAX,
                            "%s: key '%s' is %g, expected 1e-6 to 1e6", kt__gguf_path(r->gguf),
                            kt__key_of(r, suffix), (double)value);
}

bool kt__key_bool(kt__key_reader *r, const char *suffix, bool fallback) {
    bool value = fallback;
    if (r->status == KT_OK)
        r->status = kt__gguf_get_bool(r->gguf, kt__key_of(r, suffix), false, &value, r->err);
    return value;
}

/* An integer in [low, high]; a per-layer array is taken when all its elements are equal. */
int64_t kt__key_int(kt__key_reader *r, const char *suffix, bool required, int64_t fallback,
                    int64_t low, int64_t high) {
    if (r->status != KT_OK) return low;
    const char *key = kt__key_of(r, suffix);
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, key);
    uint64_t value = 0;
    if (!kv && !required) return fallback;
    if (kv && kt__gguf_is_integers(kv) && kv->count > 0) {
        value = (uint64_t)kt__gguf_array_i64(kv, 0);
        for (uint64_t i = 1; i < kv->count; i++) {
            if ((uint64_t)kt__gguf_array_i64(kv, i) == value) continue;
            r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, key, kv->file_offset,
                                    "%s: key '%s' differs between layers, which is not supported",
                                    kt__gguf_path(r->gguf), key);
            return low;
        }
    } else {
        r->status = kt__gguf_get_u64(r->gguf, key, true, &value, r->err);
        if (r->status != KT_OK) return low;
    }
    if (value < (uint64_t)low || value > (uint64_t)high) {
        r->status = kt__fail_at(r->err, KT_E_FORMAT, key, kv ? kv->file_offset : UINT64_MAX,
                                "%s: key '%s' is %llu, expected %lld to %lld",
                                kt__gguf_path(r->gguf), key, (unsigned long long)value,
                                (long long)low, (long long)high);
        return low;
    }
    return (int64_t)value;
}

int64_t kt__key_at(kt__key_reader *r, const char *suffix, int layer, int n_layer, int64_t fallback,
                   int64_t low, int64_t high) {
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, kt__key_of(r, suffix));
    if (!kv || kv->type != KT__GGUF_ARRAY)
        return kt__key_int(r, suffix, fallback == 0, fallback, low, high);
    bool ok = kv->count >= (uint64_t)n_layer && kt__gguf_is_integers(kv);
    int64_t n = ok ? kt__gguf_array_i64(kv, (uint64_t)layer) : 0;
    if (ok && n >= low && n <= high) return n;
    if (r->status == KT_OK)
        r->status = kt__fail_at(
            r->err, KT_E_FORMAT, kt__key_of(r, suffix), kv->file_offset,
            "%s: key '%s' should have %d numbers from %lld to %lld, one for each layer",
            kt__gguf_path(r->gguf), r->key, n_layer, (long long)low, (long long)high);
    return low;
}

void kt__key_refuse(kt__key_reader *r, const char *suffix, int64_t value) {
    if (r->status != KT_OK) return;
    r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, kt__key_of(r, suffix), UINT64_MAX,
                            "%s: key '%s' is %lld, which is not supported in the %s architecture",
                            kt__gguf_path(r->gguf), kt__key_of(r, suffix), (long long)value,
                            r->prefix);
}

void kt__key_fail(kt__key_reader *r, const char *suffix, const char *what) {
    if (r->status != KT_OK) return;
    r->status = kt__fail_at(r->err, KT_E_FORMAT, kt__key_of(r, suffix), UINT64_MAX,
                            "%s: key '%s' %s", kt__gguf_path(r->gguf), kt__key_of(r, suffix), what);
}

int kt__key_layers(kt__key_reader *r, const char *suffix, int n_layer, int64_t high, bool *zero) {
    const char *key = kt__key_of(r, suffix);
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, key);
    if (!kv || kv->type != KT__GGUF_ARRAY) return (int)kt__key_int(r, suffix, true, 1, 1, high);
    int64_t all = 0;
    bool ok = r->status == KT_OK && kv->count >= (uint64_t)n_layer && kt__gguf_is_integers(kv);
    for (int i = 0; ok && i < n_layer; i++) {
        int64_t n = kt__gguf_array_i64(kv, (uint64_t)i);
        zero[i] = n == 0;
        if (n == 0) continue;
        ok = n > 0 && n <= high && (all == 0 || n == all);
        all = n;
    }
    if (r->status != KT_OK || (ok && all > 0)) return ok ? (int)all : 1;
    r->status = kt__fail_at(r->err, KT_E_FORMAT, key, kv->file_offset,
                            "%s: key '%s' should have %d numbers, one for each layer, 0 or the "
                            "same one, and not all 0",
                            kt__gguf_path(r->gguf), key, n_layer);
    return 1;
}
