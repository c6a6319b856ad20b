#include "setup/serve_opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "setup/model_name.h"
#include "base/json_out.h"
#include "setup/lora_opts.h"
#include "setup/tuned.h"
#include "setup/config.h"

extern char **environ;

#define AT(member) offsetof(kt__serve_opts, member)

static const kt__opt file_table[] = {
    {.name = "config",
     .kind = KT__OPT_TEXT,
     .at = AT(config),
     .arg = "FILE",
     .help = "TOML file (default: $XDG_CONFIG_HOME/kentang/kentang.toml, then "
             "/etc/kentang/kentang.toml)"},
    {.name = "no-config",
     .kind = KT__OPT_ON,
     .at = AT(no_config),
     .help = "read no configuration file"},
    {.name = "env-file",
     .kind = KT__OPT_TEXT,
     .at = AT(env_file),
     .arg = "FILE",
     .help = "NAME=VALUE lines (default: .env in the working directory, where it is)"},
    {.name = "no-env",
     .kind = KT__OPT_ON,
     .at = AT(no_env),
     .help = "read neither .env nor the environment"},
    {.name = "set",
     .kind = KT__OPT_TEXTS,
     .at = AT(set),
     .arg = "KEY=VALUE",
     .help = "any setting of the file, such as limits.queue=64; may be repeated"},
};

static const kt__opt model_table[] = {
    {.name = "model",
     .brief = "m",
     .kind = KT__OPT_TEXT,
     .at = AT(model),
     .arg = "FILE",
     .help = "GGUF file (default: the embedded demo model)"},
    {.name = "alias",
     .kind = KT__OPT_TEXT,
     .at = AT(alias),
     .arg = "NAME",
     .help = "what requests call the model (default: the file's name)"},
    {.name = "draft-model",
     .kind = KT__OPT_TEXT,
     .at = AT(draft_model),
     .arg = "FILE",
     .help = "GGUF file of a small model with the same vocabulary that proposes tokens"},
    {.name = "lora",
     .kind = KT__OPT_TEXTS,
     .at = AT(lora),
     .arg = "FILE[=SCALE]",
     .help = "an adapter (LoRA) of the model, for requests that name none, by its file's name; may "
             "be repeated"},
    {.name = "threads",
     .brief = "t",
     .kind = KT__OPT_TEXT,
     .at = AT(threads),
     .arg = "N",
     .help = "threads (default: by cores, affinity and quota)"},
    {.name = "ctx",
     .brief = "c",
     .kind = KT__OPT_TEXT,
     .at = AT(ctx),
     .arg = "N",
     .help = "positions of a request (default: the model's, at most 4096, or up to 32768 where "
             "memory allows)"},
    {.name = "mem",
     .kind = KT__OPT_TEXT,
     .at = AT(mem),
     .arg = "SIZE",
     .help = "memory for weights, K/V, caches and scratch, such as 3G"},
    {.name = "parallel",
     .kind = KT__OPT_TEXT,
     .at = AT(parallel),
     .arg = "N",
     .help = "answers computed together (default: as memory allows, at most 16)"},
    {.name = "kv",
     .kind = KT__OPT_TEXT,
     .at = AT(kv),
     .arg = "TYPE",
     .help = "what keys and values are held as: f16, q8 or q4 for half or a quarter of the memory "
             "and slightly other answers, k8v4, or a preset: chat-short, chat-long, document-qa, "
             "code, cpu (default f16)"},
    {.name = "cache-type-k",
     .brief = "ctk",
     .kind = KT__OPT_TEXT,
     .at = AT(kv_keys),
     .arg = "TYPE",
     .help = "keys alone: f16, q8_0 or q4_0 (default: as --kv)"},
    {.name = "cache-type-v",
     .brief = "ctv",
     .kind = KT__OPT_TEXT,
     .at = AT(kv_values),
     .arg = "TYPE",
     .help = "values alone (default: as --kv)"},
    {.name = "kv-tail",
     .kind = KT__OPT_TEXT,
     .at = AT(kv_tail),
     .arg = "N",
     .help = "the last positions, at least so many, are read as f16 all the same (default 256 with "
             "4 bits, else 0)"},
};

#define TEXT(option, second, letters, member, called, said)                                       \
    {                                                                                             \
        .name = option, .also = second, .brief = letters, .kind = KT__OPT_TEXT, .at = AT(member), \
        .arg = called, .help = said                                                               \
    }

/* As in `run`; each is a setting of the same name. */
static const kt__opt compute_table[] = {
    TEXT("threads-batch", NULL, "tb", threads_batch, "N",
         "threads for prompts (default: as --threads)"),
    TEXT("batch", "batch-size", "b", batch, "N", "prompt tokens taken at a time (default 2048)"),
    TEXT("ubatch", "ubatch-size", "ub", ubatch, "N",
         "prompt tokens computed together (default 512)"),
    TEXT("preset", NULL, NULL, preset, "NAME",
         "potato: 2 threads, context 2048, batch 1024/256; extreme: prompts on all cores, answers "
         "on "
         "as many as tune or a short measurement found best, one processor a core; none"),
    TEXT("contexts", NULL, NULL, contexts, "N",
         "engines on disjoint cores that share the model's requests (default: what tune found, "
         "else 1)"),
    TEXT("cpu-mask", NULL, "C", cpu_mask, "HEX", "processors to run on, as a mask: f is 0 to 3"),
    TEXT("cpu-range", NULL, "Cr", cpu_range, "LO-HI", "the same as a range or list: 0-3, or 0-1,4"),
    TEXT(
        "prio", NULL, NULL, priority, "N",
        "priority of the threads: -1 low, 0 normal (default), 1 medium, 2 high, 3 real time; above "
        "0 needs a privilege"),
    {.name = "no-mmap",
     .kind = KT__OPT_ON,
     .at = AT(no_mmap),
     .help = "read the weights into memory instead of mapping the file"},
    {.name = "mlock",
     .kind = KT__OPT_ON,
     .at = AT(mlock),
     .help = "keep the weights in memory, so that they are never paged out"},
    {.name = "blas",
     .kind = KT__OPT_ON,
     .at = AT(blas),
     .help = "products of prompts with F32, F16 and BF16 weights by OpenBLAS: answers are then not "
             "reproducible"},
    TEXT("cache", NULL, NULL, cache, "DIR", "directory of the disk cache for prompts"),
    TEXT("cache-max", NULL, NULL, cache_max, "SIZE", "size of the disk cache (default 8G)"),
    TEXT("rope-scaling", NULL, NULL, rope[0], "NAME",
         "stretching of the context: model, none, linear or yarn (default: as the model says)"),
    TEXT("rope-freq-base", NULL, NULL, rope[1], "F", "RoPE base frequency (default: the model's)"),
    TEXT("rope-freq-scale", NULL, NULL, rope[2], "F",
         "RoPE frequency factor (default: the model's)"),
    TEXT("yarn-orig-ctx", NULL, NULL, rope[3], "N",
         "YaRN: context length the model was trained with (default: the model's)"),
    TEXT("yarn-ext-factor", NULL, NULL, rope[4], "F",
         "YaRN: extrapolation mix, 0 is interpolation only (default: -1, the model's)"),
    TEXT("yarn-attn-factor", NULL, NULL, rope[5], "F",
         "YaRN: attention magnitude (default: -1, the model's)"),
    TEXT("yarn-beta-fast", NULL, NULL, rope[6], "F",
         "YaRN: low correction dimension (default: -1, the model's)"),
    TEXT("yarn-beta-slow", NULL, NULL, rope[7], "F",
         "YaRN: high correction dimension (default: -1, the model's)"),
};

static const kt__opt listen_table[] = {
    {.name = "check",
     .kind = KT__OPT_ON,
     .at = AT(check),
     .help = "validate, print the resulting configuration as TOML, and end"},
    {.name = "listen",
     .kind = KT__OPT_TEXT,
     .at = AT(listen),
     .arg = "ADDR:PORT",
     .help = "where HTTP listens, also unix:PATH, or none (default: 127.0.0.1:8000)"},
    {.name = "socket",
     .kind = KT__OPT_TEXT,
     .at = AT(socket),
     .arg = "PATH",
     .help = "Unix socket for lines of JSON, or none (default: $XDG_RUNTIME_DIR/kentang.sock)"},
    {.name = "learn",
     .kind = KT__OPT_ON,
     .at = AT(learn),
     .help = "take feedback on answers and learn from it, for each client apart"},
    {.name = "keys",
     .kind = KT__OPT_TEXT,
     .at = AT(keys),
     .arg = "FILE",
     .help = "file of API keys; needed to listen beyond loopback"},
};

kt__opt_group kt__serve_opts_model_group(kt__serve_opts *opts) {
    return (kt__opt_group){"Serving", model_table, KT__COUNT(model_table), opts};
}

kt__opt_group kt__serve_opts_compute_group(kt__serve_opts *opts) {
    return (kt__opt_group){"Computing", compute_table, KT__COUNT(compute_table), opts};
}

kt__opt_group kt__serve_opts_listen_group(kt__serve_opts *opts) {
    return (kt__opt_group){"The server", listen_table, KT__COUNT(listen_table), opts};
}

kt__opt_group kt__serve_opts_file_group(kt__serve_opts *opts) {
    return (kt__opt_group){"Configuration", file_table, KT__COUNT(file_table), opts};
}

/* ---- what `kentang tune` found ---- */

/* A number of threads that is the automatic one anyway stays automatic, and so follows quota and
 * affinity. */
static bool find_tuned(const kt_model_info *info, const char *isa, int n_threads_auto,
                       kt_engine_params *params, int *n_contexts, char *date, size_t date_size) {
    kt__tuned tuned;
    if (!kt__tuned_load(info, isa, &tuned)) return false;
    if (!params->n_threads && !params->n_threads_batch) {
        if (tuned.n_threads != n_threads_auto) params->n_threads = tuned.n_threads;
        if (tuned.n_threads_batch != n_threads_auto)
            params->n_threads_batch = tuned.n_threads_batch;
    }
    if (!params->n_batch) params->n_batch = tuned.n_batch;
    if (!params->n_ubatch) params->n_ubatch = tuned.n_ubatch;
    *n_contexts = tuned.n_contexts;
    snprintf(date, date_size, "%s", tuned.date);
    return true;
}

/* ---- the configuration: file, .env, environment, options ---- */

static kt_status read_files(const kt__serve_opts *o, kt__config *c, kt__buf *strange,
                            kt_error *err) {
    char found[4096];
    const char *path = o->config ? o->config : getenv("KENTANG_CONFIG");
    kt_status status = KT_OK;
    if (!path && kt__config_find_file(found, sizeof found)) path = found;
    if (path && *path && !o->no_config) status = kt__config_read_file(c, path, err);
    if (status != KT_OK || o->no_env) return status;
    if (o->env_file || access(".env", R_OK) == 0)
        status = kt__config_read_dotenv(c, o->env_file ? o->env_file : ".env", strange, err);
    if (status == KT_OK) status = kt__config_read_environment(c, environ, strange, err);
    return status;
}

static kt_status set_one(kt__config *c, const char *text, kt_error *err) {
    char key[128];
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : 0;
    if (!len || len >= sizeof key)
        return kt__fail(err, KT_E_ARG, "--set %.80s: expected KEY=VALUE", text);
    memcpy(key, text, len);
    key[len] = '\0';
    return kt__config_set(c, key, equals + 1, "--set", err);
}

/* The file's name without folder and suffix. */
static void name_of_adapter(const char *path, char *out, size_t size) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t len = strcspn(base, "=");
    if (len > 5 && !strncmp(base + len - 5, ".gguf", 5)) len -= 5;
    snprintf(out, size, "%.*s", (int)len, base);
}

/* An element of a list as the file has it. */
static void put_pair(kt__buf *out, bool first, const char *name, const char *value) {
    kt__buf pair;
    kt__buf_init(&pair, 8192);
    (void)kt__buf_printf(&pair, "%s=%s", name, value);
    (void)kt__buf_putc(out, first ? '[' : ',');
    kt__json_text(out, pair.data);
    kt__buf_free(&pair);
}

/* --lora in the settings' words: `adapters` and `adapter`, in place of the file's. */
static kt_status set_adapters(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    kt__buf files, used;
    kt_status status = KT_OK;
    if (!o->lora.n) return KT_OK;
    kt__buf_init(&files, 1 << 20);
    kt__buf_init(&used, 1 << 20);
    for (size_t i = 0; i < o->lora.n && status == KT_OK; i++) {
        char path[4096], name[256];
        float scale;
        status = kt__lora_split(o->lora.items[i], path, sizeof path, &scale, err);
        if (status != KT_OK) break;
        name_of_adapter(path, name, sizeof name);
        put_pair(&files, i == 0, name, path);
        snprintf(path, sizeof path, "%.9g", (double)scale);
        put_pair(&used, i == 0, name, path);
    }
    (void)kt__buf_putc(&files, ']');
    (void)kt__buf_putc(&used, ']');
    if (status == KT_OK) status = kt__config_set(c, "adapters", files.data, "--lora", err);
    if (status == KT_OK) status = kt__config_set(c, "adapter", used.data, "--lora", err);
    kt__buf_free(&files);
    kt__buf_free(&used);
    return status;
}

/* --cpu-mask and --cpu-range as one list; a mask may come without its 0x. */
static kt_status set_cpus(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    char list[512];
    const char *mask = o->cpu_mask ? o->cpu_mask : "", *range = o->cpu_range ? o->cpu_range : "";
    bool bare = *mask && strncmp(mask, "0x", 2) != 0 && strncmp(mask, "0X", 2) != 0;
    if (!*mask && !*range) return KT_OK;
    int n = snprintf(list, sizeof list, "%s%s%s%s", bare ? "0x" : "", mask,
                     *mask && *range ? "," : "", range);
    if (n < 0 || (size_t)n >= sizeof list) return kt__fail(err, KT_E_ARG, "--cpu-mask is too long");
    return kt__config_set(c, "cpus", list, *mask ? "--cpu-mask" : "--cpu-range", err);
}

static kt_status set_computing(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    const struct {
        const char *value, *key, *from;
    } rows[] = {{o->threads_batch, "threads_batch", "--threads-batch"},
                {o->batch, "batch", "--batch"},
                {o->ubatch, "ubatch", "--ubatch"},
                {o->preset, "preset", "--preset"},
                {o->contexts, "contexts", "--contexts"},
                {o->priority, "priority", "--prio"},
                {o->no_mmap ? "false" : NULL, "mmap", "--no-mmap"},
                {o->mlock ? "true" : NULL, "mlock", "--mlock"},
                {o->blas ? "true" : NULL, "blas", "--blas"},
                {o->cache, "cache.dir", "--cache"},
                {o->cache_max, "cache.max", "--cache-max"},
                {o->rope[0], "rope_scaling", "--rope-scaling"},
                {o->rope[1], "rope_freq_base", "--rope-freq-base"},
                {o->rope[2], "rope_freq_scale", "--rope-freq-scale"},
                {o->rope[3], "yarn_orig_ctx", "--yarn-orig-ctx"},
                {o->rope[4], "yarn_ext_factor", "--yarn-ext-factor"},
                {o->rope[5], "yarn_attn_factor", "--yarn-attn-factor"},
                {o->rope[6], "yarn_beta_fast", "--yarn-beta-fast"},
                {o->rope[7], "yarn_beta_slow", "--yarn-beta-slow"}};
    kt_status status = set_cpus(o, c, err);
    for (size_t i = 0; i < KT__COUNT(rows) && status == KT_OK; i++) {
        if (rows[i].value)
            status = kt__config_set(c, rows[i].key, rows[i].value, rows[i].from, err);
    }
    return status;
}

/* --kv, -ctk and -ctv in the setting's words. */
static kt_status set_kv_type(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    char both[64];
    const char *plain = o->kv ? o->kv : "f16";
    if (!o->kv_keys && !o->kv_values)
        return o->kv ? kt__config_set(c, "kv_type", o->kv, "--kv", err) : KT_OK;
    snprintf(both, sizeof both, "%.30s/%.30s", o->kv_keys ? o->kv_keys : plain,
             o->kv_values ? o->kv_values : plain);
    return kt__config_set(c, "kv_type", both, "--kv", err);
}

static kt_status read_options(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    const struct {
        const char *value, *key, *from;
    } rows[] = {{o->alias, "alias", "--alias"},
                {o->draft_model, "draft_model", "--draft-model"},
                {o->listen, "http.listen", "--listen"},
                {o->socket, "socket.path", "--socket"},
                {o->keys, "http.keys", "--keys"},
                {o->threads, "threads", "--threads"},
                {o->ctx, "ctx", "--ctx"},
                {o->mem, "mem", "--mem"},
                {o->parallel, "parallel", "--parallel"},
                {o->kv_tail, "kv_tail", "--kv-tail"},
                {o->learn ? "true" : NULL, "learning.enabled", "--learn"}};
    kt_status status = o->model ? kt__config_set_model(c, o->model, err) : KT_OK;
    for (size_t i = 0; i < KT__COUNT(rows) && status == KT_OK; i++) {
        if (rows[i].value)
            status = kt__config_set(c, rows[i].key, rows[i].value, rows[i].from, err);
    }
    if (status == KT_OK) status = set_computing(o, c, err);
    if (status == KT_OK) status = set_adapters(o, c, err);
    if (status == KT_OK) status = set_kv_type(o, c, err);
    for (size_t i = 0; i < o->set.n && status == KT_OK; i++)
        status = set_one(c, o->set.items[i], err);
    return status;
}

kt_status kt__serve_opts_configure(const kt__serve_opts *o, kt__config **out, kt__buf *strange,
                                   kt_error *err) {
    kt__config *c;
    kt_status status = kt__config_create(&c, err);
    *out = NULL;
    if (status != KT_OK) return status;
    c->find_tuned = find_tuned;
    c->find_model = kt__model_name_file;
    if (o->log_level) status = kt__config_set(c, "log.level", o->log_level, "the command", err);
    if (status == KT_OK) status = read_files(o, c, strange, err);
    if (status == KT_OK) status = read_options(o, c, err);
    if (status == KT_OK) status = kt__config_finish(c, err);
    if (status == KT_OK) {
        *out = c;
    } else {
        kt__config_free(c);
    }
    return status;
}
