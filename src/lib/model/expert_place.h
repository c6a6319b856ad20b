/* Where experts that are read as they are needed lie: in the model's file, and in memory.
 *
 * Owns: the places in memory, and which expert's matrix is in which. A place fits the matrices of one size, and is used
 * again and again, since a new page costs more than what is read into it. What is to be where is expert_store.h's
 * business. One thread at a time, but for reads into places that were taken. */
#ifndef KT_MODEL_EXPERT_PLACE_H
#define KT_MODEL_EXPERT_PLACE_H

#include <stdbool.h>

#include "host/direct_read.h"
#include "model/net.h"

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

#endif
