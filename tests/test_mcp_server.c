/* mcp: messages of both eras, without an engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "mcp/rpc.h"
#include "mcp/server.h"

#define META                                                                 \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

typedef struct said {
    kt__arena arena;
    kt__buf out;
    kt__mcp_turn turn;
    json_t *message, *answer;
} said;

static const kt__json_limits small = {1 << 16, 32};

static said *say_with(const char *text, const kt__mcp_head *head) {
    static said s;
    kt_error err;
    memset(&s, 0, sizeof s);
    kt__arena_init(&s.arena, 1024, 1 << 20);
    kt__buf_init(&s.out, 1 << 20);
    assert_int_equal(kt__json_read(text, strlen(text), &small, &s.message, &err), KT_OK);
    assert_int_equal(kt__mcp_take(s.message, head, &s.arena, &s.out, &s.turn, &err), KT_OK);
    assert_false(s.out.failed);
    s.answer = s.out.len ? json_loadb(s.out.data, s.out.len, 0, NULL) : NULL;
    return &s;
}

static said *say(const char *text) {
    return say_with(text, NULL);
}

static void forget(said *s) {
    json_decref(s->message);
    json_decref(s->answer);
    kt__buf_free(&s->out);
    kt__arena_free(&s->arena);
}

static const char *answer_text(const said *s, const char *part, const char *key) {
    const char *text = json_string_value(json_object_get(json_object_get(s->answer, part), key));
    return text ? text : "";
}

static int error_code(const said *s) {
    return (int)json_integer_value(json_object_get(json_object_get(s->answer, "error"), "code"));
}

static void expect_error(const char *text, const kt__mcp_head *head, int code, int http) {
    said *s = say_with(text, head);
    if (error_code(s) != code || s->turn.http_status != http)
        fail_msg("%s: %d, HTTP %d: %s", text, error_code(s), s->turn.http_status, s->out.data);
    forget(s);
}

/* The version that was asked for where it is spoken, else the newest of the era. */
static void test_initialize(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"2025-11-25", "2025-11-25"},
                                          {"2025-06-18", "2025-06-18"},
                                          {"2024-11-05", "2024-11-05"},
                                          {"2099-01-01", "2025-11-25"}};
    char text[256];
    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\",\"method\":\"initialize\",\"params\":{"
                 "\"protocolVersion\":\"%s\",\"capabilities\":{}}}",
                 rows[i][0]);
        said *s = say(text);
        assert_string_equal(answer_text(s, "result", "protocolVersion"), rows[i][1]);
        assert_string_equal(json_string_value(json_object_get(s->answer, "id")), "a\"b");
        assert_true(s->turn.begins_session);
        forget(s);
    }
}

static void test_discover(void **state) {
    (void)state;
    said *s = say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" META
                  "}}");
    assert_string_equal(answer_text(s, "result", "resultType"), "complete");
    assert_string_equal(answer_text(s, "result", "cacheScope"), "private");
    forget(s);
    expect_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}", NULL,
                 KT__RPC_PARAMS, 400);
    expect_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                 "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}",
                 NULL, KT__RPC_PARAMS, 400);
    expect_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                 "\"io.modelcontextprotocol/protocolVersion\":\"1900-01-01\","
                 "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
                 NULL, KT__RPC_VERSION, 400);
}

/* What one era has, the other has not. */
static void test_methods_of_eras(void **state) {
    (void)state;
    expect_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" META "}}", NULL,
                 KT__RPC_NO_METHOD, 404);
    expect_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\"}", NULL,
                 KT__RPC_NO_METHOD, 200);
    expect_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":"
                 "\"x\"}}",
                 NULL, KT__RPC_PARAMS, 200);
    said *s = say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
    assert_string_equal(s->out.data, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    forget(s);
    s = say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(s->answer, "result"), "tools")), 5);
    assert_null(json_object_get(json_object_get(s->answer, "result"), "resultType"));
    forget(s);
}

/* Head and body of an HTTP request must say the same. */
static void test_head(void **state) {
    (void)state;
    static const char call[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
                               "call\",\"params\":{\"name\":\"embed\"," META "}}";
    kt__mcp_head head = {.version = "2026-07-28", .method = "tools/call", .name = "embed"};
    said *s = say_with(call, &head);
    assert_int_equal(s->turn.step, KT__MCP_CALL);
    forget(s);
    head.name = "=?base64?ZW1iZWQ=?=";
    s = say_with(call, &head);
    assert_int_equal(s->turn.step, KT__MCP_CALL);
    forget(s);
    head.name = "generate";
    expect_error(call, &head, KT__RPC_HEADER_MISMATCH, 400);
    head.name = NULL;
    expect_error(call, &head, KT__RPC_HEADER_MISMATCH, 400);
    head.name = "embed";
    head.method = "tools/list";
    expect_error(call, &head, KT__RPC_HEADER_MISMATCH, 400);
    head.method = "tools/call";
    head.version = NULL;
    expect_error(call, &head, KT__RPC_HEADER_MISMATCH, 400);
    head.version = "2099-01-01"; /* no version of ours, and no _meta to differ from */
    expect_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}", &head, KT__RPC_VERSION,
                 400);
}

static void test_not_messages(void **state) {
    (void)state;
    static const char *const texts[] = {
        "[]",
        "{}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[1]}",
        "{\"jsonrpc\":\"2.0\",\"id\":1}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect_error(texts[i], NULL, KT__RPC_INVALID, 400);
    said *s = say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"); /* an answer to nothing */
    assert_int_equal(s->out.len, 0);
    assert_int_equal(s->turn.http_status, 202);
    forget(s);
}

static void test_notifications(void **state) {
    (void)state;
    said *s = say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                  "\"requestId\":\"x\"}}");
    assert_int_equal(s->turn.step, KT__MCP_CANCEL);
    assert_string_equal(s->turn.cancel, "\"x\"");
    assert_int_equal(s->out.len, 0);
    forget(s);
    s = say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
            "\"requestId\":[1]}}");
    assert_int_equal(s->turn.step, KT__MCP_ANSWERED);
    assert_int_equal(s->turn.http_status, 202);
    forget(s);
}

static void test_subscription_ends(void **state) {
    (void)state;
    said *s = say("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"subscriptions/listen\",\"params\":{"
                  "\"notifications\":{\"toolsListChanged\":true}," META "}}");
    const char *second = strchr(s->out.data, '\n');
    assert_non_null(second);
    assert_non_null(strstr(s->out.data, "subscriptions/acknowledged"));
    assert_non_null(strstr(second, "\"id\":4,\"result\":{\"resultType\":\"complete\""));
    forget(s);
}

/* ---- arguments ---- */

static void expect_argument(const char *tool, const char *args, const char *where) {
    kt_error err = {0};
    json_t *v = json_loads(args, 0, NULL);
    assert_non_null(v);
    kt_status status = kt__mcp_tool_check(kt__mcp_tool_find(tool), v, &err);
    if (where) {
        assert_int_equal(status, KT_E_ARG);
        assert_string_equal(err.where, where);
    } else if (status != KT_OK) {
        fail_msg("%s %s: %s", tool, args, err.message);
    }
    json_decref(v);
}

static void test_arguments(void **state) {
    (void)state;
    expect_argument("generate", "{\"prompt\":\"x\",\"max_tokens\":5}", NULL);
    expect_argument("generate", "{\"prompt\":\"x\",\"max_tokens\":5.0}", NULL);
    expect_argument("generate", "{\"messages\":[]}", NULL);
    expect_argument("generate", "{}", "prompt");
    expect_argument("generate", "{\"prompt\":\"x\",\"messages\":[]}", "prompt");
    expect_argument("generate", "{\"system\":\"x\",\"messages\":[]}", "system");
    expect_argument("generate", "{\"prompt\":7}", "prompt");
    expect_argument("generate", "{\"prompt\":\"x\",\"max_tokens\":5.5}", "max_tokens");
    expect_argument("generate", "{\"promt\":\"x\"}", "promt");
    expect_argument("extract", "{\"text\":\"x\",\"schema\":{}}", NULL);
    expect_argument("extract", "{\"text\":\"x\",\"schema\":true}", NULL);
    expect_argument("extract", "{\"text\":\"x\"}", "schema");
    expect_argument("extract", "{\"text\":\"x\",\"schema\":\"{}\"}", "schema");
    expect_argument("embed", "{\"input\":[\"a\",\"b\"]}", NULL);
    expect_argument("embed", "{\"input\":[]}", "input");
    expect_argument("embed", "{\"input\":[\"a\",7]}", "input");
    expect_argument("embed", "{\"input\":\"\"}", "input");
    expect_argument("list_models", "{\"a\":1}", "a");
}

/* Every schema in the list is JSON, and what a tool asks for is in its schema. */
static void test_list_is_sound(void **state) {
    (void)state;
    kt__buf out;
    size_t i;
    json_t *tool;
    kt__buf_init(&out, 1 << 20);
    (void)kt__buf_putc(&out, '{');
    kt__mcp_tools_write(&out);
    (void)kt__buf_putc(&out, '}');
    json_t *list = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(list);
    json_array_foreach(json_object_get(list, "tools"), i, tool) {
        const char *name = json_string_value(json_object_get(tool, "name"));
        assert_non_null(kt__mcp_tool_find(name));
        assert_true(json_is_object(json_object_get(tool, "inputSchema")));
        assert_true(json_is_object(json_object_get(tool, "outputSchema")));
    }
    json_decref(list);
    kt__buf_free(&out);
}

static void test_limits(void **state) {
    (void)state;
    json_t *v;
    kt_error err;
    char deep[80];
    memset(deep, '[', sizeof deep);
    assert_int_equal(kt__json_read(deep, sizeof deep, &small, &v, &err), KT_E_LIMIT);
    const kt__json_limits few = {4, 4};
    assert_int_equal(kt__json_read("[1,2,3]", 7, &few, &v, &err), KT_E_LIMIT);
    assert_null(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initialize),      cmocka_unit_test(test_discover),
        cmocka_unit_test(test_methods_of_eras), cmocka_unit_test(test_head),
        cmocka_unit_test(test_not_messages),    cmocka_unit_test(test_notifications),
        cmocka_unit_test(test_arguments),       cmocka_unit_test(test_subscription_ends),
        cmocka_unit_test(test_list_is_sound),   cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
