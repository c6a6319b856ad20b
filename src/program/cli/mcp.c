/* kentang mcp: the tools of the Model Context Protocol over standard input and output. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "serve/server.h"
#include "setup/serve_opts.h"
#include "setup/setting_opts.h"
#include "term/cli.h"
#include "transports/mcp_stdio.h"

/* A handler is given nothing else. */
static kt__server *volatile mcp_running;
static volatile int mcp_stop;

static void on_mcp_signal(int number) {
    int saved = errno;
    mcp_stop = mcp_stop + 1;
    if (mcp_stop > 2) _exit(128 + number); /* a user who asks three times means now */
    kt__server *server = mcp_running;
    if (server) kt__server_hurry(server);
    errno = saved;
}

static void watch_mcp_signals(void) {
    struct sigaction action = {.sa_handler = on_mcp_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* The client's pipe, out of reach of anything that prints: the protocol wants nothing else in
 * it. */
static int take_stdout(void) {
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0) (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    return fd;
}

static void serve_lines(kt__server *server, kt__mcp_stdio *stdio) {
    mcp_running = server;
    kt__mcp_stdio_run(stdio, &mcp_stop);
    if (kt__mcp_stdio_is_broken(stdio)) kt__server_hurry(server);
    kt__server_drain(server);
    mcp_running = NULL;
}

static int run_mcp(kt__config *config) {
    kt_error err;
    kt__server *server;
    kt__mcp_stdio *stdio = NULL;
    watch_mcp_signals();
    int out = take_stdout();
    kt_status status = out >= 0 ? kt_install_fault_guard(&err)
                                : kt__fail(&err, KT_E_IO, "there is no standard output");
    if (status != KT_OK) {
        kt__config_free(config);
        return kt__cli_fail("mcp", &err);
    }
    if (kt__server_start(config, &server, &err) != KT_OK) return kt__cli_fail("mcp", &err);
    status = kt__mcp_stdio_open(&server->shared, STDIN_FILENO, out, &stdio, &err);
    if (status == KT_OK) serve_lines(server, stdio);
    kt__server_stop(server);
    kt__mcp_stdio_close(stdio);
    close(out);
    return status == KT_OK ? 0 : kt__cli_fail("mcp", &err);
}

/* Nothing listens, and only what went wrong is logged unless more is asked for. */
static kt_status configure_mcp(kt__serve_opts *opts, kt__config **config, kt_error *err) {
    kt__config *given = opts->given;
    given->listen = given->socket = "none";
    given->given[KT__SETTING_listen] = given->given[KT__SETTING_socket] = true;
    opts->log_level = "warn";
    kt_status status = kt__serve_opts_configure(opts, config, NULL, err);
    if (status == KT_OK) (*config)->other_transport = true;
    return status;
}

static int mcp_command(int argc, char **argv, kt__config *given) {
    kt__serve_opts opts = {.given = given};
    kt__config *config;
    kt_error err;
    const kt__opt_group groups[] = {
        kt__setting_opts(given, KT__OPTIONS_SERVER),
        kt__setting_opts(given, KT__OPTIONS_MANY),
        kt__setting_opts(given, KT__OPTIONS_SIZES),
        kt__setting_opts(given, KT__OPTIONS_DRAFT),
        kt__setting_opts(given, KT__OPTIONS_CACHE),
        kt__setting_opts(given, KT__OPTIONS_LEARN),
        kt__lora_opts_group(&opts.lora),
        kt__setting_opts(given, KT__OPTIONS_CORES),
        kt__setting_opts(given, KT__OPTIONS_MODEL),
        kt__serve_opts_file_group(&opts),
    };
    const kt__syntax syntax = {
        .command = "mcp",
        .usage = "[MODEL | -m MODEL] [OPTIONS]",
        .about = "Serves models as tools of the Model Context Protocol: a program that speaks it "
                 "starts this\n"
                 "command and talks to it over standard input and output, a line of JSON each.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .notes =
            "The same tools are at POST /mcp of `kentang serve`.\n"
            "A client's configuration:\n"
            "  {\"mcpServers\": {\"kentang\": {\"command\": \"kentang\", \"args\": [\"mcp\"]}}}",
    };
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code < 0 && configure_mcp(&opts, &config, &err) != KT_OK) code = kt__cli_fail("mcp", &err);
    if (code < 0) code = run_mcp(config);
    kt__serve_opts_free(&opts);
    return code;
}

int kt__cmd_mcp(int argc, char **argv) {
    return kt__with_settings(argc, argv, mcp_command);
}
