#include "tutor/near.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "requests/inbox.h"

enum { MAX_QUESTION = 96, MAX_ANSWER = 160, RETRY_MS = 200 };

/* What the template writes ahead of a first question, and after it up to the answer. */
typedef struct frame {
    int32_t *ahead, *behind;
    size_t n_ahead, n_behind;
} frame;

static void free_frame(frame *f) {
    kt__free(f->ahead);
    kt__free(f->behind);
}

static kt_status encode_part(const kt_model *model, const char *text, size_t len, int32_t **ids,
                             size_t *n, kt_error *err) {
    *ids = kt__calloc(len + 8, sizeof **ids);
    if (!*ids) return kt__fail_nomem(err, "a prompt's tokens", len);
    return kt_tokenize(model, text, len, KT_TOK_PARSE_SPECIAL, *ids, len + 8, n, err);
}

static kt_status find_frame(const kt_model *model, frame *f, kt_error *err) {
    static const char mark[] = "kentang-marks-this";
    const kt_message message = {"user", mark};
    char *text = NULL;
    size_t len = 0;
    kt_status status = kt_chat_render(model, &message, 1, KT_CHAT_GENERATE, &text, &len, err);
    const char *at = status == KT_OK ? strstr(text, mark) : NULL;
    if (at) {
        size_t n = (size_t)(at - text), end = n + sizeof mark - 1;
        status = encode_part(model, text, n, &f->ahead, &f->n_ahead, err);
        if (status == KT_OK)
            status = encode_part(model, at + sizeof mark - 1, len - end, &f->behind, &f->n_behind,
                                 err);
    }
    kt_free(text);
    return status;
}

/* Where the question is in a sample's prompt; false: it is not the first one of a conversation. */
static bool question_of(const kt_model *model, const frame *f, const kt__sample *s, size_t *begin,
                        size_t *end) {
    size_t n = 0;
    while (n < (size_t)s->n && !s->mask[n]) n++;
    *begin = f->n_ahead;
    if (n <= f->n_ahead + f->n_behind) return false;
    *end = n - f->n_behind;
    if (memcmp(s->ids, f->ahead, f->n_ahead * sizeof *s->ids) != 0 ||
        memcmp(s->ids + *end, f->behind, f->n_behind * sizeof *s->ids) != 0)
        return false;
    for (size_t i = *begin; i < *end; i++)
        if (kt_token_is_eog(model, s->ids[i])) return false;
    return true;
}

typedef struct near_writer {
    kt__lesson *lesson;
    kt_engine *engine;
    const kt__lesson_own *own;
    frame frame;
    size_t n_taught; /* samples that were there before */
    kt_error *err;
} near_writer;

/* Tokens that follow ids[n], to the end of turn, which is not among them; *ended: there was one. */
static kt_status write_ids(const near_writer *w, const int32_t *ids, size_t n, float temperature,
                           uint64_t seed, int32_t *out, size_t cap, size_t *n_out, bool *ended) {
    kt_request_params request = kt_request_params_default();
    kt_request *r = NULL;
    kt_event event;
    kt_status status = KT_E_BUSY;
    *n_out = 0;
    *ended = false;
    request.ids = ids;
    request.n_ids = n;
    request.priority = w->own->priority;
    request.gen = kt_gen_params_default();
    request.gen.sampling.temperature = temperature;
    request.gen.sampling.seed = seed;
    request.gen.n_predict = (int32_t)cap;
    while (status == KT_E_BUSY) {
        if (w->own->go_on && !w->own->go_on(w->own->go_on_user))
            return kt__fail(w->err, KT_E_CANCELLED, "the training was cancelled");
        status = kt_engine_submit(w->engine, &request, &r, w->err);
        if (status == KT_E_BUSY) kt__inbox_wait_for_room(w->engine->inbox, RETRY_MS);
    }
    if (status != KT_OK) return status;
    while (kt_request_next_event(r, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN && event.id >= 0 && *n_out < cap &&
            !kt_token_is_eog(w->engine->model, event.id))
            out[(*n_out)++] = event.id;
        if (event.kind != KT_EVENT_FINISHED) continue;
        *ended = event.finish == KT_FINISH_EOG;
        if (event.error && w->err) *w->err = *event.error;
        if (event.error) status = event.error->code;
    }
    kt_request_close(r);
    return status;
}

static bool is_taught(const near_writer *w, const int32_t *question, size_t n) {
    size_t begin, end;
    for (size_t i = 0; i < w->n_taught; i++) {
        const kt__sample *s = &w->lesson->samples[i];
        if (!question_of(w->engine->model, &w->frame, s, &begin, &end)) continue;
        if (end - begin == n && !memcmp(s->ids + begin, question, n * sizeof *question))
            return true;
    }
    return false;
}

/* The question in prompt, after the frame's beginning, is answered, and added. */
static kt_status add_near(const near_writer *w, int32_t *prompt, size_t n_question) {
    const frame *f = &w->frame;
    int32_t answer[MAX_ANSWER + 1], end = kt__lesson_end_token(w->engine->model);
    size_t n_prompt = f->n_ahead + n_question + f->n_behind, n_answer;
    bool ended;
    memcpy(prompt + f->n_ahead + n_question, f->behind, f->n_behind * sizeof *prompt);
    kt_status status = write_ids(w, prompt, n_prompt, 0.0f, 1, answer, MAX_ANSWER, &n_answer,
                                 &ended);
    if (status != KT_OK || n_answer == 0) return status;
    if (ended && end >= 0) answer[n_answer++] = end;
    const kt__sample like = {
        .kind = KT__SAMPLE_NEIGHBOUR, .weight = 1.0f, .group = w->lesson->next_group++};
    return kt__lesson_add_tokens(w->lesson, prompt, n_prompt, answer, n_answer, &like, w->err);
}

/* A question that begins as samples[i]'s, of which at least a token is kept. */
static kt_status write_near(const near_writer *w, size_t i, uint64_t seed) {
    const kt__sample *s = &w->lesson->samples[i];
    const frame *f = &w->frame;
    size_t begin, end, n_more;
    bool ended;
    if (!question_of(w->engine->model, f, s, &begin, &end) || end - begin > MAX_QUESTION)
        return KT_OK;
    size_t half = (end - begin + 1) / 2;
    int32_t *prompt = kt__calloc(f->n_ahead + 2 * MAX_QUESTION + f->n_behind, sizeof *prompt);
    if (!prompt) return kt__fail_nomem(w->err, "a question", f->n_ahead);
    memcpy(prompt, s->ids, (begin + half) * sizeof *prompt);
    kt_status status = write_ids(w, prompt, begin + half, 1.0f, seed, prompt + begin + half,
                                 MAX_QUESTION, &n_more, &ended);
    if (status == KT_OK && ended && !is_taught(w, prompt + begin, half + n_more))
        status = add_near(w, prompt, half + n_more);
    kt__free(prompt);
    return status;
}

kt_status kt__near_add(kt__lesson *l, kt_engine *engine, int each, const kt__lesson_own *own,
                       kt_error *err) {
    near_writer w = {.lesson = l, .engine = engine, .own = own, .n_taught = l->n, .err = err};
    int n_tried = 0;
    kt_status status = KT_OK;
    if (!engine->model->template_text) return KT_OK;
    KT__TRY(find_frame(engine->model, &w.frame, err));
    for (int k = 0; k < each && w.frame.n_ahead > 0; k++) {
        for (size_t i = 0; i < w.n_taught && n_tried < own->n; i++) {
            if (l->samples[i].kind != KT__SAMPLE_CORRECTION) continue;
            KT__TRY(write_near(&w, i, own->seed * 7919u + (uint64_t)n_tried));
            n_tried++;
        }
    }
out:
    free_frame(&w.frame);
    return status;
}
