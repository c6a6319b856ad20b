/* libFuzzer: any bytes as an importance matrix. Refused, or every entry has numbers that can be added
 * and used. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "convert/convert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    kt__imatrix m;
    kt_error err;
    int fd = memfd_create("imatrix", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    kt_status status = kt__imatrix_read(path, &m, &err);
    if (status == KT_OK && m.n == 0) abort();
    for (size_t i = 0; status == KT_OK && i < m.n; i++)
        for (int64_t k = 0; k < m.entries[i].n_cols; k++)
            if (!(m.entries[i].sum2[k] >= 0.0f)) abort();
    kt__imatrix_free(&m);
    close(fd);
    return 0;
}
