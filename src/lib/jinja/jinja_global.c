/* Global functions: range, namespace, dict, raise_exception, strftime_now. */
#include <locale.h>
#include <string.h>
#include <time.h>

#include "jinja/jinja_ast.h"
#include "jinja/jinja_run.h"

static kt_status global_range(kt__jx *x, const kt__jargs *args, kt__jv *out) {
    int64_t bounds[3] = {0, 0, 1};
    if (args->n_kw || args->n_pos < 1 || args->n_pos > 3)
        return kt__jx_fail(x, "range takes 1 to 3 integers");
    for (size_t i = 0; i < args->n_pos; i++)
        KT__STEP(kt__jx_int(x, "range", args->pos[i], 0, &bounds[i]));
    if (args->n_pos == 1) bounds[1] = bounds[0], bounds[0] = 0;
    int64_t start = bounds[0], stop = bounds[1], step = bounds[2];
    if (step == 0) return kt__jx_fail(x, "range: the step is zero");
    kt__jlist *list;
    KT__STEP(kt__jx_list(x, KT__JL_RANGE, NULL, 0, &list));
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
        if (list->n == KT__JX_MAX_RANGE)
            return kt__jx_fail(x, "range: more than %d items", KT__JX_MAX_RANGE);
        KT__STEP(kt__jx_step(x, list->n % 8 == 0));
        KT__STEP(kt__jx_push(x, list, kt__j_int(i)));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    *out = kt__j_list(list);
    return KT_OK;
}

/* dict(mapping or pairs, name=value...) */
static kt_status make_dict(kt__jx *x, const kt__jargs *args, kt__jdict **out) {
    const kt__jv *items, *pair;
    size_t n, n_pair;
    kt__jdict *dict = *out = kt__jdict_new(&x->arena);
    if (!dict) return kt__jx_nomem(x);
    if (args->n_pos > 1) return kt__jx_fail(x, "dict takes one mapping");
    if (args->n_pos && args->pos[0].type == KT__J_DICT) {
        const kt__jdict *from = args->pos[0].u.d;
        KT__STEP(kt__jx_step(x, from->n));
        for (size_t i = 0; i < from->n; i++)
            KT__STEP(kt__jx_put(x, dict, from->items[i].key, from->items[i].val));
    } else if (args->n_pos) {
        KT__STEP(kt__jx_items(x, args->pos[0], &items, &n));
        for (size_t i = 0; i < n; i++) {
            KT__STEP(kt__jx_items(x, items[i], &pair, &n_pair));
            if (n_pair != 2) return kt__jx_fail(x, "dict: expected pairs");
            KT__STEP(kt__jx_put(x, dict, pair[0], pair[1]));
        }
    }
    for (size_t i = 0; i < args->n_kw; i++)
        KT__STEP(kt__jx_put(x, dict, kt__j_str(args->kw[i].name), args->kw[i].val));
    return KT_OK;
}

static kt_status global_raise(kt__jx *x, const kt__jargs *args) {
    const kt__jstr *s;
    if (args->n_pos != 1 || args->n_kw) return kt__jx_fail(x, "raise_exception takes a message");
    KT__STEP(kt__jx_str(x, args->pos[0], &s));
    x->raised = true;
    return kt__jx_fail(x, "%.*s", (int)(s->len < 350 ? s->len : 350), s->data);
}

enum { TIME_STEPS = 32 }; /* formatting a time, in a locale made for it */

/* Days since 1970 to a civil date (H. Hinnant, "chrono-compatible low-level date algorithms"). */
static void civil_date(int64_t days, struct tm *tm) {
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    int64_t month = mp < 10 ? mp + 3 : mp - 9, year = yoe + era * 400 + (month <= 2);
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    tm->tm_year = (int)(year - 1900);
    tm->tm_mon = (int)month - 1;
    tm->tm_mday = (int)(doy - (153 * mp + 2) / 5 + 1);
    tm->tm_yday = before[month - 1] + tm->tm_mday - 1 + (leap && month > 2);
    tm->tm_wday = (int)(((days + 4) % 7 + 7) % 7);
}

/* strftime with English names, whatever the process's locale. */
static size_t format_time(char *out, size_t size, const char *format, const struct tm *tm) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime_l(out, size, format, tm, c);
#pragma GCC diagnostic pop
    freelocale(c);
    return n;
}

static kt_status global_strftime(kt__jx *x, const kt__jargs *args, kt__jv *out) {
    const kt__jstr *fmt;
    char text[512], format[256];
    struct tm tm = {.tm_isdst = -1};
    int64_t limit = INT64_C(200000000000), now = x->now_local_s; /* some thousand years */
    if (args->n_pos != 1 || args->n_kw) return kt__jx_fail(x, "strftime_now takes a format");
    KT__STEP(kt__jx_step(x, TIME_STEPS));
    KT__STEP(kt__jx_text(x, "strftime_now", args->pos[0], &fmt));
    if (fmt->len >= sizeof format - 1 || memchr(fmt->data, '\0', fmt->len))
        return kt__jx_fail(x, "strftime_now: the format is too long");
    now = now > limit ? limit : now < -limit / 4 ? -limit / 4 : now;
    int64_t days = now / 86400 - (now % 86400 < 0), rest = now - days * 86400;
    civil_date(days, &tm);
    tm.tm_hour = (int)(rest / 3600);
    tm.tm_min = (int)(rest / 60 % 60);
    tm.tm_sec = (int)(rest % 60);
    memcpy(format, fmt->data, fmt->len);
    format[fmt->len] = '\n'; /* so that an empty result can be told from a failure */
    format[fmt->len + 1] = '\0';
    size_t n = format_time(text, sizeof text, format, &tm);
    if (n == 0) return kt__jx_fail(x, "strftime_now: the text is too long");
    const kt__jstr *s = kt__jstr_copy(&x->arena, text, n - 1, true);
    if (!s) return kt__jx_nomem(x);
    *out = kt__j_str(s);
    return KT_OK;
}

kt_status kt__jx_global(kt__jx *x, int64_t id, const kt__jargs *args, kt__jv *out) {
    kt__jdict *dict;
    switch (id) {
    case KT__JG_range: return global_range(x, args, out);
    case KT__JG_raise_exception: return global_raise(x, args);
    case KT__JG_strftime_now: return global_strftime(x, args, out);
    case KT__JG_dict:
    case KT__JG_namespace:
        KT__STEP(make_dict(x, args, &dict));
        *out = kt__j_dict(dict);
        if (id == KT__JG_namespace) out->type = KT__J_NAMESPACE;
        return KT_OK;
    default: return kt__jx_fail(x, "an unknown function");
    }
}
