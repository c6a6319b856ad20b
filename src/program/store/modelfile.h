/* Modelfiles: models that are made of another one and of settings.
 *
 * Owns: the text in which Ollama writes them (FROM, PARAMETER, TEMPLATE, SYSTEM, ADAPTER, MESSAGE, LICENSE), read and
 * written, and Go templates in the words of Jinja (go_template.c). In the folder of models such a text,
 * NAME.modelfile, is the model; its FROM names the file whose weights it has. Knows neither what a parameter means
 * nor what a template makes. One modelfile, one thread; constant once read. */
#ifndef KT_STORE_MODELFILE_H
#define KT_STORE_MODELFILE_H

#include "base/alloc.h"
#include "base/buf.h"

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum kt__modelfile_kind {
    KT__MODELFILE_FROM,
    KT__MODELFILE_PARAMETER,
    KT__MODELFILE_TEMPLATE,
    KT__MODELFILE_SYSTEM,
    KT__MODELFILE_ADAPTER,
    KT__MODELFILE_MESSAGE,
    KT__MODELFILE_LICENSE,
    KT__MODELFILE_KINDS
} kt__modelfile_kind;

enum { KT__MODELFILE_MAX_BYTES = 1 << 20, KT__MODELFILE_MAX_LINES = 1024 };

typedef struct kt__modelfile_line {
    kt__modelfile_kind kind;
    const char *name; /* of a parameter; of a message: who says it; else "" */
    const char *value;
    int at; /* the line where it began; 0: it was added */
} kt__modelfile_line;

typedef struct kt__modelfile {
    kt__modelfile_line *lines;
    size_t n, cap;
    kt__arena arena;
} kt__modelfile;

void kt__modelfile_init(kt__modelfile *file);
void kt__modelfile_free(kt__modelfile *file);
/* text[len] after what is there. An error says in which line. KT_E_UNSUPPORTED: a command that is
 * not known. */
kt_status kt__modelfile_read(kt__modelfile *file, const char *text, size_t len,
                             kt_error *err) KT_CHECKED;
/* The same of a file of this machine. */
kt_status kt__modelfile_open(kt__modelfile *file, const char *path, kt_error *err) KT_CHECKED;
/* One more line; name may be NULL. KT_E_ARG: no modelfile can have that text. */
kt_status kt__modelfile_add(kt__modelfile *file, kt__modelfile_kind kind, const char *name,
                            const char *value, kt_error *err) KT_CHECKED;
/* The last value of that kind; NULL: none. */
const char *kt__modelfile_get(const kt__modelfile *file, kt__modelfile_kind kind);
void kt__modelfile_remove(kt__modelfile *file, kt__modelfile_kind kind);
/* Puts what `base` says before what `file` does, where `file` does not say it otherwise: all but FROM. */
kt_status kt__modelfile_inherit(kt__modelfile *file, const kt__modelfile *base,
                                kt_error *err) KT_CHECKED;
/* So that reading it gives the same. */
void kt__modelfile_write(const kt__modelfile *file, kt__buf *out);
const char *kt__modelfile_word(kt__modelfile_kind kind); /* "FROM" */

/* Go templates as Ollama's models have them, in the words of Jinja.
 *
 * Which actions and functions of text/template are known, and what they are in Jinja. A template of the older kind
 * (.System, .Prompt, .Response) becomes a loop over the messages that renders it for every turn, the last one up to
 * .Response; one of the newer kind ranges over .Messages itself. Renders nothing. Any thread. */

enum { KT__GO_TEMPLATE_MAX_BYTES = 256 << 10, KT__GO_TEMPLATE_MAX_DEPTH = 32 };

/* Appends the Jinja source. KT_E_UNSUPPORTED names the action, function or field that is not known;
 * KT_E_FORMAT: it is no Go template. */
kt_status kt__go_template_translate(const char *text, size_t len, kt__buf *out,
                                    kt_error *err) KT_CHECKED;

#endif
