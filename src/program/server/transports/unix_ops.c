/* What the lines of the Unix socket ask for. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/system.h"
#include "dialects/dialect_learn.h"
#include "dialects/dialects.h"
#include "jobs/stats.h"
#include "transports/unix_client.h"

enum { SMALL_LINE_BYTES = 256 << 10 }; /* longer ones are parsed by the workers */

/* ---- short answers ---- */

/* A final object; id NULL: it has none. rest: members */
static void say_last(kt__unix_client *c, const char *id, const char *rest) {
    (void)kt__buf_putc(&c->out, '{');
    if (id) {
        kt__json_member(&c->out, "id", id);
        (void)kt__buf_putc(&c->out, ',');
    }
    (void)kt__buf_puts(&c->out, "\"done\":true,");
    (void)kt__buf_puts(&c->out, rest);
    (void)kt__buf_puts(&c->out, "}\n");
}

/* The same for what is answered here; id NULL: one is made. */
static void say_done(kt__unix_client *c, const char *id, const char *rest) {
    char made[48];
    kt__job_make_id(made, sizeof made, "req-");
    say_last(c, id ? id : made, rest);
}

void kt__unix_say_error(kt__unix_client *c, const char *id, const kt_error *err) {
    kt__buf body;
    kt__buf_init(&body, 8192);
    if (err->retry_ms > 0)
        (void)kt__buf_printf(&body, "\"retry_ms\":%lld,", (long long)err->retry_ms);
    size_t at = body.len;
    kt__wire_write_error(&body, err);
    if (!body.failed && body.len > at + 2) {
        memmove(body.data + at, body.data + at + 1, body.len - at - 2); /* without its braces */
        body.data[body.len - 2] = '\0';
        say_last(c, id, body.data);
    }
    kt__metrics_answer(c->home->shared->metrics, "socket", kt__wire_http_status(err->code));
    kt__buf_free(&body);
}

const kt_error *kt__unix_crowded(kt_error *err) {
    (void)kt__fail(err, KT_E_BUSY, "the lines of other requests fill limits.bodies");
    err->retry_ms = 1000;
    return err;
}

/* ---- requests ---- */

static kt__job *find_job(const kt__unix_client *c, const char *id) {
    for (size_t i = 0; i < c->n_jobs; i++) {
        if (!strcmp(c->jobs[i]->request.name, id)) return c->jobs[i];
    }
    return NULL;
}

static kt_status check_room(kt__unix_client *c, kt_error *err) {
    if ((int64_t)c->n_jobs >= kt__shared_limits(c->home->shared).requests_per_connection) {
        (void)kt__fail(err, KT_E_BUSY, "%zu requests of this connection are not finished",
                       c->n_jobs);
        err->retry_ms = 100;
        return KT_E_BUSY;
    }
    bool room = kt__vec_reserve(c->jobs, c->cap_jobs, c->n_jobs + 1);
    return room ? KT_OK : kt__fail_nomem(err, "a request", 0);
}

/* With the bytes of its line[len] counted, and kept, unless line is NULL. */
static kt_status make_job(kt__unix_client *c, const kt__dialect *dialect, const char *line,
                          size_t len, kt__job **out, kt_error *err) {
    kt__shared *shared = c->home->shared;
    kt__job *job = NULL;
    kt_status status;
    KT__TRY(check_room(c, err));
    KT__TRY(kt__job_create(shared, dialect, "req-", c->name, &job, err));
    if (!kt__shared_hold(shared, len)) KT__TRY(kt__unix_crowded(err)->code);
    job->request.n_held = len;
    if (line && !kt__buf_append(&job->request.body, line, len))
        KT__TRY(kt__fail_nomem(err, "a request", len));
    *out = job;
    job = NULL;
out:
    kt__job_release(job);
    return status;
}

/* A job of its own for the workers, of *json, which it takes over, or, where json is NULL, of line;
 * len: the line's. */
static void start_job(kt__unix_client *c, const kt__dialect *dialect, const char *id, json_t **json,
                      const char *line, size_t len) {
    kt_error err;
    kt__job *job;
    if (make_job(c, dialect, json ? NULL : line, len, &job, &err) != KT_OK) {
        kt__unix_say_error(c, id, &err);
        return;
    }
    snprintf(job->request.name, sizeof job->request.name, "%s", id ? id : "");
    if (json) {
        job->request.json = *json;
        *json = NULL; /* with it, id: another thread has them from here on */
    }
    kt__job_share_by_connection(job, c->serial);
    job->transport.on_output = c->home->on_output;
    job->transport.owner = c;
    c->jobs[c->n_jobs++] = job;
    kt__job_start(job);
}

static void do_cancel(kt__unix_client *c, const char *id) {
    kt__job *job = id ? find_job(c, id) : NULL;
    kt_error err;
    if (job) {
        kt__job_cancel(job);
        return; /* its own final object says so */
    }
    (void)kt__fail_at(&err, KT_E_ARG, "id", UINT64_MAX, "no running request has this id");
    kt__unix_say_error(c, id, &err);
}

static void do_stats(kt__unix_client *c, const char *id) {
    kt__buf stats;
    kt__buf_init(&stats, 1 << 20);
    (void)kt__buf_puts(&stats, "\"stats\":");
    bool is_owner = c->uid == kt__process_user() || c->uid == 0;
    kt__stats_write(c->home->shared, is_owner ? NULL : c->name, &stats);
    if (!stats.failed) say_done(c, id, stats.data);
    kt__buf_free(&stats);
}

static void do_stop(kt__unix_client *c, const char *id) {
    kt_error err;
    if (c->uid != kt__process_user() && c->uid != 0) {
        (void)kt__fail(&err, KT_E_STATE, "only the server's own user and root may stop it");
        kt__unix_say_error(c, id, &err);
        return;
    }
    say_done(c, id, "\"stopping\":true");
    kt__shared_request_stop(c->home->shared);
}

static void unknown_op(kt__unix_client *c, const char *id, const char *op) {
    kt_error err;
    (void)kt__fail_at(&err, KT_E_ARG, "op", UINT64_MAX,
                      "op \"%.40s\" is not known: expected generate, cancel, ping, stats, "
                      "tokenize, detokenize, feedback, said, forget, train or stop",
                      op);
    kt__unix_say_error(c, id, &err);
}

/* *body is an object, NULL afterwards where it was taken over; len: its line's; id NULL: none. */
static void dispatch_op(kt__unix_client *c, json_t **body, size_t len, const char *id) {
    const json_t *op_value = json_object_get(*body, "op");
    const char *op = op_value ? json_string_value(op_value) : "generate";
    kt_error err;
    if (!op) op = "(no string)";
    if (!strcmp(op, "cancel")) {
        do_cancel(c, id);
    } else if (!strcmp(op, "ping")) {
        say_done(c, id, "\"pong\":true");
    } else if (!strcmp(op, "stats")) {
        do_stats(c, id);
    } else if (!strcmp(op, "stop")) {
        do_stop(c, id);
    } else if (id && find_job(c, id)) {
        (void)kt__fail_at(&err, KT_E_ARG, "id", UINT64_MAX,
                          "a request with this id is running on this connection");
        kt__unix_say_error(c, NULL,
                           &err); /* without the id: it would end the other for its reader */
    } else if (!strcmp(op, "generate")) {
        start_job(c, &kt__dialect_native, id, body, NULL, len);
    } else if (!strcmp(op, "tokenize")) {
        start_job(c, &kt__dialect_line_tokenize, id, body, NULL, len);
    } else if (!strcmp(op, "feedback")) {
        start_job(c, &kt__dialect_line_feedback, id, body, NULL, len);
    } else if (!strcmp(op, "said")) {
        start_job(c, &kt__dialect_line_said, id, body, NULL, len);
    } else if (!strcmp(op, "forget")) {
        start_job(c, &kt__dialect_line_forget, id, body, NULL, len);
    } else if (!strcmp(op, "train")) {
        start_job(c, &kt__dialect_line_train, id, body, NULL, len);
    } else if (!strcmp(op, "detokenize")) {
        start_job(c, &kt__dialect_line_detokenize, id, body, NULL, len);
    } else {
        unknown_op(c, id, op);
    }
}

static bool is_blank(const char *line, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (line[i] != ' ' && line[i] != '\t') return false;
    }
    return true;
}

void kt__unix_take_line(kt__unix_client *c, const char *line, size_t len) {
    kt_error err;
    json_t *body;
    const char *id = NULL;
    if (is_blank(line, len)) return;
    if (len > SMALL_LINE_BYTES) {
        start_job(c, &kt__dialect_native, NULL, NULL, line, len);
        return;
    }
    kt_status status = kt__wire_parse(line, len, &body, &err);
    if (status == KT_OK && !json_is_object(body))
        status = kt__fail(&err, KT_E_ARG, "a request is a JSON object");
    const json_t *id_value = status == KT_OK ? json_object_get(body, "id") : NULL;
    if (id_value && !json_is_null(id_value)) {
        id = json_string_value(id_value);
        size_t id_len = id ? json_string_length(id_value) : 0;
        if (!id || !id_len || id_len >= sizeof((kt__job *)0)->request.name) {
            status = kt__fail_at(&err, KT_E_ARG, "id", UINT64_MAX,
                                 "id: expected a text of 1 to 127 bytes");
            id = NULL;
        }
    }
    if (status == KT_OK) {
        dispatch_op(c, &body, len, id);
    } else {
        kt__unix_say_error(c, id, &err);
    }
    json_decref(body);
}
