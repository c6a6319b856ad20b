/* Layers on a graphics processor: the logits of a model are the processor's, byte for byte, whatever part of it
 * is there, for prompts of several lengths, in each form of keys and values, for one sequence and for four in
 * one batch, also where the device fails in the middle. On Mesa's software driver; skipped where that is not
 * installed. KT_TEST_GPU=all: many models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "context/types.h"
#include "gpu/vk.h"
#include "kentang.h"
#include "model/fwd_steps.h"
#include "support.h"

enum { MOST_TOK = 300, MAX_VOCAB = 4096, STREAMS = 4, AGAIN = 3 };

typedef struct fixture {
    const char *preset, *quant;
    int kv; /* in a short test, the form; of KT_TEST_GPU=all each */
} fixture;

static const fixture fixtures[] = {
    {"tiny-llama", "q4_k_m", 0},
    {"tiny-qwen2-bias", "q8_0", 1},
    {"tiny-gemma3", "q5_k_m", 2},
    {"tiny-gpt-oss", "q8_0", 0},
    {"tiny-llama", "f16", 1},
    {"tiny-llama", "q4_0", 2},
    {"tiny-qwen2", "q4_1", 0},
    {"tiny-qwen3", "q6_k", 1},
    {"tiny-gemma2", "q5_1", 2},
    {"tiny-gemma3", "bf16", 0},
    {"tiny-phi3", "q2_k", 1},
    {"tiny-smollm3", "q3_k_m", 2},
    {"tiny-glm4", "q5_0", 0},
    {"tiny-granite", "iq4_nl", 1},
    {"tiny-mistral3", "q4_k_m", 2},
    {"tiny-exaone4-windows", "q8_0", 0},
    {"tiny-olmo2", "q4_k_m", 1},
    {"tiny-cohere2", "q4_k_m", 2},
    {"tiny-qwen3moe", "q4_k_m", 0},
    {"tiny-qwen35", "q4_k_m", 1},
    {"tiny-hunyuan-dense", "q4_k_m", 2},
    {"tiny-bitnet", "tq2_0", 0},
    {"tiny-llama4", "q8_0", 1},
};
enum { SHORT = 4 };

static const struct {
    const char *name;
    kt_kv_type type;
} forms[] = {{"f16", KT_KV_F16}, {"q8", KT_KV_Q8_0}, {"q4", KT_KV_Q4_0}};

static bool all_of_it;
static kt_ctx *ctx;
static kt_model *holder; /* of the device, so that its shaders are compiled once */
static bool has_device;
static char path[256], held_path[256], cache[256], log_text[4096];

static void write_log(void *user, kt_log_level level, const char *line) {
    (void)user, (void)level;
    snprintf(log_text, sizeof log_text, "%s", line);
}

static kt_model *open_in(kt_ctx *in, const char *file, int n_layers) {
    kt_error err;
    kt_model *model;
    kt_model_params mp = kt_model_params_default();
    mp.n_gpu_layers = n_layers;
    mp.device = "llvmpipe";
    mp.device_test = cache;
    die_on(kt_model_open(in, file, &mp, &model, &err), &err);
    return model;
}

static kt_model *open_model(int n_layers) {
    return open_in(ctx, path, n_layers);
}

static void make_model(const fixture *f) {
    char command[1024];
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant %s --seed 3 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, f->preset, f->quant, path);
    assert_int_equal(system(command), 0);
}

static kt_ctx *open_ctx(void) {
    kt_error err;
    kt_ctx *out;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = 2;
    cp.log = write_log;
    cp.log_level = KT_LOG_INFO;
    die_on(kt_ctx_open(&cp, &out, &err), &err);
    return out;
}

static int open_all(void **state) {
    kt_error err;
    kt__gpu *gpu;
    (void)state;
    ctx = open_ctx();
    snprintf(held_path, sizeof held_path, "%s/gpu-held-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(path, sizeof path, "%s/gpu-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(cache, sizeof cache, "%s/gpu-test-%d", KT_BINARY_DIR, (int)getpid());
    has_device = kt__gpu_open("llvmpipe", cache, NULL, &gpu, &err) == KT_OK;
    kt__gpu_close(gpu);
    if (!has_device) printf("skipped: %s\n", err.message);
    if (!has_device) return 0;
    make_model(&fixtures[0]);
    if (rename(path, held_path) != 0) return 1;
    holder = open_in(ctx, held_path, 1);
    return holder->device ? 0 : 1;
}

static int close_all(void **state) {
    (void)state;
    kt_model_close(holder);
    kt_ctx_close(ctx);
    unlink(held_path);
    unlink(path);
    unlink(cache);
    return 0;
}

static kt_engine *open_engine(kt_model *model, kt_kv_type type) {
    kt_error err;
    kt_engine *engine;
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ctx = 512;
    ep.n_ubatch = 512;
    ep.n_parallel = STREAMS;
    ep.kv_keys = ep.kv_values = type;
    die_on(kt_engine_open(model, &ep, &engine, &err), &err);
    return engine;
}

/* The logits of AGAIN + 1 evaluations of each sequence: of n_tok tokens, then of one each. */
static size_t run_engine(kt_engine *engine, int n_stream, size_t n_tok, float *out) {
    kt_error err;
    kt_seq *seqs[STREAMS];
    int32_t ids[STREAMS][MOST_TOK + AGAIN];
    kt_model_info info;
    float *at = out;
    kt_model_get_info(engine->model, &info);
    assert_true(info.n_vocab <= MAX_VOCAB);
    for (int s = 0; s < n_stream; s++) {
        uint32_t seed = (uint32_t)(7 + s);
        for (int i = 0; i < MOST_TOK + AGAIN; i++)
            ids[s][i] = (int32_t)lcg_below(&seed, (uint32_t)info.n_vocab);
        die_on(kt_seq_open(engine, &seqs[s], &err), &err);
    }
    for (size_t i = 0; i <= AGAIN; i++) {
        kt_eval_item items[STREAMS];
        for (int s = 0; s < n_stream; s++)
            items[s] = (kt_eval_item){
                .seq = seqs[s], .ids = ids[s] + (i ? n_tok + i - 1 : 0), .n = i ? 1 : n_tok};
        die_on(kt_engine_eval(engine, items, (size_t)n_stream, &err), &err);
        for (int s = 0; s < n_stream; s++, at += info.n_vocab)
            memcpy(at, kt_seq_logits(seqs[s]), (size_t)info.n_vocab * sizeof *at);
    }
    for (int s = 0; s < n_stream; s++) kt_seq_close(seqs[s]);
    return (size_t)(at - out) * sizeof *at;
}

static float want[STREAMS * (AGAIN + 1) * MAX_VOCAB], got[STREAMS * (AGAIN + 1) * MAX_VOCAB];

/* models: on the processor, with all layers on the device, with half of them; n of these */
static void compare_form(const fixture *f, kt_model *const *models, int n_model, int form) {
    static const size_t lengths[] = {1, 7, MOST_TOK};
    kt_engine *engines[3];
    for (int i = 0; i < n_model; i++) engines[i] = open_engine(models[i], forms[form].type);
    for (int n = 0; n < 3; n++)
        for (int n_stream = 1; n_stream <= STREAMS; n_stream += STREAMS - 1) {
            if (!all_of_it && n == 2 && (n_stream > 1 || f - fixtures > 1)) continue; /* seconds */
            int most = all_of_it || n < 2 ? n_model : 2;
            size_t bytes = run_engine(engines[0], n_stream, lengths[n], want);
            for (int i = 1; i < most; i++) {
                memset(got, 0xff, bytes);
                assert_int_equal(run_engine(engines[i], n_stream, lengths[n], got), bytes);
                if (memcmp(want, got, bytes) != 0)
                    fail_msg("%s %s, keys and values in %s, %zu tokens, %d sequences, %s: differs",
                             f->preset, f->quant, forms[form].name, lengths[n], n_stream,
                             i == 2 ? "half of the layers" : "all layers");
            }
        }
    for (int i = 0; i < n_model; i++) kt_engine_close(engines[i]);
}

static void test_fixture(void **state) {
    const fixture *f = *state;
    kt_model *models[3];
    kt_model_info info;
    int n_model = all_of_it || f == fixtures ? 3 : 2; /* each compiles its shaders anew */
    if (!has_device) skip();
    make_model(f);
    models[0] = open_model(0);
    kt_model_get_info(models[0], &info);
    uint64_t before = kt__gpu_get_use(holder->gpu).n_submits;
    models[1] = open_model(info.n_layer + 1);
    if (n_model == 3) models[2] = open_model((info.n_layer + 1) / 2);
    for (int form = 0; form < 3; form++)
        if (all_of_it || form == f->kv) compare_form(f, models, n_model, form);
    kt__device_layers *d = models[1]->device;
    assert_non_null(d);
    assert_int_equal(d->n + d->n_unfit, info.n_layer);
    if (d->n) assert_true(kt__gpu_get_use(holder->gpu).n_submits > before + 20);
    for (int i = 0; i < n_model; i++) kt_model_close(models[i]);
}

/* ---- what goes wrong ---- */

/* After so many submissions; the answers that follow are the processor's. */
static void test_lost_in_the_middle(void **state) {
    static const int after[] = {1, 4};
    (void)state;
    if (!has_device) skip();
    make_model(&fixtures[0]);
    kt_model *plain = open_model(0);
    kt_engine *engine = open_engine(plain, KT_KV_Q8_0);
    size_t bytes = run_engine(engine, STREAMS, 40, want);
    kt_engine_close(engine);
    kt_model_close(plain);
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        kt_ctx *other = open_ctx();
        kt_model *model = open_in(other, path, 99), *late;
        engine = open_engine(model, KT_KV_Q8_0);
        model->gpu->faults.lost_after = (int)atomic_load(&model->gpu->n_submits) + after[i];
        run_engine(engine, STREAMS, 40, got);
        assert_memory_equal(want, got, bytes);
        assert_true(kt__gpu_is_lost(model->gpu));
        assert_non_null(strstr(log_text, "computed by the processor from now on"));
        run_engine(engine, STREAMS, 40, got);
        assert_memory_equal(want, got, bytes);
        late = open_in(other, path, 99); /* while it is in use */
        assert_null(late->device);
        assert_non_null(strstr(log_text, "other models are yet to be closed"));
        kt_model_close(late);
        kt_engine_close(engine);
        kt_model_close(model);
        late = open_in(other, path, 99); /* anew */
        assert_int_equal(late->device->n, late->net->hp.n_layer);
        kt_model_close(late);
        kt_ctx_close(other);
    }
}

/* Weights that are copied, as to a card with memory of its own. */
static void test_copies(void **state) {
    (void)state;
    if (!has_device) skip();
    kt_error err;
    make_model(&fixtures[0]);
    kt_model *plain = open_model(0), *model = open_model(0);
    kt__gpu *gpu;
    const kt__gpu_faults copies = {.copies = true};
    die_on(kt__gpu_open("llvmpipe", cache, &copies, &gpu, &err), &err);
    model->gpu = gpu;
    die_on(kt__device_layers_place(model->net, gpu, 99, &ctx->log, &model->device, &err), &err);
    kt_engine *a = open_engine(plain, KT_KV_F16), *b = open_engine(model, KT_KV_F16);
    size_t bytes = run_engine(a, 1, 20, want);
    run_engine(b, 1, 20, got);
    assert_memory_equal(want, got, bytes);
    assert_true(kt__gpu_get_use(gpu).memory_bytes > model->net->weight_bytes / 2);
    kt_engine_close(a);
    kt_engine_close(b);
    kt_model_close(plain);
    model->gpu = NULL; /* the context knows nothing of it */
    kt_model_close(model);
    kt__gpu_close(gpu);
}

/* No memory for weights: none are there; none for a pass: the processor computes. */
static void test_no_memory(void **state) {
    (void)state;
    if (!has_device) skip();
    kt_error err;
    make_model(&fixtures[0]);
    for (int later = 0; later < 2; later++) {
        kt_model *model = open_model(0);
        kt__gpu *gpu;
        die_on(kt__gpu_open("llvmpipe", cache, NULL, &gpu, &err), &err);
        model->gpu = gpu;
        gpu->faults.no_memory = !later;
        gpu->faults.copies = true;
        die_on(kt__device_layers_place(model->net, gpu, 99, &ctx->log, &model->device, &err), &err);
        assert_true(later ? model->device->n == model->net->hp.n_layer : model->device->n == 0);
        gpu->faults.no_memory = true;
        kt_engine *engine = open_engine(model, KT_KV_F16);
        assert_null(engine->fwd->gpu);
        size_t bytes = run_engine(engine, 1, 20, got);
        if (later) assert_memory_equal(want, got, bytes);
        memcpy(want, got, bytes);
        kt_engine_close(engine);
        model->gpu = NULL;
        kt_model_close(model);
        kt__gpu_close(gpu);
    }
}

static void test_refused(void **state) {
    kt_error err;
    kt_model *model;
    (void)state;
    if (!has_device) skip();
    make_model(&fixtures[0]);
    kt_model_params mp = kt_model_params_default();
    mp.n_gpu_layers = 99;
    kt_ctx *other = open_ctx();
    mp.device = "no such card";
    assert_int_equal(kt_model_open(other, path, &mp, &model, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "no such card"));
    mp.device = NULL; /* a software driver is not taken unasked */
    die_on(kt_model_open(other, path, &mp, &model, &err), &err);
    assert_null(model->device);
    assert_non_null(strstr(log_text, "the processor computes all layers"));
    kt_model_close(model);
    mp.exact = true;
    assert_int_equal(kt_model_open(other, path, &mp, &model, &err), KT_E_UNSUPPORTED);
    kt_ctx_close(other);
    mp.exact = false;
    die_on(kt_model_open(ctx, path, &mp, &model, &err), &err); /* where another one is in use */
    assert_null(model->device);
    assert_non_null(strstr(log_text, "other models of this context use llvmpipe"));
    kt_model_close(model);
}

int main(void) {
    enum { N = sizeof fixtures / sizeof fixtures[0], OTHERS = 4 };
    struct CMUnitTest tests[N + OTHERS] = {
        cmocka_unit_test(test_lost_in_the_middle), cmocka_unit_test(test_copies),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_refused)};
    static char names[N][64];
    const char *how = getenv("KT_TEST_GPU");
    all_of_it = how && strcmp(how, "all") == 0;
    int n = all_of_it ? N : SHORT;
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "%s %s", fixtures[i].preset, fixtures[i].quant);
        union {
            const void *in;
            void *out;
        } arg = {.in = &fixtures[i]};
        tests[OTHERS + i] = (struct CMUnitTest){names[i], test_fixture, NULL, NULL, arg.out};
    }
    cmocka_set_test_filter(getenv("KT_TEST_ONLY"));
    return _cmocka_run_group_tests("gpu", tests, (size_t)(OTHERS + n), open_all, close_all);
}
