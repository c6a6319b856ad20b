/* A conversation and its turns.
 *
 * Owns: what a conversation consists of, asking the model, and what happens when the context is
 * full. Knows neither entries (cli/chat.h) nor commands (cli/chat_commands.h), which use it. One
 * thread. */
#ifndef KT_CLI_CHAT_TURN_H
#define KT_CLI_CHAT_TURN_H

#include "cli/messages.h"
#include "setup/answer_opts.h"
#include "setup/session.h"
#include "term/line_editor.h"
#include "term/progress.h"
#include "term/screen.h"

typedef struct kt__chat_setup {
    const char *system;          /* or NULL */
    const char *first;           /* a first message, or NULL */
    kt__sampling_opts *sampling; /* for every answer; /set changes it */
    bool plain;                  /* no Markdown */
    bool quiet;                  /* no greeting, no line about the context */
    kt__thoughts thoughts;       /* whether they are shown */
} kt__chat_setup;

typedef struct kt__chat {
    kt__session *session;
    const kt__chat_setup *setup;
    kt__messages messages;
    kt__buf attached; /* what /read took, for the next message */
    kt__buf answer;   /* the one being generated */
    kt__screen screen;
    kt__progress progress;
    kt__figures *figures;
    uint64_t n_regenerated;
    kt__line_editor *editor; /* NULL: standard input is no terminal */
    bool quit;
    int code;
} kt__chat;

/* Adds the user's message and answers it; shows what went wrong. */
void kt__chat_send(kt__chat *chat, const char *text);
/* Another answer to the last question. */
void kt__chat_answer_again(kt__chat *chat);
/* Shows an error; those that end a conversation set its exit code. */
void kt__chat_show_error(kt__chat *chat, const kt_error *err);

#endif
