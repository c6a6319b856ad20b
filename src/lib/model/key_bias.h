/* Layers whose keys have a bias far beyond the others'.
 *
 * Owns: the rule. Such keys (of Qwen2 and 2.5) leave quantised ones too few levels. Any
 * thread. */
#ifndef KT_MODEL_KEY_BIAS_H
#define KT_MODEL_KEY_BIAS_H

#include "kv/shape.h"
#include "model/net.h"

/* Sets the bits of layers whose key bias is longer than 8 times the median of all layers'. */
void kt__key_bias_outliers(const kt__net *net, uint64_t bits[KT__KV_LAYERS_MAX / 64]);

#endif
