#include "context/adapter.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "context/adapter_message.h"
#include "context/fingerprint.h"
#include "model/lora_file.h"

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

static kt_status open_adapter(kt_model *model, const kt__gguf *gguf, const char *path,
                              kt_adapter **out, kt_error *err) {
    kt_status status;
    kt_adapter *adapter = kt__calloc(1, sizeof *adapter);
    if (!adapter) return kt__fail_nomem(err, "an adapter", sizeof *adapter);
    adapter->model = model;
    atomic_init(&adapter->n_holders, 1);
    adapter->path = copy_str(path, strlen(path));
    adapter->name = name_of(gguf, path);
    if (!adapter->path || !adapter->name) {
        status = kt__fail_nomem(err, "an adapter's name", strlen(path));
        goto out;
    }
    KT__TRY(kt__gguf_get_bool(gguf, KT__LORA_SCOPED, false, &adapter->scoped, err));
    KT__TRY(kt__lora_file_read(gguf, model->net, &adapter->pack, err));
    status = charge_adapter(adapter, path, err);
    if (status != KT_OK) kt__lora_pack_free(&adapter->pack);
    KT__TRY(status);
    KT__TRY(kt__adapter_tell(model->ctx, &adapter->pack, err));
    warn_of_base(adapter, gguf);
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
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return KT_OK;
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
