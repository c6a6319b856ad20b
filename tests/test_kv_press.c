/* Pressed pages in the store: whatever is taken, pressed and dropped, each page keeps what it holds, as it was written
 * or as it was pressed, and all memory comes back; pressing makes room for more pages than the store has in f16; tables
 * and the prefix index know what is altered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kv/prefix.h"
#include "support.h"

enum { LAYERS = 3, HEADS = 2, DIM = 32, PAGES = 16 * 12, USABLE = PAGES - 16, MAX = 400 };

/* Of layer 1 the keys stay f16. */
static kt__kv *open_store(void) {
    const kt__kv_shape shape = {
        .n_layer = LAYERS, .n_head_kv = HEADS, .head_dim_k = DIM, .head_dim_v = DIM};
    kt__kv_room room = {.presses = true, .f16_keys = {2}};
    kt__kv *kv;
    assert_int_equal(kt__kv_create_with(&shape, PAGES, room, &kv, NULL), KT_OK);
    assert_int_equal(kt__kv_n_free(kv), USABLE);
    return kv;
}

static size_t quantised_bytes(kt__kv_form form, bool key) {
    return key ? kt__quantised_k_bytes(form, DIM) : kt__quantised_v_bytes(form, DIM);
}

/* Something that depends on all of the numbers, in as many bytes as the form has. */
static void fake_quantise(void *user, kt__kv_form from, kt__kv_form form, bool key, int head_dim,
                          const uint8_t *part, uint8_t *out) {
    uint32_t sum = key ? 1 : 2;
    size_t n = from == KT__KV_Q8 ? quantised_bytes(from, key) : (size_t)head_dim * 32;
    assert_null(user);
    assert_int_equal(form, from + 1);
    for (size_t i = 0; i < n; i++) sum = sum * 31 + part[i];
    memset(out, (int)(sum % 251), quantised_bytes(form, key));
}

static kt__f16 number(int32_t id, int layer, int head, bool key, int i) {
    return (kt__f16)(id * 7919 + layer * 101 + head * 13 + key * 5 + i);
}

static void write_page(kt__kv *kv, int32_t page, int32_t id) {
    for (int l = 0; l < LAYERS; l++) {
        for (int h = 0; h < HEADS; h++) {
            for (int i = 0; i < DIM * 16; i++) {
                kt__kv_k(kv, page, l, h)[i] = number(id, l, h, true, i);
                kt__kv_v(kv, page, l, h)[i] = number(id, l, h, false, i);
            }
        }
    }
}

static void expect_part(const uint8_t *part, int32_t id, int l, int h, bool key, kt__kv_form form) {
    kt__f16 f16[DIM * 16];
    uint8_t bytes[3][sizeof f16];
    size_t n = form ? quantised_bytes(form, key) : sizeof f16;
    for (int i = 0; i < DIM * 16; i++) f16[i] = number(id, l, h, key, i);
    memcpy(bytes[0], f16, sizeof f16);
    for (kt__kv_form f = KT__KV_F16; f < form; f++)
        fake_quantise(NULL, f, f + 1, key, DIM, bytes[f], bytes[f + 1]);
    assert_memory_equal(part, bytes[form], n);
}

static void expect_page(const kt__kv *kv, int32_t page, int32_t id) {
    kt__kv_form form = kt__kv_page_form(kv, page);
    for (int l = 0; l < LAYERS; l++) {
        for (int h = 0; h < HEADS; h++) {
            expect_part(kt__kv_quantised_k(kv, page, l, h), id, l, h, true,
                        l == 1 ? KT__KV_F16 : form);
            expect_part(kt__kv_quantised_v(kv, page, l, h), id, l, h, false, form);
        }
    }
}

static void test_random_schedule(void **state) {
    int32_t pages[MAX], ids[MAX], next = 1;
    int n = 0, most = 0;
    uint32_t seed = 4;
    (void)state;
    kt__kv *kv = open_store();
    kt__kv_set_quantise(kv, fake_quantise, NULL);
    for (int step = 0; step < 30000; step++) {
        int i = n ? (int)lcg_below(&seed, (uint32_t)n) : 0;
        bool filling = step / 3000 % 2 == 0;
        switch (lcg_below(&seed, filling ? 4 : 3)) {
        case 0:
            if (n == 0 || (filling && lcg_below(&seed, 3))) break;
            expect_page(kv, pages[i], ids[i]);
            kt__kv_page_drop(kv, pages[i]);
            pages[i] = pages[--n];
            ids[i] = ids[n];
            break;
        case 1: {
            if (n == 0 || kt__kv_page_form(kv, pages[i]) == KT__KV_Q4) break;
            kt__kv_form form = kt__kv_page_form(kv, pages[i]) + 1;
            if (kt__kv_press_how_many(kv, form, n, 1) == 0) break;
            kt__kv_page_press(kv, pages[i], form);
            break;
        }
        default:
            if (kt__kv_n_free(kv) < 1) break;
            assert_true(n < MAX);
            pages[n] = kt__kv_page_take(kv);
            assert_true(pages[n] >= 0);
            assert_false(kt__kv_page_is_altered(kv, pages[n]));
            ids[n] = next++;
            write_page(kv, pages[n], ids[n]);
            n++;
        }
        if (n > most) most = n;
    }
    assert_true(most > USABLE * 5 / 4);
    while (n-- > 0) {
        expect_page(kv, pages[n], ids[n]);
        kt__kv_page_drop(kv, pages[n]);
    }
    assert_int_equal(kt__kv_n_free(kv), USABLE);
    kt__kv_destroy(kv);
}

/* ---- tables ---- */

static void test_what_is_written_after_pressed_pages_is_altered(void **state) {
    kt__kv_table t, other;
    (void)state;
    kt__kv *kv = open_store();
    kt__kv_set_quantise(kv, fake_quantise, NULL);
    assert_int_equal(kt__kv_table_init(&t, 1024, NULL), KT_OK);
    assert_int_equal(kt__kv_table_init(&other, 1024, NULL), KT_OK);
    assert_int_equal(kt__kv_table_grow(kv, &t, 0, 600, NULL), KT_OK);
    assert_false(kt__kv_table_is_altered(kv, &t));
    kt__kv_table_share(kv, &t, 64, &other);
    kt__kv_press_begin(kv);
    kt__kv_press_allow(kv, &t);
    /* what another table holds, which did not allow it, and what comes after that in its split, stay */
    assert_int_equal(kt__kv_table_press(kv, &t, 512, KT__KV_Q8, 100, true), 16);
    assert_int_equal(kt__kv_table_press(kv, &t, 512, KT__KV_Q8, 5, false), 5);
    assert_int_equal(kt__kv_page_form(kv, t.pages[0]), KT__KV_F16);
    assert_int_equal(kt__kv_page_form(kv, t.pages[20]), KT__KV_Q8);
    assert_int_equal(kt__kv_page_form(kv, t.pages[21]), KT__KV_F16);
    kt__kv_pressed p = kt__kv_pressed_of(kv, &t, 1, 1);
    assert_int_equal(p.n, 5);
    assert_int_equal(p.k_form, KT__KV_F16);
    assert_int_equal(p.v_form, KT__KV_Q8);
    assert_int_equal(kt__kv_pressed_of(kv, &t, 0, 0).n, 0);
    assert_false(kt__kv_page_is_altered(kv, t.pages[37]));
    assert_int_equal(kt__kv_table_grow(kv, &t, 600, 640, NULL), KT_OK);
    assert_true(kt__kv_page_is_altered(kv, t.pages[37]));
    assert_true(kt__kv_page_is_altered(kv, t.pages[39]));
    assert_false(kt__kv_page_is_altered(kv, t.pages[36]));
    /* nothing can be appended within a pressed page */
    assert_int_equal(kt__kv_table_own_end(kv, &t, 16 * 20 + 3), 16 * 20);
    kt__kv_table_truncate(kv, &t, 256);
    assert_false(kt__kv_table_is_altered(kv, &t));
    kt__kv_table_free(kv, &t);
    kt__kv_table_free(kv, &other);
    assert_int_equal(kt__kv_n_free(kv), USABLE);
    kt__kv_destroy(kv);
}

/* ---- one table, as far as it goes ---- */

static void quantise_any(void *user, kt__kv_form from, kt__kv_form form, bool key, int head_dim,
                         const uint8_t *part, uint8_t *out) {
    size_t n = key ? kt__quantised_k_bytes(form, head_dim) : kt__quantised_v_bytes(form, head_dim);
    (void)user;
    (void)from;
    memset(out, part[0], n);
}

/* As the engine does it: each form alone, then both. */
static bool press_for(kt__kv *kv, const kt__kv_table *t, int64_t n_pos, int64_t wanted) {
    for (kt__kv_form form = KT__KV_Q8; form <= KT__KV_Q4 && kt__kv_n_free(kv) < wanted; form++) {
        kt__kv_press_begin(kv);
        kt__kv_press_allow(kv, t);
        int64_t most = kt__kv_table_press(kv, t, n_pos, form, INT64_MAX, true);
        int64_t n = kt__kv_press_how_many(kv, form, most, wanted - kt__kv_n_free(kv));
        int64_t before = kt__kv_n_free(kv);
        assert_true(kt__kv_table_press(kv, t, n_pos, form, n, false) == n);
        assert_true(n == 0 || kt__kv_n_free(kv) > before);
    }
    int64_t before = kt__kv_n_free(kv);
    if (before >= wanted) return true;
    kt__kv_press_begin(kv);
    kt__kv_press_allow(kv, t);
    if (!kt__kv_table_press_both(kv, t, n_pos)) return false;
    assert_true(kt__kv_n_free(kv) > before);
    return true;
}

/* Pages that a table comes to, of which the last `tail` stay and a step writes up to `step` more. */
static int64_t grow_alone(kt__kv *kv, int32_t tail, int32_t step, uint32_t *seed) {
    kt__kv_table t;
    assert_int_equal(kt__kv_table_init(&t, 1 << 20, NULL), KT_OK);
    for (int32_t n = 0;;) {
        int32_t more = 1 + (int32_t)lcg_below(seed, (uint32_t)step);
        int64_t n_pos = (int64_t)(n > tail ? n - tail : 0) * 16;
        while (kt__kv_n_free(kv) < more && press_for(kv, &t, n_pos, more)) {
        }
        while (more > 1 && kt__kv_n_free(kv) < more) more /= 2;
        if (kt__kv_n_free(kv) < more) break;
        assert_int_equal(kt__kv_table_grow(kv, &t, n * 16, (n + more) * 16, NULL), KT_OK);
        n += more;
    }
    int32_t n = t.n_pages;
    kt__kv_table_free(kv, &t);
    return n;
}

/* What is said of it before is what it comes to, whatever the steps. */
static void test_a_table_alone_comes_to_what_was_planned(void **state) {
    const int dims[] = {32, 64, 80, 128, 256};
    uint32_t seed = 7;
    (void)state;
    for (int i = 0; i < 100; i++) {
        int dim = dims[lcg_below(&seed, 5)];
        int64_t n_pages = 48 + lcg_below(&seed, 16 * 12);
        const kt__kv_shape shape = {
            .n_layer = 3, .n_head_kv = 1, .head_dim_k = dim, .head_dim_v = dim};
        kt__kv_room room = {.presses = true, .f16_keys = {lcg_below(&seed, 3)}};
        kt__kv *kv;
        assert_int_equal(kt__kv_create_with(&shape, n_pages, room, &kv, NULL), KT_OK);
        kt__kv_set_quantise(kv, quantise_any, NULL);
        int64_t most = kt__kv_n_pages_pressed(kv, 9), usable = kt__kv_n_pages(kv);
        assert_int_equal(most, kt__kv_plan_pressed(&shape, &room, n_pages, 9));
        int64_t n = grow_alone(kv, 8, i % 2 ? 1 + i % 40 : 1, &seed);
        if (n < most || (i % 2 == 0 && n > most))
            fail_msg("dim %d, %d pages: %d, planned %d", dim, (int)n_pages, (int)n, (int)most);
        assert_true(n_pages < 96 || most > usable * 3 / 2);
        assert_int_equal(kt__kv_n_free(kv), usable);
        kt__kv_destroy(kv);
    }
}

/* ---- the index ---- */

static int32_t found(kt__prefix *prefix, kt__kv *kv, const int32_t *ids, size_t n, bool altered) {
    kt__kv_table t;
    kt__prefix_cursor cursor = {kt__kv_key_root("x", 1), 0};
    assert_int_equal(kt__kv_table_init(&t, 4096, NULL), KT_OK);
    kt__prefix_match(prefix, &cursor, ids, n, altered, &t);
    kt__kv_table_free(kv, &t);
    return cursor.n_block;
}

static void compute(kt__prefix *prefix, kt__kv *kv, const int32_t *ids, int64_t n) {
    kt__kv_table t;
    kt__prefix_cursor cursor = {kt__kv_key_root("x", 1), 0};
    assert_int_equal(kt__kv_table_init(&t, 4096, NULL), KT_OK);
    kt__prefix_match(prefix, &cursor, ids, (size_t)n, false, &t);
    assert_int_equal(kt__kv_table_grow(kv, &t, cursor.n_block * 16, n, NULL), KT_OK);
    kt__prefix_insert(prefix, &cursor, ids, n, &t);
    kt__kv_table_free(kv, &t);
}

static void test_what_is_kept_is_pressed_before_it_is_given_up(void **state) {
    enum { TEXTS = 4, N = 16 * 56 };
    int32_t ids[TEXTS][N];
    kt__prefix *prefix;
    (void)state;
    kt__kv *kv = open_store();
    kt__kv_set_quantise(kv, fake_quantise, NULL);
    assert_int_equal(kt__prefix_create(kv, 0, &prefix, NULL), KT_OK);
    for (int t = 0; t < TEXTS; t++) {
        for (int i = 0; i < N; i++) ids[t][i] = t * N + i;
        compute(prefix, kv, ids[t], N);
    }
    /* 4 * 56 pages of 176 places */
    assert_int_equal(kt__prefix_n_evicted(prefix), 0);
    for (int t = 0; t < TEXTS; t++) assert_int_equal(found(prefix, kv, ids[t], N, true), 56);
    assert_true(found(prefix, kv, ids[0], N, false) < 56);
    assert_int_equal(found(prefix, kv, ids[TEXTS - 1], N, false), 56);
    /* who takes none of it computes it again, for others as well */
    compute(prefix, kv, ids[0], N);
    assert_int_equal(found(prefix, kv, ids[0], N, false), 56);
    kt__prefix_destroy(prefix);
    assert_int_equal(kt__kv_n_free(kv), USABLE);
    kt__kv_destroy(kv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schedule),
        cmocka_unit_test(test_what_is_written_after_pressed_pages_is_altered),
        cmocka_unit_test(test_a_table_alone_comes_to_what_was_planned),
        cmocka_unit_test(test_what_is_kept_is_pressed_before_it_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
