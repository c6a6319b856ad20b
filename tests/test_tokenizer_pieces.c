/* Vocabularies whose words are cut into whole pieces: WordPiece and unigram against the slow way,
 * normalisation, and what is refused. */
#include "tokenizer_vocab.h"

#include <math.h>

static small_vocab sv;

/* ---- WordPiece ---- */

/* The longest piece first, by trying every length. */
static size_t wordpiece_reference(const char *word, size_t len, int32_t *ids) {
    size_t n = 0;
    char piece[128];
    for (size_t at = 0, used; at < len; at += used) {
        int32_t id = -1;
        for (used = len - at; used > 0; used--) {
            size_t prefix = at == 0 ? 3 : 0;
            memcpy(piece, LB, prefix);
            memcpy(piece + prefix, word + at, used);
            id = vocab_find(&sv, piece, prefix + used);
            if (id >= 0) break;
        }
        if (id < 0) {
            ids[0] = vocab_id(&sv, "[UNK]");
            return 1;
        }
        ids[n++] = id;
    }
    return n;
}

static void test_wordpiece_reference(void **state) {
    (void)state;
    wordpiece_vocab(&sv);
    kt__tokenizer *tok = tok_open(&sv);
    for (int t = 0; t < 3000; t++) {
        char text[200];
        int32_t expected[200];
        size_t len = 0, n = 0;
        for (uint32_t words = rng(6); words > 0; words--) {
            size_t begin = len;
            for (uint32_t k = 1 + rng(12); k > 0; k--) text[len++] = "abcs"[rng(rng(8) ? 3 : 4)];
            n += wordpiece_reference(text + begin, len - begin, expected + n);
            text[len++] = " \n\t"[rng(3)];
        }
        assert_encodes(tok, text, len, 0, expected, n);
    }
    kt__tokenizer_free(tok);
}

static void test_wordpiece_cleaning(void **state) {
    (void)state;
    wordpiece_vocab(&sv);
    kt__tokenizer *tok = tok_open(&sv);
    int32_t unk = vocab_id(&sv, "[UNK]"), a = vocab_id(&sv, LB "a"), b = vocab_id(&sv, LB "b");
    int32_t dot = vocab_id(&sv, LB "."), e = vocab_id(&sv, LB "e"), the = vocab_id(&sv, LB "the");
    int32_t zhong = vocab_id(&sv, LB "\xe4\xb8\xad"), wen = vocab_id(&sv, LB "\xe6\x96\x87");
    ENCODES(tok, "A.b", 0, a, dot, b);
    ENCODES(tok, "a$b", 0, a, vocab_id(&sv, LB "$"), b);
    ENCODES(tok, "THE there", 0, the, the, vocab_id(&sv, "re"));
    ENCODES(tok, "\xc3\x89 e\xcc\x81", 0, e, e); /* accents go, composed or not */
    ENCODES(tok,
            "a\xe4\xb8\xad\xe6\x96\x87"
            "b",
            0, a, zhong, wen, b);
    ENCODES(tok,
            "th\x01\xe2\x80\x8b"
            "e",
            0, the);                             /* control and format characters go */
    ENCODES(tok, "t\xff\xef\xbf\xbdhe", 0, the); /* and what is no UTF-8 */
    ENCODES(tok,
            "a\xe3\x80\x80"
            "b",
            0, a, b); /* an ideographic space */
    ENCODES(tok, "a q b", 0, a, unk, b);
    ENCODES(tok, "a[SEP]b", 0, a, unk, unk, unk, b); /* punctuation that has no piece */
    ENCODES(tok, "a[SEP]b", KT_TOK_PARSE_SPECIAL, a, 3, b);
    ENCODES(tok, "a", KT_TOK_ADD_SPECIAL, 2, a, 3);
    assert_encodes(tok, " \n", 2, 0, NULL, 0);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_SEP), 3);
    kt__tokenizer_free(tok);
    /* with capitals and accents */
    sv.v.lowercase = 0;
    tok = tok_open(&sv);
    ENCODES(tok, "A a", 0, unk, a);
    ENCODES(tok, "\xc3\xa9", 0, vocab_id(&sv, LB "\xc3\xa9"));
    kt__tokenizer_free(tok);
    sv.v.lowercase = 1;
    sv.v.strip_accents = 0;
    tok = tok_open(&sv);
    ENCODES(tok, "\xc4\xb0i", 0, vocab_id(&sv, LB "i"), vocab_id(&sv, "\xcc\x87"),
            vocab_id(&sv, "i"));
    kt__tokenizer_free(tok);
}

/* A word of more than 100 characters is unknown, whatever pieces it has. */
static void test_wordpiece_long_words(void **state) {
    (void)state;
    char word[200000];
    int32_t expected[100] = {0};
    wordpiece_vocab(&sv);
    kt__tokenizer *tok = tok_open(&sv);
    memset(word, 'a', sizeof word);
    expected[0] = vocab_id(&sv, LB "a");
    for (int i = 1; i < 100; i++) expected[i] = vocab_id(&sv, "a");
    assert_encodes(tok, word, 100, 0, expected, 100);
    expected[0] = vocab_id(&sv, "[UNK]");
    assert_encodes(tok, word, 101, 0, expected, 1);
    assert_encodes(tok, word, sizeof word, 0, expected, 1);
    kt__tokenizer_free(tok);
}

static void test_wordpiece_decodes(void **state) {
    (void)state;
    wordpiece_vocab(&sv);
    kt__tokenizer *tok = tok_open(&sv);
    const int32_t ids[] = {2, vocab_id(&sv, LB "the"), vocab_id(&sv, "re"), vocab_id(&sv, LB "a"),
                           3};
    kt__buf out;
    kt_error err;
    kt__buf_init(&out, 1000);
    assert_int_equal(kt__tokenizer_decode(tok, ids, 5, 0, &out, &err), KT_OK);
    assert_string_equal(out.data, "there a");
    kt__buf_free(&out);
    for (int32_t id = 0; id < (int32_t)sv.v.n_tokens; id++)
        assert_int_equal(kt__tokenizer_find(tok, sv.tokens[id].s, sv.tokens[id].len), id);
    kt__tokenizer_free(tok);
}

/* ---- unigram ---- */

/* The best sum of all ways to write s[len] in pieces; a character without a piece costs 10 more
 * than the worst. */
static double best_sum(const char *s, size_t len) {
    static double best[1000];
    const double unknown = -1000.0 - 10.0;
    best[0] = 0;
    for (size_t end = 1; end <= len; end++) {
        best[end] = -INFINITY;
        for (size_t begin = 0; begin < end; begin++) {
            int32_t id = vocab_find(&sv, s + begin, end - begin);
            double score = id >= 0 ? (double)sv.scores[id] : end - begin == 1 ? unknown : -INFINITY;
            if (best[begin] + score > best[end]) best[end] = best[begin] + score;
        }
    }
    return best[len];
}

static void test_unigram_reference(void **state) {
    (void)state;
    unigram_vocab(&sv, false);
    kt__tokenizer *tok = tok_open(&sv);
    int32_t unk = vocab_id(&sv, "<unk>");
    for (int t = 0; t < 2000; t++) {
        char text[64], marked[80] = LB;
        size_t len = 0;
        kt__ids ids;
        kt_error err;
        kt__ids_init(&ids, SIZE_MAX);
        for (uint32_t k = 1 + rng(16); k > 0; k--) text[len++] = "abthensgir"[rng(10)];
        memcpy(marked + 3, text, len);
        assert_int_equal(kt__tokenizer_encode(tok, text, len, 0, &ids, &err), KT_OK);
        double sum = 0;
        for (size_t i = 0; i < ids.len; i++) {
            assert_int_not_equal(ids.data[i], unk);
            sum += (double)sv.scores[ids.data[i]];
        }
        assert_float_equal(sum, best_sum(marked, len + 3), 0.0);
        kt__ids_free(&ids);
    }
    kt__tokenizer_free(tok);
}

static void test_unigram_spaces(void **state) {
    (void)state;
    unigram_vocab(&sv, false);
    kt__tokenizer *tok = tok_open(&sv);
    int32_t the = vocab_id(&sv, LB "the"), and = vocab_id(&sv, LB "and"), unk = 0;
    ENCODES(tok, "the and", 0, the, and);
    ENCODES(tok, "  the \n\t and  ", 0, the, and);
    ENCODES(tok, "the" LB "and", 0, the, and);
    ENCODES(tok, LB "the", 0, the);
    ENCODES(tok, "the", KT_TOK_ADD_SPECIAL, the, vocab_id(&sv, "</s>"));
    ENCODES(tok, "qqq the \xff", 0, vocab_id(&sv, LB), unk, the, vocab_id(&sv, LB), unk);
    ENCODES(tok, "the<user>and", 0, the, vocab_id(&sv, "<user>"), and);
    assert_encodes(tok, " \n ", 3, 0, NULL, 0);
    kt__tokenizer_free(tok);
    sv.v.remove_extra_spaces = 0;
    tok = tok_open(&sv);
    ENCODES(tok, "the  the", 0, the, vocab_id(&sv, LB LB), vocab_id(&sv, "the"));
    kt__tokenizer_free(tok);
    unigram_vocab(&sv, true);
    tok = tok_open(&sv);
    ENCODES(tok, "q\xe2\x82\xac", 0, vocab_id(&sv, LB), vocab_id(&sv, "<0x71>"),
            vocab_id(&sv, "<0xE2>"), vocab_id(&sv, "<0x82>"), vocab_id(&sv, "<0xAC>"));
    kt__tokenizer_free(tok);
}

/* ---- the character map ---- */

enum { MAP_UNITS = 1024 };
static struct {
    uint32_t size, units[MAP_UNITS];
    char texts[16];
} map_bytes;

/* A trie of two: "A" becomes "a", "Ab" becomes "the"; and "B", which becomes nothing. */
static kt__str small_map(void) {
    uint32_t *u = map_bytes.units;
    memset(&map_bytes, 0, sizeof map_bytes);
    map_bytes.size = sizeof map_bytes.units;
    memcpy(map_bytes.texts, "a\0the", 6);
    u[0] = 256u << 10; /* children at 256 ^ byte */
    u[256 ^ 'A'] = (512u ^ 256 ^ 'A') << 10 | 1u << 8 |
                   'A'; /* its children at 512 ^ byte, its value at 512 */
    u[512] = 0x80000000u;
    u[512 ^ 'b'] = (768u ^ 512 ^ 'b') << 10 | 1u << 8 | 'b';
    u[768] = 0x80000000u | 2;
    u[256 ^ 'B'] = (800u ^ 256 ^ 'B') << 10 | 1u << 8 | 'B';
    u[800] = 0x80000000u | 1;
    return (kt__str){(const char *)&map_bytes, sizeof map_bytes};
}

static void test_charsmap(void **state) {
    (void)state;
    unigram_vocab(&sv, false);
    sv.v.charsmap = small_map();
    kt__tokenizer *tok = tok_open(&sv);
    int32_t the = vocab_id(&sv, LB "the");
    ENCODES(tok, "Ab", 0, the);
    ENCODES(tok, "BtBhBeB", 0, the);
    ENCODES(tok, "Ab A", 0, the, vocab_id(&sv, LB "a"));
    assert_encodes(tok, "BB", 2, 0, NULL, 0);
    kt__tokenizer_free(tok);
    /* walks and replacements that would leave the map match nothing */
    map_bytes.units[512] = 0x80000000u | 5000;
    map_bytes.units[256 ^ 'B'] = 0x1fffffu << 10 | 1u << 8 | 'B';
    tok = tok_open(&sv);
    ENCODES(tok, "Ab", 0, vocab_id(&sv, LB), 0, vocab_id(&sv, "b"));
    ENCODES(tok, "B", 0, vocab_id(&sv, LB), 0);
    kt__tokenizer_free(tok);
}

static void assert_refused(kt_status expected, const char *words) {
    kt_error err;
    kt__tokenizer *tok = NULL;
    assert_int_equal(kt__tokenizer_new(&sv.v, &tok, &err), expected);
    assert_null(tok);
    if (!strstr(err.message, words)) fail_msg("\"%s\" does not say \"%s\"", err.message, words);
}

static void test_refusals(void **state) {
    (void)state;
    static char big[2000];
    memset(big, 'a', sizeof big);
    for (int unigram = 0; unigram < 2; unigram++) {
        if (unigram)
            unigram_vocab(&sv, false);
        else
            wordpiece_vocab(&sv);
        sv.tokens[9] = (kt__str){big, sizeof big};
        assert_refused(KT_E_LIMIT, "tokens[9]");
        sv.tokens[9] = (kt__str){"x", 1};
        sv.tokens[unigram ? 0 : 1] = (kt__str){"y", 1};
        sv.v.role_ids[KT__ROLE_UNK] = -1;
        assert_refused(KT_E_FORMAT, "unknown_token_id");
    }
    unigram_vocab(&sv, false);
    sv.v.scores = NULL;
    assert_refused(KT_E_FORMAT, "\"t5\"");
    unigram_vocab(&sv, false);
    kt__str whole = small_map();
    for (size_t len = 1; len < 4; len++) {
        sv.v.charsmap = (kt__str){whole.s, len};
        assert_refused(KT_E_FORMAT, "precompiled_charsmap");
    }
    sv.v.charsmap = whole;
    map_bytes.size = 6;
    assert_refused(KT_E_FORMAT, "precompiled_charsmap");
    map_bytes.size = 1u << 30;
    assert_refused(KT_E_FORMAT, "precompiled_charsmap");
    whole = small_map();
    map_bytes.texts[15] = 'x';
    assert_refused(KT_E_FORMAT, "precompiled_charsmap");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wordpiece_reference),
        cmocka_unit_test(test_wordpiece_cleaning),
        cmocka_unit_test(test_wordpiece_long_words),
        cmocka_unit_test(test_wordpiece_decodes),
        cmocka_unit_test(test_unigram_reference),
        cmocka_unit_test(test_unigram_spaces),
        cmocka_unit_test(test_charsmap),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
