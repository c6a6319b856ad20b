#include "convert/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd_io.h"

char *kt__folder_path(const char *dir, const char *name) {
    size_t dir_len = strlen(dir), name_len = strlen(name);
    char *path = kt__malloc(dir_len + name_len + 2);
    if (!path) return NULL;
    memcpy(path, dir, dir_len);
    path[dir_len] = '/';
    memcpy(path + dir_len + 1, name, name_len + 1);
    return path;
}

/* O_NONBLOCK: a pipe in place of the file is refused, not waited for. */
static kt_status open_regular(const char *path, size_t max, bool required, int *fd, size_t *size,
                              kt_error *err) {
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 && errno == ENOENT && !required) return KT_OK;
    if (*fd < 0 || fstat(*fd, &st) != 0)
        return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot read: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "not a regular file");
    if ((uint64_t)st.st_size > max)
        return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                           "%lld bytes are over the limit of %zu for such a file",
                           (long long)st.st_size, max);
    *size = (size_t)st.st_size;
    return KT_OK;
}

kt_status kt__folder_read_file(const char *path, size_t max, bool required, char **text,
                               size_t *len, kt_error *err) {
    int fd = -1;
    char *data = NULL;
    kt_status status;
    *text = NULL;
    *len = 0;
    KT__TRY(open_regular(path, max, required, &fd, len, err));
    if (fd < 0) goto out;
    data = kt__malloc(*len + 1);
    if (!data) {
        status = kt__fail_nomem(err, path, *len);
        goto out;
    }
    if (!kt__fd_read_at(fd, data, *len, 0)) {
        status = kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot read: %s",
                             errno ? strerror(errno) : "the file became shorter");
        goto out;
    }
    data[*len] = '\0';
    *text = data;
    data = NULL;
out:
    if (fd >= 0) close(fd);
    kt__free(data);
    return status;
}

kt_status kt__folder_parse_json(const char *text, size_t len, const char *path, json_t **out,
                                kt_error *err) {
    json_error_t at;
    *out = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
    if (!*out)
        return kt__fail_at(err, KT_E_FORMAT, path, at.position >= 0 ? (uint64_t)at.position : 0,
                           "not valid JSON: %s", at.text);
    if (json_is_object(*out)) return KT_OK;
    json_decref(*out);
    *out = NULL;
    return kt__fail_at(err, KT_E_FORMAT, path, 0, "a JSON object is expected");
}

kt_status kt__folder_read_json(const char *path, size_t max, bool required, json_t **out,
                               kt_error *err) {
    char *text;
    size_t len;
    *out = NULL;
    kt_status status = kt__folder_read_file(path, max, required, &text, &len, err);
    if (status == KT_OK && text) status = kt__folder_parse_json(text, len, path, out, err);
    kt__free(text);
    return status;
}
