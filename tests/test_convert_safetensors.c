/* convert: headers of safetensors, good, damaged and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "convert/safetensors.h"

static kt_error err;

static kt_status parse(const char *header, uint64_t data_bytes, kt__safetensors *st) {
    size_t n = strlen(header);
    return kt__safetensors_parse(header, n, 8 + n + data_bytes, "f.safetensors", st, &err);
}

#define A(shape, begin, end) \
    "\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]"

static void test_good(void **state) {
    (void)state;
    kt__safetensors st;
    const char *header = "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{" A(
        "[2,3]", "4",
        "28") "},"
              "\"a\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
              "\"empty\":{\"dtype\":\"F16\",\"shape\":[0,9],\"data_offsets\":[28,28]},"
              "\"c\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[2,4]}}   ";
    assert_int_equal(parse(header, 28, &st), KT_OK);
    assert_int_equal(st.n, 4);
    uint64_t at = 8 + strlen(header);
    assert_string_equal(st.tensors[0].name, "a");
    assert_int_equal(st.tensors[0].type, KT__TYPE_BF16);
    assert_string_equal(st.tensors[1].dtype, "F4");
    assert_int_equal(st.tensors[1].type, KT__TYPE_COUNT);
    assert_int_equal(st.tensors[2].begin, at + 4);
    assert_int_equal(st.tensors[2].end, at + 28);
    assert_int_equal(st.tensors[2].shape[1], 3);
    kt__safetensors_free(&st);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *header;
        uint64_t data_bytes;
        const char *say;
    } cases[] = {
        {"", 0, "does not begin"},
        {" {}", 0, "does not begin"},
        {"{\"a\":1}", 0, "an object of dtype"},
        {"{\"a\":{" A("[1]", "0", "4") "}", 4, "JSON"},
        {"{\"a\":{" A("[1]", "0", "4") "}}x", 4, "JSON"},
        {"{\"a\":{" A("[1]", "0", "4") "},\"a\":{" A("[1]", "4", "8") "}}", 8, "twice"},
        {"{\"a\":{" A("[1]", "0", "4") ",\"more\":1}}", 4, "an object of dtype"},
        {"{\"\":{" A("[1]", "0", "4") "}}", 4, "a name of"},
        {"{\"a\":{" A("[1]", "0", "8") "}}", 8, "but shape and dtype F32 need 32 bits"},
        {"{\"a\":{" A("[1]", "0", "4") "}}", 3, "are not inside"},
        {"{\"a\":{" A("[1]", "4", "0") "}}", 4, "are not inside"},
        {"{\"a\":{" A("[1]", "0", "4") "}}", 9, "belong to no tensor"},
        {"{\"a\":{" A("[1]", "2", "6") "}}", 6, "leaves a gap"},
        {"{\"a\":{" A("[2]", "0", "8") "},\"b\":{" A("[2]", "4", "12") "}}", 12, "overlaps"},
        {"{\"a\":{" A("[2]", "0", "8") "},\"b\":{" A("[2]", "0", "8") "}}", 8, "overlaps"},
        {"{\"a\":{" A("[-1]", "0", "4") "}}", 4, "list of at most 8 sizes"},
        {"{\"a\":{" A("[1.0]", "0", "4") "}}", 4, "list of at most 8 sizes"},
        {"{\"a\":{" A("[1,1,1,1,1,1,1,1,1]", "0", "4") "}}", 4, "at most 8 sizes"},
        {"{\"a\":{" A("[4294967296,4294967296]", "0", "0") "}}", 0, "overflows"},
        {"{\"a\":{" A("[9223372036854775807,2,2]", "0", "0") "}}", 0, "overflows"},
        {"{\"a\":{" A("[1]", "0", "-4") "}}", 4, "not a pair"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "not a pair"},
        {"{\"a\":{\"dtype\":\"Q4\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "unknown dtype 'Q4'"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not a string"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "need 12 bits"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__safetensors st;
        kt_status status = parse(cases[i].header, cases[i].data_bytes, &st);
        if (status != KT_E_FORMAT) fail_msg("case %zu: %s", i, kt_status_name(status));
        if (!strstr(err.message, cases[i].say)) fail_msg("case %zu: %s", i, err.message);
        assert_non_null(strstr(err.where, "f.safetensors"));
        assert_null(st.tensors);
    }
}

static void test_lengths(void **state) {
    (void)state;
    size_t n;
    const uint8_t two[8] = {2}, huge[8] = {255, 255, 255, 255, 255, 255, 255, 255},
                  large[8] = {1, 0, 0, 1};
    assert_int_equal(kt__safetensors_header_bytes(two, 10, "f", &n, &err), KT_OK);
    assert_int_equal(n, 2);
    assert_int_equal(kt__safetensors_header_bytes(two, 9, "f", &n, &err), KT_E_FORMAT);
    assert_int_equal(kt__safetensors_header_bytes(two, 7, "f", &n, &err), KT_E_FORMAT);
    assert_int_equal(kt__safetensors_header_bytes(huge, UINT64_MAX, "f", &n, &err), KT_E_FORMAT);
    assert_int_equal(kt__safetensors_header_bytes(large, 1 << 30, "f", &n, &err), KT_E_LIMIT);
}

/* Whatever one byte is changed to: refused, or every tensor lies inside the file. */
static void test_every_byte(void **state) {
    (void)state;
    static const char good[] = "{\"__metadata__\":{\"k\":\"v\"},\"a\":{" A(
        "[2,3]", "0", "24") "},\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]}}";
    static const char with[] = "\0 \"0129-,:[]{}eE.\\\xff";
    size_t n_good = 0;
    for (size_t i = 0; i + 1 < sizeof good; i++) {
        for (size_t k = 0; k + 1 < sizeof with; k++) {
            char header[sizeof good];
            kt__safetensors st;
            memcpy(header, good, sizeof good);
            header[i] = with[k];
            const size_t n = sizeof good - 1;
            kt_status status = kt__safetensors_parse(header, n, 8 + n + 32, "f", &st, &err);
            if (status != KT_OK) continue;
            n_good++;
            for (size_t t = 0; t < st.n; t++)
                assert_true(st.tensors[t].begin <= st.tensors[t].end &&
                            st.tensors[t].end <= 8 + n + 32);
            kt__safetensors_free(&st);
        }
    }
    assert_true(n_good > 0); /* a name may be another */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_lengths),
                                       cmocka_unit_test(test_every_byte)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
