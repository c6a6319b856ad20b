#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

static kt_status fail_io(const char *what, const char *path, kt_error *err) {
    int why = errno;
    const char *remedy = why == ENOSPC || why == EDQUOT ? "; free some space" : "";
    return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot %s: %s%s", what, strerror(why),
                       remedy);
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
    if (mkdir(path, 0700) == 0 || errno == EEXIST || errno == EROFS || errno == EACCES)
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
    struct stat st;
    if (stat(dir, &st) != 0) return fail_io("make the folder", dir, err);
    if (!S_ISDIR(st.st_mode))
        status = kt__fail_at(err, KT_E_IO, dir, UINT64_MAX, "it is no folder");
out:
    return status;
}

kt_status kt__files_sync_dir(const char *dir, kt_error *err) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_io("open", dir, err);
    bool ok = fsync(fd) == 0 || errno == EINVAL; /* of file systems that know no such thing */
    kt_status status = ok ? KT_OK : fail_io("sync the folder", dir, err);
    close(fd);
    return status;
}

static kt_status write_new(const char *path, const void *data, size_t n, kt_error *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return fail_io("write", path, err);
    kt_status status = KT_OK;
    if (!kt__fd_write(fd, data, n) || fsync(fd) != 0) status = fail_io("write", path, err);
    if (close(fd) != 0 && status == KT_OK) status = fail_io("write", path, err);
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
        unlink(temp);
        return status;
    }
    KT__TRY(kt__files_sync_dir(dir, err));
out:
    return status;
}

kt_status kt__files_read(const char *path, kt__buf *out, kt_error *err) {
    char block[16384];
    kt_status status = KT_OK;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        bool absent = errno == ENOENT;
        status = fail_io("open", path, err);
        if (absent && err) err->offset = 0;
        return status;
    }
    for (uint64_t at = 0; status == KT_OK;) {
        ssize_t n = pread(fd, block, sizeof block, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) break;
        if (n < 0) {
            status = fail_io("read", path, err);
        } else if (!kt__buf_append(out, block, (size_t)n)) {
            status = kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                                 "the file is larger than %zu bytes, or there is no memory for it",
                                 out->max);
        }
        at += n > 0 ? (uint64_t)n : 0;
    }
    close(fd);
    return status;
}

static kt_status copy_bytes(int in, int out, const char *from, const char *to, kt_error *err) {
    char block[65536];
    for (;;) {
        ssize_t n = read(in, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_io("read", from, err);
        if (n == 0) break;
        if (!kt__fd_write(out, block, (size_t)n)) return fail_io("write", to, err);
    }
    return fsync(out) == 0 ? KT_OK : fail_io("write", to, err);
}

kt_status kt__files_copy(const char *from, const char *to, kt_error *err) {
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) return fail_io("open", from, err);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    kt_status status = out < 0 ? fail_io("write", to, err) : copy_bytes(in, out, from, to, err);
    close(in);
    if (out >= 0) close(out);
    if (out >= 0 && status != KT_OK) unlink(to);
    return status;
}

static bool is_dots(const char *name) {
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* depth: of folders that may be in it */
static kt_status remove_below(const char *dir, int depth, kt_error *err) {
    char path[KT__FILES_PATH_MAX];
    kt_status status = KT_OK;
    DIR *d = opendir(dir);
    if (!d) return errno == ENOENT ? KT_OK : fail_io("open", dir, err);
    for (struct dirent *e; status == KT_OK && (e = readdir(d)) != NULL;) {
        if (is_dots(e->d_name)) continue;
        status = kt__files_path(path, dir, e->d_name, err);
        if (status != KT_OK || unlink(path) == 0 || errno == ENOENT) continue;
        if (errno != EISDIR && errno != EPERM) {
            status = fail_io("remove", path, err);
        } else {
            status = depth > 0 ? remove_below(path, depth - 1, err) : fail_io("remove", path, err);
        }
    }
    closedir(d);
    if (status == KT_OK && rmdir(dir) != 0 && errno != ENOENT) status = fail_io("remove", dir, err);
    return status;
}

kt_status kt__files_remove_tree(const char *dir, kt_error *err) {
    return remove_below(dir, 4, err);
}

/* ---- fd io ---- */

bool kt__fd_write(int fd, const void *data, size_t n) {
    const uint8_t *p = data;
    while (n) {
        ssize_t got = write(fd, p, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

bool kt__fd_write_at(int fd, const void *data, size_t n, uint64_t at) {
    const uint8_t *p = data;
    while (n) {
        ssize_t got = pwrite(fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

bool kt__fd_read_at(int fd, void *data, size_t n, uint64_t at) {
    uint8_t *p = data;
    while (n) {
        ssize_t got = pread(fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = 0;
        if (got <= 0) return false;
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

void kt__sync_folder_of(const char *path) {
    char *copy = kt__strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    kt__free(copy);
}

bool kt__same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* ---- changes ---- */

kt__file_stamp kt__file_stamp_of(const char *path) {
    struct stat st;
    if (!path || stat(path, &st) != 0) return (kt__file_stamp){0};
    return (kt__file_stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
}

kt__file_change kt__file_changed(const char *path, const kt__file_stamp *then) {
    if (!then->ino) return KT__FILE_SAME;
    const kt__file_stamp now = kt__file_stamp_of(path);
    if (!now.ino) return KT__FILE_GONE;
    if (now.ino != then->ino || now.dev != then->dev) return KT__FILE_REPLACED;
    if (now.size < then->size) return KT__FILE_TRUNCATED;
    bool same = now.size == then->size && now.changed.tv_sec == then->changed.tv_sec &&
                now.changed.tv_nsec == then->changed.tv_nsec;
    return same ? KT__FILE_SAME : KT__FILE_WRITTEN;
}
