/* One answer of the model: a text for the user, or a call of a tool.
 *
 * Owns: how a model is told of its tools, how its answer is held to the tools' schemas, and how a call is
 * read out of it. Works with every model: tools and calls stand in the messages themselves, as JSON. One
 * thread. */
#ifndef KT_AGENT_TURN_H
#define KT_AGENT_TURN_H

#include "agent/toolbox.h"

typedef struct kt__turn {
    kt__buf text;  /* for the user; empty where it is a call */
    char tool[65]; /* "" where it is none */
    json_t *args;  /* of a call */
    kt__buf said;  /* all that the model wrote */
    kt_request_report report;
} kt__turn;

typedef struct kt__turn_opts {
    kt_engine *engine;
    kt_seq *seq; /* or NULL; what it holds of the conversation is kept */
    kt_gen_params gen;
    bool answers; /* no call: it has to come to an end */
} kt__turn_opts;

/* The system message that presents the tools, behind what the user has set (or NULL); a heap string for
 * kt__free. NULL: no memory. */
char *kt__turn_system(const kt__toolbox *box, const char *system);
/* messages: [{"role", "content"}]. *relaxed: names of tools whose schema could not be enforced and was
 * not, joined by ", ". KT_E_CANCELLED; KT_E_CONTEXT_FULL: the conversation does not fit. */
kt_status KT_CHECKED kt__turn_take(const kt__turn_opts *opts, const json_t *messages,
                                   const kt__toolbox *box, kt__turn *out, kt__buf *relaxed,
                                   kt_error *err);
void kt__turn_free(kt__turn *turn);
/* A result as the message that goes back to the model. NULL: no memory. */
json_t *kt__turn_result_message(const char *tool, const char *text, bool good);

#endif
