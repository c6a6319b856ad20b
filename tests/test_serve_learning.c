/* serve: feedback and what is learned from it, over HTTP and the socket: corrections hold at once, for
 * who gave them alone; versions are named, taken back and deleted; what is refused; feedback under
 * load; and without --learn nothing of it is there. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "base/files.h"
#include "serve_reply.h"

#define ANNA "Authorization: Bearer aaaaaaaaaaaaaaaaaaaa\r\n"
#define BERT "Authorization: Bearer bbbbbbbbbbbbbbbbbbbb\r\n"
#define ASKED "Where is the blue ladder?"
#define RIGHT "The blue ladder is behind the old mill."

static world w;
static char keys[128], learned[128];

static int open_learning(world *of) {
    char with_keys[160], with_dir[160];
    const char *const settings[] = {"learning.enabled=true",
                                    "learning.namespaces=team",
                                    "learning.background_interval_ms=0",
                                    "learning.replay=16",
                                    "learning.steps=1",
                                    with_keys,
                                    with_dir,
                                    NULL};
    if (!of->dir[0]) world_dir(of);
    snprintf(keys, sizeof keys, "%s/keys", of->dir);
    snprintf(learned, sizeof learned, "%s/learned", of->dir);
    snprintf(with_keys, sizeof with_keys, "http.keys=%s", keys);
    snprintf(with_dir, sizeof with_dir, "learning.dir=%s", learned);
    FILE *f = fopen(keys, "w");
    fputs("anna:aaaaaaaaaaaaaaaaaaaa\nbert:bbbbbbbbbbbbbbbbbbbb\n", f);
    fclose(f);
    chmod(keys, 0600);
    return world_set_up(of, settings);
}

static int open_group(void **state) {
    (void)state;
    return open_learning(&w);
}

static int close_group(void **state) {
    kt_error err;
    (void)state;
    char models[160];
    snprintf(models, sizeof models, "%s/demo", learned);
    unlink(keys);
    int failed = kt__files_remove_tree(models, &err) != KT_OK;
    rmdir(learned);
    world_close(&w);
    return failed;
}

/* JSON as who, with the status wanted */
static json_t *call(const char *method, const char *path, const char *who, const char *body,
                    int status) {
    return call_as(&w, method, path, who, body, status);
}

static json_t *ask_as(const char *who, const char *question, const char *more) {
    char body[512];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"temperature\":0,"
             "\"max_tokens\":40%s}",
             question, more);
    return call("POST", "/v1/chat/completions", who, body, 200);
}

static const char *said(const json_t *v) {
    return text_at(v, "choices.0.message.content");
}

static json_t *tell(const char *who, const char *id, const char *more, int status) {
    char body[512];
    snprintf(body, sizeof body, "{\"response_id\":\"%s\"%s}", id, more);
    return call("POST", "/v1/feedback", who, body, status);
}

#define CORRECTION ",\"correction\":\"" RIGHT "\""

static void test_correction_holds_for_its_client(void **state) {
    (void)state;
    json_t *before = ask_as(BERT, ASKED, ""), *first = ask_as(ANNA, ASKED, "");
    assert_string_equal(said(before), said(first));
    assert_null(at(first, "kentang.adapter"));
    json_t *told = tell(ANNA, text_at(first, "id"), CORRECTION, 200);
    assert_string_equal(text_at(told, "object"), "feedback");
    assert_int_equal(json_integer_value(at(told, "version")), 1);
    json_t *now = ask_as(ANNA, ASKED, "");
    assert_string_equal(said(now), RIGHT);
    assert_int_equal(json_integer_value(at(now, "kentang.adapter.version")), 1);
    json_t *other = ask_as(BERT, ASKED, ""); /* A taught, and B has the same bytes as before */
    assert_string_equal(said(other), said(before));
    assert_null(at(other, "kentang.adapter"));
    json_t *none = ask_as(ANNA, ASKED, ",\"adapter\":\"none\"");
    assert_string_equal(said(none), said(before));
    json_t *by_number = ask_as(ANNA, ASKED, ",\"adapter\":1");
    assert_string_equal(said(by_number), RIGHT);
    json_t *foreign = tell(BERT, text_at(first, "id"), CORRECTION, 404); /* another's answer */
    json_t *unknown = tell(BERT, "chatcmpl-no", CORRECTION, 404);
    assert_string_equal(text_at(foreign, "error.param"), "response_id");
    json_t *list = call("GET", "/v1/adapters", ANNA, "", 200);
    assert_int_equal(json_array_size(at(list, "learned")), 1);
    json_t *others = call("GET", "/v1/adapters", BERT, "", 200);
    assert_int_equal(json_array_size(at(others, "learned")), 0);
    json_t *all[] = {before,    first,   told,    now,  other, none,
                     by_number, foreign, unknown, list, others};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
}

static void test_header_names_the_version(void **state) {
    (void)state;
    reply *r = ask(&w, "POST", "/v1/chat/completions", JSON_TYPE ANNA,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"" ASKED
                   "\"}],\"max_tokens\":4,\"stream\":true}");
    assert_int_equal(r->status, 200);
    assert_non_null(strstr(r->text, "X-Kentang-Adapter: 1\r\n"));
    free(r);
    r = ask(&w, "POST", "/v1/messages", JSON_TYPE ANNA,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"" ASKED
            "\"}],\"max_tokens\":40,\"temperature\":0,\"model\":\"demo\"}");
    assert_non_null(strstr(r->body, RIGHT));
    assert_non_null(strstr(r->text, "X-Kentang-Adapter: 1\r\n"));
    free(r);
}

/* What anna said, with what came of it; nobody else's. */
static void test_list_of_what_was_said(void **state) {
    (void)state;
    json_t *list = call("GET", "/v1/feedback?limit=1&model=demo", ANNA, "", 200);
    assert_int_equal(json_array_size(at(list, "data")), 1);
    assert_true(json_is_false(at(list, "has_more")));
    const json_t *item = json_array_get(at(list, "data"), 0);
    assert_string_equal(text_at(item, "id"), "fb_1");
    assert_string_equal(text_at(item, "correction"), RIGHT);
    assert_non_null(strstr(text_at(item, "prompt"), ASKED));
    assert_true(json_integer_value(at(item, "recalled")) > 0);
    assert_in_range(json_integer_value(at(item, "recalled_ago_s")), 0, 600);
    json_t *before = call("GET", "/v1/feedback?before=fb_1", ANNA, "", 200);
    assert_int_equal(json_array_size(at(before, "data")), 0);
    json_t *all[] = {list,
                     before,
                     call("GET", "/v1/feedback", BERT, "", 404),
                     call("GET", "/v1/feedback?namespace=../x", ANNA, "", 400),
                     call("GET", "/v1/feedback?model=none", ANNA, "", 404),
                     call("GET", "/v1/feedback?limit=0", ANNA, "", 400),
                     call("GET", "/v1/feedback?limit=1x", ANNA, "", 400),
                     call("GET", "/v1/feedback?before=1", ANNA, "", 400)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
}

/* A word on one answer takes nothing from what was counted of another. */
static void test_uses_outlast_a_deletion(void **state) {
    (void)state;
    json_t *other = ask_as(ANNA, "Who paints the fence?", "");
    json_t *said_so = tell(ANNA, text_at(other, "id"), ",\"correction\":\"Nora does.\"", 200);
    char path[64];
    snprintf(path, sizeof path, "/v1/feedback/%s", text_at(said_so, "id"));
    json_t *gone = call("DELETE", path, ANNA, "", 200);
    json_t *list = call("GET", "/v1/feedback", ANNA, "", 200);
    assert_int_equal(json_array_size(at(list, "data")), 1);
    assert_true(json_integer_value(at(json_array_get(at(list, "data"), 0), "recalled")) > 0);
    json_t *back = call("POST", "/v1/adapters/rollback", ANNA, "{\"version\":1}", 200);
    json_t *all[] = {other, said_so, gone, list, back};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
}

static void test_rollback_and_deletion(void **state) {
    (void)state;
    json_t *back = call("POST", "/v1/adapters/rollback", ANNA, "{\"version\":0}", 200);
    json_t *alone = ask_as(ANNA, ASKED, ""), *bert = ask_as(BERT, ASKED, "");
    assert_string_equal(said(alone), said(bert));
    json_t *forth = call("POST", "/v1/adapters/rollback", ANNA, "{\"version\":1}", 200);
    json_t *again = ask_as(ANNA, ASKED, "");
    assert_string_equal(said(again), RIGHT);
    json_t *no = call("POST", "/v1/adapters/rollback", ANNA, "{\"version\":7}", 400);
    json_t *none = call("POST", "/v1/adapters/rollback", BERT, "{\"version\":0}", 404);
    json_t *train = call("POST", "/v1/adapters/train", BERT, "{\"wait\":true}", 404);
    json_t *not_his = call("DELETE", "/v1/feedback/fb_1", BERT, "", 404);
    json_t *gone = call("DELETE", "/v1/feedback/fb_1", ANNA, "", 200);
    json_t *twice = call("DELETE", "/v1/feedback/fb_1", ANNA, "", 404);
    json_t *odd = call("DELETE", "/v1/feedback/1", ANNA, "", 400);
    json_t *after = ask_as(ANNA, ASKED, "");
    assert_string_equal(said(after), said(bert));
    json_t *all[] = {back,  alone,   bert, forth, again, no,   none,
                     train, not_his, gone, twice, odd,   after};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
}

/* A training's answer, which may take longer than ask waits for. */
static json_t *train_as(const char *who, const char *body) {
    char *text = calloc(1, 1 << 16);
    int fd = connect_http(&w);
    int n = snprintf(text, 4096,
                     "POST /v1/adapters/train HTTP/1.1\r\nHost: localhost\r\n%s%sConnection: close"
                     "\r\nContent-Length: %zu\r\n\r\n%s",
                     JSON_TYPE, who, strlen(body), body);
    assert_true(fd >= 0 && send_all(fd, text, (size_t)n));
    text[0] = '\0';
    for (int i = 0; i < 30 && !strstr(text, "}}"); i++) receive_until(fd, text, 1 << 16, "}}");
    close(fd);
    char *json = strstr(text, "\r\n\r\n");
    json_t *v = json ? json_loads(json + 4, 0, NULL) : NULL;
    if (!v) fail_msg("%s: %s", body, text);
    free(text);
    return v;
}

/* Too little was said to judge what comes out; a training that gains is in test_tutor_train. */
static void test_training(void **state) {
    (void)state;
    json_t *asked = ask_as(ANNA, ASKED, "");
    json_t *told = tell(ANNA, text_at(asked, "id"), CORRECTION ",\"namespace\":\"school\"", 200);
    json_t *odd = call("POST", "/v1/adapters/train", ANNA, "{\"deep\":1}", 400);
    json_t *v = train_as(ANNA, "{\"namespace\":\"school\"}");
    assert_string_equal(text_at(v, "object"), "training");
    assert_string_equal(text_at(v, "namespace"), "key:anna/school");
    assert_true(json_is_false(at(v, "published")));
    assert_int_equal(json_integer_value(at(v, "version")), 1);
    assert_non_null(strstr(text_at(v, "report.why"), "too few"));
    json_t *queued = call("POST", "/v1/adapters/train", ANNA,
                          "{\"namespace\":\"school\",\"deep\":true,\"wait\":false}", 200);
    assert_true(json_is_true(at(queued, "queued")));
    json_t *last = train_as(ANNA,
                            "{\"namespace\":\"school\"}"); /* behind the one that was queued */
    reply *r = ask(&w, "GET", "/metrics", ANNA, "");
    assert_non_null(strstr(r->body, "kentang_trainings_refused_total{model=\"demo\"} 3"));
    assert_non_null(strstr(r->body, "kentang_trainings_running{model=\"demo\"} 0"));
    free(r);
    json_t *all[] = {asked, told, odd, v, queued, last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
}

static void test_names(void **state) {
    (void)state;
    json_t *first = ask_as(ANNA, ASKED, "");
    json_t *own = tell(ANNA, text_at(first, "id"), CORRECTION ",\"namespace\":\"work\"", 200);
    json_t *used = ask_as(ANNA, ASKED, ",\"adapter\":\"work\""), *plain = ask_as(ANNA, ASKED, "");
    assert_string_equal(said(used), RIGHT);
    assert_string_not_equal(said(plain), RIGHT);
    json_t *b_work = call("POST", "/v1/chat/completions", BERT,
                          "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"adapter\":"
                          "\"work\"}",
                          400);
    json_t *shared = tell(ANNA, text_at(first, "id"), CORRECTION ",\"namespace\":\"team\"", 200);
    json_t *b_team = ask_as(BERT, ASKED, ",\"adapter\":\"team\"");
    assert_string_equal(said(b_team), RIGHT);
    json_t *bad = tell(ANNA, text_at(first, "id"), CORRECTION ",\"namespace\":\"../x\"", 400);
    json_t *all[] = {first, own, used, plain, b_work, shared, b_team, bad};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const bodies[] = {"",
                                         ",\"score\":1.5",
                                         ",\"score\":-0.1",
                                         ",\"score\":\"high\"",
                                         ",\"rating\":\"meh\"",
                                         ",\"rating\":1",
                                         ",\"correction\":7",
                                         ",\"correction\":\"\"",
                                         ",\"rating\":\"up\",\"choice\":-1"};
    json_t *first = ask_as(BERT, "Hello!", "");
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        json_t *v = tell(BERT, text_at(first, "id"), bodies[i], 400);
        assert_string_equal(text_at(v, "error.code"), "KT_E_ARG");
        json_decref(v);
    }
    char *body = malloc(200000);
    int n = snprintf(body, 200000, "{\"response_id\":\"%s\",\"correction\":\"",
                     text_at(first, "id"));
    memset(body + n, 'a', 100000);
    snprintf(body + n + 100000, 8, "\"}");
    json_t *longer = call("POST", "/v1/feedback", BERT, body, 413);
    assert_string_equal(text_at(longer, "error.code"), "KT_E_LIMIT");
    json_decref(longer);
    free(body);
    json_decref(call("POST", "/v1/feedback", BERT, "[1]", 400));
    json_decref(call("POST", "/v1/feedback", BERT, "{", 400));
    json_decref(first);
}

/* As ask_line, but a training may take longer than that waits for. */
static char *train_line(const char *line) {
    char *text = calloc(1, 1 << 16);
    int fd = connect_socket(&w);
    assert_true(fd >= 0 && send_all(fd, line, strlen(line)));
    for (int i = 0; i < 30 && !strchr(text, '\n'); i++) receive_until(fd, text, 1 << 16, "\n");
    close(fd);
    return text;
}

static void test_socket(void **state) {
    (void)state;
    char *r = ask_line(&w, "{\"id\":\"s1\",\"messages\":[{\"role\":\"user\",\"content\":\"" ASKED
                           "\"}],\"temperature\":0,\"max_tokens\":40,\"stream\":false}");
    assert_null(strstr(r, "adapter"));
    free(r);
    r = ask_line(&w, "{\"id\":\"s2\",\"op\":\"feedback\",\"response_id\":\"s1\"" CORRECTION "}");
    assert_non_null(strstr(r, "\"version\":1"));
    free(r);
    r = ask_line(&w, "{\"id\":\"s3\",\"messages\":[{\"role\":\"user\",\"content\":\"" ASKED
                     "\"}],\"temperature\":0,\"max_tokens\":40,\"stream\":false}");
    assert_non_null(strstr(r, RIGHT));
    assert_non_null(strstr(r, "\"adapter\":{\"namespace\":\"uid:"));
    free(r);
    r = train_line("{\"id\":\"s5\",\"op\":\"train\"}\n");
    assert_non_null(strstr(r, "\"done\":true,\"training\":{\"object\":\"training\""));
    assert_non_null(strstr(r, "too few"));
    free(r);
    r = ask_line(&w,
                 "{\"id\":\"s4\",\"op\":\"feedback\",\"response_id\":\"s9\",\"rating\":\"up\"}");
    assert_non_null(strstr(r, "\"error\""));
    free(r);
}

/* ---- under load ---- */

enum { N_TELLERS = 2, N_TOLD = 60 };

static atomic_int n_taken, n_asked;
static atomic_bool enough;

static void *tell_on(void *arg) {
    const char *who = arg;
    for (int i = 0; i < N_TOLD; i++) {
        char more[96];
        json_t *a = ask_as(who, i % 2 ? "Hello!" : "What is 3 plus 4?", ",\"max_tokens\":4");
        snprintf(more, sizeof more,
                 i % 3 ? ",\"rating\":\"%s\"" : ",\"correction\":\"It is %s %d.\"",
                 i % 2 ? "up" : "down", i);
        json_t *v = tell(who, text_at(a, "id"), more, 200);
        atomic_fetch_add(&n_taken, 1);
        json_decref(a);
        json_decref(v);
    }
    return NULL;
}

static void *ask_on(void *arg) {
    while (!atomic_load(&enough)) {
        json_t *v = ask_as(arg, "Tell me a story about a cat.", ",\"max_tokens\":32");
        atomic_fetch_add(&n_asked, 1);
        json_decref(v);
    }
    return NULL;
}

static void *roll_on(void *arg) {
    for (int i = 0; !atomic_load(&enough); i++) {
        char body[64];
        snprintf(body, sizeof body, "{\"version\":%d}", i % 2);
        json_decref(call("POST", "/v1/adapters/rollback", arg, body, 200));
    }
    return NULL;
}

static uint64_t told_so_far(const char *who) {
    json_t *list = call("GET", "/v1/adapters", who, "", 200);
    uint64_t n = 0;
    for (size_t i = 0; i < json_array_size(at(list, "learned")); i++) {
        const json_t *v = json_array_get(at(list, "learned"), i);
        const char *name = text_at(v, "namespace");
        if (!strchr(name, '/') && name[0] != '@')
            n += (uint64_t)json_integer_value(at(v, "feedback"));
    }
    json_decref(list);
    return n;
}

static void test_nothing_is_lost_under_load(void **state) {
    static const char *const who[] = {ANNA, BERT};
    pthread_t tellers[N_TELLERS], askers[4], roller;
    (void)state;
    json_t *first = ask_as(BERT, "Hello!", "");
    json_decref(tell(BERT, text_at(first, "id"), ",\"rating\":\"up\"", 200));
    json_decref(first);
    uint64_t before = told_so_far(ANNA) + told_so_far(BERT);
    for (int i = 0; i < 4; i++)
        pthread_create(&askers[i], NULL, ask_on, (void *)(uintptr_t)who[i % 2]);
    for (int i = 0; i < N_TELLERS; i++)
        pthread_create(&tellers[i], NULL, tell_on, (void *)(uintptr_t)who[i]);
    pthread_create(&roller, NULL, roll_on, (void *)(uintptr_t)BERT);
    for (int i = 0; i < N_TELLERS; i++) pthread_join(tellers[i], NULL);
    atomic_store(&enough, true);
    for (int i = 0; i < 4; i++) pthread_join(askers[i], NULL);
    pthread_join(roller, NULL);
    assert_int_equal(atomic_load(&n_taken), N_TELLERS * N_TOLD);
    assert_true(atomic_load(&n_asked) > 0);
    assert_int_equal(told_so_far(ANNA) + told_so_far(BERT), before + N_TELLERS * N_TOLD);
}

/* ---- over a restart, and off ---- */

static void test_restart(void **state) {
    (void)state;
    json_t *used = ask_as(ANNA, ASKED, ",\"adapter\":\"team\"");
    assert_string_equal(said(used), RIGHT);
    json_decref(used);
    kt__server_stop(w.server);
    assert_int_equal(open_learning(&w), 0);
    used = ask_as(BERT, ASKED, ",\"adapter\":\"team\"");
    assert_string_equal(said(used), RIGHT);
    json_decref(used);
}

/* The prompt has so many tokens more as the line has; its text is shown to the model alone. */
static void test_status_line(void **state) {
    (void)state;
    kt_error err;
    char dir[160];
    world told = {0}, on = w;
    const char *const settings[] = {"learning.enabled=true", "learning.status=true",
                                    "learning.instant=scoped", dir, NULL};
    world_dir(&told);
    snprintf(dir, sizeof dir, "learning.dir=%s/l", told.dir);
    assert_int_equal(world_set_up(&told, settings), 0);
    w = told;
    json_t *v = ask_as("", ASKED, "");
    json_t *same = call(
        "POST", "/v1/chat/completions", "",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Learning: 0 corrections, "
        "nothing published.\"},{\"role\":\"user\",\"content\":\"" ASKED
        "\"}],\"temperature\":0,\"max_tokens\":40,\"adapter\":\"none\"}",
        200);
    assert_string_equal(said(v), said(same));
    assert_int_equal(json_integer_value(at(v, "usage.prompt_tokens")),
                     json_integer_value(at(same, "usage.prompt_tokens")));
    json_decref(tell("", text_at(v, "id"), CORRECTION, 200));
    json_decref(v);
    json_decref(same);
    v = call("GET", "/props", "", "", 200); /* as `kentang ps` has it */
    assert_int_equal(json_integer_value(at(v, "models.0.instant.steps")), 1);
    json_decref(v);
    snprintf(dir, sizeof dir, "%s/l", told.dir);
    assert_int_equal(kt__files_remove_tree(dir, &err), KT_OK);
    world_close(&w);
    w = on;
}

static bool metrics_have(const char *line) {
    reply *r = ask(&w, "GET", "/metrics", "", "");
    bool have = strstr(r->body, line) != NULL;
    free(r);
    return have;
}

/* Two feedbacks begin a training, and the same two not another one. */
static void test_trains_by_itself(void **state) {
    (void)state;
    kt_error err;
    char dir[160];
    world own = {0}, on = w;
    const char *const settings[] = {"learning.enabled=true",
                                    "learning.background_interval_ms=50",
                                    "learning.background_min_samples=2",
                                    "learning.replay=16",
                                    "learning.steps=1",
                                    dir,
                                    NULL};
    world_dir(&own);
    snprintf(dir, sizeof dir, "learning.dir=%s/l", own.dir);
    assert_int_equal(world_set_up(&own, settings), 0);
    w = own;
    json_t *v = ask_as("", ASKED, "");
    json_decref(tell("", text_at(v, "id"), CORRECTION, 200));
    json_decref(tell("", text_at(v, "id"), ",\"rating\":\"down\"", 200));
    json_decref(v);
    usleep(1500000); /* more may be said: it waits until nothing was for ten seconds */
    assert_true(metrics_have("feedback_pending{model=\"demo\"} 2"));
    assert_true(metrics_have("trainings_refused_total{model=\"demo\"} 0"));
    for (int i = 0; i < 600 && !metrics_have("trainings_refused_total{model=\"demo\"} 1"); i++)
        usleep(100000);
    assert_true(metrics_have("trainings_refused_total{model=\"demo\"} 1"));
    assert_true(metrics_have("feedback_pending{model=\"demo\"} 0"));
    usleep(500000);
    assert_true(metrics_have("trainings_refused_total{model=\"demo\"} 1"));
    snprintf(dir, sizeof dir, "%s/l", own.dir);
    kt__server_stop(w.server);
    w.server = NULL;
    assert_int_equal(kt__files_remove_tree(dir, &err), KT_OK);
    world_close(&w);
    w = on;
}

static void test_off(void **state) {
    (void)state;
    world off = {0}, on = w;
    assert_int_equal(world_set_up(&off, NULL), 0);
    w = off;
    json_t *v = ask_as("", ASKED, "");
    assert_null(at(v, "kentang.adapter"));
    json_decref(tell("", text_at(v, "id"), CORRECTION, 404));
    json_decref(call("POST", "/v1/chat/completions", "",
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"adapter\":1}", 400));
    json_t *list = call("GET", "/v1/adapters", "", "", 200);
    assert_null(at(list, "learned"));
    reply *r = ask(&w, "GET", "/metrics", "", "");
    assert_null(strstr(r->body, "kentang_feedback"));
    free(r);
    json_decref(list);
    json_decref(v);
    world_close(&w);
    w = on;
}

/* ---- the last word ---- */

static int64_t learned_figure(const char *name, const char *member) {
    json_t *list = call("GET", "/v1/adapters", BERT, "", 200), *v;
    int64_t n = -1;
    size_t i;
    json_array_foreach(at(list, "learned"), i, v) {
        if (!strcmp(text_at(v, "namespace"), name)) n = json_integer_value(at(v, member));
    }
    json_decref(list);
    return n;
}

static void tell_word(const char *id, const char *word) {
    char more[160];
    snprintf(more, sizeof more, "%s,\"namespace\":\"words\"", word);
    json_decref(tell(BERT, id, more, 200));
}

/* Up counts once; down withdraws it, in the journal and in what is recalled; a correction stays. */
static void test_last_word(void **state) {
    (void)state;
    static const char name[] = "key:bert/words";
    json_t *first = ask_as(BERT, ASKED, ",\"adapter\":\"none\"");
    const char *id = text_at(first, "id");
    for (int i = 0; i < 3; i++) tell_word(id, ",\"rating\":\"up\"");
    assert_int_equal(learned_figure(name, "feedback"), 1);
    int64_t tokens = learned_figure(name, "tokens");
    assert_true(tokens > 0);
    tell_word(id, ",\"rating\":\"down\"");
    assert_int_equal(learned_figure(name, "feedback"), 1);
    assert_int_equal(learned_figure(name, "tokens"), 0);
    tell_word(id, ",\"rating\":\"up\"");
    assert_int_equal(learned_figure(name, "tokens"), tokens);
    tell_word(id, CORRECTION);
    assert_int_equal(learned_figure(name, "scores"), 0);
    tell_word(id, ",\"rating\":\"down\"");
    assert_int_equal(learned_figure(name, "corrections"), 1);
    json_t *now = ask_as(BERT, ASKED, ",\"adapter\":\"words\"");
    assert_string_equal(said(now), RIGHT);
    json_decref(first);
    json_decref(now);
}

/* ---- what is the server's own ---- */

static void expect_no_path(const json_t *v) {
    char *text = json_dumps(v, 0);
    if (strstr(text, "/tmp") || strstr(text, learned)) fail_msg("%s", text);
    free(text);
}

/* A folder that another process writes, and a journal that cannot be read. */
static void test_paths_are_hidden(void **state) {
    (void)state;
    char dir[300], path[400];
    json_t *first = ask_as(BERT, ASKED, ",\"adapter\":\"none\"");
    const char *id = text_at(first, "id");
    snprintf(dir, sizeof dir, "%s/demo/key%%3Abert%%2Flocked", learned);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/LOCK", dir);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    world_log_to(&w, -1);
    json_t *busy = tell(BERT, id, CORRECTION ",\"namespace\":\"locked\"", 503);
    expect_no_path(busy);
    assert_string_equal(text_at(busy, "error.type"), "server_error");
    close(fd);
    snprintf(path, sizeof path, "%s/journal", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < 40; i++) assert_int_equal(write(fd, "no journal", 10), 10);
    close(fd);
    json_t *damaged = call("POST", "/v1/chat/completions", BERT,
                           "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                           "\"max_tokens\":1,\"adapter\":\"locked\"}",
                           500);
    expect_no_path(damaged);
    world_log_to(&w, STDERR_FILENO);
    unlink(path);
    json_t *all[] = {first, busy, damaged};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
}

static void expect_refusal(const char *who, const char *id, const char *more, int status,
                           const char *param) {
    json_t *v = tell(who, id, more, status);
    if (strcmp(text_at(v, "error.param"), param) != 0) fail_msg("%s", text_at(v, "error.message"));
    json_decref(v);
}

static void test_refusals_name_the_member(void **state) {
    (void)state;
    json_t *first = ask_as(BERT, ASKED, ",\"adapter\":\"none\"");
    const char *id = text_at(first, "id");
    expect_refusal(BERT, id, ",\"rating\":\"up\",\"choice\":5", 404, "choice");
    expect_refusal(BERT, id, ",\"rating\":\"up\",\"score\":0.5", 400, "score");
    json_t *v = call("POST", "/v1/chat/completions", BERT,
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                     "\"max_tokens\":1,\"adapter\":\"../x\"}",
                     400);
    assert_string_equal(text_at(v, "error.param"), "adapter");
    json_decref(v);
    json_decref(first);
}

/* Who else asks, and for how long, is nobody's business. */
static void test_props_of_others(void **state) {
    (void)state;
    char text[8192] = "";
    const char body[] = "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":900,\"stream\":true}";
    char head[512];
    int n = snprintf(head, sizeof head,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE ANNA
                     "Content-Length: %zu\r\n\r\n%s",
                     sizeof body - 1, body);
    int fd = connect_http(&w);
    assert_true(send_all(fd, head, (size_t)n));
    assert_true(receive_until(fd, text, sizeof text, "data:"));
    json_t *others = call("GET", "/props", BERT, "", 200);
    json_t *own = call("GET", "/props", ANNA, "", 200);
    close(fd);
    assert_int_equal(json_array_size(at(others, "requests")), 0);
    if (json_array_size(at(own, "requests")) == 1) {
        const json_t *mine = json_array_get(at(own, "requests"), 0);
        assert_int_equal(json_integer_value(at(others, "other_requests")), 1);
        assert_true(json_integer_value(at(mine, "prompt_tokens")) > 0);
        assert_int_equal(json_integer_value(at(mine, "prompt_done")),
                         json_integer_value(at(mine, "prompt_tokens")));
    }
    json_decref(others);
    json_decref(own);
}

/* ---- many names ---- */

static int count_descriptors(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static json_t *tell_under(int name, const char *id, int status) {
    char more[128];
    snprintf(more, sizeof more, "%s,\"namespace\":\"n%d\"", CORRECTION, name);
    return tell(BERT, id, more, status);
}

/* The soft limit becomes the hard one, and connections leave descriptors to the rest. */
static void test_descriptors(void **state) {
    struct rlimit limit, low;
    world mine = {0};
    kt_error err;
    const char *const settings[] = {"limits.connections=65536", NULL};
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 512;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &low), 0);
    assert_true(low.rlim_cur == limit.rlim_max);
    if (low.rlim_cur < 100000)
        assert_true(mine.server->shared.connections < (int64_t)low.rlim_cur / 2);
    world_close(&mine);
}

/* What was taught under a name stays, its descriptors do not; and names have an end. */
static void test_many_names(void **state) {
    (void)state;
    json_t *first = ask_as(BERT, ASKED, ",\"adapter\":\"none\"");
    int before = count_descriptors();
    for (int i = 0; i < 98; i++) json_decref(tell_under(i, text_at(first, "id"), 200));
    int more = count_descriptors() - before;
    if (more > 80) fail_msg("%d descriptors more", more);
    json_t *refused = tell_under(98, text_at(first, "id"), 413);
    assert_non_null(strstr(text_at(refused, "error.message"), "learning.max_names"));
    json_t *again = ask_as(BERT, ASKED, ",\"adapter\":\"n0\"");
    assert_string_equal(said(again), RIGHT);
    json_t *known = tell_under(1, text_at(first, "id"), 200);
    json_t *list = call("GET", "/v1/adapters", BERT, "", 200);
    assert_true(json_array_size(at(list, "learned")) >= 100);
    json_t *all[] = {first, refused, again, known, list};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_correction_holds_for_its_client),
        cmocka_unit_test(test_header_names_the_version),
        cmocka_unit_test(test_list_of_what_was_said),
        cmocka_unit_test(test_uses_outlast_a_deletion),
        cmocka_unit_test(test_rollback_and_deletion),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_socket),
        cmocka_unit_test(test_last_word),
        cmocka_unit_test(test_paths_are_hidden),
        cmocka_unit_test(test_refusals_name_the_member),
        cmocka_unit_test(test_props_of_others),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_nothing_is_lost_under_load),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_status_line),
        cmocka_unit_test(test_trains_by_itself),
        cmocka_unit_test(test_off),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
