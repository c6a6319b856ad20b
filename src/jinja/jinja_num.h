/* Number text, whatever the process's locale.
 *
 * Owns: reading floats, and writing them as Python's repr and format do. Any thread. */
#ifndef KT_JINJA_JINJA_NUM_H
#define KT_JINJA_JINJA_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads text[len] = [sign] digits [. digits] [e digits] whole; false where it is not of that form
 * or is longer than KT__J_NUM_MAX. A value over the range gives an infinity. */
bool kt__jnum_parse(const char *text, size_t len, double *out);
/* Python's repr: the shortest digits that read back as f. Returns the length. */
size_t kt__jnum_repr(double f, char out[40]);
/* printf's conversions e, E, f, F, g, G with a precision of 0..100 (the alternative form keeps the
 * point). Returns the length; out holds KT__J_NUM_MAX. */
size_t kt__jnum_format(double f, char conversion, int precision, bool alternative, char *out);

enum { KT__J_NUM_MAX = 512 };

#endif
