/* The settings of learning's loops, read.
 *
 * Owns: presets, and what the words of [learning] mean. No state; any thread. */
#ifndef KT_SETUP_LEARN_CONFIG_H
#define KT_SETUP_LEARN_CONFIG_H

#include "setup/config.h"

/* What the settings, else the preset, else the defaults say. */
typedef struct kt__learn_plan {
    float quality_threshold;
    int64_t interval_ms, min_samples;
    kt_consolidation consolidation;
} kt__learn_plan;

typedef enum kt__notes_setting {
    KT__NOTES_AUTO, /* as the probe of the model says */
    KT__NOTES_ON,
    KT__NOTES_OFF
} kt__notes_setting;

kt__notes_setting kt__learn_notes_of(const kt__config *config);
/* For which requests an adapter is used, where notes are given or not: a phrase, constant. */
const char *kt__learn_use_of(bool scoped, bool notes);
kt__learn_plan kt__learn_plan_of(const kt__config *config); /* one that was checked */
/* KT_E_ARG: a word of [learning] that is none. */
kt_status KT_CHECKED kt__learn_config_check(const kt__config *config, kt_error *err);
/* Whether trainings begin by themselves at this minute of the day. */
bool kt__learn_config_in_hours(const kt__config *config, int minute);

/* What `kentang learn probe` found: whether a model uses notes rightly.
 *
 * Owns: its file, DIR/MODEL/notes.probe, which holds for the model with that fingerprint alone, and what is known of the
 * embedded model without one. No state; any thread. */

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
