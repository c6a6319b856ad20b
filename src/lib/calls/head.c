#include "calls/parser_impl.h"

bool kt__p_calls_on(const kt__call_parser *p) {
    if (kt__tools_count(p->tools) == 0 || p->home->kind == KT__CALLS_NONE) return false;
    return p->n_calls == 0 || (!p->options.one_call && !p->home->single);
}

static bool is_name_char(char c) {
    char low = (char)(c | 32);
    return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

/* A tool's name at *at. NO: none, or not of a tool. */
static kt__scan known_name(const kt__call_parser *p, const kt__span *span, size_t *at,
                           kt__call_head *head) {
    size_t end = *at;
    while (end < span->n && is_name_char(span->s[end])) end++;
    if (end - *at > KT__TOOL_NAME_MAX) return KT__SCAN_NO;
    if (end == span->n && !span->ended) return KT__SCAN_MORE;
    head->tool = kt__tools_find(p->tools, span->s + *at, end - *at);
    if (head->tool == UINT32_MAX) return KT__SCAN_NO;
    *at = end;
    return KT__SCAN_YES;
}

/* The text up to a literal, as the call's id. */
static kt__scan id_before(const kt__span *span, size_t *at, const char *literal,
                          kt__call_head *head) {
    for (size_t end = *at; end < span->n && end - *at < KT__CALL_ID_BYTES; end++) {
        size_t after = end;
        kt__scan r = kt__scan_literal(span, literal, &after);
        if (r == KT__SCAN_NO) continue;
        if (r == KT__SCAN_MORE) return r;
        head->id = span->s + *at;
        head->id_len = end - *at;
        *at = after;
        return r;
    }
    return span->n - *at < KT__CALL_ID_BYTES && !span->ended ? KT__SCAN_MORE : KT__SCAN_NO;
}

/* ---- {"name": "f", ... ---- */

kt__scan kt__p_string(const kt__span *span, size_t *at, size_t *from, size_t *to) {
    size_t end = *at;
    if (end < span->n && span->s[end] != '"') return KT__SCAN_NO;
    kt__scan r = kt__jscan_value(span, &end);
    if (r != KT__SCAN_YES) return r;
    *from = *at + 1;
    *to = end - 1;
    *at = end;
    return r;
}

static bool text_is(const char *s, size_t len, const char *word) {
    return word && strlen(word) == len && memcmp(s, word, len) == 0;
}

bool kt__p_is_args_key(const kt__call_format *f, const char *key, size_t len) {
    if (text_is(key, len, "input") && !f->signs[0]) return true; /* no family's */
    return text_is(key, len, f->args_key) || text_is(key, len, "arguments") ||
           text_is(key, len, "parameters");
}

/* A value that is no name: an id is kept, arguments that came first are remembered. */
static kt__scan head_value(const kt__call_parser *p, const kt__span *span, size_t *at,
                           const char *key, size_t key_len, kt__call_head *head) {
    size_t from = *at;
    kt__scan r = kt__jscan_value(span, at);
    if (r != KT__SCAN_YES) return r;
    if (kt__p_is_args_key(p->f, key, key_len)) {
        head->args_from = from;
        head->args_to = *at;
        return span->s[from] == '{' ? KT__SCAN_YES : KT__SCAN_NO;
    }
    if (text_is(key, key_len, p->f->id_key) && span->s[from] == '"') {
        head->id = span->s + from + 1;
        head->id_len = *at - from - 2;
    }
    return KT__SCAN_YES;
}

static kt__scan head_name(const kt__call_parser *p, const kt__span *span, size_t *at,
                          kt__call_head *head) {
    size_t from, to;
    kt__scan r = kt__p_string(span, at, &from, &to);
    if (r != KT__SCAN_YES) return r;
    head->tool = kt__tools_find(p->tools, span->s + from, to - from);
    return head->tool == UINT32_MAX ? KT__SCAN_NO : KT__SCAN_YES;
}

static kt__scan scan_char(const kt__span *span, size_t *at, char c) {
    kt__scan r = kt__scan_blanks(span, at);
    if (r == KT__SCAN_MORE) return r;
    if (*at == span->n || span->s[*at] != c) return KT__SCAN_NO;
    ++*at;
    return KT__SCAN_YES;
}

/* key and colon; *at is then at the value. */
static kt__scan head_key(const kt__span *span, size_t *at, size_t *from, size_t *to) {
    kt__scan r = kt__scan_blanks(span, at);
    if (r == KT__SCAN_YES) r = *at < span->n ? kt__p_string(span, at, from, to) : KT__SCAN_NO;
    if (r == KT__SCAN_YES) r = scan_char(span, at, ':');
    if (r == KT__SCAN_YES) r = kt__scan_blanks(span, at);
    if (r == KT__SCAN_YES && *at == span->n) r = KT__SCAN_NO;
    return r;
}

/* One member. *known: the name has been read. */
static kt__scan head_member(const kt__call_parser *p, const kt__span *span, size_t *at,
                            kt__call_head *head, bool *known) {
    size_t from = 0, to = 0;
    kt__scan r = head_key(span, at, &from, &to);
    if (r != KT__SCAN_YES) return r;
    const char *key = span->s + from;
    size_t len = to - from;
    if (!p->f->name_key) {
        head->tool = kt__tools_find(p->tools, key, len);
        head->next = KT__P_JSON;
        *known = head->tool != UINT32_MAX;
        return *known ? KT__SCAN_YES : KT__SCAN_NO;
    }
    if (!text_is(key, len, p->f->name_key) && !text_is(key, len, "name"))
        return head_value(p, span, at, key, len, head);
    *known = true;
    return head_name(p, span, at, head);
}

static kt__scan object_head(const kt__call_parser *p, const kt__span *span, size_t *at,
                            kt__call_head *head) {
    bool known = false;
    kt__scan r = scan_char(span, at, '{');
    head->next = KT__P_OBJECT;
    while (r == KT__SCAN_YES) {
        r = head_member(p, span, at, head, &known);
        if (r != KT__SCAN_YES || head->next == KT__P_JSON) return r;
        r = kt__scan_blanks(span, at);
        if (r != KT__SCAN_YES) return r;
        bool more = *at < span->n && span->s[*at] == ',';
        if (known) return more || (*at < span->n && span->s[*at] == '}') ? r : KT__SCAN_NO;
        if (!more) return KT__SCAN_NO;
        ++*at;
    }
    return r;
}

/* A name, what is after it, and then arguments as Python has them. */
static kt__scan tagged_head(const kt__call_parser *p, const kt__span *span, size_t *at,
                            kt__call_head *head) {
    const char *call = p->f->tagged_call;
    size_t len = strlen(call), name = len - 1, end = *at; /* the last byte is no name's */
    while (end < span->n && is_name_char(span->s[end])) end++;
    size_t n = end - *at;
    if (n > KT__TOOL_NAME_MAX + name) return KT__SCAN_NO;
    if (end == span->n) return span->ended ? KT__SCAN_NO : KT__SCAN_MORE;
    if (n <= name || memcmp(span->s + end - name, call, len) != 0) return KT__SCAN_NO;
    head->tool = kt__tools_find(p->tools, span->s + *at, n - name);
    if (head->tool == UINT32_MAX) return KT__SCAN_NO;
    head->next = KT__P_LITERAL;
    *at = end + 1;
    return KT__SCAN_YES;
}

static kt__scan object_or_tagged(const kt__call_parser *p, const kt__span *span, size_t *at,
                                 kt__call_head *head) {
    bool tagged = p->f->tagged_call && head->tagged;
    if (tagged && *at < span->n && is_name_char(span->s[*at]))
        return tagged_head(p, span, at, head);
    return object_head(p, span, at, head);
}

/* ---- the other kinds ---- */

/* functions.NAME:N, all of which is the id. */
static kt__scan functions_name(const kt__call_parser *p, const kt__span *span, size_t *at,
                               kt__call_head *head) {
    size_t from = *at, skip = *at;
    if (kt__scan_exact(span, "functions.", &skip) == KT__SCAN_MORE) return KT__SCAN_MORE;
    *at = skip;
    kt__scan r = known_name(p, span, at, head);
    if (r != KT__SCAN_YES) return r;
    if (*at < span->n && span->s[*at] == ':') ++*at;
    while (*at < span->n && span->s[*at] >= '0' && span->s[*at] <= '9') ++*at;
    if (*at == span->n && !span->ended) return KT__SCAN_MORE;
    head->id = span->s + from;
    head->id_len = *at - from;
    return KT__SCAN_YES;
}

static kt__scan named_head(const kt__call_parser *p, const kt__span *span, size_t *at,
                           kt__call_head *head) {
    kt__scan r = KT__SCAN_YES;
    const kt__call_format *f = p->f;
    if (f->id_head) r = id_before(span, at, f->id_head, head);
    if (r == KT__SCAN_YES)
        r = f->id_rule == KT__ID_FUNCTIONS ? functions_name(p, span, at, head)
                                           : known_name(p, span, at, head);
    if (r != KT__SCAN_YES) return r;
    if (f->id_open) {
        r = kt__scan_literal(span, f->id_open, at);
        if (r == KT__SCAN_MORE) return r;
        if (r == KT__SCAN_YES) return id_before(span, at, f->name_end, head);
    }
    return kt__scan_literal(span, f->name_end, at);
}

/* A call without its section comes before what opens calls in free text has: the caller learns where its arguments begin. */
static kt__scan expect_loose(const kt__call_parser *p, size_t at, kt__call_head *head, kt__scan r) {
    head->expects = r == KT__SCAN_YES && p->f->section_loose && !head->section;
    head->expects_at = at;
    return r;
}

static kt__scan kind_head(const kt__call_parser *p, const kt__span *span, size_t *at,
                          kt__call_head *head) {
    kt__scan r;
    switch (p->f->kind) {
    case KT__CALLS_OBJECT: return object_or_tagged(p, span, at, head);
    case KT__CALLS_NAMED:
        head->next = KT__P_JSON;
        r = named_head(p, span, at, head);
        return expect_loose(p, *at, head, r);
    case KT__CALLS_TAGGED:
        head->next = KT__P_PARAMS;
        r = known_name(p, span, at, head);
        if (r == KT__SCAN_YES) r = kt__scan_literal(span, p->f->name_end, at);
        return expect_loose(p, *at, head, r);
    case KT__CALLS_PYTHON:
    case KT__CALLS_BARE:
        head->next = KT__P_LITERAL;
        r = kt__scan_blanks(span, at);
        if (r == KT__SCAN_YES) r = known_name(p, span, at, head);
        return r == KT__SCAN_YES ? scan_char(span, at, p->f->kind == KT__CALLS_PYTHON ? '(' : '{')
                                 : r;
    default: return KT__SCAN_NO;
    }
}

/* ---- what is before ---- */

/* Section and list, as far as the parser is not in them yet. */
static kt__scan section_head(const kt__call_parser *p, const kt__span *span, size_t *at,
                             kt__call_head *head) {
    const kt__call_format *f = p->f;
    kt__scan r = KT__SCAN_YES;
    head->section = p->in_section;
    head->list = p->in_list;
    if (p->in_list) return r;
    if (!p->in_section && f->section_open) {
        r = kt__scan_literal(span, f->section_open, at);
        if (r == KT__SCAN_MORE) return r;
        head->section = r == KT__SCAN_YES;
        if (head->section) head->marked = *at;
        if (r == KT__SCAN_NO && !f->section_loose) return r;
    }
    if (f->start_tag) {
        r = kt__scan_literal(span, f->start_tag, at);
        if (r == KT__SCAN_MORE) return r;
        head->tagged = r == KT__SCAN_YES;
        if (head->tagged && f->start_end &&
            kt__scan_literal(span, f->start_end, at) == KT__SCAN_MORE)
            return KT__SCAN_MORE;
        if (head->tagged) head->marked = *at;
    }
    if (!f->array && f->kind != KT__CALLS_PYTHON) return KT__SCAN_YES;
    head->list = true;
    return scan_char(span, at, '[');
}

/* Whether more than white space follows the markers, which any text may end with. */
static bool is_opened(const kt__span *span, size_t marked) {
    while (marked > 0 && marked < span->n && kt__is_blank(span->s[marked])) marked++;
    return marked > 0 && marked < span->n;
}

/* open, which the prompt may have written already. */
static kt__scan open_head(const kt__call_parser *p, const kt__span *span, size_t *at) {
    const char *open = p->f->open;
    bool given = p->open_given && p->n_calls == 0 && !p->seen_text && *at == 0;
    kt__scan r = kt__scan_literal(span, open, at);
    return r == KT__SCAN_NO && given ? KT__SCAN_YES : r;
}

kt__scan kt__p_head(const kt__call_parser *p, const kt__span *span, size_t at,
                    kt__call_head *head) {
    const size_t from = at;
    *head = (kt__call_head){0};
    kt__scan r = section_head(p, span, &at, head);
    const size_t open_from = at;
    if (r == KT__SCAN_YES) r = open_head(p, span, &at);
    if (p->f->open && at > open_from && !head->marked) head->marked = at;
    if (r == KT__SCAN_YES) r = kind_head(p, span, &at, head);
    head->opened = is_opened(span, head->marked);
    head->used = at;
    if (r == KT__SCAN_MORE && span->n - from > KT__CALL_HEAD_BYTES) return KT__SCAN_NO;
    return r == KT__SCAN_YES && at - from > KT__CALL_HEAD_BYTES ? KT__SCAN_NO : r;
}

/* ---- the call begins ---- */

void kt__p_begin(kt__call_parser *p, const kt__span *span, const kt__call_head *head) {
    if (head->expects) kt__p_expect_args(p, span, head);
    p->expected_given = false;
    p->foreign = head->foreign;
    if (head->format) p->f = head->format;
    kt__p_begin_tool(p, head->tool, head->id, head->id_len);
    p->in_section = head->section;
    p->in_list = head->list;
    if (head->args_to > head->args_from) {
        kt__p_send(p, KT__CALL_ARGS, span->s + head->args_from, head->args_to - head->args_from);
        p->args_begun = true;
    }
    if (head->next == KT__P_LITERAL)
        kt__literal_start(&p->literal, p->f->kind == KT__CALLS_BARE ? KT__LIT_BODY : KT__LIT_ARGS,
                          p->f->quote, &p->out);
    kt__p_consume(p, head->used);
    kt__p_go(p, head->next);
}
