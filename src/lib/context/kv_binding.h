/* What K/V belongs to: a model's fingerprint, and with it the options that change the numbers.
 *
 * Owns: the bytes that sessions and blocks on disk are bound to. Any thread. */
#ifndef KT_CONTEXT_KV_BINDING_H
#define KT_CONTEXT_KV_BINDING_H

#include "context/adapter.h"
#include "context/types.h"

/* The bytes that the K/V of this engine depends on besides the tokens: kt_model_fingerprint, RoPE
 * options, K/V type and shape, KENTANG_NUMERICS, exactness, and the adapters (or NULL) that it is
 * computed with. For kt__kv_key_root (with a scope after it) and for files. */
enum { KT__KV_BINDING_BYTES = 128 };
kt_status kt__engine_kv_binding(const kt_engine *engine, const kt__adapters *adapters,
                                uint8_t out[KT__KV_BINDING_BYTES], kt_error *err) KT_CHECKED;

/* Of an engine that several processes have parts of: which heads' keys and values are this one's. Returns how many bytes these
 * are; 0: it has all. */
enum { KT__KV_HEADS_BYTES = 16 };
size_t kt__engine_heads_binding(const kt_engine *engine, uint8_t out[KT__KV_HEADS_BYTES]);

/* A store in f16 whose pages may be pressed (kv/kv.h): what its room says of that, and, once it is there, how. */
void kt__engine_press_room(const kt_engine *engine, kt__kv_room *room);
kt_status kt__engine_press(kt_engine *engine, kt_error *err) KT_CHECKED;

/* The root of the keys under which blocks are kept: what they are bound to, and for whom.
 *
 * Owns: the binding of an engine's blocks, which changes when a store is put below its index. Any
 * thread. */

typedef struct kt__scope kt__scope;

kt_status kt__scope_create(kt__scope **out, kt_error *err) KT_CHECKED;
void kt__scope_destroy(kt__scope *scope);
/* The root of a named scope's blocks, computed with adapters (or NULL). */
kt__kv_key kt__scope_root(kt__scope *scope, const char *name, const kt__adapters *adapters);
/* Another place for blocks (kv/prefix.h): *store is copied, NULL takes it away. Takes the engine's
 * turn. The store outlives the engine, or is taken away before. */
void kt__engine_set_kv_store(kt_engine *engine, const kt__kv_store *store);

#endif
