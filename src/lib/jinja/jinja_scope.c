/* Variables: scopes, names, and assignment. */
#include <string.h>

#include "jinja/jinja_names.h"
#include "jinja/jinja_run.h"

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
