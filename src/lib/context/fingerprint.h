/* A model's fingerprint: whether two files, or two openings of one, are the same model.
 *
 * Owns: what is hashed. Any thread. */
#ifndef KT_CONTEXT_FINGERPRINT_H
#define KT_CONTEXT_FINGERPRINT_H

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
/* The same of any GGUF file, computed now. */
void kt__gguf_fingerprint(const kt__gguf *gguf, uint8_t out[KT_FINGERPRINT_BYTES]);
/* Two openings of one model, in one context or in two: what was made for the one fits the other. */
bool kt__model_is_same(const kt_model *a, const kt_model *b);

#endif
