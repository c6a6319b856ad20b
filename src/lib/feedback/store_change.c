/* What changes a store (store.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "feedback/journal.h"
#include "feedback/store.h"
#include "feedback/store_state.h"

static kt_status check_open(const kt__feedback *s, bool takes_in, kt_error *err) {
    if (s->params.read_only)
        return kt__fail_at(err, KT_E_STATE, s->dir, UINT64_MAX, "it was opened for reading");
    if (takes_in && s->frozen)
        return kt__fail_at(err, KT_E_STATE, "namespace", UINT64_MAX,
                           "the namespace is frozen: it takes no feedback");
    return KT_OK;
}

static kt_status check_bytes(const kt__feedback *s, uint64_t more, kt_error *err) {
    uint64_t bytes = kt__feedback_bytes(s);
    if (more <= s->params.max_bytes && bytes <= s->params.max_bytes - more) return KT_OK;
    return kt__fail_at(err, KT_E_LIMIT, "namespace", UINT64_MAX,
                       "the namespace holds %" PRIu64 " bytes, and %" PRIu64
                       " more would exceed its quota of %" PRIu64
                       ": delete feedback, or raise learning.max_bytes",
                       bytes, more, s->params.max_bytes);
}

static kt_status check_quota(const kt__feedback *s, uint64_t more, kt_error *err) {
    uint64_t n = kt__feedback_n_items(s);
    if (n < s->params.max_entries) return check_bytes(s, more, err);
    return kt__fail_at(err, KT_E_LIMIT, "namespace", UINT64_MAX,
                       "the namespace holds %" PRIu64
                       " feedbacks, its quota: delete some, or raise learning.max_entries",
                       n);
}

static uint64_t next_id(const kt__feedback *s) {
    return s->n_entries ? s->entries[s->n_entries - 1].id + 1 : 1;
}

uint64_t kt__feedback_next_id(kt__feedback *s) {
    pthread_mutex_lock(&s->lock);
    uint64_t id = next_id(s);
    pthread_mutex_unlock(&s->lock);
    return id;
}

/* With room in the lists made before, so that what is on disk is in memory, too. */
static kt_status append_record(kt__feedback *s, kt__feedback_record record, const kt__buf *body,
                               kt_error *err) {
    kt__journal_record r = {.serial = next_id(s),
                            .kind = (uint32_t)record,
                            .n_body = body->len,
                            .body = (const uint8_t *)body->data};
    size_t n_entries = s->n_entries, n_versions = s->n_versions;
    kt_status status = kt__feedback_take_record(s, &r, err);
    if (status != KT_OK) return status;
    kt__feedback_entry *e = &s->entries[n_entries];
    status = kt__journal_append(s->journal, r.serial, r.kind, r.body, r.n_body, &e->at, err);
    if (status != KT_OK) {
        s->n_entries = n_entries;
        s->n_versions = n_versions;
        return status;
    }
    if (e->head.version) s->current = e->head.version;
    return KT_OK;
}

/* With the lock. */
static kt_status add_item(kt__feedback *s, const kt__feedback_item *item, uint64_t *id,
                          uint32_t *version, kt_error *err) {
    kt_status status;
    kt__buf body;
    kt__record_head head = {.version = item->keys.n ? (uint32_t)s->n_versions + 1 : 0,
                            .parent = s->current,
                            .time_us = item->time_us ? item->time_us : kt__feedback_now_us()};
    kt__buf_init(&body, KT__JOURNAL_BODY_MAX);
    KT__TRY(check_open(s, true, err));
    kt__record_put_item(&body, &head, item, s->params.d_model);
    if (body.failed) {
        status = kt__fail(err, KT_E_LIMIT, "a feedback of more than %d bytes, or no memory for it",
                          KT__JOURNAL_BODY_MAX);
        goto out;
    }
    KT__TRY(check_quota(s, body.len + KT__JOURNAL_RECORD_BYTES, err));
    KT__TRY(append_record(s, KT__RECORD_ITEM, &body, err));
    *id = s->entries[s->n_entries - 1].id;
    *version = s->current;
    kt__feedback_audit(s->dir, "feedback", *id, *version);
out:
    kt__buf_free(&body);
    return status;
}

kt_status kt__feedback_add(kt__feedback *s, const kt__feedback_item *item, uint64_t *id,
                           uint32_t *version, kt_error *err) {
    pthread_mutex_lock(&s->lock);
    kt_status status = add_item(s, item, id, version, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- versions ---- */

static kt_status write_current(const kt__feedback *s, uint32_t version, bool frozen,
                               kt_error *err) {
    char text[64];
    int n = snprintf(text, sizeof text, "%" PRIu32 " %" PRIu64 " %s\n", version, next_id(s) - 1,
                     frozen ? "frozen" : "open");
    return kt__files_replace(s->dir, "CURRENT", text, (size_t)n, err);
}

kt_status kt__feedback_rollback(kt__feedback *s, uint32_t version, kt_error *err) {
    kt_status status;
    pthread_mutex_lock(&s->lock);
    KT__TRY(check_open(s, false, err));
    if (version > s->n_versions)
        KT__TRY(kt__fail_at(err, KT_E_ARG, "version", UINT64_MAX,
                            "there is no version %" PRIu32 ", the last one is %zu", version,
                            s->n_versions));
    KT__TRY(write_current(s, version, s->frozen, err));
    s->current = version;
    kt__feedback_audit(s->dir, "rollback", 0, version);
out:
    pthread_mutex_unlock(&s->lock);
    return status;
}

kt_status kt__feedback_freeze(kt__feedback *s, bool frozen, kt_error *err) {
    pthread_mutex_lock(&s->lock);
    kt_status status = check_open(s, false, err);
    if (status == KT_OK) status = write_current(s, s->current, frozen, err);
    if (status == KT_OK) {
        s->frozen = frozen;
        kt__feedback_audit(s->dir, frozen ? "frozen" : "thawed", 0, s->current);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* The folder versions/N with its files, on disk. */
static kt_status put_adapter(const kt__feedback *s, uint32_t number,
                             const kt__feedback_adapter_files *files, kt_error *err) {
    char versions[KT__FILES_PATH_MAX], name[16];
    char dir[KT__FILES_PATH_MAX], file[KT__FILES_PATH_MAX];
    snprintf(name, sizeof name, "%" PRIu32, number);
    KT__STEP(kt__files_path(versions, s->dir, "versions", err));
    KT__STEP(kt__files_path(dir, versions, name, err));
    KT__STEP(kt__files_remove_tree(dir, err));
    KT__STEP(kt__files_make_dir(dir, err));
    KT__STEP(kt__files_path(file, dir, "adapter.gguf", err));
    KT__STEP(kt__files_copy(files->adapter, file, err));
    KT__STEP(kt__files_replace(dir, "report.json", files->report, files->n_report, err));
    if (files->n_keys) KT__STEP(kt__files_replace(dir, "keys", files->keys, files->n_keys, err));
    KT__STEP(kt__files_sync_dir(versions, err));
    return kt__files_sync_dir(s->dir, err);
}

/* With the lock. The journal's record publishes: before it the folder is nobody's. */
static kt_status publish_adapter(kt__feedback *s, const kt__feedback_adapter_files *files,
                                 uint32_t *version, kt_error *err) {
    kt_status status;
    kt__file_info st;
    kt__buf body;
    kt__record_head head = {(uint32_t)s->n_versions + 1, s->current, kt__feedback_now_us()};
    kt__record_published published = {.quality = files->quality};
    kt__buf_init(&body, 256);
    KT__TRY(check_open(s, true, err));
    if (!kt__file_look(files->adapter, &st)) {
        status = kt__fail_system(err, errno, files->adapter, "cannot read");
        goto out;
    }
    published.bytes = st.bytes + files->n_report + files->n_keys;
    KT__TRY(check_bytes(s, published.bytes, err));
    KT__TRY(put_adapter(s, head.version, files, err));
    kt__record_put_published(&body, &head, &published);
    if (body.failed) {
        status = kt__fail_nomem(err, "a record", 0);
        goto out;
    }
    KT__TRY(append_record(s, KT__RECORD_PUBLISHED, &body, err));
    *version = s->current;
    kt__feedback_audit(s->dir, "published", 0, *version);
out:
    kt__buf_free(&body);
    return status;
}

kt_status kt__feedback_publish(kt__feedback *s, const kt__feedback_adapter_files *files,
                               uint32_t *version, kt_error *err) {
    pthread_mutex_lock(&s->lock);
    kt_status status = publish_adapter(s, files, version, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- deletion ---- */

typedef struct deletion {
    kt__feedback *store;
    uint64_t id;
} deletion;

static kt__journal_fate drop_entry(void *user, const kt__journal_record *r, uint32_t *kind,
                                   kt__buf *body) {
    const deletion *d = user;
    kt__record_head head;
    bool withdrawn = r->kind == KT__RECORD_PUBLISHED && r->serial > d->id;
    if (r->serial != d->id && !withdrawn) return KT__JOURNAL_KEEP;
    *kind = withdrawn ? KT__RECORD_WITHDRAWN : KT__RECORD_DELETED;
    if (kt__record_get_head(r->body, r->n_body, &head)) kt__record_put_head(body, &head);
    return KT__JOURNAL_CHANGE;
}

/* Same records in the same order: nothing is allocated. */
static kt_status move_entry(void *user, const kt__journal_record *r, kt_error *err) {
    kt__feedback *s = ((deletion *)user)->store;
    (void)err;
    for (size_t i = 0; i < s->n_entries; i++) {
        kt__feedback_entry *e = &s->entries[i];
        if (e->id != r->serial) continue;
        e->record = (kt__feedback_record)r->kind;
        e->at = r->at;
        e->n_body = r->n_body;
        if (e->record == KT__RECORD_DELETED) e->n_keys = 0;
        break;
    }
    return KT_OK;
}

static kt_status remove_withdrawn(const kt__feedback *s, kt_error *err) {
    char versions[KT__FILES_PATH_MAX], dir[KT__FILES_PATH_MAX], name[24];
    kt_status status = kt__files_path(versions, s->dir, "versions", err);
    for (size_t i = 0; status == KT_OK && i < s->n_versions; i++) {
        if (s->entries[s->versions[i]].record != KT__RECORD_WITHDRAWN) continue;
        snprintf(name, sizeof name, "%zu", i + 1);
        status = kt__files_path(dir, versions, name, err);
        if (status == KT_OK) status = kt__files_remove_tree(dir, err);
    }
    return status;
}

/* With the lock. */
static kt_status delete_item(kt__feedback *s, uint64_t id, kt_error *err) {
    deletion d = {s, id};
    kt_status status = check_open(s, false, err);
    if (status != KT_OK) return status;
    if (!kt__feedback_find(s, id))
        return kt__fail_at(err, KT_E_ARG, "id", UINT64_MAX, "there is no feedback %" PRIu64, id);
    status = kt__journal_rewrite(&s->journal, drop_entry, move_entry, &d, err);
    if (status == KT_OK) status = remove_withdrawn(s, err);
    if (status == KT_OK) kt__feedback_audit(s->dir, "deleted", id, s->current);
    return status;
}

kt_status kt__feedback_delete(kt__feedback *s, uint64_t id, kt_error *err) {
    pthread_mutex_lock(&s->lock);
    kt_status status = delete_item(s, id, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

kt_status kt__feedback_erase(kt__feedback *s, kt_error *err) {
    kt_status status = check_open(s, false, err);
    if (status == KT_OK) status = kt__files_remove_tree(s->dir, err);
    kt__feedback_close(s);
    return status;
}
