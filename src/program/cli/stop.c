/* kentang stop: asks a running server to let its answers end and stop, and waits until it has. */
#include <jansson.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "term/cli.h"
#include "term/options.h"
#include "cli/socket_client.h"

typedef struct stop_opts {
    kt__client_opts client;
    int32_t wait_s;
} stop_opts;

static const kt__opt table[] = {
    {.name = "wait",
     .kind = KT__OPT_INT,
     .at = offsetof(stop_opts, wait_s),
     .min = 0,
     .max = 86400,
     .arg = "S",
     .help = "seconds to wait for its end (default 60)"},
};

/* The connection ends with the server. */
static kt_status wait_for_end(int fd, int32_t seconds, kt_error *err) {
    char piece[256];
    struct timeval timeout = {.tv_sec = seconds ? seconds : 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    ssize_t n = 0;
    while (seconds && (n = recv(fd, piece, sizeof piece, 0)) > 0) {
    }
    if (n == 0) return KT_OK;
    return kt__fail(err, KT_E_STATE, "the server is still letting answers end after %d s", seconds);
}

int kt__cmd_stop(int argc, char **argv) {
    stop_opts opts = {.wait_s = 60};
    const kt__opt_group groups[] = {kt__client_opts_group(&opts.client),
                                    {"Options", table, KT__COUNT(table), &opts}};
    const kt__syntax syntax = {
        .command = "stop",
        .usage = "[--socket PATH]",
        .about = "Asks a running server to let its answers end (drain_s of its configuration) and "
                 "to stop.",
        .groups = groups,
        .n_groups = KT__COUNT(groups)};
    kt_error err;
    kt_status status;
    json_t *answer = NULL;
    int fd = -1, code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    KT__TRY(kt__client_connect(opts.client.socket, &fd, &err));
    KT__TRY(kt__client_ask(fd, "{\"op\":\"stop\"}", &answer, &err));
    KT__TRY(wait_for_end(fd, opts.wait_s, &err));
    fputs("kentang: the server has stopped\n", stderr);
out:
    json_decref(answer);
    if (fd >= 0) close(fd);
    return status == KT_OK ? 0 : kt__cli_fail("stop", &err);
}
