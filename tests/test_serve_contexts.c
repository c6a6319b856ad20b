/* serve: several contexts of one model as one: what a client taught, and what is kept of prompts on
 * disk, holds in each of them, and after the model was unloaded and came back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/files.h"
#include "serve_reply.h"

#define ASKED "Where is the blue ladder?"
#define RIGHT "The blue ladder is in the old mill."

typedef struct pair {
    world w;
    char learned[128], kept[128];
} pair;

/* more: a further setting, or NULL. */
static void open_pair(pair *p, const char *more) {
    char with_learned[160], with_kept[160];
    kt_error err;
    if (kt_cpus_split(NULL, 2, 1, false, with_kept, sizeof with_kept, &err) != KT_OK) skip();
    world_dir(&p->w);
    snprintf(p->learned, sizeof p->learned, "%s/learned", p->w.dir);
    snprintf(p->kept, sizeof p->kept, "%s/kept", p->w.dir);
    snprintf(with_learned, sizeof with_learned, "learning.dir=%s", p->learned);
    snprintf(with_kept, sizeof with_kept, "cache.dir=%s", p->kept);
    const char *const settings[] = {"contexts=2",
                                    "learning.enabled=true",
                                    "learning.notes=on",
                                    "learning.background_interval_ms=0",
                                    with_learned,
                                    with_kept,
                                    more,
                                    NULL};
    if (world_open(&p->w, &err, settings) != KT_OK) fail_msg("%s", err.message);
}

static void close_pair(pair *p) {
    kt_error err;
    kt__server_stop(p->w.server);
    assert_int_equal(kt__files_remove_tree(p->w.dir, &err), KT_OK);
}

static json_t *chat(const pair *p, const char *model, const char *text) {
    char body[2048];
    snprintf(body, sizeof body,
             "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],"
             "\"temperature\":0,\"max_tokens\":24}",
             model, text);
    reply *r = post(&p->w, "/v1/chat/completions", body);
    if (r->status != 200) fail_msg("%s", r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

static const char *said(const json_t *v) {
    return text_at(v, "choices.0.message.content");
}

static void teach(const pair *p, const char *model) {
    char body[512];
    json_t *v = chat(p, model, ASKED);
    snprintf(body, sizeof body, "{\"response_id\":\"%s\",\"correction\":\"" RIGHT "\"}",
             text_at(v, "id"));
    reply *r = post(&p->w, "/v1/feedback", body);
    assert_int_equal(r->status, 200);
    free(r);
    json_decref(v);
}

static void expect_taught(const pair *p, const char *model) {
    json_t *v = chat(p, model, ASKED);
    assert_string_equal(said(v), RIGHT);
    assert_int_equal(json_integer_value(at(v, "kentang.adapter.version")), 1);
    json_decref(v);
}

/* A long answer holds a context, whatever comes meanwhile goes to the other; then the other one is
 * held. */
typedef void in_each(const pair *p, int which);

static void in_both(const pair *p, in_each *run) {
    char texts[2][65536] = {"", ""};
    int first = begin_stream(&p->w, "first", 900, texts[0], sizeof texts[0]);
    assert_true(first >= 0);
    run(p, 0);
    int second = begin_stream(&p->w, "second", 900, texts[1], sizeof texts[1]);
    assert_true(second >= 0);
    close(first);
    for (int i = 0; i < 2000; i++) { /* until the first one's context is free again */
        kt__served_info info;
        kt__served_get_info(kt__models_at(p->w.server->shared.models, 0), &info);
        if (info.users == 1) break;
        usleep(1000);
    }
    run(p, 1);
    close(second);
}

static void ask_taught(const pair *p, int which) {
    (void)which;
    expect_taught(p, "");
}

static void test_taught_in_both(void **state) {
    pair p = {0};
    (void)state;
    open_pair(&p, NULL);
    teach(&p, "");
    in_both(&p, ask_taught);
    close_pair(&p);
}

static char kept_text[512];

/* Computed by the one, read from disk by the other. */
static void ask_kept(const pair *p, int which) {
    json_t *v = chat(
        p, "",
        "Tell me a long story about a dog that lives on a farm with a horse, two cows, "
        "a goat and an old cat who does not like the rain.");
    int64_t n_cached = json_integer_value(at(v, "usage.prompt_tokens_details.cached_tokens"));
    if (which == 0) {
        assert_int_equal(n_cached, 0);
        snprintf(kept_text, sizeof kept_text, "%s", said(v));
        usleep(300000); /* written while others compute */
    } else {
        assert_true(n_cached >= 16);
        assert_string_equal(said(v), kept_text);
    }
    json_decref(v);
}

static void test_disk_cache_of_both(void **state) {
    pair p = {0};
    (void)state;
    open_pair(&p, NULL);
    in_both(&p, ask_kept);
    reply *r = ask(&p.w, "GET", "/metrics", "", "");
    const char *hits = strstr(r->text, "\nkentang_prefix_cache_disk_hits_total{model=\"demo\"} ");
    assert_non_null(hits);
    assert_true(atoi(strchr(hits, '}') + 1) > 0);
    free(r);
    close_pair(&p);
}

/* Unloaded and loaded again, a model has what it was taught, and the other one nothing of it. */
static void test_models_that_come_and_go(void **state) {
    pair p = {0};
    (void)state;
    open_pair(&p,
              "toml=http.manage = true\n[[models]]\nname = \"one\"\n[[models]]\nname = \"two\"\n");
    teach(&p, "one");
    for (int i = 0; i < 3; i++) {
        expect_taught(&p, "one");
        json_t *v = chat(&p, "two", ASKED); /* taught nothing */
        assert_string_not_equal(said(v), RIGHT);
        json_decref(v);
        kt__models *models = p.w.server->shared.models;
        for (size_t k = 0; k < 2; k++)
            assert_true(kt__served_unload(kt__models_at(models, k), ": the test says so"));
    }
    close_pair(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taught_in_both),
        cmocka_unit_test(test_disk_cache_of_both),
        cmocka_unit_test(test_models_that_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
