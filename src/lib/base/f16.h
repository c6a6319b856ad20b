/* Half precision: IEEE binary16 and bfloat16 to and from f32, bit-exact everywhere.
 *
 * Owns: the reference conversions that every tier must equal (rounding to nearest, ties to even;
 * NaN stays NaN and becomes quiet). Any thread. */
#ifndef KT_BASE_F16_H
#define KT_BASE_F16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t kt__f16;  /* binary16 bits */
typedef uint16_t kt__bf16; /* upper half of an f32 */

static inline float kt__f32_from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t kt__f32_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

float kt__f16_to_f32(kt__f16 h);
kt__f16 kt__f16_from_f32(float f);

static inline float kt__bf16_to_f32(kt__bf16 h) {
    return kt__f32_from_bits((uint32_t)h << 16);
}
kt__bf16 kt__bf16_from_f32(float f);

#endif
