/* --kv, -ctk and -ctv: what keys and values are held as.
 *
 * Owns: their rows, for the option tables of commands that compute, and how they combine. Any
 * thread. */
#ifndef KT_CLI_KV_OPTS_H
#define KT_CLI_KV_OPTS_H

#include <kentang.h>

#include "cli/options.h"

typedef struct kt__kv_opts {
    int both, keys, values; /* kt_kv_type; -1: not said */
} kt__kv_opts;

static inline kt__kv_opts kt__kv_opts_default(void) {
    return (kt__kv_opts){-1, -1, -1};
}

static inline void kt__kv_opts_set(const kt__kv_opts *o, kt_engine_params *params) {
    int both = o->both < 0 ? KT_KV_F16 : o->both;
    params->kv_keys = (kt_kv_type)(o->keys < 0 ? both : o->keys);
    params->kv_values = (kt_kv_type)(o->values < 0 ? both : o->values);
}

/* Rows of a table whose base is a `type` with a kt__kv_opts in `member`. */
#define KT__KV_OPT_ROWS(type, member)                                                           \
    {.name = "kv",                                                                              \
     .kind = KT__OPT_ENUM,                                                                      \
     .at = offsetof(type, member.both),                                                         \
     .choices = "f16|q8",                                                                       \
     .help = "keys and values of the text so far: as computed, or in 8 bits: half the memory, " \
             "and slightly other answers (default f16)"},                                       \
        {.name = "cache-type-k",                                                                \
         .brief = "ctk",                                                                        \
         .kind = KT__OPT_ENUM,                                                                  \
         .at = offsetof(type, member.keys),                                                     \
         .choices = "f16|q8_0",                                                                 \
         .help = "keys alone (default: as --kv)"},                                              \
    {                                                                                           \
        .name = "cache-type-v", .brief = "ctv", .kind = KT__OPT_ENUM,                           \
        .at = offsetof(type, member.values), .choices = "f16|q8_0",                             \
        .help = "values alone (default: as --kv)"                                               \
    }

#endif
