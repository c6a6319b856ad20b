#include "model/fwd_steps.h"

static const kt__mixer *const mixers[] = {
#define X(kind, row) [KT__MIX_##kind] = &kt__mix_##row,
#include "model/mixers.def"
#undef X
};

kt_status kt__layer_step(kt__fwd *fwd, const kt__layer *layer, kt__layer_part part, kt_error *err) {
    const kt__mixer *mixer = mixers[layer->mixer];
    bool streams = fwd->net->hp.n_stream > 0;
    kt_status status = KT_OK;
    if (streams && part == KT__PART_INPUT) status = kt__streams_begin(fwd, layer, err);
    if (status != KT_OK) return status;
    switch (part) {
    case KT__PART_INPUT: return mixer->input(fwd, layer, err);
    case KT__PART_MIX: mixer->mix(fwd, layer); return KT_OK;
    case KT__PART_OUT:
        status = mixer->out(fwd, layer, err);
        if (streams && status == KT_OK) kt__streams_join(fwd);
        return status;
    case KT__PART_FF: return kt__ff_up(fwd, layer, err);
    default: return kt__ff_down(fwd, layer, err);
    }
}
