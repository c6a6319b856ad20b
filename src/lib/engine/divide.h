/* An engine whose work several processes share.
 *
 * Owns: the two messages around it, which carry all that has to be the same everywhere, and everybody's reply to the
 * first. See answer/batch.h for batches. Any thread. */
#ifndef KT_ENGINE_DIVIDE_H
#define KT_ENGINE_DIVIDE_H

#include "requests/plan.h"

/* Process 0, before the engine's parts are made: the others make theirs. Without others nothing. */
kt_status kt__divide_begin(kt_engine *engine, const kt__plan *plan, kt_error *err) KT_CHECKED;
/* How the engine's opening went, here, in all processes; the first failure of any, with its machine. */
kt_status kt__divide_agree(kt_ctx *ctx, kt_status here, kt_error *err) KT_CHECKED;
/* Process 0, before the engine is closed. */
void kt__divide_end(kt_engine *engine);

/* What kt__divide_begin says, as the others read it. */
typedef struct kt__divide_told {
    int number;
    const char *path; /* valid until the next message */
    kt_model_params model;
    kt__plan plan;
    uint8_t fingerprint[KT_FINGERPRINT_BYTES];
} kt__divide_told;
kt_status kt__divide_heard(kt_ctx *ctx, kt__divide_told *out, kt_error *err) KT_CHECKED;
/* An engine of another process' plan. */
kt_status kt__engine_open_led(kt_model *model, const kt__plan *plan, int number, kt_engine **out,
                              kt_error *err) KT_CHECKED;

#endif
