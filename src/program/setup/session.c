#include "setup/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "setup/model_name.h"
#include "setup/tuned.h"
#include "setup/step_threads.h"
#include "term/interrupt.h"

/* ---- options ---- */

#define AT(member) offsetof(kt__session_opts, member)
#define WHOLE(option, other, short_name, member, low, high, text)                                  \
    {                                                                                              \
        .name = option, .also = other, .brief = short_name, .kind = KT__OPT_INT, .at = AT(member), \
        .min = low, .max = high, .arg = "N", .help = text                                          \
    }

static const kt__opt table[] = {
    WHOLE("ctx", "ctx-size", "c", n_ctx, 0, KT_CTX_MAX,
          "positions of the context: prompt and answer (default 0: the model's, at most 4096, or "
          "up to 32768 where memory allows)"),
    WHOLE("batch", "batch-size", "b", n_batch, 0, KT_BATCH_MAX,
          "prompt tokens taken at a time (default 2048)"),
    WHOLE("ubatch", "ubatch-size", "ub", n_ubatch, 0, KT_UBATCH_MAX,
          "prompt tokens computed together (default 512)"),
    WHOLE("threads", NULL, "t", n_threads, 0, KT_THREADS_MAX,
          "threads while generating (default 0: by cores, affinity and quota)"),
    WHOLE("threads-batch", NULL, "tb", n_threads_batch, 0, KT_THREADS_MAX,
          "threads for the prompt (default 0: as --threads)"),
    KT__KV_OPT_ROWS(kt__session_opts, kv),
    {.name = "preset",
     .kind = KT__OPT_ENUM,
     .at = AT(preset),
     .choices = "none|potato|extreme",
     .help =
         "potato: 2 threads, context at most 2048, batch 1024/256, no mlock; extreme: the "
         "prompt on all cores, generation on as many as tune or a short measurement found best, "
         "one processor a core, batch 2048/512; options given beside it win"},
    {.name = "no-tuned",
     .kind = KT__OPT_ON,
     .at = AT(no_tuned),
     .help = "do not use what `kentang tune` found for this model"},
};

static const kt__opt draft_table[] = {
    {.name = "draft-model",
     .also = "model-draft",
     .brief = "md",
     .kind = KT__OPT_TEXT,
     .at = AT(draft_model),
     .arg = "FILE",
     .help = "a smaller model with the same vocabulary: it proposes tokens, which the model checks "
             "several at a time; the answer stays the same"},
    {.name = "draft-max",
     .also = "draft",
     .kind = KT__OPT_INT,
     .at = AT(n_draft),
     .min = 0,
     .max = KT_DRAFT_MAX,
     .arg = "N",
     .help = "tokens proposed at once, at most, where measurements say that it pays: from the "
             "text so far, else by the draft model (default 8; 0: no speculation)"},
};

enum { PRESET_NONE, PRESET_POTATO, PRESET_EXTREME };
enum { POTATO_CTX = 2048 };

kt__session_opts kt__session_opts_default(void) {
    return (kt__session_opts){
        .model = kt__model_opts_default(), .kv = kt__kv_opts_default(), .n_draft = -1};
}

kt__opt_group kt__session_opts_group(kt__session_opts *opts) {
    return (kt__opt_group){"Size and threads", table, KT__COUNT(table), opts};
}

static const kt__opt many_table[] = {
    {.name = "parallel",
     .brief = "np",
     .kind = KT__OPT_INT,
     .at = AT(n_parallel),
     .min = 0,
     .max = KT_PARALLEL_MAX,
     .arg = "N",
     .help = "answers computed together (default 0: as many as memory allows, at most 16)"},
};

kt__opt_group kt__session_opts_many_group(const char *title, kt__session_opts *opts) {
    return (kt__opt_group){title, many_table, KT__COUNT(many_table), opts};
}

kt__opt_group kt__session_opts_draft_group(kt__session_opts *opts) {
    return (kt__opt_group){"Speculation", draft_table, KT__COUNT(draft_table), opts};
}

static int32_t first_set(int32_t given, int32_t otherwise) {
    return given ? given : otherwise;
}

static int32_t least_set(int32_t wanted, int32_t limit) {
    return limit > 0 && limit < wanted ? limit : wanted;
}

/* The options with the preset's values where nothing was given; the context follows when the model
 * is known. */
static kt__session_opts with_preset(const kt__session_opts *given) {
    kt__session_opts opts = *given;
    if (opts.preset == PRESET_POTATO) {
        opts.n_threads = first_set(opts.n_threads, 2);
        opts.n_batch = first_set(opts.n_batch, 1024);
        opts.n_ubatch = first_set(opts.n_ubatch, 256);
    } else if (opts.preset == PRESET_EXTREME) {
        opts.n_batch = first_set(opts.n_batch, 2048);
        opts.n_ubatch = first_set(opts.n_ubatch, 512);
    }
    opts.n_threads_batch = first_set(opts.n_threads_batch, opts.n_threads);
    return opts;
}

/* ---- opening ---- */

/* As the model is opened, but without what would change its numbers for their own sake. */
static kt_status open_draft(const kt__session_opts *opts, kt__session *s, kt_error *err) {
    kt_model_params params = kt_model_params_default();
    if (!opts->draft_model || opts->n_draft == 0) return KT_OK;
    params.use_mmap = opts->model.params.use_mmap;
    params.use_mlock = opts->model.params.use_mlock;
    char *file;
    kt_status status = kt__model_name_find(opts->draft_model, NULL, &file, err);
    if (status != KT_OK) return status;
    status = file ? kt_model_open(s->ctx, file, &params, &s->draft, err)
                  : kt_model_open_demo(s->ctx, &params, &s->draft, err);
    kt__free(file);
    return status;
}

static kt_status open_engine(const kt__session_opts *opts, kt__session *s, kt_error *err) {
    kt_engine_params params = kt_engine_params_default();
    params.n_ctx = opts->n_ctx;
    if (!opts->n_ctx && opts->preset == PRESET_POTATO)
        params.n_ctx = least_set(POTATO_CTX, s->info.n_ctx_train);
    params.n_batch = opts->n_batch;
    params.n_ubatch = opts->n_ubatch;
    params.n_seq_max = opts->many ? 0 : 1;
    params.n_parallel = opts->many ? opts->n_parallel : 0;
    params.n_threads = opts->n_threads;
    params.n_threads_batch = opts->n_threads_batch;
    kt__kv_opts_set(&opts->kv, &params);
    params.n_draft = opts->n_draft == 0 ? -1 : opts->n_draft > 0 ? opts->n_draft : 0;
    kt_status status = open_draft(opts, s, err);
    params.draft = s->draft;
    if (status == KT_OK) status = kt_engine_open(s->model, &params, &s->engine, err);
    if (status == KT_OK && !opts->many) status = kt_seq_open(s->engine, &s->seq, err);
    if (status == KT_OK) kt_engine_get_info(s->engine, &s->engine_info);
    if (status == KT_OK) status = kt__lora_set_open(&opts->lora, s->model, &s->lora, err);
    if (status == KT_OK && s->seq)
        status = kt_seq_set_adapters(s->seq, s->lora.uses, s->lora.n, err);
    return status;
}

/* What tune found, where no option and no preset says otherwise. A number of threads that is the
 * automatic one anyway stays automatic, and so follows quota and affinity. */
static void use_tuned(kt__session_opts *opts, kt__session *s) {
    kt__tuned tuned;
    if (opts->no_tuned || opts->preset == PRESET_POTATO) return;
    if (!kt__tuned_load(&s->info, kt_ctx_isa(s->ctx), &tuned)) return;
    int automatic = kt_ctx_n_threads(s->ctx);
    if (!opts->n_threads && !opts->n_threads_batch) {
        if (tuned.n_threads != automatic) opts->n_threads = tuned.n_threads;
        if (tuned.n_threads_batch != automatic) opts->n_threads_batch = tuned.n_threads_batch;
    }
    opts->n_batch = first_set(opts->n_batch, tuned.n_batch);
    opts->n_ubatch = first_set(opts->n_ubatch, tuned.n_ubatch);
    snprintf(s->tuned, sizeof s->tuned, "%s", tuned.date);
}

/* One processor of each core, unless the processors are given. */
static void use_whole_cores(kt__session_opts *opts, char *cpus, size_t size) {
    kt_error ignored;
    if (opts->preset != PRESET_EXTREME || opts->model.cpu_mask || opts->model.cpu_range) return;
    if (kt_cpus_split(NULL, 1, 0, true, cpus, size, &ignored) == KT_OK)
        opts->model.cpu_range = cpus;
}

/* The prompt on all cores; generation on as many as are fastest, which is measured where neither an
 * option nor tune says it. */
static kt_status use_extreme(kt__session_opts *opts, kt__session *s, kt_error *err) {
    int n_cores = kt_ctx_n_threads(s->ctx), n_best;
    if (opts->preset != PRESET_EXTREME) return KT_OK;
    opts->n_threads_batch = first_set(opts->n_threads_batch, n_cores);
    snprintf(s->preset, sizeof s->preset, "extreme%s",
             !opts->n_threads ? ", generation threads measured" : "");
    if (opts->n_threads) return KT_OK;
    kt_status status = kt__step_threads_find(s->model, n_cores, &n_best, err);
    if (status == KT_OK) opts->n_threads = n_best;
    return status;
}

/* Again, with a pool for the threads that tune found best. */
static kt_status reopen_with_threads(kt__session_opts *opts, const char *word, kt__session *s,
                                     kt_error *err) {
    int most = opts->n_threads > opts->n_threads_batch ? opts->n_threads : opts->n_threads_batch;
    if (most <= kt_ctx_n_threads(s->ctx)) return KT_OK;
    kt_model_close(s->model);
    kt_ctx_close(s->ctx);
    opts->model.n_threads_max = most;
    kt_status status = kt__model_opts_open(&opts->model, word, false, &s->ctx, &s->model, err);
    if (status == KT_OK) kt_model_get_info(s->model, &s->info);
    return status;
}

kt_status kt__session_open(const kt__session_opts *given, const char *word, kt__session *out,
                           kt_error *err) {
    kt__session_opts opts = with_preset(given);
    char cpus[2048];
    memset(out, 0, sizeof *out);
    use_whole_cores(&opts, cpus, sizeof cpus);
    /* the pool is large enough for both; what was not asked for is chosen, and follows the limits
     */
    opts.model.n_threads = opts.n_threads;
    opts.model.n_threads_max = opts.n_threads_batch;
    kt_status status = kt__model_opts_open(&opts.model, word, false, &out->ctx, &out->model, err);
    if (status != KT_OK) return status;
    kt_model_get_info(out->model, &out->info);
    use_tuned(&opts, out);
    if (out->tuned[0]) status = reopen_with_threads(&opts, word, out, err);
    if (status == KT_OK) status = use_extreme(&opts, out, err);
    if (status != KT_OK) {
        kt__session_close(out);
        return status;
    }
    out->reproducible = !opts.model.params.blas;
    status = open_engine(&opts, out, err);
    if (status != KT_OK) kt__session_close(out);
    return status;
}

void kt__session_close(kt__session *s) {
    kt__interrupt_unwatch();
    kt_seq_close(s->seq);
    kt_engine_close(s->engine);
    kt__lora_set_close(&s->lora);
    kt_model_close(s->draft);
    kt_model_close(s->model);
    kt_ctx_close(s->ctx);
    memset(s, 0, sizeof *s);
}

/* ---- the plan ---- */

/* "12.3 GB" and the like */
typedef struct amount {
    char text[72];
} amount;

static amount bytes_text(uint64_t bytes) {
    amount a;
    double b = (double)bytes;
    if (b >= 1e9) {
        snprintf(a.text, sizeof a.text, "%.2f GB", b / 1e9);
    } else if (b >= 1e6) {
        snprintf(a.text, sizeof a.text, "%.0f MB", b / 1e6);
    } else {
        snprintf(a.text, sizeof a.text, "%.0f kB", b / 1e3);
    }
    return a;
}

/* The number after "KEY" in a file of "KEY: NUMBER kB" lines, in bytes; 0 if it is not there. */
static uint64_t read_kb(const char *path, const char *key) {
    char line[256];
    uint64_t bytes = 0;
    size_t len = strlen(key);
    FILE *in = fopen(path, "r");
    if (!in) return 0;
    while (fgets(line, sizeof line, in)) {
        if (!strncmp(line, key, len) && line[len] == ':')
            bytes = strtoull(line + len + 1, NULL, 10) * 1024;
    }
    fclose(in);
    return bytes;
}

void kt__memory_used(uint64_t *peak_bytes, uint64_t *anon_bytes) {
    *peak_bytes = read_kb("/proc/self/status", "VmHWM");
    *anon_bytes = read_kb("/proc/self/status", "RssAnon");
}

/* ", processors 0-3, priority 2": what was asked for beyond the number of threads */
static void print_place(const kt__model_opts *opts) {
    if (opts->cpu_mask || opts->cpu_range)
        fprintf(stderr, ", processors %s%s%s%s", opts->cpu_mask ? "mask " : "",
                opts->cpu_mask ? opts->cpu_mask : "",
                opts->cpu_mask && opts->cpu_range ? " and " : "",
                opts->cpu_range ? opts->cpu_range : "");
    if (opts->priority) fprintf(stderr, ", priority %d", (int)opts->priority);
}

static void print_adapters(const kt__lora_set *set) {
    for (size_t i = 0; i < set->n; i++) {
        kt_adapter_info info;
        kt_adapter_get_info(set->uses[i].adapter, &info);
        fprintf(stderr, " | adapter %s", info.name);
        if (set->uses[i].scale != 1.0f) fprintf(stderr, " x %g", (double)set->uses[i].scale);
    }
}

static void print_draft(const kt__session *s) {
    kt_model_info info;
    kt_model_get_info(s->draft, &info);
    fprintf(stderr, " | draft model %s %s", info.name[0] ? info.name : info.path, info.quant);
}

/* "K/V 20 MB", and what it is held as where that is not f16 */
static void print_kv(const kt_engine_info *e) {
    fprintf(stderr, "K/V %s", bytes_text(e->kv_bytes_max).text);
    if (e->state_bytes) fprintf(stderr, ", states %s", bytes_text(e->state_bytes).text);
    if (e->kv_keys == KT_KV_F16 && e->kv_values == KT_KV_F16) return;
    if (e->kv_keys == e->kv_values) {
        fprintf(stderr, " in %s", kt_kv_type_name(e->kv_keys));
    } else {
        fprintf(stderr, ", keys in %s, values in %s", kt_kv_type_name(e->kv_keys),
                kt_kv_type_name(e->kv_values));
    }
    if (e->n_f16_layers)
        fprintf(stderr, " (f16 keys in %d layers, whose bias is an outlier)", e->n_f16_layers);
    if (e->kv_tail) fprintf(stderr, ", the last %d positions in f16", e->kv_tail);
    fprintf(stderr, ", %s in f16 while it is %s", bytes_text(e->kv_young_bytes).text,
            e->kv_tail ? "written or recent" : "written");
}

void kt__session_print_plan(const kt__session *s, const kt__session_opts *opts) {
    const kt_engine_info *e = &s->engine_info;
    const char *name = s->info.name && s->info.name[0] ? s->info.name : s->info.path;
    bool embedded = !strcmp(s->info.path, "(demo)"),
         mapped = opts->model.params.use_mmap && !embedded;
    uint64_t anonymous = e->kv_bytes_max + e->kv_young_bytes + e->state_bytes + e->scratch_bytes;
    if (!mapped && !embedded) anonymous += s->info.weight_bytes;
    fprintf(stderr, "kentang: %s %s (%s, %s%s)%s | %s, %s | threads %d", name, s->info.quant,
            s->info.arch, bytes_text(s->info.file_bytes).text,
            mapped     ? " mapped"
            : embedded ? " embedded"
                       : " in memory",
            opts->model.params.exact ? " exact" : "", kt_ctx_isa(s->ctx), kt_ctx_isa_why(s->ctx),
            e->n_threads);
    if (e->n_threads_batch != e->n_threads) fprintf(stderr, "/%d", e->n_threads_batch);
    fprintf(stderr, ", %s", kt_ctx_n_threads_why(s->ctx));
    print_place(&opts->model);
    if (opts->many) fprintf(stderr, " | %d at once", e->n_parallel);
    fprintf(stderr, " | context %d, batch %d/%d | memory %s (", e->n_ctx, e->n_batch, e->n_ubatch,
            bytes_text(anonymous).text);
    print_kv(e);
    fprintf(stderr, ", scratch %s)", bytes_text(e->scratch_bytes).text);
    if (opts->model.mem_bytes) {
        fprintf(stderr, "; planned %s of --mem %s, weights and tables included",
                bytes_text(e->mem_planned_bytes).text, bytes_text(e->mem_budget_bytes).text);
    } else if (e->mem_budget_bytes) { /* the cgroup's limit counts, too */
        fprintf(stderr, " of %s available", bytes_text(e->mem_budget_bytes).text);
    }
    if (s->draft) print_draft(s);
    print_adapters(&s->lora);
    if (s->tuned[0]) fprintf(stderr, " | tuned %s", s->tuned);
    if (s->preset[0]) fprintf(stderr, " | preset %s", s->preset);
    if (!s->reproducible) fputs(" | OpenBLAS: answers not reproducible", stderr);
    fputc('\n', stderr);
}

void kt__session_warn(const kt__session *s, const kt__session_opts *opts) {
    int32_t n_ctx = s->engine_info.n_ctx, trained = s->info.n_ctx_train;
    if (trained <= 0 || n_ctx <= trained || opts->model.rope_scaling > 1) return;
    fprintf(stderr,
            "kentang: warning: a context of %d is more than the %d positions that the model was "
            "trained for; what is said beyond them may make no sense (--rope-scaling yarn "
            "stretches it)\n",
            (int)n_ctx, (int)trained);
}

/* An adapter that was trained comes behind those of --lora. */
kt_status kt__session_recall(kt__session *s, kt_request_params *request, kt_learned *learned,
                             kt_error *err) {
    kt_adapter_use uses[KT_ADAPTERS_MAX];
    size_t n = s->lora.n;
    *learned = (kt_learned){0};
    if (!s->learner) return KT_OK;
    kt_status status = kt_learner_get(s->learner, KT_VERSION_SERVED, learned, err);
    if (status != KT_OK) return status;
    request->recall = learned->recall;
    for (size_t i = 0; i < n; i++) uses[i] = s->lora.uses[i];
    if (learned->adapter && n < KT_ADAPTERS_MAX)
        uses[n++] = (kt_adapter_use){learned->adapter, 1.0f};
    status = kt_seq_set_adapters(s->seq, uses, n, err);
    if (status != KT_OK) kt_learned_close(learned);
    return status;
}

/* ---- figures ---- */

void kt__figures_add(kt__figures *f, const kt_request_report *r) {
    f->last = *r;
    if (!f->n_answers++) f->first_token_ms = (double)r->first_token_us * 1e-3;
    f->n_prompt += r->n_prompt;
    f->n_generated += r->n_generated;
    f->n_drafted += r->n_drafted;
    f->n_accepted += r->n_accepted;
    f->prefill_ms += (double)r->prefill_us * 1e-3;
    f->decode_ms += (double)(r->decode_us + r->sample_us) * 1e-3;
    f->n_prefilled += r->n_prompt - r->n_cached;
    /* the first token comes from the prompt's logits */
    if (r->n_generated > 1) f->n_decoded += r->n_generated - 1;
}

static double per_second(int64_t n, double ms) {
    return n > 0 && ms > 0.0 ? (double)n * 1000.0 / ms : 0.0;
}

double kt__figures_prefill_tok_s(const kt__figures *f) {
    return per_second(f->n_prefilled, f->prefill_ms);
}

double kt__figures_decode_tok_s(const kt__figures *f) {
    return per_second(f->n_decoded, f->decode_ms);
}

/* ", 12 of 30 proposed tokens right", or nothing */
static amount speculation_text(const kt__figures *f) {
    amount a = {""};
    if (f->n_drafted)
        snprintf(a.text, sizeof a.text, ", %lld of %lld proposed tokens right",
                 (long long)f->n_accepted, (long long)f->n_drafted);
    return a;
}

void kt__figures_print(const kt__figures *f) {
    uint64_t peak, anon;
    kt__memory_used(&peak, &anon);
    fprintf(stderr, "kentang: prompt %lld tokens", (long long)f->n_prompt);
    if (f->n_prefilled < f->n_prompt) {
        fprintf(stderr, " (%lld computed)", (long long)f->n_prefilled);
    }
    fprintf(
        stderr,
        ", %.1f tok/s | generated %lld tokens, %.1f tok/s%s | first token %.1f ms | peak memory %s "
        "(anonymous %s) | finish %s | seed %llu\n",
        kt__figures_prefill_tok_s(f), (long long)f->n_generated, kt__figures_decode_tok_s(f),
        speculation_text(f).text, f->first_token_ms, bytes_text(peak).text, bytes_text(anon).text,
        kt_finish_name(f->last.finish), (unsigned long long)f->last.seed);
}
