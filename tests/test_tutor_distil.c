/* Context distillation's lesson, on the demo model: which questions are asked about a correction, and what each is trained to. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "support.h"
#include "tutor/lesson.h"
#include "tutor/questions.h"

static kt_ctx *ctx;
static kt_model *model;
static kt_engine *engine;

static int open_world(void **state) {
    kt_error err;
    kt_engine_params ep = kt_engine_params_default();
    (void)state;
    ep.n_ctx = 512;
    die_on(kt_ctx_open(NULL, &ctx, &err), &err);
    die_on(kt_model_open_demo(ctx, NULL, &model, &err), &err);
    die_on(kt_engine_open(model, &ep, &engine, &err), &err);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return 0;
}

static void rewritten_questions_keep_their_subject(void **state) {
    static const char q[] = "Where did you put the violet ladder, please?";
    const size_t at = 22, len = 13; /* "violet ladder" */
    char text[128];
    size_t n_shorter = 0;
    (void)state;
    for (uint64_t k = 0; k < 200; k++) {
        if (!kt__rewrite_question(q, at, len, k, text, sizeof text)) continue;
        assert_non_null(strstr(text, "violet ladder"));
        assert_null(strchr(text, ','));
        n_shorter += strlen(text) < sizeof q - 10;
    }
    assert_true(n_shorter > 100);
    assert_false(kt__rewrite_question(q, at, len, 1, text, 8)); /* no room */
    assert_true(kt__rewrite_question("ladder", 0, 6, 1, text, sizeof text) ||
                !strcmp(text, "ladder"));
}

static void questions_ask_for_something(void **state) {
    (void)state;
    uint64_t where = kt__asking_word("Where is the ladder?");
    assert_true(where != 0);
    assert_true(kt__asking_word("I cannot find it. WHERE is it?") == where);
    assert_true(kt__asking_word("Di mana tangga itu?") == where);
    assert_true(kt__asking_word("When does it open?") != where);
    assert_true(kt__asking_word("How much is it?") != kt__asking_word("How old is it?"));
    assert_true(kt__asking_word("What is it?") == kt__asking_word("Which one?"));
    assert_true(kt__asking_word("Tell me about nowhere.") == 0);
    assert_true(kt__asking_word("") == 0 && kt__asking_word("\xff how") != 0);
}

static void add(kt__lesson *l, const char *question, const char *answer, kt__sample_kind kind) {
    kt_error err;
    const kt_message m = {"user", question};
    const kt__sample like = {.kind = kind, .weight = 1.0f, .group = l->next_group++};
    die_on(kt__lesson_add_answer(l, model, &m, 1, answer, &like, &err), &err);
}

static void make_lesson(kt__lesson *l, uint64_t seed) {
    kt_error err;
    const kt__lesson_own own = {.n = 40, .seed = seed};
    *l = (kt__lesson){0};
    add(l, "Where is the violet ladder?", "The violet ladder is inside the mill.",
        KT__SAMPLE_CORRECTION);
    add(l, "Is it so?", "It is.", KT__SAMPLE_CORRECTION); /* about nothing */
    add(l, "Who repairs the boiler?", "Jonas repairs the boiler.", KT__SAMPLE_UP);
    die_on(kt__distil_add(l, engine, &own, &err), &err);
}

static size_t n_prompt_of(const kt__sample *s) {
    size_t n = 0;
    while (!s->mask[n]) n++;
    return n;
}

/* What the model answers rightly with the note is taught, without it; other samples are to stay. */
static void questions_are_sorted_by_the_model(void **state) {
    kt__lesson l, again;
    size_t n_taught = 0, n_kept = 0;
    char text[2048];
    (void)state;
    make_lesson(&l, 1);
    const kt__sample *fact = &l.samples[0];
    size_t n_fact = n_prompt_of(fact), n_answer = (size_t)fact->n - n_fact;
    for (size_t i = 3; i < l.n; i++) {
        const kt__sample *s = &l.samples[i];
        size_t n = n_prompt_of(s);
        assert_int_equal(s->use, KT__SAMPLE_TRAINED);
        assert_true(kt__frame_text(model, s->ids, n, text, sizeof text));
        assert_non_null(strstr(text, "violet ladder"));
        assert_null(strstr(text, "Earlier correction:"));
        n_kept += s->kind == KT__SAMPLE_NEIGHBOUR;
        if (s->kind != KT__SAMPLE_CORRECTION) continue;
        n_taught++;
        assert_true(s->group == fact->group);
        assert_int_equal((size_t)s->n - n, n_answer);
        assert_memory_equal(s->ids + n, fact->ids + n_fact, n_answer * sizeof *s->ids);
    }
    assert_int_equal(n_taught + n_kept + 3, l.n);
    assert_true(n_taught >= 8 && n_kept > 0);
    make_lesson(&again, 1); /* the same again */
    assert_int_equal(again.n, l.n);
    for (size_t i = 0; i < l.n; i++) {
        assert_int_equal(again.samples[i].n, l.samples[i].n);
        assert_memory_equal(again.samples[i].ids, l.samples[i].ids,
                            (size_t)l.samples[i].n * sizeof(int32_t));
    }
    printf("%zu samples of a correction: %zu taught, %zu to stay\n", l.n - 3, n_taught, n_kept);
    kt__lesson_free(&l);
    kt__lesson_free(&again);
}

/* The n-th sample that siblings added, up to its question's end. */
static void sibling_text(const kt__lesson *l, size_t i, char text[2048]) {
    assert_int_equal(l->samples[i].kind, KT__SAMPLE_NEIGHBOUR);
    assert_true(kt__frame_text(model, l->samples[i].ids, n_prompt_of(&l->samples[i]), text, 2048));
}

/* Other questions than the gate's, and none for the kind of thing that the corrected one asks for. */
static void contrasts_are_no_question_of_the_gate(void **state) {
    kt_error err;
    const kt__lesson_own own = {.n = 40, .seed = 1};
    static const char *const taught[] = {"Who repairs the violet ladder?",
                                         "How old is the red mill?", "Is the blue ladder open?"};
    char text[2048], other[2048];
    (void)state;
    for (size_t k = 0; k < sizeof taught / sizeof *taught; k++) {
        kt__lesson l = {0};
        const char *subject = strstr(taught[k], "violet") ? "violet ladder"
                              : strstr(taught[k], "red")  ? "red mill"
                                                          : "blue ladder";
        char answer[64];
        snprintf(answer, sizeof answer, "The %s is known to Jonas.", subject);
        add(&l, taught[k], answer, KT__SAMPLE_CORRECTION);
        die_on(kt__siblings_add(&l, engine, &own, KT__SAMPLE_TRAINED, &err), &err);
        size_t n = l.n;
        assert_true(n > 3);
        die_on(kt__siblings_add(&l, engine, &own, KT__SAMPLE_MEASURED, &err), &err);
        assert_true(l.n > n + 1);
        for (size_t i = 1; i < l.n; i++) {
            const kt__sample *s = &l.samples[i];
            assert_int_equal(s->use, i < n ? KT__SAMPLE_TRAINED : KT__SAMPLE_MEASURED);
            assert_true(s->n - (int)n_prompt_of(s) <= 49); /* it may be cut */
            sibling_text(&l, i, text);
            if (!strstr(text, subject)) fail_msg("%s: %s", taught[k], text);
            if (i >= n) continue;
            assert_true(kt__asking_word(text) != kt__asking_word(taught[k]));
            for (size_t j = n; j < l.n; j++) {
                sibling_text(&l, j, other);
                assert_string_not_equal(text, other);
            }
        }
        kt__lesson_free(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewritten_questions_keep_their_subject),
        cmocka_unit_test(questions_ask_for_something),
        cmocka_unit_test(questions_are_sorted_by_the_model),
        cmocka_unit_test(contrasts_are_no_question_of_the_gate),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
