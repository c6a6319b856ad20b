/* --kv, -ctk, -ctv and --kv-tail: what keys and values are held as.
 *
 * Owns: their rows, for the option tables of commands that compute, and how they combine. Any
 * thread. */
#ifndef KT_SETUP_KV_OPTS_H
#define KT_SETUP_KV_OPTS_H

#include <kentang.h>
#include <stdio.h>
#include <string.h>

#include "term/options.h"

typedef struct kt__kv_opts {
    int both;         /* of KT__KV_MODES; -1: not said */
    int keys, values; /* kt_kv_type; likewise */
    int32_t tail;     /* likewise */
} kt__kv_opts;

#define KT__KV_MODES "f16|q8|q4|k8v4|chat-short|chat-long|document-qa|code|cpu"

static inline kt__kv_opts kt__kv_opts_default(void) {
    return (kt__kv_opts){-1, -1, -1, -1};
}

static inline void kt__kv_opts_set(const kt__kv_opts *o, kt_engine_params *params) {
    char name[16] = "";
    const char *at = KT__KV_MODES;
    for (int i = 0; i < o->both && *at; at++) i += *at == '|';
    if (o->both >= 0) snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "|"), at);
    if (o->both >= 0) (void)kt_kv_named(name, params);
    if (o->keys >= 0) params->kv_keys = (kt_kv_type)o->keys;
    if (o->values >= 0) params->kv_values = (kt_kv_type)o->values;
    if (o->tail >= 0) params->kv_tail = o->tail ? o->tail : -1;
}

/* Rows of a table whose base is a `type` with a kt__kv_opts in `member`: --kv, and the others. */
#define KT__KV_OPT_ROWS(type, member) KT__KV_MODE_ROW(type, member), KT__KV_TYPE_ROWS(type, member)
#define KT__KV_MODE_ROW(type, member)                                                           \
    {                                                                                           \
        .name = "kv", .kind = KT__OPT_ENUM, .at = offsetof(type, member.both),                  \
        .choices = KT__KV_MODES,                                                                \
        .help =                                                                                 \
            "keys and values of the text so far: as computed, in 8 bits (half the memory), in " \
            "4 (a quarter), or keys in 8 and values in 4, with slightly other answers; or a "   \
            "preset of type, tail and context (default f16)"                                    \
    }
#define KT__KV_TYPE_ROWS(type, member)                                                         \
    {.name = "cache-type-k",                                                                   \
     .brief = "ctk",                                                                           \
     .kind = KT__OPT_ENUM,                                                                     \
     .at = offsetof(type, member.keys),                                                        \
     .choices = "f16|q8_0|q4_0",                                                               \
     .help = "keys alone (default: as --kv)"},                                                 \
        {.name = "cache-type-v",                                                               \
         .brief = "ctv",                                                                       \
         .kind = KT__OPT_ENUM,                                                                 \
         .at = offsetof(type, member.values),                                                  \
         .choices = "f16|q8_0|q4_0",                                                           \
         .help = "values alone (default: as --kv)"},                                           \
    {                                                                                          \
        .name = "kv-tail", .kind = KT__OPT_INT, .at = offsetof(type, member.tail),             \
        .max = KT_CTX_MAX, .arg = "N",                                                         \
        .help = "the last positions, at least so many, are read as f16 all the same (default " \
                "256 with 4 bits, else 0)"                                                     \
    }

#endif
