#include "feedback/record.h"

#include <math.h>
#include <string.h>

#include "base/le.h"
#include "base/math.h"

enum { HEAD_BYTES = 16, ITEM_FRONT = HEAD_BYTES + 32, PUBLISHED_BYTES = HEAD_BYTES + 16 };

void kt__record_put_head(kt__buf *out, const kt__record_head *head) {
    uint8_t bytes[HEAD_BYTES];
    kt__le_put(bytes, head->version, 4);
    kt__le_put(bytes + 4, head->parent, 4);
    kt__le_put(bytes + 8, (uint64_t)head->time_us, 8);
    (void)kt__buf_append(out, bytes, sizeof bytes);
}

static void put_ids(kt__buf *out, const int32_t *ids, size_t n) {
    uint8_t bytes[4];
    for (size_t i = 0; i < n; i++) {
        kt__le_put(bytes, (uint32_t)ids[i], 4);
        (void)kt__buf_append(out, bytes, sizeof bytes);
    }
}

void kt__record_put_item(kt__buf *out, const kt__record_head *head, const kt__feedback_item *item,
                         uint32_t d_model) {
    size_t n_about = strlen(item->about);
    const uint64_t front[] = {(uint64_t)item->kind,
                              kt__f32_bits(item->score),
                              item->n_prompt,
                              item->n_answer,
                              item->n_right,
                              item->n_text,
                              n_about,
                              item->keys.n};
    uint8_t bytes[4];
    kt__record_put_head(out, head);
    for (size_t i = 0; i < sizeof front / sizeof front[0]; i++) {
        kt__le_put(bytes, front[i], 4);
        (void)kt__buf_append(out, bytes, sizeof bytes);
    }
    put_ids(out, item->prompt, item->n_prompt);
    put_ids(out, item->answer, item->n_answer);
    put_ids(out, item->right, item->n_right);
    put_ids(out, item->keys.ids, item->keys.n);
    (void)kt__buf_append(out, item->keys.keys, item->keys.n * d_model);
    (void)kt__buf_append(out, item->text, item->n_text);
    (void)kt__buf_append(out, item->about, n_about + 1); /* with its NUL */
    if (!item->question) return;
    kt__le_put(bytes, item->n_question, 4);
    (void)kt__buf_append(out, bytes, sizeof bytes);
    (void)kt__buf_append(out, item->question, item->n_question);
}

void kt__record_put_published(kt__buf *out, const kt__record_head *head,
                              const kt__record_published *published) {
    uint8_t bytes[16];
    uint64_t bits;
    memcpy(&bits, &published->quality, sizeof bits);
    kt__record_put_head(out, head);
    kt__le_put(bytes, bits, 8);
    kt__le_put(bytes + 8, published->bytes, 8);
    (void)kt__buf_append(out, bytes, sizeof bytes);
}

bool kt__record_get_head(const uint8_t *body, size_t n, kt__record_head *out) {
    if (n < HEAD_BYTES) return false;
    *out = (kt__record_head){kt__le_get32(body), kt__le_get32(body + 4),
                             (int64_t)kt__le_get64(body + 8)};
    return true;
}

/* Used in place: every machine that kentang runs on is little-endian, as the file is. */
static bool get_ids(const uint8_t **at, size_t n, uint32_t n_vocab, const int32_t **out) {
    *out = (const int32_t *)(const void *)*at;
    for (size_t i = 0; i < n; i++) {
        if (kt__le_get32(*at + 4 * i) >= n_vocab) return false;
    }
    *at += 4 * n;
    return true;
}

/* The question after all else, which records before 0.2 lack. */
static bool get_question(const uint8_t *tail, size_t n, kt__feedback_item *out) {
    if (n == 0) return true;
    if (n < 4 || kt__le_get32(tail) != n - 4) return false;
    out->question = (const char *)tail + 4;
    out->n_question = n - 4;
    return true;
}

static bool get_front(const uint8_t *body, size_t n, uint32_t d_model, kt__feedback_item *out,
                      size_t *n_about) {
    uint64_t counts[6];
    if (n < ITEM_FRONT) return false;
    uint32_t kind = kt__le_get32(body + HEAD_BYTES), score = kt__le_get32(body + HEAD_BYTES + 4);
    for (int i = 0; i < 6; i++) counts[i] = kt__le_get32(body + HEAD_BYTES + 8 + 4 * i);
    *out = (kt__feedback_item){.kind = (kt__feedback_kind)kind,
                               .n_prompt = (size_t)counts[0],
                               .n_answer = (size_t)counts[1],
                               .n_right = (size_t)counts[2],
                               .n_text = (size_t)counts[3],
                               .keys.n = (size_t)counts[5]};
    memcpy(&out->score, &score, sizeof score);
    *n_about = (size_t)counts[4];
    uint64_t want = ITEM_FRONT + 4 * (counts[0] + counts[1] + counts[2] + counts[5]) + counts[3] +
                    counts[4] + 1 + counts[5] * d_model;
    return want <= n && get_question(body + want, n - (size_t)want, out) &&
           kind >= KT__FEEDBACK_SCORE && kind <= KT__FEEDBACK_PAIR && isfinite(out->score);
}

bool kt__record_get_item(const uint8_t *body, size_t n, uint32_t d_model, uint32_t n_vocab,
                         kt__feedback_item *out) {
    size_t n_about;
    kt__record_head head;
    if (!get_front(body, n, d_model, out, &n_about) || !kt__record_get_head(body, n, &head))
        return false;
    const uint8_t *at = body + ITEM_FRONT;
    out->time_us = head.time_us;
    if (!get_ids(&at, out->n_prompt, n_vocab, &out->prompt) ||
        !get_ids(&at, out->n_answer, n_vocab, &out->answer) ||
        !get_ids(&at, out->n_right, n_vocab, &out->right) ||
        !get_ids(&at, out->keys.n, n_vocab, &out->keys.ids))
        return false;
    out->keys.keys = (const int8_t *)at;
    at += out->keys.n * d_model;
    out->text = (const char *)at;
    at += out->n_text;
    out->about = (const char *)at;
    return memchr(at, '\0', n_about + 1) == at + n_about;
}

bool kt__record_get_published(const uint8_t *body, size_t n, kt__record_published *out) {
    if (n != PUBLISHED_BYTES) return false;
    uint64_t bits = kt__le_get64(body + HEAD_BYTES);
    memcpy(&out->quality, &bits, sizeof bits);
    out->bytes = kt__le_get64(body + HEAD_BYTES + 8);
    return isfinite(out->quality) && out->bytes <= (uint64_t)1 << 40;
}
