/* Operations of a device that counts the weights it would read, for a plan: what they would write is left as it is, and the
 * others, which read none, are computed as ever. */
#include "ops/dev.h"

static void tally_rows(kt__dev *dev, const kt__weight *w, int n_row) {
    kt__tally *tally = dev->limits.split->tally;
    uint64_t bytes = w->data ? (uint64_t)n_row * w->row_bytes : 0;
    tally->read_bytes += bytes;
    tally->held_bytes += bytes;
}

/* A token reads those of the experts it chose: on average as many of one as of another. */
void kt__tally_experts(kt__dev *dev, const kt__expert_weights *all, const kt__routing *routing,
                       int64_t rows) {
    kt__tally *tally = dev->limits.split->tally;
    uint64_t bytes = all->w.data ? (uint64_t)rows * all->w.row_bytes : 0;
    tally->held_bytes += bytes;
    tally->read_bytes += bytes * (uint64_t)routing->n_used / (uint64_t)routing->n_expert;
}

static void tally_all_experts(kt__dev *dev, const kt__expert_weights *all,
                              const kt__routing *routing) {
    kt__tally_experts(dev, all, routing, (int64_t)all->w.n_row * routing->n_expert);
}

void kt__tally_matmul(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                      const float *residual, const kt__lora_terms *lora, kt__lora_site site,
                      float *out, size_t ld_out) {
    (void)acts, (void)bias, (void)residual, (void)lora, (void)site, (void)out, (void)ld_out;
    tally_rows(dev, w, w->n_row);
}

void kt__tally_units(kt__dev *dev, const kt__glu *desc, int n_row) {
    tally_rows(dev, &desc->gate, n_row);
    tally_rows(dev, &desc->up, n_row);
}

void kt__tally_glu(kt__dev *dev, const kt__acts *acts, const kt__glu *desc, kt__acts *out) {
    out->n_tok = acts->n_tok;
    kt__tally_units(dev, desc, desc->gate.n_row);
}

void kt__tally_qkv(kt__dev *dev, const kt__acts *acts, const kt__qkv *desc) {
    (void)acts;
    if (!desc->q_rows && !desc->kv_alone) tally_rows(dev, &desc->wq, desc->wq.n_row);
    if (desc->q_alone) return;
    if (!desc->k_rows) tally_rows(dev, &desc->wk, desc->wk.n_row);
    if (!desc->v_rows && !desc->v_is_k) tally_rows(dev, &desc->wv, desc->wv.n_row);
}

void kt__tally_attention(kt__dev *dev, const kt__attention *desc) {
    (void)dev, (void)desc;
}

void kt__tally_experts_glu(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                           kt__acts *out) {
    (void)acts;
    out->n_tok = desc->routing->n_slot;
    tally_all_experts(dev, &desc->gate, desc->routing);
    tally_all_experts(dev, &desc->up, desc->routing);
}

void kt__tally_experts_down(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc) {
    (void)acts;
    tally_all_experts(dev, &desc->down, desc->routing);
}

void kt__tally_heads(kt__dev *dev, const kt__acts *acts, const kt__heads *desc) {
    (void)acts;
    tally_rows(dev, &desc->w, desc->w.n_row * desc->n_head);
}
