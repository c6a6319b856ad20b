/* Calls written in every format: the constraint takes them, the parser reads them back; and what a
 * constraint refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "calls_roundtrip.h"

static const char tool_list[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"shop.order\",\"parameters\":{\"type\":"
    "\"object\","
    "\"$defs\":{\"size\":{\"enum\":[\"S\",\"M\",3]}},\"properties\":{\"item\":{\"type\":\"string\","
    "\"minLength\":1},\"count\":{\"type\":\"integer\",\"minimum\":1},\"size\":{\"$ref\":\"#/$defs/"
    "size\"},"
    "\"gift\":{\"type\":\"boolean\"},\"note\":{\"type\":[\"string\",\"null\"]},\"tags\":{\"type\":"
    "\"array\","
    "\"items\":{\"type\":\"string\"}},\"to\":{\"type\":\"object\",\"properties\":{\"city\":{"
    "\"type\":"
    "\"string\"},\"at\":{\"type\":\"array\",\"items\":{\"type\":\"number\"},\"minItems\":2,"
    "\"maxItems\":2}},"
    "\"required\":[\"city\"]},\"any\":{}},\"required\":[\"item\",\"count\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"shop.orders\"}},"
    "{\"name\":\"stop\",\"input_schema\":{\"type\":\"object\",\"properties\":{}}}]";

/* Calls of one answer, as {"name", "arguments"}. */
static const char *const answers[] = {
    "[{\"n\":\"shop.order\",\"a\":{\"item\":\"tea\",\"count\":2}}]",
    "[{\"n\":\"shop.order\",\"a\":{\"count\":12,\"item\":\"a \\\"b\\\" <c> "
    "'d',\\n\\te)]}\",\"gift\":true}}]",
    "[{\"n\":\"shop.order\",\"a\":{\"item\":\"\\u00e9\\ud83d\\ude00\",\"count\":1,\"size\":\"M\","
    "\"note\":null}}]",
    "[{\"n\":\"shop.order\",\"a\":{\"item\":\"x\",\"count\":1,\"tags\":[],\"any\":\"true "
    "story\"}}]",
    "[{\"n\":\"shop.order\",\"a\":{\"item\":\"\\n\",\"tags\":[\"a\",\"b, "
    "c\",\"[d]\"],\"count\":1,\"note\":\"\"}}]",
    "[{\"n\":\"shop.order\",\"a\":{\"item\":\"{}\",\"count\":1,\"to\":{\"city\":\"Oslo\",\"at\":[-"
    "1.5,2e3]}}}]",
    "[{\"n\":\"shop.orders\",\"a\":{}},{\"n\":\"stop\",\"a\":{}},{\"n\":\"shop.order\",\"a\":{"
    "\"item\":\"i\","
    "\"count\":1}}]",
};

static kt__tools *read_tools(const char *json) {
    kt__tools *tools;
    assert_int_equal(kt__tools_read(json, strlen(json), &tools, NULL), KT_OK);
    return tools;
}

static void check_answer(const kt__call_style *style, const kt__tools *tools, const char *json) {
    kt__arena arena;
    kt__json_node *root;
    kt__call_text calls[8];
    kt__buf text;
    size_t n = 0;
    kt__arena_init(&arena, 4096, 1 << 20);
    kt__buf_init(&text, 1 << 16);
    assert_int_equal(kt__jdoc_parse(&arena, json, strlen(json), &root, NULL), KT_OK);
    for (const kt__json_node *c = root->first; c; c = c->next) {
        const kt__json_node *name = kt__jdoc_member(c, "n", 1);
        calls[n++] = (kt__call_text){name->s, name->n, "000000001", 9, kt__jdoc_member(c, "a", 1)};
    }
    if (style->calls->single) n = 1;
    const char *wrong = rt_check(style, tools, calls, n, &text);
    if (wrong) print_error("%s: %s\n%s\n", style->calls->name, wrong, text.data);
    assert_null(wrong);
    kt__buf_free(&text);
    kt__arena_free(&arena);
}

static void test_every_format(void **state) {
    (void)state;
    kt__tools *tools = read_tools(tool_list);
    for (size_t i = 0; i < kt__n_call_formats; i++) {
        kt__call_style style;
        if (kt__call_formats[i].kind == KT__CALLS_NONE) continue;
        assert_true(kt__call_style_named(kt__call_formats[i].name, "none", &style));
        for (size_t k = 0; k < sizeof answers / sizeof *answers; k++)
            check_answer(&style, tools, answers[k]);
    }
    kt__tools_free(tools);
}

/* ---- what is refused ---- */

typedef struct taken_case {
    const char *choice, *tail, *text;
    bool one_call, fits;
} taken_case;

#define CALL_OF(args) \
    "<tool_call>\n{\"name\": \"shop.order\", \"arguments\": " args "}\n</tool_call>"
#define STOP_CALL "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>"

static const taken_case taken[] = {
    {"\"required\"", "", CALL_OF("{\"item\": \"x\", \"count\": 1}"), false, true},
    {"\"required\"", "", CALL_OF("{\"item\": \"x\", \"count\": 0}"), false, false},
    {"\"required\"", "", CALL_OF("{\"item\":\"x\",\"tags\":[\"a\", \"b\"], \"count\": 1}"), false,
     true},
    {"\"required\"", "", CALL_OF("{\"item\":  \"x\", \"count\": 1}"), false, false},
    {"\"required\"", "", CALL_OF("{ \"item\": \"x\", \"count\": 1}"), false, true},
    {"\"required\"", "", CALL_OF("{\n  \"item\": \"x\",\n  \"count\": 1\n}"), false, true},
    {"\"required\"", "", CALL_OF("{\n  \"item\": \"x\",\n \"count\": 1\n}"), false, false},
    {"\"required\"", "", CALL_OF("{\"item\": \"x\" , \"count\": 1}"), false, false},
    {"\"required\"", "", CALL_OF("{\"item\":\n\"x\", \"count\": 1}"), false, false},
    {"\"required\"", "", CALL_OF("{\"item\": \"x\"}"), false, false},
    {"\"required\"", "", CALL_OF("{\"item\": \"x\", \"count\": 1, \"more\": 1}"), false, false},
    {"\"required\"", "", STOP_CALL "\n" STOP_CALL, false, true},
    {"\"required\"", "", STOP_CALL "\n" STOP_CALL, true, false},
    {"\"required\"", "", "Well. " STOP_CALL, false, false},
    {"\"required\"", "<think>\n", "Hm.\n</think>\n\n" STOP_CALL, false, true},
    {"\"required\"", "<think>\n\n</think>\n\n", STOP_CALL, false, true},
    {"\"required\"", "", "<think>\nHm.\n</think>\n\n" STOP_CALL, false, true},
    {"{\"type\":\"function\",\"function\":{\"name\":\"stop\"}}", "", STOP_CALL, false, true},
    {"{\"type\":\"tool\",\"name\":\"shop.orders\"}", "", STOP_CALL, false, false},
    {"{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":\"function\",\"name\":"
     "\"stop\"}]}",
     "", STOP_CALL, false, true},
    {"\"auto\"", "", "\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>", false, true},
    {"\"auto\"", "", "\n{\"name\": \"gone\"", false, false},
};

static void test_choices(void **state) {
    (void)state;
    kt__tools *tools = read_tools(tool_list);
    kt__call_style style;
    assert_true(kt__call_style_named("hermes", "think", &style));
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        const taken_case *c = &taken[i];
        kt__call_constraint made;
        kt__call_rules rules = {.tools = tools,
                                .one_call = c->one_call,
                                .prompt_tail = c->tail,
                                .prompt_tail_len = strlen(c->tail)};
        assert_int_equal(
            kt__tool_choice_read(tools, c->choice, strlen(c->choice), &rules.choice, NULL), KT_OK);
        assert_int_equal(kt__call_constraint_make(&style, &rules, &made, NULL), KT_OK);
        if ((rt_taken(&made, c->text, strlen(c->text)) == strlen(c->text)) != c->fits)
            fail_msg("case %zu: %s", i, c->text);
        assert_string_equal(made.trigger, rules.choice.mode == KT__TOOL_AUTO ? "<tool_call>" : "");
        kt__call_constraint_free(&made);
    }
    kt__tools_free(tools);
}

/* Arguments between another family's tags, which a caller begins by its word: up to where each text is refused. */
typedef struct later_case {
    const char *text, *refused; /* refused: "": it is taken, and free text may follow */
} later_case;

#define PARAM(key, value) "<parameter=" key ">" value "</parameter>"

static const later_case later_cases[] = {
    {PARAM("item", "tea") PARAM("count", "2") "</function>", ""},
    {"\n" PARAM("item", "\ntea\n") "\n" PARAM("count", "2") "\n</function>\n", ""},
    {PARAM("count", "\n2\n") "\n" PARAM("item", "\ntea\n") "\n</function> and more", ""},
    {PARAM("item", "tea") PARAM("count", "2"), "may not end"},
    {PARAM("item", "tea") "</function>", "/function>"},
    {PARAM("item", "tea") PARAM("count", "0") "</function>", "0</parameter></function>"},
    {PARAM("item", "tea") PARAM("size", "XL"), "XL</parameter>"},
    {PARAM("item", "tea") PARAM("price", "1"), "price>1</parameter>"},
};

static void check_later(const char *format) {
    kt__tools *tools = read_tools(tool_list);
    kt__call_style style;
    const kt__call_rules rules = {.tools = tools, .prompt_tail = "", .any_spelling = true};
    kt__call_constraint made;
    kt__grammar *g;
    assert_true(kt__call_style_named(format, "none", &style));
    assert_int_equal(kt__call_constraint_make(&style, &rules, &made, NULL), KT_OK);
    const kt__grammar_source source = {
        .kind = KT__GRAMMAR_PIECES, .text = made.text.data, .len = made.text.len, .closed = true};
    assert_int_equal(kt__grammar_create(&source, &g, NULL, NULL), KT_OK);
    memset(made.text.data, '#', made.text.len); /* it need not outlive the grammar's creation */
    for (size_t i = 0; i < sizeof later_cases / sizeof *later_cases; i++) {
        const later_case *c = &later_cases[i];
        size_t n = strlen(c->text);
        kt__gstate s;
        assert_true(kt__grammar_start_later(g, &s, 0));
        bool fits = kt__grammar_feed(g, &s, c->text, &n);
        const char *rest = c->text + n;
        if (fits) rest = kt__grammar_accepts(g, &s) ? "" : "may not end";
        assert_string_equal(rest, c->refused);
    }
    kt__gstate s;
    assert_false(kt__grammar_start_later(g, &s, 3));
    kt__grammar_free(g);
    kt__call_constraint_free(&made);
    kt__tools_free(tools);
}

/* Of a format that has no such tags, and of one that has, whose section a model left out. */
static void test_later_parameters(void **state) {
    (void)state;
    check_later("hermes");
    check_later("qwen3_coder");
}

static void test_bad_choices(void **state) {
    static const char *const bad[] = {"\"gone\"",
                                      "{}",
                                      "3",
                                      "{\"type\":\"function\"}",
                                      "{\"type\":\"allowed_tools\",\"tools\":[]}",
                                      "[\"stop\"]"};
    (void)state;
    kt__tools *tools = read_tools(tool_list);
    kt__tool_choice choice;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kt__tool_choice_read(tools, bad[i], strlen(bad[i]), &choice, NULL),
                         KT_E_ARG);
    assert_int_equal(kt__tool_choice_read(NULL, "\"required\"", 10, &choice, NULL), KT_E_ARG);
    kt__tools_free(tools);
}

/* ---- no call at all ---- */

/* Where calls have no mark: what does not begin as one is free. */
static void test_unmarked(void **state) {
    static const struct {
        const char *format, *text;
        bool fits;
    } cases[] = {
        {"llama3", "Well, {\"name\": \"stop\", \"parameters\": {\"a\"", true},
        {"llama3", "{\"name\": \"stop\", \"parameters\": {}}", true},
        {"llama3", "<|python_tag|>{\"name\": \"stop\", \"parameters\": {}}", true},
        {"llama3", "{\"name\": \"stop\", \"parameters\": {\"a\"", false},
        {"llama3", "{\"name\": \"stop\", \"parameters\": {}} and more", false},
        {"llama3", "{\"name\": \"gone\", \"parameters\": 3", true},
        {"llama3", "{\"name\": \"Ada\"}", true},
        {"llama3", "", true},
        {"llama4", "<|python_start|>{\"name\": \"stop\", \"parameters\": {}}", true},
        {"llama4",
         "<|python_start|><|python_end|>{\"name\": \"stop\", \"parameters\": {}}"
         "{\"name\": \"stop\", \"parameters\": {}}",
         true},
        {"llama4", "<|python_start|><|python_end|>{\"name\": \"stop\", \"parameters\": {\"a\"",
         false},
        {"llama4", "<|python_start|>print(1)", true},
        {"pythonic", "[stop()]", true},
        {"pythonic", "[stop(a=1)]", false},
        {"pythonic", "[1, 2]", true},
    };
    (void)state;
    kt__tools *tools = read_tools(tool_list);
    const kt__call_rules rules = {
        .tools = tools, .choice = {.mode = KT__TOOL_AUTO}, .prompt_tail = ""};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__call_style style;
        kt__call_constraint made;
        assert_true(kt__call_style_named(cases[i].format, "none", &style));
        assert_int_equal(kt__call_constraint_make(&style, &rules, &made, NULL), KT_OK);
        assert_string_equal(made.trigger, "");
        size_t len = strlen(cases[i].text);
        if ((rt_taken(&made, cases[i].text, len) == len) != cases[i].fits)
            fail_msg("%s: %s", cases[i].format, cases[i].text);
        kt__call_constraint_free(&made);
    }
    kt__tools_free(tools);
}

typedef struct silent_case {
    const char *format, *reasoning, *text, *call; /* free text, and what makes a call of it */
} silent_case;

static const silent_case silent[] = {
    {"hermes", "think", "<think>\nA <tool_call>?\n</think>\n\nWell.", "<tool_call>"},
    {"harmony", "harmony",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Well.",
     "<|end|><|start|>assistant<|channel|>commentary to=functions."},
    {"harmony", "harmony", "", "<|channel|>commentary to=functions."},
    {"harmony", "harmony", " to=user<|channel|>commentary", " to=functions."},
    {"mistral_args", "mistral", "[THINK]Hm.[/THINK]Well.", "[TOOL_CALLS]"},
    {"gemma4", "gemma", "<|channel>thought\nHm.<channel|>Well.", "<|tool_call>call:"},
    {"command_r7b", "command", "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Well.",
     "<|START_ACTION|>"},
};

static void test_silence(void **state) {
    (void)state;
    kt__tools *tools = read_tools(tool_list);
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        const silent_case *c = &silent[i];
        const kt__call_rules rules = {
            .tools = tools, .choice = {.mode = KT__TOOL_NONE}, .prompt_tail = ""};
        kt__call_style style;
        kt__call_constraint made;
        char text[512];
        assert_true(kt__call_style_named(c->format, c->reasoning, &style));
        assert_int_equal(kt__call_constraint_make(&style, &rules, &made, NULL), KT_OK);
        assert_true(made.text.len > 0);
        assert_int_equal(rt_taken(&made, c->text, strlen(c->text)), strlen(c->text));
        int n = snprintf(text, sizeof text, "%s%s", c->text, c->call);
        assert_true(rt_taken(&made, text, (size_t)n) < (size_t)n);
        kt__call_constraint_free(&made);
    }
    kt__tools_free(tools);
}

/* ---- schemas that cannot be enforced ---- */

#define BACK_REFERENCE(strict)                                                \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":" strict \
    ",\"parameters\":{\"type\":"                                              \
    "\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}}}}}]"

/* No object has all the names that it must have. */
#define FORBIDDEN_NAME(strict)                                                                   \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":" strict                    \
    ",\"parameters\":{\"type\":\"object\",\"properties\":{\"n\":{}},\"required\":[\"n\",\"z\"]," \
    "\"additionalProperties\":false}}}]"

/* The same of a member of an argument. */
#define FORBIDDEN_MEMBER(strict)                                                             \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":" strict                \
    ",\"parameters\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"object\","       \
    "\"properties\":{},\"required\":[\"z\"],\"additionalProperties\":false}},\"required\":[" \
    "\"n\"]}}}]"

static void test_unenforceable(void **state) {
    (void)state;
    static const struct {
        const char *loose, *strict, *note;
    } cases[] = {
        {BACK_REFERENCE("false"), BACK_REFERENCE("true"), "not held to its schema: pattern"},
        {FORBIDDEN_NAME("false"), FORBIDDEN_NAME("true"), "not held to its schema: required"},
        {FORBIDDEN_MEMBER("false"), FORBIDDEN_MEMBER("true"), "not held to its schema: required"}};
    for (size_t i = 0; i < 4 * (sizeof cases / sizeof *cases); i++) {
        bool strict = i & 1, tags = i >= 2 * (sizeof cases / sizeof *cases);
        size_t k = i / 2 % (sizeof cases / sizeof *cases);
        kt__tools *tools = read_tools(strict ? cases[k].strict : cases[k].loose);
        const kt__call_rules rules = {
            .tools = tools, .choice = {.mode = KT__TOOL_REQUIRED}, .prompt_tail = ""};
        kt__call_style style;
        kt__call_constraint made;
        kt_error err = {0};
        assert_true(kt__call_style_named(tags ? "qwen3_coder" : "hermes", "none", &style));
        kt_status status = kt__call_constraint_make(&style, &rules, &made, &err);
        assert_int_equal(status, strict ? KT_E_UNSUPPORTED : KT_OK);
        if (strict)
            assert_string_equal(err.where, "/0/function/parameters");
        else
            assert_non_null(strstr(made.notes.data, cases[k].note));
        kt__call_constraint_free(&made);
        kt__tools_free(tools);
    }
}

/* ---- lists of tools ---- */

static void test_bad_tools(void **state) {
    static const struct {
        const char *json, *where;
        kt_status status;
    } bad[] = {{"{}", "", KT_E_FORMAT},
               {"[3]", "/0", KT_E_FORMAT},
               {"[{\"type\":\"web_search\"}]", "/0/type", KT_E_UNSUPPORTED},
               {"[{\"type\":\"function\",\"function\":{}}]", "/0/function", KT_E_FORMAT},
               {"[{\"name\":\"a b\"}]", "/0/name", KT_E_FORMAT},
               {"[{\"name\":\"a\"},{\"name\":\"a\"}]", "/1/name", KT_E_FORMAT},
               {"[{\"name\":\"a\",\"parameters\":[]}]", "/0/parameters", KT_E_FORMAT},
               {"[{\"name\":\"a\",\"strict\":1}]", "/0/strict", KT_E_FORMAT}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kt__tools *tools;
        kt_error err = {0};
        assert_int_equal(kt__tools_read(bad[i].json, strlen(bad[i].json), &tools, &err),
                         bad[i].status);
        if (bad[i].where[0]) assert_string_equal(err.where, bad[i].where);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_format),     cmocka_unit_test(test_choices),
        cmocka_unit_test(test_later_parameters), cmocka_unit_test(test_bad_choices),
        cmocka_unit_test(test_unenforceable),    cmocka_unit_test(test_silence),
        cmocka_unit_test(test_unmarked),         cmocka_unit_test(test_bad_tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
