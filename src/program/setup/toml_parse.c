#include "setup/toml.h"

#include <string.h>

#include "base/error.h"
#include "setup/toml_token.h"

/* How a table came to be decides who may still add to it. */
enum {
    MADE_IMPLICIT, /* on the way to another header: may get a header of its own once */
    MADE_HEADER,   /* [a.b] */
    MADE_DOTTED,   /* a.b = 1: more dotted keys, no header */
    MADE_CLOSED,   /* { inline } or [ array ]: complete */
    MADE_TABLES    /* an array of [[tables]] */
};

const char *kt__toml_kind_name(kt__toml_kind kind) {
    static const char *const names[] = {"a table",        "an array", "a string",
                                        "a whole number", "a number", "a boolean"};
    return names[kind];
}

/* ---- the tree ---- */

static const kt__toml *find_member(const kt__toml *table, const char *key, size_t len) {
    for (const kt__toml *v = table->first; v; v = v->next) {
        if (strlen(v->key) == len && !memcmp(v->key, key, len)) return v;
    }
    return NULL;
}

const kt__toml *kt__toml_get(const kt__toml *table, const char *key) {
    return table && table->kind == KT__TOML_TABLE ? find_member(table, key, strlen(key)) : NULL;
}

static kt__toml *add_member(kt__toml_parser *p, kt__toml *parent, kt__toml_kind kind,
                            const char *key) {
    kt__toml *v = kt__arena_calloc(p->arena, 1, sizeof *v);
    if (!v) return NULL;
    v->kind = kind;
    v->key = key;
    v->line = p->line;
    if (!parent) return v;
    if (parent->last) {
        parent->last->next = v;
    } else {
        parent->first = v;
    }
    parent->last = v;
    parent->n++;
    p->n_values++;
    return v;
}

/* ---- values ---- */

static kt_status take_value(kt__toml_parser *p, kt__toml *v, int depth);
static kt_status take_pair(kt__toml_parser *p, kt__toml *table, int depth);

/* Elements become known to their array only when they are whole; v is the array. */
static kt_status take_array(kt__toml_parser *p, kt__toml *v, int depth) {
    v->kind = KT__TOML_ARRAY;
    v->state = MADE_CLOSED;
    p->at++;
    for (;;) {
        KT__STEP(kt__toml_skip_space(p));
        if (kt__toml_peek(p, 0) == ']') break;
        kt__toml *item = add_member(p, v, KT__TOML_INT, NULL);
        if (!item) return kt__toml_fail_nomem(p);
        KT__STEP(take_value(p, item, depth + 1));
        KT__STEP(kt__toml_skip_space(p));
        if (kt__toml_peek(p, 0) == ']') break;
        if (kt__toml_peek(p, 0) != ',')
            return kt__toml_fail(p, "expected a comma or the array's end");
        p->at++;
    }
    p->at++;
    return KT_OK;
}

static void close_table(kt__toml *table) {
    table->state = MADE_CLOSED;
    for (kt__toml *v = table->first; v; v = v->next) {
        if (v->kind == KT__TOML_TABLE) close_table(v);
    }
}

static kt_status take_inline_table(kt__toml_parser *p, kt__toml *v, int depth) {
    kt_status status = KT_OK;
    v->kind = KT__TOML_TABLE;
    v->state = MADE_DOTTED;
    p->at++;
    kt__toml_skip_blanks(p);
    for (bool first = true; kt__toml_peek(p, 0) != '}' || !first; first = false) {
        KT__TRY(take_pair(p, v, depth + 1));
        kt__toml_skip_blanks(p);
        if (kt__toml_peek(p, 0) == '}') break;
        if (kt__toml_peek(p, 0) != ',')
            return kt__toml_fail(p, "expected a comma or the table's end");
        p->at++;
        kt__toml_skip_blanks(p);
    }
    p->at++;
    close_table(v);
out:
    return status;
}

static kt_status take_value(kt__toml_parser *p, kt__toml *v, int depth) {
    if (depth > KT__TOML_MAX_DEPTH) return kt__toml_fail(p, "nested too deeply");
    if (p->n_values > KT__TOML_MAX_VALUES) return kt__toml_fail(p, "too many values");
    v->line = p->line;
    switch (kt__toml_peek(p, 0)) {
    case '"':
    case '\'': v->kind = KT__TOML_STRING; return kt__toml_take_string(p, &v->text, &v->len, true);
    case '[': return take_array(p, v, depth);
    case '{': return take_inline_table(p, v, depth);
    default: return kt__toml_take_scalar(p, v);
    }
}

/* a.b.c = value, in table */
static kt_status take_pair(kt__toml_parser *p, kt__toml *table, int depth) {
    const char *key;
    size_t len;
    for (int level = 0;; level++) {
        KT__STEP(kt__toml_take_key_part(p, &key, &len));
        kt__toml *found = (kt__toml *)(uintptr_t)find_member(table, key, len);
        if (!kt__toml_take_dot(p)) {
            if (found) return kt__toml_fail(p, "this key was given before");
            break;
        }
        if (depth + level >= KT__TOML_MAX_DEPTH) return kt__toml_fail(p, "nested too deeply");
        bool free = found && found->kind == KT__TOML_TABLE &&
                    (found->state == MADE_DOTTED || found->state == MADE_IMPLICIT);
        if (found && !free)
            return kt__toml_fail(p, "a dotted key cannot add to what was defined before");
        if (found) found->state = MADE_DOTTED;
        if (!found) {
            found = add_member(p, table, KT__TOML_TABLE, key);
            if (!found) return kt__toml_fail_nomem(p);
            found->state = MADE_DOTTED;
        }
        table = found;
    }
    kt__toml_skip_blanks(p);
    if (kt__toml_peek(p, 0) != '=') return kt__toml_fail(p, "expected = after the key");
    p->at++;
    kt__toml_skip_blanks(p);
    kt__toml *v = add_member(p, table, KT__TOML_INT, key);
    if (!v) return kt__toml_fail_nomem(p);
    return take_value(p, v, depth);
}

/* ---- headers ---- */

/* One step towards a header's table: into it, or into the last table of an array. */
static kt_status step_into(kt__toml_parser *p, kt__toml **table, const char *key, size_t len) {
    kt__toml *found = (kt__toml *)(uintptr_t)find_member(*table, key, len);
    if (!found) {
        found = add_member(p, *table, KT__TOML_TABLE, key);
        if (!found) return kt__toml_fail_nomem(p);
        found->state = MADE_IMPLICIT;
    }
    if (found->kind == KT__TOML_ARRAY && found->state == MADE_TABLES) found = found->last;
    if (found->kind != KT__TOML_TABLE || found->state == MADE_CLOSED)
        return kt__toml_fail(p, "this name is no table that can be added to");
    *table = found;
    return KT_OK;
}

static kt_status open_table(kt__toml_parser *p, kt__toml *parent, const char *key, size_t len,
                            bool array, kt__toml **out) {
    kt__toml *found = (kt__toml *)(uintptr_t)find_member(parent, key, len);
    if (array) {
        if (found && (found->kind != KT__TOML_ARRAY || found->state != MADE_TABLES))
            return kt__toml_fail(p, "this name is no array of tables");
        if (!found && !(found = add_member(p, parent, KT__TOML_ARRAY, key)))
            return kt__toml_fail_nomem(p);
        found->state = MADE_TABLES;
        *out = add_member(p, found, KT__TOML_TABLE, NULL);
    } else if (found) {
        if (found->kind != KT__TOML_TABLE || found->state != MADE_IMPLICIT)
            return kt__toml_fail(p, "this table was defined before");
        *out = found;
    } else {
        *out = add_member(p, parent, KT__TOML_TABLE, key);
    }
    if (!*out) return kt__toml_fail_nomem(p);
    (*out)->state = MADE_HEADER;
    return KT_OK;
}

/* [a.b] or [[a.b]] */
static kt_status take_header(kt__toml_parser *p, kt__toml *root, kt__toml **out) {
    const char *key;
    size_t len;
    bool array = kt__toml_peek(p, 1) == '[';
    kt__toml *table = root;
    p->at += array ? 2 : 1;
    kt__toml_skip_blanks(p);
    for (int level = 0;; level++) {
        if (level >= KT__TOML_MAX_DEPTH) return kt__toml_fail(p, "nested too deeply");
        KT__STEP(kt__toml_take_key_part(p, &key, &len));
        if (!kt__toml_take_dot(p)) break;
        KT__STEP(step_into(p, &table, key, len));
    }
    kt__toml_skip_blanks(p);
    if (!kt__toml_looking_at(p, array ? "]]" : "]"))
        return kt__toml_fail(p, "expected the header's end");
    p->at += array ? 2 : 1;
    return open_table(p, table, key, len, array, out);
}

static kt_status end_of_line(kt__toml_parser *p) {
    kt__toml_skip_blanks(p);
    kt_status status = kt__toml_skip_comment(p);
    if (status != KT_OK) return status;
    if (p->at < p->end && !kt__toml_at_newline(p))
        return kt__toml_fail(p, "expected the end of the line");
    return KT_OK;
}

kt_status kt__toml_parse(const char *text, size_t len, const char *name, kt__arena *arena,
                         kt__toml **out, kt_error *err) {
    kt__toml_parser p = {text, text + len, text, 1, 0, name, arena, err};
    *out = NULL;
    kt__error_clear(err);
    if (len > KT__TOML_MAX_BYTES)
        return kt__fail_at(err, KT_E_LIMIT, name, UINT64_MAX, "%s: %zu bytes; at most %d", name,
                           len, (int)KT__TOML_MAX_BYTES);
    kt__toml *root = add_member(&p, NULL, KT__TOML_TABLE, NULL), *table = root;
    if (!root) return kt__toml_fail_nomem(&p);
    root->state = MADE_HEADER;
    for (;;) {
        KT__STEP(kt__toml_skip_space(&p));
        if (p.at >= p.end) break;
        if (kt__toml_peek(&p, 0) == '[') {
            KT__STEP(take_header(&p, root, &table));
        } else {
            KT__STEP(take_pair(&p, table, 0));
        }
        KT__STEP(end_of_line(&p));
    }
    *out = root;
    return KT_OK;
}
