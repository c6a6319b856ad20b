/* serve: where an answer's time went, in every interface's answers, in the log, and in /metrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"

static world w;
WORLD_OF_GROUP(w, "log.level=info", NULL)

static const char *const parts[] = {"queue_ms",  "tokenize_ms", "prefill_ms", "decode_ms",
                                    "sample_ms", "wait_ms",     "held_ms"};

static void expect_sum(double sum, double total) {
    if (sum < 0.98 * total || sum > 1.02 * total)
        fail_msg("the parts sum to %.3f ms of %.3f", sum, total);
}

/* The parts sum to the total, and there was something to measure. */
static void check_timings(const json_t *timings, const char *whose) {
    double sum = 0, total = json_number_value(json_object_get(timings, "total_ms"));
    if (!json_is_object(timings)) fail_msg("%s: no timings", whose);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const json_t *part = json_object_get(timings, parts[i]);
        if (!json_is_number(part)) fail_msg("%s: no %s", whose, parts[i]);
        sum += json_number_value(part);
    }
    assert_true(total > 0);
    expect_sum(sum, total);
    assert_true(json_number_value(json_object_get(timings, "tokens_per_second")) > 0);
    assert_true(json_number_value(json_object_get(timings, "first_token_ms")) <= total);
}

/* The last {...} of a stream that has timings. */
static json_t *last_object(char *text) {
    json_t *found = NULL;
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *brace = strchr(line, '{');
        json_t *v = brace ? json_loads(brace, 0, NULL) : NULL;
        bool found_it = v &&
                        (at(v, "timings") || at(v, "response.timings") || at(v, "kentang.timings"));
        if (found_it) json_decref(found);
        if (found_it) found = json_incref(v);
        json_decref(v);
    }
    return found;
}

#define ANSWER "\"temperature\":0,\"ignore_eos\":true,"
static const struct {
    const char *path, *body, *at,
        *whole_at; /* of a stream's last object with timings, and of a whole answer */
} interfaces[] = {
    {"/v1/chat/completions", "{" STORY "," ANSWER "\"max_tokens\":12", "timings", "timings"},
    {"/v1/completions", "{\"prompt\":\"A cat\"," ANSWER "\"max_tokens\":12", "timings", "timings"},
    {"/v1/messages", "{" STORY ",\"temperature\":0,\"max_tokens\":12", "kentang.timings",
     "kentang.timings"},
    {"/api/chat", "{\"model\":\"demo\"," STORY ",\"options\":{\"num_predict\":12}", "timings",
     "timings"},
    {"/api/generate", "{\"model\":\"demo\",\"prompt\":\"A cat\",\"options\":{\"num_predict\":12}",
     "timings", "timings"},
    {"/v1/responses", "{\"input\":\"A cat\",\"max_output_tokens\":12", "response.timings",
     "timings"},
};

static void test_every_answer(void **state) {
    (void)state;
    char body[1024];
    for (size_t i = 0; i < sizeof interfaces / sizeof interfaces[0]; i++) {
        for (int stream = 0; stream < 2; stream++) {
            snprintf(body, sizeof body, "%s,\"stream\":%s}", interfaces[i].body,
                     stream ? "true" : "false");
            reply *r = post(&w, interfaces[i].path, body);
            if (stream) unchunk(r);
            json_t *v = stream ? last_object(r->body) : body_of(r);
            check_timings(at(v, stream ? interfaces[i].at : interfaces[i].whole_at),
                          interfaces[i].path);
            json_decref(v);
            free(r);
        }
    }
}

/* "name=12.5" of a line of the log */
static double logged(const char *line, const char *name) {
    char key[64];
    snprintf(key, sizeof key, " %s=", name);
    const char *found = strstr(line, key);
    if (!found) fail_msg("no %s in: %s", name, line);
    return strtod(found + strlen(key), NULL);
}

static void test_log_line(void **state) {
    (void)state;
    int ends[2];
    char text[8192] = "";
    size_t len = 0;
    assert_int_equal(pipe(ends), 0);
    int was = w.server->shared.log.fd;
    world_log_to(&w, ends[1]);
    free(post(&w, "/v1/completions", "{\"prompt\":\"A dog\"," ANSWER "\"max_tokens\":32}"));
    while (!strstr(text, "tok_s=") && receive_pipe(ends[0], text, sizeof text, &len)) {
    }
    world_log_to(&w, was);
    close(ends[0]);
    close(ends[1]);
    double sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) sum += logged(text, parts[i]);
    expect_sum(sum, logged(text, "total_ms"));
    assert_true(logged(text, "tok_s") > 0);
}

static void test_metrics(void **state) {
    (void)state;
    static const char *const names[] = {"kentang_request_tokenize_time_seconds_count",
                                        "kentang_request_sampling_time_seconds_count"};
    kt_heat heat;
    reply *r = ask(&w, "GET", "/metrics", "", "");
    for (size_t i = 0; i < 2; i++) {
        const char *found = strstr(r->body, names[i]);
        assert_non_null(found);
        assert_true(strtod(strchr(found, ' '), NULL) > 0);
    }
    kt_heat_read(&heat);
    assert_int_equal(heat.mhz > 0, strstr(r->body, "\nkentang_cpu_frequency_hertz ") != NULL);
    assert_int_equal(heat.counts_throttling,
                     strstr(r->body, "\nkentang_cpu_thermal_throttles_total ") != NULL);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_answer),
        cmocka_unit_test(test_log_line),
        cmocka_unit_test(test_metrics),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
