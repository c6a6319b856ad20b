/* Answers held to constraints: each is whole and of its form, and the same bytes alone, in batches,
 * in slices, preempted, with speculation or without, on any number of threads, whether its
 * constraint was used before or not; refusals come before anything is computed; memory is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "grammar_fixture.h"
#include "requests/constraints.h"
#include "requests/speculator.h"
#include "requests_world.h"

#define TEXT(s) .text = (s), .len = sizeof(s) - 1

static const char person[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},"
    "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":120},\"tags\":{\"type\":\"array\","
    "\"items\":{\"enum\":[\"red\",\"green\",\"blue\"]},\"maxItems\":3,\"uniqueItems\":true}},"
    "\"required\":[\"name\",\"age\",\"tags\"],\"additionalProperties\":false}";
static const char *const answers_allowed[] = {"yes", "no", "perhaps"};
static const char *const story[] = {"the "};

static const kt_form forms[] = {
    {.kind = KT_FORM_JSON_OBJECT},
    {.kind = KT_FORM_JSON_SCHEMA, TEXT(person)},
    {.kind = KT_FORM_REGEX, TEXT("[A-Z][a-z]{2,8}( [a-z]{1,9}){2,6}\\.")},
    {.kind = KT_FORM_CHOICE, .choices = answers_allowed, .n_choices = 3},
    {.kind = KT_FORM_GRAMMAR, TEXT("root ::= line{1,3}\nline ::= \"- \" [a-z ]{3,20} \"\\n\"")},
    {.kind = KT_FORM_JSON_SCHEMA, TEXT(person), .blanks = true, .before = "<x>", .after = "</x>"},
};
enum { N_FORMS = sizeof forms / sizeof *forms, N_HELD = 12 };

static kt_request_params held_request(const world *w, int i, kt_constraint *what) {
    kt_request_params r = request_of(w, i);
    *what = (kt_constraint){.forms = &forms[i % N_FORMS], .n_forms = 1};
    if (i >= N_FORMS + 2 && i % 2) {
        what->triggers = story;
        what->n_triggers = 1;
        what->repeat = i % 4 == 1;
    }
    r.gen.n_predict = 160;
    r.gen.stop = NULL;
    r.gen.n_stop = 0;
    r.constraint = *what;
    return r;
}

static void submit_held(world *w, answer *out) {
    for (int i = 0; i < N_HELD; i++) {
        kt_constraint what;
        kt_request_params r = held_request(w, i, &what);
        submit_request(w, &r, &out[i]);
    }
}

static void answers_with(world *w, const kt_engine_params *ep, bool threaded, answer *out) {
    open_engine(w, ep);
    submit_held(w, out);
    run_to_end(w, threaded);
    expect_idle(w);
    close_engine(w);
}

/* ---- forms ---- */

static kt__grammar *grammar_of(const kt_form *f) {
    kt__gtext texts[3];
    kt__grammar *g;
    kt_error err = {0};
    for (size_t i = 0; i < f->n_choices; i++)
        texts[i] = (kt__gtext){f->choices[i], strlen(f->choices[i])};
    static const kt__grammar_kind kinds[] = {KT__GRAMMAR_JSON_OBJECT, KT__GRAMMAR_SCHEMA,
                                             KT__GRAMMAR_GBNF, KT__GRAMMAR_REGEX,
                                             KT__GRAMMAR_CHOICE};
    const kt__grammar_source source = {.kind = kinds[f->kind],
                                       .text = f->text,
                                       .len = f->len,
                                       .texts = texts,
                                       .n_texts = f->n_choices,
                                       .layout = f->blanks ? KT__LAYOUT_ANY : KT__LAYOUT_USUAL,
                                       .closed = true};
    MUST(kt__grammar_create(&source, &g, NULL, &err));
    return g;
}

static void expect_form(int i, const answer *a) {
    const kt_form *f = &forms[i % N_FORMS];
    kt__grammar *g = grammar_of(f);
    kt__gstate s;
    size_t before = f->before ? strlen(f->before) : 0, after = f->after ? strlen(f->after) : 0;
    bool ended = a->finish == KT_FINISH_EOG;
    size_t n = a->len - before - (ended ? after : 0), len = n;
    kt__grammar_start(g, &s);
    if (!kt__grammar_feed(g, &s, a->text + before, &n) || (ended && !kt__grammar_accepts(g, &s)))
        fail_msg("request %d: \"%.*s\" at %zu of %zu", i, (int)a->len, a->text, n, len);
    if (!ended && a->finish != KT_FINISH_LENGTH)
        fail_msg("request %d: %s after \"%.*s\"", i, a->error.message, (int)a->len, a->text);
    if (i % N_FORMS && i % N_FORMS != 5) assert_true(ended); /* they are short */
    kt__grammar_free(g);
}

static void test_answers_have_their_form(void **state) {
    world *w = *state;
    static answer out[N_HELD];
    answers_with(w, &(kt_engine_params){.n_parallel = 1, .n_ctx = 1024, .n_draft = -1}, false, out);
    for (int i = 0; i < N_FORMS + 2; i++) expect_form(i, &out[i]);
    for (int i = 0; i < N_HELD; i++) assert_true(out[i].len > 0);
}

/* ---- the same bytes ---- */

static void test_the_same_however_it_is_computed(void **state) {
    world *w = *state;
    static answer alone[N_HELD], out[N_HELD];
    const kt_engine_params ways[] = {
        {.n_parallel = 6, .n_ctx = 1024},
        {.n_parallel = 12, .n_ctx = 1024, .n_draft = -1, .n_threads = 1},
        {.n_parallel = 3, .n_ctx = 1024, .n_ubatch = 24, .gap_ms = 1},
        {.n_parallel = 5, .n_ctx = 512, .kv_bytes = 24 * page_bytes(w)},
        {.n_parallel = 4, .n_ctx = 1024, .n_draft = 12},
    };
    answers_with(w, &(kt_engine_params){.n_parallel = 1, .n_ctx = 1024, .n_draft = -1}, false,
                 alone);
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        answers_with(w, &ways[k], k == 1, out);
        for (int i = 0; i < N_HELD; i++) expect_same(i, &alone[i], &out[i]);
    }
}

/* Constraints, prompts and masks of the first round are found by the second. */
static void test_the_same_a_second_time(void **state) {
    world *w = *state;
    static answer first[N_HELD], again[N_HELD];
    open_engine(w, &(kt_engine_params){.n_parallel = 4, .n_ctx = 1024});
    submit_held(w, first);
    run_to_end(w, false);
    for (int i = 0; i < N_HELD; i++) close_request(w, &first[i]);
    submit_held(w, again);
    run_to_end(w, false);
    for (int i = 0; i < N_HELD; i++) {
        again[i].report.n_cached = first[i].report.n_cached;
        expect_same(i, &first[i], &again[i]);
    }
    close_engine(w);
}

static void test_choices_and_logprobs(void **state) {
    world *w = *state;
    static answer out[4];
    kt_constraint what;
    kt_request_params r = held_request(w, 1, &what);
    open_engine(w, &(kt_engine_params){.n_parallel = 3, .n_ctx = 1024});
    r.n_choices = 4;
    r.logprobs.n = 3;
    submit_choices(w, &r, out, 4);
    run_to_end(w, false);
    bool differ = false;
    for (int i = 0; i < 4; i++) {
        expect_form(1, &out[i]);
        differ |= out[i].len != out[0].len || memcmp(out[i].text, out[0].text, out[0].len) != 0;
        for (int k = 0; k < out[i].n_tokens; k++) assert_true(out[i].logprob[k] <= 0);
    }
    assert_true(differ);
    close_engine(w);
}

/* ---- in time ---- */

/* Whatever n_predict is, from the length of the shortest on: whole, and of its form. */
static void test_finish_within(void **state) {
    world *w = *state;
    static answer out;
    static const int which[] = {0, 1, 4};
    open_engine(w, &(kt_engine_params){.n_parallel = 2, .n_ctx = 1024});
    for (size_t k = 0; k < 3; k++) {
        for (int n = 24; n < 60; n += 5) {
            kt_constraint what;
            kt_request_params r = held_request(w, which[k], &what);
            r.constraint.finish_within = true;
            r.gen.n_predict = n + 20;
            r.gen.sampling.seed = (uint64_t)n;
            submit_request(w, &r, &out);
            run_to_end(w, false);
            expect_form(which[k], &out);
            assert_int_equal(out.finish, KT_FINISH_EOG);
            close_request(w, &out);
        }
    }
    close_engine(w);
}

/* What is forced is proposed: more tokens than steps, and the same. */
static void test_forced_tokens_are_proposed(void **state) {
    world *w = *state;
    static answer out;
    kt_constraint what;
    kt_request_params r = held_request(w, 1, &what);
    open_engine(w, &(kt_engine_params){.n_parallel = 1, .n_ctx = 1024, .n_draft = 8});
    kt__speculator_set_eager(w->engine->speculator, true);
    submit_request(w, &r, &out);
    run_to_end(w, false);
    expect_form(1, &out);
    assert_true(out.report.n_accepted >= 5);
    close_engine(w);
}

/* ---- refusals and memory ---- */

static void expect_refusal(world *w, const kt_form *f, kt_status expected, const char *where) {
    kt_request_params r = request_of(w, 0);
    kt_request *req;
    kt_error err = {0};
    r.constraint = (kt_constraint){.forms = f, .n_forms = 1};
    kt_status status = kt_engine_submit(w->engine, &r, &req, &err);
    if (status != expected) fail_msg("%s: %s", kt_status_name(status), err.message);
    assert_null(req);
    if (where) assert_string_equal(err.where, where);
}

static void test_refusals(void **state) {
    world *w = *state;
    static char huge[(4 << 20) + 64];
    memset(huge, ' ', sizeof huge - 1);
    kt_engine_stats stats;
    const kt_form rows[] = {
        {.kind = KT_FORM_JSON_SCHEMA, TEXT("{\"type\":\"objekt\"}")},
        {.kind = KT_FORM_JSON_SCHEMA, TEXT("{\"$ref\":\"http://example.org/a\"}")},
        {.kind = KT_FORM_JSON_SCHEMA,
         TEXT("{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}")},
        {.kind = KT_FORM_REGEX, TEXT("(?<=a)b")},
        {.kind = KT_FORM_REGEX, .text = huge, .len = sizeof huge - 1},
    };
    open_engine(w, &(kt_engine_params){.n_parallel = 1, .n_ctx = 512});
    expect_refusal(w, &rows[0], KT_E_FORMAT, "constraint.forms[0]/type");
    expect_refusal(w, &rows[1], KT_E_UNSUPPORTED, "constraint.forms[0]/$ref");
    expect_refusal(w, &rows[2], KT_E_UNSUPPORTED, NULL);
    expect_refusal(w, &rows[3], KT_E_UNSUPPORTED, NULL);
    expect_refusal(w, &rows[4], KT_E_LIMIT, NULL);
    kt_engine_get_stats(w->engine, &stats);
    assert_int_equal(stats.running + stats.waiting, 0);
    close_engine(w);
}

/* Those that are in use fill the account; what is refused may come when they have gone. */
static void test_memory_is_counted(void **state) {
    world *w = *state;
    kt__constraint *lent[64];
    kt_error err = {0};
    char text[64];
    int n = 0;
    open_engine(w, &(kt_engine_params){.n_parallel = 1, .n_ctx = 512});
    kt_status status = KT_OK;
    while (n < 64) {
        int len = snprintf(text, sizeof text, "a{%d}", n + 1);
        const kt_form f = {.kind = KT_FORM_REGEX, .text = text, .len = (size_t)len};
        const kt_constraint what = {.forms = &f, .n_forms = 1};
        status = kt__constraints_lend(w->engine, &what, &lent[n], &err);
        if (status != KT_OK) break;
        assert_true(kt__constraint_bytes(lent[n]) > 1 << 20);
        n++;
    }
    if (n == 64) fail_msg("%s", "no end to constraints");
    assert_true(n > 0);
    assert_int_equal(status, KT_E_BUSY);
    assert_true(err.retry_ms > 0);
    while (n > 0) kt__constraints_give_back(w->engine, lent[--n]);
    const kt_constraint any = {.forms = forms, .n_forms = 1};
    MUST(kt__constraints_lend(w->engine, &any, &lent[0], &err));
    kt__constraints_give_back(w->engine, lent[0]);
    MUST(kt__constraints_lend(w->engine, &any, &lent[1], &err));
    assert_ptr_equal(lent[0], lent[1]); /* the same one again */
    kt__constraints_give_back(w->engine, lent[1]);
    close_engine(w);
}

int main(void) {
    static world w;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_answers_have_their_form, &w),
        cmocka_unit_test_prestate(test_the_same_however_it_is_computed, &w),
        cmocka_unit_test_prestate(test_the_same_a_second_time, &w),
        cmocka_unit_test_prestate(test_choices_and_logprobs, &w),
        cmocka_unit_test_prestate(test_finish_within, &w),
        cmocka_unit_test_prestate(test_forced_tokens_are_proposed, &w),
        cmocka_unit_test_prestate(test_refusals, &w),
        cmocka_unit_test_prestate(test_memory_is_counted, &w),
    };
    world_open(&w);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world_close(&w);
    return failed;
}
