/* serve: big requests: a prompt that cannot fit is refused before it is encoded, the bytes of all
 * requests together are bounded, and what a client left behind is not worked on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dialects/dialects.h"
#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "limits.body=2M", "limits.bodies=3M", NULL)

static int64_t held_bytes(void) {
    return atomic_load(&w.server->shared.n_held);
}

/* Bytes are let go with the job or the connection, which end on threads of the server. */
static void wait_until_none_is_held(void) {
    for (int i = 0; i < 500 && held_bytes(); i++) usleep(10000);
    assert_int_equal(held_bytes(), 0);
}

static char *body_with(const char *before, size_t n, const char *after) {
    char *body = malloc(n + strlen(before) + strlen(after) + 1);
    size_t at = strlen(before);
    memcpy(body, before, at);
    memset(body + at, 'a', n);
    strcpy(body + at + n, after);
    return body;
}

/* ---- prompts that cannot fit ---- */

static void test_hopeless_prompts(void **state) {
    (void)state;
    static const struct {
        const char *path, *before, *after;
    } cases[] = {
        {"/v1/completions", "{\"prompt\":\"", "\"}"},
        {"/v1/completions", "{\"prompt\":[\"Hi\",\"", "\"]}"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}"},
        {"/v1/messages", "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"",
         "\"}]}"},
        {"/v1/embeddings", "{\"input\":\"", "\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = body_with(cases[i].before, 1900000, cases[i].after);
        reply *r = post(&w, cases[i].path, body);
        if (r->status != 400 || !strstr(r->body, "1900") || !strstr(r->body, "bytes"))
            fail_msg("%s: %s", cases[i].path, r->text);
        free(r);
        free(body);
        wait_until_none_is_held();
    }
}

/* Short enough by its bytes, and one token too many: the count stops there. */
static void test_one_token_too_many(void **state) {
    (void)state;
    kt__served_info info;
    kt__served_get_info(kt__models_at(w.server->shared.models, 0), &info);
    size_t n_ctx = (size_t)info.engine.n_ctx, len = 0;
    assert_true(info.model.bytes_per_token > 1);
    char *body = malloc(8 * n_ctx + 64);
    len = (size_t)sprintf(body, "{\"max_tokens\":1,\"prompt\":\"");
    for (size_t i = 0; i <= n_ctx; i++)
        len += (size_t)sprintf(body + len, "%s", i % 2 ? "\\t" : "#");
    strcpy(body + len, "\"}");
    reply *r = post(&w, "/v1/completions", body);
    if (r->status != 400 || !strstr(r->body, "a prompt of more than")) fail_msg("%s", r->text);
    assert_non_null(strstr(r->body, "context_length_exceeded"));
    free(r);
    free(body);
}

/* ---- all requests together ---- */

/* A connection on which n bytes of a body came, and no more. */
static int begin_body(size_t n) {
    char head[256];
    char *part = body_with("{\"prompt\":\"", n, "");
    int len = snprintf(head, sizeof head,
                       "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                       "Content-Length: %zu\r\n\r\n",
                       n + 1000);
    int fd = connect_http(&w);
    assert_true(fd >= 0 && send_all(fd, head, (size_t)len) && send_all(fd, part, strlen(part)));
    free(part);
    return fd;
}

static void test_sum_of_bodies(void **state) {
    (void)state;
    int fds[2] = {begin_body(1400000), begin_body(1400000)};
    for (int i = 0; i < 500 && held_bytes() < 2800000; i++) usleep(10000);
    assert_true(held_bytes() >= 2800000);
    char *body = body_with("{\"prompt\":\"", 1400000, "\"}");
    reply *r = post(&w, "/v1/completions", body);
    if (r->status != 503 || !strstr(r->text, "Retry-After: ")) fail_msg("%s", r->text);
    assert_non_null(strstr(r->body, "limits.bodies"));
    free(r);
    r = post(&w, "/v1/completions", "{\"prompt\":\"Hi\",\"max_tokens\":1}");
    assert_int_equal(r->status, 200);
    free(r);
    close(fds[0]);
    close(fds[1]);
    wait_until_none_is_held();
    r = post(&w, "/v1/completions", body);
    assert_int_equal(r->status, 400); /* it is read, and does not fit the context */
    free(r);
    free(body);
    wait_until_none_is_held();
}

static void test_sum_of_lines(void **state) {
    (void)state;
    char *part = body_with("{\"prompt\":\"", 1400000, ""), text[4096] = "";
    int fds[3];
    for (int i = 0; i < 2; i++) {
        fds[i] = connect_socket(&w);
        assert_true(send_all(fds[i], part, strlen(part)));
    }
    for (int i = 0; i < 500 && held_bytes() < 2800000; i++) usleep(10000);
    fds[2] = connect_socket(&w);
    assert_true(send_all(fds[2], part, strlen(part)));
    assert_true(receive_until(fds[2], text, sizeof text, "KT_E_BUSY"));
    assert_non_null(strstr(text, "limits.bodies"));
    assert_non_null(strstr(text, "\"retry_ms\":"));
    /* the rest of the line is dropped, the connection stays usable */
    static const char rest[] = "\"}\n{\"op\":\"ping\",\"id\":\"p\"}\n";
    assert_true(send_all(fds[2], rest, sizeof rest - 1));
    assert_true(receive_until(fds[2], text, sizeof text, "\"pong\":true"));
    for (int i = 0; i < 3; i++) close(fds[i]);
    free(part);
    wait_until_none_is_held();
}

/* ---- clients that left ---- */

static atomic_int n_runs;

static kt_status count_run(kt__job *job, kt_error *err) {
    (void)job;
    (void)err;
    atomic_fetch_add(&n_runs, 1);
    return KT_OK;
}

static void ignore_output(kt__job *job) {
    (void)job;
}

static void run_once(const kt__dialect *dialect, bool left) {
    kt__job *job;
    kt_error err;
    assert_int_equal(kt__job_create(&w.server->shared, dialect, "t-", "test", &job, &err), KT_OK);
    job->transport.on_output = ignore_output;
    if (left) job->interest = KT__JOB_ABANDONED;
    kt__job_start(job);
    kt__job_release(job);
    for (int i = 0; i < 500 && kt__jobs_count(&w.server->shared); i++) usleep(10000);
    assert_int_equal(kt__jobs_count(&w.server->shared), 0);
}

static void test_left_behind(void **state) {
    (void)state;
    const kt__dialect dialect = {.route = "/test",
                                 .error_body = kt__openai_error_body,
                                 .run = count_run,
                                 .error = kt__dialect_whole_error};
    run_once(&dialect, true);
    assert_int_equal(atomic_load(&n_runs), 0);
    run_once(&dialect, false);
    assert_int_equal(atomic_load(&n_runs), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hopeless_prompts), cmocka_unit_test(test_one_token_too_many),
        cmocka_unit_test(test_sum_of_bodies),    cmocka_unit_test(test_sum_of_lines),
        cmocka_unit_test(test_left_behind),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
