/* Low-rank terms: what adapters add to products, y = W x + B u with u = f (A x).
 *
 * Owns: how a layer's matrices A and B of one adapter are held, which rows of a batch they act on,
 * and the two operations: A x ahead of a product, B u after it. The f32 rows before quantisation
 * are what A sees. Knows neither files nor requests. Bytes depend on a row and its adapters alone;
 * rows without one are not touched. Threads as ops.h says. */
#ifndef KT_OPS_LOW_RANK_H
#define KT_OPS_LOW_RANK_H

#include "kernels/kernels.h"

/* The products that an adapter may add to, and what their inputs are. The last block of a network,
 * after its layers, has HIDDEN (added to the normed hidden state itself) and HEAD. */
typedef enum kt__lora_site {
    KT__SITE_Q,
    KT__SITE_K,
    KT__SITE_V,
    KT__SITE_ATTN_OUT,
    KT__SITE_GATE,
    KT__SITE_UP,
    KT__SITE_DOWN,
    KT__SITE_HIDDEN,
    KT__SITE_HEAD,
    KT__SITES
} kt__lora_site;

typedef enum kt__net_input {
    KT__INPUT_ATTN,
    KT__INPUT_ATTN_OUT,
    KT__INPUT_FFN,
    KT__INPUT_DOWN,
    KT__INPUT_HIDDEN,
    KT__INPUT_HEAD,
    KT__INPUTS
} kt__net_input;

static inline kt__net_input kt__lora_input_of(kt__lora_site site) {
    static const kt__net_input inputs[KT__SITES] = {
        [KT__SITE_Q] = KT__INPUT_ATTN,    [KT__SITE_K] = KT__INPUT_ATTN,
        [KT__SITE_V] = KT__INPUT_ATTN,    [KT__SITE_ATTN_OUT] = KT__INPUT_ATTN_OUT,
        [KT__SITE_GATE] = KT__INPUT_FFN,  [KT__SITE_UP] = KT__INPUT_FFN,
        [KT__SITE_DOWN] = KT__INPUT_DOWN, [KT__SITE_HIDDEN] = KT__INPUT_HIDDEN,
        [KT__SITE_HEAD] = KT__INPUT_HEAD,
    };
    return inputs[site];
}

enum {
    KT__LORA_U_MAX = 1024 /* numbers of u that all adapters of a row may have for one input */
};

/* B of one product. */
typedef struct kt__lora_b {
    const kt__f16 *panels; /* as kt__low_rank has it */
    int rank;              /* 0: absent */
    int n_row;
    int at;        /* its first number of u among those of the input */
    bool shares_u; /* with an earlier site of one fused tensor, whose factor u has */
    float factor;  /* alpha / rank, times the powers of two that A and B were divided by */
} kt__lora_b;

/* The matrices A of one input, one after the other. */
typedef struct kt__lora_a {
    const kt__f16 *rows; /* [rank][n_col] */
    int rank;            /* of all together; 0: none */
    int n_col;
} kt__lora_a;

typedef struct kt__lora_block {
    kt__lora_a a[KT__INPUTS];
    kt__lora_b b[KT__SITES];
} kt__lora_block;

/* An adapter as a network sees it; immutable. */
typedef struct kt__lora {
    kt__lora_block *blocks; /* [n_layer + 1] */
    int n_block;
    int32_t number; /* that a job's processes have for it; 0: only this one has it */
} kt__lora;

typedef struct kt__lora_use {
    const kt__lora *lora;
    float scale;
} kt__lora_use;

/* Consecutive rows of a batch with the same adapters, which act one after the other. */
typedef struct kt__lora_rows {
    int row0, n_tok;
    const kt__lora_use *uses;
    int n_use; /* 0: the rows are as without this */
} kt__lora_rows;

/* The terms of one block: of the rows listed, which do not overlap. */
typedef struct kt__lora_terms {
    const kt__lora_rows *rows;
    int n_rows;
    int block;
    float *u; /* [n_tok][KT__LORA_U_MAX], made for one input at a time */
    /* The input's f32 rows, where u is made by the operation that adds with it; NULL: it is
     * there. */
    const struct kt__acts *acts;
    /* Of a process that computes a part of each product: its first row, where that is row 0. */
    int first[KT__SITES];
} kt__lora_terms;

/* Whether a row's adapter reads this input; terms may be NULL. */
static inline bool kt__lora_has_input(const kt__lora_terms *terms, kt__net_input input) {
    for (int g = 0; terms && g < terms->n_rows; g++) {
        const kt__lora_rows *rows = &terms->rows[g];
        for (int i = 0; i < rows->n_use; i++)
            if (rows->uses[i].lora->blocks[terms->block].a[input].rank) return true;
    }
    return false;
}

#endif
