/* The five types' insides.
 *
 * Owns: contexts, models, engines, sequences and requests, and the thread rule of kentang.h.
 * Includes every room to its left; knows no wire format. */
#ifndef KT_ENGINE_ENGINE_H
#define KT_ENGINE_ENGINE_H

#include <kentang.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "engine/full_hash.h"
#include "engine/turn.h"
#include "host/host.h"
#include "host/pool.h"
#include "kv/prefix.h"
#include "model/forward.h"
#include "sample/sample.h"
#include "chat/chat_template.h"
#include "tokenizer/tokenizer.h"

/* Where a context gets the machine's size and limits from; tests put in their own. */
typedef struct kt__limits_source {
    void (*topology)(kt__topology *out);
    void (*limits)(void *user, kt__limits *out);
    void *user;
    int64_t period_us; /* between two looks */
} kt__limits_source;

struct kt_ctx {
    kt__log log;
    kt__cpu cpu;
    kt__topology topology;
    kt__limits limits;
    const kt__kernels *kernels;
    kt__pool *pool;
    kt__affinity affinity;
    /* Threads by default: where they were not given, looked at anew between batches, with the
     * pool's lock held. */
    bool threads_auto;
    atomic_int n_threads;
    kt__limits_source source;
    int64_t limits_at_us;
    uint64_t mem_bytes; /* budget, see kt_ctx_params */
    bool mem_given;     /* by the caller: weights and tables count, too */
    atomic_uint_fast64_t mem_used_bytes;
    kt__activity activity; /* of all batches */
    char isa_why[160], threads_why[160];
};

struct kt_model {
    kt_ctx *ctx;
    kt__gguf *gguf;
    kt__net *net;            /* NULL with vocab_only */
    kt__blas *blas;          /* NULL: not asked for */
    kt__tokenizer *tok;      /* NULL: the file has no vocabulary */
    kt__chat_template *chat; /* NULL: no template, or chat_error says why it is unusable */
    kt_error chat_error;
    char *template_text, *bos_text, *eos_text;
    kt_model_params params;
    kt_model_info info;
    atomic_int n_charged; /* engines that have charged its weights to the context */
    kt__full_hash *full_hash;
    _Atomic(struct kt__json_mask *) json_mask; /* made for the first answer that needs it */
    char *strings[5];                          /* owned strings of info */
};

/* What happens outside batches. */
typedef enum kt__stage {
    KT__STAGE_TOTAL, /* inside the outermost call */
    KT__STAGE_TEMPLATE,
    KT__STAGE_TOKENIZE,
    KT__STAGE_SETUP,
    KT__STAGE_SAMPLE,
    KT__STAGE_DETOKENIZE,
    KT__STAGE_CALLBACK,
    KT__STAGES
} kt__stage;

typedef struct kt__engine_profile {
    kt__profile batches;
    int64_t stage_ns[KT__STAGES];
} kt__engine_profile;

struct kt_engine {
    kt_model *model;
    kt_engine_params params; /* resolved; n_threads and n_threads_batch 0: the context's */
    kt__turn turn;           /* of those who compute */
    kt__fwd *fwd;            /* of prompts, and of what sequences evaluate */
    kt__fwd *step_fwd;       /* of steps: a token of each answer, and what is proposed to follow */
    int step_rows;           /* it takes */
    uint64_t n_steps;        /* begun on it: whose logits lie there */
    struct kt__proposer *proposer;
    kt__kv *kv;
    kt__prefix *prefix;
    struct kt__service *service; /* the scheduler and what belongs to it */
    bool evaluating;             /* a call on sequences, which may have passed the turn on */
    kt_seq *borrower;            /* its logits lie in fwd or step_fwd */
    kt__sampler_scratch *scratch;
    float *masked;     /* [n_vocab] logits of answers held to a form */
    kt__seg *segs;     /* [n_seq_max] */
    int32_t *ids;      /* [n_ubatch] */
    int32_t *out_rows; /* [n_out_max] */
    int n_out_max;
    int n_seq;          /* open sequences */
    uint64_t mem_bytes; /* charged to the context, beside the model's weights */
    uint64_t mem_weights_bytes;
    kt_mem_plan plan;
    atomic_bool cancel;
    atomic_bool look; /* a request was cancelled: the batch at hand pauses, and it is let go */
    atomic_bool profiling;
    kt__engine_profile profile; /* counted while profiling is on */
};

/* A generation: over a sequence (request.c), or submitted (live.h). The first member of either. */
struct kt_request {
    kt_engine *engine;
    bool submitted;
    atomic_bool cancel;
};

/* What the draft model has followed of an answer's text: tokens [begin, n_done), in its own
 * positions from 0. */
typedef struct kt__draft_seq {
    kt__kv_table table;
    int32_t begin, n_done;
    double right; /* share of its proposals that were right */
} kt__draft_seq;

/* Rows of the last step beyond the sequence's end: tokens that were proposed to follow it. */
typedef struct kt__ahead {
    int n;            /* that are left; their tokens lie behind the sequence's own */
    int row;          /* of the step, of the first of them */
    uint64_t n_steps; /* the engine's, when they were computed */
} kt__ahead;

struct kt_seq {
    kt_engine *engine;
    kt__kv_table table;
    kt__draft_seq draft_seq;
    kt__ahead ahead;
    int32_t *tokens; /* [n_ctx] */
    size_t n_pos;
    float *own_logits;   /* [n_vocab], touched only when the batch's buffer will be used again */
    const float *logits; /* after the last token, or NULL */
    bool in_batch;       /* named by the running evaluation */
};

/* The engine's turn is the caller's; others get it between slices of long batches. Appends and
 * computes as kt_engine_eval; cancel (may be NULL) is a second flag. */
kt_status kt__engine_eval_locked(kt_engine *engine, const kt_eval_item *items, size_t n_items,
                                 const atomic_bool *cancel, kt_error *err) KT_CHECKED;
void kt__seq_truncate_locked(kt_seq *seq, size_t n_keep);
/* Appends ids[0] and computes it, and what would come of ids[1..n) behind it; n is at most
 * engine->step_rows. The engine's turn is the caller's. On an error seq is as it was. */
kt_status kt__seq_step_locked(kt_seq *seq, const int32_t *ids, int n, const atomic_bool *cancel,
                              kt_error *err) KT_CHECKED;
/* Appends id if it was computed already, as the next of those. */
bool kt__seq_take_ahead_locked(kt_seq *seq, int32_t id);
void kt__seq_drop_ahead_locked(kt_seq *seq);
/* One batch on one of the engine's forward passes, begun already or not, until it is done or the
 * time has come. The engine's turn is the caller's. */
typedef struct kt__batch_run {
    kt__fwd *fwd;
    const kt__kv *kv;       /* of its tables; NULL: the engine's */
    const kt__batch *batch; /* to begin with; NULL: go on */
    bool decode;            /* counts as decoding, with its number of threads */
    int n_tok;
    int64_t until_us; /* INT64_MAX: done */
    const atomic_bool *cancel;
    const atomic_bool *pause; /* or NULL: as if the time had come */
} kt__batch_run;
kt_status kt__engine_run_batch(kt_engine *engine, const kt__batch_run *run, bool *done,
                               kt_error *err) KT_CHECKED;
/* The engine's forward pass is needed: a sequence's logits that lie in it move to the sequence. */
void kt__engine_return_logits(kt_engine *engine);

/* kt_ctx_open with another source (NULL: the machine). */
kt_status kt__ctx_open_from(const kt_ctx_params *params, const kt__limits_source *source,
                            kt_ctx **out, kt_error *err) KT_CHECKED;
/* The context's number of threads, after a new look at the limits if it is time. The pool's lock is
 * held. */
int kt__ctx_threads_now(kt_ctx *ctx);

/* The time when a stage begins; 0 while nothing is profiled, and then the end does nothing.
 * `locked`: the engine's turn is the caller's. */
int64_t kt__stage_begin(const kt_engine *engine);
void kt__stage_end(kt_engine *engine, kt__stage stage, int64_t begin_ns, bool locked);
/* The batches' profile or NULL; the engine's turn is the caller's. */
kt__profile *kt__engine_profile_on(kt_engine *engine);

/* kt_chat_encode; the time of the template and of the tokenizer are added to ns[0] and ns[1]. */
kt_status kt__chat_encode_timed(const kt_model *model, const kt_message *messages, size_t n,
                                bool add_generation_prompt, int32_t **ids, size_t *n_ids,
                                int64_t *ns, kt_error *err) KT_CHECKED;

/* What binds K/V to a model: of the metadata, the tensor table, the sizes and sampled blocks of the
 * tensors' bytes, 32 bytes. The same file gives the same, whatever its name; computed once. */
enum { KT__FINGERPRINT_BYTES = 32 };
kt_status kt__model_fingerprint(kt_model *model, uint8_t out[KT__FINGERPRINT_BYTES],
                                kt_error *err) KT_CHECKED;
/* kt_hash_info.hash, or zeros while it is not known. Any thread. */
void kt__model_full_hash(const kt_model *model, uint8_t out[KT_FINGERPRINT_BYTES]);
/* The bytes that the K/V of this engine depends on beside the tokens: fingerprint, RoPE options,
 * K/V type and shape, KENTANG_NUMERICS, exactness. For kt__kv_key_root (with a scope behind it) and
 * for files. Returns their number. */
enum { KT__KV_BINDING_BYTES = 128 };
kt_status kt__engine_kv_binding(kt_engine *engine, uint8_t out[KT__KV_BINDING_BYTES],
                                kt_error *err) KT_CHECKED;
/* Another place for blocks (src/kv/prefix.h): *store is copied, NULL takes it away. Takes the
 * engine's turn. The store outlives the engine, or is taken away before. */
void kt__engine_set_kv_store(kt_engine *engine, const kt__kv_store *store);

/* The same from JSON, as kt_chat_render_json takes it. */
kt_status kt__chat_encode_json(const kt_model *model, const char *json, size_t json_len,
                               int32_t **ids, size_t *n_ids, kt_error *err) KT_CHECKED;

/* A model needs its network for this call. */
kt_status kt__model_needs_net(const kt_model *model, kt_error *err) KT_CHECKED;

/* The GGUF bytes linked into the library; NULL when there are none. */
const void *kt__demo_model(size_t *size);

#endif
