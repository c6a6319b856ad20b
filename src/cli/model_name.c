#include "cli/model_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/nearest.h"
#include "cli/byte_progress.h"

extern char **environ;

enum { MAX_PATH = 4096 };

/* ---- settings ---- */

kt_status kt__model_name_config(kt__config **out, kt_error *err) {
    char found[MAX_PATH];
    const char *path = getenv("KENTANG_CONFIG");
    kt__config *config;
    kt_status status = kt__config_create(&config, err);
    *out = NULL;
    if (status != KT_OK) return status;
    if (!path && kt__config_find_file(found, sizeof found)) path = found;
    if (path && *path) status = kt__config_read_file(config, path, err);
    if (status == KT_OK) status = kt__config_read_environment(config, environ, NULL, err);
    if (status == KT_OK) status = kt__config_finish(config, err);
    if (status == KT_OK)
        *out = config;
    else
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
    const kt__pull_params params = {
        store, name, isatty(STDERR_FILENO) ? kt__byte_progress_show : NULL, &progress};
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
                              NULL); /* a split set's parts lie beside the file itself */
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

/* A file, or what can be nothing else: opening it says what is wrong with it. */
static bool is_path(const char *name) {
    return name[0] == '/' || name[0] == '.' || access(name, F_OK) == 0;
}

kt_status kt__model_name_file(const kt__config *config, const char *name, bool prepare, char **path,
                              kt_error *err) {
    kt__store store = kt__model_name_store(config);
    *path = NULL;
    if (is_path(name)) {
        *path = kt__strdup(name);
        return *path ? KT_OK : kt__fail_nomem(err, "a path", strlen(name));
    }
    kt_status status = find_on_shelf(&store, name, !is_remote(name), path, err);
    if (status != KT_OK || *path || !prepare) return status;
    return fetch_named(&store, name, path, err);
}

static kt_status find_configured(const char *name, bool prepare, char **path, kt_error *err) {
    kt__config *config;
    kt_status status = kt__model_name_config(&config, err);
    if (status != KT_OK) return status;
    const kt__model_config *known = name ? kt__config_find_model(config, name) : &config->models[0];
    bool demo = known ? !known->path : !strcmp(name, "demo");
    if (!demo) status = kt__model_name_file(config, known ? known->path : name, prepare, path, err);
    kt__config_free(config);
    return status;
}

kt_status kt__model_name_find(const char *name, char **path, kt_error *err) {
    *path = NULL;
    if (!name || !is_path(name)) return find_configured(name, true, path, err);
    *path = kt__strdup(name);
    return *path ? KT_OK : kt__fail_nomem(err, "a path", strlen(name));
}

bool kt__model_name_exists(const char *name) {
    char *path = NULL;
    kt_error ignored;
    bool exists = access(name, F_OK) == 0 ||
                  (!is_path(name) && find_configured(name, false, &path, &ignored) == KT_OK);
    kt__free(path);
    return exists;
}
