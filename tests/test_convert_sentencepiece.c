/* convert: tokenizer.model, good and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "convert/sentencepiece.h"
#include "tokenizer/tokenizer.h"

/* two pieces ("<s>" control, "\u2581a" -1.5), a trainer that says BPE, a normaliser without prefix;
 * fields that are not read stand between */
static const char good[] = "\x0a\x07\x0a\x03<s>\x18\x03"
                           "\x0a\x0b\x0a\x04\xe2\x96\x81"
                           "a\x15\x00\x00\xc0\xbf"
                           "\x12\x06\x18\x02\x50\x80\x80\x01"
                           "\x1a\x08\x0a\x02id\x18\x00\x20\x00"
                           "\x79\x01\x02\x03\x04\x05\x06\x07\x08\x7d\x01\x02\x03\x04";

static kt__arena arena;
static kt_error err;

static kt_status parse(const void *data, size_t n, kt__sp_model *m) {
    kt__arena_reset(&arena);
    return kt__sp_parse(data, n, "tokenizer.model", &arena, m, &err);
}

static void test_good(void **state) {
    (void)state;
    kt__sp_model m;
    assert_int_equal(parse(good, sizeof good - 1, &m), KT_OK);
    assert_int_equal(m.n, 2);
    assert_int_equal(m.model_type, KT__SP_BPE);
    assert_false(m.add_dummy_prefix || m.remove_extra_whitespaces);
    assert_int_equal(m.pieces[0].type, KT__TOK_CONTROL);
    assert_memory_equal(m.pieces[0].text.s, "<s>", 3);
    assert_int_equal(m.pieces[1].type, KT__TOK_NORMAL);
    assert_true(m.pieces[1].score == -1.5f);
}

/* Copies end at the end of their block, so that a byte too many is seen by the sanitizer. */
static void test_cut_and_changed(void **state) {
    (void)state;
    kt__sp_model m;
    for (size_t n = 0; n < sizeof good - 1; n++) {
        char *copy = malloc(n ? n : 1);
        memcpy(copy, good, n);
        kt_status status = parse(copy, n, &m);
        assert_true(status == KT_OK || (status == KT_E_FORMAT && err.offset <= n));
        free(copy);
    }
    for (size_t i = 0; i < sizeof good - 1; i++) {
        for (int b = 0; b < 256; b++) {
            char *copy = malloc(sizeof good - 1);
            memcpy(copy, good, sizeof good - 1);
            copy[i] = (char)b;
            kt_status status = parse(copy, sizeof good - 1, &m);
            assert_true(status == KT_OK || status == KT_E_FORMAT);
            free(copy);
        }
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *say;
    } cases[] = {
        {"", 0, "no pieces"},
        {"\x0a\x02\x18\x09", 4, "unknown type"},
        {"\x0a\x05\x15\x00\x00\x80\x7f", 7, "not finite"},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "longer than"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "over 64 bits"},
        {"\x0b", 1, "unknown form"},
        {"\x02\x00", 2, "without a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__sp_model m;
        assert_int_equal(parse(cases[i].bytes, cases[i].n, &m), KT_E_FORMAT);
        if (!strstr(err.message, cases[i].say)) fail_msg("case %zu: %s", i, err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good),
                                       cmocka_unit_test(test_cut_and_changed),
                                       cmocka_unit_test(test_refusals)};
    kt__arena_init(&arena, 1 << 16, 1 << 24);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kt__arena_free(&arena);
    return failed;
}
