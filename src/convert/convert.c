#include "convert/convert.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "convert/json_file.h"
#include "convert/vocab.h"

enum { MAX_CONFIG = 16 << 20 };

typedef struct conversion {
    const kt__convert_params *params;
    char *config_path;
    kt__hf_config config;
    kt__folder folder;
    kt__vocab vocab;
    kt__weight_plan plan;
    kt__part part;
    char *head;
    size_t head_bytes;
    uint64_t data_bytes;
    kt_error *err;
} conversion;

/* ---- reading ---- */

static kt_status read_config(conversion *c) {
    json_t *root;
    kt_status status;
    c->config_path = kt__folder_path(c->params->folder, "config.json");
    if (!c->config_path) return kt__fail_nomem(c->err, "a path", 0);
    KT__TRY(kt__folder_read_json(c->config_path, MAX_CONFIG, true, &root, c->err));
    KT__TRY(kt__hf_config_read(root, c->config_path, &c->params->notes, &c->config, c->err));
out:
    return status;
}

/* The output may not be one of the files that are read. */
static kt_status check_target(const conversion *c) {
    struct stat st;
    if (stat(c->params->target, &st) != 0) return KT_OK;
    if (!S_ISREG(st.st_mode))
        return kt__fail_at(c->err, KT_E_IO, c->params->target, UINT64_MAX,
                           "the output is there already, and not a regular file");
    for (size_t i = 0; i < c->folder.n_shards; i++)
        if (c->folder.shards[i].device == (uint64_t)st.st_dev &&
            c->folder.shards[i].inode == (uint64_t)st.st_ino)
            return kt__fail_at(c->err, KT_E_ARG, c->params->target, UINT64_MAX,
                               "the output is a file of the folder that is converted");
    return KT_OK;
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
    model_name(c->params->folder, name);
    kt__gguf_put_str(w, "general.architecture", c->config.arch_name);
    kt__gguf_put_str(w, "general.type", "model");
    kt__gguf_put_str(w, "general.name", name);
    kt__gguf_put_u32(w, "general.file_type", c->plan.recipe->file_type);
    kt__gguf_put_u32(w, "general.quantization_version", 2);
    put_sampling(c->vocab.generation, w);
}

static kt_status make_header(conversion *c) {
    kt__gguf_writer *w;
    kt_status status = kt__gguf_writer_open_memory(&w, c->err);
    if (status != KT_OK) return status;
    put_general(c, w);
    kt__hf_config_put(&c->config, c->plan.n_vocab, w);
    status = kt__vocab_put(&c->vocab, c->plan.n_vocab, w, c->err);
    if (status != KT_OK) {
        kt__gguf_writer_abort(w);
        return status;
    }
    kt__weight_plan_declare(&c->plan, w);
    return kt__gguf_writer_take_header(w, &c->head, &c->head_bytes, &c->data_bytes, c->err);
}

/* The program's own reader takes what was made. */
static kt_status check_header(const conversion *c, kt__convert_report *out) {
    kt__gguf *gguf = NULL;
    kt__tokenizer *tok = NULL;
    kt_status status;
    KT__TRY(kt__gguf_open_memory(c->head, c->head_bytes, true, &gguf, c->err));
    KT__TRY(kt__tokenizer_load(gguf, &tok, c->err));
    snprintf(out->tokenizer, sizeof out->tokenizer, "%s", kt__tokenizer_kind(tok));
out:
    kt__tokenizer_free(tok);
    kt__gguf_close(gguf);
    return status;
}

/* ---- the file ---- */

/* Equal only where every byte of the output would be equal. */
static kt__digest identity_of(const conversion *c) {
    kt__hash hash;
    kt__hash_init(&hash, 0x636f6e7665727401u);
    kt__hash_add(&hash, KT_VERSION, sizeof KT_VERSION);
    kt__hash_add(&hash, c->head, c->head_bytes);
    for (size_t i = 0; i < c->folder.n_shards; i++) {
        const kt__shard *s = &c->folder.shards[i];
        const uint64_t facts[] = {s->bytes, (uint64_t)s->mtime_ns, s->device, s->inode};
        kt__hash_add(&hash, facts, sizeof facts);
    }
    return kt__hash_end(&hash);
}

static kt_status write_file(conversion *c, kt__convert_report *out) {
    const kt__convert_params *p = c->params;
    kt__weights_job job = {.plan = &c->plan,
                           .part = &c->part,
                           .data_at = c->head_bytes,
                           .n_threads = p->n_threads,
                           .checkpoint_bytes = p->checkpoint_bytes,
                           .progress = p->progress,
                           .user = p->progress_user};
    kt_status status;
    out->bytes = c->head_bytes + c->data_bytes;
    KT__TRY(kt__part_open(p->target, out->bytes, identity_of(c), &c->part, c->err));
    out->resumed_bytes = c->part.good;
    if (c->part.good == 0) KT__TRY(kt__part_write(&c->part, c->head, c->head_bytes, 0, c->err));
    KT__TRY(kt__weights_write(&job, &out->counts, c->err));
    KT__TRY(kt__part_finish(&c->part, c->err));
    kt__part_close(&c->part);
    return KT_OK;
out:
    if (status == KT_E_STATE)
        kt__part_close(&c->part); /* another run's */
    else
        kt__part_remove(&c->part);
    return status;
}

kt_status kt__convert_folder(const kt__convert_params *params, kt__convert_report *out,
                             kt_error *err) {
    conversion c = {.params = params, .err = err};
    const kt__convert_notes *notes = &params->notes;
    kt_status status;
    *out = (kt__convert_report){0};
    KT__TRY(read_config(&c));
    KT__TRY(kt__folder_open(params->folder, &c.folder, err));
    KT__TRY(check_target(&c));
    KT__TRY(kt__vocab_read(params->folder, &c.config, notes, &c.vocab, err));
    KT__TRY(kt__weight_plan_make(&c.folder, &c.config, (int64_t)c.vocab.n_tokens, params->recipe,
                                 notes, &c.plan, err));
    KT__TRY(make_header(&c));
    KT__TRY(check_header(&c, out));
    out->arch = c.config.arch_name;
    out->recipe = c.plan.recipe->name;
    out->n_tensors = c.plan.n;
    out->n_params = c.plan.n_params;
    KT__TRY(write_file(&c, out));
out:
    kt__free(c.head);
    kt__weight_plan_free(&c.plan);
    kt__vocab_free(&c.vocab);
    kt__folder_close(&c.folder);
    kt__hf_config_free(&c.config);
    kt__free(c.config_path);
    return status;
}
