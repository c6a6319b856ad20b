/* The tokenizer with each allocation failing in turn: loading, encoding, decoding. */
#include "tokenizer_vocab.h"

#include "fault_alloc.h"

static small_vocab sv;

/* Calls run until no allocation of it fails; each failure must be named and leave nothing behind.
 */
static void fail_each(kt_status (*run)(void *arg, kt_error *err), void *arg) {
    long n_failed = 0;
    for (fail_at = 0;; fail_at++) {
        kt_error err = {0};
        size_t before = live;
        n_calls = 0;
        kt_status status = run(arg, &err);
        bool reached = n_calls > fail_at;
        assert_int_equal(live, before);
        if (!reached) {
            assert_int_equal(status, KT_OK);
            break;
        }
        if (status == KT_OK) continue; /* did without */
        assert_int_equal(status, KT_E_NOMEM);
        assert_int_equal(err.code, KT_E_NOMEM);
        n_failed++;
    }
    fail_at = -1;
    assert_true(n_failed > 0);
}

static kt_status load(void *arg, kt_error *err) {
    (void)arg;
    kt__tokenizer *tok = NULL;
    kt_status status = kt__tokenizer_new(&sv.v, &tok, err);
    assert_true((status == KT_OK) == (tok != NULL));
    kt__tokenizer_free(tok);
    return status;
}

static void test_load(void **state) {
    (void)state;
    bpe_vocab(&sv, "qwen2", 60);
    fail_each(load, NULL);
    spm_vocab(&sv, true);
    fail_each(load, NULL);
    unigram_vocab(&sv, true);
    fail_each(load, NULL);
    wordpiece_vocab(&sv);
    fail_each(load, NULL);
}

static char text[12000];
static size_t text_len;

static kt_status encode(void *arg, kt_error *err) {
    kt__ids ids;
    kt__ids_init(&ids, SIZE_MAX);
    kt_status status = kt__tokenizer_encode(arg, text, text_len, KT_TOK_PARSE_SPECIAL, &ids, err);
    if (status != KT_OK) assert_int_equal(ids.len, 0);
    kt__ids_free(&ids);
    return status;
}

static kt_status encode_segments(void *arg, kt_error *err) {
    const kt__tok_segment segments[] = {{text, 100, true}, {text + 100, text_len - 100, false}};
    kt__ids ids;
    kt__ids_init(&ids, SIZE_MAX);
    kt_status status = kt__tokenizer_encode_segments(arg, segments, 2, KT_TOK_ADD_SPECIAL, &ids,
                                                     err);
    kt__ids_free(&ids);
    return status;
}

static kt_status decode(void *arg, kt_error *err) {
    kt_status status = KT_OK;
    kt__buf once, streamed;
    kt__detok detok;
    kt__buf_init(&once, SIZE_MAX / 2);
    kt__buf_init(&streamed, SIZE_MAX / 2);
    kt__detok_init(&detok, arg, 0, true);
    for (int32_t id = 0; id < 300 && status == KT_OK; id++) {
        status = kt__tokenizer_decode(arg, &id, 1, 0, &once, err);
        if (status == KT_OK) status = kt__detok_push(&detok, id, &streamed, err);
    }
    if (status == KT_OK) status = kt__detok_finish(&detok, &streamed, err);
    kt__buf_free(&once);
    kt__buf_free(&streamed);
    return status;
}

/* A memo, a normalised stretch, special tokens, a long word. */
static void fill_text(void) {
    static const char unit[] =
        "the singing thing A\xcc\x88pfel <|im_end|>kentang \xe2\x96\x81 goreng<s>";
    text_len = 0;
    while (text_len < 6000) {
        memcpy(text + text_len, unit, strlen(unit));
        text_len += strlen(unit);
    }
    memset(text + text_len, 'a', 3000);
    text_len += 3000;
}

static void test_encode(void **state) {
    (void)state;
    fill_text();
    for (int spm = 0; spm < 2; spm++) {
        if (spm)
            spm_vocab(&sv, true);
        else
            bpe_vocab(&sv, "qwen2", 60);
        kt__tokenizer *tok = tok_open(&sv);
        fail_each(encode, tok);
        fail_each(encode_segments, tok);
        if (!spm) fail_each(decode, tok);
        kt__tokenizer_free(tok);
    }
    for (int wordpiece = 0; wordpiece < 2; wordpiece++) {
        if (wordpiece)
            wordpiece_vocab(&sv);
        else
            unigram_vocab(&sv, true);
        kt__tokenizer *tok = tok_open(&sv);
        fail_each(encode, tok);
        kt__tokenizer_free(tok);
    }
    assert_int_equal(live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_load), cmocka_unit_test(test_encode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
