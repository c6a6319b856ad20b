/* cli: what takes long says on a terminal how far it is, and writes nothing of that into a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli_pty.h"

static char dir[] = "/tmp/kt_progress_XXXXXX";

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void shows(const char *arguments, const char *words) {
    pty p = pty_start("KT_NOTHING=1", arguments);
    int code = pty_end(&p);
    if (code != 0 || !strstr(p.seen, words))
        fail_msg("kentang %s: exit code %d, \"%s\" is not in:\n%s", arguments, code, words, p.seen);
    pty_free(&p);
}

static void test_lines_on_a_terminal(void **state) {
    char arguments[256];
    (void)state;
    snprintf(arguments, sizeof arguments, "synth --preset tiny-llama %s/m.gguf", dir);
    shows(arguments, "100.0%");
    snprintf(arguments, sizeof arguments, "imatrix -m %s/m.gguf --chunks 1 -o %s/m.imatrix", dir,
             dir);
    shows(arguments, "kentang imatrix: 1 of 3 layers");
    snprintf(arguments, sizeof arguments, "tune -m %s/m.gguf -r 1 --dry-run", dir);
    shows(arguments, "kentang tune: threads, decode: 1 of ");
}

static void test_no_such_line_in_a_file(void **state) {
    char command[512], text[4096] = "";
    (void)state;
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset tiny-llama %s/n.gguf 2>%s/err && "
             "'%s/kentang' tune -m %s/n.gguf -r 1 --dry-run >/dev/null 2>>%s/err",
             KT_BINARY_DIR, dir, dir, KT_BINARY_DIR, dir, dir);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/err", dir);
    FILE *f = fopen(command, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_null(strchr(text, '\r'));
    assert_null(strstr(text, "runs"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_on_a_terminal),
        cmocka_unit_test(test_no_such_line_in_a_file),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
