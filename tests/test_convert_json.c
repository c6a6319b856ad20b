/* convert: JSON files as Python reads them, and which byte an error names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "convert/json_file.h"

static kt_error err;

static json_t *parse(const char *text) {
    json_t *root;
    err = (kt_error){0};
    if (kt__folder_parse_json(text, strlen(text), "f.json", &root, &err) != KT_OK) return NULL;
    return root;
}

static double number_of(const char *text) {
    json_t *root = parse(text);
    assert_non_null(root);
    double value = json_number_value(json_object_get(root, "a"));
    json_decref(root);
    return value;
}

static void test_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"{\"a\": 1000000000000000019884624838656}", 1e30},
        {"{\"a\": -1000000000000000019884624838656, \"b\": 1}", -1e30},
        {"{\"a\":9223372036854775807}", 9223372036854775807.0},
        {"{\"a\":9223372036854775808}", 9223372036854775808.0},
        {"{\"a\":-9223372036854775809}", -9223372036854775809.0},
        {"{\"a\": Infinity}", 1.7976931348623157e308},
        {"{\"a\": -Infinity}", -1.7976931348623157e308},
        {"{\"a\":12345678901234567890123.5}", 12345678901234567890123.5},
        {"{\"a\":1, \"a\":2}", 2.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(number_of(cases[i].text) == cases[i].value);
    json_t *root = parse(
        "{\"a\":[NaN,1e5,9223372036854775807],\"b\":\"NaN 99999999999999999999\\\"9\"}");
    assert_non_null(root);
    assert_true(json_is_null(json_array_get(json_object_get(root, "a"), 0)));
    assert_true(json_is_integer(json_array_get(json_object_get(root, "a"), 2)));
    assert_string_equal(json_string_value(json_object_get(root, "b")),
                        "NaN 99999999999999999999\"9");
    json_decref(root);
}

/* A number of n digits as the value of "a". */
static json_t *parse_digits(size_t n) {
    char *text = malloc(n + 16);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '7', n);
    memcpy(text + 5 + n, "}", 2);
    json_t *root = parse(text);
    free(text);
    return root;
}

static void test_digits(void **state) {
    (void)state;
    json_t *root = parse_digits(400);
    assert_non_null(root);
    assert_true(json_number_value(json_object_get(root, "a")) > 1e308);
    json_decref(root);
    assert_null(parse_digits(10000));
    assert_int_equal(err.code, KT_E_LIMIT);
    assert_int_equal(err.offset, 5);
    assert_non_null(strstr(err.message, "a number of 10000 digits"));
}

static void test_places(void **state) {
    (void)state;
    assert_null(parse("{\"a\":Infinity,\"b\":NaN,\"c\":x}"));
    assert_int_equal(err.code, KT_E_FORMAT);
    assert_in_range(err.offset, 26, 28);
    assert_null(parse("{\"a\":NaNx}"));
    assert_null(parse("{\"a\":12345678901234567890123456789 5}"));
    assert_null(parse("{\"a\":\"\\"));
    assert_null(parse("[1]"));
    assert_non_null(strstr(err.message, "JSON object"));
    for (size_t i = 0; i < 40; i++) /* never beyond the text */
        assert_true(kt__json_numbers_origin("[NaN,NaN]", 9, i) <= 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
