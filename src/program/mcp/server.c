#include "mcp/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* ---- parts of answers ---- */

const char *kt__mcp_text_of(kt__arena *arena, const json_t *value) {
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const char *copy = text ? kt__arena_strndup(arena, text, strlen(text)) : NULL;
    free(text);
    return copy;
}

static void write_server_info(kt__buf *out) {
    (void)kt__buf_printf(out, "{\"name\":\"kentang\",\"title\":\"kentang\",\"version\":\"%s\"}",
                         kt_version());
}

/* The beginning of a result's object, with what the era wants in each. */
static void begin_result_object(kt__buf *out, const kt__mcp_turn *t) {
    kt__rpc_begin_result(out, t->id);
    (void)kt__buf_putc(out, '{');
    if (!t->modern) return;
    (void)kt__buf_puts(out, "\"resultType\":\"complete\",\"_meta\":{\"" KT__MCP_META_SERVER "\":");
    write_server_info(out);
    (void)kt__buf_puts(out, "}");
}

static void end_result_object(kt__buf *out) {
    (void)kt__buf_putc(out, '}');
    kt__rpc_end_result(out);
}

/* What lists of this server have: they change with a restart only. */
static void write_caching(kt__buf *out, const kt__mcp_turn *t) {
    if (t->modern) (void)kt__buf_puts(out, ",\"ttlMs\":60000,\"cacheScope\":\"private\"");
}

/* Tools alone are announced. */
static void write_capabilities(kt__buf *out) {
    kt__json_key(out, "capabilities");
    (void)kt__buf_puts(out, "{\"tools\":{}}");
    kt__json_member(out, "instructions",
                    "Language models that run on this machine: generate text, extract data that "
                    "fits a JSON Schema, embed texts. Answers may take a while; ask for progress.");
}

/* ---- methods ---- */

typedef struct taking {
    const kt__rpc_message *message;
    kt__arena *arena;
    kt__buf *out;
    kt__mcp_turn *turn;
} taking;

typedef void method_fn(taking *t);

static void refuse_call(taking *t, int code, int http, const char *message, const char *data) {
    t->turn->http_status = http;
    kt__rpc_write_error(t->out, t->turn->id, code, message, data);
}

static void on_initialize(taking *t) {
    const char *asked = json_string_value(json_object_get(t->message->params, "protocolVersion"));
    const char *version = kt__mcp_legacy_version(asked);
    begin_result_object(t->out, t->turn);
    kt__json_member(t->out, "protocolVersion", version ? version : KT__MCP_LEGACY);
    (void)kt__buf_puts(t->out, ",\"serverInfo\":");
    write_server_info(t->out);
    write_capabilities(t->out);
    end_result_object(t->out);
    t->turn->begins_session = true;
}

static void on_discover(taking *t) {
    begin_result_object(t->out, t->turn);
    (void)kt__buf_printf(t->out, ",\"supportedVersions\":%s", kt__mcp_versions_json());
    write_capabilities(t->out);
    write_caching(t->out, t->turn);
    end_result_object(t->out);
}

static void on_ping(taking *t) {
    kt__rpc_write_result(t->out, t->turn->id, NULL);
}

/* Nothing of this server changes while it runs: the subscription is to nothing, and ends. */
static void on_listen(taking *t) {
    (void)kt__buf_printf(t->out,
                         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/"
                         "acknowledged\",\"params\":{\"_meta\":{\"" KT__MCP_META_SUBSCRIPTION
                         "\":%s},\"notifications\":{}}}\n",
                         t->turn->id);
    kt__rpc_begin_result(t->out, t->turn->id);
    (void)kt__buf_printf(
        t->out, "{\"resultType\":\"complete\",\"_meta\":{\"" KT__MCP_META_SUBSCRIPTION "\":%s}}",
        t->turn->id);
    kt__rpc_end_result(t->out);
}

/* The list has one page: a cursor was never given out. */
static void on_list_tools(taking *t) {
    const json_t *cursor = json_object_get(t->message->params, "cursor");
    if (cursor && !json_is_null(cursor)) {
        refuse_call(t, KT__RPC_PARAMS, 200, "cursor: this list has one page", NULL);
        return;
    }
    begin_result_object(t->out, t->turn);
    if (t->turn->modern) (void)kt__buf_putc(t->out, ',');
    kt__mcp_tools_write(t->out);
    write_caching(t->out, t->turn);
    end_result_object(t->out);
}

static void on_call_tool(taking *t) {
    const json_t *params = t->message->params;
    const json_t *token = json_object_get(json_object_get(params, "_meta"), "progressToken");
    const char *name = json_string_value(json_object_get(params, "name"));
    const json_t *args = json_object_get(params, "arguments");
    char text[200];
    if (!name) {
        refuse_call(t, KT__RPC_PARAMS, 200, "params.name: expected a text", NULL);
        return;
    }
    t->turn->tool = kt__mcp_tool_find(name);
    if (!t->turn->tool) {
        snprintf(text, sizeof text, "unknown tool \"%.80s\"", name);
        refuse_call(t, KT__RPC_PARAMS, 200, text, NULL);
        return;
    }
    if (args && !json_is_object(args) && !json_is_null(args)) {
        refuse_call(t, KT__RPC_PARAMS, 200, "params.arguments: expected an object", NULL);
        return;
    }
    if (json_is_string(token) || json_is_integer(token))
        t->turn->progress = kt__mcp_text_of(t->arena, token);
    t->turn->args = json_is_object(args) ? args : NULL;
    t->turn->step = KT__MCP_CALL;
}

enum { IN_LEGACY = 1, IN_MODERN = 2, IN_BOTH = 3 };

static const struct {
    const char *name;
    method_fn *take;
    unsigned eras;
} methods[] = {
    {"initialize", on_initialize, IN_LEGACY},    {"ping", on_ping, IN_LEGACY},
    {"server/discover", on_discover, IN_MODERN}, {"subscriptions/listen", on_listen, IN_MODERN},
    {"tools/list", on_list_tools, IN_BOTH},      {"tools/call", on_call_tool, IN_BOTH},
};

static void take_request(taking *t) {
    unsigned era = t->turn->modern ? IN_MODERN : IN_LEGACY;
    char text[200];
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(t->message->method, methods[i].name) != 0 || !(methods[i].eras & era)) continue;
        methods[i].take(t);
        return;
    }
    snprintf(text, sizeof text, "unknown method \"%.80s\"", t->message->method);
    refuse_call(t, KT__RPC_NO_METHOD, t->turn->modern ? 404 : 200, text, NULL);
}

/* Notifications that mean nothing here are taken, and nothing is said. */
static void take_notification(taking *t) {
    const json_t *id = json_object_get(t->message->params, "requestId");
    t->turn->http_status = 202;
    if (strcmp(t->message->method, "notifications/cancelled") != 0) return;
    if (!json_is_string(id) && !json_is_integer(id)) return;
    t->turn->cancel = kt__mcp_text_of(t->arena, id);
    if (t->turn->cancel) t->turn->step = KT__MCP_CANCEL;
}

static void refuse_era(taking *t, const kt__mcp_era *era) {
    kt__buf data;
    kt__buf_init(&data, 4096);
    if (era->requested) {
        (void)kt__buf_printf(&data, "{\"supported\":%s", kt__mcp_versions_json());
        kt__json_member(&data, "requested", era->requested);
        (void)kt__buf_putc(&data, '}');
    }
    refuse_call(t, era->error, 400, era->message, data.failed ? NULL : data.data);
    kt__buf_free(&data);
}

kt_status kt__mcp_take(const json_t *json, const kt__mcp_head *head, kt__arena *arena, kt__buf *out,
                       kt__mcp_turn *turn, kt_error *err) {
    kt__rpc_message message;
    taking t = {&message, arena, out, turn};
    memset(turn, 0, sizeof *turn);
    turn->http_status = 200;
    kt_status status = kt__rpc_read(json, &message, err);
    turn->id = kt__mcp_text_of(arena, message.id);
    if (message.id && !turn->id) return kt__fail_nomem(err, "a message", 0);
    if (status != KT_OK) {
        refuse_call(&t, KT__RPC_INVALID, 400, err->message, NULL);
        return KT_OK;
    }
    kt__mcp_era era = kt__mcp_era_of(&message, head);
    turn->modern = era.modern;
    if (era.error) {
        refuse_era(&t, &era);
    } else if (message.kind == KT__RPC_REQUEST) {
        take_request(&t);
    } else if (message.kind == KT__RPC_NOTIFICATION) {
        take_notification(&t);
    } else {
        turn->http_status = 202; /* an answer, though nothing was asked */
    }
    return KT_OK;
}

/* ---- answers to calls ---- */

static void write_content(kt__buf *out, const char *text) {
    kt__json_key(out, "content");
    (void)kt__buf_puts(out, "[{\"type\":\"text\",\"text\":");
    kt__json_text(out, text);
    (void)kt__buf_puts(out, "}]");
}

void kt__mcp_write_result(kt__buf *out, const kt__mcp_turn *turn, const char *structured,
                          const char *text) {
    begin_result_object(out, turn);
    write_content(out, text ? text : structured);
    (void)kt__buf_puts(out, ",\"structuredContent\":");
    (void)kt__buf_puts(out, structured);
    (void)kt__buf_puts(out, ",\"isError\":false");
    end_result_object(out);
}

void kt__mcp_write_failure(kt__buf *out, const kt__mcp_turn *turn, const char *message) {
    begin_result_object(out, turn);
    write_content(out, message);
    (void)kt__buf_puts(out, ",\"isError\":true");
    end_result_object(out);
}

void kt__mcp_write_progress(kt__buf *out, const kt__mcp_turn *turn, int64_t done, int64_t total) {
    (void)kt__buf_printf(out,
                         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
                         "\"progressToken\":%s,\"progress\":%lld",
                         turn->progress, (long long)done);
    if (total > 0) (void)kt__buf_printf(out, ",\"total\":%lld", (long long)total);
    (void)kt__buf_printf(out, ",\"message\":\"%lld tokens\"}}", (long long)done);
}
