#include "term/line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/text.h"
#include "base/thread.h"
#include "term/safe_text.h"
#include "term/terminal.h"

enum {
    HISTORY_ENTRIES = 1000,
    MAX_PASTE = 16 << 20,
    SHOWN_PASTE_LINES = 6, /* a longer one is shown as its number of lines */
    SHOWN_PASTE_BYTES = 1000,
    MAX_PASTES = 64
};

static const char paste_end[] = "\033[201~";

struct kt__line_editor {
    EditLine *edit;
    History *history;
    const char *const *words;
    size_t n_words;
    char prompt[64];
    int width;                /* of the terminal, as the entry is drawn */
    char *pastes[MAX_PASTES]; /* of this entry: what "[pasted text 1: 200 lines]" means */
    size_t n_pastes;
};

static kt__line_editor *editor_of(EditLine *edit) {
    kt__line_editor *editor = NULL;
    el_get(edit, EL_CLIENTDATA, &editor);
    return editor;
}

static char *prompt_text(EditLine *edit) {
    return editor_of(edit)->prompt;
}

/* ---- keys ---- */

/* Rows of the screen between the entry's first and the cursor, as the terminal has wrapped them. */
static int rows_above_cursor(EditLine *edit, int width) {
    const LineInfo *line = el_line(edit);
    int column = (int)strlen(editor_of(edit)->prompt), rows = 0;
    for (const char *s = line->buffer; s < line->cursor;) {
        size_t n = kt__cell_length(s, (size_t)(line->cursor - s));
        column += *s == '\n' ? width : kt__cells_width(s, n);
        if (*s == '\n' || column >= width) rows++;
        if (*s == '\n') column = 0;
        if (column >= width) column -= width;
        s += n;
    }
    return rows;
}

/* The entry once more, after the size has changed or other programs have used the terminal. */
static void draw_again(EditLine *edit, bool continued) {
    kt__line_editor *editor = editor_of(edit);
    if (!continued) editor->width = kt__terminal_width(STDOUT_FILENO);
    int rows = rows_above_cursor(edit, editor->width);
    if (continued) {
        el_set(edit, EL_PREP_TERM, 0);
        el_set(edit, EL_PREP_TERM, 1);
    } else if (rows) {
        printf("\033[%dA", rows);
    }
    el_resize(edit);
    fputs("\r\033[J", stdout);
    fflush(stdout);
    el_set(edit, EL_REFRESH);
}

/* Waits for the keyboard; false: a signal came. Signals are let in only while it waits, so that one
 * that comes just before is not overlooked until the next key. */
static bool wait_for_key(void) {
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t flagged, before;
    sigemptyset(&flagged);
    sigaddset(&flagged, SIGINT);
    sigaddset(&flagged, SIGCONT);
    sigaddset(&flagged, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &flagged, &before);
    bool flag = kt__terminal_changed() || kt__interrupt_is_pending();
    bool key = !flag && ppoll(&wait, 1, NULL, &before) > 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return key;
}

/* One byte of the keyboard: 1; 0: its end; -1: interrupted, or an error. */
static int read_byte(EditLine *edit, char *out) {
    for (;;) {
        bool continued = kt__terminal_continued(), resized = kt__terminal_resized();
        if (continued || resized) draw_again(edit, continued);
        if (kt__interrupt_is_pending()) return -1;
        if (!wait_for_key()) continue;
        ssize_t n = read(STDIN_FILENO, out, 1);
        if (n >= 0) return (int)n;
        /* EAGAIN: another program left the terminal so */
        if (errno != EAGAIN && errno != EINTR) return -1;
    }
}

/* One character, for the editor. Bytes that are no UTF-8 become U+FFFD. */
static int read_character(EditLine *edit, wchar_t *out) {
    char bytes[4];
    uint32_t cp = 0xfffd;
    for (size_t n = 0; n < sizeof bytes;) {
        int got = read_byte(edit, bytes + n);
        if (got != 1) return got;
        n++;
        if (kt__utf8_decode(bytes, n, &cp)) break;
        if (!kt__utf8_incomplete_tail(bytes, n)) {
            cp = 0xfffd;
            break;
        }
    }
    *out = (wchar_t)cp;
    return 1;
}

/* ---- pasted text ---- */

/* What is between the marks; carriage returns, which terminals make of newlines, are newlines
 * again, and controls are dropped. */
static void read_paste(EditLine *edit, kt__buf *text) {
    size_t matched = 0;
    char c;
    while (matched < sizeof paste_end - 1 && read_byte(edit, &c) == 1) {
        if (c == paste_end[matched]) {
            matched++;
            continue;
        }
        if (matched) kt__buf_append(text, paste_end + 1, matched - 1); /* without the escape */
        matched = c == paste_end[0];
        if (matched) continue;
        if (c == '\n' && text->len && text->data[text->len - 1] == '\r') text->len--;
        if (c == '\r' || c == '\n' || c == '\t' || (unsigned char)c >= 0x20) kt__buf_putc(text, c);
    }
    for (size_t i = 0; i < text->len; i++) {
        if (text->data[i] == '\r') text->data[i] = '\n';
    }
    while (text->len && text->data[text->len - 1] == '\n') text->data[--text->len] = '\0';
}

static size_t count_newlines(const char *text) {
    size_t n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++) n++;
    return n;
}

static void paste_name(char *out, size_t size, size_t number, const char *text) {
    size_t n = count_newlines(text) + 1;
    snprintf(out, size, "[pasted text %zu: %zu line%s]", number, n, n == 1 ? "" : "s");
}

static unsigned char take_paste(EditLine *edit, int key) {
    kt__line_editor *editor = editor_of(edit);
    kt__buf text;
    char name[64];
    (void)key;
    kt__buf_init(&text, MAX_PASTE);
    read_paste(edit, &text);
    char *pasted = text.len ? kt__strndup(text.data, text.len) : NULL;
    kt__buf_free(&text);
    if (!pasted) return CC_REFRESH_BEEP;
    bool is_short = count_newlines(pasted) < SHOWN_PASTE_LINES &&
                    strlen(pasted) < SHOWN_PASTE_BYTES;
    if (is_short || editor->n_pastes == MAX_PASTES) {
        int rc = el_insertstr(edit, pasted);
        kt__free(pasted);
        return rc == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
    }
    editor->pastes[editor->n_pastes++] = pasted;
    paste_name(name, sizeof name, editor->n_pastes, pasted);
    return el_insertstr(edit, name) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
}

/* The entry with the pasted texts in the place of their names. */
static char *with_pastes(const kt__line_editor *editor, const char *line, size_t len) {
    kt__buf out;
    char name[64];
    const char *end = line + len;
    kt__buf_init(&out, MAX_PASTE);
    for (size_t i = 0; i < editor->n_pastes; i++) {
        paste_name(name, sizeof name, i + 1, editor->pastes[i]);
        const char *at = memmem(line, (size_t)(end - line), name, strlen(name));
        if (!at) continue;
        kt__buf_append(&out, line, (size_t)(at - line));
        kt__buf_puts(&out, editor->pastes[i]);
        line = at + strlen(name);
    }
    kt__buf_append(&out, line, (size_t)(end - line));
    char *whole = out.failed ? NULL : kt__buf_take(&out, &len);
    kt__buf_free(&out);
    return whole;
}

static void forget_pastes(kt__line_editor *editor) {
    while (editor->n_pastes) kt__free(editor->pastes[--editor->n_pastes]);
}

/* ---- completion ---- */

/* How many words begin with text[len], and how far those go together. */
static size_t matching_words(const kt__line_editor *editor, const char *text, size_t len,
                             const char **first, size_t *common) {
    size_t n = 0;
    for (size_t i = 0; i < editor->n_words; i++) {
        const char *word = editor->words[i];
        if (strncmp(word, text, len) != 0) continue;
        if (!n++) {
            *first = word;
            *common = strlen(word);
        }
        while (strncmp(word, *first, *common) != 0) --*common;
    }
    return n;
}

static void list_words(const kt__line_editor *editor, const char *text, size_t len) {
    fputc('\n', stdout);
    for (size_t i = 0; i < editor->n_words; i++) {
        if (!strncmp(editor->words[i], text, len)) printf("%s  ", editor->words[i]);
    }
    fputc('\n', stdout);
    fflush(stdout);
}

static unsigned char complete_word(EditLine *edit, int key) {
    kt__line_editor *editor = editor_of(edit);
    const LineInfo *line = el_line(edit);
    size_t len = (size_t)(line->cursor - line->buffer), common = 0;
    const char *first = NULL;
    char rest[64];
    (void)key;
    if (!len || memchr(line->buffer, ' ', len) || line->cursor != line->lastchar)
        return CC_REFRESH_BEEP;
    size_t n = matching_words(editor, line->buffer, len, &first, &common);
    if (!n || common - len > sizeof rest - 2) return CC_REFRESH_BEEP;
    if (n > 1 && common == len) {
        list_words(editor, line->buffer, len);
        return CC_REDISPLAY;
    }
    snprintf(rest, sizeof rest, "%.*s%s", (int)(common - len), first + len, n == 1 ? " " : "");
    return el_insertstr(edit, rest) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
}

/* ---- opening ---- */

static void take_history(void *user, const char *entry) {
    HistEvent event;
    history(user, &event, H_ENTER, entry);
}

static void open_history(kt__line_editor *editor) {
    HistEvent event;
    editor->history = history_init();
    if (!editor->history) return;
    history(editor->history, &event, H_SETSIZE, HISTORY_ENTRIES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    kt__history_load(HISTORY_ENTRIES, take_history, editor->history);
    el_set(editor->edit, EL_HIST, history, editor->history);
}

static void bind_keys(EditLine *edit) {
    el_set(edit, EL_EDITOR, "emacs");
    /* wide: el_set would keep copies of the names and never free them */
    el_wset(edit, EL_ADDFN, L"kt-paste", L"pasted text", take_paste);
    el_wset(edit, EL_ADDFN, L"kt-complete", L"complete a command", complete_word);
    el_set(edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(edit, EL_BIND, "^I", "kt-complete", NULL);
    el_source(edit, NULL);
    el_set(edit, EL_BIND, "\033[200~", "kt-paste", NULL);
}

kt__line_editor *kt__line_editor_open(const char *const *words, size_t n) {
    kt__line_editor *editor = kt__calloc(1, sizeof *editor);
    if (!editor) return NULL;
    editor->words = words;
    editor->n_words = n;
    editor->edit = el_init("kentang", stdin, stdout, stderr);
    if (!editor->edit) {
        kt__free(editor);
        return NULL;
    }
    el_set(editor->edit, EL_CLIENTDATA, editor);
    el_set(editor->edit, EL_PROMPT, prompt_text);
    el_set(editor->edit, EL_GETCFN, read_character);
    open_history(editor);
    bind_keys(editor->edit);
    /* Carriage returns and newlines come as they were typed: pasted lines may end in both, which
     * libedit's modes would turn into two of one kind. Enter is bound as either. */
    el_set(editor->edit, EL_SETTY, "-d", "-icrnl", "-inlcr", NULL);
    return editor;
}

void kt__line_editor_close(kt__line_editor *editor) {
    if (!editor) return;
    forget_pastes(editor);
    if (editor->history) history_end(editor->history);
    el_end(editor->edit);
    kt__free(editor);
}

static void remember_entry(const kt__line_editor *editor, const char *line) {
    HistEvent event;
    if (!*line || editor->n_pastes) return;
    if (editor->history) history(editor->history, &event, H_ENTER, line);
    kt__history_append(line);
}

int kt__line_editor_read(kt__line_editor *editor, const char *prompt, bool keep, char **line) {
    int n = 0;
    snprintf(editor->prompt, sizeof editor->prompt, "%s", prompt);
    forget_pastes(editor);
    (void)kt__terminal_continued();
    kt__terminal_mark_pastes(true);
    if (kt__terminal_resized()) el_resize(editor->edit);
    editor->width = kt__terminal_width(STDOUT_FILENO);
    el_set(editor->edit, EL_PREP_TERM, 1); /* before the prompt: what is typed at once is edited */
    const char *got = el_gets(editor->edit, &n);
    if (!got || n <= 0) {
        if (!kt__interrupted()) return 0;
        el_reset(editor->edit);
        return -1;
    }
    if (kt__interrupted()) return -1;
    size_t len = (size_t)n;
    if (got[len - 1] == '\n') len--;
    *line = with_pastes(editor, got, len);
    if (*line && keep) remember_entry(editor, *line);
    return *line ? 1 : 0;
}
