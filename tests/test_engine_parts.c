/* engine: answers in parts: what templates say of reasoning and tools reaches the events, whole and in
 * the order of the answer, whoever reads them. */
#include <kentang.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static kt_ctx *ctx;
static kt_model *model;
static kt_engine *engine;

static int open_world(void **state) {
    (void)state;
    kt_ctx_params params = kt_ctx_params_default();
    kt_engine_params engine_params = kt_engine_params_default();
    params.n_threads = 2;
    engine_params.n_ctx = 1024;
    return kt_ctx_open(&params, &ctx, NULL) != KT_OK ||
           kt_model_open_demo(ctx, NULL, &model, NULL) != KT_OK ||
           kt_engine_open(model, &engine_params, &engine, NULL) != KT_OK;
}

static int close_world(void **state) {
    (void)state;
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return 0;
}

/* The whole of an answer, by the kinds of its parts. */
typedef struct gathered {
    char text[2048], content[2048], reasoning[2048], names[256], arguments[1024];
    int n_calls;
    kt_request_report report;
} gathered;

static void take_parts(gathered *g, const kt_event *event) {
    strncat(g->text, event->text, event->len);
    for (size_t i = 0; i < event->n_parts; i++) {
        const kt_part *p = &event->parts[i];
        char *to = p->kind == KT_PART_CONTENT     ? g->content
                   : p->kind == KT_PART_REASONING ? g->reasoning
                                                  : g->arguments;
        strncat(to, p->text, p->len);
        if (!p->name) continue;
        assert_int_equal(p->call, g->n_calls++);
        assert_true(p->id && *p->id);
        strcat(strcat(g->names, p->name), ",");
    }
}

static void answer(const kt_request_params *request, gathered *g) {
    kt_error err;
    kt_request *req;
    kt_event event;
    memset(g, 0, sizeof *g);
    if (kt_engine_submit(engine, request, &req, &err) != KT_OK) fail_msg("%s", err.message);
    while (kt_request_next_event(req, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN) take_parts(g, &event);
        if (event.kind != KT_EVENT_FINISHED) continue;
        if (event.error) fail_msg("%s", event.error->message);
        g->report = *event.report;
    }
    kt_request_close(req);
}

static const kt_message question = {"user", "Tell me a story about a cat."};

static kt_request_params asked(void) {
    kt_request_params r = kt_request_params_default();
    r.prompt.messages = &question;
    r.prompt.n_messages = 1;
    r.parts.split = true;
    r.gen.n_predict = 60;
    r.gen.sampling.temperature = 0;
    return r;
}

/* Held to exactly this text, which the model would not write by itself. */
static void hold_to(kt_request_params *r, kt_form *form, const char *const *text) {
    *form = (kt_form){.kind = KT_FORM_CHOICE, .choices = text, .n_choices = 1};
    r->constraint = (kt_constraint){.forms = form, .n_forms = 1};
    r->gen.n_predict = 200;
}

/* ---- texts ---- */

static void test_plain_answers_are_content(void **state) {
    (void)state;
    gathered whole, split;
    kt_request_params r = asked();
    answer(&r, &split);
    r.parts.split = false;
    answer(&r, &whole);
    assert_string_equal(split.content, whole.text);
    assert_string_equal(split.text, whole.text);
    assert_string_equal(whole.content, "");
    assert_int_equal(split.report.n_calls, 0);
    assert_int_equal(split.report.n_generated, whole.report.n_generated);
}

#define TOOLS                                                                              \
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":" \
    "\"object\",\"properties\":{\"city\":{\"type\":\"string\"}}}}},{\"name\":\"now\"}]"

/* As the demo model's template has them. */
#define CALLS                                                             \
    "So: <tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": " \
    "\"Rome\"}}\n</tool_call>\n"                                          \
    "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"

static void test_calls(void **state) {
    (void)state;
    static const char *const text[] = {CALLS};
    kt_form form;
    gathered g, again;
    kt_request_params r = asked();
    hold_to(&r, &form, text);
    r.calls.tools = TOOLS;
    answer(&r, &g);
    assert_string_equal(g.names, "weather,now,");
    assert_string_equal(g.arguments, "{\"city\": \"Rome\"}{}");
    assert_int_equal(strncmp(g.content, "So:", 3), 0);
    assert_null(strstr(g.content, "tool_call"));
    assert_string_equal(g.text, g.content);
    assert_int_equal(g.report.n_calls, 2);
    r.events.on_event = NULL;
    answer(&r, &again);
    assert_memory_equal(&g.names, &again.names, sizeof g.names);
    /* without tools it is text */
    r.calls.tools = NULL;
    answer(&r, &g);
    assert_non_null(strstr(g.content, "<tool_call>"));
    assert_int_equal(g.report.n_calls, 0);
    r.calls.tools = TOOLS;
    r.calls.choice = "\"none\"";
    answer(&r, &g);
    assert_int_equal(g.report.n_calls, 0);
}

/* ---- calls that must come ---- */

#define PICKY                                                                                  \
    "[{\"type\":\"function\",\"function\":{\"name\":\"pick\",\"strict\":true,\"parameters\":{" \
    "\"type\":\"object\",\"properties\":{\"c\":{\"enum\":[\"red\",\"blue\"]}},\"required\":["  \
    "\"c\"],"                                                                                  \
    "\"additionalProperties\":false}}},{\"name\":\"now\"}]"

static void expect_picked(const gathered *g) {
    bool red = !strcmp(g->arguments, "{\"c\":\"red\"}") ||
               !strcmp(g->arguments, "{\"c\": \"red\"}");
    bool blue = !strcmp(g->arguments, "{\"c\":\"blue\"}") ||
                !strcmp(g->arguments, "{\"c\": \"blue\"}");
    if (!red && !blue) fail_msg("arguments are %s", g->arguments);
    assert_string_equal(g->content, "");
    assert_int_equal(g->report.finish, KT_FINISH_EOG);
}

static void test_forced_calls(void **state) {
    (void)state;
    static const char *const choices[] = {
        "\"pick\"", "{\"type\":\"tool\",\"name\":\"pick\"}",
        "{\"type\":\"function\",\"function\":{\"name\":\"pick\"}}"};
    gathered g;
    kt_request_params r = asked();
    r.calls.tools = PICKY;
    r.calls.one = true;
    r.gen.n_predict = 200;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        r.calls.choice = choices[i];
        answer(&r, &g);
        assert_string_equal(g.names, "pick,");
        expect_picked(&g);
    }
    r.calls.choice = "\"required\"";
    answer(&r, &g);
    assert_int_equal(g.n_calls, 1);
    assert_string_equal(g.content, "");
    r.gen.sampling.temperature = 1.5f; /* whatever the model would rather say */
    for (uint64_t seed = 0; seed < 20; seed++) {
        r.gen.sampling.seed = seed;
        answer(&r, &g);
        assert_int_equal(g.n_calls, 1);
    }
}

/* What may be called is free text until it is called; beside a form, one or the other. */
static void test_calls_that_may_come(void **state) {
    (void)state;
    gathered g;
    kt_form form = {.kind = KT_FORM_JSON_OBJECT};
    kt_request_params r = asked();
    r.calls.tools = PICKY;
    answer(&r, &g);
    assert_true(*g.content || g.n_calls);
    r.constraint = (kt_constraint){.forms = &form, .n_forms = 1};
    r.gen.n_predict = 12;
    answer(&r, &g);
    assert_true(g.n_calls || g.content[0] == '{' || g.content[0] == '<'); /* cut in a mark */
}

static void test_notes(void **state) {
    (void)state;
    kt_error err;
    kt_request *req;
    kt_request_params r = asked();
    assert_int_equal(kt_engine_submit(engine, &r, &req, &err), KT_OK);
    assert_string_equal(kt_request_notes(req), "");
    assert_true(kt_request_n_prompt(req) > 5);
    kt_request_close(req);
    r.calls.tools = PICKY;
    assert_int_equal(kt_engine_submit(engine, &r, &req, &err), KT_OK);
    assert_string_equal(kt_request_notes(req), "");
    kt_request_close(req);
}

/* A template that knows no tools: the request says so, and is held to the generic form. */
static void test_note_of_no_tools(void **state) {
    (void)state;
    char path[256], command[1024];
    kt_error err;
    kt_model *plain;
    kt_engine *plain_engine;
    kt_request *req;
    kt_request_params r = asked();
    kt_engine_params ep = kt_engine_params_default();
    snprintf(path, sizeof path, "%s/parts-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(command, sizeof command, "'%s/kentang' synth --preset tiny-llama '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, path);
    assert_int_equal(system(command), 0);
    assert_int_equal(kt_model_open(ctx, path, NULL, &plain, &err), KT_OK);
    ep.n_ctx = 1024;
    assert_int_equal(kt_engine_open(plain, &ep, &plain_engine, &err), KT_OK);
    r.calls.tools = PICKY;
    assert_int_equal(kt_engine_submit(plain_engine, &r, &req, &err), KT_OK);
    assert_non_null(strstr(kt_request_notes(req), "knows no tools"));
    kt_request_close(req);
    kt_engine_close(plain_engine);
    kt_model_close(plain);
    unlink(path);
}

/* ---- refusals ---- */

static void expect_refused(const kt_request_params *r, kt_status status, const char *where) {
    kt_error err;
    kt_request *req;
    kt_status found = kt_engine_submit(engine, r, &req, &err);
    if (found != status || strcmp(err.where, where) != 0)
        fail_msg("%s at \"%s\" (%s), expected %s at \"%s\"", kt_status_name(found), err.where,
                 err.message, kt_status_name(status), where);
    assert_null(req);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *tools, *choice, *where;
        kt_status status;
    } cases[] = {
        {"[", NULL, "tools", KT_E_FORMAT},
        {"[{\"type\":\"web_search\"}]", NULL, "tools[0].type", KT_E_UNSUPPORTED},
        {"[{\"name\":\"a\"},{\"name\":\"a\"}]", NULL, "tools[1].name", KT_E_FORMAT},
        {"[{\"name\":\"a b\"}]", NULL, "tools[0].name", KT_E_FORMAT},
        {"[{\"name\":\"a\"}]", "\"b\"", "tool_choice", KT_E_ARG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt_request_params r = asked();
        r.calls.tools = cases[i].tools;
        r.calls.choice = cases[i].choice;
        expect_refused(&r, cases[i].status, cases[i].where);
    }
    kt_request_params r = asked();
    r.parts.split = false;
    r.calls.tools = "[{\"name\":\"a\"}]";
    expect_refused(&r, KT_E_ARG, "tools");
    r = asked();
    r.gen.loop_tokens = 5;
    expect_refused(&r, KT_E_ARG, "loop_tokens");
}

/* ---- loops ---- */

static void test_loops_end(void **state) {
    (void)state;
    static const kt_logit_bias bias = {300, 1000.0f}; /* the one token that comes */
    gathered g, whole;
    kt_request_params r = asked();
    r.gen.sampling.logit_bias = &bias;
    r.gen.sampling.n_logit_bias = 1;
    answer(&r, &whole);
    assert_int_equal(whole.report.finish, KT_FINISH_LENGTH);
    r.gen.loop_tokens = 32;
    answer(&r, &g);
    assert_int_equal(g.report.finish, KT_FINISH_LOOP);
    assert_int_equal(g.report.n_generated, 32);
    assert_memory_equal(g.text, whole.text, strlen(g.text)); /* the same as far as it goes */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_answers_are_content),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_forced_calls),
        cmocka_unit_test(test_calls_that_may_come),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_note_of_no_tools),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_loops_end),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
