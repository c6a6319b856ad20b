#include "convert/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

/* ---- links ---- */

static bool lies_in(const char *path, const char *folder, size_t len) {
    return strncmp(path, folder, len) == 0 && path[len] == '/';
}

/* Whether a file of the folder `home` may be at `real`: both without links. Hugging Face's cache keeps
 * models--X/snapshots/REVISION/FILE as a link to models--X/blobs/HASH. */
static bool may_lie_at(const char *real, const char *home) {
    static const char snapshots[] = "/snapshots/", blobs[] = "/blobs";
    if (lies_in(real, home, strlen(home))) return true;
    const char *cut = NULL, *next = strstr(home, snapshots);
    for (; next; next = strstr(next + 1, snapshots)) cut = next;
    if (!cut || strncmp(real, home, (size_t)(cut - home)) != 0) return false;
    const char *rest = real + (cut - home);
    return lies_in(rest, blobs, sizeof blobs - 1) && !strchr(rest + sizeof blobs, '/');
}

kt_status kt__folder_check_link(const char *path, kt_error *err) {
    struct stat st;
    const char *slash = strrchr(path, '/');
    if (!slash || lstat(path, &st) != 0 || !S_ISLNK(st.st_mode))
        return KT_OK; /* absent: the opening says so */
    char *folder = kt__strndup(path, (size_t)(slash - path) + (slash == path));
    char *home = folder ? realpath(folder, NULL) : NULL, *real = realpath(path, NULL);
    bool good = !real || (home && may_lie_at(real, home));
    kt_status status =
        good
            ? KT_OK
            : kt__fail_at(
                  err, KT_E_FORMAT, path, UINT64_MAX,
                  "a link to %.300s, which is neither in the model's folder nor among the blobs of its hub cache: "
                  "put the file itself there",
                  real);
    free(home);
    free(real);
    kt__free(folder);
    return status;
}

/* O_NONBLOCK: a pipe in place of the file is refused, not waited for. */
static kt_status open_regular(const char *path, size_t max, bool required, int *fd, size_t *size,
                              kt_error *err) {
    struct stat st;
    kt_status status = kt__folder_check_link(path, err);
    if (status != KT_OK) return status;
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

/* ---- how many values ---- */

/* jansson makes a structure of each value: of 60 MB of {} 4.8 GB in 27 seconds. Published files have one value in ten bytes
 * or more, and few objects, which are the largest. */
enum { BYTES_A_VALUE = 12, OBJECT_VALUES = 8, ARRAY_VALUES = 2, KEY_VALUES = 4 };

static size_t value_cost(char c) {
    switch (c) {
    case ',': return 1;
    case ':': return KEY_VALUES;
    case '[': return ARRAY_VALUES;
    case '{': return OBJECT_VALUES;
    default: return 0;
    }
}

/* The end of the string that begins at `at`. */
static const char *after_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

/* Whether the text has at most so many values, an object and a list counting more; *at: where it has more. */
static bool has_few_values(const char *text, size_t len, size_t most, size_t *at) {
    const char *end = text + len;
    size_t n = 0;
    for (const char *c = text; c < end;) {
        if (*c == '"') {
            c = after_string(c, end);
            continue;
        }
        n += value_cost(*c);
        if (n > most) {
            *at = (size_t)(c - text);
            return false;
        }
        c++;
    }
    return true;
}

static kt_status check_values(const char *text, size_t len, size_t max_bytes, const char *path,
                              kt_error *err) {
    size_t most = max_bytes / BYTES_A_VALUE, at;
    if (has_few_values(text, len, most, &at)) return KT_OK;
    return kt__fail_at(
        err, KT_E_LIMIT, path, at,
        "over %zu values, where a key counts as %d and an object as %d, are more than such a file has",
        most, KEY_VALUES, OBJECT_VALUES);
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

/* As Python reads it, if it has no more values than max bytes may have. */
static kt_status parse_bounded(const char *text, size_t len, size_t max, const char *path,
                               json_t **out, kt_error *err) {
    KT__STEP(check_values(text, len, max, path, err));
    return parse_as_python(text, len, path, out, err);
}

kt_status kt__folder_read_list(const char *path, size_t max, size_t max_items, json_t **out,
                               kt_error *err) {
    char *text;
    size_t len;
    *out = NULL;
    kt_status status = kt__folder_read_file(path, max, false, &text, &len, err);
    if (status == KT_OK && text) status = parse_bounded(text, len, max, path, out, err);
    kt__free(text);
    if (!*out || (json_is_array(*out) && json_array_size(*out) <= max_items)) return status;
    json_decref(*out);
    *out = NULL;
    return kt__fail_at(err, KT_E_FORMAT, path, 0, "a list of at most %zu modules is expected",
                       max_items);
}

kt_status kt__folder_parse_bounded(const char *text, size_t len, size_t max, const char *path,
                                   json_t **out, kt_error *err) {
    *out = NULL;
    if (len > max)
        return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                           "%zu bytes are over the limit of %zu for such a file", len, max);
    KT__STEP(parse_bounded(text, len, max, path, out, err));
    return need_object(path, out, err);
}

kt_status kt__folder_read_json(const char *path, size_t max, bool required, json_t **out,
                               kt_error *err) {
    char *text;
    size_t len;
    *out = NULL;
    kt_status status = kt__folder_read_file(path, max, required, &text, &len, err);
    if (status == KT_OK && text) status = kt__folder_parse_bounded(text, len, max, path, out, err);
    kt__free(text);
    return status;
}
