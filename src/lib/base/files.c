#include "base/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"

/* Of the call that has just failed. */
static kt_status fail_io(const char *what, const char *path, kt_error *err) {
    return kt__fail_system(err, errno, path, "cannot %s", what);
}

kt_status kt__files_path(char *out, const char *dir, const char *name, kt_error *err) {
    int n = snprintf(out, KT__FILES_PATH_MAX, "%s/%s", dir, name);
    if (n > 0 && n < KT__FILES_PATH_MAX) return KT_OK;
    return kt__fail(err, KT_E_LIMIT, "the path of %.60s is longer than %d bytes", name,
                    KT__FILES_PATH_MAX);
}

const char *kt__files_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Windows's calls say so, too: of "C:/" and "//server/". */
#ifndef KT__PATH_HAS_DRIVE
#define KT__PATH_HAS_DRIVE(path) false
#endif

bool kt__files_is_absolute(const char *path) {
    return path[0] == '/' || KT__PATH_HAS_DRIVE(path);
}

static kt_status make_one(const char *path, kt_error *err) {
    if (kt__folder_make(path, true) || errno == EEXIST || errno == EROFS || errno == EACCES)
        return KT_OK;
    return fail_io("make the folder", path, err);
}

kt_status kt__files_make_dir(const char *dir, kt_error *err) {
    kt_status status;
    char path[KT__FILES_PATH_MAX];
    size_t len = strlen(dir);
    if (len == 0 || len >= sizeof path)
        return kt__fail(err, KT_E_LIMIT, "a folder's path of %zu bytes", len);
    memcpy(path, dir, len + 1);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        KT__TRY(make_one(path, err));
        *at = '/';
    }
    KT__TRY(make_one(path, err));
    kt__file_info st;
    if (!kt__file_look(dir, &st)) return fail_io("make the folder", dir, err);
    if (!st.is_folder) status = kt__fail_at(err, KT_E_IO, dir, UINT64_MAX, "it is no folder");
out:
    return status;
}

kt_status kt__files_sync_dir(const char *dir, kt_error *err) {
    int fd = kt__fd_open(dir, KT__OPEN_READ | KT__OPEN_FOLDER);
    if (fd < 0) return fail_io("open", dir, err);
    bool ok = kt__fd_sync(fd) || errno == EINVAL; /* of file systems that know no such thing */
    kt_status status = ok ? KT_OK : fail_io("sync the folder", dir, err);
    kt__fd_close(fd);
    return status;
}

static kt_status write_new(const char *path, const void *data, size_t n, kt_error *err) {
    int fd = kt__fd_open(path, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_EMPTY |
                                   KT__OPEN_NO_LINK | KT__OPEN_PRIVATE);
    if (fd < 0) return fail_io("write", path, err);
    kt_status status = KT_OK;
    if (!kt__fd_write(fd, data, n) || !kt__fd_sync(fd)) status = fail_io("write", path, err);
    if (!kt__fd_close(fd) && status == KT_OK) status = fail_io("write", path, err);
    return status;
}

/* One writer a folder, so the temporary file may have a fixed name: the next one takes it over. */
kt_status kt__files_replace(const char *dir, const char *name, const void *data, size_t n,
                            kt_error *err) {
    kt_status status;
    char path[KT__FILES_PATH_MAX], temp[KT__FILES_PATH_MAX], temp_name[128];
    snprintf(temp_name, sizeof temp_name, "%.100s.new", name);
    KT__TRY(kt__files_path(path, dir, name, err));
    KT__TRY(kt__files_path(temp, dir, temp_name, err));
    status = write_new(temp, data, n, err);
    if (status == KT_OK && rename(temp, path) != 0) status = fail_io("replace", path, err);
    if (status != KT_OK) {
        kt__file_remove(temp);
        return status;
    }
    KT__TRY(kt__files_sync_dir(dir, err));
out:
    return status;
}

kt_status kt__files_read(const char *path, kt__buf *out, kt_error *err) {
    char block[16384];
    kt_status status = KT_OK;
    int fd = kt__fd_open(path, KT__OPEN_READ | KT__OPEN_NO_LINK);
    if (fd < 0) {
        bool absent = errno == ENOENT;
        status = fail_io("open", path, err);
        if (absent && err) err->offset = 0;
        return status;
    }
    while (status == KT_OK) {
        int64_t n = kt__fd_read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) break;
        if (n < 0) {
            status = fail_io("read", path, err);
        } else if (!kt__buf_append(out, block, (size_t)n)) {
            status = kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                                 "the file is larger than %zu bytes, or there is no memory for it",
                                 out->max);
        }
    }
    kt__fd_close(fd);
    return status;
}

static kt_status copy_bytes(int in, int out, const char *from, const char *to, kt_error *err) {
    char block[65536];
    for (;;) {
        int64_t n = kt__fd_read(in, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_io("read", from, err);
        if (n == 0) break;
        if (!kt__fd_write(out, block, (size_t)n)) return fail_io("write", to, err);
    }
    return kt__fd_sync(out) ? KT_OK : fail_io("write", to, err);
}

kt_status kt__files_copy(const char *from, const char *to, kt_error *err) {
    int in = kt__fd_open(from, KT__OPEN_READ);
    if (in < 0) return fail_io("open", from, err);
    int out = kt__fd_open(to, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_EMPTY | KT__OPEN_NO_LINK |
                                  KT__OPEN_PRIVATE);
    kt_status status = out < 0 ? fail_io("write", to, err) : copy_bytes(in, out, from, to, err);
    kt__fd_close(in);
    if (out >= 0) kt__fd_close(out);
    if (out >= 0 && status != KT_OK) kt__file_remove(to);
    return status;
}

/* depth: of folders that may be in it */
static kt_status remove_below(const char *dir, int depth, kt_error *err) {
    char path[KT__FILES_PATH_MAX];
    kt_status status = KT_OK;
    kt__listing *d = kt__listing_open(dir);
    if (!d) return errno == ENOENT ? KT_OK : fail_io("open", dir, err);
    for (const char *e; status == KT_OK && (e = kt__listing_next(d)) != NULL;) {
        status = kt__files_path(path, dir, e, err);
        if (status != KT_OK || kt__file_remove(path) || errno == ENOENT) continue;
        if (errno != EISDIR && errno != EPERM) {
            status = fail_io("remove", path, err);
        } else {
            status = depth > 0 ? remove_below(path, depth - 1, err) : fail_io("remove", path, err);
        }
    }
    kt__listing_close(d);
    if (status == KT_OK && !kt__folder_remove(dir) && errno != ENOENT)
        status = fail_io("remove", dir, err);
    return status;
}

kt_status kt__files_remove_tree(const char *dir, kt_error *err) {
    return remove_below(dir, 4, err);
}

/* ---- folders and names ---- */

void kt__sync_folder_of(const char *path) {
    char dir[KT__FILES_PATH_MAX];
    const char *name = kt__files_name(path);
    size_t len = (size_t)(name - path);
    if (len >= sizeof dir) return;
    memcpy(dir, len ? path : ".", len ? len : 1);
    dir[len ? len : 1] = '\0'; /* its last slash may stay */
    int fd = kt__fd_open(dir, KT__OPEN_READ | KT__OPEN_FOLDER);
    if (fd >= 0) (void)kt__fd_sync(fd);
    kt__fd_close(fd);
}

bool kt__same_file(const char *a, const char *b) {
    kt__file_info x, y;
    return kt__file_look(a, &x) && kt__file_look(b, &y) && x.device == y.device &&
           x.number == y.number;
}

/* ---- changes ---- */

kt__file_stamp kt__file_stamp_of(const char *path) {
    kt__file_info st;
    if (!path || !kt__file_look(path, &st)) return (kt__file_stamp){0};
    return (kt__file_stamp){st.device, st.number, st.bytes, st.changed_s, st.changed_ns};
}

kt__file_change kt__file_changed(const char *path, const kt__file_stamp *then) {
    if (!then->ino) return KT__FILE_SAME;
    const kt__file_stamp now = kt__file_stamp_of(path);
    if (!now.ino) return KT__FILE_GONE;
    if (now.ino != then->ino || now.dev != then->dev) return KT__FILE_REPLACED;
    if (now.size < then->size) return KT__FILE_TRUNCATED;
    bool same = now.size == then->size && now.changed_s == then->changed_s &&
                now.changed_ns == then->changed_ns;
    return same ? KT__FILE_SAME : KT__FILE_WRITTEN;
}
