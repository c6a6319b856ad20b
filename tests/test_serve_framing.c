/* serve: HTTP: where a request ends, who is half gone, and what the old ask without a Host. */
#include <microhttpd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "jobs/job.h"
#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "limits.request_s=20", "limits.output=4096", NULL)

#define BODY "{\"prompt\":\"O\",\"max_tokens\":2}" /* 29 bytes */
#define POST_HEAD "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE

/* Lines end with CR LF, and no byte of a header is NUL: what reads them otherwise sees another request. */
static void test_bare_lines(void **state) {
    (void)state;
#define RAW(text, status) \
    { text, sizeof text - 1, status }
    static const struct {
        const char *text;
        size_t len;
        int status;
    } cases[] = {
        RAW("GET /health HTTP/1.1\r\nHost: localhost\0evil\r\n\r\n", 400),
        RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: b\0c\r\n\r\n", 400),
        RAW("GET /health HTTP/1.1\nHost: localhost\r\n\r\n", 400),
        RAW("GET /health HTTP/1.1\r\nHost: localhost\n\r\n", 400),
        RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: b\nX-C: d\r\n\r\n", 400),
        RAW("GET /health HTTP/1.1\r\nHost: localhost\r\n\n", 400),
        RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX-A:  b \t \r\nConnection: close\r\n\r\n",
            200),
        RAW("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Empty:\r\nConnection: close\r\n\r\n",
            200),
    };
#undef RAW
    if (strncmp(MHD_get_version(), "0.9.", 4) != 0) skip(); /* others are not looked into */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = ask_raw(&w, cases[i].text, cases[i].len);
        if (r->status != cases[i].status) fail_msg("case %zu: %d: %s", i, r->status, r->text);
        free(r);
    }
}

/* A proxy in front and we must never see two different requests in the same bytes. */
static void test_two_lengths(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {POST_HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\n" BODY
                   "\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
         400},
        {POST_HEAD "Content-Length: 29\r\nContent-Length: 3\r\n\r\n" BODY, 400},
        {POST_HEAD "Content-Length: 29\r\nContent-Length: 29\r\n\r\n" BODY, 400},
        {POST_HEAD "Transfer-Encoding : chunked\r\nContent-Length: 29\r\n\r\n" BODY, 400},
        {POST_HEAD "Transfer-Encoding\t: chunked\r\nContent-Length: 29\r\n\r\n" BODY, 400},
        {POST_HEAD "Transfer-Encoding:\r\n chunked\r\nContent-Length: 29\r\n\r\n" BODY, 400},
        {POST_HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n", 400},
        {"GET /health HTTP/1.1\r\n\r\n", 400},
        {POST_HEAD "Transfer-Encoding: xchunked\r\n\r\n", 501},
        {POST_HEAD "Transfer-Encoding: identity\r\n\r\n", 501},
        {POST_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {"GET /v1/models%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404},
        {"GET /v1%2fmodels HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404},
        {POST_HEAD "Transfer-Encoding: Chunked\r\nConnection: close\r\n\r\n1d\r\n" BODY
                   "\r\n0\r\n\r\n",
         200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t begin_us = kt__now_us();
        reply *r = ask_raw(&w, cases[i].text, strlen(cases[i].text));
        if (r->status != cases[i].status || strstr(r->body, "HTTP/1.1"))
            fail_msg("%s: %s", cases[i].text, r->text);
        assert_true(kt__now_us() - begin_us < 5000000); /* at once, and the connection is closed */
        json_decref(body_of(r));
        free(r);
    }
}

static void test_no_host(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"GET /health HTTP/1.0\r\n\r\n", 200},
        {"GET /v1/models HTTP/1.1\r\nHost: 127.5.5.5\r\nConnection: close\r\n\r\n", 200},
        {"GET /health HTTP/1.1\r\nHost: 127.evil.example\r\nConnection: close\r\n\r\n", 403},
        {"GET /ready HTTP/1.0\r\n\r\n", 200},
        {"GET /health HTTP/1.0\r\nHost: evil.example\r\n\r\n", 403},
        {"GET /v1/models HTTP/1.0\r\n\r\n", 403}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = ask_raw(&w, cases[i].text, strlen(cases[i].text));
        int status = 0;
        (void)sscanf(r->text, "HTTP/1.%*d %d", &status);
        if (status != cases[i].status) fail_msg("%s: %s", cases[i].text, r->text);
        free(r);
    }
}

/* ---- clients that close their sending side ---- */

static int send_and_shut(const char *body) {
    char head[1024];
    int fd = connect_http(&w);
    int n = snprintf(head, sizeof head, POST_HEAD "Content-Length: %zu\r\n\r\n%s", strlen(body),
                     body);
    assert_true(send_all(fd, head, (size_t)n));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    return fd;
}

static void test_half_closed_is_answered(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{\"prompt\":\"O\",\"max_tokens\":300,\"ignore_eos\":true}",
        "{\"prompt\":\"O\",\"max_tokens\":300,\"ignore_eos\":true,\"stream\":true}"};
    for (int i = 0; i < 2; i++) {
        char *text = calloc(1, 1 << 20);
        int fd = send_and_shut(bodies[i]);
        (void)receive_until(fd, text, 1 << 20, NULL);
        if (!strstr(text, "HTTP/1.1 200") || !strstr(text, "\"finish_reason\":\"length\""))
            fail_msg("%s", text);
        if (i) assert_non_null(strstr(text, "data: [DONE]"));
        close(fd);
        free(text);
    }
}

/* Many at once, some of whose ends are seen before their requests, some after: each gets its answer
 * and then, at once, the end. */
static void test_half_closed_in_a_crowd(void **state) {
    enum { N = 60 };
    static const char *const bodies[] = {"{\"prompt\":\"O\",\"max_tokens\":-7}", BODY};
    static const char *const answers[] = {"HTTP/1.1 400 ", "HTTP/1.1 200 "};
    int fds[N];
    (void)state;
    int64_t begin_us = kt__now_us();
    for (int i = 0; i < N; i++) fds[i] = send_and_shut(bodies[i % 2]);
    for (int i = 0; i < N; i++) {
        char text[8192] = "";
        (void)receive_until(fds[i], text, sizeof text, NULL);
        if (!strstr(text, answers[i % 2])) fail_msg("%d: %s", i, text);
        close(fds[i]);
    }
    assert_true(kt__now_us() - begin_us < 8000000); /* receive_until would wait 10 s for one end */
}

static void test_half_closed_without_a_body(void **state) {
    static const struct {
        const char *text, *answer;
    } cases[] = {{"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 "},
                 {"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 404 "},
                 {"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
                  "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
                  "HTTP/1.1 404 "}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char text[1 << 16];
        int fd = connect_http(&w);
        int64_t begin_us = kt__now_us();
        *text = '\0';
        assert_true(send_all(fd, cases[i].text, strlen(cases[i].text)));
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        (void)receive_until(fd, text, sizeof text, NULL);
        if (!strstr(text, cases[i].answer)) fail_msg("%s: %s", cases[i].text, text);
        assert_true(kt__now_us() - begin_us < 5000000);
        close(fd);
    }
}

static void no_job_is_left(void) {
    for (int i = 0; kt__jobs_count(&w.server->shared) > 0; i++) {
        if (i > 300) fail_msg("requests of clients that are gone still run");
        usleep(10000);
    }
}

/* The same first sign, but nobody reads: an answer of hours ends within moments. */
static void test_gone_is_noticed(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{\"prompt\":\"O\",\"max_tokens\":1000,\"ignore_eos\":true}",
        "{\"prompt\":\"O\",\"max_tokens\":1000,\"ignore_eos\":true,\"stream\":true}"};
    for (int i = 0; i < 40; i++) {
        int fd = send_and_shut(bodies[i % 2]);
        if (i % 3) usleep(3000);
        close(fd);
    }
    no_job_is_left();
}

/* ---- keys ---- */

static void test_wrong_key_is_told_apart(void **state) {
    kt_error err;
    world mine = {0};
    char path[] = "/tmp/kentang-keys-XXXXXX", setting[96], log[4096] = "";
    int pipes[2], fd = mkstemp(path);
    (void)state;
    assert_true(write(fd, "ana:0123456789abcdef\n", 21) == 21);
    close(fd);
    assert_int_equal(pipe(pipes), 0);
    snprintf(setting, sizeof setting, "http.keys=%s", path);
    const char *const settings[] = {setting, "log.level=warn", NULL};
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    world_log_to(&mine, pipes[1]);
    reply *r = ask(&mine, "GET", "/v1/models", "", "");
    assert_non_null(strstr(r->text, "an API key is needed"));
    free(r);
    for (int i = 0; i < 20; i++) {
        r = ask(&mine, "GET", "/v1/models", "Authorization: Bearer not-the-key-itself\r\n", "");
        assert_int_equal(r->status, 401);
        assert_non_null(strstr(r->text, "not valid"));
        free(r);
    }
    world_log_to(&mine, STDERR_FILENO);
    close(pipes[1]);
    for (size_t len = 0; receive_pipe(pipes[0], log, sizeof log, &len);) {
    }
    assert_non_null(strstr(log, "wrong API key peer=ip:127.0.0.1"));
    assert_null(strstr(log, "not-the-key"));
    assert_true(strlen(log) < 1000); /* not a line each */
    close(pipes[0]);
    world_close(&mine);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bare_lines),
        cmocka_unit_test(test_two_lengths),
        cmocka_unit_test(test_no_host),
        cmocka_unit_test(test_half_closed_is_answered),
        cmocka_unit_test(test_half_closed_in_a_crowd),
        cmocka_unit_test(test_half_closed_without_a_body),
        cmocka_unit_test(test_gone_is_noticed),
        cmocka_unit_test(test_wrong_key_is_told_apart),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
