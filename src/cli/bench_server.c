#include "cli/bench_server.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/options.h"

enum { MAX_REQUESTS = 4096, STACK_BYTES = 256 << 10, HOST_BYTES = 256 };

typedef struct load_opts {
    const char *server, *prompt, *key;
    float rate;
    int32_t n_requests, n_predict;
    bool json;
} load_opts;

typedef struct load {
    load_opts opts;
    char host[HOST_BYTES], port[16], path[108]; /* path: of a Unix socket for lines */
    char *request;                              /* the bytes that are sent */
    int64_t start_us;
} load;

/* One request and what came of it. */
typedef struct shot {
    const load *load;
    int64_t at_us; /* when it is due */
    pthread_t thread;
    bool started, good;
    int status;
    int64_t first_us, total_us; /* from at_us */
    int64_t last_us, worst_gap_us, sum_gap_us;
    int32_t n_tokens;
} shot;

/* ---- one request ---- */

static int connect_tcp(const load *l) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(l->host, l->port, &hints, &found) != 0) return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

static int connect_unix(const load *l) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, l->path, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void count_token(shot *s) {
    int64_t now_us = kt__now_us();
    if (s->n_tokens++) {
        int64_t gap_us = now_us - s->last_us;
        s->sum_gap_us += gap_us;
        if (gap_us > s->worst_gap_us) s->worst_gap_us = gap_us;
    } else {
        s->first_us = now_us - s->at_us;
    }
    s->last_us = now_us;
}

/* A whole line of the answer; lines of chunked framing and headers among them are passed over.
 * true: the answer has ended. */
static bool take_line(shot *s, const char *line) {
    if (!strncmp(line, "HTTP/1.1 ", 9)) s->status = atoi(line + 9);
    if (s->status && s->status != 200) return true;
    if (!strncmp(line, "data: [DONE]", 12)) return s->good = true;
    bool data = !strncmp(line, "data: {", 7), own = line[0] == '{';
    if (!data && !own) return false;
    if (strstr(line, "\"error\":{")) return true;
    if (strstr(line, "\"done\":true")) return s->good = true;
    if (own || strstr(line, "\"finish_reason\":null")) count_token(s);
    return false;
}

static void read_answer(shot *s, int fd) {
    kt__buf text;
    char piece[8192];
    kt__buf_init(&text, 16 << 20);
    for (bool ended = false; !ended;) {
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || !kt__buf_append(&text, piece, (size_t)n)) break;
        char *line = text.data, *newline;
        while (!ended && (newline = memchr(line, '\n', text.len - (size_t)(line - text.data)))) {
            *newline = '\0';
            ended = take_line(s, line);
            line = newline + 1;
        }
        size_t rest = text.len - (size_t)(line - text.data);
        memmove(text.data, line, rest);
        text.len = rest;
    }
    kt__buf_free(&text);
}

static void wait_until(int64_t at_us) {
    int64_t left_us = at_us - kt__now_us();
    if (left_us <= 0) return;
    struct timespec t = {(time_t)(left_us / 1000000), (long)(left_us % 1000000) * 1000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

static void *fire(void *arg) {
    shot *s = arg;
    const load *l = s->load;
    wait_until(s->at_us);
    int fd = l->path[0] ? connect_unix(l) : connect_tcp(l);
    if (fd < 0) return NULL;
    size_t len = strlen(l->request);
    if (send(fd, l->request, len, MSG_NOSIGNAL) == (ssize_t)len) read_answer(s, fd);
    s->total_us = kt__now_us() - s->at_us;
    close(fd);
    return NULL;
}

/* ---- the target and the request ---- */

static kt_status read_url(load *l, kt_error *err) {
    const char *url = l->opts.server;
    if (!strncmp(url, "unix:", 5) && strlen(url + 5) < sizeof l->path) {
        snprintf(l->path, sizeof l->path, "%s", url + 5);
        return KT_OK;
    }
    const char *host = !strncmp(url, "http://", 7) ? url + 7 : NULL;
    const char *colon = host ? strrchr(host, ':') : NULL;
    if (!host || (size_t)strcspn(host, "/") >= HOST_BYTES)
        return kt__fail(err, KT_E_ARG, "--server %.80s: expected http://HOST:PORT or unix:PATH",
                        url);
    size_t end = strcspn(host, "/"), len = colon ? (size_t)(colon - host) : end;
    snprintf(l->host, sizeof l->host, "%.*s", (int)len, host);
    snprintf(l->port, sizeof l->port, "%.*s", colon ? (int)(end - len - 1) : 2,
             colon ? colon + 1 : "80");
    return KT_OK;
}

static void write_text(kt__buf *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20) {
            (void)kt__buf_printf(out, "\\u%04x", c);
            continue;
        }
        if (c == '"' || c == '\\') (void)kt__buf_putc(out, '\\');
        (void)kt__buf_putc(out, (char)c);
    }
}

static kt_status write_request(load *l, kt_error *err) {
    kt__buf body, all;
    kt__buf_init(&body, 1 << 20);
    kt__buf_init(&all, 2 << 20);
    (void)kt__buf_puts(&body, "{\"prompt\":\"");
    write_text(&body, l->opts.prompt);
    (void)kt__buf_printf(&body, "\",\"max_tokens\":%d,\"ignore_eos\":true,\"stream\":true}",
                         (int)l->opts.n_predict);
    if (!l->path[0]) {
        (void)kt__buf_printf(&all,
                             "POST /v1/completions HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: "
                             "application/json\r\nConnection: close\r\nContent-Length: %zu\r\n",
                             l->host, l->port, body.len);
        if (l->opts.key) (void)kt__buf_printf(&all, "Authorization: Bearer %s\r\n", l->opts.key);
        (void)kt__buf_puts(&all, "\r\n");
    }
    (void)kt__buf_append(&all, body.data, body.len);
    if (l->path[0]) (void)kt__buf_putc(&all, '\n');
    kt__buf_free(&body);
    bool failed = all.failed || body.failed;
    l->request = failed ? NULL : kt__buf_take(&all, NULL);
    kt__buf_free(&all);
    return l->request ? KT_OK : kt__fail_nomem(err, "the request", 0);
}

/* ---- the figures ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts ms[n]; the value below which a share of them lies. */
static double percentile(double *ms, int n, double share) {
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    int at = (int)(share * (double)n);
    return n ? ms[at < n ? at : n - 1] : 0;
}

typedef double value_fn(const shot *s);
static double first_ms(const shot *s) {
    return (double)s->first_us / 1e3;
}
static double mean_gap_ms(const shot *s) {
    return s->n_tokens > 1 ? (double)s->sum_gap_us / 1e3 / (double)(s->n_tokens - 1) : 0;
}
static double worst_gap_ms(const shot *s) {
    return (double)s->worst_gap_us / 1e3;
}
static double total_ms(const shot *s) {
    return (double)s->total_us / 1e3;
}

static void print_row(const char *name, const char *key, const shot *shots, int n, value_fn *get,
                      double *scratch, bool json) {
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (shots[i].good) scratch[m++] = get(&shots[i]);
    }
    double p50 = percentile(scratch, m, 0.5), p90 = percentile(scratch, m, 0.9);
    double p99 = percentile(scratch, m, 0.99), most = percentile(scratch, m, 1);
    if (json) {
        printf(",\"%s\":{\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"max\":%.3f}", key, p50, p90, p99,
               most);
    } else {
        printf("| %-22s | %9.1f | %9.1f | %9.1f | %9.1f |\n", name, p50, p90, p99, most);
    }
}

static void print(const load *l, const shot *shots, int n, double *scratch) {
    int good = 0, refused = 0;
    long long tokens = 0;
    double seconds = (double)(kt__now_us() - l->start_us) * 1e-6;
    for (int i = 0; i < n; i++) {
        good += shots[i].good;
        refused += shots[i].status == 429 || shots[i].status == 503;
        tokens += shots[i].n_tokens;
    }
    if (l->opts.json) {
        printf("{\"requests\":%d,\"answered\":%d,\"refused\":%d,\"failed\":%d,\"rate\":%g,"
               "\"seconds\":%.3f,\"tokens_per_second\":%.2f",
               n, good, refused, n - good - refused, (double)l->opts.rate, seconds,
               (double)tokens / seconds);
    } else {
        printf("%d requests at %g a second: %d answered, %d refused, %d failed; %.1f tokens/s in "
               "all\n\n| ms                     |       p50 |       p90 |       p99 |       max |\n"
               "|------------------------|-----------|-----------|-----------|-----------|\n",
               n, (double)l->opts.rate, good, refused, n - good - refused,
               (double)tokens / seconds);
    }
    print_row("first token", "first_token_ms", shots, n, first_ms, scratch, l->opts.json);
    print_row("gap, mean of an answer", "mean_gap_ms", shots, n, mean_gap_ms, scratch,
              l->opts.json);
    print_row("gap, worst", "worst_gap_ms", shots, n, worst_gap_ms, scratch, l->opts.json);
    print_row("whole answer", "total_ms", shots, n, total_ms, scratch, l->opts.json);
    if (l->opts.json) puts("}");
}

/* ---- the command ---- */

static kt_status shoot(load *l, kt_error *err) {
    int n = l->opts.n_requests;
    pthread_attr_t attr;
    shot *shots = kt__calloc((size_t)n, sizeof *shots);
    double *scratch = kt__calloc((size_t)n, sizeof *scratch);
    kt_status status = shots && scratch ? KT_OK : kt__fail_nomem(err, "the load", 0);
    if (status == KT_OK && pthread_attr_init(&attr) == 0) {
        (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
        l->start_us = kt__now_us() + 50000;
        for (int i = 0; i < n; i++) {
            shots[i] = (shot){.load = l};
            shots[i].at_us = l->start_us + (int64_t)((double)i * 1e6 / (double)l->opts.rate);
            wait_until(shots[i].at_us - 20000); /* no more threads than there are requests */
            shots[i].started = pthread_create(&shots[i].thread, &attr, fire, &shots[i]) == 0;
        }
        for (int i = 0; i < n; i++) {
            if (shots[i].started) pthread_join(shots[i].thread, NULL);
        }
        pthread_attr_destroy(&attr);
        print(l, shots, n, scratch);
        bool any = false;
        for (int i = 0; i < n; i++) any |= shots[i].good;
        if (!any) status = kt__fail(err, KT_E_IO, "%s answered nothing", l->opts.server);
    }
    kt__free(scratch);
    kt__free(shots);
    return status;
}

bool kt__bench_wants_server(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--server", 8) && (!argv[i][8] || argv[i][8] == '=')) return true;
    }
    return false;
}

int kt__bench_server(int argc, char **argv) {
    static const kt__opt table[] = {
        {.name = "server",
         .kind = KT__OPT_TEXT,
         .at = offsetof(load_opts, server),
         .arg = "URL",
         .help = "http://HOST:PORT, or unix:PATH for lines on the socket"},
        {.name = "rate",
         .kind = KT__OPT_FLOAT,
         .at = offsetof(load_opts, rate),
         .min = 0.001,
         .max = 10000,
         .arg = "R",
         .help = "requests started a second, whatever became of earlier ones (default 2)"},
        {.name = "requests",
         .kind = KT__OPT_INT,
         .at = offsetof(load_opts, n_requests),
         .min = 1,
         .max = MAX_REQUESTS,
         .arg = "N",
         .help = "how many (default 50)"},
        {.name = "n-gen",
         .brief = "n",
         .kind = KT__OPT_INT,
         .at = offsetof(load_opts, n_predict),
         .min = 1,
         .max = 1 << 20,
         .arg = "N",
         .help = "tokens of each answer (default 64)"},
        {.name = "prompt",
         .kind = KT__OPT_TEXT,
         .at = offsetof(load_opts, prompt),
         .arg = "TEXT",
         .help = "what each asks (default: a short sentence)"},
        {.name = "key",
         .kind = KT__OPT_TEXT,
         .at = offsetof(load_opts, key),
         .arg = "KEY",
         .help = "API key"},
        {.name = "json",
         .kind = KT__OPT_ON,
         .at = offsetof(load_opts, json),
         .help = "one JSON object"},
    };
    load l = {.opts = {.prompt = "Tell me a story about a cat.",
                       .rate = 2,
                       .n_requests = 50,
                       .n_predict = 64}};
    const kt__opt_group groups[] = {{"Load", table, KT__COUNT(table), &l.opts}};
    const kt__syntax syntax = {
        .command = "bench",
        .usage = "--server URL [OPTIONS]",
        .about =
            "Load on a running server: requests start at fixed times whether earlier ones have "
            "ended or not,\nand latencies count from those times.",
        .groups = groups,
        .n_groups = KT__COUNT(groups)};
    kt_error err;
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    kt_status status = read_url(&l, &err);
    if (status == KT_OK) status = write_request(&l, &err);
    if (status == KT_OK) status = shoot(&l, &err);
    kt__free(l.request);
    return status == KT_OK ? 0 : kt__cli_fail("bench", &err);
}
