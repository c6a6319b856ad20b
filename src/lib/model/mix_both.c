/* Attention and Mamba-2 side by side (Falcon H1): both read the same norm of x, and both are added to x. They share
 * no buffer of theirs, and x is not changed before both have read it. */
#include "model/mixers.h"

static kt_status input_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    kt_status status = kt__mix_attention.input(fwd, layer, err);
    return status == KT_OK ? kt__mix_mamba.input(fwd, layer, err) : status;
}

static void mix_part(kt__fwd *fwd, const kt__layer *layer) {
    kt__mix_attention.mix(fwd, layer);
    kt__mix_mamba.mix(fwd, layer);
}

static kt_status out_part(kt__fwd *fwd, const kt__layer *layer, kt_error *err) {
    kt_status status = kt__mix_attention.out(fwd, layer, err);
    return status == KT_OK ? kt__mix_mamba.out(fwd, layer, err) : status;
}

const kt__mixer kt__mix_both = {input_part, mix_part, out_part};
