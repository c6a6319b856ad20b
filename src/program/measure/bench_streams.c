#include "measure/bench_streams.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

static int32_t id_at(const kt__bench_streams *bs, int stream, size_t pos) {
    uint32_t id = 100 + (uint32_t)(pos * 7919 + (size_t)stream * 131) % 900;
    return (int32_t)(id % (uint32_t)bs->n_vocab);
}

static kt_status streams_allocate(kt__bench_streams *bs, kt_error *err) {
    size_t n = (size_t)bs->n_streams;
    bs->seqs = kt__calloc(n, sizeof(kt_seq *));
    bs->items = kt__calloc(n, sizeof *bs->items);
    bs->step_ids = kt__calloc(n, sizeof *bs->step_ids);
    bs->ids = kt__calloc((size_t)bs->info.n_ctx, sizeof *bs->ids);
    if (bs->seqs && bs->items && bs->step_ids && bs->ids) return KT_OK;
    return kt__fail_nomem(err, "the benchmark's tokens", (size_t)bs->info.n_ctx * sizeof(int32_t));
}

kt_status kt__bench_streams_open(kt_model *model, const kt_engine_params *params,
                                 const kt__lora_set *lora, kt__bench_streams *out, kt_error *err) {
    kt_model_info info;
    memset(out, 0, sizeof *out);
    kt_model_get_info(model, &info);
    out->n_vocab = info.n_vocab;
    KT__STEP(kt_engine_open(model, params, &out->engine, err));
    kt_engine_get_info(out->engine, &out->info);
    out->n_streams = out->info.n_seq_max;
    KT__STEP(streams_allocate(out, err));
    for (int i = 0; i < out->n_streams; i++) {
        KT__STEP(kt_seq_open(out->engine, &out->seqs[i], err));
        if (lora) KT__STEP(kt_seq_set_adapters(out->seqs[i], lora->uses, lora->n, err));
    }
    return KT_OK;
}

void kt__bench_streams_close(kt__bench_streams *bs) {
    for (int i = 0; bs->seqs && i < bs->n_streams; i++) kt_seq_close(bs->seqs[i]);
    kt_engine_close(bs->engine);
    kt__free(bs->seqs);
    kt__free(bs->items);
    kt__free(bs->step_ids);
    kt__free(bs->ids);
    memset(bs, 0, sizeof *bs);
}

/* Appends the stream's ids up to position `end`. */
static kt_status append_token(kt__bench_streams *bs, int stream, size_t end, kt_error *err) {
    kt_seq *seq = bs->seqs[stream];
    size_t begin = kt_seq_len(seq);
    for (size_t i = begin; i < end; i++) bs->ids[i - begin] = id_at(bs, stream, i);
    return end > begin ? kt_seq_eval(seq, bs->ids, end - begin, err) : KT_OK;
}

kt_status kt__bench_streams_set_depth(kt__bench_streams *bs, int depth, kt_error *err) {
    size_t n = (size_t)depth;
    for (int i = 0; i < bs->n_streams; i++) {
        if (kt_seq_len(bs->seqs[i]) > n) KT__STEP(kt_seq_truncate(bs->seqs[i], n, err));
        KT__STEP(append_token(bs, i, n, err));
    }
    return KT_OK;
}

kt_status kt__bench_streams_prefill(kt__bench_streams *bs, int n, double *seconds, kt_error *err) {
    int64_t start = kt__now_ns();
    kt_status status = append_token(bs, 0, kt_seq_len(bs->seqs[0]) + (size_t)n, err);
    *seconds = (double)(kt__now_ns() - start) * 1e-9;
    return status;
}

static kt_status decode_step(kt__bench_streams *bs, kt_error *err) {
    for (int i = 0; i < bs->n_streams; i++) {
        bs->step_ids[i] = id_at(bs, i, kt_seq_len(bs->seqs[i]));
        bs->items[i] = (kt_eval_item){.seq = bs->seqs[i], .ids = &bs->step_ids[i], .n = 1};
    }
    return kt_engine_eval(bs->engine, bs->items, (size_t)bs->n_streams, err);
}

kt_status kt__bench_streams_decode(kt__bench_streams *bs, int n, double *seconds, kt_error *err) {
    kt_status status = KT_OK;
    int64_t start = kt__now_ns();
    for (int i = 0; status == KT_OK && i < n; i++) status = decode_step(bs, err);
    *seconds = (double)(kt__now_ns() - start) * 1e-9;
    return status;
}
