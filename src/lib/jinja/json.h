/* JSON text to template values.
 *
 * Owns: the values a strict reader makes (RFC 8259, by base/json.h; NaN and infinities are refused, numbers over the range of
 * a double become infinite, integers over 64 bits keep their digits). Strings are data, never
 * template text. Does not write JSON: that is the filter tojson. Any thread, an arena a caller. */
#ifndef KT_JINJA_JSON_H
#define KT_JINJA_JSON_H

#include <kentang.h>

#include "jinja/jinja_value.h"

enum { KT__JSON_MAX_NEST = 128 };

/* Reads text[len], one value with white space around it. Strings without escapes point into text,
 * which must outlive the values. Of equal keys the last counts. KT_E_FORMAT with the byte offset
 * where it is not JSON or not UTF-8, KT_E_LIMIT where it nests too deep, KT_E_NOMEM where the arena
 * is full. */
kt_status kt__json_parse(kt__arena *arena, const char *text, size_t len, kt__jv *out,
                         kt_error *err) KT_CHECKED;

#endif
