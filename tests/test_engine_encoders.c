/* Encoders and rerankers: the same bytes for a text alone and beside others, on every tier and with
 * any number of threads; whole texts in one piece; what such a model refuses, and how. */
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
#include "support.h"

enum { N_TEXTS = 10, MAX_TOK = 500, MAX_WIDTH = 256 };

typedef struct fixture {
    const char *preset, *quant;
} fixture;

static const fixture fixtures[] = {
    {"tiny-bert", "q4_k_m"},          {"tiny-bert", "f16"},
    {"tiny-nomic-bert", "q8_0"},      {"tiny-modern-bert", "q4_k_m"},
    {"tiny-nomic-bert-moe", "q8_0"},  {"tiny-gemma-embedding", "q4_k_m"},
    {"tiny-bert-reranker", "q5_k_m"}, {"tiny-qwen3-embedding", "q4_k_m"},
    {"tiny-qwen3-reranker", "q8_0"},
};

static char model_path[256];

static void make_model(const char *preset, const char *quant) {
    char command[1024];
    snprintf(model_path, sizeof model_path, "%s/encoders-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant %s --seed 3 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, preset, quant, model_path);
    assert_int_equal(system(command), 0);
}

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_model_info info;
} world;

static void open_world(world *w, const char *isa, int n_threads, int n_parallel) {
    kt_error err;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.isa = isa;
    cp.n_threads = n_threads;
    die_on(kt_ctx_open(&cp, &w->ctx, &err), &err);
    die_on(kt_model_open(w->ctx, model_path, NULL, &w->model, &err), &err);
    kt_engine_params ep = kt_engine_params_default();
    ep.n_parallel = n_parallel;
    ep.n_ctx = 512;
    die_on(kt_engine_open(w->model, &ep, &w->engine, &err), &err);
    kt_model_get_info(w->model, &w->info);
}

static void close_world(world *w) {
    kt_engine_close(w->engine);
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
}

/* Lengths from one token to nearly the whole context; the same ids in every world. */
static size_t text_ids(const world *w, int text, int32_t *ids) {
    static const size_t lengths[] = {1, 270, 2, 7, 15, 16, 17, 33, 64, 3};
    size_t n = lengths[(size_t)text % (sizeof lengths / sizeof *lengths)];
    uint32_t seed = (uint32_t)text + 1;
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)lcg_below(&seed, (uint32_t)w->info.n_vocab);
    return n;
}

static kt_request *submit(const world *w, int text) {
    int32_t ids[MAX_TOK];
    kt_error err;
    kt_request *req;
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = ids;
    r.prompt.n_ids = text_ids(w, text, ids);
    r.embedding.pooling = KT_POOLING_MODEL;
    if (w->info.pooling == KT_POOLING_RANK) r.prompt.pair_from = (int32_t)r.prompt.n_ids / 2;
    die_on(kt_engine_submit(w->engine, &r, &req, &err), &err);
    return req;
}

static size_t take(kt_request *req, float *out) {
    kt_event event = {.kind = KT_EVENT_STARTED};
    while (event.kind != KT_EVENT_FINISHED) assert_true(kt_request_next_event(req, &event, -1));
    if (!event.embedding) fail_msg("%s", event.error ? event.error->message : "no embedding");
    memcpy(out, event.embedding, event.n_embedding * sizeof *out);
    size_t n = event.n_embedding;
    kt_request_close(req);
    return n;
}

/* All texts, `together` at a time. */
static size_t embed_all(const world *w, int together, float *out) {
    kt_request *reqs[N_TEXTS];
    size_t n = 0;
    for (int at = 0; at < N_TEXTS; at += together) {
        for (int i = at; i < at + together && i < N_TEXTS; i++) reqs[i] = submit(w, i);
        for (int i = at; i < at + together && i < N_TEXTS; i++)
            n = take(reqs[i], out + (size_t)i * MAX_WIDTH);
    }
    return n;
}

static void test_one_answer(void **state) {
    const fixture *f = *state;
    static float want[N_TEXTS * MAX_WIDTH], got[N_TEXTS * MAX_WIDTH];
    static const char *const tiers[] = {"sse41", "avx2", "avxvnni", "avx512", "amx", "neon"};
    world w;
    make_model(f->preset, f->quant);
    open_world(&w, "ref", 1, 1);
    size_t width = embed_all(&w, 1, want);
    assert_int_equal(width, w.info.pooling == KT_POOLING_RANK ? 1 : w.info.d_model);
    close_world(&w);
    for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++) {
        if (!have_tier(tiers[t], NULL)) continue;
        for (int variant = 0; variant < 2; variant++) {
            memset(got, 0, sizeof got);
            open_world(&w, tiers[t], variant ? 3 : 1, variant ? 16 : 3);
            (void)embed_all(&w, variant ? N_TEXTS : 5, got);
            close_world(&w);
            for (size_t i = 0; i < N_TEXTS; i++)
                assert_memory_equal(got + i * MAX_WIDTH, want + i * MAX_WIDTH,
                                    width * sizeof *want);
        }
    }
    (void)unlink(model_path);
}

/* Short texts share a batch, and long ones are not cut. */
static void test_batches(void **state) {
    (void)state;
    world w;
    kt_engine_stats stats;
    static float out[N_TEXTS * MAX_WIDTH];
    make_model("tiny-bert", "f16");
    open_world(&w, NULL, 2, 16);
    (void)embed_all(&w, N_TEXTS, out);
    kt_engine_get_stats(w.engine, &stats);
    assert_true(stats.n_prefill_batches > 0 && stats.n_prefill_batches < N_TEXTS);
    close_world(&w);
}

/* What reads keys and values both ways has them as computed, whatever is asked. */
static void test_kv_types(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt_engine_info info;
    static float want[N_TEXTS * MAX_WIDTH], got[N_TEXTS * MAX_WIDTH];
    kt_engine_params ep = {
        .n_parallel = 16, .n_ctx = 512, .kv_keys = KT_KV_Q8_0, .kv_values = KT_KV_Q8_0};
    make_model("tiny-bert", "f16");
    open_world(&w, NULL, 2, 16);
    (void)embed_all(&w, N_TEXTS, want);
    kt_engine_close(w.engine);
    die_on(kt_engine_open(w.model, &ep, &w.engine, &err), &err);
    (void)embed_all(&w, N_TEXTS, got);
    kt_engine_get_info(w.engine, &info);
    close_world(&w);
    assert_int_equal(info.kv_keys, KT_KV_F16);
    assert_int_equal(info.kv_values, KT_KV_F16);
    assert_memory_equal(got, want, sizeof want);
    (void)unlink(model_path);
}

static void expect(kt_status status, kt_status wanted, const kt_error *err, const char *words) {
    assert_int_equal(status, wanted);
    if (!strstr(err->message, words)) fail_msg("\"%s\" does not say \"%s\"", err->message, words);
}

static void test_refusals(void **state) {
    (void)state;
    world w;
    kt_error err;
    kt_seq *seq;
    kt_request *req;
    static int32_t ids[600];
    static float out[MAX_WIDTH];
    int32_t *pair, pair_from;
    size_t n;
    make_model("tiny-bert", "f16");
    open_world(&w, NULL, 1, 2);
    expect(kt_seq_open(w.engine, &seq, &err), KT_E_UNSUPPORTED, &err, "generates no text");
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = ids;
    r.prompt.n_ids = 3;
    expect(kt_engine_submit(w.engine, &r, &req, &err), KT_E_UNSUPPORTED, &err, "encoder");
    expect(kt_embed(w.engine, ids, 600, KT_POOLING_MODEL, true, out, &err), KT_E_CONTEXT_FULL, &err,
           "600 tokens is too large: it exceeds the available context size of 512");
    expect(kt_embed(w.engine, ids, 6, KT_POOLING_RANK, true, out, &err), KT_E_UNSUPPORTED, &err,
           "no reranker");
    expect(kt_tokenize_pair(w.model, "a", 1, "b", 1, &pair, &n, &pair_from, &err), KT_E_UNSUPPORTED,
           &err, "no reranker");
    close_world(&w);
}

/* [CLS] query [SEP] document [SEP], the document's tokens of the second type. */
static void test_pairs(void **state) {
    (void)state;
    world w;
    kt_error err;
    int32_t *ids, pair_from, cls, sep;
    size_t n, n_one;
    float one_type, two_types;
    make_model("tiny-bert-reranker", "f16");
    open_world(&w, NULL, 1, 2);
    cls = w.info.bos_id;
    sep = w.info.eos_id;
    int32_t some[64];
    die_on(kt_tokenize_pair(w.model, "the water", 9, "the house [SEP]", 15, &ids, &n, &pair_from,
                            &err),
           &err);
    die_on(kt_tokenize(w.model, "the water", 9, KT_TOK_ADD_SPECIAL, some, 64, &n_one, &err), &err);
    assert_true(n > n_one && ids[0] == cls && ids[n - 1] == sep);
    assert_int_equal(pair_from, n_one);
    assert_memory_equal(ids, some, n_one * sizeof *ids);
    for (size_t i = n_one; i + 1 < n; i++) assert_int_not_equal(ids[i], sep); /* it is text */
    for (int pass = 0; pass < 2; pass++) {
        kt_request_params r = kt_request_params_default();
        kt_request *req;
        r.prompt.ids = ids;
        r.prompt.n_ids = n;
        r.embedding.pooling = KT_POOLING_RANK;
        r.prompt.pair_from = pass ? pair_from : 0;
        die_on(kt_engine_submit(w.engine, &r, &req, &err), &err);
        assert_int_equal(take(req, pass ? &two_types : &one_type), 1);
    }
    assert_true(one_type > 0.0f && one_type < 1.0f && two_types > 0.0f && two_types < 1.0f);
    assert_true(one_type < two_types || one_type > two_types);
    kt_free(ids);
    close_world(&w);
    (void)unlink(model_path);
}

/* ---- files that are not what they say ---- */

static uint8_t *file_bytes;
static size_t file_size;

static void read_model(const char *preset) {
    make_model(preset, "f32");
    FILE *f = fopen(model_path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    file_size = (size_t)ftell(f);
    rewind(f);
    free(file_bytes);
    file_bytes = aligned_alloc(32, (file_size + 31) / 32 * 32);
    assert_int_equal(fread(file_bytes, 1, file_size, f), file_size);
    fclose(f);
}

/* Behind the first place where the file has this text. */
static uint8_t *behind(const char *text) {
    uint8_t *at = memmem(file_bytes, file_size, text, strlen(text));
    if (!at) fail_msg("the file has no %s", text);
    return at + strlen(text);
}

static void expect_file(kt_status wanted, const char *words) {
    kt_ctx *ctx;
    kt_model *model;
    kt_error err;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = 1;
    die_on(kt_ctx_open(&cp, &ctx, &err), &err);
    expect(kt_model_open_memory(ctx, file_bytes, file_size, NULL, &model, &err), wanted, &err,
           words);
    kt_ctx_close(ctx);
}

static void test_bad_files(void **state) {
    (void)state;
    static const struct {
        const char *preset,
            *name; /* a tensor that gets another name: missing, and without a place */
    } renamed[] = {
        {"tiny-bert", "position_embd.weight"},
        {"tiny-bert", "token_embd_norm.bias"},
        {"tiny-bert", "blk.1.attn_output_norm.weight"},
        {"tiny-bert", "blk.2.layer_output_norm.bias"},
        {"tiny-bert", "blk.0.attn_k.bias"},
        {"tiny-nomic-bert", "blk.0.ffn_gate.weight"},
        {"tiny-gemma-embedding", "dense_3.weight"},
        {"tiny-bert-reranker", "cls.output.weight"},
    };
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        read_model(renamed[i].preset);
        behind(renamed[i].name)[-1] = 'X';
        expect_file(KT_E_FORMAT, renamed[i].name);
    }
    read_model("tiny-bert");
    memcpy(behind("token_types.weight") - 5, "ight?", 5);
    expect_file(KT_E_UNSUPPORTED, "no place in the bert architecture");
    read_model("tiny-bert"); /* behind a key: its type, then its value */
    behind("bert.pooling_type")[4] = 9;
    expect_file(KT_E_FORMAT, "pooling_type' is 9, expected 0 to 4");
    read_model("tiny-bert");
    behind("bert.attention.causal")[4] = 1;
    expect_file(KT_E_UNSUPPORTED, "attend in both directions");
    read_model("tiny-bert");
    behind("bert.context_length")[4] ^= 1;
    expect_file(KT_E_FORMAT, "'position_embd.weight' has shape");
    read_model("tiny-bert-reranker"); /* a head that the file's pooling does not use */
    behind("bert.pooling_type")[4] = 2;
    expect_file(KT_E_UNSUPPORTED, "'cls.");
    free(file_bytes);
    file_bytes = NULL;
    (void)unlink(model_path);
}

int main(void) {
    enum { N = sizeof fixtures / sizeof *fixtures };
    struct CMUnitTest tests[N + 5] = {cmocka_unit_test(test_batches),
                                      cmocka_unit_test(test_kv_types),
                                      cmocka_unit_test(test_refusals), cmocka_unit_test(test_pairs),
                                      cmocka_unit_test(test_bad_files)};
    for (size_t i = 0; i < N; i++)
        tests[5 + i] = (struct CMUnitTest){.name = fixtures[i].preset,
                                           .test_func = test_one_answer,
                                           .initial_state = (void *)(uintptr_t)&fixtures[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
