/* Filters over text. */
#include <string.h>

#include "jinja/jinja_filter.h"
#include "jinja/jinja_str.h"
#include "jinja/jinja_unicode.h"
#include "jinja/json.h"

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
