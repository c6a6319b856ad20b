/* serve: the Model Context Protocol at POST /mcp. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "limits.body=64K", NULL)

#define CALL(id, tool, args)                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool \
    "\",\"arguments\":" args "}}"
#define META                                                                 \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define MODERN JSON_TYPE "MCP-Protocol-Version: 2026-07-28\r\n"
#define STREAM "Accept: application/json, text/event-stream\r\n"

static json_t *structured(const char *call) {
    reply *r = post(&w, "/mcp", call);
    assert_int_equal(r->status, 200);
    json_t *v = body_of(r),
           *part = json_incref((json_t *)(uintptr_t)at(v, "result.structuredContent"));
    if (!part) fail_msg("%s", r->body);
    json_decref(v);
    free(r);
    return part;
}

static void test_tools(void **state) {
    (void)state;
    json_t *v = structured(CALL("1", "generate",
                                "{\"prompt\":\"Tell me a story about a cat.\",\"max_tokens\":8,"
                                "\"seed\":7}"));
    assert_int_equal(json_integer_value(at(v, "usage.completion_tokens")), 8);
    assert_string_equal(text_at(v, "finish"), "length");
    char as_tool[512];
    snprintf(as_tool, sizeof as_tool, "%s", text_at(v, "text"));
    json_decref(v);
    reply *r = post(&w, "/v1/chat/completions", "{" STORY ",\"max_tokens\":8,\"seed\":7}");
    v = body_of(r);
    assert_string_equal(text_at(v, "choices.0.message.content"), as_tool);
    json_decref(v);
    free(r);

    v = structured(CALL("2", "embed", "{\"input\":[\"a cat\",\"a dog\"]}"));
    assert_int_equal(json_array_size(at(v, "embeddings")), 2);
    assert_true(json_array_size(at(v, "embeddings.1")) > 8);
    json_decref(v);
    v = structured(CALL("3", "count_tokens", "{\"text\":\"a cat\"}"));
    assert_true(json_integer_value(at(v, "tokens")) > 0);
    json_decref(v);
    v = structured(CALL("5", "extract",
                        "{\"text\":\"Tom is 3.\",\"seed\":1,\"schema\":{\"type\":\"object\","
                        "\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":9},\"age\":{"
                        "\"type\":\"integer\",\"minimum\":0,\"maximum\":9}},\"required\":[\"name\","
                        "\"age\"],\"additionalProperties\":false}}"));
    assert_true(json_is_string(at(v, "value.name")) && json_is_number(at(v, "value.age")));
    assert_int_equal(json_object_size(at(v, "value")), 2);
    json_decref(v);
    v = structured(CALL("6", "extract", "{\"text\":\"x\",\"schema\":{\"const\":[1,null]}}"));
    assert_int_equal(json_array_size(at(v, "value")), 2);
    json_decref(v);
    v = structured(CALL("4", "list_models", "{}"));
    assert_string_equal(text_at(v, "models.0.name"), "demo");
    json_decref(v);
}

/* What a model can mend is the call's result; what is no call is refused. */
static void test_failures(void **state) {
    (void)state;
    static const char *const calls[] = {
        CALL("1", "generate", "{\"promt\":\"x\"}"),
        CALL("1", "generate", "{\"prompt\":\"x\",\"model\":\"nope\"}"),
        CALL("1", "count_tokens", "{\"text\":\"x\",\"model\":\"nope\"}"),
        CALL("1", "embed", "{\"input\":[]}"),
        CALL("1", "extract", "{\"text\":\"x\",\"schema\":{\"type\":\"nothing\"}}"),
        CALL("1", "extract", "{\"text\":\"x\",\"schema\":{\"$ref\":\"https://example.com/a\"}}"),
        CALL("1", "extract",
             "{\"text\":\"x\",\"max_tokens\":2,\"schema\":{\"const\":\"a long text\"}}"),
        CALL("1", "generate", "{\"messages\":[{\"role\":\"user\"}]}"),
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        reply *r = post(&w, "/mcp", calls[i]);
        json_t *v = body_of(r);
        assert_int_equal(r->status, 200);
        assert_true(json_is_true(at(v, "result.isError")));
        assert_true(strlen(text_at(v, "result.content.0.text")) > 5);
        json_decref(v);
        free(r);
    }
    reply *r = post(&w, "/mcp", CALL("1", "nope", "{}"));
    json_t *v = body_of(r);
    assert_int_equal(json_integer_value(at(v, "error.code")), -32602);
    json_decref(v);
    free(r);
}

static void expect_status(const char *method, const char *headers, const char *body, int status,
                          int code) {
    reply *r = ask(&w, method, "/mcp", headers, body);
    if (r->status != status) fail_msg("%s: %s", body, r->text);
    json_t *v = code ? body_of(r) : NULL;
    if (code) assert_int_equal(json_integer_value(at(v, "error.code")), code);
    json_decref(v);
    free(r);
}

static void test_statuses(void **state) {
    (void)state;
    expect_status("GET", "", "", 405, -32600);
    expect_status("DELETE", "", "", 405, -32600);
    expect_status("POST", JSON_TYPE "Origin: http://evil.example\r\n", "{}", 403, -32600);
    expect_status("POST", JSON_TYPE "Host: evil.example\r\n", "{}", 403, -32600);
    expect_status("POST", JSON_TYPE, "{bad", 400, -32700);
    expect_status("POST", JSON_TYPE, "[]", 400, -32600);
    expect_status("POST", JSON_TYPE,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", 202, 0);
    expect_status("POST", MODERN "Mcp-Method: tools/list\r\n",
                  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" META "}}",
                  200, 0);
    expect_status("POST", MODERN "Mcp-Method: tools/call\r\n",
                  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" META "}}",
                  400, -32020);
    expect_status("POST", MODERN "Mcp-Method: nope\r\n",
                  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nope\",\"params\":{" META "}}", 404,
                  -32601);
}

/* A legacy client is given a session, a modern one is not. */
static void test_session(void **state) {
    (void)state;
    reply *r = post(&w, "/mcp",
                    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                    "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{"
                    "\"name\":\"a\",\"version\":\"1\"}}}");
    assert_non_null(strstr(r->text, "Mcp-Session-Id: mcp-"));
    free(r);
    r = ask(&w, "POST", "/mcp", MODERN "Mcp-Method: server/discover\r\n",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" META "}}");
    assert_int_equal(r->status, 200);
    assert_null(strstr(r->text, "Mcp-Session-Id"));
    free(r);
}

#define LONG(id, token)                                                                     \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":"    \
    "\"generate\",\"arguments\":{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a " \
    "story about a "                                                                        \
    "cat.\"}],\"max_tokens\":900,\"stop\":[\"~\"]},\"_meta\":{\"progressToken\":" token "}}}"

static void test_progress(void **state) {
    (void)state;
    reply *r = ask(&w, "POST", "/mcp", JSON_TYPE STREAM, LONG("5", "\"t\""));
    unchunk(r);
    const char *progress = strstr(r->body, "notifications/progress"),
               *result = strstr(r->body, "\"id\":5,\"result\"");
    assert_non_null(strstr(r->text, "Content-Type: text/event-stream"));
    assert_non_null(progress);
    assert_true(result && result > progress);
    assert_non_null(strstr(r->body, "\"progressToken\":\"t\",\"progress\":1,\"total\":900"));
    free(r);
    r = post(&w, "/mcp", LONG("5", "\"t\"")); /* takes no stream: one object */
    assert_non_null(strstr(r->text, "Content-Type: application/json"));
    free(r);
}

/* By a message of the same session; others' ids are not touched. */
static void test_cancel(void **state) {
    (void)state;
    static const char body[] =
        "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":\"generate\","
        "\"arguments\":{\"prompt\":\"x\",\"max_tokens\":900},\"_meta\":{\"progressToken\":1}}}";
    char text[16384], head[512];
    int n = snprintf(head, sizeof head,
                     "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE STREAM
                     "Mcp-Session-Id: one\r\nContent-Length: %zu\r\n\r\n",
                     sizeof body - 1);
    int fd = connect_http(&w);
    assert_true(send_all(fd, head, (size_t)n) && send_all(fd, body, sizeof body - 1));
    assert_true(receive_until(fd, text, sizeof text, "notifications/progress"));
    static const char cancel[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                                 "\"params\":{\"requestId\":9}}";
    expect_status("POST", JSON_TYPE "Mcp-Session-Id: two\r\n", cancel, 202, 0);
    expect_status("POST", JSON_TYPE "Mcp-Session-Id: one\r\n", cancel, 202, 0);
    (void)receive_until(fd, text, sizeof text, "0\r\n\r\n");
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tools),    cmocka_unit_test(test_failures),
        cmocka_unit_test(test_statuses), cmocka_unit_test(test_session),
        cmocka_unit_test(test_progress), cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
