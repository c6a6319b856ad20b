/* What models write, read as content, reasoning and calls: each case whole, byte by byte and cut at
 * every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "calls_answer.h"

static const char tool_list[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"description\":\"Adds.\","
    "\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"}"
    "},"
    "\"required\":[\"a\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"say\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"text\":{\"type\":\"string\"},\"loud\":{\"type\":\"boolean\"},\"tags\":{"
    "\"type\":"
    "\"array\",\"items\":{\"type\":\"string\"}},\"more\":{\"type\":\"object\"},\"who\":{\"type\":"
    "[\"string\",\"null\"]}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

typedef struct answer_case {
    const char *calls, *reasoning, *tail, *text, *want;
} answer_case;

static const answer_case cases[] = {
#include "calls_cases.inc"
};

static void check_cut(const kt__call_style *style, const kt__call_options *options,
                      const answer_case *c, size_t cut) {
    ca_answer a;
    kt__buf got;
    kt__buf_init(&got, 1 << 16);
    assert_int_equal(ca_parse(style, options, c->text, strlen(c->text), cut, true, &a), KT_OK);
    ca_print(&a, &got);
    if (strcmp(got.data, c->want) != 0) print_error("%s, cut %zu: %s\n", c->calls, cut, c->text);
    assert_string_equal(got.data, c->want);
    kt__buf_free(&got);
    ca_free(&a);
}

static void test_cases(void **state) {
    (void)state;
    kt__tools *tools;
    assert_int_equal(kt__tools_read(tool_list, sizeof tool_list - 1, &tools, NULL), KT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const answer_case *c = &cases[i];
        kt__call_style style;
        const kt__call_options options = {
            .tools = tools, .prompt_tail = c->tail, .prompt_tail_len = strlen(c->tail)};
        assert_true(kt__call_style_named(c->calls, c->reasoning, &style));
        for (size_t cut = 0; cut < strlen(c->text) + 2; cut++) check_cut(&style, &options, c, cut);
    }
    kt__tools_free(tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
