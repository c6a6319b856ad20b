#include "tutor/lesson.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "requests/inbox.h"

enum {
    OWN_AT_A_TIME = 16,
    MAX_QUESTION = 64, /* tokens of a question, ... */
    MAX_ANSWER =
        128, /* ... and of an answer that the model writes: one that rambles is worth no more */
    MAX_TEXT = 1 << 20
};

void kt__lesson_free(kt__lesson *l) {
    for (size_t i = 0; i < l->n; i++) kt__free((void *)(uintptr_t)l->samples[i].ids);
    kt__free(l->samples);
    *l = (kt__lesson){0};
}

size_t kt__lesson_count(const kt__lesson *l, kt__sample_kind kind) {
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) n += l->samples[i].kind == kind;
    return n;
}

/* ---- a sample from tokens ---- */

kt_status kt__lesson_add_tokens(kt__lesson *l, const int32_t *prompt, size_t n_prompt,
                                const int32_t *answer, size_t n_answer, const kt__sample *like,
                                kt_error *err) {
    size_t n = n_prompt + n_answer, ids_bytes = n * sizeof(int32_t);
    if (n_prompt == 0 || n_answer == 0)
        return kt__fail(err, KT_E_ARG, "a question or an answer has no tokens");
    if (n > INT32_MAX / 8 || !kt__vec_reserve(l->samples, l->cap, l->n + 1))
        return kt__fail_nomem(err, "a sample", ids_bytes);
    int32_t *ids = kt__malloc(ids_bytes + n); /* and the mask after them */
    if (!ids) return kt__fail_nomem(err, "a sample", ids_bytes + n);
    uint8_t *mask = (uint8_t *)ids + ids_bytes;
    memcpy(ids, prompt, n_prompt * sizeof *ids);
    memcpy(ids + n_prompt, answer, n_answer * sizeof *ids);
    for (size_t i = 0; i < n; i++) mask[i] = i > 0 && i >= n_prompt;
    kt__sample *s = &l->samples[l->n++];
    *s = *like;
    s->ids = ids;
    s->mask = mask;
    s->n = (int)n;
    return KT_OK;
}

/* ---- a sample from a question and its answer ---- */

/* The tokens of a conversation: up to the answer, and all. */
typedef struct turns {
    int32_t *prompt, *all;
    size_t n_prompt, n_all;
} turns;

static void free_turns(turns *t) {
    kt_free(t->prompt);
    kt_free(t->all);
    *t = (turns){0};
}

/* The prompt, the answer's text as tokens, and the end of turn. */
static kt_status append_text(const kt_model *model, const char *answer, turns *t, kt_error *err) {
    kt_model_info info;
    size_t len = strlen(answer), n_answer = 0;
    kt_model_get_info(model, &info);
    kt_free(t->all);
    t->n_all = t->n_prompt + len + 2;
    t->all = kt__calloc(t->n_all, sizeof *t->all);
    if (!t->all) return kt__fail_nomem(err, "an answer's tokens", t->n_all * sizeof *t->all);
    memcpy(t->all, t->prompt, t->n_prompt * sizeof *t->all);
    kt_status status = kt_tokenize(model, answer, len, 0, t->all + t->n_prompt, len + 1, &n_answer,
                                   err);
    if (status != KT_OK) return status;
    t->n_all = t->n_prompt + n_answer;
    if (info.eos_id >= 0) t->all[t->n_all++] = info.eos_id;
    return KT_OK;
}

/* Of a model without a template: its text as it is, and what follows it. */
static kt_status encode_plain(const kt_model *model, const kt_message *messages, size_t n,
                              const char *answer, turns *t, kt_error *err) {
    if (n != 1)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "the model has no chat template for \"messages\"; give the text ahead of "
                        "the answer as \"prompt\"");
    size_t len = strlen(messages[0].content), cap = len + 8;
    t->prompt = kt__calloc(cap, sizeof *t->prompt);
    if (!t->prompt) return kt__fail_nomem(err, "a prompt's tokens", cap * sizeof *t->prompt);
    kt_status status = kt_tokenize(model, messages[0].content, len, KT_TOK_ADD_SPECIAL, t->prompt,
                                   cap, &t->n_prompt, err);
    return status == KT_OK ? append_text(model, answer, t, err) : status;
}

/* Where the template writes the answer after the same prompt, these are its tokens, through the
 * one that ends it; else those of the text, and the end of turn. */
static kt_status encode_turns(const kt_model *model, const kt_message *messages, size_t n,
                              const char *answer, turns *t, kt_error *err) {
    kt_message all[KT__LESSON_MESSAGES_MAX + 1];
    if (!model->template_text) return encode_plain(model, messages, n, answer, t, err);
    memcpy(all, messages, n * sizeof *all);
    all[n] = (kt_message){"assistant", answer};
    KT__STEP(kt_chat_encode(model, messages, n, KT_CHAT_GENERATE, &t->prompt, &t->n_prompt, err));
    KT__STEP(kt_chat_encode(model, all, n + 1, 0, &t->all, &t->n_all, err));
    size_t end = t->n_prompt;
    bool same = t->n_all > end && !memcmp(t->all, t->prompt, end * sizeof *t->all);
    while (same && end < t->n_all && !kt_token_is_eog(model, t->all[end])) end++;
    if (same && end > t->n_prompt && end < t->n_all) {
        t->n_all = end + 1;
        return KT_OK;
    }
    return append_text(model, answer, t, err);
}

/* Marks the answer messages[i], where the template writes it at this place of the sample as
 * well. */
static kt_status mark_earlier(const kt_model *model, const kt_message *messages, size_t i,
                              kt__sample *s, kt_error *err) {
    turns t = {0};
    uint8_t *mask = (uint8_t *)(uintptr_t)s->mask;
    kt_status status = encode_turns(model, messages, i, messages[i].content, &t, err);
    bool same = status == KT_OK && t.n_prompt > 0 && t.n_all <= (size_t)s->n &&
                !memcmp(t.all, s->ids, t.n_all * sizeof *t.all);
    for (size_t k = t.n_prompt; same && k < t.n_all; k++) mask[k] = 1;
    free_turns(&t);
    return status;
}

kt_status kt__lesson_add_answer(kt__lesson *l, const kt_model *model, const kt_message *messages,
                                size_t n, const char *answer, const kt__sample *like,
                                kt_error *err) {
    turns t = {0};
    kt_status status;
    if (n > KT__LESSON_MESSAGES_MAX)
        return kt__fail(err, KT_E_LIMIT, "more than %d messages", KT__LESSON_MESSAGES_MAX);
    KT__TRY(encode_turns(model, messages, n, answer, &t, err));
    KT__TRY(kt__lesson_add_tokens(l, t.all, t.n_prompt, t.all + t.n_prompt, t.n_all - t.n_prompt,
                                  like, err));
    for (size_t i = 1; like->kind == KT__SAMPLE_REPLAY && i < n; i++)
        if (!strcmp(messages[i].role, "assistant"))
            KT__TRY(mark_earlier(model, messages, i, &l->samples[l->n - 1], err));
out:
    free_turns(&t);
    return status;
}

/* ---- what the model writes ---- */

static bool collect_text(void *user, const char *text, size_t len, int32_t id) {
    (void)id;
    return kt__buf_append(user, text, len);
}

static kt_gen_params plain_params(float temperature, int32_t most, uint64_t seed) {
    kt_gen_params p = kt_gen_params_default();
    p.sampling.temperature = temperature;
    p.sampling.seed = seed;
    p.sampling.top_k = 0;
    p.sampling.top_p = 1.0f;
    p.sampling.min_p = 0.0f;
    p.n_predict = most;
    return p;
}

static void set_question(const kt_model *model, const kt_message *messages, size_t n,
                         kt_request_params *request) {
    request->prompt.messages = model->template_text ? messages : NULL;
    request->prompt.n_messages = model->template_text ? n : 0;
    request->prompt.text = model->template_text ? NULL : messages[n - 1].content;
    request->prompt.text_len = model->template_text ? 0 : strlen(messages[n - 1].content);
}

kt_status kt__lesson_write_answer(kt_engine *engine, const kt_message *messages, size_t n,
                                  kt__buf *out, kt_error *err) {
    kt_request_params request = kt_request_params_default();
    set_question(engine->model, messages, n, &request);
    request.gen = plain_params(0.0f, MAX_ANSWER, 1);
    kt__buf_clear(out);
    kt_status status = kt_request_run(engine, &request, collect_text, out, NULL, err);
    if (status == KT_OK && out->failed) return kt__fail_nomem(err, "an answer", out->len);
    return status;
}

/* ---- conversations of its own, many at a time ---- */

typedef struct own_text {
    kt__buf text;
    kt_request *request;
} own_text;

typedef struct writer {
    kt_engine *engine;
    const kt__lesson_own *own;
    own_text questions[OWN_AT_A_TIME], answers[OWN_AT_A_TIME];
    kt_error *err;
} writer;

static kt_status read_one(const writer *w, own_text *out) {
    kt_event event;
    while (kt_request_next_event(out->request, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN) kt__buf_append(&out->text, event.text, event.len);
        if (event.kind != KT_EVENT_FINISHED) continue;
        if (event.finish == KT_FINISH_CANCELLED)
            return kt__fail(w->err, KT_E_CANCELLED, "the training was cancelled");
        if (!event.error) break;
        if (w->err) *w->err = *event.error;
        return event.error->code;
    }
    return out->text.failed ? kt__fail_nomem(w->err, "a conversation", out->text.len) : KT_OK;
}

/* One request each; request.ids or the questions' texts are the prompts. */
static kt_status write_round(const writer *w, kt_request_params request, const own_text *questions,
                             own_text *out, size_t n, uint64_t seed) {
    kt_status status = KT_OK;
    int32_t most = w->engine->model->template_text ? MAX_QUESTION : MAX_ANSWER;
    request.service.priority = w->own->priority;
    for (size_t i = 0; status == KT_OK && i < n; i++) {
        const kt_message message = {"user", questions ? questions[i].text.data : NULL};
        kt__buf_clear(&out[i].text);
        if (questions && questions[i].text.len == 0) continue;
        if (questions) set_question(w->engine->model, &message, 1, &request);
        request.gen = plain_params(1.0f, questions ? MAX_ANSWER : most, seed + i);
        status = kt__patience_submit(w->engine, &request, &w->own->patience, &out[i].request,
                                     w->err);
    }
    for (size_t i = 0; i < n; i++) {
        if (out[i].request && status == KT_OK) status = read_one(w, &out[i]);
        if (out[i].request) kt_request_close(out[i].request);
        out[i].request = NULL;
    }
    return status;
}

/* What is ahead of a user's words where a conversation begins; of a model without a template what
 * is ahead of a text. */
static kt_status user_prefix(const kt_model *model, int32_t **ids, size_t *n, kt_error *err) {
    enum { SPECIAL_MOST = 8 }; /* that are ahead of a text */
    kt__prompt_frame frame = {0};
    kt_status status;
    if (model->template_text) {
        KT__TRY(kt__frame_find(model, &frame, err));
        *n = frame.n_ahead;
    } else {
        frame.ahead = kt__calloc(SPECIAL_MOST, sizeof *frame.ahead);
        if (!frame.ahead) KT__TRY(kt__fail_nomem(err, "a prompt's tokens", 0));
        KT__TRY(kt_tokenize(model, "", 0, KT_TOK_ADD_SPECIAL, frame.ahead, SPECIAL_MOST, n, err));
    }
    *ids = frame.ahead;
    frame.ahead = NULL;
    if (*n == 0)
        status = kt__fail(err, KT_E_UNSUPPORTED,
                          "nothing comes before a question in the model's prompts, so the model "
                          "cannot write one: give replay with lines of \"keep\"");
    else
        status = KT_OK;
out:
    kt__frame_free(&frame);
    return status;
}

/* A text of a model without a template: all after the beginning is its own. */
static kt_status add_own_text(kt__lesson *l, const writer *w, const kt_request_params *ask,
                              const own_text *text) {
    kt_status status;
    size_t n = 0, cap = text->text.len + 8;
    const kt__sample like = {.kind = KT__SAMPLE_REPLAY, .weight = 1.0f, .group = l->next_group++};
    int32_t *ids = kt__calloc(cap, sizeof *ids);
    if (!ids) return kt__fail_nomem(w->err, "a text's tokens", cap * sizeof *ids);
    KT__TRY(
        kt_tokenize(w->engine->model, text->text.data, text->text.len, 0, ids, cap, &n, w->err));
    if (n > 0)
        KT__TRY(
            kt__lesson_add_tokens(l, ask->prompt.ids, ask->prompt.n_ids, ids, n, &like, w->err));
out:
    kt__free(ids);
    return status;
}

static kt_status add_own(kt__lesson *l, const writer *w, const own_text *question,
                         const own_text *answer) {
    const kt_message message = {"user", question->text.data};
    if (question->text.len == 0 || answer->text.len == 0) return KT_OK;
    const kt__sample like = {.kind = KT__SAMPLE_REPLAY, .weight = 1.0f, .group = l->next_group++};
    return kt__lesson_add_answer(l, w->engine->model, &message, 1, answer->text.data, &like,
                                 w->err);
}

/* n conversations, or texts. */
static kt_status write_some(kt__lesson *l, writer *w, const kt_request_params *ask, size_t n,
                            uint64_t seed) {
    bool plain = !w->engine->model->template_text;
    KT__STEP(write_round(w, *ask, NULL, w->questions, n, seed));
    if (!plain)
        KT__STEP(write_round(w, kt_request_params_default(), w->questions, w->answers, n, seed));
    for (size_t k = 0; k < n; k++) {
        if (plain)
            KT__STEP(add_own_text(l, w, ask, &w->questions[k]));
        else
            KT__STEP(add_own(l, w, &w->questions[k], &w->answers[k]));
    }
    return KT_OK;
}

kt_status kt__lesson_write_own(kt__lesson *l, kt_engine *engine, const kt__lesson_own *own,
                               kt_error *err) {
    writer w = {.engine = engine, .own = own, .err = err};
    kt_request_params ask = kt_request_params_default();
    int32_t *ids = NULL;
    kt_status status;
    for (int i = 0; i < OWN_AT_A_TIME; i++) {
        kt__buf_init(&w.questions[i].text, MAX_TEXT);
        kt__buf_init(&w.answers[i].text, MAX_TEXT);
    }
    KT__TRY(user_prefix(engine->model, &ids, &ask.prompt.n_ids, err));
    ask.prompt.ids = ids;
    for (int i = own->first; i < own->n; i += OWN_AT_A_TIME) {
        size_t m = (size_t)(own->n - i < OWN_AT_A_TIME ? own->n - i : OWN_AT_A_TIME);
        KT__TRY(kt__patience_check(&own->patience, err));
        if (own->progress) own->progress(own->patience.user, i);
        KT__TRY(write_some(l, &w, &ask, m, own->seed * 1000003u + (uint64_t)i));
    }
out:
    for (int i = 0; i < OWN_AT_A_TIME; i++) {
        kt__buf_free(&w.questions[i].text);
        kt__buf_free(&w.answers[i].text);
    }
    kt__free(ids);
    return status;
}

int32_t kt__lesson_end_token(const kt_model *model) {
    const kt_message message = {"user", "a"};
    kt_error err;
    turns t = {0};
    int32_t end = -1;
    if (encode_turns(model, &message, 1, "b", &t, &err) == KT_OK && t.n_all > 0 &&
        kt_token_is_eog(model, t.all[t.n_all - 1]))
        end = t.all[t.n_all - 1];
    free_turns(&t);
    return end;
}

/* ---- patience ---- */

enum { RETRY_MS = 200 };

kt_status kt__patience_check(const kt__tutor_patience *p, kt_error *err) {
    if (!p || !p->go_on || p->go_on(p->user)) return KT_OK;
    return kt__fail(err, KT_E_CANCELLED, "the training was cancelled");
}

bool kt__patience_again(kt_engine *engine, kt_status status) {
    if (status != KT_E_BUSY) return false;
    kt__inbox_wait_for_room(engine->inbox, RETRY_MS);
    return true;
}

kt_status kt__patience_submit(kt_engine *engine, const kt_request_params *request,
                              const kt__tutor_patience *patience, kt_request **out, kt_error *err) {
    kt_status status;
    do {
        KT__STEP(kt__patience_check(patience, err));
        status = kt_engine_submit(engine, request, out, err);
    } while (kt__patience_again(engine, status));
    return status;
}
