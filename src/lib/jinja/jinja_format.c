/* "...".format(values): {}, {0} and {name}, and doubled braces; and the filter "..."|format(values): %s and %%.
 * Widths, precisions, conversions and attributes, of which no published template has any, are errors. */
#include <string.h>

#include "jinja/jinja_run.h"

typedef struct formatter {
    kt__jx *x;
    const kt__jargs *args;
    size_t next; /* of the automatic numbers */
} formatter;

static bool is_number(const kt__jstr *s, size_t from, size_t to, size_t *out) {
    *out = 0;
    for (size_t i = from; i < to; i++) {
        if (s->data[i] < '0' || s->data[i] > '9' || *out > 1000000) return false;
        *out = *out * 10 + (size_t)(s->data[i] - '0');
    }
    return to > from;
}

static kt_status named_value(formatter *f, const kt__jstr *fmt, size_t from, size_t to,
                             kt__jv *out) {
    const char *name = fmt->data + from;
    size_t len = to - from;
    for (size_t k = 0; k < f->args->n_kw; k++) {
        const kt__jstr *other = f->args->kw[k].name;
        *out = f->args->kw[k].val;
        if (other->len == len && memcmp(other->data, name, len) == 0) return KT_OK;
    }
    for (size_t i = 0; i < len; i++) {
        if (strchr("!:.[", name[i]))
            return kt__jx_fail(f->x, "format fields are {}, {0} or {name}, not {%.*s}",
                               (int)(len < 40 ? len : 40), name);
    }
    return kt__jx_fail(f->x, "the format's argument '%.*s' is missing", (int)(len < 40 ? len : 40),
                       name);
}

/* The field fmt[from, to) between its braces. */
static kt_status format_field(formatter *f, const kt__jstr *fmt, size_t from, size_t to,
                              kt__jsb *sink) {
    kt__jv v;
    size_t index = f->next;
    if (from < to && !is_number(fmt, from, to, &index)) {
        KT__STEP(named_value(f, fmt, from, to, &v));
        return kt__jx_add_str(f->x, sink, v);
    }
    f->next += from == to;
    if (index >= f->args->n_pos) return kt__jx_fail(f->x, "too few values for the format");
    return kt__jx_add_str(f->x, sink, f->args->pos[index]);
}

kt_status kt__jx_format(kt__jx *x, const kt__jstr *fmt, const kt__jargs *args, kt__jv *out) {
    formatter f = {.x = x, .args = args};
    kt__jsb sink;
    kt__jx_sink(x, &sink);
    for (size_t at = 0; at < fmt->len;) {
        size_t end = at;
        while (end < fmt->len && fmt->data[end] != '{' && fmt->data[end] != '}') end++;
        kt__jsb_add_sub(&sink, fmt, at, end);
        if (end == fmt->len) break;
        KT__STEP(kt__jx_step(x, args->n_kw / 16 + 1));
        if (end + 1 < fmt->len && fmt->data[end + 1] == fmt->data[end]) {
            kt__jsb_add_sub(&sink, fmt, end, end + 1);
            at = end + 2;
            continue;
        }
        size_t close = fmt->data[end] == '{' ? kt__jstr_find(fmt, "}", 1, end) : SIZE_MAX;
        if (close == SIZE_MAX) return kt__jx_fail(x, "a single brace in a format");
        KT__STEP(format_field(&f, fmt, end + 1, close, &sink));
        at = close + 1;
    }
    return kt__jx_sink_done(x, &sink, out);
}

/* ---- the filter ---- */

/* What a percent sign and the character after it become. */
static kt_status percent_field(formatter *f, char c, kt__jsb *sink) {
    if (c == '%') {
        kt__jsb_add(sink, "%", 1, true);
        return KT_OK;
    }
    if (c != 's') return kt__jx_fail(f->x, "the filter format knows %%s and %%%%, and no other");
    if (f->next >= f->args->n_pos) return kt__jx_fail(f->x, "too few values for the format");
    return kt__jx_add_str(f->x, sink, f->args->pos[f->next++]);
}

kt_status kt__jf_format(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out) {
    formatter f = {.x = x, .args = args};
    const kt__jstr *fmt;
    kt__jsb sink;
    if (args->n_kw > 0) return kt__jx_fail(x, "the filter format takes values without names");
    KT__STEP(kt__jx_str(x, v, &fmt));
    kt__jx_sink(x, &sink);
    for (size_t at = 0; at < fmt->len;) {
        size_t end = at;
        while (end < fmt->len && fmt->data[end] != '%') end++;
        kt__jsb_add_sub(&sink, fmt, at, end);
        if (end == fmt->len) break;
        KT__STEP(percent_field(&f, end + 1 < fmt->len ? fmt->data[end + 1] : 0, &sink));
        at = end + 2;
    }
    if (f.next < args->n_pos) return kt__jx_fail(x, "more values than the format takes");
    return kt__jx_sink_done(x, &sink, out);
}
