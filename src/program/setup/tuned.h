/* What `kentang tune` found, kept from one run of the program to the next.
 *
 * Owns: the files $XDG_CONFIG_HOME/kentang/tuned/FINGERPRINT.conf (or under ~/.config), their
 * reading and writing. A model is known by its geometry and types, not by its bytes: they alone
 * decide speed, so that fine-tunes of one model share a file. What was found on another machine or
 * for another kernel tier is not used. One thread. */
#ifndef KT_SETUP_TUNED_H
#define KT_SETUP_TUNED_H

#include <kentang.h>

typedef struct kt__tuned {
    int32_t n_threads, n_threads_batch, n_batch, n_ubatch; /* 0: not said */
    int32_t n_contexts; /* recommended for several streams; 0: not measured */
    char date[16];      /* "2025-01-31" */
} kt__tuned;

/* false: there is none for this model on this machine. */
bool kt__tuned_load(const kt_model_info *info, const char *isa, kt__tuned *out);
/* Fills in the date; path receives the file's name. */
/* Whether a finding could be written, before hours are spent on it; nothing stays there. */
kt_status KT_CHECKED kt__tuned_check(const kt_model_info *info, kt_error *err);
kt_status KT_CHECKED kt__tuned_save(const kt_model_info *info, const char *isa, kt__tuned *tuned,
                                    char *path, size_t path_size, kt_error *err);

#endif
