#include "measure/quality.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/le.h"
#include "base/system.h"

static const char magic[8] = "_logits_";
enum { HEADER_BYTES = 8 + 3 * 4, ROW_HEADER_BYTES = 8, BELOW_GREATEST = 16, CODE_MAX = 65535 };
/* a chunk and a vocabulary beyond these are a broken file's */
enum { MAX_CTX = 1 << 24, MAX_VOCAB = 1 << 24, MAX_CHUNKS = 1 << 24 };

static size_t codes_in_row(const kt__kld_file *f) {
    return ((size_t)f->n_vocab + 1) / 2 * 2;
}

static kt_status kld_io_error(const kt__kld_file *f, const char *what, kt_error *err) {
    return kt__fail_system(err, errno, f->path, "%s", what);
}

/* ---- numbers, whatever this machine's byte order ---- */

static kt_status kld_read(kt__kld_file *f, void *data, size_t n, kt_error *err) {
    if (fread(data, 1, n, f->file) == n) return KT_OK;
    if (ferror(f->file)) return kld_io_error(f, "cannot read", err);
    return kt__fail_at(err, KT_E_TRUNCATED, f->path, UINT64_MAX, "the file ends in mid-row");
}

static kt_status kld_read_i32(kt__kld_file *f, int32_t *out, size_t n, kt_error *err) {
    uint8_t bytes[4];
    kt_status status = KT_OK;
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        status = kld_read(f, bytes, sizeof bytes, err);
        if (status == KT_OK) out[i] = (int32_t)(uint32_t)kt__le_get(bytes, 4);
    }
    return status;
}

static float kld_float(const uint8_t bytes[4]) {
    uint32_t bits = (uint32_t)kt__le_get(bytes, 4);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void kld_put_u32(kt__kld_file *f, uint32_t x) {
    uint8_t bytes[4];
    kt__le_put(bytes, x, 4);
    fwrite(bytes, 1, 4, f->file);
}

static void kld_put_float(kt__kld_file *f, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    kld_put_u32(f, bits);
}

/* ---- reading ---- */

static kt_status kld_check_length(kt__kld_file *f, kt_error *err) {
    kt__file_info st;
    if (!kt__fd_look(fileno(f->file), &st)) return kld_io_error(f, "cannot look at it", err);
    uint64_t rows = (uint64_t)f->n_chunk * (uint64_t)(f->n_ctx - 1 - f->n_ctx / 2);
    uint64_t row_bytes = ROW_HEADER_BYTES + 2 * codes_in_row(f), body = 0;
    uint64_t head = HEADER_BYTES + 4 * (uint64_t)f->n_chunk * (uint64_t)f->n_ctx;
    if (__builtin_mul_overflow(rows, row_bytes, &body) || head + body > st.bytes)
        return kt__fail_at(err, KT_E_TRUNCATED, f->path, st.bytes,
                           "%d chunks of %d tokens need %llu bytes", f->n_chunk, f->n_ctx,
                           (unsigned long long)(head + body));
    return KT_OK;
}

static kt_status kld_read_header(kt__kld_file *f, kt_error *err) {
    char head[8];
    int32_t sizes[3];
    kt_status status = kld_read(f, head, sizeof head, err);
    if (status != KT_OK || memcmp(head, magic, sizeof magic) != 0)
        return kt__fail_at(err, KT_E_FORMAT, f->path, 0,
                           "no file of log-probabilities: it does not begin with \"_logits_\"");
    status = kld_read_i32(f, sizes, 3, err);
    if (status != KT_OK) return status;
    f->n_ctx = sizes[0], f->n_vocab = sizes[1], f->n_chunk = sizes[2];
    if (f->n_ctx < 4 || f->n_ctx > MAX_CTX || f->n_vocab < 1 || f->n_vocab > MAX_VOCAB ||
        f->n_chunk < 1 || f->n_chunk > MAX_CHUNKS)
        return kt__fail_at(err, KT_E_FORMAT, f->path, 8,
                           "%d tokens a chunk, %d in the vocabulary and %d chunks cannot be",
                           sizes[0], sizes[1], sizes[2]);
    return kld_check_length(f, err);
}

static kt_status kld_read_tokens(kt__kld_file *f, kt_error *err) {
    size_t n = (size_t)f->n_chunk * (size_t)f->n_ctx;
    f->tokens = kt__calloc(n, sizeof *f->tokens);
    f->codes = kt__calloc(codes_in_row(f), sizeof *f->codes);
    if (!f->tokens || !f->codes) return kt__fail_nomem(err, "a base's tokens", n * 4);
    kt_status status = kld_read_i32(f, f->tokens, n, err);
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        if (f->tokens[i] < 0 || f->tokens[i] >= f->n_vocab)
            status = kt__fail_at(err, KT_E_FORMAT, f->path, HEADER_BYTES + 4 * i,
                                 "token %zu is %d, of a vocabulary of %d", i, f->tokens[i],
                                 f->n_vocab);
    }
    return status;
}

kt_status kt__kld_open(const char *path, kt__kld_file *out, kt_error *err) {
    *out = (kt__kld_file){.file = fopen(path, "rb")};
    snprintf(out->path, sizeof out->path, "%s", path);
    if (!out->file) return kld_io_error(out, "cannot open", err);
    kt_status status = kld_read_header(out, err);
    if (status == KT_OK) status = kld_read_tokens(out, err);
    return status;
}

static double kld_log_prob(const void *row, int32_t id) {
    const kt__kld_file *f = row;
    return (double)f->lowest + (double)f->scale * (double)f->codes[id];
}

static int32_t kld_best(const kt__kld_file *f) {
    int32_t best = 0;
    for (int32_t i = 1; i < f->n_vocab; i++) {
        if (f->codes[i] > f->codes[best]) best = i;
    }
    return best;
}

kt_status kt__kld_next(kt__kld_file *f, kt__base_row *row, kt_error *err) {
    uint8_t head[ROW_HEADER_BYTES];
    size_t n = codes_in_row(f);
    kt_status status = kld_read(f, head, sizeof head, err);
    if (status == KT_OK) status = kld_read(f, f->codes, n * sizeof *f->codes, err);
    if (status != KT_OK) return status;
    f->scale = kld_float(head);
    f->lowest = kld_float(head + 4);
    for (size_t i = 0; i < n; i++)
        f->codes[i] = (uint16_t)kt__le_get((const uint8_t *)&f->codes[i], 2);
    if (!isfinite(f->scale) || f->scale < 0.0f || !isfinite(f->lowest))
        return kt__fail_at(err, KT_E_FORMAT, f->path, (uint64_t)ftello(f->file),
                           "a row's scale is not a number");
    *row = (kt__base_row){kld_log_prob, f, kld_best(f), -(double)BELOW_GREATEST};
    return KT_OK;
}

/* ---- writing ---- */

kt_status kt__kld_create(const char *path, int32_t n_ctx, int32_t n_vocab, int32_t n_chunk,
                         const int32_t *tokens, kt__kld_file *out, kt_error *err) {
    *out = (kt__kld_file){
        .file = fopen(path, "wb"), .n_ctx = n_ctx, .n_vocab = n_vocab, .n_chunk = n_chunk};
    snprintf(out->path, sizeof out->path, "%s", path);
    if (!out->file) return kld_io_error(out, "cannot create", err);
    out->codes = kt__calloc(codes_in_row(out), sizeof *out->codes);
    if (!out->codes) return kt__fail_nomem(err, "a row of log-probabilities", 2 * (size_t)n_vocab);
    fwrite(magic, 1, sizeof magic, out->file);
    kld_put_u32(out, (uint32_t)n_ctx);
    kld_put_u32(out, (uint32_t)n_vocab);
    kld_put_u32(out, (uint32_t)n_chunk);
    for (size_t i = 0; i < (size_t)n_chunk * (size_t)n_ctx; i++)
        kld_put_u32(out, (uint32_t)tokens[i]);
    return ferror(out->file) ? kld_io_error(out, "cannot write", err) : KT_OK;
}

kt_status kt__kld_put(kt__kld_file *f, const kt__log_row *row, kt_error *err) {
    float greatest = row->logits[row->best], least = greatest;
    for (int32_t i = 0; i < f->n_vocab; i++) least = fminf(least, row->logits[i]);
    least = fmaxf(least, greatest - (float)BELOW_GREATEST);
    float scale = (greatest - least) / (float)CODE_MAX,
          inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (int32_t i = 0; i < f->n_vocab; i++) {
        float above = row->logits[i] - least;
        long code = above > 0.0f ? lrintf(inverse * above) : 0;
        kt__le_put((uint8_t *)&f->codes[i], (uint64_t)(code > CODE_MAX ? CODE_MAX : code), 2);
    }
    kld_put_float(f, scale);
    kld_put_float(f, (float)((double)least - row->log_sum));
    fwrite(f->codes, sizeof *f->codes, codes_in_row(f), f->file);
    return ferror(f->file) ? kld_io_error(f, "cannot write", err) : KT_OK;
}

/* Rows are written through stdio's buffer: a full disk may show only now. */
kt_status kt__kld_finish(kt__kld_file *f, kt_error *err) {
    return fflush(f->file) == 0 ? KT_OK : kld_io_error(f, "cannot write", err);
}

void kt__kld_close(kt__kld_file *f) {
    if (f->file) fclose(f->file);
    kt__free(f->tokens);
    kt__free(f->codes);
    *f = (kt__kld_file){0};
}
