/* Layers on a graphics processor: the logits of a model are the processor's, byte for byte, whatever part of it
 * is there, for prompts of several lengths, in each form of keys and values, for one sequence and for four in
 * one batch, with every option of a request, in sessions and caches that the other one wrote, also where the device fails
 * in the middle. On Mesa's software driver; skipped where that is not installed. KT_TEST_GPU=all: many models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/system.h"
#include "context/types.h"
#include "gpu/steps.h"
#include "kentang.h"
#include "model/expert_store.h"
#include "model/fwd_steps.h"
#include "support.h"

enum { MOST_TOK = 300, FEW_TOK = 9, MAX_VOCAB = 4096, STREAMS = 4, AGAIN = 3 };

typedef struct fixture {
    const char *preset, *quant;
    int kv; /* in a short test, the form; of KT_TEST_GPU=all each */
} fixture;

static const fixture fixtures[] = {
    {"tiny-llama", "q4_k_m", 0},
    {"tiny-qwen2-bias", "q8_0", 1},
    {"tiny-gemma3", "q8_0", 2},
    {"tiny-gpt-oss", "q8_0", 0},
    {"tiny-llama", "f16", 1},
    {"tiny-llama", "q4_0", 2},
    {"tiny-qwen2", "q4_1", 0},
    {"tiny-qwen3", "q6_k", 1},
    {"tiny-gemma2", "q5_1", 2},
    {"tiny-gemma3", "q5_k_m", 0},
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

/* What goes wrong, and options: with experts, besides all else that layers have. */
static const fixture held = {"tiny-qwen3moe", "q4_k_m", 0};

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
    /* stays loaded, so that a sanitizer does not take the driver's own memory for a leak */
    (void)kt__library_open("libvulkan_lvp.so");
    ctx = open_ctx();
    snprintf(held_path, sizeof held_path, "%s/gpu-held-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(path, sizeof path, "%s/gpu-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(cache, sizeof cache, "%s/gpu-test-%d", KT_BINARY_DIR, (int)getpid());
    has_device = kt__gpu_open("llvmpipe", cache, NULL, &gpu, &err) == KT_OK;
    kt__gpu_close(gpu);
    if (!has_device) printf("skipped: %s\n", err.message);
    if (!has_device) return 0;
    make_model(&held);
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

/* The logits of each sequence's evaluations: of n_tok tokens, then of one, in a short test once, else AGAIN times. */
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
    for (size_t i = 0; i <= (all_of_it ? AGAIN : 1); i++) {
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
            /* a row is 10 ms: one sequence of a token, four of seven; the self-test has two splits */
            if (!all_of_it && (n == 2 || (n == 1) != (n_stream > 1))) continue;
            size_t bytes = run_engine(engines[0], n_stream, lengths[n], want);
            for (int i = 1; i < n_model; i++) {
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

/* Of a token nothing is the processor's but the choice of experts, for which each layer that has some waits: besides
 * those there is one wait for the layers and one for the head. */
static uint64_t submits_of(const kt__net *net) {
    uint64_t n = 2;
    for (int i = 0; i < net->hp.n_layer; i++) n += net->layers[i].down_exps.w.data != NULL;
    return n;
}

/* And the driver's commands are those of the token before. */
static void expect_submits(kt_model *model) {
    kt_error err;
    kt_seq *seq;
    const int32_t ids[] = {3, 4, 5};
    uint64_t n = submits_of(model->net);
    int n_record = 0;
    kt_engine *engine = open_engine(model, KT_KV_F16);
    die_on(kt_seq_open(engine, &seq, &err), &err);
    const kt__gpu_tape *tape = &engine->step_fwd->gpu->tape;
    for (int i = 0; i < 3; i++) {
        uint64_t before = kt__gpu_get_use(model->gpu).n_submits;
        die_on(kt_seq_eval(seq, ids + i, 1, &err), &err);
        assert_int_equal(kt__gpu_get_use(model->gpu).n_submits, before + n);
        if (i == 2) assert_int_equal(tape->n_record, n_record); /* nothing was recorded anew */
        n_record = tape->n_record;
    }
    kt_seq_close(seq);
    kt_engine_close(engine);
}

/* With memory for one layer's experts: those that the device has are not read. */
static void expect_no_reads(kt_model *plain, kt_model *model) {
    kt_error err;
    kt__expert_counts counts;
    kt__expert_store *store = model->experts;
    kt_engine *engine = open_engine(plain, KT_KV_F16);
    size_t bytes = run_engine(engine, 1, 7, want);
    kt_engine_close(engine);
    die_on(kt__expert_store_start(store, kt__expert_store_least(store), &err), &err);
    engine = open_engine(model, KT_KV_F16);
    run_engine(engine, 1, 7, got);
    kt__expert_store_counts(store, &counts);
    assert_int_equal(counts.read_bytes, 0);
    assert_memory_equal(want, got, bytes);
    kt_engine_close(engine);
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
    /* rows are centred by the processor, before each norm */
    bool centred = models[1]->net->hp.features & KT__F_CENTRED;
    if (d->n_unfit == 0 && !centred) expect_submits(models[1]);
    if (d->n_unfit == 0 && models[1]->experts) expect_no_reads(models[0], models[1]);
    for (int i = 0; i < n_model; i++) kt_model_close(models[i]);
}

/* ---- what goes wrong ---- */

/* After so many submissions; the answers that follow are the processor's. */
static void test_lost_in_the_middle(void **state) {
    static const int after[] = {1, 4};
    (void)state;
    if (!has_device) skip();
    kt_model *plain = open_in(ctx, held_path, 0);
    kt_engine *engine = open_engine(plain, KT_KV_Q8_0);
    size_t bytes = run_engine(engine, STREAMS, FEW_TOK, want);
    kt_engine_close(engine);
    kt_model_close(plain);
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        kt_ctx *other = open_ctx();
        kt_model *model = open_in(other, held_path, 99), *late;
        engine = open_engine(model, KT_KV_Q8_0);
        model->gpu->faults.lost_after = (int)atomic_load(&model->gpu->n_submits) + after[i];
        run_engine(engine, STREAMS, FEW_TOK, got);
        assert_memory_equal(want, got, bytes);
        assert_true(kt__gpu_is_lost(model->gpu));
        assert_non_null(strstr(log_text, "computed by the processor from now on"));
        run_engine(engine, STREAMS, FEW_TOK, got);
        assert_memory_equal(want, got, bytes);
        late = open_in(other, held_path, 99); /* while it is in use */
        assert_null(late->device);
        assert_non_null(strstr(log_text, "other models are yet to be closed"));
        kt_model_close(late);
        kt_engine_close(engine);
        kt_model_close(model);
        late = open_in(other, held_path, 99); /* anew */
        assert_int_equal(late->device->n, late->net->hp.n_layer);
        kt_model_close(late);
        kt_ctx_close(other);
    }
}

/* The device of all tests, as it is not; what passed its test before is tested again. */
static void set_faults(kt__gpu_faults faults, bool again) {
    holder->gpu->faults = faults;
    for (int i = 0; again && i < KT__CHECKS; i++) atomic_store(&holder->gpu->passed[i], false);
}

/* Weights that are copied, as to a card with memory of its own. */
static void test_copies(void **state) {
    (void)state;
    if (!has_device) skip();
    kt_model *plain = open_in(ctx, held_path, 0);
    uint64_t before = kt__gpu_get_use(holder->gpu).memory_bytes;
    set_faults((kt__gpu_faults){.copies = true}, false);
    kt_model *model = open_in(ctx, held_path, 99);
    set_faults((kt__gpu_faults){0}, false);
    kt_engine *a = open_engine(plain, KT_KV_F16), *b = open_engine(model, KT_KV_F16);
    size_t bytes = run_engine(a, 1, 20, want);
    run_engine(b, 1, 20, got);
    assert_memory_equal(want, got, bytes);
    assert_true(kt__gpu_get_use(holder->gpu).memory_bytes > before + model->net->weight_bytes / 2);
    kt_engine_close(a);
    kt_engine_close(b);
    kt_model_close(plain);
    kt_model_close(model);
    assert_int_equal(kt__gpu_get_use(holder->gpu).memory_bytes, before);
}

/* No memory for weights: none are there; none for a pass: the processor computes. */
static void test_no_memory(void **state) {
    (void)state;
    if (!has_device) skip();
    for (int later = 0; later < 2; later++) {
        set_faults((kt__gpu_faults){.copies = true, .no_memory = !later}, false);
        kt_model *model = open_in(ctx, held_path, 99);
        assert_int_equal(model->device->n, later ? model->net->hp.n_layer : 0);
        set_faults((kt__gpu_faults){.no_memory = true}, false);
        kt_engine *engine = open_engine(model, KT_KV_F16);
        assert_null(engine->fwd->gpu);
        size_t bytes = run_engine(engine, 1, 20, got);
        if (later) assert_memory_equal(want, got, bytes);
        memcpy(want, got, bytes);
        kt_engine_close(engine);
        kt_model_close(model);
    }
    set_faults((kt__gpu_faults){0}, false);
}

/* -ngl auto: nothing where the device is this processor, else what its free memory holds. */
static void test_by_itself(void **state) {
    (void)state;
    if (!has_device) skip();
    kt__gpu_info *info = &holder->gpu->found.info;
    kt_model *model = open_in(ctx, held_path, -1);
    int n_layer = model->net->hp.n_layer;
    assert_int_equal(model->device->n, 0);
    assert_false(model->device->head);
    kt_model_close(model);
    info->software = info->integrated = false; /* a card */
    assert_true(kt__gpu_free_bytes(holder->gpu) > 0);
    uint64_t left = info->memory_bytes / 8 > 384u << 20 ? info->memory_bytes / 8 : 384u << 20;
    for (int fits = 0; fits <= n_layer; fits += n_layer) {
        set_faults((kt__gpu_faults){.free_bytes = fits ? left * 2 : left}, false);
        model = open_in(ctx, held_path, -1);
        assert_int_equal(model->device->n, fits);
        assert_int_equal(model->device->head, fits > 0);
        kt_model_close(model);
    }
    set_faults((kt__gpu_faults){0}, false);
    info->software = info->integrated = true;
    kt_model_params mp = kt_model_params_default();
    kt_error err;
    mp.n_gpu_layers = -1;
    mp.exact = true; /* not refused, since nobody asked for a device */
    die_on(kt_model_open(ctx, held_path, &mp, &model, &err), &err);
    assert_null(model->device);
    kt_model_close(model);
}

/* Single operations that fail at their first use are the processor's, with the same bytes. */
static void test_wrong_operations(void **state) {
    static const char *const wrong[] = {"product with Q6_K", "attention"};
    (void)state;
    if (!has_device) skip();
    kt_model *plain = open_in(ctx, held_path, 0);
    kt_engine *engine = open_engine(plain, KT_KV_F16);
    size_t bytes = run_engine(engine, 1, 20, want);
    char *kept = holder->gpu->kept;
    kt_engine_close(engine);
    kt_model_close(plain);
    holder->gpu->kept = NULL;
    for (int i = 0; i < 2; i++) {
        set_faults((kt__gpu_faults){.wrong = wrong[i]}, true);
        log_text[0] = '\0';
        kt_model *model = open_in(ctx, held_path, 99);
        assert_true(i ? model->device->n_unfit == 0 : model->device->n_unfit > 0);
        engine = open_engine(model, KT_KV_F16);
        if (i) assert_non_null(strstr(log_text, "its attention differs"));
        assert_true(i ? engine->gpu_kv == NULL : engine->gpu_kv != NULL);
        run_engine(engine, 1, 20, got);
        assert_memory_equal(want, got, bytes);
        kt_engine_close(engine);
        kt_model_close(model);
    }
    set_faults((kt__gpu_faults){0}, true);
    holder->gpu->kept = kept;
}

/* ---- options, on the processor and on the device ---- */

enum { ON_CPU, ON_GPU, PLACES };

static kt_model *both[PLACES];

static void open_both(void) {
    for (int i = 0; i < PLACES; i++) both[i] = open_in(ctx, held_path, i == ON_GPU ? 99 : 0);
    assert_int_equal(both[ON_GPU]->device->n, both[ON_GPU]->net->hp.n_layer);
}

static void close_both(void) {
    for (int i = 0; i < PLACES; i++) kt_model_close(both[i]);
}

static const char *file_named(const char *what) {
    static char out[256];
    snprintf(out, sizeof out, "%s/gpu-%s-%d", KT_BINARY_DIR, what, (int)getpid());
    return out;
}

typedef struct answer {
    int32_t ids[64];
    float logprobs[64];
    int n;
    kt_request_report report;
} answer;

static void on_event(void *user, const kt_event *event) {
    answer *a = user;
    if (event->kind == KT_EVENT_TOKEN && event->id >= 0) {
        a->ids[a->n] = event->id;
        a->logprobs[a->n++] = event->logprob;
    }
    if (event->kind == KT_EVENT_FINISHED) a->report = *event->report;
}

enum { N_PROMPT = 28, N_PREDICT = 6, PERIOD = 7 };

/* A text that repeats itself, so that there is something to propose. */
static void ask(kt_engine *engine, uint32_t seed, const kt_adapter_use *use, answer *out) {
    kt_error err;
    kt_request *req;
    int32_t ids[N_PROMPT], left = 1;
    kt_request_params r = kt_request_params_default();
    for (int i = 0; i < N_PROMPT; i++)
        ids[i] = i < PERIOD ? (int32_t)lcg_below(&seed, 200) : ids[i - PERIOD];
    r.prompt.ids = ids;
    r.prompt.n_ids = N_PROMPT;
    r.logprobs.n = 5;
    r.gen.n_predict = N_PREDICT;
    r.gen.ignore_eog = true;
    r.gen.sampling.temperature = 0;
    r.adapters = use;
    r.n_adapters = use != NULL;
    r.events.on_event = on_event;
    r.events.user = memset(out, 0, sizeof *out);
    die_on(kt_engine_submit(engine, &r, &req, &err), &err);
    while (left) die_on(kt_engine_step(engine, 1000000, &left, &err), &err);
    kt_request_close(req);
    assert_int_equal(out->n, N_PREDICT);
}

static void expect_answer(const answer *a, const answer *b) {
    assert_memory_equal(a->ids, b->ids, sizeof a->ids);
    assert_memory_equal(a->logprobs, b->logprobs, sizeof a->logprobs);
}

/* Slices of a prompt, proposals that are verified, a hit of what is kept: all one answer. */
static void test_requests(void **state) {
    static const struct { int32_t n_ubatch, n_draft; } options[] = {{512, -1}, {16, -1}, {512, 8}};
    answer first = {.n = 0}, out;
    (void)state;
    if (!has_device) skip();
    open_both();
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (int on = 0; on < PLACES; on++) {
            kt_error err;
            kt_engine *engine;
            kt_engine_params ep = kt_engine_params_default();
            ep.n_ctx = 256;
            ep.n_ubatch = options[i].n_ubatch;
            ep.n_draft = options[i].n_draft;
            die_on(kt_engine_open(both[on], &ep, &engine, &err), &err);
            for (int again = 0; again < 2; again++) {
                ask(engine, 3, NULL, &out);
                if (first.n == 0) first = out;
                expect_answer(&first, &out);
                assert_true(again ? out.report.n_cached > 0 : out.report.n_cached == 0);
            }
            if (options[i].n_draft > 0) assert_true(out.report.n_drafted > 0);
            kt_engine_close(engine);
        }
    close_both();
}

static void test_adapters(void **state) {
    answer out[PLACES], without;
    char command[1024], adapter[256];
    (void)state;
    if (!has_device) skip();
    snprintf(adapter, sizeof adapter, "%s", file_named("adapter"));
    snprintf(command, sizeof command,
             "'%s/kentang' synth --lora 8 --lora-kind all --seed 5 --base '%s' '%s' >/dev/null",
             KT_BINARY_DIR, held_path, adapter);
    assert_int_equal(system(command), 0);
    open_both();
    for (int on = 0; on < PLACES; on++) {
        kt_error err;
        kt_adapter_use use = {.scale = 0.5f};
        kt_adapter *file;
        kt_engine *engine = open_engine(both[on], KT_KV_F16);
        die_on(kt_adapter_open(both[on], adapter, &file, &err), &err);
        use.adapter = file;
        ask(engine, 3, &use, &out[on]);
        ask(engine, 3, NULL, &without);
        kt_engine_close(engine);
        kt_adapter_close(file);
    }
    expect_answer(&out[ON_CPU], &out[ON_GPU]);
    assert_memory_not_equal(out[0].logprobs, without.logprobs, sizeof without.logprobs);
    close_both();
    unlink(adapter);
}

static void test_embeddings(void **state) {
    enum { N = 20 };
    int32_t ids[N];
    float *out[PLACES];
    size_t n = 0;
    (void)state;
    if (!has_device) skip();
    for (int i = 0; i < N; i++) ids[i] = 11 * i % 200;
    open_both();
    for (int on = 0; on < PLACES; on++) {
        kt_error err;
        kt_engine *engine = open_engine(both[on], KT_KV_F16);
        n = (size_t)both[on]->net->hp.d_model;
        out[on] = calloc(n, sizeof(float));
        assert_non_null(out[on]);
        die_on(kt_embed(engine, ids, N, KT_POOLING_MEAN, true, out[on], &err), &err);
        kt_engine_close(engine);
    }
    assert_memory_equal(out[ON_CPU], out[ON_GPU], n * sizeof(float));
    for (int on = 0; on < PLACES; on++) free(out[on]);
    close_both();
}

/* What one wrote, the other one reads. */
static void test_disk_cache(void **state) {
    char command[512], dir[256];
    (void)state;
    if (!has_device) skip();
    snprintf(dir, sizeof dir, "%s", file_named("cache"));
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    open_both();
    for (int writer = 0; writer < PLACES; writer++) {
        answer out[PLACES];
        for (int i = 0; i < PLACES; i++) {
            kt_error err;
            kt_cache *on_disk;
            const kt_cache_params p = {.dir = dir};
            kt_engine *engine = open_engine(both[i ? !writer : writer], KT_KV_Q8_0);
            die_on(kt_cache_open(engine, &p, &on_disk, &err), &err);
            ask(engine, 3, NULL, &out[i]);
            assert_true(i ? out[i].report.n_cached > 0 : out[i].report.n_cached == 0);
            kt_cache_close(on_disk);
            kt_engine_close(engine);
        }
        expect_answer(&out[0], &out[1]);
        assert_int_equal(system(command), 0);
    }
    close_both();
}

/* 3 splits of 256 positions and a part of one. */
enum { N_LONG = 3 * 256 + 20 };

/* A sequence whose pages are pressed in place between its tokens: the first split to 8 bits, the second one to 4. */
static void press_pages(kt_engine *engine, kt_seq *seq) {
    kt__kv *kv = engine->kv;
    for (int form = KT__KV_Q8; form <= KT__KV_Q4; form++) {
        int64_t n_pos = form == KT__KV_Q8 ? 40 * 16 : 32 * 16;
        kt__kv_press_begin(kv);
        kt__kv_press_allow(kv, &seq->state.table);
        assert_int_equal(
            kt__kv_table_press(kv, &seq->state.table, n_pos, (kt__kv_form)form, 64, false),
            form == KT__KV_Q8 ? 40 : 16);
    }
}

static void test_sessions_and_pressed_pages(void **state) {
    int32_t ids[N_LONG + 2];
    uint32_t seed = 9;
    (void)state;
    if (!has_device) skip();
    for (int i = 0; i < N_LONG + 2; i++) ids[i] = (int32_t)lcg_below(&seed, 200);
    open_both();
    kt_engine *engines[PLACES];
    kt_seq *seqs[PLACES];
    kt_error err;
    const char *session = file_named("session");
    size_t bytes = (size_t)both[0]->net->hp.n_vocab * sizeof(float);
    for (int on = 0; on < PLACES; on++) {
        kt_engine_params ep = kt_engine_params_default();
        ep.n_ctx = 1024;
        ep.kv_pressure = KT_KV_PRESSURE_ALL;
        die_on(kt_engine_open(both[on], &ep, &engines[on], &err), &err);
        die_on(kt_seq_open(engines[on], &seqs[on], &err), &err);
    }
    die_on(kt_seq_eval(seqs[ON_CPU], ids, N_LONG, &err), &err);
    for (int writer = 0; writer < PLACES; writer++) {
        die_on(kt_seq_save(seqs[writer], session, &err), &err);
        die_on(kt_seq_restore(seqs[!writer], session, &err), &err);
        for (int on = 0; on < PLACES; on++)
            die_on(kt_seq_eval(seqs[on], ids + N_LONG + writer, 1, &err), &err);
        assert_memory_equal(kt_seq_logits(seqs[0]), kt_seq_logits(seqs[1]), bytes);
    }
    memcpy(want, kt_seq_logits(seqs[ON_CPU]), bytes);
    for (int on = 0; on < PLACES; on++) {
        press_pages(engines[on], seqs[on]);
        die_on(kt_seq_truncate(seqs[on], N_LONG + 1, &err), &err);
        die_on(kt_seq_eval(seqs[on], ids + N_LONG + 1, 1, &err), &err);
    }
    uint64_t before = kt__gpu_get_use(holder->gpu).n_submits;
    die_on(kt_seq_eval(seqs[ON_GPU], ids, 1, &err), &err);
    assert_int_equal(kt__gpu_get_use(holder->gpu).n_submits,
                     before + submits_of(both[ON_GPU]->net));
    die_on(kt_seq_eval(seqs[ON_CPU], ids, 1, &err), &err);
    assert_memory_equal(kt_seq_logits(seqs[0]), kt_seq_logits(seqs[1]), bytes);
    assert_memory_not_equal(kt_seq_logits(seqs[0]), want, bytes);
    for (int on = 0; on < PLACES; on++) {
        kt_seq_close(seqs[on]);
        kt_engine_close(engines[on]);
    }
    close_both();
    unlink(session);
}

static void test_refused(void **state) {
    kt_error err;
    kt_model *model;
    (void)state;
    if (!has_device) skip();
    kt_model_params mp = kt_model_params_default();
    mp.n_gpu_layers = 99;
    kt_ctx *other = open_ctx();
    mp.device = "no such card";
    assert_int_equal(kt_model_open(other, held_path, &mp, &model, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "no such card"));
    mp.device = NULL; /* a software driver is not taken unasked */
    die_on(kt_model_open(other, held_path, &mp, &model, &err), &err);
    assert_null(model->device);
    assert_non_null(strstr(log_text, "the processor computes all layers"));
    kt_model_close(model);
    mp.exact = true;
    assert_int_equal(kt_model_open(other, held_path, &mp, &model, &err), KT_E_UNSUPPORTED);
    kt_ctx_close(other);
    mp.exact = false;
    die_on(kt_model_open(ctx, held_path, &mp, &model, &err),
           &err); /* where another one is in use */
    assert_null(model->device);
    assert_non_null(strstr(log_text, "other models of this context use llvmpipe"));
    kt_model_close(model);
}

int main(void) {
    enum { N = sizeof fixtures / sizeof fixtures[0], OTHERS = 11 };
    struct CMUnitTest tests[N + OTHERS] = {cmocka_unit_test(test_copies),
                                           cmocka_unit_test(test_no_memory),
                                           cmocka_unit_test(test_by_itself),
                                           cmocka_unit_test(test_wrong_operations),
                                           cmocka_unit_test(test_requests),
                                           cmocka_unit_test(test_adapters),
                                           cmocka_unit_test(test_embeddings),
                                           cmocka_unit_test(test_disk_cache),
                                           cmocka_unit_test(test_sessions_and_pressed_pages),
                                           cmocka_unit_test(test_lost_in_the_middle),
                                           cmocka_unit_test(test_refused)};
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
