#include "jinja/jinja_run.h"

#include <string.h>

static kt_status exec_list(kt__jx *x, const kt__jnode *body, kt__jframe *frame,
                           kt__jsb *sink) KT_CHECKED;

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
        KT__STEP(kt__jx_step(x, args->n_kw / 16));
        kt__jv val = i < args->n_pos ? args->pos[i] : take_kwarg(args, taken, p->value.u.s);
        if (val.type == KT__J_MISSING && p->a) KT__STEP(kt__jx_eval(x, p->a, frame, &val));
        if (val.type == KT__J_MISSING) val = kt__j_undef(p->value.u.s);
        KT__STEP(kt__jx_bind_name(x, frame, p->name, val));
    }
    return KT_OK;
}

/* Arguments that no parameter took are an error. */
static kt_status check_rest(kt__jx *x, const kt__jnode *def, const kt__jargs *args,
                            const bool *taken) {
    size_t n = 0;
    for (const kt__jnode *p = def->a; p; p = p->next) n++;
    for (size_t k = 0; k < args->n_kw; k++) {
        if (taken[k]) continue;
        return kt__jx_fail(x, "the macro takes no argument '%.*s'", (int)args->kw[k].name->len,
                           args->kw[k].name->data);
    }
    return args->n_pos > n ? kt__jx_fail(x, "the macro takes at most %zu arguments", n) : KT_OK;
}

static kt_status call_macro(kt__jx *x, const kt__jmacro *macro, const kt__jargs *args,
                            kt__jv *out) {
    kt__jsb text;
    uint32_t line = x->line;
    kt__jframe *frame = kt__jx_frame(x, macro->closure);
    bool *taken = kt__arena_calloc(&x->arena, args->n_kw + 1, sizeof *taken);
    if (!frame || !taken) return kt__jx_nomem(x);
    KT__STEP(bind_params(x, macro->def, args, taken, frame));
    KT__STEP(check_rest(x, macro->def, args, taken));
    kt__jx_sink(x, &text);
    KT__STEP(exec_list(x, macro->def->body, frame, &text));
    if (x->flow != KT__JFLOW_NONE) return kt__jx_fail(x, "break or continue outside of a loop");
    x->line = line;
    return kt__jx_sink_done(x, &text, out);
}

/* ---- statements ---- */

static kt_status exec_print(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    kt__jv v;
    KT__STEP(kt__jx_eval(x, node->a, frame, &v));
    x->line = node->line;
    return kt__jx_add_str(x, sink, v);
}

static kt_status exec_if(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    for (; node; node = node->orelse) {
        kt__jv test = kt__j_bool(true);
        if (node->kind == KT__JN_IF) KT__STEP(kt__jx_eval(x, node->a, frame, &test));
        if (kt__j_truth(test)) return exec_list(x, node->body, frame, sink);
    }
    return KT_OK;
}

static kt_status exec_set(kt__jx *x, const kt__jnode *node, kt__jframe *frame) {
    kt__jv val;
    KT__STEP(kt__jx_eval(x, node->b, frame, &val));
    x->line = node->line;
    return kt__jx_assign(x, node->a, frame, val);
}

/* What a body writes, in a scope of its own. */
static kt_status capture_block(kt__jx *x, const kt__jnode *body, kt__jframe *frame,
                               kt__jframe **inner, kt__jv *out) {
    kt__jsb text;
    kt__jx_sink(x, &text);
    *inner = kt__jx_frame(x, frame);
    if (!*inner) return kt__jx_nomem(x);
    KT__STEP(exec_list(x, body, *inner, &text));
    return kt__jx_sink_done(x, &text, out);
}

static kt_status exec_setblock(kt__jx *x, const kt__jnode *node, kt__jframe *frame) {
    kt__jframe *inner;
    kt__jv val;
    KT__STEP(capture_block(x, node->body, frame, &inner, &val));
    if (node->b) KT__STEP(kt__jx_eval_filters(x, node->b, inner, val, &val));
    return kt__jx_assign(x, node->a, frame, val);
}

static kt_status exec_filterblock(kt__jx *x, const kt__jnode *node, kt__jframe *frame,
                                  kt__jsb *sink) {
    kt__jframe *inner;
    kt__jv val;
    KT__STEP(capture_block(x, node->body, frame, &inner, &val));
    KT__STEP(kt__jx_eval_filters(x, node->b, inner, val, &val));
    x->line = node->line;
    if (val.type != KT__J_STR) return kt__jx_fail(x, "a filter block must give text");
    return kt__jx_add_str(x, sink, val);
}

static kt_status exec_macro(kt__jx *x, const kt__jnode *node, kt__jframe *frame) {
    kt__jmacro *macro = kt__arena_alloc(&x->arena, sizeof *macro);
    if (!macro) return kt__jx_nomem(x);
    *macro = (kt__jmacro){node, frame, call_macro};
    for (kt__jframe *f = frame; f; f = f->parent) f->captured = true;
    kt__jv value = {.type = KT__J_MACRO, .u.macro = macro};
    return kt__jx_bind_name(x, frame, node->name, value);
}

static kt_status exec_with(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    kt__jframe *inner = kt__jx_frame(x, frame);
    if (!inner) return kt__jx_nomem(x);
    for (const kt__jnode *set = node->a; set; set = set->next) {
        kt__jv val;
        KT__STEP(kt__jx_eval(x, set->b, frame, &val)); /* values see the scope outside */
        KT__STEP(kt__jx_assign(x, set->a, inner, val));
    }
    return exec_list(x, node->body, inner, sink);
}

static kt_status exec_scope(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    kt__jframe *inner = kt__jx_frame(x, frame);
    return inner ? exec_list(x, node->body, inner, sink) : kt__jx_nomem(x);
}

static kt_status exec_loop_body(kt__jx *x, const kt__jnode *node, kt__jloop *loop,
                                kt__jframe **inner, kt__jsb *sink) {
    if (!*inner || (*inner)->captured) *inner = kt__jx_frame(x, loop->frame);
    if (!*inner) return kt__jx_nomem(x);
    (*inner)->n = 0;
    kt__jv self = {.type = KT__J_LOOP, .u.loop = loop};
    KT__STEP(kt__jx_bind_name(x, *inner, KT__JNAME_LOOP, self));
    KT__STEP(kt__jx_assign(x, node->a, *inner, loop->cur));
    KT__STEP(exec_list(x, node->body, *inner, sink));
    return KT_OK;
}

static kt_status exec_for(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    kt__jv source;
    kt__jframe *inner = NULL;
    bool more = true;
    KT__STEP(kt__jx_eval(x, node->b, frame, &source));
    x->line = node->line;
    kt__jloop *loop;
    KT__STEP(kt__jx_loop_begin(x, node, frame, source, &loop));
    while (more) {
        KT__STEP(kt__jx_loop_next(x, loop, &more));
        if (!more) break;
        KT__STEP(exec_loop_body(x, node, loop, &inner, sink));
        bool stop = x->flow == KT__JFLOW_BREAK;
        x->flow = KT__JFLOW_NONE;
        if (stop) break;
    }
    if (loop->index0 >= 0 || !node->orelse) return KT_OK;
    inner = kt__jx_frame(x, frame);
    return inner ? exec_list(x, node->orelse, inner, sink) : kt__jx_nomem(x);
}

static kt_status exec_one(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    switch (node->kind) {
    case KT__JN_TEXT: kt__jsb_add_str(sink, node->value.u.s); return kt__jx_sink_check(x, sink);
    case KT__JN_PRINT: return exec_print(x, node, frame, sink);
    case KT__JN_IF: return exec_if(x, node, frame, sink);
    case KT__JN_FOR: return exec_for(x, node, frame, sink);
    case KT__JN_SET: return exec_set(x, node, frame);
    case KT__JN_SETBLOCK: return exec_setblock(x, node, frame);
    case KT__JN_MACRO: return exec_macro(x, node, frame);
    case KT__JN_FILTERBLOCK: return exec_filterblock(x, node, frame, sink);
    case KT__JN_WITH: return exec_with(x, node, frame, sink);
    case KT__JN_SCOPE: return exec_scope(x, node, frame, sink);
    case KT__JN_BREAK: x->flow = KT__JFLOW_BREAK; return KT_OK;
    case KT__JN_CONTINUE: x->flow = KT__JFLOW_CONTINUE; return KT_OK;
    default: return kt__jx_fail(x, "an unexpected statement");
    }
}

static kt_status exec_list(kt__jx *x, const kt__jnode *body, kt__jframe *frame, kt__jsb *sink) {
    KT__STEP(kt__jx_enter(x));
    for (; body && x->flow == KT__JFLOW_NONE; body = body->next) {
        x->line = body->line;
        KT__STEP(kt__jx_step(x, 1));
        KT__STEP(exec_one(x, body, frame, sink));
    }
    x->depth--;
    return KT_OK;
}

/* ---- a rendering ---- */

kt_status kt__jx_init(kt__jx *x, const kt__jinja *tmpl, int64_t now_local_s, kt_error *err) {
    *x = (kt__jx){.tmpl = tmpl, .now_local_s = now_local_s, .err = err};
    x->steps = x->max_steps = KT__JX_MAX_STEPS;
    kt__arena_init(&x->arena, 65536, KT__JX_MAX_MEMORY);
    x->root.slots = kt__arena_calloc(&x->arena, tmpl->n_names + 1, sizeof *x->root.slots);
    return x->root.slots ? KT_OK : kt__jx_nomem(x);
}

void kt__jx_allow(kt__jx *x, size_t input_bytes) {
    uint64_t more = KT__JX_STEPS_PER_BYTE *
                    (uint64_t)(input_bytes < KT__JX_MAX_TEXT ? input_bytes : KT__JX_MAX_TEXT);
    x->steps += more;
    x->max_steps += more;
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
    KT__STEP(exec_list(x, x->tmpl->body, &x->root, &text));
    if (x->flow != KT__JFLOW_NONE) return kt__jx_fail(x, "break or continue outside of a loop");
    KT__STEP(kt__jx_sink_done(x, &text, &v));
    *out = v.u.s;
    return KT_OK;
}

/* {% for %}: items are taken one at a time, as Jinja does, so that a loop's filter sees what the
 * body has changed and a list may grow while it is walked. */

/* The next item before any filter. */
static bool pull_item(kt__jloop *loop, kt__jv *out) {
    size_t *at = loop->list->kind == KT__JL_ITER ? &loop->list->pos : &loop->at;
    if (*at >= loop->list->n) return false;
    *out = loop->list->items[(*at)++];
    return true;
}

static kt_status item_passes(kt__jx *x, const kt__jloop *loop, kt__jv item, bool *out) {
    kt__jv test;
    kt__jframe *frame = kt__jx_frame(x, loop->frame);
    if (!frame) return kt__jx_nomem(x);
    KT__STEP(kt__jx_assign(x, loop->node->a, frame, item));
    KT__STEP(kt__jx_eval(x, loop->node->c, frame, &test));
    *out = kt__j_truth(test);
    return KT_OK;
}

/* The next item that passes the filter; KT__J_MISSING at the end. */
static kt_status take_item(kt__jx *x, kt__jloop *loop, kt__jv *out) {
    bool ok = false;
    while (!ok && pull_item(loop, out)) {
        KT__STEP(kt__jx_step(x, 1));
        ok = true;
        if (loop->node->c) KT__STEP(item_passes(x, loop, *out, &ok));
    }
    if (!ok) out->type = KT__J_MISSING;
    return KT_OK;
}

kt_status kt__jx_loop_next(kt__jx *x, kt__jloop *loop, bool *more) {
    kt__jv next = loop->ahead;
    if (!loop->has_ahead || next.type == KT__J_MISSING) KT__STEP(take_item(x, loop, &next));
    loop->has_ahead = false;
    *more = next.type != KT__J_MISSING;
    if (!*more) return KT_OK;
    loop->index0++;
    loop->prev = loop->cur;
    loop->cur = next;
    return KT_OK;
}

static kt_status look_ahead(kt__jx *x, kt__jloop *loop) {
    if (loop->has_ahead && loop->ahead.type != KT__J_MISSING) return KT_OK;
    KT__STEP(take_item(x, loop, &loop->ahead));
    loop->has_ahead = true;
    return KT_OK;
}

/* Takes all that is left, to count it. */
static kt_status drain_loop(kt__jx *x, kt__jloop *loop) {
    kt__jlist *rest;
    KT__STEP(kt__jx_list(x, KT__JL_LIST, NULL, 0, &rest));
    for (;;) {
        kt__jv item;
        KT__STEP(take_item(x, loop, &item));
        if (item.type == KT__J_MISSING) break;
        KT__STEP(kt__jx_push(x, rest, item));
    }
    kt__jnode *plain = kt__arena_alloc(&x->arena, sizeof *plain);
    if (!plain) return kt__jx_nomem(x);
    *plain = *loop->node;
    plain->c = NULL; /* filtered already */
    loop->node = plain;
    loop->list = rest;
    loop->at = 0;
    bool ahead = loop->has_ahead && loop->ahead.type != KT__J_MISSING;
    loop->length = (int64_t)rest->n + loop->index0 + 1 + ahead;
    return KT_OK;
}

static kt_status loop_length(kt__jx *x, kt__jloop *loop, int64_t *out) {
    if (loop->length < 0) {
        if (loop->node->c || loop->list->kind == KT__JL_ITER)
            KT__STEP(drain_loop(x, loop));
        else
            loop->length = (int64_t)loop->list->n;
    }
    *out = loop->length;
    return KT_OK;
}

/* ---- the variable `loop` ---- */

static kt_status loop_neighbour(kt__jx *x, kt__jloop *loop, bool next, kt__jv *out) {
    if (next) KT__STEP(look_ahead(x, loop));
    *out = next ? loop->ahead : loop->prev;
    if (out->type == KT__J_MISSING) *out = kt__j_undef(NULL);
    return KT_OK;
}

static kt_status loop_attr(kt__jx *x, kt__jloop *loop, const kt__jstr *name, kt__jv *out) {
    int64_t n;
    if (kt__jstr_is(name, "index0")) {
        *out = kt__j_int(loop->index0);
    } else if (kt__jstr_is(name, "index")) {
        *out = kt__j_int(loop->index0 + 1);
    } else if (kt__jstr_is(name, "first")) {
        *out = kt__j_bool(loop->index0 == 0);
    } else if (kt__jstr_is(name, "last")) {
        KT__STEP(look_ahead(x, loop));
        *out = kt__j_bool(loop->ahead.type == KT__J_MISSING);
    } else if (kt__jstr_is(name, "length") || kt__jstr_is(name, "revindex") ||
               kt__jstr_is(name, "revindex0")) {
        KT__STEP(loop_length(x, loop, &n));
        bool rev0 = kt__jstr_is(name, "revindex0"), rev = kt__jstr_is(name, "revindex");
        *out = kt__j_int(n - (rev ? loop->index0 : rev0 ? loop->index0 + 1 : 0));
    } else if (kt__jstr_is(name, "previtem") || kt__jstr_is(name, "nextitem")) {
        KT__STEP(loop_neighbour(x, loop, kt__jstr_is(name, "nextitem"), out));
    } else {
        *out = kt__j_undef(name);
    }
    return KT_OK;
}

/* ---- beginning ---- */

/* A list to walk: lists themselves, copies of the rest. */
static kt_status loop_list(kt__jx *x, kt__jv v, kt__jlist **out) {
    const kt__jv *items;
    size_t n;
    if (v.type == KT__J_LIST) {
        *out = v.u.l;
        return KT_OK;
    }
    KT__STEP(kt__jx_items(x, v, &items, &n));
    return kt__jx_list(x, KT__JL_LIST, items, n, out);
}

kt_status kt__jx_loop_begin(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv source,
                            kt__jloop **out) {
    kt__jloop *loop = kt__arena_calloc(&x->arena, 1, sizeof *loop);
    if (!loop) return kt__jx_nomem(x);
    *loop = (kt__jloop){
        .attr = loop_attr, .node = node, .frame = frame, .index0 = -1, .length = -1};
    *out = loop;
    return loop_list(x, source, &loop->list);
}
