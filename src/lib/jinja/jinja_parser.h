/* The parser's state, and what its two halves are on: jinja_expr_parse.c reads expressions,
 * jinja_parse.c above it statements.
 *
 * Owns: one parse. Nothing here outlives it; nodes go to the template's arena. One thread. */
#ifndef KT_JINJA_JINJA_PARSER_H
#define KT_JINJA_JINJA_PARSER_H

#include "jinja/jinja_ast.h"

typedef struct kt__jparser {
    kt__jinja *tmpl;
    const kt__jtok *tok; /* the current token; the last is KT__JT_EOF */
    kt__jdict *ids;      /* name -> index */
    size_t cap_names;
    int nest; /* of the recursion under way */
    kt_error *err;
} kt__jparser;

/* Nodes in the order they were met. */
typedef struct kt__jchain {
    kt__jnode *first, *last;
} kt__jchain;
void kt__jchain_add(kt__jchain *chain, kt__jnode *node);

/* All of them: KT_E_NOMEM, KT_E_TEMPLATE or KT_E_LIMIT with the line in p->err. */
kt_status kt__jp_node(kt__jparser *p, kt__jnode_kind kind, uint32_t line,
                      kt__jnode **out) KT_CHECKED;
/* Sets node->depth from its children (their lists included) and checks the limit. */
kt_status kt__jp_close(kt__jparser *p, kt__jnode *node) KT_CHECKED;
kt_status kt__jp_nomem(kt__jparser *p);
kt_status kt__jp_fail(kt__jparser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
kt_status kt__jp_intern(kt__jparser *p, const char *text, size_t len, uint32_t *id) KT_CHECKED;
kt_status
kt__jp_enter(kt__jparser *p) KT_CHECKED; /* one level of recursion; p->nest-- on the way out */

bool kt__jp_is_op(const kt__jtok *tok, const char *op);
bool kt__jp_is_name(const kt__jtok *tok, const char *name);
bool kt__jp_skip_op(kt__jparser *p, const char *op);
bool kt__jp_skip_name(kt__jparser *p, const char *name);
kt_status kt__jp_expect_op(kt__jparser *p, const char *op) KT_CHECKED;
kt_status kt__jp_expect_name(kt__jparser *p, const char *name) KT_CHECKED;
kt_status kt__jp_expect(kt__jparser *p, kt__jtok_kind kind) KT_CHECKED;
/* "'x'", "the end of the tag", ...: for error messages. */
const char *kt__jp_describe(const kt__jtok *tok, char buf[64]);

/* ---- jinja_expr_parse.c ---- */

kt_status kt__jp_expr(kt__jparser *p, kt__jnode **out) KT_CHECKED;
kt_status kt__jp_primary(kt__jparser *p, kt__jnode **out) KT_CHECKED;
/* A tuple where there are commas; with_cond: conditional expressions are allowed; targets: only
 * names and literals, up to "in". */
kt_status kt__jp_tuple(kt__jparser *p, bool with_cond, bool targets, bool parentheses,
                       kt__jnode **out) KT_CHECKED;
/* "| name(args) | ..." over *out, which may be NULL; `inline_start`: the first name has no '|'. */
kt_status kt__jp_filters(kt__jparser *p, bool inline_start, kt__jnode **out) KT_CHECKED;

#endif
