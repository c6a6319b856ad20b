/* Batches of requests in files, as OpenAI's clients ask for them.
 *
 * Owns: a thread that takes the batches of a directory (batch_store.h) one after the other, and
 * sends each line through the same jobs as a request over HTTP, so that an answer is what it would
 * be alone. Results are appended as they come: after any end of the process the next one continues
 * after them. Any thread; jobs call back on the loop's. */
#ifndef KT_DIALECTS_BATCHES_H
#define KT_DIALECTS_BATCHES_H

#include "services/batch_store.h"
#include "services/shared.h"

typedef struct kt__batches kt__batches;

/* Continues with what was not finished. */
kt_status KT_CHECKED kt__batches_open(kt__shared *shared, const char *dir, kt__batches **out,
                                      kt_error *err);
/* What runs is broken off, to be gone on with by the next process. Before the loop ends. NULL is
 * allowed, of both. */
void kt__batches_stop(kt__batches *batches);
void kt__batches_close(kt__batches *batches); /* when nobody asks any more */
kt__batch_store *kt__batches_store(kt__batches *batches);
/* A record's id; of a file of requests that the client has uploaded. */
kt_status KT_CHECKED kt__batches_create(kt__batches *batches, const char *client,
                                        const json_t *body, char id[KT__BATCH_ID], kt_error *err);
/* false: there is none of the client's. */
bool kt__batches_cancel(kt__batches *batches, const char *client, const char *id);
/* As kt__batch_store_record, with the counts of this moment. */
json_t *kt__batches_get(kt__batches *batches, const char *client, const char *id);

#endif
