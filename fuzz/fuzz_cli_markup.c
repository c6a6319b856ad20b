/* Arbitrary bytes as HTML or an office document's XML: the text is no longer than they are, and has no tag that was whole. */
#include <stdint.h>

#include "cli/documents.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__buf out;
    kt__buf_init(&out, 1 << 24);
    (void)kt__markup_is((const char *)data, size);
    kt__markup_text((const char *)data, size, &out);
    if (out.failed && size < 1 << 20) __builtin_trap();
    if (out.len > 2 * size + 2) __builtin_trap();
    kt__buf_free(&out);
    return 0;
}
