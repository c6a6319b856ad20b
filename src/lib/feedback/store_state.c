#include "feedback/store_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"

static kt_status fail_record(const kt__journal_record *r, kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, "journal", r->at,
                       "record %" PRIu64 " of the feedback journal does not fit those before it",
                       r->serial);
}

uint64_t kt__feedback_about_hash(const char *about) {
    return *about ? kt__hash_bytes(1, about, strlen(about)).w[0] | 1 : 0;
}

static bool read_entry(const kt__feedback *s, const kt__journal_record *r,
                       kt__feedback_entry *out) {
    kt__feedback_item item;
    *out = (kt__feedback_entry){
        .id = r->serial, .record = (kt__feedback_record)r->kind, .at = r->at, .n_body = r->n_body};
    if (!kt__record_get_head(r->body, r->n_body, &out->head)) return false;
    switch (out->record) {
    case KT__RECORD_ITEM:
        if (!kt__record_get_item(r->body, r->n_body, s->params.d_model, s->params.n_vocab, &item))
            return false;
        out->kind = item.kind;
        out->about = kt__feedback_about_hash(item.about);
        out->score = item.score;
        out->n_keys = (uint32_t)item.keys.n;
        return (out->head.version != 0) == (out->n_keys > 0);
    case KT__RECORD_PUBLISHED:
        return out->head.version != 0 &&
               kt__record_get_published(r->body, r->n_body, &out->published);
    case KT__RECORD_DELETED: return true;
    case KT__RECORD_WITHDRAWN: return out->head.version != 0;
    default: return false;
    }
}

kt_status kt__feedback_take_record(void *store, const kt__journal_record *r, kt_error *err) {
    kt__feedback *s = store;
    kt__feedback_entry entry;
    if (!read_entry(s, r, &entry)) return fail_record(r, err);
    const kt__record_head *h = &entry.head;
    if (h->version != 0 && (h->version != s->n_versions + 1 || h->parent > s->n_versions))
        return fail_record(r, err);
    if (!kt__vec_reserve(s->entries, s->cap_entries, s->n_entries + 1) ||
        !kt__vec_reserve(s->versions, s->cap_versions, s->n_versions + 1))
        return kt__fail_nomem(err, "the list of feedbacks", s->n_entries);
    if (h->version != 0) s->versions[s->n_versions++] = s->n_entries;
    s->entries[s->n_entries++] = entry;
    return KT_OK;
}

static int compare_entry(const void *key, const void *entry) {
    uint64_t id = *(const uint64_t *)key, other = ((const kt__feedback_entry *)entry)->id;
    return id < other ? -1 : id > other;
}

const kt__feedback_entry *kt__feedback_find(const kt__feedback *s, uint64_t id) {
    if (!s->n_entries) return NULL;
    const kt__feedback_entry *found = bsearch(&id, s->entries, s->n_entries, sizeof *s->entries,
                                              compare_entry);
    return found && found->record == KT__RECORD_ITEM ? found : NULL;
}

uint64_t kt__feedback_n_items(const kt__feedback *s) {
    uint64_t n = 0;
    for (size_t i = 0; i < s->n_entries; i++) n += s->entries[i].record == KT__RECORD_ITEM;
    return n;
}

uint64_t kt__feedback_bytes(const kt__feedback *s) {
    uint64_t n = kt__journal_bytes(s->journal);
    for (size_t i = 0; i < s->n_entries; i++) {
        if (s->entries[i].record == KT__RECORD_PUBLISHED) n += s->entries[i].published.bytes;
    }
    return n;
}
