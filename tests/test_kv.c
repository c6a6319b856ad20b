/* kv: pages, sharing, copy on write, exhaustion, and that no page leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kv/kv.h"

static const kt__kv_shape shape = {.n_layer = 2, .n_head_kv = 3, .head_dim_k = 20, .head_dim_v = 8};

static kt__kv *create(int64_t n_pages) {
    kt__kv *kv = NULL;
    assert_int_equal(kt__kv_create(&shape, n_pages, &kv, NULL), KT_OK);
    return kv;
}

static void test_parts_of_a_page_do_not_overlap(void **state) {
    (void)state;
    kt__kv *kv = create(3);
    uint16_t tag = 1;
    for (int pass = 0; pass < 2; pass++, tag = 1) {
        for (int32_t page = 0; page < 3; page++) {
            for (int layer = 0; layer < 2; layer++) {
                for (int head = 0; head < 3; head++, tag = (uint16_t)(tag + 2)) {
                    kt__f16 *k = kt__kv_k(kv, page, layer, head),
                            *v = kt__kv_v(kv, page, layer, head);
                    assert_int_equal((uintptr_t)k % 64, 0);
                    for (int i = 0; i < 20 * 16; i++) {
                        if (pass == 0) k[i] = tag;
                        assert_int_equal(k[i], tag);
                    }
                    for (int i = 0; i < 8 * 16; i++) {
                        if (pass == 0) v[i] = (uint16_t)(tag + 1);
                        assert_int_equal(v[i], tag + 1);
                    }
                }
            }
        }
    }
    kt__kv_destroy(kv);
}

/* Writes a number of its own to each place of a part, or looks for it. */
static void mark(kt__f16 *part, int n, bool write, uint16_t *tag) {
    assert_int_equal((uintptr_t)part % 64, 0);
    for (int i = 0; i < n; i++) {
        if (write) part[i] = *tag;
        assert_int_equal(part[i], *tag);
    }
    ++*tag;
}

static void test_heads_of_two_sizes(void **state) {
    (void)state;
    enum { LAYERS = 5, PAGES = 20 };
    static const kt__kv_form forms[] = {KT__KV_F16, KT__KV_Q8};
    kt__kv_shape two = {.n_layer = LAYERS,
                        .n_head_kv = 3,
                        .head_dim_k = 20,
                        .head_dim_v = 8,
                        .other = {1, 6, 34},
                        .others = {1 << 1 | 1 << 3 | 1 << 4}};
    for (int f = 0; f < 2; f++) {
        kt__kv *kv = NULL;
        kt__kv_table table;
        two.k_form = two.v_form = forms[f];
        assert_int_equal(kt__kv_create(&two, PAGES, &kv, NULL), KT_OK);
        assert_int_equal(kt__kv_table_init(&table, PAGES * 16, NULL), KT_OK);
        assert_int_equal(kt__kv_table_grow(kv, &table, 0, PAGES * 16, NULL), KT_OK);
        for (int write = 1; write >= 0; write--) {
            uint16_t tag = 1;
            for (int i = 0; i < PAGES * LAYERS; i++) {
                int32_t page = table.pages[i / LAYERS];
                int layer = i % LAYERS, other = layer != 0 && layer != 2;
                for (int head = 0; head < (other ? 1 : 3); head++) {
                    mark(kt__kv_k(kv, page, layer, head), (other ? 6 : 20) * 16, write, &tag);
                    mark(kt__kv_v(kv, page, layer, head), (other ? 34 : 8) * 16, write, &tag);
                }
            }
        }
        kt__kv_table_free(kv, &table);
        kt__kv_destroy(kv);
    }
}

static void test_sharing_copies_on_write(void **state) {
    (void)state;
    kt__kv *kv = create(4);
    kt__kv_table a, b;
    assert_int_equal(kt__kv_table_init(&a, 64, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&b, 64, NULL), KT_OK);
    assert_int_equal(kt__kv_table_grow(kv, &a, 0, 20, NULL), KT_OK);
    kt__kv_k(kv, a.pages[1], 1, 2)[5] = 77;
    kt__kv_table_share(kv, &a, 20, &b);
    assert_int_equal(kt__kv_n_used(kv), 2);
    assert_int_equal(kt__kv_table_grow(kv, &b, 20, 21, NULL), KT_OK);
    assert_int_equal(kt__kv_n_used(kv), 3);
    assert_int_equal(a.pages[0], b.pages[0]);
    assert_int_not_equal(a.pages[1], b.pages[1]);
    assert_int_equal(kt__kv_k(kv, b.pages[1], 1, 2)[5], 77);
    assert_int_equal(kt__kv_table_grow(kv, &a, 20, 33, NULL), KT_OK);
    kt_error err;
    assert_int_equal(kt__kv_table_grow(kv, &b, 21, 40, &err), KT_E_NOMEM);
    assert_int_equal(b.n_pages, 2);
    kt__kv_table_free(kv, &a);
    kt__kv_table_free(kv, &b);
    assert_int_equal(kt__kv_n_used(kv), 0);
    kt__kv_destroy(kv);
}

/* ---- f16 copies ---- */

static const kt__kv_shape q8_shape = {.n_layer = 2,
                                      .n_head_kv = 3,
                                      .head_dim_k = 20,
                                      .head_dim_v = 8,
                                      .k_form = KT__KV_Q8,
                                      .v_form = KT__KV_Q8};

static kt__kv *create_f16(int64_t n_pages, int n_kept, int n_staged) {
    kt__kv *kv = NULL;
    kt__kv_room room = {.n_kept = n_kept, .n_staged = n_staged};
    assert_int_equal(kt__kv_create_with(&q8_shape, n_pages, room, &kv, NULL), KT_OK);
    return kv;
}

static void test_f16_copies_follow_their_pages(void **state) {
    (void)state;
    kt__kv *kv = create_f16(8, 2, 2);
    kt__kv_table a, b;
    assert_int_equal(kt__kv_table_init(&a, 128, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&b, 128, NULL), KT_OK);
    assert_int_equal(kt__kv_table_grow_as(kv, &a, 0, 40, KT__GROW_STAGED, NULL), KT_OK);
    /* what is filled serves one layer after the other; what is not has room for all */
    assert_ptr_equal(kt__kv_k(kv, a.pages[0], 0, 1), kt__kv_k(kv, a.pages[0], 1, 1));
    assert_ptr_not_equal(kt__kv_k(kv, a.pages[0], 0, 1), kt__kv_k(kv, a.pages[1], 0, 1));
    assert_ptr_not_equal(kt__kv_v(kv, a.pages[2], 0, 1), kt__kv_v(kv, a.pages[2], 1, 1));
    assert_false(kt__kv_page_has_f16(kv, a.pages[0]));
    assert_true(kt__kv_page_has_f16(kv, a.pages[2]));
    kt__kv_table_settle(kv, &a, 40);
    assert_null(kt__kv_k(kv, a.pages[0], 0, 1));
    assert_null(kt__kv_v(kv, a.pages[1], 1, 2));
    /* the end of a copy becomes its own, with what it holds */
    kt__kv_k(kv, a.pages[2], 1, 2)[5] = 77;
    kt__kv_table_share(kv, &a, 40, &b);
    assert_int_equal(kt__kv_table_own_end(kv, &b, 40), 40);
    assert_int_not_equal(a.pages[2], b.pages[2]);
    assert_int_equal(kt__kv_k(kv, b.pages[2], 1, 2)[5], 77);
    /* there is no further piece */
    kt_error err;
    assert_int_equal(kt__kv_table_grow(kv, &b, 40, 50, &err), KT_E_NOMEM);
    assert_non_null(strstr(err.message, "written at once"));
    assert_int_equal(b.n_pages, 3);
    /* within what is quantised nothing can be appended, and the end goes back to its page's
     * begin */
    kt__kv_table_truncate(kv, &b, 20);
    assert_int_equal(kt__kv_table_grow(kv, &b, 20, 21, &err), KT_E_STATE);
    assert_int_equal(kt__kv_table_own_end(kv, &b, 20), 16);
    assert_int_equal(b.n_pages, 1);
    assert_int_equal(kt__kv_table_grow(kv, &b, 16, 17, &err), KT_OK);
    kt__kv_table_free(kv, &a);
    kt__kv_table_free(kv, &b);
    assert_int_equal(kt__kv_n_used(kv), 0);
    kt__kv_destroy(kv);
}

/* Of a batch that takes the layers in turn, those that are read again keep their parts. */
static void test_layers_that_are_read_again(void **state) {
    (void)state;
    kt__kv_shape again = q8_shape;
    kt__kv *kv = NULL;
    kt__kv_room room = {.n_kept = 2, .n_staged = 2};
    kt__kv_table a;
    again.n_layer = 4;
    again.n_reread = 2;
    again.other = (kt__kv_heads){1, 64, 64};
    again.others[0] = 1 << 1 | 1 << 2;
    assert_int_equal(kt__kv_create_with(&again, 8, room, &kv, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&a, 128, NULL), KT_OK);
    assert_int_equal(kt__kv_table_grow_as(kv, &a, 0, 40, KT__GROW_STAGED, NULL), KT_OK);
    assert_ptr_equal(kt__kv_k(kv, a.pages[0], 0, 0), kt__kv_k(kv, a.pages[0], 1, 0));
    for (int write = 1; write >= 0; write--) {
        uint16_t tag = 1;
        for (int i = 0; i < 6; i++) {
            static const int layers[] = {1, 2, 3};
            int layer = layers[i % 3];
            for (int head = 0; head < (layer == 3 ? 3 : 1); head++) {
                kt__kv_heads of = kt__kv_heads_of(&again, layer);
                mark(kt__kv_k(kv, a.pages[i / 3], layer, head), of.dim_k * 16, write, &tag);
                mark(kt__kv_v(kv, a.pages[i / 3], layer, head), of.dim_v * 16, write, &tag);
            }
        }
    }
    kt__kv_table_free(kv, &a);
    kt__kv_destroy(kv);
}

/* With a tail, what ended is gone on from as long as nobody needs the room of its f16 copies. */
static void test_ends_stay_while_there_is_room(void **state) {
    (void)state;
    kt__kv_shape with_tail = q8_shape;
    kt__kv_room room = {.n_kept = 6, .n_staged = 4};
    kt__kv *kv = NULL;
    kt__kv_table a, b, c;
    kt_error err;
    with_tail.n_tail = 2;
    assert_int_equal(kt__kv_create_with(&with_tail, 20, room, &kv, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&a, 128, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&b, 128, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&c, 128, NULL), KT_OK);
    assert_int_equal(kt__kv_table_grow_as(kv, &a, 0, 64, KT__GROW_STAGED, NULL), KT_OK);
    kt__kv_table_settle(kv, &a, 64);
    for (int i = 0; i < 4; i++) assert_int_equal(kt__kv_page_has_f16(kv, a.pages[i]), i >= 2);
    kt__kv_table_rest(kv, &a);
    kt__kv_table_share(kv, &a, 64, &b);
    assert_int_equal(kt__kv_table_own_end(kv, &b, 64), 64);
    /* held forms are nobody else's */
    assert_int_equal(kt__kv_table_grow(kv, &c, 0, 80, &err), KT_E_NOMEM);
    assert_int_equal(kt__kv_table_own_end(kv, &a, 64), 64);
    kt__kv_table_rest(kv, &a);
    kt__kv_table_truncate(kv, &b, 0);
    assert_int_equal(kt__kv_table_grow(kv, &c, 0, 80, &err), KT_OK);
    assert_int_equal(kt__kv_table_own_end(kv, &a, 64), 0); /* one of both is gone */
    assert_int_equal(a.n_pages, 0);
    kt__kv_table_free(kv, &a);
    kt__kv_table_free(kv, &b);
    kt__kv_table_free(kv, &c);
    assert_int_equal(kt__kv_n_used(kv), 0);
    kt__kv_destroy(kv);
}

/* Where others will go on, forms outlive those who pass; and a page that is known already gets the
 * form that it has lost. */
static void test_cuts_and_adopted_pages(void **state) {
    (void)state;
    kt__kv_shape with_tail = q8_shape;
    kt__kv_room room = {.n_kept = 12, .n_staged = 8};
    kt__kv *kv = NULL;
    kt__kv_table a, b;
    with_tail.n_tail = 1;
    with_tail.first_f16 = true;
    assert_int_equal(kt__kv_create_with(&with_tail, 20, room, &kv, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&a, 160, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&b, 160, NULL), KT_OK);
    kt__kv_table_cut(&a, 50);
    assert_int_equal(kt__kv_table_grow_as(kv, &a, 0, 96, KT__GROW_STAGED, NULL), KT_OK);
    kt__kv_table_settle(kv, &a, 96);
    const bool f16[6] = {true, false, true, false, false, true}; /* the first, cut's, the last */
    for (int i = 0; i < 6; i++) assert_int_equal(kt__kv_page_has_f16(kv, a.pages[i]), f16[i]);
    kt__kv_table_share(kv, &a, 48, &b);
    assert_int_equal(kt__kv_table_own_end(kv, &b, 48), 48);
    kt__kv_table_truncate(kv, &b, 32);
    assert_int_equal(kt__kv_table_own_end(kv, &b, 32), 16);
    assert_int_equal(kt__kv_table_grow(kv, &b, 16, 33, NULL), KT_OK);
    kt__kv_k(kv, b.pages[1], 1, 2)[5] = 77;
    int32_t own = b.pages[1];
    kt__kv_table_adopt(kv, &b, 1, a.pages[1]);
    assert_int_not_equal(b.pages[1], own);
    assert_int_equal(b.pages[1], a.pages[1]);
    assert_true(kt__kv_page_has_f16(kv, a.pages[1]));
    assert_int_equal(kt__kv_k(kv, a.pages[1], 1, 2)[5], 77);
    kt__kv_table_free(kv, &a);
    kt__kv_table_free(kv, &b);
    assert_int_equal(kt__kv_n_used(kv), 0);
    kt__kv_destroy(kv);
}

/* Pages of a tail have no place until they leave it, in groups of four, some layers at a time. */
static void test_pages_leave_a_tail_in_groups(void **state) {
    (void)state;
    enum { TAIL = 8, END = 320 };
    kt__kv_shape with_tail = q8_shape;
    kt__kv_room room = {.n_kept = TAIL + 2, .n_staged = 8};
    kt__kv *kv = NULL;
    kt__kv_table t;
    int n_due[END / 16] = {0};
    with_tail.n_tail = TAIL;
    with_tail.n_layer = 32;
    assert_int_equal(kt__kv_create_with(&with_tail, 40, room, &kv, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&t, END, NULL), KT_OK);
    for (int64_t pos = 0; pos < END; pos++) {
        assert_int_equal(kt__kv_table_grow(kv, &t, pos, pos + 1, NULL), KT_OK);
        int n = 0;
        for (int32_t i = t.quantise_from; i < t.quantise_to; i++)
            for (int layer = 0; layer < 32; layer++) {
                if (!kt__kv_is_due(kv, &t, i, layer)) continue;
                assert_non_null(kt__kv_quantised_k(kv, t.pages[i], layer, 1));
                n_due[i]++;
                n++;
            }
        assert_true(n <= 4); /* 4 pages of 32 layers in 64 steps, not 32 layers in one */
        kt__kv_table_settle(kv, &t, pos + 1);
    }
    for (int i = 0; i < t.n_pages; i++) {
        bool quantised = i < 20 - TAIL, f16 = i >= 20 - TAIL;
        if (quantised) assert_int_equal(n_due[i], 32);
        assert_int_equal(kt__kv_page_has_f16(kv, t.pages[i]), f16);
        if (i >= 16) assert_false(kt__kv_page_has_place(kv, t.pages[i]));
    }
    assert_true(kt__kv_n_used(kv) <= 20 - TAIL + 4);
    kt__kv_table_free(kv, &t);
    assert_int_equal(kt__kv_n_used(kv), 0);
    kt__kv_destroy(kv);
}

static void test_a_lost_batch_gives_its_room_back(void **state) {
    (void)state;
    kt__kv *kv = create_f16(8, 2, 2);
    kt__kv_table a, b;
    assert_int_equal(kt__kv_table_init(&a, 128, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&b, 128, NULL), KT_OK);
    assert_int_equal(kt__kv_table_grow_as(kv, &a, 0, 32, KT__GROW_STAGED, NULL), KT_OK);
    assert_int_equal(kt__kv_table_grow_as(kv, &b, 0, 32, KT__GROW_STAGED, NULL), KT_E_NOMEM);
    kt__kv_table_unstage(kv, &a);
    assert_int_equal(kt__kv_table_grow_as(kv, &b, 0, 32, KT__GROW_STAGED, NULL), KT_OK);
    kt__kv_table_unstage(kv, &b);
    /* a shorter batch over the same pages: the second is not filled any more */
    assert_int_equal(kt__kv_table_grow_as(kv, &a, 0, 20, KT__GROW_STAGED, NULL), KT_OK);
    assert_true(kt__kv_page_has_f16(kv, a.pages[1]));
    kt__kv_table_free(kv, &a);
    kt__kv_table_free(kv, &b);
    kt__kv_destroy(kv);
}

/* Whatever a batch writes has a place in every layer. */
static void expect_writable(const kt__kv *kv, const kt__kv_table *t, int64_t from, int64_t to) {
    for (int64_t p = from / 16; p * 16 < to; p++) {
        for (int layer = 0; layer < kt__kv_get_shape(kv)->n_layer; layer++) {
            assert_non_null(kt__kv_k(kv, t->pages[p], layer, 0));
            assert_non_null(kt__kv_v(kv, t->pages[p], layer, 0));
        }
        assert_int_equal(kt__kv_page_refs(kv, t->pages[p]), 1);
    }
}

/* More rows of a batch's table, where there is room. */
static void join_batch(kt__kv *kv, kt__kv_table *t, int64_t from, int64_t *to, kt__kv_growth how,
                       int64_t most) {
    int64_t more = *to + rand() % 60;
    if (more < most && kt__kv_table_grow_as(kv, t, from, more, how, NULL) == KT_OK) *to = more;
}

/* Another table's, which are not computed after all. */
static void join_other(kt__kv *kv, kt__kv_table *t, int64_t from, int64_t most) {
    int64_t to = from + 1 + rand() % 39;
    if (to >= most || kt__kv_table_own_end(kv, t, from) != from) return;
    if (kt__kv_table_grow_as(kv, t, from, to, KT__GROW_STAGED, NULL) == KT_OK)
        kt__kv_table_unstage(kv, t);
}

/* Tables grow, are shared, cut, rest, and lose a batch, whose pages they keep: with little room. */
static void run_schedule(const kt__kv_shape *of, kt__kv_room room) {
    enum { N = 6, PAGES = 60, MAX_POS = 200 };
    kt__kv *kv;
    kt__kv_table t[N];
    int64_t len[N] = {0};
    int n_grown = 0;
    assert_int_equal(kt__kv_create_with(of, PAGES, room, &kv, NULL), KT_OK);
    srand(8);
    for (int i = 0; i < N; i++) assert_int_equal(kt__kv_table_init(&t[i], MAX_POS, NULL), KT_OK);
    for (int step = 0; step < 40000; step++) {
        int i = rand() % N, j = rand() % N;
        int64_t target = len[i] + rand() % 60;
        kt__kv_growth how = rand() % 2 ? KT__GROW_STAGED : KT__GROW_KEPT;
        switch (rand() % 6) {
        case 0:
        case 1:
            len[i] = kt__kv_table_own_end(kv, &t[i], len[i]);
            if (target >= MAX_POS || target == len[i]) break;
            if (kt__kv_table_grow_as(kv, &t[i], len[i], target, how, NULL) != KT_OK) break;
            join_batch(kv, &t[i], len[i], &target, how, MAX_POS);
            if (i != j) join_other(kv, &t[j], len[j], MAX_POS);
            expect_writable(kv, &t[i], len[i], target);
            n_grown++;
            if (rand() % 4 == 0) { /* a batch that is lost */
                kt__kv_table_unstage(kv, &t[i]);
                break;
            }
            len[i] = target;
            kt__kv_table_settle(kv, &t[i], len[i]);
            break;
        case 2:
            if (target % MAX_POS < len[i]) kt__kv_table_truncate(kv, &t[i], len[i] = target % 200);
            break;
        case 3:
        case 4: kt__kv_table_rest(kv, &t[i]); break;
        default:
            if (i == j) break;
            kt__kv_table_truncate(kv, &t[i], 0);
            kt__kv_table_share(kv, &t[j], len[i] = len[j], &t[i]);
        }
    }
    assert_true(n_grown > 3000);
    for (int i = 0; i < N; i++) kt__kv_table_free(kv, &t[i]);
    assert_int_equal(kt__kv_n_used(kv), 0);
    /* every piece came back */
    assert_int_equal(kt__kv_table_init(&t[0], MAX_POS, NULL), KT_OK);
    assert_int_equal(kt__kv_table_grow(kv, &t[0], 0, 160, NULL), KT_OK);
    kt__kv_table_free(kv, &t[0]);
    kt__kv_destroy(kv);
}

static void test_random_schedule_keeps_ends_f16(void **state) {
    (void)state;
    run_schedule(&q8_shape, (kt__kv_room){.n_kept = 10, .n_staged = 8});
}

static void test_random_schedule_of_tails(void **state) {
    (void)state;
    kt__kv_shape of = q8_shape;
    of.n_tail = 3;
    of.first_f16 = true;
    run_schedule(&of, (kt__kv_room){.n_kept = 14, .n_staged = 8});
}

static void test_random_schedule_of_windows(void **state) {
    (void)state;
    kt__kv_shape of = shape;
    of.n_window = 3;
    of.locals[0] = 1;
    run_schedule(&of, (kt__kv_room){.n_local = 14});
    of = q8_shape;
    of.n_tail = 2;
    of.n_window = 3;
    of.locals[0] = 1;
    run_schedule(&of, (kt__kv_room){.n_kept = 14, .n_staged = 8, .n_local = 24});
}

static void test_random_schedule_leaks_nothing(void **state) {
    (void)state;
    enum { N = 6, PAGES = 40, MAX_POS = 200 };
    kt__kv *kv = create(PAGES);
    kt__kv_table t[N];
    int64_t len[N] = {0};
    srand(7);
    for (int i = 0; i < N; i++) assert_int_equal(kt__kv_table_init(&t[i], MAX_POS, NULL), KT_OK);
    for (int step = 0; step < 20000; step++) {
        int i = rand() % N, j = rand() % N;
        int64_t target = rand() % MAX_POS;
        switch (rand() % 3) {
        case 0:
            if (target > len[i] && kt__kv_table_grow(kv, &t[i], len[i], target, NULL) == KT_OK) {
                len[i] = target;
            }
            break;
        case 1:
            if (target < len[i]) kt__kv_table_truncate(kv, &t[i], len[i] = target);
            break;
        default:
            if (i == j) break;
            kt__kv_table_truncate(kv, &t[i], 0);
            kt__kv_table_share(kv, &t[j], len[i] = len[j], &t[i]);
        }
        assert_int_equal(t[i].n_pages, (len[i] + 15) / 16);
    }
    for (int i = 0; i < N; i++) kt__kv_table_free(kv, &t[i]);
    assert_int_equal(kt__kv_n_used(kv), 0);
    kt__kv_destroy(kv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_a_page_do_not_overlap),
        cmocka_unit_test(test_heads_of_two_sizes),
        cmocka_unit_test(test_sharing_copies_on_write),
        cmocka_unit_test(test_random_schedule_leaks_nothing),
        cmocka_unit_test(test_f16_copies_follow_their_pages),
        cmocka_unit_test(test_layers_that_are_read_again),
        cmocka_unit_test(test_ends_stay_while_there_is_room),
        cmocka_unit_test(test_cuts_and_adopted_pages),
        cmocka_unit_test(test_pages_leave_a_tail_in_groups),
        cmocka_unit_test(test_a_lost_batch_gives_its_room_back),
        cmocka_unit_test(test_random_schedule_keeps_ends_f16),
        cmocka_unit_test(test_random_schedule_of_tails),
        cmocka_unit_test(test_random_schedule_of_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
