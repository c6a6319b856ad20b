/* The way to a server: its process or URL, messages there and back, and a host's side of the protocol.
 *
 * Owns: the two ways, lines over a process and HTTP (link.c); how a process is started and ended (child.c); and what
 * a host and a server agree on (client.c). One user at a time. */
#ifndef KT_MCP_LINK_H
#define KT_MCP_LINK_H

#include "base/buf.h"
#include "mcp/servers.h"

#include <jansson.h>

/* Messages; knows no method. */

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

/* A server's process.
 *
 * How it is started (no shell, a clean environment, a group of its own, limits, no new privileges, Landlock) and how
 * it is ended, with all that it started in its group. Knows no message. One user at a time. */

typedef struct kt__child {
    int pid;           /* 0: none runs */
    int to, from, err; /* its standard input, output and error; do not block; -1: closed */
} kt__child;

/* KT_E_IO: it cannot be started, with the command in `where`. */
kt_status KT_CHECKED kt__child_start(const kt__mcp_server_config *config, kt__child *out,
                                     kt_error *err);
/* Closes its input, waits, asks the group to end, waits, kills it. At most some five seconds. */
void kt__child_stop(kt__child *child);
/* Whether it has ended by itself. */
bool kt__child_has_ended(kt__child *child);

/* Landlock: a process that gives up all but some folders, and the network.
 *
 * Owns: the rules made from a sandbox's lists, before a fork, and their enforcement after it. Where
 * the kernel has none, asking for it is an error: nothing runs that was meant to be held. */

/* A descriptor of the rules for kt__landlock_enter; close it. What programs need to start (/usr,
 * /lib, /bin, /etc, /proc, some of /dev) may be read, cwd, too (NULL: none). KT_E_UNSUPPORTED: the
 * kernel has no Landlock, or none that can hold the network; KT_E_IO: a folder of the lists is not
 * there. */
kt_status KT_CHECKED kt__landlock_rules(const kt__mcp_sandbox *sandbox, const char *cwd, int *fd,
                                        kt_error *err);
/* Async-signal-safe; false with errno. For the calling thread, and all that it starts, for ever. */
bool kt__landlock_enter(int fd);

/* A host's side of one server: agreed on a version, its tools listed, calls answered.
 *
 * The link, the era, the ids, and which answer belongs to which request: others are dropped. Answers what servers ask
 * of hosts with a refusal, but ping. One user at a time. */

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
