#include "cli/chat.h"

#include <errno.h>
#include <histedit.h>
#include <jansson.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/prompt_cache.h"

enum { MAX_LINE_BYTES = 16 << 20, HISTORY_LINES = 1000 };

typedef struct chat {
    kt__session *session;
    kt_gen_params params;
    kt_message *messages; /* contents on the heap; roles are constants */
    size_t n, cap;
    kt__buf answer; /* the one being generated */
    char last;      /* last character shown */
    kt__figures *figures;
    uint64_t n_regenerated;
    bool quit;
    int code;

    EditLine *edit; /* NULL: standard input is no terminal */
    History *history;
} chat;

/* ---- messages ---- */

static kt_status add_message(chat *c, const char *role, const char *content, kt_error *err) {
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 16;
        kt_message *messages = kt__realloc_array(c->messages, cap, sizeof *messages);
        if (!messages) return kt__fail_nomem(err, "the conversation", cap * sizeof *messages);
        c->messages = messages;
        c->cap = cap;
    }
    char *copy = kt__strdup(content);
    if (!copy) return kt__fail_nomem(err, "a message", strlen(content));
    c->messages[c->n++] = (kt_message){role, copy};
    return KT_OK;
}

/* Drops all from the n-th on. */
static void cut_messages(chat *c, size_t n) {
    while (c->n > n) kt__free((void *)(uintptr_t)c->messages[--c->n].content);
}

static size_t n_system(const chat *c) {
    return c->n && !strcmp(c->messages[0].role, "system");
}

/* Sets, replaces or, where text is NULL, removes the system message. */
static kt_status set_system(chat *c, const char *text, kt_error *err) {
    if (!text && !n_system(c)) return KT_OK;
    if (!text) {
        kt__free((void *)(uintptr_t)c->messages[0].content);
        memmove(c->messages, c->messages + 1, --c->n * sizeof *c->messages);
        return KT_OK;
    }
    kt_status status = add_message(c, "system", text, err);
    if (status != KT_OK) return status;
    kt_message added = c->messages[c->n - 1];
    if (n_system(c) && c->n > 1) {
        kt__free((void *)(uintptr_t)c->messages[0].content);
        c->n--;
    } else {
        memmove(c->messages + 1, c->messages, (c->n - 1) * sizeof *c->messages);
    }
    c->messages[0] = added;
    return KT_OK;
}

/* ---- answers ---- */

static bool on_text(void *user, const char *text, size_t len, int32_t id) {
    (void)id;
    chat *c = user;
    if (len) c->last = text[len - 1];
    if (!kt__buf_append(&c->answer, text, len)) return false;
    return fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0;
}

static void report_finish(kt_finish finish) {
    if (finish == KT_FINISH_CONTEXT) {
        fputs("(the context is full: /clear begins anew, -c gives more room)\n", stderr);
    } else if (finish == KT_FINISH_LENGTH) {
        fputs("(ended by -n)\n", stderr);
    } else if (finish == KT_FINISH_CANCELLED) {
        fputs("(stopped)\n", stderr);
    }
}

static kt_status generate(chat *c, const kt_gen_params *params, kt_request_report *report,
                          kt_error *err) {
    return kt_chat(c->session->seq, c->messages, c->n, params, on_text, c, report, err);
}

/* Answers the messages; what was said until an interruption stays said. */
static kt_status answer_message(chat *c, kt_error *err) {
    kt_request_report result = {0};
    kt_gen_params params = c->params;
    if (params.sampling.seed != KT_SEED_RANDOM) params.sampling.seed += c->n_regenerated;
    kt__buf_clear(&c->answer);
    c->last = '\n';
    kt_engine_resume(c->session->engine);
    (void)kt__interrupted();
    kt_status status = generate(c, &params, &result, err);
    (void)kt__interrupted();
    kt_engine_resume(c->session->engine);
    if (c->last != '\n') putchar('\n');
    fflush(stdout);
    if (status != KT_OK) return status;
    kt__figures_add(c->figures, &result);
    /* one random seed for the whole conversation, so that it can be repeated */
    if (c->params.sampling.seed == KT_SEED_RANDOM) c->params.sampling.seed = result.seed;
    report_finish(result.finish);
    return add_message(c, "assistant", c->answer.data ? c->answer.data : "", err);
}

/* Shows an error; those that end a conversation set its exit code. */
static void show_error(chat *c, const kt_error *err) {
    int code = kt__cli_fail(NULL, err);
    if (err->code == KT_E_TRUNCATED || err->code == KT_E_INTERNAL) {
        c->code = code;
        c->quit = true;
    }
}

static void send_message(chat *c, const char *text) {
    kt_error err = {0};
    size_t before = c->n;
    kt_status status = add_message(c, "user", text, &err);
    if (status == KT_OK) {
        c->n_regenerated = 0;
        status = answer_message(c, &err);
    }
    if (status == KT_OK) return;
    cut_messages(c, before);
    show_error(c, &err);
}

/* ---- commands ---- */

static void cmd_help(chat *c, const char *text);

static void cmd_clear(chat *c, const char *text) {
    (void)text;
    cut_messages(c, n_system(c));
    fputs("(a new conversation)\n", stderr);
}

static void cmd_system(chat *c, const char *text) {
    kt_error err = {0};
    if (!strcmp(text, "none")) {
        (void)set_system(c, NULL, &err);
    } else if (*text && set_system(c, text, &err) != KT_OK) {
        show_error(c, &err);
        return;
    }
    fprintf(stderr, "(system: %s)\n", n_system(c) ? c->messages[0].content : "none");
}

static void cmd_regen(chat *c, const char *text) {
    kt_error err = {0};
    (void)text;
    if (c->n < 2 || strcmp(c->messages[c->n - 1].role, "assistant") != 0) {
        fputs("(there is no answer to try again)\n", stderr);
        return;
    }
    cut_messages(c, c->n - 1);
    c->n_regenerated++;
    if (answer_message(c, &err) == KT_OK) return;
    cut_messages(c, c->n - 1); /* the question without an answer */
    show_error(c, &err);
}

static void cmd_undo(chat *c, const char *text) {
    (void)text;
    size_t least = n_system(c);
    if (c->n <= least) {
        fputs("(there is nothing to take back)\n", stderr);
        return;
    }
    cut_messages(c, c->n - least >= 2 ? c->n - 2 : least);
    fprintf(stderr, "(the last exchange is taken back; %zu messages remain)\n", c->n - n_system(c));
}

static void cmd_save(chat *c, const char *path) {
    if (!*path) {
        fputs("(/save needs a file name)\n", stderr);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < c->n; i++) {
        json_t *message = json_pack("{s:s,s:s}", "role", c->messages[i].role, "content",
                                    c->messages[i].content);
        json_array_append_new(list, message);
    }
    if (list && json_dump_file(list, path, JSON_INDENT(2)) == 0) {
        fprintf(stderr, "(%zu messages are in %s)\n", c->n, path);
    } else {
        fprintf(stderr, "(cannot write %s: %s)\n", path, strerror(errno));
    }
    json_decref(list);
}

static void cmd_stats(chat *c, const char *text) {
    (void)text;
    if (c->figures->n_answers) kt__figures_print(c->figures);
    fprintf(stderr, "(%zu of %d positions are in use)\n", kt_seq_len(c->session->seq),
            (int)c->session->engine_info.n_ctx);
}

static void cmd_quit(chat *c, const char *text) {
    (void)text;
    c->quit = true;
}

static const struct {
    const char *name, *arg, *help;
    void (*run)(chat *c, const char *text);
} commands[] = {
    {"/help", "", "this list", cmd_help},
    {"/clear", "", "forget the conversation (the system message stays)", cmd_clear},
    {"/system", " TEXT", "set the system message; none removes it, nothing shows it", cmd_system},
    {"/regen", "", "another answer to the last question", cmd_regen},
    {"/undo", "", "take back the last question and its answer", cmd_undo},
    {"/save", " FILE", "write the messages as JSON", cmd_save},
    {"/stats", "", "speed and memory so far", cmd_stats},
    {"/quit", "", "end (also /exit, Ctrl-D)", cmd_quit},
    {"/exit", "", NULL, cmd_quit},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void cmd_help(chat *c, const char *text) {
    (void)c, (void)text;
    for (int i = 0; i < N_COMMANDS; i++) {
        if (!commands[i].help) continue;
        fprintf(stderr, "  %s%-*s %s\n", commands[i].name, (int)(14 - strlen(commands[i].name)),
                commands[i].arg, commands[i].help);
    }
    fputs("  A line that ends with \\ goes on in the next. // begins a message with a slash.\n"
          "  Ctrl-C stops the answer.\n",
          stderr);
}

static void run_command(chat *c, char *line) {
    const char *names[N_COMMANDS];
    size_t len = strcspn(line, " ");
    const char *text = line + len + strspn(line + len, " ");
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strlen(names[i]) == len && !memcmp(names[i], line, len)) {
            commands[i].run(c, text);
            return;
        }
    }
    const char *near = kt__nearest_name(line, len, names, N_COMMANDS);
    fprintf(stderr, "(unknown command %.*s; %s%s)\n", (int)len, line,
            near ? "did you mean " : "see /help", near ? near : "");
}

/* ---- lines ---- */

static char *prompt_text(EditLine *edit) {
    static char first[] = "> ", more[] = "| ";
    bool *goes_on = NULL;
    el_get(edit, EL_CLIENTDATA, &goes_on);
    return goes_on && *goes_on ? more : first;
}

static void open_editor(chat *c, bool *goes_on) {
    HistEvent event;
    if (!isatty(STDIN_FILENO)) return;
    setlocale(LC_CTYPE, ""); /* the editor's idea of a character; numbers stay as in C */
    c->edit = el_init("kentang", stdin, stdout, stderr);
    if (!c->edit) return;
    c->history = history_init();
    if (c->history) {
        history(c->history, &event, H_SETSIZE, HISTORY_LINES);
        history(c->history, &event, H_SETUNIQUE, 1);
        el_set(c->edit, EL_HIST, history, c->history);
    }
    el_set(c->edit, EL_EDITOR, "emacs");
    el_set(c->edit, EL_PROMPT, prompt_text);
    el_set(c->edit, EL_CLIENTDATA, goes_on);
    el_set(c->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(c->edit, NULL);
}

/* One line without its newline, for kt__free. 1: there is one; 0: the end; -1: interrupted; -2: an
 * error that was shown. */
static int edit_line(chat *c, char **line) {
    int n = 0;
    const char *got = el_gets(c->edit, &n);
    if (!got || n <= 0) {
        if (!kt__interrupted()) return 0;
        el_reset(c->edit);
        return -1;
    }
    if (kt__interrupted()) return -1;
    size_t len = (size_t)n;
    if (got[len - 1] == '\n') len--;
    *line = kt__strndup(got, len);
    if (*line && len && c->history) {
        HistEvent event;
        history(c->history, &event, H_ENTER, *line);
    }
    return *line ? 1 : 0;
}

static int plain_line(chat *c, char **line) {
    kt_error err = {0};
    size_t len;
    int got = kt__cli_read_line(stdin, MAX_LINE_BYTES, line, &len, &err);
    if (got >= 0) return got;
    if (kt__interrupted()) {
        clearerr(stdin);
        return -1;
    }
    c->code = kt__cli_fail("run", &err);
    return 0;
}

/* A whole entry: lines that end with a backslash go on. The same results as one line. */
static int read_entry(chat *c, bool *goes_on, kt__buf *entry) {
    kt__buf_clear(entry);
    for (;;) {
        char *line = NULL;
        int got = c->edit ? edit_line(c, &line) : plain_line(c, &line);
        if (got != 1) {
            *goes_on = false;
            return got == 0 && entry->len ? 1 : got;
        }
        size_t len = strlen(line);
        *goes_on = len > 0 && line[len - 1] == '\\';
        if (*goes_on) line[len - 1] = '\n';
        kt__buf_puts(entry, line);
        kt__free(line);
        if (!*goes_on) return 1;
    }
}

static void take_entry(chat *c, kt__buf *entry) {
    char *text = entry->data;
    if (entry->failed) {
        fputs("(that is too long)\n", stderr);
    } else if (!entry->len || strspn(text, " \t\n") == entry->len) {
        return;
    } else if (text[0] == '/' && text[1] == '/') {
        send_message(c, text + 1);
    } else if (text[0] == '/') {
        run_command(c, text);
    } else {
        send_message(c, text);
    }
}

/* ---- the conversation ---- */

static void converse(chat *c, bool *goes_on) {
    kt__buf entry;
    int interruptions = 0;
    kt__buf_init(&entry, MAX_LINE_BYTES);
    while (!c->quit) {
        int got = read_entry(c, goes_on, &entry);
        if (got == 0) break;
        if (got == 1) {
            interruptions = 0;
            take_entry(c, &entry);
            entry.failed = false;
            continue;
        }
        if (++interruptions == 2) break;
        fputs("\n(Ctrl-C once more, Ctrl-D or /quit ends)\n", stderr);
    }
    if (c->edit && !c->quit) putchar('\n');
    kt__buf_free(&entry);
}

int kt__chat_run(kt__session *session, const kt__chat_setup *setup, kt__figures *figures) {
    chat c = {.session = session, .params = setup->params, .figures = figures};
    bool goes_on = false;
    kt_error err = {0};
    kt__buf_init(&c.answer, SIZE_MAX / 2);
    kt__interrupt_watch(session);
    open_editor(&c, &goes_on);
    if (c.edit) fputs("Type a message; /help lists the commands, Ctrl-D ends.\n", stderr);
    if (setup->system && set_system(&c, setup->system, &err) != KT_OK) show_error(&c, &err);
    if (setup->first) send_message(&c, setup->first);
    converse(&c, &goes_on);
    kt__interrupt_unwatch();
    if (c.history) history_end(c.history);
    if (c.edit) el_end(c.edit);
    cut_messages(&c, 0);
    kt__free(c.messages);
    kt__buf_free(&c.answer);
    return c.code;
}
