/* Character classes and normalisation forms C and D.
 *
 * Owns: the class bits that pre-tokenizer patterns use (generated tables), a decoder that hands
 * them out while walking UTF-8, NFC and NFD. Does not know patterns. Any thread. */
#ifndef KT_TOKENIZER_UNICODE_H
#define KT_TOKENIZER_UNICODE_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/text.h"

/* Bits of a class; tools/unicode/gen_classes.c writes them. */
enum {
    KT__UC_L = 1,      /* \p{L} */
    KT__UC_N = 2,      /* \p{N} */
    KT__UC_M = 4,      /* \p{M} */
    KT__UC_PS = 8,     /* [\p{P}\p{S}] */
    KT__UC_SPACE = 16, /* \s: the property White_Space */
    KT__UC_UPPER = 32, /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
    KT__UC_LOWER = 64, /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
    KT__UC_NFC = 128   /* NFC may change it or its neighbours */
};

extern const uint8_t kt__unicode_stage1[];
extern const uint8_t kt__unicode_stage2[];

/* cp <= 0x10FFFF */
static inline uint8_t kt__unicode_class(uint32_t cp) {
    return kt__unicode_stage2[(size_t)kt__unicode_stage1[cp >> 7] * 128 + (cp & 127)];
}

/* The class of the character at s[0], len >= 1, and its length. A byte that begins no valid
 * character is a character of its own with no class bits and code point UINT32_MAX. */
static inline uint8_t kt__unicode_next(const char *s, size_t len, size_t *n, uint32_t *cp) {
    unsigned char first = (unsigned char)s[0];
    *n = 1;
    *cp = first;
    if (first < 0x80) return kt__unicode_stage2[first];
    size_t got = kt__utf8_decode(s, len, cp);
    if (got == 0) {
        *cp = UINT32_MAX;
        return 0;
    }
    *n = got;
    return kt__unicode_class(*cp);
}

/* Normalises s[*len] to NFC. Where nothing changes *out is s itself; else the result lies in the
 * arena. Bytes that are not UTF-8 stay as they are. Linear, apart from a counting sort of combining
 * marks. */
kt_status kt__unicode_nfc(kt__arena *arena, const char *s, size_t len, const char **out,
                          size_t *out_len, kt_error *err) KT_CHECKED;

/* Canonical decomposition (NFD) of the valid UTF-8 s[len]. *out is s itself where all of it is
 * ASCII; else it lies in the arena. */
kt_status kt__unicode_nfd(kt__arena *arena, const char *s, size_t len, const char **out,
                          size_t *out_len, kt_error *err) KT_CHECKED;

#endif
