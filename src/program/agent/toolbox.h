/* All tools that a model may be given: those of servers and those that are built in.
 *
 * Owns: the servers, one client each; the names by which a model knows tools; which of them run at once, which are
 * asked about and which never (patterns); the comparison with what was pinned; and what a result is as text. A result
 * changes nothing of this. One thread. */
#ifndef KT_AGENT_TOOLBOX_H
#define KT_AGENT_TOOLBOX_H

#include "base/buf.h"
#include "mcp/link.h"

#include <jansson.h>
#include <kentang.h>

/* Tools that need no server (builtin.c): a clock, a calculator, files that are only read. None is offered unless it
 * was asked for. Files are found below one folder, and no link or ".." leads out of it. */

typedef struct kt__builtins {
    bool clock, calculator;
    int folder; /* a descriptor of the folder whose files may be read; -1: none */
} kt__builtins;

/* names: "clock,calculator", or NULL; folder: or NULL. KT_E_ARG: no such tool; KT_E_IO: no folder. */
kt_status KT_CHECKED kt__builtins_open(const char *names, const char *folder, kt__builtins *out,
                                       kt_error *err);
void kt__builtins_close(kt__builtins *builtins);
/* The tools that are on, as MCP lists them: an array, for json_decref. NULL: no memory. */
json_t *kt__builtins_list(const kt__builtins *builtins);
/* Calls one; text: what it answers. false: it failed, and text says why. */
bool kt__builtins_call(const kt__builtins *builtins, const char *name, const json_t *args,
                       kt__buf *text);

/* A calculator: the value of an expression.
 *
 * Owns: its grammar: numbers, + - * / % ^, brackets, pi, e, and functions. Any thread. */

/* KT_E_FORMAT with the byte where it is no expression; KT_E_LIMIT: too long or too deep. The value may
 * be infinite or no number, as division by zero is. */
kt_status KT_CHECKED kt__calc(const char *expression, double *out, kt_error *err);

/* Texts of tools: their names for a model, and their results.
 *
 * Owns: the mapping of names, and the form of a result that is text. Any thread. */

enum { KT__AGENT_NAME = 64 };

/* "server__tool", or the tool's own name where server is NULL. */
void kt__agent_make_name(const char *server, const char *tool, char out[KT__AGENT_NAME + 1]);
/* A result's content; what is no text is described. false: the server says that the call failed. */
bool kt__agent_result_text(const json_t *result, kt__buf *text);
/* Leaves out the middle of what is longer than max. */
void kt__agent_cut_middle(kt__buf *text, size_t max);

enum { KT__AGENT_MAX_TOOLS = 256 };

typedef enum kt__agent_rule { KT__AGENT_ASK, KT__AGENT_ALLOW, KT__AGENT_DENY } kt__agent_rule;

typedef struct kt__agent_tool {
    char name[KT__AGENT_NAME + 1]; /* a model's: "server__tool" */
    const char *server;            /* NULL: built in */
    size_t server_at;
    const char *own_name; /* the server's */
    json_t *spec;         /* as it was listed */
    kt__agent_rule rule;
} kt__agent_tool;

typedef void kt__agent_note_fn(void *user, const char *line);

typedef struct kt__toolbox_opts {
    const char *servers_file; /* or NULL */
    const char *pins_file;    /* NULL: the usual one */
    bool repin;               /* what has changed is taken as it is now */
    const char *builtins, *folder;
    kt__mcp_texts allow, deny; /* patterns of names, over those of the file; or NULL */
    kt__mcp_stop_fn *stop;     /* asked while servers are waited for; or NULL */
    kt__agent_note_fn *note;   /* a line for the user */
    void *user;                /* of both */
    size_t max_result;         /* bytes of a result's text; more is cut out of its middle */
} kt__toolbox_opts;

typedef struct kt__toolbox kt__toolbox;

/* Starts the servers and lists their tools; one that cannot be had is a note. opts is copied; what it
 * points to must outlive the toolbox. */
kt_status KT_CHECKED kt__toolbox_open(const kt__toolbox_opts *opts, kt__toolbox **out,
                                      kt_error *err);
/* The same tools without their servers, from kt__toolbox_list: for playing a transcript again. */
kt_status KT_CHECKED kt__toolbox_recall(const json_t *list, const kt__toolbox_opts *opts,
                                        kt__toolbox **out, kt_error *err);
void kt__toolbox_close(kt__toolbox *toolbox); /* NULL is allowed */

/* Those that are not denied. */
size_t kt__toolbox_count(const kt__toolbox *toolbox);
const kt__agent_tool *kt__toolbox_at(const kt__toolbox *toolbox, size_t i);
const kt__agent_tool *kt__toolbox_find(const kt__toolbox *toolbox, const char *name);
/* [{"name", "server", "spec", "rule"}], for json_decref */
json_t *kt__toolbox_list(const kt__toolbox *toolbox);
/* Reads again the lists that may have changed. true: something did. */
bool kt__toolbox_refresh(kt__toolbox *toolbox);
/* This tool need not be asked about any more. */
void kt__toolbox_allow(kt__toolbox *toolbox, const char *name);
/* Calls it; text is what the model is told. false: it failed, and text says how. *cancelled: the wait
 * was ended by the user. */
bool kt__toolbox_call(kt__toolbox *toolbox, const kt__agent_tool *tool, const json_t *args,
                      kt__buf *text, bool *cancelled);

#endif
