/* No text has fewer tokens than its bytes divided by kt__tokenizer_bytes_per_id. */
#include "tokenizer_vocab.h"

static small_vocab sv;

static void count_ids(const kt__tokenizer *tok, const char *s, size_t len) {
    kt_error err;
    kt__ids ids;
    size_t bytes = kt__tokenizer_bytes_per_id(tok);
    kt__ids_init(&ids, SIZE_MAX);
    assert_int_equal(kt__tokenizer_encode(tok, s, len, KT_TOK_PARSE_SPECIAL, &ids, &err), KT_OK);
    if (ids.len < len / bytes) fail_msg("%zu tokens of %zu bytes, %zu each", ids.len, len, bytes);
    kt__ids_free(&ids);
}

static void compare(const kt__tokenizer *tok) {
    static const char *const parts[] = {" ",
                                        "the",
                                        "and",
                                        "ab",
                                        "        ",
                                        "\xe2\x96\x81",
                                        "\n",
                                        "ing",
                                        "\xff",
                                        "x",
                                        "\xe1\xbe\xbe\xcc\x88\xcc\x81",
                                        "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"};
    for (int t = 0; t < 2000; t++) {
        char s[2000];
        size_t len = 0, same = rng(3) ? 0 : 1 + rng(12);
        for (size_t k = rng(60); k > 0; k--) {
            const char *part = parts[same ? same - 1 : rng(12)];
            memcpy(s + len, part, strlen(part));
            len += strlen(part);
        }
        count_ids(tok, s, len);
    }
}

static void test_byte_level(void **state) {
    (void)state;
    static const char *const pres[] = {"gpt-2", "qwen2"}; /* the second normalises (NFC) */
    for (int i = 0; i < 2; i++) {
        bpe_vocab(&sv, pres[i], 60);
        kt__tokenizer *tok = tok_open(&sv);
        assert_true(kt__tokenizer_bytes_per_id(tok) > 0);
        compare(tok);
        kt__tokenizer_free(tok);
    }
}

static void test_sentencepiece(void **state) {
    (void)state;
    spm_vocab(&sv, true);
    kt__tokenizer *tok = tok_open(&sv);
    assert_true(kt__tokenizer_bytes_per_id(tok) > 0);
    compare(tok);
    kt__tokenizer_free(tok);
    spm_vocab(&sv, false); /* unknown text, however long, is one token */
    tok = tok_open(&sv);
    assert_int_equal(kt__tokenizer_bytes_per_id(tok), 0);
    kt__tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_level),
        cmocka_unit_test(test_sentencepiece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
