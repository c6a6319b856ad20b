/* Programs that `kentang launch` knows: how each is told of a server.
 *
 * Owns: one row a program: its command, the variables, arguments and files that it is given, and what they say of
 * address, model, key and context. Starts nothing and writes nothing. Any thread. */
#ifndef KT_CLI_LAUNCH_PROGRAMS_H
#define KT_CLI_LAUNCH_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { KT__LAUNCH_VARIABLES = 16, KT__LAUNCH_ARGUMENTS = 24 };

/* What they are told. */
typedef struct kt__launch_facts {
    const char *url;   /* "http://127.0.0.1:8000" */
    const char *model; /* as requests name it */
    const char *key;   /* of any text where the server asks for none */
    const char *dir;   /* for files, where the program has some; else "" */
    int64_t context;   /* in tokens */
} kt__launch_facts;

/* Texts in which %U is the URL, %M the model, %K the key, %D the folder, %C the context, %H a half of it; %m and %k
 * are model and key within a quoted text of JSON or TOML. */
typedef struct kt__launch_program {
    const char *name, *command;
    const char *install; /* where people get it */
    struct {
        const char *name, *value; /* value NULL: taken away */
    } variables[KT__LAUNCH_VARIABLES];
    const char *arguments[KT__LAUNCH_ARGUMENTS]; /* before those of the user */
    const char *alone;          /* an argument where the user gives none; or NULL */
    const char *file, *content; /* a file in the folder; or NULL */
} kt__launch_program;

/* NULL: none has that name. */
const kt__launch_program *kt__launch_find(const char *name);
/* `text` with what it is to say; false: no memory. */
bool kt__launch_fill(const kt__launch_facts *facts, const char *text, kt__buf *out);

#endif
