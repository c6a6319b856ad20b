#include "cli/rig.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

static int32_t id_at(const kt__rig *rig, int stream, size_t pos) {
    uint32_t id = 100 + (uint32_t)(pos * 7919 + (size_t)stream * 131) % 900;
    return (int32_t)(id % (uint32_t)rig->n_vocab);
}

static kt_status allocate(kt__rig *rig, kt_error *err) {
    size_t n = (size_t)rig->n_streams;
    rig->seqs = kt__calloc(n, sizeof(kt_seq *));
    rig->items = kt__calloc(n, sizeof *rig->items);
    rig->step_ids = kt__calloc(n, sizeof *rig->step_ids);
    rig->ids = kt__calloc((size_t)rig->info.n_ctx, sizeof *rig->ids);
    if (rig->seqs && rig->items && rig->step_ids && rig->ids) return KT_OK;
    return kt__fail_nomem(err, "the benchmark's tokens", (size_t)rig->info.n_ctx * sizeof(int32_t));
}

kt_status kt__rig_open(kt_model *model, const kt_engine_params *params, kt__rig *out,
                       kt_error *err) {
    kt_status status;
    kt_model_info info;
    memset(out, 0, sizeof *out);
    kt_model_get_info(model, &info);
    out->n_vocab = info.n_vocab;
    KT__TRY(kt_engine_open(model, params, &out->engine, err));
    kt_engine_get_info(out->engine, &out->info);
    out->n_streams = out->info.n_seq_max;
    KT__TRY(allocate(out, err));
    for (int i = 0; i < out->n_streams; i++) KT__TRY(kt_seq_open(out->engine, &out->seqs[i], err));
out:
    return status;
}

void kt__rig_close(kt__rig *rig) {
    for (int i = 0; rig->seqs && i < rig->n_streams; i++) kt_seq_close(rig->seqs[i]);
    kt_engine_close(rig->engine);
    kt__free(rig->seqs);
    kt__free(rig->items);
    kt__free(rig->step_ids);
    kt__free(rig->ids);
    memset(rig, 0, sizeof *rig);
}

/* Appends the stream's ids up to position `end`. */
static kt_status append(kt__rig *rig, int stream, size_t end, kt_error *err) {
    kt_seq *seq = rig->seqs[stream];
    size_t begin = kt_seq_len(seq);
    for (size_t i = begin; i < end; i++) rig->ids[i - begin] = id_at(rig, stream, i);
    return end > begin ? kt_seq_eval(seq, rig->ids, end - begin, err) : KT_OK;
}

kt_status kt__rig_set_depth(kt__rig *rig, int depth, kt_error *err) {
    kt_status status = KT_OK;
    size_t n = (size_t)depth;
    for (int i = 0; i < rig->n_streams; i++) {
        if (kt_seq_len(rig->seqs[i]) > n) KT__TRY(kt_seq_truncate(rig->seqs[i], n, err));
        KT__TRY(append(rig, i, n, err));
    }
out:
    return status;
}

kt_status kt__rig_prefill(kt__rig *rig, int n, double *seconds, kt_error *err) {
    int64_t start = kt__now_ns();
    kt_status status = append(rig, 0, kt_seq_len(rig->seqs[0]) + (size_t)n, err);
    *seconds = (double)(kt__now_ns() - start) * 1e-9;
    return status;
}

static kt_status decode_step(kt__rig *rig, kt_error *err) {
    for (int i = 0; i < rig->n_streams; i++) {
        rig->step_ids[i] = id_at(rig, i, kt_seq_len(rig->seqs[i]));
        rig->items[i] = (kt_eval_item){.seq = rig->seqs[i], .ids = &rig->step_ids[i], .n = 1};
    }
    return kt_engine_eval(rig->engine, rig->items, (size_t)rig->n_streams, err);
}

kt_status kt__rig_decode(kt__rig *rig, int n, double *seconds, kt_error *err) {
    kt_status status = KT_OK;
    int64_t start = kt__now_ns();
    for (int i = 0; status == KT_OK && i < n; i++) status = decode_step(rig, err);
    *seconds = (double)(kt__now_ns() - start) * 1e-9;
    return status;
}

double kt__rig_median(double *values, int n) {
    for (int i = 1; i < n; i++) {
        double value = values[i];
        int at = i;
        for (; at > 0 && values[at - 1] > value; at--) values[at] = values[at - 1];
        values[at] = value;
    }
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}
