/* Evaluating expressions: names, attributes, items, calls. */
#include <string.h>

#include "jinja/jinja_eval.h"
#include "jinja/jinja_names.h"

/* ---- small helpers for every file ---- */

kt_status kt__jx_push(kt__jx *x, kt__jlist *list, kt__jv v) {
    return kt__jlist_push(&x->arena, list, v) ? KT_OK : kt__jx_nomem(x);
}

kt_status kt__jx_list(kt__jx *x, kt__jlist_kind kind, const kt__jv *items, size_t n,
                      kt__jlist **out) {
    KT__JTRY(kt__jx_step(x, n / 8));
    *out = kt__jlist_new(&x->arena, kind, n);
    if (!*out) return kt__jx_nomem(x);
    if (n) memcpy((*out)->items, items, n * sizeof *items);
    (*out)->n = n;
    return KT_OK;
}

kt_status kt__jx_bad_key(kt__jx *x, kt__jv key) {
    KT__JTRY(kt__jx_step(x, 1)); /* hashing stops where the steps end */
    return kt__jx_fail(x, "a %s cannot be a key", kt__j_type_name(key));
}

kt_status kt__jx_put(kt__jx *x, kt__jdict *dict, kt__jv key, kt__jv val) {
    switch (kt__jdict_set(&x->arena, dict, key, val, &x->steps)) {
    case KT__JKEY_NOMEM: return kt__jx_nomem(x);
    case KT__JKEY_BAD: return kt__jx_bad_key(x, key);
    default: return KT_OK;
    }
}

kt_status kt__jx_sub(kt__jx *x, const kt__jstr *s, size_t from, size_t to, kt__jv *out) {
    KT__JTRY(kt__jx_step(x, (to - from) / 64 + 1));
    const kt__jstr *sub = kt__jstr_sub(&x->arena, s, from, to);
    if (!sub) return kt__jx_nomem(x);
    *out = kt__j_str(sub);
    return KT_OK;
}

kt_status kt__jx_literal(kt__jx *x, const char *text, kt__jv *out) {
    const kt__jstr *s = kt__jstr_new(&x->arena, text, strlen(text), true);
    if (!s) return kt__jx_nomem(x);
    *out = kt__j_str(s);
    return KT_OK;
}

kt_status kt__jx_undefined(kt__jx *x, kt__jv v) {
    if (v.u.s) return kt__jx_fail(x, "'%.*s' is undefined", (int)v.u.s->len, v.u.s->data);
    return kt__jx_fail(x, "an undefined value is used");
}

/* ---- walking ---- */

bool kt__jx_is_iterable(kt__jv v) {
    return v.type == KT__J_LIST || v.type == KT__J_STR || v.type == KT__J_DICT ||
           v.type == KT__J_UNDEF || v.type == KT__J_LOOP;
}

static kt_status characters(kt__jx *x, const kt__jstr *s, const kt__jv **items) {
    KT__JTRY(kt__jx_step(x, s->n_cp));
    kt__jv *chars = kt__arena_calloc(&x->arena, s->n_cp + 1, sizeof *chars);
    if (!chars) return kt__jx_nomem(x);
    for (size_t i = 0, at = 0; i < s->n_cp; i++) {
        size_t end = at + 1;
        while (end < s->len && ((unsigned char)s->data[end] & 0xC0) == 0x80) end++;
        KT__JTRY(kt__jx_sub(x, s, at, end, &chars[i]));
        at = end;
    }
    *items = chars;
    return KT_OK;
}

static kt_status dict_keys(kt__jx *x, const kt__jdict *dict, const kt__jv **items) {
    KT__JTRY(kt__jx_step(x, dict->n));
    kt__jv *keys = kt__arena_calloc(&x->arena, dict->n + 1, sizeof *keys);
    if (!keys) return kt__jx_nomem(x);
    for (size_t i = 0; i < dict->n; i++) keys[i] = dict->items[i].key;
    *items = keys;
    return KT_OK;
}

kt_status kt__jx_items(kt__jx *x, kt__jv v, const kt__jv **items, size_t *n) {
    *n = 0;
    *items = NULL;
    switch (v.type) {
    case KT__J_UNDEF: return KT_OK;
    case KT__J_STR: *n = v.u.s->n_cp; return characters(x, v.u.s, items);
    case KT__J_DICT: *n = v.u.d->n; return dict_keys(x, v.u.d, items);
    case KT__J_LIST: {
        size_t pos = v.u.l->kind == KT__JL_ITER ? v.u.l->pos : 0;
        *items = pos ? v.u.l->items + pos : v.u.l->items;
        *n = v.u.l->n - pos;
        v.u.l->pos = v.u.l->n; /* only generators look at it */
        return kt__jx_step(x, *n / 8);
    }
    default: return kt__jx_fail(x, "a value of type %s cannot be walked", kt__j_type_name(v));
    }
}

kt_status kt__jx_length(kt__jx *x, kt__jv v, int64_t *out) {
    switch (v.type) {
    case KT__J_UNDEF: *out = 0; return KT_OK;
    case KT__J_STR: *out = (int64_t)v.u.s->n_cp; return KT_OK;
    case KT__J_DICT: *out = (int64_t)v.u.d->n; return KT_OK;
    case KT__J_LIST:
        *out = (int64_t)v.u.l->n;
        if (v.u.l->kind != KT__JL_ITER) return KT_OK;
        break;
    default: break;
    }
    return kt__jx_fail(x, "a value of type %s has no length", kt__j_type_name(v));
}

/* ---- attributes and items ---- */

static kt_status bound_method(kt__jx *x, kt__jv obj, const kt__jstr *name, bool *found,
                              kt__jv *out) {
    kt__jmethod m, *kept;
    *found = kt__jx_find_method(obj, name, &m);
    if (!*found) return KT_OK;
    kept = kt__arena_alloc(&x->arena, sizeof *kept);
    if (!kept) return kt__jx_nomem(x);
    *kept = m;
    *out = (kt__jv){.type = KT__J_METHOD, .u.method = kept};
    return KT_OK;
}

static kt_status dict_item(kt__jx *x, const kt__jdict *dict, kt__jv key, bool *found, kt__jv *out) {
    *found = kt__jdict_get(dict, key, out, &x->steps) == KT__JKEY_FOUND;
    return kt__jx_step(x, 1);
}

static kt_status sequence_item(kt__jx *x, kt__jv obj, kt__jv key, bool *found, kt__jv *out) {
    int64_t n, i = key.type == KT__J_BOOL ? key.u.b : key.u.i;
    *found = false;
    if (obj.type == KT__J_LIST && obj.u.l->kind > KT__JL_RANGE) return KT_OK;
    KT__JTRY(kt__jx_length(x, obj, &n));
    if (i < 0) i += n;
    if (i < 0 || i >= n) return KT_OK;
    *found = true;
    if (obj.type == KT__J_LIST) {
        *out = obj.u.l->items[i];
        return KT_OK;
    }
    const kt__jstr *s = obj.u.s;
    size_t from = kt__jstr_offset(s, (size_t)i), to = from + 1;
    if (s->n_cp != s->len) KT__JTRY(kt__jx_step(x, from / 64));
    while (to < s->len && ((unsigned char)s->data[to] & 0xC0) == 0x80) to++;
    return kt__jx_sub(x, s, from, to, out);
}

/* obj[key] as Python has it; *found is false where that raises TypeError, KeyError or IndexError.
 */
static kt_status plain_item(kt__jx *x, kt__jv obj, kt__jv key, bool *found, kt__jv *out) {
    *found = false;
    if (obj.type == KT__J_DICT) return dict_item(x, obj.u.d, key, found, out);
    bool is_int = key.type == KT__J_INT || key.type == KT__J_BOOL;
    if (is_int && (obj.type == KT__J_LIST || obj.type == KT__J_STR))
        return sequence_item(x, obj, key, found, out);
    return KT_OK;
}

static kt_status undefined_attr(kt__jv key, kt__jv *out) {
    *out = kt__j_undef(key.type == KT__J_STR ? key.u.s : NULL);
    return KT_OK;
}

/* An attribute proper: a method, a namespace's member, loop's. */
static kt_status plain_attr(kt__jx *x, kt__jv obj, const kt__jstr *name, bool *found, kt__jv *out) {
    *found = true;
    if (obj.type == KT__J_LOOP) return kt__jx_loop_attr(x, obj.u.loop, name, out);
    if (obj.type == KT__J_NAMESPACE) return dict_item(x, obj.u.d, kt__j_str(name), found, out);
    if (obj.type == KT__J_MACRO && kt__jstr_is(name, "name")) return kt__jx_literal(x, "", out);
    return bound_method(x, obj, name, found, out);
}

kt_status kt__jx_getattr(kt__jx *x, kt__jv obj, const kt__jstr *name, kt__jv *out) {
    bool found;
    if (obj.type == KT__J_UNDEF) return kt__jx_undefined(x, obj);
    KT__JTRY(plain_attr(x, obj, name, &found, out));
    if (!found) KT__JTRY(plain_item(x, obj, kt__j_str(name), &found, out));
    return found ? KT_OK : undefined_attr(kt__j_str(name), out);
}

kt_status kt__jx_getitem(kt__jx *x, kt__jv obj, kt__jv key, kt__jv *out) {
    bool found;
    if (obj.type == KT__J_UNDEF) return kt__jx_undefined(x, obj);
    KT__JTRY(plain_item(x, obj, key, &found, out));
    if (!found && key.type == KT__J_STR) KT__JTRY(plain_attr(x, obj, key.u.s, &found, out));
    return found ? KT_OK : undefined_attr(key, out);
}

/* ---- arguments ---- */

kt_status kt__jx_bind(kt__jx *x, const char *what, const kt__jargs *args, const char *const *names,
                      size_t n, size_t n_required, kt__jv *slots) {
    if (args->n_pos > n)
        return kt__jx_fail(x, "%s takes at most %zu arguments, not %zu", what, n, args->n_pos);
    for (size_t i = 0; i < n; i++)
        slots[i] = i < args->n_pos ? args->pos[i] : (kt__jv){.type = KT__J_MISSING};
    for (size_t k = 0; k < args->n_kw; k++) {
        const kt__jstr *name = args->kw[k].name;
        size_t i = 0;
        while (i < n && !kt__jstr_is(name, names[i])) i++;
        if (i == n || slots[i].type != KT__J_MISSING)
            return kt__jx_fail(x, "%s: unexpected argument '%.*s'", what, (int)name->len,
                               name->data);
        slots[i] = args->kw[k].val;
    }
    for (size_t i = 0; i < n_required; i++) {
        if (slots[i].type == KT__J_MISSING)
            return kt__jx_fail(x, "%s: the argument '%s' is missing", what, names[i]);
    }
    return KT_OK;
}

kt_status kt__jx_no_args(kt__jx *x, const char *what, const kt__jargs *args) {
    if (args->n_pos + args->n_kw == 0) return KT_OK;
    return kt__jx_fail(x, "%s takes no arguments", what);
}

kt_status kt__jx_int(kt__jx *x, const char *what, kt__jv v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    if (v.type == KT__J_MISSING) return KT_OK;
    *out = v.type == KT__J_BOOL ? v.u.b : v.u.i;
    if (v.type == KT__J_INT || v.type == KT__J_BOOL) return KT_OK;
    return kt__jx_fail(x, "%s: expected an integer, not %s", what, kt__j_type_name(v));
}

kt_status kt__jx_text(kt__jx *x, const char *what, kt__jv v, const kt__jstr **out) {
    *out = v.u.s;
    if (v.type == KT__J_STR) return KT_OK;
    return kt__jx_fail(x, "%s: expected a string, not %s", what, kt__j_type_name(v));
}

/* extra: one more named argument, or NULL */
static kt_status eval_args(kt__jx *x, const kt__jnode *node, kt__jframe *frame,
                           const kt__jkwarg *extra, kt__jargs *out) {
    size_t n = 0;
    for (const kt__jnode *a = node; a; a = a->next) n++;
    n += extra != NULL;
    *out = (kt__jargs){0};
    if (!n) return KT_OK;
    kt__jv *pos = kt__arena_alloc(&x->arena, n * sizeof *pos);
    kt__jkwarg *kw = kt__arena_alloc(&x->arena, n * sizeof *kw);
    if (!pos || !kw) return kt__jx_nomem(x);
    for (const kt__jnode *a = node; a; a = a->next) {
        if (a->kind == KT__JN_KWARG) {
            kw[out->n_kw].name = a->value.u.s;
            KT__JTRY(kt__jx_eval(x, a->a, frame, &kw[out->n_kw++].val));
        } else {
            KT__JTRY(kt__jx_eval(x, a, frame, &pos[out->n_pos++]));
        }
    }
    if (extra) kw[out->n_kw++] = *extra;
    out->pos = pos;
    out->kw = kw;
    return KT_OK;
}

/* ---- macros ---- */

/* The keyword argument `name`, marked as taken. */
static kt__jv take_kwarg(const kt__jargs *args, bool *taken, const kt__jstr *name) {
    for (size_t k = 0; k < args->n_kw; k++) {
        if (taken[k] || !kt__jstr_eq(args->kw[k].name, name)) continue;
        taken[k] = true;
        return args->kw[k].val;
    }
    return (kt__jv){.type = KT__J_MISSING};
}

static kt_status bind_params(kt__jx *x, const kt__jnode *def, const kt__jargs *args, bool *taken,
                             kt__jframe *frame) {
    size_t i = 0;
    for (const kt__jnode *p = def->a; p; p = p->next, i++) {
        kt__jv val = i < args->n_pos ? args->pos[i] : take_kwarg(args, taken, p->value.u.s);
        if (val.type == KT__J_MISSING && p->a) KT__JTRY(kt__jx_eval(x, p->a, frame, &val));
        if (val.type == KT__J_MISSING) val = kt__j_undef(p->value.u.s);
        KT__JTRY(kt__jx_bind_name(x, frame, p->name, val));
    }
    return KT_OK;
}

static size_t count_params(const kt__jnode *def) {
    size_t n = 0;
    for (const kt__jnode *p = def->a; p; p = p->next) n++;
    return n;
}

/* caller, kwargs and varargs, where the macro uses them; else too many arguments are an error. */
static kt_status bind_rest(kt__jx *x, const kt__jnode *def, const kt__jargs *args, bool *taken,
                           kt__jframe *frame) {
    size_t n = count_params(def);
    const kt__jstr caller_name = {.data = "caller", .len = 6, .n_cp = 6};
    kt__jlist *varargs;
    if (def->flags & KT__JMACRO_CALLER) {
        kt__jv caller = take_kwarg(args, taken, &caller_name);
        if (caller.type == KT__J_MISSING) caller = kt__j_undef(NULL);
        KT__JTRY(kt__jx_bind_name(x, frame, KT__JNAME_CALLER, caller));
    }
    kt__jdict *kwargs = kt__jdict_new(&x->arena);
    if (!kwargs) return kt__jx_nomem(x);
    for (size_t k = 0; k < args->n_kw; k++) {
        if (taken[k]) continue;
        if (!(def->flags & KT__JMACRO_KWARGS))
            return kt__jx_fail(x, "the macro takes no argument '%.*s'", (int)args->kw[k].name->len,
                               args->kw[k].name->data);
        KT__JTRY(kt__jx_put(x, kwargs, kt__j_str(args->kw[k].name), args->kw[k].val));
    }
    if (def->flags & KT__JMACRO_KWARGS)
        KT__JTRY(kt__jx_bind_name(x, frame, KT__JNAME_KWARGS, kt__j_dict(kwargs)));
    size_t extra = args->n_pos > n ? args->n_pos - n : 0;
    if (!(def->flags & KT__JMACRO_VARARGS))
        return extra ? kt__jx_fail(x, "the macro takes at most %zu arguments", n) : KT_OK;
    KT__JTRY(kt__jx_list(x, KT__JL_TUPLE, extra ? args->pos + n : NULL, extra, &varargs));
    return kt__jx_bind_name(x, frame, KT__JNAME_VARARGS, kt__j_list(varargs));
}

kt_status kt__jx_call_macro(kt__jx *x, const kt__jmacro *macro, const kt__jargs *args,
                            kt__jv *out) {
    kt__jsb text;
    uint32_t line = x->line;
    kt__jframe *frame = kt__jx_frame(x, macro->closure);
    bool *taken = kt__arena_calloc(&x->arena, args->n_kw + 1, sizeof *taken);
    if (!frame || !taken) return kt__jx_nomem(x);
    KT__JTRY(bind_params(x, macro->def, args, taken, frame));
    KT__JTRY(bind_rest(x, macro->def, args, taken, frame));
    kt__jx_sink(x, &text);
    KT__JTRY(kt__jx_exec(x, macro->def->body, frame, &text));
    if (x->flow != KT__JFLOW_NONE) return kt__jx_fail(x, "break or continue outside of a loop");
    x->line = line;
    return kt__jx_sink_done(x, &text, out);
}

kt_status kt__jx_call(kt__jx *x, kt__jv callee, const kt__jargs *args, kt__jv *out) {
    switch (callee.type) {
    case KT__J_MACRO: return kt__jx_call_macro(x, callee.u.macro, args, out);
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
    KT__JTRY(kt__jx_list(x, kind, NULL, 0, &list));
    for (const kt__jnode *item = node->a; item; item = item->next) {
        kt__jv v;
        KT__JTRY(kt__jx_eval(x, item, frame, &v));
        KT__JTRY(kt__jx_push(x, list, v));
    }
    *out = kt__j_list(list);
    return KT_OK;
}

static kt_status eval_dict(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jdict *dict = kt__jdict_new(&x->arena);
    if (!dict) return kt__jx_nomem(x);
    for (const kt__jnode *pair = node->a; pair; pair = pair->next) {
        kt__jv key, val;
        KT__JTRY(kt__jx_eval(x, pair->a, frame, &key));
        KT__JTRY(kt__jx_eval(x, pair->b, frame, &val));
        KT__JTRY(kt__jx_put(x, dict, key, val));
    }
    *out = kt__j_dict(dict);
    return KT_OK;
}

static kt_status eval_logical(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    KT__JTRY(kt__jx_eval(x, node->a, frame, out));
    if (kt__j_truth(*out) != (node->kind == KT__JN_AND)) return KT_OK;
    return kt__jx_eval(x, node->b, frame, out);
}

static kt_status eval_binary(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv a, b;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &a));
    KT__JTRY(kt__jx_eval(x, node->b, frame, &b));
    x->line = node->line;
    return kt__jx_binary(x, (kt__jop)node->op, a, b, out);
}

static kt_status eval_concat(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jsb text;
    kt__jx_sink(x, &text);
    for (const kt__jnode *part = node->a; part; part = part->next) {
        kt__jv v;
        KT__JTRY(kt__jx_eval(x, part, frame, &v));
        KT__JTRY(kt__jx_add_str(x, &text, v));
    }
    return kt__jx_sink_done(x, &text, out);
}

/* a < b < c: each operand once, up to the first that does not hold */
static kt_status eval_compare(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv left, right;
    bool holds = true;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &left));
    for (const kt__jnode *op = node->b; op && holds; op = op->next) {
        KT__JTRY(kt__jx_eval(x, op->a, frame, &right));
        x->line = node->line;
        KT__JTRY(kt__jx_compare(x, (kt__jop)op->op, left, right, &holds));
        left = right;
    }
    *out = kt__j_bool(holds);
    return KT_OK;
}

static kt_status eval_cond(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv test;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &test));
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
        if (parts[i]) KT__JTRY(kt__jx_eval(x, parts[i], frame, &bounds[i]));
    }
    x->line = slice->line;
    return kt__jx_slice(x, obj, bounds[0], bounds[1], bounds[2], out);
}

static kt_status eval_getitem(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv obj, key;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &obj));
    if (node->b->kind == KT__JN_SLICE) return eval_slice(x, node->b, frame, obj, out);
    KT__JTRY(kt__jx_eval(x, node->b, frame, &key));
    x->line = node->line;
    return kt__jx_getitem(x, obj, key, out);
}

static kt_status eval_getattr(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv obj;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &obj));
    x->line = node->line;
    return kt__jx_getattr(x, obj, node->value.u.s, out);
}

kt_status kt__jx_eval_call(kt__jx *x, const kt__jnode *node, kt__jframe *frame,
                           const kt__jkwarg *extra, kt__jv *out) {
    kt__jv callee;
    kt__jargs args;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &callee));
    KT__JTRY(eval_args(x, node->b, frame, extra, &args));
    x->line = node->line;
    return kt__jx_call(x, callee, &args, out);
}

static kt_status apply_filter(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv input,
                              kt__jv *out) {
    kt__jargs args;
    KT__JTRY(eval_args(x, node->b, frame, NULL, &args));
    x->line = node->line;
    if (node->op == KT__J_UNKNOWN)
        return kt__jx_fail(x, "no filter is named '%.*s'", (int)node->value.u.s->len,
                           node->value.u.s->data);
    return kt__jx_filter(x, node->op, input, &args, out);
}

kt_status kt__jx_eval_filters(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv input,
                              kt__jv *out) {
    if (node->a) {
        KT__JTRY(kt__jx_enter(x));
        KT__JTRY(kt__jx_eval_filters(x, node->a, frame, input, &input));
        x->depth--;
    }
    return apply_filter(x, node, frame, input, out);
}

static kt_status eval_filter(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv input;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &input));
    return apply_filter(x, node, frame, input, out);
}

static kt_status eval_test(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv input;
    kt__jargs args;
    bool holds;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &input));
    KT__JTRY(eval_args(x, node->b, frame, NULL, &args));
    x->line = node->line;
    if (node->op == KT__J_UNKNOWN)
        return kt__jx_fail(x, "no test is named '%.*s'", (int)node->value.u.s->len,
                           node->value.u.s->data);
    KT__JTRY(kt__jx_test(x, node->op, input, &args, &holds));
    *out = kt__j_bool(holds);
    return KT_OK;
}

static kt_status eval_unary(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jv v;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &v));
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
    case KT__JN_CALL: return kt__jx_eval_call(x, node, frame, NULL, out);
    case KT__JN_FILTER: return eval_filter(x, node, frame, out);
    case KT__JN_TEST: return eval_test(x, node, frame, out);
    default: return kt__jx_fail(x, "an unexpected expression");
    }
}

kt_status kt__jx_eval(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    x->line = node->line;
    KT__JTRY(kt__jx_enter(x));
    KT__JTRY(eval_kind(x, node, frame, out));
    x->depth--;
    return KT_OK;
}
