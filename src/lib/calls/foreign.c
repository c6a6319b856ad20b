/* Calls that are spelled in another way than the model's template asks for.
 *
 * Small models know that a function is to be called, and which, and write the call as they saw calls
 * elsewhere: as a JSON object, bare or in a fence, with doubled braces, between another family's
 * tags, or as NAME({...}). Such a text is a call where a line of the answer begins with it, outside
 * of fences, if it names a tool that there is. The spellings:
 *
 *   {"name": "f", "arguments": {...}}   in either order; also "parameters" or "input"; an "id" and a
 *                                       "type" may be with them, nothing else; {{ }} for { }
 *   [{...}, {...}]                      several of these
 *   around them, up to three of: ```word ... ```, <tool_call> ... </tool_call> and their like
 *   <function=f>{...}</function>, <function=f> with <parameter=...>, [TOOL_CALLS]f{...}
 *   f({...})                            alone in its line, also in a fence
 *
 * What begins otherwise is known to be no call at the first byte that differs, so that other text
 * waits for nothing. */
#include <string.h>

#include "calls/parser_impl.h"

typedef struct wrapper {
    const char *open, *close;
} wrapper;

/* FENCE and FUNCTION are wrappers, too, but have a word or a name in them. */
enum { TOOL_CALLS, FENCE, FUNCTION, FIRST_PLAIN };

static const wrapper wrappers[] = {
    [TOOL_CALLS] = {"[TOOL_CALLS]", "[/TOOL_CALLS]"},
    [FENCE] = {"```", "```"},
    [FUNCTION] = {"<function=", "</function>"},
    [FIRST_PLAIN] = {"<tool_call>", "</tool_call>"},
    {"<tool_calls>", "</tool_calls>"},
    {"<tools>", "</tools>"},
    {"<function_call>", "</function_call>"},
    {"<TOOLCALL>", "</TOOLCALL>"},
    {"<|tool_call|>", "<|/tool_call|>"},
    {"<|python_tag|>", "<|eom_id|>"},
    {"functools", NULL},
};
enum { N_WRAPPERS = sizeof wrappers / sizeof *wrappers, MAX_WORD = 24 };

/* What the object of a call is read as after its arguments. */
static const kt__call_format object_format = {.name = "foreign",
                                              .kind = KT__CALLS_OBJECT,
                                              .name_key = "name",
                                              .args_key = "arguments",
                                              .id_key = "id"};
static const kt__call_format named_format = {.name = "foreign_named", .kind = KT__CALLS_NAMED};
const kt__call_format kt__foreign_params = {.name = "foreign_params",
                                            .kind = KT__CALLS_TAGGED,
                                            .param_open = "<parameter=",
                                            .key_end = ">",
                                            .param_close = "</parameter>",
                                            .pad = "\n",
                                            .gap = "\n",
                                            .close = "</function>"};

/* ---- lines ---- */

static void line_byte(kt__line *l, char c) {
    if (c == '\n') {
        *l = (kt__line){.fenced = l->fenced};
    } else if (!l->mid && !l->ticks && (c == ' ' || c == '\t' || c == '\r')) {
        l->blanks++;
    } else if (!l->mid && c == '`' && l->ticks < 3) {
        if (++l->ticks == 3) l->fenced = !l->fenced;
    } else {
        l->mid = true;
    }
}

void kt__p_line_to(kt__call_parser *p, const kt__span *span, size_t at) {
    for (; p->line_at < at; p->line_at++) line_byte(&p->line, span->s[p->line_at]);
}

/* ---- reading ---- */

static bool is_word_char(char c) {
    char low = (char)(c | 32);
    return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '+' || c == '#';
}

static kt__scan one_char(const kt__span *span, size_t *at, char c) {
    if (*at == span->n) return span->ended ? KT__SCAN_NO : KT__SCAN_MORE;
    if (span->s[*at] != c) return KT__SCAN_NO;
    ++*at;
    return KT__SCAN_YES;
}

static kt__scan blanks_and(const kt__span *span, size_t *at, char c) {
    if (kt__scan_blanks(span, at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    return one_char(span, at, c);
}

/* One of the tools' names, and the byte after it. MORE as soon as one may be. */
static kt__scan tool_name(const kt__call_parser *p, const kt__span *span, size_t *at, char after,
                          uint32_t *tool) {
    kt__scan best = KT__SCAN_NO;
    for (uint32_t i = 0; i < kt__tools_count(p->tools); i++) {
        size_t end = *at;
        kt__scan r = kt__scan_exact(span, kt__tools_name(p->tools, i), &end);
        if (r == KT__SCAN_YES) r = one_char(span, &end, after);
        if (r == KT__SCAN_YES) {
            *tool = i;
            *at = end;
            return r;
        }
        if (r == KT__SCAN_MORE) best = r;
    }
    return best;
}

/* ---- what is around ---- */

static bool push_wrap(kt__foreign *f, int which) {
    if (f->n_wraps == KT__FOREIGN_WRAPS) return false;
    f->wraps[f->n_wraps++] = (uint8_t)which;
    return true;
}

/* The word after a fence's ticks, and white space. */
static kt__scan fence_word(const kt__span *span, size_t *at) {
    size_t from = *at;
    while (*at < span->n && is_word_char(span->s[*at])) ++*at;
    if (*at - from > MAX_WORD) return KT__SCAN_NO;
    if (*at == span->n) return span->ended ? KT__SCAN_NO : KT__SCAN_MORE;
    bool object = span->s[*at] == '{' || span->s[*at] == '[' || span->s[*at] == '<';
    return object || kt__is_blank(span->s[*at]) ? kt__scan_blanks(span, at) : KT__SCAN_NO;
}

/* A wrapper at *at, but for FUNCTION. */
static kt__scan one_wrapper(const kt__span *span, size_t *at, kt__foreign *f) {
    kt__scan best = KT__SCAN_NO;
    for (int i = 0; i < N_WRAPPERS; i++) {
        size_t end = *at;
        if (i == FUNCTION) continue;
        kt__scan r = kt__scan_exact(span, wrappers[i].open, &end);
        if (r == KT__SCAN_YES && i == FENCE) r = fence_word(span, &end);
        if (r == KT__SCAN_YES && !push_wrap(f, i)) return KT__SCAN_NO;
        if (r == KT__SCAN_YES) {
            *at = end;
            return r;
        }
        if (r == KT__SCAN_MORE) best = r;
    }
    return best;
}

/* All wrappers, and the white space after them. */
static kt__scan open_wrappers(const kt__span *span, size_t *at, kt__foreign *f) {
    kt__scan r;
    while ((r = one_wrapper(span, at, f)) == KT__SCAN_YES)
        if (kt__scan_blanks(span, at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    return r == KT__SCAN_MORE ? r : KT__SCAN_YES;
}

/* ---- {"name": ..., "arguments": ...} ---- */

typedef enum member { NAME, ID, TYPE, ARGS, PARAMETERS, INPUT, N_MEMBERS } member;

static const char *const member_names[N_MEMBERS] = {"name",      "id",         "type",
                                                    "arguments", "parameters", "input"};

static bool is_args(member m) {
    return m >= ARGS;
}

/* "key": with the white space after it; one that a call has. */
static kt__scan member_key(const kt__span *span, size_t *at, member *out) {
    kt__scan best = KT__SCAN_NO, r = blanks_and(span, at, '"');
    if (r != KT__SCAN_YES) return r;
    for (int i = 0; i < N_MEMBERS; i++) {
        size_t end = *at;
        r = kt__scan_exact(span, member_names[i], &end);
        if (r == KT__SCAN_YES) r = one_char(span, &end, '"');
        if (r == KT__SCAN_YES) r = blanks_and(span, &end, ':');
        if (r == KT__SCAN_MORE) best = r;
        if (r != KT__SCAN_YES) continue;
        *out = (member)i;
        *at = end;
        return r;
    }
    return best;
}

/* "type": a word for a call; its definition has none of these before the name. */
static kt__scan type_value(const kt__span *span, size_t *at) {
    static const char *const words[] = {"\"function\"", "\"tool_use\"", "\"tool_call\"",
                                        "\"function_call\""};
    kt__scan best = KT__SCAN_NO;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        kt__scan r = kt__scan_exact(span, words[i], at);
        if (r == KT__SCAN_YES) return r;
        if (r == KT__SCAN_MORE) best = r;
    }
    return best;
}

/* Arguments that come before the name: an object whose first member some tool has. */
static kt__scan early_args(const kt__call_parser *p, const kt__span *span, size_t *at,
                           kt__call_head *head) {
    size_t from = *at, begin, end;
    kt__scan r = one_char(span, at, '{');
    if (r == KT__SCAN_YES) r = kt__scan_blanks(span, at);
    if (r != KT__SCAN_YES) return r;
    if (*at < span->n && span->s[*at] != '}') {
        r = kt__p_string(span, at, &begin, &end);
        if (r != KT__SCAN_YES) return r;
        if (!kt__tools_have_param(p->tools, span->s + begin, end - begin)) return KT__SCAN_NO;
    }
    *at = from;
    r = kt__jscan_value(span, at);
    head->args_from = from;
    head->args_to = *at;
    return r;
}

static kt__scan id_value(const kt__span *span, size_t *at, kt__call_head *head) {
    size_t begin, end;
    kt__scan r = *at < span->n ? kt__p_string(span, at, &begin, &end) : KT__SCAN_MORE;
    if (r != KT__SCAN_YES) return r;
    head->id = span->s + begin;
    head->id_len = end - begin;
    return r;
}

/* Arguments after the name: they are read elsewhere. */
static kt__scan late_args(const kt__span *span, size_t *at, kt__call_head *head) {
    head->expects = true;
    head->expects_at = *at;
    head->next = KT__P_JSON;
    if (kt__scan_blanks(span, at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    size_t after = *at;
    return one_char(span, &after, '{');
}

static kt__scan name_value(const kt__call_parser *p, const kt__span *span, size_t *at,
                           kt__call_head *head) {
    kt__scan r = one_char(span, at, '"');
    return r == KT__SCAN_YES ? tool_name(p, span, at, '"', &head->tool) : r;
}

static kt__scan other_value(const kt__call_parser *p, const kt__span *span, size_t *at, member m,
                            kt__call_head *head) {
    if (kt__scan_blanks(span, at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    switch (m) {
    case NAME: return name_value(p, span, at, head);
    case TYPE: return type_value(span, at);
    case ID: return id_value(span, at, head);
    default: return early_args(p, span, at, head);
    }
}

/* The members up to the arguments, or to the name where those came first. */
static kt__scan members(const kt__call_parser *p, const kt__span *span, size_t *at,
                        kt__call_head *head) {
    bool named = false, args = false;
    for (int i = 0; i < N_MEMBERS; i++) {
        member m = N_MEMBERS;
        kt__scan r = member_key(span, at, &m);
        if (r != KT__SCAN_YES) return r;
        if (is_args(m) && named) return late_args(span, at, head);
        if ((is_args(m) && args) || (m == NAME && named)) return KT__SCAN_NO;
        r = other_value(p, span, at, m, head);
        if (r == KT__SCAN_YES) r = kt__scan_blanks(span, at);
        if (r != KT__SCAN_YES) return r;
        named |= m == NAME;
        args |= is_args(m);
        char after = *at < span->n ? span->s[*at] : '\0';
        if (named && args) return after == ',' || after == '}' ? KT__SCAN_YES : KT__SCAN_NO;
        if (after != ',') return KT__SCAN_NO;
        ++*at;
    }
    return KT__SCAN_NO;
}

static kt__scan call_object(const kt__call_parser *p, const kt__span *span, size_t *at,
                            kt__call_head *head) {
    kt__scan r = one_char(span, at, '{');
    if (r == KT__SCAN_YES) r = kt__scan_blanks(span, at);
    if (r != KT__SCAN_YES) return r;
    head->format = &object_format;
    head->next = KT__P_OBJECT;
    if (*at < span->n && span->s[*at] == '{') {
        head->foreign.doubled = true;
        ++*at;
    }
    return members(p, span, at, head);
}

/* ---- other spellings ---- */

/* After a call that is alone in its line. */
static kt__scan line_ends(const kt__span *span, size_t *at) {
    size_t end = *at;
    if (end < span->n && span->s[end] == ';') end++;
    *at = end;
    while (end < span->n && (span->s[end] == ' ' || span->s[end] == '\t' || span->s[end] == '\r'))
        end++;
    if (end == span->n) return span->ended ? KT__SCAN_YES : KT__SCAN_MORE;
    return span->s[end] == '\n' || span->s[end] == '`' ? KT__SCAN_YES : KT__SCAN_NO;
}

/* f({...}) */
static kt__scan call_with_parens(const kt__call_parser *p, const kt__span *span, size_t *at,
                                 kt__call_head *head) {
    kt__scan r = tool_name(p, span, at, '(', &head->tool);
    if (r != KT__SCAN_YES) return r;
    head->format = &named_format;
    head->next = KT__P_CLOSE;
    head->expects = true;
    head->expects_at = *at;
    r = kt__scan_blanks(span, at);
    size_t from = *at, brace = *at;
    if (r == KT__SCAN_YES) r = one_char(span, &brace, '{');
    if (r == KT__SCAN_YES) r = kt__jscan_value(span, at);
    head->args_from = from;
    head->args_to = *at;
    if (r == KT__SCAN_YES) r = blanks_and(span, at, ')');
    return r == KT__SCAN_YES ? line_ends(span, at) : r;
}

/* <function=f> with JSON, or with parameters. */
static kt__scan call_with_tag(const kt__call_parser *p, const kt__span *span, size_t *at,
                              kt__call_head *head) {
    kt__scan r = kt__scan_exact(span, wrappers[FUNCTION].open, at);
    if (r == KT__SCAN_YES) r = tool_name(p, span, at, '>', &head->tool);
    if (r != KT__SCAN_YES) return r;
    size_t from = *at;
    if (kt__scan_blanks(span, at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    if (*at < span->n && span->s[*at] == '<') {
        head->format = &kt__foreign_params;
        head->next = KT__P_PARAMS;
        head->expects = true;
        head->expects_at = *at;
        return KT__SCAN_YES;
    }
    *at = from;
    head->format = &named_format;
    return push_wrap(&head->foreign, FUNCTION) ? late_args(span, at, head) : KT__SCAN_NO;
}

/* [TOOL_CALLS]f{...} and [TOOL_CALLS]f[ARGS]{...} */
static kt__scan call_with_name(const kt__call_parser *p, const kt__span *span, size_t *at,
                               kt__call_head *head) {
    size_t end = *at;
    kt__scan r = tool_name(p, span, &end, '[', &head->tool);
    if (r == KT__SCAN_YES) r = kt__scan_exact(span, "ARGS]", &end);
    if (r == KT__SCAN_NO) {
        end = *at;
        r = tool_name(p, span, &end, '{', &head->tool);
        if (r == KT__SCAN_YES) end--;
    }
    if (r != KT__SCAN_YES) return r;
    *at = end;
    head->format = &named_format;
    return late_args(span, at, head);
}

/* One call, after what is around it. Those without an object have no object to be ended. */
static kt__scan one_call(const kt__call_parser *p, const kt__span *span, size_t *at,
                         kt__call_head *head) {
    const kt__foreign *f = &head->foreign;
    if (*at == span->n) return span->ended ? KT__SCAN_NO : KT__SCAN_MORE;
    bool named = f->n_wraps > 0 && f->wraps[f->n_wraps - 1] == TOOL_CALLS;
    switch (span->s[*at]) {
    case '{': return call_object(p, span, at, head);
    case '<': return call_with_tag(p, span, at, head);
    default: return named ? call_with_name(p, span, at, head) : call_with_parens(p, span, at, head);
    }
}

/* Arguments that were read whole are taken if the tool does. */
static kt__scan checked(const kt__call_parser *p, const kt__span *span, const kt__call_head *head) {
    size_t n = head->args_to - head->args_from;
    return n == 0 || kt__tool_takes(p->tools, head->tool, span->s + head->args_from, n)
               ? KT__SCAN_YES
               : KT__SCAN_NO;
}

/* From the list, if there is one, up to the arguments. */
static kt__scan list_or_call(const kt__call_parser *p, const kt__span *span, size_t *at,
                             kt__call_head *head) {
    kt__foreign *f = &head->foreign;
    const size_t from = *at;
    if (!f->list && *at < span->n && span->s[*at] == '[') {
        f->list = true;
        ++*at;
        if (kt__scan_blanks(span, at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    }
    if (f->list && *at < span->n && span->s[*at] != '{') return KT__SCAN_NO;
    kt__scan r = one_call(p, span, at, head);
    head->used = *at;
    if (r == KT__SCAN_MORE) return span->n - from > KT__CALL_HEAD_BYTES ? KT__SCAN_NO : r;
    if (r == KT__SCAN_NO || *at - from > KT__CALL_HEAD_BYTES) return KT__SCAN_NO;
    return checked(p, span, head);
}

kt__scan kt__p_foreign_head(const kt__call_parser *p, const kt__span *span, size_t at,
                            kt__call_head *head) {
    *head = (kt__call_head){.foreign = {.on = true}};
    kt__scan r = open_wrappers(span, &at, &head->foreign);
    return r == KT__SCAN_YES ? list_or_call(p, span, &at, head) : r;
}

/* ---- after a call ---- */

/* What ends next, or stands between two calls of a list. YES: it was read. */
static kt__scan close_one(kt__call_parser *p, const kt__span *span, size_t *at) {
    kt__foreign *f = &p->foreign;
    if (f->doubled || f->list) {
        char c = *at < span->n ? span->s[*at] : '\0';
        bool ends = f->doubled ? c == '}' : c == ']';
        if (!ends && (f->doubled || c != ',')) return KT__SCAN_NO;
        if (ends && f->doubled)
            f->doubled = false;
        else if (ends)
            f->list = false;
        ++*at;
        return KT__SCAN_YES;
    }
    const char *close = f->n_wraps ? wrappers[f->wraps[f->n_wraps - 1]].close : NULL;
    if (!close && f->n_wraps) {
        f->n_wraps--;
        return KT__SCAN_YES;
    }
    kt__scan r = close ? kt__scan_exact(span, close, at) : KT__SCAN_NO;
    if (r == KT__SCAN_YES) f->n_wraps--;
    return r;
}

/* A further call within the same list or wrappers. */
static kt__scan further_call(kt__call_parser *p, const kt__span *span, size_t at) {
    kt__call_head head = {.foreign = p->foreign};
    if (!kt__p_calls_on(p) || p->foreign.doubled) return KT__SCAN_NO;
    kt__scan r = list_or_call(p, span, &at, &head);
    if (r == KT__SCAN_YES) kt__p_begin(p, span, &head);
    if (r == KT__SCAN_MORE && head.expects) kt__p_expect_args(p, span, &head);
    return r;
}

kt__scan kt__p_foreign_between(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = 0;
    if (kt__scan_blanks(&span, &at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    bool inside = p->foreign.n_wraps > 0 || p->foreign.list || p->foreign.doubled;
    if (inside && at < span.n) {
        kt__scan r = close_one(p, &span, &at);
        if (r == KT__SCAN_YES) kt__p_consume(p, at);
        if (r == KT__SCAN_NO) r = further_call(p, &span, at);
        if (r != KT__SCAN_NO) return r;
    }
    kt__p_resume(p);
    return KT__SCAN_YES;
}
