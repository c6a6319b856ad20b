#include "kv/kv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"

enum { CACHE_LINE = 64, NO_PAGE = -1 };

typedef struct piece {
    int32_t refs;
    int32_t page; /* that has it as its snapshot, or NO_PAGE */
    uint64_t used;
    kt__snapshot kind;
} piece;

struct kt__states {
    size_t stride;
    uint8_t *data;
    size_t data_bytes;
    piece *pieces;          /* [n_pieces + 1]; the first one is no piece */
    int32_t n_pieces, used; /* used: the highest that was taken */
    int32_t *free_ids;      /* stack; the lowest numbers on top */
    int32_t n_free;
    int32_t *of_page; /* [n_pages] */
    uint64_t clock;
};

kt_status kt__states_create(size_t piece_bytes, int64_t n_pages, int32_t n_pieces, kt__states **out,
                            kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__states *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "the states", sizeof *s);
    s->stride = kt__align_up(piece_bytes, CACHE_LINE);
    s->n_pieces = s->n_free = n_pieces;
    s->pieces = kt__calloc((size_t)n_pieces + 1, sizeof *s->pieces);
    s->free_ids = kt__calloc((size_t)n_pieces + 1, sizeof *s->free_ids);
    s->of_page = kt__calloc((size_t)n_pages, sizeof *s->of_page);
    if (!s->pieces || !s->free_ids || !s->of_page) {
        status = kt__fail_nomem(err, "the lists of states", (size_t)n_pages * sizeof(int32_t));
        goto out;
    }
    for (int32_t i = 0; i < n_pieces; i++) s->free_ids[i] = n_pieces - i;
    if (!kt__mul_size(s->stride, (size_t)n_pieces, &s->data_bytes)) s->data_bytes = SIZE_MAX;
    s->data = s->data_bytes < SIZE_MAX / 2 ? kt__pages_alloc(s->data_bytes) : NULL;
    if (!s->data) {
        status = kt__fail(err, KT_E_NOMEM, "cannot reserve %zu bytes for recurrent states: %s",
                          s->data_bytes, strerror(errno));
        s->data_bytes = 0;
        goto out;
    }
    *out = s;
    return KT_OK;
out:
    kt__states_destroy(s);
    return status;
}

void kt__states_destroy(kt__states *s) {
    if (!s) return;
    if (s->data) kt__pages_free(s->data, s->data_bytes);
    kt__free(s->pieces);
    kt__free(s->free_ids);
    kt__free(s->of_page);
    kt__free(s);
}

int32_t kt__states_n(const kt__states *s) {
    return s->n_pieces;
}

int32_t kt__states_used(const kt__states *s) {
    return s->used;
}

float *kt__states_data(const kt__states *s, int32_t id) {
    assert(id >= 1 && id <= s->n_pieces);
    return (float *)(void *)(s->data + (size_t)(id - 1) * s->stride);
}

/* ---- references ---- */

static bool is_only_snapshot(const piece *p) {
    return p->page != NO_PAGE && p->refs == 1;
}

/* Gives up the snapshot that was used least recently; false: each has another holder. */
static bool give_up_one(kt__states *s) {
    int32_t oldest = KT__NO_STATE;
    for (int32_t i = 1; i <= s->n_pieces; i++) {
        const piece *p = &s->pieces[i];
        if (p->refs == 0 || !is_only_snapshot(p)) continue;
        if (oldest == KT__NO_STATE || p->used < s->pieces[oldest].used) oldest = i;
    }
    if (oldest == KT__NO_STATE) return false;
    kt__states_forget(s, s->pieces[oldest].page);
    return true;
}

int32_t kt__states_take(kt__states *s) {
    if (s->n_free == 0 && !give_up_one(s)) return KT__NO_STATE;
    int32_t id = s->free_ids[--s->n_free];
    s->pieces[id] = (piece){.refs = 1, .page = NO_PAGE};
    if (id > s->used) s->used = id;
    return id;
}

void kt__states_ref(kt__states *s, int32_t id) {
    assert(s->pieces[id].refs > 0);
    s->pieces[id].refs++;
}

void kt__states_drop(kt__states *s, int32_t id) {
    if (id == KT__NO_STATE) return;
    assert(s->pieces[id].refs > 0);
    if (--s->pieces[id].refs == 0) s->free_ids[s->n_free++] = id;
}

/* ---- snapshots ---- */

kt__snapshot kt__states_kind(const kt__states *s, int32_t page) {
    int32_t id = s->of_page[page];
    return id == KT__NO_STATE ? KT__SNAPSHOT_NONE : s->pieces[id].kind;
}

int32_t kt__states_of(kt__states *s, int32_t page) {
    int32_t id = s->of_page[page];
    if (id != KT__NO_STATE) s->pieces[id].used = ++s->clock;
    return id;
}

void kt__states_keep(kt__states *s, int32_t page, int32_t id, kt__snapshot kind) {
    piece *p = &s->pieces[id];
    if (p->page == page) {
        if (kind > p->kind) p->kind = kind;
        return;
    }
    if (p->page != NO_PAGE) return; /* another page of the same tokens has it */
    kt__states_forget(s, page);
    kt__states_ref(s, id);
    p->page = page;
    p->kind = kind;
    p->used = ++s->clock;
    s->of_page[page] = id;
}

void kt__states_forget(kt__states *s, int32_t page) {
    int32_t id = s->of_page[page];
    if (id == KT__NO_STATE) return;
    s->of_page[page] = KT__NO_STATE;
    s->pieces[id].page = NO_PAGE;
    s->pieces[id].kind = KT__SNAPSHOT_NONE;
    kt__states_drop(s, id);
}

void kt__states_move(kt__states *s, int32_t from, int32_t to) {
    int32_t id = s->of_page[from];
    if (id == KT__NO_STATE || from == to) return;
    if (s->of_page[to] != KT__NO_STATE) {
        if (s->pieces[id].kind > s->pieces[s->of_page[to]].kind)
            s->pieces[s->of_page[to]].kind = s->pieces[id].kind;
        return;
    }
    s->of_page[from] = KT__NO_STATE;
    s->of_page[to] = id;
    s->pieces[id].page = to;
}
