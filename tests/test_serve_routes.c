/* serve: requests for "auto": the route whose example is nearest, why, how ratings move it, its table read, replaced and refused. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/files.h"
#include "jobs/job.h"
#include "serve_reply.h"

static world w;
static char file[96], learned[96];

/* Two routes to the one model that is there, whose own states are the embeddings. */
static const char table[] =
    "{\"encoder\":\"demo\",\"otherwise\":\"talk\",\"least\":-1,\"routes\":["
    "{\"name\":\"talk\",\"model\":\"demo\",\"examples\":[\"Hello!\",\"Tell me a story.\"]},"
    "{\"name\":\"sums\",\"model\":\"demo\",\"examples\":[\"What is 2 + 2?\"],\"good\":1}]}";

static void put_table(const char *text) {
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int open_group(void **state) {
    char routes[128], dir[128];
    const char *const settings[] = {"learning.enabled=true",
                                    "learning.background_interval_ms=0",
                                    "http.manage=true",
                                    routes,
                                    dir,
                                    NULL};
    (void)state;
    world_dir(&w);
    snprintf(file, sizeof file, "%s/routes.json", w.dir);
    snprintf(learned, sizeof learned, "%s/learned", w.dir);
    snprintf(routes, sizeof routes, "routes=%s", file);
    snprintf(dir, sizeof dir, "learning.dir=%s", learned);
    put_table(table);
    return world_set_up(&w, settings);
}

static int close_group(void **state) {
    kt_error err;
    (void)state;
    unlink(file);
    int failed = kt__files_remove_tree(learned, &err) != KT_OK;
    world_close(&w);
    return failed;
}

static json_t *call(const char *method, const char *path, const char *body, int status) {
    return call_as(&w, method, path, "", body, status);
}

static json_t *chat(const char *model, const char *text) {
    char body[256];
    snprintf(
        body, sizeof body,
        "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"max_tokens\":2}",
        model, text);
    return call("POST", "/v1/chat/completions", body, 200);
}

static void expect_route(const char *text, const char *name, const char *because) {
    json_t *v = chat("auto", text);
    assert_string_equal(text_at(v, "model"), "demo");
    assert_string_equal(text_at(v, "kentang.route.name"), name);
    assert_string_equal(text_at(v, "kentang.route.because"), because);
    json_decref(v);
}

static void test_the_nearest_example_decides(void **state) {
    (void)state;
    expect_route("Hello!", "talk", "nearest");
    expect_route("What is 2 + 2?", "sums", "nearest");
    expect_route("What is 3 + 2?", "sums", "nearest");
    expect_route("", "talk", "no text");
    json_t *v = chat("auto", "Hello!");
    assert_string_equal(text_at(v, "kentang.route.example"), "Hello!");
    assert_true(json_number_value(at(v, "kentang.route.cosine")) > 0.999);
    json_decref(v);
    v = chat("demo", "Hello!");
    assert_null(json_object_get(at(v, "kentang"), "route"));
    json_decref(v);
}

/* Anthropic's, Responses' and Ollama's bodies have their texts elsewhere. */
static void test_other_dialects(void **state) {
    static const struct {
        const char *path, *body;
    } cases[] = {
        {"/v1/messages",
         "{\"model\":\"auto\",\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":"
         "[{\"type\":\"text\",\"text\":\"What is 2 + 2?\"}]}]}"},
        {"/v1/responses",
         "{\"model\":\"auto\",\"max_output_tokens\":2,\"input\":\"What is 2 + 2?\"}"},
        {"/v1/completions", "{\"model\":\"auto\",\"max_tokens\":2,\"prompt\":\"What is 2 + 2?\"}"},
        {"/api/chat",
         "{\"model\":\"auto\",\"stream\":false,\"options\":{\"num_predict\":2},\"messages\":["
         "{\"role\":\"user\",\"content\":\"What is 2 + 2?\"}]}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *v = call("POST", cases[i].path, cases[i].body, 200);
        const json_t *route = at(v, "kentang.route.name");
        if (!route || strcmp(json_string_value(route), "sums") != 0)
            fail_msg("%s: %s", cases[i].path, json_dumps(v, 0));
        json_decref(v);
    }
}

/* A thread that waits for a computation, for as long as the test says. */
typedef struct long_wait {
    kt__work_item item;
    sem_t begun, end;
} long_wait;

static void wait_long(kt__work_item *item) {
    long_wait *l = (long_wait *)item;
    sem_post(&l->begun);
    sem_wait(&l->end);
}

static void *ask_routed(void *arg) {
    (void)arg;
    json_t *v = chat("auto", "Hello!");
    assert_string_equal(text_at(v, "kentang.route.name"), "talk");
    json_decref(v);
    return NULL;
}

/* Requests that wait for the encoder hold none of those that read others. */
static void test_others_are_read_meanwhile(void **state) {
    enum { N_ROUTED = 4 };
    pthread_t routed[N_ROUTED];
    long_wait l = {.item.run = wait_long};
    (void)state;
    sem_init(&l.begun, 0, 0);
    sem_init(&l.end, 0, 0);
    assert_true(kt__workers_add(w.server->shared.waiters, &l.item));
    sem_wait(&l.begun);
    for (int i = 0; i < N_ROUTED; i++)
        assert_int_equal(pthread_create(&routed[i], NULL, ask_routed, NULL), 0);
    while (kt__jobs_count(&w.server->shared) < N_ROUTED) usleep(1000);
    json_decref(chat("demo", "Hello!"));
    assert_int_equal(kt__jobs_count(&w.server->shared), N_ROUTED);
    sem_post(&l.end);
    for (int i = 0; i < N_ROUTED; i++) pthread_join(routed[i], NULL);
    sem_destroy(&l.begun);
    sem_destroy(&l.end);
}

static void test_it_is_listed(void **state) {
    (void)state;
    json_t *v = call("GET", "/v1/models", "", 200);
    assert_string_equal(text_at(v, "data.1.id"), "auto");
    json_decref(v);
}

/* As often as it was rated, and kept with the table. */
static void test_ratings(void **state) {
    (void)state;
    char body[128];
    json_t *v = chat("auto", "Hello!");
    snprintf(body, sizeof body, "{\"response_id\":\"%s\",\"rating\":\"down\"}", text_at(v, "id"));
    double before = json_number_value(at(v, "kentang.route.scores.talk"));
    json_decref(v);
    json_decref(call("POST", "/v1/feedback", body, 200));
    v = call("GET", "/v1/routes", "", 200);
    assert_int_equal(json_integer_value(at(v, "routes.0.bad")), 1);
    assert_int_equal(json_integer_value(at(v, "routes.1.good")), 1);
    json_decref(v);
    v = chat("auto", "Hello!");
    assert_true(json_number_value(at(v, "kentang.route.scores.talk")) < before);
    json_decref(v);
    kt__buf text;
    kt_error err;
    kt__buf_init(&text, 1 << 16);
    assert_int_equal(kt__files_read(file, &text, &err), KT_OK);
    assert_non_null(strstr(text.data, "\"bad\": 1"));
    kt__buf_free(&text);
}

static void test_tables(void **state) {
    static const struct {
        const char *body, *param;
    } refused[] = {
        {"{", "routes"},
        {"{}", "routes"},
        {"{\"encoder\":\"demo\",\"routes\":[]}", "routes"},
        {"{\"encoder\":\"none\",\"routes\":[{\"name\":\"a\",\"model\":\"demo\",\"examples\":[\"x\"]}]}",
         "encoder"},
        {"{\"encoder\":\"demo\",\"routes\":[{\"name\":\"a\",\"model\":\"none\",\"examples\":[\"x\"]}]}",
         "routes[0].model"},
        {"{\"encoder\":\"demo\",\"routes\":[{\"name\":\"a\",\"model\":\"demo\",\"examples\":[]}]}",
         "routes[0].examples"},
        {"{\"encoder\":\"demo\",\"routes\":[{\"name\":\"a\",\"model\":\"demo\",\"examples\":[\"x\"],\"good\":-1}]}",
         "routes[0].good"},
        {"{\"encoder\":\"demo\",\"otherwise\":\"b\",\"routes\":[{\"name\":\"a\",\"model\":\"demo\",\"examples\":[\"x\"]}]}",
         "otherwise"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        json_t *v = call("POST", "/v1/routes", refused[i].body, 400);
        assert_string_equal(text_at(v, "error.param"), refused[i].param);
        json_decref(v);
    }
    expect_route("What is 2 + 2?", "sums", "nearest");
    json_decref(call(
        "POST", "/v1/routes",
        "{\"encoder\":\"demo\",\"least\":2,\"routes\":[{\"name\":\"a\",\"model\":\"demo\",\"examples\":[\"x\"]}]}",
        200));
    expect_route("What is 2 + 2?", "a", "nothing is near");
    put_table("no table at all"); /* the last one holds */
    expect_route("What is 2 + 2?", "a", "nothing is near");
    put_table(table);
    expect_route("What is 2 + 2?", "sums", "nearest");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_nearest_example_decides),
                                       cmocka_unit_test(test_other_dialects),
                                       cmocka_unit_test(test_others_are_read_meanwhile),
                                       cmocka_unit_test(test_it_is_listed),
                                       cmocka_unit_test(test_ratings),
                                       cmocka_unit_test(test_tables)};
    return cmocka_run_group_tests(tests, open_group, close_group);
}
