/* The type of each matrix, chosen by what it costs the model's predictions.
 *
 * Owns: groups of matrices (a role in a third of the layers), the measurement of each (Kullback-
 * Leibler divergence on a text when the group alone is quantised), and the choice: where a byte takes
 * off most, until a size or a divergence is reached. Divergences of groups are taken to add up, and
 * to grow with the weighted error of their weights. One thread. */
#ifndef KT_MAKE_AUTO_RECIPE_H
#define KT_MAKE_AUTO_RECIPE_H

#include "convert/convert.h"

typedef struct kt__auto_opts {
    const char *model; /* GGUF */
    const char *text;  /* NULL: the program's own */
    bool parse_special;
    const kt__imatrix *importance; /* or NULL */
    uint64_t target_bytes;         /* of the file; 0: target_kl counts */
    double target_kl;
    int32_t n_threads;
    bool quiet;
} kt__auto_opts;

typedef struct kt__auto_recipe {
    kt__type_rule *rules; /* patterns are on the heap */
    size_t n_rules;
    const kt__recipe *recipe; /* what the file is called: that of most weights' type */
    double kl;                /* expected */
} kt__auto_recipe;

/* Freed with kt__auto_recipe_free, also after failure. KT_E_LIMIT: nothing is so small. */
kt_status kt__auto_recipe_make(const kt__auto_opts *opts, kt__auto_recipe *out,
                               kt_error *err) KT_CHECKED;
void kt__auto_recipe_free(kt__auto_recipe *recipe);

#endif
