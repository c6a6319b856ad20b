/* The ways in which requests and answers are written: a constant each.
 *
 * Owns: nothing; each lives in its dialect_NAME.c, and is called as job.h says. What they share is
 * in dialect.c. */
#ifndef KT_DIALECTS_DIALECTS_H
#define KT_DIALECTS_DIALECTS_H

#include "jobs/job.h"

extern const kt__dialect kt__dialect_chat;       /* OpenAI's /v1/chat/completions */
extern const kt__dialect kt__dialect_completion; /* OpenAI's /v1/completions */
extern const kt__dialect kt__dialect_fim;        /* Mistral's /v1/fim/completions */
extern const kt__dialect kt__dialect_llama;      /* llama-server's /completion */
extern const kt__dialect kt__dialect_infill;     /* its /infill */
extern const kt__dialect kt__dialect_embedding;  /* its /embedding */
extern const kt__dialect kt__dialect_responses;  /* OpenAI's /v1/responses */
extern const kt__dialect kt__dialect_embeddings; /* OpenAI's /v1/embeddings */
extern const kt__dialect kt__dialect_rerank;     /* Cohere's and Jina's /v1/rerank */
extern const kt__dialect kt__dialect_native;     /* lines on the socket */
extern const kt__dialect kt__dialect_messages;   /* Anthropic's /v1/messages */
extern const kt__dialect kt__dialect_ollama_chat, kt__dialect_ollama_generate,
    kt__dialect_ollama_embed, kt__dialect_ollama_embeddings;
/* Of the folder of models: dialect_ollama_store.c */
extern const kt__dialect kt__dialect_ollama_pull, kt__dialect_ollama_create,
    kt__dialect_ollama_copy, kt__dialect_ollama_delete, kt__dialect_ollama_push;
extern const kt__dialect kt__dialect_ollama_show;
/* At once: */
extern const kt__dialect kt__dialect_count_tokens; /* Anthropic's */
/* How long a prompt a conversation is, of OpenAI's interfaces */
extern const kt__dialect kt__dialect_chat_count, kt__dialect_responses_count;
extern const kt__dialect kt__dialect_tokenize, kt__dialect_detokenize, kt__dialect_template,
    kt__dialect_tokenizer_info;
extern const kt__dialect kt__dialect_line_tokenize, kt__dialect_line_detokenize;

/* Of models: dialect_models.c */
extern const kt__dialect kt__dialect_routes, kt__dialect_set_routes;
extern const kt__dialect kt__dialect_scales, kt__dialect_set_scales, kt__dialect_search;
extern const kt__dialect kt__dialect_load, kt__dialect_unload, kt__dialect_pull,
    kt__dialect_pull_stop;

/* Anthropic's bodies: dialect_messages_read.c */
kt_status KT_CHECKED kt__messages_read(kt__job *job, kt_error *err);
kt_status KT_CHECKED kt__messages_count(kt__job *job, kt_error *err);

/* llama-server's /slots/N: dialect_slots.c. id: what follows /slots/; action: of the query, or NULL; both outlive the job. */
extern const kt__dialect kt__dialect_slots;
kt_status KT_CHECKED kt__dialect_slots_begin(kt__job *job, const char *id, const char *action,
                                             kt_error *err);

/* Errors as whole bodies. */
kt__error_body_fn kt__openai_error_body, kt__messages_error_body, kt__ollama_error_body;

/* ---- dialect.c ---- */

/* Writes {"object": OBJECT, "input_tokens": N}: the length of the prompt that was read, which may be
 * more than the context. object: NULL: none. */
kt_status KT_CHECKED kt__dialect_write_count(kt__job *job, const char *object, kt_error *err);

enum { KT__PIECE_BYTES = 1024 };
/* The bytes of a token, *len of them within text; a control token's name. */
const char *kt__dialect_piece(const kt_model *model, int32_t id, char text[KT__PIECE_BYTES],
                              size_t *len);
/* The text of ids[n] with the names of control tokens, *len bytes of it; for kt__free. NULL: none, or no memory */
char *kt__dialect_tokens_text(const kt_model *model, const int32_t *ids, size_t n, size_t *len);
/* A dialect's `error` where nothing is streamed: what was written so far is not part of it. */
void kt__dialect_whole_error(kt__job *job, const kt_error *err);
/* A token of an event with its text and alternatives; in the job's arena. NULL: no logprobs. */
const kt__wire_token *kt__dialect_token(kt__job *job, const kt_event *event);
/* The same of a token and its n_top alternatives, as far as there are so many; NULL: no memory. */
kt__wire_token *kt__dialect_logprobs(kt__job *job, const kt_logprob *own, const kt_logprob *top,
                                     size_t n_top);
/* Adds a part to what the choice said. */
void kt__dialect_gather_part(kt__job *job, int32_t choice, const kt_part *part);
/* json[len] if it is a JSON object, on one line; else {}. */
void kt__dialect_write_object(kt__buf *out, const char *json, size_t len);
/* Adds a token's log probabilities to its choice. */
void kt__dialect_gather_token(kt__job *job, const kt_event *event);
/* Both, of a token with all its parts. */
void kt__dialect_gather(kt__job *job, const kt_event *event);
/* ,"kentang":{"notes":[...],"adapter":{...}} where there is something to say */
void kt__dialect_write_notes(kt__job *job);
/* The same with "timings" in it, of a report; NULL: without. */
void kt__dialect_write_own(kt__job *job, const kt_request_report *report);

/* How a request is answered, in the words of llama-server's generation_settings; for json_decref. model: whose ends of a
 * turn it may forbid, or NULL. */
struct json_t *kt__llama_settings(const kt_request_params *request, const kt_model *model,
                                  bool stream);

/* [1, 2, "text", 7]: one prompt of ids and texts, which are encoded where they are; an array of ids, for json_decref. key: the
 * field, for errors. The model must be in use. */
kt_status KT_CHECKED kt__dialect_mixed_ids(kt__job *job, const char *key, const struct json_t *list,
                                           struct json_t **out, kt_error *err);
bool kt__dialect_is_mixed(const struct json_t *v);

/* "__verbose", which llama-server adds to a chat's answer on request: keeps for it, on the worker, what the request became,
 * as job->extra; and writes the member, for a choice that ended. */
kt_status KT_CHECKED kt__llama_keep_verbose(kt__job *job, kt_error *err);
void kt__llama_write_verbose(kt__job *job, const kt_request_report *report, const kt__buf *text);

/* dialect_ollama_show.c: "details":{...}, of an architecture that is not known ""; ,"KEY":"2026-01-31T..." */
void kt__ollama_write_details(kt__buf *out, const char *arch, const char *quant, uint64_t n_params);
void kt__ollama_write_date(kt__buf *out, const char *key, int64_t unix_s);

/* Such a name in request.json as Ollama's clients use becomes the model's own. */
kt_status KT_CHECKED kt__ollama_rename(kt__job *job, kt_error *err);

#endif
