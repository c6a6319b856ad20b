/* cli: documents to text, by their kinds; pages; what of them answers a question where not all fits; a program that is
 * missing or fails is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "cli/documents.h"
#include "support.h"

static char dir[64], path[128];

static const char *put(const char *name, const char *text) {
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
    return path;
}

/* A program of that name, first in PATH. */
static void put_program(const char *name, const char *script) {
    (void)put(name, script);
    assert_int_equal(chmod(path, 0755), 0);
}

static int setup(void **state) {
    char search[256];
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/kentang-read-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(search, sizeof search, "%s:/usr/bin:/bin", dir);
    setenv("PATH", search, 1);
    return 0;
}

static int teardown(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static void markup_is(const char *markup, const char *want) {
    kt__buf out;
    kt__buf_init(&out, 1 << 16);
    kt__markup_text(markup, strlen(markup), &out);
    (void)kt__buf_putc(&out, '\0');
    assert_string_equal(out.data, want);
    kt__buf_free(&out);
}

static void markup_is_its_text(void **state) {
    (void)state;
    markup_is(
        "<!DOCTYPE html><title>T</title><style>p{}</style><h1>A\n b</h1><p>c &amp; d&#233;&#x20ac;<br>e"
        "<script>if (a<b) x()</script></p><!-- <p>no</p> -->f",
        "T\nA b\nc & dé€\ne\nf\n");
    markup_is("<table><tr><td>1</td><td>2</td></tr><tr><th>3</th></tr></table>", "1\t2\n3\n");
    markup_is(
        "<w:p><w:r><w:t>First</w:t></w:r><w:r><w:t xml:space=\"preserve\"> line</w:t></w:r></w:p>"
        "<w:p><w:instrText>PAGE</w:instrText><w:r><w:t>x</w:t></w:r></w:p>",
        "First line\nx\n");
    markup_is("a &nosuch; &#xD800; &#; < b", "a &nosuch; &#xD800; &#; < b\n");
    markup_is("<script>never ends", "");
    assert_true(kt__markup_is("\n <!DOCTYPE html>", 17));
    assert_false(kt__markup_is("a <html> b", 10));
}

static kt_status read_one(const char *name, kt__documents *d, kt_error *err) {
    const char *items[] = {name};
    const kt__opt_texts files = {.items = (void *)items, .n = 1};
    return kt__documents_read(&files, d, err);
}

static void text_is(const char *name, const char *want) {
    kt__documents d;
    kt__buf out;
    kt_error err;
    die_on(read_one(name, &d, &err), &err);
    for (size_t i = 0; i < d.n_passages; i++) d.passages[i].chosen = true;
    kt__buf_init(&out, 1 << 20);
    kt__documents_write(&d, "why?", &out);
    (void)kt__buf_putc(&out, '\0');
    assert_string_equal(out.data, want);
    kt__buf_free(&out);
    kt__documents_free(&d);
}

static void kinds_are_read(void **state) {
    (void)state;
    text_is(put("a.md", "# A\n\ntext\n"), "[a.md]\n# A\n\ntext\n\nwhy?");
    text_is(put("a.html", "<p>one</p><p>two</p>"), "[a.html]\none\ntwo\n\nwhy?");
    put_program("pdftotext",
                "#!/bin/sh\n[ \"$4\" != - ] && printf 'first page\\n\\f\\fthird\\n\\f'\n");
    text_is(put("a.PDF", "%PDF"), "[a.PDF, page 1]\nfirst page\n\n[a.PDF, page 3]\nthird\n\nwhy?");
    put_program(
        "unzip",
        "#!/bin/sh\n[ \"$4\" = word/document.xml ] && echo '<w:p><w:t>of Word</w:t></w:p>'\n");
    text_is(put("a.docx", "PK"), "[a.docx]\nof Word\n\nwhy?");
}

static void refused(const char *name, const char *text) {
    kt__documents d;
    kt_error err;
    if (read_one(name, &d, &err) == KT_OK) fail_msg("%s is read", name);
    if (!strstr(err.message, text)) fail_msg("%s", err.message);
    kt__documents_free(&d);
}

static void what_cannot_be_read_is_said(void **state) {
    char old[256];
    (void)state;
    refused("/nonexistent/x.txt", "No such file");
    put_program("pdftotext", "#!/bin/sh\nexit 1\n");
    refused(put("b.pdf", "%PDF"), "cannot read it");
    put_program("pdftotext", "#!/bin/sh\nprintf '\\f\\f'\n");
    refused(put("b.pdf", "%PDF"), "its pages are pictures");
    put_program("unzip", "#!/bin/sh\nexit 9\n");
    refused(put("b.odt", "x"), "content.xml");
    refused(put("b.txt", "  \n"), "no text");
    snprintf(old, sizeof old, "%s", getenv("PATH"));
    setenv("PATH", "/nonexistent", 1);
    refused(put("b.pdf", "%PDF"), "apt-get install poppler-utils");
    setenv("PATH", old, 1);
}

/* Twenty pages of which one has the answer. */
static void passages_answer_the_question(void **state) {
    static char text[64 << 10];
    kt__documents d;
    kt_ctx *ctx;
    kt_model *model;
    kt_error err;
    int32_t n_all, n_chosen;
    size_t at = 0;
    (void)state;
    put_program("pdftotext", "#!/bin/sh\ncat \"$4\"\n");
    for (int page = 1; page <= 20; page++) {
        for (int i = 0; i < 40; i++)
            at += (size_t)snprintf(text + at, sizeof text - at,
                                   "Page %d speaks of trees and rain. ", page);
        if (page == 13)
            at += (size_t)snprintf(text + at, sizeof text - at,
                                   "The harbour's depth is nine metres.");
        text[at++] = '\f';
    }
    text[at] = '\0';
    const char *name = put("c.pdf", text);
    die_on(kt_ctx_open(NULL, &ctx, &err), &err);
    die_on(kt_model_open(ctx, KT_SOURCE_DIR "/src/lib/context/demo.gguf", NULL, &model, &err),
           &err);
    die_on(read_one(name, &d, &err), &err);
    die_on(kt__documents_count(&d, model, &n_all, &err), &err);
    assert_true(n_all > 4000);
    die_on(kt__documents_score(&d, "How deep is the HARBOUR, what depth?", &err), &err);
    die_on(kt__documents_choose(&d, 900, &n_chosen, &err), &err);
    assert_true(n_chosen <= 900 && n_chosen > 100);
    bool found = false;
    for (size_t i = 0; i < d.n_passages; i++)
        found |= d.passages[i].chosen && d.passages[i].page == 13 &&
                 memmem(d.passages[i].text, d.passages[i].len, "nine metres", 11);
    assert_true(found);
    /* what an encoder is nearest to comes in besides, and what both like most stays */
    double *nearness = kt__calloc(d.n_passages, sizeof *nearness);
    nearness[0] = 0.9;
    for (size_t i = 0; i < d.n_passages; i++)
        if (d.passages[i].page == 13 && d.passages[i].chosen) nearness[i] = 0.5;
    die_on(kt__documents_fuse(&d, nearness, &err), &err);
    die_on(kt__documents_choose(&d, 900, &n_chosen, &err), &err);
    assert_true(d.passages[0].chosen);
    found = false;
    for (size_t i = 0; i < d.n_passages; i++)
        found |= d.passages[i].chosen && d.passages[i].page == 13;
    assert_true(found);
    kt__free(nearness);
    assert_int_equal(kt__documents_choose(&d, 10, &n_chosen, &err), KT_E_CONTEXT_FULL);
    die_on(kt__documents_choose(&d, n_all, &n_chosen, &err), &err);
    assert_int_equal(n_chosen, n_all);
    kt__documents_free(&d);
    kt_model_close(model);
    kt_ctx_close(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markup_is_its_text),
        cmocka_unit_test(kinds_are_read),
        cmocka_unit_test(what_cannot_be_read_is_said),
        cmocka_unit_test(passages_answer_the_question),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
