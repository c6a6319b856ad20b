/* Filters over numbers: abs, int, float. */
#include "jinja/jinja_run.h"

#include <math.h>
#include <string.h>

#include "jinja/jinja_ast.h"
#include "jinja/jinja_text.h"
#include "jinja/json.h"

static bool is_integer(kt__jv v) {
    return v.type == KT__J_INT || v.type == KT__J_BOOL;
}

static int64_t as_int(kt__jv v) {
    return v.type == KT__J_BOOL ? v.u.b : v.u.i;
}

kt_status kt__jf_abs(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    KT__STEP(kt__jx_no_args(x, "abs", args));
    *out = kt__j_float(fabs(v.u.f));
    if (v.type == KT__J_FLOAT) return KT_OK;
    *out = kt__j_int(as_int(v));
    return is_integer(v) && as_int(v) >= 0 ? KT_OK : kt__jx_negate(x, v, true, out);
}

/* ---- text to numbers ---- */

/* s without white space around it; false: too long. */
static bool trim_number(const kt__jstr *s, const char **text, size_t *n) {
    size_t from = 0, to = s->len, k;
    while (from < to && (k = kt__jstr_space(s->data + from, to - from)) > 0) from += k;
    while (from < to && (k = kt__jstr_space_before(s->data + from, to - from)) > 0) to -= k;
    *text = s->data + from;
    *n = to - from;
    return *n < KT__J_NUM_MAX;
}

typedef enum parsed { PARSED, NOT_A_NUMBER, OVER } parsed;

/* [sign] digits */
static parsed parse_int(const kt__jstr *s, int64_t *out) {
    const char *text;
    size_t n;
    if (!trim_number(s, &text, &n)) return NOT_A_NUMBER;
    bool negative = n && text[0] == '-', over = false;
    size_t at = n && (text[0] == '-' || text[0] == '+');
    *out = 0;
    if (at == n) return NOT_A_NUMBER;
    for (; at < n; at++) {
        int digit = text[at] - '0';
        if (digit < 0 || digit > 9) return NOT_A_NUMBER;
        over = over || __builtin_mul_overflow(*out, 10, out) ||
               (negative ? __builtin_sub_overflow(*out, digit, out)
                         : __builtin_add_overflow(*out, digit, out));
    }
    return over ? OVER : PARSED;
}

static bool parse_float(const kt__jstr *s, double *out) {
    const char *text;
    size_t n;
    return trim_number(s, &text, &n) && kt__jnum_parse(text, n, out);
}

static kt_status float_to_int(kt__jx *x, double f, kt__jv otherwise, kt__jv *out) {
    *out = otherwise;
    if (isnan(f)) return KT_OK;
    if (!(f > -0x1p63 - 1 && f < 0x1p63)) return kt__jx_fail(x, "int: an integer over 64 bits");
    *out = kt__j_int((int64_t)f);
    return KT_OK;
}

kt_status kt__jf_int(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"default"};
    kt__jv slot, otherwise = kt__j_int(0);
    int64_t i;
    double f;
    KT__STEP(kt__jx_bind(x, "int", args, names, 1, 0, &slot));
    if (slot.type != KT__J_MISSING) otherwise = slot;
    *out = otherwise;
    switch (v.type) {
    case KT__J_UNDEF: return kt__jx_undefined(x, v);
    case KT__J_BIGINT: *out = v; return KT_OK;
    case KT__J_BOOL:
    case KT__J_INT: *out = kt__j_int(as_int(v)); return KT_OK;
    case KT__J_FLOAT: return float_to_int(x, v.u.f, otherwise, out);
    case KT__J_STR: break;
    default: return KT_OK;
    }
    parsed p = parse_int(v.u.s, &i);
    if (p == OVER) return kt__jx_fail(x, "int: an integer over 64 bits");
    if (p == PARSED) *out = kt__j_int(i);
    if (p == NOT_A_NUMBER && parse_float(v.u.s, &f)) return float_to_int(x, f, otherwise, out);
    return KT_OK;
}

kt_status kt__jf_float(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"default"};
    kt__jv slot;
    double f;
    KT__STEP(kt__jx_bind(x, "float", args, names, 1, 0, &slot));
    *out = slot.type == KT__J_MISSING ? kt__j_float(0) : slot;
    if (v.type == KT__J_UNDEF) return kt__jx_undefined(x, v);
    if (v.type == KT__J_FLOAT) *out = v;
    if (is_integer(v)) *out = kt__j_float((double)as_int(v));
    bool text = v.type == KT__J_STR || v.type == KT__J_BIGINT;
    if (text && parse_float(v.u.s, &f)) *out = kt__j_float(f);
    return KT_OK;
}

/* Filters over lists, dictionaries and whatever else can be walked. Where Jinja returns a generator
 * these give a list that can be walked once. */

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

/* Filters over text. */

static kt_status map_case(kt__jx *x, kt__jv v, const kt__jargs *args, const char *what,
                          kt__jcase mode, kt__jv *out) {
    const kt__jstr *s;
    KT__STEP(kt__jx_no_args(x, what, args));
    KT__STEP(kt__jx_str(x, v, &s));
    return kt__js_case(x, s, mode, out);
}

kt_status kt__jf_upper(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return map_case(x, v, args, "upper", KT__JCASE_UPPER, out);
}

kt_status kt__jf_lower(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return map_case(x, v, args, "lower", KT__JCASE_LOWER, out);
}

kt_status kt__jf_title(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return map_case(x, v, args, "title", KT__JCASE_FILTER_TITLE, out);
}

kt_status kt__jf_capitalize(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return map_case(x, v, args, "capitalize", KT__JCASE_CAPITAL, out);
}

kt_status kt__jf_string(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    const kt__jstr *s;
    KT__STEP(kt__jx_no_args(x, "string", args));
    KT__STEP(kt__jx_str(x, v, &s));
    *out = kt__j_str(s);
    return KT_OK;
}

/* What '+' does not escape: see kt__jstr.markup. */
kt_status kt__jf_safe(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    const kt__jstr *s;
    KT__STEP(kt__jx_no_args(x, "safe", args));
    KT__STEP(kt__jx_str(x, v, &s));
    KT__STEP(kt__jx_sub(x, s, 0, s->len, out));
    ((kt__jstr *)(uintptr_t)out->u.s)->markup = true; /* made here, not yet shared */
    return KT_OK;
}

kt_status kt__jf_trim(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"chars"};
    const kt__jstr *s, *chars = NULL;
    kt__jv slot;
    KT__STEP(kt__jx_bind(x, "trim", args, names, 1, 0, &slot));
    KT__STEP(kt__jx_str(x, v, &s));
    if (slot.type != KT__J_MISSING && slot.type != KT__J_NONE)
        KT__STEP(kt__jx_text(x, "trim", slot, &chars));
    return kt__js_strip(x, s, chars, true, true, out);
}

kt_status kt__jf_replace(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"old", "new", "count"};
    const kt__jstr *s, *old, *with;
    kt__jv slots[3];
    int64_t count;
    KT__STEP(kt__jx_bind(x, "replace", args, names, 3, 2, slots));
    if (slots[2].type == KT__J_NONE) slots[2].type = KT__J_MISSING;
    KT__STEP(kt__jx_int(x, "replace", slots[2], -1, &count));
    KT__STEP(kt__jx_str(x, v, &s));
    KT__STEP(kt__jx_str(x, slots[0], &old));
    KT__STEP(kt__jx_str(x, slots[1], &with));
    return kt__js_replace(x, s, old, with, count, out);
}

/* ---- indent ---- */

static kt_status indent_text(kt__jx *x, kt__jv width, const kt__jstr **out) {
    static const kt__jstr space = {.data = " ", .len = 1, .n_cp = 1, .from_template = true};
    kt__jv made;
    int64_t n;
    if (width.type == KT__J_STR) {
        *out = width.u.s;
        return KT_OK;
    }
    KT__STEP(kt__jx_int(x, "indent", width, 4, &n));
    KT__STEP(kt__jx_binary(x, KT__JOP_MUL, kt__j_str(&space), kt__j_int(n), &made));
    *out = made.u.s;
    return KT_OK;
}

kt_status kt__jf_indent(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"width", "first", "blank"};
    const kt__jstr *s, *by;
    kt__jv slots[3];
    kt__jlist *lines;
    kt__jsb text;
    KT__STEP(kt__jx_bind(x, "indent", args, names, 3, 0, slots));
    KT__STEP(kt__jx_text(x, "indent", v, &s));
    KT__STEP(indent_text(x, slots[0], &by));
    KT__STEP(kt__js_lines(x, s, false, &lines));
    bool first = kt__j_truth(slots[1]), blank = kt__j_truth(slots[2]);
    kt__jx_sink(x, &text);
    if (first) kt__jsb_add_str(&text, by);
    for (size_t i = 0; i < lines->n; i++) {
        const kt__jstr *line = lines->items[i].u.s;
        if (i) kt__jsb_add(&text, "\n", 1, true);
        if (i && (line->len || blank)) kt__jsb_add_str(&text, by);
        kt__jsb_add_str(&text, line);
    }
    /* Jinja splits s + "\n", so a line end at the very end leaves one empty line */
    size_t last = s->len;
    while (last > 0 && ((unsigned char)s->data[last - 1] & 0xC0) == 0x80) last--;
    if (last > 0) last--;
    if (s->len && kt__jstr_line_end(s->data + last, s->len - last) && s->data[s->len - 1] != '\r') {
        kt__jsb_add(&text, "\n", 1, true);
        if (blank) kt__jsb_add_str(&text, by);
    }
    return kt__jx_sink_done(x, &text, out);
}

/* ---- JSON ---- */

/* indent: none, a number of spaces, or the text of one level */
static kt_status dump_indent(kt__jx *x, kt__jv v, const kt__jstr **out) {
    *out = NULL;
    if (v.type == KT__J_MISSING || v.type == KT__J_NONE) return KT_OK;
    return indent_text(x, v, out);
}

static kt_status dump_separators(kt__jx *x, kt__jv v, kt__jdump *opt) {
    const kt__jv *items;
    size_t n;
    if (v.type == KT__J_MISSING || v.type == KT__J_NONE) return KT_OK;
    KT__STEP(kt__jx_items(x, v, &items, &n));
    if (n != 2) return kt__jx_fail(x, "tojson: separators are two strings");
    KT__STEP(kt__jx_text(x, "tojson", items[0], &opt->item_sep));
    return kt__jx_text(x, "tojson", items[1], &opt->key_sep);
}

/* As transformers defines it: json.dumps, not escaped for HTML. */
kt_status kt__jf_tojson(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys"};
    kt__jv slots[4];
    kt__jdump opt = {0};
    const kt__jstr *s;
    KT__STEP(kt__jx_bind(x, "tojson", args, names, 4, 0, slots));
    opt.ascii = kt__j_truth(slots[0]);
    opt.sort_keys = kt__j_truth(slots[3]);
    KT__STEP(dump_indent(x, slots[1], &opt.indent));
    KT__STEP(dump_separators(x, slots[2], &opt));
    KT__STEP(kt__jx_dump(x, v, &opt, &s));
    *out = kt__j_str(s);
    return KT_OK;
}

kt_status kt__jf_from_json(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    const kt__jstr *s;
    kt_error inner;
    KT__STEP(kt__jx_no_args(x, "from_json", args));
    KT__STEP(kt__jx_text(x, "from_json", v, &s));
    KT__STEP(kt__jx_step(x, s->len / 8 + 1));
    kt_status status = kt__json_parse(&x->arena, s->data, s->len, out, &inner);
    if (status == KT_E_NOMEM) return kt__jx_nomem(x);
    return status == KT_OK ? KT_OK : kt__jx_fail(x, "from_json: %s", inner.message);
}
