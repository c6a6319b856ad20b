#include "kv/disk_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const suffixes[] = {[KT__DISK_BLOCK] = ".kv", [KT__DISK_END] = ".end"};

void kt__disk_name(const kt__kv_block *b, kt__disk_kind kind, char out[KT__DISK_NAME_BYTES]) {
    snprintf(out, KT__DISK_NAME_BYTES,
             "%06x-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "%016" PRIx64 "%s",
             (unsigned)b->index & 0xffffffu, b->key.w[0], b->key.w[1], b->parent.w[0],
             b->parent.w[1], suffixes[kind]);
}

static bool parse_hex(const char *s, int n, uint64_t *out) {
    *out = 0;
    for (int i = 0; i < n; i++) {
        int digit = s[i] >= '0' && s[i] <= '9'   ? s[i] - '0'
                    : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10
                                                 : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return true;
}

bool kt__disk_parse_name(const char *name, kt__kv_block *out, kt__disk_kind *kind) {
    uint64_t index;
    if (strlen(name) < 6 + 1 + 32 + 1 + 32) return false;
    if (name[6] != '-' || name[39] != '-') return false;
    *kind = strcmp(name + 72, suffixes[KT__DISK_END]) == 0 ? KT__DISK_END : KT__DISK_BLOCK;
    if (strcmp(name + 72, suffixes[*kind]) != 0) return false;
    *out = (kt__kv_block){0};
    if (!parse_hex(name, 6, &index) || !parse_hex(name + 7, 16, &out->key.w[0]) ||
        !parse_hex(name + 23, 16, &out->key.w[1]) || !parse_hex(name + 40, 16, &out->parent.w[0]) ||
        !parse_hex(name + 56, 16, &out->parent.w[1]))
        return false;
    out->index = (int32_t)index;
    return true;
}
