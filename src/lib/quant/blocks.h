/* Byte layout of every block type, as GGUF files hold it.
 *
 * Owns: structs only. They are packed: a block may be at any address. Multi-byte fields are
 * little-endian, as the machines are that we run on. Any thread. */
#ifndef KT_QUANT_BLOCKS_H
#define KT_QUANT_BLOCKS_H

#include "base/math.h"

#define KT__PACKED __attribute__((packed))

/* ---- 32 weights; low nibbles are elements 0-15, high nibbles 16-31 ---- */
typedef struct KT__PACKED kt__q4_0 {
    kt__f16 d;
    uint8_t qs[16];
} kt__q4_0;
typedef struct KT__PACKED kt__q4_1 {
    kt__f16 d, m;
    uint8_t qs[16];
} kt__q4_1;
typedef struct KT__PACKED kt__q5_0 {
    kt__f16 d;
    uint8_t qh[4]; /* bit i: fifth bit of element i */
    uint8_t qs[16];
} kt__q5_0;
typedef struct KT__PACKED kt__q5_1 {
    kt__f16 d, m;
    uint8_t qh[4];
    uint8_t qs[16];
} kt__q5_1;
typedef struct KT__PACKED kt__q8_0 {
    kt__f16 d;
    int8_t qs[32];
} kt__q8_0;
typedef struct KT__PACKED kt__iq4_nl {
    kt__f16 d;
    uint8_t qs[16]; /* indices into kt__iq4_table */
} kt__iq4_nl;
typedef struct KT__PACKED
    kt__mxfp4 {     /* OCP Microscaling Formats 1.0: E2M1 weights, an E8M0 scale */
    uint8_t e;      /* the scale is 2^(e - 128) */
    uint8_t qs[16]; /* indices into kt__mxfp4_table, whose levels are twice E2M1's */
} kt__mxfp4;

/* ---- 256 weights ---- */
typedef struct KT__PACKED kt__q2_k {
    uint8_t scales[16]; /* of 16 weights: low nibble scale, high nibble min */
    uint8_t qs[64];     /* [2 halves][32], four 2-bit levels a byte, 32 elements apart */
    kt__f16 d, dmin;
} kt__q2_k;
typedef struct KT__PACKED kt__q3_k {
    uint8_t hmask[32];  /* bit 4*half + quarter: third bit */
    uint8_t qs[64];     /* as Q2_K */
    uint8_t scales[12]; /* 16 scales of 6 bits, 32 added */
    kt__f16 d;
} kt__q3_k;
typedef struct KT__PACKED kt__q4_k {
    kt__f16 d, dmin;
    uint8_t scales[12]; /* 8 scales and 8 mins of 6 bits */
    uint8_t qs[128];    /* [4][32]: group 2k in the low nibbles, 2k + 1 in the high ones */
} kt__q4_k;
typedef struct KT__PACKED kt__q5_k {
    kt__f16 d, dmin;
    uint8_t scales[12];
    uint8_t qh[32]; /* bit j of qh[l]: fifth bit of element l of group j */
    uint8_t qs[128];
} kt__q5_k;
typedef struct KT__PACKED kt__q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16]; /* of 16 weights */
    kt__f16 d;
} kt__q6_k;
typedef struct KT__PACKED kt__iq4_xs {
    kt__f16 d;
    uint16_t scales_h;   /* two high bits of 8 scales, 32 added */
    uint8_t scales_l[4]; /* their low nibbles */
    uint8_t qs[128];     /* [8][16], nibbles as in a 32-block */
} kt__iq4_xs;

/* Of codebooks (quant/grids.h): 32 vectors of 8 weights, or 64 of 4, each an index. Bit j of a sign
 * byte: weight j is negative. Sign bytes of 7 bits have an even number of set bits: the eighth
 * follows from them. A scale s of 4 bits counts 2 s + 1. */
typedef struct KT__PACKED kt__iq2_xxs {
    kt__f16 d;
    struct KT__PACKED {
        uint8_t index[4];
        uint32_t rest; /* four signs of 7 bits, then the scale */
    } group[8];
} kt__iq2_xxs;
typedef struct KT__PACKED kt__iq2_xs {
    kt__f16 d;
    uint16_t qs[32];   /* index in 9 bits, signs in 7 */
    uint8_t scales[8]; /* of 16 weights, two nibbles */
} kt__iq2_xs;
typedef struct KT__PACKED kt__iq2_s {
    kt__f16 d;
    uint8_t qs[32], signs[32];
    uint8_t qh[8]; /* bits 8 and 9 of the indices of four vectors */
    uint8_t scales[8];
} kt__iq2_s;
typedef struct KT__PACKED kt__iq3_xxs {
    kt__f16 d;
    uint8_t qs[64];
    uint32_t rest[8]; /* as IQ2_XXS */
} kt__iq3_xxs;
typedef struct KT__PACKED kt__iq3_s {
    kt__f16 d;
    uint8_t qs[64];
    uint8_t qh[8]; /* bit 8 of the indices of eight vectors */
    uint8_t signs[32];
    uint8_t scales[4]; /* of 32 weights, two nibbles */
} kt__iq3_s;
typedef struct KT__PACKED kt__iq1_s {
    kt__f16 d;
    uint8_t qs[32];
    uint16_t qh[8]; /* bits 8 to 10 of four indices, the scale in 3 bits, the offset's sign */
} kt__iq1_s;
typedef struct KT__PACKED kt__iq1_m {
    uint8_t qs[32];
    uint8_t qh[16];     /* for each vector a nibble: bits 8 to 10, the offset's sign */
    uint16_t scales[4]; /* four scales of 16 weights in 3 bits; the high nibbles: d */
} kt__iq1_m;

/* Of three levels, -1 to 1. */
typedef struct KT__PACKED kt__tq1_0 {
    uint8_t qs[48]; /* five digits a byte: byte m of the first 32 has weights m + 32 n, then 160 + m
                       + 16 n */
    uint8_t qh[4];  /* four digits: 240 + m + 4 n */
    kt__f16 d;
} kt__tq1_0;
typedef struct KT__PACKED kt__tq2_0 {
    uint8_t qs[64]; /* as Q2_K, 1 added */
    kt__f16 d;
} kt__tq2_0;

/* ---- 128 and 64 weights: as blocks of 32 that share a scale ---- */
typedef struct KT__PACKED kt__q1_0 {
    kt__f16 d;
    uint8_t qs[16]; /* bit i: weight i is d, not -d */
} kt__q1_0;
typedef struct KT__PACKED kt__q2_0 {
    kt__f16 d;
    uint8_t qs[16]; /* four 2-bit levels a byte, in order, 1 added */
} kt__q2_0;
typedef struct KT__PACKED kt__nvfp4 {
    uint8_t scales[4]; /* of 16 weights: an 8-bit float without sign, 4 bits of exponent */
    uint8_t qs[32]; /* [4][8]: weights 16 i + j in the low nibbles, 16 i + 8 + j in the high ones;
                          indices into kt__mxfp4_table */
} kt__nvfp4;

_Static_assert(sizeof(kt__q4_0) == 18, "q4_0");
_Static_assert(sizeof(kt__q4_1) == 20, "q4_1");
_Static_assert(sizeof(kt__q5_0) == 22, "q5_0");
_Static_assert(sizeof(kt__q5_1) == 24, "q5_1");
_Static_assert(sizeof(kt__q8_0) == 34, "q8_0");
_Static_assert(sizeof(kt__iq4_nl) == 18, "iq4_nl");
_Static_assert(sizeof(kt__mxfp4) == 17, "mxfp4");
_Static_assert(sizeof(kt__q2_k) == 84, "q2_k");
_Static_assert(sizeof(kt__q3_k) == 110, "q3_k");
_Static_assert(sizeof(kt__q4_k) == 144, "q4_k");
_Static_assert(sizeof(kt__q5_k) == 176, "q5_k");
_Static_assert(sizeof(kt__q6_k) == 210, "q6_k");
_Static_assert(sizeof(kt__iq4_xs) == 136, "iq4_xs");
_Static_assert(sizeof(kt__iq2_xxs) == 66, "iq2_xxs");
_Static_assert(sizeof(kt__iq2_xs) == 74, "iq2_xs");
_Static_assert(sizeof(kt__iq2_s) == 82, "iq2_s");
_Static_assert(sizeof(kt__iq3_xxs) == 98, "iq3_xxs");
_Static_assert(sizeof(kt__iq3_s) == 110, "iq3_s");
_Static_assert(sizeof(kt__iq1_s) == 50, "iq1_s");
_Static_assert(sizeof(kt__iq1_m) == 56, "iq1_m");
_Static_assert(sizeof(kt__tq1_0) == 54, "tq1_0");
_Static_assert(sizeof(kt__tq2_0) == 66, "tq2_0");
_Static_assert(sizeof(kt__q1_0) == 18, "q1_0");
_Static_assert(sizeof(kt__q2_0) == 18, "q2_0");
_Static_assert(sizeof(kt__nvfp4) == 36, "nvfp4");

#endif
