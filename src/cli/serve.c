/* kentang serve: the server, from its options to its last answer. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/tuned.h"
#include "serve/http.h"
#include "serve/sd.h"
#include "serve/server.h"

extern char **environ;

typedef struct serve_opts {
    bool check, no_config, no_env;
    const char *config, *env_file;
    const char *model, *alias, *draft_model, *listen, *socket, *keys;
    const char *threads, *ctx, *mem, *parallel;
    kt__opt_texts set;
} serve_opts;

#define AT(member) offsetof(serve_opts, member)

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
    {.name = "check",
     .kind = KT__OPT_ON,
     .at = AT(check),
     .help = "validate, print the resulting configuration as TOML, and end"},
    {.name = "set",
     .kind = KT__OPT_TEXTS,
     .at = AT(set),
     .arg = "KEY=VALUE",
     .help = "any setting of the file, such as limits.queue=64; may be repeated"},
};

static const kt__opt common_table[] = {
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

static kt_status read_files(const serve_opts *o, kt__config *c, kt__buf *strange, kt_error *err) {
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

static kt_status read_options(const serve_opts *o, kt__config *c, kt_error *err) {
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
    for (size_t i = 0; i < o->set.n && status == KT_OK; i++)
        status = set_one(c, o->set.items[i], err);
    return status;
}

static kt_status serve_configure(const serve_opts *o, kt__config **out, kt__buf *strange,
                                 kt_error *err) {
    kt__config *c;
    kt_status status = kt__config_create(&c, err);
    *out = NULL;
    if (status != KT_OK) return status;
    c->find_tuned = find_tuned;
    status = read_files(o, c, strange, err);
    if (status == KT_OK) status = read_options(o, c, err);
    if (status == KT_OK) status = kt__config_finish(c, err);
    if (status == KT_OK) {
        *out = c;
    } else {
        kt__config_free(c);
    }
    return status;
}

/* ---- signals ---- */

/* A handler is given nothing else. */
static kt__server *volatile running;
static volatile sig_atomic_t want_stop, want_reload;

static void on_signal(int number) {
    int saved = errno;
    if (number == SIGHUP) {
        want_reload = 1;
    } else {
        want_stop = want_stop + 1;
    }
    if (want_stop > 2) _exit(128 + number); /* whoever asks three times means now */
    kt__server *server = running;
    if (server && want_stop > 1) kt__server_hurry(server);
    if (server) kt__server_wake(server);
    errno = saved;
}

static void watch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void reload_config(const serve_opts *o, kt__server *server) {
    kt__config *config;
    kt_error err;
    want_reload = 0;
    kt__sd_notify("RELOADING=1");
    if (serve_configure(o, &config, NULL, &err) == KT_OK) {
        kt__server_reload(server, config);
    } else {
        kt__slog_line(&server->shared.log, KT_LOG_ERROR, "reload refused: %s", err.message);
    }
    kt__sd_notify("READY=1");
}

/* ---- the command ---- */

static void tell_ready(kt__server *server) {
    const kt__config *c = server->shared.start;
    char http[128] = "none";
    if (server->http && kt__http_port(server->http)) {
        const char *colon = c->listen ? strrchr(c->listen, ':') : NULL;
        snprintf(http, sizeof http, "%s://%.*s:%d", c->tls_cert ? "https" : "http",
                 colon ? (int)(colon - c->listen) : 0, c->listen ? c->listen : "",
                 kt__http_port(server->http));
    } else if (server->http) {
        snprintf(http, sizeof http, "%s", c->listen ? c->listen : "passed in");
    }
    const kt__slog_field fields[] = {
        {"model", kt__served_name(kt__models_at(server->shared.models, 0)), 0},
        {"http", http, 0},
        {"socket", server->unix_socket ? c->socket ? c->socket : "passed in" : "none", 0},
        {"isa", kt_ctx_isa(kt__models_ctx(server->shared.models)), 0},
        {"threads", NULL, (double)kt_ctx_n_threads(kt__models_ctx(server->shared.models))},
    };
    kt__slog_write(&server->shared.log, KT_LOG_INFO, "ready", fields, KT__COUNT(fields));
    kt__sd_notify("READY=1");
}

static int serve_until_stopped(const serve_opts *o, kt__config *config) {
    kt_error err;
    kt__server *server;
    watch_signals();
    if (kt_install_fault_guard(&err) != KT_OK) {
        kt__config_free(config);
        return kt__cli_fail("serve", &err);
    }
    if (kt__server_start(config, &server, &err) != KT_OK) return kt__cli_fail("serve", &err);
    running = server;
    tell_ready(server);
    while (!want_stop && !kt__server_wait(server)) {
        if (want_reload) reload_config(o, server);
    }
    kt__sd_notify("STOPPING=1");
    kt__slog_line(&server->shared.log, KT_LOG_INFO,
                  "stopping: running answers may end; a second signal cuts them short");
    kt__server_drain(server);
    running = NULL;
    kt__server_stop(server);
    return 0;
}

static int run_serve(const serve_opts *o) {
    kt__config *config;
    kt__buf text;
    kt_error err;
    int code = 0;
    kt__buf_init(&text, 1 << 20);
    if (serve_configure(o, &config, &text, &err) != KT_OK) {
        kt__buf_free(&text);
        return kt__cli_fail("serve", &err);
    }
    if (text.len) fprintf(stderr, "kentang serve: warning: %s", text.data);
    kt__buf_clear(&text);
    if (o->check && kt__server_check(config, &err) != KT_OK) {
        code = kt__cli_fail("serve", &err);
        kt__config_free(config);
    } else if (o->check) {
        if (config->file) printf("# from %s\n", config->file);
        kt__config_print(config, &text);
        fputs(text.data ? text.data : "", stdout);
        kt__config_free(config);
    } else {
        code = serve_until_stopped(o, config);
    }
    kt__buf_free(&text);
    return code;
}

int kt__cmd_serve(int argc, char **argv) {
    serve_opts opts = {0};
    const kt__opt_group groups[] = {
        {"Serving", common_table, KT__COUNT(common_table), &opts},
        {"Configuration", file_table, KT__COUNT(file_table), &opts},
    };
    const kt__syntax syntax = {
        .command = "serve",
        .usage = "[-m MODEL] [OPTIONS]",
        .about =
            "Serves models over HTTP, as OpenAI's clients speak it, and over a Unix socket, as "
            "lines of JSON.\n"
            "Later wins: configuration file, .env, environment KENTANG_*, options.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .notes = "SIGTERM lets running answers end and stops; SIGHUP reads the configuration "
                 "again.\n"
                 "Examples:\n"
                 "  kentang serve -m model.gguf\n"
                 "  kentang serve --check --config kentang.toml\n"
                 "  kentang serve -m model.gguf --listen 0.0.0.0:8000 --keys keys.txt",
    };
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code < 0) code = run_serve(&opts);
    kt__opt_texts_free(&opts.set);
    return code;
}
