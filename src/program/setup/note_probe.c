#include "setup/note_probe.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "setup/namespaces.h"

enum { LINE_BYTES = 256 };

static const char file_name[] = "notes.probe";

static kt_status print_id(const kt_model *model, char out[2 * KT_FINGERPRINT_BYTES + 1],
                          kt_error *err) {
    uint8_t id[KT_FINGERPRINT_BYTES];
    KT__STEP(kt_model_fingerprint(model, id, err));
    for (size_t i = 0; i < sizeof id; i++) snprintf(out + 2 * i, 3, "%02x", id[i]);
    return KT_OK;
}

/* "FINGERPRINT yes: ..." */
static kt__note_verdict read_verdict(const char *line, const char *id) {
    size_t n = strlen(id);
    if (strncmp(line, id, n) != 0) return KT__NOTES_UNKNOWN;
    if (!strncmp(line + n, " yes: ", 6)) return KT__NOTES_USED;
    return strncmp(line + n, " no: ", 5) ? KT__NOTES_UNKNOWN : KT__NOTES_NOT_USED;
}

/* The embedded model is part of this program, so that its verdict is known (test_tutor_notes measures it). */
static kt__note_verdict known_verdict(const kt_model *model) {
    kt_model_info info;
    kt_model_get_info(model, &info);
    return strcmp(info.path, "(demo)") ? KT__NOTES_UNKNOWN : KT__NOTES_USED;
}

kt__note_verdict kt__note_probe_read(const kt__config *config, const char *name,
                                     const kt_model *model) {
    char folder[KT__FILES_PATH_MAX], path[KT__FILES_PATH_MAX], id[2 * KT_FINGERPRINT_BYTES + 1];
    kt__note_verdict verdict = KT__NOTES_UNKNOWN;
    kt_status status;
    kt_error err;
    kt__buf line;
    kt__buf_init(&line, LINE_BYTES);
    KT__TRY(kt__namespace_model_folder(config, name, folder, sizeof folder, &err));
    KT__TRY(kt__files_path(path, folder, file_name, &err));
    KT__TRY(kt__files_read(path, &line, &err));
    KT__TRY(print_id(model, id, &err));
    if (line.len) verdict = read_verdict(line.data, id);
out:
    kt__buf_free(&line);
    return status == KT_OK && verdict != KT__NOTES_UNKNOWN ? verdict : known_verdict(model);
}

kt_status kt__note_probe_write(const kt__config *config, const char *name, const kt_model *model,
                               const kt_probe_result *r, kt_error *err) {
    char folder[KT__FILES_PATH_MAX], id[2 * KT_FINGERPRINT_BYTES + 1], line[LINE_BYTES];
    KT__STEP(kt__namespace_model_folder(config, name, folder, sizeof folder, err));
    KT__STEP(print_id(model, id, err));
    int n = snprintf(line, sizeof line,
                     "%s %s: %d of %d notes used, %d of %d taken for an answer to another "
                     "question\n",
                     id, r->uses ? "yes" : "no", (int)r->n_used, (int)r->n_asked, (int)r->n_leaked,
                     (int)r->n_others);
    KT__STEP(kt__files_make_dir(folder, err));
    return kt__files_replace(folder, file_name, line, (size_t)n, err);
}
