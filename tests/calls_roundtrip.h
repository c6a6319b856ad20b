/* A call written in a format must be what the constraint takes, and be read as it was. */
#ifndef KT_TESTS_CALLS_ROUNDTRIP_H
#define KT_TESTS_CALLS_ROUNDTRIP_H

#include <stdlib.h>

#include "calls/calls.h"
#include "calls/format.h"
#include "calls/prompt.h"
#include "calls_answer.h"
#include "grammar/grammar.h"

static bool rt_same(const kt__json_node *a, const kt__json_node *b);

static bool rt_same_kids(const kt__json_node *a, const kt__json_node *b) {
    const kt__json_node *y = b->first;
    if (a->n != b->n) return false;
    for (const kt__json_node *x = a->first; x; x = x->next) {
        if (a->type == KT__JSON_OBJECT) y = kt__jdoc_member(b, x->key, x->key_len);
        if (!y || !rt_same(x, y)) return false;
        if (a->type == KT__JSON_ARRAY) y = y->next;
    }
    return true;
}

static bool rt_same(const kt__json_node *a, const kt__json_node *b) {
    if (a->type != b->type) return false;
    if (a->type == KT__JSON_NUMBER) return strtod(a->s, NULL) == strtod(b->s, NULL);
    if (a->type == KT__JSON_STRING) return a->n == b->n && memcmp(a->s, b->s, a->n) == 0;
    return a->type < KT__JSON_NUMBER || rt_same_kids(a, b);
}

/* How far the constraint takes the text: its length if it takes all of it and it may end there. */
static size_t rt_taken(const kt__call_constraint *c, const char *text, size_t len) {
    const kt__grammar_source source = {
        .kind = KT__GRAMMAR_PIECES, .text = c->text.data, .len = c->text.len, .closed = true};
    kt__grammar *g;
    kt__gstate s;
    size_t n = len;
    if (kt__grammar_create(&source, &g, NULL, NULL) != KT_OK) return SIZE_MAX;
    kt__grammar_start(g, &s);
    bool fits = kt__grammar_feed(g, &s, text, &n);
    if (fits && !kt__grammar_accepts(g, &s)) n = SIZE_MAX;
    kt__grammar_free(g);
    return n;
}

/* NULL: all is well; else what is wrong. calls[n] are the calls; tools allow them. */
static inline const char *rt_check(const kt__call_style *style, const kt__tools *tools,
                                   const kt__call_text *calls, size_t n, kt__buf *text) {
    kt__call_constraint c;
    kt_error err = {0};
    ca_answer a;
    kt__arena arena;
    const kt__call_rules rules = {.tools = tools,
                                  .choice = {.mode = KT__TOOL_REQUIRED},
                                  .one_call = n == 1,
                                  .prompt_tail = ""};
    const kt__call_options options = {.tools = tools, .prompt_tail = ""};
    const char *wrong = NULL;
    kt__calls_write(text, style, calls, n);
    if (kt__call_constraint_make(style, &rules, &c, &err) != KT_OK) wrong = "no constraint";
    size_t len = text->len, taken = wrong ? 0 : rt_taken(&c, text->data, len);
    if (style->calls->kind == KT__CALLS_HARMONY) { /* a token ends the answer */
        len -= strlen("<|call|>");
        taken = rt_taken(&c, text->data, len);
    }
    if (!wrong && taken != len) wrong = "the constraint does not take it";
    kt__call_constraint_free(&c);
    kt_status status = ca_parse(style, &options, text->data, text->len, 0, true, &a);
    if (!wrong && (status != KT_OK || a.n_calls != n || a.content.len > 0)) wrong = "not the calls";
    kt__arena_init(&arena, 4096, 64 << 20);
    for (size_t i = 0; i < n && !wrong; i++) {
        kt__json_node *args;
        bool named = strlen(a.calls[i].name) == calls[i].name_len &&
                     memcmp(a.calls[i].name, calls[i].name, calls[i].name_len) == 0;
        if (!named || !a.calls[i].complete ||
            kt__jdoc_parse(&arena, a.calls[i].args.data, a.calls[i].args.len, &args, NULL) != KT_OK)
            wrong = "another call";
        else if (!rt_same(args, calls[i].args))
            wrong = "other arguments";
    }
    kt__arena_free(&arena);
    ca_free(&a);
    return wrong;
}

#endif
