/* GET and DELETE /v1/responses/ID, GET /v1/responses/ID/input_items: answers that are kept. */
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "services/responses.h"
#include "transports/http_request.h"

enum { USUAL_ITEMS = 20, MOST_ITEMS = 100 };

static int say_error(kt__http_request *r, int http, kt_status code, const char *param,
                     const char *message) {
    kt_error err = {0};
    (void)kt__fail_at(&err, code, param, UINT64_MAX, "%s", message);
    kt__buf_clear(&r->reply);
    kt__wire_write_error_as(&r->reply, http, &err);
    return http;
}

/* "ID" or "ID/WHAT" of the path, in id; NULL: it is too long for one. */
static const char *split_rest(const kt__http_request *r, char id[KT__RESPONSE_ID]) {
    size_t n = strcspn(r->rest, "/");
    if (n >= KT__RESPONSE_ID) return NULL;
    memcpy(id, r->rest, n);
    id[n] = '\0';
    return r->rest[n] ? r->rest + n + 1 : "";
}

static bool write_value(kt__buf *out, const json_t *v) {
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    bool written = text && kt__buf_puts(out, text);
    free(text);
    if (!written) out->failed = true;
    return written;
}

static const char *query_of(const kt__http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Which items are asked for. */
typedef struct item_range {
    size_t from, n; /* n of them from `from` on, in the order that is asked for */
    bool newest_first;
} item_range;

static const json_t *item_at(const json_t *items, const item_range *range, size_t i) {
    size_t n = json_array_size(items);
    return json_array_get(items, range->newest_first ? n - 1 - i : i);
}

/* 0: *out is set. */
static int read_range(kt__http_request *r, const json_t *items, item_range *out) {
    const char *limit = query_of(r, "limit"), *order = query_of(r, "order"),
               *after = query_of(r, "after");
    size_t n = json_array_size(items);
    long most = limit ? strtol(limit, NULL, 10) : USUAL_ITEMS;
    if (most < 1 || most > MOST_ITEMS)
        return say_error(r, 400, KT_E_ARG, "limit", "limit: expected 1 to 100");
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return say_error(r, 400, KT_E_ARG, "order", "order: expected asc or desc");
    *out = (item_range){.newest_first = !order || !strcmp(order, "desc")};
    while (after && out->from < n) {
        const char *id = json_string_value(json_object_get(item_at(items, out, out->from++), "id"));
        if (id && !strcmp(id, after)) break;
    }
    out->n = n - out->from < (size_t)most ? n - out->from : (size_t)most;
    return 0;
}

static void write_id(kt__http_request *r, const char *key, const json_t *item) {
    const char *id = json_string_value(json_object_get(item, "id"));
    if (id)
        kt__json_member(&r->reply, key, id);
    else
        (void)kt__buf_printf(&r->reply, ",\"%s\":null", key);
}

static int write_items(kt__http_request *r, const json_t *items) {
    item_range range = {0};
    int status = read_range(r, items, &range);
    if (status) return status;
    (void)kt__buf_puts(&r->reply, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < range.n; i++) {
        if (i) (void)kt__buf_putc(&r->reply, ',');
        (void)write_value(&r->reply, item_at(items, &range, range.from + i));
    }
    (void)kt__buf_putc(&r->reply, ']');
    write_id(r, "first_id", range.n ? item_at(items, &range, range.from) : NULL);
    write_id(r, "last_id", range.n ? item_at(items, &range, range.from + range.n - 1) : NULL);
    (void)kt__buf_printf(&r->reply, ",\"has_more\":%s}",
                         range.from + range.n < json_array_size(items) ? "true" : "false");
    return 200;
}

static int say_missing(kt__http_request *r) {
    return say_error(r, 404, KT_E_ARG, "id",
                     r->shared->responses ? "there is no such response"
                                          : "no responses are kept here: responses.max is 0");
}

int kt__http_get_response(kt__http_request *r) {
    char id[KT__RESPONSE_ID];
    const char *what = split_rest(r, id), *stream = query_of(r, "stream");
    bool items = what && !strcmp(what, "input_items");
    json_t *record = NULL;
    if (!what || (*what && !items)) return say_missing(r);
    if (stream && !strcmp(stream, "true"))
        return say_error(r, 400, KT_E_UNSUPPORTED, "stream",
                         "stream: an answer that is kept comes whole");
    if (r->shared->responses) record = kt__responses_get(r->shared->responses, id, r->client);
    if (!record) return say_missing(r);
    int status = 200;
    if (items)
        status = write_items(r, json_object_get(record, "input"));
    else
        (void)write_value(&r->reply, json_object_get(record, "response"));
    json_decref(record);
    return status;
}

int kt__http_delete_response(kt__http_request *r) {
    char id[KT__RESPONSE_ID];
    const char *what = split_rest(r, id);
    bool there = what && !*what && r->shared->responses &&
                 kt__responses_delete(r->shared->responses, id, r->client);
    if (!there) return say_missing(r);
    (void)kt__buf_puts(&r->reply, "{\"id\":");
    kt__json_text(&r->reply, id);
    (void)kt__buf_puts(&r->reply, ",\"object\":\"response\",\"deleted\":true}");
    return 200;
}
