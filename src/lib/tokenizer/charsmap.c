#include "tokenizer/charsmap.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* A unit of the trie (darts-clone): a label in bits 0-7, whether a value hangs below in bit 8, and
 * the distance of the children in bits 10-30, times 256 with bit 9. A value has bit 31. */
static uint32_t label_of(uint32_t unit) {
    return unit & (0x80000000u | 0xff);
}

static uint32_t distance_of(uint32_t unit) {
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

static kt_status broken_map(const char *path, kt_error *err, const char *what, size_t len) {
    return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                       "tokenizer.ggml.precompiled_charsmap, of %zu bytes, %s", len, what);
}

kt_status kt__charsmap_init(kt__charsmap *map, kt__str data, const char *path, kt_error *err) {
    uint32_t trie_bytes = 0;
    *map = (kt__charsmap){0};
    if (data.len == 0) return KT_OK;
    if (data.len < sizeof trie_bytes)
        return broken_map(path, err, "has no size of its trie", data.len);
    memcpy(&trie_bytes, data.s, sizeof trie_bytes);
    size_t rest = data.len - sizeof trie_bytes;
    if (trie_bytes == 0 || trie_bytes % sizeof *map->units || trie_bytes > rest)
        return broken_map(path, err, "has a trie of another size than it says", data.len);
    if (rest > trie_bytes && data.s[data.len - 1] != '\0')
        return broken_map(path, err, "does not end with the end of a replacement", data.len);
    map->units = kt__malloc(rest);
    if (!map->units) return kt__fail_nomem(err, "normalisation", rest);
    memcpy(map->units, data.s + sizeof trie_bytes, rest);
    map->n_units = trie_bytes / sizeof *map->units;
    map->texts = (const char *)map->units + trie_bytes;
    map->texts_len = rest - trie_bytes;
    return KT_OK;
}

void kt__charsmap_free(kt__charsmap *map) {
    kt__free(map->units);
    *map = (kt__charsmap){0};
}

size_t kt__charsmap_match(const kt__charsmap *map, const char *s, size_t len, kt__str *out) {
    size_t found = 0;
    if (map->n_units == 0) return 0;
    uint32_t at = distance_of(map->units[0]);
    for (size_t i = 0; i < len && s[i] != '\0'; i++) {
        at ^= (unsigned char)s[i];
        if (at >= map->n_units || label_of(map->units[at]) != (unsigned char)s[i]) break;
        uint32_t unit = map->units[at];
        at ^= distance_of(unit);
        if (!(unit >> 8 & 1)) continue;
        if (at >= map->n_units) break;
        size_t text = map->units[at] & 0x7fffffffu;
        if (text >= map->texts_len) break;
        *out = (kt__str){map->texts + text, strlen(map->texts + text)};
        found = i + 1;
    }
    return found;
}
