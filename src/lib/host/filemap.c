#include "host/filemap.h"

#include "base/alloc.h"
#include "base/error.h"
#include "host/affinity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COPY_ALIGN = 2 << 20,   /* so that a copy can live in huge pages */
    COPY_SPREAD = 64 << 20, /* a copy this large is a mapping of its own under any allocator */
    READ_BYTES = 8 << 20    /* a read at a time; the page cache need not keep it */
};

static kt_status fail_errno(kt_error *err, const char *path, const char *what) {
    return kt__fail_system(err, errno, path, "cannot %s", what);
}

static kt_status open_file(kt__filemap *map, kt_error *err) {
    map->fd = open(map->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (map->fd < 0) return fail_errno(err, map->path, "open");
    struct stat st;
    if (fstat(map->fd, &st) != 0) return fail_errno(err, map->path, "stat");
    if (S_ISDIR(st.st_mode))
        return kt__fail_at(err, KT_E_IO, map->path, UINT64_MAX,
                           "is a directory; name a file in it");
    if (!S_ISREG(st.st_mode))
        return kt__fail_at(err, KT_E_IO, map->path, UINT64_MAX, "is not a regular file");
    if (st.st_size == 0) return kt__fail_at(err, KT_E_FORMAT, map->path, 0, "the file is empty");
    if ((uint64_t)st.st_size > SIZE_MAX - COPY_ALIGN)
        return kt__fail_at(err, KT_E_LIMIT, map->path, UINT64_MAX,
                           "%" PRIu64 " bytes are more than this processor can address",
                           (uint64_t)st.st_size);
    map->size = (uint64_t)st.st_size;
    return KT_OK;
}

static kt_status map_file(kt__filemap *map, kt_error *err) {
    void *data = mmap(NULL, (size_t)map->size, PROT_READ, MAP_SHARED, map->fd, 0);
    if (data == MAP_FAILED)
        return kt__fail_at(err, errno == ENOMEM ? KT_E_NOMEM : KT_E_IO, map->path, UINT64_MAX,
                           "cannot map %" PRIu64 " bytes: %s; try without mmap", map->size,
                           strerror(errno));
    /* a page that comes from the disk may be a large one; refusal costs speed only */
    (void)madvise(data, (size_t)map->size, MADV_HUGEPAGE);
    map->data = data;
    map->mapped = true;
    map->guard_slot = kt__fault_guard_add(data, (size_t)map->size);
    return KT_OK;
}

static kt_status read_whole(kt__filemap *map, uint8_t *data, kt_error *err) {
    uint64_t have = 0;
    while (have < map->size) {
        uint64_t want = map->size - have;
        ssize_t n = read(map->fd, data + have, (size_t)(want < READ_BYTES ? want : READ_BYTES));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(err, map->path, "read");
        if (n == 0)
            return kt__fail_at(
                err, KT_E_TRUNCATED, map->path, have,
                "the file became shorter while it was read: %" PRIu64 " bytes expected", map->size);
        (void)posix_fadvise(map->fd, (off_t)have, (off_t)n, POSIX_FADV_DONTNEED);
        have += (uint64_t)n;
    }
    return KT_OK;
}

static kt_status copy_file(kt__filemap *map, kt_error *err) {
    size_t align = map->size >= COPY_ALIGN ? COPY_ALIGN : 4096;
    uint8_t *data = kt__aligned_alloc(align, (size_t)map->size);
    if (!data) return kt__fail_nomem(err, map->path, (size_t)map->size);
    map->data = data;
    madvise(data, (size_t)map->size, MADV_HUGEPAGE);
    if (map->size >= COPY_SPREAD) kt__nodes_spread(data, (size_t)map->size, NULL);
    kt_status status = read_whole(map, data, err);
    close(map->fd);
    map->fd = -1;
    return status;
}

static kt_status lock_pages(kt__filemap *map, kt_error *err) {
    if (mlock(map->data, (size_t)map->size) == 0) {
        map->locked = true;
        return KT_OK;
    }
    int rc = errno;
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    char allowed[32] = "unlimited";
    if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(allowed, sizeof allowed, "%" PRIu64 " bytes", (uint64_t)limit.rlim_cur);
    return kt__fail_at(err, KT_E_LIMIT, map->path, UINT64_MAX,
                       "cannot lock %" PRIu64
                       " bytes in memory: %s; RLIMIT_MEMLOCK is %s: raise it "
                       "(ulimit -l, or LimitMEMLOCK= of the service) or run without mlock",
                       map->size, strerror(rc), allowed);
}

kt_status kt__filemap_open(const char *path, bool use_mmap, bool lock, kt__filemap *out,
                           kt_error *err) {
    *out = (kt__filemap){.fd = -1, .guard_slot = -1};
    kt_status status;
    out->path = kt__strdup(path);
    if (!out->path) return kt__fail_nomem(err, "a path", strlen(path) + 1);
    KT__TRY(open_file(out, err));
    KT__TRY(use_mmap ? map_file(out, err) : copy_file(out, err));
    if (lock) KT__TRY(lock_pages(out, err));
out:
    if (status != KT_OK) kt__filemap_close(out);
    return status;
}

void kt__filemap_close(kt__filemap *map) {
    if (!map->path) return;
    if (map->locked) munlock(map->data, (size_t)map->size);
    if (map->mapped) {
        kt__fault_guard_remove(map->guard_slot);
        munmap((void *)(uintptr_t)map->data, (size_t)map->size);
    } else {
        kt__free((void *)(uintptr_t)map->data);
    }
    if (map->fd >= 0) close(map->fd);
    kt__free(map->path);
    *map = (kt__filemap){.fd = -1, .guard_slot = -1};
}

kt_status kt__filemap_check(const kt__filemap *map, kt_error *err) {
    if (!map->mapped) return KT_OK;
    struct stat st;
    if (fstat(map->fd, &st) != 0) return fail_errno(err, map->path, "stat");
    if ((uint64_t)st.st_size < map->size)
        return kt__fail_at(err, KT_E_TRUNCATED, map->path, (uint64_t)st.st_size,
                           "the file was cut to %" PRIu64 " of %" PRIu64
                           " bytes while in use; restore it and open it again",
                           (uint64_t)st.st_size, map->size);
    if (kt__fault_guard_hit(map->guard_slot))
        return kt__fail_at(err, KT_E_TRUNCATED, map->path, UINT64_MAX,
                           "pages of the file could not be read: it was cut short while in use, or "
                           "its disk failed; open it again");
    return KT_OK;
}

static int open_again(const kt__filemap *map, int flags) {
    char link[32];
    struct stat was, is;
    snprintf(link, sizeof link, "/proc/self/fd/%d", map->fd);
    int fd = open(link, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0) fd = open(map->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (fd < 0) return -1;
    if (fstat(map->fd, &was) == 0 && fstat(fd, &is) == 0 && was.st_dev == is.st_dev &&
        was.st_ino == is.st_ino)
        return fd;
    close(fd);
    errno = ESTALE;
    return -1;
}

kt_status kt__filemap_open_again(const kt__filemap *map, int flags, int *fd, kt_error *err) {
    *fd = -1;
    if (!map->mapped) return kt__fail(err, KT_E_INTERNAL, "%s is not mapped", map->path);
    *fd = open_again(map, flags);
    if (*fd >= 0) return KT_OK;
    return kt__fail_system(err, errno, map->path, "cannot open once more");
}

/* Of the whole pages among these bytes. */
static void advise_pages(const kt__filemap *map, const uint8_t *data, uint64_t n, int advice) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data;
    uintptr_t begin = (from + page - 1) / page * page, end = (from + (uintptr_t)n) / page * page;
    if (map->mapped && end > begin) (void)madvise((void *)begin, end - begin, advice);
}

void kt__filemap_read_stretches(const kt__filemap *map, const uint8_t *data, uint64_t n) {
    advise_pages(map, data, n, MADV_NOHUGEPAGE);
}

void kt__filemap_read_sparsely(const kt__filemap *map, const uint8_t *data, uint64_t n) {
    kt__filemap_read_stretches(map, data, n);
    advise_pages(map, data, n, MADV_RANDOM);
}

bool kt__filemap_shows_pages(const kt__filemap *map) {
    struct stat st;
    if (!map->mapped || fstat(map->fd, &st) != 0) return false;
    return st.st_uid == geteuid() || geteuid() == 0 || access(map->path, W_OK) == 0;
}
