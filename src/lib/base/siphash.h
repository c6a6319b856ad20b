/* SipHash (Aumasson and Bernstein 2012): 2-4 with 128 bits of output, and 1-3 with 64.
 *
 * Owns: a hash of bytes under a secret key: without the key, a value can neither be predicted nor
 * aimed at. For fingerprints without a key there is base/hash.h, which is faster. Any thread. */
#ifndef KT_BASE_SIPHASH_H
#define KT_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

void kt__siphash128(const uint64_t key[2], const void *data, size_t n, uint64_t out[2]);
/* SipHash-1-3, for tables in memory: of short keys a fraction of the time. */
uint64_t kt__siphash_quick(const uint64_t key[2], const void *data, size_t n);

#endif
