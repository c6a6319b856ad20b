/* The way to a server: messages there and back.
 *
 * Owns: the interface, and the two ways: lines over a process (link.c) and HTTP
 * (link.c). Knows no method. One user at a time. */
#ifndef KT_MCP_LINK_H
#define KT_MCP_LINK_H

#include <jansson.h>

#include "base/buf.h"
#include "mcp/servers.h"

enum { KT__MCP_MAX_MESSAGE = 16 << 20, KT__MCP_MAX_DEPTH = 64 };

/* the thread that waits may want to stop; asked a few times a second. */
typedef bool kt__mcp_stop_fn(void *user);

typedef struct kt__mcp_wait {
    int64_t until_us;      /* kt__now_us */
    kt__mcp_stop_fn *stop; /* or NULL */
    void *user;
} kt__mcp_wait;

/* A message on its way out. HTTP tells parts of it in the head. */
typedef struct kt__mcp_post {
    const char *json;
    size_t len;
    const char *method, *name; /* of requests; NULL: none */
    const char *version;       /* of the protocol; NULL: not agreed on */
    const json_t *args;        /* of a call, and the schema that may name arguments for the head */
    const json_t *schema;
    bool wants_answer;
} kt__mcp_post;

typedef struct kt__mcp_link kt__mcp_link;
struct kt__mcp_link {
    kt_status (*send)(kt__mcp_link *link, const kt__mcp_post *post, const kt__mcp_wait *wait,
                      kt_error *err);
    /* KT_E_FORMAT: what came is no message, and was dropped: the next may be. KT_E_DEADLINE,
     * KT_E_CANCELLED: none came; KT_E_IO: none will come. *out: for json_decref. */
    kt_status (*receive)(kt__mcp_link *link, const kt__mcp_wait *wait, json_t **out, kt_error *err);
    /* What a server wrote elsewhere lately, for errors; "" */
    const char *(*aside)(kt__mcp_link *link);
    void (*close)(kt__mcp_link *link); /* frees it */
};

/* Starts the process. */
kt_status KT_CHECKED kt__mcp_link_lines(const kt__mcp_server_config *config, kt__mcp_link **out,
                                        kt_error *err);
kt_status KT_CHECKED kt__mcp_link_http(const kt__mcp_server_config *config, kt__mcp_link **out,
                                       kt_error *err);

/* Arguments of a call that the head of its HTTP request tells as well (x-mcp-header).
 *
 * Owns: which members of a schema say so, whether they may, and the headers of a call. Any thread. */

/* Whether all such members of a tool's input schema keep the rules; a tool that breaks them is not to be
 * used over HTTP. */
bool kt__mcp_params_are_sound(const json_t *schema);
/* A line "Mcp-Param-NAME: value" for each argument that has one. false: no memory. */
bool kt__mcp_param_headers(const json_t *schema, const json_t *args, kt__buf *lines);

#endif
