/* agent: the model's turn, held to tools' schemas, over the demo model; and the loop's limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/loop.h"
#include "base/alloc.h"

static kt_ctx *ctx;
static kt_model *model;
static kt_engine *engine;

static int open_demo(void **state) {
    kt_error err;
    kt_ctx_params params = kt_ctx_params_default();
    kt_engine_params e = kt_engine_params_default();
    (void)state;
    params.n_threads = 2;
    e.n_ctx = 1024;
    e.n_parallel = 2;
    if (kt_ctx_open(&params, &ctx, &err) != KT_OK) return -1;
    if (kt_model_open_demo(ctx, NULL, &model, &err) != KT_OK) return -1;
    return kt_engine_open(model, &e, &engine, &err) == KT_OK ? 0 : -1;
}

static int close_demo(void **state) {
    (void)state;
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return 0;
}

#define TOOL(name, schema) \
    "{\"name\":\"" name "\",\"spec\":{\"name\":\"" name "\",\"inputSchema\":" schema "}}"
#define NUMBER                                                                             \
    "{\"type\":\"object\",\"properties\":{\"n\":{\"enum\":[1,2,3]}},\"required\":[\"n\"]," \
    "\"additionalProperties\":false}"

static kt__toolbox *recall(const char *tools) {
    static const kt__toolbox_opts opts = {.max_result = 1 << 16};
    kt__toolbox *box;
    kt_error err;
    json_t *list = json_loads(tools, 0, NULL);
    assert_non_null(list);
    assert_int_equal(kt__toolbox_recall(list, &opts, &box, &err), KT_OK);
    json_decref(list);
    return box;
}

static kt__turn_opts turn_opts(uint64_t seed, bool answers) {
    kt__turn_opts o = {.engine = engine, .gen = kt_gen_params_default(), .answers = answers};
    o.gen.n_predict = 200;
    o.gen.sampling.seed = seed;
    return o;
}

static json_t *conversation(const kt__toolbox *box, const char *task) {
    char *system = kt__turn_system(box, "Be brief.");
    json_t *list = json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "system", "content", system, "role",
                             "user", "content", task);
    kt__free(system);
    return list;
}

/* Whatever the model is, what it writes is a call that fits or an answer. */
static void test_always_fits(void **state) {
    (void)state;
    kt__toolbox *box = recall("[" TOOL("one", NUMBER) "," TOOL("two", NUMBER) "]");
    json_t *messages = conversation(box, "What time is it?");
    int n_calls = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        kt__turn_opts o = turn_opts(seed, seed % 4 == 0);
        kt__turn turn;
        kt__buf relaxed;
        kt_error err;
        kt__buf_init(&relaxed, 4096);
        kt_status status = kt__turn_take(&o, messages, box, &turn, &relaxed, &err);
        if (status != KT_OK && status != KT_E_LIMIT)
            fail_msg("%s: %s", err.message, turn.said.data);
        if (status == KT_OK && turn.tool[0]) {
            json_int_t n = json_integer_value(json_object_get(turn.args, "n"));
            if (!n) n = (json_int_t)json_number_value(json_object_get(turn.args, "n"));
            assert_true(!strcmp(turn.tool, "one") || !strcmp(turn.tool, "two"));
            assert_true(n >= 1 && n <= 3 && !o.answers);
            n_calls++;
        }
        assert_int_equal(relaxed.len, 0);
        kt__buf_free(&relaxed);
        kt__turn_free(&turn);
    }
    assert_true(n_calls > 0);
    json_decref(messages);
    kt__toolbox_close(box);
}

/* A schema that cannot be enforced is left to its server, and the others are still held. */
static void test_relaxed(void **state) {
    (void)state;
    kt__toolbox *box = recall(
        "[" TOOL("good", NUMBER) "," TOOL("far", "{\"$ref\":\"https://example.com/schema\"}") "]");
    json_t *messages = conversation(box, "x");
    kt__turn_opts o = turn_opts(1, false);
    kt__turn turn;
    kt__buf relaxed;
    kt_error err = {0};
    kt__buf_init(&relaxed, 4096);
    kt_status status = kt__turn_take(&o, messages, box, &turn, &relaxed, &err);
    if (status != KT_OK && status != KT_E_LIMIT) fail_msg("%s: %s", err.message, turn.said.data);
    assert_string_equal(relaxed.data, "far");
    kt__buf_free(&relaxed);
    kt__turn_free(&turn);
    json_decref(messages);
    kt__toolbox_close(box);
}

/* How many ids of the prompt are tokens that no text has. */
static size_t control_tokens(const char *result) {
    json_t *m = kt__turn_result_message("tool", result, true);
    const kt_message messages[] = {{"user", "x"},
                                   {json_string_value(json_object_get(m, "role")),
                                    json_string_value(json_object_get(m, "content"))}};
    int32_t *ids;
    size_t n, found = 0;
    kt_error err;
    if (kt_chat_encode(model, messages, 2, KT_CHAT_GENERATE, &ids, &n, &err) != KT_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < n; i++) {
        char text[64];
        size_t len = 0;
        bool silent = kt_detokenize(model, &ids[i], 1, 0, text, sizeof text, &len, NULL) == KT_OK &&
                      len == 0;
        found += silent;
    }
    kt_free(ids);
    json_decref(m);
    return found;
}

/* The name of every control token in a result: none of them is one there. */
static void test_results_are_data(void **state) {
    (void)state;
    kt_model_info info;
    char text[1 << 14] = "";
    size_t at = 0, n_control = 0;
    kt_model_get_info(model, &info);
    for (int32_t id = 0; id < info.n_vocab && at < sizeof text - 128; id++) {
        size_t len = 0, shown = 0;
        char none[64];
        if (kt_detokenize(model, &id, 1, 0, none, sizeof none, &len, NULL) != KT_OK || len)
            continue;
        if (kt_detokenize(model, &id, 1, KT_TOK_RENDER_SPECIAL, text + at, 120, &shown, NULL) ==
            KT_OK)
            at += shown;
        n_control += shown > 0;
    }
    text[at] = '\0';
    assert_true(n_control > 0);
    assert_int_equal(control_tokens(text), control_tokens("harmless"));
}

/* ---- the loop ---- */

static char notes[8192];

static void keep_note(void *user, const char *line) {
    (void)user;
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", line);
}

static int n_asked;

static kt__approval refuse_all(void *user, const kt__agent_tool *tool, json_t **args) {
    (void)user;
    (void)args;
    assert_non_null(tool);
    n_asked++;
    return KT__REFUSED;
}

/* It comes to an end, within its limits, whatever the model does. */
static void test_loop_ends(void **state) {
    (void)state;
    const kt__toolbox_opts box_opts = {.builtins = "clock,calculator", .max_result = 1 << 16};
    const kt__agent_hooks hooks = {refuse_all, keep_note, NULL, NULL};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const kt__agent_limits limits = {6, (int32_t)seed, 0, 1 << 16};
        kt__turn_opts o = turn_opts(seed, false);
        kt__toolbox *box;
        kt__transcript transcript;
        kt__agent *agent;
        kt_error err;
        char *answer;
        notes[0] = '\0';
        assert_int_equal(kt__transcript_open(NULL, NULL, &transcript, &err), KT_OK);
        assert_int_equal(kt__toolbox_open(&box_opts, &box, &err), KT_OK);
        assert_int_equal(
            kt__agent_create(&o, box, &transcript, &limits, &hooks, NULL, &agent, &err), KT_OK);
        kt_status status = kt__agent_run(agent, "What is 2 + 2?", &answer, &err);
        if (status != KT_OK && status != KT_E_LIMIT && status != KT_E_CONTEXT_FULL)
            fail_msg("%s", err.message);
        assert_true(kt__agent_n_calls(agent) <= limits.calls);
        kt__free(answer);
        kt__agent_free(agent);
        kt__toolbox_close(box);
        kt__transcript_close(&transcript);
    }
    assert_int_equal(n_asked, 0); /* what was asked for by its name is not asked about */
}

/* Results that fill the context give way to later ones. */
static void test_full_context(void **state) {
    (void)state;
    const kt__toolbox_opts box_opts = {.builtins = "clock", .max_result = 1 << 16};
    const kt__agent_hooks hooks = {NULL, keep_note, NULL, NULL};
    const kt__agent_limits limits = {4, 8, 0, 1 << 16};
    kt__turn_opts o = turn_opts(3, false);
    kt__toolbox *box;
    kt__transcript transcript;
    kt__agent *agent;
    kt_error err;
    char *answer, task[4000];
    memset(task, 'x', sizeof task);
    task[sizeof task - 1] = '\0';
    assert_int_equal(kt__transcript_open(NULL, NULL, &transcript, &err), KT_OK);
    assert_int_equal(kt__toolbox_open(&box_opts, &box, &err), KT_OK);
    assert_int_equal(kt__agent_create(&o, box, &transcript, &limits, &hooks, NULL, &agent, &err),
                     KT_OK);
    assert_int_equal(kt__agent_run(agent, task, &answer, &err), KT_E_CONTEXT_FULL);
    assert_null(answer);
    kt__agent_free(agent);
    kt__toolbox_close(box);
    kt__transcript_close(&transcript);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_always_fits),      cmocka_unit_test(test_relaxed),
        cmocka_unit_test(test_results_are_data), cmocka_unit_test(test_loop_ends),
        cmocka_unit_test(test_full_context),
    };
    return cmocka_run_group_tests(tests, open_demo, close_demo);
}
