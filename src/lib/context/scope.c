#include "context/scope.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/ends.h"

enum { MAX_NAME = 512 };

struct kt__scope {
    pthread_mutex_t lock;
    uint8_t binding[KT__KV_BINDING_BYTES];
    size_t n_binding; /* 0: blocks in memory belong to this engine anyway */
};

kt_status kt__scope_create(kt__scope **out, kt_error *err) {
    *out = NULL;
    kt__scope *s = kt__calloc(1, sizeof *s);
    if (!s || pthread_mutex_init(&s->lock, NULL) != 0) {
        kt__free(s);
        return kt__fail_nomem(err, "the cache's scope", sizeof *s);
    }
    *out = s;
    return KT_OK;
}

void kt__scope_destroy(kt__scope *s) {
    if (!s) return;
    pthread_mutex_destroy(&s->lock);
    kt__free(s);
}

kt__kv_key kt__scope_root(kt__scope *s, const char *name, const kt__adapters *adapters) {
    uint8_t bytes[KT__KV_BINDING_BYTES + MAX_NAME + 1 + KT__ADAPTERS_ID_BYTES];
    size_t n, len = strlen(name);
    if (len > MAX_NAME) len = MAX_NAME;
    pthread_mutex_lock(&s->lock);
    n = s->n_binding;
    memcpy(bytes, s->binding, n);
    pthread_mutex_unlock(&s->lock);
    memcpy(bytes + n, name, len);
    n += len;
    if (adapters && adapters->binds_kv) {
        bytes[n++] = 0; /* which no name holds */
        memcpy(bytes + n, adapters->kv_id, sizeof adapters->kv_id);
        n += sizeof adapters->kv_id;
    }
    return kt__kv_key_root(bytes, n);
}

static void set_binding(kt__scope *s, const uint8_t *binding, size_t n) {
    pthread_mutex_lock(&s->lock);
    s->n_binding = n;
    if (n) memcpy(s->binding, binding, n);
    pthread_mutex_unlock(&s->lock);
}

/* Blocks that outlive the process are bound to the model's bytes and options. */
void kt__engine_set_kv_store(kt_engine *engine, const kt__kv_store *store) {
    uint8_t binding[KT__KV_BINDING_BYTES];
    kt_error err;
    const kt__kv_shape *shape = kt__kv_get_shape(engine->kv);
    if (store && kt__kv_needs_ends(shape) && !store->get_end) store = NULL; /* of no use */
    if (store && kt__engine_kv_binding(engine, NULL, binding, &err) != KT_OK) {
        kt__log_line(&engine->model->ctx->log, KT_LOG_WARN, "no disk cache: %s", err.message);
        store = NULL;
    }
    kt__ticket_lock(&engine->turn);
    kt__prefix_set_store(engine->prefix, store);
    set_binding(engine->scope, binding, store ? sizeof binding : 0);
    kt__ticket_unlock(&engine->turn);
}
