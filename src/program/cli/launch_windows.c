/* kentang launch starts programs of POSIX systems: on Windows it says what to do instead. */
#include "base/error.h"
#include "term/cli.h"

int kt__cmd_launch(int argc, char **argv) {
    kt_error err;
    (void)argc;
    (void)argv;
    (void)kt__fail(
        &err, KT_E_UNSUPPORTED,
        "`kentang launch` does not work on Windows yet: start `kentang serve`, and give the program its "
        "address (http://127.0.0.1:8000/v1)");
    return kt__cli_fail("launch", &err);
}
