#include "jinja/jinja_parser.h"

#include "base/error.h"
#include "jinja/jinja_ast.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

static uint16_t find_name(const char *const *names, size_t n, const char *name, size_t len) {
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) return (uint16_t)i;
    }
    return UINT16_MAX;
}

uint16_t kt__j_find_filter(const char *name, size_t len) {
#define F(filter, function) #filter,
    static const char *const names[] = {
#include "jinja/jinja_filters.def"
    };
#undef F
    return find_name(names, KT__JF_COUNT, name, len);
}

uint16_t kt__j_find_test(const char *name, size_t len) {
#define T(test, text) text,
    static const char *const names[] = {
#include "jinja/jinja_tests.def"
    };
#undef T
    return find_name(names, KT__JTEST_COUNT, name, len);
}

uint16_t kt__j_find_global(const char *name, size_t len) {
#define G(global) #global,
    static const char *const names[] = {
#include "jinja/jinja_globals.def"
    };
#undef G
    return find_name(names, KT__JG_COUNT, name, len);
}

/* ---- the state ---- */

kt_status kt__jp_fail(kt__jparser *p, const char *fmt, ...) {
    char text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return kt__jinja_fail(p->err, KT_E_TEMPLATE, p->tok->line, "%s", text);
}

kt_status kt__jp_nomem(kt__jparser *p) {
    return kt__fail(p->err, KT_E_NOMEM, "no memory for a chat template");
}

void kt__jchain_add(kt__jchain *chain, kt__jnode *node) {
    if (chain->last)
        chain->last->next = node;
    else
        chain->first = node;
    chain->last = node;
}

kt_status kt__jp_node(kt__jparser *p, kt__jnode_kind kind, uint32_t line, kt__jnode **out) {
    *out = kt__arena_calloc(&p->tmpl->arena, 1, sizeof **out);
    if (!*out) return kt__jp_nomem(p);
    (*out)->kind = kind;
    (*out)->line = line;
    return KT_OK;
}

static kt_status too_deep(kt__jparser *p) {
    return kt__jinja_fail(p->err, KT_E_LIMIT, p->tok->line, "nested deeper than %d",
                          KT__J_MAX_DEPTH);
}

static uint16_t list_depth(const kt__jnode *node) {
    uint16_t depth = 0;
    for (; node; node = node->next) depth = node->depth > depth ? node->depth : depth;
    return depth;
}

kt_status kt__jp_close(kt__jparser *p, kt__jnode *node) {
    const kt__jnode *const children[] = {node->a, node->b, node->c, node->body, node->orelse};
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        uint16_t depth = list_depth(children[i]);
        if (depth >= node->depth) node->depth = (uint16_t)(depth + 1);
    }
    return node->depth > KT__J_MAX_DEPTH ? too_deep(p) : KT_OK;
}

kt_status kt__jp_enter(kt__jparser *p) {
    if (p->nest >= KT__J_MAX_DEPTH) return too_deep(p);
    p->nest++;
    return KT_OK;
}

kt_status kt__jp_intern(kt__jparser *p, const char *text, size_t len, uint32_t *id) {
    kt__jinja *t = p->tmpl;
    uint64_t steps = UINT64_MAX;
    kt__jv known;
    const kt__jstr *name = kt__jstr_new(&t->arena, text, len, true);
    if (!name) return kt__jp_nomem(p);
    if (kt__jdict_get(p->ids, kt__j_str(name), &known, &steps) == KT__JKEY_FOUND) {
        *id = (uint32_t)known.u.i;
        return KT_OK;
    }
    if (t->n_names == KT__J_MAX_NAMES)
        return kt__jinja_fail(p->err, KT_E_LIMIT, p->tok->line, "more than %d names",
                              KT__J_MAX_NAMES);
    if (t->n_names == p->cap_names) {
        p->cap_names = p->cap_names ? p->cap_names * 2 : 64;
        const kt__jstr **grown = kt__arena_calloc(&t->arena, p->cap_names, sizeof *grown);
        if (!grown) return kt__jp_nomem(p);
        if (t->n_names) memcpy(grown, t->names, t->n_names * sizeof *grown);
        t->names = grown;
    }
    *id = (uint32_t)t->n_names;
    t->names[t->n_names++] = name;
    kt__jv number = kt__j_int(*id);
    if (kt__jdict_set(&t->arena, p->ids, kt__j_str(name), number, &steps) == KT__JKEY_NOMEM)
        return kt__jp_nomem(p);
    return KT_OK;
}

static bool is_text(const kt__jtok *tok, kt__jtok_kind kind, const char *text) {
    size_t n = strlen(text);
    return tok->kind == kind && tok->len == n && memcmp(tok->text, text, n) == 0;
}

bool kt__jp_is_op(const kt__jtok *tok, const char *op) {
    return is_text(tok, KT__JT_OP, op);
}

bool kt__jp_is_name(const kt__jtok *tok, const char *name) {
    return is_text(tok, KT__JT_NAME, name);
}

bool kt__jp_skip_op(kt__jparser *p, const char *op) {
    if (!kt__jp_is_op(p->tok, op)) return false;
    p->tok++;
    return true;
}

bool kt__jp_skip_name(kt__jparser *p, const char *name) {
    if (!kt__jp_is_name(p->tok, name)) return false;
    p->tok++;
    return true;
}

const char *kt__jp_describe(const kt__jtok *tok, char buf[64]) {
    switch (tok->kind) {
    case KT__JT_EOF: return "the end of the template";
    case KT__JT_VAR_END: return "the end of the expression";
    case KT__JT_BLOCK_END: return "the end of the tag";
    default:
        snprintf(buf, 64, "'%.*s'", (int)(tok->len < 40 ? tok->len : 40), tok->text);
        return buf;
    }
}

kt_status kt__jp_expect_op(kt__jparser *p, const char *op) {
    char buf[64];
    if (kt__jp_skip_op(p, op)) return KT_OK;
    return kt__jp_fail(p, "expected '%s', found %s", op, kt__jp_describe(p->tok, buf));
}

kt_status kt__jp_expect_name(kt__jparser *p, const char *name) {
    char buf[64];
    if (kt__jp_skip_name(p, name)) return KT_OK;
    return kt__jp_fail(p, "expected '%s', found %s", name, kt__jp_describe(p->tok, buf));
}

kt_status kt__jp_expect(kt__jparser *p, kt__jtok_kind kind) {
    char buf[64];
    if (p->tok->kind == kind) {
        p->tok++;
        return KT_OK;
    }
    const char *what = kind == KT__JT_NAME ? "a name" : "the end of the tag";
    return kt__jp_fail(p, "expected %s, found %s", what, kt__jp_describe(p->tok, buf));
}
