#include "store/load_in.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/system.h"
#include "base/text.h"
#include "convert/convert.h"
#include "gguf/gguf.h"
#include "host/filemap.h"
#include "host/host.h"
#include "store/hub.h"
#include "store/shelf.h"

enum { MAX_PATH = 4096, HEAD_BYTES = 1 << 20, LOAD_IN_SEED = 0x6c6f6164 };
#define USUAL_MAX_BYTES ((uint64_t)32 << 30)

/* ---- forms ---- */

/* The recipes that the widespread words mean. */
static const struct { const char *form, *recipe; } forms[] = {{"4bit", "iq4_xs"}, {"8bit", "q8_0"}};

static const kt__recipe *recipe_of(const char *form) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!kt__strcasecmp(form, forms[i].form)) return kt__recipe_find(forms[i].recipe);
    return kt__recipe_find(form);
}

static bool is_as_is(const char *form) {
    return !kt__strcasecmp(form, "as-is");
}

/* ---- what a copy is made of ---- */

typedef struct loading {
    const kt__load_in *load;
    kt__load_in_report *report;
    const kt__recipe *recipe; /* NULL: the types of the source */
    bool is_folder;
    kt__hash key;
    char dir[MAX_PATH - 256];
    int lock;
    kt_error *err;
} loading;

static kt_status add_file(loading *l, const char *path, const char *name) {
    kt__file_info st;
    uint8_t *head = kt__malloc(HEAD_BYTES);
    int fd = head ? kt__fd_open(path, KT__OPEN_READ) : -1;
    kt_status status = KT_OK;
    if (fd < 0 || !kt__fd_look(fd, &st)) {
        status = kt__fail_system(l->err, errno, path, "cannot read it");
    } else {
        const int64_t facts[] = {(int64_t)st.bytes, st.changed_s, st.changed_ns};
        ssize_t n = kt__fd_read(fd, head, HEAD_BYTES);
        kt__hash_add(&l->key, name, strlen(name) + 1);
        kt__hash_add(&l->key, facts, sizeof facts);
        if (n > 0) kt__hash_add(&l->key, head, (size_t)n);
    }
    if (fd >= 0) kt__fd_close(fd);
    kt__free(head);
    return status;
}

typedef struct name_list {
    char **names;
    size_t n, cap;
} name_list;

static void name_list_free(name_list *list) {
    for (size_t i = 0; i < list->n; i++) kt__free(list->names[i]);
    kt__free(list->names);
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The regular files of a folder, by name; those with a dot in front are
 * nobody's. */
static bool list_files(const char *path, name_list *list) {
    const char *entry;
    bool ok = true;
    kt__listing *dir = kt__listing_open(path);
    while (dir && ok && (entry = kt__listing_next(dir))) {
        if (entry[0] == '.') continue;
        ok = kt__vec_reserve(list->names, list->cap, list->n + 1);
        if (ok) list->names[list->n] = kt__strdup(entry);
        ok = ok && list->names[list->n++];
    }
    if (dir) kt__listing_close(dir);
    if (list->n) qsort(list->names, list->n, sizeof *list->names, compare_texts);
    return dir && ok;
}

static bool ends_in(const char *name, const char *end) {
    size_t n = strlen(name), e = strlen(end);
    return n > e && !strcmp(name + n - e, end);
}

static kt_status add_folder(loading *l) {
    char path[MAX_PATH];
    kt__file_info st;
    name_list list = {0};
    kt_status status = KT_OK;
    if (!list_files(l->load->source, &list))
        status = kt__fail_system(l->err, errno, l->load->source, "cannot read the folder");
    for (size_t i = 0; i < list.n && status == KT_OK; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", l->load->source, list.names[i]);
        if (n < 0 || (size_t)n >= sizeof path || !kt__file_look(path, &st) || !st.is_file) continue;
        status = add_file(l, path, list.names[i]);
        if (ends_in(path, ".safetensors")) l->report->bytes_before += st.bytes;
    }
    name_list_free(&list);
    return status;
}

/* Weights that a quantisation has rounded already lose more by another, and
 * gain little. */
static bool is_mostly_float(const kt__gguf *gguf) {
    uint64_t floats = 0, all = 0;
    for (size_t i = 0; i < kt__gguf_n_tensors(gguf); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(gguf, i);
        uint32_t elems = 1, bytes;
        (void)kt__gguf_tensor_type_layout(t->type, &elems, &bytes);
        all += t->size;
        if (elems == 1) floats += t->size;
    }
    return floats > all / 2;
}

static kt_status add_gguf(loading *l) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__gguf *gguf = NULL;
    kt_status status;
    KT__TRY(kt__gguf_open(l->load->source, &params, &gguf, l->err));
    l->report->bytes_before = kt__gguf_file_bytes(gguf);
    l->report->is_source = !is_mostly_float(gguf);
    for (int i = 0; i < kt__gguf_n_parts(gguf) && !l->report->is_source; i++) {
        const uint8_t *data;
        uint64_t size;
        const kt__filemap *map = kt__gguf_part_bytes(gguf, i, &data, &size);
        KT__TRY(add_file(l, map->path, ""));
    }
out:
    kt__gguf_close(gguf);
    return status;
}

/* ---- the folder of copies ---- */

static bool copies_dir(const kt__load_in *load, char *out, size_t size) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (load->dir)
        n = snprintf(out, size, "%s", load->dir);
    else if (xdg && kt__files_is_absolute(xdg))
        n = snprintf(out, size, "%s/kentang/load-in", xdg);
    else if (home && kt__files_is_absolute(home))
        n = snprintf(out, size, "%s/.cache/kentang/load-in", home);
    return n > 0 && (size_t)n < size;
}

static void name_copy(loading *l) {
    const char *recipe = l->recipe ? l->recipe->name : "as-is";
    kt__hash_add(&l->key, recipe, strlen(recipe) + 1);
    kt__hash_add(&l->key, KT_VERSION, sizeof KT_VERSION);
    kt__digest d = kt__hash_end(&l->key);
    snprintf(l->report->path, sizeof l->report->path, "%s/%016llx%016llx-%s.gguf", l->dir,
             (unsigned long long)d.w[0], (unsigned long long)d.w[1], recipe);
}

/* The lock's file is the one that has its name: eviction takes names away. */
static bool is_named(int fd, const char *path) {
    kt__file_info open_one, named;
    return kt__fd_look(fd, &open_one) && kt__file_look(path, &named) &&
           open_one.number == named.number && open_one.device == named.device;
}

/* A process that makes the same copy is waited for. */
static kt_status lock_copy(loading *l) {
    char path[MAX_PATH + 8];
    bool told = false;
    snprintf(path, sizeof path, "%s.lock", l->report->path);
    kt__make_parents(path);
    for (;;) {
        l->lock = kt__fd_open(path, KT__OPEN_BOTH | KT__OPEN_CREATE | KT__OPEN_NO_LINK);
        if (l->lock < 0) return kt__fail_system(l->err, errno, path, "cannot create it");
        bool free_now = kt__fd_lock(l->lock, false);
        if (!free_now && !told && l->load->notes.fn)
            l->load->notes.fn(l->load->notes.user,
                              "another process is quantising this model; waiting");
        told |= !free_now;
        while (!free_now && !kt__fd_lock(l->lock, true) && errno == EINTR) {
        }
        if (is_named(l->lock, path)) return KT_OK;
        kt__fd_close(l->lock);
    }
}

typedef struct copy {
    char name[256];
    uint64_t bytes;
    struct timespec used;
} copy;

static int compare_used(const void *a, const void *b) {
    const struct timespec *x = &((const copy *)a)->used, *y = &((const copy *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Whole copies, and what was begun and is nobody's any more. */
static size_t list_copies(const loading *l, copy **out) {
    char path[MAX_PATH];
    const char *entry;
    kt__file_info st;
    copy *copies = NULL;
    size_t n = 0, cap = 0;
    kt__listing *dir = kt__listing_open(l->dir);
    while (dir && (entry = kt__listing_next(dir))) {
        bool ours = ends_in(entry, ".gguf") || ends_in(entry, ".gguf.part");
        int len = snprintf(path, sizeof path, "%s/%s", l->dir, entry);
        if (!ours || len < 0 || (size_t)len >= sizeof path || !kt__file_look_here(path, &st))
            continue;
        if (!st.is_file || !kt__vec_reserve(copies, cap, n + 1)) continue;
        copies[n] = (copy){.bytes = st.disk_bytes, .used = {(time_t)st.used_s, (long)st.used_ns}};
        snprintf(copies[n++].name, sizeof copies->name, "%s", entry);
    }
    if (dir) kt__listing_close(dir);
    if (n) qsort(copies, n, sizeof *copies, compare_used);
    *out = copies;
    return n;
}

/* Removes a copy unless a process is at it; one that is mapped stays whole for
 * the caller that has it. */
static bool remove_copy(const loading *l, const char *name) {
    char path[MAX_PATH], lock_path[MAX_PATH + 8];
    size_t len = strlen(name) - (ends_in(name, ".part") ? strlen(".part") : 0);
    snprintf(path, sizeof path, "%s/%.250s", l->dir, name);
    snprintf(lock_path, sizeof lock_path, "%s/%.*s.lock", l->dir, (int)len, name);
    int lock = kt__fd_open(lock_path, KT__OPEN_BOTH | KT__OPEN_CREATE | KT__OPEN_NO_LINK);
    bool mine = lock >= 0 && kt__fd_lock(lock, false);
    bool gone = mine && kt__file_remove(path);
    if (mine) (void)kt__file_remove(lock_path);
    if (lock >= 0) kt__fd_close(lock);
    return gone;
}

/* Room for `wanted` bytes more within the limit: what was used longest ago
 * goes. */
static void make_room(const loading *l, uint64_t wanted) {
    copy *copies;
    uint64_t max = l->load->max_bytes ? l->load->max_bytes : USUAL_MAX_BYTES, used = wanted;
    size_t n = list_copies(l, &copies);
    const char *own = strrchr(l->report->path, '/') + 1;
    for (size_t i = 0; i < n; i++)
        used += strncmp(copies[i].name, own, strlen(own)) ? copies[i].bytes : 0;
    for (size_t i = 0; i < n && used > max; i++) {
        if (!strncmp(copies[i].name, own, strlen(own))) continue;
        if (remove_copy(l, copies[i].name)) used -= copies[i].bytes;
    }
    kt__free(copies);
}

/* ---- making one ---- */

static int own_threads(void) {
    kt__topology topology;
    kt__limits limits;
    char why[128];
    kt__topology_detect(&topology);
    kt__limits_read(&limits);
    return kt__threads_default(&topology, &limits, why, sizeof why);
}

static kt_status make_copy(loading *l) {
    const kt__load_in *load = l->load;
    const kt__convert_output output = {.target = l->report->path,
                                       .n_threads = own_threads(),
                                       .notes = load->notes,
                                       .progress = load->progress,
                                       .progress_user = load->user};
    const kt__quantize_params params = {.source = load->source, .recipe = l->recipe};
    kt__convert_report done;
    int64_t begun = kt__now_us();
    make_room(l, l->report->bytes_before / (l->recipe ? 2 : 1)); /* no recipe needs more */
    kt_status status = l->is_folder
                           ? kt__convert_folder(load->source, l->recipe, &output, &done, l->err)
                           : kt__quantize_file(&params, &output, &done, l->err);
    if (status != KT_OK) return status;
    l->report->bytes_after = done.bytes;
    l->report->ms = (kt__now_us() - begun) / 1000;
    make_room(l, done.bytes);
    return KT_OK;
}

static bool find_copy(loading *l) {
    kt__file_info st;
    if (!kt__file_look(l->report->path, &st)) return false;
    l->report->bytes_after = st.bytes;
    l->report->was_there = true;
    kt__shelf_touch(l->report->path);
    return true;
}

static kt_status prepare_copy(loading *l) {
    kt_status status;
    if (!copies_dir(l->load, l->dir, sizeof l->dir))
        return kt__fail(l->err, KT_E_ARG,
                        "no folder for quantised copies: set XDG_CACHE_HOME or HOME");
    name_copy(l);
    if (find_copy(l)) return KT_OK;
    KT__TRY(lock_copy(l));
    if (!find_copy(l)) status = make_copy(l);
out:
    if (l->lock >= 0) kt__fd_close(l->lock);
    return status;
}

kt_status kt__load_in_prepare(const kt__load_in *load, kt__load_in_report *report, kt_error *err) {
    loading l = {.load = load, .report = report, .lock = -1, .err = err};
    kt__file_info st;
    const char *form = load->form;
    *report = (kt__load_in_report){0};
    l.is_folder = kt__file_look(load->source, &st) && st.is_folder;
    if (!form) form = l.is_folder ? forms[0].form : "as-is";
    l.recipe = recipe_of(form);
    if (!l.recipe && !is_as_is(form))
        return kt__fail(err, KT_E_ARG,
                        "\"%.40s\" is nothing to load a model in: expected 4bit, 8bit, "
                        "as-is or a recipe such as q4_k_m",
                        form);
    report->recipe = l.recipe ? l.recipe->name : "as-is";
    report->is_source = !l.is_folder && !l.recipe;
    kt__hash_init(&l.key, LOAD_IN_SEED);
    if (!report->is_source) KT__STEP(l.is_folder ? add_folder(&l) : add_gguf(&l));
    if (!report->is_source) return prepare_copy(&l);
    snprintf(report->path, sizeof report->path, "%s", load->source);
    return KT_OK;
    return KT_OK;
}

/* ---- adapter file ---- */

static bool is_folder(const char *path) {
    kt__file_info st;
    return kt__file_look(path, &st) && st.is_folder;
}

static kt_status open_peft_folder(kt_model *model, const char *path, kt_adapter **out,
                                  kt_error *err) {
    kt_model_info info;
    kt__peft_file file = {0};
    kt_status status;
    kt_model_get_info(model, &info);
    const kt__peft_model of = {info.arch, info.head_dim};
    KT__TRY(kt__peft_read(path, &of, &file, err));
    status = kt_adapter_open_memory(model, file.data, file.size, path, out, err);
out:
    kt__peft_free(&file);
    return status;
}

kt_status kt__adapter_open_path(kt_model *model, const char *path, kt_adapter **out,
                                kt_error *err) {
    *out = NULL;
    if (is_folder(path)) return open_peft_folder(model, path, out, err);
    return kt_adapter_open(model, path, out, err);
}
