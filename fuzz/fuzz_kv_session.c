/* Arbitrary bytes as a session file: refused by name, or loaded. Every second input is the body of
 * a file whose header is right in all but its digests' inputs, so that the checks behind them are
 * reached too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "kv/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SHAPE(k, v, tail, first, window)                                                          \
    {                                                                                             \
        .n_layer = 1, .n_head_kv = 1, .head_dim_k = 2, .head_dim_v = 2, .k_form = KT__KV_##k,     \
        .v_form = KT__KV_##v, .n_tail = tail, .first_f16 = first, .n_window = window, .locals = { \
            window > 0                                                                            \
        }                                                                                         \
    }
static const kt__kv_shape shapes[] = {
    SHAPE(F16, F16, 0, false, 0), SHAPE(Q8, Q8, 0, false, 0),   SHAPE(Q8, F16, 0, false, 0),
    SHAPE(F16, Q8, 0, false, 0),  SHAPE(Q4, Q4, 0, true, 0),    SHAPE(Q8, Q4, 1, true, 0),
    SHAPE(Q8, Q8, 2, false, 0),   SHAPE(F16, F16, 0, false, 1), SHAPE(Q8, Q4, 1, true, 2)};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
enum { MAX_POS = 64, MAX_LOGITS = 64, HEADER = 512, SEED = 0x53455353 };

/* The header's own digest made right, so that what it states is believed as far as it goes. */
static void sign(uint8_t *header) {
    kt__digest d = kt__hash_bytes(SEED, header, HEADER - 32);
    kt__digest_bytes(d, header + HEADER - 32);
}

/* What was read can be gone on from, wherever that is. */
static void go_on(kt__kv *kv, kt__kv_table *table, int64_t n_pos) {
    int64_t end = kt__kv_table_own_end(kv, table, n_pos);
    if (end < 0 || end > n_pos) abort();
    if (end < MAX_POS && kt__kv_table_grow(kv, table, end, end + 1, NULL) != KT_OK) abort();
}

static void try_file(const kt__kv_shape *shape, const char *path) {
    kt_error err;
    kt__kv_image_file *file;
    kt__kv *kv;
    kt__kv_table table;
    int32_t ids[MAX_POS];
    float logits[MAX_LOGITS];
    kt_status status = kt__kv_image_open(path, shape, &file, &err);
    if (status != KT_OK) {
        if (file || !err.message[0]) abort();
        return;
    }
    const kt__kv_image *info = kt__kv_image_info(file);
    if (info->n_pos < 1 || info->n_logits < 0) abort();
    if (info->n_pos <= MAX_POS && info->n_logits <= MAX_LOGITS &&
        kt__kv_create(shape, MAX_POS / KT__PAGE_POS, &kv, &err) == KT_OK) {
        if (kt__kv_table_init(&table, MAX_POS, &err) == KT_OK) {
            if (kt__kv_table_grow_as(kv, &table, 0, info->n_pos, KT__GROW_QUANTISED, &err) ==
                KT_OK) {
                status = kt__kv_image_load(file, ids, logits, kv, &table, &err);
                if (status != KT_OK && !err.message[0]) abort();
                if (status == KT_OK) kt__kv_image_drop_missing(file, kv, &table);
                if (status == KT_OK) go_on(kv, &table, info->n_pos);
            }
            kt__kv_table_free(kv, &table);
        }
        kt__kv_destroy(kv);
    }
    kt__kv_image_close(file);
}

static char path[64];
static uint8_t goods[N_SHAPES][1 << 14], file[1 << 16];
static size_t good_sizes[N_SHAPES];

/* A session of 21 positions and 5 logits. */
static void make_good(int i) {
    kt_error err;
    kt__kv *kv;
    kt__kv_table table;
    kt__kv_image image = {.n_pos = 21, .n_logits = 5};
    int32_t ids[21] = {1, 2, 3};
    float logits[5] = {0.5f};
    snprintf(path, sizeof path, "/dev/shm/kentang-fuzz-%ld", (long)getpid());
    if (kt__kv_create(&shapes[i], 4, &kv, &err) != KT_OK ||
        kt__kv_table_init(&table, MAX_POS, &err) != KT_OK ||
        kt__kv_table_grow(kv, &table, 0, 21, &err) != KT_OK ||
        kt__kv_image_save(path, &image, ids, logits, kv, &table, &err) != KT_OK)
        abort();
    FILE *in = fopen(path, "rb");
    if (!in) abort();
    good_sizes[i] = fread(goods[i], 1, sizeof goods[i], in);
    fclose(in);
    kt__kv_table_free(kv, &table);
    kt__kv_destroy(kv);
}

/* The digests of the sections, where they lie within the file. */
static void sign_sections(size_t size) {
    for (int i = 0; i < 4; i++) {
        uint8_t *at = file + (i < 3 ? 208 + 48 * i : 392);
        uint64_t offset = kt__le_get(at, 8), bytes = kt__le_get(at + 8, 8);
        if (offset > size || bytes > size - offset) continue;
        kt__digest d = kt__hash_bytes(SEED + (uint64_t)i, file + offset, (size_t)bytes);
        kt__digest_bytes(d, at + 16);
    }
}

static int form_of(int flags) {
    return (flags >> 4 & 15) % N_SHAPES;
}

/* Changes of three bytes each: where, and by what. */
static size_t change_good(const uint8_t *data, size_t size, int flags) {
    int form = form_of(flags);
    size_t good_size = good_sizes[form], n = good_size;
    memcpy(file, goods[form], good_size);
    for (; size >= 3; data += 3, size -= 3) {
        size_t at = (size_t)kt__le_get(data, 2);
        file[flags & 8 ? at % HEADER : at % good_size] ^= data[2];
    }
    if (flags & 2) sign_sections(n);
    if (flags & 4) sign(file);
    if (size) n = n * data[0] / 255;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int i = 0; i < N_SHAPES && !good_sizes[i]; i++) make_good(i);
    if (size < 1 || size > sizeof file) return 0;
    size_t n = size - 1;
    if (data[0] & 1) {
        n = change_good(data + 1, n, data[0]);
    } else {
        memcpy(file, data + 1, n);
    }
    FILE *out = fopen(path, "wb");
    if (!out) return 0;
    fwrite(file, 1, n, out);
    fclose(out);
    try_file(&shapes[form_of(data[0])], path);
    unlink(path);
    return 0;
}
