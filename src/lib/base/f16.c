#include "base/f16.h"

/* Subnormals are mantissa * 2^-24, which f32 holds exactly. */
float kt__f16_to_f32(kt__f16 h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-24f;
        return kt__f32_from_bits(sign | kt__f32_bits(magnitude));
    }
    if (exponent == 31) {
        uint32_t quiet = mantissa ? 0x400000u : 0;
        return kt__f32_from_bits(sign | 0x7f800000u | quiet | mantissa << 13);
    }
    return kt__f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* Shifts right by `shift` (1..24) and rounds to nearest, ties to even. */
static uint32_t shift_round(uint32_t value, unsigned shift) {
    uint32_t half = 1u << (shift - 1);
    uint32_t rest = value & ((1u << shift) - 1);
    uint32_t result = value >> shift;
    return result + (rest > half || (rest == half && (result & 1)));
}

kt__f16 kt__f16_from_f32(float f) {
    uint32_t bits = kt__f32_bits(f);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (kt__f16)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x47800000u) return (kt__f16)(sign | 0x7c00u); /* 65536 and above */
    if (magnitude >= 0x38800000u) { /* normal; may carry to infinity */
        return (kt__f16)(sign | shift_round(magnitude - 0x38000000u, 13));
    }
    if (magnitude < 0x33000000u) return (kt__f16)sign; /* below half of the least subnormal */
    unsigned shift = 126u - (magnitude >> 23);
    return (kt__f16)(sign | shift_round((magnitude & 0x7fffffu) | 0x800000u, shift));
}

kt__bf16 kt__bf16_from_f32(float f) {
    uint32_t bits = kt__f32_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (kt__bf16)(bits >> 16 | 0x40u);
    return (kt__bf16)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
