/* One answer: logits are equal byte for byte across kernel tiers, threads, slices of the prompt,
 * and for a sequence alone or beside others, for every architecture's layer program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "kentang.h"
#include "kv_types.h"
#include "support.h"

enum {
    N_TOK = 272,
    MAX_VOCAB = 4096
}; /* past one attention split and past the tiny models' windows */

typedef struct fixture {
    const char *preset, *quant;
    bool
        whole; /* the reference computes all of it: one of each form of attention and of recurrence */
} fixture;

/* Each architecture once, and each form of weights in some architecture: test_kernels_tiers has all types. */
static const fixture fixtures[] = {
    {"tiny-llama", "q4_k_m", true},         {"tiny-llama", "f16", false},
    {"tiny-llama", "q8_0", false},          {"tiny-qwen2", "q4_k_m", false},
    {"tiny-qwen2", "q4_0", false},          {"tiny-qwen3", "q5_k_m", false},
    {"tiny-qwen3", "iq4_xs", false},        {"tiny-gemma2", "q6_k", true},
    {"tiny-gemma2", "q5_1", false},         {"tiny-gemma3", "q3_k_m", true},
    {"tiny-gemma3", "bf16", false},         {"tiny-gemma3n", "q4_k_m", true},
    {"tiny-gemma4", "q4_k_m", true},        {"tiny-gemma4-a", "q4_k_m", false},
    {"tiny-phi3", "q2_k", false},           {"tiny-phi3", "iq4_nl", false},
    {"tiny-llama-bias", "q4_k_m", false},   {"tiny-qwen2-bias", "q8_0", false},
    {"tiny-smollm3", "q4_k_m", false},      {"tiny-ernie45", "q8_0", false},
    {"tiny-bitnet", "tq2_0", false},        {"tiny-glm4", "q4_k_m", true},
    {"tiny-granite", "q4_k_m", false},      {"tiny-hunyuan-dense", "q4_k_m", false},
    {"tiny-mistral3", "q4_k_m", false},     {"tiny-exaone4", "q4_k_m", false},
    {"tiny-exaone4-windows", "q8_0", true}, {"tiny-olmo2", "q4_k_m", false},
    {"tiny-olmo3", "q5_k_m", false},        {"tiny-command-r", "q4_k_m", false},
    {"tiny-cohere2", "q4_k_m", true},       {"tiny-phi4", "q4_k_m", false},
    {"tiny-qwen3moe", "q4_k_m", true},      {"tiny-qwen3moe", "f16", false},
    {"tiny-glm4moe", "q4_k_m", false},      {"tiny-hunyuan-moe", "q8_0", false},
    {"tiny-qwen2moe", "q4_k_m", false},     {"tiny-olmoe", "q6_k", false},
    {"tiny-gpt-oss", "mxfp4_moe", true},    {"tiny-llama", "iq3_s", false},
    {"tiny-qwen3moe", "ud_q2_k_xl", false}, {"tiny-qwen2", "iq2_xs", false},
    {"tiny-qwen3", "iq1_m", false},         {"tiny-llama", "tq1_0", false},
    {"tiny-qwen3", "nvfp4", false},         {"tiny-qwen3", "q1_0", false},
    {"tiny-lfm2", "q4_k_m", true},          {"tiny-qwen35", "q4_k_m", true},
    {"tiny-qwen35moe", "q4_k_m", false},    {"tiny-qwen35-mtp", "q4_k_m", false},
    {"tiny-qwen3next", "q4_k_m", false},    {"tiny-lfm2moe", "q4_k_m", false},
    {"tiny-granitemoe", "q4_k_m", false},   {"tiny-ernie45moe", "q4_k_m", false},
    {"tiny-llama4", "q8_0", true},          {"tiny-llama4-c", "q4_k_m", false},
    {"tiny-granitehybrid", "q4_k_m", true}, {"tiny-granitehybrid-dense", "q5_0", false},
    {"tiny-nemotronh", "q4_k_m", false},    {"tiny-nemotronhmoe", "q8_0", false},
    {"tiny-falconh1", "q4_k_m", false},     {"tiny-mamba", "q4_k_m", true},
    {"tiny-mamba2", "q4_k_m", false},       {"tiny-deepseek2", "q4_k_m", true},
    {"tiny-deepseek2-lite", "q8_0", false},
};

static char model_path[256];

static void make_model(const fixture *f) {
    char command[1024];
    snprintf(model_path, sizeof model_path, "%s/one-answer-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant %s --seed 3 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, f->preset, f->quant, model_path);
    assert_int_equal(system(command), 0);
}

typedef struct setup {
    const char *isa;
    int n_threads, n_ubatch;
    size_t slice; /* tokens of one eval call */
    int beside;   /* other sequences in the same batch */
    size_t n_tok; /* the sequence ends here */
    size_t first; /* tokens of the first eval call; 0: as of the others */
} setup;

static void fill_ids(int32_t *ids, size_t n, int32_t n_vocab, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)lcg_below(&seed, (uint32_t)n_vocab);
    }
}

/* The logits after each token of the fixed sequence, into out[n_tok][n_vocab]; returns n_vocab. */
static int32_t run(const setup *s, float *out) {
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seqs[4];
    kt_ctx_params cp = kt_ctx_params_default();
    cp.isa = s->isa;
    cp.n_threads = s->n_threads;
    die_on(kt_ctx_open(&cp, &ctx, &err), &err);
    die_on(kt_model_open(ctx, model_path, NULL, &model, &err), &err);
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ubatch = s->n_ubatch;
    ep.n_ctx = 512;
    kv_types_of_test(&ep);
    die_on(kt_engine_open(model, &ep, &engine, &err), &err);
    kt_model_info info;
    kt_model_get_info(model, &info);
    assert_true(info.n_vocab <= MAX_VOCAB);
    int32_t ids[N_TOK], others[4][N_TOK];
    fill_ids(ids, N_TOK, info.n_vocab, 1);
    for (int i = 0; i <= s->beside; i++) {
        die_on(kt_seq_open(engine, &seqs[i], &err), &err);
        fill_ids(others[i], N_TOK, info.n_vocab, (uint32_t)(100 + i));
    }
    for (size_t at = 0, n; at < s->n_tok; at += n) {
        n = at == 0 && s->first ? s->first : s->slice;
        if (n > s->n_tok - at) n = s->n_tok - at;
        kt_eval_item items[4];
        for (int i = 0; i < s->beside; i++) {
            size_t part = 1 + (at + (size_t)i) % n;
            items[i] = (kt_eval_item){.seq = seqs[i + 1], .ids = others[i], .n = part};
        }
        items[s->beside] = (kt_eval_item){seqs[0], ids + at, n, out + at * (size_t)info.n_vocab};
        die_on(kt_engine_eval(engine, items, (size_t)s->beside + 1, &err), &err);
        const float *last = out + (at + n - 1) * (size_t)info.n_vocab;
        assert_memory_equal(kt_seq_logits(seqs[0]), last, (size_t)info.n_vocab * sizeof(float));
        for (int i = 0; i < s->beside; i++) {
            if (kt_seq_len(seqs[i + 1]) > 200) die_on(kt_seq_truncate(seqs[i + 1], 3, &err), &err);
        }
    }
    for (int i = 0; i <= s->beside; i++) kt_seq_close(seqs[i]);
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return info.n_vocab;
}

/* The reference takes most of the time, and test_kernels_tiers compares every tier's products with it, type by type: it
 * computes the whole sequence once for each form of attention, and the beginning, which the best tier's answer is then
 * held to, for the others. */
static void test_fixture(void **state) {
    const fixture *f = *state;
    const size_t number = (size_t)(f - fixtures);
    static float want[N_TOK * MAX_VOCAB], got[N_TOK * MAX_VOCAB];
    static const char *const tiers[] = {"ref", "sse41", "avx2",    "avxvnni", "avx512",
                                        "amx", "neon",  "dotprod", "i8mm"};
    char best[16] = "", name[16];
    bool ran_ref = false, ran_best = false;
    assert_true(have_tier(NULL, best));
    make_model(f);
    setup base = {.isa = f->whole ? "ref" : best,
                  .n_threads = 1,
                  .n_ubatch = 512,
                  .slice = N_TOK,
                  .n_tok = N_TOK};
    int32_t n_vocab = run(&base, want);
    for (size_t t = 0; t < sizeof tiers / sizeof tiers[0]; t++) {
        if (!have_tier(tiers[t], name)) continue;
        /* The best tier goes through all of it, token by token where the reference did, else past the end of an attention
         * split; the others are slower, and take the long ways once. */
        bool is_best = strcmp(name, best) == 0;
        size_t joined = is_best    ? N_TOK
                        : t > 0    ? 136
                        : f->whole ? 24
                                   : 40,
               first = !is_best   ? N_TOK - 30
                       : f->whole ? 0
                                  : N_TOK - 80;
        size_t part = is_best ? 100 : joined / 2;
        const setup variants[] = {
            {tiers[t], 1, 512, N_TOK, 0, N_TOK, 0}, {tiers[t], 2, 64, N_TOK, 0, N_TOK, 0},
            {tiers[t], 3, 512, 37, 0, N_TOK, 0},    {tiers[t], 4, 7, part, 3, joined, 0},
            {tiers[t], 2, 512, 150, 2, N_TOK, 0},   {tiers[t], 3, 33, 1, 1, N_TOK, first},
        };
        ran_ref |= strcmp(name, "ref") == 0;
        ran_best |= is_best;
        for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
            if (t == 0 && v != 3)
                continue; /* the reference is slow: one variant shows that it slices and joins */
            /* whole, in small batches and token by token: every kernel of a tier; one of them a fixture, by turns */
            static const size_t ways[] = {0, 3, 5};
            if (t > 0 && !is_best && v != ways[(number + t) % 3]) continue;
            size_t bytes = (size_t)n_vocab * variants[v].n_tok * sizeof(float);
            memset(got, 0xff, bytes);
            run(&variants[v], got);
            if (memcmp(want, got, bytes) != 0) {
                fail_msg("%s %s: tier %s, variant %zu differs from the reference", f->preset,
                         f->quant, tiers[t], v);
            }
        }
    }
    assert_true(ran_ref && ran_best); /* or nothing was compared */
    unlink(model_path);
}

int main(void) {
    enum { N = sizeof fixtures / sizeof fixtures[0] };
    struct CMUnitTest tests[N];
    static char names[N][64];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "%s %s", fixtures[i].preset, fixtures[i].quant);
        union {
            const void *in;
            void *out;
        } arg = {.in = &fixtures[i]};
        tests[i] = (struct CMUnitTest){names[i], test_fixture, NULL, NULL, arg.out};
    }
    char name[16];
    if (!have_tier("amx", name)) printf("the tier amx was skipped: no AMX\n");
    cmocka_set_test_filter(getenv("KT_TEST_ONLY")); /* "*q4_0": an emulator takes minutes for all */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
