#include "transports/http_answer.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "services/web.h"

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
        if (r->job->model.learned_version) {
            char version[32];
            snprintf(version, sizeof version, "%lld", (long long)r->job->model.learned_version);
            kt__http_add_header(response, "X-Kentang-Adapter", version);
        }
        if (r->job->answer.session[0])
            kt__http_add_header(response, "Mcp-Session-Id", r->job->answer.session);
    }
    if (status == 429 && r->retry_ms <= 0) {
        /* a deadline that cannot be met: clients try a 429 again unless they are told */
        kt__http_add_header(response, "X-Should-Retry", "false");
    } else if (status == 429 || status == 503) {
        int64_t seconds = (r->retry_ms + 999) / 1000;
        snprintf(text, sizeof text, "%lld", (long long)(seconds > 0 ? seconds : 1));
        kt__http_add_header(response, "Retry-After", text);
    }
    if (r->route && (r->route->flags & KT__ROUTE_METRICS)) {
        /* llama-server's scrapers see by it that counters began anew */
        snprintf(text, sizeof text, "%lld", (long long)r->shared->start_s);
        kt__http_add_header(response, "Process-Start-Time-Unix", text);
    }
    if (r->encoding) kt__http_add_header(response, "Content-Encoding", r->encoding);
    if (r->page) {
        kt__http_add_header(response, "Content-Security-Policy", KT__WEB_POLICY);
        kt__http_add_header(response, "Referrer-Policy", "no-referrer");
    }
    if (r->cors) {
        kt__http_add_header(response, "Access-Control-Allow-Origin", r->cors);
        kt__http_add_header(response, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
        kt__http_add_header(response, "Vary", "Origin");
    }
    if (r->close) kt__http_add_header(response, "Connection", "close");
    if (status == 401) kt__http_add_header(response, "WWW-Authenticate", "Bearer");
    enum MHD_Result result = MHD_queue_response(r->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    r->answered = true;
    return result;
}

enum MHD_Result kt__http_answer_preflight(kt__http_request *r) {
    struct MHD_Response *response = MHD_create_response_from_buffer(0, (char[]){""},
                                                                    MHD_RESPMEM_MUST_COPY);
    if (response && r->cors) {
        kt__http_add_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE");
        kt__http_add_header(response, "Access-Control-Allow-Headers",
                            "Authorization, Content-Type, X-Api-Key, Anthropic-Version, "
                            "Anthropic-Beta, Anthropic-Dangerous-Direct-Browser-Access");
        kt__http_add_header(response, "Access-Control-Max-Age", "600");
    }
    return kt__http_queue(r, response, 200, "text/plain");
}

enum MHD_Result kt__http_answer_bytes(kt__http_request *r, int status, const char *type, char *data,
                                      size_t len) {
    struct MHD_Response *response = MHD_create_response_from_buffer(len, data,
                                                                    MHD_RESPMEM_MUST_COPY);
    return kt__http_queue(r, response, status, type ? type : "application/json");
}

enum MHD_Result kt__http_answer_error(kt__http_request *r, int status, const char *allowed,
                                      const char *fmt, ...) {
    kt_error err = {.code = status >= 500 ? KT_E_STATE : KT_E_ARG, .offset = UINT64_MAX};
    va_list args;
    va_start(args, fmt);
    vsnprintf(err.message, sizeof err.message, fmt, args);
    va_end(args);
    kt__buf_clear(&r->reply);
    r->error_body(&r->reply, status, &err);
    kt__metrics_answer(r->shared->metrics, r->route ? r->route->path : "other", status);
    struct MHD_Response *response = MHD_create_response_from_buffer(r->reply.len, r->reply.data,
                                                                    MHD_RESPMEM_MUST_COPY);
    if (response && allowed) kt__http_add_header(response, "Allow", allowed);
    return kt__http_queue(r, response, status, "application/json");
}
