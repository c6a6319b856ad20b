/* serve: Anthropic's and Ollama's bodies, and what errors call a field in each dialect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, NULL)

/* Each word comes after the one before it. */
static void expect_in_order(const char *text, const char *const *words) {
    for (const char *at_word = text; *words; words++) {
        at_word = strstr(at_word, *words);
        if (!at_word) fail_msg("no \"%s\" there in:\n%s", *words, text);
        at_word += strlen(*words);
    }
}

#define MESSAGES                                                                         \
    "\"system\":[{\"type\":\"text\",\"text\":\"Be brief.\",\"cache_control\":{\"type\":" \
    "\"ephemeral\"}}]," STORY ",\"temperature\":0,\"metadata\":{\"user_id\":\"u\"}"

static void test_messages(void **state) {
    (void)state;
    char body[1024];
    reply *r = post(&w, "/v1/messages/count_tokens", "{" MESSAGES "}");
    json_t *v = body_of(r);
    json_int_t n_prompt = json_integer_value(at(v, "input_tokens"));
    assert_true(n_prompt > 10);
    json_decref(v);
    free(r);
    r = post(&w, "/v1/messages", "{" MESSAGES ",\"max_tokens\":40}");
    v = body_of(r);
    char text[4096];
    snprintf(text, sizeof text, "%s", text_at(v, "content.0.text"));
    assert_int_equal(json_integer_value(at(v, "usage.input_tokens")) +
                         json_integer_value(at(v, "usage.cache_read_input_tokens")),
                     n_prompt);
    assert_true(json_is_null(at(v, "stop_sequence")));
    assert_non_null(strstr(r->text, "Request-Id: msg_"));
    json_decref(v);
    free(r);
    /* a word of the answer as stop sequence, beside one that does not come */
    char word[64];
    assert_true(sscanf(text + strlen(text) / 2, "%*s %63s", word) == 1);
    word[strcspn(word, "\"\\")] = '\0';
    snprintf(body, sizeof body,
             "{" MESSAGES ",\"max_tokens\":40,\"stream\":true,\"stop_sequences\":[\"#~#\",\"%s\"]}",
             word);
    r = post(&w, "/v1/messages", body);
    unchunk(r);
    char start[128], stop[128];
    snprintf(start, sizeof start, "\"usage\":{\"input_tokens\":%d,", (int)n_prompt);
    snprintf(stop, sizeof stop, "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"%s\"", word);
    const char *const order[] = {"event: message_start\ndata: ",
                                 start,
                                 "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                 "event: content_block_start\n",
                                 "event: content_block_delta\n",
                                 "event: content_block_stop\n",
                                 "event: message_delta\n",
                                 stop,
                                 "\"output_tokens\":",
                                 "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
                                 NULL};
    expect_in_order(r->body, order);
    free(r);
    static const struct {
        const char *body;
        int status;
        const char *type;
    } bad[] = {
        {"{" MESSAGES "}", 400, "invalid_request_error"},
        {"{" MESSAGES ",\"max_tokens\":5,\"thinking\":{\"type\":\"perhaps\"}}", 400,
         "invalid_request_error"},
        {"{\"messages\":[],\"max_tokens\":5}", 400, "invalid_request_error"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        r = post(&w, "/v1/messages", bad[i].body);
        v = body_of(r);
        if (r->status != bad[i].status || strcmp(text_at(v, "error.type"), bad[i].type) != 0)
            fail_msg("%s: %s", bad[i].body, r->text);
        assert_string_equal(text_at(v, "type"), "error");
        json_decref(v);
        free(r);
    }
    r = ask(&w, "GET", "/v1/messages", "", "");
    assert_int_equal(r->status, 405);
    free(r);
}

static void test_ollama(void **state) {
    (void)state;
    static const struct {
        const char *path, *body;
        int status;
        const char *says;
    } cases[] = {
        {"/api/generate",
         "{\"model\":\"demo:latest\",\"prompt\":\"Hi\",\"stream\":false,\"keep_alive\":"
         "\"5m\",\"options\":{\"num_predict\":3,\"seed\":1,\"stop\":\"#\",\"num_ctx\":99}}",
         200, "\"done\":true,\"done_reason\":\""},
        {"/api/generate", "{\"model\":\"demo\",\"keep_alive\":-1}", 200,
         "\"response\":\"\",\"done\":true,\"done_reason\":\"load\""},
        {"/api/chat", "{\"model\":\"demo\",\"messages\":[],\"stream\":false}", 200,
         "\"done_reason\":\"load\""},
        {"/api/chat",
         "{\"model\":\"demo\"," STORY ",\"options\":{\"num_predict\":-2,\"stop\":[\".\"]}}", 200,
         "\"done_reason\":\"stop\""},
        {"/api/show", "{\"model\":\"demo:latest\"}", 200, "\"general.architecture\":"},
        {"/api/embed", "{\"model\":\"demo:latest\",\"input\":[\"a\",\"b\"]}", 200,
         "\"embeddings\":[["},
        {"/api/show", "{\"model\":\"none\"}", 404, "{\"error\":\""},
        {"/api/show", "{}", 400, "{\"error\":\""},
        {"/api/chat", "{\"model\":\"none\"," STORY ",\"options\":{\"num_predict\":1}}", 200,
         "\"demo\""},
        {"/api/embed", "{\"model\":\"demo\",\"input\":\"\"}", 200, "\"embeddings\":[]"},
        {"/api/chat",
         "{\"model\":\"demo\"," STORY ",\"logprobs\":true,\"top_logprobs\":2,\"stream\":false,"
         "\"options\":{\"num_predict\":2}}",
         200, "\"logprobs\":[{\"token\":"},
        {"/api/show", "{\"model\":\"demo\"}", 200, "\"capabilities\":[\"completion\",\"tools\","},
        {"/api/chat", "{\"model\":\"demo\"," STORY ",\"keep_alive\":\"soon\"}", 400, "keep_alive"},
        {"/api/chat", "{\"model\":\"demo\"," STORY ",\"options\":{\"num_predict\":\"x\"}}", 400,
         "options.num_predict: expected a whole number"},
        {"/api/chat", "{\"model\":\"demo\"," STORY ",\"tools\":[{}]}", 400, "tools"},
        {"/api/generate", "{\"model\":\"demo\",\"prompt\":\"x\",\"images\":[\"aGk=\"]}", 400,
         "images"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = post(&w, cases[i].path, cases[i].body);
        if (r->status != cases[i].status || !strstr(r->body, cases[i].says))
            fail_msg("%s %s: %s", cases[i].path, cases[i].body, r->text);
        free(r);
    }
    reply *r = ask(&w, "GET", "/api/ps", "", "");
    assert_non_null(strstr(r->body, "\"expires_at\":\""));
    free(r);
    r = ask(&w, "POST", "/api/chat", "Content-Type: text/plain\r\n", "{}");
    assert_int_equal(r->status, 415);
    assert_non_null(strstr(r->body, "{\"error\":\""));
    free(r);
}

/* ---- errors say what the client wrote ---- */

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define OLLAMA "{\"model\":\"demo\",\"stream\":false,"

static void test_names_in_errors(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *says;
    } cases[] = {
        /* OpenAI */
        {"/v1/chat/completions", "{" HI ",\"max_completion_tokens\":-7}",
         "max_completion_tokens: "},
        {"/v1/chat/completions", "{" HI ",\"max_tokens\":\"x\"}", "\"max_tokens: "},
        {"/v1/chat/completions", "{" HI ",\"stop\":[\"a\",4]}", "\"stop[1]: "},
        {"/v1/chat/completions", "{" HI ",\"samplers\":[\"topk\"]}", "\"param\":\"samplers\""},
        {"/v1/chat/completions", "{" HI ",\"logit_bias\":{\"999999\":1}}",
         "\"param\":\"logit_bias\""},
        {"/v1/chat/completions", "{\"system\":7," HI ",\"top_p\":2}", "\"top_p: "},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":1}]}",
         "\"messages[0].content: "},
        {"/v1/completions", "{\"prompt\":[\"a\",{}]}", "\"prompt[1]: "},
        {"/v1/completions", "{\"prompt\":\"a\",\"repetition_penalty\":0}",
         "\"repetition_penalty: "},
        {"/v1/embeddings", "{\"input\":[[1],[-1]]}", "\"input[1][0]: "},
        /* Anthropic */
        {"/v1/messages", "{\"system\":\"s\",\"max_tokens\":1,\"messages\":[{\"role\":\"usr\"}]}",
         "\"messages[0].role: "},
        {"/v1/messages",
         "{\"system\":\"s\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
         "{\"role\":\"assistant\",\"content\":[{\"type\":\"image\"}]}]}",
         "\"messages[1].content[0].type: "},
        {"/v1/messages", "{\"system\":[{\"type\":\"image\"}],\"max_tokens\":1," HI "}",
         "\"system[0].type: "},
        {"/v1/messages", "{\"system\":7,\"max_tokens\":1," HI "}", "\"system: "},
        {"/v1/messages", "{\"max_tokens\":1," HI ",\"stop_sequences\":[\"a\",7]}",
         "\"stop_sequences[1]: "},
        {"/v1/messages", "{\"max_tokens\":1," HI ",\"stop_sequences\":7}", "\"stop_sequences: "},
        {"/v1/messages", "{\"max_tokens\":\"x\"," HI "}", "\"max_tokens: "},
        {"/v1/messages", "{\"max_tokens\":1,\"messages\":[]}", "\"messages: is empty"},
        {"/v1/messages", "{\"max_tokens\":1}", "\"messages: is missing"},
        {"/v1/messages", "{\"max_tokens\":1," HI ",\"tool_choice\":{\"type\":\"any\"}}",
         "\"tool_choice: there are no"},
        {"/v1/messages/count_tokens", "{\"system\":\"s\",\"messages\":[3]}", "\"messages[0]: "},
        /* Ollama */
        {"/api/chat", OLLAMA HI ",\"options\":{\"stop\":7}}", "\"options.stop: "},
        {"/api/chat", OLLAMA HI ",\"options\":{\"top_p\":7}}", "\"options.top_p: "},
        {"/api/chat", OLLAMA HI ",\"options\":{\"num_predict\":1.5}}", "\"options.num_predict: "},
        {"/api/chat", OLLAMA HI ",\"options\":7}", "\"options: "},
        {"/api/chat", OLLAMA "\"messages\":[{\"role\":\"user\",\"content\":7}]}",
         "\"messages[0].content: "},
        {"/api/chat",
         OLLAMA "\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"images\":[\"aGk=\"]}]}",
         "\"messages[0].images: "},
        {"/api/generate", OLLAMA "\"prompt\":7}", "\"prompt: "},
        {"/api/generate", OLLAMA "\"prompt\":\"x\",\"system\":7}", "\"system: "},
        {"/api/generate", OLLAMA "\"prompt\":\"x\",\"options\":{\"mirostat_tau\":-1}}",
         "\"options.mirostat_tau: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply *r = post(&w, cases[i].path, cases[i].body);
        if (r->status != 400 || !strstr(r->body, cases[i].says))
            fail_msg("%s %s: expected %s in %s", cases[i].path, cases[i].body, cases[i].says,
                     r->text);
        free(r);
    }
    static const struct {
        const char *line, *says;
    } lines[] = {{"{\"prompt\":\"x\",\"n_predict\":-7}", "\"param\":\"n_predict\""},
                 {"{\"prompt\":\"x\",\"max_tokens\":-7}", "\"param\":\"max_tokens\""},
                 {"{\"prompt\":\"x\",\"n_probs\":99}", "\"param\":\"n_probs\""},
                 {"{\"prompt\":\"x\",\"samplers\":\"nuclear\"}", "\"param\":\"samplers\""},
                 {"{\"messages\":[{\"role\":\"user\"}]}", "\"param\":\"messages[0].content\""}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *text = ask_line(&w, lines[i].line);
        if (!strstr(text, lines[i].says)) fail_msg("%s: %s", lines[i].line, text);
        free(text);
    }
}

/* Beside the messages or as the first of them, a system text is the same prompt. */
static void test_system_of_each(void **state) {
    (void)state;
    static const char *const bodies[][2] = {
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{"
                                 "\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":12,"
                                 "\"temperature\":0}"},
        {"/v1/messages", "{\"system\":\"Be brief.\"," HI ",\"max_tokens\":12,\"temperature\":0}"},
        {"/api/generate", OLLAMA "\"system\":\"Be brief.\",\"prompt\":\"hi\",\"options\":{"
                                 "\"num_predict\":12,\"temperature\":0}}"}};
    static const char *const at_text[] = {"choices.0.message.content", "content.0.text",
                                          "response"};
    char first[4096] = "";
    for (int i = 0; i < 3; i++) {
        reply *r = post(&w, bodies[i][0], bodies[i][1]);
        json_t *v = body_of(r);
        const char *text = text_at(v, at_text[i]);
        if (!i) snprintf(first, sizeof first, "%s", text);
        assert_true(*text);
        assert_string_equal(text, first);
        json_decref(v);
        free(r);
    }
}

/* The text, call or reasoning of each choice, as JSON. */
static char *message_of(const json_t *answer, size_t i) {
    char path[64];
    snprintf(path, sizeof path, "choices.%zu.message", i);
    return json_dumps(at(answer, path), JSON_SORT_KEYS);
}

/* Eight conversations in one request: each answer is what it is alone, in their order; usage is of
 * all. */
static void test_several_conversations(void **state) {
    (void)state;
    enum { N = 8 };
    char body[8192], *alone[N];
    int64_t n_prompt = 0;
    size_t len = (size_t)snprintf(body, sizeof body, "{\"messages\":[");
    for (int i = 0; i < N; i++) {
        char one[512], conversation[256];
        snprintf(conversation, sizeof conversation,
                 "[{\"role\":\"system\",\"content\":\"Be number %d.\"},{\"role\":\"user\","
                 "\"content\":\"Tell me a story about %d cats.\"}]",
                 i, i);
        snprintf(one, sizeof one, "{\"messages\":%s,\"max_tokens\":%d,\"seed\":5}", conversation,
                 24);
        reply *r = post(&w, "/v1/chat/completions", one);
        json_t *v = body_of(r);
        assert_int_equal(r->status, 200);
        alone[i] = message_of(v, 0);
        n_prompt += json_integer_value(at(v, "usage.prompt_tokens"));
        json_decref(v);
        free(r);
        len += (size_t)snprintf(body + len, sizeof body - len, "%s%s", i ? "," : "", conversation);
    }
    snprintf(body + len, sizeof body - len, "],\"max_tokens\":24,\"seed\":5}");
    reply *r = post(&w, "/v1/chat/completions", body);
    json_t *v = body_of(r);
    assert_int_equal(json_array_size(at(v, "choices")), N);
    assert_int_equal(json_integer_value(at(v, "usage.prompt_tokens")), n_prompt);
    for (size_t i = 0; i < N; i++) {
        char *together = message_of(v, i);
        assert_string_equal(together, alone[i]);
        free(together);
        free(alone[i]);
    }
    json_decref(v);
    free(r);
    static const struct {
        const char *path, *body, *says;
        int status;
    } bad[] = {
        {"/v1/chat/completions", "{\"messages\":[[{\"role\":\"user\",\"content\":\"x\"}],[]]}",
         "messages[1]: is empty", 400},
        {"/v1/chat/completions",
         "{\"messages\":[[{\"role\":\"user\",\"content\":\"x\"}],[{\"role\":\"king\"}]]}",
         "messages[1][0].role: ", 400},
        {"/v1/chat/completions", "{\"messages\":[[{\"role\":\"user\",\"content\":\"x\"}],7]}",
         "messages[1]: expected an array", 400},
        {"/api/chat",
         "{\"model\":\"demo\",\"messages\":[[{\"role\":\"user\",\"content\":\"x\"}],"
         "[{\"role\":\"user\",\"content\":\"y\"}]]}",
         "one conversation a request", 400},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        r = post(&w, bad[i].path, bad[i].body);
        if (r->status != bad[i].status || !strstr(r->body, bad[i].says)) fail_msg("%s", r->text);
        free(r);
    }
}

/* A conversation that is too long: refused with numbers, or shorter by its oldest turns if the caller
 * says so, system's words kept; the answer is that of the shorter conversation. */
static void test_shorten(void **state) {
    (void)state;
    enum { TURNS = 60 };
    static char body[65536], tail[65536];
    size_t len = 0;
    static const char turn[] =
        "{\"role\":\"user\",\"content\":\"Tell me a story about cat number %d "
        "and its many friends.\"},{\"role\":\"assistant\",\"content\":\"Once "
        "there was a cat, number %d, and that was it.\"},";
    static const char rest[] = "{\"role\":\"user\",\"content\":\"And now?\"}]"
                               ",\"max_tokens\":24,\"seed\":2";
    static const char system[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"Be kind.\"},";
    len = (size_t)snprintf(body, sizeof body, "%s", system);
    for (int i = 0; i < TURNS; i++)
        len += (size_t)snprintf(body + len, sizeof body - len, turn, i, i);
    size_t end = len + (size_t)snprintf(body + len, sizeof body - len, "%s", rest);
    snprintf(body + end, sizeof body - end, "}");
    reply *r = post(&w, "/v1/chat/completions", body);
    assert_int_equal(r->status, 400);
    assert_non_null(strstr(r->body, "context_length_exceeded"));
    assert_non_null(strstr(r->body, "\"type\":\"exceed_context_size_error\""));
    assert_non_null(strstr(r->body, "\"n_ctx\":1024}"));
    assert_non_null(strstr(r->body, "\"n_prompt_tokens\":"));
    assert_non_null(strstr(r->body, "exceeds the available context size of 1024"));
    free(r);
    snprintf(body + end, sizeof body - end, ",\"shorten\":\"oldest_turns\"}");
    r = post(&w, "/v1/chat/completions", body);
    if (r->status != 200) fail_msg("%s", r->text);
    json_t *v = body_of(r);
    const char *note = text_at(v, "kentang.notes.0");
    int n_gone, n_all;
    if (sscanf(note, "the oldest %d of %d messages were left out", &n_gone, &n_all) != 2)
        fail_msg("%s", r->body);
    assert_int_equal(n_all, 2 * TURNS + 2);
    assert_true(n_gone > 0 && n_gone % 2 == 0);
    len = (size_t)snprintf(tail, sizeof tail, "%s", system);
    for (int i = n_gone / 2; i < TURNS; i++)
        len += (size_t)snprintf(tail + len, sizeof tail - len, turn, i, i);
    snprintf(tail + len, sizeof tail - len, "%s}", rest);
    reply *shorter = post(&w, "/v1/chat/completions", tail);
    json_t *u = body_of(shorter);
    assert_string_equal(text_at(v, "choices.0.message.content"),
                        text_at(u, "choices.0.message.content"));
    int64_t n_prompt = json_integer_value(at(u, "usage.prompt_tokens"));
    assert_int_equal(json_integer_value(at(v, "usage.prompt_tokens")), n_prompt);
    assert_true(n_prompt <= 1000 && n_prompt > 900); /* one turn more would not have fit */
    json_decref(v);
    json_decref(u);
    free(r);
    free(shorter);
    r = post(&w, "/v1/chat/completions", "{" STORY ",\"max_tokens\":2,\"shorten\":\"much\"}");
    assert_int_equal(r->status, 400);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shorten),         cmocka_unit_test(test_several_conversations),
        cmocka_unit_test(test_messages),        cmocka_unit_test(test_ollama),
        cmocka_unit_test(test_names_in_errors), cmocka_unit_test(test_system_of_each),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
