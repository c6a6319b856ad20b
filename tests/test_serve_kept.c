/* serve: responses that are kept: found again, continued, listed and deleted by who asked for them, in memory and on disk,
 * within their bound; and calls of tools whose input is a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

#define ANNA "Authorization: Bearer anna-anna-anna-anna\r\n"
#define BEN "Authorization: Bearer ben-ben-ben-ben-ben\r\n"
#define KEYS "http.api_key=anna:anna-anna-anna-anna,ben:ben-ben-ben-ben-ben"

static world w;

static json_t *answer(const char *key, const char *method, const char *path, const char *body,
                      int status) {
    char headers[200];
    snprintf(headers, sizeof headers, "%s%s", key, *body ? JSON_TYPE : "");
    reply *r = ask(&w, method, path, headers, body);
    if (r->status != status) fail_msg("%s %s %s: %s", method, path, body, r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

static json_t *respond(const char *key, const char *body, int status) {
    return answer(key, "POST", "/v1/responses", body, status);
}

/* A response with its id in id. */
static void make_response(const char *key, const char *input, const char *previous, char id[64]) {
    char body[400];
    snprintf(body, sizeof body,
             "{\"input\":\"%s\",\"max_output_tokens\":6,\"temperature\":0%s%s%s}", input,
             previous ? ",\"previous_response_id\":\"" : "", previous ? previous : "",
             previous ? "\"" : "");
    json_t *v = respond(key, body, 200);
    snprintf(id, 64, "%s", text_at(v, "id"));
    if (previous) assert_string_equal(text_at(v, "previous_response_id"), previous);
    json_decref(v);
}

static json_t *get_path(const char *key, const char *id, const char *rest, int status) {
    char path[300];
    snprintf(path, sizeof path, "/v1/responses/%s%s", id, rest);
    return answer(key, "GET", path, "", status);
}

static void delete_id(const char *key, const char *id, int status) {
    char path[300];
    snprintf(path, sizeof path, "/v1/responses/%s", id);
    json_t *v = answer(key, "DELETE", path, "", status);
    if (status == 200) assert_true(json_is_true(at(v, "deleted")));
    json_decref(v);
}

static int n_tokens_of(const char *body) {
    json_t *v = answer(ANNA, "POST", "/v1/responses/input_tokens", body, 200);
    int n = (int)json_integer_value(at(v, "input_tokens"));
    json_decref(v);
    return n;
}

/* ---- in memory ---- */

static int open_memory(void **state) {
    static const char *const settings[] = {KEYS, NULL};
    (void)state;
    return world_set_up(&w, settings);
}

static int close_world(void **state) {
    (void)state;
    world_close(&w);
    return 0;
}

/* What is said to follow an answer is computed after both, as if all had been sent. */
static void test_continued(void **state) {
    (void)state;
    char first[64], second[64], body[1000];
    make_response(ANNA, "The cat sat.", NULL, first);
    json_t *v = get_path(ANNA, first, "", 200);
    snprintf(body, sizeof body,
             "{\"input\":[{\"role\":\"user\",\"content\":\"The cat sat.\"},{\"role\":\"assistant\","
             "\"content\":\"%s\"},{\"role\":\"user\",\"content\":\"And then?\"}]}",
             text_at(v, "output.0.content.0.text"));
    json_decref(v);
    int whole = n_tokens_of(body);
    snprintf(body, sizeof body, "{\"input\":\"And then?\",\"previous_response_id\":\"%s\"}", first);
    assert_int_equal(n_tokens_of(body), whole);
    make_response(ANNA, "And then?", first, second);
    v = get_path(ANNA, second, "/input_items?order=asc", 200);
    assert_int_equal(json_array_size(at(v, "data")), 3);
    assert_string_equal(text_at(v, "data.0.content.0.text"), "The cat sat.");
    assert_string_equal(text_at(v, "data.1.role"), "assistant");
    assert_string_equal(text_at(v, "data.2.content.0.type"), "input_text");
    assert_true(json_is_false(at(v, "has_more")));
    json_decref(v);
    delete_id(ANNA, first, 200); /* what was made of it stays whole */
    json_decref(get_path(ANNA, first, "", 404));
    delete_id(ANNA, first, 404);
    make_response(ANNA, "More.", second, first);
}

static void test_pages(void **state) {
    (void)state;
    char id[64], rest[200], last[64];
    json_t *v = respond(
        ANNA,
        "{\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
        "\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\",\"id\":\"msg_own\"}],"
        "\"max_output_tokens\":2}",
        200);
    snprintf(id, sizeof id, "%s", text_at(v, "id"));
    json_decref(v);
    v = get_path(ANNA, id, "/input_items?limit=2", 200);
    assert_string_equal(text_at(v, "first_id"), "msg_own"); /* the newest first */
    assert_true(json_is_true(at(v, "has_more")));
    snprintf(last, sizeof last, "%s", text_at(v, "last_id"));
    json_decref(v);
    snprintf(rest, sizeof rest, "/input_items?limit=2&after=%s", last);
    v = get_path(ANNA, id, rest, 200);
    assert_int_equal(json_array_size(at(v, "data")), 1);
    assert_string_equal(text_at(v, "data.0.content.0.text"), "a");
    json_decref(v);
    json_decref(get_path(ANNA, id, "/input_items?limit=0", 400));
    json_decref(get_path(ANNA, id, "/input_items?order=up", 400));
    json_decref(get_path(ANNA, id, "/others", 404));
    json_decref(get_path(ANNA, id, "?stream=true", 400));
}

static void test_whose(void **state) {
    (void)state;
    static const char *const none[] = {
        "resp_",      "resp_0", "..",
        "resp_..%2f", "x",      "resp_0123456789012345678901234567890123456789012345678901"};
    char id[64], body[200];
    make_response(ANNA, "Mine.", NULL, id);
    json_decref(get_path(BEN, id, "", 404));
    json_decref(get_path(BEN, id, "/input_items", 404));
    delete_id(BEN, id, 404);
    snprintf(body, sizeof body, "{\"input\":\"a\",\"previous_response_id\":\"%s\"}", id);
    json_t *v = respond(BEN, body, 404);
    assert_string_equal(text_at(v, "error.param"), "previous_response_id");
    json_decref(v);
    json_decref(get_path(ANNA, id, "", 200));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        json_decref(get_path(ANNA, none[i], "", 404));
    v = respond(ANNA, "{\"input\":\"a\",\"max_output_tokens\":2,\"store\":false}", 200);
    assert_true(json_is_false(at(v, "store")));
    json_decref(get_path(ANNA, text_at(v, "id"), "", 404));
    json_decref(v);
}

/* ---- tools whose input is a text ---- */

#define DATE                                                                              \
    "\"tools\":[{\"type\":\"custom\",\"name\":\"date\",\"format\":{\"type\":\"grammar\"," \
    "\"syntax\":\"regex\",\"definition\":\"[0-9]{4}-[0-9]{2}\"}}]"

static void test_custom_tools(void **state) {
    (void)state;
    char id[64], body[1000];
    json_t *v = respond(ANNA,
                        "{\"input\":\"When?\"," DATE
                        ",\"tool_choice\":{\"type\":\"custom\",\"name\":"
                        "\"date\"},\"max_output_tokens\":80,\"temperature\":0}",
                        200);
    assert_string_equal(text_at(v, "output.0.type"), "custom_tool_call");
    assert_string_equal(text_at(v, "output.0.name"), "date");
    assert_string_equal(text_at(v, "tools.0.type"), "custom");
    assert_int_equal(strncmp(text_at(v, "output.0.id"), "ctc_", 4), 0);
    const char *input = text_at(v, "output.0.input");
    assert_int_equal(strlen(input), 7);
    assert_int_equal(input[4], '-');
    snprintf(id, sizeof id, "%s", text_at(v, "id"));
    snprintf(body, sizeof body,
             "{\"previous_response_id\":\"%s\",\"input\":[{\"type\":\"custom_tool_call_output\","
             "\"call_id\":\"%s\",\"output\":\"ok\"}]," DATE ",\"max_output_tokens\":4}",
             id, text_at(v, "output.0.call_id"));
    json_decref(respond(ANNA, body, 200));
    /* the same sent whole is the same prompt */
    int after = n_tokens_of(body);
    snprintf(body, sizeof body,
             "{\"input\":[{\"role\":\"user\",\"content\":\"When?\"},{\"type\":\"custom_tool_call\","
             "\"call_id\":\"%s\",\"name\":\"date\",\"input\":\"%s\"},{\"type\":"
             "\"custom_tool_call_output\",\"call_id\":\"%s\",\"output\":\"ok\"}]," DATE "}",
             text_at(v, "output.0.call_id"), input, text_at(v, "output.0.call_id"));
    assert_int_equal(n_tokens_of(body), after);
    json_decref(v);
    v = respond(ANNA,
                "{\"input\":[{\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"d\"}]}",
                400);
    assert_string_equal(text_at(v, "error.param"), "input[0].input");
    json_decref(v);
}

static void test_custom_events(void **state) {
    (void)state;
    reply *r = ask(&w, "POST", "/v1/responses", ANNA JSON_TYPE,
                   "{\"input\":\"When?\"," DATE ",\"tool_choice\":\"required\",\"stream\":true,"
                   "\"max_output_tokens\":80}");
    assert_int_equal(r->status, 200);
    static const char *const order[] = {"event: response.output_item.added",
                                        "\"type\":\"custom_tool_call\"",
                                        "event: response.custom_tool_call_input.delta",
                                        "\"delta\":\"",
                                        "event: response.custom_tool_call_input.done",
                                        "\"input\":\"",
                                        "event: response.output_item.done",
                                        "event: response.completed"};
    const char *at_text = r->text;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        at_text = strstr(at_text, order[i]);
        if (!at_text) fail_msg("no %s in its place: %s", order[i], r->text);
    }
    assert_null(strstr(r->text, "function_call_arguments"));
    free(r);
}

/* ---- within their bound, and on disk ---- */

static void test_bound(void **state) {
    (void)state;
    static const char *const settings[] = {KEYS, "responses.max=8K", NULL};
    char first[64], next[64];
    assert_int_equal(world_set_up(&w, settings), 0);
    make_response(ANNA, "The first.", NULL, first);
    json_decref(get_path(ANNA, first, "", 200));
    for (int i = 0; i < 8; i++) make_response(ANNA, "The next.", NULL, next);
    json_decref(get_path(ANNA, first, "", 404));
    json_decref(get_path(ANNA, next, "", 200));
    world_close(&w);
}

static void test_off(void **state) {
    (void)state;
    static const char *const settings[] = {KEYS, "responses.max=0", NULL};
    assert_int_equal(world_set_up(&w, settings), 0);
    json_t *v = respond(ANNA, "{\"input\":\"a\",\"max_output_tokens\":2}", 200);
    assert_true(json_is_false(at(v, "store")));
    json_decref(get_path(ANNA, text_at(v, "id"), "", 404));
    json_decref(v);
    v = respond(ANNA, "{\"input\":\"a\",\"previous_response_id\":\"resp_1\"}", 404);
    assert_non_null(strstr(text_at(v, "error.message"), "responses.max"));
    json_decref(v);
    world_close(&w);
}

static void count_files(const char *dir, const char *end, int want) {
    char command[400];
    snprintf(command, sizeof command, "[ \"$(ls %s | grep -c '%s')\" = %d ]", dir, end, want);
    assert_int_equal(system(command), 0);
}

static void test_disk(void **state) {
    (void)state;
    char dir[] = "/tmp/kentang-kept-XXXXXX", setting[100], id[64], other[64], path[300];
    assert_non_null(mkdtemp(dir));
    snprintf(setting, sizeof setting, "responses.dir=%s/r", dir);
    const char *const settings[] = {KEYS, setting, NULL};
    assert_int_equal(world_set_up(&w, settings), 0);
    make_response(ANNA, "The cat sat.", NULL, id);
    make_response(ANNA, "The dog ran.", NULL, other);
    world second = {.port = 0};
    kt_error err;
    assert_int_equal(world_open(&second, &err, settings), KT_E_STATE); /* another server has it */
    rmdir(second.dir);
    world_close(&w);
    snprintf(path, sizeof path, "%s/r", dir);
    count_files(path, "json$", 2);
    assert_int_equal(world_set_up(&w, settings), 0);
    json_t *v = get_path(ANNA, id, "", 200);
    assert_string_equal(text_at(v, "id"), id);
    json_decref(v);
    json_decref(get_path(BEN, id, "", 404));
    delete_id(ANNA, id, 200);
    count_files(path, "json$", 1);
    snprintf(path, sizeof path, "%s/r/%s.json", dir, other);
    FILE *f = fopen(path, "w"); /* damaged: it is not found, and nothing falls over it */
    fputs("{\"client\":", f);
    fclose(f);
    json_decref(get_path(ANNA, other, "", 404));
    world_close(&w);
    snprintf(path, sizeof path, "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

int main(void) {
    const struct CMUnitTest in_memory[] = {
        cmocka_unit_test(test_continued),     cmocka_unit_test(test_pages),
        cmocka_unit_test(test_whose),         cmocka_unit_test(test_custom_tools),
        cmocka_unit_test(test_custom_events),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_disk),
    };
    int failed = cmocka_run_group_tests(in_memory, open_memory, close_world);
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}
