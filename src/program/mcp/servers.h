/* The file that names MCP servers: {"mcpServers": {"NAME": {...}}}, as other hosts have it.
 *
 * Owns: the reading of it. A server is a command (stdio) or a url (HTTP); besides the members that
 * others have there are kentang's own: allow, ask, deny, timeout_s, sandbox, limits, private. Made
 * by one thread, constant afterwards. */
#ifndef KT_MCP_SERVERS_H
#define KT_MCP_SERVERS_H

#include <jansson.h>
#include <kentang.h>

#include "base/alloc.h"
#include "base/buf.h"

/* NULL-terminated. */
typedef const char *const *kt__mcp_texts;

typedef struct kt__mcp_sandbox {
    bool on;
    bool net;                  /* TCP connections are allowed */
    kt__mcp_texts read, write; /* folders and files */
} kt__mcp_sandbox;

typedef struct kt__mcp_server_config {
    const char *name;
    kt__mcp_texts argv;             /* NULL: an HTTP server */
    kt__mcp_texts env;              /* "NAME=VALUE", besides the clean ones */
    const char *cwd;                /* or NULL */
    const char *url;                /* NULL: a command */
    kt__mcp_texts headers;          /* "Name: value" */
    kt__mcp_texts allow, ask, deny; /* patterns of its tools' names */
    kt__mcp_sandbox sandbox;
    int64_t timeout_ms;       /* of a call */
    int64_t mem_bytes, cpu_s; /* 0: no limit */
    bool private_net;         /* addresses that are not public are allowed */
} kt__mcp_server_config;

typedef struct kt__mcp_servers {
    kt__mcp_server_config *items;
    size_t n;
    kt__arena arena;
} kt__mcp_servers;

/* json[len]: the file's text. notes: a line for each member that means nothing here. KT_E_FORMAT,
 * KT_E_ARG, with the path in the file. */
kt_status KT_CHECKED kt__mcp_servers_read(const char *json, size_t len, kt__mcp_servers *out,
                                          kt__buf *notes, kt_error *err);
void kt__mcp_servers_free(kt__mcp_servers *servers);

/* What servers said of their tools when they were first used.
 *
 * Owns: a file, ~/.local/state/kentang/mcp-pins.json, with the tools of each server as they were shown;
 * and the comparison. A description is read by a model as if the user had written it, so one that
 * changes later is a way in: such tools are refused until the user takes them anew. One thread. */

typedef struct kt__mcp_pins {
    json_t *servers; /* {NAME: {"from": "...", "tools": {NAME: tool}}} */
    char path[4096];
    bool changed; /* since it was read */
} kt__mcp_pins;

/* path NULL: the usual file. None there: no pins. KT_E_IO, KT_E_FORMAT: it cannot be read. */
kt_status KT_CHECKED kt__mcp_pins_open(const char *path, kt__mcp_pins *out, kt_error *err);
/* Frees it; nothing is written. */
void kt__mcp_pins_close(kt__mcp_pins *pins);
/* Writes what is new; the file is its owner's alone. */
kt_status KT_CHECKED kt__mcp_pins_save(kt__mcp_pins *pins, kt_error *err);

/* Whether the server was seen before, from the same command or address. */
bool kt__mcp_pins_knows(const kt__mcp_pins *pins, const kt__mcp_server_config *server);
/* Pins all of tools, an array, in place of what was pinned. false: no memory. */
bool kt__mcp_pins_take(kt__mcp_pins *pins, const kt__mcp_server_config *server,
                       const json_t *tools);
/* Whether a tool is as it was pinned. */
bool kt__mcp_pins_holds(const kt__mcp_pins *pins, const kt__mcp_server_config *server,
                        const json_t *tool);

#endif
