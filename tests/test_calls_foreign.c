/* Calls that are spelled in another way than the model's template asks for: what is one and what is
 * none, each case whole, byte by byte and cut at every place; what models were recorded to write;
 * and documents with JSON in prose, which stay as they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "calls/format.h"
#include "calls_answer.h"

static const char tool_list[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"}},\"required\":[\"a\"]"
    "}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"say\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"text\":{\"type\":\"string\"},\"to\":{\"type\":\"object\",\"properties\":{"
    "\"city\":{\"type\":\"string\"}}}},\"required\":[\"text\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

typedef struct foreign_case {
    const char *reasoning, *tail, *text, *want;
} foreign_case;

static const foreign_case cases[] = {
#include "calls_foreign.inc"
};

typedef struct recorded_case {
    const char *tools, *text, *want;
} recorded_case;

static const recorded_case recorded[] = {
#include "calls_recorded.inc"
};

static kt__tools *tools_of(const char *json) {
    kt__tools *tools;
    kt_error err = {0};
    if (kt__tools_read(json, strlen(json), &tools, &err) != KT_OK) fail_msg("%s", err.message);
    return tools;
}

static void check_cuts(const kt__call_style *style, const kt__call_options *options,
                       const char *text, const char *want) {
    for (size_t cut = 0; cut < strlen(text) + 2; cut++) {
        ca_answer a;
        kt__buf got;
        kt__buf_init(&got, 1 << 16);
        assert_int_equal(ca_parse(style, options, text, strlen(text), cut, true, &a), KT_OK);
        ca_print(&a, &got);
        if (strcmp(got.data, want) != 0)
            fail_msg("cut %zu: %s\nread as  %s\nexpected %s", cut, text, got.data, want);
        kt__buf_free(&got);
        ca_free(&a);
    }
}

static void test_spellings(void **state) {
    (void)state;
    kt__tools *tools = tools_of(tool_list);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const foreign_case *c = &cases[i];
        kt__call_style style;
        const kt__call_options options = {.tools = tools,
                                          .prompt_tail = c->tail,
                                          .prompt_tail_len = strlen(c->tail),
                                          .any_spelling = true};
        assert_true(kt__call_style_named("hermes", c->reasoning, &style));
        check_cuts(&style, &options, c->text, c->want);
    }
    kt__tools_free(tools);
}

static void test_recorded(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        kt__tools *tools = tools_of(recorded[i].tools);
        const kt__call_options options = {.tools = tools, .prompt_tail = "", .any_spelling = true};
        kt__call_style style;
        assert_true(kt__call_style_named("hermes", "none", &style));
        check_cuts(&style, &options, recorded[i].text, recorded[i].want);
        kt__tools_free(tools);
    }
}

/* In every family's answers; but not where one call was asked for, where there are no tools, or
 * where other spellings do not count. */
static void test_options(void **state) {
    (void)state;
    static const char two[] = "[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"add\", "
                              "\"arguments\": {\"a\": 1}}]";
    kt__tools *tools = tools_of(tool_list);
    for (size_t i = 0; i < kt__n_call_formats; i++) {
        const kt__call_kind kind = kt__call_formats[i].kind;
        kt__call_style style;
        bool more = !kt__call_formats[i].single;
        if (kind == KT__CALLS_NONE || kind == KT__CALLS_HARMONY) continue;
        assert_true(kt__call_style_named(kt__call_formats[i].name, "none", &style));
        const kt__call_options any = {.tools = tools, .prompt_tail = "", .any_spelling = true};
        ca_answer a;
        assert_int_equal(ca_parse(&style, &any, two, strlen(two), 1, true, &a), KT_OK);
        if (a.n_calls != 1u + more) fail_msg("%s: %u calls", style.calls->name, a.n_calls);
        ca_free(&a);
    }
    kt__call_style style;
    assert_true(kt__call_style_named("hermes", "none", &style));
    const kt__call_options one = {
        .tools = tools, .prompt_tail = "", .any_spelling = true, .one_call = true};
    check_cuts(&style, &one, "```json\n{\"name\": \"now\", \"arguments\": {}}\n```\n",
               "content[] reasoning[] aside[] now({})");
    const kt__call_options none = {.prompt_tail = "", .any_spelling = true};
    const kt__call_options native = {.tools = tools, .prompt_tail = ""};
    check_cuts(&style, &none, "{\"name\": \"now\", \"arguments\": {}}",
               "content[{\"name\": \"now\", \"arguments\": {}}] reasoning[] aside[]");
    check_cuts(&style, &native, "{\"name\": \"now\", \"arguments\": {}}",
               "content[{\"name\": \"now\", \"arguments\": {}}] reasoning[] aside[]");
    kt__tools_free(tools);
}

/* What comes next is said once, as soon as the tool is known. */
static void test_arguments_are_expected(void **state) {
    (void)state;
    static const char *const texts[] = {
        "```json\n{\"name\": \"add\", \"arguments\":",
        "```json\n{\n  \"name\": \"add\",\n  \"arguments\":",
        "Well:\n{{\"name\": \"add\", \"parameters\":",
        "<tool_call>{{\"id\": \"1\", \"name\": \"add\", \"input\":",
        "add(",
        "[TOOL_CALLS]add[ARGS]",
        "<function=add>\n<",
    };
    kt__tools *tools = tools_of(tool_list);
    kt__call_style style;
    assert_true(kt__call_style_named("hermes", "none", &style));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const kt__call_options options = {.tools = tools, .prompt_tail = "", .any_spelling = true};
        kt__call_parser *p;
        ca_answer a;
        kt__call_args args;
        ca_init(&a);
        assert_int_equal(kt__call_parser_create(&style, &options, ca_event, &a, &p, NULL), KT_OK);
        for (const char *s = texts[i]; *s; s++) {
            assert_false(kt__call_take_args(p, &args));
            assert_int_equal(kt__call_feed(p, s, 1, NULL), KT_OK);
        }
        if (!kt__call_take_args(p, &args)) fail_msg("not known: %s", texts[i]);
        assert_int_equal(args.tool, 0);
        bool tagged = strstr(texts[i], "<function=") != NULL;
        assert_int_equal(args.tagged, tagged);
        assert_int_equal(args.len, tagged ? 1 : 0);
        assert_int_equal(args.indent, strstr(texts[i], "\n  \"") ? 2 : 0);
        const char *more = tagged ? "parameter=a>1" : "{\"a\": 1";
        assert_int_equal(kt__call_feed(p, more, strlen(more), NULL), KT_OK);
        assert_false(kt__call_take_args(p, &args));
        kt__call_parser_free(p);
        ca_free(&a);
    }
    kt__tools_free(tools);
}

/* So it is said where a model leaves out what opens calls in its own format: nothing else holds those. */
static void test_left_out_section(void **state) {
    (void)state;
    kt__tools *tools = tools_of(tool_list);
    kt__call_style style;
    const kt__call_options options = {.tools = tools, .prompt_tail = ""};
    assert_true(kt__call_style_named("qwen3_coder", "none", &style));
    for (int whole = 0; whole < 2; whole++) {
        static const char text[] = "<tool_call>\n<function=add>\n<parameter=a>1";
        kt__call_parser *p;
        ca_answer a;
        kt__call_args args = {0};
        ca_init(&a);
        assert_int_equal(kt__call_parser_create(&style, &options, ca_event, &a, &p, NULL), KT_OK);
        const char *from = whole ? text : text + sizeof "<tool_call>";
        assert_int_equal(kt__call_feed(p, from, strlen(from), NULL), KT_OK);
        assert_int_equal(kt__call_take_args(p, &args), !whole);
        assert_int_equal(args.tagged, !whole);
        kt__call_parser_free(p);
        ca_free(&a);
    }
    kt__tools_free(tools);
}

/* ---- documents ---- */

static uint32_t random_below(uint64_t *random, uint32_t n) {
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % n;
}

#define PICK(random, list) (list)[random_below(random, sizeof(list) / sizeof *(list))]

/* A document as models and people write them about JSON, functions and calls of them. */
static void write_document(uint64_t *random, kt__buf *out) {
    static const char *const starts[] = {"Here is how it works. ",
                                         "You could send ",
                                         "The answer is ",
                                         "1. ",
                                         "- ",
                                         "> ",
                                         "| ",
                                         "# add\n",
                                         "    ",
                                         "For example: ",
                                         "```c\n",
                                         "```json\n",
                                         "```\n",
                                         "",
                                         "\n",
                                         "\t"};
    static const char *const things[] = {
        "{\"name\": \"Ana\", \"age\": 31}",
        "{\"title\": \"add\", \"id\": 7}",
        "[1, 2, {\"name\": \"x\"}]",
        "{\"arguments\": [1, 2]}",
        "{\"name\": \"subtract\", \"arguments\": {}}",
        "{\"name\": \"add\", \"description\": \"Adds.\", \"parameters\": {\"type\": \"object\"}}",
        "{\"type\": \"function\", \"function\": {\"name\": \"add\"}}",
        "add(1, 2)",
        "add(a=1)",
        "now()",
        "add({\"a\": \"one\"})",
        "say hello to the world",
        "adding is easy",
        "now is the time",
        "{\"name\": \"add\"}",
        "{\"name\": \"add\", \"args\": {\"a\": 1}}",
        "{{ user.name }}",
        "{% add %}",
        "<tool_call> is a tag",
        "<function=subtract>",
        "[link](add)",
        "functools.partial(add)",
        "{",
        "[",
        "`add`",
        "int add(int a, int b) {\n    return a + b;\n}",
        "{\"input\": {\"q\": 1}, \"name\": \"search\"}",
        "{\"parameters\": {\"a\": \"x\"}, \"name\": \"add\"}",
        "let x = {\"name\": \"now\", \"arguments\": {}};",
        "write {\"name\": \"now\", \"arguments\": {}} for it",
        "one is [{\"name\": \"add\", \"arguments\": {\"a\": 1}}]",
        "as in add({\"a\": 1})",
        "x\n    now({})",
        "use `now({})` or ```{\"name\": \"now\", \"arguments\": {}}```",
        "| {\"name\": \"now\", \"arguments\": {}} |"};
    static const char *const ends[] = {".\n", "\n\n",          "\n", " and more. ", "\n```\n",
                                       " ",   " means that.\n"};
    for (uint32_t n = 2 + random_below(random, 12); n > 0; n--) {
        kt__buf_puts(out, PICK(random, starts));
        kt__buf_puts(out, PICK(random, things));
        kt__buf_puts(out, PICK(random, ends));
    }
}

static void test_documents_stay_text(void **state) {
    (void)state;
    kt__tools *tools = tools_of(tool_list);
    kt__call_style style;
    uint64_t random = 57;
    assert_true(kt__call_style_named("hermes", "none", &style));
    for (size_t i = 0; i < 1000; i++) {
        const kt__call_options options = {.tools = tools, .prompt_tail = "", .any_spelling = true};
        kt__buf text;
        ca_answer a;
        kt__buf_init(&text, 1 << 16);
        write_document(&random, &text);
        assert_int_equal(ca_parse(&style, &options, text.data, text.len, i % 2, true, &a), KT_OK);
        if (a.n_calls > 0) fail_msg("a call of %s in:\n%s", a.calls[0].name, text.data);
        if (a.content.len != text.len || memcmp(a.content.data, text.data, text.len) != 0)
            fail_msg("not as it was:\n%s\nbut:\n%.*s", text.data, (int)a.content.len,
                     a.content.data);
        ca_free(&a);
        kt__buf_free(&text);
    }
    kt__tools_free(tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings),        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_options),          cmocka_unit_test(test_arguments_are_expected),
        cmocka_unit_test(test_left_out_section), cmocka_unit_test(test_documents_stay_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
