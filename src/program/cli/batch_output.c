#include "cli/batch.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/system.h"
#include "term/cli.h"

enum { MAX_RESULT_BYTES = 1 << 30 };

static kt_status fail_io(const kt__batch_output *out, const char *what, kt_error *err) {
    return kt__fail_system(err, errno, out->path ? out->path : "standard output", "%s", what);
}

/* {"error": {...}}, or, of OpenAI's, {"response": {"status_code": not 200}}. */
static bool is_error(const json_t *object) {
    const json_t *response = json_object_get(object, "response");
    if (json_is_object(json_object_get(object, "error"))) return true;
    return response && json_integer_value(json_object_get(response, "status_code")) != 200;
}

/* A request has an id as well: a file of requests is not to be taken for results. */
static bool is_request(const json_t *object) {
    return json_object_get(object, "body") || json_object_get(object, "prompt") ||
           json_object_get(object, "messages");
}

static kt_status note_result(kt__batch_output *out, const char *line, size_t len, uint64_t number,
                             kt_error *err) {
    json_t *object = json_loadb(line, len, JSON_ALLOW_NUL, NULL); /* of a text */
    const char *id = json_string_value(json_object_get(object, "custom_id"));
    if (!id) id = json_string_value(json_object_get(object, "id"));
    kt_status status = KT_OK;
    if (!id) {
        status = kt__fail_at(err, KT_E_FORMAT, out->path, UINT64_MAX,
                             "line %llu is no result of a batch: give another --out, or remove it",
                             (unsigned long long)number);
    } else if (is_request(object)) {
        status = kt__fail_at(err, KT_E_FORMAT, out->path, UINT64_MAX,
                             "line %llu is a request, not a result: give --out another file",
                             (unsigned long long)number);
    } else if (out->retry_failed && is_error(object)) {
        out->n_found--; /* its new result follows, and is the one that counts */
    } else if (!kt__id_set_add(&out->finished, id, NULL)) {
        status = kt__fail_nomem(err, "the ids of results", out->finished.n);
    }
    json_decref(object);
    out->n_found++;
    return status;
}

/* Reads the results that are there, and cuts off a last line that was not finished. */
static kt_status read_results(kt__batch_output *out, FILE *in, kt_error *err) {
    kt_status status = KT_OK;
    off_t good = 0;
    for (uint64_t number = 1; status == KT_OK; number++) {
        char *line = NULL;
        size_t len = 0;
        int got = kt__cli_read_line(in, MAX_RESULT_BYTES, &line, &len, err);
        if (got < 0) status = err->code;
        if (got <= 0) break;
        bool whole = !feof(in); /* a newline ended it */
        if (whole && len) status = note_result(out, line, len, number, err);
        kt__free(line);
        if (!whole) out->n_cut = len;
        if (!whole) break;
        good = ftello(in);
    }
    if (status == KT_OK && out->n_cut && !kt__fd_cut(out->fd, (uint64_t)good))
        status = fail_io(out, "cannot cut off the unfinished last line", err);
    return status;
}

kt_status kt__batch_output_open(const char *path, bool retry_failed, kt__batch_output *out,
                                kt_error *err) {
    kt__file_info st;
    *out = (kt__batch_output){.fd = KT__STDOUT, .path = path, .retry_failed = retry_failed};
    if (!path) return KT_OK;
    out->fd = kt__fd_open(path, KT__OPEN_BOTH | KT__OPEN_CREATE | KT__OPEN_APPEND);
    if (out->fd < 0) return fail_io(out, "cannot open", err);
    if (kt__fd_look(out->fd, &st) && !st.is_file) return KT_OK; /* /dev/null, a pipe */
    if (!kt__fd_lock(out->fd, false)) {
        return kt__fail_at(err, KT_E_STATE, path, UINT64_MAX,
                           "another batch is writing to this file");
    }
    int fd = kt__fd_again(out->fd);
    FILE *in = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!in && fd >= 0) kt__fd_close(fd);
    if (!in) return fail_io(out, "cannot read", err);
    kt_status status = read_results(out, in, err);
    fclose(in);
    return status;
}

kt_status kt__batch_output_write(kt__batch_output *out, kt__buf *line, kt_error *err) {
    if (!kt__buf_putc(line, '\n') || line->failed)
        return kt__fail_nomem(err, "a result", line->len);
    /* one call: a kill leaves the line whole, or torn at the end of the file */
    if (kt__fd_write(out->fd, line->data, line->len)) return KT_OK;
    return fail_io(out, "cannot write a result", err);
}

kt_status kt__batch_output_close(kt__batch_output *out, kt_error *err) {
    kt_status status = KT_OK;
    kt__id_set_free(&out->finished);
    if (!out->path || out->fd < 0) return KT_OK;
    if (!kt__fd_sync(out->fd) && errno != EINVAL) status = fail_io(out, "cannot write", err);
    if (!kt__fd_close(out->fd) && status == KT_OK) status = fail_io(out, "cannot write", err);
    out->fd = -1;
    return status;
}

/* ---- batch order ---- */

enum { MOST_WAITING = 4096, MOST_BYTES = 64 << 20 };

void kt__batch_order_free(kt__batch_order *o) {
    for (size_t i = o->first; i < o->end; i++) kt__buf_free(&o->items[i].line);
    kt__free(o->items);
    *o = (kt__batch_order){0};
}

/* What was written makes room, once it is the greater part. */
static void drop_written(kt__batch_order *o) {
    size_t n = o->end - o->first;
    if (o->first < n + 64) return;
    memmove(o->items, o->items + o->first, n * sizeof *o->items);
    o->first = 0;
    o->end = n;
}

bool kt__batch_order_expect(kt__batch_order *o, uint64_t number) {
    drop_written(o);
    if (!kt__vec_reserve(o->items, o->cap, o->end + 1)) return false;
    o->items[o->end++] = (kt__batch_place_held){.number = number};
    return true;
}

static kt__batch_place_held *place_of_number(kt__batch_order *o, uint64_t number) {
    size_t low = o->first, high = o->end;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (o->items[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low < o->end && o->items[low].number == number ? &o->items[low] : NULL;
}

void kt__batch_order_put(kt__batch_order *o, uint64_t number, kt__buf *line) {
    kt__batch_place_held *place = place_of_number(o, number);
    if (!place || place->done) return;
    place->done = true;
    place->line = *line;
    o->n_bytes += line->len;
    kt__buf_init(line, line->max);
}

bool kt__batch_order_next(kt__batch_order *o, kt__buf *line) {
    if (o->first == o->end || !o->items[o->first].done) return false;
    *line = o->items[o->first++].line;
    o->n_bytes -= line->len;
    return true;
}

size_t kt__batch_order_waiting(const kt__batch_order *o) {
    size_t n = 0;
    for (size_t i = o->first; i < o->end; i++) n += o->items[i].done;
    return n;
}

bool kt__batch_order_is_full(const kt__batch_order *o) {
    return o->end - o->first >= MOST_WAITING || o->n_bytes >= MOST_BYTES;
}

/* ---- id set ---- */

static size_t id_slot(const kt__id_set *set, const char *id, uint64_t key[2]) {
    kt__digest d = kt__hash_bytes(0, id, strlen(id));
    key[0] = d.w[0] | 1; /* not the mark of a free one */
    key[1] = d.w[1];
    size_t i = (size_t)key[1] & (set->cap - 1);
    while (set->slots[i][0] && (set->slots[i][0] != key[0] || set->slots[i][1] != key[1]))
        i = (i + 1) & (set->cap - 1);
    return i;
}

bool kt__id_set_has(const kt__id_set *set, const char *id) {
    uint64_t key[2];
    return set->cap && set->slots[id_slot(set, id, key)][0];
}

static bool id_set_grow(kt__id_set *set) {
    kt__id_set more = {.n = set->n, .cap = set->cap ? set->cap * 2 : 1024};
    more.slots = kt__calloc(more.cap, sizeof *more.slots);
    if (!more.slots) return false;
    for (size_t i = 0; i < set->cap; i++) {
        if (!set->slots[i][0]) continue;
        size_t at = (size_t)set->slots[i][1] & (more.cap - 1);
        while (more.slots[at][0]) at = (at + 1) & (more.cap - 1);
        memcpy(more.slots[at], set->slots[i], sizeof *more.slots);
    }
    kt__free(set->slots);
    *set = more;
    return true;
}

bool kt__id_set_add(kt__id_set *set, const char *id, bool *was_there) {
    uint64_t key[2];
    if (set->n * 2 >= set->cap && !id_set_grow(set)) return false;
    size_t i = id_slot(set, id, key);
    if (was_there) *was_there = set->slots[i][0] != 0;
    if (!set->slots[i][0]) set->n++;
    memcpy(set->slots[i], key, sizeof key);
    return true;
}

void kt__id_set_free(kt__id_set *set) {
    kt__free(set->slots);
    *set = (kt__id_set){0};
}
