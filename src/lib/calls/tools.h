/* The list of tools that a request brings.
 *
 * Owns: reading it (as OpenAI's, Responses' and Anthropic's interfaces write it), the rules for
 * names, each tool's parameters, and which tools may or must be called. Immutable once read: any
 * thread. */
#ifndef KT_CALLS_TOOLS_H
#define KT_CALLS_TOOLS_H

#include <kentang.h>

#include "base/buf.h"

enum { KT__TOOLS_MAX = 256, KT__TOOL_NAME_MAX = 128 };

typedef struct kt__tools kt__tools;

/* json[len]: an array of {"type":"function","function":{name, description, parameters, strict}}, of
 * {"type":"function", name, ...} or of {name, input_schema}. KT_E_FORMAT, KT_E_UNSUPPORTED (a type
 * that is no function), KT_E_LIMIT; err->where is the place as a JSON pointer within the list. */
kt_status KT_CHECKED kt__tools_read(const char *json, size_t len, kt__tools **out, kt_error *err);
void kt__tools_free(kt__tools *tools);            /* NULL is allowed */
uint32_t kt__tools_count(const kt__tools *tools); /* NULL: 0 */
const char *kt__tools_name(const kt__tools *tools, uint32_t i);
/* Its index, or UINT32_MAX. */
uint32_t kt__tools_find(const kt__tools *tools, const char *name, size_t len);

typedef enum kt__tool_mode {
    KT__TOOL_AUTO,    /* as the model likes */
    KT__TOOL_NONE,    /* no call */
    KT__TOOL_REQUIRED /* at least one */
} kt__tool_mode;

/* tool_choice: which tools may be called. */
typedef struct kt__tool_choice {
    kt__tool_mode mode;
    bool limited;                         /* allowed counts */
    uint64_t allowed[KT__TOOLS_MAX / 64]; /* bit i: tool i */
} kt__tool_choice;

/* json[len] (0: auto): "auto", "none", "required", "any", a name, {"type":"function","function":
 * {"name"}}, {"type":"function","name"}, {"type":"tool","name"}, {"type":"auto" | "any" | "none"},
 * {"type":"allowed_tools", "mode", "tools"} with or without "allowed_tools" around the last two.
 * KT_E_ARG with what is known instead. */
kt_status KT_CHECKED kt__tool_choice_read(const kt__tools *tools, const char *json, size_t len,
                                          kt__tool_choice *out, kt_error *err);
bool kt__tool_allowed(const kt__tool_choice *choice, uint32_t i);

#endif
