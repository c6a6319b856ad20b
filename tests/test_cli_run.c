/* cli: run, the conversation, logits and greedy on the embedded demo model. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli_process.h"
#include <kentang.h>

static process run_ok(const char *arguments, const char *input) {
    process p = cli_run(arguments, input);
    if (p.code != 0) fail_msg("kentang %s: exit code %d:\n%s", arguments, p.code, p.err);
    return p;
}

static json_t *run_json(const char *arguments, const char *input) {
    process p = run_ok(arguments, input);
    json_error_t error;
    json_t *object = json_loads(p.out, 0, &error);
    if (!object) fail_msg("kentang %s: not one JSON object: %s", arguments, error.text);
    cli_free(&p);
    return object;
}

static const char *text_at(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("no text at %s", key);
    return text;
}

static json_int_t number_at(const json_t *object, const char *key) {
    if (!json_is_integer(json_object_get(object, key))) fail_msg("no number at %s", key);
    return json_integer_value(json_object_get(object, key));
}

/* ---- run ---- */

static void test_text_is_alone_on_stdout(void **state) {
    (void)state;
    process p = run_ok("run -v -p 'Hello' --temp 0", NULL);
    assert_true(p.out_len > 0);
    assert_null(strstr(p.out, "kentang:"));
    assert_null(strstr(p.out, "<|"));
    assert_ptr_equal(strstr(p.err, "kentang: "), p.err); /* the plan */
    static const char *const words[] = {"context",     "memory",     "available",
                                        "threads",     "tok/s",      "first token",
                                        "peak memory", "finish eog", "seed "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_non_null(strstr(p.err, words[i]));
    int lines = 0;
    for (const char *c = p.err; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 2);
    cli_free(&p);
    p = run_ok("run -p 'Hello' --temp 0", NULL);
    static const char plan[] = "kentang: kentang demo Q5_K_M, 5 MB, context 1024\n";
    assert_ptr_equal(strstr(p.err, plan), p.err);
    cli_free(&p);
}

static void test_json(void **state) {
    (void)state;
    json_t *a = run_json("run -p 'Hello' --temp 0 --json", NULL);
    process plain = run_ok("run -p 'Hello' --temp 0", NULL);
    assert_string_equal(text_at(a, "text"), plain.out);
    assert_string_equal(text_at(a, "finish"), "eog");
    assert_true(number_at(a, "prompt_tokens") > 3);
    assert_true(number_at(a, "generated_tokens") > 1);
    assert_true(number_at(a, "peak_memory_bytes") > 1000000);
    assert_true(json_is_number(json_object_get(a, "decode_tok_s")));
    json_decref(a);
    cli_free(&plain);
}

static void test_speculation_changes_nothing(void **state) {
    (void)state;
    static const char *const how[] = {"", "--draft-max 3",
                                      "--draft-model '" KT_SOURCE_DIR
                                      "/src/lib/context/demo.gguf' --draft-max 5"};
    static const char *const sampling[] = {"--temp 0", "--seed 5"};
    for (int k = 0; k < 2; k++) {
        char arguments[512];
        snprintf(
            arguments, sizeof arguments,
            "run -p 'Count: one two three one two three one two' -n 60 --json --draft-max 0 %s",
            sampling[k]);
        json_t *plain = run_json(arguments, NULL);
        assert_int_equal(number_at(plain, "drafted_tokens"), 0);
        for (int i = 0; i < 3; i++) {
            snprintf(arguments, sizeof arguments,
                     "run -p 'Count: one two three one two three one two' -n 60 --json %s %s",
                     how[i], sampling[k]);
            json_t *a = run_json(arguments, NULL);
            assert_string_equal(text_at(a, "text"), text_at(plain, "text"));
            assert_true(number_at(a, "accepted_tokens") <= number_at(a, "drafted_tokens"));
            json_decref(a);
        }
        json_decref(plain);
    }
    cli_expect_error("run -p x --draft-model /nowhere.gguf", 4, "nowhere");
}

static void test_profile(void **state) {
    (void)state;
    static const char *const stages[] = {"template_ms", "tokenize_ms",   "setup_ms",
                                         "sample_ms",   "detokenize_ms", "output_ms"};
    for (int try = 0; try < 5; try++) { /* a busy machine may take the processor between parts */
        json_t *a = run_json(
            "run -p 'Tell me a story.' -n 300 --ignore-eos --seed 2 --json --profile", NULL);
        const json_t *p = json_object_get(a, "profile");
        double sum = 0, wall = json_real_value(json_object_get(p, "wall_ms"));
        for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
            sum += json_real_value(json_object_get(p, stages[i]));
        for (int phase = 0; phase < 2; phase++) {
            const char *key;
            json_t *ms, *parts = json_object_get(json_object_get(p, phase ? "decode" : "prefill"),
                                                 "parts_ms");
            assert_true(json_object_size(parts) >= 8);
            json_object_foreach(parts, key, ms) sum += json_real_value(ms);
        }
        assert_true(strlen(text_at(p, "bottleneck")) > 3);
        json_decref(a);
        if (sum > 0.98 * wall && sum < 1.02 * wall) break;
        if (try == 4) fail_msg("the parts sum to %.3f of %.3f ms", sum, wall);
    }
    process p = run_ok("run -p 'Tell me a story.' -n 8 --raw --profile", NULL);
    assert_non_null(strstr(p.err, "bottleneck: "));
    assert_non_null(strstr(p.err, "waiting at barriers"));
    cli_free(&p);
}

static void test_a_seed_repeats_the_run(void **state) {
    (void)state;
    char again[200];
    json_t *a = run_json(
        "run -p 'Tell me a story.' --json -n 40 --temp 1.5 --top-k 0 --top-p 1 --min-p 0", NULL);
    snprintf(again, sizeof again,
             "run -p 'Tell me a story.' --json -n 40 --temp 1.5 --top-k 0 --top-p 1 --min-p 0 "
             "--seed %lld",
             (long long)number_at(a, "seed"));
    json_t *b = run_json(again, NULL);
    assert_string_equal(text_at(a, "text"), text_at(b, "text"));
    assert_int_equal(number_at(a, "seed"), number_at(b, "seed"));
    json_decref(b);
    strcat(again, "1");
    b = run_json(again, NULL);
    assert_string_not_equal(text_at(a, "text"), text_at(b, "text"));
    json_decref(a);
    json_decref(b);
}

static void test_threads_tier_and_batch_change_nothing(void **state) {
    (void)state;
    static const char *const others[] = {"-t 1",
                                         "-t 2 -tb 1",
                                         "-t 3",
                                         "--isa ref",
                                         "-ub 4",
                                         "-b 8 -ub 3",
                                         "--preset potato",
                                         "--preset extreme"};
    process a = run_ok("run -p 'Tell me a story about a cat.' --seed 5 -n 60", NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char arguments[200];
        snprintf(arguments, sizeof arguments,
                 "run -p 'Tell me a story about a cat.' --seed 5 -n 60 %s", others[i]);
        process b = run_ok(arguments, NULL);
        assert_string_equal(a.out, b.out);
        cli_free(&b);
    }
    cli_free(&a);
}

static void test_presets_fill_what_is_not_given(void **state) {
    (void)state;
    process p = run_ok("run -v -p Hi -n 1 --preset potato", NULL);
    assert_non_null(strstr(p.err, "threads 2"));
    assert_non_null(strstr(p.err, "context 1024, batch 1024/256"));
    cli_free(&p);
    p = run_ok("run -v -p Hi -n 1 -ub 64 --preset potato -c 512", NULL);
    assert_non_null(strstr(p.err, "context 512"));
    assert_non_null(strstr(p.err, "/64"));
    cli_free(&p);
}

static void test_prompts_from_everywhere_are_the_same(void **state) {
    (void)state;
    char name[] = "/tmp/kentang-prompt-XXXXXX", arguments[200];
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "Hello there\n", 12), 12);
    close(fd);
    snprintf(arguments, sizeof arguments, "run --temp 0 -f %s", name);
    process runs[] = {run_ok("run --temp 0 -p 'Hello there'", NULL),
                      run_ok("run --temp 0", "Hello there\n"),
                      run_ok("run --temp 0 -", "Hello there"),
                      run_ok("run --temp 0 -f -", "Hello there\n"), run_ok(arguments, NULL)};
    for (size_t i = 1; i < sizeof runs / sizeof *runs; i++) {
        assert_string_equal(runs[0].out, runs[i].out);
        cli_free(&runs[i]);
    }
    cli_free(&runs[0]);
    unlink(name);
}

/* What users of other programs type. */
static void test_words_of_other_programs(void **state) {
    (void)state;
    static const char *const same[] = {
        "run --temp 0 -q '" KT_SOURCE_DIR "/src/lib/context/demo.gguf' 'Hello\nthere'",
        "run --temp 0 -q -m '" KT_SOURCE_DIR "/src/lib/context/demo.gguf' 'Hello\nthere'",
        "run --temp 0 -q -p 'Hello\\nthere' -e",
        "run --temp 0 -q -ngl 0 -fa on --jinja --no-warmup -p 'Hello\nthere'",
        "run --temp 0 -q -fa auto -p 'Hello\nthere'",
        "run --temp 0 -q -p 'Hello\nthere' -fa",
        "run --threads 10 --threads-batch 16 --batch-size 2048 --ubatch-size 512 -fa -C 0xFFFF "
        "--temp 0 -q -p 'Hello\nthere'",
        "run --temp 0 -q --no-blas -p 'Hello\nthere'"};
    process first = run_ok("run --temp 0 -p 'Hello\nthere'", NULL);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        process p = run_ok(same[i], NULL);
        assert_string_equal(p.out, first.out);
        assert_string_equal(strstr(p.err, "kentang:") ? p.err : "", "");
        cli_free(&p);
    }
    process p = run_ok("run -n 1 -nkvo --jinja -p x", NULL);
    assert_non_null(strstr(p.err, "without effect here: -nkvo --jinja\n"));
    cli_free(&p);
    /* where no graphics processor can be used the answer is the same, and a line says so */
    p = run_ok("run --temp 0 -q -ngl 99 --device none -p 'Hello\nthere'", NULL);
    assert_string_equal(p.out, first.out);
    cli_free(&p);
    cli_free(&first);
    cli_expect_error("serve --timeout eight", 2,
                     "option --timeout: expected a whole number, got \"eight\"\n");
    cli_expect_error("run --blas=eigen -p x", 2, "on|off|openblas|mkl|blis");
    cli_expect_error("run 'Why is the sky blue?'", 2, "a prompt follows -p");
    cli_expect_error("run -m '" KT_SOURCE_DIR "/src/lib/context/demo.gguf' a b", 2,
                     "put quotes around");
}

static void test_files_of_text(void **state) {
    (void)state;
    char name[] = "/tmp/kentang-text-XXXXXX", arguments[300];
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "Be kind.\n", 9), 9);
    snprintf(arguments, sizeof arguments, "run --temp 0 -p Hello -sysf %s", name);
    process a = run_ok(arguments, NULL), b = run_ok("run --temp 0 -p Hello -sys 'Be kind.'", NULL);
    assert_string_equal(a.out, b.out);
    cli_free(&a);
    cli_free(&b);
    assert_int_equal(write(fd, "caf\xe9\n", 5), 5);
    close(fd);
    snprintf(arguments, sizeof arguments, "run -f %s", name);
    cli_expect_error(arguments, 2, "byte 0xe9 in line 2; if it is Latin-1: iconv -f LATIN1");
    cli_expect_error(arguments, 2, "byte 12)");
    cli_expect_error(arguments, 2, name);
    unlink(name);
}

static void test_more_context_than_trained(void **state) {
    (void)state;
    process p = run_ok("run -p x -n 1 -c 2000", NULL);
    assert_non_null(strstr(p.err, "a context of 2000 is more than the 1024 positions"));
    cli_free(&p);
    p = run_ok("run -p x -n 1 -c 1024", NULL);
    assert_null(strstr(p.err, "warning"));
    cli_free(&p);
}

static void test_stops_and_limits(void **state) {
    (void)state;
    json_t *all = run_json("run -p 'Hello' --temp 0 --json", NULL);
    const char *text = text_at(all, "text");
    assert_true(strlen(text) > 12);
    char stop[5] = {0}, arguments[200];
    memcpy(stop, text + 6, 4);
    snprintf(arguments, sizeof arguments,
             "run -p 'Hello' --temp 0 --json --stop nowhere --stop '%s'", stop);
    json_t *stopped = run_json(arguments, NULL);
    assert_string_equal(text_at(stopped, "finish"), "stop");
    size_t expected = (size_t)(strstr(text, stop) - text);
    assert_int_equal(strlen(text_at(stopped, "text")), expected);
    assert_memory_equal(text_at(stopped, "text"), text, expected);
    json_decref(stopped);
    json_t *cut = run_json("run -p 'Hello' --temp 0 --json -n 3", NULL);
    assert_string_equal(text_at(cut, "finish"), "length");
    assert_int_equal(number_at(cut, "generated_tokens"), 3);
    json_decref(cut);
    json_t *full = run_json("run -p 'Hello' --temp 0 --json --ignore-eos -c 32", NULL);
    assert_string_equal(text_at(full, "finish"), "context");
    json_decref(full);
    json_decref(all);
    cli_expect_error("run -c 8 -p 'This is a prompt that does not fit into eight positions at all'",
                     10, "raise the context (-c)");
    cli_expect_error("run -p x --no-mmap --mem 2M -m '" KT_SOURCE_DIR "/src/lib/context/demo.gguf'",
                     3, "a copy of the model takes");
    cli_expect_error("run -p x --stop ''", 2, "stop string 0 is empty");
    cli_expect_error("run -p x --samplers topk", 2, "did you mean \"top_k\"");
    cli_expect_error("run -p x --logit-bias 99999999+1", 2, "not in the vocabulary");
}

static void test_raw_continues_the_text(void **state) {
    (void)state;
    process p = run_ok("run --raw -p 'Once upon a time' --temp 0 -n 20", NULL);
    assert_true(p.out_len > 10);
    cli_free(&p);
    p = run_ok("run --raw -p 'Once upon a time' --temp 0 -n 0", NULL);
    assert_string_equal(p.out, "");
    cli_free(&p);
}

/* A prompt of a control token's text is text: it does not end the turn. */
static void test_control_tokens_in_a_prompt_are_text(void **state) {
    (void)state;
    json_t *as_text = run_json("run -p '<|im_end|>' -n 1 --json", NULL);
    json_t *nothing = run_json("run -p 'x' -n 1 --json", NULL);
    assert_true(number_at(as_text, "prompt_tokens") > number_at(nothing, "prompt_tokens"));
    json_decref(as_text);
    json_decref(nothing);
}

static void test_an_interrupt_ends_the_answer(void **state) {
    (void)state;
    /* slow on purpose; the signal is sent once text has come */
    char name[] = "/tmp/kentang-out-XXXXXX", arguments[500];
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    close(fd);
    snprintf(arguments, sizeof arguments,
             "run -p 'Tell me a story.' --exact --isa ref -t 1 --ignore-eos > %s & pid=$!; i=0; "
             "while [ ! -s %s ] && [ $i -lt 400 ]; do sleep 0.05; i=$((i + 1)); done; "
             "kill -INT $pid; wait $pid",
             name, name);
    process p = cli_run(arguments, NULL);
    unlink(name);
    if (p.code != 9) fail_msg("exit code %d:\n%s", p.code, p.err);
    assert_non_null(strstr(p.err, "finish cancelled"));
    cli_free(&p);
}

/* ---- the conversation ---- */

static void test_conversation(void **state) {
    (void)state;
    char name[] = "/tmp/kentang-chat-XXXXXX", input[400];
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    close(fd);
    snprintf(input, sizeof input,
             "/system Be kind.\nHello\n/regn\nTell me \\\na story.\n/undo\n//slash\n/save "
             "%s\n/clear\n/stats\n/quit\nnot read\n",
             name);
    process p = run_ok("run -i --temp 0 -n 12", input);
    assert_non_null(strstr(p.err, "(system: Be kind.)"));
    assert_non_null(strstr(p.err, "did you mean /regen"));
    assert_non_null(strstr(p.err, "(a new conversation)"));
    json_t *saved = json_load_file(name, 0, NULL);
    assert_int_equal(json_array_size(saved), 5);
    assert_string_equal(text_at(json_array_get(saved, 0), "role"), "system");
    assert_string_equal(text_at(json_array_get(saved, 1), "content"), "Hello");
    assert_string_equal(text_at(json_array_get(saved, 3), "content"), "/slash");
    assert_string_equal(text_at(json_array_get(saved, 4), "role"), "assistant");
    json_decref(saved);
    cli_free(&p);
    unlink(name);
}

/* The sequence keeps what was computed: the same answers as from scratch. */
static void test_a_conversation_remembers(void **state) {
    (void)state;
    process a = run_ok("run -i --temp 0", "Hello\nWho are you?\n");
    process first = run_ok("run -p Hello --temp 0", NULL);
    assert_memory_equal(a.out, first.out, first.out_len);
    assert_non_null(strstr(a.err, "computed)"));
    cli_free(&a);
    cli_free(&first);
}

static void test_an_answer_is_given_again(void **state) {
    (void)state;
    process a = run_ok("run -i --seed 1 --temp 1.5 --min-p 0 -n 30",
                       "Tell me a story.\n/regen\n/regen\n");
    process b = run_ok("run -i --seed 1 --temp 1.5 --min-p 0 -n 30",
                       "Tell me a story.\n/regen\n/regen\n");
    assert_string_equal(a.out, b.out);
    const char *second = strchr(a.out, '\n') + 1;
    assert_true(strncmp(a.out, second, 40) != 0);
    cli_free(&a);
    cli_free(&b);
}

/* ---- logits and greedy ---- */

static void test_logits_and_greedy_lines(void **state) {
    (void)state;
    process all = run_ok("logits", "[1,5,9]\n\n[7]\n"), top = run_ok("logits --top 4", "[1,5,9]\n"),
            greedy = run_ok("greedy --n 6", "[1,5,9]\n[7]\n");
    json_t *full = json_loads(all.out, JSON_DISABLE_EOF_CHECK, NULL),
           *best = json_loads(top.out, 0, NULL),
           *ids = json_loads(greedy.out, JSON_DISABLE_EOF_CHECK, NULL);
    assert_int_equal(number_at(full, "n"), 3);
    json_t *logits = json_object_get(full, "logits");
    assert_int_equal(json_array_size(best), 4);
    double last = INFINITY;
    for (size_t i = 0; i < 4; i++) {
        json_t *pair = json_array_get(best, i);
        json_int_t id = json_integer_value(json_array_get(pair, 0));
        double logit = json_real_value(json_array_get(pair, 1));
        assert_true(logit == json_real_value(json_array_get(logits, (size_t)id)));
        assert_true((double)(float)logit != last && logit < last);
        last = logit;
        if (!i) assert_int_equal(id, number_at(full, "argmax"));
    }
    assert_in_range(json_array_size(ids), 1, 6);
    assert_int_equal(json_integer_value(json_array_get(ids, 0)), number_at(full, "argmax"));
    json_decref(full);
    json_decref(best);
    json_decref(ids);
    process one = run_ok("greedy --n 1", "[1,5,9]\n");
    assert_true(one.out_len > 2);
    cli_free(&one);
    cli_free(&all);
    cli_free(&top);
    cli_free(&greedy);
}

static void test_bad_lines_are_named(void **state) {
    (void)state;
    static const struct {
        const char *input;
        int code;
        const char *says;
    } bad[] = {{"[1]\n[2,\n", 5, "line 2: not JSON"},
               {"{}\n", 5, "line 1: expected a JSON array"},
               {"[]\n", 5, "at least one"},
               {"[1,\"a\"]\n", 5, "element 1 is no token id"},
               {"[-1]\n", 5, "element 0"},
               {"[99999999]\n", 2, "99999999"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        process p = cli_run("logits --top 1", bad[i].input);
        if (p.code != bad[i].code || !strstr(p.err, bad[i].says)) {
            fail_msg("%s: exit code %d:\n%s", bad[i].input, p.code, p.err);
        }
        cli_free(&p);
    }
    process p = cli_run("logits", NULL);
    assert_int_equal(p.code, 0);
    assert_string_equal(p.out, "");
    cli_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_alone_on_stdout),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_speculation_changes_nothing),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_a_seed_repeats_the_run),
        cmocka_unit_test(test_threads_tier_and_batch_change_nothing),
        cmocka_unit_test(test_presets_fill_what_is_not_given),
        cmocka_unit_test(test_prompts_from_everywhere_are_the_same),
        cmocka_unit_test(test_words_of_other_programs),
        cmocka_unit_test(test_files_of_text),
        cmocka_unit_test(test_more_context_than_trained),
        cmocka_unit_test(test_stops_and_limits),
        cmocka_unit_test(test_raw_continues_the_text),
        cmocka_unit_test(test_control_tokens_in_a_prompt_are_text),
        cmocka_unit_test(test_an_interrupt_ends_the_answer),
        cmocka_unit_test(test_conversation),
        cmocka_unit_test(test_a_conversation_remembers),
        cmocka_unit_test(test_an_answer_is_given_again),
        cmocka_unit_test(test_logits_and_greedy_lines),
        cmocka_unit_test(test_bad_lines_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
