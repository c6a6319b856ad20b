/* serve: settings replaced while requests run: what holds from then on, what stays, what is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "jobs/job.h"
#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, NULL)

static kt__config *new_config(const char *key, const char *value) {
    kt__config *c;
    kt_error err;
    if (kt__config_create(&c, &err) != KT_OK ||
        kt__config_set(c, "http.listen", "127.0.0.1:0", "test", &err) != KT_OK ||
        kt__config_set(c, "socket.path", w.socket, "test", &err) != KT_OK ||
        kt__config_set(c, "threads", "2", "test", &err) != KT_OK ||
        kt__config_set(c, "log.level", "error", "test", &err) != KT_OK ||
        kt__config_set(c, key, value, "test", &err) != KT_OK || kt__config_finish(c, &err) != KT_OK)
        fail_msg("%s", err.message);
    return c;
}

/* A request keeps the settings that it came under, and with the last of them they are freed. */
static void test_replaced_settings_are_freed(void **state) {
    char text[4096] = "";
    (void)state;
    kt__server_reload(w.server, new_config("limits.choices", "3"));
    kt__settings *before = kt__shared_settings(&w.server->shared);
    assert_int_equal(before->config->max_choices, 3);
    int fd = begin_stream(&w, "long", 900, text, sizeof text);
    assert_true(fd >= 0);
    assert_int_equal(atomic_load(&before->refs), 3); /* in force, the request's, ours */
    kt__server_reload(w.server, new_config("limits.choices", "4"));
    assert_int_equal(atomic_load(&before->refs), 2);
    close(fd);
    for (int i = 0; i < 500 && atomic_load(&before->refs) > 1; i++) usleep(10000);
    assert_int_equal(atomic_load(&before->refs), 1);
    kt__settings_drop(before);
    kt__settings *now = kt__shared_settings(&w.server->shared);
    assert_int_equal(now->config->max_choices, 4);
    kt__settings_drop(now);
}

/* Texts that a reload cannot change live on, over any number of reloads. */
static void test_fixed_settings_stay(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) kt__server_reload(w.server, new_config("http.listen", "[::1]:1"));
    kt__settings *now = kt__shared_settings(&w.server->shared);
    assert_string_equal(now->config->listen, "127.0.0.1:0");
    assert_ptr_equal(now->config->models, w.server->shared.start->models);
    kt__settings_drop(now);
    reply *r = post(&w, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":1,\"n\":2}");
    assert_int_equal(r->status, 200);
    free(r);
}

static void test_limits_hold_at_once(void **state) {
    (void)state;
    kt__server_reload(w.server, new_config("limits.choices", "1"));
    reply *r = post(&w, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":1,\"n\":2}");
    assert_int_equal(r->status, 400);
    free(r);
}

/* Requests that wait at most: lowered, and raised again, without a restart. */
static void test_queue_follows(void **state) {
    (void)state;
    world mine = {0};
    kt_error err;
    char line[128], text[65536] = "";
    static const char *const settings[] = {"limits.queue=50", "parallel=1", NULL};
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    for (int round = 0; round < 2; round++) {
        kt__server_reload(mine.server, new_config("limits.queue", round ? "50" : "1"));
        int fd = connect_socket(&mine);
        for (int i = 0; i < 40; i++) {
            int n = snprintf(line, sizeof line,
                             "{\"id\":\"r%d\",\"prompt\":\"x\",\"ignore_eos\":true,"
                             "\"max_tokens\":200}\n",
                             i);
            assert_true(send_all(fd, line, (size_t)n));
        }
        shutdown(fd, SHUT_WR);
        text[0] = '\0';
        (void)receive_until(fd, text, sizeof text, NULL);
        bool busy = strstr(text, "KT_E_BUSY") != NULL;
        if (busy != (round == 0)) fail_msg("round %d: %s", round, text);
        close(fd);
    }
    world_close(&mine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaced_settings_are_freed),
        cmocka_unit_test(test_fixed_settings_stay),
        cmocka_unit_test(test_limits_hold_at_once),
        cmocka_unit_test(test_queue_follows),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
