#include "make/calibration.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "context/ctx.h"
#include "context/model.h"
#include "host/pages.h"
#include "measure/quality.h"
#include "quant/quant.h"
#include "term/cli.h"

enum { CHUNK = KT__CALIBRATION_CHUNK };

struct kt__calibration {
    kt_model *model;
    bool is_light;
    kt__light_net light; /* if so */
    kt__fwd *fwd;
    kt__kv *kv;
    kt__kv_table table;
    int32_t *ids; /* [n_chunk * CHUNK] */
    size_t n_chunk;
    float *x;    /* [n_chunk * CHUNK] of kt__net_row_floats */
    float *rows; /* [CHUNK][longest input] for inputs that are not kept as f32 */
    int layer;
    /* of a visit */
    kt__calibration_fn *fn;
    void *user;
    kt_status status;
    kt_error *err;
};

size_t kt__calibration_chunks(const kt__calibration *c) {
    return c->n_chunk;
}

int kt__calibration_layer(const kt__calibration *c) {
    return c->layer;
}

/* ---- activations as f32 ---- */

static void unpack_row(const kt__acts *acts, kt__act_kind kind, int row, float *out) {
    const kt__act_layout *at = &acts->layout[kind];
    const uint8_t *bytes = acts->data[kind] + (size_t)row * at->row_bytes;
    const int8_t *q = (const int8_t *)bytes;
    const float *d = (const float *)(const void *)(bytes + at->d);
    int block = kind == KT__ACT_Q32 ? 32 : 256;
    if (kind == KT__ACT_F32) {
        memcpy(out, bytes, (size_t)acts->n_col * sizeof *out);
        return;
    }
    for (int i = 0; i < acts->n_col; i++) out[i] = d[i / block] * (float)q[i];
}

static void see_input(void *user, int layer, kt__net_input input, const kt__acts *acts) {
    kt__calibration *c = user;
    (void)layer;
    kt__act_kind kind = KT__ACT_F32;
    while (!(acts->kinds >> kind & 1)) kind++;
    if (!c->fn || c->status != KT_OK) return;
    for (int t = 0; t < acts->n_tok; t++)
        unpack_row(acts, kind, t, c->rows + (size_t)t * (size_t)acts->n_col);
    c->status = c->fn(c->user, input, c->rows, acts->n_tok, acts->n_col, c->err);
}

/* ---- opening ---- */

static int longest_input(const kt__hparams *hp) {
    int heads = kt__hparams_mixed(hp), most = hp->d_model > hp->d_ff ? hp->d_model : hp->d_ff;
    return heads > most ? heads : most;
}

static kt_status open_pass(kt__calibration *c, kt_error *err) {
    kt_ctx *ctx = c->model->ctx;
    const kt__fwd_params params = {.n_tok_max = CHUNK,
                                   .n_out_max = 1,
                                   .n_ctx = CHUNK,
                                   .exact = c->model->params.exact,
                                   .f32_inputs = c->is_light,
                                   .on_input = see_input,
                                   .on_input_user = c};
    const kt__kv_shape shape = kt__model_kv_shape(c->model);
    if (c->is_light) KT__STEP(kt__light_net_make(c->model->net, ctx->pool, &c->light, err));
    KT__STEP(kt__fwd_create(c->is_light ? &c->light.net : c->model->net, ctx->pool, ctx->kernels,
                            &params, &c->fwd, err));
    KT__STEP(kt__kv_create(&shape, CHUNK / KT__PAGE_POS, &c->kv, err));
    KT__STEP(kt__kv_table_init(&c->table, CHUNK, err));
    return kt__kv_table_grow(c->kv, &c->table, 0, CHUNK, err);
}

static kt_status take_tokens(kt__calibration *c, const int32_t *ids, size_t n_ids, kt_error *err) {
    const kt__hparams *hp = &c->model->net->hp;
    c->n_chunk = n_ids / CHUNK;
    if (c->n_chunk == 0)
        return kt__fail(err, KT_E_ARG, "the text is %zu tokens, not one chunk of %d", n_ids, CHUNK);
    size_t n = c->n_chunk * CHUNK, x_bytes = n * kt__net_row_floats(c->model->net) * sizeof *c->x,
           row_bytes = (size_t)CHUNK * (size_t)longest_input(hp) * sizeof *c->rows;
    c->ids = kt__calloc(n, sizeof *c->ids);
    c->x = kt__malloc(x_bytes);
    c->rows = kt__malloc(row_bytes);
    if (!c->ids || !c->x || !c->rows)
        return kt__fail_nomem(err, "a text's hidden states", x_bytes + row_bytes);
    memcpy(c->ids, ids, n * sizeof *ids);
    for (size_t i = 0; i < n; i += CHUNK)
        if (c->model->info.add_bos && c->model->info.bos_id >= 0) c->ids[i] = c->model->info.bos_id;
    return KT_OK;
}

kt_status kt__calibration_open(kt_model *model, const int32_t *ids, size_t n_ids, bool light,
                               kt__calibration **out, kt_error *err) {
    kt_status status;
    kt__calibration *c = kt__calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return kt__fail_nomem(err, "a calibration", sizeof *c);
    c->model = model;
    c->is_light = light && !model->params.exact;
    KT__TRY(kt__model_needs_net(model, err));
    KT__TRY(take_tokens(c, ids, n_ids, err));
    KT__TRY(open_pass(c, err));
    KT__TRY(kt__calibration_restart(c, err));
    *out = c;
    return KT_OK;
out:
    kt__calibration_close(c);
    return status;
}

void kt__calibration_close(kt__calibration *c) {
    if (!c) return;
    if (c->kv) kt__kv_table_free(c->kv, &c->table);
    kt__kv_destroy(c->kv);
    kt__fwd_destroy(c->fwd);
    kt__light_net_free(&c->light);
    kt__free(c->ids);
    kt__free(c->x);
    kt__free(c->rows);
    kt__free(c);
}

/* ---- layers ---- */

static kt_status run_chunk(kt__calibration *c, size_t chunk, int layer, kt_error *err) {
    const kt__seg seg = {.table = &c->table, .n_tok = CHUNK};
    const kt__batch batch = {
        .n_tok = CHUNK, .ids = c->ids + chunk * CHUNK, .segs = &seg, .n_seg = 1};
    kt_ctx *ctx = c->model->ctx;
    int n_threads = kt__ctx_threads_now(ctx);
    float *x = c->x + chunk * CHUNK * kt__net_row_floats(c->model->net);
    kt__pool_begin(ctx->pool, n_threads);
    kt__fwd_begin(c->fwd, &batch, c->kv, n_threads);
    kt_status status = kt__fwd_run_layer(c->fwd, layer, x, err);
    kt__pool_end(ctx->pool);
    return status;
}

static kt_status run_chunks(kt__calibration *c, int layer, kt_error *err) {
    kt_status status = KT_OK;
    uint32_t fpenv = kt__fpenv_enter();
    kt__pool_lock(c->model->ctx->pool);
    if (c->is_light && layer >= 0) kt__light_net_enter(&c->light, layer);
    for (size_t i = 0; i < c->n_chunk && status == KT_OK; i++) {
        status = run_chunk(c, i, layer, err);
        if (status == KT_OK) status = c->status;
    }
    kt__pool_unlock(c->model->ctx->pool);
    kt__fpenv_leave(fpenv);
    return status == KT_OK ? kt__gguf_check(c->model->gguf, err) : status;
}

kt_status kt__calibration_restart(kt__calibration *c, kt_error *err) {
    c->fn = NULL;
    c->status = KT_OK;
    c->layer = 0;
    return run_chunks(c, -1, err);
}

kt_status kt__calibration_visit(kt__calibration *c, kt__calibration_fn *fn, void *user,
                                kt_error *err) {
    if (c->layer == c->model->net->hp.n_layer) {
        kt_status status = kt__calibration_restart(c, err);
        if (status != KT_OK) return status;
    }
    c->fn = fn;
    c->user = user;
    c->err = err;
    c->status = KT_OK;
    return run_chunks(c, c->layer++, err);
}

int kt__calibration_matrices(const kt_model *model, int layer, kt__net_input input,
                             char names[3][64]) {
    enum { MOST = 6 };
    static const char *const suffixes[KT__LAYER_INPUTS][MOST] = {
        [KT__INPUT_ATTN] = {"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_gate",
                            "shortconv.in_proj"},
        [KT__INPUT_ATTN_OUT] = {"attn_output", "ssm_out", "shortconv.out_proj"},
        [KT__INPUT_FFN] = {"ffn_gate", "ffn_up"},
        [KT__INPUT_DOWN] = {"ffn_down"}};
    int n = 0;
    for (int i = 0; i < MOST && suffixes[input][i] && n < 3; i++) {
        snprintf(names[n], 64, "blk.%d.%s.weight", layer, suffixes[input][i]);
        n += kt__gguf_find_tensor(model->gguf, names[n]) != NULL;
    }
    return n;
}

/* ---- calibration text ---- */

enum { MAX_CALIBRATION_BYTES = 1 << 28 };

extern const char kt__calibration_blob[], kt__calibration_blob_end[];

kt_status kt__calibration_ids(const kt_model *model, const char *path, bool parse_special,
                              size_t max_tok, int32_t **ids, size_t *n, kt_error *err) {
    char *read = NULL;
    const char *text = kt__calibration_blob;
    size_t len = (size_t)(kt__calibration_blob_end - kt__calibration_blob);
    kt_status status = KT_OK;
    *ids = NULL;
    if (path) {
        status = kt__cli_read_file(path, MAX_CALIBRATION_BYTES, &read, &len, err);
        text = read;
    }
    if (status == KT_OK)
        status = kt__text_ids(model, text, len, parse_special ? KT_TOK_PARSE_SPECIAL : 0, ids, n,
                              err);
    if (status == KT_OK && max_tok && *n > max_tok) *n = max_tok;
    kt__free(read);
    return status;
}

/* ---- light net ---- */

enum { N_MATRICES = 7, BLOCK = 32 };

static void list_matrices(kt__layer *layer, kt__weight *out[N_MATRICES]) {
    kt__weight *all[N_MATRICES] = {
        &layer->wq,   &layer->wk, &layer->wv,  &layer->t[KT__SLOT_ATTN_OUT].w,
        &layer->gate, &layer->up, &layer->down};
    memcpy(out, all, sizeof all);
}

static bool is_heavy(const kt__weight *w) {
    bool floats = w->type == KT__TYPE_F32 || w->type == KT__TYPE_F16 || w->type == KT__TYPE_BF16;
    return w->data && floats && w->n_col % BLOCK == 0;
}

static size_t light_bytes(const kt__weight *w) {
    return kt__align_up((size_t)w->n_row * kt__type_row_bytes(KT__TYPE_Q8_0, w->n_col), 64);
}

/* The most bytes that a layer takes, and the longest row. */
static void measure_layers(kt__light_net *light) {
    for (int i = 0; i < light->net.hp.n_layer; i++) {
        kt__weight *matrices[N_MATRICES];
        size_t bytes = 0;
        list_matrices(&light->net.layers[i], matrices);
        for (int m = 0; m < N_MATRICES; m++) {
            if (!is_heavy(matrices[m])) continue;
            bytes += light_bytes(matrices[m]);
            if (matrices[m]->n_col > light->n_longest) light->n_longest = matrices[m]->n_col;
        }
        if (bytes > light->room_bytes) light->room_bytes = bytes;
    }
}

kt_status kt__light_net_make(const kt__net *net, kt__pool *pool, kt__light_net *out,
                             kt_error *err) {
    size_t n = (size_t)net->hp.n_layer;
    *out = (kt__light_net){.net = *net, .plain = net->layers, .pool = pool, .layer = -1};
    out->net.layers = kt__calloc(n, sizeof *out->net.layers);
    if (!out->net.layers) return kt__fail_nomem(err, "a table of layers", n);
    memcpy(out->net.layers, net->layers, n * sizeof *net->layers);
    measure_layers(out);
    if (out->room_bytes == 0) return KT_OK;
    size_t row_floats = (size_t)kt__pool_size(pool) * (size_t)out->n_longest;
    out->room = kt__pages_alloc(out->room_bytes);
    out->rows = kt__calloc(row_floats, sizeof *out->rows);
    if (!out->room || !out->rows)
        return kt__fail_nomem(err, "a layer in 8 bits", out->room_bytes + 4 * row_floats);
    return KT_OK;
}

typedef struct lighten_job {
    const kt__light_net *light;
    const kt__weight *from;
    uint8_t *to;
    size_t to_bytes; /* of a row */
} lighten_job;

static void lighten_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const lighten_job *job = arg;
    const kt__weight *w = job->from;
    float *row = job->light->rows + (size_t)worker * (size_t)job->light->n_longest;
    for (int64_t r = begin; r < end; r++) {
        kt__dequantize_row(w->type, w->data + (size_t)r * w->row_bytes, w->n_col, row);
        kt__quantize_row(KT__TYPE_Q8_0, row, w->n_col, job->to + (size_t)r * job->to_bytes);
    }
}

void kt__light_net_enter(kt__light_net *light, int layer) {
    kt__weight *matrices[N_MATRICES];
    uint8_t *to = light->room;
    if (light->layer == layer) return;
    if (light->layer >= 0) light->net.layers[light->layer] = light->plain[light->layer];
    light->layer = layer;
    list_matrices(&light->net.layers[layer], matrices);
    for (int m = 0; m < N_MATRICES; m++) {
        kt__weight *w = matrices[m];
        if (!is_heavy(w)) continue;
        lighten_job job = {light, w, to, kt__type_row_bytes(KT__TYPE_Q8_0, w->n_col)};
        size_t bytes = light_bytes(w);
        kt__pool_run(light->pool, w->n_row, 16, lighten_rows, &job);
        *w = (kt__weight){to, KT__TYPE_Q8_0, w->n_row, w->n_col, job.to_bytes};
        to += bytes;
    }
}

void kt__light_net_free(kt__light_net *light) {
    if (light->room) kt__pages_free(light->room, light->room_bytes);
    kt__free(light->rows);
    kt__free(light->net.layers);
    *light = (kt__light_net){0};
}
