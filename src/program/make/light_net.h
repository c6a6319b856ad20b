/* A network whose float matrices are in 8 bits, a layer at a time.
 *
 * Owns: a copy of a network's table of layers, in which one layer's matrices of attention and
 * feed-forward (not of experts) are Q8_0 where the file has them as floats. Integer products take a
 * fraction of the time, and what an activation loses is far below what a text varies. One thread;
 * the pool's lock is the caller's. */
#ifndef KT_MAKE_LIGHT_NET_H
#define KT_MAKE_LIGHT_NET_H

#include "host/pool.h"
#include "model/net.h"

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
