/* Experts of a model that is larger than the memory for it: read as a whole when they are needed, and kept by use.
 *
 * Owns: which experts are in memory (at most so many bytes of them), the threads that read them, what they read next,
 * and what has to go for it. The forward pass says which experts a layer needs, and which ones the next layer is
 * expected to; a wrong expectation costs a read and never changes a result. One forward pass at a time computes with it
 * (the pool's lock is held); start, stop and counts: any thread. Nothing is allocated while it is on. */
#ifndef KT_MODEL_EXPERT_STORE_H
#define KT_MODEL_EXPERT_STORE_H

#include "model/net.h"

typedef struct kt__expert_store kt__expert_store;

/* net and gguf outlive it. *out NULL: the network has no experts, or they are in no mapped file. */
kt_status kt__expert_store_create(const kt__net *net, const kt__gguf *gguf, kt__expert_store **out,
                                  kt_error *err) KT_CHECKED;
void kt__expert_store_destroy(kt__expert_store *store);

/* Bytes of all experts in the file; memory that all of them would take; and the least that it works with: those of
 * one layer. */
uint64_t kt__expert_store_file_bytes(const kt__expert_store *store);
uint64_t kt__expert_store_room(const kt__expert_store *store);
uint64_t kt__expert_store_least(const kt__expert_store *store);

/* From now on experts are read into at most so many bytes, not less than the least. Passes are created after the start
 * and destroyed before the stop. Where it is on, nothing happens. */
kt_status kt__expert_store_start(kt__expert_store *store, uint64_t bytes, kt_error *err) KT_CHECKED;
void kt__expert_store_stop(kt__expert_store *store); /* NULL is allowed */
/* Bytes it may take; 0 (or NULL): it is off, and experts are where they are mapped. */
uint64_t kt__expert_store_bytes(const kt__expert_store *store);

/* [KT__EXPERT_PARTS] of a layer, as they lie in memory once they were waited for. */
const kt__expert_weights *kt__expert_store_part(const kt__expert_store *store, int layer, int part);

/* The layer needs these experts and no others: they are read, the missing ones, and stay until the next call; counted
 * as their use where it is the first time. Returns a number that later calls change. */
uint64_t kt__expert_store_need(kt__expert_store *store, int layer, const kt__routing *routing,
                               bool first);
/* Whether that call was the last one. */
bool kt__expert_store_is_last(kt__expert_store *store, uint64_t need);
/* A layer that comes soon is expected to need these; NULL: all of it. They are read while nothing is needed. */
void kt__expert_store_expect(kt__expert_store *store, int layer, const kt__routing *routing);
/* Until those parts of all that is needed are there. KT_E_IO and KT_E_TRUNCATED name the file. */
kt_status kt__expert_store_wait(kt__expert_store *store, unsigned parts, kt_error *err) KT_CHECKED;

typedef struct kt__expert_counts {
    uint64_t n_used;     /* experts that layers needed, */
    uint64_t n_missed;   /* of these, not in memory by then */
    uint64_t n_expected; /* that the layer before them expected, */
    uint64_t n_foreseen; /* of these, needed */
    uint64_t read_bytes;
} kt__expert_counts;
void kt__expert_store_counts(kt__expert_store *store, kt__expert_counts *out);

#endif
