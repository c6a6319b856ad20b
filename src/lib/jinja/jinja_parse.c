/* Statements, and the whole template. */
#include "jinja/jinja_parser.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* ---- targets ---- */

static kt_status check_target(kt__jparser *p, const kt__jnode *target) {
    if (target->kind == KT__JN_NAME) return KT_OK;
    if (target->kind != KT__JN_TUPLE) return kt__jp_fail(p, "this cannot be assigned to");
    for (const kt__jnode *item = target->a; item; item = item->next) {
        kt_status status = check_target(p, item);
        if (status != KT_OK) return status;
    }
    return KT_OK;
}

static kt_status parse_target(kt__jparser *p, kt__jnode **out) {
    kt_status status = kt__jp_tuple(p, true, true, false, out);
    return status == KT_OK ? check_target(p, *out) : status;
}

/* NAME.ATTR */
static kt_status parse_nsref(kt__jparser *p, kt__jnode **out) {
    const kt__jtok *name = p->tok, *attr = p->tok + 2;
    KT__STEP(kt__jp_node(p, KT__JN_NSREF, name->line, out));
    KT__STEP(kt__jp_expect(p, KT__JT_NAME));
    KT__STEP(kt__jp_expect_op(p, "."));
    KT__STEP(kt__jp_expect(p, KT__JT_NAME));
    KT__STEP(kt__jp_intern(p, name->text, name->len, &(*out)->name));
    kt__jstr *s = kt__jstr_new(&p->tmpl->arena, attr->text, attr->len, true);
    if (!s) return kt__jp_nomem(p);
    (*out)->value = kt__j_str(s);
    return KT_OK;
}

/* ---- statements ---- */

static kt_status parse_body(kt__jparser *p, const char *const *ends, kt__jnode **out,
                            const char **found);

/* The rest of the opening tag, statements up to {% end %}, and the end tag's name. */
static kt_status parse_block(kt__jparser *p, const char *end, kt__jnode **body) {
    const char *const ends[] = {end, NULL}, *found;
    kt__jp_skip_op(p, ":");
    kt_status status = kt__jp_expect(p, KT__JT_BLOCK_END);
    return status == KT_OK ? parse_body(p, ends, body, &found) : status;
}

static kt_status parse_if(kt__jparser *p, kt__jnode *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    const char *found = NULL;
    kt__jnode *branch = node;
    for (;;) {
        KT__STEP(kt__jp_tuple(p, false, false, false, &branch->a));
        kt__jp_skip_op(p, ":");
        KT__STEP(kt__jp_expect(p, KT__JT_BLOCK_END));
        KT__STEP(parse_body(p, ends, &branch->body, &found));
        KT__STEP(kt__jp_close(p, branch));
        /* branches hang in a chain that is walked, not entered: only their own depth counts */
        if (branch->depth > node->depth) node->depth = branch->depth;
        if (strcmp(found, "endif") == 0) return KT_OK;
        bool is_else = strcmp(found, "else") == 0;
        KT__STEP(kt__jp_node(p, is_else ? KT__JN_SCOPE : KT__JN_IF, p->tok->line, &branch->orelse));
        branch = branch->orelse;
        if (is_else) {
            KT__STEP(parse_block(p, "endif", &branch->body));
            KT__STEP(kt__jp_close(p, branch));
            if (branch->depth > node->depth) node->depth = branch->depth;
            return KT_OK;
        }
    }
}

static kt_status parse_for(kt__jparser *p, kt__jnode *node) {
    static const char *const ends[] = {"endfor", "else", NULL};
    const char *found = NULL;
    node->kind = KT__JN_FOR;
    KT__STEP(parse_target(p, &node->a));
    KT__STEP(kt__jp_expect_name(p, "in"));
    KT__STEP(kt__jp_tuple(p, false, false, false, &node->b));
    if (kt__jp_skip_name(p, "if")) KT__STEP(kt__jp_expr(p, &node->c));
    if (kt__jp_is_name(p->tok, "recursive"))
        return kt__jp_fail(p, "recursive loops are not supported");
    kt__jp_skip_op(p, ":");
    KT__STEP(kt__jp_expect(p, KT__JT_BLOCK_END));
    KT__STEP(parse_body(p, ends, &node->body, &found));
    return strcmp(found, "else") == 0 ? parse_block(p, "endfor", &node->orelse) : KT_OK;
}

static kt_status parse_set(kt__jparser *p, kt__jnode *node) {
    bool is_nsref = p->tok->kind == KT__JT_NAME && kt__jp_is_op(p->tok + 1, ".");
    kt_status status = is_nsref ? parse_nsref(p, &node->a) : parse_target(p, &node->a);
    if (status != KT_OK) return status;
    if (kt__jp_skip_op(p, "=")) {
        node->kind = KT__JN_SET;
        return kt__jp_tuple(p, true, false, false, &node->b);
    }
    node->kind = KT__JN_SETBLOCK;
    status = kt__jp_filters(p, false, &node->b);
    return status == KT_OK ? parse_block(p, "endset", &node->body) : status;
}

static kt_status parse_param(kt__jparser *p, bool *had_default, kt__jnode **out) {
    const kt__jtok *tok = p->tok;
    KT__STEP(kt__jp_node(p, KT__JN_PARAM, tok->line, out));
    KT__STEP(kt__jp_expect(p, KT__JT_NAME));
    KT__STEP(kt__jp_intern(p, tok->text, tok->len, &(*out)->name));
    (*out)->value = kt__j_str(p->tmpl->names[(*out)->name]);
    if (kt__jp_skip_op(p, "=")) {
        *had_default = true;
        KT__STEP(kt__jp_expr(p, &(*out)->a));
    } else if (*had_default) {
        return kt__jp_fail(p, "a parameter without a default after one with");
    }
    return kt__jp_close(p, *out);
}

static kt_status parse_params(kt__jparser *p, kt__jnode **out) {
    kt__jchain params = {0};
    bool had_default = false;
    kt_status status = kt__jp_expect_op(p, "(");
    while (status == KT_OK && !kt__jp_is_op(p->tok, ")")) {
        kt__jnode *param;
        if (params.first && (status = kt__jp_expect_op(p, ",")) != KT_OK) return status;
        if ((status = parse_param(p, &had_default, &param)) == KT_OK)
            kt__jchain_add(&params, param);
    }
    *out = params.first;
    return status == KT_OK ? kt__jp_expect_op(p, ")") : status;
}

static kt_status parse_macro(kt__jparser *p, kt__jnode *node) {
    const kt__jtok *tok = p->tok;
    node->kind = KT__JN_MACRO;
    KT__STEP(kt__jp_expect(p, KT__JT_NAME));
    KT__STEP(kt__jp_intern(p, tok->text, tok->len, &node->name));
    KT__STEP(parse_params(p, &node->a));
    return parse_block(p, "endmacro", &node->body);
}

static kt_status parse_filter_block(kt__jparser *p, kt__jnode *node) {
    node->kind = KT__JN_FILTERBLOCK;
    kt_status status = kt__jp_filters(p, true, &node->b);
    return status == KT_OK ? parse_block(p, "endfilter", &node->body) : status;
}

static kt_status parse_with(kt__jparser *p, kt__jnode *node) {
    kt__jchain sets = {0};
    node->kind = KT__JN_WITH;
    while (p->tok->kind != KT__JT_BLOCK_END) {
        kt__jnode *set;
        if (sets.first) KT__STEP(kt__jp_expect_op(p, ","));
        KT__STEP(kt__jp_node(p, KT__JN_SET, p->tok->line, &set));
        KT__STEP(kt__jp_primary(p, &set->a));
        KT__STEP(check_target(p, set->a));
        KT__STEP(kt__jp_expect_op(p, "="));
        KT__STEP(kt__jp_expr(p, &set->b));
        KT__STEP(kt__jp_close(p, set));
        kt__jchain_add(&sets, set);
    }
    node->a = sets.first;
    return parse_block(p, "endwith", &node->body);
}

static kt_status parse_generation(kt__jparser *p, kt__jnode *node) {
    node->kind = KT__JN_SCOPE;
    return parse_block(p, "endgeneration", &node->body);
}

static kt_status parse_break(kt__jparser *p, kt__jnode *node) {
    (void)p;
    node->kind = KT__JN_BREAK;
    return KT_OK;
}

static kt_status parse_continue(kt__jparser *p, kt__jnode *node) {
    (void)p;
    node->kind = KT__JN_CONTINUE;
    return KT_OK;
}

static const struct {
    const char *name;
    kt_status (*parse)(kt__jparser *p, kt__jnode *node);
} statements[] = {{"if", parse_if},
                  {"for", parse_for},
                  {"set", parse_set},
                  {"macro", parse_macro},
                  {"filter", parse_filter_block},
                  {"with", parse_with},
                  {"generation", parse_generation},
                  {"break", parse_break},
                  {"continue", parse_continue}};

static kt_status parse_statement(kt__jparser *p, kt__jnode **out) {
    char buf[64];
    const kt__jtok *tok = p->tok;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!kt__jp_skip_name(p, statements[i].name)) continue;
        KT__STEP(kt__jp_node(p, KT__JN_IF, tok->line, out));
        KT__STEP(kt__jp_enter(p));
        kt_status status = statements[i].parse(p, *out);
        p->nest--;
        if (status != KT_OK) return status;
        if ((*out)->kind != KT__JN_IF) KT__STEP(kt__jp_close(p, *out));
        return kt__jp_expect(p, KT__JT_BLOCK_END);
    }
    return kt__jp_fail(p, "unknown or unsupported tag %s", kt__jp_describe(tok, buf));
}

static kt_status parse_text(kt__jparser *p, kt__jnode **out) {
    const kt__jtok *tok = p->tok++;
    kt_status status = kt__jp_node(p, KT__JN_TEXT, tok->line, out);
    if (status != KT_OK) return status;
    kt__jstr *s = kt__jstr_new(&p->tmpl->arena, tok->text, tok->len, true);
    if (!s) return kt__jp_nomem(p);
    (*out)->value = kt__j_str(s);
    return KT_OK;
}

static kt_status parse_print(kt__jparser *p, kt__jnode **out) {
    char buf[64];
    KT__STEP(kt__jp_node(p, KT__JN_PRINT, p->tok->line, out));
    p->tok++;
    KT__STEP(kt__jp_tuple(p, true, false, false, &(*out)->a));
    if (p->tok->kind != KT__JT_VAR_END)
        return kt__jp_fail(p, "expected the end of the expression, found %s",
                           kt__jp_describe(p->tok, buf));
    p->tok++;
    return kt__jp_close(p, *out);
}

static const char *end_word(const kt__jtok *tok, const char *const *ends) {
    for (; ends && *ends; ends++) {
        if (kt__jp_is_name(tok, *ends)) return *ends;
    }
    return NULL;
}

/* Statements up to a tag whose name is in ends (NULL: the end of the template); that name is taken.
 */
static kt_status parse_body(kt__jparser *p, const char *const *ends, kt__jnode **out,
                            const char **found) {
    kt__jchain body = {0};
    kt_status status = KT_OK;
    while (status == KT_OK && p->tok->kind != KT__JT_EOF) {
        kt__jnode *node = NULL;
        if (p->tok->kind == KT__JT_DATA) {
            status = parse_text(p, &node);
        } else if (p->tok->kind == KT__JT_VAR_BEGIN) {
            status = parse_print(p, &node);
        } else {
            p->tok++;
            if ((*found = end_word(p->tok, ends)) != NULL) {
                p->tok++;
                *out = body.first;
                return KT_OK;
            }
            status = parse_statement(p, &node);
        }
        if (status == KT_OK) kt__jchain_add(&body, node);
    }
    *out = body.first;
    if (status == KT_OK && ends) return kt__jp_fail(p, "the template ends before '%s'", ends[0]);
    return status;
}

/* ---- the whole ---- */

kt_status kt__jinja_parse(const char *source, size_t len, kt__jinja **out, kt_error *err) {
    kt__jparser p = {.err = err};
    kt__jtok *toks;
    size_t n;
    const char *found;
    if (len > KT__J_MAX_SOURCE)
        return kt__fail(err, KT_E_LIMIT, "a chat template of %zu bytes; the limit is %d", len,
                        KT__J_MAX_SOURCE);
    kt__jinja *tmpl = kt__calloc(1, sizeof *tmpl);
    if (!tmpl) return kt__fail_nomem(err, "a chat template", sizeof *tmpl);
    kt__arena_init(&tmpl->arena, 32768, (size_t)1 << 30);
    p.tmpl = tmpl;
    kt_status status = kt__jinja_lex(&tmpl->arena, source, len, &toks, &n, err);
    if (status == KT_OK) {
        p.tok = toks;
        p.ids = kt__jdict_new(&tmpl->arena);
        uint32_t loop; /* the first name: KT__JNAME_LOOP */
        status = p.ids ? kt__jp_intern(&p, "loop", 4, &loop) : kt__jp_nomem(&p);
    }
    if (status == KT_OK) status = parse_body(&p, NULL, &tmpl->body, &found);
    if (status != KT_OK) {
        kt__jinja_free(tmpl);
        return status;
    }
    *out = tmpl;
    return KT_OK;
}

void kt__jinja_free(kt__jinja *tmpl) {
    if (!tmpl) return;
    kt__arena_free(&tmpl->arena);
    kt__free(tmpl);
}
