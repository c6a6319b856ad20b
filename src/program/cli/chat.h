/* The conversation in a terminal.
 *
 * Owns: its messages and the file of them (messages.c), its turns (chat_turn.c), its /commands (chat_commands.c), and
 * reading entries, with term/line_editor.h on a terminal and else by lines (chat.c). One thread. */
#ifndef KT_CLI_CHAT_H
#define KT_CLI_CHAT_H

#include "setup/answer_opts.h"
#include "setup/session.h"
#include "term/line_editor.h"
#include "term/screen.h"
#include "term/terminal.h"

#include <kentang.h>

/* The messages, and the file that /save writes and /load reads: texts on the heap; roles are constants. The file is a
 * JSON array of {"role": "system" | "user" | "assistant" | "tool", "content": TEXT}, or an object with such an array
 * at "messages". */

typedef struct kt__messages {
    kt_message *items;
    size_t n, cap;
} kt__messages;

void kt__messages_free(kt__messages *m);
kt_status KT_CHECKED kt__messages_add(kt__messages *m, const char *role, const char *content,
                                      kt_error *err);
/* Drops all from the n-th on. */
void kt__messages_cut(kt__messages *m, size_t n);
/* 1 where the first one is a system message, else 0. */
size_t kt__messages_n_system(const kt__messages *m);
/* Sets, replaces or, where text is NULL, removes the system message. */
kt_status KT_CHECKED kt__messages_set_system(kt__messages *m, const char *text, kt_error *err);
/* Drops the oldest question with all that was said up to the next; the system message stays. false:
 * there is only one question. */
bool kt__messages_drop_oldest(kt__messages *m);

kt_status KT_CHECKED kt__messages_save(const kt__messages *m, const char *path, kt_error *err);
/* Replaces all messages; on failure they are as before. */
kt_status KT_CHECKED kt__messages_load(kt__messages *m, const char *path, kt_error *err);
/* The same from text[len]; where is named in errors. */
kt_status KT_CHECKED kt__messages_parse(kt__messages *m, const char *text, size_t len,
                                        const char *where, kt_error *err);

/* A conversation and its turns: what it consists of, asking the model, and what happens when the context is full.
 * Knows neither entries nor commands, which use it. */

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

/* The /commands: their list and what they do to a kt__chat. */

/* Their names, "/help" and so on, at most max of them; how many. */
size_t kt__chat_command_names(const char *names[], size_t max);
/* Whether an entry is a command, known or not, and no message: a slash and letters, then a blank or
 * the end. */
bool kt__chat_is_command(const char *entry);
void kt__chat_command(kt__chat *chat, const char *entry);

/* Talks until /quit or the end of input. Returns the exit code; figures has the sums. */
int kt__chat_run(kt__session *session, const kt__chat_setup *setup, kt__figures *figures);

#endif
