#include "host/relay.h"

#include "base/clock.h"
#include "host/page_use.h"
#include "host/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

enum { SMALL_PAGE = 4096, SLICE_PAGES = KT__RELAY_BYTES / SMALL_PAGE, SEEK_US = 10000 };

typedef struct slice {
    const kt__filemap *map;
    uint64_t at;
    size_t n;
    unsigned char present[SLICE_PAGES];
} slice;

static void *slice_start(const slice *s) {
    return (void *)(uintptr_t)(s->map->data + s->at);
}

/* Pages of the slice that are in memory. */
static size_t count_present(slice *s) {
    size_t pages = (s->n + SMALL_PAGE - 1) / SMALL_PAGE, sum = 0;
    if (mincore(slice_start(s), s->n, s->present) != 0) return 0;
    for (size_t i = 0; i < pages; i++) sum += s->present[i] & 1;
    return sum;
}

/* False where some of it stays. Readers may bring a few pages back meanwhile. */
static bool drop_slice(slice *s) {
    size_t pages = (s->n + SMALL_PAGE - 1) / SMALL_PAGE;
    if (madvise(slice_start(s), s->n, MADV_DONTNEED) != 0) return false; /* locked */
    (void)posix_fadvise(s->map->fd, (off_t)s->at, (off_t)s->n, POSIX_FADV_DONTNEED);
    return count_present(s) <= pages / 2;
}

/* Whether the disk was fast enough. A large page at a time: meanwhile no thread of the process can
 * change its mappings. */
static bool read_slice(const slice *s) {
    uint8_t *start_of = slice_start(s);
    int64_t start = kt__now_us();
    for (size_t at = 0; at < s->n; at += KT__HUGE_PAGE_BYTES) {
        size_t n = s->n - at < KT__HUGE_PAGE_BYTES ? s->n - at : KT__HUGE_PAGE_BYTES;
        if (madvise(start_of + at, n, MADV_POPULATE_READ) != 0) return false;
    }
    return kt__now_us() - start <= SEEK_US + (int64_t)(s->n / KT__RELAY_LEAST_MB_S);
}

static bool has_pages_to_gain(const kt__filemap *map) {
    kt__page_use use;
    if (!map->mapped || map->locked || map->size < 2 * (uint64_t)KT__HUGE_PAGE_BYTES) return false;
    return kt__page_use_of_file(map, &use) && use.mapped_bytes > 0 &&
           use.large_bytes < use.bytes / 2;
}

/* mincore tells the truth to the file's owner and to those who may write to it; to others every page
 * is in memory. */
static bool can_look(const kt__filemap *map) {
    return sysconf(_SC_PAGESIZE) == SMALL_PAGE && kt__filemap_shows_pages(map);
}

kt__relay_end kt__relay_run(const kt__filemap *map, bool (*wait)(void *arg), void *arg) {
    slice s = {.map = map};
    if (!can_look(map)) return KT__RELAY_UNKNOWN;
    if (!has_pages_to_gain(map)) return KT__RELAY_LARGE;
    if (madvise((void *)(uintptr_t)map->data, SMALL_PAGE, MADV_POPULATE_READ) != 0)
        return KT__RELAY_UNKNOWN;
    (void)fdatasync(map->fd); /* pages that are not on the disk yet cannot be dropped */
    for (; s.at < map->size; s.at += KT__RELAY_BYTES) {
        s.n = map->size - s.at < KT__RELAY_BYTES ? (size_t)(map->size - s.at) : KT__RELAY_BYTES;
        if (wait && !wait(arg)) return KT__RELAY_STOPPED;
        if (count_present(&s) < (s.n + SMALL_PAGE - 1) / SMALL_PAGE) continue; /* as it is read */
        if (!drop_slice(&s)) return KT__RELAY_SHARED;
        if (!read_slice(&s)) return KT__RELAY_SLOW;
    }
    return KT__RELAY_DONE;
}

void kt__relay_written(const char *path) {
    kt__filemap map;
    kt_error ignored;
    if (kt__filemap_open(path, true, false, &map, &ignored) != KT_OK) return;
    (void)kt__relay_run(&map, NULL, NULL);
    kt__filemap_close(&map);
}
