/* Opening an adapter from what people have of it: a GGUF file, or a folder as PEFT saves it.
 *
 * Owns: which of the two a path is, and turning a folder into the bytes that libkentang opens. Any
 * thread. */
#ifndef KT_STORE_ADAPTER_FILE_H
#define KT_STORE_ADAPTER_FILE_H

#include <kentang.h>

/* As kt_adapter_open; path may also be a folder with adapter_config.json and
 * adapter_model.safetensors. */
kt_status KT_CHECKED kt__adapter_open_path(kt_model *model, const char *path, kt_adapter **out,
                                           kt_error *err);

#endif
