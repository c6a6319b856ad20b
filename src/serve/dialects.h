/* The ways in which requests and answers are written: a constant each.
 *
 * Owns: nothing; each lives in its dialect_NAME.c, and is called as job.h says. */
#ifndef KT_SERVE_DIALECTS_H
#define KT_SERVE_DIALECTS_H

#include "serve/job.h"

extern const kt__dialect kt__dialect_chat;       /* OpenAI's /v1/chat/completions */
extern const kt__dialect kt__dialect_completion; /* OpenAI's /v1/completions */
extern const kt__dialect kt__dialect_embeddings; /* OpenAI's /v1/embeddings */
extern const kt__dialect kt__dialect_native;     /* lines on the socket */
extern const kt__dialect kt__dialect_messages;   /* Anthropic's /v1/messages */
extern const kt__dialect kt__dialect_ollama_chat, kt__dialect_ollama_generate,
    kt__dialect_ollama_embed;
/* At once: */
extern const kt__dialect kt__dialect_count_tokens; /* Anthropic's */
extern const kt__dialect kt__dialect_tokenize, kt__dialect_detokenize, kt__dialect_template;
extern const kt__dialect kt__dialect_line_tokenize, kt__dialect_line_detokenize;

/* Whole answers from what was gathered, in out. */
void kt__dialect_no_begin(kt__job *job);
/* An OpenAI error body. */
void kt__dialect_error_body(kt__job *job, const kt_error *err);
/* Anthropic's and Ollama's. */
void kt__messages_error_body(kt__buf *out, int status, const char *message);
void kt__ollama_error_body(kt__buf *out, const char *message);
/* A model by the name that Ollama's clients use: "demo:latest" is "demo", where no model is named
 * so. */
kt_status KT_CHECKED kt__ollama_find(kt__models *models, const char *name, kt__served **out,
                                     kt_error *err);
/* Such a name in job->json becomes the model's own. */
kt_status KT_CHECKED kt__ollama_rename(kt__job *job, kt_error *err);

#endif
