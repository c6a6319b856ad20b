/* Arbitrary bytes as the body of a request to each path and to the socket: it is read into a
 * request that is whole, answered at once, or refused in the words of its dialect; all that is
 * written is JSON. The first byte picks the dialect, the rest is the body. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dialects/dialects.h"
#include "serve/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const kt__dialect *const dialects[] = {&kt__dialect_chat,
                                              &kt__dialect_completion,
                                              &kt__dialect_embeddings,
                                              &kt__dialect_native,
                                              &kt__dialect_messages,
                                              &kt__dialect_ollama_chat,
                                              &kt__dialect_ollama_generate,
                                              &kt__dialect_tokenize,
                                              &kt__dialect_detokenize,
                                              &kt__dialect_template,
                                              &kt__dialect_line_tokenize,
                                              &kt__dialect_line_detokenize,
                                              &kt__dialect_responses};

/* One for the whole run, over the demo model; nobody connects. */
static kt__server *open_server(void) {
    char dir[] = "/tmp/kentang-fuzz-XXXXXX", path[64];
    kt__server *server = NULL;
    kt__config *c;
    kt_error err;
    if (!mkdtemp(dir)) abort();
    snprintf(path, sizeof path, "%s/k.sock", dir);
    if (kt__config_create(&c, &err) != KT_OK ||
        kt__config_set(c, "http.listen", "none", "fuzz", &err) != KT_OK ||
        kt__config_set(c, "socket.path", path, "fuzz", &err) != KT_OK ||
        kt__config_set(c, "threads", "1", "fuzz", &err) != KT_OK ||
        kt__config_set(c, "parallel", "1", "fuzz", &err) != KT_OK ||
        kt__config_set(c, "log.level", "error", "fuzz", &err) != KT_OK ||
        kt__config_finish(c, &err) != KT_OK || kt__server_start(c, &server, &err) != KT_OK)
        abort();
    unlink(path); /* it is never closed: a fuzzer ends anywhere */
    snprintf(path, sizeof path, "%s/k.sock.lock", dir);
    unlink(path);
    rmdir(dir);
    return server;
}

/* JSON, a line of it, or the data of a server-sent event. */
static void expect_json(const kt__buf *out) {
    const char *text = out->data ? out->data : "", *end = text + out->len;
    if (out->failed) return;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t len = newline ? (size_t)(newline - text) : (size_t)(end - text), skip = 0;
        if (len > 6 && !memcmp(text, "data: ", 6)) skip = 6;
        bool other = !len || !memcmp(text, "event: ", len < 7 ? len : 7) ||
                     (skip && len == 12 && !memcmp(text, "data: [DONE]", 12));
        json_t *v = other ? NULL : json_loadb(text + skip, len - skip, JSON_ALLOW_NUL, NULL);
        if (!other && !v) __builtin_trap();
        json_decref(v);
        text += len + 1;
    }
}

static void look_at(const kt__job *job) {
    const kt__wire_request *wire = job->request.wire;
    if (!job->model.engine) __builtin_trap();
    if (!wire) return; /* it was answered at once */
    if (wire->req.n_choices < 1 || wire->req.n_choices > KT_CHOICES_MAX) __builtin_trap();
    for (size_t i = 0; i < wire->req.gen.n_stop; i++) {
        if (!wire->req.gen.stop[i]) __builtin_trap();
    }
    for (size_t i = 0; i < wire->req.prompt.n_messages; i++) {
        if (!wire->req.prompt.messages[i].role || !wire->req.prompt.messages[i].content)
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kt__server *server;
    kt_error err = {0};
    kt__job *job;
    if (!server) server = open_server();
    if (size < 1) return 0;
    const kt__dialect *dialect = dialects[data[0] % (sizeof dialects / sizeof *dialects)];
    if (kt__job_create(&server->shared, dialect, "fuzz-", "fuzz", &job, &err) != KT_OK) return 0;
    if (kt__buf_append(&job->request.body, (const char *)data + 1, size - 1)) {
        kt_status status = dialect->run ? dialect->run(job, &err) : dialect->read(job, &err);
        if (status == KT_OK) {
            look_at(job);
        } else {
            if (err.code != status || !err.message[0]) __builtin_trap();
            dialect->error(job, &err);
            if (!job->answer.out.len && !job->answer.out.failed) __builtin_trap();
        }
        expect_json(&job->answer.out);
    }
    if (job->model.engine) kt__served_done(job->model.served, job->model.engine);
    kt__job_release(job);
    return 0;
}
