/* Writes of a test program that fail on demand: what the library calls to put bytes, lengths and
 * names onto a disk. The linker takes these in place of the C library's. */
#ifndef KT_TEST_FAULT_IO_H
#define KT_TEST_FAULT_IO_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool io_armed; /* count, and fail */
static atomic_long io_calls;
static long io_fail_at = -1; /* this call and those after it; -1: none */
static int io_errno;
static bool io_half; /* the first write that fails stores half of its bytes */

static bool io_fails(bool *first) {
    if (!io_armed) return false;
    long call = atomic_fetch_add(&io_calls, 1);
    *first = call == io_fail_at;
    if (io_fail_at < 0 || call < io_fail_at) return false;
    errno = io_errno;
    return true;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    bool first = false;
    if (!io_fails(&first)) return syscall(SYS_pwrite64, fd, data, n, at);
    return io_half && first && n > 1 ? syscall(SYS_pwrite64, fd, data, n / 2, at) : -1;
}

int ftruncate(int fd, off_t size) {
    bool first;
    return io_fails(&first) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int fallocate(int fd, int mode, off_t at, off_t n) {
    bool first;
    return io_fails(&first) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, n);
}

int fsync(int fd) {
    bool first;
    return io_fails(&first) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    bool first;
    return io_fails(&first) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to) {
    bool first;
    return io_fails(&first) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* stdio writes past these functions: fwrite fails for itself. */
typedef size_t io_fwrite_fn(const void *data, size_t size, size_t n, FILE *f);
size_t fwrite(const void *data, size_t size, size_t n, FILE *f) {
    static io_fwrite_fn *next;
    bool first;
    if (!next) next = (io_fwrite_fn *)(uintptr_t)dlsym(RTLD_NEXT, "fwrite");
    if (f != stderr && f != stdout && io_fails(&first)) return 0;
    return next(data, size, n, f);
}

typedef int io_close_fn(FILE *f);
int fflush(FILE *f) {
    static io_close_fn *next;
    bool first;
    if (!next) next = (io_close_fn *)(uintptr_t)dlsym(RTLD_NEXT, "fflush");
    if (f && f != stderr && f != stdout && io_fails(&first)) return EOF;
    return next(f);
}

#endif
