/* Loading vocabularies from files and memory: what is accepted, what is refused, and how it is
 * said. */
#include "gguf_scalar.h"
#include "tokenizer_gguf.h"

static small_vocab sv;
static char path[] = "/tmp/kt_tok_XXXXXX";

static int make_path(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static void test_same_from_file(void **state) {
    (void)state;
    static const char text[] = "The singer sings <|im_end|> things, kentang goreng </s>\n\xff 2024";
    for (int spm = 0; spm < 2; spm++) {
        if (spm)
            spm_vocab(&sv, true);
        else
            bpe_vocab(&sv, "qwen2", 250);
        vocab_write(&sv, path, NULL);
        kt__gguf *gguf = vocab_open_file(path);
        kt__tokenizer *from_file, *from_memory = tok_open(&sv);
        kt_error err;
        assert_int_equal(kt__tokenizer_load(gguf, &from_file, &err), KT_OK);
        kt__ids ids;
        kt__ids_init(&ids, SIZE_MAX);
        const unsigned flags = KT_TOK_PARSE_SPECIAL | KT_TOK_ADD_SPECIAL;
        assert_int_equal(kt__tokenizer_encode(from_memory, text, strlen(text), flags, &ids, &err),
                         KT_OK);
        assert_encodes(from_file, text, strlen(text), flags, ids.data, ids.len);
        assert_null(kt__tokenizer_warning(from_file));
        assert_int_equal(kt__tokenizer_n_vocab(from_file), sv.v.n_tokens);
        kt__ids_free(&ids);
        kt__tokenizer_free(from_file);
        kt__tokenizer_free(from_memory);
        kt__gguf_close(gguf);
    }
}

/* ---- refusals ---- */

static void assert_refused(kt_status expected, const char *words) {
    kt_error err;
    kt__tokenizer *tok = NULL;
    kt_status status = kt__tokenizer_new(&sv.v, &tok, &err);
    if (status != expected)
        fail_msg("status %d (%s), expected %s", (int)status, words, kt_status_name(expected));
    assert_null(tok);
    if (!strstr(err.message, words)) fail_msg("\"%s\" does not say \"%s\"", err.message, words);
}

static void assert_file_refused(kt_status expected, const char *words,
                                void (*more)(kt__gguf_writer *w)) {
    kt_error err;
    kt__tokenizer *tok = NULL;
    vocab_write(&sv, path, more);
    kt__gguf *gguf = vocab_open_file(path);
    kt_status status = kt__tokenizer_load(gguf, &tok, &err);
    if (status != expected) fail_msg("status %d (%s)", (int)status, words);
    assert_null(tok);
    if (!strstr(err.message, words)) fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    assert_string_equal(err.where, path);
    kt__gguf_close(gguf);
}

static void test_model_and_pre(void **state) {
    (void)state;
    bpe_vocab(&sv, "martian", 4);
    assert_refused(KT_E_UNSUPPORTED, "\"martian\"");
    sv.v.pre = "a\x1b[31m";
    assert_refused(KT_E_UNSUPPORTED, "\"a?[31m\"");
    sv.v.model = "rwkv";
    assert_refused(KT_E_UNSUPPORTED, "\"rwkv\"");
    sv.v.model = NULL;
    assert_refused(KT_E_ARG, "model");
    assert_file_refused(KT_E_FORMAT, "tokenizer.ggml.model", NULL);
    bpe_vocab(&sv, NULL, 4);
    kt__tokenizer *tok = tok_open(&sv);
    assert_non_null(kt__tokenizer_warning(tok));
    assert_string_equal(kt__tokenizer_kind(tok), "gpt2/default");
    kt__tokenizer_free(tok);
}

static void put_scores_as_ints(kt__gguf_writer *w) {
    const int32_t scores[] = {1, 2};
    kt__gguf_put_i32s(w, "tokenizer.ggml.scores", scores, 2);
}

static void put_few_scores(kt__gguf_writer *w) {
    const float scores[] = {1, 2};
    kt__gguf_put_f32s(w, "tokenizer.ggml.scores", scores, 2);
}

static void put_types_as_floats(kt__gguf_writer *w) {
    kt__gguf_put_f32s(w, "tokenizer.ggml.token_type", sv.scores, sv.v.n_tokens);
}

static void put_few_types(kt__gguf_writer *w) {
    const int32_t types[] = {1};
    kt__gguf_put_i32s(w, "tokenizer.ggml.token_type", types, 1);
}

static void put_tokens_as_ints(kt__gguf_writer *w) {
    const int32_t tokens[] = {1};
    kt__gguf_put_i32s(w, "tokenizer.ggml.tokens", tokens, 1);
}

static void put_no_tokens(kt__gguf_writer *w) {
    kt__gguf_put_strs(w, "tokenizer.ggml.tokens", NULL, 0);
}

static void put_merges_as_ints(kt__gguf_writer *w) {
    const int32_t merges[] = {1};
    kt__gguf_put_i32s(w, "tokenizer.ggml.merges", merges, 1);
}

static void put_bos_as_text(kt__gguf_writer *w) {
    kt__gguf_put_str(w, "tokenizer.ggml.bos_token_id", "1");
}

static void put_charsmap_as_ints(kt__gguf_writer *w) {
    const int32_t map[] = {4, 0};
    kt__gguf_put_i32s(w, "tokenizer.ggml.precompiled_charsmap", map, 2);
}

static void put_lowercase_as_text(kt__gguf_writer *w) {
    kt__gguf_put_str(w, "tokenizer.ggml.normalizer.lowercase", "no");
}

static void put_add_bos_as_int(kt__gguf_writer *w) {
    kt__gguf_put_u32(w, "tokenizer.ggml.add_bos_token", 1);
}

static void put_eos_ids_as_text(kt__gguf_writer *w) {
    kt__gguf_put_str(w, "kentang.eos_ids", "3");
}

static void put_eos_ids_as_floats(kt__gguf_writer *w) {
    kt__gguf_put_f32s(w, "kentang.eos_ids", sv.scores, 1);
}

static void put_many_eos_ids(kt__gguf_writer *w) {
    static const int32_t ids[257];
    kt__gguf_put_i32s(w, "kentang.eos_ids", ids, 257);
}

static void test_array_types(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    sv.v.role_ids[KT__ROLE_BOS] = -1;
    assert_file_refused(KT_E_FORMAT, "bos_token_id", put_bos_as_text);
    assert_file_refused(KT_E_FORMAT, "precompiled_charsmap", put_charsmap_as_ints);
    assert_file_refused(KT_E_FORMAT, "normalizer.lowercase", put_lowercase_as_text);
    assert_file_refused(KT_E_FORMAT, "add_bos_token", put_add_bos_as_int);
    assert_file_refused(KT_E_FORMAT, "kentang.eos_ids", put_eos_ids_as_text);
    assert_file_refused(KT_E_FORMAT, "kentang.eos_ids", put_eos_ids_as_floats);
    assert_file_refused(KT_E_FORMAT, "kentang.eos_ids", put_many_eos_ids);
    assert_file_refused(KT_E_FORMAT, "tokenizer.ggml.merges", put_merges_as_ints);
    assert_file_refused(KT_E_FORMAT, "tokenizer.ggml.scores", put_scores_as_ints);
    assert_file_refused(KT_E_FORMAT, "tokenizer.ggml.scores", put_few_scores);
    sv.v.types = NULL;
    assert_file_refused(KT_E_FORMAT, "tokenizer.ggml.token_type", put_types_as_floats);
    assert_file_refused(KT_E_FORMAT, "tokenizer.ggml.token_type", put_few_types);
    sv.v.tokens = NULL;
    assert_file_refused(KT_E_FORMAT, "tokenizer.ggml.tokens", NULL);
    assert_file_refused(KT_E_FORMAT, "tokenizer.ggml.tokens", put_tokens_as_ints);
    assert_file_refused(KT_E_FORMAT, "0 tokens", put_no_tokens);
}

static void test_merges(void **state) {
    (void)state;
    static const char *const bad[] = {"", " ", "a", "ab", "a ", " b", " a b"};
    bpe_vocab(&sv, "gpt-2", 10);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sv.merges[7] = (kt__str){bad[i], strlen(bad[i])};
        assert_refused(KT_E_FORMAT, "merges[7]");
    }
    /* merges of unknown texts are ignored with a warning; of equal ones the last counts */
    bpe_vocab(&sv, "gpt-2", 0);
    int32_t ab = vocab_merge(&sv, 'a', 'b');
    sv.merges[sv.v.n_merges++] = (kt__str){"x y", 3};
    int32_t bc = vocab_merge(&sv, 'b', 'c');
    kt__tokenizer *tok = tok_open(&sv);
    assert_non_null(kt__tokenizer_warning(tok));
    ENCODES(tok, "abc", 0, ab, 'c');
    ENCODES(tok, "xy", 0, 'x', 'y');
    kt__tokenizer_free(tok);
    vocab_merge(&sv, 'a', 'b');
    tok = tok_open(&sv);
    ENCODES(tok, "abc", 0, 'a', bc);
    kt__tokenizer_free(tok);
}

static void test_attributes(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    sv.types[3] = 7;
    assert_refused(KT_E_FORMAT, "token_type[3] is 7");
    sv.types[3] = -1;
    assert_refused(KT_E_FORMAT, "token_type[3] is -1");
    static const char *const bad[] = {"<0x-1>", "<0xG0>", "<0x00", "<0x100>",
                                      "0x00",   "<0x 1>", "<0X01>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spm_vocab(&sv, true);
        sv.tokens[9] = (kt__str){bad[i], strlen(bad[i])};
        assert_refused(KT_E_FORMAT, "tokens[9]");
    }
    spm_vocab(&sv, true);
    sv.v.scores = NULL;
    assert_refused(KT_E_FORMAT, "tokenizer.ggml.scores");
    spm_vocab(&sv, true);
    sv.scores[260] = (float)(0.0 * (1e300 * 1e300));
    assert_refused(KT_E_FORMAT, "scores[260]");
    /* without types, byte tokens are known by their texts */
    spm_vocab(&sv, true);
    sv.v.types = NULL;
    kt__tokenizer *tok = tok_open(&sv);
    ENCODES(tok, "x", 0, vocab_id(&sv, LB), vocab_id(&sv, "<0x78>"));
    assert_int_equal(kt__tokenizer_token_attr(tok, vocab_id(&sv, "<0x78>")), KT__TOK_BYTE);
    kt__tokenizer_free(tok);
}

static void test_role_ids(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    sv.v.role_ids[KT__ROLE_BOS] = (int32_t)sv.v.n_tokens;
    assert_refused(KT_E_FORMAT, "bos_token_id");
    sv.v.role_ids[KT__ROLE_BOS] = -7;
    assert_refused(KT_E_FORMAT, "bos_token_id is -7");
    sv.v.role_ids[KT__ROLE_BOS] = -1;
    sv.v.role_ids[KT__ROLE_EOS] = INT32_MAX;
    assert_refused(KT_E_FORMAT, "eos_token_id");
    /* a padding id out of range harms nobody; files write "none" as 0xffffffff */
    sv.v.role_ids[KT__ROLE_EOS] = -1;
    sv.v.role_ids[KT__ROLE_PAD] = 99999;
    vocab_write(&sv, path, NULL);
    kt__gguf *gguf = vocab_open_file(path);
    kt__tokenizer *tok;
    kt_error err;
    assert_int_equal(kt__tokenizer_load(gguf, &tok, &err), KT_OK);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_PAD), -1);
    kt__tokenizer_free(tok);
    kt__gguf_close(gguf);
}

static void put_none(kt__gguf_writer *w) {
    kt__gguf_put_u32(w, "tokenizer.ggml.bos_token_id", UINT32_MAX);
    gguf_put_scalar(w, "tokenizer.ggml.eos_token_id", KT__GGUF_I32, -1);
    gguf_put_scalar(w, "tokenizer.ggml.eot_token_id", KT__GGUF_U64, 3);
}

static void test_none(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    sv.v.role_ids[KT__ROLE_BOS] = sv.v.role_ids[KT__ROLE_EOS] = -1;
    vocab_write(&sv, path, put_none);
    kt__gguf *gguf = vocab_open_file(path);
    kt__tokenizer *tok;
    kt_error err;
    assert_int_equal(kt__tokenizer_load(gguf, &tok, &err), KT_OK);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_BOS), -1);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_EOS), -1);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_EOT), 3);
    kt__tokenizer_free(tok);
    kt__gguf_close(gguf);
}

static void put_eos_ids(kt__gguf_writer *w) {
    const int32_t ids[] = {7, 5, 7, -1, 99999};
    kt__gguf_put_i32s(w, "kentang.eos_ids", ids, 5);
}

/* A model may end its answers in more ways than the format's eos and eot. */
static void test_all_ends(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    vocab_write(&sv, path, put_eos_ids);
    kt__gguf *gguf = vocab_open_file(path);
    kt__tokenizer *tok;
    kt_error err;
    assert_int_equal(kt__tokenizer_load(gguf, &tok, &err), KT_OK);
    assert_true(kt__tokenizer_is_eog(tok, 7) && kt__tokenizer_is_eog(tok, 5));
    assert_false(kt__tokenizer_is_eog(tok, 6) || kt__tokenizer_is_eog(tok, 99999));
    kt__tokenizer_free(tok);
    kt__gguf_close(gguf);
    tok = tok_open(&sv);
    assert_false(kt__tokenizer_is_eog(tok, 7) || kt__tokenizer_is_eog(tok, 5));
    kt__tokenizer_free(tok);
}

/* Without its merges every text would be cut into bytes. */
static void test_no_merges(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 3);
    sv.v.n_merges = 0;
    assert_refused(KT_E_FORMAT, "tokenizer.ggml.merges is missing");
}

static void test_limits(void **state) {
    (void)state;
    static char big[70000];
    memset(big, 'a', sizeof big);
    bpe_vocab(&sv, "gpt-2", 1);
    sv.tokens[5] = (kt__str){big, 65536};
    assert_refused(KT_E_LIMIT, "tokens[5]");
    sv.tokens[5] = (kt__str){big, 65535};
    sv.types[5] = KT__TOK_CONTROL;
    assert_refused(KT_E_LIMIT, "tokens[5]");
    sv.types[5] = KT__TOK_NORMAL;
    kt__tokenizer *tok = tok_open(&sv);
    assert_int_equal(kt__tokenizer_token_bytes(tok, 5).len, 65535);
    assert_int_equal(kt__tokenizer_find(tok, big, 65535), 5);
    kt__tokenizer_free(tok);
    sv.v.n_tokens = 0;
    assert_refused(KT_E_FORMAT, "0 tokens");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_from_file), cmocka_unit_test(test_model_and_pre),
        cmocka_unit_test(test_array_types),    cmocka_unit_test(test_merges),
        cmocka_unit_test(test_attributes),     cmocka_unit_test(test_role_ids),
        cmocka_unit_test(test_none),           cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_merges),      cmocka_unit_test(test_all_ends),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
