#include "make/auto_recipe.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "context/types.h"
#include "convert/planned.h"
#include "make/calibration.h"
#include "measure/quality.h"
#include "setup/session.h"

enum { THIRDS = 3, ROLES = KT__TENSOR_VECTOR, GROUPS = ROLES * THIRDS, TEXT_TOKENS = 1024 };

/* From small to large; of those whose blocks divide a row. */
static const kt__type candidates[] = {
    KT__TYPE_Q2_K, KT__TYPE_Q3_K, KT__TYPE_IQ4_XS, KT__TYPE_Q4_0, KT__TYPE_Q4_K, KT__TYPE_IQ4_NL,
    KT__TYPE_Q5_0, KT__TYPE_Q5_K, KT__TYPE_Q6_K,   KT__TYPE_Q8_0, KT__TYPE_F16};
enum { TYPES = sizeof candidates / sizeof *candidates };

typedef struct auto_matrix {
    const kt__gguf_tensor *tensor;
    kt__type source;
    int group;
    int64_t n_cols, n_rows;
    const float *importance;
    double error[TYPES]; /* weighted, over that of zeros; < 0: the type does not fit */
} auto_matrix;

typedef struct auto_group {
    double kl_per_error; /* of its divergence, over the sum of its matrices' errors */
    size_t n;
} auto_group;

typedef struct auto_plan {
    const kt__auto_opts *opts;
    kt__session session, base;
    int32_t *ids;
    kt__text_score score;
    auto_matrix *matrices;
    size_t n;
    auto_group groups[GROUPS];
    int *chosen; /* [n] index of candidates */
} auto_plan;

/* ---- errors of weights ---- */

/* The weighted error of one row in this type, and of zeros. */
static void row_error(const auto_matrix *m, kt__type type, const float *x, void *blocks,
                      float *back, double *error, double *power) {
    const kt__encoding how = {.importance = m->importance};
    kt__quantize_row_by(type, &how, x, m->n_cols, blocks);
    kt__dequantize_row(type, blocks, m->n_cols, back);
    for (int64_t i = 0; i < m->n_cols; i++) {
        double w = m->importance ? (double)m->importance[i] : 1.0;
        double miss = (double)x[i] - (double)back[i];
        *error += w * miss * miss;
        *power += w * (double)x[i] * (double)x[i];
    }
}

/* Some rows, evenly spread. */
static kt_status measure_errors(auto_matrix *m, kt_error *err) {
    enum { SAMPLED = 16 };
    size_t n = (size_t)m->n_cols;
    float *x = kt__calloc(n, sizeof *x), *back = kt__calloc(n, sizeof *back);
    void *blocks = kt__malloc(4 * n);
    if (!x || !back || !blocks) {
        kt__free(x), kt__free(back), kt__free(blocks);
        return kt__fail_nomem(err, "rows of a matrix", 12 * n);
    }
    int64_t step = m->n_rows > SAMPLED ? m->n_rows / SAMPLED : 1;
    for (int t = 0; t < TYPES; t++) {
        double error = 0, power = 0;
        m->error[t] = -1;
        if (m->n_cols % kt__type_get(candidates[t])->block_elems != 0) continue;
        for (int64_t r = 0; r < m->n_rows; r += step) {
            const uint8_t *row = m->tensor->data +
                                 (size_t)r * kt__type_row_bytes(m->source, m->n_cols);
            kt__dequantize_row(m->source, row, m->n_cols, x);
            row_error(m, candidates[t], x, blocks, back, &error, &power);
        }
        m->error[t] = power > 0 ? error / power : 0;
    }
    kt__free(x), kt__free(back), kt__free(blocks);
    return KT_OK;
}

/* ---- matrices and groups ---- */

static bool take_matrix(const auto_plan *p, const kt__gguf_tensor *t, auto_matrix *m) {
    int layer;
    kt__tensor_role role = kt__tensor_role_of(t->name.s, &layer);
    int n_layer = p->session.model->net->hp.n_layer;
    kt__type source = kt__type_from_ggml(t->type);
    if (t->n_dims != 2 || source == KT__TYPE_COUNT || role == KT__TENSOR_VECTOR) return false;
    bool outside = role == KT__TENSOR_EMBD || role == KT__TENSOR_OUTPUT;
    int third = outside || layer >= n_layer ? 0 : layer * THIRDS / n_layer;
    *m = (auto_matrix){.tensor = t,
                       .source = source,
                       .group = (int)role * THIRDS + third,
                       .n_cols = (int64_t)t->ne[0],
                       .n_rows = (int64_t)t->ne[1]};
    const kt__imatrix_entry *e = p->opts->importance
                                     ? kt__imatrix_find(p->opts->importance, t->name.s)
                                     : NULL;
    if (e && e->n_cols == m->n_cols) m->importance = e->sum2;
    return true;
}

static kt_status list_matrices(auto_plan *p, kt_error *err) {
    const kt__gguf *g = p->session.model->gguf;
    size_t n_tensors = kt__gguf_n_tensors(g);
    kt_status status = KT_OK;
    p->matrices = kt__calloc(n_tensors + 1, sizeof *p->matrices);
    p->chosen = kt__calloc(n_tensors + 1, sizeof *p->chosen);
    if (!p->matrices || !p->chosen) return kt__fail_nomem(err, "matrices", n_tensors);
    for (size_t i = 0; i < n_tensors && status == KT_OK; i++) {
        if (!take_matrix(p, kt__gguf_tensor_at(g, i), &p->matrices[p->n])) continue;
        status = measure_errors(&p->matrices[p->n], err);
        p->groups[p->matrices[p->n++].group].n++;
    }
    return status;
}

/* ---- one group quantised in memory ---- */

typedef struct stand_in {
    const uint8_t *begin, *end; /* of the tensor in the file */
    size_t row_bytes;
    uint8_t *data; /* what is in for it */
    kt__type type;
} stand_in;

static void put_in(const stand_in *s, kt__weight *w) {
    if (!w->data || w->data < s->begin || w->data >= s->end) return;
    size_t row = (size_t)(w->data - s->begin) / s->row_bytes;
    w->row_bytes = kt__type_row_bytes(s->type, w->n_col);
    w->data = s->data + row * w->row_bytes;
    w->type = s->type;
}

static void put_in_net(const stand_in *s, kt__net *net) {
    put_in(s, &net->embed);
    put_in(s, &net->head);
    for (int i = 0; i < net->hp.n_layer; i++) {
        kt__layer *l = &net->layers[i];
        for (int slot = 0; slot < KT__SLOT_COUNT; slot++) put_in(s, &l->t[slot].w);
        kt__weight *parts[] = {&l->wq, &l->wk, &l->wv, &l->gate, &l->up, &l->down};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) put_in(s, parts[k]);
    }
}

/* About four bits: what most files have. */
static int probe_of(const auto_matrix *m) {
    int found = TYPES - 1;
    for (int t = TYPES - 1; t >= 0; t--)
        if (m->error[t] >= 0 && (candidates[t] == KT__TYPE_Q4_K || candidates[t] == KT__TYPE_Q4_0))
            found = t;
    return found;
}

static kt_status make_stand_in(const auto_matrix *m, stand_in *s, kt_error *err) {
    kt__type type = candidates[probe_of(m)];
    const kt__encoding how = {.importance = m->importance, .effort = KT__EFFORT_FAST};
    size_t from = kt__type_row_bytes(m->source, m->n_cols),
           to = kt__type_row_bytes(type, m->n_cols);
    float *x = kt__calloc((size_t)m->n_cols, sizeof *x);
    *s = (stand_in){m->tensor->data, m->tensor->data + m->tensor->size, from,
                    kt__malloc(to * (size_t)m->n_rows), type};
    if (!x || !s->data) {
        kt__free(x);
        return kt__fail_nomem(err, "a matrix", to * (size_t)m->n_rows);
    }
    for (int64_t r = 0; r < m->n_rows; r++) {
        kt__dequantize_row(m->source, m->tensor->data + (size_t)r * from, m->n_cols, x);
        kt__quantize_row_by(type, &how, x, m->n_cols, s->data + (size_t)r * to);
    }
    kt__free(x);
    return KT_OK;
}

/* The network of the session's own model is ours to change while nothing runs. */
static kt_status judge_group(auto_plan *p, int group, double *kl, kt_error *err) {
    kt__net *net = p->session.model->net;
    kt__layer *layers = kt__malloc((size_t)net->hp.n_layer * sizeof *layers);
    stand_in *ins = kt__calloc(p->n, sizeof *ins);
    kt__quality quality = {0};
    kt__quality_figures figures;
    kt__text_score_cost cost;
    kt_status status = layers && ins ? KT_OK : kt__fail_nomem(err, "a group of matrices", 0);
    const kt__weight embed = net->embed, head = net->head;
    size_t bytes = (size_t)net->hp.n_layer * sizeof *layers;
    if (status == KT_OK) memcpy(layers, net->layers, bytes);
    for (size_t i = 0; i < p->n && status == KT_OK; i++) {
        if (p->matrices[i].group != group) continue;
        status = make_stand_in(&p->matrices[i], &ins[i], err);
        if (status == KT_OK) put_in_net(&ins[i], net);
    }
    if (status == KT_OK) status = kt__text_score_run(&p->score, &p->session, &quality, &cost, err);
    if (status == KT_OK) {
        kt__quality_figures_of(&quality, &figures);
        *kl = figures.kl;
    }
    if (layers) memcpy(net->layers, layers, bytes);
    net->embed = embed;
    net->head = head;
    for (size_t i = 0; ins && i < p->n; i++) kt__free(ins[i].data);
    kt__free(ins);
    kt__free(layers);
    kt__quality_free(&quality);
    return status;
}

static kt_status judge_groups(auto_plan *p, kt_error *err) {
    bool shown = !p->opts->quiet && kt__fd_is_terminal(KT__STDERR);
    kt_status status = KT_OK;
    for (int g = 0; g < GROUPS && status == KT_OK; g++) {
        double kl = 0, errors = 0;
        if (!p->groups[g].n) continue;
        if (shown) fprintf(stderr, "\rkentang quantize: measuring group %d of %d ", g + 1, GROUPS);
        status = judge_group(p, g, &kl, err);
        for (size_t i = 0; i < p->n; i++)
            if (p->matrices[i].group == g)
                errors += p->matrices[i].error[probe_of(&p->matrices[i])];
        p->groups[g].kl_per_error = errors > 0 ? kl / errors : 0;
    }
    if (shown) fputc('\n', stderr);
    return status;
}

/* ---- the choice ---- */

static double matrix_kl(const auto_plan *p, size_t i, int type) {
    const auto_matrix *m = &p->matrices[i];
    return p->groups[m->group].kl_per_error * m->error[type];
}

static uint64_t matrix_bytes(const auto_matrix *m, int type) {
    return (uint64_t)m->n_rows * kt__type_row_bytes(candidates[type], m->n_cols);
}

/* The step up of matrix i that takes off most for its bytes: the type, or -1. */
static int best_step(const auto_plan *p, size_t i, double *rate) {
    int best = -1;
    *rate = 0;
    for (int t = 0; t < TYPES; t++) {
        if (p->matrices[i].error[t] < 0) continue;
        double gain = matrix_kl(p, i, p->chosen[i]) - matrix_kl(p, i, t);
        double cost = (double)matrix_bytes(&p->matrices[i], t) -
                      (double)matrix_bytes(&p->matrices[i], p->chosen[i]);
        if (cost <= 0 || gain / cost <= *rate) continue;
        *rate = gain / cost;
        best = t;
    }
    return best;
}

static uint64_t bytes_of_choice(const auto_plan *p, double *kl) {
    const kt__gguf *g = p->session.model->gguf;
    uint64_t bytes = kt__gguf_file_bytes(g);
    *kl = 0;
    for (size_t i = 0; i < p->n; i++) {
        bytes += matrix_bytes(&p->matrices[i], p->chosen[i]) - p->matrices[i].tensor->size;
        *kl += matrix_kl(p, i, p->chosen[i]);
    }
    return bytes;
}

/* Up from the smallest types, the best step first, as long as the size allows or the divergence
 * asks. */
static kt_status choose_types(auto_plan *p, double *kl, kt_error *err) {
    for (size_t i = 0; i < p->n; i++)
        while (p->matrices[i].error[p->chosen[i]] < 0) p->chosen[i]++;
    uint64_t most = p->opts->target_bytes, bytes = bytes_of_choice(p, kl);
    if (most && bytes > most)
        return kt__fail(err, KT_E_LIMIT, "the smallest types give %.1f MiB, more than %.1f MiB",
                        (double)bytes / (1 << 20), (double)most / (1 << 20));
    bool *left = kt__calloc(p->n + 1, sizeof *left);
    if (!left) return kt__fail_nomem(err, "a choice", p->n);
    for (size_t i = 0; i < p->n; i++) left[i] = true;
    while (most || *kl > p->opts->target_kl) {
        double rate, top = 0;
        size_t at = p->n;
        for (size_t i = 0; i < p->n; i++)
            if (left[i] && best_step(p, i, &rate) >= 0 && rate > top) at = i, top = rate;
        if (at == p->n) break;
        int before = p->chosen[at];
        p->chosen[at] = best_step(p, at, &rate);
        bytes = bytes_of_choice(p, kl);
        if (!most || bytes <= most) continue;
        p->chosen[at] = before;
        left[at] = false;
        (void)bytes_of_choice(p, kl);
    }
    kt__free(left);
    return KT_OK;
}

/* ---- rules ---- */

static const kt__recipe *recipe_of(const auto_plan *p) {
    uint64_t weights[KT__TYPE_COUNT] = {0};
    kt__type most = KT__TYPE_F16;
    for (size_t i = 0; i < p->n; i++) {
        kt__type type = candidates[p->chosen[i]];
        weights[type] += p->matrices[i].tensor->n_elem;
        if (weights[type] > weights[most]) most = type;
    }
    for (size_t i = 0; i < kt__recipe_count(); i++)
        if (kt__recipe_at(i)->base == most) return kt__recipe_at(i);
    return kt__recipe_find("f16");
}

static kt_status write_rules(const auto_plan *p, kt__auto_recipe *out, kt_error *err) {
    out->rules = kt__calloc(p->n + 1, sizeof *out->rules);
    if (!out->rules) return kt__fail_nomem(err, "rules", p->n);
    for (size_t i = 0; i < p->n; i++) {
        const char *name = kt__strndup(p->matrices[i].tensor->name.s,
                                       p->matrices[i].tensor->name.len);
        if (!name) return kt__fail_nomem(err, "rules", p->n);
        out->rules[out->n_rules++] = (kt__type_rule){name, candidates[p->chosen[i]]};
    }
    out->recipe = recipe_of(p);
    return KT_OK;
}

void kt__auto_recipe_free(kt__auto_recipe *r) {
    for (size_t i = 0; i < r->n_rules; i++) kt__free((void *)(uintptr_t)r->rules[i].pattern);
    kt__free(r->rules);
    *r = (kt__auto_recipe){0};
}

/* ---- all ---- */

static kt_status open_plan(auto_plan *p, kt_error *err) {
    kt__session_opts opts = {0};
    kt_status status;
    KT__TRY(kt__config_create(&opts.config, err));
    p->score = (kt__text_score){.n_ctx = 512, .n_chunk_max = TEXT_TOKENS / 512, .base = &p->base};
    opts.config->model = p->opts->model;
    opts.config->exact = true;
    opts.config->threads = p->opts->n_threads;
    opts.config->ctx = kt__text_score_ctx(&p->score);
    KT__TRY(kt__session_open(&opts, &p->session, err));
    KT__TRY(kt__session_open(&opts, &p->base, err));
    KT__TRY(kt__calibration_ids(p->session.model, p->opts->text, p->opts->parse_special,
                                TEXT_TOKENS, &p->ids, &p->score.n_tokens, err));
    p->score.tokens = p->ids;
    if (!kt__text_score_chunks(&p->score))
        status = kt__fail(err, KT_E_ARG, "the text is %zu tokens, not one chunk of %d",
                          p->score.n_tokens, kt__text_score_ctx(&p->score));
out:
    kt__config_free(opts.config);
    return status;
}

kt_status kt__auto_recipe_make(const kt__auto_opts *opts, kt__auto_recipe *out, kt_error *err) {
    auto_plan p = {.opts = opts};
    kt_status status;
    *out = (kt__auto_recipe){0};
    KT__TRY(open_plan(&p, err));
    KT__TRY(list_matrices(&p, err));
    KT__TRY(judge_groups(&p, err));
    KT__TRY(choose_types(&p, &out->kl, err));
    KT__TRY(write_rules(&p, out, err));
out:
    kt__free(p.ids);
    kt__free(p.matrices);
    kt__free(p.chosen);
    if (p.base.ctx) kt__session_close(&p.base);
    if (p.session.ctx) kt__session_close(&p.session);
    return status;
}
