/* Text as Python has it, whatever the process's locale.
 *
 * Owns: reading floats and writing them as Python's repr does; the part of its str methods on Unicode that templates
 * need: white space, case mapping, printability. Any thread. */
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

/* Length of the white space character (str.isspace) that s[len] begins or ends with; 0: none. s is
 * valid UTF-8. */
size_t kt__jstr_space(const char *s, size_t len);
size_t kt__jstr_space_before(const char *s, size_t len);
/* Length of the line end (str.splitlines) at the start of s[len]; 0: none. */
size_t kt__jstr_line_end(const char *s, size_t len);
/* Full case mapping of one character: writes 1 to 3 code points, returns how many. */
size_t kt__j_upper(uint32_t cp, uint32_t out[3]);
size_t kt__j_lower(uint32_t cp, uint32_t out[3]);
size_t kt__j_title(uint32_t cp, uint32_t out[3]);
bool kt__j_is_cased(uint32_t cp);
bool kt__j_is_case_ignorable(uint32_t cp); /* for the final sigma */
bool kt__j_is_alpha(uint32_t cp);
bool kt__j_is_digit(uint32_t cp);     /* a decimal digit of any script */
bool kt__j_is_printable(uint32_t cp); /* str.isprintable */

#endif
