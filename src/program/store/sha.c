#include "store/fetch.h"

#include <stdio.h>
#include <string.h>

static const uint32_t sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn_right(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static uint32_t big_endian32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void mix_sha256(uint32_t h[8], const uint8_t *block) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++) w[i] = big_endian32(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn_right(a, 7) ^ turn_right(a, 18) ^ a >> 3) + w[i - 7] +
               (turn_right(b, 17) ^ turn_right(b, 19) ^ b >> 10);
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t t1 = s[7] + (turn_right(e, 6) ^ turn_right(e, 11) ^ turn_right(e, 25)) +
                      ((e & s[5]) ^ (~e & s[6])) + sha256_k[i] + w[i];
        uint32_t t2 = (turn_right(a, 2) ^ turn_right(a, 13) ^ turn_right(a, 22)) +
                      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
}

static void mix_sha1(uint32_t h[8], const uint8_t *block) {
    static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], s[5];
    for (int i = 0; i < 16; i++) w[i] = big_endian32(block + 4 * i);
    for (int i = 16; i < 80; i++)
        w[i] = turn_right(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 31);
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 80; i++) {
        uint32_t b = s[1], c = s[2], d = s[3];
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t t = turn_right(s[0], 27) + f + s[4] + k[i / 20] + w[i];
        memmove(s + 1, s, 4 * sizeof *s);
        s[2] = turn_right(s[2], 2);
        s[0] = t;
    }
    for (int i = 0; i < 5; i++) h[i] += s[i];
}

static void mix_block(kt__sha *sha, const uint8_t *block) {
    if (sha->is_sha1)
        mix_sha1(sha->h, block);
    else
        mix_sha256(sha->h, block);
}

void kt__sha256_begin(kt__sha *sha) {
    *sha = (kt__sha){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                           0x1f83d9ab, 0x5be0cd19}};
}

void kt__sha1_begin_blob(kt__sha *sha, uint64_t n_bytes) {
    char head[32];
    *sha = (kt__sha){.is_sha1 = true,
                     .h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
    int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)n_bytes);
    kt__sha_add(sha, head, (size_t)n + 1);
}

void kt__sha_add(kt__sha *sha, const void *data, size_t n) {
    const uint8_t *p = data;
    size_t held = sha->n_bytes % 64;
    sha->n_bytes += n;
    if (held) {
        size_t take = n < 64 - held ? n : 64 - held;
        memcpy(sha->block + held, p, take);
        p += take;
        n -= take;
        if (held + take < 64) return;
        mix_block(sha, sha->block);
    }
    for (; n >= 64; p += 64, n -= 64) mix_block(sha, p);
    memcpy(sha->block, p, n);
}

void kt__sha_end(kt__sha *sha, char hex[KT__SHA_HEX]) {
    static const uint8_t padding[64] = {0x80};
    uint64_t n_bits = sha->n_bytes * 8;
    uint8_t length[8];
    size_t held = sha->n_bytes % 64;
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(n_bits >> (56 - 8 * i));
    kt__sha_add(sha, padding, held < 56 ? 56 - held : 120 - held);
    kt__sha_add(sha, length, sizeof length);
    for (int i = 0; i < (sha->is_sha1 ? 5 : 8); i++) snprintf(hex + 8 * i, 9, "%08x", sha->h[i]);
}
