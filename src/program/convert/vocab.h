/* The vocabulary of a model folder: tokenizer.json, tokenizer.model and their side files, as the
 * keys of GGUF.
 *
 * Owns: which kind of tokenizer a folder has, its tokens, types, scores and merges, special ids,
 * every end-of-turn id, BOS and EOS rules, and chat templates; and the proof that what is written
 * encodes as tokenizer.json says (vocab_check.c). Texts lie in the files' own memory, which the
 * vocabulary holds. One user at a time while it is read, immutable afterwards. */
#ifndef KT_CONVERT_VOCAB_H
#define KT_CONVERT_VOCAB_H

#include "base/alloc.h"
#include "convert/config.h"
#include "convert/safetensors.h"
#include "tokenizer/pretok.h"
#include "tokenizer/tokenizer.h"

/* Published vocabularies have up to 902 thousand tokens (XLM-V) and 581 thousand merges (Gemma 2). */
enum { KT__VOCAB_MAX_TOKENS = 1 << 20, KT__VOCAB_MAX_MERGES = 1 << 20 };
enum { KT__VOCAB_MAX_EOS = 64, KT__VOCAB_MAX_TEMPLATES = 32 };

typedef struct kt__chat_text {
    kt__str name; /* empty: the default */
    const char *text;
} kt__chat_text;

/* How words become tokens. */
typedef enum kt__vocab_method {
    KT__VOCAB_MERGES,   /* BPE */
    KT__VOCAB_UNIGRAM,  /* the pieces of the greatest sum of scores */
    KT__VOCAB_WORDPIECE /* the longest piece, again and again */
} kt__vocab_method;

/* model.vocab as the file has it. */
typedef struct kt__vocab_entry {
    kt__str text;
    double number; /* an id (NAN: none), or a score */
} kt__vocab_entry;

enum { KT__VOCAB_TEXTS = 4 };

typedef struct kt__vocab {
    kt__arena arena;
    char *texts[KT__VOCAB_TEXTS]; /* files in which the texts of these lists lie */
    int n_texts;
    kt__vocab_entry *listed;
    size_t n_listed;
    bool listed_ids, has_merges;   /* texts with ids, not pieces with scores; merges are there */
    kt__strmap listed_at;          /* with ids: a text's place in the list */
    json_t *tokenizer;             /* tokenizer.json without those two lists */
    json_t *settings, *generation; /* tokenizer_config.json, generation_config.json */
    json_t *added, *specials; /* added_tokens.json, special_tokens_map.json: of older folders */
    json_t *template_json;
    const char *dir;
    char *model_file; /* tokenizer.model */
    size_t model_bytes;
    kt__vocab_method method;
    bool spm;         /* texts have spaces as U+2581; else byte-level BPE */
    bool made_scores; /* from merges */
    bool by_merges;   /* with spm: GGUF has the merges, not scores (gemma4) */
    kt__pretok_family family;
    kt__str *tokens;
    float *scores;
    int32_t *types;
    uint8_t *strips; /* of added tokens: KT__TOK_LSTRIP, KT__TOK_RSTRIP */
    bool has_strips;
    kt__str *merges;      /* "left right", of byte-level BPE, and by_merges */
    kt__str *merge_parts; /* [2 n_merges] left, right */
    size_t n_tokens, cap_tokens, n_merges;
    const char *pre;
    bool other_whole; /* pre's habit of whole words (ignore_merges) is not the file's */
    size_t n_rows;    /* of the embedding; 0: not known */
    kt__strmap ids;   /* text to id */
    int32_t role_ids[KT__ROLE_COUNT];
    int32_t eos_ids[KT__VOCAB_MAX_EOS];
    size_t n_eos;
    int32_t *suppressed; /* tokens that are never chosen */
    size_t n_suppressed;
    int add_bos, add_eos, add_space_prefix; /* -1: not said */
    int remove_extra_spaces;                /* of unigram */
    bool lowercase, strip_accents;          /* of WordPiece */
    kt__str charsmap;                       /* of unigram; empty: none */
    kt__chat_text templates[KT__VOCAB_MAX_TEMPLATES];
    size_t n_templates;
} kt__vocab;

/* Reads all of the folder's tokenizer files. n_rows: of the embedding; added tokens beyond them are
 * left out. Freed with kt__vocab_free, also after failure. dir must outlive it. */
kt_status kt__vocab_read(const char *dir, const kt__hf_config *config, size_t n_rows,
                         const kt__convert_notes *notes, kt__vocab *out, kt_error *err) KT_CHECKED;
void kt__vocab_free(kt__vocab *vocab);
/* The tokenizer.* keys. Tokens that fill the vocabulary up to n_rows mean nothing. */
kt_status kt__vocab_put(kt__vocab *vocab, int64_t n_rows, kt__gguf_writer *w,
                        kt_error *err) KT_CHECKED;

/* The same in two steps, for files that are in memory: init, then tokenizer (or model_file),
 * settings and generation are set, then build. Templates are not read. */
void kt__vocab_init(kt__vocab *vocab, const char *dir);
kt_status kt__vocab_build(kt__vocab *vocab, const kt__hf_config *config, const char *json_path,
                          const char *model_path, const kt__convert_notes *notes,
                          kt_error *err) KT_CHECKED;

/* ---- inside: steps of kt__vocab_read, a file each ---- */

/* vocab_lists.c: tokens and merges from a file's text, of which they are no copies: the vocabulary
 * holds it (kt__vocab_hold: from then on it is the vocabulary's). */
void kt__vocab_hold(kt__vocab *vocab, char *text);
/* vocab->tokenizer and the lists. */
kt_status kt__vocab_parse_tokenizer(kt__vocab *vocab, char *text, size_t len, const char *path,
                                    kt_error *err) KT_CHECKED;
/* vocab.json, {"text": id} */
kt_status kt__vocab_parse_ids(kt__vocab *vocab, char *text, size_t len, const char *path,
                              kt_error *err) KT_CHECKED;
/* The same lists from vocab->tokenizer, if it has them. */
kt_status kt__vocab_list_values(kt__vocab *vocab, const char *path, kt_error *err) KT_CHECKED;
/* Or one by one; after the last token with an id kt__vocab_end_ids. KT_E_LIMIT: too many. */
kt_status kt__vocab_list_token(kt__vocab *vocab, kt__str text, double number, const char *path,
                               kt_error *err) KT_CHECKED;
kt_status kt__vocab_end_ids(kt__vocab *vocab, kt_error *err) KT_CHECKED;
kt_status kt__vocab_list_merge(kt__vocab *vocab, kt__str left, kt__str right, const char *path,
                               kt_error *err) KT_CHECKED;
/* "left right" */
kt_status kt__vocab_list_line(kt__vocab *vocab, kt__str line, const char *path,
                              kt_error *err) KT_CHECKED;
/* -1: there is no such token. */
int64_t kt__vocab_listed_id(const kt__vocab *vocab, const char *text, size_t len);
/* vocab_bpe.c: a BPE of tokenizer.json, byte-level or of the SentencePiece kind. */
kt_status kt__vocab_read_bpe(kt__vocab *vocab, const char *path, kt_error *err) KT_CHECKED;
kt_status kt__vocab_read_merges(kt__vocab *vocab, const char *path, kt_error *err) KT_CHECKED;
/* Texts and ids of model.vocab, {"text": id}. */
kt_status kt__vocab_read_ids(kt__vocab *vocab, const char *path, kt_error *err) KT_CHECKED;
/* "<0xXX>" */
bool kt__vocab_is_byte(kt__str text);
/* vocab_pieces.c: WordPiece and unigram of tokenizer.json, with what is done to a text before. */
kt_status kt__vocab_read_wordpiece(kt__vocab *vocab, const char *path, kt_error *err) KT_CHECKED;
kt_status kt__vocab_read_unigram(kt__vocab *vocab, const char *path, kt_error *err) KT_CHECKED;
/* vocab_files.c: tokenizer.model, with the added tokens of the side files over it. */
kt_status kt__vocab_read_model(kt__vocab *vocab, const char *path, const kt__convert_notes *notes,
                               kt_error *err) KT_CHECKED;
kt_status kt__vocab_score_merges(kt__vocab *vocab, kt_error *err) KT_CHECKED;
/* vocab_special.c: added tokens of all files, over what is there; then ids by text. */
kt_status kt__vocab_add_tokens(kt__vocab *vocab, const char *path, kt_error *err) KT_CHECKED;
kt_status kt__vocab_reserve(kt__vocab *vocab, size_t n, kt_error *err) KT_CHECKED;
/* Ids below n without a token become tokens that mean nothing. */
kt_status kt__vocab_fill(kt__vocab *vocab, size_t n, kt_error *err) KT_CHECKED;
/* Added tokens that have no row in the embedding go; a vocabulary that has other tokens there is
 * another model's. */
kt_status kt__vocab_cut(kt__vocab *vocab, const char *path, const kt__convert_notes *notes,
                        kt_error *err) KT_CHECKED;
/* Fills the holes and makes vocab->ids. */
kt_status kt__vocab_index(kt__vocab *vocab, kt_error *err) KT_CHECKED;
/* vocab_bpe.c: normaliser and pre-tokenizer by structure. */
kt_status kt__vocab_find_pretok(kt__vocab *vocab, const char *path, kt_error *err) KT_CHECKED;
/* vocab_files.c: vocab->tokenizer and the lists from vocab.json and merges.txt, vocab.txt or tiktoken.model; it
 * stays NULL where they are not there. */
kt_status kt__vocab_read_files(kt__vocab *vocab, const kt__hf_config *config,
                               kt_error *err) KT_CHECKED;
/* vocab_files.c: the lists as tokenizer.json would have them; they stay empty where there is no
 * tiktoken.model. */
kt_status kt__vocab_read_tiktoken(kt__vocab *vocab, kt_error *err) KT_CHECKED;
/* vocab_bpe.c: GPT-2's alphabet of bytes: printable Latin-1 as itself, the others from U+0100
 * up. */
typedef struct kt__vocab_letter {
    char utf8[4];
    uint8_t n;
} kt__vocab_letter;
void kt__vocab_letters(kt__vocab_letter letters[256]);
/* vocab_special.c: special ids, end-of-turn ids, BOS and EOS rules. */
kt_status kt__vocab_find_special(kt__vocab *vocab, const kt__hf_config *config,
                                 kt_error *err) KT_CHECKED;
/* vocab_template.c */
kt_status kt__vocab_read_templates(kt__vocab *vocab, kt_error *err) KT_CHECKED;
/* The prompt that Qwen3's rerankers were trained with, under the name that readers of GGUF look
 * for; a template of this name in the folder counts before it. */
void kt__vocab_add_rerank_template(kt__vocab *vocab);
/* vocab_check.c: encodes a test text as tokenizer.json says and as the result does. */
kt_status kt__vocab_check(const kt__vocab *vocab, const char *path, const kt__convert_notes *notes,
                          kt_error *err) KT_CHECKED;
/* The same vocab_check.c: tokenizer.ggml.model. */
const char *kt__vocab_model_name(const kt__vocab *vocab);
/* The vocabulary as the tokenizer room takes it. */
kt__tok_vocab kt__vocab_view(const kt__vocab *vocab);

#endif
