/* The part of a model that sees: an mmproj file, the preparation of pictures, and the encoder's forward pass.
 *
 * Owns: its hyper-parameters within bounds, its weights with their shapes checked, and what sets one family of
 * encoders apart from another (families.def). Weights stay in the file, but a projection that has to be turned round.
 * Knows no pictures' files (view.h has those) and no requests. Immutable once open; any thread. */
#ifndef KT_VISION_VISION_H
#define KT_VISION_VISION_H

#include "base/alloc.h"
#include "base/buf.h"
#include "gguf/gguf.h"
#include "ops/ops.h"
#include "picture/picture.h"

/* How patches become rows: a square of them as one long row through a matrix; their mean; a square as one long row
 * through two matrices. */
typedef enum kt__vision_merge {
    KT__MERGE_SHUFFLE,
    KT__MERGE_AVERAGE,
    KT__MERGE_TWICE
} kt__vision_merge;

typedef enum kt__vision_act { KT__SEER_GELU, KT__SEER_SILU, KT__SEER_QUICK_GELU } kt__vision_act;

/* What else a family has. */
enum {
    KT__EYE_TILES =
        1, /* the picture is cut into squares of the encoder's size, and shown as a whole besides */
    KT__EYE_BOTH_WAYS = 2,   /* rows of one picture see each other in the text model */
    KT__EYE_KEEPS_TOKEN = 4, /* rows are after the marker's token, not in its place */
    KT__EYE_ANY_SIZE =
        8, /* a picture keeps its form, of whole squares of patches; heads are rotated by line and
                                column, and the text model's by the rows' */
    KT__EYE_LEARNED = 16, /* learned positions are stretched over any size; else there are none */
    KT__EYE_RMS = 32,     /* norms of squares alone */
    KT__EYE_WINDOWS = 64  /* most layers see windows alone */
};

typedef struct kt__vision_family {
    const char *name;
    kt__vision_merge merge;
    kt__resample_filter filter;
    unsigned has; /* KT__EYE_ */
    int least_rows;
    const char *marker, *in_place;
} kt__vision_family;

typedef struct kt__vision_layer {
    const float *norm[2],
        *norm_bias[2]; /* [d_model] before attention, and before the feed-forward */
    kt__weight q, k, v, out, up, down;
    kt__weight gate; /* n_row 0: there is none */
    const float *q_bias, *k_bias, *v_bias, *out_bias, *up_bias, *down_bias,
        *gate_bias; /* or NULL */
    int deep;       /* 1 and on: its output makes that part of the rows; 0: none */
} kt__vision_layer;

/* Rows out of long ones, [merge * merge * d_model]: second . gelu(first . norm(x)). */
typedef struct kt__vision_merger {
    const float *norm, *norm_bias; /* NULL: none here */
    kt__weight first, second;
    const float *first_bias, *second_bias;
} kt__vision_merger;

typedef struct kt__vision {
    const kt__vision_family *family;
    int side, patch; /* pixels of a tile's side, of a patch's */
    int n_side,
        n_patch; /* patches of a tile's side, and in all; with KT__EYE_ANY_SIZE of learned positions, and at most */
    int merge;                      /* patches of a side that become one row together */
    int n_rows;                     /* that a tile gives the text model, at most */
    int longest;                    /* pixels: the longer side before it is cut into tiles */
    int64_t min_pixels, max_pixels; /* with KT__EYE_ANY_SIZE */
    int window, full_every; /* squares of a window's side; every so many-th layer sees all */
    int n_layer, n_head, d_model, d_ff, d_text;
    int n_deep,
        d_row; /* parts of a row besides the first of d_text numbers, and what it has in all */
    kt__vision_act act;
    float eps, mean[3], deviation[3];
    kt__weight embed;        /* [d_model][3 * patch * patch] */
    const float *embed_bias; /* or NULL */
    const float *positions;  /* [n_side * n_side][d_model], or NULL */
    kt__vision_layer *layers;
    const float *end_norm, *end_norm_bias;
    const float *merged_norm;   /* with KT__MERGE_AVERAGE: before the projection */
    kt__weight projection;      /* [d_text][columns] */
    kt__vision_merger *mergers; /* with KT__MERGE_TWICE: [1 + n_deep], the last layer's first */
    kt__gguf *gguf;
    uint64_t weight_bytes;
    kt__arena arena;
} kt__vision;

/* What kt__vision_open is like kt__gguf_open for. KT_E_UNSUPPORTED: a projector type of which there is
 * no family; KT_E_FORMAT: no mmproj file, or a damaged one. */
kt_status kt__vision_open(const char *path, const kt__gguf_open_params *params, kt__vision **out,
                          kt_error *err) KT_CHECKED;
void kt__vision_close(kt__vision *vision); /* NULL is allowed */

/* A picture as its family's encoder wants it: what its image processor does.
 *
 * Sizes, tiles, and the text around them in a prompt. Knows no file formats and computes no vectors. Any thread. */

/* Tiles of width x height pixels, [n_tile][height][width][3]: those of the rows of a grid, and after them
 * the whole picture; or that alone. */
typedef struct kt__tiling {
    int n_x, n_y; /* of the grid; 0: there is none */
    int n_tile;
    int width, height;  /* pixels of each tile */
    int n_rows, rows_x; /* that each gives, and how many of them are a line */
} kt__tiling;

/* How a picture of so many pixels is cut. */
kt__tiling kt__vision_tiling(const kt__vision *vision, int width, int height);
size_t kt__tiling_bytes(const kt__tiling *tiling); /* of all tiles */
/* *out for kt__free. KT_E_LIMIT: it has a form that its family does not take. */
kt_status kt__vision_cut(const kt__vision *vision, const kt__picture *picture, kt__tiling *tiling,
                         uint8_t **out, kt_error *err) KT_CHECKED;
/* What a prompt has in place of its marker: the marker once for each tile's rows, and what is
 * between. */
void kt__vision_write(const kt__vision *vision, const kt__tiling *tiling, kt__buf *out);

/* Tiles to rows of the text model: the encoder's forward pass.
 *
 * Its buffers and the cursor: a tile is begun, then run until a deadline, and yields between parts of some
 * milliseconds. Its rows do not depend on threads, the kernel tier or where it yielded. One tile at a time; the
 * caller holds the pool's lock while running. No allocation after creation. */

typedef struct kt__seer kt__seer;

/* vision, pool and kernels outlive it. exact: as of kt__dev_create. */
kt_status kt__seer_create(const kt__vision *vision, kt__pool *pool, const kt__kernels *kernels,
                          bool exact, kt__seer **out, kt_error *err) KT_CHECKED;
void kt__seer_destroy(kt__seer *seer); /* NULL is allowed */
/* Bytes of its buffers, but for its device's; touched as they are needed. */
uint64_t kt__seer_plan_bytes(const kt__vision *vision);

/* A tile, rgb[height][width][3], of a size that kt__vision_tiling gives, and its rows, [][d_row], line by line; both
 * stay the caller's until it is done. */
void kt__seer_begin(kt__seer *seer, int width, int height, const uint8_t *rgb, float *rows,
                    int n_threads);
/* At least one part a call; *done is true when the rows are there. KT_E_NUMERIC: a number was not finite. */
kt_status kt__seer_run(kt__seer *seer, int64_t deadline_us, bool *done, kt_error *err) KT_CHECKED;

#endif
