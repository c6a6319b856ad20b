/* kentang launch starts programs of POSIX systems: on Windows it says what to do instead. */
#include "base/error.h"
#include "term/cli.h"
#include "term/options.h"

int kt__cmd_launch(int argc, char **argv) {
    const kt__syntax syntax = {
        .command = "launch",
        .usage = "PROGRAM [-- ARGUMENTS]",
        .about = "Not on Windows yet: start `kentang serve`, and give the program its address,\n"
                 "http://127.0.0.1:8000/v1.",
        .max_words = 128,
        .word = "PROGRAM",
    };
    const char *words[128];
    size_t n_words = 0;
    kt_error err;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code >= 0) return code;
    (void)kt__fail(&err, KT_E_UNSUPPORTED,
                   "`kentang launch` does not work on Windows yet: start `kentang serve`, and give "
                   "the program its address (http://127.0.0.1:8000/v1)");
    return kt__cli_fail("launch", &err);
}
