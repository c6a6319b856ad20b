/* kentang.h: the public interface of libkentang, a language-model engine for small CPUs.
 *
 * Owns: everything that a program may call. Nothing else is exported (hidden visibility).
 *
 * Objects and lifetimes: a kt_ctx (threads, kernels, log, memory budget) outlives its kt_models, a
 * kt_model outlives its kt_engines, a kt_engine outlives its kt_seqs, a kt_seq outlives its
 * kt_requests. Close in the reverse order; closing NULL is allowed.
 *
 * Ownership: what a call returns through **out is the caller's, to be closed, or freed with
 * kt_free. What is passed in is read during the call, unless the call says that it must stay valid.
 * Strings and arrays that a call points to belong to the library, and it says for how long they
 * are valid.
 *
 * Errors: a fallible call returns a kt_status and, where a kt_error is passed (NULL is allowed),
 * says what happened, where, and what to do. After an error *out is NULL, and objects are as they
 * were before the call, unless it says otherwise. Nothing is thrown, nothing aborts, no process is
 * spawned, no socket is opened, no signal handler is installed unasked.
 *
 * Threads. Each section states the rule for its calls; this is the whole:
 *   - A kt_ctx and a kt_model may be used from any number of threads at once: a model is immutable
 *     once it is open.
 *   - Calls on one kt_engine, its sequences and its requests may come from any thread, and it
 *     computes for all of them together. A single kt_seq or kt_request must not be used by two
 *     threads at the same moment. Engines of one context share its threads and take turns.
 *   - kt_request_cancel and kt_engine_cancel may be called at any time, from any thread and from a
 *     signal handler.
 *   - kt_engine_submit, kt_engine_get_stats and kt_request_close (but of a request on a sequence)
 *     never wait for a computation; kt_request_next_event does not where a thread drives.
 *   - An object is closed when no other call on it runs or will come.
 * The calling thread computes, too; its floating-point environment should be the default one (round
 * to nearest, subnormals kept) for answers to be the same everywhere.
 *
 * Units: strings are UTF-8; token ids are int32_t; sizes are in bytes, unless the name says
 * otherwise; _us and _ms are microseconds and milliseconds of wall time. */
#ifndef KENTANG_H
#define KENTANG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set by hand. */
/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KT_API __attribute__((visibility("default")))
#define KT_CHECKED __attribute__((warn_unused_result))
#else
#define KT_API
#define KT_CHECKED
#endif

#define KT_VERSION "0.2.0"

/* The version of the arithmetic contract (docs/NUMERICS.md): two builds with the same number give
 * the same bytes. */
#define KENTANG_NUMERICS 2

/* ---- errors ----------------------------------------------------------------------------------
 *
 * Threads: every call of this section, from any thread. */

/* name, exit code of the command line, message */
#define KT_STATUS_LIST(X)                                                 \
    X(KT_OK, 0, "no error")                                               \
    X(KT_E_ARG, 2, "invalid argument")                                    \
    X(KT_E_NOMEM, 3, "out of memory or over the memory budget")           \
    X(KT_E_IO, 4, "input/output error")                                   \
    X(KT_E_FORMAT, 5, "malformed file or text")                           \
    X(KT_E_UNSUPPORTED, 6, "not supported")                               \
    X(KT_E_LIMIT, 7, "a stated limit was exceeded")                       \
    X(KT_E_NUMERIC, 8, "a non-finite number appeared in the computation") \
    X(KT_E_CANCELLED, 9, "cancelled")                                     \
    X(KT_E_CONTEXT_FULL, 10, "the context is full")                       \
    X(KT_E_TEMPLATE, 11, "error in a chat template")                      \
    X(KT_E_TRUNCATED, 12, "the model file was truncated while in use")    \
    X(KT_E_STATE, 13, "the call does not fit the object's state")         \
    X(KT_E_INTERNAL, 14, "internal error")                                \
    X(KT_E_BUSY, 15, "the queue is full: try again later")                \
    X(KT_E_DEADLINE, 16, "the deadline cannot be met")

typedef enum kt_status {
#define X(name, exit_code, text) name,
    KT_STATUS_LIST(X)
#undef X
    /* their number */
    KT_STATUS_COUNT
} kt_status;

/* Filled by the callee, owned by the caller; plain data. */
typedef struct kt_error {
    kt_status code;
    int32_t system;    /* KT_E_IO of a call of the system: its errno; else 0 */
    uint64_t offset;   /* byte offset in `where`; UINT64_MAX: none */
    int64_t retry_ms;  /* KT_E_BUSY, and KT_E_STATE of a lost process: when to try again; KT_E_DEADLINE: the predicted
                        * time; else 0 */
    int64_t n_tokens;  /* KT_E_CONTEXT_FULL of a prompt: its tokens, or as many as are certain; else 0 */
    int64_t n_ctx;     /* and how many may be; else 0 */
    char where[160];   /* the file, key, tensor or JSON path at fault; may be empty */
    char message[480]; /* what happened and what to do, one sentence or two */
} kt_error;

KT_API const char *kt_version(void);
/* "KT_E_FORMAT"; never NULL. */
KT_API const char *kt_status_name(kt_status status);
/* One English phrase; never NULL. */
KT_API const char *kt_status_message(kt_status status);
/* The exit code that the command line documents for it. */
KT_API int kt_status_exit_code(kt_status status);

/* The size of a structure of KT_STRUCT_LIST, "kt_gen_params", as the library was compiled, or 0: no
 * such structure. For bindings that restate them; a program in C or C++ compares kt_abi() with
 * kt_header_abi(). Before its first other call. */
KT_API size_t kt_struct_size(const char *name);

/* ---- context ---------------------------------------------------------------------------------
 *
 * Threads: every call of this section, from any thread; kt_ctx_close as any close. */

typedef struct kt_ctx kt_ctx;
typedef struct kt_model kt_model;
typedef struct kt_engine kt_engine;
typedef struct kt_seq kt_seq;
typedef struct kt_request kt_request;
typedef struct kt_request_params kt_request_params;
typedef struct kt_sampler kt_sampler;
typedef struct kt_adapter kt_adapter;
typedef struct kt_recall kt_recall;
typedef struct kt_bank kt_bank;
typedef struct kt_learner kt_learner;

/* The largest values that parameters may have; more is KT_E_ARG. */
enum {
    KT_THREADS_MAX = 256,
    KT_CTX_MAX = 1 << 24,
    KT_BATCH_MAX = 1 << 20,
    KT_UBATCH_MAX = 1 << 16,
    KT_PARALLEL_MAX = 1024,
    KT_QUEUE_MAX = 1 << 20,
    KT_DRAFT_MAX = 63, /* tokens proposed at once */
    KT_ADAPTERS_MAX = 8, /* adapters at once in one request */
    KT_ADAPTER_SCALE_MAX = 1000
};

typedef enum kt_log_level { KT_LOG_ERROR, KT_LOG_WARN, KT_LOG_INFO, KT_LOG_DEBUG } kt_log_level;
/* Called from any thread of the context, one call at a time; `line` has no newline and is valid
 * during the call. It must not call this library. */
typedef void kt_log_fn(void *user, kt_log_level level, const char *line);

typedef struct kt_ctx_params {
    /* The kernel tier: "ref", "avx2", "neon", ...; NULL: the environment's KENTANG_ISA, else the
     * best that this machine has. */
    const char *isa;
    /* Threads of the pool, the caller's included; 0: from cores, affinity and quota, and chosen
     * anew once a second, between batches. */
    int n_threads;
    /* What an engine may ask for, where that is more than n_threads. */
    int n_threads_max;
    /* The processors that the context's threads are held to, as a list "0-3,8" or a mask "0x10f",
     * and the calling thread while a batch runs; NULL: not held. */
    const char *cpus;
    /* Of the context's threads: -1 low, 0 the caller's, 1 medium, 2 high, 3 real time. Above 0 it
     * needs a privilege. The calling thread keeps its own. */
    int priority;
    /* All that the context's models and engines may use: weights (mapped ones as if they were
     * resident), K/V, caches, scratch. 0: from the cgroup's limit and the available memory, not
     * counting mapped weights, which the system can drop and read again. */
    uint64_t mem_bytes;
    /* NULL: silent. */
    kt_log_fn *log;
    void *log_user;
    kt_log_level log_level;
} kt_ctx_params;

KT_API kt_ctx_params kt_ctx_params_default(void);
/* params NULL: the default. KT_E_UNSUPPORTED: this machine cannot run the tier that was asked for;
 * KT_E_ARG: an unknown tier, a list of processors that cannot be read, a number out of range;
 * KT_E_NOMEM. */
KT_API kt_status KT_CHECKED kt_ctx_open(const kt_ctx_params *params, kt_ctx **out, kt_error *err);
KT_API void kt_ctx_close(kt_ctx *ctx);
/* One model computed by several processes, on one machine or several, which a launcher (mpirun) started: each joins,
 * process 0 opens models and engines as ever, and the others follow it until its context is closed. Answers have the
 * bytes of one process. Sessions on disk, disk caches, adapters and learners are KT_E_UNSUPPORTED then. Before a model is
 * opened; without a launcher nothing happens. split, of process 0, whatever others say: each one's share, "2,1,1"; "auto": by
 * speeds that are measured now, in a tenth of a second; NULL or empty: all have the same. least_bytes: products of which a process
 * would be spared reading less are computed by all, 0: a megabyte, about what is read while they wait for each other once. KT_E_UNSUPPORTED:
 * libkentang-mpi.so is not installed; KT_E_ARG: no such split, or of another number of processes; KT_E_IO. */
KT_API kt_status KT_CHECKED kt_ctx_join(kt_ctx *ctx, const char *split, uint64_t least_bytes,
                                        kt_error *err);
KT_API int kt_launcher_rank(void); /* of this process among those that a launcher started; -1: none did */
KT_API int kt_ctx_rank(const kt_ctx *ctx); /* 0: the one that leads, or the only one */
KT_API int kt_ctx_n_ranks(const kt_ctx *ctx);
/* KT_E_STATE: a process was lost, which the message names; whatever is computed fails with that, and the context can
 * only be closed, which ends the others. Any thread. */
KT_API kt_status KT_CHECKED kt_ctx_check_ranks(const kt_ctx *ctx, kt_error *err);
/* From now on a process that keeps this one waiting for ms milliseconds is lost; for before a launcher kills all. Any
 * thread. */
KT_API void kt_ctx_hurry_ranks(kt_ctx *ctx, int32_t ms);
/* In a process other than 0: computes its part; returns when process 0 has closed its context. Its models are opened
 * here by the same path and have to be the same files. KT_E_STATE: a process was lost, or this one cannot continue; close the context then. */
KT_API kt_status KT_CHECKED kt_ctx_follow(kt_ctx *ctx, kt_error *err);
/* The kernel tier in use, and in one phrase why; valid while the context is open. */
KT_API const char *kt_ctx_isa(const kt_ctx *ctx);
KT_API const char *kt_ctx_isa_why(const kt_ctx *ctx);
/* Threads at this moment, for engines that leave the choice to the context; and in one phrase why
 * that number was chosen when the context was opened. */
KT_API int kt_ctx_n_threads(const kt_ctx *ctx);
KT_API const char *kt_ctx_n_threads_why(const kt_ctx *ctx);

/* Part i of n of the cores among the processors `among` (as kt_ctx_params.cpus; NULL: all that this
 * process may run on): whole cores, disjoint parts that differ by one core at most, as a list for
 * kt_ctx_params.cpus in out[size]. one_a_core: of each core one processor only. KT_E_ARG: fewer
 * cores than parts, or `among` cannot be read; KT_E_LIMIT: it does not fit. */
KT_API kt_status KT_CHECKED kt_cpus_split(const char *among, int n, int i, bool one_a_core,
                                          char *out, size_t size, kt_error *err);

/* The processors now. What this machine does not report is 0: few virtual machines report
 * any of it. */
typedef struct kt_heat {
    double mhz;           /* the processors' frequency, in the mean */
    double mhz_max;       /* the highest that one of them is made for */
    double celsius;       /* of the hottest sensor at a processor */
    uint64_t n_throttled; /* times that a processor was slowed down for heat, since boot */
    bool counts_throttling;
} kt_heat;
KT_API void kt_heat_read(kt_heat *out);

/* Process-wide and only on request: turns a SIGBUS inside a mapped model file, which another
 * process truncated while it was in use, into KT_E_TRUNCATED from the running call. Faults
 * elsewhere go to the handler that was there before. KT_E_IO: it could not be installed.
 * With the kernel tier amx a signal's frame may hold 8 KB of tiles more: a host's alternate
 * stacks need the sysconf(_SC_MINSIGSTKSZ) that the kernel names, and it refuses smaller ones. */
KT_API kt_status KT_CHECKED kt_install_fault_guard(kt_error *err);

/* ---- model -----------------------------------------------------------------------------------
 *
 * Threads: every call of this section, from any thread; kt_model_close as any close. */

typedef enum kt_rope_scaling {
    KT_ROPE_SCALING_MODEL, /* as the file says */
    KT_ROPE_SCALING_NONE,
    KT_ROPE_SCALING_LINEAR,
    KT_ROPE_SCALING_YARN
} kt_rope_scaling;

typedef struct kt_model_params {
    bool use_mmap;   /* true; weights stay in the mapped file, else they are read into memory */
    bool use_mlock;  /* false; keep the weights in memory */
    bool vocab_only; /* false; no tensors needed: tokenizer and template only */
    /* false; dequantised weights and f32 activations: slow, for measuring accuracy. */
    bool exact;
    /* false; products of 256 tokens and more by a BLAS that is found at run time, and held at one
     * thread in the whole process; quantised weights are dequantised for it. Answers are then not
     * reproducible. KT_E_UNSUPPORTED where none is installed. */
    bool blas;
    const char *blas_library; /* "openblas", "mkl", "blis"; NULL: the first of them that is found */
    /* false; each query's scores as one row in f32, its softmax and the sum of all values, for
     * comparison with attention in parts of 256 positions (docs/NUMERICS.md): slow, and of keys and
     * values in f16 alone. Answers are reproducible, and differ in their last bits. */
    bool plain_attention;

    /* Rotary embedding (Su et al. 2021); what is 0 is as the file says. */
    kt_rope_scaling rope_scaling;
    float rope_freq_base;
    float rope_freq_scale; /* 0.25 stretches the context four times */
    /* YaRN (Peng et al. 2023); negative: as the file says, or the paper's defaults. */
    float yarn_ext_factor;
    float yarn_attn_factor;
    float yarn_beta_fast;
    float yarn_beta_slow;
    int32_t yarn_orig_ctx; /* 0: as the file says */

    /* NULL: the chat template that the file has. Else one in its place: Jinja's source, or the name of
     * one that the library has: "chatml", "llama3", "gemma", "command-r". KT_E_TEMPLATE: it does not parse;
     * KT_E_ARG: there is none of that name. Read by kt_model_open only. */
    const char *chat_template;
    bool chat_fallback; /* false; a file without a chat template gets "chatml" */
    /* NULL, or the part of the model that sees: its mmproj file, a GGUF file, too. KT_E_UNSUPPORTED: an encoder
     * that this library does not have; KT_E_ARG: it belongs to another model. Read by kt_model_open only. */
    const char *mmproj;

    /* 0: the processor computes. N: the last N layers are computed by a graphics processor, through Vulkan, and
     * the product with the head where N is more than there are; -1: as many as it has free memory for, and none
     * where there is no device but a software driver. Answers have the same bytes. Layers with experts or recurrent parts, encoders, and weights of some types stay on the
     * processor, and so does everything where there is no device, or it fails: the log says so. KT_E_ARG: no
     * device has that name; KT_E_UNSUPPORTED: with exact or blas, or in a job of several processes. */
    int32_t n_gpu_layers;
    const char *device;      /* its number, or a part of its name; NULL: the best that is no software */
    const char *device_test; /* NULL, or a file that says which devices have passed their test */
} kt_model_params;

/* What a text's embedding is made of. */
typedef enum kt_pooling {
    KT_POOLING_NONE, /* generate */
    KT_POOLING_MEAN, /* of the hidden states after the last norm, over all tokens */
    KT_POOLING_LAST, /* the last token's */
    KT_POOLING_CLS,  /* the first token's */
    /* A reranker's one number: how relevant the second text of a pair is to the first, from 0 to 1.
     * KT_E_UNSUPPORTED: the model is not a reranker. */
    KT_POOLING_RANK,
    KT_POOLING_MODEL /* as the model's file says; MEAN where it says nothing */
} kt_pooling;

/* Pointers are valid while the model is open. */
typedef struct kt_model_info {
    const char *path;      /* as opened; "(demo)" for the embedded model, "(memory)" */
    const char *name;      /* general.name, or "" */
    const char *arch;      /* "llama", "qwen2", ... */
    const char *quant;     /* the recipe, "Q4_K_M", from general.file_type, or "mixed" */
    const char *tokenizer; /* "gpt2/qwen2", "llama" */
    const char *template_; /* the chat template's source, or NULL */
    uint64_t n_params;     /* weights, of all tensors */
    uint64_t file_bytes;   /* of all parts */
    uint64_t weight_bytes; /* of tensors */
    uint64_t decode_bytes; /* of weights read for one decoded token */
    uint64_t kv_bytes_per_token;
    int32_t n_vocab;
    int32_t n_ctx_train; /* positions that the model was trained for */
    int32_t n_layer;
    int32_t d_model; /* width of a hidden state */
    int32_t d_ff;    /* width of the feed-forward part */
    int32_t n_head;
    int32_t n_head_kv; /* heads of keys and values; n_head is a multiple */
    int32_t head_dim;
    int32_t bos_id, eos_id; /* -1: none */
    bool add_bos, add_eos;
    int32_t bytes_per_token; /* of text, at most: a text of n bytes has at least n / this many
                                tokens; 0: there is no bound */
    kt_pooling pooling;      /* what KT_POOLING_MODEL comes to */
    bool is_encoder;         /* it makes embeddings and generates no text */
    const char *vision;      /* the family of its encoder of pictures, "gemma3"; NULL: it sees none */
    const char *device;      /* the graphics processor that computes layers of it; NULL: none does */
    int32_t n_gpu_layers;    /* so many, and with gpu_head the head's product */
    bool gpu_head;
} kt_model_info;

KT_API kt_model_params kt_model_params_default(void);
/* path: a GGUF file, or the first of a split set (NAME-00001-of-0000N.gguf). params NULL: the
 * default. KT_E_IO: it cannot be read; KT_E_FORMAT: it is damaged; KT_E_UNSUPPORTED: it holds an
 * architecture, a tensor type or a vocabulary that this library does not have; KT_E_NOMEM: it
 * exceeds the budget. */
KT_API kt_status KT_CHECKED kt_model_open(kt_ctx *ctx, const char *path,
                                          const kt_model_params *params, kt_model **out,
                                          kt_error *err);
/* The same from memory. data must stay valid and unchanged until the model is closed; it is used in
 * place where it is aligned to 32 bytes. */
KT_API kt_status KT_CHECKED kt_model_open_memory(kt_ctx *ctx, const void *data, size_t size,
                                                 const kt_model_params *params, kt_model **out,
                                                 kt_error *err);
/* The model inside the library. KT_E_UNSUPPORTED: it was built without one. */
KT_API kt_status KT_CHECKED kt_model_open_demo(kt_ctx *ctx, const kt_model_params *params,
                                               kt_model **out, kt_error *err);
KT_API void kt_model_close(kt_model *model);
KT_API void kt_model_get_info(const kt_model *model, kt_model_info *out);

/* In which pages a model's files lie. The bytes of one that was written or downloaded since the
 * system started are in small pages of the page cache; many processors read them slower than large
 * ones, for which the file must be read from its disk again. */
typedef struct kt_pages_info {
    uint64_t bytes;        /* of the files, or of their copies in memory */
    uint64_t mapped_bytes; /* of these, in this process's page tables */
    uint64_t large_bytes;  /* of these, by large pages */
    bool running;          /* kt_model_start_pages is at work */
    const char *ended;     /* what it came to, in words; "" before */
} kt_pages_info;
/* A thread looks, while nothing was computed in the context for a quarter of
 * a second, in which pages the mapped files lie. Where that is mostly in small ones it drops them
 * from the page cache and reads them again, 16 MiB at a time. It leaves them as they are where the
 * disk gives less than 400 MB/s, and where another process maps the file. Begins it; nothing happens
 * where it was begun before. KT_E_NOMEM: no thread. Any thread. */
KT_API kt_status KT_CHECKED kt_model_start_pages(kt_model *model, kt_error *err);
/* Takes some milliseconds for each GB. Any thread. */
KT_API void kt_model_get_pages(const kt_model *model, kt_pages_info *out);

/* ---- adapters --------------------------------------------------------------------------------
 *
 * Low-rank adapters (LoRA, Hu et al. 2021) for a model whose weights do not change: to each
 * product y = W x that one names it adds scale * alpha / rank * B (A x). A request or a sequence
 * says which it is computed with; requests with different ones are computed together. Answers with
 * the same list of adapters and scales are the same bytes, whatever else is computed meanwhile.
 *
 * Threads: every call of this section, from any thread. */

/* path: a GGUF file as llama.cpp's converter writes it (general.type "adapter"); the programs of
 * kentang read PEFT's folders, too. KT_E_FORMAT: it is damaged, or shaped for another model;
 * KT_E_UNSUPPORTED: it is a folder, made for another architecture, or for a tensor that cannot be
 * adapted (the error names it); KT_E_NOMEM: over the context's budget. Close it before its model;
 * requests and sequences that use it keep what they need. */
KT_API kt_status KT_CHECKED kt_adapter_open(kt_model *model, const char *path, kt_adapter **out,
                                            kt_error *err);
/* The same from memory, which may go when the call is over. name: for messages, or NULL. */
KT_API kt_status KT_CHECKED kt_adapter_open_memory(kt_model *model, const void *data, size_t size,
                                                   const char *name, kt_adapter **out,
                                                   kt_error *err);
/* One more owner, who closes it too; returns adapter. */
KT_API kt_adapter *kt_adapter_hold(kt_adapter *adapter);
KT_API void kt_adapter_close(kt_adapter *adapter);

/* Pointers are valid while the adapter is open. */
typedef struct kt_adapter_info {
    const char *path;
    const char *name; /* general.name, else the file's */
    uint8_t id[32];   /* a hash of all that answers with it depend on */
    uint64_t bytes;   /* in memory */
    int32_t n_matrices; /* that it changes */
    int32_t rank_max;
    /* It acts after the last layer's keys and values only: what was cached of prompts without it is
     * used with it, and the reverse. */
    bool keeps_kv;
    /* It was trained from corrections alone (kt_learner_train), to be used where one of them opens:
     * kt_learned_adapter. Used by its path it is for every prompt. */
    bool scoped;
} kt_adapter_info;
KT_API void kt_adapter_get_info(const kt_adapter *adapter, kt_adapter_info *out);

/* One of a list; the deltas of several are added one after the other. */
typedef struct kt_adapter_use {
    kt_adapter *adapter; /* opened for the model, or for another opening of the same file */
    float scale; /* 1: as it was trained; 0: without it */
} kt_adapter_use;

/* ---- recall ----------------------------------------------------------------------------------
 *
 * An exact memory for a model whose weights do not change: pairs of a hidden state and the token
 * that follows it. Where an answer comes to a state that is nearly one of these, its
 * token becomes almost certain: with c the cosine of the nearest, the probabilities are mixed,
 *     p' = (1 - w) p + w [token],   w = 0.98 min(1, max(0, (c - cos_from) / (cos_full - cos_from)))
 * Of equally near ones the one that was added last counts. Where a request has a bank and its user's last
 * message has the words of an entry's question, the answer is found by the text instead: as long as it has been
 * the entry's, its next token is mixed in with 0.98. A state is kept as a key: the normed
 * state before the vocabulary's matrix in d_model bytes, each rounded to 1/127 of the largest.
 * Products of keys are whole numbers, so the same recall gives the same answer everywhere; K/V do
 * not change.
 *
 * A kt_recall is immutable: adding makes another one, which shares what it has in common.
 *
 * Threads: every call of this section, from any thread. kt_recall_keys waits for a computation. */

typedef struct kt_recall_params {
    int32_t n_max;   /* pairs; with more, the oldest sources go until a quarter is free; 0: 8192 */
    float cos_from;  /* 0 < cos_from < cos_full <= 1; 0: 0.90 */
    float cos_full;  /* 0: 0.97 */
} kt_recall_params;

typedef struct kt_recall_pairs {
    const int8_t *keys; /* [n][d_model] */
    const int32_t *ids; /* [n] */
    size_t n;           /* 1 to n_max */
    uint64_t source;    /* whose they are: kt_recall_uses counts by it, and the oldest go first */
    /* Of a correction: recalled only where an entry `source` of the request's bank opens, and of a
     * request without a bank everywhere. */
    bool scoped;
} kt_recall_pairs;

typedef struct kt_recall_info {
    int32_t n;       /* pairs */
    int32_t n_source;
    uint64_t bytes;
    uint8_t id[16];  /* a hash of all that answers with it depend on */
} kt_recall_info;

/* An empty one, for this model and other openings of the same file. params NULL: the default. Close
 * it before its model. */
KT_API kt_status KT_CHECKED kt_recall_open(kt_model *model, const kt_recall_params *params,
                                           kt_recall **out, kt_error *err);
/* recall and these; what pairs points to is copied. KT_E_ARG: a token that the vocabulary does not
 * have; KT_E_NOMEM: over the context's budget. */
KT_API kt_status KT_CHECKED kt_recall_add(const kt_recall *recall, const kt_recall_pairs *pairs,
                                          kt_recall **out, kt_error *err);
/* One more owner, who closes it too; returns recall. Both take NULL. */
KT_API kt_recall *kt_recall_hold(kt_recall *recall);
KT_API void kt_recall_close(kt_recall *recall);
KT_API void kt_recall_get_info(const kt_recall *recall, kt_recall_info *out);
/* Tokens that the pairs of a source have changed since they were added, in all recalls that share
 * them, and when last, on the monotonic clock (0: never). */
KT_API void kt_recall_uses(const kt_recall *recall, uint64_t source, uint64_t *n, int64_t *last_us);
/* A recall that was just made takes over what was counted in `before` of the sources that both have. */
KT_API void kt_recall_keep_uses(kt_recall *recall, const kt_recall *before);
/* Computes ids[n] and writes keys[n - first][d_model]: the first is of the state after ids[first].
 * adapters: those that it is computed with. */
KT_API kt_status KT_CHECKED kt_recall_keys(kt_engine *engine, const int32_t *ids, size_t n,
                                           size_t first, const kt_adapter_use *adapters,
                                           size_t n_adapters, int8_t *keys, kt_error *err);

/* ---- the bank of corrections -------------------------------------------------------------------
 *
 * What was corrected, each with the words that say what it is about, its subject: those that question and
 * answer share, without words that many texts have; names alone where there are any (docs/LEARNING.md).
 * An entry opens for a conversation if its subject is in a user's message of that, unless this and all later
 * ones are questions for another kind of thing. It is a pure function of the conversation's text and of the
 * entries. Of corrections of the same question the last one counts. kt_learner_get gives one;
 * kt_request_params.corrections.bank puts the entries that open into a prompt.
 *
 * Threads: every call of this section, from any thread. */

typedef struct kt_bank_info {
    uint64_t n_entries;
    uint64_t n_scoped;   /* with a subject: the others open for nothing */
    uint64_t n_replaced; /* by a later correction of the same question */
    uint64_t bytes;      /* in memory */
} kt_bank_info;

/* One more owner, who closes it too; returns bank. Both take NULL. */
KT_API kt_bank *kt_bank_hold(kt_bank *bank);
KT_API void kt_bank_close(kt_bank *bank);
KT_API void kt_bank_get_info(kt_bank *bank, kt_bank_info *out);

/* ---- text ------------------------------------------------------------------------------------
 *
 * Threads: every call of this section, from any thread, at the same time on one model. */

/* Flags of kt_tokenize and kt_detokenize. */
enum {
    KT_TOK_ADD_SPECIAL = 1,   /* BOS and EOS as the model's rules say */
    KT_TOK_PARSE_SPECIAL = 2, /* recognise control tokens written in the text */
    KT_TOK_RENDER_SPECIAL = 4 /* kt_detokenize: write control tokens' text instead of nothing */
};

/* Encodes text[len] to ids[cap]. *n is the full count even where it exceeds cap; then the first cap
 * ids are written and the status is KT_E_LIMIT. Of this and the calls below, KT_E_UNSUPPORTED: the
 * file has no vocabulary; KT_E_TRUNCATED: it was cut short while it was open. */
KT_API kt_status KT_CHECKED kt_tokenize(const kt_model *model, const char *text, size_t len,
                                        unsigned flags, int32_t *ids, size_t cap, size_t *n,
                                        kt_error *err);
/* The prompt of a reranker: a query and a document as the model wants them, to *ids[*n], freed with
 * kt_free, for a request with KT_POOLING_RANK and *pair_from. KT_E_UNSUPPORTED: the model is no
 * reranker. */
KT_API kt_status KT_CHECKED kt_tokenize_pair(const kt_model *model, const char *query,
                                             size_t query_len, const char *document,
                                             size_t document_len, int32_t **ids, size_t *n,
                                             int32_t *pair_from, kt_error *err);
/* Decodes ids[n] to text[cap], not NUL-terminated; it holds broken UTF-8 where the ids do. *len and
 * KT_E_LIMIT as above. KT_E_ARG: an id outside the vocabulary. */
KT_API kt_status KT_CHECKED kt_detokenize(const kt_model *model, const int32_t *ids, size_t n,
                                          unsigned flags, char *text, size_t cap, size_t *len,
                                          kt_error *err);
/* Whether id is in the model's end-of-generation set. */
KT_API bool kt_token_is_eog(const kt_model *model, int32_t id);

typedef struct kt_message {
    const char *role;    /* "system", "user", "assistant", "tool" */
    const char *content; /* UTF-8 */
} kt_message;

/* A PNG, JPEG or WebP file, whole. */
typedef struct kt_picture {
    const void *data;
    size_t len;
} kt_picture;

/* How a rendered conversation ends; of kt_chat_render, kt_chat_encode and kt_request_params. */
enum {
    KT_CHAT_GENERATE = 1, /* with what begins the assistant's turn */
    /* The last message, an assistant's, is how the answer begins: it follows what begins the turn,
     * without an end, and generation continues from it. */
    KT_CHAT_CONTINUE = 2
};

/* Renders the model's chat template over messages[n] into *out[*len], the prompt as the template
 * wrote it: NUL-terminated, freed with kt_free. A system message that the template refuses or drops
 * is merged into the first user message. KT_E_UNSUPPORTED: the model has no template;
 * KT_E_TEMPLATE: the template failed, or refuses these messages; KT_E_LIMIT: it exceeded a limit of
 * the interpreter; KT_E_ARG: a message is not UTF-8, or KT_CHAT_CONTINUE has no assistant's message
 * after others to continue from. */
KT_API kt_status KT_CHECKED kt_chat_render(const kt_model *model, const kt_message *messages,
                                           size_t n, unsigned flags, char **out, size_t *len,
                                           kt_error *err);
/* The same from JSON: an array of messages, or an object {"messages": [...], "tools": [...],
 * "add_generation_prompt": true, ... further variables of the template}. KT_E_FORMAT: no JSON. */
KT_API kt_status KT_CHECKED kt_chat_render_json(const kt_model *model, const char *json,
                                                size_t json_len, char **out, size_t *len,
                                                kt_error *err);
/* Renders and encodes to *ids[*n_ids], freed with kt_free. Control tokens are recognised only in
 * what the template itself wrote, never in the messages. */
KT_API kt_status KT_CHECKED kt_chat_encode(const kt_model *model, const kt_message *messages,
                                           size_t n, unsigned flags, int32_t **ids, size_t *n_ids,
                                           kt_error *err);
/* The prompt of a request as kt_engine_submit would render and encode it, whatever its length, to
 * *out[*len], NUL-terminated, or *ids[*n], freed with kt_free. Of the request only its conversation
 * counts. Errors as above. */
KT_API kt_status KT_CHECKED kt_request_render(const kt_model *model,
                                              const kt_request_params *request, char **out,
                                              size_t *len, kt_error *err);
KT_API kt_status KT_CHECKED kt_request_encode(const kt_model *model,
                                              const kt_request_params *request, int32_t **ids,
                                              size_t *n, kt_error *err);
/* For what a call of this header allocated and says so; NULL is allowed. */
KT_API void kt_free(void *data);

/* ---- engine ----------------------------------------------------------------------------------
 *
 * Threads: kt_engine_params_default, kt_engine_open, kt_engine_plan, kt_engine_get_info,
 * kt_engine_cancel and kt_engine_resume from any thread, at any time; kt_engine_cancel also from a
 * signal handler; kt_engine_close as any close. */

/* How keys or values are held. A query reads the page that it is in (16 positions) as f16, and
 * those of the tail before it (kv_tail); in another form than f16, it reads all earlier pages in
 * that form, but with 4 bits the first one, and answers are others than with f16, the same wherever
 * and however they are computed. Numbers are part of files. */
typedef enum kt_kv_type {
    KT_KV_F16,  /* as computed */
    KT_KV_Q8_0, /* 8 bits and a scale for a head's numbers at a position: a little over half */
    /* 4 bits and a scale, in the same way: a little over a quarter. Keys of layers with a
     * key bias far beyond the others' (of Qwen2 and 2.5) stay f16. */
    KT_KV_Q4_0,
    KT_KV_TYPES
} kt_kv_type;
/* "f16", "q8_0", "q4_0"; NULL for no type. */
KT_API const char *kt_kv_type_name(kt_kv_type type);
/* The type of such a name, or KT_KV_TYPES. */
KT_API kt_kv_type kt_kv_type_named(const char *name);

/* What may be turned from f16 to 8 bits, and from these to 4, where the K/V store is full, before anything is given up, suspended or refused.
 * It is computed with from then on: answers are others than without, by little, and depend on when that was. */
typedef enum kt_kv_pressure {
    KT_KV_PRESSURE_OFF,   /* nothing */
    KT_KV_PRESSURE_CACHE, /* what is kept for later prompts alone */
    KT_KV_PRESSURE_ALL,   /* the older positions of running answers, too */
    KT_KV_PRESSURES
} kt_kv_pressure;

/* Who proposes tokens. Where there is no draft model, that of the file proposes, if it has one: a block
 * for multi-token prediction. */
typedef enum kt_draft_from {
    KT_DRAFT_ANY,   /* the text so far, else the draft model */
    KT_DRAFT_TEXT,  /* the text so far alone */
    KT_DRAFT_MODEL, /* the draft model alone */
    KT_DRAFT_FROMS
} kt_draft_from;

typedef struct kt_engine_params {
    /* Positions that a sequence may hold. 0: the model's, at most 4096, or up to 32768 as far as an
     * eighth of the memory that is free holds the K/V of one such sequence. */
    int32_t n_ctx;
    int32_t n_batch;         /* tokens taken by one prefill call at a time; 0: 2048 */
    int32_t n_ubatch;        /* tokens computed together; 0: 512 */
    int32_t n_seq_max;       /* sequences alive at once; 0: 8 */
    int32_t n_threads;       /* for decoding; 0: the context's, as it changes */
    int32_t n_threads_batch; /* for prompts; 0: the context's, as it changes */
    /* For keys and values; 0: n_ctx positions for each of n_seq_max sequences, less where memory is
     * short, but one sequence's at least. */
    uint64_t kv_bytes;

    /* Of the scheduler, see "requests". */
    int32_t n_parallel;  /* answers computed together; 0: what memory allows, at most 16 */
    int32_t n_queue_max; /* requests that may wait; 0: 256 */
    /* The longest pause in a running answer to aim for while prompts are computed; 0: 200. */
    int32_t gap_ms;
    /* A model that proposes tokens: of the same context, with the same vocabulary, or the assistant of a
     * gemma4 model, which reads that model's K/V; it outlives the engine. NULL: none. */
    kt_model *draft;
    int32_t n_draft; /* tokens proposed at once; 0: 8; -1: no speculation */

    /* Of the controller: with `optimize` the scheduler changes, while it runs, how many answers are
     * computed together (1 to n_parallel) and how long a prompt may hold them up (up to gap_ms), so
     * that these targets are met; and an answer begins only where all that run can be expected to end
     * within the memory threshold, so that none is suspended and computed again. No answer's bytes
     * depend on any of it. */
    bool optimize;             /* false */
    int32_t target_latency_ms; /* between two tokens of an answer; 0: 100 */
    double min_throughput;     /* tokens a second of all answers together; 0: 50 */
    double memory_threshold;   /* share of the context's budget, and of the K/V store; 0: 0.9 */

    kt_kv_type kv_keys, kv_values; /* f16; of an encoder f16 whatever is asked */
    /* Positions before its own page that a query reads as f16, up to a whole page; at most n_ctx.
     * 0: 256 where keys or values have 4 bits, else none; -1: none. */
    int32_t kv_tail;
    kt_draft_from draft_from;
    kt_kv_pressure kv_pressure; /* off; needs keys and values in f16, of a model that this process computes alone */
} kt_engine_params;

typedef struct kt_engine_info {
    /* As in kt_engine_params, with the values that took the place of 0. */
    int32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_threads, n_threads_batch;
    uint64_t kv_bytes_max;  /* address space; memory is touched as positions are used */
    uint64_t kv_bytes_used; /* pages in use, with those that are only kept for later prompts */
    uint64_t scratch_bytes; /* kt_mem_plan's */
    int32_t n_parallel, n_queue_max, gap_ms, n_draft;
    uint64_t mem_budget_bytes;  /* the context's */
    uint64_t mem_planned_bytes; /* the sum of this engine's plan */
    kt_kv_type kv_keys, kv_values;
    uint64_t kv_f16_bytes; /* kt_mem_plan's */
    uint64_t state_bytes; /* kt_mem_plan's */
    int32_t kv_tail;         /* 0: none */
    int32_t n_f16_layers;    /* whose keys are f16, though kv_keys is not */
    uint64_t kv_draft_bytes; /* kt_mem_plan's */
    uint64_t expert_kept_bytes, expert_bytes; /* kt_mem_plan's */
} kt_engine_info;

/* What an engine with such parameters will use, before anything is allocated. What is 0 in the
 * parameters is filled in from the context's budget. The sum is kept at run time. */
typedef struct kt_mem_plan {
    uint64_t budget_bytes;  /* the context's */
    uint64_t others_bytes;  /* taken by other models and engines of the context */
    uint64_t weights_bytes; /* of this model, mapped or not, but for tables of which tokens read rows */
    uint64_t kv_bytes;      /* K/V of requests and sequences, and what is kept of earlier ones */
    uint64_t scratch_bytes; /* what batches touch at most; their address space is larger */
    uint64_t draft_bytes;   /* K/V and scratch of the draft model; 0 with a block of the file: */
    uint64_t tables_bytes;  /* tokens, block tables, logits kept */
    uint64_t total_bytes;   /* of this engine and its model */
    int64_t kv_positions;   /* that kv_bytes holds */
    int32_t n_ctx, n_batch, n_ubatch, n_parallel, n_seq_max;
    bool weights_counted; /* false: a default budget, and the weights are mapped */
    /* pages in f16 that are being written, or read so, where keys or values are not */
    uint64_t kv_f16_bytes;
    kt_kv_type kv_keys, kv_values;
    uint64_t state_bytes; /* states of recurrent layers: of answers, sequences, and snapshots */
    int32_t kv_tail;      /* 0: none */
    int32_t n_f16_layers; /* whose keys are f16, though kv_keys is not */
    /* of kv_positions, in layers with a sliding window: the windows of answers, and some that are
     * kept where conversations may branch; 0: there are none */
    int64_t kv_window_positions;
    uint64_t kv_draft_bytes; /* of kv_bytes: of the file's block that proposes tokens; 0: none does */
    /* Of a model with experts whose weights are more than the budget leaves: of weights_bytes those of experts, which
     * are kept by use while the others are read from the file as they are needed; 0: all are mapped. */
    uint64_t expert_kept_bytes;
    uint64_t expert_bytes; /* then: of all experts */
} kt_mem_plan;

KT_API kt_engine_params kt_engine_params_default(void);
/* Sets the types of keys and values: "f16", "q8", "q4", "k8v4" (keys in 8 bits, values in 4); or,
 * of a preset, "chat-short" (a tail of 128, q8, a context of 2048), "chat-long" (256, q4, 8192),
 * "document-qa" (512, q4, 16384), "code" (128, q8, 4096) or "cpu" (128, q4, 2048), the tail and the
 * context, too, where they are 0. False: no such name; params are as they were. Any thread. */
KT_API bool kt_kv_named(const char *name, kt_engine_params *params);
/* params NULL: the default. KT_E_NOMEM says by how much it does not fit, and what would;
 * KT_E_STATE: the model was opened with vocab_only; KT_E_ARG: a parameter out of range. */
KT_API kt_status KT_CHECKED kt_engine_open(kt_model *model, const kt_engine_params *params,
                                           kt_engine **out, kt_error *err);
/* Errors as of kt_engine_open, by the plan alone. With KT_E_NOMEM out has the budget and what others
 * take of it. */
KT_API kt_status KT_CHECKED kt_engine_plan(const kt_model *model, const kt_engine_params *params,
                                           kt_mem_plan *out, kt_error *err);
KT_API void kt_engine_close(kt_engine *engine);
KT_API void kt_engine_get_info(const kt_engine *engine, kt_engine_info *out);
/* Makes the running evaluation, and those that follow until kt_engine_resume, return
 * KT_E_CANCELLED. */
KT_API void kt_engine_cancel(kt_engine *engine);
KT_API void kt_engine_resume(kt_engine *engine);

/* ---- sequences -------------------------------------------------------------------------------
 *
 * Threads: every call of this section as calls on the engine; one thread at a time on a kt_seq. */

KT_API kt_status KT_CHECKED kt_seq_open(kt_engine *engine, kt_seq **out, kt_error *err);
KT_API void kt_seq_close(kt_seq *seq);
/* A second sequence with the same tokens and K/V; pages are shared until one of the two writes. */
KT_API kt_status KT_CHECKED kt_seq_copy(kt_seq *seq, kt_seq **out, kt_error *err);
/* Keeps the first n_keep positions; the logits are gone until the next evaluation. */
KT_API kt_status KT_CHECKED kt_seq_truncate(kt_seq *seq, size_t n_keep, kt_error *err);
/* What seq is computed with from now on, evaluations and requests alike; n 0: no adapter. Where its
 * K/V differ with the new list, all that it holds goes; its logits go where the list is another. */
KT_API kt_status KT_CHECKED kt_seq_set_adapters(kt_seq *seq, const kt_adapter_use *uses, size_t n,
                                                kt_error *err);
KT_API size_t kt_seq_len(const kt_seq *seq);
/* [kt_seq_len]; valid until the next call on seq. */
KT_API const int32_t *kt_seq_tokens(const kt_seq *seq);

/* Appends ids[n] (n >= 1) and computes them, in slices of n_ubatch. On any error, KT_E_CANCELLED
 * included, the sequence is as it was before the call. KT_E_CONTEXT_FULL if they do not fit n_ctx.
 */
KT_API kt_status KT_CHECKED kt_seq_eval(kt_seq *seq, const int32_t *ids, size_t n, kt_error *err);
/* Logits after the last evaluated token: [n_vocab] f32; NULL before the first evaluation, after a
 * truncation, and after an answer that was cancelled between two tokens. Valid until the next call
 * on seq. */
KT_API const float *kt_seq_logits(const kt_seq *seq);

/* Several sequences in one batch: every item's ids are appended to its sequence (each sequence at
 * most once). The result is bit for bit that of evaluating them one after the other. */
typedef struct kt_eval_item {
    kt_seq *seq;
    const int32_t *ids;
    size_t n;
    /* NULL, or [n][n_vocab] f32 to receive the logits after each of the n tokens */
    float *all_logits;
} kt_eval_item;
KT_API kt_status KT_CHECKED kt_engine_eval(kt_engine *engine, const kt_eval_item *items,
                                           size_t n_items, kt_error *err);

/* ---- generation ------------------------------------------------------------------------------
 *
 * Threads: kt_generate and kt_chat as calls on the engine, one thread at a time on a kt_seq; the
 * others are pure, any thread. */

typedef struct kt_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY forbids */
} kt_logit_bias;

/* The sampler chain. Defaults are those that users of llama.cpp expect. A member at its "off" value
 * leaves its step out. temperature <= 0 is greedy: the most probable token, lowest id on ties,
 * after penalties and bias. */
typedef struct kt_sampling {
    uint64_t seed;              /* KT_SEED_RANDOM: drawn from the system, reported in the result */
    float temperature;          /* 0.8 */
    float dynatemp_range;       /* 0 = off */
    float dynatemp_exponent;    /* 1 */
    int32_t top_k;              /* 40; 0 = off */
    float top_p;                /* 0.95; 1 = off */
    float min_p;                /* 0.05; 0 = off */
    float typical_p;            /* 1 = off */
    float top_n_sigma;          /* -1 = off */
    float xtc_probability;      /* 0 = off */
    float xtc_threshold;        /* 0.1 */
    int32_t repeat_last_n;      /* 64; 0 = off, -1 = whole context */
    float repeat_penalty;       /* 1 = off */
    float frequency_penalty;    /* 0 = off */
    float presence_penalty;     /* 0 = off */
    float dry_multiplier;       /* 0 = off */
    float dry_base;             /* 1.75 */
    int32_t dry_allowed_length; /* 2 */
    int32_t dry_penalty_last_n; /* -1 = whole context */
    /* [n_dry_breakers]; NULL: newline, colon, quote, asterisk */
    const char *const *dry_breakers;
    size_t n_dry_breakers;
    int32_t mirostat;           /* 0 = off, 1, 2 */
    float mirostat_tau;         /* 5 */
    float mirostat_eta;         /* 0.1 */
    /* Order of steps; NULL: "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature" */
    const char *chain;
    const kt_logit_bias *logit_bias; /* [n_logit_bias] */
    size_t n_logit_bias;
    int32_t min_keep;           /* 0; candidates that truncating steps leave at least */
    int32_t mt19937;            /* 0; 1: tokens are chosen by the random numbers that llama.cpp draws with this seed */
} kt_sampling;
#define KT_SEED_RANDOM UINT64_MAX

KT_API kt_sampling kt_sampling_default(void);

/* The sampler chain alone, for programs that evaluate tokens themselves: where logits, sampling and
 * the tokens accepted before are those of kt_generate, so is the token that it draws. A kt_sampler
 * lives within its model; one thread at a time.
 *
 * n_ctx: what "whole context" means for penalties, 1 to KT_CTX_MAX: an engine's n_ctx. sampling
 * NULL: the default; what it points to is copied. KT_E_ARG: a member out of range. */
KT_API kt_status KT_CHECKED kt_sampler_open(const kt_model *model, const kt_sampling *sampling,
                                            int32_t n_ctx, kt_sampler **out, kt_error *err);
KT_API void kt_sampler_close(kt_sampler *sampler);
/* The next token of the sequence, of the prompt or sampled: penalties look back at it, and the
 * number of accepted tokens is the position of the one that is drawn next. KT_E_ARG: no token of
 * this vocabulary. */
KT_API kt_status KT_CHECKED kt_sampler_accept(kt_sampler *sampler, int32_t id, kt_error *err);
/* Draws a token from logits[n_vocab] f32, which stay as they are; -INFINITY forbids a token. It is
 * not accepted by that: drawn again, it is the same. KT_E_NUMERIC: a logit is NaN or +INFINITY, or
 * every token is forbidden. */
KT_API kt_status KT_CHECKED kt_sampler_sample(kt_sampler *sampler, const float *logits, int32_t *id,
                                              kt_error *err);
/* Forgets what was accepted: as it was opened, with the same seed. */
KT_API void kt_sampler_reset(kt_sampler *sampler);
/* The seed in use, which KT_SEED_RANDOM drew. */
KT_API uint64_t kt_sampler_seed(const kt_sampler *sampler);

typedef enum kt_finish {
    KT_FINISH_NONE,      /* still running */
    KT_FINISH_EOG,       /* the model ended its turn */
    KT_FINISH_STOP,      /* a stop string */
    KT_FINISH_LENGTH,    /* n_predict tokens */
    KT_FINISH_CONTEXT,   /* the context is full */
    KT_FINISH_CANCELLED,
    KT_FINISH_ERROR,
    KT_FINISH_DEADLINE,  /* deadline_ms has passed */
    KT_FINISH_LOOP,      /* loop_tokens of the same over and over */
    KT_FINISH_COUNT
} kt_finish;
KT_API const char *kt_finish_name(kt_finish finish); /* "eog", "stop", "length", "context", ... */

typedef struct kt_gen_params {
    kt_sampling sampling;
    int32_t n_predict;       /* tokens at most; -1: until the end of turn or the context */
    const char *const *stop; /* [n_stop] strings that end the text and are not part of it */
    size_t n_stop;
    bool ignore_eog;         /* continue past the end of turn (benchmarks) */
    /* 0: off; else 16 or more: the answer ends where its last loop_tokens tokens are one run of at
     * most 256 tokens, repeated at least four times. */
    int32_t loop_tokens;
    /* 0; until there are so many tokens, none that ends the turn is drawn and no stop string counts. An
     * answer held to a form ends with the form. */
    int32_t min_tokens;
} kt_gen_params;

/* Why less of the prompt was found than there might have been. */
typedef struct kt_cache_miss {
    bool known;           /* the prompt departs from one that was seen before, in the same scope */
    int32_t at;           /* index of the first token that differs */
    int32_t message;      /* in which of kt_request_params.prompt.messages; -1: unknown */
    int32_t n_lost;       /* tokens computed again that the earlier prompt would have saved */
    int64_t cost_us;      /* what these cost, by the measured rate */
    char was[64], is[64]; /* the text there, earlier and now, cut at whole characters */
} kt_cache_miss;

enum { KT_NOTES_MAX = 8 }; /* in a prompt */

/* The account of an answer, however it was asked for. Times are wall time in microseconds; those
 * from tokenize_us to held_us sum to total_us. */
typedef struct kt_request_report {
    kt_finish finish;
    uint64_t seed;                 /* repeats the answer */
    int32_t n_prompt;              /* prompt tokens */
    int32_t n_cached;              /* of these, found in the sequence or left by earlier prompts */
    int32_t n_generated;           /* sampled tokens, the end-of-turn token included */
    int32_t n_reasoning;           /* of these, before the reasoning was over, where the answer is split */
    int32_t n_calls;               /* calls of tools, where the answer is split */
    int32_t n_preempted;           /* times it was suspended */
    int32_t n_recomputed;          /* tokens computed again after that */
    int32_t n_drafted, n_accepted; /* tokens proposed by speculation; those that were right */
    int32_t stop;                  /* KT_FINISH_STOP: index in kt_gen_params.stop; else -1 */
    int64_t total_us;              /* from the submission to the end */
    int64_t first_token_us;        /* from the submission; 0: none came */
    int64_t tokenize_us;           /* template and tokenizer */
    int64_t queue_us;              /* until it was started, and while suspended */
    int64_t prefill_us;            /* in batches of its prompt */
    int64_t decode_us;             /* in batches of its tokens */
    int64_t sample_us;             /* sampler, text, stop strings, callbacks */
    int64_t wait_us;               /* started, while batches of other requests ran */
    int64_t held_us;               /* while the reader of its events did not keep up */
    /* the largest of these times: "queue", "tokenize", "prefill", "decode", "sampling",
     * "other requests", "reader" */
    const char *bottleneck;
    kt_cache_miss miss;
    int64_t lora_us; /* of prefill_us and decode_us, in the terms of its adapters */
    /* [n_learned]: feedbacks that the answer was made with: those that kt_request_learned gives, then, while there is
     * room, those that a token of it was recalled of */
    uint64_t learned[KT_NOTES_MAX];
    int32_t n_learned;
    int32_t n_dropped; /* tokens that a full context lost: kt_request_params.overflow.shift */
    int32_t n_pressed; /* positions whose K/V were in fewer bits for kt_engine_params.kv_pressure, at most at once */
} kt_request_report;

/* Receives text as it is decided: whole UTF-8 characters, never part of a stop string. `id` is the
 * token that released it (-1 for what was held back at the end). Return false to cancel. Called on
 * the thread that called; may call the functions on models, not those on the same sequence. */
typedef bool kt_text_fn(void *user, const char *text, size_t len, int32_t id);

KT_API kt_gen_params kt_gen_params_default(void);
/* Appends ids[n] to seq, then samples until a stop. A prompt that does not fit the context is
 * refused with KT_E_CONTEXT_FULL before anything is computed. The generated tokens stay in seq,
 * except the last one sampled, which is not evaluated. n may be 0 when seq has logits. Where the
 * answer is broken off (on_text, kt_engine_cancel) or fails before all of the prompt was computed,
 * seq is as it was; else it ends where the answer does, and kt_seq_logits may be NULL. params and
 * report may be NULL. Short for kt_request_run with kt_request_params.seq. */
KT_API kt_status KT_CHECKED kt_generate(kt_seq *seq, const int32_t *ids, size_t n,
                                        const kt_gen_params *params, kt_text_fn *on_text,
                                        void *user, kt_request_report *report, kt_error *err);
/* Renders and encodes the whole conversation, keeps what seq already holds of it, and generates the
 * next assistant message. */
KT_API kt_status KT_CHECKED kt_chat(kt_seq *seq, const kt_message *messages, size_t n_messages,
                                    const kt_gen_params *params, kt_text_fn *on_text, void *user,
                                    kt_request_report *report, kt_error *err);

/* ---- requests: many at once ------------------------------------------------------------------
 *
 * A request is submitted to the engine's scheduler, which computes many together, and answers with
 * events. It needs no kt_seq: the engine takes K/V pages as the answer grows, finds what earlier
 * prompts left, and gives everything back at the end. The same request gives the same bytes however
 * it is batched, delayed, preempted or cached, and the same as kt_generate with an empty sequence.
 *
 * All that an engine computes goes this way: kt_generate, kt_chat, kt_embed and kt_seq_eval are
 * requests, or as good as, that their caller waits for. The engine is driven by a thread of its own
 * (kt_engine_start), or else by its callers: by kt_engine_step, and by each call that waits.
 *
 * Threads: every call of this section may come from any thread, one thread at a time on a
 * kt_request; kt_request_cancel at any time and from a signal handler. */

/* What a text may be. JSON follows RFC 8259, members' names are unique; docs/PROTOCOL.md
 * has the keywords of schemas and the limits. */
typedef enum kt_form_kind {
    KT_FORM_JSON_OBJECT, /* any */
    KT_FORM_JSON_SCHEMA, /* a JSON value that is valid by the schema `text` */
    KT_FORM_GRAMMAR,     /* what the GBNF grammar `text` takes, from its rule root */
    KT_FORM_REGEX,       /* what the regular expression `text` takes as a whole */
    KT_FORM_CHOICE,      /* one of choices[n_choices] */
    KT_FORM_PIECES       /* fixed texts, JSON values and characters up to a mark, as the JSON object `text`
                          * describes them (docs/TOOLS.md); a control token's name in a fixed text means
                          * the token */
} kt_form_kind;

typedef struct kt_form {
    kt_form_kind kind;
    const char *text;
    size_t len; /* of text */
    const char *const *choices;
    size_t n_choices;
    bool blanks;    /* false; JSON may have white space anywhere between its parts: a space, or a
                     * line end with at most 20 blanks; and integers a fraction of zeros */
    bool any_order; /* false: an object's properties come in the order of its schema */
    /* The texts before and after it, NULL: none. A control token's name means the token.
     * Before `after`, a body that is not JSON extends as far as it can. */
    const char *before, *after;
} kt_form;

/* Constrains an answer to one of its forms, and ends the answer with it; all zeros: none. With
 * triggers the text is free at first, and one of the forms must follow as soon as one of the
 * triggers has been written, by whatever tokens (a control token's name means the token). With
 * repeat the answer continues after a form: free again until the next trigger, or, without
 * triggers, with another form or the end. So { a schema } alone is an answer in JSON; { a schema,
 * trigger "</think>" } the same after a text that ends so; { forms, trigger "<tool_call>", repeat }
 * calls among free text; { forms, repeat } calls and nothing else.
 *
 * Of a JSON Schema an object has declared properties alone, unless the schema says what others may
 * be (additionalProperties, unevaluatedProperties): a value of such a form is always valid by it.
 *
 * Forms are compiled by the call that submits the request. KT_E_FORMAT: one is malformed;
 * KT_E_UNSUPPORTED: it cannot be enforced exactly, and nothing was computed; KT_E_LIMIT: it is over
 * a limit of its size, or of the memory and steps of compiling. The error's place is
 * "constraint.forms[0]" followed by a JSON pointer into the schema, and its message begins with the
 * keyword. An answer ends with KT_FINISH_ERROR where its constraint runs out of memory or steps
 * later on. At most 256 forms and 64 triggers. */
typedef struct kt_constraint {
    const kt_form *forms;
    size_t n_forms;
    const char *const *triggers;
    size_t n_triggers;
    bool repeat;
    /* false; the answer closes before n_predict: a token after which no way to an end were left is
     * not taken, but the shortest that is known. Where n_predict is too short for any, it is
     * cut. */
    bool finish_within;
    /* false; JSON has no white space between its parts, nor have arguments of calls. Else it may have
     * what models write by themselves: a space after a colon and a comma, or a line for each part
     * of an object or a list, indented by the same step throughout. */
    bool compact;
} kt_constraint;

enum {
    KT_LOGPROBS_MAX = 20,
    KT_CHOICES_MAX = 128,
    KT_PRIORITY_MAX = 100, /* and its negative */
};

/* What a part of an answer's text is. */
typedef enum kt_part_kind {
    KT_PART_CONTENT,
    KT_PART_REASONING, /* what the model thinks before it answers */
    KT_PART_CALL       /* of a tool */
} kt_part_kind;

typedef struct kt_part {
    kt_part_kind kind;
    const char *text; /* of a call: what comes next of its arguments, one JSON object in all */
    size_t len;
    int32_t call;     /* CALL: which of the answer's, from 0 */
    const char *id;   /* CALL: its id and the tool's name where it begins, else NULL */
    const char *name;
} kt_part;

/* Receives parts as they are decided, whole UTF-8 characters. Return false to cancel. As
 * kt_text_fn. */
typedef bool kt_part_fn(void *user, const kt_part *part);

typedef struct kt_event kt_event;
/* Called by the thread that drives the engine (and by kt_engine_stop and kt_engine_close for what
 * they end): it must not block. It may call kt_engine_submit, kt_request_cancel, kt_request_close,
 * kt_engine_get_stats and the functions on models; not those on sequences, nor kt_engine_step,
 * start and stop. What the event points to is valid during the call. */
typedef void kt_event_fn(void *user, const kt_event *event);
/* For readers that wait for many requests at once: called for each event that kt_request_next_event
 * will give, by the thread that made it. It must not block and call nothing of this library; set a
 * flag and wake the reader. None comes after kt_request_close has returned. */
typedef void kt_ready_fn(void *user);

/* What becomes of a conversation that does not fit n_ctx with room for an answer. */
typedef enum kt_shorten {
    KT_SHORTEN_NONE, /* it is refused, KT_E_CONTEXT_FULL */
    /* Its oldest messages are left out, whole turns from a user's message to before the next one,
     * as few as make it fit; system and developer messages and the last turn stay. Kept free is
     * room for n_predict tokens or, without, a quarter of n_ctx, at most half, as long as there is
     * a turn to leave out. With split, kt_request_notes says how many went. */
    KT_SHORTEN_OLDEST_TURNS
} kt_shorten;

/* The parts of kt_request_params, a structure for each of its subjects. The default of a member is 0, NULL or false
 * where nothing else is said; kt_request_params_default sets all of them. */

/* What is answered: one of ids, text, messages and chat_json. */
typedef struct kt_prompt {
    const int32_t *ids;         /* [n_ids] */
    size_t n_ids;
    int32_t pair_from;          /* tokens of the first text, where ids are a pair; see kt_tokenize_pair */
    const char *text;           /* raw */
    size_t text_len;            /* bytes */
    unsigned text_flags;        /* KT_TOK_ADD_SPECIAL (default) | KT_TOK_PARSE_SPECIAL */
    /* NULL, or what follows a gap after text: the answer fills it in. text_flags do not count.
     * KT_E_UNSUPPORTED: the vocabulary has no tokens for that. */
    const char *fim_suffix;
    size_t fim_suffix_len;      /* bytes */
    const kt_message *messages; /* [n_messages], through the chat template, as kt_chat */
    size_t n_messages;
    const char *chat_json;      /* as kt_chat_render_json takes it */
    size_t chat_json_len;       /* bytes */
    unsigned chat_flags;        /* of both: KT_CHAT_GENERATE (default), KT_CHAT_CONTINUE, or 0 */
    /* Of both: NULL, or a JSON object of further variables for the template, NUL-terminated:
     * {"enable_thinking": false}. */
    const char *template_vars;
    /* Of chat_json: its pictures, in the order of the parts {"type": "image"} of its contents. They are read
     * during the call, and turned as their EXIF says; a picture that was seen before is found again with the
     * prompt, and costs nothing then. KT_E_UNSUPPORTED: the model sees none (kt_model_params.mmproj), or a
     * picture is animated or of another format; KT_E_FORMAT: it is damaged; KT_E_LIMIT: too large; KT_E_BUSY:
     * those that wait take all the room; the error's `where` is "pictures[1]". Without a sequence, an embedding
     * and log-probabilities of the prompt, and `corrections.keep` means nothing. */
    const kt_picture *pictures;
    size_t n_pictures;
} kt_prompt;

/* The tools of a conversation that the answer may call. */
typedef struct kt_call_params {
    /* NULL, or an array as NUL-terminated JSON, in the words of OpenAI's, Responses' or Anthropic's interface. */
    const char *tools;
    /* Which of them may or must be called, in the same words: "auto" (NULL), "none", "required", an object with a
     * name ... NUL-terminated JSON. */
    const char *choice;
    bool one;    /* at most one call an answer */
    /* A call counts in other spellings than the model's template asks for, too: JSON with a name and arguments,
     * bare or in a fence, other families' tags, NAME({...}) in a line of its own. Not where constraint has forms. */
    bool native;
} kt_call_params;

/* The answer as parts: what the model thinks, says and calls apart. */
typedef struct kt_part_params {
    bool split;           /* events have `parts`, and `text` is what the model says */
    kt_part_fn *on_part;  /* with split, of kt_request_run: gets the parts, and on_text nothing */
    /* With split: tokens after which reasoning is closed by force, and the answer begins; 0: no limit; -1: at
     * once. */
    int32_t reasoning_budget;
} kt_part_params;

/* What earlier corrections do to the answer. */
typedef struct kt_correction_params {
    /* NULL, or what the answer recalls, held until the end. On a sequence that continues where it was evaluated
     * (seq_append without a prompt) the first token is the model's own. */
    kt_recall *recall;
    /* NULL, or the bank whose entries that open for the conversation enter its prompt as notes, each before the
     * user's message that opened it first: question and answer as plain text, whatever they look like. At most
     * KT_NOTES_MAX, what the latest messages opened before others, within note_tokens (0: 512, at most a quarter of
     * n_ctx; -1: no notes, the bank says only what `recall` is for); none where the prompt would not fit with them.
     * Where nothing opens, the prompt and the answer are the same as without a bank and without the recall of its
     * entries. Of prompts that are no conversation it means nothing. */
    kt_bank *bank;
    int32_t note_tokens;
    uint64_t recited; /* 0, or the entry of `bank` whose correction is the answer, word for word: of kt_notes_judge */
    /* Notes also where a question has an entry's subject and no other word of it, nor asks for its kind of thing: for
     * models that tell questions apart (kt_probe_result.judges). */
    bool doubtful;
    bool keep; /* what kt_request_get_kept gives is kept: tokens, and keys of the states they were drawn from */
} kt_correction_params;

typedef struct kt_logprob_params {
    int32_t n;          /* -1 (default): none; 0: of each token of the answer; n: of the n most probable, too */
    bool post_sampling; /* of what the sampler chain has left, from which tokens are drawn */
    /* Of the prompt's tokens as well, kt_event.prompt. The whole prompt is computed then; without a sequence, no
     * embedding. */
    bool prompt;
} kt_logprob_params;

/* An embedding of the prompt instead of an answer. */
typedef struct kt_embedding_params {
    kt_pooling pooling; /* KT_POOLING_NONE: an answer */
    bool normalize;     /* true; it has length 1 */
    /* With KT_POOLING_MEAN: gets the keys of the states after each token from keys_first on, as kt_recall_keys
     * writes them; NULL: they are not wanted. It outlives the request. */
    int8_t *keys;
    size_t keys_first;
} kt_embedding_params;

/* How the engine serves the request among others. */
typedef struct kt_service_params {
    int32_t priority;        /* the higher goes first, and may suspend a lower one */
    /* After the submission; 0: none. Refused at once where the prediction says that n_predict tokens (with -1: the
     * first) will not be there in time; ended with KT_FINISH_DEADLINE when it passes. */
    int64_t deadline_ms;
    const char *client;      /* a key's name, a peer's uid; clients get equal shares; NULL: "" */
    const char *cache_scope; /* prompts are found again within a scope only; NULL: the client */
    bool no_cache;           /* neither looks for K/V pages of earlier prompts nor leaves any */
    bool exact_kv; /* kt_engine_params.kv_pressure is for others: its answer is that of an engine without */
} kt_service_params;

/* What becomes of a text that does not fit the context. */
typedef struct kt_overflow_params {
    kt_shorten shorten; /* of messages; KT_E_UNSUPPORTED with chat_json or a sequence */
    /* An answer that fills the context continues: of the text after its first n_keep tokens (-1: the prompt) the
     * older half is dropped, and the rest is computed again, as a prompt without it would be. One choice, without a
     * sequence and without pictures; what it computes again is reported as n_recomputed. */
    bool shift;
    int32_t n_keep;
} kt_overflow_params;

/* How its events come. */
typedef struct kt_event_params {
    kt_event_fn *on_event; /* NULL: kt_request_next_event */
    kt_ready_fn *on_ready; /* without on_event: an event waits to be read; may be NULL */
    void *user;
    /* PROGRESS events, before the first token: what is known of the prompt, and after each batch with tokens of it.
     * One that reads slowly misses some. */
    bool progress;
} kt_event_params;

/* Everything is copied by kt_engine_submit. */
struct kt_request_params {
    kt_prompt prompt;
    /* NULL, or the sequence that the answer continues: its tokens and the prompt's stay there, as kt_generate says.
     * What it holds of the prompt is kept, the rest goes (also where the request is refused for its deadline); with
     * seq_append the prompt is appended to all that it holds, and may be missing if it has logits. The sequence is
     * the request's until FINISHED: calls on it are refused with KT_E_STATE. Such a request is not refused for
     * others that wait, and goes before them; one choice, no embedding. */
    kt_seq *seq;
    bool seq_append;
    int32_t n_choices;        /* 1; answers to the one prompt, differing by their random numbers */
    kt_gen_params gen;
    kt_constraint constraint; /* of each choice's text */
    kt_call_params calls;
    kt_part_params parts;
    /* Computed with these adapters of the model, held until the end. KT_E_ARG: one of another model; with a
     * sequence, whose own count (kt_seq_set_adapters). */
    const kt_adapter_use *adapters;
    size_t n_adapters;
    kt_correction_params corrections;
    kt_logprob_params logprobs;
    kt_embedding_params embedding;
    kt_service_params service;
    kt_overflow_params overflow;
    kt_event_params events;
};

typedef enum kt_event_kind {
    KT_EVENT_STARTED,  /* leaves the queue; once a request */
    KT_EVENT_TOKEN,    /* a token of a choice, and the text it released */
    KT_EVENT_FINISHED, /* of a choice; no more events of this choice */
    KT_EVENT_PROGRESS, /* of the prompt, where progress was asked for */
} kt_event_kind;

typedef struct kt_logprob {
    int32_t id;
    float logprob; /* natural logarithm of the model's own probability, before the sampler chain, or
                    * with post_sampling after it */
} kt_logprob;

struct kt_event {
    kt_event_kind kind;
    kt_request *req;
    void *user;
    int32_t choice;
    bool last;              /* FINISHED: of the request's last choice, so its last event */
    int64_t t_us;           /* monotonic clock */
    /* TOKEN: text decided by now, whole UTF-8 characters, never part of a stop string; may be
     * empty. id -1: no token, text that was held back. */
    int32_t id;
    const char *text;
    size_t len;
    const kt_part *parts;   /* [n_parts] where the answer is split; in the order of the answer */
    size_t n_parts;
    float logprob;          /* of id, where logprobs were asked for */
    const kt_logprob *top;  /* [n_top], the most probable first */
    size_t n_top;
    /* FINISHED */
    kt_finish finish;
    const kt_request_report *report;
    const kt_error *error; /* KT_FINISH_ERROR: why; else NULL */
    const kt_logprob
        *prompt; /* [n_prompt][1 + logprobs.n] where logprobs.prompt was asked for: each
                                 token after those before it, then the most probable ones (id -1:
                                 there are fewer); of the first one only the id means
                                 something. Valid until the request is closed; NULL: not complete */
    size_t n_prompt;        /* also of PROGRESS: the prompt's tokens, */
    size_t n_cached;        /* PROGRESS: of these, found, */
    size_t n_computed;      /* and known by now, those that were found included */
    int64_t prefill_us;     /* in batches of them */
    const float *embedding; /* [d_model] where pooling was asked for; else NULL */
    size_t n_embedding;
};

KT_API kt_request_params kt_request_params_default(void);
/* Checks the request and puts it into the queue; renders and encodes the prompt on the calling
 * thread; never waits for a computation. Any thread. KT_E_BUSY: the queue is full; KT_E_DEADLINE:
 * it would come too late, err->retry_ms has the prediction; KT_E_CONTEXT_FULL: the prompt does not
 * fit n_ctx or the K/V budget; KT_E_STATE: the engine is being stopped. No event comes for a
 * request that was refused. The kt_request is for kt_request_cancel, kt_request_next_event and
 * kt_request_close. */
KT_API kt_status KT_CHECKED kt_engine_submit(kt_engine *engine, const kt_request_params *request,
                                             kt_request **out, kt_error *err);
/* What of the request is not done as it was asked for, a line each; "": all is. Valid until it is
 * closed. Any thread. */
KT_API const char *kt_request_notes(const kt_request *req);
/* The feedbacks whose notes are in its prompt (kt_request_params.corrections.bank), to ids[cap]; returns how many there
 * are, at most KT_NOTES_MAX. Any thread. */
KT_API size_t kt_request_learned(const kt_request *req, uint64_t *ids, size_t cap);
/* Tokens of its prompt, those that its sequence held included. Any thread. */
KT_API size_t kt_request_n_prompt(const kt_request *req);
/* Of these, those that were found or are computed by now; all of them once a token came. Grows batch
 * by batch, and falls where the request is suspended. Any thread. */
KT_API size_t kt_request_n_computed(const kt_request *req);
/* What a request with `keep` keeps of a choice, once its FINISHED was delivered; of a sequence's,
 * until the next call on that. Pointers are valid until the request is closed. */
typedef struct kt_kept {
    const int32_t *prompt; /* [n_prompt] */
    size_t n_prompt;
    const int32_t *answer; /* [n_answer], the end-of-turn token included */
    size_t n_answer;
    const int8_t *keys;    /* [n_keys][d_model]: of the states that answer[0], ... were drawn from */
    size_t n_keys;         /* n_answer, at most KT_KEPT_MAX */
    int32_t n_recalled;    /* tokens of the answer that kt_request_params.corrections.recall said something of */
    /* What the user said last, [n_question] UTF-8; NULL: it was no conversation, or is not known. Where
     * notes are in the prompt, `prompt` above is the one without them, and there are no keys. */
    const char *question;
    size_t n_question;
} kt_kept;
enum { KT_KEPT_MAX = 1024 };
/* false: it does not keep, or the choice has not finished. Any thread. */
KT_API bool kt_request_get_kept(const kt_request *req, int32_t choice, kt_kept *out);
/* The choice's tokens whose keys and values were computed: the prompt's, and all but the last of its answer's. false:
 * it has not finished. *ids: valid until the request is closed. Any thread. */
KT_API bool kt_request_get_tokens(const kt_request *req, int32_t choice, const int32_t **ids,
                                  size_t *n);
/* The next event of a request without on_event. Waits at most timeout_ms (-1: as long as it takes;
 * 0: not at all); where no thread drives the engine, it is driven meanwhile, and the wait may be
 * longer by a step. false: nothing came, or the last event was delivered before. What it points to
 * is valid until the next call on req. An answer whose reader lets 64 events lie pauses until they
 * are read; others continue. One reader at a time. */
KT_API bool kt_request_next_event(kt_request *req, kt_event *out, int64_t timeout_ms);
/* Ends a request with KT_FINISH_CANCELLED within a tenth of a second. Async-signal-safe. */
KT_API void kt_request_cancel(kt_request *req);
/* Forgets it: no event comes after this returns; one that still runs is cancelled. One on a
 * sequence is waited for, a tenth of a second, so that the sequence is free then: not from its own
 * callback before FINISHED. */
KT_API void kt_request_close(kt_request *req);
/* Submits a request for one answer, hands out its text or its parts (on_text and on_part may be
 * NULL) and waits for its end; on_event and on_ready are not used. KT_OK with report->finish
 * KT_FINISH_CANCELLED where it was cancelled; with KT_FINISH_ERROR the error is this call's. report
 * may be NULL. Any thread. */
KT_API kt_status KT_CHECKED kt_request_run(kt_engine *engine, const kt_request_params *request,
                                           kt_text_fn *on_text, void *user,
                                           kt_request_report *report, kt_error *err);

/* Starts a thread that drives the engine; until it is stopped kt_engine_step is refused. */
KT_API kt_status KT_CHECKED kt_engine_start(kt_engine *engine, kt_error *err);
/* Takes no more requests; gives those that are there drain_ms to end (-1: all the time they need),
 * cancels the rest, and ends the thread. Without a thread it only takes no more, and cancels.
 * kt_engine_start opens the engine again. */
KT_API void kt_engine_stop(kt_engine *engine, int64_t drain_ms);
/* Drives the engine for about budget_us (at least one step, at most until nothing is left to do).
 * *n_left: requests that have not ended. KT_E_STATE while a thread drives it. Errors of requests
 * are their events, not this call's. */
KT_API kt_status KT_CHECKED kt_engine_step(kt_engine *engine, int64_t budget_us, int32_t *n_left,
                                           kt_error *err);

/* Hidden states after the last norm, pooled, of ids[n] into out[d_model] f32; with normalize of
 * length 1. Submits a request and waits for it; drives the engine where no thread does. */
KT_API kt_status KT_CHECKED kt_embed(kt_engine *engine, const int32_t *ids, size_t n,
                                     kt_pooling pooling, bool normalize, float *out, kt_error *err);

/* One line of an answer in JSON, not NUL-terminated, valid during the call; false cancels. */
typedef bool kt_json_fn(void *user, const char *json, size_t len);
/* A call without structures, for bindings: json[len] is an object whose "call" is one of
 *   "generate"   "prompt", a text that is continued, or "messages" for the chat template, which sees
 *                the object's other members as its variables. Options: the numbers of kt_sampling by
 *                their names, "seed", "max_tokens", "stop" (a text or texts). Events: {"text", "id"},
 *                ..., {"done": true, "finish", "seed", "prompt_tokens", "cached_tokens",
 *                "generated_tokens", "total_us"}
 *   "tokenize"   "prompt" or "messages"; one event {"tokens": [...]}
 *   "count"      the same; {"count": n}
 *   "embed"      the same; {"embedding": [...]}, of length 1
 * Further members are ignored, null is as absent. Waits for the answer, as kt_request_run does.
 * KT_E_FORMAT: no JSON object; KT_E_ARG: a member of a wrong type or range, which err->where names;
 * else as of kt_engine_submit. Any thread. */
KT_API kt_status KT_CHECKED kt_call_json(kt_engine *engine, const char *json, size_t len,
                                         kt_json_fn *on_event, void *user, kt_error *err);

/* X(name, "name") */
#define KT_ACTION_LIST(X)                                                               \
    X(KT_ACTION_REDUCE_BATCH_SIZE, "reduce_batch_size")     /* answers at once */       \
    X(KT_ACTION_INCREASE_BATCH_SIZE, "increase_batch_size")                             \
    X(KT_ACTION_REDUCE_PROMPT_SLICE, "reduce_prompt_slice") /* between two tokens */    \
    X(KT_ACTION_INCREASE_PROMPT_SLICE, "increase_prompt_slice")                         \
    X(KT_ACTION_INCREASE_QUANTIZATION, "increase_quantization") /* of keys and values */ \
    X(KT_ACTION_REDUCE_CONTEXT, "reduce_context")

typedef enum kt_action {
#define X(name, text) name,
    KT_ACTION_LIST(X)
#undef X
    /* their number */
    KT_ACTION_COUNT
} kt_action;

typedef struct kt_recommendation {
    kt_action action;
    int32_t value;   /* of n_parallel or gap_ms to go to; else 0 */
    double measured; /* what is off, */
    double target;   /* and what it should be: ms, tokens a second, or a share */
} kt_recommendation;

/* Counts since the engine was opened (n_, _tokens, _us), and the present state (others). */
typedef struct kt_engine_stats {
    /* requests */
    uint64_t n_submitted, n_refused_busy, n_refused_deadline, n_refused_other;
    uint64_t n_finished[KT_FINISH_COUNT]; /* choices, by how they ended */
    uint64_t n_preempted;
    int32_t running, waiting, held; /* choices: computed; queued or suspended; reader too slow */
    int32_t clients;                /* that have something running or waiting */
    /* tokens */
    uint64_t prompt_tokens;         /* of started choices */
    uint64_t queried_tokens;        /* of these, of requests without service.no_cache */
    uint64_t cached_tokens;         /* of queried_tokens, found: prefix cache hits */
    uint64_t disk_tokens;           /* of cached_tokens, read from disk */
    uint64_t prefill_tokens;        /* computed in prompts' batches */
    uint64_t generated_tokens;      /* sampled */
    uint64_t recomputed_tokens;
    uint64_t n_drafts; /* steps with proposals */
    uint64_t drafted_tokens, accepted_tokens;
    /* work */
    uint64_t n_prefill_batches, n_decode_batches;
    uint64_t prefill_us, decode_us, sample_us;
    double prefill_tok_s, decode_step_us; /* as measured lately */
    int64_t predicted_wait_ms;            /* for a short request submitted now */
    /* K/V store, in blocks of 16 positions */
    uint64_t kv_blocks;                   /* in all */
    uint64_t kv_blocks_used;              /* by answers and sequences */
    uint64_t kv_blocks_cached;            /* kept for later prompts only */
    uint64_t n_evicted_blocks;
    /* memory, bytes: the context's, the model's, pages in use, kt_mem_plan's */
    uint64_t mem_budget_bytes, mem_weights_bytes, mem_kv_bytes, mem_scratch_bytes;
    /* the controller: what it allows now, and what it did, by kt_action */
    bool optimizing;
    int32_t parallel_now, parallel_most; /* answers computed together */
    int32_t gap_ms_now, gap_ms_most;     /* that a prompt's slices may take between two tokens */
    uint64_t n_actions[KT_ACTION_COUNT];
    /* experts that are read as they are needed: those that layers used, of these not in memory by then, and bytes read */
    uint64_t n_experts_used, n_experts_missed, expert_read_bytes;
    /* a graphics processor: what all models have of its memory, and how long somebody waited for it since this one
     * was opened */
    bool device_lost;
    uint64_t device_bytes, device_us;
    /* of kt_engine_params.kv_pressure, by type, in blocks of 16 positions: turned to it so far, and such now, of which
     * two (or four) take a little more than one of kv_blocks */
    uint64_t n_pressed_blocks[KT_KV_TYPES], kv_blocks_pressed[KT_KV_TYPES];
    float device_temperature_c, device_power_w; /* of a graphics processor; 0: unknown */
} kt_engine_stats;
/* Never waits for a computation. Any thread. */
KT_API void kt_engine_get_stats(const kt_engine *engine, kt_engine_stats *out);

/* What would bring an engine with such figures closer to the targets in `targets` (NULL: the
 * defaults of kt_engine_params), the most urgent first, into out[cap]; returns how many there are.
 * kt_engine_params.optimize does the first four by itself. Pure: keeps nothing. Any thread. */
KT_API size_t kt_optimizer_recommend(const kt_engine_stats *stats, const kt_engine_params *targets,
                                     kt_recommendation *out, size_t cap);
KT_API const char *kt_action_name(kt_action action); /* "reduce_batch_size"; never NULL */

/* ---- profile ---------------------------------------------------------------------------------
 *
 * Threads: kt_profile_part_name from any thread; the others as calls on the engine. */

/* Where time goes. The parts of a batch, as the thread that called sees them; X(name, phrase) */
#define KT_PROFILE_PART_LIST(X)                           \
    X(KT_PROFILE_EMBED, "embedding")                      \
    X(KT_PROFILE_NORM, "norm and quantise")               \
    X(KT_PROFILE_QKV, "query, key and value projections") \
    X(KT_PROFILE_ATTENTION, "attention")                  \
    X(KT_PROFILE_ATTN_OUT, "attention output projection") \
    X(KT_PROFILE_GATE_UP, "feed-forward gate and up")     \
    X(KT_PROFILE_DOWN, "feed-forward down")               \
    X(KT_PROFILE_HEAD, "vocabulary head")                 \
    X(KT_PROFILE_BARRIER, "waiting at barriers")          \
    X(KT_PROFILE_BATCH, "batch set-up and results")

typedef enum kt_profile_part {
#define X(name, text) name,
    KT_PROFILE_PART_LIST(X)
#undef X
    /* their number */
    KT_PROFILE_PARTS
} kt_profile_part;

typedef struct kt_profile_phase {
    uint64_t n_batches;
    uint64_t n_tok;
    double total_ms;                  /* the sum of part_ms */
    double part_ms[KT_PROFILE_PARTS]; /* a part's time is without the waits at its barriers */
    double busy_share;                /* of all threads' time on the batches, 0 to 1; else idle */
} kt_profile_phase;

typedef struct kt_profile {
    /* Wall time of the engine's steps, and of making requests. What follows sums to it, within a
     * part in fifty. */
    double total_ms;
    double template_ms;       /* of requests */
    double tokenize_ms;       /* of requests; kt_tokenize knows no engine */
    double setup_ms;          /* making requests:  the sampler takes in the prompt */
    kt_profile_phase prefill; /* batches with several tokens of a sequence */
    kt_profile_phase decode;  /* batches with one token of each */
    double sample_ms;
    double detokenize_ms; /* token to text, stop strings */
    double callback_ms;   /* inside the caller's kt_text_fn */
} kt_profile;

/* Starts counting from zero, or stops; what was counted stays until the next start. Costs well
 * under a percent while on. */
KT_API void kt_engine_profile_enable(kt_engine *engine, bool on);
KT_API void kt_engine_get_profile(kt_engine *engine, kt_profile *out);
/* The batches' time by layer, waits at its barriers included, and by thread, without waits (thread 0
 * is the one that called): ms[cap] of each phase. Return how many there are; at most cap are
 * written. A layer's time leaves out embedding, head and the batch's set-up. */
KT_API size_t kt_engine_get_profile_layers(kt_engine *engine, double *prefill_ms,
                                           double *decode_ms, size_t cap);
KT_API size_t kt_engine_get_profile_threads(kt_engine *engine, double *prefill_ms,
                                            double *decode_ms, size_t cap);
/* "attention"; never NULL. */
KT_API const char *kt_profile_part_name(kt_profile_part part);

/* ---- learning from feedback ------------------------------------------------------------------
 *
 * What users say of answers, kept in a folder, and versions of what follows from it: a recall of
 * what was corrected or praised, and adapters that were trained and published. A learner is one
 * user's or one group's: its feedback changes no byte of others' answers, nor of those that do not
 * ask for it. Nothing is learned without feedback. A version is immutable: a request that got one
 * keeps it.
 *
 * What kt_feedback acknowledges is on disk, and survives a process that is killed. No byte of a
 * deleted feedback stays in the folder.
 *
 * Threads: every call of this section, from any thread; kt_feedback waits for a computation. A
 * learner lives within its engine. */

typedef struct kt_learner_params {
    const char *dir;         /* of this learner alone; made if it is not there, with mode 0700 */
    uint64_t max_entries;    /* feedbacks; 0: 10,000 */
    uint64_t max_bytes;      /* of the folder's journal and adapters; 0: 64 MiB */
    float quality_threshold; /* a score from which on an answer is recalled; 0: 0.5 */
    kt_recall_params recall;
    bool read_only;          /* nothing is changed, and a process that learns there not kept out */
    /* The instant loop: at each feedback that acts one step of an adapter of rank 2 on the final hidden state, which is
     * part of its version. How far a step goes (0: there is no loop), and how much less a value moves that mattered
     * to earlier feedback. */
    float instant_lr, instant_ewc;
    bool instant_everywhere; /* used for every conversation, not only where one of the corrections opens */
    float instant_share; /* how much of what the steps made counts; 0: 1 */
} kt_learner_params;

enum { KT_CORRECTION_MAX = 64 << 10, KT_VERSION_SERVED = -1 };

/* Of an answer: a score, or what it should have been. */
typedef struct kt_feedback_params {
    const kt_kept *kept;    /* of the answer; keys NULL: they are computed where they are needed */
    const char *about;      /* the answer's id, for the journal; NULL: "" */
    float score;            /* 0 (bad) to 1; not used with a correction */
    const char *correction; /* [n_correction] UTF-8; NULL: a score */
    size_t n_correction;    /* at most KT_CORRECTION_MAX */
} kt_feedback_params;

typedef struct kt_feedback_result {
    uint64_t id;       /* for kt_learner_forget */
    int64_t version;   /* that is served from now on */
    int32_t n_pairs;   /* that are recalled because of it; 0: it changed no answer */
    int64_t keys_us;   /* for computing the correction's states */
    int64_t update_us; /* for all else: journal, disk, the new version */
    int64_t instant_us; /* of that for the instant loop's step; 0: it took none */
} kt_feedback_result;

/* What a training is at: it writes conversations whose answers are to stay, takes steps, judges. */
typedef enum kt_train_stage {
    KT_TRAIN_NONE, /* none runs */
    KT_TRAIN_WRITING,
    KT_TRAIN_STEPS,
    KT_TRAIN_JUDGING
} kt_train_stage;

typedef struct kt_learner_info {
    uint64_t n_feedback, n_scores, n_corrections, n_deleted;
    uint64_t bytes;       /* on disk */
    int64_t version;      /* that is served; 0: the model alone */
    int64_t last_version; /* the highest that there is */
    int64_t adapter;      /* the version that published the adapter in use; 0: none */
    double quality_delta; /* measured when it was published */
    kt_recall_info recall;
    bool frozen;
    bool deep;            /* the adapter in use changes keys and values: a deep training made it */
    bool scoped;          /* and is used only where a correction opens */
    uint64_t n_pending;   /* feedbacks in what is served that no training has seen */
    double pending_deep;  /* what those say that no deep one has seen since the learner was opened:
                           * a correction is 1, a score its size */
    kt_train_stage stage;
    int32_t stage_done, stage_total; /* conversations, or steps; 0: not counted */
    int32_t n_instant;  /* steps of the instant loop in what is served */
    int64_t instant_us; /* of the last one; 0: since the learner was opened there was none */
    bool instant_scoped; /* what they made is used only where a correction opens */
} kt_learner_info;

typedef struct kt_learned_version {
    int64_t version, parent; /* that it was made on top of */
    uint64_t feedback;       /* that made it; 0: a training did, of which: */
    double quality_delta;
    int64_t time_us;         /* Unix time */
    bool withdrawn;          /* its feedback, or one that it was trained with, was deleted */
} kt_learned_version;

/* One version, held: for kt_learned_close. */
typedef struct kt_learned {
    int64_t version;
    kt_recall *recall;   /* NULL: nothing is recalled */
    kt_adapter *adapter; /* NULL: none */
    kt_bank *bank;       /* of its corrections; the one that is served gets later ones as well. Or NULL */
    kt_adapter *instant; /* of the feedback since the adapter, by the instant loop; NULL: none */
} kt_learned;

/* KT_E_STATE: the folder is of another model; KT_E_BUSY: another process learns there; KT_E_FORMAT:
 * it is damaged; KT_E_IO. */
KT_API kt_status KT_CHECKED kt_learner_open(kt_engine *engine, const kt_learner_params *params,
                                            kt_learner **out, kt_error *err);
KT_API void kt_learner_close(kt_learner *learner); /* NULL is allowed */
KT_API void kt_learner_get_info(kt_learner *learner, kt_learner_info *out);
/* KT_E_ARG: a score out of range, nothing said; KT_E_LIMIT: too long a correction, a quota;
 * KT_E_STATE: frozen; KT_E_CONTEXT_FULL: prompt and correction do not fit; KT_E_IO: the disk. After
 * an error nothing was kept of it. */
KT_API kt_status KT_CHECKED kt_feedback(kt_learner *learner, const kt_feedback_params *params,
                                        kt_feedback_result *out, kt_error *err);
/* KT_VERSION_SERVED, or a number up to last_version. KT_E_ARG: there is no such one. */
KT_API kt_status KT_CHECKED kt_learner_get(kt_learner *learner, int64_t version, kt_learned *out,
                                           kt_error *err);
KT_API void kt_learned_close(kt_learned *learned);
/* The version's adapter for a conversation: NULL where there is none, and where it is scoped and the request has notes (its
 * bank and note_tokens are set before), or no entry of the version's bank opens for its messages. One of a prompt that is
 * no conversation is none of a scoped one. */
KT_API kt_adapter *kt_learned_adapter(const kt_learned *learned, const kt_request_params *request);
/* The same of both, that one and what the instant loop made: how many of out[2] are used. */
enum { KT_LEARNED_ADAPTERS = 2 };
KT_API size_t kt_learned_adapters(const kt_learned *learned, const kt_request_params *request,
                                  kt_adapter_use out[KT_LEARNED_ADAPTERS]);
/* versions[*n] in their order, for kt_free. */
KT_API kt_status KT_CHECKED kt_learner_versions(kt_learner *learner, kt_learned_version **versions,
                                                size_t *n, kt_error *err);
/* Serves another version; 0: the model alone. Running answers keep theirs. */
KT_API kt_status KT_CHECKED kt_learner_rollback(kt_learner *learner, int64_t version,
                                                kt_error *err);

/* How several versions' adapters become one. */
typedef enum kt_consolidation {
    KT_CONSOLIDATE_EWC_MERGE, /* the last one trained on with all that was said, held by a penalty to
                                 what its earlier corrections need */
    KT_CONSOLIDATE_AVERAGE,   /* the mean of what the last one adds, and of one that is trained anew */
    KT_CONSOLIDATE_BEST_ONLY  /* the last one trained on, or the last one: whichever answers held-out
                                 feedback better */
} kt_consolidation;

typedef struct kt_train_params {
    bool deep;       /* every matrix of every layer; else those that change no key and no value: the
                        last layer's after its keys, and the final hidden state */
    /* Used for every conversation, as it is where it continues from one that is. Else, where all that was said are
     * corrections with a subject, the adapter is used where one of them opens, and elsewhere the model answers alone. */
    bool everywhere;
    /* Its requests have notes, so that an adapter of corrections with a subject would be used in none of them: such
     * a one is not trained, and the report says so. */
    bool noted;
    bool background; /* one thread of low priority (nice 10), which rests while answers are computed;
                        n_threads does not count */
    int32_t n_threads; /* 0: the context's */
    int32_t n_step, batch, rank; /* 0: by default */
    int32_t n_own;   /* conversations that the model writes for its replay; 0: 800 */
    const char *own_dir; /* where these are kept for the next time; NULL: the learner's folder */
    kt_consolidation consolidation;
    float ewc_lambda;
    uint64_t seed;       /* 0: 1 */
    uint64_t bytes_max;  /* of the training's activations; 0: 512 MiB */
    int64_t cpu_ms_max;  /* processor time of its steps; 0: no limit */
    bool (*go_on)(void *user); /* asked many times a second; false cancels it, for good; or NULL */
    void *user;
    /* Nothing is trained or published: the gate judges what the instant loop makes of all that was said, with
     * instant_lr and _ewc of the learner, or where it has none with 0.01 and 0.2. */
    bool instant;
} kt_train_params;

typedef struct kt_train_result {
    bool published;  /* it passed the gate, and is served now */
    int64_t version; /* that is served */
    char *report;    /* a JSON object, for kt_free: what was measured, and why it was refused */
} kt_train_result;

/* Trains an adapter from a learner's feedback, aside, and serves it where it passes the gate
 * (docs/LEARNING.md); with too few questions to measure a gain nothing is trained, and the report says how
 * many are missing. Answers run on, each with the version that it began with. What was said
 * against the version that is served (feedback later than a rollback) is left out. Waits for its end.
 * KT_E_BUSY: one is running; KT_E_STATE: frozen, nothing was said yet, or what it was trained from
 * was deleted or rolled back meanwhile; KT_E_CANCELLED; KT_E_LIMIT: the result does not fit into
 * max_bytes; KT_E_UNSUPPORTED: an architecture that cannot be trained; KT_E_NOMEM, KT_E_IO. After
 * an error all is as before. */
KT_API kt_status KT_CHECKED kt_learner_train(kt_learner *learner, const kt_train_params *params,
                                             kt_train_result *out, kt_error *err);
/* Deletes a feedback, and adapters that were trained with it. KT_E_ARG: there is no such one. */
KT_API kt_status KT_CHECKED kt_learner_forget(kt_learner *learner, uint64_t id, kt_error *err);
/* While frozen it takes no feedback. */
KT_API kt_status KT_CHECKED kt_learner_freeze(kt_learner *learner, bool frozen, kt_error *err);
/* Deletes the whole folder; the learner is closed, also on an error. */
KT_API kt_status KT_CHECKED kt_learner_erase(kt_learner *learner, kt_error *err);
/* Another correction in the place of feedback `id`, on the same answer. Errors as kt_feedback's;
 * KT_E_ARG: there is no such one, or it is no correction. */
KT_API kt_status KT_CHECKED kt_learner_edit(kt_learner *learner, uint64_t id, const char *correction,
                                            size_t n_correction, kt_feedback_result *out,
                                            kt_error *err);
/* A line of JSON for each feedback: {"id", "time_us", "kind", "about", "score" or "correction",
 * "question", "prompt", "answer"} with prompt and answer as texts; question, what the user said last,
 * where it is known. false ends it with KT_E_CANCELLED. */
KT_API kt_status KT_CHECKED kt_learner_export(kt_learner *learner, kt_json_fn *on_line, void *user,
                                              kt_error *err);
/* Which feedbacks. */
typedef struct kt_learner_query {
    uint64_t before;   /* those before this one; 0: all */
    const char *text;  /* NULL, or words that begin words of its question or its correction */
    const char *opens; /* NULL, or a user's message: entries of the bank that it opens */
} kt_learner_query;

/* The same from the newest back, of those that the query (NULL: all) is of, with "recalled", the
 * tokens that it changed since it was taught or the learner was opened, and, where there are any,
 * "recalled_ago_s". Of a correction also "scope" and "subject": the words that have to be in a user's
 * message for it to open, and "subject", or why there are none: "no_question", "common" (it has no words
 * but common ones), "crowded" (too many entries are about the same), "too_long" (for a note),
 * "replaced" (by a later correction of the same question). */
KT_API kt_status KT_CHECKED kt_learner_list(kt_learner *learner, const kt_learner_query *query,
                                            kt_json_fn *on_line, void *user, kt_error *err);

/* Whether a model uses notes rightly (kt_request_params.corrections.bank): 20 made-up notes, each with a question that it
 * answers in other words and with one about the same subject that it does not answer; answers are the
 * likeliest tokens, so that the same model gives the same result. */
typedef struct kt_probe_result {
    int32_t n_asked, n_used;    /* questions that a note answers; answers that say what it says */
    int32_t n_others, n_leaked; /* others; answers that say it anyway */
    /* Of kt_notes_judge, asked whether a note's question and each of the two ask for the same: yes, rightly and wrongly */
    int32_t n_same, n_same_wrong;
    bool uses;                  /* all were asked: at least 16 used, at most 4 leaked */
    bool judges;                /* the same bounds for n_same and n_same_wrong */
    bool whole;                 /* all KT_PROBE_NOTES were asked */
} kt_probe_result;
enum { KT_PROBE_NOTES = 20 };

/* Threads: any; waits for 80 short answers. KT_E_UNSUPPORTED, KT_E_TEMPLATE: a model without
 * conversations. */
KT_API kt_status KT_CHECKED kt_notes_probe(kt_engine *engine, kt_probe_result *out, kt_error *err);
/* The next note alone, so that a probe can be left off and resumed later, also by another process: adds its four answers
 * to *result, which is zero before the first one; nothing once it is whole. They are of the lowest priority.
 * Where it fails, *result is as it was. Threads: any; waits for 4 short answers. */
KT_API kt_status KT_CHECKED kt_notes_probe_next(kt_engine *engine, kt_probe_result *result,
                                                kt_error *err);
/* Which entry of request->bank the conversation's last message asks for: in the question's own words, or, as the model
 * judges by one token an entry, in others. Of the entries that open the four with the longest subjects, the newest first,
 * are asked about; of request the conversation, client, cache_scope and priority count. *id 0: none. For
 * kt_request_params.corrections.recited; where it is 0 a model that judges rightly (kt_probe_result.judges) is better off without
 * notes, note_tokens -1. Threads: any; waits for up to four tokens. Errors: as of kt_engine_submit. */
KT_API kt_status KT_CHECKED kt_notes_judge(kt_engine *engine, const kt_request_params *request,
                                           uint64_t *id, kt_error *err);

/* ---- sessions and caches on disk -------------------------------------------------------------
 *
 * Threads: kt_model_fingerprint, kt_model_start_hash, kt_model_get_hash and kt_cache_get_stats from
 * any thread; kt_seq_save, kt_seq_restore, kt_cache_open and kt_cache_close as calls on the engine
 * (a cache is opened and closed by one thread at a time). */

/* What identifies a model: of the metadata, the tensor table, the sizes and a part of each tensor.
 * The same file gives the same, whatever its name. It is not proof against forgery. Reads one page
 * of each tensor. KT_E_TRUNCATED: the file has become shorter. */
enum { KT_FINGERPRINT_BYTES = 32 };
KT_API kt_status KT_CHECKED kt_model_fingerprint(const kt_model *model,
                                                 uint8_t out[KT_FINGERPRINT_BYTES], kt_error *err);

/* A hash of every byte of the model's files. It is made in the background, by a thread of the
 * lowest priority that reads on only while nothing was computed in the context for a quarter of a
 * second, and that neither keeps what it read in memory nor drives other files out of the page
 * cache. Sessions and blocks on disk that are written once it is known carry it; those that carry
 * another one than the model's are refused and missed, respectively, even where the fingerprint
 * agrees. */
typedef enum kt_hash_state {
    KT_HASH_NONE, /* not asked for */
    KT_HASH_RUNNING,
    KT_HASH_KNOWN,
    KT_HASH_FAILED /* a file cannot be read, or was cut short */
} kt_hash_state;

typedef struct kt_hash_info {
    kt_hash_state state;
    uint64_t bytes_done;
    uint64_t bytes_all;
    uint8_t hash[KT_FINGERPRINT_BYTES]; /* with KT_HASH_KNOWN, else zeros */
} kt_hash_info;

/* Begins it; nothing happens where it was begun before. kt_cache_open does so, too. KT_E_NOMEM: no
 * thread. */
KT_API kt_status KT_CHECKED kt_model_start_hash(kt_model *model, kt_error *err);
KT_API void kt_model_get_hash(const kt_model *model, kt_hash_info *out);

/* What the engine keeps in memory of ids[n] for later prompts of that scope and these adapters is given up; what running
 * answers use of it stays theirs. How many tokens: whole blocks. As calls on the engine. */
KT_API size_t kt_engine_forget(kt_engine *engine, const char *cache_scope,
                               const kt_adapter_use *adapters, size_t n_adapters,
                               const int32_t *ids, size_t n);
/* Writes seq's tokens, K/V and logits to a file that kt_seq_restore takes back: into a temporary
 * file in the same folder, synced, then renamed, so that path holds the old session or the new one,
 * whole. Other sequences and requests continue meanwhile. KT_E_IO: it cannot be written; KT_E_ARG:
 * seq is empty. */
KT_API kt_status KT_CHECKED kt_seq_save(kt_seq *seq, const char *path, kt_error *err);
/* Replaces what seq holds by a session that was saved with the same model, RoPE options and
 * numerics; it continues with the same bytes as the sequence that was saved. Everything is checked
 * before any of it is used. KT_E_IO: no such file, or it cannot be read; KT_E_FORMAT: it is damaged
 * or no session; KT_E_STATE: it belongs to another model, to other options or to another version;
 * KT_E_CONTEXT_FULL: it is longer than n_ctx. */
KT_API kt_status KT_CHECKED kt_seq_restore(kt_seq *seq, const char *path, kt_error *err);

/* An automatic cache on disk below an engine: every full block of 16 positions that is computed for
 * a submitted request is kept in a directory, under what it was computed from, and found again by
 * any engine of any process with the same model and options. With recurrent layers, 4 bits or a
 * tail in f16, blocks alone are not enough to continue after them: where the first message, a
 * prompt and its answer end, what is needed there besides is kept, too (as large as a recurrent
 * state and the tail's keys and values), and a later prompt continues from the last such place.
 * Files are written by a thread of its own, never by the one that computes; a file that is damaged,
 * or of something else, counts as not found. */
typedef struct kt_cache kt_cache;

typedef struct kt_cache_params {
    const char *dir;      /* made if it is not there, with mode 0700 */
    uint64_t max_bytes;   /* of all files; the least recently used go first; 0: 8 GiB */
    uint64_t queue_bytes; /* memory for blocks that wait to be written; more are not kept; 0: 32
                             MiB; ends have places of their own, two at least */
} kt_cache_params;

/* Counts since the cache was opened. */
typedef struct kt_cache_stats {
    /* blocks asked for */
    uint64_t n_found;
    uint64_t n_missed;  /* not there */
    uint64_t n_damaged; /* there, and unusable */
    /* blocks offered */
    uint64_t n_written;
    uint64_t n_present; /* on disk already */
    uint64_t n_dropped; /* while the queue was full */
    uint64_t n_failed;  /* could not be written */
    /* files removed to keep max_bytes */
    uint64_t n_evicted;
    uint64_t bytes_read;
    uint64_t bytes_written;
} kt_cache_stats;

/* Puts the cache below engine; one at a time. Close it before the engine. KT_E_STATE: the engine
 * has one; KT_E_IO: the directory cannot be used. */
KT_API kt_status KT_CHECKED kt_cache_open(kt_engine *engine, const kt_cache_params *params,
                                          kt_cache **out, kt_error *err);
/* Writes what still waits, and lets go of the engine. */
KT_API void kt_cache_close(kt_cache *cache);
KT_API void kt_cache_get_stats(kt_cache *cache, kt_cache_stats *out);

/* ---- header and library -----------------------------------------------------------------------
 *
 * Structures are passed and returned as they are, and grow from version to version. Threads:
 * any. */

/* All of them. */
#define KT_STRUCT_LIST(X) \
    X(kt_error) X(kt_ctx_params) X(kt_heat) X(kt_model_params) X(kt_model_info)                 \
    X(kt_pages_info)                                                                            \
    X(kt_adapter_info) X(kt_adapter_use) X(kt_engine_params) X(kt_engine_info) X(kt_mem_plan)   \
    X(kt_hash_info) X(kt_eval_item) X(kt_logit_bias) X(kt_sampling) X(kt_gen_params) \
    X(kt_cache_miss) X(kt_request_report) X(kt_message) X(kt_picture) X(kt_form) X(kt_constraint) X(kt_part) \
    X(kt_logprob) X(kt_prompt) X(kt_call_params) X(kt_part_params) X(kt_correction_params) \
    X(kt_logprob_params) X(kt_embedding_params) X(kt_service_params) X(kt_overflow_params) \
    X(kt_event_params) X(kt_request_params) X(kt_event) X(kt_kept) X(kt_recall_params) \
    X(kt_recall_pairs) X(kt_recall_info) X(kt_bank_info) X(kt_learner_params) X(kt_learner_info) X(kt_learned) \
    X(kt_learned_version) X(kt_learner_query) X(kt_probe_result) X(kt_feedback_params) X(kt_feedback_result) X(kt_engine_stats) \
    X(kt_recommendation) X(kt_profile_phase) X(kt_profile) X(kt_cache_params) X(kt_cache_stats)

/* The promise: calls and structures stay as they are within a release, and a program that was compiled with others
 * never runs on wrong layouts. On Linux the symbols of the shared library carry a version made of the structures'
 * text: the loader refuses an older program and names the version that it misses. Elsewhere, and where header and
 * library were mixed, a program compares these two numbers.
 *
 * A number made from the sizes of all structures as the library was compiled. */
KT_API uint64_t kt_abi(void);

/* The same number as this program was compiled. Where it is not kt_abi(), the library is of another
 * version than this header: no further call may be made. */
static inline uint64_t kt_header_abi(void) {
    uint64_t abi = 0;
#define X(type) abi = abi * 1099511628211u + sizeof(type);
    KT_STRUCT_LIST(X)
#undef X
    return abi;
}

#ifdef __cplusplus
}
#endif
#endif
