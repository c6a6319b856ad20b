/* The insides of the public types: contexts, models, engines, sequences and requests.
 *
 * Owns: layouts and short accessors, no behaviour: every module above works on them, each on the
 * members that its header says it owns. Includes every room to the engine's left; knows no wire
 * format. Threads: as kentang.h says; what `turn` guards is named where it is used. */
#ifndef KT_CONTEXT_TYPES_H
#define KT_CONTEXT_TYPES_H

#include <kentang.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/thread.h"
#include "calls/calls.h"
#include "chat/chat_template.h"
#include "context/idle_thread.h"
#include "host/host.h"
#include "host/pool.h"
#include "kv/prefix.h"
#include "model/device_layers.h"
#include "model/expert_store.h"
#include "model/forward.h"
#include "peers/message.h"
#include "sample/sample.h"
#include "tokenizer/tokenizer.h"
#include "vision/view.h"

/* Where a context gets the machine's size and limits from; tests put in their own. */
typedef struct kt__limits_source {
    void (*topology)(kt__topology *out);
    void (*limits)(void *user, kt__limits *out);
    void *user;
    int64_t period_us; /* between two looks */
} kt__limits_source;

struct kt_ctx {
    kt__logger log;
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
    /* A graphics processor, while models use it; any thread, with its lock. */
    pthread_mutex_t gpu_lock;
    kt__gpu *gpu;
    int n_gpu_users;
    char gpu_name[64]; /* as it was asked for */
    char isa_why[160], threads_why[160];
    /* Of kt_ctx_join: a model's part that is computed here; split.peers NULL: there are no others. */
    kt__division split;
    kt__message message; /* to them, with the pool's lock */
    int n_divided;       /* engines that were opened with others */
    int32_t n_told_adapters;
};

struct kt_model {
    kt_ctx *ctx;
    kt__gguf *gguf;
    kt__net *net;              /* NULL with vocab_only */
    kt__expert_store *experts; /* that can be read as they are needed; NULL: there are none */
    kt__vision *vision;        /* NULL: it sees nothing */
    uint8_t vision_id[32];     /* of its file */
    kt__blas *blas;            /* NULL: not asked for */
    kt__gpu *gpu;              /* NULL: not asked for, or there is none */
    kt__device_layers *device; /* that it computes; NULL: none */
    kt__tokenizer *tok;        /* NULL: the file has no vocabulary */
    kt__chat_template *chat;   /* NULL: no template, or chat_error says why it is unusable */
    kt_error chat_error;
    kt__call_style style; /* how it calls tools and marks its reasoning */
    char *template_text, *bos_text, *eos_text;
    kt_model_params params;
    kt_model_info info;
    atomic_int n_charged; /* engines that have charged its weights to the context */
    kt__full_hash *full_hash;
    kt__page_job *page_job;
    struct kt__fingerprint *fingerprint;
    _Atomic(struct kt__held_vocab *) held_vocab; /* made for the first answer that needs it */
    char *strings[5];                            /* owned strings of info */
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
    atomic_int_fast64_t stage_ns[KT__STAGES]; /* any thread */
} kt__engine_profile;

/* What the engine has done since it was opened, for statistics. */
typedef struct kt__engine_counts {
    uint64_t n_prompt_tok, n_queried_tok, n_cached_tok, n_disk_tok, n_generated;
    uint64_t n_drafts, n_drafted, n_accepted;
    int64_t sample_us;
} kt__engine_counts;

struct kt_engine {
    kt_model *model;
    kt_engine_params params; /* resolved; n_threads and n_threads_batch 0: the context's */
    kt__ticket turn;         /* of those who compute */
    /* with the turn */
    kt__fwd *fwd;      /* of prompts' batches */
    kt__fwd *step_fwd; /* of steps: a token of each answer, and what is proposed to follow */
    int step_rows;     /* it takes */
    struct kt__speculator *speculator;
    kt__kv *kv;
    void *press_scratch; /* of kv, where pages may be pressed */
    kt__gpu_set *gpu_kv; /* its memory, where a graphics processor computes layers */
    kt__prefix *prefix;
    struct kt__runner *runner;
    struct kt__sched *sched; /* over runner */
    kt__sampler_scratch *scratch;
    float *masked;   /* [n_vocab] logits of answers held to a form */
    kt__seer *seer;  /* NULL: the model sees nothing */
    uint64_t seeing; /* the view that it is at, by its serial number, or 0; and of that the tile */
    int seeing_tile;
    int n_seq; /* open sequences */
    kt__engine_counts counts;
    kt__engine_profile profile; /* counted while profiling is on */
    /* any thread */
    struct kt__scope *scope; /* the root of what prefix keeps */
    struct kt__inbox *inbox;
    kt__views *views; /* pictures of requests; NULL: the model sees nothing */
    struct kt__constraints *constraints;
    pthread_t driver;   /* while there is one */
    int n_out_max;      /* rows of a prompts' batch with logits */
    uint64_t mem_bytes; /* charged to the context, besides the model's weights */
    uint64_t mem_weights_bytes;
    kt_mem_plan plan;
    int divided; /* its number among those that other processes have a part of; 0: it has all */
    atomic_bool cancel;
    atomic_bool cancel_pending; /* pause between layer parts, to drop cancelled requests */
    atomic_bool profiling;
};

/* A submitted request (requests/request.h), of which this is the first member. */
struct kt_request {
    kt_engine *engine;
    atomic_bool cancel;
};

/* What the draft model has followed of an answer's text: tokens [begin, n_done), in its own
 * positions from 0; and what the model's own block begins with. */
typedef struct kt__draft_seq {
    kt__kv_table table;
    int32_t begin, n_done;
    /* with recurrent layers: the piece of the state after the first n_base, none of which is a
     * proposal, and a reference */
    int32_t base, n_base;
    /* [d_model] where the model's own block proposes: its state after n_hidden positions */
    float *hidden;
    int32_t n_hidden;
    int32_t n_counted; /* of its tokens, where the block knows which are common */
    double right;      /* share of its proposals that were right */
} kt__draft_seq;

/* Tokens, and what was computed of them: a request's choice has one of its own, a sequence lends
 * its one to the task that runs on it. */
typedef struct kt__seq_state {
    int32_t *tokens;
    kt__kv_table table;
    kt__draft_seq draft;
    float *logits;   /* [n_vocab], of a sequence; else NULL */
    size_t n_logits; /* positions that they follow; 0: none */
} kt__seq_state;

struct kt_seq {
    kt_engine *engine;
    kt__seq_state state; /* tokens[n_ctx + 1] */
    size_t n_pos;
    struct kt__eval *eval; /* the task of its evaluations */
    struct kt__adapters *adapters;
    atomic_bool lent; /* to a task */
};

/* NULL: it computes alone. */
static inline const kt__division *kt__ctx_split(const kt_ctx *ctx) {
    return ctx->split.peers ? &ctx->split : NULL;
}

static inline const kt__hparams *kt__engine_hparams(const kt_engine *engine) {
    return &engine->model->net->hp;
}

static inline size_t kt__engine_n_vocab(const kt_engine *engine) {
    return (size_t)engine->model->net->hp.n_vocab;
}

#endif
