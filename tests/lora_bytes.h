/* Adapter files made in memory, whole or spoiled in one place.
 *
 * Owns: nothing. Static functions of one thread. */
#ifndef KT_TESTS_LORA_BYTES_H
#define KT_TESTS_LORA_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"
#include "quant/quant.h"
#include "support.h"

typedef struct lora_tensor {
    const char *name;
    int n_col, n_row;
} lora_tensor;

typedef struct lora_spec {
    const char *type, *arch, *kind; /* general.type, .architecture, adapter.type; NULL: absent */
    float alpha;
    bool no_alpha, alora;
    const char *nan_in; /* the tensor that has one */
    lora_tensor tensors[12];
    int n;
} lora_spec;

static inline void lora_put_header(const lora_spec *s, kt__gguf_writer *w) {
    static const int32_t token = 1;
    if (s->type) kt__gguf_put_str(w, "general.type", s->type);
    if (s->arch) kt__gguf_put_str(w, "general.architecture", s->arch);
    if (s->kind) kt__gguf_put_str(w, "adapter.type", s->kind);
    if (!s->no_alpha) kt__gguf_put_f32(w, "adapter.lora.alpha", s->alpha);
    if (s->alora) kt__gguf_put_i32s(w, "adapter.alora.invocation_tokens", &token, 1);
    for (int i = 0; i < s->n; i++) {
        const lora_tensor *t = &s->tensors[i];
        const uint64_t ne[2] = {(uint64_t)t->n_col, (uint64_t)t->n_row};
        kt__gguf_declare_tensor(w, t->name, kt__type_get(KT__TYPE_F32)->ggml_id, 2, ne);
    }
}

/* The file's bytes for free. */
static inline char *lora_bytes(const lora_spec *s, size_t *size) {
    kt_error err;
    kt__gguf_writer *w;
    char *head, *file;
    size_t head_bytes;
    uint64_t data_bytes;
    uint32_t x = 3;
    die_on(kt__gguf_writer_open_memory(&w, &err), &err);
    lora_put_header(s, w);
    die_on(kt__gguf_writer_take_header(w, &head, &head_bytes, &data_bytes, &err), &err);
    *size = head_bytes + (size_t)data_bytes;
    file = calloc(1, *size);
    memcpy(file, head, head_bytes);
    free(head);
    char *at = file + head_bytes;
    for (int i = 0; i < s->n; i++) {
        size_t n = (size_t)s->tensors[i].n_col * (size_t)s->tensors[i].n_row;
        for (size_t k = 0; k < n; k++) {
            float v = (float)lcg_unit(&x) - 0.5f;
            if (s->nan_in && !strcmp(s->nan_in, s->tensors[i].name) && k == n / 2) v = NAN;
            memcpy(at + k * sizeof v, &v, sizeof v);
        }
        at += (n * sizeof(float) + 31) / 32 * 32;
    }
    return file;
}

#endif
