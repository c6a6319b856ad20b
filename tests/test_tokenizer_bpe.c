/* Byte-level BPE against merging done the slow way; round trips of any bytes; worst cases; threads.
 */
#include "tokenizer_vocab.h"

#include <pthread.h>

#include "base/clock.h"
#include "tokenizer/unicode.h"

static small_vocab sv;

/* Fragments that make words, long words, digits, spaces, marks and broken characters. */
static size_t random_text(char *out, size_t cap) {
    static const char *const parts[] = {" ",
                                        "the",
                                        " the",
                                        "thing",
                                        "kentang",
                                        "aaaa",
                                        "\n",
                                        "  ",
                                        "1",
                                        "2024",
                                        "'s",
                                        "'RE",
                                        "\xc3\x84",
                                        "\xe4\xb8\xad",
                                        "\xcc\x81",
                                        "e",
                                        "\xff",
                                        "\xe4\xb8",
                                        "goreng",
                                        ".",
                                        "--",
                                        "\t",
                                        "sing",
                                        "nothing",
                                        "X",
                                        "q",
                                        "\xf0\x9f\x98\x80"};
    size_t n = 0;
    bool one_word = rng(8) == 0;
    for (size_t k = 1 + rng(one_word ? 60 : 30); k > 0; k--) {
        const char *p = one_word ? &"the sinkgo"[rng(10)]
                                 : parts[rng(sizeof parts / sizeof *parts)];
        size_t len = one_word ? (*p != ' ') : strlen(p);
        if (n + len > cap) break;
        memcpy(out + n, p, len);
        n += len;
    }
    return n;
}

static size_t encode_reference(const char *s, size_t len, kt__pretok_family family, bool whole,
                               int32_t *ids) {
    kt__pretok_iter it;
    const char *word;
    size_t word_len, n = 0;
    kt__pretok_begin(&it, family, s, len);
    while (kt__pretok_next(&it, &word, &word_len)) {
        int32_t id = -1;
        for (size_t i = 0; whole && i < sv.v.n_tokens; i++)
            if (sv.types[i] == KT__TOK_NORMAL && sv.bytes[i].len == word_len &&
                memcmp(sv.bytes[i].s, word, word_len) == 0)
                id = (int32_t)i;
        if (id >= 0)
            ids[n++] = id;
        else
            n += bpe_reference(&sv, word, word_len, ids + n);
    }
    return n;
}

static void test_reference(void **state) {
    (void)state;
    static const struct {
        const char *pre;
        kt__pretok_family family;
        bool whole;
    } cases[] = {
        {"dbrx", KT__PRETOK_CL100K, false},          {"llama-bpe", KT__PRETOK_CL100K, true},
        {"gpt-2", KT__PRETOK_GPT2, false},           {"smollm", KT__PRETOK_DIGITS_GPT2, false},
        {"gpt-4o", KT__PRETOK_O200K, false},         {"tekken", KT__PRETOK_TEKKEN, true},
        {"deepseek-v3", KT__PRETOK_DEEPSEEK3, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bpe_vocab(&sv, cases[c].pre, 250);
        /* Tokens that no merge makes: only whole-word vocabularies give them. */
        kt__str odd = vocab_keep(&sv, "sinkgo", 6);
        vocab_add(&sv, odd, odd, KT__TOK_NORMAL);
        kt__tokenizer *tok = tok_open(&sv);
        for (int t = 0; t < 2500; t++) {
            char s[400];
            int32_t expected[400];
            size_t len = random_text(s, sizeof s);
            size_t n = encode_reference(s, len, cases[c].family, cases[c].whole, expected);
            assert_encodes(tok, s, len, 0, expected, n);
        }
        kt__tokenizer_free(tok);
    }
}

/* Words of over 64 symbols take another way to the same ids. */
static void test_long_words(void **state) {
    (void)state;
    bpe_vocab(&sv, "dbrx", 250);
    kt__tokenizer *tok = tok_open(&sv);
    for (int t = 0; t < 400; t++) {
        char s[500];
        int32_t expected[500];
        size_t len = 60 + rng(400);
        for (size_t i = 0; i < len; i++) s[i] = "aeinthgsaanngg"[rng(t % 2 ? 14 : 6)];
        size_t n = bpe_reference(&sv, s, len, expected);
        assert_encodes(tok, s, len, 0, expected, n);
    }
    kt__tokenizer_free(tok);
}

/* The memo of long texts changes nothing. */
static void test_long_text(void **state) {
    (void)state;
    enum { N = 40000 };
    static char s[N + 64];
    static int32_t expected[N + 64];
    size_t len = 0;
    bpe_vocab(&sv, "dbrx", 120);
    kt__tokenizer *tok = tok_open(&sv);
    while (len < N - 400) len += random_text(s + len, 400);
    size_t n = encode_reference(s, len, KT__PRETOK_CL100K, false, expected);
    assert_encodes(tok, s, len, 0, expected, n);
    assert_encodes(tok, s, len, 0, expected, n);
    kt__tokenizer_free(tok);
}

static void test_round_trip(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-4o", 250);
    kt__tokenizer *tok = tok_open(&sv);
    kt__ids ids;
    kt__buf out;
    kt_error err;
    kt__ids_init(&ids, SIZE_MAX);
    kt__buf_init(&out, SIZE_MAX / 2);
    for (int t = 0; t < 20000; t++) {
        char s[200];
        size_t len = random_text(s, sizeof s);
        for (uint32_t k = rng(4); k > 0 && len > 0; k--) s[rng((uint32_t)len)] = (char)rng(256);
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

/* A composed and a decomposed text give the same ids where the tokenizer normalises. */
static void test_nfc(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"A\xcc\x88pfel", "\xc3\x84pfel"},
        {"Gro\xcc\x88\xc3\x9f"
         "e x",
         "Gr\xc3\xb6\xc3\x9f"
         "e x"},
        {"\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"},                  /* Hangul */
        {"a\xcc\x95\xcc\x80\xd6\xae\xcc\x80", "\xc3\xa0\xd6\xae\xcc\x80\xcc\x95"}, /* reordering */
        {"\xe2\x84\xab", "\xc3\x85"}, /* angstrom sign */
        {"\xff"
         "e\xcc\x81\xff",
         "\xff\xc3\xa9\xff"}, /* among broken bytes */
        {"\xcc\x81x", "\xcc\x81x"},
    };
    bpe_vocab(&sv, "qwen2", 100);
    kt__tokenizer *tok = tok_open(&sv);
    sv.v.pre = "hunyuan";
    kt__tokenizer *plain = tok_open(&sv);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        kt__ids a;
        kt_error err;
        kt__ids_init(&a, SIZE_MAX);
        const char *composed = pairs[i][1], *other = pairs[i][0];
        assert_int_equal(kt__tokenizer_encode(plain, composed, strlen(composed), 0, &a, &err),
                         KT_OK);
        assert_encodes(tok, other, strlen(other), 0, a.data, a.len);
        assert_encodes(tok, composed, strlen(composed), 0, a.data, a.len);
        kt__ids_free(&a);
    }
    kt__tokenizer_free(tok);
    kt__tokenizer_free(plain);
}

/* Long runs of combining marks in the wrong order: sorted in linear time, and as a short run is. */
static void test_nfc_long_run(void **state) {
    (void)state;
    enum { N = 300000 };
    char *s = malloc(1 + 4 * N);
    assert_non_null(s);
    kt__arena arena;
    kt_error err;
    const char *out;
    size_t n = 0, out_len;
    s[n++] = 'q';
    for (int i = 0; i < N; i++, n += 4) memcpy(s + n, "\xcc\x81\xcc\xa3", 4); /* class 230, 220 */
    kt__arena_init(&arena, 4096, SIZE_MAX / 2);
    int64_t begin = kt__now_us();
    assert_int_equal(kt__unicode_nfc(&arena, s, n, &out, &out_len, &err), KT_OK);
    assert_true(kt__now_us() - begin < 20 * 1000000LL);
    assert_int_equal(out_len, n);
    assert_memory_equal(out + 1, "\xcc\xa3\xcc\xa3", 4);
    assert_memory_equal(out + n - 4, "\xcc\x81\xcc\x81", 4);
    kt__arena_free(&arena);
    free(s);
}

/* One letter, spaces, or one long line: n log n. */
static void test_worst_cases(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    static const char *const units[] = {"a",    " ",        "thesinging", "\n",
                                        "the ", "\xcc\x81", "1",          "ab"};
    vocab_begin(&sv, "gpt2", "qwen2");
    bpe_vocab(&sv, "qwen2", 250);
    int32_t a = 'a', space = ' ';
    for (int i = 0; i < 6; i++) {
        a = vocab_merge(&sv, a, a);
        space = vocab_merge(&sv, space, space);
    }
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
        if (u == 0) assert_int_equal(ids.len, N / 64);
        if (u == 1) assert_true(ids.len <= N / 2);
        kt__ids_free(&ids);
    }
    assert_true(kt__now_us() - begin < 60 * 1000000LL);
    free(s);
    kt__tokenizer_free(tok);
}

static kt__tokenizer *shared;
static const char shared_text[] =
    "The singer sings nothing; kentang goreng, thing thing. <|im_end|> \xc3\x84pfel 2024\n";

static void *encode_in_thread(void *arg) {
    kt__ids *ids = arg;
    kt_error err;
    for (int i = 0; i < 200; i++) {
        ids->len = 0;
        if (kt__tokenizer_encode(shared, shared_text, strlen(shared_text), KT_TOK_PARSE_SPECIAL,
                                 ids, &err) != KT_OK)
            return ids;
    }
    return NULL;
}

/* What the tokenizer learns about whole words while encoding is shared by threads. */
static void test_threads(void **state) {
    (void)state;
    enum { N = 4 };
    pthread_t threads[N];
    kt__ids ids[N];
    bpe_vocab(&sv, "qwen2", 250);
    shared = tok_open(&sv);
    for (int i = 0; i < N; i++) {
        kt__ids_init(&ids[i], SIZE_MAX);
        assert_int_equal(pthread_create(&threads[i], NULL, encode_in_thread, &ids[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
        assert_ids(&ids[i], ids[0].data, ids[0].len, shared_text);
    }
    for (int i = 0; i < N; i++) kt__ids_free(&ids[i]);
    kt__tokenizer_free(shared);
}

/* A vocabulary without some bytes: the unknown token, or nothing. */
static void test_missing_bytes(void **state) {
    (void)state;
    vocab_begin(&sv, "gpt2", "gpt-2");
    int32_t a = vocab_add_plain(&sv, "a", KT__TOK_NORMAL);
    int32_t b = vocab_add_plain(&sv, "b", KT__TOK_NORMAL);
    int32_t unk = vocab_add_plain(&sv, "<unk>", KT__TOK_UNKNOWN);
    kt__tokenizer *tok = tok_open(&sv);
    ENCODES(tok, "axxb", 0, a, b);
    kt__tokenizer_free(tok);
    sv.v.role_ids[KT__ROLE_UNK] = unk;
    tok = tok_open(&sv);
    ENCODES(tok, "axxb", 0, a, unk, b);
    kt__tokenizer_free(tok);
}

static void test_id_cap(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    kt__tokenizer *tok = tok_open(&sv);
    kt_error err;
    kt__ids ids;
    kt__ids_init(&ids, 3);
    assert_int_equal(kt__tokenizer_encode(tok, "xy", 2, 0, &ids, &err), KT_OK);
    assert_int_equal(kt__tokenizer_encode(tok, "xyz", 3, 0, &ids, &err), KT_E_LIMIT);
    assert_int_equal(ids.len, 2);
    assert_int_equal(kt__tokenizer_encode(tok, "z", 1, 0, &ids, &err), KT_OK);
    size_t n;
    int32_t *taken = kt__ids_take(&ids, &n);
    assert_int_equal(n, 3);
    assert_int_equal(taken[2], 'z');
    for (int i = 0; i < 4; i++)
        assert_int_equal(kt__ids_push(&ids, 1, &err), i < 3 ? KT_OK : KT_E_LIMIT);
    kt__ids_free(&ids);
    ids.data = taken;
    kt__ids_free(&ids);
    kt__tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),     cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_long_text),     cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_nfc),           cmocka_unit_test(test_nfc_long_run),
        cmocka_unit_test(test_worst_cases),   cmocka_unit_test(test_threads),
        cmocka_unit_test(test_missing_bytes), cmocka_unit_test(test_id_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
