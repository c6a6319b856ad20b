/* Arbitrary bytes as a file of requests: every line is read or refused by name, whatever pieces the
 * input comes in. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one_line(const char *line, size_t len, uint64_t number) {
    kt__batch_line out;
    kt__buf text;
    kt_request_params defaults = kt_request_params_default();
    kt__batch_line_parse(line, len, number, &defaults, &out);
    if (!out.id || (out.request == NULL) != (out.err.code != KT_OK)) abort();
    kt__buf_init(&text, 1 << 20);
    if (!out.request) kt__batch_write_error(&text, &out, &out.err);
    if (!out.request && (text.len < 2 || memchr(text.data, '\n', text.len))) abort();
    kt__buf_free(&text);
    kt__batch_line_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__batch_input in;
    kt_error err;
    int fd = memfd_create("requests", MFD_CLOEXEC);
    if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size) || lseek(fd, 0, SEEK_SET) != 0)
        abort();
    kt__batch_input_open(&in, fd);
    size_t seen = 0;
    for (;;) {
        const char *line;
        size_t len;
        kt__batch_read got = kt__batch_input_next(&in, true, &line, &len, &err);
        if (got == KT__BATCH_EOF) break;
        if (got != KT__BATCH_LINE) abort();
        seen += len;
        one_line(line, len, in.n_lines);
    }
    if (seen > size) abort();
    kt__batch_input_close(&in);
    close(fd);
    return 0;
}
