#include "ops/blas.h"

#include <dlfcn.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* Of CBLAS (the reference interface of netlib.org/blas) and of OpenBLAS next to it. */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
typedef void set_threads_fn(int n);
typedef int get_parallel_fn(void);
enum { PARALLEL_OPENMP = 2 };

struct kt__blas {
    void *lib;
    sgemm_fn *sgemm;
};

/* POSIX lets dlsym's object pointer be a function; ISO C has no cast for it. */
static bool blas_find(void *lib, const char *name, void *fn) {
    void *symbol = dlsym(lib, name);
    memcpy(fn, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Built with OpenMP it would start a team of threads in each of ours. */
static kt_status bind_library(kt__blas *blas, const char *soname, kt_error *err) {
    set_threads_fn *set_threads;
    get_parallel_fn *get_parallel;
    bool whole = blas_find(blas->lib, "cblas_sgemm", &blas->sgemm);
    whole &= blas_find(blas->lib, "openblas_set_num_threads", &set_threads);
    whole &= blas_find(blas->lib, "openblas_get_parallel", &get_parallel);
    if (!whole) {
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "--blas: %s is not OpenBLAS; on Debian install libopenblas0-pthread",
                        soname);
    }
    if (get_parallel() == PARALLEL_OPENMP) {
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "--blas: this OpenBLAS is built with OpenMP, whose threads cannot be held "
                        "at one; on Debian install libopenblas0-pthread, and choose it with "
                        "update-alternatives");
    }
    set_threads(1);
    return KT_OK;
}

kt_status kt__blas_open(const char *soname, kt__blas **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__blas *blas = kt__calloc(1, sizeof *blas);
    if (!blas) return kt__fail_nomem(err, "OpenBLAS", sizeof *blas);
    if (!soname) soname = "libopenblas.so.0";
    blas->lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!blas->lib) {
        const char *why = dlerror();
        status = kt__fail(err, KT_E_UNSUPPORTED,
                          "--blas needs OpenBLAS: %.200s; on Debian install libopenblas0-pthread",
                          why ? why : soname);
        goto out;
    }
    KT__TRY(bind_library(blas, soname, err));
    *out = blas;
    blas = NULL;
out:
    kt__blas_close(blas);
    return status;
}

void kt__blas_close(kt__blas *blas) {
    if (!blas) return;
    if (blas->lib) (void)dlclose(blas->lib);
    kt__free(blas);
}

bool kt__blas_takes(kt__type type, int n_tok) {
    bool is_float = type == KT__TYPE_F32 || type == KT__TYPE_F16 || type == KT__TYPE_BF16;
    return is_float && n_tok >= KT__BLAS_MIN_TOK;
}

/* Without branches and tables, so that it becomes vector code of the baseline processor. A half's
 * exponent and fraction, moved to an f32's place, are too small by 2^112; subnormals come out right
 * by the same product. */
static void widen_f16(const uint8_t *src, int n, float *dst) {
    const float up = 0x1p112f;
    for (int i = 0; i < n; i++) {
        kt__f16 h;
        memcpy(&h, src + 2 * (size_t)i, sizeof h);
        uint32_t magnitude = h & 0x7fffu, sign = (h & 0x8000u) << 16;
        uint32_t bits = kt__f32_bits(kt__f32_from_bits(magnitude << 13) * up);
        uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u; /* infinities and NaNs */
        dst[i] = kt__f32_from_bits(bits | sign | special);
    }
}

static void widen_bf16(const uint8_t *src, int n, float *dst) {
    for (int i = 0; i < n; i++) {
        kt__bf16 h;
        memcpy(&h, src + 2 * (size_t)i, sizeof h);
        dst[i] = kt__bf16_to_f32(h);
    }
}

/* n_row rows as f32: those in the file where they can be used, else copies in the panel. */
static const float *rows_f32(kt__type type, const kt__mm *mm, int row0, int n_row, float *panel,
                             size_t *ld) {
    const uint8_t *src = mm->w + (size_t)row0 * mm->w_row_bytes;
    size_t n_col = (size_t)mm->n_col;
    *ld = mm->w_row_bytes / sizeof(float);
    bool usable = ((uintptr_t)src | mm->w_row_bytes) % sizeof(float) == 0;
    if (type == KT__TYPE_F32 && usable) return (const float *)(const void *)src;
    *ld = n_col;
    for (int r = 0; r < n_row; r++, src += mm->w_row_bytes) {
        float *dst = panel + (size_t)r * n_col;
        if (type == KT__TYPE_F32) memcpy(dst, src, n_col * sizeof *dst);
        if (type == KT__TYPE_F16) widen_f16(src, mm->n_col, dst);
        if (type == KT__TYPE_BF16) widen_bf16(src, mm->n_col, dst);
    }
    return panel;
}

/* bias and residual of the rows row0..; residual NULL: none, or in out already. */
static void finish_rows(const kt__mm *mm, int row0, int n_row, const float *residual) {
    const float *bias = mm->bias ? mm->bias + row0 : NULL;
    if (!bias && !residual) return;
    for (int t = 0; t < mm->n_tok; t++) {
        float *out = mm->out + (size_t)t * mm->ld_out + row0;
        const float *more = residual ? residual + (size_t)t * mm->ld_residual + row0 : NULL;
        for (int r = 0; bias && r < n_row; r++) out[r] += bias[r];
        for (int r = 0; more && r < n_row; r++) out[r] += more[r];
    }
}

void kt__blas_mm(const kt__blas *blas, kt__type type, const kt__mm *mm, float *panel) {
    bool in_place = mm->residual == mm->out && mm->ld_residual == mm->ld_out;
    for (int row0 = 0; row0 < mm->n_row; row0 += KT__BLAS_ROWS) {
        int n_row = mm->n_row - row0 < KT__BLAS_ROWS ? mm->n_row - row0 : KT__BLAS_ROWS;
        size_t ld;
        const float *w = rows_f32(type, mm, row0, n_row, panel, &ld);
        blas->sgemm(ROW_MAJOR, NO_TRANS, TRANS, mm->n_tok, n_row, mm->n_col, 1.0f,
                    (const float *)(const void *)mm->act, (int)(mm->act_row_bytes / sizeof(float)),
                    w, (int)ld, in_place ? 1.0f : 0.0f, mm->out + row0, (int)mm->ld_out);
        finish_rows(mm, row0, n_row, in_place ? NULL : mm->residual);
    }
}
