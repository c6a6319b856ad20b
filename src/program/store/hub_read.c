/* What hubs answer, read. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "store/hub.h"

enum { MAX_FILES = 16384 };

static bool is_hex(const char *text, size_t len) {
    return text && strlen(text) == len && strspn(text, "0123456789abcdef") == len;
}

/* Adds URL and the file's name, escaped; a name that is not safe, or there already, is passed over. */
static kt_status add_file(kt__offer *offer, const char *url, const char *name, uint64_t bytes,
                          const char *sha, kt_error *err) {
    kt__buf whole;
    if (!kt__name_is_safe(name)) return KT_OK;
    for (size_t i = 0; i < offer->n; i++)
        if (!strcmp(offer->files[i].name, name)) return KT_OK;
    if (offer->n == MAX_FILES)
        return kt__fail(err, KT_E_LIMIT, "%.200s: more than %d files", url, (int)MAX_FILES);
    if (!kt__vec_reserve(offer->files, offer->cap, offer->n + 1))
        return kt__fail_nomem(err, "a list of files", offer->n);
    kt__remote *r = &offer->files[offer->n++];
    *r = (kt__remote){.bytes = bytes, .name = kt__strdup(name)};
    if (is_hex(sha, 64) || is_hex(sha, 40)) memcpy(r->sha, sha, strlen(sha) + 1);
    kt__buf_init(&whole, KT__FETCH_URL - 1);
    bool ok = kt__buf_puts(&whole, url) && kt__url_append(&whole, name);
    r->url = ok ? kt__buf_take(&whole, NULL) : NULL;
    kt__buf_free(&whole);
    return r->url && r->name ? KT_OK : kt__fail_nomem(err, "a file's address", strlen(name));
}

static kt_status parse_json(const char *text, size_t len, const char *url, json_t **out,
                            kt_error *err) {
    json_error_t why;
    *out = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (*out) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, url, (uint64_t)(why.position > 0 ? why.position : 0),
                       "the hub's answer is no JSON: %.100s", why.text);
}

static uint64_t size_of(const json_t *object) {
    const json_t *size = json_object_get(object, "size");
    json_int_t n = json_integer_value(size);
    return json_is_integer(size) && n >= 0 ? (uint64_t)n : UINT64_MAX;
}

kt_status kt__hub_read_tree(const char *text, size_t len, const char *url, kt__offer *out,
                            kt_error *err) {
    json_t *root, *item;
    size_t i;
    kt_status status = parse_json(text, len, url, &root, err);
    if (status == KT_OK && !json_is_array(root))
        status = kt__fail_at(err, KT_E_FORMAT, url, UINT64_MAX,
                             "the hub's answer is no list of files");
    json_array_foreach(root, i, item) {
        const char *path = json_string_value(json_object_get(item, "path"));
        const char *type = json_string_value(json_object_get(item, "type"));
        const json_t *lfs = json_object_get(item, "lfs");
        const json_t *oid = json_object_get(json_is_object(lfs) ? lfs : item, "oid");
        if (status != KT_OK || !path || (type && strcmp(type, "file") != 0)) continue;
        status = add_file(out, url, path, size_of(item), json_string_value(oid), err);
    }
    json_decref(root);
    return status;
}

/* Where the registry has the tensors one by one, which is no GGUF file. */
static kt_status no_model(const json_t *layers, const char *url, kt_error *err) {
    json_t *layer;
    size_t i;
    json_array_foreach(layers, i, layer) {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        if (type && strcmp(type, "application/vnd.ollama.image.tensor") == 0)
            return kt__fail_at(err, KT_E_UNSUPPORTED, url, UINT64_MAX,
                               "the registry has this model as single tensors in Ollama's own "
                               "form, and not as a GGUF file: take another tag, or the model from "
                               "another hub");
    }
    return kt__fail_at(err, KT_E_FORMAT, url, UINT64_MAX, "the manifest names no model");
}

kt_status kt__hub_read_manifest(const char *text, size_t len, const char *url, const char *name,
                                kt__offer *out, kt_error *err) {
    json_t *root, *layer;
    size_t i;
    kt_status status = parse_json(text, len, url, &root, err);
    json_array_foreach(json_object_get(root, "layers"), i, layer) {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *digest = json_string_value(json_object_get(layer, "digest"));
        if (status != KT_OK || !type || strcmp(type, "application/vnd.ollama.image.model") != 0)
            continue;
        if (!digest || strncmp(digest, "sha256:", 7) != 0 || !is_hex(digest + 7, 64)) {
            status = kt__fail_at(err, KT_E_FORMAT, url, UINT64_MAX,
                                 "the manifest's digest is no SHA-256");
        } else if (out->n) {
            status = kt__fail_at(err, KT_E_UNSUPPORTED, url, UINT64_MAX,
                                 "the manifest has a model of several layers");
        } else {
            status = add_file(out, url, name, size_of(layer), digest + 7, err);
        }
        if (status == KT_OK && out->n) { /* blobs go by their digest */
            size_t at = strlen(out->files[0].url) + strlen(digest);
            char *blob = kt__malloc(at + 1);
            if (blob) snprintf(blob, at + 1, "%s%s", url, digest);
            kt__free(out->files[0].url);
            out->files[0].url = blob;
            if (!blob) status = kt__fail_nomem(err, "an address", at);
        }
    }
    if (status == KT_OK && !out->n) status = no_model(json_object_get(root, "layers"), url, err);
    json_decref(root);
    return status;
}

/* ---- lists of links ---- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A link's text without %XX and &amp;; false: it does not fit, or has a NUL byte. */
static bool decode_link(const char *text, size_t len, char *out, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < len && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
            c = (char)(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
            i += 2;
        } else if (c == '&' && len - i >= 5 && !strncasecmp(text + i, "&amp;", 5)) {
            i += 4;
        }
        if (!c || n + 1 >= size) return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

/* A file of this folder, "./NAME" or "NAME"; queries, anchors and other folders are none. */
static kt_status add_link(const char *text, size_t len, const char *url, kt__offer *out,
                          kt_error *err) {
    char name[KT__NAME_MAX + 1];
    if (!decode_link(text, len, name, sizeof name)) return KT_OK;
    const char *file = strncmp(name, "./", 2) ? name : name + 2;
    if (strchr(file, '/') || strchr(file, '?') || strchr(file, '#')) return KT_OK;
    return add_file(out, url, file, UINT64_MAX, NULL, err);
}

kt_status kt__hub_read_listing(const char *text, size_t len, const char *url, kt__offer *out,
                               kt_error *err) {
    kt_status status = KT_OK;
    size_t at = 0;
    while (at + 6 < len && status == KT_OK) {
        if (strncasecmp(text + at, "href=", 5) != 0) {
            at++;
            continue;
        }
        char quote = text[at + 5];
        const char *begin = text + at + 6;
        const char *end = quote == '"' || quote == '\'' ? memchr(begin, quote, len - at - 6) : NULL;
        if (end) status = add_link(begin, (size_t)(end - begin), url, out, err);
        at = end ? (size_t)(end - text) : at + 5;
    }
    return status;
}
