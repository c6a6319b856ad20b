#include "tutor/questions.h"

#include <string.h>

#include "bank/bank.h"
#include "base/alloc.h"
#include "base/error.h"
#include "learn/learn.h"
#include "tutor/lesson.h"

enum {
    QUESTION_BYTES = 512,
    TEXTS_MOST = 48,
    WRITTEN_EACH = 32, /* questions that the model is let write for a correction */
    REWRITTEN_EACH = 10,
    QUESTION_TOKENS = 40, /* of what the model writes; longer ones are left out */
    NOTE_BYTES = 1 << 14
};
static const float temperature = 0.8f; /* of questions */

/* A correction and what is asked about it. */
typedef struct taught_fact {
    size_t sample, begin, end, first; /* tokens: of its question, and where its answer begins */
    char question[QUESTION_BYTES], answer[KT__BANK_ANSWER_MAX];
    size_t at, len; /* its subject in question */
    const int32_t *run;
    int n_run;      /* what its answer has and its question has not */
    size_t n_begin; /* bytes of its answer through the subject; 0: it has none */
    bool copied;    /* the model gives all of that run; else it begins as the correction and errs */
    char texts[TEXTS_MOST][QUESTION_BYTES];
    size_t n, n_written; /* the first ones are the model's own */
} taught_fact;

typedef struct distiller {
    kt__lesson *lesson;
    kt_engine *engine;
    const kt__lesson_own *own;
    kt__prompt_frame frame;
    kt__arena arena;
    taught_fact fact;
    kt__ask noted[KT__ASKS_AT_ONCE], plain[KT__ASKS_AT_ONCE];
    uint64_t n_written;
    kt_error *err;
} distiller;

static void free_asks(kt__ask *asks) {
    for (size_t i = 0; i < KT__ASKS_AT_ONCE; i++) {
        kt__free(asks[i].ids);
        asks[i] = (kt__ask){0};
    }
}

/* ---- prompts ---- */

/* After what is ahead of the corrected question. */
static kt_status prompt_of(distiller *d, const char *text, kt__ask *out) {
    const taught_fact *f = &d->fact;
    return kt__frame_prompt(&d->frame, d->engine->model, d->lesson->samples[f->sample].ids,
                            f->begin, text, &out->ids, &out->n, d->err);
}

static kt_status noted_prompt(distiller *d, const char *question, kt__ask *out) {
    const taught_fact *f = &d->fact;
    kt__buf text;
    kt__buf_init(&text, NOTE_BYTES);
    kt__bank_note(f->question, strlen(f->question), f->answer, strlen(f->answer), &text);
    (void)kt__buf_puts(&text, question);
    kt_status status = text.failed ? kt__fail_nomem(d->err, "a note", NOTE_BYTES)
                                   : prompt_of(d, text.data, out);
    kt__buf_free(&text);
    return status;
}

/* ---- questions ---- */

static void add_text(taught_fact *f, const char *text) {
    if (f->n == TEXTS_MOST) return;
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->texts[i], text)) return;
    strcpy(f->texts[f->n++], text);
}

static bool has_subject(const taught_fact *f, const char *text) {
    return memmem(text, strlen(text), f->question + f->at, f->len) != NULL;
}

/* What the model writes in its user's place after the note, if it is about the subject. */
static kt_status write_questions(distiller *d, size_t n) {
    taught_fact *f = &d->fact;
    char text[QUESTION_BYTES];
    kt_status status = KT_OK;
    for (size_t i = 0; i < n; i += KT__ASKS_AT_ONCE) {
        size_t m = n - i < KT__ASKS_AT_ONCE ? n - i : KT__ASKS_AT_ONCE;
        for (size_t k = 0; k < m; k++) {
            KT__TRY(noted_prompt(d, "", &d->noted[k]));
            d->noted[k].n -= d->frame.n_after;
        }
        KT__TRY(kt__asked_drawn(d->engine, d->own, d->noted, m, temperature,
                                d->own->seed * 1000003u + d->n_written, QUESTION_TOKENS, d->err));
        d->n_written += m;
        for (size_t k = 0; k < m; k++) {
            const kt__ask *a = &d->noted[k];
            if (a->n_answer > 1 &&
                kt__frame_text(d->engine->model, a->answer, a->n_answer - 1, text, sizeof text) &&
                has_subject(f, text))
                add_text(f, text);
        }
        free_asks(d->noted);
    }
out:
    free_asks(d->noted);
    return status;
}

static void rewrite_question(distiller *d, size_t n) {
    taught_fact *f = &d->fact;
    char text[QUESTION_BYTES];
    for (uint64_t k = 0; k < n; k++)
        if (kt__rewrite_question(f->question, f->at, f->len,
                                 (d->own->seed << 32) + f->sample * 64 + k, text, sizeof text))
            add_text(f, text);
}

/* ---- answers ---- */

typedef enum answer_kind {
    ANSWER_TAUGHT,
    ANSWER_OTHER,
    ANSWER_UNCLEAR /* a part of the correction, or all of it to another question: it teaches nothing */
} answer_kind;

static bool gives_run(const taught_fact *f, const kt__ask *a) {
    return kt__gate_has_run(a->answer, a->n_answer, f->run, (size_t)f->n_run);
}

/* It is the correction's through the subject. */
static bool begins_right(const distiller *d, const kt__ask *a) {
    const taught_fact *f = &d->fact;
    char text[KT__BANK_ANSWER_MAX];
    return f->n_begin > 0 &&
           kt__frame_text(d->engine->model, a->answer, a->n_answer, text, sizeof text) &&
           strncmp(text, f->answer, f->n_begin) == 0;
}

static answer_kind judge_answer(const distiller *d, const kt__ask *a) {
    const taught_fact *f = &d->fact;
    if (gives_run(f, a) || (!f->copied && begins_right(d, a))) return ANSWER_TAUGHT;
    bool part = kt__gate_has_run(a->answer, a->n_answer, f->run, 1);
    return a->n_answer == 0 || part ? ANSWER_UNCLEAR : ANSWER_OTHER;
}

static kt_status add_taught(distiller *d, const kt__ask *a) {
    const kt__sample s = d->lesson->samples[d->fact.sample];
    const kt__sample like = {
        .kind = s.kind, .weight = s.weight, .group = s.group, .use = KT__SAMPLE_TRAINED};
    return kt__lesson_add_tokens(d->lesson, a->ids, a->n, s.ids + d->fact.first,
                                 (size_t)s.n - d->fact.first, &like, d->err);
}

static kt_status add_kept(distiller *d, const kt__ask *a) {
    const kt__sample like = {.kind = KT__SAMPLE_NEIGHBOUR,
                             .weight = 1.0f,
                             .group = d->lesson->next_group++,
                             .use = KT__SAMPLE_TRAINED};
    if (a->n_answer == 0) return KT_OK;
    return kt__lesson_add_tokens(d->lesson, a->ids, a->n, a->answer, a->n_answer, &like, d->err);
}

/* A small model takes a note for the answer to whatever is asked about its subject: what it wrote itself and asks for
 * a thing of another kind than the corrected question is no wording of that. */
static answer_kind sort_text(const distiller *d, size_t i, const kt__ask *a) {
    const taught_fact *f = &d->fact;
    answer_kind kind = judge_answer(d, a);
    if (kind != ANSWER_TAUGHT || i >= f->n_written) return kind;
    uint64_t asks = kt__asking_word(f->question), own = kt__asking_word(f->texts[i]);
    return !asks || !own || own == asks || own == kt__asking_word("what") ? kind : ANSWER_UNCLEAR;
}

static kt_status add_wording(distiller *d, const char *text) {
    kt__ask plain = {0};
    KT__STEP(prompt_of(d, text, &plain));
    kt_status status = add_taught(d, &plain);
    kt__free(plain.ids);
    return status;
}

/* Texts [from, from + n) are asked with the note, and what it does not answer without. */
static kt_status distil_texts(distiller *d, size_t from, size_t n) {
    size_t n_other = 0;
    kt_status status = KT_OK;
    for (size_t k = 0; k < n; k++) KT__TRY(noted_prompt(d, d->fact.texts[from + k], &d->noted[k]));
    KT__TRY(kt__asked_all(d->engine, d->own, d->noted, n, d->err));
    for (size_t k = 0; k < n; k++) {
        const char *text = d->fact.texts[from + k];
        answer_kind kind = sort_text(d, from + k, &d->noted[k]);
        if (kind == ANSWER_TAUGHT) KT__TRY(add_wording(d, text));
        if (kind == ANSWER_OTHER) KT__TRY(prompt_of(d, text, &d->plain[n_other++]));
    }
    KT__TRY(kt__asked_all(d->engine, d->own, d->plain, n_other, d->err));
    for (size_t k = 0; k < n_other; k++) KT__TRY(add_kept(d, &d->plain[k]));
out:
    free_asks(d->noted);
    free_asks(d->plain);
    return status;
}

/* ---- corrections ---- */

/* false: it has no subject, or is no question in the template's form. */
static bool read_fact(distiller *d, size_t i) {
    taught_fact *f = &d->fact;
    const kt__sample *s = &d->lesson->samples[i];
    const kt_model *model = d->engine->model;
    f->sample = i;
    f->n = 0;
    if (!kt__frame_last_question(&d->frame, model, s, &f->begin, &f->end)) return false;
    f->first = f->end + d->frame.n_after;
    f->n_run = kt__gate_taught_run(s, &f->run);
    if (f->n_run == 0 ||
        !kt__frame_text(model, s->ids + f->begin, f->end - f->begin, f->question,
                        sizeof f->question) ||
        !kt__frame_text(model, s->ids + f->first, (size_t)s->n - f->first, f->answer,
                        sizeof f->answer) ||
        !kt__phrase_find(&d->arena, f->question, f->answer, &f->at, &f->len))
        return false;
    const char *subject = memmem(f->answer, strlen(f->answer), f->question + f->at, f->len);
    f->n_begin = subject ? (size_t)(subject - f->answer) + f->len : 0;
    return true;
}

/* Whether the model gives the correction where it is in its prompt: else it has nothing to teach. */
static kt_status ask_itself(distiller *d, bool *gives) {
    kt_status status;
    d->fact.copied = false;
    KT__TRY(noted_prompt(d, d->fact.question, &d->noted[0]));
    KT__TRY(kt__asked_all(d->engine, d->own, d->noted, 1, d->err));
    *gives = judge_answer(d, &d->noted[0]) == ANSWER_TAUGHT;
    d->fact.copied = gives_run(&d->fact, &d->noted[0]);
out:
    free_asks(d->noted);
    return status;
}

static kt_status distil_fact(distiller *d, size_t i, size_t n_written) {
    bool gives = false;
    if (!read_fact(d, i)) return KT_OK;
    KT__STEP(ask_itself(d, &gives));
    if (!gives) return KT_OK;
    KT__STEP(write_questions(d, n_written));
    d->fact.n_written = d->fact.n;
    rewrite_question(d, n_written < REWRITTEN_EACH ? n_written : REWRITTEN_EACH);
    for (size_t k = 0; k < d->fact.n; k += KT__ASKS_AT_ONCE) {
        size_t left = d->fact.n - k;
        KT__STEP(distil_texts(d, k, left < KT__ASKS_AT_ONCE ? left : KT__ASKS_AT_ONCE));
    }
    return KT_OK;
}

static bool is_correction(const kt__sample *s) {
    return s->kind == KT__SAMPLE_CORRECTION && s->use == KT__SAMPLE_DRAWN;
}

static kt_status distil_all(distiller *d) {
    size_t n = d->lesson->n, n_facts = 0;
    KT__STEP(kt__frame_find(d->engine->model, &d->frame, d->err));
    for (size_t i = 0; i < n; i++) n_facts += is_correction(&d->lesson->samples[i]);
    size_t each = n_facts ? (size_t)d->own->n * 5 / 2 / n_facts : 0;
    if (each > WRITTEN_EACH) each = WRITTEN_EACH;
    for (size_t i = 0; i < n && d->frame.n_ahead > 0; i++)
        if (is_correction(&d->lesson->samples[i])) KT__STEP(distil_fact(d, i, each));
    return KT_OK;
}

kt_status kt__distil_add(kt__lesson *l, kt_engine *engine, const kt__lesson_own *own,
                         kt_error *err) {
    distiller *d = kt__calloc(1, sizeof *d);
    if (!d) return kt__fail_nomem(err, "questions about what was corrected", sizeof *d);
    d->lesson = l;
    d->engine = engine;
    d->own = own;
    d->err = err;
    kt__arena_init(&d->arena, 1 << 14, 1 << 24);
    kt_status status = distil_all(d);
    kt__frame_free(&d->frame);
    kt__arena_free(&d->arena);
    kt__free(d);
    return status;
}
