/* What a report says of the machine besides what it measured.
 *
 * Owns: how transparent huge pages are set, the system's name, and which revision of the sources the
 * program is made of. Any thread. */
#ifndef KT_MEASURE_MACHINE_H
#define KT_MEASURE_MACHINE_H

#include <stddef.h>

/* "always", "madvise" or "never"; "" where the system has no such pages. */
void kt__machine_thp(char *out, size_t size);
/* "Linux 6.1.0 x86_64" */
void kt__machine_system(char *out, size_t size);
/* "0b2d2740c1aa", "0b2d2740c1aa with changes", or "" where the sources were no checkout. */
const char *kt__machine_revision(void);

#endif
