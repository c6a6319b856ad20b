#include "tutor/siblings.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tutor/asked.h"
#include "tutor/frame.h"
#include "tutor/phrase.h"

enum { QUESTION_BYTES = 1024 };

static const char *const english[] = {"Is %s well known?", "Write a poem about %s.",
                                      "Why do people talk about %s?",
                                      "What would you say about %s?"};
static const char *const indonesian[] = {"Apakah %s terkenal?", "Tulis puisi tentang %s.",
                                         "Mengapa orang membicarakan %s?",
                                         "Apa pendapatmu tentang %s?"};
enum { N_ASKS = sizeof english / sizeof *english };

/* ---- the questions ---- */

typedef struct sibling_writer {
    kt__lesson *lesson;
    kt_engine *engine;
    const kt__lesson_own *own;
    kt__frame frame;
    kt__arena arena;
    kt_error *err;
} sibling_writer;

/* The base's answer to a question, as a sample that is measured. */
static kt_status add_sibling(sibling_writer *w, const char *question) {
    const kt__frame *f = &w->frame;
    int32_t *ids;
    size_t n;
    KT__STEP(
        kt__frame_prompt(f, w->engine->model, f->ahead, f->n_ahead, question, &ids, &n, w->err));
    kt_status status = kt__asked_add(w->lesson, w->engine, w->own, ids, n, KT__SAMPLE_MEASURED,
                                     w->err);
    kt__free(ids);
    return status;
}

/* The ask-th about the subject of samples[i], where it has one; *n counts them. */
static kt_status write_sibling(sibling_writer *w, size_t i, size_t ask, int *n) {
    const kt__sample *s = &w->lesson->samples[i];
    const kt_model *model = w->engine->model;
    char question[QUESTION_BYTES], answer[QUESTION_BYTES], asked[KT__PHRASE_BYTES + 64];
    size_t begin, end, at, len;
    if (!kt__frame_last_question(&w->frame, model, s, &begin, &end)) return KT_OK;
    size_t first = end + w->frame.n_after;
    if (!kt__frame_text(model, s->ids + begin, end - begin, question, sizeof question) ||
        !kt__frame_text(model, s->ids + first, (size_t)s->n - first, answer, sizeof answer) ||
        !kt__phrase_find(&w->arena, question, answer, &at, &len))
        return KT_OK;
    bool in_english = strstr(question, " the ") || strstr(question, " is ") ||
                      strstr(question, " does ") || strncmp(question, "Wh", 2) == 0;
    const char *const *asks = in_english ? english : indonesian;
    const char *slot = asks[ask % N_ASKS], *mark = strstr(slot, "%s");
    size_t n_ahead = (size_t)(mark - slot);
    memcpy(asked, slot, n_ahead);
    memcpy(asked + n_ahead, question + at, len);
    strcpy(asked + n_ahead + len, mark + 2);
    ++*n;
    return add_sibling(w, asked);
}

kt_status kt__siblings_add(kt__lesson *l, kt_engine *engine, const kt__lesson_own *own,
                           kt_error *err) {
    sibling_writer w = {.lesson = l, .engine = engine, .own = own, .err = err};
    size_t n_taught = l->n;
    int n = 0;
    kt_status status;
    kt__arena_init(&w.arena, 1 << 14, 1 << 24);
    KT__TRY(kt__frame_find(engine->model, &w.frame, err));
    if (!w.frame.n_ahead) goto out;
    for (size_t turn = 0; turn < N_ASKS; turn++) { /* each is asked one before any is asked two */
        size_t ask = turn;
        for (size_t i = 0; i < n_taught && n < own->n; i++) {
            const kt__sample *s = &l->samples[i];
            if (s->kind != KT__SAMPLE_CORRECTION || s->use != KT__SAMPLE_DRAWN) continue;
            KT__TRY(write_sibling(&w, i, ask++, &n));
        }
    }
out:
    kt__frame_free(&w.frame);
    kt__arena_free(&w.arena);
    return status;
}
