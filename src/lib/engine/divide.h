/* An engine whose work several processes share.
 *
 * Owns: the two messages around it, which carry all that has to be the same everywhere, and everybody's reply to the
 * first; the messages of its disk cache; and what one of the processes would hold, read and send. Batches are
 * answer/batch.h's. Any thread. */
#ifndef KT_ENGINE_DIVIDE_H
#define KT_ENGINE_DIVIDE_H

#include "context/types.h"
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

/* The disk cache of an engine that several processes share: each keeps the blocks of its own heads on its machine.
 *
 * What process 0 tells the others of its calls to a store, and their replies where it waits for them: a block is
 * there when every process has it. Threads as the store that it wraps. */

/* This process' part of a cache, which the engine does not ask by itself. close takes NULL. */
kt_status kt__cache_open_here(kt_engine *engine, const kt_cache_params *params, kt_cache **out,
                              kt_error *err) KT_CHECKED;
void kt__cache_close_here(kt_cache *cache);
kt__kv_store kt__cache_store(const kt_cache *cache);

/* ---- process 0 ---- */

enum { KT__MISSED_BLOCKS = 64 };

typedef struct kt__shared_store {
    kt_engine *engine;
    kt__kv_store own;
    /* Blocks that were here and not everywhere: they are handed on again. A ring. */
    kt__kv_key missed[KT__MISSED_BLOCKS];
    unsigned n_missed;
} kt__shared_store;
/* The store of all: valid as long as `shared` is. */
kt__kv_store kt__shared_store_of(kt__shared_store *shared);

/* A cache is opened, which the others answer (kt__divide_agree), and closed. Nothing where there are no others. */
kt_status kt__cache_tell(kt_engine *engine, const kt_cache_params *params,
                         kt_error *err) KT_CHECKED;
void kt__cache_tell_end(kt_engine *engine);

/* ---- the others ---- */

/* params->dir is valid until the next message. */
kt_status kt__cache_heard(kt__message *m, kt_cache_params *params, kt_error *err) KT_CHECKED;
/* Processes other than 0: makes the call that process 0 announced by the message at hand on this process' store (NULL: there
 * is none), and answers where process 0 waits. KT_E_FORMAT: the message names pages that this engine does not have. */
kt_status kt__store_heard(kt_engine *engine, const kt__kv_store *store, kt_error *err) KT_CHECKED;

/* What one of the processes would hold, read and send, found by the code that would run there: an engine whose
 * products are counted and not computed, and whose messages go nowhere; so it is right for every architecture. The
 * context has no other engine, and has joined no job; one thread. */

typedef struct kt__rank_plan {
    uint64_t weight_bytes; /* held; but for tables of which tokens read rows */
    uint64_t kv_bytes; /* room for keys and values of kv_positions, and recurrent layers' states */
    int64_t kv_positions;
    /* of a token that is generated */
    uint64_t read_bytes; /* of weights */
    kt__traffic traffic;
} kt__rank_plan;

typedef struct kt__rank_asked {
    const kt_engine_params *params;
    const int *shares; /* [n] as kt__division_share has them */
    int n;
    uint64_t least_bytes; /* as kt_ctx_join has it */
} kt__rank_asked;

/* KT_E_ARG: other shares. */
kt_status kt__rank_plan_make(kt_model *model, const kt__rank_asked *asked, int rank,
                             kt__rank_plan *out, kt_error *err) KT_CHECKED;

#endif
