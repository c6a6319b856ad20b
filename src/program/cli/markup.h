/* HTML and the XML of office documents to their text.
 *
 * Owns: which elements end a line, which are silent, and characters by name and number. It is no parser of either: what
 * is damaged gives some text. Pure; any bytes. Any thread. */
#ifndef KT_CLI_MARKUP_H
#define KT_CLI_MARKUP_H

#include "base/buf.h"

/* Appends; look at out->failed. A form feed is where the document itself begins a new page. */
void kt__markup_text(const char *data, size_t len, kt__buf *out);
bool kt__markup_is(const char *data, size_t len); /* it begins as HTML does */

#endif
