#include "agent/loop.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "mcp/rpc.h"

enum { MAX_LINE = 64 << 20, MAX_DEPTH = 128 };

static kt_status take_recorded(kt__transcript *t, const char *line, size_t len, kt_error *err) {
    const kt__json_limits limits = {MAX_LINE, MAX_DEPTH};
    json_t *event;
    if (!len) return KT_OK;
    kt_status status = kt__json_read(line, len, &limits, &event, err);
    if (status == KT_OK && json_array_append_new(t->recorded, event) != 0)
        return kt__fail_nomem(err, "a transcript", len);
    return status;
}

static kt_status read_recorded(kt__transcript *t, FILE *in, kt_error *err) {
    kt__framer framer;
    char data[16384];
    const char *line;
    size_t n, used, len;
    kt_status status = KT_OK;
    kt__framer_init(&framer, MAX_LINE);
    while (status == KT_OK && (n = fread(data, 1, sizeof data, in)) > 0) {
        for (size_t at = 0; at < n && status == KT_OK; at += used) {
            kt__frame frame = kt__framer_next(&framer, data + at, n - at, &used, &line, &len);
            if (frame == KT__FRAME_LINE) status = take_recorded(t, line, len, err);
            if (frame == KT__FRAME_TOO_LONG || frame == KT__FRAME_NOMEM)
                status = kt__fail(err, KT_E_FORMAT, "a line is too long");
        }
    }
    kt__frame last = kt__framer_end(&framer, &line, &len);
    if (status == KT_OK && last == KT__FRAME_LINE) status = take_recorded(t, line, len, err);
    kt__framer_free(&framer);
    return status;
}

kt_status kt__transcript_open(const char *path, const char *replay, kt__transcript *t,
                              kt_error *err) {
    memset(t, 0, sizeof *t);
    t->begin_us = kt__now_us();
    FILE *in = replay ? fopen(replay, "re") : NULL;
    if (replay && !in) return kt__fail_system(err, errno, replay, "cannot read %.100s", replay);
    t->recorded = replay ? json_array() : NULL;
    kt_status status = in ? read_recorded(t, in, err) : KT_OK;
    if (in) fclose(in);
    int fd = path && status == KT_OK
                 ? kt__fd_open(path, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_EMPTY |
                                         KT__OPEN_APPEND | KT__OPEN_PRIVATE)
                 : -1;
    if (fd >= 0) t->out = fdopen(fd, "a");
    if (path && status == KT_OK && !t->out)
        status = kt__fail_system(err, errno, path, "cannot write %.100s", path);
    if (status != KT_OK) kt__transcript_close(t);
    return status;
}

void kt__transcript_close(kt__transcript *t) {
    if (t->out) fclose(t->out);
    json_decref(t->recorded);
    memset(t, 0, sizeof *t);
}

/* Each line is out before what it tells of continues. */
void kt__transcript_add(kt__transcript *t, const char *event, json_t *fields) {
    json_t *line = t->out ? json_pack("{s:I,s:s}", "ms",
                                      (json_int_t)((kt__now_us() - t->begin_us) / 1000), "event",
                                      event)
                          : NULL;
    if (line) {
        (void)json_object_update(line, fields);
        (void)json_dumpf(line, t->out, JSON_COMPACT);
        (void)fputc('\n', t->out);
        (void)fflush(t->out);
        json_decref(line);
    }
    json_decref(fields);
}

static bool is_event(const json_t *v, const char *event) {
    const char *name = json_string_value(json_object_get(v, "event"));
    return name && !strcmp(name, event);
}

const json_t *kt__transcript_tools(const kt__transcript *t) {
    size_t i;
    json_t *v;
    json_array_foreach(t->recorded, i, v) {
        if (is_event(v, "tools")) return json_object_get(v, "tools");
    }
    return NULL;
}

const json_t *kt__transcript_next(kt__transcript *t, const char *tool, const json_t *args) {
    for (; t->at < json_array_size(t->recorded); t->at++) {
        const json_t *v = json_array_get(t->recorded, t->at);
        const char *name = json_string_value(json_object_get(v, "tool"));
        if (!is_event(v, "result")) continue;
        if (!name || strcmp(name, tool) != 0 || !json_equal(json_object_get(v, "arguments"), args))
            return NULL;
        t->at++;
        return v;
    }
    return NULL;
}
