#include "sample/rng.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"

enum { PHILOX_ROUNDS = 10 };

void kt__philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t next0 = (uint32_t)(b >> 32) ^ c1 ^ k0, next2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c0 = next0, c1 = (uint32_t)b, c2 = next2, c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

double kt__rng_uniform(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw) {
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), choice, draw};
    uint32_t bits[4];
    kt__philox4x32(counter, key, bits);
    uint64_t wide = (uint64_t)bits[1] << 32 | bits[0];
    return (double)(wide >> 11) * 0x1p-53;
}

kt_status kt__rng_seed(uint64_t *seed, kt_error *err) {
    uint32_t bits;
    ssize_t got;
    do {
        got = getrandom(&bits, sizeof bits, 0);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof bits) {
        return kt__fail(err, KT_E_IO, "no random seed from the system (%s); give one",
                        strerror(errno));
    }
    *seed = bits;
    return KT_OK;
}
