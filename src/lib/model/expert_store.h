/* Experts of a model that is larger than the memory for it: read as a whole when they are needed, and kept by use.
 *
 * Owns: which experts are in memory (at most so many bytes of them), where each is in the file and in memory, the
 * threads that read them, what they read next, and what has to go for it. The forward pass says which experts a layer
 * needs, and which ones the next layer is expected to; a wrong expectation costs a read and never changes a result.
 * One forward pass at a time computes with it (the pool's lock is held); start, stop and counts: any thread. Nothing
 * is allocated while it is on. */
#ifndef KT_MODEL_EXPERT_STORE_H
#define KT_MODEL_EXPERT_STORE_H

#include "host/direct_read.h"
#include "model/net.h"

#include <stdbool.h>

/* Slots in memory, and which expert's matrix is in which. A slot fits the matrices of one size, and is used again and
 * again, since a new page costs more than what is read into it. One thread at a time, but for reads into slots that
 * were taken. */

/* An expert's matrices: gate, up, down. */
enum { KT__EXPERT_PARTS = 3 };

/* One matrix of every expert of a layer. */
typedef struct kt__expert_matrix {
    int file, size;        /* of kt__expert_place.files and sizes */
    uint64_t at;           /* of expert 0 in the file */
    size_t in_file;        /* bytes from one expert's to the next one's there */
    size_t bytes;          /* of one expert's; 0: the layer has no such matrix */
    const uint8_t **where; /* [n_expert] in memory; NULL: not there */
    kt__expert_weights w;  /* by where */
} kt__expert_matrix;

/* Matrices that take the same memory. */
typedef struct kt__expert_size {
    size_t room;             /* bytes of a place */
    int64_t n_all, n_least;  /* of all layers, and the most of one */
    int64_t n_place, n_free; /* those in memory */
    uint8_t **free;          /* [n_free] of n_all */
} kt__expert_size;

typedef struct kt__expert_place {
    int n_layer, n_expert, n_file, n_size;
    kt__expert_matrix (*layers)[KT__EXPERT_PARTS]; /* [n_layer] */
    const kt__filemap **maps;
    kt__direct_read *files; /* [n_file] */
    kt__expert_size *sizes; /* [n_size] */
    uint64_t bytes;         /* of all experts in the file, */
    uint64_t room, least;   /* in memory, and what one layer needs there */
    uint8_t *memory;        /* [memory_bytes] of all places; NULL: closed */
    size_t memory_bytes;
} kt__expert_place;

/* Layers as in net->layers, with that of mtp. *fits false: there are no experts, or not all of them are in mapped
 * files. */
kt_status kt__expert_place_init(kt__expert_place *place, const kt__net *net, const kt__gguf *gguf,
                                bool *fits, kt_error *err) KT_CHECKED;
void kt__expert_place_free(kt__expert_place *place); /* a zeroed one is allowed */
/* With so many bytes, not less than the least. */
kt_status kt__expert_place_open(kt__expert_place *place, uint64_t bytes, kt_error *err) KT_CHECKED;
void kt__expert_place_close(kt__expert_place *place);

/* false: no place of its size is free */
bool kt__expert_place_take(kt__expert_place *place, int layer, int part, int expert);
void kt__expert_place_give(kt__expert_place *place, int layer, int part, int expert);
/* Into the place that was taken. */
kt_status kt__expert_place_read(const kt__expert_place *place, int layer, int part, int expert,
                                kt_error *err) KT_CHECKED;

/* How soon an expert is used again.
 *
 * Owns: the estimate. A pass goes through the layers in turn, and needs an expert of a layer in a share of the passes,
 * which its past tells. For a prompt, which needs all of them, that leaves the order of the layers: what was used last
 * is needed last. Pure. */

/* share: of the passes that needed it, the recent ones counting more. */
static inline float kt__expert_share(float share, bool needed) {
    return share + ((needed ? 1.0f : 0.0f) - share) / 64.0f;
}

/* Passes until it is needed again, of an expert whose layer comes `ahead` (1 to n_layer) layers from now. */
static inline float kt__expert_next_use(float share, int ahead, int n_layer) {
    float least = 1.0f / 4096.0f;
    return 1.0f / (share > least ? share : least) - 1.0f + (float)ahead / (float)n_layer;
}

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
