/* serve: HTTP: who and what is refused: attacks, keys, addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "limits.request_s=1", "limits.body=64K", "limits.connections_per_peer=50",
               "limits.output=4096", NULL)

/* ---- attacks ---- */

static void test_foreign_pages(void **state) {
    (void)state;
    static const struct {
        const char *headers;
        int status;
    } cases[] = {
        {JSON_TYPE "Origin: http://evil.example\r\n", 403},
        {JSON_TYPE "Origin: null\r\n", 403},
        {JSON_TYPE "Host: evil.example\r\n", 403},
        {JSON_TYPE "Host: localhost.evil.example:8000\r\n", 403},
        {"Content-Type: text/plain\r\n", 415},
        {"Content-Type: multipart/form-data\r\n", 415},
        {"Origin: http://localhost:3000\r\n", 415},
        {"Sec-Fetch-Site: cross-site\r\n", 415},
        {"Content-Type: application/x-www-form-urlencoded\r\nsec-fetch-mode: no-cors\r\n", 415},
        {"Content-Type: application/x-www-form-urlencoded\r\nUser-Agent: Mozilla/5.0\r\n", 415},
        {"Referer: http://evil.example/\r\n", 415},
        {"Content-Type: application/x-www-form-urlencoded\r\nUser-Agent: curl/8.5.0\r\n", 200},
        {"", 200}, /* no browser is behind it */
        {JSON_TYPE "Origin: http://localhost:3000\r\n", 200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = ask(&w, "POST", "/v1/chat/completions", cases[i].headers,
                       "{" STORY ",\"max_tokens\":1}");
        if (r->status != cases[i].status) fail_msg("%s: %s", cases[i].headers, r->text);
        assert_null(strstr(r->text, "Access-Control"));
        free(r);
    }
    reply *r = ask(&w, "OPTIONS", "/v1/chat/completions",
                   "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n", "");
    assert_int_equal(r->status, 200); /* and no origin in it, so that the browser sends nothing */
    assert_null(strstr(r->text, "Access-Control"));
    free(r);
}

static void test_sizes(void **state) {
    (void)state;
    char *big = malloc(300000);
    memset(big, 'a', 299999);
    big[299999] = '\0';
    reply *r = post(&w, "/v1/completions", big);
    assert_int_equal(r->status, 413);
    free(r);
    char *head = malloc(200000);
    int n = snprintf(head, 200000,
                     "GET /health HTTP/1.1\r\nHost: localhost\r\nX: %.150000s\r\n\r\n", big);
    r = ask_raw(&w, head, (size_t)n);
    assert_true(r->status == 431 || r->status == 413 || r->status == 0);
    free(r);
    n = snprintf(head, 200000,
                 "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                 "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n%.131072s\r\n"
                 "0\r\n\r\n",
                 big);
    r = ask_raw(&w, head, (size_t)n); /* no length to refuse at once */
    assert_int_equal(r->status, 413);
    free(r);
    memset(big, '[', 10000);
    big[10000] = '\0';
    r = post(&w, "/v1/completions", big);
    assert_int_equal(r->status, 413);
    assert_non_null(strstr(r->text, "nests"));
    free(r);
    free(head);
    free(big);
}

/* Headers or bodies that never end are cut off, whatever trickles in. */
static void test_slow_loris(void **state) {
    (void)state;
    static const char *const begins[] = {
        "GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: ",
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
        "Content-Length: 5000\r\n\r\n{\"prompt\":\""};
    for (int k = 0; k < 2; k++) {
        int fd = connect_http(&w);
        int64_t begin_us = kt__now_us();
        bool open = send_all(fd, begins[k], strlen(begins[k]));
        char text[1024];
        size_t len = 0;
        while (open && kt__now_us() - begin_us < 8000000) {
            open = send_all(fd, "a", 1) && receive(fd, text, sizeof text, &len, 100);
        }
        assert_false(open);
        close(fd);
    }
    reply *r = ask(&w, "GET", "/health", "", "");
    assert_int_equal(r->status, 200);
    free(r);
}

static void test_many_connections(void **state) {
    (void)state;
    int fds[80];
    for (int i = 0; i < 80; i++) fds[i] = connect_http(&w);
    usleep(100000);
    for (int i = 0; i < 80; i++) {
        if (fds[i] >= 0) close(fds[i]);
    }
    for (int i = 0;; i++) {
        reply *r = ask(&w, "GET", "/health", "", "");
        int status = r->status;
        free(r);
        if (status == 200) break;
        if (i > 50) fail_msg("nobody answers after a flood");
        usleep(100000);
    }
}

static void test_garbage(void **state) {
    (void)state;
    static const char *const texts[] = {
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        "GET\r\n\r\n",
        "\r\n\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\nHost: localhost\r\n\r\n",
        ("POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\nHost: "
         "localhost\r\n\r\n"),
        "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        reply *r = ask_raw(&w, texts[i], strlen(texts[i]));
        if (r->status == 200 || strstr(r->text, "root:")) fail_msg("%s: %s", texts[i], r->text);
        free(r);
    }
}

/* ---- keys, refusals, listening ---- */

static void test_keys(void **state) {
    kt_error err;
    world mine = {0};
    char path[] = "/tmp/kentang-keys-XXXXXX", setting[96];
    int fd = mkstemp(path);
    (void)state;
    assert_true(write(fd, "ana:0123456789abcdef\n", 21) == 21);
    close(fd);
    snprintf(setting, sizeof setting, "http.keys=%s", path);
    const char *const settings[] = {setting, NULL};
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    static const struct {
        const char *path, *headers;
        int status;
    } cases[] = {
        {"/health", "", 200},
        {"/ready", "", 200},
        {"/metrics", "", 401},
        {"/v1/models", "", 401},
        {"/nothing", "", 401},
        {"/v1/models", "Authorization: Bearer 0123456789abcdeX\r\n", 401},
        {"/v1/models", "Authorization: Bearer 0123456789abcdef\r\n", 200},
        {"/v1/models", "X-Api-Key: 0123456789abcdef\r\n", 200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = ask(&mine, "GET", cases[i].path, cases[i].headers, "");
        if (r->status != cases[i].status) fail_msg("%s %s", cases[i].path, r->text);
        free(r);
    }
    world_close(&mine);
    unlink(path);
}

static void test_beyond_loopback_needs_keys(void **state) {
    kt_error err;
    world mine = {0};
    static const char *const open[] = {"http.listen=0.0.0.0:0", "socket.path=none", NULL};
    static const char *const meant[] = {"http.listen=0.0.0.0:0", "socket.path=none",
                                        "http.no_keys=true", NULL};
    (void)state;
    assert_int_equal(world_open(&mine, &err, open), KT_E_ARG);
    assert_non_null(strstr(err.message, "API keys"));
    assert_int_equal(world_open(&mine, &err, meant), KT_OK);
    world_close(&mine);
}

/* The status of GET /health at [::1] with this Host; 0: no answer. */
static int ask_six(int port, const char *host) {
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    char text[4096] = "", request[256];
    int status = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin6_addr = in6addr_loopback;
    int n = snprintf(request, sizeof request,
                     "GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
        send_all(fd, request, (size_t)n))
        receive_until(fd, text, sizeof text, NULL);
    if (fd >= 0) close(fd);
    return sscanf(text, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

/* [::1] is loopback: no keys are asked for, and its names pass; [::] is everybody. */
static void test_six(void **state) {
    kt_error err;
    world mine = {0};
    static const char *const here[] = {"http.listen=[::1]:0", "socket.path=none", NULL};
    static const char *const open[] = {"http.listen=[::]:0", "socket.path=none", NULL};
    static const char *const bad[] = {"http.listen=::1:0", "socket.path=none", NULL};
    static const struct {
        const char *host;
        int status;
    } cases[] = {{"[::1]", 200}, {"[::1]:8000", 200}, {"localhost", 200}, {"127.0.0.1:1", 200},
                 {"::1", 403},   {"[::2]:8000", 403}, {"[::1", 403},      {"evil.example", 403}};
    (void)state;
    assert_int_equal(world_open(&mine, &err, bad), KT_E_ARG);
    assert_non_null(strstr(err.message, "[ADDRESS]:PORT"));
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    bool has_six = probe >= 0 && bind(probe, (struct sockaddr *)&a, sizeof a) == 0;
    if (probe >= 0) close(probe);
    if (!has_six) skip();
    assert_int_equal(world_open(&mine, &err, open), KT_E_ARG);
    assert_non_null(strstr(err.message, "API keys"));
    if (world_open(&mine, &err, here) != KT_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = ask_six(mine.port, cases[i].host);
        if (status != cases[i].status) fail_msg("Host: %s: %d", cases[i].host, status);
    }
    world_close(&mine);
}

/* ---- what a refusal says ---- */

static void expect_message(const char *form, const char *message) {
    char body[800];
    snprintf(body, sizeof body, "{" STORY ",\"max_tokens\":1,%s}", form);
    reply *r = post(&w, "/v1/chat/completions", body);
    json_t *v = body_of(r);
    if (strcmp(text_at(v, "error.message"), message) != 0) fail_msg("%s", r->text);
    json_decref(v);
    free(r);
}

/* The place once, then what is wrong there; and what is to be done. */
static void test_messages(void **state) {
    world none = {0};
    kt_error err;
    (void)state;
    expect_message("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\","
                   "\"schema\":{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}}}",
                   "response_format.json_schema.schema/pattern: a back-reference is not supported "
                   "(byte 5 of the pattern)");
    expect_message("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\","
                   "\"schema\":{\"anyOf\":[7]}}}",
                   "response_format.json_schema.schema/anyOf/0: expected a schema");
    reply *r = ask(&w, "POST", "/v1/chat/completions", JSON_TYPE "Origin: http://evil.example\r\n",
                   "{" STORY "}");
    assert_non_null(strstr(r->text, "http.cors"));
    free(r);
    const char *const settings[] = {"adapters=none=/tmp/x.gguf", NULL};
    assert_int_equal(world_open(&none, &err, settings), KT_E_ARG);
    assert_non_null(strstr(err.message, "\"none\" is reserved"));
    unlink(none.socket);
    rmdir(none.dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreign_pages), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_slow_loris),    cmocka_unit_test(test_many_connections),
        cmocka_unit_test(test_garbage),       cmocka_unit_test(test_messages),
        cmocka_unit_test(test_keys),          cmocka_unit_test(test_beyond_loopback_needs_keys),
        cmocka_unit_test(test_six),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
