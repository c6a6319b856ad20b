#include "term/screen.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "term/safe_text.h"
#include "term/terminal.h"

void kt__screen_open(kt__screen *s, bool plain, kt__thoughts thoughts) {
    memset(s, 0, sizeof *s);
    s->rendered = kt__fd_is_terminal(KT__STDOUT);
    s->styled = kt__terminal_can_style(KT__STDOUT);
    s->thoughts = thoughts == KT__THOUGHTS_SHOW || (thoughts == KT__THOUGHTS_AUTO && s->rendered);
    s->plain = plain || !kt__terminal_can_draw(KT__STDOUT);
    kt__markdown_init(&s->markdown, kt__terminal_width(KT__STDOUT),
                      kt__terminal_can_style(KT__STDOUT));
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
    s->markdown.width = kt__terminal_width(KT__STDOUT);
    if (s->plain)
        append_plain(&s->out, text, len);
    else
        kt__markdown_feed(&s->markdown, text, len, &s->out);
    return flush_rendered(s);
}

/* The thoughts are over: a blank line follows them. */
static void end_thoughts(kt__screen *s) {
    if (!s->thinking) return;
    s->thinking = false;
    if (s->styled) kt__buf_puts(&s->out, "\033[0m");
    kt__buf_puts(&s->out, s->last == '\n' ? "\n" : "\n\n");
    s->last = 0;
}

static bool write_thought(kt__screen *s, const char *text, size_t len) {
    if (!s->thoughts || !len) return true;
    if (!s->thinking && s->styled) kt__buf_puts(&s->out, "\033[2m");
    s->thinking = true;
    s->last = text[len - 1];
    if (s->rendered)
        append_plain(&s->out, text, len);
    else
        kt__buf_append(&s->out, text, len);
    return flush_rendered(s);
}

bool kt__screen_write_part(kt__screen *s, const kt_part *part) {
    if (part->kind == KT_PART_REASONING) return write_thought(s, part->text, part->len);
    if (!part->len) return true;
    end_thoughts(s);
    return flush_rendered(s) && kt__screen_write(s, part->text, part->len);
}

char kt__screen_end_answer(kt__screen *s) {
    if (s->thinking) end_thoughts(s);
    char last = s->last;
    s->last = 0;
    if (s->rendered && s->plain && last && last != '\n') kt__buf_putc(&s->out, '\n');
    if (s->rendered && !s->plain) kt__markdown_end(&s->markdown, &s->out);
    (void)flush_rendered(s);
    return last;
}
