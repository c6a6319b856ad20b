/* serve: files and batches: each answer is what it is alone, errors stay with their line, a batch goes on
 * after its server was killed, and clients see their own only. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "dialects/batches.h"
#include "serve_reply.h"
#include "services/batch_store.h"

static char dir[64], setting[96];

static int make_dir(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/kentang-batches-XXXXXX");
    if (!mkdtemp(dir)) return 1;
    snprintf(setting, sizeof setting, "batches.dir=%s", dir);
    return 0;
}

static int remove_dir(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) == 0 ? 0 : 1;
}

static void open_world(world *w) {
    kt_error err;
    const char *const settings[] = {setting, NULL};
    if (world_open(w, &err, settings) != KT_OK) fail_msg("%s", err.message);
}

/* The id of an uploaded file, for free(). */
static char *upload(const world *w, const char *text) {
    size_t size = strlen(text) + 1024;
    char *body = malloc(size);
    snprintf(body, size,
             "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
             "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n"
             "Content-Type: application/octet-stream\r\n\r\n%s\r\n--XX--\r\n",
             text);
    reply *r = ask(w, "POST", "/v1/files", "Content-Type: multipart/form-data; boundary=XX\r\n",
                   body);
    if (r->status != 200) fail_msg("%s", r->text);
    json_t *v = body_of(r);
    assert_string_equal(text_at(v, "filename"), "in.jsonl");
    assert_int_equal(json_integer_value(at(v, "bytes")), strlen(text));
    assert_null(json_object_get(v, "kentang_client"));
    char *id = strdup(text_at(v, "id"));
    json_decref(v);
    free(r);
    free(body);
    return id;
}

static char *create(const world *w, const char *file) {
    char body[256];
    snprintf(
        body, sizeof body,
        "{\"input_file_id\":\"%s\",\"endpoint\":\"/v1/chat/completions\",\"completion_window\":"
        "\"24h\",\"metadata\":{\"a\":\"b\"}}",
        file);
    reply *r = post(w, "/v1/batches", body);
    if (r->status != 200) fail_msg("%s", r->text);
    json_t *v = body_of(r);
    assert_string_equal(text_at(v, "metadata.a"), "b");
    char *id = strdup(text_at(v, "id"));
    json_decref(v);
    free(r);
    return id;
}

static json_t *get_json(const world *w, const char *path) {
    reply *r = ask(w, "GET", path, "", "");
    if (r->status != 200) fail_msg("%s: %s", path, r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

/* When it is over. */
static json_t *wait_for(const world *w, const char *id) {
    char path[128];
    snprintf(path, sizeof path, "/v1/batches/%s", id);
    for (int i = 0; i < 600; i++) {
        json_t *v = get_json(w, path);
        const char *status = text_at(v, "status");
        if (strcmp(status, "validating") != 0 && strcmp(status, "in_progress") != 0 &&
            strcmp(status, "cancelling") != 0)
            return v;
        json_decref(v);
        usleep(50000);
    }
    fail_msg("%s does not end", id);
    return NULL;
}

/* {custom_id: line} of a file of results. */
static json_t *results(const world *w, const char *id) {
    char path[128];
    json_t *all = json_object();
    snprintf(path, sizeof path, "/v1/files/%s/content", id);
    reply *r = ask(w, "GET", path, "", "");
    assert_int_equal(r->status, 200);
    for (char *line = strtok(r->body, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *v = json_loads(line, 0, NULL);
        if (!v) fail_msg("%s", line);
        const char *custom = json_string_value(json_object_get(v, "custom_id"));
        assert_null(json_object_get(all, custom)); /* each once */
        json_object_set_new(all, custom, v);
    }
    free(r);
    return all;
}

#define LINE(id, body)     \
    "{\"custom_id\":\"" id \
    "\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":" body "}\n"
#define CHAT(words, more) \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"" words "\"}],\"seed\":3" more "}"

static void test_answers_and_errors(void **state) {
    (void)state;
    world w = {0};
    open_world(&w);
    char *file = upload(&w, LINE("a", CHAT("A cat", ",\"max_tokens\":20"))
                                LINE("b", CHAT("A dog", ",\"max_tokens\":-7")) "\n" LINE(
                                    "c", CHAT("A cow", ",\"max_tokens\":9"))
                                    LINE("d", CHAT("A pig", ",\"stream\":true")));
    char *batch = create(&w, file);
    json_t *v = wait_for(&w, batch);
    assert_string_equal(text_at(v, "status"), "completed");
    assert_int_equal(json_integer_value(at(v, "request_counts.total")), 4);
    assert_int_equal(json_integer_value(at(v, "request_counts.completed")), 2);
    assert_int_equal(json_integer_value(at(v, "request_counts.failed")), 2);
    json_t *good = results(&w, text_at(v, "output_file_id"));
    json_t *bad = results(&w, text_at(v, "error_file_id"));
    static const char *const alone[][2] = {{"a", CHAT("A cat", ",\"max_tokens\":20")},
                                           {"c", CHAT("A cow", ",\"max_tokens\":9")}};
    for (int i = 0; i < 2; i++) {
        reply *r = post(&w, "/v1/chat/completions", alone[i][1]);
        json_t *one = body_of(r);
        const json_t *line = json_object_get(good, alone[i][0]);
        assert_int_equal(json_integer_value(at(line, "response.status_code")), 200);
        assert_string_equal(text_at(line, "response.body.choices.0.message.content"),
                            text_at(one, "choices.0.message.content"));
        json_decref(one);
        free(r);
    }
    assert_int_equal(json_integer_value(at(bad, "b.response.status_code")), 400);
    assert_string_equal(text_at(bad, "b.response.body.error.param"), "max_tokens");
    assert_string_equal(text_at(bad, "d.response.body.error.param"), "stream");
    json_decref(good);
    json_decref(bad);
    json_decref(v);
    free(batch);
    free(file);
    world_close(&w);
}

static void test_refused_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "no requests"},
               {"{\"custom_id\":\"a\"\n", "line"},
               {LINE("a", CHAT("x", "")) LINE("a", CHAT("y", "")), "another line has the same"},
               {"{\"custom_id\":\"a\",\"url\":\"/v1/embeddings\",\"body\":{}}\n", "endpoint"},
               {"{\"custom_id\":\"a\",\"url\":\"/v1/chat/completions\",\"body\":7}\n", "body"}};
    world w = {0};
    open_world(&w);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *file = upload(&w, bad[i].text), *batch = create(&w, file);
        json_t *v = wait_for(&w, batch);
        char *text = json_dumps(v, 0);
        if (strcmp(text_at(v, "status"), "failed") != 0 || !strstr(text, bad[i].says))
            fail_msg("%s", text);
        free(text);
        json_decref(v);
        free(batch);
        free(file);
    }
    world_close(&w);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *method, *path, *headers, *body;
        int status;
    } rows[] = {
        {"GET", "/v1/files/file-000000000000000000000000", "", "", 404},
        {"GET", "/v1/files/..%2f..%2fetc%2fpasswd", "", "", 404},
        {"GET", "/v1/files/../x", "", "", 404},
        {"DELETE", "/v1/files/file-000000000000000000000000", "", "", 404},
        {"GET", "/v1/batches/batch_000000000000000000000000", "", "", 404},
        {"POST", "/v1/batches/batch_000000000000000000000000/cancel", "", "", 404},
        {"PUT", "/v1/files", "", "", 405},
        {"POST", "/v1/batches", JSON_TYPE, "{\"input_file_id\":\"x\",\"endpoint\":\"/v1/chat\"}",
         400},
        {"POST", "/v1/batches", JSON_TYPE,
         "{\"input_file_id\":\"../x\",\"endpoint\":\"/v1/completions\"}", 400},
        {"POST", "/v1/files", JSON_TYPE, "{}", 400},
        {"POST", "/v1/files", "Content-Type: multipart/form-data; boundary=XX\r\n", "--XX\r\n",
         400},
        {"POST", "/v1/files",
         "Content-Type: multipart/form-data; boundary=XX\r\nSec-Fetch-Site: cross-site\r\n",
         "--XX\r\n", 415},
    };
    world w = {0};
    open_world(&w);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reply *r = ask(&w, rows[i].method, rows[i].path, rows[i].headers, rows[i].body);
        if (r->status != rows[i].status)
            fail_msg("%s %s: %s", rows[i].method, rows[i].path, r->text);
        if (rows[i].status == 405) assert_non_null(strstr(r->text, "Allow: GET, POST"));
        free(r);
    }
    world_close(&w);
    world off = {0};
    kt_error err;
    assert_int_equal(world_open(&off, &err, NULL), KT_OK);
    reply *r = ask(&off, "GET", "/v1/files", "", "");
    assert_int_equal(r->status, 501);
    free(r);
    world_close(&off);
}

static void test_cancel_and_delete(void **state) {
    (void)state;
    enum { N = 60 };
    static char text[N * 256];
    char path[128];
    size_t len = 0;
    world w = {0};
    for (int i = 0; i < N; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "{\"custom_id\":\"%d\",\"url\":\"/v1/chat/completions\",\"body\":{"
                                "\"messages\":[{\"role\":\"user\",\"content\":\"Go on.\"}],"
                                "\"ignore_eos\":true,\"max_tokens\":600}}\n",
                                i);
    open_world(&w);
    char *file = upload(&w, text), *batch = create(&w, file), *other = create(&w, file);
    snprintf(path, sizeof path, "/v1/batches/%s/cancel", other);
    free(ask(&w, "POST", path, "", ""));
    snprintf(path, sizeof path, "/v1/batches/%s/cancel", batch);
    usleep(200000);
    reply *r = ask(&w, "POST", path, "", "");
    assert_int_equal(r->status, 200);
    free(r);
    for (int i = 0; i < 2; i++) {
        json_t *v = wait_for(&w, i ? other : batch);
        assert_string_equal(text_at(v, "status"), "cancelled");
        json_decref(v);
    }
    snprintf(path, sizeof path, "/v1/files/%s", file);
    r = ask(&w, "DELETE", path, "", "");
    assert_int_equal(r->status, 200);
    free(r);
    r = ask(&w, "GET", path, "", "");
    assert_int_equal(r->status, 404);
    free(r);
    free(file);
    free(batch);
    free(other);
    world_close(&w);
}

/* The server is killed in the midst of a batch, and its last result is torn: the next one ends it, each
 * result once and the same. */
static void test_survives_a_kill(void **state) {
    (void)state;
    enum { N = 40 };
    static char text[N * 256];
    size_t len = 0;
    char batch[64] = "";
    int pipes[2];
    for (int i = 0; i < N; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "{\"custom_id\":\"%d\",\"url\":\"/v1/chat/completions\",\"body\":{"
                                "\"messages\":[{\"role\":\"user\",\"content\":\"Go on, %d.\"}],"
                                "\"seed\":1,\"ignore_eos\":true,\"max_tokens\":150}}\n",
                                i, i);
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (!child) {
        world w = {0};
        open_world(&w);
        char *file = upload(&w, text), *id = create(&w, file);
        ssize_t n = write(pipes[1], id, strlen(id));
        (void)n;
        pause();
        _exit(0);
    }
    close(pipes[1]);
    ssize_t n = read(pipes[0], batch, sizeof batch - 1);
    assert_true(n > 0);
    close(pipes[0]);
    usleep(300000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    world w = {0};
    open_world(&w);
    char path[128];
    snprintf(path, sizeof path, "/v1/batches/%s", batch);
    reply *first = ask(&w, "GET", path, "", ""); /* before its lines are counted again, or after */
    json_t *early = body_of(first);
    assert_int_equal(json_integer_value(at(early, "request_counts.total")), N);
    json_decref(early);
    free(first);
    json_t *v = wait_for(&w, batch);
    assert_string_equal(text_at(v, "status"), "completed");
    assert_int_equal(json_integer_value(at(v, "request_counts.completed")), N);
    json_t *all = results(&w, text_at(v, "output_file_id"));
    assert_int_equal(json_object_size(all), N);
    for (int i = 0; i < N; i += 13) {
        char body[256], id[8];
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Go on, %d.\"}],\"seed\":1,"
                 "\"ignore_eos\":true,\"max_tokens\":150}",
                 i);
        snprintf(id, sizeof id, "%d", i);
        reply *r = post(&w, "/v1/chat/completions", body);
        json_t *one = body_of(r);
        assert_string_equal(
            text_at(json_object_get(all, id), "response.body.choices.0.message.content"),
            text_at(one, "choices.0.message.content"));
        json_decref(one);
        free(r);
    }
    json_decref(all);
    json_decref(v);
    world_close(&w);
}

static void test_multipart(void **state) {
    (void)state;
    kt__multipart form;
    kt__multipart_part part;
    static const char body[] =
        "pre--b\r\nContent-Disposition: form-data; name=x; filename=\"a b\"\r\n"
        "\r\n1\r\n2\r\n--b\r\ncontent-disposition: form-data; NAME=\"y\"\r\n\r\n"
        "\r\n--b--\r\n";
    assert_false(kt__multipart_begin(&form, NULL, "", 0));
    assert_false(kt__multipart_begin(&form, "application/json", "", 0));
    assert_false(kt__multipart_begin(&form, "multipart/form-data", "", 0));
    assert_true(
        kt__multipart_begin(&form, "Multipart/Form-Data; boundary=\"b\"", body, sizeof body - 1));
    assert_true(kt__multipart_next(&form, &part));
    assert_string_equal(part.name, "x");
    assert_string_equal(part.filename, "a b");
    assert_int_equal(part.len, 4);
    assert_memory_equal(part.data, "1\r\n2", 4);
    assert_true(kt__multipart_next(&form, &part));
    assert_string_equal(part.name, "y");
    assert_int_equal(part.len, 0);
    assert_false(kt__multipart_next(&form, &part));
    for (size_t cut = 0; cut < sizeof body; cut++) { /* cut anywhere, in memory of that size */
        char *copy = malloc(cut + 1);
        memcpy(copy, body, cut);
        assert_true(kt__multipart_begin(&form, "multipart/form-data; boundary=b", copy, cut));
        for (int n = 0; kt__multipart_next(&form, &part); n++) assert_true(n < 3);
        free(copy);
    }
}

/* One server at a time uses a directory. */
static void test_one_server(void **state) {
    (void)state;
    world w = {0}, second = {0};
    kt_error err;
    const char *const settings[] = {setting, NULL};
    open_world(&w);
    assert_int_equal(world_open(&second, &err, settings), KT_E_STATE);
    rmdir(second.dir);
    world_close(&w);
}

/* A client has an end of files, and deleting one makes room. */
static void test_quota(void **state) {
    world w = {0};
    kt_error err;
    char own[80] = "/tmp/kentang-quota-XXXXXX", in[128], command[128];
    (void)state;
    assert_non_null(mkdtemp(own));
    snprintf(in, sizeof in, "batches.dir=%s", own);
    const char *const settings[] = {in, "batches.max_files=2", "batches.max_bytes=2000", NULL};
    if (world_open(&w, &err, settings) != KT_OK) fail_msg("%s", err.message);
    char *first = upload(&w, "a"), *second = upload(&w, "b"), path[80], body[4096], *long_body;
    const char form[] = "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
                        "--XX\r\nContent-Disposition: form-data; name=\"file\"; "
                        "filename=\"in.jsonl\"\r\n\r\n%s\r\n--XX--\r\n";
    for (int i = 0; i < 2; i++) { /* too many, then too long */
        char text[2100] = "c";
        if (i) memset(text, 'x', 2050);
        snprintf(body, sizeof body, form, text);
        long_body = body;
        reply *r = ask(&w, "POST", "/v1/files",
                       "Content-Type: multipart/form-data; boundary=XX\r\n", long_body);
        if (r->status != 413 || !strstr(r->text, "batches.max_")) fail_msg("%s", r->text);
        free(r);
        snprintf(path, sizeof path, "/v1/files/%s", i ? second : first);
        r = ask(&w, "DELETE", path, "", "");
        assert_int_equal(r->status, 200);
        free(r);
    }
    free(upload(&w, "d"));
    free(first);
    free(second);
    world_close(&w);
    snprintf(command, sizeof command, "rm -rf %s", own);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_survives_a_kill),   cmocka_unit_test(test_answers_and_errors),
        cmocka_unit_test(test_refused_files),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_cancel_and_delete), cmocka_unit_test(test_multipart),
        cmocka_unit_test(test_one_server),        cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
