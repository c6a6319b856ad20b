/* Values to text: Python's str and repr, json.dumps. */
#include "jinja/jinja_text.h"

#include "base/json.h"
#include "base/text.h"
#include "jinja/jinja_run.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_text(kt__jsb *sink, const char *text, bool from_template) {
    kt__jsb_add(sink, text, strlen(text), from_template);
}

enum { FLOAT_STEPS = 32 }; /* finding the shortest digits of a float */

/* The work of writing v itself, not its items: strings are gone through by the character. */
static uint64_t text_steps(kt__jv v) {
    if (v.type == KT__J_STR) return v.u.s->len / 8 + 1;
    return v.type == KT__J_FLOAT ? FLOAT_STEPS : 1;
}

/* The text of a number, a boolean or none; false for other types. */
static bool add_scalar(kt__jsb *sink, kt__jv v, bool from_template) {
    char buf[40];
    switch (v.type) {
    case KT__J_NONE: add_text(sink, "None", from_template); return true;
    case KT__J_BOOL: add_text(sink, v.u.b ? "True" : "False", from_template); return true;
    case KT__J_BIGINT: kt__jsb_add(sink, v.u.s->data, v.u.s->len, from_template); return true;
    case KT__J_INT:
        snprintf(buf, sizeof buf, "%lld", (long long)v.u.i);
        add_text(sink, buf, from_template);
        return true;
    case KT__J_FLOAT: kt__jsb_add(sink, buf, kt__jnum_repr(v.u.f, buf), from_template); return true;
    default: return false;
    }
}

/* ---- repr ---- */

static void repr_char(kt__jsb *sink, uint32_t cp, const char *bytes, size_t n, char quote) {
    char buf[16];
    if (cp == (uint32_t)quote || cp == '\\')
        snprintf(buf, sizeof buf, "\\%c", (char)cp);
    else if (cp == '\n' || cp == '\r' || cp == '\t')
        snprintf(buf, sizeof buf, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
    else if (kt__j_is_printable(cp)) {
        kt__jsb_add(sink, bytes, n, false);
        return;
    } else {
        snprintf(buf, sizeof buf,
                 cp < 0x100     ? "\\x%02x"
                 : cp < 0x10000 ? "\\u%04x"
                                : "\\U%08x",
                 cp);
    }
    add_text(sink, buf, false);
}

static void repr_string(kt__jsb *sink, const kt__jstr *s) {
    bool single = memchr(s->data, '\'', s->len) && !memchr(s->data, '"', s->len);
    char quote = single ? '"' : '\'';
    kt__jsb_add(sink, &quote, 1, false);
    for (size_t i = 0, n; i < s->len; i += n) {
        uint32_t cp = 0;
        n = kt__utf8_decode(s->data + i, s->len - i, &cp);
        if (n == 0) break; /* strings are valid */
        repr_char(sink, cp, s->data + i, n, quote);
    }
    kt__jsb_add(sink, &quote, 1, false);
}

static kt_status repr_value(kt__jx *x, kt__jsb *sink, kt__jv v, int depth);

static kt_status repr_items(kt__jx *x, kt__jsb *sink, const kt__jlist *list, int depth) {
    for (size_t i = 0; i < list->n; i++) {
        if (i) add_text(sink, ", ", false);
        KT__STEP(repr_value(x, sink, list->items[i], depth + 1));
    }
    return KT_OK;
}

static void repr_range(kt__jsb *sink, const kt__jlist *list) {
    char buf[100];
    int64_t start = list->n ? list->items[0].u.i : 0;
    int64_t step = list->n > 1 ? list->items[1].u.i - start : 1;
    long long stop = (long long)(start + (int64_t)list->n * step);
    int n = snprintf(buf, sizeof buf, "range(%lld, %lld", (long long)start, stop);
    kt__jsb_add(sink, buf, (size_t)n, false);
    n = snprintf(buf, sizeof buf, step == 1 ? ")" : ", %lld)", (long long)step);
    kt__jsb_add(sink, buf, (size_t)n, false);
}

static kt_status repr_list(kt__jx *x, kt__jsb *sink, const kt__jlist *list, int depth) {
    static const char *const opens[] = {"[",           "(", "", "dict_keys([", "dict_values([",
                                        "dict_items(["};
    static const char *const closes[] = {"]", ")", "", "])", "])", "])"};
    if (list->kind == KT__JL_ITER) {
        add_text(sink, "<generator object>", false);
        return KT_OK;
    }
    if (list->kind == KT__JL_RANGE) {
        repr_range(sink, list);
        return KT_OK;
    }
    add_text(sink, opens[list->kind], false);
    KT__STEP(repr_items(x, sink, list, depth));
    if (list->kind == KT__JL_TUPLE && list->n == 1) add_text(sink, ",", false);
    add_text(sink, closes[list->kind], false);
    return KT_OK;
}

static kt_status repr_dict(kt__jx *x, kt__jsb *sink, kt__jv v, int depth) {
    const kt__jdict *dict = v.u.d;
    add_text(sink, v.type == KT__J_NAMESPACE ? "<Namespace {" : "{", false);
    for (size_t i = 0; i < dict->n; i++) {
        if (i) add_text(sink, ", ", false);
        KT__STEP(repr_value(x, sink, dict->items[i].key, depth + 1));
        add_text(sink, ": ", false);
        KT__STEP(repr_value(x, sink, dict->items[i].val, depth + 1));
    }
    add_text(sink, v.type == KT__J_NAMESPACE ? "}>" : "}", false);
    return KT_OK;
}

/* Everything inside a list or a dictionary is data, no matter who wrote it. */
static kt_status repr_value(kt__jx *x, kt__jsb *sink, kt__jv v, int depth) {
    char buf[64];
    if (depth > KT__J_MAX_NEST)
        return kt__jx_fail(x, "a value nested deeper than %d", KT__J_MAX_NEST);
    KT__STEP(kt__jx_step(x, text_steps(v)));
    KT__STEP(kt__jx_sink_check(x, sink));
    if (add_scalar(sink, v, false)) return KT_OK;
    switch (v.type) {
    case KT__J_STR: repr_string(sink, v.u.s); return KT_OK;
    case KT__J_LIST: return repr_list(x, sink, v.u.l, depth);
    case KT__J_DICT:
    case KT__J_NAMESPACE: return repr_dict(x, sink, v, depth);
    case KT__J_UNDEF: add_text(sink, "Undefined", false); return KT_OK;
    default:
        snprintf(buf, sizeof buf, "<%s>", kt__j_type_name(v));
        add_text(sink, buf, false);
        return KT_OK;
    }
}

kt_status kt__jx_add_str(kt__jx *x, kt__jsb *sink, kt__jv v) {
    if (v.type == KT__J_FLOAT) KT__STEP(kt__jx_step(x, text_steps(v)));
    if (v.type == KT__J_STR)
        kt__jsb_add_str(sink, v.u.s);
    else if (v.type != KT__J_UNDEF && !add_scalar(sink, v, true))
        KT__STEP(repr_value(x, sink, v, 0));
    return kt__jx_sink_check(x, sink);
}

kt_status kt__jx_str(kt__jx *x, kt__jv v, const kt__jstr **out) {
    kt__jsb text;
    kt__jv made = v;
    if (v.type != KT__J_STR) {
        kt__jx_sink(x, &text);
        KT__STEP(kt__jx_add_str(x, &text, v));
        KT__STEP(kt__jx_sink_done(x, &text, &made));
    }
    *out = made.u.s;
    return KT_OK;
}

/* ---- JSON ---- */

typedef struct dumper {
    kt__jx *x;
    kt__jsb sink;
    const kt__jdump *opt;
} dumper;

static void dump_string(dumper *d, const kt__jstr *s) {
    kt__json_style style = d->opt->ascii ? KT__JSON_ASCII : KT__JSON_PLAIN;
    size_t plain = 0; /* s[plain..i) is copied as it is */
    add_text(&d->sink, "\"", false);
    for (size_t i = 0, n; i < s->len; i += n) {
        char escape[16];
        uint32_t cp = (unsigned char)s->data[i];
        n = cp < 0x80 ? 1 : kt__utf8_decode(s->data + i, s->len - i, &cp);
        if (n == 0) break; /* strings are valid */
        size_t len = kt__json_escape(escape, cp, style);
        if (len == 0) continue;
        kt__jsb_add(&d->sink, s->data + plain, i - plain, false);
        kt__jsb_add(&d->sink, escape, len, false);
        plain = i + n;
    }
    kt__jsb_add(&d->sink, s->data + plain, s->len - plain, false);
    add_text(&d->sink, "\"", false);
}

static void dump_float(dumper *d, double f) {
    char buf[40];
    if (isnan(f))
        add_text(&d->sink, "NaN", false);
    else if (isinf(f))
        add_text(&d->sink, f > 0 ? "Infinity" : "-Infinity", false);
    else
        kt__jsb_add(&d->sink, buf, kt__jnum_repr(f, buf), false);
}

static bool dump_scalar(dumper *d, kt__jv v) {
    switch (v.type) {
    case KT__J_NONE: add_text(&d->sink, "null", false); return true;
    case KT__J_BOOL: add_text(&d->sink, v.u.b ? "true" : "false", false); return true;
    case KT__J_FLOAT: dump_float(d, v.u.f); return true;
    case KT__J_INT:
    case KT__J_BIGINT: add_scalar(&d->sink, v, false); return true;
    default: return false;
    }
}

static void dump_break(dumper *d, int depth) {
    if (!d->opt->indent) return;
    add_text(&d->sink, "\n", false);
    for (int i = 0; i < depth; i++)
        kt__jsb_add(&d->sink, d->opt->indent->data, d->opt->indent->len, false);
}

static void dump_separator(dumper *d, const kt__jstr *given, const char *otherwise) {
    if (given)
        kt__jsb_add(&d->sink, given->data, given->len, false);
    else
        add_text(&d->sink, otherwise, false);
}

static kt_status dump_value(dumper *d, kt__jv v, int depth);

static kt_status dump_list(dumper *d, const kt__jlist *list, int depth) {
    add_text(&d->sink, "[", false);
    for (size_t i = 0; i < list->n; i++) {
        if (i) dump_separator(d, d->opt->item_sep, d->opt->indent ? "," : ", ");
        dump_break(d, depth + 1);
        KT__STEP(dump_value(d, list->items[i], depth + 1));
    }
    if (list->n) dump_break(d, depth);
    add_text(&d->sink, "]", false);
    return KT_OK;
}

static kt_status dump_key(dumper *d, kt__jv key) {
    if (key.type == KT__J_STR) {
        dump_string(d, key.u.s);
        return KT_OK;
    }
    add_text(&d->sink, "\"", false);
    if (!dump_scalar(d, key))
        return kt__jx_fail(d->x, "JSON has no keys of type %s", kt__j_type_name(key));
    add_text(&d->sink, "\"", false);
    return KT_OK;
}

static kt_status sorted_members(dumper *d, const kt__jdict *dict, const kt__jpair **out) {
    kt__jx *x = d->x;
    size_t n = dict->n;
    kt__jpair *members = kt__arena_alloc(&x->arena, (n + 1) * sizeof *members);
    kt__jv *keys = kt__arena_alloc(&x->arena, (n + 1) * sizeof *keys);
    uint32_t *order;
    if (!members || !keys) return kt__jx_nomem(x);
    for (size_t i = 0; i < n; i++) keys[i] = dict->items[i].key;
    KT__STEP(kt__jx_sort(x, keys, n, false, &order));
    for (size_t i = 0; i < n; i++) members[i] = dict->items[order[i]];
    *out = members;
    return KT_OK;
}

static kt_status dump_dict(dumper *d, const kt__jdict *dict, int depth) {
    const kt__jpair *items = dict->items;
    if (d->opt->sort_keys) KT__STEP(sorted_members(d, dict, &items));
    add_text(&d->sink, "{", false);
    for (size_t i = 0; i < dict->n; i++) {
        if (i) dump_separator(d, d->opt->item_sep, d->opt->indent ? "," : ", ");
        dump_break(d, depth + 1);
        KT__STEP(dump_key(d, items[i].key));
        dump_separator(d, d->opt->key_sep, ": ");
        KT__STEP(dump_value(d, items[i].val, depth + 1));
    }
    if (dict->n) dump_break(d, depth);
    add_text(&d->sink, "}", false);
    return KT_OK;
}

static kt_status dump_value(dumper *d, kt__jv v, int depth) {
    if (depth > KT__J_MAX_NEST)
        return kt__jx_fail(d->x, "a value nested deeper than %d", KT__J_MAX_NEST);
    KT__STEP(kt__jx_step(d->x, text_steps(v)));
    KT__STEP(kt__jx_sink_check(d->x, &d->sink));
    if (dump_scalar(d, v)) return KT_OK;
    if (v.type == KT__J_STR) {
        dump_string(d, v.u.s);
        return KT_OK;
    }
    if (v.type == KT__J_DICT) return dump_dict(d, v.u.d, depth);
    if (v.type == KT__J_LIST && v.u.l->kind <= KT__JL_TUPLE) return dump_list(d, v.u.l, depth);
    if (v.type == KT__J_UNDEF) return kt__jx_undefined(d->x, v);
    return kt__jx_fail(d->x, "a value of type %s has no JSON form", kt__j_type_name(v));
}

kt_status kt__jx_dump(kt__jx *x, kt__jv v, const kt__jdump *opt, const kt__jstr **out) {
    dumper d = {.x = x, .opt = opt};
    kt__jv made;
    kt__jx_sink(x, &d.sink);
    KT__STEP(dump_value(&d, v, 0));
    KT__STEP(kt__jx_sink_done(x, &d.sink, &made));
    *out = made.u.s;
    return KT_OK;
}

/* ---- jinja num ---- */

/* The C locale for one conversion: strtod and printf would take the host program's decimal comma.
 */
typedef struct c_locale {
    locale_t mine, before;
} c_locale;

static c_locale enter_c_locale(void) {
    c_locale l = {.mine = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (l.mine) l.before = uselocale(l.mine);
    return l;
}

static void leave_c_locale(c_locale l) {
    if (!l.mine) return;
    uselocale(l.before);
    freelocale(l.mine);
}

static size_t skip_digits(const char *s, size_t len, size_t at) {
    while (at < len && s[at] >= '0' && s[at] <= '9') at++;
    return at;
}

/* [sign] (digits [. [digits]] | . digits) [e [sign] digits] */
static bool is_float_text(const char *s, size_t len) {
    size_t at = len && (s[0] == '-' || s[0] == '+');
    size_t whole = skip_digits(s, len, at), end = whole;
    if (end < len && s[end] == '.') end = skip_digits(s, len, end + 1);
    size_t n_digits = whole - at + (end > whole ? end - whole - 1 : 0);
    if (n_digits == 0) return false;
    if (end < len && (s[end] == 'e' || s[end] == 'E')) {
        size_t exp = end + 1;
        if (exp < len && (s[exp] == '-' || s[exp] == '+')) exp++;
        end = skip_digits(s, len, exp);
        if (end == exp) return false;
    }
    return end == len;
}

bool kt__jnum_parse(const char *text, size_t len, double *out) {
    char buf[KT__J_NUM_MAX];
    if (len >= sizeof buf || !is_float_text(text, len)) return false;
    memcpy(buf, text, len);
    buf[len] = '\0';
    c_locale l = enter_c_locale();
    *out = strtod(buf, NULL);
    leave_c_locale(l);
    return true;
}

static size_t special_text(double f, char *out) {
    const char *text = isnan(f) ? "nan" : f > 0 ? "inf" : "-inf";
    strcpy(out, text);
    return strlen(text);
}

/* The fewest significant digits that read back as f, as "d.ddde[+-]dd", zeros at their end aside.
 * Fifteen digits mean themselves in every float that is not subnormal. */
static void shortest_digits(double f, char *buf, size_t size) {
    c_locale l = enter_c_locale();
    for (int digits = fabs(f) >= DBL_MIN ? 15 : 1; digits <= 17; digits++) {
        snprintf(buf, size, "%.*e", digits - 1, f);
        if (strtod(buf, NULL) == f) break;
    }
    leave_c_locale(l);
}

/* Places the digits as repr does: a decimal point within 16 places, else an exponent. */
size_t kt__jnum_repr(double f, char out[40]) {
    if (!isfinite(f)) return special_text(f, out);
    char buf[40], digits[24];
    shortest_digits(f, buf, sizeof buf);
    char *mark = strchr(buf, 'e');
    int exponent = (int)strtol(mark + 1, NULL, 10), n = 0;
    for (char *p = buf; p < mark; p++) {
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    }
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = '\0';
    const char *sign = buf[0] == '-' ? "-" : "";
    int len;
    if (exponent < -4 || exponent >= 16)
        len = snprintf(out, 40, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                       exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        len = snprintf(out, 40, "%s0.%.*s%s", sign, -exponent - 1, "0000", digits);
    else if (n <= exponent + 1)
        len = snprintf(out, 40, "%s%s%.*s.0", sign, digits, exponent + 1 - n, "0000000000000000");
    else
        len = snprintf(out, 40, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
    return len < 0 ? 0 : (size_t)len;
}
