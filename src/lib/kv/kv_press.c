/* Pages that were pressed: their places, their slabs, and what is altered by it. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/kv_store.h"

enum { SLABS_LEAST = 3, NO_SLAB = -1 };

/* A slab is free, or its places are all of one form. One is kept in reserve, so that pages can be
 * pressed when the store is full: as many as become free then are a slab again, once those that are
 * left in one have moved to others. */
struct kt__pressing {
    kt__kv_shape shapes[KT__KV_FORMS];
    kt__kv_quantise_fn *quantise;
    void *quantise_user;
    int32_t n_slabs, n_free_slabs;
    int n_places[KT__KV_FORMS];    /* of a slab */
    int64_t n_free[KT__KV_FORMS];  /* places, of slabs that are not free */
    int64_t n_pages[KT__KV_FORMS]; /* in the form */
    int64_t n_kept[KT__KV_FORMS];  /* of these, that the index alone holds */
    uint64_t n_pressed[KT__KV_FORMS];
    int32_t at[KT__KV_FORMS]; /* the slab where a place was taken last */
    uint8_t *form;            /* [n_slabs] */
    uint64_t *taken;          /* [n_slabs] bits of its places */
    int32_t *page_at;         /* [n_slabs << KT__SLAB_SHIFT] */
    bool *altered;            /* [n_ids] */
    int32_t *n_allowing;      /* [n_ids] tables that allow it (kt__kv_press_begin) */
};

static int32_t slab_of(int32_t place) {
    return place >> KT__SLAB_SHIFT;
}

static uint64_t all_of(int n) {
    return n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1;
}

static void note_used(kt__kv *kv) {
    const kt__pressing *p = kv->pressing;
    int64_t n_free = p->n_free[KT__KV_F16] +
                     (int64_t)(p->n_free_slabs - 1) * p->n_places[KT__KV_F16];
    kv->n_used = kv->n_pages - n_free;
}

/* ---- life ---- */

static kt_status make_lists(kt__kv *kv, kt__pressing *p, kt_error *err) {
    size_t n_slabs = (size_t)p->n_slabs, n_ids = (size_t)kv->n_ids;
    p->form = kt__calloc(n_slabs, sizeof *p->form);
    p->taken = kt__calloc(n_slabs, sizeof *p->taken);
    p->page_at = kt__calloc(n_slabs << KT__SLAB_SHIFT, sizeof *p->page_at);
    p->altered = kt__calloc(n_ids, sizeof *p->altered);
    p->n_allowing = kt__calloc(n_ids, sizeof *p->n_allowing);
    kv->place_of = kt__calloc(n_ids, sizeof *kv->place_of);
    if (!p->form || !p->taken || !p->page_at || !p->altered || !p->n_allowing || !kv->place_of)
        return kt__fail_nomem(err, "the lists of pressed pages", n_ids * sizeof(int32_t));
    return KT_OK;
}

static kt__kv_shape form_of(const kt__kv_shape *shape, const kt__kv_room *room, kt__kv_form form) {
    kt__kv_shape out = *shape;
    out.k_form = out.v_form = form;
    memcpy(out.f16_keys, room->f16_keys, sizeof room->f16_keys);
    return out;
}

kt_status kt__press_create(kt__kv *kv, const kt__kv_room *room, kt_error *err) {
    int32_t n_slabs = (int32_t)(kv->n_pages / KT__SPLIT_PAGES);
    if (n_slabs < SLABS_LEAST)
        return kt__fail(err, KT_E_ARG,
                        "a K/V store of %lld pages is too small to press any of them: it takes %d",
                        (long long)kv->n_pages, SLABS_LEAST * KT__SPLIT_PAGES);
    kt__pressing *p = kt__calloc(1, sizeof *p);
    if (!p) return kt__fail_nomem(err, "what presses pages", sizeof *p);
    kv->pressing = p;
    p->n_slabs = p->n_free_slabs = n_slabs;
    kv->n_pages = (int64_t)n_slabs * KT__SPLIT_PAGES;
    KT__STEP(kt__slabs_create_divisible(&kv->shape, kv->n_pages, &kv->slabs, err));
    kv->n_pages -= KT__SPLIT_PAGES;
    for (kt__kv_form f = KT__KV_F16; f < KT__KV_FORMS; f++) {
        p->shapes[f] = form_of(&kv->shape, room, f);
        if (f > KT__KV_F16) KT__STEP(kt__slabs_add_form(kv->slabs, f, &p->shapes[f], err));
        p->n_places[f] = kt__slabs_places(kv->slabs, f);
        if (p->n_places[f] > kv->n_ids / n_slabs) kv->n_ids = (int64_t)p->n_places[f] * n_slabs;
    }
    return make_lists(kv, p, err);
}

void kt__press_destroy(kt__pressing *p) {
    if (!p) return;
    kt__free(p->form);
    kt__free(p->taken);
    kt__free(p->page_at);
    kt__free(p->altered);
    kt__free(p->n_allowing);
    kt__free(p);
}

bool kt__kv_presses(const kt__kv *kv) {
    return kv->pressing != NULL;
}

bool kt__kv_has_quantised(const kt__kv *kv) {
    const kt__pressing *p = kv->pressing;
    return kt__kv_is_quantised(&kv->shape) || (p && p->n_pages[KT__KV_Q8] + p->n_pages[KT__KV_Q4]);
}

void kt__kv_set_quantise(kt__kv *kv, kt__kv_quantise_fn *quantise, void *user) {
    kv->pressing->quantise = quantise;
    kv->pressing->quantise_user = user;
}

/* ---- places ---- */

kt__kv_form kt__press_form_at(const kt__kv *kv, int32_t place) {
    return kv->pressing ? (kt__kv_form)kv->pressing->form[slab_of(place)] : KT__KV_F16;
}

static int32_t find_slab(const kt__pressing *p, kt__kv_form form) {
    int32_t s = p->at[form];
    for (int32_t i = 0; i < p->n_slabs; i++, s = s + 1 < p->n_slabs ? s + 1 : 0) {
        bool full = p->taken[s] == all_of(p->n_places[form]);
        if (p->n_free[form] > 0 ? p->taken[s] && p->form[s] == form && !full : !p->taken[s])
            return s;
    }
    return NO_SLAB;
}

/* There is one, in a slab of that form or in a free one. */
static int32_t take_place(kt__pressing *p, kt__kv_form form) {
    int32_t s = find_slab(p, form);
    int index = 0;
    assert(s != NO_SLAB);
    if (!p->taken[s]) {
        p->form[s] = (uint8_t)form;
        p->n_free[form] += p->n_places[form];
        p->n_free_slabs--;
    }
    while (p->taken[s] >> index & 1) index++;
    p->taken[s] |= (uint64_t)1 << index;
    p->n_free[form]--;
    p->n_pages[form]++;
    p->at[form] = s;
    return (s << KT__SLAB_SHIFT) + index;
}

static void leave_place(kt__pressing *p, int32_t place) {
    int32_t s = slab_of(place), index = place & ((1 << KT__SLAB_SHIFT) - 1);
    kt__kv_form form = (kt__kv_form)p->form[s];
    p->taken[s] &= ~((uint64_t)1 << index);
    p->n_free[form]++;
    p->n_pages[form]--;
    if (p->taken[s]) return;
    p->n_free[form] -= p->n_places[form];
    p->n_free_slabs++;
}

static void set_place(kt__kv *kv, int32_t page, int32_t place) {
    kv->place_of[page] = place;
    kv->pressing->page_at[place] = page;
}

/* ---- slabs that become free ---- */

typedef struct parts {
    uint8_t *k, *v;
} parts;

static parts parts_at(const kt__kv *kv, int32_t place, int layer, int head) {
    kt__kv_form form = kt__press_form_at(kv, place);
    return (parts){kt__slabs_k(kv->slabs, form, place, layer, head),
                   kt__slabs_v(kv->slabs, form, place, layer, head)};
}

static void move_page(kt__kv *kv, int32_t from) {
    kt__pressing *p = kv->pressing;
    int32_t page = p->page_at[from];
    kt__kv_form form = kt__press_form_at(kv, from);
    const kt__kv_shape *shape = &p->shapes[form];
    int32_t to = take_place(p, form);
    for (int layer = 0; layer < shape->n_layer; layer++) {
        if (kt__kv_is_local(shape, layer)) continue;
        for (int head = 0; head < kt__kv_heads_of(shape, layer).n; head++) {
            parts a = parts_at(kv, from, layer, head), b = parts_at(kv, to, layer, head);
            memcpy(b.k, a.k, kt__slabs_k_bytes(shape, layer));
            memcpy(b.v, a.v, kt__slabs_v_bytes(shape, layer));
        }
    }
    set_place(kv, page, to);
}

/* Of a form that has as many free places as a slab, the slab with the fewest pages: these move. */
static bool empty_slab(kt__kv *kv, kt__kv_form form) {
    kt__pressing *p = kv->pressing;
    int32_t best = NO_SLAB;
    int least = 0;
    if (p->n_free[form] < p->n_places[form]) return false;
    for (int32_t s = 0; s < p->n_slabs; s++) {
        int n = __builtin_popcountll(p->taken[s]);
        if (n == 0 || p->form[s] != form || (best != NO_SLAB && n >= least)) continue;
        best = s;
        least = n;
    }
    uint64_t moving = p->taken[best];
    p->n_free[form] -= p->n_places[form] - least; /* its own free places are not for them */
    p->taken[best] = all_of(p->n_places[form]);
    for (int i = 0; i < p->n_places[form]; i++) {
        if (moving >> i & 1) move_page(kv, (best << KT__SLAB_SHIFT) + i);
    }
    p->taken[best] = 0;
    p->n_pages[form] -= least; /* that were counted where they are now, too */
    p->n_free_slabs++;
    return true;
}

/* What is free in slabs of pressed pages becomes free for others, and a slab is in reserve again. */
static void tidy_slabs(kt__kv *kv) {
    while (empty_slab(kv, KT__KV_Q8) || empty_slab(kv, KT__KV_Q4)) {
    }
    while (kv->pressing->n_free_slabs == 0 && empty_slab(kv, KT__KV_F16)) {
    }
    note_used(kv);
}

int64_t kt__kv_n_free(kt__kv *kv) {
    if (kv->pressing) tidy_slabs(kv);
    return kv->n_pages - kv->n_used;
}

/* ---- pages ---- */

void kt__press_give_place(kt__kv *kv, int32_t page) {
    set_place(kv, page, take_place(kv->pressing, KT__KV_F16));
    kv->pressing->altered[page] = false;
    note_used(kv);
}

void kt__press_take_place_back(kt__kv *kv, int32_t page) {
    leave_place(kv->pressing, kv->place_of[page]);
    note_used(kv);
}

void kt__press_count_kept(kt__kv *kv, int32_t page, int by) {
    kv->pressing->n_kept[kt__kv_page_form(kv, page)] += by;
}

/* All places but what others than the index hold comes to: given up, the rest is free. */
int64_t kt__press_n_kept(const kt__kv *kv) {
    const kt__pressing *p = kv->pressing;
    int64_t held = p->n_pages[KT__KV_F16] - p->n_kept[KT__KV_F16];
    for (int f = KT__KV_F16 + 1; f < KT__KV_FORMS; f++) {
        int64_t n = p->n_places[f];
        if (n) held += ((p->n_pages[f] - p->n_kept[f]) * p->n_places[KT__KV_F16] + n - 1) / n;
    }
    return kv->n_used > held ? kv->n_used - held : 0;
}

kt__kv_form kt__kv_page_form(const kt__kv *kv, int32_t page) {
    return kv->pressing ? kt__press_form_at(kv, kv->place_of[page]) : KT__KV_F16;
}

bool kt__kv_page_is_altered(const kt__kv *kv, int32_t page) {
    return kv->pressing && kv->pressing->altered[page];
}

void kt__press_note_written(kt__kv *kv, const kt__kv_table *table, int64_t from) {
    if (!kt__kv_table_is_altered(kv, table)) return;
    for (int32_t i = (int32_t)(from / KT__PAGE_POS); i < table->n_pages; i++)
        kv->pressing->altered[table->pages[i]] = true;
}

bool kt__kv_table_is_altered(const kt__kv *kv, const kt__kv_table *table) {
    for (int32_t i = 0; kv->pressing && i < table->n_pages; i++)
        if (kv->pressing->altered[table->pages[i]]) return true;
    return false;
}

int32_t kt__kv_table_n_pressed(const kt__kv *kv, const kt__kv_table *table) {
    int32_t n = 0, n_altered = 0;
    for (int32_t i = 0; kv->pressing && i < table->n_pages; i++) {
        n += kt__kv_page_form(kv, table->pages[i]) != KT__KV_F16;
        n_altered += kv->pressing->altered[table->pages[i]];
    }
    return n > 0 ? n : n_altered;
}

kt__kv_pressed kt__kv_pressed_of(const kt__kv *kv, const kt__kv_table *table, int64_t split,
                                 int layer) {
    kt__kv_pressed out = {0, KT__KV_F16, KT__KV_F16};
    int64_t begin = split * KT__SPLIT_PAGES;
    if (!kv->pressing || kt__kv_is_local(&kv->shape, layer) || begin >= table->n_pages) return out;
    kt__kv_form form = kt__kv_page_form(kv, table->pages[begin]);
    if (form == KT__KV_F16) return out;
    out.k_form = kt__kv_k_form(&kv->pressing->shapes[form], layer);
    out.v_form = form;
    while (out.n < KT__SPLIT_PAGES && begin + out.n < table->n_pages &&
           kt__kv_page_form(kv, table->pages[begin + out.n]) == form)
        out.n++;
    return out;
}

int32_t kt__press_first_mixed(const kt__kv *kv, const kt__kv_table *table) {
    kt__kv_form before = KT__KV_F16;
    for (int32_t i = 0; kv->pressing && i < table->n_pages; i++) {
        kt__kv_form form = kt__kv_page_form(kv, table->pages[i]);
        if (i % KT__SPLIT_PAGES != 0 && form != KT__KV_F16 && form != before) return i;
        before = form;
    }
    return -1;
}

void kt__kv_get_forms(const kt__kv *kv, kt__kv_forms *out) {
    const kt__pressing *p = kv->pressing;
    *out = (kt__kv_forms){0};
    for (int f = 0; p && f < KT__KV_FORMS; f++) {
        out->n_pages[f] = p->n_pages[f];
        out->n_pressed[f] = p->n_pressed[f];
    }
}

/* ---- pressing ---- */

static void press_part(const kt__pressing *p, kt__kv_form was, kt__kv_form form, bool key, int dim,
                       const uint8_t *from, uint8_t *to) {
    if (form == KT__KV_F16) {
        memcpy(to, from, (size_t)dim * KT__PAGE_POS * sizeof(kt__f16));
    } else {
        p->quantise(p->quantise_user, was, form, key, dim, from, to);
    }
}

void kt__kv_page_press(kt__kv *kv, int32_t page, kt__kv_form form) {
    kt__pressing *p = kv->pressing;
    const kt__kv_shape *shape = &p->shapes[form];
    kt__kv_form was = kt__kv_page_form(kv, page);
    int32_t from = kv->place_of[page], to = take_place(p, form);
    bool is_kept = kv->kept[page] && kv->refs[page] == 1;
    for (int layer = 0; layer < shape->n_layer; layer++) {
        kt__kv_heads heads = kt__kv_heads_of(shape, layer);
        if (kt__kv_is_local(shape, layer)) continue;
        for (int head = 0; head < heads.n; head++) {
            parts a = parts_at(kv, from, layer, head), b = parts_at(kv, to, layer, head);
            press_part(p, was, kt__kv_k_form(shape, layer), true, heads.dim_k, a.k, b.k);
            press_part(p, was, form, false, heads.dim_v, a.v, b.v);
        }
    }
    if (is_kept) kt__press_count_kept(kv, page, -1);
    leave_place(p, from);
    set_place(kv, page, to);
    if (is_kept) kt__press_count_kept(kv, page, 1);
    p->altered[page] = true;
    p->n_pressed[form]++;
    if (p->n_free_slabs == 0) (void)empty_slab(kv, was);
    note_used(kv);
}

/* Places in f16 that become free where m pages are pressed: to q4, with slabs of q8 that become free. */
static int64_t gain_of(const kt__pressing *p, kt__kv_form form, int64_t m) {
    int64_t more = m - p->n_free[form], n = p->n_places[form], freed = m;
    int64_t slabs = more > 0 && n > 0 ? (more + n - 1) / n : 0;
    if (form == KT__KV_Q4)
        freed = (m + p->n_free[KT__KV_Q8]) / p->n_places[KT__KV_Q8] * p->n_places[KT__KV_F16];
    return freed - slabs * p->n_places[KT__KV_F16];
}

int64_t kt__kv_press_how_many(const kt__kv *kv, kt__kv_form form, int64_t most, int64_t wanted) {
    const kt__pressing *p = kv->pressing;
    int64_t best = 0, gain = 0;
    int64_t step = form == KT__KV_Q4 ? KT__SPLIT_PAGES : 1;
    if (p->n_free_slabs == 0 && most > p->n_free[form]) most = p->n_free[form];
    for (int64_t m = step; m <= most && gain < wanted && p->n_places[form] > 0; m += step) {
        if (gain_of(p, form, m) <= gain) continue;
        gain = gain_of(p, form, m);
        best = m;
    }
    return best;
}

int64_t kt__kv_press_gain(const kt__kv *kv, kt__kv_form form, int64_t n) {
    return gain_of(kv->pressing, form, n);
}

void kt__kv_press_begin(kt__kv *kv) {
    memset(kv->pressing->n_allowing, 0, (size_t)kv->n_ids * sizeof(int32_t));
}

void kt__kv_press_allow(kt__kv *kv, const kt__kv_table *table) {
    for (int32_t i = 0; i < table->n_pages; i++) kv->pressing->n_allowing[table->pages[i]]++;
}

/* Nobody holds the page who does not allow it. */
static bool may_be_pressed(const kt__kv *kv, int32_t page) {
    int32_t n = kv->pressing->n_allowing[page];
    return kv->refs[page] - kv->kept[page] == (n < 0 ? -n : n);
}

/* Presses it, or counts it where no other table's count had it. */
static int32_t press_or_count(kt__kv *kv, int32_t page, kt__kv_form form, bool only_count) {
    int32_t *n = &kv->pressing->n_allowing[page];
    if (!only_count) kt__kv_page_press(kv, page, form);
    if (only_count && *n < 0) return 0;
    if (only_count) *n = -*n;
    return 1;
}

/* The pages of a split, if all are in q8 or q4 and may be pressed. */
static int32_t narrow_split(kt__kv *kv, const int32_t *pages, bool only_count) {
    int32_t n = 0;
    for (int i = 0; i < KT__SPLIT_PAGES; i++)
        if (kt__kv_page_form(kv, pages[i]) == KT__KV_F16 || !may_be_pressed(kv, pages[i])) return 0;
    for (int i = 0; i < KT__SPLIT_PAGES; i++)
        if (kt__kv_page_form(kv, pages[i]) == KT__KV_Q8)
            n += press_or_count(kv, pages[i], KT__KV_Q4, only_count);
    return n;
}

int32_t kt__kv_table_press(kt__kv *kv, const kt__kv_table *table, int64_t n_pos, kt__kv_form form,
                           int64_t most, bool only_count) {
    int32_t n = 0, end = (int32_t)(n_pos / KT__PAGE_POS);
    bool open = true;
    for (int32_t i = KT__SPLIT_PAGES; form == KT__KV_Q4 && i + KT__SPLIT_PAGES <= end && n < most;
         i += KT__SPLIT_PAGES)
        n += narrow_split(kv, table->pages + i, only_count);
    for (int32_t i = 0; form == KT__KV_Q8 && i < end && n < most; i++) {
        int32_t page = table->pages[i];
        kt__kv_form has = kt__kv_page_form(kv, page);
        open = open || i % KT__SPLIT_PAGES == 0;
        if (has == form) continue;
        open = open && has == KT__KV_F16 && may_be_pressed(kv, page);
        if (open) n += press_or_count(kv, page, form, only_count);
    }
    return n;
}

/* ---- as far as it goes ---- */

/* Places for pages in f16 that are free where so many are in each form. */
static int64_t free_with(const int n_places[KT__KV_FORMS], int64_t n_slabs,
                         const int64_t n_pages[KT__KV_FORMS]) {
    for (int f = KT__KV_F16 + 1; f < KT__KV_FORMS; f++)
        n_slabs -= (n_pages[f] + n_places[f] - 1) / n_places[f];
    return (n_slabs - 1) * n_places[KT__KV_F16] - n_pages[KT__KV_F16];
}

/* The most places that are free after up to n_more pages were pressed from f16 to q8, and of how many: none, all, or
 * what fills slabs. */
static int64_t free_after(const int n_places[KT__KV_FORMS], int64_t n_slabs,
                          const int64_t n_pages[KT__KV_FORMS], int64_t n_more, int64_t *best) {
    int64_t q8 = n_pages[KT__KV_Q8], most = INT64_MIN;
    const int64_t counts[] = {0, (q8 + n_more) / n_places[KT__KV_Q8] * n_places[KT__KV_Q8] - q8,
                              n_more};
    for (int i = 0; i < 3; i++) {
        const int64_t n[KT__KV_FORMS] = {n_pages[KT__KV_F16] - counts[i], q8 + counts[i],
                                         n_pages[KT__KV_Q4]};
        int64_t n_free = free_with(n_places, n_slabs, n);
        if (counts[i] < 0 || n_free <= most) continue;
        most = n_free;
        *best = counts[i];
    }
    return most;
}

/* Whether a table of n_wide and n_narrow pages has place, however these are pressed: all whole splits but the first to
 * q4, or fewer, if the rest would not fill a slab. */
static bool has_place(const int n_places[KT__KV_FORMS], int64_t n_slabs, int64_t n_wide,
                      int64_t n_narrow) {
    int64_t n_q4 = n_narrow / KT__SPLIT_PAGES * KT__SPLIT_PAGES - KT__SPLIT_PAGES, unused;
    if (n_q4 < 0) n_q4 = 0;
    for (int64_t least = n_q4 - (int64_t)2 * n_places[KT__KV_Q4]; n_q4 >= least && n_q4 >= 0;
         n_q4 -= KT__SPLIT_PAGES) {
        const int64_t n[KT__KV_FORMS] = {n_wide + n_narrow - n_q4, 0, n_q4};
        if (free_after(n_places, n_slabs, n, n_narrow - n_q4, &unused) >= 0) return true;
    }
    return false;
}

static int64_t most_pressed(const int n_places[KT__KV_FORMS], int64_t n_slabs, int32_t n_wide) {
    int64_t n = 0, step = 1;
    if (n_places[KT__KV_Q8] == 0 || n_places[KT__KV_Q4] == 0)
        return (n_slabs - 1) * n_places[KT__KV_F16];
    while (has_place(n_places, n_slabs, n_wide, n + step)) step *= 2;
    for (; step > 0; step /= 2)
        if (has_place(n_places, n_slabs, n_wide, n + step)) n += step;
    return n + n_wide;
}

int64_t kt__kv_n_pages_pressed(const kt__kv *kv, int32_t n_wide) {
    return most_pressed(kv->pressing->n_places, kv->pressing->n_slabs, n_wide);
}

int64_t kt__kv_plan_pressed(const kt__kv_shape *shape, const kt__kv_room *room, int64_t n_pages,
                            int32_t n_wide) {
    int n_places[KT__KV_FORMS] = {KT__SPLIT_PAGES};
    for (kt__kv_form f = KT__KV_F16 + 1; f < KT__KV_FORMS; f++) {
        kt__kv_shape s = form_of(shape, room, f);
        n_places[f] = kt__slabs_divided(shape, &s);
    }
    return most_pressed(n_places, n_pages / KT__SPLIT_PAGES, n_wide);
}

/* How many of a split's pages are in each form, if all may be in q4; else none. */
static bool count_split(const kt__kv *kv, const int32_t *pages, int64_t n[KT__KV_FORMS]) {
    memset(n, 0, KT__KV_FORMS * sizeof *n);
    for (int i = 0; i < KT__SPLIT_PAGES; i++) {
        if (!may_be_pressed(kv, pages[i])) return false;
        n[kt__kv_page_form(kv, pages[i])]++;
    }
    return true;
}

/* Up to which position whole splits are best pressed to q4, and of how many pages after that to q8, so that most places
 * are free; false: no more are than now. */
typedef struct aim {
    int32_t n_whole; /* pages */
    int64_t n_part;
} aim;

static bool find_aim(kt__kv *kv, const kt__kv_table *table, int32_t end, aim *out) {
    const kt__pressing *p = kv->pressing;
    int64_t n[KT__KV_FORMS], split[KT__KV_FORMS], most = kt__kv_n_free(kv), best = 0;
    int64_t left = kt__kv_table_press(kv, table, (int64_t)end * KT__PAGE_POS, KT__KV_Q8, INT64_MAX,
                                      true);
    *out = (aim){0, 0};
    memcpy(n, p->n_pages, sizeof n);
    for (int32_t i = KT__SPLIT_PAGES; i + KT__SPLIT_PAGES <= end; i += KT__SPLIT_PAGES) {
        if (!count_split(kv, table->pages + i, split)) continue;
        n[KT__KV_F16] -= split[KT__KV_F16];
        n[KT__KV_Q8] -= split[KT__KV_Q8];
        n[KT__KV_Q4] += split[KT__KV_F16] + split[KT__KV_Q8];
        left -= split[KT__KV_F16];
        int64_t n_free = free_after(p->n_places, p->n_slabs, n, left, &best);
        if (n_free <= most) continue;
        most = n_free;
        *out = (aim){i + KT__SPLIT_PAGES, best};
    }
    return out->n_whole > 0;
}

/* Pages that may be pressed to the form before other places have to become free. */
static int64_t room_in(const kt__pressing *p, kt__kv_form form) {
    int64_t n = p->n_free[form] + (p->n_free_slabs > 0 ? p->n_places[form] : 0);
    return form == KT__KV_Q4 ? n / KT__SPLIT_PAGES * KT__SPLIT_PAGES : n;
}

static int32_t press_within(kt__kv *kv, const kt__kv_table *table, int32_t end, kt__kv_form form,
                            int64_t most) {
    int64_t room = room_in(kv->pressing, form);
    return kt__kv_table_press(kv, table, (int64_t)end * KT__PAGE_POS, form,
                              most < room ? most : room, false);
}

bool kt__kv_table_press_both(kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    int32_t end = (int32_t)(n_pos / KT__PAGE_POS), n;
    aim to;
    if (kv->pressing->n_places[KT__KV_Q8] == 0 || kv->pressing->n_places[KT__KV_Q4] == 0 ||
        !find_aim(kv, table, end, &to))
        return false;
    do {
        n = press_within(kv, table, to.n_whole, KT__KV_Q4, INT64_MAX);
        n += press_within(kv, table, to.n_whole, KT__KV_Q8, INT64_MAX);
        tidy_slabs(kv);
    } while (n > 0);
    (void)press_within(kv, table, end, KT__KV_Q8, to.n_part);
    tidy_slabs(kv);
    return true;
}
