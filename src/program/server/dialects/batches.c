#include "dialects/batches.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/system.h"
#include "base/thread.h"
#include "dialects/dialects.h"

enum {
    AT_ONCE = 16,       /* requests of a batch on their way */
    MAX_LINES = 100000, /* of a batch */
    MAX_ERRORS = 16,    /* that a refused file is told */
    BUSY_MS = 200       /* until a request that found a queue full is sent again */
};

/* Where a batch's requests may go. */
static const struct batch_endpoint {
    const char *path, *id_prefix;
    const kt__dialect *dialect;
} endpoints[] = {{"/v1/chat/completions", "chatcmpl-", &kt__dialect_chat},
                 {"/v1/completions", "cmpl-", &kt__dialect_completion},
                 {"/v1/embeddings", "embd-", &kt__dialect_embeddings},
                 {"/v1/responses", "resp_", &kt__dialect_responses}};

/* A request on its way. */
typedef struct batch_item batch_item;
struct batch_item {
    kt__batches *batches;
    batch_item *next; /* among those that ended */
    kt__job *job;
    json_t *line; /* {"custom_id", "url", "body"} */
};

struct kt__batches {
    kt__shared *shared;
    kt__batch_store *store;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* the rest */
    pthread_cond_t changed;
    bool quit;
    batch_item *ended; /* to be written */
    /* the batch that runs */
    char id[KT__BATCH_ID]; /* "": none */
    json_int_t n_all, n_good, n_bad;
    bool cancel;
};

/* A batch at work; its thread's. */
typedef struct run {
    kt__batches *b;
    json_t *record;
    const struct batch_endpoint *endpoint;
    json_t *done;  /* {custom_id: true} */
    json_t *lines; /* of the input, those to come */
    size_t next;
    int out, errors; /* descriptors */
    int n_flying;
} run;

static const char *text_of(const json_t *record, const char *key) {
    const char *text = json_string_value(json_object_get(record, key));
    return text ? text : "";
}

static const struct batch_endpoint *find_endpoint(const char *path) {
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        if (!strcmp(endpoints[i].path, path)) return &endpoints[i];
    }
    return NULL;
}

/* ---- lines ---- */

/* The whole file, for kt__free; NULL: it cannot be read. */
static char *read_all(kt__batch_store *store, const char *id, size_t *len) {
    kt__file_info st;
    int fd = kt__batch_store_open_file(store, id, false);
    char *text = NULL;
    *len = 0;
    if (fd >= 0 && kt__fd_look(fd, &st)) text = kt__malloc((size_t)st.bytes + 1);
    if (text && !kt__fd_read_at(fd, text, (size_t)st.bytes, 0)) {
        kt__free(text);
        text = NULL;
    }
    if (text) {
        *len = (size_t)st.bytes;
        text[*len] = '\0';
    }
    if (fd >= 0) kt__fd_close(fd);
    return text;
}

static void add_error(json_t *errors, size_t line, const char *param, const char *message) {
    if (json_array_size(errors) >= MAX_ERRORS) return;
    json_array_append_new(errors,
                          json_pack("{s:s,s:s,s:s?,s:I}", "code", "invalid_request", "message",
                                    message, "param", param, "line", (json_int_t)line));
}

/* NULL: errors has why not. */
static json_t *read_line(const char *text, size_t len, size_t number, const char *endpoint,
                         json_t *ids, json_t *errors) {
    kt_error err;
    json_t *line = NULL;
    const char *param = NULL, *why = NULL;
    if (kt__wire_parse(text, len, &line, &err) != KT_OK) {
        add_error(errors, number, NULL, err.message);
        return NULL;
    }
    const char *id = json_string_value(json_object_get(line, "custom_id"));
    if (!id || !*id) {
        param = "custom_id", why = "custom_id: expected a text";
    } else if (json_object_get(ids, id)) {
        param = "custom_id", why = "custom_id: another line has the same";
    } else if (strcmp(text_of(line, "url"), endpoint) != 0) {
        param = "url", why = "url: expected the batch's endpoint";
    } else if (!json_is_object(json_object_get(line, "body"))) {
        param = "body", why = "body: expected an object";
    }
    if (!why && json_object_set_new(ids, id, json_true()) == 0) return line;
    add_error(errors, number, param, why ? why : "no memory");
    json_decref(line);
    return NULL;
}

/* Each line of text that is not blank; errors gets what is wrong. */
static json_t *read_lines(const char *text, size_t len, const char *endpoint, json_t *errors) {
    json_t *lines = json_array(), *ids = json_object();
    size_t number = 1;
    for (size_t at = 0; lines && ids && at < len; number++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        size_t blank = strspn(text + at, " \t\r");
        if (blank < n) {
            json_t *line = read_line(text + at, n, number, endpoint, ids, errors);
            if (line) json_array_append_new(lines, line);
        }
        at += n + 1;
        if (json_array_size(lines) <= MAX_LINES) continue;
        add_error(errors, number, NULL, "a batch has 100000 lines at most");
        break;
    }
    json_decref(ids);
    if (!json_array_size(lines) && !json_array_size(errors))
        add_error(errors, 1, NULL, "the file has no requests");
    return lines;
}

/* Ids of results that are there; a last line without an end is cut off. */
static size_t read_done(kt__batch_store *store, const char *id, int fd, json_t *done) {
    size_t len, n = 0, at = 0;
    char *text = read_all(store, id, &len);
    for (char *end; text && (end = memchr(text + at, '\n', len - at)) != NULL;) {
        json_t *line = json_loadb(text + at, (size_t)(end - text) - at, 0, NULL);
        const char *custom = json_string_value(json_object_get(line, "custom_id"));
        if (custom && !json_object_get(done, custom)) {
            json_object_set_new(done, custom, json_true());
            n++;
        }
        json_decref(line);
        at = (size_t)(end - text) + 1;
    }
    if (text && at < len && !kt__fd_cut(fd, at)) at = len;
    kt__free(text);
    return n;
}

/* ---- requests on their way ---- */

/* Loop, once and again: when the job has nothing more to say, its item is the batch's. */
static void on_item_output(kt__job *job) {
    pthread_mutex_lock(&job->lock);
    batch_item *item = job->state == KT__JOB_ENDED ? job->transport.owner : NULL;
    if (item) job->transport.owner = NULL;
    pthread_mutex_unlock(&job->lock);
    if (!item) return;
    kt__batches *b = item->batches;
    pthread_mutex_lock(&b->lock);
    item->next = b->ended;
    b->ended = item;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

/* Those who wait for an answer at once go first. */
static json_t *body_of_line(const json_t *line) {
    json_t *body = json_copy(json_object_get(line, "body"));
    if (body && !json_object_get(body, "priority"))
        json_object_set_new(body, "priority", json_integer(-1));
    return body;
}

static bool send_item(run *r, json_t *line) {
    const char *client = text_of(r->record, "kentang_client");
    kt_error err;
    batch_item *item = kt__calloc(1, sizeof *item);
    kt__job *job = NULL;
    if (!item || kt__job_create(r->b->shared, r->endpoint->dialect, r->endpoint->id_prefix, client,
                                &job, &err) != KT_OK) {
        kt__free(item);
        return false;
    }
    *item = (batch_item){.batches = r->b, .job = job, .line = json_incref(line)};
    job->request.json = body_of_line(line);
    job->transport.owner = item;
    job->transport.on_output = on_item_output;
    r->n_flying++;
    kt__job_start(job);
    return true;
}

static void free_item(batch_item *item) {
    kt__job_release(item->job);
    json_decref(item->line);
    kt__free(item);
}

/* ---- results ---- */

static void write_result(kt__buf *out, const batch_item *item, const char *body, size_t len,
                         int status) {
    (void)kt__buf_puts(out, "{\"id\":\"batch_req_");
    kt__json_chars(out, item->job->id, strlen(item->job->id), KT__JSON_PLAIN);
    (void)kt__buf_puts(out, "\",\"custom_id\":");
    kt__json_text(out, text_of(item->line, "custom_id"));
    (void)kt__buf_printf(out, ",\"response\":{\"status_code\":%d", status);
    kt__json_member(out, "request_id", item->job->id);
    (void)kt__buf_puts(out, ",\"body\":");
    (void)kt__buf_append(out, body, len);
    (void)kt__buf_puts(out, "},\"error\":null}\n");
}

/* A whole line at once, so that a crash leaves a torn last line at worst. */
static bool record_result(run *r, const batch_item *item) {
    const kt__job *job = item->job;
    static const char streams[] = "{\"error\":{\"message\":\"stream: a batch has whole answers\","
                                  "\"type\":\"invalid_request_error\",\"param\":\"stream\","
                                  "\"code\":\"KT_E_ARG\"}}";
    int status = job->answer.stream ? 400 : job->answer.status;
    const char *body = job->answer.stream    ? streams
                       : job->answer.out.len ? job->answer.out.data
                                             : "null";
    size_t len = job->answer.stream ? sizeof streams - 1 : strlen(body);
    if (body == job->answer.out.data) len = job->answer.out.len;
    while (len && body[len - 1] == '\n') len--;
    kt__buf line;
    kt__buf_init(&line, (size_t)1 << 30);
    write_result(&line, item, body, len, status);
    bool good = !line.failed &&
                kt__fd_write(status == 200 ? r->out : r->errors, line.data, line.len);
    kt__buf_free(&line);
    if (!good) return false;
    pthread_mutex_lock(&r->b->lock);
    (*(status == 200 ? &r->b->n_good : &r->b->n_bad))++;
    pthread_mutex_unlock(&r->b->lock);
    return true;
}

/* What was broken off, or found no room, is no result: it is sent again, now or by the next
 * process. */
static bool is_no_result(const kt__job *job) {
    return job->interest == KT__JOB_ABANDONED || job->answer.error.code == KT_E_BUSY ||
           job->answer.error.code == KT_E_STATE;
}

/* The queue is full with others' requests: a moment, less where the batch is to stop. */
static void pause_batch(kt__batches *b) {
    const struct timespec until = kt__time_in_ms(BUSY_MS);
    pthread_mutex_lock(&b->lock);
    if (!b->quit && !b->cancel) (void)pthread_cond_timedwait(&b->changed, &b->lock, &until);
    pthread_mutex_unlock(&b->lock);
}

static bool take_ended(run *r, batch_item *item) {
    bool good = true;
    r->n_flying--;
    if (!is_no_result(item->job)) {
        good = record_result(r, item);
    } else if (item->job->interest < KT__JOB_ABANDONED) {
        json_array_append(r->lines, item->line);
        pause_batch(r->b);
    }
    free_item(item);
    return good;
}

static void abandon_flying(run *r) {
    kt__shared *shared = r->b->shared;
    for (kt__job *job = kt__jobs_next(shared, NULL); job; job = kt__jobs_next(shared, job))
        if (job->transport.on_output == on_item_output) kt__job_abandon(job);
}

/* Waits for what ended; NULL: there is nothing to wait for. */
static batch_item *wait_for_ended(run *r, bool *broken) {
    kt__batches *b = r->b;
    pthread_mutex_lock(&b->lock);
    while (!b->ended && r->n_flying && (*broken || (!b->quit && !b->cancel)))
        pthread_cond_wait(&b->changed, &b->lock);
    batch_item *list = b->ended;
    b->ended = NULL;
    bool breaks = (b->quit || b->cancel) && !*broken;
    pthread_mutex_unlock(&b->lock);
    if (breaks) {
        *broken = true;
        abandon_flying(r);
    }
    return list;
}

static bool send_more(run *r) {
    while (r->n_flying < AT_ONCE && r->next < json_array_size(r->lines)) {
        json_t *line = json_array_get(r->lines, r->next++);
        if (json_object_get(r->done, text_of(line, "custom_id"))) continue;
        if (!send_item(r, line)) return false;
    }
    return true;
}

/* Until all is answered, or it is broken off; false: a result cannot be written. */
static bool answer_lines(run *r) {
    bool broken = false, good = true;
    for (;;) {
        if (!broken && !send_more(r)) good = false;
        batch_item *list = wait_for_ended(r, &broken);
        if (!list && !r->n_flying) return good;
        while (list) {
            batch_item *next = list->next;
            if (!take_ended(r, list)) good = false;
            list = next;
        }
        if (!good && !broken) {
            broken = true;
            abandon_flying(r);
        }
    }
}

/* ---- a batch ---- */

static void set_time(json_t *record, const char *key) {
    json_object_set_new(record, key, json_integer((json_int_t)time(NULL)));
}

static void set_counts(kt__batches *b, json_t *record) {
    json_object_set_new(
        record, "request_counts",
        json_pack("{s:I,s:I,s:I}", "total", b->n_all, "completed", b->n_good, "failed", b->n_bad));
}

static void save_status(run *r, const char *status) {
    kt_error err;
    pthread_mutex_lock(&r->b->lock);
    json_object_set_new(r->record, "status", json_string(status));
    set_counts(r->b, r->record);
    pthread_mutex_unlock(&r->b->lock);
    if (kt__batch_store_save(r->b->store, text_of(r->record, "id"), r->record, &err) != KT_OK)
        kt__slog_line(&r->b->shared->log, KT_LOG_ERROR, "%s", err.message);
}

/* The results become a file of the client's, where there are some. */
static void announce_file(run *r, const char *hidden, const char *shown, const char *name) {
    const char *id = text_of(r->record, hidden);
    kt__file_info st;
    kt_error err;
    int fd = kt__batch_store_open_file(r->b->store, id, false);
    bool any = fd >= 0 && kt__fd_look(fd, &st) && st.bytes > 0;
    if (fd >= 0) kt__fd_close(fd);
    if (any && kt__batch_store_announce(r->b->store, text_of(r->record, "kentang_client"), id, name,
                                        "batch_output", &err) == KT_OK)
        json_object_set_new(r->record, shown, json_string(id));
}

static void end_batch(run *r, bool good) {
    kt__batches *b = r->b;
    pthread_mutex_lock(&b->lock);
    bool quit = b->quit && !b->cancel, cancelled = b->cancel;
    pthread_mutex_unlock(&b->lock);
    if (quit) return; /* the next process continues */
    (void)kt__fd_sync(r->out);
    (void)kt__fd_sync(r->errors);
    announce_file(r, "kentang_output", "output_file_id", "batch_output.jsonl");
    announce_file(r, "kentang_errors", "error_file_id", "batch_errors.jsonl");
    set_time(r->record, cancelled ? "cancelled_at" : good ? "completed_at" : "failed_at");
    save_status(r, cancelled ? "cancelled" : good ? "completed" : "failed");
}

static void fail_batch(run *r, json_t *errors) {
    json_object_set_new(r->record, "errors",
                        json_pack("{s:s,s:O}", "object", "list", "data", errors));
    set_time(r->record, "failed_at");
    save_status(r, "failed");
}

/* Opens what results go to, and finds those that are there. */
static bool open_results(run *r) {
    const char *out = text_of(r->record, "kentang_output"),
               *errors = text_of(r->record, "kentang_errors");
    r->out = kt__batch_store_open_file(r->b->store, out, true);
    r->errors = kt__batch_store_open_file(r->b->store, errors, true);
    if (r->out < 0 || r->errors < 0) return false;
    size_t n_good = read_done(r->b->store, out, r->out, r->done);
    size_t n_bad = read_done(r->b->store, errors, r->errors, r->done);
    pthread_mutex_lock(&r->b->lock);
    r->b->n_all = (json_int_t)json_array_size(r->lines);
    r->b->n_good = (json_int_t)n_good;
    r->b->n_bad = (json_int_t)n_bad;
    pthread_mutex_unlock(&r->b->lock);
    return true;
}

static void run_lines(run *r, json_t *errors) {
    if (!open_results(r)) {
        add_error(errors, 0, NULL, "the results cannot be written");
        fail_batch(r, errors);
        return;
    }
    if (!json_object_get(r->record, "in_progress_at")) set_time(r->record, "in_progress_at");
    save_status(r, "in_progress");
    end_batch(r, answer_lines(r));
}

static void run_batch(kt__batches *b, json_t *record) {
    const char *endpoint = text_of(record, "endpoint");
    run r = {.b = b, .record = record, .out = -1, .errors = -1, .done = json_object()};
    json_t *errors = json_array();
    size_t len;
    char *text = read_all(b->store, text_of(record, "input_file_id"), &len);
    r.endpoint = find_endpoint(endpoint);
    if (text) r.lines = read_lines(text, len, endpoint, errors);
    if (!text) add_error(errors, 0, "input_file_id", "the input file is gone");
    kt__free(text);
    if (json_array_size(errors)) {
        fail_batch(&r, errors);
    } else if (r.endpoint && r.done && r.lines) {
        run_lines(&r, errors);
    }
    if (r.out >= 0) kt__fd_close(r.out);
    if (r.errors >= 0) kt__fd_close(r.errors);
    json_decref(errors);
    json_decref(r.lines);
    json_decref(r.done);
}

/* ---- the thread ---- */

static bool is_unfinished(const json_t *record) {
    static const char *const states[] = {"validating", "in_progress", "cancelling"};
    for (size_t i = 0; i < 3; i++) {
        if (!strcmp(text_of(record, "status"), states[i])) return true;
    }
    return false;
}

/* The oldest that is not finished, for json_decref. */
static json_t *next_batch(kt__batches *b) {
    json_t *list = kt__batch_store_list(b->store, "batch_", NULL), *found = NULL;
    for (size_t i = json_array_size(list); i-- > 0 && !found;) {
        json_t *record = json_array_get(list, i);
        if (is_unfinished(record)) found = json_incref(record);
    }
    json_decref(list);
    return found;
}

static void *run_batches(void *arg) {
    kt__batches *b = arg;
    pthread_mutex_lock(&b->lock);
    while (!b->quit) {
        json_t *record = next_batch(b);
        if (!record) {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        snprintf(b->id, sizeof b->id, "%s", text_of(record, "id"));
        b->n_all = b->n_good = b->n_bad = 0;
        b->cancel = !strcmp(text_of(record, "status"), "cancelling");
        pthread_mutex_unlock(&b->lock);
        run_batch(b, record);
        json_decref(record);
        pthread_mutex_lock(&b->lock);
        b->id[0] = '\0';
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

kt_status kt__batches_open(kt__shared *shared, const char *dir, kt__batches **out, kt_error *err) {
    kt__batches *b = kt__calloc(1, sizeof *b);
    *out = NULL;
    if (!b) return kt__fail_nomem(err, "batches", sizeof *b);
    b->shared = shared;
    pthread_mutex_init(&b->lock, NULL);
    (void)kt__cond_init(&b->changed);
    kt_status status = kt__batch_store_open(dir, &b->store, err);
    if (status == KT_OK && kt__thread_start(&b->thread, "kentang-batches", 0, run_batches, b) != 0)
        status = kt__fail_nomem(err, "a thread", 0);
    b->started = status == KT_OK;
    if (status == KT_OK) {
        *out = b;
    } else {
        kt__batches_close(b);
    }
    return status;
}

void kt__batches_stop(kt__batches *b) {
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->quit = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    if (b->started) pthread_join(b->thread, NULL);
    b->started = false;
}

void kt__batches_close(kt__batches *b) {
    if (!b) return;
    kt__batches_stop(b);
    kt__batch_store_close(b->store);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    kt__free(b);
}

kt__batch_store *kt__batches_store(kt__batches *b) {
    return b->store;
}

/* ---- clients ---- */

static kt_status check_batch(kt__batches *b, const char *client, const json_t *body,
                             kt_error *err) {
    const char *endpoint = text_of(body, "endpoint"), *input = text_of(body, "input_file_id");
    const json_t *metadata = json_object_get(body, "metadata");
    if (!find_endpoint(endpoint))
        return kt__fail_at(err, KT_E_ARG, "endpoint", UINT64_MAX,
                           "endpoint: expected /v1/chat/completions, /v1/completions, "
                           "/v1/embeddings or /v1/responses");
    if (metadata && !json_is_object(metadata) && !json_is_null(metadata))
        return kt__fail_at(err, KT_E_ARG, "metadata", UINT64_MAX, "metadata: expected an object");
    json_t *record = kt__batch_store_record(b->store, input, client);
    bool there = record && !strcmp(text_of(record, "object"), "file");
    json_decref(record);
    if (there) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, "input_file_id", UINT64_MAX,
                       "input_file_id: there is no such file");
}

kt_status kt__batches_create(kt__batches *b, const char *client, const json_t *body,
                             char id[KT__BATCH_ID], kt_error *err) {
    char out[KT__BATCH_ID], errors[KT__BATCH_ID];
    json_t *metadata = json_object_get(body, "metadata");
    kt_status status = check_batch(b, client, body, err);
    if (status != KT_OK) return status;
    kt__batch_new_id("batch_", id);
    kt__batch_new_id("file-", out);
    kt__batch_new_id("file-", errors);
    json_t *record = json_pack(
        "{s:s,s:s,s:s,s:n,s:s,s:s,s:s,s:n,s:n,s:I,s:O?,s:{s:i,s:i,s:i},s:s,s:s,s:s}", "id", id,
        "object", "batch", "endpoint", text_of(body, "endpoint"), "errors", "input_file_id",
        text_of(body, "input_file_id"), "completion_window", "24h", "status", "validating",
        "output_file_id", "error_file_id", "created_at", (json_int_t)time(NULL), "metadata",
        metadata, "request_counts", "total", 0, "completed", 0, "failed", 0, "kentang_client",
        client, "kentang_output", out, "kentang_errors", errors);
    if (!record) return kt__fail_nomem(err, "a batch", 0);
    pthread_mutex_lock(&b->lock);
    status = kt__batch_store_save(b->store, id, record, err);
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    json_decref(record);
    return status;
}

bool kt__batches_cancel(kt__batches *b, const char *client, const char *id) {
    kt_error err;
    pthread_mutex_lock(&b->lock);
    json_t *record = kt__batch_store_record(b->store, id, client);
    bool runs = !strcmp(b->id, id);
    if (record && is_unfinished(record)) {
        set_time(record, runs ? "cancelling_at" : "cancelled_at");
        json_object_set_new(record, "status", json_string(runs ? "cancelling" : "cancelled"));
        if (kt__batch_store_save(b->store, id, record, &err) != KT_OK)
            kt__slog_line(&b->shared->log, KT_LOG_ERROR, "%s", err.message);
        b->cancel |= runs;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    bool found = record && !strcmp(text_of(record, "object"), "batch");
    json_decref(record);
    return found;
}

json_t *kt__batches_get(kt__batches *b, const char *client, const char *id) {
    pthread_mutex_lock(&b->lock);
    json_t *record = kt__batch_store_record(b->store, id, client);
    bool counted = b->n_all > 0; /* else what is known of it is as it was saved */
    if (record && counted && !strcmp(b->id, id)) set_counts(b, record);
    if (record && !strcmp(b->id, id) && b->cancel && is_unfinished(record))
        json_object_set_new(record, "status", json_string("cancelling"));
    pthread_mutex_unlock(&b->lock);
    if (record && strcmp(text_of(record, "object"), "batch") != 0) {
        json_decref(record);
        return NULL;
    }
    return record;
}
