/* What keys and values are held as in a test that is run once for each: KT_TEST_KV names both, as
 * in "q8_0,f16", and maybe kv_tail, as in "q4_0,q4_0,64"; without it, f16. */
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
    char keys[16], values[16];
    if (!comma) return;
    const char *tail = strchr(comma + 1, ',');
    snprintf(keys, sizeof keys, "%.*s", (int)(comma - names), names);
    params->kv_keys = kv_type_or_die(keys);
    snprintf(values, sizeof values, "%.*s", (int)strcspn(comma + 1, ","), comma + 1);
    params->kv_values = kv_type_or_die(values);
    params->kv_tail = tail ? atoi(tail + 1) : 0;
    if (params->n_ctx && params->kv_tail > params->n_ctx) params->kv_tail = params->n_ctx;
}

/* How much of n positions may be found at least: of quantised pages whole ones, and with a tail
 * nothing where nobody went on before. */
static inline int32_t kv_found_least(int32_t n) {
    kt_engine_params params = {0};
    kv_types_of_test(&params);
    if (params.kv_tail > 0) return 0;
    return params.kv_keys == KT_KV_F16 && params.kv_values == KT_KV_F16 ? n : n / 16 * 16;
}

static inline bool kv_is_f16(void) {
    kt_engine_params params = {0};
    kv_types_of_test(&params);
    return params.kv_keys == KT_KV_F16 && params.kv_values == KT_KV_F16;
}

/* Whether what is quantised is not enough to continue from. */
static inline bool kv_needs_ends(void) {
    kt_engine_params params = {0};
    kv_types_of_test(&params);
    return params.kv_tail > 0 || params.kv_keys == KT_KV_Q4_0 || params.kv_values == KT_KV_Q4_0;
}

#endif
