/* serve: /v1/responses: what it takes, what it refuses, and its events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, NULL)

#define QUESTION "Tell me a story about a cat."
#define SHORT ",\"max_output_tokens\":24,\"temperature\":0"

static json_t *ask_responses(const char *body, int status) {
    reply *r = post(&w, "/v1/responses", body);
    if (r->status != status) fail_msg("%s: %s", body, r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

/* ---- whole answers ---- */

static void test_whole(void **state) {
    (void)state;
    json_t *v = ask_responses("{\"input\":\"" QUESTION "\"" SHORT
                              ",\"metadata\":{\"k\":\"v\"},\"store\":true,\"user\":\"u\"}",
                              200);
    assert_string_equal(text_at(v, "object"), "response");
    assert_int_equal(strncmp(text_at(v, "id"), "resp_", 5), 0);
    assert_string_equal(text_at(v, "status"), "incomplete");
    assert_string_equal(text_at(v, "incomplete_details.reason"), "max_output_tokens");
    assert_string_equal(text_at(v, "kentang.finish"), "length");
    assert_string_equal(text_at(v, "output.0.type"), "message");
    assert_string_equal(text_at(v, "output.0.role"), "assistant");
    assert_int_equal(strncmp(text_at(v, "output.0.id"), "msg_", 4), 0);
    assert_string_equal(text_at(v, "output.0.content.0.type"), "output_text");
    assert_true(strlen(text_at(v, "output.0.content.0.text")) > 20);
    assert_int_equal(json_integer_value(at(v, "usage.output_tokens")), 24);
    assert_int_equal(json_integer_value(at(v, "usage.total_tokens")),
                     24 + json_integer_value(at(v, "usage.input_tokens")));
    assert_string_equal(text_at(v, "metadata.k"), "v");
    assert_true(json_is_true(at(v, "store")));
    assert_true(json_is_null(at(v, "previous_response_id")));
    assert_int_equal(json_integer_value(at(v, "max_output_tokens")), 24);
    assert_true(json_is_null(at(v, "error")));
    json_decref(v);
}

/* The same conversation in each of its shapes, and over /v1/chat/completions. */
static void test_same_prompt(void **state) {
    (void)state;
    static const char *const inputs[] = {
        "{\"instructions\":\"Be brief.\",\"input\":\"" QUESTION "\"" SHORT "}",
        "{\"instructions\":\"Be brief.\",\"input\":[{\"role\":\"user\",\"content\":\"" QUESTION
        "\"}]" SHORT "}",
        "{\"input\":[{\"type\":\"message\",\"role\":\"developer\",\"content\":[{\"type\":"
        "\"input_text\",\"text\":\"Be brief.\"}]},{\"type\":\"message\",\"role\":\"user\","
        "\"content\":[{\"type\":\"input_text\",\"text\":\"" QUESTION "\"}]}]" SHORT "}"};
    reply *r = post(&w, "/v1/chat/completions",
                    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":"
                    "\"user\",\"content\":\"" QUESTION "\"}],\"max_tokens\":24,\"temperature\":0}");
    json_t *chat = body_of(r);
    free(r);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        json_t *v = ask_responses(inputs[i], 200);
        assert_string_equal(text_at(v, "output.0.content.0.text"),
                            text_at(chat, "choices.0.message.content"));
        json_decref(v);
    }
    json_decref(chat);
}

static void test_logprobs(void **state) {
    (void)state;
    json_t *v = ask_responses("{\"input\":\"" QUESTION "\"" SHORT
                              ",\"include\":[\"message.output_text.logprobs\"],\"top_logprobs\":2}",
                              200);
    const json_t *list = at(v, "output.0.content.0.logprobs");
    assert_int_equal(json_array_size(list), 24);
    assert_int_equal(json_array_size(at(list, "3.top_logprobs")), 2);
    json_decref(v);
    v = ask_responses("{\"input\":\"" QUESTION "\"" SHORT ",\"top_logprobs\":2}", 200);
    assert_int_equal(json_array_size(at(v, "output.0.content.0.logprobs")), 0);
    json_decref(v);
}

/* ---- refusals ---- */

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *body, *param;
    } cases[] = {
        {"{}", "input"},
        {"{\"input\":7}", "input"},
        {"{\"input\":[]}", "input"},
        {"{\"input\":[3]}", "input[0]"},
        {"{\"input\":\"a\",\"instructions\":7}", "instructions"},
        {"{\"input\":\"a\",\"previous_response_id\":7}", "previous_response_id"},
        {"{\"input\":\"a\",\"store\":7}", "store"},
        {"{\"input\":\"a\",\"conversation\":\"conv_1\"}", "conversation"},
        {"{\"input\":\"a\",\"background\":true}", "background"},
        {"{\"input\":\"a\",\"prompt\":{\"id\":\"p\"}}", "prompt"},
        {"{\"input\":\"a\",\"max_output_tokens\":\"x\"}", "max_output_tokens"},
        {"{\"input\":\"a\",\"max_output_tokens\":-7}", "max_output_tokens"},
        {"{\"input\":\"a\",\"temperature\":\"hot\"}", "temperature"},
        {"{\"input\":\"a\",\"include\":7}", "include"},
        {"{\"input\":\"a\",\"include\":[7]}", "include[0]"},
        {"{\"input\":\"a\",\"text\":7}", "text"},
        {"{\"input\":\"a\",\"text\":{\"format\":7}}", "text.format"},
        {"{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"xml\"}}}", "text.format.type"},
        {"{\"input\":\"a\",\"reasoning\":7}", "reasoning"},
        {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_1\"}]}", "input[0].type"},
        {"{\"input\":[{\"type\":7}]}", "input[0].type"},
        {"{\"input\":[{\"content\":\"a\"}]}", "input[0].role"},
        {"{\"input\":[{\"role\":\"tool\",\"content\":\"a\"}]}", "input[0].role"},
        {"{\"input\":[{\"role\":\"user\"}]}", "input[0].content"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
         "input[0].content[0].type"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}]}",
         "input[0].content[0].text"},
        {"{\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":\"function_call\"}]}",
         "input[1].call_id"},
        {"{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"c\"}]}", "input[0].output"},
        {"{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":"
         "\"[]\"}]}",
         "input[0].arguments"},
        {"{\"input\":\"a\",\"reasoning\":{\"effort\":\"some\"}}", "reasoning.effort"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"function\"}]}", "tools[0]"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"mystery\"}]}", "tools[0].type"},
        {"{\"input\":\"a\",\"tool_choice\":\"required\"}", "tool_choice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *v = ask_responses(cases[i].body, 400);
        if (strcmp(text_at(v, "error.param"), cases[i].param) != 0)
            fail_msg("%s: expected %s, got \"%s\" (%s)", cases[i].body, cases[i].param,
                     text_at(v, "error.param"), text_at(v, "error.message"));
        assert_string_equal(text_at(v, "error.type"), "invalid_request_error");
        json_decref(v);
    }
}

/* ---- events ---- */

/* The events of a stream, whose names, types and numbers must agree; for json_decref. */
static json_t *events_of(const char *body) {
    json_t *list = json_array();
    char name[128];
    for (const char *line = body; line && *line;) {
        const char *end = strchr(line, '\n');
        if (!end) end = line + strlen(line);
        if (!strncmp(line, "event: ", 7))
            snprintf(name, sizeof name, "%.*s", (int)(end - line - 7), line + 7);
        if (!strncmp(line, "data: ", 6)) {
            json_t *v = json_loadb(line + 6, (size_t)(end - line - 6), 0, NULL);
            if (!v) fail_msg("no JSON: %.*s", (int)(end - line), line);
            assert_string_equal(text_at(v, "type"), name);
            assert_int_equal(json_integer_value(at(v, "sequence_number")), json_array_size(list));
            json_array_append_new(list, v);
        }
        line = *end ? end + 1 : NULL;
    }
    return list;
}

static void expect_types(const json_t *events, const char *const *types) {
    const char *last = "";
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *type = text_at(json_array_get(events, i), "type");
        if (!strcmp(type, last)) continue; /* deltas */
        if (!*types || strcmp(type, *types) != 0)
            fail_msg("event %zu is %s, expected %s", i, type, *types ? *types : "none");
        types++;
        last = type;
    }
    assert_null(*types);
}

static void test_events(void **state) {
    (void)state;
    static const char *const types[] = {"response.created",           "response.in_progress",
                                        "response.output_item.added", "response.content_part.added",
                                        "response.output_text.delta", "response.output_text.done",
                                        "response.content_part.done", "response.output_item.done",
                                        "response.incomplete",        NULL};
    json_t *whole = ask_responses("{\"input\":\"" QUESTION "\"" SHORT "}", 200);
    reply *r = post(&w, "/v1/responses", "{\"input\":\"" QUESTION "\"" SHORT ",\"stream\":true}");
    unchunk(r);
    json_t *events = events_of(r->body);
    char text[4096] = "";
    size_t n = json_array_size(events);
    expect_types(events, types);
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(events, i);
        if (!strcmp(text_at(e, "type"), "response.output_text.delta"))
            strcat(text, text_at(e, "delta"));
        if (at(e, "item_id"))
            assert_string_equal(text_at(e, "item_id"), text_at(events, "2.item.id"));
    }
    const json_t *last = json_array_get(events, n - 1);
    assert_string_equal(text, text_at(whole, "output.0.content.0.text"));
    assert_string_equal(text, text_at(last, "response.output.0.content.0.text"));
    assert_string_equal(text_at(events, "0.response.status"), "in_progress");
    assert_int_equal(json_array_size(at(events, "0.response.output")), 0);
    assert_string_equal(text_at(last, "response.id"), text_at(events, "0.response.id"));
    assert_int_equal(json_integer_value(at(last, "response.usage.output_tokens")), 24);
    assert_null(strstr(r->body, "[DONE]"));
    json_decref(events);
    json_decref(whole);
    free(r);
}

/* A reader that leaves in mid-stream, at any byte, leaves nothing behind. */
static void test_cut_streams(void **state) {
    (void)state;
    static const char body[] = "{\"input\":\"" QUESTION
                               "\",\"max_output_tokens\":60,\"stream\":true}";
    for (int cut = 1; cut < 4000; cut = cut * 2 + 1) {
        char request[512], text[4096];
        size_t len = 0;
        int fd = connect_http(&w);
        int n = snprintf(request, sizeof request,
                         "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                         "Content-Length: %zu\r\n\r\n%s",
                         sizeof body - 1, body);
        assert_true(send_all(fd, request, (size_t)n));
        while (len < (size_t)cut && receive(fd, text, sizeof text, &len, 5000)) continue;
        close(fd);
    }
    reply *r = NULL;
    for (int i = 0; i < 100; i++) {
        r = ask(&w, "GET", "/props", "", "");
        if (strstr(r->body, "\"requests\":[]")) break;
        free(r);
        r = NULL;
        usleep(50000);
    }
    if (!r) fail_msg("requests of readers that left are still there");
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),    cmocka_unit_test(test_same_prompt),
        cmocka_unit_test(test_logprobs), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_events),   cmocka_unit_test(test_cut_streams),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
