/* Ollama's /api/show: what a model is, whether it is loaded or not. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "dialects/dialects.h"
#include "services/model_facts.h"
#include "setup/made.h"

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

void kt__ollama_write_details(kt__buf *out, const char *arch, const char *quant,
                              uint64_t n_params) {
    (void)kt__buf_puts(out, "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\"");
    kt__json_member(out, "family", arch);
    (void)kt__buf_puts(out, ",\"families\":[");
    if (*arch) kt__json_text(out, arch);
    (void)kt__buf_puts(out, "],\"parameter_size\":");
    if (n_params) {
        write_size(out, n_params);
    } else {
        (void)kt__buf_puts(out, "\"\"");
    }
    kt__json_member(out, "quantization_level", quant);
    (void)kt__buf_putc(out, '}');
}

void kt__ollama_write_date(kt__buf *out, const char *key, int64_t unix_s) {
    char text[32];
    time_t when = (time_t)unix_s;
    struct tm utc;
    gmtime_r(&when, &utc);
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    kt__json_member(out, key, text);
}

static void write_model_info(kt__buf *out, const kt__model_facts *f) {
    const char *arch = f->arch;
    (void)kt__buf_puts(out, ",\"model_info\":{");
    kt__json_member(out, "general.architecture", arch);
    (void)kt__buf_printf(out,
                         ",\"general.parameter_count\":%llu,\"%s.context_length\":%d,"
                         "\"%s.embedding_length\":%d,\"%s.block_count\":%d,"
                         "\"%s.attention.head_count\":%d,\"%s.attention.head_count_kv\":%d}",
                         (unsigned long long)f->model.n_params, arch, f->model.n_ctx_train, arch,
                         f->model.d_model, arch, f->model.n_layer, arch, f->model.n_head, arch,
                         f->model.n_head_kv);
}

/* Calls of tools are read of whatever a decoder writes. */
static void write_capabilities(kt__buf *out, const kt__model_facts *f) {
    (void)kt__buf_printf(out, ",\"capabilities\":[%s\"embedding\"%s%s%s]",
                         f->model.is_encoder ? "" : "\"completion\",\"tools\",",
                         f->fills_gaps ? ",\"insert\"" : "", f->reasons ? ",\"thinking\"" : "",
                         f->sees ? ",\"vision\"" : "");
}

/* ---- a created model's own words ---- */

static void write_parameters(kt__buf *out, const kt__modelfile *file) {
    kt__buf text;
    kt__buf_init(&text, 2 * KT__MODELFILE_MAX_BYTES);
    for (size_t i = 0; i < file->n; i++) {
        const kt__modelfile_line *line = &file->lines[i];
        if (line->kind != KT__MODELFILE_PARAMETER) continue;
        bool quoted = !strcmp(line->name, "stop");
        (void)kt__buf_printf(&text, "%s%-30s %s%s%s", text.len ? "\n" : "", line->name,
                             quoted ? "\"" : "", line->value, quoted ? "\"" : "");
    }
    kt__json_member(out, "parameters", text.data ? text.data : "");
    kt__buf_free(&text);
}

static void write_messages(kt__buf *out, const kt__modelfile *file) {
    bool any = false;
    for (size_t i = 0; i < file->n; i++) {
        const kt__modelfile_line *line = &file->lines[i];
        if (line->kind != KT__MODELFILE_MESSAGE) continue;
        (void)kt__buf_puts(out, any ? ",{" : ",\"messages\":[{");
        kt__json_member(out, "role", line->name);
        kt__json_member(out, "content", line->value);
        (void)kt__buf_putc(out, '}');
        any = true;
    }
    if (any) (void)kt__buf_putc(out, ']');
}

/* The modelfile without paths of this machine, which are no client's. */
static void hide_paths(kt__modelfile *file) {
    for (size_t i = 0; i < file->n; i++) {
        kt__modelfile_line *line = &file->lines[i];
        const char *slash = strrchr(line->value, '/');
        bool names_file = line->kind == KT__MODELFILE_FROM || line->kind == KT__MODELFILE_ADAPTER;
        if (names_file && kt__files_is_absolute(line->value) && slash) line->value = slash + 1;
    }
}

static kt_status write_made(kt__buf *out, const char *text, const char *template, kt_error *err) {
    kt__modelfile file;
    kt__buf shown;
    kt__modelfile_init(&file);
    kt__buf_init(&shown, 2 * KT__MODELFILE_MAX_BYTES);
    kt_status status = text ? kt__modelfile_read(&file, text, strlen(text), err) : KT_OK;
    hide_paths(&file);
    if (text) kt__modelfile_write(&file, &shown);
    const char *own = kt__modelfile_get(&file, KT__MODELFILE_TEMPLATE);
    const char *system = kt__modelfile_get(&file, KT__MODELFILE_SYSTEM);
    const char *license = kt__modelfile_get(&file, KT__MODELFILE_LICENSE);
    (void)kt__buf_putc(out, '{');
    kt__json_member(out, "modelfile", shown.data ? shown.data : "");
    write_parameters(out, &file);
    kt__json_member(out, "template", own && *own ? own : template);
    if (system && *system) kt__json_member(out, "system", system);
    if (license && *license) kt__json_member(out, "license", license);
    write_messages(out, &file);
    kt__buf_free(&shown);
    kt__modelfile_free(&file);
    return status;
}

static kt_status write_shown(kt__job *job, kt__served *served, const kt__model_facts *facts,
                             kt_error *err) {
    kt__buf *out = &job->answer.out;
    char *modelfile = kt__served_modelfile(served);
    kt_status status = write_made(out, modelfile, facts->template_, err);
    kt__free(modelfile);
    if (status != KT_OK) return status;
    (void)kt__buf_putc(out, ',');
    kt__ollama_write_details(out, facts->arch, facts->quant, facts->model.n_params);
    write_model_info(out, facts);
    write_capabilities(out, facts);
    kt__ollama_write_date(out, "modified_at", job->shared->start_s);
    (void)kt__buf_putc(out, '}');
    return KT_OK;
}

/* {"model": "demo"}, in older clients {"name": "demo"} */
static kt_status run_show(kt__job *job, kt_error *err) {
    kt__model_facts facts;
    kt__served *served;
    KT__STEP(kt__job_parse(job, err));
    const char *name = json_string_value(json_object_get(job->request.json, "model"));
    if (!name) name = json_string_value(json_object_get(job->request.json, "name"));
    if (!name || !*name)
        return kt__fail_at(err, KT_E_ARG, "model", UINT64_MAX, "model: expected a text");
    kt_status status = kt__models_find_tagged(job->shared->models, name, &served, err);
    if (status != KT_OK) job->answer.error_status = 404;
    if (status != KT_OK) return status;
    status = kt__model_facts_read(job->shared->models, served, &facts, err);
    if (status == KT_OK) {
        status = write_shown(job, served, &facts, err);
    } else {
        job->answer.error_status = 500;
        kt__slog_line(&job->shared->log, KT_LOG_ERROR, "%s: %s (%s)", kt__served_name(served),
                      err->message, err->where);
        (void)kt__fail(err, status, "the model \"%.80s\" cannot be read: %s",
                       kt__served_name(served), kt_status_message(status));
    }
    kt__model_facts_free(&facts);
    return status;
}

const kt__dialect kt__dialect_ollama_show = {
    .route = "/api/show",
    .error_body = kt__ollama_error_body,
    .run = run_show,
    .error = kt__dialect_whole_error,
};
