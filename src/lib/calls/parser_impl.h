/* The parser of answers as its files see it.
 *
 * Owns: the parser's state. emit.c has the events, parser.c content and reasoning, head.c the beginning of a call,
 * body.c its arguments and its end, literal.c values that are no JSON, tagged.c parameters between tags, foreign.c
 * calls that are spelled in another way, harmony.c that format. Each step looks at the unread text, and reads some of
 * it or says that it needs more; what it decides must not depend on where the text was cut. One user at a time. */
#ifndef KT_CALLS_PARSER_IMPL_H
#define KT_CALLS_PARSER_IMPL_H

#include "base/buf.h"
#include "calls/format.h"
#include "calls/scan.h"
#include "calls/tools_impl.h"

#include <string.h>

/* Values as Python and the Gemma family write them, turned into JSON while they come.
 *
 * Strings in either quote (also three of them, or in the format's own), numbers, True, False and None as well as
 * JSON's words, lists, tuples, dictionaries, and the arguments of a call. Where models are known to be careless it is
 * lenient: quotes inside a string that cannot be its end, commas before an end. One user at a time. */

typedef enum kt__lit_mode {
    KT__LIT_VALUE, /* one value; ends with the text */
    KT__LIT_ARGS,  /* a=1, b="x" up to the closing parenthesis */
    KT__LIT_BODY   /* k:v, .. up to the closing brace */
} kt__lit_mode;

enum { KT__LIT_DEPTH = 64 };

typedef struct kt__literal {
    kt__lit_mode mode;
    const char *quote; /* the format's own quote, or NULL */
    uint8_t state, depth;
    bool is_key;                 /* the string that is being read is a key */
    char closers[KT__LIT_DEPTH]; /* of open containers */
    const char *delim;           /* of the string that is being read */
    bool raw;                    /* nothing is escaped in it */
} kt__literal;

void kt__literal_start(kt__literal *lit, kt__lit_mode mode, const char *quote, kt__buf *out);
/* Reads on from *at and appends JSON to out. YES: it is whole, *at is after it; MORE: as far as the
 * text goes; NO: it cannot continue at *at. */
kt__scan kt__literal_read(kt__literal *lit, const kt__span *span, size_t *at, kt__buf *out);

enum {
    KT__CALL_ID_BYTES = 192,
    KT__CALL_HEAD_BYTES = 4096,    /* of a call up to its arguments */
    KT__CALL_HELD_BYTES = 16 << 20 /* of text that waits for its end */
};

typedef enum kt__parse_state {
    KT__P_CONTENT,
    KT__P_REASONING,
    KT__P_JSON,    /* the arguments, as they are */
    KT__P_OBJECT,  /* between the members of the object that is the call */
    KT__P_PARAMS,  /* TAGGED: between parameters */
    KT__P_VALUE,   /* TAGGED: within one */
    KT__P_LITERAL, /* PYTHON, BARE */
    KT__P_CLOSE,   /* the arguments are whole */
    KT__P_BETWEEN, /* after a call */
    KT__P_HEADER,  /* harmony: before <|message|> */
    KT__P_MESSAGE, /* harmony: a message's text */
} kt__parse_state;

typedef struct kt__json_filter {
    bool begun, fenced;
    kt__buf held; /* what may be the fence or the white space at the end */
} kt__json_filter;

/* Where in a line of the answer a text is. */
typedef struct kt__line {
    uint32_t blanks; /* that it begins with */
    uint8_t ticks;   /* that follow them */
    bool mid;        /* something else has come */
    bool fenced;     /* it is within a fence of Markdown */
} kt__line;

enum { KT__FOREIGN_WRAPS = 3 };

/* What is around a call of another spelling, and must end after it. */
typedef struct kt__foreign {
    bool on, doubled, list;
    uint8_t n_wraps, wraps[KT__FOREIGN_WRAPS]; /* foreign.c's */
} kt__foreign;

struct kt__call_parser {
    kt__call_style style;
    const kt__call_format *home; /* the style's */
    const kt__call_format *f;    /* home; within a call of another spelling, what it is read as */
    kt__foreign foreign;
    kt__line line; /* where the unread text is, after its first line_at bytes */
    size_t line_at;
    /* Arguments of a call of another spelling that come next; expected_given: they were asked for. */
    bool expects, expected_given, expects_tagged;
    uint32_t expects_tool, expects_indent;
    kt__buf expected;
    const kt__reason_format *r;
    const kt__tools *tools;
    kt__call_options options;
    kt__call_sink sink;
    void *ctx;
    kt__buf text; /* unread from `at` on */
    size_t at;
    size_t scanned; /* of the unread text: nothing begins before it */
    size_t blanks;  /* at its beginning, as far as they were counted */
    size_t solid;   /* after its last character that is not blank, as far as it was scanned */
    bool ended, no_memory;
    kt__parse_state state;
    bool seen_text;  /* content that is not blank came after the last call or reasoning */
    bool cut;        /* a call or reasoning came before: blanks at the content's beginning go */
    bool reasoned;   /* reasoning that is not blank came */
    bool open_given; /* the prompt ends with what opens a call */
    bool in_section, in_list;
    uint32_t n_calls;
    kt__json_filter filter;
    /* the call under way */
    uint32_t tool;
    char id[KT__CALL_ID_BYTES];
    bool late_id; /* the id came after the arguments */
    uint32_t n_params;
    bool args_begun;
    kt__jscan json;
    kt__literal literal;
    kt__buf out; /* JSON to be sent */
    /* the parameter under way */
    kt__buf key, stop; /* stop: what ends its value */
    uint32_t types;
    bool value_begun, value_string;
    /* harmony: what the message under way is */
    kt__call_event_kind message;
};

/* The unread text. */
static inline kt__span kt__p_span(const kt__call_parser *p) {
    return (kt__span){p->text.data ? p->text.data + p->at : "", p->text.len - p->at, p->ended};
}
static inline void kt__p_consume(kt__call_parser *p, size_t n) {
    p->at += n;
    p->scanned = p->blanks = p->solid = 0;
    p->line_at = p->line_at > n ? p->line_at - n : 0;
}
static inline void kt__p_go(kt__call_parser *p, kt__parse_state state) {
    p->state = state;
    p->scanned = p->blanks = p->solid = 0;
}
/* ---- emit.c ---- */

void kt__p_content(kt__call_parser *p, const char *s, size_t n);
void kt__p_content_end(kt__call_parser *p); /* what was held back of JSON */
void kt__p_send(kt__call_parser *p, kt__call_event_kind kind, const char *s, size_t n);
/* p->out goes as arguments and is empty then. */
void kt__p_send_args(kt__call_parser *p);
void kt__p_begin_tool(kt__call_parser *p, uint32_t tool, const char *id, size_t id_len);
void kt__p_end_call(kt__call_parser *p, bool complete);
/* The state after a call, or after all: content, or a header. */
void kt__p_resume(kt__call_parser *p);

/* ---- head.c ---- */

typedef struct kt__call_head {
    size_t used;
    uint32_t tool;
    const char *id;
    size_t id_len;
    size_t args_from, args_to; /* arguments that came before the name */
    kt__parse_state next;
    bool section, list; /* the call is in one */
    bool tagged;        /* the format's start_tag came */
    size_t marked;      /* after the first whole marker; 0: there is none */
    bool opened;        /* a marker of the call is whole, and more than white space follows it */
    /* of another spelling */
    kt__foreign foreign;
    const kt__call_format *format; /* what it is read as */
    bool expects;                  /* its arguments are what comes next, from expects_at on */
    size_t expects_at;
} kt__call_head;

/* emit.c: the arguments are what comes next, and are kept for kt__call_take_args. */
void kt__p_expect_args(kt__call_parser *p, const kt__span *span, const kt__call_head *head);

/* Whether a call begins at `at` (head->opened is set with MORE, too), up to what makes certain that
 * it is one. */
kt__scan kt__p_head(const kt__call_parser *p, const kt__span *span, size_t at, kt__call_head *head);
/* The call of this head begins; what came before it is read already. */
void kt__p_begin(kt__call_parser *p, const kt__span *span, const kt__call_head *head);
bool kt__p_calls_on(const kt__call_parser *p);
/* A string at *at: its text, without quotes and escapes as they are. */
kt__scan kt__p_string(const kt__span *span, size_t *at, size_t *from, size_t *to);
bool kt__p_is_args_key(const kt__call_format *f, const char *key, size_t len);

/* ---- body.c ---- */

/* A step within a call. YES: something was read or decided. */
kt__scan kt__p_call_step(kt__call_parser *p);

/* ---- tagged.c ---- */

kt__scan kt__p_params_step(kt__call_parser *p);
kt__scan kt__p_value_step(kt__call_parser *p);
/* A parameter's text as JSON. */
void kt__p_put_value(kt__call_parser *p, const char *s, size_t n);

/* ---- tagged.c ---- */

/* Elements within elements as the schema has them, appended to out as JSON; false: it is none. */
bool kt__elements_json(const kt__call_format *f, const kt__json_node *root,
                       const kt__json_node *schema, const char *s, size_t n, kt__buf *out);

/* ---- foreign.c ---- */

/* Where the text is at `at`, which is not before where it was asked for last. */
void kt__p_line_to(kt__call_parser *p, const kt__span *span, size_t at);
/* Whether a call of another spelling begins at `at`, where a line of content begins. */
kt__scan kt__p_foreign_head(const kt__call_parser *p, const kt__span *span, size_t at,
                            kt__call_head *head);
/* After a call of another spelling: what must end, or another call. */
kt__scan kt__p_foreign_between(kt__call_parser *p);

/* ---- harmony.c ---- */

kt__scan kt__p_header_step(kt__call_parser *p);
/* Whether the unread text, after which the answer ends, is a part of a header. */
bool kt__p_header_cut(const kt__call_parser *p);
kt__scan kt__p_message_step(kt__call_parser *p);
void kt__p_message_end(kt__call_parser *p);

#endif
