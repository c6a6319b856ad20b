/* The files of tokenizers that have no tokenizer.json: vocab.json with merges.txt, vocab.txt, or
 * tiktoken.model. They become the tokenizer.json that transformers would write for the class, whose
 * rules are not in the files. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "convert/json_file.h"
#include "convert/sentencepiece.h"
#include "convert/vocab.h"

#define X(...)
#include "convert/pretok_patterns.def" /* QWEN2_WORDS, KIMI_WORDS */
#undef X
#define SPECIALS(bos, eos, unk, pad, cls, sep, mask) \
    { bos, eos, unk, pad, cls, sep, mask }

/* Ids after the ranks of a tiktoken.model are special tokens, named or not. */
enum { N_RESERVED = 256 };
enum { N_NAMES = 7, MAX_FILE = 16 << 20 };
static const char *const special_names[N_NAMES] = {
    "bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token"};

/* A class of transformers' that is not "fast": what its files do not say. */
typedef struct file_class {
    const char *name, *model_types; /* "|bert|" of config.json, where no class is named */
    enum {
        WORDS,
        PIECES,
        RANKS
    } form;      /* byte-level BPE, WordPiece, or BPE by the ranks of tiktoken.model */
    bool around; /* cls and sep are put around a text */
    const char *normalizer, *words; /* of BPE: a normaliser's type, a Split's expression */
    const char *specials[N_NAMES];
} file_class;

static const file_class classes[] = {
    {"BertTokenizer", "|bert|nomic_bert|", PIECES, true, NULL, NULL,
     SPECIALS(NULL, NULL, "[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")},
    {"Qwen2Tokenizer", "|qwen2|qwen2_moe|qwen3|qwen3_moe|", WORDS, false, "NFC", QWEN2_WORDS,
     SPECIALS(NULL, "<|endoftext|>", NULL, "<|endoftext|>", NULL, NULL, NULL)},
    {"GPT2Tokenizer", "|gpt2|exaone4|", WORDS, false, NULL, NULL,
     SPECIALS("<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, NULL, NULL)},
    {"CodeGenTokenizer", "|codegen|", WORDS, false, NULL, NULL,
     SPECIALS("<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, NULL, NULL)},
    {"RobertaTokenizer", "|roberta|", WORDS, true, NULL, NULL,
     SPECIALS("<s>", "</s>", "<unk>", "<pad>", "<s>", "</s>", "<mask>")},
    {"TikTokenTokenizer", "|kimi_k2|", RANKS, false, NULL, KIMI_WORDS,
     SPECIALS(NULL, NULL, NULL, NULL, NULL, NULL, NULL)},
};
enum { N_FILE_CLASSES = sizeof classes / sizeof *classes };

/* ---- the class ---- */

/* "GPT2Tokenizer" or "GPT2TokenizerFast" */
static bool is_named(const file_class *c, const char *name) {
    size_t n = strlen(c->name);
    return strncmp(name, c->name, n) == 0 && (!name[n] || strcmp(name + n, "Fast") == 0);
}

static const file_class *find_file_class(const kt__vocab *v, const kt__hf_config *config) {
    char model_type[64];
    const char *name = json_string_value(json_object_get(v->settings, "tokenizer_class"));
    snprintf(model_type, sizeof model_type, "|%.60s|",
             config->model_type ? config->model_type : "");
    for (int i = 0; i < N_FILE_CLASSES; i++)
        if (name ? is_named(&classes[i], name) : strstr(classes[i].model_types, model_type) != NULL)
            return &classes[i];
    return NULL;
}

/* ---- special tokens ---- */

/* Names that no file gives are the class's own. */
static void complete_specials(kt__vocab *v, const file_class *c) {
    if (!v->specials) v->specials = json_object();
    for (int i = 0; i < N_NAMES; i++)
        if (c->specials[i] && !json_object_get(v->settings, special_names[i]) &&
            !json_object_get(v->specials, special_names[i]))
            (void)json_object_set_new(v->specials, special_names[i], json_string(c->specials[i]));
}

static const char *special_text(const kt__vocab *v, const char *name) {
    const json_t *value = json_object_get(v->settings, name);
    if (!value) value = json_object_get(v->specials, name);
    if (json_is_object(value)) value = json_object_get(value, "content");
    return json_string_value(value);
}

static json_t *added_token(json_int_t id, const char *text, bool special) {
    return json_pack("{s:I, s:s, s:b}", "id", id, "content", text, "special", special);
}

/* added_tokens_decoder: {"id": {"content", ...}} */
static void add_decoder(const kt__vocab *v, json_t *list) {
    const char *key;
    json_t *token;
    json_object_foreach(json_object_get(v->settings, "added_tokens_decoder"), key, token) {
        long long id = -1;
        json_t *copy = json_copy(token);
        (void)sscanf(key, "%lld", &id);
        (void)json_object_set_new(copy, "id", json_integer(id));
        (void)json_array_append_new(list, copy);
    }
}

static void add_reserved(json_t *list, json_int_t first) {
    bool named[N_RESERVED] = {false};
    char text[40];
    json_t *token;
    size_t i;
    json_array_foreach(list, i, token) {
        json_int_t id = json_integer_value(json_object_get(token, "id"));
        if (id >= first && id < first + N_RESERVED) named[id - first] = true;
    }
    for (int k = 0; k < N_RESERVED; k++) {
        if (named[k]) continue;
        snprintf(text, sizeof text, "<|reserved_token_%lld|>", (long long)(first + k));
        (void)json_array_append_new(list, added_token(first + k, text, true));
    }
}

/* In older folders: added_tokens.json, and the special tokens by their names. */
static json_t *list_added(const kt__vocab *v) {
    json_t *list = json_array(), *id;
    const char *text;
    add_decoder(v, list);
    if (json_array_size(list) > 0) return list;
    json_object_foreach(v->added, text, id) {
        (void)json_array_append_new(list, added_token(json_integer_value(id), text, false));
    }
    for (int i = 0; i < N_NAMES; i++) {
        text = special_text(v, special_names[i]);
        if (!text) continue;
        int64_t listed = kt__vocab_listed_id(v, text, strlen(text));
        id = listed < 0 ? json_object_get(v->added, text) : NULL;
        if (id) listed = json_integer_value(id);
        if (listed >= 0) (void)json_array_append_new(list, added_token(listed, text, true));
    }
    return list;
}

/* ---- the pieces of a tokenizer.json ---- */

static json_t *make_around(const kt__vocab *v) {
    const char *cls = special_text(v, "cls_token"), *sep = special_text(v, "sep_token");
    if (!cls || !sep) return NULL;
    return json_pack("{s:s, s:[s,i], s:[s,i]}", "type", "RobertaProcessing", "cls", cls, 0, "sep",
                     sep, 0);
}

static json_t *make_bpe_words(const kt__vocab *v, const file_class *c) {
    bool space = json_is_true(json_object_get(v->settings, "add_prefix_space"));
    json_t *bytes = json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", space,
                              "use_regex", c->words == NULL);
    if (!c->words) return bytes;
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers",
                     "type", "Split", "pattern", "Regex", c->words, "behavior", "Isolated",
                     "invert", 0, bytes);
}

static bool flag_setting(const kt__vocab *v, const char *name, bool fallback) {
    const json_t *value = json_object_get(v->settings, name);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static json_t *make_bert_normalizer(const kt__vocab *v) {
    json_t *accents = json_object_get(v->settings, "strip_accents");
    return json_pack("{s:s, s:b, s:b, s:b, s:O}", "type", "BertNormalizer", "clean_text", 1,
                     "handle_chinese_chars", flag_setting(v, "tokenize_chinese_chars", true),
                     "lowercase", flag_setting(v, "do_lower_case", true), "strip_accents",
                     json_is_boolean(accents) ? accents : json_null());
}

static json_t *make_tokenizer(const kt__vocab *v, const file_class *c) {
    json_t *root = json_object(), *model;
    const char *unk = special_text(v, "unk_token");
    json_t *tokens = list_added(v);
    if (c->form == RANKS) add_reserved(tokens, (json_int_t)v->n_listed);
    (void)json_object_set_new(root, "added_tokens", tokens);
    if (c->form == PIECES) {
        model = json_pack("{s:s, s:s*, s:s, s:i}", "type", "WordPiece", "unk_token", unk,
                          "continuing_subword_prefix", "##", "max_input_chars_per_word", 100);
        (void)json_object_set_new(root, "normalizer", make_bert_normalizer(v));
        (void)json_object_set_new(root, "pre_tokenizer",
                                  json_pack("{s:s}", "type", "BertPreTokenizer"));
    } else {
        model = json_pack("{s:s, s:b}", "type", "BPE", "ignore_merges", c->form == RANKS);
        if (c->normalizer)
            (void)json_object_set_new(root, "normalizer",
                                      json_pack("{s:s}", "type", c->normalizer));
        (void)json_object_set_new(root, "pre_tokenizer", make_bpe_words(v, c));
    }
    (void)json_object_set_new(root, "model", model);
    if (c->around) (void)json_object_set_new(root, "post_processor", make_around(v));
    return root;
}

/* ---- files of lines ---- */

/* The next line without its end; false: none. */
/* Each line is ended with a NUL in its place. */
static bool next_line(char **at, char *end, kt__str *line) {
    if (*at >= end) return false;
    char *stop = memchr(*at, '\n', (size_t)(end - *at)), *last = stop ? stop : end;
    if (last > *at && last[-1] == '\r') last--;
    *last = '\0';
    *line = (kt__str){*at, (size_t)(last - *at)};
    *at = stop ? stop + 1 : end;
    return true;
}

static kt_status check_line(kt__str line, const char *path, size_t number, kt_error *err) {
    if (kt__json_scan_is_text(line)) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                       "line %zu is not UTF-8, or holds a NUL byte", number);
}

/* "left right", a line each, after "#version: 0.2" */
static kt_status read_merge_lines(kt__vocab *v, char *text, size_t len, const char *path,
                                  kt_error *err) {
    char *at = text;
    kt__str line;
    v->has_merges = true;
    for (size_t number = 1; next_line(&at, text + len, &line); number++) {
        bool version = number == 1 && line.len >= 8 && memcmp(line.s, "#version", 8) == 0;
        if (version || line.len == 0) continue;
        KT__STEP(check_line(line, path, number, err));
        KT__STEP(kt__vocab_list_line(v, line, path, err));
    }
    return KT_OK;
}

/* A token a line, whose number is its id; of two equal ones the last counts. */
static kt_status read_token_lines(kt__vocab *v, char *text, size_t len, const char *path,
                                  kt_error *err) {
    char *at = text;
    kt__str line;
    for (size_t number = 1; next_line(&at, text + len, &line); number++) {
        KT__STEP(check_line(line, path, number, err));
        KT__STEP(kt__vocab_list_token(v, line, (double)number - 1, path, err));
    }
    return kt__vocab_end_ids(v, err);
}

typedef kt_status read_lines_fn(kt__vocab *v, char *text, size_t len, const char *path,
                                kt_error *err);

/* *there: whether the file is. */
static kt_status read_lines(kt__vocab *v, const char *name, read_lines_fn *read, bool *there,
                            kt_error *err) {
    char *path = kt__folder_path(v->dir, name), *text = NULL;
    size_t len;
    if (!path) return kt__fail_nomem(err, "a path", strlen(name));
    kt_status status = kt__folder_read_file(path, MAX_FILE, false, &text, &len, err);
    *there = text != NULL;
    if (text) kt__vocab_hold(v, text);
    if (text) status = read(v, text, len, path, err);
    kt__free(path);
    return status;
}

/* ---- the whole ---- */

static kt_status unknown_file_class(const kt__vocab *v, kt_error *err) {
    const char *name = json_string_value(json_object_get(v->settings, "tokenizer_class"));
    return kt__fail_at(
        err, KT_E_UNSUPPORTED, v->dir, UINT64_MAX,
        "there is no tokenizer.json, and the rules of the class '%.60s' are not "
        "known (known: BertTokenizer, Qwen2Tokenizer, GPT2Tokenizer, "
        "CodeGenTokenizer, RobertaTokenizer, TikTokenTokenizer): save it with transformers' "
        "AutoTokenizer, which writes tokenizer.json",
        name ? name : "(none named)");
}

static bool has_file(const kt__vocab *v, const char *name) {
    char *path = kt__folder_path(v->dir, name);
    bool there = path && kt__file_exists(path);
    kt__free(path);
    return there;
}

/* The class's own files; *there: all of them are. */
static kt_status read_class_files(kt__vocab *v, const file_class *c, bool *there, kt_error *err) {
    bool merges = false;
    *there = true;
    if (c->form == RANKS) {
        *there = has_file(v, "tiktoken.model");
        return kt__vocab_read_tiktoken(v, err);
    }
    if (c->form == PIECES) return read_lines(v, "vocab.txt", read_token_lines, there, err);
    KT__STEP(read_lines(v, "vocab.json", kt__vocab_parse_ids, there, err));
    KT__STEP(read_lines(v, "merges.txt", read_merge_lines, &merges, err));
    *there = *there && merges;
    return KT_OK;
}

kt_status kt__vocab_read_files(kt__vocab *v, const kt__hf_config *config, kt_error *err) {
    const file_class *c = find_file_class(v, config);
    bool there;
    if (!has_file(v, "vocab.txt") && !has_file(v, "tiktoken.model") &&
        !(has_file(v, "vocab.json") && has_file(v, "merges.txt")))
        return KT_OK;
    if (!c) return unknown_file_class(v, err);
    KT__STEP(read_class_files(v, c, &there, err));
    if (!there) return KT_OK;
    complete_specials(v, c);
    v->tokenizer = make_tokenizer(v, c);
    return KT_OK;
}

/* tiktoken.model, as Kimi's folders have it: a token in base64 and its rank a line. A pair merges where the
 * joined bytes are a token, the lowest rank first, so that each way to cut a token into two others is a merge. */

enum {
    MAX_RANKS_FILE = 6 << 20, /* Kimi's has 2.8 MB */
    MAX_TOKEN = 256,
    MAX_DIGITS = (MAX_TOKEN * 4 + 2) / 3, /* of these in base64 */
    MAX_TOKENS = 1 << 20
};

typedef struct rank_file {
    kt__vocab *v;
    const char *path, *at, *end;
    size_t line; /* from 1 */
    kt__str *tokens;
    kt__str *spelled; /* in letters */
    size_t n;
    kt__strmap ids;
    kt__vocab_letter letters[256];
    kt_error *err;
} rank_file;

static kt_status bad_rank_line(const rank_file *r, const char *what) {
    return kt__fail_at(r->err, KT_E_FORMAT, r->path, UINT64_MAX, "line %zu: %s", r->line, what);
}

/* ---- lines ---- */

static bool read_rank(kt__str s, size_t expected) {
    char text[24];
    int n = snprintf(text, sizeof text, "%zu", expected);
    return s.len == (size_t)n && memcmp(s.s, text, s.len) == 0;
}

/* To at most MAX_TOKEN bytes; 0: not base64, empty or longer. */
static size_t read_token(kt__str s, char *out) {
    size_t bad, n_digits = s.len;
    while (n_digits && s.s[n_digits - 1] == '=') n_digits--;
    if (n_digits > MAX_DIGITS) return 0;
    size_t n = kt__base64_decode(s.s, s.len, out, &bad);
    return bad == SIZE_MAX ? n : 0;
}

static kt_status read_rank_line(rank_file *r, kt__str line) {
    char bytes[MAX_TOKEN];
    const char *space = memchr(line.s, ' ', line.len);
    if (!space) return bad_rank_line(r, "a token in base64, a space and its rank are expected");
    size_t n = read_token((kt__str){line.s, (size_t)(space - line.s)}, bytes);
    if (n == 0) return bad_rank_line(r, "the token is not base64 of 1 to 256 bytes");
    if (!read_rank((kt__str){space + 1, line.len - (size_t)(space + 1 - line.s)}, r->n))
        return bad_rank_line(r, "the rank is not the number of tokens before it");
    char *copy = kt__arena_strndup(&r->v->arena, bytes, n);
    if (!copy) return kt__fail_nomem(r->err, r->path, n);
    r->tokens[r->n] = (kt__str){copy, n};
    if (!kt__strmap_put(&r->ids, r->tokens[r->n], (int64_t)r->n))
        return bad_rank_line(r, "a token that came before");
    r->n++;
    return KT_OK;
}

static kt_status read_rank_lines(rank_file *r) {
    while (r->at < r->end) {
        const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
        kt__str line = {r->at, (size_t)((stop ? stop : r->end) - r->at)};
        r->at = stop ? stop + 1 : r->end;
        r->line++;
        if (line.len && line.s[line.len - 1] == '\r') line.len--;
        if (line.len) KT__STEP(read_rank_line(r, line));
    }
    return KT_OK;
}

/* ---- as tokenizer.json has them ---- */

static kt_status spell_token(rank_file *r, kt__str bytes, kt__str *out) {
    char text[2 * MAX_TOKEN];
    size_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        const kt__vocab_letter *letter = &r->letters[(unsigned char)bytes.s[i]];
        memcpy(text + n, letter->utf8, letter->n);
        n += letter->n;
    }
    *out = (kt__str){kt__arena_strndup(&r->v->arena, text, n), n};
    return out->s ? KT_OK : kt__fail_nomem(r->err, r->path, n);
}

/* Each cut of a token into two others, the longest left part first. */
static kt_status add_cuts(rank_file *r, kt__str token) {
    for (size_t cut = token.len - 1; cut > 0; cut--) {
        int64_t right = kt__strmap_get(&r->ids, (kt__str){token.s + cut, token.len - cut});
        int64_t left = right < 0 ? -1 : kt__strmap_get(&r->ids, (kt__str){token.s, cut});
        if (left >= 0)
            KT__STEP(
                kt__vocab_list_merge(r->v, r->spelled[left], r->spelled[right], r->path, r->err));
    }
    return KT_OK;
}

static kt_status list_ranks(rank_file *r) {
    kt__vocab_letters(r->letters);
    for (size_t i = 0; i < r->n; i++) {
        KT__STEP(spell_token(r, r->tokens[i], &r->spelled[i]));
        KT__STEP(kt__vocab_list_token(r->v, r->spelled[i], (double)i, r->path, r->err));
    }
    for (size_t i = 0; i < r->n; i++) KT__STEP(add_cuts(r, r->tokens[i]));
    r->v->has_merges = true;
    return kt__vocab_end_ids(r->v, r->err);
}

static size_t count_lines(const char *text, size_t len) {
    size_t n = 1;
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + len - at))) != NULL; at++)
        n++;
    return n;
}

static kt_status read_ranks(rank_file *r, const char *text, size_t len) {
    size_t n = count_lines(text, len);
    r->at = text;
    r->end = text + len;
    if (n > MAX_TOKENS)
        return kt__fail_at(r->err, KT_E_LIMIT, r->path, UINT64_MAX, "over %d lines", MAX_TOKENS);
    r->tokens = kt__arena_calloc(&r->v->arena, n, sizeof *r->tokens);
    r->spelled = kt__arena_calloc(&r->v->arena, n, sizeof *r->spelled);
    if (!r->tokens || !r->spelled || !kt__strmap_init(&r->ids, n))
        return kt__fail_nomem(r->err, r->path, n);
    KT__STEP(read_rank_lines(r));
    return list_ranks(r);
}

kt_status kt__vocab_read_tiktoken(kt__vocab *v, kt_error *err) {
    char *path = kt__folder_path(v->dir, "tiktoken.model"), *text = NULL;
    size_t len = 0;
    rank_file *r = kt__calloc(1, sizeof *r);
    kt_status status = path && r ? KT_OK : kt__fail_nomem(err, "tiktoken.model", sizeof *r);
    if (status == KT_OK)
        status = kt__folder_read_file(path, MAX_RANKS_FILE, false, &text, &len, err);
    if (status == KT_OK && text) {
        r->v = v;
        r->path = path;
        r->err = err;
        status = read_ranks(r, text, len);
        kt__strmap_free(&r->ids);
    }
    kt__free(text);
    kt__free(path);
    kt__free(r);
    return status;
}

/* tokenizer.model as a vocabulary. */

static kt_status check_model(const kt__sp_model *m, const char *path,
                             const kt__convert_notes *notes, kt_error *err) {
    if (m->model_type == KT__SP_UNIGRAM) return KT_OK;
    if (m->model_type != KT__SP_BPE)
        return kt__fail_at(err, KT_E_UNSUPPORTED, path, UINT64_MAX,
                           "a SentencePiece model of type %d is not supported (1, unigram, and 2, "
                           "BPE, are)",
                           m->model_type);
    if (m->charsmap.len)
        kt__convert_note(notes, "tokenizer.model normalises characters, which GGUF's llama "
                                "tokenizers do not: rare characters may be encoded otherwise");
    if (m->remove_extra_whitespaces)
        kt__convert_note(notes, "tokenizer.model removes extra spaces, which GGUF's llama "
                                "tokenizers do not");
    return KT_OK;
}

kt_status kt__vocab_read_model(kt__vocab *v, const char *path, const kt__convert_notes *notes,
                               kt_error *err) {
    kt__sp_model m;
    kt_status status;
    size_t size = v->model_bytes;
    KT__TRY(kt__sp_parse(v->model_file, size, path, &v->arena, &m, err));
    KT__TRY(check_model(&m, path, notes, err));
    KT__TRY(kt__vocab_reserve(v, m.n, err));
    for (size_t i = 0; i < m.n; i++) {
        v->tokens[i] = m.pieces[i].text;
        v->scores[i] = m.pieces[i].score;
        v->types[i] = m.pieces[i].type;
        if (m.pieces[i].type == KT__TOK_UNKNOWN) v->role_ids[KT__ROLE_UNK] = (int32_t)i;
    }
    v->add_space_prefix = m.add_dummy_prefix;
    if (m.model_type != KT__SP_UNIGRAM) goto out;
    v->method = KT__VOCAB_UNIGRAM;
    v->charsmap = m.charsmap;
    v->remove_extra_spaces = m.remove_extra_whitespaces;
out:
    return status;
}
