/* What stands behind a pooled state: dense layers and rerankers' heads against plain arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/encoder.h"
#include "support.h"

enum { D = 8, INNER = 20, LABELS = 3 };

static float weights[4][INNER * INNER], biases[2][INNER];

static float number(uint32_t *state) {
    return (float)lcg_unit(state) - 0.5f;
}

static kt__weight matrix(int index, int n_row, int n_col) {
    uint32_t state = (uint32_t)index + 1;
    for (int i = 0; i < n_row * n_col; i++) weights[index][i] = number(&state);
    return (kt__weight){(const uint8_t *)weights[index], KT__TYPE_F32, n_row, n_col,
                        (size_t)n_col * sizeof(float)};
}

static const float *bias(int index) {
    uint32_t state = (uint32_t)index + 77;
    for (int i = 0; i < INNER; i++) biases[index][i] = number(&state);
    return biases[index];
}

static void plain_product(const kt__weight *w, const float *b, const double *x, double *y) {
    const float *data = (const float *)(const void *)w->data;
    for (int r = 0; r < w->n_row; r++) {
        y[r] = b ? (double)b[r] : 0.0;
        for (int c = 0; c < w->n_col; c++) y[r] += (double)data[r * w->n_col + c] * x[c];
    }
}

static void fill(float *x, double *exact) {
    uint32_t state = 5;
    for (int i = 0; i < D; i++) exact[i] = (double)(x[i] = 4.0f * number(&state));
}

static void test_dense(void **state) {
    (void)state;
    kt__pool_head head = {.dense = {matrix(0, INNER, D), matrix(1, D, INNER)}};
    float x[D], *scratch = calloc(kt__pool_scratch_floats(&head, D), sizeof *scratch);
    double exact[D], inner[INNER], out[D];
    fill(x, exact);
    plain_product(&head.dense[0], NULL, exact, inner);
    plain_product(&head.dense[1], NULL, inner, out);
    kt__pool_project(&head, D, x, scratch);
    for (int i = 0; i < D; i++) assert_true(fabs((double)x[i] - out[i]) < 1e-5);
    kt__pool_head none = {0};
    float same[D];
    fill(same, exact);
    kt__pool_project(&none, D, same, scratch);
    for (int i = 0; i < D; i++)
        assert_true(!((double)same[i] < exact[i] || (double)same[i] > exact[i]));
    free(scratch);
}

static double relevance(const kt__pool_head *head, const double *x) {
    double hidden[INNER], labels[INNER], sum = 0;
    const double *from = x;
    if (head->hidden.data) {
        plain_product(&head->hidden, head->hidden_bias, x, hidden);
        for (int i = 0; i < head->hidden.n_row; i++) hidden[i] = tanh(hidden[i]);
        from = hidden;
    }
    plain_product(&head->labels, head->labels_bias, from, labels);
    if (head->labels.n_row == 1) return 1 / (1 + exp(-labels[0]));
    for (int i = 0; i < head->labels.n_row; i++) sum += exp(labels[i]);
    return exp(labels[0]) / sum;
}

static void test_relevance(void **state) {
    (void)state;
    for (int form = 0; form < 4; form++) {
        kt__pool_head head = {.labels = matrix(3, form & 1 ? LABELS : 1, D)};
        if (form & 2) {
            head.hidden = matrix(2, D, D);
            head.hidden_bias = bias(0);
            head.labels_bias = bias(1);
        }
        float x[D], *scratch = calloc(kt__pool_scratch_floats(&head, D), sizeof *scratch);
        double exact[D];
        fill(x, exact);
        assert_true(fabs((double)kt__pool_relevance(&head, D, x, scratch) -
                         relevance(&head, exact)) < 1e-6);
        for (int i = 0; i < D; i++) x[i] *= 1e30f; /* far out it is 0 or 1, and a number */
        float far = kt__pool_relevance(&head, D, x, scratch);
        assert_true(far >= 0.0f && far <= 1.0f);
        free(scratch);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dense),
                                       cmocka_unit_test(test_relevance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
