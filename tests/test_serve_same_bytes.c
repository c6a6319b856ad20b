/* serve: one request, the same bytes everywhere: library, command line, socket, and each dialect of
 * HTTP, whole and streamed. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli_process.h"
#include "serve_world.h"
#include "support.h"

enum { TEXT_BYTES = 16384 };

typedef struct question {
    const char *text;
    bool raw;   /* continued as it stands; else a user's message */
    int seed;   /* -1: greedy */
    int n;      /* tokens */
    float temp; /* unless greedy */
    const char *stop;
} question;

static const question questions[] = {
    {"Tell me a story about a cat.", false, 1, 80, 0.8f, NULL},
    {"Tell me a story about a cat.", false, 2, 80, 1.5f, NULL},
    {"Tell me a story about a cat.", false, -1, 60, 0, NULL},
    {"Tell me a story about a dog.", false, 7, 200, 0.8f, "the"},
    {"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80 \"quoted\" \\ back", false, 3, 40, 0.8f, NULL},
    {"Once upon a time", true, 5, 60, 0.8f, NULL},
    {"Once upon a time", true, -1, 30, 0, NULL},
};

static world w;
WORLD_OF_GROUP(w, NULL)

/* ---- library ---- */

static void by_library(const question *q, char *out) {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
    kt_error err;
    kt_request_report result;
    kt_gen_params params = kt_gen_params_default();
    const kt_message message = {"user", q->text};
    int32_t ids[256];
    size_t n;
    params.n_predict = q->n;
    params.stop = &q->stop;
    params.n_stop = q->stop ? 1 : 0;
    params.sampling.temperature = q->temp;
    if (q->seed >= 0) params.sampling.seed = (uint64_t)q->seed;
    assert_int_equal(kt_ctx_open(NULL, &ctx, &err), KT_OK);
    assert_int_equal(kt_model_open_demo(ctx, NULL, &model, &err), KT_OK);
    assert_int_equal(kt_engine_open(model, NULL, &engine, &err), KT_OK);
    assert_int_equal(kt_seq_open(engine, &seq, &err), KT_OK);
    if (q->raw) {
        assert_int_equal(kt_tokenize(model, q->text, strlen(q->text),
                                     KT_TOK_ADD_SPECIAL | KT_TOK_PARSE_SPECIAL, ids, 256, &n, &err),
                         KT_OK);
        assert_int_equal(kt_generate(seq, ids, n, &params, append_text, out, &result, &err), KT_OK);
    } else {
        assert_int_equal(kt_chat(seq, &message, 1, &params, append_text, out, &result, &err),
                         KT_OK);
    }
    kt_seq_close(seq);
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

/* ---- command line ---- */

/* The prompt goes by a file: its bytes mean nothing to a shell there. */
static void by_command_line(const question *q, bool json, char *out) {
    char path[128], arguments[512], stop[64] = "", seed[32] = "";
    snprintf(path, sizeof path, "%s/prompt", w.dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(q->text, f);
    fclose(f);
    if (q->stop) snprintf(stop, sizeof stop, "--stop '%s'", q->stop);
    if (q->seed >= 0) snprintf(seed, sizeof seed, "--seed %d", q->seed);
    snprintf(arguments, sizeof arguments, "run -f '%s' -n %d --temp %g %s %s %s %s", path, q->n,
             (double)q->temp, seed, stop, q->raw ? "--raw" : "", json ? "--json" : "");
    process p = cli_run(arguments, NULL);
    if (p.code != 0) fail_msg("kentang %s: %s", arguments, p.err);
    if (json) {
        json_t *v = json_loads(p.out, 0, NULL);
        strcpy(out, json_string_value(json_object_get(v, "text")));
        json_decref(v);
    } else {
        memcpy(out, p.out, p.out_len + 1);
    }
    cli_free(&p);
    unlink(path);
}

/* ---- the server ---- */

typedef enum { SOCKET, OPENAI, ANTHROPIC, OLLAMA } dialect;
static const char *const names[] = {"socket", "OpenAI", "Anthropic", "Ollama"};

/* The body of a request; for free(). NULL: the dialect cannot say it. */
static char *body_of(const question *q, dialect d, bool stream) {
    json_t *body = json_pack("{s:b}", "stream", stream);
    json_t *options = d == OLLAMA ? json_object() : body;
    if (d == ANTHROPIC && (q->raw || q->seed >= 0)) { /* it has no seed */
        json_decref(body);
        return NULL;
    }
    json_object_set_new(options, d == OLLAMA ? "num_predict" : "max_tokens", json_integer(q->n));
    json_object_set_new(options, "temperature", json_real((double)q->temp));
    if (q->seed >= 0) json_object_set_new(options, "seed", json_integer(q->seed));
    if (q->stop)
        json_object_set_new(options, d == ANTHROPIC ? "stop_sequences" : "stop",
                            json_pack("[s]", q->stop));
    if (q->raw) {
        json_object_set_new(body, "prompt", json_string(q->text));
        json_object_set_new(body, "raw", json_true());
    } else {
        json_object_set_new(body, "messages",
                            json_pack("[{s:s,s:s}]", "role", "user", "content", q->text));
    }
    if (d == OLLAMA) json_object_set_new(body, "options", options);
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

static const json_t *at(const json_t *v, const char *path) {
    char copy[64];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *part = strtok(copy, "."); part && v; part = strtok(NULL, "."))
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(part)) : json_object_get(v, part);
    return v;
}

/* Appends whatever text an object of an answer carries. */
static void add_text(const json_t *v, char *out) {
    static const char *const paths[] = {
        "text",           "choices.0.text", "choices.0.message.content", "choices.0.delta.content",
        "content.0.text", "delta.text",     "message.content",           "response"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *text = json_string_value(at(v, paths[i]));
        if (text) strcat(out, text);
    }
}

/* Every JSON object that begins a line of the text, or follows "data: " there. */
static void gather(const char *text, char *out) {
    while (*text) {
        size_t len = strcspn(text, "\n");
        const char *json = !strncmp(text, "data: ", 6) ? text + 6 : text;
        json_t *v = json_loadb(json, len - (size_t)(json - text), 0, NULL);
        add_text(v, out);
        json_decref(v);
        text += len + (text[len] == '\n');
    }
}

/* Removes the framing of chunked transfer. */
static void unchunk(reply *r) {
    char *in = r->body, *out = r->body;
    for (unsigned long n; (n = strtoul(in, &in, 16)) > 0; in += n + 2) {
        in += 2;
        memmove(out, in, n);
        out += n;
    }
    *out = '\0';
}

static bool by_server(const question *q, dialect d, bool stream, char *out) {
    static const char *const paths[][2] = {{"", ""},
                                           {"/v1/chat/completions", "/v1/completions"},
                                           {"/v1/messages", ""},
                                           {"/api/chat", "/api/generate"}};
    char *body = body_of(q, d, stream);
    if (!body) return false;
    if (d == SOCKET) {
        char *text = ask_line(&w, body);
        gather(text, out);
        free(text);
    } else {
        reply *r = post(&w, paths[d][q->raw], body);
        if (r->status != 200) fail_msg("%s: %s", body, r->text);
        if (stream) unchunk(r);
        gather(r->body, out);
        free(r);
    }
    free(body);
    return true;
}

/* ---- all of them ---- */

static void compare(const char *where, bool variant, size_t i, const char *got, const char *right) {
    if (strcmp(got, right) != 0)
        fail_msg("question %zu by %s (%d): \"%s\", by the library \"%s\"", i, where, variant, got,
                 right);
}

static void test_same_bytes(void **state) {
    (void)state;
    char *right = malloc(TEXT_BYTES), *got = malloc(TEXT_BYTES);
    int n_compared = 0;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        const question *q = &questions[i];
        right[0] = '\0';
        by_library(q, right);
        assert_true(strlen(right) > 10);
        if (q->stop) assert_null(strstr(right, q->stop));
        for (int variant = 0; variant < 2; variant++) {
            got[0] = '\0';
            by_command_line(q, variant, got);
            compare("the command line", variant, i, got, right);
            n_compared++;
            for (dialect d = SOCKET; d <= OLLAMA; d++) {
                got[0] = '\0';
                if (!by_server(q, d, variant, got)) continue;
                compare(names[d], variant, i, got, right);
                n_compared++;
            }
        }
    }
    assert_int_equal(n_compared, 7 * 2 * 4 + 2);
    free(got);
    free(right);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bytes)};
    return cmocka_run_group_tests(tests, open_group, close_group);
}
