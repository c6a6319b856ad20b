/* serve, and run: reasoning from a model that thinks, end to end: split on each wire, closed by force when
 * its budget is spent, and ended where it goes round in circles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "script_model.h"
#include "serve_reply.h"

static world w;
static char model_path[64];

#define THOUGHT "First the ducks, then all of the geese, and at last two swans."
#define ANSWER "Nine birds."

static const script scripts[] = {
    {"wheel", "<think>\nround and round it goes, ", true},
    {"ponder", "<think>\n" THOUGHT "\n</think>\n\n" ANSWER, false},
};

static int open_group(void **state) {
    char setting[80];
    kt_error err;
    (void)state;
    snprintf(model_path, sizeof model_path, "/tmp/kt_reasoning_%d.gguf", (int)getpid());
    snprintf(setting, sizeof setting, "model=%s", model_path);
    const char *const settings[] = {setting, NULL};
    if (script_write(model_path, scripts, sizeof scripts / sizeof *scripts, &err) != KT_OK)
        return 1;
    return world_set_up(&w, settings);
}

static int close_group(void **state) {
    (void)state;
    world_close(&w);
    unlink(model_path);
    return 0;
}

#define ASK(word) "\"messages\":[{\"role\":\"user\",\"content\":\"" word "\"}],\"temperature\":0"

static json_t *answer(const char *path, const char *body) {
    reply *r = post(&w, path, body);
    if (r->status != 200) fail_msg("%s: %s", body, r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

/* ---- split, and closed by force ---- */

static void check_chat(const char *more, const char *thought, const char *said) {
    char body[256];
    snprintf(body, sizeof body, "{" ASK("ponder") ",\"max_tokens\":200%s}", more);
    json_t *v = answer("/v1/chat/completions", body);
    assert_string_equal(text_at(v, "choices.0.message.reasoning_content"), thought);
    assert_string_equal(text_at(v, "choices.0.message.content"), said);
    assert_string_equal(text_at(v, "choices.0.finish_reason"), "stop");
    assert_true(json_integer_value(at(v, "usage.completion_tokens_details.reasoning_tokens")) >=
                (*thought ? 2 : 0));
    json_decref(v);
}

static void test_chat(void **state) {
    (void)state;
    check_chat("", THOUGHT, ANSWER);
    /* the beginning of the thought, by whole tokens; then the answer, as if it had been whole */
    json_t *v = answer("/v1/chat/completions",
                       "{" ASK("ponder") ",\"max_tokens\":200,\"reasoning_budget\":6}");
    const char *thought = text_at(v, "choices.0.message.reasoning_content");
    assert_true(strlen(thought) > 5 && strlen(thought) < sizeof THOUGHT - 10);
    assert_int_equal(strncmp(thought, THOUGHT, strlen(thought)), 0);
    assert_string_equal(text_at(v, "choices.0.message.content"), ANSWER);
    assert_string_equal(text_at(v, "choices.0.finish_reason"), "stop");
    json_decref(v);
}

/* The same tools and choice none: what opens a call is forbidden, reasoning is not. */
static void test_beside_tools(void **state) {
    (void)state;
    check_chat(",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
               "\"tool_choice\":\"none\"",
               THOUGHT, ANSWER);
    check_chat(",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", THOUGHT,
               ANSWER);
}

static void test_messages(void **state) {
    (void)state;
    json_t *v = answer("/v1/messages", "{" ASK("ponder") ",\"max_tokens\":200}");
    assert_string_equal(text_at(v, "content.0.type"), "thinking");
    assert_string_equal(text_at(v, "content.0.thinking"), THOUGHT);
    assert_string_equal(text_at(v, "content.1.type"), "text");
    assert_string_equal(text_at(v, "content.1.text"), ANSWER);
    assert_string_equal(text_at(v, "stop_reason"), "end_turn");
    json_decref(v);
}

static void test_ollama(void **state) {
    (void)state;
    char body[256];
    snprintf(body, sizeof body,
             "{\"model\":\"kt_reasoning_%d\",\"stream\":false," ASK("ponder") "}", (int)getpid());
    json_t *v = answer("/api/chat", body);
    assert_string_equal(text_at(v, "message.thinking"), THOUGHT);
    assert_string_equal(text_at(v, "message.content"), ANSWER);
    assert_string_equal(text_at(v, "done_reason"), "stop");
    json_decref(v);
}

/* ---- circles ---- */

static void test_loop(void **state) {
    (void)state;
    json_t *v = answer("/v1/chat/completions",
                       "{" ASK("wheel") ",\"max_tokens\":400,\"loop_tokens\":64}");
    int64_t n = json_integer_value(at(v, "usage.completion_tokens"));
    assert_true(n >= 64 && n < 100);
    assert_string_equal(text_at(v, "choices.0.finish_reason"), "length");
    assert_non_null(strstr(text_at(v, "choices.0.message.reasoning_content"), "round and round"));
    json_decref(v);
    v = answer("/v1/responses", "{\"input\":\"wheel\",\"temperature\":0,\"loop_tokens\":64}");
    assert_string_equal(text_at(v, "kentang.finish"), "loop");
    json_decref(v);
}

/* ---- run ---- */

static void run_model(const char *options, char *out, size_t size) {
    char command[512];
    snprintf(command, sizeof command,
             KT_BINARY_DIR "/kentang run -m %s --temp 0 -t 1 -p ponder %s 2>/dev/null", model_path,
             options);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    out[fread(out, 1, size - 1, p)] = '\0';
    assert_int_equal(pclose(p), 0);
}

static void test_run(void **state) {
    (void)state;
    char out[1024];
    run_model("--reasoning hide", out, sizeof out);
    assert_non_null(strstr(out, ANSWER));
    assert_null(strstr(out, "ducks"));
    run_model("--reasoning show", out, sizeof out);
    assert_non_null(strstr(out, THOUGHT));
    assert_non_null(strstr(out, ANSWER));
    assert_null(strstr(out, "think>"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),     cmocka_unit_test(test_beside_tools),
        cmocka_unit_test(test_messages), cmocka_unit_test(test_ollama),
        cmocka_unit_test(test_loop),     cmocka_unit_test(test_run),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
