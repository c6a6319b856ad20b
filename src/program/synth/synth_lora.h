/* Synthetic adapters: random matrices of a rank next to every matrix of a model that a kind names,
 * as a GGUF file: for speed measurements and tests.
 *
 * Owns: which matrices a kind has, and the bytes, which depend on the seed, the matrix and the row
 * alone. One thread. */
#ifndef KT_SYNTH_SYNTH_LORA_H
#define KT_SYNTH_SYNTH_LORA_H

#include <kentang.h>

typedef enum kt__synth_lora_kind {
    KT__SYNTH_LORA_ALL,   /* every matrix of every layer */
    KT__SYNTH_LORA_LAST,  /* the last layer's after its keys and values */
    KT__SYNTH_LORA_HIDDEN /* the final hidden state */
} kt__synth_lora_kind;

typedef struct kt__synth_lora_params {
    const char *base; /* the model's file */
    int rank;
    kt__synth_lora_kind kind;
    uint64_t seed;
} kt__synth_lora_params;

kt_status KT_CHECKED kt__synth_lora_write(const kt__synth_lora_params *params, const char *path,
                                          kt_error *err);

#endif
