#include "model/encoder.h"

#include <string.h>

#include "base/math.h"

/* ---- in a batch ---- */

static int32_t type_of(const kt__seg *seg, int row) {
    return seg->pair_from > 0 && seg->pos0 + row >= seg->pair_from;
}

bool kt__encoder_embed(kt__dev *dev, const kt__input_tables *tables, const kt__seg *segs, int n_seg,
                       float eps, int n_tok, int n, int32_t *ids, float *tmp, float *x) {
    const kt__ops *ops = kt__dev_ops(dev);
    const kt__weight *const list[] = {&tables->positions, &tables->types};
    for (int i = 0; i < 2; i++) {
        const kt__weight *w = list[i];
        if (!w->data) continue;
        memset(ids, 0, (size_t)n_tok * sizeof *ids);
        for (int s = 0; s < n_seg; s++) {
            const kt__seg *seg = &segs[s];
            for (int t = 0; t < seg->n_tok; t++) {
                int32_t id = w == &tables->positions ? (int32_t)(seg->pos0 + t) : type_of(seg, t);
                ids[seg->row0 + t] = id < w->n_row ? id : w->n_row - 1;
            }
        }
        ops->embed(dev, w, ids, n_tok, 1.0f, tmp);
        ops->add(dev, tmp, w->n_col, n_tok, w->n_col, x);
    }
    return kt__encoder_norm(dev, &tables->norm, eps, n_tok, n, x);
}

bool kt__encoder_norm(kt__dev *dev, const kt__layer_norm *norm, float eps, int n_tok, int n,
                      float *x) {
    const kt__ops *ops = kt__dev_ops(dev);
    ops->centre(dev, x, n_tok, n);
    bool finite = ops->norm_f32(dev, x, norm->w, eps, n_tok, n, x);
    if (norm->b) ops->add(dev, norm->b, 0, n_tok, n, x);
    return finite;
}

void kt__encoder_up(kt__dev *dev, const kt__weight *up, const float *bias, const kt__acts *acts,
                    const kt__lora_terms *lora, float *rows, kt__acts *out) {
    const kt__ops *ops = kt__dev_ops(dev);
    ops->matmul(dev, up, acts, bias, NULL, lora, KT__SITE_UP, rows, (size_t)up->n_row);
    ops->gelu(dev, rows, (int64_t)acts->n_tok * up->n_row);
    ops->quantize(dev, rows, acts->n_tok, out);
}

/* ---- after the last layer ---- */

static int widest_layer(const kt__pool_head *head) {
    int n = head->hidden.n_row > head->labels.n_row ? head->hidden.n_row : head->labels.n_row;
    for (int i = 0; i < KT__POOL_DENSE; i++)
        if (head->dense[i].n_row > n) n = head->dense[i].n_row;
    return n;
}

size_t kt__pool_scratch_floats(const kt__pool_head *head, int d_model) {
    size_t longest = (size_t)(widest_layer(head) > d_model ? widest_layer(head) : d_model);
    return 3 * longest; /* a row, and two vectors */
}

/* y[n_row] = w . x + bias, sums in double in the columns' order. */
static void multiply_row(const kt__weight *w, const float *bias, const float *x, float *row,
                         float *y) {
    for (int r = 0; r < w->n_row; r++) {
        double sum = bias ? (double)bias[r] : 0.0;
        kt__dequantize_row(w->type, w->data + (size_t)r * w->row_bytes, w->n_col, row);
        for (int c = 0; c < w->n_col; c++) sum += (double)row[c] * (double)x[c];
        y[r] = (float)sum;
    }
}

void kt__pool_project(const kt__pool_head *head, int d_model, float *x, float *scratch) {
    size_t longest = kt__pool_scratch_floats(head, d_model) / 3;
    const float *from = x;
    int n = d_model;
    for (int i = 0; i < KT__POOL_DENSE; i++) {
        if (!head->dense[i].data) continue;
        float *to = scratch + (size_t)(i + 1) * longest;
        multiply_row(&head->dense[i], head->dense_bias[i], from, scratch, to);
        from = to;
        n = head->dense[i].n_row;
    }
    if (from != x) memcpy(x, from, (size_t)n * sizeof *x);
}

float kt__pool_relevance(const kt__pool_head *head, int d_model, const float *x, float *scratch) {
    size_t longest = kt__pool_scratch_floats(head, d_model) / 3;
    float *hidden = scratch + longest, *labels = scratch + 2 * longest;
    const float *from = x;
    if (head->hidden.data) {
        multiply_row(&head->hidden, head->hidden_bias, x, scratch, hidden);
        for (int i = 0; i < head->hidden.n_row; i++) hidden[i] = kt__tanhf(hidden[i]);
        from = hidden;
    }
    multiply_row(&head->labels, head->labels_bias, from, scratch, labels);
    double most = 0.0, sum = 0.0; /* one label is next to a second one of 0 */
    int n = head->labels.n_row;
    for (int i = 0; i < n; i++)
        if (n > 1 && (i == 0 || (double)labels[i] > most)) most = (double)labels[i];
    if (n == 1 && (double)labels[0] > 0.0) most = (double)labels[0];
    for (int i = 0; i < n; i++) sum += kt__exp((double)labels[i] - most);
    if (n == 1) sum += kt__exp(-most);
    return (float)(kt__exp((double)labels[0] - most) / sum);
}
