/* libFuzzer: tokenizer.json, tokenizer.model and their side files from arbitrary bytes. The input is
 * cut at NUL bytes into tokenizer.json, tokenizer_config.json and generation_config.json; where it
 * does not begin with '{' all of it is a tokenizer.model. Refused, or the vocabulary's keys can be
 * written and read back.
 *
 *   build-fuzz/fuzz_convert_vocab -max_total_time=60 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "convert/json_file.h"
#include "convert/vocab.h"

static void need(bool condition) {
    if (!condition) abort();
}

/* The next part as JSON; NULL: none, or none that is. */
static json_t *next_json(const char **s, size_t *left) {
    size_t n = 0;
    json_t *out = NULL;
    kt_error err;
    while (n < *left && (*s)[n]) n++;
    if (n && kt__folder_parse_json(*s, n, "f.json", &out, &err) != KT_OK) out = NULL;
    n += n < *left;
    *s += n;
    *left -= n;
    return out;
}

/* The next part as a tokenizer.json. */
static void take_tokenizer(kt__vocab *v, const char **s, size_t *left) {
    size_t n = strnlen(*s, *left);
    char *text = kt__strndup(*s, n);
    kt_error err;
    n += n < *left;
    *s += n;
    *left -= n;
    kt__vocab_hold(v, text);
    if (kt__vocab_parse_tokenizer(v, text, strlen(text), "f.json", &err) != KT_OK && v->tokenizer) {
        json_decref(v->tokenizer); /* as if there were none */
        v->tokenizer = NULL;
    }
}

static void write_keys(kt__vocab *v) {
    kt__gguf_writer *w;
    char *head = NULL;
    size_t n;
    uint64_t data_bytes;
    kt_error err;
    kt__gguf *gguf;
    kt__tokenizer *tok;
    need(kt__gguf_writer_open_memory(&w, &err) == KT_OK);
    need(kt__vocab_put(v, (int64_t)v->n_tokens + 3, w, &err) == KT_OK);
    need(kt__gguf_writer_take_header(w, &head, &n, &data_bytes, &err) == KT_OK);
    need(kt__gguf_open_memory(head, n, true, &gguf, &err) == KT_OK);
    if (kt__tokenizer_load(gguf, &tok, &err) == KT_OK) kt__tokenizer_free(tok);
    kt__gguf_close(gguf);
    kt__free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const kt__convert_notes notes = {NULL, NULL};
    const char *s = (const char *)data;
    size_t left = size;
    kt__hf_config config = {.root = json_object()};
    kt__vocab v;
    kt_error err;
    config.text = config.root;
    kt__vocab_init(&v, ".");
    if (size && data[0] == '{') {
        take_tokenizer(&v, &s, &left);
        v.settings = next_json(&s, &left);
        v.generation = next_json(&s, &left);
    } else {
        v.model_file = kt__malloc(size + 1);
        v.model_bytes = size;
        memcpy(v.model_file, data, size);
    }
    if (kt__vocab_build(&v, &config, "tokenizer.json", "tokenizer.model", &notes, &err) == KT_OK)
        write_keys(&v);
    kt__vocab_free(&v);
    json_decref(config.root);
    return 0;
}
