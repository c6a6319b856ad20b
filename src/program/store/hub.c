#include "store/hub.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "host/host.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { MAX_ANSWER = 8 << 20, MAX_PAGES = 100 };

/* ---- names ---- */

static kt_status fail_name(const char *text, kt_error *err) {
    return kt__fail(err, KT_E_ARG,
                    "\"%.200s\" is no model's name: expected NAME[:TAG], "
                    "OWNER/REPO[@REVISION][/FILE][:TAG] or an address",
                    text);
}

/* What is after the last `mark` of the text, if no slash follows it; the text ends before it. */
static bool cut_end(char *text, char mark, char *out, size_t size) {
    char *at = strrchr(text, mark);
    out[0] = '\0';
    if (!at || strchr(at, '/')) return true;
    *at = '\0';
    return snprintf(out, size, "%s", at + 1) < (int)size && out[0];
}

/* http://host:port/path/FILE.gguf or http://host/path/ */
static kt_status parse_address(const char *text, kt__hub_name *out, kt_error *err) {
    const char *host = strstr(text, "://") + 3, *file = strrchr(text, '/') + 1;
    size_t host_len = strcspn(host, ":/?#"), path_len = (size_t)(file - text);
    if (file <= host || path_len >= sizeof out->url || host_len >= sizeof out->repo)
        return fail_name(text, err);
    snprintf(out->repo, sizeof out->repo, "%.*s", (int)host_len, host);
    snprintf(out->url, sizeof out->url, "%.*s", (int)path_len, text);
    snprintf(out->file, sizeof out->file, "%s", file);
    bool safe = kt__name_is_safe(out->repo) &&
                (!*file || (kt__name_is_safe(file) && kt__name_is_gguf(file)));
    return safe ? KT_OK : fail_name(text, err);
}

static const char *without_scheme(const char *text) {
    static const char *const heads[] = {"hf:", "hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (!strncmp(text, heads[i], strlen(heads[i]))) return text + strlen(heads[i]);
    return text;
}

kt_status kt__hub_name_parse(const char *text, kt__hub_name *out, kt_error *err) {
    char whole[KT__FETCH_URL];
    *out = (kt__hub_name){0};
    if (!strncmp(text, "http://", 7) || !strncmp(text, "https://", 8))
        return parse_address(text, out, err);
    int n = snprintf(whole, sizeof whole, "%s", without_scheme(text));
    if (n < 0 || (size_t)n >= sizeof whole || !cut_end(whole, ':', out->tag, sizeof out->tag))
        return fail_name(text, err);
    char *slash = strchr(whole, '/'), *second = slash ? strchr(slash + 1, '/') : NULL;
    if (second) {
        *second = '\0';
        snprintf(out->file, sizeof out->file, "%.*s", KT__NAME_MAX, second + 1);
    }
    if (!cut_end(whole, '@', out->revision, sizeof out->revision) ||
        strlen(whole) >= sizeof out->repo)
        return fail_name(text, err);
    snprintf(out->repo, sizeof out->repo, "%s", whole);
    bool safe = kt__name_is_safe(out->repo) && (!second || kt__name_is_safe(out->file)) &&
                (!out->tag[0] || kt__name_is_safe(out->tag)) &&
                (!out->revision[0] || kt__name_is_safe(out->revision));
    return safe ? KT_OK : fail_name(text, err);
}

/* ---- asking ---- */

typedef struct question {
    const kt__access *access;
    const kt__hub_name *name;
    kt__fetch *fetch;
    kt__buf url, text;
    kt__fetch_reply reply;
    kt__offer *offer;
    kt_error *err;
} question;

void kt__offer_free(kt__offer *offer) {
    for (size_t i = 0; i < offer->n; i++) kt__remote_free(&offer->files[i]);
    kt__free(offer->files);
    *offer = (kt__offer){0};
}

/* The hub's address and parts that are escaped; NULL ends them. */
static bool make_url(question *q, const char *const *parts) {
    kt__buf_clear(&q->url);
    bool ok = kt__buf_puts(&q->url, q->access->base);
    for (; *parts && ok; parts++) ok = kt__url_append(&q->url, *parts);
    return ok;
}

static kt_status ask_url(question *q, const char *accept) {
    if (q->url.failed) return kt__fail(q->err, KT_E_LIMIT, "the address is too long");
    return kt__fetch_text(q->fetch, q->url.data, accept, &q->text, &q->reply, q->err);
}

/* "sha": "<40 letters>", of the revision that was asked for */
static void take_commit(const question *q, char out[KT__FETCH_TAG]) {
    const char *at = q->text.data ? strstr(q->text.data, "\"sha\":") : NULL;
    out[0] = '\0';
    if (!at) return;
    at += 6 + strspn(at + 6, " \"");
    size_t n = strspn(at, "0123456789abcdef");
    if (n == 40) snprintf(out, KT__FETCH_TAG, "%.40s", at);
}

/* The list that was answered and, of one that comes in pages, what follows. */
static kt_status read_pages(question *q, const char *files_url) {
    char next[KT__FETCH_ADDRESS];
    for (int page = 1;; page++) {
        KT__STEP(kt__hub_read_tree(q->text.data ? q->text.data : "", q->text.len, files_url,
                                   q->offer, q->err));
        KT__STEP(kt__fetch_next(q->fetch, &q->reply, next, q->err));
        if (!next[0]) break;
        if (page == MAX_PAGES)
            return kt__fail_at(q->err, KT_E_LIMIT, next, UINT64_MAX,
                               "the list of files has more than %d pages", MAX_PAGES);
        kt__buf_clear(&q->url);
        (void)kt__buf_puts(&q->url, next);
        KT__STEP(ask_url(q, "application/json"));
    }
    return KT_OK;
}

/* The commit is found first, so that all files are of one. */
static kt_status ask_hub(question *q) {
    const kt__hub_name *name = q->name;
    kt__offer *offer = q->offer;
    const char *revision = name->revision[0] ? name->revision : "main";
    char url[KT__FETCH_URL];
    if (!make_url(q,
                  (const char *const[]){"/api/models/", name->repo, "/revision/", revision, NULL}))
        return ask_url(q, NULL);
    KT__STEP(ask_url(q, "application/json"));
    take_commit(q, offer->revision);
    if (!offer->revision[0]) snprintf(offer->revision, sizeof offer->revision, "%s", revision);
    (void)make_url(
        q, (const char *const[]){"/api/models/", name->repo, "/tree/", offer->revision, NULL});
    (void)kt__buf_puts(&q->url, "?recursive=true");
    KT__STEP(ask_url(q, "application/json"));
    (void)make_url(q,
                   (const char *const[]){"/", name->repo, "/resolve/", offer->revision, "/", NULL});
    snprintf(url, sizeof url, "%s", q->url.data);
    snprintf(offer->dir, sizeof offer->dir, "%s", name->repo);
    snprintf(offer->source, sizeof offer->source, "%s/%s", q->access->base, name->repo);
    return read_pages(q, url);
}

/* NAME:TAG lies as NAME/TAG.gguf. */
static kt_status ask_registry(question *q) {
    const kt__hub_name *name = q->name;
    kt__offer *offer = q->offer;
    const char *tag = name->tag[0] ? name->tag : "latest";
    const char *owner = strchr(name->repo, '/') ? "" : "library/";
    char url[KT__FETCH_URL], file[160];
    (void)make_url(q, (const char *const[]){"/v2/", owner, name->repo, "/manifests/", tag, NULL});
    KT__STEP(ask_url(q, "application/vnd.docker.distribution.manifest.v2+json"));
    (void)make_url(q, (const char *const[]){"/v2/", owner, name->repo, "/blobs/", NULL});
    snprintf(url, sizeof url, "%s", q->url.data);
    snprintf(file, sizeof file, "%s.gguf", tag);
    snprintf(offer->dir, sizeof offer->dir, "%s", name->repo);
    snprintf(offer->source, sizeof offer->source, "%s/%s:%s", q->access->base, name->repo, tag);
    offer->whole = true;
    return kt__hub_read_manifest(q->text.data ? q->text.data : "", q->text.len, url, file, offer,
                                 q->err);
}

static kt_status ask_page(question *q, const char *url) {
    kt__buf_clear(&q->url);
    if (url) {
        (void)kt__buf_puts(&q->url, url);
    } else {
        (void)make_url(q, (const char *const[]){"/", q->name->repo, "/", NULL});
    }
    kt_status status = ask_url(q, NULL);
    if (status != KT_OK) return status;
    snprintf(q->offer->dir, sizeof q->offer->dir, "%s", q->name->repo);
    snprintf(q->offer->source, sizeof q->offer->source, "%s", q->url.data);
    char from[KT__FETCH_ADDRESS]; /* after a redirection, links are relative to where it led */
    snprintf(from, sizeof from, "%s", q->reply.url);
    char *slash = strrchr(from, '/');
    if (slash) slash[1] = '\0';
    return kt__hub_read_listing(q->text.data ? q->text.data : "", q->text.len, from, q->offer,
                                q->err);
}

/* One file's address means it and, of a split model, for its other parts. */
static kt_status offer_address(question *q) {
    kt__offer *offer = q->offer;
    int part, n_parts = 1;
    size_t stem = 0;
    bool split = kt__name_split(q->name->file, &part, &n_parts, &stem);
    snprintf(offer->dir, sizeof offer->dir, "%s", q->name->repo);
    snprintf(offer->source, sizeof offer->source, "%s", q->name->url);
    offer->whole = true;
    offer->files = kt__calloc((size_t)n_parts, sizeof *offer->files);
    if (!offer->files) return kt__fail_nomem(q->err, "a list of files", (size_t)n_parts);
    for (int i = 1; i <= n_parts; i++) {
        char file[KT__NAME_MAX + 32], url[2 * KT__FETCH_URL];
        snprintf(file, sizeof file, "%s", q->name->file);
        if (split) snprintf(file + stem, sizeof file - stem, "-%05d-of-%05d.gguf", i, n_parts);
        snprintf(url, sizeof url, "%s%s", q->name->url, file);
        kt__remote *r = &offer->files[offer->n++];
        *r = (kt__remote){.bytes = UINT64_MAX, .name = kt__strdup(file), .url = kt__strdup(url)};
        if (!r->name || !r->url) return kt__fail_nomem(q->err, "a file's address", 0);
    }
    return KT_OK;
}

/* Another kind of hub may answer where this one has nothing, or something else. */
static bool is_other_kind(const question *q, kt_status status) {
    return status == KT_E_FORMAT || (status == KT_E_ARG && q->reply.code == 404);
}

static kt_status ask_kinds(question *q) {
    kt_status status = KT_E_ARG;
    if (q->name->url[0]) return q->name->file[0] ? offer_address(q) : ask_page(q, q->name->url);
    if (strchr(q->name->repo, '/')) {
        status = ask_hub(q);
        if (status == KT_OK || !is_other_kind(q, status)) return status;
        kt__offer_free(q->offer);
    }
    if (!q->name->file[0] && !q->name->revision[0]) {
        status = ask_registry(q);
        if (status == KT_OK || !is_other_kind(q, status)) return status;
        kt__offer_free(q->offer);
    }
    status = ask_page(q, NULL);
    if (status == KT_E_ARG && q->reply.code == 404)
        return kt__fail(q->err, KT_E_ARG, "%.200s has no \"%.100s\"", q->access->base,
                        q->name->repo);
    return status;
}

/* Only what was chosen stays. */
static kt_status choose_offered(question *q, const char *what) {
    kt__offer *offer = q->offer;
    const kt__wish wish = {q->name->file[0] ? q->name->file : NULL,
                           q->name->tag[0] ? q->name->tag : NULL, what};
    const char **names = kt__calloc(offer->n + 1, sizeof *names);
    bool *chosen = kt__calloc(offer->n + 1, sizeof *chosen);
    kt_status status = names && chosen ? KT_OK : kt__fail_nomem(q->err, "a choice", offer->n);
    for (size_t i = 0; i < offer->n && status == KT_OK; i++) names[i] = offer->files[i].name;
    if (status == KT_OK) status = kt__choose_files(names, offer->n, &wish, chosen, q->err);
    size_t n = 0;
    for (size_t i = 0; i < offer->n && status == KT_OK; i++) {
        if (chosen[i])
            offer->files[n++] = offer->files[i];
        else
            kt__remote_free(&offer->files[i]);
    }
    if (status == KT_OK) offer->n = n;
    kt__free(names);
    kt__free(chosen);
    return status;
}

kt_status kt__hub_ask(const kt__access *access, const kt__hub_name *name, const char *what,
                      kt__offer *out, kt_error *err) {
    question q = {.access = access, .name = name, .offer = out, .err = err};
    kt_status status;
    *out = (kt__offer){0};
    kt__buf_init(&q.url, KT__FETCH_ADDRESS - 1);
    kt__buf_init(&q.text, MAX_ANSWER);
    KT__TRY(kt__fetch_open(access, &q.fetch, err));
    KT__TRY(ask_kinds(&q));
    if (!out->whole) KT__TRY(choose_offered(&q, what));
    for (size_t i = 0; i < out->n; i++) KT__TRY(kt__remote_probe(q.fetch, &out->files[i], err));
out:
    kt__fetch_close(q.fetch);
    kt__buf_free(&q.url);
    kt__buf_free(&q.text);
    return status;
}

/* What hubs answer, read. */

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
        } else if (c == '&' && len - i >= 5 && !kt__strncasecmp(text + i, "&amp;", 5)) {
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
        if (kt__strncasecmp(text + at, "href=", 5) != 0) {
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

/* ---- search ---- */

enum { MAX_SEARCH_ANSWER = 16 << 20 };

kt_status kt__hub_read_hits(const char *text, size_t len, const char *url, size_t most,
                            kt__hub_hit *hits, size_t *n, kt_error *err) {
    json_error_t why;
    json_t *list = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    *n = 0;
    if (!json_is_array(list)) {
        json_decref(list);
        return kt__fail_at(err, KT_E_FORMAT, url, UINT64_MAX,
                           "the hub's answer is no list of models");
    }
    for (size_t i = 0; i < json_array_size(list) && *n < most; i++) {
        const json_t *one = json_array_get(list, i);
        const char *id = json_string_value(json_object_get(one, "id"));
        json_int_t downloads = json_integer_value(json_object_get(one, "downloads"));
        if (!id || strlen(id) >= sizeof hits->repo || !kt__name_is_safe(id) || !strchr(id, '/'))
            continue;
        kt__hub_hit *hit = &hits[(*n)++];
        snprintf(hit->repo, sizeof hit->repo, "%s", id);
        hit->downloads = downloads > 0 ? (uint64_t)downloads : 0;
    }
    json_decref(list);
    return KT_OK;
}

/* The body of one answer; base: before the parts, NULL ends them, of which every second one is escaped. */
static kt_status ask_text(const kt__access *access, const char *const *parts, kt__buf *url,
                          kt__buf *text, kt_error *err) {
    kt__fetch *fetch = NULL;
    kt__fetch_reply reply;
    kt_status status;
    bool ok = kt__buf_puts(url, access->base);
    for (size_t i = 0; parts[i] && ok; i++)
        ok = i % 2 ? kt__url_append(url, parts[i]) : kt__buf_puts(url, parts[i]);
    if (!ok) return kt__fail(err, KT_E_LIMIT, "the address is too long");
    KT__TRY(kt__fetch_open(access, &fetch, err));
    status = kt__fetch_text(fetch, url->data, "application/json", text, &reply, err);
out:
    kt__fetch_close(fetch);
    return status;
}

kt_status kt__hub_search(const kt__access *access, const char *words, size_t most,
                         kt__hub_hit *hits, size_t *n, kt_error *err) {
    char limit[64];
    kt__buf url, text;
    kt_status status;
    snprintf(limit, sizeof limit, "&filter=gguf&sort=downloads&direction=-1&limit=%zu", most);
    const char *const parts[] = {"/api/models?search=", words, limit, NULL};
    *n = 0;
    kt__buf_init(&url, KT__FETCH_ADDRESS - 1);
    kt__buf_init(&text, MAX_SEARCH_ANSWER);
    KT__TRY(ask_text(access, parts, &url, &text, err));
    status = kt__hub_read_hits(text.data ? text.data : "", text.len, access->base, most, hits, n,
                               err);
out:
    kt__buf_free(&url);
    kt__buf_free(&text);
    return status;
}

static kt_status find_files(const kt__access *access, const char *repo, kt__offer *out,
                            kt_error *err) {
    const char *const parts[] = {"/api/models/", repo, "/tree/main?recursive=true", NULL};
    kt__buf url, text;
    kt_status status;
    *out = (kt__offer){0};
    kt__buf_init(&url, KT__FETCH_ADDRESS - 1);
    kt__buf_init(&text, MAX_SEARCH_ANSWER);
    KT__TRY(ask_text(access, parts, &url, &text, err));
    status = kt__hub_read_tree(text.data ? text.data : "", text.len, access->base, out, err);
out:
    kt__buf_free(&url);
    kt__buf_free(&text);
    return status;
}

/* ---- what of a repository suits a machine ---- */

uint64_t kt__hub_memory_left(void) {
    kt__limits limits;
    kt__limits_read(&limits);
    return kt__mem_budget_default(&limits);
}

/* Weights, and something for keys, values and buffers. */
static uint64_t memory_of(uint64_t bytes) {
    enum { SPARE_BYTES = 200 << 20 };
    return bytes + bytes / 8 + SPARE_BYTES;
}

static bool size_of_choice(const kt__offer *offer, const char **names, bool *chosen,
                           const char *tag, kt__hub_suited *out) {
    const kt__wish wish = {NULL, tag, tag};
    kt_error ignored;
    if (kt__choose_files(names, offer->n, &wish, chosen, &ignored) != KT_OK) return false;
    *out = (kt__hub_suited){.tag = tag};
    for (size_t i = 0; i < offer->n; i++) {
        if (!chosen[i]) continue;
        out->bytes += offer->files[i].bytes;
        out->sees |= kt__name_is_mmproj(names[i]);
    }
    out->memory = memory_of(out->bytes);
    return true;
}

static void find_suited(const kt__offer *offer, uint64_t memory, kt__hub_suited *out) {
    static const char *const tags[] = {"q4_k_m", "q4_k_s", "iq4_xs", "q4_0",
                                       "q3_k_m", "q2_k",   "q8_0"};
    const char **names = kt__calloc(offer->n + 1, sizeof *names);
    bool *chosen = kt__calloc(offer->n + 1, sizeof *chosen);
    *out = (kt__hub_suited){0};
    for (size_t i = 0; names && i < offer->n; i++) names[i] = offer->files[i].name;
    for (size_t i = 0; names && chosen && i < sizeof tags / sizeof *tags && !out->fits; i++) {
        kt__hub_suited one;
        if (!size_of_choice(offer, names, chosen, tags[i], &one)) continue;
        one.fits = one.memory <= memory;
        if (!out->tag || one.fits || one.bytes < out->bytes) *out = one;
    }
    kt__free(names);
    kt__free(chosen);
}

kt_status kt__hub_suit(const kt__access *access, const char *repo, uint64_t memory,
                       kt__hub_suited *out, kt_error *err) {
    kt__offer offer;
    *out = (kt__hub_suited){0};
    kt_status status = find_files(access, repo, &offer, err);
    if (status == KT_OK) find_suited(&offer, memory, out);
    kt__offer_free(&offer);
    return status;
}
