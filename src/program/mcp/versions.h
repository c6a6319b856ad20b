/* The two eras of the protocol, and which one a message belongs to.
 *
 * Owns: versions and their names, the members of _meta, and the rules by which head and body of an
 * HTTP request must agree. "Legacy" is what begins with initialize (2025-11-25 and before), "modern"
 * what says its version in every request (2026-07-28). Any thread. */
#ifndef KT_MCP_VERSIONS_H
#define KT_MCP_VERSIONS_H

#include "mcp/rpc.h"

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
