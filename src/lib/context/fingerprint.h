/* What K/V belongs to: a model's fingerprint, and with it the options that change the numbers.
 *
 * Owns: the bytes that sessions and blocks on disk are bound to. Any thread. */
#ifndef KT_CONTEXT_FINGERPRINT_H
#define KT_CONTEXT_FINGERPRINT_H

#include "context/adapter.h"
#include "context/types.h"

typedef struct kt__fingerprint kt__fingerprint;

/* A model's: not computed yet. */
kt_status kt__fingerprint_create(kt__fingerprint **out, kt_error *err) KT_CHECKED;
void kt__fingerprint_free(kt__fingerprint *fingerprint);
/* A model's fingerprint, computed at the first call: of the metadata, the tensor table, the sizes
 * and sampled blocks of the tensors' bytes. KT_E_TRUNCATED where the file was cut since it was
 * opened. */
kt_status kt__model_fingerprint(const kt_model *model, uint8_t out[KT_FINGERPRINT_BYTES],
                                kt_error *err) KT_CHECKED;
/* The bytes that the K/V of this engine depends on besides the tokens: kt_model_fingerprint, RoPE
 * options, K/V type and shape, KENTANG_NUMERICS, exactness, and the adapters (or NULL) that it is
 * computed with. For kt__kv_key_root (with a scope after it) and for files. */
enum { KT__KV_BINDING_BYTES = 128 };
kt_status kt__engine_kv_binding(const kt_engine *engine, const kt__adapters *adapters,
                                uint8_t out[KT__KV_BINDING_BYTES], kt_error *err) KT_CHECKED;

#endif
