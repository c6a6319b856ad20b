/* A model divided among processes: which rows and heads are whose.
 *
 * Owns: the shares. Rows of matrices are divided and columns never: no sum is ever split, so that the bytes are those
 * of one process. Every process makes the same division. Knows no tensors. Immutable; any thread. */
#ifndef KT_OPS_SPLIT_H
#define KT_OPS_SPLIT_H

#include "peers/peers.h"

/* Weights that a device would read, where nothing is computed. */
typedef struct kt__tally {
    uint64_t read_bytes; /* by batches of one token */
    uint64_t held_bytes; /* with the experts that no token chose */
} kt__tally;

typedef struct kt__division {
    kt__peers *peers;
    kt__tally *tally; /* NULL, or: products are counted and not computed */
    int rank, size;
    int before[KT__PEERS_MAX + 1]; /* shares of the processes before each one */
    uint64_t least_bytes;          /* that a process must be spared, or all compute the product */
} kt__division;

/* LEAST: about what is read while processes wait for each other once. */
enum { KT__SHARE_MAX = 1000, KT__DIVISION_LEAST = 1 << 20 };

/* Everybody has the same share. */
void kt__division_init(kt__division *split, kt__peers *peers);
/* shares[size]: each from 0 to KT__SHARE_MAX, not all 0; false: they are others. */
bool kt__division_share(kt__division *split, const int *shares);
/* "2,1,1" as shares[KT__PEERS_MAX]; returns how many, -1: it is something else. */
int kt__division_parse(const char *text, int *shares);

/* Whether products with matrices of so many bytes together are divided, by rows in units. */
bool kt__division_pays(const kt__division *split, int n_row, int unit, uint64_t bytes);
/* The first of n rows that is a process', in whole units; of process `size`: n. */
int kt__division_row(const kt__division *split, int n, int unit, int rank);

/* The same of n rows of one of several experts: where these are few units, their parts differ from expert to expert, so that
 * of all together every process has its share. */
int kt__division_expert_row(const kt__division *split, int n, int unit, int expert, int rank);

/* Heads of a process. Of fewer heads of keys and values than processes some share one, and divide its queries. */
typedef struct kt__division_heads {
    int q0, n_q, kv0, n_kv; /* n_kv: 1 at least, though n_q may be 0 */
} kt__division_heads;
kt__division_heads kt__division_heads_of(const kt__division *split, int n_head, int n_head_kv,
                                         int rank);

#endif
