/* What was taught comes back: the exact memory and learners over it, on the demo model. One answer: the
 * same bytes in every tier, with any number of threads, beside other requests; and not a byte of others'
 * answers changes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "answer/recall.h"
#include "support.h"

enum { MAX_TEXT = 4096 };

static kt_ctx *ctx;
static kt_model *model;
static kt_engine *engine;
static char root[] = "/tmp/kentang-recall-XXXXXX";
static const kt__recall_scope everywhere;

static void open_world(const char *isa, int n_threads) {
    kt_error err;
    kt_ctx_params cp = kt_ctx_params_default();
    kt_engine_params ep = kt_engine_params_default();
    cp.isa = isa;
    cp.n_threads = n_threads;
    ep.n_ctx = 1024;
    die_on(kt_ctx_open(&cp, &ctx, &err), &err);
    die_on(kt_model_open_demo(ctx, NULL, &model, &err), &err);
    die_on(kt_engine_open(model, &ep, &engine, &err), &err);
}

static void close_world(void) {
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

typedef struct said {
    char text[MAX_TEXT];
    float logprobs[256];
    size_t n;
    kt_kept kept; /* of req */
    kt_request *req;
} said;

static kt_request_params ask_params(const char *question, kt_message *message) {
    kt_request_params r = kt_request_params_default();
    *message = (kt_message){"user", question};
    r.prompt.messages = message;
    r.prompt.n_messages = 1;
    r.gen.sampling.temperature = 0;
    r.gen.n_predict = 60;
    r.logprobs.n = 0;
    return r;
}

static void take_all(said *s) {
    kt_event e;
    while (kt_request_next_event(s->req, &e, -1)) {
        if (e.len) strncat(s->text, e.text, e.len);
        if (e.kind == KT_EVENT_TOKEN && e.id >= 0 && s->n < 256) s->logprobs[s->n++] = e.logprob;
        if (e.kind == KT_EVENT_FINISHED) break;
    }
}

static void ask(const char *question, kt_recall *recall, said *out) {
    kt_message message;
    kt_error err;
    kt_request_params r = ask_params(question, &message);
    memset(out, 0, sizeof *out);
    r.corrections.recall = recall;
    r.corrections.keep = true;
    die_on(kt_engine_submit(engine, &r, &out->req, &err), &err);
    take_all(out);
    assert_true(kt_request_get_kept(out->req, 0, &out->kept));
}

static bool same_answer(const said *a, const said *b) {
    return !strcmp(a->text, b->text) && a->n == b->n &&
           !memcmp(a->logprobs, b->logprobs, a->n * sizeof *a->logprobs);
}

static kt_learner *open_learner(const char *name) {
    static char dir[128];
    kt_learner *l;
    kt_error err;
    snprintf(dir, sizeof dir, "%s/%s", root, name);
    kt_learner_params p = {.dir = dir};
    die_on(kt_learner_open(engine, &p, &l, &err), &err);
    return l;
}

static kt_feedback_result correct(kt_learner *l, const said *s, const char *text) {
    kt_feedback_result result;
    kt_error err;
    kt_feedback_params p = {
        .kept = &s->kept, .about = "test", .correction = text, .n_correction = strlen(text)};
    die_on(kt_feedback(l, &p, &result, &err), &err);
    return result;
}

static const char question[] = "Where is the blue ladder?";
static const char right[] = "The blue ladder is behind the old mill.";
static const char *const others[] = {"What is the capital of France?", "Hello!",
                                     "What is 12 plus 7?", "Where is the red bucket?"};

/* ---- the search ---- */

static int nearest_plain(const int8_t *keys, size_t n, int d, const int8_t *key, double *cosine) {
    int best = -1;
    for (size_t i = 0; i < n; i++) {
        long dot = 0, a = 0, b = 0;
        for (int k = 0; k < d; k++) {
            dot += keys[i * (size_t)d + (size_t)k] * key[k];
            a += keys[i * (size_t)d + (size_t)k] * keys[i * (size_t)d + (size_t)k];
            b += key[k] * key[k];
        }
        double c = (double)dot / (sqrt((double)b) * sqrt((double)a));
        if (c > 0.90f && (best < 0 || c >= *cosine)) {
            best = (int)i;
            *cosine = c;
        }
    }
    return best;
}

static void test_search_against_plain(void **state) {
    (void)state;
    kt_model_info info;
    kt_recall *r, *next;
    kt_error err;
    uint32_t x = 5;
    open_world(NULL, 1);
    kt_model_get_info(model, &info);
    int d = info.d_model, n = 300, n_found = 0;
    int8_t *keys = calloc((size_t)n, (size_t)d), *key = calloc((size_t)d, 1);
    float *logits = calloc((size_t)info.n_vocab, sizeof *logits);
    die_on(kt_recall_open(model, NULL, &r, &err), &err);
    for (int i = 0; i < n; i++) {
        const int8_t *like = i >= 3 ? keys + (size_t)lcg_below(&x, (uint32_t)i) * (size_t)d : NULL;
        for (int k = 0; k < d; k++) {
            int v = (int)lcg_below(&x, 255) - 127;
            keys[i * d + k] = (int8_t)(like && i % 3 ? (like[k] * 3 + v / (1 + i % 7)) / 4 : v);
        }
        const int32_t id = i;
        const kt_recall_pairs pair = {keys + (size_t)i * (size_t)d, &id, 1, (uint64_t)i, false};
        die_on(kt_recall_add(r, &pair, &next, &err), &err);
        kt_recall_close(r);
        r = next;
    }
    for (int i = 0; i < 2000; i++) {
        double cosine = 0;
        const int8_t *like = keys + (size_t)lcg_below(&x, (uint32_t)n) * (size_t)d;
        for (int k = 0; k < d; k++)
            key[k] = (int8_t)(like[k] + (int)lcg_below(&x, (uint32_t)(1 + i % 100)) / 4 * (k % 2));
        for (int k = 0; k < info.n_vocab; k++) logits[k] = (float)(lcg_unit(&x) * 20 - 10);
        int want = nearest_plain(keys, (size_t)n, d, key, &cosine);
        float was = want >= 0 ? logits[want] : 0;
        kt__recall_change change = kt__recall_mix(r, &everywhere, key, logits);
        assert_int_equal(change.id, want);
        if (want < 0) continue;
        n_found++;
        assert_true(logits[want] > was);
        kt__recall_undo(change, logits);
        assert_true(logits[want] == was);
    }
    assert_true(n_found > 500 && n_found < 2000);
    kt_recall_close(r);
    free(keys);
    free(key);
    free(logits);
    close_world();
}

/* The mixture: the token's share is (1 - w) p + w, and the others' stand to each other as before. */
static void test_mixture(void **state) {
    (void)state;
    kt_model_info info;
    kt_recall *empty, *r;
    kt_error err;
    open_world(NULL, 1);
    kt_model_get_info(model, &info);
    int n = info.n_vocab, d = info.d_model;
    int8_t *key = calloc((size_t)d, 1);
    float *logits = calloc((size_t)n, sizeof *logits);
    double before = 0, after = 0;
    const int32_t id = 7;
    for (int i = 0; i < d; i++) key[i] = (int8_t)(i % 11 - 5);
    for (int i = 0; i < n; i++) logits[i] = (float)(i % 13) / 3.0f;
    for (int i = 0; i < n; i++) before += exp((double)logits[i]);
    double p = exp((double)logits[id]) / before;
    const kt_recall_pairs pair = {key, &id, 1, 1, false};
    die_on(kt_recall_open(model, NULL, &empty, &err), &err);
    die_on(kt_recall_add(empty, &pair, &r, &err), &err);
    assert_int_equal(kt__recall_mix(r, &everywhere, key, logits).id, id);
    for (int i = 0; i < n; i++) after += exp((double)logits[i]);
    double got = exp((double)logits[id]) / after;
    assert_true(fabs(got - (0.02 * p + 0.98)) < 1e-5);
    assert_true(fabs(exp((double)logits[3]) / after - 0.02 * exp((double)logits[3]) / before) <
                1e-7);
    kt_recall_close(r);
    kt_recall_close(empty);
    free(key);
    free(logits);
    close_world();
}

/* A word of a correction that an answer has begun is ended as it is there, and no further one is begun. */
static void test_words_are_ended(void **state) {
    static const char text[] = "Blurgendorf weighs it.";
    int32_t ids[32];
    size_t n = 0, n_ended = 0, len;
    char piece[64];
    kt_recall *empty, *r;
    kt_model_info info;
    kt_error err;
    (void)state;
    open_world(NULL, 1);
    kt_model_get_info(model, &info);
    die_on(kt_tokenize(model, text, strlen(text), 0, ids, 32, &n, &err), &err);
    int8_t *keys = calloc(n * (size_t)info.d_model, 1);
    float *logits = calloc((size_t)info.n_vocab, sizeof *logits);
    const kt_recall_pairs pairs = {keys, ids, n, 5, true};
    die_on(kt_recall_open(model, NULL, &empty, &err), &err);
    die_on(kt_recall_add(empty, &pairs, &r, &err), &err);
    for (size_t i = 0; i < n; i++) {
        kt__recall_change end = kt__recall_end_word(r, 5, ids, i, logits);
        die_on(kt_detokenize(model, &ids[i], 1, 0, piece, sizeof piece, &len, &err), &err);
        assert_int_equal(end.id, i > 0 && piece[0] != ' ' && piece[0] != '.' ? ids[i] : -1);
        n_ended += end.id >= 0;
        kt__recall_undo(end, logits);
    }
    assert_true(n_ended > 0);
    ids[0]++; /* another answer */
    assert_int_equal(kt__recall_end_word(r, 5, ids, 1, logits).id, -1);
    kt_recall_close(r);
    kt_recall_close(empty);
    free(keys);
    free(logits);
    close_world();
}

/* Pairs of a correction are found where its entry opens; its answer is continued by what was said of it. */
static void test_scope(void **state) {
    (void)state;
    kt_model_info info;
    kt_recall *empty, *r;
    kt_error err;
    open_world(NULL, 1);
    kt_model_get_info(model, &info);
    int8_t *keys = calloc(2 * (size_t)info.d_model, 1);
    float *logits = calloc((size_t)info.n_vocab, sizeof *logits);
    const int32_t ids[2] = {7, 9};
    keys[0] = keys[info.d_model + 1] = 100;
    const kt_recall_pairs pairs = {keys, ids, 2, 5, true};
    const uint64_t opened[] = {4, 5};
    const kt__recall_scope closed = {opened, 1, true}, open = {opened, 2, true};
    die_on(kt_recall_open(model, NULL, &empty, &err), &err);
    die_on(kt_recall_add(empty, &pairs, &r, &err), &err);
    assert_int_equal(kt__recall_mix(r, &closed, keys, logits).id, -1);
    assert_true(logits[7] == 0);
    kt__recall_undo(kt__recall_mix(r, &open, keys, logits), logits);
    assert_int_equal(kt__recall_mix(r, &open, keys, logits).id, 7);
    assert_int_equal(kt__recall_continue(r, 5, ids, 0, logits).id, 7);
    assert_int_equal(kt__recall_continue(r, 5, ids, 1, logits).id, 9);
    assert_int_equal(kt__recall_continue(r, 5, ids + 1, 1, logits).id, -1); /* another answer */
    assert_int_equal(kt__recall_continue(r, 5, ids, 2, logits).id, -1);     /* its end */
    assert_int_equal(kt__recall_continue(r, 4, ids, 0, logits).id, -1);
    assert_int_equal(kt__recall_continue(empty, 5, ids, 0, logits).id, -1);
    kt_recall_close(r);
    kt_recall_close(empty);
    free(keys);
    free(logits);
    close_world();
}

/* ---- learners ---- */

static void test_taught_and_isolated(void **state) {
    (void)state;
    said before[4], was, now, other;
    kt_learned learned;
    kt_learner_info info;
    kt_error err;
    open_world(NULL, 2);
    for (int i = 0; i < 4; i++) ask(others[i], NULL, &before[i]);
    ask(question, NULL, &was);
    assert_string_not_equal(was.text, right);
    kt_learner *a = open_learner("a"), *b = open_learner("b");
    kt_feedback_result result = correct(a, &was, right);
    assert_int_equal(result.version, 1);
    assert_true(result.n_pairs > 5);
    die_on(kt_learner_get(a, KT_VERSION_SERVED, &learned, &err), &err);
    ask(question, learned.recall, &now);
    assert_string_equal(now.text, right); /* at once, in the taught wording */
    assert_true(now.kept.n_recalled >= result.n_pairs - 1);
    kt_request_close(now.req);
    kt_learned_close(&learned);
    /* B's, and those that ask for nothing: the same bytes as ever */
    die_on(kt_learner_get(b, KT_VERSION_SERVED, &learned, &err), &err);
    assert_null(learned.recall);
    ask(question, learned.recall, &other);
    assert_true(same_answer(&was, &other));
    kt_request_close(other.req);
    kt_learned_close(&learned);
    for (int i = 0; i < 4; i++) {
        ask(others[i], NULL, &other);
        assert_true(same_answer(&before[i], &other));
        kt_request_close(other.req);
        kt_request_close(before[i].req);
    }
    /* undone, redone, forgotten */
    die_on(kt_learner_rollback(a, 0, &err), &err);
    die_on(kt_learner_get(a, KT_VERSION_SERVED, &learned, &err), &err);
    assert_null(learned.recall);
    kt_learned_close(&learned);
    die_on(kt_learner_rollback(a, 1, &err), &err);
    kt_learner_close(a);
    a = open_learner("a"); /* and read again */
    die_on(kt_learner_get(a, KT_VERSION_SERVED, &learned, &err), &err);
    ask(question, learned.recall, &now);
    assert_string_equal(now.text, right);
    kt_request_close(now.req);
    kt_learned_close(&learned);
    die_on(kt_learner_forget(a, result.id, &err), &err);
    kt_learner_get_info(a, &info);
    assert_int_equal(info.recall.n, 0);
    assert_int_equal(info.n_feedback, 0);
    die_on(kt_learner_get(a, KT_VERSION_SERVED, &learned, &err), &err);
    ask(question, learned.recall, &now);
    assert_true(same_answer(&was, &now));
    kt_request_close(now.req);
    kt_request_close(was.req);
    kt_learned_close(&learned);
    die_on(kt_learner_erase(a, &err), &err);
    die_on(kt_learner_erase(b, &err), &err);
    close_world();
}

typedef struct result_bytes {
    said now, alone;
    kt_recall_info info;
    int8_t keys[64 * 1024];
    size_t n_keys;
} result_bytes;

/* Teaches and answers; beside others where asked to. */
static void teach_and_answer(const char *isa, int n_threads, bool beside, result_bytes *out) {
    said was, crowd[3];
    kt_learned learned;
    kt_model_info info;
    kt_error err;
    open_world(isa, n_threads);
    kt_model_get_info(model, &info);
    ask(question, NULL, &was);
    kt_learner *l = open_learner("tiers");
    correct(l, &was, right);
    die_on(kt_learner_get(l, KT_VERSION_SERVED, &learned, &err), &err);
    kt_recall_get_info(learned.recall, &out->info);
    for (int i = 0; beside && i < 3; i++) {
        kt_message message;
        kt_request_params r = ask_params(others[i], &message);
        memset(&crowd[i], 0, sizeof crowd[i]);
        r.corrections.recall = i == 1 ? learned.recall : NULL;
        die_on(kt_engine_submit(engine, &r, &crowd[i].req, &err), &err);
    }
    ask(question, learned.recall, &out->now);
    out->n_keys = out->now.kept.n_keys * (size_t)info.d_model;
    assert_true(out->n_keys > 0 && out->n_keys <= sizeof out->keys);
    memcpy(out->keys, out->now.kept.keys, out->n_keys);
    /* the keys of decoding are those of a prompt */
    const kt_kept *k = &out->now.kept;
    int32_t ids[512];
    int8_t *again = calloc(k->n_keys, (size_t)info.d_model);
    size_t n = k->n_prompt + k->n_answer - 1;
    assert_true(n <= 512);
    memcpy(ids, k->prompt, k->n_prompt * sizeof *ids);
    memcpy(ids + k->n_prompt, k->answer, (k->n_answer - 1) * sizeof *ids);
    die_on(kt_recall_keys(engine, ids, n, k->n_prompt - 1, NULL, 0, again, &err), &err);
    assert_memory_equal(again, k->keys, out->n_keys);
    free(again);
    for (int i = 0; beside && i < 3; i++) kt_request_close(crowd[i].req);
    kt_request_close(out->now.req);
    kt_request_close(was.req);
    kt_learned_close(&learned);
    die_on(kt_learner_erase(l, &err), &err);
    close_world();
}

static void test_one_answer(void **state) {
    (void)state;
    static result_bytes want, got;
    static const char *const tiers[] = {"ref", "sse41", "avx2", NULL};
    teach_and_answer(NULL, 1, false, &want);
    assert_string_equal(want.now.text, right);
    for (int i = 0; i < 4; i++) {
        kt_ctx_params p = kt_ctx_params_default();
        kt_ctx *probe;
        kt_error err;
        p.isa = tiers[i];
        if (kt_ctx_open(&p, &probe, &err) != KT_OK) continue; /* not on this machine */
        kt_ctx_close(probe);
        teach_and_answer(tiers[i], 1 + i % 2, i % 2, &got);
        assert_true(same_answer(&want.now, &got.now));
        assert_memory_equal(want.info.id, got.info.id, sizeof want.info.id);
        assert_int_equal(want.n_keys, got.n_keys);
        assert_memory_equal(want.keys, got.keys, want.n_keys);
    }
}

static void test_on_a_sequence(void **state) {
    (void)state;
    said was;
    kt_seq *seq;
    kt_learned learned;
    kt_error err;
    open_world(NULL, 1);
    ask(question, NULL, &was);
    kt_learner *l = open_learner("seq");
    correct(l, &was, right);
    die_on(kt_learner_get(l, KT_VERSION_SERVED, &learned, &err), &err);
    die_on(kt_seq_open(engine, &seq, &err), &err);
    for (int i = 0; i < 2; i++) { /* the second time all of the prompt is there already */
        kt_message message;
        char text[MAX_TEXT] = "";
        kt_request_params r = ask_params(question, &message);
        r.seq = seq;
        r.logprobs.n = -1;
        r.corrections.recall = learned.recall;
        die_on(kt_request_run(engine, &r, append_text, text, NULL, &err), &err);
        assert_string_equal(text, right);
    }
    kt_seq_close(seq);
    kt_learned_close(&learned);
    kt_request_close(was.req);
    die_on(kt_learner_erase(l, &err), &err);
    close_world();
}

/* ---- what is refused, and what stays bounded ---- */

static void test_refusals(void **state) {
    (void)state;
    said was;
    kt_feedback_result result;
    kt_learned learned;
    kt_error err;
    static char longer[KT_CORRECTION_MAX + 2];
    open_world(NULL, 1);
    ask(question, NULL, &was);
    kt_learner *l = open_learner("bad");
    kt_feedback_params p = {.kept = &was.kept, .score = 1.5f};
    assert_int_equal(kt_feedback(l, &p, &result, &err), KT_E_ARG);
    p.score = NAN;
    assert_int_equal(kt_feedback(l, &p, &result, &err), KT_E_ARG);
    p.correction = "";
    assert_int_equal(kt_feedback(l, &p, &result, &err), KT_E_ARG);
    p.correction = "\xff";
    p.n_correction = 1;
    assert_int_equal(kt_feedback(l, &p, &result, &err), KT_E_ARG);
    memset(longer, 'a', sizeof longer - 1);
    p.correction = longer;
    p.n_correction = sizeof longer - 1;
    assert_int_equal(kt_feedback(l, &p, &result, &err), KT_E_LIMIT);
    memset(longer, 'a', 5000);
    for (int i = 0; i < 5000; i += 2) longer[i] = ' ';
    p.n_correction = 5000; /* longer than the context */
    assert_int_equal(kt_feedback(l, &p, &result, &err), KT_E_CONTEXT_FULL);
    assert_int_equal(kt_learner_get(l, 1, &learned, &err), KT_E_ARG);
    assert_int_equal(kt_learner_get(l, -7, &learned, &err), KT_E_ARG);
    assert_int_equal(kt_learner_rollback(l, 1, &err), KT_E_ARG);
    assert_int_equal(kt_learner_forget(l, 1, &err), KT_E_ARG);
    kt_learner_info info;
    kt_learner_get_info(l, &info);
    assert_int_equal(info.n_feedback, 0);
    p = (kt_feedback_params){.kept = &was.kept, .score = 0};
    die_on(kt_feedback(l, &p, &result, &err), &err); /* noted, and changes nothing */
    assert_int_equal(result.version, 0);
    assert_int_equal(result.n_pairs, 0);
    p.score = 1;
    die_on(kt_feedback(l, &p, &result, &err), &err);
    assert_int_equal(result.version, 1);
    assert_int_equal(result.n_pairs, was.kept.n_answer);
    kt_request_close(was.req);
    die_on(kt_learner_erase(l, &err), &err);
    close_world();
}

static void test_bounded(void **state) {
    (void)state;
    kt_recall_params p = {.n_max = 100};
    kt_recall *r, *next;
    kt_recall_info info;
    kt_model_info of;
    kt_error err;
    open_world(NULL, 1);
    kt_model_get_info(model, &of);
    int8_t *keys = calloc(7, (size_t)of.d_model);
    const int32_t ids[7] = {1, 2, 3, 4, 5, 6, 7};
    keys[0] = 1;
    die_on(kt_recall_open(model, &p, &r, &err), &err);
    for (uint64_t i = 0; i < 1000; i++) {
        const kt_recall_pairs pairs = {keys, ids, 7, i, false};
        die_on(kt_recall_add(r, &pairs, &next, &err), &err);
        kt_recall_close(r);
        r = next;
        kt_recall_get_info(r, &info);
        assert_true(info.n <= 100 && (i < 14 || info.n >= 70));
    }
    kt_recall_close(r);
    p.cos_from = 0.99f;
    assert_int_equal(kt_recall_open(model, &p, &r, &err), KT_E_ARG);
    free(keys);
    close_world();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search_against_plain),
        cmocka_unit_test(test_mixture),
        cmocka_unit_test(test_words_are_ended),
        cmocka_unit_test(test_scope),
        cmocka_unit_test(test_taught_and_isolated),
        cmocka_unit_test(test_one_answer),
        cmocka_unit_test(test_on_a_sequence),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bounded),
    };
    if (!mkdtemp(root)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(root);
    return failed;
}
