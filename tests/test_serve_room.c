/* serve: too many connections, and too few descriptors: others are served all the same, and it is
 * said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>
#include <cmocka.h>

#include "jobs/job.h"
#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "limits.connections=8", "limits.connections_per_peer=4", "limits.output=4096",
               NULL)

static bool metric_says(const char *line) {
    reply *r = ask(&w, "GET", "/metrics", "", "");
    bool says = strstr(r->body, line) != NULL;
    free(r);
    return says;
}

/* However many connections sit idle, from this machine, with or without half a request. */
static void test_idle_connections_make_room(void **state) {
    (void)state;
    int fds[40];
    for (int i = 0; i < 40; i++) {
        fds[i] = connect_http(&w);
        if (i % 2) assert_true(send_all(fds[i], "GET /health HTTP/1.1\r\nHost: lo", 30));
    }
    for (int i = 0; i < 5; i++) {
        reply *r = post(&w, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":1}");
        if (r->status != 200) fail_msg("%d: %s", i, r->text);
        free(r);
    }
    for (int i = 0; i < 40; i++) close(fds[i]);
    assert_false(metric_says("kentang_connections_refused_total{interface=\"http\"} 0\n"));
}

static int begin_http_stream(void) {
    static const char body[] = "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":900,"
                               "\"stream\":true}";
    char head[512], text[4096] = "";
    int fd = connect_http(&w);
    int n = snprintf(head, sizeof head,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                     "Content-Length: %zu\r\n\r\n%s",
                     sizeof body - 1, body);
    int small = 2048;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (!send_all(fd, head, (size_t)n) || !receive_until(fd, text, sizeof text, "data: "))
        fail_msg("%s", text);
    return fd;
}

/* Where every connection is at work there is no room: that is an answer, too. */
static void test_full_house_is_said(void **state) {
    (void)state;
    int fds[8];
    for (int i = 0; i < 8; i++) fds[i] = begin_http_stream();
    reply *r = post(&w, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":1}");
    if (r->status != 503) fail_msg("%s", r->text);
    assert_non_null(strstr(r->text, "too many connections"));
    assert_non_null(strstr(r->text, "server_error"));
    assert_non_null(strstr(r->text, "Retry-After: "));
    free(r);
    r = ask(&w, "GET", "/health", "", ""); /* a balancer's view is not the crowd's */
    assert_int_equal(r->status, 200);
    free(r);
    for (int i = 0; i < 8; i++) close(fds[i]);
    for (int i = 0; kt__jobs_count(&w.server->shared) > 0 && i < 500; i++) usleep(10000);
    assert_false(metric_says("kentang_connections_refused_total{interface=\"http\"} 0\n"));
    assert_true(metric_says("kentang_connections_refused_total{interface=\"socket\"} 0\n"));
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A connection that cannot be accepted waits; the loop does not spin on it. */
static void test_no_descriptor_left(void **state) {
    struct rlimit before, none;
    char text[4096] = "", log[4096] = "";
    int pipes[2], client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)state;
    snprintf(a.sun_path, sizeof a.sun_path, "%s", w.socket);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0); /* the lowest that is free: none at or above it may be opened */
    close(next);
    none = before;
    none.rlim_cur = (rlim_t)next;
    world_log_to(&w, pipes[1]);
    atomic_store(&w.server->shared.log.level, KT_LOG_WARN);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&a, sizeof a), 0);
    assert_true(send_all(client, "{\"op\":\"ping\"}\n", 14));
    double begin_s = cpu_seconds();
    usleep(1500000);
    double used_s = cpu_seconds() - begin_s;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (used_s > 0.5) fail_msg("%.2f s of processor time in 1.5 s of waiting", used_s);
    assert_true(receive_until(client, text, sizeof text, "pong")); /* once there is one again */
    world_log_to(&w, STDERR_FILENO);
    close(pipes[1]);
    for (size_t len = 0; receive_pipe(pipes[0], log, sizeof log, &len);) {
    }
    assert_non_null(strstr(log, "none can be accepted"));
    close(pipes[0]);
    close(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_connections_make_room),
        cmocka_unit_test(test_full_house_is_said),
        cmocka_unit_test(test_no_descriptor_left),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
