/* serve: pictures in the bodies of every dialect: the same conversation has the same answer, the second one costs nothing, and
 * what is wrong with a picture is said at its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve_reply.h"
#include "vision_fixture.h"

enum { BODY = 1 << 16 };

static world w;
static char dir[64], model_path[128], eye_path[128], base64[BODY / 4];

static void encode_base64(const uint8_t *data, size_t n, char *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits = (uint32_t)data[i] << 16;
        if (i + 1 < n) bits |= (uint32_t)data[i + 1] << 8;
        if (i + 2 < n) bits |= data[i + 2];
        for (size_t k = 0; k < 4; k++)
            *out++ = (char)(i + k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=');
    }
    *out = '\0';
}

static int setup(void **state) {
    static uint8_t data[BODY / 8];
    char command[1024], vocab[128];
    kt_error err;
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/kentang-seeing-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(model_path, sizeof model_path, "%s/model.gguf", dir);
    snprintf(eye_path, sizeof eye_path, "%s/mmproj-model.gguf", dir);
    snprintf(vocab, sizeof vocab, "%s/vocab", dir);
    eye_write_vocab(vocab, "<image>");
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset tiny-llama --quant f16 --vocab '%s' '%s' >/dev/null 2>&1",
             KT_BINARY_DIR, vocab, model_path);
    assert_int_equal(system(command), 0);
    unlink(vocab);
    kt_ctx *ctx;
    kt_model *model;
    kt_model_info info;
    die_on(kt_ctx_open(NULL, &ctx, &err), &err);
    die_on(kt_model_open(ctx, model_path, NULL, &model, &err), &err);
    kt_model_get_info(model, &info);
    eye_write(eye_path, "idefics3", KT__TYPE_Q8_0, info.d_model);
    kt_model_close(model);
    kt_ctx_close(ctx);
    FILE *file = fopen(KT_SOURCE_DIR "/tests/pictures/chart.png", "rb");
    assert_non_null(file);
    encode_base64(data, fread(data, 1, sizeof data, file), base64);
    fclose(file);
    snprintf(command, sizeof command, "model=%s", model_path);
    const char *settings[] = {command, "alias=m",
                              "pictures.folder=" KT_SOURCE_DIR "/tests/pictures",
                              "pictures.fetch=true", NULL};
    die_on(world_open(&w, &err, settings), &err);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    world_close(&w);
    unlink(model_path);
    unlink(eye_path);
    rmdir(dir);
    return 0;
}

static json_t *send_picture(const char *path, const char *format, int status) {
    static char body[BODY];
    snprintf(body, sizeof body, format, base64);
    reply *r = post(&w, path, body);
    if (r->status != status) fail_msg("%s: %s", path, r->text);
    json_t *v = body_of(r);
    free(r);
    return v;
}

#define LIKELIEST "\"temperature\":0,\"seed\":1"

static void every_dialect_sees(void **state) {
    (void)state;
    static const struct {
        const char *path, *format, *text, *cached;
    } rows[] = {
        {"/v1/chat/completions",
         "{\"max_tokens\":16," LIKELIEST ",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,%s\"}},{\"type\":\"text\","
         "\"text\":\"what?\"}]}]}",
         "choices.0.message.content", "usage.prompt_tokens_details.cached_tokens"},
        {"/v1/messages",
         "{\"max_tokens\":16," LIKELIEST ",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"%s\"}},"
         "{\"type\":\"text\",\"text\":\"what?\"}]}]}",
         "content.0.text", "usage.cache_read_input_tokens"},
        {"/v1/responses",
         "{\"max_output_tokens\":16," LIKELIEST
         ",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"input_image\",\"image_url\":\"data:image/png;base64,%s\"},{\"type\":\"input_text\","
         "\"text\":\"what?\"}]}]}",
         "output.0.content.0.text", "usage.input_tokens_details.cached_tokens"},
        {"/api/chat",
         "{\"stream\":false,\"options\":{\"num_predict\":16," LIKELIEST "},\"messages\":[{\"role\":"
         "\"user\",\"content\":\"what?\",\"images\":[\"%s\"]}]}",
         "message.content", "timings.cache_n"},
        {"/api/generate",
         "{\"stream\":false,\"options\":{\"num_predict\":16," LIKELIEST "},\"prompt\":\"what?\","
         "\"images\":[\"%s\"]}",
         "response", "timings.cache_n"},
    };
    json_t *first = send_picture(rows[0].path, rows[0].format, 200);
    assert_int_equal(json_integer_value(at(first, rows[0].cached)), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *v = send_picture(rows[i].path, rows[i].format, 200);
        assert_string_equal(text_at(v, rows[i].text), text_at(first, rows[0].text));
        assert_true(json_integer_value(at(v, rows[i].cached)) > 100);
        json_decref(v);
    }
    json_decref(first);
}

/* A picture that a tool returned is seen after its result. */
static void tools_pictures_are_seen(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"/v1/messages",
         "{\"max_tokens\":2," LIKELIEST
         ",\"tools\":[{\"name\":\"look\",\"input_schema\":{\"type\":\"object\"}}],"
         "\"messages\":[{\"role\":\"user\",\"content\":\"look\"},{\"role\":\"assistant\",\"content\":[{\"type\":"
         "\"tool_use\",\"id\":\"c1\",\"name\":\"look\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":"
         "\"tool_result\",\"tool_use_id\":\"c1\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"base64\","
         "\"media_type\":\"image/png\",\"data\":\"%s\"}}]},{\"type\":\"text\",\"text\":\"and?\"}]}]}",
         "usage.input_tokens"},
        {"/v1/responses",
         "{\"max_output_tokens\":2," LIKELIEST
         ",\"input\":[{\"role\":\"user\",\"content\":\"look\"},{\"type\":"
         "\"function_call\",\"call_id\":\"c1\",\"name\":\"look\",\"arguments\":\"{}\"},{\"type\":"
         "\"function_call_output\",\"call_id\":\"c1\",\"output\":[{\"type\":\"input_image\",\"image_url\":"
         "\"data:image/png;base64,%s\"}]}]}",
         "usage.input_tokens"},
        {"/v1/chat/completions",
         "{\"max_tokens\":2," LIKELIEST
         ",\"messages\":[{\"role\":\"user\",\"content\":\"look\"},{\"role\":"
         "\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"look\","
         "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":[{\"type\":\"image_url\","
         "\"image_url\":{\"url\":\"data:image/png;base64,%s\"}}]}]}",
         "usage.prompt_tokens"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *v = send_picture(rows[i][0], rows[i][1], 200);
        json_int_t n = json_integer_value(at(v, rows[i][2]));
        if (n < 120) fail_msg("%s: %lld tokens", rows[i][0], (long long)n);
        json_decref(v);
    }
}

#define OF_URL(url)                                                              \
    "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":" \
    "\"image_url\",\"image_url\":{\"url\":\"" url "\"}}]}]}"

static void files_of_one_folder_are_read(void **state) {
    (void)state;
    static const struct {
        const char *format;
        int status;
        const char *text;
    } rows[] = {{OF_URL("file://chart.png"), 200, NULL},
                {OF_URL("file://" KT_SOURCE_DIR "/tests/pictures/c%%68art.png"), 200, NULL},
                {OF_URL("file://../vision_fixture.h"), 400, "no such file"},
                {OF_URL("file:///etc/passwd"), 400, "no such file"},
                {OF_URL("file://%%00"), 400, "no such file"},
                {OF_URL("file://draw.py"), 400, "PNG, JPEG"},
                {OF_URL("http://127.0.0.1:9/x.png"), 400, "address that is not public"},
                {OF_URL("https://[::1]:9/x.png"), 400, "address that is not public"},
                {OF_URL("ftp://127.0.0.1/x.png"), 400, "expected a data: URL"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *v = send_picture("/v1/chat/completions", rows[i].format, rows[i].status);
        char *text = json_dumps(v, JSON_COMPACT);
        if (rows[i].text && !strstr(text, rows[i].text)) fail_msg("%s", text);
        free(text);
        json_decref(v);
    }
}

static void capabilities_say_so(void **state) {
    (void)state;
    reply *r = post(&w, "/api/show", "{\"model\":\"m\"}");
    assert_non_null(strstr(r->text, "\"vision\""));
    free(r);
}

static void bad_pictures_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *format, *place, *text;
    } rows[] = {
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":"
         "\"http://10.0.0.1/x.png\"}}]}]}",
         "messages[0].content[0]", "not public"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":\"data:image/"
         "png;base64,a*b\"}]}]}",
         "messages[0].content[0]", "base64 at its character 1"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
         "\"image_url\",\"image_url\":\"data:image/gif;base64,R0lGODlhAQABAA==\"}]}]}",
         "messages[0].content[1]", "a GIF file is not read"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"image_url\",\"image_url\":"
         "\"data:image/png;base64,aGk=\"}]}]}",
         "messages[0].content[0].type", "only \\\"text\\\""},
        {"{\"messages\":[[{\"role\":\"user\",\"content\":\"x\",\"images\":[\"aGk=\"]}]]}",
         "messages[0]", "one conversation a request"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *v = send_picture("/v1/chat/completions", rows[i].format, 400);
        char *text = json_dumps(v, JSON_COMPACT);
        assert_string_equal(text_at(v, "error.param"), rows[i].place);
        if (!strstr(text, rows[i].text)) fail_msg("%s", text);
        free(text);
        json_decref(v);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dialect_sees),           cmocka_unit_test(tools_pictures_are_seen),
        cmocka_unit_test(files_of_one_folder_are_read), cmocka_unit_test(capabilities_say_so),
        cmocka_unit_test(bad_pictures_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
