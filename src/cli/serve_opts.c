#include "cli/serve_opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/model_name.h"
#include "base/json_out.h"
#include "cli/lora_opts.h"
#include "cli/tuned.h"
#include "serve/config.h"

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
     .help = "positions of a request (default: the model's, at most 4096)"},
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
    {.name = "keys",
     .kind = KT__OPT_TEXT,
     .at = AT(keys),
     .arg = "FILE",
     .help = "file of API keys; needed to listen beyond loopback"},
};

kt__opt_group kt__serve_opts_model_group(kt__serve_opts *opts) {
    return (kt__opt_group){"Serving", model_table, KT__COUNT(model_table), opts};
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
                       kt_engine_params *params, char *date, size_t date_size) {
    kt__tuned tuned;
    if (!kt__tuned_load(info, isa, &tuned)) return false;
    if (!params->n_threads && !params->n_threads_batch) {
        if (tuned.n_threads != n_threads_auto) params->n_threads = tuned.n_threads;
        if (tuned.n_threads_batch != n_threads_auto)
            params->n_threads_batch = tuned.n_threads_batch;
    }
    if (!params->n_batch) params->n_batch = tuned.n_batch;
    if (!params->n_ubatch) params->n_ubatch = tuned.n_ubatch;
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
        status = kt__config_read_dotenv(c, o->env_file ? o->env_file : ".env", err);
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
                {o->parallel, "parallel", "--parallel"}};
    kt_status status = o->model ? kt__config_set_model(c, o->model, err) : KT_OK;
    for (size_t i = 0; i < KT__COUNT(rows) && status == KT_OK; i++) {
        if (rows[i].value)
            status = kt__config_set(c, rows[i].key, rows[i].value, rows[i].from, err);
    }
    if (status == KT_OK) status = set_adapters(o, c, err);
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
