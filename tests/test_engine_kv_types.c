/* Keys and values in other types than f16: whatever was done to a sequence before, its logits are
 * those of the same tokens evaluated at once; the plan counts what they take; other types are
 * refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "context/model.h"
#include "kentang.h"
#include "requests/plan.h"
#include "support.h"

enum { N_SEQ = 4, MAX_LEN = 400, N_CTX = 512 };

typedef struct kv_types {
    kt_kv_type keys, values;
    int32_t tail;
} kv_types;

static const kv_types types[] = {{KT_KV_F16, KT_KV_F16, 0},    {KT_KV_Q8_0, KT_KV_Q8_0, 0},
                                 {KT_KV_Q8_0, KT_KV_F16, 0},   {KT_KV_F16, KT_KV_Q8_0, 0},
                                 {KT_KV_Q4_0, KT_KV_Q4_0, -1}, {KT_KV_Q4_0, KT_KV_Q4_0, 64},
                                 {KT_KV_Q8_0, KT_KV_Q4_0, 10}, {KT_KV_Q8_0, KT_KV_Q8_0, 128},
                                 {KT_KV_Q4_0, KT_KV_Q4_0, 0},  {KT_KV_F16, KT_KV_Q4_0, 96}};
enum { N_TYPES = sizeof types / sizeof *types };

static kt_model *open_demo(kt_ctx **ctx, uint64_t mem_bytes) {
    kt_error err;
    kt_model *model;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = 1; /* as in test_engine_hybrids */
    cp.mem_bytes = mem_bytes;
    die_on(kt_ctx_open(&cp, ctx, &err), &err);
    die_on(kt_model_open_demo(*ctx, NULL, &model, &err), &err);
    return model;
}

static kt_engine *open_engine(kt_model *model, kv_types of) {
    kt_error err;
    kt_engine *engine;
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ctx = N_CTX;
    ep.n_ubatch = 64;
    ep.n_seq_max = N_SEQ + 2;
    ep.n_parallel = 4;
    ep.kv_keys = of.keys;
    ep.kv_values = of.values;
    ep.kv_tail = of.tail;
    die_on(kt_engine_open(model, &ep, &engine, &err), &err);
    return engine;
}

/* ---- whatever happened before ---- */

typedef struct world {
    kt_engine *engine;
    kt_seq *seqs[N_SEQ];
    int32_t n_vocab;
    uint32_t seed;
    char path[128];
} world;

static void append(world *w, kt_seq *seq) {
    int32_t ids[90];
    kt_error err;
    size_t n = 1 + lcg_below(&w->seed, 90);
    if (kt_seq_len(seq) + n > MAX_LEN) n = MAX_LEN - kt_seq_len(seq);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)lcg_below(&w->seed, 50); /* prefixes come again */
    if (n) die_on(kt_seq_eval(seq, ids, n, &err), &err);
}

static void replace_by_copy(world *w, int i, int j) {
    kt_error err;
    if (i == j) return;
    kt_seq_close(w->seqs[i]);
    die_on(kt_seq_copy(w->seqs[j], &w->seqs[i], &err), &err);
}

static void replace_by_saved(world *w, int i, int j) {
    kt_error err;
    if (!kt_seq_len(w->seqs[j])) return;
    die_on(kt_seq_save(w->seqs[j], w->path, &err), &err);
    die_on(kt_seq_restore(w->seqs[i], w->path, &err), &err);
}

/* The same tokens at once, on a sequence of their own. */
static void expect_as_at_once(world *w, kt_seq *seq) {
    kt_error err;
    kt_seq *fresh;
    if (!kt_seq_logits(seq)) return;
    die_on(kt_seq_open(w->engine, &fresh, &err), &err);
    die_on(kt_seq_eval(fresh, kt_seq_tokens(seq), kt_seq_len(seq), &err), &err);
    assert_memory_equal(kt_seq_logits(fresh), kt_seq_logits(seq),
                        (size_t)w->n_vocab * sizeof(float));
    kt_seq_close(fresh);
}

static void disturb(world *w) {
    kt_error err;
    int i = (int)lcg_below(&w->seed, N_SEQ), j = (int)lcg_below(&w->seed, N_SEQ);
    kt_seq *seq = w->seqs[i];
    switch (lcg_below(&w->seed, 8)) {
    case 0:
    case 1: die_on(kt_seq_truncate(seq, kt_seq_len(seq) / 2, &err), &err); break;
    case 2: replace_by_copy(w, i, j); break;
    case 3: replace_by_saved(w, i, j); break;
    default: append(w, seq); expect_as_at_once(w, seq);
    }
}

static void test_random_schedule(void **state) {
    (void)state;
    kt_ctx *ctx;
    kt_model *model = open_demo(&ctx, 0);
    kt_model_info info;
    kt_model_get_info(model, &info);
    for (int t = 0; t < N_TYPES; t++) {
        kt_error err;
        world w = {.engine = open_engine(model, types[t]), .n_vocab = info.n_vocab, .seed = 5};
        snprintf(w.path, sizeof w.path, "/tmp/kentang-kv-types-%d", (int)getpid());
        for (int i = 0; i < N_SEQ; i++) die_on(kt_seq_open(w.engine, &w.seqs[i], &err), &err);
        for (int step = 0; step < 80; step++) disturb(&w);
        for (int i = 0; i < N_SEQ; i++) kt_seq_close(w.seqs[i]);
        kt_engine_close(w.engine);
        remove(w.path);
    }
    kt_model_close(model);
    kt_ctx_close(ctx);
}

static bool keys_in_4(int t) {
    return types[t].keys == KT_KV_Q4_0;
}

/* Within the first page nothing is quantised; after it, or after the tail, something is. */
static void test_answers_differ_behind_the_first_page(void **state) {
    (void)state;
    kt_ctx *ctx;
    kt_error err;
    kt_model_info info;
    kt_model *model = open_demo(&ctx, 0);
    kt_model_get_info(model, &info);
    size_t bytes = (size_t)info.n_vocab * sizeof(float);
    float *plain[3] = {malloc(bytes), malloc(bytes), malloc(bytes)};
    int32_t ids[40];
    for (int i = 0; i < 40; i++) ids[i] = 100 + 7 * i;
    for (int t = 0; t < N_TYPES; t++) {
        kt_engine *engine = open_engine(model, types[t]);
        kt_seq *seq;
        die_on(kt_seq_open(engine, &seq, &err), &err);
        die_on(kt_seq_eval(seq, ids, 16, &err), &err);
        if (t == 0) memcpy(plain[0], kt_seq_logits(seq), bytes);
        assert_memory_equal(kt_seq_logits(seq), plain[0], bytes);
        die_on(kt_seq_eval(seq, ids + 16, 24, &err), &err);
        if (t == 0) memcpy(plain[1], kt_seq_logits(seq), bytes);
        /* all of it is within the tail, or its page 0 and 1 are */
        bool same = t == 0 || types[t].tail >= 16 || (types[t].tail == 0 && keys_in_4(t)) ||
                    types[t].tail == 10;
        assert_int_equal(memcmp(kt_seq_logits(seq), plain[1], bytes) == 0, same);
        die_on(kt_seq_eval(seq, ids, 40, &err), &err);
        die_on(kt_seq_eval(seq, ids, 40, &err), &err);
        die_on(kt_seq_eval(seq, ids, 40, &err), &err);
        die_on(kt_seq_eval(seq, ids, 40, &err), &err);
        if (t == 0) memcpy(plain[2], kt_seq_logits(seq), bytes);
        same = t == 0 || (types[t].tail == 0 && keys_in_4(t)); /* 256 */
        assert_int_equal(memcmp(kt_seq_logits(seq), plain[2], bytes) == 0, same);
        kt_seq_close(seq);
        kt_engine_close(engine);
    }
    free(plain[0]);
    free(plain[1]);
    free(plain[2]);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

/* ---- layers whose keys stay f16 ---- */

static kt_engine *engine_with_outlier(kt_model *model, kv_types of, float *biases, int expected) {
    kt_engine_info info;
    kt__net *net = model->net;
    int n = net->hp.n_head_kv * net->hp.head_dim_k;
    uint32_t seed = 77;
    for (int i = 0; i < n * net->hp.n_layer; i++)
        biases[i] = ((float)lcg_below(&seed, 100) - 50.0f) * (i / n == 1 ? 0.05f : 0.001f);
    for (int l = 0; l < net->hp.n_layer; l++) net->layers[l].bk = biases + l * n;
    kt_engine *engine = open_engine(model, of);
    kt_engine_get_info(engine, &info);
    assert_int_equal(info.n_f16_layers, expected);
    return engine;
}

/* The same bytes at once, in pieces, and from a file. */
static void check_outlier(kt_engine *engine, size_t n_vocab) {
    kt_error err;
    kt_seq *once, *pieces;
    int32_t ids[200];
    char path[64];
    snprintf(path, sizeof path, "/tmp/kentang-kv-outlier-%d", (int)getpid());
    for (int i = 0; i < 200; i++) ids[i] = 100 + 3 * i;
    die_on(kt_seq_open(engine, &once, &err), &err);
    die_on(kt_seq_open(engine, &pieces, &err), &err);
    die_on(kt_seq_eval(once, ids, 200, &err), &err);
    for (size_t at = 0; at < 200; at += 25) {
        die_on(kt_seq_eval(pieces, ids + at, 25, &err), &err);
        die_on(kt_seq_save(pieces, path, &err), &err);
        die_on(kt_seq_restore(pieces, path, &err), &err);
    }
    assert_memory_equal(kt_seq_logits(once), kt_seq_logits(pieces), n_vocab * sizeof(float));
    kt_seq_close(once);
    kt_seq_close(pieces);
    remove(path);
}

static void test_outlier_biases_stay_f16(void **state) {
    (void)state;
    kt_ctx *ctx;
    kt_model_info info;
    kt_model *model = open_demo(&ctx, 0);
    kt_model_get_info(model, &info);
    const kt__hparams *hp = &model->net->hp;
    float *biases = calloc((size_t)(hp->n_layer * hp->n_head_kv * hp->head_dim_k), sizeof *biases);
    for (int t = 1; t < N_TYPES; t++) {
        kt_engine *engine = engine_with_outlier(model, types[t], biases,
                                                types[t].keys != KT_KV_F16);
        check_outlier(engine, (size_t)info.n_vocab);
        kt_engine_close(engine);
    }
    for (int l = 0; l < hp->n_layer; l++) model->net->layers[l].bk = NULL;
    free(biases);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

/* ---- sizes ---- */

static void test_the_plan_counts_both(void **state) {
    (void)state;
    kt_ctx *ctx;
    kt_error err;
    kt_model *model = open_demo(&ctx, (uint64_t)72 << 20);
    kt_engine_params ep = {.n_parallel = 1, .n_seq_max = 1, .n_ubatch = 64, .n_ctx = 512};
    kt_mem_plan plain, small;
    die_on(kt_engine_plan(model, &ep, &plain, &err), &err);
    ep.kv_keys = ep.kv_values = KT_KV_Q8_0;
    die_on(kt_engine_plan(model, &ep, &small, &err), &err);
    assert_int_equal(plain.kv_f16_bytes, 0);
    assert_true(small.kv_f16_bytes > 0);
    assert_int_equal(small.kv_keys, KT_KV_Q8_0);
    assert_true(small.total_bytes <= small.budget_bytes);
    assert_true(small.kv_bytes * 10 < plain.kv_bytes * 6 ||
                small.kv_positions * 10 > plain.kv_positions * 15);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

/* One answer at full length, in Qwen2.5's geometries. */
static void test_memory_of_tails(void **state) {
    (void)state;
    static const struct {
        int n_head_kv, n_ctx, n_tail;
        uint64_t most;
    } rows[] = {{4, 4096, 16, 77000000}, {2, 16384, 32, 143000000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kt__kv_shape shape = {.n_layer = 28,
                              .n_head_kv = rows[i].n_head_kv,
                              .head_dim_k = 128,
                              .head_dim_v = 128,
                              .k_form = KT__KV_Q4,
                              .v_form = KT__KV_Q4,
                              .n_tail = rows[i].n_tail,
                              .first_f16 = true};
        kt_engine_params p = {.n_ctx = rows[i].n_ctx, .n_ubatch = 64, .n_parallel = 1};
        p.n_seq_max = 1;
        p.n_draft = 8;
        uint64_t places = (uint64_t)kt__plan_places(&shape, rows[i].n_ctx);
        assert_true(places * kt__kv_page_bytes(&shape) + kt__plan_f16_copy_bytes(&shape, &p) <=
                    rows[i].most);
    }
}

static void test_presets(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t tail, n_ctx;
        kt_kv_type type;
    } rows[] = {{"chat-short", 128, 2048, KT_KV_Q8_0},
                {"chat-long", 256, 8192, KT_KV_Q4_0},
                {"document-qa", 512, 16384, KT_KV_Q4_0},
                {"code", 128, 4096, KT_KV_Q8_0},
                {"cpu", 128, 2048, KT_KV_Q4_0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kt_engine_params p = {0}, own = {.n_ctx = 99, .kv_tail = 7};
        assert_true(kt_kv_named(rows[i].name, &p));
        assert_int_equal(p.kv_tail, rows[i].tail);
        assert_int_equal(p.n_ctx, rows[i].n_ctx);
        assert_int_equal(p.kv_keys, rows[i].type);
        assert_int_equal(p.kv_values, rows[i].type);
        assert_true(kt_kv_named(rows[i].name, &own)); /* what was said wins */
        assert_int_equal(own.kv_tail, 7);
        assert_int_equal(own.n_ctx, 99);
    }
    kt_engine_params p = {.n_ctx = 5};
    assert_true(kt_kv_named("k8v4", &p));
    assert_int_equal(p.kv_keys, KT_KV_Q8_0);
    assert_int_equal(p.kv_values, KT_KV_Q4_0);
    assert_false(kt_kv_named("k4v8", &p));
    assert_false(kt_kv_named(NULL, &p));
    assert_int_equal(p.n_ctx, 5);
}

/* ---- what is refused ---- */

static void test_a_tail_longer_than_the_context(void **state) {
    (void)state;
    kt_ctx *ctx;
    kt_error err;
    kt_mem_plan plan;
    kt_model *model = open_demo(&ctx, 0);
    kt_engine_params ep = {.n_ctx = 512, .kv_keys = KT_KV_Q8_0, .kv_tail = 513};
    assert_int_equal(kt_engine_plan(model, &ep, &plan, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "513"));
    assert_non_null(strstr(err.message, "512"));
    ep.kv_tail = 512;
    assert_int_equal(kt_engine_plan(model, &ep, &plan, &err), KT_OK);
    assert_int_equal(plan.kv_tail, 512);
    ep.kv_tail = -2;
    assert_int_equal(kt_engine_plan(model, &ep, &plan, &err), KT_E_ARG);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

static void test_other_types_are_refused(void **state) {
    (void)state;
    kt_ctx *ctx;
    kt_error err;
    kt_seq *seq;
    kt_engine *engine;
    char path[64];
    int32_t ids[20] = {1, 2, 3};
    kt_model *model = open_demo(&ctx, 0);
    kt_engine_params ep = {.kv_keys = KT_KV_TYPES};
    assert_int_equal(kt_engine_open(model, &ep, &engine, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "kv_keys is"));
    snprintf(path, sizeof path, "/tmp/kentang-kv-form-%d", (int)getpid());
    for (int t = 0; t < N_TYPES; t++) {
        engine = open_engine(model, types[t]);
        die_on(kt_seq_open(engine, &seq, &err), &err);
        die_on(kt_seq_eval(seq, ids, 20, &err), &err);
        if (t > 0) {
            bool alike = types[t].keys == types[t - 1].keys &&
                         types[t].values == types[t - 1].values;
            assert_int_equal(kt_seq_restore(seq, path, &err), KT_E_STATE);
            if (!alike) assert_non_null(strstr(err.message, kt_kv_type_name(types[t].keys)));
            assert_non_null(strstr(err.message, alike ? "--kv-tail" : "-ctk, -ctv"));
            assert_int_equal(kt_seq_len(seq), 20);
        }
        die_on(kt_seq_save(seq, path, &err), &err);
        kt_seq_close(seq);
        kt_engine_close(engine);
    }
    remove(path);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

static void test_names(void **state) {
    (void)state;
    for (int i = 0; i < KT_KV_TYPES; i++)
        assert_int_equal(kt_kv_type_named(kt_kv_type_name((kt_kv_type)i)), i);
    assert_int_equal(kt_kv_type_named("q8"), KT_KV_Q8_0);
    assert_int_equal(kt_kv_type_named("q4"), KT_KV_Q4_0);
    assert_int_equal(kt_kv_type_named("q9"), KT_KV_TYPES);
    assert_int_equal(kt_kv_type_named(NULL), KT_KV_TYPES);
    assert_null(kt_kv_type_name(KT_KV_TYPES));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_a_tail_longer_than_the_context),
        cmocka_unit_test(test_other_types_are_refused),
        cmocka_unit_test(test_the_plan_counts_both),
        cmocka_unit_test(test_memory_of_tails),
        cmocka_unit_test(test_answers_differ_behind_the_first_page),
        cmocka_unit_test(test_outlier_biases_stay_f16),
        cmocka_unit_test(test_random_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
