#include "convert/convert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "convert/json_file.h"
#include "convert/plan.h"
#include "convert/vocab.h"

enum { MAX_CONFIG = 4 << 20 };

typedef struct conversion {
    const char *source;
    const kt__convert_output *output;
    char *config_path;
    kt__hf_config config;
    kt__folder folder;
    kt__sentence sentence;
    kt__vocab vocab;
    kt__weight_plan plan;
    kt_error *err;
} conversion;

/* ---- reading ---- */

static kt_status read_config(conversion *c) {
    json_t *root;
    c->config_path = kt__folder_path(c->source, "config.json");
    if (!c->config_path) return kt__fail_nomem(c->err, "a path", 0);
    if (!kt__file_exists(c->config_path) && errno == ENOENT)
        KT__STEP(kt__fail_at(
            c->err, KT_E_IO, c->source, UINT64_MAX,
            "the folder is no model: it has no config.json; a GGUF file in it is named itself"));
    KT__STEP(kt__folder_read_json(c->config_path, MAX_CONFIG, true, &root, c->err));
    return kt__hf_config_read(root, c->config_path, &c->output->notes, &c->config, c->err);
}

/* A classifier ranks, whatever modules.json says of its states. */
static kt_status read_sentence(conversion *c) {
    KT__STEP(kt__sentence_open(c->source, &c->sentence, c->err));
    if (c->config.pooling == KT__HF_NONE) c->config.pooling = c->sentence.pooling;
    if (c->sentence.compares) c->config.pooling = KT__HF_POOL_RANK;
    return KT_OK;
}

static bool is_text_of(const kt__vocab *v, int64_t id, const char *text) {
    return id >= 0 && (uint64_t)id < v->n_tokens && v->tokens[id].len == strlen(text) &&
           memcmp(v->tokens[id].s, text, strlen(text)) == 0;
}

static kt_status read_vocab(conversion *c) {
    const kt__sentence *s = &c->sentence;
    size_t n_rows;
    kt_status status = kt__weight_plan_rows(&c->folder, &c->config, &n_rows, c->err);
    if (status == KT_OK)
        status = kt__vocab_read(c->source, &c->config, n_rows, &c->output->notes, &c->vocab,
                                c->err);
    if (status == KT_OK && s->compares && c->config.arch == KT__HF_QWEN3 &&
        is_text_of(&c->vocab, s->yes_id, "yes") && is_text_of(&c->vocab, s->no_id, "no"))
        kt__vocab_add_rerank_template(&c->vocab);
    return status;
}

static bool has_file(const kt__folder *folder, const kt__file_info *st) {
    for (size_t i = 0; i < folder->n_shards; i++)
        if (folder->shards[i].device == (uint64_t)st->device &&
            folder->shards[i].inode == (uint64_t)st->number)
            return true;
    return false;
}

/* The output may not be one of the files that are read. */
static kt_status check_target(const conversion *c) {
    kt__file_info st;
    if (!kt__file_look(c->output->target, &st)) return KT_OK;
    if (!st.is_file)
        return kt__fail_at(c->err, KT_E_IO, c->output->target, UINT64_MAX,
                           "the output is there already, and not a regular file");
    bool among = has_file(&c->folder, &st);
    for (size_t i = 0; i < c->sentence.n_dense; i++)
        among = among || has_file(&c->sentence.dense[i], &st);
    if (!among) return KT_OK;
    return kt__fail_at(c->err, KT_E_ARG, c->output->target, UINT64_MAX,
                       "the output is a file of the folder that is converted");
}

/* ---- the header ---- */

/* The last part of the folder's path. */
static void model_name(const char *folder, char out[160]) {
    size_t end = strlen(folder), begin;
    while (end > 1 && folder[end - 1] == '/') end--;
    for (begin = end; begin > 0 && folder[begin - 1] != '/'; begin--) {
    }
    snprintf(out, 160, "%.*s", (int)(end - begin), folder + begin);
}

/* What the model's makers recommend, from generation_config.json. */
static void put_sampling(const json_t *generation, kt__gguf_writer *w) {
    static const struct {
        const char *name, *key;
        bool whole;
    } rows[] = {{"temperature", "general.sampling.temp", false},
                {"top_k", "general.sampling.top_k", true},
                {"top_p", "general.sampling.top_p", false},
                {"min_p", "general.sampling.min_p", false},
                {"repetition_penalty", "general.sampling.penalty_repeat", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *value = json_object_get(generation, rows[i].name);
        double number = json_number_value(value);
        if (!json_is_number(value) || !(number >= 0.0 && number <= 1e6)) continue;
        if (rows[i].whole)
            kt__gguf_put_i32(w, rows[i].key, (int32_t)number);
        else
            kt__gguf_put_f32(w, rows[i].key, (float)number);
    }
}

static void put_general(const conversion *c, kt__gguf_writer *w) {
    char name[160];
    model_name(c->source, name);
    kt__gguf_put_str(w, "general.architecture", c->config.arch_name);
    kt__gguf_put_str(w, "general.type", "model");
    kt__gguf_put_str(w, "general.name", name);
    kt__gguf_put_u32(w, "general.file_type", c->plan.recipe->file_type);
    kt__gguf_put_u32(w, "general.quantization_version", 2);
    put_sampling(c->vocab.generation, w);
}

static void put_dense(const conversion *c, kt__gguf_writer *w) {
    for (size_t i = 0; i < c->sentence.n_dense; i++) {
        const uint64_t *shape = c->sentence.dense_weight[i]->shape;
        char key[128];
        snprintf(key, sizeof key, "%s.dense_%zu_feat_in", c->config.arch_name, i + 2);
        kt__gguf_put_u32(w, key, (uint32_t)shape[1]);
        snprintf(key, sizeof key, "%s.dense_%zu_feat_out", c->config.arch_name, i + 2);
        kt__gguf_put_u32(w, key, (uint32_t)shape[0]);
    }
}

/* Every key that is no tensor. */
static kt_status put_keys(conversion *c, kt__gguf_writer *w) {
    put_general(c, w);
    kt__hf_config_put(&c->config, c->plan.n_vocab, w);
    put_dense(c, w);
    return kt__vocab_put(&c->vocab, c->plan.n_vocab, w, c->err);
}

static void add_shards(const kt__folder *folder, kt__hash *hash) {
    for (size_t i = 0; i < folder->n_shards; i++) {
        const kt__shard *s = &folder->shards[i];
        const uint64_t facts[] = {s->bytes, (uint64_t)s->mtime_ns, s->device, s->inode};
        kt__hash_add(hash, facts, sizeof facts);
    }
}

static void add_sources(const conversion *c, kt__hash *hash) {
    add_shards(&c->folder, hash);
    for (size_t i = 0; i < c->sentence.n_dense; i++) add_shards(&c->sentence.dense[i], hash);
}

static kt_status write_file(conversion *c, kt__convert_report *report) {
    kt__gguf_writer *w;
    kt__hash sources;
    kt_status status = kt__gguf_writer_open_memory(&w, c->err);
    if (status != KT_OK) return status;
    status = put_keys(c, w);
    if (status != KT_OK) {
        kt__gguf_writer_abort(w);
        return status;
    }
    kt__hash_init(&sources, KT__CONVERT_SEED);
    add_sources(c, &sources);
    snprintf(report->arch, sizeof report->arch, "%s", c->config.arch_name);
    return kt__convert_write(c->output, &c->plan, w, &sources, report, c->err);
}

kt_status kt__convert_folder(const char *folder, const kt__recipe *recipe,
                             const kt__convert_output *output, kt__convert_report *report,
                             kt_error *err) {
    conversion c = {.source = folder, .output = output, .err = err};
    const kt__convert_notes *notes = &output->notes;
    kt_status status;
    *report = (kt__convert_report){.recipe = ""};
    KT__TRY(read_config(&c));
    KT__TRY(kt__folder_open(folder, &c.folder, err));
    KT__TRY(kt__plan_find_mtp(&c.folder, &c.config, err));
    KT__TRY(read_sentence(&c));
    KT__TRY(check_target(&c));
    KT__TRY(read_vocab(&c));
    KT__TRY(kt__weight_plan_make(&c.folder, &c.config, &c.sentence, (int64_t)c.vocab.n_tokens,
                                 recipe, notes, &c.plan, err));
    KT__TRY(write_file(&c, report));
out:
    kt__weight_plan_free(&c.plan);
    kt__vocab_free(&c.vocab);
    kt__sentence_close(&c.sentence);
    kt__folder_close(&c.folder);
    kt__hf_config_free(&c.config);
    kt__free(c.config_path);
    return status;
}
