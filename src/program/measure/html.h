/* HTML, written into a buffer.
 *
 * Owns: the escaping of text that anybody may have made, and of figures that are no numbers. What is
 * written is XML too, so that any parser can check it. A refused append shows in the buffer's
 * `failed`. Any thread; one buffer, one thread. */
#ifndef KT_MEASURE_HTML_H
#define KT_MEASURE_HTML_H

#include "base/buf.h"

/* s for an element's content or a quoted attribute. What could reorder text or what XML does not
 * allow is written out, as \x1b or \u{202e}, and so are bytes that are no UTF-8. */
void kt__html_text(kt__buf *out, const char *s);
/* The same of what fits into `cells` cells of a terminal, with an ellipsis after what is cut off. */
void kt__html_short(kt__buf *out, const char *s, int cells);
/* Cells that s takes as it is written. */
int kt__html_cells(const char *s);
/* <tag>text</tag>; the tag may have attributes. */
void kt__html_element(kt__buf *out, const char *tag, const char *text);

enum { KT__NUMBER_BYTES = 32 };
/* A figure for people, with about `digits` significant digits: 1234.5, 0.00012, 2.3e+07; "-" where
 * it is not finite. */
const char *kt__html_number(double value, int digits, char out[KT__NUMBER_BYTES]);

#endif
