/* JSON from outside, read within bounds.
 *
 * Owns: the limits on size and depth that are before jansson, and the writing of a value into a
 * buffer. Knows no message. Any thread. */
#ifndef KT_MCP_JSON_READ_H
#define KT_MCP_JSON_READ_H

#include <jansson.h>
#include <kentang.h>

#include "base/buf.h"

typedef struct kt__json_limits {
    size_t bytes, depth; /* of the text; of nested arrays and objects */
} kt__json_limits;

/* json[len], not NUL-terminated; a byte-order mark before it is skipped, half a surrogate pair is
 * U+FFFD. KT_E_FORMAT with the byte offset where it is not JSON, or has U+0000 or a number beyond
 * 64 bits, KT_E_LIMIT where it is too long or nests too deep. *out: for json_decref. */
kt_status KT_CHECKED kt__json_read(const char *json, size_t len, const kt__json_limits *limits,
                                   json_t **out, kt_error *err);
/* Any value, compact, members in their order; false: no memory or over the buffer's cap. */
bool kt__json_write(kt__buf *out, const json_t *value);

#endif
