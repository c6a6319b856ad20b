/* Decoding: the streaming detokeniser never writes broken UTF-8 and says what the one-shot call
 * says. */
#include "tokenizer_vocab.h"

static small_vocab sv;

/* s[len] with each maximal broken sequence as U+FFFD (Unicode 15, section 3.9). */
static void repair(const char *s, size_t len, kt__buf *out) {
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        n = kt__utf8_decode(s + i, len - i, &cp);
        if (n > 0) {
            assert_true(kt__buf_append(out, s + i, n));
            continue;
        }
        assert_true(kt__buf_puts(out, "\xef\xbf\xbd"));
        for (n = len - i < 3 ? len - i : 3; n > 1 && kt__utf8_incomplete_tail(s + i, n) != n;) n--;
    }
}

static void assert_whole_characters(const char *s, size_t len) {
    uint32_t cp;
    for (size_t i = 0, n; i < len; i += n) {
        n = kt__utf8_decode(s + i, len - i, &cp);
        if (n == 0) fail_msg("broken UTF-8 written");
    }
}

static void assert_text(const kt__buf *buf, const char *s, size_t len) {
    assert_int_equal(buf->len, len);
    if (len) assert_memory_equal(buf->data, s, len);
}

static void stream(const kt__tokenizer *tok, const int32_t *ids, size_t n, unsigned flags,
                   kt__buf *out) {
    kt__detok detok;
    kt_error err;
    kt__detok_init(&detok, tok, flags, true);
    for (size_t i = 0; i <= n; i++) {
        size_t before = out->len;
        kt_status status = i < n ? kt__detok_push(&detok, ids[i], out, &err)
                                 : kt__detok_finish(&detok, out, &err);
        assert_int_equal(status, KT_OK);
        assert_true(detok.n_held <= 3);
        assert_whole_characters(out->data + before, out->len - before);
    }
    assert_int_equal(detok.n_held, 0);
}

static void compare_random(const kt__tokenizer *tok) {
    kt__buf once, repaired, streamed;
    kt__buf_init(&once, SIZE_MAX / 2);
    kt__buf_init(&repaired, SIZE_MAX / 2);
    kt__buf_init(&streamed, SIZE_MAX / 2);
    for (int t = 0; t < 20000; t++) {
        int32_t ids[24];
        kt_error err;
        size_t n = rng(24);
        unsigned flags = rng(2) ? KT_TOK_RENDER_SPECIAL : 0;
        for (size_t i = 0; i < n; i++) /* often bytes of many-byte characters */
            ids[i] = (int32_t)(rng(3) ? 0x80 + rng(0x80) : rng((uint32_t)sv.v.n_tokens));
        kt__buf_clear(&once);
        kt__buf_clear(&repaired);
        kt__buf_clear(&streamed);
        assert_int_equal(kt__tokenizer_decode(tok, ids, n, flags, &once, &err), KT_OK);
        repair(once.data, once.len, &repaired);
        stream(tok, ids, n, flags, &streamed);
        assert_text(&streamed, repaired.data, repaired.len);
    }
    kt__buf_free(&once);
    kt__buf_free(&repaired);
    kt__buf_free(&streamed);
}

static void test_random_streams(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 200);
    kt__tokenizer *tok = tok_open(&sv);
    compare_random(tok);
    kt__tokenizer_free(tok);
    spm_vocab(&sv, true);
    tok = tok_open(&sv);
    compare_random(tok);
    kt__tokenizer_free(tok);
}

/* What each token releases. */
static void test_holding_back(void **state) {
    (void)state;
    static const struct {
        int32_t byte; /* -1: the end */
        const char *out;
    } steps[] = {{'a', "a"},
                 {0xe4, ""},
                 {0xb8, ""},
                 {0xad, "\xe4\xb8\xad"},
                 {0xf0, ""},
                 {0x9f, ""},
                 {0x98, ""},
                 {0x80, "\xf0\x9f\x98\x80"},
                 {0xf0, ""},
                 {0x9f, ""},
                 {'x', "\xef\xbf\xbd"
                       "x"},
                 {0xff, "\xef\xbf\xbd"},
                 {0xe4, ""},
                 {0xe4, "\xef\xbf\xbd"},
                 {0xb8, ""},
                 {-1, "\xef\xbf\xbd"}};
    bpe_vocab(&sv, "gpt-2", 0);
    kt__tokenizer *tok = tok_open(&sv);
    kt__detok detok;
    kt_error err;
    kt__buf out;
    kt__buf_init(&out, 1000);
    kt__detok_init(&detok, tok, 0, true);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        kt__buf_clear(&out);
        kt_status status = steps[i].byte >= 0 ? kt__detok_push(&detok, steps[i].byte, &out, &err)
                                              : kt__detok_finish(&detok, &out, &err);
        assert_int_equal(status, KT_OK);
        assert_text(&out, steps[i].out, strlen(steps[i].out));
    }
    kt__buf_free(&out);
    kt__tokenizer_free(tok);
}

static void assert_decodes(const kt__tokenizer *tok, const int32_t *ids, size_t n, unsigned flags,
                           const char *expected) {
    kt__buf once, streamed;
    kt_error err;
    kt__buf_init(&once, 1000);
    kt__buf_init(&streamed, 1000);
    assert_int_equal(kt__tokenizer_decode(tok, ids, n, flags, &once, &err), KT_OK);
    assert_text(&once, expected, strlen(expected));
    stream(tok, ids, n, flags, &streamed);
    assert_text(&streamed, expected, strlen(expected));
    kt__buf_free(&once);
    kt__buf_free(&streamed);
}

#define DECODES(tok, expected, flags, ...)              \
    assert_decodes(tok, (const int32_t[]){__VA_ARGS__}, \
                   sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), flags, expected)

static void test_prefix_space(void **state) {
    (void)state;
    spm_vocab(&sv, true);
    kt__tokenizer *tok = tok_open(&sv);
    int32_t bos = vocab_id(&sv, "<s>"), the = vocab_id(&sv, LB "the"), lb = vocab_id(&sv, LB);
    int32_t space = vocab_id(&sv, "<0x20>");
    DECODES(tok, "the the", 0, the, the);
    DECODES(tok, " the", 0, lb, the);
    DECODES(tok, "the", 0, bos, the);
    DECODES(tok, "<s> the", KT_TOK_RENDER_SPECIAL, bos, the);
    DECODES(tok, "x", 0, space, vocab_id(&sv, "<0x78>"));
    /* generated tokens go on after a prompt: their space stays */
    kt__detok detok;
    kt_error err;
    kt__buf out;
    kt__buf_init(&out, 100);
    kt__detok_init(&detok, tok, 0, false);
    assert_int_equal(kt__detok_push(&detok, the, &out, &err), KT_OK);
    assert_text(&out, " the", 4);
    kt__buf_free(&out);
    kt__tokenizer_free(tok);
    sv.v.add_space_prefix = 0;
    tok = tok_open(&sv);
    DECODES(tok, " the", 0, the);
    kt__tokenizer_free(tok);
}

static void test_specials(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    kt__tokenizer *tok = tok_open(&sv);
    int32_t end = vocab_id(&sv, "<|im_end|>"), tool = vocab_id(&sv, "<tool>");
    DECODES(tok, "a<tool>b", 0, 'a', end, tool, vocab_id(&sv, "[PAD1]"), 'b');
    DECODES(tok, "a<|im_end|>b", KT_TOK_RENDER_SPECIAL, 'a', end, vocab_id(&sv, "[PAD1]"), 'b');
    kt__tokenizer_free(tok);
}

static void test_errors(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    kt__tokenizer *tok = tok_open(&sv);
    kt_error err;
    kt__buf out;
    kt__detok detok;
    const int32_t bad[] = {'a', -1}, beyond = (int32_t)sv.v.n_tokens, fine = 'a';
    kt__buf_init(&out, 4);
    kt__detok_init(&detok, tok, 0, true);
    assert_int_equal(kt__tokenizer_decode(tok, bad, 2, 0, &out, &err), KT_E_ARG);
    kt__buf_clear(&out);
    assert_int_equal(kt__detok_push(&detok, beyond, &out, &err), KT_E_ARG);
    assert_int_equal(kt__detok_push(&detok, INT32_MIN, &out, &err), KT_E_ARG);
    for (int i = 0; i < 4; i++) assert_int_equal(kt__detok_push(&detok, fine, &out, &err), KT_OK);
    assert_int_equal(kt__detok_push(&detok, fine, &out, &err), KT_E_LIMIT);
    assert_int_equal(out.len, 4);
    kt__buf_free(&out);
    kt__tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_streams), cmocka_unit_test(test_holding_back),
        cmocka_unit_test(test_prefix_space),   cmocka_unit_test(test_specials),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
