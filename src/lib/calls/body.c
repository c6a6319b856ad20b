#include "base/text.h"
#include "calls/parser_impl.h"

/* The arguments cannot be read on: what is left is content. Those of a call of another spelling may
 * be whole. */
static kt__scan call_broken(kt__call_parser *p) {
    bool whole = p->foreign.on && p->state == KT__P_OBJECT && p->args_begun;
    kt__p_send_args(p);
    kt__p_end_call(p, whole);
    p->in_section = p->in_list = false;
    kt__p_resume(p);
    if (p->state == KT__P_HEADER) p->state = KT__P_CONTENT;
    return KT__SCAN_YES;
}

static kt__scan need_more(kt__call_parser *p) {
    return p->ended ? call_broken(p) : KT__SCAN_MORE;
}

/* White space that belongs to nothing: *at is after it. MORE: so far there is nothing else. */
static kt__scan skip_blanks(kt__call_parser *p, const kt__span *span, size_t *at) {
    kt__scan r = kt__scan_blanks(span, at);
    if (r == KT__SCAN_MORE) kt__p_consume(p, *at);
    return r;
}

static void empty_args(kt__call_parser *p) {
    if (!p->args_begun) kt__p_send(p, KT__CALL_ARGS, "{}", 2);
    p->args_begun = true;
}

/* ---- arguments as they are ---- */

static kt__scan args_whole(kt__call_parser *p) {
    kt__p_go(p, p->f->kind == KT__CALLS_OBJECT ? KT__P_OBJECT : KT__P_CLOSE);
    return KT__SCAN_YES;
}

/* The first byte of the arguments: an object, or null for none. */
static kt__scan json_begin(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = 0;
    if (skip_blanks(p, &span, &at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    size_t null_end = at;
    kt__scan r = kt__scan_exact(&span, "null", &null_end);
    if (r == KT__SCAN_MORE) return r;
    if (r == KT__SCAN_YES) {
        empty_args(p);
        kt__p_consume(p, null_end);
        return args_whole(p);
    }
    if (at == span.n || span.s[at] != '{') return call_broken(p);
    kt__p_consume(p, at);
    p->args_begun = true;
    return KT__SCAN_YES;
}

static kt__scan json_step(kt__call_parser *p) {
    if (!p->args_begun) return json_begin(p);
    const kt__span span = kt__p_span(p);
    size_t at = p->scanned;
    kt__scan r = KT__SCAN_MORE;
    while (at < span.n && r == KT__SCAN_MORE) r = kt__jscan_byte(&p->json, span.s[at++]);
    if (r == KT__SCAN_NO) at--;
    size_t n = at, tail = 0;
    if (r == KT__SCAN_MORE && !span.ended) tail = kt__utf8_incomplete_tail(span.s, n);
    kt__p_send(p, KT__CALL_ARGS, span.s, n - tail);
    kt__p_consume(p, n - tail);
    p->scanned = tail;
    if (r == KT__SCAN_YES) return args_whole(p);
    return r == KT__SCAN_NO ? call_broken(p) : need_more(p);
}

/* ---- the object that is the call ---- */

static kt__scan object_end(kt__call_parser *p, size_t used) {
    empty_args(p);
    kt__p_consume(p, used);
    kt__p_go(p, KT__P_CLOSE);
    return KT__SCAN_YES;
}

/* A member that is not the arguments. */
static kt__scan object_other(kt__call_parser *p, const kt__span *span, size_t at, bool is_id) {
    size_t from = at;
    kt__scan r = kt__jscan_value(span, &at);
    if (r == KT__SCAN_MORE && span->n - from < KT__CALL_HEAD_BYTES) return r;
    if (r != KT__SCAN_YES) return call_broken(p);
    size_t n = at - from - 2;
    if (is_id && span->s[from] == '"' && n < sizeof p->id && !memchr(span->s + from, '\\', n + 2)) {
        memcpy(p->id, span->s + from + 1, n);
        p->id[n] = '\0';
        p->late_id = true;
    }
    kt__p_consume(p, at);
    return KT__SCAN_YES;
}

static kt__scan object_member(kt__call_parser *p, const kt__span *span, size_t at) {
    size_t from, to;
    kt__scan r = kt__p_string(span, &at, &from, &to);
    if (r == KT__SCAN_YES) r = kt__scan_literal(span, " : ", &at);
    if (r == KT__SCAN_MORE && span->n < KT__CALL_HEAD_BYTES) return r;
    if (r != KT__SCAN_YES || at == span->n) return call_broken(p);
    const char *key = span->s + from;
    size_t len = to - from, id = p->f->id_key ? strlen(p->f->id_key) : 0;
    if (p->args_begun || !kt__p_is_args_key(p->f, key, len))
        return object_other(p, span, at, id > 0 && id == len && !memcmp(key, p->f->id_key, len));
    kt__p_consume(p, at);
    kt__p_go(p, KT__P_JSON);
    return KT__SCAN_YES;
}

static kt__scan object_step(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = 0;
    if (skip_blanks(p, &span, &at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    if (at == span.n && p->args_begun) return object_end(p, at);
    if (at == span.n) return call_broken(p);
    if (span.s[at] == '}') return object_end(p, at + 1);
    if (span.s[at] == ',') {
        kt__p_consume(p, at + 1);
        return KT__SCAN_YES;
    }
    return span.s[at] == '"' ? object_member(p, &span, at) : call_broken(p);
}

/* ---- Python's and Gemma's ---- */

static kt__scan literal_step_in_call(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = 0;
    kt__scan r = kt__literal_read(&p->literal, &span, &at, &p->out);
    kt__p_send_args(p);
    kt__p_consume(p, at);
    if (r == KT__SCAN_NO) return call_broken(p);
    if (r == KT__SCAN_MORE) return need_more(p);
    kt__p_go(p, KT__P_CLOSE);
    return r;
}

/* ---- after the arguments ---- */

static kt__scan close_step(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = 0;
    if (p->f->close) {
        if (skip_blanks(p, &span, &at) == KT__SCAN_MORE) return KT__SCAN_MORE;
        kt__scan r = kt__scan_literal(&span, p->f->close, &at);
        if (r == KT__SCAN_MORE) return r;
        if (r == KT__SCAN_NO) at = 0;
    }
    kt__p_end_call(p, true);
    kt__p_consume(p, at);
    kt__p_go(p, KT__P_BETWEEN);
    return KT__SCAN_YES;
}

/* The list or the section ends here, or continues. YES: read. */
static kt__scan section_step(kt__call_parser *p, const kt__span *span, size_t *at) {
    if (p->in_list) {
        if (*at < span->n && span->s[*at] == ']') {
            p->in_list = false;
            p->in_section = p->in_section && p->f->section_close;
            ++*at;
            return KT__SCAN_YES;
        }
        if (*at < span->n && span->s[*at] == ',') ++*at;
        return KT__SCAN_NO;
    }
    if (!p->in_section || !p->f->section_close) return KT__SCAN_NO;
    size_t end = *at;
    const char *close = p->f->section_close;
    while (kt__is_blank(*close)) close++;
    kt__scan r = kt__scan_literal(span, close, &end);
    if (r == KT__SCAN_YES) {
        p->in_section = false;
        *at = end;
    }
    return r;
}

static kt__scan leave_calls(kt__call_parser *p) {
    p->in_section = p->in_list = false;
    kt__p_resume(p);
    return KT__SCAN_YES;
}

static kt__scan between_step(kt__call_parser *p) {
    if (p->foreign.on) return kt__p_foreign_between(p);
    const kt__span span = kt__p_span(p);
    kt__call_head head;
    size_t at = 0;
    if (skip_blanks(p, &span, &at) == KT__SCAN_MORE) return KT__SCAN_MORE;
    kt__scan r = section_step(p, &span, &at);
    if (r == KT__SCAN_MORE) return r;
    if (r == KT__SCAN_YES) {
        kt__p_consume(p, at);
        return p->in_section ? r : leave_calls(p);
    }
    bool within = p->in_section || p->in_list;
    if (!within || !kt__p_calls_on(p)) return leave_calls(p);
    if (kt__scan_blanks(&span, &at) == KT__SCAN_MORE && at < KT__CALL_HEAD_BYTES)
        return KT__SCAN_MORE;
    r = kt__p_head(p, &span, at, &head);
    if (r == KT__SCAN_MORE) return r;
    if (r == KT__SCAN_NO) return leave_calls(p);
    kt__p_begin(p, &span, &head);
    return r;
}

kt__scan kt__p_call_step(kt__call_parser *p) {
    switch (p->state) {
    case KT__P_JSON: return json_step(p);
    case KT__P_OBJECT: return object_step(p);
    case KT__P_PARAMS: return kt__p_params_step(p);
    case KT__P_VALUE: return kt__p_value_step(p);
    case KT__P_LITERAL: return literal_step_in_call(p);
    case KT__P_CLOSE: return close_step(p);
    case KT__P_BETWEEN: return between_step(p);
    default: return KT__SCAN_MORE;
    }
}
