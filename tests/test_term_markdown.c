/* cli: Markdown on a terminal: blocks, emphasis, wrapping, tables, and text that would steer it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "term/safe_text.h"
#include "term/screen.h"

/* What comes out when text goes in by pieces of `piece` bytes. */
static char *render(const char *text, size_t len, size_t piece, int width, bool styled) {
    kt__markdown md;
    kt__buf out;
    size_t out_len;
    kt__markdown_init(&md, width, styled);
    kt__buf_init(&out, 64 << 20);
    for (size_t at = 0; at < len; at += piece)
        kt__markdown_feed(&md, text + at, len - at < piece ? len - at : piece, &out);
    kt__markdown_end(&md, &out);
    kt__markdown_free(&md);
    assert_false(out.failed);
    char *shown = kt__buf_take(&out, &out_len);
    kt__buf_free(&out);
    return shown;
}

static void expect(const char *text, bool styled, int width, const char *expected) {
    for (size_t piece = 1; piece < 40; piece = piece * 2 + 1) {
        char *shown = render(text, strlen(text), piece, width, styled);
        assert_string_equal(shown, expected);
        free(shown);
    }
}

static void test_blocks(void **state) {
    (void)state;
    expect("# Title\n\ntext", false, 40, "Title\n\ntext\n");
    expect("#hash\n####### seven\n", false, 40, "#hash\n####### seven\n");
    expect("- one\n* two\n  + three\n12. four\n", false, 40, "• one\n• two\n  • three\n12. four\n");
    expect("> said\n---\n- - x\n-5 degrees\n", false, 10,
           "│ said\n──────────\n• - x\n-5 degrees\n");
    expect("```c\nint *a; // **x**\n  `y`\n```\nend\n", false, 12,
           "```c\nint *a; // **x**\n  `y`\n```\nend\n");
    expect("~~~\na\n```\n~~~\n**b**", false, 12, "~~~\na\n```\n~~~\nb\n");
}

static void test_emphasis(void **state) {
    (void)state;
    expect("a **b c** *d* `e*f*` _g_", true, 80,
           "a \033[0;1mb c\033[0m \033[0;3md\033[0m \033[0;36me*f*\033[0m \033[0;3mg\033[0m\n");
    expect("2 * 3 * 4, snake_case_name, a*b, \\*not\\*", true, 80,
           "2 * 3 * 4, snake_case_name, a*b, *not*\n");
    expect("**never closed\nnext", true, 80, "\033[0;1mnever closed\033[0m\nnext\n");
    expect("``a ` b``", false, 80, "a ` b\n");
}

static void test_wrapping(void **state) {
    (void)state;
    expect("- one two three four", false, 10, "• one two\n  three\n  four\n");
    expect("日本語日本語", false, 8, "日本語日\n本語\n");
    expect("ein **zwei** drei", false, 9, "ein zwei\ndrei\n");
}

static void test_tables(void **state) {
    (void)state;
    expect("| a | long |\n|---|:-:|\n| **bb** | 日 |\n| c\\|d |\n\nafter", false, 40,
           "a   │ long\n────┼─────\nbb  │ 日\nc|d │ \n\nafter\n");
    expect("| a | b |\nno table\n", false, 40, "| a | b |\nno table\n");
    expect("| much too wide | for this |\n|-|-|\n", false, 10,
           "| much too wide | for this |\n|-|-|\n");
}

/* Nothing but newlines and the renderer's own colours is a control. */
static void expect_harmless(const char *shown, size_t len) {
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)shown[i];
        if (c == 033) {
            assert_int_equal(shown[i + 1], '[');
            i += 2 + strspn(shown + i + 2, "0123456789;");
            assert_int_equal(shown[i++], 'm');
            continue;
        }
        size_t n = kt__cell_length(shown + i, len - i);
        if (c != '\n') assert_true(kt__cells_width(shown + i, n) <= 2);
        assert_false(c == 0x7f || (c < 0x20 && c != '\n'));
        i += n;
    }
}

static void test_hostile_text(void **state) {
    (void)state;
    expect("a\033[2Jb \xe2\x80\xae"
           "c \xff \xc2\x9b d\r\ne\rf",
           false, 80, "a\\x1b[2Jb \\u{202e}c \\xff \\x9b d\nef\n");
    static const char *const pieces[] = {"\033]0;x\a",   "*",  "`",   "|", "\n", "**",   " ",
                                         "\xe2\x80\xae", "#",  "```", "a", "日", "\xff", "-",
                                         "1. ",          "\\", "\t",  "_"};
    char text[4096];
    uint32_t random = 1;
    for (int round = 0; round < 500; round++) {
        size_t len = 0;
        while (len < 600) {
            random = random * 1664525u + 1013904223u;
            const char *p = pieces[(random >> 16) % (sizeof pieces / sizeof *pieces)];
            memcpy(text + len, p, strlen(p));
            len += strlen(p);
        }
        char *by_one = render(text, len, 1, 30, true), *whole = render(text, len, len, 30, true);
        assert_string_equal(by_one, whole);
        expect_harmless(whole, strlen(whole));
        free(by_one);
        free(whole);
    }
}

static void test_long_runs_end(void **state) {
    (void)state;
    static const char bytes[] = "a*`|# -1>_~\n\\";
    size_t len = 1 << 20;
    char *text = malloc(len);
    for (size_t k = 0; k < sizeof bytes - 1; k++) {
        memset(text, bytes[k], len);
        free(render(text, len, 100000, 80, true));
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),       cmocka_unit_test(test_emphasis),
        cmocka_unit_test(test_wrapping),     cmocka_unit_test(test_tables),
        cmocka_unit_test(test_hostile_text), cmocka_unit_test(test_long_runs_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
