/* Arbitrary bytes as corrections and as texts: whatever they are, an entry's own question opens it where it has a subject, what
 * a search finds is in the bank, and notes and scopes can be written. Pieces of the input are taught and asked in turn; the
 * separator is a zero byte. */
#include <stdlib.h>
#include <string.h>

#include "bank/bank.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 64 };

typedef struct piece {
    const char *s;
    size_t len;
} piece;

static size_t split_input(const uint8_t *data, size_t size, piece *out) {
    size_t n = 0, from = 0;
    for (size_t i = 0; i <= size && n < MOST; i++) {
        if (i < size && data[i]) continue;
        out[n++] = (piece){(const char *)data + from, i - from};
        from = i + 1;
    }
    return n;
}

static void show_entry(kt_bank *bank, uint64_t id) {
    kt__buf out;
    kt__buf_init(&out, 1 << 20);
    if (!kt__bank_write_note(bank, id, &out)) abort();
    kt__buf_clear(&out);
    (void)kt__buf_putc(&out, '{');
    kt__bank_write_scope(bank, id, &out);
    if (out.failed) abort();
    kt__buf_free(&out);
}

/* Whether the bank says that it has a subject. */
static bool has_subject(kt_bank *bank, uint64_t id) {
    kt__buf out;
    kt__buf_init(&out, 1 << 20);
    (void)kt__buf_putc(&out, '{');
    kt__bank_write_scope(bank, id, &out);
    bool has = strstr(out.data, "\"scope\":\"subject\"") != NULL;
    kt__buf_free(&out);
    return has;
}

static void ask_piece(kt_bank *bank, const piece *p, uint64_t n_taught, uint64_t own) {
    kt__bank_hit hits[MOST];
    size_t n = kt__bank_find(bank, p->s, p->len, hits, MOST);
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        if (!hits[i].id || hits[i].id > n_taught || hits[i].n_words < 1) abort();
        found = found || (hits[i].id == own && hits[i].fit != KT__FIT_OTHER);
        if (kt__bank_fit_of(bank, hits[i].id, p->s, p->len) != hits[i].fit) abort();
    }
    if (own && !found && n < MOST && has_subject(bank, own)) abort();
    uint64_t asked = 0;
    if (kt__bank_asked(bank, p->s, p->len, &asked) && (!asked || asked > n_taught)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    piece pieces[MOST];
    kt_bank *bank;
    kt_bank_info info;
    kt_error err;
    uint64_t id = 0;
    size_t n = split_input(data, size, pieces);
    if (kt__bank_open(&bank, &err) != KT_OK) abort();
    for (size_t i = 0; i + 1 < n; i += 2) {
        const kt__bank_entry e = {++id, pieces[i].len == 1 ? NULL : pieces[i].s, pieces[i].len,
                                  pieces[i + 1].s, pieces[i + 1].len};
        if (kt__bank_add(bank, &e, &err) != KT_OK) abort();
    }
    for (size_t i = 0; i < n; i++)
        ask_piece(bank, &pieces[i], id, i % 2 == 0 && i + 1 < n ? i / 2 + 1 : 0);
    for (uint64_t i = 1; i <= id; i++) show_entry(bank, i);
    kt_bank_get_info(bank, &info);
    if (info.n_entries != id || info.n_scoped + info.n_replaced > id) abort();
    kt_bank_close(bank);
    return 0;
}
