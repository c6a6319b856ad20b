/* Writes a small vocabulary as a GGUF file, and opens it. */
#ifndef KT_TESTS_TEXT_TOK_GGUF_H
#define KT_TESTS_TEXT_TOK_GGUF_H

#include "tokenizer_vocab.h"

#include <unistd.h>

static const char *const tok_role_names[] = {"bos",     "eos",       "eot",    "eom",
                                             "unknown", "seperator", "padding"};

static inline void vocab_write(const small_vocab *sv, const char *path,
                               void (*more)(kt__gguf_writer *w)) {
    kt__gguf_writer *w;
    kt_error err;
    assert_int_equal(kt__gguf_writer_open(path, &w, &err), KT_OK);
    kt__gguf_put_str(w, "general.architecture", sv->v.arch ? sv->v.arch : "llama");
    if (sv->v.model) kt__gguf_put_str(w, "tokenizer.ggml.model", sv->v.model);
    if (sv->v.pre) kt__gguf_put_str(w, "tokenizer.ggml.pre", sv->v.pre);
    if (sv->v.tokens) kt__gguf_put_strs(w, "tokenizer.ggml.tokens", sv->tokens, sv->v.n_tokens);
    if (sv->v.scores) kt__gguf_put_f32s(w, "tokenizer.ggml.scores", sv->scores, sv->v.n_tokens);
    if (sv->v.types) kt__gguf_put_i32s(w, "tokenizer.ggml.token_type", sv->types, sv->v.n_tokens);
    if (sv->v.n_merges) kt__gguf_put_strs(w, "tokenizer.ggml.merges", sv->merges, sv->v.n_merges);
    for (int role = 0; role <= KT__ROLE_PAD; role++) {
        char key[64];
        if (sv->v.role_ids[role] == -1) continue;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", tok_role_names[role]);
        kt__gguf_put_u32(w, key, (uint32_t)sv->v.role_ids[role]);
    }
    if (sv->v.add_bos >= 0) kt__gguf_put_bool(w, "tokenizer.ggml.add_bos_token", sv->v.add_bos);
    if (sv->v.add_space_prefix >= 0)
        kt__gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", sv->v.add_space_prefix);
    if (more) more(w);
    kt_status status = kt__gguf_finish_header(w, &err);
    if (status != KT_OK) fail_msg("%s", err.message);
    assert_int_equal(kt__gguf_writer_close(w, &err), KT_OK);
}

static inline kt__gguf *vocab_open_file(const char *path) {
    const kt__gguf_open_params params = {.use_mmap = true, .vocab_only = true};
    kt__gguf *gguf = NULL;
    kt_error err;
    if (kt__gguf_open(path, &params, &gguf, &err) != KT_OK) fail_msg("%s", err.message);
    return gguf;
}

#endif
