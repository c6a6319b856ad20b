/* Brings a model's mapped files into large pages in the background.
 *
 * Owns: what a thread does that works while nothing is computed in the context (idle_thread.h), and
 * what it came to. How a file is brought there is host/relay.h's business. Any thread. */
#ifndef KT_CONTEXT_PAGE_JOB_H
#define KT_CONTEXT_PAGE_JOB_H

#include "context/idle_thread.h"
#include "gguf/gguf.h"

typedef struct kt__page_job kt__page_job;

/* Nothing is done yet. gguf and activity outlive it. */
kt_status kt__page_job_create(const kt__gguf *gguf, const kt__activity *activity,
                              kt__page_job **out, kt_error *err) KT_CHECKED;
void kt__page_job_destroy(kt__page_job *job); /* waits for a slice at most */
kt_status kt__page_job_start(kt__page_job *job, kt_error *err) KT_CHECKED;
void kt__page_job_get(kt__page_job *job, kt_pages_info *out);

#endif
