#include "tutor/questions.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/le.h"
#include "tutor/lesson.h"

enum { MAX_QUESTION = 96 };

typedef struct near_writer {
    kt__lesson *lesson;
    kt_engine *engine;
    const kt__lesson_own *own;
    kt__prompt_frame frame;
    size_t n_taught; /* samples that were there before */
    kt_error *err;
} near_writer;

static bool is_taught(const near_writer *w, const int32_t *question, size_t n) {
    size_t begin, end;
    for (size_t i = 0; i < w->n_taught; i++) {
        const kt__sample *s = &w->lesson->samples[i];
        if (!kt__frame_question(&w->frame, w->engine->model, s, &begin, &end)) continue;
        if (end - begin == n && !memcmp(s->ids + begin, question, n * sizeof *question))
            return true;
    }
    return false;
}

/* The question in prompt, after the frame's beginning, is answered, and added. */
static kt_status add_near(const near_writer *w, int32_t *prompt, size_t n_question) {
    const kt__prompt_frame *f = &w->frame;
    size_t n = f->n_ahead + n_question;
    memcpy(prompt + n, f->after, f->n_after * sizeof *prompt);
    return kt__asked_add(w->lesson, w->engine, w->own, prompt, n + f->n_after, KT__SAMPLE_DRAWN,
                         w->err);
}

/* A question that begins as samples[i]'s, of which at least a token is kept. */
static kt_status write_near(const near_writer *w, size_t i, uint64_t seed) {
    const kt__sample *s = &w->lesson->samples[i];
    const kt__prompt_frame *f = &w->frame;
    size_t begin, end, n_more;
    bool ended;
    if (!kt__frame_question(f, w->engine->model, s, &begin, &end) || end - begin > MAX_QUESTION)
        return KT_OK;
    size_t half = (end - begin + 1) / 2;
    int32_t *prompt = kt__calloc(f->n_ahead + 2 * MAX_QUESTION + f->n_after, sizeof *prompt);
    if (!prompt) return kt__fail_nomem(w->err, "a question", f->n_ahead);
    memcpy(prompt, s->ids, (begin + half) * sizeof *prompt);
    kt_status status = kt__asked_write(w->engine, w->own, prompt, begin + half, 1.0f, seed,
                                       prompt + begin + half, MAX_QUESTION, &n_more, &ended,
                                       w->err);
    if (status == KT_OK && ended && !is_taught(w, prompt + begin, half + n_more))
        status = add_near(w, prompt, half + n_more);
    kt__free(prompt);
    return status;
}

kt_status kt__near_add(kt__lesson *l, kt_engine *engine, int each, const kt__lesson_own *own,
                       kt_error *err) {
    near_writer w = {.lesson = l, .engine = engine, .own = own, .n_taught = l->n, .err = err};
    int n_tried = 0;
    kt_status status = KT_OK;
    if (!engine->model->template_text) return KT_OK;
    KT__TRY(kt__frame_find(engine->model, &w.frame, err));
    for (int k = 0; k < each && w.frame.n_ahead > 0; k++) {
        for (size_t i = 0; i < w.n_taught && n_tried < own->n; i++) {
            const kt__sample *s = &l->samples[i];
            if (s->kind != KT__SAMPLE_CORRECTION || s->use != KT__SAMPLE_DRAWN) continue;
            KT__TRY(write_near(&w, i, own->seed * 7919u + (uint64_t)n_tried));
            n_tried++;
        }
    }
out:
    kt__frame_free(&w.frame);
    return status;
}

/* ---- own replay ---- */

/* magic, binding, how many are done, checksum of the rest; then of each conversation: tokens of the prompt, of the
 * answer, and both. Little-endian. */
enum {
    MAGIC_BYTES = 8,
    DONE_AT = MAGIC_BYTES + KT__OWN_REPLAY_BINDING,
    HEAD_BYTES = DONE_AT + 8 + 32,
    PART = 64, /* conversations after which the file is written */
    MAX_BYTES = 256 << 20,
    SEED = 0x7265706c /* of the checksum */
};
static const char magic[MAGIC_BYTES + 1] = "KTREPL02";

static kt_status bind_to(const kt_engine *engine, const kt__lesson_own *own, uint8_t *out,
                         kt_error *err) {
    kt_status status = kt_model_fingerprint(engine->model, out, err);
    kt__le_put(out + KT_FINGERPRINT_BYTES, own->seed, 8);
    kt__le_put(out + KT_FINGERPRINT_BYTES + 8, (uint64_t)own->n, 8);
    return status;
}

/* ---- reading ---- */

/* One conversation at `at`, which is moved after it; false: there is none. */
static bool take_one(kt__lesson *l, const uint8_t **at, const uint8_t *end, uint32_t n_vocab) {
    kt_error ignored;
    if (end - *at < 8) return false;
    size_t n_prompt = kt__le_get32(*at), n_answer = kt__le_get32(*at + 4);
    size_t n = n_prompt + n_answer;
    *at += 8;
    if (n_prompt == 0 || n_answer == 0 || n > (size_t)(end - *at) / 4) return false;
    int32_t *ids = kt__calloc(n, sizeof *ids);
    bool good = ids != NULL;
    for (size_t i = 0; good && i < n; i++) {
        uint32_t id = kt__le_get32(*at + 4 * i);
        good = id < n_vocab;
        ids[i] = (int32_t)id;
    }
    *at += 4 * n;
    const kt__sample like = {.kind = KT__SAMPLE_REPLAY, .weight = 1.0f, .group = l->next_group};
    good = good && kt__lesson_add_tokens(l, ids, n_prompt, ids + n_prompt, n_answer, &like,
                                         &ignored) == KT_OK;
    l->next_group += good;
    kt__free(ids);
    return good;
}

bool kt__own_replay_read(kt__lesson *l, const uint8_t *binding, const void *data, size_t n,
                         uint32_t n_vocab, int *done) {
    const uint8_t *bytes = data, *at = bytes + HEAD_BYTES, *end = bytes + n;
    uint8_t sum[32];
    size_t before = l->n;
    uint64_t group = l->next_group;
    *done = 0;
    if (n < HEAD_BYTES || memcmp(bytes, magic, MAGIC_BYTES) != 0 ||
        memcmp(bytes + MAGIC_BYTES, binding, KT__OWN_REPLAY_BINDING) != 0)
        return false;
    kt__digest_bytes(kt__hash_bytes(SEED, at, n - HEAD_BYTES), sum);
    bool good = !memcmp(sum, bytes + HEAD_BYTES - 32, 32);
    while (good && at < end) good = take_one(l, &at, end, n_vocab);
    while (!good && l->n > before) kt__free((void *)(uintptr_t)l->samples[--l->n].ids);
    if (!good) l->next_group = group;
    uint64_t n_done = kt__le_get64(bytes + DONE_AT);
    if (good && n_done <= INT32_MAX) *done = (int)n_done;
    return good;
}

static void read_file(kt__lesson *l, const kt_engine *engine, const char *dir,
                      const uint8_t *binding, int *done) {
    char path[KT__FILES_PATH_MAX];
    kt_error ignored;
    kt__buf buf;
    kt__buf_init(&buf, MAX_BYTES);
    *done = 0;
    bool good = kt__files_path(path, dir, "replay", &ignored) == KT_OK &&
                kt__files_read(path, &buf, &ignored) == KT_OK &&
                kt__own_replay_read(l, binding, buf.data, buf.len,
                                    (uint32_t)kt__engine_n_vocab(engine), done);
    (void)good; /* none are done */
    kt__buf_free(&buf);
}

/* ---- writing ---- */

static void put_le32(kt__buf *out, uint32_t v) {
    uint8_t bytes[4];
    kt__le_put(bytes, v, 4);
    (void)kt__buf_append(out, bytes, sizeof bytes);
}

static void put_sample(kt__buf *out, const kt__sample *s) {
    int n_prompt = 0;
    while (n_prompt < s->n && !s->mask[n_prompt]) n_prompt++;
    put_le32(out, (uint32_t)n_prompt);
    put_le32(out, (uint32_t)(s->n - n_prompt));
    for (int i = 0; i < s->n; i++) put_le32(out, (uint32_t)s->ids[i]);
}

static void write_file(const kt__lesson *l, size_t first, const char *dir, const uint8_t *binding,
                       int done) {
    kt_error ignored;
    kt__buf buf;
    uint8_t zero[8 + 32] = {0};
    kt__le_put(zero, (uint64_t)done, 8);
    kt__buf_init(&buf, MAX_BYTES);
    (void)kt__buf_append(&buf, magic, MAGIC_BYTES);
    (void)kt__buf_append(&buf, binding, KT__OWN_REPLAY_BINDING);
    (void)kt__buf_append(&buf, zero, sizeof zero);
    for (size_t i = first; i < l->n; i++) put_sample(&buf, &l->samples[i]);
    if (!buf.failed) {
        uint8_t *sum = (uint8_t *)buf.data + HEAD_BYTES - 32;
        kt__digest_bytes(kt__hash_bytes(SEED, buf.data + HEAD_BYTES, buf.len - HEAD_BYTES), sum);
        kt_status status = kt__files_make_dir(dir, &ignored);
        if (status == KT_OK) status = kt__files_replace(dir, "replay", buf.data, buf.len, &ignored);
        (void)status;
    }
    kt__buf_free(&buf);
}

kt_status kt__own_replay_add(kt__lesson *l, kt_engine *engine, const char *dir,
                             const kt__lesson_own *own, kt_error *err) {
    uint8_t binding[KT__OWN_REPLAY_BINDING];
    size_t first = l->n;
    kt__lesson_own part = *own;
    KT__STEP(bind_to(engine, own, binding, err));
    read_file(l, engine, dir, binding, &part.first);
    while (part.first < own->n) {
        part.n = own->n - part.first < PART ? own->n : part.first + PART;
        KT__STEP(kt__lesson_write_own(l, engine, &part, err));
        write_file(l, first, dir, binding, part.n);
        part.first = part.n;
    }
    return KT_OK;
}
