#include "cli/batch.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"

/* ---- reading ---- */

enum { CHUNK = 65536 };

void kt__batch_input_open(kt__batch_input *in, int fd) {
    kt__file_info st;
    *in = (kt__batch_input){.fd = fd};
    kt__buf_init(&in->buf, (size_t)KT__WIRE_MAX_BYTES + CHUNK);
    if (kt__fd_look(fd, &st) && st.is_file) in->size = st.bytes;
}

void kt__batch_input_close(kt__batch_input *in) {
    kt__buf_free(&in->buf);
}

/* What is read and done with makes room. */
static void drop_read(kt__batch_input *in) {
    if (!in->at) return;
    memmove(in->buf.data, in->buf.data + in->at, in->buf.len - in->at);
    in->buf.len -= in->at;
    in->at = 0;
}

/* More bytes into the buffer: KT__BATCH_LINE when some came. */
static kt__batch_read fill_buffer(kt__batch_input *in, bool wait, kt_error *err) {
    char chunk[CHUNK];
    if (!wait && !kt__fd_has_input(in->fd, 0)) return KT__BATCH_WAIT;
    ssize_t n = kt__fd_read(in->fd, chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return KT__BATCH_WAIT;
    if (n < 0) {
        (void)kt__fail_system(err, errno, NULL, "reading the requests");
        return KT__BATCH_FAILED;
    }
    if (n == 0) {
        in->eof = true;
        return KT__BATCH_EOF;
    }
    in->n_bytes += (uint64_t)n;
    drop_read(in);
    if (kt__buf_append(&in->buf, chunk, (size_t)n)) return KT__BATCH_LINE;
    (void)kt__fail_nomem(err, "a line of requests", in->buf.len);
    return KT__BATCH_FAILED;
}

static bool is_blank(const char *s, size_t len) {
    while (len && (*s == ' ' || *s == '\t' || *s == '\r')) s++, len--;
    return len == 0;
}

/* A line that is in the buffer, the last one perhaps without its newline. */
static bool take_line(kt__batch_input *in, const char **line, size_t *len) {
    char *begin = in->buf.data ? in->buf.data + in->at : NULL;
    size_t left = in->buf.len - in->at;
    char *end = left ? memchr(begin, '\n', left) : NULL;
    if (!end && !(in->eof && left)) return false;
    *line = begin;
    *len = end ? (size_t)(end - begin) : left;
    in->at += *len + (end ? 1 : 0);
    in->n_lines++;
    return true;
}

kt__batch_read kt__batch_input_next(kt__batch_input *in, bool wait, const char **line, size_t *len,
                                    kt_error *err) {
    for (;;) {
        if (take_line(in, line, len)) {
            bool rest = in->skipping;
            in->skipping = false;
            if (rest) return KT__BATCH_TOO_LONG;
            if (!is_blank(*line, *len)) return KT__BATCH_LINE;
            continue;
        }
        if (in->eof) return KT__BATCH_EOF;
        if (in->buf.len - in->at > KT__WIRE_MAX_BYTES) {
            in->skipping = true;
            in->at = in->buf.len;
        }
        kt__batch_read got = fill_buffer(in, wait, err);
        if (got == KT__BATCH_EOF && in->skipping && in->at == in->buf.len) {
            in->skipping = false;
            in->n_lines++;
            return KT__BATCH_TOO_LONG;
        }
        if (got == KT__BATCH_WAIT || got == KT__BATCH_FAILED) return got;
    }
}

/* ---- understanding ---- */

static kt_status own_id(kt__batch_line *out, const char *id, size_t len) {
    out->id = kt__strndup(id, len);
    return out->id ? KT_OK : kt__fail_nomem(&out->err, "an id", len);
}

static kt_status number_as_id(kt__batch_line *out, uint64_t number) {
    char text[32];
    int n = snprintf(text, sizeof text, "line-%llu", (unsigned long long)number);
    return own_id(out, text, (size_t)n);
}

static kt_status form_of(const json_t *url, kt__wire_form *form, kt_error *err) {
    const char *text = json_string_value(url);
    if (text && !strcmp(text, "/v1/chat/completions")) {
        *form = KT__WIRE_CHAT;
        return KT_OK;
    }
    *form = KT__WIRE_TEXT;
    if (text && !strcmp(text, "/v1/completions")) return KT_OK;
    return kt__fail_at(err, text ? KT_E_UNSUPPORTED : KT_E_ARG, "url", UINT64_MAX,
                       "url: %s\"%.80s\"; expected /v1/chat/completions or /v1/completions",
                       text ? "not supported: " : "got ", text ? text : "");
}

/* {"custom_id", "method", "url", "body"} */
static kt_status parse_openai(const json_t *object, uint64_t number,
                              const kt_request_params *defaults, kt__batch_line *out) {
    kt__wire_form form;
    const json_t *id = json_object_get(object, "custom_id");
    const json_t *method = json_object_get(object, "method");
    out->openai = true;
    if (!json_is_string(id) || !json_string_length(id)) {
        KT__STEP(number_as_id(out, number));
        return kt__fail_at(&out->err, KT_E_ARG, "custom_id", UINT64_MAX,
                           "custom_id: expected a string that is not empty");
    }
    KT__STEP(own_id(out, json_string_value(id), json_string_length(id)));
    if (method && (!json_is_string(method) || strcmp(json_string_value(method), "POST") != 0)) {
        return kt__fail_at(&out->err, KT_E_ARG, "method", UINT64_MAX, "method: expected \"POST\"");
    }
    KT__STEP(form_of(json_object_get(object, "url"), &form, &out->err));
    KT__STEP(kt__wire_read_value(form, json_object_get(object, "body"), "body", defaults, NULL,
                                 &out->request, &out->err));
    if (out->request->echo)
        return kt__fail_at(&out->err, KT_E_UNSUPPORTED, "body.echo", UINT64_MAX,
                           "body.echo: only a server answers with the prompt");
    if (out->request->n_best)
        return kt__fail_at(&out->err, KT_E_UNSUPPORTED, "body.best_of", UINT64_MAX,
                           "body.best_of: above n only a server takes it");
    if (out->request->n_prompts > 1)
        return kt__fail_at(&out->err, KT_E_UNSUPPORTED, "body.prompt", UINT64_MAX,
                           "body.prompt: a line has one prompt: give each a line of its own");
    return KT_OK;
}

static kt_status parse_native(const json_t *object, uint64_t number,
                              const kt_request_params *defaults, kt__batch_line *out) {
    const json_t *id = json_object_get(object, "id");
    char digits[32];
    if (json_is_string(id) && json_string_length(id)) {
        KT__STEP(own_id(out, json_string_value(id), json_string_length(id)));
    } else if (json_is_integer(id)) {
        int n = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(id));
        KT__STEP(own_id(out, digits, (size_t)n));
    } else {
        KT__STEP(number_as_id(out, number));
    }
    return kt__wire_read_value(KT__WIRE_NATIVE, object, NULL, defaults, NULL, &out->request,
                               &out->err);
}

void kt__batch_line_parse(const char *line, size_t len, uint64_t number,
                          const kt_request_params *defaults, kt__batch_line *out) {
    json_t *object = NULL;
    *out = (kt__batch_line){.number = number};
    kt_status status = kt__wire_parse(line, len, &object, &out->err);
    if (status == KT_OK &&
        (json_object_get(object, "custom_id") || json_object_get(object, "body"))) {
        status = parse_openai(object, number, defaults, out);
    } else if (status == KT_OK) {
        status = parse_native(object, number, defaults, out);
    }
    json_decref(object);
    if (!out->id && number_as_id(out, number) != KT_OK) return;
    out->err.code = status;
}

void kt__batch_line_free(kt__batch_line *line) {
    kt__free(line->id);
    kt__wire_request_free(line->request);
    *line = (kt__batch_line){0};
}
