/* The rows of the head that a proposal computes: as many of the first as the texts' tokens are worth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "answer/spec.h"
#include "support.h"

enum { VOCAB = 248320, N = 2000 };

static const double rest = 0.05, head = 0.35; /* of a step: a small model with a large vocabulary */

/* Tokens spread evenly over the vocabulary's share from..to. */
static void count_within(kt__common_tokens *c, int n_vocab, double from, double to, int n) {
    uint32_t seed = 7;
    for (int i = 0; i < n; i++) {
        double at = from + (to - from) * lcg_unit(&seed);
        int32_t id = (int32_t)(at * n_vocab);
        kt__common_tokens_count(c, n_vocab, &id, 1);
    }
}

static int rows_of(double from, double to, int n) {
    kt__common_tokens c = {0};
    count_within(&c, VOCAB, from, to, n);
    return kt__common_tokens_rows(&c, VOCAB, rest, head);
}

static void test_common_tokens_take_few_rows(void **state) {
    (void)state;
    assert_int_equal(rows_of(0, 0.249, N), VOCAB / 4);
    assert_int_equal(rows_of(0, 0.03, N), VOCAB / KT__VOCAB_PARTS);
}

static void test_others_take_all(void **state) {
    (void)state;
    assert_int_equal(rows_of(0, 1, N), 0);
    assert_int_equal(rows_of(0.97, 1, N), 0);
    assert_int_equal(rows_of(0, 0.2, 63), 0); /* too few to know */
    kt__common_tokens small = {0};
    count_within(&small, 65535, 0, 0.2, N);
    assert_int_equal(kt__common_tokens_rows(&small, 65535, rest, head), 0);
}

/* Of 1000 tokens 900 are common. A head that is most of a proposal is worth cutting to them; one that is
 * next to nothing loses more by the tokens that are never proposed. */
static void test_by_what_the_head_takes(void **state) {
    (void)state;
    kt__common_tokens c = {0};
    count_within(&c, VOCAB, 0, 0.24, 900);
    count_within(&c, VOCAB, 0.25, 1, 100);
    assert_int_equal(kt__common_tokens_rows(&c, VOCAB, rest, 0.35), VOCAB / 4);
    assert_int_equal(kt__common_tokens_rows(&c, VOCAB, rest, 0.01), 0);
}

/* After a text in common words comes one without any: soon all rows are computed, and few after
 * another of the first kind. One long text counts by its end. */
static void test_texts_are_forgotten(void **state) {
    (void)state;
    static int32_t ids[20000];
    kt__common_tokens c = {0};
    count_within(&c, VOCAB, 0, 0.2, 20000);
    assert_in_range(c.n_seen, 2048, 4096);
    count_within(&c, VOCAB, 0, 1, 12000);
    assert_int_equal(kt__common_tokens_rows(&c, VOCAB, rest, head), 0);
    for (int i = 0; i < 20000; i++) ids[i] = i < 10000 ? VOCAB - 1 : i % 1000;
    kt__common_tokens_count(&c, VOCAB, ids, 20000);
    kt__common_tokens_count(&c, VOCAB, ids, 20000);
    assert_true(c.n_in[KT__VOCAB_PARTS - 1] < c.n_seen / 20);
    assert_in_range(kt__common_tokens_rows(&c, VOCAB, rest, head), 1, VOCAB / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_common_tokens_take_few_rows),
        cmocka_unit_test(test_others_take_all),
        cmocka_unit_test(test_by_what_the_head_takes),
        cmocka_unit_test(test_texts_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
