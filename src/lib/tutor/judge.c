/* kt_notes_judge of kentang.h: which correction a message asks for in other words, as the model itself judges. */
#include "tutor/judge.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "bank/bank.h"
#include "base/buf.h"
#include "base/error.h"
#include "context/types.h"
#include "prompt/notes.h"

/* Questions for the same thing and for other things, in two languages, of subjects that no model knows: with them a model
 * without any training for it says yes or no. It is raw text, since the same words within a chat template judge worse:
 * of 60 rewordings and 80 other questions of the development set Qwen2.5-Coder-1.5B ranks 99.0% of all pairs rightly so,
 * and 92.2% within its template. */
static const char before[] =
    "Do two questions ask for the same thing, so that one answer fits both?\n\n"
    "1. What colour is the boat? 2. Which colour does the boat have? yes\n"
    "1. What colour is the boat? 2. Tell me a story about the boat. no\n"
    "1. When does Tom leave? 2. Who is Tom? no\n"
    "1. When does Tom leave? 2. At what hour will Tom go away? yes\n"
    "1. Who owns the mill? 2. Is the mill old? no\n"
    "1. Siapa pemilik kincir itu? 2. Kincir itu punya siapa? yes\n"
    "1. Who owns the mill? 2. I want to talk to the owner of the mill. Whom do I ask? yes\n"
    "1. What does the lamp cost? 2. Where is the lamp? no\n1. ";

enum {
    MOST_TEXT = 1 << 14,
    MOST_MESSAGE = 1024, /* bytes of a message that is a question */
    MOST_JUDGED = 4      /* entries, the longest subjects and newest first */
};

/* In one line. */
static void add_line(kt__buf *out, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        (void)kt__buf_putc(out, text[i] == '\n' || text[i] == '\r' ? ' ' : text[i]);
}

/* Whether a token is a word, whatever its case and the blanks before it. */
static bool says_word(const kt_model *model, int32_t id, const char *word) {
    char text[16];
    size_t len = 0, at = 0, n = strlen(word);
    kt_error ignored;
    if (kt_detokenize(model, &id, 1, 0, text, sizeof text, &len, &ignored) != KT_OK) return false;
    while (at < len && text[at] == ' ') at++;
    if (len - at != n) return false;
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)text[at + i]) != word[i]) return false;
    return true;
}

/* Of the likeliest next tokens. */
static void weigh_tokens(const kt_model *model, const kt_event *event, double *yes, double *no) {
    for (size_t i = 0; i < event->n_top; i++) {
        double p = exp((double)event->top[i].logprob);
        if (says_word(model, event->top[i].id, "yes")) *yes += p;
        if (says_word(model, event->top[i].id, "no")) *no += p;
    }
}

static kt_status ask_model(kt_engine *engine, const kt_request_params *as, const kt__buf *text,
                           bool *same, kt_error *err) {
    kt_request_params r = kt_request_params_default();
    kt_request *req;
    kt_event event;
    kt_status status = KT_OK;
    double yes = 0, no = 0;
    r.text = text->data;
    r.text_len = text->len;
    r.gen.n_predict = 1;
    r.gen.ignore_eog = true;
    r.gen.sampling.temperature = 0;
    r.n_logprobs = KT_LOGPROBS_MAX;
    r.client = as->client;
    r.cache_scope = as->cache_scope;
    r.priority = as->priority;
    KT__STEP(kt_engine_submit(engine, &r, &req, err));
    while (kt_request_next_event(req, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN) weigh_tokens(engine->model, &event, &yes, &no);
        if (event.kind != KT_EVENT_FINISHED) continue;
        if (event.finish == KT_FINISH_CANCELLED)
            status = kt__fail(err, KT_E_CANCELLED, "cancelled");
        if (event.error) status = event.error->code;
        if (event.error && err) *err = *event.error;
        break;
    }
    kt_request_close(req);
    *same = yes > no;
    return status;
}

kt_status kt__judge_same(kt_engine *engine, const kt_request_params *as, const char *question,
                         size_t n_question, const char *message, size_t n_message, bool *same,
                         kt_error *err) {
    kt__buf text;
    *same = false;
    kt__buf_init(&text, MOST_TEXT);
    (void)kt__buf_puts(&text, before);
    add_line(&text, question, n_question);
    (void)kt__buf_puts(&text, " 2. ");
    add_line(&text, message, n_message);
    kt_status status = text.failed ? kt__fail_nomem(err, "two questions", MOST_TEXT)
                                   : ask_model(engine, as, &text, same, err);
    kt__buf_free(&text);
    return status;
}

/* The first of those that open whose question is the message's. */
static kt_status judge_opened(kt_engine *engine, const kt_request_params *r,
                              const kt__user_text *message, uint64_t *id, kt_error *err) {
    kt__bank_hit hits[MOST_JUDGED];
    size_t n = kt__bank_find(r->bank, message->text, message->len, hits, MOST_JUDGED);
    for (size_t i = 0; i < n && !*id; i++) {
        bool same = false;
        kt__buf question;
        kt__buf_init(&question, KT__BANK_QUESTION_MAX);
        kt_status status = KT_OK;
        if (kt__bank_write_question(r->bank, hits[i].id, &question) && question.len)
            status = kt__judge_same(engine, r, question.data, question.len, message->text,
                                    message->len, &same, err);
        kt__buf_free(&question);
        if (status != KT_OK) return status;
        if (same) *id = hits[i].id;
    }
    return KT_OK;
}

kt_status kt_notes_judge(kt_engine *engine, const kt_request_params *request, uint64_t *id,
                         kt_error *err) {
    kt_status status = KT_OK;
    kt__arena arena;
    kt__user_text *texts;
    size_t n = 0;
    *id = 0;
    kt__error_clear(err);
    if (!request->bank) return KT_OK;
    kt__arena_init(&arena, 1 << 12, 1 << 30);
    KT__TRY(kt__user_texts_of(&arena, request, &texts, &n, err));
    if (!n || texts[n - 1].len > MOST_MESSAGE) goto out;
    if (kt__bank_asked(request->bank, texts[n - 1].text, texts[n - 1].len, id)) goto out;
    status = judge_opened(engine, request, &texts[n - 1], id, err);
out:
    kt__arena_free(&arena);
    return status;
}
