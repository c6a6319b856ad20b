/* Forms with files: the first line is the Content-Type, the rest the body. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "services/batch_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char type[200] = "";
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    size_t n = newline ? (size_t)(newline - data) : 0;
    kt__multipart form;
    kt__multipart_part part;
    if (!newline || n >= sizeof type) return 0;
    memcpy(type, data, n);
    const char *body = (const char *)newline + 1;
    size_t len = size - n - 1;
    if (!kt__multipart_begin(&form, type, body, len)) return 0;
    while (kt__multipart_next(&form, &part)) {
        if (part.data < body || part.data + part.len > body + len) abort();
        if (strlen(part.name) >= sizeof part.name) abort();
    }
    return 0;
}
