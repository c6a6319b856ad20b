#include "setup/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static kt_status fail_errno(const char *path, const char *what, kt_error *err) {
    int code = errno;
    return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot read %s in %s: %s", what, path,
                       strerror(code));
}

static const char *kind_of_file(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

/* O_NONBLOCK: opening a pipe that has no writer would wait for one. */
static kt_status open_regular(const char *path, const char *what, int *fd, struct stat *st,
                              kt_error *err) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 || fstat(*fd, st) != 0) return fail_errno(path, what, err);
    if (S_ISREG(st->st_mode)) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, path, UINT64_MAX,
                       "cannot read %s in %s: it is %s; they must be in a regular file, because a "
                       "reload reads them again",
                       what, path, kind_of_file(st->st_mode));
}

static kt_status read_text(int fd, const char *path, const char *what, kt__buf *out,
                           kt_error *err) {
    char piece[4096];
    ssize_t n;
    while ((n = read(fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(path, what, err);
        if (kt__buf_append(out, piece, (size_t)n)) continue;
        if (out->len + (size_t)n <= out->max) return kt__fail_nomem(err, path, out->len);
        return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                           "%s is too long: at most %zu bytes are read", path, out->max);
    }
    explicit_bzero(piece, sizeof piece);
    return KT_OK;
}

static kt_status check_text(kt__buf *text, const char *path, kt_error *err) {
    const unsigned char *bytes = (const unsigned char *)text->data;
    if (text->len >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) {
        text->len -= 3;
        memmove(text->data, text->data + 3, text->len + 1);
    } else if (text->len >= 2 && (!memcmp(bytes, "\xff\xfe", 2) || !memcmp(bytes, "\xfe\xff", 2))) {
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "%s is UTF-16, as its byte-order mark says: save it as UTF-8", path);
    }
    if (text->len && memchr(text->data, '\0', text->len))
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "%s holds NUL bytes: no text file",
                           path);
    return KT_OK;
}

kt_status kt__config_file_read(const char *path, const char *what, size_t max, kt__buf *out,
                               struct stat *st, kt_error *err) {
    struct stat own;
    int fd = -1;
    kt_status status;
    if (!st) st = &own;
    kt__buf_init(out, max);
    KT__TRY(open_regular(path, what, &fd, st, err));
    if (st->st_size > 0 && (uint64_t)st->st_size <= max)
        (void)kt__buf_reserve(out, (size_t)st->st_size); /* in one block: no copies remain */
    KT__TRY(read_text(fd, path, what, out, err));
    status = check_text(out, path, err);
out:
    if (fd >= 0) close(fd);
    return status;
}

void kt__config_file_forget(kt__buf *text) {
    if (text->data) explicit_bzero(text->data, text->len);
    kt__buf_free(text);
}
