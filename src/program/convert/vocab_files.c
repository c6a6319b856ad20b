/* The files of tokenizers that have no tokenizer.json: vocab.json with merges.txt, vocab.txt, or
 * tiktoken.model. They become the tokenizer.json that transformers would write for the class, whose
 * rules are not in the files. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "convert/json_file.h"
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
static json_t *list_added(const kt__vocab *v, json_t *ids) {
    json_t *list = json_array(), *id;
    const char *text;
    add_decoder(v, list);
    if (json_array_size(list) > 0) return list;
    json_object_foreach(v->added, text, id) {
        (void)json_array_append_new(list, added_token(json_integer_value(id), text, false));
    }
    for (int i = 0; i < N_NAMES; i++) {
        text = special_text(v, special_names[i]);
        id = text ? json_object_get(ids, text) : NULL;
        if (text && !id) id = json_object_get(v->added, text);
        if (id) (void)json_array_append_new(list, added_token(json_integer_value(id), text, true));
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

/* ids and merges are taken over. */
static json_t *make_tokenizer(const kt__vocab *v, const file_class *c, json_t *ids,
                              json_t *merges) {
    json_t *root = json_object(), *model;
    const char *unk = special_text(v, "unk_token");
    json_t *tokens = list_added(v, ids);
    if (c->form == RANKS) add_reserved(tokens, (json_int_t)json_object_size(ids));
    (void)json_object_set_new(root, "added_tokens", tokens);
    if (c->form == PIECES) {
        model = json_pack("{s:s, s:s*, s:s, s:i, s:o}", "type", "WordPiece", "unk_token", unk,
                          "continuing_subword_prefix", "##", "max_input_chars_per_word", 100,
                          "vocab", ids);
        (void)json_object_set_new(root, "normalizer", make_bert_normalizer(v));
        (void)json_object_set_new(root, "pre_tokenizer",
                                  json_pack("{s:s}", "type", "BertPreTokenizer"));
    } else {
        model = json_pack("{s:s, s:b, s:o, s:o}", "type", "BPE", "ignore_merges", c->form == RANKS,
                          "vocab", ids, "merges", merges);
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
static bool next_line(const char **at, const char *end, kt__str *line) {
    if (*at >= end) return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = (kt__str){*at, (size_t)((stop ? stop : end) - *at)};
    if (line->len && line->s[line->len - 1] == '\r') line->len--;
    *at = stop ? stop + 1 : end;
    return true;
}

static kt_status bad_line(const char *path, size_t number, kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                       "line %zu is not UTF-8, or holds a NUL byte", number);
}

/* "left right", a line each, after "#version: 0.2" */
static kt_status read_merge_lines(const char *text, size_t len, const char *path, json_t **out,
                                  kt_error *err) {
    const char *at = text;
    kt__str line;
    *out = json_array();
    for (size_t number = 1; next_line(&at, text + len, &line); number++) {
        bool version = number == 1 && line.len >= 8 && memcmp(line.s, "#version", 8) == 0;
        if (version || line.len == 0) continue;
        if (json_array_append_new(*out, json_stringn(line.s, line.len)) != 0)
            return bad_line(path, number, err);
    }
    return KT_OK;
}

/* A token a line, whose number is its id; of two equal ones the last counts. */
static kt_status read_token_lines(const char *text, size_t len, const char *path, json_t **out,
                                  kt_error *err) {
    const char *at = text;
    kt__str line;
    *out = json_object();
    for (size_t number = 1; next_line(&at, text + len, &line); number++) {
        if (number > KT__TOK_MAX_VOCAB)
            return kt__fail_at(err, KT_E_LIMIT, path, (uint64_t)(line.s - text), "over %d tokens",
                               KT__TOK_MAX_VOCAB);
        char *name = kt__strndup(line.s, line.len);
        if (!name) return kt__fail_nomem(err, path, line.len);
        bool good = strlen(name) == line.len &&
                    json_object_set_new(*out, name, json_integer((json_int_t)number - 1)) == 0;
        kt__free(name);
        if (!good) return bad_line(path, number, err);
    }
    return KT_OK;
}

typedef kt_status read_lines_fn(const char *text, size_t len, const char *path, json_t **out,
                                kt_error *err);

/* *out stays NULL where the file is absent. */
static kt_status read_lines(const char *dir, const char *name, read_lines_fn *read, json_t **out,
                            kt_error *err) {
    char *path = kt__folder_path(dir, name), *text = NULL;
    size_t len;
    if (!path) return kt__fail_nomem(err, "a path", strlen(name));
    kt_status status = kt__folder_read_file(path, MAX_FILE, false, &text, &len, err);
    if (status == KT_OK && text) status = read(text, len, path, out, err);
    kt__free(text);
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

static kt_status read_ids(const kt__vocab *v, bool pieces, json_t **out, kt_error *err) {
    if (pieces) return read_lines(v->dir, "vocab.txt", read_token_lines, out, err);
    char *path = kt__folder_path(v->dir, "vocab.json");
    if (!path) return kt__fail_nomem(err, "a path", strlen(v->dir));
    kt_status status = kt__folder_read_json(path, MAX_FILE, false, out, err);
    kt__free(path);
    return status;
}

static bool has_ranks(const kt__vocab *v) {
    char *path = kt__folder_path(v->dir, "tiktoken.model");
    bool there = path && access(path, F_OK) == 0;
    kt__free(path);
    return there;
}

kt_status kt__vocab_read_files(kt__vocab *v, const kt__hf_config *config, kt_error *err) {
    const file_class *c = find_file_class(v, config);
    json_t *ids = NULL, *merges = NULL, *pieces = NULL;
    bool ranks = c && c->form == RANKS;
    kt_status status;
    if (ranks) {
        KT__TRY(kt__vocab_read_tiktoken(v, &ids, &merges, err));
        if (!ids) goto out;
    } else {
        KT__TRY(read_ids(v, false, &ids, err));
        KT__TRY(read_ids(v, true, &pieces, err));
        KT__TRY(read_lines(v->dir, "merges.txt", read_merge_lines, &merges, err));
    }
    if (!pieces && !(ids && merges) && !has_ranks(v)) goto out;
    if (!c) {
        status = unknown_file_class(v, err);
        goto out;
    }
    if (c->form == PIECES ? !pieces : !ids || !merges) goto out;
    complete_specials(v, c);
    v->tokenizer = make_tokenizer(v, c, json_incref(c->form == PIECES ? pieces : ids),
                                  json_incref(merges));
out:
    json_decref(ids);
    json_decref(merges);
    json_decref(pieces);
    return status;
}
