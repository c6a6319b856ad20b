/* Which recipe of a model suits this machine.
 *
 * Owns: sizes of the usual recipes, what fits the memory, what decoding can reach, and the choice
 * with its reasons, as `doctor -m` and `inspect` show them. Reads the file's header only. One
 * thread. */
#ifndef KT_MEASURE_ADVICE_H
#define KT_MEASURE_ADVICE_H

#include <jansson.h>
#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/host.h"

typedef struct kt__advice_row {
    const char *recipe;
    uint64_t bytes;
    double tok_s; /* that reading the weights allows; 0: not measured */
    bool fits;
} kt__advice_row;

enum { KT__ADVICE_ROWS = 8 };

typedef struct kt__advice {
    kt__advice_row rows[KT__ADVICE_ROWS]; /* the best quality first */
    size_t best;                          /* KT__ADVICE_ROWS: none fits */
    char why[200];
    bool from_original; /* the file is quantised already: a recipe wants the weights before that */
} kt__advice;

/* memory: bytes that may be used; read_bytes_per_s: what all threads read, 0: not measured. */
kt_status kt__advise(const char *model, uint64_t memory, double read_bytes_per_s, kt__advice *out,
                     kt_error *err) KT_CHECKED;
/* The same with what is free here, and a short measurement of reading: under half a second. */
kt_status kt__advise_here(const char *model, kt__advice *out, kt_error *err) KT_CHECKED;
/* Memory that is free, and bytes a second that all threads read of it (0: not measured), in under half a second. */
void kt__advice_machine(uint64_t *memory, double *read_bytes_per_s);
/* What is free, and of a cgroup's limit what is left. */
uint64_t kt__advice_memory(const kt__limits *limits);
void kt__advice_print(const kt__advice *advice);
json_t *kt__advice_json(const kt__advice *advice); /* the caller's; NULL: no memory */

#endif
