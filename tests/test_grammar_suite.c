/* Cases of the JSON Schema Test Suite (tests/grammar): a constraint takes every valid instance, refuses
 * every invalid one, whole and byte by byte, and names the keyword that it cannot enforce. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "grammar_fixture.h"
#include "support.h"

#define CASES KT_SOURCE_DIR "/tests/grammar/"

enum { LEAST_SCHEMAS = 30, LEAST_TEXTS = 80 }; /* of a file: one that was cut short is no success */

typedef struct suite_reader {
    const char *path;
    kt__grammar *grammar; /* of the last schema; NULL: refused, or none was read yet */
    kt__refusal why;
    kt_status status;
    bool judged; /* the last schema has a line of verdict */
    size_t line, schemas, texts;
} suite_reader;

/* The same verdict as fits(), with one byte a call. */
static bool fits_by_bytes(kt__grammar *g, const char *text) {
    kt__gstate s;
    kt__grammar_start(g, &s);
    for (; *text; text++) {
        size_t one = 1;
        if (!kt__grammar_feed(g, &s, text, &one)) return false;
    }
    return kt__grammar_accepts(g, &s);
}

static void end_schema(suite_reader *r) {
    if (r->schemas > 0 && !r->judged) fail_msg("%s:%zu: no verdict before it", r->path, r->line);
    kt__grammar_free(r->grammar);
    r->grammar = NULL;
}

static void begin_schema(suite_reader *r, const char *schema) {
    end_schema(r);
    r->judged = false;
    r->schemas++;
    r->why = (kt__refusal){0};
    r->status = compile_text(KT__GRAMMAR_SCHEMA, schema, &r->grammar, &r->why, NULL);
}

static void check_text(suite_reader *r, const char *text, bool valid) {
    r->judged = true;
    r->texts++;
    if (!r->grammar)
        fail_msg("%s:%zu: the schema is refused at %s: %s", r->path, r->line, r->why.pointer,
                 r->why.why);
    if (fits(r->grammar, text) != valid)
        fail_msg("%s:%zu: %s is %s", r->path, r->line, text, valid ? "refused" : "accepted");
    if (fits_by_bytes(r->grammar, text) != valid)
        fail_msg("%s:%zu: byte by byte %s is %s", r->path, r->line, text,
                 valid ? "refused" : "accepted");
}

static void check_refused(suite_reader *r, const char *keyword) {
    r->judged = true;
    if (r->status != KT_E_UNSUPPORTED || strcmp(r->why.keyword, keyword) != 0)
        fail_msg("%s:%zu: status %d, keyword \"%s\" at %s: %s", r->path, r->line, (int)r->status,
                 r->why.keyword, r->why.pointer, r->why.why);
    assert_null(r->grammar);
    assert_true(r->why.why[0] != '\0');
}

/* What is after the word, or NULL if the line begins with another one. */
static const char *after_word(const char *line, const char *word) {
    size_t n = strlen(word);
    return strncmp(line, word, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

static void read_line(suite_reader *r, const char *line) {
    const char *rest;
    if (line[0] == '\0' || line[0] == '#') return;
    if ((rest = after_word(line, "schema")))
        begin_schema(r, rest);
    else if ((rest = after_word(line, "valid")))
        check_text(r, rest, true);
    else if ((rest = after_word(line, "invalid")))
        check_text(r, rest, false);
    else if ((rest = after_word(line, "refused")))
        check_refused(r, rest);
    else if (strcmp(line, "impossible") == 0)
        check_refused(r, ""); /* no text fits: no one keyword is to blame */
    else
        fail_msg("%s:%zu: not a line of cases: %s", r->path, r->line, line);
}

static void test_cases_of(void **state) {
    char path[1024];
    suite_reader r = {.path = path};
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    snprintf(path, sizeof path, CASES "%s", (const char *)*state);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s cannot be read", path);
    while ((len = getline(&line, &cap, f)) > 0) {
        r.line++;
        if (line[len - 1] == '\n') line[len - 1] = '\0';
        read_line(&r, line);
    }
    end_schema(&r);
    free(line);
    fclose(f);
    assert_true(r.schemas >= LEAST_SCHEMAS && r.texts >= LEAST_TEXTS);
}

#define CASES_OF(file) \
    { "cases of " file, test_cases_of, NULL, NULL, file }

int main(void) {
    const struct CMUnitTest tests[] = {
        CASES_OF("values.txt"),
        CASES_OF("objects.txt"),
        CASES_OF("arrays.txt"),
        CASES_OF("combinations.txt"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
