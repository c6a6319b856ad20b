/* A small GGUF file built byte by byte, with the offset of every field, for the gguf tests. */
#ifndef KT_TESTS_GGUF_BYTES_H
#define KT_TESTS_GGUF_BYTES_H

#include <stdint.h>
#include <string.h>

enum {
    AT_MAGIC,
    AT_VERSION,
    AT_N_TENSORS,
    AT_N_KV,
    AT_ARCH_LEN,
    AT_ARCH_KEY,
    AT_ARCH_TYPE,
    AT_ARCH_VALUE_LEN,
    AT_ALIGN_LEN,
    AT_ALIGN_KEY,
    AT_ALIGN_TYPE,
    AT_ALIGN_VALUE,
    AT_LIST_LEN,
    AT_LIST_KEY,
    AT_LIST_TYPE,
    AT_LIST_ELEM,
    AT_LIST_COUNT,
    AT_LIST_FIRST,
    AT_NUMS_LEN,
    AT_NUMS_KEY,
    AT_NUMS_TYPE,
    AT_NUMS_ELEM,
    AT_NUMS_COUNT,
    AT_FLAG_LEN,
    AT_FLAG_KEY,
    AT_FLAG_TYPE,
    AT_FLAG_VALUE,
    AT_A_LEN,
    AT_A_NAME,
    AT_A_DIMS,
    AT_A_NE0,
    AT_A_NE1,
    AT_A_TYPE,
    AT_A_OFFSET,
    AT_B_LEN,
    AT_B_NAME,
    AT_B_DIMS,
    AT_B_NE0,
    AT_B_NE1,
    AT_B_TYPE,
    AT_B_OFFSET,
    AT_DATA,
    AT_END,
    AT_COUNT
};

typedef struct gguf_bytes {
    _Alignas(32) uint8_t data[1024];
    size_t size;
    size_t at[AT_COUNT];
} gguf_bytes;

static inline void put_int(gguf_bytes *b, int field, uint64_t value, int bytes) {
    b->at[field] = b->size;
    for (int i = 0; i < bytes; i++) b->data[b->size++] = (uint8_t)(value >> (8 * i));
}

static inline void put_text(gguf_bytes *b, int field, const char *text) {
    b->at[field] = b->size;
    memcpy(b->data + b->size, text, strlen(text));
    b->size += strlen(text);
}

static inline void put_key(gguf_bytes *b, int field_len, int field_key, const char *key) {
    put_int(b, field_len, strlen(key), 8);
    put_text(b, field_key, key);
}

/* general.architecture = "test", general.alignment = 32, list = ["a", "bc"], nums = i32 [1, -2, 3],
 * flag = true; a.weight F32 [4][2] = 0..7, b.weight Q8_0 [64][1]. */
static inline void gguf_bytes_build(gguf_bytes *b, uint32_t version) {
    memset(b, 0, sizeof *b);
    put_text(b, AT_MAGIC, "GGUF");
    put_int(b, AT_VERSION, version, 4);
    put_int(b, AT_N_TENSORS, 2, 8);
    put_int(b, AT_N_KV, 5, 8);
    put_key(b, AT_ARCH_LEN, AT_ARCH_KEY, "general.architecture");
    put_int(b, AT_ARCH_TYPE, 8, 4);
    put_key(b, AT_ARCH_VALUE_LEN, AT_COUNT - 1, "test");
    put_key(b, AT_ALIGN_LEN, AT_ALIGN_KEY, "general.alignment");
    put_int(b, AT_ALIGN_TYPE, 4, 4);
    put_int(b, AT_ALIGN_VALUE, 32, 4);
    put_key(b, AT_LIST_LEN, AT_LIST_KEY, "list");
    put_int(b, AT_LIST_TYPE, 9, 4);
    put_int(b, AT_LIST_ELEM, 8, 4);
    put_int(b, AT_LIST_COUNT, 2, 8);
    put_key(b, AT_LIST_FIRST, AT_COUNT - 1, "a");
    put_key(b, AT_COUNT - 1, AT_COUNT - 1, "bc");
    put_key(b, AT_NUMS_LEN, AT_NUMS_KEY, "nums");
    put_int(b, AT_NUMS_TYPE, 9, 4);
    put_int(b, AT_NUMS_ELEM, 5, 4);
    put_int(b, AT_NUMS_COUNT, 3, 8);
    for (int i = 0; i < 3; i++) put_int(b, AT_COUNT - 1, (uint64_t)(i == 1 ? -2 : i + 1), 4);
    put_key(b, AT_FLAG_LEN, AT_FLAG_KEY, "flag");
    put_int(b, AT_FLAG_TYPE, 7, 4);
    put_int(b, AT_FLAG_VALUE, 1, 1);
    put_key(b, AT_A_LEN, AT_A_NAME, "a.weight");
    put_int(b, AT_A_DIMS, 2, 4);
    put_int(b, AT_A_NE0, 4, 8);
    put_int(b, AT_A_NE1, 2, 8);
    put_int(b, AT_A_TYPE, 0, 4);
    put_int(b, AT_A_OFFSET, 0, 8);
    put_key(b, AT_B_LEN, AT_B_NAME, "b.weight");
    put_int(b, AT_B_DIMS, 2, 4);
    put_int(b, AT_B_NE0, 64, 8);
    put_int(b, AT_B_NE1, 1, 8);
    put_int(b, AT_B_TYPE, 8, 4);
    put_int(b, AT_B_OFFSET, 32, 8);
    b->size = (b->size + 31) & ~(size_t)31;
    b->at[AT_DATA] = b->size;
    for (uint32_t i = 0; i < 8; i++) {
        float f = (float)i;
        memcpy(b->data + b->size + 4 * i, &f, 4);
    }
    b->size += 32 + 68;
    b->at[AT_END] = b->size;
}

static inline void gguf_bytes_patch(gguf_bytes *b, int field, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) b->data[b->at[field] + (size_t)i] = (uint8_t)(value >> (8 * i));
}

#endif
