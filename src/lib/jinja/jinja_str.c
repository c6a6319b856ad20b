#include "jinja/jinja_run.h"

#include <string.h>

#include "base/text.h"
#include "jinja/jinja_text.h"

/* ---- case ---- */

static size_t char_at(const kt__jstr *s, size_t at, uint32_t *cp) {
    size_t n = kt__utf8_decode(s->data + at, s->len - at, cp);
    if (n == 0) *cp = (unsigned char)s->data[at]; /* strings are valid: not reached */
    return n ? n : 1;
}

/* A capital sigma ends a word when a cased character precedes it (at `from` or later) and none
 * follows, ignorable characters aside. */
static bool is_final_sigma(const kt__jstr *s, size_t from, size_t at) {
    uint32_t cp = 0;
    bool before = false;
    for (size_t i = at; i > from && !before;) {
        do i--;
        while (i > from && ((unsigned char)s->data[i] & 0xC0) == 0x80);
        char_at(s, i, &cp);
        if (kt__j_is_case_ignorable(cp)) continue;
        if (!kt__j_is_cased(cp)) return false;
        before = true;
    }
    if (!before) return false;
    for (size_t i = at + 2; i < s->len;) {
        i += char_at(s, i, &cp);
        if (kt__j_is_case_ignorable(cp)) continue;
        return !kt__j_is_cased(cp);
    }
    return true;
}

static size_t lower_at(const kt__jstr *s, size_t from, size_t at, uint32_t cp, uint32_t out[3]) {
    if (cp == 0x3a3) { /* capital sigma */
        out[0] = is_final_sigma(s, from, at) ? 0x3c2 : 0x3c3;
        return 1;
    }
    return kt__j_lower(cp, out);
}

static bool starts_word(uint32_t before) {
    char c[4];
    size_t n = kt__utf8_encode(before, c);
    return (before < 0x80 && before && strchr("-({[<", (int)before)) || kt__jstr_space(c, n);
}

/* One character mapped; `before` is the character in front of it, 0 at the start; *word: where the
 * lower part of the word began, for the filter title, which lowers each word by itself. */
static size_t map_char(const kt__jstr *s, size_t at, uint32_t cp, uint32_t before, kt__jcase mode,
                       size_t *word, uint32_t out[3]) {
    bool first = at == 0;
    switch (mode) {
    case KT__JCASE_UPPER: return kt__j_upper(cp, out);
    case KT__JCASE_CAPITAL: return first ? kt__j_title(cp, out) : lower_at(s, 0, at, cp, out);
    case KT__JCASE_TITLE:
        return first || !kt__j_is_cased(before) ? kt__j_title(cp, out)
                                                : lower_at(s, 0, at, cp, out);
    case KT__JCASE_FILTER_TITLE:
        if (!first && !starts_word(before)) return lower_at(s, *word, at, cp, out);
        *word = at + char_at(s, at, &cp);
        return kt__j_upper(cp, out);
    default: return lower_at(s, 0, at, cp, out);
    }
}

static bool origin_at(const kt__jstr *s, size_t at, size_t *run) {
    while (*run < s->n_runs && s->runs[*run].end <= at) ++*run;
    return s->n_runs ? s->runs[*run].from_template : s->from_template;
}

kt_status kt__js_case(kt__jx *x, const kt__jstr *s, kt__jcase mode, kt__jv *out) {
    kt__jsb text;
    uint32_t before = 0, cp, mapped[3];
    size_t run = 0, word = 0;
    KT__STEP(kt__jx_step(x, s->len / 2 + 1));
    kt__jx_sink(x, &text);
    for (size_t at = 0, n; at < s->len; at += n) {
        n = char_at(s, at, &cp);
        size_t n_mapped = map_char(s, at, cp, before, mode, &word, mapped);
        for (size_t i = 0; i < n_mapped; i++) {
            char bytes[4];
            kt__jsb_add(&text, bytes, kt__utf8_encode(mapped[i], bytes), origin_at(s, at, &run));
        }
        before = cp;
    }
    return kt__jx_sink_done(x, &text, out);
}

/* ---- strip, replace ---- */

static bool has_char(const kt__jstr *set, const char *c, size_t n) {
    for (size_t at = 0; (at = kt__jstr_find(set, c, n, at)) != SIZE_MAX; at++) return true;
    return false;
}

/* Length of a character to strip at the start or the end of s[from, to); 0: none. */
static size_t strippable_char(const kt__jstr *s, const kt__jstr *chars, size_t from, size_t to,
                              bool left) {
    if (from == to) return 0;
    if (!chars)
        return left ? kt__jstr_space(s->data + from, to - from)
                    : kt__jstr_space_before(s->data + from, to - from);
    size_t at = left ? from : to - 1, n = 1;
    while (!left && ((unsigned char)s->data[at] & 0xC0) == 0x80) at--, n++;
    while (left && at + n < to && ((unsigned char)s->data[at + n] & 0xC0) == 0x80) n++;
    return has_char(chars, s->data + at, n) ? n : 0;
}

kt_status kt__js_strip(kt__jx *x, const kt__jstr *s, const kt__jstr *chars, bool left, bool right,
                       kt__jv *out) {
    size_t from = 0, to = s->len, n;
    while (left && (n = strippable_char(s, chars, from, to, true)) > 0) from += n;
    while (right && (n = strippable_char(s, chars, from, to, false)) > 0) to -= n;
    uint64_t work = (uint64_t)(s->len - (to - from)) * (chars ? chars->len / 64 + 1 : 1);
    KT__STEP(kt__jx_step(x, work / 8 + 1));
    return kt__jx_sub(x, s, from, to, out);
}

/* Before every character and at the end, up to count places. */
static kt_status replace_empty(kt__jx *x, const kt__jstr *s, const kt__jstr *with, int64_t count,
                               kt__jv *out) {
    kt__jsb text;
    size_t at = 0;
    KT__STEP(kt__jx_step(x, s->n_cp / 4 + 1));
    kt__jx_sink(x, &text);
    while (count != 0) {
        if (!kt__jsb_add_str(&text, with) && (text.failed || text.too_long)) break;
        count--;
        if (at == s->len) break;
        size_t end = at + 1;
        while (end < s->len && ((unsigned char)s->data[end] & 0xC0) == 0x80) end++;
        kt__jsb_add_sub(&text, s, at, end);
        at = end;
    }
    kt__jsb_add_sub(&text, s, at, s->len);
    return kt__jx_sink_done(x, &text, out);
}

kt_status kt__js_replace(kt__jx *x, const kt__jstr *s, const kt__jstr *old, const kt__jstr *with,
                         int64_t count, kt__jv *out) {
    kt__jsb text;
    size_t at = 0;
    if (old->len == 0) return replace_empty(x, s, with, count, out);
    KT__STEP(kt__jx_step(x, s->len / 64 + 1));
    kt__jx_sink(x, &text);
    for (; count != 0 && !text.failed && !text.too_long; count--) {
        size_t hit = kt__jstr_find(s, old->data, old->len, at);
        if (hit == SIZE_MAX) break;
        KT__STEP(kt__jx_step(x, 1));
        kt__jsb_add_sub(&text, s, at, hit);
        kt__jsb_add_str(&text, with);
        at = hit + old->len;
    }
    kt__jsb_add_sub(&text, s, at, s->len);
    return kt__jx_sink_done(x, &text, out);
}

/* ---- split ---- */

static kt_status push_sub(kt__jx *x, kt__jlist *list, const kt__jstr *s, size_t from, size_t to) {
    kt__jv part;
    KT__STEP(kt__jx_sub(x, s, from, to, &part));
    return kt__jx_push(x, list, part);
}

static kt_status split_at(kt__jx *x, const kt__jstr *s, const kt__jstr *sep, int64_t max,
                          kt__jlist *out) {
    size_t at = 0, hit;
    while (max-- != 0 && (hit = kt__jstr_find(s, sep->data, sep->len, at)) != SIZE_MAX) {
        KT__STEP(push_sub(x, out, s, at, hit));
        at = hit + sep->len;
    }
    return push_sub(x, out, s, at, s->len);
}

static size_t skip_space(const kt__jstr *s, size_t at, bool over_space) {
    for (size_t n; at < s->len; at += n) {
        size_t space = kt__jstr_space(s->data + at, s->len - at);
        uint32_t cp;
        if ((space != 0) != over_space) break;
        n = space ? space : char_at(s, at, &cp);
    }
    return at;
}

static size_t skip_space_back(const kt__jstr *s, size_t to, bool over_space) {
    while (to > 0) {
        size_t space = kt__jstr_space_before(s->data, to);
        if ((space != 0) != over_space) break;
        if (space) {
            to -= space;
            continue;
        }
        do to--;
        while (to > 0 && ((unsigned char)s->data[to] & 0xC0) == 0x80);
    }
    return to;
}

static kt_status split_space(kt__jx *x, const kt__jstr *s, int64_t max, kt__jlist *out) {
    size_t at = skip_space(s, 0, true);
    while (at < s->len && max-- != 0) {
        size_t end = skip_space(s, at, false);
        KT__STEP(push_sub(x, out, s, at, end));
        at = skip_space(s, end, true);
    }
    return at < s->len ? push_sub(x, out, s, at, s->len)
                       : KT_OK; /* the limit leaves its end as it is */
}

static kt_status split_space_right(kt__jx *x, const kt__jstr *s, int64_t max, kt__jlist *out) {
    size_t to = skip_space_back(s, s->len, true);
    while (to > 0 && max-- != 0) {
        size_t from = skip_space_back(s, to, false);
        KT__STEP(push_sub(x, out, s, from, to));
        to = skip_space_back(s, from, true);
    }
    return to > 0 ? push_sub(x, out, s, 0, to) : KT_OK;
}

static kt_status split_right(kt__jx *x, const kt__jstr *s, const kt__jstr *sep, int64_t max,
                             kt__jlist *out) {
    size_t to = s->len, hit;
    while (max-- != 0 &&
           (hit = kt__jstr_rfind(s, sep->data, sep->len, to, &x->steps)) != SIZE_MAX) {
        KT__STEP(push_sub(x, out, s, hit + sep->len, to));
        to = hit;
    }
    return push_sub(x, out, s, 0, to);
}

kt_status kt__js_split(kt__jx *x, const kt__jstr *s, const kt__jstr *sep, int64_t max,
                       bool from_right, kt__jlist **out) {
    if (sep && sep->len == 0) return kt__jx_fail(x, "split: the separator is empty");
    KT__STEP(kt__jx_step(x, s->len / 16 + 1));
    KT__STEP(kt__jx_list(x, KT__JL_LIST, NULL, 0, out));
    if (!from_right) return sep ? split_at(x, s, sep, max, *out) : split_space(x, s, max, *out);
    KT__STEP(sep ? split_right(x, s, sep, max, *out) : split_space_right(x, s, max, *out));
    kt__jv *items = (*out)->items;
    for (size_t i = 0, n = (*out)->n; i < n / 2; i++) {
        kt__jv swap = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = swap;
    }
    return KT_OK;
}

kt_status kt__js_lines(kt__jx *x, const kt__jstr *s, bool keep_ends, kt__jlist **out) {
    size_t from = 0;
    KT__STEP(kt__jx_step(x, s->len / 16 + 1));
    KT__STEP(kt__jx_list(x, KT__JL_LIST, NULL, 0, out));
    for (size_t at = 0, n; at < s->len;) {
        uint32_t cp;
        n = kt__jstr_line_end(s->data + at, s->len - at);
        if (n) {
            KT__STEP(push_sub(x, *out, s, from, keep_ends ? at + n : at));
            from = at + n;
        }
        at += n ? n : char_at(s, at, &cp);
    }
    return from < s->len ? push_sub(x, *out, s, from, s->len) : KT_OK;
}

/* ---- HTML ---- */

kt_status kt__jx_escape(kt__jx *x, const kt__jstr *s, const kt__jstr **out) {
    static const char special[] = "&<>'\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    kt__jsb text;
    kt__jv made;
    *out = s;
    if (s->markup) return KT_OK;
    KT__STEP(kt__jx_step(x, s->len / 8));
    kt__jx_sink(x, &text);
    for (size_t i = 0, from = 0; i <= s->len; i++) {
        const char *hit = i < s->len && s->data[i] ? strchr(special, s->data[i]) : NULL;
        if (!hit && i < s->len) continue;
        kt__jsb_add_sub(&text, s, from, i);
        from = i + 1;
        if (hit)
            kt__jsb_add(&text, names[hit - special], strlen(names[hit - special]),
                        kt__jstr_all_from_template(s));
    }
    KT__STEP(kt__jx_sink_done(x, &text, &made));
    ((kt__jstr *)(uintptr_t)made.u.s)->markup = true; /* made here, not yet shared */
    *out = made.u.s;
    return KT_OK;
}
