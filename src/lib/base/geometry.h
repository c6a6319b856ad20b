/* Shapes that the arithmetic contract fixes: the same on every machine and in every tier.
 *
 * Owns: how many positions a page of K/V and a split of attention hold, and what a page's keys and
 * values look like. A change of any of it changes bytes of answers (splits) or of files (pages). */
#ifndef KT_BASE_GEOMETRY_H
#define KT_BASE_GEOMETRY_H

#include <stddef.h>

enum {
    KT__PAGE_POS = 16,                              /* positions of a page of K/V */
    KT__SPLIT_POS = 256,                            /* positions of one split of attention */
    KT__SPLIT_PAGES = KT__SPLIT_POS / KT__PAGE_POS, /* pages of one split */
    KT__WEIGHT_PAGES = 2, /* pages whose weights are quantised as one block, where values are */
    KT__WEIGHT_GROUPS = KT__SPLIT_PAGES / KT__WEIGHT_PAGES
};

/* How keys or values are held. A page is written in f16, [head_dim][16] (K) or [16][head_dim] (V),
 * until it is quantised; in the form f16 it stays f16. Quantised, by head:
 *   K q8: f32 scale[16 positions], i8 code[dims / 4][16 positions][4], dims a multiple of 4
 *   V q8: f32 scale[16 positions], i8 code[4][head_dim][4 positions]
 *   K q4: f16 scale[16 positions], code[dims / 8][16 positions][4], dims a multiple of 8: in a byte's
 *         low half that of dimension 8 i + j, in its high half that of 8 i + 4 + j, each 8 too much
 *   V q4: f16 scale[16 positions], code[2][head_dim][4]: low halves positions 0-7, high ones 8-15
 * NUMERICS.md, section 8, has the rules. */
typedef enum kt__kv_form { KT__KV_F16, KT__KV_Q8, KT__KV_Q4, KT__KV_FORMS } kt__kv_form;

enum { KT__Q4_ZERO = 8 }; /* what a code of 4 bits is stored too high by */

/* Where a quantised page's codes begin. */
static inline size_t kt__quantised_codes(kt__kv_form form) {
    return form == KT__KV_Q4 ? KT__PAGE_POS * 2 : KT__PAGE_POS * 4;
}

/* Dimensions of a key's codes: those beyond the head's are zero. */
static inline int kt__code_dims(kt__kv_form form, int head_dim) {
    return form == KT__KV_Q4 ? (head_dim + 7) / 8 * 8 : (head_dim + 3) / 4 * 4;
}

static inline size_t kt__quantised_k_bytes(kt__kv_form form, int head_dim) {
    size_t codes = (size_t)kt__code_dims(form, head_dim) * KT__PAGE_POS;
    return kt__quantised_codes(form) + (form == KT__KV_Q4 ? codes / 2 : codes);
}

static inline size_t kt__quantised_v_bytes(kt__kv_form form, int head_dim) {
    size_t codes = (size_t)head_dim * KT__PAGE_POS;
    return kt__quantised_codes(form) + (form == KT__KV_Q4 ? codes / 2 : codes);
}

/* A query's codes serve keys of every form: i8 [dims], f32 scale, i32 sum of the codes. */
static inline int kt__query_dims(int head_dim) {
    return (head_dim + 7) / 8 * 8;
}

static inline size_t kt__query_code_bytes(int head_dim) {
    return ((size_t)kt__query_dims(head_dim) + 8 + 15) / 16 * 16;
}

#endif
