/* cli: help, versions, wrong words and options, exit codes: what a person who mistypes gets to
 * read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli_process.h"
#include <kentang.h>

static const char *const commands[] = {
#define X(name, function, group, shown, summary) #name,
#include "term/commands.def"
#undef X
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void test_every_command_has_help(void **state) {
    (void)state;
    process all = cli_run("--help", NULL);
    assert_int_equal(all.code, 0);
    for (int i = 0; i < N_COMMANDS; i++) {
        char arguments[100], usage[100];
        assert_non_null(strstr(all.out, commands[i]));
        snprintf(arguments, sizeof arguments, "%s --help", commands[i]);
        snprintf(usage, sizeof usage, "Usage: kentang %s", commands[i]);
        process a = cli_run(arguments, NULL);
        snprintf(arguments, sizeof arguments, "help %s", commands[i]);
        process b = cli_run(arguments, NULL);
        assert_int_equal(a.code, 0);
        assert_int_equal(b.code, 0);
        assert_string_equal(a.out, b.out);
        assert_ptr_equal(strstr(a.out, usage), a.out);
        assert_non_null(strstr(a.out, "--help"));
        assert_non_null(strstr(a.out, "Exit codes"));
        assert_string_equal(a.err, "");
        cli_free(&a);
        cli_free(&b);
    }
    cli_free(&all);
}

/* All commands at once on the smallest terminal, in groups. */
static void test_help_fits_a_screen(void **state) {
    (void)state;
    static const char *const groups[] = {"\nTalk", "\nServe", "\nModels", "\nMeasure",
                                         "\nDevelopers: "};
    process p = cli_run("help", NULL);
    assert_int_equal(p.code, 0);
    size_t n_lines = 0;
    for (const char *line = p.out; *line; n_lines++) {
        size_t len = strcspn(line, "\n");
        if (len > 80) fail_msg("a line of %zu characters: %.*s", len, (int)len, line);
        line += len + (line[len] == '\n');
    }
    if (n_lines > 24) fail_msg("%zu lines", n_lines);
    const char *at = p.out;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        at = strstr(at, groups[i]);
        assert_non_null(at);
    }
    cli_free(&p);
}

static void test_exit_codes_are_documented(void **state) {
    (void)state;
    static char page[1 << 16];
    FILE *f = fopen(KT_BINARY_DIR "/docs/man/man1/kentang.1", "r");
    if (!f) skip(); /* a build without manual pages */
    size_t len = fread(page, 1, sizeof page - 1, f);
    fclose(f);
    page[len] = '\0';
    for (int status = 1; status < KT_STATUS_COUNT; status++) {
        char row[20];
        snprintf(row, sizeof row, "\n.TP\n%d\n", kt_status_exit_code((kt_status)status));
        assert_non_null(strstr(page, row));
    }
}

static void test_help_lines_fit_a_terminal(void **state) {
    (void)state;
    for (int i = 0; i < N_COMMANDS; i++) {
        char arguments[100];
        snprintf(arguments, sizeof arguments, "help %s", commands[i]);
        process p = cli_run(arguments, NULL);
        for (const char *line = p.out; *line;) {
            size_t len = strcspn(line, "\n");
            if (len > 110)
                fail_msg("help %s has a line of %zu characters: %.*s", commands[i], len, (int)len,
                         line);
            line += len + (line[len] == '\n');
        }
        cli_free(&p);
    }
}

static void test_version(void **state) {
    (void)state;
    process p = cli_run("--version", NULL);
    assert_int_equal(p.code, 0);
    assert_ptr_equal(strstr(p.out, "kentang " KT_VERSION), p.out);
    cli_free(&p);
}

static void test_wrong_words(void **state) {
    (void)state;
    cli_expect_error("", 2, "Usage: kentang COMMAND");
    cli_expect_error("rum", 2, "unknown command \"rum\"; did you mean \"run\"?");
    cli_expect_error("doktor", 2, "did you mean \"doctor\"?");
    cli_expect_error("zzzzzz", 2, "unknown command \"zzzzzz\"\n");
    cli_expect_error("help nothing-like-it", 2, "unknown command");
    cli_expect_error("-x", 2, "a command comes first");
    cli_expect_error("run hello", 2, "a prompt follows -p");
    cli_expect_error("logits a b", 2, "unexpected word \"b\": the model is named");
}

static void test_wrong_options(void **state) {
    (void)state;
    cli_expect_error("run --tempp 1", 2, "unknown option --tempp; did you mean --temp?");
    cli_expect_error("run --top_k=3", 2, "did you mean --top-k?");
    cli_expect_error("serve --timeout eight", 2, "option --timeout: expected");
    cli_expect_error("run --port 8", 2, "unknown option --port; here it is `kentang serve");
    cli_expect_error("run -dr a/b", 2, "unknown option -dr; here it is -m hf:OWNER/REPO");
    cli_expect_error("serve m.gguf", 2, "no file \"m.gguf\"");
    cli_expect_error("serve a.gguf b.gguf", 2, "unexpected word \"b.gguf\": the model is named");
    cli_expect_error("run -Q", 2, "unknown option -Q");
    cli_expect_error("run --seed", 2, "option --seed needs a value: N");
    cli_expect_error("run -p --raw", 2, "option -p needs a value");
    cli_expect_error("run --raw=yes", 2, "option --raw takes no value");
    cli_expect_error("run -n ten", 2, "option -n: expected a whole number from -1 to");
    cli_expect_error("run -n 10x", 2, "got \"10x\"");
    cli_expect_error("run -c -5", 2, "expected a whole number from 0");
    cli_expect_error("run --top-p 1.5", 2, "expected a number from 0 to 1, got \"1.5\"");
    cli_expect_error("run --temp nan", 2, "expected a number");
    cli_expect_error("run --temp ''", 2, "expected a number");
    cli_expect_error("run --seed -7", 2, "or \"random\"");
    cli_expect_error("run --preset potatoes", 2, "one of none|potato|extreme");
    cli_expect_error("run --rope-scaling dynamic", 2, "one of model|none|linear|yarn");
    cli_expect_error("run --logit-bias x -p y", 2, "as 15043+1.5");
    cli_expect_error("run -p x -f y", 2, "more than one prompt");
    cli_expect_error("run --raw --system x -p y", 2, "--system needs the chat template");
    cli_expect_error("run -p ''", 2, "the prompt is empty");
}

/* Options, settings and the interface have one range, and errors name the option. */
static void test_limits_agree(void **state) {
    (void)state;
    cli_expect_error("run -p x -t 257", 2, "option -t: expected a whole number from 0 to 256");
    cli_expect_error("run -p x -tb 257", 2, "option -tb: expected a whole number from 0 to 256");
    cli_expect_error("run -p x -c 16777217", 2, "a whole number from 0 to 16777216");
    cli_expect_error("run -p x -ub 65537", 2, "a whole number from 0 to 65536");
    cli_expect_error("run -p x --draft 64", 2, "a whole number from -1 to 63");
    cli_expect_error("serve --no-config --check -t 257", 2,
                     "option -t: expected a whole number from 0 to 256, got \"257\"");
    cli_expect_error("serve --no-config --check -c 16777217", 2, "from 0 to 16777216");
    cli_expect_error("serve --no-config --check --set draft_tokens=64", 2, "from -1 to 63");
    process p = cli_run("run -p x -n 1 -t 0 -tb 0 -b 0 -ub 0 -c 0", NULL);
    if (p.code != 0) fail_msg("0 is the default everywhere: %s", p.err);
    cli_free(&p);
}

static void test_errors_name_the_remedy(void **state) {
    (void)state;
    cli_expect_error("run -m /no/such/model.gguf -p x", 4, "/no/such/model.gguf");
    cli_expect_error("run -m /no/such/model.gguf -p x", 4, "remedy: ");
    cli_expect_error("run -f /no/such/prompt", 4, "/no/such/prompt");
    cli_expect_error("run --bogus", 2, "remedy: see `kentang run --help`");
    cli_expect_error("run -m '" KT_SOURCE_DIR "/CMakeLists.txt' -p x", 5, "CMakeLists.txt");
    cli_expect_error("run --isa avx9000 -p x", 2, "avx9000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_command_has_help),
        cmocka_unit_test(test_help_fits_a_screen),
        cmocka_unit_test(test_exit_codes_are_documented),
        cmocka_unit_test(test_help_lines_fit_a_terminal),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_wrong_words),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_limits_agree),
        cmocka_unit_test(test_errors_name_the_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
