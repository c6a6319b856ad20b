/* Answers held to a constraint: at every step of random answers the mask is what trying each token
 * of the vocabulary gives, for one form and many, behind triggers and again and again; what control
 * tokens stand for; what is refused; nothing is allocated on the way. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "heap_watch.h"
#include "sample/held.h"
#include "support.h"

enum { N = 3000, N_CONTROL = 6, N_BYTES = 95 + 64, MAX_LEN = 600, N_STEPS = 60 };

typedef struct words {
    char *s[N];
    size_t len[N];
    float logits[N], masked[N];
    uint32_t random;
    kt__held_vocab *vocab;
} words;

static uint32_t roll(words *w, uint32_t n) {
    return lcg_below(&w->random, n);
}

static const char *const controls[N_CONTROL] = {"<eos>", "<call>", "</call>",
                                                "<call", "<eot>",  "<pad>"};

static const char *const pieces[] = {
    "\"",  "\\",   "{",  "}",    "[",   "]",      ",",    ":",     " ",        "\n",
    "0",   "1",    "42", ".",    "-",   "e",      "true", "r",     "ue",       "alse",
    "n",   "null", "a",  "b",    "c",   "name",   "the",  " word", "\xc3\xa4", "\xe2",
    "<",   ">",    "/",  "call", "<t>", "</t>",   "t>",   "x=",    "\":\"",    "\",\"",
    "\"}", "{\"",  "}}", "]]",   "\\u", "<t>{\"", "t>x",  "}</",   "\xff",     "<t>x<t>{",
};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

static const char *word_bytes(void *ctx, int32_t id, size_t *len) {
    const words *w = ctx;
    *len = id < N_CONTROL ? 0 : w->len[id];
    return w->s[id];
}

static const char *word_name(void *ctx, int32_t id, size_t *len) {
    (void)ctx;
    *len = id < N_CONTROL ? strlen(controls[id]) : 0;
    return id < N_CONTROL ? controls[id] : "";
}

static bool word_ends(void *ctx, int32_t id) {
    (void)ctx;
    return id == 0 || id == 4;
}

static void make_word(words *w, int i) {
    char text[MAX_LEN];
    size_t len = 0;
    int piece = i - N_CONTROL, ascii = piece - N_PIECES;
    uint32_t n = roll(w, 60) == 0 ? 30 + roll(w, 60) : 1 + roll(w, 4);
    if (ascii < N_BYTES) n = 0;
    if (piece < N_PIECES)
        len = (size_t)snprintf(text, sizeof text, "%s", pieces[piece]);
    else if (ascii < N_BYTES)
        text[len++] = (char)(ascii < 95 ? 32 + ascii : 0x80 + ascii - 95);
    for (uint32_t k = 0; k < n; k++) {
        const char *p = pieces[roll(w, N_PIECES)];
        memcpy(text + len, p, strlen(p));
        len += strlen(p);
    }
    w->s[i] = malloc(len + 1);
    memcpy(w->s[i], text, len);
    w->s[i][len] = '\0';
    w->len[i] = len;
}

static void *make_words(void) {
    words *w = calloc(1, sizeof *w);
    w->random = 11;
    for (int i = N_CONTROL; i < N; i++) make_word(w, i);
    const kt__held_vocab_source source = {word_bytes, word_name, word_ends, w, N};
    assert_int_equal(kt__held_vocab_create(&source, &w->vocab, NULL), KT_OK);
    assert_true(kt__held_vocab_bytes(w->vocab) > N);
    return w;
}

static void free_words(words *w) {
    for (int i = N_CONTROL; i < N; i++) free(w->s[i]);
    kt__held_vocab_free(w->vocab);
    free(w);
}

#define TEXT(s) .text = (s), .len = sizeof(s) - 1

static const char schema_a[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"n\":{\"type\":"
    "\"integer\"}},\"required\":[\"name\"],\"additionalProperties\":false}";

static const kt_form any[] = {{.kind = KT_FORM_JSON_OBJECT}};
static const kt_form spaced[] = {{.kind = KT_FORM_JSON_SCHEMA, TEXT(schema_a), .blanks = true}};
static const kt_form number[] = {
    {.kind = KT_FORM_JSON_SCHEMA, TEXT("{\"type\":\"integer\"}"), .before = "x=", .after = "<t>"}};
static const char *const names[] = {"a", "name", "the word"};
static const kt_form several[] = {
    {.kind = KT_FORM_JSON_SCHEMA, TEXT(schema_a), .before = "{\"a\":", .after = "}"},
    {.kind = KT_FORM_REGEX, TEXT("[a-c]+"), .before = "{\"b\":\"", .after = "\"}</call>"},
    {.kind = KT_FORM_GRAMMAR, TEXT("root ::= \"1\" root | \"2\""), .before = "{\"c\":"},
    {.kind = KT_FORM_CHOICE, .choices = names, .n_choices = 3, .before = "<call>"},
};
static const kt_form pattern[] = {{.kind = KT_FORM_REGEX, TEXT("(a|b| word)*c?")}};
static const char *const triggers[] = {"<t>", "<call>"};

static const kt_constraint cases[] = {
    {.forms = any, .n_forms = 1},
    {.forms = spaced, .n_forms = 1},
    {.forms = number, .n_forms = 1},
    {.forms = several, .n_forms = 4},
    {.forms = several, .n_forms = 4, .repeat = true},
    {.forms = pattern, .n_forms = 1},
    {.forms = any, .n_forms = 1, .triggers = triggers, .n_triggers = 1},
    {.forms = several, .n_forms = 3, .triggers = triggers, .n_triggers = 2, .repeat = true},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void fill_logits(words *w) {
    for (int i = 0; i < N; i++) w->logits[i] = (float)roll(w, 1000);
}

/* Some token that fits, by preference a short one: one that leads on. */
static int32_t choose(words *w) {
    for (int tries = 0; tries < 4000; tries++) {
        int32_t id = (int32_t)roll(w, tries < 2000 ? N_CONTROL + N_PIECES : N);
        if (isfinite(w->masked[id])) return id;
    }
    for (int32_t id = 0; id < N; id++)
        if (isfinite(w->masked[id])) return id;
    return -1;
}

static void check_mask(words *w, kt__held *h) {
    kt_error err = {0};
    fill_logits(w);
    heap_begin(1, LONG_MAX);
    kt_status status = kt__held_mask(h, w->logits, w->masked, &err);
    long n_failed = heap.n_failed;
    heap_end();
    if (status != KT_OK) fail_msg("%s", err.message);
    assert_int_equal(n_failed, 0);
    for (int32_t id = 0; id < N; id++) {
        bool fits = kt__held_takes(h, id);
        if (fits != isfinite(w->masked[id])) fail_msg("token %d \"%s\"", id, w->s[id]);
        if (fits) assert_true(w->masked[id] == w->logits[id]);
        if (kt__held_is_free(h)) assert_true(fits);
    }
}

/* What is expected is taken; and nothing else but where it begins with a blank, which another text may lack. */
static void check_likely(words *w, kt__held *h) {
    char text[64];
    size_t n = kt__held_expected(h, text, sizeof text);
    int32_t first;
    if (n == 0) return;
    if (kt__held_cut(h, text, n, &first, 1) == 1 && !isfinite(w->masked[first]))
        fail_msg("token %d of %.*s is not taken", first, (int)n, text);
    size_t sure = strcspn(text, " \n") < n ? strcspn(text, " \n") : n;
    for (int32_t id = 0; sure && id < N; id++) {
        if (!isfinite(w->masked[id])) continue;
        size_t m = w->len[id] < sure ? w->len[id] : sure;
        if (id < N_CONTROL || memcmp(w->s[id], text, m) != 0)
            fail_msg("token %d where %.*s is expected", id, (int)n, text);
    }
}

/* The tokens of a way to the end are taken, one after the other, and the text may end there. */
static void check_finish(words *w, const kt_constraint *what, const int32_t *ids, int n) {
    kt__constraint *c;
    kt__held *h;
    int32_t way[8];
    kt_error err = {0};
    if (kt__constraint_create(what, w->vocab, &c, &err) != KT_OK) fail_msg("%s", err.message);
    assert_int_equal(kt__held_create(c, &h, NULL), KT_OK);
    for (int i = 0; i < n; i++) kt__held_push(h, ids[i]);
    size_t left = kt__held_finish(h, -1, way, 8);
    if (left == SIZE_MAX) fail_msg("%s", "no way to the end");
    for (; left > 0; left--) {
        assert_true(kt__held_takes(h, way[0]));
        size_t then = kt__held_finish(h, way[0], way + 1, 7);
        kt__held_push(h, way[0]);
        assert_true(then < left);
        assert_int_equal(kt__held_finish(h, -1, way, 8), then);
        left = then + 1;
    }
    assert_true(kt__held_over(h) || kt__held_takes(h, 0));
    kt__held_free(h);
    kt__constraint_free(c);
}

static int walk_once(words *w, const kt_constraint *what) {
    kt__constraint *c;
    kt__held *h;
    kt_error err = {0};
    int32_t ids[N_STEPS];
    int n = 0;
    if (kt__constraint_create(what, w->vocab, &c, &err) != KT_OK) fail_msg("%s", err.message);
    assert_true(kt__constraint_bytes(c) < 64 << 20);
    assert_int_equal(kt__held_create(c, &h, NULL), KT_OK);
    while (n < N_STEPS && !kt__held_over(h)) {
        check_mask(w, h);
        check_likely(w, h);
        if (n % 5 == 0) check_finish(w, what, ids, n);
        int32_t id = choose(w);
        if (id < 0 || word_ends(w, id)) break;
        kt__held_push(h, id);
        ids[n++] = id;
    }
    kt__held_free(h);
    kt__constraint_free(c);
    return n;
}

static void test_masks_are_what_trying_gives(void **state) {
    words *w = *state;
    for (int i = 0; i < N_CASES; i++) {
        int n = 0;
        for (int k = 0; k < 12; k++) n += walk_once(w, &cases[i]);
        if (n < 12) fail_msg("case %d: %d tokens", i, n);
    }
}

/* ---- what a text comes to ---- */

static kt__held *held_to(words *w, const kt_constraint *what, kt__constraint **c) {
    kt__held *h;
    kt_error err = {0};
    if (kt__constraint_create(what, w->vocab, c, &err) != KT_OK) fail_msg("%s", err.message);
    assert_int_equal(kt__held_create(*c, &h, NULL), KT_OK);
    return h;
}

static int32_t word(const words *w, const char *text) {
    for (int32_t id = 0; id < N_CONTROL; id++)
        if (!strcmp(controls[id], text)) return id;
    for (int32_t id = N_CONTROL; id < N; id++)
        if (!strcmp(w->s[id], text)) return id;
    fail_msg("no token %s", text);
    return -1;
}

/* Which of the words of a row is the first that is not taken; their number where all are. */
static int first_refused(words *w, kt__held *h, const char *const *row) {
    int n = 0;
    for (; row[n]; n++) {
        int32_t id = word(w, row[n]);
        if (!kt__held_takes(h, id)) return n;
        if (!word_ends(w, id)) kt__held_push(h, id);
    }
    return n;
}

#define ROW(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_refused(words *w, int which, const char *const *row, int at, bool over) {
    kt__constraint *c;
    kt__held *h = held_to(w, &cases[which], &c);
    assert_int_equal(first_refused(w, h, row), at);
    assert_int_equal(kt__held_over(h), over);
    kt__held_free(h);
    kt__constraint_free(c);
}

static void test_texts(void **state) {
    words *w = *state;
    expect_refused(w, 0, ROW("{", "\"", "a", "\":\"", "b", "\"}"), 6, true);
    expect_refused(w, 0, ROW("{", "<eos>"), 1, false);
    expect_refused(w, 0, ROW("{", " ", " "), 2, false); /* one space, and none before an end */
    expect_refused(w, 0, ROW("{", " ", "}"), 2, false);
    expect_refused(w, 1, ROW("{", " ", "\"", "name", "\"", ":", " "), 7, false);
    expect_refused(w, 1, ROW("{", "\"", "n", "\""), 3, false); /* in the order of the schema */
    expect_refused(w, 2, ROW("x=", "-", "42", "<t>"), 4, true);
    expect_refused(w, 2, ROW("x=", "42", "<eos>"), 2, false); /* the text after it is missing */
    expect_refused(w, 5, ROW("a", "b", "<eos>"), 3, false);
    expect_refused(w, 5, ROW("c", "c"), 1, true);
    /* free until the trigger, whatever comes; then the form, and the end */
    expect_refused(w, 6, ROW("}", "<call>", "<", "<", "t>", "{", "}"), 7, true);
    expect_refused(w, 6, ROW("}", "<", "t>", "}"), 3, false);
    expect_refused(w, 6, ROW("<", "t>x"), 1, false);
    expect_refused(w, 6, ROW("<t>{\"", "a", "\":\""), 3, false);
    expect_refused(w, 6, ROW("t>", "<eos>"), 2, false);
    expect_refused(w, 6, ROW("<t>", "<eos>"), 1, false);
}

static void test_control_tokens_stand_for_their_names(void **state) {
    words *w = *state;
    expect_refused(w, 3, ROW("<call>", "the", " word", "a"), 3, true);
    expect_refused(w, 3, ROW("<", "call"), 0, false); /* its name is no text */
    expect_refused(w, 3, ROW("{\"", "b", "\":\"", "a", "\"}", "</call>"), 6, true);
    expect_refused(w, 3, ROW("{\"", "b", "\":\"", "a", "\"}", "<eos>"), 5, false);
    /* once more, or the end */
    expect_refused(w, 4, ROW("<call>", "name", "<call>", "a", "<eos>"), 5, false);
    /* free again behind each */
    expect_refused(w, 7, ROW("<call>", "{\"", "c", "\"", ":", "1", "1"), 7, false);
}

/* ---- a value in free text, by the caller's word ---- */

#define VALUE_SCHEMAS                                                                      \
    "{\"prefixItems\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}," \
    "\"name\":{\"type\":\"string\"}},\"required\":[\"a\"]}],\"pieces\":[\"x=\",{\"json\":0}]}"
static const kt_form value_form[] = {{.kind = KT_FORM_PIECES, TEXT(VALUE_SCHEMAS)}};

static void walk_value(words *w, const kt_constraint *what, uint32_t indent) {
    kt__constraint *c;
    kt__held *h = held_to(w, what, &c);
    kt__held_push(h, word(w, "b"));
    assert_true(kt__held_takes(h, word(w, "}")));
    heap_begin(1, LONG_MAX);
    kt__held_begin_value(h, 0, false, indent, "", 0);
    long n_failed = heap.n_failed;
    heap_end();
    assert_int_equal(n_failed, 0);
    assert_false(kt__held_takes(h, word(w, "b")));
    assert_false(kt__held_takes(h, 0)); /* nor may the answer end */
    for (int n = 0; n < 40 && !kt__held_is_free(h); n++) {
        check_mask(w, h);
        int32_t id = choose(w);
        assert_true(id >= 0);
        kt__held_push(h, id);
    }
    kt__held_free(h);
    kt__constraint_free(c);
}

static void test_values_in_free_text(void **state) {
    words *w = *state;
    static const char *const trigger[] = {"<t>"};
    const kt_constraint calls = {
        .forms = value_form, .n_forms = 1, .triggers = trigger, .n_triggers = 1, .repeat = true};
    for (uint32_t i = 0; i < 40; i++) walk_value(w, &calls, i % 4);
    kt__constraint *c;
    kt__held *h = held_to(w, &calls, &c);
    kt__held_begin_value(h, 0, false, 0, " {\"", 3);
    static const char *const row[] = {"a", "\"", ":", "1", "}", "b", "<t>", "x=", "{", NULL};
    assert_int_equal(first_refused(w, h, row), 9); /* free again, and its trigger counts */
    assert_false(kt__held_takes(h, word(w, "b")));
    kt__held_free(h);
    h = NULL;
    assert_int_equal(kt__held_create(c, &h, NULL), KT_OK);
    kt__held_begin_value(h, 0, false, 0, "[", 1); /* does not fit: nothing happens */
    assert_true(kt__held_is_free(h) || kt__held_takes(h, word(w, "b")));
    kt__held_free(h);
    kt__constraint_free(c);
}

/* A later text ends where it is whole; what follows is free. */
static void test_later_texts(void **state) {
    words *w = *state;
    static const char *const trigger[] = {"<t>"};
    static const kt_form form[] = {
        {.kind = KT_FORM_PIECES,
         TEXT(
             "{\"prefixItems\":[{\"type\":\"integer\"}],\"pieces\":[\"x=\",{\"json\":0}],\"later\":"
             "[[\"b\"],[\"a\",{\"any\":[\"\",\" \"]},{\"json\":0},\"}\"]]}")}};
    const kt_constraint calls = {
        .forms = form, .n_forms = 1, .triggers = trigger, .n_triggers = 1, .repeat = true};
    kt__constraint *c;
    kt__held *h = held_to(w, &calls, &c);
    kt__held_begin_value(h, 2, true, 0, "a", 1); /* there is none of this number */
    assert_true(kt__held_takes(h, word(w, "b")));
    kt__held_begin_value(h, 1, true, 0, "b", 1); /* does not fit */
    assert_true(kt__held_takes(h, word(w, "b")));
    kt__held_begin_value(h, 1, true, 0, "a", 1);
    check_mask(w, h);
    assert_false(kt__held_takes(h, word(w, "b")));
    assert_false(kt__held_takes(h, 0));
    static const char *const row[] = {"1", "1", "}", "b", "<t>", "x=", "1", NULL};
    assert_int_equal(first_refused(w, h, row), 7); /* free after it, and the trigger counts */
    kt__held_free(h);
    kt__constraint_free(c);
}

static void test_refusals(void **state) {
    words *w = *state;
    static const kt_form bad_schema = {.kind = KT_FORM_JSON_SCHEMA,
                                       TEXT("{\"properties\":{\"a\":{\"format\":1}}}")},
                         bad_regex = {.kind = KT_FORM_REGEX, TEXT("a(")},
                         no_text = {.kind = KT_FORM_GRAMMAR}, no_choice = {.kind = KT_FORM_CHOICE},
                         unknown = {.kind = (kt_form_kind)77};
    static const char *const empty[] = {""};
    static const struct {
        kt_constraint what;
        kt_status status;
        const char *where;
    } rows[] = {
        {{.forms = &bad_schema, .n_forms = 1},
         KT_E_FORMAT,
         "constraint.forms[0]/properties/a/format"},
        {{.forms = &bad_regex, .n_forms = 1}, KT_E_FORMAT, NULL},
        {{.forms = &no_text, .n_forms = 1}, KT_E_ARG, NULL},
        {{.forms = &no_choice, .n_forms = 1}, KT_E_ARG, NULL},
        {{.forms = &unknown, .n_forms = 1}, KT_E_ARG, NULL},
        {{.forms = any, .n_forms = 0}, KT_E_LIMIT, NULL},
        {{.forms = any, .n_forms = 257}, KT_E_LIMIT, NULL},
        {{.forms = any, .n_forms = 1, .triggers = empty, .n_triggers = 1}, KT_E_ARG, NULL},
        {{.forms = any, .n_forms = 1, .triggers = empty, .n_triggers = 65}, KT_E_LIMIT, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kt__constraint *c = (void *)w;
        kt_error err = {0};
        kt_status status = kt__constraint_create(&rows[i].what, w->vocab, &c, &err);
        if (status != rows[i].status) fail_msg("row %zu: %d %s", i, (int)status, err.message);
        assert_null(c);
        if (rows[i].where) assert_string_equal(err.where, rows[i].where);
        assert_true(err.message[0]);
    }
}

int main(void) {
    words *w = make_words();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_masks_are_what_trying_gives, w),
        cmocka_unit_test_prestate(test_texts, w),
        cmocka_unit_test_prestate(test_control_tokens_stand_for_their_names, w),
        cmocka_unit_test_prestate(test_values_in_free_text, w),
        cmocka_unit_test_prestate(test_later_texts, w),
        cmocka_unit_test_prestate(test_refusals, w),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_words(w);
    return failed;
}
