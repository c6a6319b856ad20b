/* What models write, read as content, reasoning and calls: each case whole, byte by byte and cut at
 * every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "calls/format.h"
#include "calls/scan.h"
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
    if (strcmp(got.data, c->want) != 0)
        print_error("%s, cut %d: %s\n", c->calls, (int)cut, c->text);
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

/* ---- answers that are cut off ---- */

static const char *trimmed(const char *s) {
    while (s && kt__is_blank(*s)) s++;
    return s;
}

/* Whether the text holds a whole marker and something after it. */
static bool holds_marker(const char *text, const char *marker) {
    size_t n = marker ? strlen(marker) : 0;
    while (n > 0 && kt__is_blank(marker[n - 1])) n--;
    if (n < 3) return false; /* a bracket may be text */
    for (const char *at = text; (at = strchr(at, marker[0])) != NULL; at++)
        if (strncmp(at, marker, n) == 0 && *trimmed(at + n)) return true;
    return false;
}

/* The first len bytes of a case's text: what is left of a call is no content. */
static void check_cut_off(const kt__call_style *style, const kt__call_options *options,
                          const answer_case *c, size_t len, const ca_answer *whole) {
    ca_answer a;
    assert_int_equal(ca_parse(style, options, c->text, len, 1, true, &a), KT_OK);
    const char *content = a.content.data ? a.content.data : "";
    const char *full = whole->content.data ? whole->content.data : "";
    size_t n = strlen(content);
    while (n > 0 && kt__is_blank(content[n - 1])) n--;
    bool wrong = a.n_calls > 0 && strncmp(content, full, n) != 0;
    const char *marks[] = {trimmed(style->calls->section_open), trimmed(style->calls->open)};
    for (int i = 0; i < 2; i++) /* what is no call may hold one */
        wrong = wrong || (holds_marker(content, marks[i]) && !holds_marker(full, marks[i]));
    if (wrong) fail_msg("%s: %.*s: content[%s]", c->calls, (int)len, c->text, content);
    ca_free(&a);
}

static void test_cut_off(void **state) {
    (void)state;
    kt__tools *tools;
    assert_int_equal(kt__tools_read(tool_list, sizeof tool_list - 1, &tools, NULL), KT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const answer_case *c = &cases[i];
        kt__call_style style;
        const kt__call_options options = {
            .tools = tools, .prompt_tail = c->tail, .prompt_tail_len = strlen(c->tail)};
        ca_answer whole;
        assert_true(kt__call_style_named(c->calls, c->reasoning, &style));
        if (strstr(c->want, "...") || strstr(c->want, "gone")) continue;
        assert_int_equal(ca_parse(&style, &options, c->text, strlen(c->text), 0, true, &whole),
                         KT_OK);
        for (size_t len = 0; len < strlen(c->text) && whole.n_calls > 0; len++)
            check_cut_off(&style, &options, c, len, &whole);
        ca_free(&whole);
    }
    kt__tools_free(tools);
}

/* A row of formats.def or of reasoning.def that no case reads would be found wrong by users only. */
static void test_every_row_has_cases(void **state) {
    (void)state;
    const size_t n = sizeof cases / sizeof *cases;
    for (size_t i = 0, k; i < kt__n_call_formats; i++) {
        for (k = 0; k < n && strcmp(cases[k].calls, kt__call_formats[i].name) != 0;) k++;
        if (k == n) fail_msg("no case of the calls %s", kt__call_formats[i].name);
    }
    for (size_t i = 0, k; i < kt__n_reason_formats; i++) {
        for (k = 0; k < n && strcmp(cases[k].reasoning, kt__reason_formats[i].name) != 0;) k++;
        if (k == n) fail_msg("no case of the reasoning %s", kt__reason_formats[i].name);
    }
}

/* ---- hostile answers: they end, in time that grows with their length ---- */

typedef struct hostile_case {
    const char *calls, *reasoning, *tail, *before, *piece, *after;
    size_t n; /* of pieces */
    kt_status status;
} hostile_case;

static const hostile_case hostile[] = {
    {"hermes", "think", "", "", " \n", "x", 200000, KT_OK},
    {"hermes", "think", "<think>", "a", "\n ", "b</think>", 200000, KT_OK},
    {"hermes", "think", "<think>", "", "\n", "<think>b", 200000, KT_OK},
    {"hermes", "none", "", "", "<tool_call>", "", 60000, KT_OK},
    {"hermes", "none", "", "<tool_call>", "\t", "{}", 100000, KT_OK},
    {"hermes", "none", "", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": ", "[", "",
     100000, KT_OK},
    {"hermes", "none", "", "<tool_call>{\"name\": \"now\",", "\n", "}", 200000, KT_OK},
    {"hermes", "none", "", "<tool_call>{\"name\": \"now\"}", "\n", "</tool_call>", 200000, KT_OK},
    {"qwen3_coder", "none", "", "<function=say>", "\n", "</function>", 200000, KT_OK},
    {"qwen3_coder", "none", "", "<function=say><parameter=text>", "</parameter ", "", 60000, KT_OK},
    {"qwen3_coder", "none", "", "<function=say><parameter=more>", "0123456789abcdef", "", 1100000,
     KT_E_LIMIT},
    {"lfm2", "none", "", "<|tool_call_start|>[say(text='", "' ", "", 100000, KT_OK},
    {"lfm2", "none", "", "<|tool_call_start|>[say(more=", "{'a':", "", 100000, KT_OK},
    {"lfm2", "none", "", "<|tool_call_start|>[say(text='", "\\", "", 100000, KT_OK},
    {"gemma4", "gemma", "", "", "<|channel>", "", 60000, KT_OK},
    {"harmony", "harmony", "", "", "<|start|>", "", 60000, KT_OK},
    {"mistral_id", "none", "", "", "[TOOL_CALLS]now[CALL_ID]", "", 20000, KT_OK},
    {"minimax_m3", "none", "",
     "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"say\">]<]minimax[>[<more>",
     "]<]minimax[>[<a>", "]<]minimax[>[</more>", 2000, KT_OK},
};

static void ignore_event(void *ctx, const kt__call_event *e) {
    *(size_t *)ctx += e->len;
}

static void test_hostile(void **state) {
    (void)state;
    kt__tools *tools;
    assert_int_equal(kt__tools_read(tool_list, sizeof tool_list - 1, &tools, NULL), KT_OK);
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        const hostile_case *h = &hostile[i];
        kt__call_style style;
        kt__call_parser *p;
        size_t sent = 0;
        const kt__call_options options = {
            .tools = tools, .prompt_tail = h->tail, .prompt_tail_len = strlen(h->tail)};
        assert_true(kt__call_style_named(h->calls, h->reasoning, &style));
        assert_int_equal(kt__call_parser_create(&style, &options, ignore_event, &sent, &p, NULL),
                         KT_OK);
        kt_status status = kt__call_feed(p, h->before, strlen(h->before), NULL);
        for (size_t k = 0; k < h->n && status == KT_OK; k++)
            status = kt__call_feed(p, h->piece, strlen(h->piece), NULL);
        if (status == KT_OK) status = kt__call_feed(p, h->after, strlen(h->after), NULL);
        if (status == KT_OK) status = kt__call_finish(p, NULL);
        if (status != h->status) fail_msg("hostile case %zu: %d", i, status);
        kt__call_parser_free(p);
    }
    kt__tools_free(tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_every_row_has_cases),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
