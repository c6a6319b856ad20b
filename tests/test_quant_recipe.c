/* quant: which tensor a recipe gives which type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "quant/recipe.h"

static const kt__recipe_model model = {.n_layer = 16, .n_head = 16, .n_head_kv = 4, .tied = false};

static kt__type type_of(const char *recipe, kt__tensor_role role, int layer, int64_t n_cols) {
    const kt__recipe *r = kt__recipe_find(recipe);
    assert_non_null(r);
    return kt__recipe_type(r, &model, role, layer, n_cols);
}

/* Rows of the published table: layers 0, 3, 4 and 15 of 16, then attn_output and the head. */
static void test_mixtures(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        kt__tensor_role role;
        kt__type at[4];
    } rows[] = {
#define T(name) KT__TYPE_##name
        {"q4_k_s", KT__TENSOR_V, {T(Q5_K), T(Q5_K), T(Q4_K), T(Q4_K)}},
        {"q4_k_s", KT__TENSOR_DOWN, {T(Q5_K), T(Q4_K), T(Q4_K), T(Q4_K)}},
        {"q4_k_m", KT__TENSOR_V, {T(Q6_K), T(Q4_K), T(Q6_K), T(Q6_K)}},
        {"q5_k_s", KT__TENSOR_V, {T(Q5_K), T(Q5_K), T(Q5_K), T(Q5_K)}},
        {"q5_k_m", KT__TENSOR_DOWN, {T(Q6_K), T(Q5_K), T(Q6_K), T(Q6_K)}},
        {"q3_k_s", KT__TENSOR_DOWN, {T(Q3_K), T(Q3_K), T(Q3_K), T(Q3_K)}},
        {"q3_k_m", KT__TENSOR_V, {T(Q5_K), T(Q4_K), T(Q4_K), T(Q4_K)}},
        {"q3_k_l", KT__TENSOR_V, {T(Q5_K), T(Q5_K), T(Q5_K), T(Q5_K)}},
        {"q3_k_l", KT__TENSOR_ATTN_OUT, {T(Q5_K), T(Q5_K), T(Q5_K), T(Q5_K)}},
        {"q3_k_s", KT__TENSOR_ATTN_OUT, {T(Q3_K), T(Q3_K), T(Q3_K), T(Q3_K)}},
        {"q2_k", KT__TENSOR_V, {T(Q4_K), T(Q4_K), T(Q4_K), T(Q4_K)}},
        {"q4_k_s", KT__TENSOR_OUTPUT, {T(Q6_K), T(Q6_K), T(Q6_K), T(Q6_K)}},
        {"q8_0", KT__TENSOR_OUTPUT, {T(Q8_0), T(Q8_0), T(Q8_0), T(Q8_0)}},
        {"q4_k_s", KT__TENSOR_GATE, {T(Q4_K), T(Q4_K), T(Q4_K), T(Q4_K)}},
#undef T
    };
    static const int layers[] = {0, 3, 4, 15};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 4; k++)
            if (type_of(rows[i].recipe, rows[i].role, layers[k], 256) != rows[i].at[k])
                fail_msg("row %zu (%s), layer %d", i, rows[i].recipe, layers[k]);
}

static void test_rows_that_blocks_do_not_divide(void **state) {
    (void)state;
    assert_int_equal(type_of("q4_k_s", KT__TENSOR_GATE, 9, 160), KT__TYPE_Q5_0);
    assert_int_equal(type_of("q3_k_l", KT__TENSOR_GATE, 9, 160), KT__TYPE_Q4_0);
    assert_int_equal(type_of("q6_k", KT__TENSOR_GATE, 9, 160), KT__TYPE_Q8_0);
    assert_int_equal(type_of("q6_k", KT__TENSOR_GATE, 9, 100), KT__TYPE_F16);
    assert_int_equal(type_of("q4_k_m", KT__TENSOR_VECTOR, 0, 256), KT__TYPE_F32);
    assert_int_equal(type_of("bf16", KT__TENSOR_VECTOR, 0, 256), KT__TYPE_F32);
    assert_int_equal(type_of("bf16", KT__TENSOR_OUTPUT, 0, 100), KT__TYPE_BF16);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixtures),
                                       cmocka_unit_test(test_rows_that_blocks_do_not_divide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
