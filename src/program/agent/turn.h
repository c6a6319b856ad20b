/* One answer of the model: a text for the user, or calls of tools.
 *
 * Owns: how a request for an answer is made of the conversation and the tools, and what came back:
 * text, reasoning and calls, apart, and the message that they become. The model's own format of
 * calls is the library's matter. One thread. */
#ifndef KT_AGENT_TURN_H
#define KT_AGENT_TURN_H

#include "agent/toolbox.h"

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

#endif
