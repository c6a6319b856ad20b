/* A namespace's log of what was done when.
 *
 * Owns: the lines of audit.jsonl, which hold numbers and our own words, nothing that a user wrote.
 * Any thread; one writer of a folder. */
#ifndef KT_FEEDBACK_AUDIT_H
#define KT_FEEDBACK_AUDIT_H

#include <stdint.h>

int64_t kt__feedback_now_us(void); /* Unix time */
/* Appends a line; what cannot be written is not reported: the journal is what counts. id 0: of no
 * feedback. */
void kt__feedback_audit(const char *dir, const char *event, uint64_t id, uint32_t version);
/* The highest id that the last lines of the log name; 0: none. The journal has its record: a line is
 * written after it. */
uint64_t kt__feedback_audited(const char *dir);

#endif
