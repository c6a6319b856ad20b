/* serve: what clients of other servers call, and expect to find. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "limits.body=256K", "aliases=gpt-4o, tiny=demo", NULL)

/* An answer with this status; it is freed by the caller. */
static json_t *answer_of(const char *method, const char *path, const char *body, int status) {
    reply *r = ask(&w, method, path, *body ? JSON_TYPE : "", body);
    if (r->status != status) fail_msg("%s %s: %s", path, body, r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

static void test_paths(void **state) {
    (void)state;
    static const struct {
        const char *method, *path;
        int status;
        const char *says;
    } cases[] = {
        {"GET", "/", 200, "kentang is running"},
        {"HEAD", "/", 200, "Content-Type: text/plain"},
        {"GET", "/v1/models/demo", 200, "\"object\":\"model\""},
        {"GET", "/v1/models/d%65mo", 200, "\"display_name\":"},
        {"GET", "/v1/models/demo/", 200, "\"id\":\"demo\""},
        {"GET", "/v1/models/", 200, "\"object\":\"list\""},
        {"GET", "/v1/models/none", 404, "there is: demo"},
        {"GET", "/v1/models/%00", 404, "\"error\""},
        {"POST", "/v1/models/demo", 405, "only GET"},
        {"GET", "/health/", 200, "\"ok\""},
        {"GET", "/health//", 404, "nothing"},
        /* in the words of those who ask */
        {"POST", "/api/nothing", 404, "{\"error\":\""},
        {"POST", "/v1/messages/batches", 404, "\"type\":\"not_found_error\""},
        {"POST", "/v1/realtime", 404, "\"type\":\"invalid_request_error\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = ask(&w, cases[i].method, cases[i].path, "", "");
        if (r->status != cases[i].status || !strstr(r->text, cases[i].says))
            fail_msg("%s: %s", cases[i].path, r->text);
        free(r);
    }
}

/* ---- embeddings ---- */

static void test_dimensions(void **state) {
    (void)state;
    json_t *all = answer_of("POST", "/v1/embeddings", "{\"input\":\"one two\"}", 200);
    json_t *cut = answer_of("POST", "/v1/embeddings", "{\"input\":\"one two\",\"dimensions\":7}",
                            200);
    const json_t *a = at(all, "data.0.embedding"), *c = at(cut, "data.0.embedding");
    double norm = 0, length = 0;
    assert_int_equal(json_array_size(c), 7);
    for (size_t i = 0; i < 7; i++) norm += pow(json_number_value(json_array_get(a, i)), 2);
    for (size_t i = 0; i < 7; i++) {
        double x = json_number_value(json_array_get(c, i));
        length += x * x;
        assert_true(fabs(x - json_number_value(json_array_get(a, i)) / sqrt(norm)) < 1e-6);
    }
    assert_true(fabs(length - 1) < 1e-6);
    json_decref(all);
    json_decref(cut);
}

static void test_ollama_embeddings(void **state) {
    (void)state;
    json_t *one = answer_of("POST", "/api/embeddings", "{\"model\":\"demo\",\"prompt\":\"one\"}",
                            200);
    json_t *two = answer_of("POST", "/api/embed", "{\"model\":\"demo\",\"input\":\"one\"}", 200);
    assert_true(json_equal(at(one, "embedding"), at(two, "embeddings.0")));
    json_decref(one);
    json_decref(two);
    json_decref(answer_of("POST", "/api/embeddings", "{\"model\":\"demo\"}", 400));
    /* too long: cut to the context, unless the client says that it must not */
    char *body = malloc(100000);
    size_t len = (size_t)sprintf(body, "{\"model\":\"demo\",\"input\":[\"");
    for (int i = 0; i < 12000; i++) len += (size_t)sprintf(body + len, "cat %c", 'a' + i % 26);
    strcpy(body + len, "\"]}");
    json_t *v = answer_of("POST", "/api/embed", body, 200);
    kt__served_info info;
    kt__served_get_info(kt__models_at(w.server->shared.models, 0), &info);
    assert_int_equal(json_integer_value(at(v, "prompt_eval_count")), info.engine.n_ctx);
    json_decref(v);
    strcpy(body + len, "\"],\"truncate\":false}");
    v = answer_of("POST", "/api/embed", body, 400);
    assert_non_null(strstr(text_at(v, "error"), "exceeds the available context size"));
    json_decref(v);
    free(body);
}

/* ---- an answer that goes on from the last message ---- */

#define USER "{\"role\":\"user\",\"content\":\"Tell me a story.\"}"
#define BEGUN "{\"role\":\"assistant\",\"content\":\"Once upon a\"}"

static void test_continued(void **state) {
    (void)state;
    char prompt[4096], body[8192], expected[1024];
    json_t *v = answer_of("POST", "/apply-template", "{\"messages\":[" USER "]}", 200);
    snprintf(prompt, sizeof prompt, "%sOnce upon a", text_at(v, "prompt"));
    json_decref(v);
    json_t *text = json_string(prompt);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    snprintf(body, sizeof body, "{\"prompt\":%s,\"temperature\":0,\"max_tokens\":12}", quoted);
    v = answer_of("POST", "/v1/completions", body, 200);
    snprintf(expected, sizeof expected, "%s", text_at(v, "choices.0.text"));
    assert_true(expected[0]);
    json_decref(v);
    free(quoted);
    json_decref(text);
    static const struct {
        const char *path, *messages, *rest, *at_text;
    } cases[] = {
        {"/v1/messages", USER "," BEGUN, "", "content.0.text"},
        {"/v1/messages",
         USER
         ",{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Once upon a\"}]}",
         "", "content.0.text"},
        {"/v1/chat/completions", USER "," BEGUN,
         ",\"continue_final_message\":true,\"add_generation_prompt\":false",
         "choices.0.message.content"},
        {"/v1/chat/completions",
         USER ",{\"role\":\"assistant\",\"content\":\"Once upon a\",\"prefix\":true}", "",
         "choices.0.message.content"},
        {"/v1/chat/completions", USER "," BEGUN, "", "choices.0.message.content"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body, "{\"messages\":[%s],\"temperature\":0,\"max_tokens\":12%s}",
                 cases[i].messages, cases[i].rest);
        v = answer_of("POST", cases[i].path, body, 200);
        assert_string_equal(text_at(v, cases[i].at_text), expected);
        json_decref(v);
    }
    v = answer_of("POST", "/apply-template",
                  "{\"messages\":[" USER "," BEGUN "],\"continue_final_message\":true}", 200);
    assert_string_equal(text_at(v, "prompt"), prompt);
    json_decref(v);
    v = answer_of("POST", "/apply-template",
                  "{\"messages\":[" USER "],\"add_generation_prompt\":false}", 200);
    assert_true(strlen(text_at(v, "prompt")) < strlen(prompt) - strlen("Once upon a"));
    json_decref(v);
    json_decref(answer_of("POST", "/v1/chat/completions",
                          "{\"messages\":[" USER "],\"continue_final_message\":true}", 400));
    json_decref(answer_of("POST", "/v1/chat/completions",
                          "{\"messages\":[" USER "," BEGUN "],\"continue_final_message\":true,"
                          "\"add_generation_prompt\":true}",
                          400));
    for (int i = 0; i < 2; i++) { /* a new message begins after it */
        v = answer_of("POST", "/apply-template",
                      i ? "{\"messages\":[" USER "," BEGUN "],\"continue_final_message\":false}"
                        : "{\"messages\":[" USER "," BEGUN "],\"add_generation_prompt\":true}",
                      200);
        assert_true(strlen(text_at(v, "prompt")) > strlen(prompt));
        json_decref(v);
    }
    json_decref(
        answer_of("POST", "/v1/messages", "{\"messages\":[" BEGUN "],\"max_tokens\":3}", 400));
}

/* ---- members that change an answer's meaning ---- */

static void test_not_ignored(void **state) {
    (void)state;
    static const char *const refused[] = {
        "\"guided_regex\":\"(\"",
        "\"structured_outputs\":{\"choice\":[]}",
        "\"min_tokens\":-1",
        "\"stop_token_ids\":[3]",
        "\"chat_template\":\"{{ 1 }}\"",
        "\"prompt\":\"beside the messages\"",
    };
    static const char *const harmless[] = {"\"min_tokens\":0", "\"stop_token_ids\":[]",
                                           "\"guided_regex\":null"};
    char body[1024];
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(body, sizeof body, "{" STORY ",\"max_tokens\":1,%s}", refused[i]);
        json_decref(answer_of("POST", "/v1/chat/completions", body, 400));
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        snprintf(body, sizeof body, "{" STORY ",\"max_tokens\":1,%s}", harmless[i]);
        json_decref(answer_of("POST", "/v1/chat/completions", body, 200));
    }
    json_t *a = answer_of("POST", "/v1/chat/completions",
                          "{" STORY ",\"max_tokens\":9,\"random_seed\":5}", 200);
    json_t *b = answer_of("POST", "/v1/chat/completions", "{" STORY ",\"max_tokens\":9,\"seed\":5}",
                          200);
    assert_true(json_equal(at(a, "choices.0.message"), at(b, "choices.0.message")));
    assert_int_equal(json_integer_value(at(a, "kentang.seed")), 5);
    json_decref(a);
    json_decref(b);
}

static void test_byte_order_mark(void **state) {
    (void)state;
    json_decref(answer_of("POST", "/tokenize", "\xef\xbb\xbf{\"content\":\"a\"}", 200));
}

/* ---- tokens, as vLLM's clients and lm-evaluation-harness ask for them ---- */

static void test_tokenizer(void **state) {
    (void)state;
    json_t *a = answer_of("POST", "/tokenize", "{\"content\":\"A \xc3\xa9 cat\"}", 200);
    json_t *b = answer_of("POST", "/tokenize",
                          "{\"prompt\":\"A \xc3\xa9 cat\",\"add_special_tokens\":false}", 200);
    assert_true(json_equal(a, b));
    assert_int_equal(json_integer_value(at(b, "count")), json_array_size(at(b, "tokens")));
    char *tokens = json_dumps(at(b, "tokens"), 0), body[512];
    snprintf(body, sizeof body, "{\"tokens\":%s}", tokens);
    json_t *text = answer_of("POST", "/detokenize", body, 200);
    assert_string_equal(text_at(text, "prompt"), "A \xc3\xa9 cat");
    assert_string_equal(text_at(text, "content"), "A \xc3\xa9 cat");
    json_t *pieces = answer_of("POST", "/tokenize", "{\"content\":\"A cat\",\"with_pieces\":true}",
                               200);
    assert_true(json_is_integer(at(pieces, "tokens.0.id")));
    assert_string_equal(text_at(pieces, "tokens.0.piece"), "A");
    json_t *info = answer_of("GET", "/tokenizer_info", "", 200);
    assert_true(*text_at(info, "eos_token") && *text_at(info, "chat_template"));
    json_decref(info);
    json_decref(pieces);
    json_decref(text);
    free(tokens);
    json_decref(a);
    json_decref(b);
}

/* lm-evaluation-harness: local-completions. What it sends for two answers to a question: contexts and
 * continuations as lists of ids, one token generated. */
static void test_harness(void **state) {
    (void)state;
    json_t *v = answer_of("POST", "/v1/completions",
                          "{\"model\":\"demo\",\"prompt\":[[75,767,75,300,12],[75,767,9]],"
                          "\"temperature\":0,\"max_tokens\":1,\"logprobs\":1,\"seed\":1234,"
                          "\"echo\":true}",
                          200);
    const size_t lengths[] = {5, 3};
    assert_int_equal(json_array_size(at(v, "choices")), 2);
    for (size_t k = 0; k < 2; k++) {
        const json_t *choice = json_array_get(at(v, "choices"), k);
        const json_t *own = at(choice, "logprobs.token_logprobs"),
                     *top = at(choice, "logprobs.top_logprobs");
        assert_int_equal(json_integer_value(at(choice, "index")), k);
        assert_int_equal(json_array_size(own), lengths[k] + 1);
        assert_int_equal(json_array_size(top), lengths[k] + 1);
        assert_true(json_is_null(json_array_get(own, 0)));
        assert_true(json_is_null(json_array_get(top, 0)));
        for (size_t i = 1; i <= lengths[k]; i++) {
            json_t *best = json_array_get(top, i);
            double x = json_number_value(json_array_get(own, i));
            assert_int_equal(json_object_size(best), 1);
            double most = json_number_value(json_object_iter_value(json_object_iter(best)));
            assert_true(x <= most && x < 0);
        }
        /* greedy: the generated token is the most probable one, and the numbers are the same */
        json_t *best = json_array_get(top, lengths[k]);
        assert_true(json_number_value(json_object_iter_value(json_object_iter(best))) ==
                    json_number_value(json_array_get(own, lengths[k])));
    }
    /* the shared beginning says the same in both */
    assert_true(json_equal(at(v, "choices.0.logprobs.token_logprobs.1"),
                           at(v, "choices.1.logprobs.token_logprobs.1")));
    json_decref(v);
}

static void test_echo(void **state) {
    (void)state;
    json_t *v = answer_of("POST", "/v1/completions",
                          "{\"prompt\":\"Once upon a time\",\"max_tokens\":0,\"echo\":true,"
                          "\"logprobs\":3,\"n\":2}",
                          200);
    for (size_t k = 0; k < 2; k++) {
        const json_t *choice = json_array_get(at(v, "choices"), k);
        const json_t *tokens = at(choice, "logprobs.tokens");
        assert_string_equal(text_at(choice, "text"), "Once upon a time");
        assert_string_equal(text_at(choice, "finish_reason"), "length");
        assert_int_equal(json_array_size(tokens), json_integer_value(at(v, "usage.prompt_tokens")));
        assert_int_equal(json_object_size(json_array_get(at(choice, "logprobs.top_logprobs"), 1)),
                         3);
        assert_int_equal(json_integer_value(json_array_get(at(choice, "logprobs.text_offset"), 0)),
                         0);
    }
    assert_int_equal(json_integer_value(at(v, "usage.completion_tokens")), 0);
    json_decref(v);
    v = answer_of("POST", "/v1/completions",
                  "{\"prompt\":[75,767],\"max_tokens\":3,\"echo\":true,\"ignore_eos\":true}", 200);
    json_t *text = answer_of("POST", "/detokenize", "{\"tokens\":[75,767]}", 200);
    const char *prompt = text_at(text, "content");
    assert_true(!strncmp(text_at(v, "choices.0.text"), prompt, strlen(prompt)));
    assert_true(strlen(text_at(v, "choices.0.text")) > strlen(prompt));
    json_decref(text);
    json_decref(v);
    json_decref(answer_of("POST", "/v1/completions",
                          "{\"prompt\":\"a\",\"echo\":true,\"stream\":true}", 400));
    json_decref(answer_of("POST", "/v1/chat/completions", "{" STORY ",\"echo\":true}", 400));
}

static void test_aliases(void **state) {
    (void)state;
    static const char *const names[] = {"demo", "gpt-4o", "tiny", "gpt-4o:latest"};
    char body[256];
    kt_error err;
    world any = {0};
    for (size_t i = 0; i < 4; i++) {
        snprintf(body, sizeof body, "{\"model\":\"%s\"," STORY ",\"options\":{\"num_predict\":1}}",
                 names[i]);
        reply *r = post(&w, "/api/chat", body);
        if (r->status != 200) fail_msg("%s", r->text);
        free(r);
    }
    json_decref(answer_of("POST", "/v1/completions",
                          "{\"prompt\":\"a\",\"model\":\"gpt-4\",\"max_tokens\":1}", 200));
    static const char *const bad[] = {"aliases=a=none", NULL}, *const all[] = {"aliases=*", NULL},
                             *const strict[] = {"strict_names=true", NULL};
    assert_int_equal(world_open(&any, &err, bad), KT_E_ARG);
    if (world_open(&any, &err, strict) != KT_OK) fail_msg("%s", err.message);
    reply *refused = post(&any, "/v1/completions", "{\"prompt\":\"a\",\"model\":\"gpt-4\"}");
    if (refused->status != 404 || !strstr(refused->body, "there is: demo"))
        fail_msg("%s", refused->text);
    free(refused);
    world_close(&any);
    any = (world){0};
    if (world_open(&any, &err, all) != KT_OK) fail_msg("%s", err.message);
    reply *r = post(&any, "/v1/completions",
                    "{\"prompt\":\"a\",\"model\":\"whatever\",\"max_tokens\":1}");
    if (r->status != 200 || !strstr(r->body, "\"model\":\"demo\"")) fail_msg("%s", r->text);
    free(r);
    world_close(&any);
}

/* Nothing is as good as the model's first token. */
static void test_absent_prompt(void **state) {
    (void)state;
    kt__served_info info;
    char body[256];
    kt__served_get_info(kt__models_at(w.server->shared.models, 0), &info);
    int32_t first = info.model.bos_id >= 0 ? info.model.bos_id : info.model.eos_id;
    snprintf(body, sizeof body, "{\"prompt\":[%d],\"max_tokens\":6,\"temperature\":0}", (int)first);
    json_t *expected = answer_of("POST", "/v1/completions", body, 200);
    static const char *const bodies[] = {"{\"max_tokens\":6,\"temperature\":0}",
                                         "{\"prompt\":\"\",\"max_tokens\":6,\"temperature\":0}"};
    for (size_t i = 0; i < 2; i++) {
        json_t *v = answer_of("POST", "/v1/completions", bodies[i], 200);
        assert_string_equal(text_at(v, "choices.0.text"), text_at(expected, "choices.0.text"));
        json_decref(v);
    }
    json_decref(expected);
}

/* What Open WebUI and Continue send, with the members that only they know. */
static void test_bodies_of_editors_and_pages(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *says;
    } cases[] = {
        {"/v1/chat/completions",
         "{\"stream\":true,\"model\":\"demo\"," STORY
         ",\"max_tokens\":3,\"stream_options\":{\"include_usage\":true},\"session_id\":\"a\","
         "\"chat_id\":\"b\",\"id\":\"c\",\"background_tasks\":{\"title_generation\":true},"
         "\"features\":{\"web_search\":false},\"variables\":{\"{{USER_NAME}}\":\"d\"},"
         "\"params\":{},\"tool_servers\":[],\"metadata\":{\"user_id\":\"1\"}}",
         "\"completion_tokens\":3"},
        {"/api/chat",
         "{\"model\":\"demo:latest\"," STORY
         ",\"options\":{\"num_predict\":3,\"num_ctx\":512,\"num_keep\":24,\"num_thread\":2,"
         "\"num_gpu\":0,\"tfs_z\":1,\"mirostat\":0},\"stream\":true,\"keep_alive\":\"5m\"}",
         "\"eval_count\":3"},
        {"/api/show", "{\"name\":\"demo\"}", "\"families\":"},
        {"/api/generate", "{\"model\":\"demo\",\"prompt\":\"\",\"keep_alive\":0}", "\"done\":true"},
        {"/api/generate",
         "{\"model\":\"demo\",\"raw\":true,\"prompt\":\"def f(\",\"options\":{\"num_predict\":4,"
         "\"stop\":[\"/src/\",\"#- coding: utf-8\"],\"temperature\":0.01},\"keep_alive\":1800}",
         "\"done\":true"},
        {"/v1/chat/completions",
         "{\"model\":\"demo\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
         "\"text\":\"hi\"}]}],\"max_tokens\":3,\"stream\":true,\"parallel_tool_calls\":false,"
         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"read_file\",\"description\":"
         "\"d\",\"parameters\":{\"type\":\"object\",\"required\":[\"filepath\"],\"properties\":{"
         "\"filepath\":{\"type\":\"string\"}}}}}]}",
         "data: [DONE]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = post(&w, cases[i].path, cases[i].body);
        if (r->status != 200 || !strstr(r->text, cases[i].says))
            fail_msg("%s %s: %s", cases[i].path, cases[i].body, r->text);
        free(r);
    }
}

/* ---- OpenAI's older functions, and answers that may not be too short ---- */

#define FUNCTIONS                                                                               \
    "\"functions\":[{\"name\":\"weather\",\"parameters\":{\"type\":\"object\",\"properties\":{" \
    "\"city\":{\"enum\":[\"Oslo\"]}},\"required\":[\"city\"]}}]"
#define TOOLS                                                                                     \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{"       \
    "\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"Oslo\"]}},\"required\":[\"city\"]" \
    "}}}]"
#define ARGUMENTS "\"{\\\"city\\\": \\\"Oslo\\\"}\""

static void test_older_functions(void **state) {
    (void)state;
    json_t *v = answer_of("POST", "/v1/chat/completions",
                          "{" STORY "," FUNCTIONS ",\"function_call\":{\"name\":\"weather\"},"
                          "\"max_tokens\":80,\"temperature\":0}",
                          200);
    assert_string_equal(text_at(v, "choices.0.message.function_call.name"), "weather");
    json_t *arguments = json_loads(text_at(v, "choices.0.message.function_call.arguments"), 0,
                                   NULL);
    assert_string_equal(text_at(arguments, "city"), "Oslo");
    assert_null(at(v, "choices.0.message.tool_calls"));
    assert_string_equal(text_at(v, "choices.0.finish_reason"), "function_call");
    json_decref(arguments);
    json_decref(v);
    reply *r = post(&w, "/v1/chat/completions",
                    "{" STORY "," FUNCTIONS ",\"function_call\":{\"name\":\"weather\"},"
                    "\"max_tokens\":80,\"stream\":true}");
    assert_non_null(strstr(r->text, "\"delta\":{\"function_call\":{\"name\":\"weather\""));
    assert_non_null(strstr(r->text, "\"finish_reason\":\"function_call\""));
    assert_null(strstr(r->text, "tool_calls"));
    free(r);
    /* a conversation in the older words is the one in the later ones */
    json_t *older = answer_of(
        "POST", "/v1/chat/completions/input_tokens",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"How is it?\"},{\"role\":\"assistant\","
        "\"content\":null,\"function_call\":{\"name\":\"weather\",\"arguments\":" ARGUMENTS "}},"
        "{\"role\":\"function\",\"name\":\"weather\",\"content\":\"rain\"}]," FUNCTIONS "}",
        200);
    json_t *later = answer_of(
        "POST", "/v1/chat/completions/input_tokens",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"How is it?\"},{\"role\":\"assistant\","
        "\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{"
        "\"name\":\"weather\",\"arguments\":" ARGUMENTS "}}]},{\"role\":\"tool\",\"tool_call_id\":"
        "\"c\",\"content\":\"rain\"}]," TOOLS "}",
        200);
    assert_int_equal(json_integer_value(at(older, "input_tokens")),
                     json_integer_value(at(later, "input_tokens")));
    json_decref(older);
    json_decref(later);
    v = answer_of(
        "POST", "/v1/chat/completions",
        "{\"messages\":[{\"role\":\"assistant\",\"function_call\":{\"arguments\":\"{}\"}}]}", 400);
    assert_string_equal(text_at(v, "error.param"), "messages[0].function_call.function.name");
    json_decref(v);
}

/* The tokens of an answer and, in *finish for json_decref, why it ended. */
static int n_answered(const char *path, const char *more, json_t **finish) {
    char body[512];
    snprintf(body, sizeof body, "{\"prompt\":\"Once upon a time\",\"temperature\":0%s}", more);
    json_t *v = answer_of("POST", path, body, 200);
    int n = (int)json_integer_value(at(v, "usage.completion_tokens"));
    *finish = json_incref((json_t *)at(v, "choices.0.finish_reason"));
    json_decref(v);
    return n;
}

static void test_min_tokens(void **state) {
    (void)state;
    char more[200];
    json_t *finish;
    int n = n_answered("/v1/completions", ",\"max_tokens\":300", &finish);
    assert_string_equal(json_string_value(finish), "stop"); /* the model ends it */
    json_decref(finish);
    assert_true(n < 250);
    snprintf(more, sizeof more, ",\"max_tokens\":300,\"min_tokens\":%d", n + 20);
    int longer = n_answered("/v1/completions", more, &finish);
    assert_true(longer >= n + 20);
    json_decref(finish);
    snprintf(more, sizeof more, ",\"max_tokens\":300,\"min_tokens\":%d", n - 3);
    assert_int_equal(n_answered("/v1/completions", more, &finish), n); /* no longer than it is */
    json_decref(finish);
    /* nor do stop strings count before */
    int stopped = n_answered("/v1/completions", ",\"max_tokens\":60,\"stop\":\".\"", &finish);
    json_decref(finish);
    snprintf(more, sizeof more, ",\"max_tokens\":60,\"stop\":\".\",\"min_tokens\":%d", stopped + 1);
    assert_true(n_answered("/v1/completions", more, &finish) > stopped);
    json_decref(finish);
    /* a form ends the answer anyway */
    n = n_answered("/v1/completions",
                   ",\"max_tokens\":60,\"min_tokens\":40,\"choice\":[\"a\",\"b\"]", &finish);
    assert_true(n < 5);
    json_decref(finish);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),         cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_continued),     cmocka_unit_test(test_ollama_embeddings),
        cmocka_unit_test(test_not_ignored),   cmocka_unit_test(test_older_functions),
        cmocka_unit_test(test_min_tokens),    cmocka_unit_test(test_byte_order_mark),
        cmocka_unit_test(test_tokenizer),     cmocka_unit_test(test_harness),
        cmocka_unit_test(test_echo),          cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_absent_prompt), cmocka_unit_test(test_bodies_of_editors_and_pages),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
