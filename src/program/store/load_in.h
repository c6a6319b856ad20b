/* Models that are quantised when they are loaded.
 *
 * Owns: the folder of quantised copies, each named by what it was made of: the
 * sources' sizes, times and headers, the recipe and the program's version. A
 * copy is made once, by one process while others wait, appears whole, and is
 * mapped ever after; what was used longest ago goes when they grow beyond their
 * limit. Sources are never written. Any thread. */
#ifndef KT_STORE_LOAD_IN_H
#define KT_STORE_LOAD_IN_H

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

#endif
