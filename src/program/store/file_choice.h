/* What of a hub's files a name asks for.
 *
 * Owns: which names of files may be written under a folder of ours, the sets that files of a split
 * model make, and the choice by file or tag. Pure; knows neither network nor disk. Any thread. */
#ifndef KT_STORE_FILE_CHOICE_H
#define KT_STORE_FILE_CHOICE_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

enum { KT__NAME_MAX = 512 };

/* A relative path that stays below its folder: printable ASCII, parts of at most 200 bytes, none
 * empty or with a dot in front, at most KT__NAME_MAX in all. */
bool kt__name_is_safe(const char *name);
bool kt__name_is_gguf(const char *name);
/* The part of a model that sees pictures: a GGUF file with mmproj in its name. */
bool kt__name_is_mmproj(const char *name);
/* The number of a split model's part, from 1, and of how many; false: it is none. */
bool kt__name_split(const char *name, int *part, int *n_parts, size_t *stem_len);
/* "q4_k_m" is in "Model-Q4_K_M.gguf", "q4_k" does not. */
bool kt__name_has_tag(const char *name, const char *tag);

typedef struct kt__wish {
    const char *file; /* a file's name, or NULL */
    const char *tag;  /* "q4_k_m"; or NULL */
    const char *what; /* for messages: the name that was typed */
} kt__wish;

/* chosen[n]: the GGUF files of one model with one of the mmproj files in their folder, if there are any (of Q8_0, F16 and
 * BF16 the first that there is, else any), or the files of a Hugging Face folder. Without file and
 * tag: the only model there is, or its Q4_K_M. KT_E_ARG names what there is. */
kt_status kt__choose_files(const char *const *names, size_t n, const kt__wish *wish, bool *chosen,
                           kt_error *err) KT_CHECKED;

#endif
