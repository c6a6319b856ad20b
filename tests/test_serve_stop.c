/* serve: starting in vain and stopping: what is said, how long it takes, what is left behind. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "jobs/job.h"
#include "serve_reply.h"
#include "transports/unix.h"

static void open_world(world *w, const char *const *settings) {
    kt_error err;
    if (world_open(w, &err, settings) != KT_OK) fail_msg("%s", err.message);
}

static void *stop_server(void *server) {
    kt__server_stop(server);
    return NULL;
}

/* A request that will not end: its reader has stopped reading. */
static int begin_stuck_stream(const world *w) {
    static const char line[] = "{\"id\":\"stuck\",\"prompt\":\"x\",\"ignore_eos\":true,"
                               "\"max_tokens\":1000,\"n_probs\":20,\"stream\":true}\n";
    static char text[65536];
    text[0] = '\0';
    int fd = connect_socket(w);
    assert_true(fd >= 0 && send_all(fd, line, sizeof line - 1));
    assert_true(receive_until(fd, text, sizeof text, "\"token\""));
    return fd;
}

static const char *const stuck_settings[] = {"limits.output=4096", "drain_s=60", NULL};

/* While answers may end, the next requests hear why there are no more. */
static void test_new_requests_hear_of_the_stop(void **state) {
    world mine = {0};
    pthread_t thread;
    char text[4096] = "";
    (void)state;
    open_world(&mine, stuck_settings);
    int stuck = begin_stuck_stream(&mine), fd = connect_socket(&mine), web = connect_http(&mine);
    assert_true(send_all(fd, "{\"op\":\"ping\"}\n", 14));
    assert_true(receive_until(fd, text, sizeof text, "pong"));
    static const char health[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_true(send_all(web, health, sizeof health - 1));
    text[0] = '\0';
    assert_true(receive_until(web, text, sizeof text, "\"ok\""));
    assert_int_equal(pthread_create(&thread, NULL, stop_server, mine.server), 0);
    while (!atomic_load(&mine.server->shared.stopping)) usleep(1000);
    text[0] = '\0';
    assert_true(send_all(fd, "{\"prompt\":\"x\",\"max_tokens\":1}\n", 31));
    assert_true(receive_until(fd, text, sizeof text, "\"done\":true"));
    assert_true(receive_until(fd, text, sizeof text, "\n"));
    if (!strstr(text, "being stopped") || !strstr(text, "server_error")) fail_msg("%s", text);
    static const char ask[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                              "Content-Length: 29\r\n\r\n{\"prompt\":\"O\",\"max_tokens\":2}";
    text[0] = '\0';
    assert_true(send_all(web, ask, sizeof ask - 1));
    assert_true(receive_until(web, text, sizeof text, "being stopped"));
    if (!strstr(text, "HTTP/1.1 503") || !strstr(text, "server_error")) fail_msg("%s", text);
    int late = connect_http(&mine); /* who watches over the server still hears of it */
    text[0] = '\0';
    assert_true(send_all(late, health, sizeof health - 1));
    assert_true(receive_until(late, text, sizeof text, "\"draining\""));
    close(late);
    kt__server_hurry(mine.server);
    pthread_join(thread, NULL);
    close(stuck);
    close(fd);
    close(web);
    rmdir(mine.dir);
}

/* A second signal cuts short what drain_s would wait for. */
static void test_hurry(void **state) {
    world mine = {0};
    pthread_t thread;
    (void)state;
    open_world(&mine, stuck_settings);
    int stuck = begin_stuck_stream(&mine);
    assert_int_equal(pthread_create(&thread, NULL, stop_server, mine.server), 0);
    usleep(300000);
    assert_int_equal(kt__jobs_count(&mine.server->shared), 1); /* it waits */
    int64_t begin_us = kt__now_us();
    kt__server_hurry(mine.server);
    pthread_join(thread, NULL);
    assert_true(kt__now_us() - begin_us < 8000000);
    close(stuck);
    rmdir(mine.dir);
}

/* Requests of many prompts that were taken are finished, not left half done. */
static void test_prompts_to_come_are_answered(void **state) {
    world mine = {0};
    pthread_t thread;
    char text[65536] = "";
    (void)state;
    static const char *const settings[] = {"parallel=1", NULL};
    open_world(&mine, settings);
    char body[4096] = "{\"prompt\":[", head[512];
    for (int i = 0; i < 30; i++) strcat(body, i ? ",\"y\"" : "\"y\"");
    strcat(body, "],\"max_tokens\":40,\"ignore_eos\":true}");
    int fd = connect_http(&mine);
    int n = snprintf(head, sizeof head,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                     "Content-Length: %zu\r\n\r\n",
                     strlen(body));
    assert_true(send_all(fd, head, (size_t)n) && send_all(fd, body, strlen(body)));
    for (int i = 0; i < 2000; i++) {
        kt_engine_stats st;
        kt__served_get_stats(kt__models_at(mine.server->shared.models, 0), &st);
        if (st.running) break;
        usleep(1000);
    }
    assert_int_equal(pthread_create(&thread, NULL, stop_server, mine.server), 0);
    (void)receive_until(fd, text, sizeof text, "\"completion_tokens\":1200");
    if (!strstr(text, "\"completion_tokens\":1200")) fail_msg("%s", text);
    pthread_join(thread, NULL);
    close(fd);
    rmdir(mine.dir);
}

enum { N_CALLERS = 4, N_STOPS = 4 };

typedef struct caller {
    const world *world;
    int n_answered, n_lost;
} caller;

/* Connects and asks without a pause until nobody listens. */
static void *call_until_refused(void *user) {
    static const char health[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    caller *c = user;
    for (int fd; (fd = connect_http(c->world)) >= 0; close(fd)) {
        char text[4096] = "";
        bool answered = send_all(fd, health, sizeof health - 1) &&
                        receive_until(fd, text, sizeof text, "\"status\"");
        c->n_answered += answered;
        c->n_lost += !answered;
    }
    return NULL;
}

/* Who was let connect is answered: the server's end resets no connection. */
static void test_no_connection_is_reset(void **state) {
    int n_answered = 0, n_lost = 0;
    (void)state;
    for (int i = 0; i < N_STOPS; i++) {
        world mine = {0};
        pthread_t threads[N_CALLERS];
        caller callers[N_CALLERS] = {{0}};
        open_world(&mine, NULL);
        for (int j = 0; j < N_CALLERS; j++) {
            callers[j].world = &mine;
            assert_int_equal(pthread_create(&threads[j], NULL, call_until_refused, &callers[j]), 0);
        }
        usleep(20000);
        kt__server_stop(mine.server);
        for (int j = 0; j < N_CALLERS; j++) {
            pthread_join(threads[j], NULL);
            n_answered += callers[j].n_answered;
            n_lost += callers[j].n_lost;
        }
        rmdir(mine.dir);
    }
    assert_true(n_answered > N_STOPS);
    if (n_lost) fail_msg("%d of %d connections were lost", n_lost, n_lost + n_answered);
}

static void test_nothing_is_left_behind(void **state) {
    world mine = {0};
    struct stat st;
    char lock[128], dir[64];
    (void)state;
    open_world(&mine, NULL);
    snprintf(lock, sizeof lock, "%s.lock", mine.socket);
    snprintf(dir, sizeof dir, "%s", mine.dir);
    assert_int_equal(stat(lock, &st), 0);
    kt_error err;
    world other = mine; /* refused: the lock is the first one's, and stays */
    assert_int_equal(world_open(&other, &err, NULL), KT_E_STATE);
    assert_int_equal(stat(lock, &st), 0);
    kt__server_stop(mine.server);
    assert_int_not_equal(stat(lock, &st), 0);
    assert_int_equal(rmdir(dir), 0); /* empty */
}

/* A port that is taken is found before minutes are spent on loading, and the words fit. */
static void test_taken_port_is_found_first(void **state) {
    world first = {0}, second = {0};
    char path[] = "/tmp/kentang-model-XXXXXX", listen[64], model[96];
    int fd = mkstemp(path); /* no model at all */
    kt_error err;
    (void)state;
    close(fd);
    open_world(&first, NULL);
    snprintf(listen, sizeof listen, "http.listen=127.0.0.1:%d", first.port);
    snprintf(model, sizeof model, "model=%s", path);
    const char *const settings[] = {listen, model, "socket.path=none", NULL};
    assert_int_equal(world_open(&second, &err, settings), KT_E_IO);
    if (!strstr(err.message, "another program listens there")) fail_msg("%s", err.message);
    assert_string_equal(err.where, "");
    const char *const nowhere[] = {"http.listen=192.0.2.1:8000", "http.no_keys=true",
                                   "socket.path=none", NULL};
    assert_int_equal(world_open(&second, &err, nowhere), KT_E_IO);
    if (!strstr(err.message, "no such address")) fail_msg("%s", err.message);
    rmdir(second.dir);
    world_close(&first);
    unlink(path);
}

static void *close_late(void *fd) {
    usleep(100000);
    close(*(int *)fd);
    return NULL;
}

/* A client of the socket that is still there is waited for until it leaves, and no longer. */
static void test_clients_are_waited_for(void **state) {
    world mine = {0};
    pthread_t thread;
    char text[256] = "";
    static const char ping[] = "{\"op\":\"ping\"}\n";
    (void)state;
    open_world(&mine, NULL);
    assert_true(kt__unix_wait(mine.server->unix_socket, 0));
    int fd = connect_socket(&mine);
    assert_true(send_all(fd, ping, sizeof ping - 1));
    assert_true(receive_until(fd, text, sizeof text, "pong"));
    assert_false(kt__unix_wait(mine.server->unix_socket, 20));
    assert_int_equal(pthread_create(&thread, NULL, close_late, &fd), 0);
    int64_t begin_us = kt__now_us();
    assert_true(kt__unix_wait(mine.server->unix_socket, 60000));
    assert_true(kt__now_us() - begin_us < 30000000);
    pthread_join(thread, NULL);
    world_close(&mine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_requests_hear_of_the_stop),
        cmocka_unit_test(test_hurry),
        cmocka_unit_test(test_clients_are_waited_for),
        cmocka_unit_test(test_prompts_to_come_are_answered),
        cmocka_unit_test(test_no_connection_is_reset),
        cmocka_unit_test(test_nothing_is_left_behind),
        cmocka_unit_test(test_taken_port_is_found_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
