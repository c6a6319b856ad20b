/* Which recipe of a model suits this machine.
 *
 * Owns: sizes of the usual recipes, what fits the memory, what decoding can reach, and the choice
 * with its reasons. Reads the file's header only. One thread. */
#ifndef KT_LAB_ADVICE_H
#define KT_LAB_ADVICE_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
} kt__advice;

/* memory: bytes that may be used; read_bytes_per_s: what all threads read, 0: not measured. */
kt_status kt__advise(const char *model, uint64_t memory, double read_bytes_per_s, kt__advice *out,
                     kt_error *err) KT_CHECKED;
void kt__advice_print(const kt__advice *advice);

#endif
