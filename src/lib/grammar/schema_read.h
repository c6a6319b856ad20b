/* From the text of a JSON Schema to nodes.
 *
 * Owns: reading drafts 4 to 2020-12 (older spellings mean what they meant), references within the
 * document, and the refusal of everything that cannot be enforced exactly. Nothing is fetched. One
 * user at a time. */
#ifndef KT_GRAMMAR_SCHEMA_READ_H
#define KT_GRAMMAR_SCHEMA_READ_H

#include "grammar/schema.h"

/* Terms go to t. On failure `why` is filled where a keyword is the reason. KT_E_FORMAT: no JSON, or a
 * keyword with a value of the wrong kind; KT_E_UNSUPPORTED; KT_E_LIMIT. */
kt_status KT_CHECKED kt__schema_read(kt__schema *schema, kt__terms *t, const char *text, size_t len,
                                     kt__schema_use use, kt__refusal *why, kt_error *err);

#endif
