/* serve: requests that wait: their streams say that they live, and no program of a machine waits for
 * all that another has asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "parallel=1", "http.ping_s=1", NULL)

enum { N_LONG = 60, LONG_TOKENS = 900 }; /* a fast processor is busy with them for seconds */

static void ask_long(int fd, int i, bool stream) {
    char line[128];
    int len = snprintf(line, sizeof line,
                       "{\"id\":\"a%d\",\"prompt\":\"x%d\",\"ignore_eos\":true,\"stream\":%s,"
                       "\"max_tokens\":%d}\n",
                       i, i, stream ? "true" : "false", LONG_TOKENS);
    assert_true(send_all(fd, line, (size_t)len));
}

/* A connection of the socket with N_LONG long answers to come, the first of which has begun. */
static int begin_crowd(char *text, size_t size) {
    int fd = connect_socket(&w);
    ask_long(fd, 0, true);
    assert_true(receive_until(fd, text, size, "\"token\""));
    for (int i = 1; i < N_LONG; i++) ask_long(fd, i, false);
    return fd;
}

static int count_of(const char *text, const char *word) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) n++;
    return n;
}

static int begin_post(const char *path, const char *body) {
    char text[1024];
    int len = snprintf(text, sizeof text,
                       "POST %s HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                       "Content-Length: %zu\r\n\r\n%s",
                       path, strlen(body), body);
    int fd = connect_http(&w);
    assert_true(fd >= 0 && send_all(fd, text, (size_t)len));
    return fd;
}

/* The streams wait behind answers that go before them. */
static void test_pings(void **state) {
    (void)state;
    static char crowd[1 << 20];
    char text[8192] = "", message[8192] = "";
    crowd[0] = '\0';
    int busy = begin_crowd(crowd, sizeof crowd);
    int fd = begin_post("/v1/completions",
                        "{\"prompt\":\"y\",\"max_tokens\":2,\"stream\":true,\"priority\":-9}");
    assert_true(receive_until(fd, text, sizeof text, "\r\n\r\n"));
    int other = begin_post("/v1/messages", "{" STORY ",\"max_tokens\":2,\"stream\":true}");
    assert_true(receive_until(fd, text, sizeof text, "\r\n:\n\n"));
    assert_null(strstr(text, "data: "));
    close(busy);
    assert_true(receive_until(fd, text, sizeof text, "data: [DONE]"));
    assert_true(receive_until(other, message, sizeof message, "event: message_stop"));
    close(fd);
    close(other);
}

/* Over the socket and over HTTP, a second connection is served beside the first one's crowd. */
static void test_connections_share(void **state) {
    (void)state;
    static char crowd[1 << 20];
    for (int http = 0; http < 2; http++) {
        crowd[0] = '\0';
        int busy = begin_crowd(crowd, sizeof crowd);
        if (http) {
            reply *r = post(&w, "/v1/completions", "{\"prompt\":\"y\",\"max_tokens\":3}");
            assert_int_equal(r->status, 200);
            free(r);
        } else {
            char *line = ask_line(&w, "{\"id\":\"b\",\"prompt\":\"y\",\"max_tokens\":3}");
            assert_non_null(strstr(line, "\"usage\""));
            free(line);
        }
        for (size_t len = strlen(crowd), before = len + 1; before != len;) {
            before = len; /* all that has come until now */
            (void)receive(busy, crowd, sizeof crowd, &len, 0);
        }
        if (count_of(crowd, "\"done\":true") > N_LONG / 2)
            fail_msg("the second connection waited for %d answers",
                     count_of(crowd, "\"done\":true"));
        close(busy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_share),
        cmocka_unit_test(test_pings),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
