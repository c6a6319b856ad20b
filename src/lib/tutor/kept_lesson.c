#include "tutor/kept_lesson.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/math.h"
#include "base/system.h"

enum {
    MAGIC_BYTES = 8,
    HEAD_BYTES = MAGIC_BYTES + KT__LESSON_BINDING,
    FRONT_BYTES = 24, /* of a sample: kind, use, earlier and a zero; tokens; weight; pad; group */
    SUM_BYTES = 32,
    MAX_BYTES = 256 << 20,
    SEED = 0x6c657373
};
static const char magic[MAGIC_BYTES + 1] = "KTLESS01", name[] = "training.lesson",
                                      state_name[] = "training.state";

static void add_to_hash(kt__hash *h, const kt__sample *s) {
    const uint64_t facts[] = {(uint64_t)s->kind, (uint64_t)s->n, s->group, (uint64_t)s->use,
                              s->earlier};
    kt__hash_add(h, facts, sizeof facts);
    kt__hash_add(h, s->ids, (size_t)s->n * sizeof *s->ids);
    kt__hash_add(h, s->mask, (size_t)s->n);
}

kt_status kt__lesson_bind(const kt__lesson *l, const kt_engine *engine, int n_own, uint64_t seed,
                          uint8_t binding[KT__LESSON_BINDING], kt_error *err) {
    uint8_t base[KT_FINGERPRINT_BYTES];
    const uint64_t numbers[] = {(uint64_t)n_own, seed};
    kt__hash h;
    KT__STEP(kt_model_fingerprint(engine->model, base, err));
    kt__hash_init(&h, SEED);
    kt__hash_add(&h, base, sizeof base);
    kt__hash_add(&h, numbers, sizeof numbers);
    for (size_t i = 0; i < l->n; i++) add_to_hash(&h, &l->samples[i]);
    kt__digest_bytes(kt__hash_end(&h), binding);
    return KT_OK;
}

/* ---- reading ---- */

static bool take_ids(const uint8_t *at, size_t n, uint32_t n_vocab, int32_t *ids) {
    for (size_t i = 0; i < n; i++) {
        uint32_t id = kt__le_get32(at + 4 * i);
        if (id >= n_vocab) return false;
        ids[i] = (int32_t)id;
    }
    return true;
}

static bool take_mask(const uint8_t *at, size_t n, uint8_t *mask) {
    size_t n_masked = 0;
    for (size_t i = 0; i < n; i++) {
        if (at[i] > 1) return false;
        n_masked += at[i];
    }
    memcpy(mask, at, n);
    return n_masked > 0 && at[0] == 0;
}

/* A sample at `at`, which is moved after it; false: there is none. */
static bool take_sample(kt__lesson *l, const uint8_t **at, const uint8_t *end, uint32_t n_vocab) {
    const uint8_t *front = *at;
    if (end - front < FRONT_BYTES) return false;
    uint32_t n = kt__le_get32(front + 4);
    float weight = kt__f32_from_bits(kt__le_get32(front + 8));
    if (n < 2 || n > (uint64_t)(end - front - FRONT_BYTES) / 5) return false;
    if (front[0] >= KT__SAMPLE_KINDS || front[1] > KT__SAMPLE_MEASURED || front[2] > 1)
        return false;
    if (!(weight >= 0.0f && weight <= 1.0f)) return false;
    const kt__sample like = {.kind = (kt__sample_kind)front[0],
                             .use = (kt__sample_use)front[1],
                             .earlier = front[2] == 1,
                             .weight = weight,
                             .group = kt__le_get64(front + 16)};
    kt_error ignored;
    int32_t *ids = kt__calloc(n, sizeof *ids);
    uint8_t *mask = kt__calloc(n, 1);
    bool good = ids && mask && take_ids(front + FRONT_BYTES, n, n_vocab, ids) &&
                take_mask(front + FRONT_BYTES + 4 * (size_t)n, n, mask) &&
                kt__lesson_add_tokens(l, ids, 1, ids + 1, n - 1, &like, &ignored) == KT_OK;
    if (good) memcpy((uint8_t *)(uintptr_t)l->samples[l->n - 1].mask, mask, n);
    kt__free(ids);
    kt__free(mask);
    *at = front + FRONT_BYTES + 5 * (size_t)n;
    return good;
}

bool kt__lesson_parse(kt__lesson *l, uint32_t n_vocab, const uint8_t binding[KT__LESSON_BINDING],
                      const void *data, size_t n) {
    const uint8_t *bytes = data, *at = bytes + HEAD_BYTES;
    uint8_t sum[SUM_BYTES];
    size_t before = l->n;
    if (n < HEAD_BYTES + SUM_BYTES || memcmp(bytes, magic, MAGIC_BYTES) != 0 ||
        memcmp(bytes + MAGIC_BYTES, binding, KT__LESSON_BINDING) != 0)
        return false;
    const uint8_t *end = bytes + n - SUM_BYTES;
    kt__digest_bytes(kt__hash_bytes(SEED + 1, bytes, n - SUM_BYTES), sum);
    bool good = !memcmp(sum, end, SUM_BYTES);
    while (good && at < end) good = take_sample(l, &at, end, n_vocab);
    while (!good && l->n > before) kt__free((void *)(uintptr_t)l->samples[--l->n].ids);
    return good;
}

bool kt__lesson_read_kept(kt__lesson *l, const char *dir, uint32_t n_vocab,
                          const uint8_t binding[KT__LESSON_BINDING]) {
    char path[KT__FILES_PATH_MAX];
    kt_error ignored;
    kt__buf file;
    kt__buf_init(&file, MAX_BYTES);
    bool good = kt__files_path(path, dir, name, &ignored) == KT_OK &&
                kt__files_read(path, &file, &ignored) == KT_OK &&
                kt__lesson_parse(l, n_vocab, binding, file.data, file.len);
    kt__buf_free(&file);
    return good;
}

/* ---- writing ---- */

static void put_sample(kt__buf *out, const kt__sample *s) {
    uint8_t front[FRONT_BYTES] = {(uint8_t)s->kind, (uint8_t)s->use, s->earlier};
    kt__le_put(front + 4, (uint64_t)s->n, 4);
    kt__le_put(front + 8, kt__f32_bits(s->weight), 4);
    kt__le_put(front + 16, s->group, 8);
    (void)kt__buf_append(out, front, sizeof front);
    for (int i = 0; i < s->n; i++) {
        uint8_t id[4];
        kt__le_put(id, (uint64_t)(uint32_t)s->ids[i], 4);
        (void)kt__buf_append(out, id, sizeof id);
    }
    (void)kt__buf_append(out, s->mask, (size_t)s->n);
}

void kt__lesson_keep(const kt__lesson *l, size_t first, const char *dir,
                     const uint8_t binding[KT__LESSON_BINDING]) {
    uint8_t sum[SUM_BYTES];
    kt_error ignored;
    kt__buf out;
    kt__buf_init(&out, MAX_BYTES);
    (void)kt__buf_append(&out, magic, MAGIC_BYTES);
    (void)kt__buf_append(&out, binding, KT__LESSON_BINDING);
    for (size_t i = first; i < l->n; i++) put_sample(&out, &l->samples[i]);
    if (!out.failed) {
        kt__digest_bytes(kt__hash_bytes(SEED + 1, out.data, out.len), sum);
        (void)kt__buf_append(&out, sum, sizeof sum);
    }
    kt_status status = out.failed ? KT_E_NOMEM
                                  : kt__files_replace(dir, name, out.data, out.len, &ignored);
    (void)status; /* the training does not need it */
    kt__buf_free(&out);
}

/* ---- both files ---- */

kt_status kt__lesson_state_path(char path[KT__FILES_PATH_MAX], const char *dir, kt_error *err) {
    return kt__files_path(path, dir, state_name, err);
}

void kt__lesson_drop_kept(const char *dir) {
    const char *const names[] = {name, state_name};
    char path[KT__FILES_PATH_MAX];
    kt_error ignored;
    for (int i = 0; i < 2; i++)
        if (kt__files_path(path, dir, names[i], &ignored) == KT_OK) (void)kt__file_remove(path);
}
