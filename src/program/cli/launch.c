/* kentang launch: another program, told to use a server of kentang's, which is started if none answers. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "cli/launch_programs.h"
#include "setup/model_file.h"
#include "term/cli.h"
#include "term/options.h"

enum {
    MAX_WORDS = 128,
    MAX_REPLY = 16 << 20,
    USUAL_CONTEXT = 4096, /* where the server does not say */
    READY_TRIES = 6000,   /* of a tenth of a second: a large model is read from disk */
    ASK_S = 10
};

typedef struct launch_opts {
    const char *model, *listen, *key;
    int32_t ctx;
    bool print;
} launch_opts;

#define AT(member) offsetof(launch_opts, member)

static const kt__opt table[] = {
    {.name = "model",
     .brief = "m",
     .kind = KT__OPT_TEXT,
     .at = AT(model),
     .arg = "MODEL",
     .help =
         "what to serve, if a server is to be started; of one that runs: which of its models (default: its first)"},
    {.name = "listen",
     .kind = KT__OPT_TEXT,
     .at = AT(listen),
     .arg = "ADDR:PORT",
     .help = "where the server is (default: `http.listen` of kentang.toml, else 127.0.0.1:8000)"},
    {.name = "key",
     .kind = KT__OPT_TEXT,
     .at = AT(key),
     .arg = "KEY",
     .help = "the server's API key, if it asks for one (also KENTANG_API_KEY)"},
    {.name = "ctx",
     .brief = "c",
     .kind = KT__OPT_INT,
     .at = AT(ctx),
     .min = 0,
     .max = KT_CTX_MAX,
     .arg = "N",
     .help =
         "context of a server that is started, in tokens (default: as the model and the memory allow)"},
    {.name = "print",
     .kind = KT__OPT_ON,
     .at = AT(print),
     .help = "show variables, files and the command, and start nothing"},
};
#undef AT

/* ---- the server ---- */

/* "127.0.0.1:8000", "[::1]:8000"; 0.0.0.0 is this machine, too. */
typedef struct address {
    char host[256], port[16], url[320];
} address;

static bool read_address(const char *text, address *out) {
    const char *colon = text ? strrchr(text, ':') : NULL;
    int len = colon ? (int)(colon - text) : 0;
    if (!len || !colon[1] || strlen(colon + 1) >= sizeof out->port || len >= 240) return false;
    bool six = text[0] == '[' && text[len - 1] == ']';
    snprintf(out->host, sizeof out->host, "%.*s", six ? len - 2 : len, six ? text + 1 : text);
    snprintf(out->port, sizeof out->port, "%s", colon + 1);
    if (!strcmp(out->host, "0.0.0.0")) snprintf(out->host, sizeof out->host, "127.0.0.1");
    if (!strcmp(out->host, "::")) snprintf(out->host, sizeof out->host, "::1");
    snprintf(out->url, sizeof out->url, strchr(out->host, ':') ? "http://[%s]:%s" : "http://%s:%s",
             out->host, out->port);
    return strspn(out->port, "0123456789") == strlen(out->port);
}

/* -1: nobody is there. */
static int connect_to(const address *a) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval limit = {.tv_sec = ASK_S};
    struct addrinfo *list = NULL;
    int fd = -1;
    if (getaddrinfo(a->host, a->port, &hints, &list) != 0) return -1;
    for (const struct addrinfo *i = list; i && fd < 0; i = i->ai_next) {
        fd = socket(i->ai_family, i->ai_socktype | SOCK_CLOEXEC, i->ai_protocol);
        if (fd >= 0 && connect(fd, i->ai_addr, i->ai_addrlen) == 0) break;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    if (fd >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

/* The status of GET path, with the body in out; 0: nobody answers. */
static int ask_server(const address *a, const char *path, const char *key, kt__buf *out) {
    char request[1024], piece[4096];
    int fd = connect_to(a), status = 0;
    ssize_t n;
    kt__buf_clear(out);
    if (fd < 0) return 0;
    int len = snprintf(request, sizeof request,
                       "GET %s HTTP/1.0\r\nHost: %s%s%s:%s\r\nConnection: close\r\n%s%.256s%s\r\n",
                       path, strchr(a->host, ':') ? "[" : "", a->host,
                       strchr(a->host, ':') ? "]" : "", a->port,
                       key ? "Authorization: Bearer " : "", key ? key : "", key ? "\r\n" : "");
    if (len > 0 && len < (int)sizeof request && kt__fd_write(fd, request, (size_t)len))
        while ((n = recv(fd, piece, sizeof piece, 0)) > 0 &&
               kt__buf_append(out, piece, (size_t)n)) {
        }
    close(fd);
    const char *head = out->data ? out->data : "", *body = strstr(head, "\r\n\r\n");
    if (!body || out->failed || sscanf(head, "HTTP/%*d.%*d %d", &status) != 1) return 0;
    size_t at = (size_t)(body + 4 - head);
    memmove(out->data, out->data + at, out->len - at + 1);
    out->len -= at;
    return status;
}

/* Its own process, whose log goes to a file; 0: it could not be started. */
static pid_t start_server(const launch_opts *o, const char *listen, const char *log,
                          kt_error *err) {
    char ctx[16];
    const char *args[12] = {"kentang", "serve", "--listen", listen, "--socket", "none"};
    size_t n = 6;
    snprintf(ctx, sizeof ctx, "%d", (int)o->ctx);
    if (o->model) args[n++] = "-m";
    if (o->model) args[n++] = o->model;
    if (o->ctx) args[n++] = "--ctx";
    if (o->ctx) args[n++] = ctx;
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    pid_t pid = fd >= 0 ? fork() : -1;
    if (pid == 0) {
        (void)setpgid(0, 0); /* Ctrl-C is the program's */
        (void)dup2(fd, STDERR_FILENO);
        (void)dup2(fd, STDOUT_FILENO);
        (void)execv("/proc/self/exe", (char **)(uintptr_t)args);
        _exit(127);
    }
    if (fd >= 0) close(fd);
    if (pid > 0) return pid;
    (void)kt__fail_system(err, errno, log, "cannot start a server");
    return 0;
}

/* Until it says that it is ready; it may have ended instead. */
static kt_status wait_for_server(const address *a, pid_t server, const char *log, kt__buf *reply,
                                 kt_error *err) {
    static const struct timespec pause = {0, 100000000};
    for (int i = 0; i < READY_TRIES; i++) {
        if (ask_server(a, "/ready", NULL, reply) == 200) return KT_OK;
        if (waitpid(server, NULL, WNOHANG) == server)
            return kt__fail_at(err, KT_E_STATE, log, UINT64_MAX,
                               "the server that was started has ended: its log says why");
        (void)nanosleep(&pause, NULL);
    }
    return kt__fail_at(err, KT_E_STATE, log, UINT64_MAX,
                       "the server is not ready after 10 minutes");
}

static void end_server(pid_t server) {
    if (server <= 0) return;
    (void)kill(server, SIGTERM);
    (void)waitpid(server, NULL, 0);
}

/* What the server's list says of the model, or of its first one. */
static kt_status read_model(const launch_opts *o, const kt__buf *reply, json_t **list,
                            kt__launch_facts *facts, kt_error *err) {
    *list = json_loadb(reply->data ? reply->data : "", reply->len, 0, NULL);
    const json_t *data = json_object_get(*list, "data"), *model = json_array_get(data, 0);
    for (size_t i = 0; o->model && i < json_array_size(data); i++) {
        const char *id = json_string_value(json_object_get(json_array_get(data, i), "id"));
        if (id && !strcmp(id, o->model)) model = json_array_get(data, i);
    }
    facts->model = json_string_value(json_object_get(model, "id"));
    if (!facts->model)
        return kt__fail(err, KT_E_STATE, "what answers at %s lists no models", facts->url);
    const json_t *context = json_object_get(model, "context_length");
    facts->context = json_is_integer(context) ? json_integer_value(context) : USUAL_CONTEXT;
    return KT_OK;
}

static kt_status ask_models(const launch_opts *o, const address *a, kt__buf *reply, json_t **list,
                            kt__launch_facts *facts, kt_error *err) {
    int status = ask_server(a, "/v1/models", o->key, reply);
    if (status == 401)
        return kt__fail(err, KT_E_ARG, "the server at %s asks for a key: --key KEY", a->url);
    if (status != 200)
        return kt__fail(err, KT_E_STATE, "the server at %s does not answer as it should: %d",
                        a->url, status);
    return read_model(o, reply, list, facts, err);
}

/* ---- the program ---- */

/* In a shell's words. */
static void print_quoted(const char *text) {
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
    putchar('\'');
}

static bool print_all(const kt__launch_program *p, const kt__launch_facts *facts,
                      const char *const *words, size_t n_words, kt__buf *text) {
    for (size_t i = 0; i < KT__LAUNCH_VARIABLES && p->variables[i].name; i++) {
        if (!p->variables[i].value) {
            printf("unset %s\n", p->variables[i].name);
            continue;
        }
        if (!kt__launch_fill(facts, p->variables[i].value, text)) return false;
        printf("export %s=", p->variables[i].name);
        print_quoted(text->data);
        putchar('\n');
    }
    if (p->file && !kt__launch_fill(facts, p->content, text)) return false;
    if (p->file)
        printf("mkdir -p %s\ncat >%s/%s <<'END'\n%sEND\n", facts->dir, facts->dir, p->file,
               text->data);
    fputs(p->command, stdout);
    for (size_t i = 0; i < KT__LAUNCH_ARGUMENTS && p->arguments[i]; i++) {
        if (!kt__launch_fill(facts, p->arguments[i], text)) return false;
        putchar(' ');
        print_quoted(text->data);
    }
    if (!n_words && p->alone) printf(" %s", p->alone);
    for (size_t i = 0; i < n_words; i++) {
        putchar(' ');
        print_quoted(words[i]);
    }
    putchar('\n');
    return true;
}

/* Of this process, before the program is started in a child of it. */
static bool set_variables(const kt__launch_program *p, const kt__launch_facts *facts,
                          kt__buf *text) {
    for (size_t i = 0; i < KT__LAUNCH_VARIABLES && p->variables[i].name; i++) {
        if (!p->variables[i].value) {
            (void)unsetenv(p->variables[i].name);
        } else if (!kt__launch_fill(facts, p->variables[i].value, text) ||
                   setenv(p->variables[i].name, text->data, 1) != 0) {
            return false;
        }
    }
    return true;
}

static kt_status write_file(const kt__launch_program *p, const kt__launch_facts *facts,
                            kt__buf *text, kt_error *err) {
    if (!p->file) return KT_OK;
    if (!kt__launch_fill(facts, p->content, text)) return kt__fail_nomem(err, "a file", 0);
    return kt__files_replace(facts->dir, p->file, text->data, text->len, err);
}

/* The program's exit status, as shells have it. */
static int run_program(const kt__launch_program *p, const kt__launch_facts *facts,
                       const char *const *words, size_t n_words, kt__buf *text) {
    const char *args[KT__LAUNCH_ARGUMENTS + MAX_WORDS + 3] = {p->command};
    size_t n = 1;
    int state = 0;
    bool made = set_variables(p, facts, text);
    for (size_t i = 0; made && i < KT__LAUNCH_ARGUMENTS && p->arguments[i]; i++) {
        made = kt__launch_fill(facts, p->arguments[i], text);
        args[n++] = kt__buf_take(text, NULL);
        made = made && args[n - 1];
    }
    size_t own = n;
    if (!n_words && p->alone) args[n++] = p->alone;
    for (size_t i = 0; i < n_words; i++) args[n++] = words[i];
    (void)signal(SIGINT, SIG_IGN); /* it is the program's */
    pid_t pid = made ? fork() : -1;
    if (pid == 0) {
        (void)signal(SIGINT, SIG_DFL);
        (void)execvp(p->command, (char **)(uintptr_t)args);
        fprintf(stderr, "kentang: launch: cannot start %s: %s; it comes from: %s\n", p->command,
                strerror(errno), p->install);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR) {
    }
    for (size_t i = 1; i < own; i++) kt__free((void *)(uintptr_t)args[i]);
    if (pid < 0) return 1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

/* ---- the whole ---- */

typedef struct launch {
    const launch_opts *opts;
    const kt__launch_program *program;
    const char *const *words;
    size_t n_words;
    address at;
    char listen[256], dir[64], log[128];
    kt__launch_facts facts;
    kt__buf text;
    json_t *list;
    pid_t server;
} launch;

static kt_status find_address(launch *l, kt_error *err) {
    const char *listen = l->opts->listen;
    kt__config *config = NULL;
    if (!listen) KT__STEP(kt__model_name_config(&config, err));
    snprintf(l->listen, sizeof l->listen, "%s",
             listen           ? listen
             : config->listen ? config->listen
                              : "");
    kt__config_free(config);
    if (read_address(l->listen, &l->at)) return KT_OK;
    return kt__fail(err, KT_E_ARG, "--listen: expected ADDRESS:PORT, got \"%.80s\"", l->listen);
}

/* A folder that others cannot read, for the program's file and a server's log. */
static kt_status make_folder(launch *l, kt_error *err) {
    const char *base = getenv("XDG_RUNTIME_DIR");
    snprintf(l->dir, sizeof l->dir, "%.30s/kentang-launch-XXXXXX",
             base && *base && strlen(base) <= 30 ? base : "/tmp");
    if (!mkdtemp(l->dir)) return kt__fail_system(err, errno, l->dir, "cannot make a folder");
    snprintf(l->log, sizeof l->log, "%s/serve.log", l->dir);
    return KT_OK;
}

static kt_status find_server(launch *l, kt_error *err) {
    bool there = ask_server(&l->at, "/health", NULL, &l->text) == 200;
    if (!there && l->opts->print) { /* as it would be */
        l->facts.model = l->opts->model ? l->opts->model : "demo";
        l->facts.context = l->opts->ctx ? l->opts->ctx : USUAL_CONTEXT;
        printf("# no server answers at %s: `kentang serve --listen %s` would be started\n",
               l->at.url, l->listen);
        return KT_OK;
    }
    if (!there) {
        fprintf(stderr, "kentang: starting a server at %s (log: %s)\n", l->at.url, l->log);
        l->server = start_server(l->opts, l->listen, l->log, err);
        if (!l->server) return KT_E_IO;
        KT__STEP(wait_for_server(&l->at, l->server, l->log, &l->text, err));
    }
    return ask_models(l->opts, &l->at, &l->text, &l->list, &l->facts, err);
}

static kt_status launch_all(launch *l, int *code, kt_error *err) {
    KT__STEP(find_address(l, err));
    l->facts.url = l->at.url;
    l->facts.key = l->opts->key ? l->opts->key : "none";
    l->facts.dir = "/tmp/kentang-launch";
    if (!l->opts->print) {
        KT__STEP(make_folder(l, err));
        l->facts.dir = l->dir;
    }
    KT__STEP(find_server(l, err));
    if (l->opts->print) {
        if (!print_all(l->program, &l->facts, l->words, l->n_words, &l->text))
            return kt__fail_nomem(err, "a text", 0);
        *code = kt__cli_finish("launch", 0);
        return KT_OK;
    }
    KT__STEP(write_file(l->program, &l->facts, &l->text, err));
    *code = run_program(l->program, &l->facts, l->words, l->n_words, &l->text);
    return KT_OK;
}

static int run_launch(const launch_opts *opts, const kt__launch_program *program,
                      const char *const *words, size_t n_words) {
    launch l = {.opts = opts, .program = program, .words = words, .n_words = n_words};
    kt_error err = {0}, ignored;
    int code = 1;
    kt__buf_init(&l.text, MAX_REPLY);
    kt_status status = launch_all(&l, &code, &err);
    end_server(l.server);
    if (l.dir[0] && status == KT_OK && kt__files_remove_tree(l.dir, &ignored) != KT_OK)
        fprintf(stderr, "kentang: launch: %s stays\n", l.dir);
    json_decref(l.list);
    kt__buf_free(&l.text);
    return status == KT_OK ? code : kt__cli_fail("launch", &err);
}

int kt__cmd_launch(int argc, char **argv) {
    launch_opts opts = {.key = getenv("KENTANG_API_KEY")};
    const kt__opt_group groups[] = {{"Options", table, KT__COUNT(table), &opts}};
    const kt__syntax syntax = {
        .command = "launch",
        .usage = "[OPTIONS] PROGRAM [-- ARGUMENTS]",
        .about =
            "Starts another program and tells it to use a server of this machine, by variables of "
            "its\n"
            "environment, arguments or a file of its own in a temporary folder; nothing of the "
            "user's is\n"
            "changed. If no server answers, one is started, and ends with the program. PROGRAM is "
            "claude,\n"
            "codex, opencode, aider, pi, qwen-code or goose, which must be installed.",
        .groups = groups,
        .n_groups = 1,
        .min_words = 1,
        .max_words = MAX_WORDS,
        .word = "PROGRAM",
        .notes = "Examples:\n"
                 "  kentang launch claude -m qwen -c 32768\n"
                 "  kentang launch codex -- exec \"What does this repository do?\"\n"
                 "  kentang launch aider --print",
    };
    const char *words[MAX_WORDS];
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code >= 0) return code;
    const kt__launch_program *program = kt__launch_find(words[0]);
    if (!program)
        return kt__cli_usage_error(
            "launch",
            "\"%.40s\" is not known: expected claude, codex, opencode, aider, pi, qwen-code or goose",
            words[0]);
    return run_launch(&opts, program, words + 1, n_words - 1);
}
