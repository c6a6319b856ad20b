/* What the commands that write models share.
 *
 * Owns: --threads and --quiet, the default number of threads, the list of recipes for --help, the error for a name that
 * is none, and progress and report of a long write. Knows no format. One thread, but for the
 * progress, which is called by one thread at a time. */
#ifndef KT_SYNTH_WRITE_OPTIONS_H
#define KT_SYNTH_WRITE_OPTIONS_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

#include "convert/write.h"
#include "quant/recipe.h"
#include "term/options.h"
#include "term/terminal.h"

int kt__write_threads(void);
/* "Title: a b c" in lines of 76 characters; returns the bytes written. */
size_t kt__write_list_names(char *out, size_t size, const char *title, size_t n,
                            const char *(*name_at)(size_t));
const char *kt__write_recipe_name(size_t i);
/* Wrong usage: no recipe is called so; the nearest is. Returns the exit code. */
int kt__write_unknown_recipe(const char *command, const char *name);

/* Zeroed: as many threads as there are cores for us, and progress on a terminal. */
typedef struct kt__write_opts {
    int32_t n_threads;
    bool quiet;
} kt__write_opts;

kt__opt_group kt__write_group(kt__write_opts *opts); /* --threads, --quiet */

/* A kt__convert_note_fn; user: the command's name. */
void kt__write_show_note(void *user, const char *line);
/* The output of a command: its threads, notes, and progress on a terminal unless quiet. */
kt__convert_output kt__write_output(const char *command, const char *target,
                                    const kt__write_opts *opts, kt__byte_progress *progress);
/* An output that is one of the files that are read is refused; source NULL: none is read. */
kt_status kt__write_check_target(const char *target, const char *source, kt_error *err) KT_CHECKED;
/* Ends the progress' line; prints the error or the report. Returns the exit code. */
int kt__write_end(const char *command, const char *target, kt__byte_progress *progress,
                  kt_status status, const kt__convert_report *report, const kt_error *err);

#endif
