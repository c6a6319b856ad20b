#include "services/batch_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "base/text.h"

struct kt__batch_store {
    int dir;      /* descriptor */
    char path[1]; /* for errors */
};

static kt_status fail_io(const kt__batch_store *s, const char *what, kt_error *err) {
    int code = errno;
    return kt__fail_system(err, code, s->path, "batches: cannot %s", what);
}

kt_status kt__batch_store_open(const char *dir, kt__batch_store **out, kt_error *err) {
    size_t len = strlen(dir);
    kt__batch_store *s = kt__calloc(1, sizeof *s + len);
    *out = NULL;
    if (!s) return kt__fail_nomem(err, "batches", sizeof *s);
    memcpy(s->path, dir, len);
    (void)mkdir(dir, 0700); /* what is missing then shows when it is opened */
    s->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kt_status status = KT_OK;
    if (s->dir < 0) {
        status = fail_io(s, "open the directory", err);
    } else if (flock(s->dir, LOCK_EX | LOCK_NB) != 0) {
        status = kt__fail_at(err, KT_E_STATE, dir, UINT64_MAX,
                             "batches: another server uses the directory %s", dir);
    }
    if (status == KT_OK) {
        *out = s;
    } else {
        kt__batch_store_close(s);
    }
    return status;
}

void kt__batch_store_close(kt__batch_store *s) {
    if (!s) return;
    if (s->dir >= 0) close(s->dir);
    kt__free(s);
}

/* ---- names ---- */

void kt__batch_new_id(const char *prefix, char id[KT__BATCH_ID]) {
    unsigned char random[12] = {0};
    ssize_t got = getrandom(random, sizeof random, 0);
    (void)got;
    int at = snprintf(id, KT__BATCH_ID, "%s", prefix);
    for (size_t i = 0; i < sizeof random; i++)
        at += snprintf(id + at, (size_t)(KT__BATCH_ID - at), "%02x", random[i]);
}

/* Nothing else becomes part of a path. */
static bool is_id(const char *id) {
    size_t skip = !strncmp(id, "file-", 5) ? 5 : !strncmp(id, "batch_", 6) ? 6 : 0;
    return skip && strlen(id + skip) == 24 && strspn(id + skip, "0123456789abcdef") == 24;
}

static void record_name(const char *id, char *out, size_t size) {
    snprintf(out, size, "%s.json", id);
}

/* ---- writing ---- */

/* Into a file next to it, synced, then renamed. */
static kt_status write_whole(kt__batch_store *s, const char *name, const char *data, size_t len,
                             kt_error *err) {
    char temp[80];
    snprintf(temp, sizeof temp, "%s.tmp", name);
    int fd = openat(s->dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return fail_io(s, "make a file", err);
    bool good = kt__fd_write(fd, data, len) && fsync(fd) == 0;
    int code = errno;
    if (close(fd) != 0) good = false;
    if (good && renameat(s->dir, temp, s->dir, name) == 0) {
        (void)fsync(s->dir);
        return KT_OK;
    }
    if (!good) errno = code;
    kt_status status = fail_io(s, "write a file", err);
    (void)unlinkat(s->dir, temp, 0);
    return status;
}

kt_status kt__batch_store_save(kt__batch_store *s, const char *id, const json_t *record,
                               kt_error *err) {
    char name[KT__BATCH_ID + 8];
    char *text = json_dumps(record, JSON_COMPACT);
    if (!text) return kt__fail_nomem(err, "a record", 0);
    record_name(id, name, sizeof name);
    kt_status status = write_whole(s, name, text, strlen(text), err);
    free(text);
    return status;
}

kt_status kt__batch_store_announce(kt__batch_store *s, const char *client, const char *id,
                                   const char *name, const char *purpose, kt_error *err) {
    struct stat st;
    if (fstatat(s->dir, id, &st, 0) != 0) return fail_io(s, "find a file", err);
    json_t *record = json_pack("{s:s,s:s,s:I,s:I,s:s,s:s,s:s,s:s}", "id", id, "object", "file",
                               "bytes", (json_int_t)st.st_size, "created_at",
                               (json_int_t)time(NULL), "filename", name, "purpose", purpose,
                               "status", "processed", "kentang_client", client);
    if (!record)
        return kt__fail_at(err, KT_E_ARG, "filename", UINT64_MAX,
                           "the file's name or purpose is not UTF-8");
    kt_status status = kt__batch_store_save(s, id, record, err);
    json_decref(record);
    return status;
}

kt_status kt__batch_store_put(kt__batch_store *s, const char *client, const char *name,
                              const char *purpose, const char *data, size_t len,
                              char id[KT__BATCH_ID], kt_error *err) {
    kt__batch_new_id("file-", id);
    kt_status status = write_whole(s, id, data, len, err);
    if (status != KT_OK) return status;
    status = kt__batch_store_announce(s, client, id, name, purpose, err);
    if (status != KT_OK) (void)unlinkat(s->dir, id, 0);
    return status;
}

bool kt__batch_store_delete(kt__batch_store *s, const char *id) {
    char name[KT__BATCH_ID + 8];
    if (!is_id(id)) return false;
    record_name(id, name, sizeof name);
    bool gone = unlinkat(s->dir, name, 0) == 0;
    (void)unlinkat(s->dir, id, 0);
    return gone;
}

/* ---- reading ---- */

int kt__batch_store_open_file(kt__batch_store *s, const char *id, bool append) {
    int flags = append ? O_RDWR | O_APPEND | O_CREAT : O_RDONLY;
    return is_id(id) ? openat(s->dir, id, flags | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
}

json_t *kt__batch_store_record(kt__batch_store *s, const char *id, const char *client) {
    char name[KT__BATCH_ID + 8];
    if (!is_id(id)) return NULL;
    record_name(id, name, sizeof name);
    int fd = openat(s->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    json_t *record = fd >= 0 ? json_loadfd(fd, 0, NULL) : NULL;
    if (fd >= 0) close(fd);
    const char *owner = json_string_value(json_object_get(record, "kentang_client"));
    if (record && (!client || (owner && !strcmp(owner, client)))) return record;
    json_decref(record);
    return NULL;
}

static json_int_t created_at(const json_t *record) {
    return json_integer_value(json_object_get(record, "created_at"));
}

/* Into its place: by time, later ones first. */
static void insert_by_time(json_t *list, json_t *record) {
    size_t at = 0;
    while (at < json_array_size(list) && created_at(json_array_get(list, at)) > created_at(record))
        at++;
    json_array_insert_new(list, at, record);
}

json_t *kt__batch_store_list(kt__batch_store *s, const char *prefix, const char *client) {
    json_t *list = json_array();
    int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0) close(fd);
    for (struct dirent *e; list && dir && (e = readdir(dir)) != NULL;) {
        char id[KT__BATCH_ID];
        size_t len = strlen(e->d_name);
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 || len < 6 || len - 5 >= sizeof id ||
            strcmp(e->d_name + len - 5, ".json") != 0)
            continue;
        snprintf(id, sizeof id, "%.*s", (int)(len - 5), e->d_name);
        json_t *record = kt__batch_store_record(s, id, client);
        if (record) insert_by_time(list, record);
    }
    if (dir) closedir(dir);
    return list;
}

void kt__batch_store_write(kt__buf *out, const json_t *record) {
    json_t *shown = json_copy((json_t *)record);
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(shown, next, key, v) {
        if (!strncmp(key, "kentang_", 8)) json_object_del(shown, key);
    }
    char *text = json_dumps(shown, JSON_COMPACT);
    (void)kt__buf_puts(out, text ? text : "{}");
    if (!text) out->failed = true;
    free(text);
    json_decref(shown);
}

/* ---- multipart ---- */

enum { MAX_BOUNDARY = 70 };

/* The value of key="VALUE" or key=VALUE in a header; "" where it is not there. */
static void header_parameter(const char *header, size_t len, const char *key, char *out,
                             size_t size) {
    size_t n_key = strlen(key);
    out[0] = '\0';
    for (size_t at = 0; at + n_key + 1 < len; at++) {
        bool begins = at == 0 || header[at - 1] == ';' || header[at - 1] == ' ';
        if (!begins || kt__strncasecmp(header + at, key, n_key) != 0 || header[at + n_key] != '=')
            continue;
        const char *value = header + at + n_key + 1, *end = header + len;
        bool quoted = *value == '"';
        size_t n = 0;
        for (value += quoted; value < end && n + 1 < size; value++) {
            if (quoted ? *value == '"' : *value == ';' || *value == ' ') break;
            out[n++] = *value;
        }
        out[n] = '\0';
        return;
    }
}

bool kt__multipart_begin(kt__multipart *form, const char *type, const char *body, size_t len) {
    static const char kind[] = "multipart/form-data";
    char boundary[MAX_BOUNDARY + 2];
    if (!type || kt__strncasecmp(type, kind, sizeof kind - 1) != 0) return false;
    header_parameter(type, strlen(type), "boundary", boundary, sizeof boundary);
    size_t n = strlen(boundary);
    if (!n || n > MAX_BOUNDARY) return false;
    *form = (kt__multipart){.body = body, .len = len};
    form->boundary_len = (size_t)snprintf(form->boundary, sizeof form->boundary, "--%s", boundary);
    return true;
}

/* Where the next boundary begins, at or after `at`; NULL: nowhere. */
static const char *find_boundary(const kt__multipart *form, size_t at) {
    return form->len > at
               ? memmem(form->body + at, form->len - at, form->boundary, form->boundary_len)
               : NULL;
}

/* Headers up to the empty line; where the content begins, or 0. */
static size_t read_headers(const kt__multipart *form, size_t at, kt__multipart_part *out) {
    static const char wanted[] = "Content-Disposition:";
    while (at < form->len) {
        const char *line = form->body + at, *end = memmem(line, form->len - at, "\r\n", 2);
        if (!end) return 0;
        size_t len = (size_t)(end - line);
        at += len + 2;
        if (!len) return at;
        if (len < sizeof wanted || kt__strncasecmp(line, wanted, sizeof wanted - 1) != 0) continue;
        header_parameter(line, len, "name", out->name, sizeof out->name);
        header_parameter(line, len, "filename", out->filename, sizeof out->filename);
    }
    return 0;
}

bool kt__multipart_next(kt__multipart *form, kt__multipart_part *out) {
    const char *mark = find_boundary(form, form->at);
    *out = (kt__multipart_part){.len = 0};
    if (!mark) return false;
    size_t at = (size_t)(mark - form->body) + form->boundary_len;
    if (form->len - at < 2 || memcmp(form->body + at, "\r\n", 2) != 0) return false; /* the end */
    at = read_headers(form, at + 2, out);
    const char *end = at ? find_boundary(form, at) : NULL;
    if (!end || end - form->body < (ptrdiff_t)at + 2 || memcmp(end - 2, "\r\n", 2) != 0)
        return false;
    out->data = form->body + at;
    out->len = (size_t)(end - form->body) - at - 2;
    form->at = (size_t)(end - form->body);
    return true;
}
