#include "store/shelf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "store/hub.h"

enum { MAX_PATH = 4096, MAX_DEPTH = 6, MAX_MODELS = 65536 };

/* ---- what lies there ---- */

static bool is_part_of_set(const char *name) {
    int part, n;
    size_t stem;
    return kt__name_split(name, &part, &n, &stem) && part > 1;
}

static const char made_end[] = ".modelfile";

static bool is_made_name(const char *name) {
    size_t len = strlen(name), n = sizeof made_end - 1;
    return len > n && !strcmp(name + len - n, made_end);
}

/* A file's name as a model's: without .gguf and a split set's number. */
static size_t model_name_len(const char *name) {
    int part, n;
    size_t stem, len = strlen(name);
    if (is_made_name(name)) return len - (sizeof made_end - 1);
    if (kt__name_split(name, &part, &n, &stem)) return stem;
    return kt__name_is_gguf(name) ? len - strlen(".gguf") : len;
}

static kt_status add_model(kt__shelf *s, const char *path, const kt__shelf_model *facts,
                           kt_error *err) {
    const char *name = path + strlen(s->root) + 1;
    if (s->n == MAX_MODELS)
        return kt__fail(err, KT_E_LIMIT, "more than %d models in %.200s", (int)MAX_MODELS, s->root);
    if (!kt__vec_reserve(s->models, s->cap, s->n + 1))
        return kt__fail_nomem(err, "a list of models", s->n);
    kt__shelf_model *m = &s->models[s->n++];
    *m = *facts;
    m->name = kt__strndup(name, facts->is_folder ? strlen(name) : model_name_len(name));
    m->path = kt__strdup(path);
    return m->name && m->path ? KT_OK : kt__fail_nomem(err, "a model's name", strlen(path));
}

/* Adds what the parts after the first weigh. */
static void add_parts(const char *path, kt__shelf_model *facts) {
    char sibling[MAX_PATH];
    struct stat st;
    int part, n;
    size_t stem;
    if (!kt__name_split(path, &part, &n, &stem) || strlen(path) >= sizeof sibling) return;
    for (int i = 2; i <= n; i++) {
        snprintf(sibling, sizeof sibling, "%.*s-%05d-of-%05d.gguf", (int)stem, path, i, n);
        if (stat(sibling, &st) != 0) continue;
        facts->bytes += (uint64_t)st.st_size;
        facts->n_files++;
    }
}

static kt_status add_file(kt__shelf *s, const char *path, bool is_link, const struct stat *st,
                          kt_error *err) {
    kt__shelf_model facts = {.is_link = is_link,
                             .is_made = is_made_name(path),
                             .n_files = 1,
                             .bytes = (uint64_t)st->st_size,
                             .added_s = st->st_mtime,
                             .used_s = st->st_atime};
    if (!is_link) add_parts(path, &facts);
    return add_model(s, path, &facts, err);
}

typedef struct folder_facts {
    bool has_config, has_weights;
    kt__shelf_model model;
} folder_facts;

static void note_folder_file(folder_facts *f, const char *name, const struct stat *st) {
    size_t len = strlen(name);
    if (kt__name_is_gguf(name) || is_made_name(name)) return;
    if (!strcmp(name, "config.json")) {
        f->has_config = true;
        f->model.used_s = st->st_atime;
        f->model.added_s = st->st_mtime;
    }
    f->has_weights |= len > 12 && !strcmp(name + len - 12, ".safetensors");
    f->model.bytes += (uint64_t)st->st_size;
    f->model.n_files++;
}

static kt_status scan_folder(kt__shelf *s, const char *path, int depth, kt_error *err);

static kt_status scan_entry(kt__shelf *s, const char *dir, const char *name, int depth,
                            folder_facts *facts, kt_error *err) {
    char path[MAX_PATH];
    struct stat st, link;
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (name[0] == '.' || n < 0 || (size_t)n >= sizeof path) return KT_OK;
    if (lstat(path, &link) != 0 || stat(path, &st) != 0) return KT_OK;
    bool is_link = S_ISLNK(link.st_mode);
    if (S_ISDIR(st.st_mode))
        return is_link || depth == MAX_DEPTH ? KT_OK : scan_folder(s, path, depth + 1, err);
    if (!S_ISREG(st.st_mode)) return KT_OK;
    note_folder_file(facts, name, &st);
    bool listed = is_made_name(name) || (kt__name_is_gguf(name) && !kt__name_is_mmproj(name) &&
                                         (is_link || !is_part_of_set(name)));
    return listed ? add_file(s, path, is_link, &st, err) : KT_OK;
}

static kt_status scan_folder(kt__shelf *s, const char *path, int depth, kt_error *err) {
    folder_facts facts = {.model = {.is_folder = true}};
    const struct dirent *entry;
    kt_status status = KT_OK;
    DIR *dir = opendir(path);
    if (!dir && errno == ENOENT) return KT_OK;
    if (!dir) return kt__fail_system(err, errno, path, "cannot read the folder of models");
    while (status == KT_OK && (entry = readdir(dir)))
        status = scan_entry(s, path, entry->d_name, depth, &facts, err);
    closedir(dir);
    if (status == KT_OK && depth > 0 && facts.has_config && facts.has_weights)
        status = add_model(s, path, &facts.model, err);
    return status;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const kt__shelf_model *)a)->name, ((const kt__shelf_model *)b)->name);
}

kt_status kt__shelf_open(const char *root, kt__shelf *out, kt_error *err) {
    size_t len = strlen(root);
    while (len > 1 && root[len - 1] == '/') len--;
    *out = (kt__shelf){.root = kt__strndup(root, len)};
    if (!out->root) return kt__fail_nomem(err, "a path", len);
    kt_status status = scan_folder(out, out->root, 0, err);
    if (out->n) qsort(out->models, out->n, sizeof *out->models, compare_names);
    return status;
}

void kt__shelf_close(kt__shelf *shelf) {
    for (size_t i = 0; i < shelf->n; i++) {
        kt__free(shelf->models[i].name);
        kt__free(shelf->models[i].path);
    }
    kt__free(shelf->models);
    kt__free(shelf->root);
    *shelf = (kt__shelf){0};
}

/* ---- finding one ---- */

/* A name as it was typed, taken apart. */
typedef struct asked_name {
    char name[KT__NAME_MAX + 1]; /* without "hf:", ".gguf" and tag */
    char tag[128];
    size_t len;
} asked_name;

static bool take_apart(const char *text, asked_name *out) {
    static const char *const heads[] = {"hf:", "hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (!strncmp(text, heads[i], strlen(heads[i]))) text += strlen(heads[i]);
    const char *colon = strrchr(text, ':');
    if (colon && strchr(colon, '/')) colon = NULL;
    size_t len = colon ? (size_t)(colon - text) : model_name_len(text);
    const char *tag = colon ? colon + 1 : "";
    if (len >= sizeof out->name || strlen(tag) >= sizeof out->tag) return false;
    memcpy(out->name, text, len);
    out->name[len] = '\0';
    snprintf(out->tag, sizeof out->tag, "%s", tag);
    out->len = len;
    return len > 0;
}

/* What of the model's name follows "NAME/"; NULL: it does not begin so. */
static const char *below_name(const kt__shelf_model *m, const asked_name *a) {
    return !strncmp(m->name, a->name, a->len) && m->name[a->len] == '/' ? m->name + a->len + 1
                                                                        : NULL;
}

static bool fits_name(const kt__shelf_model *m, const asked_name *a) {
    return !a->tag[0] && !strcmp(m->name, a->name);
}

static bool fits_tag(const kt__shelf_model *m, const asked_name *a) {
    const char *rest = below_name(m, a);
    return rest && a->tag[0] && (!strcmp(rest, a->tag) || kt__name_has_tag(rest, a->tag));
}

static bool fits_latest(const kt__shelf_model *m, const asked_name *a) {
    const char *rest = below_name(m, a);
    return rest && !a->tag[0] && !strcmp(rest, "latest");
}

static bool fits_repository(const kt__shelf_model *m, const asked_name *a) {
    return !a->tag[0] && below_name(m, a);
}

static bool fits_end(const kt__shelf_model *m, const asked_name *a) {
    size_t len = strlen(m->name);
    return !a->tag[0] && len >= a->len && !kt__strcasecmp(m->name + len - a->len, a->name) &&
           (len == a->len || m->name[len - a->len - 1] == '/');
}

static kt_status fail_several(const kt__shelf *s, const char *name, const asked_name *a,
                              bool (*fits)(const kt__shelf_model *, const asked_name *),
                              kt_error *err) {
    char names[360] = "";
    size_t at = 0;
    for (size_t i = 0; i < s->n && at + 80 < sizeof names; i++)
        if (fits(&s->models[i], a))
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%.70s", at ? ", " : "",
                                   s->models[i].name);
    return kt__fail(err, KT_E_ARG, "\"%.80s\" may be one of several models: %s", name, names);
}

kt_status kt__shelf_find(const kt__shelf *shelf, const char *name, const kt__shelf_model **out,
                         kt_error *err) {
    static bool (*const rules[])(const kt__shelf_model *, const asked_name *) = {
        fits_name, fits_tag, fits_latest, fits_repository, fits_end};
    asked_name asked;
    *out = NULL;
    if (!take_apart(name, &asked)) return KT_OK;
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        int n = 0;
        for (size_t i = 0; i < shelf->n; i++) {
            if (!rules[k](&shelf->models[i], &asked)) continue;
            *out = &shelf->models[i];
            n++;
        }
        if (n > 1) return fail_several(shelf, name, &asked, rules[k], err);
        if (n == 1) return KT_OK;
    }
    return KT_OK;
}

const kt__shelf_model *kt__shelf_at(const kt__shelf *shelf, const char *path) {
    for (size_t i = 0; i < shelf->n; i++)
        if (!strcmp(shelf->models[i].path, path)) return &shelf->models[i];
    return NULL;
}

void kt__shelf_touch(const char *path) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    char config[MAX_PATH];
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        snprintf(config, sizeof config, "%s/config.json", path);
        path = config;
    }
    (void)utimensat(AT_FDCWD, path, times, 0);
}

/* ---- changing what lies there ---- */

void kt__shelf_origin_path(const char *path, bool is_folder, char *out, size_t size) {
    const char *slash = strrchr(path, '/');
    if (is_folder || !slash)
        snprintf(out, size, "%s/.origin", path);
    else
        snprintf(out, size, "%.*s/.%s.origin", (int)(slash - path), path, slash + 1);
}

void kt__make_parents(const char *path) {
    char copy[MAX_PATH];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(copy, 0777); /* what is missing then shows when the file is created */
        *slash = '/';
    }
}

static kt_status remove_file(const char *path, kt_error *err) {
    if (unlink(path) == 0 || errno == ENOENT) return KT_OK;
    return kt__fail_system(err, errno, path, "cannot remove the file");
}

/* The first part goes last, so that a model that is still named is still whole. */
static kt_status remove_set(const kt__shelf_model *m, kt_error *err) {
    char path[MAX_PATH];
    int part, n = 1;
    size_t stem;
    kt_status status = KT_OK;
    if (m->is_link || !kt__name_split(m->path, &part, &n, &stem)) n = 1;
    for (int i = n; i > 1 && status == KT_OK; i--) {
        snprintf(path, sizeof path, "%.*s-%05d-of-%05d.gguf", (int)stem, m->path, i, n);
        status = remove_file(path, err);
    }
    return status == KT_OK ? remove_file(m->path, err) : status;
}

/* config.json makes a folder a model: it goes first. */
static kt_status remove_folder(const kt__shelf_model *m, kt_error *err) {
    char path[MAX_PATH];
    const struct dirent *entry;
    struct stat st;
    snprintf(path, sizeof path, "%s/config.json", m->path);
    kt_status status = remove_file(path, err);
    DIR *dir = status == KT_OK ? opendir(m->path) : NULL;
    while (dir && status == KT_OK && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s", m->path, entry->d_name);
        bool ours = entry->d_name[0] != '.' && !kt__name_is_gguf(entry->d_name) &&
                    !is_made_name(entry->d_name);
        if (ours && lstat(path, &st) == 0 && !S_ISDIR(st.st_mode)) status = remove_file(path, err);
    }
    if (dir) closedir(dir);
    return status;
}

/* Folders that are empty now, up to the root, which stays. */
static void remove_empty(const kt__shelf *shelf, const char *path) {
    char copy[MAX_PATH];
    snprintf(copy, sizeof copy, "%s/", path);
    for (char *slash = strrchr(copy, '/'); slash > copy + strlen(shelf->root);
         slash = strrchr(copy, '/')) {
        *slash = '\0';
        if (rmdir(copy) != 0 && errno != ENOTDIR && errno != ENOENT) return;
    }
}

/* With the last model of a folder go the parts that see pictures, which are no model. */
static kt_status remove_mmproj(const kt__shelf *shelf, const kt__shelf_model *model,
                               kt_error *err) {
    char path[MAX_PATH];
    const struct dirent *entry;
    struct stat st;
    kt_status status = KT_OK;
    int folder = (int)(kt__files_name(model->path) - model->path);
    if (folder <= (int)strlen(shelf->root) + 1) return KT_OK; /* the root has models of all kinds */
    for (size_t i = 0; i < shelf->n; i++) {
        const kt__shelf_model *m = &shelf->models[i];
        if (m == model || m->is_folder || kt__files_name(m->path) - m->path != folder) continue;
        if (!strncmp(m->path, model->path, (size_t)folder)) return KT_OK;
    }
    snprintf(path, sizeof path, "%.*s", folder, model->path);
    DIR *dir = opendir(path);
    while (dir && status == KT_OK && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%.*s%s", folder, model->path, entry->d_name);
        if (kt__name_is_mmproj(entry->d_name) && lstat(path, &st) == 0 && S_ISREG(st.st_mode))
            status = remove_file(path, err);
    }
    if (dir) closedir(dir);
    return status;
}

kt_status kt__shelf_remove(const kt__shelf *shelf, const kt__shelf_model *model, kt_error *err) {
    char origin[MAX_PATH];
    kt_status status = model->is_folder ? remove_folder(model, err) : remove_set(model, err);
    if (status != KT_OK) return status;
    kt__shelf_origin_path(model->path, model->is_folder, origin, sizeof origin);
    if (!model->is_link) (void)unlink(origin);
    if (!model->is_link && !model->is_folder) KT__STEP(remove_mmproj(shelf, model, err));
    remove_empty(shelf, model->path);
    return KT_OK;
}

/* "ROOT/NAME.gguf" */
static kt_status new_path(const kt__shelf *shelf, const char *name, const char *end,
                          char out[MAX_PATH], kt_error *err) {
    if (!kt__name_is_safe(name) || strchr(name, ':'))
        return kt__fail(err, KT_E_ARG,
                        "\"%.80s\" cannot be a further name: letters, digits, - . _ and / make one",
                        name);
    int n = snprintf(out, MAX_PATH, "%s/%s%s", shelf->root, name, end);
    if (n < 0 || (size_t)n >= MAX_PATH - 8) return kt__fail(err, KT_E_ARG, "the name is too long");
    return KT_OK;
}

static kt_status fail_new(const char *path, const char *name, kt_error *err) {
    int why = errno;
    if (why == EEXIST)
        return kt__fail_at(err, KT_E_STATE, path, UINT64_MAX, "cannot make the name \"%.80s\": %s",
                           name, strerror(why));
    return kt__fail_system(err, why, path, "cannot make the name \"%.80s\"", name);
}

static const kt__shelf_model *model_named(const kt__shelf *shelf, const char *name) {
    for (size_t i = 0; i < shelf->n; i++)
        if (!strcmp(shelf->models[i].name, name)) return &shelf->models[i];
    return NULL;
}

kt_status kt__shelf_copy(const kt__shelf *shelf, const char *name, const kt__shelf_model *model,
                         kt_error *err) {
    char path[MAX_PATH];
    KT__STEP(new_path(shelf, name, model->is_made ? made_end : ".gguf", path, err));
    if (model->is_folder || (model->n_files > 1 && !model->is_link))
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "\"%.80s\" is %s: only a model that is one file is copied", model->name,
                        model->is_folder ? "a folder" : "several files");
    if (model_named(shelf, name))
        return kt__fail(err, KT_E_STATE, "there is a model \"%.80s\" already: delete it first",
                        name);
    kt__make_parents(path);
    if (linkat(AT_FDCWD, model->path, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0) return KT_OK;
    return fail_new(path, name, err);
}

kt_status kt__shelf_put_made(const kt__shelf *shelf, const char *name, const char *text, size_t len,
                             kt_error *err) {
    char path[MAX_PATH], dir[MAX_PATH];
    const kt__shelf_model *there = model_named(shelf, name);
    KT__STEP(new_path(shelf, name, made_end, path, err));
    if (there && !there->is_made)
        return kt__fail(err, KT_E_STATE,
                        "there is a model \"%.80s\", which is a file of its own: take another name",
                        name);
    kt__make_parents(path);
    const char *base = kt__files_name(path);
    snprintf(dir, sizeof dir, "%.*s", (int)(base - path - 1), path);
    return kt__files_replace(dir, base, text, len, err);
}

kt_status kt__shelf_link(const kt__shelf *shelf, const char *name, const kt__shelf_model *model,
                         kt_error *err) {
    char path[MAX_PATH], target[MAX_PATH];
    size_t at = 0;
    if (model->is_folder)
        return kt__fail(err, KT_E_ARG, "\"%.80s\" cannot be a further name: the model is a folder",
                        name);
    KT__STEP(new_path(shelf, name, model->is_made ? made_end : ".gguf", path, err));
    for (const char *c = name; *c && at + 4 < sizeof target; c++)
        if (*c == '/') at += (size_t)snprintf(target + at, sizeof target - at, "../");
    snprintf(target + at, sizeof target - at, "%s", model->path + strlen(shelf->root) + 1);
    kt__make_parents(path);
    return symlink(target, path) == 0 ? KT_OK : fail_new(path, name, err);
}
