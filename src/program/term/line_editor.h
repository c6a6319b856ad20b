/* Entries typed at a terminal.
 *
 * Owns: editing, the prompt, history, completion of the first word with Tab, pasted text (which is
 * one entry, however many lines it has), and drawing again after a change of size or Ctrl-Z. Knows
 * nothing of what an entry means. One at a time, one thread; between kt__terminal_watch and
 * kt__terminal_unwatch. */
#ifndef KT_TERM_LINE_EDITOR_H
#define KT_TERM_LINE_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

typedef struct kt__line_editor kt__line_editor;

/* words[n]: what Tab completes at the start of an entry; they stay the caller's. NULL: the terminal
 * cannot be used, or no memory. */
kt__line_editor *kt__line_editor_open(const char *const *words, size_t n);
void kt__line_editor_close(kt__line_editor *editor);
/* One entry without its newline, for kt__free, after prompt (ASCII); keep: into the history. 1:
 * *line is set; 0: the end; -1: interrupted. */
int kt__line_editor_read(kt__line_editor *editor, const char *prompt, bool keep, char **line);

#endif
