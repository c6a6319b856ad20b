/* Fields of the headers that caches and sessions write to files.
 *
 * Owns: the comparison of digests and of hashes that may be unknown. Numbers are base/le.h's. Any
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

bool kt__field_has_digest(const uint8_t in[32], kt__digest digest);

#endif
