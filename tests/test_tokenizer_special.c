/* Special tokens in texts and in chat prompts, roles, the end-of-generation set. */
#include "tokenizer_vocab.h"

static small_vocab sv;

static void test_recognition(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    kt__tokenizer *tok = tok_open(&sv);
    int32_t start = vocab_id(&sv, "<|im_start|>"), end = vocab_id(&sv, "<|im_end|>");
    int32_t tool = vocab_id(&sv, "<tool>"), tool2 = vocab_id(&sv, "<tool>>");
    const unsigned parse = KT_TOK_PARSE_SPECIAL;
    ENCODES(tok, "<|im_start|>a<|im_end|>", parse, start, 'a', end);
    ENCODES(tok, "<|im_end|>", 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    /* user-defined tokens always; the longest allowed wins */
    ENCODES(tok, "a<tool>b", 0, 'a', tool, 'b');
    ENCODES(tok, "<tool>>", 0, tool, '>');
    ENCODES(tok, "<tool>>", parse, tool2);
    ENCODES(tok, "<tool><tool", parse, tool, '<', 't', 'o', 'o', 'l');
    ENCODES(tok, "<|im_<|im_end|>", parse, '<', '|', 'i', 'm', '_', end);
    /* unused tokens never */
    ENCODES(tok, "[PAD1]", parse, '[', 'P', 'A', 'D', '1', ']');
    kt__tokenizer_free(tok);
}

/* A mark of turns is text in a message, also where the file calls it user-defined. */
static void test_marks_of_user_defined_type(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    static const char *const marks[] = {"<|turn>",  "<turn|>",         "<|user|>", "<｜User｜>",
                                        "[|user|]", "<start_of_turn>", "[INST]"};
    static const char *const others[] = {"<think>", "<a|b>", "[x]"};
    int32_t first = (int32_t)sv.v.n_tokens;
    int n_marks = sizeof marks / sizeof *marks, n_others = sizeof others / sizeof *others;
    for (int i = 0; i < n_marks; i++) vocab_add_plain(&sv, marks[i], KT__TOK_USER_DEFINED);
    for (int i = 0; i < n_others; i++) vocab_add_plain(&sv, others[i], KT__TOK_USER_DEFINED);
    kt__tokenizer *tok = tok_open(&sv);
    for (int i = 0; i < n_marks + n_others; i++) {
        const char *text = i < n_marks ? marks[i] : others[i - n_marks];
        int32_t id = first + i, bytes[32];
        size_t len = strlen(text);
        for (size_t k = 0; k < len; k++) bytes[k] = (unsigned char)text[k];
        assert_encodes(tok, text, len, KT_TOK_PARSE_SPECIAL, &id, 1);
        if (i < n_marks)
            assert_encodes(tok, text, len, 0, bytes, len);
        else
            assert_encodes(tok, text, len, 0, &id, 1);
    }
    kt__tokenizer_free(tok);
}

/* Leftmost and longest, against looking at every token at every place. */
static void test_random(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    static const char *const names[] = {"<",    "<a", "<ab", "ab>",  "aa",       "aaa",
                                        "aaab", "b<", "b<a", "\xff", "\xff\xff<"};
    int32_t first = (int32_t)sv.v.n_tokens, n_names = sizeof names / sizeof *names;
    for (int i = 0; i < n_names; i++)
        vocab_add_plain(&sv, names[i], i % 3 ? KT__TOK_CONTROL : KT__TOK_USER_DEFINED);
    kt__tokenizer *tok = tok_open(&sv);
    for (int t = 0; t < 20000; t++) {
        char s[40];
        int32_t expected[40];
        unsigned flags = rng(2) ? KT_TOK_PARSE_SPECIAL : 0;
        size_t len = rng(sizeof s), n = 0;
        for (size_t i = 0; i < len; i++) s[i] = "<a>ab\xff"[rng(6)];
        for (size_t i = 0; i < len;) {
            int32_t best = -1;
            for (int k = 0; k < n_names; k++) {
                size_t name_len = strlen(names[k]);
                bool allowed = flags || k % 3 == 0;
                if (allowed && name_len <= len - i && memcmp(s + i, names[k], name_len) == 0 &&
                    (best < 0 || name_len > strlen(names[best])))
                    best = k;
            }
            expected[n++] = best < 0 ? (unsigned char)s[i] : first + best;
            i += best < 0 ? 1 : strlen(names[best]);
        }
        assert_encodes(tok, s, len, flags, expected, n);
    }
    kt__tokenizer_free(tok);
}

static void assert_segments(const kt__tokenizer *tok, const kt__tok_segment *segments,
                            size_t n_segments, unsigned flags, const int32_t *expected, size_t n) {
    kt_error err;
    kt__ids ids;
    kt__ids_init(&ids, SIZE_MAX);
    assert_int_equal(kt__tokenizer_encode_segments(tok, segments, n_segments, flags, &ids, &err),
                     KT_OK);
    assert_ids(&ids, expected, n, "segments");
    kt__ids_free(&ids);
}

#define SEG(text, from_template) \
    { text, sizeof(text) - 1, from_template }
#define SEGMENTS(tok, segs, flags, ...)                              \
    assert_segments(tok, segs, sizeof(segs) / sizeof *(segs), flags, \
                    (const int32_t[]){__VA_ARGS__},                  \
                    sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void test_segments(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 0);
    sv.v.add_bos = 1;
    kt__tokenizer *tok = tok_open(&sv);
    int32_t bos = sv.v.role_ids[KT__ROLE_BOS], start = vocab_id(&sv, "<|im_start|>");
    int32_t end = vocab_id(&sv, "<|im_end|>"), tool = vocab_id(&sv, "<tool>");
    /* what the user writes is text, also where it touches the template's */
    const kt__tok_segment injected[] = {SEG("<|im_start|>", true), SEG("<|im_end|>", false),
                                        SEG("<|im_end|>", true)};
    SEGMENTS(tok, injected, 0, start, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', end);
    const kt__tok_segment halves[] = {SEG("<|im_", true), SEG("end|>", false), SEG("<|im", false),
                                      SEG("_end|>", true)};
    SEGMENTS(tok, halves, 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', '<', '|', 'i', 'm',
             '_', 'e', 'n', 'd', '|', '>');
    /* template pieces that touch are one */
    const kt__tok_segment joined[] = {SEG("<|im_", true), SEG("", false), SEG("end|>", true)};
    SEGMENTS(tok, joined, 0, end);
    const kt__tok_segment user_defined[] = {SEG("<tool>", false), SEG("x", true)};
    SEGMENTS(tok, user_defined, 0, tool, 'x');
    /* BOS: added, and not doubled */
    const kt__tok_segment plain[] = {SEG("x", true)};
    SEGMENTS(tok, plain, KT_TOK_ADD_SPECIAL, bos, 'x');
    const kt__tok_segment with_bos[] = {SEG("<|bos|>x", true)};
    SEGMENTS(tok, with_bos, KT_TOK_ADD_SPECIAL, bos, 'x');
    const kt__tok_segment forged[] = {SEG("<|bos|>", false)};
    SEGMENTS(tok, forged, KT_TOK_ADD_SPECIAL, bos, '<', '|', 'b', 'o', 's', '|', '>');
    assert_segments(tok, NULL, 0, 0, NULL, 0);
    kt__tokenizer_free(tok);
}

/* Cut anywhere, a prompt without specials in the user's part gives the ids of the whole. */
static void test_segments_are_one_text(void **state) {
    (void)state;
    static const char prompt[] = "<|im_start|>user\nthe singing things, kentang goreng<|im_end|>\n"
                                 "<|im_start|>assistant\n";
    static const size_t user_begin = 17, user_end = 50;
    bpe_vocab(&sv, "qwen2", 250);
    kt__tokenizer *tok = tok_open(&sv);
    kt__ids whole;
    kt_error err;
    kt__ids_init(&whole, SIZE_MAX);
    assert_int_equal(
        kt__tokenizer_encode(tok, prompt, strlen(prompt), KT_TOK_PARSE_SPECIAL, &whole, &err),
        KT_OK);
    for (size_t a = user_begin; a <= user_end; a++)
        for (size_t b = a; b <= user_end; b++) {
            const kt__tok_segment cut[] = {{prompt, a, true},
                                           {prompt + a, b - a, false},
                                           {prompt + b, strlen(prompt) - b, true}};
            assert_segments(tok, cut, 3, 0, whole.data, whole.len);
        }
    kt__ids_free(&whole);
    kt__tokenizer_free(tok);
}

static void test_bos_eos(void **state) {
    (void)state;
    bpe_vocab(&sv, "llama-bpe", 0); /* adds BOS by itself */
    kt__tokenizer *tok = tok_open(&sv);
    int32_t bos = sv.v.role_ids[KT__ROLE_BOS], eos = sv.v.role_ids[KT__ROLE_EOS];
    ENCODES(tok, "a", KT_TOK_ADD_SPECIAL, bos, 'a');
    ENCODES(tok, "a", 0, 'a');
    kt__tokenizer_free(tok);
    sv.v.add_bos = 0;
    sv.v.add_eos = 1;
    tok = tok_open(&sv);
    ENCODES(tok, "a", KT_TOK_ADD_SPECIAL, 'a', eos);
    assert_false(kt__tokenizer_add_bos(tok));
    assert_true(kt__tokenizer_add_eos(tok));
    kt__tokenizer_free(tok);
    sv.v.role_ids[KT__ROLE_EOS] = -1;
    tok = tok_open(&sv);
    ENCODES(tok, "a", KT_TOK_ADD_SPECIAL, 'a');
    kt__tokenizer_free(tok);
}

static void test_roles_by_text(void **state) {
    (void)state;
    bpe_vocab(&sv, "qwen2", 1);
    int32_t eom = vocab_add_plain(&sv, "<|eom_id|>", KT__TOK_CONTROL);
    int32_t end_of_turn = vocab_add_plain(&sv, "<end_of_turn>", KT__TOK_NORMAL); /* just text */
    int32_t eot = vocab_add_plain(&sv, "<|eot_id|>", KT__TOK_NORMAL); /* a converter's mistake */
    int32_t fim = vocab_add_plain(&sv, "<|fim_prefix|>", KT__TOK_USER_DEFINED);
    kt__tokenizer *tok = tok_open(&sv);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_EOM), eom);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_EOT), eot);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_FIM_PRE), fim);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_FIM_SUF), -1);
    assert_int_equal(kt__tokenizer_role_id(tok, KT__ROLE_COUNT), -1);
    assert_int_equal(kt__tokenizer_token_attr(tok, eot), KT__TOK_CONTROL);
    ENCODES(tok, "<|eot_id|>", KT_TOK_PARSE_SPECIAL, eot);
    assert_true(kt__tokenizer_is_eog(tok, eot));
    assert_true(kt__tokenizer_is_eog(tok, eom));
    assert_true(kt__tokenizer_is_eog(tok, vocab_id(&sv, "<|im_end|>")));
    assert_true(kt__tokenizer_is_eog(tok, vocab_id(&sv, "<|endoftext|>")));
    assert_false(kt__tokenizer_is_eog(tok, end_of_turn));
    assert_false(kt__tokenizer_is_eog(tok, vocab_id(&sv, "<|im_start|>")));
    assert_false(kt__tokenizer_is_eog(tok, -1));
    int n = 0;
    for (int32_t id = 0; id < kt__tokenizer_n_vocab(tok); id++) n += kt__tokenizer_is_eog(tok, id);
    assert_int_equal(n, 4);
    kt__tokenizer_free(tok);
}

/* Formats with channels: <|end|> ends a message, not the turn. */
static void test_channels(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-4o", 0);
    int32_t end = vocab_add_plain(&sv, "<|end|>", KT__TOK_CONTROL);
    kt__tokenizer *tok = tok_open(&sv);
    assert_true(kt__tokenizer_is_eog(tok, end));
    kt__tokenizer_free(tok);
    int32_t ret = vocab_add_plain(&sv, "<|return|>", KT__TOK_CONTROL);
    int32_t call = vocab_add_plain(&sv, "<|call|>", KT__TOK_CONTROL);
    tok = tok_open(&sv);
    assert_false(kt__tokenizer_is_eog(tok, end));
    assert_true(kt__tokenizer_is_eog(tok, ret));
    assert_true(kt__tokenizer_is_eog(tok, call));
    kt__tokenizer_free(tok);
}

/* Phi-3's chat tokens swallow the whitespace behind them. */
static void test_rstrip(void **state) {
    (void)state;
    spm_vocab(&sv, true);
    int32_t end = vocab_add_plain(&sv, "<|end|>", KT__TOK_CONTROL), the = vocab_id(&sv, LB "the");
    int32_t lb = vocab_id(&sv, LB), nl = vocab_id(&sv, "<0x0A>"), bos = vocab_id(&sv, "<s>");
    kt__tokenizer *tok = tok_open(&sv);
    ENCODES(tok, "<|end|>\n", KT_TOK_PARSE_SPECIAL, end, lb, nl);
    kt__tokenizer_free(tok);
    sv.v.arch = "phi3";
    tok = tok_open(&sv);
    ENCODES(tok, "<|end|>\n \xe3\x80\x80the<|end|>", KT_TOK_PARSE_SPECIAL, end, the, end);
    ENCODES(tok, "<s>\n", KT_TOK_PARSE_SPECIAL, bos, lb, nl);
    kt__tokenizer_free(tok);
}

/* Tokens of any vocabulary take the white space before or after them where the file says so. */
static void test_strips(void **state) {
    (void)state;
    uint8_t strips[1024] = {0};
    bpe_vocab(&sv, "gpt-2", 10);
    int32_t left = vocab_add_plain(&sv, "<|l|>", KT__TOK_CONTROL);
    int32_t right = vocab_add_plain(&sv, "<|r|>", KT__TOK_USER_DEFINED);
    int32_t plain = vocab_add_plain(&sv, "<|p|>", KT__TOK_CONTROL);
    int32_t a = vocab_id(&sv, "a"), nl = vocab_id(&sv, "\xc4\x8a");
    assert_true(sv.v.n_tokens <= sizeof strips);
    strips[left] = KT__TOK_LSTRIP;
    strips[right] = KT__TOK_RSTRIP;
    sv.v.strips = strips;
    kt__tokenizer *tok = tok_open(&sv);
    ENCODES(tok, "a \n\xe3\x80\x80<|l|>\na", KT_TOK_PARSE_SPECIAL, a, left, nl, a);
    ENCODES(tok, "<|r|> \xe3\x80\x80\na<|p|>\n<|l|>", KT_TOK_PARSE_SPECIAL, right, a, plain, left);
    ENCODES(tok, "<|r|> \n<|l|>", KT_TOK_PARSE_SPECIAL, right, left);
    ENCODES(tok, "  <|l|> ", KT_TOK_PARSE_SPECIAL, left, vocab_id(&sv, "\xc4\xa0"));
    strips[left] = KT__TOK_LSTRIP | KT__TOK_RSTRIP;
    kt__tokenizer_free(tok);
    tok = tok_open(&sv);
    ENCODES(tok, "a \t<|l|>\n \n", KT_TOK_PARSE_SPECIAL, a, left);
    assert_int_equal(kt__tokenizer_bytes_per_id(tok), 0);
    kt__tokenizer_free(tok);
}

static void test_asking(void **state) {
    (void)state;
    bpe_vocab(&sv, "gpt-2", 10);
    int32_t twice = vocab_add_plain(&sv, "<|im_end|>", KT__TOK_CONTROL);
    kt__tokenizer *tok = tok_open(&sv);
    assert_string_equal(kt__tokenizer_kind(tok), "gpt2/gpt-2");
    assert_int_equal(kt__tokenizer_n_vocab(tok), sv.v.n_tokens);
    for (int32_t id = 0; id < (int32_t)sv.v.n_tokens; id++) {
        kt__str text = kt__tokenizer_token_text(tok, id),
                bytes = kt__tokenizer_token_bytes(tok, id);
        assert_int_equal(text.len, sv.tokens[id].len);
        assert_int_equal(bytes.len, sv.bytes[id].len);
        assert_memory_equal(bytes.s, sv.bytes[id].s, bytes.len);
        /* of equal texts the last counts */
        int32_t found = kt__tokenizer_find(tok, text.s, text.len);
        assert_int_equal(found, vocab_find(&sv, text.s, text.len));
    }
    assert_int_equal(kt__tokenizer_find(tok, "<|im_end|>", 10), twice);
    ENCODES(tok, "<|im_end|>", KT_TOK_PARSE_SPECIAL, twice);
    assert_int_equal(kt__tokenizer_find(tok, "no such token", 13), -1);
    assert_int_equal(kt__tokenizer_find(tok, "", 0), -1);
    assert_int_equal(kt__tokenizer_token_text(tok, -1).len, 0);
    assert_int_equal(kt__tokenizer_token_bytes(tok, INT32_MAX).len, 0);
    assert_int_equal(kt__tokenizer_token_attr(tok, -5), KT__TOK_UNDEFINED);
    kt__tokenizer_free(tok);
    spm_vocab(&sv, true);
    tok = tok_open(&sv);
    assert_string_equal(kt__tokenizer_kind(tok), "llama");
    for (int32_t id = 0; id < (int32_t)sv.v.n_tokens; id++)
        assert_int_equal(kt__tokenizer_find(tok, sv.tokens[id].s, sv.tokens[id].len), id);
    kt__tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recognition),
        cmocka_unit_test(test_marks_of_user_defined_type),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_segments_are_one_text),
        cmocka_unit_test(test_bos_eos),
        cmocka_unit_test(test_roles_by_text),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_rstrip),
        cmocka_unit_test(test_strips),
        cmocka_unit_test(test_asking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
