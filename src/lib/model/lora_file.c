#include "model/lora_file.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ending.h"
#include "base/error.h"

/* The sites from `site` on that a tensor holds: that of a slot of a layer, or one outside them. */
static const struct site_row {
    kt__slot slot;
    const char *outside; /* its name; else NULL */
    kt__lora_site site;
    int n_sites;
} site_rows[] = {
    {KT__SLOT_ATTN_Q, NULL, KT__SITE_Q, 1},
    {KT__SLOT_ATTN_Q_GATE, NULL, KT__SITE_Q, 1},
    {KT__SLOT_ATTN_K, NULL, KT__SITE_K, 1},
    {KT__SLOT_ATTN_V, NULL, KT__SITE_V, 1},
    {KT__SLOT_ATTN_V_OR_K, NULL, KT__SITE_V, 1},
    {KT__SLOT_ATTN_QKV, NULL, KT__SITE_Q, 3},
    {KT__SLOT_ATTN_OUT, NULL, KT__SITE_ATTN_OUT, 1},
    {KT__SLOT_FFN_GATE, NULL, KT__SITE_GATE, 1},
    {KT__SLOT_FFN_UP, NULL, KT__SITE_UP, 1},
    {KT__SLOT_FFN_GATE_UP, NULL, KT__SITE_GATE, 2},
    {KT__SLOT_FFN_DOWN, NULL, KT__SITE_DOWN, 1},
    {KT__SLOT_COUNT, "final_hidden.weight", KT__SITE_HIDDEN, 1},
    {KT__SLOT_COUNT, "output.weight", KT__SITE_HEAD, 1},
};
enum { N_SITE_ROWS = sizeof site_rows / sizeof *site_rows };

/* The tensor's name, after blk.N. in a layer; NULL: the block has none, or none that may change.
 * The dense layers of a model with experts are not adapted either. */
static const char *name_in_block(const kt__net *net, int block, const struct site_row *row) {
    kt__slot_shape shape;
    bool in_layer = block < net->hp.n_layer;
    bool of_ff = row->site >= KT__SITE_GATE && row->site <= KT__SITE_DOWN;
    if (in_layer != !row->outside) return NULL;
    if (!in_layer) return row->outside;
    if (of_ff && net->hp.features & KT__F_EXPERTS) return NULL;
    if (net->layers[block].v_is_k && row->site == KT__SITE_V) return NULL;
    return kt__slot_shape_of(&net->hp, block, row->slot, &shape) ? shape.name : NULL;
}

void kt__lora_site_tensor(const kt__net *net, int block, kt__lora_site site, char name[64],
                          int *n_sites) {
    *n_sites = 0;
    for (int i = 0; i < N_SITE_ROWS; i++) {
        const struct site_row *row = &site_rows[i];
        const char *tensor = name_in_block(net, block, row);
        int first = (int)row->site;
        if (!tensor || (int)site < first || (int)site >= first + row->n_sites) continue;
        if (row->outside)
            snprintf(name, 64, "%s", tensor);
        else
            snprintf(name, 64, "blk.%d.%s", block, tensor);
        *n_sites = (int)site == first ? row->n_sites : 0;
        return;
    }
}

/* ---- what a file says of itself ---- */

static bool text_is(kt__str s, const char *text) {
    return s.len == strlen(text) && memcmp(s.s, text, s.len) == 0;
}

bool kt__lora_file_is(const kt__gguf *gguf) {
    const kt__gguf_kv *kv = kt__gguf_find(gguf, "general.type");
    return kv && kv->type == KT__GGUF_STRING && text_is(kt__gguf_kv_str(kv), "adapter");
}

static kt_status check_text(const kt__gguf *gguf, const char *key, const char *expected,
                            const char *what, kt_error *err) {
    kt__str value = {"", 0};
    kt_status status = kt__gguf_get_str(gguf, key, true, &value, err);
    if (status != KT_OK || text_is(value, expected)) return status;
    return kt__fail_at(err, KT_E_UNSUPPORTED, key, UINT64_MAX, "%s: %s '%.*s', expected '%s'",
                       kt__gguf_path(gguf), what, (int)(value.len < 60 ? value.len : 60), value.s,
                       expected);
}

/* alpha as the file has it; 0 means the rank, which makes the scale 1. */
static kt_status read_alpha(const kt__gguf *gguf, const kt__net *net, float *alpha, kt_error *err) {
    const char *path = kt__gguf_path(gguf);
    kt_status status;
    if (!kt__lora_file_is(gguf))
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "the file is no adapter: its general.type is not \"adapter\"");
    KT__TRY(check_text(gguf, "adapter.type", "lora", "an adapter of type", err));
    KT__TRY(check_text(gguf, "general.architecture", net->hp.arch,
                       "the adapter was made for the architecture", err));
    if (net->hp.features & KT__F_STREAMS)
        return kt__fail_at(
            err, KT_E_UNSUPPORTED, path, UINT64_MAX,
            "adapters of models with several residual streams (%s) are not supported",
            net->hp.arch);
    if (net->hp.features & KT__F_SUB_NORMS)
        return kt__fail_at(err, KT_E_UNSUPPORTED, path, UINT64_MAX,
                           "adapters of models with norms within blocks (%s) are not supported",
                           net->hp.arch);
    if (kt__gguf_find(gguf, "adapter.alora.invocation_tokens"))
        return kt__fail_at(
            err, KT_E_UNSUPPORTED, path, UINT64_MAX,
            "an adapter that begins with invocation tokens (aLoRA) is not supported");
    KT__TRY(kt__gguf_get_f32(gguf, "adapter.lora.alpha", true, alpha, err)); /* finite */
out:
    return status;
}

/* ---- tensors ---- */

typedef struct lora_reader {
    const kt__gguf *gguf;
    const kt__net *net;
    float alpha;
    kt__lora_part *parts;
    size_t n;
    kt_error *err;
} lora_reader;

static kt_status refuse_tensor(const lora_reader *r, const char *name, const char *why) {
    return kt__fail_at(r->err, KT_E_UNSUPPORTED, name, UINT64_MAX,
                       "%s: tensor '%s' cannot be used: %s", kt__gguf_path(r->gguf), name, why);
}

static const struct site_row *find_site(const lora_reader *r, const char *base, int *block) {
    char prefix[32];
    int layer = -1, at = 0;
    bool in_layer = sscanf(base, "blk.%d.", &layer) == 1 && layer >= 0;
    if (in_layer) at = snprintf(prefix, sizeof prefix, "blk.%d.", layer);
    if (in_layer && (layer >= r->net->hp.n_layer || strncmp(base, prefix, (size_t)at) != 0))
        return NULL;
    *block = in_layer ? layer : r->net->hp.n_layer;
    for (int i = 0; i < N_SITE_ROWS; i++) {
        const char *tensor = name_in_block(r->net, *block, &site_rows[i]);
        if (tensor && strcmp(base + at, tensor) == 0) return &site_rows[i];
    }
    return NULL;
}

/* A matrix of at most as many rows and columns as an int and a model may have. */
static kt_status take_matrix(const lora_reader *r, const kt__gguf_tensor *t, const char *name,
                             kt__weight *out) {
    kt__type type = kt__type_from_ggml(t->type);
    if (type == KT__TYPE_COUNT || !t->data)
        return refuse_tensor(r, name, "its type is not supported");
    if (t->ne[2] != 1 || t->ne[3] != 1 || t->ne[0] > KT__MAX_COL || t->ne[1] > INT32_MAX)
        return kt__fail_at(r->err, KT_E_FORMAT, name, t->file_offset,
                           "%s: tensor '%s' is no matrix of a usable size", kt__gguf_path(r->gguf),
                           name);
    *out = (kt__weight){t->data, type, (int)t->ne[1], (int)t->ne[0],
                        kt__type_row_bytes(type, (int64_t)t->ne[0])};
    return KT_OK;
}

static const char *why_not(const char *base) {
    if (!strcmp(base, "token_embd.weight"))
        return "adapters of the embedding are not supported; train it without embed_tokens";
    if (strstr(base, "_exps.") || strstr(base, "_shexp.") || strstr(base, "ffn_gate_inp"))
        return "adapters of experts and their router are not supported; train it on the attention "
               "alone";
    return "the model has no matrix of this name that an adapter may change";
}

static kt_status take_pair(lora_reader *r, const kt__gguf_tensor *a, const kt__gguf_tensor *b,
                           const char *base) {
    kt__lora_part *part = &r->parts[r->n];
    kt_status status;
    *part = (kt__lora_part){.name = a->name.s};
    const struct site_row *row = find_site(r, base, &part->block);
    if (!row) return refuse_tensor(r, a->name.s, why_not(base));
    part->site = row->site;
    part->n_sites = row->n_sites;
    KT__TRY(take_matrix(r, a, a->name.s, &part->a));
    KT__TRY(take_matrix(r, b, b->name.s, &part->b));
    part->scale = r->alpha == 0.0f ? 1.0f : r->alpha / (float)part->a.n_row;
    r->n++;
out:
    return status;
}

/* Every tensor is an A or a B, and has its other half. */
static kt_status take_tensor(lora_reader *r, const kt__gguf_tensor *t) {
    char base[KT__GGUF_MAX_NAME_BYTES + 1], other[KT__GGUF_MAX_NAME_BYTES + 1];
    size_t len = t->name.len, tail = strlen(".lora_a");
    bool is_a = kt__ends_with(t->name.s, len, ".lora_a");
    bool is_b = kt__ends_with(t->name.s, len, ".lora_b");
    if (!is_a && !is_b)
        return refuse_tensor(r, t->name.s, "its name ends in neither .lora_a nor .lora_b");
    snprintf(base, sizeof base, "%.*s", (int)(len - tail), t->name.s);
    snprintf(other, sizeof other, "%.*s%c", (int)(len - 1), t->name.s, is_a ? 'b' : 'a');
    const kt__gguf_tensor *half = kt__gguf_find_tensor(r->gguf, other);
    if (!half)
        return kt__fail_at(r->err, KT_E_FORMAT, t->name.s, t->file_offset,
                           "%s: tensor '%s' has no '%s'", kt__gguf_path(r->gguf), t->name.s, other);
    return is_a ? take_pair(r, t, half, base) : KT_OK;
}

kt_status kt__lora_file_read(const kt__gguf *gguf, const kt__net *net, kt__lora_pack *out,
                             kt_error *err) {
    size_t n = kt__gguf_n_tensors(gguf);
    lora_reader r = {.gguf = gguf, .net = net, .err = err};
    kt_status status;
    *out = (kt__lora_pack){0};
    KT__TRY(read_alpha(gguf, net, &r.alpha, err));
    r.parts = kt__calloc(n + 1, sizeof *r.parts);
    if (!r.parts) return kt__fail_nomem(err, "an adapter's tensors", n * sizeof *r.parts);
    for (size_t i = 0; i < n; i++) KT__TRY(take_tensor(&r, kt__gguf_tensor_at(gguf, i)));
    KT__TRY(kt__lora_pack_make(net, r.parts, r.n, kt__gguf_path(gguf), out, err));
    status = kt__gguf_check(gguf, err); /* a page replaced meanwhile would be a wrong weight */
    if (status != KT_OK) kt__lora_pack_free(out);
out:
    kt__free(r.parts);
    return status;
}
