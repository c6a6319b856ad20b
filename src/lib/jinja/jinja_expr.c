/* Evaluating expressions. */
#include <string.h>

#include "jinja/jinja_run.h"

/* The positional arguments, of which there were room for `room`, and the items of *a after them. */
static kt_status add_spread(kt__jx *x, const kt__jnode *a, size_t room, kt__jframe *frame,
                            kt__jv **pos, size_t *n_pos) {
    kt__jv items;
    const kt__jv *item;
    size_t n;
    KT__STEP(kt__jx_eval(x, a, frame, &items));
    KT__STEP(kt__jx_items(x, items, &item, &n));
    KT__STEP(kt__jx_step(x, n));
    kt__jv *grown = kt__arena_alloc(&x->arena, (room + n) * sizeof *grown);
    if (!grown) return kt__jx_nomem(x);
    memcpy(grown, *pos, *n_pos * sizeof *grown);
    if (n) memcpy(grown + *n_pos, item, n * sizeof *grown);
    *pos = grown;
    *n_pos += n;
    return KT_OK;
}

static kt_status eval_args(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jargs *out) {
    size_t n = 0;
    for (const kt__jnode *a = node; a; a = a->next) n++;
    *out = (kt__jargs){0};
    if (!n) return KT_OK;
    kt__jv *pos = kt__arena_alloc(&x->arena, n * sizeof *pos);
    kt__jkwarg *kw = kt__arena_alloc(&x->arena, n * sizeof *kw);
    if (!pos || !kw) return kt__jx_nomem(x);
    for (const kt__jnode *a = node; a; a = a->next) {
        if (a->kind == KT__JN_KWARG) {
            kw[out->n_kw].name = a->value.u.s;
            KT__STEP(kt__jx_eval(x, a->a, frame, &kw[out->n_kw++].val));
        } else if (a->kind == KT__JN_SPREAD) {
            KT__STEP(add_spread(x, a->a, n, frame, &pos, &out->n_pos));
        } else {
            KT__STEP(kt__jx_eval(x, a, frame, &pos[out->n_pos++]));
        }
    }
    out->pos = pos;
    out->kw = kw;
    return KT_OK;
}

static kt_status call_value(kt__jx *x, kt__jv callee, const kt__jargs *args, kt__jv *out) {
    switch (callee.type) {
    case KT__J_MACRO: return callee.u.macro->call(x, callee.u.macro, args, out);
    case KT__J_BUILTIN: return kt__jx_global(x, callee.u.i, args, out);
    case KT__J_METHOD: return callee.u.method->fn(x, callee.u.method->self, args, out);
    case KT__J_UNDEF: return kt__jx_undefined(x, callee);
    default: return kt__jx_fail(x, "a value of type %s cannot be called", kt__j_type_name(callee));
    }
}

/* ---- expressions ---- */

static kt_status eval_list(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jlist *list;
    kt__jlist_kind kind = node->kind == KT__JN_TUPLE ? KT__JL_TUPLE : KT__JL_LIST;
    KT__STEP(kt__jx_list(x, kind, NULL, 0, &list));
    for (const kt__jnode *item = node->a; item; item = item->next) {
        kt__jv v;
        KT__STEP(kt__jx_eval(x, item, frame, &v));
        KT__STEP(kt__jx_push(x, list, v));
    }
    *out = kt__j_list(list);
    return KT_OK;
}

static kt_status eval_dict(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jdict *dict = kt__jdict_new(&x->arena);
    if (!dict) return kt__jx_nomem(x);
    for (const kt__jnode *pair = node->a; pair; pair = pair->next) {
        kt__jv key, val;
        KT__STEP(kt__jx_eval(x, pair->a, frame, &key));
        KT__STEP(kt__jx_eval(x, pair->b, frame, &val));
        KT__STEP(kt__jx_put(x, dict, key, val));
    }
    *out = kt__j_dict(dict);
    return KT_OK;
}

static kt_status eval_logical(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    KT__STEP(kt__jx_eval(x, node->a, frame, out));
    if (kt__j_truth(*out) != (node->kind == KT__JN_AND)) return KT_OK;
    return kt__jx_eval(x, node->b, frame, out);
}

static kt_status eval_binary(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv a, b;
    KT__STEP(kt__jx_eval(x, node->a, frame, &a));
    KT__STEP(kt__jx_eval(x, node->b, frame, &b));
    x->line = node->line;
    return kt__jx_binary(x, (kt__jop)node->op, a, b, out);
}

static kt_status eval_concat(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jsb text;
    kt__jx_sink(x, &text);
    for (const kt__jnode *part = node->a; part; part = part->next) {
        kt__jv v;
        KT__STEP(kt__jx_eval(x, part, frame, &v));
        KT__STEP(kt__jx_add_str(x, &text, v));
    }
    return kt__jx_sink_done(x, &text, out);
}

/* a < b < c: each operand once, up to the first that does not hold */
static kt_status eval_compare(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv left, right;
    bool holds = true;
    KT__STEP(kt__jx_eval(x, node->a, frame, &left));
    for (const kt__jnode *op = node->b; op && holds; op = op->next) {
        KT__STEP(kt__jx_eval(x, op->a, frame, &right));
        x->line = node->line;
        KT__STEP(kt__jx_compare(x, (kt__jop)op->op, left, right, &holds));
        left = right;
    }
    *out = kt__j_bool(holds);
    return KT_OK;
}

static kt_status eval_cond(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv test;
    KT__STEP(kt__jx_eval(x, node->a, frame, &test));
    const kt__jnode *branch = kt__j_truth(test) ? node->b : node->c;
    if (branch) return kt__jx_eval(x, branch, frame, out);
    *out = kt__j_undef(NULL);
    return KT_OK;
}

static kt_status eval_slice(kt__jx *x, const kt__jnode *slice, kt__jframe *frame, kt__jv obj,
                            kt__jv *out) {
    const kt__jnode *const parts[3] = {slice->a, slice->b, slice->c};
    kt__jv bounds[3];
    for (int i = 0; i < 3; i++) {
        bounds[i] = kt__j_none();
        if (parts[i]) KT__STEP(kt__jx_eval(x, parts[i], frame, &bounds[i]));
    }
    x->line = slice->line;
    return kt__jx_slice(x, obj, bounds[0], bounds[1], bounds[2], out);
}

static kt_status eval_getitem(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv obj, key;
    KT__STEP(kt__jx_eval(x, node->a, frame, &obj));
    if (node->b->kind == KT__JN_SLICE) return eval_slice(x, node->b, frame, obj, out);
    KT__STEP(kt__jx_eval(x, node->b, frame, &key));
    x->line = node->line;
    return kt__jx_getitem(x, obj, key, out);
}

static kt_status eval_getattr(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv obj;
    KT__STEP(kt__jx_eval(x, node->a, frame, &obj));
    x->line = node->line;
    return kt__jx_getattr(x, obj, node->value.u.s, out);
}

static kt_status eval_call(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv callee;
    kt__jargs args;
    KT__STEP(kt__jx_eval(x, node->a, frame, &callee));
    KT__STEP(eval_args(x, node->b, frame, &args));
    x->line = node->line;
    return call_value(x, callee, &args, out);
}

static kt_status apply_filter(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv input,
                              kt__jv *out) {
    kt__jargs args;
    KT__STEP(eval_args(x, node->b, frame, &args));
    x->line = node->line;
    if (node->op == KT__J_UNKNOWN)
        return kt__jx_fail(x, "no filter is named '%.*s'", (int)node->value.u.s->len,
                           node->value.u.s->data);
    return kt__jx_filter(x, node->op, input, &args, out);
}

kt_status kt__jx_eval_filters(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv input,
                              kt__jv *out) {
    if (node->a) {
        KT__STEP(kt__jx_enter(x));
        KT__STEP(kt__jx_eval_filters(x, node->a, frame, input, &input));
        x->depth--;
    }
    return apply_filter(x, node, frame, input, out);
}

static kt_status eval_filter(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv input;
    KT__STEP(kt__jx_eval(x, node->a, frame, &input));
    return apply_filter(x, node, frame, input, out);
}

static kt_status eval_test(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv input;
    kt__jargs args;
    bool holds;
    KT__STEP(kt__jx_eval(x, node->a, frame, &input));
    KT__STEP(eval_args(x, node->b, frame, &args));
    x->line = node->line;
    if (node->op == KT__J_UNKNOWN)
        return kt__jx_fail(x, "no test is named '%.*s'", (int)node->value.u.s->len,
                           node->value.u.s->data);
    KT__STEP(kt__jx_test(x, node->op, input, &args, &holds));
    *out = kt__j_bool(holds);
    return KT_OK;
}

static kt_status eval_unary(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv v;
    KT__STEP(kt__jx_eval(x, node->a, frame, &v));
    x->line = node->line;
    if (node->kind != KT__JN_NOT) return kt__jx_negate(x, v, node->kind == KT__JN_NEG, out);
    *out = kt__j_bool(!kt__j_truth(v));
    return KT_OK;
}

static kt_status eval_kind(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    switch (node->kind) {
    case KT__JN_CONST: *out = node->value; return KT_OK;
    case KT__JN_NAME: *out = kt__jx_lookup(x, frame, node->name); return KT_OK;
    case KT__JN_LIST:
    case KT__JN_TUPLE: return eval_list(x, node, frame, out);
    case KT__JN_DICT: return eval_dict(x, node, frame, out);
    case KT__JN_AND:
    case KT__JN_OR: return eval_logical(x, node, frame, out);
    case KT__JN_NOT:
    case KT__JN_NEG:
    case KT__JN_POS: return eval_unary(x, node, frame, out);
    case KT__JN_BINARY: return eval_binary(x, node, frame, out);
    case KT__JN_CONCAT: return eval_concat(x, node, frame, out);
    case KT__JN_COMPARE: return eval_compare(x, node, frame, out);
    case KT__JN_COND: return eval_cond(x, node, frame, out);
    case KT__JN_GETATTR: return eval_getattr(x, node, frame, out);
    case KT__JN_GETITEM: return eval_getitem(x, node, frame, out);
    case KT__JN_CALL: return eval_call(x, node, frame, out);
    case KT__JN_FILTER: return eval_filter(x, node, frame, out);
    case KT__JN_TEST: return eval_test(x, node, frame, out);
    default: return kt__jx_fail(x, "an unexpected expression");
    }
}

kt_status kt__jx_eval(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    x->line = node->line;
    KT__STEP(kt__jx_enter(x));
    KT__STEP(eval_kind(x, node, frame, out));
    x->depth--;
    return KT_OK;
}
