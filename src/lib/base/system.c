#include "base/system.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

extern char **environ;

/* ---- what is at a path ---- */

bool kt__file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool kt__file_readable(const char *path) {
    return access(path, R_OK) == 0;
}

static bool fill_info(int failed, const struct stat *st, kt__file_info *out) {
    *out = (kt__file_info){0};
    if (failed) return false;
    *out = (kt__file_info){.is_file = S_ISREG(st->st_mode),
                           .is_folder = S_ISDIR(st->st_mode),
                           .is_link = S_ISLNK(st->st_mode),
                           .is_pipe = S_ISFIFO(st->st_mode),
                           .is_socket = S_ISSOCK(st->st_mode),
                           .permissions = st->st_mode & 0777,
                           .bytes = (uint64_t)st->st_size,
                           .disk_bytes = (uint64_t)st->st_blocks * 512,
                           .changed_s = (int64_t)st->st_mtim.tv_sec,
                           .changed_ns = (int64_t)st->st_mtim.tv_nsec,
                           .used_s = (int64_t)st->st_atim.tv_sec,
                           .used_ns = (int64_t)st->st_atim.tv_nsec,
                           .device = (uint64_t)st->st_dev,
                           .number = (uint64_t)st->st_ino};
    return true;
}

bool kt__file_look(const char *path, kt__file_info *out) {
    struct stat st;
    return fill_info(stat(path, &st), &st, out);
}

bool kt__file_look_here(const char *path, kt__file_info *out) {
    struct stat st;
    return fill_info(lstat(path, &st), &st, out);
}

bool kt__fd_look(int fd, kt__file_info *out) {
    struct stat st;
    return fill_info(fstat(fd, &st), &st, out);
}

bool kt__file_remove(const char *path) {
    return unlink(path) == 0;
}

bool kt__pattern_matches(const char *pattern, const char *name) {
    return fnmatch(pattern, name, 0) == 0;
}

bool kt__folder_make(const char *path, bool is_private) {
    return mkdir(path, is_private ? 0700 : 0777) == 0;
}

bool kt__folder_remove(const char *path) {
    return rmdir(path) == 0;
}

kt__listing *kt__listing_open(const char *path) {
    return (kt__listing *)opendir(path);
}

const char *kt__listing_next(kt__listing *folder) {
    for (const struct dirent *e; (e = readdir((DIR *)folder)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) return e->d_name;
    return NULL;
}

void kt__listing_close(kt__listing *folder) {
    if (folder) (void)closedir((DIR *)folder);
}

/* ---- descriptors ---- */

int kt__fd_open(const char *path, unsigned how) {
    static const int ways[] = {O_RDONLY, O_WRONLY, O_RDWR};
    int flags = ways[how & 3] | O_CLOEXEC;
    if (how & KT__OPEN_CREATE) flags |= O_CREAT;
    if (how & KT__OPEN_NEW) flags |= O_EXCL;
    if (how & KT__OPEN_EMPTY) flags |= O_TRUNC;
    if (how & KT__OPEN_APPEND) flags |= O_APPEND;
    if (how & KT__OPEN_NO_LINK) flags |= O_NOFOLLOW;
    if (how & KT__OPEN_NO_WAIT) flags |= O_NONBLOCK | O_NOCTTY;
    if (how & KT__OPEN_FOLDER) flags |= O_DIRECTORY;
    return open(path, flags, how & KT__OPEN_PRIVATE ? 0600 : 0666);
}

bool kt__fd_close(int fd) {
    return fd < 0 || close(fd) == 0;
}

int kt__fd_again(int fd) {
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int64_t kt__fd_read(int fd, void *out, size_t n) {
    return (int64_t)read(fd, out, n);
}

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

bool kt__fd_has_input(int fd, int ms) {
    struct pollfd input = {.fd = fd, .events = POLLIN};
    return poll(&input, 1, ms) != 0;
}

bool kt__fd_reserve(int fd, uint64_t bytes) {
    return fallocate(fd, 0, 0, (off_t)bytes) == 0;
}

bool kt__fd_sync(int fd) {
    return fsync(fd) == 0;
}

bool kt__fd_sync_data(int fd) {
    return fdatasync(fd) == 0;
}

void kt__fd_read_ahead(int fd, uint64_t at, uint64_t n) {
    (void)posix_fadvise(fd, (off_t)at, (off_t)n, POSIX_FADV_SEQUENTIAL);
}

bool kt__fd_cut(int fd, uint64_t bytes) {
    return ftruncate(fd, (off_t)bytes) == 0;
}

bool kt__fd_lock(int fd, bool wait) {
    return flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) == 0;
}

bool kt__fd_is_terminal(int fd) {
    return isatty(fd) != 0;
}

/* ---- this process ---- */

bool kt__system_name(char *out, size_t size) {
    struct utsname name;
    if (size) out[0] = '\0';
    if (uname(&name) != 0) return false;
    snprintf(out, size, "%s %s %s", name.sysname, name.release, name.machine);
    return true;
}

bool kt__system_host(char *out, size_t size) {
    if (size) out[0] = '\0';
    if (!size || gethostname(out, size - 1) != 0) return false;
    out[size - 1] = '\0';
    return true;
}

int kt__system_processors(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 && n < INT_MAX ? (int)n : 0;
}

long kt__process_number(void) {
    return (long)getpid();
}

unsigned kt__process_user(void) {
    return (unsigned)geteuid();
}

char **kt__process_environment(void) {
    return environ;
}

static int64_t us_of(const struct timeval *t) {
    return (int64_t)t->tv_sec * 1000000 + (int64_t)t->tv_usec;
}

bool kt__process_used(kt__process_use *out) {
    struct rusage use;
    *out = (kt__process_use){0};
    if (getrusage(RUSAGE_SELF, &use) != 0) return false;
    *out = (kt__process_use){us_of(&use.ru_utime) + us_of(&use.ru_stime),
                             (uint64_t)use.ru_maxrss * 1024, (uint64_t)use.ru_majflt};
    return true;
}

/* The kernel loaded no interpreter next to it. */
bool kt__process_is_static(void) {
#ifdef __linux__
    return getauxval(AT_BASE) == 0;
#else
    return false;
#endif
}

bool kt__random_bytes(void *out, size_t n) {
    ssize_t got;
    do {
        got = getrandom(out, n, 0);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)n;
}

void *kt__library_open(const char *name) {
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void *kt__library_find(void *library, const char *symbol) {
    return dlsym(library, symbol);
}

void kt__library_close(void *library) {
    (void)dlclose(library);
}

const char *kt__library_error(void) {
    const char *why = dlerror();
    return why ? why : "unknown error";
}
