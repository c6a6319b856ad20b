/* A GBNF grammar, a zero byte, and a text: no crash, and an end to it. */
#include "grammar_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    feed_grammar(KT__GRAMMAR_GBNF, data, size);
    return 0;
}
