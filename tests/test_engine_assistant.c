/* Gemma 4's assistants: what they propose changes no byte of any answer, whatever form the keys and values have
 * that they read, and is right where they agree with their model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "requests/speculator.h"
#include "requests_world.h"
#include "support.h"

enum { N = 3, N_PREDICT = 90 };

typedef struct pair {
    world w;
    kt_model *assistant;
    char path[2][256];
} pair;

static void open_file(pair *p, int which, const char *preset, kt_model **out) {
    kt_error err;
    char command[1024], *path = p->path[which];
    snprintf(path, sizeof p->path[which], "%s/assistant-%d-%d.gguf", KT_BINARY_DIR, (int)getpid(),
             which);
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant q8_0 --seed 3 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, preset, path);
    assert_int_equal(system(command), 0);
    MUST(kt_model_open(p->w.ctx, path, NULL, out, &err));
}

static void open_pair(pair *p, const char *model, const char *assistant) {
    kt_error err;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = 1; /* as in test_engine_hybrids */
    *p = (pair){0};
    MUST(kt_ctx_open(&cp, &p->w.ctx, &err));
    open_file(p, 0, model, &p->w.model);
    open_file(p, 1, assistant, &p->assistant);
}

static void close_pair(pair *p) {
    kt_model_close(p->assistant);
    kt_model_close(p->w.model);
    kt_ctx_close(p->w.ctx);
    unlink(p->path[0]);
    unlink(p->path[1]);
}

static kt_engine_params params_of(const pair *p, bool drafts) {
    return (kt_engine_params){.n_parallel = N,
                              .n_ctx = 512,
                              .n_draft = drafts ? 4 : -1,
                              .draft_from = KT_DRAFT_MODEL,
                              .draft = drafts ? p->assistant : NULL};
}

/* Texts that end within pages and on their borders; windows pass over pages while answers grow. */
static void ask_all(pair *p, float temperature, answer *out) {
    int32_t ids[400];
    for (int i = 0; i < N; i++) {
        uint32_t seed = 90 + (uint32_t)i;
        int n = 95 + 61 * i;
        for (int k = 0; k < n; k++) ids[k] = (int32_t)lcg_below(&seed, 700);
        kt_request_params r = kt_request_params_default();
        r.prompt.ids = ids;
        r.prompt.n_ids = (size_t)n;
        r.logprobs.n = 5;
        r.gen.n_predict = N_PREDICT;
        r.gen.ignore_eog = true;
        r.gen.sampling.temperature = temperature;
        r.gen.sampling.seed = (uint64_t)i;
        submit_request(&p->w, &r, &out[i]);
    }
    run_to_end(&p->w, false);
}

/* Answers are as without. Returns the share of proposals that were right. */
static double proposed_right(pair *p, bool eager, float temperature) {
    static answer plain[N], drafted[N];
    int n_drafted = 0, n_accepted = 0;
    for (int drafts = 0; drafts < 2; drafts++) {
        kt_engine_params ep = params_of(p, drafts);
        open_engine(&p->w, &ep);
        if (drafts) kt__speculator_set_eager(p->w.engine->speculator, eager);
        ask_all(p, temperature, drafts ? drafted : plain);
        close_engine(&p->w);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(plain[i].n_tokens, N_PREDICT);
        assert_memory_equal(plain[i].ids, drafted[i].ids, sizeof plain[i].ids);
        assert_memory_equal(plain[i].logprob, drafted[i].logprob, sizeof plain[i].logprob);
        assert_memory_equal(plain[i].top, drafted[i].top, sizeof plain[i].top);
        n_drafted += drafted[i].report.n_drafted;
        n_accepted += drafted[i].report.n_accepted;
    }
    if (eager) assert_true(n_drafted > N_PREDICT);
    return n_drafted ? (double)n_accepted / n_drafted : 0.0;
}

static void test_answers_are_as_without(void **state) {
    static const char *const models[] = {"tiny-gemma4", "tiny-gemma4-a"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        pair p;
        char assistant[64];
        snprintf(assistant, sizeof assistant, "%s-assistant", models[i]);
        open_pair(&p, models[i], assistant);
        assert_true(proposed_right(&p, true, 0.0f) < 0.5);
        (void)proposed_right(&p, true, 0.8f);
        (void)proposed_right(&p, false, 0.8f);
        close_pair(&p);
    }
}

static void test_what_agrees_is_right(void **state) {
    (void)state;
    pair p;
    const char *narrow =
        "'" KT_BINARY_DIR
        "/kentang' synth --preset tiny-gemma4-assistant --mtp-agrees /dev/null 2>&1 "
        "| grep -q 'as wide as its model'";
    assert_int_equal(system(narrow), 0);
    open_pair(&p, "tiny-gemma4-a --mtp-agrees", "tiny-gemma4-a-assistant --mtp-agrees");
    double greedy = proposed_right(&p, true, 0.0f), drawn = proposed_right(&p, true, 0.8f);
    print_message("%.3f of what was proposed were right, %.3f of what was drawn\n", greedy, drawn);
    assert_true(greedy > 0.98);
    assert_true(drawn > 0.1 && drawn < 1.0);
    close_pair(&p);
}

/* It has scratch, and neither pages of its own nor of the model's. */
static void test_its_memory_is_planned(void **state) {
    (void)state;
    kt_error err;
    kt_mem_plan with, without;
    pair p;
    open_pair(&p, "tiny-gemma4", "tiny-gemma4-assistant");
    kt_engine_params ep = params_of(&p, true);
    MUST(kt_engine_plan(p.w.model, &ep, &with, &err));
    ep.draft_from = KT_DRAFT_TEXT;
    MUST(kt_engine_plan(p.w.model, &ep, &without, &err));
    assert_true(with.draft_bytes > 0 && without.draft_bytes == 0);
    assert_int_equal(with.kv_draft_bytes, 0);
    assert_int_equal(with.kv_bytes, without.kv_bytes);
    close_pair(&p);
}

static void test_it_is_no_model_and_of_one_model(void **state) {
    (void)state;
    kt_error err;
    kt_engine *engine;
    pair p;
    open_pair(&p, "tiny-gemma4", "tiny-gemma4-a-assistant");
    kt_engine_params ep = params_of(&p, true);
    assert_int_equal(kt_engine_open(p.w.model, &ep, &engine, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "key heads"));
    ep.draft = NULL;
    assert_int_equal(kt_engine_open(p.assistant, &ep, &engine, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "--draft-model"));
    close_pair(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_as_without),
        cmocka_unit_test(test_what_agrees_is_right),
        cmocka_unit_test(test_its_memory_is_planned),
        cmocka_unit_test(test_it_is_no_model_and_of_one_model),
    };
    cmocka_set_test_filter(getenv("KT_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
