/* An agent: a model that answers a task with the help of tools.
 *
 * Owns: the conversation, the order of asking, allowing, calling and telling, and its limits. Knows
 * neither terminals nor options. One thread. */
#ifndef KT_AGENT_LOOP_H
#define KT_AGENT_LOOP_H

#include "agent/transcript.h"
#include "agent/turn.h"

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
