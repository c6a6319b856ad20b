/* SentencePiece-type merging against the slow way; prefix space, byte fallback, unknown text. */
#include "tokenizer_vocab.h"

#include "base/clock.h"

static small_vocab sv;

static size_t random_text(char *out, size_t cap) {
    static const char *const parts[] = {" ",   "the", "and",      "a",  "b", "ab",           "  ",
                                        "ing", "s",   "\xc3\xa9", "\n", "x", "\xe4\xb8\xad", LB,
                                        "aaa", "bab", "\xff",     "on."};
    size_t n = 0;
    for (size_t k = rng(rng(5) ? 20 : 80); k > 0; k--) {
        const char *p = parts[rng(sizeof parts / sizeof *parts)];
        if (n + strlen(p) > cap) break;
        memcpy(out + n, p, strlen(p));
        n += strlen(p);
    }
    return n;
}

/* The text as the reference wants it: U+2581 for spaces, and one before. */
static size_t escape(const char *s, size_t len, bool prefix, char *out) {
    size_t n = 0;
    if (prefix && len) {
        memcpy(out, LB, 3);
        n = 3;
    }
    for (size_t i = 0; i < len; i++) {
        if (s[i] != ' ') {
            out[n++] = s[i];
            continue;
        }
        memcpy(out + n, LB, 3);
        n += 3;
    }
    return n;
}

static void compare_all(bool prefix) {
    kt__tokenizer *tok = tok_open(&sv);
    for (int t = 0; t < 1500; t++) {
        char s[300], escaped[1000];
        int32_t expected[1000];
        size_t len = random_text(s, sizeof s);
        size_t n = spm_reference(&sv, escaped, escape(s, len, prefix, escaped), expected);
        assert_encodes(tok, s, len, 0, expected, n);
    }
    kt__tokenizer_free(tok);
}

static void test_reference(void **state) {
    (void)state;
    spm_vocab(&sv, true);
    compare_all(true);
    sv.v.add_space_prefix = 0;
    compare_all(false);
}

/* A token with a space inside: words cannot be merged one by one any more. */
static void test_inner_space(void **state) {
    (void)state;
    spm_vocab(&sv, true);
    sv.scores[vocab_add_plain(&sv, "s" LB, KT__TOK_NORMAL)] = 5;
    sv.scores[vocab_add_plain(&sv, "s" LB "the", KT__TOK_NORMAL)] = 4;
    compare_all(true);
}

static void test_prefix_and_bos(void **state) {
    (void)state;
    spm_vocab(&sv, true);
    kt__tokenizer *tok = tok_open(&sv);
    int32_t bos = vocab_id(&sv, "<s>"), eos = vocab_id(&sv, "</s>"), user = vocab_id(&sv, "<user>");
    int32_t the = vocab_id(&sv, LB "the"), lb = vocab_id(&sv, LB), nl = vocab_id(&sv, "<0x0A>");
    assert_true(kt__tokenizer_add_bos(tok));
    ENCODES(tok, "the", KT_TOK_ADD_SPECIAL, bos, the);
    ENCODES(tok, " the", 0, lb, the);
    ENCODES(tok, "\n", 0, lb, nl);
    assert_encodes(tok, "", 0, KT_TOK_ADD_SPECIAL, &bos, 1);
    assert_encodes(tok, "", 0, 0, NULL, 0);
    /* a special token is followed by a prefix space, too */
    ENCODES(tok, "the</s>the<user>the", KT_TOK_PARSE_SPECIAL, the, eos, the, user, the);
    kt__tokenizer_free(tok);
}

/* Without byte tokens a run of unknown text is one unknown token. */
static void test_unknown(void **state) {
    (void)state;
    spm_vocab(&sv, false);
    kt__tokenizer *tok = tok_open(&sv);
    int32_t unk = 0, lb = vocab_id(&sv, LB), the = vocab_id(&sv, LB "the");
    ENCODES(tok, "xyz\xff the x", 0, lb, unk, the, lb, unk);
    ENCODES(tok, "xyz the xy", 0, lb, unk, the, lb, unk);
    kt__tokenizer_free(tok);
}

/* Control and byte tokens never come from merging, even where the text spells them. */
static void test_spelt_specials(void **state) {
    (void)state;
    spm_vocab(&sv, true);
    sv.scores[vocab_add_plain(&sv, "<s", KT__TOK_NORMAL)] = 9;
    vocab_add_plain(&sv, "<", KT__TOK_NORMAL);
    int32_t gt = vocab_add_plain(&sv, ">", KT__TOK_NORMAL), lt_s = vocab_id(&sv, "<s");
    kt__tokenizer *tok = tok_open(&sv);
    ENCODES(tok, "<s>", 0, vocab_id(&sv, LB), lt_s, gt);
    kt__tokenizer_free(tok);
}

static void test_round_trip(void **state) {
    (void)state;
    spm_vocab(&sv, true);
    for (int prefix = 0; prefix < 2; prefix++) {
        sv.v.add_space_prefix = prefix;
        kt__tokenizer *tok = tok_open(&sv);
        kt__ids ids;
        kt__buf out;
        kt_error err;
        kt__ids_init(&ids, SIZE_MAX);
        kt__buf_init(&out, SIZE_MAX / 2);
        for (int t = 0; t < 5000; t++) {
            char s[100];
            size_t len = rng(sizeof s);
            for (size_t i = 0; i < len; i++) s[i] = rng(2) ? " theandab."[rng(10)] : (char)rng(256);
            if (memmem(s, len, LB, 3)) continue; /* means a space */
            ids.len = 0;
            kt__buf_clear(&out);
            assert_int_equal(kt__tokenizer_encode(tok, s, len, 0, &ids, &err), KT_OK);
            assert_int_equal(kt__tokenizer_decode(tok, ids.data, ids.len, 0, &out, &err), KT_OK);
            assert_int_equal(out.len, len);
            if (len) assert_memory_equal(out.data, s, len);
        }
        kt__ids_free(&ids);
        kt__buf_free(&out);
        kt__tokenizer_free(tok);
    }
}

static void test_worst_cases(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    static const char *const units[] = {"a", " ", "ab", "the ", "\xe4\xb8\xad", "\xff", "b"};
    spm_vocab(&sv, true);
    sv.scores[vocab_add_plain(&sv, "b" LB "q", KT__TOK_NORMAL)] = -50; /* no splitting into words */
    kt__tokenizer *tok = tok_open(&sv);
    char *s = malloc(N + 16);
    assert_non_null(s);
    int64_t begin = kt__now_us();
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        kt__ids ids;
        kt_error err;
        size_t len = 0, n = strlen(units[u]);
        for (; len < N; len += n) memcpy(s + len, units[u], n);
        kt__ids_init(&ids, SIZE_MAX);
        assert_int_equal(kt__tokenizer_encode(tok, s, len, 0, &ids, &err), KT_OK);
        kt__ids_free(&ids);
    }
    assert_true(kt__now_us() - begin < 60 * 1000000LL);
    free(s);
    kt__tokenizer_free(tok);
}

/* Gemma 4: the first of a list of merges, over lines; a run of line ends that is a token is that token. */
static void test_merges_over_lines(void **state) {
    (void)state;
    static const char *const texts[] = {"a b", "b c", LB " ab", "\n \n", LB " " LB};
    kt_error err;
    spm_vocab(&sv, true);
    sv.v.model = "gemma4";
    sv.v.scores = NULL;
    int32_t c = vocab_add_plain(&sv, "c", KT__TOK_NORMAL), nl = vocab_id(&sv, "<0x0A>");
    int32_t bc = vocab_add_plain(&sv, "bc", KT__TOK_NORMAL);
    int32_t lb_ab = vocab_add_plain(&sv, LB "ab", KT__TOK_NORMAL);
    int32_t three = vocab_add_plain(&sv, "\n\n\n", KT__TOK_NORMAL);
    kt__tokenizer *none = NULL;
    assert_int_equal(kt__tokenizer_new(&sv.v, &none, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "needs merges"));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        sv.merges[sv.v.n_merges++] = vocab_keep(&sv, texts[i], strlen(texts[i]));
    kt__tokenizer *tok = tok_open(&sv);
    int32_t a = vocab_id(&sv, "a"), ab = vocab_id(&sv, "ab"), lb = vocab_id(&sv, LB);
    ENCODES(tok, "abc", 0, ab, c); /* "a b" comes first in the list */
    ENCODES(tok, "bca", 0, bc, a);
    ENCODES(tok, "a ab", 0, a, lb_ab);
    ENCODES(tok, "ab  ab", 0, ab, lb, lb_ab);
    ENCODES(tok, "\n\n\nab", 0, three, ab);
    ENCODES(tok, "a\n\nb", 0, a, nl, nl, vocab_id(&sv, "b"));
    ENCODES(tok, "x", 0, vocab_id(&sv, "<0x78>"));
    kt__tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges_over_lines), cmocka_unit_test(test_reference),
        cmocka_unit_test(test_inner_space),       cmocka_unit_test(test_prefix_and_bos),
        cmocka_unit_test(test_unknown),           cmocka_unit_test(test_spelt_specials),
        cmocka_unit_test(test_round_trip),        cmocka_unit_test(test_worst_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
