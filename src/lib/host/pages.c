#include "host/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/affinity.h"
#include "host/host.h"

static void *map_pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The kernel gives a huge page only where a whole aligned one fits: map more, return the ends. */
static void *map_aligned(size_t bytes) {
    size_t align = KT__HUGE_PAGE_BYTES, page = (size_t)sysconf(_SC_PAGESIZE); /* ARM: up to 64K */
    if (bytes > SIZE_MAX - align) {
        errno = ENOMEM;
        return NULL;
    }
    uint8_t *p = map_pages(bytes + align);
    if (!p) return NULL;
    size_t before = (align - (uintptr_t)p % align) % align;
    if (before) (void)munmap(p, before);
    uint8_t *end = p + before + (bytes + page - 1) / page * page, *last = p + bytes + align;
    if (end < last) (void)munmap(end, (size_t)(last - end));
    return p + before;
}

void *kt__pages_alloc(size_t bytes) {
    if (bytes < 2 * (size_t)KT__HUGE_PAGE_BYTES) return map_pages(bytes);
    void *p = map_aligned(bytes);
    if (p) (void)madvise(p, bytes, MADV_HUGEPAGE); /* a hint: refusal costs speed only */
    return p;
}

size_t kt__pages_unit(void) {
    return kt__nodes_several() ? KT__HUGE_PAGE_BYTES : 1;
}

void kt__pages_free(void *p, size_t bytes) {
    if (p) munmap(p, bytes);
}

/* ---- page use ---- */

/* "7f0000000000-7f0000200000 r--s ...": a mapping's first line */
static bool read_range(const char *line, uintptr_t *from, uintptr_t *to) {
    return sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", from, to) == 2;
}

/* A "Key:   n kB" line, in bytes; 0: another line */
static uint64_t read_kb(const char *line, const char *key) {
    uint64_t kb = 0;
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0 || line[n] != ':') return 0;
    const char *number = line + n + 1;
    number += strspn(number, " ");
    return kt__text_parse_u64(number, &kb) && kb < UINT64_MAX / 1024 ? 1024 * kb : 0;
}

bool kt__page_use_at(const char *root, const void *data, uint64_t bytes, kt__page_use *out) {
    static const char *const large[] = {"AnonHugePages", "FilePmdMapped", "ShmemPmdMapped"};
    uintptr_t begin = (uintptr_t)data, end = begin + (uintptr_t)bytes, from = 0, to = 0;
    bool inside = false;
    kt__text text;
    char line[256];
    *out = (kt__page_use){.bytes = bytes};
    if (!kt__text_open(root, "/proc/self", "smaps", &text)) return false;
    while (kt__text_next(&text, line, sizeof line)) {
        if (read_range(line, &from, &to)) inside = from < end && to > begin;
        if (!inside) continue;
        out->mapped_bytes += read_kb(line, "Rss");
        for (size_t i = 0; i < sizeof large / sizeof *large; i++)
            out->large_bytes += read_kb(line, large[i]);
    }
    kt__text_close(&text);
    /* a mapping may go beyond the stretch */
    if (out->mapped_bytes > bytes) out->mapped_bytes = bytes;
    if (out->large_bytes > out->mapped_bytes) out->large_bytes = out->mapped_bytes;
    return true;
}

static void touch_present(const kt__filemap *map) {
    unsigned char present;
    for (uint64_t at = 0; at < map->size; at += KT__HUGE_PAGE_BYTES) {
        const volatile uint8_t *byte = map->data + at;
        if (mincore((void *)(uintptr_t)byte, 1, &present) == 0 && (present & 1)) (void)*byte;
    }
}

bool kt__page_use_of_file(const kt__filemap *map, kt__page_use *out) {
    if (map->mapped && kt__filemap_shows_pages(map)) touch_present(map);
    return kt__page_use_at("", map->data, map->size, out);
}

void kt__page_use_text(const kt__page_use *use, char *out, size_t size) {
    uint64_t percent = use->bytes ? 100 * use->large_bytes / use->bytes : 0;
    out[0] = '\0';
    if (percent >= 90)
        snprintf(out, size, "in large pages");
    else if (percent >= 5)
        snprintf(out, size, "%" PRIu64 "%% in large pages", percent);
    else if (use->mapped_bytes)
        snprintf(out, size, "in small pages");
}

/* ---- relay ---- */

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
