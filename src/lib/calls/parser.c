#include "calls/calls.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "calls/parser_impl.h"

/* Blanks at the beginning of a line before which a call of another spelling may begin; more are
 * code in Markdown. */
enum { MOST_INDENT = 3 };

/* ---- reasoning ---- */

static bool keeps_reasoning(const kt__call_parser *p) {
    return p->options.reasoning == KT__REASON_KEEP;
}

/* Reasoning: without blanks at its beginning; those at its end were held back. */
static void put_reasoning(kt__call_parser *p, const char *s, size_t n) {
    if (keeps_reasoning(p)) {
        p->seen_text = true;
        kt__p_send(p, KT__CALL_CONTENT, s, n);
        return;
    }
    size_t blanks = p->reasoned ? 0 : kt__blanks_at_start(s, n);
    if (blanks < n) p->reasoned = true;
    kt__p_send(p, KT__CALL_REASONING, s + blanks, n - blanks);
}

/* ---- markers within content ---- */

typedef enum marker_kind {
    MARKER_CALL,
    MARKER_OPEN, /* of reasoning */
    MARKER_DROP
} marker_kind;

typedef struct answer_marker {
    marker_kind kind;
    size_t used;
    kt__call_head head;
} answer_marker;

static kt__scan one_marker(const kt__span *span, size_t at, const char *literal, marker_kind kind,
                           answer_marker *out) {
    size_t end = at;
    if (!literal || !literal[0]) return KT__SCAN_NO;
    kt__scan r = kt__scan_literal(span, literal, &end);
    if (r == KT__SCAN_YES) *out = (answer_marker){.kind = kind, .used = end - at};
    return r;
}

/* What closes a call or a section, once more after a call. */
static kt__scan stray_close(const kt__call_parser *p, const kt__span *span, size_t at,
                            answer_marker *out) {
    const char *literals[] = {p->f->close, p->f->section_close};
    for (int i = 0; i < 2; i++) {
        const char *l = literals[i];
        while (l && kt__is_blank(*l)) l++;
        if (!l || strlen(l) < 6) continue;
        kt__scan r = one_marker(span, at, l, MARKER_DROP, out);
        if (r != KT__SCAN_NO) return r;
    }
    return KT__SCAN_NO;
}

/* What names the answer itself where a call's name could be. */
static kt__scan answer_name(const kt__call_parser *p, const kt__span *span, size_t at,
                            answer_marker *out) {
    bool given = p->open_given && p->n_calls == 0 && !p->seen_text && at == 0;
    size_t end = at;
    if (!p->f->answer_name) return KT__SCAN_NO;
    kt__scan r = kt__scan_exact(span, p->f->open, &end);
    if (r == KT__SCAN_NO && given) r = KT__SCAN_YES;
    if (r == KT__SCAN_YES) r = kt__scan_exact(span, p->f->answer_name, &end);
    if (r == KT__SCAN_YES) r = kt__scan_exact(span, p->f->name_end, &end);
    if (r == KT__SCAN_YES) *out = (answer_marker){.kind = MARKER_DROP, .used = end - at};
    return r;
}

/* Reasoning's markers, where the content begins or anywhere. */
static kt__scan reason_marker(const kt__call_parser *p, const kt__span *span, size_t at, bool start,
                              answer_marker *out) {
    kt__scan r = KT__SCAN_NO;
    if (!start && !p->r->anywhere) return r;
    r = one_marker(span, at, p->r->open, MARKER_OPEN, out);
    if (r == KT__SCAN_NO && !keeps_reasoning(p))
        r = one_marker(span, at, p->r->close, MARKER_DROP, out);
    return r;
}

/* A call of another spelling, where a line begins. */
static kt__scan foreign_marker(kt__call_parser *p, const kt__span *span, size_t at, bool start,
                               answer_marker *out) {
    kt__p_line_to(p, span, at);
    const kt__line *line = &p->line;
    if (line->mid || line->ticks || line->fenced) return KT__SCAN_NO;
    if (line->blanks > MOST_INDENT && !start) return KT__SCAN_NO;
    kt__scan r = kt__p_foreign_head(p, span, at, &out->head);
    if (r == KT__SCAN_NO) out->head = (kt__call_head){0};
    out->kind = MARKER_CALL;
    out->used = out->head.used;
    return r;
}

/* The marker at `at`, which the first that fits decides. */
static kt__scan content_marker(kt__call_parser *p, const kt__span *span, size_t at,
                               answer_marker *out) {
    bool start = !p->seen_text && at == p->blanks;
    kt__scan r = KT__SCAN_NO;
    if (kt__p_calls_on(p) && (start || !p->f->at_start)) {
        r = kt__p_head(p, span, at, &out->head);
        out->kind = MARKER_CALL;
        out->used = out->head.used;
    }
    if (r == KT__SCAN_NO && p->options.any_spelling && kt__p_calls_on(p))
        r = foreign_marker(p, span, at, start, out);
    if (r == KT__SCAN_NO) r = reason_marker(p, span, at, start, out);
    if (r == KT__SCAN_NO) r = answer_name(p, span, at, out);
    for (int i = 0; r == KT__SCAN_NO && i < KT__REASON_DROPS && p->r->drop[i]; i++)
        r = one_marker(span, at, p->r->drop[i], MARKER_DROP, out);
    if (r == KT__SCAN_NO && p->n_calls > 0) r = stray_close(p, span, at, out);
    return r;
}

/* Blanks at the end of content that may be before a call. */
static size_t held_blanks(const kt__call_parser *p, const char *s, size_t n) {
    size_t blanks = 0, lead = p->f->lead ? strlen(p->f->lead) : 0;
    if (p->ended) return 0;
    if (!p->seen_text && p->blanks >= n) return n;
    while (blanks < lead && blanks < n && kt__is_blank(s[n - 1 - blanks])) blanks++;
    return blanks;
}

static void content_before_call(kt__call_parser *p, const char *s, size_t n) {
    size_t lead = p->f->lead ? strlen(p->f->lead) : 0;
    if (!p->seen_text && kt__blanks_at_start(s, n) == n) return;
    if (lead <= n && lead > 0 && memcmp(s + n - lead, p->f->lead, lead) == 0) n -= lead;
    kt__p_content(p, s, n);
}

static void begin_reasoning(kt__call_parser *p) {
    kt__p_go(p, KT__P_REASONING);
}

static void take_marker(kt__call_parser *p, const kt__span *span, size_t at,
                        const answer_marker *m) {
    if (m->kind == MARKER_CALL) {
        content_before_call(p, span->s, at);
        kt__p_begin(p, span, &m->head);
        return;
    }
    bool blank = !p->seen_text && kt__blanks_at_start(span->s, at) == at;
    if (!blank || keeps_reasoning(p)) kt__p_content(p, span->s, at);
    if (m->kind == MARKER_OPEN) {
        bool text = p->r->open_is_text || keeps_reasoning(p);
        if (text) put_reasoning(p, span->s + at, m->used);
        begin_reasoning(p);
    }
    kt__p_line_to(p, span, at + m->used);
    kt__p_consume(p, at + m->used);
}

static void count_blanks(kt__call_parser *p, const kt__span *span) {
    while (p->blanks < span->n && kt__is_blank(span->s[p->blanks])) p->blanks++;
}

typedef kt__scan marker_fn(kt__call_parser *p, const kt__span *span, size_t at, answer_marker *out);

/* From *at on: YES: a marker is there; else there is none before *at, where one may begin. *solid:
 * after the last byte that is neither white space nor a marker's. */
static kt__scan find_marker(kt__call_parser *p, const kt__span *span, marker_fn *marker, size_t *at,
                            size_t *solid, answer_marker *out) {
    for (; *at < span->n; ++*at) {
        if (kt__is_blank(span->s[*at])) continue;
        kt__scan r = marker(p, span, *at, out);
        if (r != KT__SCAN_NO) return r;
        *solid = *at + 1;
    }
    return KT__SCAN_NO;
}

static kt__scan content_step(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = p->scanned, solid;
    answer_marker m = {0};
    count_blanks(p, &span);
    if (find_marker(p, &span, content_marker, &at, &solid, &m) == KT__SCAN_YES) {
        take_marker(p, &span, at, &m);
        return KT__SCAN_YES;
    }
    if (m.head.expects && at < span.n)
        kt__p_expect_args(p, &span, &m.head);
    else
        p->expected_given = false;
    size_t n = at - held_blanks(p, span.s, at);
    if (at == span.n && !p->ended) n -= kt__utf8_incomplete_tail(span.s, n);
    p->scanned = at;
    if (n == 0) return KT__SCAN_MORE;
    kt__p_content(p, span.s, n);
    kt__p_line_to(p, &span, n);
    kt__p_consume(p, n);
    p->scanned = at - n;
    return KT__SCAN_MORE;
}

/* Where reasoning ends, or a call begins within it. */
static kt__scan reasoning_marker(kt__call_parser *p, const kt__span *span, size_t at,
                                 answer_marker *out) {
    kt__scan r = one_marker(span, at, p->r->close, MARKER_DROP, out);
    for (int i = 0; r == KT__SCAN_NO && i < KT__REASON_ENDS; i++)
        r = one_marker(span, at, p->r->ends[i], MARKER_DROP, out);
    if (r == KT__SCAN_NO && !p->reasoned && !keeps_reasoning(p) && at == p->blanks &&
        !p->r->open_is_text)
        r = one_marker(span, at, p->r->open, MARKER_OPEN, out);
    if (r != KT__SCAN_NO || p->r->blind || !kt__p_calls_on(p)) return r;
    r = kt__p_head(p, span, at, &out->head);
    if (r == KT__SCAN_YES) *out = (answer_marker){MARKER_CALL, out->head.used, out->head};
    return r;
}

static void end_reasoning(kt__call_parser *p) {
    p->cut = !keeps_reasoning(p);
    p->seen_text = !p->cut;
    p->line = (kt__line){0};
    p->line_at = 0;
    kt__p_go(p, KT__P_CONTENT);
}

static void take_reasoning_marker(kt__call_parser *p, const kt__span *span, size_t at,
                                  const answer_marker *m) {
    size_t blanks = keeps_reasoning(p) ? 0 : kt__blanks_at_end(span->s, at);
    put_reasoning(p, span->s, at - blanks);
    if (m->kind == MARKER_OPEN) {
        kt__p_consume(p, at + m->used);
        return;
    }
    end_reasoning(p);
    if (m->kind == MARKER_CALL) {
        kt__p_begin(p, span, &m->head);
        return;
    }
    if (keeps_reasoning(p)) put_reasoning(p, span->s + at, m->used);
    kt__p_consume(p, at + m->used);
}

static kt__scan reasoning_step(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = p->scanned;
    answer_marker m;
    count_blanks(p, &span);
    if (find_marker(p, &span, reasoning_marker, &at, &p->solid, &m) == KT__SCAN_YES) {
        take_reasoning_marker(p, &span, at, &m);
        return KT__SCAN_YES;
    }
    size_t n = keeps_reasoning(p) ? at : p->solid;
    if (n == span.n && !p->ended) n -= kt__utf8_incomplete_tail(span.s, n);
    p->scanned = at;
    if (n == 0) return KT__SCAN_MORE;
    size_t solid = p->solid > n ? p->solid - n : 0;
    put_reasoning(p, span.s, n);
    kt__p_consume(p, n);
    p->scanned = at - n;
    p->solid = solid;
    return KT__SCAN_MORE;
}

/* ---- the parser ---- */

static kt__scan parser_step(kt__call_parser *p) {
    switch (p->state) {
    case KT__P_CONTENT: return content_step(p);
    case KT__P_REASONING: return reasoning_step(p);
    case KT__P_HEADER: return kt__p_header_step(p);
    case KT__P_MESSAGE: return kt__p_message_step(p);
    default: return kt__p_call_step(p);
    }
}

static kt_status run_parser(kt__call_parser *p, kt_error *err) {
    while (!p->no_memory && parser_step(p) == KT__SCAN_YES) continue;
    if (p->no_memory) return kt__fail_nomem(err, "an answer's calls", p->text.len);
    if (p->at > 4096 && p->at > p->text.len / 2) {
        p->text.len -= p->at;
        memmove(p->text.data, p->text.data + p->at, p->text.len);
        p->at = 0;
    }
    if (p->text.len - p->at > KT__CALL_HELD_BYTES)
        return kt__fail(err, KT_E_LIMIT, "over %d MiB of a call without its end",
                        KT__CALL_HELD_BYTES >> 20);
    return KT_OK;
}

kt_status kt__call_feed(kt__call_parser *p, const char *bytes, size_t len, kt_error *err) {
    if (!kt__buf_append(&p->text, bytes, len))
        return kt__fail(err, KT_E_LIMIT, "over %d MiB of a call without its end",
                        KT__CALL_HELD_BYTES >> 20);
    return run_parser(p, err);
}

/* ---- the end ---- */

/* Whether the text at `at` is a part of a call that nothing can complete any more: its marker is
 * whole, or a marker begins right after a call. */
static bool is_cut_call(kt__call_parser *p, const kt__span *span, size_t at) {
    answer_marker m = {0};
    bool content = p->state == KT__P_CONTENT;
    if ((content ? content_marker : reasoning_marker)(p, span, at, &m) != KT__SCAN_MORE)
        return false;
    return m.head.opened || (content && p->n_calls > 0 && !p->seen_text);
}

/* What a call's text leaves where the answer is cut off is no text of the answer. The span is that
 * of an answer which continues: what may still become a call is found as such. */
static void drop_cut_call(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = p->scanned;
    if (at >= span.n || !is_cut_call(p, &span, at)) return;
    if (p->state == KT__P_CONTENT) {
        content_before_call(p, span.s, at);
        kt__p_consume(p, at);
        at = 0;
    }
    p->text.len = p->at + at;
}

/* What is left where the answer ended within something. */
static void flush_parser(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    if (p->state == KT__P_MESSAGE) kt__p_message_end(p);
    if (p->state == KT__P_CONTENT || p->state == KT__P_HEADER) kt__p_content(p, span.s, span.n);
    if (p->state == KT__P_REASONING && keeps_reasoning(p)) put_reasoning(p, span.s, span.n);
    p->at = p->text.len;
    kt__p_content_end(p);
}

/* The call under way ends; what is left of its text is dropped. */
static kt_status end_cut_call(kt__call_parser *p, kt_error *err) {
    while (p->state >= KT__P_JSON && p->state <= KT__P_BETWEEN && !p->no_memory &&
           parser_step(p) == KT__SCAN_YES)
        continue;
    p->text.len = p->at;
    return p->no_memory ? kt__fail_nomem(err, "an answer's calls", p->text.len) : KT_OK;
}

kt_status kt__call_finish(kt__call_parser *p, kt_error *err) {
    bool in_call = p->state >= KT__P_JSON && p->state <= KT__P_BETWEEN;
    if (p->ended) return KT_OK;
    if (p->state == KT__P_CONTENT || p->state == KT__P_REASONING) drop_cut_call(p);
    if (p->state == KT__P_HEADER && kt__p_header_cut(p)) p->text.len = p->at;
    p->ended = true;
    kt_status status = in_call ? end_cut_call(p, err) : run_parser(p, err);
    if (status == KT_OK) flush_parser(p);
    return status;
}

uint32_t kt__call_count(const kt__call_parser *p) {
    return p->n_calls;
}

bool kt__call_in_reasoning(const kt__call_parser *p) {
    return p->state == KT__P_REASONING ||
           (p->state == KT__P_MESSAGE && p->message == KT__CALL_REASONING);
}

/* ---- where the prompt left off ---- */

/* After the last occurrence of a marker, blanks at its end left out; 0: none. */
static size_t last_marker(const char *s, size_t n, const char *marker, size_t *from) {
    size_t len = marker ? strlen(marker) : 0;
    while (len > 0 && kt__is_blank(marker[len - 1])) len--;
    for (size_t at = n; len > 0 && len <= n && at >= len; at--)
        if (memcmp(s + at - len, marker, len) == 0) {
            *from = at - len;
            return at;
        }
    return 0;
}

static kt_status read_tail(kt__call_parser *p, const char *s, size_t n, kt_error *err) {
    size_t open_from = 0, close_from = 0;
    size_t opened = last_marker(s, n, p->r->open, &open_from);
    size_t closed = last_marker(s, n, p->r->close, &close_from);
    size_t call = p->f->open ? strlen(p->f->open) : 0;
    p->open_given = call > 0 && call <= n && memcmp(s + n - call, p->f->open, call) == 0;
    p->cut = closed > 0;
    if (opened == 0 || closed > opened) return KT_OK;
    size_t from = keeps_reasoning(p) || p->r->open_is_text ? open_from : opened;
    p->cut = false;
    p->state = KT__P_REASONING;
    return kt__buf_append(&p->text, s + from, n - from) ? KT_OK
                                                        : kt__fail_nomem(err, "a parser", n - from);
}

static void init_buffers(kt__call_parser *p) {
    kt__buf_init(&p->text, 2 * KT__CALL_HELD_BYTES);
    kt__buf_init(&p->out, 8 * (size_t)KT__CALL_HELD_BYTES);
    kt__buf_init(&p->filter.held, 2 * KT__CALL_HELD_BYTES);
    kt__buf_init(&p->key, KT__CALL_HEAD_BYTES + 1);
    kt__buf_init(&p->stop, 2 * KT__CALL_HEAD_BYTES);
    kt__buf_init(&p->expected, 2 * KT__CALL_HELD_BYTES);
}

kt_status kt__call_parser_create(const kt__call_style *style, const kt__call_options *options,
                                 kt__call_sink sink, void *ctx, kt__call_parser **out,
                                 kt_error *err) {
    kt__call_parser *p = kt__calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return kt__fail_nomem(err, "a parser of calls", sizeof *p);
    init_buffers(p);
    p->style = *style;
    p->f = p->home = style->calls;
    p->r = style->reasoning;
    p->options = *options;
    p->tools = options->tools;
    p->sink = sink;
    p->ctx = ctx;
    p->state = p->f->kind == KT__CALLS_HARMONY ? KT__P_HEADER : KT__P_CONTENT;
    kt_status status = read_tail(p, options->prompt_tail, options->prompt_tail_len, err);
    p->options.prompt_tail = NULL;
    if (status == KT_OK)
        *out = p;
    else
        kt__call_parser_free(p);
    return status;
}

void kt__call_parser_free(kt__call_parser *p) {
    if (!p) return;
    kt__buf_free(&p->text);
    kt__buf_free(&p->out);
    kt__buf_free(&p->filter.held);
    kt__buf_free(&p->key);
    kt__buf_free(&p->stop);
    kt__buf_free(&p->expected);
    kt__free(p);
}
