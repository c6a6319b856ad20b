/* TOML 1.0, as much as a configuration file needs: all of it but dates and times.
 *
 * Owns: text to a tree of tables, arrays and values, in an arena. Refuses what TOML refuses (double
 * keys, tables defined twice, bad escapes) with line and column, and says so where a date is met.
 * Knows no setting. One user at a time. */
#ifndef KT_SETUP_TOML_H
#define KT_SETUP_TOML_H

#include <kentang.h>

#include "base/alloc.h"

typedef enum kt__toml_kind {
    KT__TOML_TABLE,
    KT__TOML_ARRAY,
    KT__TOML_STRING,
    KT__TOML_INT,
    KT__TOML_FLOAT,
    KT__TOML_BOOL
} kt__toml_kind;

typedef struct kt__toml kt__toml;
struct kt__toml {
    kt__toml_kind kind;
    int line;        /* where it is, from 1 */
    const char *key; /* of a table's member, NUL-terminated; else NULL */
    kt__toml *next;  /* the next member or element, in the order of the file */
    kt__toml *first; /* TABLE, ARRAY: the first of them */
    kt__toml *last;
    size_t n;         /* TABLE, ARRAY: how many */
    const char *text; /* STRING: UTF-8 without NUL */
    size_t len;
    int64_t whole;
    double real;
    bool truth;
    unsigned char state; /* the parser's: how a table came to be */
};

enum { KT__TOML_MAX_BYTES = 1 << 20, KT__TOML_MAX_DEPTH = 32, KT__TOML_MAX_VALUES = 65536 };

/* text[len] with name (of the file) for errors. The tree lives in arena. */
kt_status KT_CHECKED kt__toml_parse(const char *text, size_t len, const char *name,
                                    kt__arena *arena, kt__toml **out, kt_error *err);
/* A member of a table, or NULL. */
const kt__toml *kt__toml_get(const kt__toml *table, const char *key);
const char *kt__toml_kind_name(kt__toml_kind kind); /* "a table" */

/* TOML's characters, strings, keys, numbers and words.
 *
 * Owns: the place in the text, and what is there. Knows no tables: toml.c puts the pieces
 * together. One user at a time. */

typedef struct kt__toml_parser {
    const char *at, *end, *line_start;
    int line;
    size_t n_values;
    const char *name; /* of the file, for errors */
    kt__arena *arena;
    kt_error *err;
} kt__toml_parser;

/* KT_E_FORMAT at the present place; the code is returned. */
kt_status kt__toml_fail(const kt__toml_parser *p, const char *what);
kt_status kt__toml_fail_nomem(const kt__toml_parser *p);

int kt__toml_peek(const kt__toml_parser *p, size_t ahead); /* a byte; -1: after the end */
bool kt__toml_looking_at(const kt__toml_parser *p, const char *s);
bool kt__toml_at_newline(const kt__toml_parser *p);
void kt__toml_skip_blanks(kt__toml_parser *p);
kt_status KT_CHECKED kt__toml_skip_comment(kt__toml_parser *p);
kt_status KT_CHECKED kt__toml_skip_space(kt__toml_parser *p); /* blanks, newlines and comments */

/* Any of the four kinds; may_span: of several lines too. *text: in the arena, NUL-terminated. */
kt_status KT_CHECKED kt__toml_take_string(kt__toml_parser *p, const char **text, size_t *len,
                                          bool may_span);
kt_status KT_CHECKED kt__toml_take_key_part(kt__toml_parser *p, const char **key, size_t *len);
bool kt__toml_take_dot(kt__toml_parser *p); /* another part of a dotted key follows */
/* A number or a boolean, into v. */
kt_status KT_CHECKED kt__toml_take_scalar(kt__toml_parser *p, kt__toml *v);

#endif
