/* The /commands of a conversation.
 *
 * Owns: their list and what they do to a kt__chat. One thread. */
#ifndef KT_CLI_CHAT_COMMANDS_H
#define KT_CLI_CHAT_COMMANDS_H

#include "cli/chat_turn.h"

/* Their names, "/help" and so on, at most max of them; how many. */
size_t kt__chat_command_names(const char *names[], size_t max);
/* Whether an entry is a command, known or not, and no message: a slash and letters, then a blank or
 * the end. */
bool kt__chat_is_command(const char *entry);
void kt__chat_command(kt__chat *chat, const char *entry);

#endif
