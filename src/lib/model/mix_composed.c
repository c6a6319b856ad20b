/* Layers with no mixer, and with two. */
#include "model/mixers.h"

/* ---- a layer that is a feed-forward part alone (Nemotron H) ---- */

static kt_status no_input(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    (void)fwd, (void)layer, (void)err;
    return KT_OK;
}

static void no_mix(kt__fwd *fwd, const kt__layer *layer) {
    (void)fwd, (void)layer;
}

const kt__mixer kt__mix_none = {no_input, no_mix, no_input};

/* ---- attention and Mamba-2 side by side (Falcon H1) ----
 *
 * Both read the same norm of x, and both are added to x. They share no buffer of theirs, and x is not changed before
 * both have read it. */

static kt_status both_inputs(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    kt_status status = kt__mix_attention.input(fwd, layer, err);
    return status == KT_OK ? kt__mix_mamba.input(fwd, layer, err) : status;
}

static void mix_both(kt__fwd *fwd, const kt__layer *layer) {
    kt__mix_attention.mix(fwd, layer);
    kt__mix_mamba.mix(fwd, layer);
}

static kt_status both_outs(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    kt_status status = kt__mix_attention.out(fwd, layer, err);
    return status == KT_OK ? kt__mix_mamba.out(fwd, layer, err) : status;
}

const kt__mixer kt__mix_both = {both_inputs, mix_both, both_outs};
