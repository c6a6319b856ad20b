/* Layers that a graphics processor computes.
 *
 * Owns: which of a model's layers these are, and their weights in the device's reach. Knows no batch.
 * Immutable once placed; any thread. */
#ifndef KT_MODEL_DEVICE_LAYERS_H
#define KT_MODEL_DEVICE_LAYERS_H

#include <stdatomic.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "model/net.h"

typedef struct kt__device_layers {
    kt__gpu *gpu;
    kt__gpu_set *weights;
    bool *has;               /* [n_layer] the device computes it */
    bool head;               /* and the head's product */
    bool by_itself;          /* how many was not said */
    int n, n_asked, n_unfit; /* it computes, were asked for, are of a kind that it does not take */
    uint64_t refused;        /* types of weights with which it multiplies wrongly */
    kt__logger *log;
    int64_t before_us;    /* that somebody had waited for the device when this was placed */
    atomic_bool reported; /* that it was lost */
} kt__device_layers;

/* Places the last n layers of the net, and the head where n is more than it has layers; n < 0: by itself, as
 * many as leave a part of the device's free memory to others, and none on a device that is the processor. Fewer
 * are placed where memory is used up. The gpu and the log outlive it. */
kt_status kt__device_layers_place(const kt__net *net, kt__gpu *gpu, int n, kt__logger *log,
                                  kt__device_layers **out, kt_error *err) KT_CHECKED;
void kt__device_layers_free(kt__device_layers *layers); /* NULL allowed */

#endif
