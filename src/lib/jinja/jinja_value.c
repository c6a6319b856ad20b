#include "jinja/jinja_value.h"

#include <string.h>

/* ---- strings ---- */

static size_t count_cp(const char *data, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)data[i] & 0xC0) != 0x80;
    return n;
}

kt__jstr *kt__jstr_new(kt__arena *arena, const char *data, size_t len, bool from_template) {
    kt__jstr *s = kt__arena_alloc(arena, sizeof *s);
    if (!s) return NULL;
    *s = (kt__jstr){
        .data = data, .len = len, .n_cp = count_cp(data, len), .from_template = from_template};
    return s;
}

kt__jstr *kt__jstr_copy(kt__arena *arena, const char *data, size_t len, bool from_template) {
    char *copy = kt__arena_strndup(arena, data, len);
    return copy ? kt__jstr_new(arena, copy, len, from_template) : NULL;
}

/* The run that byte `at` lies in. */
static size_t run_of(const kt__jstr *s, size_t at) {
    size_t low = 0, high = s->n_runs - 1;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (s->runs[mid].end <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The runs of [from, to), shifted to start at 0. */
static bool sub_runs(kt__arena *arena, const kt__jstr *s, size_t from, size_t to, kt__jstr *out) {
    size_t first = run_of(s, from), last = first;
    while (s->runs[last].end < to) last++;
    out->from_template = s->runs[first].from_template;
    if (first == last) return true;
    size_t n = last - first + 1;
    kt__jrun *runs = kt__arena_alloc(arena, n * sizeof *runs);
    if (!runs) return false;
    for (size_t i = 0; i < n; i++) {
        size_t end = s->runs[first + i].end;
        runs[i] = (kt__jrun){(end < to ? end : to) - from, s->runs[first + i].from_template};
    }
    out->runs = runs;
    out->n_runs = n;
    return true;
}

kt__jstr *kt__jstr_sub(kt__arena *arena, const kt__jstr *s, size_t from, size_t to) {
    kt__jstr *sub = kt__jstr_new(arena, s->data + from, to - from, s->from_template);
    if (!sub) return NULL;
    sub->markup = s->markup;
    if (s->n_runs && from < to && !sub_runs(arena, s, from, to, sub)) return NULL;
    return sub;
}

bool kt__jstr_eq(const kt__jstr *a, const kt__jstr *b) {
    return a->len == b->len && (a->data == b->data || memcmp(a->data, b->data, a->len) == 0);
}

bool kt__jstr_is(const kt__jstr *s, const char *text) {
    return s->len == strlen(text) && memcmp(s->data, text, s->len) == 0;
}

int kt__jstr_cmp(const kt__jstr *a, const kt__jstr *b) {
    size_t n = a->len < b->len ? a->len : b->len;
    int c = n ? memcmp(a->data, b->data, n) : 0; /* UTF-8 orders as code points do */
    if (c) return c < 0 ? -1 : 1;
    return (a->len > b->len) - (a->len < b->len);
}

size_t kt__jstr_offset(const kt__jstr *s, size_t cp) {
    if (s->n_cp == s->len) return cp;
    if (cp >= s->n_cp) return s->len;
    size_t at = 0;
    for (size_t seen = 0; seen < cp; seen++) {
        at++;
        while (at < s->len && ((unsigned char)s->data[at] & 0xC0) == 0x80) at++;
    }
    return at;
}

bool kt__jstr_all_from_template(const kt__jstr *s) {
    return s->n_runs == 0 && s->from_template;
}

size_t kt__jstr_find(const kt__jstr *s, const char *needle, size_t n, size_t from) {
    if (from > s->len) return SIZE_MAX;
    if (n == 0) return from;
    const char *hit = memmem(s->data + from, s->len - from, needle, n);
    return hit ? (size_t)(hit - s->data) : SIZE_MAX;
}

size_t kt__jstr_rfind(const kt__jstr *s, const char *needle, size_t n, size_t to, uint64_t *steps) {
    if (n > to) return SIZE_MAX;
    if (n == 0) return to;
    for (size_t end = to - n + 1; end > 0;) {
        const char *first = memrchr(s->data, needle[0], end);
        if (!first) return SIZE_MAX;
        end = (size_t)(first - s->data);
        if (memcmp(first, needle, n) == 0) return end;
        uint64_t work = n / 64 + 1; /* of a text full of near misses */
        if (*steps < work) *steps = work;
        *steps -= work;
        if (*steps == 0) return SIZE_MAX;
    }
    return SIZE_MAX;
}

/* ---- building strings ---- */

void kt__jsb_init(kt__jsb *b, kt__arena *arena, size_t max) {
    *b = (kt__jsb){.arena = arena, .max = max};
}

bool kt__jsb_reserve(kt__jsb *b, size_t extra) {
    if (b->failed || b->too_long) return false;
    if (extra > b->max - b->len) {
        b->too_long = true;
        return false;
    }
    if (extra <= b->cap - b->len) return true;
    size_t cap = b->cap ? b->cap * 2 : extra < 64 ? 128 : extra;
    if (cap < b->len + extra) cap = b->len + extra;
    char *grown = kt__arena_alloc_aligned(b->arena, cap, 1);
    if (!grown) {
        b->failed = true;
        return false;
    }
    if (b->len) memcpy(grown, b->data, b->len);
    b->data = grown;
    b->cap = cap;
    return true;
}

static bool sb_run(kt__jsb *b, bool from_template) {
    if (b->n_runs && b->runs[b->n_runs - 1].from_template == from_template) {
        b->runs[b->n_runs - 1].end = b->len;
        return true;
    }
    if (b->n_runs == b->cap_runs) {
        size_t cap = b->cap_runs ? b->cap_runs * 2 : 8;
        kt__jrun *grown = kt__arena_calloc(b->arena, cap, sizeof *grown);
        if (!grown) {
            b->failed = true;
            return false;
        }
        if (b->n_runs) memcpy(grown, b->runs, b->n_runs * sizeof *grown);
        b->runs = grown;
        b->cap_runs = cap;
    }
    b->runs[b->n_runs++] = (kt__jrun){b->len, from_template};
    return true;
}

bool kt__jsb_add(kt__jsb *b, const char *data, size_t len, bool from_template) {
    if (!kt__jsb_reserve(b, len)) return false;
    if (len == 0) return true;
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return sb_run(b, from_template);
}

bool kt__jsb_add_sub(kt__jsb *b, const kt__jstr *s, size_t from, size_t to) {
    if (!s->n_runs) return kt__jsb_add(b, s->data + from, to - from, s->from_template);
    for (size_t i = from < to ? run_of(s, from) : 0; from < to; i++) {
        size_t end = s->runs[i].end < to ? s->runs[i].end : to;
        if (!kt__jsb_add(b, s->data + from, end - from, s->runs[i].from_template)) return false;
        from = end;
    }
    return !b->failed && !b->too_long;
}

bool kt__jsb_add_str(kt__jsb *b, const kt__jstr *s) {
    return kt__jsb_add_sub(b, s, 0, s->len);
}

kt__jstr *kt__jsb_finish(kt__jsb *b) {
    if (b->failed || b->too_long) return NULL;
    bool whole = b->n_runs == 1 ? b->runs[0].from_template : b->n_runs == 0;
    kt__jstr *s = kt__jstr_new(b->arena, b->data ? b->data : "", b->len, whole);
    if (s && b->n_runs > 1) {
        s->runs = b->runs;
        s->n_runs = b->n_runs;
    }
    return s;
}

/* ---- lists ---- */

kt__jlist *kt__jlist_new(kt__arena *arena, kt__jlist_kind kind, size_t cap) {
    kt__jlist *list = kt__arena_calloc(arena, 1, sizeof *list);
    if (!list) return NULL;
    list->kind = kind;
    if (cap) {
        list->items = kt__arena_calloc(arena, cap, sizeof *list->items);
        if (!list->items) return NULL;
        list->cap = cap;
    }
    return list;
}

bool kt__jlist_push(kt__arena *arena, kt__jlist *list, kt__jv value) {
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 8;
        kt__jv *grown = kt__arena_calloc(arena, cap, sizeof *grown);
        if (!grown) return false;
        if (list->n) memcpy(grown, list->items, list->n * sizeof *grown);
        list->items = grown;
        list->cap = cap;
    }
    list->items[list->n++] = value;
    return true;
}

bool kt__j_truth(kt__jv v) {
    switch (v.type) {
    case KT__J_MISSING:
    case KT__J_UNDEF:
    case KT__J_NONE: return false;
    case KT__J_BOOL: return v.u.b;
    case KT__J_INT: return v.u.i != 0;
    case KT__J_FLOAT: return v.u.f != 0;
    case KT__J_STR: return v.u.s->len != 0;
    case KT__J_LIST: return v.u.l->kind == KT__JL_ITER || v.u.l->n != 0;
    case KT__J_DICT: return v.u.d->n != 0;
    default: return true;
    }
}

static const char *list_name(kt__jlist_kind kind) {
    switch (kind) {
    case KT__JL_TUPLE: return "tuple";
    case KT__JL_RANGE: return "range";
    case KT__JL_KEYS: return "dict_keys";
    case KT__JL_VALUES: return "dict_values";
    case KT__JL_ITEMS: return "dict_items";
    case KT__JL_ITER: return "generator";
    default: return "list";
    }
}

const char *kt__j_type_name(kt__jv v) {
    switch (v.type) {
    case KT__J_NONE: return "NoneType";
    case KT__J_BOOL: return "bool";
    case KT__J_INT:
    case KT__J_BIGINT: return "int";
    case KT__J_FLOAT: return "float";
    case KT__J_STR: return "str";
    case KT__J_LIST: return list_name(v.u.l->kind);
    case KT__J_DICT: return "dict";
    case KT__J_NAMESPACE: return "namespace";
    case KT__J_MACRO: return "macro";
    case KT__J_BUILTIN: return "function";
    case KT__J_METHOD: return "method";
    case KT__J_LOOP: return "loop";
    default: return "undefined";
    }
}
