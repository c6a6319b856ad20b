/* JSON as it is written: the white space between its parts, and objects that have their declared
 * members alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "grammar/grammar.h"

static kt__grammar *written(const char *schema, kt__glayout layout, bool closed) {
    const kt__grammar_source source = {.kind = KT__GRAMMAR_SCHEMA,
                                       .text = schema,
                                       .len = strlen(schema),
                                       .layout = layout,
                                       .ordered = true,
                                       .closed = closed};
    kt__grammar *g = NULL;
    kt_error err = {0};
    if (kt__grammar_create(&source, &g, NULL, &err) != KT_OK)
        fail_msg("%s: %s", schema, err.message);
    return g;
}

static bool takes(kt__grammar *g, const char *text) {
    kt__gstate s;
    size_t n = strlen(text);
    kt__grammar_start(g, &s);
    return kt__grammar_feed(g, &s, text, &n) && kt__grammar_accepts(g, &s);
}

/* ---- white space ---- */

typedef struct layout_case {
    const char *text;
    bool usual, none, any;
} layout_case;

static const layout_case layouts[] = {
    {"{\"a\":1,\"b\":[1,2]}", true, true, true},
    {"{\"a\": 1, \"b\": [1, 2]}", true, false, true},
    {"{\"a\": 1,\"b\":[1, 2]}", true, false, true},
    {"{ \"a\": 1, \"b\": [ 1, 2 ] }", true, false, true},
    {"{\"a\": 1 }", false, false, true}, /* no space after the brace */
    {"{\"a\" : 1}", false, false, true},
    {"{\"a\":  1}", false, false, false},
    {"{\"a\":\n1}", false, false, true},
    {"{\"a\": 1,\n\"b\": 2}", false, false, true}, /* the first member is on the brace's line */
    {"{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ]\n}", true, false, true},
    {"{\n\t\"a\": 1,\n\t\"b\": [\n\t\t1,\n\t\t2\n\t]\n}", true, false, true},
    {"{\n\"a\": 1,\n\"b\": [1, 2]\n}", true, false, true},
    {"{\n  \"a\": 1,\n  \"b\": [1, 2]\n}", true, false, true},
    {"{\n  \"a\": 1, \"b\": 2}", true, false, true},
    {"{\n  \"a\": 1,\n   \"b\": 2\n}", false, false, true}, /* another indent */
    {"{\n  \"a\": 1,\n\t\"b\": 2\n}", false, false, true},
    {"{\n  \"a\": [\n      1\n  ]\n}", false, false, true},
    {"{\n  \"a\": 1\n  }", false, false, true},
    {"{\n  \"a\": 1\n\n}", false, false, false},
    {"{\n         \"a\": 1\n}", false, false, true}, /* nine spaces */
    {"{\n        \"a\": 1\n}", true, false, true},
    {"[{\n  \"a\": 1\n}, {\n  \"a\": 2\n}]", true, false, true},
    {"{}", true, true, true},
    {"{ }", false, false, true},
    {"{\n}", false, false, true},
    {" {}", false, false, true},
    {"{} ", false, false, false},
};

static void test_layouts(void **state) {
    (void)state;
    kt__grammar *usual = written("true", KT__LAYOUT_USUAL, true);
    kt__grammar *none = written("true", KT__LAYOUT_NONE, true);
    kt__grammar *any = written("true", KT__LAYOUT_ANY, true);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const layout_case *c = &layouts[i];
        if (takes(usual, c->text) != c->usual) fail_msg("usual: %s", c->text);
        if (takes(none, c->text) != c->none) fail_msg("none: %s", c->text);
        if (takes(any, c->text) != c->any) fail_msg("any: %s", c->text);
    }
    kt__grammar_free(usual);
    kt__grammar_free(none);
    kt__grammar_free(any);
}

static uint32_t roll(uint32_t *random, uint32_t n) {
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 8) % n;
}

/* Wherever a text has come to, it can end; and white space ends by itself. */
static void walk_layout(kt__grammar *g, const char *schema, uint32_t *random) {
    static const char bytes[] = "{[\"\":,,}]ab1t \n\t \n";
    kt__gstate s;
    char text[400], rest[4096];
    size_t n = 0, blanks = 0, n_rest;
    kt__grammar_start(g, &s);
    while (n < sizeof text - 1) {
        bool blank_first = roll(random, 2);
        kt__gstate next = s;
        char b = bytes[roll(random, sizeof bytes - 1)];
        size_t one = 1;
        if (blank_first) b = "\n \t"[roll(random, 3)];
        bool blank = b == ' ' || b == '\n' || b == '\t';
        if (roll(random, 60) == 0) break;
        if (!kt__grammar_feed(g, &next, &b, &one)) continue;
        blanks = blank ? blanks + 1 : 0;
        if (blanks > 140) fail_msg("%s: blanks without an end", schema);
        s = next;
        text[n++] = b;
    }
    text[n] = '\0';
    if (!kt__grammar_finish(g, &s, rest, sizeof rest, &n_rest))
        fail_msg("%s: no way to the end of %s", schema, text);
    if (!kt__grammar_feed(g, &s, rest, &n_rest) || !kt__grammar_accepts(g, &s))
        fail_msg("%s: %s is not an end of %s", schema, rest, text);
}

static void test_walks(void **state) {
    (void)state;
    static const char *const schemas[] = {
        "{\"type\":[\"object\",\"array\"],\"maxProperties\":2,\"maxItems\":2}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{\"b\":{"
        "\"type\":\"array\",\"items\":{\"enum\":[1,11]},\"uniqueItems\":true}},\"required\":[\"b\"]},"
        "\"ab\":{\"maxProperties\":0,\"type\":\"object\"}},\"required\":[\"ab\"]}",
        "{\"type\":\"array\",\"minItems\":1,\"maxItems\":3,\"items\":{\"type\":\"array\","
        "\"maxItems\":0}}",
        "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}",
    };
    uint32_t random = 7;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        for (int k = 0; k < 400; k++) {
            kt__grammar *g = written(schemas[i], KT__LAYOUT_USUAL, k % 2);
            walk_layout(g, schemas[i], &random);
            kt__grammar_free(g);
        }
}

/* ---- closed objects ---- */

#define A "\"a\":{\"type\":\"integer\"}"
#define B "\"b\":{\"type\":\"integer\"}"

typedef struct closed_case {
    const char *schema, *text;
    bool open, closed; /* whether it is taken */
} closed_case;

static const closed_case closed_cases[] = {
    {"{\"properties\":{" A "}}", "{\"a\":1,\"x\":2}", true, false},
    {"{\"properties\":{" A "}}", "{\"a\":1}", true, true},
    {"{\"properties\":{}}", "{\"x\":1}", true, false},
    {"{\"type\":\"object\"}", "{\"x\":1}", true, true},
    {"{\"properties\":{" A "},\"additionalProperties\":true}", "{\"x\":1}", true, true},
    {"{\"properties\":{" A "},\"additionalProperties\":{\"type\":\"string\"}}", "{\"x\":\"y\"}",
     true, true},
    {"{\"properties\":{" A "},\"patternProperties\":{\"^x\":true}}", "{\"xy\":1}", true, true},
    {"{\"properties\":{" A "},\"patternProperties\":{\"^x\":true}}", "{\"y\":1}", true, false},
    /* members of what applies to the same value */
    {"{\"properties\":{" A "},\"allOf\":[{\"properties\":{" B "}}]}", "{\"a\":1,\"b\":2}", true,
     true},
    {"{\"properties\":{" A "},\"allOf\":[{\"properties\":{" B "}}]}", "{\"x\":1}", true, false},
    {"{\"properties\":{" A "},\"anyOf\":[{\"properties\":{" B "}},{\"required\":[\"c\"]}]}",
     "{\"a\":1,\"b\":2,\"c\":3}", true, true},
    {"{\"properties\":{" A "},\"anyOf\":[{\"properties\":{" B "}},{\"required\":[\"c\"]}]}",
     "{\"x\":1}", true, false},
    {"{\"oneOf\":[{\"properties\":{" A "},\"required\":[\"a\"]},{\"properties\":{" B
     "},\"required\":[\"b\"]}]}",
     "{\"b\":1}", true, true},
    {"{\"oneOf\":[{\"properties\":{" A "},\"required\":[\"a\"]},{\"properties\":{" B
     "},\"required\":[\"b\"]}]}",
     "{\"b\":1,\"x\":1}", true, false},
    /* what fits both alternatives does not fit one alone, however they are narrowed */
    {"{\"oneOf\":[{\"properties\":{" A "}},{\"properties\":{" B "}}]}", "{\"a\":1}", false, false},
    {"{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"properties\":{" A
     ",\"next\":{\"$ref\":\"#/$defs/n\"}}}}}",
     "{\"next\":{\"a\":1,\"x\":1}}", true, false},
    {"{\"$defs\":{\"n\":{\"properties\":{" A "}}},\"properties\":{\"p\":{\"$ref\":\"#/$defs/n\"},"
     "\"q\":{\"allOf\":[{\"$ref\":\"#/$defs/n\"},{\"properties\":{" B "}}]}}}",
     "{\"q\":{\"a\":1,\"b\":2}}", true, true},
    {"{\"$defs\":{\"n\":{\"properties\":{" A "}}},\"properties\":{\"p\":{\"$ref\":\"#/$defs/n\"},"
     "\"q\":{\"allOf\":[{\"$ref\":\"#/$defs/n\"},{\"properties\":{" B "}}]}}}",
     "{\"p\":{\"a\":1,\"b\":2}}", true, false},
    /* a list's items, and one of several classes */
    {"{\"items\":{\"anyOf\":[{\"properties\":{" A "}},{\"type\":\"null\"}]}}", "[{\"a\":1},null]",
     true, true},
    {"{\"items\":{\"anyOf\":[{\"properties\":{" A "}},{\"type\":\"null\"}]}}", "[{\"x\":1}]", true,
     false},
    {"{\"anyOf\":[{\"properties\":{" A "},\"required\":[\"a\"]},{\"properties\":{" B
     "},\"required\":[\"b\"]}]}",
     "{\"a\":1,\"b\":1}", true, false},
    /* what must not be is not narrowed */
    {"{\"not\":{\"properties\":{\"a\":{\"properties\":{" B "}}}}}", "{\"a\":{\"x\":1}}", false,
     false},
    {"{\"if\":{\"properties\":{\"a\":{\"properties\":{" B "}}}},\"then\":{\"required\":[\"c\"]}}",
     "{\"a\":{\"x\":1}}", false, false},
    /* nothing would fit: others may come */
    {"{\"properties\":{" A "},\"minProperties\":2}", "{\"a\":1,\"x\":1}", true, true},
    {"{\"properties\":{" A "},\"required\":[\"x\"]}", "{\"a\":1,\"x\":1}", true, true},
    {"{\"properties\":{" A "},\"dependentRequired\":{\"a\":[\"x\"]}}", "{\"a\":1,\"x\":1}", true,
     true},
    {"{\"const\":{\"x\":1},\"properties\":{" A "}}", "{\"x\":1}", true, true},
};

static void test_closed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof closed_cases / sizeof *closed_cases; i++) {
        const closed_case *c = &closed_cases[i];
        for (int closed = 0; closed < 2; closed++) {
            kt__grammar *g = written(c->schema, KT__LAYOUT_NONE, closed);
            if (takes(g, c->text) != (closed ? c->closed : c->open))
                fail_msg("%s, %s: %s", closed ? "closed" : "open", c->schema, c->text);
            kt__grammar_free(g);
        }
    }
}

/* ---- schemas that no value fits ---- */

static void test_impossible(void **state) {
    (void)state;
#define GHOST(more)                                                                                 \
    "{\"type\":\"object\",\"properties\":{\"x\":{}},\"required\":[\"y\"],\"additionalProperties\":" \
    "false" more "}"
    static const struct {
        const char *schema, *place; /* where it is refused; NULL: it is taken */
    } cases[] = {
        {GHOST(""), "/required"},
        {GHOST(",\"patternProperties\":{\"^y\":{}}"), NULL},
        {"{\"type\":\"object\",\"properties\":{\"a\":" GHOST("") "},\"required\":[\"a\"]}",
         "/properties/a/required"},
        {"{\"type\":\"object\",\"properties\":{\"a\":" GHOST("") ",\"b\":{\"type\":\"null\"}}}",
         NULL},
        {"{\"type\":\"array\",\"items\":" GHOST("") ",\"minItems\":1}", "/items/required"},
        {"{\"type\":\"array\",\"items\":" GHOST("") "}", NULL},
        {"{\"anyOf\":[" GHOST("") ",{\"type\":\"null\"}]}", NULL},
        {"{\"anyOf\":[" GHOST("") "," GHOST("") "]}", "/anyOf/0/required"},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":" GHOST("") "}}", "/$defs/a/required"},
        {"{\"type\":\"object\",\"required\":[\"y\"],\"allOf\":[{\"properties\":{\"x\":{}},"
         "\"additionalProperties\":false}]}",
         "/required"},
        {"{\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}", "/required"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
         NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kt__grammar_source source = {.kind = KT__GRAMMAR_SCHEMA,
                                           .text = cases[i].schema,
                                           .len = strlen(cases[i].schema),
                                           .closed = true};
        kt__grammar *g = NULL;
        kt__refusal why = {0};
        kt_error err;
        kt_status status = kt__grammar_create(&source, &g, &why, &err);
        assert_int_equal(status, cases[i].place ? KT_E_UNSUPPORTED : KT_OK);
        if (cases[i].place) assert_string_equal(why.pointer, cases[i].place);
        kt__grammar_free(g);
        /* to judge by, it is a schema like others */
        kt__grammar_free(written(cases[i].schema, KT__LAYOUT_NONE, false));
    }
#undef GHOST
}

/* What cannot be is never begun where the value may do without it. */
static void test_impossible_member_is_left_out(void **state) {
    (void)state;
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{},"
        "\"required\":[\"y\"],\"additionalProperties\":false},\"b\":{\"type\":\"null\"}}}";
    kt__grammar *g = written(schema, KT__LAYOUT_NONE, true);
    kt__gstate s;
    kt__grammar_start(g, &s);
    size_t n = 3;
    assert_false(kt__grammar_feed(g, &s, "{\"a", &n));
    assert_true(takes(g, "{\"b\":null}"));
    kt__grammar_free(g);
}

/* What is expected has the blanks that the text began with. */
static void test_expected(void **state) {
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{\"a\": 1,", " \"b\":"},
        {"{\"a\": 1, \"b\": \"x\"", ", \"c\": "},
        {"{\n  \"a\": 1,", "\n  \"b\":"},
        {"{\n  \"a\": 1, ", "\"b\":"},
        {"{\n\t\"a\": 1,\n\t\"b\": null,", "\n\t\"c\": "},
        {"{\n  \"a\": 1,\n  \"b\": \"x\",\n  \"c\": 4.5", ""},
    };
    kt__grammar *g = written(
        "{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":[\"string\",\"null\"]},"
        "\"c\":{\"type\":\"number\"}},\"required\":[\"a\",\"b\",\"c\"],"
        "\"additionalProperties\":false,\"type\":\"object\"}",
        KT__LAYOUT_USUAL, true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        kt__gstate s;
        size_t n = strlen(cases[i].text);
        kt__grammar_start(g, &s);
        bool fits = kt__grammar_feed(g, &s, cases[i].text, &n);
        size_t len = fits ? kt__grammar_expected(g, &s, out, sizeof out) : 0;
        if (len != strlen(cases[i].expected) || memcmp(out, cases[i].expected, len) != 0)
            fail_msg("%s: expected %.*s", cases[i].text, (int)len, out);
    }
    kt__grammar_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expected),   cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_walks),      cmocka_unit_test(test_closed),
        cmocka_unit_test(test_impossible), cmocka_unit_test(test_impossible_member_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
