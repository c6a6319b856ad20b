/* BitNet's matrices, and the factor of each in a tensor of its own: attn_q.scale of attn_q.weight. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "convert/plan_parts.h"
#include "convert/prequantised.h"
#include "convert/ternary.h"

bool kt__plan_is_ternary(const planner *p, const map_row *row) {
    return p->config->arch & KT__HF_BITNETS && row->rows != DIM_ONE &&
           strncmp(row->to, "blk.", 4) == 0;
}

/* U8 with the weights of four rows in one, and the number that they are times or divided by. */
static kt_status find_packed(const planner *p, const kt__st_tensor *source, const kt__shard *shard,
                             kt__planned *t, kt__planned *scale) {
    char name[MAX_NAME];
    const kt__st_tensor *factor;
    const kt__shard *in;
    kt_status status;
    if (strcmp(source->dtype, "U8") != 0 || t->n_rows % 4 != 0)
        return kt__fail_at(p->err, KT_E_FORMAT, shard->path, source->begin,
                           "tensor '%.100s' is of type %s; U8 with four rows in one is expected",
                           source->name, source->dtype);
    KT__TRY(kt__plan_check_shape(p, source, shard, t->n_rows / 4, t->n_cols, false));
    snprintf(name, sizeof name, "%.*s_scale", MAX_NAME - 8, source->name);
    factor = kt__folder_find(p->folder, name, &in);
    if (!factor)
        return kt__fail_at(p->err, KT_E_FORMAT, shard->path, source->begin,
                           "tensor '%.100s' is missing", name);
    KT__TRY(kt__plan_check_dtype(p, factor, in));
    KT__TRY(kt__plan_check_shape(p, factor, in, 1, 1, true));
    const kt__weight_source at = kt__plan_source_of(factor, in);
    uint32_t raw;
    KT__TRY(kt__weight_read(&at, 0, &raw, kt__type_row_bytes(factor->type, 1), p->err));
    kt__dequantize_row(factor->type, &raw, 1, &scale->factor);
    if (!(scale->factor > 1e-20f && scale->factor < 1e20f))
        return kt__fail_at(p->err, KT_E_NUMERIC, in->path, factor->begin,
                           "tensor '%.100s' is %g, and no weights are times that", name,
                           (double)scale->factor);
    if (!kt__prequantised_bitnet_multiplies(p->config->text)) scale->factor = 1.0f / scale->factor;
    scale->source.name = factor->name;
    t->change = KT__CHANGE_PACKED;
    t->source = kt__plan_source_of(source, shard);
    t->source.type = KT__TYPE_F32; /* once it is unpacked */
out:
    return status;
}

static kt_status find_floats(const planner *p, const kt__st_tensor *source, const kt__shard *shard,
                             kt__planned *t, kt__planned *scale) {
    kt_status status;
    KT__TRY(kt__plan_check_dtype(p, source, shard));
    KT__TRY(kt__plan_check_shape(p, source, shard, t->n_rows, t->n_cols, false));
    t->change = KT__CHANGE_TERNARY;
    t->source = kt__plan_source_of(source, shard);
    KT__TRY(kt__ternary_mean(&t->source, t->n_rows * t->n_cols, &t->factor, p->err));
    scale->factor = t->factor;
out:
    return status;
}

kt_status kt__plan_add_ternary(planner *p, const map_row *row, int64_t layer) {
    char from[MAX_NAME];
    const kt__st_tensor *source;
    const kt__shard *shard;
    kt_status status;
    kt__planned t = {.n_dims = 2,
                     .n_rows = kt__plan_dim_of(p, row->rows),
                     .n_cols = kt__plan_dim_of(p, row->cols)};
    kt__planned scale = {
        .n_dims = 1, .n_rows = 1, .n_cols = 1, .type = KT__TYPE_F32, .source = {.fd = -1}};
    kt__plan_source_name(p->config, row->from, layer, from, sizeof from);
    kt__plan_with_layer(row->to, layer, t.name, sizeof t.name);
    snprintf(scale.name, sizeof scale.name, "%.*s.scale", (int)(strlen(t.name) - strlen(".weight")),
             t.name);
    KT__TRY(kt__plan_find_source(p, from, &source, &shard));
    if (!source)
        return kt__fail_at(p->err, KT_E_FORMAT, p->folder->shards[0].path, UINT64_MAX,
                           "tensor '%s' is missing", from);
    if (kt__prequantised_bitnet_packed(p->config->text))
        KT__TRY(find_packed(p, source, shard, &t, &scale));
    else
        KT__TRY(find_floats(p, source, shard, &t, &scale));
    t.type = kt__plan_type_of(p, &t);
    KT__TRY(kt__weight_plan_add(p->plan, &t, p->err));
    KT__TRY(kt__weight_plan_add(p->plan, &scale, p->err));
out:
    return status;
}
