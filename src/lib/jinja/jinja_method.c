/* Methods of strings, as Python names them. */
#include <string.h>

#include "base/text.h"
#include "jinja/jinja_run.h"
#include "jinja/jinja_text.h"

typedef struct method_row {
    const char *name;
    kt__jfn *fn;
} method_row;

/* ---- strings: case ---- */

#define CASE_METHOD(name, mode)                                                            \
    static kt_status str_##name(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) { \
        KT__STEP(kt__jx_no_args(x, #name, args));                                          \
        return kt__js_case(x, v.u.s, mode, out);                                           \
    }
CASE_METHOD(upper, KT__JCASE_UPPER)
CASE_METHOD(lower, KT__JCASE_LOWER)
CASE_METHOD(capitalize, KT__JCASE_CAPITAL)
CASE_METHOD(title, KT__JCASE_TITLE)

/* ---- strings: strip, replace, split, join ---- */

static kt_status strip_sides(kt__jx *x, kt__jv v, const kt__jargs *args, bool left, bool right,
                             kt__jv *out) {
    static const char *const names[] = {"chars"};
    const kt__jstr *chars = NULL;
    kt__jv slot;
    if (args->n_kw) return kt__jx_fail(x, "strip takes no named arguments");
    KT__STEP(kt__jx_bind(x, "strip", args, names, 1, 0, &slot));
    if (slot.type != KT__J_MISSING && slot.type != KT__J_NONE)
        KT__STEP(kt__jx_text(x, "strip", slot, &chars));
    return kt__js_strip(x, v.u.s, chars, left, right, out);
}

static kt_status str_strip(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return strip_sides(x, v, args, true, true, out);
}

static kt_status str_lstrip(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return strip_sides(x, v, args, true, false, out);
}

static kt_status str_rstrip(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return strip_sides(x, v, args, false, true, out);
}

static kt_status str_replace(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"old", "new", "count"};
    const kt__jstr *old, *with;
    kt__jv slots[3];
    int64_t count;
    if (args->n_kw) return kt__jx_fail(x, "replace takes no named arguments");
    KT__STEP(kt__jx_bind(x, "replace", args, names, 3, 2, slots));
    KT__STEP(kt__jx_text(x, "replace", slots[0], &old));
    KT__STEP(kt__jx_text(x, "replace", slots[1], &with));
    KT__STEP(kt__jx_int(x, "replace", slots[2], -1, &count));
    return kt__js_replace(x, v.u.s, old, with, count, out);
}

static kt_status split_text(kt__jx *x, kt__jv v, const kt__jargs *args, bool from_right,
                            kt__jv *out) {
    static const char *const names[] = {"sep", "maxsplit"};
    const kt__jstr *sep = NULL;
    kt__jv slots[2];
    kt__jlist *list;
    int64_t max;
    KT__STEP(kt__jx_bind(x, "split", args, names, 2, 0, slots));
    if (slots[0].type != KT__J_MISSING && slots[0].type != KT__J_NONE)
        KT__STEP(kt__jx_text(x, "split", slots[0], &sep));
    KT__STEP(kt__jx_int(x, "split", slots[1], -1, &max));
    KT__STEP(kt__js_split(x, v.u.s, sep, max < 0 ? -1 : max, from_right, &list));
    *out = kt__j_list(list);
    return KT_OK;
}

static kt_status str_split(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return split_text(x, v, args, false, out);
}

static kt_status str_rsplit(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return split_text(x, v, args, true, out);
}

static kt_status str_splitlines(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"keepends"};
    kt__jv slot;
    kt__jlist *list;
    KT__STEP(kt__jx_bind(x, "splitlines", args, names, 1, 0, &slot));
    KT__STEP(kt__js_lines(x, v.u.s, kt__j_truth(slot), &list));
    *out = kt__j_list(list);
    return KT_OK;
}

static kt_status str_join(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    static const char *const names[] = {"iterable"};
    const kt__jv *items;
    size_t n;
    kt__jv slot;
    kt__jsb text;
    KT__STEP(kt__jx_bind(x, "join", args, names, 1, 1, &slot));
    KT__STEP(kt__jx_items(x, slot, &items, &n));
    kt__jx_sink(x, &text);
    for (size_t i = 0; i < n; i++) {
        const kt__jstr *part;
        KT__STEP(kt__jx_text(x, "join", items[i], &part));
        KT__STEP(kt__jx_step(x, 1));
        if (i) kt__jsb_add_str(&text, v.u.s);
        kt__jsb_add_str(&text, part);
    }
    return kt__jx_sink_done(x, &text, out);
}

static kt_status str_format(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return kt__jx_format(x, v.u.s, args, out);
}

/* ---- strings: searching ---- */

/* Python's optional start and end, in characters, as byte offsets. */
static kt_status range_args(kt__jx *x, const kt__jstr *s, kt__jv start, kt__jv end, size_t *from,
                            size_t *to, bool *empty) {
    int64_t n = (int64_t)s->n_cp, a, b;
    if (start.type == KT__J_NONE) start.type = KT__J_MISSING;
    if (end.type == KT__J_NONE) end.type = KT__J_MISSING;
    KT__STEP(kt__jx_int(x, "start", start, 0, &a));
    KT__STEP(kt__jx_int(x, "end", end, n, &b));
    if (a < 0) a = a < -n ? 0 : a + n;
    if (b < 0) b = b < -n ? 0 : b + n;
    if (b > n) b = n;
    if (s->n_cp != s->len) KT__STEP(kt__jx_step(x, s->len / 32));
    *empty = a > b; /* not even the empty string is found there */
    *from = kt__jstr_offset(s, (size_t)(a > n ? n : a));
    *to = kt__jstr_offset(s, (size_t)b);
    return KT_OK;
}

typedef struct search {
    const kt__jstr *needle;
    kt__jv needles; /* as given: a string, or a tuple of strings */
    size_t from, to;
    bool empty;
} search;

static kt_status search_args(kt__jx *x, const char *what, kt__jv v, const kt__jargs *args,
                             bool tuples, search *out) {
    static const char *const names[] = {"sub", "start", "end"};
    kt__jv slots[3];
    if (args->n_kw) return kt__jx_fail(x, "%s takes no named arguments", what);
    KT__STEP(kt__jx_bind(x, what, args, names, 3, 1, slots));
    bool tuple = slots[0].type == KT__J_LIST && slots[0].u.l->kind == KT__JL_TUPLE;
    out->needles = slots[0];
    out->needle = NULL;
    if (!tuples || !tuple) KT__STEP(kt__jx_text(x, what, slots[0], &out->needle));
    return range_args(x, v.u.s, slots[1], slots[2], &out->from, &out->to, &out->empty);
}

static bool affix_fits(const kt__jstr *s, const search *a, const kt__jstr *affix, bool at_end) {
    if (a->empty || affix->len > a->to - a->from) return false;
    size_t at = at_end ? a->to - affix->len : a->from;
    return affix->len == 0 || memcmp(s->data + at, affix->data, affix->len) == 0;
}

static kt_status has_affix(kt__jx *x, kt__jv v, const kt__jargs *args, bool at_end, kt__jv *out) {
    search a;
    KT__STEP(search_args(x, at_end ? "endswith" : "startswith", v, args, true, &a));
    KT__STEP(kt__jx_step(x, a.needle ? a.needle->len / 64 : 0));
    bool fits = a.needle && affix_fits(v.u.s, &a, a.needle, at_end);
    for (size_t i = 0; !a.needle && i < a.needles.u.l->n && !fits; i++) {
        const kt__jstr *one;
        KT__STEP(kt__jx_text(x, "startswith", a.needles.u.l->items[i], &one));
        KT__STEP(kt__jx_step(x, one->len / 64 + 1));
        fits = affix_fits(v.u.s, &a, one, at_end);
    }
    *out = kt__j_bool(fits);
    return KT_OK;
}

static kt_status str_startswith(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return has_affix(x, v, args, false, out);
}

static kt_status str_endswith(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return has_affix(x, v, args, true, out);
}

/* The character position of a match, -1 for none. */
static kt_status find_text(kt__jx *x, const char *what, kt__jv v, const kt__jargs *args, bool last,
                           int64_t *out) {
    const kt__jstr *s = v.u.s;
    search a;
    KT__STEP(search_args(x, what, v, args, false, &a));
    KT__STEP(kt__jx_step(x, s->len / 32 + 1));
    size_t at = last ? kt__jstr_rfind(s, a.needle->data, a.needle->len, a.to, &x->steps)
                     : kt__jstr_find(s, a.needle->data, a.needle->len, a.from);
    *out = -1;
    if (a.empty || at == SIZE_MAX || at < a.from || at + a.needle->len > a.to) return KT_OK;
    *out = (int64_t)at;
    if (s->n_cp == s->len) return KT_OK;
    *out = 0;
    for (size_t i = 0; i < at; i++) *out += ((unsigned char)s->data[i] & 0xC0) != 0x80;
    return KT_OK;
}

static kt_status str_find(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    int64_t at;
    KT__STEP(find_text(x, "find", v, args, false, &at));
    *out = kt__j_int(at);
    return KT_OK;
}

static kt_status str_rfind(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    int64_t at;
    KT__STEP(find_text(x, "rfind", v, args, true, &at));
    *out = kt__j_int(at);
    return KT_OK;
}

static kt_status str_count(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    search a;
    int64_t n = 0;
    KT__STEP(search_args(x, "count", v, args, false, &a));
    KT__STEP(kt__jx_step(x, v.u.s->len / 32 + 1));
    size_t at = a.from, len = a.needle->len;
    if (a.empty) {
        *out = kt__j_int(0);
        return KT_OK;
    }
    if (len == 0) {
        for (n = 1; at < a.to; at++) n += ((unsigned char)v.u.s->data[at] & 0xC0) != 0x80;
    } else {
        while ((at = kt__jstr_find(v.u.s, a.needle->data, len, at)) != SIZE_MAX &&
               at + len <= a.to) {
            KT__STEP(kt__jx_step(x, 1));
            n++;
            at += len;
        }
    }
    *out = kt__j_int(n);
    return KT_OK;
}

static kt_status remove_affix(kt__jx *x, kt__jv v, const kt__jargs *args, bool at_end,
                              kt__jv *out) {
    static const char *const names[] = {"affix"};
    const kt__jstr *s = v.u.s, *cut;
    kt__jv slot;
    KT__STEP(kt__jx_bind(x, "removeprefix", args, names, 1, 1, &slot));
    KT__STEP(kt__jx_text(x, "removeprefix", slot, &cut));
    const search whole = {.from = 0, .to = s->len};
    size_t n = affix_fits(s, &whole, cut, at_end) ? cut->len : 0;
    return kt__jx_sub(x, s, at_end ? 0 : n, at_end ? s->len - n : s->len, out);
}

static kt_status str_removeprefix(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return remove_affix(x, v, args, false, out);
}

static kt_status str_removesuffix(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    return remove_affix(x, v, args, true, out);
}

/* ---- strings: classes ---- */

static bool is_alnum(uint32_t cp) {
    return kt__j_is_alpha(cp) || kt__j_is_digit(cp);
}

static bool is_space(uint32_t cp) {
    char c[4];
    size_t n = kt__utf8_encode(cp, c);
    return kt__jstr_space(c, n) != 0;
}

/* Whether there are characters and all are of the class. */
static kt_status all_of(kt__jx *x, kt__jv v, const kt__jargs *args, bool (*in_class)(uint32_t),
                        kt__jv *out) {
    const kt__jstr *s = v.u.s;
    bool all = s->len > 0;
    KT__STEP(kt__jx_no_args(x, "this method", args));
    KT__STEP(kt__jx_step(x, s->len / 8 + 1));
    for (size_t at = 0, n; at < s->len && all; at += n) {
        uint32_t cp = 0;
        n = kt__utf8_decode(s->data + at, s->len - at, &cp);
        all = n != 0 && in_class(cp);
    }
    *out = kt__j_bool(all);
    return KT_OK;
}

#define CLASS_METHOD(name, in_class)                                                       \
    static kt_status str_##name(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) { \
        return all_of(x, v, args, in_class, out);                                          \
    }
CLASS_METHOD(isdigit, kt__j_is_digit)
CLASS_METHOD(isalpha, kt__j_is_alpha)
CLASS_METHOD(isalnum, is_alnum)
CLASS_METHOD(isspace, is_space)

static const method_row str_methods[] = {
    {"capitalize", str_capitalize},
    {"count", str_count},
    {"endswith", str_endswith},
    {"find", str_find},
    {"format", str_format},
    {"isalnum", str_isalnum},
    {"isalpha", str_isalpha},
    {"isdigit", str_isdigit},
    {"isspace", str_isspace},
    {"join", str_join},
    {"lower", str_lower},
    {"lstrip", str_lstrip},
    {"removeprefix", str_removeprefix},
    {"removesuffix", str_removesuffix},
    {"replace", str_replace},
    {"rfind", str_rfind},
    {"rsplit", str_rsplit},
    {"rstrip", str_rstrip},
    {"split", str_split},
    {"splitlines", str_splitlines},
    {"startswith", str_startswith},
    {"strip", str_strip},
    {"title", str_title},
    {"upper", str_upper},
};

/* ---- look-up ---- */

bool kt__jx_find_method(kt__jv v, const kt__jstr *name, kt__jmethod *out) {
    const method_row *rows = str_methods;
    size_t n = sizeof str_methods / sizeof *str_methods;
    if (v.type != KT__J_STR) return kt__jx_find_container_method(v, name, out);
    for (size_t i = 0; i < n; i++) {
        if (!kt__jstr_is(name, rows[i].name)) continue;
        *out = (kt__jmethod){v, rows[i].name, rows[i].fn};
        return true;
    }
    return false;
}

/* Methods of lists and dictionaries. They may be changed (append, pop, ...): transformers' sandbox
 * forbids that, but templates are written that do it, and what they change lives no longer than the
 * rendering. */

typedef struct list_method_row {
    const char *name;
    kt__jfn *fn;
} list_method_row;

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

static const list_method_row list_methods[] = {
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

static const list_method_row dict_methods[] = {
    {"get", dict_get},       {"items", dict_items}, {"keys", dict_keys},
    {"values", dict_values}, {"pop", dict_pop},     {"update", dict_update},
};

bool kt__jx_find_container_method(kt__jv v, const kt__jstr *name, kt__jmethod *out) {
    const list_method_row *rows = dict_methods;
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
