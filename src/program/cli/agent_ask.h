/* The question whether a tool may be called.
 *
 * Owns: what is shown of the call, and what can be answered. Standard input and error; one thread. */
#ifndef KT_CLI_AGENT_ASK_H
#define KT_CLI_AGENT_ASK_H

#include "agent/loop.h"

/* *args may be replaced by what the user typed. No answer is a refusal. */
kt__approval kt__agent_ask(const kt__agent_tool *tool, json_t **args);

#endif
