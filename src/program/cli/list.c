/* kentang list, show and rm: the models that are on this machine. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "setup/made.h"
#include "setup/model_file.h"
#include "term/cli.h"
#include "term/options.h"
#include "term/safe_text.h"

enum { MAX_PATH = 4096 };

/* The settings and the folder of models that they name. */
typedef struct cabinet {
    kt__config *config;
    kt__store store;
    kt__shelf shelf;
} cabinet;

static kt_status cabinet_open(cabinet *c, kt_error *err) {
    *c = (cabinet){0};
    kt_status status = kt__model_name_config(&c->config, err);
    if (status != KT_OK) return status;
    c->store = kt__model_name_store(c->config);
    return kt__store_shelf(&c->store, &c->shelf, err);
}

static void cabinet_close(cabinet *c) {
    kt__shelf_close(&c->shelf);
    kt__config_free(c->config);
}

/* ---- figures ---- */

static void size_text(uint64_t bytes, char out[32]) {
    if (bytes < 1000000)
        snprintf(out, 32, "%.0f KB", (double)bytes / 1e3);
    else if (bytes < 1000000000)
        snprintf(out, 32, "%.0f MB", (double)bytes / 1e6);
    else
        snprintf(out, 32, "%.1f GB", (double)bytes / 1e9);
}

static void day_text(int64_t unix_s, char out[32]) {
    time_t t = (time_t)unix_s;
    struct tm day;
    if (!localtime_r(&t, &day) || !strftime(out, 32, "%Y-%m-%d %H:%M", &day))
        snprintf(out, 32, "-");
}

/* Architecture and type of weights, as the file says. */
typedef struct model_facts {
    char arch[64], quant[32];
    bool readable;
} model_facts;

/* Opened for its metadata only; a file that cannot be opened is listed anyway. */
static void read_facts(const kt__shelf_model *m, kt_ctx *ctx, model_facts *out) {
    kt_model_params params = kt_model_params_default();
    kt_model_info info;
    kt_model *model;
    kt_error err;
    *out = (model_facts){.readable = false};
    snprintf(out->arch, sizeof out->arch, "?");
    snprintf(out->quant, sizeof out->quant, "%s", m->is_folder ? "folder" : "?");
    params.vocab_only = true;
    if (m->is_made) {
        snprintf(out->arch, sizeof out->arch, "created");
        snprintf(out->quant, sizeof out->quant, "-");
        out->readable = true;
        return;
    }
    if (m->is_folder) {
        snprintf(out->arch, sizeof out->arch, "-");
        out->readable = true;
        return;
    }
    if (kt_model_open(ctx, m->path, &params, &model, &err) != KT_OK) return;
    kt_model_get_info(model, &info);
    snprintf(out->arch, sizeof out->arch, "%s", info.arch);
    snprintf(out->quant, sizeof out->quant, "%s", info.quant);
    out->readable = true;
    kt_model_close(model);
}

static kt_status open_reader(kt_ctx **ctx, kt_error *err) {
    kt_ctx_params params = kt_ctx_params_default();
    params.n_threads = 1;
    return kt_ctx_open(&params, ctx, err);
}

/* ---- list ---- */

static bool is_default(const cabinet *c, const kt__shelf_model *m) {
    const kt__shelf_model *found = NULL;
    const char *path = c->config->models[0].path;
    kt_error ignored;
    return path && kt__shelf_find(&c->shelf, path, &found, &ignored) == KT_OK && found == m;
}

static void print_name(const char *name, int width) {
    kt__buf safe;
    kt__buf_init(&safe, 1 << 20);
    kt__safe_append(&safe, name, strlen(name), 0);
    printf("%-*s", width, safe.data ? safe.data : "");
    kt__buf_free(&safe);
}

static void print_row(const cabinet *c, const kt__shelf_model *m, kt_ctx *ctx, int width) {
    char size[32], used[32];
    model_facts facts;
    read_facts(m, ctx, &facts);
    size_text(m->bytes, size);
    day_text(m->used_s, used);
    print_name(m->name, width);
    printf(" %9s  %-12s %-10s %-16s%s%s\n", size, facts.arch, facts.quant, used,
           m->is_link ? "  further name" : "", is_default(c, m) ? "  default" : "");
}

static json_t *row_json(const cabinet *c, const kt__shelf_model *m, kt_ctx *ctx) {
    model_facts facts;
    read_facts(m, ctx, &facts);
    return json_pack("{s:s,s:s,s:I,s:i,s:s,s:s,s:I,s:I,s:b,s:b,s:b}", "name", m->name, "path",
                     m->path, "bytes", (json_int_t)m->bytes, "files", m->n_files, "arch",
                     facts.arch, "quant", facts.quant, "added", (json_int_t)m->added_s, "used",
                     (json_int_t)m->used_s, "folder", m->is_folder, "link", m->is_link, "default",
                     is_default(c, m));
}

static void list_as_json(const cabinet *c, kt_ctx *ctx) {
    json_t *rows = json_array();
    for (size_t i = 0; i < c->shelf.n; i++)
        json_array_append_new(rows, row_json(c, &c->shelf.models[i], ctx));
    json_dumpf(rows, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(rows);
}

static void list_as_table(const cabinet *c, kt_ctx *ctx) {
    int width = 24;
    char size[32];
    for (size_t i = 0; i < c->shelf.n; i++)
        if ((int)strlen(c->shelf.models[i].name) > width)
            width = (int)strlen(c->shelf.models[i].name);
    if (c->shelf.n)
        printf("%-*s %9s  %-12s %-10s %-16s\n", width, "NAME", "SIZE", "ARCH", "TYPE", "LAST USED");
    else
        printf("no models in %s; `kentang pull` gets one, and without -m the demo model inside the "
               "program answers\n",
               c->shelf.root);
    for (size_t i = 0; i < c->shelf.n; i++) print_row(c, &c->shelf.models[i], ctx, width);
    uint64_t unfinished = kt__pull_unfinished(c->shelf.root, false);
    size_text(unfinished, size);
    if (unfinished)
        printf("unfinished downloads: %s; pull continues them, `kentang rm --unfinished` removes "
               "them\n",
               size);
}

typedef struct list_opts {
    bool json;
} list_opts;

static const kt__opt list_table[] = {
    {.name = "json", .kind = KT__OPT_ON, .at = 0, .help = "as JSON"},
};

int kt__cmd_list(int argc, char **argv) {
    list_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", list_table, KT__COUNT(list_table), &opts}};
    const kt__syntax syntax = {.command = "list",
                               .usage = "[--json]",
                               .about = "The models in the folder of models (`models_dir`): what "
                                        "pull got, and any GGUF file\nor Hugging Face folder that "
                                        "was put there.",
                               .groups = groups,
                               .n_groups = 1};
    cabinet c;
    kt_ctx *ctx = NULL;
    kt_error err;
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    kt_status status = cabinet_open(&c, &err);
    if (status == KT_OK) status = open_reader(&ctx, &err);
    if (status == KT_OK && opts.json) list_as_json(&c, ctx);
    if (status == KT_OK && !opts.json) list_as_table(&c, ctx);
    kt_ctx_close(ctx);
    cabinet_close(&c);
    return status == KT_OK ? 0 : kt__cli_fail("list", &err);
}

/* ---- show ---- */

static kt_status find_required(const cabinet *c, const char *name, const kt__shelf_model **out,
                               kt_error *err) {
    kt_status status = kt__shelf_find(&c->shelf, name, out, err);
    if (status != KT_OK || *out) return status;
    return kt__fail(err, KT_E_ARG,
                    "no model \"%.80s\" in %.200s: `kentang list` shows what is "
                    "there",
                    name, c->shelf.root);
}

/* A model by the path of its file, which need not lie among the others. */
static bool find_at_path(const cabinet *c, const char *path, kt__shelf_model *other,
                         const kt__shelf_model **out) {
    kt__file_info st;
    if (!kt__file_look(path, &st) || !st.is_file) return false;
    *out = kt__shelf_at(&c->shelf, path);
    if (*out) return true;
    *other = (kt__shelf_model){.name = (char *)(uintptr_t)path,
                               .path = (char *)(uintptr_t)path,
                               .n_files = 1,
                               .bytes = st.bytes,
                               .used_s = st.used_s};
    *out = other;
    return true;
}

static void print_origin(const kt__shelf_model *m) {
    char path[MAX_PATH + 64], day[32];
    json_error_t why;
    kt__shelf_origin_path(m->path, m->is_folder, path, sizeof path);
    json_t *origin = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    const char *source = json_string_value(json_object_get(origin, "source"));
    const char *revision = json_string_value(json_object_get(origin, "revision"));
    const char *pulled = json_string_value(json_object_get(origin, "pulled"));
    if (source) printf("from       %s\n", source);
    if (revision && *revision) printf("revision   %s\n", revision);
    if (pulled) {
        day_text(strtoll(pulled, NULL, 10), day);
        printf("pulled     %s\n", day);
    }
    json_decref(origin);
}

/* Of a created model: what it is made of, as it lies there. */
static void print_made(const kt__shelf_model *m) {
    kt__buf text;
    kt_error ignored;
    if (!m->is_made) return;
    kt__buf_init(&text, KT__MODELFILE_MAX_BYTES);
    if (kt__files_read(m->path, &text, &ignored) == KT_OK && text.len) putchar('\n');
    for (const char *at = text.data ? text.data : ""; *at;) {
        size_t len = strcspn(at, "\n");
        kt__safe_print(stdout, at, len, 0);
        putchar('\n');
        at += len + (at[len] == '\n');
    }
    kt__buf_free(&text);
}

static void show_model(const cabinet *c, const kt__shelf_model *m, kt_ctx *ctx) {
    char size[32], used[32];
    model_facts facts;
    read_facts(m, ctx, &facts);
    size_text(m->bytes, size);
    day_text(m->used_s, used);
    fputs("name       ", stdout);
    kt__safe_line(stdout, m->name);
    fputs(is_default(c, m) ? " (default)\npath       " : "\npath       ", stdout);
    kt__safe_line(stdout, m->path);
    puts(m->is_link ? " (a further name)" : "");
    printf("size       %s in %d file%s\n", size, m->n_files, m->n_files > 1 ? "s" : "");
    printf("is         %s %s\n", facts.arch, facts.quant);
    printf("last used  %s\n", used);
    print_origin(m);
    print_made(m);
    if (!facts.readable) printf("it cannot be opened: `kentang inspect %s` says why\n", m->path);
}

int kt__cmd_show(int argc, char **argv) {
    const kt__syntax syntax = {.command = "show",
                               .usage = "NAME|FILE",
                               .about = "What a model is, where it lies and where it came from. "
                                        "`kentang inspect` looks into a file.",
                               .min_words = 1,
                               .max_words = 1,
                               .word = "NAME"};
    cabinet c;
    kt_ctx *ctx = NULL;
    kt_error err;
    kt_status status;
    kt__shelf_model other;
    const kt__shelf_model *m;
    const char *word = NULL;
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, &word, &n_words);
    if (code >= 0) return code;
    KT__TRY(cabinet_open(&c, &err));
    if (!find_at_path(&c, word, &other, &m)) KT__TRY(find_required(&c, word, &m, &err));
    KT__TRY(open_reader(&ctx, &err));
    show_model(&c, m, ctx);
out:
    kt_ctx_close(ctx);
    cabinet_close(&c);
    return status == KT_OK ? 0 : kt__cli_fail("show", &err);
}

/* ---- rm ---- */

enum { MAX_NAMES = 64 };

typedef struct rm_opts {
    bool unfinished;
} rm_opts;

static const kt__opt rm_table[] = {
    {.name = "unfinished",
     .kind = KT__OPT_ON,
     .at = 0,
     .help = "what is left of downloads that broke off"},
};

/* What a created model needs stays as long as that is there. */
static kt_status remove_model(const cabinet *c, const kt__shelf_model *m, kt_error *err) {
    char *other;
    KT__STEP(kt__made_of(&c->shelf, m, &other, err));
    kt_status status = other ? kt__fail(err, KT_E_STATE,
                                        "\"%.80s\" was created from %.80s: remove that first",
                                        other, m->name)
                             : kt__shelf_remove(&c->shelf, m, err);
    kt__free(other);
    return status;
}

/* All names are looked up before the first file goes. */
static kt_status remove_models(const cabinet *c, const char *const *names, size_t n,
                               kt_error *err) {
    const kt__shelf_model *found[MAX_NAMES];
    kt_status status = KT_OK;
    for (size_t i = 0; i < n && status == KT_OK; i++)
        status = find_required(c, names[i], &found[i], err);
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        status = remove_model(c, found[i], err);
        if (status == KT_OK) fprintf(stderr, "kentang: removed %s\n", found[i]->name);
    }
    return status;
}

int kt__cmd_rm(int argc, char **argv) {
    rm_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", rm_table, KT__COUNT(rm_table), &opts}};
    const kt__syntax syntax = {.command = "rm",
                               .usage = "NAME... | --unfinished",
                               .about = "Removes models from the folder of models. A further name "
                                        "goes alone; the model stays.",
                               .groups = groups,
                               .n_groups = 1,
                               .max_words = MAX_NAMES,
                               .word = "NAME"};
    cabinet c;
    kt_error err;
    const char *words[MAX_NAMES] = {NULL};
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code >= 0) return code;
    if (!n_words && !opts.unfinished) return kt__cli_usage_error("rm", "which model?");
    kt_status status = cabinet_open(&c, &err);
    if (status == KT_OK) status = remove_models(&c, words, n_words, &err);
    if (status == KT_OK && opts.unfinished) (void)kt__pull_unfinished(c.shelf.root, true);
    cabinet_close(&c);
    return status == KT_OK ? 0 : kt__cli_fail("rm", &err);
}
