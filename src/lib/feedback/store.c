#include "feedback/store.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/system.h"
#include "feedback/journal.h"
#include "feedback/store_state.h"

enum { MAX_ENTRIES = 10000, MAX_BYTES = 64 << 20, MAX_DIMS = 1 << 20 };

/* ---- opening ---- */

static kt_status fail_current(const kt__feedback *s, kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, s->dir, UINT64_MAX,
                       "the file CURRENT is damaged: remove it to serve the latest version");
}

/* "VERSION SERIAL open|frozen\n": what was served when the journal ended with that record. */
static kt_status read_current(kt__feedback *s, uint64_t *serial, kt_error *err) {
    char path[KT__FILES_PATH_MAX], word[8] = "";
    unsigned long long after = 0;
    unsigned version = 0;
    int n = 0;
    kt__buf text;
    kt__buf_init(&text, 256);
    *serial = 0;
    kt_status status = kt__files_path(path, s->dir, "CURRENT", err);
    if (status == KT_OK) status = kt__files_read(path, &text, err);
    if (status == KT_E_IO && (!err || err->offset == 0)) {
        status = KT_OK;
        goto out;
    }
    if (status != KT_OK) goto out;
    bool fits = text.data &&
                sscanf(text.data, "%10u %19llu %7s%n", &version, &after, word, &n) == 3 &&
                text.len == (size_t)n + 1 && text.data[n] == '\n' && version <= s->n_versions;
    s->frozen = fits && !strcmp(word, "frozen");
    if (!fits || (!s->frozen && strcmp(word, "open") != 0)) {
        status = fail_current(s, err);
        goto out;
    }
    s->current = version;
    *serial = after;
out:
    kt__buf_free(&text);
    return status;
}

static void follow_journal(kt__feedback *s, uint64_t serial) {
    for (size_t i = 0; i < s->n_entries; i++) {
        if (s->entries[i].id > serial && s->entries[i].head.version)
            s->current = s->entries[i].head.version;
    }
}

static bool is_published(const kt__feedback *s, const char *name) {
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    if (end == name || *end || number == 0 || number > s->n_versions) return false;
    return s->entries[s->versions[number - 1]].record == KT__RECORD_PUBLISHED;
}

static kt_status remove_file(const kt__feedback *s, const char *name, kt_error *err) {
    char path[KT__FILES_PATH_MAX];
    kt_status status = kt__files_path(path, s->dir, name, err);
    if (status != KT_OK || kt__file_remove(path) || errno == ENOENT) return status;
    return kt__fail_system(err, errno, path, "cannot remove");
}

/* What a crash left: an adapter that was not published yet, or one whose removal had begun. */
static kt_status sweep_versions(const kt__feedback *s, kt_error *err) {
    char dir[KT__FILES_PATH_MAX], path[KT__FILES_PATH_MAX];
    kt_status status = kt__files_path(dir, s->dir, "versions", err);
    kt__listing *d = status == KT_OK ? kt__listing_open(dir) : NULL;
    if (!d) return status;
    for (const char *e; status == KT_OK && (e = kt__listing_next(d)) != NULL;) {
        if (e[0] == '.' || is_published(s, e)) continue;
        status = kt__files_path(path, dir, e, err);
        if (status == KT_OK) status = kt__files_remove_tree(path, err);
    }
    kt__listing_close(d);
    return status;
}

static kt_status lock_folder(kt__feedback *s, kt_error *err) {
    char path[KT__FILES_PATH_MAX];
    kt_status status = kt__files_path(path, s->dir, "LOCK", err);
    if (status != KT_OK) return status;
    s->lock_fd = kt__fd_open(path,
                             KT__OPEN_BOTH | KT__OPEN_CREATE | KT__OPEN_NO_LINK | KT__OPEN_PRIVATE);
    if (s->lock_fd < 0) return kt__fail_system(err, errno, path, "cannot open");
    if (kt__fd_lock(s->lock_fd, false)) return KT_OK;
    return kt__fail_at(err, KT_E_BUSY, s->dir, UINT64_MAX,
                       "another process learns there: stop it, or ask it");
}

static void bind_to(const kt__feedback_params *p, uint8_t out[KT__JOURNAL_BINDING]) {
    memset(out, 0, KT__JOURNAL_BINDING);
    memcpy(out, p->base, sizeof p->base);
    kt__le_put(out + 32, p->d_model, 4);
    kt__le_put(out + 36, p->n_vocab, 4);
}

static kt_status open_files(kt__feedback *s, kt_error *err) {
    char path[KT__FILES_PATH_MAX];
    uint8_t binding[KT__JOURNAL_BINDING];
    uint64_t serial;
    bool writes = !s->params.read_only;
    if (writes) KT__STEP(kt__files_make_dir(s->dir, err));
    if (writes) KT__STEP(lock_folder(s, err));
    KT__STEP(kt__files_path(path, s->dir, "journal", err));
    bind_to(&s->params, binding);
    s->tail.acknowledged = kt__feedback_audited(s->dir);
    KT__STEP(kt__journal_open(path, binding, !writes, kt__feedback_take_record, s, &s->journal,
                              &s->tail, err));
    KT__STEP(read_current(s, &serial, err));
    follow_journal(s, serial);
    if (writes) KT__STEP(remove_file(s, "journal.new", err));
    if (writes) KT__STEP(remove_file(s, "CURRENT.new", err));
    if (writes) KT__STEP(sweep_versions(s, err));
    if (writes) KT__STEP(kt__files_sync_dir(s->dir, err));
    uint64_t last = s->n_entries ? s->entries[s->n_entries - 1].id : 0;
    if (writes && (s->tail.n || s->tail.damaged))
        kt__feedback_audit(s->dir, s->tail.damaged ? "damaged" : "recovered", last, s->current);
    return KT_OK;
}

kt_status kt__feedback_open(const kt__feedback_params *params, kt__feedback **out, kt_error *err) {
    *out = NULL;
    if (params->d_model == 0 || params->d_model > MAX_DIMS || params->n_vocab == 0)
        return kt__fail(err, KT_E_ARG, "feedback needs the model's sizes");
    kt__feedback *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "a namespace", sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    s->lock_fd = -1;
    s->params = *params;
    if (!s->params.max_entries) s->params.max_entries = MAX_ENTRIES;
    if (!s->params.max_bytes) s->params.max_bytes = MAX_BYTES;
    s->dir = kt__strdup(params->dir);
    s->params.dir = s->dir;
    kt_status status = s->dir ? open_files(s, err)
                              : kt__fail_nomem(err, "a path", strlen(params->dir));
    if (status != KT_OK) {
        kt__feedback_close(s);
        return status;
    }
    *out = s;
    return KT_OK;
}

void kt__feedback_close(kt__feedback *s) {
    if (!s) return;
    kt__journal_close(s->journal);
    if (s->lock_fd >= 0) kt__fd_close(s->lock_fd);
    kt__free(s->entries);
    kt__free(s->versions);
    kt__free(s->dir);
    pthread_mutex_destroy(&s->lock);
    kt__free(s);
}

/* ---- questions ---- */

/* Those that make up a version, the latest first: version = entry's parent, and so on. */
static const kt__feedback_entry *entry_of(const kt__feedback *s, uint32_t version) {
    return version ? &s->entries[s->versions[version - 1]] : NULL;
}

static uint32_t adapter_of(const kt__feedback *s, uint32_t version) {
    const kt__feedback_entry *e = entry_of(s, version);
    while (e && e->record != KT__RECORD_PUBLISHED) e = entry_of(s, e->head.parent);
    return e ? e->head.version : 0;
}

uint32_t kt__feedback_adapter(kt__feedback *s, uint32_t version, uint64_t *id) {
    pthread_mutex_lock(&s->lock);
    uint32_t number = version <= s->n_versions ? adapter_of(s, version) : 0;
    if (id) *id = number ? entry_of(s, number)->id : 0;
    pthread_mutex_unlock(&s->lock);
    return number;
}

static void count_entries(const kt__feedback *s, kt__feedback_info *out) {
    for (size_t i = 0; i < s->n_entries; i++) {
        const kt__feedback_entry *e = &s->entries[i];
        out->n_deleted += e->record == KT__RECORD_DELETED;
        if (e->record != KT__RECORD_ITEM) continue;
        out->n_entries++;
        out->n_scores += e->kind == KT__FEEDBACK_SCORE;
        out->n_corrections += e->kind == KT__FEEDBACK_CORRECTION;
        out->n_pairs += e->kind == KT__FEEDBACK_PAIR;
    }
}

void kt__feedback_get_info(kt__feedback *s, kt__feedback_info *out) {
    pthread_mutex_lock(&s->lock);
    *out = (kt__feedback_info){.version = s->current,
                               .last = (uint32_t)s->n_versions,
                               .adapter = adapter_of(s, s->current),
                               .bytes = kt__feedback_bytes(s),
                               .frozen = s->frozen,
                               .n_cut = s->tail.n,
                               .cut_at = s->tail.at,
                               .damaged = s->tail.damaged};
    count_entries(s, out);
    if (out->adapter) out->quality = entry_of(s, out->adapter)->published.quality;
    if (out->adapter) out->adapter_id = entry_of(s, out->adapter)->id;
    if (s->n_entries) out->last_id = s->entries[s->n_entries - 1].id;
    for (const kt__feedback_entry *e = entry_of(s, s->current); e; e = entry_of(s, e->head.parent))
        out->n_acting += e->record == KT__RECORD_ITEM;
    pthread_mutex_unlock(&s->lock);
}

kt_status kt__feedback_get(kt__feedback *s, uint64_t id, kt__feedback_item *out, kt__buf *buf,
                           kt_error *err) {
    kt_status status = KT_OK;
    pthread_mutex_lock(&s->lock);
    const kt__feedback_entry *e = kt__feedback_find(s, id);
    if (!e) {
        status = kt__fail_at(err, KT_E_ARG, "id", UINT64_MAX, "there is no feedback %" PRIu64, id);
    } else {
        status = kt__journal_read(s->journal, e->at, e->n_body, buf, err);
    }
    if (status == KT_OK && !kt__record_get_item((const uint8_t *)buf->data, buf->len,
                                                s->params.d_model, s->params.n_vocab, out))
        status = kt__fail(err, KT_E_FORMAT, "the feedback journal is damaged");
    if (status == KT_OK) out->id = id;
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void add_amount(kt__feedback_amount *sum, const kt__feedback_entry *e) {
    if (e->record != KT__RECORD_ITEM) return;
    sum->n++;
    sum->said += e->kind == KT__FEEDBACK_SCORE ? fabs((double)e->score) : 1.0;
}

kt__feedback_amount kt__feedback_amount_after(kt__feedback *s, uint64_t id) {
    kt__feedback_amount sum = {0};
    pthread_mutex_lock(&s->lock);
    for (const kt__feedback_entry *e = entry_of(s, s->current); e; e = entry_of(s, e->head.parent))
        if (e->id > id) add_amount(&sum, e);
    for (size_t i = s->n_entries; i > 0 && s->entries[i - 1].id > id; i--)
        if (!s->entries[i - 1].head.version) add_amount(&sum, &s->entries[i - 1]);
    pthread_mutex_unlock(&s->lock);
    return sum;
}

bool kt__feedback_has(kt__feedback *s, uint64_t id) {
    pthread_mutex_lock(&s->lock);
    bool has = kt__feedback_find(s, id) != NULL;
    pthread_mutex_unlock(&s->lock);
    return has;
}

kt_status kt__feedback_list(kt__feedback *s, uint64_t **ids, size_t *n, kt_error *err) {
    kt_status status = KT_OK;
    *n = 0;
    pthread_mutex_lock(&s->lock);
    *ids = kt__calloc(s->n_entries + 1, sizeof **ids);
    if (!*ids) status = kt__fail_nomem(err, "the list of feedbacks", s->n_entries);
    for (size_t i = 0; status == KT_OK && i < s->n_entries; i++) {
        if (s->entries[i].record == KT__RECORD_ITEM) (*ids)[(*n)++] = s->entries[i].id;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* The text of a correction is in the journal alone: two of them are never taken for the same. */
static bool says_same(const kt__feedback_entry *e, const kt__feedback_item *next) {
    return e->kind == KT__FEEDBACK_SCORE && next->kind == KT__FEEDBACK_SCORE &&
           e->score == next->score;
}

kt_status kt__feedback_replaced(kt__feedback *s, const kt__feedback_item *next, float least,
                                uint64_t **ids, size_t *n, bool *same, kt_error *err) {
    kt_status status = KT_OK;
    uint64_t about = kt__feedback_about_hash(next->about);
    bool low = next->kind == KT__FEEDBACK_SCORE && next->score < least;
    *n = 0;
    *same = false;
    pthread_mutex_lock(&s->lock);
    *ids = kt__calloc(s->n_entries + 1, sizeof **ids);
    if (!*ids) status = kt__fail_nomem(err, "the list of feedbacks", s->n_entries);
    for (size_t i = 0; status == KT_OK && about && i < s->n_entries; i++) {
        const kt__feedback_entry *e = &s->entries[i];
        if (e->record != KT__RECORD_ITEM || e->about != about) continue;
        *same = says_same(e, next);
        if (!low || e->kind == KT__FEEDBACK_SCORE) (*ids)[(*n)++] = e->id;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static kt_status check_version(const kt__feedback *s, uint32_t version, kt_error *err) {
    if (version <= s->n_versions) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, "version", UINT64_MAX,
                       "there is no version %" PRIu32 ", the last one is %zu", version,
                       s->n_versions);
}

/* With the lock. */
static kt_status list_chain(const kt__feedback *s, uint32_t version, uint64_t **ids, size_t *n,
                            kt_error *err) {
    kt_status status = check_version(s, version, err);
    if (status != KT_OK) return status;
    for (const kt__feedback_entry *e = entry_of(s, version); e; e = entry_of(s, e->head.parent))
        *n += e->record == KT__RECORD_ITEM;
    *ids = kt__calloc(*n + 1, sizeof **ids);
    if (!*ids) return kt__fail_nomem(err, "a version's feedbacks", *n);
    size_t at = *n;
    for (const kt__feedback_entry *e = entry_of(s, version); e; e = entry_of(s, e->head.parent)) {
        if (e->record == KT__RECORD_ITEM) (*ids)[--at] = e->id;
    }
    return KT_OK;
}

kt_status kt__feedback_chain(kt__feedback *s, uint32_t version, uint64_t **ids, size_t *n,
                             kt_error *err) {
    *ids = NULL;
    *n = 0;
    pthread_mutex_lock(&s->lock);
    kt_status status = list_chain(s, version, ids, n, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

kt_status kt__feedback_versions(kt__feedback *s, kt__feedback_version **versions, size_t *n,
                                kt_error *err) {
    kt_status status = KT_OK;
    pthread_mutex_lock(&s->lock);
    *n = s->n_versions;
    *versions = kt__calloc(*n + 1, sizeof **versions);
    if (!*versions) status = kt__fail_nomem(err, "the list of versions", *n);
    for (size_t i = 0; status == KT_OK && i < *n; i++) {
        const kt__feedback_entry *e = &s->entries[s->versions[i]];
        bool item = e->record == KT__RECORD_ITEM || e->record == KT__RECORD_DELETED;
        (*versions)[i] = (kt__feedback_version){.number = e->head.version,
                                                .parent = e->head.parent,
                                                .feedback = item ? e->id : 0,
                                                .time_us = e->head.time_us,
                                                .quality = e->published.quality,
                                                .withdrawn = e->record == KT__RECORD_WITHDRAWN ||
                                                             e->record == KT__RECORD_DELETED};
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

kt_status kt__feedback_adapter_path(kt__feedback *s, uint32_t number, kt__version_file file,
                                    char *path, size_t size, kt_error *err) {
    static const char *const names[] = {[KT__VERSION_ADAPTER] = "adapter.gguf",
                                        [KT__VERSION_REPORT] = "report.json",
                                        [KT__VERSION_KEYS] = "keys"};
    pthread_mutex_lock(&s->lock);
    bool there = number && number <= s->n_versions &&
                 s->entries[s->versions[number - 1]].record == KT__RECORD_PUBLISHED;
    pthread_mutex_unlock(&s->lock);
    if (!there)
        return kt__fail_at(err, KT_E_ARG, "version", UINT64_MAX,
                           "version %" PRIu32 " is no published adapter", number);
    int n = snprintf(path, size, "%s/versions/%" PRIu32 "/%s", s->dir, number, names[file]);
    if (n > 0 && (size_t)n < size) return KT_OK;
    return kt__fail(err, KT_E_LIMIT, "the adapter's path is too long");
}
