#include "setup/serve_opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/system.h"
#include "setup/command_model.h"
#include "setup/config.h"
#include "setup/config_set.h"
#include "setup/model_file.h"
#include "setup/place.h"
#include "setup/setting_opts.h"

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

static const kt__opt address_table[] = {
    {.name = "host",
     .kind = KT__OPT_TEXT,
     .at = AT(host),
     .arg = "ADDRESS",
     .help = "listen there, or at several with commas between them; with --port, the two parts of "
             "--listen; one alone leaves the other as it is"},
    {.name = "port",
     .kind = KT__OPT_INT,
     .at = AT(port),
     .min = 1,
     .max = 65535,
     .arg = "N",
     .help = "the port"},
};

/* llama-server's words, before those of the settings: its context is that of all slots together. */
static const kt__opt slots_table[] = {
    {.name = "ctx-size",
     .brief = "c",
     .kind = KT__OPT_INT,
     .at = AT(ctx_size),
     .min = 0,
     .max = KT_CTX_MAX,
     .arg = "N",
     .help =
         "positions of all answers together, of which each of several (--parallel) has its share, "
         "unless --kv-unified is given"},
    {.name = "kv-unified",
     .brief = "kvu",
     .kind = KT__OPT_ON,
     .at = AT(kv_unified),
     .help = "--ctx-size is that of each answer"},
};

static const kt__opt llama_table[] = {
    {.name = "lora-scaled",
     .kind = KT__OPT_TEXTS,
     .at = AT(lora_scaled),
     .arg = "FILE:SCALE,...",
     .help = "adapters (LoRA) with their scales"},
    {.name = "lora-init-without-apply",
     .kind = KT__OPT_ON,
     .at = AT(lora_off),
     .help = "adapters of --lora have the scale 0, until requests or POST /lora-adapters say "
             "otherwise"},
    {.name = "rope-scale",
     .kind = KT__OPT_FLOAT,
     .at = AT(rope_scale),
     .min = 1e-3,
     .max = 1e3,
     .arg = "N",
     .help = "how many times as long the context becomes: 1 / --rope-freq-scale"},
    {.name = "hf-file",
     .brief = "hff",
     .kind = KT__OPT_TEXT,
     .at = AT(hf_file),
     .arg = "FILE",
     .help = "the file of -hf OWNER/REPO"},
};

static const kt__opt check_table[] = {
    {.name = "check",
     .kind = KT__OPT_ON,
     .at = AT(check),
     .help = "validate, print the resulting configuration as TOML, and end"},
};

void kt__serve_opts_free(kt__serve_opts *opts) {
    kt__opt_texts_free(&opts->set);
    kt__lora_opts_free(&opts->lora);
    kt__opt_texts_free(&opts->lora_scaled);
    kt__request_opts_free(&opts->requests);
}

kt__opt_group kt__serve_opts_check_group(kt__serve_opts *opts) {
    return (kt__opt_group){"Configuration", check_table, KT__COUNT(check_table), opts};
}

kt__opt_group kt__serve_opts_address_group(kt__serve_opts *opts) {
    return (kt__opt_group){"Its address in two parts", address_table, KT__COUNT(address_table),
                           opts};
}

kt__opt_group kt__serve_opts_slots_group(kt__serve_opts *opts) {
    return (kt__opt_group){"The context in llama-server's words", slots_table,
                           KT__COUNT(slots_table), opts};
}

kt__opt_group kt__serve_opts_llama_group(kt__serve_opts *opts) {
    return (kt__opt_group){"More of llama-server's words", llama_table, KT__COUNT(llama_table),
                           opts};
}

kt__opt_group kt__serve_opts_file_group(kt__serve_opts *opts) {
    return (kt__opt_group){"Configuration", file_table, KT__COUNT(file_table), opts};
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
    if (o->env_file || kt__file_readable(".env"))
        status = kt__config_read_dotenv(c, o->env_file ? o->env_file : ".env", strange, err);
    if (status == KT_OK)
        status = kt__config_read_environment(c, kt__process_environment(), strange, err);
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
    const char *base = kt__files_name(path);
    size_t len = strcspn(base, "=");
    if (len > 5 && !strncmp(base + len - 5, ".gguf", 5)) len -= 5;
    snprintf(out, size, "%.*s", (int)len, base);
}

/* The settings `adapters` and `adapter` in the making, as lists of the file's form. */
typedef struct adapter_lists {
    kt__buf files, used;
    size_t n;
} adapter_lists;

static void put_pair(kt__buf *out, bool first, const char *name, const char *value) {
    kt__buf pair;
    kt__buf_init(&pair, 8192);
    (void)kt__buf_printf(&pair, "%s=%s", name, value);
    (void)kt__buf_putc(out, first ? '[' : ',');
    kt__json_text(out, pair.data);
    kt__buf_free(&pair);
}

static void put_adapter(adapter_lists *lists, const char *path, float scale) {
    char name[256], number[32];
    name_of_adapter(path, name, sizeof name);
    put_pair(&lists->files, lists->n == 0, name, path);
    snprintf(number, sizeof number, "%.9g", (double)scale);
    put_pair(&lists->used, lists->n == 0, name, number);
    lists->n++;
}

/* FILE[=SCALE], or several files with commas between them. */
static kt_status put_loras(adapter_lists *lists, const char *text, kt_error *err) {
    char path[4096];
    float scale;
    bool several = strchr(text, ',') && !kt__file_exists(text);
    while (*text) {
        char one[4096];
        size_t len = several ? strcspn(text, ",") : strlen(text);
        snprintf(one, sizeof one, "%.*s", (int)len, text);
        KT__STEP(kt__lora_split(one, path, sizeof path, &scale, err));
        put_adapter(lists, path, scale);
        text += len + (text[len] == ',');
    }
    return KT_OK;
}

/* FILE:SCALE, or several with commas between them. */
static kt_status put_scaled(adapter_lists *lists, const char *text, kt_error *err) {
    while (*text) {
        char one[4096], *end = NULL;
        size_t len = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)len, text);
        char *colon = strrchr(one, ':');
        float scale = colon ? strtof(colon + 1, &end) : 0.0f;
        if (!colon || end == colon + 1 || *end)
            return kt__fail(err, KT_E_ARG, "--lora-scaled %.200s: expected FILE:SCALE", one);
        *colon = '\0';
        put_adapter(lists, one, scale);
        text += len + (text[len] == ',');
    }
    return KT_OK;
}

/* --lora and --lora-scaled in the settings' words, in place of the file's. */
static kt_status set_adapters(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    adapter_lists lists = {.n = 0};
    kt_status status;
    kt__buf_init(&lists.files, 1 << 20);
    kt__buf_init(&lists.used, 1 << 20);
    for (size_t i = 0; i < o->lora.files.n; i++)
        KT__TRY(put_loras(&lists, o->lora.files.items[i], err));
    for (size_t i = 0; i < o->lora_scaled.n; i++)
        KT__TRY(put_scaled(&lists, o->lora_scaled.items[i], err));
    status = KT_OK;
    if (!lists.n) goto out;
    (void)kt__buf_putc(&lists.files, ']');
    (void)kt__buf_putc(&lists.used, ']');
    c->lora_scales = true;
    KT__TRY(kt__config_set(c, "adapters", lists.files.data, "--lora", err));
    KT__TRY(kt__config_set(c, "adapter", o->lora_off ? "[]" : lists.used.data, "--lora", err));
out:
    kt__buf_free(&lists.files);
    kt__buf_free(&lists.used);
    return status;
}

/* What stretches a context N times. */
static kt_status set_rope(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    char text[32];
    if (o->rope_scale == 0.0f) return KT_OK;
    snprintf(text, sizeof text, "%.9g", 1.0 / (double)o->rope_scale);
    return kt__config_set(c, "rope_freq_scale", text, "--rope-scale", err);
}

/* -hf OWNER/REPO with --hf-file FILE is the model hf:OWNER/REPO/FILE. */
static kt_status set_hub_file(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    char name[1024];
    if (!o->hf_file) return KT_OK;
    if (!c->model || strncmp(c->model, "hf:", 3) != 0)
        return kt__fail(err, KT_E_ARG, "--hf-file goes with -hf OWNER/REPO");
    snprintf(name, sizeof name, "%.*s/%s", (int)(3 + strcspn(c->model + 3, ":")), c->model,
             o->hf_file);
    return kt__config_set_model(c, name, err);
}

/* ADDRESS:PORT in its two parts; false: it listens nowhere, at a path or at several addresses. */
static bool split_address(const char *text, char host[256], int *port) {
    const char *colon = text ? strrchr(text, ':') : NULL;
    if (!colon || strchr(text, ',') || !strncmp(text, "unix:", 5) || colon - text >= 256)
        return false;
    snprintf(host, 256, "%.*s", (int)(colon - text), text);
    *port = atoi(colon + 1);
    return true;
}

/* ADDRESS:PORT for each address of a list with commas. */
static void join_address(kt__buf *out, const char *hosts, int port) {
    while (*hosts) {
        size_t skip = strspn(hosts, ", "), len = strcspn(hosts + skip, ", ");
        const char *host = hosts + skip;
        hosts = host + len;
        bool bare_ipv6 = memchr(host, ':', len) && host[0] != '[';
        if (len)
            (void)kt__buf_printf(out, "%s%s%.*s%s:%d", out->len ? "," : "", bare_ipv6 ? "[" : "",
                                 (int)len, host, bare_ipv6 ? "]" : "", port);
    }
}

/* --host and --port in the settings' word; what is not given stays as it is. */
static kt_status set_address(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    char set_host[256];
    kt__buf listen_at;
    int port = 0;
    kt_status status;
    if (!o->host && !o->port) return KT_OK;
    if (o->given->given[KT__SETTING_listen])
        return kt__fail(err, KT_E_ARG, "give either --listen or --host and --port");
    if (!split_address(c->listen, set_host, &port) && (!o->host || !o->port))
        return kt__fail(err, KT_E_ARG, "http.listen is \"%.100s\": give --host and --port both",
                        c->listen ? c->listen : "none");
    kt__buf_init(&listen_at, 4096);
    join_address(&listen_at, o->host ? o->host : set_host, o->port ? (int)o->port : port);
    const char *from = o->host ? "--host" : "--port";
    if (listen_at.failed || !listen_at.len)
        KT__TRY(kt__fail(err, KT_E_ARG, "%s: expected an address, or several with commas", from));
    status = kt__config_set(c, "http.listen", listen_at.data, from, err);
out:
    kt__buf_free(&listen_at);
    return status;
}

/* --ctx-size in the settings' word: what one answer has of it. */
static kt_status set_context(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    char text[24];
    bool shared = o->given->given[KT__SETTING_parallel] && !o->kv_unified;
    int64_t n = o->ctx_size, slots = shared && o->given->parallel > 1 ? o->given->parallel : 1;
    if (!n) return KT_OK;
    snprintf(text, sizeof text, "%lld", (long long)(n / slots ? n / slots : 1));
    return kt__config_set(c, "ctx", text, "--ctx-size", err);
}

static kt_status read_options(const kt__serve_opts *o, kt__config *c, kt_error *err) {
    KT__STEP(kt__setting_opts_apply(o->given, c, err));
    KT__STEP(set_context(o, c, err));
    KT__STEP(set_address(o, c, err));
    KT__STEP(set_adapters(o, c, err));
    KT__STEP(set_rope(o, c, err));
    KT__STEP(set_hub_file(o, c, err));
    KT__STEP(kt__request_opts_apply(&o->requests, c, err));
    for (size_t i = 0; i < o->set.n; i++) KT__STEP(set_one(c, o->set.items[i], err));
    return KT_OK;
}

kt_status kt__serve_opts_configure(const kt__serve_opts *o, kt__config **out, kt__buf *strange,
                                   kt_error *err) {
    kt__config *c = NULL;
    kt_status status;
    *out = NULL;
    KT__TRY(kt__config_create(&c, err));
    c->find_model = kt__model_name_file;
    if (o->log_level) KT__TRY(kt__config_set(c, "log.level", o->log_level, "the command", err));
    KT__TRY(read_files(o, c, strange, err));
    KT__TRY(read_options(o, c, err));
    KT__TRY(kt__config_read_template(c, err));
    c->chat_fallback = true;
    KT__TRY(kt__config_finish(c, err));
    *out = c;
    c = NULL;
out:
    kt__config_free(c);
    return status;
}

/* ---- other servers' variables ---- */

typedef struct variable {
    const char *name, *option;
    int value;
} variable;

/* Ollama's durations, "5m", "1h30m" or a number, as seconds; -1 and below: never. */
static int64_t seconds_of(const char *text) {
    double all = 0;
    while (*text) {
        char *end;
        double n = strtod(text, &end);
        if (end == text) return 0;
        all += n * (*end == 'h'                    ? 3600
                    : *end == 'm' && end[1] != 's' ? 60
                    : *end == 'm'                  ? 1e-3
                                                   : 1);
        text = end + strspn(end, "hmsnu");
    }
    return all < 0 ? 0 : (int64_t)all;
}

/* OLLAMA_HOST: an address, a port, both, or a URL; what is left out is Ollama's usual one. */
static void address_of(const char *text, char *out, size_t size) {
    const char *scheme = strstr(text, "://"), *host = scheme ? scheme + 3 : text;
    size_t len = strcspn(host, "/");
    const char *colon = memrchr(host, ':', len), *bracket = memrchr(host, ']', len);
    bool port = colon && (!bracket || colon > bracket);
    size_t name = port ? (size_t)(colon - host) : len;
    snprintf(out, size, "%.*s:%.*s", name ? (int)name : 9, name ? host : "127.0.0.1",
             port ? (int)(host + len - colon - 1) : 5, port ? colon + 1 : "11434");
}

/* Adds the option that a variable means; the words are `own`'s. */
static int add_variable(const variable *v, const char *text, char **argv, int n, kt__arena *own) {
    char word[80], value[300];
    bool off = !strcmp(text, "0") || !strcmp(text, "false") || !strcmp(text, "off") || !*text;
    snprintf(word, sizeof word, "--%s%s", !v->value && off ? "no-" : "", v->option);
    snprintf(value, sizeof value, "%s", text);
    if (v->value == 2) address_of(text, value, sizeof value);
    if (!strcmp(v->option, "keep-alive"))
        snprintf(value, sizeof value, "%lld", (long long)seconds_of(text));
    argv[n] = kt__arena_strndup(own, word, strlen(word));
    if (!argv[n++]) return n - 1;
    if (v->value) argv[n] = kt__arena_strndup(own, value, strlen(value));
    return v->value && argv[n] ? n + 1 : v->value ? n - 1 : n;
}

char **kt__serve_opts_from_environment(int *argc, char **argv, kt__arena *own) {
    static const variable variables[] = {
#define VARIABLE(name, option, value) {name, option, value},
#include "term/other_names.def"
    };
    char **all = calloc((size_t)*argc + 2 * KT__COUNT(variables) + 1, sizeof *all);
    int n = 1;
    if (!all) return NULL;
    all[0] = argv[0];
    for (size_t i = 0; i < KT__COUNT(variables); i++) {
        const char *text = getenv(variables[i].name);
        if (text && *text) n = add_variable(&variables[i], text, all, n, own);
    }
    memcpy(all + n, argv + 1, (size_t)(*argc - 1) * sizeof *all);
    *argc = n + *argc - 1;
    return all;
}

/* ---- several ---- */

typedef struct unshared_setting {
    bool asked;
    const char *what, *instead;
} unshared_setting;

static kt_status refuse_asked(const unshared_setting *list, size_t n, kt_error *err) {
    for (size_t i = 0; i < n; i++)
        if (list[i].asked)
            return kt__fail(err, KT_E_UNSUPPORTED,
                            "%s cannot be used where several processes compute a model together: "
                            "%s, or start kentang without mpirun",
                            list[i].what, list[i].instead);
    return KT_OK;
}

static kt_status check_model(const kt__model_config *m, const kt__config *config, kt_error *err) {
    const unshared_setting list[] = {
        {m->own->contexts > 1, "contexts above 1", "set contexts = 1"},
        {kt__place_is_own(m->own, config, 1),
         "a model's own threads, cpus, priority or isa, or the preset extreme,",
         "set them for all of the server, and another preset"},
    };
    return refuse_asked(list, sizeof list / sizeof *list, err);
}

kt_status kt__several_check(const kt__config *config, kt_error *err) {
    const unshared_setting list[] = {
        {config->n_models > 1, "more than one model", "serve one of them"},
        {config->pull, "http.pull", "set it to false"},
    };
    KT__STEP(refuse_asked(list, sizeof list / sizeof *list, err));
    return check_model(&config->models[0], config, err);
}

/* Open MPI's default is a second; with --mca the processes' environment has it. */
int64_t kt__several_end_ms(void) {
    const char *text = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    long s = text && *text ? strtol(text, NULL, 10) : 1;
    return (s < 1 ? 1 : s > 3600 ? 3600 : s) * 400;
}
