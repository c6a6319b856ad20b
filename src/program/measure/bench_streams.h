/* An engine set up to be measured: prefill and decode of fixed token ids, timed.
 *
 * Owns: one engine, its sequences, and the ids. The id at a position of a stream is always the
 * same, so that every run does the same work; nothing is sampled. Knows no printing and no limits.
 * Used by bench and tune. One thread a bench_streams. */
#ifndef KT_MEASURE_BENCH_STREAMS_H
#define KT_MEASURE_BENCH_STREAMS_H

#include <kentang.h>

#include "setup/command_model.h"

typedef struct kt__bench_streams {
    kt_engine *engine;
    kt_engine_info info;
    int n_streams;
    int32_t n_vocab;
    kt_seq **seqs;       /* [n_streams] */
    kt_eval_item *items; /* [n_streams] */
    int32_t *step_ids;   /* [n_streams] */
    int32_t *ids;        /* [n_ctx] */
} kt__bench_streams;

/* params->n_seq_max streams of params->n_ctx positions, with the adapters (or NULL); closed with kt__bench_streams_close, also after
 * failure. */
kt_status KT_CHECKED kt__bench_streams_open(kt_model *model, const kt_engine_params *params,
                                            const kt__lora_set *lora, kt__bench_streams *out,
                                            kt_error *err);
void kt__bench_streams_close(kt__bench_streams *bs);

/* Every stream then holds `depth` positions (each its own K/V: shared pages would be read from
 * cache). */
kt_status KT_CHECKED kt__bench_streams_set_depth(kt__bench_streams *bs, int depth, kt_error *err);
/* n tokens after the first stream's depth, in one call. */
kt_status KT_CHECKED kt__bench_streams_prefill(kt__bench_streams *bs, int n, double *seconds,
                                               kt_error *err);
/* n steps of one token for every stream. */
kt_status KT_CHECKED kt__bench_streams_decode(kt__bench_streams *bs, int n, double *seconds,
                                              kt_error *err);

#endif
