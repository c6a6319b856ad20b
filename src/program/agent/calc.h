/* A calculator: the value of an expression.
 *
 * Owns: its grammar: numbers, + - * / % ^, brackets, pi, e, and functions. Any thread. */
#ifndef KT_AGENT_CALC_H
#define KT_AGENT_CALC_H

#include <kentang.h>

/* KT_E_FORMAT with the byte where it is no expression; KT_E_LIMIT: too long or too deep. The value may
 * be infinite or no number, as division by zero is. */
kt_status KT_CHECKED kt__calc(const char *expression, double *out, kt_error *err);

#endif
