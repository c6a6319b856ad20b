/* kentang template: messages in, the prompt out; a model's template, a file's and a built-in one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli_process.h"

static const char messages[] = "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", "
                               "\"content\": \"Halo \xc3\xa9\"}]\n";

static void expect(const char *arguments, const char *input, const char *want) {
    process p = cli_run(arguments, input);
    if (p.code != 0 || strcmp(p.out, want) != 0)
        fail_msg("kentang %s: exit code %d, \"%s\", expected \"%s\"\n%s", arguments, p.code, p.out,
                 want, p.err);
    cli_free(&p);
}

static void expect_failure(const char *arguments, const char *input, int code, const char *says) {
    process p = cli_run(arguments, input);
    if (p.code != code || p.out_len != 0 || !strstr(p.err, says))
        fail_msg("kentang %s: exit code %d, \"%s\", expected %d and \"%s\"", arguments, p.code,
                 p.err, code, says);
    cli_free(&p);
}

static void test_builtin(void **state) {
    (void)state;
    expect("template --builtin chatml", messages,
           "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHalo \xc3\xa9<|im_end|>\n"
           "<|im_start|>assistant\n");
    expect("template --builtin chatml -",
           "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"add_generation_prompt\": "
           "false}",
           "<|im_start|>user\nx<|im_end|>\n");
    expect_failure("template --builtin nope", messages, 2, "nope");
}

static void test_file(void **state) {
    (void)state;
    char path[] = "/tmp/kt_template_XXXXXX", arguments[200];
    int fd = mkstemp(path);
    static const char source[] =
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no "
        "system') }}"
        "{% endif %}{{ m.role }}: {{ m.content }}{{ eos_token }}\n\n{% endfor %}";
    assert_true(fd >= 0);
    assert_int_equal(write(fd, source, sizeof source - 1), sizeof source - 1);
    close(fd);
    snprintf(arguments, sizeof arguments, "template --template %s --bos '<s>' --eos '</s>'", path);
    expect(arguments, messages,
           "<s>user: S\nHalo \xc3\xa9</s>\n\n"); /* merged, since it is refused */
    expect_failure(arguments, "[{\"role\": \"system\", \"content\": \"S\"}]", 11,
                   "line 1: no system");
    expect_failure(arguments, "[{\"role\": \"user\",", 5, "(byte 17 of the input)");
    expect_failure(arguments, "{}", 2, "messages");
    unlink(path);
    expect_failure(arguments, messages, 4, path);
}

static void test_usage(void **state) {
    (void)state;
    expect_failure("template -m x.gguf --builtin chatml", messages, 2, "one of");
    expect_failure("template -m /nonexistent.gguf", messages, 4, "/nonexistent.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtin),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
