/* What keys and values are held as in a test that is run once for each: KT_TEST_KV names both, as in
 * "q8_0,f16"; without it, f16. */
#ifndef KT_TESTS_KV_TYPES_H
#define KT_TESTS_KV_TYPES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kentang.h"

static inline kt_kv_type kv_type_or_die(const char *name) {
    kt_kv_type type = kt_kv_type_named(name);
    if (type != KT_KV_TYPES) return type;
    fprintf(stderr, "KT_TEST_KV: no type %s\n", name);
    exit(1);
}

static inline void kv_types_of_test(kt_engine_params *params) {
    const char *names = getenv("KT_TEST_KV"), *comma = names ? strchr(names, ',') : NULL;
    char keys[16];
    if (!comma) return;
    snprintf(keys, sizeof keys, "%.*s", (int)(comma - names), names);
    params->kv_keys = kv_type_or_die(keys);
    params->kv_values = kv_type_or_die(comma + 1);
}

#endif
