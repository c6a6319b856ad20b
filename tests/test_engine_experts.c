/* Experts that are read as they are needed: with memory for one layer's alone the bytes are those of the mapped file,
 * in every architecture that has experts; and a file that becomes shorter ends a request with an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "context/types.h"
#include "model/expert_store.h"
#include "requests_world.h"
#include "support.h"

enum { N_PROMPT = 150, N_STEPS = 12, N_UBATCH = 96 };

static const char *const presets[] = {
    "tiny-qwen3moe",  "tiny-qwen2moe",     "tiny-olmoe",     "tiny-gpt-oss",      "tiny-gemma4-a",
    "tiny-qwen35moe", "tiny-lfm2moe",      "tiny-llama4",    "tiny-granitemoe",   "tiny-ernie45moe",
    "tiny-qwen3next", "tiny-nemotronhmoe", "tiny-deepseek2", "tiny-deepseek2-mtp"};

typedef struct file_place {
    char path[256];
    kt_ctx *ctx;
    kt_model *model;
} file_place;

static void open_context(file_place *p, uint64_t mem_bytes) {
    kt_error err;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = 2;
    cp.mem_bytes = mem_bytes;
    MUST(kt_ctx_open(&cp, &p->ctx, &err));
    MUST(kt_model_open(p->ctx, p->path, NULL, &p->model, &err));
    assert_non_null(p->model->experts);
}

static void open_place(file_place *p, const char *preset, const char *quant) {
    char command[1024];
    snprintf(p->path, sizeof p->path, "%s/experts-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant %s --seed 3 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, preset, quant, p->path);
    assert_int_equal(system(command), 0);
    open_context(p, 0);
}

static void close_place(file_place *p) {
    kt_model_close(p->model);
    kt_ctx_close(p->ctx);
    unlink(p->path);
}

static kt_engine_params engine_params(void) {
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ctx = 256;
    ep.n_ubatch = N_UBATCH;
    return ep;
}

/* Logits after a prompt in two batches, and after each of some steps: [N_STEPS + 1][n_vocab]. */
static float *compute(const file_place *p, kt_engine_stats *stats) {
    kt_error err;
    kt_engine *engine;
    kt_seq *seq;
    int32_t ids[N_PROMPT];
    const kt_engine_params ep = engine_params();
    uint32_t seed = 5;
    size_t n_vocab = (size_t)p->model->info.n_vocab;
    float *out = kt__calloc(n_vocab * (N_STEPS + 1), sizeof *out);
    assert_non_null(out);
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (int32_t)lcg_below(&seed, 300);
    MUST(kt_engine_open(p->model, &ep, &engine, &err));
    MUST(kt_seq_open(engine, &seq, &err));
    MUST(kt_seq_eval(seq, ids, N_PROMPT, &err));
    for (int i = 0; i <= N_STEPS; i++) {
        memcpy(out + n_vocab * (size_t)i, kt_seq_logits(seq), n_vocab * sizeof *out);
        if (i < N_STEPS) MUST(kt_seq_eval(seq, &ids[i], 1, &err));
    }
    kt_engine_get_stats(engine, stats);
    kt_seq_close(seq);
    kt_engine_close(engine);
    return out;
}

static void same_bytes(const char *preset, const char *quant) {
    file_place p;
    kt_error err;
    kt_engine_stats mapped, read;
    open_place(&p, preset, quant);
    size_t bytes = (size_t)p.model->info.n_vocab * (N_STEPS + 1) * sizeof(float);
    float *want = compute(&p, &mapped);
    assert_int_equal(mapped.n_experts_used, 0);
    uint64_t least = kt__expert_store_least(p.model->experts);
    assert_true(least < kt__expert_store_room(p.model->experts));
    MUST(kt__expert_store_start(p.model->experts, least, &err));
    float *got = compute(&p, &read);
    if (memcmp(want, got, bytes)) fail_msg("%s %s: other bytes", preset, quant);
    assert_true(read.n_experts_missed > 0 && read.n_experts_missed <= read.n_experts_used);
    assert_true(read.expert_read_bytes > 0);
    assert_int_equal(kt__expert_store_bytes(p.model->experts), 0); /* the last engine is closed */
    kt__free(want);
    kt__free(got);
    close_place(&p);
}

static void test_same_bytes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) same_bytes(presets[i], "q8_0");
    same_bytes("tiny-olmoe", "q4_k_m"); /* matrices of two sizes */
}

/* Memory for all: after the first use nothing is read again. */
static void test_all_are_kept(void **state) {
    (void)state;
    file_place p;
    kt_error err;
    kt_engine_stats stats;
    open_place(&p, "tiny-olmoe", "q8_0");
    kt__expert_store *store = p.model->experts;
    MUST(kt__expert_store_start(store, kt__expert_store_room(store), &err));
    kt__free(compute(&p, &stats));
    assert_true(stats.expert_read_bytes <= kt__expert_store_file_bytes(store));
    close_place(&p);
}

typedef enum decision { ALL_IN_MEMORY, SOME_IN_MEMORY, REFUSED } decision;

static decision decide(const file_place *p, kt_mem_plan *plan) {
    kt_error err;
    const kt_engine_params ep = engine_params();
    kt_status status = kt_engine_plan(p->model, &ep, plan, &err);
    if (status == KT_E_NOMEM) return REFUSED;
    assert_int_equal(status, KT_OK);
    return plan->expert_kept_bytes ? SOME_IN_MEMORY : ALL_IN_MEMORY;
}

/* The memory that was decided for is what the experts get, and answers have the same bytes. */
static void expect_some(const file_place *p, const kt_mem_plan *plan, const float *want) {
    kt_engine_stats stats;
    size_t bytes = (size_t)p->model->info.n_vocab * (N_STEPS + 1) * sizeof *want;
    assert_int_equal(plan->expert_bytes, kt__expert_store_file_bytes(p->model->experts));
    assert_in_range(plan->expert_kept_bytes, kt__expert_store_least(p->model->experts),
                    plan->expert_bytes - 1);
    assert_true(plan->total_bytes <= plan->budget_bytes);
    float *got = compute(p, &stats);
    assert_memory_equal(got, want, bytes);
    assert_true(stats.n_experts_missed > 0);
    kt__free(got);
}

/* Where there is less and less memory, first all experts are in it, then some of them, and then the model is refused. */
static void test_the_plan_decides(void **state) {
    (void)state;
    enum { MOST_MIB = 96, LEAST_MIB = 32 };
    file_place p;
    kt_mem_plan plan;
    kt_engine_stats stats;
    int n_some = 0;
    decision before = ALL_IN_MEMORY;
    open_place(&p, "tiny-olmoe", "q8_0");
    assert_int_equal(decide(&p, &plan), ALL_IN_MEMORY);
    float *want = compute(&p, &stats);
    for (uint64_t mib = MOST_MIB; mib >= LEAST_MIB; mib--) {
        kt_model_close(p.model);
        kt_ctx_close(p.ctx);
        open_context(&p, mib << 20);
        decision now = decide(&p, &plan);
        assert_true(now >= before);
        before = now;
        n_some += now == SOME_IN_MEMORY;
        if (now == SOME_IN_MEMORY) expect_some(&p, &plan, want);
    }
    assert_true(n_some > 2 && before == REFUSED);
    kt__free(want);
    close_place(&p);
}

/* And the program says it before it computes. */
static void test_the_plan_line_says_it(void **state) {
    (void)state;
    file_place p;
    char command[1024];
    int n_said = 0;
    open_place(&p, "tiny-olmoe", "q8_0");
    for (int mib = 96; mib >= 32 && n_said == 0; mib -= 2) {
        snprintf(
            command, sizeof command,
            "'%s/kentang' run -m '%s' --mem %dM -c 256 -ub %d -n 1 --raw -p x 2>&1 | grep -q 'of experts in memory, "
            "the others are read as they are needed'",
            KT_BINARY_DIR, p.path, mib, N_UBATCH);
        n_said += system(command) == 0;
    }
    assert_int_equal(n_said, 1);
    close_place(&p);
}

/* The file has become shorter: an error that names it, and no signal. */
static void test_shorter_file(void **state) {
    (void)state;
    file_place p;
    kt_error err;
    kt__expert_piece pieces[] = {{.expert = 1, .n_tok = 1}, {.expert = 3, .n_tok = 1}};
    const kt__routing routing = {.n_piece = 2, .pieces = pieces};
    open_place(&p, "tiny-olmoe", "q8_0");
    kt__expert_store *store = p.model->experts;
    MUST(kt__expert_store_start(store, kt__expert_store_least(store), &err));
    (void)kt__expert_store_need(store, 0, &routing, true);
    MUST(kt__expert_store_wait(store, 7, &err));
    assert_int_equal(truncate(p.path, 4096), 0);
    (void)kt__expert_store_need(store, 1, &routing, true);
    assert_int_equal(kt__expert_store_wait(store, 7, &err), KT_E_TRUNCATED);
    assert_non_null(strstr(err.message, p.path));
    assert_non_null(strstr(err.message, "open it again"));
    /* what is in memory still is */
    uint64_t need = kt__expert_store_need(store, 0, &routing, true);
    MUST(kt__expert_store_wait(store, 7, &err));
    assert_true(kt__expert_store_is_last(store, need));
    close_place(&p);
}

/* Of a prompt's layers the one just used is needed last; of experts the one that few passes needed. */
static void test_next_use(void **state) {
    (void)state;
    assert_true(kt__expert_next_use(1, 1, 16) < kt__expert_next_use(1, 16, 16));
    assert_true(kt__expert_next_use(0.5f, 16, 16) < kt__expert_next_use(0.1f, 1, 16));
    assert_true(kt__expert_next_use(0, 1, 16) > 1000);
    float often = 0.1f, seldom = 0.1f;
    for (int i = 0; i < 100; i++) {
        often = kt__expert_share(often, i % 2);
        seldom = kt__expert_share(seldom, i % 20 == 0);
    }
    assert_true(often > 0.35f && often < 0.6f && seldom < 0.12f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes),       cmocka_unit_test(test_all_are_kept),
        cmocka_unit_test(test_the_plan_decides), cmocka_unit_test(test_the_plan_line_says_it),
        cmocka_unit_test(test_shorter_file),     cmocka_unit_test(test_next_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
