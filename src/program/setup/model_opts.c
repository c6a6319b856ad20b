#include "setup/model_opts.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/error.h"
#include "term/cli.h"
#include "setup/model_name.h"

#define AT(member) offsetof(kt__model_opts, member)

static const kt__opt table[] = {
    {"model", "m", NULL, KT__OPT_TEXT, AT(model), 0, 0, 0, NULL, "FILE",
     "GGUF file, or the name of a model that `kentang list` shows, or hf:OWNER/REPO, which is "
     "fetched (default: `model` of kentang.toml, else the embedded demo model)"},
    {"load-in", NULL, NULL, KT__OPT_TEXT, AT(load_in), 0, 0, 0, NULL, "FORM",
     "quantise the weights when they are loaded, once, and keep the copy in the cache folder: "
     "4bit, "
     "8bit, a recipe such as q4_k_m, or as-is (default: `load_in` of kentang.toml, LOAD_IN_4BIT, "
     "LOAD_IN_8BIT; else Hugging Face folders in 4bit, files as they are)"},
    {"no-mmap", NULL, NULL, KT__OPT_OFF, AT(params.use_mmap), 0, 0, 0, NULL, NULL,
     "read the weights into memory instead of mapping the file"},
    {"mlock", NULL, NULL, KT__OPT_ON, AT(params.use_mlock), 0, 0, 0, NULL, NULL,
     "keep the weights in memory, so that they are never paged out"},
    {"mem", NULL, NULL, KT__OPT_SIZE, AT(mem_bytes), 0, 0, 0, NULL, "SIZE",
     "memory for everything: weights, K/V, caches, scratch; 3G, 800M (default: what the machine "
     "and "
     "the cgroup leave, beside the mapped weights)"},
    {"exact", NULL, NULL, KT__OPT_ON, AT(params.exact), 0, 0, 0, NULL, NULL,
     "dequantised weights and f32 activations: slow, for measuring accuracy"},
    {"blas", NULL, NULL, KT__OPT_ON, AT(params.blas), 0, 0, 0, NULL, NULL,
     "long prompts' products with F32, F16 and BF16 weights by OpenBLAS (Debian: "
     "libopenblas0-pthread); answers are then not reproducible"},
    {"isa", NULL, NULL, KT__OPT_TEXT, AT(isa), 0, 0, 0, NULL, "TIER",
     "kernel tier: ref, sse41, avx2, avxvnni, avx512; on ARM ref, neon, dotprod, i8mm (default: "
     "the best "
     "of this machine; also KENTANG_ISA)"},
    {"rope-scaling", NULL, NULL, KT__OPT_ENUM, AT(rope_scaling), 0, 0, 0, "model|none|linear|yarn",
     NULL, "stretching of the context (default: as the model says)"},
    {"rope-freq-base", NULL, NULL, KT__OPT_FLOAT, AT(params.rope_freq_base), 0, 0, 1e12, NULL, "F",
     "RoPE base frequency (default: the model's)"},
    {"rope-freq-scale", NULL, NULL, KT__OPT_FLOAT, AT(params.rope_freq_scale), 0, 0, 1e3, NULL, "F",
     "RoPE frequency factor; 0.25 stretches the context four times (default: the model's)"},
    {"yarn-orig-ctx", NULL, NULL, KT__OPT_INT, AT(params.yarn_orig_ctx), 0, 0, 1 << 30, NULL, "N",
     "YaRN: context length the model was trained with (default: the model's)"},
    {"yarn-ext-factor", NULL, NULL, KT__OPT_FLOAT, AT(params.yarn_ext_factor), 0, -1, 1, NULL, "F",
     "YaRN: extrapolation mix, 0 is interpolation only (default: -1, the model's)"},
    {"yarn-attn-factor", NULL, NULL, KT__OPT_FLOAT, AT(params.yarn_attn_factor), 0, -1, 1e3, NULL,
     "F", "YaRN: attention magnitude (default: -1, the model's)"},
    {"yarn-beta-fast", NULL, NULL, KT__OPT_FLOAT, AT(params.yarn_beta_fast), 0, -1, 1e6, NULL, "F",
     "YaRN: low correction dimension (default: -1, the model's)"},
    {"yarn-beta-slow", NULL, NULL, KT__OPT_FLOAT, AT(params.yarn_beta_slow), 0, -1, 1e6, NULL, "F",
     "YaRN: high correction dimension (default: -1, the model's)"},
};

static const kt__opt place_table[] = {
    {"cpu-mask", "C", NULL, KT__OPT_TEXT, AT(cpu_mask), 0, 0, 0, NULL, "HEX",
     "processors to run on, as a mask: f is 0 to 3 (default: wherever the system puts the "
     "threads)"},
    {"cpu-range", "Cr", NULL, KT__OPT_TEXT, AT(cpu_range), 0, 0, 0, NULL, "LO-HI",
     "the same as a range or list: 0-3, or 0-1,4"},
    {"prio", NULL, NULL, KT__OPT_INT, AT(priority), 0, -1, 3, NULL, "N",
     "priority: -1 low, 0 normal (default), 1 medium, 2 high, 3 real time; above 0 needs a "
     "privilege"},
};

kt__model_opts kt__model_opts_default(void) {
    return (kt__model_opts){.params = kt_model_params_default()};
}

kt__opt_group kt__model_opts_group(kt__model_opts *opts) {
    return (kt__opt_group){"Model", table, KT__COUNT(table), opts};
}

kt__opt_group kt__model_opts_place_group(kt__model_opts *opts) {
    return (kt__opt_group){"Processors", place_table, KT__COUNT(place_table), opts};
}

kt__opt_group kt__model_opts_file_group(kt__model_opts *opts) {
    return (kt__opt_group){"Model", table, 1, opts};
}

static kt_status open_model(const kt__model_opts *opts, const char *name, bool vocab_only,
                            kt_ctx *ctx, kt_model **model, kt_error *err) {
    kt_model_params params = opts->params;
    params.rope_scaling = (kt_rope_scaling)opts->rope_scaling;
    params.vocab_only = vocab_only;
    char *file;
    kt_status status = kt__model_name_find(name, opts->load_in, &file, err);
    if (status != KT_OK) return status;
    status = file ? kt_model_open(ctx, file, &params, model, err)
                  : kt_model_open_demo(ctx, &params, model, err);
    kt__free(file);
    return status;
}

/* "0x" before a mask without it, and both options as one list. */
static kt_status join_cpus(const kt__model_opts *opts, char *out, size_t size, const char **cpus,
                           kt_error *err) {
    const char *mask = opts->cpu_mask ? opts->cpu_mask : "";
    bool bare = *mask && strncmp(mask, "0x", 2) != 0 && strncmp(mask, "0X", 2) != 0;
    *cpus = NULL;
    if (!opts->cpu_mask && !opts->cpu_range) return KT_OK;
    int n = snprintf(out, size, "%s%s%s%s", bare ? "0x" : "", mask,
                     opts->cpu_mask && opts->cpu_range ? "," : "",
                     opts->cpu_range ? opts->cpu_range : "");
    if (n < 0 || (size_t)n >= size) return kt__fail(err, KT_E_ARG, "--cpu-mask is too long");
    *cpus = out;
    return KT_OK;
}

/* The library leaves the calling thread's priority alone; here it is one of the workers. */
static kt_status set_own_priority(int32_t priority, kt_error *err) {
    static const int nices[] = {10, 0, -5, -10};
    int rc = 0;
    if (priority == 3) {
        struct sched_param param = {.sched_priority = sched_get_priority_min(SCHED_RR)};
        rc = sched_setscheduler(0, SCHED_RR, &param);
    } else if (priority != 0) {
        rc = setpriority(PRIO_PROCESS, 0, nices[priority + 1]);
    }
    if (rc == 0) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "--prio %d is not allowed here: %s; leave it out, or grant CAP_SYS_NICE or a "
                    "limit (ulimit -e, ulimit -r)",
                    (int)priority, strerror(errno));
}

kt_status kt__model_opts_open_ctx(const kt__model_opts *opts, kt_ctx **ctx, kt_error *err) {
    kt_ctx_params params = kt_ctx_params_default();
    char cpus[512];
    kt_status status;
    *ctx = NULL;
    /* read by OpenBLAS when it is loaded: it then starts no threads that would only sleep */
    if (opts->params.blas) (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    params.isa = opts->isa;
    params.n_threads = opts->n_threads;
    params.n_threads_max = opts->n_threads_max;
    params.priority = opts->priority;
    params.mem_bytes = opts->mem_bytes;
    params.log = kt__cli_log;
    params.log_level = KT_LOG_WARN;
    KT__TRY(join_cpus(opts, cpus, sizeof cpus, &params.cpus, err));
    KT__TRY(kt_ctx_open(&params, ctx, err));
    status = set_own_priority(opts->priority, err);
    if (status == KT_OK) return KT_OK;
    kt_ctx_close(*ctx);
    *ctx = NULL;
out:
    return status;
}

kt_status kt__model_opts_open(const kt__model_opts *opts, const char *word, bool vocab_only,
                              kt_ctx **ctx, kt_model **model, kt_error *err) {
    *ctx = NULL;
    *model = NULL;
    if (word && opts->model) {
        return kt__fail(err, KT_E_ARG, "two models: \"%.200s\" and -m \"%.200s\"", word,
                        opts->model);
    }
    /* this program owns its process: a model file truncated in use becomes an error, not a SIGBUS
     */
    kt_status status = kt_install_fault_guard(err);
    if (status == KT_OK) status = kt__model_opts_open_ctx(opts, ctx, err);
    if (status != KT_OK) return status;
    status = open_model(opts, word ? word : opts->model, vocab_only, *ctx, model, err);
    if (status == KT_OK) return KT_OK;
    kt_ctx_close(*ctx);
    *ctx = NULL;
    return status;
}
