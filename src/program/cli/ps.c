/* kentang ps: what a running server serves and does. */
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/socket_client.h"
#include "term/cli.h"
#include "term/options.h"

typedef struct ps_opts {
    bool json;
    kt__client_opts client;
} ps_opts;

static const kt__opt ps_table[] = {
    {.name = "json",
     .kind = KT__OPT_ON,
     .at = offsetof(ps_opts, json),
     .help = "the server's figures as JSON"},
};

static const char *text_at(const json_t *v, const char *key) {
    const char *text = json_string_value(json_object_get(v, key));
    return text ? text : "-";
}

static long long whole_at(const json_t *v, const char *key) {
    return (long long)json_integer_value(json_object_get(v, key));
}

static double megabytes_of(const json_t *v, const char *key) {
    return (double)whole_at(v, key) / 1e6;
}

static void print_models(const json_t *models) {
    size_t i;
    json_t *m;
    printf("%-28s %-8s %-8s %8s %8s %8s %10s %10s %10s\n", "MODEL", "ARCH", "QUANT", "RUNNING",
           "WAITING", "CONTEXT", "WEIGHTS MB", "K/V MB", "TOKENS");
    json_array_foreach(models, i, m) {
        bool loaded = json_is_true(json_object_get(m, "loaded"));
        printf("%-28s %-8s %-8s %8lld %8lld %8lld %10.0f %10.0f %10lld\n", text_at(m, "name"),
               loaded ? text_at(m, "arch") : "-", loaded ? text_at(m, "quant") : "(unloaded)",
               whole_at(m, "running"), whole_at(m, "waiting"), whole_at(m, "context"),
               megabytes_of(m, "weight_bytes"), megabytes_of(m, "kv_bytes"),
               whole_at(m, "generated_tokens"));
    }
}

/* Where a controller is at work. */
static void print_optimizers(const json_t *models) {
    size_t i;
    json_t *m;
    json_array_foreach(models, i, m) {
        const json_t *o = json_object_get(m, "optimizer"), *n;
        const char *key;
        if (!json_is_true(json_object_get(o, "enabled"))) continue;
        printf(
            "\n%s: %lld of %lld answers at once, %lld of %lld ms for prompts between two tokens;",
            text_at(m, "name"), whole_at(o, "parallel"), whole_at(o, "parallel_most"),
            whole_at(o, "gap_ms"), whole_at(o, "gap_ms_most"));
        json_object_foreach(json_object_get(o, "actions"), key, n) if (json_integer_value(n))
            printf(" %s %lld", key, (long long)json_integer_value(n));
        printf("\n");
    }
}

/* Where a model learns. */
static void print_notes(const json_t *models) {
    size_t i;
    json_t *m;
    json_array_foreach(models, i, m) {
        const json_t *notes = json_object_get(m, "notes");
        if (!notes) continue;
        bool measured = strcmp(text_at(notes, "verdict"), "measuring") != 0;
        bool judges = !strcmp(text_at(notes, "verdict"), "judged");
        if (judges)
            printf("\n%s: it says which question asks for what it was taught, and recites that",
                   text_at(m, "name"));
        else
            printf("\n%s: what it was taught %s its prompts as notes", text_at(m, "name"),
                   json_is_true(json_object_get(notes, "enters")) ? "enters" : "stays out of");
        if (!measured)
            printf(" until it is measured how it uses them (%lld of %lld)",
                   whole_at(notes, "asked"), whole_at(notes, "of"));
        printf("\n");
    }
}

static void print_instant(const json_t *models) {
    size_t i;
    json_t *m;
    json_array_foreach(models, i, m) {
        const json_t *instant = json_object_get(m, "instant");
        if (!instant) continue;
        printf("\n%s: steps of the instant loop: %lld, the last in %.2f ms\n", text_at(m, "name"),
               whole_at(instant, "steps"), json_number_value(json_object_get(instant, "ms")));
    }
}

static void print_devices(const json_t *models) {
    size_t i;
    json_t *m;
    json_array_foreach(models, i, m) {
        const json_t *d = json_object_get(m, "device");
        if (!d) continue;
        double celsius = json_number_value(json_object_get(d, "temperature_c"));
        char health[64] = "";
        if (celsius > 0)
            snprintf(health, sizeof health, ", %.0f C, %.0f W", celsius,
                     json_number_value(json_object_get(d, "power_w")));
        printf("\n%s: %lld layers%s on %s%s, %.0f MB of its memory, %.0f%% of the time%s\n",
               text_at(m, "name"), whole_at(d, "layers"),
               json_is_true(json_object_get(d, "head")) ? " and the head" : "", text_at(d, "name"),
               json_is_true(json_object_get(d, "lost")) ? " (which failed)" : "",
               megabytes_of(d, "bytes"), 100 * json_number_value(json_object_get(d, "share")),
               health);
    }
}

static void print_requests(const json_t *requests) {
    size_t i;
    json_t *r;
    if (!json_array_size(requests)) return;
    printf("\n%-36s %-22s %-16s %-8s %10s %8s\n", "REQUEST", "ROUTE", "CLIENT", "STATE", "AGE s",
           "UNREAD");
    json_array_foreach(requests, i, r) {
        printf("%-36s %-22s %-16s %-8s %10.1f %8lld\n", text_at(r, "id"), text_at(r, "route"),
               text_at(r, "client"), text_at(r, "state"), (double)whole_at(r, "age_ms") / 1e3,
               whole_at(r, "unread_bytes"));
    }
}

static void print_stats(const json_t *stats) {
    printf("kentang %s, pid %lld, up %lld s, %s\n\n", text_at(stats, "version"),
           whole_at(stats, "pid"), whole_at(stats, "uptime_s"), text_at(stats, "isa"));
    print_models(json_object_get(stats, "models"));
    print_devices(json_object_get(stats, "models"));
    print_optimizers(json_object_get(stats, "models"));
    print_notes(json_object_get(stats, "models"));
    print_instant(json_object_get(stats, "models"));
    print_requests(json_object_get(stats, "requests"));
}

int kt__cmd_ps(int argc, char **argv) {
    ps_opts opts = {0};
    const kt__opt_group groups[] = {kt__client_opts_group(&opts.client),
                                    {"Options", ps_table, KT__COUNT(ps_table), &opts}};
    const kt__syntax syntax = {.command = "ps",
                               .usage = "[--socket PATH] [--json]",
                               .about = "What a running server serves and does.",
                               .groups = groups,
                               .n_groups = KT__COUNT(groups)};
    kt_error err;
    json_t *answer = NULL;
    int fd, code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    kt_status status = kt__client_connect(opts.client.socket, &fd, &err);
    if (status == KT_OK) status = kt__client_ask(fd, "{\"op\":\"stats\"}", &answer, &err);
    if (status != KT_OK) {
        code = kt__cli_fail("ps", &err);
    } else {
        const json_t *stats = json_object_get(answer, "stats");
        if (opts.json) {
            json_dumpf(stats, stdout, JSON_INDENT(2));
            putchar('\n');
        } else {
            print_stats(stats);
        }
        code = 0;
    }
    json_decref(answer);
    if (fd >= 0) close(fd);
    return code;
}

/* kentang stop: asks a running server to let its answers end and stop, and waits until it has. */

typedef struct stop_opts {
    kt__client_opts client;
    int32_t wait_s;
} stop_opts;

static const kt__opt stop_table[] = {
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
                                    {"Options", stop_table, KT__COUNT(stop_table), &opts}};
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
