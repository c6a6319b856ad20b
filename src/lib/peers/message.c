#include "peers/message.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

enum {
    HEAD = 2,    /* kind and number of words */
    FIRST = 256, /* words that are always sent: most messages are no longer */
    MOST = 1 << 28
};

void kt__message_free(kt__message *m) {
    kt__free(m->words);
    *m = (kt__message){0};
}

/* Room for n more words. */
static bool make_room(kt__message *m, size_t n) {
    size_t need = m->n + n;
    if (need > MOST) m->bad = true;
    if (!m->bad && need + FIRST > m->cap) m->bad = !kt__vec_reserve(m->words, m->cap, need + FIRST);
    return !m->bad;
}

/* What was in it, before another one is read. */
static void forget_content(kt__message *m) {
    m->n = 0;
    m->at = HEAD;
    m->bad = false;
}

/* ---- process 0 ---- */

void kt__message_begin(kt__message *m, int32_t kind) {
    m->n = 0;
    m->bad = false;
    kt__message_put(m, kind);
    kt__message_put(m, 0);
}

void kt__message_put_words(kt__message *m, const int32_t *x, size_t n) {
    if (!make_room(m, n)) return;
    if (n) memcpy(m->words + m->n, x, n * sizeof *x);
    m->n += n;
}

void kt__message_put(kt__message *m, int32_t x) {
    kt__message_put_words(m, &x, 1);
}

void kt__message_put_64(kt__message *m, int64_t x) {
    int32_t both[2];
    memcpy(both, &x, sizeof x);
    kt__message_put_words(m, both, 2);
}

static size_t words_of(size_t bytes) {
    return bytes / sizeof(int32_t) + 1; /* with a 0 after them */
}

void kt__message_put_bytes(kt__message *m, const void *bytes, size_t n) {
    if (n > MOST) m->bad = true;
    kt__message_put(m, (int32_t)n);
    if (!make_room(m, words_of(n))) return;
    m->words[m->n + words_of(n) - 1] = 0;
    memcpy(m->words + m->n, bytes, n);
    m->n += words_of(n);
}

kt_status kt__message_send(kt__message *m, kt__peers *peers, kt_error *err) {
    size_t n = m->n;
    if (n < FIRST && make_room(m, FIRST - n))
        memset(m->words + n, 0, (FIRST - n) * sizeof *m->words);
    if (m->bad)
        return kt__fail_nomem(err, "a message to the job's processes", n * sizeof *m->words);
    m->words[1] = (int32_t)n;
    kt__peers_broadcast(peers, m->words, FIRST * sizeof *m->words);
    if (n > FIRST) kt__peers_broadcast(peers, m->words + FIRST, (n - FIRST) * sizeof *m->words);
    return kt__peers_check(peers, err);
}

bool kt__message_notify(kt__message *m, kt__peers *peers, const char *what) {
    char why[128];
    if (kt__message_send(m, peers, NULL) == KT_OK) return true;
    snprintf(why, sizeof why, "%s could not be sent to the job's other processes", what);
    kt__peers_fail(peers, why);
    return false;
}

/* ---- letters ---- */

kt_status kt__message_post(kt__message *m, kt__peers *peers, int rank, kt_error *err) {
    size_t n = m->n * sizeof *m->words;
    if (m->bad) return kt__fail_nomem(err, "a message to another process", n);
    m->words[1] = (int32_t)m->n;
    kt__peers_post(peers, rank, m->words, n);
    return kt__peers_check(peers, err);
}

kt_status kt__message_look(kt__message *m, kt__peers *peers, int *rank, int32_t *kind,
                           kt_error *err) {
    size_t n = 0;
    *rank = kt__peers_look(peers, &n);
    KT__STEP(kt__peers_check(peers, err));
    if (*rank < 0) return KT_OK;
    forget_content(m);
    if (n < HEAD * sizeof *m->words || n % sizeof *m->words != 0 || n / sizeof *m->words > MOST)
        return kt__fail(err, KT_E_FORMAT, "a message of %zu bytes from process %d", n, *rank);
    if (!make_room(m, n / sizeof *m->words))
        return kt__fail_nomem(err, "a message of another process", n);
    kt__peers_take(peers, *rank, m->words, n);
    m->n = n / sizeof *m->words;
    *kind = m->words[0];
    return kt__peers_check(peers, err);
}

/* ---- the others ---- */

kt_status kt__message_receive(kt__message *m, kt__peers *peers, int32_t *kind, kt_error *err) {
    forget_content(m);
    if (!make_room(m, FIRST)) return kt__fail_nomem(err, "a message of the job's", FIRST);
    kt__peers_broadcast(peers, m->words, FIRST * sizeof *m->words);
    KT__STEP(kt__peers_check(peers, err));
    int32_t n = m->words[1];
    if (n < HEAD || n > MOST)
        return kt__fail(err, KT_E_FORMAT, "a message of %d words from process 0", (int)n);
    m->n = FIRST;
    if (n > FIRST && !make_room(m, (size_t)n - FIRST))
        return kt__fail_nomem(err, "a message of the job's", (size_t)n * sizeof n);
    if (n > FIRST)
        kt__peers_broadcast(peers, m->words + FIRST, ((size_t)n - FIRST) * sizeof *m->words);
    m->n = (size_t)n;
    *kind = m->words[0];
    return kt__peers_check(peers, err);
}

const int32_t *kt__message_take_words(kt__message *m, size_t n) {
    if (m->bad || n > m->n - m->at) {
        m->bad = true;
        return NULL;
    }
    m->at += n;
    return m->words + m->at - n;
}

int64_t kt__message_take_64(kt__message *m, int64_t low, int64_t high) {
    const int32_t *both = kt__message_take_words(m, 2);
    int64_t x = low;
    if (both) memcpy(&x, both, sizeof x);
    if (x >= low && x <= high) return x;
    m->bad = true;
    return low;
}

int32_t kt__message_take(kt__message *m, int32_t low, int32_t high) {
    const int32_t *x = kt__message_take_words(m, 1);
    if (x && *x >= low && *x <= high) return *x;
    m->bad = true;
    return low;
}

const char *kt__message_take_text(kt__message *m, size_t *n) {
    *n = (size_t)kt__message_take(m, 0, MOST);
    return (const char *)kt__message_take_words(m, words_of(*n));
}

const void *kt__message_take_bytes(kt__message *m, size_t n) {
    size_t there;
    const void *bytes = kt__message_take_text(m, &there);
    if (n && there != n) m->bad = true;
    return m->bad ? NULL : bytes;
}
