/* Arbitrary bytes as an answer: the same output whatever pieces they come in, and no control in it
 * but newlines and the renderer's own colours. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "term/screen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render(const uint8_t *data, size_t size, size_t piece, kt__buf *out) {
    kt__markdown md;
    kt__markdown_init(&md, 30, false);
    for (size_t at = 0; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        kt__markdown_feed(&md, (const char *)data + at, n, out);
    }
    kt__markdown_end(&md, out);
    kt__markdown_free(&md);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__buf whole, pieces;
    kt__buf_init(&whole, SIZE_MAX / 2);
    kt__buf_init(&pieces, SIZE_MAX / 2);
    render(data, size, size ? size : 1, &whole);
    render(data, size, 3, &pieces);
    if (whole.len != pieces.len || (whole.len && memcmp(whole.data, pieces.data, whole.len)))
        abort();
    for (size_t i = 0; i < whole.len;) {
        uint32_t cp = 0;
        size_t n = kt__utf8_decode(whole.data + i, whole.len - i, &cp);
        if (!n || (cp != '\n' && kt__utf8_steers_terminal(cp))) abort();
        i += n;
    }
    kt__buf_free(&whole);
    kt__buf_free(&pieces);
    return 0;
}
