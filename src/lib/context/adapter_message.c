#include "context/adapter_message.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/f16.h"
#include "base/vec.h"
#include "context/join.h"
#include "host/pages.h"

enum { BLOCKS_MAX = KT__KV_LAYERS_MAX + 1 };

/* ---- process 0 ---- */

static int64_t place_of(const kt__lora_pack *pack, const kt__f16 *matrix) {
    return (const uint8_t *)matrix - (const uint8_t *)pack->memory;
}

/* Of what is absent its rank alone. */
static void put_block(kt__message *m, const kt__lora_pack *pack, const kt__lora_block *block) {
    for (int i = 0; i < KT__INPUTS; i++) {
        const kt__lora_a *a = &block->a[i];
        kt__message_put(m, a->rank);
        if (a->rank == 0) continue;
        kt__message_put(m, a->n_col);
        kt__message_put_64(m, place_of(pack, a->rows));
    }
    for (int s = 0; s < KT__SITES; s++) {
        const kt__lora_b *b = &block->b[s];
        kt__message_put(m, b->rank);
        if (b->rank == 0) continue;
        const int32_t words[] = {b->n_row, b->at, b->shares_u, (int32_t)kt__f32_bits(b->factor)};
        kt__message_put_words(m, words, sizeof words / sizeof *words);
        kt__message_put_64(m, place_of(pack, b->panels));
    }
}

static kt_status send_adapter(kt_ctx *ctx, kt__lora_pack *pack, kt_error *err) {
    kt__message *m = &ctx->message;
    kt__message_begin(m, KT__TOLD_ADAPTER);
    kt__message_put(m, ++ctx->n_told_adapters);
    kt__message_put_bytes(m, pack->memory, pack->bytes);
    kt__message_put(m, pack->lora.n_block);
    for (int i = 0; i < pack->lora.n_block; i++) put_block(m, pack, &pack->lora.blocks[i]);
    pack->lora.number = ctx->n_told_adapters;
    return kt__message_send(m, ctx->split.peers, err);
}

kt_status kt__adapter_tell(kt_ctx *ctx, kt__lora_pack *pack, kt_error *err) {
    if (!kt__ctx_split(ctx) || ctx->split.rank > 0) return KT_OK;
    kt__pool_lock(ctx->pool);
    kt_status status = send_adapter(ctx, pack, err);
    kt__pool_unlock(ctx->pool);
    return status;
}

void kt__adapter_tell_end(kt_ctx *ctx, const kt__lora_pack *pack) {
    if (!pack->lora.number) return;
    kt__pool_lock(ctx->pool);
    kt__message_begin(&ctx->message, KT__TOLD_ADAPTER_END);
    kt__message_put(&ctx->message, pack->lora.number);
    (void)kt__message_notify(&ctx->message, ctx->split.peers, "an adapter's end");
    kt__pool_unlock(ctx->pool);
}

void kt__adapter_put_rows(kt__message *m, const kt__lora_rows *rows, int n) {
    for (int i = 0; i < n; i++) {
        const int32_t words[] = {rows[i].row0, rows[i].n_tok, rows[i].n_use};
        kt__message_put_words(m, words, sizeof words / sizeof *words);
        for (int k = 0; k < rows[i].n_use; k++) {
            kt__message_put(m, rows[i].uses[k].lora->number);
            kt__message_put(m, (int32_t)kt__f32_bits(rows[i].uses[k].scale));
        }
    }
}

/* ---- the others ---- */

void kt__led_adapters_free(kt__led_adapters *led) {
    for (size_t i = 0; i < led->n; i++) kt__lora_pack_free(&led->packs[i]);
    kt__free(led->packs);
    *led = (kt__led_adapters){0};
}

static kt__lora_pack *find_pack(const kt__led_adapters *led, int32_t number) {
    for (size_t i = 0; i < led->n; i++)
        if (led->packs[i].lora.number == number) return &led->packs[i];
    return NULL;
}

static kt__lora_pack *new_pack(kt__led_adapters *led) {
    kt__lora_pack *free_place = find_pack(led, 0);
    if (free_place) return free_place;
    if (!kt__vec_reserve(led->packs, led->cap, led->n + 1)) return NULL;
    led->packs[led->n] = (kt__lora_pack){0};
    return &led->packs[led->n++];
}

/* A matrix within the pack's bytes. */
static const kt__f16 *take_matrix(kt__message *m, const kt__lora_pack *pack, int64_t n_row,
                                  int rank) {
    int64_t bytes = (int64_t)pack->bytes, size = n_row * rank * (int64_t)sizeof(kt__f16);
    int64_t at = kt__message_take_64(m, 0, bytes);
    if (size > bytes - at || at % (int64_t)sizeof(kt__f16) != 0) m->bad = true;
    return m->bad ? NULL : (const kt__f16 *)(const void *)((const uint8_t *)pack->memory + at);
}

static void take_a(kt__message *m, const kt__lora_pack *pack, kt__lora_a *a) {
    a->rank = kt__message_take(m, 0, KT__LORA_U_MAX);
    if (a->rank == 0) return;
    a->n_col = kt__message_take(m, 1, INT32_MAX);
    a->rows = take_matrix(m, pack, a->n_col, a->rank);
}

/* most: numbers of u that its input has */
static void take_b(kt__message *m, const kt__lora_pack *pack, int most, kt__lora_b *b) {
    b->rank = kt__message_take(m, 0, most);
    if (b->rank == 0) return;
    b->n_row = kt__message_take(m, 1, INT32_MAX - KT__PANEL_ROWS);
    b->at = kt__message_take(m, 0, most - b->rank);
    b->shares_u = kt__message_take(m, 0, 1);
    b->factor = kt__f32_from_bits((uint32_t)kt__message_take(m, INT32_MIN, INT32_MAX));
    b->panels = take_matrix(m, pack, kt__lora_panel_rows(b->n_row), b->rank);
}

static void take_block(kt__message *m, const kt__lora_pack *pack, kt__lora_block *block) {
    for (int i = 0; i < KT__INPUTS; i++) take_a(m, pack, &block->a[i]);
    for (int s = 0; s < KT__SITES; s++)
        take_b(m, pack, block->a[kt__lora_input_of((kt__lora_site)s)].rank, &block->b[s]);
}

static kt_status take_pack(kt__message *m, kt__lora_pack *pack, kt_error *err) {
    size_t bytes;
    const void *memory = kt__message_take_text(m, &bytes);
    int n_block = kt__message_take(m, 1, BLOCKS_MAX);
    if (m->bad || bytes == 0) return KT_OK;
    pack->memory = kt__pages_alloc(bytes);
    pack->lora.blocks = kt__calloc((size_t)n_block, sizeof *pack->lora.blocks);
    if (!pack->memory || !pack->lora.blocks)
        return kt__fail_nomem(err, "another process' adapter", bytes);
    pack->memory_bytes = pack->bytes = bytes;
    pack->lora.n_block = n_block;
    memcpy(pack->memory, memory, bytes);
    for (int i = 0; i < n_block; i++) take_block(m, pack, &pack->lora.blocks[i]);
    return KT_OK;
}

kt_status kt__adapter_heard(kt__led_adapters *led, kt__message *m, kt_error *err) {
    int32_t number = kt__message_take(m, 1, INT32_MAX);
    kt__lora_pack *pack = new_pack(led);
    if (!pack) return kt__fail_nomem(err, "another process' adapter", sizeof *pack);
    kt_status status = take_pack(m, pack, err);
    pack->lora.number = number;
    if (status == KT_OK && (m->bad || !pack->memory))
        status = kt__fail(err, KT_E_FORMAT, "process 0 describes an adapter in another form");
    if (status != KT_OK) kt__lora_pack_free(pack);
    return status;
}

void kt__adapter_heard_end(kt__led_adapters *led, kt__message *m) {
    kt__lora_pack *pack = find_pack(led, kt__message_take(m, 1, INT32_MAX));
    if (pack) kt__lora_pack_free(pack);
}

static bool block_fits(const kt__net *net, int i, const kt__lora_block *block) {
    for (int s = 0; s < KT__SITES; s++) {
        const kt__lora_b *b = &block->b[s];
        const kt__lora_a *a = &block->a[kt__lora_input_of((kt__lora_site)s)];
        int n_row, n_col;
        if (b->rank == 0) continue;
        kt__lora_shape(net, i, (kt__lora_site)s, &n_row, &n_col);
        if (b->n_row != n_row || a->n_col != n_col) return false;
    }
    return true;
}

/* NULL: there is none of that number for this network. */
static const kt__lora *find_fitting(const kt__led_adapters *led, int32_t number,
                                    const kt__net *net) {
    const kt__lora_pack *pack = find_pack(led, number);
    if (!pack || pack->lora.n_block != net->hp.n_layer + 1) return NULL;
    for (int i = 0; i < pack->lora.n_block; i++)
        if (!block_fits(net, i, &pack->lora.blocks[i])) return NULL;
    return &pack->lora;
}

void kt__adapter_take_rows(const kt__led_adapters *led, const kt__net *net, kt__message *m,
                           int n_tok, kt__lora_rows *rows, kt__lora_use *uses, int n) {
    int block, rank;
    for (int i = 0; i < n && !m->bad; i++, uses += KT_ADAPTERS_MAX) {
        int row0 = kt__message_take(m, 0, n_tok);
        rows[i] = (kt__lora_rows){.row0 = row0, .uses = uses};
        rows[i].n_tok = kt__message_take(m, 0, n_tok - row0);
        rows[i].n_use = kt__message_take(m, 0, KT_ADAPTERS_MAX);
        for (int k = 0; k < rows[i].n_use && !m->bad; k++) {
            uses[k].lora = find_fitting(led, kt__message_take(m, 1, INT32_MAX), net);
            uses[k].scale = kt__f32_from_bits((uint32_t)kt__message_take(m, INT32_MIN, INT32_MAX));
            if (!uses[k].lora) m->bad = true;
        }
        if (!m->bad && !kt__lora_ranks_fit(uses, rows[i].n_use, &block, &rank)) m->bad = true;
    }
}
