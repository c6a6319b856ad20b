/* What a namespace has been told, and the versions of what it learned from that.
 *
 * Owns: a folder with
 *   journal        every feedback and every published adapter, in their order (journal.h)
 *   CURRENT        the version that is served, as of a record of the journal; replaced atomically
 *   versions/N/    the adapter that was published as version N, its report, and the keys of what was taught before,
 *                  computed with it
 *   audit.jsonl    what was done when, a line each, without anything that a user wrote
 * A version is what follows from a chain of records: each names the version that it was built on. A
 * feedback that acts is a version of its own at once; rolling back serves an earlier one, and what
 * comes next is built on that. Quotas, deletion without a trace, and what is left after a crash:
 * everything that was acknowledged, and no half of anything.
 * Knows no model: tokens are numbers, keys of hidden states are bytes. Any thread; one process that
 * writes (KT_E_BUSY for a second one). */
#ifndef KT_FEEDBACK_STORE_H
#define KT_FEEDBACK_STORE_H

#include <kentang.h>

#include "base/buf.h"
#include "feedback/record.h"

typedef struct kt__feedback_info {
    uint64_t n_entries, n_scores, n_corrections, n_pairs, n_deleted;
    uint64_t bytes;
    uint32_t version; /* that is served; 0: the model alone */
    uint32_t last;    /* the highest that there is */
    uint32_t adapter; /* the published adapter in `version`, as its number; 0: none */
    double quality;   /* that adapter's quality_delta */
    uint64_t
        adapter_id;   /* the record that published it: what it was trained from came before; or 0 */
    uint64_t last_id; /* of all records; 0: none */
    uint32_t n_acting; /* feedbacks in `version` with keys */
    bool frozen;
    uint64_t n_cut;  /* bytes at the end that were no record */
    uint64_t cut_at; /* where they were in the journal */
    bool damaged;    /* they were more than a crash leaves, and are in journal.damaged */
} kt__feedback_info;

typedef struct kt__feedback_version {
    uint32_t number, parent;
    uint64_t feedback; /* that made it; 0: an adapter did */
    int64_t time_us;
    double quality; /* of an adapter */
    bool withdrawn; /* what it was made from was deleted */
} kt__feedback_version;

kt_status kt__feedback_open(const kt__feedback_params *params, kt__feedback **out,
                            kt_error *err) KT_CHECKED;
void kt__feedback_close(kt__feedback *store);
void kt__feedback_get_info(kt__feedback *store, kt__feedback_info *out);

/* The id that the next feedback gets, if nothing else is changed before. */
uint64_t kt__feedback_next_id(kt__feedback *store);
/* On disk when it returns. *version: the one that is served from now on (as before, where the item
 * has no keys). KT_E_LIMIT: a quota; KT_E_STATE: frozen; KT_E_IO: the disk is full, and nothing was
 * kept. */
kt_status kt__feedback_add(kt__feedback *store, const kt__feedback_item *item, uint64_t *id,
                           uint32_t *version, kt_error *err) KT_CHECKED;
/* What the item points to lies in buf. KT_E_ARG: there is no such feedback. */
kt_status kt__feedback_get(kt__feedback *store, uint64_t id, kt__feedback_item *out, kt__buf *buf,
                           kt_error *err) KT_CHECKED;
/* ids[*n] of those that there are, in their order; for kt__free. */
kt_status kt__feedback_list(kt__feedback *store, uint64_t **ids, size_t *n,
                            kt_error *err) KT_CHECKED;
/* ids[*n] of earlier feedbacks on the same answer, which next replaces, oldest first; for kt__free.
 * A low score (below `least`) does not replace a correction. *same: the last of them says what next
 * says. */
kt_status kt__feedback_replaced(kt__feedback *store, const kt__feedback_item *next, float least,
                                uint64_t **ids, size_t *n, bool *same, kt_error *err) KT_CHECKED;
/* Feedbacks in the version that is served, or without keys, after record `id`: their number, and what they say in all, where
 * a correction is 1 and a score its size. */
typedef struct kt__feedback_amount {
    uint64_t n;
    double said;
} kt__feedback_amount;
kt__feedback_amount kt__feedback_amount_after(kt__feedback *store, uint64_t id);
/* Whether there is such a feedback still. */
bool kt__feedback_has(kt__feedback *store, uint64_t id);
/* The feedbacks with keys in a version, the oldest first; for kt__free. KT_E_ARG: no such
 * version. */
kt_status kt__feedback_chain(kt__feedback *store, uint32_t version, uint64_t **ids, size_t *n,
                             kt_error *err) KT_CHECKED;
/* versions[*n] in their order; for kt__free. */
kt_status kt__feedback_versions(kt__feedback *store, kt__feedback_version **versions, size_t *n,
                                kt_error *err) KT_CHECKED;
/* The adapter that a version has, as the number under which it was published; 0: none. *id (NULL: not wanted): the
 * record that published it, or 0. */
uint32_t kt__feedback_adapter(kt__feedback *store, uint32_t version, uint64_t *id);
typedef enum kt__version_file {
    KT__VERSION_ADAPTER,
    KT__VERSION_REPORT,
    KT__VERSION_KEYS /* of an adapter that was published before there were such files, there is none */
} kt__version_file;
/* One of the files of a published adapter, into path[size]. */
kt_status kt__feedback_adapter_path(kt__feedback *store, uint32_t number, kt__version_file file,
                                    char *path, size_t size, kt_error *err) KT_CHECKED;

/* What is published: a trained adapter's file, and the bytes of the files next to it. */
typedef struct kt__feedback_adapter_files {
    const char *adapter; /* its path */
    const char *report;
    const void *keys;
    size_t n_report, n_keys; /* no keys: no such file */
    double quality;
} kt__feedback_adapter_files;
/* Copies them in, and serves the adapter as a new version on top of the one that is served. */
kt_status kt__feedback_publish(kt__feedback *store, const kt__feedback_adapter_files *files,
                               uint32_t *version, kt_error *err) KT_CHECKED;
/* Serves an earlier or later version; 0: the model alone. KT_E_ARG: there is no such one. */
kt_status kt__feedback_rollback(kt__feedback *store, uint32_t version, kt_error *err) KT_CHECKED;
/* While frozen nothing is taken in. */
kt_status kt__feedback_freeze(kt__feedback *store, bool frozen, kt_error *err) KT_CHECKED;
/* No byte of it stays in the folder: the journal is written anew, and adapters that were trained
 * with it are removed. KT_E_ARG: there is no such feedback. */
kt_status kt__feedback_delete(kt__feedback *store, uint64_t id, kt_error *err) KT_CHECKED;
/* All that a namespace ever had; it is closed, also on an error. */
kt_status kt__feedback_erase(kt__feedback *store, kt_error *err) KT_CHECKED;

#endif
