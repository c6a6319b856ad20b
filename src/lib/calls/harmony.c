/* Messages with a channel and a recipient in their header. */
#include "base/text.h"
#include "calls/parser_impl.h"

enum { MAX_HEADER = 1024 };

static const char message_mark[] = "<|message|>";
static const char *const end_marks[] = {"<|end|>", "<|return|>", "<|call|>", "<|start|>"};
enum { N_ENDS = 4 };

/* ---- headers ---- */

/* Whether a header may begin here. */
static kt__scan header_begins(const kt__span *span) {
    static const char *const starts[] = {"<|channel|>", "<|start|>",  "<|constrain|>",
                                         " to=",        "to=",        "<|message|>",
                                         "<|end|>",     "<|return|>", "<|call|>"};
    kt__scan all = KT__SCAN_NO;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t at = 0;
        kt__scan r = kt__scan_exact(span, starts[i], &at);
        if (r > all) all = r;
    }
    return all;
}

static const char *find_in(const char *s, size_t n, const char *word) {
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= n; i++)
        if (memcmp(s + i, word, len) == 0) return s + i;
    return NULL;
}

/* The word after the last occurrence of `mark` in a header; "" where there is none. */
static kt__span last_word(const char *s, size_t n, const char *mark, const char *except) {
    kt__span word = {"", 0, true};
    for (const char *hit = s; (hit = find_in(hit, n - (size_t)(hit - s), mark));) {
        hit += strlen(mark);
        size_t left = n - (size_t)(hit - s), len = 0;
        while (len < left && !kt__is_blank(hit[len]) && hit[len] != '<') len++;
        bool excepted = except && strlen(except) == len && memcmp(hit, except, len) == 0;
        if (!excepted) word = (kt__span){hit, len, true};
    }
    return word;
}

static bool word_is(const kt__span *word, const char *text) {
    return word->n == strlen(text) && memcmp(word->s, text, word->n) == 0;
}

/* The tool that a recipient names, or UINT32_MAX. */
static uint32_t recipient_tool(const kt__call_parser *p, const kt__span *to) {
    static const char prefix[] = "functions.";
    size_t skip = sizeof prefix - 1;
    if (!kt__p_calls_on(p)) return UINT32_MAX;
    if (to->n <= skip || memcmp(to->s, prefix, skip) != 0)
        return kt__tools_find(p->tools, to->s, to->n);
    return kt__tools_find(p->tools, to->s + skip, to->n - skip);
}

static void begin_message(kt__call_parser *p, const kt__span *span, size_t header, size_t used) {
    const kt__span to = last_word(span->s, header, "to=", "assistant");
    const kt__span channel = last_word(span->s, header, "<|channel|>", NULL);
    bool functions = to.n > 10 && memcmp(to.s, "functions.", 10) == 0;
    uint32_t tool = recipient_tool(p, &to);
    p->message = KT__CALL_CONTENT;
    if (to.n > 0 && tool != UINT32_MAX) {
        kt__p_begin_tool(p, tool, NULL, 0);
        kt__p_consume(p, used);
        kt__p_go(p, KT__P_JSON);
        return;
    }
    if (to.n > 0 && functions)
        kt__p_content(p, span->s, used);
    else if (to.n > 0)
        p->message = KT__CALL_ASIDE;
    else if (word_is(&channel, "analysis"))
        p->message = KT__CALL_REASONING;
    if (p->message == KT__CALL_REASONING && p->options.reasoning == KT__REASON_KEEP)
        kt__p_content(p, span->s, used);
    kt__p_consume(p, used);
    kt__p_go(p, KT__P_MESSAGE);
}

/* An end that is where a header could begin. */
static bool skip_ends(kt__call_parser *p, const kt__span *span) {
    for (int i = 0; i < N_ENDS - 1; i++) {
        size_t at = 0;
        if (kt__scan_exact(span, end_marks[i], &at) != KT__SCAN_YES) continue;
        kt__p_consume(p, at);
        return true;
    }
    return false;
}

bool kt__p_header_cut(const kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    bool marked = span.n > 1 && span.s[0] == '<' && span.s[1] == '|';
    kt__scan r = span.n > 0 ? header_begins(&span) : KT__SCAN_NO;
    return r == KT__SCAN_YES ? marked : r == KT__SCAN_MORE && p->n_calls > 0;
}

kt__scan kt__p_header_step(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t n = span.n < MAX_HEADER ? span.n : MAX_HEADER;
    if (span.n == 0) return KT__SCAN_MORE;
    kt__scan r = header_begins(&span);
    if (r == KT__SCAN_MORE && !span.ended) return r;
    if (r == KT__SCAN_YES && skip_ends(p, &span)) return r;
    const char *mark = r == KT__SCAN_YES ? find_in(span.s, n, message_mark) : NULL;
    if (mark) {
        size_t header = (size_t)(mark - span.s);
        begin_message(p, &span, header, header + sizeof message_mark - 1);
        return KT__SCAN_YES;
    }
    if (r == KT__SCAN_YES && !span.ended && span.n < MAX_HEADER) return KT__SCAN_MORE;
    p->message = KT__CALL_CONTENT; /* no header: all of it is text */
    kt__p_go(p, KT__P_MESSAGE);
    p->scanned = 1; /* what looked like a header does not end this message */
    return KT__SCAN_YES;
}

/* ---- messages ---- */

static void put_message(kt__call_parser *p, const char *s, size_t n) {
    bool keep = p->options.reasoning == KT__REASON_KEEP;
    if (p->message == KT__CALL_CONTENT || (p->message == KT__CALL_REASONING && keep)) {
        p->cut = false;
        kt__p_content(p, s, n);
    } else {
        kt__p_send(p, p->message, s, n);
    }
}

void kt__p_message_end(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    put_message(p, span.s, span.n);
    kt__p_consume(p, span.n);
}

/* The mark that ends a message, at `at`. */
static kt__scan message_ends(const kt__span *span, size_t at, int *which, size_t *used) {
    kt__scan all = KT__SCAN_NO;
    for (int i = 0; i < N_ENDS; i++) {
        size_t end = at;
        kt__scan r = kt__scan_exact(span, end_marks[i], &end);
        if (r == KT__SCAN_YES) {
            *which = i;
            *used = end - at;
            return r;
        }
        if (r > all) all = r;
    }
    return all;
}

static kt__scan end_message(kt__call_parser *p, const kt__span *span, size_t at, int which,
                            size_t used) {
    bool kept = p->message == KT__CALL_REASONING && p->options.reasoning == KT__REASON_KEEP;
    put_message(p, span->s, kept && which < N_ENDS - 1 ? at + used : at);
    kt__p_consume(p, at + (which < N_ENDS - 1 ? used : 0));
    kt__p_go(p, KT__P_HEADER);
    return KT__SCAN_YES;
}

kt__scan kt__p_message_step(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = p->scanned, used = 0;
    kt__scan r = KT__SCAN_NO;
    for (; at < span.n; at++) {
        int which = 0;
        if (span.s[at] != '<') continue;
        r = message_ends(&span, at, &which, &used);
        if (r == KT__SCAN_YES) return end_message(p, &span, at, which, used);
        if (r == KT__SCAN_MORE) break;
    }
    size_t n = at;
    if (at == span.n && !p->ended) n -= kt__utf8_incomplete_tail(span.s, n);
    put_message(p, span.s, n);
    kt__p_consume(p, n);
    p->scanned = at - n;
    return KT__SCAN_MORE;
}
