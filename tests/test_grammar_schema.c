/* JSON Schema as a constraint: each keyword takes what it should and nothing else; what cannot be
 * enforced is refused with its place; hostile schemas end in a typed error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "grammar_fixture.h"
#include "support.h"

#define SCHEMA KT__GRAMMAR_SCHEMA

static void check(const char *schema, const char *const *yes, const char *const *no) {
    check_texts(SCHEMA, schema, yes, no);
}

static void test_types_and_values(void **state) {
    (void)state;
    check("{\"type\":[\"null\",\"boolean\"]}", TEXTS("null", "true", "false"),
          TEXTS("1", "\"\"", "nul"));
    check("{\"type\":\"integer\"}", TEXTS("0", "-12", "3.0"), TEXTS("3.5", "01", "--1", "1e2"));
    check("{\"enum\":[1,\"a\",[2],{\"k\":null}]}",
          TEXTS("1", "1.0", "\"a\"", "[2.0]", "{\"k\": null}"),
          TEXTS("2", "\"b\"", "[2, 2]", "[]", "{}", "{\"k\":null,\"l\":1}"));
    check("{\"const\":\"\\u00e9\\n\"}", TEXTS("\"\xc3\xa9\\n\""), TEXTS("\"e\\n\""));
    check("true", TEXTS("{}", "[1,\"x\",{\"a\":[]}]", "-1.5e-3"), TEXTS("", "{,}", "[1,]"));
}

static void test_numbers(void **state) {
    (void)state;
    check("{\"type\":\"integer\",\"minimum\":3,\"exclusiveMaximum\":120}",
          TEXTS("3", "9", "10", "119", "119.0"), TEXTS("2", "120", "-3", "0", "1190"));
    check("{\"type\":\"number\",\"multipleOf\":0.01,\"maximum\":1}", TEXTS("0.25", "1", "-7.1"),
          TEXTS("0.255", "1.01"));
    check("{\"minimum\":3,\"exclusiveMinimum\":true}", TEXTS("3.1", "\"\""), TEXTS("3"));
    check("{\"not\":{\"minimum\":0}}", TEXTS("-1", "-0.5"), TEXTS("0", "2", "{}"));
}

static void test_strings(void **state) {
    (void)state;
    check("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
          TEXTS("\"ab\"", "\"\xc3\xa4\xe2\x82\xac\\n\"", "\"\\u00e9\\ud83d\\ude00\""),
          TEXTS("\"a\"", "\"abcd\"", "\"\\ud83d\""));
    check("{\"pattern\":\"^[a-c]+(?:-\\\\d{2,3})?$\"}", TEXTS("\"abc\"", "\"a-12\"", "7"),
          TEXTS("\"abd\"", "\"a-1\"", "\"a-1234\""));
    check("{\"pattern\":\"^(?!x).*z$\"}", TEXTS("\"yz\"", "\"z\""), TEXTS("\"xz\"", "\"y\""));
    check("{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}],\"not\":{\"pattern\":\"c\"}}",
          TEXTS("\"xbya\""), TEXTS("\"abc\"", "\"a\""));
    check("{\"format\":\"date\"}", TEXTS("\"2024-02-29\""),
          TEXTS("\"2023-02-29\"", "\"2024-2-1\""));
    check("{\"format\":\"ipv6\"}", TEXTS("\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"::ffff:1.2.3.4\""),
          TEXTS("\"1:2\"", "\":::\""));
    check("{\"format\":\"regex\"}", TEXTS("\"a(b|[c-d])*\""), TEXTS("\"a(b\"", "\"*\""));
}

static void test_objects(void **state) {
    (void)state;
    check("{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"],"
          "\"additionalProperties\":{\"type\":\"null\"}}",
          TEXTS("{\"a\":1}", "{ \"b\": null, \"a\": 2 }", "{\n    \"a\": 1\n}"),
          TEXTS("{}", "{\"a\":\"x\"}", "{\"a\":1,\"b\":2}", "{\"a\":1,\"a\":2}",
                "{\"b\":null,\"b\":null,\"a\":1}"));
    check("{\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{\"minimum\":5}},"
          "\"additionalProperties\":false}",
          TEXTS("{\"x\":1,\"xy\":7,\"ay\":\"s\"}"),
          TEXTS("{\"xy\":3}", "{\"z\":1}", "{\"x\":1.5}"));
    check("{\"propertyNames\":{\"maxLength\":2},\"minProperties\":1,\"maxProperties\":2}",
          TEXTS("{\"ab\":1}", "{\"a\":1,\"b\":{}}"),
          TEXTS("{}", "{\"abc\":1}", "{\"a\":1,\"b\":1,\"c\":1}"));
    check("{\"dependentRequired\":{\"a\":[\"b\"]},\"dependentSchemas\":{\"c\":{\"properties\":{"
          "\"d\":{\"const\":1}}}}}",
          TEXTS("{}", "{\"a\":1,\"b\":2}", "{\"d\":2}", "{\"d\":1,\"c\":0}"),
          TEXTS("{\"a\":1}", "{\"d\":2,\"c\":0}"));
    check("{\"dependencies\":{\"a\":[\"b\"],\"c\":{\"required\":[\"d\"]}}}",
          TEXTS("{\"c\":1,\"d\":1}"), TEXTS("{\"a\":1}", "{\"c\":1}"));
    check("{\"not\":{\"required\":[\"a\"]}}", TEXTS("{\"b\":1}"), TEXTS("{\"b\":1,\"a\":2}"));
}

static void test_arrays(void **state) {
    (void)state;
    check("{\"prefixItems\":[{\"type\":\"string\"}],\"items\":{\"type\":\"integer\"},\"minItems\":"
          "1,\"maxItems\":3}",
          TEXTS("[\"a\"]", "[\"a\", 1, 2]"), TEXTS("[]", "[1]", "[\"a\",\"b\"]", "[\"a\",1,2,3]"));
    check("{\"items\":[{\"type\":\"string\"}],\"additionalItems\":false}", TEXTS("[]", "[\"a\"]"),
          TEXTS("[\"a\",1]"));
    check("{\"contains\":{\"const\":1},\"minContains\":2,\"maxContains\":2}",
          TEXTS("[1,0,1.0]", "{}"), TEXTS("[1]", "[1,1,1]"));
    check("{\"uniqueItems\":true}",
          TEXTS("[1,2]", "[{\"a\":1},{\"a\":2}]", "[\"1\",1]", "[1,true]"),
          TEXTS("[1,1.0]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]", "[\"\\u0061\",\"a\"]",
                "[[],[]]"));
}

static void test_combinations(void **state) {
    (void)state;
    check("{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", TEXTS("1", "2.5", "\"s\""),
          TEXTS("3", "1.5"));
    check("{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":\"null\"}},"
          "\"required\":[\"k\"]},"
          "{\"properties\":{\"k\":{\"const\":\"b\"},\"v\":{\"type\":\"integer\"}},\"required\":["
          "\"k\"]}]}",
          TEXTS("{\"k\":\"a\",\"v\":null}", "{\"v\":1,\"k\":\"b\"}"),
          TEXTS("{\"k\":\"c\"}", "{\"k\":\"a\",\"v\":1}", "{\"v\":null,\"k\":\"b\"}"));
    check("{\"if\":{\"properties\":{\"t\":{\"const\":1}},\"required\":[\"t\"]},\"then\":{"
          "\"required\":[\"u\"]},\"else\":{\"required\":[\"w\"]}}",
          TEXTS("{\"t\":1,\"u\":0}", "{\"w\":0,\"t\":2}"), TEXTS("{\"t\":1,\"w\":0}", "{\"u\":0}"));
    check("{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"next\":{\"anyOf\":[{\"$ref\":"
          "\"#/$defs/n\"},{\"type\":\"null\"}]}},"
          "\"required\":[\"next\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/n\"}",
          TEXTS("{\"next\":{\"next\":null}}"), TEXTS("{\"next\":{}}", "{\"next\":1}"));
}

static void test_unevaluated(void **state) {
    (void)state;
    check("{\"allOf\":[{\"properties\":{\"a\":{}}},{\"patternProperties\":{\"^x\":{}}}],"
          "\"properties\":{\"b\":{}},\"unevaluatedProperties\":{\"type\":\"null\"}}",
          TEXTS("{\"a\":1,\"b\":1,\"xy\":1,\"c\":null}"), TEXTS("{\"c\":1}"));
    check("{\"allOf\":[{\"properties\":{\"a\":{}}}],\"properties\":{\"a\":{},\"ab\":{}},"
          "\"unevaluatedProperties\":false}",
          TEXTS("{\"a\":1,\"ab\":2}"), TEXTS("{\"b\":1}"));
    check("{\"allOf\":[{\"prefixItems\":[{},{}]}],\"unevaluatedItems\":false}",
          TEXTS("[1,2]", "{}"), TEXTS("[1,2,3]"));
    check("{\"allOf\":[{\"additionalProperties\":true}],\"unevaluatedProperties\":false}",
          TEXTS("{\"a\":1}"), TEXTS("[}"));
}

/* A choice that is lost is seen at its first byte, not at the end of the string. */
static void test_no_dead_end(void **state) {
    (void)state;
    kt__grammar *g = must_compile(
        SCHEMA, "{\"anyOf\":[{\"properties\":{\"k\":{\"const\":\"ab\"}}},{\"properties\":{\"k\":{"
                "\"const\":\"ac\"}}}],"
                "\"required\":[\"k\"],\"additionalProperties\":false,\"properties\":{\"k\":{}}}");
    kt__gstate s;
    char out[32] = "";
    size_t n = 7;
    kt__grammar_start(g, &s);
    assert_true(kt__grammar_feed(g, &s, "{\"k\":\"x", &n) == false);
    assert_int_equal(n, 6);
    kt__grammar_start(g, &s);
    n = 2;
    assert_true(kt__grammar_feed(g, &s, "{\"", &n));
    assert_int_equal(kt__grammar_expected(g, &s, out, sizeof out), 2);
    assert_memory_equal(out, "k\"", 2);
    kt__grammar_free(g);
}

/* From behind a text that is taken, in the schema's order, there is a way to the end; of one that
 * is not, the first `at` bytes are taken. */
typedef struct way_case {
    const char *schema, *text;
    size_t at; /* 0: all */
} way_case;

#define EITHER                                                                           \
    "{\"type\":\"object\",\"properties\":{\"circle\":{\"type\":\"object\"},\"square\":{" \
    "\"type\":\"object\"},\"shape\":{\"enum\":[\"circle\",\"square\"]}},\"required\":["  \
    "\"shape\"],\"oneOf\":[{\"required\":[\"circle\"]},{\"required\":[\"square\"]}],"    \
    "\"additionalProperties\":false}"
#define NOTHING                                                                                \
    "{\"type\":\"object\",\"properties\":{\"a\":{\"not\":{\"type\":[\"array\",\"boolean\","    \
    "\"number\","                                                                              \
    "\"null\",\"object\",\"string\"]}},\"b\":{\"type\":\"string\"}},\"additionalProperties\":" \
    "false}"
#define NEEDS_ONE                                                                                  \
    "{\"type\":\"object\",\"required\":[\"a\"],\"dependencies\":{\"a\":{\"anyOf\":[{\"required\":" \
    "[\"b\"]},{\"required\":[\"c\"]}]},\"b\":{\"not\":{\"required\":[\"a\"]}}}}"

static const way_case ways[] = {
    {EITHER, "{\"shape\":\"circle\",", 0},
    {EITHER, "{\"circle\":{},\"shape\":\"square\"", 0},
    {EITHER, "{\"circle\":{},\"shape\":\"square\",\"", 29},
    {NOTHING, "{\"a", 2},
    {NOTHING, "{\"", 0},
    {NEEDS_ONE, "{\"a\":1,\"", 0},
    /* no byte leads to a character that does not fit, or to none */
    {"{\"type\":\"string\",\"pattern\":\"^g\"}", "\"\xe0", 1},
    {"{\"type\":\"string\",\"pattern\":\"^[^x]g$\"}", "\"\xe0", 0},
    {"{\"type\":\"string\",\"pattern\":\"^[^x]g$\"}", "\"\xed", 0},
    {"{\"type\":\"string\",\"pattern\":\"^[^x]g$\"}", "\"\xf4", 0},
    {"{\"type\":\"string\",\"pattern\":\"^[a-\u07ff]$\"}", "\"\xe0", 1},
    {"{\"type\":\"string\",\"pattern\":\"^[a-\uffff]$\"}", "\"\xf0", 1},
};

static void test_ways_end(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const way_case *c = &ways[i];
        const kt__grammar_source source = {.kind = SCHEMA,
                                           .text = c->schema,
                                           .len = strlen(c->schema),
                                           .layout = KT__LAYOUT_NONE,
                                           .ordered = true};
        kt__grammar *g = NULL;
        kt__gstate s;
        char out[256];
        size_t len = strlen(c->text), n = len, n_out;
        assert_int_equal(kt__grammar_create(&source, &g, NULL, NULL), KT_OK);
        kt__grammar_start(g, &s);
        bool taken = kt__grammar_feed(g, &s, c->text, &n);
        if (taken != (c->at == 0) || (!taken && n != c->at)) fail_msg("%s: %zu", c->text, n);
        if (taken && !kt__grammar_finish(g, &s, out, sizeof out, &n_out))
            fail_msg("no way to the end of %s", c->text);
        kt__grammar_free(g);
    }
}

/* Near a name's greatest length no character is begun that would have no room. */
static void test_long_names_end(void **state) {
    static const char *const ends[] = {"\\uee88\":1}", "\\ud83d\\ude00\":1}", "\xe2\x82\xac\":1}",
                                       "\\n\":1}", "\":1}"};
    (void)state;
    kt__grammar *g = must_compile(SCHEMA, "{\"type\":\"object\"}");
    for (size_t n_x = 1000; n_x < 1060; n_x++)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            kt__gstate s;
            char text[1100] = "{\"";
            size_t n = n_x, one = 1, len = strlen(ends[i]);
            memset(text + 2, 'x', n_x);
            n += 2;
            kt__grammar_start(g, &s);
            if (!kt__grammar_feed(g, &s, text, &n)) continue;      /* too long already */
            if (!kt__grammar_feed(g, &s, ends[i], &one)) continue; /* not begun */
            if (!kt__grammar_feed(g, &s, ends[i] + 1, (n = len - 1, &n)))
                fail_msg("%zu letters, then %s", n_x, ends[i]);
        }
    kt__grammar_free(g);
}

static void refused(const char *schema, const char *pointer, const char *keyword) {
    kt__grammar *g = NULL;
    kt__refusal why;
    kt_error err = {0};
    kt_status status = compile_text(SCHEMA, schema, &g, &why, &err);
    if (status != KT_E_UNSUPPORTED || strcmp(why.pointer, pointer) != 0 ||
        strcmp(why.keyword, keyword) != 0)
        fail_msg("%s: %d at %s, %s: %s", schema, (int)status, why.pointer, why.keyword, why.why);
    assert_null(g);
}

static void test_refusals(void **state) {
    (void)state;
    refused("{\"properties\":{\"a/b\":{\"pattern\":\"(a)\\\\1\"}}}", "/properties/a~1b/pattern",
            "pattern");
    refused("{\"items\":{\"$ref\":\"http://elsewhere/x.json\"}}", "/items/$ref", "$ref");
    refused("{\"$ref\":\"#\"}", "/$ref", "$ref");
    refused("{\"anyOf\":[{\"properties\":{\"a\":{}}},{}],\"unevaluatedProperties\":false}",
            "/unevaluatedProperties", "unevaluatedProperties");
    refused("{\"format\":\"idn-hostname\"}", "/format", "format");
    refused("{\"type\":\"string\",\"enum\":[1]}", "", "");
}

static void test_malformed(void **state) {
    static const char *const schemas[] = {"",
                                          "{",
                                          "3",
                                          "{\"type\":\"strin\"}",
                                          "{\"minLength\":-1}",
                                          "{\"a\":1,\"a\":2}",
                                          "{\"required\":[1]}",
                                          "{\"properties\":[]}",
                                          "\xff"};
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        kt__grammar *g = NULL;
        kt_error err = {0};
        assert_int_equal(compile_text(SCHEMA, schemas[i], &g, NULL, &err), KT_E_FORMAT);
        assert_null(g);
    }
}

static void test_notes(void **state) {
    (void)state;
    kt__grammar *g = must_compile(SCHEMA, "{\"format\":\"topic\",\"$schema\":\"http://"
                                          "json-schema.org/draft-07/schema#\",\"prefixItems\":[]}");
    assert_non_null(strstr(kt__grammar_notes(g), "/format: not a known format"));
    assert_non_null(strstr(kt__grammar_notes(g), "/prefixItems: newer"));
    kt__grammar_free(g);
}

/* Random bytes of numbers and arrays: there is always one that fits until the text may end, and numbers
 * end by themselves. */
static void walk_numbers(kt__grammar *g, const char *schema, uint32_t *random) {
    static const char bytes[] = "0123456789.-[],00099";
    kt__gstate s;
    char text[1024];
    size_t n = 0;
    kt__grammar_start(g, &s);
    while (!kt__grammar_ended(g, &s) && n < sizeof text - 1) {
        size_t from = lcg(random) >> 8, i = 0, one = 1;
        for (; i < sizeof bytes - 1; i++) {
            kt__gstate next = s;
            text[n] = bytes[(from + i) % (sizeof bytes - 1)];
            if (kt__grammar_feed(g, &next, text + n, &one)) {
                s = next;
                break;
            }
            one = 1;
        }
        if (i == sizeof bytes - 1) break;
        n++;
    }
    text[n] = '\0';
    if (!kt__grammar_accepts(g, &s)) fail_msg("%s: no way on behind %s", schema, text);
}

static void test_numbers_end(void **state) {
    (void)state;
    static const char *const schemas[] = {
        "{\"type\":\"number\",\"minimum\":1,\"maximum\":9}",
        "{\"type\":\"number\",\"exclusiveMinimum\":1,\"exclusiveMaximum\":1.001}",
        "{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1e-25}",
        "{\"type\":\"number\",\"multipleOf\":0.125,\"minimum\":-1,\"maximum\":3}",
        "{\"type\":\"number\",\"multipleOf\":7,\"minimum\":1000,\"not\":{\"multipleOf\":14}}",
        "{\"type\":\"integer\",\"minimum\":-3,\"maximum\":12,\"not\":{\"enum\":[0,1,11]}}",
        "{\"enum\":[1,2.5,-0.125,100,1000000]}",
        "{\"type\":\"array\",\"items\":{\"enum\":[1,12,123,0.5,0.55]},\"uniqueItems\":true,"
        "\"minItems\":3}",
        "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":8,\"maximum\":12},"
        "\"uniqueItems\":true,\"minItems\":5}",
        "{\"type\":\"array\",\"items\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1,"
        "\"multipleOf\":0.25},\"uniqueItems\":true,\"minItems\":5}",
    };
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        for (int layout = 0; layout < 3; layout++) {
            const kt__grammar_source source = {.kind = SCHEMA,
                                               .text = schemas[i],
                                               .len = strlen(schemas[i]),
                                               .layout = (kt__glayout)layout};
            kt__grammar *g;
            assert_int_equal(kt__grammar_create(&source, &g, NULL, NULL), KT_OK);
            for (int k = 0; k < 60; k++) walk_numbers(g, schemas[i], &random);
            kt__grammar_free(g);
        }
}

/* What a compact number may not idle in: digits without an end, values spelled in another way. */
static void test_compact_numbers(void **state) {
    (void)state;
    static const struct {
        const char *schema, *text;
        bool fits;
    } cases[] = {
        {"{\"minimum\":1,\"maximum\":9}", "2.00000000000000", true},
        {"{\"minimum\":1,\"maximum\":9}", "2.000000000000000", false},
        {"{\"type\":\"number\"}", "0.12345678901234", true},
        {"{\"type\":\"number\"}", "0.123456789012345", false},
        {"{\"exclusiveMinimum\":0,\"maximum\":1e-25}", "0.00000000000000000000000001", true},
        {"{\"enum\":[1,2]}", "2", true},
        {"{\"enum\":[1,2]}", "2.0", false},
        {"{\"enum\":[1,0.25]}", "1.00", true},
        {"{\"enum\":[1,0.25]}", "0.250", false},
        {"{\"items\":{\"enum\":[1,12]},\"uniqueItems\":true}", "[1,12]", true},
        {"{\"items\":{\"enum\":[1,12]},\"uniqueItems\":true}", "[12,12]", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kt__grammar_source source = {.kind = SCHEMA,
                                           .text = cases[i].schema,
                                           .len = strlen(cases[i].schema),
                                           .layout = KT__LAYOUT_NONE};
        kt__grammar *g;
        assert_int_equal(kt__grammar_create(&source, &g, NULL, NULL), KT_OK);
        if (fits(g, cases[i].text) != cases[i].fits)
            fail_msg("%s: %s", cases[i].schema, cases[i].text);
        kt__grammar_free(g);
    }
}

/* count times piece between head and tail */
static char *repeated(const char *head, const char *piece, size_t count, const char *tail) {
    size_t h = strlen(head), n = strlen(piece), t = strlen(tail);
    char *s = malloc(h + n * count + t + 1);
    memcpy(s, head, h);
    for (size_t i = 0; i < count; i++) memcpy(s + h + i * n, piece, n);
    memcpy(s + h + n * count, tail, t + 1);
    return s;
}

static void limit(char *schema) {
    kt__grammar *g = NULL;
    kt_error err = {0};
    kt_status status = compile_text(SCHEMA, schema, &g, NULL, &err);
    assert_true(status == KT_E_LIMIT || status == KT_E_UNSUPPORTED);
    free(schema);
}

static void test_hostile(void **state) {
    (void)state;
    limit(repeated("", "{\"not\":", 200, "{}"));
    limit(repeated("{\"enum\":[", "123456,", 1500000, "1]}")); /* 10 MB */
    limit(repeated("{\"enum\":[", "7,", 100000, "1]}"));
    limit(repeated("{\"anyOf\":[", "{\"maxLength\":1},", 120000, "{}]}"));
    limit(repeated("{\"pattern\":\"", "(", 5000, "\"}"));
    limit(repeated("{\"pattern\":\"", "((a?){9}){9}|", 4000, "[\"}"));
    kt__grammar *g = must_compile(SCHEMA,
                                  "{\"pattern\":\"^(a|b)*a(a|b){40}c$\"}"); /* 2^40 states */
    kt__gstate s;
    char text[4000] = "\"";
    for (size_t i = 1; i < sizeof text; i++) text[i] = (char)('a' + (i * i % 7 & 1));
    size_t n = sizeof text;
    kt__grammar_start(g, &s);
    bool all = kt__grammar_feed(g, &s, text, &n);
    assert_true(all || kt__grammar_status(g) == KT_E_LIMIT);
    assert_true(kt__grammar_bytes_used(g) <= kt__grammar_bytes(g) &&
                kt__grammar_bytes(g) < 100u << 20);
    kt__grammar_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_and_values), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_strings),          cmocka_unit_test(test_objects),
        cmocka_unit_test(test_arrays),           cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_unevaluated),      cmocka_unit_test(test_no_dead_end),
        cmocka_unit_test(test_long_names_end),   cmocka_unit_test(test_numbers_end),
        cmocka_unit_test(test_compact_numbers),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_malformed),        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_hostile),          cmocka_unit_test(test_ways_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
