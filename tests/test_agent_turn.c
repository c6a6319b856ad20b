/* agent: the model's turn in the format of its template, over a model that says what is written here:
 * text, reasoning, several calls a turn; and the loop: what it calls, tells, keeps and plays again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <unistd.h>

#include "agent/loop.h"
#include "base/alloc.h"
#include "script_model.h"

static kt_ctx *ctx;
static kt_model *model, *demo;
static kt_engine *engine, *demo_engine;

#define CALL(name, arguments) \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"

/* The first whose word the last message has. Calls stand as the format has them: what is held to it
 * cannot be written in another way. */
static const script scripts[] = {
    {"alpha",
     "<think>\nI need both.\n</think>\n\nLet me see.\n" CALL(
         "calculator", "{\"expression\":\"17*23\"}") "\n" CALL("calculator",
                                                               "{\"expression\":\"2+3\"}"),
     false},
    {"again", CALL("clock", "{}"), false},
    {"use it, or", "I give up.", false},
    {"day, ", CALL("clock", "{}"), false},
    {"far", CALL("far", "{\"x\":1}"), false},
    {"echo", CALL("evil__echo", "{\"text\":\"hi there\"}"), false},
    {"nobody is there", "I may not.", false},
    {"does not allow", "As you wish.", false},
    {"hi there", "The server said so.", false},
    {"Allow everything", "That was no order.", false},
    {"typed by me", "You wrote that yourself.", false},
    {"round", "so and so and so, ", true},
    {"5", "It is 391, and then 5.", false},
    {"391", "One call alone gave 391.", false},
};

static int open_models(void **state) {
    kt_error err;
    kt_ctx_params params = kt_ctx_params_default();
    kt_model_params m = kt_model_params_default();
    kt_engine_params e = kt_engine_params_default();
    char path[64];
    (void)state;
    params.n_threads = 2;
    e.n_ctx = 1024;
    e.n_parallel = 2;
    snprintf(path, sizeof path, "/tmp/kt_agent_%d.gguf", (int)getpid());
    kt_status status = script_write(path, scripts, sizeof scripts / sizeof *scripts, &err);
    if (status == KT_OK) status = kt_ctx_open(&params, &ctx, &err);
    if (status == KT_OK) status = kt_model_open(ctx, path, &m, &model, &err);
    unlink(path);
    if (status == KT_OK) status = kt_engine_open(model, &e, &engine, &err);
    if (status == KT_OK) status = kt_model_open_demo(ctx, NULL, &demo, &err);
    if (status == KT_OK) status = kt_engine_open(demo, &e, &demo_engine, &err);
    if (status != KT_OK) fprintf(stderr, "%s\n", err.message);
    return status == KT_OK ? 0 : -1;
}

static int close_models(void **state) {
    (void)state;
    kt_engine_close(demo_engine);
    kt_engine_close(engine);
    kt_model_close(demo);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return 0;
}

#define TOOL(name, schema) \
    "{\"name\":\"" name "\",\"spec\":{\"name\":\"" name "\",\"inputSchema\":" schema "}}"
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

static kt__turn_opts turn_opts(void) {
    kt__turn_opts o = {
        .engine = engine, .asked = kt_request_params_default(), .gen = kt_gen_params_default()};
    o.gen.n_predict = 200;
    o.gen.sampling.temperature = 0;
    return o;
}

static kt_status take(const kt__turn_opts *o, const kt__toolbox *box, const char *task,
                      kt__turn *turn, kt_error *err) {
    char *system = kt__turn_system("Be brief.");
    json_t *list = json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "system", "content", system, "role",
                             "user", "content", task);
    kt_status status = kt__turn_take(o, list, box, turn, err);
    kt__free(system);
    json_decref(list);
    return status;
}

static const char *text_in(const kt__buf *buf) {
    return buf->data ? buf->data : "";
}

static const char *expression_of(const kt__turn_call *call) {
    return json_string_value(json_object_get(call->args, "expression"));
}

#define CALCULATOR                                                                            \
    TOOL("calculator", "{\"type\":\"object\",\"properties\":{\"expression\":{\"type\":"       \
                       "\"string\"}},\"required\":[\"expression\"],\"additionalProperties\":" \
                       "false}")

/* What the model thinks, says and calls, apart; all calls of the turn, in its own format. */
static void test_parts_of_a_turn(void **state) {
    (void)state;
    kt__toolbox *box = recall("[" CALCULATOR "]");
    kt__turn_opts o = turn_opts();
    kt__turn turn;
    kt_error err;
    if (take(&o, box, "alpha", &turn, &err) != KT_OK) fail_msg("%s", err.message);
    assert_string_equal(text_in(&turn.reasoning), "I need both.");
    assert_string_equal(text_in(&turn.text), "Let me see.");
    assert_int_equal(turn.n_calls, 2);
    assert_string_equal(turn.calls[0].name, "calculator");
    assert_string_equal(expression_of(&turn.calls[0]), "17*23");
    assert_string_equal(expression_of(&turn.calls[1]), "2+3");
    assert_true(strcmp(turn.calls[0].id, turn.calls[1].id) != 0);
    assert_int_equal(turn.notes.len, 0);
    json_t *m = kt__turn_message(&turn);
    assert_int_equal(json_array_size(json_object_get(m, "tool_calls")), 2);
    json_decref(m);
    kt__turn_free(&turn);
    o.one_call = true;
    if (take(&o, box, "alpha", &turn, &err) != KT_OK) fail_msg("%s", err.message);
    assert_int_equal(turn.n_calls, 1);
    kt__turn_free(&turn);
    o.answers = true; /* whatever it writes, it calls nothing */
    if (take(&o, box, "again", &turn, &err) != KT_OK && err.code != KT_E_LIMIT)
        fail_msg("%s", err.message);
    assert_int_equal(turn.n_calls, 0);
    assert_true(turn.text.len > 0);
    assert_null(strstr(text_in(&turn.text), "<tool_call>"));
    kt__turn_free(&turn);
    kt__toolbox_close(box);
}

/* A schema that cannot be enforced is left to its server, and that is said. */
static void test_relaxed(void **state) {
    (void)state;
    kt__toolbox *box = recall("[" CALCULATOR
                              "," TOOL("far", "{\"$ref\":\"https://example.com/schema\"}") "]");
    kt__turn_opts o = turn_opts();
    kt__turn turn;
    kt_error err;
    if (take(&o, box, "far", &turn, &err) != KT_OK) fail_msg("%s", err.message);
    assert_int_equal(turn.n_calls, 1);
    assert_string_equal(turn.calls[0].name, "far");
    assert_non_null(strstr(text_in(&turn.notes), "far"));
    kt__turn_free(&turn);
    kt__toolbox_close(box);
}

/* An answer that was cut off is no answer; so is one that goes round in circles. */
static void test_cut_off(void **state) {
    (void)state;
    kt__toolbox *box = recall("[]");
    kt__turn_opts o = turn_opts();
    kt__turn turn;
    kt_error err;
    o.gen.n_predict = 3;
    assert_int_equal(take(&o, box, "alpha", &turn, &err), KT_E_LIMIT);
    assert_non_null(strstr(err.message, "cut off after 3 tokens"));
    kt__turn_free(&turn);
    o.gen.n_predict = 200;
    o.gen.loop_tokens = 64;
    assert_int_equal(take(&o, box, "round", &turn, &err), KT_E_LIMIT);
    assert_int_equal(turn.report.finish, KT_FINISH_LOOP);
    kt__turn_free(&turn);
    kt__toolbox_close(box);
}

/* How many ids of the prompt are tokens that no text has. */
static size_t control_tokens(const char *result) {
    const kt__turn_call call = {.id = "call_1", .name = "clock"};
    json_t *m = kt__turn_result_message(&call, result, true);
    json_t *list = json_pack("[{s:s,s:s},{s:s,s:s,s:[{s:s,s:s,s:{s:s,s:{}}}]},O]", "role", "user",
                             "content", "x", "role", "assistant", "content", "", "tool_calls", "id",
                             "call_1", "type", "function", "function", "name", "clock", "arguments",
                             m);
    char *json = json_dumps(list, 0);
    kt_request_params r = kt_request_params_default();
    int32_t *ids;
    size_t n, found = 0;
    kt_error err;
    r.prompt.chat_json = json;
    r.prompt.chat_json_len = strlen(json);
    r.parts.split = true;
    if (kt_request_encode(demo, &r, &ids, &n, &err) != KT_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < n; i++) {
        char text[64];
        size_t len = 0;
        bool silent = kt_detokenize(demo, &ids[i], 1, 0, text, sizeof text, &len, NULL) == KT_OK &&
                      len == 0;
        found += silent;
    }
    kt_free(ids);
    free(json);
    json_decref(list);
    json_decref(m);
    return found;
}

/* The name of every control token in a result: none of them is one there. */
static void test_results_are_data(void **state) {
    (void)state;
    kt_model_info info;
    char text[1 << 14] = "";
    size_t at = 0, n_control = 0;
    kt_model_get_info(demo, &info);
    for (int32_t id = 0; id < info.n_vocab && at < sizeof text - 128; id++) {
        size_t len = 0, shown = 0;
        char none[64];
        if (kt_detokenize(demo, &id, 1, 0, none, sizeof none, &len, NULL) != KT_OK || len) continue;
        if (kt_detokenize(demo, &id, 1, KT_TOK_RENDER_SPECIAL, text + at, 120, &shown, NULL) ==
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

typedef struct trial {
    kt__turn_opts turn;
    kt__agent_limits limits;
    const char *tools, *write, *replay; /* built in; files */
    kt__toolbox *box;
    kt__transcript transcript;
    kt__agent *agent;
    char *answer;
} trial;

static trial trial_of(const char *tools) {
    return (trial){.turn = turn_opts(), .limits = {6, 8, 0, false}, .tools = tools};
}

static kt_status try_task(trial *t, const char *task, kt_error *err) {
    const kt__toolbox_opts box_opts = {.builtins = t->tools, .max_result = 1 << 16};
    const kt__agent_hooks hooks = {NULL, keep_note, NULL, NULL};
    notes[0] = '\0';
    assert_int_equal(kt__transcript_open(t->write, t->replay, &t->transcript, err), KT_OK);
    const json_t *tools = kt__transcript_tools(&t->transcript);
    assert_int_equal(t->replay ? kt__toolbox_recall(tools, &box_opts, &t->box, err)
                               : kt__toolbox_open(&box_opts, &t->box, err),
                     KT_OK);
    assert_int_equal(kt__agent_create(&t->turn, t->box, &t->transcript, &t->limits, &hooks, NULL,
                                      &t->agent, err),
                     KT_OK);
    return kt__agent_run(t->agent, task, &t->answer, err);
}

static void end_trial(trial *t) {
    kt__free(t->answer);
    kt__agent_free(t->agent);
    kt__toolbox_close(t->box);
    kt__transcript_close(&t->transcript);
}

/* Both calls of a turn are made, the results go back as results, and the model answers from them; and
 * the same once more from the transcript. */
static void test_task_with_calls(void **state) {
    (void)state;
    char file[64];
    kt_error err;
    snprintf(file, sizeof file, "/tmp/kt_agent_%d.jsonl", (int)getpid());
    trial t = trial_of("calculator");
    t.write = file;
    if (try_task(&t, "alpha", &err) != KT_OK) fail_msg("%s", err.message);
    assert_string_equal(t.answer, "It is 391, and then 5.");
    assert_int_equal(kt__agent_n_calls(t.agent), 2);
    assert_non_null(strstr(notes, "-> calculator {\"expression\":\"2+3\"}"));
    end_trial(&t);
    trial again = trial_of(NULL);
    again.replay = file;
    if (try_task(&again, "alpha", &err) != KT_OK) fail_msg("%s", err.message);
    assert_string_equal(again.answer, "It is 391, and then 5.");
    end_trial(&again);
    trial other = trial_of(NULL);
    other.replay = file;
    other.limits.one_call = true; /* goes the same way as far as the record does */
    if (try_task(&other, "alpha", &err) != KT_OK) fail_msg("%s", err.message);
    assert_string_equal(other.answer, "One call alone gave 391.");
    end_trial(&other);
    unlink(file);
}

/* The last call that is allowed comes alone, and behind it the model has to answer. */
static void test_limit_of_calls(void **state) {
    (void)state;
    kt_error err;
    trial t = trial_of("calculator");
    t.limits.calls = 1;
    if (try_task(&t, "alpha", &err) != KT_OK) fail_msg("%s", err.message);
    assert_string_equal(t.answer, "One call alone gave 391.");
    assert_int_equal(kt__agent_n_calls(t.agent), 1);
    end_trial(&t);
}

/* The same call over and over is made twice, and then no more. */
static void test_repeated_call(void **state) {
    (void)state;
    kt_error err;
    trial t = trial_of("clock");
    t.limits.rounds = 8;
    if (try_task(&t, "again", &err) != KT_OK) fail_msg("%s\n%s", err.message, notes);
    assert_string_equal(t.answer, "I give up.");
    end_trial(&t);
}

/* A model that knows no tools at all comes to an end within the limits. */
static void test_loop_ends(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        kt_error err;
        trial t = trial_of("clock,calculator");
        t.turn.engine = demo_engine;
        t.turn.gen.sampling.temperature = 1;
        t.turn.gen.sampling.seed = seed;
        t.limits = (kt__agent_limits){3, (int32_t)seed, 0, false};
        kt_status status = try_task(&t, "What is 2 + 2?", &err);
        if (status != KT_OK && status != KT_E_LIMIT && status != KT_E_CONTEXT_FULL)
            fail_msg("%s", err.message);
        assert_true(kt__agent_n_calls(t.agent) <= t.limits.calls);
        end_trial(&t);
    }
}

/* Results that fill the context give way to later ones; a task that fills it is an error. */
static void test_full_context(void **state) {
    (void)state;
    kt_error err;
    trial t = trial_of("clock");
    char task[4000];
    memset(task, 'x', sizeof task);
    task[sizeof task - 1] = '\0';
    assert_int_equal(try_task(&t, task, &err), KT_E_CONTEXT_FULL);
    assert_null(t.answer);
    end_trial(&t);
}

/* With the name of a file it only writes the model there, for tests of the program. */
int main(int argc, char **argv) {
    kt_error err;
    if (argc == 2)
        return script_write(argv[1], scripts, sizeof scripts / sizeof *scripts, &err) == KT_OK ? 0
                                                                                               : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_a_turn), cmocka_unit_test(test_relaxed),
        cmocka_unit_test(test_cut_off),         cmocka_unit_test(test_results_are_data),
        cmocka_unit_test(test_task_with_calls), cmocka_unit_test(test_limit_of_calls),
        cmocka_unit_test(test_repeated_call),   cmocka_unit_test(test_loop_ends),
        cmocka_unit_test(test_full_context),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
