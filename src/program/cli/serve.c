/* kentang serve: the server, from its options to its last answer. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "serve/server.h"
#include "services/sd.h"
#include "setup/serve_opts.h"
#include "setup/setting_opts.h"
#include "term/cli.h"
#include "transports/http.h"

/* ---- signals ---- */

/* A handler is given nothing else. */
static kt__server *volatile running;
static volatile sig_atomic_t want_stop, want_reload, launcher_ends;

static void on_signal(int number, siginfo_t *info, void *context) {
    int saved = errno;
    (void)context;
    if (number == SIGTERM && info->si_pid == getppid()) launcher_ends = 1;
    if (number == SIGHUP) {
        want_reload = 1;
    } else {
        want_stop = want_stop + 1;
    }
    if (want_stop > 2) _exit(128 + number); /* a user who asks three times means now */
    kt__server *server = running;
    if (server && want_stop > 1) kt__server_hurry(server);
    if (server) kt__server_wake(server);
    errno = saved;
}

static void watch_signals(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void reload_config(const kt__serve_opts *o, kt__server *server) {
    kt__config *config;
    kt_error err;
    want_reload = 0;
    kt__sd_notify("RELOADING=1");
    if (kt__serve_opts_configure(o, &config, NULL, &err) == KT_OK) {
        kt__server_reload(server, config);
    } else {
        kt__slog_line(&server->shared.log, KT_LOG_ERROR, "reload refused: %s", err.message);
    }
    kt__sd_notify("READY=1");
}

/* ---- the command ---- */

/* "http://127.0.0.1:8000"; several with commas between them. A port that the system chose is known of the first alone. */
static void name_http(const kt__server *server, char *out, size_t size) {
    const kt__config *c = server->shared.start;
    const char *rest = c->listen, *scheme = c->tls_cert ? "https://" : "http://";
    char one[KT__LISTEN_BYTES];
    size_t n = 0;
    int port = server->http ? kt__http_port(server->http) : 0;
    snprintf(out, size, "%s", !server->http ? "none" : c->listen ? c->listen : "passed in");
    while (port && n < size && kt__config_next_listen(&rest, one)) {
        char *colon = n ? NULL : strrchr(one, ':');
        if (colon) snprintf(colon, sizeof one - (size_t)(colon - one), ":%d", port);
        n += (size_t)snprintf(out + n, size - n, "%s%s%s", n ? "," : "",
                              strncmp(one, "unix:", 5) ? scheme : "", one);
    }
}

static void tell_ready(kt__server *server) {
    const kt__config *c = server->shared.start;
    char http[1024];
    name_http(server, http, sizeof http);
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

static int serve_until_stopped(const kt__serve_opts *o, kt__config *config) {
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
    if (launcher_ends) kt__server_end_with_launcher(server);
    kt__server_drain(server);
    running = NULL;
    kt__server_stop(server);
    return 0;
}

static int run_serve(const kt__serve_opts *o) {
    kt__config *config;
    kt__buf text;
    kt_error err;
    int code = 0;
    kt__buf_init(&text, 1 << 20);
    if (kt__serve_opts_configure(o, &config, &text, &err) != KT_OK) {
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

static int serve_command(int argc, char **argv, kt__config *config) {
    kt__serve_opts opts = {.given = config};
    const kt__opt_group groups[] = {
        kt__setting_opts(config, KT__OPTIONS_SERVER),
        kt__setting_opts(config, KT__OPTIONS_LISTEN),
        kt__serve_opts_slots_group(&opts),
        kt__serve_opts_address_group(&opts),
        kt__setting_opts(config, KT__OPTIONS_MANY),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_DRAFT),
        kt__setting_opts(config, KT__OPTIONS_CACHE),
        kt__setting_opts(config, KT__OPTIONS_LEARN),
        kt__lora_opts_group(&opts.lora),
        kt__serve_opts_llama_group(&opts),
        kt__request_opts_group(&opts.requests),
        kt__setting_opts(config, KT__OPTIONS_CORES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
        kt__serve_opts_file_group(&opts),
        kt__serve_opts_check_group(&opts),
    };
    const kt__syntax syntax = {
        .command = "serve",
        .usage = "[MODEL | -m MODEL] [OPTIONS]",
        .about =
            "Serves models over HTTP, as OpenAI's clients speak it, and over a Unix socket, as "
            "lines of JSON.\n"
            "Later wins: configuration file, .env, environment KENTANG_*, options.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .set = kt__setting_opts_set,
        .set_base = config,
        .notes = "SIGTERM lets running answers end and stops; SIGHUP reads the configuration "
                 "again.\n"
                 "Examples:\n"
                 "  kentang serve model.gguf\n"
                 "  kentang serve --check --config kentang.toml\n"
                 "  kentang serve -m model.gguf --listen 0.0.0.0:8000 --keys keys.txt",
    };
    char **all = kt__serve_opts_from_environment(&argc, argv, &config->arena);
    int code = kt__cli_parse(&syntax, argc, all ? all : argv, NULL, NULL);
    if (code < 0) code = run_serve(&opts);
    free(all);
    kt__serve_opts_free(&opts);
    return code;
}

int kt__cmd_serve(int argc, char **argv) {
    return kt__with_settings(argc, argv, serve_command);
}
