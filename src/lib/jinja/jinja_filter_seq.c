/* Filters over lists, dictionaries and whatever else can be walked. Where Jinja returns a generator
 * these give a list that can be walked once. */
#include <string.h>

#include "jinja/jinja_filter.h"
#include "jinja/jinja_names.h"
#include "jinja/jinja_str.h"

kt_status kt__jf_length(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    int64_t n;
    KT__STEP(kt__jx_no_args(x, "length", args));
    KT__STEP(kt__jx_length(x, v, &n));
    *out = kt__j_int(n);
    return KT_OK;
}

kt_status kt__jf_default(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"default_value", "boolean"};
    kt__jv slots[2];
    KT__STEP(kt__jx_bind(x, "default", args, names, 2, 0, slots));
    *out = v;
    if (v.type != KT__J_UNDEF && (!kt__j_truth(slots[1]) || kt__j_truth(v))) return KT_OK;
    *out = slots[0];
    return slots[0].type == KT__J_MISSING ? kt__jx_literal(x, "", out) : KT_OK;
}

kt_status kt__jf_list(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    const kt__jv *items;
    size_t n;
    kt__jlist *list;
    KT__STEP(kt__jx_no_args(x, "list", args));
    KT__STEP(kt__jx_items(x, v, &items, &n));
    KT__STEP(kt__jx_list(x, KT__JL_LIST, items, n, &list));
    *out = kt__j_list(list);
    return KT_OK;
}

/* (key, value) pairs as tuples */
static kt_status dict_pairs(kt__jx *x, const kt__jdict *dict, kt__jlist_kind kind,
                            kt__jlist **out) {
    KT__STEP(kt__jx_list(x, kind, NULL, 0, out));
    for (size_t i = 0; i < dict->n; i++) {
        const kt__jv pair[2] = {dict->items[i].key, dict->items[i].val};
        kt__jlist *tuple;
        KT__STEP(kt__jx_step(x, 1));
        KT__STEP(kt__jx_list(x, KT__JL_TUPLE, pair, 2, &tuple));
        KT__STEP(kt__jx_push(x, *out, kt__j_list(tuple)));
    }
    return KT_OK;
}

kt_status kt__jf_items(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    kt__jlist *list;
    static const kt__jdict nothing;
    KT__STEP(kt__jx_no_args(x, "items", args));
    if (v.type != KT__J_DICT && v.type != KT__J_UNDEF)
        return kt__jx_fail(x, "items: expected a mapping, not %s", kt__j_type_name(v));
    KT__STEP(dict_pairs(x, v.type == KT__J_DICT ? v.u.d : &nothing, KT__JL_ITER, &list));
    *out = kt__j_list(list);
    return KT_OK;
}

kt_status kt__jf_first(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    const kt__jv *items;
    size_t n;
    KT__STEP(kt__jx_no_args(x, "first", args));
    if (v.type == KT__J_LIST && v.u.l->kind == KT__JL_ITER) { /* takes one and leaves the rest */
        kt__jlist *list = v.u.l;
        *out = list->pos < list->n ? list->items[list->pos++] : kt__j_undef(NULL);
        return KT_OK;
    }
    KT__STEP(kt__jx_items(x, v, &items, &n));
    *out = n ? items[0] : kt__j_undef(NULL);
    return KT_OK;
}

kt_status kt__jf_last(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    const kt__jv *items;
    size_t n;
    KT__STEP(kt__jx_no_args(x, "last", args));
    if (v.type == KT__J_LIST && v.u.l->kind == KT__JL_ITER)
        return kt__jx_fail(x, "last: a generator has no last item");
    KT__STEP(kt__jx_items(x, v, &items, &n));
    *out = n ? items[n - 1] : kt__j_undef(NULL);
    return KT_OK;
}

kt_status kt__jf_reverse(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    const kt__jv *items;
    size_t n;
    kt__jlist *list;
    KT__STEP(kt__jx_no_args(x, "reverse", args));
    if (v.type == KT__J_STR)
        return kt__jx_slice(x, v, kt__j_none(), kt__j_none(), kt__j_int(-1), out);
    bool generator = v.type == KT__J_LIST && v.u.l->kind == KT__JL_ITER;
    KT__STEP(kt__jx_items(x, v, &items, &n));
    KT__STEP(kt__jx_list(x, generator ? KT__JL_LIST : KT__JL_ITER, items, n, &list));
    for (size_t i = 0; i < n; i++) list->items[i] = items[n - 1 - i];
    *out = kt__j_list(list);
    return KT_OK;
}

/* ---- attributes of items ---- */

/* One step of a path: all digits are an index. */
static kt_status path_step(kt__jx *x, kt__jv item, const kt__jstr *part, kt__jv *out) {
    int64_t index = 0;
    bool number = part->len > 0 && part->len < 18;
    for (size_t i = 0; i < part->len && number; i++) {
        number = part->data[i] >= '0' && part->data[i] <= '9';
        index = index * 10 + (part->data[i] - '0');
    }
    return kt__jx_getitem(x, item, number ? kt__j_int(index) : kt__j_str(part), out);
}

/* item at a path such as "function.name" or an integer; a missing path is the item itself.
 * `otherwise` is in for undefined where it is neither missing nor none. */
static kt_status item_attr(kt__jx *x, kt__jv item, kt__jv path, kt__jv otherwise, kt__jv *out) {
    static const kt__jstr dot = {.data = ".", .len = 1, .n_cp = 1};
    kt__jlist *parts;
    *out = item;
    if (path.type == KT__J_MISSING || path.type == KT__J_NONE) return KT_OK;
    bool has_default = otherwise.type != KT__J_MISSING && otherwise.type != KT__J_NONE;
    if (path.type != KT__J_STR) {
        KT__STEP(kt__jx_getitem(x, item, path, out));
        if (has_default && out->type == KT__J_UNDEF) *out = otherwise;
        return KT_OK;
    }
    KT__STEP(kt__js_split(x, path.u.s, &dot, -1, false, &parts));
    for (size_t i = 0; i < parts->n; i++) {
        KT__STEP(path_step(x, *out, parts->items[i].u.s, out));
        if (has_default && out->type == KT__J_UNDEF) *out = otherwise;
    }
    return KT_OK;
}

static kt_status fold_case(kt__jx *x, bool case_sensitive, kt__jv *v) {
    if (case_sensitive || v->type != KT__J_STR) return KT_OK;
    return kt__js_case(x, v->u.s, KT__JCASE_LOWER, v);
}

static kt_status item_key(kt__jx *x, kt__jv item, kt__jv path, bool case_sensitive, kt__jv *out) {
    KT__STEP(item_attr(x, item, path, kt__j_none(), out));
    return fold_case(x, case_sensitive, out);
}

/* ---- join, sum ---- */

kt_status kt__jf_join(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"d", "attribute"};
    const kt__jv *items;
    const kt__jstr *sep = NULL;
    size_t n;
    kt__jv slots[2], item;
    kt__jsb text;
    KT__STEP(kt__jx_bind(x, "join", args, names, 2, 0, slots));
    if (slots[0].type != KT__J_MISSING) KT__STEP(kt__jx_str(x, slots[0], &sep));
    KT__STEP(kt__jx_items(x, v, &items, &n));
    kt__jx_sink(x, &text);
    for (size_t i = 0; i < n; i++) {
        KT__STEP(kt__jx_step(x, 1));
        if (i && sep) kt__jsb_add_str(&text, sep);
        KT__STEP(item_attr(x, items[i], slots[1], kt__j_none(), &item));
        KT__STEP(kt__jx_add_str(x, &text, item));
    }
    return kt__jx_sink_done(x, &text, out);
}

kt_status kt__jf_sum(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"attribute", "start"};
    const kt__jv *items;
    size_t n;
    kt__jv slots[2], item;
    KT__STEP(kt__jx_bind(x, "sum", args, names, 2, 0, slots));
    KT__STEP(kt__jx_items(x, v, &items, &n));
    *out = slots[1].type == KT__J_MISSING ? kt__j_int(0) : slots[1];
    if (out->type == KT__J_STR) return kt__jx_fail(x, "sum: strings are joined, not summed");
    for (size_t i = 0; i < n; i++) {
        KT__STEP(item_attr(x, items[i], slots[0], kt__j_none(), &item));
        KT__STEP(kt__jx_binary(x, KT__JOP_ADD, *out, item, out));
    }
    return KT_OK;
}

/* ---- map, select ---- */

static kt_status name_arg(kt__jx *x, const char *what, const kt__jargs *args, size_t i,
                          const kt__jstr **out) {
    if (i >= args->n_pos) return kt__jx_fail(x, "%s: a name is missing", what);
    return kt__jx_text(x, what, args->pos[i], out);
}

static kt_status map_attribute(kt__jx *x, const kt__jv *items, size_t n, const kt__jargs *args,
                               kt__jlist *list) {
    static const char *const names[] = {"attribute", "default"};
    kt__jv slots[2], item;
    KT__STEP(kt__jx_bind(x, "map", args, names, 2, 1, slots));
    for (size_t i = 0; i < n; i++) {
        KT__STEP(item_attr(x, items[i], slots[0], slots[1], &item));
        KT__STEP(kt__jx_push(x, list, item));
    }
    return KT_OK;
}

static kt_status map_filter(kt__jx *x, const kt__jv *items, size_t n, const kt__jargs *args,
                            kt__jlist *list) {
    const kt__jstr *name;
    KT__STEP(name_arg(x, "map", args, 0, &name));
    uint16_t id = kt__j_find_filter(name->data, name->len);
    if (id == KT__J_UNKNOWN)
        return kt__jx_fail(x, "no filter is named '%.*s'", (int)name->len, name->data);
    kt__jargs rest = *args;
    rest.pos++;
    rest.n_pos--;
    for (size_t i = 0; i < n; i++) {
        kt__jv item;
        KT__STEP(kt__jx_enter(x));
        KT__STEP(kt__jx_filter(x, id, items[i], &rest, &item));
        x->depth--;
        KT__STEP(kt__jx_push(x, list, item));
    }
    return KT_OK;
}

/* The items of v for a filter that gives a generator: none where v is false. */
static kt_status filter_items(kt__jx *x, kt__jv v, const kt__jv **items, size_t *n,
                              kt__jlist **list) {
    *n = 0;
    KT__STEP(kt__jx_list(x, KT__JL_ITER, NULL, 0, list));
    return kt__j_truth(v) ? kt__jx_items(x, v, items, n) : KT_OK;
}

kt_status kt__jf_map(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    const kt__jv *items = NULL;
    size_t n;
    kt__jlist *list;
    KT__STEP(filter_items(x, v, &items, &n, &list));
    *out = kt__j_list(list);
    if (!kt__j_truth(v)) return KT_OK; /* arguments are looked at when the first item is */
    bool attribute = false;
    for (size_t k = 0; k < args->n_kw; k++)
        attribute = attribute || kt__jstr_is(args->kw[k].name, "attribute");
    if (args->n_pos == 0 && attribute) return map_attribute(x, items, n, args, list);
    return map_filter(x, items, n, args, list);
}

/* Whether an item passes: the test named at args[at] with the rest as its arguments, or its truth.
 */
static kt_status test_item(kt__jx *x, kt__jv item, const kt__jargs *args, size_t at, bool *out) {
    const kt__jstr *name;
    *out = kt__j_truth(item);
    if (args->n_pos <= at) return KT_OK;
    KT__STEP(name_arg(x, "select", args, at, &name));
    uint16_t id = kt__j_find_test(name->data, name->len);
    if (id == KT__J_UNKNOWN)
        return kt__jx_fail(x, "no test is named '%.*s'", (int)name->len, name->data);
    kt__jargs rest = *args;
    rest.pos += at + 1;
    rest.n_pos -= at + 1;
    return kt__jx_test(x, id, item, &rest, out);
}

static kt_status select_items(kt__jx *x, kt__jv v, const kt__jargs *args, bool wanted, bool by_attr,
                              kt__jv *out) {
    const kt__jv *items = NULL;
    size_t n;
    kt__jlist *list;
    KT__STEP(filter_items(x, v, &items, &n, &list));
    *out = kt__j_list(list);
    if (!kt__j_truth(v)) return KT_OK;
    if (by_attr && args->n_pos == 0) return kt__jx_fail(x, "select: the attribute is missing");
    for (size_t i = 0; i < n; i++) {
        kt__jv item = items[i];
        bool ok;
        KT__STEP(kt__jx_step(x, 1));
        if (by_attr) KT__STEP(item_attr(x, items[i], args->pos[0], kt__j_none(), &item));
        KT__STEP(test_item(x, item, args, by_attr, &ok));
        if (ok == wanted) KT__STEP(kt__jx_push(x, list, items[i]));
    }
    return KT_OK;
}

kt_status kt__jf_select(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return select_items(x, v, args, true, false, out);
}

kt_status kt__jf_reject(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return select_items(x, v, args, false, false, out);
}

kt_status kt__jf_selectattr(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return select_items(x, v, args, true, true, out);
}

kt_status kt__jf_rejectattr(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return select_items(x, v, args, false, true, out);
}

/* ---- order ---- */

static kt_status by_keys(kt__jx *x, const kt__jv *items, const kt__jv *keys, size_t n, bool reverse,
                         kt__jv *out) {
    uint32_t *order;
    kt__jlist *list;
    KT__STEP(kt__jx_sort(x, keys, n, reverse, &order));
    KT__STEP(kt__jx_list(x, KT__JL_LIST, items, n, &list));
    for (size_t i = 0; i < n; i++) list->items[i] = items[order[i]];
    *out = kt__j_list(list);
    return KT_OK;
}

/* Keys by one or several paths ("age,name"), each key a list. */
static kt_status sort_keys(kt__jx *x, const kt__jv *items, size_t n, kt__jv paths,
                           bool case_sensitive, kt__jv **out) {
    static const kt__jstr comma = {.data = ",", .len = 1, .n_cp = 1};
    kt__jlist *parts;
    if (paths.type == KT__J_STR)
        KT__STEP(kt__js_split(x, paths.u.s, &comma, -1, false, &parts));
    else
        KT__STEP(kt__jx_list(x, KT__JL_LIST, &paths, 1, &parts));
    *out = kt__arena_alloc(&x->arena, (n + 1) * sizeof **out);
    if (!*out) return kt__jx_nomem(x);
    for (size_t i = 0; i < n; i++) {
        kt__jlist *key;
        KT__STEP(kt__jx_list(x, KT__JL_LIST, NULL, 0, &key));
        for (size_t k = 0; k < parts->n; k++) {
            kt__jv part;
            KT__STEP(item_key(x, items[i], parts->items[k], case_sensitive, &part));
            KT__STEP(kt__jx_push(x, key, part));
        }
        (*out)[i] = kt__j_list(key);
    }
    return KT_OK;
}

kt_status kt__jf_sort(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"reverse", "case_sensitive", "attribute"};
    const kt__jv *items = NULL;
    kt__jv slots[3], *keys;
    size_t n;
    KT__STEP(kt__jx_bind(x, "sort", args, names, 3, 0, slots));
    KT__STEP(kt__jx_items(x, v, &items, &n));
    KT__STEP(sort_keys(x, items, n, slots[2], kt__j_truth(slots[1]), &keys));
    return by_keys(x, items, keys, n, kt__j_truth(slots[0]), out);
}

kt_status kt__jf_dictsort(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"case_sensitive", "by", "reverse"};
    kt__jv slots[3];
    kt__jlist *list;
    KT__STEP(kt__jx_bind(x, "dictsort", args, names, 3, 0, slots));
    bool by_value = slots[1].type == KT__J_STR && kt__jstr_is(slots[1].u.s, "value");
    bool by_key = slots[1].type == KT__J_MISSING ||
                  (slots[1].type == KT__J_STR && kt__jstr_is(slots[1].u.s, "key"));
    if (!by_value && !by_key) return kt__jx_fail(x, "dictsort: by is \"key\" or \"value\"");
    if (v.type == KT__J_UNDEF) return kt__jx_undefined(x, v);
    if (v.type != KT__J_DICT)
        return kt__jx_fail(x, "dictsort: expected a mapping, not %s", kt__j_type_name(v));
    KT__STEP(dict_pairs(x, v.u.d, KT__JL_LIST, &list));
    kt__jv *keys = kt__arena_alloc(&x->arena, (list->n + 1) * sizeof *keys);
    if (!keys) return kt__jx_nomem(x);
    for (size_t i = 0; i < list->n; i++) {
        keys[i] = list->items[i].u.l->items[by_value];
        KT__STEP(fold_case(x, kt__j_truth(slots[0]), &keys[i]));
    }
    return by_keys(x, list->items, keys, list->n, kt__j_truth(slots[2]), out);
}

static kt_status extreme_item(kt__jx *x, kt__jv v, const kt__jargs *args, const char *what,
                              kt__jop better, kt__jv *out) {
    static const char *const names[] = {"case_sensitive", "attribute"};
    const kt__jv *items = NULL;
    kt__jv slots[2], best, key;
    size_t n;
    KT__STEP(kt__jx_bind(x, what, args, names, 2, 0, slots));
    KT__STEP(kt__jx_items(x, v, &items, &n));
    *out = kt__j_undef(NULL);
    for (size_t i = 0; i < n; i++) {
        bool take = i == 0;
        KT__STEP(item_key(x, items[i], slots[1], kt__j_truth(slots[0]), &key));
        if (i) KT__STEP(kt__jx_compare(x, better, key, best, &take));
        if (!take) continue;
        best = key;
        *out = items[i];
    }
    return KT_OK;
}

kt_status kt__jf_min(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return extreme_item(x, v, args, "min", KT__JOP_LT, out);
}

kt_status kt__jf_max(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return extreme_item(x, v, args, "max", KT__JOP_GT, out);
}

kt_status kt__jf_unique(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"case_sensitive", "attribute"};
    const kt__jv *items = NULL;
    kt__jv slots[2], key, seen;
    kt__jlist *list;
    size_t n;
    KT__STEP(kt__jx_bind(x, "unique", args, names, 2, 0, slots));
    KT__STEP(kt__jx_items(x, v, &items, &n));
    KT__STEP(kt__jx_list(x, KT__JL_ITER, NULL, 0, &list));
    kt__jdict *keys = kt__jdict_new(&x->arena);
    if (!keys) return kt__jx_nomem(x);
    for (size_t i = 0; i < n; i++) {
        KT__STEP(item_key(x, items[i], slots[1], kt__j_truth(slots[0]), &key));
        KT__STEP(kt__jx_step(x, 2));
        if (kt__jdict_get(keys, key, &seen, &x->steps) == KT__JKEY_FOUND) continue;
        KT__STEP(kt__jx_put(x, keys, key, kt__j_none()));
        KT__STEP(kt__jx_push(x, list, items[i]));
    }
    *out = kt__j_list(list);
    return KT_OK;
}

/* ---- the table ---- */

enum { FILTER_STEPS = 4 }; /* what a call and a small result take */

kt_status kt__jx_filter(kt__jx *x, uint16_t id, kt__jv v, const kt__jargs *args, kt__jv *out) {
#define F(name, function) function,
    static kt__jfn *const functions[] = {
#include "jinja/jinja_filters.def"
    };
#undef F
    if (id >= sizeof functions / sizeof *functions) return kt__jx_fail(x, "an unknown filter");
    KT__STEP(kt__jx_step(x, FILTER_STEPS));
    return functions[id](x, v, args, out);
}
