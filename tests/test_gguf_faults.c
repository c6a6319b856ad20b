/* gguf under attack: truncation at every byte, every single bit flipped, memory bounded by the
 * file's size, and each allocation failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fault_alloc.h"
#include "gguf/gguf.h"
#include "gguf_bytes.h"

/* ---- a complete little model, and reading all of it ---- */

static char path[] = "/tmp/kt_faults_XXXXXX";
static uint8_t *file; /* 32-byte aligned */
static size_t file_size;

static kt_status write_model(const char *to, kt_error *err) {
    enum { VOCAB = 24 };
    kt__gguf_writer *w;
    kt__str tokens[VOCAB];
    float scores[VOCAB];
    char text[VOCAB][8];
    static const uint64_t ne_norm[] = {32}, ne_mat[] = {32, 4};
    uint8_t data[32 * 4] = {0};
    kt_status status = kt__gguf_writer_open(to, &w, err);
    if (status != KT_OK) return status;
    for (int i = 0; i < VOCAB; i++) {
        tokens[i] = (kt__str){text[i], (size_t)snprintf(text[i], sizeof text[i], "t%d", i)};
        scores[i] = (float)-i;
    }
    kt__gguf_put_str(w, "general.architecture", "llama");
    kt__gguf_put_u32(w, "llama.block_count", 1);
    kt__gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    kt__gguf_put_strs(w, "tokenizer.ggml.tokens", tokens, VOCAB);
    kt__gguf_put_f32s(w, "tokenizer.ggml.scores", scores, VOCAB);
    kt__gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
    kt__gguf_declare_tensor(w, "norm.weight", 0, 1, ne_norm);
    kt__gguf_declare_tensor(w, "token_embd.weight", 2, 2, ne_mat);
    status = kt__gguf_finish_header(w, err);
    if (status == KT_OK) status = kt__gguf_write_data(w, data, 128, err);
    if (status == KT_OK) status = kt__gguf_write_data(w, data, 18 * 4, err);
    if (status == KT_OK) return kt__gguf_writer_close(w, err);
    kt__gguf_writer_abort(w);
    return status;
}

static int load_model(void **state) {
    (void)state;
    int fd = mkstemp(path);
    if (fd < 0 || write_model(path, NULL) != KT_OK) return -1;
    close(fd);
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    file_size = (size_t)ftell(f);
    rewind(f);
    if (posix_memalign((void **)&file, 32, file_size) != 0) return -1;
    if (fread(file, 1, file_size, f) != file_size) return -1;
    return fclose(f);
}

static int unload_model(void **state) {
    (void)state;
    free(file);
    return unlink(path);
}

/* Reads every byte that the opened file vouches for. */
static unsigned touch(const kt__gguf *g) {
    unsigned sum = 0;
    for (size_t i = 0; i < kt__gguf_n_kv(g); i++) {
        const kt__gguf_kv *kv = kt__gguf_kv_at(g, i);
        for (uint64_t k = 0; k < kv->count; k++) {
            if (kv->type == KT__GGUF_ARRAY && kv->elem_type == KT__GGUF_STRING) {
                kt__str s = kt__gguf_array_str(kv, k);
                for (size_t c = 0; c < s.len; c++) sum += (unsigned char)s.s[c];
            } else if (kv->type == KT__GGUF_ARRAY) {
                sum += (unsigned)kt__gguf_array_i64(kv, k);
            }
        }
    }
    for (size_t i = 0; i < kt__gguf_n_tensors(g); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(g, i);
        for (uint64_t k = 0; t->data && k < t->size; k++) sum += t->data[k];
    }
    return sum;
}

static volatile unsigned sink; /* so that the reads are not optimised away */

/* Opens size bytes of data; whatever the outcome, memory stays bounded and is given back. */
static kt_status attack(const uint8_t *data, size_t size, kt_error *err) {
    kt__gguf *g;
    size_t before = live;
    peak = live;
    kt_status status = kt__gguf_open_memory(data, size, false, &g, err);
    if (status == KT_OK) {
        sink += touch(g);
        kt__gguf_close(g);
    } else {
        assert_null(g);
        assert_true(err->message[0] != '\0');
    }
    assert_true(peak - before <= 17 * size + 64 * 1024);
    assert_int_equal(live, before);
    return status;
}

/* ---- tests ---- */

static void test_truncation_at_every_byte(void **state) {
    (void)state;
    kt_error err;
    assert_int_equal(attack(file, file_size, &err), KT_OK);
    for (size_t size = 0; size < file_size; size++) {
        /* an exact allocation, so that a sanitizer sees any read beyond it */
        uint8_t *part = NULL;
        assert_int_equal(posix_memalign((void **)&part, 32, size ? size : 1), 0);
        memcpy(part, file, size);
        kt_status status = attack(part, size, &err);
        /* the last tensor's data ends before the padding */
        if (status == KT_OK) assert_true(file_size - size < 32);
        free(part);
    }
}

static void test_every_bit_flipped(void **state) {
    (void)state;
    kt_error err;
    for (size_t bit = 0; bit < file_size * 8; bit++) {
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)attack(file, file_size, &err);
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(attack(file, file_size, &err), KT_OK);
}

/* Bytes replaced by the values that arithmetic stumbles over. */
static void test_every_word_extreme(void **state) {
    (void)state;
    static const uint64_t values[] = {0,          UINT64_MAX, 1ULL << 63, INT64_MAX,
                                      1ULL << 32, UINT32_MAX, 1ULL << 61};
    kt_error err;
    for (size_t at = 0; at + 8 <= file_size; at++) {
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            uint8_t saved[8];
            memcpy(saved, file + at, 8);
            memcpy(file + at, &values[v], 8);
            (void)attack(file, file_size, &err);
            memcpy(file + at, saved, 8);
        }
    }
}

/* Many keys that differ only at their end must not take quadratic time. */
static void test_many_alike_keys(void **state) {
    (void)state;
    enum { N = KT__GGUF_MAX_KV, BYTES = 8 + 40 + 4 + 1 };
    size_t size = 24 + (size_t)N * BYTES, at = 24;
    uint8_t *data = NULL;
    kt__gguf *g;
    assert_int_equal(posix_memalign((void **)&data, 32, size), 0);
    memset(data, 0, size);
    memcpy(data, "GGUF\3", 5);
    data[18] = 1; /* 65536 */
    for (int i = 0; i < N; i++, at += BYTES) {
        char key[41];
        snprintf(key, sizeof key, "%040d", (int)((uint32_t)i * 40503 % N));
        data[at] = 40;
        memcpy(data + at + 8, key, 40);
    }
    assert_int_equal(kt__gguf_open_memory(data, size, false, &g, NULL), KT_OK);
    assert_non_null(kt__gguf_find(g, "0000000000000000000000000000000000065535"));
    kt__gguf_close(g);
    free(data);
}

static void test_each_allocation_fails(void **state) {
    (void)state;
    const kt__gguf_open_params params = {.use_mmap = true}, copy = {0};
    for (int how = 0; how < 4; how++) {
        kt_status status = KT_E_NOMEM;
        for (long n = 0; status != KT_OK; n++) {
            kt__gguf *g = NULL;
            kt_error err = {0};
            size_t before = live;
            assert_true(n < 1000);
            n_calls = 0;
            fail_at = n;
            if (how == 0) status = kt__gguf_open_memory(file, file_size, false, &g, &err);
            if (how == 1) status = kt__gguf_open(path, &params, &g, &err);
            if (how == 2) status = kt__gguf_open(path, &copy, &g, &err);
            if (how == 3) status = write_model(path, &err);
            fail_at = -1;
            if (status != KT_OK) assert_int_equal(status, KT_E_NOMEM);
            if (status != KT_OK) assert_null(g);
            kt__gguf_close(g);
            assert_int_equal(live, before);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncation_at_every_byte), cmocka_unit_test(test_every_bit_flipped),
        cmocka_unit_test(test_every_word_extreme),       cmocka_unit_test(test_many_alike_keys),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, load_model, unload_model);
}
