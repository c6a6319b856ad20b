/* The part of a model that sees: an mmproj file.
 *
 * Owns: its hyper-parameters within bounds, its weights with their shapes checked, and what sets
 * one family of encoders apart from another (families.def). Weights stay in the file, but a
 * projection that has to be turned round. Knows no pictures' files and no requests. Immutable once open; any
 * thread. */
#ifndef KT_VISION_VISION_H
#define KT_VISION_VISION_H

#include "base/arena.h"
#include "gguf/gguf.h"
#include "ops/ops.h"
#include "picture/resample.h"

typedef enum kt__vision_merge { KT__MERGE_SHUFFLE, KT__MERGE_AVERAGE } kt__vision_merge;

typedef struct kt__vision_family {
    const char *name;
    kt__vision_merge merge;
    kt__resample_filter filter;
    bool tiles, both_ways, keeps_token;
    const char *marker, *in_place;
} kt__vision_family;

typedef struct kt__vision_layer {
    const float *norm[2],
        *norm_bias[2]; /* [d_model] before attention, and before the feed-forward */
    kt__weight q, k, v, out, up, down;
    const float *q_bias, *k_bias, *v_bias, *out_bias, *up_bias, *down_bias; /* or NULL */
} kt__vision_layer;

typedef struct kt__vision {
    const kt__vision_family *family;
    int side, patch;     /* pixels of a tile's side, of a patch's */
    int n_side, n_patch; /* patches of a tile's side, and in all */
    int merge;           /* patches of a side that become one row together */
    int n_rows;          /* that a tile gives the text model, of d_text floats */
    int longest;         /* pixels: the longer side before it is cut into tiles */
    int n_layer, n_head, d_model, d_ff, d_text;
    float eps, mean[3], deviation[3];
    kt__weight embed;        /* [d_model][3 * patch * patch] */
    const float *embed_bias; /* or NULL */
    const float *positions;  /* [n_patch][d_model] */
    kt__vision_layer *layers;
    const float *end_norm, *end_norm_bias;
    const float *merged_norm; /* with KT__MERGE_AVERAGE: before the projection */
    kt__weight projection;    /* [d_text][columns] */
    kt__gguf *gguf;
    uint64_t weight_bytes;
    kt__arena arena;
} kt__vision;

/* What kt__vision_open is like kt__gguf_open for. KT_E_UNSUPPORTED: a projector type of which there is
 * no family; KT_E_FORMAT: no mmproj file, or a damaged one. */
kt_status kt__vision_open(const char *path, const kt__gguf_open_params *params, kt__vision **out,
                          kt_error *err) KT_CHECKED;
void kt__vision_close(kt__vision *vision); /* NULL is allowed */

#endif
