/* The output of a long conversion: a file that appears whole, and work that survives a kill.
 *
 * Owns: OUT.part next to the target, its lock, and the record of how far it is good. Bytes may be
 * written in any order up to a checkpoint; a checkpoint makes everything before a place durable
 * first and records it then, so that after a kill or a power cut the next run with the same
 * identity continues there. The record lies after the last byte and is cut off at the end. The
 * target's name is touched once, by rename. kt__part_write from any thread, the rest from one. */
#ifndef KT_CONVERT_PART_FILE_H
#define KT_CONVERT_PART_FILE_H

#include <kentang.h>
#include <stdint.h>

#include "base/hash.h"

typedef struct kt__part {
    char *path, *target;
    int fd;
    uint64_t bytes; /* of the finished file */
    uint64_t good;  /* what an earlier run has completed; 0: nothing */
    kt__digest identity;
    unsigned turn; /* of the two places for the record */
} kt__part;

/* identity: what the bytes will be, so that only the same conversion continues. Space for all bytes
 * is reserved at once, where the file system can: a full disk shows now. Freed with kt__part_close,
 * also after failure. */
kt_status kt__part_open(const char *target, uint64_t bytes, kt__digest identity, kt__part *out,
                        kt_error *err) KT_CHECKED;
kt_status kt__part_write(const kt__part *part, const void *data, size_t n, uint64_t at,
                         kt_error *err) KT_CHECKED;
/* All bytes before `good` are written. */
kt_status kt__part_checkpoint(kt__part *part, uint64_t good, kt_error *err) KT_CHECKED;
/* All bytes are written: the file gets its name. */
kt_status kt__part_finish(kt__part *part, kt_error *err) KT_CHECKED;
void kt__part_close(kt__part *part);  /* leaves OUT.part for the next run; also of a zeroed one */
void kt__part_remove(kt__part *part); /* and this removes it */

#endif
