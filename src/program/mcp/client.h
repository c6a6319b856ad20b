/* A host's side of one server: agreed on a version, its tools listed, calls answered.
 *
 * Owns: the link, the era, the ids, and which answer belongs to which request: others are dropped. Answers
 * what servers ask of hosts with a refusal, but ping. One user at a time. */
#ifndef KT_MCP_CLIENT_H
#define KT_MCP_CLIENT_H

#include "mcp/link.h"

typedef struct kt__mcp_client kt__mcp_client;

enum { KT__MCP_MAX_TOOLS = 512 };

/* Starts or reaches the server, and agrees on a version: KT_E_IO, KT_E_DEADLINE, KT_E_CANCELLED;
 * KT_E_UNSUPPORTED: none in common. config must outlive it. */
kt_status KT_CHECKED kt__mcp_client_open(const kt__mcp_server_config *config, kt__mcp_stop_fn *stop,
                                         void *user, kt__mcp_client **out, kt_error *err);
void kt__mcp_client_close(kt__mcp_client *client); /* NULL is allowed */
/* All its tools, of all pages: an array, for json_decref. Elements without a text "name" and an object
 * "inputSchema" are left out. */
kt_status KT_CHECKED kt__mcp_client_tools(kt__mcp_client *client, json_t **tools, kt_error *err);
/* The list may have changed since it was read: the server said so, or the time that it gave is over. */
bool kt__mcp_client_is_stale(const kt__mcp_client *client);
/* Calls a tool of the list; *result is its result object, for json_decref. KT_E_ARG: the server refused
 * the request (its words in the error); KT_E_FORMAT: what came is no result; KT_E_DEADLINE,
 * KT_E_CANCELLED: the server is told; KT_E_IO: it has ended, and no further call will succeed. */
kt_status KT_CHECKED kt__mcp_client_call(kt__mcp_client *client, const char *tool,
                                         const json_t *schema, const json_t *args, json_t **result,
                                         kt_error *err);

#endif
