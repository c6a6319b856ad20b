/* {% for %}: items are taken one at a time, as Jinja does, so that a loop's filter sees what the
 * body has changed and a list may grow while it is walked. */
#include "jinja/jinja_run.h"

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
