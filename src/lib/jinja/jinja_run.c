#include "jinja/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- limits and errors ---- */

kt_status kt__jx_fail(kt__jx *x, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return kt__jinja_fail(x->err, KT_E_TEMPLATE, x->line, "%s", text);
}

kt_status kt__jx_nomem(kt__jx *x) {
    return kt__jinja_fail(x->err, KT_E_NOMEM, x->line,
                          "no memory for the rendering, or over its limit of %zu MiB",
                          KT__JX_MAX_MEMORY >> 20);
}

kt_status kt__jx_step(kt__jx *x, uint64_t n) {
    if (n < x->steps) {
        x->steps -= n;
        return KT_OK;
    }
    x->steps = 0;
    return kt__jinja_fail(x->err, KT_E_LIMIT, x->line, "the rendering takes more than %llu steps",
                          (unsigned long long)x->max_steps);
}

kt_status kt__jx_enter(kt__jx *x) {
    if (x->depth >= KT__JX_MAX_DEPTH)
        return kt__jinja_fail(x->err, KT_E_LIMIT, x->line, "evaluation nested deeper than %d",
                              KT__JX_MAX_DEPTH);
    x->depth++;
    return kt__jx_step(x, 1);
}

void kt__jx_sink(kt__jx *x, kt__jsb *sink) {
    kt__jsb_init(sink, &x->arena, KT__JX_MAX_TEXT);
}

kt_status kt__jx_sink_check(kt__jx *x, const kt__jsb *sink) {
    if (sink->too_long)
        return kt__jinja_fail(x->err, KT_E_LIMIT, x->line, "a text of more than %zu MiB",
                              KT__JX_MAX_TEXT >> 20);
    return sink->failed ? kt__jx_nomem(x) : KT_OK;
}

kt_status kt__jx_sink_done(kt__jx *x, kt__jsb *sink, kt__jv *out) {
    KT__STEP(kt__jx_sink_check(x, sink));
    KT__STEP(kt__jx_step(x, sink->len / 64 + 1));
    const kt__jstr *s = kt__jsb_finish(sink);
    if (!s) return kt__jx_nomem(x);
    *out = kt__j_str(s);
    return KT_OK;
}

/* ---- making values ---- */

kt_status kt__jx_push(kt__jx *x, kt__jlist *list, kt__jv v) {
    return kt__jlist_push(&x->arena, list, v) ? KT_OK : kt__jx_nomem(x);
}

kt_status kt__jx_list(kt__jx *x, kt__jlist_kind kind, const kt__jv *items, size_t n,
                      kt__jlist **out) {
    KT__STEP(kt__jx_step(x, n / 8));
    *out = kt__jlist_new(&x->arena, kind, n);
    if (!*out) return kt__jx_nomem(x);
    if (n) memcpy((*out)->items, items, n * sizeof *items);
    (*out)->n = n;
    return KT_OK;
}

kt_status kt__jx_bad_key(kt__jx *x, kt__jv key) {
    KT__STEP(kt__jx_step(x, 1)); /* hashing stops where the steps end */
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
    KT__STEP(kt__jx_step(x, (to - from) / 64 + 1));
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

static kt_status list_characters(kt__jx *x, const kt__jstr *s, const kt__jv **items) {
    KT__STEP(kt__jx_step(x, s->n_cp));
    kt__jv *chars = kt__arena_calloc(&x->arena, s->n_cp + 1, sizeof *chars);
    if (!chars) return kt__jx_nomem(x);
    for (size_t i = 0, at = 0; i < s->n_cp; i++) {
        size_t end = at + 1;
        while (end < s->len && ((unsigned char)s->data[end] & 0xC0) == 0x80) end++;
        KT__STEP(kt__jx_sub(x, s, at, end, &chars[i]));
        at = end;
    }
    *items = chars;
    return KT_OK;
}

static kt_status dict_keys(kt__jx *x, const kt__jdict *dict, const kt__jv **items) {
    KT__STEP(kt__jx_step(x, dict->n));
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
    case KT__J_STR: *n = v.u.s->n_cp; return list_characters(x, v.u.s, items);
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
