/* One model made ready to answer: context, model, engine and sequence behind one set of options,
 * the plan and figures lines, and Ctrl-C.
 *
 * Owns: opening and closing in the right order, presets, and the process's SIGINT handler while a
 * session is open (at most one). One thread; the handler only raises a flag and cancels. */
#ifndef KT_SETUP_SESSION_H
#define KT_SETUP_SESSION_H

#include <kentang.h>

#include "setup/kv_opts.h"
#include "setup/lora_opts.h"
#include "setup/model_opts.h"

typedef struct kt__session_opts {
    kt__model_opts model;
    int preset;                       /* 0: none, 1: potato, 2: extreme */
    int32_t n_ctx, n_batch, n_ubatch; /* 0: the preset's or the default */
    int32_t n_threads, n_threads_batch;
    kt__kv_opts kv;
    bool no_tuned;
    bool many;               /* set by a command that submits requests: no sequence is opened */
    int32_t n_parallel;      /* with it: answers computed together; 0: chosen */
    const char *draft_model; /* NULL: none */
    int32_t n_draft;         /* -1: chosen, 0: no speculation */
    kt__lora_opts lora;      /* of commands that have its group; the command frees it */
} kt__session_opts;

typedef struct kt__session {
    kt_ctx *ctx;
    kt_model *model;
    kt_model *draft; /* or NULL */
    kt_engine *engine;
    kt_seq *seq;       /* NULL with many; with the adapters */
    kt__lora_set lora; /* for requests without it */
    kt_model_info info;
    kt_engine_info engine_info;
    kt_learner *learner; /* the command's; NULL: it does not learn */
    bool reproducible;   /* the same bytes on every machine: not with --blas */
    char tuned[16]; /* when what `kentang tune` found and is used here was found; "" if it is not */
    char preset[48]; /* "extreme", with what it measured, or "" */
} kt__session;

kt__session_opts kt__session_opts_default(void);
/* -c, -b, -ub, -t, -tb, --kv, -ctk, -ctv, --preset */
kt__opt_group kt__session_opts_group(kt__session_opts *opts);

/* --parallel, for commands that submit requests */
kt__opt_group kt__session_opts_many_group(const char *title, kt__session_opts *opts);

/* --draft-model, --draft-max */
kt__opt_group kt__session_opts_draft_group(kt__session_opts *opts);

/* word: a model named without -m, or NULL. On failure everything is closed. */
kt_status KT_CHECKED kt__session_open(const kt__session_opts *opts, const char *word,
                                      kt__session *out, kt_error *err);
void kt__session_close(kt__session *session);
/* "kentang: MODEL | tier | threads | context | memory" on stderr */
void kt__session_print_plan(const kt__session *session, const kt__session_opts *opts);
/* What the session's learner has for a request on its sequence: recalled, and computed with; *learned is
 * to be closed when the request is over. Nothing without a learner. */
kt_status KT_CHECKED kt__session_recall(kt__session *session, kt_request_params *request,
                                        kt_learned *learned, kt_error *err);
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
