/* The root of the keys under which blocks are kept: what they are bound to, and for whom.
 *
 * Owns: the binding of an engine's blocks, which changes when a store is put below its index. Any
 * thread. */
#ifndef KT_CONTEXT_SCOPE_H
#define KT_CONTEXT_SCOPE_H

#include "context/adapter.h"
#include "context/kv_binding.h"

typedef struct kt__scope kt__scope;

kt_status kt__scope_create(kt__scope **out, kt_error *err) KT_CHECKED;
void kt__scope_destroy(kt__scope *scope);
/* The root of a named scope's blocks, computed with adapters (or NULL). */
kt__kv_key kt__scope_root(kt__scope *scope, const char *name, const kt__adapters *adapters);
/* Another place for blocks (kv/prefix.h): *store is copied, NULL takes it away. Takes the engine's
 * turn. The store outlives the engine, or is taken away before. */
void kt__engine_set_kv_store(kt_engine *engine, const kt__kv_store *store);

#endif
