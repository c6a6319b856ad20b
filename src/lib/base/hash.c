#include "base/hash.h"

#include <string.h>

#include "base/le.h"

static uint64_t rotate_left(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

/* The output function of SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t hash_mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void kt__hash_init(kt__hash *h, uint64_t seed) {
    *h = (kt__hash){0};
    for (int i = 0; i < 8; i++)
        h->lane[i] = hash_mix(seed + 0x9e3779b97f4a7c15u * (uint64_t)(i + 1));
}

/* 64 bytes a round: eight independent chains of xor, multiplication and rotation. */
static void absorb_rounds(uint64_t lane[8], const uint8_t *p, size_t n_round) {
    uint64_t v[8];
    memcpy(v, lane, sizeof v);
    for (; n_round; n_round--, p += 64) {
        for (int i = 0; i < 8; i++)
            v[i] = rotate_left((v[i] ^ kt__le_get64(p + 8 * i)) * 0x9fb21c651e98df25u, 32);
    }
    memcpy(lane, v, sizeof v);
}

void kt__hash_add(kt__hash *h, const void *data, size_t n) {
    const uint8_t *p = data;
    h->n_bytes += n;
    if (h->n_tail) {
        size_t take = n < 64 - h->n_tail ? n : 64 - h->n_tail;
        if (take) memcpy(h->tail + h->n_tail, p, take);
        h->n_tail += take;
        p += take;
        n -= take;
        if (h->n_tail < 64) return;
        absorb_rounds(h->lane, h->tail, 1);
        h->n_tail = 0;
    }
    absorb_rounds(h->lane, p, n / 64);
    if (n % 64) memcpy(h->tail, p + n / 64 * 64, n % 64);
    h->n_tail = n % 64;
}

kt__digest kt__hash_end(const kt__hash *h) {
    uint64_t v[8];
    uint8_t last[64] = {0};
    memcpy(v, h->lane, sizeof v);
    memcpy(last, h->tail, h->n_tail);
    absorb_rounds(v, last, 1);
    v[0] ^= h->n_bytes;
    /* each step changes one word by another: nothing is lost, and after three passes every bit of
     * the result depends on every bit of every lane */
    for (unsigned i = 0; i < 24; i++) v[i % 8] ^= hash_mix(v[(i + 7) % 8] + i);
    return (kt__digest){{v[0], v[1], v[2], v[3]}};
}

kt__digest kt__hash_bytes(uint64_t seed, const void *data, size_t n) {
    kt__hash h;
    kt__hash_init(&h, seed);
    kt__hash_add(&h, data, n);
    return kt__hash_end(&h);
}

void kt__digest_bytes(kt__digest digest, uint8_t out[32]) {
    for (int i = 0; i < 4; i++) kt__le_put(out + 8 * i, digest.w[i], 8);
}

/* ---- siphash ---- */

typedef struct sip_state {
    uint64_t v0, v1, v2, v3;
} sip_state;

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
