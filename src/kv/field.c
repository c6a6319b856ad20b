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

void kt__field_put(uint8_t *out, uint64_t x, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) out[i] = (uint8_t)(x >> 8 * i);
}

uint64_t kt__field_get(const uint8_t *in, int n_bytes) {
    uint64_t x = 0;
    for (int i = 0; i < n_bytes; i++) x |= (uint64_t)in[i] << 8 * i;
    return x;
}

void kt__field_put_digest(uint8_t out[32], kt__digest digest) {
    for (int i = 0; i < 4; i++) kt__field_put(out + 8 * i, digest.w[i], 8);
}

bool kt__field_has_digest(const uint8_t in[32], kt__digest digest) {
    uint8_t bytes[32];
    kt__field_put_digest(bytes, digest);
    return memcmp(in, bytes, sizeof bytes) == 0;
}
