#include "measure/html.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "term/safe_text.h"

/* XML has no such characters, not even as references. */
static bool is_no_xml(uint32_t cp) {
    return (cp & 0xfffe) == 0xfffe;
}

static void append_reference(kt__buf *out, const char *s, size_t n) {
    switch (*s) {
    case '&': kt__buf_puts(out, "&amp;"); break;
    case '<': kt__buf_puts(out, "&lt;"); break;
    case '>': kt__buf_puts(out, "&gt;"); break;
    case '"': kt__buf_puts(out, "&quot;"); break;
    case '\'': kt__buf_puts(out, "&#39;"); break;
    default: kt__buf_append(out, s, n); break;
    }
}

/* One character of s[len]; its length. */
static size_t append_character(kt__buf *out, const char *s, size_t len) {
    uint32_t cp = 0;
    size_t n = kt__utf8_decode(s, len, &cp);
    if (n && is_no_xml(cp)) {
        kt__buf_printf(out, "\\u{%x}", (unsigned)cp);
    } else if (n && !kt__utf8_steers_terminal(cp)) {
        append_reference(out, s, n);
    } else { /* \n, \x1b, \u{202e} */
        n = kt__cell_length(s, len);
        kt__cells_append(out, s, n);
    }
    return n;
}

void kt__html_text(kt__buf *out, const char *s) {
    for (size_t len = strlen(s), n; len; s += n, len -= n) n = append_character(out, s, len);
}

int kt__html_cells(const char *s) {
    return kt__cells_width(s, strlen(s));
}

void kt__html_short(kt__buf *out, const char *s, int cells) {
    int room = kt__html_cells(s) > cells ? cells - 1 : cells;
    for (size_t len = strlen(s), n; len; s += n, len -= n) {
        room -= kt__cells_width(s, kt__cell_length(s, len));
        if (room < 0) {
            kt__buf_puts(out, "\u2026");
            return;
        }
        n = append_character(out, s, len);
    }
}

void kt__html_element(kt__buf *out, const char *tag, const char *text) {
    kt__buf_printf(out, "<%s>", tag);
    kt__html_text(out, text);
    kt__buf_printf(out, "</%.*s>", (int)strcspn(tag, " "), tag);
}

const char *kt__html_number(double value, int digits, char out[KT__NUMBER_BYTES]) {
    double size = fabs(value);
    if (!isfinite(value)) {
        snprintf(out, KT__NUMBER_BYTES, "-");
    } else if (size >= 1e9 || (size > 0 && size < 1e-5)) {
        snprintf(out, KT__NUMBER_BYTES, "%.*e", digits - 1, value);
    } else {
        int before = size > 0 ? (int)floor(log10(size)) + 1 : 1; /* of 0.05: -1 */
        int after = digits > before ? digits - before : 0;
        snprintf(out, KT__NUMBER_BYTES, "%.*f", after, value);
    }
    return out;
}
