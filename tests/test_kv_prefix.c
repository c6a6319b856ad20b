/* The prefix index: blocks are found by what they hold and where, given up from a chain's end,
 * least recently used first; nothing leaks; a second place is asked and handed blocks; and it says
 * where a prompt departs from one that was seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kv/prefix.h"
#include "support.h"

static const kt__kv_shape shape = {.n_layer = 2, .n_head_kv = 1, .head_dim_k = 4, .head_dim_v = 4};

typedef struct world {
    kt__kv *kv;
    kt__prefix *prefix;
    kt__kv_key root;
} world;

static world open_world(int64_t n_pages, size_t max_blocks) {
    world w;
    assert_int_equal(kt__kv_create(&shape, n_pages, &w.kv, NULL), KT_OK);
    assert_int_equal(kt__prefix_create(w.kv, max_blocks, &w.prefix, NULL), KT_OK);
    w.root = kt__kv_key_root("scope", 5);
    return w;
}

static void close_world(world *w) {
    kt__prefix_destroy(w->prefix);
    assert_int_equal(kt__kv_n_used(w->kv), 0);
    assert_int_equal(kt__kv_n_kept(w->kv), 0);
    kt__kv_destroy(w->kv);
}

typedef struct seq {
    kt__kv_table table;
    kt__prefix_cursor cursor;
} seq;

static seq begin(world *w, const int32_t *ids, size_t n) {
    seq s = {.cursor = {w->root, 0}};
    assert_int_equal(kt__kv_table_init(&s.table, 1024, NULL), KT_OK);
    kt__prefix_match(w->prefix, &s.cursor, ids, n, false, &s.table);
    return s;
}

/* A page holds its tokens, in its first K part, as a computed block would. */
static void write_page(world *w, int32_t page, const int32_t *ids) {
    kt__f16 *k = kt__kv_k(w->kv, page, 1, 0);
    for (int i = 0; i < 16; i++) k[i] = (kt__f16)ids[i];
}

static bool compute(world *w, seq *s, const int32_t *ids, int64_t n) {
    int64_t done = s->cursor.n_block * 16;
    if (kt__kv_table_grow(w->kv, &s->table, done, n, NULL) != KT_OK) return false;
    for (int64_t b = s->cursor.n_block; b < n / 16; b++)
        write_page(w, s->table.pages[b], ids + b * 16);
    kt__prefix_insert(w->prefix, &s->cursor, ids, n, &s->table);
    return true;
}

static void end(world *w, seq *s) {
    kt__kv_table_free(w->kv, &s->table);
}

static int found(world *w, const int32_t *ids, size_t n) {
    seq s = begin(w, ids, n);
    for (int32_t b = 0; b < s.cursor.n_block; b++) {
        const kt__f16 *k = kt__kv_k(w->kv, s.table.pages[b], 1, 0);
        for (int i = 0; i < 16; i++) assert_int_equal(k[i], (kt__f16)ids[b * 16 + i]);
    }
    int n_block = s.cursor.n_block;
    end(w, &s);
    return n_block;
}

static void fill(int32_t *ids, int n, int32_t first) {
    for (int i = 0; i < n; i++) ids[i] = first + i;
}

static void test_blocks_are_found_by_content_and_place(void **state) {
    (void)state;
    world w = open_world(20, 0);
    int32_t a[100], b[100];
    fill(a, 100, 0);
    seq s = begin(&w, a, 100);
    assert_int_equal(s.cursor.n_block, 0);
    assert_true(compute(&w, &s, a, 70));
    assert_int_equal(found(&w, a, 100), 4);
    assert_int_equal(found(&w, a, 63), 3); /* only whole blocks of what was asked for */
    end(&w, &s);
    assert_int_equal(found(&w, a, 100), 4);
    assert_int_equal(kt__kv_n_kept(w.kv), 4);
    fill(b, 100, 0);
    b[20] = 7777;
    assert_int_equal(found(&w, b, 100), 1);
    assert_int_equal(found(&w, a + 16, 80), 0); /* the same tokens elsewhere */
    w.root = kt__kv_key_root("another", 7);
    assert_int_equal(found(&w, a, 100), 0);
    close_world(&w);
}

/* Two that computed the same beside each other end up with the same pages. */
static void test_known_blocks_replace_ones_own(void **state) {
    (void)state;
    world w = open_world(20, 0);
    int32_t ids[64];
    fill(ids, 64, 0);
    seq s = begin(&w, ids, 64), t = begin(&w, ids, 64);
    assert_true(compute(&w, &s, ids, 64) && compute(&w, &t, ids, 64));
    assert_memory_equal(s.table.pages, t.table.pages, 4 * sizeof(int32_t));
    assert_int_equal(kt__kv_n_used(w.kv), 4);
    end(&w, &s);
    end(&w, &t);
    close_world(&w);
}

static void test_the_oldest_chains_end_goes_first(void **state) {
    (void)state;
    world w = open_world(10, 0);
    int32_t a[64], b[64], c[64];
    fill(a, 64, 0);
    fill(b, 64, 100);
    fill(c, 64, 200);
    seq s = begin(&w, a, 64);
    assert_true(compute(&w, &s, a, 64));
    end(&w, &s);
    s = begin(&w, b, 64);
    assert_true(compute(&w, &s, b, 64));
    end(&w, &s);
    assert_int_equal(found(&w, a, 64), 4); /* b is the older one now */
    s = begin(&w, c, 64);
    assert_true(compute(&w, &s, c, 64));
    assert_int_equal(found(&w, a, 64), 4);
    assert_int_equal(found(&w, b, 64), 2);
    assert_int_equal(kt__prefix_n_evicted(w.prefix), 2);
    /* pages in use are not given up */
    seq t = begin(&w, a, 64);
    seq u = begin(&w, b, 64);
    assert_false(compute(&w, &u, b, 64));
    end(&w, &u);
    end(&w, &t);
    end(&w, &s);
    close_world(&w);
}

static void test_it_says_where_a_prompt_departs(void **state) {
    (void)state;
    world w = open_world(30, 0);
    int32_t a[160], b[160];
    kt__prefix_miss miss;
    fill(a, 160, 0);
    seq s = begin(&w, a, 160);
    assert_true(compute(&w, &s, a, 160));
    end(&w, &s);
    fill(b, 160, 0);
    b[37] = 999;
    s = begin(&w, b, 159);
    kt__prefix_explain(w.prefix, &s.cursor, b, 160, &miss);
    assert_true(miss.known && !miss.evicted);
    assert_int_equal(miss.at, 37);
    assert_int_equal(miss.n_was, 11);
    assert_int_equal(miss.was[0], 37);
    assert_int_equal(miss.n_lost, 128); /* the blocks from 2 on */
    end(&w, &s);
    /* a longer prompt, and another one */
    s = begin(&w, a, 160);
    kt__prefix_explain(w.prefix, &s.cursor, a, 160, &miss);
    assert_false(miss.known);
    end(&w, &s);
    fill(b, 160, 5000);
    s = begin(&w, b, 160);
    kt__prefix_explain(w.prefix, &s.cursor, b, 160, &miss);
    assert_false(miss.known);
    end(&w, &s);
    /* given up: it is said, too */
    fill(b, 160, 5000);
    for (int i = 0; i < 3; i++) {
        b[0]++;
        s = begin(&w, b, 160);
        assert_true(compute(&w, &s, b, 160));
        end(&w, &s);
    }
    s = begin(&w, a, 160);
    assert_int_equal(s.cursor.n_block, 0);
    kt__prefix_explain(w.prefix, &s.cursor, a, 160, &miss);
    assert_true(miss.known && miss.evicted);
    assert_int_equal(miss.at, 0);
    end(&w, &s);
    close_world(&w);
}

/* ---- another place ---- */

typedef struct shelf {
    kt__kv_key keys[64];
    uint8_t blocks[64][1024];
    int n, n_get;
    bool broken;
} shelf;

static int on_shelf(const shelf *s, kt__kv_key key) {
    for (int i = 0; i < s->n; i++)
        if (kt__kv_key_equal(s->keys[i], key)) return i;
    return -1;
}

static bool shelf_get(void *user, const kt__kv_block *block, kt__kv *kv, int32_t page) {
    shelf *s = user;
    int i = on_shelf(s, block->key);
    s->n_get++;
    if (i < 0 || s->broken) return false;
    kt__kv_block_write(kv, page, s->blocks[i]);
    return true;
}

static void shelf_put(void *user, const kt__kv_block *block, const kt__kv *kv, int32_t page) {
    shelf *s = user;
    if (s->n == 64 || on_shelf(s, block->key) >= 0) return;
    s->keys[s->n] = block->key;
    kt__kv_block_read(kv, page, s->blocks[s->n++]);
}

static void test_blocks_from_another_place(void **state) {
    (void)state;
    static shelf books;
    kt__kv_store store = {.user = &books, .get = shelf_get, .put = shelf_put};
    int32_t ids[80];
    fill(ids, 80, 0);
    assert_true(kt__kv_block_bytes(&shape) <= sizeof books.blocks[0]);
    for (int round = 0; round < 3; round++) {
        world w = open_world(8, 0);
        kt__prefix_set_store(w.prefix, &store);
        books.broken = round == 2;
        seq s = begin(&w, ids, 79);
        int n = 0;
        while (kt__prefix_load(w.prefix, &s.cursor, ids, 79, &s.table)) n++;
        assert_int_equal(n, round == 1 ? 4 : 0);
        assert_int_equal(s.table.n_pages, n);
        assert_true(compute(&w, &s, ids, 80));
        end(&w, &s);
        assert_int_equal(found(&w, ids, 79), 4);
        assert_int_equal(books.n, 5);
        close_world(&w);
    }
}

/* ---- at random ---- */

static void test_random_use_leaks_nothing(void **state) {
    (void)state;
    enum { N = 6 };
    static int32_t texts[12][200];
    uint32_t random = 5;
    for (size_t small = 0; small < 2; small++) {
        world w = open_world(40, small ? 7 : 0);
        seq seqs[N];
        int text[N];
        for (int i = 0; i < 12; i++) {
            fill(texts[i], 200, 0);
            texts[i][(i * 31) % 200] = 1000 + i;
        }
        for (int i = 0; i < N; i++) {
            text[i] = 0;
            seqs[i] = begin(&w, texts[0], 0);
        }
        for (int step = 0; step < 20000; step++) {
            lcg(&random);
            int i = (int)(random >> 8) % N, n = (int)(random >> 12) % 200;
            if (random >> 30 == 0 || seqs[i].cursor.n_block * 16 > n) {
                end(&w, &seqs[i]);
                text[i] = (int)(random >> 9) % 12;
                seqs[i] = begin(&w, texts[text[i]], (size_t)n);
            } else {
                (void)compute(&w, &seqs[i], texts[text[i]], n);
            }
            for (int32_t b = 0; b < seqs[i].cursor.n_block; b++) {
                const kt__f16 *k = kt__kv_k(w.kv, seqs[i].table.pages[b], 1, 0);
                assert_int_equal(k[5], (kt__f16)texts[text[i]][b * 16 + 5]);
            }
        }
        for (int i = 0; i < N; i++) end(&w, &seqs[i]);
        assert_int_equal(kt__kv_n_used(w.kv), kt__kv_n_kept(w.kv));
        close_world(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_found_by_content_and_place),
        cmocka_unit_test(test_known_blocks_replace_ones_own),
        cmocka_unit_test(test_the_oldest_chains_end_goes_first),
        cmocka_unit_test(test_it_says_where_a_prompt_departs),
        cmocka_unit_test(test_blocks_from_another_place),
        cmocka_unit_test(test_random_use_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
