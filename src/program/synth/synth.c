/* kentang synth: writes a GGUF file with a real model's geometry and seeded random weights. */
#include "synth/synth.h"
#include "synth/write_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "host/pool.h"
#include "term/cli.h"
#include "term/options.h"
#include "term/terminal.h"

enum { CHUNK_BYTES = 16 << 20 };

struct synth_opts {
    const char *preset, *quant, *vocab;
    uint64_t seed;
    int32_t n_threads, lora_rank;
    const char *base;
    int lora_kind;
    bool mtp_agrees;
};

static const kt__opt table[] = {
    {.name = "preset",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct synth_opts, preset),
     .arg = "NAME",
     .help = "geometry; the list is below"},
    {.name = "quant",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct synth_opts, quant),
     .arg = "NAME",
     .help = "quantisation recipe (default q4_k_m); the list is below"},
    {.name = "seed",
     .kind = KT__OPT_SEED,
     .at = offsetof(struct synth_opts, seed),
     .arg = "N",
     .help = "the same seed gives the same file (default 1)"},
    {.name = "vocab",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct synth_opts, vocab),
     .arg = "FILE.gguf",
     .help = "take the vocabulary and chat template from this file, padded with unused tokens up "
             "to the "
             "preset's size; a larger vocabulary enlarges the model (default: a made-up one)"},
    {.name = "threads",
     .brief = "t",
     .kind = KT__OPT_INT,
     .at = offsetof(struct synth_opts, n_threads),
     .min = 0,
     .max = KT_THREADS_MAX,
     .arg = "N",
     .help = "threads (default 0: as many as there are cores for us)"},
    {.name = "mtp-agrees",
     .kind = KT__OPT_ON,
     .at = offsetof(struct synth_opts, mtp_agrees),
     .help =
         "for a preset with a block that proposes tokens, or of Gemma 4 and its assistants: what "
         "is proposed is right wherever the most likely token is drawn, so that the temperature "
         "says how often"},
    {.name = "lora",
     .kind = KT__OPT_INT,
     .at = offsetof(struct synth_opts, lora_rank),
     .min = 1,
     .max = 256,
     .arg = "RANK",
     .help = "instead of a model, an adapter (LoRA) of this rank for the model of --base"},
    {.name = "base",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct synth_opts, base),
     .arg = "FILE.gguf",
     .help = "with --lora: the model"},
    {.name = "lora-kind",
     .kind = KT__OPT_ENUM,
     .at = offsetof(struct synth_opts, lora_kind),
     .choices = "all|last|hidden",
     .help = "with --lora: every matrix (default), the last layer's after its keys and values, or "
             "the final hidden state"},
};

/* ---- weights ---- */

typedef struct fill_job {
    const kt__synth_plan *plan;
    size_t tensor, row_bytes;
    int64_t first; /* row of out[0] */
    char *out;
} fill_job;

static void fill_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const fill_job *job = arg;
    (void)worker;
    kt__synth_fill(job->plan, job->tensor, job->first + begin, job->first + end,
                   job->out + (size_t)begin * job->row_bytes);
}

/* How far the weights are, on a terminal. */
typedef struct fill_progress {
    kt__byte_progress line;
    uint64_t n_done, n_all;
    bool shown;
} fill_progress;

static void show_filled(fill_progress *p, size_t n) {
    p->n_done += n;
    if (p->shown) kt__byte_progress_show(&p->line, p->n_done, p->n_all);
}

static kt_status write_tensor(const kt__synth_plan *plan, size_t index, kt__pool *pool,
                              char *buffer, kt__gguf_writer *w, fill_progress *progress,
                              kt_error *err) {
    const kt__synth_tensor *t = &plan->tensors[index];
    size_t row_bytes = kt__type_row_bytes(t->type, t->n_cols);
    int64_t step = (int64_t)(CHUNK_BYTES / row_bytes);
    for (int64_t row = 0; row < t->n_rows; row += step) {
        int64_t n = t->n_rows - row < step ? t->n_rows - row : step;
        fill_job job = {plan, index, row_bytes, row, buffer};
        kt__pool_run(pool, n, 16, fill_rows, &job);
        KT__STEP(kt__gguf_write_data(w, buffer, (size_t)n * row_bytes, err));
        show_filled(progress, (size_t)n * row_bytes);
    }
    return KT_OK;
}

static kt_status write_tensors(const kt__synth_plan *plan, int n_threads, kt__gguf_writer *w,
                               kt_error *err) {
    kt__pool *pool = NULL;
    fill_progress progress = {.n_all = plan->bytes, .shown = kt__terminal_can_draw(KT__STDERR)};
    char *buffer = kt__malloc(CHUNK_BYTES);
    kt_status status = buffer ? KT_OK : kt__fail_nomem(err, "a buffer", CHUNK_BYTES);
    if (status != KT_OK) return status;
    KT__TRY(kt__pool_create(n_threads, &pool, err));
    kt__pool_begin(pool, n_threads);
    for (size_t i = 0; status == KT_OK && i < plan->n_tensors; i++)
        status = write_tensor(plan, i, pool, buffer, w, &progress, err);
    kt__pool_end(pool);
    kt__byte_progress_end(&progress.line);
out:
    kt__pool_destroy(pool);
    kt__free(buffer);
    return status;
}

/* ---- the file ---- */

static kt_status write_file(const kt__synth_plan *plan, const kt__gguf *vocab, int n_threads,
                            const char *path, kt_error *err) {
    kt__gguf_writer *w = NULL;
    kt_status status;
    KT__TRY(kt__gguf_writer_open(path, &w, err));
    KT__TRY(kt__synth_put_header(plan, vocab, w, err));
    KT__TRY(kt__gguf_finish_header(w, err));
    KT__TRY(write_tensors(plan, n_threads, w, err));
    status = kt__gguf_writer_close(w, err);
    return status;
out:
    kt__gguf_writer_abort(w);
    return status;
}

/* The size of the vocabulary to plan for: the preset's, or the file's where that is larger. */
static kt_status open_vocab(const char *path, const kt__synth_preset *preset, kt__gguf **vocab,
                            int *n_vocab, kt_error *err) {
    const kt__gguf_open_params params = {.use_mmap = true, .vocab_only = true};
    const kt__gguf_kv *tokens;
    *n_vocab = preset->n_vocab;
    if (!path) return KT_OK;
    KT__STEP(kt__gguf_open(path, &params, vocab, err));
    KT__STEP(
        kt__gguf_get_array(*vocab, "tokenizer.ggml.tokens", true, KT__GGUF_STRING, &tokens, err));
    if (tokens->count > 1 << 22)
        return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                           "%" PRIu64 " tokens are over the limit of %d", tokens->count, 1 << 22);
    if ((int)tokens->count > *n_vocab) *n_vocab = (int)tokens->count;
    return KT_OK;
}

static int make_model(const struct synth_opts *opts, const kt__synth_preset *of,
                      const kt__recipe *recipe, const char *path) {
    kt__synth_preset own = *of;
    const kt__synth_preset *preset = &own;
    kt__synth_plan plan = {0};
    kt__gguf *vocab = NULL;
    kt_error err;
    int n_vocab, n_threads = opts->n_threads ? opts->n_threads : kt__write_threads();
    kt_status status;
    own.mtp_agrees = opts->mtp_agrees;
    KT__TRY(open_vocab(opts->vocab, preset, &vocab, &n_vocab, &err));
    KT__TRY(kt__synth_plan_make(preset, recipe, opts->seed, n_vocab, &plan, &err));
    KT__TRY(write_file(&plan, vocab, n_threads, path, &err));
    fprintf(stderr, "%s: %s, %s, %" PRIu64 " parameters, %.1f MiB of weights, seed %" PRIu64 "\n",
            path, preset->name, recipe->name, plan.n_params, (double)plan.bytes / (1 << 20),
            opts->seed);
out:
    kt__synth_plan_free(&plan);
    kt__gguf_close(vocab);
    return status == KT_OK ? 0 : kt__cli_fail("synth", &err);
}

/* ---- the command ---- */

static int make_adapter(const struct synth_opts *opts, const char *path) {
    const kt__synth_lora_params params = {.base = opts->base,
                                          .rank = opts->lora_rank,
                                          .kind = (kt__synth_lora_kind)opts->lora_kind,
                                          .seed = opts->seed};
    kt_error err;
    if (!opts->base || opts->preset)
        return kt__cli_usage_error("synth", "--lora needs --base and no --preset");
    if (kt__synth_lora_write(&params, path, &err) != KT_OK) return kt__cli_fail("synth", &err);
    return 0;
}

static const char *preset_name(size_t i) {
    return kt__synth_preset_at(i)->name;
}

int kt__cmd_synth(int argc, char **argv) {
    struct synth_opts opts = {.quant = "q4_k_m", .seed = 1};
    const kt__opt_group groups[] = {{"Options", table, KT__COUNT(table), &opts}};
    char notes[2048];
    size_t used = kt__write_list_names(notes, sizeof notes, "Presets", kt__synth_n_presets(),
                                       preset_name);
    used += kt__write_list_names(notes + used, sizeof notes - used, "Recipes", kt__recipe_count(),
                                 kt__write_recipe_name);
    snprintf(notes + used, sizeof notes - used,
             "\nExample: kentang synth --preset qwen2.5-1.5b --quant q4_k_m random.gguf\n");
    const kt__syntax syntax = {
        .command = "synth",
        .usage = "{--preset NAME | --lora RANK --base FILE.gguf} [OPTIONS] OUT.gguf",
        .about =
            "Writes a model with a real one's geometry, keys and mixture of types, and seeded "
            "random\n"
            "weights: for speed measurements and tests. Its answers mean nothing. Quantised blocks "
            "are\n"
            "drawn directly (bell-shaped levels, varying scales), not encoded from f32 weights.",
        .groups = groups,
        .n_groups = 1,
        .min_words = 1,
        .max_words = 1,
        .word = "OUT",
        .notes = notes};
    const char *path = NULL;
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, &path, &n_words);
    if (code >= 0) return code;
    const kt__synth_preset *preset;
    const kt__recipe *recipe;
    kt_error err;
    if (!strcmp(path, "-"))
        return kt__cli_usage_error("synth", "a model is written to a file, not to a pipe");
    if (opts.lora_rank) return make_adapter(&opts, path);
    if (!opts.preset) return kt__cli_usage_error("synth", "--preset is missing");
    if (kt__synth_find(opts.preset, opts.quant, &preset, &recipe, &err) != KT_OK)
        return kt__cli_fail("synth", &err);
    bool proposes = preset->n_mtp || !strncmp(preset->arch, "gemma4", 6);
    if (opts.mtp_agrees && !proposes)
        return kt__cli_usage_error("synth",
                                   "--mtp-agrees needs a preset with -mtp or gemma4 in its name");
    if (opts.mtp_agrees && preset->d_host && preset->d_host != preset->d_model)
        return kt__cli_usage_error("synth",
                                   "--mtp-agrees needs an assistant that is as wide as its "
                                   "model; a narrower one cannot say what that says");
    return make_model(&opts, preset, recipe, path);
}
