#include "convert/write.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kernels/dispatch.h"
#include "tokenizer/tokenizer.h"

typedef struct made_header {
    char *head;
    size_t head_bytes;
    uint64_t data_bytes;
} made_header;

/* The program's own reader takes what was made. */
static kt_status check_header(const made_header *h, kt__convert_report *report, kt_error *err) {
    kt__gguf *gguf = NULL;
    kt__tokenizer *tok = NULL;
    kt_status status;
    KT__TRY(kt__gguf_open_memory(h->head, h->head_bytes, true, &gguf, err));
    if (!kt__gguf_find(gguf, "tokenizer.ggml.model")) goto out;
    KT__TRY(kt__tokenizer_load(gguf, &tok, err));
    snprintf(report->tokenizer, sizeof report->tokenizer, "%s", kt__tokenizer_kind(tok));
out:
    kt__tokenizer_free(tok);
    kt__gguf_close(gguf);
    return status;
}

/* The fits of the tier that the machine has, or that KENTANG_ISA asks for; the bytes are the same. */
static kt_status choose_fitter(const kt__fitter **out, kt_error *err) {
    kt__cpu cpu;
    const kt__kernels *kernels;
    char why[160];
    kt__cpu_detect(&cpu);
    kt_status status = kt__kernels_select(&cpu, getenv("KENTANG_ISA"), &kernels, why, sizeof why,
                                          err);
    if (status == KT_OK) *out = kernels->fitter;
    return status;
}

/* The part is removed but where it is another run's. */
static kt_status write_part(const kt__convert_output *o, const kt__weight_plan *plan,
                            const made_header *h, kt__digest identity, kt__convert_report *report,
                            kt_error *err) {
    kt__part part;
    kt__weights_job job = {.plan = plan,
                           .part = &part,
                           .data_at = h->head_bytes,
                           .n_threads = o->n_threads,
                           .encoding = {.effort = o->effort},
                           .feedback = o->feedback,
                           .checkpoint_bytes = o->checkpoint_bytes,
                           .progress = o->progress,
                           .user = o->progress_user};
    kt_status status = choose_fitter(&job.encoding.fitter, err);
    if (status != KT_OK) return status;
    KT__TRY(kt__part_open(o->target, report->bytes, identity, &part, err));
    report->resumed_bytes = part.good;
    if (part.good == 0) KT__TRY(kt__part_write(&part, h->head, h->head_bytes, 0, err));
    KT__TRY(kt__weights_write(&job, &report->counts, err));
    KT__TRY(kt__part_finish(&part, err));
    kt__part_close(&part);
    return KT_OK;
out:
    if (status == KT_E_STATE)
        kt__part_close(&part);
    else
        kt__part_remove(&part);
    return status;
}

kt_status kt__convert_write(const kt__convert_output *output, const kt__weight_plan *plan,
                            kt__gguf_writer *w, kt__hash *sources, kt__convert_report *report,
                            kt_error *err) {
    made_header h = {0};
    kt_status status;
    kt__weight_plan_declare(plan, w);
    KT__TRY(kt__gguf_writer_take_header(w, &h.head, &h.head_bytes, &h.data_bytes, err));
    KT__TRY(check_header(&h, report, err));
    report->recipe = plan->recipe->name;
    report->n_tensors = plan->n;
    report->n_params = plan->n_params;
    report->bytes = h.head_bytes + h.data_bytes;
    kt__hash_add(sources, KT_VERSION, sizeof KT_VERSION);
    kt__hash_add(sources, h.head, h.head_bytes);
    kt__hash_add(sources, &output->effort, sizeof output->effort);
    if (output->feedback)
        kt__hash_add(sources, &output->feedback->identity, sizeof output->feedback->identity);
    KT__TRY(write_part(output, plan, &h, kt__hash_end(sources), report, err));
out:
    kt__free(h.head);
    return status;
}
