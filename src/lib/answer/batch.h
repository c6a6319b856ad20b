/* What the engine computes, with its turn: the only place where it does.
 *
 * Owns: what surrounds a batch on one of its forward passes, and a picture's tiles on its encoder: the pool's lock,
 * the number of threads, the floating-point environment, the profile, the look at the file before and after; the
 * message by which other processes compute the same batch; the states of recurrent layers that a batch writes. No
 * allocation while it computes. */
#ifndef KT_ANSWER_BATCH_H
#define KT_ANSWER_BATCH_H

#include "context/adapter.h"
#include "context/types.h"
#include "ops/ops.h"

typedef struct kt__batch_run {
    kt__fwd *fwd;
    const kt__kv *kv;       /* of its tables; NULL: the engine's */
    const kt__batch *batch; /* to begin with; NULL: continue */
    bool decode;            /* counts as decoding, with its number of threads */
    int n_tok;
    int64_t until_us; /* INT64_MAX: done */
    const atomic_bool *cancel;
    const atomic_bool *pause; /* or NULL: as if the time had come */
    bool agreed;              /* of a batch that another process leads: kt__stop_at's */
} kt__batch_run;

/* Until the batch is done or the time has come. KT_E_CANCELLED by kt_engine_cancel or `cancel`. */
kt_status kt__engine_run_batch(kt_engine *engine, const kt__batch_run *run, bool *done,
                               kt_error *err) KT_CHECKED;
/* After a step that ended with `status`: pages of a file that was cut, which the fault guard replaced, make wrong numbers, or
 * numbers that are not finite, so that KT_E_TRUNCATED comes before what the step said. */
kt_status kt__batch_check_file(const kt__gguf *gguf, kt_status status, kt_error *err) KT_CHECKED;

/* A batch as process 0 describes it to the other processes, which have other heads of the same pages. A message says
 * everything about the pages of its batch, each time: a store that follows keeps no lists of its own, and so none
 * that could differ. With the pool's lock. */

/* Whether others have a part of this pass: not of a draft model's. */
bool kt__batch_is_divided(const kt_engine *engine, const kt__batch_run *run);
/* Process 0: a run that begins or continues now. No allocation guard is on. */
kt_status kt__batch_tell(kt_engine *engine, const kt__batch_run *run, bool agreed,
                         kt_error *err) KT_CHECKED;
/* Process 0: a page's content was copied; for kt__kv_set_copied, user: the engine. */
void kt__batch_tell_copy(void *user, int32_t from, int32_t to);

/* Where a page's parts lie, in a message of any kind. */
void kt__where_put(kt__message *m, kt__kv_where where);
kt__kv_where kt__where_take(kt__message *m);

/* Of a pass, what its batch points to. */
typedef struct kt__led_pass {
    int n_tok_max, n_out_max;
    kt__batch batch;
    int32_t *ids, *out_rows;
    kt__seg *segs;
    kt__kv_table *tables; /* [n_tok_max], of segments */
    kt__seg_state *states;
    kt__lora_rows *lora;
    kt__lora_use *uses; /* [n_tok_max][KT_ADAPTERS_MAX] */
    int32_t *pages;
    size_t n_states, cap_states, n_pages, cap_pages;
} kt__led_pass;
kt_status kt__led_pass_init(kt__led_pass *pass, int n_tok_max, int n_out_max,
                            kt_error *err) KT_CHECKED;
void kt__led_pass_free(kt__led_pass *pass);

/* The others: what the context's message says; passes[2]: of prompts and of steps. KT_E_FORMAT: it cannot be. */
kt_status kt__batch_heard(kt_engine *engine, const kt__led_adapters *adapters, kt__led_pass *passes,
                          kt__batch_run *run, kt_error *err) KT_CHECKED;
kt_status kt__batch_heard_copy(kt_engine *engine, kt_error *err) KT_CHECKED;

/* Until all rows of the view are there or the time has come, a tile after the other. What was begun continues with
 * the next call for the same view. KT_E_TRUNCATED: the encoder's file was cut; KT_E_NUMERIC. */
kt_status kt__engine_see(kt_engine *engine, kt__view *view, int64_t until_us, bool *done,
                         kt_error *err) KT_CHECKED;

/* The states that a batch writes: the list owns each (kv/kv.h) from the moment the batch is listed until it becomes a
 * table's or is given back, and knows which of them the pages after them keep. No allocation after init. */

typedef struct kt__state_list {
    kt__kv *kv;
    kt__seg_state *list; /* [cap]; KT__NO_STATE where it was taken */
    bool *keep;          /* [cap] */
    int n, cap;
} kt__state_list;

/* false: no memory. Without recurrent layers the list stays empty. */
bool kt__state_list_init(kt__state_list *list, kt__kv *kv, size_t cap);
void kt__state_list_free(kt__state_list *list);
/* Gives back what is left; the list is empty. */
void kt__state_list_release(kt__state_list *list);

/* A segment's states follow. */
void kt__state_list_begin(const kt__state_list *list, kt__seg *seg);
/* The state after the segment's first n_tok rows goes into piece, which is the list's; false: there
 * is none, or no place. */
bool kt__state_list_add(kt__state_list *list, kt__seg *seg, int n_tok, int32_t piece, bool keep);
/* That after its last row goes into the piece that was taken with the table's pages. */
void kt__state_list_add_last(kt__state_list *list, kt__seg *seg, kt__kv_table *table, bool keep);
/* The i-th of the segment's states becomes the table's, and is kept as a snapshot unless kind is
 * NONE; false: there is none. */
bool kt__state_list_take(kt__state_list *list, const kt__seg *seg, int i, kt__kv_table *table,
                         kt__snapshot kind);

#endif
