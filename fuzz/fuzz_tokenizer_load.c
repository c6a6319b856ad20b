/* libFuzzer: a vocabulary and texts from arbitrary bytes. The input is cut into a few strings; they
 * make tokens, merges, scores and types of a small vocabulary, which is loaded, encodes the rest as
 * text, and decodes it again. A byte-level vocabulary with all bytes must give the text back.
 *
 *   build-fuzz/fuzz_tokenizer_load -max_total_time=60 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

enum { MAX_TOKENS = 400, MAX_MERGES = 100 };

typedef struct input {
    const uint8_t *data;
    size_t left;
} input;

static unsigned byte(input *in) {
    if (in->left == 0) return 0;
    in->left--;
    return *in->data++;
}

static kt__str string(input *in, size_t max) {
    size_t len = byte(in) % (max + 1);
    if (len > in->left) len = in->left;
    kt__str s = {(const char *)in->data, len};
    in->data += len;
    in->left -= len;
    return s;
}

typedef struct vocab {
    kt__tok_vocab v;
    kt__str tokens[MAX_TOKENS], merges[MAX_MERGES];
    float scores[MAX_TOKENS];
    int32_t types[MAX_TOKENS];
    char alphabet[256][2];
    char byte_names[256][7];
    char pairs[MAX_MERGES][32];
} vocab;

/* The byte alphabet of GPT-2 (all bytes) or <0xXX> tokens. */
static void add_bytes(vocab *v, bool spm) {
    unsigned shifted = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        unsigned cp = printable ? b : shifted++;
        static const char hex[] = "0123456789ABCDEF";
        char *name = v->byte_names[b];
        memcpy(name, "<0x00>", 7);
        name[3] = hex[b >> 4];
        name[4] = hex[b & 15];
        v->alphabet[b][0] = cp < 0x80 ? (char)cp : (char)(0xc0 | cp >> 6);
        v->alphabet[b][1] = (char)(0x80 | (cp & 0x3f));
        v->tokens[b] = spm ? (kt__str){name, 6} : (kt__str){v->alphabet[b], cp < 0x80 ? 1 : 2};
        v->types[b] = spm ? KT__TOK_BYTE : KT__TOK_NORMAL;
    }
    v->v.n_tokens = 256;
}

/* A merge of two tokens, mostly well-formed. */
static kt__str token_pair(vocab *v, input *in) {
    char *out = v->pairs[v->v.n_merges];
    size_t n = v->v.n_tokens, a = (byte(in) * 2u) % (n + 1), b = (byte(in) * 2u) % (n + 1);
    if (a >= n || b >= n || v->tokens[a].len > 12 || v->tokens[b].len > 12) return string(in, 8);
    memcpy(out, v->tokens[a].s, v->tokens[a].len);
    out[v->tokens[a].len] = ' ';
    memcpy(out + v->tokens[a].len + 1, v->tokens[b].s, v->tokens[b].len);
    return (kt__str){out, v->tokens[a].len + 1 + v->tokens[b].len};
}

static void read_vocab(vocab *v, input *in) {
    static const char *const pres[] = {"llama-bpe", "qwen2",  "qwen35",      "gpt-2", "smollm",
                                       "gpt-4o",    "tekken", "deepseek-v3", NULL,    "dbrx"};
    unsigned mode = byte(in);
    bool spm = mode & 1;
    static const char *const spaced[] = {"llama", "t5", "bert", "t5"};
    kt__tok_vocab_init(&v->v);
    v->v.model = spm ? spaced[mode >> 1 & 3] : "gpt2";
    v->v.pre = pres[mode / 2 % (sizeof pres / sizeof *pres)];
    v->v.arch = byte(in) & 1 ? "phi3" : NULL;
    if (byte(in) & 3) add_bytes(v, spm);
    for (unsigned n = byte(in) % 100; n > 0; n--) {
        size_t i = v->v.n_tokens++;
        v->types[i] = (int32_t)(byte(in) % 29 % 8);
        v->scores[i] = (float)byte(in) - 128.0f;
        v->tokens[i] = string(in, 12);
    }
    for (unsigned n = byte(in) % MAX_MERGES; n > 0; n--)
        v->merges[v->v.n_merges++] = byte(in) % 32 ? token_pair(v, in) : string(in, 8);
    for (int role = 0; role < KT__ROLE_COUNT; role++)
        v->v.role_ids[role] = (int32_t)(byte(in) % 320) - 1;
    v->v.add_bos = (int)(byte(in) % 3) - 1;
    v->v.add_space_prefix = (int)(byte(in) % 3) - 1;
    v->v.lowercase = (int)(byte(in) % 3) - 1;
    v->v.strip_accents = (int)(byte(in) % 3) - 1;
    v->v.remove_extra_spaces = (int)(byte(in) % 3) - 1;
    if (byte(in) & 1) v->v.charsmap = string(in, 255);
    v->v.tokens = v->tokens;
    v->v.merges = v->merges;
    v->v.types = v->types;
    v->v.scores = v->scores;
}

static void need(bool condition) {
    if (!condition) abort();
}

/* A streamed text is the decoded one, as far as that is UTF-8. */
static void check_stream(const kt__tokenizer *tok, const kt__ids *ids) {
    kt_error err;
    kt__buf out;
    kt__detok detok;
    kt__buf_init(&out, 1 << 20);
    kt__detok_init(&detok, tok, KT_TOK_RENDER_SPECIAL, true);
    for (size_t i = 0; i < ids->len; i++)
        need(kt__detok_push(&detok, ids->data[i], &out, &err) == KT_OK);
    need(kt__detok_finish(&detok, &out, &err) == KT_OK);
    kt__buf_free(&out);
}

static void check_text(const kt__tokenizer *tok, const char *s, size_t len, unsigned flags,
                       bool exact) {
    kt_error err;
    kt__ids ids;
    kt__buf out;
    kt__ids_init(&ids, 1 << 20);
    kt__buf_init(&out, 1 << 20);
    need(kt__tokenizer_encode(tok, s, len, flags, &ids, &err) == KT_OK);
    for (size_t i = 0; i < ids.len; i++)
        need(ids.data[i] >= 0 && ids.data[i] < kt__tokenizer_n_vocab(tok));
    need(kt__tokenizer_decode(tok, ids.data, ids.len, KT_TOK_RENDER_SPECIAL, &out, &err) == KT_OK);
    if (exact) need(out.len == len && (len == 0 || memcmp(out.data, s, len) == 0));
    check_stream(tok, &ids);
    kt__ids_free(&ids);
    kt__buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static vocab v;
    memset(&v, 0, sizeof v);
    input in = {data, size};
    kt_error err;
    kt__tokenizer *tok;
    read_vocab(&v, &in);
    if (kt__tokenizer_new(&v.v, &tok, &err) != KT_OK) return 0;
    const char *text = (const char *)in.data;
    size_t len = in.left, cut = len / 3;
    const char *kind = kt__tokenizer_kind(tok);
    bool exact = v.tokens[0].s == v.alphabet[0] && !strstr(kind, "qwen") &&
                 strcmp(kind, "llama") != 0;
    check_text(tok, text, len, KT_TOK_PARSE_SPECIAL, exact);
    check_text(tok, text, len, 0, exact);
    const kt__tok_segment segments[] = {
        {text, cut, true}, {text + cut, cut, false}, {text + 2 * cut, len - 2 * cut, true}};
    kt__ids ids;
    kt__ids_init(&ids, 1 << 20);
    need(kt__tokenizer_encode_segments(tok, segments, 3, KT_TOK_ADD_SPECIAL, &ids, &err) == KT_OK);
    for (int32_t id = -1; id <= kt__tokenizer_n_vocab(tok); id++) {
        kt__str s = kt__tokenizer_token_text(tok, id);
        int32_t found = kt__tokenizer_find(tok, s.s, s.len);
        need(s.len == 0 || found >= id);
    }
    kt__ids_free(&ids);
    kt__tokenizer_free(tok);
    return 0;
}
