/* An agent: a model that answers a task with the help of tools.
 *
 * Owns: the conversation, the order of asking, allowing, calling and telling, and its limits; one answer of the model
 * (turn.c); the transcript (transcript.c). Knows neither terminals nor options. One thread. */
#ifndef KT_AGENT_LOOP_H
#define KT_AGENT_LOOP_H

#include "agent/toolbox.h"

#include <jansson.h>
#include <kentang.h>
#include <stdio.h>

/* What an agent did, a line of JSON each: written as it happens, and played again.
 *
 * The file and the form of its lines: {"ms", "event", ...}. A transcript that is played gives the tools and the
 * results of the calls in their order, so that no server is needed. One thread. */

typedef struct kt__transcript {
    FILE *out; /* or NULL */
    int64_t begin_us;
    json_t *recorded; /* events that are played, or NULL */
    size_t at;        /* after the last result that was given */
} kt__transcript;

/* path: where to write, or NULL; replay: what to play, or NULL. KT_E_IO, KT_E_FORMAT. */
kt_status KT_CHECKED kt__transcript_open(const char *path, const char *replay, kt__transcript *out,
                                         kt_error *err);
void kt__transcript_close(kt__transcript *transcript);
/* Writes an event; fields is given up. */
void kt__transcript_add(kt__transcript *transcript, const char *event, json_t *fields);
/* The tools that were there when it was recorded; NULL: none are recorded. */
const json_t *kt__transcript_tools(const kt__transcript *transcript);
/* The result of the next recorded call, if it is one of this tool with these arguments; NULL: it is
 * not. */
const json_t *kt__transcript_next(kt__transcript *transcript, const char *tool, const json_t *args);

/* One answer of the model: a text for the user, or calls of tools.
 *
 * How a request for an answer is made of the conversation and the tools, and what came back: text, reasoning and
 * calls, apart, and the message that they become. The model's own format of calls is the library's matter. One
 * thread. */

typedef struct kt__turn_call {
    char *id, *name;
    kt__buf text; /* of its arguments, as it was written */
    json_t *args; /* NULL: the text is no JSON object */
} kt__turn_call;

typedef struct kt__turn {
    kt__buf text;      /* for the user; besides calls: what the model says of them */
    kt__buf reasoning; /* what it thought */
    kt__turn_call *calls;
    size_t n_calls, cap_calls;
    kt__buf notes; /* what of the tools' schemas is not enforced, a line each */
    kt_request_report report;
} kt__turn;

typedef struct kt__turn_opts {
    kt_engine *engine;
    kt_seq *seq;             /* or NULL; what it holds of the conversation is kept */
    kt_request_params asked; /* what every request has: the defaults, and the user's options */
    kt_gen_params gen;
    bool answers;  /* no call: it has to come to an end */
    bool one_call; /* at most one */
} kt__turn_opts;

/* The system message, after what the user has set (or NULL); a heap string for kt__free. NULL: no
 * memory. */
char *kt__turn_system(const char *system);
/* messages as OpenAI's interface has them. KT_E_CANCELLED; KT_E_CONTEXT_FULL: the conversation does
 * not fit; KT_E_LIMIT: the answer was cut off. */
kt_status KT_CHECKED kt__turn_take(const kt__turn_opts *opts, const json_t *messages,
                                   const kt__toolbox *box, kt__turn *out, kt_error *err);
void kt__turn_free(kt__turn *turn);
/* What the model said as a message of the conversation, and a call's result. NULL: no memory. */
json_t *kt__turn_message(const kt__turn *turn);
json_t *kt__turn_result_message(const kt__turn_call *call, const char *text, bool good);

typedef enum kt__approval {
    KT__APPROVED,        /* this once, with *args, which may have been changed */
    KT__APPROVED_ALWAYS, /* this tool from now on */
    KT__REFUSED
} kt__approval;

typedef struct kt__agent_limits {
    int32_t rounds;  /* answers of the model to one task */
    int32_t calls;   /* of tools, to one task */
    int64_t time_ms; /* of one task; 0: none */
    bool one_call;   /* an answer calls one tool at most */
} kt__agent_limits;

typedef struct kt__agent_hooks {
    /* NULL: whatever is not allowed is refused */
    kt__approval (*approve)(void *user, const kt__agent_tool *tool, json_t **args);
    kt__agent_note_fn *note; /* what happens, a line each; or NULL */
    kt__mcp_stop_fn *stop;   /* the user wants an end; or NULL */
    void *user;
} kt__agent_hooks;

typedef struct kt__agent kt__agent;

/* All that is passed must outlive it. system: or NULL. */
kt_status KT_CHECKED kt__agent_create(const kt__turn_opts *turn, kt__toolbox *box,
                                      kt__transcript *transcript, const kt__agent_limits *limits,
                                      const kt__agent_hooks *hooks, const char *system,
                                      kt__agent **out, kt_error *err);
void kt__agent_free(kt__agent *agent);
/* Works on a task, which continues the conversation so far, until the model answers: *answer, a heap
 * string for kt__free. KT_E_LIMIT: a limit was reached, even by the answer that was asked for then;
 * KT_E_CANCELLED; KT_E_STATE: a transcript is played and goes another way. */
kt_status KT_CHECKED kt__agent_run(kt__agent *agent, const char *task, char **answer,
                                   kt_error *err);
/* Calls so far. */
int32_t kt__agent_n_calls(const kt__agent *agent);

#endif
