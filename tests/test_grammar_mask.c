/* The mask is exactly the tokens that feeding takes, wherever a text may stand: along random walks
 * through several constraints, with a vocabulary of awkward pieces, also when memory is scarce. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "grammar/grammar_impl.h"
#include "grammar_fixture.h"

enum { N = 3000, MAX_LEN = 300, STEPS = 60 };

typedef struct words {
    char *s[N];
    size_t len[N];
    uint32_t random;
} words;

static uint32_t roll(words *w, uint32_t n) {
    w->random = w->random * 1664525u + 1013904223u;
    return (w->random >> 8) % n;
}

static const char *bytes(void *ctx, int32_t id, size_t *len) {
    const words *w = ctx;
    *len = w->len[id];
    return w->s[id];
}

static const char *const pieces[] = {
    "\"",       "\\",       "{",    "}",      "[",     "]",    ",",        ":",        " ",
    "\n",       "\t",       "0",    "1",      "42",    ".",    "-",        "e",        "true",
    "nul",      "l",        "u",    "00",     "a",     "b",    "ab",       "kind",     "name",
    "x-",       "word",     " the", "\x01",   "\xc3",  "\xa4", "\xc3\xa4", "\xe2\x82", "\xac",
    "\xf0\x9f", "\x98\x80", "\xff", "\": \"", "\",\"", "\"}",  "{\"",      "\\u",      "d83d",
    "\\ude",    "\\n",      "\\\"", "\": ",   "\":",
};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

static words *make_words(void) {
    words *w = calloc(1, sizeof *w);
    w->random = 7;
    for (int i = 0; i < N; i++) {
        char text[MAX_LEN];
        size_t len = 0;
        uint32_t n = roll(w, 50) == 0 ? 20 + roll(w, 20) : roll(w, 5);
        for (uint32_t k = 0; k < n && i >= N_PIECES; k++) {
            const char *p = pieces[n > 8 && roll(w, 9) ? 22 + roll(w, 8) : roll(w, N_PIECES)];
            memcpy(text + len, p, strlen(p));
            len += strlen(p);
        }
        if (i < N_PIECES) memcpy(text, pieces[i], len = strlen(pieces[i]));
        w->s[i] = malloc(len + 1);
        memcpy(w->s[i], text, len);
        w->len[i] = len;
    }
    return w;
}

static size_t compare(const words *w, kt__grammar *g, const kt__gstate *state,
                      const uint64_t *bits) {
    size_t n_fit = 0;
    for (int32_t id = 0; id < N; id++) {
        kt__gstate s = *state;
        size_t n = w->len[id];
        bool may = n > 0 && kt__grammar_feed(g, &s, w->s[id], &n);
        if (kt__grammar_status(g) != KT_OK) return 0;
        if (may != (bits[id / 64] >> id % 64 & 1))
            fail_msg("mode %d, lex %d: token %d \"%.*s\"", state->mode, state->lex, (int)id,
                     (int)w->len[id], w->s[id]);
        n_fit += may;
    }
    return n_fit;
}

/* A token that may follow; often one that ends something. */
static int32_t choose(words *w, const uint64_t *bits) {
    for (;;) {
        int32_t id = (int32_t)roll(w, roll(w, 2) ? N_PIECES : N);
        if (bits[id / 64] >> id % 64 & 1) return id;
        if (roll(w, 400) != 0) continue;
        for (id = 0; id < N; id++)
            if (bits[id / 64] >> id % 64 & 1) return id;
    }
}

static void walk(words *w, kt__grammar *g, uint64_t *bits, bool scarce) {
    kt__gstate s;
    kt__grammar_start(g, &s);
    for (int step = 0; step < STEPS; step++) {
        kt_status status = kt__gmask_fill(g, &s, bits, NULL);
        if (scarce && status == KT_E_LIMIT) return;
        assert_int_equal(status, KT_OK);
        if (compare(w, g, &s, bits) == 0) break;
        int32_t id = choose(w, bits);
        size_t n = w->len[id];
        if (!kt__grammar_feed(g, &s, w->s[id], &n)) {
            assert_true(scarce && kt__grammar_status(g) == KT_E_LIMIT);
            return;
        }
    }
}

typedef struct constraint {
    kt__grammar_kind kind;
    const char *text;
} constraint;

static const constraint constraints[] = {
    {KT__GRAMMAR_SCHEMA, "{\"type\":\"object\"}"},
    {KT__GRAMMAR_SCHEMA, "{\"type\":\"object\",\"properties\":{\"kind\":{\"enum\":[\"a\",\"ab\",1]}"
                         ",\"name\":{\"maxLength\":5}},\"required\":[\"kind\",\"name\"]}"},
    {KT__GRAMMAR_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":40,"
     "\"pattern\":\"^[a-z ]+$\"},\"uniqueItems\":true,\"minItems\":2}"},
    {KT__GRAMMAR_SCHEMA,
     "{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"integer\"},\"a\":{"
     "\"minimum\":3}},\"properties\":{\"name\":{\"type\":\"string\",\"pattern\":\"^(a|b){2,60}$\"}}"
     ",\"additionalProperties\":false}"},
    {KT__GRAMMAR_SCHEMA, "{\"type\":\"object\",\"patternProperties\":{\"b$\":{\"type\":\"null\"}},"
                         "\"additionalProperties\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":"
                         "\"array\",\"items\":{\"not\":{\"type\":\"string\"}}}]}}"},
    {KT__GRAMMAR_SCHEMA, "{\"oneOf\":[{\"properties\":{\"kind\":{\"const\":\"a\"}},\"required\":["
                         "\"kind\"]},{\"properties\":{\"kind\":{\"pattern\":\"b\"}},\"required\":["
                         "\"kind\"],\"type\":\"object\"}]}"},
    {KT__GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^(?:\\\\S+\\\\s+){0,40}\\\\S+$\"}"},
    {KT__GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^(?:\\\\S+\\\\s+){0,40}\\\\S+$\","
                         "\"minLength\":2,\"maxLength\":9}"},
    {KT__GRAMMAR_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^(?:[a-z]+ ){3,70}b$\",\"maxLength\":90}"},
    {KT__GRAMMAR_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^([a-b]|\\u00e4.{4}|\\n\\\\\\\\)*$\",\"minLength\":3,"
     "\"maxLength\":8}"},
    {KT__GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[^a]{0,9}$|^a[\\\\s\\\\S]{3,5}$\","
                         "\"minLength\":2,\"maxLength\":6}"},
    {KT__GRAMMAR_SCHEMA,
     "{\"type\":\"string\",\"pattern\":\"^(ab|\\u00e4\\u00e4)*$\",\"maxLength\":5,"
     "\"not\":{\"const\":\"abab\"}}"},
    {KT__GRAMMAR_SCHEMA,
     "{\"propertyNames\":{\"pattern\":\"^[a-z]+(-[a-z]+){1,9}$\",\"maxLength\":20},"
     "\"patternProperties\":{\"^x-\":{\"type\":\"integer\"}}}"},
    {KT__GRAMMAR_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"ab\",\"b\",\"kind\",\"name\"]},"
     "\"uniqueItems\":true,\"minItems\":4}"},
    {KT__GRAMMAR_GBNF, "root ::= \"{\" pair (\",\" pair)* \"}\"\npair ::= \"\\\"\" [a-z]{1,9} "
                       "\"\\\":\" ([0-9]+ | root)\n"},
    {KT__GRAMMAR_PIECES,
     "{\"prefixItems\":[{\"type\":\"number\"},{\"type\":\"object\"},{\"pattern\":\"^[a-z ]*$\"}],"
     "\"pieces\":[\"{\",{\"each\":[[\"a\",{\"json\":0}],[\"b\",{\"text\":2,\"until\":\"}\"},\"}\"],"
     "[\"name\",{\"json\":1}]],\"must\":[0],\"with\":\",\"},\"]\"]}"},
    {KT__GRAMMAR_PIECES,
     "{\"prefixItems\":[{}],\"pieces\":{\"some\":{\"any\":[{\"json\":0},[\"x\",{\"until\":"
     "\"ab\"},\"ab\"]]},\"with\":\" \",\"min\":1}}"},
    {KT__GRAMMAR_REGEX, "[a-z ]*(\\{[^}]*\\}|\\d{2,})+"},
};

static void test_masks_are_exact(void **state) {
    words *w = make_words();
    const kt__gvocab_source source = {bytes, w, N};
    kt__gvocab *v;
    (void)state;
    assert_int_equal(kt__gvocab_create(&source, &v, NULL), KT_OK);
    uint64_t *bits = calloc(v->n_words, sizeof *bits);
    for (size_t i = 0; i < sizeof constraints / sizeof *constraints; i++) {
        kt__grammar *g = must_compile(constraints[i].kind, constraints[i].text);
        assert_int_equal(kt__gmask_attach(g, v, NULL), KT_OK);
        for (int k = 0; k < 6; k++) {
            if (k == 3) g->t.pool.cap = 2 * g->t.pool.n - 16; /* walks are forgotten */
            walk(w, g, bits, k >= 3);
        }
        kt__grammar_free(g);
    }
    free(bits);
    kt__gvocab_free(v);
    for (int i = 0; i < N; i++) free(w->s[i]);
    free(w);
}

/* A name that nothing bounds ends before its greatest length: tokens that would make it longer are left out, those that
 * end it are not. */
static void test_long_names_end(void **state) {
    words *w = make_words();
    const kt__gvocab_source source = {bytes, w, N};
    kt__gvocab *v;
    kt__gstate s;
    char name[900];
    (void)state;
    assert_int_equal(kt__gvocab_create(&source, &v, NULL), KT_OK);
    uint64_t *bits = calloc(v->n_words, sizeof *bits);
    kt__grammar *g = must_compile(KT__GRAMMAR_SCHEMA, "{\"type\":\"object\"}");
    assert_int_equal(kt__gmask_attach(g, v, NULL), KT_OK);
    kt__grammar_start(g, &s);
    size_t n = (size_t)snprintf(name, sizeof name, "{\"%0700d", 0);
    assert_true(kt__grammar_feed(g, &s, name, &n));
    for (int32_t longer = 0; longer < 2; longer++) {
        int32_t quote = 0, letter = 22;
        assert_string_equal(pieces[letter], "a");
        assert_int_equal(kt__gmask_fill(g, &s, bits, NULL), KT_OK);
        assert_true(bits[0] >> quote & 1);
        assert_int_equal(bits[0] >> letter & 1, !longer);
        n = 100;
        assert_true(kt__grammar_feed(g, &s, name + 2, &n));
    }
    kt__grammar_free(g);
    free(bits);
    kt__gvocab_free(v);
    for (int i = 0; i < N; i++) free(w->s[i]);
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks_are_exact),
                                       cmocka_unit_test(test_long_names_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
