#include "kv/io.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool kt__io_write(int fd, const void *data, size_t n) {
    const uint8_t *p = data;
    while (n) {
        ssize_t got = write(fd, p, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

bool kt__io_write_at(int fd, const void *data, size_t n, uint64_t at) {
    const uint8_t *p = data;
    while (n) {
        ssize_t got = pwrite(fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

bool kt__io_read_at(int fd, void *data, size_t n, uint64_t at) {
    uint8_t *p = data;
    while (n) {
        ssize_t got = pread(fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = 0;
        if (got <= 0) return false;
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

static bool is_known(const uint8_t *hash, size_t n) {
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++) any |= hash[i];
    return any != 0;
}

bool kt__io_hashes_differ(const uint8_t *a, const uint8_t *b, size_t n) {
    return is_known(a, n) && is_known(b, n) && memcmp(a, b, n) != 0;
}

void kt__io_put(uint8_t *out, uint64_t x, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) out[i] = (uint8_t)(x >> 8 * i);
}

uint64_t kt__io_get(const uint8_t *in, int n_bytes) {
    uint64_t x = 0;
    for (int i = 0; i < n_bytes; i++) x |= (uint64_t)in[i] << 8 * i;
    return x;
}
