/* Tool calls and reasoning in what a model writes.
 *
 * Owns: the list of tools that a request brings; the formats in which models call tools (formats.def, a row each) and
 * mark their reasoning (reasoning.def), which of them a chat template speaks; the parser that turns an answer's bytes
 * into events as they come; and which texts a call may be. prompt.h is the way back: calls and results into a prompt.
 * Knows no tokens and no wire. Tools and styles are immutable: any thread; a parser has one user at a time. */
#ifndef KT_CALLS_CALLS_H
#define KT_CALLS_CALLS_H

#include "base/buf.h"

#include <kentang.h>

/* The list of tools that a request brings: reading it (as OpenAI's, Responses' and Anthropic's interfaces write it),
 * the rules for names, each tool's parameters, and which tools may or must be called. Immutable once read: any
 * thread. */

enum { KT__TOOLS_MAX = 256, KT__TOOL_NAME_MAX = 128 };

typedef struct kt__tools kt__tools;

/* json[len]: an array of {"type":"function","function":{name, description, parameters, strict}}, of
 * {"type":"function", name, ...} or of {name, input_schema}. KT_E_FORMAT, KT_E_UNSUPPORTED (a type
 * that is no function), KT_E_LIMIT; err->where is the place as a JSON pointer within the list. */
kt_status KT_CHECKED kt__tools_read(const char *json, size_t len, kt__tools **out, kt_error *err);
void kt__tools_free(kt__tools *tools);            /* NULL is allowed */
uint32_t kt__tools_count(const kt__tools *tools); /* NULL: 0 */
const char *kt__tools_name(const kt__tools *tools, uint32_t i);
/* Its index, or UINT32_MAX. */
uint32_t kt__tools_find(const kt__tools *tools, const char *name, size_t len);

typedef enum kt__tool_mode {
    KT__TOOL_AUTO,    /* as the model likes */
    KT__TOOL_NONE,    /* no call */
    KT__TOOL_REQUIRED /* at least one */
} kt__tool_mode;

/* tool_choice: which tools may be called. */
typedef struct kt__tool_choice {
    kt__tool_mode mode;
    bool limited;                         /* allowed counts */
    uint64_t allowed[KT__TOOLS_MAX / 64]; /* bit i: tool i */
} kt__tool_choice;

/* json[len] (0: auto): "auto", "none", "required", "any", a name, {"type":"function","function":
 * {"name"}}, {"type":"function","name"}, {"type":"tool","name"}, {"type":"auto" | "any" | "none"},
 * {"type":"allowed_tools", "mode", "tools"} with or without "allowed_tools" around the last two.
 * KT_E_ARG with what is known instead. */
kt_status KT_CHECKED kt__tool_choice_read(const kt__tools *tools, const char *json, size_t len,
                                          kt__tool_choice *out, kt_error *err);
bool kt__tool_allowed(const kt__tool_choice *choice, uint32_t i);

/* An answer, read. */

/* How a model calls tools and marks its reasoning: rows of the two tables. */
typedef struct kt__call_format kt__call_format;
typedef struct kt__reason_format kt__reason_format;
typedef struct kt__call_style {
    const kt__call_format *calls;
    const kt__reason_format *reasoning;
    /* The template does not say how its model calls: the format is the generic one. Worth a note in
     * the answer (kt__call_style_note). */
    bool generic;
    /* What a template does not do and prompt.h does in its place, which kt__call_style_probe finds out
     * by rendering: it does not show the tools to the model, nor earlier calls, nor their results; it
     * wants arguments as a text; it does not know the role developer; it reads an earlier turn's
     * reasoning from "thinking". */
    bool tools_in_system, calls_in_content, results_in_user, args_text, no_developer, thinking;
} kt__call_style;

/* The style of a chat template, from its source. Always finds one. */
kt__call_style kt__call_style_of(const char *template_source, size_t len);
const char *kt__call_style_name(const kt__call_style *style);      /* "hermes" */
const char *kt__call_style_reasoning(const kt__call_style *style); /* "think", "none" */
/* What a user should know of it, a sentence; NULL: nothing. */
const char *kt__call_style_note(const kt__call_style *style);
/* Style by the names of its rows; false: unknown. */
bool kt__call_style_named(const char *calls, const char *reasoning, kt__call_style *out);

typedef enum kt__call_event_kind {
    KT__CALL_CONTENT,   /* text */
    KT__CALL_REASONING, /* text */
    KT__CALL_BEGIN,     /* index, id, name */
    KT__CALL_ARGS,      /* index, text: more of the arguments' JSON */
    KT__CALL_END,       /* index, complete; id where the model gave one after the arguments */
    KT__CALL_ASIDE      /* text that is for neither the user nor a tool that we know (harmony) */
} kt__call_event_kind;

/* Texts are valid during the callback. The texts of each kind put together are the same for every
 * way to cut the answer into pieces; so is their order. A call is BEGIN, ARGS..., END; its ARGS put
 * together are one JSON object ("{}" where it has none) if it is complete. Calls are numbered from 0
 * and one ends before the next begins. */
typedef struct kt__call_event {
    kt__call_event_kind kind;
    const char *text;
    size_t len;
    uint32_t index;
    const char *id, *name; /* NUL-terminated */
    bool complete; /* false: the answer ended within the call, or its arguments are no JSON */
} kt__call_event;

typedef void (*kt__call_sink)(void *ctx, const kt__call_event *event);

typedef enum kt__reason_mode {
    KT__REASON_SPLIT, /* reasoning has events of its own */
    KT__REASON_KEEP   /* it stays in the content, with its markers */
} kt__reason_mode;

typedef struct kt__call_options {
    /* NULL or empty: no calls, their text is content. Must outlive the parser. */
    const kt__tools *tools;
    /* Where the prompt left off: the text that the template wrote after the last message
     * (kt__call_prompt_tail). It decides whether reasoning has begun, or is over, already. */
    const char *prompt_tail;
    size_t prompt_tail_len;
    kt__reason_mode reasoning;
    /* parallel_tool_calls is false: what follows a call is content */
    bool one_call;
    /* Calls that are spelled otherwise than the format has them count, too (foreign.c says which). */
    bool any_spelling;
    /* The content is to be a JSON text: white space around it and a Markdown fence are left out. */
    bool json_content;
    /* Ids that the format does not have are made of this and the call's index. */
    uint64_t id_seed;
} kt__call_options;

typedef struct kt__call_parser kt__call_parser;

/* Options are copied, except for tools. */
kt_status KT_CHECKED kt__call_parser_create(const kt__call_style *style,
                                            const kt__call_options *options, kt__call_sink sink,
                                            void *ctx, kt__call_parser **out, kt_error *err);
void kt__call_parser_free(kt__call_parser *parser); /* NULL is allowed */
/* More of the answer: the text of its tokens, special ones included (as they are spelled). What
 * could still be a marker is held back. KT_E_LIMIT: more than 16 MiB would be held; KT_E_NOMEM. */
kt_status KT_CHECKED kt__call_feed(kt__call_parser *parser, const char *bytes, size_t len,
                                   kt_error *err);
/* The answer is over: what was held back comes out. */
kt_status KT_CHECKED kt__call_finish(kt__call_parser *parser, kt_error *err);
/* Calls begun so far. */
uint32_t kt__call_count(const kt__call_parser *parser);
/* Arguments of a call that is spelled in another way than the format has it. */
typedef struct kt__call_args {
    uint32_t tool;
    bool tagged;      /* each is between tags; else they are one JSON object */
    uint32_t indent;  /* blanks at the beginning of the line that they begin in */
    const char *text; /* how they begin, valid until the parser is used again */
    size_t len;
} kt__call_args;

/* Once for each such call: its tool is known, and its arguments are what comes
 * next. It may turn out to be none yet. */
bool kt__call_take_args(kt__call_parser *parser, kt__call_args *out);
/* Whether the text so far ends inside reasoning. */
bool kt__call_in_reasoning(const kt__call_parser *parser);

/* Which texts a call may be.
 *
 * The description (grammar/grammar_impl.h) of an answer's calls in the format of a style: names of the allowed tools,
 * arguments by each tool's schema, as many calls as may be. What it takes, the parser reads as calls. Any thread. */

enum { KT__CALL_TRIGGER_BYTES = 128 };

typedef struct kt__call_constraint {
    /* Source of KT__GRAMMAR_PIECES; empty: nothing is to be enforced. */
    kt__buf text;
    /* "": the text is the whole answer. Else it is what follows this; free text may be before it
     * and after the calls, and so may further ones. */
    char trigger[KT__CALL_TRIGGER_BYTES];
    kt__buf notes; /* what is not enforced, a line each */
} kt__call_constraint;

typedef struct kt__call_rules {
    const kt__tools *tools;
    kt__tool_choice choice;
    bool one_call; /* parallel_tool_calls is false */
    /* as in kt__call_options: arguments between tags are held to the tool's parameters, too */
    bool any_spelling;
    /* as in kt__call_options: whether reasoning may come, or has begun */
    const char *prompt_tail;
    size_t prompt_tail_len;
} kt__call_rules;

/* With KT__TOOL_NONE it is any text without what opens a call. A tool whose schema cannot be
 * enforced takes any object, which notes say; if it is strict: KT_E_UNSUPPORTED with the place in
 * the list of tools. Released with kt__call_constraint_free in any case. */
kt_status KT_CHECKED kt__call_constraint_make(const kt__call_style *style,
                                              const kt__call_rules *rules, kt__call_constraint *out,
                                              kt_error *err);
void kt__call_constraint_free(kt__call_constraint *constraint);

#endif
