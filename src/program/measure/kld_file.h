/* Files of a base model's log-probabilities, as llama-perplexity writes and reads them
 * (--kl-divergence-base).
 *
 * Owns: the format, both ways. Little-endian: "_logits_", i32 n_ctx, n_vocab, n_chunk, i32
 * tokens[n_chunk][n_ctx], then for each chunk and each position from n_ctx/2 to n_ctx - 2 a row: f32
 * scale, f32 lowest, u16 codes[n_vocab, made even]; log p = lowest + scale code, cut 16 below the
 * greatest. One thread a file. */
#ifndef KT_MEASURE_KLD_FILE_H
#define KT_MEASURE_KLD_FILE_H

#include <stdio.h>

#include "measure/quality.h"

typedef struct kt__kld_file {
    FILE *file;
    char path[512];
    int32_t n_ctx, n_vocab, n_chunk;
    int32_t *tokens; /* [n_chunk][n_ctx] */
    /* the row at hand */
    float scale, lowest;
    uint16_t *codes; /* [n_vocab, made even] */
} kt__kld_file;

/* Header and tokens are read and checked, also against the file's length. KT_E_FORMAT,
 * KT_E_TRUNCATED or KT_E_IO. Close in any case; a zeroed struct can be closed. */
kt_status kt__kld_open(const char *path, kt__kld_file *out, kt_error *err) KT_CHECKED;
/* Reads the next row; *row refers to the file's own memory, until the next call. */
kt_status kt__kld_next(kt__kld_file *file, kt__base_row *row, kt_error *err) KT_CHECKED;

/* A new file; tokens: [n_chunk][n_ctx]. An existing one is overwritten. */
kt_status kt__kld_create(const char *path, int32_t n_ctx, int32_t n_vocab, int32_t n_chunk,
                         const int32_t *tokens, kt__kld_file *out, kt_error *err) KT_CHECKED;
kt_status kt__kld_put(kt__kld_file *file, const kt__log_row *row, kt_error *err) KT_CHECKED;
/* What was put is on its way to the disk. */
kt_status kt__kld_finish(kt__kld_file *file, kt_error *err) KT_CHECKED;
void kt__kld_close(kt__kld_file *file);

#endif
