/* The table of paths, and the answers that need no model's work. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "serve/dialects.h"
#include "serve/http_request.h"

/* ---- at once ---- */

static int get_health(kt__http_request *r) {
    (void)kt__buf_puts(&r->reply, "{\"status\":\"ok\"}");
    return 200;
}

static int get_ready(kt__http_request *r) {
    bool ready = kt__server_is_ready(kt__http_server(r));
    (void)kt__buf_printf(&r->reply, "{\"status\":\"%s\"}", ready ? "ready" : "not ready");
    return ready ? 200 : 503;
}

static int get_metrics(kt__http_request *r) {
    kt__metrics_write(kt__http_server(r)->metrics, &r->reply);
    return 200;
}

static void text_member(kt__buf *out, const char *key, const char *text) {
    (void)kt__buf_printf(out, "\"%s\":", key);
    kt__wire_write_string(out, text, strlen(text));
}

static void write_model(kt__buf *out, const kt__served_info *info, int64_t start_s) {
    (void)kt__buf_putc(out, '{');
    text_member(out, "id", info->name);
    (void)kt__buf_printf(out,
                         ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"kentang\","
                         "\"loaded\":%s",
                         (long long)start_s, info->loaded ? "true" : "false");
    if (info->loaded) (void)kt__buf_printf(out, ",\"context_length\":%d", (int)info->engine.n_ctx);
    (void)kt__buf_putc(out, '}');
}

static int get_models(kt__http_request *r) {
    kt__server *server = kt__http_server(r);
    (void)kt__buf_puts(&r->reply, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < kt__models_count(server->models); i++) {
        kt__served_info info;
        kt__served_get_info(kt__models_at(server->models, i), &info);
        if (i) (void)kt__buf_putc(&r->reply, ',');
        write_model(&r->reply, &info, server->start_s);
    }
    (void)kt__buf_puts(&r->reply, "]}");
    return 200;
}

static int get_props(kt__http_request *r) {
    kt__server_write_stats(kt__http_server(r), &r->reply);
    return 200;
}

static int post_cancel(kt__http_request *r) {
    json_t *body;
    kt_error err = {0};
    kt_status status = kt__wire_parse(r->body.data ? r->body.data : "", r->body.len, &body, &err);
    const char *id = status == KT_OK ? json_string_value(json_object_get(body, "id")) : NULL;
    if (status == KT_OK && !id)
        status = kt__fail_at(&err, KT_E_ARG, "id", UINT64_MAX, "id: expected a text");
    bool found = id && kt__server_cancel(kt__http_server(r), id, r->client);
    if (status == KT_OK && !found)
        (void)kt__fail_at(&err, KT_E_ARG, "id", UINT64_MAX, "no running request has this id");
    if (found) {
        (void)kt__buf_puts(&r->reply, "{\"cancelled\":true}");
    } else {
        kt__wire_write_error(&r->reply, &err);
    }
    json_decref(body);
    return found ? 200 : status == KT_OK ? 404 : kt__wire_http_status(status);
}

/* ---- the table ---- */

static const kt__route routes[] = {
    {"POST", "/v1/chat/completions", &kt__dialect_chat, NULL, NULL, "chatcmpl-", 0},
    {"POST", "/v1/completions", &kt__dialect_completion, NULL, NULL, "cmpl-", 0},
    {"POST", "/v1/embeddings", &kt__dialect_embeddings, NULL, NULL, "embd-", 0},
    {"POST", "/v1/messages", &kt__dialect_messages, NULL, NULL, "msg_", 0},
    {"POST", "/v1/messages/count_tokens", &kt__dialect_count_tokens, NULL, NULL, "tok_", 0},
    {"GET", "/v1/models", NULL, get_models, NULL, NULL, 0},
    {"POST", "/tokenize", &kt__dialect_tokenize, NULL, NULL, "tok-", 0},
    {"POST", "/detokenize", &kt__dialect_detokenize, NULL, NULL, "tok-", 0},
    {"POST", "/apply-template", &kt__dialect_template, NULL, NULL, "tpl-", 0},
    {"POST", "/cancel", NULL, post_cancel, NULL, NULL, 0},
    {"POST", "/api/chat", &kt__dialect_ollama_chat, NULL, NULL, "chat-", 0},
    {"POST", "/api/generate", &kt__dialect_ollama_generate, NULL, NULL, "gen-", 0},
    {"POST", "/api/embed", &kt__dialect_ollama_embed, NULL, NULL, "embd-", 0},
    {"POST", "/api/show", NULL, kt__ollama_show, NULL, NULL, 0},
    {"GET", "/api/tags", NULL, kt__ollama_tags, NULL, NULL, 0},
    {"GET", "/api/ps", NULL, kt__ollama_ps, NULL, NULL, 0},
    {"GET", "/api/version", NULL, kt__ollama_version, NULL, NULL, 0},
    {"GET", "/health", NULL, get_health, NULL, NULL, KT__ROUTE_OPEN},
    {"GET", "/ready", NULL, get_ready, NULL, NULL, KT__ROUTE_OPEN},
    {"GET", "/metrics", NULL, get_metrics, "text/plain; version=0.0.4; charset=utf-8", NULL,
     KT__ROUTE_METRICS},
    {"GET", "/props", NULL, get_props, NULL, NULL, 0},
};

const kt__route *kt__http_find_route(const char *method, const char *path, char *allowed,
                                     size_t size) {
    allowed[0] = '\0';
    if (!strcmp(method, "HEAD")) method = "GET"; /* the daemon leaves the body out */
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (strcmp(routes[i].path, path) != 0) continue;
        if (!strcmp(routes[i].method, method)) return &routes[i];
        snprintf(allowed, size, "%s", routes[i].method);
    }
    return NULL;
}
