#include "learn/factors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/lora.h"
#include "sample/rng.h"

kt_status kt__factors_supported(const kt__net *net, kt_error *err) {
    const kt__features none = KT__F_PARALLEL | KT__F_CENTRED | KT__F_NORM_ROTATED |
                              KT__F_QK_NORM_ROWS | KT__F_EXPERTS | KT__F_ENCODER |
                              KT__F_SHORT_CONV | KT__F_DELTA | KT__F_MAMBA | KT__F_LATENT |
                              KT__F_LOCAL_HEADS | KT__F_SUB_NORMS | KT__F_STREAMS;
    if (!(net->hp.features & none)) return KT_OK;
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "training is not written for the %s architecture's layers yet; its adapters "
                    "can be used, and trained elsewhere",
                    net->hp.arch);
}

static bool is_trained(const kt__net *net, kt__learn_where where, int block, kt__lora_site site) {
    int last = net->hp.n_layer - 1;
    if (site == KT__SITE_HEAD) return false;
    if (site == KT__SITE_HIDDEN) return where != KT__LEARN_ALL && block == net->hp.n_layer;
    if (block == net->hp.n_layer || where == KT__LEARN_HIDDEN) return false;
    bool keys = site == KT__SITE_Q || site == KT__SITE_K || site == KT__SITE_V;
    return where == KT__LEARN_ALL || (block == last && !keys);
}

/* Rows and columns of the tensor that n_sites sites lie in. */
static void tensor_shape(const kt__net *net, kt__factor *f) {
    int n_row;
    f->n_row = 0;
    for (int s = 0; s < f->n_sites; s++) {
        kt__lora_shape(net, f->block, (kt__lora_site)((int)f->site + s), &n_row, &f->n_col);
        f->site_row0[s] = f->n_row;
        f->n_row += n_row;
    }
}

static void list_factors(const kt__net *net, kt__learn_where where, kt__factors *out) {
    for (int block = 0; block <= net->hp.n_layer; block++) {
        for (int site = 0; site < KT__SITES; site++) {
            kt__factor *f = &out->of[out->n];
            *f = (kt__factor){.block = block, .site = (kt__lora_site)site};
            if (!is_trained(net, where, block, f->site)) continue;
            kt__lora_site_tensor(net, block, f->site, f->name, &f->n_sites);
            if (f->n_sites == 0) continue;
            tensor_shape(net, f);
            f->a = out->n_value;
            f->b = f->a + (size_t)out->rank * (size_t)f->n_col;
            out->n_value = f->b + (size_t)out->rank * (size_t)f->n_row;
            out->n++;
        }
    }
}

/* Kaiming's uniform numbers, of variance 1/n_col. */
static void fill_random(kt__factors *f, uint64_t seed) {
    for (int i = 0; i < f->n; i++) {
        size_t n = (size_t)f->rank * (size_t)f->of[i].n_col;
        float most = sqrtf(3.0f / (float)f->of[i].n_col);
        for (size_t k = 0; k < n; k++) {
            double u = kt__rng_uniform(seed, (uint32_t)i, k, 0);
            f->values[f->of[i].a + k] = most * (float)(2.0 * u - 1.0);
        }
    }
}

static kt_status take_values(kt__factors *f, kt_error *err) {
    size_t bytes = kt__align_up(f->n_value * sizeof(float), 64);
    f->values = kt__aligned_alloc(64, bytes);
    if (!f->values) return kt__fail_nomem(err, "an adapter's values", bytes);
    memset(f->values, 0, bytes);
    return KT_OK;
}

static kt__factors *new_factors(int n, int rank, float scale) {
    kt__factors *f = kt__calloc(1, sizeof *f);
    if (!f) return NULL;
    f->rank = rank;
    f->scale = scale;
    f->of = kt__calloc((size_t)n, sizeof *f->of);
    if (f->of) return f;
    kt__free(f);
    return NULL;
}

kt_status kt__factors_make(const kt__net *net, kt__learn_where where, int rank, float alpha,
                           uint64_t seed, kt__factors **out, kt_error *err) {
    kt_status status = kt__factors_supported(net, err);
    int n_max = (net->hp.n_layer + 1) * KT__SITES;
    *out = NULL;
    if (status != KT_OK) return status;
    kt__factors *f = new_factors(n_max, rank, alpha / (float)rank);
    if (!f) return kt__fail_nomem(err, "an adapter", (size_t)n_max * sizeof *f->of);
    list_factors(net, where, f);
    KT__TRY(take_values(f, err));
    fill_random(f, seed);
    *out = f;
    f = NULL;
out:
    kt__factors_free(f);
    return status;
}

kt_status kt__factors_copy(const kt__factors *from, kt__factors **out, kt_error *err) {
    kt__factors *f = new_factors(from->n, from->rank, from->scale);
    *out = NULL;
    if (!f) return kt__fail_nomem(err, "an adapter", 0);
    f->n = from->n;
    f->n_value = from->n_value;
    memcpy(f->of, from->of, (size_t)from->n * sizeof *f->of);
    kt_status status = take_values(f, err);
    if (status != KT_OK) {
        kt__factors_free(f);
        return status;
    }
    memcpy(f->values, from->values, f->n_value * sizeof *f->values);
    *out = f;
    return KT_OK;
}

bool kt__factors_alike(const kt__factors *a, const kt__factors *b) {
    if (a->n != b->n || a->rank != b->rank || a->scale != b->scale || a->n_value != b->n_value)
        return false;
    for (int i = 0; i < a->n; i++) {
        const kt__factor *x = &a->of[i], *y = &b->of[i];
        if (x->block != y->block || x->site != y->site || x->n_row != y->n_row ||
            x->n_col != y->n_col)
            return false;
    }
    return true;
}

void kt__factors_take_share(kt__factors *to, const kt__factors *from, float share) {
    memcpy(to->values, from->values, from->n_value * sizeof *to->values);
    for (int i = 0; i < to->n; i++) {
        const kt__factor *of = &to->of[i];
        float *b = to->values + of->b;
        for (size_t k = 0; k < (size_t)to->rank * (size_t)of->n_row; k++) b[k] *= share;
    }
}

void kt__factors_free(kt__factors *f) {
    if (!f) return;
    kt__free(f->of);
    kt__free(f->values);
    kt__free(f);
}

static kt__weight as_weight(const float *values, int n_row, int n_col) {
    return (kt__weight){(const uint8_t *)values, KT__TYPE_F32, n_row, n_col,
                        (size_t)n_col * sizeof *values};
}

void kt__factors_parts(const kt__factors *f, kt__lora_part *parts) {
    for (int i = 0; i < f->n; i++) {
        const kt__factor *of = &f->of[i];
        parts[i] = (kt__lora_part){.name = of->name,
                                   .block = of->block,
                                   .site = of->site,
                                   .n_sites = of->n_sites,
                                   .a = as_weight(f->values + of->a, f->rank, of->n_col),
                                   .b = as_weight(f->values + of->b, of->n_row, f->rank),
                                   .scale = f->scale};
    }
}

const kt__factor *kt__factors_find(const kt__factors *f, int block, kt__lora_site site, int *row0) {
    for (int i = 0; i < f->n; i++) {
        const kt__factor *of = &f->of[i];
        int first = (int)of->site;
        if (of->block != block || (int)site < first || (int)site >= first + of->n_sites) continue;
        *row0 = of->site_row0[(int)site - first];
        return of;
    }
    return NULL;
}

/* Adapters as GGUF files. */

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
    for (int i = 0; i < f->n; i++) {
        const kt__factor *of = &f->of[i];
        size_t rank = (size_t)f->rank;
        KT__STEP(kt__gguf_write_data(w, f->values + of->a, rank * (size_t)of->n_col * sizeof(float),
                                     err));
        KT__STEP(kt__gguf_write_data(w, f->values + of->b, rank * (size_t)of->n_row * sizeof(float),
                                     err));
    }
    return KT_OK;
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
    float alpha = 0.0f;
    KT__STEP(kt__gguf_get_f32(g, "adapter.lora.alpha", true, &alpha, err));
    if (alpha != f->scale * (float)f->rank)
        return kt__fail_at(err, KT_E_FORMAT, "adapter.lora.alpha", UINT64_MAX,
                           "%s: alpha is %g, the settings say %g", kt__gguf_path(g), (double)alpha,
                           (double)(f->scale * (float)f->rank));
    for (int i = 0; i < f->n; i++) {
        const kt__factor *of = &f->of[i];
        KT__STEP(read_matrix(g, of, 'a', f->rank, of->n_col, f->values + of->a, err));
        KT__STEP(read_matrix(g, of, 'b', of->n_row, f->rank, f->values + of->b, err));
    }
    return kt__gguf_check(g, err);
}
