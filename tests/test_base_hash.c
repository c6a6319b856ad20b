/* base: the hash is one function of bytes however they come, changes with every bit, and spreads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"

static void fill(uint8_t *p, size_t n) {
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        p[i] = (uint8_t)x;
    }
}

static bool equal(kt__digest a, kt__digest b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

static void test_pieces_make_no_difference(void **state) {
    (void)state;
    uint8_t data[1000];
    fill(data, sizeof data);
    for (size_t n = 0; n < 300; n++) {
        kt__digest whole = kt__hash_bytes(7, data, n);
        for (size_t step = 1; step < 140; step += 13) {
            kt__hash h;
            kt__hash_init(&h, 7);
            for (size_t i = 0; i < n; i += step)
                kt__hash_add(&h, data + i, i + step < n ? step : n - i);
            assert_true(equal(whole, kt__hash_end(&h)));
            kt__hash_add(&h, data, 0);
            assert_true(equal(whole, kt__hash_end(&h)));
        }
    }
}

static int bits(kt__digest a, kt__digest b) {
    int n = 0;
    for (int i = 0; i < 4; i++) n += __builtin_popcountll(a.w[i] ^ b.w[i]);
    return n;
}

static void test_every_bit_spreads(void **state) {
    (void)state;
    uint8_t data[200];
    fill(data, sizeof data);
    kt__digest was = kt__hash_bytes(0, data, sizeof data);
    double sum = 0;
    for (size_t i = 0; i < 8 * sizeof data; i++) {
        data[i / 8] ^= (uint8_t)(1u << i % 8);
        int n = bits(was, kt__hash_bytes(0, data, sizeof data));
        data[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_in_range(n, 80, 176); /* 128 expected, six standard deviations */
        sum += n;
    }
    assert_true(sum / (8 * sizeof data) > 127 && sum / (8 * sizeof data) < 129);
}

static int compare(const void *a, const void *b) {
    return memcmp(a, b, sizeof(uint64_t));
}

/* Zeros of different lengths, small numbers, seeds: 64 bits of each digest are all different. */
static void test_near_inputs_differ(void **state) {
    (void)state;
    enum { N = 30000 };
    static const uint8_t zeros[N / 3];
    uint64_t *seen = malloc(N * sizeof *seen);
    for (int i = 0; i < N; i++) {
        uint32_t x = (uint32_t)i;
        kt__digest d = i % 3 == 0   ? kt__hash_bytes(1, zeros, x / 3)
                       : i % 3 == 1 ? kt__hash_bytes(2, &x, sizeof x)
                                    : kt__hash_bytes(x, zeros, 4);
        seen[i] = d.w[i % 4];
    }
    qsort(seen, N, sizeof *seen, compare);
    for (int i = 1; i < N; i++) assert_true(seen[i] != seen[i - 1]);
    free(seen);
}

/* Files hold digests: the function may not change. */
static void test_golden(void **state) {
    (void)state;
    kt__digest empty = kt__hash_bytes(0, "", 0), text = kt__hash_bytes(1, "kentang", 7);
    assert_true(empty.w[0] == 0x13833bc19e1e5575u);
    assert_true(text.w[0] == 0x22a407efb40f8350u && text.w[3] == 0x7b841bc89f8911a9u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_make_no_difference),
        cmocka_unit_test(test_every_bit_spreads),
        cmocka_unit_test(test_near_inputs_differ),
        cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
