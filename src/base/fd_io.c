#include "base/fd_io.h"

#include <errno.h>
#include <unistd.h>

bool kt__fd_write(int fd, const void *data, size_t n) {
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

bool kt__fd_write_at(int fd, const void *data, size_t n, uint64_t at) {
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

bool kt__fd_read_at(int fd, void *data, size_t n, uint64_t at) {
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
