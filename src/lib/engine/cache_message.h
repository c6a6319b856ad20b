/* The disk cache of an engine that several processes share: each keeps the blocks of its own heads on its machine.
 *
 * Owns: what process 0 tells the others of its calls to a store, and their replies where it waits for them: a block is there
 * when every process has it. Threads as the store that it wraps. */
#ifndef KT_ENGINE_CACHE_MESSAGE_H
#define KT_ENGINE_CACHE_MESSAGE_H

#include "context/types.h"

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
/* store NULL: there is none. */
kt_status kt__store_heard(kt_engine *engine, const kt__kv_store *store, kt_error *err) KT_CHECKED;

#endif
