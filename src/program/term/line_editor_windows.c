/* The console edits lines itself, with a history of its own (the arrow keys, F7): what is left is to read whole
 * ones. */
#include "term/line_editor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/system.h"
#include "term/terminal.h"

enum { MAX_LINE = 16 << 20, PAUSE_US = 20000 };

struct kt__line_editor {
    kt__buf text;
};

kt__line_editor *kt__line_editor_open(const char *const *words, size_t n) {
    kt__line_editor *editor = kt__calloc(1, sizeof *editor);
    (void)words;
    (void)n;
    if (editor) kt__buf_init(&editor->text, MAX_LINE);
    return editor;
}

void kt__line_editor_close(kt__line_editor *editor) {
    if (!editor) return;
    kt__buf_free(&editor->text);
    kt__free(editor);
}

/* Ctrl-C ends a read before its handler has run, which another thread does. */
static bool was_interrupted(void) {
    usleep(PAUSE_US);
    return kt__interrupted();
}

int kt__line_editor_read(kt__line_editor *editor, const char *prompt, bool keep, char **line) {
    char piece[4096];
    size_t len;
    fputs(prompt, stdout);
    fflush(stdout);
    kt__buf_clear(&editor->text);
    do {
        ssize_t n = kt__fd_read(KT__STDIN, piece, sizeof piece);
        if (n <= 0 || kt__interrupt_is_pending()) return was_interrupted() ? -1 : 0;
        kt__buf_append(&editor->text, piece, (size_t)n);
    } while (!editor->text.failed && editor->text.data[editor->text.len - 1] != '\n');
    if (editor->text.failed) return 0;
    editor->text.data[--editor->text.len] = '\0';
    if (keep && editor->text.len) kt__history_append(editor->text.data);
    *line = kt__buf_take(&editor->text, &len);
    return *line ? 1 : 0;
}
