#include "convert/write.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"

/* How far the file is good; twice, so that a torn write leaves the other one. */
typedef struct part_record {
    uint64_t magic, good;
    kt__digest identity, check;
} part_record;

#define RECORD_MAGIC 0x74726170746b0001u
#define RECORD_SEED 0x7061727400000001u

static kt_status fail_part(const kt__part *part, kt_error *err, const char *what) {
    return kt__fail_system(err, errno, part->path, "cannot %s", what);
}

static kt__digest check_of(const part_record *record) {
    return kt__hash_bytes(RECORD_SEED, record, offsetof(part_record, check));
}

/* The file under our name is the one that we have open and locked? */
static bool still_ours(const kt__part *part) {
    kt__file_info open_one, named;
    return kt__fd_look(part->fd, &open_one) && kt__file_look(part->path, &named) &&
           open_one.device == named.device && open_one.number == named.number;
}

static kt_status open_locked(kt__part *part, kt_error *err) {
    for (int i = 0; i < 100; i++) {
        part->fd = kt__fd_open(part->path, KT__OPEN_BOTH | KT__OPEN_CREATE | KT__OPEN_NO_LINK);
        if (part->fd < 0) return fail_part(part, err, "create the output");
        if (!kt__fd_lock(part->fd, false))
            return kt__fail_at(err, KT_E_STATE, part->path, UINT64_MAX,
                               "another conversion to this file is running");
        if (still_ours(part)) return KT_OK;
        kt__fd_close(part->fd); /* it was renamed or removed in between */
        part->fd = -1;
    }
    return kt__fail_at(err, KT_E_IO, part->path, UINT64_MAX, "the file keeps being replaced");
}

/* What an earlier run has left; anything unexpected counts as nothing. */
static void read_records(kt__part *part) {
    kt__file_info st;
    part_record record;
    if (!kt__fd_look(part->fd, &st) || st.bytes < part->bytes) return;
    for (unsigned i = 0; i < 2; i++) {
        if (!kt__fd_read_at(part->fd, &record, sizeof record, part->bytes + i * sizeof record))
            continue;
        kt__digest check = check_of(&record);
        bool valid = record.magic == RECORD_MAGIC && record.good <= part->bytes &&
                     memcmp(&check, &record.check, sizeof check) == 0 &&
                     memcmp(&record.identity, &part->identity, sizeof check) == 0;
        if (!valid || record.good < part->good) continue;
        part->good = record.good;
        part->turn = i + 1;
    }
}

static kt_status begin_anew(kt__part *part, kt_error *err) {
    if (!kt__fd_cut(part->fd, 0)) return fail_part(part, err, "empty the output");
    if (!kt__fd_reserve(part->fd, part->bytes + 2 * sizeof(part_record)) &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
        kt_status status = kt__fail_system(err, errno, part->path, "no room for %.1f GiB",
                                           (double)part->bytes / (1 << 30));
        return status;
    }
    return KT_OK;
}

kt_status kt__part_open(const char *target, uint64_t bytes, kt__digest identity, kt__part *out,
                        kt_error *err) {
    size_t size = strlen(target) + 8;
    *out = (kt__part){.fd = -1, .bytes = bytes, .identity = identity};
    out->target = kt__strdup(target);
    out->path = kt__malloc(size);
    if (!out->path || !out->target) return kt__fail_nomem(err, "a path", size);
    snprintf(out->path, size, "%s.part", target);
    KT__STEP(open_locked(out, err));
    read_records(out);
    if (out->good > 0) return KT_OK;
    return begin_anew(out, err);
}

kt_status kt__part_write(const kt__part *part, const void *data, size_t n, uint64_t at,
                         kt_error *err) {
    return kt__fd_write_at(part->fd, data, n, at) ? KT_OK : fail_part(part, err, "write");
}

kt_status kt__part_checkpoint(kt__part *part, uint64_t good, kt_error *err) {
    part_record record = {.magic = RECORD_MAGIC, .good = good, .identity = part->identity};
    record.check = check_of(&record);
    if (!kt__fd_sync_data(part->fd)) return fail_part(part, err, "make durable");
    uint64_t at = part->bytes + (part->turn++ % 2) * sizeof record;
    if (!kt__fd_write_at(part->fd, &record, sizeof record, at))
        return fail_part(part, err, "record the progress");
    part->good = good;
    return KT_OK;
}

kt_status kt__part_finish(kt__part *part, kt_error *err) {
    if (!kt__fd_cut(part->fd, part->bytes) || !kt__fd_sync(part->fd))
        return fail_part(part, err, "complete");
    if (rename(part->path, part->target) != 0) return fail_part(part, err, "rename");
    kt__sync_folder_of(part->target);
    return KT_OK;
}

void kt__part_close(kt__part *part) {
    if (part->path && part->fd >= 0) kt__fd_close(part->fd);
    kt__free(part->path);
    kt__free(part->target);
    *part = (kt__part){.fd = -1};
}

void kt__part_remove(kt__part *part) {
    if (part->path && part->fd >= 0 && still_ours(part)) kt__file_remove(part->path);
    kt__part_close(part);
}
