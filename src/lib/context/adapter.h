/* Adapters that are open, and the lists of them that requests and sequences have.
 *
 * Owns: kt_adapter, counted by those who hold it; kt__adapters, an immutable list with scales, held
 * by its request or sequence and by a batch whose rows it acts on, so that closing an adapter never
 * disturbs what runs; and what K/V computed with a list is bound to. Any thread. */
#ifndef KT_CONTEXT_ADAPTER_H
#define KT_CONTEXT_ADAPTER_H

#include "context/types.h"
#include "model/lora_pack.h"

struct kt_adapter {
    kt_model *model;
    kt__lora_pack pack;
    char *path, *name;
    bool
        scoped; /* for conversations in which one of the corrections opens that it was trained from */
    atomic_int n_holders;
};

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

#endif
