#include "requests/explain.h"

#include <string.h>

#include "base/error.h"

/* Text of ids[n], cut at a whole character. */
static void text_of(const kt_model *model, const int32_t *ids, size_t n, char *out, size_t size) {
    char text[256];
    size_t len = 0, keep;
    if (n > 8) n = 8;
    kt_status status = kt_detokenize(model, ids, n, KT_TOK_RENDER_SPECIAL, text, sizeof text, &len,
                                     NULL);
    if (status != KT_OK && status != KT_E_LIMIT) len = 0;
    keep = len < size - 1 ? len : size - 1;
    while (keep > 0 && keep < len && ((unsigned char)text[keep] & 0xc0) == 0x80) keep--;
    memcpy(out, text, keep);
    out[keep] = '\0';
}

/* The message in which the prompt's byte `at` lies: contents are looked for in order. */
static int32_t message_at(const kt__submitted *sub, const char *prompt, size_t len, size_t at) {
    const char *text = sub->texts;
    size_t from = 0;
    int32_t found = -1;
    for (int32_t i = 0; text && i < sub->n_texts; i++, text += strlen(text) + 1) {
        size_t n = strlen(text);
        const char *where = n ? memmem(prompt + from, len - from, text, n) : NULL;
        if (!where) continue;
        size_t begin = (size_t)(where - prompt);
        if (begin > at) break;
        found = i;
        from = begin + n;
    }
    return found;
}

static int32_t find_message(const kt__choice *c, int32_t at) {
    kt__buf text;
    const kt_model *model = c->sub->req.engine->model;
    const int32_t *tokens = c->work.state->tokens;
    int32_t message = -1;
    if (!c->sub->texts || !model->tok) return -1;
    kt__buf_init(&text, (size_t)64 << 20);
    size_t upto = 0;
    kt_status status = kt__tokenizer_decode(model->tok, tokens, (size_t)at, KT_TOK_RENDER_SPECIAL,
                                            &text, NULL);
    upto = text.len;
    if (status == KT_OK)
        status = kt__tokenizer_decode(model->tok, tokens + at, (size_t)(c->sub->n_text - at),
                                      KT_TOK_RENDER_SPECIAL, &text, NULL);
    if (status == KT_OK && text.data) message = message_at(c->sub, text.data, text.len, upto);
    kt__buf_free(&text);
    return message;
}

void kt__explain_miss(kt__choice *choice, double prefill_us_tok) {
    kt_engine *engine = choice->sub->req.engine;
    kt_cache_miss *out = &choice->report.miss;
    kt__prefix_miss miss;
    const int32_t *tokens = choice->work.state->tokens;
    size_t n = (size_t)choice->sub->n_text;
    *out = (kt_cache_miss){.message = -1};
    kt__prefix_explain(engine->prefix, &choice->work.cursor, tokens, n, &miss);
    if (!miss.known) return;
    out->known = true;
    out->at = (int32_t)miss.at;
    out->n_lost = (int32_t)miss.n_lost;
    out->cost_us = (int64_t)((double)miss.n_lost * prefill_us_tok);
    out->message = find_message(choice, out->at);
    if (!engine->model->tok) return;
    text_of(engine->model, miss.was, (size_t)miss.n_was, out->was, sizeof out->was);
    if (!miss.evicted)
        text_of(engine->model, tokens + miss.at, n - (size_t)miss.at, out->is, sizeof out->is);
}
