#include "base/siphash.h"

#include "base/le.h"

typedef struct sip_state {
    uint64_t v0, v1, v2, v3;
} sip_state;

static uint64_t rotate_left(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

static void sip_rounds(sip_state *s, int n) {
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

static void sip_absorb(sip_state *s, uint64_t word) {
    s->v3 ^= word;
    sip_rounds(s, 2);
    s->v0 ^= word;
}

void kt__siphash128(const uint64_t key[2], const void *data, size_t n, uint64_t out[2]) {
    const uint8_t *p = data;
    sip_state s = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du ^ 0xee,
                   key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    size_t left = n;
    for (; left >= 8; left -= 8, p += 8) sip_absorb(&s, kt__le_get64(p));
    sip_absorb(&s, (uint64_t)n << 56 | kt__le_get(p, (int)left));
    s.v2 ^= 0xee;
    sip_rounds(&s, 4);
    out[0] = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    s.v1 ^= 0xdd;
    sip_rounds(&s, 4);
    out[1] = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
