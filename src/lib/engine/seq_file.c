/* kt_seq_save and kt_seq_restore: a sequence to a file and back. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "context/ctx.h"
#include "context/kv_binding.h"
#include "context/model.h"
#include "kv/image.h"
#include "requests/inbox.h"
#include "requests/seq.h"
#include "requests/speculator.h"

_Static_assert((int)KT__KV_BINDING_BYTES == (int)KT__KV_IMAGE_BINDING, "binding");
_Static_assert((int)KT_FINGERPRINT_BYTES == (int)KT__KV_IMAGE_HASH, "hash");

/* A sequence as it was at one moment. A table of its own holds the pages while they are written, so
 * that the caller that appends to seq or to a copy of it writes elsewhere; batches may overwrite
 * logits. */
typedef struct snapshot {
    kt__kv_table table;
    float *logits; /* [n_vocab] or NULL */
} snapshot;

static kt_status snapshot_take(const kt_seq *seq, snapshot *out, kt_error *err) {
    kt_engine *engine = seq->engine;
    const float *logits = kt_seq_logits(seq);
    size_t bytes = kt__engine_n_vocab(engine) * sizeof *logits;
    *out = (snapshot){0};
    KT__STEP(kt__kv_table_init(&out->table, (int64_t)seq->n_pos, err));
    out->logits = logits ? kt__malloc(bytes) : NULL;
    if (logits && !out->logits) return kt__fail_nomem(err, "a session's logits", bytes);
    kt__ticket_lock(&engine->turn);
    kt__kv_table_share(engine->kv, &seq->state.table, (int64_t)seq->n_pos, &out->table);
    (void)kt__kv_table_hold_end(engine->kv, &out->table, (int64_t)seq->n_pos);
    kt__ticket_unlock(&engine->turn);
    if (logits) memcpy(out->logits, logits, bytes);
    return KT_OK;
}

static void release_pages(kt_engine *engine, kt__kv_table *held) {
    kt__ticket_lock(&engine->turn);
    kt__kv_table_free(engine->kv, held);
    kt__inbox_publish_pages(engine->inbox, kt__kv_n_used(engine->kv), kt__kv_n_kept(engine->kv));
    kt__ticket_unlock(&engine->turn);
}

static kt_status save_lent(const kt_seq *seq, const char *path, kt_error *err) {
    kt_engine *engine = seq->engine;
    kt__kv_image image = {.n_pos = (int64_t)seq->n_pos};
    snapshot now = {0};
    kt_status status;
    if (!seq->n_pos) return kt__fail(err, KT_E_ARG, "an empty sequence cannot be saved");
    KT__TRY(kt__engine_kv_binding(engine, seq->adapters, image.binding, err));
    kt__model_full_hash(engine->model, image.full_hash);
    KT__TRY(snapshot_take(seq, &now, err));
    if (now.logits) image.n_logits = (int64_t)kt__engine_n_vocab(engine);
    KT__TRY(kt__kv_image_save(path, &image, seq->state.tokens, now.logits, engine->kv, &now.table,
                              err));
out:
    release_pages(engine, &now.table);
    kt__free(now.logits);
    return status;
}

kt_status kt_seq_save(kt_seq *seq, const char *path, kt_error *err) {
    kt__error_clear(err);
    KT__STEP(kt__ctx_needs_whole(seq->engine->model->ctx, "session files", err));
    kt_status status = kt__seq_lend(seq, seq->engine, err);
    if (status != KT_OK) return status;
    status = save_lent(seq, path, err);
    kt__seq_unlend(seq);
    return status;
}

/* ---- restoring ---- */

static kt_status check_binding(const kt_seq *seq, const kt__kv_image *image, const char *path,
                               kt_error *err) {
    const kt_engine *engine = seq->engine;
    uint8_t ours[KT__KV_BINDING_BYTES];
    kt_status status = kt__engine_kv_binding(engine, seq->adapters, ours, err);
    if (status != KT_OK || !memcmp(ours, image->binding, sizeof ours)) return status;
    if (memcmp(ours, image->binding, KT_FINGERPRINT_BYTES) != 0) {
        return kt__fail_at(err, KT_E_STATE, path, UINT64_MAX,
                           "the session belongs to another model than %s",
                           engine->model->info.path);
    }
    if (memcmp(ours + KT_FINGERPRINT_BYTES, image->binding + KT_FINGERPRINT_BYTES, 4) != 0) {
        return kt__fail_at(err, KT_E_STATE, path, UINT64_MAX,
                           "the session was computed with another version of the arithmetic; this "
                           "is numerics %d",
                           KENTANG_NUMERICS);
    }
    return kt__fail_at(
        err, KT_E_STATE, path, UINT64_MAX,
        "the session was computed with other options (adapters, RoPE, exact, --kv-tail)");
}

/* Two models may agree in all that the fingerprint looks at. */
static kt_status check_full_hash(const kt_engine *engine, const kt__kv_image *image,
                                 const char *path, kt_error *err) {
    uint8_t ours[KT__KV_IMAGE_HASH];
    kt__model_full_hash(engine->model, ours);
    if (!kt__field_hashes_differ(ours, image->full_hash, sizeof ours)) return KT_OK;
    return kt__fail_at(err, KT_E_STATE, path, UINT64_MAX,
                       "the session belongs to another model than %s: their files differ, though "
                       "not in what the fingerprint looks at",
                       engine->model->info.path);
}

static kt_status check_fits(const kt_engine *engine, const kt__kv_image *image, const char *path,
                            kt_error *err) {
    if (image->n_pos > engine->params.n_ctx) {
        return kt__fail_at(err, KT_E_CONTEXT_FULL, path, UINT64_MAX,
                           "the session has %lld positions and the context %d: open the engine "
                           "with a larger n_ctx",
                           (long long)image->n_pos, engine->params.n_ctx);
    }
    if (image->n_logits && (uint64_t)image->n_logits != kt__engine_n_vocab(engine)) {
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "the session has %lld logits and the vocabulary %zu",
                           (long long)image->n_logits, kt__engine_n_vocab(engine));
    }
    return KT_OK;
}

/* What a file holds, before it becomes the sequence's. */
typedef struct restored {
    kt__kv_table table;
    int32_t *ids;  /* [n_ctx + 1] */
    float *logits; /* [n_vocab] or NULL */
} restored;

static kt_status load_image(kt_engine *engine, const kt__kv_image_file *file, const char *path,
                            restored *out, kt_error *err) {
    const kt__kv_image *image = kt__kv_image_info(file);
    kt_status status;
    KT__TRY(kt__kv_table_init(&out->table, engine->params.n_ctx, err));
    out->ids = kt__calloc((size_t)engine->params.n_ctx + 1, sizeof *out->ids);
    if (!out->ids) return kt__fail_nomem(err, "a session's tokens", 0);
    if (image->n_logits) {
        out->logits = kt__malloc(kt__engine_n_vocab(engine) * sizeof *out->logits);
        if (!out->logits) return kt__fail_nomem(err, "a session's logits", 0);
    }
    kt__ticket_lock(&engine->turn);
    status = kt__kv_table_grow_as(engine->kv, &out->table, 0, image->n_pos, KT__GROW_QUANTISED,
                                  err);
    kt__ticket_unlock(&engine->turn);
    if (status != KT_OK) return status;
    KT__TRY(kt__kv_image_load(file, out->ids, out->logits, engine->kv, &out->table, err));
    kt__ticket_lock(&engine->turn);
    kt__kv_image_drop_missing(file, engine->kv, &out->table);
    kt__ticket_unlock(&engine->turn);
    for (int64_t i = 0; i < image->n_pos; i++) {
        if (out->ids[i] >= 0 && (size_t)out->ids[i] < kt__engine_n_vocab(engine)) continue;
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "the session's token %lld is %d, which the vocabulary does not have",
                           (long long)i, out->ids[i]);
    }
out:
    return status;
}

static void swap_in(kt_seq *seq, restored *r, size_t n_pos) {
    kt__seq_state *state = &seq->state;
    kt__kv_table table = state->table;
    int32_t *tokens = state->tokens;
    kt__ticket_lock(&seq->engine->turn);
    kt__kv_table_rest(seq->engine->kv, &r->table);
    state->table = r->table;
    state->tokens = r->ids;
    seq->n_pos = n_pos;
    state->n_logits = 0;
    kt__speculator_trim(seq->engine->speculator, &state->draft, 0);
    if (r->logits) kt__seq_keep_logits(seq, r->logits, n_pos);
    kt__ticket_unlock(&seq->engine->turn);
    r->table = table;
    r->ids = tokens;
}

static kt_status restore_lent(kt_seq *seq, const char *path, kt_error *err) {
    kt_engine *engine = seq->engine;
    kt__kv_image_file *file = NULL;
    restored r = {0};
    kt_status status;
    KT__TRY(kt__kv_image_open(path, kt__kv_get_shape(engine->kv), &file, err));
    KT__TRY(check_binding(seq, kt__kv_image_info(file), path, err));
    KT__TRY(check_full_hash(engine, kt__kv_image_info(file), path, err));
    KT__TRY(check_fits(engine, kt__kv_image_info(file), path, err));
    KT__TRY(load_image(engine, file, path, &r, err));
    swap_in(seq, &r, (size_t)kt__kv_image_info(file)->n_pos);
out:
    if (r.table.pages) release_pages(engine, &r.table);
    kt__free(r.ids);
    kt__free(r.logits);
    kt__kv_image_close(file);
    return status;
}

kt_status kt_seq_restore(kt_seq *seq, const char *path, kt_error *err) {
    kt__error_clear(err);
    KT__STEP(kt__ctx_needs_whole(seq->engine->model->ctx, "session files", err));
    kt_status status = kt__seq_lend(seq, seq->engine, err);
    if (status != KT_OK) return status;
    status = restore_lent(seq, path, err);
    kt__seq_unlend(seq);
    return status;
}
