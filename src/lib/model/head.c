#include "model/fwd_steps.h"

#include <math.h>
#include <string.h>

/* The batch's rows with adapters, as rows of those that are wanted. */
static kt__lora_terms lora_of_head(kt__fwd *fwd) {
    const kt__batch *b = &fwd->batch;
    kt__lora_terms terms = {.rows = fwd->head_lora,
                            .block = fwd->net->hp.n_layer,
                            .u = kt__fwd_f32(fwd, KT__BUF_LORA_U)};
    int at = 0;
    for (int g = 0; g < b->n_lora; g++) {
        kt__lora_rows rows = b->lora[g];
        int end = rows.row0 + rows.n_tok;
        while (at < b->n_out && b->out_rows[at] < rows.row0) at++;
        rows.row0 = at;
        while (at < b->n_out && b->out_rows[at] < end) at++;
        rows.n_tok = at - rows.row0;
        if (rows.n_tok > 0) fwd->head_lora[terms.n_rows++] = rows;
    }
    return terms;
}

/* What adapters add to the normed hidden state itself. */
static void adapt_hidden(kt__fwd *fwd, const kt__lora_terms *lora, float *rows) {
    int n_out = fwd->batch.n_out, d_model = fwd->net->hp.d_model;
    if (!kt__lora_has_input(lora, KT__INPUT_HIDDEN)) return;
    kt__acts acts = {.n_tok = n_out, .n_col = d_model};
    kt__fwd_want_f32(&acts, fwd, KT__BUF_ACT0);
    fwd->ops->quantize(fwd->dev, rows, n_out, &acts);
    fwd->ops->lora_down(fwd->dev, &acts, lora, KT__INPUT_HIDDEN);
    fwd->ops->lora_up(fwd->dev, lora, KT__SITE_HIDDEN, d_model, n_out, rows);
}

/* rows[n_out] against the head. */
static void head_product(kt__fwd *fwd, const kt__head *head, kt__lora_terms *lora,
                         const float *rows) {
    const kt__hparams *hp = &fwd->net->hp;
    int n_out = fwd->batch.n_out;
    bool adapted = kt__lora_has_input(lora, KT__INPUT_HEAD);
    kt__weight w = *head->w;
    if (fwd->batch.n_head_rows > 0 && fwd->batch.n_head_rows < w.n_row)
        w.n_row = fwd->batch.n_head_rows;
    kt__acts acts = kt__fwd_acts(fwd, n_out, hp->d_model, &head->w, 1);
    if (adapted) kt__fwd_want_f32(&acts, fwd, KT__BUF_ACT0);
    fwd->ops->quantize(fwd->dev, rows, n_out, &acts);
    lora->acts = &acts;
    kt__fwd_gpu_choose(fwd, true);
    fwd->ops->matmul(fwd->dev, &w, &acts, head->bias, NULL, adapted ? lora : NULL, KT__SITE_HEAD,
                     kt__fwd_f32(fwd, KT__BUF_LOGITS), (size_t)hp->n_vocab);
    if (kt__fwd_gpu_settle(fwd)) return;
    fwd->ops->matmul(fwd->dev, &w, &acts, head->bias, NULL, adapted ? lora : NULL, KT__SITE_HEAD,
                     kt__fwd_f32(fwd, KT__BUF_LOGITS), (size_t)hp->n_vocab);
}

/* The wanted rows, gathered and normed, where kt__fwd_hidden finds them; false: not finite. */
static bool gather_rows(kt__fwd *fwd, const float *norm) {
    const kt__hparams *hp = &fwd->net->hp;
    const kt__batch *b = &fwd->batch;
    size_t d = (size_t)hp->d_model;
    float *x = kt__fwd_f32(fwd, KT__BUF_X), *rows = kt__fwd_f32(fwd, KT__BUF_TMP);
    for (int i = 0; i < b->n_out; i++)
        memmove(rows + (size_t)i * d, x + (size_t)b->out_rows[i] * d, d * sizeof *x);
    if (hp->features & KT__F_CENTRED) fwd->ops->centre(fwd->dev, rows, b->n_out, hp->d_model);
    if (!norm) return fwd->ops->finite(fwd->dev, rows, b->n_out, hp->d_model);
    return fwd->ops->norm_f32(fwd->dev, rows, norm, hp->norm_eps, b->n_out, hp->d_model, rows);
}

static bool finish_logits(kt__fwd *fwd) {
    const kt__hparams *hp = &fwd->net->hp;
    float *logits = kt__fwd_f32(fwd, KT__BUF_LOGITS);
    int n_out = fwd->batch.n_out;
    int64_t n_logits = (int64_t)n_out * hp->n_vocab;
    if (hp->logit_scale != 1.0f) fwd->ops->scale(fwd->dev, logits, n_logits, hp->logit_scale);
    if (hp->final_softcap > 0.0f) fwd->ops->softcap(fwd->dev, logits, n_logits, hp->final_softcap);
    if (!fwd->ops->finite(fwd->dev, logits, n_out, hp->n_vocab)) return false;
    for (int row = 0; row < n_out; row++, logits += hp->n_vocab)
        for (size_t i = 0; i < fwd->net->n_suppressed; i++)
            logits[fwd->net->suppressed[i]] = -INFINITY;
    return true;
}

kt_status kt__head_run(kt__fwd *fwd, const kt__head *head, kt_error *err) {
    const kt__batch *b = &fwd->batch;
    size_t d = (size_t)fwd->net->hp.d_model;
    float *rows = kt__fwd_f32(fwd, KT__BUF_TMP);
    if (b->n_out == 0) return KT_OK;
    if (fwd->net->hp.n_stream) kt__streams_merge(fwd);
    if (!gather_rows(fwd, head->norm)) return kt__fwd_fail(fwd, "the head, after the last", err);
    kt__lora_terms lora = lora_of_head(fwd);
    adapt_hidden(fwd, &lora, rows);
    for (int i = 0; fwd->params.on_hidden && i < b->n_out; i++)
        fwd->params.on_hidden(fwd->params.on_hidden_user, b->out_rows[i], rows + (size_t)i * d);
    if (b->no_head) return KT_OK;
    head_product(fwd, head, &lora, rows);
    if (b->n_head_rows > 0) return KT_OK; /* only which is greatest counts */
    return finish_logits(fwd) ? KT_OK : kt__fwd_fail(fwd, "the logits, after the last", err);
}
