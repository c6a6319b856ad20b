/* Weights that another tool has quantised already: refused, by the name that users know.
 *
 * Owns: the signs by which AWQ, GPTQ, FP8, bitsandbytes and others are told, in config.json and in
 * the names and types of tensors. Any thread; no state. */
#ifndef KT_CONVERT_PREQUANTISED_H
#define KT_CONVERT_PREQUANTISED_H

#include <jansson.h>

#include "convert/folder.h"

/* config: config.json, or its part for the language model. */
kt_status kt__prequantised_config(const json_t *config, const char *path, kt_error *err) KT_CHECKED;
/* Whether it says that the weights are in MXFP4, and nothing else. */
bool kt__prequantised_mxfp4(const json_t *config);
/* Whether it says that they are BitNet's; that those are packed; and that they are times their
 * factors, not divided by them. */
bool kt__prequantised_bitnet(const json_t *config);
bool kt__prequantised_bitnet_packed(const json_t *config);
bool kt__prequantised_bitnet_multiplies(const json_t *config);
kt_status kt__prequantised_tensors(const kt__folder *folder, kt_error *err) KT_CHECKED;

#endif
