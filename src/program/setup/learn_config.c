#include "setup/learn_config.h"

#include "base/error.h"
#include "base/files.h"
#include "setup/config.h"
#include "setup/config_set.h"

#include <stdio.h>
#include <string.h>

#include "base/system.h"

/* ---- whose feedback is whose ---- */

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

bool kt__namespace_is_name(const char *given) {
    char allowed[sizeof letters + 3];
    size_t len = strlen(given);
    snprintf(allowed, sizeof allowed, "%s.-_", letters);
    return len >= 1 && len <= 48 && strspn(given, allowed) == len;
}

static bool is_shared(const kt__config *config, const char *given) {
    for (size_t i = 0; i < config->learn_namespaces.n; i++) {
        const char *name = config->learn_namespaces.items[i];
        if (name && !strcmp(name, given)) return true;
    }
    return false;
}

kt_status kt__namespace_of(const kt__config *config, const char *client, const char *given,
                           char out[KT__NAMESPACE_BYTES], kt_error *err) {
    int n;
    if (given && !kt__namespace_is_name(given))
        return kt__fail_at(err, KT_E_ARG, "namespace", UINT64_MAX,
                           "namespace: expected 1 to 48 letters, digits, '.', '-' and '_'");
    if (!given)
        n = snprintf(out, KT__NAMESPACE_BYTES, "%s", client);
    else if (is_shared(config, given))
        n = snprintf(out, KT__NAMESPACE_BYTES, "@%s", given);
    else
        n = snprintf(out, KT__NAMESPACE_BYTES, "%s/%s", client, given);
    if (n > 0 && n < KT__NAMESPACE_BYTES) return KT_OK;
    return kt__fail_at(err, KT_E_LIMIT, "namespace", UINT64_MAX,
                       "namespace: with the client's name it is too long");
}

/* Letters, digits, '-' and '_' as they are, all else as %XX; false: too long. */
static bool escape_name(const char *name, char out[KT__NAMESPACE_FOLDER_BYTES]) {
    size_t n = 0;
    for (const char *at = name; *at; at++) {
        bool plain = strchr(letters, *at) || *at == '-' || *at == '_';
        if (n + 4 > KT__NAMESPACE_FOLDER_BYTES) return false;
        n += (size_t)snprintf(out + n, KT__NAMESPACE_FOLDER_BYTES - n, plain ? "%c" : "%%%02X",
                              (unsigned char)*at);
    }
    return n > 0;
}

static kt_status fail_long(kt_error *err) {
    return kt__fail_at(err, KT_E_LIMIT, "namespace", UINT64_MAX,
                       "the names of model and namespace are too long for a folder");
}

kt_status kt__namespace_model_folder(const kt__config *config, const char *model, char *out,
                                     size_t size, kt_error *err) {
    char of_model[KT__NAMESPACE_FOLDER_BYTES];
    if (!config->learn_dir)
        return kt__fail(err, KT_E_STATE, "learning is off: start the server with --learn");
    if (!escape_name(model, of_model)) return fail_long(err);
    int n = snprintf(out, size, "%s/%s", config->learn_dir, of_model);
    return n > 0 && (size_t)n < size ? KT_OK : fail_long(err);
}

kt_status kt__namespace_folder(const kt__config *config, const char *model, const char *name,
                               char *out, size_t size, kt_error *err) {
    char of_model[4096], of_name[KT__NAMESPACE_FOLDER_BYTES];
    kt_status status = kt__namespace_model_folder(config, model, of_model, sizeof of_model, err);
    if (status != KT_OK) return status;
    if (!escape_name(name, of_name)) return fail_long(err);
    int n = snprintf(out, size, "%s/%s", of_model, of_name);
    return n > 0 && (size_t)n < size ? KT_OK : fail_long(err);
}

/* Folders of the model whose names begin with prefix. */
static int64_t count_folders(const char *of_model, const char *prefix) {
    int64_t n = 0;
    kt__listing *d = kt__listing_open(of_model);
    for (const char *e; d && (e = kt__listing_next(d)) != NULL;)
        n += !strncmp(e, prefix, strlen(prefix));
    if (d) kt__listing_close(d);
    return n;
}

kt_status kt__namespace_check_new(const kt__config *config, const char *model, const char *name,
                                  kt_error *err) {
    char of_model[4096], of_client[KT__NAMESPACE_BYTES], prefix[KT__NAMESPACE_FOLDER_BYTES];
    const char *slash = strrchr(name, '/');
    if (!slash || name[0] == '@') return KT_OK; /* its only one, or the configuration's */
    KT__STEP(kt__namespace_model_folder(config, model, of_model, sizeof of_model, err));
    snprintf(of_client, sizeof of_client, "%.*s", (int)(slash + 1 - name), name);
    if (!escape_name(of_client, prefix)) return fail_long(err);
    if (count_folders(of_model, prefix) < config->learn_names) return KT_OK;
    return kt__fail_at(err, KT_E_LIMIT, "namespace", UINT64_MAX,
                       "namespace: this client has %lld names already, the most that "
                       "learning.max_names allows: use one of them",
                       (long long)config->learn_names);
}

/* ---- settings ---- */

enum { DAY = 24 * 60 };

/* 0, -1, NULL: it says nothing of it. */
typedef struct preset {
    const char *name;
    double threshold;
    int64_t interval_ms, min_samples;
    const char *consolidation;
    double instant_lr;
} preset;

static const preset presets[] = {
    {"high-variance", 0.7, -1, 0, NULL, 0.005}, {"stable", 0.3, -1, 0, NULL, 0.02},
    {"personal", 0.5, -1, 0, NULL, 0.01},       {"latency", 0, 200, 20, "Average", 0},
    {"quality", 0, 50, 5, "EwcMerge", 0},       {"memory", 0, 100, 50, "BestOnly", 0},
};
static const preset by_default = {"", 0.5, 100, 10, "EwcMerge", 0.01};

static const char *const consolidations[] = {[KT_CONSOLIDATE_EWC_MERGE] = "EwcMerge",
                                             [KT_CONSOLIDATE_AVERAGE] = "Average",
                                             [KT_CONSOLIDATE_BEST_ONLY] = "BestOnly"};
enum { N_CONSOLIDATION = sizeof consolidations / sizeof consolidations[0] };

static const char *const note_words[] = {[KT__NOTES_OUT] = "off",
                                         [KT__NOTES_IN] = "on",
                                         [KT__NOTES_RECITED] = "judged",
                                         [KT__NOTES_AUTO] = "auto"};
enum { N_NOTES = sizeof note_words / sizeof note_words[0] };

/* N_NOTES: it is none. */
static int read_notes(const char *word) {
    int i = 0;
    while (i < N_NOTES && strcmp(note_words[i], word) != 0) i++;
    return i;
}

kt__notes_mode kt__learn_notes_of(const kt__config *config) {
    int i = config->learn_notes ? read_notes(config->learn_notes) : KT__NOTES_AUTO;
    return i == N_NOTES ? KT__NOTES_AUTO : (kt__notes_mode)i;
}

const char *kt__learn_use_of(bool scoped, bool notes) {
    return !scoped ? "everywhere"
           : notes ? "where a correction opens and learning.notes is off: now notes say it"
                   : "where a correction opens";
}

static const preset *find_preset(const char *name) {
    for (size_t i = 0; name && i < sizeof presets / sizeof presets[0]; i++)
        if (!strcmp(presets[i].name, name)) return &presets[i];
    return name ? NULL : &by_default;
}

/* N_CONSOLIDATION: it is none. */
static int read_consolidation(const char *name) {
    int i = 0;
    while (i < N_CONSOLIDATION && strcmp(consolidations[i], name) != 0) i++;
    return i;
}

enum { INSTANT_SCOPED = 1, INSTANT_EVERYWHERE, N_INSTANT };
static const char *const instants[N_INSTANT] = {"off", "scoped", "everywhere"};

/* N_INSTANT: it is none. */
static int read_instant(const char *word) {
    int i = 0;
    while (word && i < N_INSTANT && strcmp(instants[i], word) != 0) i++;
    return i;
}

kt__learn_plan kt__learn_plan_of(const kt__config *c) {
    const preset *p = find_preset(c->learn_preset), *d = &by_default;
    if (!p) p = d;
    double threshold = p->threshold > 0 ? p->threshold : d->threshold;
    int64_t interval = p->interval_ms >= 0 ? p->interval_ms : d->interval_ms;
    int64_t samples = p->min_samples > 0 ? p->min_samples : d->min_samples;
    const char *how = c->learn_consolidation ? c->learn_consolidation
                      : p->consolidation     ? p->consolidation
                                             : d->consolidation;
    int instant = read_instant(c->learn_instant);
    return (kt__learn_plan){
        .quality_threshold = (float)(c->learn_threshold > 0 ? c->learn_threshold : threshold),
        .interval_ms = c->learn_interval_ms >= 0 ? c->learn_interval_ms : interval,
        .min_samples = c->learn_min_samples > 0 ? c->learn_min_samples : samples,
        .consolidation = (kt_consolidation)read_consolidation(how),
        .instant_lr = instant ? (float)(c->learn_instant_lr > 0 ? c->learn_instant_lr
                                        : p->instant_lr > 0     ? p->instant_lr
                                                                : d->instant_lr)
                              : 0.0f,
        .instant_everywhere = instant == INSTANT_EVERYWHERE};
}

kt_learner_params kt__learn_params_of(const kt__config *c, const char *folder) {
    const kt__learn_plan plan = kt__learn_plan_of(c);
    return (kt_learner_params){.dir = folder,
                               .max_entries = (uint64_t)c->learn_entries,
                               .max_bytes = c->learn_bytes,
                               .quality_threshold = plan.quality_threshold,
                               .recall = {.n_max = (int32_t)c->learn_recall},
                               .instant_lr = plan.instant_lr,
                               .instant_everywhere = plan.instant_everywhere,
                               .instant_share = (float)c->learn_instant_share,
                               .instant_ewc = (float)c->learn_instant_ewc};
}

/* "22:00-06:00" as minutes of the day. */
static bool read_hours(const char *text, int *from, int *to) {
    int h0, m0, h1, m1, end = 0;
    if (sscanf(text, "%2d:%2d-%2d:%2d%n", &h0, &m0, &h1, &m1, &end) != 4 || text[end]) return false;
    if (h0 < 0 || h0 > 24 || m0 < 0 || m0 > 59 || h1 < 0 || h1 > 24 || m1 < 0 || m1 > 59)
        return false;
    *from = h0 * 60 + m0;
    *to = h1 * 60 + m1;
    return *from <= DAY && *to <= DAY && *from != *to;
}

kt_status kt__learn_config_check(const kt__config *c, kt_error *err) {
    int from, to;
    if (!find_preset(c->learn_preset))
        return kt__config_expected(NULL, "learning.preset",
                                   "high-variance, stable, personal, latency, quality or memory",
                                   c->learn_preset, err);
    if (c->learn_consolidation && read_consolidation(c->learn_consolidation) == N_CONSOLIDATION)
        return kt__config_expected(NULL, "learning.consolidation", "EwcMerge, Average or BestOnly",
                                   c->learn_consolidation, err);
    if (c->learn_notes && read_notes(c->learn_notes) == N_NOTES)
        return kt__config_expected(NULL, "learning.notes", "auto, on, judged or off",
                                   c->learn_notes, err);
    if (read_instant(c->learn_instant) == N_INSTANT)
        return kt__config_expected(NULL, "learning.instant", "off, scoped or everywhere",
                                   c->learn_instant, err);
    if (c->learn_schedule && !read_hours(c->learn_schedule, &from, &to))
        return kt__config_expected(NULL, "learning.schedule", "two times of day, as 22:00-06:00",
                                   c->learn_schedule, err);
    return KT_OK;
}

bool kt__learn_config_in_hours(const kt__config *c, int minute) {
    int from, to;
    if (!c->learn_schedule || !read_hours(c->learn_schedule, &from, &to)) return true;
    return from < to ? minute >= from && minute < to : minute >= from || minute < to;
}

/* ---- note probe ---- */

enum { LINE_BYTES = 256 };

static const char file_name[] = "notes.probe";

static kt_status print_id(const kt_model *model, char out[2 * KT_FINGERPRINT_BYTES + 1],
                          kt_error *err) {
    uint8_t id[KT_FINGERPRINT_BYTES];
    KT__STEP(kt_model_fingerprint(model, id, err));
    for (size_t i = 0; i < sizeof id; i++) snprintf(out + 2 * i, 3, "%02x", id[i]);
    return KT_OK;
}

/* How a file's line says what was counted, after the fingerprint and one of the words below. */
#define COUNTS                                                                \
    "%d of %d notes used, %d of %d taken for an answer to another question, " \
    "%d rewordings and %d other questions judged the same"

static const char *const verdict_words[] = {[KT__NOTES_UNKNOWN] = "begun",
                                            [KT__NOTES_USED] = "yes",
                                            [KT__NOTES_JUDGED] = "judged",
                                            [KT__NOTES_NOT_USED] = "no"};

kt__notes_mode kt__notes_mode_of(kt__note_verdict verdict, bool presumed) {
    if (verdict == KT__NOTES_JUDGED) return KT__NOTES_RECITED;
    if (verdict == KT__NOTES_UNKNOWN) return presumed ? KT__NOTES_IN : KT__NOTES_OUT;
    return verdict == KT__NOTES_USED ? KT__NOTES_IN : KT__NOTES_OUT;
}

kt__note_verdict kt__note_verdict_of(const kt_probe_result *r) {
    if (!r->whole) return KT__NOTES_UNKNOWN;
    return r->judges ? KT__NOTES_JUDGED : r->uses ? KT__NOTES_USED : KT__NOTES_NOT_USED;
}

/* "FINGERPRINT yes: 19 of 20 notes used, ..." */
static kt__note_verdict read_verdict(const char *line, const char *id, kt_probe_result *so_far) {
    size_t n = strlen(id);
    int used, asked, leaked, others, same, wrong;
    char word[8];
    if (strncmp(line, id, n) != 0) return KT__NOTES_UNKNOWN;
    if (sscanf(line + n, " %7[a-z]: " COUNTS, word, &used, &asked, &leaked, &others, &same,
               &wrong) != 7)
        return KT__NOTES_UNKNOWN;
    bool sound = 0 <= used && used <= asked && 0 <= leaked && leaked <= others && 0 <= same &&
                 same <= asked && 0 <= wrong && wrong <= asked && asked <= 1000 && others == asked;
    if (!sound) return KT__NOTES_UNKNOWN;
    int i = KT__NOTES_NOT_USED;
    while (i > KT__NOTES_UNKNOWN && strcmp(word, verdict_words[i]) != 0) i--;
    kt__note_verdict verdict = (kt__note_verdict)i;
    *so_far = (kt_probe_result){.n_asked = asked,
                                .n_used = used,
                                .n_others = others,
                                .n_leaked = leaked,
                                .n_same = same,
                                .n_same_wrong = wrong,
                                .uses = verdict == KT__NOTES_USED,
                                .judges = verdict == KT__NOTES_JUDGED,
                                .whole = verdict != KT__NOTES_UNKNOWN};
    return verdict;
}

/* The embedded model is part of this program, so that its verdict is known (test_tutor_notes measures it). */
static kt__note_verdict known_verdict(const kt_model *model) {
    kt_model_info info;
    kt_model_get_info(model, &info);
    return strcmp(info.path, "(demo)") ? KT__NOTES_UNKNOWN : KT__NOTES_USED;
}

kt__note_verdict kt__note_probe_read(const kt__config *config, const char *name,
                                     const kt_model *model, kt_probe_result *so_far) {
    char folder[KT__FILES_PATH_MAX], path[KT__FILES_PATH_MAX], id[2 * KT_FINGERPRINT_BYTES + 1];
    kt__note_verdict verdict = KT__NOTES_UNKNOWN;
    kt_probe_result counted = {0};
    kt_status status;
    kt_error err;
    kt__buf line;
    kt__buf_init(&line, LINE_BYTES);
    KT__TRY(kt__namespace_model_folder(config, name, folder, sizeof folder, &err));
    KT__TRY(kt__files_path(path, folder, file_name, &err));
    KT__TRY(kt__files_read(path, &line, &err));
    KT__TRY(print_id(model, id, &err));
    if (line.len) verdict = read_verdict(line.data, id, &counted);
out:
    kt__buf_free(&line);
    if (so_far) *so_far = counted;
    return status == KT_OK && verdict != KT__NOTES_UNKNOWN ? verdict : known_verdict(model);
}

/* Measured: of models with a chat template, Qwen2.5-Coder of 1.5B uses notes (19 and 3 of 20), SmolLM2 of 135M and gemma-3
 * of 270M do not (docs/LEARNING.md). */
enum { PRESUMED_WEIGHTS = 1000000000 };

bool kt__note_presumed(const kt_model *model) {
    kt_model_info info;
    kt_model_get_info(model, &info);
    return info.n_params >= PRESUMED_WEIGHTS;
}

void kt__note_verdict_say(kt__note_verdict verdict, bool presumed, const kt_probe_result *so_far,
                          char *out, size_t size) {
    char found[160] = "";
    if (so_far->n_asked && verdict == KT__NOTES_JUDGED)
        snprintf(found, sizeof found,
                 ": it judged %d of %d rewordings rightly, and %d of %d other questions wrongly",
                 (int)so_far->n_same, (int)so_far->n_asked, (int)so_far->n_same_wrong,
                 (int)so_far->n_others);
    else if (so_far->n_asked)
        snprintf(found, sizeof found,
                 ": it used %d of %d made-up ones, and took %d of %d for an answer to another "
                 "question",
                 (int)so_far->n_used, (int)so_far->n_asked, (int)so_far->n_leaked,
                 (int)so_far->n_others);
    if (verdict == KT__NOTES_UNKNOWN)
        snprintf(
            out, size,
            "what it was taught %s its prompts as notes until it is measured how it uses them (%d of %d)",
            presumed ? "enters" : "stays out of", (int)so_far->n_asked, (int)KT_PROBE_NOTES);
    else if (verdict == KT__NOTES_JUDGED)
        snprintf(out, size,
                 "it says which question asks for what it was taught, and recites that%s", found);
    else
        snprintf(out, size, "what it was taught %s its prompts as notes%s",
                 verdict == KT__NOTES_USED ? "enters" : "stays out of", found);
}

kt_status kt__note_probe_write(const kt__config *config, const char *name, const kt_model *model,
                               const kt_probe_result *r, kt_error *err) {
    char folder[KT__FILES_PATH_MAX], id[2 * KT_FINGERPRINT_BYTES + 1], line[LINE_BYTES];
    KT__STEP(kt__namespace_model_folder(config, name, folder, sizeof folder, err));
    KT__STEP(print_id(model, id, err));
    int n = snprintf(line, sizeof line, "%s %s: " COUNTS "\n", id,
                     verdict_words[kt__note_verdict_of(r)], (int)r->n_used, (int)r->n_asked,
                     (int)r->n_leaked, (int)r->n_others, (int)r->n_same, (int)r->n_same_wrong);
    KT__STEP(kt__files_make_dir(folder, err));
    return kt__files_replace(folder, file_name, line, (size_t)n, err);
}
