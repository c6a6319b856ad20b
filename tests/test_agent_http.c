/* agent: tools of servers at a URL, good and bad. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/toolbox.h"
#include "base/clock.h"

static char dir[] = "/tmp/kentang-http-XXXXXX";
static pid_t server;
static int port;
static char notes[8192];

static void keep_note(void *user, const char *line) {
    (void)user;
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", line);
}

static char *in_dir(const char *name) {
    static char path[4][128];
    static int turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", dir, name);
    return out;
}

static int start_server(void **state) {
    (void)state;
    if (!mkdtemp(dir)) return -1;
    server = fork();
    if (server == 0) {
        execl("/usr/bin/python3", "python3", KT_SOURCE_DIR "/tests/mcp/evil_http.py",
              in_dir("port"), (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 500 && !port; i++) {
        FILE *in = fopen(in_dir("port"), "r");
        if (in && fscanf(in, "%d", &port) != 1) port = 0;
        if (in) fclose(in);
        usleep(20000);
    }
    return port ? 0 : -1;
}

static int stop_server(void **state) {
    char command[160];
    (void)state;
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static kt__toolbox *open_url(const char *url, const char *more) {
    kt__toolbox *box;
    kt_error err;
    FILE *out = fopen(in_dir("servers"), "w");
    int timeout_s = strstr(url, "hangs") ? 1 : strstr(url, "endless") ? 2 : 40;
    fprintf(out, "{\"mcpServers\":{\"web\":{\"url\":\"%s\",\"timeout_s\":%d%s}}}", url, timeout_s,
            more);
    fclose(out);
    notes[0] = '\0';
    const kt__toolbox_opts opts = {.servers_file = in_dir("servers"),
                                   .pins_file = in_dir("pins"),
                                   .repin = true,
                                   .note = keep_note,
                                   .max_result = 65536};
    if (kt__toolbox_open(&opts, &box, &err) != KT_OK) fail_msg("%s", err.message);
    return box;
}

static kt__toolbox *open_path(const char *how) {
    char url[128];
    snprintf(url, sizeof url, "http://localhost:%d/%s", port, how);
    return open_url(url, "");
}

static void expect_told(const char *how, const char *text, bool good, const char *words) {
    kt__toolbox *box = open_path(how);
    const kt__agent_tool *tool = kt__toolbox_find(box, "web__echo");
    kt__buf said;
    bool cancelled;
    if (!tool) fail_msg("%s: %s", how, notes);
    assert_int_equal(kt__toolbox_count(box), 1); /* the unsound one is left out */
    json_t *args = json_pack("{s:s}", "text", text);
    int64_t begin_us = kt__now_us();
    bool was_good = kt__toolbox_call(box, tool, args, &said, &cancelled);
    if (was_good != good || !strstr(said.data, words))
        fail_msg("%s: %d \"%.300s\"", how, was_good, said.data);
    assert_true(kt__now_us() - begin_us < 60000000);
    kt__buf_free(&said);
    json_decref(args);
    kt__toolbox_close(box);
}

static void expect_refused(const char *url, const char *note) {
    kt__toolbox *box = open_url(url, "");
    assert_int_equal(kt__toolbox_count(box), 0);
    if (!strstr(notes, note)) fail_msg("%s: %s", url, notes);
    kt__toolbox_close(box);
}

static void test_answers(void **state) {
    (void)state;
    expect_told("good", "hello", true, "hello");
    expect_told("old", "hello", true, "hello");
    expect_told("modern", "hello", true, "hello");
    expect_told("stream", "hello", true, "hello");
    expect_told("headers", "hello", true, "hello");
    expect_told("headers", "h\xc3\xa9llo", true, "=?base64?aMOpbGxv?=");
    expect_told("headers", " padded", true, "=?base64?IHBhZGRlZA==?=");
}

static void test_bad_answers(void **state) {
    (void)state;
    expect_told("endless", "x", false, "did not answer in time");
    expect_told("huge", "x", false, "web");
    expect_told("dies", "x", false, "web");
}

static void test_bad_starts(void **state) {
    (void)state;
    static const struct {
        const char *path, *note;
    } rows[] = {{"redirect", "leads elsewhere (307)"},
                {"broken", "HTTP 500"},
                {"hangs", "did not answer in time"},
                {"nothing", "no answer"}};
    char url[128];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", port, rows[i].path);
        expect_refused(url, rows[i].note);
    }
    assert_int_equal(access(in_dir("port.got"), F_OK), -1); /* nothing was followed */
}

/* Only https, or http to this machine; and what a name resolves to must be public. */
static void test_addresses(void **state) {
    (void)state;
    char url[128];
    expect_refused("http://example.com/mcp", "must be https");
    expect_refused("file:///etc/passwd", "must be https");
    expect_refused("ftp://localhost/", "must be https");
    expect_refused("nonsense", "must be https");
    snprintf(url, sizeof url, "https://localhost:%d/good", port);
    expect_refused(url, "not public");
    snprintf(url, sizeof url, "https://127.0.0.1:%d/good", port);
    expect_refused(url, "not public");
    expect_refused("https://[::1]:9/", "not public");
    expect_refused("https://[::ffff:10.0.0.1]:9/", "not public");
    expect_refused("https://169.254.169.254/latest", "not public");
    expect_refused("https://0x7f000001:9/", "not public");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_bad_answers),
        cmocka_unit_test(test_bad_starts),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
