/* /v1/files and /v1/batches: OpenAI's interface to requests in files. */
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "dialects/batches.h"
#include "services/batch_store.h"
#include "transports/http_request.h"

static int say_error(kt__http_request *r, int http, const kt_error *err) {
    kt__buf_clear(&r->reply);
    kt__wire_write_error_as(&r->reply, http, err);
    return http;
}

static int say_missing(kt__http_request *r, const char *what) {
    kt_error err = {0};
    (void)kt__fail(&err, KT_E_ARG, "there is no such %s", what);
    return say_error(r, 404, &err);
}

static int say_status(kt__http_request *r, kt_status status, kt_error *err) {
    err->code = status;
    return say_error(r, kt__wire_http_status(status), err);
}

/* 0: batches are there. */
static int say_off(kt__http_request *r) {
    kt_error err = {0};
    if (r->shared->batches) return 0;
    (void)kt__fail(&err, KT_E_UNSUPPORTED,
                   "batches are off here: the operator names a directory for them (batches.dir)");
    return say_error(r, 501, &err);
}

/* "ID/VERB" of the path; false: it has no such shape. */
static bool split_rest(const kt__http_request *r, char id[KT__BATCH_ID], const char **verb) {
    size_t n = strcspn(r->rest, "/");
    *verb = r->rest[n] ? r->rest + n + 1 : "";
    if (n >= KT__BATCH_ID) return false;
    memcpy(id, r->rest, n);
    id[n] = '\0';
    return true;
}

static void write_list(kt__http_request *r, json_t *list) {
    size_t i;
    json_t *record;
    (void)kt__buf_puts(&r->reply, "{\"object\":\"list\",\"data\":[");
    json_array_foreach(list, i, record) {
        if (i) (void)kt__buf_putc(&r->reply, ',');
        kt__batch_store_write(&r->reply, record);
    }
    (void)kt__buf_puts(&r->reply, "],\"has_more\":false}");
    json_decref(list);
}

/* ---- files ---- */

/* Whether a client may have a file of so many bytes more. */
static kt_status check_quota(kt__http_request *r, size_t len, kt_error *err) {
    const kt__config *config = r->settings->config;
    json_t *list = kt__batch_store_list(kt__batches_store(r->shared->batches), "file-", r->client);
    const json_t *record;
    size_t i, n = json_array_size(list);
    uint64_t bytes = len;
    json_array_foreach(list, i, record) {
        bytes += (uint64_t)json_integer_value(json_object_get(record, "bytes"));
    }
    json_decref(list);
    if (n < (size_t)config->batches_files && bytes <= config->batches_bytes) return KT_OK;
    return kt__fail_at(err, KT_E_LIMIT, "file", UINT64_MAX,
                       "file: with it this client had %zu files of %llu bytes, more than "
                       "batches.max_files (%lld) or batches.max_bytes (%llu): delete some",
                       n + 1, (unsigned long long)bytes, (long long)config->batches_files,
                       (unsigned long long)config->batches_bytes);
}

static kt_status keep_file(kt__http_request *r, char id[KT__BATCH_ID], kt_error *err) {
    const char *type = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Content-Type");
    kt__multipart form;
    kt__multipart_part part, file = {.len = 0};
    char purpose[64] = "";
    if (!kt__multipart_begin(&form, type, r->body.data ? r->body.data : "", r->body.len))
        return kt__fail(err, KT_E_ARG, "expected multipart/form-data with `file` and `purpose`");
    while (kt__multipart_next(&form, &part)) {
        if (!strcmp(part.name, "file")) file = part;
        if (!strcmp(part.name, "purpose"))
            snprintf(purpose, sizeof purpose, "%.*s", (int)(part.len < 63 ? part.len : 63),
                     part.data);
    }
    if (!file.data) return kt__fail_at(err, KT_E_ARG, "file", UINT64_MAX, "file: is missing");
    if (strcmp(purpose, "batch") != 0)
        return kt__fail_at(err, KT_E_ARG, "purpose", UINT64_MAX,
                           "purpose: only \"batch\" is known here");
    KT__STEP(check_quota(r, file.len, err));
    return kt__batch_store_put(kt__batches_store(r->shared->batches), r->client,
                               file.filename[0] ? file.filename : "file.jsonl", purpose, file.data,
                               file.len, id, err);
}

static int write_record(kt__http_request *r, json_t *record, const char *what) {
    if (!record) return say_missing(r, what);
    kt__batch_store_write(&r->reply, record);
    json_decref(record);
    return 200;
}

int kt__http_post_file(kt__http_request *r) {
    char id[KT__BATCH_ID];
    kt_error err = {0};
    int off = say_off(r);
    if (off) return off;
    kt_status status = keep_file(r, id, &err);
    if (status != KT_OK) return say_status(r, status, &err);
    kt__batch_store *store = kt__batches_store(r->shared->batches);
    return write_record(r, kt__batch_store_record(store, id, r->client), "file");
}

int kt__http_list_files(kt__http_request *r) {
    int off = say_off(r);
    if (off) return off;
    write_list(r, kt__batch_store_list(kt__batches_store(r->shared->batches), "file-", r->client));
    return 200;
}

/* Its bytes, sent from the file. */
static int give_content(kt__http_request *r, const char *id) {
    r->file = kt__batch_store_open_file(kt__batches_store(r->shared->batches), id, false);
    if (r->file < 0) return say_missing(r, "file");
    r->has_file = true;
    r->type = "application/jsonl";
    return 200;
}

int kt__http_get_file(kt__http_request *r) {
    char id[KT__BATCH_ID];
    const char *verb;
    int off = say_off(r);
    if (off) return off;
    if (!split_rest(r, id, &verb) || strncmp(id, "file-", 5) != 0) return say_missing(r, "file");
    json_t *record = kt__batch_store_record(kt__batches_store(r->shared->batches), id, r->client);
    if (!record || !*verb) return write_record(r, record, "file");
    json_decref(record);
    return strcmp(verb, "content") != 0 ? say_missing(r, "path") : give_content(r, id);
}

int kt__http_delete_file(kt__http_request *r) {
    char id[KT__BATCH_ID];
    const char *verb;
    int off = say_off(r);
    if (off) return off;
    if (!split_rest(r, id, &verb) || *verb || strncmp(id, "file-", 5) != 0)
        return say_missing(r, "file");
    kt__batch_store *store = kt__batches_store(r->shared->batches);
    json_t *record = kt__batch_store_record(store, id, r->client);
    if (!record || !kt__batch_store_delete(store, id)) {
        json_decref(record);
        return say_missing(r, "file");
    }
    json_decref(record);
    (void)kt__buf_printf(&r->reply, "{\"id\":\"%s\",\"object\":\"file\",\"deleted\":true}", id);
    return 200;
}

/* ---- batches ---- */

static kt_status create_batch(kt__http_request *r, char id[KT__BATCH_ID], kt_error *err) {
    json_t *body = NULL;
    kt_status status;
    KT__TRY(kt__wire_parse(r->body.data ? r->body.data : "", r->body.len, &body, err));
    if (!json_is_object(body)) KT__TRY(kt__fail(err, KT_E_ARG, "expected a JSON object"));
    KT__TRY(kt__batches_create(r->shared->batches, r->client, body, id, err));
out:
    json_decref(body);
    return status;
}

int kt__http_post_batch(kt__http_request *r) {
    char id[KT__BATCH_ID];
    kt_error err = {0};
    int off = say_off(r);
    if (off) return off;
    kt_status status = create_batch(r, id, &err);
    if (status != KT_OK) return say_status(r, status, &err);
    return write_record(r, kt__batches_get(r->shared->batches, r->client, id), "batch");
}

int kt__http_list_batches(kt__http_request *r) {
    int off = say_off(r);
    if (off) return off;
    write_list(r, kt__batch_store_list(kt__batches_store(r->shared->batches), "batch_", r->client));
    return 200;
}

int kt__http_get_batch(kt__http_request *r) {
    char id[KT__BATCH_ID];
    const char *verb;
    int off = say_off(r);
    if (off) return off;
    if (!split_rest(r, id, &verb) || *verb) return say_missing(r, "batch");
    return write_record(r, kt__batches_get(r->shared->batches, r->client, id), "batch");
}

int kt__http_cancel_batch(kt__http_request *r) {
    char id[KT__BATCH_ID];
    const char *verb;
    int off = say_off(r);
    if (off) return off;
    if (!split_rest(r, id, &verb) || strcmp(verb, "cancel") != 0 ||
        !kt__batches_cancel(r->shared->batches, r->client, id))
        return say_missing(r, "batch");
    return write_record(r, kt__batches_get(r->shared->batches, r->client, id), "batch");
}
