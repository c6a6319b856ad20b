/* The list of tools as the room's files see it.
 *
 * Owns: each tool's node of the list's JSON, and what a parameter's schema allows. Read-only. */
#ifndef KT_CALLS_TOOLS_IMPL_H
#define KT_CALLS_TOOLS_IMPL_H

#include "base/alloc.h"
#include "base/json.h"
#include "calls/calls.h"

typedef struct kt__tool {
    const char *name; /* NUL-terminated */
    size_t name_len;
    const kt__json_node *description; /* or NULL */
    kt__json_node *parameters;        /* a schema, or NULL: an object of no members */
    bool strict;
} kt__tool;

struct kt__tools {
    kt__arena arena;
    kt__tool *items;
    uint32_t n;
    char *json;
    size_t json_len;
};

/* Bits of kt__json_type (numbers, strings, ...) that a value of the tool's parameter may have. All where
 * the schema says nothing. */
uint32_t kt__tool_param_types(const kt__tools *tools, uint32_t tool, const char *key, size_t len);
/* The same of any schema below `root`, which "#/..." refers to. */
uint32_t kt__schema_types(const kt__json_node *root, const kt__json_node *schema);
/* The schema of a member of an object's schema, references followed; NULL: none. */
const kt__json_node *kt__schema_member(const kt__json_node *root, const kt__json_node *schema,
                                       const char *key, size_t len);
const kt__json_node *kt__schema_resolve(const kt__json_node *root, const kt__json_node *schema);
enum { KT__TYPES_ALL = 0x7f, KT__TYPES_STRING = 1 << KT__JSON_STRING };

/* Whether some tool has a parameter of this name, or takes any. */
bool kt__tools_have_param(const kt__tools *tools, const char *key, size_t len);
/* Whether json[len], a JSON value, is arguments by the tool's schema; any object where the schema
 * cannot be read. */
bool kt__tool_takes(const kt__tools *tools, uint32_t tool, const char *json, size_t len);

/* The node as JSON text. */
void kt__jnode_write(kt__buf *out, const kt__json_node *node);

#endif
