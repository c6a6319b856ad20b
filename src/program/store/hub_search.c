#include "store/hub_search.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { MAX_ANSWER = 16 << 20 };

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
    kt__buf_init(&text, MAX_ANSWER);
    KT__TRY(ask_text(access, parts, &url, &text, err));
    status = kt__hub_read_hits(text.data ? text.data : "", text.len, access->base, most, hits, n,
                               err);
out:
    kt__buf_free(&url);
    kt__buf_free(&text);
    return status;
}

kt_status kt__hub_files(const kt__access *access, const char *repo, kt__offer *out, kt_error *err) {
    const char *const parts[] = {"/api/models/", repo, "/tree/main?recursive=true", NULL};
    kt__buf url, text;
    kt_status status;
    *out = (kt__offer){0};
    kt__buf_init(&url, KT__FETCH_ADDRESS - 1);
    kt__buf_init(&text, MAX_ANSWER);
    KT__TRY(ask_text(access, parts, &url, &text, err));
    status = kt__hub_read_tree(text.data ? text.data : "", text.len, access->base, out, err);
out:
    kt__buf_free(&url);
    kt__buf_free(&text);
    return status;
}
