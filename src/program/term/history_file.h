/* What was typed in earlier conversations.
 *
 * Owns: the file $XDG_STATE_HOME/kentang/history (else ~/.local/state/kentang/history), one JSON
 * string a line, readable by its owner alone. Lines are appended whole, so several conversations may
 * write; it is cut to the newest half when it has grown to twice what is read. Where it cannot be
 * read or written there is no history, and no error. One thread. */
#ifndef KT_TERM_HISTORY_FILE_H
#define KT_TERM_HISTORY_FILE_H

#include <stddef.h>

typedef void kt__history_fn(void *user, const char *entry);

/* Gives the newest max entries to take, the oldest of them first. */
void kt__history_load(size_t max, kt__history_fn *take, void *user);
/* Adds an entry; long ones are left out. */
void kt__history_append(const char *entry);

#endif
