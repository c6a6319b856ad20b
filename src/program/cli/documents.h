/* Files that a prompt is about, as text.
 *
 * Owns: which kinds there are and what reads each (pdftotext for PDF, unzip for docx and odt, both programs of their
 * own, markup.c for HTML and the XML of office documents), pages, and passages: the parts of documents that answer a
 * question best where not all of them fit. One thread. */
#ifndef KT_CLI_DOCUMENTS_H
#define KT_CLI_DOCUMENTS_H

#include "base/buf.h"
#include "term/options.h"

#include <kentang.h>
#include <stdio.h>

typedef struct kt__passage {
    size_t document; /* of the list of files */
    int page;        /* from 1; 0: the document has none */
    const char *text;
    size_t len;
    int32_t n_tokens;
    double score; /* for the question */
    bool chosen;
} kt__passage;

typedef struct kt__documents {
    const char *const *names;
    kt__buf *texts; /* [n] pages are apart by form feeds */
    bool *paged;    /* [n] */
    size_t n;
    kt__passage *passages; /* [n_passages] in their order */
    size_t n_passages;
} kt__documents;

/* For kt__documents_free, also after failure. An error names the file, and the package where a program is missing. */
kt_status kt__documents_read(const kt__opt_texts *files, kt__documents *out,
                             kt_error *err) KT_CHECKED;
void kt__documents_free(kt__documents *documents);
/* *n_tokens: of all passages, with what is said of each. */
kt_status kt__documents_count(kt__documents *documents, const kt_model *model, int32_t *n_tokens,
                              kt_error *err) KT_CHECKED;
/* How near each passage is to the question by its words; after that, by both: what an encoder says, nearness[n_passages]. */
kt_status kt__documents_score(kt__documents *documents, const char *question,
                              kt_error *err) KT_CHECKED;
kt_status kt__documents_fuse(kt__documents *documents, const double *nearness,
                             kt_error *err) KT_CHECKED;
/* After counting and, where not all fits, scoring. Marks what fits into n_tokens, *n_chosen: all, or the nearest passages. */
kt_status kt__documents_choose(kt__documents *documents, int32_t n_tokens, int32_t *n_chosen,
                               kt_error *err) KT_CHECKED;
/* The chosen passages with their files and pages, and the question after them. */
void kt__documents_write(const kt__documents *documents, const char *question, kt__buf *out);
/* "report.pdf, pages 3 and 7": where the chosen ones are. */
void kt__documents_tell(const kt__documents *documents, FILE *to);

/* HTML and the XML of office documents to their text.
 *
 * Which elements end a line, which are silent, and characters by name and number. It is no parser of either: what is
 * damaged gives some text. Pure; any bytes. Any thread. */

/* Appends; look at out->failed. A form feed is where the document itself begins a new page. */
void kt__markup_text(const char *data, size_t len, kt__buf *out);
bool kt__markup_is(const char *data, size_t len); /* it begins as HTML does */

/* What another program makes of a file.
 *
 * Starting it without a shell, with nothing to read, and taking what it writes on its standard output. One thread. */

/* argv: the program, found in PATH, and its arguments, NULL at the end. package, path: for messages. *code: its exit code.
 * KT_E_UNSUPPORTED: it is not there, with the package that has it; KT_E_LIMIT: out is full. */
kt_status kt__program_text(const char *const *argv, const char *package, const char *path,
                           kt__buf *out, int *code, kt_error *err) KT_CHECKED;

#endif
