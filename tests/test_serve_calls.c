/* serve: what a model thinks, says and calls, in the words of each wire: parts of an answer, however
 * they are cut, are put together again by whoever reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "dialects/dialects.h"
#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, NULL)

/* ---- an answer that was made here ---- */

#define THOUGHT "I \"need\" a tool."
#define SAID "Let me look, caf\xc3\xa9."
#define ARGUMENTS_0 "{\"city\": \"K\xc3\xb6ln\", \"days\": [1, 2]}"
#define ARGUMENTS_1 "{}"

typedef struct script_part {
    kt_part_kind kind;
    int32_t call;
    const char *id, *name, *text;
} script_part;

static const script_part script[] = {
    {KT_PART_REASONING, 0, NULL, NULL, THOUGHT},
    {KT_PART_CONTENT, 0, NULL, NULL, SAID},
    {KT_PART_CALL, 0, "call_1", "weather", ARGUMENTS_0},
    {KT_PART_CALL, 1, "call_2", "time", ARGUMENTS_1},
};

static kt__job *open_job(const kt__dialect *dialect, const char *body) {
    kt_error err;
    kt__job *job;
    assert_int_equal(kt__job_create(&w.server->shared, dialect, "resp_", "test", &job, &err),
                     KT_OK);
    assert_true(kt__buf_append(&job->request.body, body, strlen(body)));
    if (dialect->read(job, &err) != KT_OK) fail_msg("%s: %s", body, err.message);
    job->answer.choices = kt__calloc(1, sizeof *job->answer.choices);
    assert_non_null(job->answer.choices);
    kt__wire_blocks_init(&job->answer.choices[0].said, 1 << 20);
    job->answer.n_choices = 1;
    return job;
}

static void close_job(kt__job *job) {
    if (job->model.engine) kt__served_done(job->model.served, job->model.engine);
    kt__job_release(job);
}

/* The script's texts in pieces of `piece` bytes, at most `together` parts in an event. */
static void play_script(kt__job *job, size_t piece, size_t together) {
    kt_part parts[16];
    kt_event event = {.kind = KT_EVENT_TOKEN, .id = 5, .parts = parts};
    if (job->dialect->begin) job->dialect->begin(job);
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        const script_part *s = &script[i];
        size_t len = strlen(s->text);
        bool first = true;
        for (size_t at_byte = 0, n; at_byte < len || first; at_byte += n, first = false) {
            n = len - at_byte < piece ? len - at_byte : piece;
            if (first && s->name) n = 0; /* names come alone, as parsers find them */
            while (n && (s->text[at_byte + n] & 0xc0) == 0x80) n++; /* whole characters */
            parts[event.n_parts++] = (kt_part){
                s->kind, s->text + at_byte,    n,
                s->call, first ? s->id : NULL, first ? s->name : NULL};
            if (event.n_parts < together) continue;
            job->dialect->token(job, &event);
            event.n_parts = 0;
        }
    }
    if (event.n_parts) job->dialect->token(job, &event);
    const kt_request_report report = {.finish = KT_FINISH_EOG,
                                      .n_prompt = 10,
                                      .n_generated = 20,
                                      .n_reasoning = 5,
                                      .n_calls = 2,
                                      .stop = -1};
    job->answer.report = report;
    job->answer.usage = (kt__wire_usage){10, 0, 20, 5};
    job->answer.choices[0].finish = KT_FINISH_EOG;
    const kt_event end = {.kind = KT_EVENT_FINISHED, .finish = KT_FINISH_EOG, .report = &report};
    job->dialect->finish(job, &end);
    if (job->dialect->end) job->dialect->end(job);
    assert_false(job->answer.out.failed);
}

static void same_json(const json_t *found, const char *expected) {
    json_t *v = json_loads(expected, 0, NULL);
    assert_non_null(v);
    if (!json_equal(found, v))
        fail_msg("%s, expected %s", json_dumps(found, JSON_ENCODE_ANY), expected);
    json_decref(v);
}

static void same_arguments(const char *text, const char *expected) {
    json_t *v = json_loads(text, 0, NULL);
    if (!v) fail_msg("arguments are no JSON: %s", text);
    same_json(v, expected);
    json_decref(v);
}

/* The data of events, or lines of JSON, in order; for json_decref. */
static json_t *items_of(const kt__job *job) {
    json_t *list = json_array();
    const char *text = job->answer.out.data, *end = text + job->answer.out.len;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t len = newline ? (size_t)(newline - text) : (size_t)(end - text);
        size_t skip = len > 6 && !memcmp(text, "data: ", 6) ? 6 : 0;
        json_t *v = json_loadb(text + skip, len - skip, 0, NULL);
        if (v) json_array_append_new(list, v);
        text += len + 1;
    }
    return list;
}

/* ---- OpenAI's chat ---- */

#define ASK "{" STORY ",\"temperature\":0"

static void test_chat_whole(void **state) {
    (void)state;
    kt__job *job = open_job(&kt__dialect_chat, ASK "}");
    play_script(job, 3, 1);
    json_t *v = json_loadb(job->answer.out.data, job->answer.out.len, 0, NULL);
    assert_string_equal(text_at(v, "choices.0.message.content"), SAID);
    assert_string_equal(text_at(v, "choices.0.message.reasoning_content"), THOUGHT);
    assert_string_equal(text_at(v, "choices.0.message.tool_calls.0.id"), "call_1");
    assert_string_equal(text_at(v, "choices.0.message.tool_calls.0.type"), "function");
    assert_string_equal(text_at(v, "choices.0.message.tool_calls.0.function.name"), "weather");
    assert_string_equal(text_at(v, "choices.0.message.tool_calls.0.function.arguments"),
                        ARGUMENTS_0);
    assert_string_equal(text_at(v, "choices.0.message.tool_calls.1.function.arguments"),
                        ARGUMENTS_1);
    assert_string_equal(text_at(v, "choices.0.finish_reason"), "tool_calls");
    assert_int_equal(json_integer_value(at(v, "usage.completion_tokens_details.reasoning_tokens")),
                     5);
    json_decref(v);
    close_job(job);
}

static void add_text(char *to, const char *text) {
    strncat(to, text, 1023 - strlen(to));
}

static void test_chat_chunks(void **state) {
    (void)state;
    for (size_t piece = 1; piece < 60; piece += 3) {
        char content[1024] = "", thought[1024] = "", arguments[2][1024] = {"", ""};
        kt__job *job = open_job(&kt__dialect_chat, ASK ",\"stream\":true}");
        job->answer.stream = true;
        play_script(job, piece, 1 + piece % 4);
        json_t *list = items_of(job);
        size_t i, n_named = 0;
        const json_t *v;
        json_array_foreach(list, i, v) {
            const json_t *call = at(v, "choices.0.delta.tool_calls.0");
            add_text(content, text_at(v, "choices.0.delta.content"));
            add_text(thought, text_at(v, "choices.0.delta.reasoning_content"));
            if (!call) continue;
            json_int_t index = json_integer_value(at(call, "index"));
            assert_true(index == 0 || index == 1);
            if (at(call, "id")) assert_int_equal(index, n_named++); /* once, and in order */
            assert_true(n_named > (size_t)index);
            add_text(arguments[index], text_at(call, "function.arguments"));
        }
        assert_string_equal(content, SAID);
        assert_string_equal(thought, THOUGHT);
        same_arguments(arguments[0], ARGUMENTS_0);
        same_arguments(arguments[1], ARGUMENTS_1);
        v = json_array_get(list, json_array_size(list) - 1);
        assert_string_equal(text_at(v, "choices.0.finish_reason"), "tool_calls");
        assert_string_equal(text_at(list, "0.choices.0.delta.role"), "assistant");
        json_decref(list);
        close_job(job);
    }
}

/* ---- Anthropic's ---- */

#define MESSAGES "{" STORY ",\"max_tokens\":9"
#define BLOCKS                                                                                    \
    "[{\"type\":\"thinking\",\"thinking\":\"I \\\"need\\\" a tool.\",\"signature\":\"kentang\"}," \
    "{\"type\":\"text\",\"text\":\"" SAID "\"},{\"type\":\"tool_use\",\"id\":\"call_1\","         \
    "\"name\":\"weather\",\"input\":" ARGUMENTS_0 "},{\"type\":\"tool_use\",\"id\":\"call_2\","   \
    "\"name\":\"time\",\"input\":{}}]"

static void test_messages_whole(void **state) {
    (void)state;
    kt__job *job = open_job(&kt__dialect_messages, MESSAGES "}");
    play_script(job, 4, 3);
    json_t *v = json_loadb(job->answer.out.data, job->answer.out.len, 0, NULL);
    same_json(at(v, "content"), BLOCKS);
    assert_string_equal(text_at(v, "stop_reason"), "tool_use");
    json_decref(v);
    close_job(job);
}

/* As MessageStream of the official client puts events together. */
static json_t *put_together(const json_t *list) {
    json_t *blocks = json_array();
    char partial[8][1024] = {""};
    size_t i, n_stopped = 0;
    const json_t *v;
    json_array_foreach(list, i, v) {
        size_t index = (size_t)json_integer_value(at(v, "index"));
        const char *type = text_at(v, "type"), *delta = text_at(v, "delta.type");
        json_t *block = json_array_get(blocks, index);
        if (!strcmp(type, "content_block_start")) {
            assert_int_equal(index, json_array_size(blocks));
            assert_int_equal(index, n_stopped);
            json_array_append(blocks, json_object_get(v, "content_block"));
        }
        if (!strcmp(type, "content_block_stop")) n_stopped++;
        if (!strcmp(delta, "input_json_delta"))
            add_text(partial[index], text_at(v, "delta.partial_json"));
        const char *const members[] = {"text", "thinking", "signature"};
        for (size_t k = 0; k < 3 && *delta; k++) {
            char joined[1024];
            const char *more = text_at(at(v, "delta"), members[k]);
            if (!*more) continue;
            snprintf(joined, sizeof joined, "%s%s", text_at(block, members[k]), more);
            json_object_set_new(block, members[k], json_string(joined));
        }
    }
    assert_int_equal(n_stopped, json_array_size(blocks));
    for (i = 0; i < json_array_size(blocks); i++) {
        if (*partial[i])
            json_object_set_new(json_array_get(blocks, i), "input",
                                json_loads(partial[i], 0, NULL));
    }
    return blocks;
}

static void test_messages_events(void **state) {
    (void)state;
    for (size_t piece = 1; piece < 60; piece += 3) {
        kt__job *job = open_job(&kt__dialect_messages, MESSAGES ",\"stream\":true}");
        job->answer.stream = true;
        play_script(job, piece, 1 + piece % 5);
        json_t *list = items_of(job), *blocks = put_together(list);
        same_json(blocks, BLOCKS);
        assert_string_equal(text_at(list, "0.type"), "message_start");
        const json_t *v = json_array_get(list, json_array_size(list) - 2);
        assert_string_equal(text_at(v, "delta.stop_reason"), "tool_use");
        json_decref(blocks);
        json_decref(list);
        close_job(job);
    }
}

/* ---- Ollama's ---- */

#define OLLAMA_CALLS                                                      \
    "[{\"id\":\"call_1\",\"function\":{\"index\":0,\"name\":\"weather\"," \
    "\"arguments\":" ARGUMENTS_0                                          \
    "}},{\"id\":\"call_2\",\"function\":{\"index\":1,\"name\":\"time\",\"arguments\":{}}}]"

static void test_ollama_calls(void **state) {
    (void)state;
    for (size_t piece = 1; piece < 60; piece += 3) {
        bool streams = piece > 1;
        char content[1024] = "", thought[1024] = "";
        kt__job *job = open_job(&kt__dialect_ollama_chat,
                                streams ? "{" STORY "}" : "{" STORY ",\"stream\":false}");
        job->answer.stream = streams;
        play_script(job, piece, 1 + piece % 5);
        json_t *list = items_of(job), *calls = json_array();
        size_t i;
        const json_t *v;
        json_array_foreach(list, i, v) {
            add_text(content, text_at(v, "message.content"));
            add_text(thought, text_at(v, "message.thinking"));
            json_array_extend(calls, (json_t *)at(v, "message.tool_calls"));
        }
        assert_string_equal(content, SAID);
        assert_string_equal(thought, THOUGHT);
        same_json(calls, OLLAMA_CALLS);
        json_decref(calls);
        json_decref(list);
        close_job(job);
    }
}

/* ---- Responses ---- */

static void test_responses_items(void **state) {
    (void)state;
    for (size_t piece = 1; piece < 60; piece += 3) {
        bool streams = piece > 1;
        kt__job *job = open_job(&kt__dialect_responses,
                                "{\"input\":\"x\",\"include\":[\"reasoning.encrypted_content\"]}");
        job->answer.stream = streams;
        play_script(job, piece, 1 + piece % 5);
        json_t *list = items_of(job);
        const json_t *v = json_array_get(list, json_array_size(list) - 1);
        if (streams) v = at(v, "response");
        assert_string_equal(text_at(v, "status"), "completed");
        assert_string_equal(text_at(v, "output.0.type"), "reasoning");
        assert_string_equal(text_at(v, "output.0.content.0.text"), THOUGHT);
        assert_string_equal(text_at(v, "output.0.encrypted_content"), "kt1:" THOUGHT);
        assert_string_equal(text_at(v, "output.1.content.0.text"), SAID);
        assert_string_equal(text_at(v, "output.2.type"), "function_call");
        assert_string_equal(text_at(v, "output.2.call_id"), "call_1");
        assert_string_equal(text_at(v, "output.2.name"), "weather");
        assert_string_equal(text_at(v, "output.2.arguments"), ARGUMENTS_0);
        assert_string_equal(text_at(v, "output.3.arguments"), ARGUMENTS_1);
        assert_int_equal(json_integer_value(at(v, "usage.output_tokens_details.reasoning_tokens")),
                         5);
        json_decref(list);
        close_job(job);
    }
}

/* Deltas of each item are its text; each item is begun and done once, in order. */
static void test_responses_events(void **state) {
    (void)state;
    static const char *const expected[] = {THOUGHT, SAID, ARGUMENTS_0, ARGUMENTS_1};
    char texts[4][1024] = {"", "", "", ""};
    kt__job *job = open_job(&kt__dialect_responses,
                            "{\"input\":\"x\",\"reasoning\":{\"summary\":\"auto\"}}");
    job->answer.stream = true;
    play_script(job, 2, 3);
    json_t *list = items_of(job);
    size_t i, n_added = 0, n_done = 0;
    const json_t *v;
    json_array_foreach(list, i, v) {
        const char *type = text_at(v, "type");
        size_t index = (size_t)json_integer_value(at(v, "output_index"));
        assert_int_equal(json_integer_value(at(v, "sequence_number")), i);
        if (!strcmp(type, "response.output_item.added")) assert_int_equal(index, n_added++);
        if (!strcmp(type, "response.output_item.done")) assert_int_equal(index, n_done++);
        if (at(v, "delta")) add_text(texts[index], text_at(v, "delta"));
        if (!strcmp(type, "response.function_call_arguments.done"))
            assert_string_equal(text_at(v, "arguments"), expected[index]);
        if (!strcmp(type, "response.reasoning_summary_text.done"))
            assert_string_equal(text_at(v, "text"), THOUGHT);
    }
    assert_int_equal(n_added, 4);
    assert_int_equal(n_done, 4);
    for (i = 0; i < 4; i++) assert_string_equal(texts[i], expected[i]);
    json_decref(list);
    close_job(job);
}

/* ---- the socket ---- */

static void test_lines(void **state) {
    (void)state;
    for (int streams = 0; streams < 2; streams++) {
        char content[1024] = "", thought[1024] = "", arguments[2][1024] = {"", ""};
        kt__job *job = open_job(&kt__dialect_native, "{" STORY "}");
        job->answer.stream = streams;
        play_script(job, 5, 3);
        json_t *list = items_of(job);
        size_t i, k;
        const json_t *v, *call;
        json_array_foreach(list, i, v) {
            add_text(content, text_at(v, "text"));
            add_text(thought, text_at(v, "reasoning"));
            json_array_foreach(at(v, "tool_calls"), k, call) {
                size_t index = streams ? (size_t)json_integer_value(at(call, "index")) : k;
                add_text(arguments[index], text_at(call, "function.arguments"));
            }
        }

        assert_string_equal(content, SAID);
        assert_string_equal(thought, THOUGHT);
        same_arguments(arguments[0], ARGUMENTS_0);
        same_arguments(arguments[1], ARGUMENTS_1);
        v = json_array_get(list, json_array_size(list) - 1);
        assert_string_equal(text_at(v, "finish_reason"), "tool_calls");
        json_decref(list);
        close_job(job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_whole),       cmocka_unit_test(test_chat_chunks),
        cmocka_unit_test(test_messages_whole),   cmocka_unit_test(test_messages_events),
        cmocka_unit_test(test_ollama_calls),     cmocka_unit_test(test_responses_items),
        cmocka_unit_test(test_responses_events), cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
