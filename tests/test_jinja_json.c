/* The JSON reader: values, refusals with their byte, depth, truncation at every byte. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jinja/json.h"

static kt__arena arena;

static kt_status parse(const char *text, kt__jv *out, kt_error *err) {
    return kt__json_parse(&arena, text, strlen(text), out, err);
}

static int setup(void **state) {
    (void)state;
    kt__arena_init(&arena, 4096, 1 << 24);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    kt__arena_free(&arena);
    return 0;
}

static void test_scalars(void **state) {
    (void)state;
    kt__jv v;
    assert_int_equal(parse(" true ", &v, NULL), KT_OK);
    assert_true(v.type == KT__J_BOOL && v.u.b);
    assert_int_equal(parse("null", &v, NULL), KT_OK);
    assert_true(v.type == KT__J_NONE);
    assert_int_equal(parse("-9223372036854775808", &v, NULL), KT_OK);
    assert_true(v.type == KT__J_INT && v.u.i == INT64_MIN);
    assert_int_equal(parse("-9223372036854775809", &v, NULL), KT_OK);
    assert_true(v.type == KT__J_BIGINT && kt__jstr_is(v.u.s, "-9223372036854775809"));
    assert_int_equal(parse("1.5e-3", &v, NULL), KT_OK);
    assert_true(v.type == KT__J_FLOAT && v.u.f == 1.5e-3);
    assert_int_equal(parse("1E400", &v, NULL), KT_OK);
    assert_true(v.type == KT__J_FLOAT && isinf(v.u.f));
    assert_int_equal(parse("-0", &v, NULL), KT_OK);
    assert_true(v.type == KT__J_INT && v.u.i == 0);
}

static void expect_text(const char *json, const char *want, size_t len) {
    kt__jv v;
    kt_error err = {0};
    if (parse(json, &v, &err) != KT_OK) fail_msg("%s: %s", json, err.message);
    assert_int_equal(v.type, KT__J_STR);
    assert_int_equal(v.u.s->len, len);
    assert_memory_equal(v.u.s->data, want, len);
    assert_false(v.u.s->from_template);
}

static void test_strings(void **state) {
    (void)state;
    expect_text("\"\"", "", 0);
    expect_text("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "a\"\\/\b\f\n\r\t", 9);
    expect_text("\"\\u0041\\u00e9\\u65e5\\ud83d\\ude00\"", "A\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80",
                10);
    expect_text("\"\\u0000\"", "\0", 1);
    expect_text("\"\xc3\xa9\x7f\"", "\xc3\xa9\x7f", 3);
}

static void test_containers(void **state) {
    (void)state;
    kt__jv v;
    assert_int_equal(parse("{\"a\": [1, {\"b\": []}], \"c\": {}, \"a\": 2}", &v, NULL), KT_OK);
    assert_int_equal(v.u.d->n, 2); /* of equal names the last counts, at the place of the first */
    assert_true(kt__jstr_is(v.u.d->items[0].key.u.s, "a"));
    assert_int_equal(v.u.d->items[0].val.u.i, 2);
    assert_null(kt__jdict_find(v.u.d, "zz"));
    char big[200000] = "{";
    size_t n = 1;
    for (int i = 0; i < 9000; i++)
        n += (size_t)snprintf(big + n, sizeof big - n, "%s\"key%d\":%d", i ? "," : "", i, i);
    strcpy(big + n, "}");
    assert_int_equal(parse(big, &v, NULL), KT_OK);
    assert_int_equal(v.u.d->n, 9000);
    assert_int_equal(kt__jdict_find(v.u.d, "key8999")->u.i, 8999);
    assert_int_equal(kt__jdict_find(v.u.d, "key0")->u.i, 0);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t at;
    } bad[] = {{"", 0},
               {" ", 1},
               {"[1,]", 3},
               {"[1 2]", 3},
               {"{\"a\" 1}", 5},
               {"{a: 1}", 1},
               {"{\"a\":1,}", 7},
               {"01", 1},
               {"1.", 2},
               {"1e", 2},
               {"+1", 0},
               {".5", 0},
               {"-", 1},
               {"\"a", 2},
               {"\"\\x\"", 2},
               {"\"\\u12\"", 3},
               {"tru", 0},
               {"nullx", 4},
               {"[1] 2", 4},
               {"\"\n\"", 1},
               {"NaN", 0},
               {"'a'", 0},
               {"\"\xff\"", 1},
               {"\"\xc3\"", 1},
               {"\"\xed\xa0\x80\"", 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kt__jv v;
        kt_error err = {0};
        kt_status status = parse(bad[i].text, &v, &err);
        if (status != KT_E_FORMAT || err.offset != bad[i].at)
            fail_msg("%s: %d at %d: %s", bad[i].text, (int)status, (int)err.offset, err.message);
    }
    kt__jv v;
    assert_int_equal(parse("\"\\ud800\"", &v, NULL), KT_E_FORMAT);
    assert_int_equal(parse("\"\\ud800\\u0041\"", &v, NULL), KT_E_FORMAT);
    assert_int_equal(parse("\"\\udc00\"", &v, NULL), KT_E_FORMAT);
}

static void test_depth(void **state) {
    (void)state;
    char text[2 * KT__JSON_MAX_NEST + 3];
    kt__jv v;
    memset(text, '[', KT__JSON_MAX_NEST);
    memset(text + KT__JSON_MAX_NEST, ']', KT__JSON_MAX_NEST);
    text[2 * KT__JSON_MAX_NEST] = '\0';
    assert_int_equal(parse(text, &v, NULL), KT_OK);
    char *deep = calloc(1, 1000001);
    assert_non_null(deep);
    memset(deep, '[', 1000000);
    assert_int_equal(parse(deep, &v, NULL), KT_E_LIMIT);
    free(deep);
}

static void test_truncated_and_flipped(void **state) {
    (void)state;
    static const char text[] =
        "[{\"role\": \"us\\u00e9r\", \"n\": -1.5e+3, \"l\": [true, false, null, \"\xc3\xa9\"]}]";
    kt__jv v;
    kt_error err;
    for (size_t len = 0; len < sizeof text - 1; len++) {
        char *copy = malloc(len + 1); /* its end is the end of the heap block */
        assert_non_null(copy);
        memcpy(copy, text, len);
        assert_int_equal(kt__json_parse(&arena, copy, len, &v, &err), KT_E_FORMAT);
        free(copy);
    }
    for (size_t i = 0; i < sizeof text - 1; i++) {
        for (int bit = 0; bit < 8; bit++) {
            char copy[sizeof text];
            memcpy(copy, text, sizeof text);
            copy[i] = (char)(copy[i] ^ (1 << bit));
            kt_status status = kt__json_parse(&arena, copy, sizeof text - 1, &v, &err);
            assert_true(status == KT_OK || status == KT_E_FORMAT);
        }
    }
}

static void test_memory_cap(void **state) {
    (void)state;
    static const char text[] = "{\"a\": [1, \"\\n\", {\"b\": 12345678901234567890}]}";
    kt_status status = KT_E_NOMEM;
    for (size_t cap = 0; status != KT_OK; cap += 8) {
        kt__arena small;
        kt__jv v;
        kt__arena_init(&small, 64, cap);
        status = kt__json_parse(&small, text, sizeof text - 1, &v, NULL);
        assert_true(status == KT_OK || status == KT_E_NOMEM);
        kt__arena_free(&small);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scalars, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_containers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated_and_flipped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_cap, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
