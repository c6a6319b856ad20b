/* Who may ask, and answers in one piece. */
#include "serve/http_answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "serve/dialects.h"
#include "serve/access.h"

/* ---- answers ---- */

void kt__http_add_header(struct MHD_Response *response, const char *name, const char *value) {
    (void)MHD_add_response_header(response, name, value);
}

enum MHD_Result kt__http_queue(kt__http_request *r, struct MHD_Response *response, int status,
                               const char *type) {
    char text[32];
    if (!response) return MHD_NO;
    kt__http_add_header(response, "Content-Type", type);
    kt__http_add_header(response, "X-Content-Type-Options", "nosniff");
    kt__http_add_header(response, "Cache-Control", "no-store");
    if (r->job) {
        kt__http_add_header(response, "X-Request-Id", r->job->id);
        /* where Anthropic's clients look */
        kt__http_add_header(response, "Request-Id", r->job->id);
    }
    if (status == 429 || status == 503) {
        int64_t seconds = (r->retry_ms + 999) / 1000;
        snprintf(text, sizeof text, "%lld", (long long)(seconds > 0 ? seconds : 1));
        kt__http_add_header(response, "Retry-After", text);
    }
    if (status == 401) kt__http_add_header(response, "WWW-Authenticate", "Bearer");
    enum MHD_Result result = MHD_queue_response(r->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    r->answered = true;
    return result;
}

enum MHD_Result kt__http_answer_bytes(kt__http_request *r, int status, const char *type, char *data,
                                      size_t len) {
    struct MHD_Response *response = MHD_create_response_from_buffer(len, data,
                                                                    MHD_RESPMEM_MUST_COPY);
    return kt__http_queue(r, response, status, type ? type : "application/json");
}

/* In the words of whom the path belongs to. */
static void write_error(kt__http_request *r, int status, const kt_error *err) {
    const char *path = r->route ? r->route->path : "";
    kt__buf_clear(&r->reply);
    if (!strncmp(path, "/v1/messages", 12)) {
        kt__messages_error_body(&r->reply, status, err->message);
    } else if (!strncmp(path, "/api/", 5)) {
        kt__ollama_error_body(&r->reply, err->message);
    } else {
        kt__wire_write_error(&r->reply, err);
    }
}

enum MHD_Result kt__http_answer_error(kt__http_request *r, int status, const char *allowed,
                                      const char *fmt, ...) {
    kt_error err = {.code = status >= 500 ? KT_E_BUSY : KT_E_ARG, .offset = UINT64_MAX};
    va_list args;
    va_start(args, fmt);
    vsnprintf(err.message, sizeof err.message, fmt, args);
    va_end(args);
    write_error(r, status, &err);
    kt__metrics_answer(kt__http_server(r)->metrics, r->route ? r->route->path : "other", status);
    struct MHD_Response *response = MHD_create_response_from_buffer(r->reply.len, r->reply.data,
                                                                    MHD_RESPMEM_MUST_COPY);
    if (response && allowed) kt__http_add_header(response, "Allow", allowed);
    return kt__http_queue(r, response, status, "application/json");
}

/* ---- who may ask ---- */

static const char *header(kt__http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static bool is_open(const kt__route *route, const kt__config *config) {
    return (route->flags & KT__ROUTE_OPEN) ||
           ((route->flags & KT__ROUTE_METRICS) && config->metrics_open);
}

bool kt__http_refuse(kt__http_request *r, const char *method, const char *path, const char *allowed,
                     enum MHD_Result *result) {
    kt__server *server = kt__http_server(r);
    const kt__config *config = kt__server_config(server);
    const kt__keys *keys = atomic_load(&server->keys);
    const char *host = header(r, "Host"), *origin = header(r, "Origin");
    const char *address = r->listens_at, *length = header(r, "Content-Length"), *name = NULL;
    if (address && !kt__access_host(config, address, host)) {
        *result = kt__http_answer_error(
            r, 403, NULL, "this Host is not served here: add it to http.hosts if it should be");
    } else if (origin && !kt__access_origin(config, address, origin)) {
        *result = kt__http_answer_error(
            r, 403, NULL,
            "requests from pages of other origins are not answered: add the "
            "origin's host to http.hosts if they should be");
    } else if (!r->route && *allowed) {
        *result = kt__http_answer_error(r, 405, allowed, "%.10s is not allowed here, only %s",
                                        method, allowed);
    } else if (keys && !(r->route && is_open(r->route, config)) &&
               !(name = kt__access_key(keys, header(r, "Authorization"), header(r, "X-Api-Key")))) {
        *result = kt__http_answer_error(r, 401, NULL,
                                        "an API key is needed: Authorization: Bearer KEY");
    } else if (!r->route) {
        *result = kt__http_answer_error(r, 404, NULL, "there is nothing at %.80s", path);
    } else if (!strcmp(r->route->method, "POST") &&
               !kt__access_is_json(header(r, "Content-Type"))) {
        *result = kt__http_answer_error(r, 415, NULL, "Content-Type: application/json is needed");
    } else if (length && strtoull(length, NULL, 10) > r->max_body) {
        *result = kt__http_answer_error(r, 413, NULL, "the body is longer than %zu bytes",
                                        r->max_body);
    } else if (atomic_load(&server->stopping) && !(r->route->flags & KT__ROUTE_OPEN)) {
        *result = kt__http_answer_error(r, 503, NULL, "the server is being stopped");
    } else {
        if (name) snprintf(r->client, sizeof r->client, "key:%s", name);
        return false;
    }
    return true;
}
