/* Calls as the models of a format write them.
 *
 * Owns: the text of calls in each format: for prompts of templates that do not write them, for the
 * description of a format, and for tests. Any thread. */
#ifndef KT_CALLS_WRITE_H
#define KT_CALLS_WRITE_H

#include "calls/calls.h"
#include "grammar/json_doc.h"

typedef struct kt__call_text {
    const char *name;
    size_t name_len;
    const char *id; /* or NULL */
    size_t id_len;
    const kt__jnode *args; /* an object, or NULL */
} kt__call_text;

void kt__calls_write(kt__buf *out, const kt__call_style *style, const kt__call_text *calls,
                     size_t n);

#endif
