/* serve: crowds. While one peer opens connections by the thousand, trickles bytes or sends lines
 * without end, others are served; a page, a path or an odd id gets nowhere on any route. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "jobs/job.h"
#include "serve_world.h"

enum { PER_PEER = 64, PLACES = 200, REQUEST_S = 2 };

static world w;

static int open_world(void **state) {
    static const char *const settings[] = {"strict_names=true",
                                           "limits.connections=200",
                                           "limits.connections_per_peer=64",
                                           "limits.request_s=2",
                                           "limits.body=64K",
                                           "limits.output=4096",
                                           "socket.mode=0666",
                                           NULL};
    struct rlimit files;
    (void)state;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    return world_set_up(&w, settings);
}

static int close_world(void **state) {
    (void)state;
    world_close(&w);
    return 0;
}

/* From 127.0.0.PEER, another machine to the server; -1 where it is refused. */
static int connect_from(int peer) {
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)w.port)};
    from.sin_addr.s_addr = htonl(0x7f000000u + (unsigned)peer);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct linger at_once = {1, 0}; /* thousands of closed ones need no port any more */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) == 0 &&
        connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

static void close_all(int *fds, int n) {
    for (int i = 0; i < n; i++) {
        if (fds[i] >= 0) close(fds[i]);
    }
}

/* A whole request from 127.0.0.PEER on a connection of its own: its answer has 200 and the text. */
static bool is_served(int peer, const char *says) {
    static const char text[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                               "Connection: close\r\nContent-Length: 52\r\n\r\n"
                               "{\"prompt\":\"x\",\"max_tokens\":3,\"ignore_eos\":true     }";
    char answer[8192] = "";
    int fd = connect_from(peer);
    bool good = fd >= 0 && send_all(fd, text, sizeof text - 1) &&
                receive_until(fd, answer, sizeof answer, says) && strstr(answer, "HTTP/1.1 200");
    if (fd >= 0) close(fd);
    return good;
}

static bool is_served_again(int peer) {
    for (int i = 0; i < 100; i++) {
        if (is_served(peer, "\"completion_tokens\":3")) return true;
        usleep(100000);
    }
    return false;
}

/* ---- connections ---- */

/* One peer opens thousands and keeps what it gets; another one is served at once throughout. */
static void test_one_peer_over_tcp(void **state) {
    (void)state;
    int held[300];
    for (int i = 0; i < 300; i++) held[i] = -1;
    for (int i = 0; i < 4000; i++) {
        int *place = &held[i % 300];
        if (*place >= 0) close(*place);
        *place = connect_from(2);
        if (i % 500 == 499) assert_true(is_served(3, "\"completion_tokens\":3"));
    }
    close_all(held, 300);
    assert_true(is_served_again(2));
}

/* All places are taken by several peers that say nothing: their time is up after request_s. */
static void test_all_places_taken(void **state) {
    (void)state;
    int held[PLACES + 50];
    for (int i = 0; i < PLACES + 50; i++) held[i] = connect_from(10 + i / (PER_PEER - 4));
    assert_true(is_served_again(3));
    close_all(held, PLACES + 50);
}

/* The socket's peers are users: the others of one are refused by name, those it has are served. */
static void test_one_user_on_the_socket(void **state) {
    (void)state;
    int mine[PER_PEER + 20], n = 0;
    char text[4096];
    for (int i = 0; i < PER_PEER + 20; i++) mine[i] = connect_socket(&w);
    for (int i = 0; i < 3000; i++) {
        int fd = connect_socket(&w);
        if (fd >= 0) close(fd);
    }
    for (int i = 0; i < PER_PEER + 20; i++) {
        if (mine[i] < 0) continue;
        text[0] = '\0';
        (void)!send_all(mine[i], "{\"op\":\"ping\"}\n", 14);
        assert_true(receive_until(mine[i], text, sizeof text, "\n"));
        n += strstr(text, "\"pong\":true") != NULL;
        if (!strstr(text, "pong")) assert_non_null(strstr(text, "too many connections"));
    }
    assert_true(n > PER_PEER / 2 && n <= PER_PEER);
    /* another user is no worse off; only root can be two of them */
    if (geteuid() == 0) {
        chmod(w.dir, 0755);
        pid_t pid = fork();
        if (pid == 0) {
            if (setuid(65534) != 0) _exit(2);
            int fd = connect_socket(&w);
            text[0] = '\0';
            bool good = fd >= 0 && send_all(fd, "{\"op\":\"ping\"}\n", 14) &&
                        receive_until(fd, text, sizeof text, "\"pong\":true");
            _exit(good ? 0 : 1);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
        chmod(w.dir, 0700);
    }
    close_all(mine, PER_PEER + 20);
}

/* ---- bytes that trickle, and bytes without end ---- */

static void test_many_slow_ones(void **state) {
    (void)state;
    static const char *const begins[] = {
        "GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: ",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
        "Content-Length: 5000\r\n\r\n{\"prompt\":\"",
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
        "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"pro\r\n400\r\n"};
    int fds[PER_PEER / 2], n_open = PER_PEER / 2;
    for (int i = 0; i < PER_PEER / 2; i++) {
        fds[i] = connect_from(20);
        assert_true(fds[i] >= 0 && send_all(fds[i], begins[i % 3], strlen(begins[i % 3])));
    }
    int64_t begin_us = kt__now_us();
    while (n_open && kt__now_us() - begin_us < (REQUEST_S + 20) * 1000000) {
        assert_true(is_served(3, "\"completion_tokens\":3"));
        n_open = 0;
        for (int i = 0; i < PER_PEER / 2; i++) {
            char answer[4096];
            size_t len = 0;
            if (fds[i] < 0) continue;
            if (send_all(fds[i], "a", 1) && receive(fds[i], answer, sizeof answer, &len, 0)) {
                n_open++;
            } else {
                close(fds[i]);
                fds[i] = -1;
            }
        }
        usleep(50000);
    }
    assert_int_equal(n_open, 0);
}

static void test_line_without_end(void **state) {
    (void)state;
    char *piece = malloc(1 << 20), text[4096] = "";
    int fd = connect_socket(&w);
    memset(piece, '[', 1 << 20);
    for (int i = 0; i < 40; i++) assert_true(send_all(fd, piece, 1 << 20));
    assert_true(send_all(fd, "\n{\"op\":\"ping\",\"id\":\"after\"}\n", 29));
    assert_true(receive_until(fd, text, sizeof text, "pong"));
    assert_non_null(strstr(text, "KT_E_LIMIT"));
    close(fd);
    free(piece);
}

/* ---- every route ---- */

static const char *const posts[] = {
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/tokenize",
    "/detokenize",          "/apply-template", "/cancel",        "/api/chat",    "/api/generate"};
enum { N_POSTS = sizeof posts / sizeof *posts };

static void expect(const char *path, const char *headers, const char *body, int low, int high) {
    reply *r = ask(&w, "POST", path, headers, body);
    if (r->status < low || r->status > high)
        fail_msg("%s, %s%.200s: %s", path, headers, body, r->text);
    if (strstr(r->text, "Access-Control")) fail_msg("%s: CORS: %s", path, r->text);
    free(r);
}

static void test_pages_of_others(void **state) {
    (void)state;
    for (int i = 0; i < N_POSTS; i++) {
        expect(posts[i], "Content-Type: text/plain\r\n", "{\"prompt\":\"x\"}", 415, 415);
        expect(posts[i], JSON_TYPE "Origin: https://evil.example\r\n", "{}", 403, 403);
        expect(posts[i], JSON_TYPE "Host: evil.example\r\n", "{}", 403, 403);
    }
}

static void test_deep_and_broken(void **state) {
    (void)state;
    char *deep = malloc(60001);
    memset(deep, '[', 60000);
    deep[60000] = '\0';
    for (int i = 0; i < N_POSTS; i++) {
        expect(posts[i], JSON_TYPE, deep, 400, 413);
        expect(posts[i], JSON_TYPE, "", 400, 404);
        expect(posts[i], JSON_TYPE,
               "{\"id\":[{\"a\":{}}],\"prompt\":{},\"messages\":7,\"input\":{}}", 400, 404);
        expect(posts[i], JSON_TYPE, "\xff\xfe{", 400, 404);
    }
    free(deep);
}

/* A model is a configured name, whatever it looks like. */
static void test_names_like_paths(void **state) {
    (void)state;
    static const char *const names[] = {"../../etc/passwd",    "/etc/passwd", "file:///etc/passwd",
                                        "demo/../demo",        "./demo",      "demo\\u0000",
                                        "..\\\\..\\\\windows", "demo.gguf",   "~/model.gguf",
                                        "%2e%2e%2fetc"};
    static const char *const routes[] = {"/v1/chat/completions", "/v1/messages", "/api/chat",
                                         "/v1/embeddings", "/tokenize"};
    char body[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t k = 0; k < sizeof routes / sizeof *routes; k++) {
            snprintf(body, sizeof body,
                     "{\"model\":\"%s\",\"max_tokens\":2,\"input\":\"x\",\"content\":\"x\","
                     "\"stream\":false,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
                     names[i]);
            expect(routes[k], JSON_TYPE, body, 400, 404);
        }
    }
}

/* ---- ids ---- */

/* Ids are texts and nothing else: what looks like the server's, like code or like a line's end
 * comes back as it is. */
static void test_odd_ids(void **state) {
    (void)state;
    static const char *const ids[] = {
        "__proto__", "constructor",        "req-000000000", "chatcmpl-1",     "../../x",
        "a\\nb",     "\\\"},{\\\"id\\\":", "\\u0000",       "\\ud83d\\ude00", "null"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char line[256];
        snprintf(line, sizeof line, "{\"id\":\"%s\",\"prompt\":\"x\",\"max_tokens\":2}", ids[i]);
        char *text = ask_line(&w, line);
        json_t *sent = json_loads(line, JSON_ALLOW_NUL, NULL), *v = json_loads(text, 0, NULL);
        if (!v) fail_msg("%s: %s", line, text);
        const json_t *id = json_object_get(sent, "id");
        if (strlen(json_string_value(id)) == json_string_length(id)) {
            assert_string_equal(json_string_value(json_object_get(v, "id")), json_string_value(id));
            assert_true(json_is_string(json_object_get(v, "text")));
        } else {
            assert_non_null(json_object_get(v, "error")); /* a NUL is no text here */
        }
        json_decref(sent);
        json_decref(v);
        free(text);
    }
}

/* Who knows the name of another's request cannot end it. */
static void test_ids_of_others(void **state) {
    (void)state;
    char text[1 << 16] = "", other[4096] = "", id[64] = "", line[128];
    int a = begin_stream(&w, "mine", 300, text, sizeof text), b = connect_socket(&w);
    assert_true(a >= 0 && b >= 0);
    pthread_mutex_lock(&w.server->shared.lock);
    if (w.server->shared.n_jobs) snprintf(id, sizeof id, "%s", w.server->shared.jobs[0]->id);
    pthread_mutex_unlock(&w.server->shared.lock);
    snprintf(line, sizeof line,
             "{\"op\":\"cancel\",\"id\":\"mine\"}\n{\"op\":\"cancel\",\"id\":\"%s\"}\n", id);
    assert_true(send_all(b, line, strlen(line)));
    assert_true(receive_until(b, other, sizeof other, "}\n{"));
    snprintf(line, sizeof line, "{\"id\":\"%s\"}", id);
    expect("/cancel", JSON_TYPE, line, 404, 404);
    while (!strstr(text, "\"done\":true")) { /* streams are longer than a buffer here */
        memmove(text, text + strlen(text) / 2, strlen(text) - strlen(text) / 2 + 1);
        assert_true(receive_until(a, text, sizeof text, "\"done\":true") || strlen(text) > 30000);
    }
    assert_non_null(strstr(text, "\"finish_reason\":\"length\""));
    close(a);
    close(b);
}

/* ---- while prompts are computed ---- */

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static size_t running_jobs(void) {
    pthread_mutex_lock(&w.server->shared.lock);
    size_t n = w.server->shared.n_jobs;
    pthread_mutex_unlock(&w.server->shared.lock);
    return n;
}

/* /metrics and /health wait for nothing that computes. The bound is for loaded machines; what a
 * quiet one needs is in docs/BENCHMARKS.md. */
static void test_answers_during_prefill(void **state) {
    (void)state;
    enum { N = 60, WORDS = 300 }; /* three tokens each, at most */
    int64_t us[2 * N];
    char *line = malloc(8192);
    int fd = connect_socket(&w), n = 0;
    for (int k = 0; k < 24; k++) { /* different from the first token on: nothing is cached */
        int at = snprintf(line, 256, "{\"prompt\":\"");
        for (int i = 0; i < WORDS; i++) at += sprintf(line + at, "%c%d ", 'a' + k, i % 10);
        strcpy(line + at, "\",\"max_tokens\":1}\n");
        assert_true(send_all(fd, line, strlen(line)));
    }
    for (int i = 0; i < 5000 && running_jobs() < 10; i++) usleep(1000);
    for (; n < 2 * N && running_jobs() > 0; n++) {
        int64_t begin_us = kt__now_us();
        reply *r = ask(&w, "GET", n % 2 ? "/health" : "/metrics", "", "");
        us[n] = kt__now_us() - begin_us;
        assert_int_equal(r->status, 200);
        free(r);
    }
    assert_true(n > 1);
    qsort(us, (size_t)n, sizeof *us, by_value);
    print_message("%d answers during prefill: median %.1f ms, slowest %.1f ms\n", n,
                  (double)us[n / 2] / 1e3, (double)us[n - 1] / 1e3);
    assert_true(us[n / 2] < 500000);
    close(fd);
    free(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_peer_over_tcp),
        cmocka_unit_test(test_all_places_taken),
        cmocka_unit_test(test_one_user_on_the_socket),
        cmocka_unit_test(test_many_slow_ones),
        cmocka_unit_test(test_line_without_end),
        cmocka_unit_test(test_pages_of_others),
        cmocka_unit_test(test_deep_and_broken),
        cmocka_unit_test(test_names_like_paths),
        cmocka_unit_test(test_odd_ids),
        cmocka_unit_test(test_ids_of_others),
        cmocka_unit_test(test_answers_during_prefill),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
