#include "make/feedback_source.h"

#include "base/alloc.h"
#include "base/error.h"
#include "convert/planned.h"
#include "make/calibration.h"
#include "make/hessian.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"

/* The seed is raised when the bytes that follow from the same ids change: a file that was begun with
 * other ones is not continued. */
enum { DEFAULT_TOKENS = 32768, SEED_CALIBRATION = 0x63616c6a };

typedef struct input_moments {
    kt__hessian hessian;
    kt__feedback feedback;
    bool finished, usable;
} input_moments;

struct kt__feedback_maker {
    kt_ctx *ctx;
    kt_model *model;
    kt__calibration *calibration;
    kt__feedback_source source;
    int layer; /* of the inputs; -1: none */
    input_moments inputs[KT__LAYER_INPUTS];
};

static void forget_layer(kt__feedback_maker *m) {
    for (int i = 0; i < KT__LAYER_INPUTS; i++) {
        kt__hessian_free(&m->inputs[i].hessian);
        m->inputs[i] = (input_moments){0};
    }
    m->layer = -1;
}

static kt_status add_moments(void *user, kt__net_input input, const float *rows, int n_tok,
                             int n_cols, kt_error *err) {
    kt__feedback_maker *m = user;
    kt__hessian *h = &m->inputs[input].hessian;
    kt_status status = KT_OK;
    if (!h->n) status = kt__hessian_make(n_cols, m->ctx->kernels, m->ctx->pool, h, err);
    if (status == KT_OK) kt__hessian_add(h, rows, n_tok);
    return status;
}

/* Continues to the layer; back to the beginning where it is past it. */
static kt_status reach_layer(kt__feedback_maker *m, int layer, kt_error *err) {
    kt_status status = KT_OK;
    if (m->layer == layer) return KT_OK;
    forget_layer(m);
    if (layer < kt__calibration_layer(m->calibration))
        status = kt__calibration_restart(m->calibration, err);
    while (status == KT_OK && kt__calibration_layer(m->calibration) < layer)
        status = kt__calibration_visit(m->calibration, NULL, NULL, err);
    if (status == KT_OK) status = kt__calibration_visit(m->calibration, add_moments, m, err);
    if (status == KT_OK) m->layer = layer;
    return status;
}

static kt__net_input input_of(kt__tensor_role role) {
    switch (role) {
    case KT__TENSOR_Q:
    case KT__TENSOR_K:
    case KT__TENSOR_V:
    case KT__TENSOR_MIX_GATE:
    case KT__TENSOR_QKV: return KT__INPUT_ATTN;
    case KT__TENSOR_ATTN_OUT: return KT__INPUT_ATTN_OUT;
    case KT__TENSOR_GATE:
    case KT__TENSOR_UP: return KT__INPUT_FFN;
    case KT__TENSOR_DOWN: return KT__INPUT_DOWN;
    default: return KT__INPUTS;
    }
}

static void finish_input(kt__feedback_maker *m, input_moments *in) {
    if (in->finished) return;
    kt__pool_lock(m->ctx->pool);
    in->usable = in->hessian.n && kt__hessian_finish(&in->hessian, &in->feedback);
    kt__pool_unlock(m->ctx->pool);
    in->finished = true;
}

static kt_status find_feedback(void *user, const char *name, int64_t n_cols,
                               const kt__feedback **out, kt_error *err) {
    kt__feedback_maker *m = user;
    int layer;
    kt__net_input input = input_of(kt__tensor_role_of(name, &layer));
    *out = NULL;
    if (input == KT__INPUTS || layer >= m->model->net->hp.n_layer) return KT_OK;
    kt_status status = reach_layer(m, layer, err);
    if (status != KT_OK) return status;
    input_moments *in = &m->inputs[input];
    finish_input(m, in);
    if (in->usable && in->feedback.n_col == n_cols) *out = &in->feedback;
    return KT_OK;
}

kt_status kt__feedback_maker_open(const kt__feedback_opts *opts, kt__feedback_maker **out,
                                  kt_error *err) {
    kt__config *config = NULL;
    int32_t *ids = NULL;
    size_t n = 0, most = opts->n_tok ? (size_t)opts->n_tok : DEFAULT_TOKENS;
    kt_status status;
    kt__feedback_maker *m = kt__calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return kt__fail_nomem(err, "error feedback", sizeof *m);
    m->layer = -1;
    m->source.find = find_feedback;
    m->source.user = m;
    KT__TRY(kt__config_create(&config, err));
    config->model = opts->model;
    config->threads = opts->n_threads;
    KT__TRY(kt__command_open_model(config, false, &m->ctx, &m->model, err));
    KT__TRY(kt__calibration_ids(m->model, opts->text, opts->parse_special, most, &ids, &n, err));
    KT__TRY(kt__calibration_open(m->model, ids, n, true, &m->calibration, err));
    m->source.scratch_bytes = m->ctx->kernels->mm_scratch_bytes;
    m->source.identity = kt__hash_bytes(SEED_CALIBRATION, ids, n * sizeof *ids);
    *out = m;
    m = NULL;
out:
    kt__free(ids);
    kt__config_free(config);
    kt__feedback_maker_close(m);
    return status;
}

void kt__feedback_maker_close(kt__feedback_maker *m) {
    if (!m) return;
    forget_layer(m);
    kt__calibration_close(m->calibration);
    if (m->model) kt_model_close(m->model);
    if (m->ctx) kt_ctx_close(m->ctx);
    kt__free(m);
}

const kt__feedback_source *kt__feedback_maker_source(const kt__feedback_maker *m) {
    return &m->source;
}
