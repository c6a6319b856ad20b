/* A model that says what a test has written: its layers add nothing, and its head names behind each
 * token the one that comes next in the script. Which script it begins is decided by words of the last
 * message; its template is of the hermes kind, with <think> for reasoning. It is a model like any other
 * to all that serves or runs it. */
#ifndef KT_TESTS_SCRIPT_MODEL_H
#define KT_TESTS_SCRIPT_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "gguf/gguf.h"

typedef struct script {
    const char
        *word; /* the script is said where the last message has this word; the first one counts */
    const char *text; /* printable ASCII and \n, without </think> but as a whole */
    bool loops;       /* begins again at its end */
} script;

enum {
    SCRIPT_DIM = 1024,
    SCRIPT_VOCAB = 1536,
    SCRIPT_FIRST_BYTE = 3,
    SCRIPT_FIXED = SCRIPT_FIRST_BYTE + 256,
    SCRIPT_BREAK = SCRIPT_FIXED /* "</think>" */
};

typedef struct script_vocab {
    char text[SCRIPT_VOCAB][64]; /* as the file has it */
    int32_t type[SCRIPT_VOCAB], next[SCRIPT_VOCAB];
    int n;
} script_vocab;

static inline int script_token(script_vocab *v, const char *text, int32_t type) {
    snprintf(v->text[v->n], sizeof v->text[0], "%s", text);
    v->type[v->n] = type;
    v->next[v->n] = 2;
    return v->n++;
}

static inline int script_find(const script_vocab *v, const char *text) {
    for (int i = SCRIPT_FIXED; i < v->n; i++) {
        if (!strcmp(v->text[i], text)) return i;
    }
    return -1;
}

/* text[len] with the blanks of a SentencePiece vocabulary */
static inline void script_spell(const char *text, size_t len, char out[64]) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        n += (size_t)snprintf(out + n, 64 - n, text[i] == ' ' ? "\xe2\x96\x81" : "%c", text[i]);
    }
}

static const char script_break[] = "</think>";

/* Splits a script's rest into tokens that no script has yet, and chains them behind `last`; 0: there is
 * no way to. */
static inline int script_split(script_vocab *v, const char *at, int last) {
    static const size_t lengths[] = {5, 6, 4, 7, 3, 8, 9, 2, 10, 11, 12, 1};
    const char *stop = strstr(at, script_break);
    size_t most = stop ? (size_t)(stop - at) : strlen(at);
    if (!*at) return last;
    if (stop == at) {
        v->next[last] = SCRIPT_BREAK;
        return script_split(v, at + sizeof script_break - 1, SCRIPT_BREAK);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char piece[64];
        int n = v->n;
        if (lengths[i] > most || n == SCRIPT_VOCAB) continue;
        script_spell(at, lengths[i], piece);
        if (script_find(v, piece) >= 0) continue;
        v->next[last] = script_token(v, piece, 1);
        int end = script_split(v, at + lengths[i], n);
        if (end) return end;
        v->n = n;
    }
    return 0;
}

static inline void script_add(script_vocab *v, const script *s, int index) {
    char name[64];
    snprintf(name, sizeof name, "<|go%d|>", index);
    int begin = script_token(v, name, 3), last = script_split(v, s->text, begin);
    if (!last) {
        fprintf(stderr, "this script says what others say: %s\n", s->text);
        abort();
    }
    if (s->loops) v->next[last] = v->next[begin];
}

static inline void script_fill(script_vocab *v, const script *scripts, size_t n) {
    char name[64];
    script_token(v, "<unk>", 2);
    script_token(v, "<s>", 3);
    script_token(v, "</s>", 3);
    for (int b = 0; b < 256; b++) {
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        script_token(v, name, 6);
    }
    script_token(v, "</think>", 4);
    script_token(v, "<|turn|>", 3);
    for (size_t i = 0; i < n; i++) script_add(v, &scripts[i], (int)i);
}

static inline void script_template(kt__buf *out, const script *scripts, size_t n) {
    static const char head[] =
        "{%- if tools %}<|turn|>system\n<tools>{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n"
        "</tools>\n{% endif %}{%- for m in messages %}<|turn|>{{ m.role }}\n"
        "{%- if m.role == 'tool' %}<tool_response>\n{{ m.content }}\n</tool_response>"
        "{%- else %}{{ m.content }}{% for c in m.tool_calls or [] %}\n<tool_call>\n{\"name\": \""
        "{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>"
        "{% endfor %}{% endif %}\n{% endfor -%}{%- if add_generation_prompt %}<|turn|>assistant\n"
        "{%- set last = messages[-1].content %}{# </think> ends reasoning #}";
    (void)kt__buf_puts(out, head);
    for (size_t i = 0; i < n; i++)
        (void)kt__buf_printf(out, "{%% %s '%s' in last %%}<|go%zu|>", i ? "elif" : "if",
                             scripts[i].word, i);
    (void)kt__buf_puts(out, "{% endif %}{% endif %}");
}

static inline void script_header(kt__gguf_writer *w, script_vocab *v, const char *template_) {
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"block_count", 1},
                   {"context_length", 4096},
                   {"embedding_length", SCRIPT_DIM},
                   {"feed_forward_length", 32},
                   {"attention.head_count", 1},
                   {"attention.head_count_kv", 1},
                   {"attention.key_length", 32},
                   {"attention.value_length", 32},
                   {"vocab_size", SCRIPT_VOCAB}};
    static float scores[SCRIPT_VOCAB];
    static kt__str tokens[SCRIPT_VOCAB];
    char key[64];
    kt__gguf_put_str(w, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(key, sizeof key, "llama.%s", numbers[i].key);
        kt__gguf_put_u32(w, key, numbers[i].value);
    }
    kt__gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    while (v->n < SCRIPT_VOCAB) {
        snprintf(key, sizeof key, "<unused%d>", v->n);
        script_token(v, key, 5);
    }
    for (int i = 0; i < v->n; i++) {
        tokens[i] = (kt__str){v->text[i], strlen(v->text[i])};
        scores[i] = (float)-i;
    }
    kt__gguf_put_str(w, "tokenizer.ggml.model", "llama");
    kt__gguf_put_strs(w, "tokenizer.ggml.tokens", tokens, (uint64_t)v->n);
    kt__gguf_put_f32s(w, "tokenizer.ggml.scores", scores, (uint64_t)v->n);
    kt__gguf_put_i32s(w, "tokenizer.ggml.token_type", v->type, (uint64_t)v->n);
    kt__gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    kt__gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1);
    kt__gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
    kt__gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
    kt__gguf_put_str(w, "tokenizer.chat_template", template_);
}

static const struct {
    const char *name;
    uint64_t cols, rows;
} script_tensors[] = {
    {"token_embd.weight", SCRIPT_DIM, SCRIPT_VOCAB}, {"output.weight", SCRIPT_DIM, SCRIPT_VOCAB},
    {"output_norm.weight", SCRIPT_DIM, 1},           {"blk.0.attn_norm.weight", SCRIPT_DIM, 1},
    {"blk.0.ffn_norm.weight", SCRIPT_DIM, 1},        {"blk.0.attn_q.weight", SCRIPT_DIM, 32},
    {"blk.0.attn_k.weight", SCRIPT_DIM, 32},         {"blk.0.attn_v.weight", SCRIPT_DIM, 32},
    {"blk.0.attn_output.weight", 32, SCRIPT_DIM},    {"blk.0.ffn_gate.weight", SCRIPT_DIM, 32},
    {"blk.0.ffn_up.weight", SCRIPT_DIM, 32},         {"blk.0.ffn_down.weight", 32, SCRIPT_DIM},
};

/* A token's own direction; those that no script goes on from share one. */
static inline size_t script_dim(const script_vocab *v, int id) {
    bool scripted = id >= SCRIPT_FIXED && v->type[id] != 5 && id - SCRIPT_FIXED + 1 < SCRIPT_DIM;
    return scripted ? (size_t)(id - SCRIPT_FIXED + 1) : 0;
}

static inline void script_values(const script_vocab *v, size_t tensor, float *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = tensor >= 2 && tensor <= 4 ? 1.0f : 0.0f;
    for (int id = 0; tensor < 2 && id < v->n; id++) {
        int row = tensor == 0 ? id : v->next[id];
        x[(size_t)row * SCRIPT_DIM + script_dim(v, id)] = 1.0f;
    }
}

static inline kt_status script_write_tensors(kt__gguf_writer *w, const script_vocab *v,
                                             kt_error *err) {
    kt_status status = KT_OK;
    size_t n = sizeof script_tensors / sizeof *script_tensors;
    for (size_t t = 0; status == KT_OK && t < n; t++) {
        size_t count = (size_t)(script_tensors[t].cols * script_tensors[t].rows);
        float *x = malloc(count * sizeof *x);
        script_values(v, t, x, count);
        status = kt__gguf_write_data(w, x, count * sizeof *x, err);
        free(x);
    }
    return status;
}

/* Writes the model's file. */
static inline kt_status script_write(const char *path, const script *scripts, size_t n,
                                     kt_error *err) {
    static script_vocab v;
    kt__gguf_writer *w;
    kt__buf template_;
    v.n = 0;
    script_fill(&v, scripts, n);
    kt__buf_init(&template_, 1 << 16);
    script_template(&template_, scripts, n);
    kt_status status = kt__gguf_writer_open(path, &w, err);
    if (status == KT_OK) {
        script_header(w, &v, template_.data);
        for (size_t t = 0; t < sizeof script_tensors / sizeof *script_tensors; t++) {
            uint64_t ne[2] = {script_tensors[t].cols, script_tensors[t].rows};
            kt__gguf_declare_tensor(w, script_tensors[t].name, 0, ne[1] > 1 ? 2 : 1, ne);
        }
        status = kt__gguf_finish_header(w, err);
        if (status == KT_OK) status = script_write_tensors(w, &v, err);
        if (status == KT_OK) {
            status = kt__gguf_writer_close(w, err);
        } else {
            kt__gguf_writer_abort(w);
        }
    }
    kt__buf_free(&template_);
    return status;
}

#endif
