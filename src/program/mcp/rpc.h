/* JSON-RPC 2.0: one message, read and written.
 *
 * Owns: what a message is (request, notification, response), its parts, the codes of errors, and
 * the words around results. Knows no method and no transport. Any thread. */
#ifndef KT_MCP_RPC_H
#define KT_MCP_RPC_H

#include <jansson.h>
#include <kentang.h>

#include "base/buf.h"

/* Of JSON-RPC, and of MCP next to them. */
enum {
    KT__RPC_PARSE = -32700,
    KT__RPC_INVALID = -32600, /* no request */
    KT__RPC_NO_METHOD = -32601,
    KT__RPC_PARAMS = -32602,
    KT__RPC_INTERNAL = -32603,
    KT__RPC_HEADER_MISMATCH = -32020,
    KT__RPC_VERSION = -32022 /* data: {supported, requested} */
};

typedef enum kt__rpc_kind { KT__RPC_REQUEST, KT__RPC_NOTIFICATION, KT__RPC_RESPONSE } kt__rpc_kind;

/* Pointers are into the JSON that was read, and live as long. */
typedef struct kt__rpc_message {
    kt__rpc_kind kind;
    const json_t *id;     /* text or whole number; NULL of a notification */
    const char *method;   /* of a request or notification */
    const json_t *params; /* an object, or NULL */
    const json_t *result; /* of a response: one of the two */
    const json_t *error;
} kt__rpc_message;

/* json as a message. KT_E_FORMAT: it is none; then *out has its id where one can be seen. */
kt_status KT_CHECKED kt__rpc_read(const json_t *json, kt__rpc_message *out, kt_error *err);

/* All append one message without an end of line. id: JSON text; NULL: none, for errors only.
 * result, params and data: JSON text, or NULL for none ({} of a result). */
void kt__rpc_write_result(kt__buf *out, const char *id, const char *result);
void kt__rpc_write_error(kt__buf *out, const char *id, int code, const char *message,
                         const char *data);
void kt__rpc_write_request(kt__buf *out, int64_t id, const char *method, const char *params);
void kt__rpc_write_notification(kt__buf *out, const char *method, const char *params);
/* What is before a result's JSON and after it, for results that are written in place. */
void kt__rpc_begin_result(kt__buf *out, const char *id);
void kt__rpc_end_result(kt__buf *out);
/* The code for an error before a request was understood. */
int kt__rpc_code_of(kt_status status);

/* JSON from outside, read within bounds.
 *
 * Owns: the limits on size and depth that are before jansson, and the writing of a value into a
 * buffer. Knows no message. Any thread. */

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
