/* "..." % values and "...".format(values): what templates use of Python's two formatting languages.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jinja/jinja_eval.h"
#include "jinja/jinja_num.h"

enum { MAX_WIDTH = 4096 };

typedef struct spec {
    const char *fill; /* one character, UTF-8 */
    size_t n_fill;
    char align; /* '<', '>', '^', '=', or 0 */
    char sign;  /* '+', ' ', '-' */
    bool alternative, zero;
    char group;               /* ',', '_' or 0 */
    int64_t width, precision; /* -1: not given */
    char type;                /* 0: not given */
} spec;

static void pad(kt__jsb *sink, const spec *f, int64_t n) {
    for (int64_t i = 0; i < n; i++) kt__jsb_add(sink, f->fill, f->n_fill, true);
}

/* Text in its field; `sign` bytes at its start stay in front of '='-padding. */
static kt_status put_field(kt__jx *x, kt__jsb *sink, const spec *f, const kt__jstr *s, size_t sign,
                           char default_align) {
    char align = f->align ? f->align : default_align;
    int64_t room = f->width > (int64_t)s->n_cp ? f->width - (int64_t)s->n_cp : 0;
    int64_t before = align == '>' || align == '=' ? room : align == '^' ? room / 2 : 0;
    if (align != '=') sign = 0;
    kt__jsb_add_sub(sink, s, 0, sign);
    pad(sink, f, before);
    kt__jsb_add_sub(sink, s, sign, s->len);
    pad(sink, f, room - before);
    return kt__jx_sink_check(x, sink);
}

static kt_status put_text(kt__jx *x, kt__jsb *sink, const spec *f, const kt__jstr *s, char align) {
    if (f->precision >= 0 && f->precision < (int64_t)s->n_cp) {
        kt__jv cut;
        KT__JTRY(kt__jx_sub(x, s, 0, kt__jstr_offset(s, (size_t)f->precision), &cut));
        s = cut.u.s;
    }
    return put_field(x, sink, f, s, 0, align);
}

static kt_status put_digits(kt__jx *x, kt__jsb *sink, const spec *f, const char *text, size_t len,
                            size_t sign) {
    const kt__jstr *s = kt__jstr_copy(&x->arena, text, len, true);
    return s ? put_field(x, sink, f, s, sign, '>') : kt__jx_nomem(x);
}

/* Digits of |value| in a base, with group marks each three; at most 64 digits and 22 marks. */
static size_t digits(uint64_t value, unsigned base, bool upper, char group, char *out) {
    char rev[100];
    size_t n = 0, count = 0;
    do {
        if (group && count && count % 3 == 0) rev[n++] = group;
        rev[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[value % base];
        count++;
    } while (value /= base);
    for (size_t i = 0; i < n; i++) out[i] = rev[n - 1 - i];
    return n;
}

static size_t put_sign(bool negative, char sign, char *out) {
    char c = negative ? '-' : sign == '+' || sign == ' ' ? sign : '\0';
    out[0] = c;
    return c != '\0';
}

static kt_status put_int(kt__jx *x, kt__jsb *sink, const spec *f, int64_t v) {
    char buf[256], number[100];
    unsigned base = f->type == 'x' || f->type == 'X' ? 16
                    : f->type == 'o'                 ? 8
                    : f->type == 'b'                 ? 2
                                                     : 10;
    uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    size_t n = put_sign(v < 0, f->sign, buf);
    if (f->alternative && base != 10) {
        buf[n++] = '0';
        buf[n++] = f->type;
    }
    size_t sign = n, len = digits(magnitude, base, f->type == 'X', f->group, number);
    for (int64_t i = (int64_t)len; i < f->precision && n < 128; i++) buf[n++] = '0';
    memcpy(buf + n, number, len);
    return put_digits(x, sink, f, buf, n + len, sign);
}

/* Inserts group marks into the whole part of a fixed-point number. */
static size_t group_float(char *text, size_t len, char group) {
    char out[KT__J_NUM_MAX + KT__J_NUM_MAX / 3];
    size_t whole = 0, n = 0;
    while (whole < len && text[whole] >= '0' && text[whole] <= '9') whole++;
    for (size_t i = 0; i < len; i++) {
        if (i && i < whole && (whole - i) % 3 == 0) out[n++] = group;
        out[n++] = text[i];
    }
    memcpy(text, out, n);
    return n;
}

static kt_status put_float(kt__jx *x, kt__jsb *sink, const spec *f, double v) {
    char buf[2 * KT__J_NUM_MAX];
    size_t n = put_sign(signbit(v) && !isnan(v), f->sign, buf), sign = n, len;
    bool percent = f->type == '%';
    double magnitude = fabs(v) * (percent ? 100 : 1);
    int precision = f->precision < 0 ? 6 : f->precision > 100 ? 100 : (int)f->precision;
    if (!f->type && f->precision < 0)
        len = kt__jnum_repr(magnitude, buf + n);
    else
        len = kt__jnum_format(magnitude,
                              percent   ? 'f'
                              : f->type ? f->type
                                        : 'g',
                              precision, f->alternative, buf + n);
    if (f->group) len = group_float(buf + n, len, f->group);
    n += len;
    if (percent) buf[n++] = '%';
    return put_digits(x, sink, f, buf, n, sign);
}

static bool is_integer(kt__jv v) {
    return v.type == KT__J_INT || v.type == KT__J_BOOL;
}

static int64_t as_int(kt__jv v) {
    return v.type == KT__J_BOOL ? v.u.b : v.u.i;
}

static kt_status bad_type(kt__jx *x, char type, kt__jv v) {
    return kt__jx_fail(x, "format '%c' does not apply to a value of type %s", type ? type : 's',
                       kt__j_type_name(v));
}

/* Reads a number of at most MAX_WIDTH; -1: none there. */
static kt_status read_number(kt__jx *x, const kt__jstr *s, size_t *at, int64_t *out) {
    *out = -1;
    while (*at < s->len && s->data[*at] >= '0' && s->data[*at] <= '9') {
        *out = (*out < 0 ? 0 : *out * 10) + (s->data[(*at)++] - '0');
        if (*out > MAX_WIDTH) return kt__jx_fail(x, "a format wider than %d", MAX_WIDTH);
    }
    return KT_OK;
}

/* ---- "..." % values ---- */

typedef struct percent {
    kt__jx *x;
    kt__jv args;
    size_t used;
} percent;

static kt_status next_arg(percent *p, kt__jv *out) {
    bool tuple = p->args.type == KT__J_LIST && p->args.u.l->kind == KT__JL_TUPLE;
    if (p->used >= (tuple ? p->args.u.l->n : 1))
        return kt__jx_fail(p->x, "too few values for the format");
    *out = tuple ? p->args.u.l->items[p->used] : p->args;
    p->used++;
    return KT_OK;
}

static kt_status percent_flags(percent *p, const kt__jstr *s, size_t *at, spec *f) {
    for (; *at < s->len; ++*at) {
        char c = s->data[*at];
        if (c == '-')
            f->align = '<';
        else if (c == '+' || (c == ' ' && f->sign != '+'))
            f->sign = c;
        else if (c == '0')
            f->zero = true;
        else if (c == '#')
            f->alternative = true;
        else if (c != ' ')
            break;
    }
    KT__JTRY(read_number(p->x, s, at, &f->width));
    if (*at < s->len && s->data[*at] == '.') {
        ++*at;
        KT__JTRY(read_number(p->x, s, at, &f->precision));
        if (f->precision < 0) f->precision = 0;
    }
    while (*at < s->len && strchr("hlL", s->data[*at])) ++*at;
    return KT_OK;
}

static kt_status percent_value(percent *p, kt__jsb *sink, spec *f, kt__jv v) {
    const kt__jstr *text;
    kt__jx *x = p->x;
    if (f->type == 's' || f->type == 'r') {
        KT__JTRY(f->type == 's' ? kt__jx_str(x, v, &text) : kt__jx_repr(x, v, &text));
        return put_text(x, sink, f, text, '>');
    }
    if (f->zero && f->align != '<') {
        f->fill = "0";
        f->align = '=';
    }
    if (v.type == KT__J_UNDEF) return kt__jx_undefined(x, v);
    bool number = is_integer(v) || v.type == KT__J_FLOAT;
    if (!number || !f->type) return bad_type(x, f->type, v);
    if (strchr("di", f->type) || (strchr("xXo", f->type) && is_integer(v))) {
        if (v.type == KT__J_FLOAT && !(fabs(v.u.f) < 0x1p63)) return bad_type(x, f->type, v);
        return put_int(x, sink, f, v.type == KT__J_FLOAT ? (int64_t)v.u.f : as_int(v));
    }
    if (strchr("eEfFgG", f->type))
        return put_float(x, sink, f, v.type == KT__J_FLOAT ? v.u.f : (double)as_int(v));
    return bad_type(x, f->type, v);
}

/* From after a '%' to after its conversion. */
static kt_status percent_one(percent *p, const kt__jstr *s, size_t *at, kt__jsb *sink) {
    spec f = {.fill = " ", .n_fill = 1, .width = -1, .precision = -1};
    kt__jv v;
    bool keyed = *at < s->len && s->data[*at] == '(';
    if (keyed) {
        size_t end = kt__jstr_find(s, ")", 1, *at);
        if (end == SIZE_MAX) return kt__jx_fail(p->x, "a format key without its ')'");
        kt__jv key;
        KT__JTRY(kt__jx_sub(p->x, s, *at + 1, end, &key));
        if (p->args.type != KT__J_DICT) return kt__jx_fail(p->x, "the format needs a mapping");
        if (kt__jdict_get(p->args.u.d, key, &v, &p->x->steps) != KT__JKEY_FOUND)
            return kt__jx_fail(p->x, "a format key is missing");
        *at = end + 1;
    }
    KT__JTRY(percent_flags(p, s, at, &f));
    if (*at >= s->len) return kt__jx_fail(p->x, "an incomplete format");
    f.type = s->data[(*at)++];
    if (f.type == '%') {
        kt__jsb_add(sink, "%", 1, true);
        return KT_OK;
    }
    if (!strchr("srdixXoeEfFgG", f.type))
        return kt__jx_fail(p->x, "an unsupported format character");
    if (!keyed) KT__JTRY(next_arg(p, &v));
    return percent_value(p, sink, &f, v);
}

kt_status kt__jx_percent(kt__jx *x, const kt__jstr *fmt, kt__jv args, kt__jv *out) {
    percent p = {.x = x, .args = args};
    kt__jsb sink;
    kt__jx_sink(x, &sink);
    for (size_t at = 0; at < fmt->len;) {
        size_t mark = kt__jstr_find(fmt, "%", 1, at);
        size_t end = mark == SIZE_MAX ? fmt->len : mark;
        kt__jsb_add_sub(&sink, fmt, at, end);
        at = end + (mark != SIZE_MAX);
        if (mark != SIZE_MAX) KT__JTRY(percent_one(&p, fmt, &at, &sink));
    }
    bool tuple = args.type == KT__J_LIST && args.u.l->kind == KT__JL_TUPLE;
    bool mapping = args.type == KT__J_DICT || (args.type == KT__J_LIST && !tuple);
    if (p.used < (tuple ? args.u.l->n : mapping ? 0 : 1))
        return kt__jx_fail(x, "too many values for the format");
    return kt__jx_sink_done(x, &sink, out);
}

/* ---- "...".format(values) ---- */

typedef struct formatter {
    kt__jx *x;
    const kt__jargs *args;
    size_t next; /* of the automatic numbers */
} formatter;

static bool is_align(char c) {
    return c == '<' || c == '>' || c == '^' || c == '=';
}

/* [[fill]align][sign][#][0][width][group][.precision][type] */
static kt_status read_spec(kt__jx *x, const kt__jstr *s, spec *f) {
    size_t at = 0, first = kt__jstr_offset(s, s->n_cp ? 1 : 0);
    *f = (spec){.fill = " ", .n_fill = 1, .width = -1, .precision = -1};
    if (first && first < s->len && is_align(s->data[first])) {
        f->fill = s->data;
        f->n_fill = first;
        f->align = s->data[first];
        at = first + 1;
    } else if (s->len && is_align(s->data[0])) {
        f->align = s->data[at++];
    }
    if (at < s->len && strchr("+- ", s->data[at])) f->sign = s->data[at++];
    if (at < s->len && s->data[at] == '#') f->alternative = true, at++;
    if (at < s->len && s->data[at] == '0') {
        at++;
        if (!f->align) f->fill = "0", f->n_fill = 1, f->align = '=', f->zero = true;
    }
    KT__JTRY(read_number(x, s, &at, &f->width));
    if (at < s->len && (s->data[at] == ',' || s->data[at] == '_')) f->group = s->data[at++];
    if (at < s->len && s->data[at] == '.') {
        at++;
        KT__JTRY(read_number(x, s, &at, &f->precision));
        if (f->precision < 0) return kt__jx_fail(x, "a format without its precision");
    }
    if (at < s->len) f->type = s->data[at++];
    if (at != s->len || (unsigned char)f->type > 127)
        return kt__jx_fail(x, "an unsupported format");
    return KT_OK;
}

static kt_status format_value(kt__jx *x, kt__jsb *sink, kt__jv v, const kt__jstr *spec_text) {
    spec f;
    const kt__jstr *text;
    KT__JTRY(read_spec(x, spec_text, &f));
    if (spec_text->len == 0) {
        KT__JTRY(kt__jx_str(x, v, &text));
        kt__jsb_add_str(sink, text);
        return kt__jx_sink_check(x, sink);
    }
    if (v.type == KT__J_STR && (!f.type || f.type == 's') && !f.group && !f.sign) {
        if (f.align == '=' && !f.zero) return bad_type(x, '=', v);
        if (f.zero) f.align = '<';
        return put_text(x, sink, &f, v.u.s, '<');
    }
    bool as_float = f.type && strchr("eEfFgG%", f.type);
    if ((v.type == KT__J_INT || v.type == KT__J_BOOL) && as_float)
        return put_float(x, sink, &f, (double)as_int(v));
    if ((v.type == KT__J_INT || v.type == KT__J_BOOL) && f.precision < 0 &&
        (!f.type || strchr("dxXob", f.type)))
        return put_int(x, sink, &f, as_int(v));
    if (v.type == KT__J_FLOAT && (!f.type || as_float)) return put_float(x, sink, &f, v.u.f);
    return bad_type(x, f.type, v);
}

/* The argument a field names: a number, a name, or nothing (the next one). */
static kt_status field_base(formatter *fm, const kt__jstr *name, kt__jv *out) {
    kt__jx *x = fm->x;
    int64_t index = (int64_t)fm->next;
    size_t at = 0;
    if (name->len && name->data[0] >= '0' && name->data[0] <= '9') {
        KT__JTRY(read_number(x, name, &at, &index));
        if (at != name->len) return kt__jx_fail(x, "a format field that is no number or name");
    } else if (name->len) {
        for (size_t k = 0; k < fm->args->n_kw; k++) {
            *out = fm->args->kw[k].val;
            if (kt__jstr_eq(fm->args->kw[k].name, name)) return KT_OK;
        }
        return kt__jx_fail(x, "the format's argument '%.*s' is missing", (int)name->len,
                           name->data);
    } else {
        fm->next++;
    }
    if ((size_t)index >= fm->args->n_pos) return kt__jx_fail(x, "too few values for the format");
    *out = fm->args->pos[index];
    return KT_OK;
}

/* NAME(.attr | [item])* */
static kt_status field_value(formatter *fm, const kt__jstr *field, kt__jv *out) {
    kt__jx *x = fm->x;
    kt__jv part;
    size_t at = 0;
    while (at < field->len && field->data[at] != '.' && field->data[at] != '[') at++;
    KT__JTRY(kt__jx_sub(x, field, 0, at, &part));
    KT__JTRY(field_base(fm, part.u.s, out));
    while (at < field->len) {
        bool item = field->data[at++] == '[';
        size_t end = at;
        while (end < field->len && (item ? field->data[end] != ']'
                                         : field->data[end] != '.' && field->data[end] != '['))
            end++;
        KT__JTRY(kt__jx_sub(x, field, at, end, &part));
        int64_t index;
        size_t digits_end = 0;
        KT__JTRY(read_number(x, part.u.s, &digits_end, &index));
        if (item && index >= 0 && digits_end == part.u.s->len) part = kt__j_int(index);
        KT__JTRY(item ? kt__jx_getitem(x, *out, part, out)
                      : kt__jx_getattr(x, *out, part.u.s, out));
        at = end + item;
        if (at < field->len && field->data[at] != '.' && field->data[at] != '[')
            return kt__jx_fail(x, "an unsupported format field");
    }
    return KT_OK;
}

/* The field between its braces: NAME [! conversion] [: spec] */
static kt_status format_field(formatter *fm, const kt__jstr *field, kt__jsb *sink) {
    kt__jx *x = fm->x;
    kt__jv name, spec_text, v;
    size_t colon = kt__jstr_find(field, ":", 1, 0), end = colon == SIZE_MAX ? field->len : colon;
    size_t bang = kt__jstr_find(field, "!", 1, 0);
    char conversion = '\0';
    size_t name_end = end;
    if (bang < end) {
        if (end != bang + 2) return kt__jx_fail(x, "an unsupported format conversion");
        conversion = field->data[bang + 1];
        name_end = bang;
    }
    KT__JTRY(kt__jx_sub(x, field, 0, name_end, &name));
    KT__JTRY(kt__jx_sub(x, field, colon == SIZE_MAX ? end : end + 1, field->len, &spec_text));
    KT__JTRY(field_value(fm, name.u.s, &v));
    if (conversion == 's' || conversion == 'r') {
        const kt__jstr *text;
        KT__JTRY(conversion == 's' ? kt__jx_str(x, v, &text) : kt__jx_repr(x, v, &text));
        v = kt__j_str(text);
    } else if (conversion) {
        return kt__jx_fail(x, "an unsupported format conversion");
    }
    return format_value(x, sink, v, spec_text.u.s);
}

kt_status kt__jx_format(kt__jx *x, const kt__jstr *fmt, const kt__jargs *args, kt__jv *out) {
    formatter fm = {.x = x, .args = args};
    kt__jsb sink;
    kt__jx_sink(x, &sink);
    for (size_t at = 0; at < fmt->len;) {
        size_t end = at;
        while (end < fmt->len && fmt->data[end] != '{' && fmt->data[end] != '}') end++;
        kt__jsb_add_sub(&sink, fmt, at, end);
        if (end == fmt->len) break;
        bool doubled = end + 1 < fmt->len && fmt->data[end + 1] == fmt->data[end];
        if (doubled) {
            kt__jsb_add_sub(&sink, fmt, end, end + 1);
            at = end + 2;
            continue;
        }
        size_t close = fmt->data[end] == '{' ? kt__jstr_find(fmt, "}", 1, end) : SIZE_MAX;
        if (close == SIZE_MAX) return kt__jx_fail(x, "a single brace in a format");
        kt__jv field;
        KT__JTRY(kt__jx_sub(x, fmt, end + 1, close, &field));
        KT__JTRY(format_field(&fm, field.u.s, &sink));
        at = close + 1;
    }
    return kt__jx_sink_done(x, &sink, out);
}
