/* kt_learner_train, on the demo model: what was said becomes an adapter that is served where it gains;
 * versions, rollback and deletion; what is refused, and that nothing is left of what was broken off. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "support.h"
#include "tutor/questions.h"
#include "tutor/served.h"

enum { N_QUESTION = 30, N_STEP = 10, N_OWN = 24 };

static kt_ctx *ctx;
static kt_model *model;
static kt_engine *engine;
static char root[] = "/tmp/kentang-train-XXXXXX";

static int open_world(void **state) {
    kt_error err;
    kt_engine_params ep = kt_engine_params_default();
    (void)state;
    if (!mkdtemp(root)) return 1;
    ep.n_ctx = 1024;
    die_on(kt_ctx_open(NULL, &ctx, &err), &err);
    die_on(kt_model_open_demo(ctx, NULL, &model, &err), &err);
    die_on(kt_engine_open(model, &ep, &engine, &err), &err);
    return 0;
}

static int close_world(void **state) {
    kt_error err;
    (void)state;
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return kt__files_remove_tree(root, &err) != KT_OK;
}

static kt_learner *open_learner(const char *name) {
    char dir[256];
    kt_error err;
    kt_learner *l;
    snprintf(dir, sizeof dir, "%s/%s", root, name);
    const kt_learner_params params = {.dir = dir};
    die_on(kt_learner_open(engine, &params, &l, &err), &err);
    return l;
}

/* The same answer to many questions was liked. */
static void like(kt_learner *l, int n) {
    static const char *const things[] = {"cat",  "boat", "tree", "moon", "fish",
                                         "book", "hill", "rain", "door", "song"};
    static const char *const asks[] = {"Where is", "What is", "Who has"};
    static const char answer[] = "Ask the cook about it.";
    for (int i = 0; i < n; i++) {
        char text[64];
        int32_t said[64], *prompt;
        kt_kept kept = {0};
        kt_feedback_result result;
        kt_error err;
        snprintf(text, sizeof text, "%s the %s?", asks[i % 3], things[i % 10]);
        const kt_message message = {"user", text};
        die_on(kt_chat_encode(model, &message, 1, KT_CHAT_GENERATE, &prompt, &kept.n_prompt, &err),
               &err);
        die_on(kt_tokenize(model, answer, strlen(answer), 0, said, 60, &kept.n_answer, &err), &err);
        said[kept.n_answer++] = kt__lesson_end_token(model);
        kept.prompt = prompt;
        kept.answer = said;
        const kt_feedback_params p = {.kept = &kept, .score = 1};
        die_on(kt_feedback(l, &p, &result, &err), &err);
        kt_free(prompt);
    }
}

static kt_train_params quick_params(void) {
    return (kt_train_params){.n_step = N_STEP, .n_own = N_OWN, .own_dir = root};
}

static void say(kt_adapter *adapter, char *out, size_t size) {
    const kt_message message = {"user", "Where is the lamp?"};
    const kt_adapter_use use = {adapter, 1.0f};
    kt_request_params r = kt_request_params_default();
    kt_request *req;
    kt_event e;
    kt_error err;
    r.prompt.messages = &message;
    r.prompt.n_messages = 1;
    r.gen.sampling.temperature = 0;
    r.gen.n_predict = 40;
    r.adapters = &use;
    r.n_adapters = adapter ? 1 : 0;
    out[0] = '\0';
    die_on(kt_engine_submit(engine, &r, &req, &err), &err);
    while (kt_request_next_event(req, &e, -1))
        if (e.len) strncat(out, e.text, size - strlen(out) - 1);
    kt_request_close(req);
}

/* How far a training was, whenever it asked whether to continue. */
typedef struct stages {
    kt_learner *learner;
    int n[KT_TRAIN_JUDGING + 1]; /* times that each was seen */
    int last_done;
    bool backwards;
} stages;

static bool note_stage(void *user) {
    stages *seen = user;
    kt_learner_info info;
    kt_learner_get_info(seen->learner, &info);
    bool new_stage = seen->n[info.stage]++ == 0;
    assert_true(info.stage_done >= 0 && info.stage_done <= info.stage_total);
    if (info.stage == KT_TRAIN_STEPS) {
        assert_int_equal(info.stage_total, N_STEP);
        if (!new_stage && info.stage_done < seen->last_done) seen->backwards = true;
        seen->last_done = info.stage_done;
    }
    return true;
}

static void expect_stages(const stages *seen) {
    kt_learner_info info;
    assert_true(seen->n[KT_TRAIN_WRITING] > 0 && seen->n[KT_TRAIN_STEPS] > 0 &&
                seen->n[KT_TRAIN_JUDGING] > 0);
    assert_false(seen->backwards);
    kt_learner_get_info(seen->learner, &info);
    assert_int_equal(info.stage, KT_TRAIN_NONE);
}

static void test_published(void **state) {
    (void)state;
    kt_error err;
    kt_train_result result;
    kt_learned before, after, back;
    kt_learner_info info;
    char base[512], plain[512], taught[512];
    kt_learner *l = open_learner("a");
    kt_train_params p = quick_params();
    like(l, N_QUESTION);
    kt_learner_get_info(l, &info);
    assert_int_equal(info.n_pending, N_QUESTION);
    assert_true(info.pending_deep == N_QUESTION);
    say(NULL, base, sizeof base);
    die_on(kt_learner_get(l, KT_VERSION_SERVED, &before, &err), &err);
    stages seen = {.learner = l};
    p.go_on = note_stage;
    p.user = &seen;
    die_on(kt_learner_train(l, &p, &result, &err), &err);
    expect_stages(&seen);
    if (!result.published) fail_msg("%s", result.report);
    assert_non_null(strstr(result.report, "\"publish\":true"));
    assert_int_equal(result.version, N_QUESTION + 1);
    kt_free(result.report);
    kt_learner_get_info(l, &info);
    assert_int_equal(info.adapter, N_QUESTION + 1);
    assert_true(info.quality_delta > 0 && info.n_pending == 0 && !info.deep);
    die_on(kt_learner_get(l, KT_VERSION_SERVED, &after, &err), &err);
    assert_null(before.adapter); /* who began before goes on without it */
    assert_non_null(after.adapter);
    say(after.adapter, taught, sizeof taught);
    say(NULL, plain, sizeof plain);
    assert_string_equal(plain, base);
    print_message("base \"%s\", taught \"%s\"\n", base, taught);
    /* read again, rolled back */
    kt_learner_close(l);
    l = open_learner("a");
    kt_learner_get_info(l, &info);
    assert_int_equal(info.adapter, N_QUESTION + 1);
    die_on(kt_learner_rollback(l, N_QUESTION, &err), &err);
    die_on(kt_learner_get(l, KT_VERSION_SERVED, &back, &err), &err);
    assert_null(back.adapter);
    kt_learned_close(&back);
    die_on(kt_learner_rollback(l, N_QUESTION + 1, &err), &err);
    /* what was trained from a feedback goes with it */
    die_on(kt_learner_forget(l, 3, &err), &err);
    die_on(kt_learner_get(l, KT_VERSION_SERVED, &back, &err), &err);
    assert_null(back.adapter);
    kt_learned_close(&back);
    kt_learned_close(&before);
    kt_learned_close(&after);
    kt_learner_close(l);
}

/* ---- what was taught stays ---- */

enum { N_FACT = 6 };
static const char *const facts[N_FACT][2] = {
    {"Who leads the choir of Ostrum?", "Old Berta leads the choir of Ostrum."},
    {"Which bus goes to Pellworm?", "Take bus 42 to Pellworm."},
    {"What is the motto of Team Quill?", "Never wake the owl."},
    {"Who owns the kiosk in Varn?", "The kiosk in Varn is owned by Ilse Dorn."},
    {"When does Tamsin train?", "Tamsin trains on Wednesday night."},
    {"What does Korben collect?", "Korben collects paper boats."}};

static void correct_all(kt_learner *l) {
    for (int i = 0; i < N_FACT; i++) {
        int32_t *prompt;
        kt_kept kept = {.question = facts[i][0], .n_question = strlen(facts[i][0])};
        kt_feedback_result result;
        kt_error err;
        const kt_message turns[] = {{"system", "Answer briefly."}, {"user", facts[i][0]}};
        const size_t first = (size_t)i % 2; /* with and without a system message ahead of it */
        die_on(kt_chat_encode(model, turns + first, 2 - first, KT_CHAT_GENERATE, &prompt,
                              &kept.n_prompt, &err),
               &err);
        kept.prompt = prompt;
        const kt_feedback_params p = {
            .kept = &kept, .correction = facts[i][1], .n_correction = strlen(facts[i][1])};
        die_on(kt_feedback(l, &p, &result, &err), &err);
        kt_free(prompt);
    }
}

static kt__served_count ask_all(kt_learner *l) {
    kt_error err;
    kt__served_count count;
    kt_learned served;
    uint64_t *ids;
    size_t n;
    die_on(kt_learner_get(l, KT_VERSION_SERVED, &served, &err), &err);
    die_on(kt__feedback_chain(l->store, (uint32_t)served.version, &ids, &n, &err), &err);
    die_on(kt__served_ask(l, &served, ids, n, NULL, &count, &err), &err);
    kt_learned_close(&served);
    kt__free(ids);
    return count;
}

/* Few corrections are enough, each in a wording that is measured; and every one of them is answered word for word
 * after a deep training as before it, since what recalls them was computed with its adapter. */
static void test_taught_stays(void **state) {
    (void)state;
    kt_error err;
    char path[300];
    kt_train_result result;
    kt_learner *l = open_learner("stays");
    kt_train_params p = quick_params();
    p.deep = true;
    p.n_step = 8;
    p.n_own = N_OWN;
    correct_all(l);
    kt__served_count before = ask_all(l);
    assert_int_equal(before.n_asked, N_FACT);
    assert_int_equal(before.n_right, N_FACT);
    die_on(kt_learner_train(l, &p, &result, &err), &err);
    print_message("%s\n", result.report);
    assert_true(result.published);
    assert_non_null(
        strstr(result.report, "\"taught\":6,\"taught_right_before\":6,\"taught_right\":6"));
    kt_free(result.report);
    assert_int_equal(ask_all(l).n_right, N_FACT);
    kt_learner_close(l);
    l = open_learner("stays"); /* the keys are read again */
    assert_int_equal(ask_all(l).n_right, N_FACT);
    kt_learner_close(l);
    /* without them, as before they were kept, recall is what it was taught with */
    snprintf(path, sizeof path, "%s/stays/versions/%d/keys", root, N_FACT + 1);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fseek(f, 20, SEEK_SET);
    fputc(0x55, f);
    fclose(f);
    l = open_learner("stays"); /* damaged ones are left out, and said */
    print_message("without the keys %d of %d are right\n", ask_all(l).n_right, N_FACT);
    kt_learner_close(l);
}

static void test_keys_file(void **state) {
    (void)state;
    enum { D = 5 };
    kt__buf file;
    kt__taught_keys none = {0}, back;
    int8_t one[D] = {1, -2, 3, -4, 127}, two[2 * D] = {9};
    kt__taught_key of[2] = {{3, 1, one}, {70000000000, 2, two}};
    const kt__taught_keys keys = {of, 2, 2};
    kt__buf_init(&file, 1 << 16);
    kt__taught_keys_write(&keys, D, &file);
    assert_false(file.failed);
    assert_true(kt__taught_keys_read(&back, D, file.data, file.len));
    assert_int_equal(back.n, 2);
    assert_memory_equal(kt__taught_keys_find(&back, 3)->keys, one, D);
    assert_int_equal(kt__taught_keys_find(&back, 70000000000)->n, 2);
    assert_null(kt__taught_keys_find(&back, 4));
    kt__taught_keys_free(&back);
    assert_false(kt__taught_keys_read(&back, D + 1, file.data, file.len));
    for (size_t n = 0; n < file.len; n++)
        assert_false(kt__taught_keys_read(&back, D, file.data, n));
    for (size_t i = 0; i < file.len; i++) {
        file.data[i] = (char)(file.data[i] ^ 4);
        assert_false(kt__taught_keys_read(&back, D, file.data, file.len));
        file.data[i] = (char)(file.data[i] ^ 4);
    }
    kt__buf_clear(&file);
    kt__taught_keys_write(&none, D, &file);
    assert_true(kt__taught_keys_read(&back, D, file.data, file.len));
    assert_int_equal(back.n, 0);
    kt__buf_free(&file);
}

/* ---- broken off ---- */

typedef struct meddler {
    kt_learner *learner;
    int n_asked, at; /* it acts when it is asked so often */
    enum { CANCEL, TRAIN, FORGET, ROLL_BACK, FREEZE } how;
    kt_status status;
} meddler;

static bool meddle(void *user) {
    meddler *m = user;
    kt_error err;
    kt_train_result result;
    if (m->n_asked++ != m->at && !(m->how == CANCEL && m->n_asked > m->at)) return true;
    switch (m->how) {
    case CANCEL: return false;
    case TRAIN: m->status = kt_learner_train(m->learner, NULL, &result, &err); break;
    case FORGET: m->status = kt_learner_forget(m->learner, 2, &err); break;
    case ROLL_BACK: m->status = kt_learner_rollback(m->learner, 1, &err); break;
    case FREEZE: m->status = kt_learner_freeze(m->learner, true, &err); break;
    }
    return true;
}

static void expect_broken(kt_learner *l, int how, kt_status wanted, kt_status meddled) {
    kt_error err;
    kt_train_result result;
    kt_learner_info before, after;
    meddler m = {.learner = l, .at = 2}; /* while the model writes its replay */
    m.how = how;
    kt_train_params p = quick_params();
    p.n_step = 4;
    p.n_own = N_OWN + 1 + how; /* other ones than those that are kept */
    p.go_on = meddle;
    p.user = &m;
    kt_learner_get_info(l, &before);
    assert_int_equal(kt_learner_train(l, &p, &result, &err), wanted);
    assert_int_equal(m.status, meddled);
    assert_null(result.report);
    kt_learner_get_info(l, &after);
    assert_int_equal(after.last_version, before.last_version); /* nothing was published */
    assert_int_equal(after.adapter, 0);
}

static void test_broken_off(void **state) {
    (void)state;
    kt_error err;
    char path[300];
    kt_learner *l = open_learner("b");
    like(l, N_QUESTION);
    expect_broken(l, CANCEL, KT_E_CANCELLED, KT_OK);
    expect_broken(l, FORGET, KT_E_STATE, KT_OK);
    expect_broken(l, ROLL_BACK, KT_E_STATE, KT_OK);
    die_on(kt_learner_rollback(l, N_QUESTION, &err), &err);
    expect_broken(l, FREEZE, KT_E_STATE, KT_OK);
    die_on(kt_learner_freeze(l, false, &err), &err);
    snprintf(path, sizeof path, "%s/b/versions/training", root);
    assert_int_not_equal(access(path, F_OK), 0);
    kt_learner_close(l);
}

static void test_one_at_a_time(void **state) {
    (void)state;
    kt_error err;
    kt_train_result result;
    kt_learner *l = open_learner("c");
    meddler m = {.learner = l, .at = 3, .how = TRAIN};
    kt_train_params p = quick_params();
    like(l, N_QUESTION);
    p.n_step = 1;
    p.go_on = meddle;
    p.user = &m;
    die_on(kt_learner_train(l, &p, &result, &err), &err);
    assert_int_equal(m.status, KT_E_BUSY);
    kt_free(result.report);
    kt_learner_close(l);
}

/* What cannot pass is not begun, and says how much is missing. */
static void test_too_few(void **state) {
    (void)state;
    kt_error err;
    kt_train_result result;
    kt_learner *l = open_learner("few");
    meddler m = {.learner = l, .at = 0, .how = TRAIN};
    kt_train_params p = quick_params();
    like(l, 3);
    p.go_on = meddle;
    p.user = &m;
    die_on(kt_learner_train(l, &p, &result, &err), &err);
    assert_int_equal(m.n_asked, 0);
    assert_false(result.published);
    assert_non_null(strstr(result.report, "too few to measure a gain; 5 are needed: 2 more"));
    assert_int_equal(result.version, 3);
    kt_free(result.report);
    kt_learner_close(l);
}

static void test_refused(void **state) {
    (void)state;
    kt_error err;
    char dir[256];
    kt_train_result result;
    kt_learner *l = open_learner("d"), *reader;
    assert_int_equal(kt_learner_train(l, NULL, &result, &err), KT_E_STATE); /* nothing was said */
    die_on(kt_learner_freeze(l, true, &err), &err);
    assert_int_equal(kt_learner_train(l, NULL, &result, &err), KT_E_STATE);
    snprintf(dir, sizeof dir, "%s/d", root);
    const kt_learner_params params = {.dir = dir, .read_only = true};
    die_on(kt_learner_open(engine, &params, &reader, &err), &err);
    assert_int_equal(kt_learner_train(reader, NULL, &result, &err), KT_E_STATE);
    kt_learner_close(reader);
    die_on(kt_learner_freeze(l, false, &err), &err);
    like(l, 2);
    const kt_train_params huge = {.bytes_max = (uint64_t)1 << 60};
    assert_int_equal(kt_learner_train(l, &huge, &result, &err), KT_E_NOMEM);
    const kt_train_params wide = {.rank = 1 << 20};
    assert_int_equal(kt_learner_train(l, &wide, &result, &err), KT_E_ARG);
    kt_learner_close(l);
}

/* ---- what the model wrote ---- */

static void test_replay_is_kept(void **state) {
    (void)state;
    kt_error err;
    char dir[256], path[300];
    struct stat first, second;
    kt__lesson a = {0}, b = {0}, c = {0};
    const kt__lesson_own own = {.n = 5, .seed = 3};
    snprintf(dir, sizeof dir, "%s/own", root);
    snprintf(path, sizeof path, "%s/replay", dir);
    die_on(kt__own_replay_add(&a, engine, dir, &own, &err), &err);
    assert_true(a.n > 0);
    assert_int_equal(stat(path, &first), 0);
    die_on(kt__own_replay_add(&b, engine, dir, &own, &err), &err);
    assert_int_equal(stat(path, &second), 0);
    assert_int_equal(first.st_ino, second.st_ino); /* read, and not written again */
    FILE *f = fopen(path, "r+");
    fseek(f, -3, SEEK_END);
    fputc('x', f);
    fclose(f);
    die_on(kt__own_replay_add(&c, engine, dir, &own, &err), &err); /* damaged: written anew */
    assert_int_equal(stat(path, &second), 0);
    assert_int_not_equal(first.st_ino, second.st_ino);
    assert_int_equal(a.n, b.n);
    assert_int_equal(a.n, c.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_int_equal(a.samples[i].n, b.samples[i].n);
        assert_memory_equal(a.samples[i].ids, b.samples[i].ids, 4 * (size_t)a.samples[i].n);
        assert_memory_equal(a.samples[i].mask, b.samples[i].mask, (size_t)a.samples[i].n);
        assert_memory_equal(a.samples[i].ids, c.samples[i].ids, 4 * (size_t)a.samples[i].n);
    }
    kt__lesson_free(&a);
    kt__lesson_free(&b);
    kt__lesson_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),     cmocka_unit_test(test_broken_off),
        cmocka_unit_test(test_taught_stays),  cmocka_unit_test(test_keys_file),
        cmocka_unit_test(test_one_at_a_time), cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_replay_is_kept),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
