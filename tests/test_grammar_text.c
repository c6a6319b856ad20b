/* GBNF grammars, regular expressions and choices as constraints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "grammar_fixture.h"

static void test_grammars(void **state) {
    (void)state;
    check_texts(KT__GRAMMAR_GBNF, "root ::= \"a\" (\"b\" | [0-9]+)? # end\n",
                TEXTS("a", "ab", "a42"), TEXTS("", "b", "abb", "a4b"));
    check_texts(
        KT__GRAMMAR_GBNF,
        "root ::= expr\nexpr ::= term (\"+\" term)*\nterm ::= \"(\" expr \")\" | [a-z]{1,3}\n",
        TEXTS("a+b", "((abc)+x)", "(a+(b+c))"), TEXTS("(", "a+", "abcd", "(a))"));
    check_texts(KT__GRAMMAR_GBNF,
                "root ::= item\n  | item \", \" root\nitem ::= \"\\u00e9\" [^x]\n",
                TEXTS("\xc3\xa9y", "\xc3\xa9\xe2\x82\xac, \xc3\xa9z"),
                TEXTS("\xc3\xa9x", "ey", "\xc3\xa9\x80"));
    check_texts(KT__GRAMMAR_GBNF, "root ::= \"x\"{20,1000}", TEXTS("xxxxxxxxxxxxxxxxxxxx"),
                TEXTS("xxxxxxxxxxxxxxxxxxx", "y"));
}

static kt_status status_of(kt__grammar_kind kind, const char *text) {
    kt__grammar *g = NULL;
    kt_error err = {0};
    kt_status status = compile_text(kind, text, &g, NULL, &err);
    kt__grammar_free(g);
    return status;
}

static void test_bad_grammars(void **state) {
    (void)state;
    static const char *const malformed[] = {"",
                                            "root",
                                            "root ::= other\n",
                                            "root ::= \"a",
                                            "root ::= [a",
                                            "root ::= (\"a\"",
                                            "root ::= \"a\"{3,1}",
                                            "x ::= \"a\"",
                                            "root ::= root2\nroot2 ::= \"a\" root2"};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        if (status_of(KT__GRAMMAR_GBNF, malformed[i]) != KT_E_FORMAT) fail_msg("%s", malformed[i]);
    assert_int_equal(status_of(KT__GRAMMAR_GBNF, "root ::= root \"a\" | \"b\""), KT_E_UNSUPPORTED);
    assert_int_equal(status_of(KT__GRAMMAR_GBNF, "root ::= a\na ::= \"x\"? b\nb ::= a | \"y\""),
                     KT_E_UNSUPPORTED);
}

static void test_patterns(void **state) {
    (void)state;
    check_texts(KT__GRAMMAR_REGEX, "(\\w+)@[a-z]{2,}\\.(com|org)", TEXTS("a_1@bc.com"),
                TEXTS("a@b.com", "a@bc.net", "a@bc.com "));
    check_texts(KT__GRAMMAR_REGEX, "^\\p{Lu}\\S*(?=!).$", TEXTS("\xc3\x84rger!", "A!"),
                TEXTS("a!", "A"));
    check_texts(KT__GRAMMAR_REGEX, "a{2,3}b??[^\\d\\s]|", TEXTS("", "aax", "aaabx"),
                TEXTS("ax", "aa1"));
    assert_int_equal(status_of(KT__GRAMMAR_REGEX, "(a"), KT_E_FORMAT);
    assert_int_equal(status_of(KT__GRAMMAR_REGEX, "[b-a]"), KT_E_FORMAT);
    assert_int_equal(status_of(KT__GRAMMAR_REGEX, "(a)\\1"), KT_E_UNSUPPORTED);
    assert_int_equal(status_of(KT__GRAMMAR_REGEX, "(?<=a)b"), KT_E_UNSUPPORTED);
    assert_int_equal(status_of(KT__GRAMMAR_REGEX, "a(?!a)(?=a)"), KT_E_UNSUPPORTED); /* no text */
}

static void test_choice(void **state) {
    (void)state;
    const kt__gtext texts[] = {{"yes", 3}, {"no", 2}, {"yesterday", 9}, {"no", 2}};
    const kt__grammar_source source = {.kind = KT__GRAMMAR_CHOICE, .texts = texts, .n_texts = 4};
    kt__grammar *g;
    kt__gstate s;
    char out[16];
    size_t n = 1;
    assert_int_equal(kt__grammar_create(&source, &g, NULL, NULL), KT_OK);
    assert_true(fits(g, "yes") && fits(g, "no") && fits(g, "yesterday"));
    assert_false(fits(g, "yest") || fits(g, "") || fits(g, "nob"));
    kt__grammar_start(g, &s);
    assert_true(kt__grammar_feed(g, &s, "y", &n));
    assert_int_equal(kt__grammar_expected(g, &s, out, sizeof out), 2);
    assert_memory_equal(out, "es", 2);
    kt__grammar_free(g);
}

static void test_any_object(void **state) {
    (void)state;
    const kt__grammar_source source = {.kind = KT__GRAMMAR_JSON_OBJECT, .layout = KT__LAYOUT_ANY};
    kt__grammar *g;
    assert_int_equal(kt__grammar_create(&source, &g, NULL, NULL), KT_OK);
    assert_true(fits(g, "{}") &&
                fits(g, "{\"a\": [1, {\"b\": \"\\u00fc\xf0\x9f\x98\x80\"}], \"c\": null}"));
    assert_false(fits(g, "[]") || fits(g, "{\"a\":1} ") || fits(g, "{\"a\":\"\xc3\"}") ||
                 fits(g, "{  }"));
    kt__grammar_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammars),   cmocka_unit_test(test_bad_grammars),
        cmocka_unit_test(test_patterns),   cmocka_unit_test(test_choice),
        cmocka_unit_test(test_any_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
