/* Queries, keys and values, and attention.
 *
 * Owns: those two operations. For gpu/ alone. False where the processor has to do it; nothing is
 * recorded then. */
#ifndef KT_GPU_HEADS_H
#define KT_GPU_HEADS_H

#include "gpu/steps.h"

bool kt__gpu_qkv(kt__gpu_pass *pass, const kt__acts *acts, const kt__qkv *desc);
bool kt__gpu_attention(kt__gpu_pass *pass, const kt__attention *desc);

#endif
