#include "transports/mcp_stdio.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/system.h"
#include "dialects/dialect_mcp.h"
#include "mcp/rpc.h"

enum { READ_BYTES = 64 << 10, POLL_MS = 200, STUCK_MS = 2000, MAX_ERROR = 4096 };

struct kt__mcp_stdio {
    kt__shared *shared;
    int in, out;
    atomic_bool broken;
    pthread_mutex_t lock; /* of writing: whole lines */
    kt__framer framer;
};

/* A part that a pipe takes at once, as soon as there is room for it. A reader that takes nothing is
 * waited for, but not longer than STUCK_MS once the server stops. */
static bool write_part(kt__mcp_stdio *s, const char *data, size_t len) {
    struct pollfd reader = {.fd = s->out, .events = POLLOUT};
    for (int waited_ms = 0; poll(&reader, 1, POLL_MS) <= 0;) {
        if (atomic_load(&s->shared->stopping)) waited_ms += POLL_MS;
        if (waited_ms >= STUCK_MS) return false;
    }
    return kt__fd_write(s->out, data, len);
}

static void write_lines(kt__mcp_stdio *s, const char *data, size_t len) {
    pthread_mutex_lock(&s->lock);
    for (size_t at = 0; at < len && !atomic_load(&s->broken); at += PIPE_BUF) {
        size_t n = len - at < PIPE_BUF ? len - at : PIPE_BUF;
        if (!write_part(s, data + at, n)) atomic_store(&s->broken, true);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Loop: a job writes whole lines. */
static void write_job_output(kt__job *job) {
    kt__mcp_stdio *s = job->transport.owner;
    pthread_mutex_lock(&job->lock);
    size_t n = job->answer.out.len - job->answer.out_at;
    bool ended = job->state == KT__JOB_ENDED && job->transport.waits;
    if (n) {
        write_lines(s, job->answer.out.data + job->answer.out_at, n);
        kt__job_taken(job, n);
    }
    if (ended) job->transport.waits = false;
    pthread_mutex_unlock(&job->lock);
    if (ended) kt__job_release(job); /* the transport's reference */
}

/* A line that cannot become a job. */
static void refuse_line(kt__mcp_stdio *s, int code, const char *why) {
    kt__buf said;
    kt__buf_init(&said, MAX_ERROR);
    kt__rpc_write_error(&said, NULL, code, why, NULL);
    (void)kt__buf_putc(&said, '\n');
    if (!said.failed) write_lines(s, said.data, said.len);
    kt__buf_free(&said);
}

/* The request's id is the job's name before anything else is read: what cancels it finds it. */
static void name_by_id(kt__job *job) {
    char *id = json_dumps(json_object_get(job->request.json, "id"), JSON_COMPACT | JSON_ENCODE_ANY);
    if (id && strlen(id) < sizeof job->request.name)
        snprintf(job->request.name, sizeof job->request.name, "%s", id);
    free(id);
}

static kt_status start_line(kt__mcp_stdio *s, json_t *message, kt_error *err) {
    kt__job *job;
    kt_status status = kt__job_create(s->shared, &kt__dialect_mcp_lines, "mcp-", "stdio", &job,
                                      err);
    if (status != KT_OK) return status;
    job->request.json = json_incref(message);
    status = kt__dialect_mcp_begin(job, NULL, err);
    if (status != KT_OK) {
        kt__job_release(job);
        return status;
    }
    name_by_id(job);
    job->transport.owner = s;
    job->transport.on_output = write_job_output;
    job->transport.waits = true; /* its end has not been seen */
    kt__job_start(job);
    return KT_OK;
}

static void take_mcp_line(kt__mcp_stdio *s, const char *line, size_t len) {
    json_t *message;
    kt_error err;
    if (!len) return;
    kt_status status = kt__wire_parse(line, len, &message, &err);
    if (status == KT_OK) status = start_line(s, message, &err);
    if (status != KT_OK) refuse_line(s, kt__rpc_code_of(status), err.message);
    json_decref(message);
}

static void take_mcp_frame(kt__mcp_stdio *s, kt__frame frame, const char *line, size_t len) {
    if (frame == KT__FRAME_LINE) take_mcp_line(s, line, len);
    if (frame == KT__FRAME_TOO_LONG || frame == KT__FRAME_NOMEM)
        refuse_line(s, KT__RPC_INVALID, "a line was dropped: it is too long");
}

/* false: the end. */
static bool read_mcp_lines(kt__mcp_stdio *s) {
    char *data = kt__malloc(READ_BYTES);
    const char *line = NULL;
    size_t used, len = 0;
    ssize_t n = data ? read(s->in, data, READ_BYTES) : -1;
    for (size_t at = 0; n > 0 && at < (size_t)n; at += used) {
        kt__frame frame = kt__framer_next(&s->framer, data + at, (size_t)n - at, &used, &line,
                                          &len);
        take_mcp_frame(s, frame, line, len);
    }
    if (n == 0) {
        kt__frame last = kt__framer_end(&s->framer, &line, &len);
        take_mcp_frame(s, last, line, len);
    }
    kt__free(data);
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

kt_status kt__mcp_stdio_open(kt__shared *shared, int in, int out, kt__mcp_stdio **stdio,
                             kt_error *err) {
    kt__mcp_stdio *s = kt__calloc(1, sizeof *s);
    *stdio = s;
    if (!s) return kt__fail_nomem(err, "the transport", sizeof *s);
    s->shared = shared;
    s->in = in;
    s->out = out;
    pthread_mutex_init(&s->lock, NULL);
    kt__framer_init(&s->framer, (size_t)kt__shared_limits(shared).max_body);
    return KT_OK;
}

bool kt__mcp_stdio_is_broken(kt__mcp_stdio *s) {
    struct pollfd reader = {.fd = s->out};
    (void)poll(&reader, 1, 0);
    return atomic_load(&s->broken) || (reader.revents & (POLLERR | POLLNVAL));
}

void kt__mcp_stdio_run(kt__mcp_stdio *s, const volatile int *stop) {
    struct pollfd input = {.fd = s->in, .events = POLLIN};
    while (!*stop && !kt__mcp_stdio_is_broken(s)) {
        if (poll(&input, 1, POLL_MS) > 0 && !read_mcp_lines(s)) break;
    }
    while (!*stop && !kt__mcp_stdio_is_broken(s) && !kt__jobs_wait(s->shared, POLL_MS)) continue;
}

void kt__mcp_stdio_close(kt__mcp_stdio *s) {
    if (!s) return;
    kt__framer_free(&s->framer);
    pthread_mutex_destroy(&s->lock);
    kt__free(s);
}
