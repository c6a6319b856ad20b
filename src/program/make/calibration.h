/* A model's activations over a text, layer by layer.
 *
 * Owns: the text's hidden states between layers, and the forward pass of one layer over all its
 * chunks (each begins a sequence of its own). So memory is one row of f32 a token, and the caller
 * that looks at activations keeps what one layer needs. The activations are the same on every tier,
 * with any number of threads. One thread. */
#ifndef KT_MAKE_CALIBRATION_H
#define KT_MAKE_CALIBRATION_H

#include <kentang.h>

#include "context/types.h"
#include "host/pool.h"
#include "model/net.h"

enum { KT__CALIBRATION_CHUNK = 512 };

typedef struct kt__calibration kt__calibration;

/* rows[n_tok][n_col] of one chunk, in the order of the text: what the layer's matrices of `input`
 * multiply. */
typedef kt_status kt__calibration_fn(void *user, kt__net_input input, const float *rows, int n_tok,
                                     int n_col, kt_error *err);

/* ids: the text's tokens, of which whole chunks are used (KT_E_ARG: not one); copied. The model
 * outlives it and is not used otherwise meanwhile. light: float matrices are taken in 8 bits
 * (calibration.h), a good deal faster; inputs are still seen as f32. */
kt_status kt__calibration_open(kt_model *model, const int32_t *ids, size_t n_ids, bool light,
                               kt__calibration **out, kt_error *err) KT_CHECKED;
void kt__calibration_close(kt__calibration *c);
size_t kt__calibration_chunks(const kt__calibration *c);
/* The next layer that a visit would be of; visits go up, and from the last back to 0. */
int kt__calibration_layer(const kt__calibration *c);
/* Runs the next layer over the whole text; fn NULL: only to come further. */
kt_status kt__calibration_visit(kt__calibration *c, kt__calibration_fn *fn, void *user,
                                kt_error *err) KT_CHECKED;
/* The text from its beginning. */
kt_status kt__calibration_restart(kt__calibration *c, kt_error *err) KT_CHECKED;
/* The names of the matrices in this layer that multiply `input`: returns how many, at most 3. */
int kt__calibration_matrices(const kt_model *model, int layer, kt__net_input input,
                             char names[3][64]);

/* The text that a model is calibrated with.
 *
 * Owns: the program's own text in English and Indonesian, and tokens of it or of a file. One thread.
 */

#define KT__CALIBRATION_OWN "kentang's own (English, Indonesian)"

/* path NULL: the program's own. At most max_tok ids (0: all), for kt__free. */
kt_status kt__calibration_ids(const kt_model *model, const char *path, bool parse_special,
                              size_t max_tok, int32_t **ids, size_t *n, kt_error *err) KT_CHECKED;

/* A network whose float matrices are in 8 bits, a layer at a time.
 *
 * Owns: a copy of a network's table of layers, in which one layer's matrices of attention and
 * feed-forward (not of experts) are Q8_0 where the file has them as floats. Integer products take a
 * fraction of the time, and what an activation loses is far below what a text varies. One thread;
 * the pool's lock is the caller's. */

typedef struct kt__light_net {
    kt__net net; /* as the file's, which outlives it, but for its layers */
    const kt__layer *plain;
    kt__pool *pool;
    uint8_t *room; /* of one layer's matrices */
    size_t room_bytes;
    float *rows; /* [threads][longest row] */
    int n_longest;
    int layer; /* in 8 bits; -1: none */
} kt__light_net;

/* Freed with kt__light_net_free, also after failure. */
kt_status kt__light_net_make(const kt__net *net, kt__pool *pool, kt__light_net *out,
                             kt_error *err) KT_CHECKED;
/* From now on this layer is in 8 bits, and the others are as in the file. */
void kt__light_net_enter(kt__light_net *light, int layer);
void kt__light_net_free(kt__light_net *light); /* also of a zeroed one */

#endif
