/* The graphics processors of a machine, for doctor.
 *
 * Owns: which there are, what each may do, and in words whether it computes exactly. */
#ifndef KT_MEASURE_DEVICES_H
#define KT_MEASURE_DEVICES_H

#include <jansson.h>

#include "gpu/gpu.h"

typedef struct kt__devices {
    kt__gpu_info info[KT__GPUS_MAX];
    char exact[KT__GPUS_MAX][1024]; /* by what, or why it is not used */
    bool usable[KT__GPUS_MAX];
    int n;
    char none[512]; /* why there are none; "": there are */
} kt__devices;

/* test: those that are no software are tested now, which takes seconds. */
void kt__devices_find(bool test, kt__devices *out);
void kt__devices_print(const kt__devices *devices);
json_t *kt__devices_json(const kt__devices *devices);

#endif
