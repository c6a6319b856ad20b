/* synth: plans against the published models' sizes and mixtures of types, statistics of every block
 * type, and the files that the program writes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "convert/planned.h"
#include "gguf/gguf.h"
/* the program is no library: its planning is compiled into this test */
#include "synth/synth_fill.c"
#include "synth/synth_plan.c"

static char dir[] = "/tmp/kt_synth_XXXXXX";

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static kt__synth_plan plan_of(const char *preset, const char *recipe) {
    kt__synth_plan plan;
    kt_error err;
    const kt__synth_preset *p;
    const kt__recipe *r;
    assert_int_equal(kt__synth_find(preset, recipe, &p, &r, &err), KT_OK);
    assert_int_equal(kt__synth_plan_make(p, r, 1, 0, &plan, &err), KT_OK);
    return plan;
}

/* ---- plans ---- */

static int count_of(const kt__synth_plan *plan, kt__type type) {
    int n = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) n += plan->tensors[i].type == type;
    return n;
}

/* Parameters and tensors by type of the published Q4_K_M files. */
static void test_plans_equal_published_models(void **state) {
    (void)state;
    static const struct {
        const char *preset;
        uint64_t n_params; /* norms, biases and factors included */
        int q4_k, q5_k, q6_k, q5_0, q8_0, f32;
    } cases[] = {
        {"qwen2.5-0.5b", 494032768, 12, 0, 12, 132, 13, 121},
        {"qwen2.5-1.5b", 1543714304, 168, 0, 29, 0, 0, 141},
        {"qwen2.5-7b", 7615616512, 169, 0, 29, 0, 0, 141},
        {"llama-3.2-1b", 1235814432, 96, 0, 17, 0, 0, 34},
        {"gemma-3-1b", 999885952, 39, 0, 13, 117, 14, 157},
        {"phi-3.5-mini", 3821079648, 81, 32, 17, 0, 0, 67},
        {"smollm2-135m", 134515008, 16, 0, 14, 166, 15, 61},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kt__synth_plan plan = plan_of(cases[i].preset, "q4_k_m");
        assert_int_equal(plan.n_params, cases[i].n_params);
        assert_int_equal(count_of(&plan, KT__TYPE_Q4_K), cases[i].q4_k);
        assert_int_equal(count_of(&plan, KT__TYPE_Q5_K), cases[i].q5_k);
        assert_int_equal(count_of(&plan, KT__TYPE_Q6_K), cases[i].q6_k);
        assert_int_equal(count_of(&plan, KT__TYPE_Q5_0), cases[i].q5_0);
        assert_int_equal(count_of(&plan, KT__TYPE_Q8_0), cases[i].q8_0);
        assert_int_equal(count_of(&plan, KT__TYPE_F32), cases[i].f32);
        kt__synth_plan_free(&plan);
    }
}

static void test_every_preset_and_recipe_plans(void **state) {
    (void)state;
    for (size_t p = 0; p < kt__synth_n_presets(); p++) {
        for (size_t r = 0; r < kt__recipe_count(); r++) {
            kt__synth_plan plan = plan_of(kt__synth_preset_at(p)->name, kt__recipe_at(r)->name);
            for (size_t i = 0; i < plan.n_tensors; i++) {
                const kt__synth_tensor *t = &plan.tensors[i];
                assert_int_equal(t->n_cols % kt__type_get(t->type)->block_elems, 0);
                assert_true(t->n_rows >= 1 && strlen(t->name) < sizeof t->name - 1);
            }
            kt__synth_plan_free(&plan);
        }
    }
}

static uint64_t digest_plan(const kt__synth_plan *plan) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const kt__synth_tensor *t = &plan->tensors[i];
        char shape[160];
        snprintf(shape, sizeof shape, "%s %s %u %lld %lld %d %d %a %a", t->name,
                 kt__type_get(t->type)->name, t->n_dims, (long long)t->n_cols, (long long)t->n_rows,
                 t->n_expert, (int)t->content, (double)t->mean, (double)t->std);
        for (const char *c = shape; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    }
    return h;
}

/* A synthetic model's bytes follow from its plan, and measurements refer to them. */
static void test_plans_stay_as_they_were(void **state) {
    (void)state;
    static const struct {
        const char *preset;
        uint64_t digest;
    } cases[] = {
        {"tiny-llama", 0x3d6e4afd773e1db2},
        {"tiny-llama3", 0x8b00daefd56749e0},
        {"tiny-qwen2", 0x84c267e4127b07c7},
        {"tiny-llama-bias", 0xf142b53e5be7a330},
        {"tiny-qwen2-bias", 0xbdd79b2351ad0bee},
        {"tiny-qwen3", 0xcdfc423468afd2cc},
        {"tiny-gemma2", 0x0c12270ce53e3897},
        {"tiny-gemma3", 0x913a71f022a83225},
        {"tiny-gemma3n", 0xc1c9a751912bdb52},
        {"tiny-gemma4", 0xb62283b8cb860287},
        {"tiny-gemma4-a", 0x2b052bdf122cf49c},
        {"tiny-phi3", 0x742e3d664a688374},
        {"tiny-smollm3", 0xd90c3205fbf221e1},
        {"tiny-bitnet", 0x78553ffda398e4b3},
        {"tiny-ernie45", 0x8d066d9833dfd747},
        {"tiny-glm4", 0x37af802837f11ea2},
        {"tiny-granite", 0xa4426d99799fbc66},
        {"tiny-hunyuan-dense", 0x65807311b477b3dd},
        {"tiny-mistral3", 0x66ccece6c831d738},
        {"tiny-exaone4", 0x39414082712d2b71},
        {"tiny-exaone4-windows", 0xa2f2207a3408e6d9},
        {"tiny-olmo2", 0x39df4a4fd32a15bb},
        {"tiny-olmo3", 0x6c5830487b247da9},
        {"tiny-command-r", 0xaf3bfd20809d34f3},
        {"tiny-cohere2", 0xef18f5c4aafedc95},
        {"tiny-phi4", 0xbd04971f9ce34277},
        {"tiny-bert", 0x53b9005551540556},
        {"tiny-bert-reranker", 0xabc6cfa45f5458e1},
        {"tiny-nomic-bert", 0x0c089d7d1999991b},
        {"tiny-nomic-bert-moe", 0x25438ff22efe8a26},
        {"tiny-modern-bert", 0x9621a39079ce8962},
        {"tiny-gemma-embedding", 0x161998fd4bbd6260},
        {"tiny-qwen3-embedding", 0xcdfc423468afd2cc},
        {"tiny-qwen3-reranker", 0x4490c495f50317fb},
        {"tiny-qwen3moe", 0x5ef3fc3085c608bf},
        {"tiny-qwen2vl", 0x84c267e4127b07c7},
        {"tiny-qwen3vl", 0xcdfc423468afd2cc},
        {"tiny-qwen3vlmoe", 0x5ef3fc3085c608bf},
        {"tiny-glm4moe", 0x373dfa888c1a5f5e},
        {"tiny-hunyuan-moe", 0x6ba1d95fde062bea},
        {"tiny-qwen2moe", 0xb5e575e0bb628de2},
        {"tiny-olmoe", 0xa5d5747de676a243},
        {"tiny-gpt-oss", 0x29af95321635c4b0},
        {"tiny-lfm2", 0xd66212516a3bfc31},
        {"tiny-qwen35", 0xed81ad9c1b7cce20},
        {"tiny-qwen35moe", 0x33bb64378e7445b1},
        {"tiny-qwen35-mtp", 0x48086b8dcf1867dd},
        {"tiny-qwen35moe-mtp", 0xeb52da0e91b17a64},
        {"tiny-qwen3next-mtp", 0x5e4882269cde86c1},
        {"tiny-deepseek2-mtp", 0xf3bd78a3db564d4e},
        {"tiny-gemma4-assistant", 0xb80060931af24849},
        {"tiny-gemma4-a-assistant", 0x95cc73cd6e785e01},
        {"tiny-lfm2moe", 0x8bb33d8e79dcaa1a},
        {"tiny-granitemoe", 0xbcde2a8930823e8e},
        {"tiny-ernie45moe", 0xec589b008a4e9028},
        {"tiny-llama4", 0xa5e99ec182604c3c},
        {"tiny-llama4-c", 0x9fc0c9caa56a536d},
        {"tiny-qwen3next", 0x100d6182c28f1f13},
        {"tiny-granitehybrid", 0xe1d99a1d5c0b7122},
        {"tiny-granitehybrid-dense", 0x90f634fd0d7d9251},
        {"tiny-nemotronh", 0x032056e79596e36f},
        {"tiny-nemotronhmoe", 0x60124826f8fbbaf2},
        {"tiny-mamba", 0xbbae000b18b1a397},
        {"tiny-mamba2", 0xeab5d08c60085320},
        {"tiny-falconh1", 0xa8ef9e20e6259408},
        {"tiny-deepseek2", 0xab8196543b3acf99},
        {"tiny-deepseek2-lite", 0xdafe69b23ea96449},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__synth_plan plan = plan_of(cases[i].preset, "q4_k_m");
        if (digest_plan(&plan) != cases[i].digest)
            fail_msg("%s: another plan, %016llx", cases[i].preset,
                     (unsigned long long)digest_plan(&plan));
        kt__synth_plan_free(&plan);
    }
}

/* `quantize` gives every matrix the type that a recipe has for it, but a reranker's head, which is
 * small, and f32 in converted files. */
static void test_roles_by_name_give_the_planned_types(void **state) {
    (void)state;
    for (size_t p = 0; p < kt__synth_n_presets(); p++) {
        const kt__synth_preset *ps = kt__synth_preset_at(p);
        const kt__recipe_model model = {ps->n_layer, ps->n_head, ps->n_head_kv, ps->tied};
        for (size_t r = 0; r < kt__recipe_count(); r++) {
            kt__synth_plan plan = plan_of(ps->name, kt__recipe_at(r)->name);
            for (size_t i = 0; i < plan.n_tensors; i++) {
                const kt__synth_tensor *t = &plan.tensors[i];
                int layer;
                kt__tensor_role role = kt__tensor_role_of(t->name, &layer);
                if (strncmp(t->name, "cls.", 4) == 0) continue;
                assert_int_equal(kt__recipe_type(kt__recipe_at(r), &model, role, layer, t->n_cols),
                                 t->type);
            }
            kt__synth_plan_free(&plan);
        }
    }
}

/* ---- weights ---- */

static void test_statistics_of_every_type(void **state) {
    (void)state;
    enum { COLS = 1024, ROWS = 256 };
    static float values[COLS];
    for (int type = 0; type < KT__TYPE_COUNT; type++) {
        kt__synth_tensor t = {
            .type = (kt__type)type, .n_dims = 2, .n_cols = COLS, .n_rows = ROWS, .std = 0.03f};
        kt__synth_plan plan = {.seed = 7, .tensors = &t, .n_tensors = 1};
        size_t row_bytes = kt__type_row_bytes(t.type, COLS);
        char *data = malloc(row_bytes * ROWS);
        double sum = 0, squares = 0, largest = 0;
        kt__synth_fill(&plan, 0, 0, ROWS, data);
        for (int row = 0; row < ROWS; row++) {
            kt__dequantize_row(t.type, data + (size_t)row * row_bytes, COLS, values);
            for (int i = 0; i < COLS; i++) {
                sum += (double)values[i];
                squares += (double)values[i] * (double)values[i];
                largest = fmax(largest, fabs((double)values[i]));
            }
        }
        double n = (double)COLS * ROWS, mean = sum / n, std = sqrt(squares / n);
        if (fabs(mean) > 0.001 || fabs(std - 0.03) > 0.0015 || largest > 0.3)
            fail_msg("%s: mean %g, deviation %g, largest %g", kt__type_get(t.type)->name, mean, std,
                     largest);
        free(data);
    }
}

static void test_rows_stay_as_they_were(void **state) {
    (void)state;
    enum { COLS = 512, ROWS = 3 };
    static const struct {
        const char *type;
        uint64_t digest;
    } cases[] = {
        {"F32", 0x4f6ab8e867976888},     {"F16", 0x228c9dcf6e53284c},
        {"BF16", 0xe394df5e85ae9798},    {"Q4_0", 0x3a52e51e798ffa7a},
        {"Q4_1", 0x41a43b92730174f4},    {"Q5_0", 0x86239055305cc310},
        {"Q5_1", 0x17f28a626b4cbf6d},    {"Q8_0", 0x9a19cc2cd47b893d},
        {"IQ4_NL", 0xdb446f53a28705f5},  {"MXFP4", 0x6b38ecac59923ba1},
        {"Q2_K", 0x76dba4d68518a037},    {"Q3_K", 0xb80c704d75922dd7},
        {"Q4_K", 0x17900000a6a989d7},    {"Q5_K", 0xf276d847b529ed03},
        {"Q6_K", 0xe90fd91a28feee3b},    {"IQ4_XS", 0xe9427bccc1c1d015},
        {"IQ3_S", 0x051dabf9f99535c7},   {"IQ3_XXS", 0x078531ee5294143c},
        {"IQ2_S", 0x4af406c75a4ff08a},   {"IQ2_XS", 0x3e67c19114a187b7},
        {"IQ2_XXS", 0x6d45b604ee8e3279}, {"IQ1_M", 0x59505367f0be74ca},
        {"IQ1_S", 0xc18d0f3fad69b336},   {"TQ2_0", 0x436b41005b2627f0},
        {"TQ1_0", 0xfea6138777cd410f},   {"NVFP4", 0x0cd254e6ef3dbf2d},
        {"Q2_0", 0xc7b783db25159001},    {"Q1_0", 0x17fab2a4426fd69a},
    };
    static unsigned char data[COLS * sizeof(float) * ROWS];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int type = 0;
        while (strcmp(kt__type_get((kt__type)type)->name, cases[c].type) != 0) type++;
        kt__synth_tensor t = {
            .type = (kt__type)type, .n_dims = 2, .n_cols = COLS, .n_rows = ROWS, .std = 0.03f};
        const kt__synth_plan plan = {.seed = 7, .tensors = &t, .n_tensors = 1};
        uint64_t h = 0xcbf29ce484222325u;
        kt__synth_fill(&plan, 0, 0, ROWS, data);
        for (size_t i = 0; i < kt__type_row_bytes(t.type, COLS) * ROWS; i++)
            h = (h ^ data[i]) * 0x100000001b3u;
        if (h != cases[c].digest)
            fail_msg("%s: other bytes, %016llx", cases[c].type, (unsigned long long)h);
    }
}

static void test_rows_do_not_depend_on_chunks(void **state) {
    (void)state;
    kt__synth_tensor t = {
        .type = KT__TYPE_Q4_K, .n_dims = 2, .n_cols = 512, .n_rows = 40, .std = 0.03f};
    kt__synth_plan plan = {.seed = 7, .tensors = &t, .n_tensors = 1}, other = plan;
    char whole[40 * 288], part[288];
    other.seed = 8;
    kt__synth_fill(&plan, 0, 0, 40, whole);
    for (int row = 0; row < 40; row++) {
        kt__synth_fill(&plan, 0, row, row + 1, part);
        assert_memory_equal(whole + row * 288, part, 288);
        kt__synth_fill(&other, 0, row, row + 1, part);
        assert_memory_not_equal(whole + row * 288, part, 288);
    }
}

static void test_rope_factors(void **state) {
    (void)state;
    kt__synth_plan plan = plan_of("llama-3.2-1b", "q4_k_m");
    float factors[32];
    assert_string_equal(plan.tensors[1].name, "rope_freqs.weight");
    kt__synth_fill(&plan, 1, 0, 1, factors);
    assert_true(factors[0] == 1.0f && factors[31] == 32.0f); /* as in the published files */
    for (int i = 1; i < 32; i++) assert_true(factors[i] >= factors[i - 1]);
    kt__synth_plan_free(&plan);
}

/* ---- files ---- */

static void run_synth(const char *args, const char *out) {
    char command[512];
    snprintf(command, sizeof command, "%s/kentang synth %s %s/%s 2>%s/log", KT_BINARY_DIR, args,
             dir, out, dir);
    if (system(command) != 0) fail_msg("%s", command);
}

static kt__gguf *open_out(const char *out) {
    char path[256];
    kt__gguf *g;
    kt_error err;
    const kt__gguf_open_params params = {.use_mmap = true};
    snprintf(path, sizeof path, "%s/%s", dir, out);
    if (kt__gguf_open(path, &params, &g, &err) != KT_OK) fail_msg("%s", err.message);
    return g;
}

static int compare_str(const void *a, const void *b) {
    const kt__str *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->s, y->s, n);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static void check_vocabulary(const kt__gguf *g, int n_vocab) {
    const kt__gguf_kv *tokens, *types;
    assert_int_equal(
        kt__gguf_get_array(g, "tokenizer.ggml.tokens", true, KT__GGUF_STRING, &tokens, NULL),
        KT_OK);
    assert_int_equal(
        kt__gguf_get_array(g, "tokenizer.ggml.token_type", true, KT__GGUF_I32, &types, NULL),
        KT_OK);
    assert_int_equal(tokens->count, n_vocab);
    assert_int_equal(types->count, n_vocab);
    kt__str *sorted = malloc((size_t)n_vocab * sizeof *sorted);
    for (int i = 0; i < n_vocab; i++) sorted[i] = kt__gguf_array_str(tokens, (uint64_t)i);
    qsort(sorted, (size_t)n_vocab, sizeof *sorted, compare_str);
    for (int i = 1; i < n_vocab; i++) assert_true(compare_str(&sorted[i - 1], &sorted[i]) < 0);
    free(sorted);
}

static void test_tiny_presets_as_files(void **state) {
    (void)state;
    for (size_t p = 0; p < kt__synth_n_presets(); p++) {
        const kt__synth_preset *ps = kt__synth_preset_at(p);
        char args[128];
        if (strncmp(ps->name, "tiny-", 5) != 0) continue;
        snprintf(args, sizeof args, "--preset %s", ps->name);
        run_synth(args, "tiny.gguf");
        kt__gguf *g = open_out("tiny.gguf");
        kt__synth_plan plan = plan_of(ps->name, "q4_k_m");
        assert_int_equal(kt__gguf_n_tensors(g), plan.n_tensors);
        const kt__gguf_tensor *embd = kt__gguf_find_tensor(g, "token_embd.weight");
        assert_int_equal(embd->ne[0], ps->d_model);
        assert_int_equal(embd->ne[1], ps->n_vocab);
        assert_int_equal(kt__gguf_find_tensor(g, "output.weight") == NULL, ps->tied);
        check_vocabulary(g, ps->n_vocab);
        kt__synth_plan_free(&plan);
        kt__gguf_close(g);
    }
}

static void test_same_seed_same_bytes(void **state) {
    (void)state;
    char command[512];
    run_synth("--preset tiny-qwen3 --seed 5 -t 1", "a.gguf");
    run_synth("--preset tiny-qwen3 --seed 5 -t 4", "b.gguf");
    run_synth("--preset tiny-qwen3 --seed 6", "c.gguf");
    snprintf(command, sizeof command, "cd %s && cmp -s a.gguf b.gguf && ! cmp -s a.gguf c.gguf",
             dir);
    assert_int_equal(system(command), 0);
}

/* A vocabulary from another file: padded where it is smaller, enlarging the model where it is
 * larger. */
static void test_vocabulary_from_a_file(void **state) {
    (void)state;
    char args[256];
    snprintf(args, sizeof args, "--preset tiny-llama3 --vocab %s/small.gguf", dir);
    run_synth("--preset tiny-qwen3", "small.gguf");
    run_synth(args, "padded.gguf");
    kt__gguf *g = open_out("padded.gguf");
    const kt__gguf_kv *tokens, *types;
    assert_int_equal(
        kt__gguf_get_array(g, "tokenizer.ggml.tokens", true, KT__GGUF_STRING, &tokens, NULL),
        KT_OK);
    assert_int_equal(
        kt__gguf_get_array(g, "tokenizer.ggml.token_type", true, KT__GGUF_I32, &types, NULL),
        KT_OK);
    assert_memory_equal(kt__gguf_array_str(tokens, 600).s, "[PAD600]", 8);
    assert_int_equal(kt__gguf_array_i64(types, 600), 5);
    check_vocabulary(g, 2000);
    kt__gguf_close(g);
    snprintf(args, sizeof args, "--preset tiny-qwen3 --vocab %s/padded.gguf", dir);
    run_synth(args, "larger.gguf");
    g = open_out("larger.gguf");
    assert_int_equal(kt__gguf_find_tensor(g, "output.weight")->ne[1], 2000);
    kt__gguf_close(g);
}

static void test_wrong_names_are_refused(void **state) {
    (void)state;
    char command[512];
    snprintf(command, sizeof command, "%s/kentang synth --preset qwen2.5-1.5 %s/x 2>%s/log",
             KT_BINARY_DIR, dir, dir);
    assert_int_equal(WEXITSTATUS(system(command)), 2);
    snprintf(command, sizeof command,
             "grep -q 'did you mean \"qwen2.5-1.5b\"' %s/log && ! test -e %s/x", dir, dir);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/kentang synth --preset tiny-llama - 2>%s/log",
             KT_BINARY_DIR, dir);
    assert_int_equal(WEXITSTATUS(system(command)), 2);
    /* over the shell's limit on files: told, and nothing is left */
    snprintf(command, sizeof command,
             "ulimit -f 100; %s/kentang synth --preset tiny-llama %s/limited.gguf 2>%s/log",
             KT_BINARY_DIR, dir, dir);
    assert_int_equal(WEXITSTATUS(system(command)), kt_status_exit_code(KT_E_IO));
    snprintf(command, sizeof command, "test -z \"$(ls %s | grep limited)\"", dir);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_equal_published_models),
        cmocka_unit_test(test_every_preset_and_recipe_plans),
        cmocka_unit_test(test_plans_stay_as_they_were),
        cmocka_unit_test(test_roles_by_name_give_the_planned_types),
        cmocka_unit_test(test_statistics_of_every_type),
        cmocka_unit_test(test_rows_do_not_depend_on_chunks),
        cmocka_unit_test(test_rows_stay_as_they_were),
        cmocka_unit_test(test_rope_factors),
        cmocka_unit_test(test_tiny_presets_as_files),
        cmocka_unit_test(test_same_seed_same_bytes),
        cmocka_unit_test(test_vocabulary_from_a_file),
        cmocka_unit_test(test_wrong_names_are_refused),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
