/* Vocabularies: made up so that any text can be encoded and any token decodes to readable text, or
 * copied from a file. A made-up word list gives the first merges; further tokens are words of
 * invented syllables that no text produces, so that a vocabulary has its real size. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "synth/synth.h"
#include "term/options.h"

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_UNUSED = 5, TYPE_BYTE = 6 };
enum { MAX_PIECES = 2048 };

/* None of three or more syllables of add_fillers (it would be a token twice). */
static const char *const words[] = {
    "the",    "and",   "that",   "for",    "with",  "you",    "this",  "was",     "are",   "have",
    "not",    "from",  "they",   "what",   "when",  "can",    "said",  "there",   "which", "will",
    "time",   "about", "would",  "people", "some",  "could",  "other", "than",    "then",  "into",
    "little", "model", "answer", "word",   "small", "number", "three", "because", "house", "water",
    "one",    "two",   "day",    "run",    "good",  "yang",   "dan",   "di",      "itu",   "dengan",
    "untuk",  "tidak", "ini",    "dari",   "dalam", "akan",   "pada",  "juga",    "saya",  "ada",
    "kami",   "sudah", "bisa",   "kentang"};

static const char chatml[] =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char turns[] =
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n{{ message['content'] }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";
static const char bar_turns[] =
    "{{ bos_token }}{% for message in messages %}<|turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n{{ message['content'] }}"
    "<turn|>\n{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}";
static const char bars[] =
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

typedef struct vocab {
    kt__arena arena;
    kt__str *tokens;
    float *scores;
    int32_t *types;
    kt__str *merges;
    int n, cap, n_merges; /* cap = the vocabulary's size */
    bool failed;
} vocab;

/* ---- building ---- */

static kt_status vocab_init(vocab *v, int cap, kt_error *err) {
    *v = (vocab){.cap = cap};
    kt__arena_init(&v->arena, 1 << 20, (size_t)1 << 30);
    v->tokens = kt__arena_calloc(&v->arena, (size_t)cap, sizeof *v->tokens);
    v->scores = kt__arena_calloc(&v->arena, (size_t)cap, sizeof *v->scores);
    v->types = kt__arena_calloc(&v->arena, (size_t)cap, sizeof *v->types);
    v->merges = kt__arena_calloc(&v->arena, MAX_PIECES, sizeof *v->merges);
    if (v->tokens && v->scores && v->types && v->merges) return KT_OK;
    return kt__fail_nomem(err, "a vocabulary", (size_t)cap * sizeof *v->tokens);
}

static kt__str copy_text(vocab *v, const char *text, size_t len) {
    char *copy = kt__arena_strndup(&v->arena, text, len);
    if (!copy) {
        v->failed = true;
        return (kt__str){"", 0};
    }
    return (kt__str){copy, len};
}

static void add_token(vocab *v, const char *text, int type, float score) {
    if (v->n >= v->cap) return;
    v->tokens[v->n] = copy_text(v, text, strlen(text));
    v->types[v->n] = type;
    v->scores[v->n++] = score;
}

static int find_token(const vocab *v, const char *text) {
    size_t len = strlen(text);
    for (int i = 0; i < v->n; i++)
        if (v->tokens[i].len == len && memcmp(v->tokens[i].s, text, len) == 0) return i;
    return -1;
}

static void add_control(vocab *v, const char *text) {
    add_token(v, text, TYPE_CONTROL, 0.0f);
}

/* Text that a byte has in GPT-2's alphabet: itself where it is printable, else a letter from U+0100
 * on. */
static void byte_text(unsigned byte, char out[8]) {
    unsigned shifted = 0;
    bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    for (unsigned b = 0; b < byte; b++)
        shifted += !((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
    out[kt__utf8_encode(plain ? byte : 256 + shifted, out)] = '\0';
}

/* Every beginning of " word", shortest first, so that merging from the left reaches the word; with
 * space "" the same for words at the start of a line. */
static void add_pieces(vocab *v, const char *space, int limit, bool merges) {
    char piece[64], parts[64];
    for (size_t len = space[0] ? 1 : 2; len < 16; len++) {
        for (size_t w = 0; w < KT__COUNT(words); w++) {
            if (strlen(words[w]) < len || v->n >= limit || v->n_merges >= MAX_PIECES) continue;
            snprintf(piece, sizeof piece, "%s%.*s", space, (int)len, words[w]);
            if (find_token(v, piece) >= 0) continue;
            snprintf(parts, sizeof parts, "%s%.*s %c", space, (int)(len - 1), words[w],
                     words[w][len - 1]);
            if (merges) v->merges[v->n_merges++] = copy_text(v, parts, strlen(parts));
            add_token(v, piece, TYPE_NORMAL, -(float)v->n);
        }
    }
}

/* Invented words of three syllables or more, different for each number. */
static void add_fillers(vocab *v, const char *space, int limit) {
    static const char consonants[] = "bdfgklmnprstvz", vowels[] = "aeiou";
    enum { SYLLABLES = 14 * 5 };
    char text[64];
    for (unsigned i = 0; v->n < limit; i++) {
        unsigned left = i;
        int at = snprintf(text, sizeof text, "%s", space);
        for (int k = 0; k < 3 || left; k++, left /= SYLLABLES) {
            unsigned syllable = left % SYLLABLES;
            at += snprintf(text + at, sizeof text - (size_t)at, "%c%c", consonants[syllable / 5],
                           vowels[syllable % 5]);
        }
        add_token(v, text, TYPE_NORMAL, -1e5f - (float)i);
    }
}

/* ---- writing ---- */

static void put_id(kt__gguf_writer *w, const vocab *v, const char *name, const char *text) {
    char key[80];
    int id = find_token(v, text);
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    if (id >= 0) kt__gguf_put_u32(w, key, (uint32_t)id);
}

static void put_lists(kt__gguf_writer *w, const vocab *v, bool scores) {
    kt__gguf_put_strs(w, "tokenizer.ggml.tokens", v->tokens, (uint64_t)v->n);
    if (scores) kt__gguf_put_f32s(w, "tokenizer.ggml.scores", v->scores, (uint64_t)v->n);
    kt__gguf_put_i32s(w, "tokenizer.ggml.token_type", v->types, (uint64_t)v->n);
    if (v->n_merges)
        kt__gguf_put_strs(w, "tokenizer.ggml.merges", v->merges, (uint64_t)v->n_merges);
}

static void put_bpe(const kt__synth_plan *plan, vocab *v, kt__gguf_writer *w) {
    static const char *const controls[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    char text[8];
    for (unsigned byte = 0; byte < 256; byte++) {
        byte_text(byte, text);
        add_token(v, text, TYPE_NORMAL, 0.0f);
    }
    byte_text(' ', text);
    add_pieces(v, text, v->cap - (int)KT__COUNT(controls), true);
    add_pieces(v, "", v->cap - (int)KT__COUNT(controls), true);
    add_fillers(v, text, v->cap - (int)KT__COUNT(controls));
    for (size_t i = 0; i < KT__COUNT(controls); i++) add_control(v, controls[i]);
    kt__gguf_put_str(w, "tokenizer.ggml.model", "gpt2");
    kt__gguf_put_str(w, "tokenizer.ggml.pre", plan->preset->pre);
    put_lists(w, v, false);
    put_id(w, v, "bos", "<|endoftext|>");
    put_id(w, v, "eos", "<|im_end|>");
    put_id(w, v, "padding", "<|endoftext|>");
    kt__gguf_put_bool(w, "tokenizer.ggml.add_bos_token",
                      strcmp(plan->preset->pre, "llama-bpe") == 0);
    if (plan->preset->pooling) kt__gguf_put_bool(w, "tokenizer.ggml.add_eos_token", true);
    kt__gguf_put_str(w, "tokenizer.chat_template", chatml);
}

/* What differs between the SentencePiece models. */
typedef struct spm_kind {
    const char *arch;  /* NULL: any other */
    const char *model; /* of the tokenizer: "llama" merges by scores, "gemma4" by a list */
    const char *first[4];
    const char *bos, *eos, *unk, *pad;
    const char *controls[5];
    const char *template_;
    bool add_bos, space_prefix;
} spm_kind;

static const spm_kind spm_kinds[] = {
    {"gemma4",
     "gemma4",
     {"<pad>", "<eos>", "<bos>", "<unk>"},
     "<bos>",
     "<eos>",
     "<unk>",
     "<pad>",
     {"<|turn>", "<turn|>", "<|channel>", "<channel|>"},
     bar_turns,
     true,
     false},
    {"gemma",
     "llama",
     {"<pad>", "<eos>", "<bos>", "<unk>"},
     "<bos>",
     "<eos>",
     "<unk>",
     "<pad>",
     {"<start_of_turn>", "<end_of_turn>"},
     turns,
     true,
     false},
    {"phi3",
     "llama",
     {"<unk>", "<s>", "</s>"},
     "<s>",
     "<|endoftext|>",
     "<unk>",
     "<|endoftext|>",
     {"<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"},
     bars,
     false,
     false},
    {NULL,
     "llama",
     {"<unk>", "<s>", "</s>"},
     "<s>",
     "</s>",
     "<unk>",
     NULL,
     {"<|im_start|>", "<|im_end|>"},
     chatml,
     true,
     true},
};

static const spm_kind *spm_kind_of(const char *arch) {
    const spm_kind *kind = spm_kinds;
    while (kind->arch && strncmp(kind->arch, arch, strlen(kind->arch)) != 0) kind++;
    return kind;
}

static void put_spm(const kt__synth_plan *plan, vocab *v, kt__gguf_writer *w) {
    static const char space[] = "\xe2\x96\x81"; /* U+2581 */
    const spm_kind *kind = spm_kind_of(plan->preset->arch);
    char text[8];
    int n_controls = 0;
    while (n_controls < 5 && kind->controls[n_controls]) n_controls++;
    for (int i = 0; i < 4 && kind->first[i]; i++)
        add_token(v, kind->first[i],
                  strcmp(kind->first[i], kind->unk) == 0 ? TYPE_UNKNOWN : TYPE_CONTROL, 0.0f);
    for (unsigned byte = 0; byte < 256; byte++) {
        snprintf(text, sizeof text, "<0x%02X>", byte);
        add_token(v, text, TYPE_BYTE, 0.0f);
    }
    add_token(v, space, TYPE_NORMAL, -1.0f);
    for (char c = 33; c < 127; c++) add_token(v, (char[]){c, '\0'}, TYPE_NORMAL, -1e4f - (float)c);
    bool merges = strcmp(kind->model, "gemma4") == 0;
    add_pieces(v, space, v->cap - n_controls, merges);
    add_pieces(v, "", v->cap - n_controls, merges);
    add_fillers(v, space, v->cap - n_controls);
    for (int i = 0; i < n_controls; i++) add_control(v, kind->controls[i]);
    kt__gguf_put_str(w, "tokenizer.ggml.model", kind->model);
    if (!merges) kt__gguf_put_str(w, "tokenizer.ggml.pre", "default");
    put_lists(w, v, true);
    put_id(w, v, "bos", kind->bos);
    put_id(w, v, "eos", kind->eos);
    put_id(w, v, "unknown", kind->unk);
    if (kind->pad) put_id(w, v, "padding", kind->pad);
    kt__gguf_put_bool(w, "tokenizer.ggml.add_bos_token", kind->add_bos);
    kt__gguf_put_bool(w, "tokenizer.ggml.add_eos_token", plan->preset->pooling != 0);
    kt__gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", kind->space_prefix);
    kt__gguf_put_str(w, "tokenizer.chat_template", kind->template_);
}

static void put_wordpiece(vocab *v, kt__gguf_writer *w) {
    static const char begin[] = "\xe2\x96\x81"; /* of a word */
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    char text[8];
    for (size_t i = 0; i < KT__COUNT(specials); i++) add_control(v, specials[i]);
    for (char c = 33; c < 127; c++) {
        if (c >= 'A' && c <= 'Z') continue; /* texts are made small */
        snprintf(text, sizeof text, "%s%c", begin, c);
        add_token(v, text, TYPE_NORMAL, 0.0f);
        add_token(v, (char[]){c, '\0'}, TYPE_NORMAL, 0.0f);
    }
    add_pieces(v, begin, v->cap, false);
    add_pieces(v, "", v->cap, false);
    add_fillers(v, begin, v->cap);
    kt__gguf_put_str(w, "tokenizer.ggml.model", "bert");
    kt__gguf_put_str(w, "tokenizer.ggml.pre", "default");
    kt__gguf_put_u32(w, "tokenizer.ggml.token_type_count", 2);
    put_lists(w, v, true);
    put_id(w, v, "unknown", "[UNK]");
    put_id(w, v, "seperator", "[SEP]");
    put_id(w, v, "padding", "[PAD]");
    put_id(w, v, "cls", "[CLS]");
    put_id(w, v, "mask", "[MASK]");
    put_id(w, v, "bos", "[CLS]");
    put_id(w, v, "eos", "[SEP]");
}

/* ---- copying ---- */

/* The file's tokens, then unused "[PADn]" ones. Its lists are written at the plan's size, the other
 * tokenizer.* keys as they are. */
static kt_status copy_vocab(const kt__gguf *from, vocab *v, kt__gguf_writer *w, kt_error *err) {
    const kt__gguf_kv *tokens = NULL, *scores = NULL, *types = NULL;
    KT__STEP(
        kt__gguf_get_array(from, "tokenizer.ggml.tokens", true, KT__GGUF_STRING, &tokens, err));
    KT__STEP(kt__gguf_get_array(from, "tokenizer.ggml.scores", false, KT__GGUF_F32, &scores, err));
    KT__STEP(
        kt__gguf_get_array(from, "tokenizer.ggml.token_type", false, KT__GGUF_I32, &types, err));
    for (int i = 0; i < v->cap; i++) {
        char pad[32];
        uint64_t at = (uint64_t)i;
        bool real = at < tokens->count;
        snprintf(pad, sizeof pad, "[PAD%d]", i);
        v->tokens[i] = real ? kt__gguf_array_str(tokens, at) : copy_text(v, pad, strlen(pad));
        v->scores[i] = scores && at < scores->count ? kt__gguf_array_f32(scores, at) : -1000.0f;
        v->types[i] = !real                        ? TYPE_UNUSED
                      : types && at < types->count ? (int32_t)kt__gguf_array_i64(types, at)
                                                   : TYPE_NORMAL;
    }
    kt__gguf_put_strs(w, "tokenizer.ggml.tokens", v->tokens, (uint64_t)v->cap);
    if (scores) kt__gguf_put_f32s(w, "tokenizer.ggml.scores", v->scores, (uint64_t)v->cap);
    kt__gguf_put_i32s(w, "tokenizer.ggml.token_type", v->types, (uint64_t)v->cap);
    for (size_t i = 0; i < kt__gguf_n_kv(from); i++) {
        const kt__gguf_kv *kv = kt__gguf_kv_at(from, i);
        bool is_tokenizer = kv->key.len > 10 && memcmp(kv->key.s, "tokenizer.", 10) == 0;
        if (is_tokenizer && kv != tokens && kv != scores && kv != types) kt__gguf_put_kv(w, kv);
    }
    return KT_OK;
}

kt_status kt__synth_put_vocab(const kt__synth_plan *plan, const kt__gguf *from, kt__gguf_writer *w,
                              kt_error *err) {
    vocab v;
    kt_status status = vocab_init(&v, plan->n_vocab, err);
    if (status == KT_OK && from) {
        status = copy_vocab(from, &v, w, err);
    } else if (status == KT_OK && plan->preset->wordpiece) {
        put_wordpiece(&v, w);
    } else if (status == KT_OK && plan->preset->pre) {
        put_bpe(plan, &v, w);
    } else if (status == KT_OK) {
        put_spm(plan, &v, w);
    }
    if (status == KT_OK && v.failed)
        status = kt__fail_nomem(err, "a vocabulary", v.arena.used_bytes);
    kt__arena_free(&v.arena);
    return status;
}
