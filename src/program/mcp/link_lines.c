/* A server that is a process: a message a line. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/framer.h"
#include "mcp/child.h"
#include "mcp/json_read.h"
#include "mcp/link.h"

enum { CHUNK_BYTES = 64 << 10, ASIDE_BYTES = 600, LOOK_MS = 100 };

typedef struct lines_link {
    kt__mcp_link link; /* first member */
    kt__child child;
    const char *name;
    kt__framer framer;
    char data[CHUNK_BYTES];
    size_t at, len;          /* of data that is not framed yet */
    char aside[ASIDE_BYTES]; /* the last of its standard error */
    size_t n_aside;
    bool ended;
} lines_link;

static lines_link *lines_of(kt__mcp_link *link) {
    return (lines_link *)(void *)link;
}

/* The last bytes are kept. */
static void keep_aside(lines_link *l, const char *data, size_t n) {
    size_t most = sizeof l->aside - 1;
    if (n > most) {
        data += n - most;
        n = most;
    }
    size_t drop = l->n_aside + n > most ? l->n_aside + n - most : 0;
    memmove(l->aside, l->aside + drop, l->n_aside - drop);
    memcpy(l->aside + l->n_aside - drop, data, n);
    l->n_aside += n - drop;
    l->aside[l->n_aside] = '\0';
}

/* Nobody must wait because its complaints are not read. */
static void read_aside(lines_link *l) {
    char data[4096];
    ssize_t n;
    while (l->child.err >= 0 && (n = read(l->child.err, data, sizeof data)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        keep_aside(l, data, (size_t)n);
    }
    if (l->child.err >= 0) close(l->child.err);
    l->child.err = -1;
}

static const char *lines_aside(kt__mcp_link *link) {
    lines_link *l = lines_of(link);
    read_aside(l);
    return l->aside;
}

static kt_status check_wait(const kt__mcp_wait *wait, kt_error *err) {
    if (wait->stop && wait->stop(wait->user)) return kt__fail(err, KT_E_CANCELLED, "cancelled");
    if (kt__now_us() >= wait->until_us)
        return kt__fail(err, KT_E_DEADLINE, "the server did not answer in time");
    return KT_OK;
}

/* Until something can be read, or written where `writes`; reads what the server says aside. */
static kt_status wait_for_child(lines_link *l, bool writes, const kt__mcp_wait *wait,
                                kt_error *err) {
    struct pollfd fds[3] = {{.fd = l->child.from, .events = POLLIN},
                            {.fd = l->child.err, .events = POLLIN},
                            {.fd = writes ? l->child.to : -1, .events = POLLOUT}};
    kt_status status = check_wait(wait, err);
    if (status != KT_OK) return status;
    if (l->len - l->at) fds[0].fd = -1; /* there is no room for more */
    (void)poll(fds, 3, LOOK_MS);
    if (fds[1].revents) read_aside(l);
    return KT_OK;
}

static kt_status fail_ended(lines_link *l, kt_error *err) {
    l->ended = true;
    read_aside(l);
    return kt__fail(err, KT_E_IO, "the server \"%.60s\" has ended%s%.300s", l->name,
                    l->n_aside ? "; it said: " : "", l->aside);
}

/* More bytes of its output; KT_OK also where none came. */
static kt_status read_more(lines_link *l, kt_error *err) {
    if (l->at < l->len) return KT_OK;
    ssize_t n = read(l->child.from, l->data, sizeof l->data);
    l->at = l->len = 0;
    if (n > 0) l->len = (size_t)n;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return fail_ended(l, err);
    return KT_OK;
}

/* A server may fill its output before it reads: what it says meanwhile is kept, as far as there is
 * room, and it is waited for no longer than `wait`. */
static kt_status lines_send(kt__mcp_link *link, const kt__mcp_post *post, const kt__mcp_wait *wait,
                            kt_error *err) {
    lines_link *l = lines_of(link);
    kt_status status = KT_OK;
    for (size_t at = 0; at <= post->len;) {
        const char *data = at < post->len ? post->json + at : "\n";
        if (l->ended || l->child.to < 0) return fail_ended(l, err);
        ssize_t n = write(l->child.to, data, at < post->len ? post->len - at : 1);
        if (n > 0) at += (size_t)n;
        if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_ended(l, err);
        if (n > 0) continue;
        KT__TRY(wait_for_child(l, true, wait, err));
        KT__TRY(read_more(l, err));
    }
out:
    return status;
}

static kt_status parse_message(const char *line, size_t len, json_t **out, kt_error *err) {
    const kt__json_limits limits = {KT__MCP_MAX_MESSAGE, KT__MCP_MAX_DEPTH};
    kt_status status = kt__json_read(line, len, &limits, out, err);
    return status == KT_E_LIMIT ? kt__fail(err, KT_E_FORMAT, "%s", err->message) : status;
}

static kt_status lines_receive(kt__mcp_link *link, const kt__mcp_wait *wait, json_t **out,
                               kt_error *err) {
    lines_link *l = lines_of(link);
    const char *line;
    size_t used, len;
    kt_status status = KT_OK;
    *out = NULL;
    while (status == KT_OK) {
        while (l->at < l->len) {
            kt__frame frame = kt__framer_next(&l->framer, l->data + l->at, l->len - l->at, &used,
                                              &line, &len);
            l->at += used;
            if (frame == KT__FRAME_LINE && len) return parse_message(line, len, out, err);
            if (frame == KT__FRAME_TOO_LONG)
                return kt__fail(err, KT_E_FORMAT, "a line over %d bytes was dropped",
                                (int)KT__MCP_MAX_MESSAGE);
            if (frame == KT__FRAME_NOMEM) return kt__fail_nomem(err, "a line", 0);
        }
        if (l->ended) return fail_ended(l, err);
        status = wait_for_child(l, false, wait, err);
        if (status == KT_OK) status = read_more(l, err);
    }
    return status;
}

static void lines_close(kt__mcp_link *link) {
    lines_link *l = lines_of(link);
    kt__child_stop(&l->child);
    kt__framer_free(&l->framer);
    kt__free(l);
}

kt_status kt__mcp_link_lines(const kt__mcp_server_config *config, kt__mcp_link **out,
                             kt_error *err) {
    lines_link *l = kt__calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return kt__fail_nomem(err, "a server", sizeof *l);
    l->link = (kt__mcp_link){lines_send, lines_receive, lines_aside, lines_close};
    l->name = config->name;
    kt__framer_init(&l->framer, KT__MCP_MAX_MESSAGE);
    kt_status status = kt__child_start(config, &l->child, err);
    if (status == KT_OK) {
        *out = &l->link;
    } else {
        lines_close(&l->link);
    }
    return status;
}
