#include "tutor/siblings.h"

#include <string.h>

#include "bank/words.h"
#include "base/alloc.h"
#include "base/error.h"
#include "tutor/asked.h"
#include "tutor/frame.h"

enum { QUESTION_BYTES = 1024, SUBJECT_BYTES = 96, WORDS_MOST = 64 };

static const char *const english[] = {"Is %s well known?", "Write a poem about %s.",
                                      "Why do people talk about %s?",
                                      "What would you say about %s?"};
static const char *const indonesian[] = {"Apakah %s terkenal?", "Tulis puisi tentang %s.",
                                         "Mengapa orang membicarakan %s?",
                                         "Apa pendapatmu tentang %s?"};
enum { N_ASKS = sizeof english / sizeof *english };

/* ---- the subject ---- */

static bool is_letter_at(const char *s) {
    unsigned char c = (unsigned char)*s;
    return c >= 0x80 || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
}

/* Where a word of text begins, whatever its case; NULL: nowhere as it is written there. */
static const char *find_word(const char *text, const kt__word *w) {
    for (const char *at = text; *at; at++) {
        size_t i = 0;
        if (at > text && is_letter_at(at - 1)) continue;
        while (i < w->len && at[i] && (at[i] | 32) == (w->s[i] | 32)) i++;
        if (i == w->len) return at;
    }
    return NULL;
}

static bool is_in_words(const kt__word *words, size_t n, const kt__word *w) {
    for (size_t i = 0; i < n; i++)
        if (words[i].hash == w->hash) return true;
    return false;
}

/* The part of a question from the first to the last word that says what it is about and is in the answer, too. */
static bool find_subject(kt__arena *arena, const char *question, const char *answer,
                         char out[SUBJECT_BYTES]) {
    kt__word q[WORDS_MOST], a[WORDS_MOST];
    size_t n_q, n_a;
    const char *begin = NULL, *end = NULL;
    if (!kt__words_of(arena, question, strlen(question), q, WORDS_MOST, &n_q) ||
        !kt__words_of(arena, answer, strlen(answer), a, WORDS_MOST, &n_a))
        return false;
    for (size_t i = 0; i < n_q; i++) {
        bool says = q[i].kind == KT__WORD_PLAIN || q[i].kind == KT__WORD_QUALITY || q[i].name;
        const char *at = says && is_in_words(a, n_a, &q[i]) ? find_word(question, &q[i]) : NULL;
        if (!at) continue;
        if (!begin || at < begin) begin = at;
        if (at + q[i].len > end || !end) end = at + q[i].len;
    }
    if (!begin || end - begin >= SUBJECT_BYTES) return false;
    memcpy(out, begin, (size_t)(end - begin));
    out[end - begin] = '\0';
    return true;
}

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

/* One about the subject of samples[i], where it has one; *n counts them. */
static kt_status write_sibling(sibling_writer *w, size_t i, int *n) {
    const kt__sample *s = &w->lesson->samples[i];
    const kt_model *model = w->engine->model;
    char question[QUESTION_BYTES], answer[QUESTION_BYTES], subject[SUBJECT_BYTES];
    char asked[SUBJECT_BYTES + 64];
    size_t begin, end;
    if (!kt__frame_last_question(&w->frame, model, s, &begin, &end)) return KT_OK;
    size_t first = end + w->frame.n_after;
    if (!kt__frame_text(model, s->ids + begin, end - begin, question, sizeof question) ||
        !kt__frame_text(model, s->ids + first, (size_t)s->n - first, answer, sizeof answer) ||
        !find_subject(&w->arena, question, answer, subject))
        return KT_OK;
    bool in_english = strstr(question, " the ") || strstr(question, " is ") ||
                      strstr(question, " does ") || strncmp(question, "Wh", 2) == 0;
    const char *const *asks = in_english ? english : indonesian;
    const char *slot = asks[(size_t)*n % N_ASKS], *mark = strstr(slot, "%s");
    size_t n_ahead = (size_t)(mark - slot);
    memcpy(asked, slot, n_ahead);
    strcpy(asked + n_ahead, subject);
    strcat(asked, mark + 2);
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
    for (size_t i = 0; i < n_taught && n < own->n && w.frame.n_ahead > 0; i++) {
        const kt__sample *s = &l->samples[i];
        if (s->kind != KT__SAMPLE_CORRECTION || s->use != KT__SAMPLE_DRAWN) continue;
        KT__TRY(write_sibling(&w, i, &n));
    }
out:
    kt__frame_free(&w.frame);
    kt__arena_free(&w.arena);
    return status;
}
