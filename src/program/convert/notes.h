/* Notes to the user of a conversion: what is converted, but not wholly.
 *
 * Owns: one line's form. The receiver is the caller's; any thread. */
#ifndef KT_CONVERT_NOTES_H
#define KT_CONVERT_NOTES_H

/* Called with one line for the user: something is converted, but not all of it. */
typedef void kt__convert_note_fn(void *user, const char *line);
typedef struct kt__convert_notes {
    kt__convert_note_fn *fn; /* may be NULL */
    void *user;
} kt__convert_notes;
void kt__convert_note(const kt__convert_notes *notes, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
