/* JSON-RPC 2.0: one message, read and written; and the two eras of the Model Context Protocol.
 *
 * Owns: what a message is (request, notification, response), its parts, the codes of errors, and the words around
 * results; which era a message belongs to. Knows no method and no transport. Any thread. */
#ifndef KT_MCP_RPC_H
#define KT_MCP_RPC_H

#include "base/buf.h"

#include <jansson.h>
#include <kentang.h>

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

/* Versions and their names, the members of _meta, and the rules by which head and body of an HTTP request must agree.
 * "Legacy" is what begins with initialize (2025-11-25 and before), "modern" what says its version in every request
 * (2026-07-28). */

#define KT__MCP_MODERN "2026-07-28"
#define KT__MCP_LEGACY "2025-11-25"
#define KT__MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define KT__MCP_META_CLIENT "io.modelcontextprotocol/clientInfo"
#define KT__MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define KT__MCP_META_SERVER "io.modelcontextprotocol/serverInfo"
#define KT__MCP_META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

/* What the head of an HTTP request says; members that are absent are NULL. */
typedef struct kt__mcp_head {
    const char *version; /* MCP-Protocol-Version */
    const char *method;  /* Mcp-Method */
    const char *name;    /* Mcp-Name */
    const char *session; /* Mcp-Session-Id */
    bool takes_stream;   /* Accept has text/event-stream */
} kt__mcp_head;

typedef struct kt__mcp_era {
    bool modern;
    int error; /* an error's code; 0: none */
    char message[200];
    const char *requested; /* KT__RPC_VERSION: the version that was asked for, else NULL */
} kt__mcp_era;

/* A version that begins with initialize and is spoken here; NULL: it is none. */
const char *kt__mcp_legacy_version(const char *version);
/* The era of a request, and whether it keeps the era's rules. head: NULL on other transports. */
kt__mcp_era kt__mcp_era_of(const kt__rpc_message *message, const kt__mcp_head *head);
/* All versions, as JSON: an array. */
const char *kt__mcp_versions_json(void);

/* text as the value of a header: as it is, or =?base64?...?=. false: no memory. */
bool kt__mcp_header_encode(const char *text, kt__buf *out);
/* Whether a header's value says text. */
bool kt__mcp_header_says(const char *value, const char *text);

#endif
