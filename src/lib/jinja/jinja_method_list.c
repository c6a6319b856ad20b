/* Methods of lists and dictionaries. They may be changed (append, pop, ...): transformers' sandbox
 * forbids that, but templates are written that do it, and what they change lives no longer than the
 * rendering. */
#include <string.h>

#include "jinja/jinja_run.h"

typedef struct method_row {
    const char *name;
    kt__jfn *fn;
} method_row;

/* ---- lists ---- */

static kt_status one_arg(kt__jx *x, const char *what, const kt__jargs *args, kt__jv *out) {
    if (args->n_pos != 1 || args->n_kw) return kt__jx_fail(x, "%s takes one argument", what);
    *out = args->pos[0];
    return KT_OK;
}

static kt_status list_append(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jv item;
    KT__STEP(one_arg(x, "append", args, &item));
    *out = kt__j_none();
    return kt__jx_push(x, v.u.l, item);
}

static kt_status list_extend(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jv more;
    const kt__jv *items;
    size_t n;
    KT__STEP(one_arg(x, "extend", args, &more));
    KT__STEP(kt__jx_items(x, more, &items, &n));
    KT__STEP(kt__jx_step(x, n));
    for (size_t i = 0; i < n; i++) KT__STEP(kt__jx_push(x, v.u.l, items[i]));
    *out = kt__j_none();
    return KT_OK;
}

static kt_status list_insert(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jlist *list = v.u.l;
    int64_t at, n = (int64_t)list->n;
    if (args->n_pos != 2 || args->n_kw) return kt__jx_fail(x, "insert takes two arguments");
    KT__STEP(kt__jx_int(x, "insert", args->pos[0], 0, &at));
    if (at < 0) at = at < -n ? 0 : at + n;
    if (at > n) at = n;
    KT__STEP(kt__jx_step(x, list->n / 8 + 1));
    KT__STEP(kt__jx_push(x, list, args->pos[1]));
    memmove(&list->items[at + 1], &list->items[at], (size_t)(n - at) * sizeof *list->items);
    list->items[at] = args->pos[1];
    *out = kt__j_none();
    return KT_OK;
}

static kt_status remove_at(kt__jx *x, kt__jlist *list, size_t at) {
    memmove(&list->items[at], &list->items[at + 1], (list->n - at - 1) * sizeof *list->items);
    list->n--;
    return kt__jx_step(x, list->n / 8 + 1);
}

static kt_status list_pop(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jlist *list = v.u.l;
    int64_t at = -1, n = (int64_t)list->n;
    if (args->n_pos > 1 || args->n_kw) return kt__jx_fail(x, "pop takes one argument");
    if (args->n_pos) KT__STEP(kt__jx_int(x, "pop", args->pos[0], -1, &at));
    if (at < 0) at += n;
    if (at < 0 || at >= n) return kt__jx_fail(x, "pop: no such item");
    *out = list->items[at];
    return remove_at(x, list, (size_t)at);
}

static kt_status find_item(kt__jx *x, const kt__jlist *list, kt__jv item, size_t *at) {
    for (*at = 0; *at < list->n; ++*at) {
        KT__STEP(kt__jx_step(x, 1));
        if (kt__j_equal(list->items[*at], item, &x->steps)) break;
    }
    return KT_OK;
}

static kt_status list_remove(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jv item;
    size_t at;
    KT__STEP(one_arg(x, "remove", args, &item));
    KT__STEP(find_item(x, v.u.l, item, &at));
    if (at == v.u.l->n) return kt__jx_fail(x, "remove: no such item");
    *out = kt__j_none();
    return remove_at(x, v.u.l, at);
}

static kt_status list_index(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jv item;
    size_t at;
    KT__STEP(one_arg(x, "index", args, &item));
    KT__STEP(find_item(x, v.u.l, item, &at));
    if (at == v.u.l->n) return kt__jx_fail(x, "index: no such item");
    *out = kt__j_int((int64_t)at);
    return KT_OK;
}

static kt_status list_count(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jv item;
    int64_t n = 0;
    KT__STEP(one_arg(x, "count", args, &item));
    KT__STEP(kt__jx_step(x, v.u.l->n));
    for (size_t i = 0; i < v.u.l->n; i++) n += kt__j_equal(v.u.l->items[i], item, &x->steps);
    *out = kt__j_int(n);
    return KT_OK;
}

static const method_row list_methods[] = {
    {"index", list_index},   {"count", list_count}, /* tuples have these two */
    {"append", list_append}, {"extend", list_extend}, {"insert", list_insert},
    {"pop", list_pop},       {"remove", list_remove},
};

/* ---- dictionaries ---- */

static kt_status dict_view(kt__jx *x, const kt__jdict *dict, kt__jlist_kind kind, kt__jv *out) {
    kt__jlist *list, *pair;
    KT__STEP(kt__jx_list(x, kind, NULL, 0, &list));
    for (size_t i = 0; i < dict->n; i++) {
        kt__jv both[2] = {dict->items[i].key, dict->items[i].val};
        kt__jv item = both[kind == KT__JL_VALUES];
        KT__STEP(kt__jx_step(x, 1));
        if (kind == KT__JL_ITEMS) {
            KT__STEP(kt__jx_list(x, KT__JL_TUPLE, both, 2, &pair));
            item = kt__j_list(pair);
        }
        KT__STEP(kt__jx_push(x, list, item));
    }
    *out = kt__j_list(list);
    return KT_OK;
}

static kt_status dict_keys(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    KT__STEP(kt__jx_no_args(x, "keys", args));
    return dict_view(x, v.u.d, KT__JL_KEYS, out);
}

static kt_status dict_values(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    KT__STEP(kt__jx_no_args(x, "values", args));
    return dict_view(x, v.u.d, KT__JL_VALUES, out);
}

static kt_status dict_items(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    KT__STEP(kt__jx_no_args(x, "items", args));
    return dict_view(x, v.u.d, KT__JL_ITEMS, out);
}

static kt_status key_args(kt__jx *x, const char *what, const kt__jargs *args, kt__jv slots[2]) {
    static const char *const names[] = {"key", "default"};
    if (args->n_kw) return kt__jx_fail(x, "%s takes no named arguments", what);
    return kt__jx_bind(x, what, args, names, 2, 1, slots);
}

static kt_status dict_get(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jv slots[2];
    KT__STEP(key_args(x, "get", args, slots));
    kt__jkey_result r = kt__jdict_get(v.u.d, slots[0], out, &x->steps);
    if (r == KT__JKEY_BAD) return kt__jx_bad_key(x, slots[0]);
    if (r == KT__JKEY_NONE) *out = slots[1].type == KT__J_MISSING ? kt__j_none() : slots[1];
    return KT_OK;
}

static kt_status dict_pop(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jv slots[2];
    KT__STEP(key_args(x, "pop", args, slots));
    KT__STEP(kt__jx_step(x, v.u.d->n / 8 + 1));
    kt__jkey_result r = kt__jdict_remove(v.u.d, slots[0], out, &x->steps);
    if (r == KT__JKEY_BAD) return kt__jx_bad_key(x, slots[0]);
    if (r == KT__JKEY_FOUND) return KT_OK;
    *out = slots[1];
    return slots[1].type == KT__J_MISSING ? kt__jx_fail(x, "pop: no such key") : KT_OK;
}

static kt_status dict_update(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    if (args->n_pos > 1) return kt__jx_fail(x, "update takes one argument");
    if (args->n_pos) {
        if (args->pos[0].type != KT__J_DICT) return kt__jx_fail(x, "update: expected a mapping");
        const kt__jdict *from = args->pos[0].u.d;
        KT__STEP(kt__jx_step(x, from->n));
        for (size_t i = 0; i < from->n; i++)
            KT__STEP(kt__jx_put(x, v.u.d, from->items[i].key, from->items[i].val));
    }
    for (size_t i = 0; i < args->n_kw; i++)
        KT__STEP(kt__jx_put(x, v.u.d, kt__j_str(args->kw[i].name), args->kw[i].val));
    *out = kt__j_none();
    return KT_OK;
}

static const method_row dict_methods[] = {
    {"get", dict_get},       {"items", dict_items}, {"keys", dict_keys},
    {"values", dict_values}, {"pop", dict_pop},     {"update", dict_update},
};

bool kt__jx_find_container_method(kt__jv v, const kt__jstr *name, kt__jmethod *out) {
    const method_row *rows = dict_methods;
    size_t n = sizeof dict_methods / sizeof *dict_methods;
    if (v.type == KT__J_LIST) {
        if (v.u.l->kind > KT__JL_RANGE) return false;
        rows = list_methods;
        n = v.u.l->kind == KT__JL_LIST ? sizeof list_methods / sizeof *list_methods : 2;
    } else if (v.type != KT__J_DICT) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!kt__jstr_is(name, rows[i].name)) continue;
        *out = (kt__jmethod){v, rows[i].name, rows[i].fn};
        return true;
    }
    return false;
}
