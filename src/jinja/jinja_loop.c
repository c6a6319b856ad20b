/* {% for %}: items are taken one at a time, as Jinja does, so that a loop's filter sees what the
 * body has changed and a list may grow while it is walked. */
#include <string.h>

#include "jinja/jinja_eval.h"

struct kt__jloop {
    kt__jlist *list; /* what is walked; a copy for strings and dictionaries */
    size_t at;       /* of a list; generators keep their own place */
    const kt__jnode *node;
    kt__jframe *frame;      /* outside the loop */
    int64_t index0, length; /* length -1: not known yet */
    kt__jv cur, prev, ahead;
    bool has_ahead; /* the next item was looked at */
    kt__jlist *last_changed;
};

/* The next item before any filter. */
static bool pull(kt__jloop *loop, kt__jv *out) {
    size_t *at = loop->list->kind == KT__JL_ITER ? &loop->list->pos : &loop->at;
    if (*at >= loop->list->n) return false;
    *out = loop->list->items[(*at)++];
    return true;
}

static kt_status passes(kt__jx *x, const kt__jloop *loop, kt__jv item, bool *out) {
    kt__jv test;
    kt__jframe *frame = kt__jx_frame(x, loop->frame);
    if (!frame) return kt__jx_nomem(x);
    KT__JTRY(kt__jx_assign(x, loop->node->a, frame, item));
    KT__JTRY(kt__jx_eval(x, loop->node->c, frame, &test));
    *out = kt__j_truth(test);
    return KT_OK;
}

/* The next item that passes the filter; KT__J_MISSING at the end. */
static kt_status take(kt__jx *x, kt__jloop *loop, kt__jv *out) {
    bool ok = false;
    while (!ok && pull(loop, out)) {
        KT__JTRY(kt__jx_step(x, 1));
        ok = true;
        if (loop->node->c) KT__JTRY(passes(x, loop, *out, &ok));
    }
    if (!ok) out->type = KT__J_MISSING;
    return KT_OK;
}

static kt_status advance(kt__jx *x, kt__jloop *loop, bool *more) {
    kt__jv next = loop->ahead;
    if (!loop->has_ahead || next.type == KT__J_MISSING) KT__JTRY(take(x, loop, &next));
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
    KT__JTRY(take(x, loop, &loop->ahead));
    loop->has_ahead = true;
    return KT_OK;
}

/* Takes all that is left, to count it. */
static kt_status drain(kt__jx *x, kt__jloop *loop) {
    kt__jlist *rest;
    KT__JTRY(kt__jx_list(x, KT__JL_LIST, NULL, 0, &rest));
    for (;;) {
        kt__jv item;
        KT__JTRY(take(x, loop, &item));
        if (item.type == KT__J_MISSING) break;
        KT__JTRY(kt__jx_push(x, rest, item));
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

static kt_status length(kt__jx *x, kt__jloop *loop, int64_t *out) {
    if (loop->length < 0) {
        if (loop->node->c || loop->list->kind == KT__JL_ITER)
            KT__JTRY(drain(x, loop));
        else
            loop->length = (int64_t)loop->list->n;
    }
    *out = loop->length;
    return KT_OK;
}

/* ---- the variable `loop` ---- */

static kt_status loop_cycle(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    if (args->n_kw || !args->n_pos) return kt__jx_fail(x, "loop.cycle needs values");
    *out = args->pos[(size_t)v.u.loop->index0 % args->n_pos];
    return KT_OK;
}

static kt_status loop_changed(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jlist *now, *before = v.u.loop->last_changed;
    if (args->n_kw) return kt__jx_fail(x, "loop.changed takes no named arguments");
    KT__JTRY(kt__jx_list(x, KT__JL_TUPLE, args->pos, args->n_pos, &now));
    bool same = before && kt__j_equal(kt__j_list(before), kt__j_list(now), &x->steps);
    v.u.loop->last_changed = now;
    *out = kt__j_bool(!same);
    return KT_OK;
}

static kt_status loop_method(kt__jx *x, kt__jloop *loop, const char *name, kt__jfn *fn,
                             kt__jv *out) {
    kt__jmethod *m = kt__arena_alloc(&x->arena, sizeof *m);
    if (!m) return kt__jx_nomem(x);
    *m = (kt__jmethod){(kt__jv){.type = KT__J_LOOP, .u.loop = loop}, name, fn};
    *out = (kt__jv){.type = KT__J_METHOD, .u.method = m};
    return KT_OK;
}

static kt_status loop_neighbour(kt__jx *x, kt__jloop *loop, bool next, kt__jv *out) {
    if (next) KT__JTRY(look_ahead(x, loop));
    *out = next ? loop->ahead : loop->prev;
    if (out->type == KT__J_MISSING) *out = kt__j_undef(NULL);
    return KT_OK;
}

kt_status kt__jx_loop_attr(kt__jx *x, kt__jloop *loop, const kt__jstr *name, kt__jv *out) {
    int64_t n;
    if (kt__jstr_is(name, "index0")) {
        *out = kt__j_int(loop->index0);
    } else if (kt__jstr_is(name, "index")) {
        *out = kt__j_int(loop->index0 + 1);
    } else if (kt__jstr_is(name, "first")) {
        *out = kt__j_bool(loop->index0 == 0);
    } else if (kt__jstr_is(name, "last")) {
        KT__JTRY(look_ahead(x, loop));
        *out = kt__j_bool(loop->ahead.type == KT__J_MISSING);
    } else if (kt__jstr_is(name, "length") || kt__jstr_is(name, "revindex") ||
               kt__jstr_is(name, "revindex0")) {
        KT__JTRY(length(x, loop, &n));
        bool rev0 = kt__jstr_is(name, "revindex0"), rev = kt__jstr_is(name, "revindex");
        *out = kt__j_int(n - (rev ? loop->index0 : rev0 ? loop->index0 + 1 : 0));
    } else if (kt__jstr_is(name, "previtem") || kt__jstr_is(name, "nextitem")) {
        KT__JTRY(loop_neighbour(x, loop, kt__jstr_is(name, "nextitem"), out));
    } else if (kt__jstr_is(name, "depth") || kt__jstr_is(name, "depth0")) {
        *out = kt__j_int(kt__jstr_is(name, "depth"));
    } else if (kt__jstr_is(name, "cycle")) {
        return loop_method(x, loop, "cycle", loop_cycle, out);
    } else if (kt__jstr_is(name, "changed")) {
        return loop_method(x, loop, "changed", loop_changed, out);
    } else {
        *out = kt__j_undef(name);
    }
    return KT_OK;
}

/* ---- the statement ---- */

/* A list to walk: lists themselves, copies of the rest. */
static kt_status loop_list(kt__jx *x, kt__jv v, kt__jlist **out) {
    const kt__jv *items;
    size_t n;
    if (v.type == KT__J_LIST) {
        *out = v.u.l;
        return KT_OK;
    }
    KT__JTRY(kt__jx_items(x, v, &items, &n));
    return kt__jx_list(x, KT__JL_LIST, items, n, out);
}

static kt_status run_body(kt__jx *x, const kt__jnode *node, kt__jloop *loop, kt__jframe **inner,
                          kt__jsb *sink) {
    if (!*inner || (*inner)->captured) *inner = kt__jx_frame(x, loop->frame);
    if (!*inner) return kt__jx_nomem(x);
    (*inner)->n = 0;
    kt__jv self = {.type = KT__J_LOOP, .u.loop = loop};
    KT__JTRY(kt__jx_bind_name(x, *inner, KT__JNAME_LOOP, self));
    KT__JTRY(kt__jx_assign(x, node->a, *inner, loop->cur));
    KT__JTRY(kt__jx_exec(x, node->body, *inner, sink));
    return KT_OK;
}

kt_status kt__jx_for(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jsb *sink) {
    kt__jv source;
    kt__jframe *inner = NULL;
    bool more = true;
    KT__JTRY(kt__jx_eval(x, node->b, frame, &source));
    x->line = node->line;
    kt__jloop *loop = kt__arena_calloc(&x->arena, 1, sizeof *loop);
    if (!loop) return kt__jx_nomem(x);
    *loop = (kt__jloop){.node = node, .frame = frame, .index0 = -1, .length = -1};
    KT__JTRY(loop_list(x, source, &loop->list));
    while (more) {
        KT__JTRY(advance(x, loop, &more));
        if (!more) break;
        KT__JTRY(run_body(x, node, loop, &inner, sink));
        bool stop = x->flow == KT__JFLOW_BREAK;
        x->flow = KT__JFLOW_NONE;
        if (stop) break;
    }
    if (loop->index0 >= 0 || !node->orelse) return KT_OK;
    inner = kt__jx_frame(x, frame);
    return inner ? kt__jx_exec(x, node->orelse, inner, sink) : kt__jx_nomem(x);
}
