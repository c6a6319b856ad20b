/* Names of kt_kv_type, and of what is said of keys and values together. */
#include <kentang.h>
#include <string.h>

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
