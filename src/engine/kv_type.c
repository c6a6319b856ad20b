/* kt_kv_type's names. */
#include <kentang.h>
#include <string.h>

static const char *const names[KT_KV_TYPES] = {[KT_KV_F16] = "f16", [KT_KV_Q8_0] = "q8_0"};

const char *kt_kv_type_name(kt_kv_type type) {
    return (unsigned)type < KT_KV_TYPES ? names[type] : NULL;
}

kt_kv_type kt_kv_type_named(const char *name) {
    if (name && !strcmp(name, "q8")) return KT_KV_Q8_0;
    for (int i = 0; name && i < KT_KV_TYPES; i++) {
        if (!strcmp(names[i], name)) return (kt_kv_type)i;
    }
    return KT_KV_TYPES;
}
