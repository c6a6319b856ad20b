/* A template as a tree.
 *
 * Owns: the names that the interpreter knows, tokens, nodes and the parsed template, all in one arena; lexing and
 * parsing of chat templates' Jinja with trim_blocks and lstrip_blocks on. Does not evaluate. A parsed template is
 * immutable and may be read from any thread. */
#ifndef KT_JINJA_JINJA_AST_H
#define KT_JINJA_JINJA_AST_H

#include "jinja/jinja_value.h"

#include <kentang.h>
#include <stddef.h>
#include <stdint.h>

/* Filters, tests, methods and global functions, by name and number. The functions of the numbers are in the
 * interpreter's tables, in the same order. */

#define F(name, function) KT__JF_##name,
typedef enum kt__jfilter_id {
#include "jinja/jinja_filters.def"
    KT__JF_COUNT
} kt__jfilter_id;
#undef F

#define T(name, text) KT__JTEST_##name,
typedef enum kt__jtest_id {
#include "jinja/jinja_tests.def"
    KT__JTEST_COUNT
} kt__jtest_id;
#undef T

#define G(name) KT__JG_##name,
typedef enum kt__jglobal_id {
#include "jinja/jinja_globals.def"
    KT__JG_COUNT
} kt__jglobal_id;
#undef G

/* The number, or KT__J_UNKNOWN (UINT16_MAX). */
uint16_t kt__j_find_filter(const char *name, size_t len);
uint16_t kt__j_find_test(const char *name, size_t len);
uint16_t kt__j_find_global(const char *name, size_t len);

/* Stated limits of a template's source. */
enum {
    KT__J_MAX_SOURCE = 4 << 20, /* bytes */
    KT__J_MAX_DEPTH = 200,      /* nesting of statements and expressions */
    KT__J_MAX_NAMES = 65536     /* distinct identifiers */
};

/* ---- tokens ---- */

typedef enum kt__jtok_kind {
    KT__JT_EOF,
    KT__JT_DATA, /* literal text */
    KT__JT_VAR_BEGIN,
    KT__JT_VAR_END,
    KT__JT_BLOCK_BEGIN,
    KT__JT_BLOCK_END,
    KT__JT_NAME,
    KT__JT_STRING, /* with its quotes and escapes */
    KT__JT_INT,
    KT__JT_FLOAT,
    KT__JT_OP /* text is one of the operators */
} kt__jtok_kind;

typedef struct kt__jtok {
    kt__jtok_kind kind;
    uint32_t line;
    const char *text; /* in the arena's copy of the source */
    size_t len;
} kt__jtok;

/* *toks[*n] ends with KT__JT_EOF and lies in the arena, as the text it points to. */
kt_status kt__jinja_lex(kt__arena *arena, const char *source, size_t len, kt__jtok **toks,
                        size_t *n, kt_error *err) KT_CHECKED;

/* KT_E_TEMPLATE "line N: ..." */
kt_status kt__jinja_fail(kt_error *err, kt_status code, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- nodes ---- */

/* Children by kind; lists are chained by `next`. A "name" is an index into kt__jinja.names. */
typedef enum kt__jnode_kind {
    /* expressions */
    KT__JN_CONST,   /* value */
    KT__JN_NAME,    /* name */
    KT__JN_LIST,    /* a: items */
    KT__JN_TUPLE,   /* a: items */
    KT__JN_DICT,    /* a: pairs */
    KT__JN_PAIR,    /* a: key, b: value */
    KT__JN_AND,     /* a, b */
    KT__JN_OR,      /* a, b */
    KT__JN_NOT,     /* a */
    KT__JN_NEG,     /* a */
    KT__JN_POS,     /* a */
    KT__JN_BINARY,  /* op, a, b */
    KT__JN_CONCAT,  /* a: list of operands of ~ */
    KT__JN_COMPARE, /* a: first operand, b: list of KT__JN_OPERAND */
    KT__JN_OPERAND, /* op, a */
    KT__JN_COND,    /* a: condition, b: then, c: else or NULL */
    KT__JN_GETATTR, /* a: object, value: attribute */
    KT__JN_GETITEM, /* a: object, b: index, or a KT__JN_SLICE */
    KT__JN_SLICE,   /* a, b, c: start, stop, step, each may be NULL */
    KT__JN_CALL,    /* a: callee, b: arguments */
    KT__JN_KWARG,   /* value: its name, a: expression */
    KT__JN_SPREAD,  /* a: what *a means, one argument an item */
    KT__JN_FILTER,  /* a: input or NULL (what a block wrote), b: arguments, value: name, op: number
                     */
    KT__JN_TEST,    /* a: input, b: arguments, value: name, op: number */
    /* statements */
    KT__JN_TEXT,  /* value */
    KT__JN_PRINT, /* a */
    KT__JN_IF,  /* a: condition, body, orelse: a KT__JN_IF (elif), a KT__JN_SCOPE (else) or NULL */
    KT__JN_FOR, /* a: target, b: iterable, c: filter or NULL, body, orelse: list */
    KT__JN_SET, /* a: target, b: expression */
    KT__JN_SETBLOCK,    /* a: target, b: filters or NULL, body */
    KT__JN_NSREF,       /* only as a target; name, value: attribute */
    KT__JN_MACRO,       /* name, a: parameters, body */
    KT__JN_PARAM,       /* name, value: its text, a: default or NULL */
    KT__JN_FILTERBLOCK, /* b: filters, body */
    KT__JN_WITH,        /* a: list of KT__JN_SET, body */
    KT__JN_SCOPE,       /* body (generation, or an else) */
    KT__JN_BREAK,
    KT__JN_CONTINUE
} kt__jnode_kind;

typedef enum kt__jop {
    KT__JOP_ADD,
    KT__JOP_SUB,
    KT__JOP_MUL,
    KT__JOP_DIV,
    KT__JOP_FLOORDIV,
    KT__JOP_MOD,
    KT__JOP_EQ,
    KT__JOP_NE,
    KT__JOP_LT,
    KT__JOP_LE,
    KT__JOP_GT,
    KT__JOP_GE,
    KT__JOP_IN,
    KT__JOP_NOT_IN
} kt__jop;

#define KT__J_UNKNOWN \
    UINT16_MAX /* op of a filter or test that does not exist: an error when reached */

typedef struct kt__jnode kt__jnode;
struct kt__jnode {
    kt__jnode_kind kind;
    uint16_t op, depth;
    uint32_t line, name;
    kt__jnode *a, *b, *c, *body, *orelse, *next;
    kt__jv value;
};

/* The name that every template knows, at this place. */
enum { KT__JNAME_LOOP };

typedef struct kt__jinja {
    kt__arena arena;
    kt__jnode *body;
    const kt__jstr **names; /* [n_names] identifiers used */
    size_t n_names;
} kt__jinja;

kt_status kt__jinja_parse(const char *source, size_t len, kt__jinja **out,
                          kt_error *err) KT_CHECKED;
void kt__jinja_free(kt__jinja *tmpl);

#endif
