/* kentang's MCP server, without an engine: a message in, its answer or a call of a tool out.
 *
 * Owns: the methods of both eras, and the words of results; the tools that it offers (tools.c). Keeps no state: every
 * message says for itself which era it is of. Knows neither transports nor models. Any thread. */
#ifndef KT_MCP_SERVER_H
#define KT_MCP_SERVER_H

#include "base/alloc.h"
#include "base/buf.h"
#include "mcp/rpc.h"

#include <jansson.h>
#include <kentang.h>

/* The tools: names, descriptions and schemas, the check of arguments against them, and the request that a call of a
 * tool is. */

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

typedef enum kt__mcp_step {
    KT__MCP_ANSWERED, /* what is to be said is written; nothing, where nothing is to be said */
    KT__MCP_CANCEL,   /* the call of request `cancel` is to be ended; nothing is said */
    KT__MCP_CALL      /* `tool` is to be called with `args` */
} kt__mcp_step;

/* Texts are in the arena; tool and args as long as the message lives. */
typedef struct kt__mcp_turn {
    kt__mcp_step step;
    bool modern;
    bool begins_session;  /* an initialize that was answered */
    int http_status;      /* of ANSWERED */
    const char *id;       /* JSON text; NULL: none */
    const char *progress; /* the token for progress, as JSON text; NULL: none is wanted */
    const char *cancel;   /* an id as JSON text */
    const kt__mcp_tool *tool;
    const json_t *args;
} kt__mcp_turn;

/* head: NULL where there is none (lines). Answers go to out, without an end of line. */
kt_status KT_CHECKED kt__mcp_take(const json_t *message, const kt__mcp_head *head, kt__arena *arena,
                                  kt__buf *out, kt__mcp_turn *turn, kt_error *err);

/* A value's JSON text in the arena; NULL: no memory. */
const char *kt__mcp_text_of(kt__arena *arena, const json_t *value);

/* The answer to a call. structured: JSON text of an object. text: what is shown, NULL: structured. */
void kt__mcp_write_result(kt__buf *out, const kt__mcp_turn *turn, const char *structured,
                          const char *text);
/* A call that failed, so that a model can read why. */
void kt__mcp_write_failure(kt__buf *out, const kt__mcp_turn *turn, const char *message);
void kt__mcp_write_progress(kt__buf *out, const kt__mcp_turn *turn, int64_t done, int64_t total);

#endif
