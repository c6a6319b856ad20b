#include "synth/synth.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "model/lora.h"
#include "sample/rng.h"

typedef struct synth_lora {
    const kt__synth_lora_params *params;
    const kt__net *net;
    kt__gguf_writer *w;
    kt__f16 *row;
    uint32_t n_matrices; /* so far: each has its own random numbers */
    kt_error *err;
} synth_lora;

/* What is done with each matrix: declared first, written then. */
typedef kt_status matrix_fn(synth_lora *s, const char *name, int n_row, int n_col, float spread);

static kt_status declare_matrix(synth_lora *s, const char *name, int n_row, int n_col,
                                float spread) {
    const uint64_t ne[2] = {(uint64_t)n_col, (uint64_t)n_row};
    (void)spread;
    kt__gguf_declare_tensor(s->w, name, kt__type_get(KT__TYPE_F16)->ggml_id, 2, ne);
    return KT_OK;
}

/* Even between -spread and spread. */
static kt_status write_matrix(synth_lora *s, const char *name, int n_row, int n_col, float spread) {
    kt_status status = KT_OK;
    uint32_t number = s->n_matrices++;
    (void)name;
    for (int r = 0; r < n_row && status == KT_OK; r++) {
        for (int c = 0; c < n_col; c++) {
            double u = kt__rng_uniform(s->params->seed, number, (uint64_t)r, (uint32_t)c);
            s->row[c] = kt__f16_from_f32((float)(2.0 * u - 1.0) * spread);
        }
        status = kt__gguf_write_data(s->w, s->row, (size_t)n_col * sizeof *s->row, s->err);
    }
    return status;
}

static kt_status do_site(synth_lora *s, int block, kt__lora_site site, matrix_fn *fn) {
    char base[64], name[80];
    int n_sites, rows = 0, n_row, n_col, rank = s->params->rank;
    kt__lora_site_tensor(s->net, block, site, base, &n_sites);
    if (n_sites == 0) return KT_OK;
    for (int i = 0; i < n_sites; i++) {
        kt__lora_shape(s->net, block, (kt__lora_site)((int)site + i), &n_row, &n_col);
        rows += n_row;
    }
    snprintf(name, sizeof name, "%s.lora_a", base);
    KT__STEP(fn(s, name, rank, n_col, 1.0f / sqrtf((float)n_col)));
    snprintf(name, sizeof name, "%s.lora_b", base);
    return fn(s, name, rows, rank, 0.5f / sqrtf((float)rank));
}

/* Fused projections hold queries, too, which change nothing that is kept: the last kind has them. */
static bool has_site(const synth_lora *s, int block, kt__lora_site site) {
    bool last = block == s->net->hp.n_layer - 1;
    bool kv = site == KT__SITE_K || site == KT__SITE_V || site == KT__SITE_Q;
    if (block == s->net->hp.n_layer)
        return site == KT__SITE_HIDDEN && s->params->kind == KT__SYNTH_LORA_HIDDEN;
    if (site >= KT__SITE_HIDDEN || s->params->kind == KT__SYNTH_LORA_HIDDEN) return false;
    return s->params->kind == KT__SYNTH_LORA_ALL || (last && !kv);
}

static kt_status do_all(synth_lora *s, matrix_fn *fn) {
    for (int block = 0; block <= s->net->hp.n_layer; block++) {
        for (int site = 0; site < KT__SITES; site++) {
            if (!has_site(s, block, (kt__lora_site)site)) continue;
            KT__STEP(do_site(s, block, (kt__lora_site)site, fn));
        }
    }
    return KT_OK;
}

static kt_status write_adapter(synth_lora *s, const char *path) {
    kt_status status;
    KT__TRY(kt__gguf_writer_open(path, &s->w, s->err));
    kt__gguf_put_str(s->w, "general.type", "adapter");
    kt__gguf_put_str(s->w, "general.architecture", s->net->hp.arch);
    kt__gguf_put_str(s->w, "adapter.type", "lora");
    kt__gguf_put_f32(s->w, "adapter.lora.alpha", 2.0f * (float)s->params->rank);
    KT__TRY(do_all(s, declare_matrix));
    KT__TRY(kt__gguf_finish_header(s->w, s->err));
    KT__TRY(do_all(s, write_matrix));
    return kt__gguf_writer_close(s->w, s->err);
out:
    kt__gguf_writer_abort(s->w);
    return status;
}

static int longest_row(const kt__net *net) {
    int n_row, n_col, most = net->hp.d_model;
    for (int i = 0; i < net->hp.n_layer * KT__SITE_HIDDEN; i++) {
        kt__lora_site site = (kt__lora_site)(i % KT__SITE_HIDDEN);
        kt__lora_shape(net, i / KT__SITE_HIDDEN, site, &n_row, &n_col);
        if (n_col > most) most = n_col;
    }
    return most;
}

kt_status kt__synth_lora_write(const kt__synth_lora_params *params, const char *path,
                               kt_error *err) {
    const kt__gguf_open_params open = {.use_mmap = true};
    const kt_model_params model = kt_model_params_default();
    synth_lora s = {.params = params, .err = err};
    kt__gguf *gguf = NULL;
    kt__net *net = NULL;
    kt_status status;
    KT__TRY(kt__gguf_open(params->base, &open, &gguf, err));
    KT__TRY(kt__net_bind(gguf, &model, &net, err));
    s.net = net;
    size_t room = (size_t)(longest_row(net) > params->rank ? longest_row(net) : params->rank);
    s.row = kt__calloc(room, sizeof *s.row);
    status = s.row ? write_adapter(&s, path) : kt__fail_nomem(err, "a row", room);
out:
    kt__free(s.row);
    kt__net_free(net);
    kt__gguf_close(gguf);
    return status;
}
