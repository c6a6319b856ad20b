/* Pictures in a request: what OpenAI's, Anthropic's, Responses' and Ollama's bodies say of one, to the bytes of its
 * file. Whether the model sees is known when the request is submitted, and said in the words of its place. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "net/get.h"
#include "wire/wire_value.h"

enum { MOST_BYTES = 64 << 20, FETCH_S = 20 };

bool kt__wire_is_picture(const char *type) {
    return !strcmp(type, "image") || !strcmp(type, "image_url") || !strcmp(type, "input_image");
}

/* One more in the request's list. */
static kt__wire_picture *next_picture(const kt__wire_reader *r) {
    kt__wire_request *q = r->request;
    if (q->n_pictures == q->cap_pictures) {
        size_t cap = q->cap_pictures ? 2 * q->cap_pictures : 4;
        kt__wire_picture *places = kt__arena_calloc(r->arena, cap, sizeof *places);
        kt_picture *files = kt__arena_calloc(r->arena, cap, sizeof *files);
        if (!places || !files) return NULL;
        if (q->n_pictures) {
            memcpy(places, q->picture_places, q->n_pictures * sizeof *places);
            memcpy(files, q->req.prompt.pictures, q->n_pictures * sizeof *files);
        }
        q->picture_places = places;
        q->picture_files = files;
        q->cap_pictures = cap;
        q->req.prompt.pictures = files;
    }
    return &q->picture_places[q->n_pictures];
}

/* data[n] in the arena; place: of an error in the picture, or of one for there being any, with its text. */
static kt_status add_bytes(const kt__wire_reader *r, const kt__wire_place *at,
                           const kt__wire_place *any_at, const char *any, const char *data,
                           size_t n) {
    kt__wire_picture *p = next_picture(r);
    if (!p) return kt__wire_fail_nomem(r);
    *p = (kt__wire_picture){kt__wire_path(r, at), kt__wire_path(r, any_at),
                            kt__arena_strndup(r->arena, any, strlen(any))};
    if (!p->at || !p->any_at || !p->any) return kt__wire_fail_nomem(r);
    r->request->picture_files[r->request->n_pictures++] = (kt_picture){data, n};
    r->request->req.prompt.n_pictures = r->request->n_pictures;
    return KT_OK;
}

static kt_status add_file(const kt__wire_reader *r, const kt__wire_place *at,
                          const kt__wire_place *any_at, const char *any, const char *base64,
                          size_t len) {
    char *data = kt__arena_alloc(r->arena, len / 4 * 3 + 3);
    size_t bad;
    if (!data) return kt__wire_fail_nomem(r);
    size_t n = kt__base64_decode(base64, len, data, &bad);
    if (bad != SIZE_MAX)
        return kt__wire_fail_at(r, KT_E_ARG, at, "is not base64 at its character %zu", bad);
    return add_bytes(r, at, any_at, any, data, n);
}

/* ---- URLs ---- */

/* A path of a URL without its %XX; false: too long, or with a NUL. */
static bool decode_path(const char *text, char out[PATH_MAX]) {
    size_t n = 0;
    for (; *text && n < PATH_MAX - 1; text++) {
        unsigned byte = (unsigned char)*text;
        if (byte == '%') {
            char two[3] = {text[1], text[1] ? text[2] : '\0', '\0'}, *end;
            byte = (unsigned)strtoul(two, &end, 16);
            if (end != two + 2 || byte == 0) return false;
            text += 2;
        }
        out[n++] = (char)byte;
    }
    out[n] = '\0';
    return !*text;
}

/* The place of a file:// URL below the folder, links resolved; false: elsewhere, or there is none. */
static bool path_below(const char *folder, const char *url, char out[PATH_MAX]) {
    char path[PATH_MAX], root[PATH_MAX], whole[2 * PATH_MAX];
    if (!decode_path(url + strlen("file://"), path) || !realpath(folder, root)) return false;
    bool absolute = kt__files_is_absolute(path);
    snprintf(whole, sizeof whole, "%s%s%s", absolute ? "" : root, absolute ? "" : "/", path);
    size_t n = strlen(root);
    return realpath(whole, out) && !strncmp(out, root, n) && (out[n] == '/' || !strcmp(root, "/"));
}

static kt_status read_bytes(const kt__wire_reader *r, const kt__wire_place *at, const char *path,
                            char **data, size_t *n) {
    kt__file_info st;
    int fd = kt__fd_open(path, KT__OPEN_READ | KT__OPEN_NO_LINK | KT__OPEN_NO_WAIT);
    bool whole = fd >= 0 && kt__fd_look(fd, &st) && st.is_file;
    kt_status status = KT_OK;
    if (!whole)
        status = kt__wire_fail_at(r, KT_E_ARG, at, "the picture's file cannot be read");
    else if (st.bytes > MOST_BYTES)
        status = kt__wire_fail_at(r, KT_E_LIMIT, at, "a file of more than %d MB", MOST_BYTES >> 20);
    else if (!(*data = kt__arena_alloc(r->arena, (size_t)st.bytes + 1)))
        status = kt__wire_fail_nomem(r);
    for (*n = 0; status == KT_OK && *n < (size_t)st.bytes;) {
        ssize_t got = kt__fd_read(fd, *data + *n, (size_t)st.bytes - *n);
        if (got <= 0) break;
        *n += (size_t)got;
    }
    if (fd >= 0) kt__fd_close(fd);
    return status;
}

static kt_status add_local(const kt__wire_reader *r, const kt__wire_place *at,
                           const kt__wire_place *type_at, const char *any, const char *url) {
    const char *folder = r->eyes ? r->eyes->folder : NULL;
    char path[PATH_MAX], *data = NULL;
    size_t n = 0;
    if (!folder || !*folder)
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, at,
                                "files of this machine are not read: `pictures.folder` names a "
                                "folder whose files are");
    if (!path_below(folder, url, path))
        return kt__wire_fail_at(r, KT_E_ARG, at, "there is no such file in the folder of pictures");
    KT__STEP(read_bytes(r, at, path, &data, &n));
    return add_bytes(r, at, type_at, any, data, n);
}

static kt_status add_fetched(const kt__wire_reader *r, const kt__wire_place *at,
                             const kt__wire_place *type_at, const char *any, const char *url) {
    const kt__get_params params = {"a picture's address", MOST_BYTES, FETCH_S,
                                   r->eyes && r->eyes->private_net};
    kt__buf out;
    kt_error why;
    if (!r->eyes || !r->eyes->fetch)
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, at,
                                "nothing is fetched here: send the picture itself, as "
                                "data:image/png;base64,..., or set `pictures.fetch`");
    kt_status status = kt__net_get(url, &params, &out, &why);
    char *data = status == KT_OK ? kt__arena_strndup(r->arena, out.data ? out.data : "", out.len)
                                 : NULL;
    if (status != KT_OK)
        status = kt__wire_fail_at(r,
                                  status == KT_E_LIMIT || status == KT_E_NOMEM ? status : KT_E_ARG,
                                  at, "%.300s", why.message);
    else
        status = data ? add_bytes(r, at, type_at, any, data, out.len) : kt__wire_fail_nomem(r);
    kt__buf_free(&out);
    return status;
}

/* data:image/png;base64,..., or where the configuration lets it another place. */
static kt_status add_url(const kt__wire_reader *r, const kt__wire_place *at,
                         const kt__wire_place *type_at, const char *any, const json_t *url) {
    const char *text = json_string_value(url);
    const char *data = strstr(text, ";base64,");
    if (!kt__strncasecmp(text, "file://", 7)) return add_local(r, at, type_at, any, text);
    if (!kt__strncasecmp(text, "http://", 7) || !kt__strncasecmp(text, "https://", 8))
        return add_fetched(r, at, type_at, any, text);
    if (strncmp(text, "data:", 5) != 0 || !data)
        return kt__wire_fail_at(r, KT_E_UNSUPPORTED, at,
                                "expected a data: URL with the picture in base64: "
                                "data:image/png;base64,...");
    data += strlen(";base64,");
    return add_file(r, at, type_at, any, data, json_string_length(url) - (size_t)(data - text));
}

/* Where a part has its picture: a text of base64, or a URL; NULL: nowhere. */
static const json_t *source_of(const json_t *part, bool *is_url) {
    const json_t *url = json_object_get(part, "image_url"),
                 *source = json_object_get(part, "source");
    *is_url = true;
    if (json_is_object(url)) url = json_object_get(url, "url");
    if (json_is_string(url)) return url;
    if (json_is_string(json_object_get(source, "url"))) return json_object_get(source, "url");
    *is_url = false;
    const json_t *data = json_object_get(source, "data");
    return json_is_string(data) ? data : NULL;
}

kt_status kt__wire_read_picture(const kt__wire_reader *r, const kt__wire_place *at,
                                const json_t *part) {
    kt__wire_place type_at = {.up = at, .key = "type"};
    const char *type = json_string_value(json_object_get(part, "type"));
    char any[96];
    bool is_url;
    const json_t *source = source_of(part, &is_url);
    snprintf(any, sizeof any, "\"%.40s\" is not supported, only \"text\"", type);
    if (!source) return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &type_at, "%s", any);
    if (is_url) return add_url(r, at, &type_at, any, source);
    return add_file(r, at, &type_at, any, json_string_value(source), json_string_length(source));
}

/* Ollama's: a list of base64 next to the message's text. */
kt_status kt__wire_read_images(const kt__wire_reader *r, const kt__wire_place *up,
                               const json_t *message, bool of_user) {
    static const char none[] = "not supported: kentang sees no images";
    kt__wire_place at = {.up = up, .key = "images"};
    const json_t *list = kt__wire_member(message, "images");
    if (!list || kt__wire_is_empty(list)) return KT_OK;
    if (!of_user) return kt__wire_fail_at(r, KT_E_UNSUPPORTED, &at, "only in a user's message");
    if (!json_is_array(list)) return kt__wire_fail_type(r, &at, "an array", list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        kt__wire_place here = {.up = &at, .index = i};
        const json_t *v = json_array_get(list, i);
        if (!json_is_string(v)) return kt__wire_fail_type(r, &here, "a string of base64", v);
        KT__STEP(add_file(r, &here, &at, none, json_string_value(v), json_string_length(v)));
    }
    return KT_OK;
}

bool kt__wire_has_pictures(const json_t *message) {
    const json_t *images = kt__wire_member(message, "images"),
                 *content = kt__wire_member(message, "content");
    const char *role = json_string_value(kt__wire_member(message, "role"));
    bool any = images && !kt__wire_is_empty(images);
    if (!role || strcmp(role, "user") != 0) return false;
    for (size_t i = 0; json_is_array(content) && i < json_array_size(content) && !any; i++) {
        const char *type = json_string_value(json_object_get(json_array_get(content, i), "type"));
        any = type && kt__wire_is_picture(type);
    }
    return any;
}

static bool is_picture_part(const json_t *part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    return type && kt__wire_is_picture(type);
}

size_t kt__wire_count_returned(const kt__wire_reader *r, const json_t *message) {
    const json_t *content = kt__wire_member(message, "content");
    const char *role = json_string_value(kt__wire_member(message, "role"));
    size_t n = 0;
    if (!r->eyes || !r->eyes->sees || !role || strcmp(role, "tool") != 0) return 0;
    for (size_t i = 0; json_is_array(content) && i < json_array_size(content); i++)
        n += is_picture_part(json_array_get(content, i));
    return n;
}

json_t *kt__wire_picture_parts(const json_t *message, size_t n_returned) {
    const json_t *images = kt__wire_member(message, "images"),
                 *content = kt__wire_member(message, "content");
    json_t *parts = json_array();
    int rc = parts ? 0 : -1;
    for (size_t i = 0; i < json_array_size(images) + n_returned && rc == 0; i++)
        rc = json_array_append_new(parts, json_pack("{s:s}", "type", "image"));
    if (json_is_string(content) && rc == 0)
        rc = json_array_append_new(parts, json_pack("{s:s,s:O}", "type", "text", "text", content));
    for (size_t i = 0; json_is_array(content) && i < json_array_size(content) && rc == 0; i++) {
        const json_t *part = json_array_get(content, i);
        json_t *text = json_object_get(part, "text");
        if (!text) text = json_object_get(part, "refusal");
        bool seen = kt__wire_is_picture(json_string_value(json_object_get(part, "type")));
        rc = json_array_append_new(parts,
                                   seen ? json_pack("{s:s}", "type", "image")
                                        : json_pack("{s:s,s:O}", "type", "text", "text", text));
    }
    if (rc == 0) return parts;
    json_decref(parts);
    return NULL;
}

/* "pictures[1]" is a place in the engine's words; "pictures" means that there are any. */
bool kt__wire_place_picture(const kt__wire_request *request, kt_error *err) {
    unsigned i = 0;
    char text[sizeof err->message];
    if (strncmp(err->where, "pictures", 8) != 0 || !request->n_pictures) return false;
    bool one = sscanf(err->where, "pictures[%u]", &i) == 1 && i < request->n_pictures;
    const kt__wire_picture *p = &request->picture_places[one ? i : 0];
    bool none = !one && err->code == KT_E_UNSUPPORTED && strstr(err->message, "mmproj");
    const char *place = none ? p->any_at : p->at;
    const char *colon = one ? strstr(err->message, ": ") : NULL;
    snprintf(text, sizeof text, "%.150s: %.300s", place,
             none    ? p->any
             : colon ? colon + 2
                     : err->message);
    memcpy(err->message, text, sizeof text);
    snprintf(err->where, sizeof err->where, "%s", place);
    return true;
}
