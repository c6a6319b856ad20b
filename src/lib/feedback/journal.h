/* An append-only file of records.
 *
 * Owns: the file's form: a head that names what it belongs to, then records with a serial number, a
 * kind, a body and a checksum. An append is on disk when it returns. A record that was cut off at
 * the end, by a crash, is dropped when the file is opened again: it was acknowledged to nobody. Any
 * other end that is no record, or lacks an acknowledged one, is damage: its bytes are kept in
 * FILE.damaged before they are cut. A damaged record with good ones after it is an error. Knows
 * nothing of what records say. One thread at a time, one writer of a file. */
#ifndef KT_FEEDBACK_JOURNAL_H
#define KT_FEEDBACK_JOURNAL_H

#include <kentang.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    KT__JOURNAL_BINDING = 64,
    KT__JOURNAL_HEAD_BYTES = 128,
    KT__JOURNAL_RECORD_BYTES = 40, /* of a record, besides its body */
    KT__JOURNAL_BODY_MAX = 32 << 20
};

typedef struct kt__journal kt__journal;

typedef struct kt__journal_record {
    uint64_t serial; /* ascending in a file */
    uint32_t kind;
    size_t n_body;
    const uint8_t *body; /* while it is shown */
    uint64_t at;         /* of the body in the file */
} kt__journal_record;

/* What a file ends with that is no whole record. */
typedef struct kt__journal_tail {
    uint64_t acknowledged; /* in: a serial that is known to have been written; 0: none */
    uint64_t at, n;        /* bytes */
    bool damaged;          /* not what a crash leaves, or acknowledged records are missing */
} kt__journal_tail;

/* Sees each record in its order; an error ends the reading with it. */
typedef kt_status kt__journal_fn(void *user, const kt__journal_record *record, kt_error *err);

/* Opens or makes path and shows its records. binding: what the file belongs to; KT_E_STATE: the
 * file has another one. read_only: nothing is made, cut or appended. KT_E_FORMAT: it is no journal,
 * or damaged before its end; KT_E_IO. */
kt_status kt__journal_open(const char *path, const uint8_t binding[KT__JOURNAL_BINDING],
                           bool read_only, kt__journal_fn *fn, void *user, kt__journal **out,
                           kt__journal_tail *tail, kt_error *err) KT_CHECKED;
void kt__journal_close(kt__journal *journal);
uint64_t kt__journal_bytes(const kt__journal *journal);
/* On disk when it returns; *at: of the body. On an error the file is as before; where it cannot be
 * made so, every later call is refused with KT_E_STATE until it is opened again. */
kt_status kt__journal_append(kt__journal *journal, uint64_t serial, uint32_t kind, const void *body,
                             size_t n_body, uint64_t *at, kt_error *err) KT_CHECKED;
/* The body of a record that was shown or appended; checked again. out is filled anew. */
kt_status kt__journal_read(kt__journal *journal, uint64_t at, size_t n_body, kt__buf *out,
                           kt_error *err) KT_CHECKED;

/* What becomes of a record when the file is written anew. */
typedef enum kt__journal_fate { KT__JOURNAL_KEEP, KT__JOURNAL_CHANGE } kt__journal_fate;
/* CHANGE: the record becomes *kind with the bytes that are put into body. */
typedef kt__journal_fate kt__journal_change_fn(void *user, const kt__journal_record *record,
                                               uint32_t *kind, kt__buf *body);
/* Writes the file anew without the bodies that are changed, replaces it, then overwrites these in
 * the old file. *journal is another one afterwards, and records lie elsewhere: moved sees them
 * (NULL: nobody does). After an error either all is as it was, or *journal is the new one. */
kt_status kt__journal_rewrite(kt__journal **journal, kt__journal_change_fn *change,
                              kt__journal_fn *moved, void *user, kt_error *err) KT_CHECKED;

/* A namespace's log of what was done when.
 *
 * Owns: the lines of audit.jsonl, which hold numbers and our own words, nothing that a user wrote.
 * Any thread; one writer of a folder. */

int64_t kt__feedback_now_us(void); /* Unix time */
/* Appends a line; what cannot be written is not reported: the journal is what counts. id 0: of no
 * feedback. */
void kt__feedback_audit(const char *dir, const char *event, uint64_t id, uint32_t version);
/* The highest id that the last lines of the log name; 0: none. The journal has its record: a line is
 * written after it. */
uint64_t kt__feedback_audited(const char *dir);

#endif
