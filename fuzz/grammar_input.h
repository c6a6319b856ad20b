/* What the fuzz targets of grammars share: a grammar, a zero byte, and a text that is fed to it. */
#ifndef KT_FUZZ_GRAMMAR_H
#define KT_FUZZ_GRAMMAR_H

#include <string.h>

#include "grammar/grammar.h"

static void feed_grammar(kt__grammar_kind kind, const uint8_t *data, size_t size) {
    const uint8_t *zero = memchr(data, 0, size);
    size_t len = zero ? (size_t)(zero - data) : size, n = zero ? size - len - 1 : 0;
    const kt__grammar_source source = {
        .kind = kind, .text = (const char *)data, .len = len, .layout = KT__LAYOUT_ANY};
    kt__grammar *g;
    kt__gstate s;
    char forced[64];
    if (kt__grammar_create(&source, &g, NULL, NULL) != KT_OK) return;
    kt__grammar_start(g, &s);
    if (kt__grammar_feed(g, &s, zero ? (const char *)zero + 1 : "", &n))
        (void)kt__grammar_expected(g, &s, forced, sizeof forced);
    kt__grammar_free(g);
}

#endif
