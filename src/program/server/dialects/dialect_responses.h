/* OpenAI's /v1/responses: what its reading and its answering share.
 *
 * Owns: the layout of what a job remembers of such a request. dialect_responses.c (answers) and
 * dialect_responses_read.c (the body in the words of wire.h) alone; threads as of job.h. */
#ifndef KT_DIALECTS_DIALECT_RESPONSES_H
#define KT_DIALECTS_DIALECT_RESPONSES_H

#include "dialects/dialects.h"

/* Begins what we give as "encrypted_content", which clients send back as it is; plain text follows. */
#define KT__RESPONSES_SEALED "kt1:"

typedef struct kt__responses_asked {
    const char *echo;  /* members of the answer that repeat the request, each with a comma before */
    bool summary;      /* reasoning is wanted as a summary */
    bool encrypted;    /* and once more as "encrypted_content" */
    bool keeps;        /* the answer is kept, with: */
    const char *input; /* all that the model was given, an array of items as JSON */
    const char **custom; /* [n_custom] names of tools whose input is a text of any form */
    size_t n_custom;
    int64_t sequence;  /* of the next event */
    size_t n_logprobs; /* tokens whose log probabilities were written to the stream */
} kt__responses_asked;

/* Tools whose input is a text are functions with this one argument for the model. */
#define KT__RESPONSES_CUSTOM_ARGUMENT "input"

/* The body into request.wire, and job->extra. On a worker. */
kt_status KT_CHECKED kt__responses_read(kt__job *job, kt_error *err);

#endif
