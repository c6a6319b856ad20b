/* kentang.h: the public interface of libkentang, a language-model engine for small CPUs.
 *
 * Owns: everything a program may call. Nothing else is exported (hidden visibility).
 *
 * Objects and lifetimes: a kt_ctx (threads, kernels, log, memory budget) outlives its kt_models, a
 * kt_model outlives its kt_engines, a kt_engine outlives its kt_seqs, a kt_seq outlives its
 * kt_reqs. Close in the reverse order; closing NULL is allowed.
 *
 * Thread rule, unless a call says otherwise: a kt_ctx and a kt_model may be used from any thread (a
 * model is immutable once open). Calls on one kt_engine, its sequences and its requests are
 * serialised by the engine itself: they may come from any thread, one waits for the other; a single
 * kt_seq or kt_req must not be used by two threads at the same moment. Engines of one context share
 * its threads, and take turns. kt_req_cancel and kt_engine_cancel may be called at any time from
 * any thread and from a signal handler.
 *
 * Errors: fallible calls return a kt_status and, where a kt_error is passed (NULL is allowed), say
 * what happened, where, and what to do. Nothing is thrown, nothing aborts, no process is spawned,
 * no socket is opened, no signal handler is installed unasked.
 *
 * Strings are UTF-8; token ids are int32_t; sizes are in bytes unless the name says otherwise. */
#ifndef KENTANG_H
#define KENTANG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#define KT_VERSION "0.1.0"
/* The arithmetic contract's version: two builds with the same number give the same bytes. */
#define KENTANG_NUMERICS 1

/* ---- errors
 * ---------------------------------------------------------------------------------------- */

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
    X(KT_E_INTERNAL, 14, "internal error")

typedef enum kt_status {
#define X(name, exit_code, text) name,
    KT_STATUS_LIST(X)
#undef X
        KT_STATUS_COUNT
} kt_status;

/* Filled by the callee, owned by the caller; plain data. `where` names a file, key, tensor or JSON
 * path, `offset` is a byte offset in it or UINT64_MAX. */
typedef struct kt_error {
    kt_status code;
    uint64_t offset;
    char where[160];
    char message[480];
} kt_error;

KT_API const char *kt_version(void);
KT_API const char *kt_status_name(kt_status status);    /* "KT_E_FORMAT"; never NULL */
KT_API const char *kt_status_message(kt_status status); /* one English phrase; never NULL */
KT_API int kt_status_exit_code(kt_status status); /* the command line's documented exit code */

/* ---- context
 * --------------------------------------------------------------------------------------- */

typedef struct kt_ctx kt_ctx;
typedef struct kt_model kt_model;
typedef struct kt_engine kt_engine;
typedef struct kt_seq kt_seq;
typedef struct kt_req kt_req;

typedef enum kt_log_level { KT_LOG_ERROR, KT_LOG_WARN, KT_LOG_INFO, KT_LOG_DEBUG } kt_log_level;
/* Called from any thread of the context, one call at a time; `line` has no newline. */
typedef void kt_log_fn(void *user, kt_log_level level, const char *line);

typedef struct kt_ctx_params {
    const char
        *isa;      /* "ref", "avx2", "avx512"; NULL: KENTANG_ISA, else the best this machine has */
    int n_threads; /* size of the pool, the caller included; 0: chosen from cores, affinity and
                      quota, and chosen anew once a second, between batches */
    int n_threads_max; /* what an engine may ask for, where that is more than n_threads */
    const char *cpus;  /* processors its threads are held to, a list "0-3,8" or a mask "0x10f", and
                          the calling thread while a batch runs; NULL: no pinning */
    int priority;      /* of its threads: -1 low, 0 as the caller's, 1 medium, 2 high, 3 real time
                          (above 0 needs a privilege); the calling thread keeps its own */
    uint64_t
        mem_bytes;  /* budget for K/V, scratch and anonymous weights; 0: from available memory */
    kt_log_fn *log; /* NULL: silent */
    void *log_user;
    kt_log_level log_level;
} kt_ctx_params;

KT_API kt_ctx_params kt_ctx_params_default(void);
KT_API kt_status KT_CHECKED kt_ctx_open(const kt_ctx_params *params, kt_ctx **out, kt_error *err);
KT_API void kt_ctx_close(kt_ctx *ctx);
KT_API const char *kt_ctx_isa(const kt_ctx *ctx);     /* name of the kernel tier in use */
KT_API const char *kt_ctx_isa_why(const kt_ctx *ctx); /* one phrase: why this tier */
KT_API int kt_ctx_n_threads(const kt_ctx *ctx); /* now, for engines that leave the choice to it */
KT_API const char *
kt_ctx_n_threads_why(const kt_ctx *ctx); /* one phrase: why, when it was opened */

/* Process-wide and only on request: turns a SIGBUS inside a mapped model file (truncated by
 * somebody while in use) into KT_E_TRUNCATED from the running call. Faults elsewhere go to the
 * previous handler. */
KT_API kt_status KT_CHECKED kt_install_fault_guard(kt_error *err);

/* ---- model
 * ----------------------------------------------------------------------------------------- */

typedef enum kt_rope_scaling {
    KT_ROPE_SCALING_MODEL, /* as the file says */
    KT_ROPE_SCALING_NONE,
    KT_ROPE_SCALING_LINEAR,
    KT_ROPE_SCALING_YARN
} kt_rope_scaling;

typedef struct kt_model_params {
    bool use_mmap;   /* default true: weights stay in the mapped file */
    bool use_mlock;  /* default false: keep the weights in memory */
    bool vocab_only; /* default false: no tensors needed; tokenizer and template only */
    bool exact; /* default false: dequantised weights, f32 activations: slow, for measuring accuracy
                 */
    kt_rope_scaling rope_scaling;
    float rope_freq_base;  /* 0: as the file says */
    float rope_freq_scale; /* 0: as the file says; 0.25 stretches the context four times */
    /* YaRN (Peng et al. 2023): negative: as the file says or the paper's defaults */
    float yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
    int32_t yarn_orig_ctx; /* 0: as the file says */
} kt_model_params;

typedef struct kt_model_info {
    const char *path;      /* as opened; "(demo)" for the embedded model, "(memory)" */
    const char *name;      /* general.name or "" */
    const char *arch;      /* "llama", "qwen2", ... */
    const char *quant;     /* the recipe's name, "Q4_K_M", from general.file_type, or "mixed" */
    const char *tokenizer; /* "gpt2/qwen2", "llama" */
    const char *template_; /* chat template source or NULL; valid while the model is open */
    uint64_t n_params;     /* weights, all tensors */
    uint64_t file_bytes;   /* all parts */
    uint64_t weight_bytes; /* bytes of tensors */
    uint64_t decode_bytes; /* weight bytes read for one decoded token */
    uint64_t kv_bytes_per_token; /* f16 */
    int32_t n_vocab, n_ctx_train, n_layer, d_model, d_ff, n_head, n_head_kv, head_dim;
    int32_t bos_id, eos_id; /* -1: none */
    bool add_bos, add_eos;
} kt_model_info;

KT_API kt_model_params kt_model_params_default(void);
/* path: a GGUF file, or the first of a split set (NAME-00001-of-0000N.gguf). */
KT_API kt_status KT_CHECKED kt_model_open(kt_ctx *ctx, const char *path,
                                          const kt_model_params *params, kt_model **out,
                                          kt_error *err);
/* data must stay valid and unchanged until the model is closed; it is not copied. 32-byte aligned
 * data is used in place. */
KT_API kt_status KT_CHECKED kt_model_open_memory(kt_ctx *ctx, const void *data, size_t size,
                                                 const kt_model_params *params, kt_model **out,
                                                 kt_error *err);
/* The model inside the library. KT_E_UNSUPPORTED if the library was built without one. */
KT_API kt_status KT_CHECKED kt_model_open_demo(kt_ctx *ctx, const kt_model_params *params,
                                               kt_model **out, kt_error *err);
KT_API void kt_model_close(kt_model *model);
KT_API void kt_model_get_info(const kt_model *model, kt_model_info *out);

/* ---- text
 * ------------------------------------------------------------------------------------------ */

enum {
    KT_TOK_ADD_SPECIAL = 1,   /* BOS/EOS as the model's rules say */
    KT_TOK_PARSE_SPECIAL = 2, /* recognise control tokens written in the text */
    KT_TOK_RENDER_SPECIAL = 4 /* detokenize: write control tokens' text instead of nothing */
};

/* Encodes text[len]. Writes at most `cap` ids; *n is the full count even if it exceeds cap (then
 * the status is KT_E_LIMIT and the first cap ids are written). */
KT_API kt_status KT_CHECKED kt_tokenize(const kt_model *model, const char *text, size_t len,
                                        unsigned flags, int32_t *ids, size_t cap, size_t *n,
                                        kt_error *err);
/* Decodes ids[n] to bytes (not NUL-terminated; may hold broken UTF-8 where the ids do). Same cap
 * rule. */
KT_API kt_status KT_CHECKED kt_detokenize(const kt_model *model, const int32_t *ids, size_t n,
                                          unsigned flags, char *text, size_t cap, size_t *len,
                                          kt_error *err);
KT_API bool kt_token_is_eog(const kt_model *model, int32_t id); /* in the end-of-generation set */

typedef struct kt_message {
    const char *role;    /* "system", "user", "assistant", "tool" */
    const char *content; /* UTF-8 */
} kt_message;

/* Renders the model's chat template. The result is a prompt as the template wrote it; *out is
 * allocated by the library, NUL-terminated, and freed with kt_free. A system message that the
 * template refuses or drops is merged into the first user message. */
KT_API kt_status KT_CHECKED kt_chat_render(const kt_model *model, const kt_message *messages,
                                           size_t n, bool add_generation_prompt, char **out,
                                           size_t *len, kt_error *err);
/* The same from JSON: an array of messages, or an object {"messages": [...], "tools": [...],
 * "add_generation_prompt": true, ... further template variables}. */
KT_API kt_status KT_CHECKED kt_chat_render_json(const kt_model *model, const char *json,
                                                size_t json_len, char **out, size_t *len,
                                                kt_error *err);
/* Renders and encodes; control tokens are recognised only in what the template itself wrote, never
 * in the messages. *ids is allocated by the library and freed with kt_free. */
KT_API kt_status KT_CHECKED kt_chat_encode(const kt_model *model, const kt_message *messages,
                                           size_t n, bool add_generation_prompt, int32_t **ids,
                                           size_t *n_ids, kt_error *err);
KT_API void kt_free(void *data); /* for what the library allocated and said so */

/* ---- engine and sequences
 * -------------------------------------------------------------------------- */

typedef struct kt_engine_params {
    int32_t n_ctx;           /* positions a sequence may hold; 0: the model's, at most 4096 */
    int32_t n_batch;         /* tokens taken by one prefill call at a time; 0: 2048 */
    int32_t n_ubatch;        /* tokens computed together; 0: 512 */
    int32_t n_seq_max;       /* sequences alive at once; 0: 8 */
    int32_t n_threads;       /* decode; 0: the context's, as it changes */
    int32_t n_threads_batch; /* prefill; 0: the context's, as it changes */
    uint64_t kv_bytes; /* K/V budget; 0: n_ctx positions for each of n_seq_max sequences, less where
                          memory is short, but at least one sequence */
} kt_engine_params;

typedef struct kt_engine_info {
    int32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_threads, n_threads_batch;
    uint64_t kv_bytes_max;  /* budget: address space; memory is touched as positions are used */
    uint64_t kv_bytes_used; /* pages in use */
    uint64_t scratch_bytes;
} kt_engine_info;

KT_API kt_engine_params kt_engine_params_default(void);
KT_API kt_status KT_CHECKED kt_engine_open(kt_model *model, const kt_engine_params *params,
                                           kt_engine **out, kt_error *err);
KT_API void kt_engine_close(kt_engine *engine);
KT_API void kt_engine_get_info(const kt_engine *engine, kt_engine_info *out);
/* Makes the running evaluation, and those that follow until kt_engine_resume, return
 * KT_E_CANCELLED. Async-signal-safe. */
KT_API void kt_engine_cancel(kt_engine *engine);
KT_API void kt_engine_resume(kt_engine *engine);

KT_API kt_status KT_CHECKED kt_seq_open(kt_engine *engine, kt_seq **out, kt_error *err);
KT_API void kt_seq_close(kt_seq *seq);
/* A second sequence with the same tokens and K/V; pages are shared until one of the two writes. */
KT_API kt_status KT_CHECKED kt_seq_copy(kt_seq *seq, kt_seq **out, kt_error *err);
/* Keeps the first n_keep positions; the logits are gone until the next evaluation. */
KT_API kt_status KT_CHECKED kt_seq_truncate(kt_seq *seq, size_t n_keep, kt_error *err);
KT_API size_t kt_seq_len(const kt_seq *seq);
KT_API const int32_t *
kt_seq_tokens(const kt_seq *seq); /* [kt_seq_len]; valid until the next call on seq */

/* Appends ids[n] (n >= 1) and computes them, in slices of n_ubatch. On any error, KT_E_CANCELLED
 * included, the sequence is as it was before the call. KT_E_CONTEXT_FULL if they do not fit n_ctx.
 */
KT_API kt_status KT_CHECKED kt_seq_eval(kt_seq *seq, const int32_t *ids, size_t n, kt_error *err);
/* Logits after the last evaluated token: [n_vocab] f32; NULL before the first evaluation and after
 * a truncation. Valid until the next evaluation of seq, or until a second sequence is opened. */
KT_API const float *kt_seq_logits(const kt_seq *seq);

/* Several sequences in one batch: every item's ids are appended to its sequence (each sequence at
 * most once). The result is bit for bit that of evaluating them one after the other. */
typedef struct kt_eval_item {
    kt_seq *seq;
    const int32_t *ids;
    size_t n;
    float *
        all_logits; /* NULL, or [n][n_vocab] f32 to receive the logits after each of the n tokens */
} kt_eval_item;
KT_API kt_status KT_CHECKED kt_engine_eval(kt_engine *engine, const kt_eval_item *items,
                                           size_t n_items, kt_error *err);

/* ---- generation
 * ------------------------------------------------------------------------------------ */

/* The sampler chain. Defaults are those that users of llama.cpp expect. A member at its "off" value
 * leaves its step out. temperature <= 0 is greedy: the most probable token, lowest id on ties,
 * after penalties and bias. */
typedef struct kt_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY forbids */
} kt_logit_bias;

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
    const char *const *dry_breakers; /* NULL: newline, colon, quote, asterisk */
    size_t n_dry_breakers;
    int32_t mirostat;   /* 0 = off, 1, 2 */
    float mirostat_tau; /* 5 */
    float mirostat_eta; /* 0.1 */
    const char *chain;  /* order of steps,
                           "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";  NULL:
                           this default */
    const kt_logit_bias *logit_bias;
    size_t n_logit_bias;
    int32_t min_keep; /* 0; candidates that truncating steps leave at least */
} kt_sampling;
#define KT_SEED_RANDOM UINT64_MAX

KT_API kt_sampling kt_sampling_default(void);

typedef enum kt_finish {
    KT_FINISH_NONE,    /* still running */
    KT_FINISH_EOG,     /* the model ended its turn */
    KT_FINISH_STOP,    /* a stop string */
    KT_FINISH_LENGTH,  /* n_predict tokens */
    KT_FINISH_CONTEXT, /* the context is full */
    KT_FINISH_CANCELLED,
    KT_FINISH_ERROR
} kt_finish;
KT_API const char *kt_finish_name(kt_finish finish); /* "eog", "stop", "length", "context", ... */

typedef struct kt_gen_params {
    kt_sampling sampling;
    int32_t n_predict;       /* tokens at most; -1: until the end of turn or the context */
    const char *const *stop; /* stop strings; not part of the text */
    size_t n_stop;
    bool ignore_eog; /* go on past the end of turn (benchmarks) */
} kt_gen_params;

typedef struct kt_gen_result {
    kt_finish finish;
    uint64_t seed;       /* repeats the run */
    int32_t n_prompt;    /* prompt tokens */
    int32_t n_cached;    /* of these, found in the sequence already */
    int32_t n_generated; /* sampled tokens, the end-of-turn token included */
    double prefill_ms, decode_ms, first_token_ms; /* wall time; first token counted from the call */
    double sample_ms;                             /* part of decode_ms */
} kt_gen_result;

/* Receives text as it is decided: whole UTF-8 characters, never part of a stop string. `id` is the
 * token that released it (-1 for what was held back at the end). Return false to cancel. May call
 * kt_req_cancel and the functions on models; not functions on the same engine. */
typedef bool kt_text_fn(void *user, const char *text, size_t len, int32_t id);

KT_API kt_gen_params kt_gen_params_default(void);
/* Appends ids[n] to seq, then samples until a stop. A prompt that does not fit the context is
 * refused with KT_E_CONTEXT_FULL before anything is computed. The generated tokens stay in seq,
 * except the last one sampled, which is not evaluated. n may be 0 when seq was evaluated before. */
KT_API kt_status KT_CHECKED kt_generate(kt_seq *seq, const int32_t *ids, size_t n,
                                        const kt_gen_params *params, kt_text_fn *on_text,
                                        void *user, kt_gen_result *result, kt_error *err);
/* Renders and encodes the whole conversation, keeps what seq already holds of it, and generates the
 * next assistant message. */
KT_API kt_status KT_CHECKED kt_chat(kt_seq *seq, const kt_message *messages, size_t n_messages,
                                    const kt_gen_params *params, kt_text_fn *on_text, void *user,
                                    kt_gen_result *result, kt_error *err);

/* The same, a step at a time: each step returns the text that one token released (maybe none). */
KT_API kt_status KT_CHECKED kt_req_open(kt_seq *seq, const int32_t *ids, size_t n,
                                        const kt_gen_params *params, kt_req **out, kt_error *err);
/* *finish is KT_FINISH_NONE while there is more; *text[*len] is valid until the next call on req.
 */
KT_API kt_status KT_CHECKED kt_req_step(kt_req *req, const char **text, size_t *len, int32_t *id,
                                        kt_finish *finish, kt_error *err);
KT_API void kt_req_cancel(kt_req *req); /* async-signal-safe; the next or running step ends */
KT_API void kt_req_get_result(const kt_req *req, kt_gen_result *out);
KT_API void kt_req_close(kt_req *req);

/* ---- profile
 * --------------------------------------------------------------------------------------- */

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
        KT_PROFILE_PARTS
} kt_profile_part;

typedef struct kt_profile_phase {
    uint64_t n_batches, n_tok;
    double total_ms;                  /* the sum of part_ms */
    double part_ms[KT_PROFILE_PARTS]; /* a part's time is without the waits at its barriers */
    double busy_share; /* of all threads' time on the batches, 0 to 1: the rest they waited */
} kt_profile_phase;

typedef struct kt_profile {
    /* Wall time inside kt_chat, kt_generate, kt_req_open, kt_req_step, kt_engine_eval and
     * kt_seq_eval. What follows sums to it, within a part in fifty. */
    double total_ms;
    double template_ms, tokenize_ms; /* of kt_chat; kt_tokenize knows no engine */
    double setup_ms;                 /* opening requests: the sampler takes in the prompt */
    kt_profile_phase prefill;        /* batches with several tokens of a sequence */
    kt_profile_phase decode;         /* batches with one token of each */
    double sample_ms;
    double detokenize_ms; /* token to text, stop strings */
    double callback_ms;   /* inside the caller's kt_text_fn */
} kt_profile;

/* Starts counting from zero, or stops; what was counted stays until the next start. Costs well
 * under a percent while on. */
KT_API void kt_engine_profile_enable(kt_engine *engine, bool on);
KT_API void kt_engine_get_profile(kt_engine *engine, kt_profile *out);
KT_API const char *kt_profile_part_name(kt_profile_part part); /* "attention"; never NULL */

#ifdef __cplusplus
}
#endif
#endif
