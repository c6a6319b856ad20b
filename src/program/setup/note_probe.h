/* What `kentang learn probe` found: whether a model uses notes rightly.
 *
 * Owns: its file, DIR/MODEL/notes.probe, which holds for the model with that fingerprint alone, and what is known of the
 * embedded model without one. No state; any thread. */
#ifndef KT_SETUP_NOTE_PROBE_H
#define KT_SETUP_NOTE_PROBE_H

#include "setup/config.h"

typedef enum kt__note_verdict {
    KT__NOTES_UNKNOWN, /* never measured, or of another model */
    KT__NOTES_USED,
    KT__NOTES_NOT_USED
} kt__note_verdict;

/* name: the model's, as it is served. */
kt__note_verdict kt__note_probe_read(const kt__config *config, const char *name,
                                     const kt_model *model);
kt_status KT_CHECKED kt__note_probe_write(const kt__config *config, const char *name,
                                          const kt_model *model, const kt_probe_result *result,
                                          kt_error *err);

#endif
