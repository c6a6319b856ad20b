/* kentang's MCP server, without an engine: a message in, its answer or a call of a tool out.
 *
 * Owns: the methods of both eras, and the words of results. Keeps no state: every message says for
 * itself which era it is of. Knows neither transports nor models. Any thread. */
#ifndef KT_MCP_SERVER_H
#define KT_MCP_SERVER_H

#include "base/alloc.h"
#include "mcp/tools.h"
#include "mcp/versions.h"

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
