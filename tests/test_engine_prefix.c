/* Prefix reuse through requests: for every architecture, sliding windows included, an answer over
 * found blocks is byte for byte the one over computed blocks, logits too; blocks come back from
 * another place after a restart; and a miss is explained. */
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
#include "context/kv_binding.h"
#include "requests_world.h"
#include "support.h"

enum { N_PROMPT = 300, N_PREDICT = 20 };

static void make_ids(const world *w, int32_t *ids, int n) {
    kt_model_info info;
    uint32_t seed = 77;
    kt_model_get_info(w->model, &info);
    for (int i = 0; i < n; i++) {
        ids[i] = (int32_t)lcg_below(&seed, (uint32_t)info.n_vocab);
    }
}

static void ask(world *w, const int32_t *ids, size_t n, answer *out) {
    kt_request_params r = kt_request_params_default();
    r.prompt.ids = ids;
    r.prompt.n_ids = n;
    r.logprobs.n = 5;
    r.gen.n_predict = N_PREDICT;
    r.gen.ignore_eog = true;
    r.gen.sampling.seed = 3;
    submit_request(w, &r, out);
    run_to_end(w, false);
}

static void expect_equal(const answer *a, const answer *b) {
    assert_int_equal(a->n_tokens, N_PREDICT);
    assert_int_equal(b->n_tokens, N_PREDICT);
    assert_memory_equal(a->ids, b->ids, sizeof a->ids);
    assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
    assert_memory_equal(a->top, b->top, sizeof a->top);
}

/* Past one attention split and past the tiny models' windows: new, found, found up to a change, and
 * continued. */
static void reuse(world *w) {
    static answer fresh, found, changed, third, alone, longer, longer_alone;
    int32_t ids[N_PROMPT + N_PREDICT + 8], other[N_PROMPT];
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512, .n_ubatch = 64};
    make_ids(w, ids, N_PROMPT);
    memcpy(other, ids, sizeof other);
    other[200] = other[200] ? 0 : 1;
    open_engine(w, &ep);
    ask(w, ids, N_PROMPT, &fresh);
    ask(w, ids, N_PROMPT, &found);
    ask(w, other, N_PROMPT, &changed);
    int32_t was = other[200];
    other[200] += 2;
    ask(w, other, N_PROMPT, &third);
    other[200] = was;
    /* the answer belongs to the next prompt */
    memcpy(ids + N_PROMPT, fresh.ids, N_PREDICT * sizeof *ids);
    memcpy(ids + N_PROMPT + N_PREDICT, other, 8 * sizeof *ids);
    ask(w, ids, N_PROMPT + N_PREDICT + 8, &longer);
    close_engine(w);
    open_engine(w, &ep);
    ask(w, other, N_PROMPT, &alone);
    close_engine(w);
    open_engine(w, &ep);
    ask(w, ids, N_PROMPT + N_PREDICT + 8, &longer_alone);
    close_engine(w);
    expect_equal(&fresh, &found);
    expect_equal(&alone, &changed);
    expect_equal(&longer_alone, &longer);
    assert_int_equal(fresh.report.n_cached, 0);
    /* the beginning of a block is found where its page can be copied */
    assert_in_range(found.report.n_cached, 288, N_PROMPT - 1);
    assert_in_range(changed.report.n_cached, kv_found_least(192), 200);
    assert_in_range(longer.report.n_cached, kv_found_least(304), 304);
    /* what a second prompt departed from is found by the third */
    assert_in_range(third.report.n_cached, 192, 200);
    assert_true(changed.report.miss.known);
    assert_int_equal(changed.report.miss.at, 200);
    assert_int_equal(changed.report.miss.n_lost, 96);
}

static void test_every_architecture(void **state) {
    static const char *const presets[] = {
        "tiny-llama",    "tiny-qwen2",   "tiny-qwen3",  "tiny-gemma2",  "tiny-gemma3",  "tiny-phi3",
        "tiny-qwen3moe", "tiny-gpt-oss", "tiny-gemma4", "tiny-gemma3n", "tiny-llama4-c"};
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        world w = {0};
        kt_error err;
        char path[256], command[1024];
        snprintf(path, sizeof path, "%s/prefix-%d.gguf", KT_BINARY_DIR, (int)getpid());
        snprintf(command, sizeof command,
                 "'%s/kentang' synth --preset %s --quant q4_k_m --seed 3 '%s' >/dev/null 2>&1",
                 KT_BINARY_DIR, presets[i], path);
        assert_int_equal(system(command), 0);
        MUST(kt_ctx_open(NULL, &w.ctx, &err));
        MUST(kt_model_open(w.ctx, path, NULL, &w.model, &err));
        reuse(&w);
        kt_model_close(w.model);
        kt_ctx_close(w.ctx);
        remove(path);
    }
}

/* ---- another place ---- */

typedef struct shelf {
    kt__kv_key keys[256];
    uint8_t *blocks[256];
    int n;
} shelf;

static int on_shelf(const shelf *s, kt__kv_key key) {
    for (int i = 0; i < s->n; i++)
        if (kt__kv_key_equal(s->keys[i], key)) return i;
    return -1;
}

static bool shelf_get(void *user, const kt__kv_block *block, kt__kv *kv, int32_t page) {
    int i = on_shelf(user, block->key);
    if (i >= 0) kt__kv_block_write(kv, page, ((shelf *)user)->blocks[i]);
    return i >= 0;
}

static void shelf_put(void *user, const kt__kv_block *block, const kt__kv *kv, int32_t page) {
    shelf *s = user;
    if (s->n == 256 || on_shelf(s, block->key) >= 0) return;
    s->blocks[s->n] = malloc(kt__kv_block_bytes(kt__kv_get_shape(kv)));
    kt__kv_block_read(kv, page, s->blocks[s->n]);
    s->keys[s->n++] = block->key;
}

static void test_blocks_from_another_place(void **state) {
    world *w = *state;
    static shelf books;
    static answer out[2];
    kt__kv_store store = {.user = &books, .get = shelf_get, .put = shelf_put};
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512};
    kt_engine_stats stats;
    int32_t ids[N_PROMPT];
    make_ids(w, ids, N_PROMPT);
    for (int life = 0; life < 2; life++) {
        open_engine(w, &ep);
        kt__engine_set_kv_store(w->engine, &store);
        ask(w, ids, N_PROMPT, &out[life]);
        kt_engine_get_stats(w->engine, &stats);
        bool finds = life && !kv_needs_ends();
        assert_int_equal(stats.disk_tokens, finds ? 288 : 0);
        assert_int_equal(out[life].report.n_cached, finds ? 288 : 0);
        close_engine(w);
    }
    expect_equal(&out[0], &out[1]);
    for (int i = 0; i < books.n; i++) free(books.blocks[i]);
}

/* ---- the explanation ---- */

static void test_a_miss_names_the_message_and_the_texts(void **state) {
    world *w = *state;
    answer out;
    kt_message messages[] = {
        {"system", "You are a helpful assistant who answers in short words. Today is Monday."},
        {"user", "Tell me a long story about a dog that lives on a farm with a horse and a goat."}};
    kt_engine_params ep = {.n_parallel = 2, .n_ctx = 512};
    open_engine(w, &ep);
    kt_request_params r = kt_request_params_default();
    r.prompt.messages = messages;
    r.prompt.n_messages = 2;
    r.gen.n_predict = 4;
    submit_request(w, &r, &out);
    run_to_end(w, false);
    assert_false(out.report.miss.known);
    messages[0].content =
        "You are a helpful assistant who answers in short words. Today is Friday.";
    submit_request(w, &r, &out);
    run_to_end(w, false);
    const kt_cache_miss *miss = &out.report.miss;
    assert_true(miss->known);
    assert_int_equal(miss->message, 0);
    assert_non_null(strstr(miss->was, "on"));
    assert_true(strcmp(miss->was, miss->is) != 0);
    assert_true(miss->n_lost >= 16 && miss->at > out.report.n_cached - 16);
    messages[1].content =
        "Write me a long story about a dog that lives on a farm with a horse and a goat.";
    submit_request(w, &r, &out);
    run_to_end(w, false);
    assert_true(out.report.miss.known);
    assert_int_equal(out.report.miss.message, 1);
    close_engine(w);
}

int main(void) {
    static world w;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_architecture),
        cmocka_unit_test_prestate(test_blocks_from_another_place, &w),
        cmocka_unit_test_prestate(test_a_miss_names_the_message_and_the_texts, &w),
    };
    world_open(&w);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    world_close(&w);
    return failed;
}
