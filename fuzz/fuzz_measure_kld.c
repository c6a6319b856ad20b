/* libFuzzer: any bytes as a file of log-probabilities, read to its end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure/quality.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile double sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    kt__kld_file file;
    kt__base_row row;
    int fd = memfd_create("kld", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    kt_status status = kt__kld_open(path, &file, NULL);
    while (status == KT_OK && (status = kt__kld_next(&file, &row, NULL)) == KT_OK)
        sink = row.log_prob(row.row, file.n_vocab - 1);
    kt__kld_close(&file);
    close(fd);
    return 0;
}
