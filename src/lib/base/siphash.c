#include "base/siphash.h"

#include "base/le.h"

typedef struct sip_state {
    uint64_t v0, v1, v2, v3;
} sip_state;

static uint64_t rotate_left(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

static inline void sip_rounds(sip_state *s, int n) {
    while (n-- > 0) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotate_left(s->v1, 13) ^ s->v0;
        s->v3 = rotate_left(s->v3, 16) ^ s->v2;
        s->v0 = rotate_left(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = rotate_left(s->v1, 17) ^ s->v2;
        s->v3 = rotate_left(s->v3, 21) ^ s->v0;
        s->v2 = rotate_left(s->v2, 32);
    }
}

static inline void sip_absorb(sip_state *s, uint64_t word, int n_round) {
    s->v3 ^= word;
    sip_rounds(s, n_round);
    s->v0 ^= word;
}

/* All of data, and its length in the last word. */
static inline void sip_absorb_all(sip_state *s, const uint8_t *p, size_t n, int n_round) {
    size_t left = n;
    for (; left >= 8; left -= 8, p += 8) sip_absorb(s, kt__le_get64(p), n_round);
    sip_absorb(s, (uint64_t)n << 56 | kt__le_get(p, (int)left), n_round);
}

static sip_state sip_begin(const uint64_t key[2]) {
    return (sip_state){key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                       key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
}

static uint64_t sip_sum(const sip_state *s) {
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

void kt__siphash128(const uint64_t key[2], const void *data, size_t n, uint64_t out[2]) {
    sip_state s = sip_begin(key);
    s.v1 ^= 0xee;
    sip_absorb_all(&s, data, n, 2);
    s.v2 ^= 0xee;
    sip_rounds(&s, 4);
    out[0] = sip_sum(&s);
    s.v1 ^= 0xdd;
    sip_rounds(&s, 4);
    out[1] = sip_sum(&s);
}

uint64_t kt__siphash_quick(const uint64_t key[2], const void *data, size_t n) {
    sip_state s = sip_begin(key);
    sip_absorb_all(&s, data, n, 1);
    s.v2 ^= 0xff;
    sip_rounds(&s, 3);
    return sip_sum(&s);
}
