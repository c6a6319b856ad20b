/* Models that are quantised when they are loaded.
 *
 * Owns: the folder of quantised copies, each named by what it was made of: the
 * sources' sizes, times and headers, the recipe and the program's version. A
 * copy is made once, by one process while others wait, appears whole, and is
 * mapped ever after; what was used longest ago goes when they grow beyond their
 * limit. Sources are never written. Any thread. */
#ifndef KT_STORE_LOAD_IN_H
#define KT_STORE_LOAD_IN_H

#include <kentang.h>

#include "convert/write.h"

typedef struct kt__load_in {
    const char *source; /* a Hugging Face folder or a GGUF file */
    const char *form;   /* "4bit", "8bit", "as-is" or a recipe; NULL: 4bit of a
                         folder, a file as it is */
    const char *dir;    /* of the copies; NULL: kentang/load-in in the cache folder */
    uint64_t max_bytes; /* of the copies together; 0: 32 GiB */
    kt__convert_notes notes;
    kt__convert_progress_fn *progress; /* or NULL */
    void *user;
} kt__load_in;

typedef struct kt__load_in_report {
    char path[4096]; /* what to open */
    bool is_source;  /* nothing was to be done */
    bool was_there;
    const char *recipe;                 /* "iq4_xs" */
    uint64_t bytes_before, bytes_after; /* of the weights' files */
    int64_t ms;
} kt__load_in_report;

kt_status kt__load_in_prepare(const kt__load_in *load, kt__load_in_report *report,
                              kt_error *err) KT_CHECKED;

/* Opening an adapter from what people have of it: a GGUF file, or a folder as PEFT saves it.
 *
 * Owns: which of the two a path is, and turning a folder into the bytes that libkentang opens. Any
 * thread. */

/* As kt_adapter_open; path may also be a folder with adapter_config.json and
 * adapter_model.safetensors. */
kt_status KT_CHECKED kt__adapter_open_path(kt_model *model, const char *path, kt_adapter **out,
                                           kt_error *err);

#endif
