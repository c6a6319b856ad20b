#include "learn/resume.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/le.h"

enum {
    MAGIC_BYTES = 8,
    HEAD_BYTES = MAGIC_BYTES + 32 + 4 + 4 + 4 +
                 8, /* binding, steps, updates taken and dropped, loss */
    SUM_BYTES = 32,
    SEED = 0x72657375,
    EVERY_US = 20000000
};
static const char magic[MAGIC_BYTES + 1] = "KTTRAI01";

/* ---- what it is bound to ---- */

static void add_sample(kt__hash *h, const kt__sample *s) {
    const uint64_t facts[] = {(uint64_t)s->kind, (uint64_t)s->n, s->group, (uint64_t)s->use,
                              s->earlier};
    kt__hash_add(h, facts, sizeof facts);
    kt__hash_add(h, &s->weight, sizeof s->weight);
    kt__hash_add(h, s->ids, (size_t)s->n * sizeof *s->ids);
    kt__hash_add(h, s->mask, (size_t)s->n);
}

void kt__resume_bind(kt__resume *r, const kt__training *t, const kt__factors *begin) {
    const kt__learn_settings *s = t->settings;
    const double numbers[] = {(double)s->where,         s->rank,
                              (double)s->alpha,         s->n_step,
                              (double)s->rate,          s->batch,
                              s->batch_replay,          s->batch_neighbour,
                              (double)s->replay_weight, (double)s->neighbour_weight,
                              (double)s->ewc_lambda,    (double)s->bytes_max};
    kt__hash h;
    kt__hash_init(&h, SEED);
    kt__hash_add(&h, numbers, sizeof numbers);
    kt__hash_add(&h, &s->seed, sizeof s->seed);
    for (size_t i = 0; i < t->n; i++) add_sample(&h, &t->samples[t->list[i]]);
    kt__hash_add(&h, begin->values, begin->n_value * sizeof *begin->values);
    kt__digest_bytes(kt__hash_end(&h), r->binding);
}

/* ---- reading ---- */

static bool is_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

bool kt__resume_parse(const uint8_t binding[32], const void *data, size_t n, kt__resume_state *s) {
    const uint8_t *bytes = data, *at = bytes + MAGIC_BYTES + 32;
    size_t row = s->adam->n * sizeof(float);
    uint8_t sum[SUM_BYTES];
    if (n != HEAD_BYTES + 3 * row + SUM_BYTES || memcmp(bytes, magic, MAGIC_BYTES) != 0 ||
        memcmp(bytes + MAGIC_BYTES, binding, 32) != 0)
        return false;
    kt__digest_bytes(kt__hash_bytes(SEED + 1, bytes, n - SUM_BYTES), sum);
    if (memcmp(sum, bytes + n - SUM_BYTES, SUM_BYTES) != 0) return false;
    uint32_t n_step = kt__le_get32(at), taken = kt__le_get32(at + 4),
             dropped = kt__le_get32(at + 8);
    uint64_t bits = kt__le_get64(at + 12);
    double loss;
    memcpy(&loss, &bits, sizeof loss);
    if (n_step > 1000000 || taken > n_step || dropped > n_step || !isfinite(loss)) return false;
    memcpy(s->values, bytes + HEAD_BYTES, row);
    memcpy(s->adam->m, bytes + HEAD_BYTES + row, row);
    memcpy(s->adam->v, bytes + HEAD_BYTES + 2 * row, row);
    s->adam->n_step = (int)taken;
    s->adam->n_dropped = (int)dropped;
    s->n_step = (int)n_step;
    s->train_loss = loss;
    return true;
}

static bool parse_finite(const kt__resume *r, const kt__buf *file, kt__resume_state *s) {
    size_t n = s->adam->n;
    if (!kt__resume_parse(r->binding, file->data, file->len, s)) return false;
    return is_finite(s->values, n) && is_finite(s->adam->m, n) && is_finite(s->adam->v, n);
}

bool kt__resume_read(const kt__resume *r, kt__resume_state *state) {
    kt_error ignored;
    kt__buf file;
    if (!r->path) return false;
    kt__buf_init(&file, HEAD_BYTES + 3 * state->adam->n * sizeof(float) + SUM_BYTES + 1);
    bool good = kt__files_read(r->path, &file, &ignored) == KT_OK && parse_finite(r, &file, state);
    kt__buf_free(&file);
    return good;
}

/* ---- writing ---- */

static void put_number(kt__buf *out, uint64_t v, int n) {
    uint8_t bytes[8];
    kt__le_put(bytes, v, n);
    (void)kt__buf_append(out, bytes, (size_t)n);
}

static void put_state(kt__buf *out, const kt__resume *r, const kt__resume_state *s) {
    size_t row = s->adam->n * sizeof(float);
    uint8_t sum[SUM_BYTES];
    uint64_t bits;
    memcpy(&bits, &s->train_loss, sizeof bits);
    (void)kt__buf_append(out, magic, MAGIC_BYTES);
    (void)kt__buf_append(out, r->binding, sizeof r->binding);
    put_number(out, (uint64_t)s->n_step, 4);
    put_number(out, (uint64_t)s->adam->n_step, 4);
    put_number(out, (uint64_t)s->adam->n_dropped, 4);
    put_number(out, bits, 8);
    (void)kt__buf_append(out, s->values, row);
    (void)kt__buf_append(out, s->adam->m, row);
    (void)kt__buf_append(out, s->adam->v, row);
    if (out->failed) return;
    kt__digest_bytes(kt__hash_bytes(SEED + 1, out->data, out->len), sum);
    (void)kt__buf_append(out, sum, sizeof sum);
}

void kt__resume_keep(kt__resume *r, const kt__resume_state *state, bool last) {
    int64_t now_us = kt__now_us();
    char dir[KT__FILES_PATH_MAX];
    const char *slash = r->path ? strrchr(r->path, '/') : NULL;
    kt_error ignored;
    kt__buf out;
    if (!slash || (size_t)(slash - r->path) >= sizeof dir) return;
    if (!last && now_us - r->kept_us < EVERY_US) return;
    r->kept_us = now_us;
    memcpy(dir, r->path, (size_t)(slash - r->path));
    dir[slash - r->path] = '\0';
    kt__buf_init(&out, HEAD_BYTES + 3 * state->adam->n * sizeof(float) + SUM_BYTES + 1);
    put_state(&out, r, state);
    kt_status status = out.failed ? KT_E_NOMEM
                                  : kt__files_replace(dir, slash + 1, out.data, out.len, &ignored);
    (void)status; /* the next one is tried again */
    kt__buf_free(&out);
}
