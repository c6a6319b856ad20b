/* serve: the Unix socket: one prompt as it stands, many requests at once, cancel, errors, stuck and
 * vanished clients, the socket file. */
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_world.h"

static world w;
WORLD_OF_GROUP(w, "strict_names=true", "limits.requests_per_connection=40", "limits.body=64K",
               "limits.stall_s=2", "limits.output=4096", "limits.connections_per_peer=30", NULL)

/* The n-th line of text as JSON. */
static json_t *line_of(const char *text, int n) {
    while (n-- > 0 && text) text = (text = strchr(text, '\n')) ? text + 1 : NULL;
    if (!text || !*text) return NULL;
    return json_loadb(text, strcspn(text, "\n"), 0, NULL);
}

static const char *text_at(const json_t *v, const char *key) {
    const char *s = json_string_value(json_object_get(v, key));
    return s ? s : "";
}

static json_t *last_line(const char *text) {
    json_t *found = NULL, *v;
    for (int i = 0; (v = line_of(text, i)) != NULL; i++) {
        json_decref(found);
        found = v;
    }
    return found;
}

/* Waits until nothing runs. */
static void quiet(void) {
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&w.server->shared.lock);
        size_t n = w.server->shared.n_jobs;
        pthread_mutex_unlock(&w.server->shared.lock);
        if (!n) return;
        usleep(10000);
    }
    fail_msg("requests are left");
}

static void test_as_it_stands(void **state) {
    (void)state;
    char *text = ask_line(&w, "{\"prompt\":\"...\",\"stream\":true,\"max_tokens\":6,"
                              "\"ignore_eos\":true}");
    int n_tokens = 0;
    for (int i = 0;; i++) {
        json_t *v = line_of(text, i);
        if (!v) fail_msg("%s", text);
        bool done = json_is_true(json_object_get(v, "done"));
        if (!done) n_tokens += json_is_integer(json_object_get(v, "token"));
        if (done) {
            assert_string_equal(text_at(v, "finish_reason"), "length");
            assert_int_equal(json_integer_value(
                                 json_object_get(json_object_get(v, "usage"), "completion_tokens")),
                             6);
            assert_true(json_object_get(json_object_get(v, "timings"), "total_ms") != NULL);
        }
        json_decref(v);
        if (done) break;
    }
    assert_int_equal(n_tokens, 6);
    free(text);
}

static void test_stream_and_whole_agree(void **state) {
    (void)state;
    char streamed[4096] = "";
    char *text = ask_line(&w, "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]"
                              ",\"stream\":true,\"seed\":5,\"max_tokens\":60}");
    json_t *v;
    for (int i = 0; (v = line_of(text, i)) != NULL; i++) {
        if (!json_object_get(v, "done")) strcat(streamed, text_at(v, "text"));
        json_decref(v);
    }
    free(text);
    text = ask_line(&w, "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]"
                        ",\"seed\":5,\"max_tokens\":60}");
    v = line_of(text, 0);
    assert_string_equal(text_at(v, "text"), streamed);
    assert_true(strlen(streamed) > 20);
    json_decref(v);
    free(text);
}

static void test_many_at_once(void **state) {
    (void)state;
    char line[256], *text = calloc(1, 1 << 20);
    int fd = connect_socket(&w), seen[20] = {0};
    size_t len = 0;
    for (int i = 0; i < 20; i++) {
        snprintf(line, sizeof line,
                 "{\"id\":\"r%d\",\"prompt\":\"a %d\",\"max_tokens\":%d,"
                 "\"stream\":%s}\n",
                 i, i, 3 + i, i % 2 ? "true" : "false");
        assert_true(send_all(fd, line, strlen(line)));
    }
    assert_true(send_all(fd, "{\"op\":\"ping\",\"id\":\"p\"}\n", 24));
    shutdown(fd, SHUT_WR); /* as `echo ... | nc -U` does: answers still come */
    while (receive(fd, text, 1 << 20, &len, 10000) && len < (1 << 20) - 1) {
    }
    json_t *v;
    for (int i = 0; (v = line_of(text, i)) != NULL; i++) {
        int n = -1;
        sscanf(text_at(v, "id"), "r%d", &n);
        if (n >= 0 && json_is_true(json_object_get(v, "done"))) seen[n]++;
        json_decref(v);
    }
    for (int i = 0; i < 20; i++) assert_int_equal(seen[i], 1);
    assert_non_null(strstr(text, "\"pong\":true"));
    close(fd);
    free(text);
}

static void test_cancel(void **state) {
    (void)state;
    static const char cancel[] = "{\"op\":\"cancel\",\"id\":\"long\"}\n";
    char *text = calloc(1, 1 << 20);
    int fd = begin_stream(&w, "long", 900, text, 1 << 20);
    assert_true(fd >= 0);
    assert_true(send_all(fd, cancel, sizeof cancel - 1));
    assert_true(receive_until(fd, text, 1 << 20, "\"done\":true"));
    json_t *v = last_line(text);
    assert_string_equal(text_at(v, "finish_reason"), "cancelled");
    json_decref(v);
    text[0] = '\0';
    assert_true(send_all(fd, cancel, sizeof cancel - 1));
    assert_true(receive_until(fd, text, 1 << 20, "no running request"));
    close(fd);
    free(text);
}

static void test_errors(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"nonsense", "not JSON"},
        {"[1]", "a request is a JSON object"},
        {"{}", "\\\"prompt\\\" or \\\"messages\\\""},
        {"{\"op\":\"dance\"}", "is not known"},
        {"{\"id\":7,\"prompt\":\"x\"}", "expected a text of 1"},
        {"{\"id\":\"\",\"prompt\":\"x\"}", "expected a text of 1"},
        {"{\"prompt\":\"x\",\"temperature\":\"hot\"}", "temperature"},
        {"{\"prompt\":\"x\",\"tools\":[{}]}", "KT_E_UNSUPPORTED"},
        {"{\"prompt\":\"x\",\"model\":\"../../etc/passwd\"}", "does not exist here"},
        {"{\"prompt\":\"x\",\"n\":17}", "at most 16"},
        {"{\"prompt\":[999999999]}", "expected 0 to"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "nests"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = ask_line(&w, cases[i].line);
        if (!strstr(text, cases[i].says) || !strstr(text, "\"error\""))
            fail_msg("%s: %s", cases[i].line, text);
        json_t *v = line_of(text, 0);
        assert_non_null(v);
        json_decref(v);
        free(text);
    }
}

static void test_giant_line(void **state) {
    (void)state;
    char *text = calloc(1, 1 << 20), *big = malloc(200000);
    int fd = connect_socket(&w);
    memset(big, 'x', 200000);
    assert_true(send_all(fd, big, 200000));
    assert_true(send_all(fd, "\n{\"op\":\"ping\"}\n", 15));
    assert_true(receive_until(fd, text, 1 << 20, "pong"));
    assert_non_null(strstr(text, "KT_E_LIMIT"));
    close(fd);
    free(big);
    free(text);
}

static void test_same_id_twice(void **state) {
    (void)state;
    static const char twice[] =
        "{\"id\":\"a\",\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":400}\n"
        "{\"id\":\"a\",\"prompt\":\"y\"}\n";
    char *text = calloc(1, 1 << 20);
    int fd = connect_socket(&w);
    assert_true(send_all(fd, twice, sizeof twice - 1));
    assert_true(receive_until(fd, text, 1 << 20, "is running on this connection"));
    close(fd);
    quiet();
    free(text);
}

/* A client that goes away frees what it asked for. */
static void test_disconnect(void **state) {
    (void)state;
    static const char ask[] =
        "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":1000,\"stream\":true}\n";
    for (int i = 0; i < 10; i++) {
        int fd = connect_socket(&w);
        assert_true(send_all(fd, ask, sizeof ask - 1));
        if (i % 2) usleep(20000);
        close(fd);
    }
    int64_t begin_us = kt__now_us();
    quiet();
    assert_true(kt__now_us() - begin_us < 3000000);
}

/* One that does not read holds up nobody, costs bounded memory, and is let go. */
static void test_stuck_client(void **state) {
    (void)state;
    static const char ask[] = "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":900,"
                              "\"stream\":true,\"n_probs\":20}\n";
    int fd = connect_socket(&w), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 5; i++) assert_true(send_all(fd, ask, sizeof ask - 1));
    usleep(100000);
    char *text = ask_line(&w, "{\"prompt\":\"y\",\"max_tokens\":5}");
    assert_non_null(strstr(text, "\"done\":true"));
    free(text);
    quiet(); /* stall_s is 2 */
    close(fd);
}

static void test_too_many_requests(void **state) {
    (void)state;
    static const char ask[] = "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":500}\n";
    char *text = calloc(1, 1 << 20);
    int fd = connect_socket(&w);
    for (int i = 0; i < 60; i++) assert_true(send_all(fd, ask, sizeof ask - 1));
    assert_true(receive_until(fd, text, 1 << 20, "KT_E_BUSY"));
    assert_non_null(strstr(text, "\"retry_ms\":"));
    close(fd);
    quiet();
    free(text);
}

static void test_too_many_connections(void **state) {
    (void)state;
    int fds[60];
    char text[4096] = "";
    for (int i = 0; i < 60; i++) fds[i] = connect_socket(&w);
    assert_true(receive_until(fds[59], text, sizeof text, "too many connections"));
    for (int i = 0; i < 60; i++) close(fds[i]);
    usleep(200000);
    char *answer = ask_line(&w, "{\"prompt\":\"x\",\"max_tokens\":2}");
    assert_non_null(strstr(answer, "\"done\":true"));
    free(answer);
}

static void test_calls(void **state) {
    (void)state;
    char *text = ask_line(&w, "{\"op\":\"tokenize\",\"id\":\"t\",\"text\":\"hello\"}");
    assert_non_null(strstr(text, "\"tokens\":["));
    free(text);
    text = ask_line(&w, "{\"op\":\"detokenize\",\"tokens\":[75,767]}");
    assert_non_null(strstr(text, "\"content\":\""));
    free(text);
    int fd = connect_socket(&w);
    char answer[8192] = "";
    assert_true(send_all(fd, "{\"op\":\"stats\"}\n", 15));
    assert_true(receive_until(fd, answer, sizeof answer, "\"requests\":["));
    json_t *v = line_of(answer, 0);
    assert_non_null(json_object_get(json_object_get(v, "stats"), "models"));
    json_decref(v);
    close(fd);
}

/* The last object of a request, of every op, says so and whose it is. */
static void test_done_and_id(void **state) {
    (void)state;
    static const char *const lines[] = {"{\"op\":\"ping\"}", "{\"op\":\"stats\"}",
                                        "{\"op\":\"tokenize\",\"text\":\"hello\"}",
                                        "{\"op\":\"detokenize\",\"tokens\":[75]}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char named[256];
        char *text = ask_line(&w, lines[i]);
        json_t *v = last_line(text);
        if (!json_is_true(json_object_get(v, "done")) || strncmp(text_at(v, "id"), "req-", 4) != 0)
            fail_msg("%s", text);
        json_decref(v);
        free(text);
        snprintf(named, sizeof named, "{\"id\":\"mine\",%s", lines[i] + 1);
        text = ask_line(&w, named);
        v = last_line(text);
        if (!json_is_true(json_object_get(v, "done")) || strcmp(text_at(v, "id"), "mine") != 0)
            fail_msg("%s", text);
        json_decref(v);
        free(text);
    }
}

/* As `printf` and `nc -N` send it. */
static void test_last_line_without_newline(void **state) {
    (void)state;
    char text[4096] = "";
    int fd = connect_socket(&w);
    assert_true(send_all(fd, "{\"op\":\"ping\",\"id\":\"p\"}", 22));
    usleep(50000);
    shutdown(fd, SHUT_WR);
    assert_true(receive_until(fd, text, sizeof text, "pong"));
    close(fd);
}

/* Trying again would not help: nothing suggests it. */
static void test_deadline_is_no_invitation(void **state) {
    (void)state;
    free(ask_line(&w, "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":50}"));
    char *text = ask_line(&w, "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":1000,"
                              "\"deadline_ms\":1}");
    if (!strstr(text, "KT_E_DEADLINE") || strstr(text, "retry_ms")) fail_msg("%s", text);
    free(text);
}

/* ---- the socket file ---- */

static void test_socket_file(void **state) {
    struct stat st;
    kt_error err;
    world other = {0};
    (void)state;
    assert_int_equal(stat(w.socket, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    /* served: refused, and the one that serves goes on */
    snprintf(other.dir, sizeof other.dir, "%s", w.dir);
    snprintf(other.socket, sizeof other.socket, "%s", w.socket);
    assert_int_equal(world_open(&other, &err, NULL), KT_E_STATE);
    assert_non_null(strstr(err.message, "another kentang serves"));
    char *text = ask_line(&w, "{\"prompt\":\"x\",\"max_tokens\":2}");
    assert_non_null(strstr(text, "\"done\":true"));
    free(text);
}

static void test_stale_socket_and_others(void **state) {
    kt_error err;
    world mine = {0};
    struct stat st;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)state;
    world_dir(&mine);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", mine.socket);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    close(fd); /* the file stays: what a crash leaves */
    mode_t old = umask(0);
    static const char *const group[] = {"socket.mode=0660", NULL};
    if (world_open(&mine, &err, group) != KT_OK) fail_msg("%s", err.message);
    umask(old);
    assert_int_equal(stat(mine.socket, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    char dir[64], path[96];
    snprintf(dir, sizeof dir, "%s", mine.dir);
    snprintf(path, sizeof path, "%s", mine.socket);
    world_close(&mine);
    assert_int_not_equal(stat(path, &st), 0);
    /* no socket at all: never replaced */
    world_dir(&mine);
    FILE *f = fopen(mine.socket, "w");
    fputs("precious", f);
    fclose(f);
    assert_int_equal(world_open(&mine, &err, NULL), KT_E_IO);
    assert_int_equal(stat(mine.socket, &st), 0);
    assert_int_equal(st.st_size, 8);
    unlink(mine.socket);
    rmdir(mine.dir);
}

/* Stopping lets answers end, refuses new ones, and leaves nothing behind. */
static void test_drain(void **state) {
    kt_error err;
    world mine = {0};
    static const char ask[] = "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":300}\n";
    char *text = calloc(1, 1 << 20);
    (void)state;
    if (world_open(&mine, &err, NULL) != KT_OK) fail_msg("%s", err.message);
    int fd = connect_socket(&mine);
    assert_true(send_all(fd, ask, sizeof ask - 1));
    for (int i = 0; i < 500; i++) { /* until it runs */
        kt_engine_stats st;
        kt__served_get_stats(kt__models_at(mine.server->shared.models, 0), &st);
        if (st.running) break;
        usleep(2000);
    }
    world_close(&mine);
    receive_until(fd, text, 1 << 20, "\"done\":true");
    json_t *v = last_line(text);
    assert_string_equal(text_at(v, "finish_reason"), "length");
    json_decref(v);
    close(fd);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_it_stands),
        cmocka_unit_test(test_stream_and_whole_agree),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_giant_line),
        cmocka_unit_test(test_same_id_twice),
        cmocka_unit_test(test_disconnect),
        cmocka_unit_test(test_stuck_client),
        cmocka_unit_test(test_too_many_requests),
        cmocka_unit_test(test_too_many_connections),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_done_and_id),
        cmocka_unit_test(test_last_line_without_newline),
        cmocka_unit_test(test_deadline_is_no_invitation),
        cmocka_unit_test(test_socket_file),
        cmocka_unit_test(test_stale_socket_and_others),
        cmocka_unit_test(test_drain),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
