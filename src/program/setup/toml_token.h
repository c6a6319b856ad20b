/* TOML's characters, strings, keys, numbers and words.
 *
 * Owns: the place in the text, and what is there. Knows no tables: toml_parse.c puts the pieces
 * together. One user at a time. */
#ifndef KT_SETUP_TOML_TOKEN_H
#define KT_SETUP_TOML_TOKEN_H

#include "setup/toml.h"

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
