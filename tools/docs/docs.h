/* Manual pages and shell completions of kentang, made while it is built.
 *
 * Owns: the commands' option tables as their --help sees them, and how each kind of document is
 * written. What the program does not know about itself (environment, files) stands in man.c. One
 * thread; a failure ends the program. */
#ifndef KT_DOCS_H
#define KT_DOCS_H

#include <stdio.h>

#include "term/options.h"

enum { MAX_GROUPS = 16, MAX_PAGES = 64 };

/* A command as --help shows it. bench has two: its own, and that for a running server. */
typedef struct page {
    const char *command, *summary;
    char *usage, *about, *notes; /* "" where there is none */
    kt__opt_group groups[MAX_GROUPS];
    size_t n_groups;
} page;

typedef struct pages {
    page items[MAX_PAGES];
    size_t n;
} pages;

/* A page's options, one after the other: for (size_t i = 0; (opt = option_at(page, i)); i++) */
const kt__opt *option_at(const page *p, size_t index);
/* A file below the folder of documents, whose folders are made. Ends the program where it cannot be
 * written; close_document too. */
FILE *open_document(const char *folder, const char *name);
void close_document(FILE *out);

void write_man_pages(const pages *all, const char *folder);
void write_completions(const pages *all, const char *folder);

/* What a completion offers for an option's value. */
typedef enum value_kind {
    VALUE_NONE,
    VALUE_FREE,
    VALUE_FILE,
    VALUE_CHOICE,
    VALUE_SETTING
} value_kind;
value_kind kind_of_value(const kt__opt *opt);

void write_coming(FILE *out); /* docs/COMING.md: coming.c */

#endif
