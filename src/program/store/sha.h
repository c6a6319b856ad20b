/* SHA-256 and SHA-1, by which hubs name what they hold.
 *
 * Owns: both functions (FIPS 180-4) and their text form. SHA-1 only names a small file as git does;
 * nothing trusts it against an attacker. Any thread; one state, one thread. */
#ifndef KT_STORE_SHA_H
#define KT_STORE_SHA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kt__sha {
    bool is_sha1;
    uint32_t h[8];
    uint64_t n_bytes;
    uint8_t block[64];
} kt__sha;

enum { KT__SHA_HEX = 65 }; /* of the longer one, with its NUL */

void kt__sha256_begin(kt__sha *sha);
/* As git names a file of n_bytes: over "blob N", a NUL and the bytes. */
void kt__sha1_begin_blob(kt__sha *sha, uint64_t n_bytes);
void kt__sha_add(kt__sha *sha, const void *data, size_t n);
/* In small letters; the state is used up. */
void kt__sha_end(kt__sha *sha, char hex[KT__SHA_HEX]);

#endif
