#include "model/lora.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "host/pages.h"

enum { DIGEST_SEED = 0x4c6f, MATRIX_ALIGN = 64 };

typedef struct packer {
    const kt__net *net;
    const char *path;
    kt__lora_pack *pack;
    size_t used; /* bytes of memory handed out */
    kt_error *err;
} packer;

void kt__lora_shape(const kt__net *net, int block, kt__lora_site site, int *n_row, int *n_col) {
    const kt__hparams *hp = &net->hp;
    const kt__layer_sizes of = kt__hparams_sizes(hp, block < hp->n_layer ? block : 0);
    int d = hp->d_model, ff = of.d_ff, o = hp->n_head * of.head_dim_v;
    int q = hp->n_head * of.head_dim_k * (hp->features & KT__F_DELTA ? 2 : 1); /* with gates */
    const int rows[KT__SITES] = {[KT__SITE_Q] = q,
                                 [KT__SITE_K] = of.n_head_kv * of.head_dim_k,
                                 [KT__SITE_V] = of.n_head_kv * of.head_dim_v,
                                 [KT__SITE_ATTN_OUT] = d,
                                 [KT__SITE_GATE] = ff,
                                 [KT__SITE_UP] = ff,
                                 [KT__SITE_DOWN] = d,
                                 [KT__SITE_HIDDEN] = d,
                                 [KT__SITE_HEAD] = hp->n_vocab};
    *n_row = rows[site];
    *n_col = site == KT__SITE_ATTN_OUT ? o : site == KT__SITE_DOWN ? ff : d;
}

/* ---- checks, before anything is taken ---- */

static kt_status bad_part(const packer *p, const kt__lora_part *part, kt_status status,
                          const char *what) {
    return kt__fail_at(p->err, status, part->name, UINT64_MAX, "%s: the adapter of '%s' %s",
                       p->path, part->name, what);
}

static int rows_of_sites(const packer *p, const kt__lora_part *part) {
    int rows = 0, n_row, n_col;
    for (int s = 0; s < part->n_sites; s++) {
        kt__lora_shape(p->net, part->block, (kt__lora_site)((int)part->site + s), &n_row, &n_col);
        rows += n_row;
    }
    return rows;
}

static kt_status check_part(const packer *p, const kt__lora_part *part) {
    int n_row, n_col, rows = rows_of_sites(p, part);
    const kt__weight *a = &part->a, *b = &part->b;
    kt__lora_shape(p->net, part->block, part->site, &n_row, &n_col);
    if (a->n_row != b->n_col || a->n_row < 1)
        return kt__fail_at(p->err, KT_E_FORMAT, part->name, UINT64_MAX,
                           "%s: the adapter of '%s' has A of rank %d and B of rank %d", p->path,
                           part->name, a->n_row, b->n_col);
    if (a->n_col != n_col || b->n_row != rows)
        return kt__fail_at(p->err, KT_E_FORMAT, part->name, UINT64_MAX,
                           "%s: the adapter of '%s' is made for %d rows of %d, the model has %d of "
                           "%d: it belongs to another model",
                           p->path, part->name, b->n_row, a->n_col, rows, n_col);
    if (!isfinite(part->scale))
        return bad_part(p, part, KT_E_FORMAT, "has a scale that is not finite");
    return KT_OK;
}

/* ---- powers of two ---- */

/* Row r of a matrix as f32. */
static void row_f32(const kt__weight *w, int r, float *out) {
    kt__dequantize_row(w->type, w->data + (size_t)r * w->row_bytes, w->n_col, out);
}

/* The exponent of the largest weight of n_row rows from row0 on; 0 where all are 0. row: room. */
static kt_status find_exponent(const packer *p, const kt__lora_part *part, const kt__weight *w,
                               int row0, int n_row, float *row, int *exponent) {
    float most = 0.0f;
    *exponent = 0;
    for (int r = row0; r < row0 + n_row; r++) {
        row_f32(w, r, row);
        for (int c = 0; c < w->n_col; c++) {
            float size = fabsf(row[c]);
            if (!isfinite(size))
                return kt__fail_at(p->err, KT_E_FORMAT, part->name, UINT64_MAX,
                                   "%s: the adapter of '%s' has a weight that is not finite, in "
                                   "row %d, column %d of %s",
                                   p->path, part->name, r, c, w == &part->a ? "A" : "B");
            if (size > most) most = size;
        }
    }
    if (most > 0.0f) *exponent = ilogbf(most);
    return KT_OK;
}

static kt__f16 scaled_f16(float x, int exponent) {
    return kt__f16_from_f32((float)ldexp((double)x, -exponent));
}

/* ---- matrices ---- */

static size_t matrix_bytes(int n_row, int rank) {
    return kt__align_up((size_t)n_row * (size_t)rank * sizeof(kt__f16), MATRIX_ALIGN);
}

int kt__lora_panel_rows(int n_row) {
    return (n_row + KT__PANEL_ROWS - 1) / KT__PANEL_ROWS * KT__PANEL_ROWS;
}

static void *take_bytes(packer *p, size_t bytes) {
    uint8_t *at = (uint8_t *)p->pack->memory + p->used;
    p->used += bytes;
    return at;
}

/* A's rows go after those of the input's other parts. */
static kt_status pack_a(const packer *p, const kt__lora_part *part, kt__lora_a *to, float *row,
                        int *exponent) {
    const kt__weight *a = &part->a;
    kt_status status = find_exponent(p, part, a, 0, a->n_row, row, exponent);
    /* the rows lie in the pack's own memory; only readers see them as const */
    kt__f16 *out = (kt__f16 *)(uintptr_t)to->rows + (size_t)to->rank * (size_t)a->n_col;
    if (status != KT_OK) return status;
    for (int r = 0; r < a->n_row; r++, out += a->n_col) {
        row_f32(a, r, row);
        for (int c = 0; c < a->n_col; c++) out[c] = scaled_f16(row[c], *exponent);
    }
    return KT_OK;
}

/* n_row rows of B from row0 on, of which `like` has all but the panels. */
static void pack_b(packer *p, const kt__lora_part *part, int row0, int n_row, int exponent,
                   const kt__lora_b *like, float *row, kt__lora_b *to) {
    const kt__weight *b = &part->b;
    size_t rank = (size_t)b->n_col;
    kt__f16 *panels = take_bytes(p, matrix_bytes(kt__lora_panel_rows(n_row), b->n_col));
    for (int r = 0; r < n_row; r++) {
        size_t panel = (size_t)r / KT__PANEL_ROWS, lane = (size_t)r % KT__PANEL_ROWS;
        kt__f16 *out = panels + panel * rank * KT__PANEL_ROWS + lane;
        row_f32(b, row0 + r, row);
        for (size_t j = 0; j < rank; j++) out[j * KT__PANEL_ROWS] = scaled_f16(row[j], exponent);
    }
    *to = *like;
    to->panels = panels;
    to->n_row = n_row;
    to->shares_u = row0 > 0;
}

static kt_status pack_part(packer *p, const kt__lora_part *part, float *row) {
    kt__lora_block *block = &p->pack->lora.blocks[part->block];
    kt__lora_a *a = &block->a[kt__lora_input_of(part->site)];
    int a_exponent, exponent, row0 = 0, n_row, n_col;
    KT__STEP(pack_a(p, part, a, row, &a_exponent));
    KT__STEP(find_exponent(p, part, &part->b, 0, part->b.n_row, row, &exponent));
    const kt__lora_b like = {.rank = part->b.n_col,
                             .at = a->rank,
                             .factor = (float)ldexp((double)part->scale, a_exponent + exponent)};
    if (!isfinite(like.factor))
        return bad_part(p, part, KT_E_FORMAT, "has weights that are too large");
    for (int s = 0; s < part->n_sites; s++, row0 += n_row) {
        kt__lora_site site = (kt__lora_site)((int)part->site + s);
        kt__lora_shape(p->net, part->block, site, &n_row, &n_col);
        if (block->b[site].rank)
            return bad_part(p, part, KT_E_FORMAT, "is there twice, fused and apart");
        pack_b(p, part, row0, n_row, exponent, &like, row, &block->b[site]);
    }
    a->rank += part->a.n_row;
    return KT_OK;
}

/* ---- memory ---- */

/* Ranks of every input, so that the rows of one input's parts can lie together; and all bytes. */
static kt_status plan_bytes(packer *p, const kt__lora_part *parts, size_t n, size_t *bytes) {
    kt__lora_block *blocks = p->pack->lora.blocks;
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        kt__lora_a *a = &blocks[parts[i].block].a[kt__lora_input_of(parts[i].site)];
        a->rank += parts[i].a.n_row;
        a->n_col = parts[i].a.n_col;
        if (a->rank > KT__LORA_U_MAX)
            return kt__fail_at(p->err, KT_E_LIMIT, parts[i].name, UINT64_MAX,
                               "%s: the adapters of the input of '%s' have a rank of %d together; "
                               "%d are allowed",
                               p->path, parts[i].name, a->rank, KT__LORA_U_MAX);
        if (a->rank == parts[i].a.n_row) *bytes += MATRIX_ALIGN; /* of its rows' end */
        *bytes += matrix_bytes(parts[i].a.n_col, parts[i].a.n_row);
        *bytes += matrix_bytes(parts[i].b.n_row + parts[i].n_sites * KT__PANEL_ROWS,
                               parts[i].b.n_col + 1);
    }
    return KT_OK;
}

/* Every input's rows get their place; ranks are counted anew as parts are packed. */
static void place_inputs(packer *p) {
    kt__lora *lora = &p->pack->lora;
    for (int b = 0; b < lora->n_block; b++) {
        for (int i = 0; i < KT__INPUTS; i++) {
            kt__lora_a *a = &lora->blocks[b].a[i];
            if (a->rank == 0) continue;
            a->rows = take_bytes(p, matrix_bytes(a->n_col, a->rank));
            a->rank = 0;
        }
    }
}

static int longest_matrix_row(const kt__lora_part *parts, size_t n) {
    int most = 0;
    for (size_t i = 0; i < n; i++) {
        if (parts[i].a.n_col > most) most = parts[i].a.n_col;
        if (parts[i].b.n_col > most) most = parts[i].b.n_col;
    }
    return most;
}

/* ---- what follows ---- */

/* A layer's own keys and values come before everything else in it. */
static int first_kv_layer(const kt__net *net, const kt__lora *lora) {
    for (int l = 0; l < net->hp.n_layer; l++) {
        const kt__lora_block *block = &lora->blocks[l];
        if (block->b[KT__SITE_K].rank || block->b[KT__SITE_V].rank) return l;
        for (int i = 0; i < KT__INPUTS; i++) {
            if (block->a[i].rank) return l + 1;
        }
    }
    return net->hp.n_layer;
}

static void hash_matrices(kt__hash *h, int block, const kt__lora_block *of) {
    for (int i = 0; i < KT__INPUTS; i++) {
        const kt__lora_a *a = &of->a[i];
        const int32_t facts[] = {block, i, a->rank, a->n_col};
        if (a->rank == 0) continue;
        kt__hash_add(h, facts, sizeof facts);
        kt__hash_add(h, a->rows, (size_t)a->rank * (size_t)a->n_col * sizeof *a->rows);
    }
    for (int s = 0; s < KT__SITES; s++) {
        const kt__lora_b *b = &of->b[s];
        const int32_t facts[] = {block, s, b->rank, b->n_row, b->at, b->shares_u};
        if (b->rank == 0) continue;
        kt__hash_add(h, facts, sizeof facts);
        kt__hash_add(h, &b->factor, sizeof b->factor);
        kt__hash_add(h, b->panels,
                     (size_t)kt__lora_panel_rows(b->n_row) * (size_t)b->rank * sizeof *b->panels);
    }
}

static void sum_up(packer *p, const kt__lora_part *parts, size_t n) {
    kt__lora_pack *pack = p->pack;
    kt__hash h;
    kt__hash_init(&h, DIGEST_SEED);
    for (int b = 0; b < pack->lora.n_block; b++) hash_matrices(&h, b, &pack->lora.blocks[b]);
    pack->digest = kt__hash_end(&h);
    pack->first_kv_layer = first_kv_layer(p->net, &pack->lora);
    pack->n_matrices = (int)n;
    pack->bytes = p->used;
    for (size_t i = 0; i < n; i++)
        if (parts[i].a.n_row > pack->rank_max) pack->rank_max = parts[i].a.n_row;
}

static kt_status pack_all(packer *p, const kt__lora_part *parts, size_t n) {
    kt__lora_pack *pack = p->pack;
    size_t bytes;
    float *row = NULL;
    kt_status status = KT_OK;
    for (size_t i = 0; i < n; i++) KT__TRY(check_part(p, &parts[i]));
    KT__TRY(plan_bytes(p, parts, n, &bytes));
    row = kt__calloc((size_t)longest_matrix_row(parts, n), sizeof *row);
    pack->memory = kt__pages_alloc(bytes);
    pack->memory_bytes = bytes;
    if (!row || !pack->memory) {
        status = kt__fail_nomem(p->err, "an adapter", bytes);
        goto out;
    }
    place_inputs(p);
    for (size_t i = 0; i < n; i++) KT__TRY(pack_part(p, &parts[i], row));
    sum_up(p, parts, n);
out:
    kt__free(row);
    return status;
}

kt_status kt__lora_pack_make(const kt__net *net, const kt__lora_part *parts, size_t n,
                             const char *path, kt__lora_pack *out, kt_error *err) {
    packer p = {.net = net, .path = path, .pack = out, .err = err};
    *out = (kt__lora_pack){.lora.n_block = net->hp.n_layer + 1};
    if (n == 0)
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX, "the adapter has no matrices");
    out->lora.blocks = kt__calloc((size_t)out->lora.n_block, sizeof *out->lora.blocks);
    if (!out->lora.blocks) return kt__fail_nomem(err, "an adapter's layers", 0);
    kt_status status = pack_all(&p, parts, n);
    if (status != KT_OK) kt__lora_pack_free(out);
    return status;
}

bool kt__lora_ranks_fit(const kt__lora_use *uses, int n, int *block, int *rank) {
    for (*block = 0; n && *block < uses[0].lora->n_block; ++*block) {
        for (int i = 0; i < KT__INPUTS; i++) {
            *rank = 0;
            for (int k = 0; k < n; k++) *rank += uses[k].lora->blocks[*block].a[i].rank;
            if (*rank > KT__LORA_U_MAX) return false;
        }
    }
    return true;
}

void kt__lora_pack_free(kt__lora_pack *pack) {
    if (pack->memory) kt__pages_free(pack->memory, pack->memory_bytes);
    kt__free(pack->lora.blocks);
    *pack = (kt__lora_pack){0};
}

/* ---- lora file ---- */

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

/* Goes through site_rows (a row a tensor, with the sites whose rows lie in it one after another: Q, K and V of a joined
 * tensor are three), for the first that this network has. */
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
    if (!kt__lora_file_is(gguf))
        return kt__fail_at(err, KT_E_FORMAT, path, UINT64_MAX,
                           "the file is no adapter: its general.type is not \"adapter\"");
    KT__STEP(check_text(gguf, "adapter.type", "lora", "an adapter of type", err));
    KT__STEP(check_text(gguf, "general.architecture", net->hp.arch,
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
    KT__STEP(kt__gguf_get_f32(gguf, "adapter.lora.alpha", true, alpha, err)); /* finite */
    return KT_OK;
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
    *part = (kt__lora_part){.name = a->name.s};
    const struct site_row *row = find_site(r, base, &part->block);
    if (!row) return refuse_tensor(r, a->name.s, why_not(base));
    part->site = row->site;
    part->n_sites = row->n_sites;
    KT__STEP(take_matrix(r, a, a->name.s, &part->a));
    KT__STEP(take_matrix(r, b, b->name.s, &part->b));
    part->scale = r->alpha == 0.0f ? 1.0f : r->alpha / (float)part->a.n_row;
    r->n++;
    return KT_OK;
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
