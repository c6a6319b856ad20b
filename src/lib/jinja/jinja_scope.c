/* Variables: scopes, names, and assignment. */
#include "jinja/jinja_run.h"

#include "jinja/jinja_ast.h"

#include <string.h>

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

/* ---- attributes and items of values ---- */

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
