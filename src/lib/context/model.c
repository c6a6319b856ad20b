/* kt_model: a file opened, its network bound, its vocabulary and template loaded. */
#include "context/model.h"

#include "base/alloc.h"
#include "base/error.h"
#include "calls/prompt.h"
#include "context/ctx.h"
#include "model/net.h"
#include "sample/held.h"

#include <string.h>

kt_model_params kt_model_params_default(void) {
    return (kt_model_params){
        .use_mmap = true,
        .yarn_ext_factor = -1.0f,
        .yarn_attn_factor = -1.0f,
        .yarn_beta_fast = -1.0f,
        .yarn_beta_slow = -1.0f,
    };
}

/* Names of general.file_type as converters number them. */
static const char *quant_name(const kt__gguf *gguf) {
    static const struct {
        uint32_t id;
        const char *name;
    } names[] = {
        {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
        {8, "Q5_0"},    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
        {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
        {18, "Q6_K"},   {25, "IQ4_NL"}, {30, "IQ4_XS"}, {32, "BF16"},
    };
    uint32_t id = UINT32_MAX;
    if (kt__gguf_get_u32(gguf, "general.file_type", false, &id, NULL) != KT_OK) return "mixed";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].id == id) return names[i].name;
    }
    return "mixed";
}

static kt_status own_string(kt_model *model, int slot, const char *s, size_t len, const char **out,
                            kt_error *err) {
    model->strings[slot] = kt__strndup(s, len);
    if (!model->strings[slot]) return kt__fail_nomem(err, "the model's names", len);
    *out = model->strings[slot];
    return KT_OK;
}

static kt_status load_strings(kt_model *model, const char *path, kt_error *err) {
    kt_model_info *info = &model->info;
    kt__str name = {"", 0}, arch = {"", 0};
    KT__STEP(kt__gguf_get_str(model->gguf, "general.name", false, &name, err));
    KT__STEP(kt__gguf_get_str(model->gguf, "general.architecture", false, &arch, err));
    KT__STEP(own_string(model, 0, path, strlen(path), &info->path, err));
    KT__STEP(own_string(model, 1, name.s, name.len, &info->name, err));
    KT__STEP(own_string(model, 2, arch.s, arch.len, &info->arch, err));
    info->quant = quant_name(model->gguf);
    info->tokenizer = model->tok ? kt__tokenizer_kind(model->tok) : "none";
    return KT_OK;
}

static char *role_text(const kt__tokenizer *tok, kt__tok_role role) {
    int32_t id = kt__tokenizer_role_id(tok, role);
    kt__str text = kt__tokenizer_token_text(tok, id);
    return kt__strndup(text.s, text.len);
}

static void probe_style(kt_model *model) {
    const kt__chat_params params = {.bos_token = model->bos_text,
                                    .eos_token = model->eos_text,
                                    .now_local_s = kt__chat_now_local(),
                                    .extras = true};
    kt__call_style_probe(model->chat, &params, &model->style);
}

static kt_status take_template(const char *text, kt__str *out) {
    *out = (kt__str){text, strlen(text)};
    return KT_OK;
}

/* The one that was given, by its name or its source, else the file's; none: out->s is NULL. */
static kt_status find_template(const kt_model *model, kt__str *out, kt_error *err) {
    const char *given = model->params.chat_template;
    const char *named = given ? kt__chat_template_builtin(given) : NULL;
    if (named) return take_template(named, out);
    if (given && !strpbrk(given, "{ \n"))
        return kt__fail(err, KT_E_ARG,
                        "there is no chat template \"%.60s\": expected chatml, "
                        "llama3, gemma, command-r, or Jinja's source",
                        given);
    if (given) return take_template(given, out);
    KT__STEP(kt__gguf_get_str(model->gguf, "tokenizer.chat_template", false, out, err));
    if (out->s || !model->params.chat_fallback) return KT_OK;
    kt__log_line(&model->ctx->log, KT_LOG_INFO,
                 "the file has no chat template: conversations are written as ChatML");
    return take_template(kt__chat_template_builtin("chatml"), out);
}

/* A template of the file's that does not parse is no reason to refuse the model: the calls that need
 * it say so. */
static kt_status load_template(kt_model *model, kt_error *err) {
    kt__str source = {0};
    KT__STEP(find_template(model, &source, err));
    if (!source.s) return KT_OK;
    model->template_text = kt__strndup(source.s, source.len);
    if (!model->template_text) return kt__fail_nomem(err, "the chat template", source.len);
    model->info.template_ = model->template_text;
    model->style = kt__call_style_of(source.s, source.len);
    kt_status status = kt__chat_template_parse(source.s, source.len, &model->chat,
                                               &model->chat_error);
    if (status == KT_E_NOMEM || (status != KT_OK && model->params.chat_template)) {
        if (err) *err = model->chat_error;
        return status;
    }
    if (status == KT_OK) probe_style(model);
    if (status != KT_OK) {
        kt__log_line(&model->ctx->log, KT_LOG_WARN, "the chat template cannot be used: %s",
                     model->chat_error.message);
    }
    return KT_OK;
}

static kt_status load_text(kt_model *model, kt_error *err) {
    if (!kt__gguf_find(model->gguf, "tokenizer.ggml.model")) return KT_OK;
    KT__STEP(kt__tokenizer_load(model->gguf, &model->tok, err));
    const char *warning = kt__tokenizer_warning(model->tok);
    if (warning) kt__log_line(&model->ctx->log, KT_LOG_WARN, "%s", warning);
    model->bos_text = role_text(model->tok, KT__ROLE_BOS);
    model->eos_text = role_text(model->tok, KT__ROLE_EOS);
    if (!model->bos_text || !model->eos_text) return kt__fail_nomem(err, "special tokens", 0);
    return load_template(model, err);
}

/* What the file says; a file that says nothing, or that each token has its own. */
static kt_pooling pooling_of_file(const kt_model *model) {
    switch (model->net->hp.pooling) {
    case KT__POOL_CLS: return KT_POOLING_CLS;
    case KT__POOL_LAST: return KT_POOLING_LAST;
    case KT__POOL_RANK: return KT_POOLING_RANK;
    default: return KT_POOLING_MEAN;
    }
}

static void fill_info(kt_model *model) {
    kt_model_info *info = &model->info;
    info->file_bytes = kt__gguf_file_bytes(model->gguf);
    info->bos_id = info->eos_id = -1;
    if (model->tok) {
        info->n_vocab = kt__tokenizer_n_vocab(model->tok);
        info->bos_id = kt__tokenizer_role_id(model->tok, KT__ROLE_BOS);
        info->eos_id = kt__tokenizer_role_id(model->tok, KT__ROLE_EOS);
        info->add_bos = kt__tokenizer_add_bos(model->tok);
        info->add_eos = kt__tokenizer_add_eos(model->tok);
        size_t bytes = kt__tokenizer_bytes_per_id(model->tok);
        info->bytes_per_token = bytes > INT32_MAX ? 0 : (int32_t)bytes;
    }
    if (!model->net) return;
    const kt__hparams *hp = &model->net->hp;
    info->n_params = model->net->n_params;
    info->weight_bytes = model->net->weight_bytes;
    info->decode_bytes = model->net->decode_bytes;
    info->n_vocab = hp->n_vocab;
    info->n_ctx_train = (int32_t)hp->n_ctx_train;
    info->n_layer = hp->n_layer;
    info->d_model = hp->d_model;
    info->d_ff = hp->d_ff;
    info->n_head = hp->n_head;
    info->n_head_kv = hp->n_head_kv;
    info->head_dim = hp->head_dim_k;
    info->is_encoder = hp->features & KT__F_ENCODER;
    info->pooling = pooling_of_file(model);
    kt__kv_shape shape = kt__model_kv_shape(model);
    for (int i = 0; i < model->net->n_kv_layer; i++) {
        kt__kv_heads heads = kt__kv_heads_of(&shape, i);
        info->kv_bytes_per_token += (uint64_t)(heads.n * (heads.dim_k + heads.dim_v)) *
                                    sizeof(kt__f16);
    }
}

static kt_status open_blas(kt_model *model, kt_error *err) {
    const kt_model_params *p = &model->params;
    if (!p->blas || p->vocab_only) return KT_OK;
    if (p->exact) return kt__fail(err, KT_E_ARG, "exact and blas exclude each other");
    KT__STEP(kt__blas_open(p->blas_library, &model->blas, err));
    kt__log_line(&model->ctx->log, KT_LOG_INFO, "products of long prompts: %s",
                 kt__blas_name(model->blas));
    return KT_OK;
}

static kt_status check_gpu(const kt_model *model, kt_error *err) {
    const kt_model_params *p = &model->params;
    if (p->exact || p->blas)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "a graphics processor computes neither with exact nor with blas");
    if (kt__ctx_split(model->ctx))
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "several processes and a graphics processor exclude each other");
    return KT_OK;
}

static kt_status place_layers(kt_model *model, kt_error *err) {
    const kt_model_params *p = &model->params;
    KT__STEP(kt__ctx_take_gpu(model->ctx, p->device, p->device_test, &model->gpu, err));
    return kt__device_layers_place(model->net, model->gpu, p->n_gpu_layers, &model->ctx->log,
                                   &model->device, err);
}

/* Without a device that can be used all is computed by the processor. */
static kt_status open_gpu(kt_model *model, kt_error *err) {
    const kt_model_params *p = &model->params;
    kt_error why;
    bool by_itself = p->n_gpu_layers < 0;
    if (p->n_gpu_layers == 0 || !model->net) return KT_OK;
    kt_status status = check_gpu(model, &why);
    if (status != KT_OK && !by_itself) return kt__fail(err, status, "%s", why.message);
    if (status == KT_OK) status = place_layers(model, &why);
    if (status == KT_E_ARG) return kt__fail(err, status, "%s", why.message);
    if (status != KT_OK)
        kt__log_line(&model->ctx->log, by_itself ? KT_LOG_INFO : KT_LOG_WARN,
                     "the processor computes all layers: %s", why.message);
    return KT_OK;
}

static void fill_device_info(kt_model *model) {
    const kt__device_layers *d = model->device;
    if (!d || (d->n == 0 && !d->head)) return;
    model->info.device = kt__gpu_get_info(d->gpu)->name;
    model->info.n_gpu_layers = d->n;
    model->info.gpu_head = d->head;
}

/* As they are needed, from a file that need not be in memory as a whole. */
static bool can_read_experts(const kt_model *model) {
    const kt_model_params *p = &model->params;
    return model->net && p->use_mmap && !p->use_mlock && !kt__ctx_split(model->ctx);
}

/* Pictures of several axes are for text models that have these, and layers for all parts of a row. */
static kt_status check_axes(const kt_model *model, kt_error *err) {
    const kt__hparams *hp = &model->net->hp;
    const kt__vision *v = model->vision;
    bool axes = hp->rope.sections[1] > 0;
    if (axes == !!(v->family->has & KT__EYE_ANY_SIZE) && v->n_deep < hp->n_layer) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "%s belongs to another model: the architecture %s does not read encoders of "
                    "the type '%s'",
                    model->params.mmproj, hp->arch, v->family->name);
}

/* The file of the encoder, which has to make rows as long as the model's own. */
static kt_status open_vision(kt_model *model, kt_error *err) {
    const kt_model_params *p = &model->params;
    const kt__gguf_open_params open = {.use_mmap = p->use_mmap, .use_mlock = p->use_mlock};
    if (!p->mmproj || !model->net) return KT_OK;
    if (kt__ctx_split(model->ctx))
        return kt__fail(err, KT_E_UNSUPPORTED, "pictures are not seen by several processes");
    KT__STEP(kt__vision_open(p->mmproj, &open, &model->vision, err));
    if (model->vision->d_text != model->net->hp.d_model)
        return kt__fail(err, KT_E_ARG,
                        "%s belongs to another model: it makes rows of %d numbers, and this model "
                        "has %d",
                        p->mmproj, model->vision->d_text, model->net->hp.d_model);
    KT__STEP(check_axes(model, err));
    kt__gguf_fingerprint(model->vision->gguf, model->vision_id);
    model->info.vision = model->vision->family->name;
    return KT_OK;
}

/* Takes gguf over in any case. */
static kt_status open_gguf(kt_ctx *ctx, kt__gguf *gguf, const char *path,
                           const kt_model_params *params, kt_model **out, kt_error *err) {
    kt_status status;
    kt_model *model = kt__calloc(1, sizeof *model);
    if (!model) {
        kt__gguf_close(gguf);
        return kt__fail_nomem(err, "the model", sizeof *model);
    }
    model->ctx = ctx;
    model->gguf = gguf;
    model->params = *params;
    KT__TRY(kt__fingerprint_create(&model->fingerprint, err));
    KT__TRY(kt__full_hash_create(gguf, &ctx->activity, &model->full_hash, err));
    KT__TRY(kt__page_job_create(gguf, &ctx->activity, &model->page_job, err));
    KT__TRY(open_blas(model, err));
    if (!params->vocab_only) KT__TRY(kt__net_bind(gguf, params, &model->net, err));
    if (kt__ctx_split(ctx)) kt__gguf_read_expert_parts(gguf);
    if (can_read_experts(model))
        KT__TRY(kt__expert_store_create(model->net, gguf, &model->experts, err));
    KT__TRY(load_text(model, err));
    if (params->vocab_only && !model->tok) {
        status = kt__fail(err, KT_E_FORMAT, "%s: the file has no vocabulary", path);
        goto out;
    }
    KT__TRY(load_strings(model, path, err));
    KT__TRY(open_vision(model, err));
    KT__TRY(open_gpu(model, err));
    fill_info(model);
    fill_device_info(model);
    *out = model;
    model = NULL;
out:
    kt_model_close(model);
    return status;
}

kt_status kt_model_open(kt_ctx *ctx, const char *path, const kt_model_params *params,
                        kt_model **out, kt_error *err) {
    kt_model_params p = params ? *params : kt_model_params_default();
    kt__gguf *gguf = NULL;
    *out = NULL;
    kt__error_clear(err);
    uint64_t used = atomic_load(&ctx->mem_used_bytes);
    kt__gguf_open_params open = {
        .use_mmap = p.use_mmap,
        .use_mlock = p.use_mlock,
        .vocab_only = p.vocab_only,
        .copy_max = ctx->mem_bytes > used ? ctx->mem_bytes - used : 1,
    };
    kt_status status = kt__gguf_open(path, &open, &gguf, err);
    return status == KT_OK ? open_gguf(ctx, gguf, path, &p, out, err) : status;
}

static kt_status open_memory(kt_ctx *ctx, const void *data, size_t size, const char *name,
                             const kt_model_params *params, kt_model **out, kt_error *err) {
    kt_model_params p = params ? *params : kt_model_params_default();
    kt__gguf *gguf = NULL;
    *out = NULL;
    kt__error_clear(err);
    kt_status status = kt__gguf_open_memory(data, size, p.vocab_only, &gguf, err);
    return status == KT_OK ? open_gguf(ctx, gguf, name, &p, out, err) : status;
}

kt_status kt_model_open_memory(kt_ctx *ctx, const void *data, size_t size,
                               const kt_model_params *params, kt_model **out, kt_error *err) {
    return open_memory(ctx, data, size, "(memory)", params, out, err);
}

kt_status kt_model_open_demo(kt_ctx *ctx, const kt_model_params *params, kt_model **out,
                             kt_error *err) {
    size_t size = 0;
    const void *data = kt__demo_model(&size);
    *out = NULL;
    if (!data) {
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "this library was built without the demo model; open a GGUF file");
    }
    return open_memory(ctx, data, size, "(demo)", params, out, err);
}

void kt_model_close(kt_model *model) {
    if (!model) return;
    kt__full_hash_destroy(model->full_hash);
    kt__page_job_destroy(model->page_job);
    kt__fingerprint_free(model->fingerprint);
    kt__held_vocab_free(atomic_load(&model->held_vocab));
    kt__chat_template_free(model->chat);
    kt__tokenizer_free(model->tok);
    kt__expert_store_destroy(model->experts);
    kt__device_layers_free(model->device);
    kt__ctx_drop_gpu(model->ctx, model->gpu);
    kt__net_free(model->net);
    kt__blas_close(model->blas);
    kt__vision_close(model->vision);
    kt__gguf_close(model->gguf);
    kt__free(model->template_text);
    kt__free(model->bos_text);
    kt__free(model->eos_text);
    for (size_t i = 0; i < sizeof model->strings / sizeof model->strings[0]; i++) {
        kt__free(model->strings[i]);
    }
    kt__free(model);
}

void kt_model_get_info(const kt_model *model, kt_model_info *out) {
    *out = model->info;
}

kt_status kt_model_start_hash(kt_model *model, kt_error *err) {
    kt__error_clear(err);
    return kt__full_hash_start(model->full_hash, err);
}

void kt__model_full_hash(const kt_model *model, uint8_t out[KT_FINGERPRINT_BYTES]) {
    kt_hash_info info;
    kt__full_hash_get(model->full_hash, &info);
    memcpy(out, info.hash, sizeof info.hash);
}

void kt_model_get_hash(const kt_model *model, kt_hash_info *out) {
    kt__full_hash_get(model->full_hash, out);
}

kt_status kt_model_start_pages(kt_model *model, kt_error *err) {
    kt__error_clear(err);
    return kt__page_job_start(model->page_job, err);
}

void kt_model_get_pages(const kt_model *model, kt_pages_info *out) {
    kt__page_job_get(model->page_job, out);
}

uint64_t kt__model_resident_bytes(const kt_model *model) {
    bool stays = model->params.use_mmap && !model->params.use_mlock;
    uint64_t bytes = model->info.weight_bytes - (stays ? model->net->lookup_bytes : 0);
    uint64_t kept = kt__expert_store_bytes(model->experts);
    return kept ? bytes - kt__expert_store_file_bytes(model->experts) + kept : bytes;
}

kt__kv_shape kt__model_kv_shape(const kt_model *model) {
    return kt__net_kv_shape(model->net);
}

/* Those that this process computes attention with. */
static void take_own_heads(const kt_model *model, kt__kv_shape *shape) {
    const kt__division *split = kt__ctx_split(model->ctx);
    int n_head = model->net->hp.n_head;
    if (n_head == 0) return; /* no layer has any */
    shape->n_head_kv = kt__division_heads_of(split, n_head, shape->n_head_kv, split->rank).n_kv;
    if (shape->other.n == 0) return;
    shape->other.n = kt__division_heads_of(split, n_head, shape->other.n, split->rank).n_kv;
}

bool kt__engine_uses_mtp(const kt_model *model, const kt_engine_params *params) {
    bool wanted = params->n_draft > 0 && !params->draft && params->draft_from != KT_DRAFT_TEXT;
    return model->net->mtp && wanted && !kt__ctx_split(model->ctx);
}

bool kt__engine_keeps_states(const kt_model *model, const kt_engine_params *params) {
    bool assisted = params->draft && kt__model_is_assistant(params->draft);
    return assisted || kt__engine_uses_mtp(model, params);
}

bool kt__model_is_assistant(const kt_model *model) {
    return model->net->hp.features & KT__F_ASSISTANT;
}

kt__kv_shape kt__engine_kv_shape(const kt_model *model, const kt_engine_params *params) {
    static const kt__kv_form forms[KT_KV_TYPES] = {
        [KT_KV_F16] = KT__KV_F16, [KT_KV_Q8_0] = KT__KV_Q8, [KT_KV_Q4_0] = KT__KV_Q4};
    kt__kv_shape shape = kt__model_kv_shape(model);
    shape.n_layer += kt__engine_uses_mtp(model, params);
    shape.k_form = forms[params->kv_keys];
    shape.v_form = forms[params->kv_values];
    if (kt__ctx_split(model->ctx)) take_own_heads(model, &shape);
    if (!kt__kv_is_quantised(&shape)) return shape;
    shape.n_tail = params->kv_tail > 0 ? kt__pages_of(params->kv_tail) : 0;
    shape.first_f16 = shape.k_form == KT__KV_Q4 || shape.v_form == KT__KV_Q4;
    if (shape.k_form != KT__KV_F16) kt__key_bias_outliers(model->net, shape.f16_keys);
    return shape;
}

kt_status kt__model_generates(const kt_model *model, kt_error *err) {
    const kt__hparams *hp = &model->net->hp;
    if (!(hp->features & KT__F_ENCODER)) return KT_OK;
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "%s is an encoder (architecture %s), which generates no text: ask it for "
                    "embeddings%s",
                    model->info.path, hp->arch,
                    hp->pooling == KT__POOL_RANK ? " or for a ranking" : "");
}

kt_status kt__model_pooling(const kt_model *model, kt_pooling asked, kt_pooling *out,
                            kt_error *err) {
    kt_pooling file = pooling_of_file(model);
    *out = asked == KT_POOLING_MODEL ? file : asked;
    if (asked != KT_POOLING_RANK || file == KT_POOLING_RANK) return KT_OK;
    return kt__fail(err, KT_E_UNSUPPORTED,
                    "%s is no reranker: its file does not say pooling_type %d (rank)",
                    model->info.path, KT__POOL_RANK);
}

kt_status kt__model_needs_net(const kt_model *model, kt_error *err) {
    if (model->net) return KT_OK;
    return kt__fail(err, KT_E_STATE, "%s was opened with vocab_only: open it without to compute",
                    model->info.path);
}

/* ---- demo ---- */

#ifdef KT_HAVE_DEMO
extern const unsigned char kt__demo_blob[], kt__demo_blob_end[];

const void *kt__demo_model(size_t *size) {
    *size = (size_t)(kt__demo_blob_end - kt__demo_blob);
    return kt__demo_blob;
}
#else
const void *kt__demo_model(size_t *size) {
    *size = 0;
    return NULL;
}
#endif

/* ---- samplers ---- */

static const char *token_bytes(void *ctx, int32_t id, size_t *len) {
    kt__str bytes = kt__tokenizer_token_bytes(ctx, id);
    *len = bytes.len;
    return bytes.s;
}

kt_status kt__model_sampler(const kt_model *model, const kt_sampling *sampling,
                            const kt__sampler_setup *setup, kt__sampler **out, kt_error *err) {
    kt__sampler_vocab vocab = {token_bytes, model->tok};
    kt__sampler_setup whole = *setup;
    if (model->tok) whole.vocab = &vocab;
    return kt__sampler_create(sampling, &whole, out, err);
}

/* ---- kt_sampler: the chain over logits that the caller has ---- */

struct kt_sampler {
    kt__sampler *chain;
    int32_t n_vocab;
    uint64_t position; /* of the token that is drawn next */
};

static kt_status fill_sampler_of(kt_sampler *s, const kt_model *model, const kt_sampling *sampling,
                                 int32_t n_ctx, kt_error *err) {
    kt_sampling usual = kt_sampling_default();
    kt__sampler_setup setup = {.n_vocab = s->n_vocab, .n_ctx = n_ctx};
    if (n_ctx < 1 || n_ctx > KT_CTX_MAX)
        return kt__fail(err, KT_E_ARG, "n_ctx is %d, expected 1 to %d", n_ctx, KT_CTX_MAX);
    return kt__model_sampler(model, sampling ? sampling : &usual, &setup, &s->chain, err);
}

kt_status kt_sampler_open(const kt_model *model, const kt_sampling *sampling, int32_t n_ctx,
                          kt_sampler **out, kt_error *err) {
    *out = NULL;
    kt__error_clear(err);
    kt_sampler *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "a sampler", sizeof *s);
    s->n_vocab = model->info.n_vocab;
    kt_status status = fill_sampler_of(s, model, sampling, n_ctx, err);
    if (status == KT_OK) {
        *out = s;
    } else {
        kt__free(s);
    }
    return status;
}

void kt_sampler_close(kt_sampler *s) {
    if (!s) return;
    kt__sampler_free(s->chain);
    kt__free(s);
}

kt_status kt_sampler_accept(kt_sampler *s, int32_t id, kt_error *err) {
    kt__error_clear(err);
    if (id < 0 || id >= s->n_vocab)
        return kt__fail(err, KT_E_ARG, "the token is %d, expected 0 to %d", id, s->n_vocab - 1);
    kt__sampler_accept(s->chain, id);
    s->position++;
    return KT_OK;
}

kt_status kt_sampler_sample(kt_sampler *s, const float *logits, int32_t *id, kt_error *err) {
    kt__error_clear(err);
    return kt__sampler_sample(s->chain, logits, s->position, id, err);
}

void kt_sampler_reset(kt_sampler *s) {
    kt__sampler_reset(s->chain);
    s->position = 0;
}

uint64_t kt_sampler_seed(const kt_sampler *s) {
    return kt__sampler_seed(s->chain);
}
