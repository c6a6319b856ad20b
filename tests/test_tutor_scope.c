/* What was corrected changes the answers that it is about and no others, on the demo model: recall, and an adapter that was trained
 * from corrections. Where nothing opens, the log-probabilities are those of the model alone, byte for byte. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "support.h"
#include "tutor/learner_state.h"

enum { N_FACT = 6, N_NEAR = 6, N_TOK = 20, N_TOP = 5 };

static const char *const facts[N_FACT][2] = {
    {"Where is the violet ladder?", "The violet ladder is inside the mill."},
    {"Who repairs the boiler?", "Jonas repairs the boiler."},
    {"What is the motto of Team Quill?", "Never wake the owl."},
    {"Who owns the kiosk in Varn?", "The kiosk in Varn is owned by Ilse Dorn."},
    {"When does Tamsin train?", "Tamsin trains on Wednesday night."},
    {"What does Korben collect?", "Korben collects paper boats."}};
static const char *const near[N_NEAR] = {
    "Where is the yellow ladder?", "Who repairs the roof?",   "What is the motto of Team Brisk?",
    "Who owns the kiosk in Lund?", "When does Miriam train?", "What does Anders collect?"};

static kt_ctx *ctx;
static kt_model *model;
static kt_engine *engine;
static char root[] = "/tmp/kentang-scope-XXXXXX";

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

static kt_learner *open_instant(const char *name, float rate, bool everywhere) {
    char dir[256];
    kt_error err;
    kt_learner *l;
    snprintf(dir, sizeof dir, "%s/%s", root, name);
    const kt_learner_params params = {
        .dir = dir, .instant_lr = rate, .instant_ewc = 0.2f, .instant_everywhere = everywhere};
    die_on(kt_learner_open(engine, &params, &l, &err), &err);
    return l;
}

static kt_learner *open_learner(const char *name) {
    return open_instant(name, 0, false);
}

static void give(kt_learner *l, const char *question, const char *correction, float score) {
    int32_t *prompt;
    kt_kept kept = {.question = question, .n_question = strlen(question)};
    kt_feedback_result result;
    kt_error err;
    const kt_message message = {"user", question};
    die_on(kt_chat_encode(model, &message, 1, KT_CHAT_GENERATE, &prompt, &kept.n_prompt, &err),
           &err);
    kept.prompt = prompt;
    kept.answer = prompt; /* any tokens */
    kept.n_answer = correction ? 0 : 2;
    const kt_feedback_params p = {.kept = &kept,
                                  .score = score,
                                  .correction = correction,
                                  .n_correction = correction ? strlen(correction) : 0};
    die_on(kt_feedback(l, &p, &result, &err), &err);
    kt_free(prompt);
}

static kt_learner *taught_learner(const char *name) {
    kt_learner *l = open_learner(name);
    for (int i = 0; i < N_FACT; i++) give(l, facts[i][0], facts[i][1], 0);
    return l;
}

/* ---- asking ---- */

typedef struct said {
    char text[256];
    int32_t ids[N_TOK];
    float logprob[N_TOK];
    kt_logprob top[N_TOK][N_TOP];
    int n;
} said;

/* As the programs ask with what was learned. */
static said ask_talk(const kt_learned *with, const kt_message *messages, size_t n,
                     int32_t note_tokens) {
    said s = {.n = 0};
    kt_request_params r = kt_request_params_default();
    kt_request *req;
    kt_event e;
    kt_error err;
    r.prompt.messages = messages;
    r.prompt.n_messages = n;
    r.gen.sampling.temperature = 0;
    r.gen.n_predict = N_TOK;
    r.logprobs.n = N_TOP;
    r.corrections.note_tokens = note_tokens;
    kt_adapter_use uses[KT_LEARNED_ADAPTERS];
    if (with) {
        r.corrections.recall = with->recall;
        r.corrections.bank = with->bank;
        r.n_adapters = kt_learned_adapters(with, &r, uses);
        r.adapters = uses;
    }
    die_on(kt_engine_submit(engine, &r, &req, &err), &err);
    while (kt_request_next_event(req, &e, -1)) {
        if (e.len) strncat(s.text, e.text, sizeof s.text - strlen(s.text) - 1);
        if (e.kind != KT_EVENT_TOKEN || e.id < 0 || s.n == N_TOK) continue;
        s.ids[s.n] = e.id;
        s.logprob[s.n] = e.logprob;
        memcpy(s.top[s.n++], e.top, e.n_top * sizeof *e.top);
    }
    kt_request_close(req);
    return s;
}

static said ask(const kt_learned *with, const char *question, int32_t note_tokens) {
    const kt_message message = {"user", question};
    return ask_talk(with, &message, 1, note_tokens);
}

static kt_learned served_by(kt_learner *l) {
    kt_learned with;
    kt_error err;
    die_on(kt_learner_get(l, KT_VERSION_SERVED, &with, &err), &err);
    return with;
}

static void expect_base(const kt_learned *with, const char *question) {
    said base = ask(NULL, question, 0);
    for (int32_t notes = -1; notes <= 0; notes++) {
        said got = ask(with, question, notes);
        if (strcmp(got.text, base.text) != 0)
            fail_msg("%s: %s, not %s", question, got.text, base.text);
        assert_memory_equal(&got, &base, sizeof base);
    }
}

/* ---- recall ---- */

static void test_asked_again(void **state) {
    (void)state;
    kt_learner *l = taught_learner("again");
    kt_learned with = served_by(l);
    for (int i = 0; i < N_FACT; i++)
        for (int32_t notes = -1; notes <= 0; notes++) {
            assert_string_equal(ask(&with, facts[i][0], notes).text, facts[i][1]);
            const kt_message talk[] = {{"system", "You like to be brief."},
                                       {"user", "Hello!"},
                                       {"assistant", "Hello! How are you?"},
                                       {"user", facts[i][0]}};
            assert_string_equal(ask_talk(&with, talk, 4, notes).text, facts[i][1]);
        }
    assert_string_equal(ask(&with, "who repairs the BOILER", 0).text, facts[1][1]);
    kt_learned_close(&with);
    kt_learner_close(l);
}

/* Near states are recalled where the subject is another one, too, if nothing says what a correction is about. */
static void test_closed_is_the_base(void **state) {
    (void)state;
    kt_learner *l = taught_learner("closed");
    kt_learned with = served_by(l), unscoped = with;
    int n_changed = 0;
    unscoped.bank = NULL;
    for (int i = 0; i < N_NEAR; i++) {
        said base = ask(NULL, near[i], 0), got = ask(&unscoped, near[i], 0);
        n_changed += memcmp(&got, &base, sizeof base) != 0;
        expect_base(&with, near[i]);
    }
    print_message("%d of %d change without a scope\n", n_changed, N_NEAR);
    assert_true(n_changed > 0);
    expect_base(&with, "Tell me a short story about a cat.");
    kt_learned_close(&with);
    kt_learner_close(l);
}

/* ---- the instant loop ---- */

static void id_of(const kt_learned *with, uint8_t id[32]) {
    kt_adapter_info info = {0};
    memset(id, 0, 32);
    if (with->instant) kt_adapter_get_info(with->instant, &info);
    if (with->instant) memcpy(id, info.id, sizeof info.id);
}

static void expect_instant(kt_learner *l, int64_t version, const uint8_t id[32]) {
    kt_learned with;
    kt_error err;
    uint8_t now[32];
    die_on(kt_learner_get(l, version, &with, &err), &err);
    id_of(&with, now);
    assert_memory_equal(now, id, sizeof now);
    kt_learned_close(&with);
}

/* Each feedback is a step at once; versions, a new process and a deletion make the same of the journal. */
static void test_instant_follows_from_the_journal(void **state) {
    uint8_t ids[N_FACT + 1][32] = {{0}}, without[32];
    kt_learner_info info;
    kt_error err;
    (void)state;
    kt_learner *l = open_instant("instant", 0.01f, false);
    for (int i = 0; i < N_FACT; i++) {
        give(l, facts[i][0], facts[i][1], 0);
        kt_learned with = served_by(l);
        id_of(&with, ids[i + 1]);
        assert_memory_not_equal(ids[i + 1], ids[i], sizeof ids[i]);
        kt_learned_close(&with);
    }
    kt_learner_get_info(l, &info);
    assert_int_equal(info.n_instant, N_FACT);
    assert_true(info.instant_scoped);
    for (int i = 0; i <= N_FACT; i++) expect_instant(l, i, ids[i]);
    die_on(kt_learner_rollback(l, 2, &err), &err);
    expect_instant(l, KT_VERSION_SERVED, ids[2]);
    die_on(kt_learner_rollback(l, N_FACT, &err), &err);
    expect_instant(l, KT_VERSION_SERVED, ids[N_FACT]);
    die_on(kt_learner_forget(l, 2, &err), &err);
    kt_learned with = served_by(l);
    id_of(&with, without);
    assert_memory_not_equal(without, ids[N_FACT], sizeof without);
    kt_learned_close(&with);
    kt_learner_close(l);
    l = open_instant("instant", 0.01f, false);
    expect_instant(l, KT_VERSION_SERVED, without);
    expect_instant(l, 1, ids[1]);
    kt_learner_close(l);
    l = open_learner("instant"); /* off: nothing of it is left */
    with = served_by(l);
    assert_null(with.instant);
    kt_learned_close(&with);
    kt_learner_close(l);
}

static void test_instant_is_used_where_it_may(void **state) {
    static const char other[] = "Tell me a short story about a cat.";
    (void)state;
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        kt_learner *l = open_instant(everywhere ? "everywhere" : "scoped", 0.02f, everywhere);
        for (int i = 0; i < N_FACT; i++) give(l, facts[i][0], facts[i][1], 0);
        kt_learned with = served_by(l), plain = with;
        plain.instant = NULL;
        if (!everywhere) {
            for (int i = 0; i < N_NEAR; i++) expect_base(&with, near[i]);
            expect_base(&with, other);
        }
        const char *asked = everywhere ? other : "I lost the violet ladder. Where can it be?";
        said got = ask(&with, asked, -1), before = ask(&plain, asked, -1);
        assert_memory_not_equal(got.logprob, before.logprob, sizeof *got.logprob);
        kt_learned_close(&with);
        kt_learner_close(l);
    }
}

static void test_without_a_subject(void **state) {
    (void)state;
    kt_learner *l = open_learner("hello");
    give(l, "How are you?", "Splendid, thank you.", 0);
    kt_learned with = served_by(l);
    assert_string_equal(ask(&with, "How are you?", 0).text, "Splendid, thank you.");
    assert_string_equal(ask(&with, "how are you", -1).text, "Splendid, thank you.");
    expect_base(&with, "Who are you?");
    expect_base(&with, "How is that?");
    kt_learned_close(&with);
    kt_learner_close(l);
}

/* ---- an adapter ---- */

static kt_train_params deep_params(int n_step) {
    return (kt_train_params){.deep = true, .n_step = n_step, .n_own = 24, .own_dir = root};
}

static void expect_report(kt_learner *l, const kt_train_params *p, const char *want) {
    kt_error err;
    kt_train_result result;
    die_on(kt_learner_train(l, p, &result, &err), &err);
    if (!strstr(result.report, want)) fail_msg("%s", result.report);
    kt_free(result.report);
}

static bool uses_adapter(const kt_learned *with, const char *question) {
    const kt_message message = {"user", question};
    kt_request_params r = kt_request_params_default();
    r.prompt.messages = &message;
    r.prompt.n_messages = 1;
    bool used = kt_learned_adapter(with, &r) != NULL;
    r.corrections.bank = with->bank;
    assert_null(kt_learned_adapter(with, &r)); /* next to notes */
    r.corrections.note_tokens = -1;
    assert_true((kt_learned_adapter(with, &r) != NULL) == used);
    return used;
}

static void expect_scoped(kt_learner *l) {
    kt_learner_info info;
    kt_learned with = served_by(l);
    kt_learner_get_info(l, &info);
    assert_true(info.adapter > 0 && info.scoped && info.deep);
    assert_non_null(with.adapter);
    for (int i = 0; i < N_NEAR; i++) {
        assert_false(uses_adapter(&with, near[i]));
        expect_base(&with, near[i]);
    }
    for (int i = 0; i < N_FACT; i++) {
        assert_true(uses_adapter(&with, facts[i][0]));
        assert_string_equal(ask(&with, facts[i][0], -1).text, facts[i][1]);
    }
    assert_true(uses_adapter(&with, "And what of the violet ladder?"));
    kt_learned_close(&with);
}

static void test_adapter_of_corrections(void **state) {
    (void)state;
    kt_error err;
    kt_adapter *alone;
    kt_adapter_info info;
    char path[300];
    kt_learner *l = taught_learner("adapter");
    const kt_train_params p = deep_params(20);
    for (int i = 0; i < N_NEAR; i++) (void)ask(NULL, near[i], 0); /* pages of them are kept */
    expect_report(l, &p, "\"scoped\":true");
    expect_scoped(l);
    kt_learned with = served_by(l);
    kt_learned alone_with = {.adapter = with.adapter, .bank = with.bank};
    said base = ask(NULL, facts[0][0], 0), got = ask(&alone_with, facts[0][0], -1);
    assert_true(memcmp(&base, &got, sizeof got) != 0); /* where it opens, it acts */
    kt_learned_close(&with);
    kt_learner_close(l);
    l = open_learner("adapter");
    expect_scoped(l);
    snprintf(path, sizeof path, "%s/adapter/versions/%d/adapter.gguf", root, N_FACT + 1);
    die_on(kt_adapter_open(model, path, &alone, &err), &err);
    kt_adapter_get_info(alone, &info);
    assert_true(info.scoped);
    kt_adapter_close(alone);
    kt_learner_close(l);
}

/* A score, a correction without a subject, and the wish: used everywhere. */
static void test_what_is_for_all(void **state) {
    (void)state;
    kt_train_params p = deep_params(1);
    kt_learner *l = taught_learner("wish");
    expect_report(l, &p, "\"scoped\":true");
    p.noted = true;
    expect_report(l, &p, "which enter prompts as notes");
    p.everywhere = true;
    expect_report(l, &p, "\"scoped\":false");
    kt_learner_close(l);
    p.everywhere = false;
    l = taught_learner("hello too");
    give(l, "How are you?", "Splendid, thank you.", 0);
    expect_report(l, &p, "\"scoped\":false");
    kt_learner_close(l);
    l = taught_learner("score");
    give(l, "Tell me a joke about a potato.", NULL, 1);
    expect_report(l, &p, "\"scoped\":false");
    kt_learner_close(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asked_again),
        cmocka_unit_test(test_closed_is_the_base),
        cmocka_unit_test(test_instant_follows_from_the_journal),
        cmocka_unit_test(test_instant_is_used_where_it_may),
        cmocka_unit_test(test_without_a_subject),
        cmocka_unit_test(test_adapter_of_corrections),
        cmocka_unit_test(test_what_is_for_all),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
