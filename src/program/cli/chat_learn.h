/* What a user says of an answer in a conversation: /good, /bad, /fix TEXT.
 *
 * Owns: making a feedback of the conversation's last exchange, and what is recalled in the next
 * answers. One thread. */
#ifndef KT_CLI_CHAT_LEARN_H
#define KT_CLI_CHAT_LEARN_H

#include "cli/chat_turn.h"

/* correction NULL: a score. Shows what came of it. */
void kt__chat_tell(kt__chat *chat, float score, const char *correction);

#endif
