/* The proof of a vocabulary: a plain reading of tokenizer.json (vocab_reader.h) encodes a test text,
 * and so does the tokenizer that will read the GGUF file. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "convert/vocab_reader.h"

enum { MAX_LINE = 256, SAMPLED_TOKENS = 1500, MAX_STRIPS = 256 };

/* What tokenizers disagree on: contractions, digits, spaces, line ends, cases, marks, scripts. */
static const char *const lines[] = {
    "Halo, apa kabar? Saya baik-baik saja; 1234567 orang, 3,14 dan 50% lebih.",
    "I'm sure they'LL say we've DON'T it'd 'S 'Re, naïve café déjà-vu ﬁne œuvre",
    "  two spaces   three    four\ttab\t\ttabs \n line\r\nCRLF\n\n\nthree lines   \n  end  ",
    "for (int i=0; i<n; ++i) { x[i] = a*b + c/d; } // ok? #include <stdio.h>\n\t\treturn 0;",
    "HTTPServer2024Error camelCase snake_case SCREAMING_CASE kebab-case iPhone15 a1b2c3",
    "你好，世界！今天是2024年。こんにちは、世界。안녕하세요 세계 Привет, мир! Γειά σου Κόσμε",
    "مرحبا بالعالم ١٢٣ नमस्ते दुनिया १२३ ภาษาไทย ꦲꦏ꧀ꦱꦫ שלום עולם",
    "e\xcc\x81 a\xcc\x88o\xcc\x82 \xe2\x80\x8b\xe2\x80\x8d \xc2\xa0nbsp \xe3\x80\x80wide",
    "😀👩‍👩‍👧‍👦🇮🇩 ½ ² Ⅷ ㊿ ∑∫√ ≤≥ → «q» “q” "
    "‘q’ "
    "… "
    "— "
    "– "
    "· "
    "•",
    "!!!???...---===+++***&&&|||~~~```\"\"\"''' (((([[[[{{{{<<<<>>>>}}}}]]]]))))",
    "'ſ K \xc7\x85\xc7\x88 ǅǈ ſs İi ıI ß ẞ ﷺ \xf0\x90\x90\x80\xf0\x90\x90\xa8",
};
enum { N_LINES = sizeof lines / sizeof *lines };

/* ---- the comparison ---- */

typedef struct comparison {
    kt__vocab_reader *reader;
    kt__tokenizer *tok;
    kt__ids ids;
    size_t n_lines, n_wrong;
    char first_wrong[MAX_LINE + 4];
} comparison;

static kt_status compare_line(comparison *c, const char *s, size_t len, kt_error *err) {
    kt_status status;
    c->ids.len = 0;
    KT__TRY(kt__vocab_reader_line(c->reader, s, len));
    KT__TRY(kt__tokenizer_encode(c->tok, s, len, KT_TOK_PARSE_SPECIAL, &c->ids, err));
    const kt__ids *want = &c->reader->ids;
    c->n_lines++;
    if (c->ids.len == want->len &&
        (want->len == 0 || memcmp(c->ids.data, want->data, want->len * sizeof *want->data) == 0))
        goto out;
    if (c->n_wrong++ == 0)
        snprintf(c->first_wrong, sizeof c->first_wrong, "%.*s", (int)(len < 80 ? len : 80), s);
out:
    return status;
}

/* Texts of tokens in a row, which is where a wrong order of merges shows. */
static kt_status compare_tokens(comparison *c, kt_error *err) {
    const kt__vocab *v = c->reader->v;
    size_t step = v->n_tokens / SAMPLED_TOKENS + 1, n = 0;
    char line[MAX_LINE];
    for (size_t i = 0; i < v->n_tokens; i += step) {
        kt__str bytes = kt__tokenizer_token_bytes(c->tok, (int32_t)i);
        uint32_t cp;
        if (v->types[i] != KT__TOK_NORMAL || bytes.len == 0 || bytes.len > MAX_LINE / 4) continue;
        if (kt__utf8_decode(bytes.s, bytes.len, &cp) == 0) continue; /* half a character */
        if (kt__utf8_incomplete_tail(bytes.s, bytes.len) != 0) continue;
        memcpy(line + n, bytes.s, bytes.len);
        n += bytes.len;
        if (n < MAX_LINE / 2) continue;
        KT__STEP(compare_line(c, line, n, err));
        n = 0;
    }
    return KT_OK;
}

/* Added tokens that take white space, with some of it on both sides. */
static kt_status compare_strips(comparison *c, kt_error *err) {
    const kt__vocab *v = c->reader->v;
    size_t n = 0;
    char line[MAX_LINE];
    for (size_t i = 0; v->has_strips && i < v->n_tokens && n < MAX_STRIPS; i++) {
        kt__str t = v->tokens[i];
        if (!v->strips[i] || t.len > MAX_LINE / 4) continue;
        int len = snprintf(line, sizeof line, "Halo \n%.*s \n dunia%.*s\n\n%.*s ya", (int)t.len,
                           t.s, (int)t.len, t.s, (int)t.len, t.s);
        KT__STEP(compare_line(c, line, (size_t)len, err));
        n++;
    }
    return KT_OK;
}

/* ---- whole words ---- */

/* Work that the merging of all tokens may take: the sum of their squared lengths. */
enum { MAX_MERGE_WORK = 1 << 28 };

static kt_status refuse_whole(const kt__vocab *v, const char *path, size_t i, kt_error *err) {
    return kt__fail_at(
        err, KT_E_UNSUPPORTED, path, UINT64_MAX,
        "model.ignore_merges is %s, GGUF's '%s' has it the other way, and merges do "
        "not make token %zu, '%.60s'",
        json_is_true(json_object_get(json_object_get(v->tokenizer, "model"), "ignore_merges"))
            ? "true"
            : "false",
        v->pre, i, v->tokens[i].s);
}

/* Whether a word that is a token stays whole makes no difference where merges make each token. */
static kt_status check_whole(kt__vocab_reader *r, const char *path, kt_error *err) {
    const kt__vocab *v = r->v;
    uint64_t work = 0;
    for (size_t i = 0; v->other_whole && i < v->n_tokens; i++) {
        bool reached;
        if (v->types[i] != KT__TOK_NORMAL) continue;
        work += v->tokens[i].len * v->tokens[i].len;
        if (work > MAX_MERGE_WORK) return refuse_whole(v, path, i, err);
        KT__STEP(kt__vocab_reader_reached(r, (int32_t)i, &reached));
        if (!reached) return refuse_whole(v, path, i, err);
    }
    return KT_OK;
}

/* ---- the judgement ---- */

/* A wrong cut or order of BPE by merges or of WordPiece is refused; a SentencePiece vocabulary has
 * rules that tokenizer.json need not follow, and says so. */
static kt_status judge_comparison(const comparison *c, const char *path,
                                  const kt__convert_notes *notes, kt_error *err) {
    if (c->n_wrong == 0) return KT_OK;
    const kt__vocab *v = c->reader->v;
    if (!v->spm || v->by_merges || v->method == KT__VOCAB_WORDPIECE)
        return kt__fail_at(err, KT_E_UNSUPPORTED, path, UINT64_MAX,
                           "as GGUF's '%s' this tokenizer encodes %zu of %zu test lines otherwise, "
                           "first \"%.100s\"",
                           v->pre ? v->pre : kt__vocab_model_name(v), c->n_wrong, c->n_lines,
                           c->first_wrong);
    kt__convert_note(notes,
                     "tokenizer.json encodes %zu of %zu test lines otherwise than %s in GGUF, "
                     "first \"%.100s\"",
                     c->n_wrong, c->n_lines,
                     v->method == KT__VOCAB_UNIGRAM ? "its pieces"
                     : v->made_scores               ? "scores made from its merges"
                                                    : "tokenizer.model",
                     c->first_wrong);
    return KT_OK;
}

const char *kt__vocab_model_name(const kt__vocab *v) {
    if (v->method == KT__VOCAB_UNIGRAM) return "t5";
    if (v->method == KT__VOCAB_WORDPIECE) return "bert";
    return v->by_merges ? "gemma4" : v->spm ? "llama" : "gpt2";
}

kt__tok_vocab kt__vocab_view(const kt__vocab *v) {
    kt__tok_vocab view;
    kt__tok_vocab_init(&view);
    view.model = kt__vocab_model_name(v);
    view.pre = v->pre;
    view.tokens = v->tokens;
    view.n_tokens = v->n_tokens;
    view.scores = v->spm && !v->by_merges ? v->scores : NULL;
    view.types = v->types;
    view.strips = v->has_strips ? v->strips : NULL;
    view.merges = v->merges;
    view.n_merges = v->merges ? v->n_merges : 0;
    memcpy(view.role_ids, v->role_ids, sizeof view.role_ids);
    view.add_bos = v->add_bos;
    view.add_eos = v->add_eos;
    view.add_space_prefix = v->add_space_prefix;
    view.remove_extra_spaces = v->remove_extra_spaces;
    view.lowercase = v->lowercase;
    view.strip_accents = v->strip_accents;
    view.charsmap = v->charsmap;
    return view;
}

kt_status kt__vocab_check(const kt__vocab *v, const char *path, const kt__convert_notes *notes,
                          kt_error *err) {
    kt__vocab_reader r;
    comparison c = {.reader = &r};
    kt__tok_vocab view = kt__vocab_view(v);
    kt_status status;
    kt__ids_init(&c.ids, 1 << 20);
    KT__TRY(kt__vocab_reader_open(&r, v, err));
    KT__TRY(check_whole(&r, path, err));
    KT__TRY(kt__tokenizer_new(&view, &c.tok, err));
    for (int i = 0; i < N_LINES; i++) KT__TRY(compare_line(&c, lines[i], strlen(lines[i]), err));
    KT__TRY(compare_tokens(&c, err));
    KT__TRY(compare_strips(&c, err));
    KT__TRY(judge_comparison(&c, path, notes, err));
out:
    kt__tokenizer_free(c.tok);
    kt__vocab_reader_close(&r);
    kt__ids_free(&c.ids);
    return status;
}
