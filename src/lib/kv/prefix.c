#include "kv/prefix.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"

#include <assert.h>
#include <string.h>

/* ---- ends ---- */

static size_t f16_bytes(const kt__kv_shape *shape, int64_t n_pos) {
    return (size_t)kt__kv_n_end_pages(shape, n_pos) * kt__kv_f16_copy_bytes(shape);
}

size_t kt__kv_end_bytes(const kt__kv_shape *shape, int64_t n_pos) {
    return f16_bytes(shape, n_pos) + shape->state_bytes;
}

size_t kt__kv_end_bytes_most(const kt__kv_shape *shape) {
    return kt__kv_end_bytes(shape, (int64_t)KT__PAGE_POS * (shape->n_tail + 2));
}

static int32_t end_page(const kt__kv *kv, const kt__kv_table *table, int64_t n_pos, int32_t i) {
    return table->pages[kt__kv_end_page(kt__kv_get_shape(kv), n_pos, i)];
}

bool kt__kv_has_end(kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    if (n_pos > (int64_t)table->n_pages * KT__PAGE_POS) return false;
    for (int32_t i = 0; i < kt__kv_n_end_pages(shape, n_pos); i++) {
        if (!kt__kv_page_has_f16(kv, end_page(kv, table, n_pos, i))) return false;
    }
    return !shape->state_bytes || kt__kv_table_state_at(kv, table, n_pos) != KT__NO_STATE;
}

kt__kv_end kt__kv_end_of(kt__kv *kv, const kt__kv_table *table, int64_t n_pos) {
    bool has_state = kt__kv_get_shape(kv)->state_bytes > 0;
    return (kt__kv_end){.n_pos = n_pos,
                        .pages = table->pages,
                        .state = has_state ? kt__kv_table_state_at(kv, table, n_pos)
                                           : KT__NO_STATE};
}

void kt__kv_end_read(const kt__kv *kv, const kt__kv_end *end, void *out) {
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    uint8_t *at = out;
    for (int32_t i = 0; i < kt__kv_n_end_pages(shape, end->n_pos); i++) {
        kt__kv_f16_copy_read(kv, end->pages[kt__kv_end_page(shape, end->n_pos, i)], at);
        at += kt__kv_f16_copy_bytes(shape);
    }
    if (shape->state_bytes) memcpy(at, kt__kv_state_data(kv, end->state), shape->state_bytes);
}

kt__kv_end kt__kv_end_new(const kt__kv_table *table, int64_t n_pos) {
    return (kt__kv_end){.n_pos = n_pos, .pages = table->pages, .state = table->next};
}

void kt__kv_end_write(kt__kv *kv, const kt__kv_end *end, const void *bytes) {
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    const uint8_t *at = bytes;
    for (int32_t i = 0; i < kt__kv_n_end_pages(shape, end->n_pos); i++) {
        kt__kv_f16_copy_write(kv, end->pages[kt__kv_end_page(shape, end->n_pos, i)], at);
        at += kt__kv_f16_copy_bytes(shape);
    }
    if (shape->state_bytes) memcpy(kt__kv_state_data(kv, end->state), at, shape->state_bytes);
}

void kt__kv_end_take(kt__kv *kv, kt__kv_table *table, const kt__kv_end *end) {
    if (!kt__kv_get_shape(kv)->state_bytes) return;
    assert(table->next == end->state && end->state != KT__NO_STATE);
    table->next = KT__NO_STATE;
    kt__kv_table_set_state(kv, table, end->state, end->n_pos);
    kt__kv_table_keep(kv, table, end->state, end->n_pos, KT__SNAPSHOT_MARK);
}

/* ---- the index ---- */

/* ---- keys: SipHash, each under its parent's key: without the root's key, which is secret, no block
 * of somebody else can be aimed at ---- */

kt__kv_key kt__kv_key_root(const void *bytes, size_t n) {
    const kt__kv_key name = {{0x6b656e74616e6720u, 0x4b2f5620626c6f63u}};
    kt__kv_key key;
    kt__siphash128(name.w, bytes, n, key.w);
    return key;
}

kt__kv_key kt__kv_key_next(kt__kv_key parent, const int32_t *ids) {
    uint8_t bytes[KT__PAGE_POS * 4];
    kt__kv_key key;
    for (int i = 0; i < KT__PAGE_POS; i++) kt__le_put(bytes + 4 * i, (uint32_t)ids[i], 4);
    kt__siphash128(parent.w, bytes, sizeof bytes, key.w);
    return key;
}

/* ---- the index ---- */

enum { NONE = -1, GHOSTS_PER_PAGE = 2, MIN_GHOSTS = 256, EXPLAIN_STEPS = 4096 };

/* A block, with its page or (given up) without. Entries lie in one array and hang in four lists:
 * the hash bucket; the children of one parent (by the parent's key: it may be gone); and one of two
 * queues by last use, of those with a page and of those without. */
typedef struct entry {
    kt__kv_key key, parent;
    int32_t ids[KT__PAGE_POS];
    int32_t page; /* NONE: given up */
    int32_t index;
    int32_t bucket_next;
    int32_t child_next, child_prev; /* within the parent's children */
    int32_t newer, older;           /* in the queue */
} entry;

typedef struct queue {
    int32_t oldest, newest;
    int64_t n;
} queue;

struct kt__prefix {
    kt__kv *kv;
    kt__kv_store store;
    bool has_store;
    entry *entries;
    int32_t n_entries, free_entry; /* free ones are linked by bucket_next */
    int32_t *buckets;              /* [n_buckets] by key */
    int32_t *children;             /* [n_buckets] by the parent's key: the first child */
    uint32_t n_buckets;            /* a power of two */
    queue held, ghosts;
    int64_t n_evicted;
};

static uint32_t slot_of(const kt__prefix *p, kt__kv_key key) {
    return (uint32_t)key.w[0] & (p->n_buckets - 1);
}

static uint32_t child_slot(const kt__prefix *p, kt__kv_key key) {
    return (uint32_t)key.w[1] & (p->n_buckets - 1);
}

static void queue_add(kt__prefix *p, queue *q, int32_t e) {
    entry *it = &p->entries[e];
    it->newer = NONE;
    it->older = q->newest;
    if (q->newest != NONE) {
        p->entries[q->newest].newer = e;
    } else {
        q->oldest = e;
    }
    q->newest = e;
    q->n++;
}

static void queue_remove(kt__prefix *p, queue *q, int32_t e) {
    entry *it = &p->entries[e];
    if (it->newer != NONE) {
        p->entries[it->newer].older = it->older;
    } else {
        q->newest = it->older;
    }
    if (it->older != NONE) {
        p->entries[it->older].newer = it->newer;
    } else {
        q->oldest = it->newer;
    }
    q->n--;
}

static queue *queue_of(kt__prefix *p, int32_t e) {
    return p->entries[e].page == NONE ? &p->ghosts : &p->held;
}

static void touch_entry(kt__prefix *p, int32_t e) {
    queue *q = queue_of(p, e);
    queue_remove(p, q, e);
    queue_add(p, q, e);
}

static void unlink_entry(kt__prefix *p, int32_t e) {
    entry *it = &p->entries[e];
    int32_t *at = &p->buckets[slot_of(p, it->key)];
    while (*at != e) at = &p->entries[*at].bucket_next;
    *at = it->bucket_next;
    if (it->child_prev != NONE) {
        p->entries[it->child_prev].child_next = it->child_next;
    } else {
        p->children[child_slot(p, it->parent)] = it->child_next;
    }
    if (it->child_next != NONE) p->entries[it->child_next].child_prev = it->child_prev;
    queue_remove(p, queue_of(p, e), e);
    it->bucket_next = p->free_entry;
    p->free_entry = e;
}

static int32_t prefix_find(const kt__prefix *p, const kt__kv_block *block) {
    int32_t e = p->buckets[slot_of(p, block->key)];
    for (; e != NONE; e = p->entries[e].bucket_next) {
        const entry *it = &p->entries[e];
        if (kt__kv_key_equal(it->key, block->key)) {
            bool same = kt__kv_key_equal(it->parent, block->parent) &&
                        memcmp(it->ids, block->ids, sizeof it->ids) == 0;
            return same ? e : NONE;
        }
    }
    return NONE;
}

static bool is_key_taken(const kt__prefix *p, kt__kv_key key) {
    int32_t e = p->buckets[slot_of(p, key)];
    while (e != NONE && !kt__kv_key_equal(p->entries[e].key, key)) e = p->entries[e].bucket_next;
    return e != NONE;
}

/* ---- giving up ---- */

static void give_up(kt__prefix *p, int32_t e) {
    entry *it = &p->entries[e];
    queue_remove(p, &p->held, e);
    kt__kv_page_set_kept(p->kv, it->page, false);
    kt__kv_page_drop(p->kv, it->page);
    it->page = NONE;
    queue_add(p, &p->ghosts, e);
    p->n_evicted++;
}

static int32_t find_parent(const kt__prefix *p, int32_t e) {
    kt__kv_key parent = p->entries[e].parent;
    e = p->buckets[slot_of(p, parent)];
    while (e != NONE && !kt__kv_key_equal(p->entries[e].key, parent)) e = p->entries[e].bucket_next;
    return e;
}

/* Presses the block's page and those before it in its split that are in the form before, up to `most`, or counts them; 0
 * where somebody else holds one, one is not there, or (to q4) the split is not whole, or the first. */
static int64_t press_entry(kt__prefix *p, int32_t e, kt__kv_form form, int64_t most,
                           bool only_count) {
    int32_t pages[KT__SPLIT_PAGES], n = 0, index = p->entries[e].index;
    bool whole = index % KT__SPLIT_PAGES == KT__SPLIT_PAGES - 1 && index >= KT__SPLIT_PAGES;
    if (form == KT__KV_Q4 && !whole) return 0;
    for (int i = index % KT__SPLIT_PAGES; i >= 0; i--) {
        int32_t page = e == NONE ? NONE : p->entries[e].page;
        if (page == NONE) return 0;
        kt__kv_form has = kt__kv_page_form(p->kv, page);
        bool other = form == KT__KV_Q4 ? has == KT__KV_F16 : has == KT__KV_Q4;
        if (other) return 0; /* a split's are of one form */
        if (has < form && kt__kv_page_refs(p->kv, page) > 1) return 0;
        if (has < form) pages[n++] = page;
        if (i > 0) e = find_parent(p, e);
    }
    if (form == KT__KV_Q4) most = n; /* all of them, or none */
    for (int i = n - 1; i >= 0 && n - 1 - i < most && !only_count; i--)
        kt__kv_page_press(p->kv, pages[i], form);
    return n < most ? n : most;
}

/* What nobody uses is pressed, so that it need not be given up: least recently used first. */
static void press_kept(kt__prefix *p, kt__kv_form form, int64_t wanted) {
    int64_t most = 0, n;
    if (wanted <= 0) return;
    for (int32_t e = p->held.oldest; e != NONE; e = p->entries[e].newer) {
        if (kt__kv_page_form(p->kv, p->entries[e].page) < form)
            most += press_entry(p, e, form, 1, true); /* each page is some entry's own */
    }
    n = kt__kv_press_how_many(p->kv, form, most, wanted);
    for (int32_t e = p->held.oldest; e != NONE && n > 0; e = p->entries[e].newer) {
        if (kt__kv_page_form(p->kv, p->entries[e].page) < form)
            n -= press_entry(p, e, form, n, false);
    }
}

/* Least recently used first. Pages that sequences hold, too, would free nothing. */
static void reclaim_pages(void *user, int64_t n_pages) {
    kt__prefix *p = user;
    int64_t until = kt__kv_n_free(p->kv) + n_pages;
    for (kt__kv_form form = KT__KV_Q8; kt__kv_presses(p->kv) && form <= KT__KV_Q4; form++)
        press_kept(p, form, until - kt__kv_n_free(p->kv));
    int32_t e = p->held.oldest;
    while (e != NONE && kt__kv_n_free(p->kv) < until) {
        int32_t newer = p->entries[e].newer;
        int32_t page = p->entries[e].page;
        if (kt__kv_page_refs(p->kv, page) == 1 && kt__kv_page_has_place(p->kv, page)) give_up(p, e);
        e = newer;
    }
}

/* The page is nowhere any more. */
static void forget_lost(void *user, int32_t page) {
    kt__prefix *p = user;
    int32_t e = p->held.oldest;
    while (e != NONE && p->entries[e].page != page) e = p->entries[e].newer;
    if (e != NONE) give_up(p, e);
}

/* An entry to fill: a free one, that of the oldest block without a page, or of the oldest block. */
static int32_t new_entry(kt__prefix *p) {
    if (p->free_entry == NONE && p->ghosts.n == 0 && p->held.n > 0) give_up(p, p->held.oldest);
    if (p->free_entry == NONE && p->ghosts.n > 0) unlink_entry(p, p->ghosts.oldest);
    int32_t e = p->free_entry;
    if (e != NONE) p->free_entry = p->entries[e].bucket_next;
    return e;
}

static void hold_page(kt__prefix *p, int32_t e, int32_t page) {
    p->entries[e].page = page;
    kt__kv_page_ref(p->kv, page);
    kt__kv_page_set_kept(p->kv, page, true);
    queue_add(p, &p->held, e);
}

/* The index takes a reference of its own on page. NONE: the key belongs to other tokens. */
static int32_t add_entry(kt__prefix *p, const kt__kv_block *block, int32_t page) {
    if (is_key_taken(p, block->key)) return NONE;
    int32_t e = new_entry(p);
    if (e == NONE) return NONE;
    entry *it = &p->entries[e];
    it->key = block->key;
    it->parent = block->parent;
    memcpy(it->ids, block->ids, sizeof it->ids);
    it->index = block->index;
    int32_t *bucket = &p->buckets[slot_of(p, it->key)];
    it->bucket_next = *bucket;
    *bucket = e;
    int32_t *child = &p->children[child_slot(p, it->parent)];
    it->child_prev = NONE;
    it->child_next = *child;
    if (*child != NONE) p->entries[*child].child_prev = e;
    *child = e;
    hold_page(p, e, page);
    return e;
}

/* ---- life ---- */

static kt_status prefix_allocate(kt__prefix *p, size_t max_blocks, kt_error *err) {
    size_t n_pages = (size_t)kt__kv_n_pages(p->kv);
    size_t n = max_blocks ? max_blocks : n_pages + GHOSTS_PER_PAGE * n_pages + MIN_GHOSTS;
    if (n > INT32_MAX / 2) n = INT32_MAX / 2;
    p->n_buckets = 16;
    while (p->n_buckets < n) p->n_buckets *= 2;
    p->entries = kt__calloc(n, sizeof *p->entries);
    p->buckets = kt__calloc(p->n_buckets, sizeof *p->buckets);
    p->children = kt__calloc(p->n_buckets, sizeof *p->children);
    if (!p->entries || !p->buckets || !p->children)
        return kt__fail_nomem(err, "the prefix index", n * sizeof *p->entries);
    p->n_entries = (int32_t)n;
    p->held = p->ghosts = (queue){NONE, NONE, 0};
    for (uint32_t i = 0; i < p->n_buckets; i++) p->buckets[i] = p->children[i] = NONE;
    for (int32_t i = 0; i < p->n_entries; i++)
        p->entries[i].bucket_next = i + 1 < p->n_entries ? i + 1 : NONE;
    return KT_OK;
}

kt_status kt__prefix_create(kt__kv *kv, size_t max_blocks, kt__prefix **out, kt_error *err) {
    *out = NULL;
    kt__prefix *p = kt__calloc(1, sizeof *p);
    if (!p) return kt__fail_nomem(err, "the prefix index", sizeof *p);
    p->kv = kv;
    p->held.oldest = NONE;
    kt_status status = prefix_allocate(p, max_blocks, err);
    if (status != KT_OK) {
        kt__prefix_destroy(p);
        return status;
    }
    kt__kv_set_reclaim(kv, reclaim_pages, p);
    kt__kv_set_lost(kv, forget_lost);
    *out = p;
    return KT_OK;
}

void kt__prefix_destroy(kt__prefix *p) {
    if (!p) return;
    for (int32_t e = p->held.oldest; e != NONE; e = p->entries[e].newer) {
        kt__kv_page_set_kept(p->kv, p->entries[e].page, false);
        kt__kv_page_drop(p->kv, p->entries[e].page);
    }
    kt__kv_set_lost(p->kv, NULL);
    kt__kv_set_reclaim(p->kv, NULL, NULL);
    kt__free(p->entries);
    kt__free(p->buckets);
    kt__free(p->children);
    kt__free(p);
}

void kt__prefix_set_store(kt__prefix *p, const kt__kv_store *store) {
    p->has_store = store != NULL;
    p->store = store ? *store : (kt__kv_store){0};
}

const kt__kv_store *kt__prefix_store(const kt__prefix *p) {
    return p->has_store ? &p->store : NULL;
}

/* ---- use ---- */

static kt__kv_block block_after(const kt__prefix_cursor *cursor, const int32_t *ids) {
    kt__kv_block block = {.parent = cursor->key,
                          .ids = ids + (size_t)cursor->n_block * KT__PAGE_POS,
                          .index = cursor->n_block};
    block.key = kt__kv_key_next(block.parent, block.ids);
    return block;
}

static void advance_cursor(kt__prefix_cursor *cursor, const int32_t *ids, int32_t n_block) {
    for (; cursor->n_block < n_block; cursor->n_block++)
        cursor->key = kt__kv_key_next(cursor->key, ids + (size_t)cursor->n_block * KT__PAGE_POS);
}

kt__prefix_cursor kt__prefix_cursor_at(kt__kv_key root, const int32_t *ids, int32_t n_block) {
    kt__prefix_cursor cursor = {root, 0};
    advance_cursor(&cursor, ids, n_block);
    return cursor;
}

static void move_on(kt__prefix_cursor *cursor, const kt__kv_block *block) {
    cursor->key = block->key;
    cursor->n_block++;
}

static bool has_block(const kt__prefix_cursor *cursor, size_t n) {
    return ((size_t)cursor->n_block + 1) * KT__PAGE_POS <= n;
}

/* A chain's blocks count as used from its end to its beginning: the end is given up first, since
 * without the beginning it could not be found. */
static void touch_chain(kt__prefix *p, int32_t last) {
    for (int32_t e = last; e != NONE; e = find_parent(p, e)) touch_entry(p, e);
}

void kt__prefix_match(kt__prefix *p, kt__prefix_cursor *cursor, const int32_t *ids, size_t n,
                      bool altered, kt__kv_table *table) {
    int32_t last = NONE;
    assert(table->n_pages == cursor->n_block);
    while (has_block(cursor, n)) {
        kt__kv_block block = block_after(cursor, ids);
        int32_t e = prefix_find(p, &block);
        if (e == NONE || p->entries[e].page == NONE) break;
        if (!altered && kt__kv_page_is_altered(p->kv, p->entries[e].page)) break;
        kt__kv_table_set(p->kv, table, table->n_pages, p->entries[e].page);
        move_on(cursor, &block);
        last = e;
    }
    touch_chain(p, last);
}

static int common_length(const int32_t *a, const int32_t *b, size_t n_b) {
    int n = 0;
    while (n < KT__PAGE_POS && (size_t)n < n_b && a[n] == b[n]) n++;
    return n;
}

int32_t kt__prefix_match_part(kt__prefix *p, const kt__prefix_cursor *cursor, const int32_t *ids,
                              size_t n, bool altered, kt__kv_table *table) {
    size_t from = (size_t)cursor->n_block * KT__PAGE_POS;
    int most = 0, steps = EXPLAIN_STEPS;
    int32_t best = NONE;
    assert(table->n_pages == cursor->n_block);
    if (from >= n) return 0;
    int32_t e = p->children[child_slot(p, cursor->key)];
    for (; e != NONE && steps-- > 0; e = p->entries[e].child_next) {
        const entry *it = &p->entries[e];
        if (it->page == NONE || !kt__kv_key_equal(it->parent, cursor->key)) continue;
        if (!altered && kt__kv_page_is_altered(p->kv, it->page)) continue;
        if (kt__kv_page_form(p->kv, it->page) != KT__KV_F16) continue; /* cannot be continued */
        int same = common_length(it->ids, ids + from, n - from);
        if (same > most) most = same, best = e;
    }
    if (best == NONE) return 0;
    kt__kv_table_set(p->kv, table, table->n_pages, p->entries[best].page);
    touch_chain(p, best);
    return most;
}

int32_t kt__prefix_forget(kt__prefix *p, kt__kv_key root, const int32_t *ids, size_t n) {
    kt__prefix_cursor cursor = {root, 0};
    int32_t n_given = 0;
    while (has_block(&cursor, n)) {
        kt__kv_block block = block_after(&cursor, ids);
        int32_t e = prefix_find(p, &block);
        if (e != NONE && p->entries[e].page != NONE) {
            give_up(p, e);
            n_given++;
        }
        move_on(&cursor, &block);
    }
    return n_given;
}

/* The block's entry, made if need be, gets the page (a reference of its own), also in place of one that is altered
 * where this is not. NONE: there is no place for it, or it has one. */
static int32_t remember_block(kt__prefix *p, const kt__kv_block *block, int32_t page) {
    int32_t e = prefix_find(p, block);
    if (e == NONE) return add_entry(p, block, page);
    if (p->entries[e].page != NONE && kt__kv_page_is_altered(p->kv, p->entries[e].page) &&
        !kt__kv_page_is_altered(p->kv, page))
        give_up(p, e);
    if (p->entries[e].page != NONE) return NONE;
    queue_remove(p, &p->ghosts, e);
    hold_page(p, e, page);
    return e;
}

bool kt__prefix_load(kt__prefix *p, kt__prefix_cursor *cursor, const int32_t *ids, size_t n,
                     kt__kv_table *table) {
    if (!p->has_store || !has_block(cursor, n)) return false;
    kt__kv_block block = block_after(cursor, ids);
    if (p->store.has && !p->store.has(p->store.user, &block)) return false;
    int32_t page = kt__kv_page_take(p->kv);
    if (page < 0) return false;
    bool found = p->store.get(p->store.user, &block, p->kv, page);
    if (found) {
        kt__kv_table_set(p->kv, table, table->n_pages, page);
        (void)remember_block(p, &block, page);
        kt__kv_table_pass(p->kv, table);
        move_on(cursor, &block);
    }
    kt__kv_page_drop(p->kv, page);
    return found;
}

/* Whether the store gets blocks as they become known. */
static bool hands_on(const kt__prefix *p) {
    return p->has_store && !kt__kv_reads_f16_ends(kt__kv_get_shape(p->kv));
}

void kt__prefix_insert(kt__prefix *p, kt__prefix_cursor *cursor, const int32_t *ids, int64_t n_pos,
                       kt__kv_table *table) {
    int32_t last = NONE;
    while (has_block(cursor, (size_t)n_pos)) {
        kt__kv_block block = block_after(cursor, ids);
        int32_t page = table->pages[cursor->n_block], e = prefix_find(p, &block);
        int32_t known = e == NONE ? NONE : p->entries[e].page;
        bool altered = kt__kv_page_is_altered(p->kv, page);
        bool same = known != NONE && !altered && !kt__kv_page_is_altered(p->kv, known);
        if (same && known != page) {
            kt__kv_snapshot_move(p->kv, page, known);
            kt__kv_table_adopt(p->kv, table, cursor->n_block, known);
        } else if (!same && remember_block(p, &block, page) != NONE) {
            e = prefix_find(p, &block);
            if (!altered && hands_on(p) && kt__kv_page_has_local(p->kv, page))
                p->store.put(p->store.user, &block, p->kv, page);
        }
        last = e;
        move_on(cursor, &block);
    }
    touch_chain(p, last);
}

/* ---- a store with ends ---- */

/* Blocks that are read quantised after n_block of them. */
static int32_t n_quantised(const kt__prefix *p, int32_t n_block) {
    return kt__kv_tail_from(kt__kv_get_shape(p->kv), (int64_t)n_block * KT__PAGE_POS);
}

/* The end at the cursor; whole is after the blocks that are read quantised there. */
static kt__kv_block end_of(const kt__prefix_cursor *cursor, const kt__prefix_cursor *whole,
                           const int32_t *ids) {
    int32_t last = cursor->n_block - 1;
    return (kt__kv_block){.key = cursor->key,
                          .parent = whole->n_block > 0 ? whole->key : (kt__kv_key){{0, 0}},
                          .ids = ids + (size_t)last * KT__PAGE_POS,
                          .index = last};
}

static kt__kv_block end_at(const kt__prefix *p, kt__kv_key root, const int32_t *ids,
                           int32_t n_block) {
    kt__prefix_cursor whole = kt__prefix_cursor_at(root, ids, n_quantised(p, n_block));
    kt__prefix_cursor cursor = whole;
    advance_cursor(&cursor, ids, n_block);
    return end_of(&cursor, &whole, ids);
}

int32_t kt__prefix_find_end(const kt__prefix *p, kt__kv_key root, const int32_t *ids, size_t n,
                            int32_t least) {
    kt__prefix_cursor cursor = {root, 0}, whole = {root, 0};
    int32_t most = 0;
    while (has_block(&cursor, n)) {
        advance_cursor(&cursor, ids, cursor.n_block + 1);
        while (whole.n_block < n_quantised(p, cursor.n_block)) {
            kt__kv_block block = block_after(&whole, ids);
            if (!p->store.has(p->store.user, &block)) return most;
            move_on(&whole, &block);
        }
        kt__kv_block end = end_of(&cursor, &whole, ids);
        if (cursor.n_block > least && p->store.has_end(p->store.user, &end)) most = cursor.n_block;
    }
    return most;
}

/* Whether the block is never read but in f16, from the ends. */
static bool is_first_f16(const kt__prefix *p, int32_t index) {
    return index == 0 && kt__kv_get_shape(p->kv)->first_f16;
}

static bool load_quantised(kt__prefix *p, const kt__kv_block *block, kt__kv_table *table) {
    int32_t e = prefix_find(p, block), page = table->pages[block->index];
    int32_t known = e == NONE ? NONE : p->entries[e].page;
    bool whole = known != NONE && kt__kv_page_is_quantised(p->kv, known) &&
                 (kt__kv_page_has_local(p->kv, known) || !kt__kv_page_has_local(p->kv, page));
    if (whole) {
        kt__kv_table_set(p->kv, table, block->index, known);
        return true;
    }
    if (!p->store.get(p->store.user, block, p->kv, page)) return false;
    (void)remember_block(p, block, page);
    return true;
}

/* Its pages' f16 copies are there from now on, so that they may be found. */
static bool load_end(kt__prefix *p, kt__kv_key root, kt__prefix_cursor *cursor, const int32_t *ids,
                     int32_t n_block, kt__kv_table *table) {
    kt__prefix_cursor begin = {root, 0};
    kt__kv_block end = end_at(p, root, ids, n_block), first = block_after(&begin, ids);
    kt__kv_end place = kt__kv_end_new(table, (int64_t)n_block * KT__PAGE_POS);
    if (!p->store.get_end(p->store.user, &end, p->kv, &place)) return false;
    kt__kv_end_take(p->kv, table, &place);
    if (is_first_f16(p, 0)) (void)remember_block(p, &first, table->pages[0]);
    while (cursor->n_block < n_block) {
        kt__kv_block block = block_after(cursor, ids);
        if (!is_first_f16(p, block.index))
            (void)remember_block(p, &block, table->pages[block.index]);
        move_on(cursor, &block);
    }
    return true;
}

bool kt__prefix_load_part(kt__prefix *p, kt__kv_key root, kt__prefix_cursor *cursor,
                          const int32_t *ids, int32_t n_block, kt__kv_table *table) {
    int32_t n_whole = n_quantised(p, n_block);
    if (!p->has_store) return false; /* it was taken away meanwhile */
    if (cursor->n_block < n_whole) {
        kt__kv_block block = block_after(cursor, ids);
        if (!is_first_f16(p, block.index) && !load_quantised(p, &block, table)) return false;
        move_on(cursor, &block);
    }
    return cursor->n_block < n_whole || load_end(p, root, cursor, ids, n_block, table);
}

void kt__prefix_put_blocks(kt__prefix *p, kt__prefix_cursor *cursor, const int32_t *ids,
                           int64_t n_pos, const kt__kv_table *table) {
    while (has_block(cursor, (size_t)n_pos)) {
        int32_t index = cursor->n_block, page = table->pages[index];
        bool whole = kt__kv_page_is_quantised(p->kv, page) && kt__kv_page_has_local(p->kv, page);
        if (!is_first_f16(p, index) && !whole) return;
        kt__kv_block block = block_after(cursor, ids);
        if (p->store.lacks(p->store.user, &block, false))
            p->store.put(p->store.user, &block, p->kv, page);
        move_on(cursor, &block);
    }
}

void kt__prefix_put_end(kt__prefix *p, kt__kv_key root, const int32_t *ids, int32_t n_block,
                        const kt__kv_table *table) {
    int64_t n_pos = (int64_t)n_block * KT__PAGE_POS;
    if (!kt__kv_has_end(p->kv, table, n_pos) || kt__kv_table_is_altered(p->kv, table)) return;
    kt__kv_block end = end_at(p, root, ids, n_block);
    if (!p->store.lacks(p->store.user, &end, true)) return;
    kt__kv_end place = kt__kv_end_of(p->kv, table, n_pos);
    p->store.put_end(p->store.user, &end, p->kv, &place);
}

/* ---- explaining ---- */

/* The longest line of descendants, in blocks: of the children the one used last, if there are
 * several. */
static int64_t depth_below(const kt__prefix *p, kt__kv_key key, int *steps) {
    int64_t depth = 0;
    for (;;) {
        int32_t e = p->children[child_slot(p, key)];
        while (e != NONE && !kt__kv_key_equal(p->entries[e].parent, key) && --*steps > 0)
            e = p->entries[e].child_next;
        if (e == NONE || *steps <= 0) return depth;
        depth++;
        key = p->entries[e].key;
        --*steps;
    }
}

void kt__prefix_explain(const kt__prefix *p, const kt__prefix_cursor *cursor, const int32_t *ids,
                        size_t n, kt__prefix_miss *out) {
    size_t from = (size_t)cursor->n_block * KT__PAGE_POS;
    int best_common = -1, steps = EXPLAIN_STEPS;
    int32_t best = NONE;
    *out = (kt__prefix_miss){0};
    if (from >= n) return;
    int32_t e = p->children[child_slot(p, cursor->key)];
    for (; e != NONE && steps-- > 0; e = p->entries[e].child_next) {
        if (!kt__kv_key_equal(p->entries[e].parent, cursor->key)) continue;
        int same = common_length(p->entries[e].ids, ids + from, n - from);
        if (same > best_common) best_common = same, best = e;
    }
    /* without a common beginning it is another conversation; one that ends here does not depart */
    if (best == NONE || (best_common == 0 && cursor->n_block == 0)) return;
    if (from + (size_t)best_common == n) return;
    const entry *it = &p->entries[best];
    int64_t seen = KT__PAGE_POS * (1 + depth_below(p, it->key, &steps));
    out->known = true;
    out->evicted = best_common == KT__PAGE_POS;
    out->at = (int64_t)from + (out->evicted ? 0 : best_common);
    out->n_was = out->evicted ? 0 : KT__PAGE_POS - best_common;
    memcpy(out->was, it->ids + best_common, (size_t)out->n_was * sizeof *out->was);
    int64_t rest = (int64_t)((n - from) / KT__PAGE_POS * KT__PAGE_POS);
    out->n_lost = seen < rest ? seen : rest;
}

int64_t kt__prefix_n_evicted(const kt__prefix *p) {
    return p->n_evicted;
}
