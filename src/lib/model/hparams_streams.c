/* Keys of models with several residual streams. */
#include <math.h>

#include "model/hparams.h"
#include "model/hparams_parts.h"

/* Of a layer with a gate that is cut: 0.95 of the normal distribution is below. */
enum { CUT_LAYERS = 10 };
#define CUT 1.6448533535003662f

/* One number a layer; what is not finite means that the gate counts everywhere. */
static void read_cuts(kt__key_reader *r, kt__hparams *hp) {
    const char *key = "activation_sparsity_scale";
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, kt__key_of(r, key));
    bool listed = kv && kv->type == KT__GGUF_ARRAY;
    if (kv && (!listed || kv->elem_type != KT__GGUF_F32 || kv->count != (uint64_t)hp->n_layer)) {
        kt__key_fail(r, key, "should have a number for each layer");
        return;
    }
    for (int i = 0; i < hp->n_layer; i++) {
        float cut = listed ? kt__gguf_array_f32(kv, (uint64_t)i) : CUT;
        bool cuts = listed ? isfinite(cut) && fabsf(cut) <= 1e6f : i < CUT_LAYERS;
        hp->gate_cut[i] = cuts ? cut : -INFINITY;
    }
}

/* No key says it. */
static int low_rank(const kt__key_reader *r, const kt__hparams *hp) {
    const kt__gguf_tensor *t = kt__gguf_find_tensor(r->gguf, "blk.0.laurel_l.weight");
    bool sane = t && t->ne[1] >= 1 && t->ne[1] <= (uint64_t)hp->d_model;
    return sane ? (int)t->ne[1] : hp->d_model < 64 ? hp->d_model : 64;
}

void kt__hparams_read_streams(kt__key_reader *r, kt__hparams *hp) {
    if (r->status != KT_OK || !(hp->features & KT__F_STREAMS)) return;
    hp->n_stream = (int)kt__key_int(r, "altup.num_inputs", true, 0, 2, KT__MAX_STREAMS);
    int64_t first = kt__key_int(r, "altup.active_idx", false, 0, 0, hp->n_stream - 1);
    if (first != 0) kt__key_refuse(r, "altup.active_idx", first);
    hp->d_low = low_rank(r, hp);
    read_cuts(r, hp);
}
