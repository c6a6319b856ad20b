#include "context/adapter.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/math.h"
#include "base/system.h"
#include "context/ctx.h"
#include "context/model.h"
#include "host/pages.h"
#include "model/lora.h"

/* ---- one ---- */

static uint64_t charged_bytes(const kt_adapter *adapter) {
    return adapter->pack.memory_bytes;
}

static kt_status charge_adapter(const kt_adapter *adapter, const char *path, kt_error *err) {
    kt_ctx *ctx = adapter->model->ctx;
    uint64_t bytes = charged_bytes(adapter);
    uint64_t before = atomic_fetch_add(&ctx->mem_used_bytes, bytes);
    if (before + bytes <= ctx->mem_bytes) return KT_OK;
    atomic_fetch_sub(&ctx->mem_used_bytes, bytes);
    return kt__fail_at(err, KT_E_NOMEM, path, UINT64_MAX,
                       "an adapter of %.1f MiB exceeds the memory budget of %.1f MiB, of which "
                       "%.1f MiB are taken",
                       (double)bytes / (1 << 20), (double)ctx->mem_bytes / (1 << 20),
                       (double)before / (1 << 20));
}

static char *copy_str(const char *s, size_t len) {
    char *copy = kt__malloc(len + 1);
    if (!copy) return NULL;
    memcpy(copy, s, len);
    copy[len] = 0;
    return copy;
}

/* general.name, else the file's own, without folder and suffix. */
static char *name_of(const kt__gguf *gguf, const char *path) {
    kt__str name = {"", 0};
    kt_error ignored;
    const char *base = strrchr(path, '/'), *dot;
    if (kt__gguf_get_str(gguf, "general.name", false, &name, &ignored) == KT_OK && name.len)
        return copy_str(name.s, name.len);
    if (base && !base[1])
        return copy_str(path, (size_t)(base - path)); /* a folder's, with a slash */
    base = base ? base + 1 : path;
    dot = strrchr(base, '.');
    return copy_str(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

/* Another model of the same shape is not refused: a fine-tune of a fine-tune has a new name. */
static void warn_of_base(const kt_adapter *adapter, const kt__gguf *gguf) {
    kt__str base = {"", 0};
    kt_error ignored;
    const char *ours = adapter->model->info.name;
    if (kt__gguf_get_str(gguf, "general.base_model.0.name", false, &base, &ignored) != KT_OK ||
        !base.len || !ours[0] || (base.len == strlen(ours) && !memcmp(base.s, ours, base.len)))
        return;
    kt__log_line(&adapter->model->ctx->log, KT_LOG_WARN,
                 "adapter %s was made for the model '%.*s', this one is '%s'", adapter->path,
                 (int)(base.len < 80 ? base.len : 80), base.s, ours);
}

/* Without matrices yet. name NULL: there was no memory for it. */
static kt_status new_adapter(kt_model *model, const char *path, char *name, kt_adapter **out,
                             kt_error *err) {
    kt_adapter *adapter = kt__calloc(1, sizeof *adapter);
    char *own_path = copy_str(path, strlen(path));
    if (!adapter || !own_path || !name) {
        kt__free(adapter);
        kt__free(own_path);
        kt__free(name);
        return kt__fail_nomem(err, "an adapter", sizeof *adapter);
    }
    *adapter = (kt_adapter){.model = model, .path = own_path, .name = name};
    atomic_init(&adapter->n_holders, 1);
    *out = adapter;
    return KT_OK;
}

/* With its matrices: into the budget, and to the other processes. */
static kt_status enter_adapter(kt_adapter *adapter, kt_error *err) {
    kt_status status = charge_adapter(adapter, adapter->path, err);
    if (status != KT_OK) {
        kt__lora_pack_free(&adapter->pack);
        return status;
    }
    return kt__adapter_tell(adapter->model->ctx, &adapter->pack, err);
}

static kt_status open_adapter(kt_model *model, const kt__gguf *gguf, const char *path,
                              kt_adapter **out, kt_error *err) {
    kt_status status;
    kt_adapter *adapter = NULL;
    KT__STEP(new_adapter(model, path, name_of(gguf, path), &adapter, err));
    KT__TRY(kt__gguf_get_bool(gguf, KT__LORA_SCOPED, false, &adapter->scoped, err));
    KT__TRY(kt__lora_file_read(gguf, model->net, &adapter->pack, err));
    KT__TRY(enter_adapter(adapter, err));
    warn_of_base(adapter, gguf);
    *out = adapter;
    adapter = NULL;
out:
    kt_adapter_close(adapter);
    return status;
}

kt_status kt__adapter_of_parts(kt_model *model, const kt__lora_part *parts, size_t n,
                               const char *name, bool scoped, kt_adapter **out, kt_error *err) {
    kt_status status;
    kt_adapter *adapter = NULL;
    *out = NULL;
    KT__STEP(new_adapter(model, name, copy_str(name, strlen(name)), &adapter, err));
    adapter->scoped = scoped;
    KT__TRY(kt__lora_pack_make(model->net, parts, n, name, &adapter->pack, err));
    KT__TRY(enter_adapter(adapter, err));
    *out = adapter;
    adapter = NULL;
out:
    kt_adapter_close(adapter);
    return status;
}

static kt_status check_model(const kt_model *model, kt_error *err) {
    if (model->net) return KT_OK;
    return kt__fail(err, KT_E_STATE, "a model opened with vocab_only takes no adapter");
}

static kt_status check_file(const char *path, kt_error *err) {
    kt__file_info st;
    if (!kt__file_look(path, &st) || !st.is_folder) return KT_OK;
    return kt__fail_at(
        err, KT_E_UNSUPPORTED, path, UINT64_MAX,
        "it is a folder, and an adapter is a GGUF file; kentang's --lora reads PEFT's folders, "
        "and llama.cpp's convert_lora_to_gguf.py makes files of them");
}

kt_status kt_adapter_open(kt_model *model, const char *path, kt_adapter **out, kt_error *err) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__gguf *gguf = NULL;
    kt_status status;
    *out = NULL;
    kt__error_clear(err);
    KT__TRY(check_model(model, err));
    KT__TRY(check_file(path, err));
    KT__TRY(kt__gguf_open(path, &params, &gguf, err));
    KT__TRY(open_adapter(model, gguf, path, out, err));
out:
    kt__gguf_close(gguf);
    return status;
}

kt_status kt_adapter_open_memory(kt_model *model, const void *data, size_t size, const char *name,
                                 kt_adapter **out, kt_error *err) {
    kt__gguf *gguf = NULL;
    kt_status status;
    *out = NULL;
    kt__error_clear(err);
    KT__TRY(check_model(model, err));
    KT__TRY(kt__gguf_open_memory(data, size, false, &gguf, err));
    KT__TRY(open_adapter(model, gguf, name ? name : "(memory)", out, err));
out:
    kt__gguf_close(gguf);
    return status;
}

kt_adapter *kt_adapter_hold(kt_adapter *adapter) {
    if (adapter) atomic_fetch_add(&adapter->n_holders, 1);
    return adapter;
}

void kt_adapter_close(kt_adapter *adapter) {
    if (!adapter || atomic_fetch_sub(&adapter->n_holders, 1) > 1) return;
    kt__adapter_tell_end(adapter->model->ctx, &adapter->pack);
    atomic_fetch_sub(&adapter->model->ctx->mem_used_bytes, charged_bytes(adapter));
    kt__lora_pack_free(&adapter->pack);
    kt__free(adapter->path);
    kt__free(adapter->name);
    kt__free(adapter);
}

void kt_adapter_get_info(const kt_adapter *adapter, kt_adapter_info *out) {
    const kt__lora_pack *pack = &adapter->pack;
    *out = (kt_adapter_info){
        .path = adapter->path,
        .name = adapter->name,
        .bytes = pack->bytes,
        .n_matrices = pack->n_matrices,
        .rank_max = pack->rank_max,
        .keeps_kv = pack->first_kv_layer == adapter->model->net->hp.n_layer,
        .scoped = adapter->scoped,
    };
    kt__digest_bytes(pack->digest, out->id);
}

/* ---- lists ---- */

static kt_status check_use(const kt_model *model, const kt_adapter_use *use, kt_error *err) {
    if (!use->adapter) return kt__fail(err, KT_E_ARG, "an adapter in the list is NULL");
    if (!kt__model_is_same(use->adapter->model, model))
        return kt__fail(err, KT_E_ARG, "the adapter %s was opened for another model",
                        use->adapter->name);
    if (!isfinite(use->scale) || fabsf(use->scale) > KT_ADAPTER_SCALE_MAX)
        return kt__fail(err, KT_E_ARG, "the scale of the adapter %s must be from %d to %d",
                        use->adapter->name, -KT_ADAPTER_SCALE_MAX, KT_ADAPTER_SCALE_MAX);
    return KT_OK;
}

static kt_status check_ranks(const kt__adapters *list, kt_error *err) {
    int block, rank;
    if (kt__lora_ranks_fit(list->uses, list->n, &block, &rank)) return KT_OK;
    return kt__fail(err, KT_E_LIMIT,
                    "the adapters have a rank of %d together for one input of layer %d; %d are "
                    "allowed",
                    rank, block, KT__LORA_U_MAX);
}

/* Only those whose keys or values differ count. */
static void bind_kv(kt__adapters *list) {
    kt__hash h;
    uint8_t id[KT_FINGERPRINT_BYTES];
    kt__hash_init(&h, 1);
    for (int i = 0; i < list->n; i++) {
        const kt_adapter *a = list->of[i];
        if (a->pack.first_kv_layer == a->model->net->hp.n_layer) continue;
        kt__digest_bytes(a->pack.digest, id);
        kt__hash_add(&h, id, sizeof id);
        kt__hash_add(&h, &list->uses[i].scale, sizeof list->uses[i].scale);
        list->binds_kv = true;
    }
    kt__digest_bytes(kt__hash_end(&h), id);
    if (list->binds_kv) memcpy(list->kv_id, id, sizeof list->kv_id);
}

kt_status kt__adapters_new(const kt_model *model, const kt_adapter_use *uses, size_t n,
                           kt__adapters **out, kt_error *err) {
    kt_status status = KT_OK;
    kt__adapters *list = NULL;
    *out = NULL;
    if (n > KT_ADAPTERS_MAX)
        return kt__fail(err, KT_E_LIMIT, "%zu adapters at once; %d are allowed", n,
                        KT_ADAPTERS_MAX);
    for (size_t i = 0; i < n; i++) KT__TRY(check_use(model, &uses[i], err));
    list = kt__calloc(1, sizeof *list);
    if (!list) return kt__fail_nomem(err, "a list of adapters", sizeof *list);
    atomic_init(&list->n_holders, 1);
    for (size_t i = 0; i < n; i++) {
        if (uses[i].scale == 0.0f) continue;
        list->uses[list->n] = (kt__lora_use){&uses[i].adapter->pack.lora, uses[i].scale};
        list->of[list->n++] = kt_adapter_hold(uses[i].adapter);
    }
    KT__TRY(check_ranks(list, err));
    bind_kv(list);
    if (list->n == 0) goto out;
    *out = list;
    list = NULL;
out:
    kt__adapters_release(list);
    return status;
}

kt__adapters *kt__adapters_hold(kt__adapters *list) {
    if (list) atomic_fetch_add(&list->n_holders, 1);
    return list;
}

void kt__adapters_release(kt__adapters *list) {
    if (!list || atomic_fetch_sub(&list->n_holders, 1) > 1) return;
    for (int i = 0; i < list->n; i++) kt_adapter_close(list->of[i]);
    kt__free(list);
}

bool kt__adapters_equal(const kt__adapters *a, const kt__adapters *b) {
    if (a == b) return true;
    if (!a || !b || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        if (a->of[i] != b->of[i] || a->uses[i].scale != b->uses[i].scale) return false;
    }
    return true;
}

bool kt__adapters_share_kv(const kt__adapters *a, const kt__adapters *b) {
    bool a_binds = a && a->binds_kv, b_binds = b && b->binds_kv;
    if (!a_binds || !b_binds) return a_binds == b_binds;
    return memcmp(a->kv_id, b->kv_id, sizeof a->kv_id) == 0;
}

/* ---- adapter message ---- */

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
