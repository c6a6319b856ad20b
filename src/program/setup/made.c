#include "setup/made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/system.h"
#include "store/hub.h"
#include "store/modelfile.h"

enum { MAX_JINJA = 4 << 20 };

/* ---- parameters ---- */

/* Ollama's names of settings. Without a key: of machines that are not this one, or of what is not
 * done here; they are accepted since they change no answer. */
static const struct {
    const char *name, *key;
} parameters[] = {{"temperature", "sampling.temperature"},
                  {"top_k", "sampling.top_k"},
                  {"top_p", "sampling.top_p"},
                  {"min_p", "sampling.min_p"},
                  {"typical_p", "sampling.typical_p"},
                  {"repeat_penalty", "sampling.repeat_penalty"},
                  {"repeat_last_n", "sampling.repeat_last_n"},
                  {"presence_penalty", "sampling.presence_penalty"},
                  {"frequency_penalty", "sampling.frequency_penalty"},
                  {"mirostat", "sampling.mirostat"},
                  {"mirostat_tau", "sampling.mirostat_tau"},
                  {"mirostat_eta", "sampling.mirostat_eta"},
                  {"seed", "seed"},
                  {"num_ctx", "ctx"},
                  {"num_predict", "default_max_new_tokens"},
                  {"stop", NULL},
                  {"num_keep", NULL},
                  {"num_batch", NULL},
                  {"num_gpu", NULL},
                  {"main_gpu", NULL},
                  {"num_thread", NULL},
                  {"low_vram", NULL},
                  {"f16_kv", NULL},
                  {"use_mmap", NULL},
                  {"use_mlock", NULL},
                  {"numa", NULL},
                  {"penalize_newline", NULL},
                  {"tfs_z", NULL}};

static kt_status set_parameter(kt__config *own, const kt__modelfile_line *line, kt_error *err) {
    char from[80];
    const char *value = line->value;
    size_t i = 0, n = sizeof parameters / sizeof *parameters;
    while (i < n && strcmp(parameters[i].name, line->name) != 0) i++;
    if (i == n)
        return kt__fail(err, KT_E_ARG, "PARAMETER %.40s is not known here%s", line->name,
                        line->at ? "" : " (parameters)");
    if (!parameters[i].key) return KT_OK;
    snprintf(from, sizeof from, "PARAMETER %s", line->name);
    if (!strcmp(line->name, "num_predict") && value[0] == '-') value = "-1"; /* -2 as well */
    return kt__config_set(own, parameters[i].key, value, from, err);
}

static kt_status set_template(kt__config *own, const char *text, kt_error *err) {
    kt__buf jinja;
    kt__buf_init(&jinja, MAX_JINJA);
    kt_status status = kt__go_template_translate(text, strlen(text), &jinja, err);
    if (status == KT_OK) {
        own->chat_template = kt__arena_strndup(&own->arena, jinja.data, jinja.len);
        if (!own->chat_template) status = kt__fail_nomem(err, "a template", jinja.len);
    }
    kt__buf_free(&jinja);
    return status;
}

/* Adapters get names of their own, which no request needs: they are the model's default. */
static kt_status set_adapters(kt__config *own, const char *name, const kt__modelfile *file,
                              kt_error *err) {
    size_t n = 0, most = KT_ADAPTERS_MAX;
    const char **files = kt__arena_calloc(&own->arena, most, sizeof *files);
    const char **names = kt__arena_calloc(&own->arena, most, sizeof *names);
    own->models = kt__arena_calloc(&own->arena, 1, sizeof *own->models);
    char *own_name = kt__arena_strndup(&own->arena, name, strlen(name));
    if (!files || !names || !own->models || !own_name) return kt__fail_nomem(err, "adapters", 0);
    own->models[0] = (kt__model_config){.name = own_name, .own = own};
    own->n_models = 1;
    for (size_t i = 0; i < file->n; i++) {
        char entry[4096 + 32];
        if (file->lines[i].kind != KT__MODELFILE_ADAPTER) continue;
        if (n == most) return kt__fail(err, KT_E_LIMIT, "ADAPTER: at most %zu", most);
        snprintf(entry, sizeof entry, "adapter-%zu=%.4095s", n, file->lines[i].value);
        files[n] = kt__arena_strndup(&own->arena, entry, strlen(entry));
        names[n] = kt__arena_strndup(&own->arena, entry, strcspn(entry, "="));
        if (!files[n] || !names[n]) return kt__fail_nomem(err, "adapters", 0);
        n++;
    }
    own->adapters = (kt__texts){files, n};
    own->adapter = (kt__texts){names, n};
    return KT_OK;
}

/* For kt__config_free before `base`, whose texts it uses. */
static kt_status own_settings(const kt__config *base, const char *name, const kt__modelfile *file,
                              kt__config **out, kt_error *err) {
    const char *template = kt__modelfile_get(file, KT__MODELFILE_TEMPLATE);
    kt__config *own = kt__malloc(sizeof *own);
    kt_status status;
    *out = NULL;
    if (!own) return kt__fail_nomem(err, "a model's settings", sizeof *own);
    *own = *base;
    kt__arena_init(&own->arena, 4096, 64 << 20);
    for (size_t i = 0; i < file->n; i++)
        if (file->lines[i].kind == KT__MODELFILE_PARAMETER)
            KT__TRY(set_parameter(own, &file->lines[i], err));
    if (template && *template) KT__TRY(set_template(own, template, err));
    KT__TRY(set_adapters(own, name, file, err));
    *out = own;
    own = NULL;
out:
    kt__config_free(own);
    return status;
}

/* ---- requests ---- */

static void write_words(const kt__modelfile *file, kt__buf *out) {
    const char *system = kt__modelfile_get(file, KT__MODELFILE_SYSTEM);
    bool any = false;
    (void)kt__buf_puts(out, "{\"stop\":[");
    for (size_t i = 0; i < file->n; i++) {
        const kt__modelfile_line *line = &file->lines[i];
        if (line->kind != KT__MODELFILE_PARAMETER || strcmp(line->name, "stop") != 0) continue;
        if (any) (void)kt__buf_putc(out, ',');
        kt__json_text(out, line->value);
        any = true;
    }
    (void)kt__buf_puts(out, "],\"messages\":[");
    any = false;
    for (size_t i = 0; i < file->n; i++) {
        const kt__modelfile_line *line = &file->lines[i];
        if (line->kind != KT__MODELFILE_MESSAGE) continue;
        (void)kt__buf_puts(out, any ? ",{" : "{");
        kt__json_member(out, "role", line->name);
        kt__json_member(out, "content", line->value);
        (void)kt__buf_putc(out, '}');
        any = true;
    }
    (void)kt__buf_putc(out, ']');
    if (system && *system) kt__json_member(out, "system", system);
    (void)kt__buf_putc(out, '}');
}

/* ---- names ---- */

kt_status kt__made_name(const char *text, char *out, size_t size, kt_error *err) {
    const char *colon = strrchr(text, ':');
    bool latest = colon && !strcmp(colon, ":latest");
    int len = colon ? (int)(colon - text) : (int)strlen(text);
    int n = snprintf(out, size, "%.*s%s%s", len, text, colon && !latest ? "/" : "",
                     colon && !latest ? colon + 1 : "");
    if (n > 0 && (size_t)n < size && kt__name_is_safe(out) && !strpbrk(out, ":{}\"'<>|*?"))
        return KT_OK;
    return kt__fail_at(
        err, KT_E_ARG, "model", UINT64_MAX,
        "model: \"%.80s\" is no name: letters, digits, - . _ / and one :TAG make one", text);
}

static const kt__shelf_model *named_exactly(const kt__shelf *shelf, const char *name) {
    for (size_t i = 0; i < shelf->n; i++)
        if (!strcmp(shelf->models[i].name, name)) return &shelf->models[i];
    return NULL;
}

kt_status kt__made_find(const kt__store *store, const char *name, kt__modelfile *file, bool *found,
                        kt_error *err) {
    char own[KT__NAME_MAX + 1];
    kt__shelf shelf;
    kt_error ignored;
    const kt__shelf_model *model = NULL;
    *found = false;
    kt__modelfile_init(file);
    if (kt__files_is_absolute(name) || name[0] == '.') return KT_OK;
    kt_status status = kt__store_shelf(store, &shelf, err);
    if (status != KT_OK && !shelf.n) { /* no folder: nothing was created */
        kt__shelf_close(&shelf);
        return KT_OK;
    }
    if (kt__made_name(name, own, sizeof own, &ignored) == KT_OK) model = named_exactly(&shelf, own);
    if (!model && status == KT_OK && kt__shelf_find(&shelf, name, &model, &ignored) != KT_OK)
        model = NULL; /* several: who opens it says so */
    *found = model && model->is_made;
    if (status == KT_OK && *found) status = kt__modelfile_open(file, model->path, err);
    kt__shelf_close(&shelf);
    return status;
}

/* ---- as it is served ---- */

void kt__made_close(kt__made *made) {
    kt__config_free(made->config);
    kt__free(made->words);
    kt__free(made->text);
    *made = (kt__made){0};
}

static kt_status read_made(const kt__config *base, const char *name, const kt__modelfile *file,
                           kt__made *out, kt_error *err) {
    kt__buf words, text;
    KT__STEP(own_settings(base, name, file, &out->config, err));
    kt__buf_init(&words, 8 * KT__MODELFILE_MAX_BYTES);
    kt__buf_init(&text, 2 * KT__MODELFILE_MAX_BYTES);
    write_words(file, &words);
    kt__modelfile_write(file, &text);
    bool whole = !words.failed && !text.failed;
    out->words = kt__buf_take(&words, NULL);
    out->text = kt__buf_take(&text, NULL);
    kt__buf_free(&words);
    kt__buf_free(&text);
    return whole && out->words && out->text ? KT_OK : kt__fail_nomem(err, "a created model", 0);
}

kt_status kt__made_open(const kt__config *base, const char *name, const char *path, kt__made *out,
                        kt_error *err) {
    kt__store store = {.dir = base->models_dir};
    kt__modelfile file;
    bool found = false;
    *out = (kt__made){0};
    if (!path || !base->find_model || kt__file_exists(path)) return KT_OK;
    kt_status status = kt__made_find(&store, path, &file, &found, err);
    if (status == KT_OK && found) status = read_made(base, name, &file, out, err);
    kt__modelfile_free(&file);
    if (status != KT_OK) kt__made_close(out);
    return status;
}

/* ---- creating ---- */

/* FROM as it is kept: a model of the folder by its whole name, which it has wherever the folder goes. */
static kt_status settle_from(const kt__shelf *shelf, kt__modelfile *file, kt_error *err) {
    char own[KT__NAME_MAX + 1];
    const char *from = kt__modelfile_get(file, KT__MODELFILE_FROM);
    const kt__shelf_model *model = NULL;
    kt__modelfile base;
    kt_error ignored;
    kt_status status = KT_OK;
    if (!from)
        return kt__fail(err, KT_E_ARG,
                        "FROM is missing: it names the model whose weights these are");
    if (!strcmp(from, KT__MADE_DEMO)) return KT_OK;
    if (kt__files_is_absolute(from))
        return kt__file_readable(from) ? KT_OK
                                       : kt__fail(err, KT_E_ARG, "FROM: no file %.200s", from);
    if (kt__made_name(from, own, sizeof own, &ignored) == KT_OK) model = named_exactly(shelf, own);
    if (!model) KT__STEP(kt__shelf_find(shelf, from, &model, err));
    if (!model)
        return kt__fail(err, KT_E_ARG,
                        "FROM: there is no model \"%.80s\" in the folder of models: pull it first",
                        from);
    kt__modelfile_init(&base);
    if (model->is_made) {
        KT__TRY(kt__modelfile_open(&base, model->path, err));
        KT__TRY(kt__modelfile_inherit(file, &base, err));
        from = kt__modelfile_get(&base, KT__MODELFILE_FROM);
    } else {
        from = model->name;
    }
    if (!from) KT__TRY(kt__fail(err, KT_E_FORMAT, "FROM: the model's own modelfile has no FROM"));
    kt__modelfile_remove(file, KT__MODELFILE_FROM);
    status = kt__modelfile_add(file, KT__MODELFILE_FROM, NULL, from, err);
out:
    kt__modelfile_free(&base);
    return status;
}

/* What would fail when it is loaded fails now. */
static kt_status check_settings(const kt__config *config, const char *name,
                                const kt__modelfile *file, kt_error *err) {
    kt__config *own;
    KT__STEP(own_settings(config, name, file, &own, err));
    kt__config_free(own);
    for (size_t i = 0; i < file->n; i++) {
        const kt__modelfile_line *line = &file->lines[i];
        if (line->kind == KT__MODELFILE_ADAPTER && !kt__file_readable(line->value))
            return kt__fail(err, KT_E_ARG, "ADAPTER: no file %.200s", line->value);
    }
    return KT_OK;
}

kt_status kt__made_create(const kt__store *store, const kt__config *config, const char *name,
                          kt__modelfile *file, kt_error *err) {
    kt__shelf shelf;
    kt__buf text;
    kt_status status;
    kt__buf_init(&text, KT__MODELFILE_MAX_BYTES);
    KT__TRY(kt__store_shelf(store, &shelf, err));
    KT__TRY(settle_from(&shelf, file, err));
    KT__TRY(check_settings(config, name, file, err));
    kt__modelfile_write(file, &text);
    if (text.failed)
        KT__TRY(kt__fail(err, KT_E_LIMIT, "a modelfile has at most %d bytes",
                         (int)KT__MODELFILE_MAX_BYTES));
    status = kt__shelf_put_made(&shelf, name, text.data, text.len, err);
out:
    kt__buf_free(&text);
    kt__shelf_close(&shelf);
    return status;
}

kt_status kt__made_of(const kt__shelf *shelf, const kt__shelf_model *model, char **out,
                      kt_error *err) {
    kt_status status = KT_OK;
    *out = NULL;
    for (size_t i = 0; i < shelf->n && status == KT_OK && !*out; i++) {
        kt__modelfile file;
        if (!shelf->models[i].is_made) continue;
        kt__modelfile_init(&file);
        kt_error ignored; /* one that cannot be read has no weights */
        if (kt__modelfile_open(&file, shelf->models[i].path, &ignored) == KT_OK) {
            const char *from = kt__modelfile_get(&file, KT__MODELFILE_FROM);
            bool same = from && (!strcmp(from, model->name) || !strcmp(from, model->path));
            if (same) *out = kt__strdup(shelf->models[i].name);
            if (same && !*out) status = kt__fail_nomem(err, "a model's name", 0);
        }
        kt__modelfile_free(&file);
    }
    return status;
}
