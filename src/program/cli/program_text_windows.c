/* On Windows no program is asked yet: what it would read is said. */
#include "base/error.h"
#include "cli/documents.h"

kt_status kt__program_text(const char *const *argv, const char *package, const char *path,
                           kt__buf *out, int *code, kt_error *err) {
    (void)package, (void)out;
    *code = 1;
    return kt__fail(
        err, KT_E_UNSUPPORTED,
        "%.200s: files that %s reads on other systems are not read on Windows yet: save it "
        "as text or HTML",
        path, argv[0]);
}
