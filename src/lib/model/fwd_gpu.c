/* A forward pass on a graphics processor: which layers, and what happens when it fails.
 *
 * Whatever fails there (the device is lost, or a norm met a number that is not finite), the batch is computed
 * anew on the processor: its ids are there, keys and values are written again with the same bytes, and an error
 * is then named as ever. */
#include "base/error.h"
#include "model/fwd_steps.h"

static kt_status share_buffers(kt__fwd *fwd, kt_error *err) {
    for (int i = 0; i < KT__BUF_COUNT; i++)
        if (fwd->buf[i])
            KT__STEP(kt__gpu_set_share(fwd->gpu_buffers, fwd->buf[i], fwd->buf_bytes[i], err));
    return fwd->experts ? kt__experts_share(fwd->experts, fwd->gpu_buffers, err) : KT_OK;
}

static kt_status open_pass(kt__fwd *fwd, const kt__dev_limits *limits, kt_error *err) {
    kt__device_layers *d = fwd->params.device;
    KT__STEP(kt__gpu_set_create(d->gpu, &fwd->gpu_buffers, err));
    KT__STEP(share_buffers(fwd, err));
    return kt__gpu_pass_create(d->gpu, fwd->dev, limits, &fwd->gpu, err);
}

void kt__fwd_gpu_open(kt__fwd *fwd, const kt__dev_limits *limits) {
    kt__device_layers *d = fwd->params.device;
    kt_error err;
    if (!d || (d->n == 0 && !d->head)) return;
    if (open_pass(fwd, limits, &err) != KT_OK) {
        kt__log_line(d->log, KT_LOG_WARN, "%s: its layers are computed by the processor",
                     err.message);
        kt__fwd_gpu_close(fwd);
        return;
    }
    kt__gpu_pass_add(fwd->gpu, fwd->gpu_buffers);
    kt__gpu_pass_add(fwd->gpu, d->weights);
    kt__gpu_pass_add(fwd->gpu, fwd->params.device_kv);
}

void kt__fwd_gpu_close(kt__fwd *fwd) {
    kt__gpu_pass_destroy(fwd->gpu);
    kt__gpu_set_destroy(fwd->gpu_buffers);
    fwd->gpu = NULL;
    fwd->gpu_buffers = NULL;
}

static bool has_layer(const kt__fwd *fwd, bool head) {
    const kt__device_layers *d = fwd->params.device;
    if (head) return d->head;
    return fwd->layer >= 0 && fwd->layer < fwd->net->hp.n_layer && d->has[fwd->layer];
}

void kt__fwd_gpu_choose(kt__fwd *fwd, bool head) {
    bool there = fwd->gpu && !fwd->gpu_off && has_layer(fwd, head);
    fwd->ops = there ? kt__gpu_ops() : kt__dev_ops(fwd->dev);
    fwd->gpu_recorded |= there;
}

/* Once for all passes. */
static void report_lost(kt__device_layers *d) {
    if (!kt__gpu_is_lost(d->gpu) || atomic_exchange(&d->reported, true)) return;
    kt__log_line(d->log, KT_LOG_WARN,
                 "%s failed: its layers are computed by the processor from now on, with the same "
                 "answers",
                 kt__gpu_get_info(d->gpu)->name);
}

bool kt__fwd_gpu_settle(kt__fwd *fwd) {
    fwd->ops = kt__dev_ops(fwd->dev);
    if (!fwd->gpu_recorded) return true;
    fwd->gpu_recorded = false;
    if (kt__gpu_finish(fwd->gpu)) return true;
    report_lost(fwd->params.device);
    fwd->gpu_off = true;
    return false;
}
