/* An engine set up to be measured: prefill and decode of fixed token ids, timed.
 *
 * Owns: one engine, its sequences, and the ids. The id at a position of a stream is always the
 * same, so that every run does the same work; nothing is sampled. Knows no printing and no limits.
 * Used by bench and tune. One thread a rig. */
#ifndef KT_CLI_RIG_H
#define KT_CLI_RIG_H

#include <kentang.h>

typedef struct kt__rig {
    kt_engine *engine;
    kt_engine_info info;
    int n_streams;
    int32_t n_vocab;
    kt_seq **seqs;       /* [n_streams] */
    kt_eval_item *items; /* [n_streams] */
    int32_t *step_ids;   /* [n_streams] */
    int32_t *ids;        /* [n_ctx] */
} kt__rig;

/* params->n_seq_max streams of params->n_ctx positions; closed with kt__rig_close, also after
 * failure. */
kt_status KT_CHECKED kt__rig_open(kt_model *model, const kt_engine_params *params, kt__rig *out,
                                  kt_error *err);
void kt__rig_close(kt__rig *rig);

/* Every stream then holds `depth` positions (each its own K/V: shared pages would be read from
 * cache). */
kt_status KT_CHECKED kt__rig_set_depth(kt__rig *rig, int depth, kt_error *err);
/* n tokens after the first stream's depth, in one call. */
kt_status KT_CHECKED kt__rig_prefill(kt__rig *rig, int n, double *seconds, kt_error *err);
/* n steps of one token for every stream. */
kt_status KT_CHECKED kt__rig_decode(kt__rig *rig, int n, double *seconds, kt_error *err);

/* The middle of n values (of the two middle ones, their mean); sorts them. */
double kt__rig_median(double *values, int n);

#endif
