#include "host/page_use.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "host/pages.h"
#include "host/textfile.h"

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
