#include "convert/plan_mtp.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const char embed_to[] = "blk.nextn.embed_tokens.weight";
static const char head_to[] = "blk.nextn.shared_head_head.weight";

/* ---- whether there is one ---- */

/* Its matrix before the layer, which every block has. */
static kt_status find_first(const planner *p, const kt__st_tensor **out) {
    char name[MAX_NAME];
    const kt__shard *shard;
    bool qwen = p->config->arch & KT__HF_DELTAS;
    kt__plan_with_layer(qwen ? "mtp.fc.weight" : "layers.eh_proj.weight", p->config->n_layer, name,
                        sizeof name);
    return kt__plan_find_source(p, name, out, &shard);
}

kt_status kt__plan_find_mtp(const kt__folder *folder, kt__hf_config *config, kt_error *err) {
    const planner p = {.folder = folder, .config = config, .err = err};
    const kt__st_tensor *first = NULL;
    if (!(config->arch & (KT__HF_DELTAS | KT__HF_DEEPSEEK)) || config->n_layer >= KT__HF_MAX_LAYERS)
        return KT_OK;
    KT__STEP(find_first(&p, &first));
    config->n_mtp = first ? 1 : 0;
    return KT_OK;
}

/* ---- its own embeddings and head ---- */

/* Folders store the model's own once more. */
static kt_status is_own(const planner *p, const char *name, const char *of_model, bool *own) {
    char full[MAX_NAME];
    const kt__st_tensor *a, *b;
    const kt__shard *in_a, *in_b;
    bool same = false;
    kt__plan_with_layer(name, p->config->n_layer, full, sizeof full);
    KT__STEP(kt__plan_find_source(p, full, &a, &in_a));
    KT__STEP(kt__plan_find_source(p, of_model, &b, &in_b));
    if (a && b) KT__STEP(kt__plan_same_tensors(p, a, in_a, b, in_b, &same));
    *own = a && !same;
    return KT_OK;
}

kt_status kt__plan_look_at_mtp(planner *p) {
    if (p->config->n_mtp == 0 || p->config->arch != KT__HF_DEEPSEEK) return KT_OK;
    KT__STEP(is_own(p, "layers.embed_tokens.weight", "embed_tokens.weight", &p->mtp_embeds));
    return is_own(p, "layers.shared_head.head.weight",
                  p->has_head ? "lm_head.weight" : "embed_tokens.weight", &p->mtp_ends);
}

bool kt__plan_is_left_of_mtp(const planner *p, const map_row *row, int64_t layer) {
    if (strncmp(row->to, "blk.nextn.", 10) != 0) return false;
    return layer < p->config->n_layer || (strcmp(row->to, embed_to) == 0 && !p->mtp_embeds) ||
           (strcmp(row->to, head_to) == 0 && !p->mtp_ends);
}

bool kt__plan_is_copy_in_mtp(const planner *p, const char *name) {
    int64_t layer = -1;
    int n = 0;
    name += kt__plan_prefix_len(name);
    if (p->config->n_mtp == 0 || sscanf(name, "layers.%" SCNd64 ".%n", &layer, &n) != 1 || !n ||
        layer != p->config->n_layer)
        return false;
    return (strcmp(name + n, "embed_tokens.weight") == 0 && !p->mtp_embeds) ||
           (strcmp(name + n, "shared_head.head.weight") == 0 && !p->mtp_ends);
}

/* ---- what is left out ---- */

bool kt__plan_is_next_layer(const planner *p, const char *name) {
    const json_t *n = kt__hf_config_get(p->config, "num_nextn_predict_layers");
    int64_t layer = 0, more = json_is_integer(n) ? json_integer_value(n) : 0;
    if (sscanf(name, "model.layers.%" SCNd64 ".", &layer) != 1) return false;
    return layer >= p->config->n_layer && layer < p->config->n_layer + more;
}
