#include "mcp/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "mcp/rpc.h"

enum {
    PROBE_MS = 5000,
    START_MS = 20000,
    MAX_STRAYS = 10000,
    MAX_PAGES = 64,
    MAX_REQUEST = 16 << 20
};

struct kt__mcp_client {
    const kt__mcp_server_config *config;
    kt__mcp_link *link;
    kt__mcp_stop_fn *stop;
    void *user;
    bool modern;
    const char *version; /* NULL: not agreed on */
    int64_t last_id;
    bool list_changed;
    int64_t fresh_until_us; /* 0: until it says so */
};

/* A request on its way. */
typedef struct asking {
    int64_t id;
    const char *method, *name;
    const json_t *args, *schema;
    kt__mcp_wait wait;
} asking;

/* ---- out ---- */

/* "_meta":{...} that every request of the modern era has */
static void write_meta(kt__buf *out) {
    kt__json_key(out, "_meta");
    (void)kt__buf_printf(out,
                         "{\"" KT__MCP_META_VERSION "\":\"" KT__MCP_MODERN
                         "\",\"" KT__MCP_META_CLIENT "\":{\"name\":\"kentang\",\"version\":\"%s\"},"
                         "\"" KT__MCP_META_CAPABILITIES "\":{}}",
                         kt_version());
}

static kt_status post_message(kt__mcp_client *c, const kt__buf *said, const asking *a,
                              const kt__mcp_wait *wait, kt_error *err) {
    const kt__mcp_post post = {.json = said->data,
                               .len = said->len,
                               .method = a ? a->method : NULL,
                               .name = a ? a->name : NULL,
                               .version = c->modern ? KT__MCP_MODERN : c->version,
                               .args = a ? a->args : NULL,
                               .schema = a ? a->schema : NULL,
                               .wants_answer = a != NULL};
    if (said->failed) return kt__fail_nomem(err, "a message", said->len);
    return c->link->send(c->link, &post, wait, err);
}

/* members: of params, without braces; may be "" */
static kt_status send_request(kt__mcp_client *c, asking *a, const char *members, kt_error *err) {
    kt__buf params, said;
    kt__buf_init(&params, MAX_REQUEST);
    kt__buf_init(&said, MAX_REQUEST);
    a->id = ++c->last_id;
    (void)kt__buf_printf(&params, "{%s", members);
    if (c->modern) write_meta(&params);
    (void)kt__buf_putc(&params, '}');
    kt__rpc_write_request(&said, a->id, a->method, params.failed ? NULL : params.data);
    if (params.failed) said.failed = true;
    kt_status status = post_message(c, &said, a, &a->wait, err);
    kt__buf_free(&params);
    kt__buf_free(&said);
    return status;
}

static kt__mcp_wait wait_for(const kt__mcp_client *c, int64_t ms) {
    return (kt__mcp_wait){kt__now_us() + ms * 1000, c->stop, c->user};
}

/* What it says is of no interest; nobody waits long for it. */
static void send_notice(kt__mcp_client *c, const char *method, const char *params) {
    const kt__mcp_wait wait = {kt__now_us() + 1000000, NULL, NULL};
    kt__buf said;
    kt_error ignored;
    kt__buf_init(&said, 4096);
    kt__rpc_write_notification(&said, method, params);
    (void)post_message(c, &said, NULL, &wait, &ignored);
    kt__buf_free(&said);
}

static void give_up(kt__mcp_client *c, int64_t id) {
    char params[64];
    snprintf(params, sizeof params, "{\"requestId\":%lld}", (long long)id);
    send_notice(c, "notifications/cancelled", params);
}

/* A host may be asked for samples, roots and more: nothing of it is given. */
static void answer_server(kt__mcp_client *c, const kt__rpc_message *m) {
    const kt__mcp_wait wait = {kt__now_us() + 1000000, NULL, NULL};
    char *id = json_dumps(m->id, JSON_COMPACT | JSON_ENCODE_ANY);
    kt__buf said;
    kt_error ignored;
    kt__buf_init(&said, 1 << 16);
    if (!strcmp(m->method, "ping")) {
        kt__rpc_write_result(&said, id, NULL);
    } else {
        kt__rpc_write_error(&said, id, KT__RPC_NO_METHOD, "this host does not do that", NULL);
    }
    if (id) (void)post_message(c, &said, NULL, &wait, &ignored);
    kt__buf_free(&said);
    free(id);
}

/* ---- in ---- */

/* Whether it is the answer to request id; what else it is is dealt with. */
static bool is_answer_to(kt__mcp_client *c, const kt__rpc_message *m, int64_t id) {
    if (m->kind == KT__RPC_REQUEST) answer_server(c, m);
    if (m->kind == KT__RPC_NOTIFICATION)
        c->list_changed |= !strcmp(m->method, "notifications/tools/list_changed");
    if (m->kind != KT__RPC_RESPONSE) return false;
    /* over HTTP an answer is to the request that it came for, even where that was not understood */
    if (!m->id) return c->config->url != NULL;
    return json_is_integer(m->id) && json_integer_value(m->id) == id;
}

/* *code: of the server's error, or 0. */
static kt_status take_answer(const kt__rpc_message *m, json_t **result, int *code, kt_error *err) {
    const char *message = json_string_value(json_object_get(m->error, "message"));
    *code = (int)json_integer_value(json_object_get(m->error, "code"));
    if (m->error)
        return kt__fail(err, KT_E_ARG, "the server refused it: %.300s (%d)", message ? message : "",
                        *code);
    if (!json_is_object(m->result))
        return kt__fail(err, KT_E_FORMAT, "the server's result is no object");
    *result = json_incref((json_t *)(uintptr_t)m->result);
    return KT_OK;
}

static kt_status await_answer(kt__mcp_client *c, const asking *a, json_t **result, int *code,
                              kt_error *err) {
    for (int strays = 0; strays < MAX_STRAYS; strays++) {
        kt__rpc_message m;
        json_t *json;
        kt_error odd;
        kt_status status = c->link->receive(c->link, &a->wait, &json, err);
        if (status == KT_E_FORMAT) continue; /* noise */
        if (status != KT_OK) return status;
        bool ours = kt__rpc_read(json, &m, &odd) == KT_OK && is_answer_to(c, &m, a->id);
        if (ours) status = take_answer(&m, result, code, err);
        json_decref(json);
        if (ours) return status;
    }
    return kt__fail(err, KT_E_FORMAT, "the server says much and does not answer");
}

static kt_status ask_server(kt__mcp_client *c, asking *a, const char *members, json_t **result,
                            int *code, kt_error *err) {
    *result = NULL;
    *code = 0;
    kt_status status = send_request(c, a, members, err);
    if (status == KT_OK) status = await_answer(c, a, result, code, err);
    if (status == KT_E_DEADLINE || status == KT_E_CANCELLED) give_up(c, a->id);
    return status;
}

/* ---- versions ---- */

static bool is_listed(const json_t *list, const char *version) {
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) {
        if (json_is_string(v) && !strcmp(json_string_value(v), version)) return true;
    }
    return false;
}

/* The caller that answers this, or refuses it in the modern era's words, is modern; all others are
 * asked to initialize. */
static kt_status probe_modern(kt__mcp_client *c, bool *found, kt_error *err) {
    asking a = {.method = "server/discover"};
    json_t *result;
    int code;
    int64_t ms = c->config->timeout_ms < PROBE_MS ? c->config->timeout_ms : PROBE_MS;
    a.wait = wait_for(c, ms);
    c->modern = true;
    kt_status status = ask_server(c, &a, "", &result, &code, err);
    *found = status == KT_OK &&
             is_listed(json_object_get(result, "supportedVersions"), KT__MCP_MODERN);
    json_decref(result);
    c->modern = *found;
    c->version = *found ? KT__MCP_MODERN : NULL;
    if (code == KT__RPC_VERSION)
        return kt__fail(err, KT_E_UNSUPPORTED, "the server speaks no version that is spoken here");
    return status == KT_E_IO || status == KT_E_CANCELLED ? status : KT_OK;
}

static kt_status say_initialize(kt__mcp_client *c, kt_error *err) {
    asking a = {.method = "initialize"};
    char members[200];
    json_t *result;
    int code;
    int64_t most_ms = START_MS -
                      PROBE_MS; /* both questions together: a silent server is left out */
    a.wait = wait_for(c, c->config->timeout_ms < most_ms ? c->config->timeout_ms : most_ms);
    snprintf(members, sizeof members,
             "\"protocolVersion\":\"" KT__MCP_LEGACY
             "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"kentang\",\"version\":\"%.40s\"}",
             kt_version());
    kt_status status = ask_server(c, &a, members, &result, &code, err);
    const char *version = json_string_value(json_object_get(result, "protocolVersion"));
    if (status == KT_OK) c->version = kt__mcp_legacy_version(version);
    if (status == KT_OK && version && !strcmp(version, "2025-03-26")) c->version = "2025-03-26";
    if (status == KT_OK && !c->version)
        status = kt__fail(err, KT_E_UNSUPPORTED,
                          "the server speaks version \"%.40s\", which is not spoken here",
                          version ? version : "");
    json_decref(result);
    if (status == KT_OK) send_notice(c, "notifications/initialized", NULL);
    return status;
}

static kt_status agree_version(kt__mcp_client *c, kt_error *err) {
    bool modern;
    kt_status status = probe_modern(c, &modern, err);
    return status == KT_OK && !modern ? say_initialize(c, err) : status;
}

/* ---- the interface ---- */

/* Errors name the server. */
static kt_status name_server(const kt__mcp_client *c, kt_status status, kt_error *err) {
    char text[sizeof err->message];
    if (status == KT_OK || strstr(err->message, c->config->name)) return status;
    snprintf(text, sizeof text, "%.60s: %.400s", c->config->name, err->message);
    snprintf(err->message, sizeof err->message, "%s", text);
    return status;
}

kt_status kt__mcp_client_open(const kt__mcp_server_config *config, kt__mcp_stop_fn *stop,
                              void *user, kt__mcp_client **out, kt_error *err) {
    kt__mcp_client *c = kt__calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return kt__fail_nomem(err, "a server", sizeof *c);
    c->config = config;
    c->stop = stop;
    c->user = user;
    kt_status status = config->argv ? kt__mcp_link_lines(config, &c->link, err)
                                    : kt__mcp_link_http(config, &c->link, err);
    if (status == KT_OK) status = agree_version(c, err);
    status = name_server(c, status, err);
    if (status == KT_OK) {
        *out = c;
    } else {
        kt__mcp_client_close(c);
    }
    return status;
}

void kt__mcp_client_close(kt__mcp_client *c) {
    if (!c) return;
    if (c->link) c->link->close(c->link);
    kt__free(c);
}

bool kt__mcp_client_is_stale(const kt__mcp_client *c) {
    return c->list_changed || (c->fresh_until_us && kt__now_us() > c->fresh_until_us);
}

/* Over HTTP a tool whose schema has unsound headers is none. */
static bool is_usable(const kt__mcp_client *c, const json_t *tool) {
    const json_t *schema = json_object_get(tool, "inputSchema");
    return json_is_string(json_object_get(tool, "name")) && json_is_object(schema) &&
           (!c->config->url || kt__mcp_params_are_sound(schema));
}

static void add_tools(const kt__mcp_client *c, json_t *to, const json_t *from) {
    size_t i;
    json_t *v;
    json_array_foreach(from, i, v) {
        if (json_array_size(to) < KT__MCP_MAX_TOOLS && is_usable(c, v)) json_array_append(to, v);
    }
}

/* Keeps the next page's cursor as the next request's member; false: there is none. */
static bool next_page(const json_t *result, kt__buf *members) {
    const json_t *cursor = json_object_get(result, "nextCursor");
    kt__buf_clear(members);
    if (!json_is_string(cursor)) return false;
    kt__json_member(members, "cursor", json_string_value(cursor));
    return !members->failed;
}

kt_status kt__mcp_client_tools(kt__mcp_client *c, json_t **tools, kt_error *err) {
    kt__buf members;
    kt_status status = KT_OK;
    bool more = true;
    kt__buf_init(&members, 1 << 20);
    *tools = json_array();
    c->list_changed = false;
    for (int page = 0; more && page < MAX_PAGES && status == KT_OK; page++) {
        asking a = {.method = "tools/list", .wait = wait_for(c, c->config->timeout_ms)};
        json_t *result;
        int code;
        status = ask_server(c, &a, members.data ? members.data : "", &result, &code, err);
        const json_t *ttl = json_object_get(result, "ttlMs");
        c->fresh_until_us = json_is_integer(ttl) ? kt__now_us() + json_integer_value(ttl) * 1000
                                                 : 0;
        add_tools(c, *tools, json_object_get(result, "tools"));
        more = status == KT_OK && next_page(result, &members);
        json_decref(result);
    }
    kt__buf_free(&members);
    if (status != KT_OK) {
        json_decref(*tools);
        *tools = NULL;
    }
    return name_server(c, status, err);
}

kt_status kt__mcp_client_call(kt__mcp_client *c, const char *tool, const json_t *schema,
                              const json_t *args, json_t **result, kt_error *err) {
    asking a = {.method = "tools/call", .name = tool, .args = args, .schema = schema};
    kt__buf members;
    int code;
    a.wait = wait_for(c, c->config->timeout_ms);
    kt__buf_init(&members, MAX_REQUEST);
    kt__json_member(&members, "name", tool);
    kt__json_key(&members, "arguments");
    (void)kt__json_write(&members, args);
    *result = NULL;
    kt_status status = members.failed ? kt__fail_nomem(err, "a call", members.len)
                                      : ask_server(c, &a, members.data, result, &code, err);
    kt__buf_free(&members);
    const char *type = json_string_value(json_object_get(*result, "resultType"));
    if (status == KT_OK && type && strcmp(type, "complete") != 0) {
        status = kt__fail(err, KT_E_UNSUPPORTED,
                          "the server asks for more than this host gives: %.60s", type);
        json_decref(*result);
        *result = NULL;
    }
    return name_server(c, status, err);
}
