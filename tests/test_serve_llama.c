/* serve: llama-server's own paths in its own shapes, and what its clients' bodies have that no other's have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "http.prefix=/llm/", NULL)

static json_t *completion(const char *body, int status) {
    reply *r = post(&w, "/completion", body);
    if (r->status != status) fail_msg("%s: %s", body, r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

static void test_completion(void **state) {
    (void)state;
    json_t *v = completion("{\"prompt\":\"Once upon a time\",\"n_predict\":6,\"temperature\":0,"
                           "\"seed\":7,\"return_tokens\":true}",
                           200);
    assert_true(json_is_true(at(v, "stop")));
    assert_string_equal(text_at(v, "stop_type"), "limit");
    assert_int_equal(json_integer_value(at(v, "timings.predicted_n")), 6);
    assert_int_equal(json_array_size(at(v, "tokens")), 6);
    assert_int_equal(json_integer_value(at(v, "generation_settings.n_predict")), 6);
    assert_int_equal(json_integer_value(at(v, "generation_settings.seed")), 7);
    assert_non_null(strstr(text_at(v, "prompt"), "Once upon a time"));
    assert_int_equal(json_integer_value(at(v, "tokens_evaluated")),
                     json_integer_value(at(v, "timings.prompt_n")) +
                         json_integer_value(at(v, "timings.cache_n")));
    assert_true(json_is_false(at(v, "truncated")));
    json_decref(v);
}

/* A prompt that leaves room for ten tokens, and an answer of thirty: it ends there, or continues where that is asked for. */
static void test_a_full_context(void **state) {
    (void)state;
    reply *props = ask(&w, "GET", "/props", "", "");
    json_t *v = body_of(props);
    size_t n_ctx = (size_t)json_integer_value(at(v, "default_generation_settings.n_ctx")), len = 0;
    json_decref(v);
    free(props);
    char *body = malloc(n_ctx * 4 + 256);
    assert_non_null(body);
    for (int shifts = 0; shifts < 2; shifts++) {
        len = (size_t)sprintf(body,
                              "{\"n_predict\":30,\"ignore_eos\":true,\"n_keep\":4,"
                              "\"context_shift\":%s,\"prompt\":[12",
                              shifts ? "true" : "false");
        for (size_t i = 11; i < n_ctx; i++) len += (size_t)sprintf(body + len, ",%zu", 13 + i % 50);
        memcpy(body + len, "]}", 3);
        v = completion(body, 200);
        assert_true(json_is_true(at(v, "truncated")));
        assert_int_equal(json_integer_value(at(v, "tokens_evaluated")), n_ctx - 10);
        assert_int_equal(json_integer_value(at(v, "tokens_predicted")), shifts ? 30 : 10);
        assert_int_equal(json_integer_value(at(v, "generation_settings.n_keep")), 4);
        json_decref(v);
    }
    free(body);
    json_decref(completion("{\"prompt\":\"Once\",\"n_keep\":-2}", 400));
}

static void test_fields_that_are_wanted(void **state) {
    (void)state;
    json_t *v = completion("{\"prompt\":\"Once\",\"n_predict\":2,\"response_fields\":[\"content\","
                           "\"generation_settings/n_predict\"]}",
                           200);
    assert_int_equal(json_object_size(v), 2);
    assert_int_equal(json_integer_value(json_object_get(v, "generation_settings/n_predict")), 2);
    json_decref(v);
    json_decref(completion("{\"prompt\":\"Once\",\"response_fields\":[1]}", 400));
}

/* Several prompts are answered by an array, each as it would be alone; ids and texts may be mixed. */
static void test_prompts(void **state) {
    (void)state;
    json_t *v = completion("{\"prompt\":[\"Once\",[12,13],{\"prompt_string\":\"Once\"}],"
                           "\"n_predict\":3,\"temperature\":0}",
                           200);
    assert_int_equal(json_array_size(v), 3);
    assert_string_equal(text_at(v, "0.content"), text_at(v, "2.content"));
    json_decref(v);
    json_decref(completion("{\"prompt\":[12,\"Once\",13],\"n_predict\":1}", 200));
    json_decref(
        completion("{\"prompt\":{\"prompt_string\":\"x\",\"multimodal_data\":[\"aa\"]}}", 400));
    json_decref(completion("{\"prompt\":[true]}", 400));
    json_decref(completion("{\"n_predict\":1}", 400));
}

static void test_probabilities(void **state) {
    (void)state;
    json_t *v = completion("{\"prompt\":\"Once\",\"n_predict\":2,\"temperature\":0,\"n_probs\":3}",
                           200);
    assert_int_equal(json_array_size(at(v, "completion_probabilities")), 2);
    assert_int_equal(json_array_size(at(v, "completion_probabilities.0.top_logprobs")), 3);
    assert_true(json_real_value(at(v, "completion_probabilities.0.logprob")) <= 0);
    json_decref(v);
    v = completion(
        "{\"prompt\":\"Once\",\"n_predict\":2,\"top_k\":2,\"top_p\":1,\"min_p\":0,\"n_probs\":5,"
        "\"post_sampling_probs\":true}",
        200);
    double sum = 0;
    assert_int_equal(json_array_size(at(v, "completion_probabilities.0.top_probs")), 2);
    for (int i = 0; i < 2; i++)
        sum += json_number_value(at(v, i ? "completion_probabilities.0.top_probs.1.prob"
                                         : "completion_probabilities.0.top_probs.0.prob"));
    assert_true(sum > 0.9999 && sum < 1.0001);
    assert_true(json_number_value(at(v, "completion_probabilities.1.prob")) > 0);
    json_decref(v);
}

/* Chunks before the first token say how far the prompt is, those with tokens what they took so far. */
static void test_progress(void **state) {
    (void)state;
    static const struct {
        const char *path, *body;
    } cases[] = {
        {"/completion", "{\"prompt\":\"Once upon a time there was a cat\",\"n_predict\":4"},
        {"/v1/chat/completions", "{" STORY ",\"max_tokens\":4"},
        {"/v1/completions", "{\"prompt\":\"Once upon a time\",\"max_tokens\":4"},
        {"/v1/responses", "{\"input\":\"A story, please\",\"max_output_tokens\":4"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[512];
        int n_progress = 0, n_timed = 0;
        json_int_t processed = -1, total = 0;
        snprintf(
            body, sizeof body,
            "%s,\"stream\":true,\"return_progress\":true,\"timings_per_token\":true,\"ignore_eos\":true}",
            cases[i].body);
        reply *r = post(&w, cases[i].path, body);
        unchunk(r);
        for (char *line = r->body; (line = strstr(line, "data: {")) != NULL; line++) {
            json_t *v = json_loads(line + 6, JSON_DISABLE_EOF_CHECK, NULL);
            n_timed += json_integer_value(at(v, "timings.predicted_n")) > 0;
            if (at(v, "prompt_progress")) {
                assert_int_equal(n_timed, 0);
                assert_true(json_integer_value(at(v, "prompt_progress.processed")) > processed);
                processed = json_integer_value(at(v, "prompt_progress.processed"));
                total = json_integer_value(at(v, "prompt_progress.total"));
                if (!n_progress++)
                    assert_int_equal(processed, json_integer_value(at(v, "prompt_progress.cache")));
            }
            json_decref(v);
        }
        if (n_progress < 2 || processed != total || n_timed < 3)
            fail_msg("%s: %d, %d of %d, %d: %s", cases[i].path, n_progress, (int)processed,
                     (int)total, n_timed, r->body);
        free(r);
    }
}

/* What a chat's request became; without the word nothing is said. */
static void test_verbose(void **state) {
    (void)state;
    for (int on = 0; on < 2; on++) {
        char body[256];
        snprintf(body, sizeof body, "{" STORY ",\"max_tokens\":2,\"seed\":3,\"verbose\":%s}",
                 on ? "true" : "false");
        reply *r = post(&w, "/v1/chat/completions", body);
        json_t *v = body_of(r);
        assert_true(!at(v, "__verbose") == !on);
        if (on) {
            assert_non_null(strstr(text_at(v, "__verbose.prompt"), "Tell me a story about a cat."));
            assert_string_equal(text_at(v, "__verbose.content"),
                                text_at(v, "choices.0.message.content"));
            assert_int_equal(json_integer_value(at(v, "__verbose.generation_settings.seed")), 3);
        }
        json_decref(v);
        free(r);
    }
}

/* Ends of a turn that are forbidden are biases of the settings. */
static void test_ignored_ends(void **state) {
    (void)state;
    json_t *v = completion("{\"prompt\":\"Once\",\"n_predict\":1,\"ignore_eos\":true}", 200);
    assert_true(json_array_size(at(v, "generation_settings.logit_bias")) > 0);
    assert_true(json_is_null(at(v, "generation_settings.logit_bias.0.bias")));
    json_decref(v);
    v = completion("{\"prompt\":\"Once\",\"n_predict\":1}", 200);
    assert_int_equal(json_array_size(at(v, "generation_settings.logit_bias")), 0);
    json_decref(v);
}

/* llama-server's timings are numbers, one computed from the other; its rates on /metrics are those since the last look. */
static void test_timings_and_rates(void **state) {
    (void)state;
    json_t *v = completion("{\"prompt\":\"Once\",\"n_predict\":5,\"ignore_eos\":true}", 200),
           *number;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)at(v, "timings"), key, number)
        assert_true(json_is_number(number));
    double ms = json_number_value(at(v, "timings.predicted_ms"));
    double rate = json_number_value(at(v, "timings.predicted_per_second"));
    assert_true(rate > 1e3 / ms * 4 - 1e-6 && rate < 1e3 / ms * 4 + 1e-6);
    json_decref(v);
    for (int look = 0; look < 2; look++) {
        reply *r = ask(&w, "GET", "/metrics", "", "");
        assert_non_null(strstr(r->text, "Process-Start-Time-Unix: "));
        assert_non_null(strstr(r->body, "llamacpp:n_tokens_max "));
        const char *at_rate = strstr(r->body, "\nllamacpp:predicted_tokens_seconds ");
        assert_non_null(at_rate);
        assert_true((strtod(at_rate + strlen("\nllamacpp:predicted_tokens_seconds "), NULL) > 0) ==
                    !look);
        free(r);
    }
}

/* Ids and texts mixed, objects with texts, nothing at all: each is one input. */
static void test_inputs_of_embeddings(void **state) {
    (void)state;
    static const char *const taken[] = {"[12,34,\"string\",56]", "{\"prompt_string\":\"one two\"}",
                                        "{\"content\":[{\"type\":\"text\",\"text\":\"one \"},"
                                        "{\"type\":\"text\",\"text\":\"two\"}]}",
                                        "[\"one two\",[12,\"string\",34]]", "\"one two\""};
    static const char *const refused[] = {
        "{}", "{\"content\":\"one\"}", "[[true]]", "[12,true]",
        "{\"content\":[{\"type\":\"image_url\",\"text\":\"x\"}]}"};
    char body[256], first[64] = "";
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        snprintf(body, sizeof body, "{\"input\":%s}", taken[i]);
        reply *r = post(&w, "/v1/embeddings", body);
        if (r->status != 200) fail_msg("%s: %s", taken[i], r->text);
        json_t *v = body_of(r);
        snprintf(body, sizeof body, "%.9g", json_number_value(at(v, "data.0.embedding.0")));
        if (i == 1) snprintf(first, sizeof first, "%s", body);
        if (i == 2 || i == 4) assert_string_equal(body, first);
        json_decref(v);
        free(r);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        snprintf(body, sizeof body, "{\"input\":%s}", refused[i]);
        reply *r = post(&w, "/v1/embeddings", body);
        if (r->status != 400) fail_msg("%s: %s", refused[i], r->text);
        assert_non_null(strstr(r->body, "input"));
        free(r);
    }
}

/* Chunks have the tokens of their text; put together it is the whole answer. */
static void test_stream(void **state) {
    (void)state;
    char text[4096] = "";
    json_t *whole = completion("{\"prompt\":\"Once\",\"n_predict\":8,\"temperature\":0}", 200);
    reply *r = post(&w, "/completions",
                    "{\"prompt\":\"Once\",\"n_predict\":8,\"temperature\":0,\"stream\":true}");
    unchunk(r);
    bool stopped = false;
    for (char *line = r->body; (line = strstr(line, "data: ")) != NULL; line++) {
        json_t *v = json_loads(line + 6, JSON_DISABLE_EOF_CHECK, NULL);
        assert_false(stopped);
        stopped = json_is_true(at(v, "stop"));
        if (!stopped) assert_true(json_array_size(at(v, "tokens")) > 0);
        strcat(text, text_at(v, "content"));
        json_decref(v);
    }
    assert_true(stopped);
    assert_string_equal(text, text_at(whole, "content"));
    json_decref(whole);
    free(r);
}

/* A bias on a text is one on each of its tokens. */
static void test_bias_on_texts(void **state) {
    (void)state;
    json_t *plain = completion("{\"prompt\":\"Once\",\"n_predict\":1,\"temperature\":0,"
                               "\"return_tokens\":true}",
                               200);
    char body[512];
    snprintf(
        body, sizeof body,
        "{\"prompt\":\"Once\",\"n_predict\":1,\"temperature\":0,\"logit_bias\":[[\"%s\",false]]}",
        text_at(plain, "content"));
    json_t *other = completion(body, 200);
    assert_string_not_equal(text_at(plain, "content"), text_at(other, "content"));
    json_decref(plain);
    json_decref(other);
}

static void test_state(void **state) {
    (void)state;
    reply *r = ask(&w, "GET", "/props", "", "");
    json_t *v = body_of(r);
    assert_true(json_integer_value(at(v, "default_generation_settings.n_ctx")) > 0);
    assert_true(json_integer_value(at(v, "total_slots")) > 0);
    assert_non_null(strstr(text_at(v, "model_path"), ".gguf"));
    assert_null(strchr(text_at(v, "model_path"), '/'));
    json_decref(v);
    free(r);
    r = ask(&w, "GET", "/models", "", "");
    v = body_of(r);
    assert_string_equal(text_at(v, "data.0.aliases.0"), text_at(v, "data.0.id"));
    json_decref(v);
    free(r);
    r = post(&w, "/v1/chat/completions/input_tokens", "{" STORY "}");
    v = body_of(r);
    assert_true(json_integer_value(at(v, "input_tokens")) > 5);
    json_decref(v);
    free(r);
    r = post(&w, "/embedding", "{\"content\":\"one two\"}");
    v = body_of(r);
    assert_true(json_array_size(at(v, "0.embedding.0")) > 1);
    json_decref(v);
    free(r);
}

/* What stood in real clients' bodies and was refused: each is an answer now, with a note of what was left aside. */
static void test_bodies_of_clients(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *says;
    } cases[] = {
        {"/v1/messages",
         "{" STORY
         ",\"max_tokens\":2,\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"s\"}]}",
         "a tool of type web_search_20250305 is left out"},
        {"/v1/messages",
         "{\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"document\","
         "\"title\":\"Cats\",\"source\":{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":"
         "\"Tom.\"}},{\"type\":\"text\",\"text\":\"Who?\"}]}]}",
         "\"role\":\"assistant\""},
        {"/v1/chat/completions",
         "{\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
         "\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]},{\"role\":\"user\","
         "\"content\":\"b\"}]}",
         "\"choices\""},
        {"/v1/chat/completions",
         "{\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
         "\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
         "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"n\\\": 4, \\\"t\\\": \\\"ha\"}}]},"
         "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":null},{\"role\":\"user\","
         "\"content\":\"b\"}]}",
         "\"choices\""},
        {"/v1/chat/completions",
         "{" STORY ",\"max_tokens\":4,\"structured_outputs\":{\"choice\":[\"Yes\",\"No\"]}}",
         "\"finish_reason\""},
        {"/v1/chat/completions", "{" STORY ",\"max_tokens\":4,\"guided_choice\":[\"Yes\"]}", "Yes"},
        {"/v1/chat/completions",
         "{" STORY ",\"max_tokens\":4,\"functions\":[{\"name\":\"f\",\"parameters\":{\"type\":"
         "\"object\"}}],\"function_call\":\"auto\"}",
         "\"choices\""},
        {"/v1/responses",
         "{\"max_output_tokens\":2,\"input\":[{\"role\":\"user\",\"content\":\"hi\"},{\"type\":"
         "\"web_search_call\",\"id\":\"w\",\"status\":\"completed\"},{\"role\":\"user\",\"content\":"
         "\"go\"}]}",
         "\"output\""},
        {"/v1/responses",
         "{\"max_output_tokens\":60,\"input\":\"hi\",\"tool_choice\":\"required\",\"tools\":[{"
         "\"type\":\"namespace\",\"name\":\"m\",\"tools\":[{\"type\":\"function\",\"name\":\"find\","
         "\"parameters\":{\"type\":\"object\",\"properties\":{\"q\":{\"enum\":[\"x\"]}},"
         "\"required\":[\"q\"],\"additionalProperties\":false}}]}]}",
         "\"function_call\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = post(&w, cases[i].path, cases[i].body);
        if (r->status != 200 || !strstr(r->body, cases[i].says))
            fail_msg("%s: %s", cases[i].body, r->text);
        free(r);
    }
}

/* Behind a proxy all paths begin with the prefix; the proxy may have taken it away. */
static void test_prefix_of_paths(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int status;
    } cases[] = {{"/llm/health", 200},   {"/health", 200},      {"/llm/v1/models", 200},
                 {"/llmhealth", 404},    {"/llm2/health", 404}, {"/llm/llm/health", 404},
                 {"/v1/llm/health", 404}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = ask(&w, "GET", cases[i].path, "", "");
        if (r->status != cases[i].status) fail_msg("%s: %s", cases[i].path, r->text);
        free(r);
    }
}

/* What requests have that do not say it, and what gives way to what they say. */
static void test_request_defaults(void **state) {
    (void)state;
    world mine = {0};
    kt_error err;
    const char *const settings[] = {
        "request_defaults={\"max_tokens\":3,\"ignore_eos\":true,\"grammar\":\"root ::= \\\"yes\\\" | "
        "\\\"no\\\"\",\"n_keep\":null}",
        NULL};
    if (world_open(&mine, &err, settings) != KT_OK) fail_msg("%s", err.message);
    reply *r = post(&mine, "/v1/chat/completions",
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}");
    assert_int_equal(r->status, 200);
    json_t *v = body_of(r);
    const char *said = text_at(v, "choices.0.message.content");
    assert_true(!strcmp(said, "yes") || !strcmp(said, "no"));
    json_decref(v);
    free(r);
    r = post(&mine, "/v1/chat/completions",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":9,"
             "\"choice\":[\"maybe\"]}");
    assert_int_equal(r->status, 200);
    v = body_of(r);
    assert_string_equal(text_at(v, "choices.0.message.content"), "maybe");
    json_decref(v);
    free(r);
    r = post(&mine, "/completion", "{\"prompt\":\"Once\",\"n_predict\":7,\"grammar\":\"\"}");
    v = body_of(r);
    assert_int_equal(json_integer_value(at(v, "tokens_predicted")), 7);
    json_decref(v);
    free(r);
    world_close(&mine);
    const char *const wrong[] = {"request_defaults=[1]", NULL};
    assert_int_equal(world_open(&mine, &err, wrong), KT_E_ARG);
    assert_non_null(strstr(err.message, "request_defaults: expected a JSON object"));
    unlink(mine.socket);
    rmdir(mine.dir);
}

static void test_paths_of_a_router(void **state) {
    (void)state;
    static const struct {
        const char *method, *path, *body;
        int status;
    } cases[] = {{"POST", "/models/load", "{\"model\":\"demo\"}", 403}, /* http.manage is off */
                 {"POST", "/models/unload", "{\"model\":\"demo\"}", 403},
                 {"GET", "/lora-adapters", "", 200},
                 {"POST", "/lora-adapters", "[]", 403},
                 {"GET", "/cors-proxy", "", 403}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = ask(&w, cases[i].method, cases[i].path, "", cases[i].body);
        if (r->status != cases[i].status) fail_msg("%s: %s", cases[i].path, r->text);
        free(r);
    }
}

/* Two beginnings of an answer are one too many, unless the request says that they are continued. */
static void test_two_beginnings(void **state) {
    (void)state;
    static const char two[] =
        "{\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
        "{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"assistant\","
        "\"content\":\"b\"}]";
    char body[400];
    reply *r;
    for (int said = 0; said < 2; said++) {
        snprintf(body, sizeof body, "%s%s}", two, said ? ",\"continue_final_message\":true" : "");
        r = post(&w, "/v1/chat/completions", body);
        if (r->status != (said ? 200 : 400)) fail_msg("%s: %s", body, r->text);
        free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completion),
        cmocka_unit_test(test_a_full_context),
        cmocka_unit_test(test_fields_that_are_wanted),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_verbose),
        cmocka_unit_test(test_ignored_ends),
        cmocka_unit_test(test_timings_and_rates),
        cmocka_unit_test(test_inputs_of_embeddings),
        cmocka_unit_test(test_probabilities),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_bias_on_texts),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_bodies_of_clients),
        cmocka_unit_test(test_prefix_of_paths),
        cmocka_unit_test(test_request_defaults),
        cmocka_unit_test(test_paths_of_a_router),
        cmocka_unit_test(test_two_beginnings),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
