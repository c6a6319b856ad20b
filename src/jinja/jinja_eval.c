/* A rendering: its limits and errors, scopes, and statements. */
#include "jinja/jinja_eval.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
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
                          (unsigned long long)KT__JX_MAX_STEPS);
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
    KT__JTRY(kt__jx_sink_check(x, sink));
    KT__JTRY(kt__jx_step(x, sink->len / 64 + 1));
    const kt__jstr *s = kt__jsb_finish(sink);
    if (!s) return kt__jx_nomem(x);
    *out = kt__j_str(s);
    return KT_OK;
}

/* ---- scopes ---- */

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

static kt_status unpack(kt__jx *x, const kt__jnode *target, kt__jframe *frame, kt__jv val) {
    const kt__jv *items;
    size_t n, i = 0;
    KT__JTRY(kt__jx_items(x, val, &items, &n));
    for (const kt__jnode *part = target->a; part; part = part->next, i++) {
        if (i >= n) break;
        KT__JTRY(kt__jx_assign(x, part, frame, items[i]));
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
    default: return unpack(x, target, frame, val);
    }
}

/* ---- statements ---- */

static kt_status exec_print(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    kt__jv v;
    KT__JTRY(kt__jx_eval(x, node->a, frame, &v));
    x->line = node->line;
    return kt__jx_add_str(x, sink, v);
}

static kt_status exec_if(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    for (; node; node = node->orelse) {
        kt__jv test = kt__j_bool(true);
        if (node->kind == KT__JN_IF) KT__JTRY(kt__jx_eval(x, node->a, frame, &test));
        if (kt__j_truth(test)) return kt__jx_exec(x, node->body, frame, sink);
    }
    return KT_OK;
}

static kt_status exec_set(kt__jx *x, const kt__jnode *node, kt__jframe *frame) {
    kt__jv val;
    KT__JTRY(kt__jx_eval(x, node->b, frame, &val));
    x->line = node->line;
    return kt__jx_assign(x, node->a, frame, val);
}

/* What a body writes, in a scope of its own. */
static kt_status capture(kt__jx *x, const kt__jnode *body, kt__jframe *frame, kt__jframe **inner,
                         kt__jv *out) {
    kt__jsb text;
    kt__jx_sink(x, &text);
    *inner = kt__jx_frame(x, frame);
    if (!*inner) return kt__jx_nomem(x);
    KT__JTRY(kt__jx_exec(x, body, *inner, &text));
    return kt__jx_sink_done(x, &text, out);
}

static kt_status exec_setblock(kt__jx *x, const kt__jnode *node, kt__jframe *frame) {
    kt__jframe *inner;
    kt__jv val;
    KT__JTRY(capture(x, node->body, frame, &inner, &val));
    if (node->b) KT__JTRY(kt__jx_eval_filters(x, node->b, inner, val, &val));
    return kt__jx_assign(x, node->a, frame, val);
}

static kt_status exec_filterblock(kt__jx *x, const kt__jnode *node, kt__jframe *frame,
                                  kt__jsb *sink) {
    kt__jframe *inner;
    kt__jv val;
    KT__JTRY(capture(x, node->body, frame, &inner, &val));
    KT__JTRY(kt__jx_eval_filters(x, node->b, inner, val, &val));
    x->line = node->line;
    if (val.type != KT__J_STR) return kt__jx_fail(x, "a filter block must give text");
    return kt__jx_add_str(x, sink, val);
}

static kt_status make_macro(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) {
    kt__jmacro *macro = kt__arena_alloc(&x->arena, sizeof *macro);
    if (!macro) return kt__jx_nomem(x);
    *macro = (kt__jmacro){node, frame};
    for (kt__jframe *f = frame; f; f = f->parent) f->captured = true;
    *out = (kt__jv){.type = KT__J_MACRO, .u.macro = macro};
    return KT_OK;
}

static kt_status exec_macro(kt__jx *x, const kt__jnode *node, kt__jframe *frame) {
    kt__jv macro;
    KT__JTRY(make_macro(x, node, frame, &macro));
    return kt__jx_bind_name(x, frame, node->name, macro);
}

/* The call as written, with its body as one more argument, `caller`. */
static kt_status exec_callblock(kt__jx *x, const kt__jnode *node, kt__jframe *frame,
                                kt__jsb *sink) {
    static const kt__jstr name = {.data = "caller", .len = 6, .n_cp = 6, .from_template = true};
    kt__jkwarg caller = {.name = &name};
    kt__jv out;
    KT__JTRY(make_macro(x, node->b, frame, &caller.val));
    KT__JTRY(kt__jx_eval_call(x, node->a, frame, &caller, &out));
    return kt__jx_add_str(x, sink, out);
}

static kt_status exec_with(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    kt__jframe *inner = kt__jx_frame(x, frame);
    if (!inner) return kt__jx_nomem(x);
    for (const kt__jnode *set = node->a; set; set = set->next) {
        kt__jv val;
        KT__JTRY(kt__jx_eval(x, set->b, frame, &val)); /* values see the scope outside */
        KT__JTRY(kt__jx_assign(x, set->a, inner, val));
    }
    return kt__jx_exec(x, node->body, inner, sink);
}

static kt_status exec_scope(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    kt__jframe *inner = kt__jx_frame(x, frame);
    return inner ? kt__jx_exec(x, node->body, inner, sink) : kt__jx_nomem(x);
}

static kt_status exec_one(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    switch (node->kind) {
    case KT__JN_TEXT: kt__jsb_add_str(sink, node->value.u.s); return kt__jx_sink_check(x, sink);
    case KT__JN_PRINT: return exec_print(x, node, frame, sink);
    case KT__JN_IF: return exec_if(x, node, frame, sink);
    case KT__JN_FOR: return kt__jx_for(x, node, frame, sink);
    case KT__JN_SET: return exec_set(x, node, frame);
    case KT__JN_SETBLOCK: return exec_setblock(x, node, frame);
    case KT__JN_MACRO: return exec_macro(x, node, frame);
    case KT__JN_CALLBLOCK: return exec_callblock(x, node, frame, sink);
    case KT__JN_FILTERBLOCK: return exec_filterblock(x, node, frame, sink);
    case KT__JN_WITH: return exec_with(x, node, frame, sink);
    case KT__JN_SCOPE: return exec_scope(x, node, frame, sink);
    case KT__JN_BREAK: x->flow = KT__JFLOW_BREAK; return KT_OK;
    case KT__JN_CONTINUE: x->flow = KT__JFLOW_CONTINUE; return KT_OK;
    default: return kt__jx_fail(x, "an unexpected statement");
    }
}

kt_status kt__jx_exec(kt__jx *x, const kt__jnode *body, kt__jframe *frame, kt__jsb *sink) {
    KT__JTRY(kt__jx_enter(x));
    for (; body && x->flow == KT__JFLOW_NONE; body = body->next) {
        x->line = body->line;
        KT__JTRY(kt__jx_step(x, 1));
        KT__JTRY(exec_one(x, body, frame, sink));
    }
    x->depth--;
    return KT_OK;
}

/* ---- a rendering ---- */

kt_status kt__jx_init(kt__jx *x, const kt__jinja *tmpl, int64_t now_local_s, kt_error *err) {
    *x = (kt__jx){.tmpl = tmpl, .steps = KT__JX_MAX_STEPS, .now_local_s = now_local_s, .err = err};
    kt__arena_init(&x->arena, 65536, KT__JX_MAX_MEMORY);
    x->root.slots = kt__arena_calloc(&x->arena, tmpl->n_names + 1, sizeof *x->root.slots);
    return x->root.slots ? KT_OK : kt__jx_nomem(x);
}

void kt__jx_free(kt__jx *x) {
    kt__arena_free(&x->arena);
}

void kt__jx_set(kt__jx *x, const char *name, size_t len, kt__jv value) {
    for (size_t i = 0; i < x->tmpl->n_names; i++) {
        const kt__jstr *s = x->tmpl->names[i];
        if (s->len != len || memcmp(s->data, name, len) != 0) continue;
        x->root.slots[i].val = value;
        return;
    }
}

kt_status kt__jx_render(kt__jx *x, const kt__jstr **out) {
    kt__jsb text;
    kt__jv v;
    kt__jx_sink(x, &text);
    KT__JTRY(kt__jx_exec(x, x->tmpl->body, &x->root, &text));
    if (x->flow != KT__JFLOW_NONE) return kt__jx_fail(x, "break or continue outside of a loop");
    KT__JTRY(kt__jx_sink_done(x, &text, &v));
    *out = v.u.s;
    return KT_OK;
}
