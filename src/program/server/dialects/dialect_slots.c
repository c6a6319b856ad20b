/* llama-server's POST /slots/N?action=save, restore and erase: what a slot's tokens computed, to a session file and back. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/system.h"
#include "dialects/dialects.h"

typedef struct slot_asked {
    int id;
    const char *action;
} slot_asked;

kt_status kt__dialect_slots_begin(kt__job *job, const char *id, const char *action, kt_error *err) {
    slot_asked *a = kt__arena_calloc(&job->arena, 1, sizeof *a);
    if (!a) return kt__fail_nomem(err, "a request", sizeof *a);
    char *rest;
    long n = strtol(id, &rest, 10);
    a->id = rest > id && (!*rest || !strcmp(rest, "/")) && n >= 0 && n <= KT_PARALLEL_MAX ? (int)n
                                                                                          : -1;
    a->action = action ? action : "";
    job->extra = a;
    return KT_OK;
}

/* A name alone, which leads nowhere else: letters, digits, dots, hyphens and underscores, no dot at its beginning. */
static bool is_file_name(const char *name) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);
    return len && len <= 128 && name[0] != '.' && strspn(name, allowed) == len;
}

/* The path of the file that the body names; in the job's arena. */
static kt_status read_path(kt__job *job, const char **name, const char **path, kt_error *err) {
    const char *dir = job->shared->start->slots_dir;
    KT__STEP(kt__job_parse(job, err));
    const char *given = json_string_value(json_object_get(job->request.json, "filename"));
    if (!given || !is_file_name(given))
        return kt__fail_at(err, KT_E_ARG, "filename", UINT64_MAX,
                           "filename: expected a name of letters, digits, \".\", \"_\" and \"-\", "
                           "at most 128, that begins with no dot");
    size_t size = strlen(dir) + strlen(given) + 2;
    char *whole = kt__arena_calloc(&job->arena, size, 1);
    if (!whole) return kt__fail_nomem(err, "a path", size);
    snprintf(whole, size, "%s/%s", dir, given);
    *name = whole + strlen(dir) + 1;
    *path = whole;
    return KT_OK;
}

/* Lets seq have ids[n] and their keys and values, of what the engine keeps and what is computed; and the engine keep them. */
static kt_status compute_tokens(kt__job *job, kt_seq *seq, const int32_t *ids, size_t n,
                                kt_error *err) {
    kt_request_params r = kt_request_params_default();
    kt_request_report report;
    r.seq = seq;
    r.prompt.ids = ids;
    r.prompt.n_ids = n;
    r.gen.n_predict = 1; /* with none nothing is computed; it is drawn, and not computed itself */
    r.service.client = job->request.share;
    r.service.cache_scope = job->request.client;
    return kt_request_run(job->model.engine, &r, NULL, NULL, &report, err);
}

static kt_status open_seq(kt__job *job, kt_seq **seq, kt_error *err) {
    KT__STEP(kt_seq_open(job->model.engine, seq, err));
    return kt_seq_set_adapters(*seq, job->model.adapters, job->model.n_adapters, err);
}

static void write_done(kt__job *job, const char *name, const char *did, size_t n_tokens,
                       const char *moved, const char *path, int64_t begin_us, const char *ms) {
    const slot_asked *a = job->extra;
    kt__file_info st = {0};
    kt__buf *out = &job->answer.out;
    (void)kt__file_look(path, &st);
    (void)kt__buf_printf(out, "{\"id_slot\":%d", a->id);
    kt__json_member(out, "filename", name);
    (void)kt__buf_printf(out, ",\"%s\":%zu,\"%s\":%lld,\"timings\":{\"%s\":%.3f}}", did, n_tokens,
                         moved, (long long)st.bytes, ms, (double)(kt__now_us() - begin_us) / 1e3);
}

static kt_status save_slot(kt__job *job, const int32_t *ids, size_t n, kt_error *err) {
    const char *name, *path;
    int64_t begin_us = kt__now_us();
    kt_seq *seq = NULL;
    kt_status status;
    KT__TRY(read_path(job, &name, &path, err));
    if (!n)
        KT__TRY(kt__fail_at(err, KT_E_ARG, "id_slot", UINT64_MAX,
                            "id_slot: nothing was computed in this slot yet"));
    KT__TRY(open_seq(job, &seq, err));
    KT__TRY(compute_tokens(job, seq, ids, n, err));
    KT__TRY(kt_seq_save(seq, path, err));
    write_done(job, name, "n_saved", n, "n_written", path, begin_us, "save_ms");
out:
    kt_seq_close(seq);
    return status;
}

/* That there is no such file, or another model's, is the request's fault. */
static kt_status fail_file(kt_status status, const char *name, kt_error *err) {
    const kt_error why = *err;
    if (status == KT_E_NOMEM || status == KT_E_INTERNAL) return status;
    return kt__fail_at(err, KT_E_ARG, "filename", UINT64_MAX, "filename: %s: %.300s", name,
                       why.message);
}

/* The last token is computed again, so that the engine takes all before it among what it keeps. */
static kt_status restore_slot(kt__job *job, kt_error *err) {
    const slot_asked *a = job->extra;
    const char *name, *path;
    int64_t begin_us = kt__now_us();
    kt_seq *seq = NULL;
    int32_t *ids = NULL;
    kt_status status;
    KT__TRY(read_path(job, &name, &path, err));
    KT__TRY(open_seq(job, &seq, err));
    status = kt_seq_restore(seq, path, err);
    if (status != KT_OK) KT__TRY(fail_file(status, name, err));
    size_t n = kt_seq_len(seq);
    ids = kt__malloc((n + 1) * sizeof *ids);
    if (!ids) KT__TRY(kt__fail_nomem(err, "a slot", n));
    memcpy(ids, kt_seq_tokens(seq), n * sizeof *ids);
    if (n) KT__TRY(kt_seq_truncate(seq, n - 1, err));
    if (n) KT__TRY(compute_tokens(job, seq, ids, n, err));
    kt__llama_slots_put(job->shared->slots, job->request.client, a->id, ids, n);
    write_done(job, name, "n_restored", n, "n_read", path, begin_us, "restore_ms");
out:
    kt__free(ids);
    kt_seq_close(seq);
    return status;
}

static void erase_slot(kt__job *job, const int32_t *ids, size_t n) {
    const slot_asked *a = job->extra;
    (void)kt_engine_forget(job->model.engine, job->request.client, job->model.adapters,
                           job->model.n_adapters, ids, n);
    kt__llama_slots_erase(job->shared->slots, job->request.client, a->id);
    (void)kt__buf_printf(&job->answer.out, "{\"id_slot\":%d,\"n_erased\":%zu}", a->id, n);
}

static kt_status use_first(kt__job *job, kt_error *err) {
    const slot_asked *a = job->extra;
    if (!job->shared->slots) {
        job->answer.error_status = 501;
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "slots are not saved here: set slot_save_path (--slot-save-path)");
    }
    if (a->id < 0)
        return kt__fail_at(err, KT_E_ARG, "id_slot", UINT64_MAX, "id_slot: expected a number");
    /* a request without prompts: with the adapters that requests have which name none */
    job->request.wire = kt__calloc(1, sizeof *job->request.wire);
    if (!job->request.wire) return kt__fail_nomem(err, "a request", sizeof *job->request.wire);
    kt__arena_init(&job->request.wire->arena, 4096, KT__WIRE_MAX_BYTES);
    KT__STEP(kt__job_use_model(job, NULL, err));
    return kt__job_use_adapters(job, err);
}

static kt_status run_slots(kt__job *job, kt_error *err) {
    const slot_asked *a = job->extra;
    int32_t *ids = NULL;
    size_t n;
    kt_status status;
    KT__TRY(use_first(job, err));
    KT__TRY(kt__llama_slots_get(job->shared->slots, job->request.client, a->id, &ids, &n, err));
    if (!strcmp(a->action, "save")) {
        status = save_slot(job, ids, n, err);
    } else if (!strcmp(a->action, "restore")) {
        status = restore_slot(job, err);
    } else if (!strcmp(a->action, "erase")) {
        erase_slot(job, ids, n);
    } else {
        status = kt__fail_at(err, KT_E_ARG, "action", UINT64_MAX,
                             "action: expected save, restore or erase");
    }
out:
    kt__free(ids);
    return status;
}

const kt__dialect kt__dialect_slots = {
    .route = "/slots/*",
    .error_body = kt__openai_error_body,
    .run = run_slots,
    .waits = true,
    .error = kt__dialect_whole_error,
};
