/* Arbitrary bytes as a session file: refused by name, or loaded. Every second input is the body of
 * a file whose header is right in all but its digests' inputs, so that the checks behind them are
 * reached too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "kv/image.h"
#include "kv/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const kt__kv_shape shape = {1, 1, 2, 2};
enum { MAX_POS = 64, MAX_LOGITS = 64, HEADER = 512, SEED = 0x53455353 };

/* The header's own digest made right, so that what it states is believed as far as it goes. */
static void sign(uint8_t *header) {
    kt__digest d = kt__hash_bytes(SEED, header, HEADER - 32);
    for (int i = 0; i < 4; i++) kt__io_put(header + HEADER - 32 + 8 * i, d.w[i], 8);
}

static void try_file(const char *path) {
    kt_error err;
    kt__kv_image_file *file;
    kt__kv *kv;
    kt__kv_table table;
    int32_t ids[MAX_POS];
    float logits[MAX_LOGITS];
    kt_status status = kt__kv_image_open(path, &shape, &file, &err);
    if (status != KT_OK) {
        if (file || !err.message[0]) abort();
        return;
    }
    const kt__kv_image *info = kt__kv_image_info(file);
    if (info->n_pos < 1 || info->n_logits < 0) abort();
    if (info->n_pos <= MAX_POS && info->n_logits <= MAX_LOGITS &&
        kt__kv_create(&shape, MAX_POS / KT__PAGE_POS, &kv, &err) == KT_OK) {
        if (kt__kv_table_init(&table, MAX_POS, &err) == KT_OK) {
            if (kt__kv_table_grow(kv, &table, 0, info->n_pos, &err) == KT_OK) {
                status = kt__kv_image_load(file, ids, logits, kv, &table, &err);
                if (status != KT_OK && !err.message[0]) abort();
            }
            kt__kv_table_free(kv, &table);
        }
        kt__kv_destroy(kv);
    }
    kt__kv_image_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char path[64];
    static uint8_t file[1 << 16];
    if (size < 1 || size > sizeof file) return 0;
    if (!path[0]) snprintf(path, sizeof path, "/dev/shm/kentang-fuzz-%ld", (long)getpid());
    size_t n = size - 1;
    memcpy(file, data + 1, n);
    if (data[0] & 1 && n >= HEADER) {
        memcpy(file, "kentang session", 16);
        kt__io_put(file + 16, 1, 4);
        kt__io_put(file + 20, 0x01020304, 4);
        sign(file);
    }
    FILE *out = fopen(path, "wb");
    if (!out) return 0;
    fwrite(file, 1, n, out);
    fclose(out);
    try_file(path);
    unlink(path);
    return 0;
}
