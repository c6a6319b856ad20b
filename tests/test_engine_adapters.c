/* One answer with adapters: logits with a list of adapters are equal byte for byte across kernel
 * tiers, threads, slices of the prompt, and beside sequences with other adapters or none; rows
 * without an adapter are as without any; what is kept of prompts is found by those with the same
 * adapters alone, but for adapters that change no keys and values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "context/types.h"
#include "kv_types.h"
#include "support.h"

enum { N_TOK = 70, MAX_VOCAB = 4096, N_FILES = 4 };

typedef struct fixture {
    const char *preset, *quant;
} fixture;

static const fixture fixtures[] = {
    {"tiny-llama", "q4_k_m"},   {"tiny-qwen2-bias", "q8_0"},
    {"tiny-phi3", "q2_k"},      {"tiny-glm4", "q4_k_m"},
    {"tiny-gemma2", "q6_k"},    {"tiny-olmo2", "q4_k_m"},
    {"tiny-cohere2", "q8_0"},   {"tiny-granite", "q4_k_m"},
    {"tiny-qwen3", "q5_k_m"},   {"tiny-qwen2moe", "q8_0"},
    {"tiny-llama4", "q4_k_m"},  {"tiny-qwen35", "q4_k_m"},
    {"tiny-lfm2", "q8_0"},      {"tiny-falconh1", "q4_k_m"},
    {"tiny-nemotronh", "q8_0"}, {"tiny-granitehybrid-dense", "q4_k_m"},
};

/* every matrix, every matrix, the last layer behind its K/V, the final hidden state */
enum { ALL_A, ALL_B, LAST, HIDDEN };
static const char *const kinds[N_FILES] = {"all", "all", "last", "hidden"};
static const int ranks[N_FILES] = {8, 5, 16, 3};

static char dir[128];

static const char *file_of(int i) {
    static char path[N_FILES][200];
    snprintf(path[i], sizeof path[i], "%s/adapter%d.gguf", dir, i);
    return path[i];
}

static const char *model_path(void) {
    static char path[200];
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    return path;
}

static void make_files(const fixture *f) {
    char command[2048];
    snprintf(dir, sizeof dir, "%s/adapters-%d", KT_BINARY_DIR, (int)getpid());
    (void)mkdir(dir, 0700);
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant %s --seed 3 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, f->preset, f->quant, model_path());
    assert_int_equal(system(command), 0);
    for (int i = 0; i < N_FILES; i++) {
        snprintf(command, sizeof command,
                 "'%s/kentang' synth --lora %d --lora-kind %s --seed %d --base '%s' '%s'",
                 KT_BINARY_DIR, ranks[i], kinds[i], 10 + i, model_path(), file_of(i));
        assert_int_equal(system(command), 0);
    }
}

static void remove_files(void) {
    for (int i = 0; i < N_FILES; i++) (void)unlink(file_of(i));
    (void)unlink(model_path());
    (void)rmdir(dir);
}

/* ---- a model with its adapters ---- */

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_adapter *adapters[N_FILES];
    int32_t n_vocab;
} world;

static world world_open(const char *isa, int n_threads, const kt_engine_params *params) {
    kt_error err;
    world w;
    kt_model_info info;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.isa = isa;
    cp.n_threads = n_threads;
    die_on(kt_ctx_open(&cp, &w.ctx, &err), &err);
    die_on(kt_model_open(w.ctx, model_path(), NULL, &w.model, &err), &err);
    kt_engine_params with = params ? *params : kt_engine_params_default();
    kv_types_of_test(&with);
    die_on(kt_engine_open(w.model, &with, &w.engine, &err), &err);
    for (int i = 0; i < N_FILES; i++)
        die_on(kt_adapter_open(w.model, file_of(i), &w.adapters[i], &err), &err);
    kt_model_get_info(w.model, &info);
    w.n_vocab = info.n_vocab;
    assert_true(w.n_vocab <= MAX_VOCAB);
    return w;
}

static void world_close(world *w) {
    kt_engine_close(w->engine);
    for (int i = 0; i < N_FILES; i++) kt_adapter_close(w->adapters[i]);
    kt_model_close(w->model);
    assert_int_equal(atomic_load(&w->ctx->mem_used_bytes), 0);
    kt_ctx_close(w->ctx);
}

static kt_engine_params small_engine(int n_ubatch) {
    kt_engine_params ep = kt_engine_params_default();
    ep.n_ubatch = n_ubatch;
    ep.n_ctx = 512;
    return ep;
}

/* Lists that rows have: none, one, two with scales, and those that keep K/V. */
enum { LISTS = 5 };

static size_t fill_list(const world *w, int list, kt_adapter_use uses[3]) {
    switch (list) {
    case 1: uses[0] = (kt_adapter_use){w->adapters[ALL_A], 1.0f}; return 1;
    case 2:
        uses[0] = (kt_adapter_use){w->adapters[ALL_B], 0.75f};
        uses[1] = (kt_adapter_use){w->adapters[HIDDEN], 0.0f};
        uses[2] = (kt_adapter_use){w->adapters[ALL_A], -0.5f};
        return 3;
    case 3: uses[0] = (kt_adapter_use){w->adapters[LAST], 1.5f}; return 1;
    case 4:
        uses[0] = (kt_adapter_use){w->adapters[HIDDEN], 1.0f};
        uses[1] = (kt_adapter_use){w->adapters[LAST], 0.5f};
        return 2;
    default: return 0;
    }
}

static void set_list(const world *w, kt_seq *seq, int list) {
    kt_error err;
    kt_adapter_use uses[3];
    size_t n = fill_list(w, list, uses);
    die_on(kt_seq_set_adapters(seq, uses, n, &err), &err);
}

static void fill_ids(int32_t *ids, size_t n, int32_t n_vocab, uint32_t seed) {
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)lcg_below(&seed, (uint32_t)n_vocab);
}

/* ---- logits ---- */

typedef struct setup {
    const char *isa;
    int n_threads, n_ubatch;
    size_t slice;
} setup;

/* The logits after each token with one list, out[N_TOK][n_vocab]; beside: with sequences that have
 * the other lists. Returns n_vocab. */
static int32_t run(const setup *s, int list, bool beside, float *out) {
    kt_error err;
    kt_seq *seqs[LISTS];
    int32_t ids[LISTS][N_TOK];
    kt_engine_params ep = small_engine(s->n_ubatch);
    world w = world_open(s->isa, s->n_threads, &ep);
    int n_seqs = beside ? LISTS : 1;
    for (int i = 0; i < n_seqs; i++) {
        die_on(kt_seq_open(w.engine, &seqs[i], &err), &err);
        set_list(&w, seqs[i], (list + i) % LISTS);
        fill_ids(ids[i], N_TOK, w.n_vocab, (uint32_t)(1 + 100 * i));
    }
    for (size_t at = 0; at < N_TOK; at += s->slice) {
        size_t n = N_TOK - at < s->slice ? N_TOK - at : s->slice;
        kt_eval_item items[LISTS];
        for (int i = 1; i < n_seqs; i++)
            items[i - 1] = (kt_eval_item){seqs[i], ids[i] + at, n, NULL};
        items[n_seqs - 1] = (kt_eval_item){seqs[0], ids[0] + at, n, out + at * (size_t)w.n_vocab};
        die_on(kt_engine_eval(w.engine, items, (size_t)n_seqs, &err), &err);
    }
    for (int i = 0; i < n_seqs; i++) kt_seq_close(seqs[i]);
    world_close(&w);
    return w.n_vocab;
}

static void test_one_answer(void **state) {
    const fixture *f = *state;
    static float want[LISTS][N_TOK * MAX_VOCAB], got[N_TOK * MAX_VOCAB];
    static const char *const tiers[] = {"sse41", "avx2", "avxvnni", "avx512",
                                        "amx",   "neon", "dotprod", "i8mm"};
    const size_t number = (size_t)(f - fixtures);
    char best[16], name[16];
    make_files(f);
    assert_true(have_tier(NULL, best));
    setup base = {"ref", 1, 512, N_TOK};
    size_t bytes = 0;
    for (int list = 0; list < LISTS; list++) {
        bytes = (size_t)run(&base, list, false, want[list]) * N_TOK * sizeof(float);
        for (int i = 0; i < list; i++) assert_true(memcmp(want[i], want[list], bytes) != 0);
    }
    for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++) {
        const setup variants[] = {
            {tiers[t], 2, 512, N_TOK}, {tiers[t], 3, 33, 40}, {tiers[t], 2, 512, 1}};
        if (!have_tier(tiers[t], name)) continue;
        for (int v = 0; v < 6; v++) {
            /* the best tier goes all ways, the others one of three, by turns, with two lists */
            if (strcmp(name, best) != 0 && (size_t)v % 3 != (number + t) % 3) continue;
            int list = (int)(t + (size_t)v) % LISTS;
            memset(got, 0xff, bytes);
            run(&variants[v % 3], list, v >= 2, got);
            if (memcmp(want[list], got, bytes) != 0)
                fail_msg("%s %s: tier %s, variant %d, list %d differs from the reference",
                         f->preset, f->quant, tiers[t], v, list);
        }
    }
    remove_files();
}

/* ---- what is kept ---- */

/* Greedy answer to the prompt with a list; ids[n], n_cached. */
typedef struct asked {
    int32_t ids[24];
    int n;
    int32_t n_cached;
} asked;

static kt_request *submit(const world *w, int list, const int32_t *ids, size_t n) {
    kt_error err;
    kt_request *req;
    kt_adapter_use uses[3];
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = ids;
    r.prompt.n_ids = n;
    r.adapters = uses;
    r.n_adapters = fill_list(w, list, uses);
    r.gen.sampling.temperature = 0.0f;
    r.gen.n_predict = 24;
    r.gen.ignore_eog = true;
    die_on(kt_engine_submit(w->engine, &r, &req, &err), &err);
    return req;
}

static asked finish(kt_request *req) {
    kt_event event = {.kind = KT_EVENT_STARTED};
    asked a = {.n_cached = -1};
    while (kt_request_next_event(req, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN && event.id >= 0) a.ids[a.n++] = event.id;
        if (event.kind == KT_EVENT_FINISHED) {
            if (event.error) fail_msg("%s", event.error->message);
            a.n_cached = event.report->n_cached;
        }
    }
    kt_request_close(req);
    return a;
}

static asked ask(const world *w, int list, const int32_t *ids, size_t n) {
    return finish(submit(w, list, ids, n));
}

static void expect_same(const asked *a, const asked *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
}

static void test_prefixes(void **state) {
    (void)state;
    int32_t ids[100];
    kt_adapter_info info;
    make_files(&fixtures[0]);
    kt_engine_params ep = small_engine(64);
    world w = world_open(NULL, 2, &ep);
    fill_ids(ids, 100, w.n_vocab, 5);
    for (int i = 0; i < N_FILES; i++) {
        kt_adapter_get_info(w.adapters[i], &info);
        assert_int_equal(info.keeps_kv, i == LAST || i == HIDDEN);
        assert_int_equal(info.rank_max, ranks[i]);
    }
    asked none = ask(&w, 0, ids, 100), one = ask(&w, 1, ids, 100), two = ask(&w, 2, ids, 100);
    assert_int_equal(none.n_cached, 0);
    assert_int_equal(one.n_cached, 0); /* not what was kept without it */
    assert_int_equal(two.n_cached, 0);
    for (int list = 0; list < 3; list++) {
        asked again = ask(&w, list, ids, 100);
        assert_int_equal(again.n_cached, 99);
        expect_same(&again, list == 0 ? &none : list == 1 ? &one : &two);
    }
    /* these find what was kept without them, and answer as where nothing is */
    asked last = ask(&w, 3, ids, 100), both = ask(&w, 4, ids, 100);
    assert_int_equal(last.n_cached, 99);
    assert_int_equal(both.n_cached, 99);
    world_close(&w);
    w = world_open(NULL, 1, &ep);
    asked fresh = ask(&w, 3, ids, 100), fresh_both = ask(&w, 4, ids, 100);
    assert_int_equal(fresh.n_cached, 0);
    expect_same(&fresh, &last);
    expect_same(&fresh_both, &both);
    asked kept = ask(&w, 0, ids, 100); /* and leave what others find */
    assert_int_equal(kept.n_cached, 99);
    expect_same(&kept, &none);
    world_close(&w);
    remove_files();
}

/* States of recurrent layers are found again by those with the same adapters alone, and are what is
 * computed without anything kept. */
static void test_states(void **state) {
    (void)state;
    static const fixture of[] = {{"tiny-qwen35", "q8_0"}, {"tiny-falconh1", "q4_k_m"}};
    enum { FIRST = 100, ALL = 130, TRIED = 3 };
    int32_t ids[ALL];
    for (size_t f = 0; f < sizeof of / sizeof *of; f++) {
        asked first[TRIED], longer[TRIED];
        make_files(&of[f]);
        kt_engine_params ep = small_engine(64);
        world w = world_open(NULL, 2, &ep);
        fill_ids(ids, ALL, w.n_vocab, 5);
        for (int list = 0; list < TRIED; list++) {
            first[list] = ask(&w, list, ids, FIRST);
            assert_int_equal(first[list].n_cached, 0); /* not what was kept without it */
        }
        for (int list = 0; list < TRIED; list++) {
            asked again = ask(&w, list, ids, FIRST);
            expect_same(&again, &first[list]);
            longer[list] = ask(&w, list, ids, ALL);
            assert_true(longer[list].n_cached > 0);
        }
        world_close(&w);
        for (int list = 0; list < TRIED; list++) {
            w = world_open(NULL, 1, &ep);
            asked fresh = ask(&w, list, ids, ALL);
            expect_same(&fresh, &longer[list]);
            world_close(&w);
        }
        remove_files();
    }
}

/* Requests with every list at once, in a store that is too small for all: they are suspended,
 * computed again, and answer as alone. An adapter closed meanwhile stays for those that have it. */
static void test_preempted(void **state) {
    (void)state;
    enum { N = 12, LEN = 150 };
    static int32_t ids[N][LEN];
    kt_request *reqs[N];
    asked want[N];
    kt_error err;
    make_files(&fixtures[0]);
    kt_engine_params ep = small_engine(64);
    world w = world_open(NULL, 2, &ep);
    for (int i = 0; i < N; i++) {
        fill_ids(ids[i], LEN, w.n_vocab, (uint32_t)(50 + i));
        want[i] = ask(&w, i % LISTS, ids[i], LEN);
    }
    kt_engine_info info;
    kt_engine_get_info(w.engine, &info);
    world_close(&w);
    ep.n_parallel = N;
    ep.n_seq_max = 1;
    ep.kv_bytes = info.kv_bytes_max / (uint64_t)(info.n_seq_max * 512) * 5 * LEN;
    w = world_open(NULL, 2, &ep);
    for (int i = 0; i < N; i++) reqs[i] = submit(&w, i % LISTS, ids[i], LEN);
    for (int i = 0; i < N_FILES; i++) {
        kt_adapter_close(w.adapters[i]);
        w.adapters[i] = NULL;
    }
    die_on(kt_engine_start(w.engine, &err), &err);
    for (int i = 0; i < N; i++) {
        asked got = finish(reqs[i]);
        expect_same(&got, &want[i]);
    }
    kt_engine_stats stats;
    kt_engine_get_stats(w.engine, &stats);
    assert_true(stats.n_preempted > 0); /* or the store was large enough */
    world_close(&w);
    remove_files();
}

/* ---- sequences ---- */

static void eval_part(kt_seq *seq, const int32_t *ids, size_t n) {
    kt_error err;
    die_on(kt_seq_eval(seq, ids, n, &err), &err);
}

static void test_sequences(void **state) {
    (void)state;
    static float want[MAX_VOCAB];
    int32_t ids[60];
    kt_error err;
    kt_seq *seq, *copy;
    kt_adapter_use use;
    kt_request_params r = kt_request_params_default();
    make_files(&fixtures[0]);
    kt_engine_params ep = small_engine(64);
    world w = world_open(NULL, 2, &ep);
    size_t bytes = (size_t)w.n_vocab * sizeof(float);
    fill_ids(ids, 60, w.n_vocab, 9);
    die_on(kt_seq_open(w.engine, &seq, &err), &err);
    set_list(&w, seq, 3);
    eval_part(seq, ids, 60);
    memcpy(want, kt_seq_logits(seq), bytes);
    set_list(&w, seq, 0); /* keys and values stay, logits go */
    assert_int_equal(kt_seq_len(seq), 60);
    assert_null(kt_seq_logits(seq));
    die_on(kt_seq_truncate(seq, 59, &err), &err);
    set_list(&w, seq, 3);
    eval_part(seq, ids + 59, 1);
    assert_memory_equal(want, kt_seq_logits(seq), bytes);
    die_on(kt_seq_copy(seq, &copy, &err), &err); /* with its adapters */
    die_on(kt_seq_truncate(copy, 59, &err), &err);
    eval_part(copy, ids + 59, 1);
    assert_memory_equal(want, kt_seq_logits(copy), bytes);
    set_list(&w, seq, 1); /* other keys and values */
    assert_int_equal(kt_seq_len(seq), 0);
    r.seq = seq;
    r.prompt.ids = ids;
    r.prompt.n_ids = 5;
    use = (kt_adapter_use){w.adapters[0], 1.0f};
    r.adapters = &use;
    r.n_adapters = 1;
    assert_int_equal(kt_request_run(w.engine, &r, NULL, NULL, NULL, &err), KT_E_ARG);
    kt_seq_close(copy);
    kt_seq_close(seq);
    world_close(&w);
    remove_files();
}

static void test_sessions(void **state) {
    (void)state;
    static float want[MAX_VOCAB];
    int32_t ids[60];
    kt_error err;
    kt_seq *seq;
    char path[200];
    make_files(&fixtures[0]);
    snprintf(path, sizeof path, "%s/session", dir);
    kt_engine_params ep = small_engine(64);
    world w = world_open(NULL, 2, &ep);
    fill_ids(ids, 60, w.n_vocab, 9);
    die_on(kt_seq_open(w.engine, &seq, &err), &err);
    set_list(&w, seq, 1);
    eval_part(seq, ids, 60);
    memcpy(want, kt_seq_logits(seq), (size_t)w.n_vocab * sizeof(float));
    die_on(kt_seq_save(seq, path, &err), &err);
    set_list(&w, seq, 0);
    assert_int_equal(kt_seq_restore(seq, path, &err), KT_E_STATE);
    assert_non_null(strstr(err.message, "adapters"));
    set_list(&w, seq, 2);
    assert_int_equal(kt_seq_restore(seq, path, &err), KT_E_STATE);
    set_list(&w, seq, 1);
    die_on(kt_seq_restore(seq, path, &err), &err);
    assert_memory_equal(want, kt_seq_logits(seq), (size_t)w.n_vocab * sizeof(float));
    kt_seq_close(seq);
    world_close(&w);
    (void)unlink(path);
    remove_files();
}

/* ---- their time ---- */

/* Part of an answer's time in batches, and none of one without. */
static void test_time(void **state) {
    (void)state;
    int32_t ids[N_TOK];
    kt_error err;
    make_files(&fixtures[0]);
    kt_engine_params ep = small_engine(64);
    world w = world_open(NULL, 2, &ep);
    fill_ids(ids, N_TOK, w.n_vocab, 3);
    for (int list = 0; list < LISTS; list++) {
        kt_adapter_use uses[3];
        kt_request_report report;
        kt_request_params r = kt_request_params_default();
        r.prompt.ids = ids;
        r.prompt.n_ids = N_TOK;
        r.adapters = uses;
        r.n_adapters = fill_list(&w, list, uses);
        r.gen.n_predict = 20;
        r.gen.ignore_eog = true;
        die_on(kt_request_run(w.engine, &r, NULL, NULL, &report, &err), &err);
        assert_int_equal(report.lora_us > 0, list > 0);
        assert_true(report.lora_us <= report.prefill_us + report.decode_us);
    }
    world_close(&w);
    remove_files();
}

/* ---- refusals ---- */

static void eval_with(world *w, kt_adapter *adapter, float *out) {
    kt_error err;
    kt_seq *seq;
    int32_t ids[N_TOK];
    const kt_adapter_use use = {adapter, 1.0f};
    fill_ids(ids, N_TOK, w->n_vocab, 1);
    die_on(kt_seq_open(w->engine, &seq, &err), &err);
    die_on(kt_seq_set_adapters(seq, &use, 1, &err), &err);
    const kt_eval_item item = {seq, ids, N_TOK, out};
    die_on(kt_engine_eval(w->engine, &item, 1, &err), &err);
    kt_seq_close(seq);
}

/* An adapter fits every opening of its model's file, in other contexts with other kernels too. */
static void test_other_openings(void **state) {
    static float want[N_TOK * MAX_VOCAB], got[N_TOK * MAX_VOCAB];
    (void)state;
    make_files(&fixtures[0]);
    kt_engine_params ep = small_engine(64);
    world first = world_open("ref", 1, &ep), second = world_open(NULL, 2, &ep);
    eval_with(&second, second.adapters[ALL_A], want);
    eval_with(&second, first.adapters[ALL_A], got);
    assert_memory_equal(want, got, N_TOK * (size_t)second.n_vocab * sizeof(float));
    world_close(&second);
    world_close(&first);
    remove_files();
}

/* Of the same shape, with other weights. */
static void expect_other_model_refused(world *w) {
    char path[200], command[1024];
    kt_error err;
    kt_model *model;
    kt_adapter *adapter;
    kt_request *req;
    int32_t ids[2] = {1, 2};
    kt_request_params r = kt_request_params_default();
    snprintf(path, sizeof path, "%s/other.gguf", dir);
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant %s --seed 4 '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, fixtures[0].preset, fixtures[0].quant, path);
    assert_int_equal(system(command), 0);
    die_on(kt_model_open(w->ctx, path, NULL, &model, &err), &err);
    die_on(kt_adapter_open(model, file_of(ALL_A), &adapter, &err), &err);
    const kt_adapter_use use = {adapter, 1.0f};
    r.prompt.ids = ids;
    r.prompt.n_ids = 2;
    r.adapters = &use;
    r.n_adapters = 1;
    assert_int_equal(kt_engine_submit(w->engine, &r, &req, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "another model"));
    kt_adapter_close(adapter);
    kt_model_close(model);
    unlink(path);
}

static void test_refusals(void **state) {
    (void)state;
    kt_error err;
    kt_adapter *adapter;
    kt_adapter_use many[KT_ADAPTERS_MAX + 1];
    int32_t ids[5] = {1, 2, 3, 4, 5};
    kt_request *req;
    kt_request_params r = kt_request_params_default();
    make_files(&fixtures[0]);
    kt_engine_params ep = small_engine(64);
    world w = world_open(NULL, 2, &ep);
    assert_int_equal(kt_adapter_open(w.model, model_path(), &adapter, &err), KT_E_FORMAT);
    assert_null(adapter);
    assert_int_equal(kt_adapter_open(w.model, "/nonexistent", &adapter, &err), KT_E_IO);
    for (int i = 0; i <= KT_ADAPTERS_MAX; i++) many[i] = (kt_adapter_use){w.adapters[0], 1.0f};
    r.prompt.ids = ids;
    r.prompt.n_ids = 5;
    r.adapters = many;
    r.n_adapters = KT_ADAPTERS_MAX + 1;
    assert_int_equal(kt_engine_submit(w.engine, &r, &req, &err), KT_E_LIMIT);
    r.n_adapters = 1;
    many[0].scale = NAN;
    assert_int_equal(kt_engine_submit(w.engine, &r, &req, &err), KT_E_ARG);
    many[0].adapter = NULL;
    assert_int_equal(kt_engine_submit(w.engine, &r, &req, &err), KT_E_ARG);
    expect_other_model_refused(&w);
    world_close(&w);
    remove_files();
}

int main(void) {
    enum { N = sizeof fixtures / sizeof fixtures[0] };
    struct CMUnitTest tests[N + 8] = {
        cmocka_unit_test(test_prefixes),  cmocka_unit_test(test_preempted),
        cmocka_unit_test(test_sequences), cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_time),      cmocka_unit_test(test_other_openings),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_states)};
    static char names[N][64];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "%s %s", fixtures[i].preset, fixtures[i].quant);
        union {
            const void *in;
            void *out;
        } arg = {.in = &fixtures[i]};
        tests[8 + i] = (struct CMUnitTest){names[i], test_one_answer, NULL, NULL, arg.out};
    }
    cmocka_set_test_filter(getenv("KT_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
