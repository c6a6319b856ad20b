/* A tiny Hugging Face folder, written by hand: one llama layer, a byte-level vocabulary. The larger
 * set of models is tests/convert/models.py's. */
#ifndef KT_TEST_CONVERT_FOLDER_H
#define KT_TEST_CONVERT_FOLDER_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

enum { CF_MODEL = 64, CF_FF = 128, CF_VOCAB = 300, CF_HEADS = 4, CF_HEADER = 1 << 16 };

static inline void cf_write(const char *dir, const char *name, const void *data, size_t n) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n) abort();
    fclose(f);
}

static inline void cf_text(const char *dir, const char *name, const char *text) {
    cf_write(dir, name, text, strlen(text));
}

/* "\u0105": any text as JSON may hold it. */
static inline size_t cf_letter(unsigned byte, char *out, size_t size) {
    static unsigned next;
    if (byte == 0) next = 256;
    bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    unsigned cp = printable ? byte : next++;
    return (size_t)snprintf(out, size, "\"\\u%04x\": %u, ", cp, byte);
}

static inline void cf_tokenizer(const char *dir) {
    char text[16384];
    size_t n = (size_t)snprintf(
        text, sizeof text,
        "{\"added_tokens\": [{\"id\": 258, \"content\": \"<|end|>\", "
        "\"special\": true}], \"normalizer\": null, \"pre_tokenizer\": "
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
        "\"use_regex\": true}, \"model\": {\"type\": \"BPE\", \"vocab\": {");
    for (unsigned b = 0; b < 256; b++) n += cf_letter(b, text + n, sizeof text - n);
    snprintf(text + n, sizeof text - n,
             "\"ab\": 256, \"abc\": 257}, \"merges\": [\"a b\", [\"ab\", \"c\"]]}}");
    cf_text(dir, "tokenizer.json", text);
}

/* more: further members, each with a comma after it */
static inline void cf_config(const char *dir, const char *class_name, const char *more) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"architectures\": [\"%s\"], %s\"hidden_size\": %d, "
             "\"intermediate_size\": %d, \"num_hidden_layers\": 1, \"num_attention_heads\": %d, "
             "\"num_key_value_heads\": 2, \"tie_word_embeddings\": true, \"eos_token_id\": 258}",
             class_name, more, CF_MODEL, CF_FF, CF_HEADS);
    cf_text(dir, "config.json", text);
}

typedef struct cf_weights {
    char header[CF_HEADER];
    size_t n, elements;
} cf_weights;

static inline void cf_add(cf_weights *w, const char *name, int rows, int cols) {
    size_t size = (size_t)(rows ? rows : 1) * (size_t)cols;
    char shape[32];
    if (rows)
        snprintf(shape, sizeof shape, "%d, %d", rows, cols);
    else
        snprintf(shape, sizeof shape, "%d", cols);
    w->n += (size_t)snprintf(w->header + w->n, sizeof w->header - w->n,
                             "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [%s], \"data_offsets\": "
                             "[%zu, %zu]}",
                             w->n ? ", " : "{", name, shape, 4 * w->elements,
                             4 * (w->elements + size));
    w->elements += size;
}

/* n_vocab rows of the embedding: what makes the file large. more: vectors of the layer's attention,
 * with their lengths; the last has none. */
typedef struct cf_vector {
    const char *name;
    int n;
} cf_vector;

static inline void cf_weights_file(const char *dir, int n_vocab, const cf_vector *more) {
    static cf_weights w;
    const int kv = CF_MODEL / 2;
    w.n = w.elements = 0;
    cf_add(&w, "model.embed_tokens.weight", n_vocab, CF_MODEL);
    cf_add(&w, "model.norm.weight", 0, CF_MODEL);
    cf_add(&w, "model.layers.0.input_layernorm.weight", 0, CF_MODEL);
    cf_add(&w, "model.layers.0.post_attention_layernorm.weight", 0, CF_MODEL);
    cf_add(&w, "model.layers.0.self_attn.q_proj.weight", CF_MODEL, CF_MODEL);
    cf_add(&w, "model.layers.0.self_attn.k_proj.weight", kv, CF_MODEL);
    cf_add(&w, "model.layers.0.self_attn.v_proj.weight", kv, CF_MODEL);
    cf_add(&w, "model.layers.0.self_attn.o_proj.weight", CF_MODEL, CF_MODEL);
    cf_add(&w, "model.layers.0.mlp.gate_proj.weight", CF_FF, CF_MODEL);
    cf_add(&w, "model.layers.0.mlp.up_proj.weight", CF_FF, CF_MODEL);
    cf_add(&w, "model.layers.0.mlp.down_proj.weight", CF_MODEL, CF_FF);
    for (; more && more->n; more++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s", more->name);
        cf_add(&w, name, 0, more->n);
    }
    w.header[w.n++] = '}';
    uint64_t size = w.n;
    char *file = malloc(8 + w.n + 4 * w.elements);
    memcpy(file, &size, 8); /* little-endian, as all machines that the tests run on */
    memcpy(file + 8, w.header, w.n);
    for (size_t i = 0; i < w.elements; i++) {
        float value = (float)((int)(i * 2654435761u % 2001) - 1000) * 1e-4f;
        memcpy(file + 8 + w.n + 4 * i, &value, 4);
    }
    cf_write(dir, "model.safetensors", file, 8 + w.n + 4 * w.elements);
    free(file);
}

static inline void cf_folder(const char *dir, int n_vocab) {
    mkdir(dir, 0777);
    cf_tokenizer(dir);
    cf_config(dir, "LlamaForCausalLM", "");
    cf_weights_file(dir, n_vocab, NULL);
}

#endif
