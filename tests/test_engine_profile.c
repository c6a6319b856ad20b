/* engine: a profile's parts sum to the whole, and watching changes no answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "kentang.h"
#include "support.h"

typedef struct fixture {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
} fixture;

/* The demo model, or, in a library without it, a small synthetic one. */
static void open_model(fixture *f) {
    kt_error err;
    char path[256], command[1024];
    kt_status status = kt_model_open_demo(f->ctx, NULL, &f->model, &err);
    if (status == KT_OK) return;
    assert_int_equal(status, KT_E_UNSUPPORTED);
    snprintf(path, sizeof path, "%s/profile-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command, "'%s/kentang' synth --preset tiny-qwen2 '%s' 2>/dev/null",
             KT_BINARY_DIR, path);
    assert_int_equal(system(command), 0);
    die_on(kt_model_open(f->ctx, path, NULL, &f->model, &err), &err);
    unlink(path);
}

static fixture set_up(int n_threads) {
    fixture f;
    kt_error err;
    kt_ctx_params params = kt_ctx_params_default();
    params.n_threads = n_threads;
    die_on(kt_ctx_open(&params, &f.ctx, &err), &err);
    open_model(&f);
    kt_engine_params alone = kt_engine_params_default();
    alone.n_draft = -1; /* one token a batch */
    die_on(kt_engine_open(f.model, &alone, &f.engine, &err), &err);
    die_on(kt_seq_open(f.engine, &f.seq, &err), &err);
    return f;
}

/* What layers and threads had sums to what their phase says. */
static void expect_divided(kt_engine *engine, const kt_profile *p) {
    enum { MOST = 64 };
    double prefill[MOST], decode[MOST], sum = 0, busy = 0;
    size_t n = kt_engine_get_profile_layers(engine, prefill, decode, MOST);
    assert_in_range(n, 1, MOST);
    for (size_t i = 0; i < n; i++) {
        assert_true(prefill[i] > 0 && decode[i] > 0);
        sum += decode[i];
    }
    assert_true(sum < p->decode.total_ms);
    assert_true(sum > 0.5 * p->decode.total_ms);
    n = kt_engine_get_profile_threads(engine, prefill, decode, MOST);
    for (size_t i = 0; i < n; i++) busy += decode[i];
    assert_true(busy > 0 && decode[0] > 0);
    assert_true(busy <= (double)n * p->decode.total_ms);
    assert_int_equal(kt_engine_get_profile_layers(engine, NULL, NULL, 0),
                     kt_engine_get_profile_layers(engine, prefill, decode, 1));
}

static void tear_down(fixture *f) {
    kt_seq_close(f->seq);
    kt_engine_close(f->engine);
    kt_model_close(f->model);
    kt_ctx_close(f->ctx);
}

typedef struct text {
    char bytes[8192];
    size_t len;
} text;

static bool on_text(void *user, const char *bytes, size_t len, int32_t id) {
    text *t = user;
    (void)id;
    assert_true(t->len + len < sizeof t->bytes);
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    return true;
}

/* An answer of 100 tokens; returns the wall time seen from outside. */
static double answer(fixture *f, text *out) {
    kt_error err;
    kt_message message = {"user", "Tell me a long story about a small computer and a potato."};
    kt_request_params request = kt_request_params_default();
    request.seq = f->seq;
    request.prompt.messages = &message;
    request.prompt.n_messages = 1;
    request.service.no_cache = true; /* each time all is computed */
    request.gen.n_predict = 100;
    request.gen.ignore_eog = true;
    request.gen.sampling.seed = 3;
    int64_t start_ns = kt__now_ns();
    die_on(kt_request_run(f->engine, &request, on_text, out, NULL, &err), &err);
    return (double)(kt__now_ns() - start_ns) * 1e-6;
}

static double sum_of_parts(const kt_profile_phase *phase) {
    double sum = 0;
    for (int i = 0; i < KT_PROFILE_PARTS; i++) {
        assert_true(phase->part_ms[i] >= 0);
        sum += phase->part_ms[i];
    }
    return sum;
}

static double sum_of_all(const kt_profile *p) {
    return p->template_ms + p->tokenize_ms + p->setup_ms + sum_of_parts(&p->prefill) +
           sum_of_parts(&p->decode) + p->sample_ms + p->detokenize_ms + p->callback_ms;
}

static void expect_close(const char *what, double got, double want, double tolerance) {
    if (got > want * (1 + tolerance) || got < want * (1 - tolerance))
        fail_msg("%s: %.3f ms of %.3f ms", what, got, want);
}

static void test_the_parts_sum_to_the_whole(void **state) {
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        fixture f = set_up(n_threads);
        kt_profile p;
        text out = {.len = 0};
        double wall_ms = 0;
        (void)state;
        /* the processor may be taken away at any two places; at one of a few tries it is not */
        for (int try = 0; try < 5; try++) {
            out.len = 0;
            die_on(kt_seq_truncate(f.seq, 0, NULL), &(kt_error){0});
            kt_engine_profile_enable(f.engine, true);
            wall_ms = answer(&f, &out);
            kt_engine_get_profile(f.engine, &p);
            if (sum_of_all(&p) > 0.98 * wall_ms) break;
        }
        expect_close("total", p.total_ms, wall_ms, 0.02);
        expect_close("sum", sum_of_all(&p), wall_ms, 0.02);
        expect_close("prefill", sum_of_parts(&p.prefill), p.prefill.total_ms, 1e-6);
        assert_true(p.prefill.n_tok > 10);
        assert_int_equal(p.prefill.n_batches, 1);
        assert_int_equal(p.decode.n_tok, 99);
        assert_int_equal(p.decode.n_batches, 99);
        assert_true(p.decode.part_ms[KT_PROFILE_GATE_UP] > 0);
        assert_true(p.decode.part_ms[KT_PROFILE_ATTENTION] > 0);
        assert_true(p.decode.part_ms[KT_PROFILE_HEAD] > 0);
        assert_true(p.template_ms > 0 && p.tokenize_ms > 0 && p.sample_ms > 0);
        assert_true(p.decode.busy_share > 0 && p.decode.busy_share < 1.01);
        if (n_threads == 1) assert_true(p.decode.part_ms[KT_PROFILE_BARRIER] == 0);
        expect_divided(f.engine, &p);
        tear_down(&f);
    }
}

static void test_watching_changes_nothing(void **state) {
    (void)state;
    text plain = {.len = 0}, watched = {.len = 0};
    fixture f = set_up(2);
    kt_profile p;
    (void)answer(&f, &plain);
    kt_engine_get_profile(f.engine, &p);
    assert_true(p.total_ms == 0 && p.decode.n_tok == 0);
    tear_down(&f);
    f = set_up(2);
    kt_engine_profile_enable(f.engine, true);
    (void)answer(&f, &watched);
    assert_int_equal(plain.len, watched.len);
    assert_memory_equal(plain.bytes, watched.bytes, plain.len);
    kt_engine_profile_enable(f.engine, false);
    kt_engine_get_profile(f.engine, &p);
    double before_ms = p.total_ms;
    assert_true(before_ms > 0);
    (void)answer(&f, &watched);
    kt_engine_get_profile(f.engine, &p);
    assert_true(p.total_ms == before_ms);
    tear_down(&f);
}

static void test_evaluation_alone_is_counted(void **state) {
    (void)state;
    fixture f = set_up(2);
    kt_profile p;
    kt_error err;
    int32_t ids[40];
    for (int i = 0; i < 40; i++) ids[i] = 100 + i;
    kt_engine_profile_enable(f.engine, true);
    die_on(kt_seq_eval(f.seq, ids, 40, &err), &err);
    die_on(kt_seq_eval(f.seq, ids, 1, &err), &err);
    kt_engine_get_profile(f.engine, &p);
    assert_int_equal(p.prefill.n_tok, 40);
    assert_int_equal(p.decode.n_tok, 1);
    assert_true(p.total_ms >= p.prefill.total_ms + p.decode.total_ms);
    assert_string_equal(kt_profile_part_name(KT_PROFILE_ATTENTION), "attention");
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_parts_sum_to_the_whole),
        cmocka_unit_test(test_watching_changes_nothing),
        cmocka_unit_test(test_evaluation_alone_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
