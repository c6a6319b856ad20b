/* cli: batch on the embedded demo model. Each line gets its result, whatever is beside it; killed
 * and gone on with, nothing is lost and nothing is computed twice. */
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <time.h>
#include <cmocka.h>

#include "cli_process.h"
#include "support.h"
#include <kentang.h>

static char dir[64], in_path[96], out_path[96];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/kentang-batch-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(in_path, sizeof in_path, "%s/in.jsonl", dir);
    snprintf(out_path, sizeof out_path, "%s/out.jsonl", dir);
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0) fail_msg("cannot write %s", path);
    fclose(f);
}

static char *read_text(const char *path) {
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    if (!f) fail_msg("no %s", path);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

/* Lines to an object: id to result. Every line ends, and no id comes twice. */
static json_t *results_of(const char *text) {
    json_t *all = json_object();
    while (*text) {
        const char *end = strchr(text, '\n');
        json_error_t error;
        if (!end) fail_msg("a line without its end: %s", text);
        json_t *line = json_loadb(text, (size_t)(end - text), 0, &error);
        if (!line) fail_msg("%s: %.*s", error.text, (int)(end - text), text);
        const char *id = json_string_value(json_object_get(line, "custom_id"));
        if (!id) id = json_string_value(json_object_get(line, "id"));
        if (!id || json_object_get(all, id)) fail_msg("no id, or one that was there: %s", id);
        json_object_set_new(all, id, line);
        text = end + 1;
    }
    return all;
}

static json_t *run_batch(const char *arguments, const char *input) {
    char command[512];
    snprintf(command, sizeof command, "batch %s", arguments);
    process p = cli_run(command, input);
    if (p.code != 0) fail_msg("kentang %s: exit code %d:\n%s", command, p.code, p.err);
    json_t *all = results_of(p.out);
    cli_free(&p);
    return all;
}

static const json_t *at(const json_t *v, const char *path) {
    char copy[256];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *part = strtok(copy, "/"); part; part = strtok(NULL, "/")) {
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(part)) : json_object_get(v, part);
        if (!v) fail_msg("nothing at %s of %s", part, path);
    }
    return v;
}

static const char *text_at(const json_t *v, const char *path) {
    const char *text = json_string_value(at(v, path));
    if (!text) fail_msg("no text at %s", path);
    return text;
}

/* ---- shapes ---- */

static const char mixed[] =
    "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{\"model\":"
    "\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story.\"}],\"max_tokens\":9,"
    "\"seed\":1}}\n"
    "{\"custom_id\":\"t\",\"url\":\"/v1/"
    "completions\",\"body\":{\"prompt\":\"Once\",\"max_tokens\":4,"
    "\"logprobs\":1,\"seed\":1}}\n"
    "  \r\n"
    "{\"id\":\"b\",\"prompt\":\"Once upon a time\",\"max_tokens\":5,\"temperature\":0}\n"
    "{\"custom_id\":\"c\",\"url\":\"/v1/chat/"
    "completions\",\"body\":{\"messages\":[],\"tools\":[{}]}}\n"
    "this is no json\n"
    "{\"id\":\"b\",\"prompt\":\"again\"}\n"
    "{\"id\":7,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"n\":2,\"logprobs\":true,"
    "\"top_logprobs\":2,\"max_tokens\":3,\"seed\":5}\n"
    "{\"custom_id\":\"d\",\"url\":\"/v1/embeddings\",\"body\":{}}\n"
    "{\"id\":\"e\",\"prompt\":[1,2,99999999]}\n"
    "{\"id\":\"f\",\"prompt\":\"x\",\"top_p\":7}\n"
    "{\"custom_id\":\"g\",\"method\":\"GET\",\"url\":\"/v1/"
    "completions\",\"body\":{\"prompt\":\"x\"}}\n"
    "{\"custom_id\":5,\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\"}}\n"
    "{\"prompt\":\"no id, no newline\",\"max_tokens\":2,\"seed\":1}";

static void test_each_line_gets_its_result(void **state) {
    (void)state;
    json_t *all = run_batch("", mixed);
    assert_int_equal(json_object_size(all), 13);
    assert_int_equal(json_integer_value(at(all, "a/response/status_code")), 200);
    assert_true(json_is_null(at(all, "a/error")));
    assert_string_equal(text_at(all, "a/response/body/object"), "chat.completion");
    assert_string_equal(text_at(all, "a/response/body/model"), "x");
    assert_string_equal(text_at(all, "a/response/body/choices/0/message/role"), "assistant");
    assert_string_equal(text_at(all, "a/response/body/choices/0/finish_reason"), "length");
    assert_int_equal(json_integer_value(at(all, "a/response/body/usage/completion_tokens")), 9);
    assert_int_equal(json_array_size(at(all, "t/response/body/choices/0/logprobs/tokens")), 4);
    assert_true(strlen(text_at(all, "b/text")) > 0);
    assert_string_equal(text_at(all, "b/finish"), "length");
    assert_int_equal(json_array_size(at(all, "7/choices")), 2);
    assert_int_equal(json_array_size(at(all, "7/choices/1/logprobs/content")), 3);
    assert_int_equal(json_array_size(at(all, "7/choices/1/logprobs/content/0/top_logprobs")), 2);
    assert_true(strlen(text_at(all, "line-14/text")) > 0);
    static const char *const errors[][3] = {
        {"c/response/body", "body.messages", "KT_E_ARG"},
        {"d/response/body", "url", "KT_E_UNSUPPORTED"},
        {"g/response/body", "method", "KT_E_ARG"},
        {"line-13/response/body", "custom_id", "KT_E_ARG"},
        {"line-6", NULL, "KT_E_FORMAT"},
        {"line-7", "id", "KT_E_ARG"},
        {"e", NULL, "KT_E_ARG"},
        {"f", "top_p", "KT_E_ARG"},
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        const json_t *e = json_object_get(at(all, errors[i][0]), "error");
        if (!e || strcmp(text_at(e, "code"), errors[i][2]) != 0 || !text_at(e, "message")[0])
            fail_msg("%s: another error", errors[i][0]);
        if (errors[i][1]) assert_string_equal(text_at(e, "param"), errors[i][1]);
    }
    assert_int_equal(json_integer_value(at(all, "c/response/status_code")), 400);
    json_decref(all);
}

static void test_wrong_use(void **state) {
    (void)state;
    cli_expect_error("batch /nonexistent/requests", 4, "cannot open");
    cli_expect_error("batch --out /nonexistent/results < /dev/null", 4, "cannot open");
    cli_expect_error("batch --parallel -1 < /dev/null", 2, "--parallel");
    cli_expect_error("batch --cache-dir /proc/nowhere < /dev/null", 4, "cache directory");
    process p = cli_run("batch", "");
    assert_int_equal(p.code, 0);
    assert_int_equal(p.out_len, 0);
    assert_non_null(strstr(p.err, "0 results"));
    cli_free(&p);
}

/* ---- the answers ---- */

enum { N_MANY = 24 };

static char *many_requests(bool backwards, int n_predict) {
    char *text = calloc(1, 1 << 16), *end = text;
    for (int i = 0; i < N_MANY; i++) {
        int k = backwards ? N_MANY - 1 - i : i;
        end += sprintf(
            end,
            "{\"id\":\"q%d\",\"messages\":[{\"role\":\"user\",\"content\":\"Tell me story "
            "number %d.\"}],\"max_tokens\":%d,\"seed\":%d,\"ignore_eos\":true}\n",
            k, k, n_predict + k % 5, k);
    }
    return text;
}

static void same_texts(const json_t *a, const json_t *b) {
    for (int i = 0; i < N_MANY; i++) {
        char path[32];
        snprintf(path, sizeof path, "q%d/text", i);
        assert_string_equal(text_at(a, path), text_at(b, path));
    }
}

static void test_alone_together_and_backwards(void **state) {
    (void)state;
    char *forth = many_requests(false, 10), *back = many_requests(true, 10);
    char cached[160];
    snprintf(cached, sizeof cached, "--cache-dir '%s/cache'", dir);
    json_t *alone = run_batch("--parallel 1 -t 1", forth);
    const char *const ways[] = {"--parallel 16", "--parallel 3 -t 2 -ub 8", cached, cached};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        json_t *all = run_batch(ways[i], i % 2 ? back : forth);
        assert_int_equal(json_object_size(all), N_MANY);
        same_texts(alone, all);
        json_decref(all);
    }
    /* and as `run` answers */
    process p = cli_run("run -p 'Tell me story number 4.' -n 14 --seed 4 --ignore-eos", NULL);
    assert_int_equal(p.code, 0);
    assert_string_equal(text_at(alone, "q4/text"), p.out);
    cli_free(&p);
    json_decref(alone);
    free(forth);
    free(back);
}

/* ---- going on ---- */

static int count_lines(const char *text) {
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static process go_on(void) {
    char arguments[256];
    snprintf(arguments, sizeof arguments, "batch '%s' --out '%s' --parallel 2", in_path, out_path);
    process p = cli_run(arguments, NULL);
    if (p.code != 0) fail_msg("exit code %d:\n%s", p.code, p.err);
    return p;
}

static void test_a_torn_last_line(void **state) {
    (void)state;
    write_text(in_path, mixed);
    process p = go_on();
    cli_free(&p);
    char *whole = read_text(out_path);
    json_t *expected = results_of(whole);
    for (size_t cut = strlen(whole) - 1; cut > 2; cut = cut * 2 / 3) {
        assert_int_equal(truncate(out_path, (off_t)cut), 0);
        char *kept = read_text(out_path);
        int n_kept = count_lines(kept);
        p = go_on();
        char says[64];
        snprintf(says, sizeof says, "%d results", 13 - n_kept);
        if (!strstr(p.err, says)) fail_msg("cut at %zu: expected %s: %s", cut, says, p.err);
        char *text = read_text(out_path);
        assert_memory_equal(text, kept,
                            strrchr(kept, '\n') ? (size_t)(strrchr(kept, '\n') - kept) : 0);
        json_t *all = results_of(text);
        assert_int_equal(json_object_size(all), json_object_size(expected));
        assert_string_equal(text_at(all, "b/text"), text_at(expected, "b/text"));
        json_decref(all);
        free(text);
        free(kept);
        cli_free(&p);
    }
    json_decref(expected);
    free(whole);
}

/* What failed is tried again when that is asked for, and only then; of two results with one id the
 * last counts. */
static void test_failed_lines_are_retried(void **state) {
    (void)state;
    static const char old[] = "{\"id\":\"a\",\"error\":{\"message\":\"out of memory\"}}\n"
                              "{\"id\":\"x\",\"custom_id\":\"o\",\"response\":{\"status_code\":500,"
                              "\"body\":{}},\"error\":null}\n"
                              "{\"id\":\"b\",\"text\":\"kept\"}\n";
    char arguments[320];
    write_text(in_path, "{\"id\":\"a\",\"prompt\":\"Once\",\"max_tokens\":4}\n"
                        "{\"id\":\"b\",\"prompt\":\"Once\",\"max_tokens\":4}\n"
                        "{\"custom_id\":\"o\",\"method\":\"POST\",\"url\":\"/v1/completions\","
                        "\"body\":{\"prompt\":\"Once\",\"max_tokens\":4}}\n");
    write_text(out_path, old);
    for (int pass = 0; pass < 3; pass++) {
        snprintf(arguments, sizeof arguments, "batch --temp 0 '%s' --out '%s' %s", in_path,
                 out_path, pass ? "--retry-failed" : "");
        process p = cli_run(arguments, NULL);
        assert_int_equal(p.code, 0);
        assert_non_null(strstr(p.err, pass == 1 ? "2 results" : "0 results"));
        char *text = read_text(out_path);
        assert_memory_equal(text, old, strlen(old));
        assert_int_equal(count_lines(text), pass ? 5 : 3);
        json_t *fresh = results_of(text + strlen(old));
        assert_int_equal(json_object_size(fresh), pass ? 2 : 0);
        if (pass) assert_true(strlen(text_at(fresh, "a/text")) > 0);
        json_decref(fresh);
        free(text);
        cli_free(&p);
    }
    cli_expect_error("batch --retry-failed < /dev/null", 2, "--out");
}

static void test_strict_and_mistaken_files(void **state) {
    (void)state;
    char arguments[256];
    write_text(in_path, "nonsense\n");
    snprintf(arguments, sizeof arguments, "batch --strict --quiet %s", in_path);
    cli_expect_error(arguments, 1, "1 of them errors");
    write_text(in_path, "{\"id\":\"a\",\"prompt\":\"Once\",\"max_tokens\":1}\n");
    process p = cli_run(arguments, NULL);
    assert_int_equal(p.code, 0);
    cli_free(&p);
    /* the requests themselves as the file of results */
    snprintf(arguments, sizeof arguments, "batch %s --out %s", in_path, in_path);
    cli_expect_error(arguments, 5, "line 1 is a request, not a result");
}

static void test_killed_and_gone_on_with(void **state) {
    (void)state;
    char *requests = many_requests(false, 60);
    uint32_t x = (uint32_t)time(NULL);
    json_t *expected = run_batch("--parallel 1", requests);
    write_text(in_path, requests);
    print_message("seed %u\n", x);
    int n_kills = 0;
    for (;;) {
        pid_t pid = fork();
        if (pid == 0) {
            char program[256];
            int null = open("/dev/null", O_WRONLY);
            dup2(null, STDERR_FILENO);
            snprintf(program, sizeof program, "%s/kentang", KT_BINARY_DIR);
            execl(program, "kentang", "batch", in_path, "--out", out_path, "--parallel", "2",
                  (char *)NULL);
            _exit(127);
        }
        lcg(&x);
        const struct timespec t = {0, 5000000 + (long)(x >> 4) % (20000000 + n_kills * 1000000)};
        nanosleep(&t, NULL);
        kill(pid, SIGKILL);
        int status;
        waitpid(pid, &status, 0);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        if (++n_kills > 300) break; /* a slow machine: the rest without a kill */
    }
    process p = go_on();
    char *text = read_text(out_path);
    json_t *all = results_of(text); /* no id twice, no line torn */
    assert_int_equal(json_object_size(all), N_MANY);
    same_texts(expected, all);
    print_message("%d kills\n", n_kills);
    json_decref(all);
    json_decref(expected);
    cli_free(&p);
    free(text);
    free(requests);
}

static void test_other_files_are_left_alone(void **state) {
    (void)state;
    char arguments[256];
    write_text(in_path, mixed);
    write_text(out_path, "dear diary\n{\"id\":\"x\"}\n");
    snprintf(arguments, sizeof arguments, "batch '%s' --out '%s'", in_path, out_path);
    cli_expect_error(arguments, 5, "line 1 is no result");
    char *text = read_text(out_path);
    assert_string_equal(text, "dear diary\n{\"id\":\"x\"}\n");
    free(text);
    write_text(out_path, "");
    int fd = open(out_path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    cli_expect_error(arguments, 13, "another batch");
    close(fd);
}

static void test_interrupted(void **state) {
    (void)state;
    char *requests = many_requests(false, 900);
    write_text(in_path, requests);
    free(requests);
    pid_t pid = fork();
    if (pid == 0) {
        char program[256];
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        snprintf(program, sizeof program, "%s/kentang", KT_BINARY_DIR);
        execl(program, "kentang", "batch", in_path, "--out", out_path, "-c", "1024", (char *)NULL);
        _exit(127);
    }
    const struct timespec t = {0, 50000000};
    nanosleep(&t, NULL);
    kill(pid, SIGINT);
    int status;
    waitpid(pid, &status, 0);
    /* before its handler is there, at work, or at its end */
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        assert_int_equal(WEXITSTATUS(status), kt_status_exit_code(KT_E_CANCELLED));
    if (access(out_path, F_OK) != 0) return;
    char *text = read_text(out_path);
    json_t *all = results_of(text);
    const char *id;
    json_t *line;
    json_object_foreach(all, id, line) assert_null(json_object_get(line, "error"));
    json_decref(all);
    free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_each_line_gets_its_result),    TEST(test_wrong_use),
        TEST(test_alone_together_and_backwards), TEST(test_a_torn_last_line),
        TEST(test_failed_lines_are_retried),     TEST(test_killed_and_gone_on_with),
        TEST(test_other_files_are_left_alone),   TEST(test_interrupted),
        TEST(test_strict_and_mistaken_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
