/* Go templates as Ollama's models have them, in the words of Jinja.
 *
 * Owns: which actions and functions of text/template are known, and what they are in Jinja. A template
 * of the older kind (.System, .Prompt, .Response) becomes a loop over the messages that renders it for
 * every turn, the last one up to .Response; one of the newer kind ranges over .Messages itself. Renders
 * nothing. Any thread. */
#ifndef KT_STORE_GO_TEMPLATE_H
#define KT_STORE_GO_TEMPLATE_H

#include <kentang.h>
#include <stddef.h>

#include "base/buf.h"

enum { KT__GO_TEMPLATE_MAX_BYTES = 256 << 10, KT__GO_TEMPLATE_MAX_DEPTH = 32 };

/* Appends the Jinja source. KT_E_UNSUPPORTED names the action, function or field that is not known;
 * KT_E_FORMAT: it is no Go template. */
kt_status kt__go_template_translate(const char *text, size_t len, kt__buf *out,
                                    kt_error *err) KT_CHECKED;

#endif
