/* String operations that filters and methods share.
 *
 * Owns: case, stripping, replacing, splitting; each keeps the origin of every
 * byte that it copies. One rendering, one thread. */
#ifndef KT_JINJA_JINJA_STR_H
#define KT_JINJA_JINJA_STR_H

#include "jinja/jinja_run.h"

typedef enum kt__jcase {
    KT__JCASE_UPPER,
    KT__JCASE_LOWER,
    KT__JCASE_CAPITAL,     /* the first character in title case, the rest lower */
    KT__JCASE_TITLE,       /* str.title: a capital after every uncased character */
    KT__JCASE_FILTER_TITLE /* the filter: a capital after white space and one of -({[< */
} kt__jcase;

kt_status kt__js_case(kt__jx *x, const kt__jstr *s, kt__jcase mode, kt__jv *out) KT_CHECKED;
/* chars NULL: white space */
kt_status kt__js_strip(kt__jx *x, const kt__jstr *s, const kt__jstr *chars, bool left, bool right,
                       kt__jv *out) KT_CHECKED;
/* count < 0: all */
kt_status kt__js_replace(kt__jx *x, const kt__jstr *s, const kt__jstr *old, const kt__jstr *with,
                         int64_t count, kt__jv *out) KT_CHECKED;
/* sep NULL: runs of white space; max < 0: no limit; from_right: the last `max` places */
kt_status kt__js_split(kt__jx *x, const kt__jstr *s, const kt__jstr *sep, int64_t max,
                       bool from_right, kt__jlist **out) KT_CHECKED;
kt_status kt__js_lines(kt__jx *x, const kt__jstr *s, bool keep_ends, kt__jlist **out) KT_CHECKED;

#endif
