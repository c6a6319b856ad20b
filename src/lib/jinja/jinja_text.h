/* Number text, whatever the process's locale.
 *
 * Owns: reading floats, and writing them as Python's repr does. Any thread. */
#ifndef KT_JINJA_JINJA_TEXT_H
#define KT_JINJA_JINJA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads text[len] = [sign] digits [. digits] [e digits] whole; false where it is not of that form
 * or is longer than KT__J_NUM_MAX. A value over the range gives an infinity. */
bool kt__jnum_parse(const char *text, size_t len, double *out);
/* Python's repr: the shortest digits that read back as f. Returns the length. */
size_t kt__jnum_repr(double f, char out[40]);
enum { KT__J_NUM_MAX = 512 };

#endif
