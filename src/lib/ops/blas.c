#include "ops/blas.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "base/text.h"

/* Of CBLAS (the reference interface of netlib.org/blas). */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
/* OpenBLAS and MKL take an int, BLIS 64 bits. */
typedef void set_threads_fn(int64_t n);
typedef int get_parallel_fn(void);
enum { PARALLEL_OPENMP = 2 };

/* In the order in which they are looked for. */
static const struct library {
    const char *name, *soname;
    const char *set_threads; /* tells it apart; NULL: the environment alone holds its threads */
} libraries[] = {
    {"OpenBLAS", "libopenblas.so.0", "openblas_set_num_threads"},
    {"MKL", "libmkl_rt.so.2", "MKL_Set_Num_Threads"},
    {"BLIS", "libblis.so.4", "bli_thread_set_num_threads"},
#ifdef __APPLE__
    {"Accelerate", "/System/Library/Frameworks/Accelerate.framework/Accelerate", NULL},
#endif
};
enum { N_LIBRARIES = sizeof libraries / sizeof *libraries };

struct kt__blas {
    void *lib;
    const char *name;
    sgemm_fn *sgemm;
};

/* POSIX lets dlsym's object pointer be a function; ISO C has no cast for it. */
static bool blas_find(void *lib, const char *name, void *fn) {
    void *symbol = kt__library_find(lib, name);
    memcpy(fn, &symbol, sizeof symbol);
    return symbol != NULL;
}

static const struct library *library_of(void *lib, set_threads_fn **set_threads) {
    for (int i = 0; i < N_LIBRARIES; i++) {
        const struct library *l = &libraries[i];
        *set_threads = NULL;
        if (!l->set_threads || blas_find(lib, l->set_threads, set_threads)) return l;
    }
    return NULL;
}

/* Built with OpenMP, OpenBLAS would start a team of threads in each of ours. */
static kt_status bind_library(kt__blas *blas, const char *soname, kt_error *err) {
    set_threads_fn *set_threads;
    get_parallel_fn *get_parallel;
    const struct library *l = library_of(blas->lib, &set_threads);
    if (!l || !blas_find(blas->lib, "cblas_sgemm", &blas->sgemm)) {
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "--blas: %s is neither OpenBLAS nor MKL nor BLIS; on Debian install "
                        "libopenblas0-pthread",
                        soname);
    }
    if (blas_find(blas->lib, "openblas_get_parallel", &get_parallel) &&
        get_parallel() == PARALLEL_OPENMP) {
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "--blas: this OpenBLAS is built with OpenMP, whose threads cannot be held "
                        "at one; on Debian install libopenblas0-pthread, and choose it with "
                        "update-alternatives");
    }
    if (set_threads) set_threads(1);
    blas->name = l->name;
    return KT_OK;
}

static const char *package_of(const char *name) {
    return name && !kt__strcasecmp(name, "mkl")    ? "intel-mkl (non-free)"
           : name && !kt__strcasecmp(name, "blis") ? "libblis4-pthread"
                                                   : "libopenblas0-pthread";
}

/* The library, or the first of those that are known. */
static kt_status load_library(const char *name, void **lib, const char **found, kt_error *err) {
    const char *soname = name;
    for (int i = 0; name && i < N_LIBRARIES; i++)
        if (!kt__strcasecmp(name, libraries[i].name)) soname = libraries[i].soname;
    *found = soname;
    *lib = soname ? kt__library_open(soname) : NULL;
    for (int i = 0; !soname && !*lib && i < N_LIBRARIES; i++) {
        *found = libraries[i].soname;
        *lib = kt__library_open(*found);
    }
    if (*lib) return KT_OK;
    const char *why = kt__library_error();
    return kt__fail(err, KT_E_UNSUPPORTED, "--blas needs %.60s: %.200s; on Debian install %s",
                    name ? name : "OpenBLAS, MKL or BLIS",
                    soname && why ? why : "none of them is installed", package_of(name));
}

kt_status kt__blas_open(const char *library, kt__blas **out, kt_error *err) {
    kt_status status;
    const char *found;
    *out = NULL;
    kt__blas *blas = kt__calloc(1, sizeof *blas);
    if (!blas) return kt__fail_nomem(err, "a BLAS", sizeof *blas);
    KT__TRY(load_library(library, &blas->lib, &found, err));
    KT__TRY(bind_library(blas, found, err));
    *out = blas;
    blas = NULL;
out:
    kt__blas_close(blas);
    return status;
}

void kt__blas_close(kt__blas *blas) {
    if (!blas) return;
    if (blas->lib) (void)kt__library_close(blas->lib);
    kt__free(blas);
}

const char *kt__blas_name(const kt__blas *blas) {
    return blas->name;
}

bool kt__blas_takes(int n_tok) {
    return n_tok >= KT__BLAS_MIN_TOK;
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
        switch (type) {
        case KT__TYPE_F16: widen_f16(src, mm->n_col, dst); break;
        case KT__TYPE_BF16: widen_bf16(src, mm->n_col, dst); break;
        default: kt__dequantize_row(type, src, mm->n_col, dst); /* F32, too */
        }
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
