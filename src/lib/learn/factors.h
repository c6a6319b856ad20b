/* An adapter while it is trained: every pair A, B in f32.
 *
 * Owns: where the matrices of a network lie in one flat array, their first values, and the ways
 * out: as parts that kt__lora_pack_make takes, and as a GGUF file that kt__lora_file_read and
 * llama.cpp read. Knows no gradients. One user at a time. */
#ifndef KT_LEARN_FACTORS_H
#define KT_LEARN_FACTORS_H

#include "learn/sample.h"
#include "model/lora.h"

/* One pair: B [n_row][rank], A [rank][n_col]; B's rows are those of n_sites sites. */
typedef struct kt__factor {
    char name[64]; /* of the tensor adapted */
    int block;     /* a layer, or n_layer: the final hidden state */
    kt__lora_site site;
    int n_sites, n_row, n_col; /* n_sites: at most 3 */
    int site_row0[3];          /* of each site, B's first row */
    size_t a, b;               /* where they begin among the values */
} kt__factor;

typedef struct kt__factors {
    kt__factor *of;
    int n, rank;
    float scale; /* alpha / rank */
    bool scoped; /* the file says that it is for what the corrections are about (KT__LORA_SCOPED) */
    size_t n_value;
    float *values; /* [n_value], 64-byte aligned */
} kt__factors;

/* KT_E_UNSUPPORTED: the network's layer program has no way back (learn/pass.h). */
kt_status kt__factors_supported(const kt__net *net, kt_error *err) KT_CHECKED;
/* A at random (seed), B zero: the adapter adds nothing yet. KT_E_UNSUPPORTED: an architecture whose
 * layer program cannot be trained. */
kt_status kt__factors_make(const kt__net *net, kt__learn_where where, int rank, float alpha,
                           uint64_t seed, kt__factors **out, kt_error *err) KT_CHECKED;
kt_status kt__factors_copy(const kt__factors *from, kt__factors **out, kt_error *err) KT_CHECKED;
/* The same matrices, rank and scale: values can be compared one by one. */
bool kt__factors_alike(const kt__factors *a, const kt__factors *b);
void kt__factors_free(kt__factors *factors); /* NULL allowed */
/* to, which is alike, becomes share times what from adds. */
void kt__factors_take_share(kt__factors *to, const kt__factors *from, float share);
/* parts[factors->n]; they point into factors. */
void kt__factors_parts(const kt__factors *factors, kt__lora_part *parts);
/* The factor of a site in a block, and B's first row for it; NULL: none. */
const kt__factor *kt__factors_find(const kt__factors *factors, int block, kt__lora_site site,
                                   int *row0);
/* A file that replaces path when it is complete; A and B as F32, so that reading it back gives the
 * same adapter as kt__factors_parts. A final hidden state's pair goes under its own name
 * (final_hidden.weight). name: general.name, or NULL. */
kt_status kt__factors_write(const kt__factors *factors, const char *arch, const char *name,
                            const char *path, kt_error *err) KT_CHECKED;
/* The values of a file that kt__factors_write wrote, for a training that continues from it.
 * KT_E_FORMAT: another model's, rank or scale. */
kt_status kt__factors_read(kt__factors *factors, const kt__gguf *gguf, kt_error *err) KT_CHECKED;

#endif
