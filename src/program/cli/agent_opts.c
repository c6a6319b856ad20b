#include "cli/agent_opts.h"

#include <stdlib.h>
#include <string.h>

#include "agent/loop.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "mcp/rpc.h"
#include "term/cli.h"
#include "term/safe_text.h"
#include "term/terminal.h"

/* ---- whether a tool may be called ---- */

enum { MAX_ANSWER = 1 << 20, MAX_SHOWN = 1 << 20 };

/* All of the arguments: what is not shown cannot be agreed to. */
static void show_call(const kt__agent_tool *tool, const json_t *args) {
    char *text = json_dumps(args, JSON_INDENT(2) | JSON_ENCODE_ANY);
    const char *from = tool->server ? tool->server : "built in";
    fputs("\nThe model wants to call ", stderr);
    kt__safe_print(stderr, tool->own_name, strlen(tool->own_name), 200);
    fputs(" of ", stderr);
    kt__safe_print(stderr, from, strlen(from), 200);
    fputs(" with\n", stderr);
    for (const char *at = text; at && *at;) {
        size_t len = strcspn(at, "\n");
        fputs("    ", stderr);
        kt__safe_print(stderr, at, len, MAX_SHOWN);
        fputc('\n', stderr);
        at += len + (at[len] == '\n');
    }
    free(text);
}

static char *read_answer(const char *question) {
    char *line;
    size_t len;
    kt_error err;
    fputs(question, stderr);
    return kt__cli_read_line(stdin, MAX_ANSWER, &line, &len, &err) > 0 ? line : NULL;
}

/* false: it was no object, and nothing has changed. */
static bool edit_arguments(json_t **args) {
    const kt__json_limits limits = {MAX_ANSWER, 64};
    kt_error err;
    json_t *edited = NULL;
    char *line = read_answer("the arguments, as one line of JSON: ");
    kt_status status = line ? kt__json_read(line, strlen(line), &limits, &edited, &err) : KT_E_IO;
    kt__free(line);
    if (status != KT_OK || !json_is_object(edited)) {
        fputs(status == KT_OK ? "that is no object\n" : "that is no JSON\n", stderr);
        json_decref(edited);
        return false;
    }
    json_decref(*args);
    *args = edited;
    return true;
}

static kt__approval ask_about(const kt__agent_tool *tool, json_t **args) {
    show_call(tool, *args);
    for (;;) {
        char *line = read_answer("Allow it? [y]es, [a]lways this tool, [n]o, [e]dit: ");
        char first = line ? line[0] : 'n';
        kt__free(line);
        switch (first) {
        case 'y': return KT__APPROVED;
        case 'a': return KT__APPROVED_ALWAYS;
        case 'n': return KT__REFUSED;
        case 'e':
            if (edit_arguments(args)) show_call(tool, *args);
            break;
        default: break;
        }
    }
}

enum { MAX_TASK = 16 << 20, DEFAULT_PREDICT = 2048 };

#define AT(member) offsetof(kt__agent_opts, member)

static const kt__opt table[] = {
    {.name = "mcp",
     .kind = KT__OPT_TEXT,
     .at = AT(servers),
     .arg = "FILE",
     .help = "the servers whose tools the model may use, as other programs have them: "
             "{\"mcpServers\": {\"NAME\": {\"command\": ..., \"args\": [...]}}}"},
    {.name = "tools",
     .kind = KT__OPT_TEXT,
     .at = AT(builtins),
     .arg = "LIST",
     .help = "tools of our own: clock, calculator, or both with a comma between"},
    {.name = "files",
     .kind = KT__OPT_TEXT,
     .at = AT(folder),
     .arg = "FOLDER",
     .help = "let the model list and read the files below FOLDER, and nothing else"},
    {.name = "allow",
     .kind = KT__OPT_TEXTS,
     .at = AT(allow),
     .arg = "PATTERN",
     .help = "call tools of these names (SERVER__TOOL, with * and ?) without asking; may be "
             "repeated"},
    {.name = "deny",
     .kind = KT__OPT_TEXTS,
     .at = AT(deny),
     .arg = "PATTERN",
     .help = "keep tools of these names from the model; goes before --allow; may be repeated"},
    {.name = "max-rounds",
     .kind = KT__OPT_INT,
     .at = AT(rounds),
     .min = 1,
     .max = 1000,
     .arg = "N",
     .help = "answers of the model to a task, calls included (default 16)"},
    {.name = "max-calls",
     .kind = KT__OPT_INT,
     .at = AT(calls),
     .min = 0,
     .max = 10000,
     .arg = "N",
     .help = "calls of tools for a task (default 64)"},
    {.name = "one-call",
     .kind = KT__OPT_ON,
     .at = AT(one_call),
     .help =
         "let an answer of the model call one tool at most (default: as many as its format takes)"},
    {.name = "max-time",
     .kind = KT__OPT_INT,
     .at = AT(time_s),
     .min = 0,
     .max = 86400,
     .arg = "SECONDS",
     .help = "for a task; then the model has to answer (default 0: no limit)"},
    {.name = "max-result",
     .kind = KT__OPT_SIZE,
     .at = AT(result_bytes),
     .arg = "SIZE",
     .help = "of a result that the model is shown; more is cut out of the middle (default 64K)"},
    {.name = "transcript",
     .kind = KT__OPT_TEXT,
     .at = AT(transcript),
     .arg = "FILE",
     .help = "write what happens, a line of JSON each"},
    {.name = "replay",
     .kind = KT__OPT_TEXT,
     .at = AT(replay),
     .arg = "FILE",
     .help = "take tools and results from a transcript: no server is started"},
    {.name = "pins",
     .kind = KT__OPT_TEXT,
     .at = AT(pins),
     .arg = "FILE",
     .help = "what servers' tools looked like when they were first used (default: mcp-pins.json in "
             "~/.local/state/kentang)"},
    {.name = "repin",
     .kind = KT__OPT_ON,
     .at = AT(repin),
     .help = "take tools that have changed since then as they are now"},
};

kt__agent_opts kt__agent_opts_default(void) {
    return (kt__agent_opts){.rounds = 16, .calls = 64, .result_bytes = 64 << 10};
}

void kt__agent_opts_free(kt__agent_opts *opts) {
    kt__opt_texts_free(&opts->allow);
    kt__opt_texts_free(&opts->deny);
}

kt__opt_group kt__agent_opts_group(kt__agent_opts *opts) {
    return (kt__opt_group){"Tools", table, KT__COUNT(table), opts};
}

/* ---- what the user sees ---- */

typedef struct work {
    const kt__agent_opts *opts;
    kt__session *session;
    kt__toolbox *box;
    kt__agent *agent;
    kt__transcript transcript;
    const char **allow, **deny; /* with a NULL at the end */
    bool stopped;               /* Ctrl-C */
} work;

static void show_note(void *user, const char *line) {
    const work *w = user;
    if (w->opts->quiet) return;
    fputs("kentang: ", stderr);
    kt__safe_print(stderr, line, strlen(line), 1024);
    fputc('\n', stderr);
}

static bool wants_stop(void *user) {
    work *w = user;
    w->stopped |= kt__interrupted();
    return w->stopped;
}

static kt__approval ask_user(void *user, const kt__agent_tool *tool, json_t **args) {
    work *w = user;
    kt__approval approval = ask_about(tool, args);
    w->stopped |= kt__interrupted();
    return approval;
}

/* ---- work ---- */

static const char **list_of(const kt__opt_texts *texts) {
    const char **list = kt__calloc(texts->n + 1, sizeof *list);
    for (size_t i = 0; list && i < texts->n; i++) list[i] = texts->items[i];
    return list;
}

static kt_status open_tools(work *w, kt_error *err) {
    const kt__agent_opts *o = w->opts;
    const kt__toolbox_opts opts = {.servers_file = o->servers,
                                   .pins_file = o->pins,
                                   .repin = o->repin,
                                   .builtins = o->builtins,
                                   .folder = o->folder,
                                   .allow = w->allow,
                                   .deny = w->deny,
                                   .stop = wants_stop,
                                   .note = show_note,
                                   .user = w,
                                   .max_result = (size_t)o->result_bytes};
    kt_status status = kt__transcript_open(o->transcript, o->replay, &w->transcript, err);
    if (status != KT_OK) return status;
    const json_t *tools = kt__transcript_tools(&w->transcript);
    return o->replay ? kt__toolbox_recall(tools, &opts, &w->box, err)
                     : kt__toolbox_open(&opts, &w->box, err);
}

static kt_status open_work(work *w, const kt_gen_params *gen, const char *system, kt_error *err) {
    bool asks = kt__fd_is_terminal(KT__STDIN) && kt__fd_is_terminal(KT__STDERR);
    const kt__agent_hooks hooks = {asks ? ask_user : NULL, show_note, wants_stop, w};
    const kt__agent_limits limits = {w->opts->rounds, w->opts->calls,
                                     (int64_t)w->opts->time_s * 1000, w->opts->one_call};
    kt__turn_opts turn = {.engine = w->session->engine,
                          .seq = w->session->seq,
                          .asked = kt__session_request(w->session),
                          .gen = *gen};
    if (turn.gen.n_predict < 0) turn.gen.n_predict = DEFAULT_PREDICT;
    w->allow = list_of(&w->opts->allow);
    w->deny = list_of(&w->opts->deny);
    if (!w->allow || !w->deny) return kt__fail_nomem(err, "an agent", 0);
    kt_status status = open_tools(w, err);
    if (status == KT_OK)
        status = kt__agent_create(&turn, w->box, &w->transcript, &limits, &hooks, system, &w->agent,
                                  err);
    return status;
}

static void close_work(work *w) {
    kt__agent_free(w->agent);
    kt__toolbox_close(w->box);
    kt__transcript_close(&w->transcript);
    kt__free(w->allow);
    kt__free(w->deny);
}

static void print_answer(const char *answer) {
    if (kt__fd_is_terminal(KT__STDOUT)) {
        kt__safe_print(stdout, answer, strlen(answer), MAX_TASK);
    } else {
        fputs(answer, stdout);
    }
    putchar('\n');
    fflush(stdout);
}

static kt_status do_task(work *w, const char *task, kt_error *err) {
    char *answer;
    kt_status status = kt__agent_run(w->agent, task, &answer, err);
    if (status == KT_OK) print_answer(answer);
    kt__free(answer);
    return status;
}

/* Ctrl-C ends a task, and at the prompt the conversation. */
static int do_tasks(const char *command, work *w) {
    kt_error err;
    char *line;
    size_t len;
    int code = 0, got;
    while (fputs("> ", stderr), (got = kt__cli_read_line(stdin, MAX_TASK, &line, &len, &err)) > 0) {
        kt_status status = len ? do_task(w, line, &err) : KT_OK;
        kt__free(line);
        w->stopped = false;
        kt_engine_resume(w->session->engine);
        if (status == KT_E_CANCELLED) fputs("kentang: cancelled\n", stderr);
        if (status != KT_OK && status != KT_E_CANCELLED) code = kt__cli_fail(command, &err);
    }
    return got < 0 && !kt__interrupted() ? kt__cli_fail(command, &err) : code;
}

int kt__agent_work(const char *command, kt__session *session, const kt__agent_opts *opts,
                   const kt_gen_params *gen, const char *system, const char *task) {
    work w = {.opts = opts, .session = session};
    kt_error err = {0};
    int code = 0;
    kt__interrupt_watch(session->engine);
    kt_status status = open_work(&w, gen, system, &err);
    if (status == KT_OK && task) {
        status = do_task(&w, task, &err);
    } else if (status == KT_OK) {
        code = do_tasks(command, &w);
    }
    if (status != KT_OK) code = kt__cli_fail(command, &err);
    kt__interrupt_unwatch();
    close_work(&w);
    return code;
}
