/* An answer parsed in pieces, its events put together. */
#ifndef KT_TESTS_CALLS_ANSWER_H
#define KT_TESTS_CALLS_ANSWER_H

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "calls/calls.h"

enum { CA_MAX_CALLS = 16 };

typedef struct ca_call {
    char id[200], name[160];
    kt__buf args;
    bool ended, complete;
} ca_call;

typedef struct ca_answer {
    kt__buf content, reasoning, aside;
    ca_call calls[CA_MAX_CALLS];
    uint32_t n_calls;
    bool disorder; /* events that may not come like that */
} ca_answer;

static void ca_call_event(ca_answer *a, const kt__call_event *e) {
    ca_call *call = &a->calls[e->index < CA_MAX_CALLS ? e->index : 0];
    switch (e->kind) {
    case KT__CALL_BEGIN:
        if (e->index != a->n_calls || e->index >= CA_MAX_CALLS) a->disorder = true;
        if (a->n_calls > 0 && !a->calls[a->n_calls - 1].ended) a->disorder = true;
        if (e->index >= CA_MAX_CALLS) return;
        a->n_calls++;
        kt__buf_init(&call->args, 1 << 24);
        snprintf(call->id, sizeof call->id, "%s", e->id);
        snprintf(call->name, sizeof call->name, "%s", e->name);
        break;
    case KT__CALL_ARGS:
        if (e->index + 1 != a->n_calls || call->ended) a->disorder = true;
        kt__buf_append(&call->args, e->text, e->len);
        break;
    default:
        if (e->index + 1 != a->n_calls || call->ended) a->disorder = true;
        call->ended = true;
        call->complete = e->complete;
        snprintf(call->id, sizeof call->id, "%s", e->id);
    }
}

static void ca_event(void *ctx, const kt__call_event *e) {
    ca_answer *a = ctx;
    switch (e->kind) {
    case KT__CALL_CONTENT: kt__buf_append(&a->content, e->text, e->len); break;
    case KT__CALL_REASONING: kt__buf_append(&a->reasoning, e->text, e->len); break;
    case KT__CALL_ASIDE: kt__buf_append(&a->aside, e->text, e->len); break;
    default: ca_call_event(a, e);
    }
}

static void ca_init(ca_answer *a) {
    memset(a, 0, sizeof *a);
    kt__buf_init(&a->content, 1 << 25);
    kt__buf_init(&a->reasoning, 1 << 25);
    kt__buf_init(&a->aside, 1 << 25);
}

static void ca_free(ca_answer *a) {
    kt__buf_free(&a->content);
    kt__buf_free(&a->reasoning);
    kt__buf_free(&a->aside);
    for (uint32_t i = 0; i < a->n_calls; i++) kt__buf_free(&a->calls[i].args);
}

/* Parses text[len]: as a whole (cut 0), byte by byte (cut 1), or in two pieces, the first of
 * cut - 2 bytes. finish: the answer is over. */
static inline kt_status ca_parse(const kt__call_style *style, const kt__call_options *options,
                                 const char *text, size_t len, size_t cut, bool finish,
                                 ca_answer *out) {
    kt__call_parser *p;
    ca_init(out);
    kt_status status = kt__call_parser_create(style, options, ca_event, out, &p, NULL);
    if (status != KT_OK) return status;
    for (size_t at = 0; at < len && status == KT_OK;) {
        size_t n = cut == 1 ? 1 : cut > 1 && at < cut - 2 ? cut - 2 - at : len - at;
        if (n > len - at) n = len - at;
        status = kt__call_feed(p, text + at, n, NULL);
        at += n;
    }
    if (status == KT_OK && finish) status = kt__call_finish(p, NULL);
    kt__call_parser_free(p);
    return status;
}

/* What two ways to cut must agree on, as one text. */
static inline void ca_print(const ca_answer *a, kt__buf *out) {
    kt__buf_printf(out, "content[%s] reasoning[%s] aside[%s]",
                   a->content.data ? a->content.data : "",
                   a->reasoning.data ? a->reasoning.data : "", a->aside.data ? a->aside.data : "");
    for (uint32_t i = 0; i < a->n_calls; i++)
        kt__buf_printf(out, " %s(%s)%s", a->calls[i].name,
                       a->calls[i].args.data ? a->calls[i].args.data : "",
                       a->calls[i].complete ? "" : "...");
    if (a->disorder) kt__buf_puts(out, " disorder");
}

#endif
