/* The kentang program: what its subcommands share.
 *
 * Owns: the list of subcommands (commands.def), error output, exit codes, reading lines, and files of text that a
 * person names. Commands include kentang.h and base only (exceptions: inspect, synth, doctor, bench, tune). A
 * subcommand is one file with one function int kt__cmd_NAME(int argc, char **argv) (argv[0] is the subcommand) that
 * returns the exit code, and one row in commands.def. Answers go to stdout, everything else to stderr. One thread. */
#ifndef KT_TERM_CLI_H
#define KT_TERM_CLI_H

#include <kentang.h>
#include <stdio.h>

typedef int kt__cmd_fn(int argc, char **argv);
#define X(name, function, group, shown, summary) kt__cmd_fn function;
#include "term/commands.def"
#undef X

enum { KT__EXIT_USAGE = 2 }; /* as KT_E_ARG */

/* Prints "kentang: COMMAND: what (where)" and a line with the remedy on stderr; returns the exit
 * code. command may be NULL. */
int kt__cli_fail(const char *command, const kt_error *err);
/* The same for an error found in the program itself; the remedy may be NULL. */
int kt__cli_error(const char *command, kt_status code, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Wrong usage: the remedy is the command's --help. */
int kt__cli_usage_error(const char *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A kt_log_fn that writes warnings and worse to stderr. */
void kt__cli_log(void *user, kt_log_level level, const char *line);

/* Reads one line, without its newline. 1: *line (NUL-terminated, for kt__free) and *len are set; 0:
 * end of input; -1: a read error or a line over max bytes (err is filled). */
int kt__cli_read_line(FILE *in, size_t max, char **line, size_t *len, kt_error *err);
/* All of a file ("-": stdin), NUL-terminated, for kt__free. */
kt_status KT_CHECKED kt__cli_read_file(const char *path, size_t max, char **text, size_t *len,
                                       kt_error *err);
/* Flushes stdout; the exit code of the command, or that of KT_E_IO when the output could not be
 * written. */
int kt__cli_finish(const char *command, int code);

/* Files of text that a person names: prompts, system messages, what /read takes.
 *
 * The check that they are text, and what is said where they are not. One thread. */

/* All of a file ("-": stdin), NUL-terminated, for kt__free. KT_E_FORMAT: it holds a NUL byte;
 * KT_E_ARG, with the place and how to convert it: it is no UTF-8 (not asked for with any_bytes). */
kt_status KT_CHECKED kt__text_file_read(const char *path, size_t max, bool any_bytes, char **text,
                                        size_t *len, kt_error *err);

#endif
