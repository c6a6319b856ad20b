/* One model made ready to answer for a command: a place with its sequence and adapters, and the plan and
 * figures lines.
 *
 * Owns: opening and closing in the right order. One thread. */
#ifndef KT_SETUP_SESSION_H
#define KT_SETUP_SESSION_H

#include <kentang.h>

#include "setup/command_model.h"
#include "setup/learn_config.h"
#include "setup/place.h"
#include "setup/setting_opts.h"

/* Made of the groups of setting_opts.h over `config`, of kt__session_opts_group and kt__lora_opts_group. */
typedef struct kt__session_opts {
    kt__config *config;
    bool many;    /* set by a command that submits requests: no sequence is opened */
    bool verbose; /* -v: the plan with all that was decided */
    const char *template_kwargs, *effort; /* of the chat template; NULL: not given */
    int32_t budget;                       /* tokens of thinking; with has_budget */
    bool has_budget;
    kt__lora_opts lora; /* of commands that have its group, which free it */
} kt__session_opts;

typedef struct kt__session {
    kt__place place; /* owns the four below and the disk cache */
    kt_ctx *ctx;
    kt_model *model;
    kt_model *draft; /* or NULL */
    kt_engine *engine;
    kt_seq *seq;       /* NULL with many; with the adapters */
    kt__lora_set lora; /* for requests without it */
    kt_model_info info;
    kt_engine_info engine_info;
    kt_learner *learner;  /* the command's; NULL: it does not learn */
    kt__notes_mode notes; /* what becomes of what was corrected */
    char *template_vars;  /* what the options say of the chat template; or NULL */
    int32_t budget;       /* kt_request_params.reasoning_budget */
    bool shift_context;
    bool reproducible; /* the same bytes on every machine: not with --blas */
} kt__session;

kt__opt_group kt__session_opts_group(kt__session_opts *opts); /* -v, and of the chat template */
/* On failure everything is closed. */
kt_status KT_CHECKED kt__session_open(const kt__session_opts *opts, kt__session *out,
                                      kt_error *err);
void kt__session_close(kt__session *session);
/* The defaults of requests, with what the session's options say of each; valid until it is closed. */
kt_request_params kt__session_request(const kt__session *session);
/* On stderr, where something went wrong with the disk cache. */
void kt__session_warn_of_cache(const kt__session *session);
/* A line on stderr: model, size, context and, unless 0, the speed to expect; with opts->verbose tier,
 * threads, batches and memory, too. */
void kt__session_print_plan(const kt__session *session, const kt__session_opts *opts, double tok_s);
/* Tokens a second that one answer may expect: a step is timed after one that warms the weights up. 0:
 * there is no memory for it. */
double kt__session_tok_s(const kt__session *session);
/* What the session's learner has for a request on its sequence: recalled, and computed with; *learned is
 * to be closed when the request is over. Nothing without a learner. */
kt_status KT_CHECKED kt__session_recall(kt__session *session, kt_request_params *request,
                                        kt_learned *learned, kt_error *err);
/* "(learned: fb_3)" on stderr, where notes were in an answer's prompt. */
void kt__session_tell_notes(const kt_request_report *report);
/* A line on stderr where the context is longer than the model was trained for. */
void kt__session_warn(const kt__session *session, const kt__session_opts *opts);

/* Sums over the answers of a session. */
typedef struct kt__figures {
    kt_request_report last; /* finish, seed and times of the last answer */
    int64_t n_prompt, n_generated;
    int64_t n_drafted, n_accepted; /* tokens proposed, and right */
    double prefill_ms, decode_ms;
    int64_t n_prefilled, n_decoded; /* tokens that the times belong to */
    double first_token_ms;          /* of the first answer */
    int n_answers;
} kt__figures;

void kt__figures_add(kt__figures *figures, const kt_request_report *report);
double kt__figures_prefill_tok_s(const kt__figures *figures); /* 0: nothing was computed */
double kt__figures_decode_tok_s(const kt__figures *figures);
void kt__figures_print(const kt__figures *figures); /* one line on stderr */
/* Peak resident set and its anonymous part now, in bytes; 0: unknown. */
void kt__memory_used(uint64_t *peak_bytes, uint64_t *anon_bytes);

#endif
