/* convert: JSON read where it lies takes what jansson takes, and the largest files of each kind are refused by their size or
 * by how much they list, before anything is built of them. */
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
#include "convert/sentencepiece.h"
#include "convert/vocab.h"

static kt_error err;

/* ---- strings and numbers ---- */

static bool scan_text(char *text, kt__str *out) {
    kt__json_scan s = {text, text + strlen(text), NULL};
    return kt__json_scan_text(&s, out) && s.at == s.end;
}

static void test_strings_are_janssons(void **state) {
    (void)state;
    static const char *const cases[] = {"\"\"",
                                        "\"plain\"",
                                        "\"a\\n\\t\\r\\b\\f\\\\\\/\\\"b\"",
                                        "\"\\u00e9\\u20ac\\ud83d\\ude00x\"",
                                        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
                                        "\"\\ud83d\"",
                                        "\"\\ude00\"",
                                        "\"\\ud83dx\"",
                                        "\"\\ud83d\\u0041\"",
                                        "\"\\u0000\"",
                                        "\"\\u12\"",
                                        "\"\\x\"",
                                        "\"\\",
                                        "\"",
                                        "\"a",
                                        "\"a\nb\"",
                                        "\"\x01\"",
                                        "\"\xff\"",
                                        "\"\xc3\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\xc0\x80\"",
                                        "\"\xf4\x90\x80\x80\""};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = kt__strdup(cases[i]);
        kt__str got;
        json_t *want = json_loads(cases[i], JSON_DECODE_ANY, NULL);
        bool good = scan_text(text, &got);
        if (good != (want != NULL)) fail_msg("case %zu", i);
        if (good) {
            assert_int_equal(got.len, json_string_length(want));
            assert_memory_equal(got.s, json_string_value(want), got.len + 1);
        }
        json_decref(want);
        kt__free(text);
    }
}

static void test_numbers_are_janssons(void **state) {
    (void)state;
    static const char *const cases[] = {"0",   "-0",   "1",    "-12", "1.5",   "-1.25e-3",
                                        "1e5", "2E+1", "01",   "1.",  ".5",    "-",
                                        "1e",  "+1",   "0x10", "",    "1e5.2", "nan"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[16];
        double got;
        bool whole;
        snprintf(text, sizeof text, "%s", cases[i]);
        kt__json_scan s = {text, text + strlen(text), NULL};
        json_t *want = json_loads(cases[i], JSON_DECODE_ANY, NULL);
        bool good = kt__json_scan_number(&s, &got, &whole) && s.at == s.end;
        if (good != (want != NULL)) fail_msg("case %zu", i);
        if (good) assert_true(got == json_number_value(want) && whole == json_is_integer(want));
        json_decref(want);
    }
}

static void test_sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t size;
    } cases[] = {{"0", true, 0},
                 {"9223372036854775807", true, INT64_MAX},
                 {"9223372036854775808", false, 0},
                 {"99999999999999999999", false, 0},
                 {"-1", false, 0},
                 {"1.0", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[24];
        uint64_t size = 0;
        snprintf(text, sizeof text, "%s", cases[i].text);
        kt__json_scan s = {text, text + strlen(text), NULL};
        assert_int_equal(kt__json_scan_size(&s, &size), cases[i].good);
        if (cases[i].good) assert_true(size == cases[i].size);
    }
}

/* ---- a tokenizer.json in parts ---- */

static kt_status parse_text(kt__vocab *v, char *text, size_t len) {
    kt__vocab_init(v, ".");
    kt__vocab_hold(v, text);
    err = (kt_error){0};
    return kt__vocab_parse_tokenizer(v, text, len, "tokenizer.json", &err);
}

static void test_lists_are_taken_out(void **state) {
    (void)state;
    static const char text[] =
        "{\"a\":{\"vocab\":[1]},\"model\":{\"merges\":[\"a b\",[\"c\",\"d e\"]],\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1,\"\\u0063\":2,\"a\":7,\"x\":1.5}},\"z\":1}";
    kt__vocab v;
    assert_int_equal(parse_text(&v, kt__strdup(text), sizeof text - 1), KT_OK);
    assert_int_equal(v.n_listed, 4);
    assert_true(v.listed_ids && v.has_merges);
    assert_int_equal(kt__vocab_listed_id(&v, "a", 1), 7); /* the last of two equal keys */
    assert_int_equal(kt__vocab_listed_id(&v, "c", 1), 2);
    assert_int_equal(kt__vocab_listed_id(&v, "x", 1), -1);
    assert_int_equal(v.n_merges, 2);
    assert_string_equal(v.merge_parts[1].s + v.merge_parts[1].len, "");
    assert_memory_equal(v.merge_parts[3].s, "d e", 3);
    const json_t *model = json_object_get(v.tokenizer, "model");
    assert_true(json_is_null(json_object_get(model, "vocab")));
    assert_string_equal(json_string_value(json_object_get(model, "type")), "BPE");
    assert_int_equal(json_integer_value(json_object_get(v.tokenizer, "z")), 1);
    kt__vocab_free(&v);
}

static void test_places_are_of_the_whole(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t at;
    } cases[] = {{"{\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]},\"z\":x}", 49},
                 {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[7]}}", 43}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__vocab v;
        assert_int_equal(parse_text(&v, kt__strdup(cases[i].text), strlen(cases[i].text)),
                         KT_E_FORMAT);
        if (err.offset < cases[i].at - 2 || err.offset > cases[i].at + 2)
            fail_msg("case %zu: byte %llu: %s", i, (unsigned long long)err.offset, err.message);
        kt__vocab_free(&v);
    }
}

/* ---- what is refused before anything is built ---- */

/* head, then unit again and again up to `bytes`, then tail */
static char *repeat(const char *head, const char *unit, const char *tail, size_t bytes,
                    size_t *len) {
    size_t n_head = strlen(head), n_unit = strlen(unit), n = (bytes - n_head) / n_unit;
    char *text = kt__malloc(bytes + strlen(tail) + 1), *at = text;
    at = (char *)memcpy(at, head, n_head) + n_head;
    for (size_t i = 0; i < n; i++) at = (char *)memcpy(at, unit, n_unit) + n_unit;
    memcpy(at - (unit[n_unit - 1] == ','), tail, strlen(tail) + 1);
    *len = strlen(text);
    return text;
}

static void test_long_files_are_refused(void **state) {
    (void)state;
    enum { WHOLE = 48 << 20, REST = 8 << 20 };
    static const struct {
        const char *head, *unit, *tail;
        size_t bytes;
        const char *say;
    } cases[] = {
        {"{\"x\":[", "\"aaaaaaaa\",", "]}", WHOLE, "besides model.vocab and model.merges"},
        {"{\"x\":\"", "a", "\"}", WHOLE, "besides model.vocab and model.merges"},
        {"{\"x\":[", "1,", "]}", REST - 8, "over 699050 values"},
        {"{\"x\":[", "{},", "]}", REST - 8, "over 699050 values"},
        {"{\"model\":{\"merges\":[", "\"a b\",", "]}}", WHOLE, "over 1048576 merges"},
        {"{\"model\":{\"merges\":[", "[\"a\",\"b\"],", "]}}", WHOLE, "over 1048576 merges"},
        {"{\"model\":{\"vocab\":{", "\"a\":1,", "}}}", WHOLE, "over 1048576 tokens"},
        {"{\"model\":{\"vocab\":[", "[\"a\",-1.5],", "]}}", WHOLE, "over 1048576 tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__vocab v;
        size_t len;
        char *text = repeat(cases[i].head, cases[i].unit, cases[i].tail, cases[i].bytes, &len);
        assert_int_equal(parse_text(&v, text, len), KT_E_LIMIT);
        if (!strstr(err.message, cases[i].say)) fail_msg("case %zu: %s", i, err.message);
        kt__vocab_free(&v);
    }
}

static void test_pieces_are_counted(void **state) {
    (void)state;
    enum { N = (1 << 20) + 1 };
    char *data = kt__malloc(2 * N);
    kt__arena arena;
    kt__sp_model model;
    for (size_t i = 0; i < N; i++) memcpy(data + 2 * i, "\x0a", 2);
    kt__arena_init(&arena, 1 << 20, 512 << 20);
    assert_int_equal(kt__sp_parse(data, 2 * N, "f", &arena, &model, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "too many"));
    kt__arena_free(&arena);
    kt__free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_are_janssons),
        cmocka_unit_test(test_numbers_are_janssons),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_lists_are_taken_out),
        cmocka_unit_test(test_places_are_of_the_whole),
        cmocka_unit_test(test_long_files_are_refused),
        cmocka_unit_test(test_pieces_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
