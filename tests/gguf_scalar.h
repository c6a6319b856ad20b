/* A metadata key of any scalar type, of which the writer itself knows only those it writes. */
#ifndef KT_TESTS_GGUF_SCALAR_H
#define KT_TESTS_GGUF_SCALAR_H

#include <string.h>

#include "base/le.h"
#include "gguf/gguf.h"

static inline void gguf_put_scalar(kt__gguf_writer *w, const char *key, kt__gguf_type type,
                                   int64_t value) {
    uint8_t bytes[8];
    kt__le_put(bytes, (uint64_t)value, 8);
    const kt__gguf_kv kv = {.key = {key, strlen(key)}, .type = type, .count = 1, .data = bytes};
    kt__gguf_put_kv(w, &kv);
}

#endif
