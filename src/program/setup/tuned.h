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

/* How fast steps are, and with how many threads they are fastest: short measurements.
 *
 * Owns: nothing between calls. Memory bandwidth is often used up by fewer threads than there are
 * cores, and those beyond that only get in each other's way. Any thread; takes a few steps' time. */

/* Of n_most threads, three quarters and a half, the number with the fastest steps of one answer; the
 * larger where they differ by less than 3%. The model's context has a pool of n_most at least. */
kt_status KT_CHECKED kt__step_threads_find(kt_model *model, int n_most, int *out, kt_error *err);
/* Microseconds of a step of one answer with n_threads: the better of two, after one that warms up. */
kt_status KT_CHECKED kt__step_threads_time(kt_model *model, int n_threads, int64_t *us,
                                           kt_error *err);

#endif
