/* The memory contract: what an engine will use, decided before anything is allocated.
 *
 * Owns: the sizes that follow from a budget (pages of the K/V store, rows of a batch, answers
 * computed together, the context), and the account of who has how much of a context's budget. Any
 * thread. */
#ifndef KT_REQUESTS_PLAN_H
#define KT_REQUESTS_PLAN_H

#include "context/model.h"

/* In every given budget, for the queue of a disk cache that may come. */
enum { KT__PLAN_DISK_QUEUE_BYTES = 4 << 20 };

enum {
    KT__PRESS_TAIL = 128
}; /* positions before an answer's last that are not pressed (kv/kv.h) */

/* Of an answer whose older pages are pressed, those that are not: what a step writes, a page at least, and its tail. */
static inline int32_t kt__plan_wide_pages(int32_t n_step) {
    return kt__pages_of(KT__PRESS_TAIL + KT__PAGE_POS + n_step);
}

typedef struct kt__plan {
    kt_engine_params params; /* resolved */
    kt_mem_plan mem;
    int64_t n_pages;
    bool narrow;                  /* a sequence fits where its older pages are pressed */
    int32_t n_local;              /* of these, with parts in layers with a window, at once */
    int32_t n_states;             /* of recurrent layers */
    int n_out_max;                /* rows of a prompts' batch with logits */
    uint64_t constraint_bytes;    /* that constraints may take; where the budget was given, */
    uint64_t constraints_planned; /* of which these are among the plan's tables */
} kt__plan;

/* KT_E_ARG for numbers out of range, KT_E_NOMEM where nothing fits. */
kt_status kt__plan_make(const kt_model *model, const kt_engine_params *params, kt__plan *out,
                        kt_error *err) KT_CHECKED;
/* The sizes of the two forward passes. */
kt__fwd_params kt__plan_prompt_fwd(const kt_model *model, const kt_engine_params *resolved,
                                   int n_out_max);
kt__fwd_params kt__plan_step_fwd(const kt_model *model, const kt_engine_params *resolved);
/* Of the K/V store, for resolved parameters; its states and windows are the plan's. */
kt__kv_room kt__plan_kv_room(const kt__kv_shape *shape, const kt_engine_params *resolved);
/* Places for the pages of one sequence: all but those that have their f16 copies alone, and without
 * a tail one to copy on write; and the bytes of that room's f16 copies. */
int64_t kt__plan_places(const kt__kv_shape *shape, int64_t n_pos);
uint64_t kt__plan_f16_copy_bytes(const kt__kv_shape *shape, const kt_engine_params *resolved);
/* Of so many pages of the store, those that may have parts in layers with a window at once. */
int32_t kt__plan_local_pages(const kt__kv_shape *shape, const kt_engine_params *resolved,
                             int64_t n_pages);
/* Pages of keys and values with which a context holds that share of its budget; one answer at full
 * length at least. */
int64_t kt__plan_pages_within(const kt__plan *plan, double share);
/* Takes the plan's bytes from the context's budget (the model's weights with its first engine), and
 * gives them back; and with the first one the store of its experts begins, where the plan has one. */
kt_status kt__plan_charge(kt_engine *engine, const kt__plan *plan, kt_error *err) KT_CHECKED;
void kt__plan_discharge(kt_engine *engine);

#endif
