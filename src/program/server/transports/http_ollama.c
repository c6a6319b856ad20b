/* Ollama's lists: /api/tags, /api/ps, /api/version. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/system.h"
#include "dialects/dialects.h"
#include "transports/http_request.h"

/* Clients compare it with Ollama's, and do without what that version does not have: so it is the version of
 * Ollama whose interface this is. */
int kt__ollama_version(kt__http_request *r) {
    (void)kt__buf_printf(&r->reply, "{\"version\":\"0.12.11\",\"kentang\":\"%s\"}", kt_version());
    return 200;
}

/* Of the file, or of the first of a split set; 0: it is not known. */
static uint64_t size_on_disk(kt__served *served) {
    kt__file_info st = {0};
    char *path = NULL;
    kt_error err = {0};
    bool found = kt__served_file(served, &path, &err) == KT_OK && path && kt__file_look(path, &st);
    kt__free(path);
    return found ? st.bytes : 0;
}

/* 64 hexadecimal digits: the whole file's hash where it is known, else one of the model's name and
 * the size of its file, so that clients that keep it see the same as long as the model is the same,
 * loaded or not. */
static void write_digest(kt__buf *out, const kt__served_info *info, uint64_t bytes) {
    kt__digest made = kt__hash_bytes(bytes, info->name, strlen(info->name));
    unsigned char digest[32];
    bool known = info->hash.state == KT_HASH_KNOWN && sizeof info->hash.hash >= sizeof digest;
    memcpy(digest, known ? (const void *)info->hash.hash : (const void *)&made, sizeof digest);
    (void)kt__buf_puts(out, ",\"digest\":\"");
    for (size_t i = 0; i < sizeof digest; i++) (void)kt__buf_printf(out, "%02x", digest[i]);
    (void)kt__buf_puts(out, "\",");
}

/* The date is the server's start. */
static void write_listed(kt__buf *out, kt__served *served, const kt__served_info *info,
                         int64_t start_s) {
    uint64_t bytes = size_on_disk(served);
    kt__json_member(out, "name", info->name);
    kt__json_member(out, "model", info->name);
    kt__ollama_write_date(out, "modified_at", start_s);
    (void)kt__buf_printf(
        out, ",\"size\":%llu",
        (unsigned long long)(info->model.file_bytes ? info->model.file_bytes : bytes));
    write_digest(out, info, bytes);
    kt__ollama_write_details(out, info->arch, info->quant, info->model.n_params);
}

/* A model that is never unloaded is said to stay for a year. */
static void write_running(kt__buf *out, const kt__served_info *info, const kt__config *config) {
    enum { FOR_EVER_S = 86400 * 365 };
    int64_t idle_s = config->idle_unload_s > 0 ? config->idle_unload_s : FOR_EVER_S;
    kt__ollama_write_date(out, "expires_at", (int64_t)time(NULL) + idle_s);
    (void)kt__buf_printf(out, ",\"size_vram\":0,\"context_length\":%d", (int)info->engine.n_ctx);
}

static int write_model_list(kt__http_request *r, bool running) {
    bool first = true;
    (void)kt__buf_puts(&r->reply, "{\"models\":[");
    for (size_t i = 0; i < kt__models_count(r->shared->models); i++) {
        kt__served_info info;
        kt__served *served = kt__models_at(r->shared->models, i);
        kt__served_get_info(served, &info);
        if (info.gone || (running && !info.loaded)) continue;
        (void)kt__buf_puts(&r->reply, first ? "{" : ",{");
        first = false;
        write_listed(&r->reply, served, &info, r->shared->start_s);
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

/* Files of models are not sent here (KT__ROUTE_NO_FILE), so none is there. */
int kt__ollama_blob(kt__http_request *r) {
    kt_error err = {0};
    (void)kt__fail(&err, KT_E_ARG, "there is no such file here");
    kt__ollama_error_body(&r->reply, 404, &err);
    return 404;
}
