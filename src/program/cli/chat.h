/* The conversation in a terminal.
 *
 * Owns: reading entries, with term/line_editor.h on a terminal and else by lines, and what they are:
 * a command (cli/chat_commands.h) or a message (cli/chat_turn.h). One thread. */
#ifndef KT_CLI_CHAT_H
#define KT_CLI_CHAT_H

#include "cli/chat_turn.h"

/* Talks until /quit or the end of input. Returns the exit code; figures has the sums. */
int kt__chat_run(kt__session *session, const kt__chat_setup *setup, kt__figures *figures);

#endif
