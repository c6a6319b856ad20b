#include "host/direct_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

enum { PAGE = 4096, LOOK_PAGES = 256 };

size_t kt__direct_read_unit(void) {
    long page = sysconf(_SC_PAGESIZE);
    return page > PAGE ? (size_t)page : PAGE;
}

kt_status kt__direct_read_open(const kt__filemap *map, kt__direct_read *out, kt_error *err) {
    *out = (kt__direct_read){.map = map, .direct = -1, .cached = -1};
    KT__STEP(kt__filemap_open_again(map, 0, &out->cached, err));
    /* a part is read as a whole: what follows it is not wanted */
    (void)posix_fadvise(out->cached, 0, 0, POSIX_FADV_RANDOM);
    if (O_DIRECT && kt__filemap_open_again(map, O_DIRECT, &out->direct, NULL) != KT_OK)
        out->direct = -1; /* all goes through the page cache */
    out->shows_pages = kt__filemap_shows_pages(map) && sysconf(_SC_PAGESIZE) == PAGE;
    return KT_OK;
}

void kt__direct_read_close(kt__direct_read *file) {
    if (file->direct >= 0) close(file->direct);
    if (file->cached >= 0) close(file->cached);
    file->direct = file->cached = -1;
}

static kt_status fail_read(const kt__direct_read *file, uint64_t at, size_t n, int code,
                           kt_error *err) {
    const char *path = file->map->path;
    if (code)
        return kt__fail_at(err, KT_E_IO, path, at, "%s: cannot read %zu bytes: %s; check the disk",
                           path, n, strerror(code));
    return kt__fail_at(err, KT_E_TRUNCATED, path, at,
                       "%s became shorter while it was in use: it has no %zu bytes at %" PRIu64
                       " any more; restore it and open it again",
                       path, n, at);
}

/* Whether the page cache holds all of it. */
static bool is_cached(const kt__direct_read *file, uint64_t from, uint64_t end) {
    unsigned char present[LOOK_PAGES];
    if (!file->shows_pages) return false;
    for (uint64_t at = from; at < end; at += LOOK_PAGES * PAGE) {
        size_t n = end - at < LOOK_PAGES * PAGE ? (size_t)(end - at) : (size_t)LOOK_PAGES * PAGE;
        if (mincore((void *)(uintptr_t)(file->map->data + at), n, present) != 0) return false;
        for (size_t i = 0; i < (n + PAGE - 1) / PAGE; i++)
            if (!(present[i] & 1)) return false;
    }
    return true;
}

/* Whole units from the disk; false with errno where that is refused, 0: the file is shorter. */
static bool read_units(int fd, uint64_t from, uint64_t needed, size_t whole, uint8_t *to) {
    uint64_t have = 0;
    while (have < needed) {
        ssize_t n = pread(fd, to + have, whole - (size_t)have, (off_t)(from + have));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        uint64_t got = have + (uint64_t)n;
        if (got >= needed) break;
        errno = 0;
        if (got / PAGE * PAGE == have) return false; /* no whole page more: the end of the file */
        have = got / PAGE * PAGE;
    }
    return true;
}

kt_status kt__direct_read_part(const kt__direct_read *file, uint64_t at, size_t n, uint8_t *to,
                               kt_error *err) {
    uint64_t before = at % PAGE, from = at - before;
    size_t whole = (size_t)((before + n + PAGE - 1) / PAGE * PAGE);
    bool cached = is_cached(file, from, at + n);
    if (!cached && file->direct >= 0) {
        if (read_units(file->direct, from, before + n, whole, to - before)) return KT_OK;
        if (errno != EINVAL) return fail_read(file, at, n, errno, err);
    }
    if (!kt__fd_read_at(file->cached, to, n, at)) return fail_read(file, at, n, errno, err);
    if (!cached) (void)posix_fadvise(file->cached, (off_t)from, (off_t)whole, POSIX_FADV_DONTNEED);
    return KT_OK;
}

/* ---- cold reader ---- */

enum { COLD_PAGE = 4096 };

kt_status kt__cold_reader_open(const kt__filemap *map, kt__cold_reader *out, kt_error *err) {
    *out = (kt__cold_reader){.map = map, .fd = -1};
    KT__STEP(kt__filemap_open_again(map, 0, &out->fd, err));
    /* no read-ahead: its pages would look as if they had been there before */
    (void)posix_fadvise(out->fd, 0, 0, POSIX_FADV_RANDOM);
    return KT_OK;
}

void kt__cold_reader_close(kt__cold_reader *a) {
    if (a->fd >= 0) close(a->fd);
    a->fd = -1;
}

static size_t n_pages(const kt__cold_reader *a) {
    return (a->n + COLD_PAGE - 1) / COLD_PAGE;
}

void kt__cold_reader_begin(kt__cold_reader *a, uint64_t at, size_t n) {
    a->at = at;
    a->n = n;
    bool all = true;
    void *where = (void *)(uintptr_t)(a->map->data + at);
    /* for a file of another user the kernel reports all pages as present: then none is dropped */
    if (sysconf(_SC_PAGESIZE) != COLD_PAGE || mincore(where, n, a->present) != 0)
        memset(a->present, 1, sizeof a->present);
    for (size_t i = 0; i < n_pages(a); i++) all &= a->present[i] & 1;
    if (!all) (void)posix_fadvise(a->fd, (off_t)at, (off_t)n, POSIX_FADV_WILLNEED);
}

bool kt__cold_reader_read(kt__cold_reader *a, uint64_t at, void *data, size_t n) {
    return kt__fd_read_at(a->fd, data, n, at);
}

void kt__cold_reader_end(kt__cold_reader *a) {
    size_t pages = n_pages(a);
    for (size_t i = 0, end; i < pages; i = end) {
        for (end = i + 1; end < pages && (a->present[end] & 1) == (a->present[i] & 1);) end++;
        if (a->present[i] & 1) continue;
        (void)posix_fadvise(a->fd, (off_t)(a->at + i * COLD_PAGE), (off_t)((end - i) * COLD_PAGE),
                            POSIX_FADV_DONTNEED);
    }
    a->n = 0;
}
