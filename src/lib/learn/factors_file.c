/* Adapters as GGUF files. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "learn/factors.h"
#include "model/lora_file.h"

static void tensor_name(char out[96], const kt__factor *of, char which) {
    snprintf(out, 96, "%s.lora_%c", of->name, which);
}

static void declare_tensors(kt__gguf_writer *w, const kt__factors *f) {
    const uint32_t f32 = kt__type_get(KT__TYPE_F32)->ggml_id;
    char name[96];
    for (int i = 0; i < f->n; i++) {
        const kt__factor *of = &f->of[i];
        const uint64_t a[] = {(uint64_t)of->n_col, (uint64_t)f->rank};
        const uint64_t b[] = {(uint64_t)f->rank, (uint64_t)of->n_row};
        tensor_name(name, of, 'a');
        kt__gguf_declare_tensor(w, name, f32, 2, a);
        tensor_name(name, of, 'b');
        kt__gguf_declare_tensor(w, name, f32, 2, b);
    }
}

static kt_status write_values(kt__gguf_writer *w, const kt__factors *f, kt_error *err) {
    kt_status status = KT_OK;
    for (int i = 0; i < f->n; i++) {
        const kt__factor *of = &f->of[i];
        size_t rank = (size_t)f->rank;
        KT__TRY(kt__gguf_write_data(w, f->values + of->a, rank * (size_t)of->n_col * sizeof(float),
                                    err));
        KT__TRY(kt__gguf_write_data(w, f->values + of->b, rank * (size_t)of->n_row * sizeof(float),
                                    err));
    }
out:
    return status;
}

kt_status kt__factors_write(const kt__factors *f, const char *arch, const char *name,
                            const char *path, kt_error *err) {
    kt__gguf_writer *w = NULL;
    kt_status status = kt__gguf_writer_open(path, &w, err);
    if (status != KT_OK) return status;
    kt__gguf_put_str(w, "general.type", "adapter");
    kt__gguf_put_str(w, "general.architecture", arch);
    if (name) kt__gguf_put_str(w, "general.name", name);
    kt__gguf_put_str(w, "adapter.type", "lora");
    kt__gguf_put_f32(w, "adapter.lora.alpha", f->scale * (float)f->rank);
    if (f->scoped) kt__gguf_put_bool(w, KT__LORA_SCOPED, true);
    declare_tensors(w, f);
    KT__TRY(kt__gguf_finish_header(w, err));
    KT__TRY(write_values(w, f, err));
    return kt__gguf_writer_close(w, err);
out:
    kt__gguf_writer_abort(w);
    return status;
}

static kt_status read_matrix(const kt__gguf *g, const kt__factor *of, char which, int n_row,
                             int n_col, float *to, kt_error *err) {
    char name[96];
    tensor_name(name, of, which);
    const kt__gguf_tensor *t = kt__gguf_find_tensor(g, name);
    if (!t || !t->data || kt__type_from_ggml(t->type) != KT__TYPE_F32 ||
        t->ne[0] != (uint64_t)n_col || t->ne[1] != (uint64_t)n_row || t->ne[2] != 1 ||
        t->ne[3] != 1)
        return kt__fail_at(err, KT_E_FORMAT, name, UINT64_MAX,
                           "%s: no F32 tensor '%s' of %d rows of %d: it was not trained here with "
                           "this model and these settings",
                           kt__gguf_path(g), name, n_row, n_col);
    memcpy(to, t->data, (size_t)n_row * (size_t)n_col * sizeof *to);
    return KT_OK;
}

kt_status kt__factors_read(kt__factors *f, const kt__gguf *g, kt_error *err) {
    kt_status status;
    float alpha = 0.0f;
    KT__TRY(kt__gguf_get_f32(g, "adapter.lora.alpha", true, &alpha, err));
    if (alpha != f->scale * (float)f->rank)
        return kt__fail_at(err, KT_E_FORMAT, "adapter.lora.alpha", UINT64_MAX,
                           "%s: alpha is %g, the settings say %g", kt__gguf_path(g), (double)alpha,
                           (double)(f->scale * (float)f->rank));
    for (int i = 0; i < f->n; i++) {
        const kt__factor *of = &f->of[i];
        KT__TRY(read_matrix(g, of, 'a', f->rank, of->n_col, f->values + of->a, err));
        KT__TRY(read_matrix(g, of, 'b', of->n_row, f->rank, f->values + of->b, err));
    }
    status = kt__gguf_check(g, err);
out:
    return status;
}
