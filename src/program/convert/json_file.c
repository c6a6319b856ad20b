#include "convert/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd_io.h"
#include "convert/json_numbers.h"

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

static kt_status not_json(const char *path, const json_error_t *why, size_t at, kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, path, at, "not valid JSON: %s", why->text);
}

/* As Python reads it: of two equal keys the last counts. */
static kt_status parse_as_python(const char *text, size_t len, const char *path, json_t **out,
                                 kt_error *err) {
    json_error_t why;
    char *plain;
    size_t plain_len;
    kt_status status = kt__json_numbers_plain(text, len, path, &plain, &plain_len, err);
    if (status != KT_OK) return status;
    *out = plain ? json_loadb(plain, plain_len, 0, &why) : json_loadb(text, len, 0, &why);
    kt__free(plain);
    if (*out) return KT_OK;
    size_t at = why.position >= 0 ? (size_t)why.position : 0;
    return not_json(path, &why, kt__json_numbers_origin(text, len, at), err);
}

static kt_status need_object(const char *path, json_t **out, kt_error *err) {
    if (json_is_object(*out)) return KT_OK;
    json_decref(*out);
    *out = NULL;
    return kt__fail_at(err, KT_E_FORMAT, path, 0, "a JSON object is expected");
}

kt_status kt__folder_parse_json(const char *text, size_t len, const char *path, json_t **out,
                                kt_error *err) {
    *out = NULL;
    kt_status status = parse_as_python(text, len, path, out, err);
    return status == KT_OK ? need_object(path, out, err) : status;
}

kt_status kt__folder_parse_strict(const char *text, size_t len, const char *path, json_t **out,
                                  kt_error *err) {
    json_error_t why;
    *out = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (*out) return need_object(path, out, err);
    return not_json(path, &why, why.position >= 0 ? (size_t)why.position : 0, err);
}

kt_status kt__folder_read_list(const char *path, size_t max, size_t max_items, json_t **out,
                               kt_error *err) {
    char *text;
    size_t len;
    *out = NULL;
    kt_status status = kt__folder_read_file(path, max, false, &text, &len, err);
    if (status == KT_OK && text) status = parse_as_python(text, len, path, out, err);
    kt__free(text);
    if (!*out || (json_is_array(*out) && json_array_size(*out) <= max_items)) return status;
    json_decref(*out);
    *out = NULL;
    return kt__fail_at(err, KT_E_FORMAT, path, 0, "a list of at most %zu modules is expected",
                       max_items);
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
