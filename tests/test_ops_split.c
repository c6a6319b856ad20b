/* Shares of rows and heads: whatever they are, every row and every query head is somebody's, once and in order, with its
 * head of keys and values; equal shares differ by a unit at most. */
#include "support.h"

#include "ops/split.h"

static kt__division division_of(int size, const int *shares) {
    kt__division split = {.size = size};
    assert_true(kt__division_share(&split, shares));
    return split;
}

static void check_rows(const kt__division *split, int n, int unit) {
    assert_int_equal(kt__division_row(split, n, unit, 0), 0);
    assert_int_equal(kt__division_row(split, n, unit, split->size), n);
    for (int r = 0; r < split->size; r++) {
        int from = kt__division_row(split, n, unit, r),
            to = kt__division_row(split, n, unit, r + 1);
        assert_true(from <= to);
        assert_true(from % unit == 0 || from == n);
    }
}

static void check_heads(const kt__division *split, int n_head_kv, int group) {
    int next = 0;
    for (int r = 0; r < split->size; r++) {
        kt__division_heads h = kt__division_heads_of(split, n_head_kv * group, n_head_kv, r);
        assert_int_equal(h.q0, next);
        next += h.n_q;
        assert_in_range(h.n_kv, 1, n_head_kv - h.kv0);
        if (h.n_q == 0) continue;
        assert_int_equal(h.q0 / group, h.kv0);
        assert_int_equal((next - 1) / group, h.kv0 + h.n_kv - 1);
        assert_true(h.n_kv == 1 || h.n_q == h.n_kv * group);
    }
    assert_int_equal(next, n_head_kv * group);
}

static void test_all_is_divided(void **state) {
    (void)state;
    uint32_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        int shares[KT__PEERS_MAX] = {0}, size = 1 + (int)lcg_below(&seed, KT__PEERS_MAX);
        int most = 1 + (int)lcg_below(&seed, KT__SHARE_MAX);
        for (int r = 0; r < size; r++) shares[r] = (int)lcg_below(&seed, (uint32_t)most + 1);
        shares[lcg_below(&seed, (uint32_t)size)] = most;
        kt__division split = division_of(size, shares);
        check_rows(&split, 1 + (int)lcg_below(&seed, 20000), 1 << lcg_below(&seed, 9));
        check_heads(&split, 1 + (int)lcg_below(&seed, 40), 1 + (int)lcg_below(&seed, 9));
    }
}

/* Of few units an expert, all together are divided as the shares are. */
static void test_experts(void **state) {
    (void)state;
    const int shares[] = {2, 1, 1}, n_expert = 64, units = 3;
    kt__division split = division_of(3, shares);
    int sums[3] = {0};
    for (int e = 0; e < n_expert; e++) {
        assert_int_equal(kt__division_expert_row(&split, units * 256, 256, e, 0), 0);
        assert_int_equal(kt__division_expert_row(&split, units * 256, 256, e, 3), units * 256);
        for (int r = 0; r < 3; r++) {
            int n = kt__division_expert_row(&split, units * 256, 256, e, r + 1) -
                    kt__division_expert_row(&split, units * 256, 256, e, r);
            assert_true(n >= 0 && n % 256 == 0);
            sums[r] += n / 256;
        }
    }
    assert_int_equal(sums[0], 96);
    assert_int_equal(sums[1], 48);
    assert_int_equal(sums[2], 48);
}

static void test_equal_shares(void **state) {
    (void)state;
    for (int size = 1; size <= KT__PEERS_MAX; size++) {
        int shares[KT__PEERS_MAX];
        for (int r = 0; r < size; r++) shares[r] = 3;
        kt__division split = division_of(size, shares);
        for (int r = 0; r < size; r++) {
            int n = kt__division_row(&split, 1000, 1, r + 1) - kt__division_row(&split, 1000, 1, r);
            assert_in_range(n, 1000 / size, 1000 / size + 1);
            kt__division_heads h = kt__division_heads_of(&split, 256, 32, r);
            assert_in_range(h.n_kv, 32 / size, 32 / size + 1);
        }
    }
}

static void test_uneven(void **state) {
    (void)state;
    const int shares[] = {5, 1, 1, 1};
    kt__division split = division_of(4, shares);
    assert_int_equal(kt__division_row(&split, 800, 1, 1), 500);
    assert_int_equal(kt__division_heads_of(&split, 32, 8, 0).n_kv, 5);
    assert_int_equal(kt__division_heads_of(&split, 14, 2, 0).n_q, 7); /* one head is the others' */
    assert_int_equal(kt__division_heads_of(&split, 14, 2, 3).kv0, 1);
    assert_int_equal(kt__division_heads_of(&split, 8, 1, 0).n_q, 5);
}

static void test_texts(void **state) {
    (void)state;
    int shares[KT__PEERS_MAX];
    assert_int_equal(kt__division_parse("2,1,1", shares), 3);
    assert_int_equal(shares[0], 2);
    assert_int_equal(kt__division_parse("0,1000", shares), 2);
    const char *const bad[] = {
        "",     "2,",
        ",2",   "2,,1",
        "-1,2", "1001,1",
        "a",    "1;2",
        " 1",   "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kt__division_parse(bad[i], shares), -1);
    kt__division split = {.size = 2};
    assert_false(kt__division_share(&split, (const int[]){0, 0}));
    assert_false(kt__division_share(&split, (const int[]){1, 1001}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_divided), cmocka_unit_test(test_experts),
        cmocka_unit_test(test_equal_shares),   cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
