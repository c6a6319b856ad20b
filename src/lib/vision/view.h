/* Pictures as a model sees them, kept by what their files hold.
 *
 * Owns: files decoded and cut once, the rows that an encoder made of them, and the bound on both: those that
 * nobody holds go first, the least recently used before others. Any thread; rows are filled by the thread that
 * drives the encoder, and read by the same. */
#ifndef KT_VISION_VIEW_H
#define KT_VISION_VIEW_H

#include "base/hash.h"
#include "vision/vision.h"

enum { KT__VIEWS_BYTES = 96 << 20 }; /* of tiles and rows */

typedef struct kt__views kt__views;

typedef struct kt__view {
    struct kt__view *newer, *older;
    const kt__vision *vision;
    uint64_t name[2];  /* of the file's bytes, under a secret of this process */
    kt__digest digest; /* of the file's bytes and of the encoder: the same everywhere */
    kt__tiling tiling;
    int32_t n_rows; /* of all tiles */
    uint8_t *tiles; /* as kt__vision_cut gives them; NULL once all rows are there */
    float *rows;    /* [n_rows][d_row] */
    int n_seen;     /* tiles whose rows are there */
    int n_held;
    uint64_t serial; /* another one for each that was made */
    size_t bytes;
} kt__view;

/* identity: of the encoder's file. vision outlives it. */
kt_status kt__views_create(const kt__vision *vision, const uint8_t identity[32], kt__views **out,
                           kt_error *err) KT_CHECKED;
void kt__views_destroy(kt__views *views); /* NULL is allowed; no view is held */
/* *out is held until kt__view_release. What kt__picture_decode returns; KT_E_BUSY: pictures that wait take all
 * the room. */
kt_status kt__views_open(kt__views *views, const void *data, size_t len, kt__view **out,
                         kt_error *err) KT_CHECKED;
void kt__view_hold(kt__views *views, kt__view *view);
void kt__view_release(kt__views *views, kt__view *view);
/* All rows are there: its tiles go. */
void kt__view_complete(kt__views *views, kt__view *view);
/* The token of row `index` of it in a prompt: below -1, and the same for the same picture. */
int32_t kt__view_token(const kt__view *view, int32_t index);

#endif
