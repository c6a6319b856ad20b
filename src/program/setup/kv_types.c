#include "setup/kv_types.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

kt_status kt__kv_types_read(const char *text, kt_engine_params *params, kt_error *err) {
    char keys[16];
    const char *slash = text ? strchr(text, '/') : NULL;
    if (!text || !*text || kt_kv_named(text, params)) return KT_OK;
    snprintf(keys, sizeof keys, "%.*s", slash ? (int)(slash - text) : (int)strlen(text), text);
    params->kv_keys = kt_kv_type_named(keys);
    params->kv_values = slash ? kt_kv_type_named(slash + 1) : params->kv_keys;
    if (params->kv_keys != KT_KV_TYPES && params->kv_values != KT_KV_TYPES) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "kv_type: \"%.40s\", expected f16, q8_0 (q8), q4_0 (q4), k8v4, KEYS/VALUES of "
                    "these types, or chat-short, chat-long, document-qa, code or cpu",
                    text);
}
