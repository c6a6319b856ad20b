/* cli: run with a session file or a disk cache answers as without, and computes less the second
 * time; what cannot be used is an error that names the file, or a miss. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "cli_process.h"
#include <kentang.h>

#define PROMPT \
    "-p 'Tell me a long story about a cat and a dog who live in a big house.' --seed 3 -n 25"

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/kentang-run-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* format may name the directory once or twice */
static json_t *run_json(const char *format, const char *input) {
    char options[512], arguments[640];
    snprintf(options, sizeof options, format, dir, dir);
    snprintf(arguments, sizeof arguments, "run --json %s", options);
    process p = cli_run(arguments, input);
    if (p.code != 0) fail_msg("kentang %s: exit code %d:\n%s", arguments, p.code, p.err);
    json_t *object = json_loads(p.out, 0, NULL);
    assert_non_null(object);
    cli_free(&p);
    return object;
}

static void expect(const char *format, const char *text, int n_cached) {
    json_t *answer = run_json(format, NULL);
    assert_string_equal(json_string_value(json_object_get(answer, "text")), text);
    if (n_cached >= 0)
        assert_int_equal(json_integer_value(json_object_get(answer, "cached_tokens")), n_cached);
    json_decref(answer);
}

static void expect_error(const char *format, int code, const char *says) {
    char options[512];
    snprintf(options, sizeof options, format, dir);
    cli_expect_error(options, code, says);
}

static long size_of(const char *name) {
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &st) == 0 ? (long)st.st_size : -1;
}

static void test_session_file(void **state) {
    (void)state;
    json_t *plain = run_json(PROMPT, NULL);
    const char *text = json_string_value(json_object_get(plain, "text"));
    int n = (int)json_integer_value(json_object_get(plain, "prompt_tokens"));
    expect(PROMPT " --prompt-cache '%s/s.kv' --prompt-cache-ro", text, 0);
    assert_int_equal(size_of("s.kv"), -1);
    expect(PROMPT " --prompt-cache '%s/s.kv'", text, 0);
    long size = size_of("s.kv");
    assert_true(size > 0);
    expect(PROMPT " --prompt-cache '%s/s.kv' --prompt-cache-ro -t 1", text, n - 1);
    expect(PROMPT " --prompt-cache '%s/s.kv' -ub 3", text, n - 1);
    assert_int_equal(size_of("s.kv"), size);
    json_decref(plain);
    /* a raw prompt, and one that shares nothing */
    plain = run_json("--raw -p 'Once upon a time there was' --temp 0 -n 9", NULL);
    text = json_string_value(json_object_get(plain, "text"));
    expect("--raw -p 'Once upon a time there was' --temp 0 -n 9 --prompt-cache '%s/s.kv'", text, 0);
    n = (int)json_integer_value(json_object_get(plain, "prompt_tokens"));
    expect("--raw -p 'Once upon a time there was' --temp 0 -n 9 --prompt-cache '%s/s.kv'", text,
           n - 1);
    json_decref(plain);
}

static void test_a_conversation_is_kept(void **state) {
    (void)state;
    char arguments[256];
    snprintf(arguments, sizeof arguments, "run -i --temp 0 -n 12 --prompt-cache '%s/c.kv'", dir);
    process first = cli_run(arguments, "Hello there, how are you today my friend?\n");
    assert_int_equal(first.code, 0);
    assert_true(size_of("c.kv") > 0);
    process second = cli_run(arguments, "Hello there, how are you today my friend?\n");
    assert_int_equal(second.code, 0);
    assert_string_equal(first.out, second.out);
    cli_free(&first);
    cli_free(&second);
}

static void test_session_files_that_cannot_be_used(void **state) {
    (void)state;
    char command[256];
    json_t *answer = run_json(PROMPT " --prompt-cache '%s/s.kv'", NULL);
    json_decref(answer);
    expect_error("run " PROMPT " --prompt-cache-ro", 2, "needs --prompt-cache");
    expect_error("run " PROMPT " --prompt-cache '%s/s.kv' --rope-freq-base 5000", 13, "begin anew");
    expect_error("run " PROMPT " --prompt-cache '%s/s.kv' -c 32", 10, "larger");
    expect_error("run " PROMPT " --prompt-cache /nonexistent/s.kv", 4, "/nonexistent/s.kv");
    snprintf(command, sizeof command, "truncate -s 3000 '%s/s.kv'", dir);
    assert_int_equal(system(command), 0);
    expect_error("run " PROMPT " --prompt-cache '%s/s.kv'", 5, "cut short");
    assert_int_equal(size_of("s.kv"), 3000); /* left as it is */
    snprintf(command, sizeof command, "echo my thesis > '%s/s.kv'", dir);
    assert_int_equal(system(command), 0);
    expect_error("run " PROMPT " --prompt-cache '%s/s.kv'", 5, "too few");
}

static void test_disk_cache(void **state) {
    (void)state;
    json_t *plain = run_json(PROMPT, NULL);
    const char *text = json_string_value(json_object_get(plain, "text"));
    int n = (int)json_integer_value(json_object_get(plain, "prompt_tokens"));
    expect(PROMPT " --cache-dir '%s/cache'", text, 0);
    expect(PROMPT " --cache-dir '%s/cache' -t 1", text, (n - 1) / 16 * 16);
    char command[256];
    snprintf(command, sizeof command, "for f in '%s'/cache/*/*.kv; do truncate -s 99 \"$f\"; done",
             dir);
    assert_int_equal(system(command), 0);
    expect(PROMPT " --cache-dir '%s/cache'", text, 0);
    expect(PROMPT " --cache-dir '%s/cache' --cache-size 1G", text, (n - 1) / 16 * 16);
    expect(PROMPT " --cache-dir '%s/cache' --prompt-cache '%s/both.kv'", text, (n - 1) / 16 * 16);
    expect(PROMPT " --cache-dir '%s/cache' --prompt-cache '%s/both.kv'", text, n - 1);
    json_decref(plain);
    expect_error("run " PROMPT " --cache-dir '%s/cache' --cache-size 10", 2, "too small");
    plain = run_json("--raw -p 'Once upon a time there was a cat that had a little red hat' -n 6 "
                     "--temp 0",
                     NULL);
    text = json_string_value(json_object_get(plain, "text"));
    for (int i = 0; i < 2; i++)
        expect(
            "--raw -p 'Once upon a time there was a cat that had a little red hat' -n 6 --temp 0 "
            "--cache-dir '%s/cache'",
            text, i == 0 ? 0 : -1);
    json_decref(plain);
}

/* Talks through the cache: the same words, and the second time they are found. */
static void test_a_conversation_through_the_disk_cache(void **state) {
    (void)state;
    const char *input = "Hello there, how are you today my friend?\nTell me a story.\n/stats\n";
    char arguments[256];
    process plain = cli_run("run -i --temp 0 -n 12", input);
    snprintf(arguments, sizeof arguments, "run -i --temp 0 -n 12 --cache-dir '%s/cache'", dir);
    for (int i = 0; i < 2; i++) {
        process p = cli_run(arguments, input);
        assert_int_equal(p.code, 0);
        assert_string_equal(p.out, plain.out);
        assert_non_null(strstr(p.err, "computed)"));
        cli_free(&p);
    }
    cli_free(&plain);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_session_file),
        TEST(test_a_conversation_is_kept),
        TEST(test_session_files_that_cannot_be_used),
        TEST(test_disk_cache),
        TEST(test_a_conversation_through_the_disk_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
