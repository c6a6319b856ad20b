/* Adapters that are open, and the lists of them that requests and sequences have.
 *
 * Owns: kt_adapter, counted by those who hold it; kt__adapters, an immutable list with scales, held
 * by its request or sequence and by a batch whose rows it acts on, so that closing an adapter never
 * disturbs what runs; and what K/V computed with a list is bound to. Any thread. */
#ifndef KT_CONTEXT_ADAPTER_H
#define KT_CONTEXT_ADAPTER_H

#include "context/types.h"
#include "model/lora.h"

struct kt_adapter {
    kt_model *model;
    kt__lora_pack pack;
    char *path, *name;
    bool
        scoped; /* for conversations in which one of the corrections opens that it was trained from */
    atomic_int n_holders;
};

/* One that lies in memory, as matrices: parts[n], which are copied. KT_E_NOMEM: over the context's budget. */
kt_status kt__adapter_of_parts(kt_model *model, const kt__lora_part *parts, size_t n,
                               const char *name, bool scoped, kt_adapter **out,
                               kt_error *err) KT_CHECKED;

enum { KT__ADAPTERS_ID_BYTES = 16 };

typedef struct kt__adapters {
    atomic_int n_holders;
    int n;
    kt__lora_use uses[KT_ADAPTERS_MAX];
    kt_adapter *of[KT_ADAPTERS_MAX];
    bool binds_kv;                        /* K/V differ from those without the list */
    uint8_t kv_id[KT__ADAPTERS_ID_BYTES]; /* then: of the adapters and scales that make them */
} kt__adapters;

/* *out is NULL where nothing is in the list but scales of 0. KT_E_ARG: an adapter of another model,
 * a scale that is not finite; KT_E_LIMIT: too many, or of too large ranks together. */
kt_status kt__adapters_new(const kt_model *model, const kt_adapter_use *uses, size_t n,
                           kt__adapters **out, kt_error *err) KT_CHECKED;
/* Both take NULL. */
kt__adapters *kt__adapters_hold(kt__adapters *list);
void kt__adapters_release(kt__adapters *list);
/* The same adapters and scales in the same order; NULL is the empty list. */
bool kt__adapters_equal(const kt__adapters *a, const kt__adapters *b);
/* K/V computed with the one are those of the other. */
bool kt__adapters_share_kv(const kt__adapters *a, const kt__adapters *b);

/* Adapters as process 0 tells them to the others, whose rows of products they add to.
 *
 * Owns: their form in a message, and those that a process has of process 0. What is in it counts as bytes from outside. With
 * the pool's lock, but for kt__adapter_tell and kt__adapter_tell_end, which take it. */

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
