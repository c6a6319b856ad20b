/* The report of `run --profile`.
 *
 * Owns: the table, its JSON form, and the sentence that names the bottleneck. One thread. */
#ifndef KT_CLI_PROFILE_REPORT_H
#define KT_CLI_PROFILE_REPORT_H

#include <jansson.h>
#include <kentang.h>

typedef struct kt__profile_report {
    kt_profile profile; /* of the engine; tokenize_ms completed by the command */
    kt_engine *engine;  /* which has times by layer and thread */
    double wall_ms;     /* the whole, seen from outside */
    uint64_t decode_bytes;
} kt__profile_report;

double kt__profile_sum_ms(const kt_profile *profile);
void kt__profile_print(const kt__profile_report *report);   /* on stderr */
json_t *kt__profile_json(const kt__profile_report *report); /* NULL: no memory */

#endif
