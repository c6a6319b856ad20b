#include "host/cold_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd_io.h"

enum { PAGE = 4096 };

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
    return (a->n + PAGE - 1) / PAGE;
}

void kt__cold_reader_begin(kt__cold_reader *a, uint64_t at, size_t n) {
    a->at = at;
    a->n = n;
    bool all = true;
    void *where = (void *)(uintptr_t)(a->map->data + at);
    /* for a file of another user the kernel reports all pages as present: then none is dropped */
    if (sysconf(_SC_PAGESIZE) != PAGE || mincore(where, n, a->present) != 0)
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
        (void)posix_fadvise(a->fd, (off_t)(a->at + i * PAGE), (off_t)((end - i) * PAGE),
                            POSIX_FADV_DONTNEED);
    }
    a->n = 0;
}
