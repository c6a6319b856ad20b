/* serve: HTTP: shapes of answers, cancels, several models, JSON, caches. */
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "limits.request_s=1", "limits.body=64K", "limits.connections_per_peer=50",
               "limits.output=4096", NULL)

/* ---- shapes ---- */

static void test_stream_framing(void **state) {
    (void)state;
    reply *r = post(&w, "/v1/chat/completions",
                    "{" STORY ",\"max_tokens\":4,\"ignore_eos\":true,\"stream\":true,\"n\":2,"
                    "\"stream_options\":{\"include_usage\":true},\"logprobs\":true}");
    assert_int_equal(r->status, 200);
    assert_non_null(strstr(r->text, "Content-Type: text/event-stream"));
    unchunk(r);
    size_t len = strlen(r->body);
    assert_string_equal(r->body + len - 14, "data: [DONE]\n\n");
    assert_non_null(
        strstr(r->body, "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null}"));
    assert_non_null(strstr(r->body, "\"index\":1"));
    assert_non_null(strstr(r->body, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(r->body, "\"choices\":[],\"usage\":{\"prompt_tokens\""));
    assert_non_null(strstr(r->body, "\"completion_tokens\":8"));
    free(r);
}

static void test_completions(void **state) {
    (void)state;
    reply *r = post(&w, "/v1/completions",
                    "{\"prompt\":\"Once upon\",\"max_tokens\":8,\"ignore_eos\":true,\"logprobs\":2,"
                    "\"seed\":3,\"stop\":[\"zzz\"],\"unknown_field\":{\"a\":[1]}}");
    json_t *v = body_of(r);
    assert_string_equal(text_at(v, "object"), "text_completion");
    assert_int_equal(json_array_size(at(v, "choices.0.logprobs.tokens")), 8);
    assert_int_equal(json_object_size(at(v, "choices.0.logprobs.top_logprobs.0")), 2);
    assert_int_equal(json_integer_value(at(v, "usage.completion_tokens")), 8);
    json_decref(v);
    free(r);
}

/* Texts of a completion's choices, in order of index, from a whole answer or from chunks. */
static void gather_choices(const char *body, bool stream, char texts[][256], size_t n) {
    for (size_t i = 0; i < n; i++) texts[i][0] = '\0';
    for (const char *from = stream ? strstr(body, "data: {") : body; from;
         from = stream ? strstr(from + 1, "data: {") : NULL) {
        const char *json = stream ? from + 6 : from;
        json_t *v = json_loadb(json, stream ? strcspn(json, "\n") : strlen(json), 0, NULL);
        size_t k;
        json_t *c;
        json_array_foreach(json_object_get(v, "choices"), k, c) {
            size_t index = (size_t)json_integer_value(json_object_get(c, "index"));
            assert_true(index < n);
            if (!stream) assert_int_equal(index, k);
            strncat(texts[index], json_string_value(json_object_get(c, "text")), 200);
        }
        json_decref(v);
    }
}

/* Several prompts in one body: choice p * n + i is answer i to prompt p, as if asked alone. */
static void test_several_prompts(void **state) {
    (void)state;
    static const char *const prompts[] = {"\"Once upon\"", "[75,767,75]", "\"The dog\""};
    char list[4096] = "[", alone[2 * 24][256], together[2 * 24][256], body[8192];
    enum { N = 24 };
    for (int p = 0; p < N; p++) {
        snprintf(body, sizeof body,
                 "{\"prompt\":%s,\"max_tokens\":%d,\"seed\":5,\"n\":2,\"ignore_eos\":true}",
                 prompts[p % 3], 6);
        reply *r = post(&w, "/v1/completions", body);
        if (r->status != 200) fail_msg("%s", r->text);
        gather_choices(r->body, false, &alone[2 * p], 2);
        free(r);
        strcat(list, p ? "," : "");
        strcat(list, prompts[p % 3]);
    }
    for (int stream = 0; stream < 2; stream++) {
        snprintf(body, sizeof body,
                 "{\"prompt\":%s],\"max_tokens\":6,\"seed\":5,\"n\":2,\"ignore_eos\":true,"
                 "\"stream\":%s,\"stream_options\":{\"include_usage\":true}}",
                 list, stream ? "true" : "false");
        reply *r = post(&w, "/v1/completions", body);
        if (r->status != 200) fail_msg("%s", r->text);
        if (stream) unchunk(r);
        gather_choices(r->body, stream, together, 2 * N);
        for (int i = 0; i < 2 * N; i++) assert_string_equal(together[i], alone[i]);
        assert_non_null(strstr(r->body, "\"completion_tokens\":288"));
        free(r);
    }
    static const char *const bad[] = {"[\"a\",[99999999]]", "[\"a\",{}]", "[[1],[]]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, "{\"prompt\":%s,\"max_tokens\":3,\"stream\":true}", bad[i]);
        reply *r = post(&w, "/v1/completions", body);
        if (r->status != 400) fail_msg("%s: %s", bad[i], r->text);
        free(r);
    }
}

static void test_embeddings(void **state) {
    (void)state;
    reply *r = post(&w, "/v1/embeddings", "{\"input\":[\"one\",\"two\",\"one\"]}");
    json_t *v = body_of(r);
    const json_t *a = at(v, "data.0.embedding"), *c = at(v, "data.2.embedding");
    double sum = 0;
    assert_int_equal(json_array_size(at(v, "data")), 3);
    for (size_t i = 0; i < json_array_size(a); i++) {
        double x = json_number_value(json_array_get(a, i));
        sum += x * x;
        assert_true(x == json_number_value(json_array_get(c, i)));
    }
    assert_true(sum > 0.999 && sum < 1.001);
    assert_int_equal(json_integer_value(at(v, "data.2.index")), 2);
    json_decref(v);
    free(r);
    r = post(&w, "/v1/embeddings",
             "{\"input\":[[75,767],[75]],\"encoding_format\":\"base64\",\"pooling\":\"last\"}");
    v = body_of(r);
    assert_true(json_string_length(at(v, "data.1.embedding")) > 100);
    json_decref(v);
    free(r);
    static const char *const bad[] = {"{\"input\":[]}", "{\"input\":[\"a\",true]}", "{}",
                                      "{\"input\":\"x\",\"dimensions\":100000}",
                                      "{\"input\":[[-1]]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        r = post(&w, "/v1/embeddings", bad[i]);
        if (r->status != 400) fail_msg("%s: %s", bad[i], r->text);
        v = body_of(r);
        assert_non_null(at(v, "error.message"));
        json_decref(v);
        free(r);
    }
}

/* The mean of a choice's log probabilities. */
static double mean_logprob(const json_t *choice) {
    const json_t *list = at(choice, "logprobs.token_logprobs");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_number_value(json_array_get(list, i));
    return sum / (double)json_array_size(list);
}

/* best_of has the answers that n would have, the most probable first. */
static void test_best_of(void **state) {
    (void)state;
#define ASKED "{\"prompt\":[\"Once upon\",\"The\"],\"max_tokens\":8,\"seed\":4,\"temperature\":1.2"
    reply *r = post(&w, "/v1/completions", ASKED ",\"n\":4,\"logprobs\":0}");
    json_t *all = body_of(r);
    free(r);
    r = post(&w, "/v1/completions", ASKED ",\"n\":2,\"best_of\":4,\"logprobs\":0}");
    json_t *best = body_of(r);
    free(r);
    r = post(&w, "/v1/completions", ASKED ",\"n\":2,\"best_of\":4}");
    json_t *bare = body_of(r);
    free(r);
    assert_int_equal(json_array_size(at(best, "choices")), 4);
    assert_int_equal(json_integer_value(at(best, "usage.completion_tokens")),
                     json_integer_value(at(all, "usage.completion_tokens")));
    for (size_t i = 0; i < 4; i++) {
        const json_t *choice = json_array_get(at(best, "choices"), i);
        double own = mean_logprob(choice);
        int above = 0, found = 0;
        for (size_t k = i / 2 * 4; k < i / 2 * 4 + 4; k++) {
            const json_t *other = json_array_get(at(all, "choices"), k);
            above += mean_logprob(other) > own;
            found += !strcmp(text_at(other, "text"), text_at(choice, "text"));
        }
        assert_int_equal(above, i % 2);
        assert_true(found);
        assert_int_equal(json_integer_value(at(choice, "index")), i);
        const json_t *same = json_array_get(at(bare, "choices"), i);
        assert_string_equal(text_at(same, "text"), text_at(choice, "text"));
        assert_true(json_is_null(at(same, "logprobs")));
    }
    json_decref(all);
    json_decref(best);
    json_decref(bare);
    static const char *const bad[] = {ASKED ",\"n\":2,\"best_of\":1}",
                                      ASKED ",\"best_of\":2,\"stream\":true}",
                                      ASKED ",\"best_of\":100000}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        r = post(&w, "/v1/completions", bad[i]);
        if (r->status != 400 || !strstr(r->text, "best_of")) fail_msg("%s: %s", bad[i], r->text);
        free(r);
    }
#undef ASKED
}

static void test_other_paths(void **state) {
    (void)state;
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *says;
    } cases[] = {
        {"GET", "/health", "", 200, "\"ok\""},
        {"GET", "/ready", "", 200, "\"ready\""},
        {"GET", "/v1/models", "", 200, "\"id\":\"demo\""},
        {"GET", "/props", "", 200, "\"models\":["},
        {"GET", "/metrics", "", 200, "kentang_time_to_first_token_seconds_bucket{model=\"demo\""},
        {"GET", "/api/tags", "", 200, "\"name\":\"demo\""},
        {"POST", "/tokenize", "{\"content\":\"hello\"}", 200, "\"tokens\":["},
        {"POST", "/detokenize", "{\"tokens\":[75]}", 200, "\"content\":"},
        {"POST", "/apply-template", "{" STORY "}", 200, "<|im_start|>user"},
        {"POST", "/cancel", "{\"id\":\"chatcmpl-none\"}", 404, "no running request"},
        {"GET", "/nothing", "", 404, "nothing at /nothing\""},
        {"POST", "/completion", "{}", 400, "prompt: is missing"},
        {"POST", "/embedding", "{}", 400, "input: expected"},
        {"GET", "/slots", "", 200, "\"is_processing\":false"},
        {"POST", "/chat/completions", "{}", 400, "messages"},
        {"GET", "/v1/health", "", 200, "\"ok\""},
        {"GET", "/props", "", 200, "\"default_generation_settings\":{\"n_ctx\":"},
        {"POST", "/v1/v1/messages", "{}", 404, "it is /v1/messages here"},
        {"POST", "/v1/api/chat", "{}", 404, "it is /api/chat here"},
        {"GET", "/v1/chat/completions", "", 405, "only POST"},
        {"POST", "/tokenize", "{}", 400, "expected a text"},
        {"POST", "/v1/chat/completions", "{", 400, "not JSON"},
        {"POST", "/v1/chat/completions", "{" STORY ",\"model\":\"gpt-4\",\"max_tokens\":1}", 200,
         "\"model\":\"demo\""},
        {"POST", "/v1/chat/completions", "{" STORY ",\"tools\":[{\"type\":\"odd\"}]}", 400,
         "\"param\":\"tools[0]"},
        {"POST", "/v1/chat/completions",
         "{" STORY ",\"response_format\":{\"type\":\"json_schema\"}}", 400, "json_schema"},
        {"POST", "/v1/chat/completions", "{" STORY ",\"choice\":[\"yes\",\"no\"]}", 200,
         "\"finish_reason\":\"stop\""},
        {"POST", "/v1/chat/completions",
         "{" STORY ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\","
         "\"schema\":{\"properties\":{\"a\":{\"format\":3}}}}}}",
         400, "\"param\":\"response_format.json_schema.schema/properties/a/format\""},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"regex\":\"(?<=a)b\"}", 400,
         "\"param\":\"regex\""},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"grammar\":\"root ::= (\"}", 400,
         "\"param\":\"grammar\""},
        {"POST", "/v1/messages",
         "{" STORY ",\"max_tokens\":40,\"output_config\":{\"format\":{\"type\":\"json_schema\","
         "\"schema\":{\"const\":\"yes\"}}}}",
         200, "\\\"yes\\\""},
        {"POST", "/v1/messages",
         "{" STORY ",\"max_tokens\":40,\"output_format\":{\"type\":\"json_schema\","
         "\"schema\":{\"type\":\"x\"}}}",
         400, "output_config.format.schema/type: "},
        {"POST", "/v1/messages", "{" STORY ",\"max_tokens\":4,\"output_config\":7}", 400,
         "output_config"},
        {"POST", "/v1/messages", "{" STORY ",\"max_tokens\":4}", 200, "\"type\":\"message\""},
        {"POST", "/v1/messages", "{" STORY "}", 400, "\"type\":\"error\""},
        {"POST", "/api/generate",
         "{\"prompt\":\"hi\",\"stream\":false,\"options\":{"
         "\"num_predict\":3}}",
         200, "\"done\":true"},
        {"POST", "/api/chat", "{" STORY ",\"stream\":false,\"format\":{\"const\":\"ja\"}}", 200,
         "\\\"ja\\\""},
        {"POST", "/api/chat", "{" STORY ",\"format\":{\"$ref\":\"#/nowhere\"}}", 400,
         "format/$ref"},
        {"POST", "/api/chat", "{" STORY ",\"format\":7}", 400, "\"error\":"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = ask(&w, cases[i].method, cases[i].path, JSON_TYPE, cases[i].body);
        if (r->status != cases[i].status || !strstr(r->text, cases[i].says))
            fail_msg("%s %s: %s", cases[i].path, cases[i].body, r->text);
        if (strstr(r->text, "Access-Control")) fail_msg("CORS: %s", r->text);
        free(r);
    }
}

static void test_cancel_and_disconnect(void **state) {
    (void)state;
    static const char ask_long[] = "{" STORY ",\"ignore_eos\":true,\"max_tokens\":900,"
                                   "\"stream\":true}";
    char head[512], text[65536] = "", id[64] = "", body[128];
    int fd = connect_http(&w);
    int n = snprintf(head, sizeof head,
                     "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                     "Content-Length: %zu\r\n\r\n%s",
                     sizeof ask_long - 1, ask_long);
    assert_true(send_all(fd, head, (size_t)n));
    assert_true(receive_until(fd, text, sizeof text, "X-Request-Id: "));
    assert_true(receive_until(fd, text, sizeof text, "data: "));
    sscanf(strstr(text, "X-Request-Id: ") + 14, "%60[^\r]", id);
    snprintf(body, sizeof body, "{\"id\":\"%s\"}", id);
    reply *r = post(&w, "/cancel", body);
    assert_int_equal(r->status, 200);
    free(r);
    assert_true(receive_until(fd, text, sizeof text, "\"finish_reason\":\"length\""));
    close(fd);
    for (int i = 0; i < 10; i++) { /* gone in the middle, sometimes before anything came */
        fd = connect_http(&w);
        assert_true(send_all(fd, head, (size_t)n));
        if (i % 2) usleep(10000);
        close(fd);
    }
    for (int i = 0;; i++) {
        pthread_mutex_lock(&w.server->shared.lock);
        size_t left = w.server->shared.n_jobs;
        pthread_mutex_unlock(&w.server->shared.lock);
        if (!left) break;
        if (i > 300) fail_msg("requests of clients that are gone still run");
        usleep(10000);
    }
}

/* ---- limits and models ---- */

static void test_deadline(void **state) {
    (void)state;
    reply *r = post(&w, "/v1/completions",
                    "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":1000,\"deadline_ms\":1}");
    assert_true(r->status == 429 || strstr(r->text, "\"deadline\""));
    if (r->status == 429) { /* trying again would not help */
        assert_null(strstr(r->text, "Retry-After"));
        assert_non_null(strstr(r->text, "X-Should-Retry: false"));
    }
    free(r);
}

static bool is_loaded(world *mine, size_t i) {
    kt__served_info info;
    kt__served_get_info(kt__models_at(mine->server->shared.models, i), &info);
    return info.loaded;
}

/* The second model is loaded by its first request; both are unloaded when idle; counts go on. */
static void test_several_models(void **state) {
    kt_error err;
    world mine = {0};
    static const char *const settings[] = {
        "toml=idle_unload_s = 1\n[[models]]\nname = 'one'\n[[models]]\nname = 'two'\n", NULL};
    (void)state;
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    assert_true(is_loaded(&mine, 0) && !is_loaded(&mine, 1));
    for (int round = 0; round < 2; round++) {
        reply *r = post(
            &mine, "/v1/completions",
            "{\"model\":\"two\",\"prompt\":\"x\",\"max_tokens\":3,\"ignore_eos\":true}");
        json_t *v = body_of(r);
        assert_string_equal(text_at(v, "model"), "two");
        json_decref(v);
        free(r);
        assert_true(is_loaded(&mine, 1));
        for (int i = 0; is_loaded(&mine, 1) || is_loaded(&mine, 0); i++) {
            if (i > 100) fail_msg("idle models stay loaded");
            usleep(100000);
        }
    }
    kt_engine_stats st;
    kt__served_get_stats(kt__models_at(mine.server->shared.models, 1), &st);
    assert_int_equal(st.generated_tokens, 6);
    world_close(&mine);
}

/* A model may be named as its operator likes; in Prometheus' text the name is escaped. */
static void test_odd_model_name(void **state) {
    kt_error err;
    world mine = {0};
    static const char *const settings[] = {"toml=[[models]]\nname = 'a\"b\\c'\n", NULL};
    (void)state;
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    reply *r = ask(&mine, "GET", "/metrics", "", "");
    assert_non_null(strstr(r->text, "\nkentang_model_loaded{model=\"a\\\"b\\\\c\"} 1\n"));
    assert_non_null(strstr(r->text, "_bucket{model=\"a\\\"b\\\\c\",le=\"0.001\"} 0\n"));
    assert_non_null(strstr(r->text, ",le=\"+Inf\"} 0\n"));
    free(r);
    world_close(&mine);
}

/* json_object: what ends by itself is one JSON object. */
static void test_json_object(void **state) {
    (void)state;
    for (int seed = 1; seed < 5; seed++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"An object, please.\"}],"
                 "\"response_format\":{\"type\":\"json_object\"},\"seed\":%d,"
                 "\"max_tokens\":400}",
                 seed);
        reply *r = post(&w, "/v1/chat/completions", body);
        json_t *v = body_of(r);
        if (!strcmp(text_at(v, "choices.0.finish_reason"), "stop")) {
            json_t *object = json_loads(text_at(v, "choices.0.message.content"), 0, NULL);
            assert_true(json_is_object(object));
            json_decref(object);
        } else {
            assert_string_equal(text_at(v, "choices.0.finish_reason"), "length");
        }
        json_decref(v);
        free(r);
    }
}

/* The hash of the whole file, which a disk cache asks for, comes while the server is idle. */
static void expect_hash(const world *mine) {
    reply *r = NULL;
    for (int tries = 0; tries < 300; tries++) {
        free(r);
        usleep(50000);
        r = ask(mine, "GET", "/props", "", "");
        if (strstr(r->text, "\"full_hash\":{\"state\":\"known\"")) break;
        assert_non_null(strstr(r->text, "\"full_hash\":{\"state\":\"running\""));
    }
    assert_non_null(strstr(r->text, "\"hash\":\""));
    free(r);
    r = ask(mine, "GET", "/metrics", "", "");
    assert_non_null(strstr(r->text, "\nkentang_model_hashed_ratio{model=\"demo\"} 1\n"));
    free(r);
}

/* What an earlier process computed is found again, and the answer is the same. */
static void test_disk_cache(void **state) {
    kt_error err;
    world mine = {0};
    char setting[128], texts[2][4096], dir[] = "/tmp/kentang-cache-XXXXXX", command[64];
    int64_t cached[2];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(setting, sizeof setting, "cache.dir=%s", dir);
    const char *const settings[] = {setting, NULL};
    for (int i = 0; i < 2; i++) {
        if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
        reply *r = post(
            &mine, "/v1/chat/completions",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a long story about a "
            "dog that lives on a farm with a horse, two cows, a goat and an old cat who "
            "does not like the rain.\"}],\"seed\":3,\"max_tokens\":40}");
        json_t *v = body_of(r);
        snprintf(texts[i], sizeof texts[i], "%s", text_at(v, "choices.0.message.content"));
        cached[i] = json_integer_value(at(v, "usage.prompt_tokens_details.cached_tokens"));
        json_decref(v);
        free(r);
        if (i == 1) expect_hash(&mine);
        world_close(&mine);
    }
    assert_string_equal(texts[0], texts[1]);
    assert_int_equal(cached[0], 0);
    assert_true(cached[1] >= 16);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* Metrics come at once while everything computes. */
static void test_metrics_under_load(void **state) {
    (void)state;
    static const char ask_long[] =
        "{\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":500,\"stream\":true}\n";
    int fd = connect_socket(&w);
    for (int i = 0; i < 8; i++) assert_true(send_all(fd, ask_long, sizeof ask_long - 1));
    for (int i = 0; i < 5; i++) {
        reply *r = ask(&w, "GET", "/metrics", "", "");
        assert_int_equal(r->status, 200);
        assert_non_null(strstr(r->text, "kentang_num_requests_running"));
        free(r);
    }
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_framing),
        cmocka_unit_test(test_completions),
        cmocka_unit_test(test_several_prompts),
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_best_of),
        cmocka_unit_test(test_other_paths),
        cmocka_unit_test(test_cancel_and_disconnect),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_metrics_under_load),
        cmocka_unit_test(test_several_models),
        cmocka_unit_test(test_odd_model_name),
        cmocka_unit_test(test_json_object),
        cmocka_unit_test(test_disk_cache),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
