#include "tutor/near.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tutor/asked.h"
#include "tutor/frame.h"

enum { MAX_QUESTION = 96 };

typedef struct near_writer {
    kt__lesson *lesson;
    kt_engine *engine;
    const kt__lesson_own *own;
    kt__frame frame;
    size_t n_taught; /* samples that were there before */
    kt_error *err;
} near_writer;

static bool is_taught(const near_writer *w, const int32_t *question, size_t n) {
    size_t begin, end;
    for (size_t i = 0; i < w->n_taught; i++) {
        const kt__sample *s = &w->lesson->samples[i];
        if (!kt__frame_question(&w->frame, w->engine->model, s, &begin, &end)) continue;
        if (end - begin == n && !memcmp(s->ids + begin, question, n * sizeof *question))
            return true;
    }
    return false;
}

/* The question in prompt, after the frame's beginning, is answered, and added. */
static kt_status add_near(const near_writer *w, int32_t *prompt, size_t n_question) {
    const kt__frame *f = &w->frame;
    size_t n = f->n_ahead + n_question;
    memcpy(prompt + n, f->after, f->n_after * sizeof *prompt);
    return kt__asked_add(w->lesson, w->engine, w->own, prompt, n + f->n_after, KT__SAMPLE_DRAWN,
                         w->err);
}

/* A question that begins as samples[i]'s, of which at least a token is kept. */
static kt_status write_near(const near_writer *w, size_t i, uint64_t seed) {
    const kt__sample *s = &w->lesson->samples[i];
    const kt__frame *f = &w->frame;
    size_t begin, end, n_more;
    bool ended;
    if (!kt__frame_question(f, w->engine->model, s, &begin, &end) || end - begin > MAX_QUESTION)
        return KT_OK;
    size_t half = (end - begin + 1) / 2;
    int32_t *prompt = kt__calloc(f->n_ahead + 2 * MAX_QUESTION + f->n_after, sizeof *prompt);
    if (!prompt) return kt__fail_nomem(w->err, "a question", f->n_ahead);
    memcpy(prompt, s->ids, (begin + half) * sizeof *prompt);
    kt_status status = kt__asked_write(w->engine, w->own, prompt, begin + half, 1.0f, seed,
                                       prompt + begin + half, MAX_QUESTION, &n_more, &ended,
                                       w->err);
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
    KT__TRY(kt__frame_find(engine->model, &w.frame, err));
    for (int k = 0; k < each && w.frame.n_ahead > 0; k++) {
        for (size_t i = 0; i < w.n_taught && n_tried < own->n; i++) {
            const kt__sample *s = &l->samples[i];
            if (s->kind != KT__SAMPLE_CORRECTION || s->use != KT__SAMPLE_DRAWN) continue;
            KT__TRY(write_near(&w, i, own->seed * 7919u + (uint64_t)n_tried));
            n_tried++;
        }
    }
out:
    kt__frame_free(&w.frame);
    return status;
}
