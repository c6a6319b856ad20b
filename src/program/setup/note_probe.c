#include "setup/note_probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "setup/namespaces.h"

enum { LINE_BYTES = 256 };

static kt_status path_of(const kt__config *config, const char *name, const char *file, char *out,
                         size_t size, kt_error *err) {
    char folder[4096];
    KT__STEP(kt__namespace_model_folder(config, name, folder, sizeof folder, err));
    int n = snprintf(out, size, "%s/%s", folder, file);
    return n > 0 && (size_t)n < size
               ? KT_OK
               : kt__fail(err, KT_E_LIMIT, "the path of what was learned is too long");
}

static kt_status print_id(const kt_model *model, char out[2 * KT_FINGERPRINT_BYTES + 1],
                          kt_error *err) {
    uint8_t id[KT_FINGERPRINT_BYTES];
    KT__STEP(kt_model_fingerprint(model, id, err));
    for (size_t i = 0; i < sizeof id; i++) snprintf(out + 2 * i, 3, "%02x", id[i]);
    return KT_OK;
}

/* "FINGERPRINT yes: ..." */
kt__note_verdict kt__note_probe_read(const kt__config *config, const char *name,
                                     const kt_model *model) {
    char path[4200], id[2 * KT_FINGERPRINT_BYTES + 1], line[LINE_BYTES] = "";
    kt_error ignored;
    if (path_of(config, name, "notes.probe", path, sizeof path, &ignored) != KT_OK)
        return KT__NOTES_UNKNOWN;
    FILE *f = fopen(path, "re");
    if (!f) return KT__NOTES_UNKNOWN;
    bool read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    if (!read || print_id(model, id, &ignored) != KT_OK) return KT__NOTES_UNKNOWN;
    size_t n = strlen(id);
    if (strncmp(line, id, n) != 0) return KT__NOTES_UNKNOWN;
    if (!strncmp(line + n, " yes: ", 6)) return KT__NOTES_USED;
    return strncmp(line + n, " no: ", 5) ? KT__NOTES_UNKNOWN : KT__NOTES_NOT_USED;
}

static kt_status make_folder(char *path, kt_error *err) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        if (!made)
            return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot make: %s", strerror(errno));
        *slash = '/';
    }
    return KT_OK;
}

static kt_status fail_write(const char *path, kt_error *err) {
    return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "cannot write: %s", strerror(errno));
}

/* The whole line or the old file. */
kt_status kt__note_probe_write(const kt__config *config, const char *name, const kt_model *model,
                               const kt_probe_result *r, kt_error *err) {
    char path[4200], fresh[4200], id[2 * KT_FINGERPRINT_BYTES + 1];
    KT__STEP(path_of(config, name, "notes.probe", path, sizeof path, err));
    KT__STEP(path_of(config, name, "notes.probe.new", fresh, sizeof fresh, err));
    KT__STEP(print_id(model, id, err));
    KT__STEP(make_folder(fresh, err));
    FILE *f = fopen(fresh, "we");
    if (!f) return fail_write(fresh, err);
    bool good = fprintf(f,
                        "%s %s: %d of %d notes used, %d of %d taken for an answer to another "
                        "question\n",
                        id, r->uses ? "yes" : "no", (int)r->n_used, (int)r->n_asked,
                        (int)r->n_leaked, (int)r->n_others) > 0;
    good = fflush(f) == 0 && fsync(fileno(f)) == 0 && good;
    good = fclose(f) == 0 && good;
    if (good && rename(fresh, path) == 0) return KT_OK;
    kt_status status = fail_write(path, err);
    unlink(fresh);
    return status;
}
