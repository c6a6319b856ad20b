#include "kv/field.h"

#include <string.h>

static bool is_known(const uint8_t *hash, size_t n) {
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++) any |= hash[i];
    return any != 0;
}

bool kt__field_hashes_differ(const uint8_t *a, const uint8_t *b, size_t n) {
    return is_known(a, n) && is_known(b, n) && memcmp(a, b, n) != 0;
}

bool kt__field_has_digest(const uint8_t in[32], kt__digest digest) {
    uint8_t bytes[32];
    kt__digest_bytes(digest, bytes);
    return memcmp(in, bytes, sizeof bytes) == 0;
}
