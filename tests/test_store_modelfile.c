/* store: modelfiles read and written, what they refuse, and Go templates in Jinja's words. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "store/modelfile.h"

static void read_text(kt__modelfile *f, const char *text) {
    kt_error err = {0};
    kt__modelfile_init(f);
    if (kt__modelfile_read(f, text, strlen(text), &err) != KT_OK)
        fail_msg("%s: %s", text, err.message);
}

static void expect_line(const kt__modelfile *f, size_t i, kt__modelfile_kind kind, const char *name,
                        const char *value) {
    assert_true(i < f->n);
    assert_int_equal(f->lines[i].kind, kind);
    assert_string_equal(f->lines[i].name, name);
    assert_string_equal(f->lines[i].value, value);
}

static void test_reading(void **state) {
    (void)state;
    kt__modelfile f;
    read_text(&f, "\xef\xbb\xbf# a comment\r\nfrom  qwen:7b \r\nREQUIRES 0.14\n"
                  "  Parameter stop \"<|im_end|>\"\nPARAMETER temperature 0.2\n"
                  "SYSTEM \"\"\"You are\na \"pirate\"\"\"\"\n"
                  "MESSAGE user \"Hm\", she said.\nLICENSE \"\nMIT\n\"\nTEMPLATE \"\"");
    assert_int_equal(f.n, 7);
    expect_line(&f, 0, KT__MODELFILE_FROM, "", "qwen:7b");
    expect_line(&f, 1, KT__MODELFILE_PARAMETER, "stop", "<|im_end|>");
    expect_line(&f, 2, KT__MODELFILE_PARAMETER, "temperature", "0.2");
    expect_line(&f, 3, KT__MODELFILE_SYSTEM, "", "You are\na \"pirate\"");
    expect_line(&f, 4, KT__MODELFILE_MESSAGE, "user", "\"Hm\", she said.");
    expect_line(&f, 5, KT__MODELFILE_LICENSE, "", "\nMIT\n");
    expect_line(&f, 6, KT__MODELFILE_TEMPLATE, "", "");
    assert_int_equal(f.lines[6].at, 12);
    kt__modelfile_free(&f);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
        kt_status status;
    } cases[] = {{"FROM x\nFORM y", "line 2: \"FORM\" is not known", KT_E_UNSUPPORTED},
                 {"RENDERER qwen3", "Ollama's own program", KT_E_UNSUPPORTED},
                 {"FROM", "line 1: FROM has nothing", KT_E_FORMAT},
                 {"PARAMETER", "line 1: PARAMETER of what", KT_E_FORMAT},
                 {"PARAMETER stop", "line 1: PARAMETER has nothing", KT_E_FORMAT},
                 {"MESSAGE robot hello", "user, assistant or system", KT_E_FORMAT},
                 {"SYSTEM \"\"\"abc\n", "line 1: the text that begins here", KT_E_FORMAT},
                 {"SYSTEM \"\"\"abc\n\"\"\" d", "line 2: something follows", KT_E_FORMAT},
                 {"SYSTEM \"a\"\"\"\"b", "line 1: a text that begins", KT_E_FORMAT},
                 {"SYSTEM \"abc\n", "line 1: the text that begins here", KT_E_FORMAT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__modelfile f;
        kt_error err = {0};
        kt__modelfile_init(&f);
        assert_int_equal(kt__modelfile_read(&f, cases[i].text, strlen(cases[i].text), &err),
                         cases[i].status);
        if (!strstr(err.message, cases[i].why)) fail_msg("%s: %s", cases[i].text, err.message);
        kt__modelfile_free(&f);
    }
    kt__modelfile f;
    kt_error err = {0};
    kt__modelfile_init(&f);
    assert_int_equal(kt__modelfile_read(&f, "FROM x\0y", 8, &err), KT_E_FORMAT);
    assert_int_equal(kt__modelfile_add(&f, KT__MODELFILE_SYSTEM, NULL, "a\n\"\"\"\nb", &err),
                     KT_E_ARG);
    for (int i = 0; i < KT__MODELFILE_MAX_LINES; i++)
        assert_int_equal(kt__modelfile_add(&f, KT__MODELFILE_LICENSE, NULL, "x", &err), KT_OK);
    assert_int_equal(kt__modelfile_add(&f, KT__MODELFILE_LICENSE, NULL, "x", &err), KT_E_LIMIT);
    kt__modelfile_free(&f);
}

static void test_writing(void **state) {
    (void)state;
    static const char *const values[] = {
        "plain", "two\nlines", " blank ",  "\"quoted\"", "a \"b\"", "\"",       "\"\"",
        "",      "\n\"",       "tail\"\"", "# none",     "a\\nb",   "\"a\" \"b"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        kt__modelfile f, again;
        kt__buf out;
        kt_error err = {0};
        kt__modelfile_init(&f);
        kt__buf_init(&out, 1 << 16);
        assert_int_equal(kt__modelfile_add(&f, KT__MODELFILE_SYSTEM, NULL, values[i], &err), KT_OK);
        kt__modelfile_write(&f, &out);
        read_text(&again, out.data);
        assert_int_equal(again.n, 1);
        expect_line(&again, 0, KT__MODELFILE_SYSTEM, "", values[i]);
        kt__buf_free(&out);
        kt__modelfile_free(&f);
        kt__modelfile_free(&again);
    }
}

/* Of the model that it is made of it has what it does not say otherwise. */
static void test_inheriting(void **state) {
    (void)state;
    kt__modelfile f, base;
    kt_error err = {0};
    read_text(
        &base,
        "FROM a\nPARAMETER top_k 3\nPARAMETER stop x\nPARAMETER stop y\nSYSTEM old\nLICENSE MIT\n");
    read_text(&f, "FROM b\nPARAMETER stop z\nSYSTEM new\n");
    assert_int_equal(kt__modelfile_inherit(&f, &base, &err), KT_OK);
    assert_int_equal(f.n, 5);
    expect_line(&f, 3, KT__MODELFILE_PARAMETER, "top_k", "3");
    expect_line(&f, 4, KT__MODELFILE_LICENSE, "", "MIT");
    assert_string_equal(kt__modelfile_get(&f, KT__MODELFILE_FROM), "b");
    assert_string_equal(kt__modelfile_get(&f, KT__MODELFILE_SYSTEM), "new");
    kt__modelfile_remove(&f, KT__MODELFILE_FROM);
    assert_null(kt__modelfile_get(&f, KT__MODELFILE_FROM));
    kt__modelfile_free(&f);
    kt__modelfile_free(&base);
}

/* ---- templates: what they render is in test_serve_create.sh ---- */

static kt_status translate(const char *text, kt_error *err) {
    kt__buf out;
    kt__buf_init(&out, 1 << 20);
    kt_status status = kt__go_template_translate(text, strlen(text), &out, err);
    kt__buf_free(&out);
    return status;
}

static void test_templates(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
        kt_status status;
    } cases[] = {
        {"{{ if .System }}{{ .System }}{{ else if .Prompt }}x{{ end }}", "", KT_OK},
        {"{{- range $i, $m := .Messages }}{{ if eq $m.Role \"user\" \"tool\" }}{{ end }}{{ end -}}",
         "", KT_OK},
        {"{{ .Suffix }}", "field \".Suffix\"", KT_E_UNSUPPORTED},
        {"{{ printf \"x\" }}", "function \"printf\"", KT_E_UNSUPPORTED},
        {"{{ with .System }}{{ end }}", "action \"with\"", KT_E_UNSUPPORTED},
        {"{{ template \"x\" }}", "action \"template\"", KT_E_UNSUPPORTED},
        {"{{ .System | html }}", "function \"html\"", KT_E_UNSUPPORTED},
        {"{{ if .System }}", "a block has no end", KT_E_FORMAT},
        {"{{ end }}", "end without", KT_E_FORMAT},
        {"{{ else }}", "else without", KT_E_FORMAT},
        {"{{ }}", "an action is empty", KT_E_FORMAT},
        {"{{ .System", "{{ without }}", KT_E_FORMAT},
        {"{{ eq .System }}", "a value is missing", KT_E_FORMAT},
        {"{{ (.System }}", "a parenthesis has no end", KT_E_FORMAT},
        {"{{ \"abc }}", "a text has no end", KT_E_FORMAT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt_error err = {0};
        if (translate(cases[i].text, &err) != cases[i].status || !strstr(err.message, cases[i].why))
            fail_msg("%s: %s", cases[i].text, err.message);
    }
}

/* Blocks, parentheses and texts that grow with their nesting end in an error. */
static void test_deep_templates(void **state) {
    (void)state;
    char text[8192] = "";
    kt_error err = {0};
    for (int i = 0; i < 100; i++) strcat(text, "{{ if .System }}");
    assert_int_equal(translate(text, &err), KT_E_FORMAT);
    strcpy(text, "{{ if ");
    for (int i = 0; i < 30; i++) strcat(text, "(eq ");
    strcat(text, ".System");
    for (int i = 0; i < 30; i++) strcat(text, " 1 2 3 4)");
    strcat(text, " }}{{ end }}");
    assert_int_not_equal(translate(text, &err), KT_OK);
    strcpy(text, "{{ if ");
    for (int i = 0; i < 60; i++) strcat(text, "(");
    strcat(text, " }}");
    assert_int_equal(translate(text, &err), KT_E_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_writing),   cmocka_unit_test(test_inheriting),
        cmocka_unit_test(test_templates), cmocka_unit_test(test_deep_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
