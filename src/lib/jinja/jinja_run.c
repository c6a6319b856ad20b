#include "jinja/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja/jinja_names.h"

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

/* Variables: scopes, names, and assignment. */

kt__jframe *kt__jx_frame(kt__jx *x, kt__jframe *parent) {
    kt__jframe *frame = kt__arena_calloc(&x->arena, 1, sizeof *frame);
    if (frame) frame->parent = parent;
    return frame;
}

kt_status kt__jx_bind_name(kt__jx *x, kt__jframe *frame, uint32_t name, kt__jv val) {
    if (!frame->parent) {
        frame->slots[name].val = val;
        return KT_OK;
    }
    KT__STEP(kt__jx_step(x, frame->n / 16));
    for (uint32_t i = 0; i < frame->n; i++) {
        if (frame->slots[i].name != name) continue;
        frame->slots[i].val = val;
        return KT_OK;
    }
    if (frame->n == frame->cap) {
        uint32_t cap = frame->cap ? frame->cap * 2 : 4;
        kt__jslot *grown = kt__arena_calloc(&x->arena, cap, sizeof *grown);
        if (!grown) return kt__jx_nomem(x);
        if (frame->n) memcpy(grown, frame->slots, frame->n * sizeof *grown);
        frame->slots = grown;
        frame->cap = cap;
    }
    frame->slots[frame->n++] = (kt__jslot){name, val};
    return KT_OK;
}

kt__jv kt__jx_lookup(kt__jx *x, const kt__jframe *frame, uint32_t name) {
    for (; frame->parent; frame = frame->parent) {
        uint32_t work = frame->n / 16; /* the caller's next step finds none left */
        x->steps -= work < x->steps ? work : x->steps;
        for (uint32_t i = 0; i < frame->n; i++) {
            if (frame->slots[i].name == name) return frame->slots[i].val;
        }
    }
    kt__jv val = frame->slots[name].val;
    if (val.type != KT__J_MISSING) return val;
    const kt__jstr *text = x->tmpl->names[name];
    uint16_t id = kt__j_find_global(text->data, text->len);
    if (id != KT__J_UNKNOWN) return (kt__jv){.type = KT__J_BUILTIN, .u.i = id};
    return kt__j_undef(text);
}

static kt_status assign_unpacked(kt__jx *x, const kt__jnode *target, kt__jframe *frame,
                                 kt__jv val) {
    const kt__jv *items;
    size_t n, i = 0;
    KT__STEP(kt__jx_items(x, val, &items, &n));
    for (const kt__jnode *part = target->a; part; part = part->next, i++) {
        if (i >= n) break;
        KT__STEP(kt__jx_assign(x, part, frame, items[i]));
        if (!part->next && i + 1 == n) return KT_OK;
    }
    if (n == 0 && !target->a) return KT_OK;
    return kt__jx_fail(x, "cannot unpack %zu values into %s names", n, i < n ? "fewer" : "more");
}

static kt_status assign_attr(kt__jx *x, const kt__jnode *target, kt__jframe *frame, kt__jv val) {
    kt__jv ns = kt__jx_lookup(x, frame, target->name);
    if (ns.type != KT__J_NAMESPACE)
        return kt__jx_fail(x, "cannot set an attribute of '%.*s': it is no namespace",
                           (int)x->tmpl->names[target->name]->len,
                           x->tmpl->names[target->name]->data);
    return kt__jx_put(x, ns.u.d, target->value, val);
}

kt_status kt__jx_assign(kt__jx *x, const kt__jnode *target, kt__jframe *frame, kt__jv val) {
    switch (target->kind) {
    case KT__JN_NAME: return kt__jx_bind_name(x, frame, target->name, val);
    case KT__JN_NSREF: return assign_attr(x, target, frame, val);
    default: return assign_unpacked(x, target, frame, val);
    }
}

/* Attributes and items: obj.name and obj[key]. */

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
    KT__STEP(kt__jx_length(x, obj, &n));
    if (i < 0) i += n;
    if (i < 0 || i >= n) return KT_OK;
    *found = true;
    if (obj.type == KT__J_LIST) {
        *out = obj.u.l->items[i];
        return KT_OK;
    }
    const kt__jstr *s = obj.u.s;
    size_t from = kt__jstr_offset(s, (size_t)i), to = from + 1;
    if (s->n_cp != s->len) KT__STEP(kt__jx_step(x, from / 64));
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
    if (obj.type == KT__J_LOOP) return obj.u.loop->attr(x, obj.u.loop, name, out);
    if (obj.type == KT__J_NAMESPACE) return dict_item(x, obj.u.d, kt__j_str(name), found, out);
    return bound_method(x, obj, name, found, out);
}

kt_status kt__jx_getattr(kt__jx *x, kt__jv obj, const kt__jstr *name, kt__jv *out) {
    bool found;
    if (obj.type == KT__J_UNDEF) return kt__jx_undefined(x, obj);
    KT__STEP(plain_attr(x, obj, name, &found, out));
    if (!found) KT__STEP(plain_item(x, obj, kt__j_str(name), &found, out));
    return found ? KT_OK : undefined_attr(kt__j_str(name), out);
}

kt_status kt__jx_getitem(kt__jx *x, kt__jv obj, kt__jv key, kt__jv *out) {
    bool found;
    if (obj.type == KT__J_UNDEF) return kt__jx_undefined(x, obj);
    KT__STEP(plain_item(x, obj, key, &found, out));
    if (!found && key.type == KT__J_STR) KT__STEP(plain_attr(x, obj, key.u.s, &found, out));
    return found ? KT_OK : undefined_attr(key, out);
}
