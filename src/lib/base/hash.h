/* A fast 256-bit hash: fingerprints, content addresses, checksums.
 *
 * Owns: one function of bytes, the same on every machine. Eight lanes take eight bytes each a
 * round, and a lane's step is a bijection of both its state and its input, so that a change within
 * one word always shows; the lanes are mixed at the end. It does not withstand an attacker who
 * looks for collisions: a person who can write one of our files can write its checksum too. Any
 * thread. */
#ifndef KT_BASE_HASH_H
#define KT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct kt__digest {
    uint64_t w[4];
} kt__digest;

typedef struct kt__hash {
    uint64_t lane[8];
    uint64_t n_bytes;
    size_t n_tail;
    uint8_t tail[64];
} kt__hash;

/* seed: what the bytes are, so that equal bytes in two roles differ. */
void kt__hash_init(kt__hash *hash, uint64_t seed);
void kt__hash_add(kt__hash *hash, const void *data, size_t n);
/* The digest of what was added so far; more may be added afterwards. */
kt__digest kt__hash_end(const kt__hash *hash);

kt__digest kt__hash_bytes(uint64_t seed, const void *data, size_t n);

/* The digest as bytes, in the order that files have them. */
void kt__digest_bytes(kt__digest digest, uint8_t out[32]);

/* SipHash (Aumasson and Bernstein 2012): 2-4 with 128 bits of output, and 1-3 with 64.
 *
 * Owns: a hash of bytes under a secret key: without the key, a value can neither be predicted nor
 * aimed at. For fingerprints without a key there is base/hash.h, which is faster. Any thread. */

void kt__siphash128(const uint64_t key[2], const void *data, size_t n, uint64_t out[2]);
/* SipHash-1-3, for tables in memory: of short keys a fraction of the time. */
uint64_t kt__siphash_quick(const uint64_t key[2], const void *data, size_t n);

#endif
