/* Byte layout of every block type, as GGUF files hold it.
 *
 * Owns: structs only. They are packed: a block may be at any address. Multi-byte fields are
 * little-endian, as the machines are that we run on. Any thread. */
#ifndef KT_QUANT_BLOCKS_H
#define KT_QUANT_BLOCKS_H

#include "base/f16.h"

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

#endif
