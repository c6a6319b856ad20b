/* Fields of the headers that caches and sessions write to files.
 *
 * Owns: numbers and digests in the file's order of bytes, and hashes that may be unknown. Any
 * thread. */
#ifndef KT_KV_FIELD_H
#define KT_KV_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

/* Two hashes of one kind, of n bytes; zeros are one that is not known. Both are known and differ.
 */
bool kt__field_hashes_differ(const uint8_t *a, const uint8_t *b, size_t n);

/* Little-endian numbers. */
void kt__field_put(uint8_t *out, uint64_t x, int n_bytes);
uint64_t kt__field_get(const uint8_t *in, int n_bytes);

void kt__field_put_digest(uint8_t out[32], kt__digest digest);
bool kt__field_has_digest(const uint8_t in[32], kt__digest digest);

#endif
