/* The tools of kentang's MCP server.
 *
 * Owns: names, descriptions and schemas, the check of arguments against them, and the request that a
 * call of a tool is. Knows no engine. Any thread. */
#ifndef KT_MCP_TOOLS_H
#define KT_MCP_TOOLS_H

#include <jansson.h>
#include <kentang.h>

#include "base/buf.h"

typedef enum kt__mcp_does {
    KT__MCP_GENERATES,
    KT__MCP_EXTRACTS,
    KT__MCP_EMBEDS,
    KT__MCP_COUNTS,
    KT__MCP_LISTS
} kt__mcp_does;

typedef struct kt__mcp_tool {
    kt__mcp_does does;
    const char *name, *title, *description;
    const char *input, *output; /* schemas: JSON text */
} kt__mcp_tool;

enum { KT__MCP_DEFAULT_TOKENS = 512 }; /* of an answer, where max_tokens is absent */

/* NULL: no tool has this name. */
const kt__mcp_tool *kt__mcp_tool_find(const char *name);
/* "tools":[...] */
void kt__mcp_tools_write(kt__buf *out);
/* Names, presence and types, as the tool's input schema has them. KT_E_ARG names the argument. */
kt_status KT_CHECKED kt__mcp_tool_check(const kt__mcp_tool *tool, const json_t *args,
                                        kt_error *err);
/* The body of a chat completion (KT__MCP_GENERATES and EXTRACTS) that a call asks for; for
 * json_decref. args were checked. The schema of EXTRACTS is not in it but in what it says: who asks the
 * engine holds the answer to it. NULL: no memory. */
json_t *kt__mcp_tool_request(const kt__mcp_tool *tool, const json_t *args);

#endif
