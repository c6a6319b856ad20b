#include "convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"

static const char sum_suffix[] = ".in_sum2", count_suffix[] = ".counts";

void kt__imatrix_free(kt__imatrix *m) {
    for (size_t i = 0; i < m->n; i++) kt__free(m->entries[i].sum2);
    for (size_t i = 0; i < m->n_datasets; i++) kt__free(m->datasets[i]);
    kt__free(m->entries);
    kt__free(m->datasets);
    *m = (kt__imatrix){0};
}

static kt__imatrix_entry *entry_named(const kt__imatrix *m, const char *name) {
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->entries[i].name, name) == 0) return &m->entries[i];
    return NULL;
}

const kt__imatrix_entry *kt__imatrix_find(const kt__imatrix *m, const char *name) {
    const kt__imatrix_entry *e = entry_named(m, name);
    return e && e->n_rows > 0 ? e : NULL;
}

/* ---- gathering ---- */

static kt_status new_entry(kt__imatrix *m, const char *name, int64_t n_cols,
                           kt__imatrix_entry **out, kt_error *err) {
    if (!kt__vec_reserve(m->entries, m->cap, m->n + 1))
        return kt__fail_nomem(err, "an importance matrix", 0);
    kt__imatrix_entry *e = &m->entries[m->n];
    *e = (kt__imatrix_entry){.n_cols = n_cols, .sum2 = kt__calloc((size_t)n_cols, sizeof *e->sum2)};
    if (!e->sum2) return kt__fail_nomem(err, name, (size_t)n_cols * sizeof *e->sum2);
    snprintf(e->name, sizeof e->name, "%s", name);
    m->n++;
    *out = e;
    return KT_OK;
}

kt_status kt__imatrix_add(kt__imatrix *m, const char *name, int64_t n_cols, const float *sum2,
                          double n_rows, kt_error *err) {
    kt__imatrix_entry *e = entry_named(m, name);
    if (e && e->n_cols != n_cols)
        return kt__fail(err, KT_E_FORMAT,
                        "%s has %" PRId64 " columns, and %" PRId64
                        " elsewhere: not of one model's matrices",
                        name, n_cols, e->n_cols);
    kt_status status = e ? KT_OK : new_entry(m, name, n_cols, &e, err);
    if (status != KT_OK) return status;
    for (int64_t i = 0; i < n_cols; i++) e->sum2[i] += sum2[i];
    e->n_rows += n_rows;
    return KT_OK;
}

kt_status kt__imatrix_add_dataset(kt__imatrix *m, const char *name, kt_error *err) {
    for (size_t i = 0; i < m->n_datasets; i++)
        if (strcmp(m->datasets[i], name) == 0) return KT_OK;
    if (!kt__vec_reserve(m->datasets, m->cap_datasets, m->n_datasets + 1))
        return kt__fail_nomem(err, "a text's name", 0);
    m->datasets[m->n_datasets] = kt__strndup(name, strlen(name));
    if (!m->datasets[m->n_datasets]) return kt__fail_nomem(err, "a text's name", strlen(name));
    m->n_datasets++;
    return KT_OK;
}

/* ---- reading ---- */

static kt_status refuse_entry(const char *path, kt__str name, const char *why, kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "'%.*s' %s", (int)name.len, name.s, why);
}

static kt_status check_numbers(const char *path, const kt__gguf_tensor *t, kt_error *err) {
    if (t->type != 0) return refuse_entry(path, t->name, "is not of type F32", err);
    if (t->ne[1] != 1 || t->ne[2] != 1 || t->ne[3] != 1)
        return refuse_entry(path, t->name, "is of several experts, which kentang does not know",
                            err);
    for (uint64_t i = 0; i < t->ne[0]; i++) {
        float x;
        memcpy(&x, t->data + 4 * i, sizeof x);
        if (!(x >= 0.0f && x <= 1e30f)) /* and several can be added */
            return refuse_entry(path, t->name,
                                "has a number that is negative, or none that squares add up to",
                                err);
    }
    return KT_OK;
}

static kt_status read_entry(const char *path, const kt__gguf *g, const kt__gguf_tensor *sums,
                            kt__imatrix *out, kt_error *err) {
    char name[KT__GGUF_MAX_NAME_BYTES + 1], counts_name[KT__GGUF_MAX_NAME_BYTES + 16];
    float count, *sum2;
    snprintf(name, sizeof name, "%.*s", (int)(sums->name.len - strlen(sum_suffix)), sums->name.s);
    snprintf(counts_name, sizeof counts_name, "%s%s", name, count_suffix);
    const kt__gguf_tensor *counts = kt__gguf_find_tensor(g, counts_name);
    if (!counts) return refuse_entry(path, sums->name, "has no counts with it", err);
    kt_status status = check_numbers(path, sums, err);
    if (status == KT_OK) status = check_numbers(path, counts, err);
    if (status != KT_OK) return status;
    memcpy(&count, counts->data, sizeof count);
    sum2 = kt__malloc(sums->size);
    if (!sum2) return kt__fail_nomem(err, name, sums->size);
    memcpy(sum2, sums->data, sums->size);
    status = kt__imatrix_add(out, name, (int64_t)sums->ne[0], sum2, (double)count, err);
    kt__free(sum2);
    return status;
}

static kt_status read_datasets(const kt__gguf *g, kt__imatrix *out, kt_error *err) {
    const kt__gguf_kv *kv = NULL;
    kt_status status = kt__gguf_get_array(g, "imatrix.datasets", false, KT__GGUF_STRING, &kv, err);
    for (uint64_t i = 0; status == KT_OK && kv && i < kv->count && i < 256; i++) {
        kt__str s = kt__gguf_array_str(kv, i);
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(s.len < 255 ? s.len : 255), s.s);
        status = kt__imatrix_add_dataset(out, name, err);
    }
    return status;
}

static kt_status read_open(const char *path, const kt__gguf *g, kt__imatrix *out, kt_error *err) {
    kt__str type = {"", 0};
    uint32_t n_chunks = 0;
    KT__STEP(kt__gguf_get_str(g, "general.type", false, &type, err));
    if (type.len != 7 || memcmp(type.s, "imatrix", 7) != 0)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "is a GGUF file, but not an importance matrix (general.type)");
    KT__STEP(kt__gguf_get_u32(g, "imatrix.chunk_count", false, &n_chunks, err));
    KT__STEP(kt__gguf_get_u32(g, "imatrix.chunk_size", false, &out->chunk_size, err));
    KT__STEP(read_datasets(g, out, err));
    out->n_chunks += n_chunks;
    for (size_t i = 0; i < kt__gguf_n_tensors(g); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(g, i);
        if (kt__ends_with(t->name.s, t->name.len, sum_suffix))
            KT__STEP(read_entry(path, g, t, out, err));
    }
    if (out->n == 0)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "holds no importance of any matrix");
    return KT_OK;
}

kt_status kt__imatrix_merge_file(kt__imatrix *into, const char *path, kt_error *err) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__gguf *g = NULL;
    kt_status status = kt__gguf_open(path, &params, &g, err);
    if (status == KT_OK) status = read_open(path, g, into, err);
    kt__gguf_close(g);
    return status;
}

kt_status kt__imatrix_read(const char *path, kt__imatrix *out, kt_error *err) {
    *out = (kt__imatrix){0};
    return kt__imatrix_merge_file(out, path, err);
}

/* ---- writing ---- */

static void put_keys(const kt__imatrix *m, const kt__str *names, kt__gguf_writer *w) {
    kt__gguf_put_str(w, "general.type", "imatrix");
    kt__gguf_put_strs(w, "imatrix.datasets", names, m->n_datasets);
    kt__gguf_put_u32(w, "imatrix.chunk_count", m->n_chunks);
    kt__gguf_put_u32(w, "imatrix.chunk_size", m->chunk_size);
    for (size_t i = 0; i < m->n; i++) {
        char name[KT__GGUF_MAX_NAME_BYTES + 16];
        const uint64_t cols[2] = {(uint64_t)m->entries[i].n_cols, 1}, one[2] = {1, 1};
        snprintf(name, sizeof name, "%s%s", m->entries[i].name, sum_suffix);
        kt__gguf_declare_tensor(w, name, 0, 2, cols);
        snprintf(name, sizeof name, "%s%s", m->entries[i].name, count_suffix);
        kt__gguf_declare_tensor(w, name, 0, 2, one);
    }
}

static kt_status write_entries(const kt__imatrix *m, kt__gguf_writer *w, kt_error *err) {
    kt_status status = kt__gguf_finish_header(w, err);
    for (size_t i = 0; i < m->n && status == KT_OK; i++) {
        const kt__imatrix_entry *e = &m->entries[i];
        float count = (float)e->n_rows;
        status = kt__gguf_write_data(w, e->sum2, (size_t)e->n_cols * sizeof *e->sum2, err);
        if (status == KT_OK) status = kt__gguf_write_data(w, &count, sizeof count, err);
    }
    return status;
}

kt_status kt__imatrix_write(const kt__imatrix *m, const char *path, kt_error *err) {
    kt__gguf_writer *w = NULL;
    kt__str *names = kt__calloc(m->n_datasets + 1, sizeof *names);
    if (!names) return kt__fail_nomem(err, "texts' names", m->n_datasets * sizeof *names);
    for (size_t i = 0; i < m->n_datasets; i++)
        names[i] = (kt__str){m->datasets[i], strlen(m->datasets[i])};
    kt_status status = kt__gguf_writer_open(path, &w, err);
    if (status == KT_OK) {
        put_keys(m, names, w);
        status = write_entries(m, w, err);
        if (status == KT_OK)
            status = kt__gguf_writer_close(w, err);
        else
            kt__gguf_writer_abort(w);
    }
    kt__free(names);
    return status;
}
