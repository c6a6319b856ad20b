/* cli: bench on small models made in memory, and the demo model. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli_process.h"

static process bench_ok(const char *arguments) {
    char line[300];
    snprintf(line, sizeof line, "bench %s", arguments);
    process p = cli_run(line, NULL);
    if (p.code != 0) fail_msg("kentang %s: exit code %d:\n%s", line, p.code, p.err);
    return p;
}

static json_t *bench_json(const char *arguments) {
    process p = bench_ok(arguments);
    json_error_t error;
    json_t *rows = json_loads(p.out, 0, &error);
    if (!json_is_array(rows)) fail_msg("bench %s: no JSON array: %s", arguments, error.text);
    cli_free(&p);
    return rows;
}

static void expect_row(const json_t *rows, size_t i, const char *test, int threads) {
    const json_t *row = json_array_get(rows, i);
    assert_string_equal(json_string_value(json_object_get(row, "test")), test);
    assert_int_equal(json_integer_value(json_object_get(row, "threads")), threads);
    assert_true(json_real_value(json_object_get(row, "tok_s")) > 0);
    assert_non_null(json_object_get(row, "share_of_limit"));
    assert_int_equal(json_array_size(json_object_get(row, "tok_s_runs")), 2);
}

static void test_rows_of_the_grid(void **state) {
    (void)state;
    json_t *rows = bench_json("--preset tiny-qwen2 -p 8,16 -n 4 -d 0,20 -b 1,3 -t 1,2 -r 2 "
                              "--no-limits -o json");
    static const char *const names[] = {"pp8",      "pp16",    "tg4",   "pp8@d20",
                                        "pp16@d20", "tg4@d20", "tg4x3", "tg4@d20x3"};
    assert_int_equal(json_array_size(rows), 16);
    for (size_t i = 0; i < 16; i++) expect_row(rows, i, names[i % 8], i < 8 ? 1 : 2);
    assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "share_of_limit")));
    json_decref(rows);
}

static void test_tiers_and_models(void **state) {
    (void)state;
    json_t *rows = bench_json("--preset tiny-llama -p 8 -n 0 -t 1 -r 2 --isa ref,ref --no-limits "
                              "-o json");
    assert_int_equal(json_array_size(rows), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(rows, i);
        expect_row(rows, i, "pp8", 1);
        assert_string_equal(json_string_value(json_object_get(row, "isa")), "ref");
    }
    json_decref(rows);
    process p = bench_ok("-m demo,demo -p 0 -n 2 -t 1 -r 2 --no-limits -o csv");
    int lines = 0;
    for (const char *at = p.out; *at; at++) lines += *at == '\n';
    assert_int_equal(lines, 3);
    cli_free(&p);
    p = cli_run("bench -p 8 -n 0 -r 2 --no-limits --isa ref,no-such-tier", NULL);
    assert_int_not_equal(p.code, 0);
    assert_non_null(strstr(p.err, "no-such-tier"));
    cli_free(&p);
}

static void test_share_of_the_limit(void **state) {
    (void)state;
    json_t *rows = bench_json("--preset tiny-llama --quant q8_0 -p 8 -n 4 -t 1 -r 2 -o json");
    assert_int_equal(json_array_size(rows), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(rows, i);
        expect_row(rows, i, i ? "tg4" : "pp8", 1);
        /* a folder without room for the temporary file leaves it out */
        if (json_is_null(json_object_get(row, "read_bytes_per_s"))) continue;
        double share = json_real_value(json_object_get(row, "share_of_limit"));
        double limit = json_real_value(json_object_get(row, "limit_tok_s"));
        double speed = json_real_value(json_object_get(row, "tok_s"));
        assert_true(share > 0 && limit > 0);
        assert_true(share * limit > 0.999 * speed && share * limit < 1.001 * speed);
    }
    json_decref(rows);
}

static void test_float_weights_have_no_integer_limit(void **state) {
    (void)state;
    json_t *rows = bench_json("--preset tiny-llama --quant f16 -p 8 -n 0 -t 1 -r 2 -o json");
    assert_int_equal(json_array_size(rows), 1);
    assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "share_of_limit")));
    json_decref(rows);
}

/* Batches and forms of keys and values are lists as well; each row says what it was. */
static void test_lists_of_batches_and_forms(void **state) {
    (void)state;
    json_t *rows = bench_json("-p 24 -n 0 -t 1 -r 2 -ub 32,64 --kv f16,q8,k8v4 --kv-tail 16 "
                              "--no-limits -o json");
    static const char *const keys[] = {"f16", "q8_0", "q8_0"}, *const values[] = {"f16", "q8_0",
                                                                                  "q4_0"};
    assert_int_equal(json_array_size(rows), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *row = json_array_get(rows, i);
        expect_row(rows, i, "pp24", 1);
        assert_int_equal(json_integer_value(json_object_get(row, "n_ubatch")), i < 3 ? 32 : 64);
        assert_string_equal(json_string_value(json_object_get(row, "kv_keys")), keys[i % 3]);
        assert_string_equal(json_string_value(json_object_get(row, "kv_values")), values[i % 3]);
        assert_int_equal(json_integer_value(json_object_get(row, "kv_tail")), i % 3 ? 16 : 0);
    }
    json_decref(rows);
}

static double total_ms(const json_t *row, const char *phase) {
    const json_t *of = json_object_get(json_object_get(row, "profile"), phase);
    return json_real_value(json_object_get(of, "total_ms"));
}

/* Each test's own: a prompt decodes nothing, and a step computes no prompt. */
static void test_profile(void **state) {
    (void)state;
    json_t *rows = bench_json("--preset tiny-llama -p 16 -n 8 -t 2 -r 2 --no-limits --profile "
                              "-o json");
    const json_t *pp = json_array_get(rows, 0), *tg = json_array_get(rows, 1);
    assert_true(total_ms(pp, "prefill") > 0 && total_ms(pp, "decode") == 0);
    assert_true(total_ms(tg, "decode") > 0 && total_ms(tg, "prefill") == 0);
    const json_t *threads = json_object_get(json_object_get(tg, "profile"), "threads");
    assert_int_equal(json_array_size(json_object_get(threads, "decode_ms")), 2);
    json_decref(rows);
}

static void test_table_and_csv(void **state) {
    (void)state;
    process p = bench_ok("-p 8 -n 4 -t 1 -r 1 --no-limits");
    static const char *const words[] = {"| model",        "params", "threads", "t/s",
                                        "share of limit", " pp8 |", " tg4 |",  "median"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(p.out, words[i])) fail_msg("no \"%s\" in\n%s", words[i], p.out);
    cli_free(&p);
    p = bench_ok("-p 8 -n 4 -t 1 -r 1 --no-limits -o csv");
    assert_ptr_equal(strstr(p.out, "model,quant,"), p.out);
    assert_non_null(strstr(p.out, ",1,pp8,"));
    cli_free(&p);
}

static void test_errors_name_the_option(void **state) {
    (void)state;
    cli_expect_error("bench -p 8,,9", 2, "-p: expected whole numbers");
    cli_expect_error("bench -ub 0", 2, "-ub: expected whole numbers from 1");
    cli_expect_error("bench --kv q8,q9", 2, "--kv: \"q9\", expected f16, q8");
    cli_expect_error("bench -t 0", 2, "-t: expected whole numbers from 1");
    cli_expect_error("bench -p 0 -n 0", 2, "nothing to do");
    cli_expect_error("bench --preset nobody", 2, "no preset");
    cli_expect_error("bench --preset llama3.2-3b", 2, "did you mean \"llama-3.2-3b\"?");
    cli_expect_error("bench --preset tiny-llama --quant q4km", 2, "did you mean \"q4_k_m\"?");
    cli_expect_error("synth --preset tinyllama /tmp/no.gguf", 2, "did you mean \"tiny-llama\"?");
    cli_expect_error("bench --preset tiny-llama --quant q9", 2, "no quantisation recipe");
    cli_expect_error("bench --preset tiny-llama -m x.gguf", 2, "two models");
}

/* The example of --help names a preset that there is. */
static void test_help_names_a_preset(void **state) {
    (void)state;
    char name[64], line[128];
    process help = cli_run("bench --help", NULL), list = cli_run("synth --help", NULL);
    const char *at = strstr(help.out, "--preset llama");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "--preset %63s", name), 1);
    snprintf(line, sizeof line, " %s", name);
    if (!strstr(list.out, line)) fail_msg("%s is no preset", name);
    cli_free(&help);
    cli_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_names_a_preset),
        cmocka_unit_test(test_rows_of_the_grid),
        cmocka_unit_test(test_tiers_and_models),
        cmocka_unit_test(test_share_of_the_limit),
        cmocka_unit_test(test_float_weights_have_no_integer_limit),
        cmocka_unit_test(test_lists_of_batches_and_forms),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_table_and_csv),
        cmocka_unit_test(test_errors_name_the_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
