/* States of recurrent layers: what a sequence has besides keys and values, and cannot be cut.
 *
 * Owns: pieces of memory of one size, each the state after a number of positions, their reference
 * counts, and which pages of K/V have one (a snapshot: the state after the page's last position). A
 * piece is written once, by the batch that computes its positions, and only read from then on, so
 * that the caller that continues from it shares it. Where no piece is free, the snapshot that was
 * used least recently and has no other holder is given up. Threads as kv/kv.h, its user. */
#ifndef KT_KV_STATES_H
#define KT_KV_STATES_H

#include <kentang.h>

enum { KT__NO_STATE = 0 }; /* no piece's number */

typedef struct kt__states kt__states;

kt_status kt__states_create(size_t piece_bytes, int64_t n_pages, int32_t n_pieces, kt__states **out,
                            kt_error *err) KT_CHECKED;
void kt__states_destroy(kt__states *states);

/* With one reference and undefined content; KT__NO_STATE: every piece is in use. */
int32_t kt__states_take(kt__states *states);
void kt__states_ref(kt__states *states, int32_t piece);
void kt__states_drop(kt__states *states, int32_t piece); /* KT__NO_STATE allowed */
int32_t kt__states_n(const kt__states *states);          /* pieces: 1 to this */
int32_t kt__states_used(const kt__states *states);       /* the highest that was ever taken */
float *kt__states_data(const kt__states *states, int32_t piece);

/* ---- snapshots ---- */
typedef enum kt__snapshot {
    KT__SNAPSHOT_NONE,
    KT__SNAPSHOT_ROLLING, /* the last one of an answer that continues */
    KT__SNAPSHOT_MARK     /* where conversations branch */
} kt__snapshot;

kt__snapshot kt__states_kind(const kt__states *states, int32_t page);
/* The page's piece, used now; KT__NO_STATE: it has none. */
int32_t kt__states_of(kt__states *states, int32_t page);
/* The page gets a reference of its own; what it had before is forgotten. */
void kt__states_keep(kt__states *states, int32_t page, int32_t piece, kt__snapshot kind);
void kt__states_forget(kt__states *states, int32_t page);
/* What the one page has becomes the other's, where that has none. */
void kt__states_move(kt__states *states, int32_t from, int32_t to);

#endif
