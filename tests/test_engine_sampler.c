/* kt_sampler: a program that evaluates token by token draws the tokens of kt_generate. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "requests_world.h"

static kt_sampler *open_sampler(const world *w, const kt_sampling *sampling) {
    kt_error err;
    kt_sampler *sampler;
    MUST(kt_sampler_open(w->model, sampling, 2048, &sampler, &err));
    return sampler;
}

static void accept_prompt(kt_sampler *sampler, const kt_request_params *r) {
    kt_error err;
    for (size_t i = 0; i < r->prompt.n_ids; i++)
        MUST(kt_sampler_accept(sampler, r->prompt.ids[i], &err));
}

/* As many tokens as the answer has, each drawn, accepted and evaluated by the caller. */
static void draw_as(const kt_request_params *r, kt_sampler *sampler, kt_seq *seq,
                    const answer *expected) {
    kt_error err;
    int32_t id, again;
    MUST(kt_seq_eval(seq, r->prompt.ids, r->prompt.n_ids, &err));
    accept_prompt(sampler, r);
    for (int k = 0; k < expected->report.n_generated - 1; k++) {
        MUST(kt_sampler_sample(sampler, kt_seq_logits(seq), &id, &err));
        MUST(kt_sampler_sample(sampler, kt_seq_logits(seq), &again, &err));
        assert_int_equal(id, again);
        if (id != expected->ids[k]) fail_msg("token %d is %d, not %d", k, id, expected->ids[k]);
        MUST(kt_sampler_accept(sampler, id, &err));
        MUST(kt_seq_eval(seq, &id, 1, &err));
    }
}

static void test_tokens_are_those_of_generate(void **state) {
    world *w = *state;
    kt_error err;
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ctx = 2048;
    ep.n_seq_max = 2;
    open_engine(w, &ep);
    for (int i = 0; i < 8; i++) { /* each way of sampling twice */
        answer expected;
        kt_request_params r = request_of(w, i);
        answer_alone(w, i, &expected);
        kt_sampler *sampler = open_sampler(w, &r.gen.sampling);
        assert_true(kt_sampler_seed(sampler) == r.gen.sampling.seed);
        for (int pass = 0; pass < 2; pass++) {
            kt_seq *seq;
            MUST(kt_seq_open(w->engine, &seq, &err));
            draw_as(&r, sampler, seq, &expected);
            kt_seq_close(seq);
            kt_sampler_reset(sampler);
        }
        kt_sampler_close(sampler);
    }
    close_engine(w);
}

static void test_bad_arguments_are_refused(void **state) {
    world *w = *state;
    kt_error err;
    kt_model_info info;
    kt_sampling sampling = kt_sampling_default();
    kt_sampler *sampler = NULL;
    int32_t id;
    kt_model_get_info(w->model, &info);
    assert_int_equal(kt_sampler_open(w->model, NULL, 0, &sampler, &err), KT_E_ARG);
    assert_null(sampler);
    sampling.top_p = 2;
    assert_int_equal(kt_sampler_open(w->model, &sampling, 64, &sampler, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "top_p"));
    sampler = open_sampler(w, NULL);
    assert_int_equal(kt_sampler_accept(sampler, -1, &err), KT_E_ARG);
    assert_int_equal(kt_sampler_accept(sampler, info.n_vocab, &err), KT_E_ARG);
    float *logits = calloc((size_t)info.n_vocab, sizeof *logits);
    logits[3] = NAN;
    assert_int_equal(kt_sampler_sample(sampler, logits, &id, &err), KT_E_NUMERIC);
    for (int i = 0; i < info.n_vocab; i++) logits[i] = i == 7 ? 0.0f : -INFINITY;
    MUST(kt_sampler_sample(sampler, logits, &id, &err));
    assert_int_equal(id, 7);
    free(logits);
    kt_sampler_close(sampler);
    kt_sampler_close(NULL);
}

int main(void) {
    static world w;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_tokens_are_those_of_generate, &w),
        cmocka_unit_test_prestate(test_bad_arguments_are_refused, &w),
    };
    world_open(&w);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world_close(&w);
    return failed;
}
