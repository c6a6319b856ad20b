/* tokenizer: the prompt of a text with a gap. */
#include "tokenizer_vocab.h"

static small_vocab sv;

/* Those three and nothing else of the vocabulary. */
typedef struct gap_tokens {
    int32_t pre, suf, mid;
} gap_tokens;

static gap_tokens add_tokens(const char *pre, const char *suf, const char *mid) {
    gap_tokens t = {vocab_add_plain(&sv, pre, KT__TOK_CONTROL),
                    vocab_add_plain(&sv, suf, KT__TOK_CONTROL), -1};
    if (mid) t.mid = vocab_add_plain(&sv, mid, KT__TOK_CONTROL);
    return t;
}

static void encode_gap(const kt__tokenizer *tok, const char *before, const char *after,
                       kt__ids *ids) {
    kt_error err;
    kt__ids_init(ids, SIZE_MAX);
    assert_int_equal(
        kt__tokenizer_encode_fim(tok, before, strlen(before), after, strlen(after), ids, &err),
        KT_OK);
}

static void append_text(const kt__tokenizer *tok, const char *text, kt__ids *ids) {
    kt_error err;
    assert_int_equal(kt__tokenizer_encode(tok, text, strlen(text), 0, ids, &err), KT_OK);
}

static void append_id(int32_t id, kt__ids *ids) {
    kt_error err;
    assert_int_equal(kt__ids_push(ids, id, &err), KT_OK);
}

static void expect_ids(kt__ids *got, kt__ids *want) {
    assert_int_equal(got->len, want->len);
    assert_memory_equal(got->data, want->data, want->len * sizeof *want->data);
    kt__ids_free(got);
    kt__ids_free(want);
}

static void test_before_first(void **state) {
    (void)state;
    bpe_vocab(&sv, "qwen2", 40);
    gap_tokens t = add_tokens("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>");
    kt__tokenizer *tok = tok_open(&sv);
    kt__ids got, want;
    /* a control token in the text is text */
    encode_gap(tok, "def f(x):\n  <|fim_suffix|>", "\n  return x", &got);
    kt__ids_init(&want, SIZE_MAX);
    append_id(t.pre, &want);
    append_text(tok, "def f(x):\n  <|fim_suffix|>", &want);
    append_id(t.suf, &want);
    append_text(tok, "\n  return x", &want);
    append_id(t.mid, &want);
    expect_ids(&got, &want);
    encode_gap(tok, "", "", &got);
    assert_int_equal(got.len, 3);
    kt__ids_free(&got);
    kt__tokenizer_free(tok);
}

static void test_after_first(void **state) {
    (void)state;
    bpe_vocab(&sv, "qwen2", 40);
    gap_tokens t = add_tokens("[PREFIX]", "[SUFFIX]", NULL);
    kt__tokenizer *tok = tok_open(&sv);
    kt__ids got, want;
    encode_gap(tok, "one ", " two", &got);
    kt__ids_init(&want, SIZE_MAX);
    append_id(t.suf, &want);
    append_text(tok, " two", &want);
    append_id(t.pre, &want);
    append_text(tok, "one ", &want);
    expect_ids(&got, &want);
    kt__tokenizer_free(tok);
}

/* The beginning-of-text token stands first, and no space is put before the parts. */
static void test_sentencepiece(void **state) {
    (void)state;
    spm_vocab(&sv, true);
    gap_tokens t = add_tokens("▁<PRE>", "▁<SUF>", "▁<MID>");
    kt__tokenizer *tok = tok_open(&sv);
    kt__ids got;
    encode_gap(tok, "a", "a", &got);
    assert_int_equal(got.len, 6);
    assert_int_equal(got.data[0], kt__tokenizer_role_id(tok, KT__ROLE_BOS));
    assert_int_equal(got.data[1], t.pre);
    kt__str piece = kt__tokenizer_token_text(tok, got.data[2]);
    assert_true(piece.len == 1 && *piece.s == 'a');
    assert_int_equal(got.data[3], t.suf);
    assert_int_equal(got.data[4], got.data[2]);
    assert_int_equal(got.data[5], t.mid);
    kt__ids_free(&got);
    kt__tokenizer_free(tok);
}

static void test_without(void **state) {
    (void)state;
    kt_error err;
    kt__ids ids;
    bpe_vocab(&sv, "qwen2", 0);
    add_tokens("<|fim_prefix|>", "<|fim_suffix|>", NULL);
    kt__tokenizer *tok = tok_open(&sv);
    kt__ids_init(&ids, SIZE_MAX);
    assert_int_equal(kt__tokenizer_encode_fim(tok, "a", 1, "b", 1, &ids, &err), KT_E_UNSUPPORTED);
    assert_int_equal(ids.len, 0);
    kt__ids_free(&ids);
    kt__tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_first),
        cmocka_unit_test(test_after_first),
        cmocka_unit_test(test_sentencepiece),
        cmocka_unit_test(test_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
