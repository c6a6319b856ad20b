/* The scales of the first model's adapters as a client set them: POST /lora-adapters, llama-server's.
 *
 * Owns: what holds, in place of the setting `adapter`, for requests that name no adapter. Adapters are numbered
 * as the setting `adapters` has those of the first model. Any thread. */
#ifndef KT_SERVICES_LORA_SCALES_H
#define KT_SERVICES_LORA_SCALES_H

#include "base/buf.h"
#include "setup/adapters.h"

struct json_t;
typedef struct kt__lora_scales kt__lora_scales;

kt_status KT_CHECKED kt__lora_scales_create(kt__lora_scales **out, kt_error *err);
void kt__lora_scales_free(kt__lora_scales *scales);
/* The index-th adapter of the first model; NULL: there are fewer. */
const char *kt__lora_name(const kt__config *config, size_t index,
                          char name[KT__ADAPTER_NAME_MAX + 1]);
/* Reads [{"id": 0, "scale": 0.5}, ...]; an adapter that is not in it has the scale 0. list is what a
 * body has in `key`, or the body where that is "". Adapters of the scale 0 are left out of named. */
kt_status KT_CHECKED kt__lora_read(const kt__config *config, const struct json_t *list,
                                   const char *key, kt__adapter_named named[KT_ADAPTERS_MAX],
                                   char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1], size_t *n,
                                   kt_error *err);
void kt__lora_scales_set(kt__lora_scales *scales, const kt__adapter_named *named, size_t n);
/* What requests of the first model have that name none: as it was set, else as the setting says. */
size_t kt__lora_scales_get(kt__lora_scales *scales, const kt__config *config,
                           kt__adapter_named named[KT_ADAPTERS_MAX],
                           char names[KT_ADAPTERS_MAX][KT__ADAPTER_NAME_MAX + 1]);
/* [{"id": 0, "path": "NAME", "scale": 1}, ...]: no path of this machine leaves it. */
void kt__lora_scales_write(kt__lora_scales *scales, const kt__config *config, kt__buf *out);

#endif
