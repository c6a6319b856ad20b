#include "cli/screen.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cells.h"
#include "cli/terminal.h"

void kt__screen_open(kt__screen *s, bool plain) {
    memset(s, 0, sizeof *s);
    s->rendered = isatty(STDOUT_FILENO);
    s->plain = plain || !kt__terminal_can_draw(STDOUT_FILENO);
    kt__markdown_init(&s->markdown, kt__terminal_width(STDOUT_FILENO),
                      kt__terminal_can_style(STDOUT_FILENO));
    kt__buf_init(&s->out, SIZE_MAX / 2);
}

void kt__screen_close(kt__screen *s) {
    kt__markdown_free(&s->markdown);
    kt__buf_free(&s->out);
}

static bool put_bytes(const char *text, size_t len) {
    return fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0;
}

static bool flush_rendered(kt__screen *s) {
    bool ok = !s->out.failed && (!s->out.len || put_bytes(s->out.data, s->out.len));
    kt__buf_clear(&s->out);
    return ok;
}

/* As it is, but for what steers the terminal; newlines and tabs do no harm. */
static void append_plain(kt__buf *out, const char *text, size_t len) {
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && !strchr("\n\t", text[i + n])) n++;
        kt__cells_append(out, text + i, n);
        i += n;
        if (i < len) kt__buf_putc(out, text[i] ? text[i] : '?');
        i++;
    }
}

bool kt__screen_write(kt__screen *s, const char *text, size_t len) {
    if (!len) return true;
    s->last = text[len - 1];
    if (!s->rendered) return put_bytes(text, len);
    s->markdown.width = kt__terminal_width(STDOUT_FILENO);
    if (s->plain)
        append_plain(&s->out, text, len);
    else
        kt__markdown_feed(&s->markdown, text, len, &s->out);
    return flush_rendered(s);
}

char kt__screen_end_answer(kt__screen *s) {
    char last = s->last;
    s->last = 0;
    if (s->rendered && s->plain && last && last != '\n') kt__buf_putc(&s->out, '\n');
    if (s->rendered && !s->plain) kt__markdown_end(&s->markdown, &s->out);
    (void)flush_rendered(s);
    return last;
}
