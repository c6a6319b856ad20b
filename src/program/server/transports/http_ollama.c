/* Ollama's lists: /api/tags, /api/ps, /api/show, /api/version. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "dialects/dialects.h"
#include "transports/http_request.h"

/* Clients compare it with Ollama's, and do without what that version does not have: so it is the version of
 * Ollama whose interface this is. */
int kt__ollama_version(kt__http_request *r) {
    (void)kt__buf_printf(&r->reply, "{\"version\":\"0.12.11\",\"kentang\":\"%s\"}", kt_version());
    return 200;
}

/* "1.5B", "494M" */
static void write_size(kt__buf *out, uint64_t n_params) {
    double n = (double)n_params;
    if (n >= 1e9) {
        (void)kt__buf_printf(out, "\"%.1fB\"", n / 1e9);
    } else if (n >= 1e6) {
        (void)kt__buf_printf(out, "\"%.0fM\"", n / 1e6);
    } else {
        (void)kt__buf_printf(out, "\"%.0fK\"", n / 1e3);
    }
}

/* What is not known before a model is loaded is empty. */
static void write_details(kt__buf *out, const kt__served_info *info) {
    (void)kt__buf_puts(out, "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\"");
    kt__json_member(out, "family", info->arch);
    (void)kt__buf_puts(out, ",\"families\":[");
    if (info->loaded) kt__json_text(out, info->arch);
    (void)kt__buf_puts(out, "],\"parameter_size\":");
    if (info->loaded) {
        write_size(out, info->model.n_params);
    } else {
        (void)kt__buf_puts(out, "\"\"");
    }
    kt__json_member(out, "quantization_level", info->quant);
    (void)kt__buf_putc(out, '}');
}

static void write_date(kt__buf *out, const char *key, int64_t seconds) {
    char text[32];
    time_t when = (time_t)seconds;
    struct tm utc;
    gmtime_r(&when, &utc);
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    kt__json_member(out, key, text);
}

/* 64 hexadecimal digits: the whole file's hash where it is known, else one of the model's name and
 * size, so that clients that keep it see the same as long as the model is the same. */
static void write_digest(kt__buf *out, const kt__served_info *info) {
    const uint64_t bytes = info->model.file_bytes;
    kt__digest made = kt__hash_bytes(bytes, info->name, strlen(info->name));
    unsigned char digest[32];
    bool known = info->hash.state == KT_HASH_KNOWN && sizeof info->hash.hash >= sizeof digest;
    memcpy(digest, known ? (const void *)info->hash.hash : (const void *)&made, sizeof digest);
    (void)kt__buf_puts(out, ",\"digest\":\"");
    for (size_t i = 0; i < sizeof digest; i++) (void)kt__buf_printf(out, "%02x", digest[i]);
    (void)kt__buf_puts(out, "\",");
}

/* The date is the server's start. */
static void write_listed(kt__buf *out, const kt__served_info *info, int64_t start_s) {
    kt__json_member(out, "name", info->name);
    kt__json_member(out, "model", info->name);
    write_date(out, "modified_at", start_s);
    (void)kt__buf_printf(out, ",\"size\":%llu", (unsigned long long)info->model.file_bytes);
    write_digest(out, info);
    write_details(out, info);
}

/* A model that is never unloaded is said to stay for a year. */
static void write_running(kt__buf *out, const kt__served_info *info, const kt__config *config) {
    enum { FOR_EVER_S = 86400 * 365 };
    int64_t idle_s = config->idle_unload_s > 0 ? config->idle_unload_s : FOR_EVER_S;
    write_date(out, "expires_at", (int64_t)time(NULL) + idle_s);
    (void)kt__buf_printf(out, ",\"size_vram\":0,\"context_length\":%d", (int)info->engine.n_ctx);
}

static int write_model_list(kt__http_request *r, bool running) {
    bool first = true;
    (void)kt__buf_puts(&r->reply, "{\"models\":[");
    for (size_t i = 0; i < kt__models_count(r->shared->models); i++) {
        kt__served_info info;
        kt__served_get_info(kt__models_at(r->shared->models, i), &info);
        if (running && !info.loaded) continue;
        (void)kt__buf_puts(&r->reply, first ? "{" : ",{");
        first = false;
        write_listed(&r->reply, &info, r->shared->start_s);
        if (running) write_running(&r->reply, &info, r->settings->config);
        (void)kt__buf_putc(&r->reply, '}');
    }
    (void)kt__buf_puts(&r->reply, "]}");
    return 200;
}

int kt__ollama_tags(kt__http_request *r) {
    return write_model_list(r, false);
}

int kt__ollama_ps(kt__http_request *r) {
    return write_model_list(r, true);
}

static void write_model_info(kt__buf *out, const kt__served_info *info) {
    const char *arch = info->arch;
    (void)kt__buf_puts(out, ",\"model_info\":{");
    if (info->loaded) {
        kt__json_member(out, "general.architecture", arch);
        (void)kt__buf_printf(out,
                             ",\"general.parameter_count\":%llu,\"%s.context_length\":%d,"
                             "\"%s.embedding_length\":%d,\"%s.block_count\":%d,"
                             "\"%s.attention.head_count\":%d,\"%s.attention.head_count_kv\":%d",
                             (unsigned long long)info->model.n_params, arch,
                             info->model.n_ctx_train, arch, info->model.d_model, arch,
                             info->model.n_layer, arch, info->model.n_head, arch,
                             info->model.n_head_kv);
    }
    (void)kt__buf_putc(out, '}');
}

/* What of a loaded model its template and its vocabulary allow. */
typedef struct abilities {
    bool encodes, fills_gaps, reasons;
} abilities;

/* Whether the vocabulary has a token for the beginning of a text with a gap, by the names that models have for it. */
static bool fills_gaps(const kt_model *model) {
    static const char *const marks[] = {"<|fim_prefix|>",
                                        "<fim_prefix>",
                                        "<fim-prefix>",
                                        "<|fim\xe2\x96\x81"
                                        "begin|>",
                                        "[PREFIX]",
                                        "<PRE>",
                                        "<\xef\xbd\x9c"
                                        "fim\xe2\x96\x81"
                                        "begin\xef\xbd\x9c>"};
    int32_t ids[2];
    size_t n;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (kt_tokenize(model, marks[i], strlen(marks[i]), KT_TOK_PARSE_SPECIAL, ids, 2, &n,
                        NULL) == KT_OK &&
            n == 1)
            return true;
    return false;
}

static void look_at_model(void *user, const kt_model *model) {
    abilities *a = user;
    kt_model_info info;
    kt_model_get_info(model, &info);
    const char *template = info.template_ ? info.template_ : "";
    a->encodes = info.is_encoder;
    a->fills_gaps = !info.is_encoder && fills_gaps(model);
    a->reasons = strstr(template, "enable_thinking") || strstr(template, "<think>") ||
                 strstr(template, "reasoning_content");
}

/* Calls of tools are read of whatever a decoder writes. A model that is not loaded is taken for one. */
static void write_capabilities(kt__buf *out, kt__served *served) {
    abilities a = {0};
    (void)kt__served_look(served, look_at_model, &a);
    (void)kt__buf_printf(out, ",\"capabilities\":[%s\"embedding\"%s%s]",
                         a.encodes ? "" : "\"completion\",\"tools\",",
                         a.fills_gaps ? ",\"insert\"" : "", a.reasons ? ",\"thinking\"" : "");
}

/* {"model": "demo"}, in older clients {"name": "demo"} */
int kt__ollama_show(kt__http_request *r) {
    json_t *body;
    kt_error err = {0};
    kt__served *served = NULL;
    kt_status status = kt__wire_parse(r->body.data ? r->body.data : "", r->body.len, &body, &err);
    const char *name = json_string_value(json_object_get(body, "model"));
    if (!name) name = json_string_value(json_object_get(body, "name"));
    if (status == KT_OK && (!name || !*name))
        status = kt__fail_at(&err, KT_E_ARG, "model", UINT64_MAX, "model: expected a text");
    bool asked = status == KT_OK;
    if (asked) status = kt__models_find_tagged(r->shared->models, name, &served, &err);
    json_decref(body);
    if (status != KT_OK) {
        int http = asked ? 404 : kt__wire_http_status(status);
        kt__ollama_error_body(&r->reply, http, &err);
        return http;
    }
    kt__served_info info;
    kt__served_get_info(served, &info);
    (void)kt__buf_puts(&r->reply, "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":\"\",");
    write_details(&r->reply, &info);
    write_model_info(&r->reply, &info);
    write_capabilities(&r->reply, served);
    write_date(&r->reply, "modified_at", r->shared->start_s);
    (void)kt__buf_putc(&r->reply, '}');
    return 200;
}
