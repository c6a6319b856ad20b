/*
 * net: the demo model's network, forward and backward, in f32 over CBLAS.
 *
 * Owns: the parameter layout, the activations of one micro-batch, and the two passes.
 * Does not own: data, the optimiser, files, threads. OpenBLAS must be held at one thread.
 * Threads: everything here is re-entrant; one net_work serves one thread at a time.
 *
 * The architecture is GGUF's `llama`: RMSNorm, rotary positions on adjacent pairs ("norm"
 * convention), grouped-query attention without biases, SwiGLU, tied embeddings.
 */
#ifndef DEMO_NET_H
#define DEMO_NET_H

#include <stddef.h>
#include <stdint.h>

enum { NET_MAX_LAYER = 16 };

typedef struct {
    int32_t n_vocab, n_embd, n_layer, n_head, n_head_kv, n_ff, n_ctx;
    float rope_base, rms_eps;
} net_dims;

/* Offsets, in floats, into one flat parameter (or gradient) array. Matrices are [out][in]. */
typedef struct {
    size_t attn_norm; /* [n_embd] */
    size_t qkv;       /* [n_embd + 2*n_kv][n_embd]: q rows, then k, then v */
    size_t out;       /* [n_embd][n_embd] */
    size_t ffn_norm;  /* [n_embd] */
    size_t gate_up;   /* [2*n_ff][n_embd]: gate rows, then up */
    size_t down;      /* [n_embd][n_ff] */
} net_layer_at;

typedef struct {
    net_dims dims;
    int head_dim, n_kv, n_qkv;
    size_t embd;     /* [n_vocab][n_embd]; also the head */
    size_t out_norm; /* [n_embd] */
    net_layer_at layer[NET_MAX_LAYER];
    size_t n_param;
    float *rope; /* [n_ctx][head_dim/2][2]: cos, sin */
} net;

/* A micro-batch: whole documents laid end to end; attention never crosses a border. Positions grow
 * within a document, and may leave some out. */
typedef struct {
    int n_tok, n_doc;
    int *doc_start;  /* [n_doc + 1] */
    uint16_t *token; /* [n_tok] */
    int32_t *pos;    /* [n_tok], below n_ctx */
    int32_t *target; /* [n_tok], -1 where there is nothing to predict */
    float *weight;   /* [n_tok], the loss weight of each target */
    float *ce;       /* [n_tok], out: cross entropy in nats */
    int32_t *best;   /* [n_tok], out: the most likely token */
} net_batch;

typedef struct net_work net_work;

int net_init(net *n, net_dims dims); /* 0, or -1 when memory is short */
void net_free(net *n);
void net_seed(const net *n, float *w, uint64_t seed); /* fills w[n_param] */

net_work *net_work_new(const net *n, int max_tok);
void net_work_free(net_work *k);

/* Fills b->ce and b->best; leaves everything backward needs in k. */
void net_forward(const net *n, const float *w, net_batch *b, net_work *k);
/* Gradient of sum(weight*ce)*scale, written (not added) to g[n_param]; after net_forward. */
void net_backward(const net *n, const float *w, const net_batch *b, net_work *k, float scale,
                  float *g);
/* The logits net_forward left: [n_tok][n_vocab]. Valid until net_backward. */
const float *net_logits(const net_work *k);

#endif
