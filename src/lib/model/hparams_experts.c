/* Keys of routers and experts. */
#include "model/hparams_parts.h"

/* Values of expert_gating_func. */
enum { GATING_UNSAID, GATING_SOFTMAX, GATING_SIGMOID, GATING_SOFTMAX_OF_CHOSEN };

/* Widths of the experts and of the shared one; where a file has no key, the feed-forward's means
 * them as the converters wrote it. */
static void read_widths(kt__key_reader *r, kt__hparams *hp) {
    bool split = hp->features & KT__F_SHARED_EXPERT, parts = hp->features & KT__F_SHARED_WHOLE;
    int whole = split && !parts && hp->d_ff >= hp->n_expert_used ? hp->d_ff / hp->n_expert_used
                                                                 : hp->d_ff;
    bool own = hp->features & KT__F_DELTA;
    hp->d_ff_expert = (int)kt__key_int(r, "expert_feed_forward_length", own, whole, 1, KT__MAX_COL);
    if (!split) return;
    if (!parts) {
        hp->d_ff_shared = (int)kt__key_int(r, "expert_shared_feed_forward_length", own, hp->d_ff, 1,
                                           KT__MAX_COL);
        return;
    }
    bool one = hp->features & KT__F_WEIGHED_INPUT; /* of Llama 4, whose files do not say it */
    int64_t count = kt__key_int(r, "expert_shared_count", false, one, 0, KT__MAX_EXPERTS);
    int64_t together = count * hp->d_ff_expert;
    hp->d_ff_shared = (int)kt__key_int(r, "expert_shared_feed_forward_length", false,
                                       together < KT__MAX_COL ? together : KT__MAX_COL, 0,
                                       KT__MAX_COL);
    if (hp->d_ff_shared == 0) hp->features &= ~KT__F_SHARED_EXPERT;
}

/* The architecture says it, and a file may repeat it. */
static void read_fixed_choice(kt__key_reader *r, kt__hparams *hp) {
    bool of_all = hp->features & KT__F_SHARES_OF_ALL, sigmoid = hp->features & KT__F_WEIGHED_INPUT;
    int64_t known = sigmoid ? GATING_SIGMOID : GATING_SOFTMAX;
    int64_t gating = kt__key_int(r, "expert_gating_func", false, known, 0, 255);
    bool same = !of_all && !sigmoid && gating == GATING_SOFTMAX_OF_CHOSEN;
    if (gating != known && !same) kt__key_refuse(r, "expert_gating_func", gating);
    int64_t groups = kt__key_int(r, "expert_group_count", false, 0, 0, INT32_MAX);
    if (groups > 1) kt__key_refuse(r, "expert_group_count", groups);
    bool normed = !of_all && !sigmoid;
    if (kt__key_bool(r, "expert_weights_norm", normed) != normed)
        kt__key_refuse(r, "expert_weights_norm", !normed);
    hp->shares = sigmoid ? KT__SHARES_SIGMOID : of_all ? KT__SHARES_OF_ALL : KT__SHARES_OF_CHOSEN;
}

/* Llama 4's models of so many experts have heads that are not normed; no key says it. */
enum { MAVERICK_EXPERTS = 128 };

static void read_groups(kt__key_reader *r, kt__hparams *hp) {
    hp->n_expert_group = (int)kt__key_int(r, "expert_group_count", false, 1, 0, KT__MAX_EXPERTS);
    if (hp->n_expert_group < 1) hp->n_expert_group = 1;
    int most = hp->n_expert_group;
    hp->n_group_used = (int)kt__key_int(r, "expert_group_used_count", most > 1, 1, most > 1, most);
    if (r->status != KT_OK || most == 1) return;
    int in_group = hp->n_expert / most;
    if (hp->n_expert % most || in_group < 2)
        kt__key_fail(r, "expert_group_count",
                     "does not divide expert_count into groups of 2 or more");
    else if (hp->n_expert_used > hp->n_group_used * in_group)
        kt__key_fail(r, "expert_group_used_count", "leaves fewer experts than expert_used_count");
}

/* DeepSeek's files of 2024 say nothing of the gating, which was a softmax; GLM-4.7-Flash's say
 * nothing either, and it is a sigmoid: its layers and its vocabulary tell it apart. */
static int64_t unsaid_gating(const kt__key_reader *r, const kt__hparams *hp) {
    const kt__gguf_kv *tokens = kt__gguf_find(r->gguf, "tokenizer.ggml.tokens");
    bool glm = hp->features & KT__F_LATENT && (hp->n_layer == 47 || hp->n_layer == 48) && tokens &&
               tokens->count == 154880;
    bool always = hp->features & (KT__F_ONE_PART | KT__F_MAY_QK_NORM); /* Nemotron H, GLM 4.5 */
    return glm || always ? GATING_SIGMOID : GATING_SOFTMAX;
}

static void read_free_choice(kt__key_reader *r, kt__hparams *hp) {
    int64_t gating = kt__key_int(r, "expert_gating_func", false, GATING_UNSAID, 0, 255);
    if (gating == GATING_UNSAID) gating = unsaid_gating(r, hp);
    if (gating != GATING_SOFTMAX && gating != GATING_SIGMOID)
        kt__key_refuse(r, "expert_gating_func", gating);
    hp->shares = gating == GATING_SIGMOID ? KT__SHARES_SIGMOID : KT__SHARES_OF_ALL;
    bool norm = !(hp->features & (KT__F_LATENT | KT__F_ONE_PART));
    hp->shares_normed = kt__key_bool(r, "expert_weights_norm", norm);
    read_groups(r, hp);
}

static void read_dense_layers(kt__key_reader *r, kt__hparams *hp) {
    int lead = (int)kt__key_int(r, "leading_dense_block_count", false, 0, 0, KT__MAX_LAYERS);
    int step = (int)kt__key_int(r, "interleave_moe_layer_step", false, 1, 1, KT__MAX_LAYERS);
    for (int i = 0; i < hp->n_layer; i++) hp->dense[i] = i < lead || (i + 1) % step != 0;
}

/* Of Nomic's encoders with experts: of each period the second layer has them. */
static void read_expert_period(kt__key_reader *r, kt__hparams *hp) {
    int period = (int)kt__key_int(r, "moe_every_n_layers", false, 0, 0, KT__MAX_LAYERS);
    for (int i = 0; i < hp->n_layer; i++) hp->dense[i] = period == 0 || i % period != 1;
}

void kt__hparams_read_experts(kt__key_reader *r, kt__hparams *hp) {
    bool may = hp->features & KT__F_MAY_EXPERTS;
    hp->n_expert_group = hp->n_group_used = 1;
    if (!(hp->features & KT__F_EXPERTS)) {
        int64_t n = kt__key_int(r, "expert_count", false, 0, 0, 1 << 20);
        if (n > 0) kt__key_refuse(r, "expert_count", n);
        return;
    }
    hp->n_expert = (int)kt__key_int(r, "expert_count", !may, 0, !may, KT__MAX_EXPERTS);
    if (hp->n_expert == 0) {
        hp->features &= ~(KT__F_EXPERTS | KT__F_SHARED_EXPERT);
        return;
    }
    if (hp->n_expert == MAVERICK_EXPERTS) hp->features &= ~KT__F_HEADS_NORMED;
    hp->n_expert_used = (int)kt__key_int(r, "expert_used_count", true, 0, 1,
                                         r->status == KT_OK ? hp->n_expert : 1);
    if (r->status != KT_OK) return;
    read_widths(r, hp);
    if (hp->features & KT__F_FREE_CHOICE) {
        read_free_choice(r, hp);
    } else {
        read_fixed_choice(r, hp);
    }
    if (hp->features & KT__F_DENSE_LEAD) read_dense_layers(r, hp);
    if (hp->features & KT__F_PLAIN_FF) read_expert_period(r, hp);
    hp->expert_scale = kt__key_f32(r, "expert_weights_scale", false, 1.0f);
    if (hp->expert_scale == 0.0f) hp->expert_scale = 1.0f;
    kt__key_positive(r, "expert_weights_scale", hp->expert_scale);
}
