/* What every device of the CPU answers for itself: its table, its threads, its activations. */
#include "ops/dev.h"

#include "base/alloc.h"
#include "host/pages.h"

void kt__dev_destroy(kt__dev *dev) {
    if (!dev) return;
    kt__pages_free(dev->scratch, dev->scratch_bytes);
    kt__pages_free(dev->partial, dev->partial_bytes);
    kt__pages_free(dev->stage, dev->stage_bytes);
    kt__pages_free(dev->tiles, dev->tiles_bytes);
    kt__free(dev);
}

const kt__ops *kt__dev_ops(const kt__dev *dev) {
    return dev->ops;
}

void kt__dev_set_accel(kt__dev *dev, void *accel) {
    dev->accel = accel;
}

void *kt__dev_accel(const kt__dev *dev) {
    return dev->accel;
}

void kt__dev_set_threads(kt__dev *dev, int n_threads) {
    int most = kt__pool_size(dev->pool);
    dev->n_threads = n_threads < 1 ? 1 : n_threads > most ? most : n_threads;
}

kt__act_kind kt__dev_act_kind(const kt__dev *dev, const kt__weight *w, int n_tok) {
    return dev->exact || kt__dev_uses_blas(dev, n_tok) ? KT__ACT_F32 : kt__type_get(w->type)->act;
}
