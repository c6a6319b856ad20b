/* What processes that have parts of matrices send each other: columns of rows.
 *
 * Owns: which columns are whose, and packing: where a token's results are one row they are exchanged in their place, else
 * each process' columns are packed into the device's stage, exchanged and put in their places; and which part of a prompt's
 * rows is computed while another one travels. Used by split_ops.c. */
#ifndef KT_OPS_EXCHANGE_H
#define KT_OPS_EXCHANGE_H

#include "ops/dev.h"

/* Columns before each process' own. */
typedef struct kt__columns {
    int before[KT__PEERS_MAX + 1];
} kt__columns;

/* Of n, in whole units. */
kt__columns kt__columns_of(const kt__division *split, int n, int unit);
int kt__columns_own(const kt__division *split, const kt__columns *c);

/* Everybody's parts of n_tok rows in the stage, or of one row in its place. */
void kt__exchange_parts(const kt__division *split, const kt__columns *c, int n_tok, void *buf);
/* A process' columns between rows and their part of the stage. */
void kt__exchange_copy(const kt__columns *c, int rank, int n_tok, float *rows, size_t ld,
                       float *stage, bool out);
/* This process' columns of rows [tok0, tok0 + n_tok), which are then exchanged, in parts: while the one travels the next one
 * is computed, where that part of the rows is worth it. compute NULL: all are there. */
typedef void kt__compute_rows_fn(void *arg, int tok0, int n_tok);

/* Rows of floats, all of which every process then has. */
void kt__exchange_rows(kt__dev *dev, const kt__columns *c, int n_tok, float *rows, size_t ld,
                       kt__compute_rows_fn *compute, void *arg);
/* Rows of activations; parts of the columns are whole blocks of every kind. */
void kt__exchange_acts(kt__dev *dev, const kt__columns *c, kt__acts *acts,
                       kt__compute_rows_fn *compute, void *arg);
/* Those of slots, whose columns are divided as their experts' rows are. fits: the stage has room for a piece. */
bool kt__exchange_fits_experts(const kt__dev *dev, const kt__acts *acts);
void kt__exchange_experts(kt__dev *dev, int unit, const kt__routing *routing, kt__acts *acts);

#endif
