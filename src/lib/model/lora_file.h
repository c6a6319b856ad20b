/* Adapters in GGUF files: general.type "adapter", adapter.type "lora", adapter.lora.alpha, and
 * tensors NAME.lora_a [rank][in], NAME.lora_b [out][rank] for tensors NAME of the model. One name is
 * ours: final_hidden.weight, what is added to the normed hidden state before the head.
 *
 * Owns: every rule of that form, with errors that name the tensor; the bytes are hostile. Reads the
 * file only; any thread. */
#ifndef KT_MODEL_LORA_FILE_H
#define KT_MODEL_LORA_FILE_H

#include "model/lora_pack.h"

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
