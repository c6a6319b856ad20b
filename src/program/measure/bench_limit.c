/* What a test costs at least: the bytes and the multiply-adds after a row's share of the limit. */
#include <math.h>
#include <stdio.h>

#include "context/model.h"
#include "context/types.h"
#include "measure/bench.h"

void kt__bench_test_name(const kt__bench_test *test, char *out, size_t size) {
    char depth[24] = "", streams[24] = "";
    if (test->n_depth) snprintf(depth, sizeof depth, "@d%d", test->n_depth);
    if (test->n_streams > 1) snprintf(streams, sizeof streams, "x%d", test->n_streams);
    if (test->n_prompt) {
        snprintf(out, size, "pp%d%s%s", test->n_prompt, depth, streams);
    } else {
        snprintf(out, size, "tg%d%s%s", test->n_gen, depth, streams);
    }
}

/* Multiply-adds of one row of activations, by the arithmetic that the weights' type uses. */
typedef struct macs {
    double integer, floating;
} macs;

static void count_macs(macs *sum, const kt__weight *w) {
    if (!w->data) return;
    double n = (double)w->n_row * (double)w->n_col;
    if (kt__type_get(w->type)->act == KT__ACT_F32) {
        sum->floating += n;
    } else {
        sum->integer += n;
    }
}

static macs layer_macs(const kt__net *net) {
    macs sum = {0};
    for (int i = 0; i < net->hp.n_layer; i++) {
        const kt__layer *layer = &net->layers[i];
        const kt__weight *parts[] = {
            &layer->wq,   &layer->wk, &layer->wv,   &layer->t[KT__SLOT_ATTN_OUT].w,
            &layer->gate, &layer->up, &layer->down, &layer->t[KT__SLOT_ROUTER].w};
        const kt__weight *of_experts[] = {&layer->gate_exps.w, &layer->up_exps.w,
                                          &layer->down_exps.w};
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) count_macs(&sum, parts[p]);
        for (int used = 0; used < net->hp.n_expert_used; used++)
            for (int p = 0; p < 3; p++) count_macs(&sum, of_experts[p]);
    }
    return sum;
}

/* Bytes of weights that a batch of n rows reads: of experts, those that some row chooses. Where
 * choices are spread evenly, a row leaves a share of 1 - used / all of them out. */
static double weight_bytes(const kt__net *net, double n) {
    const kt__hparams *hp = &net->hp;
    if (hp->n_expert == 0) return (double)net->decode_bytes;
    double used = (double)hp->n_expert_used / hp->n_expert, left_out = pow(1.0 - used, n);
    double experts = (double)net->expert_bytes;
    return (double)net->decode_bytes + experts * (1.0 - left_out - used);
}

/* K/V bytes that the attention of one token at `pos` reads. */
static double kv_bytes(const kt_model *model, const kt_engine_info *engine, int pos) {
    const kt__net *net = model->net;
    kt_engine_params params = {.kv_keys = engine->kv_keys, .kv_values = engine->kv_values};
    kt__kv_shape shape = kt__engine_kv_shape(model, &params);
    double of_layer = (double)kt__kv_page_bytes(&shape) / KT__PAGE_POS / shape.n_layer, sum = 0;
    for (int i = 0; i < net->hp.n_layer; i++) {
        double visible = pos + 1;
        if (net->layers[i].local && visible > (double)net->hp.window)
            visible = (double)net->hp.window;
        sum += visible * of_layer;
    }
    return sum;
}

typedef struct cost {
    double bytes, i8_macs;
    bool float_bound; /* most of the work is not integer: its peak says nothing */
} cost;

static cost prefill_cost(const kt_model *model, int n_ubatch, const kt__bench_test *test) {
    const kt__net *net = model->net;
    macs layers = layer_macs(net), head = {0};
    count_macs(&head, &net->head);
    double passes = (test->n_prompt + n_ubatch - 1) / n_ubatch; /* whole ones */
    return (cost){
        .bytes = passes * weight_bytes(net, test->n_prompt / passes),
        .i8_macs = test->n_prompt * layers.integer + head.integer,
        .float_bound = layers.floating > layers.integer,
    };
}

static cost decode_cost(const kt_model *model, const kt_engine_info *engine,
                        const kt__bench_test *test) {
    const kt__net *net = model->net;
    macs all = layer_macs(net);
    count_macs(&all, &net->head);
    double kv = 0;
    for (int i = 0; i < test->n_gen; i++) kv += kv_bytes(model, engine, test->n_depth + i);
    return (cost){
        .bytes = test->n_gen * weight_bytes(net, test->n_streams) + test->n_streams * kv,
        .i8_macs = (double)test->n_gen * test->n_streams * all.integer,
    };
}

void kt__bench_set_limit(const kt_model *model, const kt_engine_info *engine, kt__bench_row *row) {
    const kt__bench_test *test = &row->test;
    const kt__bench_limits *l = &row->limits;
    row->limit_tok_s = 0;
    row->bound = NULL;
    cost c = test->n_prompt ? prefill_cost(model, engine->n_ubatch, test)
                            : decode_cost(model, engine, test);
    if (c.float_bound || l->read_bytes_per_s <= 0 || l->i8_mac_per_s <= 0) return;
    double read_s = c.bytes / l->read_bytes_per_s, mac_s = c.i8_macs / l->i8_mac_per_s;
    if (model->net->decode_bytes < l->cache_bytes) read_s = 0;
    double n_tok = test->n_prompt ? test->n_prompt : (double)test->n_gen * test->n_streams;
    row->bound = read_s > mac_s ? "memory" : "compute";
    row->limit_tok_s = n_tok / (read_s > mac_s ? read_s : mac_s);
}
