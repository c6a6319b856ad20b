#include "services/responses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/thread.h"

enum { MAX_RECORD = 256 << 20 };

typedef struct entry {
    char id[KT__RESPONSE_ID];
    size_t bytes;
    char *text;     /* NULL: it is on disk */
    int64_t time_s; /* of a file that was there at the start */
} entry;

struct kt__responses {
    pthread_mutex_t lock;
    kt__work_item item;
    bool queued; /* item is with the workers */
    char *dir;   /* or NULL */
    int lock_fd;
    uint64_t max_bytes, bytes;
    entry *entries; /* [n], the oldest first */
    size_t n, cap;
};

/* ---- names ---- */

/* "resp_" and letters and digits: no other name ever reaches the directory. */
static bool is_id(const char *id) {
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    size_t len = strlen(id);
    return len > 5 && len < KT__RESPONSE_ID && !strncmp(id, "resp_", 5) &&
           strspn(id + 5, letters) == len - 5;
}

static bool file_of(const kt__responses *r, const char *id, char out[KT__FILES_PATH_MAX]) {
    int n = snprintf(out, KT__FILES_PATH_MAX, "%s/%s.json", r->dir, id);
    return n > 0 && n < KT__FILES_PATH_MAX;
}

static entry *find_entry(kt__responses *r, const char *id) {
    for (size_t i = r->n; i-- > 0;)
        if (!strcmp(r->entries[i].id, id)) return &r->entries[i];
    return NULL;
}

/* ---- what goes; the lock is held ---- */

static void remove_entry(kt__responses *r, entry *e) {
    char path[KT__FILES_PATH_MAX];
    if (r->dir && file_of(r, e->id, path)) (void)kt__file_remove(path);
    r->bytes -= e->bytes;
    kt__free(e->text);
    size_t at = (size_t)(e - r->entries);
    memmove(e, e + 1, (r->n - at - 1) * sizeof *e);
    r->n--;
}

static void make_room(kt__responses *r, size_t bytes) {
    while (r->n && r->bytes + bytes > r->max_bytes) remove_entry(r, &r->entries[0]);
}

/* ---- the directory ---- */

static int compare_times(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->time_s != y->time_s) return x->time_s < y->time_s ? -1 : 1;
    return strcmp(x->id, y->id);
}

static kt_status add_file(kt__responses *r, const char *name, kt_error *err) {
    char path[KT__FILES_PATH_MAX];
    entry e = {.text = NULL};
    kt__file_info st;
    size_t len = strlen(name);
    if (len <= 5 || len - 5 >= sizeof e.id || strcmp(name + len - 5, ".json") != 0) return KT_OK;
    memcpy(e.id, name, len - 5);
    if (!is_id(e.id) || !file_of(r, e.id, path) || !kt__file_look(path, &st)) return KT_OK;
    e.bytes = (size_t)st.bytes + sizeof e;
    e.time_s = st.changed_s;
    if (!kt__vec_reserve(r->entries, r->cap, r->n + 1))
        return kt__fail_nomem(err, "a list of responses", r->n);
    r->entries[r->n++] = e;
    r->bytes += e.bytes;
    return KT_OK;
}

static kt_status scan_dir(kt__responses *r, kt_error *err) {
    const char *item;
    kt_status status = KT_OK;
    kt__listing *dir = kt__listing_open(r->dir);
    if (!dir) return kt__fail_system(err, errno, r->dir, "cannot read the folder of responses");
    while (status == KT_OK && (item = kt__listing_next(dir))) status = add_file(r, item, err);
    kt__listing_close(dir);
    if (r->n) qsort(r->entries, r->n, sizeof *r->entries, compare_times);
    return status;
}

static kt_status lock_dir(kt__responses *r, kt_error *err) {
    char path[KT__FILES_PATH_MAX];
    KT__STEP(kt__files_make_dir(r->dir, err));
    KT__STEP(kt__files_path(path, r->dir, ".lock", err));
    r->lock_fd = kt__fd_open(path,
                             KT__OPEN_BOTH | KT__OPEN_CREATE | KT__OPEN_NO_LINK | KT__OPEN_PRIVATE);
    if (r->lock_fd < 0) return kt__fail_system(err, errno, path, "cannot create it");
    if (kt__fd_lock(r->lock_fd, false)) return KT_OK;
    return kt__fail_at(err, KT_E_STATE, r->dir, UINT64_MAX,
                       "another server keeps its responses in %s", r->dir);
}

kt_status kt__responses_open(const char *dir, uint64_t max_bytes, kt__responses **out,
                             kt_error *err) {
    kt__responses *r = kt__calloc(1, sizeof *r);
    kt_status status = KT_OK;
    *out = NULL;
    if (!r) return kt__fail_nomem(err, "the responses", sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    r->max_bytes = max_bytes;
    r->lock_fd = -1;
    if (dir && !(r->dir = kt__strdup(dir))) KT__TRY(kt__fail_nomem(err, "a path", strlen(dir)));
    if (dir) KT__TRY(lock_dir(r, err));
    if (dir) KT__TRY(scan_dir(r, err));
    make_room(r, 0);
    *out = r;
    r = NULL;
out:
    kt__responses_close(r);
    return status;
}

/* ---- writing ---- */

/* The lock is held, and let go while the file is written. What was deleted meanwhile is removed again. */
static bool write_next(kt__responses *r) {
    char id[KT__RESPONSE_ID], name[KT__RESPONSE_ID + 8], path[KT__FILES_PATH_MAX];
    kt_error ignored;
    size_t i = 0;
    while (i < r->n && !r->entries[i].text) i++;
    if (i == r->n) return false;
    char *text = kt__strdup(r->entries[i].text); /* it is read there until it is on disk */
    memcpy(id, r->entries[i].id, sizeof id);
    snprintf(name, sizeof name, "%s.json", id);
    pthread_mutex_unlock(&r->lock);
    bool written = text && kt__files_replace(r->dir, name, text, strlen(text), &ignored) == KT_OK;
    kt__free(text);
    pthread_mutex_lock(&r->lock);
    entry *e = find_entry(r, id);
    if (e && written) {
        kt__free(e->text);
        e->text = NULL;
    }
    if (e && !written) remove_entry(r, e); /* a full disk */
    if (!e && file_of(r, id, path)) (void)kt__file_remove(path);
    return true;
}

static void write_all(kt__work_item *item) {
    kt__responses *r = (kt__responses *)(void *)((char *)item - offsetof(kt__responses, item));
    pthread_mutex_lock(&r->lock);
    while (write_next(r)) {
    }
    r->queued = false;
    pthread_mutex_unlock(&r->lock);
}

void kt__responses_close(kt__responses *r) {
    if (!r) return;
    if (r->dir) write_all(&r->item);
    for (size_t i = 0; i < r->n; i++) kt__free(r->entries[i].text);
    if (r->lock_fd >= 0) kt__fd_close(r->lock_fd);
    pthread_mutex_destroy(&r->lock);
    kt__free(r->entries);
    kt__free(r->dir);
    kt__free(r);
}

bool kt__responses_put(kt__responses *r, kt__workers *workers, const char *id, const char *record,
                       size_t len) {
    entry e = {.bytes = len + sizeof e};
    if (!is_id(id) || e.bytes > r->max_bytes || len > MAX_RECORD) return false;
    memcpy(e.id, id, strlen(id) + 1);
    e.text = kt__strndup(record, len);
    if (!e.text) return false;
    pthread_mutex_lock(&r->lock);
    make_room(r, e.bytes);
    bool kept = kt__vec_reserve(r->entries, r->cap, r->n + 1);
    if (kept) {
        r->entries[r->n++] = e;
        r->bytes += e.bytes;
    } else {
        kt__free(e.text);
    }
    bool hand_over = kept && r->dir && !r->queued;
    if (hand_over) {
        r->item.run = write_all;
        r->queued = kt__workers_add(workers, &r->item); /* else with the next one, or at the end */
    }
    pthread_mutex_unlock(&r->lock);
    return kept;
}

/* ---- reading ---- */

/* As text, for kt__free; NULL: there is none, or it cannot be read. */
static char *read_record(kt__responses *r, const char *id) {
    char path[KT__FILES_PATH_MAX], *text = NULL;
    kt_error ignored;
    kt__buf file;
    if (!is_id(id)) return NULL;
    pthread_mutex_lock(&r->lock);
    const entry *e = find_entry(r, id);
    bool on_disk = e && !e->text && r->dir && file_of(r, id, path);
    if (e && e->text) text = kt__strdup(e->text);
    pthread_mutex_unlock(&r->lock);
    if (!on_disk) return text;
    kt__buf_init(&file, MAX_RECORD);
    if (kt__files_read(path, &file, &ignored) == KT_OK) text = kt__buf_take(&file, NULL);
    kt__buf_free(&file);
    return text;
}

json_t *kt__responses_get(kt__responses *r, const char *id, const char *client) {
    char *text = read_record(r, id);
    json_t *record = text ? json_loads(text, 0, NULL) : NULL;
    const char *whose = json_string_value(json_object_get(record, "client"));
    kt__free(text);
    if (whose && !strcmp(whose, client)) return record;
    json_decref(record);
    return NULL;
}

bool kt__responses_delete(kt__responses *r, const char *id, const char *client) {
    json_t *record = kt__responses_get(r, id, client);
    if (!record) return false;
    json_decref(record);
    pthread_mutex_lock(&r->lock);
    entry *e = find_entry(r, id);
    if (e) remove_entry(r, e);
    pthread_mutex_unlock(&r->lock);
    return e != NULL;
}
