#include "setup/model_file.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "setup/made.h"
#include "store/hub.h"
#include "store/load_in.h"
#include "term/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"

/* ---- names ---- */

enum { MAX_PATH = 4096 };

/* ---- settings ---- */

kt_status kt__model_name_config(kt__config **out, kt_error *err) {
    char found[MAX_PATH];
    const char *path = getenv("KENTANG_CONFIG");
    kt__config *config = NULL;
    kt_status status;
    *out = NULL;
    KT__TRY(kt__config_create(&config, err));
    if (!path && kt__config_find_file(found, sizeof found)) path = found;
    if (path && *path) KT__TRY(kt__config_read_file(config, path, err));
    KT__TRY(kt__config_read_environment(config, kt__process_environment(), NULL, err));
    KT__TRY(kt__config_finish(config, err));
    *out = config;
    config = NULL;
out:
    kt__config_free(config);
    return status;
}

kt__store kt__model_name_store(const kt__config *config) {
    return (kt__store){.dir = config->models_dir,
                       .hub = config->hub,
                       .token_file = config->hub_token,
                       .offline = config->offline};
}

/* ---- getting one ---- */

kt_status kt__model_name_pull(const kt__store *store, const char *name, kt__pull_report *report,
                              kt_error *err) {
    kt__byte_progress progress = {0};
    const kt__pull_params params = {store, name,
                                    kt__fd_is_terminal(KT__STDERR) ? kt__byte_progress_show : NULL,
                                    &progress, NULL};
    kt_status status = kt__pull(&params, report, err);
    kt__byte_progress_end(&progress);
    if (status != KT_OK) return status;
    fprintf(stderr, "kentang: %s%s: %.1f MB, %d file%s%s (%s%s%s)\n",
            report->was_there ? "there already: " : "", report->path, (double)report->bytes / 1e6,
            report->n_files, report->n_files > 1 ? "s" : "",
            report->n_checked == report->n_files ? ", checksum good"
            : report->n_checked                  ? ", most with a checksum, which is good"
                                                 : ", the hub has no checksum",
            report->source, report->revision[0] ? " at " : "", report->revision);
    return KT_OK;
}

/* What run and serve fetch without being told to: names that can mean nothing else. */
static bool is_remote(const char *name) {
    return !strncmp(name, "hf:", 3) || !strncmp(name, "http://", 7) ||
           !strncmp(name, "https://", 8);
}

static kt_status fetch_named(const kt__store *store, const char *name, char **path, kt_error *err) {
    kt__pull_report report;
    kt_status status = kt__model_name_pull(store, name, &report, err);
    if (status != KT_OK) return status;
    *path = kt__strdup(report.path);
    return *path ? KT_OK : kt__fail_nomem(err, "a path", strlen(report.path));
}

/* ---- looking one up ---- */

static kt_status fail_unknown(const kt__shelf *shelf, const char *name, kt_error *err) {
    const char **names = kt__calloc(shelf->n + 1, sizeof *names);
    const char *near = NULL;
    for (size_t i = 0; names && i < shelf->n; i++) {
        const char *slash = strrchr(shelf->models[i].name, '/');
        names[i] = slash ? slash + 1 : shelf->models[i].name;
    }
    if (names) near = kt__nearest_name(name, strlen(name), names, shelf->n);
    kt_status status = kt__fail(err, KT_E_ARG,
                                "no file \"%.80s\", and no model of that name%s%.80s%s: `kentang "
                                "list` shows those that are here, `kentang pull` gets others",
                                name, near ? "; did you mean \"" : "", near ? near : "",
                                near ? "\"?" : "");
    kt__free(names);
    return status;
}

static kt_status find_on_shelf(const kt__store *store, const char *name, bool required, char **path,
                               kt_error *err) {
    char dir[MAX_PATH];
    kt__shelf shelf;
    const kt__shelf_model *model = NULL;
    if (!kt__store_dir(store, dir, sizeof dir)) snprintf(dir, sizeof dir, "/nonexistent");
    kt_status status = kt__shelf_open(dir, &shelf, err);
    if (status == KT_OK) status = kt__shelf_find(&shelf, name, &model, err);
    if (status == KT_OK && model) {
        char *real = realpath(model->path,
                              NULL); /* a split set's parts lie next to the file itself */
        kt__shelf_touch(model->path);
        *path = kt__strdup(real ? real : model->path);
        free(real);
        if (!*path) status = kt__fail_nomem(err, "a path", strlen(model->path));
    } else if (status == KT_OK && required) {
        status = fail_unknown(&shelf, name, err);
    }
    kt__shelf_close(&shelf);
    return status;
}

/* ---- quantising what is loaded ---- */

static void note_line(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "kentang: note: %s\n", line);
}

/* What was measured on the built-in model (docs/BENCHMARKS.md), and how to measure this one. */
static void tell_quality(const kt__load_in_report *r, const char *source) {
    static const struct {
        const char *recipe, *loss;
    } measured[] = {{"iq4_xs", "97.2% of most probable tokens stay the same, KL 0.011"},
                    {"q8_0", "99.7% of most probable tokens stay the same, KL 0.0001"}};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (!strcmp(r->recipe, measured[i].recipe))
            fprintf(
                stderr,
                "kentang: expected change of quality, measured on the built-in model: %s; of this "
                "one: kentang perplexity -m %s --kl AS-IS.gguf -f TEXT\n",
                measured[i].loss, source);
}

static void tell_copy(const kt__load_in_report *r, const char *source) {
    if (r->is_source || r->was_there) return;
    double before = (double)r->bytes_before / 1e6, after = (double)r->bytes_after / 1e6;
    fprintf(stderr, "kentang: %s in %s: %.1f -> %.1f MB (%+.0f%%) in %.1f s, kept as %s\n", source,
            r->recipe, before, after, before > 0 ? (after - before) / before * 100.0 : 0.0,
            (double)r->ms / 1e3, r->path);
    tell_quality(r, source);
}

/* The path of the copy takes the place of the source's. */
static kt_status load_in_form(const kt__config *config, const char *load_in, char **path,
                              kt_error *err) {
    kt__byte_progress progress = {0};
    kt__load_in_report report;
    const char *form = load_in ? load_in : config->load_in;
    const kt__load_in load = {.source = *path,
                              .form = form && *form ? form : NULL,
                              .max_bytes = config->load_in_max,
                              .notes = {note_line, NULL},
                              .progress = kt__fd_is_terminal(KT__STDERR) ? kt__byte_progress_show
                                                                         : NULL,
                              .user = &progress};
    kt_status status = kt__load_in_prepare(&load, &report, err);
    kt__byte_progress_end(&progress);
    if (status != KT_OK) return status;
    tell_copy(&report, *path);
    kt__free(*path);
    *path = kt__strdup(report.path);
    return *path ? KT_OK : kt__fail_nomem(err, "a path", strlen(report.path));
}

/* ---- the whole ---- */

/* A file, or what can be nothing else: opening it says what is wrong with it. */
static bool is_path(const char *name) {
    return kt__files_is_absolute(name) || name[0] == '.' || kt__file_exists(name);
}

/* The weights of a created model are another one's; those inside the program have no path. */
static kt_status find_base(const kt__store *store, const kt__modelfile *file, char **path,
                           kt_error *err) {
    const char *from = kt__modelfile_get(file, KT__MODELFILE_FROM);
    if (!from) return kt__fail(err, KT_E_FORMAT, "a modelfile without FROM");
    if (!strcmp(from, KT__MADE_DEMO)) return KT_OK;
    if (!kt__files_is_absolute(from)) return find_on_shelf(store, from, true, path, err);
    *path = kt__strdup(from);
    return *path ? KT_OK : kt__fail_nomem(err, "a path", strlen(from));
}

static kt_status find_source(const kt__config *config, const char *name, bool prepare, char **path,
                             kt_error *err) {
    kt__store store = kt__model_name_store(config);
    kt__modelfile file;
    bool made = false;
    kt_status made_status = KT_OK;
    if (!is_path(name)) {
        made_status = kt__made_find(&store, name, &file, &made, err);
        if (made && made_status == KT_OK) made_status = find_base(&store, &file, path, err);
        kt__modelfile_free(&file);
    }
    if (made || made_status != KT_OK) return made_status;
    if (is_path(name)) {
        *path = kt__strdup(name);
        return *path ? KT_OK : kt__fail_nomem(err, "a path", strlen(name));
    }
    kt_status status = find_on_shelf(&store, name, !is_remote(name), path, err);
    if (status != KT_OK || *path || !prepare) return status;
    return fetch_named(&store, name, path, err);
}

kt_status kt__model_name_file(const kt__config *config, const char *name, const char *load_in,
                              bool prepare, char **path, kt_error *err) {
    *path = NULL;
    kt_status status = find_source(config, name, prepare, path, err);
    if (status == KT_OK && *path && prepare) status = load_in_form(config, load_in, path, err);
    if (status == KT_OK) return KT_OK;
    kt__free(*path);
    *path = NULL;
    return status;
}

/* A command that opens a model alone takes the weights of a created one, and says so. */
static void tell_made(const kt__config *config, const char *name) {
    kt__store store = kt__model_name_store(config);
    kt__modelfile file;
    kt_error ignored;
    bool made = false;
    if (is_path(name)) return;
    if (kt__made_find(&store, name, &file, &made, &ignored) == KT_OK && made)
        fprintf(stderr,
                "kentang: %s has the weights of %s; its template, parameters and messages hold for "
                "`kentang serve` alone\n",
                name, kt__modelfile_get(&file, KT__MODELFILE_FROM));
    kt__modelfile_free(&file);
}

static kt_status find_configured(const char *name, const char *load_in, bool prepare, char **path,
                                 kt_error *err) {
    kt__config *config;
    kt_status status = kt__model_name_config(&config, err);
    if (status != KT_OK) return status;
    const kt__model_config *known = !name           ? &config->models[0]
                                    : is_path(name) ? NULL
                                                    : kt__config_find_model(config, name);
    bool demo = known ? !known->path : !strcmp(name, "demo") && !is_path(name);
    if (known) name = known->path;
    if (known && !load_in) load_in = known->load_in;
    if (!demo) status = kt__model_name_file(config, name, load_in, prepare, path, err);
    if (!demo && prepare && status == KT_OK) tell_made(config, name);
    kt__config_free(config);
    return status;
}

kt_status kt__model_name_find(const char *name, const char *load_in, char **path, kt_error *err) {
    *path = NULL;
    return find_configured(name, load_in, true, path, err);
}

bool kt__model_name_exists(const char *name) {
    char *path = NULL;
    kt_error ignored;
    bool exists = kt__file_exists(name) ||
                  (!is_path(name) && find_configured(name, NULL, false, &path, &ignored) == KT_OK);
    kt__free(path);
    return exists;
}

/* ---- the part that sees ---- */

bool kt__mmproj_find(const char *path, char *out, size_t size) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    int folder_len = slash ? (int)(slash - path) : 1;
    const char *folder = !slash ? "." : folder_len ? path : "/";
    char name[4096];
    int n_found = 0;
    if (!path || kt__name_is_mmproj(path)) return false;
    if (snprintf(name, sizeof name, "%.*s", folder_len ? folder_len : 1, folder) >=
        (int)sizeof name)
        return false;
    kt__listing *dir = kt__listing_open(name);
    if (!dir) return false;
    for (const char *e = kt__listing_next(dir); e && n_found < 2; e = kt__listing_next(dir)) {
        if (!kt__name_is_mmproj(e)) continue;
        n_found++;
        if (snprintf(out, size, "%s/%s", name, e) >= (int)size) n_found = 2;
    }
    kt__listing_close(dir);
    return n_found == 1;
}
