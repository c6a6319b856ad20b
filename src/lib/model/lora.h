/* An adapter's matrices as the forward pass wants them.
 *
 * Owns: the memory of a kt__lora: every A as f16 rows, every B as f16 panels, each divided by a
 * power of two so that its largest weight is between 1 and 2 (nothing of a file in f16 is lost so,
 * and of one in f32 what f16 rounds); and what follows from where they act: from which layer on
 * keys and values differ, and a digest of all that answers depend on. Made from parts, the caller
 * that has them: a file (lora.h), or one who trains. Immutable once packed; any thread. */
#ifndef KT_MODEL_LORA_H
#define KT_MODEL_LORA_H

#include "base/hash.h"
#include "model/net.h"

/* One pair of matrices: B [n_out][rank], A [rank][n_in]. Of a tensor that holds several products
 * (fused), B's rows are those of n_sites sites from `site` on. */
typedef struct kt__lora_part {
    const char *name; /* of the tensor adapted, for messages */
    int block;        /* a layer, or n_layer: HIDDEN and HEAD */
    kt__lora_site site;
    int n_sites;
    kt__weight a, b;
    float scale; /* alpha / rank */
} kt__lora_part;

typedef struct kt__lora_pack {
    kt__lora lora;
    int n_matrices, rank_max;
    uint64_t bytes; /* of the matrices */
    /* The first layer whose keys or values differ; n_layer: none, what is kept of a prompt without
     * the adapter is right with it. */
    int first_kv_layer;
    kt__digest digest;
    void *memory;
    size_t memory_bytes;
} kt__lora_pack;

/* Rows and columns of a site's matrix in a block of the network. */
void kt__lora_shape(const kt__net *net, int block, kt__lora_site site, int *n_row, int *n_col);
/* Rows of B in its panels. */
int kt__lora_panel_rows(int n_row);
/* Whether adapters of one network can act on a row together; false: of which block they have too large a rank for one input,
 * and which. */
bool kt__lora_ranks_fit(const kt__lora_use *uses, int n, int *block, int *rank);
/* KT_E_FORMAT: a shape that is not the network's, a weight that is not finite, two parts for one
 * site; KT_E_LIMIT: too many ranks for one input. path: for messages. */
kt_status kt__lora_pack_make(const kt__net *net, const kt__lora_part *parts, size_t n,
                             const char *path, kt__lora_pack *out, kt_error *err) KT_CHECKED;
void kt__lora_pack_free(kt__lora_pack *pack); /* also of a zeroed one */

/* Adapters in GGUF files: general.type "adapter", adapter.type "lora", adapter.lora.alpha, and
 * tensors NAME.lora_a [rank][in], NAME.lora_b [out][rank] for tensors NAME of the model. One name is
 * ours: final_hidden.weight, what is added to the normed hidden state before the head.
 *
 * Owns: every rule of that form, with errors that name the tensor; the bytes are hostile. Reads the
 * file only; any thread. */

/* True in a file that a training of corrections alone wrote: it is for conversations in which one of them opens.
 * Other programs do not know the key and use such a file everywhere. */
#define KT__LORA_SCOPED "kentang.adapter.scoped"

/* Whether a file says that it is an adapter. */
bool kt__lora_file_is(const kt__gguf *gguf);
/* KT_E_UNSUPPORTED: another architecture's, another kind of adapter, a tensor that cannot be
 * adapted; else as kt__lora_pack_make. */
kt_status kt__lora_file_read(const kt__gguf *gguf, const kt__net *net, kt__lora_pack *out,
                             kt_error *err) KT_CHECKED;
/* The tensor that a site of a block has in files with this network's names ("blk.3.attn_q.weight"),
 * in name[64]; *n_sites: how many sites from this one on lie in it (0: it lies in an earlier
 * one's). */
void kt__lora_site_tensor(const kt__net *net, int block, kt__lora_site site, char name[64],
                          int *n_sites);

#endif
