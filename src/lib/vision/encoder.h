/* Tiles to rows of the text model: the encoder's forward pass.
 *
 * Owns: its buffers and the cursor: a tile is begun, then run until a deadline, and yields between
 * parts of some milliseconds. Its rows do not depend on threads, the kernel tier or where it
 * yielded. One tile at a time; the caller holds the pool's lock while running. No allocation after
 * creation. */
#ifndef KT_VISION_ENCODER_H
#define KT_VISION_ENCODER_H

#include "vision/vision.h"

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
