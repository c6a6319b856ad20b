#include "sample/rng.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/system.h"

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

/* ---- the Mersenne Twister ---- */

enum { MT_WORDS = 624, MT_OTHER = 397 };

void kt__mt19937_init(kt__mt19937 *mt, uint32_t seed) {
    mt->seed = seed;
    mt->block = UINT64_MAX;
}

static void seed_words(kt__mt19937 *mt) {
    mt->word[0] = mt->seed;
    for (uint32_t i = 1; i < MT_WORDS; i++)
        mt->word[i] = 1812433253u * (mt->word[i - 1] ^ mt->word[i - 1] >> 30) + i;
}

/* The next 624 words, in place: each of two old ones and of one 397 further. */
static void next_words(kt__mt19937 *mt) {
    for (int i = 0; i < MT_WORDS; i++) {
        uint32_t mixed = (mt->word[i] & 0x80000000u) | (mt->word[(i + 1) % MT_WORDS] & 0x7fffffffu);
        mt->word[i] = mt->word[(i + MT_OTHER) % MT_WORDS] ^ mixed >> 1 ^
                      (mixed & 1 ? 0x9908b0dfu : 0);
    }
    mt->block++;
}

uint32_t kt__mt19937_word(kt__mt19937 *mt, uint64_t index) {
    uint64_t block = index / MT_WORDS;
    if (mt->block == UINT64_MAX || mt->block > block) {
        seed_words(mt);
        mt->block = UINT64_MAX;
    }
    while (mt->block != block) next_words(mt);
    uint32_t x = mt->word[index % MT_WORDS];
    x ^= x >> 11;
    x ^= x << 7 & 0x9d2c5680u;
    x ^= x << 15 & 0xefc60000u;
    return x ^ x >> 18;
}

double kt__mt19937_uniform(kt__mt19937 *mt, uint64_t index) {
    double low = (double)kt__mt19937_word(mt, 2 * index);
    double u = (low + (double)kt__mt19937_word(mt, 2 * index + 1) * 0x1p32) * 0x1p-64;
    return u < 1.0 ? u : 1.0 - 0x1p-53;
}

kt_status kt__rng_seed(uint64_t *seed, kt_error *err) {
    uint32_t bits;
    if (!kt__random_bytes(&bits, sizeof bits)) {
        return kt__fail(err, KT_E_IO, "no random seed from the system (%s); give one",
                        strerror(errno));
    }
    *seed = bits;
    return KT_OK;
}
