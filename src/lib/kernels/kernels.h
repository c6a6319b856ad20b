/* The kernel table: everything that is worth writing once per instruction set.
 *
 * Owns: quantised and float matrix products over native blocks, activation quantisation, norms,
 * rotary embedding, activations, attention over one split, reductions. A tier is one const table,
 * compiled in parts (tier_avx2.c, and its quantised products from tier_part.c.in) each of which
 * exports its table alone. Knows neither tensor names nor threads: a caller gives each worker its
 * own rows and scratch. Every entry gives the same bytes in every tier: tier_ref is the executable
 * form of docs/NUMERICS.md (which of the NaNs a NaN is stays open). Any thread; no allocation;
 * requires the contract's floating-point environment. */
#ifndef KT_KERNELS_KERNELS_H
#define KT_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/math.h"
#include "base/geometry.h"
#include "quant/quant.h"

/* ---- activations ----
 *
 * A row of n_col activations is held as one stretch of bytes, 64-byte aligned, its parts 64-byte
 * aligned:
 *   F32:  f32 x[n_col]
 *   Q32:  i8 q[n_col], f32 d[n_col/32], i16 s32[n_col/32]      (s32: sum of q over 32)
 *   Q256: i8 q[n_col], f32 d[n_col/256], i16 s16[n_col/16], i16 s32[n_col/32]
 * F32 rows are zero-padded to a multiple of 16 floats; a float product takes its row of weights as
 * padded with +0 in the same way (and multiplies the padding). Padding elsewhere is zero too.
 *
 * quantize: d = amax/127.0f, q = round-to-even(x * (127.0f/amax)) held to +-127; amax < 2^-100
 * gives d = 0 and zeros; a non-finite x gives d = NaN (0x7fc00000) and zeros. */
typedef struct kt__act_layout {
    size_t row_bytes;   /* multiple of 64 */
    size_t d, s16, s32; /* byte offsets in the row; q or x is at 0 */
} kt__act_layout;
kt__act_layout kt__act_layout_of(kt__act_kind kind, int n_col);

/* What products on tiles read in place of such rows: KT__TILE_TOKENS tokens' activations of one
 * superblock. Tokens beyond the last are zeros. */
enum { KT__TILE_TOKENS = 16 };
typedef struct kt__tile_act {
    int8_t q[4][KT__TILE_TOKENS][64]; /* [columns / 64][token][column] */
    float d[KT__TILE_TOKENS];
    int16_t s16[KT__TILE_TOKENS][16], s32[KT__TILE_TOKENS][8];
} kt__tile_act;
_Static_assert(sizeof(kt__tile_act) % 64 == 0, "whole lines");

/* Those of n_col / 256 superblocks, each of them the tokens' groups in order, `pitch` apart. */
typedef struct kt__tiles {
    kt__tile_act *act; /* NULL: there are none */
    size_t pitch;
} kt__tiles;

/* ---- matrix products ---- */

/* How many bytes ahead of its reads rowdot prefetches quantised weights: `near` into the first-level
 * cache, `far` into the second; 0: not. It never changes a result. */
typedef struct kt__prefetch {
    uint16_t near, far;
} kt__prefetch;

/* out[t][r] = (sum_k w[r][k] * act[t][k] + bias[r]) + residual[t][r], for r < n_row, t < n_tok; an
 * absent term is left out. The order of operations is the contract's, whatever n_row and n_tok. */
typedef struct kt__mm {
    kt__type type;
    const uint8_t *w; /* first row; rows follow at w_row_bytes */
    size_t w_row_bytes;
    int n_row, n_col;   /* n_col: a multiple of the type's block */
    const uint8_t *act; /* activation rows of the type's kind at act_row_bytes */
    size_t act_row_bytes;
    kt__tiles tiles; /* of the same activations, from act's first token on; or none */
    int n_tok;
    float *out; /* out[t * ld_out + r] */
    size_t ld_out;
    const float *bias;     /* [n_row] or NULL */
    const float *residual; /* residual[t * ld_residual + r] or NULL; may be out itself */
    size_t ld_residual;
    const uint8_t *next; /* bytes this worker will probably read next (prefetch), or NULL */
    kt__prefetch prefetch;
} kt__mm;

/* scratch: 64-byte aligned, kt__kernels.mm_scratch_bytes, one per worker */
typedef void kt__mm_fn(const kt__mm *mm, void *scratch);

typedef struct kt__mm_kernels {
    kt__mm_fn *rowdot; /* few tokens: streams the rows once for all of them */
    kt__mm_fn *gemm;   /* many tokens: unpacks panels of rows */
    int gemm_min_tok;  /* from here on gemm is faster */
} kt__mm_kernels;

/* ---- low-rank terms ----
 *
 * What an adapter adds to a product, B u with u = f (A x): A x is a product with F16 weights, B
 * lies in panels of KT__PANEL_ROWS outputs, [panel][rank][KT__PANEL_ROWS], the last one padded with
 * zeros, so that one stretch of bytes is read for neighbouring outputs. */
enum { KT__PANEL_ROWS = 16 };

/* out[t][i] += sum over j of b[first + i][j] * u[t][j], the sum an fma chain over ascending j from
 * +0, for i < n, t < n_tok. */
typedef struct kt__low_rank {
    const kt__f16 *b; /* panels, from output 0 on */
    int rank;
    int first, n; /* outputs */
    const float *u;
    size_t ld_u;
    int n_tok;
    float *out;
    size_t ld_out;
    const uint8_t *next; /* as kt__mm has it */
} kt__low_rank;

/* ---- products of f32 matrices ----
 *
 * For training, whose matrices are used in both directions: no operand need be turned round. */

/* out[i][j] = the fma chain over ascending k of a[i][k] * b[k][j], from +0 or, add, from what is
 * there. a[i][k] is at a[i * a_row + k * a_step]; rows of b and out lie ld_b and ld_out
 * apart. */
typedef struct kt__outer_mm {
    const float *a, *b;
    size_t a_row, a_step, ld_b, ld_out;
    int n_row, n_step, n_col; /* i < n_row, k < n_step, j < n_col; at least 1 */
    bool add;
    float *out; /* neither a nor b */
} kt__outer_mm;

/* ---- attention ----
 *
 * One split of one kv head: positions [256 s, 256 s + 255] in pages of 16. A page of K is f16
 * [head_dim][16 positions], of V f16 [16 positions][head_dim] (this kv head's part of the page). */

typedef struct kt__attn {
    const kt__f16
        *k[KT__SPLIT_PAGES]; /* pages of this split; those outside every range are not read */
    const kt__f16 *v[KT__SPLIT_PAGES];
    int head_dim_k, head_dim_v; /* multiples of 2; tails beyond a multiple of 16 are allowed */
    const float *q;             /* q[i * ld_q + d]: queries, already scaled */
    size_t ld_q;
    int n_q;                /* (token, head of the group) pairs that share this kv head */
    const int16_t *lo, *hi; /* [n_q] visible slots of the split: lo <= slot < hi; lo < hi */
    float softcap;          /* 0: none; else s = softcap * tanh(s / softcap) */
    float *m, *l;           /* out[n_q]: max (+ 0.0f: never -0) and sum of exponentials */
    float *o;               /* out[i * ld_o + d]: sum of p * v, not normalised */
    size_t ld_o;
    const struct kt__attn_quantised *quantised; /* or NULL: every page is read in f16 */
    /* for prefetches: the keys that this thread probably reads next, a page each or NULL, and bytes
     * of one */
    const uint8_t *next_k[KT__SPLIT_PAGES];
    size_t next_k_bytes;
} kt__attn;

/* Which of the split's pages are read quantised (base/geometry.h has their layout), and where these
 * lie. Query i reads the pages from `from` up to own[i] - 1 quantised, the others f16. */
typedef struct kt__attn_quantised {
    kt__kv_form k_form, v_form; /* KT__KV_F16: those are read in f16 in every page */
    const uint8_t *k[KT__SPLIT_PAGES], *v[KT__SPLIT_PAGES];
    const uint8_t
        *q; /* q + i * ld_q: codes of the queries, as code_query makes them; K quantised only */
    size_t ld_q;
    int from;
    const int16_t *own; /* [n_q], 0 to KT__SPLIT_PAGES */
} kt__attn_quantised;

/* scratch: 64-byte aligned, at least attn_scratch_bytes(n_q, head_dim_k, head_dim_v) */
typedef void kt__attn_fn(const kt__attn *attn, void *scratch);

/* scratch: 64-byte aligned, kt__quantise_scratch_bytes */
typedef void kt__quantise_page_fn(const kt__f16 *page, int head_dim, uint8_t *quantised,
                                  void *scratch);

/* ---- recurrent layers ---- */

/* out[i] = fma chain over j from bias[i] (NULL: from +0) of w[j * ld_w + i] * x[j][i], for i < n;
 * with silu, silu of that */
typedef struct kt__conv {
    const float *const *x; /* [width] the channels' inputs, of the token itself last */
    const float *w;
    size_t ld_w;
    const float *bias;
    int width, n;
    bool silu;
    float *out;
} kt__conv;

/* Rows of one head's state through tokens in order: for each, s = decay * s; change = beta * (v - s
 * . k); s = fma(k, change, s); out = s . q; the sums in 16 lanes by fma and the tree. With a, which
 * goes with adds, each row has a beta of its own, [n_row] at t * ld_g, and s[i] decays by e^(beta *
 * a[i]). */
typedef struct kt__delta {
    float *s; /* [n_row][dim], read and written; dim a multiple of 16 */
    int n_row, dim, n_tok;
    bool adds;          /* change = beta * v */
    const float *q, *k; /* [dim] of token t at t * ld_qk */
    size_t ld_qk;
    const float *v; /* [n_row] at t * ld_v */
    size_t ld_v;
    const float *decay, *beta; /* at t * ld_g */
    size_t ld_g;
    float *out; /* [n_row] at t * ld_out */
    size_t ld_out;
    const float *a; /* [n_row][dim], where decay is unused; or NULL */
} kt__delta;

/* ---- the table ---- */

typedef struct kt__kernels {
    const char *name; /* "ref", "avx2", ... */
    /* [KT__TYPE_COUNT]; where the tier has no products of its own for a type, kt__mm_ref */
    const kt__mm_kernels *const *mm;
    /* [KT__TYPE_COUNT]: from how many tokens on gemm reads kt__mm.tiles, and makes them itself where
     * there are none; 0: never. NULL: no type. */
    const uint8_t *tiles_from;
    /* n_tok rows of kind Q256, of which the first begins a group; NULL without tiles_from */
    void (*tile)(const uint8_t *act, int n_col, int n_tok, kt__tiles to);
    /* dequantises rows and multiplies f32 activations: the --exact path. act is of kind F32. */
    kt__mm_fn *exact;
    void (*outer_mm)(const kt__outer_mm *mm, void *scratch); /* scratch: as of kt__mm_fn */
    /* of one worker, for any mm, exact and outer_mm call with n_col <= KT__MAX_COL */
    size_t mm_scratch_bytes;

    /* x[n_col] f32 -> one activation row of the kind at dst. Non-finite input: that block's d is
     * NaN. */
    void (*quantize[KT__ACT_COUNT])(const float *x, int n_col, uint8_t *dst);

    /* out[i] = (x[i] * scale) * w[i] (w NULL: without), scale = 1 / sqrt(sum(x^2)/n + eps), the sum
     * in 16 lanes (k mod 16) by fma and the tree +8 +4 +2 +1. out may be x. Returns the sum
     * (non-finite: the caller reports KT_E_NUMERIC). */
    float (*rmsnorm)(const float *x, const float *w, int n, float eps, float *out);
    /* out[i] = a[i] + b[i] */
    void (*add)(const float *a, const float *b, int n, float *out);
    void (*scale)(float *x, int n, float factor);
    void (*low_rank_add)(const kt__low_rank *term);
    /* out[i] = act(gate[i]) * up[i]; out may be gate */
    void (*silu_mul)(const float *gate, const float *up, int n, float *out);
    void (*gelu_mul)(const float *gate, const float *up, int n, float *out);
    void (*conv)(const kt__conv *conv);
    void (*delta)(const kt__delta *delta);
    /* x[i] = log(1 + e^x[i]), in place */
    void (*softplus)(float *x, int n);
    /* out[i] = x[i] / (1 + exp(-gate[i])); out may be x */
    void (*sigmoid_mul)(const float *x, const float *gate, int n, float *out);
    /* x[i] = cap * tanh(x[i] / cap) */
    void (*softcap)(float *x, int n, float cap);
    /* Rotates one head in place: pairs (i, i + n_rot/2) for neox, (2i, 2i+1) for norm; cs[i] = cos,
     * cs[n_rot/2 + i] = sin; x0' = fma(-x1, s, x0 * c), x1' = fma(x0, s, x1 * c). Elements from
     * n_rot on stay. */
    void (*rope_neox)(float *x, const float *cs, int n_rot);
    void (*rope_norm)(float *x, const float *cs, int n_rot);
    /* Writes one position's vectors into pages: K transposed, both rounded to nearest even and
     * clamped to +-65504 */
    void (*store_k)(const float *k, int head_dim, int slot, kt__f16 *page);
    void (*store_v)(const float *v, int head_dim, int slot, kt__f16 *page);
    /* A whole f16 page to a quantised one of a form other than f16 */
    kt__quantise_page_fn *quantise_k[KT__KV_FORMS], *quantise_v[KT__KV_FORMS];
    /* A query, already scaled, to the codes that scores with quantised keys take */
    void (*code_query)(const float *q, int head_dim, uint8_t *codes, void *scratch);

    kt__attn_fn *attn;
    size_t (*attn_scratch_bytes)(int n_q, int head_dim_k, int head_dim_v);
    /* Merges a later split into (M, L, O): M' = max(M,m), a = exp(M-M'), b = exp(m-M'), L =
     * fma(a,L,b*l), O[d] = fma(a,O[d],b*o[d]) */
    void (*attn_merge)(float *M, float *L, float *O, float m, float l, const float *o,
                       int head_dim);
    /* out[d] = O[d] * (1/L) */
    void (*attn_finish)(const float *O, float L, int head_dim, float *out);

    /* index of the largest x, the lowest on ties; *finite is false if any x is NaN or infinite */
    int (*argmax)(const float *x, int n, bool *finite);

    /* The searches of the encoders, for kt__quantize_row_by. */
    const kt__fitter *fitter;

    /* Integer multiply-adds (u8 x i8 -> i32) done by a loop at this tier's peak rate; for doctor
     * and bench */
    uint64_t (*peak_i8)(uint64_t iterations, int32_t *sink);
} kt__kernels;

/* Of quantise_k, quantise_v and code_query. */
static inline size_t kt__quantise_scratch_bytes(int head_dim) {
    return ((size_t)head_dim + 32) * KT__PAGE_POS * sizeof(float);
}

/* Heads are rotated in blocks of the largest power of two that divides their dimension. */
static inline int kt__rotation_block(int head_dim) { return head_dim & -head_dim; }

/* The reference's products, of any type. */
extern const kt__mm_kernels kt__mm_ref;

enum { KT__MAX_COL = 262144 }; /* longest row a model may have; mm_scratch_bytes covers it */

#endif
