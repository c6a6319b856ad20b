/* Pre-tokenizer scanners against PCRE2 running the patterns they stand for, and their worst cases.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcre2.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/text.h"
#include "tokenizer/pretok.h"
#include "tokenizer/unicode.h"

/* White_Space; PCRE2's own \s has U+180E, too. */
#define WS                                                                                      \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{" \
    "205f}\\x{3000}"
#define S "[" WS "]"
#define NOT_S "[^" WS "]"
#define END "|" S "*[\\r\\n]+|" S "+(?!" NOT_S ")|" S "+"
#define GPT2                                                                                      \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|" S "+(?!" NOT_S ")|" S \
    "+"
#define CL100K(word, not_word, digits)                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?" word "+|" digits "| ?[^" WS not_word \
    "\\p{N}]+[\\r\\n]*" END
#define UP "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOW "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define O200K(contraction, digits)                                                                \
    PREFIX UP "*" LOW "+" contraction "|" PREFIX UP "+" LOW "*" contraction "|" digits "| ?[^" WS \
              "\\p{L}\\p{N}]+[\\r\\n/]*" END

#define CASED                                                                              \
    "\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"  \
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}" \
    "\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"          \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}"                 \
    "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}"         \
    "\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}"         \
    "\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}"         \
    "\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}" \
    "\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}"                   \
    "\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}"         \
    "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}" \
    "\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}"           \
    "\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}" \
    "\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}"          \
    "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}"         \
    "\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}"         \
    "\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}"   \
    "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define NO_HAN(class) "(?:(?!\\p{sc:Han})" class ")"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define EAST_ASIAN "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"

typedef struct family {
    kt__pretok_family id;
    const char *stages[6]; /* successive isolated splits */
    size_t n_text;         /* of them over characters, the rest over bytes; 0: all */
} family;

static const family families[] = {
    {.id = KT__PRETOK_CL100K, .stages = {CL100K("\\p{L}", "\\p{L}", "\\p{N}{1,3}")}},
    {.id = KT__PRETOK_QWEN2, .stages = {CL100K("\\p{L}", "\\p{L}", "\\p{N}")}},
    {.id = KT__PRETOK_QWEN35, .stages = {CL100K("[\\p{L}\\p{M}]", "\\p{L}\\p{M}", "\\p{N}")}},
    {.id = KT__PRETOK_GPT2, .stages = {GPT2}},
    {.id = KT__PRETOK_DIGITS_GPT2, .stages = {"\\p{N}", GPT2}},
    {.id = KT__PRETOK_O200K, .stages = {O200K("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\p{N}{1,3}")}},
    {.id = KT__PRETOK_TEKKEN, .stages = {O200K("", "\\p{N}")}},
    {.id = KT__PRETOK_KIMI,
     .stages = {"\\p{sc:Han}+|" PREFIX NO_HAN(UP) "*" NO_HAN(LOW) "+" CONTRACTION "|" PREFIX NO_HAN(
         UP) "+" NO_HAN(LOW) "*" CONTRACTION "|\\p{N}{1,3}| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*" END}},
    {.id = KT__PRETOK_FALCON,
     .stages = {"[\\p{P}$+<=>^`|~]+", GPT2, "[0-9\\xb2\\xb3\\xb9\\xbc-\\xbe]+", "[0-9][0-9][0-9]"},
     .n_text = 2},
    {.id = KT__PRETOK_DEEPSEEK3,
     .stages = {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
                "[!\"#$%&'()*+,\\-./"
                ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                "| ?[\\p{P}\\p{S}]+[\\r\\n]*" END}},
    {.id = KT__PRETOK_DEEPSEEK_LLM,
     .stages =
         {"[\\r\\n]", S "?[" CASED "]+",
          S
          "?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
          S "+\\z", EAST_ASIAN, "\\p{N}+"}},
    {.id = KT__PRETOK_DEEPSEEK_CODER,
     .stages = {"[\\r\\n]", S "?\\p{L}+", S "?\\p{P}+", EAST_ASIAN, "\\p{N}"}},
};
enum { N_FAMILIES = sizeof families / sizeof *families, MAX_STAGES = 6 };

static pcre2_code *compile_as(const char *pattern, uint32_t options) {
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &error,
                                     &offset, NULL);
    if (!code) fail_msg("pattern does not compile at %zu: %s", (size_t)offset, pattern);
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return code;
}

static pcre2_code *compile(const char *pattern) {
    return compile_as(pattern, PCRE2_UTF | PCRE2_UCP);
}

static pcre2_code *compile_stage(const family *f, size_t i) {
    return f->n_text && i >= f->n_text ? compile_as(f->stages[i], 0) : compile(f->stages[i]);
}

/* ---- the oracle: ends of words ---- */

enum { MAX_CHARS = 40, MAX_BYTES = 4 * MAX_CHARS };

typedef struct ends {
    size_t at[MAX_BYTES];
    size_t n;
} ends;

/* Splits s[begin..end) by one stage and hands each piece on to the next. */
static void split(pcre2_code *const *stages, const char *s, size_t begin, size_t end, ends *out) {
    if (begin == end) return;
    if (!stages[0]) {
        out->at[out->n++] = end;
        return;
    }
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    size_t at = begin, len = end - begin;
    while (at < end) {
        int rc = pcre2_match(stages[0], (PCRE2_SPTR)s + begin, len, at - begin, PCRE2_NO_UTF_CHECK,
                             match, NULL);
        if (rc < 0) break;
        PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
        split(stages + 1, s, at, begin + span[0], out);
        split(stages + 1, s, begin + span[0], begin + span[1], out);
        at = begin + span[1];
    }
    split(stages + 1, s, at, end, out);
    pcre2_match_data_free(match);
}

/* ---- random texts ---- */

static uint64_t rng_state;

static uint32_t rng(uint32_t below) {
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)((rng_state >> 33) % below);
}

/* A few of each kind that some pattern tells apart. */
static const uint32_t chosen[] = {
    ' ',     ' ',      ' ',    '\n',   '\n',   '\r',    '\t',   0x0b,    0x85,   0xa0,   0x1680,
    0x2028,  0x3000,   '\'',   '\'',   '\'',   's',     'S',    't',     'r',    'e',    'v',
    'L',     'l',      'm',    'D',    'a',    'A',     'B',    'z',     '0',    '1',    '9',
    '/',     '.',      '!',    '-',    '_',    '<',     '$',    0x17f,   0x212a, 0xe9,   0xc9,
    0x1c5,   0x2b0,    0x4e2d, 0x3042, 0x30fc, 0x30fb,  0x3099, 0x3040,  0x0e01, 0x0e34, 0x0939,
    0x093f,  0x0301,   0x0903, 0x20dd, 0xbd,   0x2167,  0x0663, 0x2014,  0xab,   0x20ac, 0x5e,
    0x1f600, 0x1f3fd,  0x200d, 0xfeff, 0x01,   0xe000,  0x180e, 0x9fa5,  0x9fa6, 0x200b, 0x1d400,
    0x7f,    0x10fffd, 0x3005, 0x2e80, 0x3007, 0x16ff0, 0xfa0e, 0x20000, 0xbc,   0xb2,   0x130bc};

static uint32_t random_char(pcre2_code *unassigned) {
    if (rng(100) < 88) return chosen[rng(sizeof chosen / sizeof *chosen)];
    for (;;) {
        uint32_t cp = rng(2) ? rng(0x3000) : rng(0x110000);
        char bytes[4];
        if (cp >= 0xd800 && cp <= 0xdfff) continue;
        size_t n = kt__utf8_encode(cp, bytes);
        pcre2_match_data *match = pcre2_match_data_create(1, NULL);
        /* The two libraries follow different versions of Unicode: only what both know. */
        int rc = pcre2_match(unassigned, (PCRE2_SPTR)bytes, n, 0, 0, match, NULL);
        pcre2_match_data_free(match);
        if (rc < 0) return cp;
    }
}

static size_t random_text(char *s, pcre2_code *unassigned) {
    size_t len = 0, n = 1 + rng(rng(4) ? 12 : MAX_CHARS - 1);
    uint32_t cp = 'a';
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || rng(3)) cp = random_char(unassigned); /* runs of one character, too */
        len += kt__utf8_encode(cp, s + len);
    }
    return len;
}

static void compare(const family *f, const char *s, size_t len, const ends *expected) {
    kt__pretok_iter it;
    const char *word;
    size_t word_len, i = 0;
    kt__pretok_begin(&it, f->id, s, len);
    while (kt__pretok_next(&it, &word, &word_len)) {
        size_t end = (size_t)(word - s) + word_len;
        if (i >= expected->n || expected->at[i] != end) {
            char hex[2 * MAX_BYTES + 1];
            for (size_t k = 0; k < len; k++) sprintf(hex + 2 * k, "%02x", (unsigned char)s[k]);
            fail_msg("family %d, text %s: word %zu ends at %zu, expected %zu", (int)f->id, hex, i,
                     end, i < expected->n ? expected->at[i] : 0);
        }
        i++;
    }
    assert_int_equal(i, expected->n);
}

static void test_against_pcre2(void **state) {
    (void)state;
    enum { N_TEXTS = 40000 };
    pcre2_code *unassigned = compile("\\p{Cn}");
    for (int k = 0; k < N_FAMILIES; k++) {
        const family *f = &families[k];
        pcre2_code *stages[MAX_STAGES + 1] = {NULL};
        for (size_t i = 0; i < MAX_STAGES && f->stages[i]; i++) stages[i] = compile_stage(f, i);
        rng_state = 0x9e3779b97f4a7c15u + (uint64_t)k;
        for (int t = 0; t < N_TEXTS; t++) {
            char s[MAX_BYTES];
            ends expected = {.n = 0};
            size_t len = random_text(s, unassigned);
            split(stages, s, 0, len, &expected);
            compare(f, s, len, &expected);
        }
        for (int i = 0; i < MAX_STAGES; i++) pcre2_code_free(stages[i]);
    }
    pcre2_code_free(unassigned);
}

/* ---- classes ---- */

/* Each class bit against PCRE2 for every code point that both know. */
static void test_classes(void **state) {
    (void)state;
    static const struct {
        unsigned bit;
        const char *pattern;
    } classes[] = {{KT__UC_L, "\\p{L}"}, {KT__UC_N, "\\p{N}"},
                   {KT__UC_M, "\\p{M}"}, {KT__UC_PS, "[\\p{P}\\p{S}]"},
                   {KT__UC_SPACE, S},    {KT__UC_UPPER, UP},
                   {KT__UC_LOWER, LOW}};
    pcre2_code *unassigned = compile("\\p{Cn}");
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
        pcre2_code *code = compile(classes[k].pattern);
        for (uint32_t cp = 0; cp < 0x110000; cp += cp < 0x20000 ? 1 : 7) {
            char s[4];
            if (cp >= 0xd800 && cp <= 0xdfff) continue;
            size_t n = kt__utf8_encode(cp, s);
            bool expected = pcre2_match(code, (PCRE2_SPTR)s, n, 0, 0, match, NULL) > 0;
            if (expected == ((kt__unicode_class(cp) & classes[k].bit) != 0)) continue;
            if (pcre2_match(unassigned, (PCRE2_SPTR)s, n, 0, 0, match, NULL) > 0) continue;
            fail_msg("U+%04X and %s", cp, classes[k].pattern);
        }
        pcre2_code_free(code);
    }
    pcre2_match_data_free(match);
    pcre2_code_free(unassigned);
}

/* ---- any bytes: words cover the text, none is empty ---- */

static size_t walk(kt__pretok_family id, const char *s, size_t len) {
    kt__pretok_iter it;
    const char *word, *expected = s;
    size_t word_len, n = 0;
    kt__pretok_begin(&it, id, s, len);
    while (kt__pretok_next(&it, &word, &word_len)) {
        assert_true(word_len > 0);
        assert_ptr_equal(word, expected);
        expected = word + word_len;
        n++;
    }
    assert_ptr_equal(expected, s + len);
    return n;
}

static void test_any_bytes(void **state) {
    (void)state;
    char s[64];
    rng_state = 42;
    for (int t = 0; t < 50000; t++) {
        size_t len = rng(sizeof s);
        for (size_t i = 0; i < len; i++) s[i] = (char)(rng(3) ? rng(256) : chosen[rng(40)]);
        walk(families[t % N_FAMILIES].id, s, len);
    }
    assert_int_equal(walk(KT__PRETOK_GPT2, s, 0), 0);
}

/* ---- linear time ---- */

static void test_worst_cases(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    static const char *const units[] = {" ",
                                        "\n",
                                        " \n",
                                        "a",
                                        "'",
                                        "1",
                                        "\xe3\x80\x80",
                                        "\xcc\x81",
                                        "A\xcc\x81",
                                        "\xe4\xb8\xad"
                                        "A",
                                        "\xff",
                                        "\x01",
                                        "'s",
                                        "\r\n ",
                                        " \t",
                                        "\xcc\x81"
                                        "AAAAAAAAAAAAAAAA"};
    char *s = malloc(N + 64);
    assert_non_null(s);
    int64_t begin = kt__now_us();
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        size_t len = 0, n = strlen(units[u]);
        while (len + n <= N) {
            memcpy(s + len, units[u], n);
            len += n;
        }
        s[len++] = 'x';
        for (int k = 0; k < N_FAMILIES; k++) walk(families[k].id, s, len);
    }
    free(s);
    /* 128 MB in all; anything quadratic would take hours. */
    assert_true(kt__now_us() - begin < 250 * 1000000LL);
}

static void test_names(void **state) {
    (void)state;
    static const char *const names[] = {"llama-bpe",
                                        "falcon3",
                                        "falcon-h1",
                                        "lfm2",
                                        "pixtral",
                                        "dbrx",
                                        "smaug-bpe",
                                        "glm4",
                                        "chatglm-bpe",
                                        "qwen2",
                                        "deepseek-r1-qwen",
                                        "stablelm2",
                                        "hunyuan",
                                        "qwen35",
                                        "gpt-2",
                                        "phi-2",
                                        "exaone4",
                                        "mpt",
                                        "olmo",
                                        "smollm",
                                        "starcoder",
                                        "refact",
                                        "command-r",
                                        "gpt-4o",
                                        "llama4",
                                        "tekken",
                                        "deepseek-v3",
                                        "kimi-k2",
                                        "falcon"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(kt__pretok_find(names[i], strlen(names[i])));
    assert_null(kt__pretok_find("qwen", 4));
    assert_null(kt__pretok_find("", 0));
    assert_true(kt__pretok_find("tekken", 6)->whole_words);
    assert_true(kt__pretok_find("qwen2", 5)->nfc);
    assert_false(kt__pretok_find("gpt-4o", 6)->add_bos);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_classes),
        cmocka_unit_test(test_against_pcre2), cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_worst_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
