#include "services/created.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "setup/model_file.h"

enum { MAX_NAME = 512 };

kt_status kt__created_add_all(const kt__config *config, kt__slog *log, kt__models *models,
                              kt_error *err) {
    kt__store store = kt__model_name_store(config);
    kt__shelf shelf;
    kt_status status = kt__store_shelf(&store, &shelf, err);
    for (size_t i = 0; i < shelf.n && status == KT_OK; i++) {
        status = kt__models_add(models, shelf.models[i].name, err);
        if (status == KT_OK || status == KT_E_LIMIT || status == KT_E_NOMEM) continue;
        kt__slog_line(log, KT_LOG_WARN, "%s is not served: %s", shelf.models[i].name, err->message);
        status = KT_OK;
    }
    kt__shelf_close(&shelf);
    if (status != KT_E_LIMIT) return status;
    kt__slog_line(log, KT_LOG_WARN, "%s: the rest of models_dir is not", err->message);
    return KT_OK;
}

/* The one that is served by exactly this name; NULL: none is. */
static kt__served *served_as(kt__models *models, const char *name) {
    for (size_t i = 0; i < kt__models_count(models); i++) {
        kt__served *s = kt__models_at(models, i);
        if (!strcmp(kt__served_name(s), name) && !kt__served_is_gone(s)) return s;
    }
    return NULL;
}

static kt_status refuse_configured(const char *name, kt_error *err) {
    return kt__fail_at(err, KT_E_STATE, "model", UINT64_MAX,
                       "model: \"%.80s\" is configured in this server, and stays as it is", name);
}

static kt_status refuse_use(kt__served *s, kt_error *err) {
    kt__served_info info;
    kt__served_get_info(s, &info);
    if (!info.users) return KT_OK;
    return kt__fail(err, KT_E_BUSY, "the model \"%.80s\" answers or is being loaded",
                    kt__served_name(s));
}

/* ---- creating ---- */

/* A model that the configuration names by a path gives that: its weights lie outside of the folder. */
static kt_status place_from(kt__models *models, kt__modelfile *file, kt_error *err) {
    const char *from = kt__modelfile_get(file, KT__MODELFILE_FROM), *path = NULL;
    kt__served *served;
    kt_error ignored;
    if (!from || !*from)
        return kt__fail_at(err, KT_E_ARG, "from", UINT64_MAX,
                           "from: is missing: it names the model whose weights these are");
    if (strchr("/.~", from[0]) || strstr(from, "://"))
        return kt__fail_at(err, KT_E_ARG, "from", UINT64_MAX,
                           "from: expected the name of a model that is here; files of the server's "
                           "machine are for `kentang create`");
    if (kt__models_find_tagged(models, from, &served, &ignored) != KT_OK) return KT_OK;
    if (kt__served_is_added(served)) {
        path = kt__served_name(served);
    } else {
        path = kt__served_path(served);
        if (!path) path = KT__MADE_DEMO;
    }
    char *real = kt__served_is_added(served) ? NULL : realpath(path, NULL);
    kt__modelfile_remove(file, KT__MODELFILE_FROM);
    kt_status status = kt__modelfile_add(file, KT__MODELFILE_FROM, NULL, real ? real : path, err);
    free(real);
    return status;
}

static kt_status refuse_adapters(const kt__modelfile *file, kt_error *err) {
    if (!kt__modelfile_get(file, KT__MODELFILE_ADAPTER)) return KT_OK;
    return kt__fail_at(
        err, KT_E_UNSUPPORTED, "adapters", UINT64_MAX,
        "adapters: files of the server's machine are for `kentang create`, or for the "
        "setting `adapters`, which requests name in `adapter`");
}

kt_status kt__created_make(const kt__config *config, kt__models *models, const char *name,
                           kt__modelfile *file, kt_error *err) {
    kt__store store = kt__model_name_store(config);
    char own[MAX_NAME];
    KT__STEP(kt__made_name(name, own, sizeof own, err));
    kt__served *there = served_as(models, own);
    if (there && !kt__served_is_added(there)) return refuse_configured(own, err);
    if (there) KT__STEP(refuse_use(there, err));
    KT__STEP(refuse_adapters(file, err));
    KT__STEP(place_from(models, file, err));
    KT__STEP(kt__made_create(&store, config, own, file, err));
    return kt__models_add(models, own, err);
}

/* ---- copying, deleting ---- */

/* By its whole name, as a person writes it: NAME, NAME:TAG. */
static const kt__shelf_model *find_whole(const kt__shelf *shelf, const char *name) {
    char own[MAX_NAME];
    kt_error ignored;
    if (kt__made_name(name, own, sizeof own, &ignored) != KT_OK) return NULL;
    for (size_t i = 0; i < shelf->n; i++)
        if (!strcmp(shelf->models[i].name, own)) return &shelf->models[i];
    return NULL;
}

kt_status kt__created_copy(const kt__config *config, kt__models *models, const char *from,
                           const char *to, bool *found, kt_error *err) {
    kt__store store = kt__model_name_store(config);
    kt__shelf shelf;
    char own[MAX_NAME];
    kt_status status;
    *found = true;
    KT__STEP(kt__made_name(to, own, sizeof own, err));
    if (served_as(models, own))
        return kt__fail_at(err, KT_E_STATE, "destination", UINT64_MAX,
                           "destination: there is a model \"%.80s\" already: delete it first", own);
    KT__TRY(kt__store_shelf(&store, &shelf, err));
    const kt__shelf_model *model = find_whole(&shelf, from);
    *found = model != NULL;
    if (!model)
        KT__TRY(kt__fail_at(err, KT_E_ARG, "source", UINT64_MAX,
                            "source: there is no model \"%.80s\" in the server's folder of models",
                            from));
    KT__TRY(kt__shelf_copy(&shelf, own, model, err));
    status = kt__models_add(models, own, err);
out:
    kt__shelf_close(&shelf);
    return status;
}

/* Whether the configuration opens one of its models by this one. */
static bool is_configured(kt__models *models, const kt__shelf *shelf,
                          const kt__shelf_model *model) {
    for (size_t i = 0; i < kt__models_count(models); i++) {
        const kt__served *s = kt__models_at(models, i);
        const char *path = kt__served_path(s);
        const kt__shelf_model *found = NULL;
        kt_error ignored;
        if (kt__served_is_added(s) || !path) continue;
        if (!strcmp(path, model->path)) return true;
        if (kt__shelf_find(shelf, path, &found, &ignored) == KT_OK && found == model) return true;
    }
    return false;
}

static kt_status refuse_base(const kt__shelf *shelf, const kt__shelf_model *model, kt_error *err) {
    char *other;
    KT__STEP(kt__made_of(shelf, model, &other, err));
    if (!other) return KT_OK;
    kt_status status = kt__fail_at(err, KT_E_STATE, "model", UINT64_MAX,
                                   "model: \"%.80s\" was created from \"%.80s\": delete that first",
                                   other, model->name);
    kt__free(other);
    return status;
}

kt_status kt__created_delete(const kt__config *config, kt__models *models, const char *name,
                             bool *found, kt_error *err) {
    kt__store store = kt__model_name_store(config);
    kt__shelf shelf;
    kt__served *served;
    kt_status status;
    *found = true;
    KT__TRY(kt__store_shelf(&store, &shelf, err));
    const kt__shelf_model *model = find_whole(&shelf, name);
    *found = model != NULL;
    if (!model)
        KT__TRY(kt__fail_at(err, KT_E_ARG, "model", UINT64_MAX,
                            "model: there is no model \"%.80s\" in the server's folder of models",
                            name));
    if (is_configured(models, &shelf, model)) KT__TRY(refuse_configured(model->name, err));
    served = served_as(models, model->name);
    KT__TRY(refuse_base(&shelf, model, err));
    KT__TRY(kt__shelf_remove(&shelf, model, err));
    if (served) kt__served_forget(served);
out:
    kt__shelf_close(&shelf);
    return status;
}
