#include "term/cells.h"

#include <utf8proc.h>

#include "base/utf8.h"
#include "term/safe_text.h"

size_t kt__cell_length(const char *s, size_t len) {
    uint32_t cp;
    size_t n = kt__utf8_decode(s, len, &cp);
    return n ? n : 1;
}

/* One character as it is shown: *n its bytes; false: it has to be written out. */
static bool is_shown(const char *s, size_t len, size_t *n, uint32_t *cp) {
    *n = kt__utf8_decode(s, len, cp);
    if (*n) return !kt__utf8_steers_terminal(*cp);
    *n = 1;
    return false;
}

static int escape_width(const char *s, size_t n) {
    kt__buf text;
    kt__buf_init(&text, 64);
    kt__safe_append(&text, s, n, 0);
    int width = (int)text.len;
    kt__buf_free(&text);
    return width;
}

int kt__cells_width(const char *text, size_t len) {
    int width = 0;
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        bool shown = is_shown(text + i, len - i, &n, &cp);
        width += shown ? utf8proc_charwidth((utf8proc_int32_t)cp) : escape_width(text + i, n);
    }
    return width;
}

void kt__cells_append(kt__buf *out, const char *text, size_t len) {
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        if (is_shown(text + i, len - i, &n, &cp))
            kt__buf_append(out, text + i, n);
        else
            kt__safe_append(out, text + i, n, 0);
    }
}
