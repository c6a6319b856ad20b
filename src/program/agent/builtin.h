/* Tools that need no server: a clock, a calculator, files that are only read.
 *
 * Owns: what they are called, what they take and what they answer. None is offered unless it was asked
 * for. Files are found below one folder, and no link or ".." leads out of it. One thread. */
#ifndef KT_AGENT_BUILTIN_H
#define KT_AGENT_BUILTIN_H

#include <jansson.h>
#include <kentang.h>

#include "base/buf.h"

typedef struct kt__builtins {
    bool clock, calculator;
    int folder; /* a descriptor of the folder whose files may be read; -1: none */
} kt__builtins;

/* names: "clock,calculator", or NULL; folder: or NULL. KT_E_ARG: no such tool; KT_E_IO: no folder. */
kt_status KT_CHECKED kt__builtins_open(const char *names, const char *folder, kt__builtins *out,
                                       kt_error *err);
void kt__builtins_close(kt__builtins *builtins);
/* The tools that are on, as MCP lists them: an array, for json_decref. NULL: no memory. */
json_t *kt__builtins_list(const kt__builtins *builtins);
/* Calls one; text: what it answers. false: it failed, and text says why. */
bool kt__builtins_call(const kt__builtins *builtins, const char *name, const json_t *args,
                       kt__buf *text);

/* A calculator: the value of an expression.
 *
 * Owns: its grammar: numbers, + - * / % ^, brackets, pi, e, and functions. Any thread. */

/* KT_E_FORMAT with the byte where it is no expression; KT_E_LIMIT: too long or too deep. The value may
 * be infinite or no number, as division by zero is. */
kt_status KT_CHECKED kt__calc(const char *expression, double *out, kt_error *err);

#endif
