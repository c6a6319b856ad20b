/* base: little-endian numbers, SipHash by its authors' vectors, growing arrays, JSON strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/le.h"

static void test_little_endian(void **state) {
    (void)state;
    uint8_t bytes[9];
    memset(bytes, 0xee, sizeof bytes);
    kt__le_put(bytes + 1, UINT64_C(0x0123456789abcdef), 3);
    assert_memory_equal(bytes, "\xee\xef\xcd\xab\xee", 5);
    assert_true(kt__le_get(bytes + 1, 3) == 0xabcdef);
    kt__le_put(bytes + 1, UINT64_C(0x8123456789abcdef), 8);
    assert_true(kt__le_get(bytes + 1, 8) == UINT64_C(0x8123456789abcdef));
    assert_true(kt__le_get(bytes, 0) == 0);
}

static void test_digest_bytes(void **state) {
    (void)state;
    uint8_t bytes[32], want[32] = {[0] = 1, [8] = 2, [17] = 3, [31] = 4};
    kt__digest_bytes((kt__digest){{1, 2, 3 << 8, UINT64_C(4) << 56}}, bytes);
    assert_memory_equal(bytes, want, sizeof bytes);
}

static void test_align_up(void **state) {
    (void)state;
    assert_int_equal(kt__align_up(0, 64), 0);
    assert_int_equal(kt__align_up(1, 64), 64);
    assert_int_equal(kt__align_up(64, 64), 64);
    assert_int_equal(kt__align_up(65, 32), 96);
}

/* The reference implementation's vectors: key 00 01 .. 0f, message 00 01 .. n-1. */
static void test_siphash_vectors(void **state) {
    (void)state;
    static const struct {
        size_t n;
        uint8_t out[16];
    } cases[] = {
        {0, "\xa3\x81\x7f\x04\xba\x25\xa8\xe6\x6d\xf6\x72\x14\xc7\x55\x02\x93"},
        {1, "\xda\x87\xc1\xd8\x6b\x99\xaf\x44\x34\x76\x59\x11\x9b\x22\xfc\x45"},
        {63, "\x51\x50\xd1\x77\x2f\x50\x83\x4a\x50\x3e\x06\x9a\x97\x3f\xbd\x7c"},
    };
    uint8_t bytes[64], out[16];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
    const uint64_t key[2] = {kt__le_get(bytes, 8), kt__le_get(bytes + 8, 8)};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t got[2];
        kt__siphash128(key, bytes, cases[i].n, got);
        kt__le_put(out, got[0], 8);
        kt__le_put(out + 8, got[1], 8);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

/* What CPython gives as the hash of bytes 00 01 .. n-1 with PYTHONHASHSEED=0, a key of zeros. */
static void test_quick_siphash_vectors(void **state) {
    (void)state;
    static const struct {
        size_t n;
        uint64_t out;
    } cases[] = {
        {1, UINT64_C(0x68a914128e01e473)},
        {8, UINT64_C(0xead411e67ebe2eea)},
        {63, UINT64_C(0x385d3e39e5f37359)},
    };
    uint8_t bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(kt__siphash_quick((uint64_t[2]){0, 0}, bytes, cases[i].n) == cases[i].out);
}

static void test_arrays_grow(void **state) {
    (void)state;
    uint32_t *items = NULL;
    size_t n = 0, cap = 0, n_moves = 0;
    while (n < 1000) {
        size_t before = cap;
        assert_true(kt__vec_reserve(items, cap, n + 1));
        n_moves += cap != before;
        items[n] = (uint32_t)n;
        n++;
    }
    for (size_t i = 0; i < n; i++) assert_int_equal(items[i], i);
    assert_true(n_moves <= 8);
    assert_true(kt__vec_reserve(items, cap, 5000));
    assert_true(cap >= 5000);
    uint32_t *same = items;
    assert_false(kt__vec_reserve(items, cap, SIZE_MAX / 2));
    assert_true(items == same && cap >= 5000 && cap < SIZE_MAX / 4);
    assert_int_equal(items[999], 999);
    kt__free(items);
}

static void expect_json(const char *s, size_t len, kt__json_style style, const char *want) {
    kt__buf out;
    kt__buf_init(&out, 1000);
    kt__json_string(&out, s, len, style);
    assert_false(out.failed);
    assert_string_equal(out.data, want);
    kt__buf_free(&out);
}

static void test_json_strings(void **state) {
    (void)state;
    expect_json("", 0, KT__JSON_PLAIN, "\"\"");
    expect_json("a\"\\/\b\f\n\r\t\0\x1f\x7f", 12, KT__JSON_PLAIN,
                "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\"");
    const char *text = "\xc3\xa9\xe2\x82\xac\xf0\x9f\xa5\x94\x7f"; /* e acute, euro, potato */
    expect_json(text, strlen(text), KT__JSON_PLAIN, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\xa5\x94\x7f\"");
    expect_json(text, strlen(text), KT__JSON_ASCII, "\"\\u00e9\\u20ac\\ud83e\\udd54\\u007f\"");
    const char *odd = "\x1b[2J\xc2\x9b\xe2\x80\xae\xef\xbb\xbf\x7f\xc3\xa9";
    expect_json(odd, strlen(odd), KT__JSON_TERMINAL,
                "\"\\u001b[2J\\u009b\\u202e\\ufeff\\u007f\xc3\xa9\"");
}

static void test_json_broken_text(void **state) {
    (void)state;
    expect_json("x\xff\xfey", 4, KT__JSON_PLAIN, "\"x\xef\xbf\xbd\xef\xbf\xbdy\"");
    expect_json("\xf0\x9f\xa5y\xe2\x82", 6, KT__JSON_PLAIN, "\"\xef\xbf\xbdy\xef\xbf\xbd\"");
    expect_json("\xed\xa0\x80", 3, KT__JSON_ASCII, "\"\\ufffd\\ufffd\\ufffd\"");
}

static void test_json_members(void **state) {
    (void)state;
    kt__buf out;
    kt__buf_init(&out, 1000);
    kt__buf_puts(&out, "{");
    kt__json_member(&out, "a", "x{");
    kt__json_key(&out, "b");
    kt__buf_puts(&out, "{");
    kt__json_member(&out, "c\n", NULL);
    kt__buf_puts(&out, "}}");
    assert_string_equal(out.data, "{\"a\":\"x{\",\"b\":{\"c\\n\":\"\"}}");
    kt__buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_little_endian),
        cmocka_unit_test(test_digest_bytes),
        cmocka_unit_test(test_align_up),
        cmocka_unit_test(test_siphash_vectors),
        cmocka_unit_test(test_quick_siphash_vectors),
        cmocka_unit_test(test_arrays_grow),
        cmocka_unit_test(test_json_strings),
        cmocka_unit_test(test_json_broken_text),
        cmocka_unit_test(test_json_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
