/* Expressions, by Jinja's grammar; each level of precedence is a function, calls only go down. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "jinja/jinja_ast.h"
#include "jinja/jinja_parser.h"
#include "jinja/jinja_text.h"

/* ---- literals ---- */

static bool hex_escape(const char *s, size_t len, size_t n_digits, uint32_t *out) {
    if (len < n_digits) return false;
    *out = 0;
    for (size_t i = 0; i < n_digits; i++) {
        char c = s[i];
        uint32_t d = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                     : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                            : 16;
        if (d == 16) return false;
        *out = *out << 4 | d;
    }
    return true;
}

static size_t octal_escape(const char *s, size_t len, uint32_t *out) {
    size_t n = 0;
    *out = 0;
    while (n < 3 && n < len && s[n] >= '0' && s[n] <= '7')
        *out = *out * 8 + (uint32_t)(s[n++] - '0');
    return n;
}

/* \x, \u and \U; surrogate pairs become one character. Bytes used after the backslash, 0: not
 * valid. */
static size_t unicode_escape(const char *s, size_t len, uint32_t *cp) {
    size_t digits = s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : 8;
    if (!hex_escape(s + 1, len - 1, digits, cp) || *cp > 0x10FFFF) return 0;
    if (*cp < 0xD800 || *cp > 0xDFFF) return 1 + digits;
    uint32_t low;
    if (digits == 4 && *cp < 0xDC00 && len >= 11 && s[5] == '\\' && s[6] == 'u' &&
        hex_escape(s + 7, len - 7, 4, &low) && low >= 0xDC00 && low <= 0xDFFF) {
        *cp = 0x10000 + ((*cp - 0xD800) << 10) + (low - 0xDC00);
        return 11;
    }
    return 0;
}

/* The escape s[len] after a backslash, as Python reads it; an unknown one means itself.
 * Returns the bytes used, 0 where it is not valid. */
static size_t decode_escape(const char *s, size_t len, char **to) {
    static const char names[] = "\\'\"abfnrtv", bytes[] = "\\'\"\a\b\f\n\r\t\v";
    const char *hit = s[0] ? strchr(names, s[0]) : NULL;
    uint32_t cp;
    if (hit) {
        *(*to)++ = bytes[hit - names];
        return 1;
    }
    if (s[0] == '\n') return 1;
    if (s[0] == 'x' || s[0] == 'u' || s[0] == 'U') {
        size_t used = unicode_escape(s, len, &cp);
        if (used) *to += kt__utf8_encode(cp, *to);
        return used;
    }
    size_t octal = octal_escape(s, len, &cp);
    if (octal) {
        *to += kt__utf8_encode(cp, *to);
        return octal;
    }
    *(*to)++ = '\\';
    *(*to)++ = s[0];
    return 1;
}

/* Appends the text of one string token to `to`, which has room for it. */
static kt_status decode_string(kt__jparser *p, char **to) {
    const char *s = p->tok->text + 1;
    size_t len = p->tok->len - 2;
    for (size_t i = 0; i < len;) {
        if (s[i] != '\\') {
            *(*to)++ = s[i++];
            continue;
        }
        size_t used = decode_escape(s + i + 1, len - i - 1, to);
        if (!used) return kt__jp_fail(p, "an escape in a string is not valid");
        i += 1 + used;
    }
    return KT_OK;
}

/* Adjacent strings are joined. */
static kt_status string_literal(kt__jparser *p, kt__jnode *node) {
    size_t room = 0;
    for (const kt__jtok *t = p->tok; t->kind == KT__JT_STRING; t++) room += t->len;
    char *data = kt__arena_alloc_aligned(&p->tmpl->arena, room, 1), *to = data;
    if (!data) return kt__jp_nomem(p);
    for (; p->tok->kind == KT__JT_STRING; p->tok++) {
        kt_status status = decode_string(p, &to);
        if (status != KT_OK) return status;
    }
    kt__jstr *s = kt__jstr_new(&p->tmpl->arena, data, (size_t)(to - data), true);
    if (!s) return kt__jp_nomem(p);
    node->value = kt__j_str(s);
    return KT_OK;
}

static kt_status number_literal(kt__jparser *p, kt__jnode *node) {
    char digits[KT__J_NUM_MAX];
    size_t n = 0;
    for (size_t i = 0; i < p->tok->len && n < sizeof digits; i++) {
        if (p->tok->text[i] != '_') digits[n++] = p->tok->text[i];
    }
    if (p->tok->kind == KT__JT_FLOAT) {
        double f;
        if (!kt__jnum_parse(digits, n, &f)) return kt__jp_fail(p, "a number is too long");
        node->value = kt__j_float(f);
    } else {
        int64_t value = 0;
        for (size_t i = 0; i < n; i++) {
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, digits[i] - '0', &value))
                return kt__jp_fail(p, "an integer over 64 bits");
        }
        node->value = kt__j_int(value);
    }
    p->tok++;
    return KT_OK;
}

static kt_status name_expr(kt__jparser *p, kt__jnode *node) {
    const kt__jtok *tok = p->tok++;
    if (kt__jp_is_name(tok, "true") || kt__jp_is_name(tok, "True")) {
        node->value = kt__j_bool(true);
    } else if (kt__jp_is_name(tok, "false") || kt__jp_is_name(tok, "False")) {
        node->value = kt__j_bool(false);
    } else if (kt__jp_is_name(tok, "none") || kt__jp_is_name(tok, "None")) {
        node->value = kt__j_none();
    } else {
        node->kind = KT__JN_NAME;
        return kt__jp_intern(p, tok->text, tok->len, &node->name);
    }
    return KT_OK;
}

/* ---- brackets ---- */

static kt_status list_expr(kt__jparser *p, kt__jnode *node) {
    kt__jchain items = {0};
    node->kind = KT__JN_LIST;
    p->tok++;
    while (!kt__jp_is_op(p->tok, "]")) {
        kt__jnode *item;
        kt_status status = items.first ? kt__jp_expect_op(p, ",") : KT_OK;
        if (status != KT_OK) return status;
        if (kt__jp_is_op(p->tok, "]")) break;
        if ((status = kt__jp_expr(p, &item)) != KT_OK) return status;
        kt__jchain_add(&items, item);
    }
    node->a = items.first;
    return kt__jp_expect_op(p, "]");
}

static kt_status dict_pair(kt__jparser *p, kt__jnode **out) {
    KT__STEP(kt__jp_node(p, KT__JN_PAIR, p->tok->line, out));
    KT__STEP(kt__jp_expr(p, &(*out)->a));
    KT__STEP(kt__jp_expect_op(p, ":"));
    KT__STEP(kt__jp_expr(p, &(*out)->b));
    return kt__jp_close(p, *out);
}

static kt_status dict_expr(kt__jparser *p, kt__jnode *node) {
    kt__jchain pairs = {0};
    node->kind = KT__JN_DICT;
    p->tok++;
    while (!kt__jp_is_op(p->tok, "}")) {
        kt__jnode *pair;
        kt_status status = pairs.first ? kt__jp_expect_op(p, ",") : KT_OK;
        if (status != KT_OK) return status;
        if (kt__jp_is_op(p->tok, "}")) break;
        if ((status = dict_pair(p, &pair)) != KT_OK) return status;
        kt__jchain_add(&pairs, pair);
    }
    node->a = pairs.first;
    return kt__jp_expect_op(p, "}");
}

kt_status kt__jp_primary(kt__jparser *p, kt__jnode **out) {
    const kt__jtok *tok = p->tok;
    kt_status status;
    if (kt__jp_is_op(tok, "(")) {
        p->tok++;
        status = kt__jp_tuple(p, true, false, true, out);
        return status == KT_OK ? kt__jp_expect_op(p, ")") : status;
    }
    if ((status = kt__jp_node(p, KT__JN_CONST, tok->line, out)) != KT_OK) return status;
    if (tok->kind == KT__JT_NAME)
        status = name_expr(p, *out);
    else if (tok->kind == KT__JT_STRING)
        status = string_literal(p, *out);
    else if (tok->kind == KT__JT_INT || tok->kind == KT__JT_FLOAT)
        status = number_literal(p, *out);
    else if (kt__jp_is_op(tok, "["))
        status = list_expr(p, *out);
    else if (kt__jp_is_op(tok, "{"))
        status = dict_expr(p, *out);
    else {
        char buf[64];
        return kt__jp_fail(p, "expected an expression, found %s", kt__jp_describe(tok, buf));
    }
    return status == KT_OK ? kt__jp_close(p, *out) : status;
}

/* ---- calls, subscripts, filters, tests ---- */

/* What the arguments so far leave no room for. */
typedef struct call_so_far {
    bool keyword, spread;
} call_so_far;

/* *items */
static kt_status spread_arg(kt__jparser *p, call_so_far *had, kt__jnode **out) {
    if (had->spread) return kt__jp_fail(p, "a second argument with '*'");
    had->spread = true;
    kt_status status = kt__jp_node(p, KT__JN_SPREAD, p->tok->line, out);
    if (status != KT_OK) return status;
    p->tok++;
    status = kt__jp_expr(p, &(*out)->a);
    return status == KT_OK ? kt__jp_close(p, *out) : status;
}

static kt_status call_arg(kt__jparser *p, call_so_far *had, kt__jnode **out) {
    const kt__jtok *tok = p->tok;
    if (kt__jp_is_op(tok, "**")) return kt__jp_fail(p, "arguments with '**' are not supported");
    if (kt__jp_is_op(tok, "*")) return spread_arg(p, had, out);
    if (tok->kind != KT__JT_NAME || !kt__jp_is_op(tok + 1, "=")) {
        if (had->keyword || had->spread)
            return kt__jp_fail(p, "a positional argument after %s",
                               had->keyword ? "a keyword argument" : "one with '*'");
        return kt__jp_expr(p, out);
    }
    had->keyword = true;
    kt_status status = kt__jp_node(p, KT__JN_KWARG, tok->line, out);
    if (status != KT_OK) return status;
    kt__jstr *name = kt__jstr_new(&p->tmpl->arena, tok->text, tok->len, true);
    if (!name) return kt__jp_nomem(p);
    (*out)->value = kt__j_str(name);
    p->tok += 2;
    status = kt__jp_expr(p, &(*out)->a);
    return status == KT_OK ? kt__jp_close(p, *out) : status;
}

static kt_status call_args(kt__jparser *p, kt__jnode **out) {
    kt__jchain args = {0};
    call_so_far had = {0};
    p->tok++;
    while (!kt__jp_is_op(p->tok, ")")) {
        kt__jnode *arg;
        kt_status status = args.first ? kt__jp_expect_op(p, ",") : KT_OK;
        if (status != KT_OK) return status;
        if (kt__jp_is_op(p->tok, ")")) break;
        if ((status = call_arg(p, &had, &arg)) != KT_OK) return status;
        kt__jchain_add(&args, arg);
    }
    *out = args.first;
    return kt__jp_expect_op(p, ")");
}

static kt_status call_expr(kt__jparser *p, kt__jnode **node) {
    kt__jnode *call;
    kt_status status = kt__jp_node(p, KT__JN_CALL, p->tok->line, &call);
    if (status != KT_OK) return status;
    call->a = *node;
    *node = call;
    status = call_args(p, &call->b);
    return status == KT_OK ? kt__jp_close(p, call) : status;
}

static bool at_subscript_end(kt__jparser *p) {
    return kt__jp_is_op(p->tok, "]") || kt__jp_is_op(p->tok, ",") || kt__jp_is_op(p->tok, ":");
}

/* start:stop:step, each optional, or one expression */
static kt_status subscript_expr(kt__jparser *p, kt__jnode **out) {
    kt__jnode *start = NULL, *slice;
    uint32_t line = p->tok->line;
    kt_status status = KT_OK;
    if (!kt__jp_is_op(p->tok, ":")) {
        status = kt__jp_expr(p, &start);
        *out = start;
        if (status != KT_OK || !kt__jp_is_op(p->tok, ":")) return status;
    }
    p->tok++;
    if ((status = kt__jp_node(p, KT__JN_SLICE, line, &slice)) != KT_OK) return status;
    slice->a = start;
    *out = slice;
    if (!at_subscript_end(p) && (status = kt__jp_expr(p, &slice->b)) != KT_OK) return status;
    if (kt__jp_skip_op(p, ":") && !at_subscript_end(p)) status = kt__jp_expr(p, &slice->c);
    return status == KT_OK ? kt__jp_close(p, slice) : status;
}

static kt_status item_expr(kt__jparser *p, kt__jnode *node) {
    kt__jchain args = {0};
    kt_status status;
    p->tok++;
    while (!kt__jp_is_op(p->tok, "]")) {
        kt__jnode *arg;
        if (args.first && (status = kt__jp_expect_op(p, ",")) != KT_OK) return status;
        if ((status = subscript_expr(p, &arg)) != KT_OK) return status;
        kt__jchain_add(&args, arg);
    }
    node->b = args.first;
    if (!args.first || args.first->next) {
        if ((status = kt__jp_node(p, KT__JN_TUPLE, node->line, &node->b)) != KT_OK) return status;
        for (const kt__jnode *n = args.first; n; n = n->next) {
            if (n->kind == KT__JN_SLICE)
                return kt__jp_fail(p, "a slice with another subscript is not supported");
        }
        node->b->a = args.first;
        if ((status = kt__jp_close(p, node->b)) != KT_OK) return status;
    }
    return kt__jp_expect_op(p, "]");
}

static kt_status dot_expr(kt__jparser *p, kt__jnode *node) {
    const kt__jtok *tok = ++p->tok;
    if (tok->kind == KT__JT_NAME) {
        node->kind = KT__JN_GETATTR;
        kt__jstr *name = kt__jstr_new(&p->tmpl->arena, tok->text, tok->len, true);
        if (!name) return kt__jp_nomem(p);
        node->value = kt__j_str(name);
        p->tok++;
        return KT_OK;
    }
    if (tok->kind != KT__JT_INT) return kt__jp_fail(p, "expected a name or a number after '.'");
    kt_status status = kt__jp_node(p, KT__JN_CONST, tok->line, &node->b);
    if (status == KT_OK) status = number_literal(p, node->b);
    return status == KT_OK ? kt__jp_close(p, node->b) : status;
}

static kt_status postfix_expr(kt__jparser *p, kt__jnode **node) {
    kt_status status = KT_OK;
    while (status == KT_OK) {
        bool dot = kt__jp_is_op(p->tok, ".");
        if (kt__jp_is_op(p->tok, "(")) {
            status = call_expr(p, node);
        } else if (dot || kt__jp_is_op(p->tok, "[")) {
            kt__jnode *outer;
            status = kt__jp_node(p, KT__JN_GETITEM, p->tok->line, &outer);
            if (status != KT_OK) break;
            outer->a = *node;
            *node = outer;
            status = dot ? dot_expr(p, outer) : item_expr(p, outer);
            if (status == KT_OK) status = kt__jp_close(p, outer);
        } else {
            break;
        }
    }
    return status;
}

/* The name of a filter or a test; dots may join several. */
static kt_status dotted_name(kt__jparser *p, kt__jnode *node) {
    const kt__jtok *first = p->tok;
    kt_status status = kt__jp_expect(p, KT__JT_NAME);
    while (status == KT_OK && kt__jp_skip_op(p, ".")) status = kt__jp_expect(p, KT__JT_NAME);
    if (status != KT_OK) return status;
    const kt__jtok *last = p->tok - 1;
    size_t len = (size_t)(last->text + last->len - first->text);
    kt__jstr *name = kt__jstr_new(&p->tmpl->arena, first->text, len, true);
    if (!name) return kt__jp_nomem(p);
    node->value = kt__j_str(name);
    return KT_OK;
}

static kt_status filter_expr(kt__jparser *p, kt__jnode **node) {
    kt__jnode *filter;
    kt_status status = kt__jp_node(p, KT__JN_FILTER, p->tok->line, &filter);
    if (status == KT_OK) status = dotted_name(p, filter);
    if (status != KT_OK) return status;
    filter->op = kt__j_find_filter(filter->value.u.s->data, filter->value.u.s->len);
    filter->a = *node;
    *node = filter;
    if (kt__jp_is_op(p->tok, "(")) status = call_args(p, &filter->b);
    return status == KT_OK ? kt__jp_close(p, filter) : status;
}

kt_status kt__jp_filters(kt__jparser *p, bool inline_start, kt__jnode **out) {
    kt_status status = inline_start ? filter_expr(p, out) : KT_OK;
    while (status == KT_OK && kt__jp_skip_op(p, "|")) status = filter_expr(p, out);
    return status;
}

/* Whether a test's one argument may follow without parentheses here. */
static bool at_bare_argument(const kt__jtok *tok) {
    if (tok->kind == KT__JT_NAME)
        return !kt__jp_is_name(tok, "else") && !kt__jp_is_name(tok, "or") &&
               !kt__jp_is_name(tok, "and");
    return tok->kind == KT__JT_STRING || tok->kind == KT__JT_INT || tok->kind == KT__JT_FLOAT ||
           kt__jp_is_op(tok, "[") || kt__jp_is_op(tok, "{");
}

static kt_status test_args(kt__jparser *p, kt__jnode *test) {
    if (kt__jp_is_op(p->tok, "(")) return call_args(p, &test->b);
    if (!at_bare_argument(p->tok)) return KT_OK;
    if (kt__jp_is_name(p->tok, "is")) return kt__jp_fail(p, "tests cannot be chained with 'is'");
    kt_status status = kt__jp_primary(p, &test->b);
    return status == KT_OK ? postfix_expr(p, &test->b) : status;
}

static kt_status test_expr(kt__jparser *p, kt__jnode **node) {
    kt__jnode *test, *outer;
    uint32_t line = p->tok++->line;
    bool negated = kt__jp_skip_name(p, "not");
    KT__STEP(kt__jp_node(p, KT__JN_TEST, line, &test));
    KT__STEP(dotted_name(p, test));
    test->op = kt__j_find_test(test->value.u.s->data, test->value.u.s->len);
    test->a = *node;
    *node = test;
    KT__STEP(test_args(p, test));
    KT__STEP(kt__jp_close(p, test));
    if (!negated) return KT_OK;
    KT__STEP(kt__jp_node(p, KT__JN_NOT, line, &outer));
    outer->a = test;
    *node = outer;
    return kt__jp_close(p, outer);
}

static kt_status filters_and_tests(kt__jparser *p, kt__jnode **node) {
    kt_status status = KT_OK;
    while (status == KT_OK) {
        if (kt__jp_skip_op(p, "|"))
            status = filter_expr(p, node);
        else if (kt__jp_is_name(p->tok, "is"))
            status = test_expr(p, node);
        else if (kt__jp_is_op(p->tok, "("))
            status = call_expr(p, node);
        else
            break;
    }
    return status;
}

/* ---- operators ---- */

static kt_status unary_expr(kt__jparser *p, bool with_filter, kt__jnode **out);

static kt_status signed_or_primary(kt__jparser *p, kt__jnode **out) {
    bool neg = kt__jp_is_op(p->tok, "-");
    if (!neg && !kt__jp_is_op(p->tok, "+")) return kt__jp_primary(p, out);
    KT__STEP(kt__jp_node(p, neg ? KT__JN_NEG : KT__JN_POS, p->tok->line, out));
    p->tok++;
    KT__STEP(unary_expr(p, false, &(*out)->a));
    return kt__jp_close(p, *out);
}

static kt_status unary_expr(kt__jparser *p, bool with_filter, kt__jnode **out) {
    kt_status status;
    KT__STEP(kt__jp_enter(p));
    KT__TRY(signed_or_primary(p, out));
    KT__TRY(postfix_expr(p, out));
    if (with_filter) KT__TRY(filters_and_tests(p, out));
out:
    p->nest--;
    return status;
}

static kt_status unary_operand(kt__jparser *p, kt__jnode **out) {
    return unary_expr(p, true, out);
}

typedef struct binary_level {
    const char *ops[4];
    kt__jop codes[4];
    size_t n;
} binary_level;

static const binary_level mul_level = {
    {"*", "/", "//", "%"}, {KT__JOP_MUL, KT__JOP_DIV, KT__JOP_FLOORDIV, KT__JOP_MOD}, 4};
static const binary_level add_level = {{"+", "-"}, {KT__JOP_ADD, KT__JOP_SUB}, 2};

typedef kt_status operand_fn(kt__jparser *p, kt__jnode **out);

/* operand (op operand)*, to the left */
static kt_status binary_expr(kt__jparser *p, const binary_level *level, operand_fn *operand,
                             kt__jnode **out) {
    kt_status status = operand(p, out);
    while (status == KT_OK) {
        size_t i = 0;
        while (i < level->n && !kt__jp_is_op(p->tok, level->ops[i])) i++;
        if (i == level->n) break;
        kt__jnode *node;
        if ((status = kt__jp_node(p, KT__JN_BINARY, p->tok->line, &node)) != KT_OK) break;
        p->tok++;
        node->op = (uint16_t)level->codes[i];
        node->a = *out;
        *out = node;
        status = operand(p, &node->b);
        if (status == KT_OK) status = kt__jp_close(p, node);
    }
    return status;
}

static kt_status product_expr(kt__jparser *p, kt__jnode **out) {
    return binary_expr(p, &mul_level, unary_operand, out);
}

static kt_status concat_expr(kt__jparser *p, kt__jnode **out) {
    kt__jchain parts = {0};
    kt__jnode *node;
    uint32_t line = p->tok->line;
    kt_status status = product_expr(p, out);
    if (status != KT_OK || !kt__jp_is_op(p->tok, "~")) return status;
    kt__jchain_add(&parts, *out);
    while (kt__jp_skip_op(p, "~")) {
        if ((status = product_expr(p, &node)) != KT_OK) return status;
        kt__jchain_add(&parts, node);
    }
    if ((status = kt__jp_node(p, KT__JN_CONCAT, line, out)) != KT_OK) return status;
    (*out)->a = parts.first;
    return kt__jp_close(p, *out);
}

static kt_status sum_expr(kt__jparser *p, kt__jnode **out) {
    return binary_expr(p, &add_level, concat_expr, out);
}

/* Takes a comparison operator. */
static bool comparison_op(kt__jparser *p, uint16_t *op) {
    static const struct {
        const char *text;
        kt__jop op;
    } ops[] = {{"==", KT__JOP_EQ}, {"!=", KT__JOP_NE}, {"<", KT__JOP_LT},
               {"<=", KT__JOP_LE}, {">", KT__JOP_GT},  {">=", KT__JOP_GE}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        *op = (uint16_t)ops[i].op;
        if (kt__jp_skip_op(p, ops[i].text)) return true;
    }
    *op = KT__JOP_IN;
    if (kt__jp_skip_name(p, "in")) return true;
    if (!kt__jp_is_name(p->tok, "not") || !kt__jp_is_name(p->tok + 1, "in")) return false;
    p->tok += 2;
    *op = KT__JOP_NOT_IN;
    return true;
}

static kt_status compare_expr(kt__jparser *p, kt__jnode **out) {
    kt__jchain operands = {0};
    kt__jnode *node;
    uint16_t op;
    uint32_t line = p->tok->line;
    kt_status status = sum_expr(p, out);
    while (status == KT_OK && comparison_op(p, &op)) {
        if ((status = kt__jp_node(p, KT__JN_OPERAND, p->tok->line, &node)) != KT_OK) break;
        node->op = op;
        status = sum_expr(p, &node->a);
        if (status == KT_OK) status = kt__jp_close(p, node);
        kt__jchain_add(&operands, node);
    }
    if (status != KT_OK || !operands.first) return status;
    kt__jnode *first = *out;
    if ((status = kt__jp_node(p, KT__JN_COMPARE, line, out)) != KT_OK) return status;
    (*out)->a = first;
    (*out)->b = operands.first;
    return kt__jp_close(p, *out);
}

static kt_status not_expr(kt__jparser *p, kt__jnode **out) {
    uint32_t line = p->tok->line;
    if (!kt__jp_skip_name(p, "not")) return compare_expr(p, out);
    kt_status status = kt__jp_enter(p);
    if (status != KT_OK) return status;
    status = kt__jp_node(p, KT__JN_NOT, line, out);
    if (status == KT_OK) status = not_expr(p, &(*out)->a);
    p->nest--;
    return status == KT_OK ? kt__jp_close(p, *out) : status;
}

static kt_status parse_logical(kt__jparser *p, const char *word, kt__jnode_kind kind,
                               operand_fn *operand, kt__jnode **out) {
    kt_status status = operand(p, out);
    while (status == KT_OK && kt__jp_is_name(p->tok, word)) {
        kt__jnode *node;
        if ((status = kt__jp_node(p, kind, p->tok->line, &node)) != KT_OK) break;
        p->tok++;
        node->a = *out;
        *out = node;
        status = operand(p, &node->b);
        if (status == KT_OK) status = kt__jp_close(p, node);
    }
    return status;
}

static kt_status and_expr(kt__jparser *p, kt__jnode **out) {
    return parse_logical(p, "and", KT__JN_AND, not_expr, out);
}

static kt_status or_expr(kt__jparser *p, kt__jnode **out) {
    return parse_logical(p, "or", KT__JN_OR, and_expr, out);
}

static kt_status cond_expr(kt__jparser *p, kt__jnode **out) {
    KT__STEP(or_expr(p, out));
    while (kt__jp_is_name(p->tok, "if")) {
        kt__jnode *node;
        KT__STEP(kt__jp_node(p, KT__JN_COND, p->tok->line, &node));
        p->tok++;
        node->b = *out;
        *out = node;
        KT__STEP(or_expr(p, &node->a));
        if (kt__jp_skip_name(p, "else")) KT__STEP(kt__jp_expr(p, &node->c));
        KT__STEP(kt__jp_close(p, node));
    }
    return KT_OK;
}

kt_status kt__jp_expr(kt__jparser *p, kt__jnode **out) {
    kt_status status = kt__jp_enter(p);
    if (status != KT_OK) return status;
    status = cond_expr(p, out);
    p->nest--;
    return status;
}

/* ---- tuples ---- */

static bool at_tuple_end(const kt__jparser *p, bool targets) {
    return p->tok->kind == KT__JT_VAR_END || p->tok->kind == KT__JT_BLOCK_END ||
           kt__jp_is_op(p->tok, ")") ||
           (targets ? kt__jp_is_name(p->tok, "in") : kt__jp_is_name(p->tok, "recursive"));
}

kt_status kt__jp_tuple(kt__jparser *p, bool with_cond, bool targets, bool parentheses,
                       kt__jnode **out) {
    kt__jchain items = {0};
    bool is_tuple = false;
    uint32_t line = p->tok->line;
    kt_status status;
    for (;;) {
        kt__jnode *item;
        if (items.first && (status = kt__jp_expect_op(p, ",")) != KT_OK) return status;
        if (at_tuple_end(p, targets)) break;
        status = targets     ? kt__jp_primary(p, &item)
                 : with_cond ? kt__jp_expr(p, &item)
                             : or_expr(p, &item);
        if (status != KT_OK) return status;
        kt__jchain_add(&items, item);
        if (!kt__jp_is_op(p->tok, ",")) break;
        is_tuple = true;
    }
    if (!is_tuple && items.first) {
        *out = items.first;
        return KT_OK;
    }
    if (!is_tuple && !parentheses) {
        char buf[64];
        return kt__jp_fail(p, "expected an expression, found %s", kt__jp_describe(p->tok, buf));
    }
    if ((status = kt__jp_node(p, KT__JN_TUPLE, line, out)) != KT_OK) return status;
    (*out)->a = items.first;
    return kt__jp_close(p, *out);
}
