/* Tensor operations on a device.
 *
 * Owns: the one table that the forward pass calls, and its CPU implementation: kernels over a
 * thread pool, split by output element. Does not know architectures. One caller at a time (the
 * engine's step holds the pool's lock). Nothing allocates. The bytes that come out do not depend on
 * the number of threads, on how rows are grouped into calls, nor on the kernel tier; a device with
 * blas is the marked exception. */
#ifndef KT_OPS_OPS_H
#define KT_OPS_OPS_H

#include "host/pool.h"
#include "kernels/kernels.h"
#include "kv/kv.h"
#include "ops/blas.h"
#include "ops/low_rank.h"
#include "ops/split.h"

/* A matrix in the file's own block layout. */
typedef struct kt__weight {
    const uint8_t *data; /* NULL: absent */
    kt__type type;
    int n_row, n_col; /* [n_row][n_col] */
    size_t row_bytes;
} kt__weight;

static inline kt__weight kt__weight_rows(const kt__weight *w, int first, int count) {
    kt__weight part = *w;
    part.data += (size_t)first * w->row_bytes;
    part.n_row = count;
    return part;
}

/* Activation rows in every kind that the consumers of one input need. */
typedef struct kt__acts {
    int n_tok, n_col;
    unsigned kinds; /* bits 1 << kt__act_kind that are filled */
    kt__act_layout layout[KT__ACT_COUNT];
    uint8_t *data[KT__ACT_COUNT]; /* [n_tok][layout.row_bytes]; capacity is the owner's business */
    kt__tiles tiles; /* of data[KT__ACT_Q256], while an operation runs that made them; or none */
} kt__acts;

/* The n rows from row0 on; with tiles where a group begins there. */
static inline kt__acts kt__acts_rows(const kt__acts *acts, int row0, int n) {
    kt__acts rows = *acts;
    rows.n_tok = n;
    for (int kind = 0; kind < KT__ACT_COUNT; kind++)
        if (acts->kinds >> kind & 1) rows.data[kind] += (size_t)row0 * acts->layout[kind].row_bytes;
    if (row0 % KT__TILE_TOKENS) rows.tiles.act = NULL;
    if (rows.tiles.act) rows.tiles.act += row0 / KT__TILE_TOKENS;
    return rows;
}

/* Where the state after the segment's first n_tok rows is written. */
typedef struct kt__seg_state {
    int n_tok;
    int32_t piece; /* of kv/kv.h */
} kt__seg_state;

/* Positions [from, to) that see each other, whichever comes first: those of a picture. */
typedef struct kt__span {
    int64_t from, to;
} kt__span;

/* Positions [from, to) of a picture, line by line of n_x. Where rotations have several axes, all of them are
 * at `at` on the first, and on the others from it on, down and across; what comes after is at `next`
 * on each. */
typedef struct kt__grid {
    int64_t from, to, at, next;
    int n_x;
} kt__grid;

/* Rows of one sequence in a batch: n_tok consecutive positions from pos0, at rows row0.. of the
 * batch. */
typedef struct kt__seg {
    const kt__kv_table *table;
    int64_t pos0;
    int row0, n_tok;
    int32_t pair_from; /* encoders: from this position on the second text of a pair; 0: one text */
    /* recurrent layers begin with the table's state, which is that at pos0 */
    const kt__seg_state *states; /* [n_states] ascending; what is after the last one is lost */
    int n_states;
    const kt__span *spans; /* [n_span] ascending; the segment ends within none of them */
    int n_span;
    int64_t
        sees_from; /* no query sees a position before it; 0: they see what the layer lets them */
    const kt__grid *grids; /* [n_grid] ascending, of the sequence, also those before pos0 */
    int n_grid;
} kt__seg;

/* Query, key and value projections with everything up to the K/V write. */
typedef struct kt__qkv {
    kt__weight wq, wk, wv;
    const float *bq, *bk, *bv; /* or NULL */
    const float *q_rows,
        *k_rows;         /* [n_tok][heads * head_dim_k]: those products, made before, or NULL */
    const float *v_rows; /* [n_tok][n_head_kv * head_dim_v] in the same way */
    size_t ld_q_rows, ld_k_rows,
        ld_v_rows;                         /* floats of a token there; 0: of the heads given here */
    const float *q_norm, *k_norm, *v_norm; /* [head_dim] RMS norm of each head, or NULL */
    bool q_alone;                          /* keys and values are there, from another layer */
    bool kv_alone;                         /* nobody asks: there are no queries */
    bool v_is_k;                           /* wv is wk: what adapts keys adapts values */
    bool norm_rotated;                     /* those norms come after the rotation */
    float norm_eps;
    int n_head, n_head_kv, head_dim_k, head_dim_v;
    const float *cs; /* [n_tok][n_rot]: cosines, then sines */
    int n_rot;       /* 0: no rotation */
    bool neox;
    float q_scale;
    const float *q_row_scale; /* [n_tok] factors besides q_scale, or NULL */
    float *q_out;             /* [n_head_kv][n_tok][n_head / n_head_kv][head_dim_k] */
    uint8_t
        *q_codes; /* the same, coded, of kt__query_code_bytes each; NULL: keys are not quantised */
    const kt__kv *kv;
    int layer;
    const kt__seg *segs;
    int n_seg;
    const kt__lora_terms *lora; /* with u of this input; or NULL */
} kt__qkv;

typedef struct kt__attention {
    const kt__kv *kv;
    int layer;
    int n_head, n_head_kv, head_dim_k, head_dim_v;
    const float *q; /* as q_out above */
    const uint8_t *q_codes;
    int n_tok;
    const kt__seg *segs;
    int n_seg;
    /* A query at p sees positions above p - window, 0: all; with both_ways, those at most window /
     * 2 away, and each segment is a whole sequence; with chunks, those from the last multiple of the
     * window on; with not_own, not its own position. */
    int64_t window;
    bool both_ways, chunks, not_own;
    float softcap;
    const float *
        sinks; /* [n_head] a logit of each head besides those of keys, without a value; NULL: none */
    float *out; /* [n_tok][n_head * head_dim_v] */
} kt__attention;

/* CLAMPED: min(gate, 7) through x * sigmoid(1.702 x), times (up held to +-7) + 1 */
/* RELU2: relu(gate)^2, and GELU_ALONE: gelu(gate); there is no up */
typedef enum kt__glu_kind {
    KT__GLU_SILU,
    KT__GLU_GELU,
    KT__GLU_CLAMPED,
    KT__GLU_RELU2,
    KT__GLU_GELU_ALONE
} kt__glu_kind;
/* Up to so many tokens, whole rows are computed before they are quantised. */
enum { KT__GLU_ROWWISE = 63 };

typedef struct kt__glu {
    kt__weight gate, up;
    const float *gate_bias, *up_bias; /* or NULL */
    const float *factors;             /* [n_tok] of gate and up alike, or NULL */
    kt__glu_kind kind;
    float *rows;                /* [KT__GLU_ROWWISE][gate.n_row] of room */
    const kt__lora_terms *lora; /* with u of this input; or NULL */
} kt__glu;

/* ---- experts ---- */

enum {
    KT__MAX_EXPERTS = 1024,
    KT__EXPERT_TOKENS = 128 /* most tokens of a piece */
};

/* One matrix of every expert, of the same shape and type. */
typedef struct kt__expert_weights {
    kt__weight w;  /* of expert 0; absent without data */
    size_t stride; /* bytes from one expert's to the next one's */
    /* or each expert's own, of those that are needed; NULL: by the stride */
    const uint8_t *const *where;
    const float *bias;  /* of expert 0, or NULL */
    size_t bias_stride; /* floats */
} kt__expert_weights;

static inline kt__weight kt__expert_weight(const kt__expert_weights *all, int expert) {
    kt__weight w = all->w;
    w.data = all->where ? all->where[expert] : w.data + (size_t)expert * all->stride;
    return w;
}

static inline const float *kt__expert_bias(const kt__expert_weights *all, int expert) {
    return all->bias ? all->bias + (size_t)expert * all->bias_stride : NULL;
}

/* Tokens that one expert computes together: slots slot0.. of it. */
typedef struct kt__expert_piece {
    int expert, slot0, n_tok;
} kt__expert_piece;

/* Which experts compute which tokens of a batch. A slot is a token at one of its experts; slots lie
 * by ascending expert and, within an expert, by ascending token. */
typedef struct kt__routing {
    int n_expert, n_used; /* experts of a layer, experts of a token */
    int n_tok, n_slot, n_piece;
    int32_t *chosen; /* [n_tok][n_used], ascending */
    float *share;    /* [n_tok][n_used], what each counts */
    int32_t *first;  /* [n_expert + 1] an expert's first slot */
    int32_t *slot_tok;
    float *slot_share;
    kt__expert_piece *pieces; /* in the order of slots */
    int32_t *by_size;         /* their numbers, those with few tokens first */
} kt__routing;

/* Bytes for the arrays of at most n_tok tokens, and their places in that memory. */
size_t kt__routing_bytes(int n_tok, int n_expert, int n_used);
void kt__routing_place(kt__routing *routing, int n_tok, int n_expert, int n_used, void *memory);

/* What an expert's share is, before it is scaled. */
typedef enum kt__share_kind {
    KT__SHARES_OF_CHOSEN, /* of the softmax over the chosen */
    KT__SHARES_OF_ALL,    /* of the softmax over all */
    KT__SHARES_SIGMOID    /* of its own logit */
} kt__share_kind;

typedef struct kt__route {
    const float *logits; /* [n_tok][n_expert] */
    int n_tok;
    kt__share_kind shares;
    bool normed;            /* shares are divided by their sum */
    const float *pick_bias; /* [n_expert] added for the choice alone, or NULL */
    int n_group,
        n_group_used; /* experts are chosen from the groups whose best two are the largest */
    float scale;      /* of the shares */
    const float *expert_scale; /* [n_expert] of each expert's, or NULL */
    float *shared_gate;        /* [n_tok] in: logits, out: their sigmoid; or NULL */
} kt__route;

typedef struct kt__experts_glu {
    const kt__routing *routing;
    kt__expert_weights gate, up;
    kt__glu_kind kind;
    bool weighed; /* shares are factors of what an expert reads, */
    float *rows;  /* [KT__GLU_ROWWISE * n_used][gate.w.n_row] of room */
} kt__experts_glu;

typedef struct kt__experts_down {
    const kt__routing *routing;
    kt__expert_weights down;
    bool weighed;              /* and then not of what it makes */
    bool shared;               /* sum holds the shared expert's output */
    const float *shared_share; /* [n_tok] what that counts; NULL: 1 */
    float *sum;                /* [n_tok][down.w.n_row] of room */
    float *x;                  /* [n_tok][down.w.n_row] += sum; NULL: it stays there */
} kt__experts_down;

/* ---- recurrent layers ---- */

enum {
    KT__MAX_CONV = 16,      /* tokens that a short convolution sees */
    KT__MAX_STATE_DIM = 256 /* of a delta net's keys */
};

/* Each channel's last `width` inputs by its weights. Its part of a state: the inputs of the last
 * width - 1 tokens, [width - 1][n_ch], the oldest first; zeros before position 0. */
typedef struct kt__short_conv {
    const float *x; /* [n_tok][ld_x] */
    size_t ld_x;
    const float *w;    /* [width][n_ch] */
    const float *bias; /* [n_ch] or NULL */
    int width, n_ch;
    bool silu; /* of what comes out */
    const kt__kv *kv;
    size_t state_at; /* floats before its part of a state */
    const kt__seg *segs;
    int n_seg;
    float *out; /* [n_tok][ld_out], not x */
    size_t ld_out;
} kt__short_conv;

/* A gated delta net between its convolution and its last product. Its part of a state: for each
 * value head, [dim_v][dim_k]. */
typedef struct kt__delta_net {
    float *qkv; /* [n_tok][2 n_key dim_k + n_value dim_v], changed: queries, keys, values */
    float *decay, *beta; /* [n_tok][n_value], in: the products, out: what they mean */
    const float *a, *dt; /* [n_value] of the decay */
    const float *z;      /* [n_tok][n_value dim_v] gates of the result */
    const float *norm;   /* [dim_v] */
    float eps;
    int n_key, n_value, dim_k, dim_v;
    bool grouped; /* value heads side by side share a key head; else those n_key apart */
    const kt__kv *kv;
    size_t state_at;
    const kt__seg *segs;
    int n_seg, n_tok;
    float *out; /* [n_tok][n_value dim_v] */
} kt__delta_net;

/* A Mamba-2 layer between its convolution and its last product. Its part of a state: for each head,
 * [n_row][dim]. */
typedef struct kt__mamba {
    const float *in; /* [n_tok][ld_in]: gates of the result, n_head n_row of a token */
    const float *dt; /* [n_tok][ld_in]: steps, n_head of a token */
    size_t ld_in;
    const float *x;      /* [n_tok][n_head n_row + 2 n_group dim]: inputs, B and C of each group */
    float *decay, *step; /* [n_tok][n_head] of room */
    const float *a, *dt_bias, *d; /* [n_head] */
    const float *norm;            /* [n_head n_row], for each group's share of them, or NULL */
    float eps;
    int n_group, n_head, n_row, dim;
    const kt__kv *kv;
    size_t state_at;
    const kt__seg *segs;
    int n_seg, n_tok;
    float *out; /* [n_tok][n_head n_row] */
} kt__mamba;

/* A Mamba layer between its products. Its part of a state: for each channel, [dim]. */
typedef struct kt__scan {
    const float *x;     /* [n_tok][n_ch] */
    const float *pairs; /* [n_tok][2 dim]: what is written by, what is read by */
    float *step;        /* [n_tok][n_ch], changed: before their softplus */
    const float *a;     /* [n_ch][dim] */
    const float *d;     /* [n_ch] */
    int n_ch, dim;
    const kt__kv *kv;
    size_t state_at;
    const kt__seg *segs;
    int n_seg, n_tok;
    const float *gate; /* [n_tok][ld_gate] */
    size_t ld_gate;
    float *out; /* [n_tok][n_ch] */
} kt__scan;

/* ---- a block that proposes tokens ---- */

/* out[t] = the norm of a token's embedding, then that of the state before it: of hidden's row before in
 * the same segment, at a segment's first row of first[segment], where NULL means zeros. */
typedef struct kt__pairs {
    const float *tokens;       /* [n_tok][n] */
    const float *hidden;       /* [n_tok][n] or NULL: segments have one row each */
    const float *const *first; /* [n_seg] of [n] */
    const kt__seg *segs;
    int n_seg, n_tok, n;
    const float *token_norm, *hidden_norm; /* NULL: as they are */
    float eps;
    float *out; /* [n_tok][2 n] */
} kt__pairs;

/* ---- several residual streams ---- */

enum { KT__MAX_STREAMS = 4 };

/* streams[s] += sum over k of (factors[s][k] . routes) streams[k], in one step; with made, += (1 +
 * factors[s] . routes) (made - streams[0]) */
typedef struct kt__blend {
    const float *routes;  /* [n_tok][n_stream] */
    const float *factors; /* [n_stream (n_stream)][n_stream] */
    const float *made;    /* [n_tok][n] or NULL */
    int n_stream, n_tok, n;
    float *streams; /* [n_stream][n_tok][n] */
} kt__blend;

/* ---- latent attention ---- */

/* Between the first products and those of each head. A head's query is n_rot numbers to rotate,
 * then n_latent; a key is the same of the latent row, whose normed part is the value as well. */
typedef struct kt__latent {
    const float *q;    /* [n_tok][n_head][n_plain + n_rot], or NULL: keys and values alone */
    const float *c;    /* [n_tok][n_latent + n_rot] */
    const float *norm; /* [n_latent] */
    float eps;
    int n_tok, n_head, n_plain, n_rot, n_latent;
    float *plain;  /* [n_tok][n_head][n_plain] */
    float *q_rows; /* [n_tok][n_head][n_rot + n_latent]; n_rot of each are written */
    float *k_rows; /* [n_tok][n_rot + n_latent] */
    float *v_rows; /* [n_tok][n_latent] */
} kt__latent;

/* A product of each head's own matrix with its own rows. */
typedef struct kt__heads {
    kt__weight w;  /* of head 0 */
    size_t stride; /* bytes from one head's to the next one's */
    int n_head;
    float *out; /* out[t * ld_out + h * step + r] */
    size_t ld_out, step;
} kt__heads;

typedef struct kt__dev kt__dev;

typedef struct kt__ops {
    /* out[t][n_col] = scale * table[ids[t]]; ids are in range */
    void (*embed)(kt__dev *dev, const kt__weight *table, const int32_t *ids, int n_tok, float scale,
                  float *out);
    /* RMS norm of rows x[n_tok][n], then the kinds named in acts->kinds. false: a row was not
     * finite */
    bool (*norm)(kt__dev *dev, const float *x, const float *w, float eps, int n_tok,
                 kt__acts *acts);
    /* x[t][i] -= mean of x[t], the mean in double */
    void (*centre)(kt__dev *dev, float *x, int n_tok, int n);
    /* the kinds named in acts->kinds of rows x[n_tok][acts->n_col] */
    void (*quantize)(kt__dev *dev, const float *x, int n_tok, kt__acts *acts);
    /* RMS norm without quantisation: out[t][n]; false: not finite */
    bool (*norm_f32)(kt__dev *dev, const float *x, const float *w, float eps, int n_tok, int n,
                     float *out);
    /* io[t][n] += norm(x[t]) * w: the post-norms of Gemma; false: not finite */
    bool (*norm_add)(kt__dev *dev, const float *x, const float *w, float eps, int n_tok, int n,
                     float *io);
    void (*qkv)(kt__dev *dev, const kt__acts *acts, const kt__qkv *desc);
    void (*attention)(kt__dev *dev, const kt__attention *desc);
    /* out[t][r] = w . act + bias, + residual[t][r] (same leading dimension; may be out), + what
     * lora adds at the site (NULL: nothing) */
    void (*matmul)(kt__dev *dev, const kt__weight *w, const kt__acts *acts, const float *bias,
                   const float *residual, const kt__lora_terms *lora, kt__lora_site site,
                   float *out, size_t ld_out);
    /* glu(gate . act + bias) * (up . act + bias) as activation rows of the kinds named in
     * out->kinds, which lie apart from acts */
    void (*glu)(kt__dev *dev, const kt__acts *acts, const kt__glu *desc, kt__acts *out);
    /* u of an input, whose f32 rows are in acts */
    void (*lora_down)(kt__dev *dev, const kt__acts *acts, const kt__lora_terms *terms,
                      kt__net_input input);
    /* out[n_tok][n_row] += B u, where no product goes before */
    void (*lora_up)(kt__dev *dev, const kt__lora_terms *terms, kt__lora_site site, int n_row,
                    int n_tok, float *out);
    /* io[t][i] += y[t * ld + i]; ld 0: the same row to each */
    void (*add)(kt__dev *dev, const float *y, int ld, int n_tok, int n, float *io);
    /* x[i] = gelu(x[i]), the tanh form */
    void (*gelu)(kt__dev *dev, float *x, int64_t n);
    /* x[i] = relu(x[i])^2 */
    void (*relu2)(kt__dev *dev, float *x, int64_t n);
    /* The n_used experts with the largest logits (the lowest numbers on ties) and their shares;
     * false: a logit is not finite */
    bool (*route)(kt__dev *dev, const kt__route *desc, kt__routing *routing);
    /* glu of each slot by its expert: as activation rows of slots */
    void (*experts_glu)(kt__dev *dev, const kt__acts *acts, const kt__experts_glu *desc,
                        kt__acts *out);
    /* sum[t] += over t's experts, by ascending number, share * (down . act + bias); acts: of slots */
    void (*experts_down)(kt__dev *dev, const kt__acts *acts, const kt__experts_down *desc);
    /* io[t * ld_io + i] *= y[t * ld_y + i] */
    void (*mul)(kt__dev *dev, const float *y, size_t ld_y, int n_tok, int n, float *io,
                size_t ld_io);
    /* out[t][h][i] = x[t][h][i]; gate[t][h][i] = x[t][h][n + i], of x[n_tok][n_head][2 n] */
    void (*split)(kt__dev *dev, const float *x, int n_tok, int n_head, int n, float *out,
                  float *gate);
    /* io[i] *= 1 / (1 + exp(-gate[i])), as one division */
    void (*sigmoid_mul)(kt__dev *dev, const float *gate, int n_tok, int n, float *io);
    void (*short_conv)(kt__dev *dev, const kt__short_conv *desc);
    void (*delta_net)(kt__dev *dev, const kt__delta_net *desc);
    void (*mamba)(kt__dev *dev, const kt__mamba *desc);
    void (*scan)(kt__dev *dev, const kt__scan *desc);
    void (*latent)(kt__dev *dev, const kt__latent *desc);
    /* acts: row t * n_head + h is token t's for head h */
    void (*heads)(kt__dev *dev, const kt__acts *acts, const kt__heads *desc);
    /* x[n_tok][2 n] of groups of pairs: beta, then alpha of the value heads of each of n_group key
     * heads */
    void (*unweave)(kt__dev *dev, const float *x, int n_tok, int n_group, int n, float *beta,
                    float *alpha);
    void (*pairs)(kt__dev *dev, const kt__pairs *desc);
    void (*blend)(kt__dev *dev, const kt__blend *desc);
    /* io[t] times what makes it as long as like[t] */
    void (*resize)(kt__dev *dev, const float *like, int n_tok, int n, float *io);
    /* x[t][i] = max(0, x[t][i] - (mean of x[t] + by times its deviation)) */
    void (*cut)(kt__dev *dev, float *x, int n_tok, int n, float by);
    void (*scale)(kt__dev *dev, float *x, int64_t n, float factor);
    void (*softcap)(kt__dev *dev, float *x, int64_t n, float cap);
    /* false: a number of x[n_row][n] is not finite */
    bool (*finite)(kt__dev *dev, const float *x, int n_row, int n);
} kt__ops;

/* The largest sizes a device will be asked for. */
typedef struct kt__dev_limits {
    int n_tok, n_col, head_dim_k, head_dim_v, n_head, n_head_kv; /* n_col: longest activation row */
    struct {
        int head_dim_k, head_dim_v, n_head, n_head_kv;
    } local; /* heads of layers with a sliding window; zeros: they are as the others */
    int64_t n_ctx;
    bool plain_attention; /* scores of whole rows, over keys and values in f16 */
    int expert_cols; /* of the activations that experts read, as whole blocks of every kind; 0: none */
    int slot_floats;           /* of the longest rows of a token's experts together; 0: none */
    int state_dim;             /* of a delta net's keys; 0: there is none */
    const kt__division *split; /* the device has a part of every matrix; NULL: all; outlives it */
} kt__dev_limits;

/* pool, kernels and blas outlive the device. exact: dequantised weights and f32 activations
 * everywhere. blas: computes the products it takes; NULL: none. */
kt_status kt__dev_create(kt__pool *pool, const kt__kernels *kernels, bool exact,
                         const kt__blas *blas, const kt__dev_limits *limits, kt__dev **out,
                         kt_error *err) KT_CHECKED;
void kt__dev_destroy(kt__dev *dev);
const kt__ops *kt__dev_ops(const kt__dev *dev);
/* What another table of operations keeps here, which calls this device's own for what it does not do. */
void kt__dev_set_accel(kt__dev *dev, void *accel);
void *kt__dev_accel(const kt__dev *dev);
/* Threads for the calls that follow. */
void kt__dev_set_threads(kt__dev *dev, int n_threads);
/* What the calling thread has spent in low-rank terms since this was asked last. */
int64_t kt__dev_take_lora_ns(kt__dev *dev);
/* The activation kind that products of so many tokens with w need on this device. */
kt__act_kind kt__dev_act_kind(const kt__dev *dev, const kt__weight *w, int n_tok);

#endif
