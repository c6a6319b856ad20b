/* libFuzzer: any bytes as a GGUF file, opened from memory, everything it vouches for read. */
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sink;

static void touch_bytes(const void *data, uint64_t size) {
    unsigned sum = 0;
    for (uint64_t i = 0; i < size; i++) sum += ((const unsigned char *)data)[i];
    sink += sum;
}

static void touch_kv(const kt__gguf_kv *kv) {
    if (kv->type != KT__GGUF_ARRAY) return;
    for (uint64_t i = 0; i < kv->count; i++) {
        if (kv->elem_type == KT__GGUF_STRING) {
            kt__str s = kt__gguf_array_str(kv, i);
            touch_bytes(s.s, s.len);
        } else if (kv->elem_type == KT__GGUF_F32 || kv->elem_type == KT__GGUF_F64) {
            sink += kt__gguf_array_f32(kv, i) > 0;
        } else {
            sink += (unsigned)kt__gguf_array_i64(kv, i);
        }
    }
}

static void touch_typed(const kt__gguf *g, const char *key) {
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    float f32 = 0;
    bool flag = false;
    kt__str s = {0};
    const kt__gguf_kv *array;
    kt_error err;
    sink += (unsigned)kt__gguf_get_u32(g, key, true, &u32, &err) + u32;
    sink += (unsigned)kt__gguf_get_u64(g, key, true, &u64, &err) + (unsigned)u64;
    sink += (unsigned)kt__gguf_get_f32(g, key, true, &f32, &err) + (f32 > 0);
    sink += (unsigned)kt__gguf_get_bool(g, key, true, &flag, &err) + flag;
    if (kt__gguf_get_str(g, key, true, &s, &err) == KT_OK) touch_bytes(s.s, s.len);
    sink += (unsigned)kt__gguf_get_array(g, key, true, KT__GGUF_STRING, &array, &err);
}

static void touch(const kt__gguf *g) {
    for (size_t i = 0; i < kt__gguf_n_kv(g); i++) {
        char key[64] = {0};
        const kt__gguf_kv *kv = kt__gguf_kv_at(g, i);
        touch_kv(kv);
        memcpy(key, kv->key.s, kv->key.len < sizeof key ? kv->key.len : sizeof key - 1);
        touch_typed(g, key);
    }
    for (size_t i = 0; i < kt__gguf_n_tensors(g); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(g, i);
        if (kt__gguf_find_tensor(g, t->name.s) != t) abort();
        if (t->data) touch_bytes(t->data, t->size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int vocab_only = 0; vocab_only < 2; vocab_only++) {
        kt__gguf *g;
        kt_error err;
        if (kt__gguf_open_memory(data, size, vocab_only, &g, &err) == KT_OK) touch(g);
        kt__gguf_close(g);
    }
    return 0;
}
