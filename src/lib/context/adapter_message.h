/* Adapters as process 0 tells them to the others, whose rows of products they add to.
 *
 * Owns: their form in a message, and those that a process has of process 0. What is in it counts as bytes from outside. With
 * the pool's lock, but for kt__adapter_tell and kt__adapter_tell_end, which take it. */
#ifndef KT_CONTEXT_ADAPTER_MESSAGE_H
#define KT_CONTEXT_ADAPTER_MESSAGE_H

#include "context/types.h"
#include "model/lora_pack.h"

/* ---- process 0 ---- */
/* An adapter that was opened: it gets its number. Nothing where there are no others. */
kt_status kt__adapter_tell(kt_ctx *ctx, kt__lora_pack *pack, kt_error *err) KT_CHECKED;
/* One that is closed; a failure is reported with the next batch. */
void kt__adapter_tell_end(kt_ctx *ctx, const kt__lora_pack *pack);
/* Into a batch's message: what acts on its rows. */
void kt__adapter_put_rows(kt__message *m, const kt__lora_rows *rows, int n);

/* ---- the others ---- */
typedef struct kt__led_adapters {
    kt__lora_pack *packs; /* of each the matrices alone; a free place has the number 0 */
    size_t n, cap;
} kt__led_adapters;
void kt__led_adapters_free(kt__led_adapters *led);

/* What the context's message says. */
kt_status kt__adapter_heard(kt__led_adapters *led, kt__message *m, kt_error *err) KT_CHECKED;
void kt__adapter_heard_end(kt__led_adapters *led, kt__message *m);
/* The rows of a batch of n_tok tokens, and their uses[KT_ADAPTERS_MAX] each. Marks the message where an adapter is unknown
 * or is not for this network. */
void kt__adapter_take_rows(const kt__led_adapters *led, const kt__net *net, kt__message *m,
                           int n_tok, kt__lora_rows *rows, kt__lora_use *uses, int n);

#endif
