/* Arguments of a call that the head of its HTTP request tells as well (x-mcp-header).
 *
 * Owns: which members of a schema say so, whether they may, and the headers of a call. Any thread. */
#ifndef KT_MCP_PARAM_HEADERS_H
#define KT_MCP_PARAM_HEADERS_H

#include <jansson.h>

#include "base/buf.h"

/* Whether all such members of a tool's input schema keep the rules; a tool that breaks them is not to be
 * used over HTTP. */
bool kt__mcp_params_are_sound(const json_t *schema);
/* A line "Mcp-Param-NAME: value" for each argument that has one. false: no memory. */
bool kt__mcp_param_headers(const json_t *schema, const json_t *args, kt__buf *lines);

#endif
