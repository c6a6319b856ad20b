/* The report of --profile, of an answer or of a measurement.
 *
 * Owns: the table, its JSON form, and the sentence that names the bottleneck. One thread. */
#ifndef KT_TERM_PROFILE_REPORT_H
#define KT_TERM_PROFILE_REPORT_H

#include <jansson.h>
#include <kentang.h>

typedef struct kt__profile_report {
    char title[96];     /* "profile" and of what */
    kt_profile profile; /* of the engine */
    kt_engine *engine;  /* which has times by layer and thread */
    double wall_ms;     /* the whole, seen from outside */
    uint64_t decode_bytes;
} kt__profile_report;

/* What the engine has counted. wall_ms: below 0: the engine's total; decode_bytes: of weights, as
 * kt_model_info has it. */
void kt__profile_report_of(kt_engine *engine, const char *title, double wall_ms,
                           uint64_t decode_bytes, kt__profile_report *out);
double kt__profile_sum_ms(const kt_profile *profile);
void kt__profile_print(const kt__profile_report *report);   /* on stderr */
json_t *kt__profile_json(const kt__profile_report *report); /* NULL: no memory */

#endif
