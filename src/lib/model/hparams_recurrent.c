/* What each layer is made of, and the keys of recurrent ones. */
#include <string.h>

#include "base/error.h"
#include "model/hparams_parts.h"

/* Recurrent layers are those without heads of keys. */
static bool is_told_by_heads(const kt__hparams *hp) {
    bool mamba = hp->features & KT__F_MAMBA && !(hp->features & KT__F_BOTH);
    return hp->features & KT__F_SHORT_CONV || mamba;
}

static bool is_key_there(kt__key_reader *r, const char *suffix) {
    return kt__gguf_find(r->gguf, kt__key_of(r, suffix)) != NULL;
}

/* A layer that has a feed-forward's width is that; else its heads of keys tell the mixer. */
static void part_layers(kt__key_reader *r, kt__hparams *hp) {
    int n_attention = 0;
    for (int i = 0; i < hp->n_layer; i++) {
        hp->no_mixer[i] = !hp->no_ff[i];
        hp->recurrent[i] &= !hp->no_mixer[i];
        n_attention += !hp->no_mixer[i] && !hp->recurrent[i];
    }
    if (n_attention == 0)
        kt__key_fail(r, "attention.head_count_kv",
                     "leaves no layer with attention, which is not supported");
}

void kt__hparams_read_layers(kt__key_reader *r, kt__hparams *hp) {
    if (hp->features & KT__F_LOCAL_HEADS) {
        kt__hparams_read_kinds(r, hp);
        return;
    }
    if (hp->features & KT__F_NO_ATTENTION) {
        hp->n_head_kv = hp->d_ff = 1; /* of which there is nothing */
        hp->no_rope = true;
        for (int i = 0; i < hp->n_layer; i++) hp->recurrent[i] = hp->no_ff[i] = true;
        return;
    }
    bool widths = hp->features & KT__F_EXPERTS && hp->features & KT__F_DELTA;
    if (hp->features & KT__F_ONE_PART) {
        hp->d_ff = kt__key_layers(r, "feed_forward_length", hp->n_layer, KT__MAX_COL, hp->no_ff);
    } else {
        hp->d_ff = (int)kt__key_int(r, "feed_forward_length", !widths, 1, 1, KT__MAX_COL);
    }
    if (is_told_by_heads(hp) && is_key_there(r, "attention.head_count_kv")) {
        hp->n_head_kv = kt__key_layers(r, "attention.head_count_kv", hp->n_layer, hp->n_head,
                                       hp->recurrent);
    } else {
        hp->n_head_kv = (int)kt__key_int(r, "attention.head_count_kv", false, hp->n_head, 1,
                                         hp->n_head);
    }
    if (hp->features & KT__F_ONE_PART && r->status == KT_OK) part_layers(r, hp);
    if (hp->features & (KT__F_ONE_PART | KT__F_POSITIONS)) hp->no_rope = true;
}

int kt__hparams_inner(const kt__hparams *hp) {
    return hp->n_state_value * hp->state_rows;
}

int kt__hparams_channels(const kt__hparams *hp) {
    if (!(hp->features & (KT__F_DELTA | KT__F_MAMBA))) return hp->d_model;
    return 2 * hp->n_state_key * hp->state_dim + kt__hparams_inner(hp);
}

int kt__hparams_mixed(const kt__hparams *hp) {
    int wide = kt__hparams_widest(hp).head_dim_v;
    if (wide < hp->head_dim_v_full) wide = hp->head_dim_v_full;
    int heads = hp->n_head * wide, inner = kt__hparams_inner(hp);
    return heads > inner ? heads : inner;
}

/* Which layers are delta nets: all but every n-th, or as a list says. */
static void read_recurrent_layers(kt__key_reader *r, kt__hparams *hp) {
    const kt__gguf_kv *kv = kt__gguf_find(r->gguf, kt__key_of(r, "attention.recurrent_layers"));
    int period = (int)kt__key_int(r, "full_attention_interval", false, 4, 1, KT__MAX_LAYERS);
    int n_attention = 0;
    bool flags = kv && kt__gguf_is_integers(kv) && kv->count >= (uint64_t)hp->n_layer;
    if (kv && !flags)
        kt__key_fail(r, "attention.recurrent_layers", "should have a flag for each layer");
    for (int i = 0; r->status == KT_OK && i < hp->n_layer; i++) {
        hp->recurrent[i] = kv ? kt__gguf_array_i64(kv, (uint64_t)i) != 0 : (i + 1) % period != 0;
        n_attention += !hp->recurrent[i];
    }
    if (n_attention == 0)
        kt__key_fail(r, kv ? "attention.recurrent_layers" : "full_attention_interval",
                     "leaves no layer with attention, which is not supported");
}

/* Weights that were rotated before they were quantised would need rotated inputs. */
static void refuse_rotated(kt__key_reader *r) {
    for (size_t i = 0; r->status == KT_OK && i < kt__gguf_n_kv(r->gguf); i++) {
        kt__str key = kt__gguf_kv_at(r->gguf, i)->key;
        if (key.len < 15 || memcmp(key.s, "prism.hadamard.", 15) != 0) continue;
        r->status = kt__fail_at(r->err, KT_E_UNSUPPORTED, "prism.hadamard", UINT64_MAX,
                                "%s: its weights are rotated (keys 'prism.hadamard.*'), and a "
                                "rotation of what they are multiplied with is not supported",
                                kt__gguf_path(r->gguf));
    }
}

/* Mamba: each channel is a head of its own, of one row, and all share what is written and read. */
static void read_scan_sizes(kt__key_reader *r, kt__hparams *hp) {
    hp->conv_width = (int)kt__key_int(r, "ssm.conv_kernel", true, 0, 2, KT__MAX_CONV);
    hp->state_dim = (int)kt__key_int(r, "ssm.state_size", true, 0, 16, KT__MAX_STATE_DIM);
    hp->n_state_value = (int)kt__key_int(r, "ssm.inner_size", true, 0, 1, KT__MAX_COL / 2);
    hp->step_rank = (int)kt__key_int(r, "ssm.time_step_rank", true, 0, 1, hp->n_state_value);
    hp->state_rows = 1;
    if (r->status != KT_OK) return;
    if (hp->state_dim % 16)
        kt__key_fail(r, "ssm.state_size", "is not a multiple of 16, which is not supported");
    if (2 * hp->state_dim > hp->n_state_value)
        kt__key_fail(r, "ssm.inner_size", "is less than two states of a channel");
    if (kt__key_bool(r, "ssm.dt_b_c_rms", false)) /* Falcon Mamba's norms */
        kt__key_refuse(r, "ssm.dt_b_c_rms", 1);
}

static void read_state_sizes(kt__key_reader *r, kt__hparams *hp) {
    hp->conv_width = (int)kt__key_int(r, "ssm.conv_kernel", true, 0, 2, KT__MAX_CONV);
    hp->state_dim = (int)kt__key_int(r, "ssm.state_size", true, 0, 16, KT__MAX_STATE_DIM);
    hp->n_state_key = (int)kt__key_int(r, "ssm.group_count", true, 0, 1, KT__MAX_HEADS);
    hp->n_state_value = (int)kt__key_int(r, "ssm.time_step_rank", true, 0, 1, KT__MAX_HEADS);
    int inner = (int)kt__key_int(r, "ssm.inner_size", true, 0, 1, KT__MAX_COL);
    if (r->status != KT_OK) return;
    bool mamba = hp->features & KT__F_MAMBA;
    hp->state_rows = mamba ? inner / hp->n_state_value : hp->state_dim;
    if (hp->state_dim % 16)
        kt__key_fail(r, "ssm.state_size", "is not a multiple of 16, which is not supported");
    if (hp->n_state_value % hp->n_state_key)
        kt__key_fail(r, "ssm.time_step_rank", "is not a multiple of ssm.group_count");
    if (inner != kt__hparams_inner(hp))
        kt__key_fail(r, "ssm.inner_size",
                     mamba ? "is not a multiple of ssm.time_step_rank"
                           : "is not ssm.time_step_rank times ssm.state_size");
    int64_t channels = inner + 2 * (int64_t)hp->n_state_key * hp->state_dim;
    if (channels > KT__MAX_COL) kt__key_fail(r, "ssm.group_count", "makes rows that are too long");
}

void kt__hparams_read_recurrent(kt__key_reader *r, kt__hparams *hp) {
    if (hp->features & KT__F_SCAN)
        read_scan_sizes(r, hp);
    else if (hp->features & (KT__F_DELTA | KT__F_MAMBA))
        read_state_sizes(r, hp);
    if (hp->features & KT__F_DELTA) {
        read_recurrent_layers(r, hp);
        refuse_rotated(r);
    }
    if (!(hp->features & KT__F_SHORT_CONV)) return;
    hp->conv_width = (int)kt__key_int(r, "shortconv.l_cache", true, 0, 2, KT__MAX_CONV);
    int64_t window = kt__key_int(r, "attention.sliding_window", false, 0, 0, INT32_MAX);
    if (window > 0) kt__key_refuse(r, "attention.sliding_window", window);
    if (hp->d_model > KT__MAX_COL / 3)
        kt__key_fail(r, "embedding_length", "makes rows that are too long");
}
