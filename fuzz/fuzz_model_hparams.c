/* libFuzzer: an architecture and keys of any values, as one file's metadata; what is vouched for holds, and
 * no size that follows from it is out of bounds. The first byte names the architecture, whose keys are
 * those of a small model, unless given; then a key takes four: which one, of which kind, and 16 bits of its
 * value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every key that some architecture reads. */
static const char *const keys[] = {
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "context_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.key_length",
    "attention.value_length",
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.causal",
    "attention.key_length_swa",
    "attention.value_length_swa",
    "attention.shared_kv_layers",
    "embedding_length_out",
    "n_embd_backbone",
    "embedding_length_per_layer_input",
    "altup.num_inputs",
    "ssm.dt_b_c_rms",
    "altup.active_idx",
    "activation_sparsity_scale",
    "attention.temperature_scale",
    "attention.temperature_length",
    "attention.recurrent_layers",
    "attention.q_lora_rank",
    "attention.kv_lora_rank",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.finetuned",
    "rope.scaling.alpha",
    "rope.scale_linear",
    "rope.dimension_sections",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_shared_count",
    "expert_gating_func",
    "expert_group_count",
    "expert_group_used_count",
    "expert_weights_norm",
    "expert_weights_scale",
    "leading_dense_block_count",
    "interleave_moe_layer_step",
    "nextn_predict_layers",
    "shortconv.l_cache",
    "ssm.conv_kernel",
    "ssm.state_size",
    "ssm.group_count",
    "ssm.time_step_rank",
    "ssm.inner_size",
    "full_attention_interval",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "pooling_type",
    "hidden_act",
    "vocab_size",
};
enum { N_KEYS = sizeof keys / sizeof *keys, MOST_GIVEN = 64, ARRAY = 8 };

static volatile unsigned sink;

/* The n-th architecture, round and round. */
static const char *pick_arch(unsigned n) {
    static const char *const names[] = {
#define X(name, features, period, base) #name,
#include "model/arch.def"
#undef X
    };
    return names[n % (sizeof names / sizeof *names)];
}

/* Of a small model of the architectures with any of the features; 0: of all. */
static const struct {
    const char *key;
    uint32_t value;
    kt__features features;
} small[] = {
    {"block_count", ARRAY, 0},
    {"embedding_length", 64, 0},
    {"feed_forward_length", 128, 0},
    {"attention.head_count", 4, 0},
    {"attention.head_count_kv", 2, 0},
    {"context_length", 256, 0},
    {"vocab_size", 50, 0},
    {"logit_scale", 2, 0},
    {"expert_count", 8, KT__F_EXPERTS},
    {"expert_used_count", 2, KT__F_EXPERTS},
    {"expert_feed_forward_length", 32, KT__F_EXPERTS},
    {"expert_shared_feed_forward_length", 32, KT__F_SHARED_EXPERT},
    {"attention.sliding_window", 32, KT__F_LOCAL_HEADS | KT__F_CHUNKS},
    {"attention.sliding_window_pattern", 4, KT__F_LOCAL_HEADS},
    {"embedding_length_per_layer_input", 16, KT__F_LAYER_INPUTS},
    {"embedding_length_out", 64, KT__F_ASSISTANT},
    {"altup.num_inputs", 4, KT__F_STREAMS},
    {"shortconv.l_cache", 3, KT__F_SHORT_CONV},
    {"ssm.conv_kernel", 4, KT__F_DELTA | KT__F_MAMBA},
    {"ssm.state_size", 16, KT__F_DELTA | KT__F_MAMBA},
    {"ssm.group_count", 2, KT__F_DELTA | KT__F_MAMBA},
    {"ssm.time_step_rank", 4, KT__F_DELTA | KT__F_MAMBA},
    {"ssm.inner_size", 64, KT__F_DELTA | KT__F_MAMBA},
    {"attention.kv_lora_rank", 16, KT__F_LATENT},
    {"attention.key_length_mla", 24, KT__F_LATENT},
    {"attention.value_length_mla", 16, KT__F_LATENT},
    {"attention.key_length", 24, KT__F_LATENT},
    {"attention.value_length", 16, KT__F_LATENT},
    {"rope.dimension_count", 8, KT__F_LATENT},
};
enum { N_SMALL = sizeof small / sizeof *small };

/* Whether the architecture has such a key, of another kind or value; it is written then. */
static bool puts_other(const char *arch, const char *key, kt__gguf_writer *w, const char *name) {
    int32_t array[ARRAY];
    kt__features f = kt__arch_features(arch);
    bool heads = strcmp(key, "attention.head_count_kv") == 0, parts = f & KT__F_ONE_PART;
    bool states = f & (KT__F_SHORT_CONV | KT__F_MAMBA) && !(f & KT__F_BOTH);
    bool widths = strcmp(key, "feed_forward_length") == 0;
    if (heads && f & KT__F_LATENT) kt__gguf_put_u32(w, name, 1);
    if (heads && f & KT__F_LATENT) return true;
    if (!(heads && states) && !(widths && parts)) return false;
    for (int i = 0; i < ARRAY; i++) array[i] = heads ? i % 4 == 2 ? 2 : 0 : i % 4 == 3 ? 128 : 0;
    kt__gguf_put_i32s(w, name, array, ARRAY);
    return true;
}

static void put_small(kt__gguf_writer *w, const char *arch, const bool *given) {
    static const char *const epsilons[] = {"attention.layer_norm_epsilon",
                                           "attention.layer_norm_rms_epsilon"};
    char key[128];
    for (int i = 0; i < N_SMALL; i++) {
        bool has = !small[i].features || kt__arch_features(arch) & small[i].features;
        for (int k = 0; k < N_KEYS; k++) has &= !given[k] || strcmp(keys[k], small[i].key) != 0;
        snprintf(key, sizeof key, "%s.%s", arch, small[i].key);
        if (!has || puts_other(arch, small[i].key, w, key)) continue;
        if (strcmp(small[i].key, "logit_scale") == 0)
            kt__gguf_put_f32(w, key, (float)small[i].value);
        else
            kt__gguf_put_u32(w, key, small[i].value);
    }
    for (int e = 0; e < 2; e++) {
        bool has = true;
        for (int k = 0; k < N_KEYS; k++) has &= !given[k] || strcmp(keys[k], epsilons[e]) != 0;
        snprintf(key, sizeof key, "%s.%s", arch, epsilons[e]);
        if (has) kt__gguf_put_f32(w, key, 1e-5f);
    }
}

static void put_key(kt__gguf_writer *w, const char *key, const uint8_t d[4]) {
    uint32_t value = (uint32_t)d[2] | (uint32_t)d[3] << 8;
    int32_t array[ARRAY];
    for (int i = 0; i < ARRAY; i++) array[i] = d[1] >> i & 1 ? (int32_t)value : 0;
    switch (d[1] & 7) {
    case 0: kt__gguf_put_f32(w, key, (float)value * 0.01f - 1.0f); break;
    case 1: kt__gguf_put_bool(w, key, value & 1); break;
    case 2: kt__gguf_put_i32s(w, key, array, ARRAY); break;
    case 3: kt__gguf_put_f32(w, key, 1e-5f * (float)(1 + value % 64)); break;
    case 4: kt__gguf_put_u32(w, key, value << 16 | value); break;
    default: kt__gguf_put_u32(w, key, value & 0xff); break;
    }
}

static bool is_local_sane(const kt__hparams *hp) {
    const kt__layer_sizes *of = &hp->local;
    return of->n_head_kv >= 1 && hp->n_head % of->n_head_kv == 0 &&
           (int64_t)hp->n_head * of->head_dim_k <= KT__MAX_COL &&
           hp->rope.local_n_rot <= of->head_dim_k &&
           (int64_t)hp->n_layer * hp->d_layer_input <= KT__MAX_COL &&
           !(hp->features & KT__F_ENCODER);
}

/* What the rest of the program relies on. */
static void check(const kt__hparams *hp) {
    bool ok = hp->n_layer >= 1 && hp->n_layer + hp->n_mtp <= KT__MAX_LAYERS &&
              hp->n_head % hp->n_head_kv == 0 && hp->n_expert_used <= hp->n_expert &&
              (int64_t)hp->n_head * hp->head_dim_k <= KT__MAX_COL &&
              kt__hparams_mixed(hp) <= KT__MAX_COL && kt__hparams_channels(hp) <= KT__MAX_COL &&
              hp->rope.n_rot <= hp->head_dim_k && hp->state_dim <= KT__MAX_STATE_DIM;
    if (hp->features & KT__F_STREAMS)
        ok &= hp->n_stream >= 2 && hp->n_stream <= KT__MAX_STREAMS && hp->d_low >= 1 &&
              hp->d_low <= hp->d_model && hp->d_layer_input >= 1;
    if (hp->features & KT__F_LOCAL_HEADS) ok &= is_local_sane(hp);
    if (hp->features & KT__F_CHUNKS) ok &= hp->window >= 0 && hp->temperature_span >= 1;
    if (hp->temperature > 0.0f && hp->rope.orig_ctx < 1) ok = false;
    bool none_own = hp->features & KT__F_ASSISTANT;
    if (none_own) ok &= hp->n_kv_own == 0 && hp->d_host >= 1 && hp->d_host <= KT__MAX_COL / 2;
    for (int i = 0; i < hp->n_layer && !none_own; i++) {
        int source = kt__hparams_kv_source(hp, i);
        ok &= source >= 0 && source <= i && source < hp->n_kv_own &&
              kt__hparams_is_local(hp, source) == kt__hparams_is_local(hp, i);
    }
    if (hp->n_expert && hp->n_expert_group > 1)
        ok &= hp->n_expert % hp->n_expert_group == 0 && hp->n_group_used <= hp->n_expert_group;
    if (!ok) abort();
    for (int i = 0; i < hp->n_layer; i++)
        sink += kt__hparams_is_local(hp, i) + kt__hparams_is_rotated(hp, i) +
                (unsigned)kt__hparams_features_of(hp, i);
}

static void read_back(const char *bytes, size_t n) {
    kt__gguf *gguf = NULL;
    kt__net *net = NULL;
    kt__hparams *hp = kt__calloc(1, sizeof *hp);
    kt_error err;
    if (hp && kt__gguf_open_memory(bytes, n, false, &gguf, &err) == KT_OK) {
        if (kt__hparams_read(gguf, NULL, hp, &err) == KT_OK) check(hp);
        if (kt__net_bind(gguf, NULL, &net, &err) == KT_OK) abort(); /* there are no tensors */
    }
    kt__gguf_close(gguf);
    kt__free(hp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char key[128], *head = NULL;
    bool given[N_KEYS] = {false};
    size_t bytes = 0;
    uint64_t data_bytes = 0;
    kt__gguf_writer *w = NULL;
    kt_error err;
    if (size < 1 || kt__gguf_writer_open_memory(&w, &err) != KT_OK) return 0;
    const char *arch = pick_arch(data[0]);
    kt__gguf_put_str(w, "general.architecture", arch);
    for (size_t at = 1; at + 4 <= size && at < 4 * MOST_GIVEN; at += 4) {
        unsigned n = data[at] % N_KEYS;
        if (given[n]) continue;
        given[n] = true;
        snprintf(key, sizeof key, "%s.%s", arch, keys[n]);
        put_key(w, key, data + at);
    }
    put_small(w, arch, given);
    if (kt__gguf_writer_take_header(w, &head, &bytes, &data_bytes, &err) == KT_OK)
        read_back(head, bytes);
    kt__free(head);
    return 0;
}
