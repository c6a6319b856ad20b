/* What servers said of their tools when they were first used.
 *
 * Owns: a file, ~/.local/state/kentang/mcp-pins.json, with the tools of each server as they were shown;
 * and the comparison. A description is read by a model as if the user had written it, so one that
 * changes later is a way in: such tools are refused until the user takes them anew. One thread. */
#ifndef KT_MCP_PINS_H
#define KT_MCP_PINS_H

#include <jansson.h>

#include "mcp/servers.h"

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
