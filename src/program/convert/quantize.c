#include "convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/system.h"
#include "convert/planned.h"
#include "host/filemap.h"

typedef struct requantizer {
    const kt__quantize_params *params;
    const kt__convert_output *output;
    kt__gguf *gguf;
    char arch[64];
    kt__recipe_model model;
    kt__weight_plan plan;
    kt_error *err;
} requantizer;

/* ---- the source ---- */

/* An integer key of the architecture; otherwise: where it is absent or not a single number. */
static int read_fact(const requantizer *q, const char *suffix, int otherwise) {
    char key[128];
    uint32_t value = 0;
    kt_error ignored;
    snprintf(key, sizeof key, "%s.%s", q->arch, suffix);
    if (kt__gguf_get_u32(q->gguf, key, false, &value, &ignored) != KT_OK) value = 0;
    return value >= 1 && value <= 1 << 20 ? (int)value : otherwise;
}

/* Without the blocks that propose tokens, so that they change no layer's type. */
static int n_layers(const requantizer *q) {
    int n = read_fact(q, "block_count", 1), more = read_fact(q, "nextn_predict_layers", 0);
    return more < n ? n - more : n;
}

static kt_status open_source(requantizer *q) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__str arch = {"", 0};
    KT__STEP(kt__gguf_open(q->params->source, &params, &q->gguf, q->err));
    KT__STEP(kt__gguf_get_str(q->gguf, "general.architecture", true, &arch, q->err));
    snprintf(q->arch, sizeof q->arch, "%.*s", (int)(arch.len < 60 ? arch.len : 60), arch.s);
    q->model = (kt__recipe_model){n_layers(q), read_fact(q, "attention.head_count", 1),
                                  read_fact(q, "attention.head_count_kv", 1),
                                  !kt__gguf_find_tensor(q->gguf, "output.weight")};
    if (q->model.n_head_kv > q->model.n_head) q->model.n_head_kv = q->model.n_head;
    return KT_OK;
}

/* The output may not be a part of what is read. */
static kt_status check_output(const requantizer *q) {
    kt__file_info out, in;
    if (!kt__file_look(q->output->target, &out)) return KT_OK;
    for (int i = 0; i < kt__gguf_n_parts(q->gguf); i++) {
        const uint8_t *data;
        uint64_t size;
        const kt__filemap *map = kt__gguf_part_bytes(q->gguf, i, &data, &size);
        if (map && kt__fd_look(map->fd, &in) && in.device == out.device && in.number == out.number)
            return kt__fail_at(q->err, KT_E_ARG, q->output->target, UINT64_MAX,
                               "the output is the file that is read");
    }
    return KT_OK;
}

/* ---- types ---- */

static const kt__type_rule *find_rule(const requantizer *q, const char *name) {
    const kt__type_rule *found = NULL;
    for (size_t i = 0; i < q->params->n_rules; i++)
        if (kt__pattern_matches(q->params->rules[i].pattern, name)) found = &q->params->rules[i];
    return found;
}

/* A matrix whose role is not known, and everything that is no matrix, stays as it is. */
static kt_status choose_type(const requantizer *q, const kt__recipe *recipe, kt__planned *t) {
    int layer;
    kt__tensor_role role = kt__tensor_role_of(t->name, &layer);
    const kt__type_rule *rule = find_rule(q, t->name);
    t->type = t->source.type;
    if (rule) {
        int block = kt__type_get(rule->type)->block_elems;
        if (t->n_cols % block != 0)
            return kt__fail_at(q->err, KT_E_ARG, t->name, UINT64_MAX,
                               "rows of %" PRId64 " weights cannot be %s, whose blocks have %d",
                               t->n_cols, kt__type_get(rule->type)->name, block);
        t->type = rule->type;
    } else if (t->n_dims > 1 && role != KT__TENSOR_VECTOR) {
        t->type = kt__recipe_type(recipe, &q->model, role, layer, t->n_cols);
    }
    return KT_OK;
}

/* What is measured of the matrix, if it is to be quantised. */
static kt_status give_importance(const requantizer *q, kt__planned *t) {
    const kt__imatrix_entry *e = NULL;
    if (q->params->importance && kt__type_get(t->type)->block_elems > 1)
        e = kt__imatrix_find(q->params->importance, t->name);
    if (!e) return KT_OK;
    if (e->n_cols != t->n_cols)
        return kt__fail_at(q->err, KT_E_ARG, t->name, UINT64_MAX,
                           "has %" PRId64 " columns, and %" PRId64
                           " in the importance matrix: it is of another model",
                           t->n_cols, e->n_cols);
    t->importance = e->sum2;
    return KT_OK;
}

static kt_status plan_tensor(const requantizer *q, const kt__gguf_tensor *t,
                             const kt__recipe *recipe, kt__weight_plan *plan) {
    const uint8_t *data;
    uint64_t size;
    const kt__filemap *map = kt__gguf_part_bytes(q->gguf, t->part, &data, &size);
    kt__type type = kt__type_from_ggml(t->type);
    if (type == KT__TYPE_COUNT)
        return kt__fail_at(q->err, KT_E_UNSUPPORTED, q->params->source, t->file_offset,
                           "tensor '%.100s' is of type %s, which cannot be read", t->name.s,
                           kt__gguf_tensor_type_name(t->type));
    kt__planned p = {
        .n_dims = t->n_dims,
        .n_cols = (int64_t)t->ne[0],
        .n_rows = (int64_t)(t->n_elem / t->ne[0]),
        .source = {q->params->source, t->name.s, map->fd, (uint64_t)(t->data - data), type}};
    memcpy(p.ne, t->ne, sizeof p.ne);
    snprintf(p.name, sizeof p.name, "%s", t->name.s);
    const kt__row_change *change = q->params->change;
    if (change && change->has(change->user, p.name)) p.row_change = change;
    kt_status status = choose_type(q, recipe, &p);
    if (status == KT_OK) status = give_importance(q, &p);
    return status == KT_OK ? kt__weight_plan_add(plan, &p, q->err) : status;
}

static kt_status plan_recipe(const requantizer *q, const kt__recipe *recipe,
                             kt__weight_plan *plan) {
    kt_status status = KT_OK;
    *plan = (kt__weight_plan){.recipe = recipe};
    for (size_t i = 0; i < kt__gguf_n_tensors(q->gguf) && status == KT_OK; i++)
        status = plan_tensor(q, kt__gguf_tensor_at(q->gguf, i), recipe, plan);
    return status;
}

/* ---- the best recipe for a size ---- */

static const char *const by_quality[] = {"bf16",   "q8_0",   "q6_k",   "q5_k_m", "q5_k_s", "q4_k_m",
                                         "q4_k_s", "iq4_xs", "q3_k_l", "q3_k_m", "q3_k_s", "q2_k"};

/* Bytes of the source that are not weights: the new file has about as many. */
static uint64_t bytes_beside_weights(const kt__gguf *gguf) {
    uint64_t weights = 0;
    for (size_t i = 0; i < kt__gguf_n_tensors(gguf); i++)
        weights += kt__gguf_tensor_at(gguf, i)->size;
    return kt__gguf_file_bytes(gguf) - weights;
}

static kt_status plan_for_size(requantizer *q) {
    uint64_t beside = bytes_beside_weights(q->gguf), bytes = 0;
    for (size_t i = 0; i < sizeof by_quality / sizeof *by_quality; i++) {
        kt__weight_plan_free(&q->plan);
        kt_status status = plan_recipe(q, kt__recipe_find(by_quality[i]), &q->plan);
        if (status != KT_OK) return status;
        bytes = q->plan.data_bytes + beside;
        if (bytes <= q->params->target_bytes) return KT_OK;
    }
    return kt__fail_at(
        q->err, KT_E_LIMIT, q->params->source, UINT64_MAX,
        "no recipe makes it as small as %.1f MiB; the smallest, q2_k, gives %.1f MiB",
        (double)q->params->target_bytes / (1 << 20), (double)bytes / (1 << 20));
}

/* ---- the file ---- */

static bool key_is(kt__str key, const char *name) {
    return key.len == strlen(name) && memcmp(key.s, name, key.len) == 0;
}

/* All keys in their order; the recipe's number takes the place of the old one. */
static void put_metadata(const requantizer *q, kt__gguf_writer *w) {
    bool named = false;
    for (size_t i = 0; i < kt__gguf_n_kv(q->gguf); i++) {
        const kt__gguf_kv *kv = kt__gguf_kv_at(q->gguf, i);
        bool is_type = key_is(kv->key, "general.file_type");
        if (is_type) kt__gguf_put_u32(w, "general.file_type", q->plan.recipe->file_type);
        named = named || is_type;
        if (is_type || (kv->key.len > 6 && memcmp(kv->key.s, "split.", 6) == 0)) continue;
        kt__gguf_put_kv(w, kv);
    }
    if (!named) kt__gguf_put_u32(w, "general.file_type", q->plan.recipe->file_type);
    if (!kt__gguf_find(q->gguf, "general.quantization_version"))
        kt__gguf_put_u32(w, "general.quantization_version", 2);
}

static void note_source(const requantizer *q) {
    for (size_t i = 0; i < q->plan.n; i++) {
        const kt__planned *t = &q->plan.tensors[i];
        if (kt__type_get(t->source.type)->block_elems == 1 || t->type == t->source.type) continue;
        kt__convert_note(&q->output->notes,
                         "the source is quantised already (%s is %s): what it has lost stays lost",
                         t->name, kt__type_get(t->source.type)->name);
        return;
    }
}

static kt_status add_source_facts(const requantizer *q, kt__hash *hash) {
    for (int i = 0; i < kt__gguf_n_parts(q->gguf); i++) {
        const uint8_t *data;
        uint64_t size;
        kt__file_info st;
        const kt__filemap *map = kt__gguf_part_bytes(q->gguf, i, &data, &size);
        if (!map || map->fd < 0 || !kt__fd_look(map->fd, &st))
            return kt__fail_at(q->err, KT_E_IO, q->params->source, UINT64_MAX, "cannot be read");
        const uint64_t facts[] = {size, (uint64_t)st.changed_s, (uint64_t)st.changed_ns, st.device,
                                  st.number};
        kt__hash_add(hash, facts, sizeof facts);
    }
    if (q->params->change) {
        kt__digest identity = kt__hash_end(&q->params->change->identity);
        kt__hash_add(hash, &identity, sizeof identity);
    }
    return KT_OK;
}

/* What was measured is part of what the output is; NULL bytes of a tensor without it, too. */
static kt_status add_importance(const requantizer *q, kt__hash *hash) {
    size_t n = 0;
    for (size_t i = 0; i < q->plan.n; i++) {
        const kt__planned *t = &q->plan.tensors[i];
        if (!t->importance) continue;
        kt__hash_add(hash, t->name, strlen(t->name));
        kt__hash_add(hash, t->importance, (size_t)t->n_cols * sizeof *t->importance);
        n++;
    }
    if (n || !q->params->importance) return KT_OK;
    return kt__fail(q->err, KT_E_ARG,
                    "the importance matrix has nothing of a matrix that is quantised: it is of "
                    "another model, or nothing is quantised");
}

static kt_status write_output(requantizer *q, kt__convert_report *report) {
    kt__gguf_writer *w;
    kt__hash sources;
    kt__hash_init(&sources, KT__CONVERT_SEED);
    KT__STEP(add_source_facts(q, &sources));
    KT__STEP(add_importance(q, &sources));
    KT__STEP(kt__gguf_writer_open_memory(&w, q->err));
    put_metadata(q, w);
    return kt__convert_write(q->output, &q->plan, w, &sources, report, q->err);
}

kt_status kt__quantize_file(const kt__quantize_params *params, const kt__convert_output *output,
                            kt__convert_report *report, kt_error *err) {
    requantizer q = {.params = params, .output = output, .err = err};
    kt_status status;
    *report = (kt__convert_report){.recipe = ""};
    KT__TRY(open_source(&q));
    KT__TRY(check_output(&q));
    if (params->recipe)
        KT__TRY(plan_recipe(&q, params->recipe, &q.plan));
    else
        KT__TRY(plan_for_size(&q));
    note_source(&q);
    KT__TRY(write_output(&q, report));
    snprintf(report->arch, sizeof report->arch, "%s", q.arch);
out:
    kt__weight_plan_free(&q.plan);
    kt__gguf_close(q.gguf);
    return status;
}

kt_status kt__quantize_bytes(const char *source, const kt__recipe *recipe, uint64_t *bytes,
                             kt_error *err) {
    const kt__quantize_params params = {.source = source, .recipe = recipe};
    requantizer q = {.params = &params, .err = err};
    kt_status status;
    KT__TRY(open_source(&q));
    KT__TRY(plan_recipe(&q, recipe, &q.plan));
    *bytes = q.plan.data_bytes + bytes_beside_weights(q.gguf);
out:
    kt__weight_plan_free(&q.plan);
    kt__gguf_close(q.gguf);
    return status;
}
