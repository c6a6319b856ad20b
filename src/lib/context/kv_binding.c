#include "context/kv_binding.h"

#include <kentang.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/le.h"
#include "base/math.h"
#include "context/model.h"
#include "kernels/quantise_page_ref.h"
#include "kv/prefix.h"

enum { KV_BOTH_F16 = 1, KV_RULES = 2 /* which pages are read in which form; two bits */ };

static void binding_put(uint8_t **at, uint64_t x, int n) {
    kt__le_put(*at, x, n);
    *at += n;
}

static void put_f32(uint8_t **at, float x) {
    binding_put(at, kt__f32_bits(x), 4);
}

/* What keys and values are held as and how many pages before its own a query reads as f16, with the
 * version of these forms' rules. */
static uint64_t kv_type_id(const kt_engine_params *p) {
    if (p->kv_keys == KT_KV_F16 && p->kv_values == KT_KV_F16) return KV_BOTH_F16;
    unsigned tail = ((unsigned)p->kv_tail + KT__PAGE_POS - 1) / KT__PAGE_POS;
    return (unsigned)KV_RULES << 30 | tail << 12 | (unsigned)p->kv_keys << 8 |
           (unsigned)p->kv_values << 4 | KV_BOTH_F16;
}

/* How products and attention are computed, where that changes numbers. */
static uint64_t arithmetic_id(const kt_model_params *p) {
    return (p->exact ? 1u : p->blas ? 2u : 0u) | (p->plain_attention ? 4u : 0u);
}

kt_status kt__engine_kv_binding(const kt_engine *engine, const kt__adapters *adapters,
                                uint8_t out[KT__KV_BINDING_BYTES], kt_error *err) {
    const kt__hparams *hp = &engine->model->net->hp;
    const kt__rope_params *rope = &hp->rope;
    bool long_factors = rope->kind == KT__ROPE_LONGROPE && engine->params.n_ctx > rope->orig_ctx;
    memset(out, 0, KT__KV_BINDING_BYTES);
    kt_status status = kt__model_fingerprint(engine->model, out, err);
    uint8_t *at = out + KT_FINGERPRINT_BYTES;
    binding_put(&at, KENTANG_NUMERICS, 4);
    binding_put(&at, kv_type_id(&engine->params), 4);
    binding_put(&at, (uint64_t)hp->n_layer, 2);
    binding_put(&at, kt__engine_uses_mtp(engine->model, &engine->params), 2);
    binding_put(&at, (uint64_t)hp->n_head_kv, 4);
    binding_put(&at, (uint64_t)hp->head_dim_k, 4);
    binding_put(&at, (uint64_t)hp->head_dim_v, 4);
    binding_put(&at, arithmetic_id(&engine->model->params), 4);
    binding_put(&at, (uint64_t)rope->kind, 4);
    binding_put(&at, (uint64_t)rope->n_rot, 4);
    binding_put(&at, (uint64_t)rope->orig_ctx, 8);
    binding_put(&at, long_factors, 4);
    const float numbers[] = {rope->freq_base,   rope->local_freq_base, rope->freq_scale,
                             rope->attn_factor, rope->ext_factor,      rope->beta_fast,
                             rope->beta_slow};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) put_f32(&at, numbers[i]);
    if (adapters && adapters->binds_kv) memcpy(at, adapters->kv_id, sizeof adapters->kv_id);
    _Static_assert(KT_FINGERPRINT_BYTES + 48 + 4 * 7 + KT__ADAPTERS_ID_BYTES <=
                       KT__KV_BINDING_BYTES,
                   "binding");
    return status;
}

static void put_heads(const kt_engine *engine, int n_head_kv, uint8_t **at) {
    const kt__division *split = kt__ctx_split(engine->model->ctx);
    int n_head = engine->model->net->hp.n_head;
    kt__division_heads h = {0};
    if (n_head && n_head_kv) h = kt__division_heads_of(split, n_head, n_head_kv, split->rank);
    binding_put(at, (uint64_t)h.kv0, 4);
    binding_put(at, (uint64_t)h.n_kv, 4);
}

size_t kt__engine_heads_binding(const kt_engine *engine, uint8_t out[KT__KV_HEADS_BYTES]) {
    kt__kv_shape whole = kt__model_kv_shape(engine->model);
    uint8_t *at = out;
    if (!kt__ctx_split(engine->model->ctx)) return 0;
    put_heads(engine, whole.n_head_kv, &at);
    put_heads(engine, whole.other.n, &at);
    return KT__KV_HEADS_BYTES;
}

/* ---- pages that are pressed ---- */

void kt__engine_press_room(const kt_engine *engine, kt__kv_room *room) {
    room->presses = engine->params.kv_pressure != KT_KV_PRESSURE_OFF;
    if (room->presses) kt__key_bias_outliers(engine->model->net, room->f16_keys);
}

static void quantise_part(void *user, kt__kv_form from, kt__kv_form form, bool key, int head_dim,
                          const uint8_t *part, uint8_t *out) {
    const kt_engine *engine = user;
    const kt__kernels *k = engine->model->ctx->kernels;
    void *scratch = engine->press_scratch;
    if (from == KT__KV_F16) {
        (key ? k->quantise_k : k->quantise_v)[form]((const kt__f16 *)(const void *)part, head_dim,
                                                    out, scratch);
    } else {
        (key ? kt__ref_narrow_k : kt__ref_narrow_v)(part, head_dim, out, scratch);
    }
}

kt_status kt__engine_press(kt_engine *engine, kt_error *err) {
    kt__layer_sizes widest = kt__hparams_widest(&engine->model->net->hp);
    int dim = widest.head_dim_k > widest.head_dim_v ? widest.head_dim_k : widest.head_dim_v;
    size_t bytes = kt__quantise_scratch_bytes(dim);
    if (!kt__kv_presses(engine->kv)) return KT_OK;
    engine->press_scratch = kt__aligned_alloc(64, bytes);
    if (!engine->press_scratch) return kt__fail_nomem(err, "what presses pages", bytes);
    kt__kv_set_quantise(engine->kv, quantise_part, engine);
    return KT_OK;
}

/* ---- scope ---- */

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

/* Names of kt_kv_type, and of what is said of keys and values together. */

static const char *const names[KT_KV_TYPES] = {
    [KT_KV_F16] = "f16", [KT_KV_Q8_0] = "q8_0", [KT_KV_Q4_0] = "q4_0"};

const char *kt_kv_type_name(kt_kv_type type) {
    return (unsigned)type < KT_KV_TYPES ? names[type] : NULL;
}

kt_kv_type kt_kv_type_named(const char *name) {
    if (name && !strcmp(name, "q8")) return KT_KV_Q8_0;
    if (name && !strcmp(name, "q4")) return KT_KV_Q4_0;
    for (int i = 0; name && i < KT_KV_TYPES; i++) {
        if (!strcmp(names[i], name)) return (kt_kv_type)i;
    }
    return KT_KV_TYPES;
}

/* A row with a context is a preset. */
static const struct kv_mode {
    const char *name;
    kt_kv_type keys, values;
    int32_t tail, n_ctx;
} modes[] = {
    {"f16", KT_KV_F16, KT_KV_F16, 0, 0},
    {"q8", KT_KV_Q8_0, KT_KV_Q8_0, 0, 0},
    {"q4", KT_KV_Q4_0, KT_KV_Q4_0, 0, 0},
    {"k8v4", KT_KV_Q8_0, KT_KV_Q4_0, 0, 0},
    {"chat-short", KT_KV_Q8_0, KT_KV_Q8_0, 128, 2048},
    {"chat-long", KT_KV_Q4_0, KT_KV_Q4_0, 256, 8192},
    {"document-qa", KT_KV_Q4_0, KT_KV_Q4_0, 512, 16384},
    {"code", KT_KV_Q8_0, KT_KV_Q8_0, 128, 4096},
    {"cpu", KT_KV_Q4_0, KT_KV_Q4_0, 128, 2048},
};

bool kt_kv_named(const char *name, kt_engine_params *params) {
    for (size_t i = 0; name && i < sizeof modes / sizeof *modes; i++) {
        const struct kv_mode *m = &modes[i];
        if (strcmp(m->name, name) != 0) continue;
        params->kv_keys = m->keys;
        params->kv_values = m->values;
        if (!params->kv_tail) params->kv_tail = m->tail;
        if (!params->n_ctx) params->n_ctx = m->n_ctx;
        return true;
    }
    return false;
}
