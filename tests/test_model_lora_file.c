/* model: adapter files are read with every matrix in its place, and refused with the tensor's name
 * where they belong to another model, are damaged, or ask for what is not there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/math.h"
#include "lora_bytes.h"
#include "model/lora.h"
#include "model_fixture.h"

enum { MODEL = 32, FF = 48, HEADS = 4, KV_HEADS = 2, HEAD = 8 };

static const fixture_spec plain = {.arch = "llama",
                                   .n_layer = 2,
                                   .d_model = MODEL,
                                   .d_ff = FF,
                                   .n_head = HEADS,
                                   .n_head_kv = KV_HEADS,
                                   .head_dim = HEAD,
                                   .n_vocab = 40};

typedef struct base_model {
    kt__gguf *gguf;
    kt__net *net;
} base_model;

static base_model open_base(const fixture_spec *spec) {
    const kt__gguf_open_params open = {.use_mmap = true};
    char path[64];
    kt_error err;
    base_model b;
    snprintf(path, sizeof path, "/tmp/test_model_lora_%d.gguf", (int)getpid());
    die_on(fixture_write(spec, path, &err), &err);
    die_on(kt__gguf_open(path, &open, &b.gguf, &err), &err);
    die_on(kt__net_bind(b.gguf, NULL, &b.net, &err), &err);
    unlink(path);
    return b;
}

static void close_base(base_model *b) {
    kt__net_free(b->net);
    kt__gguf_close(b->gguf);
}

static kt_status read_lora(const lora_spec *spec, const kt__net *net, kt__lora_pack *out,
                           kt_error *err) {
    size_t size;
    char *file = lora_bytes(spec, &size);
    kt__gguf *gguf;
    kt_status status = kt__gguf_open_memory(file, size, false, &gguf, err);
    if (status == KT_OK) status = kt__lora_file_read(gguf, net, out, err);
    kt__gguf_close(gguf);
    free(file);
    return status;
}

static lora_spec good_spec(void) {
    return (lora_spec){.type = "adapter",
                       .arch = "llama",
                       .kind = "lora",
                       .alpha = 6.0f,
                       .tensors = {{"blk.1.attn_q.weight.lora_a", MODEL, 3},
                                   {"blk.1.attn_q.weight.lora_b", 3, HEADS * HEAD},
                                   {"blk.1.attn_v.weight.lora_a", MODEL, 2},
                                   {"blk.1.attn_v.weight.lora_b", 2, KV_HEADS * HEAD},
                                   {"blk.0.ffn_down.weight.lora_a", FF, 4},
                                   {"blk.0.ffn_down.weight.lora_b", 4, MODEL}},
                       .n = 6};
}

/* Weight [row][j] of a B, as the product sees it but for its factor. */
static float panel_weight(const kt__lora_b *b, int row, int j) {
    size_t rank = (size_t)b->rank;
    size_t at = ((size_t)row / 16 * rank + (size_t)j) * 16 + (size_t)row % 16;
    return kt__f16_to_f32(b->panels[at]);
}

static void test_matrices_have_their_places(void **state) {
    (void)state;
    kt_error err;
    kt__lora_pack pack;
    base_model base = open_base(&plain);
    lora_spec spec = good_spec();
    die_on(read_lora(&spec, base.net, &pack, &err), &err);
    const kt__lora_block *one = &pack.lora.blocks[1], *zero = &pack.lora.blocks[0];
    assert_int_equal(pack.n_matrices, 3);
    assert_int_equal(pack.rank_max, 4);
    assert_int_equal(pack.lora.n_block, 3);
    assert_int_equal(pack.first_kv_layer, 1);
    assert_int_equal(one->a[KT__INPUT_ATTN].rank, 5);
    assert_int_equal(one->b[KT__SITE_Q].at, 0);
    assert_int_equal(one->b[KT__SITE_V].at, 3);
    assert_int_equal(one->b[KT__SITE_K].rank, 0);
    assert_int_equal(zero->a[KT__INPUT_ATTN].rank, 0);
    const kt__lora_b *down = &zero->b[KT__SITE_DOWN];
    assert_int_equal(down->rank, 4);
    /* the file's first weights of A are those that lcg gives; B's come after them */
    uint32_t x = 3;
    float first = (float)lcg_unit(&x) - 0.5f;
    float stored = kt__f16_to_f32(one->a[KT__INPUT_ATTN].rows[0]);
    assert_true(fabsf(stored) < 2.0f);
    float two = stored / first; /* the power of two that it was divided by */
    assert_true(fabsf(log2f(two) - roundf(log2f(two))) < 1e-3f);
    for (int i = 1; i < 3 * MODEL; i++) (void)lcg_unit(&x);
    float b00 = (float)lcg_unit(&x) - 0.5f;
    float y = panel_weight(&one->b[KT__SITE_Q], 0, 0) * stored * one->b[KT__SITE_Q].factor;
    assert_true(fabsf(y - first * b00 * 6.0f / 3.0f) < 1e-3f);
    kt__lora_pack_free(&pack);
    close_base(&base);
}

static void test_first_layer_that_differs(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int n_col, n_row, first;
    } cases[] = {
        {"blk.0.attn_k.weight", MODEL, KV_HEADS * HEAD, 0},
        {"blk.0.attn_q.weight", MODEL, HEADS * HEAD, 1},
        {"blk.0.ffn_up.weight", MODEL, FF, 1},
        {"blk.1.attn_v.weight", MODEL, KV_HEADS * HEAD, 1},
        {"blk.1.attn_q.weight", MODEL, HEADS * HEAD, 2},
        {"blk.1.attn_output.weight", HEADS * HEAD, MODEL, 2},
        {"blk.1.ffn_down.weight", FF, MODEL, 2},
        {"output.weight", MODEL, 40, 2},
        {"final_hidden.weight", MODEL, MODEL, 2},
    };
    kt_error err;
    base_model base = open_base(&plain);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char a[80], b[80];
        kt__lora_pack pack;
        lora_spec spec = good_spec();
        snprintf(a, sizeof a, "%s.lora_a", cases[i].name);
        snprintf(b, sizeof b, "%s.lora_b", cases[i].name);
        spec.tensors[0] = (lora_tensor){a, cases[i].n_col, 2};
        spec.tensors[1] = (lora_tensor){b, 2, cases[i].n_row};
        spec.n = 2;
        die_on(read_lora(&spec, base.net, &pack, &err), &err);
        assert_int_equal(pack.first_kv_layer, cases[i].first);
        kt__lora_pack_free(&pack);
    }
    close_base(&base);
}

/* Fused projections: one A, its B cut where the model's rows are. */
static void test_fused(void **state) {
    (void)state;
    fixture_spec fused = plain;
    kt_error err;
    kt__lora_pack pack;
    fused.arch = "phi3";
    fused.fused = true;
    base_model base = open_base(&fused);
    lora_spec spec = good_spec();
    spec.arch = "phi3";
    spec.tensors[0] = (lora_tensor){"blk.0.attn_qkv.weight.lora_a", MODEL, 3};
    spec.tensors[1] = (lora_tensor){"blk.0.attn_qkv.weight.lora_b", 3,
                                    (HEADS + 2 * KV_HEADS) * HEAD};
    spec.tensors[2] = (lora_tensor){"blk.0.ffn_up.weight.lora_a", MODEL, 2};
    spec.tensors[3] = (lora_tensor){"blk.0.ffn_up.weight.lora_b", 2, 2 * FF};
    spec.n = 4;
    die_on(read_lora(&spec, base.net, &pack, &err), &err);
    const kt__lora_block *block = &pack.lora.blocks[0];
    assert_int_equal(block->a[KT__INPUT_ATTN].rank, 3);
    assert_int_equal(block->b[KT__SITE_Q].n_row, HEADS * HEAD);
    assert_int_equal(block->b[KT__SITE_V].n_row, KV_HEADS * HEAD);
    assert_int_equal(block->b[KT__SITE_V].at, 0);
    assert_false(block->b[KT__SITE_Q].shares_u);
    assert_true(block->b[KT__SITE_K].shares_u && block->b[KT__SITE_UP].shares_u);
    assert_int_equal(block->b[KT__SITE_GATE].n_row, FF);
    assert_int_equal(block->b[KT__SITE_UP].n_row, FF);
    kt__lora_pack_free(&pack);
    close_base(&base);
}

/* The name that the error gives, and a piece of its message. */
static void expect_refused(const lora_spec *spec, kt_status want, const char *where,
                           const char *piece) {
    kt_error err = {0};
    kt__lora_pack pack;
    base_model base = open_base(&plain);
    kt_status status = read_lora(spec, base.net, &pack, &err);
    if (status != want) fail_msg("%s: %s", kt_status_name(status), err.message);
    if (where && !strstr(err.where, where)) fail_msg("where: %s", err.where);
    if (!strstr(err.message, piece)) fail_msg("message: %s", err.message);
    assert_null(pack.memory);
    assert_null(pack.lora.blocks);
    close_base(&base);
}

static void test_keys(void **state) {
    (void)state;
    lora_spec spec = good_spec();
    spec.type = "model";
    expect_refused(&spec, KT_E_FORMAT, NULL, "no adapter");
    spec = good_spec();
    spec.type = NULL;
    expect_refused(&spec, KT_E_FORMAT, NULL, "no adapter");
    spec = good_spec();
    spec.kind = "dora";
    expect_refused(&spec, KT_E_UNSUPPORTED, "adapter.type", "'dora'");
    spec = good_spec();
    spec.arch = "qwen2";
    expect_refused(&spec, KT_E_UNSUPPORTED, "general.architecture", "'qwen2'");
    spec = good_spec();
    spec.no_alpha = true;
    expect_refused(&spec, KT_E_FORMAT, NULL, "alpha");
    spec = good_spec();
    spec.alpha = INFINITY;
    expect_refused(&spec, KT_E_FORMAT, NULL, "finite");
    spec = good_spec();
    spec.alora = true;
    expect_refused(&spec, KT_E_UNSUPPORTED, NULL, "aLoRA");
    spec = good_spec();
    spec.n = 0;
    expect_refused(&spec, KT_E_FORMAT, NULL, "no matrices");
}

static void test_tensors(void **state) {
    (void)state;
    lora_spec spec = good_spec();
    spec.n = 5;
    expect_refused(&spec, KT_E_FORMAT, "blk.0.ffn_down.weight.lora_a", "lora_b");
    spec = good_spec();
    spec.tensors[1].n_row = 7;
    expect_refused(&spec, KT_E_FORMAT, "blk.1.attn_q.weight", "another model");
    spec = good_spec();
    spec.tensors[0].n_col = 33;
    expect_refused(&spec, KT_E_FORMAT, "blk.1.attn_q.weight", "another model");
    spec = good_spec();
    spec.tensors[1].n_col = 4;
    expect_refused(&spec, KT_E_FORMAT, "blk.1.attn_q.weight", "rank 3");
    spec = good_spec();
    spec.nan_in = "blk.0.ffn_down.weight.lora_b";
    expect_refused(&spec, KT_E_FORMAT, "blk.0.ffn_down.weight", "not finite");
    spec = good_spec();
    spec.tensors[0].n_row = spec.tensors[1].n_col = 1023;
    expect_refused(&spec, KT_E_LIMIT, "blk.1.attn_v.weight", "1024");
}

static void test_names(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"token_embd.weight", "embedding"},      {"blk.2.attn_q.weight", "no matrix"},
        {"blk.-1.attn_q.weight", "no matrix"},   {"blk.01.attn_q.weight", "no matrix"},
        {"blk.0.attn_norm.weight", "no matrix"}, {"blk.0.attn_qkv.weight", "no matrix"},
        {"output_norm.weight", "no matrix"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char a[80], b[80];
        lora_spec spec = good_spec();
        snprintf(a, sizeof a, "%s.lora_a", wrong[i][0]);
        snprintf(b, sizeof b, "%s.lora_b", wrong[i][0]);
        spec.tensors[0].name = a;
        spec.tensors[1].name = b;
        expect_refused(&spec, KT_E_UNSUPPORTED, wrong[i][0], wrong[i][1]);
    }
    lora_spec spec = good_spec();
    spec.tensors[0].name = "blk.1.attn_q.weight";
    expect_refused(&spec, KT_E_UNSUPPORTED, "blk.1.attn_q.weight", "neither");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrices_have_their_places),
        cmocka_unit_test(test_first_layer_that_differs),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
