#include "cli/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "term/cli.h"
#include "term/terminal.h"

enum { MAX_LINE_BYTES = 16 << 20, MAX_COMMANDS = 32 };

/* ---- entries ---- */

/* One line without its newline, for kt__free. 1: there is one; 0: the end; -1: interrupted. */
static int read_line(kt__chat *c, bool goes_on, char **line) {
    kt_error err = {0};
    size_t len;
    if (c->editor) return kt__line_editor_read(c->editor, goes_on ? "| " : "> ", true, line);
    int got = kt__cli_read_line(stdin, MAX_LINE_BYTES, line, &len, &err);
    if (got >= 0) return got;
    if (kt__interrupted()) {
        clearerr(stdin);
        return -1;
    }
    c->code = kt__cli_fail("run", &err);
    return 0;
}

/* Takes """ from the end of a line; false: there is none. */
static bool ends_block(char *line) {
    size_t len = strlen(line);
    while (len && (line[len - 1] == ' ' || line[len - 1] == '\t')) len--;
    if (!kt__ends_with(line, len, "\"\"\"")) return false;
    line[len - 3] = '\0';
    return true;
}

/* Adds a line to the entry; whether more belong to it: within """, or after a backslash. */
static bool add_line(kt__buf *entry, char *line, bool *in_block) {
    bool first = !entry->len && !*in_block;
    if (first && !strncmp(line, "\"\"\"", 3)) {
        *in_block = true;
        line += 3;
        if (!*line) return true;
    }
    if (*in_block) {
        bool ended = ends_block(line);
        kt__buf_puts(entry, line);
        if (!ended) kt__buf_putc(entry, '\n');
        *in_block = !ended;
        return !ended;
    }
    size_t len = strlen(line);
    bool goes_on = len > 0 && line[len - 1] == '\\';
    if (goes_on) line[len - 1] = '\n';
    kt__buf_puts(entry, line);
    return goes_on;
}

/* A whole entry. The same results as one line. */
static int read_entry(kt__chat *c, kt__buf *entry) {
    bool goes_on = false, in_block = false;
    kt__buf_clear(entry);
    do {
        char *line = NULL;
        int got = read_line(c, goes_on, &line);
        if (got != 1) return got == 0 && entry->len ? 1 : got;
        goes_on = add_line(entry, line, &in_block);
        kt__free(line);
    } while (goes_on);
    return 1;
}

static void take_entry(kt__chat *c, kt__buf *entry) {
    char *text = entry->data;
    if (entry->failed) {
        fputs("(that is too long)\n", stderr);
    } else if (!entry->len || strspn(text, " \t\n") == entry->len) {
        return;
    } else if (text[0] == '/' && text[1] == '/') {
        kt__chat_send(c, text + 1);
    } else if (kt__chat_is_command(text)) {
        kt__chat_command(c, text);
    } else {
        kt__chat_send(c, text);
    }
}

/* ---- the conversation ---- */

static void run_conversation(kt__chat *c) {
    kt__buf entry;
    int interruptions = 0;
    kt__buf_init(&entry, MAX_LINE_BYTES);
    while (!c->quit) {
        int got = read_entry(c, &entry);
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
    if (c->editor && !c->quit) putchar('\n');
    kt__buf_free(&entry);
}

static void open_editor(kt__chat *c, const char *names[], size_t n_names) {
    if (!kt__fd_is_terminal(KT__STDIN)) return;
    kt__terminal_use_utf8();
    kt__terminal_watch();
    c->editor = kt__line_editor_open(names, n_names);
    if (!c->editor || c->setup->quiet) return;
    fputs("Type a message; /help lists the commands. Ctrl-C stops an answer, Ctrl-D ends.\n",
          stderr);
}

static void close_chat(kt__chat *c) {
    kt__interrupt_unwatch();
    kt__line_editor_close(c->editor);
    kt__terminal_unwatch();
    kt__screen_close(&c->screen);
    kt__messages_free(&c->messages);
    kt__buf_free(&c->answer);
    kt__buf_free(&c->attached);
}

int kt__chat_run(kt__session *session, const kt__chat_setup *setup, kt__figures *figures) {
    const char *names[MAX_COMMANDS];
    kt__chat c = {.session = session, .setup = setup, .figures = figures};
    kt_error err = {0};
    size_t n_names = kt__chat_command_names(names, MAX_COMMANDS);
    kt__buf_init(&c.answer, SIZE_MAX / 2);
    kt__buf_init(&c.attached, MAX_LINE_BYTES);
    kt__screen_open(&c.screen, setup->plain, setup->thoughts);
    kt__interrupt_watch(session->engine);
    open_editor(&c, names, n_names);
    if (setup->system && kt__messages_set_system(&c.messages, setup->system, &err) != KT_OK)
        kt__chat_show_error(&c, &err);
    if (setup->first) kt__chat_send(&c, setup->first);
    run_conversation(&c);
    close_chat(&c);
    return c.code;
}
