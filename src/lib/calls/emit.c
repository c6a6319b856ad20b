#include <stdio.h>

#include "base/hash.h"
#include "calls/parser_impl.h"

/* ---- events ---- */

void kt__p_send(kt__call_parser *p, kt__call_event_kind kind, const char *s, size_t n) {
    if (n == 0) return;
    const kt__call_event event = {
        .kind = kind, .text = s, .len = n, .index = p->n_calls > 0 ? p->n_calls - 1 : 0};
    p->sink(p->ctx, &event);
}

void kt__p_send_args(kt__call_parser *p) {
    if (p->out.failed) p->no_memory = true;
    kt__p_send(p, KT__CALL_ARGS, p->out.data, p->out.len);
    kt__buf_clear(&p->out);
}

/* ---- content that is to be JSON ---- */

/* How much of held text, from its end, may be white space or the fence that ends the JSON. */
static size_t fence_tail(const char *s, size_t n, bool fenced) {
    size_t i = n;
    while (i > 0 && kt__is_blank(s[i - 1])) i--;
    for (int ticks = 0; fenced && ticks < 3 && i > 0 && s[i - 1] == '`'; ticks++) i--;
    while (i > 0 && kt__is_blank(s[i - 1])) i--;
    return n - i;
}

/* Leaves out white space and the line that opens a fence. MORE: it may still be one. */
static kt__scan skip_fence(kt__call_parser *p, size_t *skip) {
    kt__json_filter *j = &p->filter;
    const kt__span span = {j->held.data, j->held.len, p->ended};
    size_t at = 0;
    while (at < span.n && kt__is_blank(span.s[at])) at++;
    *skip = at;
    if (at == span.n) return KT__SCAN_MORE;
    kt__scan r = kt__scan_exact(&span, "```", &at);
    if (r != KT__SCAN_YES) return r == KT__SCAN_MORE ? r : KT__SCAN_YES;
    const char *line = memchr(span.s + at, '\n', span.n - at);
    if (!line) return p->ended ? KT__SCAN_YES : KT__SCAN_MORE;
    j->fenced = true;
    *skip = (size_t)(line - span.s) + 1;
    while (*skip < span.n && kt__is_blank(span.s[*skip])) ++*skip;
    return *skip < span.n ? KT__SCAN_YES : KT__SCAN_MORE;
}

static void drop_held(kt__buf *held, size_t n) {
    memmove(held->data, held->data + n, held->len - n);
    held->len -= n;
}

static void filter_json(kt__call_parser *p, const char *s, size_t n) {
    kt__json_filter *j = &p->filter;
    size_t skip = 0;
    if (!kt__buf_append(&j->held, s, n)) p->no_memory = true;
    if (!j->begun) {
        if (skip_fence(p, &skip) == KT__SCAN_MORE) return;
        j->begun = true;
        drop_held(&j->held, skip);
    }
    size_t keep = fence_tail(j->held.data, j->held.len, j->fenced);
    size_t send = j->held.len - keep;
    kt__p_send(p, KT__CALL_CONTENT, j->held.data, send);
    drop_held(&j->held, send);
}

void kt__p_content(kt__call_parser *p, const char *s, size_t n) {
    size_t blanks = kt__blanks_at_start(s, n);
    bool has_text = blanks < n;
    if (!p->seen_text && p->cut) {
        if (p->r->blanks_after && p->reasoned && p->n_calls == 0)
            kt__p_send(p, KT__CALL_REASONING, s, blanks);
        s += blanks;
        n -= blanks;
    }
    if (has_text) p->seen_text = true;
    if (p->options.json_content && n > 0)
        filter_json(p, s, n);
    else
        kt__p_send(p, KT__CALL_CONTENT, s, n);
}

void kt__p_content_end(kt__call_parser *p) {
    kt__buf *held = &p->filter.held;
    held->len -= fence_tail(held->data, held->len, p->filter.fenced);
    kt__p_send(p, KT__CALL_CONTENT, held->data, held->len);
    held->len = 0;
}

/* ---- calls ---- */

static void made_id(kt__call_parser *p, const char *name) {
    static const char alnum[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const uint64_t key[2] = {p->options.id_seed, p->n_calls};
    kt__digest h = kt__hash_bytes(0, key, sizeof key);
    if (p->home->id_rule == KT__ID_FUNCTIONS) {
        snprintf(p->id, sizeof p->id, "functions.%s:%u", name, p->n_calls);
        return;
    }
    if (p->home->id_rule != KT__ID_ALNUM_9) {
        snprintf(p->id, sizeof p->id, "call_%016llx%08x", (unsigned long long)h.w[0],
                 (unsigned)(h.w[1] & 0xffffffffu));
        return;
    }
    for (int i = 0; i < 9; i++, h.w[0] /= 62) p->id[i] = alnum[h.w[0] % 62];
    p->id[9] = '\0';
}

void kt__p_begin_tool(kt__call_parser *p, uint32_t tool, const char *id, size_t id_len) {
    const char *name = kt__tools_name(p->tools, tool);
    bool given = id_len > 0 && id_len < sizeof p->id && !memchr(id, '\0', id_len) &&
                 !memchr(id, '\\', id_len);
    if (given) {
        memcpy(p->id, id, id_len);
        p->id[id_len] = '\0';
    } else {
        made_id(p, name);
    }
    const kt__call_event event = {
        .kind = KT__CALL_BEGIN, .index = p->n_calls++, .id = p->id, .name = name};
    p->tool = tool;
    p->late_id = p->args_begun = false;
    p->n_params = 0;
    kt__jscan_start(&p->json);
    p->sink(p->ctx, &event);
}

void kt__p_end_call(kt__call_parser *p, bool complete) {
    const kt__call_event event = {.kind = KT__CALL_END,
                                  .index = p->n_calls - 1,
                                  .id = p->id,
                                  .name = kt__tools_name(p->tools, p->tool),
                                  .complete = complete};
    p->sink(p->ctx, &event);
}

void kt__p_resume(kt__call_parser *p) {
    p->f = p->home;
    p->foreign = (kt__foreign){0};
    p->line = (kt__line){0};
    p->line_at = 0;
    p->cut = true;
    p->seen_text = false;
    kt__p_go(p, p->f->kind == KT__CALLS_HARMONY ? KT__P_HEADER : KT__P_CONTENT);
}

/* ---- arguments that come next ---- */

/* Blanks at the beginning of the line that `at` is in. */
static uint32_t line_indent(const kt__span *span, size_t at) {
    size_t from = at, end;
    while (from > 0 && span->s[from - 1] != '\n') from--;
    for (end = from; end < at && (span->s[end] == ' ' || span->s[end] == '\t'); end++) continue;
    return (uint32_t)(end - from);
}

void kt__p_expect_args(kt__call_parser *p, const kt__span *span, const kt__call_head *head) {
    if (p->expected_given) return;
    kt__buf_clear(&p->expected);
    if (!kt__buf_append(&p->expected, span->s + head->expects_at, span->n - head->expects_at))
        p->no_memory = true;
    p->expects = true;
    p->expects_tool = head->tool;
    p->expects_tagged = head->next == KT__P_PARAMS;
    p->expects_indent = line_indent(span, head->expects_at);
}

bool kt__call_take_args(kt__call_parser *p, kt__call_args *out) {
    if (!p->expects) return false;
    p->expects = false;
    p->expected_given = true;
    *out = (kt__call_args){.tool = p->expects_tool,
                           .tagged = p->expects_tagged,
                           .indent = p->expects_indent,
                           .text = p->expected.data ? p->expected.data : "",
                           .len = p->expected.len};
    return true;
}
