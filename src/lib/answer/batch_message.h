/* A batch as process 0 tells it to the others, which have other heads of the same pages.
 *
 * Owns: its form in both directions. A message says everything about the pages of its batch, each time: a store that
 * is led keeps no lists of its own, and so none that could differ. With the pool's lock. */
#ifndef KT_ANSWER_BATCH_MESSAGE_H
#define KT_ANSWER_BATCH_MESSAGE_H

#include "answer/batch.h"
#include "context/adapter.h"

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

#endif
