/* gguf: golden bytes, typed reads, and the table of files that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "gguf/gguf.h"
#include "gguf_bytes.h"

static kt__gguf *must_open(const gguf_bytes *b) {
    kt__gguf *g;
    kt_error err;
    kt_status status = kt__gguf_open_memory(b->data, b->size, false, &g, &err);
    if (status != KT_OK) fail_msg("%s", err.message);
    return g;
}

static void assert_str(kt__str s, const char *expected) {
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.s, expected, s.len);
}

static void check_golden(uint32_t version) {
    gguf_bytes b;
    kt__str arch;
    const kt__gguf_kv *list, *nums;
    bool flag = false;
    gguf_bytes_build(&b, version);
    kt__gguf *g = must_open(&b);
    assert_int_equal(kt__gguf_version(g), version);
    assert_int_equal(kt__gguf_n_kv(g), 5);
    assert_int_equal(kt__gguf_alignment(g), 32);
    assert_int_equal(kt__gguf_file_bytes(g), b.size);
    assert_int_equal(kt__gguf_get_str(g, "general.architecture", true, &arch, NULL), KT_OK);
    assert_str(arch, "test");
    assert_int_equal(kt__gguf_get_bool(g, "flag", true, &flag, NULL), KT_OK);
    assert_true(flag);
    assert_int_equal(kt__gguf_get_array(g, "list", true, KT__GGUF_STRING, &list, NULL), KT_OK);
    assert_str(kt__gguf_array_str(list, 0), "a");
    assert_str(kt__gguf_array_str(list, 1), "bc");
    assert_int_equal(kt__gguf_get_array(g, "nums", true, KT__GGUF_TYPE_COUNT, &nums, NULL), KT_OK);
    assert_int_equal(kt__gguf_array_i64(nums, 1), -2);
    assert_int_equal(kt__gguf_n_tensors(g), 2);
    const kt__gguf_tensor *a = kt__gguf_find_tensor(g, "a.weight");
    assert_non_null(a);
    assert_ptr_equal(a->data, b.data + b.at[AT_DATA]);
    assert_int_equal(a->n_elem, 8);
    assert_int_equal(a->ne[2], 1);
    assert_int_equal(kt__gguf_find_tensor(g, "b.weight")->size, 68);
    assert_string_equal(kt__gguf_find_tensor(g, "b.weight")->name.s, "b.weight");
    assert_null(kt__gguf_find_tensor(g, "c.weight"));
    assert_null(kt__gguf_tensor_at(g, 2));
    kt__gguf_close(g);
}

static void test_golden_v2_and_v3(void **state) {
    (void)state;
    check_golden(2);
    check_golden(3);
}

/* The first bytes, written out: a builder with the reader's mistake would not be noticed otherwise.
 */
static void test_golden_literal(void **state) {
    (void)state;
    static const char bytes[] =
        "GGUF\3\0\0\0"
        "\1\0\0\0\0\0\0\0"
        "\1\0\0\0\0\0\0\0"
        "\3\0\0\0\0\0\0\0"
        "a.b\4\0\0\0\52\0\0\0"
        "\1\0\0\0\0\0\0\0"
        "w\1\0\0\0"
        "\2\0\0\0\0\0\0\0"
        "\0\0\0\0"
        "\0\0\0\0\0\0\0\0"
        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" /* 76 bytes so far, up to 96 */
        "\0\0\200\77\0\0\0\300";
    _Alignas(32) char data[sizeof bytes - 1];
    uint32_t value = 0;
    kt__gguf *g;
    memcpy(data, bytes, sizeof data);
    assert_int_equal(kt__gguf_open_memory(data, sizeof data, false, &g, NULL), KT_OK);
    assert_int_equal(kt__gguf_get_u32(g, "a.b", true, &value, NULL), KT_OK);
    assert_int_equal(value, 42);
    float w[2];
    memcpy(w, kt__gguf_find_tensor(g, "w")->data, sizeof w);
    assert_true(w[0] == 1.0f && w[1] == -2.0f);
    kt__gguf_close(g);
}

static void test_unaligned_memory_is_copied(void **state) {
    (void)state;
    gguf_bytes b;
    _Alignas(32) uint8_t shifted[1040];
    kt__gguf *g;
    gguf_bytes_build(&b, 3);
    memcpy(shifted + 1, b.data, b.size);
    assert_int_equal(kt__gguf_open_memory(shifted + 1, b.size, false, &g, NULL), KT_OK);
    const kt__gguf_tensor *a = kt__gguf_find_tensor(g, "a.weight");
    assert_int_equal((uintptr_t)a->data % 32, 0);
    assert_memory_equal(a->data, b.data + b.at[AT_DATA], a->size);
    kt__gguf_close(g);
}

static void test_vocab_only_needs_no_data(void **state) {
    (void)state;
    gguf_bytes b;
    kt__gguf *g;
    gguf_bytes_build(&b, 3);
    assert_int_equal(kt__gguf_open_memory(b.data, b.at[AT_DATA], true, &g, NULL), KT_OK);
    assert_null(kt__gguf_find_tensor(g, "a.weight")->data);
    kt__gguf_close(g);
}

static void test_unknown_tensor_type_is_kept(void **state) {
    (void)state;
    gguf_bytes b;
    gguf_bytes_build(&b, 3);
    gguf_bytes_patch(&b, AT_B_TYPE, 36, 4);
    kt__gguf *g = must_open(&b);
    const kt__gguf_tensor *t = kt__gguf_find_tensor(g, "b.weight");
    assert_int_equal(t->type, 36);
    assert_int_equal(t->size, 0);
    assert_null(t->data);
    assert_string_equal(kt__gguf_tensor_type_name(t->type), "IQ4_NL_4_4");
    assert_string_equal(kt__gguf_tensor_type_name(12), "Q4_K");
    assert_string_equal(kt__gguf_tensor_type_name(1000), "unknown");
    kt__gguf_close(g);
}

/* ---- typed reads: each scalar type under the key "flag", which is the last one ---- */

static kt__gguf *open_scalar(gguf_bytes *b, uint32_t type, uint64_t bits, int bytes) {
    gguf_bytes_build(b, 3);
    gguf_bytes_patch(b, AT_N_TENSORS, 0, 8);
    gguf_bytes_patch(b, AT_FLAG_TYPE, type, 4);
    b->size = b->at[AT_FLAG_VALUE] + (size_t)bytes;
    gguf_bytes_patch(b, AT_FLAG_VALUE, bits, bytes);
    return must_open(b);
}

static void test_integers_convert_when_they_fit(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        uint64_t bits;
        int bytes;
        bool fits_u32, fits_u64;
        uint64_t value;
    } cases[] = {
        {KT__GGUF_U8, 200, 1, true, true, 200},
        {KT__GGUF_I8, 0xff, 1, false, false, (uint64_t)-1},
        {KT__GGUF_U16, 65535, 2, true, true, 65535},
        {KT__GGUF_I16, 0x8000, 2, false, false, (uint64_t)-32768},
        {KT__GGUF_U32, 0xffffffff, 4, true, true, 0xffffffff},
        {KT__GGUF_I32, 0xffffffff, 4, false, false, (uint64_t)-1},
        {KT__GGUF_U64, UINT64_MAX, 8, false, true, UINT64_MAX},
        {KT__GGUF_I64, (uint64_t)INT64_MIN, 8, false, false, 0},
        {KT__GGUF_I64, 7, 8, true, true, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_bytes b;
        uint32_t u32 = 0;
        uint64_t u64 = 0;
        kt__gguf *g = open_scalar(&b, cases[i].type, cases[i].bits, cases[i].bytes);
        assert_int_equal(kt__gguf_get_u32(g, "flag", true, &u32, NULL) == KT_OK, cases[i].fits_u32);
        assert_int_equal(kt__gguf_get_u64(g, "flag", true, &u64, NULL) == KT_OK, cases[i].fits_u64);
        if (cases[i].fits_u32) assert_int_equal(u32, cases[i].value);
        if (cases[i].fits_u64) assert_int_equal(u64, cases[i].value);
        kt__gguf_close(g);
    }
}

static void test_floats(void **state) {
    (void)state;
    gguf_bytes b;
    float f = 0;
    kt_error err;
    kt__gguf *g = open_scalar(&b, KT__GGUF_F64, 0x3fb999999999999aU, 8); /* 0.1 */
    assert_int_equal(kt__gguf_get_f32(g, "flag", true, &f, NULL), KT_OK);
    assert_true(f == 0.1f);
    kt__gguf_close(g);
    g = open_scalar(&b, KT__GGUF_F32, 0x7fc00000, 4);
    assert_int_equal(kt__gguf_get_f32(g, "flag", true, &f, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "finite"));
    kt__gguf_close(g);
}

static void test_wrong_types_and_absent_keys(void **state) {
    (void)state;
    gguf_bytes b;
    kt_error err;
    uint32_t u32 = 99;
    kt__str s;
    const kt__gguf_kv *kv;
    gguf_bytes_build(&b, 3);
    kt__gguf *g = must_open(&b);
    assert_int_equal(kt__gguf_get_u32(g, "absent", false, &u32, &err), KT_OK);
    assert_int_equal(u32, 99);
    assert_int_equal(kt__gguf_get_u32(g, "absent", true, &u32, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "absent is missing"));
    assert_int_equal(kt__gguf_get_u32(g, "flag", true, &u32, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "flag is of type bool"));
    assert_int_equal(err.offset, b.at[AT_FLAG_LEN]);
    assert_int_equal(kt__gguf_get_str(g, "list", true, &s, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "an array of string"));
    assert_int_equal(kt__gguf_get_array(g, "nums", true, KT__GGUF_STRING, &kv, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "an array of string is expected"));
    assert_int_equal(kt__gguf_get_array(g, "absent", false, KT__GGUF_STRING, &kv, &err), KT_OK);
    assert_null(kv);
    kt__gguf_close(g);
    g = open_scalar(&b, KT__GGUF_BOOL, 2, 1);
    bool flag;
    assert_int_equal(kt__gguf_get_bool(g, "flag", true, &flag, &err), KT_E_FORMAT);
    kt__gguf_close(g);
}

/* ---- files that must be refused ---- */

#define TEXT8(s) \
    ((uint64_t)(s)[0] | (uint64_t)(s)[1] << 8 | (uint64_t)(s)[2] << 16 | (uint64_t)(s)[3] << 24)

static const struct {
    const char *what;
    int field;
    uint64_t value;
    int bytes;
    kt_status status;
    const char *fragment; /* of the message */
} must_fail[] = {
    {"magic", AT_MAGIC, 0x46554746, 4, KT_E_FORMAT, "not a GGUF file"},
    {"html", AT_MAGIC, TEXT8("<!DO"), 4, KT_E_FORMAT, "web page"},
    {"ggjt", AT_MAGIC, TEXT8("tjgg"), 4, KT_E_FORMAT, "older GGML"},
    {"version 0", AT_VERSION, 0, 4, KT_E_UNSUPPORTED, "version 0"},
    {"version 1", AT_VERSION, 1, 4, KT_E_UNSUPPORTED, "version 1"},
    {"version 4", AT_VERSION, 4, 4, KT_E_UNSUPPORTED, "version 4"},
    {"big-endian", AT_VERSION, 0x03000000, 4, KT_E_UNSUPPORTED, "big-endian"},
    {"tensor count", AT_N_TENSORS, UINT64_MAX, 8, KT_E_FORMAT,
     "claims 18446744073709551615 tensors"},
    {"tensor count + 1", AT_N_TENSORS, 3, 8, KT_E_FORMAT, "a tensor name"},
    {"negative key count", AT_N_KV, (uint64_t)-1, 8, KT_E_FORMAT, "metadata keys"},
    {"key count + 1", AT_N_KV, 6, 8, KT_E_FORMAT, "bytes long"},
    {"key length 0", AT_ARCH_LEN, 0, 8, KT_E_FORMAT, "0 bytes long"},
    {"key length huge", AT_ARCH_LEN, UINT64_MAX, 8, KT_E_FORMAT, "bytes long"},
    {"key length over the file", AT_ARCH_LEN, 60000, 8, KT_E_FORMAT, "truncated"},
    {"key with NUL", AT_ARCH_KEY, 0, 1, KT_E_FORMAT, "NUL"},
    {"duplicate key", AT_NUMS_KEY, TEXT8("list"), 4, KT_E_FORMAT, "list occurs twice"},
    {"value type 13", AT_FLAG_TYPE, 13, 4, KT_E_FORMAT, "value type 13"},
    {"value type huge", AT_FLAG_TYPE, 0xffffffff, 4, KT_E_FORMAT, "value type 4294967295"},
    {"string length", AT_ARCH_VALUE_LEN, UINT64_MAX - 7, 8, KT_E_FORMAT,
     "general.architecture needs"},
    {"array of arrays", AT_NUMS_ELEM, 9, 4, KT_E_UNSUPPORTED, "array of arrays"},
    {"array element type", AT_NUMS_ELEM, 77, 4, KT_E_FORMAT, "array of type 77"},
    {"array count", AT_NUMS_COUNT, 1U << 30, 8, KT_E_FORMAT, "claims 1073741824 elements"},
    {"array count wraps", AT_NUMS_COUNT, 0x4000000000000001, 8, KT_E_FORMAT, "elements"},
    {"string array count", AT_LIST_COUNT, UINT64_MAX, 8, KT_E_FORMAT, "elements"},
    {"string array count + 1", AT_LIST_COUNT, 3, 8, KT_E_FORMAT, ""},
    {"string array element", AT_LIST_FIRST, 1U << 20, 8, KT_E_FORMAT, "list needs 1048576 bytes"},
    {"alignment 0", AT_ALIGN_VALUE, 0, 4, KT_E_FORMAT, "general.alignment is 0"},
    {"alignment 4", AT_ALIGN_VALUE, 4, 4, KT_E_FORMAT, "general.alignment is 4"},
    {"alignment 24", AT_ALIGN_VALUE, 24, 4, KT_E_FORMAT, "power of two"},
    {"alignment huge", AT_ALIGN_VALUE, 0x80000000, 4, KT_E_FORMAT, "power of two"},
    {"alignment a float", AT_ALIGN_TYPE, 6, 4, KT_E_FORMAT, "general.alignment is of type f32"},
    {"alignment moves the data", AT_ALIGN_VALUE, 1 << 20, 4, KT_E_FORMAT, "truncated"},
    {"tensor name length", AT_A_LEN, 256, 8, KT_E_FORMAT, "256 bytes long"},
    {"tensor name of 64 bytes", AT_A_LEN, 64, 8, KT_E_FORMAT, "64 bytes long"},
    {"tensor name with NUL", AT_A_NAME, 0, 1, KT_E_FORMAT, "NUL"},
    {"duplicate tensor", AT_B_NAME, 'a', 1, KT_E_FORMAT, "a.weight occurs twice"},
    {"0 dimensions", AT_A_DIMS, 0, 4, KT_E_FORMAT, "0 dimensions"},
    {"5 dimensions", AT_A_DIMS, 5, 4, KT_E_FORMAT, "5 dimensions"},
    {"zero dimension", AT_A_NE1, 0, 8, KT_E_FORMAT, "dimension 1 is zero"},
    {"element count overflows", AT_A_NE0, UINT64_MAX, 8, KT_E_FORMAT, "overflows"},
    {"element count over i64", AT_A_NE0, 1ULL << 62, 8, KT_E_FORMAT, "overflows"},
    {"byte size overflows", AT_A_NE0, 1ULL << 61, 8, KT_E_FORMAT, "overflows"},
    {"part of a block", AT_B_NE0, 48, 8, KT_E_FORMAT,
     "no multiple of the 32-element blocks of Q8_0"},
    {"part of a K block", AT_B_TYPE, 12, 4, KT_E_FORMAT, "256-element blocks of Q4_K"},
    {"larger than the file", AT_A_NE1, 3000, 8, KT_E_FORMAT, "a.weight ends at byte"},
    {"overlap", AT_B_OFFSET, 0, 8, KT_E_FORMAT, "inside tensor"},
    {"offset unaligned", AT_B_OFFSET, 33, 8, KT_E_FORMAT, "no multiple of the alignment 32"},
    {"offset past the end", AT_B_OFFSET, 64, 8, KT_E_FORMAT, "b.weight ends at byte"},
    {"offset wraps", AT_B_OFFSET, UINT64_MAX - 31, 8, KT_E_FORMAT, "overflows"},
};

static void test_must_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof must_fail / sizeof must_fail[0]; i++) {
        gguf_bytes b;
        kt__gguf *g;
        kt_error err = {0};
        gguf_bytes_build(&b, 3);
        gguf_bytes_patch(&b, must_fail[i].field, must_fail[i].value, must_fail[i].bytes);
        kt_status status = kt__gguf_open_memory(b.data, b.size, false, &g, &err);
        if (status != must_fail[i].status || !strstr(err.message, must_fail[i].fragment))
            fail_msg("%s: %s \"%s\"", must_fail[i].what, kt_status_name(status), err.message);
        assert_null(g);
        assert_string_equal(err.where, "(memory)");
    }
}

static void test_limits_are_stated(void **state) {
    (void)state;
    static _Alignas(32) uint8_t big[(KT__GGUF_MAX_KV + 1) * 14 + 64];
    kt__gguf *g;
    kt_error err;
    memcpy(big, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\1", 19); /* 65537 keys */
    assert_int_equal(kt__gguf_open_memory(big, sizeof big, false, &g, &err), KT_E_LIMIT);
    assert_non_null(strstr(err.message, "65537 metadata keys; the limit is 65536"));
}

static void test_split_part_in_memory_is_refused(void **state) {
    (void)state;
    gguf_bytes b = {0};
    kt__gguf *g;
    kt_error err;
    put_text(&b, AT_MAGIC, "GGUF");
    put_int(&b, AT_VERSION, 3, 4);
    put_int(&b, AT_N_TENSORS, 0, 8);
    put_int(&b, AT_N_KV, 2, 8);
    put_key(&b, AT_ARCH_LEN, AT_ARCH_KEY, "split.count");
    put_int(&b, AT_ARCH_TYPE, KT__GGUF_U16, 4);
    put_int(&b, AT_ARCH_TYPE, 2, 2);
    put_key(&b, AT_ARCH_LEN, AT_ARCH_KEY, "split.no");
    put_int(&b, AT_ARCH_TYPE, KT__GGUF_U16, 4);
    put_int(&b, AT_ARCH_TYPE, 0, 2);
    assert_int_equal(kt__gguf_open_memory(b.data, b.size, false, &g, &err), KT_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "part 1 of 2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_v2_and_v3),
        cmocka_unit_test(test_golden_literal),
        cmocka_unit_test(test_unaligned_memory_is_copied),
        cmocka_unit_test(test_vocab_only_needs_no_data),
        cmocka_unit_test(test_unknown_tensor_type_is_kept),
        cmocka_unit_test(test_integers_convert_when_they_fit),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_wrong_types_and_absent_keys),
        cmocka_unit_test(test_must_fail),
        cmocka_unit_test(test_limits_are_stated),
        cmocka_unit_test(test_split_part_in_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
