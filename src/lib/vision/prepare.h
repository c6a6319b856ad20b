/* A picture as its family's encoder wants it: what its image processor does.
 *
 * Owns: sizes, tiles, and the text around them in a prompt. Knows no file formats and computes no
 * vectors. Any thread. */
#ifndef KT_VISION_PREPARE_H
#define KT_VISION_PREPARE_H

#include "base/buf.h"
#include "vision/vision.h"

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

#endif
