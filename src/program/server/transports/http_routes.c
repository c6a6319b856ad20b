/* The table of paths, what it asks of a request's head, and the answers that need no model's work. */
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/json.h"
#include "dialects/dialect_learn.h"
#include "dialects/dialect_mcp.h"
#include "dialects/llama_state.h"
#include "jobs/stats.h"
#include "services/web.h"
#include "setup/adapters.h"
#include "transports/http_request.h"

/* ---- at once ---- */

static int get_health(kt__http_request *r) {
    bool draining = atomic_load(&r->shared->stopping);
    (void)kt__buf_printf(&r->reply, "{\"status\":\"%s\"}", draining ? "draining" : "ok");
    return 200;
}

static int get_ready(kt__http_request *r) {
    const char *why_not = kt__shared_why_not_ready(r->shared);
    (void)kt__buf_printf(&r->reply, "{\"status\":\"%s\"", why_not ? "not ready" : "ready");
    if (why_not) kt__json_member(&r->reply, "reason", why_not);
    (void)kt__buf_putc(&r->reply, '}');
    return why_not ? 503 : 200;
}

static int get_metrics(kt__http_request *r) {
    kt__metrics_write(r->shared->metrics, &r->reply);
    return 200;
}

static int write_web_file(kt__http_request *r, const kt__web_file *file) {
    const char *takes = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND,
                                                    "Accept-Encoding");
    if (file->is_gzip && !(takes && strstr(takes, "gzip"))) {
        kt_error err = {0};
        (void)kt__fail(&err, KT_E_UNSUPPORTED, "this file is sent to clients that accept gzip");
        kt__wire_write_error_as(&r->reply, 406, &err);
        return 406;
    }
    (void)kt__buf_append(&r->reply, file->data, (size_t)(file->end - file->data));
    r->type = file->type;
    r->encoding = file->is_gzip ? "gzip" : NULL;
    r->page = true;
    return 200;
}

/* Browsers say that they want HTML; programs look whether somebody is there. */
static int get_root(kt__http_request *r) {
    const char *accept = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Accept");
    if (r->settings->config->web && accept && strstr(accept, "text/html"))
        return write_web_file(r, kt__web_page());
    (void)kt__buf_puts(&r->reply, "kentang is running\n");
    return 200;
}

static int get_web(kt__http_request *r) {
    const kt__web_file *file = r->settings->config->web ? kt__web_find(r->rest) : NULL;
    if (file) return write_web_file(r, file);
    kt_error err = {0};
    (void)kt__fail(&err, KT_E_ARG, "there is nothing at /web/%.80s", r->rest);
    kt__wire_write_error_as(&r->reply, 404, &err);
    return 404;
}

static void write_texts(kt__buf *out, const char *key, const kt__texts *texts, const char *first) {
    kt__json_key(out, key);
    (void)kt__buf_putc(out, '[');
    if (first) kt__json_text(out, first);
    for (size_t i = 0; i < texts->n; i++) {
        if (first || i) (void)kt__buf_putc(out, ',');
        kt__json_text(out, texts->items[i] ? texts->items[i] : "");
    }
    (void)kt__buf_putc(out, ']');
}

/* ,"aliases":[...],"tags":[...] of the first model, whose settings they are */
static void write_other_names(kt__buf *out, const kt__config *config, const kt__served_info *info) {
    static const kt__texts none;
    bool first = !strcmp(config->models[0].name, info->name);
    write_texts(out, "aliases", first ? &config->aliases : &none, info->name);
    write_texts(out, "tags", first ? &config->tags : &none, NULL);
}

/* In the words of OpenAI's clients and of Anthropic's. */
static void write_listed_model(kt__http_request *r, kt__served *model,
                               const kt__served_info *info) {
    kt__buf *out = &r->reply;
    const int64_t start_s = r->shared->start_s;
    char when[32];
    time_t start = (time_t)start_s;
    struct tm utc;
    gmtime_r(&start, &utc);
    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    (void)kt__buf_putc(out, '{');
    kt__json_member(out, "id", info->name);
    (void)kt__buf_printf(out,
                         ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"kentang\","
                         "\"type\":\"model\",\"created_at\":\"%s\"",
                         (long long)start_s, when);
    kt__json_member(out, "display_name", info->general_name[0] ? info->general_name : info->name);
    (void)kt__buf_printf(out, ",\"loaded\":%s", info->loaded ? "true" : "false");
    if (info->loaded) (void)kt__buf_printf(out, ",\"context_length\":%d", (int)info->engine.n_ctx);
    if (kt__served_sees(model))
        (void)kt__buf_puts(out, ",\"capabilities\":[\"completion\",\"vision\"]");
    write_other_names(out, r->settings->config, info);
    kt__adapters_write_names(out, r->settings->config, info->name);
    (void)kt__buf_putc(out, '}');
}

static int get_models(kt__http_request *r) {
    size_t n = kt__models_count(r->shared->models);
    const char *last = "";
    (void)kt__buf_puts(&r->reply, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < n; i++) {
        kt__served_info info;
        kt__served *model = kt__models_at(r->shared->models, i);
        kt__served_get_info(model, &info);
        if (info.gone) continue;
        if (i) (void)kt__buf_putc(&r->reply, ','); /* the first one is configured, and stays */
        last = info.name;
        write_listed_model(r, model, &info);
    }
    if (r->shared->routes)
        (void)kt__buf_puts(&r->reply,
                           ",{\"id\":\"" KT__ROUTES_AUTO
                           "\",\"object\":\"model\",\"created\":0,\"owned_by\":\"kentang\","
                           "\"type\":\"model\",\"loaded\":true}");
    (void)kt__buf_puts(&r->reply, "],\"has_more\":false");
    if (r->settings->config->manage) (void)kt__buf_puts(&r->reply, ",\"manage\":true");
    if (r->shared->pulls) (void)kt__buf_puts(&r->reply, ",\"pull\":true");
    kt__json_member(&r->reply, "first_id", kt__served_name(kt__models_at(r->shared->models, 0)));
    kt__json_member(&r->reply, "last_id", last);
    (void)kt__buf_putc(&r->reply, '}');
    return 200;
}

/* llama-server's page has other servers asked through it; an open proxy in a network that trusts this machine is
 * nothing to have. */
static int get_proxy(kt__http_request *r) {
    kt_error err = {0};
    (void)kt__fail(&err, KT_E_UNSUPPORTED, "this server asks no other server for a page");
    kt__wire_write_error_as(&r->reply, 403, &err);
    return 403;
}

/* A model's name may have escapes in the path, unlike the paths themselves. */
static int get_model(kt__http_request *r) {
    char name[256];
    kt__served *found;
    kt__served_info info;
    kt_error err = {0};
    snprintf(name, sizeof name, "%s", r->rest);
    (void)MHD_http_unescape(name);
    size_t len = strlen(name);
    if (len && name[len - 1] == '/') name[len - 1] = '\0';
    if (!*name) snprintf(name, sizeof name, "?"); /* an empty one would be the first model */
    if (kt__models_find(r->shared->models, name, &found, &err) != KT_OK) {
        kt__wire_write_error_as(&r->reply, 404, &err);
        return 404;
    }
    kt__served_get_info(found, &info);
    write_listed_model(r, found, &info);
    return 200;
}

static int get_props(kt__http_request *r) {
    kt__stats_write(r->shared, r->client, &r->reply);
    kt__llama_write_props(r->shared, r->settings->config, &r->reply);
    return 200;
}

/* llama-server's list of what it computes at once, which are places in a batch here. */
static int get_slots(kt__http_request *r) {
    const char *only_free = MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND,
                                                        "fail_on_no_slot");
    kt_error err = {0};
    if (!r->settings->config->slots) {
        (void)kt__fail(&err, KT_E_UNSUPPORTED, "GET /slots is off here: set http.slots");
        kt__wire_write_error_as(&r->reply, 501, &err);
        return 501;
    }
    if (kt__llama_write_slots(r->shared, &r->reply) || !only_free) return 200;
    kt__buf_clear(&r->reply);
    (void)kt__fail(&err, KT_E_BUSY, "no slot is free");
    kt__wire_write_error_as(&r->reply, 503, &err);
    return 503;
}

/* *found: there was such a request, and it is cancelled; else err says why not. */
static kt_status cancel_named(kt__http_request *r, bool *found, kt_error *err) {
    json_t *body = NULL;
    kt_status status;
    *found = false;
    KT__TRY(kt__wire_parse(r->body.data ? r->body.data : "", r->body.len, &body, err));
    const char *id = json_string_value(json_object_get(body, "id"));
    if (!id) KT__TRY(kt__fail_at(err, KT_E_ARG, "id", UINT64_MAX, "id: expected a text"));
    *found = kt__jobs_cancel(r->shared, id, r->client);
    if (!*found)
        (void)kt__fail_at(err, KT_E_ARG, "id", UINT64_MAX, "no running request has this id");
out:
    json_decref(body);
    return status;
}

static int post_cancel(kt__http_request *r) {
    kt_error err = {0};
    bool found;
    kt_status status = cancel_named(r, &found, &err);
    if (found) {
        (void)kt__buf_puts(&r->reply, "{\"cancelled\":true}");
    } else {
        kt__wire_write_error(&r->reply, &err);
    }
    return found ? 200 : status == KT_OK ? 404 : kt__wire_http_status(status);
}

/* ---- GET /v1/adapters: what requests may name in `adapter` ---- */

static float default_scale(const kt__config *config, const kt__adapter_entry *entry, bool *is) {
    kt__adapter_named named[KT_ADAPTERS_MAX];
    char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1];
    size_t n = kt__adapters_default(config, named, names);
    *is = false;
    if (strcmp(entry->model, config->models[0].name) != 0) return 0.0f;
    for (size_t i = 0; i < n && !*is; i++) {
        *is = !strcmp(named[i].name, entry->name);
        if (*is) return named[i].scale;
    }
    return 0.0f;
}

static void write_opened(kt__buf *out, const kt_adapter_info *info) {
    (void)kt__buf_printf(
        out,
        ",\"bytes\":%llu,\"matrices\":%d,\"rank\":%d,\"keeps_kv\":%s,\"scoped\":%s,\"hash\":\"",
        (unsigned long long)info->bytes, (int)info->n_matrices, (int)info->rank_max,
        info->keeps_kv ? "true" : "false", info->scoped ? "true" : "false");
    for (size_t i = 0; i < sizeof info->id; i++) (void)kt__buf_printf(out, "%02x", info->id[i]);
    (void)kt__buf_putc(out, '"');
}

static void write_adapter(kt__http_request *r, const kt__config *config,
                          const kt__adapter_entry *entry) {
    kt_adapter_info info;
    kt__served *served;
    kt_error err;
    bool is_default, loaded = false;
    float scale = default_scale(config, entry, &is_default);
    (void)kt__buf_puts(&r->reply, "{\"object\":\"adapter\"");
    kt__json_member(&r->reply, "id", entry->name);
    kt__json_member(&r->reply, "model", entry->model);
    if (is_default) (void)kt__buf_printf(&r->reply, ",\"default_scale\":%g", (double)scale);
    if (kt__models_find(r->shared->models, entry->model, &served, &err) == KT_OK)
        loaded = kt__served_adapter_info(served, entry->name, &info);
    (void)kt__buf_printf(&r->reply, ",\"loaded\":%s", loaded ? "true" : "false");
    if (loaded) write_opened(&r->reply, &info);
    (void)kt__buf_putc(&r->reply, '}');
}

static int get_adapters(kt__http_request *r) {
    const kt__config *config = r->settings->config;
    kt__adapter_entry entry;
    bool any = false;
    (void)kt__buf_puts(&r->reply, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < config->adapters.n; i++) {
        if (!kt__adapter_entry_read(config, i, &entry)) continue;
        if (any) (void)kt__buf_putc(&r->reply, ',');
        write_adapter(r, config, &entry);
        any = true;
    }
    (void)kt__buf_putc(&r->reply, ']');
    kt__dialect_write_learners(r->shared, r->client, &r->reply);
    (void)kt__buf_putc(&r->reply, '}');
    return 200;
}

/* ---- what a dialect reads in the head of its request ---- */

static const char *mcp_header(const kt__http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static kt_status take_mcp_head(kt__http_request *r, kt_error *err) {
    const char *accept = mcp_header(r, "Accept");
    const kt__mcp_head head = {
        .version = mcp_header(r, "MCP-Protocol-Version"),
        .method = mcp_header(r, "Mcp-Method"),
        .name = mcp_header(r, "Mcp-Name"),
        .session = mcp_header(r, "Mcp-Session-Id"),
        .takes_stream = accept && strstr(accept, "text/event-stream"),
    };
    return kt__dialect_mcp_begin(r->job, &head, err);
}

static const char *query_of(const kt__http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* The same without escapes, which come as they were (http.c); in the job's arena. */
static const char *plain_query_of(const kt__http_request *r, const char *name) {
    const char *given = query_of(r, name);
    char *text = given ? kt__arena_strndup(&r->job->arena, given, strlen(given)) : NULL;
    if (text) (void)MHD_http_unescape(text);
    return text;
}

/* GET /v1/feedback?namespace=NAME&model=NAME&before=ID&limit=N&q=WORDS&opens=TEXT, DELETE
 * /v1/feedback/ID?... */
static kt_status take_feedback_head(kt__http_request *r, kt_error *err) {
    const kt__feedback_query query = {.id = r->rest,
                                      .name = plain_query_of(r, "namespace"),
                                      .model = plain_query_of(r, "model"),
                                      .before = query_of(r, "before"),
                                      .limit = query_of(r, "limit"),
                                      .text = plain_query_of(r, "q"),
                                      .opens = plain_query_of(r, "opens")};
    return kt__dialect_feedback_begin(r->job, &query, err);
}

static kt_status take_slot_head(kt__http_request *r, kt_error *err) {
    return kt__dialect_slots_begin(r->job, r->rest, plain_query_of(r, "action"), err);
}

/* ---- the table ---- */

#define JOB(path, dialect, id_prefix) \
    { "POST", path, &(dialect), NULL, NULL, NULL, id_prefix, 0, NULL }
#define AT_ONCE(method, path, answer, flags) \
    { method, path, NULL, answer, NULL, NULL, NULL, flags, NULL }
#define OLLAMA(method, path, answer) \
    { method, path, NULL, answer, kt__ollama_error_body, NULL, NULL, 0, NULL }

static const kt__route routes[] = {
    {"GET", "/", NULL, get_root, NULL, "text/plain; charset=utf-8", NULL, KT__ROUTE_OPEN, NULL},
    AT_ONCE("GET", "/web/*", get_web, KT__ROUTE_OPEN),
    JOB("/v1/chat/completions", kt__dialect_chat, "chatcmpl-"),
    JOB("/v1/completions", kt__dialect_completion, "cmpl-"),
    JOB("/v1/fim/completions", kt__dialect_fim, "fim-"),
    JOB("/infill", kt__dialect_infill, "fim-"),
    JOB("/completion", kt__dialect_llama, "cmpl-"),
    JOB("/completions", kt__dialect_llama, "cmpl-"),
    JOB("/chat/completions", kt__dialect_chat, "chatcmpl-"),
    JOB("/responses", kt__dialect_responses, "resp_"),
    JOB("/embedding", kt__dialect_embedding, "embd-"),
    JOB("/embeddings", kt__dialect_embedding, "embd-"),
    JOB("/reranking", kt__dialect_rerank, "rank-"),
    JOB("/v1/reranking", kt__dialect_rerank, "rank-"),
    JOB("/v1/chat/completions/input_tokens", kt__dialect_chat_count, "tok_"),
    JOB("/chat/completions/input_tokens", kt__dialect_chat_count, "tok_"),
    JOB("/responses/input_tokens", kt__dialect_responses_count, "tok_"),
    JOB("/v1/responses/input_tokens", kt__dialect_responses_count, "tok_"),
    JOB("/v1/responses", kt__dialect_responses, "resp_"),
    AT_ONCE("GET", "/v1/responses/*", kt__http_get_response, 0),
    AT_ONCE("DELETE", "/v1/responses/*", kt__http_delete_response, 0),
    JOB("/v1/embeddings", kt__dialect_embeddings, "embd-"),
    JOB("/v1/rerank", kt__dialect_rerank, "rank-"),
    JOB("/rerank", kt__dialect_rerank, "rank-"),
    JOB("/v1/messages", kt__dialect_messages, "msg_"),
    JOB("/v1/messages/count_tokens", kt__dialect_count_tokens, "tok_"),
    AT_ONCE("GET", "/v1/models", get_models, 0),
    AT_ONCE("GET", "/models", get_models, 0),
    AT_ONCE("GET", "/slots", get_slots, 0),
    AT_ONCE("GET", "/cors-proxy", get_proxy, 0),
    AT_ONCE("POST", "/cors-proxy", get_proxy, KT__ROUTE_BARE),
    {"POST", "/slots/*", &kt__dialect_slots, NULL, NULL, NULL, "slot-", KT__ROUTE_BARE,
     take_slot_head},
    AT_ONCE("GET", "/v1/health", get_health, KT__ROUTE_OPEN),
    AT_ONCE("GET", "/v1/models/*", get_model, 0),
    JOB("/v1/models/load", kt__dialect_load, "model-"),
    JOB("/v1/models/unload", kt__dialect_unload, "model-"),
    JOB("/models/load", kt__dialect_load, "model-"),
    JOB("/models/unload", kt__dialect_unload, "model-"),
    JOB("/v1/models/search", kt__dialect_search, "model-"),
    JOB("/v1/models/pull", kt__dialect_pull, "model-"),
    JOB("/v1/models/pull/stop", kt__dialect_pull_stop, "model-"),
    {"GET", "/v1/routes", &kt__dialect_routes, NULL, NULL, NULL, "routes-", 0, NULL},
    JOB("/v1/routes", kt__dialect_set_routes, "routes-"),
    AT_ONCE("GET", "/v1/adapters", get_adapters, 0),
    {"GET", "/lora-adapters", &kt__dialect_scales, NULL, NULL, NULL, "lora-", 0, NULL},
    JOB("/lora-adapters", kt__dialect_set_scales, "lora-"),
    AT_ONCE("GET", "/v1/files", kt__http_list_files, 0),
    AT_ONCE("POST", "/v1/files", kt__http_post_file, KT__ROUTE_FORM),
    AT_ONCE("GET", "/v1/files/*", kt__http_get_file, 0),
    AT_ONCE("DELETE", "/v1/files/*", kt__http_delete_file, 0),
    AT_ONCE("GET", "/v1/batches", kt__http_list_batches, 0),
    AT_ONCE("POST", "/v1/batches", kt__http_post_batch, 0),
    AT_ONCE("GET", "/v1/batches/*", kt__http_get_batch, 0),
    AT_ONCE("POST", "/v1/batches/*", kt__http_cancel_batch, KT__ROUTE_BARE),
    JOB("/v1/adapters/train", kt__dialect_train, "learn-"),
    JOB("/v1/adapters/rollback", kt__dialect_rollback, "learn-"),
    {"GET", "/v1/feedback", &kt__dialect_said, NULL, NULL, NULL, "learn-", 0, take_feedback_head},
    JOB("/v1/feedback", kt__dialect_feedback, "learn-"),
    {"DELETE", "/v1/feedback/*", &kt__dialect_forget, NULL, NULL, NULL, "learn-", 0,
     take_feedback_head},
    JOB("/tokenize", kt__dialect_tokenize, "tok-"),
    JOB("/detokenize", kt__dialect_detokenize, "tok-"),
    {"GET", "/tokenizer_info", &kt__dialect_tokenizer_info, NULL, NULL, NULL, "tok-", 0, NULL},
    {"POST", "/mcp", &kt__dialect_mcp, NULL, NULL, NULL, "mcp-", 0, take_mcp_head},
    JOB("/apply-template", kt__dialect_template, "tpl-"),
    AT_ONCE("POST", "/cancel", post_cancel, 0),
    JOB("/api/chat", kt__dialect_ollama_chat, "chat-"),
    JOB("/api/generate", kt__dialect_ollama_generate, "gen-"),
    JOB("/api/embed", kt__dialect_ollama_embed, "embd-"),
    JOB("/api/embeddings", kt__dialect_ollama_embeddings, "embd-"),
    JOB("/api/show", kt__dialect_ollama_show, "show-"),
    JOB("/api/pull", kt__dialect_ollama_pull, "pull-"),
    JOB("/api/push", kt__dialect_ollama_push, "push-"),
    JOB("/api/create", kt__dialect_ollama_create, "make-"),
    JOB("/api/copy", kt__dialect_ollama_copy, "make-"),
    {"DELETE", "/api/delete", &kt__dialect_ollama_delete, NULL, NULL, NULL, "make-", 0, NULL},
    OLLAMA("GET", "/api/blobs/*", kt__ollama_blob),
    {"POST", "/api/blobs/*", NULL, kt__ollama_blob, kt__ollama_error_body, NULL, NULL,
     KT__ROUTE_NO_FILE, NULL},
    OLLAMA("GET", "/api/tags", kt__ollama_tags),
    OLLAMA("GET", "/api/ps", kt__ollama_ps),
    OLLAMA("GET", "/api/version", kt__ollama_version),
    AT_ONCE("GET", "/health", get_health, KT__ROUTE_OPEN),
    AT_ONCE("GET", "/ready", get_ready, KT__ROUTE_OPEN),
    {"GET", "/metrics", NULL, get_metrics, NULL, "text/plain; version=0.0.4; charset=utf-8", NULL,
     KT__ROUTE_METRICS, NULL},
    AT_ONCE("GET", "/props", get_props, 0),
};

static bool fits_route(const kt__route *route, const char *path, size_t len, const char **rest) {
    size_t n = strlen(route->path);
    bool star = route->path[n - 1] == '*';
    if (star) n--;
    if (star ? len <= n : len != n) return false;
    *rest = path + n;
    return !strncmp(route->path, path, n);
}

/* Paths with two methods have both, for a third. */
static const char *both_methods(const char *a, const char *b) {
    if (!a) return b;
    return !strcmp(b, "DELETE") ? "GET, DELETE" : "GET, POST";
}

/* A path's rows are next to each other, GET before the other. */
const kt__route *kt__http_find_route(const char *method, const char *path, const char **allowed,
                                     const char **rest) {
    size_t len = strlen(path);
    const kt__route *found = NULL;
    *allowed = *rest = NULL;
    if (len > 1 && path[len - 1] == '/') len--;
    if (!strcmp(method, "HEAD")) method = "GET"; /* the daemon leaves the body out */
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (!fits_route(&routes[i], path, len, rest)) continue;
        found = &routes[i];
        if (!strcmp(found->method, method)) {
            *allowed = NULL;
            return found;
        }
        *allowed = both_methods(*allowed, found->method);
    }
    if (found) (void)fits_route(found, path, len, rest);
    return found;
}

kt__error_body_fn *kt__http_error_body(const kt__route *route, const char *path) {
    if (route && route->dialect) return route->dialect->error_body;
    if (route && route->error_body) return route->error_body;
    if (!strncmp(path, "/api/", 5)) return kt__ollama_error_body;
    return !strncmp(path, "/v1/messages/", 13) ? kt__messages_error_body : kt__openai_error_body;
}
