/* inspect: text and JSON of a file whose strings try to take over the terminal. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli_process.h"
#include "gguf/gguf.h"
#include "gguf_bytes.h"

static char path[] = "/tmp/kt_inspect_XXXXXX";

static int write_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    kt__gguf_writer *w;
    kt_error err;
    const uint64_t ne[] = {256, 2};
    const kt__str tokens[] = {{"<s>", 3}, {"\x1b[2J", 4}, {"\xff\xfe", 2}};
    static const char data[144 * 2];
    if (fd < 0 || kt__gguf_writer_open(path, &w, &err) != KT_OK) return -1;
    close(fd);
    kt__gguf_put_str(w, "general.architecture", "llama");
    kt__gguf_put_str(w, "general.name", "evil\x1b]0;title\x07 \xe2\x80\xae name");
    kt__gguf_put_u32(w, "general.file_type", 15);
    kt__gguf_put_u32(w, "llama.block_count", 7);
    kt__gguf_put_f32(w, "llama.rope.freq_base", 10000.0f);
    kt__gguf_put_str(w, "tokenizer.ggml.model", "llama");
    kt__gguf_put_strs(w, "tokenizer.ggml.tokens", tokens, 3);
    kt__gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
    kt__gguf_put_str(w, "tokenizer.chat_template", "first line\nsecond line");
    kt__gguf_put_str(w, "key\x1b[1mbold", "x");
    kt__gguf_declare_tensor(w, "token\x1b_embd.weight", 12, 2, ne);
    if (kt__gguf_finish_header(w, &err) != KT_OK) return -1;
    if (kt__gguf_write_data(w, data, sizeof data, &err) != KT_OK) return -1;
    return kt__gguf_writer_close(w, &err) == KT_OK ? 0 : -1;
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static char *run(const char *options) {
    static char text[1 << 16];
    char command[512];
    snprintf(command, sizeof command, "%s/kentang inspect %s %s", KT_BINARY_DIR, options, path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    assert_int_equal(pclose(f), 0);
    return text;
}

static void test_text_is_safe_and_complete(void **state) {
    (void)state;
    const char *text = run("--tensors");
    for (const char *p = text; *p; p++) assert_true(*p == '\n' || (unsigned char)*p >= 0x20);
    assert_null(strstr(text, "\xe2\x80\xae"));
    assert_non_null(strstr(text, "evil\\x1b]0;title\\x07 \\u{202e} name"));
    assert_non_null(strstr(text, "Q4_K_M, 4.500 bits/weight"));
    assert_non_null(strstr(text, "block_count"));
    assert_non_null(strstr(text, "first line"));
    assert_non_null(strstr(text, "token\\x1b_embd.weight"));
    assert_non_null(strstr(text, "\\xff\\xfe"));
    assert_non_null(strstr(text, "256 x 2"));
}

static void test_json_parses(void **state) {
    (void)state;
    json_error_t error;
    json_t *root = json_loads(run("--json --tensors"), 0, &error);
    if (!root) fail_msg("%s", error.text);
    assert_string_equal(json_string_value(json_object_get(root, "architecture")), "llama");
    assert_int_equal(json_integer_value(json_object_get(root, "parameters")), 512);
    json_t *meta = json_object_get(root, "metadata");
    assert_int_equal(json_integer_value(json_object_get(meta, "llama.block_count")), 7);
    assert_string_equal(json_string_value(json_object_get(meta, "tokenizer.chat_template")),
                        "first line\nsecond line");
    json_t *tensor = json_array_get(json_object_get(root, "tensors"), 0);
    assert_string_equal(json_string_value(json_object_get(tensor, "type")), "Q4_K");
    assert_int_equal(json_integer_value(json_object_get(tensor, "bytes")), 288);
    json_decref(root);
}

/* Of a model that runs, what suits this machine; of a file that is none, nothing. */
static void test_advice(void **state) {
    (void)state;
    json_error_t error;
    assert_null(strstr(run(""), "recommended"));
    process p = cli_run("inspect --json " KT_SOURCE_DIR "/src/lib/context/demo.gguf", NULL);
    assert_int_equal(p.code, 0);
    json_t *root = json_loads(p.out, 0, &error);
    if (!root) fail_msg("%s", error.text);
    json_t *advice = json_object_get(root, "advice");
    assert_string_equal(json_string_value(json_object_get(advice, "recommended")), "q8_0");
    assert_true(json_is_true(json_object_get(advice, "from_original")));
    assert_true(json_array_size(json_object_get(advice, "recipes")) == 8);
    json_decref(root);
    cli_free(&p);
    p = cli_run("inspect " KT_SOURCE_DIR "/src/lib/context/demo.gguf", NULL);
    assert_non_null(strstr(p.out, "recommended: q8_0: the nearest to the original, and it fits"));
    assert_non_null(strstr(p.out, "this file is quantised already"));
    cli_free(&p);
}

/* Files that no model could use are shown all the same, and end with 5. */
static void test_bad_tensors_are_shown(void **state) {
    (void)state;
    static const struct {
        int field;
        uint64_t value;
        int bytes;
        const char *says;
    } cases[] = {
        {AT_B_TYPE, 36, 4, "has type IQ4_NL_4_4 (number 36), which is not supported"},
        {AT_B_TYPE, 999, 4, "has type unknown (number 999)"},
        {AT_B_OFFSET, 0, 8, "inside tensor a.weight"},
        {AT_B_OFFSET, 33, 8, "no multiple of the alignment"},
        {AT_B_OFFSET, 1 << 20, 8, "it is truncated"},
        {AT_B_OFFSET, UINT64_MAX - 31, 8, "overflows"},
        {AT_B_NE0, 48, 8, "no multiple of the 32-element blocks"},
        {AT_B_NE0, 0, 8, "is zero"},
        {AT_B_NAME, 'a', 1, "occurs twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bad[] = "/tmp/kt_inspect_XXXXXX", arguments[128];
        json_error_t error;
        gguf_bytes b;
        gguf_bytes_build(&b, 3);
        gguf_bytes_patch(&b, cases[i].field, cases[i].value, cases[i].bytes);
        int fd = mkstemp(bad);
        assert_int_equal(write(fd, b.data, b.size), (ssize_t)b.size);
        close(fd);
        snprintf(arguments, sizeof arguments, "inspect --tensors %s", bad);
        process p = cli_run(arguments, NULL);
        if (p.code != 5 || !strstr(p.out, cases[i].says) || !strstr(p.out, "  cannot be used") ||
            !strstr(p.out, "a.weight") || !strstr(p.err, "1 of 2 tensors cannot be used"))
            fail_msg("%s: exit code %d\n%s%s", cases[i].says, p.code, p.out, p.err);
        cli_free(&p);
        snprintf(arguments, sizeof arguments, "inspect --json --tensors %s", bad);
        p = cli_run(arguments, NULL);
        assert_int_equal(p.code, 5);
        json_t *root = json_loads(p.out, 0, &error);
        if (!root) fail_msg("%s", error.text);
        json_t *tensor = json_array_get(json_object_get(root, "tensors"), 1);
        const char *fault = json_string_value(json_object_get(tensor, "fault"));
        assert_true(fault && strstr(fault, cases[i].says));
        json_decref(root);
        cli_free(&p);
        unlink(bad);
    }
}

/* A tensor's name of 64 bytes: the one before it shows that the file is read on. */
static void test_long_names_are_shown(void **state) {
    (void)state;
    char bad[] = "/tmp/kt_inspect_XXXXXX", arguments[128], name[65];
    gguf_bytes b;
    gguf_bytes_build(&b, 3);
    size_t at = b.at[AT_B_NAME], rest = b.at[AT_DATA] - at - 8;
    memset(name, 'n', sizeof name - 1);
    name[64] = '\0';
    gguf_bytes_patch(&b, AT_B_LEN, 64, 8);
    memmove(b.data + at + 64, b.data + at + 8, rest);
    memcpy(b.data + at, name, 64);
    b.size += 64;
    int fd = mkstemp(bad);
    assert_int_equal(write(fd, b.data, sizeof b.data), sizeof b.data);
    close(fd);
    snprintf(arguments, sizeof arguments, "inspect --tensors %s", bad);
    process p = cli_run(arguments, NULL);
    if (p.code != 5 || !strstr(p.out, name) || !strstr(p.out, "its name is 64 bytes long"))
        fail_msg("exit code %d\n%s%s", p.code, p.out, p.err);
    cli_free(&p);
    unlink(bad);
}

/* A tensor that the architecture has no use for: `run` refuses the file for it. */
static void test_tensors_without_a_place_are_shown(void **state) {
    (void)state;
    char model[] = "/tmp/kt_inspect_XXXXXX", arguments[200];
    close(mkstemp(model));
    snprintf(arguments, sizeof arguments, "synth --preset tiny-llama-bias %s", model);
    process p = cli_run(arguments, NULL);
    assert_int_equal(p.code, 0);
    cli_free(&p);
    snprintf(arguments, sizeof arguments, "inspect --tensors %s", model);
    p = cli_run(arguments, NULL);
    assert_int_equal(p.code, 0);
    cli_free(&p);
    snprintf(arguments, sizeof arguments,
             "LC_ALL=C sed -i s/attn_output.bias/attn_unknown.bia/g %s", model);
    assert_int_equal(system(arguments), 0);
    snprintf(arguments, sizeof arguments, "inspect --tensors %s", model);
    p = cli_run(arguments, NULL);
    if (p.code != 5 || !strstr(p.out, "attn_unknown.bia has no place in the llama architecture") ||
        !strstr(p.out, "  cannot be used\n"))
        fail_msg("exit code %d\n%s%s", p.code, p.out, p.err);
    cli_free(&p);
    unlink(model);
}

static void test_errors_have_codes(void **state) {
    (void)state;
    char command[512];
    snprintf(command, sizeof command, "%s/kentang inspect /nonexistent 2>/dev/null", KT_BINARY_DIR);
    assert_int_equal(WEXITSTATUS(system(command)), 4);
    snprintf(command, sizeof command, "%s/kentang inspect %s/kentang 2>/dev/null", KT_BINARY_DIR,
             KT_BINARY_DIR);
    assert_int_equal(WEXITSTATUS(system(command)), 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_safe_and_complete),
        cmocka_unit_test(test_json_parses),
        cmocka_unit_test(test_advice),
        cmocka_unit_test(test_bad_tensors_are_shown),
        cmocka_unit_test(test_long_names_are_shown),
        cmocka_unit_test(test_tensors_without_a_place_are_shown),
        cmocka_unit_test(test_errors_have_codes),
    };
    return cmocka_run_group_tests(tests, write_file, remove_file);
}
