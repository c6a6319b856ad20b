/* tokenize and detokenize: the JSON lines, the conveniences, and what is said of bad lines. */
#include "tokenizer_gguf.h"

#include "cli_process.h"

static small_vocab sv;
static char path[] = "/tmp/kt_clitok_XXXXXX";

static int write_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    close(fd);
    bpe_vocab(&sv, "gpt-2", 0);
    sv.v.add_bos = 1;
    vocab_write(&sv, path, NULL);
    return 0;
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static process run(const char *options, const char *input) {
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s -m %s", options, path);
    return cli_run(arguments, input);
}

static void assert_output(const char *options, const char *input, const char *expected) {
    process p = run(options, input);
    assert_string_equal(p.out, expected);
    assert_string_equal(p.err, "");
    assert_int_equal(p.code, 0);
    cli_free(&p);
}

static void test_lines(void **state) {
    (void)state;
    assert_output("tokenize", "\"ab\"\n\n\"\"\n\"\\u0000\\n\"\n", "[97,98]\n[]\n[0,10]\n");
    assert_output("detokenize", "[97,98]\n[]\n[0,10,34,92,127]\n[228,184,65]",
                  "\"ab\"\n\"\"\n\"\\u0000\\n\\\"\\\\\x7f\"\n\"\xef\xbf\xbd"
                  "A\"\n");
}

static void test_specials(void **state) {
    (void)state;
    char expected[256];
    int bos = sv.v.role_ids[KT__ROLE_BOS], end = vocab_id(&sv, "<|im_end|>");
    snprintf(expected, sizeof expected, "[97,%d]\n", end);
    assert_output("tokenize", "\"a<|im_end|>\"", expected);
    assert_output("tokenize --no-parse-special", "\"<|\"", "[60,124]\n");
    snprintf(expected, sizeof expected, "[%d,97]\n", bos);
    assert_output("tokenize --add-special -p a", "", expected);
    snprintf(expected, sizeof expected, "97\t\"a\"\n%d\t\"<|im_end|>\"\n", end);
    assert_output("tokenize --pieces -p 'a<|im_end|>'", "", expected);
    char ids[64];
    snprintf(ids, sizeof ids, "detokenize --ids [97,%d]", end);
    assert_output(ids, "", "\"a<|im_end|>\"\n");
    snprintf(ids, sizeof ids, "detokenize --no-special --ids [97,%d]", end);
    assert_output(ids, "", "\"a\"\n");
}

static void assert_refused(const char *options, const char *input, int expected,
                           const char *words) {
    process p = run(options, input);
    if (!strstr(p.err, words)) fail_msg("\"%s\" does not say \"%s\"", p.err, words);
    assert_int_equal(p.code, expected);
    cli_free(&p);
}

static void test_bad_lines(void **state) {
    (void)state;
    assert_refused("tokenize", "\"a\"\n12", 5, "line 2: expected a JSON string");
    assert_refused("tokenize", "\"a", 5, "line 1: not JSON");
    assert_refused("detokenize", "[1,\"x\"]", 5, "element 1 is no token id");
    assert_refused("detokenize", "[-1]", 5, "element 0 is no token id");
    assert_refused("detokenize", "[99999]", 2, "line 1: token id 99999");
    assert_refused("detokenize --ids 7", "", 5, "JSON array");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_specials),
        cmocka_unit_test(test_bad_lines),
    };
    return cmocka_run_group_tests(tests, write_file, remove_file);
}
