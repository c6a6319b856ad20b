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

/* What was typed in earlier conversations.
 *
 * Owns: the file $XDG_STATE_HOME/kentang/history (else ~/.local/state/kentang/history), one JSON
 * string a line, readable by its owner alone. Lines are appended whole, so several conversations may
 * write; it is cut to the newest half when it has grown to twice what is read. Where it cannot be
 * read or written there is no history, and no error. One thread. */

typedef void kt__history_fn(void *user, const char *entry);

/* Gives the newest max entries to take, the oldest of them first. */
void kt__history_load(size_t max, kt__history_fn *take, void *user);
/* Adds an entry; long ones are left out. */
void kt__history_append(const char *entry);

#endif
