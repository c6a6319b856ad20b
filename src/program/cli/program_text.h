/* What another program makes of a file.
 *
 * Owns: starting it without a shell, with nothing to read, and taking what it writes on its standard output. One thread. */
#ifndef KT_CLI_PROGRAM_TEXT_H
#define KT_CLI_PROGRAM_TEXT_H

#include <kentang.h>

#include "base/buf.h"

/* argv: the program, found in PATH, and its arguments, NULL at the end. package, path: for messages. *code: its exit code.
 * KT_E_UNSUPPORTED: it is not there, with the package that has it; KT_E_LIMIT: out is full. */
kt_status kt__program_text(const char *const *argv, const char *package, const char *path,
                           kt__buf *out, int *code, kt_error *err) KT_CHECKED;

#endif
