/* Special ids: from the file, else by the texts that published vocabularies use; and which tokens
 * are looked for in texts. */
#include "tokenizer/tokenizer_load.h"

#include <stdlib.h>

typedef struct known_text {
    kt__tok_role role; /* it may mean; KT__ROLE_COUNT: none */
    const char *text;
    bool eog; /* ends a generation */
} known_text;

/* In order of preference within a role. */
static const known_text known[] = {
    {KT__ROLE_EOT, "<|eot_id|>", true},
    {KT__ROLE_EOT, "<|eot|>", true}, /* Llama 4 */
    {KT__ROLE_EOT, "<|im_end|>", true},
    {KT__ROLE_EOT, "<|end|>", true},
    {KT__ROLE_EOT, "<end_of_turn>", true},
    {KT__ROLE_EOT, "<|endoftext|>", true},
    {KT__ROLE_EOT, "<|end_of_text|>", true},
    {KT__ROLE_EOT, "<EOT>", true},
    {KT__ROLE_EOT, "_<EOT>", true},
    {KT__ROLE_EOT, "<｜end▁of▁sentence｜>", true},
    {KT__ROLE_EOT, "<end_of_utterance>", true},
    {KT__ROLE_EOM, "<|eom_id|>", true},
    {KT__ROLE_EOM, "<|eom|>", true},
    {KT__ROLE_FIM_PRE, "<|fim_prefix|>", false},
    {KT__ROLE_FIM_PRE, "<fim_prefix>", false},
    {KT__ROLE_FIM_PRE, "<fim-prefix>", false},
    {KT__ROLE_FIM_PRE, "<｜fim▁begin｜>", false},
    {KT__ROLE_FIM_PRE, "<PRE>", false},
    {KT__ROLE_FIM_PRE, "▁<PRE>", false},
    {KT__ROLE_FIM_PRE, "[PREFIX]", false},
    {KT__ROLE_FIM_SUF, "<|fim_suffix|>", false},
    {KT__ROLE_FIM_SUF, "<fim_suffix>", false},
    {KT__ROLE_FIM_SUF, "<fim-suffix>", false},
    {KT__ROLE_FIM_SUF, "<｜fim▁hole｜>", false},
    {KT__ROLE_FIM_SUF, "<SUF>", false},
    {KT__ROLE_FIM_SUF, "▁<SUF>", false},
    {KT__ROLE_FIM_SUF, "[SUFFIX]", false},
    {KT__ROLE_FIM_MID, "<|fim_middle|>", false},
    {KT__ROLE_FIM_MID, "<fim_middle>", false},
    {KT__ROLE_FIM_MID, "<fim-middle>", false},
    {KT__ROLE_FIM_MID, "<｜fim▁end｜>", false},
    {KT__ROLE_FIM_MID, "<MID>", false},
    {KT__ROLE_FIM_MID, "▁<MID>", false},
    {KT__ROLE_FIM_MID, "[MIDDLE]", false},
    {KT__ROLE_FIM_PAD, "<|fim_pad|>", true},
    {KT__ROLE_FIM_PAD, "<fim_pad>", true},
    {KT__ROLE_FIM_PAD, "<fim-pad>", true},
    {KT__ROLE_FIM_PAD, "<PAD>", true},
    {KT__ROLE_FIM_REP, "<|fim_repo|>", true},
    {KT__ROLE_FIM_REP, "<|repo_name|>", true},
    {KT__ROLE_FIM_REP, "<fim-repo>", true},
    {KT__ROLE_FIM_REP, "<reponame>", true},
    {KT__ROLE_FIM_REP, "<REPO>", true},
    {KT__ROLE_FIM_SEP, "<|file_sep|>", true},
    {KT__ROLE_COUNT, "<|return|>", true},
    {KT__ROLE_COUNT, "<|call|>", true},
    {KT__ROLE_COUNT, "<|flush|>", true},
    {KT__ROLE_COUNT, "<|calls|>", true},
    {KT__ROLE_COUNT, "<|end_of_turn|>", true},
    {KT__ROLE_COUNT, "<turn|>", true},
    {KT__ROLE_COUNT, "<|tool_response>", true},
    {KT__ROLE_COUNT, "[EOS]", true},
    {KT__ROLE_COUNT, "<eos>", true},
    {KT__ROLE_COUNT, "</s>", true},
};
enum { N_KNOWN = sizeof known / sizeof *known };

static bool is_control_like(const kt__tokenizer *tok, int32_t id) {
    kt__tok_attr attr = kt__tokenizer_token_attr(tok, id);
    return attr == KT__TOK_CONTROL || attr == KT__TOK_USER_DEFINED;
}

/* Converters have written texts such as <|im_end|> as ordinary tokens; they are never meant as
 * text. */
static bool is_unmistakable(const char *text) {
    return text[0] == '<' && text[1] != '/' && strchr(text, '|') != NULL;
}

static int32_t find_known(kt__tokenizer *tok, const known_text *k) {
    int32_t id = kt__tokenizer_find(tok, k->text, strlen(k->text));
    if (id < 0) return -1;
    if (is_control_like(tok, id)) return id;
    if (kt__tokenizer_token_attr(tok, id) != KT__TOK_NORMAL || !is_unmistakable(k->text)) return -1;
    tok->attr[id] = KT__TOK_CONTROL;
    return id;
}

/* Ids that would break generation if they were wrong; the rest are taken as absent when out of
 * range. */
static bool is_essential(int role) {
    return role <= KT__ROLE_UNK;
}

static kt_status take_file_ids(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    static const char *const names[] = {"bos", "eos", "eot", "eom", "unknown"};
    for (int role = 0; role < KT__ROLE_COUNT; role++) {
        int64_t id = src->role_ids[role];
        bool in_range = id >= 0 && id < (int64_t)tok->n_vocab;
        if (id != -1 && !in_range && is_essential(role))
            return kt__fail_at(err, KT_E_FORMAT, src->path, UINT64_MAX,
                               "key tokenizer.ggml.%s_token_id is %lld; an id from 0 to %zu is "
                               "expected",
                               names[role], (long long)id, tok->n_vocab - 1);
        tok->role_ids[role] = in_range ? (int32_t)id : -1;
    }
    return KT_OK;
}

typedef struct default_text {
    kt__tok_role role;
    const char *text;
} default_text;

static void default_ids(kt__tokenizer *tok, const default_text *defaults, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tok->role_ids[defaults[i].role] < 0)
            tok->role_ids[defaults[i].role] = kt__tokenizer_find(tok, defaults[i].text,
                                                                 strlen(defaults[i].text));
}

/* The defaults of the models "llama" and "t5". */
static void default_spm_ids(kt__tokenizer *tok) {
    static const default_text defaults[] = {
        {KT__ROLE_BOS, "<s>"}, {KT__ROLE_EOS, "</s>"}, {KT__ROLE_UNK, "<unk>"}};
    default_ids(tok, defaults, sizeof defaults / sizeof *defaults);
}

/* BERT's texts begin with [CLS] and end with [SEP], whatever else the file calls begin and end. */
static void wordpiece_ids(kt__tokenizer *tok) {
    static const default_text defaults[] = {{KT__ROLE_CLS, "[CLS]"},
                                            {KT__ROLE_SEP, "[SEP]"},
                                            {KT__ROLE_UNK, "[UNK]"},
                                            {KT__ROLE_PAD, "[PAD]"},
                                            {KT__ROLE_MASK, "[MASK]"}};
    default_ids(tok, defaults, sizeof defaults / sizeof *defaults);
    if (tok->role_ids[KT__ROLE_CLS] >= 0) tok->role_ids[KT__ROLE_BOS] = tok->role_ids[KT__ROLE_CLS];
    if (tok->role_ids[KT__ROLE_SEP] >= 0) tok->role_ids[KT__ROLE_EOS] = tok->role_ids[KT__ROLE_SEP];
}

/* A word without pieces needs an id. */
static kt_status check_unknown(const kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    if (tok->method == KT__TOK_MERGES || tok->role_ids[KT__ROLE_UNK] >= 0) return KT_OK;
    return kt__fail_at(err, KT_E_FORMAT, src->path, UINT64_MAX,
                       "key tokenizer.ggml.unknown_token_id is missing; a vocabulary of the model "
                       "\"%s\" needs an unknown token",
                       tok->kind);
}

static void choose_ends(kt__tokenizer *tok, const kt__tok_source *src) {
    bool wordpiece = tok->method == KT__TOK_WORDPIECE, unigram = tok->method == KT__TOK_UNIGRAM;
    bool bos = wordpiece || (tok->spm ? !unigram : tok->pre->add_bos);
    tok->add_bos = src->add_bos >= 0 && !wordpiece ? src->add_bos != 0 : bos;
    tok->add_eos = src->add_eos >= 0 && !wordpiece ? src->add_eos != 0 : wordpiece || unigram;
}

static int compare_ids(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

static void add_eog(kt__tokenizer *tok, int32_t id) {
    if (id < 0) return;
    for (size_t i = 0; i < tok->n_eog; i++)
        if (tok->eog[i] == id) return;
    tok->eog[tok->n_eog++] = id;
}

/* The model's own list; an id outside the vocabulary ends nothing. */
static void add_listed_eog(kt__tokenizer *tok, const kt__gguf_kv *kv) {
    for (uint64_t i = 0; kv && i < kv->count; i++) {
        int64_t id = kt__gguf_array_i64(kv, i);
        if (id >= 0 && id < (int64_t)tok->n_vocab) add_eog(tok, (int32_t)id);
    }
}

static void drop_eog(kt__tokenizer *tok, int32_t id) {
    for (size_t i = 0; i < tok->n_eog; i++)
        if (tok->eog[i] == id) tok->eog[i] = tok->eog[--tok->n_eog];
}

/* Formats with channels end a message with <|end|> and a turn with <|return|> or <|call|>. */
static void apply_channel_rule(kt__tokenizer *tok) {
    int32_t end = kt__tokenizer_find(tok, "<|end|>", 7);
    bool channels = kt__tokenizer_find(tok, "<|return|>", 10) >= 0 &&
                    kt__tokenizer_find(tok, "<|call|>", 8) >= 0;
    if (end < 0 || !channels) return;
    drop_eog(tok, end);
    if (tok->role_ids[KT__ROLE_EOT] == end) tok->role_ids[KT__ROLE_EOT] = -1;
}

/* Gemma's </s> is a tag of HTML. */
static void apply_tag_rule(kt__tokenizer *tok) {
    if (tok->by_merges) drop_eog(tok, kt__tokenizer_find(tok, "</s>", 4));
}

kt_status kt__tok_find_roles(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    kt_status status = take_file_ids(tok, src, err);
    if (status != KT_OK) return status;
    if (tok->method == KT__TOK_WORDPIECE)
        wordpiece_ids(tok);
    else if (tok->spm)
        default_spm_ids(tok);
    status = check_unknown(tok, src, err);
    if (status != KT_OK) return status;
    const size_t most = N_KNOWN + KT__ROLE_COUNT + KT__TOK_MAX_EOS;
    tok->eog = kt__malloc(most * sizeof *tok->eog);
    if (!tok->eog) return kt__fail_nomem(err, "end-of-generation ids", most);
    for (int i = 0; i < N_KNOWN; i++) {
        int32_t id = find_known(tok, &known[i]);
        if (id < 0) continue;
        if (known[i].eog) add_eog(tok, id);
        if (known[i].role < KT__ROLE_COUNT && tok->role_ids[known[i].role] < 0)
            tok->role_ids[known[i].role] = id;
    }
    apply_channel_rule(tok);
    apply_tag_rule(tok);
    add_listed_eog(tok, src->eos_ids_kv);
    add_eog(tok, tok->role_ids[KT__ROLE_EOS]);
    add_eog(tok, tok->role_ids[KT__ROLE_EOT]);
    add_eog(tok, tok->role_ids[KT__ROLE_EOM]);
    qsort(tok->eog, tok->n_eog, sizeof *tok->eog, compare_ids);
    choose_ends(tok, src);
    return KT_OK;
}

/* ---- special tokens in texts ---- */

bool kt__tok_is_phi3(const kt__tokenizer *tok, const kt__tok_source *src) {
    return tok->spm && kt__tok_equals(src->arch, "phi3");
}

/* Phi-3's chat tokens take the white space that follows them, which files of other converters do not
 * say. */
static void strip_as_phi3(const kt__tokenizer *tok, const kt__tok_source *src, uint8_t *strips) {
    static const char *const not_those[] = {"<|endoftext|>", "<s>", "<unk>"};
    if (!kt__tok_is_phi3(tok, src) || src->rstrip_kv || src->strips) return;
    for (size_t i = 0; i < tok->n_vocab; i++) {
        bool other = false;
        for (size_t k = 0; k < sizeof not_those / sizeof *not_those; k++)
            other = other || kt__tok_equals(kt__tok_source_token(src, i), not_those[k]);
        if (!other) strips[i] |= KT__TOK_RSTRIP;
    }
}

static kt_status add_strips(const kt__tokenizer *tok, const kt__tok_source *src,
                            const kt__gguf_kv *kv, uint8_t flag, uint8_t *strips, kt_error *err) {
    for (size_t i = 0; kv && i < kv->count; i++) {
        int64_t id = kt__gguf_array_i64(kv, i);
        if (id < 0 || (uint64_t)id >= tok->n_vocab)
            return kt__fail_at(err, KT_E_FORMAT, src->path, kv->file_offset,
                               "kentang.%sstrip_ids[%zu] is %lld, which is no id of the %zu tokens",
                               flag == KT__TOK_LSTRIP ? "l" : "r", i, (long long)id, tok->n_vocab);
        strips[id] |= flag;
    }
    return KT_OK;
}

/* strips[n_vocab], zeroed */
static kt_status find_strips(const kt__tokenizer *tok, const kt__tok_source *src, uint8_t *strips,
                             kt_error *err) {
    if (src->strips) memcpy(strips, src->strips, tok->n_vocab);
    strip_as_phi3(tok, src, strips);
    KT__STEP(add_strips(tok, src, src->lstrip_kv, KT__TOK_LSTRIP, strips, err));
    return add_strips(tok, src, src->rstrip_kv, KT__TOK_RSTRIP, strips, err);
}

kt_status kt__tok_build_special(kt__tokenizer *tok, const kt__tok_source *src, kt_error *err) {
    kt_status status = KT_OK;
    size_t n = 0;
    for (size_t i = 0; i < tok->n_vocab; i++) n += kt__tok_is_special(tok, i);
    kt__special_item *items = kt__calloc(n, sizeof *items);
    uint8_t *strips = kt__calloc(tok->n_vocab, 1);
    if (!items || !strips) KT__TRY(kt__fail_nomem(err, "special tokens", n * sizeof *items));
    KT__TRY(find_strips(tok, src, strips, err));
    n = 0;
    for (size_t i = 0; i < tok->n_vocab; i++) {
        kt__str text = kt__tok_source_token(src, i);
        if (!kt__tok_is_special(tok, i) || text.len == 0) continue;
        if (text.len > KT__SPECIAL_MAX_BYTES)
            KT__TRY(kt__fail_at(err, KT_E_LIMIT, src->path, UINT64_MAX,
                                "tokenizer.ggml.tokens[%zu] is a special token of %zu bytes; at "
                                "most %d are supported",
                                i, text.len, KT__SPECIAL_MAX_BYTES));
        bool marks = kt__tok_is_turn_mark(text) || kt__tokenizer_is_eog(tok, (int32_t)i) ||
                     tok->role_ids[KT__ROLE_BOS] == (int32_t)i;
        bool always = kt__tok_attr_of(tok, i) == KT__TOK_USER_DEFINED && !marks;
        items[n++] = (kt__special_item){text.s, text.len, (int32_t)i, always, strips[i]};
    }
    status = kt__special_new(items, n, &tok->special, err);
out:
    kt__free(items);
    kt__free(strips);
    return status;
}
