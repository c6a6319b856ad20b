/* Queries, keys and values, and attention over their pages, on a device.
 *
 * A table says for each token which page and slot it has, or what it sees, and for each page where
 * its parts lie: pages are anywhere in the store's slabs, but the heads of one page are equally far
 * apart. */
#include <string.h>

#include "base/alloc.h"
#include "base/geometry.h"
#include "gpu/steps.h"
#include "kv/slabs.h"
#include "ops/dev.h"

enum { HEAD_DIM_MAX = 1024, SPLITS_MAX = 1024 };

typedef enum part_kind { PART_K, PART_V, PART_QUANTISED_K, PART_QUANTISED_V, PARTS } part_kind;

/* Head `head`'s part of a page; NULL: there is none. */
static const uint8_t *part_of(const kt__kv *kv, int32_t page, int layer, int head, part_kind kind) {
    switch (kind) {
    case PART_K: return (const uint8_t *)kt__kv_k(kv, page, layer, head);
    case PART_V: return (const uint8_t *)kt__kv_v(kv, page, layer, head);
    case PART_QUANTISED_K: return kt__kv_quantised_k(kv, page, layer, head);
    default: return kt__kv_quantised_v(kv, page, layer, head);
    }
}

/* Of a layer's parts with the form that the shape says. */
static size_t bytes_of(const kt__kv_shape *shape, int layer, part_kind kind) {
    kt__kv_heads heads = kt__kv_heads_of(shape, layer);
    switch (kind) {
    case PART_K: return (size_t)heads.dim_k * KT__PAGE_POS * sizeof(kt__f16);
    case PART_V: return (size_t)heads.dim_v * KT__PAGE_POS * sizeof(kt__f16);
    case PART_QUANTISED_K: return kt__slabs_k_bytes(shape, layer);
    default: return kt__slabs_v_bytes(shape, layer);
    }
}

/* A page's part: the address of head 0's, 0: there is none; bytes from one head's to the next one's. */
typedef struct place {
    uint64_t at;
    uint32_t apart;
} place;

/* shape: with the page's forms. false: the device does not reach all heads. */
static bool find_part(const kt__gpu_pass *pass, const kt__kv *kv, const kt__kv_shape *shape,
                      int32_t page, int layer, part_kind kind, place *out) {
    int n_head = kt__kv_heads_of(shape, layer).n;
    const uint8_t *first = part_of(kv, page, layer, 0, kind);
    *out = (place){0, 0};
    if (!first) return true;
    const uint8_t *last = part_of(kv, page, layer, n_head - 1, kind);
    size_t step = n_head > 1 ? (size_t)(last - first) / (size_t)(n_head - 1) : 0;
    if (step > UINT32_MAX / (size_t)n_head) return false;
    out->apart = (uint32_t)step;
    out->at = kt__gpu_at(pass, first, (size_t)(last - first) + bytes_of(shape, layer, kind));
    return out->at;
}

/* ---- queries, keys, values ---- */

enum { SHADER_QUERY, SHADER_KEY, SHADER_VALUE };
enum { HEAD_NORM = 1, HEAD_NORM_LATE = 2, HEAD_HALVES = 4, HEAD_FACTORS = 8 };

/* For each token its page's part and slot, or no page. */
static bool put_slots(kt__gpu_pass *pass, const kt__qkv *d, int n_tok, part_kind kind,
                      uint64_t *table) {
    uint32_t *words = kt__gpu_tape_room(&pass->tape, (size_t)n_tok * 16, table);
    if (!words) return false;
    memset(words, 0, (size_t)n_tok * 16);
    for (int s = 0; s < d->n_seg; s++) {
        const kt__seg *seg = &d->segs[s];
        place part = {0, 0};
        for (int i = 0; i < seg->n_tok; i++) {
            int64_t pos = seg->pos0 + i;
            int32_t page = seg->table->pages[pos / KT__PAGE_POS];
            uint32_t *token = words + 4 * (seg->row0 + i);
            if (i == 0 || pos % KT__PAGE_POS == 0)
                if (!find_part(pass, d->kv, kt__kv_get_shape(d->kv), page, d->layer, kind, &part) ||
                    !part.at)
                    return false;
            kt__gpu_put_address(token, part.at);
            token[2] = (uint32_t)(pos % KT__PAGE_POS);
            token[3] = part.apart;
        }
    }
    return true;
}

/* The rows that heads are made of: products, or rows that are there. */
typedef struct head_rows {
    const kt__weight *w;
    const float *bias, *rows;
    size_t ld; /* of rows; 0: of the heads given */
    kt__gpu_product product;
    uint64_t at;
} head_rows;

static bool find_head_rows(const kt__gpu_pass *pass, const kt__acts *acts, int n_head, int dim,
                           uint64_t room, head_rows *r) {
    size_t n = (size_t)n_head * (size_t)dim;
    if (r->rows) {
        if (r->ld == 0) r->ld = n;
        size_t bytes = ((size_t)(acts->n_tok - 1) * r->ld + n) * sizeof(float);
        return kt__gpu_find(pass, r->rows, bytes, &r->at);
    }
    r->ld = n;
    r->at = room;
    r->product = (kt__gpu_product){.w = r->w, .from = acts, .ld_out = n, .out = room};
    return (size_t)r->w->n_row == n && (size_t)acts->n_tok * n * 4 <= pass->rows[0].bytes &&
           kt__gpu_find_weight(pass, r->w, &r->product.weights) &&
           kt__gpu_find_acts(pass, acts, acts->n_tok, r->product.acts) &&
           kt__gpu_find(pass, r->bias, n * sizeof(float), &r->product.bias);
}

/* Addresses that all heads of an operation need. */
typedef struct qkv_places {
    head_rows q, k, v;
    uint64_t cs, q_norm, k_norm, v_norm, q_out, q_codes, q_factors, k_table, v_table;
    uint64_t due[2]; /* pages to be quantised: of keys, of values */
    uint32_t n_due;
} qkv_places;

static bool find_queries(const kt__gpu_pass *pass, const kt__acts *acts, const kt__qkv *d,
                         qkv_places *at) {
    size_t n_tok = (size_t)acts->n_tok, n_head = (size_t)d->n_head, dim = (size_t)d->head_dim_k;
    if (d->kv_alone) return true;
    at->q = (head_rows){.w = &d->wq, .bias = d->bq, .rows = d->q_rows, .ld = d->ld_q_rows};
    return find_head_rows(pass, acts, d->n_head, d->head_dim_k, pass->rows[0].address, &at->q) &&
           kt__gpu_find(pass, d->q_norm, dim * sizeof(float), &at->q_norm) &&
           kt__gpu_find(pass, d->q_row_scale, n_tok * sizeof(float), &at->q_factors) &&
           kt__gpu_find(pass, d->q_out, n_tok * n_head * dim * sizeof(float), &at->q_out) &&
           kt__gpu_find(pass, d->q_codes, n_tok * n_head * kt__query_code_bytes(d->head_dim_k),
                        &at->q_codes);
}

/* The pages that the batch has to quantise, of keys or of values. */
static bool put_due(kt__gpu_pass *pass, const kt__qkv *d, bool keys, qkv_places *at) {
    uint32_t n = 0;
    part_kind from = keys ? PART_K : PART_V, to = keys ? PART_QUANTISED_K : PART_QUANTISED_V;
    const kt__kv_shape *shape = kt__kv_get_shape(d->kv);
    if (!kt__kv_is_quantised(shape)) return true;
    for (int s = 0; s < d->n_seg; s++) {
        const kt__kv_table *table = d->segs[s].table;
        if (d->segs[s].n_tok) n += (uint32_t)(table->quantise_to - table->quantise_from);
    }
    uint32_t *words = n ? kt__gpu_tape_room(&pass->tape, (size_t)n * 32, &at->due[!keys]) : NULL;
    if (n && !words) return false;
    n = 0;
    for (int s = 0; s < d->n_seg; s++) {
        const kt__kv_table *table = d->segs[s].table;
        for (int32_t i = table->quantise_from; d->segs[s].n_tok && i < table->quantise_to; i++) {
            place a, b;
            uint32_t *page = words + 8 * n;
            if (!kt__kv_is_due(d->kv, table, i, d->layer)) continue;
            if (!find_part(pass, d->kv, shape, table->pages[i], d->layer, from, &a) || !a.at ||
                !find_part(pass, d->kv, shape, table->pages[i], d->layer, to, &b) || !b.at)
                return false;
            kt__gpu_put_address(page, a.at);
            kt__gpu_put_address(page + 2, b.at);
            page[4] = a.apart;
            page[5] = b.apart;
            n++;
        }
    }
    at->n_due = n;
    return true;
}

static bool find_keys(kt__gpu_pass *pass, const kt__acts *acts, const kt__qkv *d, qkv_places *at) {
    if (d->q_alone) return true;
    at->k = (head_rows){.w = &d->wk, .bias = d->bk, .rows = d->k_rows, .ld = d->ld_k_rows};
    at->v = (head_rows){.w = &d->wv, .bias = d->bv, .rows = d->v_rows, .ld = d->ld_v_rows};
    uint64_t room = pass->rows[1].address;
    return find_head_rows(pass, acts, d->n_head_kv, d->head_dim_k, room, &at->k) &&
           find_head_rows(pass, acts, d->n_head_kv, d->head_dim_v, room, &at->v) &&
           kt__gpu_find(pass, d->k_norm, (size_t)d->head_dim_k * sizeof(float), &at->k_norm) &&
           kt__gpu_find(pass, d->v_norm, (size_t)d->head_dim_v * sizeof(float), &at->v_norm) &&
           put_slots(pass, d, acts->n_tok, PART_K, &at->k_table) &&
           put_slots(pass, d, acts->n_tok, PART_V, &at->v_table) && put_due(pass, d, true, at) &&
           put_due(pass, d, false, at);
}

static void put_heads(kt__gpu_pass *pass, const kt__qkv *d, int n_tok, int kind, head_rows *r,
                      const qkv_places *at) {
    bool query = kind == SHADER_QUERY, value = kind == SHADER_VALUE;
    uint64_t norm = query ? at->q_norm : value ? at->v_norm : at->k_norm;
    uint32_t flags = (norm ? HEAD_NORM : 0u) | (d->norm_rotated && !value ? HEAD_NORM_LATE : 0u) |
                     (d->neox ? HEAD_HALVES : 0u) | (d->q_row_scale ? HEAD_FACTORS : 0u);
    uint32_t eps, scale;
    if (!r->rows) kt__gpu_put_product(pass, &r->product);
    memcpy(&eps, &d->norm_eps, sizeof eps);
    memcpy(&scale, &d->q_scale, sizeof scale);
    const kt__gpu_args args = {.at = {r->at, at->cs, norm,
                                      query   ? at->q_out
                                      : value ? at->v_table
                                              : at->k_table,
                                      at->q_factors},
                               .n = {(uint32_t)r->ld,
                                     (uint32_t)(value ? d->head_dim_v : d->head_dim_k),
                                     value ? 0u : (uint32_t)d->n_rot, flags, eps, scale,
                                     (uint32_t)(d->n_head / d->n_head_kv), (uint32_t)n_tok}};
    kt__gpu_tape_put(&pass->tape, KT__SHADER_head, kind, &args,
                     (uint32_t)(query ? d->n_head : d->n_head_kv), (uint32_t)n_tok, 1);
}

static void put_codes(kt__gpu_pass *pass, const kt__qkv *d, int n_tok, const qkv_places *at) {
    const kt__gpu_args args = {
        .at = {at->q_out, at->q_codes},
        .n = {(uint32_t)d->head_dim_k, (uint32_t)kt__query_code_bytes(d->head_dim_k)}};
    if (at->q_codes && kt__kv_has_quantised(d->kv))
        kt__gpu_tape_put(&pass->tape, KT__SHADER_code, 0, &args, (uint32_t)(n_tok * d->n_head), 1,
                         1);
}

enum { PAGE_COPY = 4 };

static void put_pages(kt__gpu_pass *pass, const kt__qkv *d, bool keys, const qkv_places *at) {
    const kt__kv_shape *shape = kt__kv_get_shape(d->kv);
    kt__kv_form form = keys ? kt__kv_k_form(shape, d->layer) : shape->v_form;
    int kind = form == KT__KV_F16 ? PAGE_COPY : (keys ? 0 : 2) + (form == KT__KV_Q4);
    const kt__gpu_args args = {.at = {at->due[!keys]},
                               .n = {(uint32_t)(keys ? d->head_dim_k : d->head_dim_v)}};
    if (at->n_due)
        kt__gpu_tape_put(&pass->tape, KT__SHADER_page, kind, &args, (uint32_t)d->n_head_kv,
                         at->n_due, 1);
}

/* Whether all forms that pages may have passed the test. */
static bool forms_passed(const kt__gpu_pass *pass, const kt__kv *kv) {
    const kt__kv_shape *shape = kt__kv_get_shape(kv);
    for (int f = KT__KV_F16; f < KT__KV_FORMS && !pass->tests; f++) {
        bool may = f == KT__KV_F16 || f == (int)shape->k_form || f == (int)shape->v_form ||
                   kt__kv_presses(kv);
        if (may && !kt__gpu_passed(pass->tape.gpu, KT__CHECK_FORMS + f)) return false;
    }
    return true;
}

bool kt__gpu_qkv(kt__gpu_pass *pass, const kt__acts *acts, const kt__qkv *d) {
    qkv_places at;
    size_t n_cs = (size_t)acts->n_tok * (size_t)d->n_rot;
    memset(&at, 0, sizeof at);
    if (!forms_passed(pass, d->kv)) return false;
    kt__gpu_tape_ready(&pass->tape);
    if (d->head_dim_k > HEAD_DIM_MAX || d->head_dim_v > HEAD_DIM_MAX ||
        acts->n_tok * d->n_head > 65535 ||
        !kt__gpu_find(pass, d->cs, n_cs * sizeof(float), &at.cs) ||
        !find_queries(pass, acts, d, &at) || !find_keys(pass, acts, d, &at))
        return false;
    if (!d->kv_alone) {
        put_heads(pass, d, acts->n_tok, SHADER_QUERY, &at.q, &at);
        put_codes(pass, d, acts->n_tok, &at);
    }
    if (d->q_alone) return true;
    put_heads(pass, d, acts->n_tok, SHADER_KEY, &at.k, &at);
    put_heads(pass, d, acts->n_tok, SHADER_VALUE, &at.v, &at);
    put_pages(pass, d, true, &at);
    put_pages(pass, d, false, &at);
    return true;
}

/* ---- attention ---- */

typedef struct attention_places {
    uint64_t q, q_codes, sinks, out, tokens, pages;
    int64_t split0, split1;
} attention_places;

/* The first page that a segment's queries see, and after the last one. */
static void pages_seen(const kt__attention *d, const kt__seg *seg, int64_t *from, int64_t *to) {
    int64_t first = INT64_MAX, end = 0;
    for (int i = 0; i < seg->n_tok; i++) {
        int64_t a = kt__attention_first(d, seg, seg->pos0 + i);
        int64_t b = kt__attention_end(d, seg, seg->pos0 + i);
        if (a < first) first = a;
        if (b > end) end = b;
    }
    *from = first / KT__PAGE_POS;
    *to = (end + KT__PAGE_POS - 1) / KT__PAGE_POS;
}

enum { PAGE_WORDS = 3 * PARTS + 1, TOKEN_WORDS = 4, TABLE_STEP = 4096 };

/* What the pages of a split are read as: in a store that presses, the first n of them in other forms. */
typedef struct split_forms {
    kt__kv_shape shape; /* with these */
    kt__kv_pressed pressed;
} split_forms;

static void find_forms(const kt__attention *d, const kt__seg *seg, int64_t page, split_forms *out) {
    out->pressed = kt__kv_pressed_of(d->kv, seg->table, page / KT__SPLIT_PAGES, d->layer);
    out->shape = *kt__kv_get_shape(d->kv);
    if (out->pressed.n == 0) return;
    out->shape.k_form = out->pressed.k_form;
    out->shape.v_form = out->pressed.v_form;
}

/* Whether a page has parts of that kind: those that are written, and those in the store's or the pressed pages' form. */
static bool has_part(const kt__attention *d, const split_forms *forms, bool pressed,
                     part_kind kind) {
    if (pressed) {
        bool f16_keys = forms->pressed.k_form == KT__KV_F16;
        return kind == PART_QUANTISED_V || kind == (f16_keys ? PART_K : PART_QUANTISED_K);
    }
    return kind < PART_QUANTISED_K || kt__kv_is_quantised(kt__kv_get_shape(d->kv));
}

/* The addresses of a sequence's index-th page's parts, how far their heads are apart, and how many pages of the
 * split are pressed, with their forms. */
static bool put_page(const kt__gpu_pass *pass, const kt__attention *d, const kt__seg *seg,
                     int64_t index, const split_forms *forms, uint32_t *words) {
    bool pressed = index % KT__SPLIT_PAGES < forms->pressed.n;
    for (int kind = 0; kind < PARTS; kind++) {
        place part = {0, 0};
        if (has_part(d, forms, pressed, (part_kind)kind) &&
            !find_part(pass, d->kv, pressed ? &forms->shape : kt__kv_get_shape(d->kv),
                       seg->table->pages[index], d->layer, (part_kind)kind, &part))
            return false;
        kt__gpu_put_address(words + 2 * kind, part.at);
        words[2 * PARTS + kind] = part.apart;
    }
    words[3 * PARTS] = (uint32_t)forms->pressed.n | (uint32_t)forms->pressed.k_form << 8 |
                       (uint32_t)forms->pressed.v_form << 10;
    return true;
}

static bool put_sequence(const kt__gpu_pass *pass, const kt__attention *d, const kt__seg *seg,
                         int64_t from, int64_t to, uint32_t *pages) {
    split_forms forms;
    for (int64_t i = from; i < to; i++) {
        if (i == from || i % KT__SPLIT_PAGES == 0) find_forms(d, seg, i, &forms);
        if (!put_page(pass, d, seg, i, &forms, pages + (i - from) * PAGE_WORDS)) return false;
    }
    return true;
}

static void put_tokens(const kt__attention *d, const kt__seg *seg, uint32_t first_page,
                       uint32_t *words) {
    const kt__kv_shape *shape = kt__kv_get_shape(d->kv);
    for (int i = 0; i < seg->n_tok; i++) {
        int64_t pos = seg->pos0 + i;
        uint32_t *token = words + TOKEN_WORDS * (seg->row0 + i);
        token[0] = (uint32_t)kt__attention_first(d, seg, pos);
        token[1] = (uint32_t)kt__attention_end(d, seg, pos);
        token[2] = first_page;
        token[3] = (uint32_t)kt__kv_tail_from(shape, pos);
    }
}

static bool put_tables(kt__gpu_pass *pass, const kt__attention *d, attention_places *at) {
    size_t n_page = 0, at_page = 0;
    at->split0 = INT64_MAX;
    for (int s = 0; s < d->n_seg; s++) {
        int64_t from, to;
        if (d->segs[s].n_tok == 0) continue;
        pages_seen(d, &d->segs[s], &from, &to);
        n_page += (size_t)(to - from);
        if (from / KT__SPLIT_PAGES < at->split0) at->split0 = from / KT__SPLIT_PAGES;
        if ((to - 1) / KT__SPLIT_PAGES >= at->split1) at->split1 = (to - 1) / KT__SPLIT_PAGES + 1;
    }
    size_t token_bytes = (size_t)d->n_tok * TOKEN_WORDS * 4, page_bytes = n_page * PAGE_WORDS * 4;
    /* whole steps, so that what is recorded after it stays where it is while a sequence grows */
    size_t bytes = kt__align_up(token_bytes + page_bytes, TABLE_STEP);
    uint8_t *room = kt__gpu_tape_room(&pass->tape, bytes, &at->tokens);
    if (!room || n_page == 0) return false;
    uint32_t *tokens = (uint32_t *)(void *)room;
    uint32_t *pages = (uint32_t *)(void *)(room + token_bytes);
    at->pages = at->tokens + token_bytes;
    memset(tokens, 0, token_bytes);
    for (int s = 0; s < d->n_seg; s++) {
        const kt__seg *seg = &d->segs[s];
        int64_t from, to;
        if (seg->n_tok == 0) continue;
        pages_seen(d, seg, &from, &to);
        put_tokens(d, seg, (uint32_t)at_page - (uint32_t)from, tokens);
        if (!put_sequence(pass, d, seg, from, to, pages + at_page * PAGE_WORDS)) return false;
        at_page += (size_t)(to - from);
    }
    return true;
}

static uint32_t forms_of(const kt__attention *d) {
    const kt__kv_shape *shape = kt__kv_get_shape(d->kv);
    return (uint32_t)kt__kv_k_form(shape, d->layer) | (uint32_t)shape->v_form << 2 |
           (shape->first_f16 ? 16u : 0u);
}

/* Tokens from tok0 on whose parts fit. */
static void put_chunk(kt__gpu_pass *pass, const kt__attention *d, const attention_places *at,
                      uint32_t tok0, uint32_t n_tok) {
    uint32_t n_split = (uint32_t)(at->split1 - at->split0), cap;
    memcpy(&cap, &d->softcap, sizeof cap);
    const kt__gpu_args parts = {
        .at = {at->q, at->tokens, at->pages, pass->parts.address, at->q_codes},
        .n = {(uint32_t)d->n_tok, (uint32_t)d->n_head, (uint32_t)(d->n_head / d->n_head_kv),
              (uint32_t)d->head_dim_k, (uint32_t)d->head_dim_v, cap, tok0, (uint32_t)at->split0,
              forms_of(d), n_split}};
    const kt__gpu_args merge = {.at = {pass->parts.address, at->tokens, at->sinks, at->out},
                                .n = {(uint32_t)d->n_head, (uint32_t)d->head_dim_v, tok0,
                                      (uint32_t)at->split0, n_split, at->sinks != 0}};
    kt__gpu_tape_put(&pass->tape, KT__SHADER_attention, kt__kv_has_quantised(d->kv), &parts,
                     (uint32_t)d->n_head, n_tok, n_split);
    kt__gpu_tape_put(&pass->tape, KT__SHADER_merge, 0, &merge, (uint32_t)d->n_head, n_tok, 1);
}

bool kt__gpu_attention(kt__gpu_pass *pass, const kt__attention *d) {
    attention_places at = {0};
    size_t rows = (size_t)d->n_tok * (size_t)d->n_head;
    if (!forms_passed(pass, d->kv)) return false;
    kt__gpu_tape_ready(&pass->tape);
    if (!kt__gpu_find(pass, d->q, rows * (size_t)d->head_dim_k * sizeof(float), &at.q) ||
        !kt__gpu_find(pass, d->q_codes, rows * kt__query_code_bytes(d->head_dim_k), &at.q_codes) ||
        !kt__gpu_find(pass, d->sinks, (size_t)d->n_head * sizeof(float), &at.sinks) ||
        !kt__gpu_find(pass, d->out, rows * (size_t)d->head_dim_v * sizeof(float), &at.out) ||
        !put_tables(pass, d, &at) || at.split1 - at.split0 > SPLITS_MAX)
        return false;
    size_t token = (size_t)d->n_head * (size_t)(at.split1 - at.split0) *
                   ((size_t)d->head_dim_v + 2) * sizeof(float);
    size_t most = pass->parts.bytes / token;
    if (most == 0) return false;
    for (size_t tok0 = 0; tok0 < (size_t)d->n_tok; tok0 += most) {
        size_t n = (size_t)d->n_tok - tok0 < most ? (size_t)d->n_tok - tok0 : most;
        put_chunk(pass, d, &at, (uint32_t)tok0, (uint32_t)n);
    }
    return true;
}
