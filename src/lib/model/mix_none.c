/* A layer that is a feed-forward part alone (Nemotron H). */
#include "model/mixers.h"

static kt_status no_input(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    (void)fwd, (void)layer, (void)err;
    return KT_OK;
}

static void no_mix(kt__fwd *fwd, const kt__layer *layer) {
    (void)fwd, (void)layer;
}

const kt__mixer kt__mix_none = {no_input, no_mix, no_input};
