/* The instant loop: a step lowers the loss that it was taken for, the same bytes on every tier, what earlier feedback
 * needs moves less with EWC, and lessons that teach nothing change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernels/dispatch.h"
#include "learn/instant.h"
#include "model_fixture.h"

enum { N_TOK = 7, D = 32, N_SAID = 5 };

#define DENSE .n_layer = 1, .d_model = D, .d_ff = 64, .n_head = 4, .head_dim = 8, .n_head_kv = 2
static const fixture_spec specs[] = {
    {.arch = "llama", DENSE, .n_vocab = 190},
    {.arch = "qwen2", DENSE, .n_vocab = 203, .qkv_bias = true, .tied = true},
    {.arch = "gemma2", DENSE, .n_vocab = 150, .post_norm = true, .tied = true, .window = 12},
    {.arch = "granite", DENSE, .n_vocab = 177, .tied = true, .scales = {6.0f, 0.22f, 0.2f, 4.0f}},
};

typedef struct world {
    kt__gguf *gguf;
    kt__net *net;
    char path[64];
} world;

static void open_world(world *w, const fixture_spec *s) {
    const kt__gguf_open_params op = {.use_mmap = true};
    kt_error err;
    snprintf(w->path, sizeof w->path, "/tmp/kentang-instant-%d.gguf", (int)getpid());
    assert_int_equal(fixture_write(s, w->path, &err), KT_OK);
    assert_int_equal(kt__gguf_open(w->path, &op, &w->gguf, &err), KT_OK);
    assert_int_equal(kt__net_bind(w->gguf, NULL, &w->net, &err), KT_OK);
}

static void close_world(world *w) {
    kt__net_free(w->net);
    kt__gguf_close(w->gguf);
    unlink(w->path);
}

static kt__instant *open_instant(const world *w, const char *tier, float rate, float ewc) {
    const kt__instant_params params = {rate, ewc};
    const kt__kernels *kernels;
    kt__instant *t;
    kt__cpu cpu;
    char why[64];
    kt_error err;
    kt__cpu_detect(&cpu);
    assert_int_equal(kt__kernels_select(&cpu, tier, &kernels, why, sizeof why, &err), KT_OK);
    assert_int_equal(kt__instant_open(w->net, kernels, &params, &t, &err), KT_OK);
    return t;
}

typedef struct lesson {
    int8_t keys[N_TOK * D];
    int32_t ids[N_TOK], said[N_SAID];
    kt__instant_lesson of;
} lesson;

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void make_lesson(lesson *l, uint64_t id, int n_vocab) {
    uint32_t state = (uint32_t)id * 97u + 5u;
    for (int i = 0; i < N_TOK * D; i++) l->keys[i] = (int8_t)(next(&state) % 255) - 127;
    for (int i = 0; i < N_TOK; i++) l->ids[i] = (int32_t)(next(&state) % (uint32_t)n_vocab);
    for (int i = 0; i < N_SAID; i++) l->said[i] = (int32_t)(next(&state) % (uint32_t)n_vocab);
    l->of = (kt__instant_lesson){id, l->keys, l->ids, N_TOK, l->said, N_SAID};
}

static void test_a_step_lowers_the_loss(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        world w;
        open_world(&w, &specs[s]);
        for (uint64_t id = 1; id <= 8; id++) {
            lesson l;
            kt__instant *t = open_instant(&w, "ref", 1e-3f, 0.0f);
            make_lesson(&l, id, specs[s].n_vocab);
            assert_true(kt__instant_step(t, &l.of));
            double before = kt__instant_loss(t), last = before;
            for (int k = 0; k < 20; k++) {
                assert_true(kt__instant_step(t, &l.of));
                assert_true(kt__instant_loss(t) < last);
                last = kt__instant_loss(t);
            }
            assert_true(last < before - 1e-3);
            assert_int_equal(kt__instant_n_step(t), 21);
            kt__instant_close(t);
        }
        close_world(&w);
    }
}

static void test_every_tier_has_the_same_bytes(void **state) {
    (void)state;
    static const char *const tiers[] = {"ref", NULL};
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        world w;
        kt__instant *t[2];
        open_world(&w, &specs[s]);
        for (int i = 0; i < 2; i++) {
            t[i] = open_instant(&w, tiers[i], 0.01f, 0.1f);
            for (uint64_t id = 1; id <= 12; id++) {
                lesson l;
                make_lesson(&l, id, specs[s].n_vocab);
                assert_true(kt__instant_step(t[i], &l.of));
            }
        }
        const kt__factors *a = kt__instant_factors(t[0]), *b = kt__instant_factors(t[1]);
        assert_memory_equal(a->values, b->values, a->n_value * sizeof *a->values);
        kt__instant_close(t[0]);
        kt__instant_close(t[1]);
        close_world(&w);
    }
}

/* How much worse the first lesson is answered after many others than before them. */
static double forgotten(const world *w, float ewc) {
    lesson l;
    kt__instant *t = open_instant(w, "ref", 0.01f, ewc);
    make_lesson(&l, 1, specs[0].n_vocab);
    for (int k = 0; k < 20; k++) assert_true(kt__instant_step(t, &l.of));
    double before = kt__instant_loss(t);
    for (uint64_t id = 2; id <= 21; id++) {
        lesson other;
        make_lesson(&other, id, specs[0].n_vocab);
        assert_true(kt__instant_step(t, &other.of));
    }
    assert_true(kt__instant_step(t, &l.of));
    double after = kt__instant_loss(t);
    kt__instant_close(t);
    return after - before;
}

static void test_ewc_keeps_what_was_learned(void **state) {
    (void)state;
    world w;
    open_world(&w, &specs[0]);
    double without = forgotten(&w, 0.0f), with = forgotten(&w, 0.1f);
    assert_true(without > 0.01);
    assert_true(with < without / 2);
    close_world(&w);
}

static void test_nothing_to_learn_changes_nothing(void **state) {
    (void)state;
    world w;
    lesson l;
    open_world(&w, &specs[0]);
    kt__instant *t = open_instant(&w, "ref", 0.01f, 0.1f);
    make_lesson(&l, 1, specs[0].n_vocab);
    l.of.n = 0;
    assert_false(kt__instant_step(t, &l.of));
    make_lesson(&l, 2, specs[0].n_vocab);
    memset(l.keys, 0, sizeof l.keys);
    assert_false(kt__instant_step(t, &l.of));
    const kt__factors *f = kt__instant_factors(t);
    for (size_t i = 0; i < (size_t)f->rank * D; i++) assert_true(f->values[f->of[0].b + i] == 0.0f);
    kt__instant_close(t);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_lowers_the_loss),
        cmocka_unit_test(test_every_tier_has_the_same_bytes),
        cmocka_unit_test(test_ewc_keeps_what_was_learned),
        cmocka_unit_test(test_nothing_to_learn_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
