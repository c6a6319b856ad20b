/* A JSON Schema, a zero byte, and a text: no crash; what the byte-wise reading takes is JSON's
 * beginning whatever was asked, and a copy of a state reads alike. */
#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = memchr(data, 0, size);
    size_t len = zero ? (size_t)(zero - data) : size, n = zero ? size - len - 1 : 0, twice = n;
    const kt__grammar_source source = {.kind = KT__GRAMMAR_SCHEMA,
                                       .text = (const char *)data,
                                       .len = len,
                                       .layout = (kt__glayout)(size % 3),
                                       .closed = size % 2};
    kt__grammar *g;
    kt__refusal why;
    kt__gstate a, b;
    char forced[64];
    if (kt__grammar_create(&source, &g, &why, NULL) != KT_OK) return 0;
    kt__grammar_start(g, &a);
    b = a;
    const char *text = zero ? (const char *)zero + 1 : "";
    bool first = kt__grammar_feed(g, &a, text, &n), second = kt__grammar_feed(g, &b, text, &twice);
    if (kt__grammar_status(g) == KT_OK && (first != second || n != twice)) abort();
    if (first && kt__grammar_expected(g, &a, forced, sizeof forced) > 0 && kt__grammar_ended(g, &a))
        abort();
    kt__grammar_free(g);
    return 0;
}
