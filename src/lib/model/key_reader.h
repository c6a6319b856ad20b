/* Keys of one architecture in a GGUF file's metadata.
 *
 * Owns: reading PREFIX.suffix keys with their checks and errors; the first failure sticks, so that a run
 * of reads is checked once, and later reads give harmless values. Knows no architecture. One thread. */
#ifndef KT_MODEL_KEY_READER_H
#define KT_MODEL_KEY_READER_H

#include <kentang.h>

#include "gguf/gguf.h"

typedef struct kt__key_reader {
    const kt__gguf *gguf;
    const char *prefix;
    kt_error *err;
    kt_status status;
    char key[128];
} kt__key_reader;

/* PREFIX.suffix, valid until the next call. */
const char *kt__key_of(kt__key_reader *r, const char *suffix);
float kt__key_f32(kt__key_reader *r, const char *suffix, bool required, float fallback);
bool kt__key_bool(kt__key_reader *r, const char *suffix, bool fallback);
/* An integer in [low, high]; a per-layer array is taken when all its elements are equal. */
int64_t kt__key_int(kt__key_reader *r, const char *suffix, bool required, int64_t fallback,
                    int64_t low, int64_t high);
/* The layer's integer, of an array with one for each of n_layer or of one for all. fallback 0: the
 * key is required. */
int64_t kt__key_at(kt__key_reader *r, const char *suffix, int layer, int n_layer, int64_t fallback,
                   int64_t low, int64_t high);
/* An integer for each layer, or one for all: 0 (zero[i] is set), or everywhere the same one up to high,
 * which is returned. KT_E_FORMAT for others and where all are 0. */
int kt__key_layers(kt__key_reader *r, const char *suffix, int n_layer, int64_t high, bool *zero);
/* Factors that would make a model's numbers nothing but zeros or infinities are no factors. */
void kt__key_positive(kt__key_reader *r, const char *suffix, float value);
/* KT_E_FORMAT: the key `what`. */
void kt__key_fail(kt__key_reader *r, const char *suffix, const char *what);
/* KT_E_UNSUPPORTED: this value of the key. */
void kt__key_refuse(kt__key_reader *r, const char *suffix, int64_t value);

#endif
