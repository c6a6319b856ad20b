/* Texts of tools: their names for a model, and their results.
 *
 * Owns: the mapping of names, and the form of a result that is text. Any thread. */
#ifndef KT_AGENT_TOOL_TEXT_H
#define KT_AGENT_TOOL_TEXT_H

#include <jansson.h>

#include "base/buf.h"

enum { KT__AGENT_NAME = 64 };

/* "server__tool", or the tool's own name where server is NULL. */
void kt__agent_make_name(const char *server, const char *tool, char out[KT__AGENT_NAME + 1]);
/* A result's content; what is no text is described. false: the server says that the call failed. */
bool kt__agent_result_text(const json_t *result, kt__buf *text);
/* Leaves out the middle of what is longer than max. */
void kt__agent_cut_middle(kt__buf *text, size_t max);

#endif
