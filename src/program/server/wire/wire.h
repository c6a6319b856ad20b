/* JSON on the wire: requests in, answers out.
 *
 * Owns: the one place where the JSON of a request becomes numbers, strings and messages that the
 * engine takes (kt__wire_request), and where answers, pieces of answers and errors become JSON.
 * HTTP, the Unix socket and `kentang batch` all come here. Knows no socket, no route, no header and
 * no engine. Functions keep no state; a request belongs to one thread at a time.
 *
 * Unknown fields are ignored, null means absent, a known field of the wrong type
 * or range is KT_E_ARG, one that asks for what kentang does not do is KT_E_UNSUPPORTED; kt_error's
 * `where` is the JSON path ("messages[2].content[0].type"). */
#ifndef KT_WIRE_WIRE_H
#define KT_WIRE_WIRE_H

#include <kentang.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "setup/adapters.h"

struct json_t; /* jansson's json_t */

/* ---- requests ---- */

typedef enum kt__wire_form {
    KT__WIRE_CHAT,   /* OpenAI's body of /v1/chat/completions */
    KT__WIRE_TEXT,   /* OpenAI's body of /v1/completions */
    KT__WIRE_NATIVE, /* kentang's own, and llama.cpp's /completion: "prompt" or "messages" */
    KT__WIRE_SYSTEM  /* as CHAT, with "system" next to "messages": Anthropic's and Ollama's */
} kt__wire_form;

enum {
    KT__WIRE_MAX_BYTES = 64 << 20, /* of a body */
    KT__WIRE_MAX_DEPTH = 64,       /* of nested arrays and objects */
    KT__WIRE_MAX_MESSAGES = 65536,
    KT__WIRE_MAX_PROMPTS = 2048,
    KT__WIRE_MAX_STOPS = 256
};

/* A text or, where that is NULL, token ids; or a conversation, as in kt_request_params. */
typedef struct kt__wire_prompt {
    const char *text;
    size_t len;
    const int32_t *ids;
    size_t n_ids;
    const kt_message *messages;
    size_t n_messages;
    const char *chat_json;
    size_t chat_json_len;
    unsigned chat_flags;
    int32_t pair_from; /* kt_request_params.pair_from */
} kt__wire_prompt;

/* Where a picture is in the body, and the place and the text of the error that the model sees none. */
typedef struct kt__wire_picture {
    const char *at, *any_at, *any;
} kt__wire_picture;

/* A request, with everything it points to in its own arena. */
typedef struct kt__wire_request {
    kt__wire_form form;
    /* For kt_engine_submit. The prompt is `messages`, `chat_json` (where messages have more than a
     * text), `text` (no NUL within, control tokens written in it count) or `ids` (not checked
     * against a vocabulary), exactly one of the four. client, cache_scope, on_event and user are
     * the caller's to set. */
    kt_request_params req;
    /* OpenAI's completions may have several prompts, chats several conversations, each with
     * n_choices answers; req has the first. Who answers one only has to refuse where n_prompts is
     * not 1. */
    const kt__wire_prompt *prompts; /* [n_prompts], or NULL: the prompt in req */
    size_t n_prompts;
    bool stream, include_usage;
    /* llama-server's: a stream tells how far the prompt is; its chunks have timings; answers say what was made of
     * the request, in __verbose */
    bool return_progress, timings_per_token, verbose;
    bool
        prefill; /* the defaults' KT_CHAT_CONTINUE: a last message of the assistant's is continued */
    int32_t n_best; /* best_of: of the n_choices answers to a prompt, so many are told; 0: all */
    bool hide_logprobs; /* they are for best_of alone */
    bool echo;          /* the prompt is the beginning of the answer; whole answers only */
    bool
        older_calls; /* tools came as OpenAI's older "functions": the answer's call is a "function_call" */
    int32_t id_slot;     /* llama-server's slot that the prompt is remembered in; -1: any */
    const char *form_at; /* the field that holds the answer to a form, or NULL */
    /* Adapters by name; not given: the configuration's. */
    const kt__adapter_named *adapters; /* [n_adapters] */
    size_t n_adapters;
    bool adapters_given;
    bool version_given;               /* "adapter" is a number: */
    int64_t learned_version;          /* of what the client has taught */
    kt__wire_picture *picture_places; /* [n_pictures] of req.pictures */
    kt_picture *picture_files;
    size_t n_pictures, cap_pictures;
    const char *notes;        /* what of the body was left aside, a line each; or NULL */
    const char *id;           /* "id" of a native body, or NULL */
    const char *model, *user; /* or NULL */
    kt__arena arena;
} kt__wire_request;

/* Pictures of a request that are not in its body, and who looks at those that tools return. */
typedef struct kt__wire_eyes {
    bool sees;          /* the model: pictures that tools return go to it */
    const char *folder; /* file:// URLs below it are read; NULL or "": none */
    bool fetch;         /* http and https URLs are fetched, */
    bool private_net;   /* from addresses that are not public as well */
} kt__wire_eyes;

/* json[len], not NUL-terminated. defaults: what holds for absent fields; NULL:
 * kt_request_params_default. What it points to must outlive the request. Only the shape is checked
 * here; the sampler checks the ranges of its numbers again, the engine the token ids. */
kt_status KT_CHECKED kt__wire_read(kt__wire_form form, const char *json, size_t len,
                                   const kt_request_params *defaults, kt__wire_request **out,
                                   kt_error *err);
/* The same from a parsed object; prefix (or NULL) begins the paths in errors: "body". eyes NULL: pictures are read of
 * the body alone, and tools' are not. */
kt_status KT_CHECKED kt__wire_read_value(kt__wire_form form, const struct json_t *body,
                                         const char *prefix, const kt_request_params *defaults,
                                         const kt__wire_eyes *eyes, kt__wire_request **out,
                                         kt_error *err);
void kt__wire_request_free(kt__wire_request *request);
/* Puts prompt `index` of request into `to`. */
void kt__wire_set_prompt(const kt__wire_request *request, size_t index, kt_request_params *to);

/* Parses json[len] with the caps above. KT_E_FORMAT with the byte offset where it is not JSON,
 * KT_E_LIMIT where it is too long or nests too deep. *out: for json_decref. */
kt_status KT_CHECKED kt__wire_parse(const char *json, size_t len, struct json_t **out,
                                    kt_error *err);

/* Whether the body has that field, by this name or by another that means the same: "n_predict" for "max_tokens". */
bool kt__wire_has_field(const struct json_t *body, const char *name);

/* A body that was put into the words of a form first: its client's name for one of these fields,
 * such as "options.num_predict" for "max_tokens". Lists end with {NULL, NULL}. */
typedef struct kt__wire_name {
    const char *ours, *theirs;
} kt__wire_name;

/* An error of the reading or of the engine in the client's words: the field at fault, in `where`
 * and where the message begins with it. The first name that fits; names may be NULL. */
void kt__wire_rename_error(const kt__wire_name *names, kt_error *err);
/* The same of an error of kt_engine_submit: the place within a form, or a picture's, is one within the request. */
void kt__wire_place_error(const kt__wire_request *request, kt_error *err);

/* ---- answers: all append to `out` one line without its newline; look at out->failed once ---- */

typedef struct kt__wire_token {
    int32_t id;
    const char *text; /* the token's bytes; may be part of a character */
    size_t len;
    float logprob;
    const struct kt__wire_token *top; /* [n_top] alternatives, or NULL */
    size_t n_top;
} kt__wire_token;

/* A call of a tool; in a chunk the first piece has id and name. */
typedef struct kt__wire_call {
    int32_t index;
    const char *id, *name; /* or NULL */
    const char *arguments; /* JSON */
    size_t len;
} kt__wire_call;

typedef struct kt__wire_choice {
    int32_t index;
    const char *text; /* whole, or what is new in a chunk */
    size_t len;
    const char *reasoning; /* the same */
    size_t reasoning_len;
    const kt__wire_call *calls; /* [n_calls] */
    size_t n_calls;
    bool called;                  /* tools: the finish says so */
    kt_finish finish;             /* KT_FINISH_NONE: not over yet */
    const kt__wire_token *tokens; /* [n_tokens] with log probabilities, or NULL */
    size_t n_tokens;
} kt__wire_choice;

typedef struct kt__wire_usage {
    int64_t n_prompt, n_cached, n_generated;
    int64_t n_reasoning; /* of n_generated */
} kt__wire_usage;

typedef struct kt__wire_answer {
    kt__wire_form form;
    const char *id; /* "chatcmpl-..." */
    const char *model;
    int64_t created_s; /* Unix time */
    const kt__wire_choice *choices;
    size_t n_choices;
    const kt__wire_usage *usage;     /* or NULL */
    uint64_t seed;                   /* repeats the answer; written in native answers and as
                                    "kentang": {"seed"} in the others */
    const kt_request_report *report; /* its times; NULL: not told */
    const char *notes;   /* what is not done as asked, a line each; NULL or "": nothing */
    const char *learned; /* a member of JSON with its comma: what of it was used; or NULL */
    const char *route;   /* also: why this model answers; or NULL */
    const char *more;    /* further members of JSON, each after a comma; or NULL */
    bool older_calls;    /* as kt__wire_request has it */
    bool text_first;     /* a first delta has "" (Mistral), else null (llama-server) */
} kt__wire_answer;

void kt__wire_write_answer(kt__buf *out, const kt__wire_answer *answer);
/* A log probability as a number. JSON has no infinity: a forbidden token is far below everything, as
 * OpenAI writes it. */
void kt__wire_write_logprob(kt__buf *out, float logprob);
/* The bytes of a token's text as an array of numbers: it may end within a character. */
void kt__wire_write_token_bytes(kt__buf *out, const kt__wire_token *t);
/* [{"token", "logprob", "id", "bytes", "top_logprobs"}] of n tokens */
void kt__wire_write_logprobs(kt__buf *out, const kt__wire_token *tokens, size_t n);
/* [{"id", "type": "function", "function": {"name", "arguments"}}], each with its index in a
 * chunk */
void kt__wire_write_calls(kt__buf *out, const kt__wire_call *calls, size_t n, bool chunk);
/* One chunk of a stream; `first`: with the role (chat). A chunk without choices and with usage is
 * the usage chunk that include_usage asks for. */
void kt__wire_write_chunk(kt__buf *out, const kt__wire_answer *chunk, bool first);
/* Of an answer, after its first token; 0: fewer than two tokens were generated. */
double kt__tokens_per_second(const kt_request_report *report);
/* ,"timings":{"total_ms", ... "tokens_per_second", ...}: where the time of an answer went */
void kt__wire_write_timings(kt__buf *out, const kt_request_report *report);
/* The same with llama-server's members alone, which are all numbers. */
void kt__wire_write_llama_timings(kt__buf *out, const kt_request_report *report);
/* ,"prompt_progress":{"total","cache","processed","time_ms"} of a PROGRESS event, as llama-server has it */
void kt__wire_write_progress(kt__buf *out, const kt_event *event);
/* ["...", ...]: a text for each line; of nothing [] */
void kt__wire_write_lines(kt__buf *out, const char *lines);
/* {"error": {"message", "type", "param", "code"}} as OpenAI has it; code is e.g. "KT_E_ARG". */
void kt__wire_write_error(kt__buf *out, const kt_error *err);
/* The same with an HTTP status that the code alone does not say. */
void kt__wire_write_error_as(kt__buf *out, int http, const kt_error *err);
int kt__wire_http_status(kt_status status);           /* 400, 429, 500, 503, ... */
const char *kt__wire_finish_reason(kt_finish finish); /* "stop", "length"; NULL while it runs */
bool kt__wire_is_whole(kt_finish finish);             /* it ended, and was not cut short */

#endif
