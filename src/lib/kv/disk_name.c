#include "kv/disk_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void kt__disk_name(const kt__kv_block *b, char out[KT__DISK_NAME_BYTES]) {
    snprintf(out, KT__DISK_NAME_BYTES,
             "%06x-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "%016" PRIx64 ".kv",
             (unsigned)b->index & 0xffffffu, b->key.w[0], b->key.w[1], b->parent.w[0],
             b->parent.w[1]);
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

bool kt__disk_parse_name(const char *name, kt__kv_block *out) {
    uint64_t index;
    if (strlen(name) != 6 + 1 + 32 + 1 + 32 + 3) return false;
    if (name[6] != '-' || name[39] != '-' || strcmp(name + 72, ".kv") != 0) return false;
    *out = (kt__kv_block){0};
    if (!parse_hex(name, 6, &index) || !parse_hex(name + 7, 16, &out->key.w[0]) ||
        !parse_hex(name + 23, 16, &out->key.w[1]) || !parse_hex(name + 40, 16, &out->parent.w[0]) ||
        !parse_hex(name + 56, 16, &out->parent.w[1]))
        return false;
    out->index = (int32_t)index;
    return true;
}
